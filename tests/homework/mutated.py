"""Copies of a good submission, each with something done to it that happens to notebooks.

``mutations(notebook, questions)`` gives, by name, the bytes of a file and the ids of the questions whose
answers are still whole in it.
"""

import copy
import io
import json
import zipfile


def mutations(notebook, questions):
    """Mutated copies.

    Parameters
    ----------
    notebook : dict
        A submission in which every question is answered.
    questions : list of (str, str, str)
        Of each question that a judge grades: its id, its name in the notebook, its stub as released.

    Returns
    -------
    dict of str to (bytes, set of str)
    """
    every = {id for id, _, _ in questions}
    made = {}

    def add(name, change, lost=(), dump=lambda value: json.dumps(value).encode()):
        changed = copy.deepcopy(notebook)
        result = change(changed)
        made[name] = dump(changed if result is None else result), every - set(lost)

    for id, name, stub in questions:
        _of_a_question(add, id, name, stub)
    _of_cells(add)
    _of_ids(add)
    _of_the_file(add, every)
    return made


def _of_a_question(add, id, name, stub):
    def at(notebook):
        return next(i for i, cell in enumerate(notebook["cells"]) if grade_id(cell) == id)

    def with_cells(change):
        def changed(notebook):
            change(notebook["cells"], at(notebook))

        return changed

    def duplicated(cells, i):
        cells.insert(i, copy.deepcopy(cells[i]))

    def stub_below(cells, i):
        cells.insert(i + 1, {**copy.deepcopy(cells[i]), "source": stub})

    def stub_above(cells, i):
        cells.insert(i, {**copy.deepcopy(cells[i]), "source": stub})

    def stub_below_without_id(cells, i):
        cells.insert(i + 1, code(stub))

    def deleted(cells, i):
        del cells[i]

    def to_text(cells, i):
        cells[i] = {"cell_type": "markdown", "metadata": cells[i]["metadata"], "source": cells[i]["source"]}

    def to_raw(cells, i):
        cells[i] = {"cell_type": "raw", "metadata": cells[i]["metadata"], "source": cells[i]["source"]}

    def split(cells, i):
        lines = cells[i]["source"].split("\n")
        middle = max(len(lines) - 1, 1)
        if len(lines) == 1:  # in the middle of the line
            middle = len(lines[0]) - 1
            first, rest = lines[0][:middle], lines[0][middle:]
        else:
            first, rest = "\n".join(lines[:middle]), "\n".join(lines[middle:])
        cells[i]["source"] = first
        cells.insert(i + 1, code(rest))

    def split_apart(cells, i):
        split(cells, i)
        cells.insert(i + 1, {"cell_type": "markdown", "metadata": {}, "source": "Here I stopped."})

    def to_the_end(cells, i):
        cells.append(cells.pop(i))

    def to_the_start(cells, i):
        cells.insert(0, cells.pop(i))

    def emptied(cells, i):
        cells[i]["source"] = ""

    def no_python(cells, i):
        cells[i]["source"] += "\n    return ) this ("

    def into_the_check(cells, i):
        cells[i + 1]["source"] = f"{cells[i]['source']}\n{cells[i + 1]['source']}"
        del cells[i]

    for change, lost in [
        (duplicated, ()), (stub_below, ()), (stub_above, ()), (stub_below_without_id, ()), (deleted, [id]),
        (to_text, [id]), (to_raw, [id]), (split, ()), (to_the_end, ()), (to_the_start, ()), (emptied, [id]),
        (no_python, [id]), (into_the_check, ()),
    ]:  # fmt: skip
        add(f"{id}: {change.__name__}", with_cells(change), lost)
    add(f"{id}: split_apart", with_cells(split_apart), [id])


def _of_cells(add):
    def backwards(notebook):
        notebook["cells"].reverse()

    def one_cell(notebook):
        notebook["cells"] = [
            code("\n".join(c["source"] for c in notebook["cells"] if c["cell_type"] == "code"))
        ]

    def pairs_merged(notebook):
        codes = [c for c in notebook["cells"] if c["cell_type"] == "code"]
        notebook["cells"] = [
            {**a, "source": a["source"] + "\n" + b["source"]} for a, b in zip(codes, codes[1:], strict=False)
        ]

    def failing_cells(notebook):
        for place in range(len(notebook["cells"]), -1, -1):
            notebook["cells"].insert(place, code("this_name_is_unknown + 1"))

    def no_python_cells(notebook):
        for place in range(len(notebook["cells"]), -1, -2):
            notebook["cells"].insert(place, code("for ( in ]"))

    def magics(notebook):
        notebook["cells"].insert(
            0, code("%matplotlib inline\n%load_ext nothing_of_this_name\n!pip list\nlen?")
        )
        notebook["cells"].insert(1, code("%%bash\necho 1"))

    def timed(notebook):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["source"] = "%%time\n" + cell["source"]

    def given_deleted(notebook):
        notebook["cells"] = [c for c in notebook["cells"] if not grade_id(c).startswith("given-")]

    def given_edited(notebook):
        for cell in notebook["cells"]:
            if grade_id(cell).startswith("given-"):
                cell["source"] += "\nprint('mine')\nnp = None"

    def given_doubled(notebook):
        notebook["cells"] = [
            copy.deepcopy(c) for c in notebook["cells"] for _ in range(1 + grade_id(c).startswith("given-"))
        ]

    def given_last(notebook):
        notebook["cells"].sort(key=lambda c: grade_id(c).startswith("given-"))

    def checks_deleted(notebook):
        notebook["cells"] = [c for c in notebook["cells"] if not grade_id(c).startswith("check-")]

    def checks_edited(notebook):
        for cell in notebook["cells"]:
            if grade_id(cell).startswith("check-"):
                cell["source"] = "raise SystemExit\nimport os\nos.abort()"

    def texts_deleted(notebook):
        notebook["cells"] = [c for c in notebook["cells"] if c["cell_type"] == "code"]

    def tabs(notebook):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["source"] = cell["source"].replace("    ", "\t")

    def comments(notebook):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["source"] = "# überprüft: 自我注意力 ✓\n" + cell["source"] + "\n# end\n\n\n"

    def strange_names(notebook):
        notebook["cells"].insert(4, code("größe = 3\n注意 = größe\n\ndef ƒ(ξ):\n    return ξ"))

    def empty_cells(notebook):
        notebook["cells"] = [c for cell in notebook["cells"] for c in (code(""), cell, code("   \n\n"))]

    def thousand_cells(notebook):
        notebook["cells"] += [code(f"unused_{i} = {i}") for i in range(1000)]

    for change in [
        backwards, one_cell, pairs_merged, failing_cells, no_python_cells, magics, timed, given_deleted,
        given_edited, given_doubled, given_last, checks_deleted, checks_edited, texts_deleted, tabs, comments,
        strange_names, empty_cells, thousand_cells,
    ]:  # fmt: skip
        add(change.__name__, change)


def _of_ids(add):
    def no_metadata(notebook):
        for cell in notebook["cells"]:
            cell.pop("metadata", None)
        del notebook["metadata"]

    def metadata_null(notebook):
        for cell in notebook["cells"]:
            cell["metadata"] = None
        notebook["metadata"] = None

    def no_cell_ids(notebook):
        for cell in notebook["cells"]:
            cell.pop("id", None)

    def one_id(notebook):
        for cell in notebook["cells"]:
            cell["id"] = "same"
            cell["metadata"]["nbgrader"]["grade_id"] = "double"

    def ids_exchanged(notebook):
        marks = [cell["metadata"] for cell in notebook["cells"]]
        for cell, mark in zip(notebook["cells"], marks[::-1], strict=True):
            cell["metadata"] = mark

    def ids_no_text(notebook):
        for number, cell in enumerate(notebook["cells"]):
            cell["metadata"]["nbgrader"]["grade_id"] = [number]

    def unlocked(notebook):
        for cell in notebook["cells"]:
            cell["metadata"]["nbgrader"] |= {"locked": False, "grade": True, "solution": True}

    def schema_one(notebook):
        for cell in notebook["cells"]:
            cell["metadata"]["nbgrader"]["schema_version"] = 1

    for change in [
        no_metadata, metadata_null, no_cell_ids, one_id, ids_exchanged, ids_no_text, unlocked, schema_one
    ]:  # fmt: skip
        add(change.__name__, change)


def _of_the_file(add, every):
    def same(notebook):
        pass

    def text_of(notebook):
        return json.dumps(notebook, ensure_ascii=False)

    def lists(notebook):
        for cell in notebook["cells"]:
            cell["source"] = cell["source"].splitlines(keepends=True)

    def crlf_sources(notebook):
        for cell in notebook["cells"]:
            cell["source"] = cell["source"].replace("\n", "\r\n")

    def julia(notebook):
        notebook["metadata"]["kernelspec"] = {"name": "julia-1.9", "language": "julia", "display_name": "J"}

    def no_kernel(notebook):
        notebook["metadata"].pop("kernelspec", None)

    def widgets(notebook):
        notebook["metadata"]["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {"a": 1}}}

    def minor_99(notebook):
        notebook["nbformat_minor"] = 99
        notebook["cells"].append({"cell_type": "novel", "metadata": {}, "content": {"a": [1]}})

    def no_format(notebook):
        del notebook["nbformat"], notebook["nbformat_minor"]

    def format_3(notebook):
        return as_worksheets(notebook, 3)

    def format_2(notebook):
        return as_worksheets(notebook, 2)

    def outputs_30_mb(notebook):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"] = [
                    {"output_type": "stream", "name": "stdout", "text": "0123456789" * 1_000_000}
                ]
                break
        else:
            raise AssertionError
        notebook["cells"][-1].setdefault("outputs", ["x" * 20_000_000])

    def attachments(notebook):
        notebook["cells"].insert(
            2,
            {
                "cell_type": "markdown",
                "metadata": {},
                "source": "![p](attachment:p.png)",
                "attachments": {"p.png": {"image/png": "iVBORw0KGgo="}},
            },
        )

    def damaged_cells(notebook):
        notebook["cells"] += [
            None,
            3,
            "text",
            {},
            {"cell_type": "code"},
            {"cell_type": "code", "source": {"a": 1}},
        ]

    def surrogates(notebook):
        notebook["cells"].append(code("broken = '\ud800'"))

    def from_a_server(notebook):
        return {"type": "notebook", "format": "json", "content": notebook}

    for change in [
        lists, crlf_sources, julia, no_kernel, widgets, minor_99, no_format, format_3, format_2,
        outputs_30_mb,         attachments, damaged_cells, surrogates, from_a_server,
    ]:  # fmt: skip
        add(change.__name__, change)
    add("crlf", same, dump=lambda n: json.dumps(n, indent=1).replace("\n", "\r\n").encode())
    add("mark", same, dump=lambda n: b"\xef\xbb\xbf" + text_of(n).encode())
    add("utf_16", same, dump=lambda n: text_of(n).encode("utf-16"))
    add("utf_16_without_mark", same, dump=lambda n: text_of(n).encode("utf-16-le"))
    add("utf_32", same, dump=lambda n: text_of(n).encode("utf-32"))
    add("latin_1",
        same, dump=lambda n: text_of({**n, "metadata": {"author": "Zoë"}}).encode("latin-1", "replace"))
    add("rest_behind", same, dump=lambda n: text_of(n).encode() + b"\n}\n]trailing")
    add("zero_bytes", same, dump=lambda n: text_of(n).encode() + bytes(4096))
    # No notebooks any more.
    add("empty", same, every, dump=lambda n: b"")
    add("zeros", same, every, dump=lambda n: bytes(1000))
    add("cut", same, every, dump=lambda n: text_of(n).encode()[:-500])
    add("script", same, every, dump=lambda n: b"import numpy as np\n\ndef double(x):\n    return 2 * x\n")
    add("web_page", same, every, dump=lambda n: b"<!DOCTYPE html><html><body>double</body></html>")
    add("pdf", same, every, dump=lambda n: b"%PDF-1.7 ...")
    add("zipped", same, every, dump=zipped)
    add(
        "merge_marks",
        same,
        every,
        dump=lambda n: json.dumps(n, indent=1).replace('"cells"', '\n<<<<<<< HEAD\n"cells"', 1).encode(),
    )
    add("other_json", same, every, dump=lambda n: b'{"name": "package", "version": 1}')
    add("a_list", same, every, dump=lambda n: b"[1, 2, 3]")
    add("a_number", same, every, dump=lambda n: b"17")
    add("deep", same, every, dump=lambda n: b'{"cells": ' + b"[" * 200_000)
    add("deep_and_closed", same, every, dump=lambda n: b'{"cells": ' + b"[" * 200_000 + b"]" * 200_000 + b"}")
    add("long_number", same, every, dump=lambda n: b'{"cells": ' + b"9" * 100_000 + b"}")


def code(source):
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}


def grade_id(cell):
    return (cell.get("metadata") or {}).get("nbgrader", {}).get("grade_id", "")


def as_worksheets(notebook, version):
    cells = []
    for cell in notebook["cells"]:
        cell = {k: v for k, v in cell.items() if k not in ("id", "execution_count")}
        if cell["cell_type"] == "code":
            cell["input"] = cell.pop("source")
            cell |= {"language": "python", "collapsed": False, "outputs": []}
        cells.append(cell)
    return {
        "metadata": {"name": ""},
        "nbformat": version,
        "nbformat_minor": 0,
        "worksheets": [{"cells": cells}],
    }


def zipped(notebook):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("hw1.ipynb", json.dumps(notebook))
    return file.getvalue()

"""What `course.py build` writes, keeps and refuses."""

import json

import build
import canonical
import kernel
import lesson
import nbformat
import pytest

GOOD = ["x = 3", "print('a', flush=True)\nprint('b')\nx", "import os\nos.listdir()"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(lesson, "NOTEBOOKS", tmp_path)
    return tmp_path


def write(folder, *sources, name="03_sample.ipynb", **metadata):
    """A notebook as an editor might leave it: no ids, no counts, old outputs, loose metadata."""
    cells = []
    for source in sources:
        cell = {"cell_type": "code", "source": source, "metadata": {"collapsed": True, **metadata}}
        cell["outputs"] = [nbformat.v4.new_output("stream", name="stdout", text="stored\n")]
        cells.append(cell | {"execution_count": None})
    notebook = {"cells": cells, "metadata": {"kernelspec": {"name": "mine", "display_name": "My"}}}
    path = folder / name
    path.write_text(json.dumps(notebook | {"nbformat": 4, "nbformat_minor": 4}), encoding="utf-8")
    return path


def outputs(path):
    return [lesson.output_text(cell).strip() for cell in lesson.read(path).code_cells]


def test_builds_and_then_changes_nothing(folder, capsys):
    path = write(folder, *GOOD)
    assert build.main(["3"]) == 0
    assert capsys.readouterr().out.startswith("03 written (")
    # The streams are one again, and the lesson ran in a folder of its own, which is empty.
    assert outputs(path) == ["", "a\nb\n\n3", "[]"]
    before = (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino)
    assert build.main([]) == 0
    found = capsys.readouterr()
    assert found.out.startswith("03 unchanged (") and not found.err
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before
    assert [entry.name for entry in folder.iterdir()] == [path.name]


@pytest.mark.parametrize("damage", [b'{"cells": [', b"[]", b"<<<<<<< HEAD", b"\xff\xfe"])
def test_a_damaged_lesson_is_named_and_the_others_are_built(folder, capsys, damage):
    write(folder, "1 + 1", name="04_good.ipynb")
    (folder / "03_sample.ipynb").write_bytes(damage)
    assert build.main([]) == 1
    found = capsys.readouterr()
    assert "03 not written: 03_sample.ipynb is not a notebook" in found.err
    assert found.out.startswith("04 written (")
    assert (folder / "03_sample.ipynb").read_bytes() == damage


def test_a_measured_cell_keeps_its_output_unless_told(folder):
    path = write(folder, "y = 4\nprint('fresh')", tags=["measured"])
    assert build.main([]) == 0
    assert outputs(path) == ["stored"]
    assert build.main(["--remeasure"]) == 0
    assert outputs(path) == ["fresh"]


def test_a_cell_whose_model_is_missing_keeps_its_output(folder, capsys):
    path = write(folder, "import no_such", tags=["needs-model"], attn={"needs": "json no_such"})
    assert build.main([]) == 0
    assert outputs(path) == ["stored"]
    assert "03 cell 1 keeps its output: no no_such here" in capsys.readouterr().out


@pytest.mark.parametrize(
    "source, words",
    [
        ("\n1 / 0", "cell 2 ('1 / 0'): ZeroDivisionError: division by zero"),
        ("import warnings\nwarnings.warn('mind')", "cell 2 ('import warnings'): it wrote to stderr:"),
        ("import os\nos._exit(1)", "cell 2 ('import os'): the kernel died"),
        ("input()", "cell 2 ('input()'): StdinNotImplementedError"),
    ],
)
def test_a_bad_cell_leaves_the_file_as_it_was(folder, capsys, source, words):
    path = write(folder, "x = 3", source)
    before = path.read_bytes()
    assert build.main([]) == 1
    assert words in capsys.readouterr().err
    assert path.read_bytes() == before
    assert [entry.name for entry in folder.iterdir()] == [path.name]


def test_the_kernel_ends_with_its_work(tmp_path):
    with kernel.running(nbformat.v4.new_notebook(), tmp_path) as client:
        manager = client.km
        assert manager.has_kernel
    assert not manager.has_kernel


def test_a_cell_without_end_is_stopped(folder, capsys, monkeypatch):
    monkeypatch.setattr(build.kernel, "CELL_SECONDS", 1)
    write(folder, "while True:\n    pass")
    assert build.main([]) == 1
    assert "cell 1 ('while True:'): it ran for more than 1 s" in capsys.readouterr().err


def test_one_bad_lesson_does_not_keep_back_the_next(folder, capsys):
    (folder / "03_broken.ipynb").write_text("{", encoding="utf-8")
    path = write(folder, "print('fresh')", name="04_sample.ipynb")
    assert build.main([]) == 1
    assert "03 not written: " in capsys.readouterr().err
    assert outputs(path) == ["fresh"]


def test_a_large_or_slow_lesson_is_told(folder, capsys, monkeypatch):
    monkeypatch.setattr(lesson, "BYTES", 1000)
    monkeypatch.setattr(lesson, "SECONDS", 0)
    write(folder, "print('x' * 1000)")
    assert build.main([]) == 1
    found = capsys.readouterr()
    assert "03 takes longer than its 0 s." in found.err
    assert "a lesson stays under" in found.err
    assert "03 written" in found.out


def test_a_file_changed_meanwhile_is_not_overwritten(folder):
    source = lesson.read(write(folder, "x = 3"))
    source.path.write_text("edited", encoding="utf-8")
    with pytest.raises(build.BuildError, match="changed during the build"):
        build.replace(source, "built")
    assert source.path.read_text(encoding="utf-8") == "edited"


def test_an_unknown_lesson_is_named_with_those_that_exist(folder, capsys):
    assert build.main([]) == 1
    assert "no lessons" in capsys.readouterr().err
    write(folder, "x = 3")
    assert build.main(["07"]) == 1
    assert capsys.readouterr().err == "There is no lesson 07. The lessons are: 03.\n"


# The canonical form, without a kernel


def form(*cells, **metadata):
    notebook = {"cells": list(cells), "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return canonical.canonical(nbformat.from_dict(notebook))


def cell(source="x", kind="markdown", **more):
    return {"cell_type": kind, "source": source, "metadata": {}} | more


def test_ids_are_kept_mended_and_never_random():
    cells = [cell("a", id="mine"), cell("b", id="mine"), cell("c", id="no good"), cell("c")]
    once, twice = ([c.id for c in form(*cells).cells] for _ in range(2))
    assert once == twice
    assert once[0] == "mine"
    assert len(set(once)) == 4
    moved = form(*reversed(cells[2:])).cells
    assert {c.id for c in moved} == set(once[2:])


def test_an_id_in_use_is_not_given_again():
    free = form(cell("a")).cells[0].id
    assert [c.id for c in form(cell("a"), cell("b", id=free)).cells][1] == free


def test_only_the_metadata_that_is_used_stays():
    kept = {"attn": {"numbers": ["3"]}, "nbgrader": {"grade": True}, "tags": ["measured"]}
    marked = kept | {"slideshow": {"slide_type": "slide"}}
    loose = {"collapsed": False, "editable": True, "execution": {"iopub": "now"}}
    cells = form(
        cell(metadata=marked | loose),
        cell(metadata={"slideshow": {"slide_type": "-"}, "tags": []}),
        language_info={"version": "3.9"},
        attn={"seconds": 15},
        widgets={"x": 1},
    )
    assert [c.metadata for c in cells.cells] == [marked, {}]
    assert set(cells.metadata) == {"attn", "kernelspec", "language_info"}
    assert cells.metadata.kernelspec.name == "python3"
    assert "version" not in cells.metadata.language_info


def test_outputs_are_joined_counted_and_free_of_this_machine():
    outs = [
        nbformat.v4.new_output("stream", name="stdout", text="a"),
        nbformat.v4.new_output("stream", name="stdout", text="b\n"),
        nbformat.v4.new_output("display_data", data={"text/plain": "c"}),
        nbformat.v4.new_output("stream", name="stdout", text="d"),
        nbformat.v4.new_output("execute_result", data={"text/plain": "e"}, execution_count=9),
        nbformat.v4.new_output("error", ename="E", evalue="f", traceback=["File /tmp/a.py"]),
    ]
    code = cell("x", "code", outputs=outs, execution_count=9)
    built = form(cell("x", "code", outputs=[], execution_count=None), code).cells[1]
    assert [out.get("text") for out in built.outputs[:3]] == ["ab\n", None, "d"]
    assert built.execution_count == built.outputs[3].execution_count == 2
    assert built.outputs[4].traceback == ["E: f"]


def test_a_widget_is_not_stored_and_the_still_figure_beside_it_is():
    still = nbformat.v4.new_output("display_data", data={"image/png": "aGk=", "text/plain": "one bar"})
    moving = nbformat.v4.new_output(
        "display_data", data={"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}
    )
    (code,) = form(cell("view", "code", outputs=[still, moving], execution_count=1)).cells
    assert [out.data["text/plain"] for out in code.outputs] == ["one bar"]


def test_the_text_is_plain_and_ends_in_a_newline():
    text = canonical.text(form(cell("吃了\r\n\n", id="a")))
    assert '"source": [\n    "吃了"\n   ]' in text
    assert text.endswith("}\n") and not text.endswith("\n\n")
    assert "\r" not in text
    assert list(json.loads(text)) == sorted(json.loads(text))

"""The one form in which a lesson is stored, so that equal lessons are equal bytes."""

import hashlib
import re

import nbformat

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
# No `version`: a lesson built by another Python must not differ.
LANGUAGE_INFO = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
CELL_METADATA = ("attn", "nbgrader", "slideshow", "tags")


def canonical(notebook):
    """A new notebook: format 4.5, counts 1 to N, the metadata that we use, and stable ids."""
    notebook = nbformat.from_dict(notebook)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    about = {"kernelspec": KERNELSPEC, "language_info": LANGUAGE_INFO}
    if "attn" in notebook.metadata:
        about["attn"] = notebook.metadata.attn
    notebook.metadata = nbformat.from_dict(about)
    _mend_ids(notebook.cells)
    count = 0
    for cell in notebook.cells:
        cell.source = cell.source.replace("\r\n", "\n").rstrip("\n")
        cell.metadata = _cell_metadata(cell.metadata)
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            cell.outputs = [_output(output, count) for output in merged(cell.get("outputs", []))]
    nbformat.validate(notebook)
    return notebook


def text(notebook):
    """What the file holds, for a notebook in canonical form."""
    return nbformat.v4.writes(notebook) + "\n"


def _cell_metadata(metadata):
    kept = {key: metadata[key] for key in CELL_METADATA if metadata.get(key)}
    if kept.get("slideshow", {}).get("slide_type", "-") in ("", "-", None):
        kept.pop("slideshow", None)  # "-" goes on with the slide, as no mark does
    return nbformat.from_dict(kept)


def _mend_ids(cells):
    """Keep each valid id where it first stands; a hash of the cell is the id of the others.

    Random ids would make two builds of a new cell differ.
    """
    taken = set()
    new = []
    for cell in cells:
        if re.fullmatch(r"[\w-]{1,64}", cell.get("id", ""), re.ASCII) and cell.id not in taken:
            taken.add(cell.id)
        else:
            new.append(cell)
    for cell in new:
        copy = 0
        while (cell_id := _hash(cell, copy)) in taken:
            copy += 1
        cell.id = cell_id
        taken.add(cell_id)


def _hash(cell, copy):
    return hashlib.sha256(f"{cell.cell_type}\n{cell.source}\n{copy}".encode()).hexdigest()[:8]


def merged(outputs):
    """Outputs without widgets, and the pieces of a stream that the kernel cut, joined again."""
    merged = []
    for output in outputs:
        if [*output.get("data", ())] == ["application/vnd.jupyter.widget-view+json"]:
            continue  # it lives as long as its kernel; beside it stands the still figure
        last = merged[-1] if merged else {}
        if output.output_type == "stream" and output.name == last.get("name"):
            last.text += output.text
        else:
            merged.append(nbformat.from_dict(output))
    return merged


def _output(output, count):
    if output.output_type == "execute_result":
        output.execution_count = count
    if output.output_type == "error":
        # The kernel's traceback names folders of this machine and lines of this Python.
        output.traceback = [f"{output.ename}: {output.evalue}"]
    return output

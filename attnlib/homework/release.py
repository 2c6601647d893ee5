"""Releasing an assignment: proved to be solvable, stripped, proved to give nothing away, then written.

The source earns full marks in the grader's own sandbox and the stripped notebook earns none; and no line of a
solution, no hidden number and nothing of the class's seed is left anywhere in what students get.
"""

import io
import json
import re
import tempfile
import zipfile
from pathlib import Path

import nbformat
import numpy as np

from attnlib.exercises.calls import is_tensor
from attnlib.homework import assignment as assignments
from attnlib.homework.classes import REGRADE, write_whole
from attnlib.homework.collect import Submission
from attnlib.homework.grading import LOST, Job, grade_one
from attnlib.homework.source import BEGIN, END, released, source

DATE = (1980, 1, 1, 0, 0, 0)      # of every file in a zip, so that the same source gives the same bytes


class NotReleased(Exception):
    """The assignment is not fit to be released; the text says what was found."""


def write_source(a_class, id):
    """Write an assignment's source into a class's folder; one that is there already is left alone.

    Returns
    -------
    path, bool
        Where it is, and whether it was written.
    """
    path = a_class.path("source", id, f"{id}.ipynb")
    if path.exists():
        return path, False
    made = source(assignments.load(id, a_class.seed), a_class.rules(id))
    write_whole(path, nbformat.writes(made).encode() + b"\n")
    return path, True


def release(a_class, id, sandbox):
    """Prove a class's source and write what students get, a folder and a zip.

    Parameters
    ----------
    a_class : Class
    id : str
    sandbox : Sandbox

    Returns
    -------
    folder, zip : path

    Raises
    ------
    NotReleased
        If the source is not that of the assignment, does not earn all its points, the stripped one earns any,
        or something leaks.
    """
    assignment = assignments.load(id, a_class.seed)
    path = a_class.path("source", id, f"{id}.ipynb")
    try:
        notebook = nbformat.read(path, as_version=4)
    except FileNotFoundError:
        remedy = f"homework sources --class {a_class.folder}"
        raise NotReleased(f"{path} is not there; make it with: {remedy}") from None
    except Exception as error:
        raise NotReleased(f"{path} is no notebook: {error}") from None
    notebook = with_rules(notebook, a_class.rules(id))
    found = faults(notebook, assignment, a_class.seed, sandbox)
    if found:
        raise NotReleased(f"{id} was not released.\n" + "\n".join(f"- {fault}" for fault in found))
    data = nbformat.writes(released(notebook)).encode() + b"\n"
    folder = a_class.path("release", id)
    archive = a_class.path("release", f"{id}.zip")
    write_whole(folder / f"{id}.ipynb", data)
    write_whole(archive, zipped({f"{id}/{id}.ipynb": data}))
    return folder, archive


def with_rules(notebook, rules):
    """A copy of a source whose title prints these rules in the place of those when it was made.

    Raises
    ------
    NotReleased
        If the title prints none, or somebody has written into them.
    """
    copy, rules = nbformat.from_dict(notebook), " ".join(rules)
    title = next((cell for cell in copy.cells if _id(cell) == "title"), None)
    text = title.source.rstrip() if title else ""
    if rules in text:
        return copy
    found = _RULES.search(text)
    if not found or found["regrade"] not in (REGRADE, rules[-len(found["regrade"]) :]):
        raise NotReleased("The rules at the end of the title cell are not those of class.json, and they are "
                          f"not as they were made. Put these there, or make the source anew:\n{rules}")
    title.source = text[: found.start()] + rules
    return copy


_RULES = re.compile(
    r"(?ms)^(There is no due date\.|Due [^.]*\. (What is handed in later earns no points\.|"
    r"It is taken up to [^.]*\. After that it earns no points\.)) (?P<regrade>.*)\Z"
)


def faults(notebook, assignment, class_seed, sandbox):
    """What keeps a source from being released, in sentences; empty where nothing does."""
    stripped = released(notebook)
    if found := _strange_cells(stripped, assignment):
        return found
    found = _not_right(graded(notebook, assignment, class_seed, sandbox))
    found += _not_empty(graded(stripped, assignment, class_seed, sandbox))
    return found + [f"It gives away {leak}." for leak in leaks(stripped, assignment, class_seed)]


def _strange_cells(notebook, assignment):
    """How a stripped notebook differs from the assignment in cells that the grader goes by."""
    ours = {_id(cell): cell for cell in released(source(assignment, ())).cells}
    theirs, found = {}, []
    for cell in notebook.cells:
        if _id(cell) in theirs:
            found.append(f"There are two cells {_id(cell)}.")
        if _id(cell):
            theirs[_id(cell)] = cell
    for id, cell in ours.items():
        mark, other = cell.metadata["nbgrader"], theirs.get(id)
        text = cell.cell_type == "markdown" and not mark["grade"]
        if other is None:
            found += [] if text else [f"The cell {id} is missing."]
            continue
        for key in ("grade", "solution", "locked", "points"):
            has, asked = other.metadata["nbgrader"].get(key), mark.get(key)
            if not text and has != asked:
                found.append(f"The cell {id} has {key} {has} where the grader has {asked}.")
        if cell.cell_type == "code" and mark["locked"] and other.source.strip() != cell.source.strip():
            found.append(f"The locked cell {id} was changed, and the grader runs its own.")
    for id in theirs.keys() - ours.keys():
        if theirs[id].metadata["nbgrader"].get("grade"):
            found.append(f"The grader has no cell {id}.")
    return [f"{fault} Make the source anew, or mend the cell." for fault in found]


def _id(cell):
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def graded(notebook, assignment, class_seed, sandbox):
    """What the grader says of a notebook."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{assignment.id}.ipynb"
        path.write_text(nbformat.writes(notebook), encoding="utf-8")
        handed_in = Submission("source", path.name, (str(path),))
        return grade_one(Job(handed_in, assignment.id, class_seed, sandbox))


def leaks(notebook, assignment, class_seed):
    """What a stripped notebook gives away.

    Parameters
    ----------
    notebook : nbformat.NotebookNode
    assignment : Assignment
    class_seed : int

    Returns
    -------
    list of str
        Each what it is and where.
    """
    text = nbformat.writes(notebook)
    # As it is read: in the file's own text a quotation mark has a backslash before it.
    plain = _plain("\n".join([*(cell.source for cell in notebook.cells), _all_texts(notebook)]))
    found = [f"the mark {mark!r}" for mark in (BEGIN, END, "BEGIN HIDDEN") if mark in text]
    if len(str(class_seed)) > 3 and re.search(rf"(?<!\d){class_seed}(?!\d)", text):
        found.append("the class's seed")
    for question in assignment.questions:
        secret = assignments.secret(class_seed, assignment.id, question.id)
        if str(secret) in text:
            found.append(f"the seed of {question.id}")
        asked = _plain("\n".join([question.stub, question.text, question.rubric, question.given]))
        for written in question.solution.splitlines():
            line = _plain(written)
            if len(line) >= 12 and line not in asked and line in plain:
                place = _place(notebook, line)
                found.append(f"a line of the solution of {question.id}, `{written.strip()}`, in {place}")
        found += [f"a hidden number of {question.id}, {number}" for number in hidden_numbers(question, secret)
                  if number in plain]  # fmt: skip
    for cell in notebook.cells:
        if cell.get("outputs"):
            found.append(f"an output of the cell {cell.id}")
        if set(cell.metadata) - {"nbgrader"}:
            found.append(f"metadata of the cell {cell.id}: {', '.join(set(cell.metadata) - {'nbgrader'})}")
    return found


def _place(notebook, plain):
    """The cell in which something stands, blanks aside."""
    for number, cell in enumerate(notebook.cells, 1):
        if plain in _plain(cell.source):
            return f"cell {number} ({_id(cell)})" if _id(cell) else f"cell {number}"
    return "the metadata, or across cells"


def hidden_numbers(question, seed):
    """The inputs of a function's hidden cases, as they would be printed: those with many digits."""
    if question.kind != "function":
        return set()
    seen = []

    def spy(*args):
        seen.extend(args)
        raise ValueError("only looking")

    question.judge(spy, seed)
    for arg in [arg for arg in seen if type(arg) is dict]:
        seen.extend(arg.values())
    arrays = [arg.detach().numpy() if is_tensor(arg) else arg for arg in seen]
    arrays = [array for array in arrays if isinstance(array, np.ndarray) and array.dtype.kind == "f"]
    return {f"{x:.6f}" for array in arrays for x in array.ravel().tolist() if x != round(x, 3)}


def zipped(files):
    """A zip of these files, by name, that is the same bytes each time."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in sorted(files.items()):
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return held.getvalue()


def _not_right(result):
    """What keeps a source from full marks."""
    faults = [f"The source: {result['reason']}"] if result["status"] in LOST else []
    for told in result["questions"]:
        if told["kind"] == "written":
            if not told["answer"]:
                faults.append(f"The source has no model answer to {told['id']}.")
        elif told["points"] != told["out_of"]:
            why = told["verdict"] or told["reason"]
            earned = f"{told['points'] or 0} of {told['out_of']}"
            faults.append(f"The solution of {told['id']} earns {earned}: {why}")
    return faults + [f"The source: {trouble['told']}" for trouble in result["troubles"]]


def _not_empty(result):
    """What a notebook that nobody has answered must not earn."""
    if result["status"] in LOST:
        return [f"The stripped notebook: {result['reason']}"]
    return [
        f"The stripped notebook earns {told['points']} for {told['id']} ({told['status']})."
        for told in result["questions"] if told["points"] or told["status"] != "not answered"
    ] + [f"The stripped notebook: {trouble['told']}" for trouble in result["troubles"]]


def _all_texts(notebook):
    """Every text in a notebook that stands in no cell's source."""
    kept = json.loads(nbformat.writes(notebook))
    for cell in kept["cells"]:
        cell.pop("source", None)
    return json.dumps(kept, ensure_ascii=False)


def _plain(text):
    """Without the blanks, in which a copy of a line may differ."""
    return "".join(text.split())

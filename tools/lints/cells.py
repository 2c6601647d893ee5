"""Rules on the notebook as a file: format, ids, counts, marks, metadata."""

import re
import warnings

import canonical as form
import nbformat
from lesson import BYTES, cell_attn, minutes, slide_type, tags

TAGS = {
    "hide-input", "measured", "needs-model", "nbval-ignore-output", "raises-exception", "remove-cell",
}
SLIDE_TYPES = {"slide", "subslide", "fragment", "skip", "notes", "-"}
CELL_SETTINGS = {"numbers", "needs"}
LESSON_SETTINGS = {"seconds", "torch"}


def valid(lesson):
    """The file is a valid notebook, without a warning from nbformat."""
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", ResourceWarning)  # of a file that other code left open
        try:
            nbformat.validate(lesson.notebook)
        except (nbformat.ValidationError, Warning) as error:
            yield f"not a valid notebook: {str(error).splitlines()[0]}"


def canonical(lesson):
    """The file holds the bytes that a build would write from these cells and outputs."""
    try:
        text = form.text(form.canonical(lesson.notebook))
    except nbformat.ValidationError as error:
        yield f"not a valid notebook: {str(error).splitlines()[0]}"
        return
    if text != lesson.text:
        line = _first_difference(text, lesson.text)
        yield (
            f"not in canonical form from line {line} on; "
            f"run `python3 course.py build {lesson.number}`"
        )


def _first_difference(a, b):
    pairs = zip(a.splitlines() + [None], b.splitlines() + [None], strict=False)
    return next((number for number, (x, y) in enumerate(pairs, 1) if x != y), "the last")


def size(lesson):
    """The file stays under 1 MB."""
    found = len(lesson.text.encode())
    if found >= BYTES:
        yield f"the file has {found / 1e6:.2f} MB, at most {BYTES / 1e6:.0f} MB is allowed"


def kernelspec(lesson):
    """The kernel is python3, which every machine has."""
    name = lesson.notebook.metadata.get("kernelspec", {}).get("name")
    if name != "python3":
        yield f"the kernelspec is {name!r}, it must be 'python3'"


def settings(lesson):
    """The lesson's `attn` metadata has no unknown key, and a time limit of at most a minute."""
    for key in set(lesson.attn) - LESSON_SETTINGS:
        yield f"unknown key {key!r} in the lesson's attn metadata; known: {_list(LESSON_SETTINGS)}"
    if not 0 < lesson.seconds <= 60:
        yield f"attn.seconds is {lesson.seconds}; a lesson runs in at most 60 s"


def ids(lesson):
    """Cell ids are there and differ."""
    seen = set()
    for index, cell in enumerate(lesson.cells):
        if not cell.get("id"):
            yield f"cell {index + 1} has no id; a build gives it one"
        elif cell.id in seen:
            yield f"two cells have the id {cell.id!r}; a build mends that"
        seen.add(cell.get("id"))


def counts(lesson):
    """Code cells are numbered 1 to N: nbval passes a cell without a number unread."""
    for expected, cell in enumerate(lesson.code_cells, 1):
        if cell.execution_count != expected:
            yield (
                f"cell {cell.get('id')}: execution_count is {cell.execution_count}, "
                f"it must be {expected}; run `python3 course.py build {lesson.number}`"
            )
            return


def marks(lesson):
    """Tags, slide types and settings of cells are known ones."""
    for cell in lesson.cells:
        for tag in set(tags(cell)) - TAGS:
            yield f"cell {cell.get('id')}: unknown tag {tag!r}; known: {_list(TAGS)}"
        if slide_type(cell) not in SLIDE_TYPES:
            yield (
                f"cell {cell.get('id')}: unknown slide type {slide_type(cell)!r}; "
                f"known: {_list(SLIDE_TYPES)}"
            )
        for key in set(cell_attn(cell)) - CELL_SETTINGS:
            yield (
                f"cell {cell.get('id')}: unknown key {key!r} in attn; "
                f"known: {_list(CELL_SETTINGS)}"
            )
        if ("needs-model" in tags(cell)) != ("needs" in cell_attn(cell)):
            yield (
                f"cell {cell.get('id')}: the tag needs-model and attn.needs, "
                "the modules' names, go together"
            )


def notes(lesson):
    """A speaker note is a markdown cell that begins with its minutes and stays out of the book."""
    for cell in lesson.cells:
        if slide_type(cell) != "notes":
            continue
        if cell.cell_type != "markdown":
            yield f"cell {cell.get('id')}: a speaker note must be a markdown cell"
        elif minutes(cell) is None:
            start = re.split(r"\n|(?<=[.]) ", cell.source)[0]
            yield (
                f"cell {cell.get('id')}: a speaker note begins with its minutes, "
                f"such as '*For the lecturer, 3 min.* ', not with {start!r}"
            )
        if "remove-cell" not in tags(cell):
            yield f"cell {cell.get('id')}: a speaker note has the tag remove-cell"


def _list(words):
    return ", ".join(sorted(words))


RULES = [valid, canonical, size, kernelspec, settings, ids, counts, marks, notes]

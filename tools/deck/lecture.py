"""A lecture: slides chosen from several lessons, in an order of its own, as one notebook for a deck."""

import tomllib

import lesson
import nbformat
from deck.page import DeckError, heading, slides_of
from nbformat.v4 import new_markdown_cell, new_notebook

KEYS = {"lesson": ("lesson", "slides"), "text": ("text", "notes")}


def composed(path):
    """The notebook of the lecture in a TOML file.

    Its parts are slides of a ``lesson``, named by their headings, or a slide of the lecture's own, ``text``
    with ``notes``. A heading stands for its slide and for those without one that follow.
    """
    try:
        read = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DeckError(f"There is no lecture {path}; docs/lectures has some to begin with.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DeckError(f"{path.name} is no TOML file: {error}.") from error
    cells = []
    for number, part in enumerate(read.get("part", ()), start=1):
        kind = next((kind for kind in KEYS if kind in part), None)
        if kind is None or set(part) != set(KEYS[kind]):
            raise DeckError(f"{path.name}: part {number} must have lesson and slides, or text and notes; "
                            f"it has {', '.join(part) or 'nothing'}.")  # fmt: skip
        cells += own_slide(part, number) if kind == "text" else lesson_slides(path, part)
    if not cells:
        raise DeckError(f"{path.name} has no part; see docs/lectures for an example.")
    return new_notebook(cells=cells)


def own_slide(part, number):
    kinds = {"text": "slide", "notes": "notes"}
    return [new_markdown_cell(part[key].strip(), id=f"part-{number}-{key}",
                              metadata={"slideshow": {"slide_type": kind}})
            for key, kind in kinds.items()]  # fmt: skip


def lesson_slides(path, part):
    """Copies of the slides' cells; the first of them opens a column."""
    try:
        (notebook,) = lesson.find([part["lesson"]])
    except LookupError as error:
        raise DeckError(f"{path.name}: {error}") from error
    slides = slides_of(lesson.read(notebook).cells)
    named = [heading(slide) for slide in slides]
    cells = []
    for wanted in part["slides"]:
        if wanted not in named:
            there = "; ".join(filter(None, named))
            raise DeckError(f"{path.name}: lesson {part['lesson']} has no slide {wanted!r}. It has: {there}.")
        first = named.index(wanted)
        last = next((i for i in range(first + 1, len(slides)) if named[i]), len(slides))
        for slide in slides[first:last]:
            cells += [nbformat.from_dict(cell) for cell in slide.cells + slide.notes]
    cells[0].metadata["slideshow"] = {"slide_type": "slide"}
    return cells

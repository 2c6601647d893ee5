"""A lecture: slides chosen from several lessons, in an order of its own, as one notebook for a deck."""

import tomllib

import lesson
import nbformat
from deck.page import DeckError, heading, read, slides_of
from nbformat.v4 import new_markdown_cell, new_notebook

KEYS = {"lesson": ("lesson", "slides"), "text": ("text", "notes")}


def composed(path):
    """The notebook of the lecture in a TOML file.

    Its parts are slides of a ``lesson``, named by their headings, or a slide of the lecture's own, ``text``
    with ``notes``. A heading stands for its slide and for those without one that follow.
    """
    try:
        written = tomllib.loads(path.read_text(encoding="utf-8-sig"))     # Windows may begin it with a mark
    except (FileNotFoundError, IsADirectoryError, PermissionError):
        raise DeckError(f"There is no lecture {path}; docs/lectures has some to begin with.") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DeckError(f"{path.name} is no TOML file: {error}.") from error
    if unknown := written.keys() - {"part"}:
        raise DeckError(f"{path.name} has {', '.join(sorted(unknown))}; it must have nothing but [[part]].")
    parts = written.get("part", [])
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        raise DeckError(f"{path.name}: each part must begin with [[part]], in two pairs of brackets.")
    cells = []
    for number, part in enumerate(parts, start=1):
        kind = kind_of(part, f"{path.name}: part {number}")
        cells += own_slide(path, part, number) if kind == "text" else lesson_slides(path, part)
    if not cells:
        raise DeckError(f"{path.name} has no part; see docs/lectures for an example.")
    return new_notebook(cells=cells)


def kind_of(part, name):
    """Whether a part is slides of a "lesson" or a "text" of its own. DeckError where it is neither."""
    kind = next((kind for kind in KEYS if kind in part), None)
    if kind is None or set(part) != set(KEYS[kind]):
        raise DeckError(f"{name} must have lesson and slides, or text and notes; "
                        f"it has {', '.join(part) or 'nothing'}.")  # fmt: skip
    for key in KEYS[kind]:
        texts = part[key] if key == "slides" else [part[key]]
        if not isinstance(texts, list) or not texts or not all(map(_is_words, texts)):
            wanted = "a list of headings in quotes" if key == "slides" else "words in quotes"
            raise DeckError(f"{name}: {key} must be {wanted}; it is {part[key]!r}.")
        if twice := [text for text in texts if texts.count(text) > 1]:
            raise DeckError(f"{name} names the slide {twice[0]!r} twice.")
    return kind


def _is_words(text):
    return isinstance(text, str) and bool(text.strip())


def own_slide(path, part, number):
    """The cells of a slide of the lecture's own; its pictures may lie beside the lecture's file."""
    kinds, folder = {"text": "slide", "notes": "notes"}, str(path.absolute().parent)
    return [new_markdown_cell(part[key].strip(), id=f"part-{number}-{key}",
                              metadata={"slideshow": {"slide_type": kind}, "folder": folder})
            for key, kind in kinds.items()]  # fmt: skip


def lesson_slides(path, part):
    """Copies of the slides' cells; the first of them opens a column."""
    try:
        (notebook,) = lesson.find([part["lesson"]])
    except LookupError as error:
        raise DeckError(f"{path.name}: {error}") from error
    slides = slides_of(read(notebook).cells)
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

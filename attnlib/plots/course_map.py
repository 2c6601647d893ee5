"""The map of the course: which lesson needs which, with the short path as the trunk of a tree."""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from attnlib.plots.style import DPI, INK, MARKERS, PALETTE, WIDTH, finish, text_width, use_style

__all__ = ["lesson_map"]

PARTS = {
    "I": "What attention is",
    "II": "How it computes",
    "III": "Whole models",
    "IV": "Making it cheaper",
    "V": "Case studies",
}


class Lesson(NamedTuple):
    """A lesson; of those that it ``needs`` the first is the one that it hangs on in the map."""

    number: str
    title: str
    part: str
    needs: tuple[str, ...] = ()
    short: bool = False


# The order and the names are those of README's table; a test holds the two together.
LESSONS = (
    Lesson("00", "start here", "", short=True),
    Lesson("01", "from lookup to attention", "I", ("00",), short=True),
    Lesson("02", "rebuilding word vectors", "I", ("01",)),
    Lesson("03", "weight matrices", "I", ("01",), short=True),
    Lesson("04", "score functions", "I", ("03",)),
    Lesson("05", "softmax", "II", ("03",), short=True),
    Lesson("06", "scaling and variance", "II", ("05",), short=True),
    Lesson("07", "softmax saturation", "II", ("06",)),
    Lesson("08", "masking", "II", ("06",), short=True),
    Lesson("09", "multi-head attention", "II", ("08",), short=True),
    Lesson("10", "positions", "II", ("09", "02")),
    Lesson("11", "three attentions", "III", ("09",), short=True),
    Lesson("12", "the Transformer", "III", ("11",), short=True),
    Lesson("13", "large vocabularies", "III", ("12",)),
    Lesson("14", "reading a Transformer", "III", ("12",)),
    Lesson("15", "Llama 3", "III", ("12", "10")),
    Lesson("16", "bug hunt", "III", ("12",)),
    Lesson("17", "along the sequence", "IV", ("10",)),
    Lesson("18", "across the heads", "IV", ("15",)),
    Lesson("19", "on the hardware", "IV", ("18",)),
    Lesson("20", "linear attention", "IV", ("09",)),
    Lesson("21", "refining the weights", "V", ("09",)),
    Lesson("22", "linear attention for images", "V", ("20",)),
    Lesson("23", "Lightning attention and MiniMax-01", "V", ("20",)),
    Lesson("24", "Transformer²", "V", ("12",)),
    Lesson("25", "Titans", "V", ("20", "12")),
)

_WAY = "#888888"      # trunk and branches
_TRUNK = 5            # points
_ROW = 30             # pixels from one lesson to the next
_TITLE = 50           # pixels of the figure's title
_LEFT = 24            # pixels before the trunk
_DOT = 14             # pixels from a dot to its words
_GAP = 14             # pixels between words, line and dot


@use_style()
def lesson_map(*, title="Which lessons does a lesson need?"):
    """Draw the lessons as a tree: the short path is the trunk, every other lesson hangs on one it needs.

    Parameters
    ----------
    title : str, optional
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure
        A mark a lesson, in shape and colour that of its part. A lesson that needs another one besides the
        one that it hangs on says so in brackets.

    Examples
    --------
    >>> lesson_map()
    <Figure size 1000x560 with 1 Axes>
    """
    places = _places()
    height = _TITLE + _ROW * (1 + max(row for row, _ in places.values()))
    fig = Figure(figsize=(WIDTH, height / DPI))
    ax = fig.subplots()
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    columns = _columns(places)
    points = {number: (columns[column], row * _ROW) for number, (row, column) in places.items()}
    trunk = np.array([points[lesson.number] for lesson in LESSONS if lesson.short])
    ax.plot(*trunk.T, color=_WAY, linewidth=_TRUNK, zorder=1, solid_capstyle="round")
    for lesson in LESSONS:
        if not lesson.short:
            _branch(ax, points, lesson)
        _station(ax, points[lesson.number], lesson)
    _key(ax)
    ax.set_title(title)
    fig.get_layout_engine().set(w_pad=0, h_pad=0.05)
    ax.set_xlim(0, WIDTH * DPI)
    ax.set_ylim(height - _TITLE - _ROW / 2, -_ROW / 2)
    return finish(fig)


def lines_of_need():
    """The map in words: which lessons hang on which, for those who do not see it."""
    path = " ".join(lesson.number for lesson in LESSONS if lesson.short)
    hang = {}
    for lesson in LESSONS:
        if not lesson.short:
            hang.setdefault(lesson.needs[0], []).append(lesson.number)
    branches = "; ".join(f"on {number} hang {', '.join(found)}" for number, found in hang.items())
    return f"A tree of lessons. Its trunk is the short path, {path}. Branches: {branches}."


def _places():
    """Row and column of each lesson; a first branch shares the row of what it hangs on."""
    places, last = {}, -1

    def place(lesson, row, column):
        nonlocal last
        places[lesson.number], last = (row, column), max(last, row)
        for other in LESSONS:
            if not other.short and other.needs[0] == lesson.number:
                first = not any(at == (row, column + 1) for at in places.values())
                place(other, row if first else last + 1, column + 1)

    for lesson in LESSONS:
        if lesson.short:
            place(lesson, last + 1, 0)
    return places


def _columns(places):
    """Where each column of dots stands, in pixels: right of the words that have branches."""
    on = {lesson.needs[0] for lesson in LESSONS if not lesson.short}
    columns = [_LEFT]
    while any(column == len(columns) for _, column in places.values()):
        before = len(columns) - 1
        widest = max(_words_end(lesson) for lesson in LESSONS
                     if places[lesson.number][1] == before and lesson.number in on)
        columns.append(columns[-1] + widest + 2 * _GAP)
    return columns


def _label(lesson):
    also = "".join(f" (and {number})" for number in lesson.needs[1:])
    return f"{lesson.number} {lesson.title}{also}"


def _words_end(lesson):
    return _DOT + text_width(_label(lesson)) + 6


def _branch(ax, points, lesson):
    """A line from the end of the words above to the dot: level, or down and then level."""
    parent = next(other for other in LESSONS if other.number == lesson.needs[0])
    (x0, y0), (x1, y1) = points[parent.number], points[lesson.number]
    start, turn = x0 + _words_end(parent), x1 - _GAP
    ax.plot([start, turn, turn, x1], [y0, y0, y1, y1], color=_WAY, linewidth=1.5, zorder=1)


def _station(ax, point, lesson):
    if lesson.part:
        _mark(ax, *point, lesson.part)
    else:
        ax.plot(*point, "o", color=INK, markersize=11, markerfacecolor="white", markeredgewidth=2)
    ax.annotate(_label(lesson), (point[0] + _DOT, point[1]), color=INK, va="center_baseline")


def _mark(ax, x, y, part):
    index = list(PARTS).index(part)
    ax.plot(x, y, MARKERS[index], color=PALETTE[index], markersize=13, markeredgecolor="white",
            markeredgewidth=1.5)


def _key(ax):
    """What the marks and the trunk mean, in the free corner at the top right."""
    left = WIDTH * DPI - 290
    for row, (part, name) in enumerate(PARTS.items()):
        _mark(ax, left, row * _ROW, part)
        ax.annotate(f"Part {part}: {name}", (left + _DOT, row * _ROW), va="center_baseline")
    row = len(PARTS)
    ax.plot([left - 8, left + 8], [row * _ROW] * 2, color=_WAY, linewidth=_TRUNK, solid_capstyle="round")
    ax.annotate("the short path", (left + _DOT + 4, row * _ROW), va="center_baseline")

"""Wirings side by side: which part of a block feeds which."""

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.plots._inputs import to_dict
from attnlib.plots.style import (
    DPI,
    INK,
    PALETTE,
    PIXELS_PER_POINT,
    TEXT,
    WIDTH,
    finish,
    text_width,
    use_style,
)

__all__ = ["wirings"]

_ROW = 76  # pixels from one row of boxes to the next
_AROUND = 100  # pixels of the titles
_LINE = 1.3 * TEXT * PIXELS_PER_POINT
_TINT = 0.16  # how much of its colour a box has; the rest is white


@use_style()
def wirings(panels, *, marked=(), title):
    """Draw blocks as boxes and arrows, the input below and the output on top.

    Parameters
    ----------
    panels : dict of pairs (boxes, arrows)
        By the panel's title, at most three. ``boxes`` is a dict of a text, which may have two lines, to its
        place ``(column, row)``; columns run from 0 to 1, row 0 is the lowest. ``arrows`` holds pairs of
        these texts, (from, to).
    marked : collection of texts
        Boxes in the second colour, with a thick edge.
    title : str
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError, TypeError
        For no panel or more than three, for arrows between boxes that are not there, and for places that
        are no pairs of numbers or lie outside.

    Examples
    --------
    >>> wirings({"one": ({"x": (0.5, 0), "norm": (0.5, 1)}, [("x", "norm")])}, title="What feeds what?")
    <Figure size 1000x252 with 1 Axes>
    """
    panels = to_dict(panels, "panels", "a pair (boxes, arrows)")
    if not 1 <= len(panels) <= 3:
        raise ValueError(f"panels has {len(panels)} entries; one to three fit side by side.")
    panels = {name: _wiring(boxes, arrows, f"panels[{name!r}]") for name, (boxes, arrows) in panels.items()}
    if isinstance(marked, str):
        raise TypeError(f"marked must be a collection of boxes' texts; got the string {marked!r}.")
    marked = [str(text) for text in marked]
    rows = 1 + max(row for boxes, _ in panels.values() for _, row in boxes.values())
    fig = Figure(figsize=(WIDTH, round(_AROUND + _ROW * rows) / DPI))
    wide = WIDTH * DPI / len(panels) - 20
    for ax, (name, (boxes, arrows)) in zip(
        fig.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        ax.set(xticks=[], yticks=[], xlim=(0, wide), ylim=(-0.5 * _ROW, (rows - 0.5) * _ROW), title=name)
        ax.spines[:].set_visible(False)
        drawn = {text: _box(ax, text, place, wide, text in marked) for text, place in boxes.items()}
        for start, end in arrows:
            _arrow(ax, drawn[start], drawn[end])
    fig.suptitle(title)
    return finish(fig)


def _wiring(boxes, arrows, name):
    """Boxes and arrows, checked, with texts in both."""
    boxes = to_dict(boxes, f"the boxes of {name}", "a place (column, row)")
    if not boxes:
        raise ValueError(f"{name} has no boxes.")
    for text, place in boxes.items():
        if np.shape(place) != (2,) or not (0 <= place[0] <= 1 and place[1] >= 0):
            raise ValueError(f"{name} has {text!r} at {place!r}; a place is a column in 0..1 and a row.")
    arrows = [tuple(map(str, pair)) for pair in arrows]
    for pair in arrows:
        if len(pair) != 2 or not set(pair) <= set(boxes):
            raise ValueError(f"{name} has an arrow {pair!r}, which does not lead from a box to a box.")
    return boxes, arrows


def _box(ax, text, place, wide, marked):
    """A box; returns its middle, and half its width and height."""
    colour, edge = np.array(to_rgb(PALETTE[1 if marked else 0])), 3.5 if marked else 1.5
    half = max(map(text_width, text.split("\n"))) / 2 + 10, (text.count("\n") + 1) * _LINE / 2 + 4
    x, y = half[0] + 4 + place[0] * (wide - 2 * half[0] - 8), place[1] * _ROW
    ax.add_patch(Rectangle((x - half[0], y - half[1]), 2 * half[0], 2 * half[1], edgecolor=colour,
                           facecolor=1 - _TINT * (1 - colour), linewidth=edge))  # fmt: skip
    ax.text(x, y, text, ha="center", va="center")
    return x, y, *half


def _arrow(ax, start, end):
    """From edge to edge, upwards; straight up where the boxes allow it, sideways where they share a row."""
    (x, y, w, h), (to_x, to_y, to_w, to_h) = start, end
    if y == to_y:
        side = np.sign(to_x - x)
        begin, target = (x + side * w, y), (to_x - side * to_w, to_y)
    else:
        side = np.sign(to_y - y)
        low, high = max(x - w, to_x - to_w) + 12, min(x + w, to_x + to_w) - 12
        at = (low + high) / 2 if low <= high else None
        begin = (x if at is None else at, y + side * h)
        target = (to_x if at is None else at, to_y - side * to_h)
    ax.annotate("", target, begin,
                arrowprops={"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0})  # fmt: skip

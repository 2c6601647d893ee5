"""Vectors in the plane: keys as points, queries as arrows."""

import numpy as np
from matplotlib.figure import Figure

from attnlib.plots._inputs import to_array, to_dict, to_words
from attnlib.plots.style import (
    DPI,
    FAINT,
    HEIGHT,
    INK,
    PALETTE,
    PIXELS_PER_POINT,
    TEXT,
    WIDTH,
    finish,
    text_width,
    use_style,
)

__all__ = ["plane"]

_EM = TEXT * PIXELS_PER_POINT          # pixels
_MARK = 8                              # pixels from the middle of a mark to its edge
_AWAY = 16                             # pixels from the middle of a mark to its label
_RING = _MARK * np.array(
    [(np.cos(turn), np.sin(turn)) for turn in np.arange(8) * np.pi / 4]
)
_AXES = np.array([WIDTH * DPI - 100, HEIGHT * DPI - 110])    # pixels, roughly
_LEAST = 100                           # pixels across that labels on both sides leave to the points
_WIDEST = (_AXES[0] - _LEAST) / 2 - 2 * _AWAY                # pixels of a label


@use_style()
def plane(
    points, labels, *, arrows=None, hull=False, title,
    xlabel="first number", ylabel="second number",
):
    """Draw labelled points, arrows from the origin, and the outline around the points.

    Parameters
    ----------
    points : (n, 2) array
    labels : n words
    arrows : dict, optional
        Label to the (2,) vector that the arrow reaches.
    hull : bool
        Draw the convex hull: the smallest outline without dents that holds all points.
    title : str
        The question that the figure answers.
    xlabel, ylabel : str
        What the two numbers of a vector stand for.

    Returns
    -------
    matplotlib.figure.Figure
        With the same unit on both axes, so that angles and lengths look as they are.

    Raises
    ------
    ValueError, TypeError
        For points or arrows that do not lie in the plane, labels that do not fit the points, or a label
        so wide that the points would have no room.

    Examples
    --------
    >>> plane([[1, 0], [0, 1]], ["salt", "sugar"], arrows={"query": [1, 1]}, title="Which is nearer?")
    <Figure size 1000x500 with 1 Axes>
    """
    points, labels = to_array(points, "points"), to_words(labels, "labels")
    if points.shape != (len(labels), 2):
        raise ValueError(
            f"points has shape {points.shape}, but {len(labels)} labels call for "
            f"({len(labels)}, 2): one row a point, two numbers each."
        )
    tips = {label: _tip(tip, label) for label, tip in to_dict(arrows, "arrows", "vector").items()}
    _at_most_colours(tips)
    widest = _widest([*labels, *tips])

    fig = Figure()
    ax = fig.subplots()
    ax.axhline(0, color=FAINT, zorder=0)
    ax.axvline(0, color=FAINT, zorder=0)
    outline = convex_hull(points) if hull else np.empty((0, 2))
    if hull:
        ax.fill(*outline.T, facecolor="none", edgecolor=INK, linestyle="--", linewidth=1.5)
    ax.plot(*points.T, "o", color=PALETTE[0], markersize=10)
    colours = dict(zip(tips, PALETTE[1:], strict=False))
    for label, tip in tips.items():
        ax.annotate(
            "", tip, (0, 0),
            arrowprops={"arrowstyle": "-|>,head_width=0.3,head_length=0.6", "color": colours[label],
                        "linewidth": 2.5, "shrinkA": 0, "shrinkB": 0},
        )
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    _frame(ax, np.vstack([points, *tips.values(), [0, 0]]), widest)
    finish(fig)
    _equal_units(ax)
    # a point's label stands away from the other points, an arrow's label beyond its tip
    named = [(label, point, PALETTE[0], points.mean(0))
             for label, point in zip(labels, points, strict=True)]
    named += [(label, tip, colours[label], (0, 0)) for label, tip in tips.items()]
    _write_labels(ax, named, _occupied(points, tips.values(), outline))
    return fig


def _tip(tip, label):
    tip = to_array(tip, f"arrows[{label!r}]")
    if tip.shape != (2,):
        raise ValueError(f"arrows[{label!r}] has shape {tip.shape}, but must be (2,).")
    return tip


def _at_most_colours(tips):
    if len(tips) >= len(PALETTE):
        raise ValueError(
            f"arrows has {len(tips)} entries, but only {len(PALETTE) - 1} can be told apart."
        )


def _widest(words):
    """How wide the widest label is, in pixels; what is beside a point must leave it in view."""
    width, word = max((text_width(word), word) for word in words)
    if width > _WIDEST:
        raise ValueError(
            f"The label {word!r} is {width:.0f} pixels wide, but beside the points there is room for "
            f"{_WIDEST:.0f}. Shorten it."
        )
    return width


def _frame(ax, shown, widest):
    """Limits that hold everything that is shown, and labels up to ``widest`` pixels beside it."""
    low, high = shown.min(0), shown.max(0)
    span = np.maximum(high - low, 1e-9)
    beside = np.array([widest + 2 * _AWAY, _EM + 2 * _AWAY])
    unit = (span / (_AXES - 2 * beside)).max()                  # what one pixel stands for
    half = unit * _AXES / 2
    ax.set_xlim((low + high)[0] / 2 - half[0], (low + high)[0] / 2 + half[0])
    ax.set_ylim((low + high)[1] / 2 - half[1], (low + high)[1] / 2 + half[1])


def _equal_units(ax):
    """Stretch the horizontal limits, now that the size of the axes is known."""
    box = ax.get_window_extent()
    low, high = ax.get_ylim()
    half = (high - low) / 2 * box.width / box.height
    middle = sum(ax.get_xlim()) / 2
    ax.set_xlim(middle - half, middle + half)
    ax.set_aspect("equal")


def convex_hull(points):
    """Corners of the convex hull of (n, 2) points, against the clock (Andrew, 1979)."""
    points = np.unique(points, axis=0)                          # sorted by x, then y
    if len(points) < 3:
        return points

    def half_way_round(points):
        corners = []
        for point in points:
            while len(corners) >= 2 and _turn(corners[-2], corners[-1], point) <= 0:
                corners.pop()
            corners.append(point)
        return corners[:-1]

    return np.array(half_way_round(points) + half_way_round(points[::-1]))


def _turn(a, b, c):
    """Positive when the way from a over b to c turns left."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _occupied(points, tips, outline):
    """Places, (m, 2), where a label would hide something."""
    along = np.linspace(0, 1, 21)[:, None]
    arrows = [along * tip for tip in tips]
    edges = [(1 - along) * a + along * b
             for a, b in zip(outline, np.roll(outline, -1, axis=0), strict=True)]
    return np.vstack([points, *arrows, *edges])


def _write_labels(ax, named, occupied):
    """Write each label beside its place, on the side where it hides least."""
    to_pixels = ax.transData.transform
    taken = np.vstack([to_pixels(occupied), *(to_pixels(place) + _RING for _, place, *_ in named)])
    for label, place, colour, behind in named:
        at = to_pixels(place)
        size = np.array([text_width(label), _EM])
        middle = _free_side(at, size, taken, at - to_pixels(behind))
        taken = np.vstack([taken, _inside(middle, size)])
        offset = (middle - at) / PIXELS_PER_POINT
        ax.annotate(
            label, place, offset, textcoords="offset points", color=colour,
            ha="center", va="center_baseline",
        )


def _free_side(at, size, taken, outward):
    """The middle of the label's box: of eight sides the emptiest, outward ones first."""
    sides = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if (x, y) != (0, 0)]
    sides.sort(key=lambda side: -np.dot(side, outward) / np.linalg.norm(side))
    middles = [at + np.array(side) * (_AWAY + size / 2) for side in sides]

    def room(middle):
        beyond = np.maximum(np.abs(taken - middle) - size / 2, 0)
        return min(np.hypot(*beyond.T).min(), _AWAY)            # more room than this is no gain

    return max(middles, key=room)


def _inside(middle, size):
    """Places inside a label's box, so that the next label keeps off it."""
    across = np.linspace(-0.5, 0.5, 9)
    return middle + np.stack([across * size[0], np.zeros(9)], axis=1)

"""The attention map: which query looks at which key."""

from math import ceil

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.plots._inputs import to_weights, to_words, weight_text
from attnlib.plots.style import (
    DPI,
    FAINT,
    HEIGHT,
    PALETTE,
    PIXELS_PER_POINT,
    TEXT,
    WEIGHT_MAP,
    WIDTH,
    finish,
    text_colour,
    text_width,
    use_style,
)

__all__ = ["attention_heatmap"]

LARGEST_WITH_NUMBERS = 8     # keys and queries

_EM = TEXT * PIXELS_PER_POINT           # pixels of one Chinese character
_LINE = 1.2 * _EM                       # pixels from one line of text to the next
_TALLEST_CELL = 60                      # pixels
_COLOUR_BAR = 110                       # pixels that it takes at the right
_FLATTEST = 0.6                         # height of a cell, as a part of its width
_SURE, _POSSIBLE = (4, "-"), (2, (0, (3, 1.5)))     # a link's frame: points, dashes
_CASING = 2.5                           # points of white around a frame, which a blue cell would swallow
_INSET = 0.07                           # of a cell, so that neighbours' frames do not cover each other
_LEGEND = "thick frame: sure link    dashed frame: possible link"


@use_style()
def attention_heatmap(weights, queries, keys, *, sure=(), possible=(), title=None):
    """Draw attention weights: queries down, keys across, white for 0 and dark blue for 1.

    Parameters
    ----------
    weights : (Lq, Lk) array, or a dict of such arrays
        Each in 0..1. A dict gives one panel an entry, side by side; its keys are their titles.
    queries, keys : Lq and Lk words
        The tokens on the two axes, shared by all panels.
    sure, possible : collections of pairs (query, key), optional
        Cells that get a thick or a dashed frame, in every panel: the links of a word alignment. What is
        sure may stand among the possible too; its frame is thick.
    title : str, optional
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure
        With the weights as numbers in the cells where there are at most 8 queries and 8 keys, and
        so few panels that the numbers fit: two of eight keys. Otherwise with a colour bar.

    Raises
    ------
    ValueError, TypeError
        For weights that do not fit the words or do not lie in 0..1, for links that are no cells.

    Examples
    --------
    >>> attention_heatmap([[0.9, 0.1], [0.3, 0.7]], "你我", "我你", title="Who looks at whom?")
    <Figure size 1000x233 with 1 Axes>
    """
    queries, keys = to_words(queries, "queries"), to_words(keys, "keys")
    shape = len(queries), len(keys)
    panels = _panels(weights, "weights", "map", lambda panel, name: to_weights(panel, shape, name))
    links = _links(sure, possible, shape)
    beside = _pixels(queries) + 60 + 30 * (len(panels) - 1)   # words, "query", between panels
    around = 50 + 40 * (title is not None) + 30 * isinstance(weights, dict)   # "key", titles
    around += 30 * bool(links)                                                # the legend
    cell, upright = _cells(len(panels), len(queries), keys, beside, around)
    numbers = (
        max(len(queries), len(keys)) <= LARGEST_WITH_NUMBERS and cell[0] > text_width("0.00") + 2
    )
    if not numbers:
        cell, upright = _cells(len(panels), len(queries), keys, beside + _COLOUR_BAR, around)
    height = around + (_pixels(keys) if upright else _LINE) + cell[1] * len(queries)

    fig = Figure(figsize=(WIDTH, round(height) / DPI), layout="compressed")
    axes = _draw_panels(
        fig, panels, WEIGHT_MAP, cell, queries, keys, _LINE if upright else 0, 90 if upright else 0
    )
    for ax in axes:
        for (row, column), (width, dashes) in links.items():
            corner, size = (column - 0.5 + _INSET, row - 0.5 + _INSET), 1 - 2 * _INSET
            for colour, thick, line in (("white", width + _CASING, "-"), (PALETTE[1], width, dashes)):
                ax.add_patch(Rectangle(corner, size, size, fill=False, edgecolor=colour, linewidth=thick,
                                       linestyle=line, zorder=3))
    if links:
        fig.supxlabel(_LEGEND, fontsize="medium")
    if not numbers:
        fig.colorbar(axes[-1].images[0], ax=list(axes), label="weight", ticks=[0, 0.5, 1])
    if title is not None:
        fig.suptitle(title)
    finish(fig)
    if numbers:                                   # after the layout, which they would only slow
        for ax, panel in zip(axes, panels.values(), strict=True):
            _write_numbers(ax, panel)
    return fig


def _links(sure, possible, shape):
    """The frame of each linked cell; what is sure outweighs what is possible."""
    links = {}
    for name, pairs, frame in (("possible", possible, _POSSIBLE), ("sure", sure, _SURE)):
        for pair in pairs:
            try:
                row, column = (int(index) for index in pair)
            except (TypeError, ValueError):
                raise TypeError(f"{name} must hold pairs (query, key); got {pair!r} among them.") from None
            if not (0 <= row < shape[0] and 0 <= column < shape[1]):
                raise ValueError(
                    f"{name} links query {row} with key {column}, but the labels call for {shape}."
                )
            links[row, column] = frame
    return links


def _draw_panels(fig, panels, colours, cell, queries, keys, needed, rotation):
    """The axes of maps side by side, with words on both; ``needed`` is what a word across takes."""
    axes = fig.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, panel) in zip(axes, panels.items(), strict=True):
        ax.imshow(panel, cmap=colours, vmin=0, vmax=1, interpolation="none", aspect=cell[1] / cell[0])
        ax.set_title(name)
        ax.set_xlabel("key")
        ax.tick_params(length=0)
        _write_words(ax.set_xticks, keys, needed, cell[0])
        _write_words(ax.set_yticks, queries if ax is axes[0] else [], _LINE, cell[1])
        ax.tick_params(axis="x", rotation=rotation)
        _separate_cells(ax, panel.shape)
    axes[0].set_ylabel("query")
    return axes


def _panels(given, name, what, check):
    """Checked arrays by panel title; a single one has no title of its own."""
    if not isinstance(given, dict):
        return {"": check(given, name)}
    if not given:
        raise ValueError(f"{name} is an empty dict; it must hold at least one {what}.")
    return {str(title): check(panel, f"{name}[{title!r}]") for title, panel in given.items()}


def _cells(panels, rows, keys, beside, around):
    """Width and height of a cell in pixels, and whether the keys must stand upright to fit it."""
    widest = (WIDTH * DPI - beside) / panels / len(keys)

    def size(words):
        high = min(widest, _TALLEST_CELL, (HEIGHT * DPI - around - words) / rows)
        return min(widest, high / _FLATTEST), high

    level, upright = size(_LINE), size(_pixels(keys))
    return (level, False) if _pixels(keys) <= level[0] else (upright, True)


def _pixels(words):
    """How wide the widest word is, with a little air."""
    return max(map(text_width, words)) + 8


def _write_words(set_ticks, words, needed, cell):
    """A word at each row or column; where a row is lower than a line, at every second, third..."""
    step = max(1, ceil(needed / cell))
    set_ticks(range(0, len(words), step), words[::step])


def _separate_cells(ax, shape):
    """A frame and thin lines between the cells; a white cell needs an edge to be seen."""
    rows, cols = shape
    ax.spines[:].set_visible(True)
    if max(shape) <= 2 * LARGEST_WITH_NUMBERS:
        ax.hlines(np.arange(1, rows) - 0.5, -0.5, cols - 0.5, color=FAINT, linewidth=1)
        ax.vlines(np.arange(1, cols) - 0.5, -0.5, rows - 0.5, color=FAINT, linewidth=1)


def _write_numbers(ax, panel):
    for (row, col), weight in np.ndenumerate(panel):
        colour = text_colour(WEIGHT_MAP(weight)[:3])
        ax.text(col, row, weight_text(weight), color=colour, ha="center", va="center")

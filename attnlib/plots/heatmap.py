"""The attention map: which query looks at which key."""

from math import ceil

import numpy as np
from matplotlib.figure import Figure

from attnlib.plots._inputs import columns, to_weights, to_words, weight_text
from attnlib.plots.style import (
    DPI,
    FAINT,
    HEIGHT,
    PIXELS_PER_POINT,
    TEXT,
    WEIGHT_MAP,
    WIDTH,
    finish,
    text_colour,
    use_style,
)

__all__ = ["attention_heatmap"]

LARGEST_WITH_NUMBERS = 8     # keys and queries
COLUMNS_WITH_NUMBERS = 16    # keys of all panels together; beyond, numbers touch each other

_EM = TEXT * PIXELS_PER_POINT           # pixels of one Chinese character
_LINE = 1.2 * _EM                       # pixels from one line of text to the next
_TALLEST_CELL = 60                      # pixels


@use_style()
def attention_heatmap(weights, queries, keys, *, title=None):
    """Draw attention weights: queries down, keys across, white for 0 and dark blue for 1.

    Parameters
    ----------
    weights : (Lq, Lk) array, or a dict of such arrays
        Each in 0..1. A dict gives one panel an entry, side by side; its keys are their titles.
    queries, keys : Lq and Lk words
        The tokens on the two axes, shared by all panels.
    title : str, optional
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure
        With the weights as numbers in the cells where there are at most 8 queries and 8 keys (and
        16 columns over all panels); with a colour bar where there is no room for numbers.

    Raises
    ------
    ValueError, TypeError
        For weights that do not fit the words or do not lie in 0..1.

    Examples
    --------
    >>> attention_heatmap([[0.9, 0.1], [0.3, 0.7]], "你我", "我你", title="Who looks at whom?")
    <Figure size 1000x223 with 1 Axes>
    """
    queries, keys = to_words(queries, "queries"), to_words(keys, "keys")
    panels = _panels(weights, (len(queries), len(keys)))
    numbers = (
        max(len(queries), len(keys)) <= LARGEST_WITH_NUMBERS
        and len(panels) * len(keys) <= COLUMNS_WITH_NUMBERS
    )
    beside = _pixels(queries) + (60 if numbers else 170)      # "query", words, colour bar
    cell_width = (WIDTH * DPI - beside) / len(panels) / len(keys)
    upright = _pixels(keys) > cell_width
    around = 80 + (_pixels(keys) if upright else _LINE)       # titles, words, "key"
    around += _LINE * (len(panels) > 1)
    cell_height = min(cell_width, _TALLEST_CELL, (HEIGHT * DPI - around) / len(queries))
    height = round(around + cell_height * len(queries))

    fig = Figure(figsize=(WIDTH, height / DPI), layout="compressed")
    axes = fig.subplots(1, len(panels), squeeze=False)[0]
    for ax, (name, panel) in zip(axes, panels.items(), strict=True):
        image = ax.imshow(
            panel, cmap=WEIGHT_MAP, vmin=0, vmax=1, interpolation="nearest",
            aspect=np.clip(cell_height / cell_width, 0.6, 1.0),
        )
        ax.set_title(name)
        ax.set_xlabel("key")
        ax.tick_params(length=0)
        _write_words(ax.set_xticks, keys, _LINE if upright else 0, cell_width)
        _write_words(ax.set_yticks, queries if ax is axes[0] else [], _LINE, cell_height)
        ax.tick_params(axis="x", rotation=90 if upright else 0)
        _separate_cells(ax, panel.shape)
    axes[0].set_ylabel("query")
    if not numbers:
        fig.colorbar(image, ax=list(axes), label="weight", ticks=[0, 0.5, 1])
    if title is not None:
        fig.suptitle(title)
    finish(fig)
    if numbers:                                   # after the layout, which they would only slow
        for ax, panel in zip(axes, panels.values(), strict=True):
            _write_numbers(ax, panel)
    return fig


def _panels(weights, shape):
    """Checked weights by panel title; a single map has no title of its own."""
    if not isinstance(weights, dict):
        return {"": to_weights(weights, shape, "weights")}
    if not weights:
        raise ValueError("weights is an empty dict; it must hold at least one map.")
    return {
        str(name): to_weights(panel, shape, f"weights[{name!r}]")
        for name, panel in weights.items()
    }


def _pixels(words):
    """How wide the widest word is, with a little air."""
    return max(map(columns, words)) * 0.5 * _EM + 8


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

"""The attention map: which query looks at which key."""

import numpy as np
from matplotlib.figure import Figure

from attnlib.plots._inputs import columns, to_weights, to_words, weight_text
from attnlib.plots.style import (
    HEIGHT,
    PIXELS_PER_POINT,
    TEXT,
    WEIGHT_MAP,
    WIDTH,
    text_colour,
    use_style,
)

LARGEST_WITH_NUMBERS = 8     # keys and queries
COLUMNS_WITH_NUMBERS = 16    # keys of all panels together; beyond, numbers touch each other

_EM = TEXT * PIXELS_PER_POINT           # pixels of one Chinese character
_LINE = 1.2 * _EM                       # pixels from one line of text to the next
_MARGIN = 100                           # pixels that labels take, beside and below, roughly


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
    <Figure size 1000x290 with 1 Axes>
    """
    queries, keys = to_words(queries, "queries"), to_words(keys, "keys")
    panels = _panels(weights, (len(queries), len(keys)))
    height = min(HEIGHT, 1.7 + 0.6 * len(queries))
    fig = Figure(figsize=(WIDTH, height))
    axes = fig.subplots(1, len(panels), squeeze=False)[0]
    cell_width = (fig.bbox.width - _MARGIN) / len(panels) / len(keys)
    cell_height = (fig.bbox.height - _MARGIN) / len(queries)
    numbers = (
        max(len(queries), len(keys)) <= LARGEST_WITH_NUMBERS
        and len(panels) * len(keys) <= COLUMNS_WITH_NUMBERS
    )
    for ax, (name, panel) in zip(axes, panels.items(), strict=True):
        image = ax.imshow(
            panel, cmap=WEIGHT_MAP, vmin=0, vmax=1, interpolation="nearest",
            aspect=np.clip(cell_height / cell_width, 0.6, 1.0),
        )
        ax.set_title(name, loc="center")
        ax.set_xlabel("key")
        ax.tick_params(length=0)
        _write_keys(ax, keys, cell_width)
        _write_queries(ax, queries if ax is axes[0] else [], cell_height)
        _separate_cells(ax, panel.shape)
        if numbers:
            _write_numbers(ax, panel)
    axes[0].set_ylabel("query")
    if not numbers:
        fig.colorbar(image, ax=list(axes), label="weight", ticks=[0, 0.5, 1])
    if title is not None:
        fig.suptitle(title)
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


def _write_keys(ax, keys, cell_width):
    """Words below their columns: level where each fits its column, upright otherwise."""
    widest = max(map(columns, keys)) * 0.5 * _EM + 6
    level = widest <= cell_width
    step = 1 if level else int(np.ceil(_LINE / cell_width))
    ax.set_xticks(range(0, len(keys), step), keys[::step], rotation=0 if level else 90)


def _write_queries(ax, queries, cell_height):
    step = int(np.ceil(_LINE / cell_height))
    ax.set_yticks(range(0, len(queries), step), queries[::step])


def _separate_cells(ax, shape):
    """A frame and thin lines between the cells; a white cell needs an edge to be seen."""
    rows, cols = shape
    ax.spines[:].set_visible(True)
    if max(shape) <= 2 * LARGEST_WITH_NUMBERS:
        ax.hlines(np.arange(1, rows) - 0.5, -0.5, cols - 0.5, color="#dddddd", linewidth=1)
        ax.vlines(np.arange(1, cols) - 0.5, -0.5, rows - 0.5, color="#dddddd", linewidth=1)


def _write_numbers(ax, panel):
    for (row, col), weight in np.ndenumerate(panel):
        colour = text_colour(WEIGHT_MAP(weight)[:3])
        ax.text(col, row, weight_text(weight), color=colour, ha="center", va="center")

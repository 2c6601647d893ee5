"""Bars: how one query divides its weight over the keys."""

from matplotlib.figure import Figure

from attnlib.plots._inputs import to_weights, to_words, weight_text
from attnlib.plots.style import DPI, PALETTE, WIDTH, finish, use_style

__all__ = ["weight_bars"]

_ROW = 32      # pixels of one bar with its distance to the next
_AROUND = 120  # pixels of title and axis
_TITLES = 35   # pixels of the panels' titles
_NUMBER = 60   # pixels of "1.00" and the air before it


@use_style()
def weight_bars(labels, weights, *, title, xlabel="weight"):
    """Draw weights as horizontal bars from 0 to 1, the first label on top, numbers at the ends.

    Parameters
    ----------
    labels : L words
        The keys.
    weights : (L,) array, or a dict of such arrays
        Each in 0..1. A dict gives one panel an entry, side by side on the same scale; its keys
        are their titles.
    title : str
        The question that the figure answers.
    xlabel : str
        What the bars measure, where it is a share of something else.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError, TypeError
        For weights that do not fit the labels or do not lie in 0..1.

    Examples
    --------
    >>> weight_bars(["apple", "it"], [0.9, 0.1], title="Where does the query look?")
    <Figure size 1000x184 with 1 Axes>
    """
    labels = to_words(labels, "labels")
    panels = weights if isinstance(weights, dict) else {"": weights}
    if not panels:
        raise ValueError("weights is an empty dict; it must hold at least one array.")
    height = _AROUND + _ROW * len(labels) + _TITLES * isinstance(weights, dict)
    fig = Figure(figsize=(WIDTH, height / DPI))
    axes = fig.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (name, values) in zip(axes, panels.items(), strict=True):
        where = f"weights[{name!r}]" if isinstance(weights, dict) else "weights"
        _draw(ax, to_weights(values, (len(labels),), where), WIDTH * DPI / len(panels))
        ax.set_title(str(name))
        ax.set_xlabel(xlabel)
    axes[0].set_yticks(range(len(labels)), labels)
    axes[0].invert_yaxis()
    fig.suptitle(title)
    return finish(fig)


def _draw(ax, weights, width):
    """One panel, about ``width`` pixels wide; its axis ends at 1, its numbers may stand beyond."""
    rows = range(len(weights))
    ax.barh(rows, weights, height=0.7, color=PALETTE[0])
    for row, weight in zip(rows, weights, strict=True):
        ax.annotate(
            weight_text(weight), (weight, row), xytext=(5, 0), textcoords="offset points",
            va="center", annotation_clip=False,
        )
    ax.set_xlim(0, width / (width - _NUMBER))
    ax.spines.bottom.set_bounds(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    ax.tick_params(axis="y", length=0)

"""A table of features as colours: rows down, features across, positive blue, negative orange and struck."""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from attnlib.plots._inputs import to_array, to_words
from attnlib.plots.style import FAINT, WEIGHT_MAP, WIDTH, _straight_map, finish, use_style

__all__ = ["feature_map"]

# White for 0. Positive as in attention maps; negative a dark orange, as far from white as that blue.
_NEGATIVE = _straight_map("attn_negative", (1.0, 0.0, 0.0), (0.42, 0.085, 0.085))
FEATURE_MAP = ListedColormap(
    np.vstack([_NEGATIVE(np.linspace(1, 0, 128)), WEIGHT_MAP(np.linspace(0, 1, 128))]), "attn_feature"
)

_HEIGHT = 4.2       # inches: with a formula above it on a slide
_STROKE = {"color": "white", "linewidth": 1.2}      # what tells a negative number apart in grey


@use_style()
def feature_map(features, *, title, xlabel="feature", ylabel="position", words=None):
    """Draw a table of numbers as colours: white for 0, dark blue for the largest, dark orange for minus that.

    A white stroke goes through each negative cell, so that a print in grey keeps the signs.

    Parameters
    ----------
    features : (rows, columns) array
    title : str
        The question that the figure answers.
    xlabel, ylabel : str
        What a column and what a row is.
    words : n words, optional
        Names of n equal groups of rows, and of columns; they stand on both axes in place of numbers.

    Returns
    -------
    matplotlib.figure.Figure
        Row 0 on top, as in a printed array, with a colour bar.

    Raises
    ------
    ValueError, TypeError
        For anything but a table of finite numbers, and words that do not divide both its sides.

    Examples
    --------
    >>> feature_map([[0.0, 1.0], [0.8, 0.5]], title="What does each position get?")
    <Figure size 1000x420 with 2 Axes>
    """
    features = to_array(features, "features")
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError(f"features has shape {features.shape}, but must be (rows, columns), not empty.")
    most = float(np.abs(features).max()) or 1.0
    fig = Figure(figsize=(WIDTH, _HEIGHT))
    ax = fig.subplots()
    look = {"cmap": FEATURE_MAP, "interpolation": "none", "aspect": "auto"}
    image = ax.imshow(features, vmin=-most, vmax=most, **look)
    ax.spines[:].set_visible(True)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    if words is None:
        ax.locator_params(integer=True)
    else:
        _name_groups(ax, to_words(words, "words"), features.shape)
    bar = fig.colorbar(image, ax=ax, label="value", ticks=[-most, 0, most], format="%.3g")
    bar.ax.plot([0.5, 0.5], [-most, 0], **_STROKE)
    finish(fig)
    _strike(ax, features)
    return fig


def _strike(ax, features):
    """A stroke along the shorter side of each negative cell, so that those of neighbours join."""
    row, column = np.nonzero(features < 0)
    box, (rows, columns) = ax.get_window_extent(), features.shape
    if box.width / columns > box.height / rows:
        ax.vlines(column, row - 0.5, row + 0.5, **_STROKE)
    else:
        ax.hlines(row, column - 0.5, column + 0.5, **_STROKE)


def _name_groups(ax, words, shape):
    """Words at the middle of equal groups, with lines between the groups."""
    if not words or any(size % len(words) for size in shape):
        raise ValueError(f"words has {len(words)} entries, which must divide both sides of features {shape}.")
    axes = (ax.set_yticks, ax.axhline), (ax.set_xticks, ax.axvline)
    for (set_ticks, line), size in zip(axes, shape, strict=True):
        group = size // len(words)
        set_ticks([n * group + (group - 1) / 2 for n in range(len(words))], words)
        for n in range(1, len(words)):
            line(n * group - 0.5, color=FAINT, linewidth=1)
    ax.tick_params(length=0)

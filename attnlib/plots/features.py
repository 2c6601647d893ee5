"""A table of features as colours: rows down, features across, negative orange and positive blue."""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from attnlib.plots._inputs import to_array
from attnlib.plots.style import WEIGHT_MAP, WIDTH, _straight_map, finish, use_style

__all__ = ["feature_map"]

# White for 0. Positive as in attention maps; negative a dark orange, as far from white as that blue.
_NEGATIVE = _straight_map("attn_negative", (1.0, 0.0, 0.0), (0.42, 0.085, 0.085))
FEATURE_MAP = ListedColormap(
    np.vstack([_NEGATIVE(np.linspace(1, 0, 128)), WEIGHT_MAP(np.linspace(0, 1, 128))]), "attn_feature"
)

_HEIGHT = 4.2       # inches: with a formula above it on a slide


@use_style()
def feature_map(features, *, title, xlabel="feature", ylabel="position"):
    """Draw a table of numbers as colours: white for 0, dark blue for the largest, dark orange for minus that.

    Parameters
    ----------
    features : (rows, columns) array
    title : str
        The question that the figure answers.
    xlabel, ylabel : str
        What a column and what a row is.

    Returns
    -------
    matplotlib.figure.Figure
        Row 0 on top, as in a printed array, with a colour bar.

    Raises
    ------
    ValueError, TypeError
        For anything but a table of finite numbers.

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
    look = {"cmap": FEATURE_MAP, "interpolation": "nearest", "aspect": "auto"}
    image = ax.imshow(features, vmin=-most, vmax=most, **look)
    ax.spines[:].set_visible(True)
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.locator_params(integer=True)
    fig.colorbar(image, ax=ax, label="value", ticks=[-most, 0, most], format="%.3g")
    return finish(fig)

"""Pictures side by side: photographs in their colours, tables of numbers from white to dark blue."""

import numpy as np
from matplotlib.figure import Figure

from attnlib.plots._inputs import to_array
from attnlib.plots.style import DPI, INK, WEIGHT_MAP, WIDTH, finish, use_style

__all__ = ["pictures"]

_GAP, _AROUND, _TITLE = 24, 70, 34  # pixels: between pictures, title and edges, a panel's title
_TALLEST = 400  # pixels of a picture


@use_style()
def pictures(images, *, title):
    """Draw images side by side, without axes.

    Parameters
    ----------
    images : dict
        Title of a panel to an image: ``(H, W, 3)`` with colours in 0..1, or ``(H, W)`` with numbers of at
        least 0, drawn white for 0 and dark blue for the image's largest. At most four.
    title : str
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError, TypeError
        For what is no such image, or numbers out of their range.

    Examples
    --------
    >>> pictures({"a square": np.eye(4), "grey": np.full((4, 4, 3), 0.5)}, title="Which is grey?")
    <Figure size 1000x504 with 2 Axes>
    """
    if not isinstance(images, dict) or not 1 <= len(images) <= 4:
        raise ValueError("images must be a dict of one to four images, with their titles as keys.")
    panels = {str(name): _image(image, f"images[{name!r}]") for name, image in images.items()}
    width = (WIDTH * DPI - _GAP * (len(panels) + 1)) / len(panels)
    height = min(max(width * image.shape[0] / image.shape[1] for image in panels.values()), _TALLEST)
    fig = Figure(figsize=(WIDTH, round(height + _TITLE + _AROUND) / DPI))
    for ax, (name, image) in zip(fig.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        most = image.max() or 1.0
        ax.imshow(image, cmap=WEIGHT_MAP, vmin=0, vmax=most, interpolation="none")
        ax.set_title(name)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.spines[:].set_visible(True)
        ax.spines[:].set_color(INK)
    fig.suptitle(title)
    return finish(fig)


def _image(image, name):
    image = to_array(image, name)
    if image.ndim not in (2, 3) or image.shape[2:] not in ((), (3,)) or 0 in image.shape:
        raise ValueError(f"{name} has shape {image.shape}, but must be (H, W) or (H, W, 3), not empty.")
    if image.min() < 0 or (image.ndim == 3 and image.max() > 1):
        wanted = "colours must lie in 0..1" if image.ndim == 3 else "numbers must be at least 0"
        raise ValueError(f"{name} reaches from {image.min():.3g} to {image.max():.3g}; {wanted}.")
    return np.asarray(image, float)

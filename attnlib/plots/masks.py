"""Boolean masks side by side: which query may look at which key."""

from unicodedata import east_asian_width

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from attnlib.plots._inputs import to_words
from attnlib.plots.heatmap import _LINE, _cells, _draw_panels, _panels, _pixels
from attnlib.plots.style import DPI, PALETTE, WIDTH, finish, use_style

__all__ = ["mask_maps"]

_MAY = ListedColormap(["white", PALETTE[0]], "attn_mask")
_LEGEND = "dark blue: may attend    white: hidden"


@use_style()
def mask_maps(masks, queries, keys, *, title=None):
    """Draw boolean masks: queries down, keys across, blue where a query may attend to a key.

    Parameters
    ----------
    masks : (Lq, Lk) bool array, or a dict of such arrays
        A dict gives one panel an entry, side by side; its keys are their titles.
    queries, keys : Lq and Lk words
        The tokens on the two axes, shared by all panels. Where keys are too wide for their columns,
        Chinese ones are written from top to bottom, others on their side.
    title : str, optional
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError, TypeError
        For masks that are not boolean or do not fit the words.

    Examples
    --------
    >>> mask_maps([[True, False], [True, True]], "你我", "你我", title="Who may look at whom?")
    <Figure size 1000x263 with 1 Axes>
    """
    queries, keys = to_words(queries, "queries"), to_words(keys, "keys")
    shape = len(queries), len(keys)
    panels = _panels(masks, "masks", "mask", lambda mask, name: _to_mask(mask, shape, name))
    beside = _pixels(queries) + 60 + 30 * (len(panels) - 1)    # words, "query", between panels
    around = 80 + 40 * (title is not None) + 30 * isinstance(masks, dict)
    chinese = all(east_asian_width(letter) in "WF" for key in keys for letter in key)
    deep = max(_pixels(keys), chinese * max(map(len, keys)) * _LINE)     # keys that are not level
    cell, upright = _cells(len(panels), len(queries), keys, beside, around + deep - _pixels(keys))
    stacked = upright and chinese
    words = ["\n".join(key) for key in keys] if stacked else keys
    below = deep if upright else _LINE
    height = around + below + cell[1] * len(queries)

    fig = Figure(figsize=(WIDTH, round(height) / DPI), layout="compressed")
    _draw_panels(fig, panels, _MAY, cell, queries, words, _LINE if upright else 0,
                 90 if upright and not stacked else 0)
    fig.supxlabel(_LEGEND, fontsize="medium")
    if title is not None:
        fig.suptitle(title)
    return finish(fig)


def _to_mask(mask, shape, name):
    try:
        mask = np.array(mask.detach().cpu().numpy() if hasattr(mask, "detach") else mask)
    except ValueError:
        raise TypeError(f"{name} must be an array; its rows are not equally long.") from None
    if mask.dtype != bool:
        raise TypeError(
            f"{name} must be boolean, True where a query may attend; got {mask.dtype}. "
            "A mask of numbers becomes one by a comparison: mask == 0 for one that is added to scores."
        )
    if mask.shape != shape:
        raise ValueError(
            f"{name} has shape {mask.shape}, but the labels call for {shape}: "
            "one entry for each query (down) and key (across)."
        )
    return mask

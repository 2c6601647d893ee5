"""Which feature of which token lies where, after the features were cut into heads."""

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.plots._inputs import to_words
from attnlib.plots.style import DPI, INK, PALETTE, TITLE, WIDTH, finish, use_style

__all__ = ["head_layout"]

_ROW = 44       # pixels of one token
_AROUND = 110   # pixels of title, panels' titles and the heads' names
_TINT = 0.28    # how much of a token's colour its cells have; the rest is white


@use_style()
def head_layout(panels, words, *, title):
    """Draw each head as a small table: a row for each position, a cell for each feature.

    A cell says which word and which of its features lies there, in the word's colour. A thick frame
    marks what is not where `split_heads` puts it.

    Parameters
    ----------
    panels : dict of (H, L, d) integer arrays
        Title to layout, at most three. The entry for feature ``f`` of token ``l`` is
        ``l * H * d + f``, as ``arange(L * H * d)`` has it.
    words : L words
        At most five.
    title : str
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError, TypeError
        For layouts that do not fit the words, or that hold other numbers.

    Examples
    --------
    >>> right = np.arange(8).reshape(2, 2, 2).transpose(1, 0, 2)
    >>> head_layout({"split": right}, "你我", title="What does each head hold?")
    <Figure size 1000x198 with 1 Axes>
    """
    words = to_words(words, "words")
    if len(words) > len(PALETTE):
        raise ValueError(f"words has {len(words)} entries, but only {len(PALETTE)} can be told apart.")
    if not isinstance(panels, dict):
        raise TypeError(f"panels must be a dict of title to layout; got {type(panels).__name__}.")
    if not 1 <= len(panels) <= 3:
        raise ValueError(f"panels has {len(panels)} entries; one to three fit side by side.")
    layouts = {name: _to_layout(layout, len(words), f"panels[{name!r}]") for name, layout in panels.items()}
    fig = Figure(figsize=(WIDTH, (_AROUND + _ROW * len(words)) / DPI))
    axes = fig.subplots(1, len(layouts), squeeze=False)[0]
    for ax, (name, layout) in zip(axes, layouts.items(), strict=True):
        _draw(ax, layout, words)
        ax.set_title(str(name), fontsize=TITLE)
    fig.suptitle(title)
    return finish(fig)


def _to_layout(layout, length, name):
    """An integer array (H, L, d) with entries below L * H * d."""
    layout = np.asarray(layout.tolist() if hasattr(layout, "tolist") else layout)
    if layout.dtype.kind not in "iuf" or (layout != np.round(layout)).any():
        raise TypeError(f"{name} must hold whole numbers, each l * H * d + f.")
    if layout.ndim != 3 or 0 in layout.shape or layout.shape[1] != length:
        raise ValueError(
            f"{name} has shape {layout.shape}, but must be (H, {length}, d), a row for each word."
        )
    if layout.min() < 0 or layout.max() >= layout.size:
        raise ValueError(
            f"{name} must hold numbers from 0 to {layout.size - 1}; got {layout.min():g} to {layout.max():g}."
        )
    return layout.astype(int)


def _draw(ax, layout, words):
    n_heads, length, d = layout.shape
    belongs = np.arange(layout.size).reshape(length, n_heads, d).transpose(1, 0, 2)
    for (head, row, col), entry in np.ndenumerate(layout):
        token, feature = divmod(int(entry), n_heads * d)
        left = head * (d + 0.6) + col
        astray = entry != belongs[head, row, col]
        ax.add_patch(Rectangle(
            (left + 0.04, row + 0.06), 0.92, 0.88, facecolor=_tint(PALETTE[token]),
            edgecolor=INK if astray else "none", linewidth=2.5,
        ))
        ax.text(left + 0.5, row + 0.5, f"{words[token]}{feature}", ha="center", va="center")
    for head in range(n_heads):
        ax.text(head * (d + 0.6) + d / 2, -0.12, f"head {head}", ha="center", va="bottom")
    ax.set_xlim(0, n_heads * (d + 0.6) - 0.6)
    ax.set_ylim(length, -0.65)
    ax.set_yticks(np.arange(length) + 0.5, [f"row {row}" for row in range(length)])
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def _tint(colour):
    return 1 - _TINT * (1 - np.array(to_rgb(colour)))

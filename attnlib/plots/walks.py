"""Walks: many sums of random steps as they grow, and where they end."""

import numpy as np
from matplotlib.figure import Figure

from attnlib.plots._inputs import to_array
from attnlib.plots.style import INK, PALETTE, finish, use_style

__all__ = ["walks"]

_DRAWN = 30            # more paths than this make one patch
_ROOM = 1.35           # the axes reach this much further than the farthest path that is drawn
_BAR = 0.4             # the width of a bar, roughly, as a part of the spread


@use_style()
def walks(paths, *, spread=np.sqrt, label="$\\sqrt{d}$", title, xlabel, ylabel):
    """Draw random walks inside the spread that theory gives them, and how often each end is reached.

    Parameters
    ----------
    paths : (n, d) array
        Row ``i`` is where walk ``i`` stands after 1, 2, ... d steps; all start at 0. The first 30
        are drawn, all are counted.
    spread : function of an array
        The standard deviation after so many steps; drawn on both sides of zero.
    label : str
        What the spread is called.
    title : str
        The question that the figure answers.
    xlabel, ylabel : str
        What is counted, and what is summed.

    Returns
    -------
    matplotlib.figure.Figure
        On the left the paths; on the right, on the same scale, bars for the ends of all, and the
        normal curve with the spread of the last step.

    Raises
    ------
    ValueError, TypeError
        For paths that are no (n, d) array of numbers, or a spread that is no function or not above 0.

    Examples
    --------
    >>> steps = np.random.default_rng(0).choice([-1, 1], size=(500, 64))
    >>> walks(steps.cumsum(-1), title="How far?", xlabel="steps", ylabel="place")
    <Figure size 1000x500 with 2 Axes>
    """
    paths = to_array(paths, "paths")
    if paths.ndim != 2 or 0 in paths.shape:
        raise ValueError(f"paths has shape {paths.shape}, but must be (n, d): a row for each walk.")
    if not callable(spread):
        raise TypeError(f"spread must be a function of steps, but is {type(spread).__name__}.")
    n, d = paths.shape
    steps = np.arange(d + 1)
    fine = np.linspace(0, d, 200)
    far = to_array(spread(fine), "spread(steps)")
    if far.shape != fine.shape or not far[-1] > 0:
        raise ValueError("spread must give a number for each step, above 0 at the last one.")

    fig = Figure()
    left, right = fig.subplots(1, 2, sharey=True, width_ratios=(7, 3))
    shown = np.concatenate([np.zeros((n, 1)), paths], axis=1)[:_DRAWN]
    left.plot(steps, shown.T, color=PALETTE[0], alpha=0.65, linewidth=0.75)
    for side in (1, -1):
        left.plot(fine, side * far, color=INK)
        left.annotate(
            f"{'' if side > 0 else '-'}{label}", (d, side * far[-1]), xytext=(6, 0),
            textcoords="offset points", va="center", annotation_clip=False,
        )
    reach = _ROOM * max(np.abs(shown).max(), far[-1])
    left.set(xlabel=xlabel, ylabel=ylabel, xlim=(0, d), ylim=(-reach, reach))

    _count_ends(right, paths[:, -1], far[-1])
    y = np.linspace(-reach, reach, 400)
    right.plot(np.exp(-((y / far[-1]) ** 2) / 2) / (far[-1] * np.sqrt(2 * np.pi)), y, color=INK)
    right.set(xlabel=f"how often, after {d}", xticks=[])
    right.set_xlim(left=0)
    right.tick_params(axis="y", length=0)
    fig.suptitle(title)
    return finish(fig)


def _count_ends(ax, ends, spread):
    """Bars of equal width, one about zero, each over equally many of the places that can be reached."""
    places = np.unique(ends)
    unit = np.diff(places).min() if len(places) > 1 else spread
    width = unit * (1 + 2 * int(_BAR * spread / unit / 2))
    start = places[np.abs(places).argmin()] - width / 2
    first, last = np.floor((places[[0, -1]] - start) / width).astype(int)
    ax.hist(
        ends, start + width * np.arange(first, last + 2), density=True, orientation="horizontal",
        color=PALETTE[0], alpha=0.7, edgecolor="white", linewidth=0.5,
    )

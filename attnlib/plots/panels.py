"""Panels: several quantities over the same x, each in small axes of its own."""

from matplotlib.figure import Figure

from attnlib.plots._inputs import to_dict
from attnlib.plots.lines import EDGES, _at_most, _draw_measured, _draw_theory, _name_each_x, _scale, _to_x
from attnlib.plots.style import DASHES, DPI, MARKERS, PALETTE, WIDTH, finish, text_width, use_style

__all__ = ["panels"]

MOST_PANELS = 4
_COLUMNS = 2
_HEIGHTS = {1: 410, 2: 600}     # pixels, by rows of panels
_SAMPLE = 100                   # pixels of a legend's marker with the air around it


@use_style()
def panels(x, measured, *, theory=None, title, xlabel, logx=False, logy=()):
    """Draw several quantities over one x, a panel each: measurements as points, theory as lines.

    A label keeps its colour and marker, or its dash, in all panels; one legend below serves all.

    Parameters
    ----------
    x : (n,) array
        Where it was measured.
    measured : dict of dict
        Title of a panel, which names its quantity, to label to ``y``, an (n,) array, or to
        ``(y, low, high)`` for points inside a band. Up to four panels, and five labels in all.
    theory : dict of dict, optional
        Title of a panel to label to a function of an array ``x``. Up to four labels in all.
    title : str
        The question that the figure answers.
    xlabel : str
        With its unit, where there is one.
    logx : bool
        Logarithmic horizontal axes.
    logy : collection of str
        Titles of the panels whose vertical axis is logarithmic.

    Returns
    -------
    matplotlib.figure.Figure
        Panels in reading order, two in a row.

    Raises
    ------
    ValueError, TypeError
        For arrays that do not fit ``x``, for titles in ``theory`` or ``logy`` that name no panel, and
        for more panels or labels than can be told apart.

    Examples
    --------
    >>> import numpy as np
    >>> panels([1, 2], {"area": {"seen": [1, 4]}, "edge": {"seen": [4, 8]}},
    ...        theory={"area": {"derived": np.square}}, title="How does a square grow?", xlabel="side")
    <Figure size 1000x410 with 2 Axes>
    """
    x = _to_x(x, logx)
    measured = _of_dicts(measured, "measured", "numbers")
    theory = _of_dicts(theory, "theory", "function of x")
    if not 1 <= len(measured) <= MOST_PANELS:
        raise ValueError(f"measured has {len(measured)} panels; it must have 1 to {MOST_PANELS}.")
    if isinstance(logy, str):
        raise TypeError(f"logy must be a collection of panels' titles; got the string {logy!r}.")
    logy = [str(panel) for panel in logy]
    for name, titles in (("theory", theory), ("logy", logy)):
        for panel in titles:
            if panel not in measured:
                raise ValueError(f"{name} names the panel {panel!r}, but measured has only {[*measured]}.")
    looks = _looks(measured, zip(PALETTE, MARKERS, EDGES, strict=True), "measured")
    dashes = _looks(theory, DASHES, "theory")

    rows = -(-len(measured) // _COLUMNS)
    fig = Figure(figsize=(WIDTH, _HEIGHTS[rows] / DPI))
    axes = fig.subplots(rows, min(len(measured), _COLUMNS), squeeze=False).flat
    points, lines = {}, {}          # for the legend: label to what the first panel with it shows
    for ax, (panel, series) in zip(axes, measured.items(), strict=False):
        _scale(ax, logx, panel in logy)
        ax.margins(x=0.03, y=0.08)
        for label, values in series.items():
            points.setdefault(label, _draw_measured(ax, x, values, label, *looks[label]))
        for label, function in theory.get(panel, {}).items():
            lines.setdefault(label, _draw_theory(ax, x, function, label, dashes[label], logx))
        ax.set_title(panel)
        ax.grid(axis="y")
        if logx:
            _name_each_x(ax, x)
    for ax in axes[len(measured):]:
        ax.remove()
    _legend(fig, [*looks, *dashes], [*map(points.get, looks), *map(lines.get, dashes)])
    fig.suptitle(title)
    for ax in fig.axes[-_COLUMNS:]:
        ax.set_xlabel(xlabel)
    return finish(fig)


def _of_dicts(entries, name, what):
    """A dict whose entries are dicts; nothing at all becomes an empty one."""
    entries = to_dict(entries, name, f"a dict of label to {what}")
    return {key: to_dict(value, f"{name}[{key!r}]", what) for key, value in entries.items()}


def _looks(entries, looks, name):
    """A look for each label, the same in all panels, in the order in which labels appear."""
    looks, labels = list(looks), list(dict.fromkeys(label for part in entries.values() for label in part))
    _at_most(labels, len(looks), name)
    return dict(zip(labels, looks, strict=False))


def _legend(fig, labels, handles):
    """One entry a label, in as many columns as fit."""
    widths = [text_width(label) + _SAMPLE for label in labels]
    columns = len(labels)
    if sum(widths) > WIDTH * DPI:
        columns = max(1, int(WIDTH * DPI / max(widths)))
    if labels:
        fig.legend(handles, labels, loc="outside lower center", ncols=columns)

"""Curves: what was measured beside what theory says."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, NullLocator

from attnlib.plots._inputs import to_array, to_dict
from attnlib.plots.style import (
    DASHES,
    DPI,
    HEIGHT,
    INK,
    MARKERS,
    PALETTE,
    PIXELS_PER_POINT,
    TEXT,
    finish,
    use_style,
)

__all__ = ["curves"]

# The outlines of bands, so that those that overlap are told apart without colour.
EDGES = ("-", "--", ":", "-.", (0, (8, 2, 1, 2, 1, 2)))
MOST_DIRECT_LABELS = 3
MOST_TICKS = 10          # up to here a logarithmic axis names each x, not powers of ten
PLAIN = 1e-3, 1e7        # from the one up to the other a number is written out

_AXES_HEIGHT = HEIGHT * DPI - 110                           # pixels, roughly
_GAP = 1.3 * TEXT * PIXELS_PER_POINT / _AXES_HEIGHT         # one line, as a part of that height


@use_style()
def curves(x, measured, *, theory=None, title, xlabel, ylabel, logx=False, logy=False):
    """Draw measurements as points or bands, theory as lines, in the same axes.

    Parameters
    ----------
    x : (n,) array
        Where it was measured.
    measured : dict
        Label to ``y``, an (n,) array, or to ``(y, low, high)`` for points inside a band. At most
        five.
    theory : dict, optional
        Label to a function of an array ``x``, drawn over the whole range. At most four.
    title : str
        The question that the figure answers.
    xlabel, ylabel : str
        With units, where there are any.
    logx, logy : bool
        A logarithmic horizontal, or vertical, axis.

    Returns
    -------
    matplotlib.figure.Figure
        With each label at the right end of its line where there are at most three, and with a
        legend where there are more.

    Raises
    ------
    ValueError, TypeError
        For arrays that do not fit ``x``, for numbers of 0 or below on a logarithmic axis, and for more
        curves than can be told apart.

    Examples
    --------
    >>> curves([1, 2, 3], {"measured": [1.1, 3.9, 9.2]}, theory={"x²": np.square},
    ...        title="Does it grow as the square?", xlabel="x", ylabel="y")
    <Figure size 1000x500 with 1 Axes>
    """
    x = _to_x(x, logx)
    measured = to_dict(measured, "measured", "numbers")
    theory = to_dict(theory, "theory", "function of x")
    if not measured and not theory:
        raise ValueError("measured and theory are both empty, so there is nothing to draw.")
    _at_most(measured, len(PALETTE), "measured")
    _at_most(theory, len(DASHES), "theory")

    fig = Figure()
    ax = fig.subplots()
    _scale(ax, logx, logy)
    ax.margins(x=0.02)
    drawn = []                                              # (label, line)
    for (label, values), colour, marker, edge in zip(measured.items(), PALETTE, MARKERS, EDGES, strict=False):
        drawn.append((label, _draw_measured(ax, x, values, label, colour, marker, edge)))
    for (label, function), dash in zip(theory.items(), DASHES, strict=False):
        drawn.append((label, _draw_theory(ax, x, function, label, dash, logx)))
    if logy and ax.dataLim.y0 <= 0:
        raise ValueError(f"y reaches down to {ax.dataLim.y0:.3g}, but a logarithmic axis starts above 0.")
    ax.set(title=title, xlabel=xlabel, ylabel=ylabel)
    ax.grid(axis="y")
    if logx:
        _name_each_x(ax, x)
    if len(drawn) <= MOST_DIRECT_LABELS:
        _label_ends(ax, drawn)
    else:
        # Matplotlib, left to look for labels, would leave out those that begin with "_"
        labels, lines = zip(*drawn, strict=True)
        ax.legend(lines, labels, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return finish(fig)


def _to_x(x, logx):
    x = to_array(x, "x")
    if x.ndim != 1 or not x.size:
        raise ValueError(f"x has shape {x.shape}, but must be (n,) with at least one entry.")
    if logx and x.min() <= 0:
        raise ValueError(f"x reaches down to {x.min():.3g}, but a logarithmic axis starts above 0.")
    return x


def _scale(ax, logx, logy):
    for axis, set_scale, logarithmic in ((ax.xaxis, ax.set_xscale, logx), (ax.yaxis, ax.set_yscale, logy)):
        if logarithmic:
            set_scale("log")
            axis.set_major_formatter(_WrittenOut())
            axis.set_minor_formatter(_WrittenOut())


class _WrittenOut(LogFormatter):
    """100 and not a ten with a raised 2, which a hall cannot read."""

    def __call__(self, x, pos=None):
        return written_out(x) if super().__call__(x, pos) else ""   # empty where there is no room


def written_out(number):
    """A number as the lessons print it: 0.001, 10,000, 1e-7."""
    low, high = PLAIN
    if low <= abs(number) < high or number == 0:
        return f"{number:,.7g}"
    return np.format_float_scientific(number, precision=3, trim="-", exp_digits=1).replace("+", "")


def _name_each_x(ax, x):
    """On a logarithmic axis with few of them, each x instead of powers of ten."""
    if x.size <= MOST_TICKS:
        ax.set_xticks(x, [written_out(value) for value in x])
        ax.xaxis.set_minor_locator(NullLocator())


def _at_most(series, most, name):
    if len(series) > most:
        raise ValueError(
            f"{name} has {len(series)} entries, but only {most} can be told apart in one figure. "
            "Draw several figures."
        )


def _draw_measured(ax, x, values, label, colour, marker, edge):
    """Points, and the band around them if there is one; returns the points."""
    banded = isinstance(values, tuple) and len(values) == 3 and np.ndim(values[0]) > 0
    y, *band = [
        _fitting(part, x, f"measured[{label!r}]") for part in (values if banded else [values])
    ]
    order = np.argsort(x)
    if banded:
        low, high = band
        if (low > high).any():
            raise ValueError(f"measured[{label!r}] has a band whose low lies above its high.")
        ax.fill_between(x[order], low[order], high[order], facecolor=(colour, 0.2), edgecolor=colour,
                        linewidth=1, linestyle=edge)
    (points,) = ax.plot(x[order], y[order], marker, color=colour, label=label, zorder=3)
    return points


def _draw_theory(ax, x, function, label, dash, logx):
    """A line over the range of x; returns it."""
    if not callable(function):
        raise TypeError(
            f"theory[{label!r}] must be a function of x, but is {type(function).__name__}. "
            "Theory is a line; what is known only at some points is measured."
        )
    space = np.geomspace if logx else np.linspace
    fine = space(x.min(), x.max(), 200)
    y = _fitting(function(fine), fine, f"theory[{label!r}](x)")
    (line,) = ax.plot(fine, y, dash, color=INK, label=label)
    return line


def _fitting(values, x, name):
    array = to_array(values, name)
    if array.shape != x.shape:
        raise ValueError(f"{name} has shape {array.shape}, but must have the shape of x, {x.shape}.")
    return array


def _label_ends(ax, drawn):
    """Write each label beside the right end of its line, none on another."""
    to_axes = ax.transData + ax.transAxes.inverted()
    ax.autoscale_view()
    heights = [to_axes.transform((line.get_xdata()[-1], line.get_ydata()[-1]))[1] for _, line in drawn]
    for (label, line), height in zip(drawn, spread(heights, _GAP), strict=True):
        ax.annotate(
            label, (1.01, height), xycoords="axes fraction", color=line.get_color(), va="center",
            annotation_clip=False,
        )


def spread(heights, gap):
    """Move heights apart until neighbours differ by ``gap``, keeping their order and their middle.

    Heights that touch form a group, which is spread evenly about its mean; groups that then
    touch are joined.
    """
    order = np.argsort(heights, kind="stable")
    groups = []                                            # (members, mean height)
    for index in order:
        members, middle = [index], heights[index]
        while groups and _reach(groups[-1], gap, +1) + gap > _reach((members, middle), gap, -1):
            before, its_middle = groups.pop()
            middle = (its_middle * len(before) + middle * len(members)) / (
                len(before) + len(members)
            )
            members = before + members
        groups.append((members, middle))
    placed = np.empty(len(heights))
    for members, middle in groups:
        placed[members] = middle + gap * (np.arange(len(members)) - (len(members) - 1) / 2)
    return placed


def _reach(group, gap, side):
    """The highest (side +1) or lowest (-1) place of a group of labels."""
    members, middle = group
    return middle + side * gap * (len(members) - 1) / 2

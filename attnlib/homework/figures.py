"""What a Matplotlib figure shows, as numbers and words: a figure is judged by these, not by its pixels.

Imports nothing but NumPy: the sandbox has a copy of this file.
"""

from dataclasses import dataclass

import numpy as np

MOST = 1_000_000      # numbers of one image or line; of a larger one nothing is kept


@dataclass(frozen=True)
class AxesData:
    """What was drawn in one pair of axes.

    Attributes
    ----------
    title, xlabel, ylabel : str
    xticks, yticks : tuple of str
        The tick labels, in the order of the ticks.
    yaxis_up : bool
        Whether y grows upwards.
    lines : tuple of (label, x, y)
    bars : tuple of (x, height)
        x is the middle of a bar; for lying ones the pair is (y, width).
    images : tuple of array
        What imshow, matshow and pcolormesh drew; the first row is that of the smallest y.
    points : tuple of (label, offsets)
        Of each scatter: an array (n, 2).
    texts, legend : tuple of str
        Where the axes have no legend, that of the figure.
    """

    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    xticks: tuple = ()
    yticks: tuple = ()
    yaxis_up: bool = True
    lines: tuple = ()
    bars: tuple = ()
    images: tuple = ()
    points: tuple = ()
    texts: tuple = ()
    legend: tuple = ()


@dataclass(frozen=True)
class FigureData:
    """A figure: its axes without colour bars, and the title above all of them."""

    axes: tuple = ()
    title: str = ""


def figure_of(answer):
    """The data of an answer that is a figure, from here or out of the sandbox; None for anything else."""
    return answer if isinstance(answer, FigureData) else figure_data(answer)


def figure_data(figure):
    """The data of a Matplotlib figure, or of the figure of Matplotlib axes; None for anything else."""
    figure = getattr(figure, "figure", None) or figure
    if not hasattr(figure, "get_axes"):
        return None
    shared = [text for legend in getattr(figure, "legends", ()) for text in legend.get_texts()]
    shown = [axes for axes in figure.get_axes()[:20] if not hasattr(axes, "_colorbar")]
    return FigureData(tuple(_axes(axes, shared) for axes in shown), _text(getattr(figure, "_suptitle", None)))


def _axes(axes, shared):
    legend = axes.get_legend()
    titles = (axes.get_title(loc=side).strip() for side in ("center", "left", "right"))
    return AxesData(
        title=next(filter(None, titles), ""),
        xlabel=axes.get_xlabel(),
        ylabel=axes.get_ylabel(),
        xticks=_texts(axes.get_xticklabels()),
        yticks=_texts(axes.get_yticklabels()),
        yaxis_up=not axes.yaxis_inverted(),
        lines=tuple(
            (str(line.get_label()), _values(line.get_xdata()), _values(line.get_ydata()))
            for line in axes.lines[:200]
        ),
        bars=tuple(_bar(patch, axes) for patch in axes.patches[:1000] if hasattr(patch, "get_width")),
        images=tuple(_images(axes)),
        points=tuple(
            (str(dots.get_label()), _values(dots.get_offsets()))
            for dots in axes.collections[:100] if type(dots).__name__ == "PathCollection"
        ),
        texts=_texts(axes.texts),
        legend=_texts(legend.get_texts() if legend else shared),
    )  # fmt: skip


def _images(axes):
    for image in axes.images[:20]:
        found = _values(image.get_array())
        _, _, bottom, top = image.get_extent()
        first_row_lies_at = top if image.origin == "upper" else bottom
        yield found if first_row_lies_at == min(bottom, top) else found[::-1]
    for mesh in axes.collections[:20]:
        if type(mesh).__name__ == "QuadMesh":
            found = _values(mesh.get_array())
            rows = mesh.get_coordinates().shape[0]
            if found.ndim == 1 and found.size:
                found = found.reshape(rows if found.size % (rows - 1) else rows - 1, -1)
            yield found


def _bar(patch, axes):
    lying = any(
        getattr(group, "orientation", "") == "horizontal" and patch in group.patches
        for group in axes.containers if hasattr(group, "patches")
    )  # fmt: skip
    if lying:
        return float(patch.get_y() + patch.get_height() / 2), float(patch.get_width())
    return float(patch.get_x() + patch.get_width() / 2), float(patch.get_height())


def _values(x):
    """Numbers as an array, hidden ones NaN; words as words."""
    x = np.ma.filled(x, np.nan) if np.ma.isMaskedArray(x) and x.dtype.kind == "f" else np.asarray(x)
    if x.dtype.kind not in "biuf":
        return np.array([str(a)[:100] for a in x.ravel()[:1000]])
    return x if x.size <= MOST else np.empty(0)


def _texts(labels):
    return tuple(text for text in map(_text, labels[:500]) if text)


def _text(text):
    return str(text.get_text()).strip()[:500] if text is not None else ""

"""What a Matplotlib figure shows, as numbers and words: a figure is judged by these, not by its pixels.

Imports nothing but NumPy: the sandbox has a copy of this file.
"""

from dataclasses import dataclass

import numpy as np

MOST = 1_000_000      # numbers of one image or line; more is not looked at


@dataclass(frozen=True)
class AxesData:
    """One pair of axes.

    Attributes
    ----------
    title, xlabel, ylabel : str
    xticks, yticks : tuple of str
        The tick labels, in the order of the ticks' places.
    yaxis_up : bool
        Whether y grows upwards.
    images : tuple of array
        What imshow, matshow and pcolormesh drew, as numbers, the first row that of the smallest y.
    lines : tuple of (str, array, array)
        Label, x and y of each line.
    bars : tuple of (array, array)
        The middles and heights of each group of bars.
    legend : tuple of str
    """

    title: str = ""
    xlabel: str = ""
    ylabel: str = ""
    xticks: tuple = ()
    yticks: tuple = ()
    yaxis_up: bool = True
    images: tuple = ()
    lines: tuple = ()
    bars: tuple = ()
    legend: tuple = ()


@dataclass(frozen=True)
class FigureData:
    """A figure: its axes, and the title above all of them."""

    axes: tuple[AxesData, ...] = ()
    title: str = ""


def figure_data(figure):
    """The data of a Matplotlib figure, or of the figure of Matplotlib axes; None for anything else."""
    figure = getattr(figure, "figure", figure)
    if isinstance(figure, (tuple, list)) or not hasattr(figure, "get_axes"):
        return None
    title = getattr(figure, "_suptitle", None)
    shown = [_axes(axes) for axes in figure.get_axes() if not hasattr(axes, "_colorbar")]
    return FigureData(tuple(shown), _text(title))


def _axes(axes):
    legend = axes.get_legend()
    return AxesData(
        title=_text(axes.title) or _text(axes._left_title) or _text(axes._right_title),
        xlabel=axes.get_xlabel(),
        ylabel=axes.get_ylabel(),
        xticks=_ticks(axes.xaxis),
        yticks=_ticks(axes.yaxis),
        yaxis_up=not axes.yaxis_inverted(),
        images=tuple(_images(axes)),
        lines=tuple(
            (str(line.get_label()), *(_numbers(x) for x in line.get_data())) for line in axes.get_lines()
        ),
        bars=tuple(
            (np.array([bar.get_x() + bar.get_width() / 2 for bar in group]),
             np.array([bar.get_height() for bar in group]))
            for group in axes.containers if all(hasattr(bar, "get_height") for bar in group)
        ),
        legend=tuple(_text(text) for text in legend.get_texts()) if legend else (),
    )  # fmt: skip


def _images(axes):
    for image in axes.get_images():
        found = _numbers(image.get_array())
        if found.ndim == 2:
            _, _, bottom, top = image.get_extent()
            first_is_top = image.origin == "upper"          # the first row lies at the extent's `top`
            yield found if (top < bottom) == first_is_top else found[::-1]
    for mesh in axes.collections:
        shape = getattr(mesh, "_coordinates", np.empty(0)).shape
        if len(shape) == 3 and mesh.get_array() is not None:
            found = _numbers(mesh.get_array())
            rows = shape[0] - 1 if found.size == (shape[0] - 1) * (shape[1] - 1) else shape[0]
            yield found.reshape(rows, -1)


def _numbers(x):
    found = np.ma.filled(np.ma.asarray(x).astype(float), np.nan)
    return found if found.size <= MOST else np.empty(0)


def _ticks(axis):
    return tuple(_text(label) for label in axis.get_ticklabels() if _text(label))


def _text(text):
    return str(text.get_text()).strip()[:500] if text is not None else ""

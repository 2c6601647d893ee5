"""A class's results, drawn in the style of the course's figures."""

import io
import textwrap

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attnlib.plots.style import DPI, FAINT, INK, PALETTE, WIDTH, finish, use_style

MOST_MISTAKES = 15
_ROW, _AROUND = 40, 130  # pixels of one bar with its distance to the next, and of title and axis
_FILL = (PALETTE[0], "#8fbbe0", PALETTE[1], "#c9c9c9", "white")  # in the order of the outcomes
_SIZE = 34  # characters of a name before it is broken


@use_style()
def scores(points, out_of):
    """How many students have how many points."""
    fig = Figure(figsize=(WIDTH, 4))
    ax = fig.subplots()
    width = max(1, int(np.ceil(out_of / 30)))
    edges = np.arange(0, out_of + 2 * width, width) - width / 2
    counts, _ = np.histogram(points, edges)
    ax.bar(edges[:-1] + width / 2, counts, width=0.9 * width, color=PALETTE[0])
    ax.set_xlim(-0.8 * width, out_of + 0.8 * width)
    ax.set_ylim(0, max(1, counts.max()) * 1.08)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    ax.set_xlabel(f"points of {out_of:g}")
    ax.set_ylabel("students")
    ax.set_title("Scores")
    return finish(fig)


@use_style()
def questions(titles, outcomes, names):
    """For each question how many students came to which outcome."""
    fig = Figure(figsize=(WIDTH, (_AROUND + 40 + _ROW * len(titles)) / DPI))
    ax = fig.subplots()
    left = np.zeros(len(titles))
    for name, fill in zip(names, _FILL, strict=True):
        counts = np.array([each[name] for each in outcomes], float)
        if not counts.any():
            continue
        ax.barh(
            range(len(titles)),
            counts,
            left=left,
            height=0.7,
            color=fill,
            label=name,
            edgecolor=INK if fill == "white" else fill,
            linewidth=0.8 if fill == "white" else 0,
            hatch="///" if fill == "white" else None,
        )
        left += counts
    _rows(ax, titles, left.max())
    ax.set_xlabel("students")
    fig.legend(loc="outside upper center", ncols=len(names), handlelength=1.0, columnspacing=1.2)
    return finish(fig)


@use_style()
def mistakes(named):
    """The mistakes that were named most: tuples of a count, a question's title and the mistake's name."""
    shown = named[:MOST_MISTAKES]
    fig = Figure(figsize=(WIDTH, (_AROUND + 1.3 * _ROW * len(shown)) / DPI))
    ax = fig.subplots()
    counts = [count for count, _, _ in shown]
    ax.barh(range(len(shown)), counts, height=0.6, color=PALETTE[1])
    for row, count in enumerate(counts):
        ax.annotate(f"{count}", (count, row), xytext=(5, 0), textcoords="offset points", va="center")
    _rows(ax, [f"{name}\n({title})" for _, title, name in shown], 1.06 * max(counts))
    more = len(named) - len(shown)
    ax.set_title("Mistakes that were named" + f" (the {len(shown)} commonest of {len(named)})" * bool(more))
    ax.set_xlabel("students")
    return finish(fig)


def _rows(ax, names, end):
    broken = [
        "\n".join(line for part in name.split("\n") for line in textwrap.wrap(part, _SIZE)) for name in names
    ]
    ax.set_yticks(range(len(names)), broken)
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0, max(end, 1))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    ax.grid(axis="x", color=FAINT)
    ax.spines.left.set_visible(False)


def as_svg(figure):
    """The bytes of a figure as SVG, the same for the same figure."""
    file = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "attnlib"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue()


def as_png(figure):
    """The bytes of a figure as PNG."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()

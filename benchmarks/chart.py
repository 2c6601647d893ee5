"""The table as a figure: each row's value divided by its target, so that 1 is the target of all."""

import math

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from attnlib.plots.style import DPI, INK, PALETTE, finish, use_style

ROW, AROUND, WIDTH = 24, 150, 16  # pixels, pixels, inches
TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 1, 1.5, 2, 5, 10)
LOOKS = {"met": (PALETTE[0], "o"), "explained": (PALETTE[1], "^"), "missed": (PALETTE[2], "s")}
WORDS = {"met": "met", "explained": "missed, with the reason in the table", "missed": "missed"}


@use_style()
def draw(rows):
    """Every measured row, grouped by the letter of its id, with the spread of its rounds."""
    rows = sorted((row for row in rows if "median" in row), key=lambda row: row["id"])
    groups = {}
    for row in rows:
        groups.setdefault(row["id"][0], []).append(row)
    fig = Figure(figsize=(WIDTH, (AROUND + ROW * (len(rows) + len(groups))) / DPI))
    axes = fig.subplots(len(groups), sharex=True, squeeze=False,
                        height_ratios=[len(group) + 1 for group in groups.values()])[:, 0]  # fmt: skip
    for ax, group in zip(axes, groups.values(), strict=True):
        _draw(ax, group)
    axes[-1].set_xlabel("measured / target, on a logarithmic axis; left of the line is better")
    handles = {label: handle for ax in axes
               for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}  # fmt: skip
    fig.legend(handles.values(), handles, loc="outside upper right", ncols=3)
    fig.suptitle("Which targets are met?", x=0.01, ha="left")
    return finish(fig)


def _draw(ax, group):
    ax.axvline(1, color=INK, linewidth=1.5)
    for verdict, (colour, marker) in LOOKS.items():
        chosen = [(i, row) for i, row in enumerate(group) if row["verdict"] == verdict]
        if not chosen:
            continue
        middle, low, high = ([_shown(row, key) for _, row in chosen] for key in ("median", "low", "high"))
        places = [i for i, _ in chosen]
        ax.hlines(places, low, high, color=colour, linewidth=2)
        ax.plot(middle, places, marker, color=colour, label=WORDS[verdict])
    ax.set_yticks(range(len(group)), [f"{row['id']}  {row['case']}" for row in group], fontsize=11)
    ax.set_ylim(len(group) - 0.4, -0.6)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(FixedLocator(TICKS))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")


def _shown(row, key):
    """Divided by the target; what is nothing, or never ended, stands at an end of the axis."""
    value = row[key] / row["target"]
    return 10.0 if math.isinf(value) else max(value, 0.01)

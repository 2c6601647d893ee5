"""Width and temperature moved by hand: where a softmax is too flat to choose, and where too sure to move."""

from functools import cache

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.core.softmaxes import softmax
from attnlib.plots.style import HEIGHT, INK, PALETTE, WEIGHT_MAP, WIDTH, use_style
from attnlib.views.view import View

__all__ = ["saturation_view"]

KEYS, QUERIES = 16, 500
TURN = 0.1  # of the query's length
WIDTHS = tuple(2**n for n in range(11))  # 1 to 1024
TEMPERATURES = tuple(2.0 ** (n / 2) for n in range(-4, 17))  # 1/4 to 256
_MOST = 0.08  # share of the weight at which the map is darkest


def saturation_view():
    """Move the width of the keys and the softmax's temperature, and see what still moves the weights.

    Queries and keys are normal, as in a model before training. On the left are the weights of one query over
    sixteen keys. On the right, for each width and temperature, is how much weight changes hands when a
    query turns by a tenth of its length in a random direction: the median over 500 queries.

    Returns
    -------
    View

    Examples
    --------
    >>> figure, words = saturation_view().draw(width=64, temperature=8.0)
    >>> words.split(".")[0]
    'Width 64, temperature 8, and the root of 64 is 8'
    """
    return View(draw, {"width": 64, "temperature": 1.0}, controls)


def controls(widgets, width, temperature):
    look = {"style": {"description_width": "110px"}, "layout": {"width": "48%"}}
    stops = [(f"{t:.3g}", t) for t in TEMPERATURES]
    named = {
        "width": widgets.SelectionSlider(options=WIDTHS, value=width, description="width d", **look),
        "temperature": widgets.SelectionSlider(options=stops, value=temperature, description="temperature T",
                                               **look),
    }  # fmt: skip
    return named, widgets.HBox([*named.values()])


@use_style()
def draw(width, temperature):
    """The figure and its words at one of the `WIDTHS` and one of the `TEMPERATURES`."""
    for name, value, known in (("width", width, WIDTHS), ("temperature", temperature, TEMPERATURES)):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(f'{v:.4g}' for v in known)}; got {value}")
    weights = softmax(scores(width), temperature=temperature)
    fig = Figure(figsize=(WIDTH, HEIGHT))
    fig.set_layout_engine("none")  # all places are given: laying out takes longer than drawing
    fig.suptitle("Which softmax still listens to its query?")
    _draw_weights(fig.add_axes((0.05, 0.15, 0.30, 0.66)), weights[0])
    _draw_map(fig.add_axes((0.46, 0.15, 0.40, 0.66)), fig.add_axes((0.88, 0.15, 0.02, 0.66)),
              width, temperature)  # fmt: skip
    return fig, _words(width, temperature, weights)


def _words(width, temperature, weights):
    moved = moved_weight(width, temperature)
    most = max(TEMPERATURES, key=lambda t: moved_weight(width, t))
    return (
        f"Width {width}, temperature {temperature:.3g}, and the root of {width} is {np.sqrt(width):.3g}. "
        f"In half of the queries the largest of {KEYS} weights is {np.median(weights.max(-1)):.2f} or more. "
        f"When a query turns by a tenth of its length, half of the queries move {moved:.1%} of their weight "
        f"or more. At this width the most is {moved_weight(width, most):.1%}, at temperature {most:.3g}."
    )


def _draw_weights(ax, weights):
    ax.bar(range(len(weights)), weights, color=PALETTE[0])
    ax.set(title="one query's weights", xlabel=f"its {len(weights)} keys", xticks=[], ylim=(0, 1))
    ax.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])


def _draw_map(ax, bar, width, temperature):
    moved = [[moved_weight(d, t) for d in WIDTHS] for t in TEMPERATURES]
    image = ax.imshow(moved, cmap=WEIGHT_MAP, vmin=0, vmax=_MOST, origin="lower", aspect="auto")
    column, row = WIDTHS.index(width), TEMPERATURES.index(temperature)
    ax.plot([0, 10], [4, 14], "--", color=INK)
    for text, *places in (("too flat", (4, 15), (9, 18)), ("too sure", (8.5, 0.5), (8.8, 4.6)),
                          ("$T = \\sqrt{d}$", (1.5, 8), (7, 13.5))):  # fmt: skip
        # Not where the frame lies; a text stands on its place and reaches above it.
        x, y = next((x, y) for x, y in places if abs(column - x) > 2.5 or not -1.5 <= row - y <= 2.5)
        ax.text(x, y, text, ha="center")
    for edge, thick in (("white", 6), (PALETTE[1], 3)):
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=edge, linewidth=thick,
                               clip_on=False, zorder=3))  # fmt: skip
    ax.set(title="weight that moves", xlabel="width d", ylabel="temperature T")
    ax.set_xticks(range(0, 11, 2), WIDTHS[::2])
    ax.set_yticks(range(0, 21, 4), [f"{t:g}" for t in TEMPERATURES[::4]])
    ax.figure.colorbar(image, cax=bar, ticks=[0, _MOST / 2, _MOST], format="{x:.0%}")


@cache
def drawn():
    """Lengths of queries by width, and standard scores of each query turned and not, (QUERIES, KEYS).

    Beside a query q, normal keys have scores that are normal with the spread |q|; and a turn of the query by
    a tenth of its length adds a tenth of such a score. So no key has to be drawn in full.
    """
    rng = np.random.default_rng(0)
    lengths = np.sqrt((rng.normal(size=(QUERIES, max(WIDTHS))) ** 2).cumsum(-1))
    before, turn = rng.normal(size=(2, QUERIES, KEYS))
    return lengths, before, before + TURN * turn


def scores(width, turned=False):
    """Scores of the queries, (QUERIES, KEYS), before any temperature."""
    lengths, *standard = drawn()
    return lengths[:, width - 1, None] * standard[turned]


@cache
def moved_weight(width, temperature):
    """The share of its weight that the median query moves to other keys when it turns."""
    before, after = (softmax(scores(width, turned), temperature=temperature) for turned in (False, True))
    return float(np.median(np.abs(after - before).sum(-1) / 2))

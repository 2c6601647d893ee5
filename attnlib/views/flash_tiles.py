"""A tile's shape moved by hand: what it changes on the way through attention, and what it does not."""

from functools import cache
from typing import NamedTuple

import numpy as np
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from attnlib.analysis.roofline import standard_accesses
from attnlib.core.scaled_dot_product import attention
from attnlib.datasets import running_example
from attnlib.efficient.tiles import row_blocks
from attnlib.plots._inputs import weight_text
from attnlib.plots.style import FAINT, INK, PALETTE, WEIGHT_MAP, WIDTH, text_colour, use_style
from attnlib.views.head import queries_and_keys
from attnlib.views.view import View

__all__ = ["tiles_view"]

WORDS = 8
TOKENS, FEATURES, TIMES = 4096, 64, 32  # of the long text, whose tiles are so many times as large
ROOM = 51_200  # numbers that fast memory holds
_DONE, _NOW, _SKIPPED = "#6797c4", PALETTE[1], "#767676"


def tiles_view():
    """Move the sides of a tile and walk through attention tile by tile.

    Eight words meet each other in tiles, blocks of queries in the outer loop. On top are the scores of the
    present tile, what is kept of each row, and the weights that the row's output stands for so far. Below is
    what a tile of this shape costs at 4,096 tokens: numbers that go to and from slow memory, and numbers
    that fast memory holds at once.

    Returns
    -------
    View

    Examples
    --------
    >>> figure, words = tiles_view().draw(queries=3, keys=3, step=8, causal=False)
    >>> words.split(".")[0]
    'Tiles of 3 by 3, step 8 of 9: queries 很 甜, keys 苹果 ， 它'
    """
    return View(draw, {"queries": 3, "keys": 3, "step": 8, "causal": False}, controls)


def controls(widgets, queries, keys, step, causal):
    look = {"style": {"description_width": "130px"}, "layout": {"width": "48%"}}
    named = {
        "queries": widgets.IntSlider(queries, 1, WORDS, description="queries in a tile", **look),
        "keys": widgets.IntSlider(keys, 1, WORDS, description="keys in a tile", **look),
        "step": widgets.IntSlider(step, 1, len(walk(queries, keys, causal)), description="step", **look),
        "causal": widgets.Checkbox(causal, description="causal: skip what lies ahead", **look),
    }

    def follow(change):
        """As many steps as there are tiles; who has come to the end stays there."""
        shape, slider = [named[name].value for name in ("queries", "keys", "causal")], named["step"]
        ended = slider.value == slider.max
        slider.max = len(walk(*shape))
        if ended:
            slider.value = slider.max

    for name in ("queries", "keys", "causal"):
        named[name].observe(follow, "value")  # before the view draws, which observes them later
    return named, widgets.HBox([*named.values()], layout={"flex_flow": "row wrap"})


@use_style()
def draw(queries, keys, step, causal):
    """The figure and its words after ``step`` tiles of ``queries`` by ``keys`` words, each 1 to 8.

    Raises ValueError for a side or a step that there is not.
    """
    _check("queries", queries, WORDS, "words")
    _check("keys", keys, WORDS, "words")
    tiles = walk(queries, keys, causal)
    _check("step", step, len(tiles), "tiles")
    fig = Figure(figsize=(WIDTH, 5.6))
    fig.set_layout_engine("none")  # all places are given: laying out takes longer than drawing
    fig.suptitle("What does the shape of a tile change?", y=0.985)
    _draw_walk(fig, tiles, step)
    _draw_costs(fig, queries, keys, causal)
    return fig, _words(queries, keys, step, causal)


def _check(name, value, most, what):
    if type(value) is not int or not 1 <= value <= most:
        raise ValueError(f"{name} must be an integer from 1 to {most}, as there are {most} {what}; "
                         f"got {value!r}")  # fmt: skip


def _words(queries, keys, step, causal):
    zh, tiles = running_example().zh, walk(queries, keys, causal)
    now, done = tiles[step - 1], finished(tiles, step)
    shrunk = [word for word, factor in zip(zh, now.factor, strict=True) if factor < 1]
    rescaled = (
        f"For {' '.join(shrunk)} the largest score rises to {now.scores.max():.0f}, and the old sums are "
        f"multiplied by {now.factor.min():.2f}"
        if shrunk
        else "No sum is rescaled"
    )
    gap = max(1e-12, np.abs(now.weights - exact(causal))[done].max(initial=0))
    agree = f", within {gap:.0e} of attention" if done.any() else ""
    return (
        f"{'Causal tiles' if causal else 'Tiles'} of {queries} by {keys}, step {step} of {len(tiles)}: "
        f"queries {' '.join(zh[now.rows])}, keys {' '.join(zh[now.keys])}. {rescaled}. "
        f"{done.sum()} of {WORDS} rows are finished{agree}. "
        f"At {TOKENS:,} tokens tiles {TIMES} times as large, {TIMES * queries} by {TIMES * keys}, move "
        f"{moved(queries, causal) / 1e6:.1f} million numbers to and from slow memory, the table "
        f"{standard_accesses(TOKENS, FEATURES) / 1e6:.1f}; fast memory must hold {held(queries, keys):,} and "
        f"has room for {ROOM:,}."
    )


# The walk through the eight words.


class Tile(NamedTuple):
    """Which queries met which keys, and what all rows have after it."""

    rows: slice
    keys: slice
    scores: np.ndarray
    m: np.ndarray
    l: np.ndarray
    weights: np.ndarray
    factor: np.ndarray


@cache
def exact(causal):
    """The weights at one go; the values are one-hot, so that an output is a row of weights."""
    return attention(*queries_and_keys(), np.eye(WORDS), causal=causal)


@cache
def walk(queries, keys, causal):
    """Every tile in order, with the running maxima, sums and weights after it."""
    q, k = queries_and_keys()
    m, l, a = np.full(WORDS, -np.inf), np.zeros(WORDS), np.zeros((WORDS, WORDS))
    tiles = []
    for rows, met in row_blocks(WORDS, WORDS, (queries, keys), causal):
        for cut, visible in met:
            s = q[rows] @ k[cut].T / 2
            s = s if visible is None else np.where(visible, s, -np.inf)
            top = np.maximum(m[rows], s.max(-1))
            old, e = np.exp(m[rows] - top), np.exp(s - top[:, None])
            factor = np.ones(WORDS)
            factor[rows] = np.where(l[rows] > 0, old, 1)  # where there was a sum to rescale
            m[rows], l[rows] = top, l[rows] * old + e.sum(-1)
            a[rows] *= old[:, None]
            a[rows, cut] += e
            weights = a / np.where(l > 0, l, 1)[:, None]
            tiles.append(Tile(rows, cut, s, m.copy(), l.copy(), weights, factor))
    return tiles


def finished(tiles, step):
    """Which rows meet no tile after this step, (8,) booleans."""
    done = tiles[step - 1].l > 0
    for tile in tiles[step:]:
        done[tile.rows] = False
    return done


# What the same tile costs, so many times as large.


def moved(queries, causal):
    """Numbers to and from slow memory: each block of queries fetches the keys and values it sees."""
    high = TIMES * queries
    seen = [min(end, TOKENS) if causal else TOKENS for end in range(high, TOKENS + high, high)]
    return 2 * FEATURES * (TOKENS + sum(seen))


def held(queries, keys):
    """Numbers in fast memory at once: queries, outputs, keys, values, scores; m and l of each row."""
    high, wide = TIMES * queries, TIMES * keys
    return 2 * FEATURES * (high + wide) + high * wide + 2 * high


# The picture. A cell of a table is 1 by 1; both tables and what is kept between them share one pair of axes.
# Each further axes, text or patch takes time, so that areas and lines are drawn all at once.

_KEPT, _RIGHT = 8.2, 12.3  # where what is kept begins, and the second table


def _draw_walk(fig, tiles, step):
    ax = fig.add_axes((0, 0.364, 1, 0.564))
    ax.set_axis_off()
    zh, now = running_example().zh, tiles[step - 1]
    for left, title in ((0, "scores of this tile"), (_RIGHT, "weights so far")):
        _write(ax, left + WORDS / 2, -0.55, title)
        for place, word in enumerate(zh):
            _write(ax, left + place + 0.5, WORDS + 0.45, word)
    for row, word in enumerate(zh):
        ax.text(-0.15, row + 0.5, word, ha="right", va="center_baseline")
    _draw_scores(ax, tiles, step)
    _draw_kept(ax, now)
    _draw_weights(ax, now)
    row = slice(-0.05, WORDS + 0.05)  # beside its numbers
    frames = [_corners(now.rows, now.keys), _corners(now.rows, row, _RIGHT)]
    ax.add_collection(PolyCollection(frames, facecolors="none", edgecolors=_NOW, linewidths=3.5))
    ax.set(xlim=(-1.3, _RIGHT + WORDS + 0.4), ylim=(WORDS + 1.6, -1.1), aspect="auto")


def _draw_scores(ax, tiles, step):
    done, skipped = np.zeros((WORDS, WORDS)), np.ones((WORDS, WORDS), bool)
    for i, tile in enumerate(tiles, start=1):
        done[tile.rows, tile.keys] = i < step
        skipped[tile.rows, tile.keys] = False
    ax.imshow(done, cmap=ListedColormap(["white", _DONE]), vmin=0, vmax=1, extent=(0, WORDS, WORDS, 0))
    boxes = [_corners(tile.rows, tile.keys) for tile in tiles]
    ax.add_collection(PolyCollection(boxes, facecolors="none", edgecolors=INK, linewidths=1))
    boxes = [_corners(slice(row, row + 1), slice(key, key + 1)) for row, key in np.argwhere(skipped)]
    ax.add_collection(PolyCollection(boxes, facecolors="none", edgecolors=_SKIPPED, linewidths=0, hatch="//"))
    now = tiles[step - 1]
    for (i, j), score in np.ndenumerate(now.scores):
        _write(ax, now.keys.start + j + 0.5, now.rows.start + i + 0.5, f"{score:.0f}".replace("-inf", "−∞"))
    left = "hatched: skipped" if boxes else "white: to come"
    _write(ax, WORDS / 2, WORDS + 1.35, f"shaded: done    framed: now    {left}")


def _draw_kept(ax, now):
    m, l, factor = (_KEPT + x for x in (0.55, 1.65, 3.05))
    for x, name in ((m, "$m$"), (l, "$l$"), (factor, "rescaled")):
        _write(ax, x, -0.55, name)
    for row in np.flatnonzero(now.l):
        _write(ax, m, row + 0.5, f"{now.m[row]:.0f}")
        _write(ax, l, row + 0.5, f"{now.l[row]:.2f}")
        if now.factor[row] < 1:
            _write(ax, factor, row + 0.5, f"× {now.factor[row]:.2f}", color=_NOW)


def _draw_weights(ax, now):
    ax.imshow(now.weights, cmap=WEIGHT_MAP, vmin=0, vmax=1, extent=(_RIGHT, _RIGHT + WORDS, WORDS, 0))
    lines = [((_RIGHT + x, 0), (_RIGHT + x, WORDS)) for x in range(WORDS + 1)]
    lines += [((_RIGHT, y), (_RIGHT + WORDS, y)) for y in range(WORDS + 1)]
    ax.add_collection(LineCollection(lines, colors=FAINT, linewidths=1, zorder=1))
    for row, key in np.argwhere(now.weights[now.rows]) + (now.rows.start, 0):
        weight = now.weights[row, key]
        _write(ax, _RIGHT + key + 0.5, row + 0.5, weight_text(weight),
               color=text_colour(WEIGHT_MAP(weight)[:3]))  # fmt: skip


def _draw_costs(fig, queries, keys, causal):
    sizes = range(1, WORDS + 1)
    slow, fast = [moved(n, causal) for n in sizes], [held(n, keys) for n in sizes]
    table, now = standard_accesses(TOKENS, FEATURES), queries - 1
    fig.text(0.5, 0.312, f"at {TOKENS:,} tokens of width {FEATURES}, in tiles {TIMES} times as large",
             ha="center", va="center")  # fmt: skip
    _draw_bars(fig.add_axes((0.055, 0, 0.41, 0.285)), slow, now, table, table,
               f"to and from slow memory: {slow[now] / 1e6:.1f} million numbers",
               f"queries in a tile    dashed: table, {table / 1e6:.1f} million")  # fmt: skip
    _draw_bars(fig.add_axes((0.555, 0, 0.41, 0.285)), fast, now, ROOM, held(WORDS, WORDS),
               f"in fast memory: {fast[now]:,} numbers{', too many' * (fast[now] > ROOM)}",
               f"queries in a tile    dashed: room, {ROOM:,}")  # fmt: skip


def _draw_bars(ax, values, now, limit, top, title, legend):
    """A bar for each height of a tile, the present one filled."""
    ax.set_axis_off()
    ax.set(xlim=(0.5, WORDS + 0.5), ylim=(-0.93, 1.65))
    middle, fills = (WORDS + 1) / 2, ["white"] * WORDS
    fills[now] = PALETTE[0]
    bars = [
        [(n - 0.35, 0), (n - 0.35, value / top), (n + 0.35, value / top), (n + 0.35, 0)]
        for n, value in enumerate(values, start=1)
    ]
    ax.add_collection(PolyCollection(bars, facecolors=fills, edgecolors=PALETTE[0], linewidths=1.5))
    ax.axhline(limit / top, color=INK, linestyle="--", linewidth=1.5)
    _write(ax, middle, 1.38, title)
    for n in sorted({1, now + 1, WORDS}):
        _write(ax, n, -0.22, str(TIMES * n))
    _write(ax, middle, -0.63, legend)


def _write(ax, x, y, text, **look):
    ax.text(x, y, text, ha="center", va="center_baseline", **look)


def _corners(rows, keys, left=0):
    right, left = left + keys.stop, left + keys.start
    return [(left, rows.start), (right, rows.start), (right, rows.stop), (left, rows.stop)]

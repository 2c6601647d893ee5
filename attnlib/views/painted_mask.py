"""A mask painted by hand: where the weight goes that a query gave to what it may no longer see."""

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.core.masks import causal_mask, padding_mask, window_mask
from attnlib.core.scaled_dot_product import attention_weights
from attnlib.datasets import running_example
from attnlib.plots._inputs import weight_text
from attnlib.plots.masks import _to_mask
from attnlib.plots.style import DPI, FAINT, INK, PALETTE, TITLE, WEIGHT_MAP, WIDTH, text_colour, use_style
from attnlib.views.head import queries_and_keys
from attnlib.views.view import View

__all__ = ["mask_view"]

TOKENS = running_example().zh
N = len(TOKENS)
EVERYTHING = np.ones((N, N), bool)
PRESETS = {
    "everything": EVERYTHING,
    "causal": causal_mask(N),
    "window of three": window_mask(N, 3),
    "the last two are padding": EVERYTHING & padding_mask(np.array([[1] * (N - 2) + [0] * 2]))[0, 0],
    "nothing": ~EVERYTHING,
}
IT, APPLE, I = (TOKENS.index(word) for word in ("它", "苹果", "我"))  # noqa: E741

_HEIGHT, _TOP, _CELL = 450, 86, 36  # pixels: of the figure, above its cells, of a cell
_MIDDLE = {"ha": "center", "va": "center"}
_LEGEND = "down: queries      across: keys      hatched: hidden      right of the thick line: the future"


def mask_view():
    """Paint a mask cell by cell, and see where the weight of what it hides goes.

    The words are those of the running example; a number, a pointer, an action and a quality look for what
    they depend on, with 0.74 of their weight. A ticked cell says that its query may look at its key. On the
    left are the weights under the mask, on the right what each has gained or lost by it. At first 它 may not
    look at 苹果.

    Returns
    -------
    View

    Examples
    --------
    >>> figure, words = mask_view().draw(mask=[[True] * 8] * 8)
    >>> words.split(".")[0]
    '0 of 64 cells are hidden, and 28 of the 28 that look into the future are open'
    """
    mask = EVERYTHING.copy()
    mask[IT, APPLE] = False
    return View(draw, {"mask": _rows(mask)}, controls)


def controls(widgets, mask):
    from attnlib.views.mask_grid import MaskGrid  # which imports ipywidgets

    def button(name, preset):
        button = widgets.Button(description=name, layout={"width": "200px"})
        button.on_click(lambda _: setattr(grid, "value", _rows(preset)))
        return button

    grid = MaskGrid(TOKENS, TOKENS, mask)
    # Before the grid, whose every cell is a stop of the Tab key.
    presets = widgets.VBox([button(*preset) for preset in PRESETS.items()], layout={"flex": "none"})
    return {"mask": grid}, widgets.HBox([presets, grid], layout={"flex_flow": "row wrap"})


def _rows(mask):
    return tuple(map(tuple, mask.tolist()))


@use_style()
def draw(mask):
    """The figure and its words for one mask, (8, 8) booleans; ValueError or TypeError for another."""
    mask = _to_mask(mask, (N, N), "mask")
    q, k = queries_and_keys()
    before, after = attention_weights(q, k), attention_weights(q, k, mask)
    fig = Figure(figsize=(WIDTH, _HEIGHT / DPI))
    fig.set_layout_engine("none")  # all places are given, in pixels
    ax = fig.add_axes((0, 0, 1, 1), xlim=(0, WIDTH * DPI), ylim=(_HEIGHT, 0))
    ax.set_axis_off()  # ticks would take longer than all else
    ax.text(500, 22, "Where does the weight of a hidden key go?", size=TITLE, **_MIDDLE)
    _draw_weights(ax, mask, after)
    _draw_moved(ax, after - before)
    ax.text(500, 424, _LEGEND, **_MIDDLE)
    return fig, _words(mask, before, after)


def _words(mask, before, after):
    hidden, ahead = int((~mask).sum()), int(np.triu(mask, 1).sum())
    said = [
        f"{hidden} of {N * N} cells {_are(hidden)} hidden, and {ahead} of the {N * (N - 1) // 2} that look "
        f"into the future {_are(ahead)} open."
    ]
    blind = ~mask.any(-1)
    if blind.all():
        return f"{said[0]} No query sees a key, and all weights are 0."
    if blind.any():
        names = " and ".join(TOKENS[row] for row in np.flatnonzero(blind))
        said.append(f"Nothing is seen by {names}, and all weights there are 0; every other row sums to 1.")
    else:
        said.append("Every row sums to 1.")
    lost = np.where(mask, 0, before).sum(-1)
    most = max(np.flatnonzero(~blind), key=lambda row: round(lost[row], 6))  # of equal ones the first
    if lost[most]:
        seen = int(mask[most].sum())
        said.append(
            f"No {'other ' if blind.any() else ''}row loses more than {TOKENS[most]}: what is hidden from it "
            f"held {lost[most]:.2f}, and what it still sees, {seen} {'key' if seen == 1 else 'keys'}, has "
            f"{1 / (1 - lost[most]):.2f} times the weight it had."
        )
    return " ".join([*said, f"{TOKENS[IT]} gives {TOKENS[I]} {weight_text(after[IT, I])}."])


def _are(number):
    return "is" if number == 1 else "are"


def _draw_weights(ax, mask, weights):
    texts = np.where(mask, np.vectorize(weight_text)(weights), "")
    columns, rows = _draw_cells(ax, 66, 46, "weights under the mask", WEIGHT_MAP(weights)[..., :3], texts)
    slants = np.array([[[0, 0.5], [0.5, 0]], [[0, 1], [1, 0]], [[0.5, 1], [1, 0.5]]]) - 0.5
    y, x = np.moveaxis(np.argwhere(~mask)[:, None, None] + slants, -1, 0)  # three lines through each cell
    lines = np.stack([columns(x), rows(y)], -1).reshape(-1, 2, 2)
    ax.add_collection(LineCollection(lines, colors="#767676", linewidths=1))
    stairs = np.arange(N).repeat(2) - 0.5
    ax.plot(columns(stairs[2:]), rows(stairs[1:-1]), color=INK)
    for row, text in enumerate(["sum", *map(weight_text, weights.sum(-1))], start=-1):
        ax.text(columns(N + 0.2), rows(row) if text != "sum" else _TOP - 22, text, **_MIDDLE)


def _draw_moved(ax, moved):
    gain, loss = (np.array(to_rgb(colour)) for colour in PALETTE[:2])
    ground = 1 - np.abs(moved)[..., None] * (1 - np.where(moved[..., None] > 0, gain, loss))
    signed = np.vectorize(lambda m: f"{m:+.2f}".replace("-", "\N{MINUS SIGN}"))
    texts = np.where(np.abs(moved) > 1e-9, signed(moved), "")
    _draw_cells(ax, 540, 54, "gained or lost by the mask", ground, texts)


def _draw_cells(ax, left, wide, title, ground, texts):
    """Coloured cells with texts in them; gives where a column and a row have their middle, in pixels."""

    def columns(column):
        return left + wide * (column + 0.5)

    def rows(row):
        return _TOP + _CELL * (row + 0.5)

    right, bottom = columns(N - 0.5), rows(N - 0.5)
    ax.imshow(ground, extent=(left, right, bottom, _TOP), aspect="auto", interpolation="none")
    between = np.arange(1, N) - 0.5
    ax.hlines(rows(between), left, right, color=FAINT, linewidth=1)
    ax.vlines(columns(between), _TOP, bottom, color=FAINT, linewidth=1)
    ax.add_patch(Rectangle((left, _TOP), right - left, bottom - _TOP, fill=False, edgecolor=INK))
    ax.text((left + right) / 2, _TOP - 24, title, size=TITLE, **_MIDDLE)
    for place, token in enumerate(TOKENS):
        ax.text(columns(place), bottom + 18, token, **_MIDDLE)
        ax.text(left - 8, rows(place), token, ha="right", va="center")
    for (row, column), text in np.ndenumerate(texts):
        if text:
            colour = text_colour(ground[row, column])
            ax.text(columns(column), rows(row), text, color=colour, **_MIDDLE)
    return columns, rows

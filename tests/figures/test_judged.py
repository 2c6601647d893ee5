"""Maps that lie anywhere on their axes are judged by their own cells; and every view passes the check."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from gallery import judge
from matplotlib.figure import Figure

from attnlib import views
from attnlib.plots import use_style
from attnlib.views.painted_mask import PRESETS
from attnlib.views.translator_heads import ATTENTIONS, SENTENCES


@pytest.fixture
def blank():
    """An empty figure in our style, its axes, and what the check says of it."""
    with use_style():
        fig = Figure(figsize=(10, 4))
        ax = fig.subplots()
        ax.set(xticks=[], yticks=[])
        yield SimpleNamespace(ax=ax, found=lambda: judge.findings(fig))


def two_sides(ax, table, **how):
    ax.imshow(table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto", **how)
    ax.set(xticks=[], yticks=[])


@pytest.mark.parametrize("extent, origin, x, y", [
    ((100, 400, 300, 100), "upper", 150, 150),
    ((100, 400, 100, 300), "upper", 150, 250),
    ((100, 400, 100, 300), "lower", 150, 150),
    ((400, 100, 300, 100), "upper", 350, 150),
    (None, "lower", 0, 0),
], ids=["as pixels", "upwards", "first row below", "leftwards", "first row below, by indices"])  # fmt: skip
def test_a_stroke_is_found_in_its_cell_wherever_the_map_lies(blank, extent, origin, x, y):
    """No turn of this table lays its only dark blue cell on its only dark red one."""
    two_sides(blank.ax, [[-1, 1, 0], [0, 0, 0]], extent=extent, origin=origin)
    left, right, bottom, top = blank.ax.images[0].get_extent()
    blank.ax.hlines([(bottom + top) / 2], left, right, color="white")    # between the rows
    (found,) = blank.found()
    assert "equally dark in grey" in found
    blank.ax.vlines([x], y - 0.3, y + 0.3, color="white")
    assert blank.found() == []
    blank.ax.invert_xaxis()
    blank.ax.invert_yaxis()
    assert blank.found() == []


@pytest.mark.parametrize("column, row", [(-1, 0), (3, 0), (0, -1), (0, 2)])
def test_a_line_beside_a_map_strikes_no_cell_at_its_other_end(blank, column, row):
    table = np.zeros((2, 3))
    table[1, 1], table[row % 2, column % 3] = 1, -1
    two_sides(blank.ax, table)
    blank.ax.vlines([column], row - 0.3, row + 0.3, color="white")
    (found,) = blank.found()
    assert "equally dark in grey" in found


# Beside the state that each view starts with, those that change most of it.
STATES = {
    "mask_view": [{"mask": mask.tolist()} for mask in
                  (PRESETS["causal"], PRESETS["nothing"], np.random.default_rng(0).random((8, 8)) < 0.5)],
    "saturation_view": [{"width": 1, "temperature": 0.25}, {"width": 1024, "temperature": 256.0},
                        {"width": 4, "temperature": 4.0}, {"width": 16, "temperature": 64.0},
                        {"width": 256, "temperature": 2**-1.5}],
    "tiles_view": [{"queries": 8, "keys": 8, "step": 1}, {"queries": 3, "keys": 2, "causal": True},
                   {"queries": 1, "keys": 1, "step": 36, "causal": True}],
    "translator_view": [{"sentence": sentence, "attention": attention, "asks": 1}
                        for sentence, attention in product(SENTENCES, ATTENTIONS)],
}  # fmt: skip
VIEWS = [name for name in views.__all__ if name != "View"]


@pytest.mark.parametrize("name, state", [(name, state) for name in VIEWS for state in ({}, *STATES[name])])
def test_every_view_passes(name, state):
    view = getattr(views, name)()
    figure, _ = view.draw(**(view.start | state))
    assert judge.findings(figure) == []

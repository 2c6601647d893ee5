"""head_layout: what it draws, and what it refuses."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from attnlib.plots import head_layout
from attnlib.plots.style import INK, PALETTE

ENTRIES = np.arange(12)
RIGHT = ENTRIES.reshape(3, 2, 2).transpose(1, 0, 2)          # (H, L, d)
VIEW = ENTRIES.reshape(2, 3, 2)


def cells(ax):
    return {
        text.get_text(): patch
        for text, patch in zip([t for t in ax.texts if "head" not in t.get_text()], ax.patches, strict=True)
    }


def framed(ax):
    return {name for name, patch in cells(ax).items() if patch.get_edgecolor()[:3] == to_rgb(INK)}


def test_each_cell_says_its_word_and_feature_where_it_lies():
    fig = head_layout({"right": RIGHT}, "我爱你", title="Where?")
    (ax,) = fig.axes
    assert fig.get_suptitle() == "Where?"
    assert ax.get_title() == "right"
    found = cells(ax)
    assert set(found) == {f"{word}{feature}" for word in "我爱你" for feature in range(4)}
    assert found["爱2"].get_y() == pytest.approx(1.06)          # row 1
    assert found["爱2"].get_x() > found["爱1"].get_x() + 1      # the next head
    assert ax.get_ylim()[0] > ax.get_ylim()[1]                  # row 0 on top
    assert [t.get_text() for t in ax.get_yticklabels()] == ["row 0", "row 1", "row 2"]


def test_a_word_keeps_its_colour():
    (ax,) = head_layout({"view": VIEW}, "我爱你", title="t").axes
    colours = {name[0]: patch.get_facecolor() for name, patch in cells(ax).items()}
    assert all(cells(ax)[name].get_facecolor() == colours[name[0]] for name in cells(ax))
    assert len(set(colours.values())) == 3


def test_what_is_astray_has_a_frame():
    fig = head_layout({"right": RIGHT, "view": VIEW}, "我爱你", title="t")
    assert [len(framed(ax)) for ax in fig.axes] == [0, 8]
    assert {"我0", "我1", "你2", "你3"}.isdisjoint(framed(fig.axes[1]))


def test_a_torch_tensor_will_do():
    torch = pytest.importorskip("torch")
    (ax,) = head_layout({"right": torch.tensor(RIGHT.copy())}, "我爱你", title="t").axes
    assert not framed(ax)


@pytest.mark.parametrize("panels, words, error, message", [
    ({"x": RIGHT}, "我爱", ValueError, r"must be \(H, 2, d\)"),
    ({"x": RIGHT[0]}, "我爱你", ValueError, r"has shape \(3, 2\)"),
    ({"x": RIGHT + 1}, "我爱你", ValueError, "from 0 to 11; got 1 to 12"),
    ({"x": RIGHT + 0.5}, "我爱你", TypeError, "whole numbers"),
    ({"x": np.full((1, 3, 1), "a")}, "我爱你", TypeError, "whole numbers"),
    ({}, "我爱你", ValueError, "panels has 0 entries"),
    (RIGHT, "我爱你", TypeError, "panels must be a dict"),
    ({"x": np.arange(12).reshape(1, 6, 2)}, "abcdef", ValueError, f"only {len(PALETTE)} can"),
])
def test_what_cannot_be_drawn_is_named(panels, words, error, message):
    with pytest.raises(error, match=message):
        head_layout(panels, words, title="t")

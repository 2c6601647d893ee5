"""dials: what it draws, and what it refuses."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.quiver import Quiver

from attnlib.plots import dials
from attnlib.plots.style import PALETTE

ANGLES = np.array([[0.0, 0.5, 3.0], [1.0, -2.0, 100.0]])
ROWS, COLUMNS = ["place 0", "place 1"], ["fast", "slow", "slower"]


def hands(fig):
    (ax,) = fig.axes
    return [part for part in ax.get_children() if isinstance(part, Quiver)]


def test_each_dial_has_a_hand_that_turns_counter_clockwise(assert_readable):
    fig = dials(ANGLES, ROWS, COLUMNS, title="Where do they point?")
    (hand,) = hands(fig)
    np.testing.assert_allclose(hand.U, np.cos(ANGLES).ravel())
    np.testing.assert_allclose(hand.V, np.sin(ANGLES).ravel())       # "uv": upwards on the page
    assert hand.angles == "uv"
    (ax,) = fig.axes
    assert len(ax.patches) == ANGLES.size
    assert np.allclose([patch.center for patch in ax.patches], hand.XY)
    assert [text.get_text() for text in ax.get_xticklabels()] == COLUMNS
    assert [text.get_text() for text in ax.get_yticklabels()] == ROWS
    assert ax.get_ylim()[0] > ax.get_ylim()[1]                       # row 0 on top
    assert fig.get_suptitle() == "Where do they point?" and not fig.legends
    assert_readable(fig)


def test_two_hands_have_colours_and_a_key(assert_readable):
    fig = dials({"query": ANGLES, "key": ANGLES + 1}, ROWS, COLUMNS, title="t")
    colours = [to_rgb(hand.get_facecolor()[0][:3]) for hand in hands(fig)]
    assert colours == [to_rgb(colour) for colour in PALETTE[:2]]
    (key,) = fig.legends
    assert [text.get_text() for text in key.get_texts()] == ["query", "key"]
    assert_readable(fig)


@pytest.mark.parametrize("columns", [["a rather long name", "another long name", "and a third one"], "abc"])
def test_long_names_do_not_meet(columns, assert_readable):
    assert_readable(dials(ANGLES, ROWS, columns, title="t"))


@pytest.mark.parametrize("angles, error, message", [
    (ANGLES[0], ValueError, r"call for \(2, 3\)"),
    ({"query": ANGLES.T}, ValueError, r"query has shape \(3, 2\)"),
    ({}, ValueError, "one to three"),
    ({name: ANGLES for name in "abcd"}, ValueError, "4 entries"),
    ([["a"] * 3] * 2, TypeError, "hands"),
])
def test_what_cannot_be_drawn_is_named(angles, error, message):
    with pytest.raises(error, match=message):
        dials(angles, ROWS, COLUMNS, title="t")

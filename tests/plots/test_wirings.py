"""wirings: boxes at their places, arrows between them, and what is refused."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation

from attnlib.plots import wirings
from attnlib.plots.style import PALETTE

BOXES = {"x": (0.5, 0), "read M": (0, 1), "attend to\nall": (1, 1), "out": (0.5, 2)}
ARROWS = [("x", "read M"), ("x", "attend to\nall"), ("read M", "attend to\nall"), ("attend to\nall", "out")]


def middles(ax):
    return {text.get_text(): text.get_position() for text in ax.texts if text.get_text()}


def drawn():
    return wirings({"first": (BOXES, ARROWS), "second": ({"x": (0.5, 0)}, [])}, marked=["read M"],
                   title="What feeds what?")  # fmt: skip


def test_boxes_stand_at_their_places(assert_readable):
    fig = drawn()
    first, second = fig.axes
    at = middles(first)
    assert set(at) == set(BOXES) and set(middles(second)) == {"x"}
    assert at["x"][0] == pytest.approx(at["out"][0])
    assert at["read M"][0] < at["x"][0] < at["attend to\nall"][0]
    assert at["x"][1] < at["read M"][1] == at["attend to\nall"][1] < at["out"][1]
    assert (first.get_title(), second.get_title()) == ("first", "second")
    assert fig.get_suptitle() == "What feeds what?"
    assert_readable(fig)


def test_a_marked_box_has_another_colour_and_a_thick_edge():
    first = drawn().axes[0]
    boxes = [patch for patch in first.patches if isinstance(patch, Rectangle)]
    edges = [to_hex(box.get_edgecolor()) for box in boxes]
    assert edges == [PALETTE[0], PALETTE[1], PALETTE[0], PALETTE[0]]
    assert boxes[1].get_linewidth() >= 2 * boxes[0].get_linewidth()


def test_each_arrow_leads_from_edge_to_edge():
    first = drawn().axes[0]
    boxes = dict(zip(BOXES, (p for p in first.patches if isinstance(p, Rectangle)), strict=True))
    arrows = [text for text in first.texts if isinstance(text, Annotation)]
    assert len(arrows) == len(ARROWS)
    for (start, end), arrow in zip(ARROWS, arrows, strict=True):
        for text, point in ((start, arrow.get_position()), (end, arrow.xy)):
            left, bottom = boxes[text].get_xy()
            right, top = left + boxes[text].get_width(), bottom + boxes[text].get_height()
            assert left - 1e-6 <= point[0] <= right + 1e-6 and bottom - 1e-6 <= point[1] <= top + 1e-6
            assert np.isclose(point, [left, bottom]).any() or np.isclose(point, [right, top]).any()


def test_a_downward_arrow_ends_on_the_upper_edge():
    fig = wirings({"": ({"a": (0.5, 1), "b": (0.5, 0)}, [("a", "b")])}, title="t")
    (arrow,) = [text for text in fig.axes[0].texts if isinstance(text, Annotation)]
    assert arrow.get_position()[1] > arrow.xy[1] > middles(fig.axes[0])["b"][1]


def test_numbers_may_name_boxes():
    fig = wirings({8: ({1: (0.5, 0), 2: (0.5, 1)}, [(1, 2)])}, marked=[2], title="t")
    (ax,) = fig.axes
    assert ax.get_title() == "8" and set(middles(ax)) == {"1", "2"}
    assert [to_hex(patch.get_edgecolor()) for patch in ax.patches[:2]] == [*PALETTE[:2]]
    assert len([text for text in ax.texts if isinstance(text, Annotation)]) == 1


def test_one_text_is_no_collection_of_marked_boxes():
    with pytest.raises(TypeError, match="marked must be a collection of boxes' texts; got the string 'x'"):
        wirings({"a": ({"x": (0, 0)}, [])}, marked="x", title="t")


@pytest.mark.parametrize("panels, error, words", [
    ({}, ValueError, "0 entries"),
    (dict.fromkeys("abcd", ({"x": (0, 0)}, [])), ValueError, "4 entries"),
    ([], TypeError, "panels must be a dict"),
    ({"a": ({}, [])}, ValueError, "no boxes"),
    ({"a": ({"x": (2, 0)}, [])}, ValueError, "'x' at (2, 0)"),
    ({"a": ({"x": 3}, [])}, ValueError, "'x' at 3"),
    ({"a": ({"x": (0, 0)}, [("x", "y")])}, ValueError, "('x', 'y')"),
])  # fmt: skip
def test_what_is_no_wiring_is_refused(panels, error, words):
    with pytest.raises(error) as raised:
        wirings(panels, title="t")
    assert words in str(raised.value)

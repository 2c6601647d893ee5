"""curves: points, bands, lines and their labels; and what it refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlib.plots import curves
from attnlib.plots.lines import spread, written_out
from attnlib.plots.style import INK, PALETTE

NAMES = {"title": "t", "xlabel": "x", "ylabel": "y"}


def lines(fig):
    return {line.get_label(): line for line in fig.axes[0].lines}


def test_measurement_is_points_and_theory_a_line():
    fig = curves([3, 1, 2], {"seen": [9, 1, 4]}, theory={"x²": np.square}, **NAMES)
    seen, theory = lines(fig)["seen"], lines(fig)["x²"]
    assert seen.get_linestyle() == "None" and seen.get_marker() == "o"
    assert seen.get_xydata().tolist() == [[1, 1], [2, 4], [3, 9]]
    assert theory.get_linestyle() == "-" and theory.get_marker() == "None"
    x, y = theory.get_xydata().T
    assert (x[0], x[-1], len(x)) == (1, 3, 200) and np.array_equal(y, x**2)
    ax = fig.axes[0]
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("t", "x", "y")


def test_a_band_lies_between_low_and_high():
    fig = curves([1, 2], {"a": ([1, 2], [0.5, 1.5], [2, 3])}, **NAMES)
    (band,) = fig.axes[0].collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices}
    assert corners == {(1, 0.5), (1, 2), (2, 1.5), (2, 3)}


def test_three_numbers_in_a_tuple_are_no_band():
    fig = curves([1, 2, 3], {"a": (4, 5, 6)}, **NAMES)
    assert lines(fig)["a"].get_ydata().tolist() == [4, 5, 6]
    assert not fig.axes[0].collections


def test_series_differ_by_colour_and_by_marker_or_dash():
    fig = curves([1, 2], {n: [1, 2] for n in "abcde"}, theory={n: np.sqrt for n in "wxyz"}, **NAMES)
    drawn = lines(fig)
    assert len({drawn[n].get_marker() for n in "abcde"}) == 5
    assert len({drawn[n].get_color() for n in "abcde"}) == 5
    assert len({drawn[n].get_linestyle() for n in "wxyz"}) == 4


def test_up_to_three_are_labelled_at_their_ends():
    fig = curves([1, 2], {"low": [0, 0], "high": [1, 5]}, theory={"middle": lambda x: 2 + 0 * x}, **NAMES)
    ax = fig.axes[0]
    assert ax.get_legend() is None
    placed = {text.get_text(): text for text in ax.texts}
    height = {label: text.xy[1] for label, text in placed.items()}
    assert height["low"] < height["middle"] < height["high"]
    assert placed["high"].get_color() == lines(fig)["high"].get_color()


def test_labels_of_equal_ends_do_not_collide():
    fig = curves([1, 2], {"a": [1, 2], "b": [0, 2], "c": [3, 2]}, **NAMES)
    fig.draw_without_rendering()
    boxes = sorted((text.get_window_extent() for text in fig.axes[0].texts), key=lambda box: box.y0)
    assert len(boxes) == 3
    for below, above in zip(boxes, boxes[1:], strict=False):
        assert above.y0 >= below.y1 - 3


def test_more_than_three_have_a_legend():
    ax = curves([1, 2], {n: [1, 2] for n in "abcd"}, **NAMES).axes[0]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list("abcd")
    assert not ax.texts


def test_any_label_stands_in_the_legend():
    ax = curves([1, 2], {8: [1, 2], "_a": [2, 3]}, theory={"_a": np.sqrt, "b": np.square}, **NAMES).axes[0]
    legend = ax.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["8", "_a", "_a", "b"]
    assert [line.get_color() for line in legend.get_lines()] == [*PALETTE[:2], INK, INK]


def test_a_logarithmic_axis_names_each_x():
    ax = curves([4, 64, 512], {"a": [1, 2, 3]}, theory={"b": np.sqrt}, logx=True, **NAMES).axes[0]
    assert ax.get_xscale() == "log"
    assert [label.get_text() for label in ax.get_xticklabels()] == ["4", "64", "512"]


def test_a_logarithmic_axis_has_no_raised_digits(assert_readable):
    x = np.geomspace(1e-7, 1e7, 29)
    fig = curves(x, {"a": x}, logx=True, logy=True, **NAMES)
    fig.draw_without_rendering()
    for axis in (fig.axes[0].xaxis, fig.axes[0].yaxis):
        named = {label.get_text() for label in axis.get_ticklabels()}
        assert {"1e-7", "1e-5", "0.001", "0.1", "10", "1,000", "100,000"} & named
        assert not any("$" in text for text in named)
    assert_readable(fig)


def test_both_axes_are_named_where_both_are_logarithmic():
    fig = curves([4, 64, 1024], {"a": [3, 4, 8]}, logx=True, logy=True, **NAMES)
    fig.draw_without_rendering()
    ax = fig.axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["4", "64", "1,024"]
    assert {"3", "4"} <= {label.get_text() for label in ax.get_yticklabels(minor=True)}


@pytest.mark.parametrize("number, words", [
    (0, "0"), (1, "1"), (0.5, "0.5"), (1024, "1,024"), (1e6, "1,000,000"), (1e-3, "0.001"),
    (-1e-3, "-0.001"), (1e-4, "1e-4"), (2.5e-7, "2.5e-7"), (1e7, "1e7"), (3e12, "3e12"),
])  # fmt: skip
def test_a_number_is_written_as_the_lessons_print_it(number, words):
    assert written_out(number) == words


def test_the_vertical_axis_is_logarithmic_where_asked(assert_readable):
    fig = curves([1, 2, 3], {"a": [1, 1e-2, 1e-4]}, theory={"b": lambda x: 10.0 ** (2 - 2 * x)}, logy=True,
                 **NAMES)
    assert (fig.axes[0].get_xscale(), fig.axes[0].get_yscale()) == ("linear", "log")
    assert_readable(fig)


def test_labels_stand_at_the_ends_on_a_logarithmic_axis_too():
    fig = curves([1, 2], {"low": [1, 1e-4], "middle": [1, 1e-2], "high": [1, 1]}, logy=True, **NAMES)
    heights = [text.xy[1] for text in fig.axes[0].texts]
    assert heights[1] == pytest.approx((heights[0] + heights[2]) / 2)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
def test_spread_keeps_order_and_distance(heights):
    placed = spread(heights, 0.1)
    order = np.argsort(heights, kind="stable")
    assert (np.diff(placed[order]) >= 0.1 - 1e-9).all()
    assert placed.mean() == pytest.approx(np.mean(heights))


def test_spread_leaves_alone_what_does_not_touch():
    assert spread([0.9, 0.1, 0.5], 0.1).tolist() == [0.9, 0.1, 0.5]
    assert spread([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])


@pytest.mark.parametrize("x, measured, more, error, message", [
    ([[1]], {"a": [1]}, {}, ValueError, r"x has shape \(1, 1\), but must be \(n,\)"),
    ([], {"a": []}, {}, ValueError, r"x has shape \(0,\)"),
    ([1, 2], {"a": [1]}, {}, ValueError, r"measured\['a'\] has shape \(1,\), .* \(2,\)"),
    ([1, 2], {"a": ([1, 2], [4, 2], [3, 3])}, {}, ValueError, "low lies above its high"),
    ([0, 2], {"a": [1, 2]}, {"logx": True}, ValueError, "x reaches down to 0"),
    ([1, 2], {"a": [0, 2]}, {"logy": True}, ValueError, "y reaches down to 0, but a logarithmic axis"),
    ([1, 2], {"a": ([1, 2], [-1, 2], [2, 3])}, {"logy": True}, ValueError, "y reaches down to -1"),
    ([1, 2], {}, {"logy": True, "theory": {"b": lambda x: x - 2}}, ValueError, "y reaches down to -1"),
    ([1, 2], {}, {}, ValueError, "nothing to draw"),
    ([1, 2], {8: [1, 2], "8": [1, 2]}, {}, ValueError, "measured has two labels that read '8'. Give one an"),
    ([1, 2], {n: [1, 2] for n in "abcdef"}, {}, ValueError, "measured has 6 entries, but only 5"),
    ([1, 2], {}, {"theory": {n: np.sqrt for n in "abcde"}}, ValueError, "theory has 5 entries"),
    ([1, 2], {}, {"theory": {"b": [1, 2]}}, TypeError, r"theory\['b'\] must be a function"),
    ([1, 2], {}, {"theory": {"b": lambda x: 1}}, ValueError, r"theory\['b'\]\(x\) has shape \(\)"),
])
def test_what_does_not_fit_is_named(x, measured, more, error, message):
    with pytest.raises(error, match=message):
        curves(x, measured, **NAMES, **more)


def test_a_list_instead_of_a_dict_is_named():
    with pytest.raises(TypeError, match="measured must be a dict of label to numbers; got list"):
        curves([1, 2], [1, 2], title="Does it?", xlabel="x", ylabel="y")

"""panels: one look for a label, lines and points where they belong; and what it refuses."""

from functools import cache

import numpy as np
import pytest

from attnlib.plots import panels
from attnlib.plots.style import INK, PALETTE

NAMES = {"title": "t", "xlabel": "width"}
X = np.array([4, 64, 1024])
TWO = {"variance": {"plain": X, "scaled": [1, 1, 1]}, "entropy": {"scaled": [3, 3, 3], "plain": [2, 1, 0]}}


@cache
def four():
    return panels(
        X, {**TWO, "weight": {"plain": ([0.3, 0.8, 0.9], [0.2, 0.7, 0.8], [0.4, 0.9, 1])},
            "norm": {"scaled": [0.2, 0.2, 0.2]}},
        theory={"variance": {"derived": lambda d: d, "derived, scaled": lambda d: 1 + 0 * d},
                "norm": {"derived": lambda d: 0.2 + 0 * d}},
        logx=True, logy=["variance"], title="What does width do to 变压器?", xlabel="width $d_k$",
    )


def lines(ax):
    return {line.get_label(): line for line in ax.lines}


def test_panels_stand_in_reading_order_with_their_titles():
    fig = four()
    assert [ax.get_title() for ax in fig.axes] == ["variance", "entropy", "weight", "norm"]
    left, right = fig.axes[0].get_position(), fig.axes[1].get_position()
    assert left.x1 < right.x0 and left.y0 == pytest.approx(right.y0)
    assert fig.axes[2].get_position().y1 < left.y0
    assert [ax.get_xlabel() for ax in fig.axes] == ["", "", "width $d_k$", "width $d_k$"]


def test_a_label_looks_the_same_in_all_panels():
    first, second = panels(X, TWO, **NAMES).axes
    for label, colour in zip(("plain", "scaled"), PALETTE, strict=False):
        for ax in (first, second):
            assert lines(ax)[label].get_color() == colour
        assert lines(first)[label].get_marker() == lines(second)[label].get_marker()
    assert lines(first)["plain"].get_marker() != lines(first)["scaled"].get_marker()


def test_measurement_is_points_and_theory_a_line():
    fig = four()
    variance, norm = lines(fig.axes[0]), lines(fig.axes[3])
    assert variance["plain"].get_linestyle() == "None"
    assert variance["plain"].get_xydata().tolist() == [[4, 4], [64, 64], [1024, 1024]]
    assert variance["derived"].get_color() == INK and variance["derived"].get_marker() == "None"
    assert norm["derived"].get_linestyle() == variance["derived"].get_linestyle()
    assert variance["derived, scaled"].get_linestyle() != variance["derived"].get_linestyle()
    assert len(fig.axes[2].collections) == 1          # the band


def test_axes_are_logarithmic_where_asked():
    fig = four()
    assert [ax.get_xscale() for ax in fig.axes] == ["log"] * 4
    assert [ax.get_yscale() for ax in fig.axes] == ["log", "linear", "linear", "linear"]
    assert [t.get_text() for t in fig.axes[2].get_xticklabels()][:3] == ["4", "64", "1,024"]


def test_one_legend_serves_all():
    (legend,) = four().legends
    assert [text.get_text() for text in legend.get_texts()] == ["plain", "scaled", "derived",
                                                                "derived, scaled"]


@pytest.mark.parametrize("label", [8, "_a"])
def test_any_label_stands_in_the_legend(label):
    fig = panels([1, 2], {"area": {label: [1, 4]}}, theory={"area": {label: np.square}}, **NAMES)
    (legend,) = fig.legends
    assert [text.get_text() for text in legend.get_texts()] == [str(label)] * 2
    points, line = legend.get_lines()
    assert (points.get_color(), points.get_linestyle()) == (PALETTE[0], "None")
    assert (line.get_color(), line.get_linestyle()) == (INK, "-")


def test_a_panel_named_by_a_number_can_be_logarithmic():
    first, second = panels([1, 2], {8: {"a": [1, 4]}, 16: {"a": [1, 4]}}, logy=[16], **NAMES).axes
    assert (first.get_title(), first.get_yscale()) == ("8", "linear")
    assert (second.get_title(), second.get_yscale()) == ("16", "log")


@pytest.mark.parametrize("count", [1, 3])
def test_everything_can_be_read(count, assert_readable):
    labels = ("a long label, as they come", "another")
    measured = {f"panel {n}": {label: X * 10.0**n for label in labels} for n in range(count)}
    fig = panels(X, measured, title="Does it fit?", xlabel="width", logx=True)
    assert len(fig.axes) == count
    assert_readable(fig)


def test_four_full_panels_can_be_read(assert_readable):
    assert_readable(four())


@pytest.mark.parametrize("measured, more, error, message", [
    ({}, {}, ValueError, "measured has 0 panels; it must have 1 to 4"),
    ({n: {"a": X} for n in "vwxyz"}, {}, ValueError, "measured has 5 panels"),
    ([1, 2], {}, TypeError, "measured must be a dict of label to a dict of label to numbers; got list"),
    ({"p": X}, {}, TypeError, r"measured\['p'\] must be a dict of label to numbers; got ndarray"),
    ({"p": {"a": [1, 2]}}, {}, ValueError, r"measured\['a'\] has shape \(2,\)"),
    ({"p": {n: X for n in "abcdef"}}, {}, ValueError, "measured has 6 entries, but only 5"),
    ({"p": {8: X, "8": X}}, {}, ValueError, r"measured\['p'\] has two labels that read '8'"),
    ({"p": {"a": X}}, {"theory": {"q": {"b": np.sqrt}}}, ValueError, "theory names the panel 'q', but"),
    ({"p": {"a": X}}, {"theory": {"p": {"b": X}}}, TypeError, r"theory\['b'\] must be a function"),
    ({"p": {"a": X}}, {"logy": ["q"]}, ValueError, "logy names the panel 'q'"),
    ({"p": {"a": X}}, {"logy": "p"}, TypeError, "logy must be a collection of panels' titles; got the str"),
])
def test_what_does_not_fit_is_named(measured, more, error, message):
    with pytest.raises(error, match=message):
        panels(X, measured, **NAMES, **more)


@pytest.mark.parametrize("x, more, message", [
    ([[1]], {}, r"x has shape \(1, 1\)"), ([], {}, r"x has shape \(0,\)"),
    ([0, 1, 2], {"logx": True}, "x reaches down to 0, but a logarithmic axis starts above 0"),
])
def test_an_x_that_does_not_fit_is_named(x, more, message):
    with pytest.raises(ValueError, match=message):
        panels(x, {"p": {"a": X}}, **NAMES, **more)

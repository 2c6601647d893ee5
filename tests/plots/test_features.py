"""feature_map: what it draws, and what it refuses."""

import numpy as np
import pytest

from attnlib.plots import feature_map
from attnlib.plots.features import FEATURE_MAP
from attnlib.plots.style import WEIGHT_MAP, luminance

TABLE = np.array([[0.0, 1.0, -2.0], [0.5, -0.25, 0.125]])


def test_rows_go_down_and_zero_is_white(assert_readable):
    fig = feature_map(TABLE, title="What does each place get?")
    ax, bar = fig.axes
    (image,) = ax.images
    np.testing.assert_array_equal(image.get_array(), TABLE)
    assert image.get_clim() == (-2.0, 2.0) and image.origin == "upper"
    assert np.allclose(FEATURE_MAP(0.5)[:3], 1, atol=0.03)
    assert ax.get_title() == "What does each place get?"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("feature", "position")
    assert bar.get_ylabel() == "value"
    assert_readable(fig)


def test_both_signs_are_told_by_colour_and_grow_darker_alike():
    shades = FEATURE_MAP(np.linspace(0, 1, 257))[:, :3]
    light = luminance(shades)
    assert (np.diff(light[:128]) >= -1e-9).all() and (np.diff(light[130:]) <= 1e-9).all()
    assert shades[0][0] > shades[0][2] + 0.3 and shades[-1][2] > shades[-1][0] + 0.3     # orange, blue
    assert np.allclose(FEATURE_MAP(1.0), WEIGHT_MAP(1.0))


def test_a_table_of_zeros_is_white():
    fig = feature_map(np.zeros((2, 2)), title="t")
    assert fig.axes[0].images[0].get_clim() == (-1.0, 1.0)


@pytest.mark.parametrize("table, error", [
    (np.zeros(3), ValueError), (np.zeros((0, 3)), ValueError), ([[np.nan]], ValueError), ([["a"]], TypeError),
])
def test_what_is_no_table_is_named(table, error):
    with pytest.raises(error, match="features"):
        feature_map(table, title="t")


def test_groups_of_rows_and_columns_bear_words(assert_readable):
    fig = feature_map(np.arange(24.0).reshape(4, 6), words="我你", title="t", xlabel="from", ylabel="to")
    ax = fig.axes[0]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["我", "你"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["我", "你"]
    np.testing.assert_array_equal(ax.get_xticks(), [1, 4])
    np.testing.assert_array_equal(ax.get_yticks(), [0.5, 2.5])
    assert [line.get_ydata()[0] for line in ax.lines[:1]] == [1.5]
    assert [line.get_xdata()[0] for line in ax.lines[1:]] == [2.5]
    assert_readable(fig)


@pytest.mark.parametrize("words", ["我你他", ""])
def test_words_that_do_not_divide_the_table_are_named(words):
    with pytest.raises(ValueError, match="words"):
        feature_map(TABLE, words=words, title="t")

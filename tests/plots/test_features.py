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


@pytest.mark.parametrize("shape", [(60, 4), (4, 60)], ids=["tall", "wide"])
def test_a_white_stroke_goes_through_each_negative_cell_along_its_shorter_side(shape):
    table = np.random.default_rng(0).normal(size=shape)
    fig = feature_map(table, title="t")
    ax, bar = fig.axes
    (strokes,) = ax.collections
    segments = np.array(strokes.get_segments())
    struck = np.zeros(shape, dtype=bool)
    column, row = segments.mean(1).astype(int).T
    struck[row, column] = True
    np.testing.assert_array_equal(struck, table < 0)
    assert strokes.get_color()[0].tolist() == [1, 1, 1, 1]
    pixels = np.abs(np.diff(ax.transData.transform(segments.reshape(-1, 2)).reshape(segments.shape), axis=1))
    box = ax.get_window_extent()
    assert pixels.max() == pytest.approx(min(box.width / shape[1], box.height / shape[0]))
    (sample,) = [line for line in bar.lines if len(line.get_xdata()) == 2]
    assert sample.get_ydata().max() == 0 and sample.get_ydata().min() == bar.get_ylim()[0]


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

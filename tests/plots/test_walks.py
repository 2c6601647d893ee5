"""walks: paths, spread, ends; and what it refuses."""

import numpy as np
import pytest

from attnlib.plots import walks

NAMES = {"title": "How far?", "xlabel": "steps", "ylabel": "place"}


@pytest.fixture(scope="module")
def paths():
    return np.random.default_rng(0).choice([-1, 1], size=(500, 64)).cumsum(-1)


@pytest.fixture(scope="module")
def fig(paths):
    return walks(paths, **NAMES)


def test_thirty_paths_start_at_zero_between_two_lines_of_theory(fig, paths):
    *drawn, high, low = fig.axes[0].lines
    assert len(drawn) == 30
    for line, path in zip(drawn, paths, strict=False):
        assert np.array_equal(line.get_xydata(), np.c_[np.arange(65), [0, *path]])
    for side, line in ((1, high), (-1, low)):
        x, y = line.get_xydata().T
        assert (x[0], x[-1]) == (0, 64) and np.allclose(y, side * np.sqrt(x))


def test_bars_count_the_ends_of_all_paths(fig, paths):
    bars = fig.axes[1].patches
    heights = [bar.get_height() for bar in bars]                   # thickness: the bars lie down
    assert np.allclose(heights, heights[0])
    assert sum(bar.get_width() * bar.get_height() for bar in bars) == pytest.approx(1)
    for bar in bars:
        low, high = bar.get_y(), bar.get_y() + bar.get_height()
        assert low % 2 == 1                                        # between places, which are even
        inside = np.mean((paths[:, -1] > low) & (paths[:, -1] < high))
        assert bar.get_width() * bar.get_height() == pytest.approx(inside)
    assert any(bar.get_y() + bar.get_height() / 2 == 0 for bar in bars)


def test_the_curve_is_the_normal_one_of_the_last_spread(fig):
    density, y = fig.axes[1].lines[0].get_xydata().T
    assert density.max() == pytest.approx(1 / (8 * np.sqrt(2 * np.pi)), rel=1e-2)
    step = y[1] - y[0]
    assert density.sum() * step == pytest.approx(1, abs=1e-3)
    assert np.sum(density * y**2) * step == pytest.approx(64, rel=0.02)


def test_another_spread_and_its_name(texts):
    steps = np.random.default_rng(1).normal(1, 0.1, size=(40, 10))
    fig = walks(steps.cumsum(-1), spread=lambda d: 2 * d, label="2d", **NAMES)
    shown = [text.get_text() for text in texts(fig)]
    assert {"2d", "-2d", "How far?", "steps", "place", "how often, after 10"} <= set(shown)
    assert np.allclose(fig.axes[0].lines[-2].get_ydata(), 2 * fig.axes[0].lines[-2].get_xdata())
    assert len(fig.axes[0].lines) == 32


def test_a_spread_may_be_named_by_a_number(texts):
    assert {"8", "-8"} <= {text.get_text() for text in texts(walks(np.eye(3), label=8, **NAMES))}


def test_readable(fig, assert_readable):
    assert_readable(fig)


def test_few_steps_and_equal_ends():
    walks([[1.0]], **NAMES)
    walks(np.ones((5, 3)).cumsum(-1), **NAMES)


@pytest.mark.parametrize("paths, error, words", [
    ([1, 2, 3], ValueError, "a row for each walk"),
    (np.empty((0, 4)), ValueError, "(0, 4)"),
    ([["a"]], TypeError, "numbers"),
    ([[np.nan]], ValueError, "NaN"),
])
def test_refuses_other_paths(paths, error, words):
    with pytest.raises(error) as raised:
        walks(paths, **NAMES)
    assert words in str(raised.value)


@pytest.mark.parametrize("spread, error, words", [
    (3, TypeError, "a function of steps"),
    (lambda d: 0 * d, ValueError, "above 0"),
    (lambda d: d[:2], ValueError, "for each step"),
])
def test_refuses_other_spreads(paths, spread, error, words):
    with pytest.raises(error) as raised:
        walks(paths, spread=spread, **NAMES)
    assert words in str(raised.value)

"""What all tests of figures share: warnings are errors, nothing global changes, some figures."""

import itertools

import matplotlib
import numpy as np
import pytest
from matplotlib.text import Text

from attnlib.plots import attention_heatmap, curves, plane, weight_bars

WORDS = ["我", "吃了", "一个", "苹果", "，", "它", "很", "甜"]


@pytest.fixture(autouse=True)
def nothing_global_changes(no_warnings):
    """A missing glyph warns, so warnings are errors; settings and open figures stay as they were."""
    from matplotlib import pyplot

    settings = dict(matplotlib.rcParams)
    with no_warnings():
        yield
    assert dict(matplotlib.rcParams) == settings
    assert pyplot.get_fignums() == []


@pytest.fixture
def words():
    return WORDS


@pytest.fixture(scope="session")
def weights():
    """(8, 8) attention weights, no two alike."""
    scores = np.random.default_rng(0).normal(size=(8, 8)) * 2
    weights = np.exp(scores)
    return weights / weights.sum(-1, keepdims=True)


@pytest.fixture(scope="session")
def texts():
    """`texts(fig)`: every text that the figure shows."""
    def shown(fig):
        out_of_view = {
            label
            for ax in fig.axes for axis in (ax.xaxis, ax.yaxis) for tick in axis.get_major_ticks()
            if not min(axis.get_view_interval()) <= tick.get_loc() <= max(axis.get_view_interval())
            for label in (tick.label1, tick.label2)
        }
        return [text for text in fig.findobj(Text)
                if text.get_visible() and text.get_text().strip() and text not in out_of_view]

    return shown


@pytest.fixture(scope="session")
def assert_readable(texts):
    """`assert_readable(fig)`: no text is clipped, none lies on another."""
    def check(fig):
        fig.draw_without_rendering()
        boxes = [(text.get_text(), text.get_window_extent()) for text in texts(fig)]
        for text, box in boxes:
            assert 0 <= box.x0 and box.x1 <= fig.bbox.width, text
            assert 0 <= box.y0 and box.y1 <= fig.bbox.height, text
        for (text, box), (other, other_box) in itertools.combinations(boxes, 2):
            wide = min(box.x1, other_box.x1) - max(box.x0, other_box.x0)
            high = min(box.y1, other_box.y1) - max(box.y0, other_box.y0)
            # a box includes air above and below the letters; a few pixels of it may be shared
            assert wide <= 0 or high <= 5, (text, other)

    return check


def _two_maps(weights):
    return attention_heatmap(
        {"every word": weights, "only earlier words": np.eye(8)}, WORDS, WORDS,
        title="Which links survive $i \\geq j$?",
    )


def _three_maps(weights):
    english = ["I", "ate", "an", "apple", ",", "it", "was", "sweet"]
    return attention_heatmap({f"head {n}": weights for n in (1, 2, 3)}, english, english)


def _measured_and_theory(weights):
    d = np.array([4, 8, 16, 32, 64, 128, 256, 512])
    return curves(
        d, {"measured": (1.03 * d, 0.9 * d, 1.15 * d)}, theory={"$d_k$": lambda d: d}, logx=True,
        title="变压器: how fast does the variance of $q \\cdot k$ grow?", xlabel="width $d_k$ 维度",
        ylabel="variance",
    )


def _many_curves(weights):
    x = np.arange(9)
    return curves(x, {f"curve {n}": x * n for n in range(5)}, title="Many", xlabel="x", ylabel="y")


def _points(weights):
    return plane(
        [[1, 0], [0, 1], [-1, 0.2], [0.1, 0.25], [-0.4, -0.9]],
        ["苹果", "chair", "sword", "inside", "模型"], hull=True,
        arrows={"query": [0.8, 0.8], "query 2": [-0.3, 0.6]}, title="Which key cannot win?",
    )


def _bars(weights):
    return weight_bars(
        WORDS, {"β = 1": weights[0], "β = 5": weights[1], "exact": np.eye(8)[2]},
        title="From soft to exact",
    )


@pytest.fixture(scope="session", params=[
    lambda weights: attention_heatmap(weights, WORDS, WORDS, title="What does a word depend on?"),
    _two_maps, _three_maps, _measured_and_theory, _many_curves, _points, _bars,
], ids=["map", "two maps", "three maps", "theory", "many curves", "plane", "bars"])
def figure(request, weights, no_warnings):
    """A figure of each kind, drawn once."""
    with no_warnings():
        return request.param(weights)

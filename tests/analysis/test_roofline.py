import itertools
import re

import lesson
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from attnlib import attention_steps, flash_accesses, machine_limits, standard_accesses
from attnlib.analysis import roofline
from attnlib.analysis.roofline import Limits, Step
from attnlib.plots import curves


def test_the_roof():
    limits = Limits(flops=100.0, bytes=10.0)
    assert [limits.attainable(x) for x in (0.5, 9, 10, 11, 1000)] == [5, 90, 100, 100, 100]
    assert Step(flops=30, bytes=12).intensity == 2.5


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_limits_are_those_of_the_best_try_of_one_thread(monkeypatch, two_threads):
    monkeypatch.setattr(roofline, "LARGE", 2**12)
    monkeypatch.setattr(roofline, "SIDE", 8)
    clock = iter([0, 5, 5, 7, 7, 13, 13, 14] + [0, 5, 5, 9, 9, 12])
    monkeypatch.setattr(roofline.time, "process_time", lambda: next(clock))
    wall = iter([0, 0.4, 0.6] + [0, 99])  # asked once three tries are made
    monkeypatch.setattr(roofline.time, "perf_counter", lambda: next(wall))
    mm, seen = torch.mm, []
    monkeypatch.setattr(torch, "mm", lambda *a, **b: seen.append(torch.get_num_threads()) or mm(*a, **b))
    limits = machine_limits(0.5)
    assert seen == [1, 1, 1, 1] and torch.get_num_threads() == 2
    assert limits == (2 * 8**3 / 1, 2 * 4 * 2**12 / 3)


def test_threads_are_as_before_where_measuring_fails(monkeypatch, two_threads):
    monkeypatch.setattr(torch, "mm", lambda *a, **b: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        machine_limits(0.1)
    assert torch.get_num_threads() == 2


def test_the_work_of_steps():
    steps = attention_steps(3, 5, 2, bytes_per_number=2)
    assert steps["scores"] == (2 * 15 * 2, 2 * (6 + 10 + 15))
    assert steps["softmax"] == (75, 2 * 30)
    assert steps["values"] == (2 * 15 * 2, 2 * (15 + 10 + 6))
    assert steps["fused"] == (60 + 75 + 60, 2 * (6 + 10 + 10 + 6))
    assert (
        attention_steps(1, 10_000, 64)["fused"].intensity < 1 < attention_steps(9, 9, 64)["fused"].intensity
    )


def counted(n, d, memory):
    """FlashAttention's algorithm 1 as loops that count what they move."""
    keys = -(-memory // (4 * d))
    rows = min(keys, d)
    moved = n * d + n + n
    for j in range(0, n, keys):
        moved += 2 * len(range(j, min(j + keys, n))) * d
        for i in range(0, n, rows):
            block = len(range(i, min(i + rows, n)))
            moved += 2 * block * d + 2 * block
            moved += block * d + 2 * block
    return moved


@pytest.mark.parametrize(
    "n, d, memory", [(7, 2, 2), (40, 4, 40), (40, 4, 32), (64, 8, 1000), (4096, 64, 51_200), (1, 1, 1)]
)
def test_accesses_are_what_the_algorithm_moves(n, d, memory):
    assert flash_accesses(n, d, memory) == counted(n, d, memory)


def test_accesses_are_of_the_order_that_the_paper_proves():
    for n, d, memory in ((2**14, 64, 2**14), (2**15, 128, 2**15), (2**14, 64, 2**16)):
        assert flash_accesses(n, d, memory) / (n**2 * d**2 / memory) == pytest.approx(12, rel=0.1)
        assert standard_accesses(n, d) / (n * d + n**2) == 4
    assert standard_accesses(4096, 64) == 68_157_440


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: machine_limits(0), ValueError, "seconds must be positive and finite; got 0"),
        (lambda: machine_limits("1"), TypeError, "seconds must be a number"),
        (lambda: attention_steps(0, 1, 1), ValueError, "n_query must be at least 1; got 0"),
        (
            lambda: attention_steps(1, 1, 1, bytes_per_number=0.5),
            TypeError,
            "bytes_per_number must be a whole",
        ),
        (lambda: standard_accesses(1, 1.5), TypeError, "d must be a whole number; got 1.5"),
        (lambda: flash_accesses(4, 0, 1), ValueError, "d must be at least 1; got 0"),
        (lambda: flash_accesses(4, 3, 2), ValueError, "memory must hold a row at least, 3 numbers; got 2"),
    ],
)
def test_errors_are_sentences(call, error, words):
    with pytest.raises(error, match=words):
        call()


# The figure of lesson 19, whose heights are measured


@pytest.mark.parametrize("reached", [
    lambda roof: roof, lambda roof: 0.01 * roof, lambda roof: 1e8, lambda roof: 2 * roof,
], ids=["on the roof", "far below it", "at one height", "above it"])  # fmt: skip
@pytest.mark.parametrize("limits", [Limits(148e9, 11e9), Limits(40e9, 20e9), Limits(2e12, 10e9)],
                         ids=["early", "soon", "late"])  # fmt: skip
def test_the_names_in_the_lessons_figure_meet_nothing(limits, reached):
    cells = lesson.read(*lesson.find(["19"])).code_cells
    sources = [cell.source for cell in cells if re.search("^def name_above|Which step waits", cell.source)]
    whole, one = attention_steps(1024, 1024, 64), attention_steps(1, 2**17, 64)
    steps = {"scores": whole["scores"], "softmax": whole["softmax"],
             "tiles": whole["fused"], "one query": one["fused"]}  # fmt: skip
    rates = {name: reached(limits.attainable(step.intensity)) for name, step in steps.items()}
    names = {"np": np, "curves": curves, "limits": limits, "steps": steps, "rates": rates,
             "show": lambda fig, alt: None}  # fmt: skip
    exec("\n".join(sources), names)
    fig = names["fig"]
    FigureCanvasAgg(fig).draw()
    (ax,) = fig.axes
    texts = [text for text in ax.texts if text.get_text()]
    # An annotation's own extent takes its line in.
    boxes = {text.get_text(): Text.get_window_extent(text) for text in texts}
    assert boxes.keys() == {*steps, "roof"}
    labels = [*ax.get_xticklabels(), *ax.get_yticklabels(), ax.title, ax.xaxis.label, ax.yaxis.label]
    around = [label.get_window_extent() for label in labels if label.get_text()]
    spines = [ax.spines[side].get_window_extent() for side in ("left", "bottom")]
    leaders = [text.arrow_patch.get_window_extent() for text in texts if text.get_text() != "roof"]
    for one, other in itertools.combinations(boxes.values(), 2):
        assert not one.overlaps(other)
    for box in boxes.values():
        assert 0 < box.x0 and box.x1 < fig.bbox.width
        assert not any(box.overlaps(other) for other in (*around, *spines))
        assert sum(box.padded(5).overlaps(leader) for leader in leaders) <= 1      # its own
        for line in ax.lines:                              # the points and the roof
            path = line.get_path().transformed(line.get_transform())
            assert not path.interpolated(20).intersects_bbox(box.padded(5), filled=False)
            assert not any(box.padded(5).contains(*place) for place in path.vertices)

"""Lesson 05: four faulty softmaxes and another temperature. Right answers pass, known mistakes are named."""

import inspect
import json
from pathlib import Path

import numpy as np
import pytest

from attnlib.exercises import check, softmax_breaks
from attnlib.exercises.softmax_breaks import FAULTY

LESSON = Path(__file__).resolve().parents[2] / "notebooks" / "05_softmax.ipynb"
BREAKS = {"A": np.array([1000.0, 999.0]), "B": np.array([[0.0, 1.0], [2000.0, 2001.0]]),
          "C": np.array([100.0, 90.0]), "D": np.array([[1, 2, 3], [0, 1, 0]])}  # fmt: skip
BROKEN = [
    ("A", [1000.0]), ("A", [-1000.0, -999.0]), ("A", np.array([89.0, 88.0], np.float32)),
    ("A", [[710, 0], [0, 0]]),
    ("A", np.array([12.0, 11.0], np.float16)),
    ("B", [[0.0, 1.0], [800.0, 0.0]]), ("B", np.full((2, 1, 2), [[[0.0]], [[1e4]]])), ("B", [[-1e4], [0.0]]),
    ("C", [[1000.0, 999.0]]), ("C", [81, 85, 0]), ("C", [-100.0, -90.0]),
    ("C", np.ones((2, 2, 2)) * [90.0, 95.0]),
    ("D", [[1, 2]]), ("D", [0.0, 1.0]), ("D", [1, 2]), ("D", np.zeros((1, 2, 2))),
    ("D", np.array([[0, 1]], np.uint8)),
]  # fmt: skip
MISSED = [
    ("A", [100.0, 99.0], "too_near"), ("A", [700, 0], "too_near"), ("A", [-700.0, -701.0], "too_near"),
    ("B", [1000.0, 999.0], "one_row"), ("B", [[1000.0, 999.0]], "one_row"),
    ("B", [[0.0, 1.0], [100.0, 101.0]], "rows_too_near"), ("B", [[0.0], [1.0]], "rows_too_near"),
    ("B", [[1000.0, 0.0], [1000.0, 1.0]], "within_a_row"),
    ("C", [79.0, 3.0], "inside"), ("C", [1000.0, 0.0], "one_beyond"), ("C", [1000.0, -1000.0], "one_beyond"),
    ("C", [100.0, 100.0], "equal_beyond"), ("C", [100.0, 100.001, 0.0], "equal_beyond"),
    ("D", [[1e6, 2e6], [0.0, 1.0]], "float_matrix"), ("D", [[0, 100]], "whole_and_sure"),
    ("D", [3.0], "too_small"), ("D", np.ones((2, 1, 1)), "too_small"),
    ("D", np.array(["a", "b"]), None), ("A", [], None), ("A", 3.0, None), ("A", [[1.0], [2.0, 3.0]], None),
    ("A", [np.inf, 1.0], "not_finite"), ("A", np.zeros(10_001), None), ("A", "text", None),
    ("A", object(), None),
]  # fmt: skip


@pytest.mark.parametrize("name, x", BROKEN)
def test_every_way_of_breaking_is_accepted(name, x):
    verdict = check("break_softmaxes", BREAKS | {name: x})
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("name, x, mistake", MISSED)
def test_an_input_that_breaks_nothing_is_told_why(name, x, mistake):
    verdict = check("break_softmaxes", BREAKS | {name: x})
    assert verdict.passed is False
    assert verdict.misconception == mistake, verdict.message
    assert f"{name}: " in verdict.message


def test_an_error_does_not_count():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(FAULTY, "D", lambda x: x.missing)
        verdict = check("break_softmaxes", BREAKS)
    assert verdict.misconception == "stops"


def test_answers_come_one_at_a_time():
    dots = dict.fromkeys(FAULTY, ...)
    assert check("break_softmaxes", dots).passed is None
    verdict = check("break_softmaxes", dots | {"B": BREAKS["B"]})
    assert verdict.passed is None
    assert "B: broken" in verdict.message and "A: not answered yet" in verdict.message
    assert check("break_softmaxes", [*BREAKS.values()]).passed is True
    for odd in (BREAKS["A"], {"A": 1}, "text", 3, {**BREAKS, "E": 1}):
        assert check("break_softmaxes", odd).passed is False


def test_inputs_are_left_alone():
    given = {name: x.copy() for name, x in BREAKS.items()}
    check("break_softmaxes", given)
    assert all(np.array_equal(given[name], BREAKS[name]) for name in BREAKS)


def test_what_sums_would_have_hidden_is_told():
    message = check("break_softmaxes", BREAKS).message
    assert "only adds up the weights would have passed C on" in message


def test_the_lesson_shows_the_same_functions():
    cells = json.loads(LESSON.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    for function in FAULTY.values():
        assert inspect.getsource(function).strip() in text


TEMPERATURES = [
    ((0.75, 81 / 82), True, None), ([0.75, 0.988], True, None), (np.array([3 / 4, 0.99]), True, None),
    ((81 / 82, 0.75), False, "turned_round"), ((0.93, 0.6), False, "turned_round"),
    ((0.818, 0.988), False, "ratio_scaled"), ((0.75, 0.947), False, "ratio_scaled"),
    ((0.45, 1.8), False, "weight_scaled"), ((0.9487, 0.81), False, "not_normalised"),
    ((0.599, 0.832), False, "weights_as_scores"), ((0.7, 0.95), False, "halfway"),
    ((0.9, 0.9), False, "unchanged"), ((3, 81), False, "ratio_given"), ((0.75, 81), False, "ratio_given"),
    ((0.25, 0.012), False, "second_word"),
    ((75, 98.8), False, "per_cent"), ((-3, 0.5), False, None), ((0.62, 0.98), False, None),
    ((..., ...), None, None), ((0.75, ...), None, None), (3, False, None), ("0.75", False, None),
    ((np.nan, 1), False, None),
]  # fmt: skip


@pytest.mark.parametrize("answer, passed, mistake", TEMPERATURES)
def test_another_temperature(answer, passed, mistake):
    verdict = check("other_temperature", answer)
    assert (verdict.passed, verdict.misconception) == (passed, mistake), verdict.message


@pytest.mark.parametrize("exercise", softmax_breaks.EXERCISES, ids=lambda e: e.id)
def test_solutions_pass_and_hints_go_on(exercise):
    names = {}
    exec(exercise.solution, names)
    assert exercise.judge(names["answer"]).passed is True
    assert len(exercise.hints) == 3

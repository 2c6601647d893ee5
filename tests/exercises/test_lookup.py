"""Lesson 01's exercises: every right way accepted, every known mistake named."""

import numpy as np
import pytest

from attnlib.exercises import _JUDGES, check
from attnlib.exercises.lookup import _MISCONCEPTIONS, PLANE_KEYS


def by_matmul(query, keys, values, temperature=1.0):
    scores = keys @ query / temperature
    e = np.exp(scores - scores.max())
    return e / e.sum() @ values


def by_loop(query, keys, values, temperature=1.0):
    scores = [sum(float(a) * float(b) for a, b in zip(query, key, strict=True)) / temperature for key in keys]
    weights = [np.exp(s - max(scores)) for s in scores]
    out = np.zeros(values.shape[1])
    for weight, value in zip(weights, values, strict=True):
        out += weight * value
    return list(out / sum(weights))


def by_logarithms_in_float32(query, keys, values, temperature=1.0):
    scores = (keys @ query / temperature).astype(np.float32)
    return np.einsum("n,nd->d", np.exp(scores - np.logaddexp.reduce(scores)), values)


RIGHT = {
    "outvoted": [8, 8.0, np.int64(8)],
    "half_and_half": [(4, 3), [8.0, 6.0], np.array([3.0, 2.25])],
    "never_wins": ["E", "e", " E "],
    "book_scores": [
        np.log([2, 2, 2, 2, 2, 1]),
        [0, 0, 0, 0, 0, -np.log(2)],
        np.log([0.18] * 5 + [0.09]) + 7,
    ],
    "soft_lookup": [by_matmul, by_loop, by_logarithms_in_float32],
}
keys = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
solved = keys.copy()
w = by_matmul(np.ones(2), keys, np.eye(3))
solved[0] += 1
solved[1] -= w[0] / w[1]
RIGHT["hidden_fault"] = [
    (np.ones(2), keys, keys),
    [np.ones(2), keys.tolist(), keys],
    (np.ones(2), keys, solved),
]


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


def changes_input(query, keys, values, temperature):
    keys *= 1.0
    query -= query
    return values[0]


WRONG = [
    ("outvoted", 2, "scores_not_exponentials", "exp(2) is 7.39"),
    ("outvoted", 7, None, "0.51"),
    ("outvoted", 100, "not_the_least", "fewer"),
    ("outvoted", 0, None, "at least 1"),
    ("outvoted", 7.5, None, "whole number"),
    ("outvoted", "eight", None, "'eight'"),
    ("half_and_half", (5, 4), "midpoint", "A 0.27, B 0.73"),
    ("half_and_half", (1, 0), None, "q.A is 4.00 and q.B is 1.00"),
    ("half_and_half", (-4, -3), "opposite_direction", "turn it round"),
    ("half_and_half", (0.4, 0.3), "too_short", "the query grows"),
    ("half_and_half", (0, 0), "opposite_direction", "A 0.20, B 0.20"),
    ("half_and_half", (1, 2, 3), None, "shape (3,)"),
    ("half_and_half", "up", None, "'up'"),
    ("half_and_half", (np.nan, 1), None, "finite"),
    ("never_wins", "D", "shortest_key", "at the edge"),
    ("never_wins", "A", None, "gives A the weight 1.00"),
    ("never_wins", "F", None, "'F'"),
    ("never_wins", 4, None, "got 4"),
    ("book_scores", [0.18] * 5 + [0.09], "weights_as_scores", "difference of scores"),
    ("book_scores", [2, 2, 2, 2, 2, 1], "difference_of_one", "2.72"),
    ("book_scores", np.log10([2, 2, 2, 2, 2, 1]), "log10", "base 10"),
    ("book_scores", [0, 0, 0, 0, 0, np.log(2)], "upside_down", "twice as heavy"),
    ("book_scores", [1, 2, 3, 4, 5, 6], None, "By how much"),
    ("book_scores", [1, 2], None, "shape (2,)"),
    (
        "hidden_fault",
        (np.ones(2), np.ones((3, 2)), np.ones((3, 2))),
        "nothing_averaged",
        "three different keys",
    ),
    ("hidden_fault", (np.ones(2) * 99, keys, keys), "nothing_averaged", "largest weight 1.00"),
    (
        "hidden_fault",
        (np.ones(2), keys, np.ones((3, 3))),
        "shape_tells",
        "2 numbers and the right one 3",
    ),
    ("hidden_fault", (np.ones(2), keys, keys + 1), None, "differ: number 0 is"),
    ("hidden_fault", (np.ones(3), keys, keys), None, "each of the 2 features"),
    ("hidden_fault", (np.ones((1, 2)), keys, keys), None, "(1, 2), (3, 2) and (3, 2)"),
    ("hidden_fault", np.ones(3), None, "three arrays"),
    ("hidden_fault", ("a", "b", "c"), None, "arrays of numbers"),
    ("soft_lookup", changes_input, "changes_input", "Work on a copy"),
    ("soft_lookup", lambda *a: None, "no_return", "return"),
    ("soft_lookup", lambda *a: "text", None, "not numbers"),
    ("soft_lookup", lambda *a: by_matmul(*a)[None], "shape", "shape (2,); yours has (1, 2)"),
    ("soft_lookup", lambda *a: by_matmul(*a) + 1, None, "number 0 of the result should be"),
    ("soft_lookup", lambda query, keys: 1, None, "TypeError"),
    ("soft_lookup", 7, None, "not callable"),
]


@pytest.mark.parametrize("exercise, answer, misconception, words", WRONG)
def test_wrong_answers_are_told_what_is_wrong(exercise, answer, misconception, words):
    verdict = check(exercise, answer)
    assert verdict.passed is False and verdict.misconception == misconception, verdict
    assert words in verdict.message, verdict.message


@pytest.mark.parametrize("misconception", _MISCONCEPTIONS)
def test_each_misconception_of_soft_lookup_is_named(misconception):
    imitation, hint = _MISCONCEPTIONS[misconception]
    verdict = check("soft_lookup", imitation)
    assert verdict.passed is False and verdict.misconception == misconception
    assert hint in verdict.message


def test_untouched_answers_are_not_answered_yet():
    def stub(query, keys, values, temperature):
        raise NotImplementedError

    for exercise in _JUDGES:
        assert check(exercise, ...).passed is None
    verdict = check("soft_lookup", stub)
    assert verdict.passed is None and repr(verdict).startswith("Not answered yet. ")


def test_an_unknown_exercise_names_its_neighbours():
    with pytest.raises(KeyError, match="near names: never_wins"):
        check("never_win", "E")


def test_verdicts_say_the_same_in_text_and_html_and_escape_it():
    verdict = check("never_wins", "<b>")
    assert "&lt;b&gt;" in verdict._repr_html_() and "<b>" in repr(verdict)
    assert check("never_wins", "E").message.split(",")[0] in check("never_wins", "E")._repr_html_()


def test_the_key_that_never_wins_is_not_the_shortest():
    assert np.linalg.norm(PLANE_KEYS, axis=1).argmin() == 3

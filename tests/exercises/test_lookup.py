"""Lesson 01's exercises: every right way accepted, every known mistake named."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnlib
from attnlib import softmax as attnlib_softmax
from attnlib.exercises import check
from attnlib.exercises.lookup import EXERCISES, PLANE_KEYS
from attnlib.exercises.lookup import soft_lookup as soft_lookup_judge


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


def by_logarithms_in_float64(query, keys, values, temperature=1.0):
    scores = keys @ query / temperature
    return np.einsum("n,nd->d", np.exp(scores - np.logaddexp.reduce(scores)), values)


keys = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
one = np.ones(2)
w = by_matmul(one, keys, np.eye(3))
solved = keys + np.outer([1, -w[0] / w[1], 0], [1, 2])  # the differences average to zero
tilted = np.array([1.0, 2.0])
w = by_matmul(tilted, keys, np.eye(3))
rounded = (keys + np.outer([1, -w[0] / w[1], 0], [1, 2])).round(3)

RIGHT = {
    "outvoted": [8, 8.0, np.int64(8), np.array(8)],
    "half_and_half": [(4, 3), [8.0, 6.0], np.array([3.0, 2.25]), (4, 3.009), (4e100, 3e100)],
    "never_wins": ["E", "e", " E "],
    "book_scores": [
        np.log([2, 2, 2, 2, 2, 1]),
        [0, 0, 0, 0, 0, -np.log(2)],
        np.log([0.18] * 5 + [0.09]) + 7,
    ],
    "soft_lookup": [by_matmul, by_loop, by_logarithms_in_float64],
    "hidden_fault": [(one, keys, solved), [one.tolist(), keys.tolist(), solved]],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


def changes_input(query, keys, values, temperature=1.0):
    query -= query
    return values[0]


def clips(bound):
    def lookup(query, keys, values, temperature=1.0):
        e = np.exp(np.clip(keys @ query / temperature, -bound, bound))
        return e / e.sum() @ values

    return lookup


def hard_when_large(query, keys, values, temperature=1.0):
    scores = keys @ query / temperature
    if scores.max() > 700:
        return values[scores.argmax()]
    return by_matmul(query, keys, values, temperature)


def shifts_only_down(query, keys, values, temperature=1.0):
    scores = keys @ query / temperature
    e = np.exp(scores - max(scores.max(), 0))
    return e / e.sum() @ values


def subtracts_the_first(query, keys, values, temperature=1.0):
    scores = keys @ query / temperature
    e = np.exp(scores - scores[0])
    return e / e.sum() @ values


def divides_before_subtracting(query, keys, values, temperature=1.0):
    e = np.exp(keys @ query / temperature - (keys @ query).max())
    return e / e.sum() @ values


def other_default(query, keys, values, temperature=2.0):
    return by_matmul(query, keys, values, temperature)


def by_the_package(query, keys, values, temperature=1.0):
    return attnlib_softmax(keys @ query / temperature) @ values


class torch_like:
    softmax = staticmethod(lambda query, keys, values, temperature=1.0: values[0])


def leaves(query, keys, values, temperature=1.0):
    raise SystemExit


WRONG = [
    ("outvoted", 2, "scores_not_exponentials", "not by scores"),
    ("outvoted", 7, None, "0.514"),
    ("outvoted", 100, "not_the_least", "fewer"),
    ("outvoted", 0, None, "at least 1"),
    ("outvoted", 7.39, None, "tie"),
    ("outvoted", 7.5, None, "whole number"),
    ("outvoted", "eight", None, "'eight'"),
    ("outvoted", "8", None, "'8'"),
    ("outvoted", True, None, "True"),
    ("outvoted", [8], None, "shape (1,)"),
    ("outvoted", float("nan"), None, "finite"),
    ("outvoted", float("inf"), None, "finite"),
    ("outvoted", 10**400, None, "one number"),
    ("half_and_half", (5, 4), "midpoint", "A 0.269, B 0.731"),
    ("half_and_half", (1, 0), None, "q.A is 4.000 and q.B is 1.000"),
    ("half_and_half", (-4, -3), "opposite_direction", "turn it round"),
    ("half_and_half", (0.4, 0.3), "too_short", "the query grows"),
    ("half_and_half", (2, 1.5), "too_short", "A 0.488, B 0.488"),
    ("half_and_half", (40, 30.1), "too_long", "nearly right"),
    ("half_and_half", (4, 3.012), "too_long", "nearly right"),
    ("half_and_half", (1e308, 7e307), None, "overflow"),
    ("half_and_half", (0, 0), "zero", "needs a direction"),
    ("half_and_half", (1, 2, 3), None, "shape (3,)"),
    ("half_and_half", ("4", "3"), None, "('4', '3')"),
    ("half_and_half", (np.nan, 1), None, "finite"),
    ("never_wins", "D", "shortest_key", "at the edge"),
    ("never_wins", "A", None, "gives A the weight 1.00"),
    ("never_wins", "F", None, "'F'"),
    ("never_wins", "E" * 100_000, None, "EEE..."),
    ("never_wins", 4, None, "got 4"),
    ("book_scores", [0.18] * 5 + [0.09], "weights_as_scores", "differ too little"),
    ("book_scores", [2, 2, 2, 2, 2, 1], "weights_as_scores", "differ too much"),
    ("book_scores", np.array([2, 2, 2, 2, 2, 1]) / 11, "weights_as_scores", "differ too little"),
    ("book_scores", [1, 1, 1, 1, 1, 0.5], "weights_as_scores", "differ too little"),
    ("book_scores", [1, 1, 1, 1, 1, 0], "difference_of_one", "2.72"),
    ("book_scores", np.log10([2, 2, 2, 2, 2, 1]), "log10", "base 10"),
    ("book_scores", [0, 0, 0, 0, 0, np.log(2)], "upside_down", "twice as heavy"),
    ("book_scores", [0] * 6, None, "By how much"),
    ("book_scores", [1, 2, 3, 4, 5, 6], None, "By how much"),
    ("book_scores", [0, 0, 0, 0, 0, -np.inf], None, "finite"),
    ("book_scores", [1, 2], None, "shape (2,)"),
    ("hidden_fault", (one, keys, keys), "values_are_keys", "first tests"),
    ("hidden_fault", (one, keys, keys + 1e-7), "values_are_keys", "or nearly"),
    ("hidden_fault", (one, np.ones((3, 2)), keys), None, "three keys"),
    ("hidden_fault", (one, keys * 1e-9, keys * 0), None, "differ by 0.1"),
    ("hidden_fault", (one * 3, keys, keys + 1), "nothing_averaged", "0.909 of the weight"),
    ("hidden_fault", (one * 99, keys, solved), "nothing_averaged", "1.000 of the weight"),
    ("hidden_fault", (one, keys, np.ones((3, 3))), "shape_tells", "2 numbers and the right one 3"),
    ("hidden_fault", (one * 0, keys, keys[::-1]), "query_has_no_say", "has no say"),
    ("hidden_fault", (tilted, keys, np.ones((3, 2))), "values_alike", "all alike"),
    ("hidden_fault", (one, keys, keys + 1), None, "averaged by the weights"),
    ("hidden_fault", (tilted, keys, rounded), None, "unrounded"),
    ("hidden_fault", (one, keys, keys * np.nan), None, "numbers of values"),
    ("hidden_fault", (one * 1e200, keys, solved), None, "numbers of query"),
    ("hidden_fault", (np.ones(3), keys, keys), None, "each of the 2 features"),
    ("hidden_fault", (np.ones((1, 2)), keys, keys), None, "(1, 2), (3, 2) and (3, 2)"),
    ("hidden_fault", np.ones(3), None, "three arrays"),
    ("hidden_fault", (np.zeros(0), np.zeros((3, 0)), np.zeros((3, 0))), None, "0 features"),
    ("hidden_fault", ("a", keys, keys), None, "query must be an array of numbers"),
    ("soft_lookup", lambda q, k, v, t=1.0: by_matmul(q / len(k) ** 0.5, k, v, t), "scaled_by_length",
     "number of keys"),
    ("soft_lookup", clips(700), None, "On scores of 800 and 4000"),
    ("soft_lookup", clips(20), None, "Clipping would"),
    ("soft_lookup", hard_when_large, None, "On scores of 4000 and 3999 at temperature 0.1"),
    ("soft_lookup", shifts_only_down, "overflow", "On scores of -3000 and -3001"),
    ("soft_lookup", subtracts_the_first, "overflow", "On scores of 800 and 4000"),
    ("soft_lookup", divides_before_subtracting, None, "at temperature 10"),
    ("soft_lookup", other_default, None, "The default is 1."),
    ("soft_lookup", by_the_package, "package", "calls the package"),
    ("soft_lookup", lambda *a: attnlib.softmax(a[1] @ a[0]) @ a[2], "package", "calls the package"),
    ("soft_lookup", lambda *a: torch_like.softmax(*a), None, "index 0"),
    ("soft_lookup", leaves, None, "raised SystemExit"),
    ("soft_lookup", changes_input, "changes_input", "Work on a copy"),
    ("soft_lookup", lambda *a: None, None, "Does it end with a return?"),
    ("soft_lookup", lambda *a: "text", None, "must be a NumPy array; yours is of type str"),
    ("soft_lookup", lambda *a: by_matmul(*a)[None], None, "shape (2,); yours has (1, 2)"),
    ("soft_lookup", lambda *a: by_matmul(*a).round(3), None, "index 0 of the result should be"),
    ("soft_lookup", lambda query, keys: 1, "signature", "it takes (query, keys): too many"),
    ("soft_lookup", 7, None, "Give a function"),
    ("soft_lookup", lambda q, k, v, t=1.0: by_matmul(q, -k, v, 1 / t),
     "temperature_multiplies and minus_sign", "Two things at once"),
]


@pytest.mark.parametrize("exercise, answer, misconception, words", WRONG)
def test_wrong_answers_are_told_what_is_wrong(exercise, answer, misconception, words):
    verdict = check(exercise, answer)
    assert verdict.passed is False and verdict.misconception == misconception, verdict
    assert words in verdict.message and len(verdict.message) < 500, verdict.message


@pytest.mark.parametrize("mistake", soft_lookup_judge.mistakes, ids=lambda mistake: mistake.name)
def test_each_mistake_of_soft_lookup_is_named(mistake):
    verdict = check("soft_lookup", lambda *args: soft_lookup_judge.compute(*args, **mistake.choices))
    assert verdict.passed is False and verdict.misconception == mistake.name
    assert mistake.hint in verdict.message


def test_untouched_answers_are_not_answered_yet():
    def stub(query, keys, values, temperature):
        raise NotImplementedError

    for exercise in EXERCISES:
        assert check(exercise.id, ...).passed is None
    verdict = check("soft_lookup", stub)
    assert verdict.passed is None and str(verdict).startswith("Not answered yet. ")


def test_an_unknown_exercise_names_its_neighbours():
    with pytest.raises(KeyError, match="near names: never_wins"):
        check("never_win", "E")


def test_verdicts_say_the_same_in_text_and_html_and_escape_it():
    verdict = check("never_wins", "<b>")
    assert "&lt;b&gt;" in verdict._repr_html_() and "<b>" in str(verdict)
    assert check("never_wins", "E").message.split(",")[0] in check("never_wins", "E")._repr_html_()


def test_the_key_that_never_wins_is_not_the_shortest():
    assert np.linalg.norm(PLANE_KEYS, axis=1).argmin() == 3


def test_the_notebook_shows_the_keys_that_are_judged():
    path = Path(__file__).resolve().parents[2] / "notebooks" / "01_lookup_to_attention.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    (line,) = [
        line
        for cell in cells
        for line in "".join(cell["source"]).splitlines()
        if line.startswith("five_keys =")
    ]
    shown = eval(line.split("=", 1)[1], {"np": np})
    np.testing.assert_array_equal(shown, PLANE_KEYS)

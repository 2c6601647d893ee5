"""Lesson 07's exercises: every right answer accepted, every known mistake named, nothing crashes."""

import numpy as np
import pytest

from attnlib.exercises import check
from attnlib.exercises.saturation import EXERCISES, NUDGE_KEYS, NUDGE_QUERY

IDS = [exercise.id for exercise in EXERCISES]
SOLVED = {exercise.id: exercise for exercise in EXERCISES if exercise.kind != "function"}


def weights(z):
    z = np.asarray(z, dtype=float)
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


open_rows, closed_rows = np.zeros((9, 2)), np.tile([20.0, 0.0], (11, 1))
step = np.array([-1.0, 1.0]) / np.sqrt(2)

RIGHT = {
    "drowned": [[150, 22028], (150.0, 22028.0), np.array([150, 22028])],
    "least_nudge": [NUDGE_QUERY + 1.79 * step, [2.73, 2.27], (2.735, 2.265)],
    "two_stories": [np.vstack([open_rows, closed_rows]), np.vstack([closed_rows, open_rows]).tolist(),
                    np.vstack([np.tile([0.0, 0, -50], (6, 1)), np.tile([30.0, 0, 0], (7, 1))]),
                    np.vstack([np.zeros((4, 2)), np.tile([800.0, 0.0], (6, 1))])],      # a mean of 0.2
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", SOLVED)
def test_solutions_pass_and_hints_go_on(exercise):
    names = {}
    exec(SOLVED[exercise].solution, names)
    verdict = check(exercise, names["answer"])
    assert verdict.passed is True, verdict.message
    assert len(SOLVED[exercise].hints) in (2, 3)


def test_the_lesson_keeps_its_order():
    assert IDS == ["drowned", "softmax_jacobian", "softmax_backward", "least_nudge", "two_stories"]


WRONG = [
    ("drowned", [149, 22027], "match_not_counted"),
    ("drowned", [149, 22028], "match_not_counted"),
    ("drowned", [149, 300], "match_not_counted"),
    ("drowned", [150, 22027], "match_not_counted"),
    ("drowned", [148, 22026], "rounded_down"),
    ("drowned", [148, 22028], "rounded_down"),
    ("drowned", [150, 300], "doubled"),
    ("drowned", [150, 150**2], "square_of_rounded"),
    ("drowned", [150, 149**2], "square_of_rounded"),
    ("drowned", [6, 11], "scores_not_exponentials"),
    ("drowned", [160, 22028], "not_the_least"),
    ("drowned", [150, 23000], "not_the_least"),
    ("drowned", [100, 22028], None),
    ("drowned", np.exp([5, 10]) + 1, None),
    ("drowned", [150.5, 23000], None),
    ("drowned", [-3, 23000], None),
    ("least_nudge", NUDGE_QUERY, "unmoved"),
    ("least_nudge", 0.14 * NUDGE_QUERY, "shrunk"),
    ("least_nudge", 0.5 * NUDGE_QUERY, "shrunk"),
    ("least_nudge", NUDGE_QUERY + 1.3 * NUDGE_KEYS[1], "towards_b"),
    ("least_nudge", NUDGE_QUERY + 0.5 * NUDGE_KEYS[1], "towards_b"),
    ("least_nudge", NUDGE_QUERY - 0.6 * NUDGE_KEYS[0], "away_from_a"),
    ("least_nudge", NUDGE_QUERY + 1.81 * step, "too_long"),
    ("least_nudge", NUDGE_QUERY + 2.0 * step, "too_long"),
    ("least_nudge", NUDGE_QUERY + 5.0 * step, "overshoot"),
    ("least_nudge", NUDGE_QUERY + 1.0 * step, "too_short"),
    ("least_nudge", NUDGE_QUERY + 1.77 * step, "too_short"),
    ("least_nudge", [5, 0], "towards_a"),
    ("least_nudge", NUDGE_QUERY + NUDGE_KEYS[0], "towards_a"),
    ("least_nudge", NUDGE_KEYS[1] * 5, "overshoot"),
    ("least_nudge", [2, 1], None),
    ("least_nudge", [-4, -1], "turned_round"),
    ("least_nudge", [-8, -2], "turned_round"),
    ("two_stories", np.zeros((12, 2)), "too_many_open"),
    ("two_stories", np.vstack([open_rows, closed_rows[:9]]), "half_open"),
    ("two_stories", np.vstack([open_rows, closed_rows / 10]), "too_many_open"),
    ("two_stories", np.vstack([open_rows, closed_rows / 5]), "not_sure_enough"),
    ("two_stories", np.vstack([open_rows, closed_rows * 0.33]), "not_sure_enough"),
    ("two_stories", np.vstack([np.zeros((3, 2)), closed_rows[:7]]), "too_few_open"),
    ("two_stories", np.vstack([np.tile([0.9, 0], (4, 1)), closed_rows[:6]]), "open_rows_too_flat"),
    ("two_stories", closed_rows, "none_open"),
    ("two_stories", np.vstack([open_rows[:1], closed_rows]), "too_few_open"),
    ("two_stories", np.vstack([np.zeros((9, 20)), np.tile([20.0] + [0] * 19, (11, 1))]),
     "open_rows_too_flat"),
]


@pytest.mark.parametrize("exercise, answer, name", WRONG, ids=lambda x: " ".join(str(x).split())[:20])
def test_wrong_answers_are_named(exercise, answer, name):
    verdict = check(exercise, answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("query, told", [
    ([-4, -1], ("You turned the query round, and now C leads", "from 6 to -6")),
    ([-8, -2], ("You turned the query round, and now C leads", "from 6 to -12")),
    (NUDGE_QUERY - 3 * NUDGE_KEYS[0], ("You moved away from A", "Now C leads")),
    ([-5, 0], ("Now C leads",)),
    ([2, 0.5], ("You shortened the query", "from 6 to 3.")),
    ([5, 2], ("is still 6",)),
    ([2.73, 2.27], ("from 6 to 0.92.",)),
    ([3, 3], ("from 6 to 0.",)),
])
def test_a_nudge_is_told_what_it_did_to_the_gap_and_who_leads(query, told):
    message = check("least_nudge", query).message
    assert all(part in message for part in told), message
    assert ("C leads" in message) == (np.argmax(NUDGE_KEYS @ query) == 2)


def test_verdicts_print_what_tells_a_number_from_its_limit():
    too_short = check("least_nudge", NUDGE_QUERY + 1.781 * step)
    assert too_short.misconception == "too_short", too_short.message
    assert "size 0.2000" not in too_short.message and "a little too short" in too_short.message
    assert "moved by 1.8000;" not in check("least_nudge", NUDGE_QUERY + 1.80001 * step).message
    assert "0.5007" in check("drowned", [149, 22028]).message
    assert "holds 0.50002." in check("drowned", [150, 22026]).message


ODD = [None, ..., "a string", "E", [], {}, 3, -1.5, float("nan"), [np.nan, 1], [np.inf, 2], np.zeros((3, 3)),
       np.zeros((2000, 2000)), [[1, 2], [3]], [None, 1], object(), True, 1j, [10**400, 1], [1e300, -1e300],
       np.array(["a", "b"]), lambda: 3, lambda *a: None, lambda *a: "x", lambda *a: a[0][0], print,
       lambda *a: np.full(np.shape(a[0]), np.nan), lambda *a: 1 / 0, lambda *a: exit(), np.zeros((10, 0))]


@pytest.mark.parametrize("exercise", IDS)
@pytest.mark.parametrize("answer", ODD, ids=lambda x: str(x)[:20])
def test_odd_answers_are_judged_and_never_right(exercise, answer, no_warnings):
    with no_warnings():
        verdict = check(exercise, answer)
    assert verdict.passed is not True
    assert verdict.message and "0" * 60 not in verdict.message


def test_the_least_nudge_is_the_least():
    """No query nearer than 1.78 has the slope, in any direction."""
    angles = np.linspace(0, 2 * np.pi, 721)
    ways = np.stack([np.cos(angles), np.sin(angles)], -1)
    for length in (0.5, 1.0, 1.5, 1.75):
        w = weights((NUDGE_QUERY + length * ways) @ NUDGE_KEYS.T)
        assert (w[:, 1] * (1 - w[:, 1]) < 0.2).all()

"""Lesson 21: gates, crossed-out cells, and whose table it is. Right ways accepted, mistakes named."""

from itertools import permutations

import numpy as np
import pytest
from judging import its_solution

from attnlib import forgetting_attention, selective_attention
from attnlib.exercises import check
from attnlib.exercises.crossed_out import (
    EXERCISES,
    WANTED,
    _last_row,
    _passed,
    _selective,
    crossed_out,
    five_gates,
    whose_table,
)

# ------------------------------------------------------------- gates


@pytest.mark.parametrize("answer", [
    [0, 1, 0.5, 0.5, 1],                # before the first there is nothing to forget
    [1, 1, 0.5, 0.5, 1], (0.3, 1, 1 / 2, 1 / 2, 1), np.array([1e-3, 1, 0.5, 0.5, 1]),
])  # fmt: skip
def test_right_gates(answer):
    assert five_gates(answer).passed


@pytest.mark.parametrize("answer, name", [
    ([1, 0.5, 0.5, 1, 1], "one_early"),
    ([0.25, 0.25, 0.5, 1, 1], "products"),
    ([1, 1, 1, 0.5, 0.5], "one_late"),
    ([1, 1, 2, 4, 4], "above_one"),
    ([1, 1, -0.5, 0.5, 1], "below_zero"),
    ([1, 1, 2, 2, 1], "above_one"),
    ([0, 0, -0.69, -0.69, 0], "logarithms"),
    ([1, 1, 0.5, 0.5, 0], "closed"),
    ([1, 0.5, 0.5, 1, 0.3], "one_early"),
    ([1, 1, 0.25, 0.25, 1], "squared"),
    ([0.5, 0.5, 0.5, 0.5, 0.5], "equal"),
    ([1, 1, 1, 1, 1], "equal"),
    ([1, 1, 1, 0.25, 1], "other"),
    ([1, 1, 0.5, 1, 1], "other"),
    (list(WANTED), "products"),
])  # fmt: skip
def test_wrong_gates_are_explained(answer, name):
    verdict = five_gates(answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("answer", ["gates", [1, 2], [np.nan] * 5, None, [[1, 1, 0.5, 0.5, 1]]])
def test_what_is_no_five_gates(answer):
    assert five_gates(answer).readable is False


def test_gates_are_the_packages():
    gates = np.random.default_rng(0).uniform(0.1, 1, 5)
    zeros = np.zeros((1, 5, 2))
    _, weights = forgetting_attention(zeros, zeros, zeros, np.log(gates)[None], return_weights=True)
    np.testing.assert_allclose(_last_row(_passed(gates)), weights[0, -1], atol=1e-12)


# ------------------------------------------------------------- crossed out


def cells(*given):
    scores = np.zeros((6, 6))
    for i, j, value in given:
        scores[i, j] = value
    return scores


@pytest.mark.parametrize("answer", [
    cells((3, 1, 5), (4, 2, 5)), cells((3, 1, 10), (4, 2, 4)), cells((3, 1, 4), (4, 2, 4)).tolist(),
    cells((2, 1, 5), (4, 2, 5)),        # the socks may send the shoes back too
])  # fmt: skip
def test_right_cells(answer):
    assert crossed_out(answer).passed, crossed_out(answer).message


@pytest.mark.parametrize("answer, words", [
    (cells((3, 1, 5), (4, 2, 5)), ["The return crosses out the shoes", "The racket crosses out the socks"]),
    (cells((2, 1, 5), (4, 2, 5)), ["The socks cross out the shoes", "The racket crosses out the socks"]),
    (cells((3, 1, 5), (5, 2, -5)), ["The return crosses out the shoes", "a seventh purchase sees the socks"]),
    (cells((2, 1, 5), (5, 2, -5)), ["The socks cross out the shoes", "a seventh purchase sees the socks"]),
])  # fmt: skip
def test_each_right_way_is_told_what_it_did(answer, words):
    verdict = crossed_out(answer)
    assert verdict.passed, verdict.message
    assert all(part in verdict.message for part in words), verdict.message


@pytest.mark.parametrize("answer, name", [
    (cells(), "none"),
    (cells((3, 1, 5)), "one_missing"),
    (cells((4, 2, 5)), "one_missing"),
    (cells((3, 1, 5), (3, 2, 5)), "both_at_once"),
    (cells((4, 1, 5), (5, 2, 5)), "late"),
    (cells((1, 3, 5), (2, 4, 5)), "transposed"),
    (cells((3, 1, -5), (4, 2, -5)), "negative"),
    (cells((3, 1, 5), (4, 2, -5)), "negative"),
    (cells((4, 1, -5), (5, 2, -5)), "negative"),
    (cells((3, 1, 2), (4, 2, 2)), "too_small"),
    (cells((1, 1, 5), (2, 2, 5)), "diagonal"),
    (cells((3, 0, 5), (4, 2, 5)), "first"),
    (cells((3, 1, 5), (3, 4, 5)), "future"),
    (cells((3, 1, 5), (5, 2, 5)), "late"),
    (cells((3, 1, 5), (5, 4, 5)), "looks_away"),
    (cells((4, 1, 5), (4, 2, 5)), "late"),
    (cells((3, 1, 5), (2, 1, 5)), "still_seen"),
    (cells((5, 1, -5), (5, 3, 5)), "negative"),
    (cells((3, 1, 50), (4, 2, 5)), "too_large"),
    (cells((3, 1, 5), (4, 2, 5), (4, 1, -5)), "too_many"),
])  # fmt: skip
def test_wrong_cells_are_explained(answer, name):
    verdict = crossed_out(answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("answer", ["cells", np.zeros((5, 6)), np.full((6, 6), np.inf), None])
def test_what_is_no_table_of_scores(answer):
    assert crossed_out(answer).readable is False


def test_selection_is_the_packages():
    """With keys that are one-hot, a query's features are its scores."""
    scores = np.random.default_rng(0).normal(size=(6, 6)) * 2
    _, weights = selective_attention(
        scores[None], np.eye(6)[None], np.zeros((1, 6, 1)), scale=1.0, return_weights=True
    )
    np.testing.assert_allclose(_selective(scores), weights[0], atol=1e-12)


# ------------------------------------------------------------- whose table


@pytest.mark.parametrize("answer", ["SRDF", "srdf", "S, R, D, F"])
def test_the_right_order(answer):
    assert whose_table(answer).passed


@pytest.mark.parametrize("answer", ["".join(p) for p in permutations("DFRS") if "".join(p) != "SRDF"])
def test_every_other_order_is_told_of_its_first_mistake(answer):
    verdict = whose_table(answer)
    assert verdict.passed is False
    place = next(i for i in range(4) if answer[i] != "SRDF"[i])
    assert verdict.misconception == f"{answer[place]}_for_{'SRDF'[place]}"
    assert f"Table {place + 1}" in verdict.message


def test_a_letter_twice_and_what_is_no_answer():
    assert whose_table("SSDF").misconception == "twice"
    for answer in ("SRD", "ABCD", 3, None, ["S", "R", "D", "F"]):
        assert whose_table(answer).readable is False


def test_solutions_pass_and_dots_are_no_answers():
    for exercise in EXERCISES:
        assert check(exercise.id, its_solution(exercise.id), show=False).passed
        assert check(exercise.id, ..., show=False).passed is None

"""Lesson 20: entropy, five keys, and Performer's pairs. Right answers accepted, wrong ones explained."""

import numpy as np
import pytest
from judging import its_solution

from attnlib import attention_weights, entropy
from attnlib.datasets import running_example
from attnlib.exercises import check
from attnlib.exercises.feature_maps import (
    EXERCISES,
    _phi,
    _relative_error,
    entropy_claims,
    one_of_five,
    performer_pairs,
)


@pytest.mark.parametrize("exercise", [e.id for e in EXERCISES])
def test_solutions_pass_and_dots_are_no_answer(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed
    assert check(exercise, ..., show=False).passed is None


# ------------------------------------------------------------- entropy


@pytest.mark.parametrize("answer", ["ABDF", "fdba", "A, B, D, F", "A B D F", "AABDF"])
def test_the_right_letters(answer):
    assert entropy_claims(answer).passed


@pytest.mark.parametrize("answer, name", [
    ("ABCDF", "always_higher"), ("ABDEF", "low_is_right"), ("BDF", "even"), ("ADF", "words_that_ask"),
    ("ABF", "louder"), ("DAB", "never_zero"), ("C", "always_higher"), ("CE", "always_higher"),
])  # fmt: skip
def test_wrong_letters_are_explained(answer, name):
    verdict = entropy_claims(answer)
    assert verdict.passed is False
    assert verdict.misconception == name


@pytest.mark.parametrize("answer", ["", "X", "ABX", 3, ["A", "B"], None, True])
def test_what_is_no_letters_is_no_try(answer):
    assert entropy_claims(answer).readable is False


def test_the_statements_hold_as_the_judge_says():
    """What B, C, D and F say, computed on the running example as the lesson makes it."""
    *_, axes, x = running_example()
    asks = {"action": "person", "number": "thing", "pointer": "thing", "quality": "pointer"}
    offers = ["thing", "person", "pointer", "degree"]
    q = x @ np.array([[6.0 * (asks.get(kind) == offer) for offer in offers] for kind in axes])
    k = x @ np.array([[1.0 * (kind == offer) for offer in offers] for kind in axes])

    def linear(q):
        products = _phi(q) @ _phi(k).T
        return products / products.sum(-1, keepdims=True)

    soft, flat = entropy(attention_weights(q, k)), entropy(linear(q))
    assert (flat[[2, 5]] > soft[[2, 5]] + 0.5).all()                 # B
    assert (flat[[0, 6]] < soft[[0, 6]]).all()                       # not C
    assert (soft - entropy(attention_weights(10 * q, k)))[2] > 1     # D
    assert abs(flat - entropy(linear(10 * q)))[2] < 0.05
    assert linear(1000 * q).min() > 0.05                             # F


# ------------------------------------------------------------- five keys

WINNING = np.array([[3, 3, 3], [-5, 0, 0], [0, -5, 0], [0, 0, -5], [-3, -3, -3.0]])


def test_other_keys_that_lose_four_are_accepted():
    assert one_of_five(WINNING * 1.5).passed
    assert one_of_five(WINNING[::-1]).passed
    assert one_of_five(WINNING.tolist()).passed
    assert one_of_five([[3, 3, 3], [4, 0, 0], [0, 4, 0], [0, 0, 4], [-3, -3, -3]]).passed


@pytest.mark.parametrize("keys, name", [
    (np.eye(5, 3), "same_keys"),
    (WINNING * 10, "too_large"),
    (WINNING * 0.2, "softmax_unsure"),
    ([[9, 9, 9], [-15, 0, 0], [0, -15, 0], [0, 0, -15], [-15, -15, -15]], "softmax_tied"),
    ([[5, 0, 0], [0, 5, 0], [0, 0, 5], [5, 5, 5], [-5, -5, -5]], "softmax_tied"),
    ([[9, 9, 9], [1, 0, 0], [0, 1, 0], [0, 0, 1], [2, 2, 0]], "softmax_wrong"),
    ([[3, 0, 0], [0, 3, 0], [0, 0, 3], [-3, 0, 0], [0, -3, 0]], "several_recalled"),
    ([[9, 0, 0], [0, 9, 0], [0, 0, 9], [6.6, 6.6, 0], [0, 6.6, 6.6]], "all_recalled"),
])
def test_keys_that_do_not_do_are_explained(keys, name):
    verdict = one_of_five(keys)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("keys", ["keys", np.ones((5, 2)), np.full((5, 3), np.nan), [1, 2, 3], None])
def test_what_is_no_five_keys(keys):
    assert one_of_five(keys).readable is False


def test_none_recalled_is_impossible():
    """The key whose features are longest always finds itself."""
    for seed in range(200):
        features = _phi(np.random.default_rng(seed).normal(size=(5, 3)) * 3)
        longest = np.linalg.norm(features, axis=-1).argmax()
        assert (features @ features[longest]).argmax() == longest


# ------------------------------------------------------------- Performer's pairs

E = np.eye(4)


@pytest.mark.parametrize("answer", [
    [2 * E[0], 2 * E[1], -2 * E[0]],
    [E[0] * 1.7, E[2] * 1.7, -E[0] * 1.7],
    np.array([[1, 1, 1, 1], [1, -1, 1, -1], [-1, -1, -1, -1]]) * 1.0,
    [2 * E[0], 2.1 * E[1], -2.1 * E[0]],
])
def test_other_right_pairs(answer):
    assert performer_pairs(answer).passed, performer_pairs(answer).message


@pytest.mark.parametrize("answer, name", [
    ([E[0], E[1], -E[0]], "too_short"),
    ([2 * E[0], 2 * E[1], 2 * E[0]], "good_along_q"),
    ([2 * E[0], 2 * E[1], 2 * E[2]], "good_at_a_right_angle"),
    ([2 * E[0], 2 * E[1], -1.5 * E[0]], "lengths_differ"),
    ([2 * E[0], -2 * E[0], 2 * E[1]], "exchanged"),
    ([2 * E[0], 2 * E[0], -2 * E[0]], "no_right_angle"),
    ([2 * E[0], 3 * E[1], -3 * E[0]], "not_as_long_as_q"),
    ([2 * E[0], 2 * E[1], 2 * (E[2] - E[0]) / 2**0.5], "sum_too_long"),
    ([2 * E[0], 2 * E[1], 0 * E[0]], "zero"),
    ([0 * E[0], 2 * E[1], 2 * E[0]], "zero"),
    ([20 * E[0], 20 * E[1], -20 * E[0]], "too_long"),
])  # fmt: skip
def test_wrong_pairs_are_explained(answer, name):
    verdict = performer_pairs(answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("answer", ["pairs", [1, 2, 3], np.ones((3, 5)), np.full((3, 4), np.inf), None])
def test_what_is_no_three_vectors(answer):
    assert performer_pairs(answer).readable is False


def test_the_formula_of_the_error_is_what_draws_give():
    q, k, m = np.array([0.5, 0.2, 0, 0]), np.array([0.3, -0.1, 0.6, 0]), 32
    w = np.random.default_rng(0).normal(size=(20_000, m, 4))
    estimates = np.exp(w @ (q + k) - (q @ q + k @ k) / 2).mean(-1)
    off = np.sqrt(((estimates / np.exp(q @ k) - 1) ** 2).mean())
    assert off == pytest.approx(_relative_error(q, k, m), rel=0.05)

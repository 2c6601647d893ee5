"""Lesson 25: four numbers, one pair, six statements. Right answers accepted, wrong ones explained."""

import numpy as np
import pytest
from judging import its_solution

from attnlib import titans_memory
from attnlib.exercises import check
from attnlib.exercises.surprise import (
    APPLE,
    EXERCISES,
    MEMORY,
    PEAR,
    PLUM,
    memory_claims,
    only_the_pear,
    surprise_numbers,
)


@pytest.mark.parametrize("exercise", [e.id for e in EXERCISES])
def test_solutions_pass_and_dots_are_no_answer(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed
    assert check(exercise, ..., show=False).passed is None


# ------------------------------------------------------------- four numbers


@pytest.mark.parametrize("answer", [(0.3, 0.4, 0.8, 1 / 18), [0.3, 0.4, 0.8, 0.056],
                                    np.array([0.3, 0.4, 0.8, 0.0556])])
def test_the_four_numbers(answer):
    assert surprise_numbers(answer).passed


@pytest.mark.parametrize("answer, name", [
    ((0.15, 0.2, 2 / 3, 1 / 9), "no_two"),
    ((0.2, 0.4, 0.8, 1 / 18), "one_step_back"),
    ((0.1, 0.4, 0.8, 1 / 18), "only_the_second"),
    ((0.3, 0.3, 0.8, 1 / 18), "eta_once"),
    ((0.3, 0.2, 0.8, 1 / 18), "remainder"),
    ((0.3, 0.4, 1, 1 / 18), "believed"),
    ((0.3, 0.4, 0.2, 1 / 18), "left_over"),
    ((0.3, 0.4, 0.8, 0.5), "length_one"),
    ((0.3, 0.4, 0.8, 1 / 6), "not_squared"),
    ((0.15, 0.4, 0.8, 1 / 18), "no_two_in_a"),
    ((0.3, 0.4, 2 / 3, 1 / 18), "no_two_in_c"),
    ((0.3, 0.4, 0.8, 1 / 9), "no_two_in_d"),
    ((0.3, 0.4, 5 / 6, 1 / 18), "forgotten_first"),
    ((0.3, 2, 0.8, 1 / 18), "whole_step"),
    ((0.3, 0.4, 2 / 3, 1 / 9), "no_two_in_c and no_two_in_d"),
    ((0.3, 0.3, 1, 1 / 18), "eta_once and believed"),
    ((0.2, 0.4, 1, 0.5), "one_step_back and believed and length_one"),
    ((0.15, 0.2, 1, 1 / 9), "no_two and believed"),
])  # fmt: skip
def test_slips_are_named(answer, name):
    verdict = surprise_numbers(answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("place, words", [(0, "(a):"), (1, "(b):"), (2, "(c):"), (3, "(d):")])
def test_another_number_is_told_which_to_look_at(place, words):
    answer = [0.3, 0.4, 0.8, 1 / 18]
    answer[place] = 7.0
    verdict = surprise_numbers(answer)
    assert verdict.passed is False and words in verdict.message


@pytest.mark.parametrize("answer", ["numbers", (1, 2), None, (0.3, 0.4, np.nan, 1)])
def test_what_is_no_four_numbers(answer):
    assert surprise_numbers(answer).readable is False


def test_the_four_numbers_are_what_a_memory_gives():
    key = np.tile([0.0, 1.0], (200, 1))
    key[0] = [1.0, 0.0]
    asked = np.tile([1.0, 0.0], (200, 1))
    a_and_b = titans_memory(asked, key, np.eye(200, 1), 0.1, 0.5, 0)[:, 0]
    c = titans_memory(asked, asked, np.ones((200, 1)), 0.1, 0, 0.05)[-1, 0]
    long = np.array([[0.0, 3.0]])
    d = titans_memory(long, long, np.ones((1, 1)), 1 / 18, 0, 0)[0, 0]
    np.testing.assert_allclose([a_and_b[1], a_and_b[-1], c, d], [0.3, 0.4, 0.8, 1.0])


# ------------------------------------------------------------- one pair

KEY = np.array([0, 0.8, -0.6])


@pytest.mark.parametrize("scale", [1.0, -1.0, 0.5, 2.0])
def test_any_length_of_the_right_key_will_do(scale):
    key = scale * KEY
    assert only_the_pear([*key, key @ MEMORY - 2 / (key @ PEAR)]).passed


@pytest.mark.parametrize("pair, name", [
    ([*PEAR, -1], "pears_key"),
    ([*-PEAR, 1], "pears_key"),
    ([0, 1, 0, -2], "moves_plum"),
    ([0.8, -0.6, 0.45, 3], "moves_apple"),
    ([1, 1, 1, -2], "moves_apple_and_plum"),
    ([*KEY, -1], "value_of_the_pear"),
    ([*KEY, 5], "sweeter"),
    ([*KEY, -5], "other_size"),
    ([*KEY, 1], "no_surprise"),
    ([0, 0, 0, 1], "zero_key"),
    ([*KEY, 1000], "too_large"),
])  # fmt: skip
def test_other_pairs_are_explained(pair, name):
    verdict = only_the_pear(pair)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("pair", ["pair", [1, 2, 3], np.full(4, np.inf), None, [[1, 2], [3, 4]]])
def test_what_is_no_pair(pair):
    assert only_the_pear(pair).readable is False


def test_the_judge_writes_as_the_package_does():
    pair = np.array([0.2, -0.5, 0.7, 1.3])
    key, value = pair[None, :3], pair[None, 3:]
    fruit = np.stack([APPLE, PEAR, PLUM])
    _, (memory, _) = titans_memory(key, key, value, 0.5, 0, 0, memory=MEMORY[:, None], return_state=True)
    before, after = fruit @ MEMORY, (fruit @ memory)[:, 0]
    said = only_the_pear(pair).message
    for name, old, new in zip(("apple", "pear", "plum"), before, after, strict=True):
        assert f"{name} {old:g} to {new:.3g}" in said


# ------------------------------------------------------------- six statements


@pytest.mark.parametrize("answer", ["AEF", "fea", "A, E, F", "A E F", "AAEF"])
def test_the_right_letters(answer):
    assert memory_claims(answer).passed


@pytest.mark.parametrize("answer, name", [
    ("ABEF", "stores_more"), ("ACEF", "sum_unchanged"), ("ADEF", "no_grad"), ("EF", "whole_way"),
    ("AF", "one_chunk"), ("AE", "series"), ("B", "stores_more"), ("CD", "sum_unchanged"),
])  # fmt: skip
def test_wrong_letters_are_explained(answer, name):
    verdict = memory_claims(answer)
    assert verdict.passed is False
    assert verdict.misconception == name


@pytest.mark.parametrize("answer", ["", "X", "ABX", 3, ["A", "B"], None, True])
def test_what_is_no_letters_is_no_try(answer):
    assert memory_claims(answer).readable is False

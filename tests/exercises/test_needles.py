"""Lesson 23: a needle that is lost, and what holds of lightning layers."""

import numpy as np
import pytest
from judging import its_solution

from attnlib import attention_weights, lightning_weights
from attnlib.exercises import check
from attnlib.exercises.needles import EXERCISES, lightning_claims, lose_the_needle


def haystack(cosines, length=8.0):
    """Twelve keys of one length: the needle, and eleven with these cosines, else in other directions."""
    keys = np.zeros((12, 4))
    keys[0, 0] = 1
    for i, cosine in enumerate(cosines, 1):
        keys[i, 0], keys[i, 1 + i % 3] = cosine, np.sqrt(1 - cosine**2)
    return keys * length


def test_several_ways_are_accepted():
    for keys in (haystack([0] * 10 + [0.1]), haystack([0.2] * 11, 6), haystack([-0.5] * 9 + [0.15, 0.0]),
                 haystack([0, 0.2, 0, 0.2] + [0.2] * 7).tolist()):  # fmt: skip
        verdict = lose_the_needle(keys)
        assert verdict.passed, verdict.message


def test_the_judge_sees_what_the_package_computes():
    keys = haystack([0] * 10 + [0.1])
    query = np.repeat(keys[:1], 12, axis=0)
    assert attention_weights(query, keys)[-1, 0] > 0.9
    assert lightning_weights(query, keys, 0.25)[-1].argmax() == 11
    moved = np.roll(keys, -1, axis=0)
    assert lightning_weights(query, moved, 0.25)[-1].argmax() == 11


@pytest.mark.parametrize("keys, name", [
    (haystack([0] * 11), "nothing_else"),
    (haystack([-0.3] * 11), "nothing_else"),
    (haystack([0] * 10 + [0.05]), "still_found"),
    (haystack([0.2] + [0] * 10), "still_found"),
    (haystack([0] * 10 + [0.3]), "too_alike"),
    (haystack([0] * 10 + [0.1], 2.0), "softmax_unsure"),
    (haystack([0] * 10 + [0.1], 30.0), "too_large"),
    (haystack([0] * 10 + [0.1]) * np.linspace(1, 2, 12)[:, None], "lengths_differ"),
    (np.zeros((12, 4)), "zero"),
])  # fmt: skip
def test_wrong_haystacks_are_explained(keys, name):
    verdict = lose_the_needle(keys)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("keys", [np.zeros((11, 4)), "keys", np.full((12, 4), np.nan), [[1, 2], [3]]])
def test_what_cannot_be_read_is_said(keys):
    assert lose_the_needle(keys).passed is False


@pytest.mark.parametrize("answer", ["AEF", "fea", "A, E, F"])
def test_the_letters(answer):
    assert lightning_claims(answer).passed


@pytest.mark.parametrize("answer, name", [
    ("AEFB", "padding_fades"),
    ("AEFC", "hybrid_linear"),
    ("AEFD", "longer_is_better"),
    ("EF", "common_factor"),
    ("AF", "order_matters"),
    ("AE", "blocks_same"),
    ("BCD", "padding_fades"),
])
def test_wrong_letters_are_explained(answer, name):
    verdict = lightning_claims(answer)
    assert verdict.passed is False
    assert verdict.misconception == name
    assert ("more letter" in verdict.message) == (answer == "BCD")


@pytest.mark.parametrize("answer", ["", "AX", 3, ["A", "E"], "none"])
def test_what_is_no_letters_is_said(answer):
    assert "letters from A to F" in lightning_claims(answer).message


def test_solutions_and_stubs():
    for exercise in EXERCISES:
        assert check(exercise.id, its_solution(exercise.id), show=False).passed
        assert check(exercise.id, ..., show=False).passed is None
        assert exercise.lesson == "23" and len(exercise.hints) == 3

"""Lesson 24's exercises on singular values: every right way accepted, every known mistake named."""

import numpy as np
import pytest
from judging import its_solution, mistakes, named, stub

from attnlib.exercises import check
from attnlib.exercises.singular_values import _KNOWN_SIZES, _SIZES, EXERCISES

SOLUTIONS = {exercise.id: exercise.solution for exercise in EXERCISES}


def verdict_on(exercise, answer):
    return check(exercise, answer, show=False)


# How large an expert is


def test_sizes_by_another_way():
    layer = [(2048, 2048)] * 4 + [(5632, 2048)] * 3
    ranks = [np.linalg.matrix_rank(np.eye(out // 256, inn // 256)) * 256 for out, inn in layer]
    multipliers = 24 * sum(ranks[4:]), 24 * sum(ranks)
    low_rank = 24 * sum(8 * out + 8 * inn for out, inn in layer)
    for answer in ((*multipliers, low_rank), [147456.0, 344064, 7569408], np.array(_SIZES)):
        assert verdict_on("expert_sizes", answer).passed is True


@pytest.mark.parametrize("index, value, name, hint", _KNOWN_SIZES, ids=lambda x: str(x)[:20])
def test_each_wrong_size_is_named(index, value, name, hint):
    answer = _SIZES.copy()
    answer[index] = value
    verdict = verdict_on("expert_sizes", answer)
    assert (verdict.passed, verdict.misconception) == (False, name) and hint in verdict.message
    assert value != _SIZES[index] and "others are right" in verdict.message


def test_other_sizes():
    for i, letter in enumerate("abc"):
        answer = _SIZES.copy()
        answer[i] += 1
        verdict = verdict_on("expert_sizes", answer)
        assert verdict.passed is False and f"({letter})" in verdict.message
    assert "Got 147,457." in verdict_on("expert_sizes", (147457, 344064, 7569408)).message
    assert verdict_on("expert_sizes", ...).passed is None
    assert verdict_on("expert_sizes", (..., 1, 2)).passed is None
    assert not verdict_on("expert_sizes", (1, 2)).passed


# The shipped form


def by_diagonals(U, S, V, z):
    m = np.diag(1 / (1 + np.exp(-z)))
    return U @ np.diag(S) @ m @ V.T * S.sum() / np.trace(np.diag(S) @ m)


def by_parts(U, S, V, z):
    scaled = S * (np.tanh(z / 2) + 1)
    scaled = scaled / scaled.sum() * S.sum()
    return sum(s * np.outer(U[:, i], V[:, i]) for i, s in enumerate(scaled))


@pytest.mark.parametrize("answer", [by_diagonals, by_parts, its_solution("shipped_weight")])
def test_right_weights_pass(answer):
    verdict = verdict_on("shipped_weight", answer)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise, mistake", mistakes("shipped_weight"),
                         ids=lambda x: x if isinstance(x, str) else x.name)  # fmt: skip
def test_each_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


def test_a_stub_and_a_change_of_input():
    assert verdict_on("shipped_weight", stub).passed is None

    def in_place(U, S, V, z):
        S *= 1 / (1 + np.exp(-z))
        return U * S @ V.T

    assert verdict_on("shipped_weight", in_place).misconception == "changes_input"


# Out of reach


@pytest.mark.parametrize(
    "target",
    [
        [[0, 3, 0], [0, 0, 2], [1, 0, 0]],
        np.array([[0, 0, -2], [3, 0, 0], [0, 1, 0]]),
        [[0, 1.0, 0], [0, 0, 3.0], [-2, 0, 0]],
    ],
)
def test_targets_out_of_reach(target):
    assert verdict_on("out_of_reach", target).passed is True


def turned(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])


@pytest.mark.parametrize(
    "target, name",
    [
        (np.zeros((3, 3)), "zeros"),
        (np.diag([3, 2, 1]), "signs"),
        (-np.diag([3, -2, 1]), "signs"),
        (turned(np.pi / 2) @ np.diag([3, 2, 1]), "within_reach"),
        (np.fliplr(np.diag([3, 2, 1])), "within_reach"),
        (np.diag([2, -3, 1]), "cancels"),
        ([[0, 1, 0], [0, 0, 1], [1, 0, 0]], "other_values"),
        ([[0, 3, 3], [2, 0, 2], [1, 1, 0]], "other_values"),
    ],
)
def test_each_wrong_target_is_named(target, name):
    verdict = verdict_on("out_of_reach", target)
    assert (verdict.passed, verdict.misconception) == (False, name), verdict.message


def test_what_is_no_target():
    assert verdict_on("out_of_reach", ...).passed is None
    for answer in (1, np.eye(2), "T", np.full((3, 3), np.nan), None):
        assert not verdict_on("out_of_reach", answer).passed


@pytest.mark.parametrize("exercise", ["expert_sizes", "out_of_reach"])
def test_solutions_pass(exercise):
    names = {}
    exec(SOLUTIONS[exercise], names)
    assert verdict_on(exercise, names["answer"]).passed is True

"""Lesson 14's exercises on ranks, another map and copying: right ways accepted, mistakes named."""

import json

import lesson
import numpy as np
import pytest
from judging import NO_FUNCTIONS, its_solution, mistakes, named, stub, told_when_raising

from attnlib.exercises import check, circuits
from attnlib.exercises.catalogue import EXERCISES

MINE = [exercise.id for exercise in circuits.EXERCISES]


def by_small_product(W_E, W_V, W_O, W_U):
    values = np.linalg.eigvals(W_O @ W_U @ W_E @ W_V)
    return np.real(values.sum(-1)) / np.abs(values).sum(-1)


def by_trace(W_E, W_V, W_O, W_U):
    scores = []
    for v, o in zip(W_V, W_O, strict=True):
        full = W_E @ v @ o @ W_U
        scores.append(np.trace(full) / np.sum(np.abs(np.linalg.eigvals(full))))
    return np.array(scores)


def by_einsum(W_E, W_V, W_O, W_U):
    full = np.einsum("vd,hdr,hre,ew->hvw", W_E, W_V, W_O, W_U, optimize=True)
    found = np.linalg.eig(full)[0]
    return found.real.sum(-1) / np.hypot(found.real, found.imag).sum(-1)


def in_float32(W_E, W_V, W_O, W_U):
    return by_einsum(*(w.astype(np.float32) for w in (W_E, W_V, W_O, W_U)))


RIGHT = {
    "circuit_ranks": [(8, 5, 32, 48), [8.0, 5.0, 32.0, 48.0], np.array([8, 5, 32, 48])],
    "another_map": [
        [0.1, 0.475, 0.425, 0, 0, 0, 0, 0], (0.1, 0.475, 0.425, 0.0, 0, 0, 0, 0),
        [0.525, 0.05, 0, 0, 0, 0, 0, 0.425],       # 我 and 甜 for 吃了 and 一个
        [0.1, 0.475, 0.425, -3e-17, 0, 0, 0, 0],   # as solvers leave it
    ],
    "copying": [by_small_product, by_trace, by_einsum],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", MINE)
def test_solutions_pass_and_hints_lead_there(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed is True
    assert 2 <= len(EXERCISES[exercise].hints) <= 4 and EXERCISES[exercise].lesson == "14"


REST = np.where(np.arange(8) == 3, 0, circuits.WEIGHTS)


def by_least_squares(sums):
    """The row nearest to zeros that solves the equations, as a learner would get it."""
    keep = np.arange(8) != 3
    equations = np.vstack([circuits.VALUES.T, *[np.ones(8)] * sums])[:, keep]
    row = np.zeros(8)
    row[keep] = np.linalg.lstsq(equations, [3.8, 3.4, *[1.0] * sums], rcond=None)[0]
    return row


@pytest.mark.parametrize("exercise, answer, mistake", [
    ("circuit_ranks", (32, 5, 32, 48), "rank_a"),
    ("circuit_ranks", (8, 8, 32, 48), "rank_b"),
    ("circuit_ranks", (8, 5, 8, 48), "rank_c"),
    ("circuit_ranks", (8, 5, 32, 192), "rank_d"),
    ("circuit_ranks", (8, 5, 32, 8), "rank_d"),
    ("circuit_ranks", (8, 5, 32, 7), "rank_d"),
    ("another_map", circuits.WEIGHTS, "the_same"),
    ("another_map", REST, "does_not_sum"),
    ("another_map", REST / REST.sum(), "renormalised"),
    ("another_map", by_least_squares(0), "does_not_sum"),
    ("another_map", [0.55, 0.025, -0.025, 0, 0, 0, 0, 0.45], "negative"),
    ("another_map", [0.2, 0.1, 0, 0.6, 0, 0, 0, 0.1], "apple_kept"),
    ("another_map", [0.2, 0.4, 0.4, 0, 0, 0, 0, 0], "outputs_differ"),
    ("copying", in_float32, None),
])  # fmt: skip
def test_wrong_answers_are_named(exercise, answer, mistake):
    verdict = check(exercise, answer, show=False)
    if mistake is None:
        assert verdict.passed is True, verdict.message
    else:
        assert verdict.passed is False and verdict.misconception == mistake, verdict.message


@pytest.mark.parametrize("exercise, answer", [
    ("circuit_ranks", 8), ("circuit_ranks", ("8", 5, 32, 48)), ("circuit_ranks", (8, 5, 32, np.nan)),
    ("circuit_ranks", "text"), ("another_map", [0.5, 0.5]), ("another_map", "text"),
    ("another_map", [np.inf, 0, 0, 0, 0, 0, 0, 0]), ("another_map", [[0.1] * 8]),
    *(("copying", answer) for answer in NO_FUNCTIONS),
    ("copying", lambda W_E, W_V, W_O, W_U: None),
    ("copying", lambda W_E, W_V, W_O, W_U: np.linalg.eigvals(W_E @ W_V @ W_O @ W_U)),
    ("copying", lambda W_E, W_V, W_O, W_U: 1.0),
    ("copying", lambda W_E, W_V: W_V),
])  # fmt: skip
def test_odd_answers_are_judged_without_a_crash(exercise, answer):
    with np.errstate(all="ignore"):
        verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.message


@pytest.mark.parametrize("exercise, mistake", mistakes("copying"), ids=lambda x: getattr(x, "name", x))
def test_mistakes_are_named(exercise, mistake):
    named(exercise, mistake)


def test_a_function_that_raises_is_told():
    told_when_raising("copying", RuntimeError)


def test_what_is_not_answered_is_said():
    assert check("copying", stub, show=False).passed is None
    for exercise in ("circuit_ranks", "another_map"):
        assert check(exercise, ..., show=False).passed is None


def test_the_ranks_are_those_of_random_matrices():
    rng = np.random.default_rng(0)
    W_Q, W_K, W_V = rng.normal(size=(3, 4, 32, 8))
    W_O, W_E = rng.normal(size=(4, 8, 32)), rng.normal(size=(5, 32))
    a = np.tril(rng.random((6, 6)) + 0.1)
    qk, ov = W_Q[0] @ W_K[0].T, W_V @ W_O
    ranks = [np.linalg.matrix_rank(m) for m in (qk, W_E @ qk @ W_E.T, ov.sum(0), np.kron(a, ov[0].T))]
    assert check("circuit_ranks", ranks, show=False).passed is True


def test_the_lesson_asks_for_them_all():
    (path,) = lesson.find(["14"])
    source = json.dumps(json.loads(path.read_text(encoding="utf-8"))["cells"])
    assert all(f'check(\\"{name}\\"' in source for name in MINE)
    assert json.dumps(circuits.VALUES.astype(int).tolist()) in source
    assert "row = np.array([0.1, 0, 0, 0.7, 0, 0.1, 0, 0.1])" in source

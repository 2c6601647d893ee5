"""Lesson 21: the refined table and its leak. Right ways accepted, every known mistake named."""

import numpy as np
import pytest
from judging import NO_FUNCTIONS, its_solution, making, stub

from attnlib import refine_weights
from attnlib.exercises import check
from attnlib.exercises.refined import EXERCISES, TABLE, leaking_rows, refined_weights

# ------------------------------------------------------------- the refined table


def by_loops(a, w_q, w_k):
    out = np.zeros_like(a)
    flat, result = a.reshape(-1, *a.shape[-2:]), out.reshape(-1, *a.shape[-2:])
    for table, new in zip(flat, result, strict=True):
        for i in range(len(table)):
            scores = [(table[i] @ w_q) @ (table[j] @ w_k) / w_q.shape[1] ** 0.5 for j in range(i + 1)]
            e = np.exp(np.array(scores) - max(scores))
            new[i, : i + 1] = e / e.sum()
    return out


def by_one_matrix(a, w_q, w_k):
    b = np.einsum("...ik,kl,...jl->...ij", a, w_q @ w_k.T / np.sqrt(w_q.shape[1]), a)
    b[..., ~np.tri(a.shape[-1], dtype=bool)] = -1e9
    e = np.exp(b - b.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def renormalised(a, w_q, w_k):
    b = (a @ w_q) @ (a @ w_k).mT / np.sqrt(w_k.shape[-1])
    e = np.tril(np.exp(b - np.where(np.tri(a.shape[-1]), b, -np.inf).max(-1, keepdims=True)).clip(max=1))
    return e / e.sum(-1, keepdims=True)


def by_the_package(a, w_q, w_k):
    return refine_weights(a, w_q, w_k, causal=True)


@pytest.mark.parametrize("way", [by_loops, by_one_matrix, renormalised])
def test_right_ways_are_accepted(way):
    verdict = refined_weights(way)
    assert verdict.passed, verdict.message


def test_the_package_does_the_same_and_is_not_to_be_called():
    assert refined_weights(by_the_package).misconception == "package"
    for case in refined_weights.cases():
        ours, theirs = refined_weights.compute(*case.args), by_the_package(*case.args)
        np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("mistake", refined_weights.mistakes, ids=lambda m: f"{m.name} {m.choices}")
def test_every_mistake_is_named(mistake):
    verdict = refined_weights(making("refined_weights", **mistake.choices))
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    assert mistake.hint in verdict.message


@pytest.mark.parametrize("choices, names", [
    ({"visible": "none", "scale": "none"}, {"no_second_mask", "no_scale"}),
    ({"visible": "strict", "scale": "linear"}, {"strict", "scale_without_root"}),
    ({"hiding": "after", "maps": "exchanged"}, {"masked_after", "exchanged"}),
])  # fmt: skip
def test_two_mistakes_are_both_named(choices, names):
    verdict = refined_weights(making("refined_weights", **choices))
    assert set(verdict.misconception.split(" and ")) == names, verdict.message


@pytest.mark.parametrize("answer, words", [
    (lambda a, w_q, w_k: np.triu(np.ones_like(a)), "comes later"),
    (lambda a, w_q, w_k: a / 2, "sums to 0.5"),
    (lambda a, w_q, w_k: a * np.nan, "NaN"),
    (lambda a, w_q, w_k: by_loops(a, w_q, w_k)[..., :-1], "shape"),
    (lambda a, w_q, w_k: None, "None"),
    (lambda a: a, "takes (a)"),
])  # fmt: skip
def test_other_answers_are_told_what_they_lack(answer, words):
    verdict = refined_weights(answer)
    assert verdict.passed is False
    assert words in verdict.message, verdict.message


@pytest.mark.parametrize("answer", NO_FUNCTIONS)
def test_what_is_no_function_is_said_to_be_none(answer):
    assert refined_weights(answer).passed is False


# ------------------------------------------------------------- the leak


def pair(q=(), k=()):
    w = np.zeros((2, 4, 2))
    for which, cells in enumerate((q, k)):
        for cell, value in cells:
            w[which][cell] = value
    return w


@pytest.mark.parametrize("answer", [
    pair(q=[((0, 0), 10)], k=[((3, 0), 10)]),
    pair(q=[((0, 1), -10)], k=[((3, 1), -10)]),
    [np.full((4, 2), 8.0), pair(k=[((3, 0), 9), ((3, 1), 9)])[1]],
    pair(q=[((0, 0), 10)], k=[((3, 0), 10), ((1, 0), -2), ((2, 0), -3)]).tolist(),
])  # fmt: skip
def test_other_right_leaks(answer):
    assert leaking_rows(answer).passed, leaking_rows(answer).message


@pytest.mark.parametrize("answer, name", [
    (pair(), "zeros"),
    (pair(k=[((3, 0), 10)], q=[((3, 0), 10)]), "no_query"),
    (pair(q=[((3, 0), 10)], k=[((0, 0), 10)]), "exchanged"),
    (pair(q=[((0, 0), -10)], k=[((3, 0), 10)]), "sign"),
    (pair(q=[((0, 0), 3)], k=[((3, 0), 3)]), "too_faint"),
    (pair(q=[((0, 0), 10)], k=[((0, 0), 10)]), "own_row"),
    (pair(q=[((0, 0), 10)], k=[((1, 0), 10)]), "another_row"),
    (pair(q=[((0, 0), 10)], k=[((2, 0), 10)]), "another_row"),
    (pair(q=[((0, 0), 10)], k=[((3, 1), 10)]), "all_equal"),       # columns that do not meet
    (np.full((2, 4, 2), 10.0), "all_equal"),
    (pair(q=[((0, 0), 50)], k=[((3, 0), 10)]), "too_large"),
])  # fmt: skip
def test_wrong_leaks_are_explained(answer, name):
    verdict = leaking_rows(answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("answer", ["rows", np.ones((4, 2)), np.full((2, 4, 2), np.nan), [1, 2], None])
def test_what_is_no_pair_of_matrices(answer):
    assert leaking_rows(answer).readable is False


def test_the_table_is_causal_weights():
    np.testing.assert_allclose(TABLE.sum(-1), 1)
    assert not np.triu(TABLE, 1).any()


def test_solutions_pass_and_stubs_are_no_answers():
    for exercise in EXERCISES:
        assert check(exercise.id, its_solution(exercise.id), show=False).passed
    assert check("refined_weights", stub, show=False).passed is None
    assert check("leaking_rows", ..., show=False).passed is None

"""Lesson 20: states and chunks. Right ways accepted, every known mistake named."""

from functools import partial

import numpy as np
import pytest
from judging import NO_FUNCTIONS, its_solution, stub

from attnlib.exercises import check, linear_states
from attnlib.exercises.linear_states import EXERCISES, read_chunk, state_and_cache

# ------------------------------------------------------------- how long is a state?


@pytest.mark.parametrize("answer", [(65, 130, 33), [65.0, 130.0, 33.0], np.array([65, 130, 33])])
def test_the_lengths(answer):
    assert state_and_cache(answer).passed


@pytest.mark.parametrize("answer, name", [
    ((64.5, 129, 32.5), "no_whole_number"),
    ((0, 130, 33), "no_whole_number"),
    ((65, 129, 33), "as_large"),
    ((64, 129, 32), "last_below"),
    ((64, 128, 32), "without_z"),
    ((130, 259, 66), "keys_alone"),
    ((44, 87, 22), "queries_too"),
    ((65, 65, 33), "bytes_ignored"),
    ((65, 33, 33), "bytes_swapped"),
    ((65, 130, 17), "quarter"),
    ((2, 3, 2), "squared_cache"),
    ((64, 64, 32), "last_below and bytes_ignored"),
    ((130, 130, 66), "keys_alone and bytes_ignored"),
    ((16512, 66048, 4160), "size_of_state"),
    ((16384, 65536, 4096), "size_of_state"),
])  # fmt: skip
def test_wrong_lengths_are_explained(answer, name):
    verdict = state_and_cache(answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("answer, words", [
    ((80, 130, 33), "(a): at 80 tokens the cache is larger"),
    ((65, 100, 33), "(b): at 100 tokens the cache is still the smaller"),
    ((65, 130, 40), "(c): at 40 tokens"),
    ((65, 130), "3 numbers"),
    ("65, 130, 33", "3 numbers"),
    ((65, 130, np.inf), "finite"),
])
def test_other_lengths_are_told_where(answer, words):
    verdict = state_and_cache(answer)
    assert verdict.passed is False
    assert words in verdict.message


# ------------------------------------------------------------- a chunk into a state


def phi(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def token_by_token(state, q, k, v):
    S, z = (a.copy() for a in state)
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    for t in range(q.shape[1]):
        S += phi(k[:, t])[:, :, None] * v[:, t][:, None, :]
        z += phi(k[:, t])
        a = phi(q[:, t])
        out[:, t] = np.einsum("bd,bdv->bv", a, S) / (a * z).sum(-1, keepdims=True)
    return out, (S, z)


def by_the_new_state(state, q, k, v):
    """The new sums, less what a row must not see."""
    q, k = phi(q), phi(k)
    S, z = state[0] + k.mT @ v, state[1] + k.sum(-2)
    hidden = np.triu(q @ k.mT, 1)
    below = q @ z[..., None] - hidden.sum(-1, keepdims=True)
    return [(q @ S - hidden @ v) / below, [S, z]]


def with_epsilon_and_einsum(state, q, k, v):
    S, z = state
    a, b = phi(q), phi(k)
    pairs = np.einsum("bid,bjd,ij->bij", a, b, np.tri(q.shape[1]))
    above = np.einsum("bij,bjv->biv", pairs, v) + np.einsum("bid,bdv->biv", a, S)
    below = pairs.sum(-1) + np.einsum("bid,bd->bi", a, z) + 1e-6
    return above / below[..., None], (S + np.einsum("bjd,bjv->bdv", b, v), z + b.sum(1))


@pytest.mark.parametrize("way", [token_by_token, by_the_new_state, with_epsilon_and_einsum])
def test_right_ways_are_accepted(way):
    verdict = read_chunk(way)
    assert verdict.passed, verdict.message


def test_solutions_pass_and_stubs_are_no_answers():
    assert check("read_chunk", its_solution("read_chunk"), show=False).passed
    assert check("state_and_cache", its_solution("state_and_cache"), show=False).passed
    assert check("read_chunk", stub, show=False).passed is None
    assert check("state_and_cache", ..., show=False).passed is None


def making(mistake):
    function = partial(linear_states._read, **mistake.choices)
    return lambda *args: function(*args)


@pytest.mark.parametrize("mistake", read_chunk.mistakes, ids=lambda m: f"{m.name} {m.choices}")
def test_every_mistake_is_named(mistake):
    verdict = read_chunk(making(mistake))
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    assert mistake.hint in verdict.message


@pytest.mark.parametrize("left, names", [
    ({"past": "after", "pairs": "all"}, "counted_twice and no_mask_inside"),
    ({"past": "after", "below": "whole"}, "counted_twice and z_of_the_chunk"),
    ({"pairs": "all", "below": "none"}, "no_mask_inside and no_denominator"),
    ({"pairs": "strict", "memory": "replaced"}, "strict and state_replaced"),
])  # fmt: skip
def test_two_faults_that_are_left_are_both_named(left, names):
    verdict = read_chunk(lambda *args: linear_states._read(*args, **left))
    assert verdict.passed is False
    assert set(verdict.misconception.split(" and ")) == set(names.split(" and ")), verdict.message


def printed(state, q, k, v):
    """The function as the lesson prints it."""
    S, z = state
    q, k = phi(q), phi(k)
    S, z = S + k.mT @ v, z + k.sum(-2)
    pairs = q @ k.mT
    above = q @ S + pairs @ v
    below = q @ z[..., None]
    return above / below, (S, z)


def test_the_printed_function_has_all_three():
    verdict = read_chunk(printed)
    assert verdict.misconception == "unmended"
    assert "the three faults of the text" in verdict.message


OTHER = [
    (lambda state, q, k, v: (token_by_token(state, q, k, v)[0], (state[0] + 2, state[1])),
     "the state at the end is not"),
    (lambda state, q, k, v: (token_by_token(state, q, k, v)[0] * 0.9, state), "should be"),
    (lambda state, q, k, v: None, "returned None"),
    (lambda state, q, k, v: (q, state), "must have shape (2, 5, 4); yours has (2, 5, 3)"),
    (lambda state, q, k, v: v, "2 results"),
    (lambda state, q, k, v: 1 / 0, "ZeroDivisionError"),
    (lambda state, q: None, "TypeError"),
]


@pytest.mark.parametrize("answer, words", OTHER)
def test_other_answers_are_judged(answer, words):
    verdict = read_chunk(answer)
    assert verdict.passed is False
    assert words in verdict.message, verdict.message


@pytest.mark.parametrize("answer", NO_FUNCTIONS)
def test_what_is_no_function_is_said_to_be_none(answer):
    assert read_chunk(answer).passed is False


def test_ids_and_hints():
    assert [exercise.id for exercise in EXERCISES] == ["state_and_cache", "read_chunk"]
    assert all(exercise.lesson == "20" and len(exercise.hints) == 3 for exercise in EXERCISES)

"""Lesson 23: a block read into a state with decay. Right ways accepted, every known mistake named."""

from functools import partial

import numpy as np
import pytest
import torch
from judging import NO_FUNCTIONS, its_solution, stub

from attnlib.exercises import check, lightning_blocks
from attnlib.exercises.lightning_blocks import EXERCISES, read_block


def token_by_token(state, q, k, v, slopes):
    S, out = state.copy(), np.zeros(v.shape)
    for t in range(q.shape[1]):
        S = np.exp(-slopes)[:, None, None] * S + k[:, t, :, None] * v[:, t, None, :]
        out[:, t] = np.einsum("hd,hdv->hv", q[:, t], S)
    return out, S


def head_by_head(state, q, k, v, slopes):
    """A list of heads, and a table of distances that holds infinity above the diagonal."""
    out, new = np.empty(v.shape), np.empty(state.shape)
    m = q.shape[1]
    ago = np.subtract.outer(np.arange(m), np.arange(m)).astype(float)
    ago[ago < 0] = np.inf
    for h, slope in enumerate(slopes):
        with np.errstate(invalid="ignore"):
            decay = np.where(np.isinf(ago), 0, np.exp(-slope * np.where(np.isinf(ago), 0, ago)))
        kept = np.exp(-slope * np.arange(m - 1, -1, -1))
        before = np.exp(-slope * np.arange(1, m + 1))[:, None] * (q[h] @ state[h])
        out[h] = (q[h] @ k[h].T * decay) @ v[h] + before
        new[h] = np.exp(-slope * m) * state[h] + np.einsum("c,cd,cv->dv", kept, k[h], v[h])
    return [out, new]


def state_as_a_token(state, q, k, v, slopes):
    """The state read row by row, as it fades."""
    kept, S, rows = np.exp(-slopes)[:, None, None], state, []
    for t in range(q.shape[1]):
        S = S * kept
        S = S + k[:, t : t + 1].mT @ v[:, t : t + 1]
        rows.append(q[:, t : t + 1] @ S)
    return np.concatenate(rows, 1), S


@pytest.mark.parametrize("way", [token_by_token, head_by_head, state_as_a_token])
def test_right_ways_are_accepted(way):
    verdict = read_block(way)
    assert verdict.passed, verdict.message


def test_the_solution_passes_and_a_stub_is_no_answer():
    assert check("read_block", its_solution("read_block"), show=False).passed
    assert check("read_block", stub, show=False).passed is None


@pytest.mark.parametrize("mistake", read_block.mistakes, ids=lambda m: f"{m.name} {m.choices}")
def test_every_mistake_is_named(mistake):
    function = partial(lightning_blocks._read, **mistake.choices)
    verdict = read_block(lambda *args: function(*args))
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    assert mistake.hint in verdict.message


@pytest.mark.parametrize("choices, names", [
    ({"past": "from_0", "keys": "none"}, "starts_at_one and keys_undecayed"),
    ({"pairs": "all", "fades": "none"}, "no_mask_inside and state_does_not_fade"),
    ({"scale": "root", "keys": "reversed"}, "keys_reversed and scaled"),
])  # fmt: skip
def test_two_mistakes_are_both_named(choices, names):
    verdict = read_block(lambda *args: lightning_blocks._read(*args, **choices))
    assert verdict.passed is False
    assert set(verdict.misconception.split(" and ")) == set(names.split(" and ")), verdict.message


def test_a_block_of_fixed_size_is_found_by_the_shorter_one():
    def of_four(state, q, k, v, slopes):
        out, _ = token_by_token(state, q, k, v, slopes)
        steps = 4 - np.arange(1, q.shape[1] + 1)
        kept = np.exp(-slopes[:, None, None] * steps[:, None]) * k
        return out, np.exp(-4 * slopes)[:, None, None] * state + kept.mT @ v

    verdict = read_block(of_four)
    assert verdict.passed is False
    assert "state at the end is not" in verdict.message or "left wrong" in verdict.message


@pytest.mark.parametrize("answer, words", [
    (lambda *args: (token_by_token(*args)[0], token_by_token(*args)[1] + 1), "the state at the end is not"),
    (lambda *args: (token_by_token(*args)[0] * 0.9, args[0]), "should be"),
    (lambda *args: None, "returned None"),
    (lambda *args: args[3], "2 results"),
    (lambda *args: 1 / 0, "ZeroDivisionError"),
    (lambda state, q: None, "must take the arguments"),
])
def test_other_answers_are_judged(answer, words):
    verdict = read_block(answer)
    assert verdict.passed is False
    assert words in verdict.message or "TypeError" in verdict.message, verdict.message


@pytest.mark.parametrize("answer", NO_FUNCTIONS)
def test_what_is_no_function_is_said_to_be_none(answer):
    assert read_block(answer).passed is False


def test_hints():
    assert [(exercise.id, len(exercise.hints)) for exercise in EXERCISES] == [("read_block", 3)]


def test_right_numbers_in_tensors_are_called_right():
    def in_torch(*args):
        return tuple(torch.from_numpy(part) for part in token_by_token(*args))

    verdict = read_block(in_torch)
    assert verdict.passed is False
    assert "numbers are right" in verdict.message and "state at the end" not in verdict.message


def test_results_in_few_digits_are_called_so():
    verdict = read_block(lambda *args: [part * 1.001 for part in token_by_token(*args)])
    assert verdict.passed is False
    assert "about three digits" in verdict.message

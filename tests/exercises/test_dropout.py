"""Dropout of attention weights, of lesson 09."""

import json

import lesson
import numpy as np
import pytest
import torch
from judging import (
    ERRORS,
    NO_FUNCTIONS,
    RESULTS,
    its_solution,
    making,
    mistakes,
    named,
    odd,
    stub,
    told_when_raising,
)
from torch.nn import functional as F

from attnlib.exercises import check
from attnlib.exercises.catalogue import EXERCISES

DROPOUT = "dropout_weights"
FUNCTIONS = [DROPOUT]


def dropout_plain(scores, p, training, keep):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    return weights * keep / (1 - p) if training else weights


def dropout_by_torch(scores, p, training, keep):
    weights = torch.softmax(torch.tensor(scores), -1)
    if training:
        weights = torch.where(torch.tensor(keep) > 0, weights / (1 - p), 0.0)
    return weights.numpy()


def dropout_scaled_first(scores, p, training, keep):
    logs = scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    if not training:
        return np.exp(logs)
    return np.where(np.asarray(keep, bool), np.exp(logs - np.log1p(-p)), 0)


def dropout_in_float32(scores, p, training, keep):
    return dropout_plain(scores.astype(np.float32), p, training, keep)


def dropout_by_rows(scores, p, training, keep):
    rows = []
    for row, kept in zip(scores.reshape(-1, scores.shape[-1]), keep.reshape(-1, keep.shape[-1]), strict=True):
        e = [float(np.exp(s - max(row))) for s in row]
        rows.append([x / sum(e) * (k / (1 - p) if training else 1) for x, k in zip(e, kept, strict=True)])
    return np.array(rows).reshape(scores.shape)


def dropout_with_epsilon(scores, p, training, keep):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / (e.sum(-1, keepdims=True) + 1e-6)
    return weights * keep / (1 - p) if training else weights


RIGHT = [dropout_plain, dropout_by_torch, dropout_scaled_first, dropout_in_float32, dropout_by_rows,
         dropout_with_epsilon]  # fmt: skip


@pytest.mark.parametrize("answer", RIGHT)
def test_right_answers_pass(answer):
    verdict = check(DROPOUT, answer)
    assert verdict.passed is True, verdict.message


def test_the_solution_passes_and_hints_stand():
    assert check(DROPOUT, its_solution(DROPOUT)).passed is True
    assert len(EXERCISES[DROPOUT].hints) in (2, 3)


@pytest.mark.parametrize("exercise, mistake", mistakes(DROPOUT), ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


PAIRS = [
    ({"kept": "inverted", "rescale": "none"}, "not_rescaled and keep_inverted"),
    ({"flag": "inverted", "axis": "all"}, "training_inverted and softmax_over_all"),
]


@pytest.mark.parametrize("choices, names", PAIRS)
def test_two_mistakes_together_are_named(choices, names):
    verdict = check(DROPOUT, making(DROPOUT, **choices))
    assert verdict.misconception == names
    assert "Two things at once" in verdict.message


def one_maximum_for_all(scores, p, training, keep):
    e = np.exp(scores - scores.max())
    weights = e / e.sum(-1, keepdims=True)
    return weights * keep / (1 - p) if training else weights


def own_draw(scores, p, training, keep):
    keep = (np.random.default_rng(3).random(scores.shape) >= p).astype(float)
    return dropout_plain(scores, p, training, keep)


def of_torch(scores, p, training, keep):
    return F.dropout(torch.softmax(torch.tensor(scores), -1), p, training).numpy()


def shifts_in_place(scores, p, training, keep):
    scores -= scores.max(-1, keepdims=True)
    return dropout_plain(scores, p, training, keep)


def keep_kept(scores, p, training, keep, kept={}):  # noqa: B006
    return dropout_plain(scores, p, training, kept.setdefault(keep.shape, keep))


def into_zeros_like_keep(scores, p, training, keep):
    out = np.zeros_like(keep)
    out[...] = dropout_plain(scores, p, training, keep)
    return out


WRONG = [
    (one_maximum_for_all, "maximum_of_all", "1000 lower than the others"),
    (own_draw, None, "draw none"),
    (of_torch, "random", "draws random numbers"),
    (keep_kept, None, "an earlier call (scores (3, 5) in training"),
    (shifts_in_place, "changes_input", "argument number 1"),
    (into_zeros_like_keep, "whole_numbers", "On keep of integers"),
    (lambda *a: dropout_plain(*a).round(3), None, "right to about two digits"),
    (lambda *a: dropout_plain(*a) * 1.7, None, "Every kept weight is 1.7 times"),
    (lambda *a: dropout_plain(*a).astype(int), "whole_numbers", "floating type"),
    (lambda *a: "weights", None, "must be a NumPy array"),
    (lambda s, p, t, k: k, None, "should be"),
]


@pytest.mark.parametrize("answer, name, words", WRONG)
def test_wrong_answers_are_told(answer, name, words):
    verdict = check(DROPOUT, answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message
    assert words in verdict.message, verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("error", ERRORS)
def test_a_function_that_always_raises_makes_no_known_mistake(exercise, error):
    told_when_raising(exercise, error)


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("result", RESULTS)
def test_a_result_of_another_kind_is_judged(exercise, result):
    odd(exercise, result)


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_what_is_no_function_is_refused_and_stubs_are_unanswered(exercise):
    for answer in NO_FUNCTIONS:
        assert "Give a function" in check(exercise, answer).message
    assert check(exercise, stub).passed is None
    assert check(exercise, None).passed is None


def test_the_lesson_asks_for_all_of_them():
    (path,) = lesson.find(["09"])
    source = json.dumps(json.loads(path.read_text(encoding="utf-8")))
    assert all(f'check(\\"{exercise}\\"' in source for exercise in FUNCTIONS)

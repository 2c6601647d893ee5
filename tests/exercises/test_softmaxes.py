"""Lesson 05's exercises on softmax: every right way accepted, every known mistake named."""

import functools
import math

import numpy as np
import pytest
import torch

from attnlib.exercises import check
from attnlib.exercises.softmaxes import EXERCISES

JUDGES = {exercise.id: exercise.judge for exercise in EXERCISES}
NAMES = {"softmax": "softmax", "log_softmax": "log_softmax"}


# Right answers


def textbook(x, axis=-1):
    x = np.asarray(x, float)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def by_torch(x, axis=-1):
    return torch.softmax(torch.tensor(x, dtype=torch.float64), dim=axis).numpy()


def by_loops(x, axis=-1):
    moved = np.moveaxis(np.asarray(x, float), axis, -1)
    out = np.empty(moved.shape)
    for index in np.ndindex(moved.shape[:-1]):
        top = max(moved[index])
        shares = [math.exp(value - top) for value in moved[index]]
        out[index] = [share / (sum(shares) + 1e-6) for share in shares]
    return np.moveaxis(out, -1, axis)


def through_logarithms(x, axis=-1):
    return np.exp(x - np.logaddexp.reduce(np.asarray(x, float), axis=axis, keepdims=True))


def float32_after_the_shift(x, axis=-1):
    e = np.exp((x - np.asarray(x, float).max(axis=axis, keepdims=True)).astype(np.float32))
    return e / e.sum(axis=axis, keepdims=True)


def with_more(x, axis, shift):
    return textbook(np.asarray(x, float) + shift, axis)


partial = functools.partial(with_more, axis=-1, shift=0)       # takes axis by name alone


def log_of_difference(x, axis=-1):
    x = np.asarray(x, float)
    return x - np.logaddexp.reduce(x, axis=axis, keepdims=True)


def log_by_torch(x, axis=-1):
    return torch.log_softmax(torch.from_numpy(x.astype(float)), axis).numpy()


def log_in_float32(x, axis=-1):
    s = (x - x.astype(float).max(axis=axis, keepdims=True)).astype(np.float32)
    return s - np.log(np.exp(s).sum(axis=axis, keepdims=True))


def log_in_the_input_s_type(x, axis=-1):
    """The textbook's, without a word about types: of float16 it is no more exact than float16."""
    s = x - x.max(axis=axis, keepdims=True)
    return s - np.log(np.exp(s).sum(axis=axis, keepdims=True))


RIGHT = [("softmax", f) for f in (textbook, by_torch, by_loops, through_logarithms, float32_after_the_shift,
                                  partial)] + [
    ("log_softmax", f) for f in (log_of_difference, log_by_torch, log_in_float32, log_in_the_input_s_type)
]


@pytest.mark.parametrize("exercise, answer", RIGHT)
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


PAIRS = [
    ("softmax", {"over": "last", "shift": "none"}, "axis_ignored and overflow"),
    ("softmax", {"base": 2.0, "shift": "all"}, "maximum_of_all and other_base"),
    ("softmax", {"over": "all", "sign": -1}, "whole_array and softmin"),
    ("log_softmax", {"over": "first", "base": 2.0}, "axis_ignored and other_base"),
    ("log_softmax", {"form": "top_forgotten", "sign": -1}, "top_forgotten and sign"),
]


def naive(x, axis=-1):
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


def in_the_type_of_x(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def float_after_the_shift(x, axis=-1):
    e = np.exp((x - x.max(axis=axis, keepdims=True)).astype(float))
    return e / e.sum(axis=axis, keepdims=True)


def in_place(x, axis=-1):
    x -= x.max(axis=axis, keepdims=True)
    return textbook(x, axis)


def like_input(x, axis=-1):
    out = np.empty_like(x)
    out[...] = textbook(x, axis)
    return out


def clipped_difference(x, axis=-1):
    e = np.exp(np.clip(x - x.max(axis=axis, keepdims=True), -700, 0))
    return e / e.sum(axis=axis, keepdims=True)


def rows_only(x, axis=-1):
    rows, columns = x.shape
    return textbook(x, axis)


def first_maximum():
    tops = {}

    def softmax(x, axis=-1):
        e = np.exp(x - tops.setdefault((x.shape, axis), x.max(axis=axis, keepdims=True).astype(float)))
        return e / e.sum(axis=axis, keepdims=True)

    return softmax


def kept(x, axis=-1, results={}):  # noqa: B006
    return results.setdefault((x.shape, axis), textbook(x, axis)).copy()


WRONG = [
    ("softmax", in_the_type_of_x, "unsigned_wraps", "254"),
    ("softmax", float_after_the_shift, "unsigned_wraps", "floating numbers first"),
    ("softmax", naive, "overflow", "whole slice"),
    ("softmax", in_place, "changes_input", "argument number 1"),
    ("softmax", like_input, "integer_result", "every fraction"),
    ("softmax", clipped_difference, "clipped", "cut off below"),
    ("softmax", lambda x, axis=-1: textbook(np.maximum(x - x.max(axis, keepdims=True), -33.3), axis), None,
     "far below the largest"),
    ("softmax", lambda x, axis=-1: textbook(1.5 * x, axis), None, "scores 1.5 times as large"),
    ("softmax", lambda x, axis=None: textbook(x, axis), "default_axis", "the whole array"),
    ("softmax", rows_only, "axes_fixed", "2 axes only"),
    ("softmax", first_maximum(), "state", "an earlier array"),
    ("softmax", kept, "state", "left for the next"),
    ("softmax", lambda x, axis=-1: textbook(np.where(np.isinf(x), -1e9, x), axis), "infinity_replaced",
     "finite number"),
    ("softmax", lambda x, axis=-1: torch.softmax(torch.tensor(x * 1.0), axis), None,
     "only they come as a torch tensor"),
    ("softmax", lambda x, axis=-1: 0.5 * textbook(x, axis), None, "sums to 0.5"),
    ("log_softmax", lambda x, axis=-1: np.log(textbook(x, axis)), "log_of_softmax", "difference"),
    ("log_softmax", lambda x, axis=-1: np.log(textbook(x, axis) + 1e-12), "log_of_bounded", "no such help"),
    ("log_softmax", lambda x, axis=0: log_of_difference(x, axis), "default_axis", "the first one"),
    ("log_softmax", lambda x, axis=-1: log_of_difference(x / 0.8, axis), None, "1.25 times those"),
    ("log_softmax", lambda x, axis=-1: np.round(log_of_difference(x, axis), 3) + 1e-4, None,
     "about three digits"),
    ("log_softmax", lambda x, axis=-1: log_of_difference(x, axis) + 0.5, None, "above 0"),
]

class Equal(np.ndarray):
    """Equal to everything, by its own account."""

    def __eq__(self, other):
        return np.ones(self.shape, bool)


ODD = [
    lambda right: None, lambda right: "text", lambda right: right.tolist(), lambda right: (right, right),
    lambda right: right + 1j, lambda right: right.astype(object), lambda right: right.astype(str),
    lambda right: right > 0, lambda right: right[None], lambda right: np.full(right.shape, np.nan),
    lambda right: (right + 1).view(Equal), lambda right: print(right), lambda right: np.zeros(3),
    lambda right: np.ma.masked_all(right.shape), lambda right: right.astype(int),
]


# Mistakes


def making(exercise, **choices):
    """A function that makes the mistake; a wrapper, for the engine may not recognise it by identity."""
    return lambda *args: JUDGES[exercise].compute(*args, **choices)


@pytest.mark.parametrize(
    "exercise, mistake", [(id, mistake) for id in JUDGES for mistake in JUDGES[id].mistakes],
    ids=lambda x: getattr(x, "name", x),
)
def test_every_mistake_is_named(exercise, mistake):
    verdict = check(exercise, making(exercise, **mistake.choices), show=False)
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    assert mistake.hint in verdict.message
    assert ("another convention" in verdict.message) == mistake.convention


@pytest.mark.parametrize("exercise, choices, names", PAIRS)
def test_two_mistakes_together_are_named(exercise, choices, names):
    verdict = check(exercise, making(exercise, **choices), show=False)
    assert verdict.misconception == names, verdict.message


@pytest.mark.parametrize("exercise, answer, name, words", WRONG)
def test_wrong_answers_are_told(exercise, answer, name, words):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message
    assert words in verdict.message


# Odd answers


@pytest.mark.parametrize("exercise", JUDGES)
@pytest.mark.parametrize("odd", ODD)
def test_odd_results_are_judged(exercise, odd):
    def answer(*args):
        return odd(JUDGES[exercise].compute(*args))

    assert check(exercise, answer, show=False).passed is False


@pytest.mark.parametrize("exercise", JUDGES)
def test_a_function_that_always_raises_makes_no_known_mistake(exercise):
    def raises(*args):
        raise RuntimeError("of my own")

    verdict = check(exercise, raises, show=False)
    assert verdict.misconception is None
    assert "raised RuntimeError: of my own" in verdict.message


# Solution, hints, stub


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_the_solution_passes_and_the_stub_is_unanswered(exercise):
    names = {}
    exec(exercise.solution, names)
    assert check(exercise.id, names[NAMES[exercise.id]], show=False).passed is True
    assert len(exercise.hints) in (2, 3)

    def stub(*args):
        raise NotImplementedError

    assert check(exercise.id, stub, show=False).passed is None

"""Lesson 20's linear attention: every right way accepted, every known mistake named."""

import numpy as np
import pytest
import torch

from attnlib.exercises import check
from attnlib.exercises.linear import EXERCISES

JUDGES = {exercise.id: exercise.judge for exercise in EXERCISES}
NAMES = {"linear_attention": "causal_linear_attention"}


# Right answers


def phi(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def by_scores(q, k, v):
    scores = np.tril(phi(q) @ phi(k).swapaxes(-1, -2))
    return scores @ v / scores.sum(-1, keepdims=True)


def recurrent_with_epsilon(q, k, v):
    q, k = phi(q), phi(k)
    state, total = np.zeros((*q.shape[:-2], q.shape[-1], v.shape[-1])), np.zeros((*q.shape[:-2], q.shape[-1]))
    out = []
    for t in range(q.shape[-2]):
        state = state + k[..., t, :, None] * v[..., t, None, :]
        total = total + k[..., t, :]
        below = (q[..., t, :] * total).sum(-1, keepdims=True) + 1e-6
        out.append((q[..., t, :, None] * state).sum(-2) / below)
    return np.stack(out, axis=-2)


def by_torch(q, k, v):
    q, k, v = (torch.tensor(a) for a in (q, k, v))
    q, k = torch.nn.functional.elu(q) + 1, torch.nn.functional.elu(k) + 1
    scores = (q @ k.mT).tril()
    return (scores @ v / scores.sum(-1, keepdim=True)).numpy()


def in_float32(q, k, v):
    return by_scores(*(a.astype(np.float32) for a in (q, k, v)))


def with_a_column_of_ones(q, k, v):
    out = np.einsum("...id,...jd,...jv,ij->...iv", phi(q), phi(k),
                    np.concatenate([v, np.ones((*v.shape[:-1], 1))], -1), np.tri(q.shape[-2]))
    return out[..., :-1] / out[..., -1:]


RIGHT = [("linear_attention", f) for f in (by_scores, recurrent_with_epsilon, by_torch, in_float32,
                                           with_a_column_of_ones)]


@pytest.mark.parametrize("exercise, answer", RIGHT)
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


PAIRS = [
    ("linear_attention", {"q_map": "relu_plus_one", "k_map": "relu_plus_one", "mask": "all"},
     "other_map and not_causal"),
    ("linear_attention", {"scale": "before", "norm": "all"}, "scaled and denominator_of_all"),
    ("linear_attention", {"mask": "ahead", "norm": "none"}, "one_ahead and no_denominator"),
]


def first_of_batch(q, k, v):
    out = by_scores(q, k, v)
    out.reshape(-1, *out.shape[-2:])[:] = out.reshape(-1, *out.shape[-2:])[0]
    return out


def like_query(q, k, v):
    out = np.zeros_like(q)
    out[...] = by_scores(q, k, v)
    return out


def in_chunks(reads):
    """Chunks of four; of the last one that is shorter, all or nothing is right but for a sign."""
    def causal_linear_attention(q, k, v):
        out, whole = by_scores(q, k, v), q.shape[-2] // 4 * 4
        out[..., whole:, :] *= -1 if reads else 0
        return out

    return causal_linear_attention


def four_axes(q, k, v):
    b, heads, length, width = q.shape
    return by_scores(q, k, v)


def rows_like_query(q, k, v):
    out, right = np.zeros(q.shape), by_scores(q, k, v)
    for i in range(q.shape[-2]):
        out[..., i, :] = right[..., i, :]
    return out


def kept(q, k, v, results={}):  # noqa: B006
    return results.setdefault(q.shape, by_scores(q, k, v)).copy()


def hidden_by(fill):
    """A softmax's mask, under which nothing takes an exponential."""
    def causal_linear_attention(q, k, v):
        scores = phi(q) @ phi(k).swapaxes(-1, -2)
        scores = np.where(np.tri(q.shape[-2]) > 0, scores, fill)
        return scores @ v / scores.sum(-1, keepdims=True)

    return causal_linear_attention


def keys_of_length_one(q, k, v):
    k = phi(k)
    scores = np.tril(phi(q) @ (k / np.linalg.norm(k, axis=-1, keepdims=True)).swapaxes(-1, -2))
    return scores @ v / scores.sum(-1, keepdims=True)


def in_place(q, k, v):
    q[:] = phi(q)
    return by_scores(q, k, v)


WRONG = [
    ("linear_attention", first_of_batch, "first_item", "repeated for all"),
    ("linear_attention", like_query, "width_of_v", "raised ValueError"),
    ("linear_attention", kept, "state", "left for the next"),
    ("linear_attention", in_place, "changes_input", "argument number 1"),
    ("linear_attention", lambda q, k, v: v.copy(), "own_only", "sees itself alone"),
    ("linear_attention", lambda q, k, v: by_scores(q, k, v) + 3, None, "its output is not its value"),
    ("linear_attention", lambda q, k, v: by_scores(q[..., :12, :], k[..., :12, :], v[..., :12, :]), None,
     "On 40 tokens"),
    ("linear_attention", lambda q, k: q, "signature", "(q, k, v)"),
    ("linear_attention", lambda q, k, v: torch.tensor(by_scores(q, k, v)), None,
     "only they come as a torch tensor"),
    ("linear_attention", lambda q, k, v: by_scores(q, k, v) * 0.7, None, "0.7 times its value"),
    ("linear_attention", lambda q, k, v: by_scores(q * 1.3, k, v), None, "look at the feature map"),
    ("linear_attention", in_chunks(reads=1), None, "Outputs 0 to 3 are right, and output 4 is not"),
    ("linear_attention", in_chunks(reads=0), "remainder_empty", "chunks of 4 are never computed"),
    ("linear_attention", four_axes, "axes_fixed", "(B, H, L, d)"),
    ("linear_attention", rows_like_query, "width_of_v", "the width of v"),
    ("linear_attention", hidden_by(-np.inf), "future_not_zero", "set to minus infinity"),
    ("linear_attention", hidden_by(-1e9), "future_not_zero", "set to -1e9"),
    ("linear_attention", keys_of_length_one, "scaled", "brought to length 1"),
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

"""Lesson 19's exercise: attention block by block is exact, or its mistake is named."""

import time

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from torch.nn import functional as F

from attnlib.exercises import check
from attnlib.exercises import hardware_side as judge
from attnlib.exercises.catalogue import EXERCISES

EXERCISE = EXERCISES["online_attention"]

# Right answers


def in_one_piece(q, k, v, block_size, mask=None):
    scores = q @ k.T / np.sqrt(q.shape[1])
    mask = np.ones(scores.shape, bool) if mask is None else mask
    top = np.max(scores, 1, where=mask, initial=-1e300, keepdims=True)
    e = np.where(mask, np.exp(np.minimum(scores - top, 0)), 0)
    return e @ v / (e.sum(1, keepdims=True) + 1e-12)


def by_loops(q, k, v, block_size, mask=None):
    out = np.zeros((len(q), v.shape[1]))
    for i in range(len(q)):
        m, total, acc = -np.inf, 0.0, np.zeros(v.shape[1])
        for start in range(0, len(k), block_size):
            for j in range(start, min(start + block_size, len(k))):
                if mask is not None and not mask[i, j]:
                    continue
                s = float(q[i] @ k[j]) / q.shape[1] ** 0.5
                new = max(m, s)
                acc = acc * np.exp(m - new) + np.exp(s - new) * v[j]
                total = total * np.exp(m - new) + np.exp(s - new)
                m = new
        out[i] = acc / total if total else 0
    return out


def parts_merged(q, k, v, block_size, mask=None):
    """Each block by itself, and then all joined by their log-sum-exps."""
    outs, sums = [], []
    for cut in np.split(np.arange(len(k)), range(block_size, len(k), block_size)):
        scores = q @ k[cut].T / np.sqrt(q.shape[1])
        if mask is not None:
            scores = np.where(mask[:, cut], scores, -np.inf)
        sums.append(logsumexp(scores, axis=1, keepdims=True))
        outs.append(np.exp(scores - np.where(np.isfinite(sums[-1]), sums[-1], 0)) @ v[cut])
    whole = logsumexp(sums, axis=0)
    whole = np.where(np.isfinite(whole), whole, 0)
    return sum(np.exp(s - whole) * o for s, o in zip(sums, outs, strict=True))


def by_torch(q, k, v, block_size, mask=None):
    q, k, v = (torch.tensor(x) for x in (q, k, v))
    mask = None if mask is None else torch.tensor(mask)
    return F.scaled_dot_product_attention(q[None, None], k[None, None], v[None, None], mask)[0, 0].numpy()


def in_float32(q, k, v, block_size, mask=None):
    return given()(*(x.astype(np.float32) for x in (q, k, v)), block_size, mask)


def given():
    namespace = {}
    exec(EXERCISE.solution, namespace)
    return namespace["online_attention"]


@pytest.mark.parametrize(
    "function", [in_one_piece, by_loops, parts_merged, by_torch, in_float32, given()],
    ids=lambda f: f.__name__,
)
def test_right_answers_pass(function):
    start = time.process_time()
    verdict = check("online_attention", function)
    assert verdict.passed is True, verdict.message
    assert time.process_time() - start < 5


def test_the_reference_is_exact_attention():
    for case in judge._cases():
        expected = in_one_piece(*(x.astype(float) for x in case.args[:3]), *case.args[3:])
        np.testing.assert_allclose(judge._online(*case.args), expected, rtol=1e-5, atol=1e-6)


# Mistakes


def making(**choices):
    return lambda *args: judge._online(*args, **choices)


# Every third name; what all come to is compared in the test after this.
FIRST = {mistake.name: mistake for mistake in reversed(EXERCISE.judge.mistakes)}
SOME = list(FIRST.values())[::3]


@pytest.mark.parametrize("mistake", SOME, ids=lambda mistake: mistake.name)
def test_mistakes_are_named(mistake):
    verdict = check("online_attention", making(**mistake.choices))
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    assert ("another convention" in verdict.message) == mistake.convention


def test_no_mistake_comes_to_what_is_right_or_to_what_one_of_another_name_does():
    judged = EXERCISE.judge
    cases = judged.cases()

    def made(**choices):
        return [judged._run(judged.compute, case, guarded=False, **choices) for case in cases]

    def same(ours, theirs):
        return all(judged._alike(case, a, b, True) for case, a, b in zip(cases, ours, theirs, strict=True))

    with np.errstate(all="ignore"):
        right, all_made = made(), [made(**mistake.choices) for mistake in judged.mistakes]
        for mistake, outcomes in zip(judged.mistakes, all_made, strict=True):
            assert not same(outcomes, right), mistake
            first = next(i for i, theirs in enumerate(all_made) if same(outcomes, theirs))
            assert judged.mistakes[first].name == mistake.name, mistake


@pytest.mark.parametrize(
    "choices, names",
    [
        ({"rescale": "sum", "scale": "none"}, "no_scale and output_not_rescaled"),
        ({"blocks": "whole", "divide": "no"}, "last_block_lost and not_normalised"),
        ({"seen": "inverted", "rescale": "none"}, "nothing_rescaled and polarity"),
    ],
)
def test_two_mistakes_together_are_named(choices, names):
    verdict = check("online_attention", making(**choices))
    assert verdict.misconception == names and "Two things at once" in verdict.message


# Mistakes as a learner would write them


def learner(start=-np.inf, fill=-np.inf, stop=lambda n, b: n, guard=True, mend=False, columns=True):
    def online_attention(q, k, v, block_size, mask=None):
        m, total = np.full((len(q), 1), start), np.zeros((len(q), 1))
        out = np.zeros((len(q), v.shape[1]))
        for begin in range(0, stop(len(k), block_size), block_size):
            cut = slice(begin, begin + block_size)
            scores = q @ k[cut].T / np.sqrt(q.shape[1])
            if mask is not None:
                scores = np.where(mask[:, cut] if columns else mask[:, : scores.shape[1]], scores, fill)
            new = np.maximum(m, scores.max(1, keepdims=True))
            shift = np.where(np.isinf(new), 0, new) if guard else new
            e, factor = np.exp(scores - shift), np.exp(m - shift)
            m, total, out = new, total * factor + e.sum(1, keepdims=True), out * factor + e @ v[cut]
        out = out / np.where(total == 0, 1, total)
        return np.nan_to_num(out) if mend else out

    return online_attention


def mean_where_nothing_is_seen(q, k, v, block_size, mask=None):
    out = by_loops(q, k, v, block_size, mask)
    return out if mask is None else np.where(mask.any(1, keepdims=True), out, v.mean(0))


@pytest.mark.parametrize(
    "function, name, words",
    [
        (learner(), "right", "exact attention"),
        (learner(start=0.0), "maximum_begins_too_high", "near -2000"),
        (learner(start=-1e9), "maximum_begins_too_high", "-1e10"),
        (learner(fill=-1e9), "uniform_rows", "without a visible key"),
        (learner(fill=np.finfo(float).min), "uniform_rows", "without a visible key"),
        (learner(stop=lambda n, b: n // b * b), "last_block_lost", "7 keys in blocks of 3"),
        (learner(stop=lambda n, b: n - n % b), "last_block_lost", "left over"),
        (learner(guard=False), "nan_block", "minus infinity minus itself"),
        (learner(guard=False, mend=True), "nan_block_mended", "lost"),
        (learner(columns=False), "mask_of_first_block", "Cut the mask"),
        (lambda q, k, v, b, mask=None: by_torch(q, k, v, b, mask).T, "transposed_result", "(Lq, dv)"),
        (lambda *a: torch.tensor(by_loops(*a)), None, "only they come as a torch tensor"),
        (lambda *a: np.round(by_loops(*a), 3) + 1e-4, None, "about three digits and no further"),
        (lambda *a: by_loops(*a) * 0.9, None, "0.9 times the right one"),
        (mean_where_nothing_is_seen, "uniform_rows", "the average of what it must not see"),
        (lambda *a: (by_loops(*a), 1), None, "must be a NumPy array; yours is a tuple of 2"),
        (lambda *a: by_loops(*a).tolist(), None, "yours is a list"),
        (lambda *a: by_loops(*a) * 1j, None, "must hold real numbers"),
        (lambda *a: by_loops(*a).astype(object), None, "must hold real numbers"),
        (lambda *a: np.where(by_loops(*a) > 0, by_loops(*a), np.nan), None, "holds NaN"),
        (lambda *a: by_loops(*a) + 9, None, "lies outside of the values"),
        (lambda *a: None, None, "returned None"),
        (lambda q, k, v: q, "signature", "block_size"),
        (lambda q, k, v, block_size, mask: by_loops(q, k, v, 1, mask), "signature", "mask"),
    ],
)
def test_answers_are_told(function, name, words):
    verdict = check("online_attention", function)
    assert verdict.passed is (name == "right"), verdict.message
    assert verdict.misconception == (None if name == "right" else name), verdict.message
    assert words in verdict.message


def test_an_empty_row_that_is_not_zeros_is_told():
    def odd(q, k, v, block_size, mask=None):
        out = by_loops(q, k, v, block_size, mask)
        out[~np.any(mask, 1) if mask is not None else []] = 0.3
        return out

    assert "Row 2 sees no key and must be zeros." in check("online_attention", odd).message


def test_state_is_told():
    calls = []

    def stateful(*args):
        calls.append(1)
        return by_loops(*args) * (1 if len(calls) < 6 else len(calls))

    assert check("online_attention", stateful).misconception == "state"


@pytest.mark.parametrize("error", [RuntimeError, TypeError, ValueError, IndexError])
def test_a_function_that_always_raises_makes_no_known_mistake(error):
    def raises(*args):
        raise error("of my own")

    verdict = check("online_attention", raises)
    assert verdict.misconception is None and f"raised {error.__name__}: of my own" in verdict.message


def test_a_stub_is_unanswered():
    def stub(*args):
        raise NotImplementedError

    assert check("online_attention", stub).passed is None

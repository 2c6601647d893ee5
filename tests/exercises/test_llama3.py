"""Lesson 15's exercise: chunks of all sizes, and nothing kept outside the cache."""

import time

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from attnlib.exercises import check
from attnlib.exercises import llama3 as judge
from attnlib.exercises.catalogue import EXERCISES

EXERCISE = EXERCISES["kv_cache"]

# Right answers


def turned_keys(x_t, cache, w_q, w_k, w_v, rope):
    n = 0 if cache is None else cache[0].shape[1]
    positions = torch.arange(n, n + x_t.shape[1])
    q, k, v = rope(x_t @ w_q, positions), rope(x_t @ w_k, positions), x_t @ w_v
    if cache is not None:
        k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
    visible = torch.ones(len(positions), k.shape[1], dtype=torch.bool).tril(n)
    return F.scaled_dot_product_attention(q, k, v, visible), (k, v)


def inputs_kept(x_t, cache, w_q, w_k, w_v, rope):
    x = x_t if cache is None else torch.cat([cache, x_t], dim=1)
    positions = torch.arange(x.shape[1], dtype=torch.int32)
    q, k = rope(x @ w_q, positions), rope(x @ w_k, positions)
    scores = q @ k.mT / x.shape[-1] ** 0.5 + torch.full((x.shape[1],) * 2, -1e9).triu(1)
    return (scores.softmax(-1) @ (x @ w_v))[:, -x_t.shape[1] :], x


def raw_keys_in_lists(x_t, cache, w_q, w_k, w_v, rope):
    cache = cache or {"k": [], "v": []}
    out = []
    for t in range(x_t.shape[1]):
        x = x_t[:, t : t + 1]
        cache["k"].append(x @ w_k)
        cache["v"].append(x @ w_v)
        n = len(cache["k"])
        q = rope(x @ w_q, torch.tensor([n - 1])) / x.shape[-1] ** 0.5
        k = rope(torch.cat(cache["k"], 1), torch.arange(n))
        scores = torch.einsum("btd,bsd->bts", q, k)
        e = torch.exp(scores - scores.amax(-1, keepdim=True))
        out.append(e / e.sum(-1, keepdim=True) @ torch.cat(cache["v"], 1))
    return torch.cat(out, 1), cache


class Cache:
    def __init__(self, b, d, kind):
        self.k, self.v, self.n = torch.zeros(b, 2, d, dtype=kind), torch.zeros(b, 2, d, dtype=kind), 0

    def write(self, k, v):
        while self.n + k.shape[1] > self.k.shape[1]:
            self.k, self.v = (torch.cat([x, torch.zeros_like(x)], 1) for x in (self.k, self.v))
        here = slice(self.n, self.n + k.shape[1])
        self.k[:, here], self.v[:, here] = k, v
        self.n += k.shape[1]
        return self.k[:, : self.n], self.v[:, : self.n]


def changed_in_place(x_t, cache, w_q, w_k, w_v, rope):
    b, length, d = x_t.shape
    cache = Cache(b, d, x_t.dtype) if cache is None else cache
    where = torch.arange(length) + cache.n
    k, v = cache.write(rope(x_t @ w_k, where), x_t @ w_v)
    weights = torch.softmax(rope(x_t @ w_q * d**-0.5, where) @ k.mT, -1)
    weights = weights.nan_to_num() * (torch.arange(cache.n) <= where[:, None])
    if (weights.sum(-1) < 1e-3).any():                      # too little is left to be brought back to 1
        weights = (rope(x_t @ w_q * d**-0.5, where) @ k.mT).masked_fill(
            torch.arange(cache.n) > where[:, None], -1e30).softmax(-1)
    return weights / weights.sum(-1, keepdim=True) @ v, cache


def given():
    namespace = {}
    exec(EXERCISE.solution, namespace)
    return namespace["decode_step"]


@pytest.mark.parametrize(
    "function", [turned_keys, inputs_kept, raw_keys_in_lists, changed_in_place, given()],
    ids=lambda f: f.__name__,
)
def test_right_answers_pass(function):
    start = time.process_time()
    verdict = check("kv_cache", function)
    assert verdict.passed is True, verdict.message
    assert time.process_time() - start < 5


def full(x, _, w_q, w_k, w_v, rope):
    positions = torch.arange(x.shape[1])
    q, k = rope(x @ w_q, positions), rope(x @ w_k, positions)
    return F.scaled_dot_product_attention(q, k, x @ w_v, is_causal=True)


def test_the_reference_is_full_causal_attention_whatever_the_chunks():
    for case in judge._cases():
        *given, calls = case.args[:7]
        ours = judge._decode(*case.args)
        sequences = (ours,) if len(case.args) == 7 else ours
        for i, out in enumerate(sequences):
            x = case.args[0] if i == 0 else case.args[7]
            read = sum(length for which, length in calls if which == i)
            expected = full(x[:, :read], *given[1:])
            torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)


def test_rope_turns_tensors_as_it_turns_arrays():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(2, 5, 4))
    for kind in ({}, {"halves": True}, {"curve": "squares"}, {"curve": "quarters"}):
        rope, p = judge._Rope(4, **kind), np.array([0, 7, 3, 131, 2])
        ours = rope(torch.tensor(a), torch.tensor(p))
        assert np.allclose(rope.turn(a, p), ours.numpy())
        torch.testing.assert_close(ours.norm(dim=-1), torch.tensor(a).norm(dim=-1))


# Mistakes


def making(**choices):
    """A learner's function, in torch, that makes the mistake."""
    store = {}

    def arrays(x):
        return tuple(map(arrays, x)) if isinstance(x, tuple) else x.numpy() if torch.is_tensor(x) else x

    def tensors(x):
        if isinstance(x, tuple):
            return tuple(map(tensors, x))
        return torch.from_numpy(np.ascontiguousarray(x)) if isinstance(x, np.ndarray) else x

    def decode_step(x_t, cache, w_q, w_k, w_v, rope):
        store.update({} if cache is not None else {"cache": None})
        return tensors(judge._step(*arrays((x_t, cache, w_q, w_k, w_v)), rope.turn, store=store, **choices))

    return decode_step


# Every third name; what all come to is compared in the test after this.
FIRST = {mistake.name: mistake for mistake in reversed(EXERCISE.judge.mistakes)}
SOME = list(FIRST.values())[::3]


@pytest.mark.parametrize("mistake", SOME, ids=lambda mistake: mistake.name)
def test_mistakes_are_named(mistake):
    verdict = check("kv_cache", making(**mistake.choices))
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    assert mistake.hint.split(".")[0] in verdict.message
    assert "not iterable" not in verdict.message and "has no attribute" not in verdict.message


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
        ({"scale": "none", "mask": "none"}, "no_mask and no_scale"),
        ({"q_at": "restart", "k_at": "restart", "scale": "linear"}, "positions_restart and scale_linear"),
        ({"mask": "start", "turn": "values_too"}, "values_rotated and mask_aligned_at_start"),
        ({"project": "key_is_query", "out": "residual"}, "same_projection and residual"),
    ],
)
def test_two_mistakes_together_are_named(choices, names):
    verdict = check("kv_cache", making(**choices))
    assert verdict.misconception == names and "Two things at once" in verdict.message


# Mistakes as a learner would write them


def by_flag(x_t, cache, w_q, w_k, w_v, rope):
    out, cache = turned_keys(x_t, cache, w_q, w_k, w_v, rope)
    n = cache[0].shape[1]
    q = rope(x_t @ w_q, torch.arange(n - x_t.shape[1], n))
    return F.scaled_dot_product_attention(q, *cache, is_causal=True), cache


def own_rope(x_t, cache, w_q, w_k, w_v, rope):
    return turned_keys(x_t, cache, w_q, w_k, w_v, judge._Rope(x_t.shape[-1]))


def floating_positions(x_t, cache, w_q, w_k, w_v, rope):
    return turned_keys(x_t, cache, w_q, w_k, w_v, lambda a, p: rope(a, p.float()))


def squeezed(x_t, cache, w_q, w_k, w_v, rope):
    out, cache = turned_keys(x_t, cache, w_q, w_k, w_v, rope)
    return out.squeeze(1), cache


def with_buffer(size):
    def decode_step(x_t, cache, w_q, w_k, w_v, rope):
        if cache is None:
            cache = torch.zeros(2, x_t.shape[0], size, x_t.shape[-1], dtype=x_t.dtype), 0
        kept, n = cache
        where = torch.arange(n, n + x_t.shape[1])
        kept[0][:, n : n + len(where)] = rope(x_t @ w_k, where)
        kept[1][:, n : n + len(where)] = x_t @ w_v
        n += len(where)
        visible = torch.arange(n) <= where[:, None]
        return F.scaled_dot_product_attention(
            rope(x_t @ w_q, where), kept[0][:, :n], kept[1][:, :n], visible), (kept, n)

    return decode_step


def global_lists(resets):
    kept = []

    def decode_step(x_t, cache, w_q, w_k, w_v, rope):
        if cache is None and resets:
            kept.clear()
        out, *rest = turned_keys(x_t, kept[0] if kept else None, w_q, w_k, w_v, rope)
        kept[:] = rest
        return out, "kept"

    return decode_step


def memoised():
    weights = {}

    def decode_step(x_t, cache, w_q, w_k, w_v, rope):
        w_q, w_k, w_v = weights.setdefault(w_q.shape, (w_q, w_k, w_v))
        return turned_keys(x_t, cache, w_q, w_k, w_v, rope)

    return decode_step


def scales_in_place(x_t, cache, w_q, w_k, w_v, rope):
    w_q.div_(2)
    return turned_keys(x_t, cache, w_q, w_k, w_v, rope)


def dtype_forgotten(x_t, cache, w_q, w_k, w_v, rope):
    out, cache = turned_keys(x_t, cache, w_q, w_k, w_v, rope)
    return out.long(), cache


def shifted(by):
    return lambda x, c, *w: turned_keys(x, c, *w[:3], lambda a, p: w[3](a, p + by))


@pytest.mark.parametrize(
    "function, name, words",
    [
        (by_flag, "mask_aligned_at_start", "is_causal"),
        (own_rope, None, "On a rotation that is given in another form"),
        (floating_positions, "positions_not_whole", "tensor of integers"),
        (squeezed, "axis_squeezed", "(B, T, D)"),
        (shifted(1), "positions_from_one", "counted from 0"),
        (shifted(-1), None, "counted from 0"),
        (with_buffer(64), None, "On a long sequence"),
        (global_lists(resets=False), "state", "Something of one call is left"),
        (global_lists(resets=True), "shared_state", "two sequences that are continued in turn"),
        (memoised(), None, "should be"),
        (scales_in_place, "changes_input", "argument number 3"),
        (dtype_forgotten, None, "must be of a floating type"),
        (lambda *a: turned_keys(*a)[::-1], "results_swapped", "output, cache"),
        (lambda *a: turned_keys(*a)[0], "cache_not_returned", "Return both"),
        (lambda *a: (*turned_keys(*a), 1), None, "must be a torch tensor; yours is a tuple of 3"),
        (lambda *a: None, None, "returned None"),
        (lambda *a: (None, None), None, "On 5 tokens in one call"),
        (lambda *a: ("out", a[1]), None, "must be a torch tensor"),
        (lambda *a: (a[0].numpy(), None), None, "must be a torch tensor"),
        (lambda *a: (a[0] * 1j, None), None, "must hold real numbers"),
        (lambda *a: (torch.where(a[0] > 0, a[0], torch.nan), None), None, "NaN"),
        (lambda *a: (a[0][:, :, :1], None), None, "must have shape (1, 5, 4); yours has (1, 5, 1)"),
        (lambda x_t, cache: (x_t, cache), None, "raised TypeError"),
        (lambda *a: {"out": a[0], "cache": None}, None, "of type dict"),
    ],
)
def test_wrong_answers_are_told(function, name, words):
    verdict = check("kv_cache", function)
    assert verdict.passed is False and verdict.misconception == name, verdict.message
    assert words in verdict.message


def test_the_kind_of_token_that_goes_wrong_is_told():
    def odd(x_t, cache, *rest):
        out, new = turned_keys(x_t, cache, *rest)
        return (out if cache is None or x_t.shape[1] == 1 else out * 1.7), new

    told = check("kv_cache", odd).message
    assert "The first call is right, which has no cache, and a later one of several tokens is not." in told


@pytest.mark.parametrize("error", [RuntimeError, TypeError, ValueError, IndexError])
def test_a_function_that_always_raises_makes_no_known_mistake(error):
    def raises(*args):
        raise error("of my own")

    verdict = check("kv_cache", raises)
    assert verdict.misconception is None and f"raised {error.__name__}: of my own" in verdict.message


def test_a_stub_is_unanswered():
    def stub(*args):
        raise NotImplementedError

    assert check("kv_cache", stub).passed is None

"""Lesson 15's exercises besides the cache: every right way accepted, every known mistake named."""

import numpy as np
import pytest
import torch
from judging import its_solution, mistakes, named, odd
from torch.nn import functional as F

from attnlib import RMSNorm, SwiGLU, rope_permutation, sampling_probabilities
from attnlib.exercises import check
from attnlib.exercises.llama_parts import EXERCISES, cache_price

FUNCTIONS = ("rms_norm", "swiglu", "to_neighbours", "top_p", "write_on")

# Right answers


def norm_by_hypotenuse(x, weight, eps):
    y = x.to(torch.float64) if x.dtype == torch.float16 else x
    length = torch.linalg.vector_norm(y, dim=-1, keepdim=True)
    return (weight * (y / (length**2 / x.shape[-1] + eps) ** 0.5)).to(x.dtype)


def norm_by_torch(x, weight, eps):
    y = x.float() if x.dtype == torch.float16 else x
    return F.rms_norm(y, x.shape[-1:], eps=eps).to(x.dtype) * weight


def norm_by_loops(x, weight, eps):
    rows = [row.float() if row.dtype == torch.float16 else row for row in x.reshape(-1, x.shape[-1])]
    rows = [row * weight / torch.sqrt(sum(a * a for a in row) / len(row) + eps) for row in rows]
    return torch.stack(rows).reshape(x.shape)


def gate_by_linear(x, w1, w2, w3):
    return F.linear(F.silu(F.linear(x, w1)) * F.linear(x, w3), w2)


def gate_by_einsum(x, w1, w2, w3):
    up = torch.einsum("...d,hd->...h", x, w1)
    content = torch.einsum("...d,hd->...h", x, w3)
    return torch.einsum("...h,dh->...d", up / (1 + torch.exp(-up)) * content, w2)


def gate_in_one_product(x, w1, w2, w3):
    up, content = (x @ torch.cat([w1, w3]).T).chunk(2, -1)
    return F.silu(up) * content @ w2.T


def rows_by_package_order(w_q, w_k, n_heads):
    d = len(w_q) // n_heads
    order = [0] * d
    order[::2], order[1::2] = range(d // 2), range(d // 2, d)
    return tuple(np.concatenate([w[h : h + d][order] for h in range(0, len(w), d)]) for w in (w_q, w_k))


def rows_through_torch(w_q, w_k, n_heads):
    d = len(w_q) // n_heads

    def one(w):
        return torch.tensor(w).view(-1, 2, d // 2, w.shape[1]).transpose(1, 2).reshape(w.shape).numpy()

    return [one(w_q), one(w_k)]


def nucleus_by_loops(p, top_p):
    out = np.zeros(p.shape)
    for at in np.ndindex(p.shape[:-1]):
        total = 0
        for i in sorted(range(p.shape[-1]), key=lambda i: (-p[at][i], i)):
            if total >= top_p:
                break
            total += p[at][i]
            out[at][i] = p[at][i]
        out[at] /= out[at].sum()
    return out


def nucleus_by_shift(p, top_p):
    order = (-p).argsort(-1, kind="stable")
    sums = np.take_along_axis(p, order, -1).cumsum(-1)
    gone = np.roll(sums >= top_p, 1, -1)
    gone[..., 0] = False
    back = order.argsort(-1)
    kept = p * ~np.take_along_axis(gone, back, -1)
    return kept / kept.sum(-1, keepdims=True)


def loop_by_one_call(read, prompt, n_new, chunk):
    """A prompt in one call gives the same text."""
    n = len(prompt)
    scores, cache = read(prompt, np.arange(n), np.tri(n, dtype=bool), None)
    new = [scores[-1].argmax()]
    while len(new) < n_new:
        at = n + len(new) - 1
        scores, cache = read(np.array([new[-1]]), np.array([at]), np.ones((1, at + 1), bool), cache)
        new.append(scores[-1].argmax())
    return new


def loop_without_a_cache(read, prompt, n_new, chunk):
    text = list(prompt)
    for _ in range(n_new):
        n = len(text)
        scores, _ = read(np.array(text), np.arange(n), np.tri(n, dtype=bool), None)
        text.append(np.argmax(scores[n - 1]))
    return np.array(text[len(prompt) :])


RIGHT = {
    "rms_norm": (norm_by_hypotenuse, norm_by_torch, norm_by_loops),
    "swiglu": (gate_by_linear, gate_by_einsum, gate_in_one_product),
    "to_neighbours": (rows_by_package_order, rows_through_torch),
    "top_p": (nucleus_by_loops, nucleus_by_shift),
    "write_on": (loop_by_one_call, loop_without_a_cache),
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, ways in RIGHT.items() for a in ways])
def test_right_ways_are_accepted(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed, verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_solutions_pass_and_stubs_are_no_answers(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed

    def stub(*args):
        raise NotImplementedError

    assert check(exercise, stub, show=False).passed is None


@pytest.mark.parametrize("exercise, mistake", mistakes(*FUNCTIONS), ids=lambda m: getattr(m, "name", m))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


def test_the_packages_own_agree():
    x, eps = torch.randn(3, 6).double(), 1e-5
    layer = RMSNorm(6, eps, dtype=torch.float64)
    assert torch.allclose(its_solution("rms_norm")(x, layer.weight, eps), layer(x))
    gate = SwiGLU(6, 9, dtype=torch.float64)
    weights = [w.weight for w in (gate.w1, gate.w2, gate.w3)]
    assert torch.allclose(its_solution("swiglu")(x, *weights), gate(x))
    w_q, w_k = np.random.default_rng(0).normal(size=(2, 24, 5))
    got = its_solution("to_neighbours")(w_q, w_k[:12], 4)
    for w, heads, ours in ((w_q, 4, got[0]), (w_k[:12], 2, got[1])):
        np.testing.assert_array_equal(ours, w[rope_permutation(6, heads, to="interleaved")])
    p = np.random.default_rng(1).dirichlet(np.ones(20), size=3)
    np.testing.assert_allclose(its_solution("top_p")(p, 0.7), sampling_probabilities(np.log(p), top_p=0.7))


@pytest.mark.parametrize("result", [lambda r: None, lambda r: r.numpy().tolist(), lambda r: (r, r)])
@pytest.mark.parametrize("exercise", ["rms_norm", "swiglu"])
def test_results_of_another_kind(exercise, result):
    odd(exercise, result)


def test_plausible_slips_of_the_loop_are_named():
    def restarts_and_aligns_at_the_start(read, prompt, n_new, chunk):
        cache, new = None, []
        pieces, n = [prompt[i : i + chunk] for i in range(0, len(prompt), chunk)], 0
        while len(new) < n_new:
            for piece in pieces:
                t = len(piece)
                visible = np.arange(n + t) <= np.arange(t)[:, None]
                scores, cache = read(np.array(piece), np.arange(t), visible, cache)
                n += t
            new.append(int(scores[-1].argmax()))
            pieces = [new[-1:]]
        return new

    verdict = check("write_on", restarts_and_aligns_at_the_start, show=False)
    assert set(verdict.misconception.split(" and ")) == {"positions_restart", "mask_aligned_at_start"}

    def wrong_mask_shape(read, prompt, n_new, chunk):
        scores, cache = read(prompt[:chunk], np.arange(len(prompt[:chunk])), np.tri(3, dtype=bool), None)
        return [int(scores[-1].argmax())] * n_new

    verdict = check("write_on", wrong_mask_shape, show=False)
    assert "visible must be booleans of shape (4, 4)" in verdict.message


def test_the_loop_of_the_lesson_is_told_its_three_faults():
    def write_on(read, prompt, n_new, chunk):
        cache, new = None, []
        for i in range(0, len(prompt), chunk):
            piece = prompt[i : i + chunk]
            positions = np.arange(len(piece))
            visible = np.arange(i + len(piece)) <= positions[:, None]
            scores, cache = read(piece, positions, visible, cache)
        piece = prompt[-1:]
        while len(new) < n_new:
            n = len(prompt) + len(new)
            visible = np.ones((1, n + 1), bool)
            scores, cache = read(piece, np.array([n]), visible, cache)
            new.append(int(scores[0].argmax()))
            piece = np.array(new[-1:])
        return new

    verdict = check("write_on", write_on, show=False)
    assert set(verdict.misconception.split(" and ")) == {"positions_restart", "token_read_twice"}
    assert "Three things at once" in verdict.message and "aligned at the start" in verdict.message


def in_torch(x):
    return x.float() if x.dtype == torch.float16 else x


def without_a_centre(x, weight, eps):
    y = in_torch(x)
    return (y / (y.std(-1, keepdim=True) + eps)).to(x.dtype) * weight


def wherever_the_shapes_fit(x, w1, w2, w3):
    return (F.silu(x @ w1.T) * (x @ w2)) @ w3


def gate_times_content(x, w1, w2, w3):
    return (F.silu(x @ w1.T) @ (x @ w3.T).mT) @ w2.T


def as_many_key_heads(w_q, w_k, n_heads):
    return tuple(w.reshape(n_heads, 2, -1, w.shape[1]).swapaxes(1, 2).reshape(w.shape) for w in (w_q, w_k))


def above_a_threshold(p, top_p):
    falling = -np.sort(-p, -1)
    last = np.minimum((falling.cumsum(-1) < top_p).sum(-1, keepdims=True), p.shape[-1] - 1)
    kept = np.where(p >= np.take_along_axis(falling, last, -1), p, 0)
    return kept / kept.sum(-1, keepdims=True)


def through_the_order_again(p, top_p):
    order = np.argsort(-p, -1, kind="stable")
    falling = np.take_along_axis(p, order, -1)
    kept = np.where(falling.cumsum(-1) - falling < top_p, falling, 0)
    return np.take_along_axis(kept / kept.sum(-1, keepdims=True), order, -1)


SLIPS = (
    ("rms_norm", without_a_centre, "standard_deviation"),
    ("swiglu", wherever_the_shapes_fit, "order_of_matrices"),
    ("swiglu", gate_times_content, "matrix_product"),
    ("to_neighbours", as_many_key_heads, "key_heads_as_query_heads"),
    ("top_p", above_a_threshold, "ties"),
    ("top_p", through_the_order_again, "order_not_restored"),
)


@pytest.mark.parametrize("exercise, slip, name", SLIPS, ids=lambda s: getattr(s, "__name__", s))
def test_slips_as_they_are_written_are_named(exercise, slip, name):
    verdict = check(exercise, slip, show=False)
    assert verdict.passed is False and verdict.misconception == name, verdict.message


PRICES = {
    (163840, 8, 1, 16): "one_of_two", (655360, 8, 1, 16): "float32", (2621440, 8, 1, 16): "query_heads",
    (4096, 8, 1, 16): "one_layer", (40960, 8, 1, 16): "one_head", (327680, 1, 1, 16): "key_heads",
    (327680, 8, 2, 16): "query_heads_are_kept", (327680, 8, 1, 1): "shared_by_the_batch",
    (5, 8, 1, 16): None, (327680, 3, 1, 16): None, (81920, 8, 1, 16): "one_of_two",
}  # fmt: skip


def test_the_price_of_a_cache():
    assert cache_price((327680, 8, 1, 16)).passed and cache_price(np.array([327680.0, 8, 1, 16])).passed
    for answer, name in PRICES.items():
        verdict = cache_price(answer)
        assert verdict.passed is False and verdict.misconception == name, (answer, verdict.message)
    assert cache_price("327680").passed is False
    assert {exercise.lesson for exercise in EXERCISES} == {"15"}

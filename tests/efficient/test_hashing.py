import tracemalloc

import numpy as np
import pytest
import torch
from drawn import normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import attention, lsh_attention, lsh_buckets, lsh_counts

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def counts_by_hand(buckets, chunk_size, causal):
    """Token by token, as the definition says, for buckets of shape (rounds, L)."""
    n = buckets.shape[-1]
    counts = np.zeros((n, n), int)
    for row in buckets:
        place = {token: at for at, token in enumerate(sorted(range(n), key=lambda t: (row[t], t)))}
        for i in range(n):
            for j in range(n):
                back = place[i] // chunk_size - place[j] // chunk_size
                counts[i, j] += back in (0, 1) and i != j and not (causal and j > i)
    for i in range(n):
        counts[i, i] = not counts[i].any()
    return counts


def explicit(qk, v, counts, **settings):
    length = np.linalg.norm(qk, axis=-1, keepdims=True)
    k = np.sqrt(qk.shape[-1]) * qk / np.where(length == 0, 1, length)
    with np.errstate(divide="ignore"):
        return attention(qk, k, v, np.log(counts), **settings)


cases = st.tuples(
    st.sampled_from([(), (2,), (2, 3)]), st.integers(1, 14), st.integers(1, 3), st.integers(1, 8),
    st.integers(1, 5), st.booleans(), st.integers(0, 99),
)  # fmt: skip


def drawn(case):
    before, n, rounds, n_buckets, chunk_size, causal, seed = case
    buckets = np.random.default_rng(seed).integers(0, n_buckets, (*before, rounds, n))
    return normal(*before, n, 4), normal(*before, n, 3, seed=1), buckets, chunk_size, causal


@given(cases)
def test_counts_by_their_definition(case):
    _, _, buckets, chunk_size, causal = drawn(case)
    got = lsh_counts(buckets, chunk_size, causal=causal)
    *before, rounds, n = buckets.shape
    wanted = [counts_by_hand(b, chunk_size, causal) for b in buckets.reshape(-1, rounds, n)]
    np.testing.assert_array_equal(got, np.reshape(wanted, (*before, n, n)))
    assert lsh_counts(torch.from_numpy(buckets), chunk_size, causal=causal).tolist() == got.tolist()


@given(cases)
def test_is_attention_with_the_logarithm_of_the_counts(case):
    qk, v, buckets, chunk_size, causal = drawn(case)
    wanted = explicit(qk, v, lsh_counts(buckets, chunk_size, causal=causal))
    got = lsh_attention(qk, v, buckets, chunk_size, causal=causal)
    np.testing.assert_allclose(got, wanted, **CLOSE)
    theirs = lsh_attention(*map(torch.from_numpy, (qk, v, buckets)), chunk_size, causal=causal)
    np.testing.assert_allclose(theirs, wanted, **CLOSE)


@given(cases)
def test_gradients_are_those_of_the_explicit_form(case):
    qk, v, buckets, chunk_size, causal = drawn(case)
    qk, v = (torch.from_numpy(x).requires_grad_() for x in (qk, v))
    buckets = torch.from_numpy(buckets)
    bias = lsh_counts(buckets, chunk_size, causal=causal).double().log()
    k = qk * 2 / qk.norm(dim=-1, keepdim=True)
    wanted = attention(qk, k, v, bias, return_weights=True)[0]
    got = lsh_attention(qk, v, buckets, chunk_size, causal=causal)
    upstream = torch.from_numpy(normal(*got.shape, seed=4))
    for ours, theirs in zip(
        torch.autograd.grad(got, (qk, v), upstream),
        torch.autograd.grad(wanted, (qk, v), upstream),
        strict=True,
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


def test_one_chunk_is_attention_of_all_to_all_others():
    qk, v = normal(2, 6, 4), normal(2, 6, 3, seed=1)
    buckets = lsh_buckets(qk, 4)
    for causal in (False, True):
        counts = np.tri(6, k=-1, dtype=int) if causal else 1 - np.eye(6, dtype=int)
        counts[0, 0] = causal
        got = lsh_attention(qk, v, buckets, 6, causal=causal)
        np.testing.assert_allclose(got, explicit(qk, v, counts), **CLOSE)


def test_a_chunk_longer_than_the_text_costs_no_more_than_the_text(lib):
    qk, v = normal(2, 6, 4), normal(2, 6, 3, seed=1)
    buckets = lsh_buckets(qk, 4, 2)
    got = lsh_attention(*map(lib.array, (qk, v, buckets)), 10**12)
    np.testing.assert_allclose(lib.numpy(got), lsh_attention(qk, v, buckets, 6), **CLOSE)


def test_buckets_by_their_definition(lib):
    x = normal(2, 3, 40, 5)
    got = lib.numpy(lsh_buckets(lib.array(x), 6, 4, seed=7))
    assert got.shape == (2, 3, 4, 40) and got.min() == 0 and got.max() == 5
    directions = np.random.default_rng(7).normal(size=(4, 5, 3))
    for r in range(4):
        along = x @ directions[r]
        np.testing.assert_array_equal(got[..., r, :], np.concatenate([along, -along], -1).argmax(-1))
    np.testing.assert_array_equal(lsh_buckets(3 * x, 6, 4, seed=7), got)  # the direction alone
    np.testing.assert_array_equal(lsh_buckets(-x, 6, 4, seed=7), (got + 3) % 6)
    assert (lsh_buckets(x, 6, 4, seed=8) != got).any()


def test_near_vectors_share_a_bucket_more_often_than_far_ones():
    x, step = normal(500, 8), normal(500, 8, seed=1)
    share = [(lsh_buckets(x, 8, 4) == lsh_buckets(x + away * step, 8, 4)).mean() for away in (0, 0.1, 0.5, 2)]
    assert share[0] == 1 and share == sorted(share, reverse=True) and share[-1] < 0.5


def test_more_rounds_lose_fewer_neighbours():
    """Each token's nearest other is seen by more of them, the more rounds there are."""
    x = normal(128, 8)
    k = x / np.linalg.norm(x, axis=-1, keepdims=True)
    nearest = (k @ k.T - 2 * np.eye(128)).argmax(-1)
    found = [
        (lsh_counts(lsh_buckets(x, 16, rounds), 8)[np.arange(128), nearest] > 0).mean()
        for rounds in (1, 2, 4, 8)
    ]
    assert found == sorted(found) and found[0] < 0.8 < found[-1]


def test_no_array_is_as_large_as_the_length_squared():
    n = 4096
    qk, v = normal(n, 4), normal(n, 4, seed=1)
    buckets = lsh_buckets(qk, 256)
    tracemalloc.start()
    lsh_attention(qk, v, buckets, 16)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * n


def test_scale_types_zeros_views_and_inputs(lib):
    qk, v = normal(2, 9, 4), normal(2, 9, 3, seed=1)
    qk[0, 3] = 0  # has no direction
    buckets = lsh_buckets(qk, 4, 2)
    counts, old = lsh_counts(buckets, 3), [x.copy() for x in (qk, v, buckets)]
    got = lsh_attention(*map(lib.array, (qk, v, buckets)), 3, scale=0.3)
    np.testing.assert_allclose(lib.numpy(got), explicit(qk, v, counts, scale=0.3), **CLOSE)
    half = lsh_attention(*[lib.array(x.astype(np.float16)) for x in (qk, v)], lib.array(buckets), 3)
    assert lib.numpy(half).dtype == np.float16
    np.testing.assert_allclose(lib.numpy(half), explicit(qk, v, counts), atol=1e-2)
    whole = [(3 * x).astype(int) for x in (qk, v)]
    got = lib.numpy(lsh_attention(*map(lib.array, (*whole, buckets)), 3))
    assert got.dtype == (np.float64 if lib.name == "numpy" else np.float32)
    np.testing.assert_allclose(got, explicit(*whole, counts), atol=1e-5)
    views = [lib.array(np.repeat(x, 2, -1))[..., ::2] for x in (qk, v)]
    got = lib.numpy(lsh_attention(*views, lib.array(buckets), 3))
    np.testing.assert_allclose(got, explicit(qk, v, counts), **CLOSE)
    for x, before in zip((qk, v, buckets), old, strict=True):
        np.testing.assert_array_equal(x, before)


def test_a_vector_without_direction_gets_a_finite_gradient():
    qk = torch.zeros(1, 4, 2, dtype=torch.float64, requires_grad=True)
    v = torch.ones(1, 4, 2, dtype=torch.float64)
    lsh_attention(qk, v, torch.zeros(1, 1, 4, dtype=torch.int64), 2).sum().backward()
    assert torch.isfinite(qk.grad).all()


QK, V = normal(2, 6, 4), normal(2, 6, 3)
B = np.zeros((2, 1, 6), int)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: lsh_buckets(QK, 3), ValueError, ["n_buckets must be even", "3"]),
        (lambda: lsh_buckets(QK, 0), ValueError, ["n_buckets must be at least 1"]),
        (lambda: lsh_buckets(QK, 2, 0), ValueError, ["rounds must be at least 1"]),
        (lambda: lsh_buckets(QK, 2, seed="a"), TypeError, ["seed must be a whole number", "'a'"]),
        (lambda: lsh_buckets([1.0], 2), TypeError, ["x must be a NumPy array", "list"]),
        (lambda: lsh_buckets(QK[0, 0], 2), ValueError, ["x must have shape (..., L, d)", "(4,)"]),
        (lambda: lsh_counts(B / 2, 2), TypeError, ["buckets must hold integers", "float64"]),
        (lambda: lsh_counts(B[0, 0], 2), ValueError, ["buckets must have shape (..., rounds, L)", "(6,)"]),
        (lambda: lsh_counts(B, 0), ValueError, ["chunk_size must be at least 1"]),
        (lambda: lsh_attention(QK, V, B, 1.5), TypeError, ["chunk_size must be a whole number"]),
        (lambda: lsh_attention(QK, V, B[0], 2), ValueError, ["buckets must have shape (2, 'rounds', 6)"]),
        (lambda: lsh_attention(QK, V, B[..., 1:], 2), ValueError, ["buckets must have", "(2, 1, 5)"]),
        (lambda: lsh_attention(QK, V[:, 1:], B, 2), ValueError, ["v must have shape", "L = 6"]),
        (lambda: lsh_attention(QK, V, torch.from_numpy(B), 2), TypeError, ["one library"]),
        (lambda: lsh_attention(QK, V, B, 2, scale="1"), TypeError, ["scale must be a number"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

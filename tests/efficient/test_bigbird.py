import tracemalloc

import numpy as np
import pytest
import torch
from drawn import assert_same_gradients, normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import attention, bigbird_attention, bigbird_counts, bigbird_random_blocks, padding_mask

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


def qkv(*before, n=12, d=4, dv=3):
    return normal(*before, n, d), normal(*before, n, d, seed=1), normal(*before, n, dv, seed=2)


def counts_by_hand(n_blocks, size, random_blocks, counting):
    """Key by key, as the definition says."""
    n, heads = n_blocks * size, len(random_blocks)
    counts = np.zeros((heads, n, n), int)
    for h in range(heads):
        for i in range(n):
            for j in range(n):
                row, column = i // size, j // size
                if row in (0, n_blocks - 1):
                    counts[h, i, j] = 1
                    continue
                counts[h, i, j] = column in (0, n_blocks - 1) or abs(row - column) <= 1
                drawn = list(random_blocks[h][row - 1]).count(column)
                counts[h, i, j] += drawn if counting == "listed" else drawn > 0
    return np.minimum(counts, 1) if counting == "once" else counts


def explicit(q, k, v, counts, mask=True, **settings):
    """Attention in which a key seen c times has c times the weight; padding sees nothing."""
    with np.errstate(divide="ignore"):
        bias = np.where(mask, np.log(counts), -np.inf)
    real = np.broadcast_to(mask, (*q.shape[:-2], 1, q.shape[-2]))
    return attention(q, k, v, bias, **settings) * real.mT


any_blocks = st.tuples(
    st.integers(1, 3), st.integers(3, 8), st.integers(1, 3), st.integers(0, 3), st.integers(0, 99)
)


@given(any_blocks, st.sampled_from(["once", "listed"]))
def test_counts_by_their_definition(sizes, counting):
    heads, n_blocks, size, r, seed = sizes
    drawn = np.random.default_rng(seed).integers(0, n_blocks, (heads, n_blocks - 2, r))
    got = bigbird_counts(n_blocks * size, size, drawn, counting=counting)
    np.testing.assert_array_equal(got, counts_by_hand(n_blocks, size, drawn, counting))
    theirs = bigbird_counts(n_blocks * size, size, drawn, counting=counting, like=torch.zeros(1))
    assert theirs.tolist() == got.tolist()


@given(any_blocks, st.sampled_from(["once", "listed"]), st.sampled_from([(), (2,)]), st.booleans())
def test_is_attention_with_the_logarithm_of_the_counts(sizes, counting, before, padded):
    heads, n_blocks, size, r, seed = sizes
    rng, n = np.random.default_rng(seed), n_blocks * size
    drawn = rng.integers(0, n_blocks, (heads, n_blocks - 2, r))
    q, k, v = qkv(*before, heads, n=n)
    mask = rng.random((*before, rng.choice([1, heads]), 1, n)) < 0.7 if padded else None
    counts = bigbird_counts(n, size, drawn, counting=counting)
    wanted = explicit(q, k, v, counts, True if mask is None else mask)
    got = bigbird_attention(q, k, v, size, drawn, counting=counting, mask=mask)
    np.testing.assert_allclose(got, wanted, **CLOSE)
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    mask = None if mask is None else torch.from_numpy(mask)
    theirs = bigbird_attention(*tensors, size, torch.from_numpy(drawn), counting=counting, mask=mask)
    np.testing.assert_allclose(theirs, wanted, **CLOSE)


@given(any_blocks, st.sampled_from(["once", "listed"]), st.sampled_from([(), (2,)]), st.booleans())
def test_gradients_are_those_of_the_explicit_form(sizes, counting, before, padded):
    heads, n_blocks, size, r, seed = sizes
    rng, n = np.random.default_rng(seed), n_blocks * size
    drawn = rng.integers(0, n_blocks, (heads, n_blocks - 2, r))
    inputs = [torch.from_numpy(x).requires_grad_() for x in qkv(*before, heads, n=n)]
    real = torch.from_numpy(rng.random((*before, rng.choice([1, heads]), 1, n)) < (0.7 if padded else 1))
    bias = bigbird_counts(n, size, drawn, counting=counting, like=inputs[0]).double().log()
    bias = torch.where(real, bias, -torch.inf)
    wanted = torch.where(real.mT, attention(*inputs, bias, return_weights=True)[0], 0)
    mask = real if padded else None
    got = bigbird_attention(*inputs, size, drawn, counting=counting, mask=mask)
    assert_same_gradients(got, wanted, inputs, **CLOSE)


def test_hugging_face_in_evaluation_counts_block_0_again_for_each_random_block():
    q, k, v = qkv(1, n=7)
    zeros = np.zeros((1, 5, 3), int)
    counts = bigbird_counts(7, 1, zeros, counting="listed")
    assert (counts[0, 1:-1, 0] == 4).all() and counts[0, 1:-1, 1:].max() == 1
    got = bigbird_attention(q, k, v, 1, zeros, counting="listed")
    keys, values = (np.concatenate([x[:, [0, 0, 0, 0, 2, 3, 4, 6]]], -2) for x in (k, v))
    np.testing.assert_allclose(got[:, 3:4], attention(q[:, 3:4], keys, values), **CLOSE)
    once = bigbird_attention(q, k, v, 1, zeros)
    np.testing.assert_allclose(once, bigbird_attention(q, k, v, 1, zeros[..., :0]), **CLOSE)
    assert abs(once - got).max() > 0.01


def test_the_official_full_mask_is_built_for_a_longer_text():
    drawn = bigbird_random_blocks(8, 2, 2, seed=3)
    built, cut = bigbird_counts(16, 2, drawn), bigbird_counts(11, 2, drawn, built_for=16)
    np.testing.assert_array_equal(cut, built[:, :11, :11])
    row = cut[0, 5]  # of block 2: no last block among the keys
    assert row[-1] == (5 in drawn[0, 1])
    np.testing.assert_array_equal(bigbird_counts(16, 2, drawn, built_for=16), built)


@given(st.integers(3, 14), st.integers(1, 3), st.integers(0, 99), st.data())
def test_random_blocks_are_different_and_none_that_is_seen_anyhow(n_blocks, heads, seed, data):
    r = data.draw(st.integers(0, max(0, n_blocks - 5)))
    drawn = bigbird_random_blocks(n_blocks, r, heads, seed=seed)
    assert drawn.shape == (heads, n_blocks - 2, r) and drawn.dtype.kind == "i"
    for rows in drawn:
        for i, row in enumerate(rows, start=1):
            assert len(set(row)) == r
            assert not set(row) & {0, i - 1, i, i + 1, n_blocks - 1} and all(0 <= b < n_blocks for b in row)
    np.testing.assert_array_equal(bigbird_random_blocks(n_blocks, r, heads, seed=seed), drawn)
    once, listed = (bigbird_counts(n_blocks, 1, drawn, counting=c) for c in ("once", "listed"))
    np.testing.assert_array_equal(once, listed)


def test_each_allowed_block_is_drawn_and_heads_draw_their_own():
    drawn = bigbird_random_blocks(9, 2, 200, seed=0)
    assert all(set(drawn[:, i].ravel()) == set(range(1, 8)) - {i, i + 1, i + 2} for i in range(7))
    assert (drawn[0] != drawn[1]).any()


def test_no_array_is_as_large_as_the_length_squared():
    n = 2048
    q, k, v = qkv(1, n=n, d=4, dv=4)
    drawn = bigbird_random_blocks(n // 8, 1)
    tracemalloc.start()
    bigbird_attention(q, k, v, 8, drawn)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * n * n  # scores of all pairs would be 8 * n * n bytes


def test_padding_by_tokens(lib):
    q, k, v = qkv(2, 2)
    tokens = np.ones((2, 12), int)
    tokens[0, 7:], tokens[1] = 0, 0
    mask, drawn = padding_mask(tokens), bigbird_random_blocks(6, 1, 2)
    got = lib.numpy(bigbird_attention(*map(lib.array, (q, k, v)), 2, drawn, mask=lib.array(mask)))
    np.testing.assert_allclose(got, explicit(q, k, v, bigbird_counts(12, 2, drawn), mask), **CLOSE)
    assert (got[0, :, 7:] == 0).all() and (got[1] == 0).all() and (got[0, :, :7] != 0).all()


def test_scale_types_views_and_inputs(lib):
    q, k, v = qkv(2, 2)
    before, drawn = [x.copy() for x in (q, k, v)], bigbird_random_blocks(6, 1, 2)
    counts = bigbird_counts(12, 2, drawn)
    got = bigbird_attention(*map(lib.array, (q, k, v)), 2, drawn, scale=0.3)
    np.testing.assert_allclose(lib.numpy(got), explicit(q, k, v, counts, scale=0.3), **CLOSE)
    half = bigbird_attention(*[lib.array(x.astype(np.float16)) for x in (q, k, v)], 2, drawn)
    assert lib.numpy(half).dtype == np.float16
    np.testing.assert_allclose(lib.numpy(half), explicit(q, k, v, counts), atol=1e-2)
    whole = [(3 * x).astype(int) for x in (q, k, v)]
    got = lib.numpy(bigbird_attention(*map(lib.array, whole), 2, drawn))
    assert got.dtype == (np.float64 if lib.name == "numpy" else np.float32)
    np.testing.assert_allclose(got, explicit(*whole, counts), atol=1e-5)
    views = [lib.array(np.repeat(x, 2, -1))[..., ::2] for x in (q, k, v)]
    got = lib.numpy(bigbird_attention(*views, 2, drawn))
    np.testing.assert_allclose(got, explicit(q, k, v, counts), **CLOSE)
    for x, old in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, old)


Q, K, V = qkv(2, 2)
R = bigbird_random_blocks(6, 1, 2)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: bigbird_random_blocks(2, 0), ValueError, ["n_blocks must be at least 3", "2"]),
        (lambda: bigbird_random_blocks(8, 4), ValueError, ["n_random must lie in 0 .. 3", "8 blocks", "4"]),
        (lambda: bigbird_random_blocks(8, -1), ValueError, ["n_random must lie in", "-1"]),
        (lambda: bigbird_random_blocks(8, 0.5), TypeError, ["n_random must be a whole number"]),
        (lambda: bigbird_random_blocks(8, 1, 0), ValueError, ["n_heads must be at least 1"]),
        (lambda: bigbird_random_blocks(8, 1, seed=-1), ValueError, ["seed must be at least 0; got -1"]),
        (lambda: bigbird_counts(12, 5, R), ValueError, ["n must be a multiple of block_size, 5", "got 12"]),
        (lambda: bigbird_counts(4, 2, R), ValueError, ["three blocks at least", "got 4"]),
        (lambda: bigbird_counts(12, 2, R, built_for=13), ValueError, ["built_for must be a multiple"]),
        (lambda: bigbird_counts(13, 2, R, built_for=12), ValueError, ["n must be at most built_for, 12"]),
        (lambda: bigbird_counts(12, 0, R), ValueError, ["block_size must be at least 1"]),
        (lambda: bigbird_counts(12, 2, R[0]), ValueError, ["(heads, 4, r) for 6 blocks", "(4, 1)"]),
        (lambda: bigbird_counts(12, 3, R), ValueError, ["(heads, 2, r) for 4 blocks", "(2, 4, 1)"]),
        (lambda: bigbird_counts(12, 2, R / 2), TypeError, ["random_blocks must hold numbers of blocks"]),
        (lambda: bigbird_counts(12, 2, R + 5), ValueError, ["random_blocks must lie in 0 .. 5"]),
        (lambda: bigbird_counts(12, 2, R, counting="twice"), ValueError, ["'once' or 'listed'", "twice"]),
        (lambda: bigbird_attention(Q, K, V, 2, R[:1]), ValueError, ["the 2 heads of q", "got 1"]),
        (lambda: bigbird_attention(Q, K, V, 5, R), ValueError, ["the length of q must be a multiple"]),
        (lambda: bigbird_attention(Q[0, 0], K, V, 2, R), ValueError, ["q must have shape (..., H, L, d)"]),
        (lambda: bigbird_attention(Q, K[..., :6, :], V, 2, R), ValueError, ["k must have shape", "L = 12"]),
        (lambda: bigbird_attention(Q, K, torch.from_numpy(V), 2, R), TypeError, ["one library"]),
        (
            lambda: bigbird_attention(Q, K, V, 2, R, mask=np.ones((2, 12), bool)),
            ValueError,
            ["mask must say of each key", "(2, 2, 1, 12)", "(2, 12)"],
        ),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

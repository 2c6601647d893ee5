import tracemalloc
from functools import partial

import drawn
import numpy as np
import pytest
import torch
from drawn import normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import attention, between, causal, first, padding_mask, window, windowed_attention

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
qkv = partial(drawn.qkv, n_query=70, n_key=70)


def pattern(left, right, n_first):
    """What the docstring says."""
    seen = between(left, right)
    return seen | first(n_first) & between(-1, right) if n_first else seen


@given(
    st.integers(1, 150), st.integers(1, 150), st.integers(0, 70), st.integers(0, 70), st.integers(0, 5),
    st.sampled_from([(), (2,), (2, 3)]), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_is_attention_with_the_mask_of_the_pattern(
    n_query, n_key, left, right, n_first, before, padded, seed
):
    q, k, v = qkv(*before, n_query=n_query, n_key=n_key)
    seen, mask = pattern(left, right, n_first).mask(n_query, n_key), None
    if padded:
        rng = np.random.default_rng(seed)
        shape = [n if rng.random() < 0.5 else 1 for n in before] + [1, n_key]
        mask = rng.random(shape) < 0.7
        seen = seen & mask
    wanted = attention(q, k, v, seen)
    got = windowed_attention(q, k, v, left, right, first=n_first, mask=mask)
    np.testing.assert_allclose(got, wanted, **CLOSE)
    assert got.shape == wanted.shape
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    mask = None if mask is None else torch.from_numpy(mask)
    theirs = windowed_attention(*tensors, left, right, first=n_first, mask=mask)
    np.testing.assert_allclose(theirs, wanted, **CLOSE)


@given(st.integers(1, 80), st.integers(1, 80), st.integers(0, 40), st.integers(0, 40), st.integers(0, 3))
def test_gradients_are_those_of_the_explicit_form(n_query, n_key, left, right, n_first):
    inputs = [torch.from_numpy(x).requires_grad_() for x in qkv(2, n_query=n_query, n_key=n_key)]
    keys = torch.from_numpy(normal(2, 1, n_key, seed=3) < 0.5)
    seen = pattern(left, right, n_first).mask(n_query, n_key, like=keys) & keys
    upstream = torch.from_numpy(normal(2, n_query, 3, seed=4))
    wanted = torch.autograd.grad(attention(*inputs, seen, return_weights=True)[0], inputs, upstream)
    got = windowed_attention(*inputs, left, right, first=n_first, mask=keys)
    for ours, theirs in zip(torch.autograd.grad(got, inputs, upstream), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, **CLOSE)


def test_no_array_is_as_large_as_the_length_squared():
    n = 4096
    q, k, v = qkv(n_query=n, n_key=n, dv=4)
    tracemalloc.start()
    windowed_attention(q, k, v, 15, first=4)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * n / 2  # of booleans it would be n * n bytes, of scores eight times that


@pytest.mark.parametrize("left, right, n_first", [(10**9, 0, 0), (0, 10**9, 0), (10**9, 10**9, 2)])
def test_a_window_wider_than_the_text_costs_no_more_than_the_text(lib, left, right, n_first):
    q, k, v = qkv(2, n_query=5, n_key=40)
    wanted = attention(q, k, v, pattern(min(left, 99), min(right, 99), n_first).mask(5, 40))
    got = windowed_attention(*map(lib.array, (q, k, v)), left, right, first=n_first)
    np.testing.assert_allclose(lib.numpy(got), wanted, **CLOSE)


def test_the_ways_to_count_a_window():
    q, k, v = qkv(2)
    seven = windowed_attention(q, k, v, left=6)
    np.testing.assert_allclose(seven, attention(q, k, v, (causal & window(7)).mask(70)), **CLOSE)
    longformer = windowed_attention(q, k, v, left=3, right=3)
    np.testing.assert_allclose(longformer, attention(q, k, v, window(4).mask(70)), **CLOSE)


def test_a_cache_of_the_last_keys_is_enough(lib):
    q, k, v = map(lib.array, qkv(2))
    whole = lib.numpy(windowed_attention(q, k, v, 9))
    for n in (1, 3, 40):
        last = windowed_attention(q[:, -n:], k[:, -n - 9 :], v[:, -n - 9 :], 9)
        np.testing.assert_allclose(lib.numpy(last), whole[:, -n:], **CLOSE)


def test_padding_by_tokens_and_a_query_that_sees_nothing(lib):
    q, k, v = qkv(2, 3, n_query=12, n_key=12)
    tokens = np.ones((2, 12), int)
    tokens[0, 6:], tokens[1] = 0, 0
    mask = padding_mask(tokens)
    wanted = attention(q, k, v, between(2, 1).mask(12) & mask)
    got = lib.numpy(windowed_attention(*map(lib.array, (q, k, v)), 2, 1, mask=lib.array(mask)))
    np.testing.assert_allclose(got, wanted, **CLOSE)
    assert (got[1] == 0).all() and (got[0, :, 8:] == 0).all() and (got[0, :, 7] != 0).any()


def test_queries_before_the_first_key_see_what_is_to_their_right(lib):
    q, k, v = qkv(n_query=50, n_key=2)
    got = lib.numpy(windowed_attention(*map(lib.array, (q, k, v)), 3, 2, first=1))
    np.testing.assert_allclose(got, attention(q, k, v, pattern(3, 2, 1).mask(50, 2)), **CLOSE)
    assert (got[:46] == 0).all() and (got[46:] != 0).all()


def test_a_nan_stays_within_its_window(lib):
    q, k, v = qkv()
    v[10] = np.nan
    got = lib.numpy(windowed_attention(*map(lib.array, (q, k, v)), 4))
    assert np.isnan(got[10:15]).all() and np.isfinite(got[64:]).all()


def test_scale_types_views_and_inputs(lib):
    q, k, v = qkv(2)
    before = [x.copy() for x in (q, k, v)]
    seen = between(5, 3).mask(70)
    got = windowed_attention(*map(lib.array, (q, k, v)), 5, 3, scale=0.3)
    np.testing.assert_allclose(lib.numpy(got), attention(q, k, v, seen, scale=0.3), **CLOSE)
    half = lib.numpy(windowed_attention(*[lib.array(x.astype(np.float16)) for x in (q, k, v)], 5, 3))
    assert half.dtype == np.float16
    np.testing.assert_allclose(half, attention(q, k, v, seen), atol=1e-2)
    whole = [(3 * x).astype(int) for x in (q, k, v)]
    ints = lib.numpy(windowed_attention(*map(lib.array, whole), 5, 3))
    assert ints.dtype == (np.float64 if lib.name == "numpy" else np.float32)
    np.testing.assert_allclose(ints, attention(*whole, seen), atol=1e-5)
    views = [lib.array(np.repeat(x, 2, -1))[..., ::2] for x in (q, k, v)]
    np.testing.assert_allclose(lib.numpy(windowed_attention(*views, 5, 3)), attention(q, k, v, seen), **CLOSE)
    for x, old in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, old)


Q, K, V = qkv(2, 3, n_query=4, n_key=5)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: windowed_attention(Q, K, V, -1), ValueError, ["left must be at least 0", "-1"]),
        (lambda: windowed_attention(Q, K, V, 1, 1.5), TypeError, ["right must be a whole number", "1.5"]),
        (lambda: windowed_attention(Q, K, V, 1, first=True), TypeError, ["first must be a whole", "True"]),
        (lambda: windowed_attention(Q, [1.0], V, 1), TypeError, ["k must be a NumPy array", "list"]),
        (lambda: windowed_attention(Q, torch.from_numpy(K), V, 1), TypeError, ["one library"]),
        (lambda: windowed_attention(Q[0], K, V, 1), ValueError, ["k must have the leading axes of q"]),
        (lambda: windowed_attention(Q, K[..., :3], V, 1), ValueError, ["k must have shape", "d = 4"]),
        (lambda: windowed_attention(Q, K, V[..., :3, :], 1), ValueError, ["v must have shape", "Lk = 5"]),
        (lambda: windowed_attention(Q[..., :0, :], K, V, 1), ValueError, ["q must not be empty"]),
        (lambda: windowed_attention(Q[0, 0, 0], K, V, 1), ValueError, ["q must have shape (..., Lq, d)"]),
        (lambda: windowed_attention(Q, K, V, 1, scale="1"), TypeError, ["scale must be a number"]),
        (lambda: windowed_attention(Q, K, V, 1, mask=np.ones((1, 5))), TypeError, ["mask must be boolean"]),
        (
            lambda: windowed_attention(Q, K, V, 1, mask=np.ones((2, 5), bool)),
            ValueError,
            ["mask must say of each key", "(2, 3, 1, 5)", "(2, 5)", "mask[:, None, None, :]"],
        ),
        (lambda: windowed_attention(Q, K, V, 1, mask=np.ones(5, bool)), ValueError, ["mask must say"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

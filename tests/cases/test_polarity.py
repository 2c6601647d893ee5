from fractions import Fraction

import numpy as np
import pytest
import torch
from drawn import BOTH, normal, qkv
from hypothesis import given
from hypothesis import strategies as st

from attnlib import (
    attention,
    entropy,
    linear_attention_weights,
    polarity_attention,
    polarity_features,
    polarity_weights,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def by_its_definition(q, k, v, power, seen=None, eps=1e-6):
    """Pair by pair, in plain Python: products of like and of unlike signs, feature by feature."""
    power = np.broadcast_to(power, q.shape[-1:])
    seen = range(len(k)) if seen is None else np.flatnonzero(seen)
    half, out = v.shape[-1] // 2, np.zeros((len(q), v.shape[-1]))
    for i, query in enumerate(q):
        like, unlike = np.zeros(len(k)), np.zeros(len(k))
        for j in seen:
            for a, b, p in zip(query, k[j], power, strict=True):
                side = like if a * b > 0 else unlike
                side[j] += abs(a) ** p * abs(b) ** p
        for side, own in ((like, slice(half)), (unlike, slice(half, None))):
            n = max(len(seen), 1)
            out[i, own] = side @ v[:, own] / n / (side.sum() / n + eps)
    return out


@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.integers(1, 3),
    st.sampled_from([0.5, 1, 1.5, 2, 3]), st.booleans(), st.booleans(), st.sampled_from([1e-6, 0.5]),
    st.integers(0, 99),
)  # fmt: skip
def test_by_its_definition(n_query, n_key, d, half, power, many_powers, padded, eps, seed):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=s) for s in ((2, n_query, d), (2, n_key, d), (2, n_key, 2 * half)))
    k[rng.random(k.shape) < 0.2] = 0
    mask = rng.random((2, 1, n_key)) < 0.6 if padded else None
    power = power + rng.random(d) if many_powers else power
    wanted = [by_its_definition(q[b], k[b], v[b], power, None if mask is None else mask[b, 0], eps)
              for b in range(2)]  # fmt: skip
    got = polarity_attention(q, k, v, power, mask, eps=eps)
    np.testing.assert_allclose(got, wanted, **CLOSE)
    theirs = [x if x is None or np.isscalar(x) else torch.from_numpy(x) for x in (q, k, v, power, mask)]
    np.testing.assert_allclose(polarity_attention(*theirs, eps=eps), wanted, **CLOSE)
    like, unlike = polarity_weights(q, k, power, mask, eps=eps)
    np.testing.assert_allclose(
        np.concatenate([like @ v[..., :half], unlike @ v[..., half:]], -1), wanted, **CLOSE
    )


def test_a_power_that_is_no_whole_number():
    q, k, v = np.random.default_rng(5).normal(size=(3, 6, 4))
    np.testing.assert_allclose(polarity_attention(q, k, v, 1.5), by_its_definition(q, k, v, 1.5), **CLOSE)


@BOTH
def test_features_are_the_two_parts_and_their_powers(array):
    x = np.array([[2.0, -3.0, 0.0], [-0.5, 1.0, -1.0]])
    np.testing.assert_allclose(
        polarity_features(array(x), 1), [[2, 0, 0, 0, 3, 0], [0, 1, 0, 0.5, 0, 1]], **CLOSE
    )
    np.testing.assert_allclose(polarity_features(array(x)), polarity_features(x, 1) ** 3, **CLOSE)
    powers = array(np.array([1.0, 2.0, 0.5]))
    np.testing.assert_allclose(
        polarity_features(array(x), powers), [[2, 0, 0, 0, 9, 0], [0, 1, 0, 0.5, 0, 1]], **CLOSE
    )
    assert np.isnan(np.asarray(polarity_features(array(np.array([np.nan])), 2.0))).all()


def test_like_less_unlike_is_the_dot_product():
    q, k, _ = qkv()
    a, b = polarity_features(q, 1), polarity_features(k, 1)
    like, unlike = a @ b.T, np.roll(a, 4, -1) @ b.T
    np.testing.assert_allclose(like - unlike, q @ k.T, **CLOSE)
    np.testing.assert_allclose(like + unlike, abs(q) @ abs(k).T, **CLOSE)


def test_heads_have_powers_of_their_own():
    q, k, v = qkv(2, 3, dv=4)
    power = 1 + np.arange(12.0).reshape(3, 1, 4)
    out = polarity_attention(q, k, v, power)
    for b, h in np.ndindex(2, 3):
        wanted = by_its_definition(q[b, h], k[b, h], v[b, h], power[h, 0])
        np.testing.assert_allclose(out[b, h], wanted, **CLOSE)


@pytest.mark.parametrize("seed", range(5))
def test_a_larger_power_decides_more(seed):
    """The rows' entropies for Gaussian queries and keys: softmax stands between the powers 1 and 3."""
    q, k = np.random.default_rng(seed).normal(size=(2, 128, 16))
    softmax = entropy(attention(q, k, k, return_weights=True)[1]).mean()
    relu = entropy(linear_attention_weights(q, k, feature_map=lambda x: np.maximum(x, 0))).mean()
    for side in zip(*(polarity_weights(q, k, power) for power in (1, 3, 5)), strict=True):
        one, three, five = (entropy(weights).mean() for weights in side)
        assert np.log(128) > one > relu > softmax > three > five


def test_the_order_of_the_tokens_is_not_seen():
    q, k, v = qkv(dv=4)
    order = np.random.default_rng(0).permutation(9)
    out = polarity_attention(q, k, v)
    np.testing.assert_allclose(polarity_attention(q[order], k, v), out[order], **CLOSE)
    np.testing.assert_allclose(polarity_attention(q, k[order], v[order]), out, **CLOSE)


def test_the_rank_is_that_of_the_features():
    q, k = normal(64, 4), normal(64, 4, seed=1)
    for weights in polarity_weights(q, k):
        assert np.linalg.matrix_rank(weights) == 8


@BOTH
def test_padding_changes_nothing_and_a_query_that_sees_nothing_gets_zeros(array):
    q, k, v = qkv(2, dv=4)
    mask = np.arange(9) < np.array([[[5]], [[0]]])
    k[:, 5:], v[:, 5:] = 300.0, 1e30
    for eps in (0.0, 1e-6):
        out = np.asarray(polarity_attention(*map(array, (q, k, v)), 3, array(mask), eps=eps))
        np.testing.assert_allclose(out[0], polarity_attention(q[0], k[0, :5], v[0, :5], eps=eps), **CLOSE)
        assert (out[1] == 0).all()
    one = polarity_attention(array(np.ones((1, 2))), array(np.ones((3, 2))), array(np.ones((3, 2))), eps=0.0)
    assert np.asarray(one).tolist() == [[1, 0]]  # no product has unlike signs


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_by_differences(masked):
    q, k, v = (torch.from_numpy(x).requires_grad_() for x in qkv(2, n_query=3, n_key=4, d=2, dv=2))
    power = torch.tensor([1.5, 3.0], dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[[True, False, True, True]], [[False] * 4]]) if masked else None

    def run(q, k, v, power):
        return polarity_attention(q, k, v, power, mask), *polarity_weights(q, k, power, mask)

    assert torch.autograd.gradcheck(run, (q, k, v, power))
    assert torch.autograd.gradgradcheck(lambda *a: polarity_attention(*a, mask), (q, k, v, power))


@pytest.mark.parametrize("power", [0.5, 1.0, 3.0])
def test_slopes_at_zero_are_zero(power):
    x = torch.tensor([0.0, -0.0, 2.0], dtype=torch.float64, requires_grad=True)
    power = torch.tensor(power, dtype=torch.float64, requires_grad=True)
    slope, by_power = torch.autograd.grad(polarity_features(x, power).sum(), (x, power), create_graph=True)
    assert slope[:2].tolist() == [0, 0]
    torch.testing.assert_close(slope[2], power * 2 ** (power - 1))
    torch.testing.assert_close(by_power, 2**power * np.log(2))
    again = torch.autograd.grad(slope.sum() + by_power, (x, power))
    assert all(g.isfinite().all() for g in again)


@BOTH
def test_half_precision_integers_order_in_memory_and_inputs_unchanged(array):
    q, k, v = qkv(2, n_query=300, n_key=300, dv=4)
    before = [x.copy() for x in (q, k, v)]
    half = [array(x.astype(np.float16)) for x in (q, k, v)]
    out = polarity_attention(*half)
    assert "float16" in str(out.dtype) and "float16" in str(polarity_weights(*half[:2])[0].dtype)
    wanted = polarity_attention(*(x.astype(np.float16).astype(float) for x in (q, k, v)))
    np.testing.assert_allclose(out, wanted, atol=2e-3)
    single = polarity_attention(*(array(x.astype(np.float32)) for x in (q, k, v)), Fraction(3))
    assert "float32" in str(single.dtype)
    np.testing.assert_allclose(single, polarity_attention(q, k, v), atol=1e-5)
    whole = [(3 * x).astype(int) for x in (q, k, v)]
    np.testing.assert_allclose(
        polarity_attention(*map(array, whole)), polarity_attention(*(x.astype(float) for x in whole)),
        atol=1e-5,
    )  # fmt: skip
    odd = [np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2) for x in (q, k, v)]
    np.testing.assert_allclose(polarity_attention(*odd), polarity_attention(q, k, v), **CLOSE)
    for x, old in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, old)


Q, K, V = qkv(2, dv=4)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: polarity_features([1.0]), TypeError, ["x must be a NumPy array"]),
        (lambda: polarity_features(Q, -1), ValueError, ["power must be greater than 0; got -1"]),
        (lambda: polarity_features(Q, "3"), TypeError, ["power must be a number"]),
        (
            lambda: polarity_features(Q, np.ones(3)),
            ValueError,
            ["power must broadcast to x, of shape (2, 9, 4)"],
        ),
        (lambda: polarity_attention(Q, K, V, np.ones((5, 2, 9, 4))), ValueError, ["broadcast to k", "(5, 2"]),
        (lambda: polarity_attention(Q, K, V, torch.ones(4)), TypeError, ["one library", "power from torch"]),
        (lambda: polarity_attention(Q, K, V[..., :3]), ValueError, ["v must have an even number", "got 3"]),
        (lambda: polarity_attention(Q, K, V[:, 1:]), ValueError, ["v must have shape"]),
        (lambda: polarity_attention(Q, K, V, eps=-1.0), ValueError, ["eps must be at least 0"]),
        (lambda: polarity_attention(Q, K, V, mask=np.ones((9, 9), bool)), ValueError, ["mask", "(2, 1, 9)"]),
        (lambda: polarity_weights(Q, K[..., :3]), ValueError, ["k must have shape"]),
        (lambda: polarity_weights(Q, K, mask=np.ones((1, 9))), TypeError, ["mask must be boolean"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

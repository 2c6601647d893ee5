import numpy as np
import pytest
import torch
from drawn import BOTH, normal, qkv
from hypothesis import given
from hypothesis import strategies as st

from attnlib import linear_attention_weights, relu_linear_attention

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def by_its_definition(q, k, v, seen):
    """Query by query, key by key."""
    out = np.zeros((len(q), v.shape[-1]))
    for i, query in enumerate(np.maximum(q, 0)):
        weights = [query @ np.maximum(key, 0) if s else 0.0 for key, s in zip(k, seen, strict=True)]
        out[i] = sum(w * value for w, value in zip(weights, v, strict=True)) / (sum(weights) + 1e-15)
    return out


@given(
    st.integers(1, 9), st.integers(1, 9), st.integers(1, 5), st.integers(1, 4), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_by_its_definition(n_query, n_key, d, dv, padded, seed):
    rng = np.random.default_rng(seed)
    q, k, v = (rng.normal(size=s) for s in ((2, n_query, d), (2, n_key, d), (2, n_key, dv)))
    mask = rng.random((2, 1, n_key)) < 0.6 if padded else None
    seen = np.ones((2, 1, n_key)) if mask is None else mask
    wanted = [by_its_definition(q[b], k[b], v[b], seen[b, 0]) for b in range(2)]
    np.testing.assert_allclose(relu_linear_attention(q, k, v, mask), wanted, **CLOSE)
    theirs = [x if x is None else torch.from_numpy(x) for x in (q, k, v, mask)]
    np.testing.assert_allclose(relu_linear_attention(*theirs), wanted, **CLOSE)
    weights = linear_attention_weights(q, k, mask, feature_map=lambda x: np.maximum(x, 0), eps=1e-15)
    np.testing.assert_allclose(weights @ v, wanted, **CLOSE)


@BOTH
@pytest.mark.parametrize("eps", [0.0, 1e-15])
def test_a_query_without_a_positive_entry_sees_nothing(array, eps):
    q, k, v = qkv(2)
    q[..., 0] = abs(q[..., 0])
    q[:, 4] = -abs(q[:, 4])
    q[:, 5] = 0
    out = np.asarray(relu_linear_attention(*map(array, (q, k, v)), eps=eps))
    assert (out[:, 4:6] == 0).all() and (np.delete(out, [4, 5], 1) != 0).all()
    assert np.isnan(np.asarray(relu_linear_attention(array(q * np.nan), array(k), array(v)))).all()


def test_what_is_negative_in_a_key_is_thrown_away():
    q, k, v = qkv()
    out = relu_linear_attention(q, k, v)
    np.testing.assert_array_equal(relu_linear_attention(q, np.where(k < 0, -1e9, k), v), out)
    np.testing.assert_array_equal(relu_linear_attention(np.where(q < 0, -1e9, q), k, v), out)
    np.testing.assert_allclose(relu_linear_attention(7 * q, k, v), out, **CLOSE)


def test_the_order_of_the_tokens_is_not_seen():
    q, k, v = qkv()
    order = np.random.default_rng(0).permutation(9)
    out = relu_linear_attention(q, k, v)
    np.testing.assert_allclose(relu_linear_attention(q[order], k, v), out[order], **CLOSE)
    np.testing.assert_allclose(relu_linear_attention(q, k[order], v[order]), out, **CLOSE)


def test_no_table_of_all_pairs_is_made():
    """65,536 tokens, as of an image of 256 x 256: all pairs would be 16 gigabytes."""
    q = torch.from_numpy(normal(1, 65_536, 4)).float()
    assert relu_linear_attention(q, q, q).isfinite().all()


def test_sums_of_many_tokens_in_half_precision_do_not_overflow():
    q, k, v = (torch.full((1, 65_536, 4), x, dtype=torch.float16) for x in (8.0, 8.0, 3.0))
    assert 65_536 * 8 > torch.finfo(torch.float16).max
    out = relu_linear_attention(q, k, v)
    assert out.dtype == torch.float16 and (out == 3).all()


@BOTH
def test_types_and_inputs_unchanged(array):
    q, k, v = qkv(2)
    before = [x.copy() for x in (q, k, v)]
    wanted = relu_linear_attention(q, k, v)
    for dtype, atol in ((np.float16, 5e-3), (np.float32, 1e-5)):
        out = relu_linear_attention(*(array(x.astype(dtype)) for x in (q, k, v)))
        assert dtype.__name__ in str(out.dtype)
        np.testing.assert_allclose(out, wanted, atol=atol)
    whole = [np.rint(3 * x).astype(int) for x in (q, k, v)]
    np.testing.assert_allclose(
        relu_linear_attention(*map(array, whole)), relu_linear_attention(*(x.astype(float) for x in whole)),
        atol=1e-5,
    )  # fmt: skip
    odd = [np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2) for x in (q, k, v)]
    np.testing.assert_allclose(relu_linear_attention(*odd), wanted, **CLOSE)
    for x, old in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, old)


def test_gradients_by_differences_and_where_nothing_is_seen():
    q, k, v = (torch.from_numpy(x).requires_grad_() for x in qkv(2, n_query=3, n_key=4, d=2, dv=2))
    mask = torch.tensor([[[True, False, True, True]], [[False] * 4]])
    assert torch.autograd.gradcheck(relu_linear_attention, (abs(q), k, v))
    assert torch.autograd.gradcheck(lambda *a: relu_linear_attention(*a, mask), (abs(q), k, v))
    for dtype in (torch.float64, torch.float32, torch.float16):
        blind = (-abs(q.detach())).to(dtype).requires_grad_()
        keys, values = (x.detach().to(dtype).requires_grad_() for x in (k, v))
        relu_linear_attention(blind, keys, values).sum().backward()
        assert not any(x.grad.any() for x in (blind, keys, values))


Q, K, V = qkv(2)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: relu_linear_attention(Q, K, [1.0]), TypeError, ["v must be a NumPy array"]),
        (lambda: relu_linear_attention(Q, K[..., :3], V), ValueError, ["k must have shape", "d = 4"]),
        (lambda: relu_linear_attention(Q, K, V[:, 1:]), ValueError, ["v must have shape", "Lk = 9"]),
        (lambda: relu_linear_attention(Q, K, V, np.ones((9, 9), bool)), ValueError, ["mask", "(2, 1, 9)"]),
        (lambda: relu_linear_attention(Q, K, V, eps=-1.0), ValueError, ["eps must be at least 0"]),
    ],
    ids=["list", "features", "values", "mask", "eps"],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

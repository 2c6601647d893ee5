from functools import partial

import numpy as np
import pytest
import torch
from drawn import BOTH, normal, qkv
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import (
    attention,
    causal_mask,
    elu_plus_one,
    linear_attention,
    linear_attention_step,
    linear_attention_weights,
    padding_mask,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def tensors(arrays, grad=False):
    return [torch.from_numpy(np.array(x)).requires_grad_(grad) for x in arrays]


def phi(x):
    """From the formula, and for numbers of moderate size."""
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def explicit(q, k, v, seen=True, eps=1e-6, normalize=True):
    """Every pair by itself; ``seen`` says which pairs count."""
    products = np.where(seen, np.einsum("...id,...jd->...ij", phi(q), phi(k)), 0)
    above = np.einsum("...ij,...jd->...id", products, v)
    return above / (products.sum(-1)[..., None] + eps) if normalize else above


# The golden file


@BOTH
def test_agrees_with_the_golden_file(golden, array):
    g = golden("linear_attention")
    q, k, v, cq, ck, cv = (array(np.swapaxes(g[f"in_{name}"], 1, 2)) for name in "q k v cq ck cv".split())
    np.testing.assert_allclose(linear_attention(q, k, v), np.swapaxes(g["out_full"], 1, 2), **CLOSE)
    mask = array(np.arange(8) < g["in_key_lengths"][:, None, None, None])
    np.testing.assert_allclose(
        linear_attention(q, k, v, mask), np.swapaxes(g["out_full_keymask"], 1, 2), **CLOSE
    )
    for size in (1, 3, 8, 64):
        out, (S, z) = linear_attention(cq, ck, cv, causal=True, chunk_size=size, return_state=True)
        np.testing.assert_allclose(out, np.swapaxes(g["out_causal"], 1, 2), **CLOSE)
        np.testing.assert_allclose(S, g["out_state_S"], **CLOSE)
        np.testing.assert_allclose(z, g["out_state_z"], **CLOSE)
    weights = linear_attention_weights(cq, ck, causal=True)
    np.testing.assert_allclose(weights @ cv, np.swapaxes(g["out_causal"], 1, 2), **CLOSE)
    state = None
    for i in range(8):
        out, state = linear_attention_step(cq[..., i, :], ck[..., i, :], cv[..., i, :], state)
        np.testing.assert_allclose(out, g["out_causal"][:, i], **CLOSE)
    for sums, name in zip(state, "Sz", strict=True):
        np.testing.assert_allclose(sums, g[f"out_state_{name}"], **CLOSE)


def test_gradients_agree_with_the_golden_file(golden):
    g = golden("linear_attention")
    inputs = tensors([np.swapaxes(g[f"in_{name}"], 1, 2) for name in "qkv"], grad=True)
    upstream = torch.from_numpy(np.swapaxes(g["in_do"], 1, 2).copy())
    for name, gradient in zip("qkv", torch.autograd.grad(linear_attention(*inputs), inputs, upstream),
                              strict=True):  # fmt: skip
        np.testing.assert_allclose(gradient, np.swapaxes(g[f"g_{name}"], 1, 2), **CLOSE)


@BOTH
def test_reaches_the_form_without_a_feature_map(golden, array):
    g = golden("linear_attention")
    q, k, v = (array(np.swapaxes(g[f"in_{name}"], 1, 2)) for name in ("cq", "ck", "cv"))
    close = {"rtol": 1e-5, "atol": 1e-5}
    out = linear_attention(q, k, v, causal=True, feature_map=None, eps=1e-10)
    np.testing.assert_allclose(out, np.swapaxes(g["fla_norm_raw"], 1, 2), **close)
    plain = {"feature_map": None, "normalize": False}
    out, state = linear_attention(q / 2, k, v, causal=True, return_state=True, **plain)
    np.testing.assert_allclose(out, np.swapaxes(g["fla_unnorm"], 1, 2), **close)
    np.testing.assert_allclose(state[0], g["fla_unnorm_state"], **close)
    assert state[1] is None
    state = None
    for i in range(8):
        out, state = linear_attention_step(q[..., i, :] / 2, k[..., i, :], v[..., i, :], state, **plain)
        np.testing.assert_allclose(out, g["fla_unnorm"][:, i], **close)


# The explicit form


SIZES = st.integers(1, 40), st.integers(1, 40), st.integers(1, 50), st.sampled_from([(), (2,), (2, 3)])


@given(*SIZES, st.booleans(), st.booleans(), st.booleans(), st.integers(0, 99))
def test_is_the_explicit_form(n_query, n_key, size, before, causal, normalize, padded, seed):
    q, k, v = qkv(*before, n_query=n_query, n_key=n_key)
    seen = causal_mask(n_query, n_key) if causal else np.ones((n_query, n_key), bool)
    mask = None
    if padded:
        rng = np.random.default_rng(seed)
        mask = rng.random([n if rng.random() < 0.5 else 1 for n in before] + [1, n_key]) < 0.6
        seen = seen & mask
    wanted = explicit(q, k, v, seen, normalize=normalize)
    settings = {"causal": causal, "normalize": normalize, "chunk_size": size}
    got = linear_attention(q, k, v, mask, **settings)
    np.testing.assert_allclose(got, wanted, **CLOSE)
    assert got.shape == wanted.shape
    for grad in (False, True):
        theirs = linear_attention(*tensors((q, k, v), grad), mask if mask is None else torch.from_numpy(mask),
                                  **settings)  # fmt: skip
        np.testing.assert_allclose(theirs.detach(), wanted, **CLOSE)
    if normalize:
        weights = linear_attention_weights(q, k, mask, causal=causal)
        np.testing.assert_allclose(weights @ v, wanted, **CLOSE)
        assert (weights[~np.broadcast_to(seen, weights.shape)] == 0).all()


@settings(max_examples=40)
@given(*SIZES, st.booleans(), st.booleans())
def test_gradients_are_those_of_the_explicit_form(n_query, n_key, size, before, causal, normalize):
    inputs = tensors(qkv(*before, n_query=n_query, n_key=n_key), grad=True)
    mask = torch.from_numpy(normal(1, n_key, seed=3) < 0.7)
    upstream = torch.from_numpy(normal(*before, n_query, 3, seed=4))
    q, k, v = inputs
    products = (torch.nn.functional.elu(q) + 1) @ (torch.nn.functional.elu(k) + 1).mT * mask
    if causal:
        products = products * torch.from_numpy(causal_mask(n_query, n_key))
    wanted = products @ v / (products.sum(-1, keepdim=True) + 1e-6 if normalize else 1)
    got = linear_attention(q, k, v, mask, causal=causal, normalize=normalize, chunk_size=size)
    for a, b in zip(*(torch.autograd.grad(out, inputs, upstream) for out in (got, wanted)), strict=True):
        np.testing.assert_allclose(a, b, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_by_differences_through_a_state_and_at_an_empty_row(causal):
    q, k, v = tensors(qkv(2, n_query=5, n_key=5, d=2, dv=2), grad=True)
    state = tensors((normal(2, 2, 2, seed=5), abs(normal(2, 2, seed=6))), grad=True)
    hidden = torch.zeros(1, 5, dtype=torch.bool)

    def read(q, k, v, S, z):
        out, after = linear_attention(q, k, v, causal=causal, chunk_size=2, state=(S, z), return_state=True)
        empty = linear_attention(q, k, v, hidden, causal=causal)
        return out, *after, empty, linear_attention(q, k, v, causal=True, feature_map=None, normalize=False)

    assert torch.autograd.gradcheck(read, (q, k, v, *state))
    assert torch.autograd.gradgradcheck(
        partial(linear_attention, causal=causal, chunk_size=2), (q[:1], k[:1], v[:1])
    )


# Three forms, one state


@given(st.integers(1, 60), st.lists(st.integers(1, 59), max_size=6), st.integers(1, 20), st.booleans())
def test_a_sequence_may_be_read_in_pieces(n, cuts, size, normalize):
    q, k, v = qkv(2, n_query=n, n_key=n)
    whole, after = linear_attention(q, k, v, causal=True, normalize=normalize, return_state=True)
    cuts = sorted({0, n, *(cut for cut in cuts if cut < n)})
    for arrays in ((q, k, v), tensors((q, k, v))):
        state, outs = None, []
        for start, end in zip(cuts, cuts[1:], strict=False):
            piece = (x[..., start:end, :] for x in arrays)
            if end - start == 1:
                q1, k1, v1 = (x[..., 0, :] for x in piece)
                out, state = linear_attention_step(q1, k1, v1, state, normalize=normalize)
                out = out[..., None, :]
            else:
                out, state = linear_attention(*piece, causal=True, normalize=normalize, chunk_size=size,
                                              state=state, return_state=True)  # fmt: skip
            outs.append(np.asarray(out))
        np.testing.assert_allclose(np.concatenate(outs, -2), whole, **CLOSE)
        for a, b in zip(state, after, strict=True):
            assert (a is b is None) or np.testing.assert_allclose(a, b, **CLOSE) is None


def test_a_state_is_seen_by_every_query():
    q, k, v = qkv(2, n_query=3, n_key=9)
    _, state = linear_attention(q, k[:, :4], v[:, :4], return_state=True)
    before = [x.copy() for x in state]
    out = linear_attention(q, k[:, 4:], v[:, 4:], state=state)
    np.testing.assert_allclose(out, linear_attention(q, k, v), **CLOSE)
    more = linear_attention(normal(2, 7, 4), k[:, 4:], v[:, 4:], causal=True, state=state)
    alone = phi(normal(2, 7, 4)[:, :2])  # no key is left for the first two but those of the state
    np.testing.assert_allclose(more[:, :2], alone @ state[0] / (alone @ state[1][..., None] + 1e-6), **CLOSE)
    linear_attention_step(q[:, 0], k[:, 0], v[:, 0], state)
    for x, old in zip(state, before, strict=True):
        np.testing.assert_array_equal(x, old)


def test_later_keys_change_nothing():
    q, k, v = qkv(2, n_query=40, n_key=40)
    out = linear_attention(q, k, v, causal=True, chunk_size=16)
    k[:, 21:], v[:, 21:] = 1e6, -1e6
    np.testing.assert_array_equal(linear_attention(q, k, v, causal=True, chunk_size=16)[:, :21], out[:, :21])


@pytest.mark.parametrize(
    "before, length", [((), 3), ((), 7), ((1,), 1), ((5,), 5), ((2, 3), 11), ((1, 4), 19), ((2, 1, 3), 6)]
)
@pytest.mark.parametrize("low", [0.0, -3.0])
def test_row_by_row_for_any_axes_before(before, length, low):
    """Each row by its own loop, of a plain call; one key is large, and the others may be far below 0."""
    q, k, v = qkv(*before, n_query=length, n_key=length)
    k = k + low
    k[..., -1, 0] = 900.0
    out = linear_attention(q, k, v, causal=True, eps=0.0)
    assert out.shape == v.shape
    for at in np.ndindex(*before):
        for i in range(length):
            weights = [phi(q[at][i]) @ phi(k[at][j]) for j in range(i + 1)]
            row = sum(w * v[at][j] for j, w in enumerate(weights)) / sum(weights)
            np.testing.assert_allclose(out[at][i], row, **CLOSE)


def test_a_state_of_the_whole_sequence_costs_no_more_than_that_of_one_token():
    q, k, v = qkv(2, 3, n_query=50, n_key=50)
    _, (S, z) = linear_attention(q, k, v, causal=True, return_state=True)
    assert S.shape == (2, 3, 4, 3) and z.shape == (2, 3, 4)


# Feature maps


@BOTH
def test_elu_plus_one(array):
    x = np.array([-1e4, -50.0, -20.0, -1.0, 0.0, 1e-9, 2.0, 1e4])
    wanted = [0, np.exp(-50), np.exp(-20), np.exp(-1), 1, 1 + 1e-9, 3, 1e4 + 1]
    np.testing.assert_allclose(elu_plus_one(array(x)), wanted, rtol=1e-14)
    small = elu_plus_one(array(x[1:4].astype(np.float32)))
    np.testing.assert_allclose(small, wanted[1:4], rtol=1e-5)  # elu(x) + 1 is 0 or 6e-8 there
    assert elu_plus_one(array(np.array([0, 3]))).tolist() == [1, 4]


def test_the_slope_of_elu_plus_one():
    x = torch.tensor([-30.0, -1.0, 0.0, 2.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(elu_plus_one(x).sum(), x)
    np.testing.assert_allclose(slope, np.exp([-30, -1, 0, 0]), rtol=1e-14)


def test_another_feature_map_may_have_more_features():
    q, k, v = qkv(2)

    def square(x):
        """The features of the kernel ``(x . y)**2``."""
        return (x[..., :, None] * x[..., None, :]).reshape(*x.shape[:-1], -1)

    products = np.tril((q @ k.mT) ** 2)
    wanted = products @ v / (products.sum(-1, keepdims=True) + 1e-6)
    for size in (2, 64):
        out, (S, _) = linear_attention(q, k, v, causal=True, feature_map=square, chunk_size=size,
                                       return_state=True)  # fmt: skip
        np.testing.assert_allclose(out, wanted, **CLOSE)
        assert S.shape == (2, 16, 3)


def test_the_exponential_has_no_few_features():
    """Products of features have the rank of their number; the softmax's weights have not."""
    q, k = normal(128, 8), normal(128, 8, seed=1)
    rank = np.linalg.matrix_rank
    assert rank(phi(q) @ phi(k).T) == rank(linear_attention_weights(q, k)) == 8
    assert rank(attention(q, k, k, return_weights=True)[1]) > 100


# Types, empty rows, inputs


@BOTH
@pytest.mark.parametrize("causal", [False, True])
def test_an_empty_row_is_zero_whatever_is_hidden(array, causal):
    q, k, v = qkv(2)
    mask = padding_mask(np.array([[1] * 5 + [0] * 4, [0] * 9]))[:, 0]
    k[mask.mT[..., 0] == 0], v[mask.mT[..., 0] == 0] = 300.0, 1e30
    arrays = list(map(array, (q, k, v, mask)))
    for eps in (0.0, 1e-6):
        out = np.asarray(linear_attention(*arrays, causal=causal, eps=eps))
        assert (out[1] == 0).all()
        seen = mask & causal_mask(9) if causal else mask
        np.testing.assert_allclose(out[0], explicit(q[0], k[0], v[0], seen[0], eps), **CLOSE)
        weights = linear_attention_weights(*arrays[:2], arrays[3], causal=causal, eps=eps)
        np.testing.assert_allclose(np.asarray(weights).sum(-1), [[1] * 9, [0] * 9], atol=1e-5)


@BOTH
def test_queries_before_the_first_key_see_nothing(array):
    q, k, v = map(array, qkv(n_query=5, n_key=2))
    out = np.asarray(linear_attention(q, k, v, causal=True, eps=0.0))
    assert (out[:3] == 0).all() and (out[3:] != 0).all()


@BOTH
def test_half_precision_and_integers_and_inputs_unchanged(array):
    q, k, v = qkv(2, n_query=300, n_key=300)
    before = [x.copy() for x in (q, k, v)]
    half = [array(x.astype(np.float16)) for x in (q, k, v)]
    out, state = linear_attention(*half, causal=True, return_state=True)
    assert "float16" in str(out.dtype) and {str(x.dtype)[-7:] for x in state} == {"float32"}
    wanted = explicit(*(x.astype(np.float16).astype(float) for x in (q, k, v)), causal_mask(300))
    np.testing.assert_allclose(out, wanted, atol=2e-3)
    out, _ = linear_attention_step(*(x[:, 0] for x in half), state)
    assert "float16" in str(out.dtype)
    whole = [(3 * x).astype(int) for x in (q, k, v)]
    out = linear_attention(*map(array, whole), causal=True)
    np.testing.assert_allclose(out, explicit(*whole, causal_mask(300)), atol=1e-4)
    linear_attention(*map(array, (q, k, v)), array(np.arange(300)[None] < 200), causal=True)
    for x, old in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, old)


def test_bfloat16_and_float32():
    inputs = tensors(qkv(2, n_query=200, n_key=200))
    wanted = linear_attention(*inputs, causal=True)
    out = linear_attention(*(x.bfloat16() for x in inputs), causal=True)
    assert out.dtype == torch.bfloat16
    np.testing.assert_allclose(out.double(), wanted, atol=3e-2)
    out = linear_attention(*(x.float() for x in inputs), causal=True)
    assert out.dtype == torch.float32
    np.testing.assert_allclose(out, wanted, atol=2e-6)


def test_arrays_that_do_not_lie_in_order():
    q, k, v = (x[::-1].swapaxes(0, 1)[..., ::2] for x in qkv(9, d=8, dv=6))
    wanted = explicit(q, k, v, causal_mask(9))
    np.testing.assert_allclose(linear_attention(q, k, v, causal=True, chunk_size=4), wanted, **CLOSE)
    shuffled = [torch.from_numpy(x.swapaxes(-1, -2).copy()).mT for x in (q, k, v)]
    for grad in (False, True):
        out = linear_attention(*(x.requires_grad_(grad) for x in shuffled), causal=True, chunk_size=2)
        np.testing.assert_allclose(out.detach(), wanted, **CLOSE)


Q, K, V = qkv(2)
STATE = np.zeros((2, 4, 3)), np.zeros((2, 4))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: linear_attention(Q, [[1.0]], V), TypeError, ["k must be a NumPy array", "list"]),
        (lambda: linear_attention(Q, K[..., :3], V), ValueError, ["k must have shape", "d = 4"]),
        (lambda: linear_attention(Q, K, V[:, 1:]), ValueError, ["v must have shape", "Lk = 9"]),
        (lambda: linear_attention(Q, K, V, np.ones((9, 9), bool)), ValueError, ["mask", "(2, 1, 9)"]),
        (lambda: linear_attention(Q, K, V, np.ones((1, 9))), TypeError, ["mask must be boolean"]),
        (lambda: linear_attention(Q, K, V, torch.ones(1, 9) > 0), TypeError, ["one library"]),
        (lambda: linear_attention(Q, K, V, causal=1), TypeError, ["causal must be True or False; got 1"]),
        (lambda: linear_attention(Q, K, V, normalize=None), TypeError, ["normalize must be True or False"]),
        (lambda: linear_attention(Q, K, V, eps=-1.0), ValueError, ["eps must be at least 0", "-1.0"]),
        (lambda: linear_attention(Q, K, V, eps="0"), TypeError, ["eps must be a number"]),
        (lambda: linear_attention(Q, K, V, chunk_size=0), ValueError, ["chunk_size must be at least 1"]),
        (lambda: linear_attention(Q, K, V, feature_map="elu"), TypeError, ["feature_map", "'elu'"]),
        (
            lambda: linear_attention(Q, K, V, feature_map=lambda x: None),
            TypeError,
            ["feature_map(x) must be a NumPy array", "NoneType"],
        ),
        (
            lambda: linear_attention_weights(Q, K, feature_map=lambda x: x[:, :1]),
            ValueError,
            ["features of each position, (2, 9, 'm')", "got shape (2, 1, 4)"],
        ),
        (lambda: linear_attention(Q, K, V, state=STATE[0]), TypeError, ["state must be a pair (S, z)"]),
        (lambda: linear_attention(Q, K, V, state=(STATE[0], None)), TypeError, ["a pair (S, z)"]),
        (lambda: linear_attention(Q, K, V, state=STATE, normalize=False), TypeError, ["a pair (S, None)"]),
        (
            lambda: linear_attention(Q, K, V, state=(STATE[0][:, :2], STATE[1])),
            ValueError,
            ["S of the state must have shape (2, 4, 3); got (2, 2, 3)"],
        ),
        (
            lambda: linear_attention_step(Q[:, 0], K[:, 0], V[:, 0], (STATE[0], STATE[1][0])),
            ValueError,
            ["z of the state must have shape (2, 4); got (4,)"],
        ),
        (lambda: linear_attention_step(Q[:, 0], K[:, 0, :3], V[:, 0]), ValueError, ["k must have shape"]),
        (lambda: linear_attention_weights(Q, K, causal="yes"), TypeError, ["causal must be True or False"]),
        (lambda: elu_plus_one([1.0]), TypeError, ["x must be a NumPy array"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

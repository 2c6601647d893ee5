import numpy as np
import pytest
import torch
from drawn import BOTH, assert_same_gradients, normal, qkv
from hypothesis import given
from hypothesis import strategies as st

from attnlib import (
    RMSNorm,
    attention,
    blocks,
    causal,
    diag_attention,
    elu_plus_one,
    linear_attention,
    linear_attention_step,
    merge_heads,
    norm_attention,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def normed(x, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


# The norm in place of the denominator


@given(
    st.integers(1, 12), st.integers(1, 12), st.sampled_from([(), (2,), (2, 3)]), st.booleans(), st.booleans()
)
def test_norm_attention_is_its_formula(n_query, n_key, before, is_causal, padded):
    q, k, v = qkv(*before, n_query=n_query, n_key=n_key)
    mask = normal(1, n_key, seed=3) < 0.5 if padded else None
    seen = np.tri(n_query, n_key, n_key - n_query) if is_causal else np.ones((n_query, n_key))
    seen = seen * (1 if mask is None else mask)
    wanted = normed((elu_plus_one(q) @ elu_plus_one(k).mT * seen) @ v)
    np.testing.assert_allclose(norm_attention(q, k, v, mask, causal=is_causal), wanted, **CLOSE)
    mask = None if mask is None else torch.from_numpy(mask)
    theirs = norm_attention(*map(torch.from_numpy, (q, k, v)), mask, causal=is_causal)
    np.testing.assert_allclose(theirs, wanted, **CLOSE)


def test_causal_norm_attention_is_the_recurrence():
    q, k, v = qkv(2, 3)
    whole, state = norm_attention(q, k, v, causal=True), None
    for i in range(9):
        tokens = (x[..., i, :] for x in (q, k, v))
        out, state = linear_attention_step(*tokens, state, normalize=False)
        np.testing.assert_allclose(normed(out), whole[..., i, :], **CLOSE)


@given(st.floats(1e-3, 1e3))
def test_the_length_of_a_query_does_not_matter(factor):
    q, k, v = abs(qkv(2)[0]) + 0.1, *qkv(2)[1:]
    plain = norm_attention(q, k, v, feature_map=None, eps=0.0)
    np.testing.assert_allclose(norm_attention(q * factor, k, v, feature_map=None, eps=0.0), plain, **CLOSE)
    rows = np.linspace(0.5, 2, 9)[:, None]
    np.testing.assert_allclose(norm_attention(q * rows, k, v, feature_map=None, eps=0.0), plain, **CLOSE)
    np.testing.assert_allclose((plain**2).mean(-1), 1)


def test_the_gradient_stays_where_that_of_the_quotient_grows():
    """Features of all keys near 0: the quotient looks at their ratio, the norm sees that they are small."""
    k = torch.full((3, 2), 1.0, dtype=torch.float64)
    v = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    slopes = {}
    for form in (linear_attention, norm_attention):
        for small in (1e-2, 1e-6, 1e-10):
            keys = (small * k).requires_grad_()
            settings = {"eps": 0.0} if form is linear_attention else {"eps": 1e-6}
            out = form(torch.ones(1, 2, dtype=torch.float64), keys, v, feature_map=None, **settings)
            slopes[form, small] = torch.autograd.grad(out[0, 0], keys)[0].abs().max().item()
    assert slopes[linear_attention, 1e-10] > 1e3 * slopes[linear_attention, 1e-6] > 1e6
    assert max(slopes[norm_attention, small] for small in (1e-2, 1e-6, 1e-10)) < 2 / 1e-6**0.5


def test_the_authors_norm_over_joined_heads():
    q, k, v = map(torch.from_numpy, qkv(2, 3))
    layer = RMSNorm(9, eps=1e-6, dtype=torch.float64)
    joined = merge_heads(linear_attention(q, k, v, causal=True, normalize=False))
    out = layer(joined).unflatten(-1, (3, 3)).transpose(1, 2)
    ours = norm_attention(q, k, v, causal=True, eps=0.0)
    ratio = (out / ours).detach()
    np.testing.assert_allclose(ratio, ratio[..., :1].expand_as(ratio), rtol=1e-9)  # one factor for each head
    assert ratio.std() > 0.1


@given(
    st.integers(1, 12), st.integers(1, 12), st.sampled_from([(), (2,), (2, 3)]), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_gradients_of_norm_attention_are_those_of_its_formula(n_query, n_key, before, is_causal, seed):
    q, k, v = inputs = [
        torch.from_numpy(x).requires_grad_() for x in qkv(*before, n_query=n_query, n_key=n_key)
    ]
    mask = torch.from_numpy(normal(1, n_key, seed=seed) < 0.7)
    seen = mask.expand(n_query, n_key).tril(n_key - n_query) if is_causal else mask
    phi_q, phi_k = (torch.nn.functional.elu(x) + 1 for x in (q, k))
    out = torch.where(seen, phi_q @ phi_k.mT, 0) @ v
    wanted = out / (out.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    got = norm_attention(*inputs, mask, causal=is_causal)
    assert_same_gradients(got, wanted, inputs, **CLOSE)


# Softmax within blocks


@given(
    st.integers(1, 20), st.integers(1, 25), st.sampled_from([(), (2,), (2, 3)]), st.booleans(), st.booleans()
)
def test_diag_attention_is_attention_with_the_mask_of_blocks(n, size, before, is_causal, padded):
    q, k, v = qkv(*before, n_query=n, n_key=n)
    pattern = blocks(size) & causal if is_causal else blocks(size)
    mask, seen = None, pattern.mask(n)
    if padded:
        mask = normal(*[1 for _ in before], 1, n, seed=3) < 0.5
        seen = seen & mask
    wanted = attention(q, k, v, seen)
    got = diag_attention(q, k, v, mask, block_size=size, causal=is_causal)
    np.testing.assert_allclose(got, wanted, **CLOSE)
    assert got.shape == wanted.shape
    mask = None if mask is None else torch.from_numpy(mask)
    theirs = diag_attention(*map(torch.from_numpy, (q, k, v)), mask, block_size=size, causal=is_causal)
    np.testing.assert_allclose(theirs, wanted, **CLOSE)


@given(
    st.integers(1, 20), st.integers(1, 25), st.sampled_from([(), (2,), (2, 3)]), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_gradients_of_diag_attention_are_those_of_the_explicit_form(n, size, before, is_causal, seed):
    inputs = [torch.from_numpy(x).requires_grad_() for x in qkv(*before, n_query=n, n_key=n)]
    mask = torch.from_numpy(normal(*[1 for _ in before], 1, n, seed=seed) < 0.7)
    seen = (blocks(size) & causal if is_causal else blocks(size)).mask(n, like=mask) & mask
    wanted = attention(*inputs, seen, return_weights=True)[0]
    got = diag_attention(*inputs, mask, block_size=size, causal=is_causal)
    assert_same_gradients(got, wanted, inputs, **CLOSE)


def test_nothing_passes_from_one_block_to_the_next():
    q, k, v = qkv(2)
    out = diag_attention(q, k, v, block_size=4)
    k[:, 4:8], v[:, 4:8] = 5.0, 1e6
    changed = (diag_attention(q, k, v, block_size=4) != out).any((0, 2))
    np.testing.assert_array_equal(changed, [False] * 4 + [True] * 4 + [False])


def test_the_scale_is_that_of_attention():
    q, k, v = qkv(n_query=4, n_key=4)
    out = diag_attention(q, k, v, block_size=4, scale=2.0)
    np.testing.assert_allclose(out, attention(q, k, v, scale=2.0), **CLOSE)


# Both


def test_gradients():
    inputs = [torch.from_numpy(x).requires_grad_() for x in qkv(2, n_query=5, n_key=5, d=2, dv=2)]
    mask = torch.tensor([[True, False, True, True, True]])
    none = torch.zeros(1, 5, dtype=torch.bool)
    for is_causal in (False, True):
        assert torch.autograd.gradcheck(
            lambda q, k, v, c=is_causal: (
                norm_attention(q, k, v, mask, causal=c),
                norm_attention(q, k, v, none, causal=c),
                diag_attention(q, k, v, mask, block_size=2, causal=c),
                diag_attention(q, k, v, none, block_size=2, causal=c),
            ),
            inputs,
        )


@BOTH
@pytest.mark.parametrize("form", [norm_attention, diag_attention])
def test_types_empty_rows_and_inputs_unchanged(form, array):
    q, k, v = qkv(2)
    before = [x.copy() for x in (q, k, v)]
    wanted = form(q, k, v, causal=True)
    half = form(*(array(x.astype(np.float16)) for x in (q, k, v)), causal=True)
    assert "float16" in str(half.dtype)
    np.testing.assert_allclose(half, wanted, atol=5e-3)
    whole = [np.rint(2 * x).astype(int) for x in (q, k, v)]
    np.testing.assert_allclose(form(*map(array, whole)), form(*(x.astype(float) for x in whole)), atol=1e-5)
    odd = [np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2) for x in (q, k, v)]
    np.testing.assert_allclose(form(*odd, causal=True), wanted, **CLOSE)
    out = np.asarray(form(*map(array, (q, k, v, np.zeros((1, 9), bool)))))
    assert (out == 0).all()
    if form is norm_attention:
        assert (np.asarray(form(*map(array, (q, k, v, np.zeros((1, 9), bool))), eps=0.0)) == 0).all()
    for x, old in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, old)


Q, K, V = qkv(2)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: norm_attention(Q, K, V[:, 1:]), ValueError, ["v must have shape"]),
        (lambda: norm_attention(Q, K, V, eps=-1.0), ValueError, ["eps must be at least 0"]),
        (lambda: norm_attention(Q, K, V, causal=None), TypeError, ["causal must be True or False"]),
        (lambda: norm_attention(Q, K, V, np.ones((9, 9), bool)), ValueError, ["mask", "(2, 1, 9)"]),
        (lambda: diag_attention(Q, K[:, 1:], V), ValueError, ["k must have shape", "L = 9"]),
        (lambda: diag_attention(Q, K, V, block_size=0), ValueError, ["block_size must be at least 1"]),
        (lambda: diag_attention(Q, K, V, causal=1), TypeError, ["causal must be True or False"]),
        (lambda: diag_attention(Q, K, V, np.ones((9, 9), bool)), ValueError, ["mask", "(2, 1, 9)"]),
        (lambda: diag_attention(Q, K, V, np.ones((1, 9))), TypeError, ["mask must be boolean"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

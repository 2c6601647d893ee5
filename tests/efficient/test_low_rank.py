from functools import partial

import drawn
import numpy as np
import pytest
import torch
from drawn import assert_same_gradients, normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import attention, linformer_attention

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
qkv = partial(drawn.qkv, n_query=5, n_key=7)


@given(
    st.integers(1, 6), st.integers(1, 8), st.integers(1, 9), st.sampled_from([(), (2,), (2, 3)]),
    st.integers(0, 99),
)  # fmt: skip
def test_by_its_definition(n_query, n_key, r, before, seed):
    q, k, v = qkv(*before, n_query=n_query, n_key=n_key)
    rng = np.random.default_rng(seed)
    lead = [n if rng.random() < 0.5 else 1 for n in before][rng.integers(len(before) + 1) :]
    e, f = rng.normal(size=(*lead, r, n_key)), rng.normal(size=(r, n_key))
    scores = np.einsum("...qd,...rd->...qr", q, e @ k) / 2
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    wanted = np.einsum("...qr,...rv->...qv", weights, f @ v)
    tensors = [torch.from_numpy(x) for x in (q, k, v, e, f)]
    for inputs in ((q, k, v, e, f), tensors):
        out, got = linformer_attention(*inputs, return_weights=True)
        np.testing.assert_allclose(got, weights, **CLOSE)
        np.testing.assert_allclose(out, wanted, **CLOSE)
        np.testing.assert_allclose(linformer_attention(*inputs), wanted, **CLOSE)


def test_with_nothing_mixed_it_is_attention(lib):
    q, k, v = qkv(2)
    eye = lib.array(np.eye(7))
    got = linformer_attention(*map(lib.array, (q, k, v)), eye, eye, scale=0.3)
    np.testing.assert_allclose(lib.numpy(got), attention(q, k, v, scale=0.3), **CLOSE)


@given(
    st.integers(1, 6), st.integers(1, 8), st.integers(1, 9), st.sampled_from([(), (2,), (2, 3)]),
    st.integers(0, 99),
)  # fmt: skip
def test_gradients_are_those_of_the_explicit_form(n_query, n_key, r, before, seed):
    rng = np.random.default_rng(seed)
    lead = [n if rng.random() < 0.5 else 1 for n in before][rng.integers(len(before) + 1) :]
    arrays = [*qkv(*before, n_query=n_query, n_key=n_key), rng.normal(size=(*lead, r, n_key)),
              rng.normal(size=(r, n_key))]  # fmt: skip
    q, k, v, e, f = inputs = [torch.from_numpy(x).requires_grad_() for x in arrays]
    wanted = torch.softmax(q @ (e @ k).mT / 2, -1) @ (f @ v)
    assert_same_gradients(linformer_attention(*inputs), wanted, inputs, **CLOSE)


def test_types_views_and_inputs(lib):
    arrays = [*qkv(2), normal(3, 7, seed=3), normal(3, 7, seed=4)]
    old, wanted = [x.copy() for x in arrays], linformer_attention(*arrays)
    half = linformer_attention(*[lib.array(x.astype(np.float16)) for x in arrays], return_weights=True)
    assert all(lib.numpy(x).dtype == np.float16 for x in half)
    np.testing.assert_allclose(lib.numpy(half[0]), wanted, atol=5e-2)
    whole = [(3 * x).astype(int) for x in arrays]
    got = lib.numpy(linformer_attention(*map(lib.array, whole)))
    assert got.dtype == (np.float64 if lib.name == "numpy" else np.float32)
    np.testing.assert_allclose(got, linformer_attention(*[x.astype(float) for x in whole]), atol=1e-4)
    views = [lib.array(np.repeat(x, 2, -1))[..., ::2] for x in arrays]
    np.testing.assert_allclose(lib.numpy(linformer_attention(*views)), wanted, **CLOSE)
    for x, before in zip(arrays, old, strict=True):
        np.testing.assert_array_equal(x, before)


Q, K, V = qkv(2, 3)
E = normal(4, 7)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: linformer_attention(Q, K, V, E, E, causal=True), ValueError, ["cannot be causal", "True"]),
        (
            lambda: linformer_attention(Q, K, V, E.T, E),
            ValueError,
            ["e must have shape (..., r, 7)", "(7, 4)"],
        ),
        (lambda: linformer_attention(Q, K, V, E, E[0]), ValueError, ["f must have shape", "(7,)"]),
        (lambda: linformer_attention(Q, K, V, E[:0], E), ValueError, ["e must have", "not empty"]),
        (lambda: linformer_attention(Q, K, V, E, E[:3]), ValueError, ["equally many rows", "(3, 7)"]),
        (
            lambda: linformer_attention(Q, K, V, normal(2, 4, 7), E),
            ValueError,
            ["leading axes of e", "(2, 3)", "(2, 4, 7)"],
        ),
        (lambda: linformer_attention(Q, K, V, E.tolist(), E), TypeError, ["e must be a NumPy array"]),
        (lambda: linformer_attention(Q, K, V, E, torch.from_numpy(E)), TypeError, ["one library"]),
        (lambda: linformer_attention(Q, K[0], V, E, E), ValueError, ["k must have the leading axes of q"]),
        (lambda: linformer_attention(Q, K, V[..., 1:, :], E, E), ValueError, ["v must have", "Lk = 7"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

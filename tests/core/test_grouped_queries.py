import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from attnlib import attention, causal_mask, grouped_query_attention


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def qkv(*before, heads=6, kv_heads=2, n_query=4, n_key=5, d=8, dv=3):
    return (normal(*before, heads, n_query, d), normal(*before, kv_heads, n_key, d, seed=1),
            normal(*before, kv_heads, n_key, dv, seed=2))  # fmt: skip


def repeated(q, k, v, mask=None, **settings):
    """As its definition says: each key head as often as it is used."""
    times = q.shape[-3] // k.shape[-3]
    return attention(q, np.repeat(k, times, -3), np.repeat(v, times, -3), mask, **settings)


def test_agrees_with_the_golden_file(golden, lib):
    g = golden("gqa_mqa_sdpa")
    q, k, v = (lib.array(g[f"in_{name}"]) for name in "qkv")
    for way in ({}, {"return_weights": True}):
        for kv_heads, name in ((2, "gqa"), (1, "mqa")):
            out = grouped_query_attention(q, k[:, :kv_heads], v[:, :kv_heads], causal=True, **way)
            out = out[0] if way else out
            np.testing.assert_allclose(lib.numpy(out), g[f"out_{name}"], rtol=1e-10, atol=1e-12)


def test_gradients_agree_with_the_golden_file(golden):
    g = golden("gqa_mqa_sdpa")
    for way in ({}, {"return_weights": True}):
        inputs = [torch.from_numpy(g[f"in_{name}"]).requires_grad_() for name in "qkv"]
        out = grouped_query_attention(*inputs, causal=True, **way)
        gradients = torch.autograd.grad(out[0] if way else out, inputs, torch.from_numpy(g["in_do"]))
        for name, gradient in zip("qkv", gradients, strict=True):
            np.testing.assert_allclose(gradient, g[f"g_{name}"], rtol=1e-10, atol=1e-12)


def test_query_heads_share_as_metas_repeated_keys_do(golden, lib):
    g = golden("llama3_rope_rmsnorm")
    few, many = (np.swapaxes(g[name], 1, 2) for name in ("in_k", "out_repeat_kv_3"))  # from (B, L, H, d)
    q = np.random.default_rng(3).normal(size=many.shape).astype(np.float32)
    got = grouped_query_attention(*map(lib.array, (q, few, few)), causal=True)
    wanted = attention(q, many, many, causal=True)
    np.testing.assert_allclose(lib.numpy(got), wanted, rtol=1e-5, atol=1e-6)


@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 5),
    st.sampled_from([(), (2,), (2, 3)]), st.sampled_from([3, 8]), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_is_attention_over_repeated_keys(kv_heads, times, n_query, n_key, before, dv, causal, seed):
    q, k, v = qkv(*before, heads=kv_heads * times, kv_heads=kv_heads, n_query=n_query, n_key=n_key,
                  dv=dv)  # fmt: skip
    mask, full = None, (*before, kv_heads * times, n_query, n_key)
    if seed % 3:
        rng = np.random.default_rng(seed)
        shape = [n if rng.random() < 0.5 else 1 for n in full][rng.integers(len(full)) :]
        mask = rng.random(shape) < 0.6 if seed % 3 == 1 else rng.normal(size=shape)
    wanted = repeated(q, k, v, mask, causal=causal, return_weights=True)
    got = grouped_query_attention(q, k, v, mask, causal=causal, return_weights=True)
    tensors = [torch.from_numpy(x) for x in (q, k, v)]
    mask = None if mask is None else torch.from_numpy(mask)
    theirs = grouped_query_attention(*tensors, mask, causal=causal, return_weights=True)
    fused = grouped_query_attention(*tensors, mask, causal=causal)
    for out, weights in (got, theirs, (fused, wanted[1])):
        np.testing.assert_allclose(out, wanted[0], atol=1e-10)
        np.testing.assert_allclose(weights, wanted[1], atol=1e-10)
        assert tuple(out.shape) == wanted[0].shape and tuple(weights.shape) == wanted[1].shape


def some_mask(*shape, seed=0):
    """Each query sees the second key or another one."""
    mask = np.random.default_rng(seed).random(shape) < 0.5
    mask[..., 1] |= ~mask.any(-1)
    return mask


@pytest.mark.parametrize("shape", [(4, 5), (2, 1, 1, 5), (2, 1, 4, 5), (1, 6, 4, 5), (2, 6, 4, 5)])
def test_a_mask_for_each_query_head_and_sentence(shape, lib):
    q, k, v = qkv(2)
    mask = some_mask(*shape)
    out = grouped_query_attention(*map(lib.array, (q, k, v)), lib.array(mask))
    np.testing.assert_allclose(lib.numpy(out), repeated(q, k, v, mask), atol=1e-10)


@pytest.mark.parametrize("n", [1, 4])
def test_as_many_queries_as_keys_and_as_many_heads(n, lib):
    q, k, v = qkv(n, heads=4, n_query=n, n_key=4, d=4, dv=4)
    mask = some_mask(n, 4, n, 4, seed=2)
    for m in (None, mask, mask[:1, :1]):
        out = grouped_query_attention(*map(lib.array, (q, k, v)), None if m is None else lib.array(m))
        assert tuple(out.shape) == q.shape
        np.testing.assert_allclose(lib.numpy(out), repeated(q, k, v, m), atol=1e-10)


def test_rows_of_scores_thousands_apart(lib):
    """A hidden key has weight 0, however low the visible scores are, and no row rests on another."""
    q, k, v = qkv(2, n_query=3)
    k[..., 0] = 1.0
    q[..., 0] = np.array([3e4, -3e4, 0.0]) * 8**0.5
    for mask in (None, some_mask(3, 5), np.eye(3, 5, dtype=bool)):
        out = grouped_query_attention(*map(lib.array, (q, k, v)), None if mask is None else lib.array(mask))
        np.testing.assert_allclose(lib.numpy(out), repeated(q, k, v, mask), atol=1e-6)


def test_agrees_with_torchs_own():
    q, k, v = (torch.from_numpy(x) for x in qkv(2, n_query=5, dv=8))
    wanted = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True, scale=0.3)
    got = grouped_query_attention(q, k, v, causal=True, scale=0.3)
    np.testing.assert_allclose(got, wanted, atol=1e-12)


def test_a_query_of_one_among_others_sees_all_keys_when_it_is_the_last():
    q, k, v = qkv(2, n_query=3)
    whole = grouped_query_attention(q, k, v, causal=True)
    for dtype in (np.asarray, torch.from_numpy):
        last = grouped_query_attention(dtype(q[..., -1:, :]), dtype(k), dtype(v), causal=True)
        np.testing.assert_allclose(last, whole[..., -1:, :], atol=1e-12)


@pytest.mark.parametrize("n_kv_heads", [1, 2, 6])
def test_one_query_of_decoding(n_kv_heads):
    q, k, v = qkv(2, kv_heads=n_kv_heads, n_query=1, dv=8)
    inputs = [torch.from_numpy(x).requires_grad_() for x in (q, k, v)]
    for causal in (True, False):
        out = grouped_query_attention(*inputs, causal=causal)
        np.testing.assert_allclose(out.detach(), repeated(q, k, v), atol=1e-12)
        assert out.shape == q.shape
    assert torch.autograd.gradcheck(grouped_query_attention, [x[:1, ..., :2] for x in inputs])


@pytest.mark.parametrize("n_query", [1, 4])
def test_keys_are_not_copied(n_query, monkeypatch):
    from attnlib.core import grouped_queries

    seen = []
    monkeypatch.setattr(grouped_queries, "attention", lambda q, k, v, *a, **b: seen.append((k, v)) or q)
    q, k, v = qkv(2, n_query=n_query)
    grouped_query_attention(q, k, v)
    assert np.shares_memory(seen[0][0], k) and np.shares_memory(seen[0][1], v)


def test_gradients():
    q, k, v = (torch.from_numpy(x).requires_grad_() for x in qkv(heads=4, n_query=2, n_key=3, d=2, dv=2))
    mask = torch.from_numpy(normal(4, 2, 3) < 0.5)
    mask[0, 1] = False  # nothing to attend to
    for n_query in (1, 2):
        assert torch.autograd.gradcheck(
            lambda q, k, v, n=n_query: grouped_query_attention(q[:, :n], k, v, mask[:, :n]), (q, k, v)
        )


def test_half_precision_and_integers_and_inputs_unchanged(lib):
    q, k, v = qkv(2)
    before = [x.copy() for x in (q, k, v)]
    half = [lib.array(x.astype(np.float16)) for x in (q, k, v)]
    out = lib.numpy(grouped_query_attention(*half))
    assert out.dtype == np.float16
    np.testing.assert_allclose(out, repeated(q, k, v), atol=1e-2)
    whole = [lib.array((3 * x).astype(int)) for x in (q, k, v)]
    wanted = repeated(*[(3 * x).astype(int) for x in (q, k, v)])
    np.testing.assert_allclose(lib.numpy(grouped_query_attention(*whole)), wanted, atol=1e-5)
    grouped_query_attention(*[lib.array(x) for x in (q, k, v)], lib.array(causal_mask(4, 5)))
    for x, old in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, old)


Q, K, V = qkv(2)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: grouped_query_attention(Q, [[1.0]], V), TypeError, ["k must be a NumPy array", "list"]),
        (lambda: grouped_query_attention(Q, torch.from_numpy(K), V), TypeError, ["one library"]),
        (lambda: grouped_query_attention(Q[0, 0], K, V), ValueError, ["q must have shape", "(4, 8)"]),
        (lambda: grouped_query_attention(Q, K[:1], V), ValueError, ["k must have the axes of q", "(1, 2"]),
        (lambda: grouped_query_attention(Q, K, V[:, :1]), ValueError, ["v must have the 2 heads of k"]),
        (lambda: grouped_query_attention(Q[:, :5], K, V), ValueError, ["multiple", "got 5 and 2"]),
        (lambda: grouped_query_attention(Q[:, :1], K, V), ValueError, ["multiple", "got 1 and 2"]),
        (lambda: grouped_query_attention(Q, K[..., :3], V), ValueError, ["k must be as wide as q"]),
        (lambda: grouped_query_attention(Q, K, V[..., :3, :]), ValueError, ["v must have one row"]),
        (lambda: grouped_query_attention(Q, K, V[:, :0]), ValueError, ["v", "not empty"]),
        (lambda: grouped_query_attention(Q, K, V, causal=1), TypeError, ["causal must be True or False"]),
        (
            lambda: grouped_query_attention(Q, K, V, np.ones((2, 2, 4, 5), bool)),
            ValueError,
            ["mask must broadcast to the scores, (2, 6, 4, 5)", "(2, 2, 4, 5)"],
        ),
        (lambda: grouped_query_attention(Q, K, V, np.ones((4, 5), int)), TypeError, ["mask must be boolean"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

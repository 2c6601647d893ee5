import numpy as np
import pytest
import torch
from drawn import BOTH, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import alibi_bias, alibi_slopes, attention, forgetting_attention, future_leaks

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
SINGLE = {"rtol": 1e-4, "atol": 1e-5}  # what the golden file promises


def inputs(*before, heads=2, kv_heads=2, n_query=6, n_key=6, d=4, dv=3):
    """Queries, keys, values and logarithms of gates."""
    gates = 1 / (1 + np.exp(-1 - normal(*before, heads, n_key, seed=3)))
    return (normal(*before, heads, n_query, d), normal(*before, kv_heads, n_key, d, seed=1),
            normal(*before, kv_heads, n_key, dv, seed=2), np.log(gates))  # fmt: skip


def by_hand(q, k, v, log_forget, seen, scale, window=None):
    """One query of one head after the other, with a product of gates for each key."""
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    group, n_query, n_key = q.shape[-3] // k.shape[-3], q.shape[-2], k.shape[-2]
    for *before, head, i in np.ndindex(*q.shape[:-1]):
        at, kv = (*before, head, i), (*before, head // group)
        own, weights = i + n_key - n_query, np.zeros(n_key)
        for j in range(own + 1):
            if seen[at][j] and (window is None or own - j < window):
                gate = np.exp(sum(log_forget[(*before, head, l)] for l in range(j + 1, own + 1)))
                weights[j] = np.exp(q[at] @ k[kv][j] * scale) * gate
        out[at] = weights @ v[kv] / (weights.sum() or 1)
    return out


def golden_inputs(g, array):
    return [array(np.swapaxes(g[f"in_{name}"], 1, 2)) for name in ("q", "k", "v", "logf")]


@BOTH
def test_agrees_with_the_golden_file(golden, array):
    g = golden("forgetting_attention")
    for name, window in (("out", None), ("out_window3", 3)):
        out = forgetting_attention(*golden_inputs(g, array), window=window)
        np.testing.assert_allclose(out, np.swapaxes(g[name], 1, 2), **SINGLE)


def test_gradients_agree_with_the_golden_file(golden):
    g = golden("forgetting_attention")
    arrays = [x.requires_grad_() for x in golden_inputs(g, lambda x: torch.from_numpy(x.copy()))]
    upstream = torch.from_numpy(np.swapaxes(g["in_do"], 1, 2).copy())
    got = torch.autograd.grad(forgetting_attention(*arrays), arrays, upstream)
    for name, gradient in zip(("q", "k", "v", "logf"), got, strict=True):
        np.testing.assert_allclose(gradient, np.swapaxes(g[f"g_{name}"], 1, 2), **SINGLE)


@settings(max_examples=60)
@given(
    st.integers(1, 6), st.integers(0, 3), st.sampled_from([(), (2,), (2, 3)]), st.sampled_from([1, 2]),
    st.sampled_from([None, 1, 3]), st.sampled_from(["none", "bool", "float"]), st.sampled_from([None, 0.3]),
)  # fmt: skip
def test_is_its_formula(n_query, more, before, group, window, kind, scale):
    n_key = n_query + more
    arrays = inputs(*before, heads=2 * group, n_query=n_query, n_key=n_key)
    seen, mask = np.ones((*arrays[0].shape[:-1], n_key), bool), None
    if kind != "none":
        seen = np.broadcast_to(normal(1, n_key, seed=5) < 0.5, seen.shape)
        mask = seen[..., :1, :] if kind == "bool" else np.where(seen[..., :1, :], 0.0, -np.inf)
    wanted = by_hand(*arrays, seen, 0.5 if scale is None else scale, window)
    out, weights = forgetting_attention(*arrays, mask, window=window, scale=scale, return_weights=True)
    np.testing.assert_allclose(out, wanted, **CLOSE)
    np.testing.assert_allclose(
        forgetting_attention(*arrays, mask, window=window, scale=scale), wanted, **CLOSE
    )
    assert weights.shape == seen.shape and (weights[~seen] == 0).all()
    tensors = [torch.from_numpy(x) for x in arrays]
    mask = mask if mask is None else torch.from_numpy(np.array(mask))
    for all_weights in (False, True):
        theirs = forgetting_attention(*tensors, mask, window=window, scale=scale, return_weights=all_weights)
        np.testing.assert_allclose(theirs[0] if all_weights else theirs, wanted, **CLOSE)


@BOTH
def test_gates_of_one_are_attention_and_equal_gates_a_slope_of_alibi(array):
    q, k, v, _ = map(array, inputs(3, heads=4, kv_heads=4))
    np.testing.assert_allclose(
        forgetting_attention(q, k, v, array(np.zeros((3, 4, 6)))), attention(q, k, v, causal=True), **CLOSE
    )
    slopes = np.broadcast_to(-np.asarray(alibi_slopes(4))[:, None], (3, 4, 6))
    wanted = attention(q, k, v, array(np.asarray(alibi_bias(4, 6))), causal=True)
    np.testing.assert_allclose(forgetting_attention(q, k, v, array(slopes)), wanted, **CLOSE)


@BOTH
def test_a_gate_of_zero_hides_all_before_it(array):
    q, k, v, log_forget = inputs(2, n_query=7, n_key=7)
    log_forget[..., 3] = -np.inf
    log_forget[..., 5] = -np.inf
    out = np.asarray(forgetting_attention(*map(array, (q, k, v, log_forget))))
    for start, end in ((0, 3), (3, 5), (5, 7)):
        part = [x[..., start:end, :] for x in (q, k, v)] + [log_forget[..., start:end]]
        np.testing.assert_allclose(out[..., start:end, :], forgetting_attention(*part), **CLOSE)
    late = forgetting_attention(*map(array, (q[..., -3:, :], k, v, log_forget)))
    np.testing.assert_allclose(late, out[..., -3:, :], **CLOSE)


def test_a_token_alone_is_decoded_as_in_the_whole():
    q, k, v, log_forget = inputs(2, heads=4, n_query=6, n_key=6)
    whole = forgetting_attention(q, k, v, log_forget)
    for n in (1, 2, 5):
        np.testing.assert_allclose(
            forgetting_attention(q[..., -n:, :], k, v, log_forget), whole[..., -n:, :], **CLOSE
        )


def test_the_future_is_not_seen():
    def model(x):
        return forgetting_attention(x[None], x[None], x[None], np.minimum(x[:, :1].T, 0))[0]

    assert future_leaks(model, normal(6, 4)) == []


def test_gradients_by_differences_with_hidden_keys_and_an_empty_row():
    arrays = [
        torch.from_numpy(x).requires_grad_() for x in inputs(heads=2, kv_heads=1, n_query=3, n_key=4, d=2)
    ]
    mask = torch.tensor([[True, True, False, True], [False] * 4, [True] * 4])
    assert torch.autograd.gradcheck(lambda *x: forgetting_attention(*x, mask), arrays)
    out = forgetting_attention(*arrays, mask)
    assert (out[:, 1] == 0).all()
    shut = arrays[3].detach().clone()
    shut[:, 2] = -torch.inf
    shut.requires_grad_()
    forgetting_attention(*arrays[:3], shut, mask).square().sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (*arrays[:3], shut))


@BOTH
def test_long_sums_of_gates_keep_their_digits_in_half_precision(array):
    q, k, v, _ = inputs(n_query=1200, n_key=1200)
    log_forget = np.full((2, 1200), -0.25)
    half = [array(x.astype(np.float16)) for x in (q, k, v, log_forget)]
    out = forgetting_attention(*half)
    assert "float16" in str(out.dtype)
    wanted = forgetting_attention(*(x.astype(np.float16).astype(float) for x in (q, k, v)), log_forget)
    np.testing.assert_allclose(out, wanted, atol=4e-3)


@BOTH
def test_the_type_is_that_of_the_values_and_inputs_are_unchanged(array):
    given = inputs(2)
    arrays = [array(x.astype(np.float32)) for x in given]
    before = [np.asarray(x).copy() for x in arrays]
    assert "float32" in str(forgetting_attention(*arrays).dtype)
    half = [array(x.astype(np.float16)) for x in given[:3]]
    assert "float16" in str(forgetting_attention(*half, arrays[3]).dtype)
    whole = [(3 * x).astype(int) for x in given]
    wanted = forgetting_attention(*(x.astype(float) for x in whole))
    np.testing.assert_allclose(forgetting_attention(*map(array, whole)), wanted, atol=1e-5)
    for x, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(x, old)


Q, K, V, G = inputs(2, heads=4)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: forgetting_attention([[1.0]], K, V, G), TypeError, ["q must be a NumPy array", "list"]),
        (lambda: forgetting_attention(Q, K[..., 1:], V, G), ValueError, ["k must have shape", "d = 4"]),
        (
            lambda: forgetting_attention(Q, K, V, G[:, :2]),
            ValueError,
            ["log_forget must have shape", "H = 4"],
        ),
        (lambda: forgetting_attention(Q, K, V, G[..., 1:]), ValueError, ["log_forget", "Lk = 6"]),
        (
            lambda: forgetting_attention(Q, K, V, np.exp(G)),
            ValueError,
            ["log_forget must be at most 0", "got 0."],
        ),
        (lambda: forgetting_attention(Q, K, V, G > 0), TypeError, ["log_forget must hold real numbers"]),
        (
            lambda: forgetting_attention(Q, K[..., 1:, :], V[..., 1:, :], G[..., 1:]),
            ValueError,
            ["a gate for each query, 6; got 5"],
        ),
        (lambda: forgetting_attention(Q, K, V, G, window=0), ValueError, ["window must be at least 1"]),
        (
            lambda: forgetting_attention(Q, K, V, G, np.ones((2, 4, 6, 5), bool)),
            ValueError,
            ["mask must broad"],
        ),
        (lambda: forgetting_attention(Q, K, V, G, torch.ones(6, 6) > 0), TypeError, ["one library"]),
        (lambda: forgetting_attention(Q[:, :3], K, V, G[:, :3]), ValueError, ["a multiple of those of k"]),
        (lambda: forgetting_attention(Q, K, V, G, scale="1"), TypeError, ["scale must be a number"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

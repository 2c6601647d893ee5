import numpy as np
import pytest
import torch
from drawn import BOTH, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import attention, future_leaks, talking_heads_attention

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def inputs(*before, n_query=5, n_key=6, key_heads=2, heads=3, value_heads=4, d=4, dv=3):
    """Queries, keys, values and the two matrices."""
    return (normal(*before, key_heads, n_query, d), normal(*before, key_heads, n_key, d, seed=1),
            normal(*before, value_heads, n_key, dv, seed=2), normal(heads, key_heads, seed=3),
            normal(value_heads, heads, seed=4))  # fmt: skip


def by_hand(q, k, v, mix_scores, mix_weights, seen, scale):
    """One pair of a query and a key after the other; heads are lists of matrices."""
    n_query, n_key, heads = q.shape[-2], k.shape[-2], len(mix_scores)
    weights, out = np.zeros((heads, n_query, n_key)), np.zeros((len(v), n_query, v.shape[-1]))
    for h, i in np.ndindex(heads, n_query):
        for j in np.flatnonzero(seen[h, i]):
            score = sum(mix_scores[h, other] * (q[other, i] @ k[other, j]) for other in range(len(q)))
            weights[h, i, j] = np.exp(score * scale)
        weights[h, i] /= weights[h, i].sum() or 1
    for h, i, j in np.ndindex(len(v), n_query, n_key):
        out[h, i] += sum(mix_weights[h, other] * weights[other, i, j] for other in range(heads)) * v[h, j]
    return out


@settings(max_examples=50)
@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3),
    st.booleans(), st.sampled_from(["none", "bool", "float"]), st.sampled_from([None, 0.3]),
)  # fmt: skip
def test_is_its_formula(n_query, n_key, key_heads, heads, value_heads, causal, kind, scale):
    arrays = inputs(n_query=n_query, n_key=n_key, key_heads=key_heads, heads=heads, value_heads=value_heads)
    seen, mask = np.ones((heads, n_query, n_key), bool), None
    if kind != "none":
        seen = normal(heads, n_query, n_key, seed=5) < 0.5
        mask = seen if kind == "bool" else np.where(seen, 0.0, -np.inf)
    if causal:
        seen = seen & np.tri(n_query, n_key, n_key - n_query, dtype=bool)
    wanted = by_hand(*arrays, seen, 0.5 if scale is None else scale)
    for of in (np.asarray, torch.from_numpy):
        batch = [of(np.stack([x, -x])) for x in arrays[:3]] + [of(x) for x in arrays[3:]]
        out, weights = talking_heads_attention(
            *batch, mask if mask is None else of(mask), causal=causal, scale=scale, return_weights=True
        )
        np.testing.assert_allclose(out[0], wanted, **CLOSE)
        np.testing.assert_allclose(weights @ batch[2], out, **CLOSE)
        totals = (arrays[4] @ np.where(seen.any(-1), 1.0, 0.0))[None]  # a row of the mix, where all see
        np.testing.assert_allclose(weights.sum(-1)[:1], totals, rtol=1e-9, atol=1e-9)


@BOTH
def test_identities_are_attention(array):
    q, k, v, *_ = map(array, inputs(2, key_heads=3, value_heads=3))
    same = array(np.eye(3))
    np.testing.assert_allclose(
        talking_heads_attention(q, k, v, same, same, causal=True), attention(q, k, v, causal=True), **CLOSE
    )


def test_a_head_can_look_with_the_scores_of_another_and_give_its_weights_away():
    q, k, v, *_ = inputs(key_heads=2, value_heads=2)
    crossed = np.array([[0.0, 1.0], [1.0, 0.0]])
    theirs = attention(q[::-1], k[::-1], v)
    np.testing.assert_allclose(talking_heads_attention(q, k, v, crossed, np.eye(2)), theirs, **CLOSE)
    np.testing.assert_allclose(talking_heads_attention(q, k, v, np.eye(2), crossed), theirs, **CLOSE)


def test_the_future_is_not_seen():
    mixes = inputs(key_heads=2, heads=3, value_heads=2)[3:]

    def model(x):
        heads = np.stack([x, x[:, ::-1]])
        return talking_heads_attention(heads, heads, heads, *mixes, causal=True)[1]

    assert future_leaks(model, normal(6, 4)) == []


def test_gradients_by_differences_with_an_empty_row():
    arrays = [torch.from_numpy(x).requires_grad_() for x in inputs(n_query=3, n_key=3, d=2, dv=2)]
    mask = torch.tensor([[True, False, True], [False] * 3, [True] * 3])
    assert torch.autograd.gradcheck(lambda *x: talking_heads_attention(*x, mask), arrays)
    out, weights = talking_heads_attention(*arrays, mask, return_weights=True)
    assert (out[:, 1] == 0).all() and (weights[:, 1] == 0).all()


@BOTH
def test_half_precision_integers_and_inputs_unchanged(array):
    given = inputs(2)
    half = [array(x.astype(np.float16)) for x in given]
    out = talking_heads_attention(*half)
    assert "float16" in str(out.dtype)
    wanted = talking_heads_attention(*(x.astype(np.float16).astype(float) for x in given))
    np.testing.assert_allclose(out, wanted, atol=1e-2)
    whole = [(3 * x).astype(int) for x in given]
    arrays = [array(x) for x in whole]
    wanted = talking_heads_attention(*(x.astype(float) for x in whole), causal=True)
    np.testing.assert_allclose(talking_heads_attention(*arrays, causal=True), wanted, rtol=1e-5, atol=1e-5)
    for x, old in zip(arrays, whole, strict=True):
        np.testing.assert_array_equal(x, old)


Q, K, V, S, W = inputs(2)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: talking_heads_attention([[1.0]], K, V, S, W),
            TypeError,
            ["q must be a NumPy array", "list"],
        ),
        (lambda: talking_heads_attention(Q, K[:, :1], V, S, W), ValueError, ["k must have shape", "Hk = 2"]),
        (lambda: talking_heads_attention(Q, K, V[..., 1:, :], S, W), ValueError, ["v must have", "Lk = 6"]),
        (
            lambda: talking_heads_attention(Q, K, V, S.T, W),
            ValueError,
            ["mix_scores must have shape (H, Hk)"],
        ),
        (
            lambda: talking_heads_attention(Q, K, V, S, W.T),
            ValueError,
            ["mix_weights must have shape (Hv, H)"],
        ),
        (lambda: talking_heads_attention(Q, K, V, S, W, V > 0), ValueError, ["mask must", "(2, 3, 5, 6)"]),
        (lambda: talking_heads_attention(Q, K, V, S, W, torch.ones(5, 6) > 0), TypeError, ["one library"]),
        (lambda: talking_heads_attention(Q, K, V, S, W, causal=1), TypeError, ["causal must be True or Fal"]),
        (lambda: talking_heads_attention(Q, K, V, S, W, scale="1"), TypeError, ["scale must be a number"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

import numpy as np
import pytest
import torch
from drawn import BOTH, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import attention, future_leaks, selective_attention

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def inputs(*before, heads=2, n=6, d=4, dv=3):
    return (normal(*before, heads, n, d), normal(*before, heads, n, d, seed=1),
            normal(*before, heads, n, dv, seed=2))  # fmt: skip


def by_hand(q, k, v, seen, scale):
    """A running account of what each key has lost, one query after the other."""
    out, n = np.zeros(v.shape), q.shape[-2]
    lost = np.zeros(n)
    for i in range(n):
        for h in range(len(q)):
            weights = np.array(
                [np.exp(q[h, i] @ k[h, j] * scale - lost[j]) if seen[h, i, j] else 0 for j in range(n)]
            )
            out[h, i] = weights @ v[h] / (weights.sum() or 1)
        for j in range(1, i):
            if seen[0, i, j]:
                lost[j] += max(0, q[0, i] @ k[0, j] * scale)
    return out


@settings(max_examples=50)
@given(
    st.integers(1, 7), st.integers(1, 3), st.sampled_from(["none", "bool", "float"]),
    st.sampled_from([None, 0.3, 3.0]),
)  # fmt: skip
def test_is_its_formula(n, heads, kind, scale):
    q, k, v = inputs(heads=heads, n=n)
    seen, mask = np.ones((heads, n, n), bool), None
    if kind != "none":
        seen = normal(heads, n, n, seed=5) < 0.7
        mask = seen if kind == "bool" else np.where(seen, 0.0, -np.inf)
    seen = seen & np.tri(n, dtype=bool)
    wanted = by_hand(q, k, v, seen, 0.5 if scale is None else scale)
    for of in (np.asarray, torch.from_numpy):
        batch = [of(np.stack([x, -x])) for x in (q, k, v)]
        settings = {"scale": scale, "return_weights": True}
        out, weights = selective_attention(*batch, mask if mask is None else of(mask), **settings)
        np.testing.assert_allclose(out[0], wanted, **CLOSE)
        np.testing.assert_allclose(weights[0].sum(-1), seen.any(-1), **CLOSE)


@BOTH
def test_what_no_score_selects_is_attention(array):
    q, k, v = inputs(2)
    q[:, 0], k[:, 0] = -abs(q[:, 0]), abs(k[:, 0])
    q, k, v = map(array, (q, k, v))
    np.testing.assert_allclose(selective_attention(q, k, v), attention(q, k, v, causal=True), **CLOSE)


def test_the_first_token_its_own_self_and_the_selecting_query_keep_what_they_had():
    q, k, v = inputs(heads=1, n=5)
    k[0, :, :] = 0
    q[0, :, 0] = 100
    _, plain = attention(q, k, v, causal=True, return_weights=True)
    for j in range(5):  # everyone points at one token as hard as it can
        pointed = k.copy()
        pointed[0, j, 0] = 10
        _, got = selective_attention(q, pointed, v, return_weights=True)
        _, first = attention(q, pointed, v, causal=True, return_weights=True)
        np.testing.assert_allclose(got[0, : j + 2], first[0, : j + 2], **CLOSE)
        if j == 0:
            np.testing.assert_allclose(got, first, **CLOSE)
        elif j < 3:
            assert (got[0, j + 2 :, j] < first[0, j + 2 :, j]).all()
    np.testing.assert_allclose(selective_attention(q, k, v), plain @ v, **CLOSE)


def test_the_future_is_not_seen():
    def model(x):
        heads = np.stack([x, x[:, ::-1]])
        return selective_attention(heads, heads[:, :, ::-1], heads)[1]

    assert future_leaks(model, normal(6, 4)) == []


def test_only_the_first_head_selects_and_it_selects_for_all():
    q, k, v = inputs(heads=3)
    both = selective_attention(q[[0, 2]], k[[0, 2]], v[[0, 2]])
    np.testing.assert_allclose(selective_attention(q, k, v)[[0, 2]], both, **CLOSE)
    assert not np.allclose(selective_attention(q[[1, 2]], k[[1, 2]], v[[1, 2]])[1], both[1])


def test_gradients_by_differences_with_an_empty_row():
    arrays = [torch.from_numpy(x).requires_grad_() for x in inputs(n=4, d=2, dv=2)]
    mask = torch.tensor([[True] * 4, [False] * 4, [True, True, False, True], [True] * 4])
    assert torch.autograd.gradcheck(lambda *x: selective_attention(*x, mask), arrays)
    out, weights = selective_attention(*arrays, mask, return_weights=True)
    assert (out[:, 1] == 0).all() and (weights[:, 1] == 0).all() and (weights[:, 2, 2] == 0).all()


@BOTH
def test_half_precision_integers_and_inputs_unchanged(array):
    given = inputs(2, n=40)
    half = [array(x.astype(np.float16)) for x in given]
    out = selective_attention(*half)
    assert "float16" in str(out.dtype)
    wanted = selective_attention(*(x.astype(np.float16).astype(float) for x in given))
    np.testing.assert_allclose(out, wanted, atol=2e-3)
    whole = [(3 * x).astype(int) for x in given]
    arrays = [array(x) for x in whole]
    wanted = selective_attention(*(x.astype(float) for x in whole))
    np.testing.assert_allclose(selective_attention(*arrays), wanted, rtol=1e-4, atol=1e-4)
    for x, old in zip(arrays, whole, strict=True):
        np.testing.assert_array_equal(x, old)


Q, K, V = inputs(2)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: selective_attention([[1.0]], K, V), TypeError, ["q must be a NumPy array", "list"]),
        (
            lambda: selective_attention(Q[0, 0], K[0, 0], V[0, 0]),
            ValueError,
            ["q must have shape (..., H, L, d)"],
        ),
        (lambda: selective_attention(Q[..., 1:, :], K, V), ValueError, ["k must have shape", "L = 5"]),
        (lambda: selective_attention(Q, K[:, :1], V), ValueError, ["k must have shape", "H = 2"]),
        (lambda: selective_attention(Q, K, V, V > 0), ValueError, ["mask must broadcast", "(2, 2, 6, 6)"]),
        (lambda: selective_attention(Q, K, V, torch.ones(6, 6) > 0), TypeError, ["one library"]),
        (lambda: selective_attention(Q, K, V, scale="1"), TypeError, ["scale must be a number"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

import numpy as np
import pytest
import torch
from drawn import BOTH, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import attention, differential_attention, differential_lambda_init, future_leaks

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def inputs(*before, n_query=5, n_key=6, d=4, dv=3):
    shapes = (n_query, d), (n_key, d), (n_query, d), (n_key, d), (n_key, dv)
    return [normal(*before, *shape, seed=i) for i, shape in enumerate(shapes)]


def by_hand(q1, k1, q2, k2, v, lam, seen, scale):
    """One query after the other, from the formula."""
    weights = np.zeros((*q1.shape[:-1], k1.shape[-2]))
    for at in np.ndindex(*q1.shape[:-1]):
        rows = []
        for q, k in ((q1, k1), (q2, k2)):
            row = np.exp(k[at[:-1]] @ q[at] * scale) * seen[at]
            rows.append(row / (row.sum() or 1))
        weights[at] = rows[0] - np.broadcast_to(lam, (*q1.shape[:-1], 1))[at] * rows[1]
    return weights @ v, weights


@settings(max_examples=50)
@given(
    st.integers(1, 5), st.integers(1, 5), st.sampled_from([(), (2,), (2, 3)]), st.booleans(),
    st.sampled_from(["none", "bool", "float"]), st.sampled_from([None, 0.3]), st.booleans(),
)  # fmt: skip
def test_is_its_formula(n_query, n_key, before, causal, kind, scale, one_for_each):
    arrays = inputs(*before, n_query=n_query, n_key=n_key)
    lam = normal(*before, n_query, 1, seed=9) if one_for_each else 0.6
    seen, mask = np.ones((*before, n_query, n_key), bool), None
    if kind != "none":
        seen = np.broadcast_to(normal(n_query, n_key, seed=5) < 0.5, seen.shape)
        mask = seen if kind == "bool" else np.where(seen, 0.0, -np.inf)
    if causal:
        seen = seen & np.tri(n_query, n_key, n_key - n_query, dtype=bool)
    wanted = by_hand(*arrays, lam, seen, 0.5 if scale is None else scale)
    for of in (np.asarray, lambda x: torch.from_numpy(np.array(x))):
        given = [of(x) for x in arrays] + [
            of(lam) if one_for_each else lam,
            mask if mask is None else of(mask),
        ]
        got = differential_attention(*given, causal=causal, scale=scale, return_weights=True)
        for x, want in zip(got, wanted, strict=True):
            np.testing.assert_allclose(x, want, **CLOSE)
        out = differential_attention(*given, causal=causal, scale=scale)
        np.testing.assert_allclose(out, wanted[0], **CLOSE)


@BOTH
def test_nothing_subtracted_is_attention_and_twins_cancel(array):
    q1, k1, q2, k2, v = map(array, inputs(2))
    np.testing.assert_allclose(differential_attention(q1, k1, q2, k2, v, 0.0), attention(q1, k1, v), **CLOSE)
    np.testing.assert_allclose(
        differential_attention(q1, k1, q1, k1, v, 0.25), 0.75 * np.asarray(attention(q1, k1, v)), **CLOSE
    )


def test_what_both_look_at_cancels_and_what_one_looks_at_stays():
    """A weight of a half on noise in both maps; the first has its other half on the key that is meant."""
    k = np.eye(3) * 9
    q1, q2 = np.array([[1.0, 1.0, 0.0]]), np.array([[0.0, 1.0, 1.0]])  # meant and noise; noise and elsewhere
    _, weights = differential_attention(q1, k, q2, k, k, 1.0, return_weights=True)
    np.testing.assert_allclose(weights, [[0.5, 0.0, -0.5]], atol=0.01)


def test_lambda_before_training():
    assert differential_lambda_init(0) == pytest.approx(0.2)
    values = [differential_lambda_init(depth) for depth in range(60)]
    assert values == sorted(values) and 0.7999 < values[-1] < 0.8
    np.testing.assert_allclose(values[5], 0.8 - 0.6 * np.exp(-1.5))


def test_the_future_is_not_seen():
    def model(x):
        return differential_attention(x, x[:, ::-1], x[:, ::-1], x, x, 0.7, causal=True)

    assert future_leaks(model, normal(6, 4)) == []


def test_gradients_by_differences_those_of_lambda_too_with_an_empty_row():
    arrays = [torch.from_numpy(x).requires_grad_() for x in inputs(2, n_query=3, n_key=3, d=2, dv=2)]
    mask = torch.tensor([[True, False, True], [False] * 3, [True] * 3])
    for shape in ((), (2, 1, 1)):
        lam = torch.full(shape, 0.3, dtype=torch.float64, requires_grad=True)
        for weights in (False, True):
            assert torch.autograd.gradcheck(
                lambda *x, w=weights: differential_attention(*x, mask, return_weights=w), (*arrays, lam)
            )
        assert (differential_attention(*arrays, lam, mask)[:, 1] == 0).all()


@BOTH
def test_half_precision_integers_and_inputs_unchanged(array):
    given = inputs(2)
    out = differential_attention(*(array(x.astype(np.float16)) for x in given), 0.9)
    assert "float16" in str(out.dtype)
    wanted = differential_attention(*(x.astype(np.float16).astype(float) for x in given), 0.9)
    np.testing.assert_allclose(out, wanted, atol=1e-3)
    whole = [(3 * x).astype(int) for x in given]
    arrays = [array(x) for x in whole]
    wanted = differential_attention(*(x.astype(float) for x in whole), 1)
    np.testing.assert_allclose(differential_attention(*arrays, 1), wanted, rtol=1e-4, atol=1e-5)
    for x, old in zip(arrays, whole, strict=True):
        np.testing.assert_array_equal(x, old)


A = inputs(2)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: differential_attention([[1.0]], *A[1:], 0.5),
            TypeError,
            ["q1 must be a NumPy array", "list"],
        ),
        (lambda: differential_attention(*A[:2], A[2][:, 1:], *A[3:], 0.5), ValueError, ["q2 must", "Lq = 5"]),
        (lambda: differential_attention(*A[:3], A[3][..., 1:], A[4], 0.5), ValueError, ["k2 must", "d = 4"]),
        (lambda: differential_attention(*A[:4], A[4][:, 1:], 0.5), ValueError, ["v must have", "Lk = 6"]),
        (lambda: differential_attention(*A, "0.5"), TypeError, ["lam must be a NumPy array", "str"]),
        (lambda: differential_attention(*A, True), TypeError, ["lam must be a number"]),
        (
            lambda: differential_attention(*A, np.ones(2)),
            ValueError,
            ["lam must broadcast to (2, 5, 1)", "(2,)"],
        ),
        (lambda: differential_attention(*A, torch.ones(1)), TypeError, ["one library", "lam"]),
        (lambda: differential_attention(*A, 0.5, A[0] > 0), ValueError, ["mask must broadcast", "(2, 5, 6)"]),
        (lambda: differential_attention(*A, 0.5, causal=1), TypeError, ["causal must be True or False"]),
        (lambda: differential_attention(*A, 0.5, scale="1"), TypeError, ["scale must be a number"]),
        (lambda: differential_lambda_init("0"), TypeError, ["depth must be a number"]),
        (lambda: differential_lambda_init(-1), ValueError, ["depth must be at least 0", "-1"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

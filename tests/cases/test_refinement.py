import numpy as np
import pytest
import torch
from drawn import BOTH, normal
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import (
    attention_weights,
    causal_mask,
    future_leaks,
    refine_weights,
    refine_weights_stochastic,
    softmax,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
KINDS = ["simple", "value-weighted", "additive", "additive, value-weighted", "stochastic"]


def a_table(*before, n=5, mask=None, causal=False):
    """Weights as a layer makes them."""
    return attention_weights(normal(*before, n, 4), normal(*before, n, 4, seed=1), mask, causal=causal)


def refined(kind, a, d=3, seed=2, of=np.asarray, **settings):
    n = a.shape[-1]
    if kind == "stochastic":
        maps = [of(3 * normal(n, d, seed=seed + i)) for i in range(2)]
        return refine_weights_stochastic(a, *maps, **settings)
    maps = [of(3 * normal(n, d, seed=seed)), of(3 * normal(n, d, seed=seed + 1))]
    if "value" in kind:
        maps.append(of(3 * normal(n, n, seed=seed + 2)))
    return refine_weights(a, *maps, additive="additive" in kind, **settings)


def by_hand(kind, a, seen, d=3, seed=2, scale=None):
    """One table, one pair of rows after the other."""
    n, scale = len(a), 1 / np.sqrt(d) if scale is None else scale
    w = [3 * normal(n, d, seed=seed + i) for i in range(2)]

    def weighed(scores):
        out = np.zeros((n, n))
        for i in range(n):
            for j in np.flatnonzero(seen[i]):
                out[i, j] = np.exp(scores[i, j])
            out[i] /= out[i].sum() or 1
        return out

    b = np.zeros((n, n))
    for i, j in np.ndindex(n, n):
        if kind == "stochastic":
            spread = [np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (a[i] @ w[1], a[j] @ w[1])]
            b[i, j] = -((a[i] @ w[0] - a[j] @ w[0]) ** 2).sum() * scale
            b[i, j] -= ((np.sqrt(spread[0]) - np.sqrt(spread[1])) ** 2).sum() * scale
        else:
            b[i, j] = (a[i] @ w[0]) @ (a[j] @ w[1]) * scale
    if "value" in kind:
        inner, b = weighed(b), np.zeros((n, n))
        for i, j in np.ndindex(n, n):
            b[i] += inner[i, j] * (a[j] @ (3 * normal(n, n, seed=seed + 2)))
    if "additive" in kind:
        out = weighed(b) * a
        return out / np.where(out.sum(-1) == 0, 1, out.sum(-1))[:, None]
    return weighed(b)


@settings(max_examples=60)
@given(
    st.sampled_from(KINDS), st.integers(1, 6), st.integers(1, 4), st.booleans(), st.booleans(),
    st.sampled_from([None, 0.3]),
)  # fmt: skip
def test_is_its_formula(kind, n, d, causal, masked, scale):
    mask = (normal(n, n, seed=7) < 0.5) if masked else None
    seen = (np.ones((n, n), bool) if mask is None else mask) & (np.tri(n, dtype=bool) if causal else True)
    a = a_table(2, n=n, mask=mask, causal=causal)
    settings = {"causal": causal, "scale": scale, "d": d}
    got = refined(kind, a, mask=mask, **settings)
    for table, own in zip(got, a, strict=True):
        np.testing.assert_allclose(table, by_hand(kind, own, seen, d, scale=scale), **CLOSE)
    np.testing.assert_allclose(got.sum(-1), np.broadcast_to(seen.any(-1), got.shape[:-1]), **CLOSE)
    assert (got[:, ~seen] == 0).all()
    mask = mask if mask is None else torch.from_numpy(mask)
    theirs = refined(kind, torch.from_numpy(a), of=torch.from_numpy, mask=mask, **settings)
    np.testing.assert_allclose(theirs, got, **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_give_a_seen_token_nothing(kind):
    """A zero below the diagonal hides nothing, but from the additive form."""
    a = a_table(n=5, causal=True)
    a[3, 1] = 0
    a /= a.sum(-1, keepdims=True)
    got = refined(kind, a, causal=True)
    np.testing.assert_allclose(got, by_hand(kind, a, np.tri(5, dtype=bool)), **CLOSE)
    assert (got[3, 1] == 0) == ("additive" in kind)


@pytest.mark.parametrize("kind", KINDS)
def test_the_future_is_not_seen_and_would_be_without_the_second_mask(kind):
    n = 6

    def model(x, causal=True):
        a = attention_weights(x, x[:, ::-1], causal=True)
        maps = [3 * normal(n, 3, seed=i)[: len(x)] for i in range(2)]
        if kind == "stochastic":
            return refine_weights_stochastic(a, *maps, causal=causal) @ x
        w_v = 3 * normal(n, n, seed=2)[: len(x), : len(x)] if "value" in kind else None
        return refine_weights(a, *maps, w_v, additive="additive" in kind, causal=causal) @ x

    x = normal(n, 4)
    assert future_leaks(model, x) == []
    if kind != "additive":  # where A itself hides: log 0
        assert future_leaks(lambda x: model(x, causal=False), x)


@BOTH
def test_queries_of_zero_average_what_is_visible_or_leave_the_weights_alone(array):
    mask = normal(5, 5, seed=7) < 0.6
    a = a_table(2, mask=mask, causal=True)
    seen = mask & causal_mask(5)
    zero, other, w_v = array(np.zeros((5, 3))), array(normal(5, 3)), array(np.zeros((5, 5)))
    count = np.maximum(seen.sum(-1, keepdims=True), 1)
    settings = {"mask": array(mask), "causal": True}
    for maps in ((zero, other), (other, other, w_v)):
        simple = refine_weights(array(a), *maps, **settings)
        np.testing.assert_allclose(simple, np.broadcast_to(seen / count, a.shape), **CLOSE)
        np.testing.assert_allclose(refine_weights(array(a), *maps, additive=True, **settings), a, **CLOSE)
    alike = refine_weights_stochastic(array(a), zero, zero, **settings)
    np.testing.assert_allclose(alike, np.broadcast_to(seen / count, a.shape), **CLOSE)


def test_the_additive_form_adds_to_the_scores_that_made_the_weights():
    scores, w_q, w_k = normal(5, 5), normal(5, 3, seed=1), normal(5, 3, seed=2)
    a = softmax(scores)
    b = (a @ w_q) @ (a @ w_k).T / np.sqrt(3)
    np.testing.assert_allclose(refine_weights(a, w_q, w_k, additive=True), softmax(scores + b), **CLOSE)


def test_tokens_that_look_alike_are_nearest_each_other():
    a = a_table(n=6)
    a[4] = a[1]
    got = refined("stochastic", a)
    np.testing.assert_allclose(got[1, 4], got[1, 1], rtol=1e-6)
    assert (got[1, 1] >= got[1] - 1e-6).all()


@BOTH
def test_each_head_may_have_its_own_maps(array):
    a = a_table(2, 3)
    w_q, w_k, w_v = normal(3, 5, 4), normal(3, 5, 4, seed=1), normal(3, 5, 5, seed=2)
    got = np.asarray(refine_weights(array(a), array(w_q), array(w_k), array(w_v)))
    near = np.asarray(refine_weights_stochastic(array(a), array(w_q), array(w_k)))
    for h in range(3):
        own = refine_weights(a[:, h], w_q[h], w_k[h], w_v[h])
        np.testing.assert_allclose(got[:, h], own, **CLOSE)
        own = refine_weights_stochastic(a[:, h], w_q[h], w_k[h])
        np.testing.assert_allclose(near[:, h], own, **CLOSE)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_by_differences_with_an_empty_row(kind):
    mask = torch.tensor([[True] * 4, [False] * 4, [True, False, True, True], [True] * 4])
    x = torch.from_numpy(normal(4, 3)).requires_grad_()
    maps = [torch.from_numpy(normal(4, 2, seed=i)).requires_grad_() for i in range(2)]
    if "value" in kind:
        maps.append(torch.from_numpy(normal(4, 4, seed=2)).requires_grad_())

    def refine(x, *maps):
        a = attention_weights(x, x.flip(-1), mask, causal=True)
        if kind == "stochastic":
            return refine_weights_stochastic(a, *maps, mask=mask, causal=True)
        return refine_weights(a, *maps, additive="additive" in kind, mask=mask, causal=True)

    assert torch.autograd.gradcheck(refine, (x, *maps))
    assert (refine(x, *maps)[1] == 0).all()


@BOTH
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_and_inputs_unchanged(array, kind):
    a = a_table(2, causal=True)
    half = array(a.astype(np.float16))
    got = refined(kind, half, of=lambda x: array((x / 3).astype(np.float16)), causal=True)
    assert "float16" in str(got.dtype)
    wanted = refined(kind, a.astype(np.float16).astype(float),
                     of=lambda x: (x / 3).astype(np.float16).astype(float), causal=True)  # fmt: skip
    np.testing.assert_allclose(got, wanted, atol=2e-3)
    np.testing.assert_array_equal(half, a.astype(np.float16))


A, W, WV = a_table(2), normal(5, 3), normal(5, 5)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: refine_weights([[1.0]], W, W), TypeError, ["weights must be a NumPy array", "list"]),
        (lambda: refine_weights(A[:, 1:], W, W), ValueError, ["weights must be square", "(2, 4, 5)"]),
        (lambda: refine_weights(A, W[1:], W), ValueError, ["w_q must have shape (..., 5, 3)", "(4, 3)"]),
        (lambda: refine_weights(A, W, W[:, 1:]), ValueError, ["w_k must have shape (..., 5, 3)", "(5, 2)"]),
        (
            lambda: refine_weights(A, W, W, WV[:, 1:]),
            ValueError,
            ["w_v must have shape (..., 5, 5)", "(5, 4)"],
        ),
        (lambda: refine_weights(A, W[None, None], W), ValueError, ["broadcast to (2,)", "(1, 1, 5, 3)"]),
        (lambda: refine_weights(A, W, W[None][[0, 0, 0]]), ValueError, ["w_k", "(3, 5, 3)"]),
        (lambda: refine_weights(A, W[:, 0], W), ValueError, ["w_q must have shape"]),
        (lambda: refine_weights(A, W, W, mask=A), TypeError, ["mask must be boolean", "float64"]),
        (
            lambda: refine_weights(A, W, W, mask=A[:, 1:] > 0),
            ValueError,
            ["mask must broadcast", "(2, 5, 5)"],
        ),
        (lambda: refine_weights(A, W, W, causal=1), TypeError, ["causal must be True or False"]),
        (lambda: refine_weights(A, W, W, additive="yes"), TypeError, ["additive must be True or False"]),
        (lambda: refine_weights(A, W, W, scale="1"), TypeError, ["scale must be a number"]),
        (lambda: refine_weights_stochastic(A, W, W[1:]), ValueError, ["w_cov must have shape (..., 5, 3)"]),
        (lambda: refine_weights_stochastic(A, W, torch.ones(5, 3)), TypeError, ["one library", "w_cov"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

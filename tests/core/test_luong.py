import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from attnlib import attentional_state, local_m_weights, local_p_weights, predicted_position, softmax

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
seeds = st.integers(0, 2**32 - 1)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def by_hand(scores, centres, half_window, gaussian):
    """One row at a time, over the keys in its window and no others."""
    out = np.zeros_like(scores)
    for place in np.ndindex(*scores.shape[:-1]):
        p = centres[place]
        keys = [s for s in range(scores.shape[-1]) if p - half_window <= s <= p + half_window]
        if keys:
            e = np.exp(scores[place][keys])
            out[place][keys] = e / e.sum()
        if gaussian:
            sigma = half_window / 2
            out[place] *= [np.exp(-((s - p) ** 2) / (2 * sigma**2)) for s in range(scores.shape[-1])]
    return out


@given(seeds, st.integers(1, 6), st.integers(1, 6), st.integers(1, 7))
def test_windows_are_what_a_loop_finds(seed, n_query, n_key, half_window):
    scores = normal(2, n_query, n_key, seed=seed)
    own = np.broadcast_to(np.arange(n_query), (2, n_query))
    p = np.random.default_rng(seed).uniform(-3, n_key + 3, (2, n_query))
    monotonic, predicted = by_hand(scores, own, half_window, False), by_hand(scores, p, half_window, True)
    np.testing.assert_allclose(local_m_weights(scores, half_window), monotonic, **CLOSE)
    np.testing.assert_allclose(local_p_weights(scores, p, half_window), predicted, **CLOSE)
    scores, p = torch.tensor(scores), torch.tensor(p)
    np.testing.assert_allclose(local_m_weights(scores, half_window), monotonic, **CLOSE)
    np.testing.assert_allclose(local_p_weights(scores, p, half_window), predicted, **CLOSE)


@given(seeds)
def test_a_window_without_end_is_global_attention(seed):
    scores, p = normal(3, 5, 6, seed=seed), np.random.default_rng(seed).uniform(0, 6, (3, 5))
    np.testing.assert_allclose(local_m_weights(scores, 10**30), softmax(scores), **CLOSE)
    np.testing.assert_allclose(local_p_weights(scores, p, 10**30), softmax(scores), **CLOSE)


@given(seeds, st.integers(1, 4), st.integers(0, 7))
def test_the_gaussian_peaks_at_the_position_and_takes_from_all_others(seed, half_window, place):
    p = np.full((2, 1), float(place))
    flat = local_p_weights(np.zeros((2, 1, 8)), p, half_window)
    assert (flat.argmax(-1) == place).all()
    left, right = flat[0, 0, :place][::-1], flat[0, 0, place + 1 :]
    shared = min(len(left), len(right))
    np.testing.assert_allclose(left[:shared], right[:shared], **CLOSE)
    weights = local_p_weights(normal(2, 1, 8, seed=seed), p, half_window)
    assert (weights.sum(-1) < 1).all() and (weights >= 0).all()
    inside = np.abs(np.arange(8) - place) <= half_window
    assert (weights[..., ~inside] == 0).all() and (weights[..., inside] > 0).all()
    shifted = local_p_weights(normal(2, 1, 8, seed=seed) + 7, p, half_window)
    np.testing.assert_allclose(shifted, weights, **CLOSE)


def test_hidden_keys_and_windows_without_a_key_get_nothing(lib):
    scores = normal(4, 3)
    scores[0] = -np.inf
    scores[1, 1] = -np.inf
    weights = lib.numpy(local_m_weights(lib.array(scores), 1))
    assert (weights[0] == 0).all() and weights[1, 1] == 0
    np.testing.assert_allclose(weights.sum(-1), [0, 1, 1, 1])  # query 3 sees key 2
    far = local_p_weights(lib.array(scores), lib.array(np.array([0.0, 1, 2, 50])), 2)
    assert (lib.numpy(far)[[0, 3]] == 0).all() and np.isfinite(lib.numpy(far)).all()
    scores = torch.tensor(scores, requires_grad=True)
    p = torch.tensor([0.0, 1, 2, 50], dtype=torch.float64, requires_grad=True)
    local_p_weights(scores, p, 2).sum().backward()
    assert torch.isfinite(scores.grad).all() and (scores.grad[[0, 3]] == 0).all()
    assert torch.isfinite(p.grad).all()


def test_scores_whose_exponential_overflows(lib):
    scores, p = np.array([[1000.0, 999.0, 5000.0], [-4000.0, 3000.0, 3000.0]]), np.array([0.0, 1.5])
    e = np.exp(-1)
    weights = [[1 / (1 + e), e / (1 + e) * np.exp(-2), 0], [0, np.exp(-1 / 2) / 2, np.exp(-1 / 2) / 2]]
    got = lib.numpy(local_p_weights(lib.array(scores), lib.array(p), 1))
    np.testing.assert_allclose(got, weights, **CLOSE)
    assert np.isfinite(lib.numpy(local_m_weights(lib.array(scores), 1))).all()


def test_gradients():
    scores = torch.tensor(normal(2, 3, 6), requires_grad=True)
    p = torch.tensor([[0.3, 2.2, 5.6], [1.7, 3.1, 4.4]], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s: local_m_weights(s, 2), scores)
    assert torch.autograd.gradcheck(lambda s, p: local_p_weights(s, p, 2), (scores, p))
    q, W, v = (torch.tensor(normal(*s, seed=1), requires_grad=True) for s in [(2, 3, 4), (5, 4), (5,)])
    assert torch.autograd.gradcheck(lambda *x: predicted_position(x[0], 6, *x[1:]), (q, W, v))
    c, W, b = (torch.tensor(normal(*s, seed=2), requires_grad=True) for s in [(2, 3, 2), (5, 6), (5,)])
    assert torch.autograd.gradcheck(attentional_state, (c, q, W, b))


def test_the_position_has_the_gaussians_gradient_and_no_other():
    p = torch.tensor([1.3], dtype=torch.float64, requires_grad=True)
    scores = torch.tensor(normal(1, 5))
    local_p_weights(scores, p, 2)[0, 2].backward()
    value = local_p_weights(scores, p, 2)[0, 2].item()
    np.testing.assert_allclose(p.grad.item(), value * (2 - 1.3))  # sigma is 1


def test_predicted_position_by_its_definition(lib):
    q, W, v = normal(2, 3, 4), normal(5, 4, seed=1), normal(5, seed=2)
    expected = 9 / (1 + np.exp(-(np.tanh(q @ W.T) @ v)))
    got = lib.numpy(predicted_position(lib.array(q), 9, lib.array(W), lib.array(v)))
    np.testing.assert_allclose(got, expected, **CLOSE)
    assert ((got > 0) & (got < 9)).all()
    with np.errstate(over="raise"):
        ends = predicted_position(np.array([[1.0], [-1.0]]), 9, np.ones((1, 1)), np.array([1e6]))
    np.testing.assert_allclose(ends, [9, 0], atol=1e-9)


def test_attentional_state_is_a_linear_layer_on_context_and_query(lib):
    context, q = normal(2, 3, 2), normal(2, 3, 4, seed=1)
    layer = nn.Linear(6, 5, dtype=torch.float64)
    with torch.no_grad():
        mlp = layer(torch.cat([torch.tensor(context), torch.tensor(q)], -1)).numpy()
        W, bias = layer.weight.numpy(), layer.bias.numpy()
    got = attentional_state(*map(lib.array, (context, q, W, bias)), tanh=False)
    np.testing.assert_allclose(lib.numpy(got), mlp, **CLOSE)
    got = attentional_state(*map(lib.array, (context, q, W)))
    np.testing.assert_allclose(lib.numpy(got), np.tanh(mlp - bias), **CLOSE)


def test_types_and_inputs(lib):
    whole = lib.array(np.arange(12).reshape(3, 4) % 5)
    assert "float" in str(local_m_weights(whole, 1).dtype)
    half = normal(3, 4).astype(np.float16)
    p = np.array([0.5, 1.5, 3], np.float16)
    got = local_p_weights(lib.array(half), lib.array(p), 2)
    assert lib.numpy(got).dtype == lib.numpy(local_m_weights(lib.array(half), 1)).dtype == np.float16
    expected = local_p_weights(half.astype(np.float32), p.astype(np.float32), 2)
    np.testing.assert_allclose(lib.numpy(got), expected, rtol=1e-3)
    # Places beyond 2048 have no numbers of their own in float16.
    long = local_m_weights(lib.array(np.zeros((4096, 4096), np.float16)), 1)
    assert (lib.numpy(long)[4000, 3998:4003] > 0).tolist() == [False, True, True, True, False]
    before = half.copy()
    local_p_weights(half, p, 2)
    np.testing.assert_array_equal(half, before)


a = np.ones


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: local_m_weights(a(3), 1), ValueError, ["scores must have shape (..., Lq, Lk)", "(3,)"]),
        (lambda: local_m_weights([[1.0]], 1), TypeError, ["scores must be a NumPy array", "list"]),
        (lambda: local_m_weights(a((2, 3)), 0), ValueError, ["half_window", "at least 1", "0"]),
        (lambda: local_m_weights(a((2, 3)), 10**400), ValueError, ["half_window must be", "1329 bits"]),
        (lambda: local_p_weights(a((2, 3)), a(2), 10**400), ValueError, ["half_window must be"]),
        (lambda: predicted_position(a((2, 3)), 10**400, a((4, 3)), a(4)), ValueError, ["n_key must be"]),
        (lambda: local_p_weights(a((2, 3)), a(2), 1.5), TypeError, ["half_window", "whole number", "1.5"]),
        (
            lambda: local_p_weights(a((2, 3)), a(3), 1),
            ValueError,
            ["position must have shape (..., Lq) with Lq = 2; got (3,)"],
        ),
        (
            lambda: local_p_weights(a((5, 2, 3)), a(2), 1),
            ValueError,
            ["position", "leading axes of scores, (5,)", "(2,)"],
        ),
        (lambda: predicted_position(a((2, 3)), 0, a((4, 3)), a(4)), ValueError, ["n_key", "at least 1"]),
        (
            lambda: predicted_position(a((2, 3)), 5, a((4, 2)), a(4)),
            ValueError,
            ["W must have shape (dp, dq) with dq = 3; got (4, 2)"],
        ),
        (
            lambda: attentional_state(a((2, 3)), a((2, 4)), a((5, 6))),
            ValueError,
            ["W must have shape (do, dv + dq) with dv + dq = 7; got (5, 6)"],
        ),
        (
            lambda: attentional_state(a((2, 3)), a((3, 4)), a((5, 7))),
            ValueError,
            ["q must have shape (..., Lq, dq) with Lq = 2; got (3, 4)"],
        ),
        (
            lambda: attentional_state(a((2, 3)), a((2, 4)), a((5, 7)), tanh=1),
            TypeError,
            ["tanh", "True or False"],
        ),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import linear_attention, titans_memory, titans_memory_step

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def drawn(*before, L=9, d=4, dv=3, seed=0):
    """Keys of length 1 and steps of at most 1, so that no memory runs away."""
    rng = np.random.default_rng(seed)
    k = rng.normal(size=(*before, L, d))
    return (rng.normal(size=(*before, L, d)), k / np.linalg.norm(k, axis=-1, keepdims=True),
            rng.normal(size=(*before, L, dv)), *rng.random((3, *before, L)))  # fmt: skip


def tensors(arrays, grad=False):
    return [torch.from_numpy(np.array(x)).requires_grad_(grad) for x in arrays]


def recurrence(q, k, v, theta, eta, alpha, chunk_size=1, memory=None, momentum=None):
    """Token by token, number by number, for one sequence."""
    L, (d, dv) = len(k), (k.shape[-1], v.shape[-1])
    M, S = (np.zeros((d, dv)) if x is None else x.copy() for x in (memory, momentum))
    outs = np.zeros((L, dv))
    for t in range(L):
        if t % chunk_size == 0:
            stale = M.copy()
        for j in range(dv):
            error = sum(k[t, i] * stale[i, j] for i in range(d)) - v[t, j]
            for i in range(d):
                S[i, j] = eta[t] * S[i, j] - theta[t] * 2 * k[t, i] * error
                M[i, j] = (1 - alpha[t]) * M[i, j] + S[i, j]
        outs[t] = q[t] @ M
    return outs, M, S


# The golden file


def projected(g, variant, x):
    """Queries, keys, values and the three numbers of each token, as the layer makes them of ``x``."""
    p = {name.removeprefix(f"p_{variant}."): torch.from_numpy(g[name]) for name in g.files
         if name.startswith(f"p_{variant}.")}  # fmt: skip

    def norm(weight):
        if weight not in p:
            return x
        return x / (x.square().mean(-1, keepdim=True) + np.finfo(float).eps).sqrt() * p[weight]

    def gate(name):
        rows = stored @ p[f"{name}.0.weight"].mT + p[f"{name}.0.bias"]
        return torch.sigmoid(rows)[..., 0]

    stored = norm("store_norm.weight")
    eta = gate("to_momentum") if variant == "lin" else torch.zeros(x.shape[:2], dtype=x.dtype)
    return (norm("retrieve_norm.weight") @ p["to_queries.weight"].mT, stored @ p["to_keys.weight"].mT,
            stored @ p["to_values.weight"].mT, gate("to_adaptive_step"), eta, gate("to_decay_factor"),
            p["memory_model_parameters.0"].expand(2, 6, 6))  # fmt: skip


@pytest.mark.parametrize("variant", ["lin", "lin_nomom"])
def test_agrees_with_the_golden_file(golden, variant):
    g = golden("titans_memory_linear")
    x = torch.from_numpy(g["in_x"]).requires_grad_()
    q, k, v, theta, eta, alpha, first = projected(g, variant, x)
    np.testing.assert_allclose(theta.detach(), g[f"theta_{variant}"][:, 0], **CLOSE)
    np.testing.assert_allclose(alpha.detach(), g[f"decay_{variant}"][..., 0], **CLOSE)
    if variant == "lin":
        np.testing.assert_allclose(eta.detach(), g["eta_lin"][0, ..., 0], **CLOSE)

    settings = {"memory": first, "return_state": True}  # their gradient is that of a mean over six features
    out, state = titans_memory(q, k, v, theta / 6, eta, alpha, **settings)
    (slope,) = torch.autograd.grad(out, x, torch.from_numpy(g["in_do"]), retain_graph=True)
    np.testing.assert_allclose(out.detach(), g[f"out_{variant}"], **CLOSE)
    np.testing.assert_allclose(slope, g[f"g_x_{variant}"], **CLOSE)
    np.testing.assert_allclose(state[0].detach(), g[f"final_{variant}.weights.0"], **CLOSE)
    if variant == "lin":
        np.testing.assert_allclose(state[1].detach(), g["final_momentum_lin.weights.0"][0], **CLOSE)

    q, k, v, theta, eta, alpha, first = (a.detach().numpy() for a in (q, k, v, theta, eta, alpha, first))
    np.testing.assert_allclose(
        titans_memory(q, k, v, theta / 6, eta, alpha, memory=first), g[f"out_{variant}"], **CLOSE
    )
    state = first, np.zeros_like(first)
    for t in range(9):
        updates = g[f"updates_{variant}.weights.0"]
        np.testing.assert_allclose(state[0], updates[:, t], **CLOSE)
        loss = ((k[:, t, None] @ state[0])[:, 0] - v[:, t]) ** 2
        np.testing.assert_allclose(loss.mean(-1), g[f"loss_{variant}"][:, 0, t], **CLOSE)
        token = (a[:, t] for a in (q, k, v, theta / 6, eta, alpha))
        out, state = titans_memory_step(*token, memory=state[0], momentum=state[1])
        np.testing.assert_allclose(out, g[f"out_{variant}"][:, t], **CLOSE)
        np.testing.assert_allclose(state[0], updates[:, t + 1], **CLOSE)


# The recurrence


@given(st.integers(1, 80), st.integers(1, 90), st.integers(1, 5), st.integers(1, 5), st.booleans(),
       st.integers(0, 99))  # fmt: skip
def test_is_the_recurrence(L, chunk_size, d, dv, started, seed):
    arrays = drawn(L=L, d=d, dv=dv, seed=seed)
    if chunk_size > 1:
        arrays = (*arrays[:3], arrays[3] / chunk_size, *arrays[4:])
    memory, momentum = normal(2, d, dv, seed=seed) if started else (None, None)
    wanted = recurrence(*arrays, chunk_size, memory, momentum)
    for kind in (list, tensors):
        first = {} if memory is None else dict(
            zip(("memory", "momentum"), kind([memory, momentum]), strict=True)
        )  # fmt: skip
        out, state = titans_memory(*kind(arrays), chunk_size=chunk_size, return_state=True, **first)
        for got, right in zip((out, *state), wanted, strict=True):
            np.testing.assert_allclose(got, right, **CLOSE)


@pytest.mark.parametrize("before", [(), (1,), (3,), (2, 3)])
def test_every_sequence_is_by_itself(lib, before):
    arrays = drawn(*before, L=40)
    memory, momentum = normal(2, *before, 4, 3)
    out, state = titans_memory(*map(lib.array, arrays), memory=lib.array(memory),
                               momentum=lib.array(momentum), return_state=True)  # fmt: skip
    for at in np.ndindex(*before):
        wanted = recurrence(*(x[at] for x in arrays), 1, memory[at], momentum[at])
        for got, right in zip((out, *state), wanted, strict=True):
            np.testing.assert_allclose(lib.numpy(got)[at], right, **CLOSE)


def test_step_by_step_and_in_pieces(lib):
    arrays = [lib.array(x) for x in drawn(2, L=50)]
    whole, after = titans_memory(*arrays, return_state=True)
    state = {}
    for first, last in [(0, 1), (1, 20), (20, 21), (21, 22), (22, 50)]:
        if last - first > 1:
            piece = (x[:, first:last] for x in arrays)
            out, (memory, momentum) = titans_memory(*piece, return_state=True, **state)
        else:
            token = (x[:, first] for x in arrays)
            out, (memory, momentum) = titans_memory_step(*token, **state)
            out = out[:, None]
        state = {"memory": memory, "momentum": momentum}
        np.testing.assert_allclose(out, whole[:, first:last], **CLOSE)
    np.testing.assert_allclose(state["memory"], after[0], **CLOSE)
    np.testing.assert_allclose(state["momentum"], after[1], **CLOSE)


def test_pieces_may_be_cut_between_chunks():
    q, k, v, theta, eta, alpha = drawn(L=24)
    arrays = q, k, v, theta / 6, eta, alpha
    whole = titans_memory(*arrays, chunk_size=6)
    out, (memory, momentum) = titans_memory(*(x[:12] for x in arrays), chunk_size=6, return_state=True)
    rest = titans_memory(*(x[12:] for x in arrays), chunk_size=6, memory=memory, momentum=momentum)
    np.testing.assert_allclose(np.concatenate([out, rest]), whole, **CLOSE)


def test_one_number_serves_all_tokens(lib):
    arrays = [lib.array(x) for x in drawn(2)]
    full = [lib.array(np.full((2, 9), x)) for x in (0.25, 0.5, 0.125)]
    wanted = titans_memory(*arrays[:3], *full)
    np.testing.assert_allclose(titans_memory(*arrays[:3], 0.25, 0.5, 0.125), wanted, **CLOSE)
    np.testing.assert_allclose(titans_memory(*arrays[:3], full[0], 0.5, 0.125), wanted, **CLOSE)
    first = titans_memory_step(*(x[:, 0] for x in arrays[:3]), 0.25, 0.5, 0.125)[0]
    np.testing.assert_allclose(first, wanted[:, 0], **CLOSE)


def test_the_step_is_that_of_autograd():
    """The gradient by hand is the gradient: of the sum of squares, not of their mean."""
    q, k, v, theta, eta, alpha = tensors(drawn(L=12))
    memory = torch.from_numpy(normal(4, 3)).requires_grad_()
    M, S = memory, torch.zeros(4, 3, dtype=torch.float64)
    outs = []
    for t in range(12):
        (slope,) = torch.autograd.grad((k[t] @ M - v[t]).square().sum(), M, create_graph=True)
        S = eta[t] * S - theta[t] * slope
        M = (1 - alpha[t]) * M + S
        outs.append(q[t] @ M)
    out = titans_memory(q, k, v, theta, eta, alpha, memory=memory)
    torch.testing.assert_close(out, torch.stack(outs))
    slopes = [torch.autograd.grad(o.square().sum(), memory)[0] for o in (out, torch.stack(outs))]
    torch.testing.assert_close(*slopes)


@pytest.mark.parametrize("chunk_size", [1, 2, 5])
def test_gradients_by_differences(chunk_size):
    inputs = tensors(drawn(2, L=5, d=2, dv=2), grad=True)
    state = tensors(normal(2, 2, 2, 2), grad=True)

    def read(q, k, v, theta, eta, alpha, memory, momentum):
        out, after = titans_memory(q, k, v, theta, eta, alpha, chunk_size=chunk_size, memory=memory,
                                   momentum=momentum, return_state=True)  # fmt: skip
        return out, *after

    assert torch.autograd.gradcheck(read, (*inputs, *state))


def test_gradients_by_differences_where_a_share_is_0_or_1():
    q, k, v, theta, eta, alpha = tensors(drawn(L=5, d=2, dv=2))
    for share in (torch.zeros(5, dtype=torch.float64), torch.ones(5, dtype=torch.float64)):
        shares = [share.clone().requires_grad_() for _ in range(2)]
        assert torch.autograd.gradcheck(lambda e, a: titans_memory(q, k, v, theta, e, a), shares)  # noqa: B023


# What it is where its numbers are 0, or 1


@given(st.integers(1, 50), st.integers(0, 99))
def test_without_momentum_it_is_the_delta_rule_with_a_gate(L, seed):
    """``M_t = (1 - alpha) M + beta k^T (v - k M)``, with ``beta = 2 theta``: what was there is taken out."""
    q, k, v, theta, _, alpha = drawn(L=L, seed=seed)
    M = np.zeros((4, 3))
    out = titans_memory(q, k, v, theta, 0.0, alpha)
    for t in range(L):
        rule = (1 - alpha[t]) * np.eye(4) - 2 * theta[t] * np.outer(k[t], k[t])
        M = rule @ M + 2 * theta[t] * np.outer(k[t], v[t])
        np.testing.assert_allclose(out[t], q[t] @ M, **CLOSE)


@given(st.integers(1, 50), st.integers(1, 60), st.integers(0, 99))
def test_without_momentum_and_forgetting_it_is_a_layer_of_test_time_training(L, chunk_size, seed):
    """Plain gradient descent, a step a token, the gradients at the weights before the chunk."""
    q, k, v, theta, _, _ = drawn(L=L, seed=seed)
    theta = theta / chunk_size
    weights = stale = np.zeros((4, 3))
    out = titans_memory(q, k, v, theta, 0.0, 0.0, chunk_size=chunk_size)
    for t in range(L):
        stale = weights if t % chunk_size == 0 else stale
        weights = weights - theta[t] * 2 * k[t][:, None] * (k[t] @ stale - v[t])
        np.testing.assert_allclose(out[t], q[t] @ weights, **CLOSE)


def test_in_one_chunk_from_nothing_it_is_linear_attention():
    """All gradients at a memory of zeros: writes add, and nothing is overwritten."""
    q, k, v, *_ = drawn(2, L=50)
    linear = linear_attention(q, k, v, causal=True, feature_map=None, normalize=False)
    np.testing.assert_allclose(titans_memory(q, k, v, 0.5, 0.0, 0.0, chunk_size=50), linear, **CLOSE)
    assert abs(titans_memory(q, k, v, 0.5, 0.0, 0.0) - linear).max() > 0.1


def test_half_a_step_makes_the_memory_give_the_value():
    _, k, v, *_ = drawn(L=50)
    np.testing.assert_allclose(titans_memory(k, k, v, 0.5, 0.0, 0.0), v, **CLOSE)


def test_all_forgotten_leaves_the_last_step():
    q, k, v, theta, _, _ = drawn(L=50)
    alone = titans_memory(q, k, v, theta, 0.0, np.ones(50))
    memory = np.zeros((4, 3))
    for t in range(50):
        memory = -theta[t] * 2 * np.outer(k[t], k[t] @ memory - v[t])
        np.testing.assert_allclose(alone[t], q[t] @ memory, **CLOSE)


def test_momentum_carries_a_step_on_after_its_token():
    """Keys of zeros give no surprise of their own; the first one's goes on: 1, 1.5, 1.75, ..."""
    k, v = np.zeros((6, 1)), np.ones((6, 1))
    k[0] = 1
    out = titans_memory(np.ones((6, 1)), k, v, 0.5, 0.5, 0.0)
    np.testing.assert_allclose(out[:, 0], 2 - 0.5 ** np.arange(6), **CLOSE)


def test_a_past_step_keeps_its_size():
    """It goes on by the second token's momentum, whatever that token's own step."""
    k, v, q = np.eye(2), np.array([[1.0], [0.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    out = titans_memory(q, k, v, np.array([0.1, 0.4]), np.array([0.0, 0.5]), 0.0)
    np.testing.assert_allclose(out[:, 0], [0.2, 0.2 + 0.5 * 0.2])


def test_later_tokens_change_nothing():
    arrays = drawn(L=70)
    out = titans_memory(*arrays)
    for x in arrays:
        x[45:] = 0.5
    np.testing.assert_allclose(titans_memory(*arrays)[:45], out[:45], **CLOSE)


# Types, inputs, errors


def test_half_precision_integers_and_inputs_unchanged(lib):
    arrays = drawn(2, L=200)
    before = [x.copy() for x in arrays]
    half = [lib.array(x.astype(np.float16)) for x in arrays]
    out, state = titans_memory(*half, return_state=True)
    assert "float16" in str(out.dtype) and {str(x.dtype)[-7:] for x in state} == {"float32"}
    wanted = titans_memory(*(x.astype(np.float16).astype(float) for x in arrays))
    np.testing.assert_allclose(out, wanted, rtol=2e-3, atol=5e-3)
    step, _ = titans_memory_step(*(x[:, 0] for x in half))
    assert "float16" in str(step.dtype)
    whole = [(3 * x).astype(int) for x in arrays[:3]]
    np.testing.assert_allclose(
        titans_memory(*map(lib.array, whole), 0.01, 0.5, 0.1),
        titans_memory(*whole, 0.01, 0.5, 0.1),
        atol=1e-4,
    )
    given = list(map(lib.array, arrays))
    memory = lib.array(normal(2, 4, 3))
    titans_memory(*given, memory=memory, momentum=memory)
    titans_memory_step(*(x[:, 0] for x in given), memory=memory, momentum=memory)
    np.testing.assert_array_equal(memory, normal(2, 4, 3))
    for x, old in zip(given, before, strict=True):
        np.testing.assert_array_equal(x, old)


@settings(max_examples=20)
@given(st.integers(0, 99))
def test_float32_stays_near_float64(seed):
    arrays = drawn(L=300, d=16, dv=16, seed=seed)
    wanted = titans_memory(*arrays)
    out = titans_memory(*(x.astype(np.float32) for x in arrays))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out, wanted, atol=1e-4 * abs(wanted).max())


Q, K, V, THETA, ETA, ALPHA = drawn(2)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: titans_memory([[1.0]], K, V, 1, 0, 0), TypeError, ["q must be a NumPy array", "list"]),
        (lambda: titans_memory(Q, K[..., :3], V, 1, 0, 0), ValueError, ["k must have shape", "d = 4"]),
        (lambda: titans_memory(Q, K, V[:, 1:], 1, 0, 0), ValueError, ["v must have shape", "L = 9"]),
        (lambda: titans_memory(Q, K, V, THETA[:, 1:], 0, 0), ValueError, ["theta must have shape", "L = 9"]),
        (lambda: titans_memory(Q, K, V, 1, ETA[0], 0), ValueError, ["eta must have the leading axes of q"]),
        (lambda: titans_memory(Q, K, V, 1, 0, "0"), TypeError, ["alpha must be a number; got '0'"]),
        (lambda: titans_memory(Q, K, V, True, 0, 0), TypeError, ["theta must be a number; got True"]),
        (lambda: titans_memory(Q, K, V, 1, 0, ALPHA > 0), TypeError, ["alpha must hold real numbers"]),
        (lambda: titans_memory(Q, K, V, 1, 0, 0, chunk_size=0), ValueError, ["chunk_size", "at least 1"]),
        (lambda: titans_memory(Q, K, V, 1, 0, 0, chunk_size=None), TypeError, ["chunk_size", "whole number"]),
        (
            lambda: titans_memory(Q, K, V, 1, 0, 0, return_state=1),
            TypeError,
            ["return_state", "True or False"],
        ),
        (lambda: titans_memory(Q, K, V, 1, 0, 0, memory=Q), ValueError, ["memory must have shape", "dv = 3"]),
        (
            lambda: titans_memory(Q, K, V, 1, 0, 0, momentum=normal(4, 3)),
            ValueError,
            ["momentum must have the leading axes of q, (2,); got shape (4, 3)"],
        ),
        (lambda: titans_memory(None, K, V, 1, 0, 0), TypeError, ["q must be a NumPy array", "NoneType"]),
        (lambda: titans_memory_step(Q, None, V, 1, 0, 0), TypeError, ["k must be a NumPy array", "NoneType"]),
        (lambda: titans_memory_step(Q, K, V[0], 1, 0, 0), ValueError, ["v must have the leading axes of q"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

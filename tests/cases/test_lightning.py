import numpy as np
import pytest
import torch
from drawn import BOTH, normal, qkv
from hypothesis import given
from hypothesis import strategies as st

from attnlib import (
    alibi_slopes,
    gated_linear_attention,
    lightning_attention,
    lightning_attention_step,
    lightning_rates,
    lightning_slopes,
    lightning_weights,
)

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
GOLDEN = {"rtol": 1e-4, "atol": 1e-5}
SLOPES = np.array([0.7, 0.1, 0.0])


def by_hand(q, k, v, gates, state=None):
    """The recurrence, one head at a time; ``gates`` say what each token leaves of the past."""
    state = np.zeros((k.shape[-1], v.shape[-1])) if state is None else state
    outs = []
    for t in range(len(q)):
        state = gates[t] * state + np.outer(k[t], v[t])
        outs.append(q[t] @ state)
    return np.array(outs), state


def heads_by_hand(q, k, v, gates, state=None):
    """The same over any axes before the positions."""
    lead = q.shape[:-2]
    gates = np.broadcast_to(gates, q.shape[:-1])
    results = [by_hand(q[i], k[i], v[i], gates[i], None if state is None else state[i])
               for i in np.ndindex(lead)]  # fmt: skip
    outs, states = (np.array(x) for x in zip(*results, strict=True))
    return outs.reshape(*lead, *outs.shape[1:]), states.reshape(*lead, *states.shape[1:])


# The golden files


@BOTH
@pytest.mark.parametrize("size", [1, 3, 4, 13, 256])
def test_agrees_with_the_golden_file(golden, array, size):
    g = golden("lightning_attention_op")
    q, k, v, slopes = (array(g[name]) for name in ("in_q", "in_k", "in_v", "p_slopes"))
    out, state = lightning_attention(q, k, v, slopes, block_size=size, return_state=True)
    np.testing.assert_allclose(out, g["out"], **GOLDEN)
    np.testing.assert_allclose(state, g["out_state"], **GOLDEN)
    np.testing.assert_allclose(lightning_weights(q, k, slopes) @ v, g["out"], **GOLDEN)
    np.testing.assert_allclose(lightning_attention(q, k, v, 0, block_size=size), g["out_nodecay"], **GOLDEN)
    gates = array(np.swapaxes(g["in_logg"], 1, 2).copy())
    out, state = gated_linear_attention(q, k, v, gates, block_size=size, return_state=True)
    np.testing.assert_allclose(np.swapaxes(out, 1, 2), g["out_gla"], **GOLDEN)
    np.testing.assert_allclose(state, g["out_gla_state"], **GOLDEN)


@pytest.mark.parametrize("size", [1, 4, 256])
def test_gradients_agree_with_the_golden_file(golden, size):
    g = golden("lightning_attention_op")
    inputs = [torch.from_numpy(g[f"in_{name}"]).requires_grad_() for name in "qkv"]
    out = lightning_attention(*inputs, torch.from_numpy(g["p_slopes"]), block_size=size)
    upstream = torch.from_numpy(g["in_do"])
    for name, gradient in zip("qkv", torch.autograd.grad(out, inputs, upstream), strict=True):
        np.testing.assert_allclose(gradient, g[f"g_{name}"], **GOLDEN)


def test_slopes_and_rates_agree_with_the_golden_file(golden):
    g = golden("minimax_lightning_official")
    for n_heads in (1, 2, 4, 8, 6, 12, 20, 64):
        np.testing.assert_allclose(lightning_slopes(n_heads), g[f"out_slopes_{n_heads}"], rtol=1e-6)
    for layer in (0, 3, 7):
        np.testing.assert_allclose(lightning_rates(4, layer, 8), g[f"rate_l{layer}"], rtol=1e-4)


# Slopes and rates


@given(st.integers(1, 70))
def test_slopes_are_alibis_and_those_of_hugging_face_the_formulas(n_heads):
    np.testing.assert_array_equal(lightning_slopes(n_heads), alibi_slopes(n_heads))
    plain = 2.0 ** (-8 * np.arange(1, n_heads + 1) / n_heads)
    np.testing.assert_allclose(lightning_slopes(n_heads, rule="hugging_face"), plain)
    assert np.allclose(plain, lightning_slopes(n_heads)) == (n_heads & (n_heads - 1) == 0)


def test_rates_fall_with_the_layer_and_never_reach_zero():
    rates = np.array([lightning_rates(6, layer, 5) for layer in range(5)])
    factors = [1.00001, 0.75001, 0.50001, 0.25001, 0.00001]
    np.testing.assert_allclose(rates, np.outer(factors, lightning_slopes(6)), rtol=1e-9)
    theirs = lightning_rates(6, 4, 5, rule="hugging_face")
    np.testing.assert_allclose(theirs, 2.0 ** (-8 * np.arange(1, 7) / 6) * (1 - 4 / 4.00001 + 1e-5))
    np.testing.assert_allclose(lightning_rates(6, 0, 1), lightning_slopes(6) * 1.00001)


@pytest.mark.parametrize("rule", ["minimax", "hugging_face"])
def test_slopes_are_made_like_an_array(rule):
    assert lightning_slopes(3, rule=rule, like=np.zeros(1, np.float32)).dtype == np.float32
    half = lightning_rates(3, 1, 4, rule=rule, like=torch.zeros(1, dtype=torch.float16))
    assert half.dtype == torch.float32
    np.testing.assert_allclose(half, lightning_rates(3, 1, 4, rule=rule), rtol=1e-6)


# The recurrence


LENGTHS = st.integers(1, 25), st.integers(1, 30), st.sampled_from([(3,), (2, 3)])


@given(*LENGTHS, st.booleans(), st.booleans(), st.integers(0, 99))
def test_is_the_recurrence(n, size, before, started, padded, seed):
    q, k, v = (x + normal(1, seed=seed) for x in qkv(*before, n_query=n, n_key=n))
    state = normal(*before, 4, 3, seed=seed) if started else None
    mask = normal(*[1 for _ in before], 1, n, seed=seed) < 0.5 if padded else None
    seen = v if mask is None else v * np.swapaxes(mask, -1, -2)
    wanted, last = heads_by_hand(q, k, seen, np.exp(-SLOPES)[:, None], state)
    for array in (np.asarray, torch.from_numpy):
        given_state, given_mask = (None if x is None else array(x) for x in (state, mask))
        out, after = lightning_attention(
            *map(array, (q, k, v, SLOPES)), given_mask, block_size=size, state=given_state, return_state=True
        )
        np.testing.assert_allclose(out, wanted, **CLOSE)
        np.testing.assert_allclose(after, last, **CLOSE)
        if not started:
            weights = lightning_weights(*map(array, (q, k, SLOPES)), given_mask)
            np.testing.assert_allclose(weights @ array(v), wanted, **CLOSE)


@given(*LENGTHS, st.booleans(), st.sampled_from([None, 1.0, 0.3]), st.integers(0, 99))
def test_gated_linear_attention_is_the_recurrence(n, size, before, started, scale, seed):
    q, k, v = (x + normal(1, seed=seed) for x in qkv(*before, n_query=n, n_key=n))
    gates = -(normal(*before, n, seed=seed) ** 2)
    state = normal(*before, 4, 3, seed=seed) if started else None
    wanted, last = heads_by_hand(q * (0.5 if scale is None else scale), k, v, np.exp(gates), state)
    for array in (np.asarray, torch.from_numpy):
        out, after = gated_linear_attention(
            *map(array, (q, k, v, gates)), scale=scale, block_size=size,
            state=None if state is None else array(state), return_state=True,
        )  # fmt: skip
        np.testing.assert_allclose(out, wanted, **CLOSE)
        np.testing.assert_allclose(after, last, **CLOSE)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=5), st.integers(1, 9))
def test_pieces_and_steps_give_what_the_whole_gives(pieces, size):
    n = sum(pieces)
    q, k, v = qkv(2, 3, n_query=n, n_key=n)
    whole, last = lightning_attention(q, k, v, SLOPES, return_state=True)
    state, start = None, 0
    for length in pieces:
        part = (x[..., start : start + length, :] for x in (q, k, v))
        out, state = lightning_attention(*part, SLOPES, block_size=size, state=state, return_state=True)
        np.testing.assert_allclose(out, whole[..., start : start + length, :], **CLOSE)
        start += length
    np.testing.assert_allclose(state, last, **CLOSE)
    state = None
    for t in range(n):
        out, state = lightning_attention_step(*(x[..., t, :] for x in (q, k, v)), SLOPES, state)
        np.testing.assert_allclose(out, whole[..., t, :], **CLOSE)
    np.testing.assert_allclose(state, last, **CLOSE)


def test_gates_that_are_all_alike_are_lightning_attention():
    q, k, v = qkv(2, 3)
    gates = np.broadcast_to(-SLOPES[:, None], (2, 3, 9))
    gated = gated_linear_attention(q, k, v, gates, scale=1.0, block_size=4)
    np.testing.assert_allclose(gated, lightning_attention(q, k, v, SLOPES), **CLOSE)


def test_no_scale_and_a_number_is_a_slope_for_all():
    q, k, v = qkv(2)
    out = lightning_attention(q, k, v, 0.3, block_size=4)
    np.testing.assert_allclose(lightning_attention(2 * q, k, v, 0.3), 2 * out, **CLOSE)
    np.testing.assert_allclose(out, lightning_attention(q, k, v, np.array([0.3, 0.3])), **CLOSE)
    alone = lightning_attention(q[0], k[0], v[0], 0.3)
    np.testing.assert_allclose(alone, out[0], **CLOSE)


@BOTH
def test_a_steep_slope_neither_overflows_nor_gives_nan(array):
    q, k, v = map(array, qkv(2, n_query=300, n_key=300))
    out = lightning_attention(q, k, v, 50.0)
    np.testing.assert_allclose(out, ((q * k).sum(-1)[..., None]) * v, rtol=1e-9, atol=1e-9)
    gates = array(np.full((2, 300), -50.0))
    np.testing.assert_allclose(gated_linear_attention(q, k, v, gates, scale=1.0), out, rtol=1e-9, atol=1e-9)


def test_gradients():
    inputs = [torch.from_numpy(x).requires_grad_() for x in qkv(2, 3, n_query=5, n_key=5, d=2, dv=2)]
    slopes = torch.from_numpy(SLOPES + 0.1).requires_grad_()
    state = torch.from_numpy(normal(2, 3, 2, 2)).requires_grad_()
    gates = torch.from_numpy(-1 - abs(normal(2, 3, 5))).requires_grad_()
    mask = torch.tensor([[True, False, True, True, True]])
    none = torch.zeros(1, 5, dtype=torch.bool)
    assert torch.autograd.gradcheck(
        lambda q, k, v, slopes, state, gates: (
            *lightning_attention(q, k, v, slopes, mask, block_size=2, state=state, return_state=True),
            lightning_attention(q, k, v, slopes, none, block_size=2),
            lightning_weights(q, k, slopes, mask),
            *lightning_attention_step(*(x[..., 0, :] for x in (q, k, v)), slopes, state),
            *gated_linear_attention(q, k, v, gates, block_size=2, state=state, return_state=True),
        ),
        (*inputs, slopes, state, gates),
    )


@BOTH
def test_types_empty_rows_and_inputs_unchanged(array):
    q, k, v = qkv(2, 3)
    before = [x.copy() for x in (q, k, v)]
    gates = -abs(normal(2, 3, 9))
    state = normal(2, 3, 4, 3)
    nobody = array(np.zeros((1, 9), bool))
    for form in (
        lambda *x, mask=None, state=None: lightning_attention(
            *x, array(SLOPES), mask, block_size=4, state=state, return_state=True
        ),
        lambda *x, state=None: gated_linear_attention(
            *x, array(gates), scale=1.0, block_size=4, state=state, return_state=True
        ),
    ):
        wanted, _ = form(q, k, v) if array is np.ascontiguousarray else form(*map(array, (q, k, v)))
        half, after = form(*(array(x.astype(np.float16)) for x in (q, k, v)))
        assert ("float16" in str(half.dtype), "float16" in str(after.dtype)) == (True, False)
        np.testing.assert_allclose(half, wanted, atol=2e-2)
        odd = [np.swapaxes(np.swapaxes(x, -1, -2).copy(), -1, -2) for x in (q, k, v)]
        np.testing.assert_allclose(form(*map(array, odd))[0], wanted, **CLOSE)
        kept = array(state.copy())
        form(*map(array, (q, k, v)), state=kept)
        np.testing.assert_array_equal(kept, state)
    out, after = lightning_attention(*map(array, (q, k, v, SLOPES)), nobody, return_state=True)
    assert (np.asarray(out) == 0).all() and (np.asarray(after) == 0).all()
    whole = [np.rint(2 * x).astype(int) for x in (q, k, v)]
    exact = lightning_attention(*(x.astype(float) for x in whole), SLOPES)
    np.testing.assert_allclose(lightning_attention(*map(array, whole), array(SLOPES)), exact, rtol=1e-4)
    for x, old in zip((q, k, v), before, strict=True):
        np.testing.assert_array_equal(x, old)


Q, K, V = qkv(2)
STEP = Q[:, 0], K[:, 0], V[:, 0]
STATE = np.ones((2, 4, 3))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: lightning_attention(Q, K[:, 1:], V, 0.1), ValueError, ["k must have shape", "L = 9"]),
        (lambda: lightning_attention(Q, K, V, np.ones(3)), ValueError, ["slopes must", "(2,)", "(3,)"]),
        (lambda: lightning_attention(Q, K, V, np.ones((1, 1, 2))), ValueError, ["slopes must broadcast"]),
        (lambda: lightning_attention(Q, K, V, -0.1), ValueError, ["slopes must be finite and at least 0"]),
        (lambda: lightning_attention(Q, K, V, np.nan), ValueError, ["slopes must be finite"]),
        (lambda: lightning_attention(Q, K, V, np.inf), ValueError, ["slopes must be finite"]),
        (lambda: lightning_attention(Q, K, V, [0.1, 0.2]), TypeError, ["slopes must be a NumPy array"]),
        (lambda: lightning_attention(Q, K, V, True), TypeError, ["slopes must be a NumPy array"]),
        (lambda: lightning_attention(Q, K, V, np.ones(2) > 0), TypeError, ["slopes must hold real numbers"]),
        (lambda: lightning_attention(Q, K, V, 0.1, np.ones((9, 9), bool)), ValueError, ["mask", "(2, 1, 9)"]),
        (lambda: lightning_weights(Q, K, 0.1, np.ones((9, 9), bool)), ValueError, ["mask", "(2, 1, 9)"]),
        (lambda: lightning_attention(Q, K, V, 0.1, block_size=0), ValueError, ["block_size must be"]),
        (lambda: lightning_attention(Q, K, V, 0.1, state=Q), ValueError, ["state must have shape (2, 4, 3)"]),
        (lambda: lightning_attention_step(*STEP, 0.1, STATE > 0), TypeError, ["state must hold", "bool"]),
        (lambda: lightning_attention_step(*STEP, 0.1, STATE * 1j), TypeError, ["state must hold real"]),
        (lambda: lightning_attention_step(*STEP, 0.1, Q), ValueError, ["state must have shape (2, 4, 3)"]),
        (lambda: lightning_attention_step(Q, K, V[:, 0], 0.1), ValueError, ["v must have", "(2, 9)"]),
        (lambda: gated_linear_attention(Q, K, V, Q), ValueError, ["log_gates must have"]),
        (lambda: gated_linear_attention(Q, K, V, np.ones((2, 9))), ValueError, ["log_gates", "at most 0"]),
        (lambda: gated_linear_attention(Q, K, V, np.full((2, 9), -np.inf)), ValueError, ["be finite"]),
        (lambda: gated_linear_attention(Q, K, V, -V[..., 0] ** 2, scale="1"), TypeError, ["scale must be a"]),
        (lambda: lightning_slopes(0), ValueError, ["n_heads must be at least 1"]),
        (lambda: lightning_slopes(0, rule="hugging_face"), ValueError, ["n_heads must be at least 1"]),
        (lambda: lightning_slopes(4, rule="fla"), ValueError, ["rule must be 'minimax' or", "'fla'"]),
        (lambda: lightning_rates(4, 8, 8), ValueError, ["layer must lie in 0 .. 7", "8"]),
        (lambda: lightning_rates(4, -1, 8), ValueError, ["layer must lie in 0 .. 7", "-1"]),
        (lambda: lightning_rates(4, 0.5, 8), TypeError, ["layer must be a whole number"]),
    ],
)  # fmt: skip
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

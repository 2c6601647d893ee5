import math
from functools import partial

import drawn
import numpy as np
import pytest
import torch
from drawn import assert_same_gradients, normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import attention, causal_mask, logsumexp, merge_attention, tiled_attention

qkv = partial(drawn.qkv, n_query=5)


def parts(q, k, v, mask, cuts):
    """Each stretch of keys alone."""
    found = [tiled_attention(q, k[..., a:b, :], v[..., a:b, :], mask[..., a:b], return_lse=True)
             for a, b in zip(cuts, cuts[1:], strict=False)]  # fmt: skip
    return [out for out, _ in found], [lse for _, lse in found]


@given(
    st.sampled_from([(), (2,), (2, 3)]), st.integers(1, 6), st.integers(1, 9),
    st.sets(st.integers(1, 8)), st.integers(0, 999),
)  # fmt: skip
def test_parts_of_the_keys_make_the_whole(before, n_query, n_key, cuts, seed):
    q, k, v = qkv(*before, n_query=n_query, n_key=n_key)
    rng = np.random.default_rng(seed)
    mask = rng.random((n_query, n_key)) < 0.5
    cuts = [0, *sorted(c for c in cuts if c < n_key), n_key]
    wanted, wanted_lse = tiled_attention(q, k, v, mask, return_lse=True)
    np.testing.assert_allclose(wanted, attention(q, k, v, mask), atol=1e-12)
    outs, lses = parts(q, k, v, mask, cuts)
    order = rng.permutation(len(outs))
    for out, lse in (
        merge_attention(outs, lses),
        merge_attention([outs[i] for i in order], [lses[i] for i in order]),
        merge_attention([torch.from_numpy(x) for x in outs], [torch.from_numpy(x) for x in lses]),
    ):
        np.testing.assert_allclose(out, wanted, atol=1e-12)
        np.testing.assert_allclose(lse, wanted_lse, atol=1e-12)
        assert not np.asarray(out)[..., ~mask.any(1), :].any()


def test_a_merged_part_is_a_part():
    q, k, v = qkv(2)
    mask = causal_mask(5, 9)
    outs, lses = parts(q, k, v, mask, [0, 2, 3, 7, 9])
    out, lse = outs[0], lses[0]
    for more, more_lse in zip(outs[1:], lses[1:], strict=True):
        out, lse = merge_attention([out, more], [lse, more_lse])
    wanted, wanted_lse = tiled_attention(q, k, v, mask, return_lse=True)
    np.testing.assert_allclose(out, wanted, atol=1e-12)
    np.testing.assert_allclose(lse, wanted_lse, atol=1e-12)
    one = merge_attention(outs[:1], lses[:1])
    np.testing.assert_allclose(one[0], outs[0], atol=1e-15)
    np.testing.assert_allclose(one[1], lses[0], atol=1e-15)


def test_log_sum_exps_far_apart_and_far_from_zero(lib):
    outs = [lib.array(np.full((2, 1), x)) for x in (1.0, 2.0, 3.0)]
    lses = [np.array([-2000.0, 3000.0]), np.array([-2000.0, -math.inf]), np.array([-9000.0, 3000.0])]
    out, lse = merge_attention(outs, [lib.array(x) for x in lses])
    np.testing.assert_allclose(lib.numpy(out), [[1.5], [2.0]])
    np.testing.assert_allclose(lib.numpy(lse), logsumexp(np.stack(lses), 0))


def test_gradients_flow_through_outputs_and_log_sum_exps():
    q, k, v = (torch.from_numpy(x).requires_grad_() for x in qkv(2))
    mask = torch.from_numpy(np.random.default_rng(0).random((5, 9)) < 0.5)
    mask[0] = False
    weight = torch.from_numpy(normal(2, 5, 3))
    out, lse = merge_attention(*parts(q, k, v, mask, [0, 4, 9]))
    got = torch.autograd.grad((out * weight).sum() + lse[:, 1:].sum(), (q, k, v))
    out, lse = tiled_attention(q, k, v, mask, return_lse=True)
    wanted = torch.autograd.grad((out * weight).sum() + lse[:, 1:].sum(), (q, k, v))
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-12)
    outs, lses = ([x.detach().requires_grad_() for x in xs] for xs in parts(q, k, v, mask, [0, 4, 9]))
    lses = [x[:, 1:].detach().requires_grad_() for x in lses]
    assert torch.autograd.gradcheck(
        lambda a, b, c, d: merge_attention([a[:, 1:], b[:, 1:]], [c, d])[0], [*outs, *lses]
    )


@given(
    st.sampled_from([(), (2,), (2, 3)]), st.integers(1, 6), st.integers(1, 9),
    st.sets(st.integers(1, 8)), st.integers(0, 999),
)  # fmt: skip
def test_gradients_of_any_parts_are_those_of_the_whole(before, n_query, n_key, cuts, seed):
    inputs = [torch.from_numpy(x).requires_grad_() for x in qkv(*before, n_query=n_query, n_key=n_key)]
    mask = torch.from_numpy(np.random.default_rng(seed).random((n_query, n_key)) < 0.5)
    got, _ = merge_attention(*parts(*inputs, mask, [0, *sorted(c for c in cuts if c < n_key), n_key]))
    wanted = attention(*inputs, mask, return_weights=True)[0]
    assert_same_gradients(got, wanted, inputs, atol=1e-12)


def test_half_precision_keeps_its_type_and_its_log_sum_exp(lib):
    q, k, v = (x.astype(np.float16) for x in qkv(2))
    halves = parts(*map(lib.array, (q, k, v, causal_mask(5, 9))), [0, 4, 9])
    before = [lib.numpy(x).copy() for x in (*halves[0], *halves[1])]
    out, lse = map(lib.numpy, merge_attention(*halves))
    assert out.dtype == np.float16 and lse.dtype == np.float32
    wanted = attention(*(x.astype(float) for x in (q, k, v)), causal=True)
    np.testing.assert_allclose(out, wanted, atol=2e-3)
    for x, old in zip((*halves[0], *halves[1]), before, strict=True):
        np.testing.assert_array_equal(lib.numpy(x), old)


OUT, LSE = np.zeros((2, 3, 4)), np.zeros((2, 3))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: merge_attention(None, None), TypeError, ["outs must be a list", "NoneType"]),
        (lambda: merge_attention([], []), ValueError, ["a part at least", "0 outs and 0 lses"]),
        (lambda: merge_attention([OUT], [LSE, LSE]), ValueError, ["one log-sum-exp for each", "1 outs"]),
        (lambda: merge_attention([OUT, OUT[:1]], [LSE, LSE]), ValueError, ["outs[1] must have", "(2,)"]),
        (lambda: merge_attention([OUT, OUT], [LSE, LSE[:, :2]]), ValueError, ["lses[1] must have"]),
        (lambda: merge_attention([OUT], [OUT]), ValueError, ["lses must have shape (2, 3)", "(2, 3, 4)"]),
        (lambda: merge_attention([OUT], [torch.from_numpy(LSE)]), TypeError, ["one library"]),
        (lambda: merge_attention([OUT], [[1.0]]), TypeError, ["lses[0] must be a NumPy array", "list"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

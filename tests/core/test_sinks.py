import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from torch.nn.functional import linear

from attnlib import (
    causal_mask,
    merge_heads,
    scaled_dot_score,
    softmax,
    softmax_off_by_one,
    softmax_with_sink,
    split_heads,
)

finite = arrays(np.float64, array_shapes(min_dims=1, max_dims=3, max_side=7), elements=st.floats(-1e4, 1e4))
CLOSE = {"rtol": 1e-12, "atol": 1e-14}


def beside(x, extra, axis=-1):
    """The definition: a softmax with more scores, which are then dropped."""
    n = x.shape[axis]
    return np.take(softmax(np.concatenate([x, extra], axis), axis), range(n), axis)


def test_agrees_with_the_golden_sinks_of_gpt_oss(golden, lib):
    g = golden("attention_sinks_gpt_oss")
    q, sinks = g["in_q"], lib.array(g["p_sinks"])
    k, v = (np.repeat(g[f"in_{name}"], 2, axis=1) for name in "kv")  # two heads share a key
    scores = np.where(causal_mask(5), scaled_dot_score(q, k), -np.inf)
    weights = lib.numpy(softmax_with_sink(lib.array(scores), sinks[:, None, None]))
    np.testing.assert_allclose(weights, g["out_w"], rtol=1e-10)
    np.testing.assert_allclose(np.swapaxes(weights @ v, 1, 2), g["out"], rtol=1e-10)
    assert g["p_sinks"][0] == 0
    off_by_one = lib.numpy(softmax_off_by_one(lib.array(scores[:, 0])))
    np.testing.assert_allclose(off_by_one, g["out_w"][:, 0], rtol=1e-10)


@pytest.mark.parametrize("kind", ["zero", "both"])
def test_agrees_with_the_golden_zero_key_of_torch(golden, kind):
    g = golden("mha_torch_zero_attn")
    x, p = torch.tensor(g["in_x"]), {n: torch.tensor(g[n]) for n in g.files if n.startswith(f"p_{kind}.")}
    q, k, v = linear(x, p[f"p_{kind}.in_proj_weight"], p[f"p_{kind}.in_proj_bias"]).chunk(3, -1)
    if kind == "both":  # a learned key and value, before the zeros
        k = torch.cat([k, p["p_both.bias_k"].expand(2, 1, 12)], 1)
        v = torch.cat([v, p["p_both.bias_v"].expand(2, 1, 12)], 1)
    q, k, v = (split_heads(t, 3) for t in (q, k, v))
    weights = softmax_off_by_one(scaled_dot_score(q, k))
    np.testing.assert_allclose(weights, g[f"out_{kind}_w"][..., :-1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(1 - weights.sum(-1), g[f"out_{kind}_w"][..., -1], rtol=1e-10, atol=1e-12)
    out = linear(merge_heads(weights @ v), p[f"p_{kind}.out_proj.weight"], p[f"p_{kind}.out_proj.bias"])
    np.testing.assert_allclose(out, g[f"out_{kind}"], rtol=1e-10, atol=1e-12)


def test_without_a_sink_it_agrees_with_the_golden_softmax(golden, lib):
    g = golden("softmax_family")
    for rows, ending in (("in_x", ""), ("in_xb", "_xb")):
        got = softmax_off_by_one(lib.array(g[rows]), n=0)
        np.testing.assert_allclose(lib.numpy(got), g[f"out_softmax{ending}"], **CLOSE)


@given(finite, st.integers(0, 5), st.data())
def test_is_a_softmax_beside_n_zeros_that_are_dropped(x, n, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    shape = list(x.shape)
    shape[axis] = n
    expected = beside(x, np.zeros(shape), axis)
    for got in (softmax_off_by_one(x, axis, n), softmax_off_by_one(torch.tensor(x), axis, n).numpy()):
        np.testing.assert_allclose(got, expected, rtol=1e-11, atol=1e-300)
        assert (got >= 0).all() and (got.sum(axis) <= 1 + 1e-12).all()


@given(finite, st.floats(-1e3, 1e3))
def test_a_shift_of_scores_and_sink_together_changes_nothing_and_of_scores_alone_does(x, sink):
    p = softmax_with_sink(x, sink)
    np.testing.assert_allclose(softmax_with_sink(x + 3, sink + 3), p, rtol=1e-9, atol=1e-12)
    assert (softmax_with_sink(x, sink + 1) <= p).all()
    for nothing in (-np.inf, np.full(1, -np.inf)):
        np.testing.assert_allclose(softmax_with_sink(x, nothing), softmax(x), **CLOSE)


def test_the_sum_says_how_high_the_scores_are():
    levels = np.array([-1e4, -800, -5, 0, 5, 800, 1e4])
    sums = softmax_off_by_one(levels[:, None] + np.zeros(4)).sum(-1)
    middle = [4 * np.exp(level) / (1 + 4 * np.exp(level)) for level in (-5, 0, 5)]
    np.testing.assert_allclose(sums, [0, 0, *middle, 1, 1], rtol=1e-12)


def test_n_need_not_be_whole_nor_of_the_types_size(lib):
    x = lib.array(np.array([[0.0, 1.0]], np.float32))
    e = np.exp([0.0, 1.0])
    np.testing.assert_allclose(lib.numpy(softmax_off_by_one(x, n=0.5))[0], e / (0.5 + e.sum()), rtol=1e-6)
    assert (lib.numpy(softmax_off_by_one(x, n=1e300)) == 0).all()


def test_a_row_of_minus_infinity_gives_zeros_and_passes_no_gradient(lib):
    x = np.array([[-np.inf] * 3, [0.0, -np.inf, 1.0]])
    for n in (0, 1):
        p = lib.numpy(softmax_off_by_one(lib.array(x), n=n))
        assert (p[0] == 0).all() and p[1, 1] == 0
        t, sink = torch.tensor(x, requires_grad=True), torch.zeros(2, 1, requires_grad=True)
        (softmax_off_by_one(t, n=n) + softmax_with_sink(t, sink)).sum().backward()
        assert torch.isfinite(t.grad).all() and (t.grad[0] == 0).all() and t.grad[1, 1] == 0
        assert sink.grad[0] == 0 and sink.grad[1] < 0


def test_rows_far_below_the_sink_overflow_nothing():
    x = np.array([[-1e4, -1e5], [1e4, 1e5]])
    with np.errstate(over="raise", invalid="raise"):
        np.testing.assert_array_equal(softmax_off_by_one(x), [[0, 0], [0, 1]])
    t, sink = torch.tensor(x, requires_grad=True), torch.zeros(1, dtype=torch.float64, requires_grad=True)
    softmax_with_sink(t, sink).sum().backward()
    assert (t.grad == 0).all() and sink.grad == 0


def test_gradients():
    x = torch.tensor(np.random.default_rng(0).normal(size=(2, 3, 5)), requires_grad=True)
    sink = torch.tensor(np.random.default_rng(1).normal(size=(3, 1)), requires_grad=True)
    for function, inputs in (
        (softmax_off_by_one, (x,)),
        (lambda x: softmax_off_by_one(x * 50, 1, 3), (x,)),
        (softmax_with_sink, (x, sink)),
    ):
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


def test_a_sink_for_each_row_head_or_axis(lib):
    x, rng = np.random.default_rng(0).normal(size=(2, 3, 4, 5)), np.random.default_rng(1)
    for axis, shape in [(-1, (3, 1, 1)), (-1, (4, 1)), (-1, (1,)), (1, (2, 1, 1, 5)), (0, ())]:
        sink = rng.normal(size=shape)
        full = list(x.shape)
        full[axis] = 1
        got = softmax_with_sink(lib.array(x), lib.array(sink), axis)
        np.testing.assert_allclose(lib.numpy(got), beside(x, np.broadcast_to(sink, full), axis), **CLOSE)


def test_types_and_inputs(lib):
    whole = lib.numpy(softmax_off_by_one(lib.array(np.array([1, 2, 3]))))
    assert whole.dtype == (np.float64 if lib.name == "numpy" else np.float32)
    half = np.linspace(-8, 8, 4096, dtype=np.float16)
    before = half.copy()
    got = lib.numpy(softmax_off_by_one(lib.array(half)))
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, softmax_off_by_one(half.astype(np.float32)).astype(np.float16))
    np.testing.assert_array_equal(half, before)
    sink = lib.array(np.zeros(1, np.float16))
    assert lib.numpy(softmax_with_sink(lib.array(half), sink)).dtype == np.float16
    wide = softmax_with_sink(lib.array(half), lib.array(np.zeros(1)))
    assert lib.numpy(wide).dtype == np.float64
    x = torch.tensor([0.0, 1.0], dtype=torch.bfloat16)
    assert softmax_off_by_one(x).dtype == torch.bfloat16


def test_a_nan_stays_visible(lib):
    x = lib.array(np.array([[0.0, np.nan], [0.0, 1.0]]))
    assert np.isnan(lib.numpy(softmax_off_by_one(x))).tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: softmax_off_by_one([1.0]), TypeError, ["x must be a NumPy array", "list"]),
        (lambda: softmax_off_by_one(np.zeros((2, 3)), 2), ValueError, ["axis 2", "(2, 3)"]),
        (lambda: softmax_off_by_one(np.zeros((2, 0))), ValueError, ["x must not be empty"]),
        (lambda: softmax_off_by_one(np.zeros(3), n=-1), ValueError, ["n must be at least 0", "-1"]),
        (lambda: softmax_off_by_one(np.zeros(3), n=np.inf), ValueError, ["n must be", "finite", "inf"]),
        (lambda: softmax_off_by_one(np.zeros(3), n=True), TypeError, ["n must be a number", "True"]),
        (lambda: softmax_off_by_one(np.zeros(3), n="1"), TypeError, ["n must be a number", "'1'"]),
        (lambda: softmax_with_sink(np.zeros(3), None), TypeError, ["sink must be a number or an array"]),
        (lambda: softmax_with_sink(np.zeros(3), np.inf), ValueError, ["sink must be below infinity"]),
        (lambda: softmax_with_sink(np.zeros(3), np.nan), ValueError, ["sink must be below infinity", "nan"]),
        *(
            (
                lambda kind=kind, value=value: softmax_with_sink(kind([1.0, 2.0]), kind([value])),
                ValueError,
                ["sink must be below infinity", f"entry of {value}"],
            )
            for kind in (np.array, torch.tensor)
            for value in (np.inf, np.nan)
        ),
        (
            lambda: softmax_with_sink(np.zeros(3), torch.zeros(1)),
            TypeError,
            ["one library", "sink from torch"],
        ),
        (
            # As many heads as keys: it would broadcast, along the wrong axis.
            lambda: softmax_with_sink(np.zeros((2, 4, 4, 4)), np.zeros(4)),
            ValueError,
            ["sink", "length 1 along axis 3", "(4,)", "sink[:, None, None]"],
        ),
        (
            lambda: softmax_with_sink(np.zeros((2, 3)), np.zeros((3, 1))),
            ValueError,
            ["sink", "(2, 3)", "(3, 1)"],
        ),
        (lambda: softmax_with_sink(np.zeros(3), np.zeros((2, 1))), ValueError, ["sink", "(3,)", "(2, 1)"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

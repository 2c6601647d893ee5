from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from attnlib import log_softmax, logsumexp, online_softmax, softmax

finite = arrays(np.float64, array_shapes(min_dims=1, max_dims=3, max_side=7), elements=st.floats(-1e4, 1e4))


def test_agrees_with_the_golden_file(golden, lib):
    g = golden("softmax_family")
    for rows, ending in (("in_x", ""), ("in_xb", "_xb")):
        x = lib.array(g[rows])
        for function, name in (
            (softmax, "softmax"),
            (log_softmax, "log_softmax"),
            (logsumexp, "lse"),
        ):
            np.testing.assert_allclose(
                lib.numpy(function(x)), g[f"out_{name}{ending}"], rtol=1e-12, atol=1e-14
            )
    for temperature, expected in zip(g["in_T"], g["out_temps"], strict=True):
        got = softmax(lib.array(g["in_x"]), temperature=temperature)
        np.testing.assert_allclose(lib.numpy(got), expected, rtol=1e-12, atol=1e-14)
    weighted = logsumexp(lib.array(g["in_x"] + np.log(g["in_w"])))
    np.testing.assert_allclose(lib.numpy(weighted), g["out_lse_weighted"], rtol=1e-12)
    np.testing.assert_allclose(lib.numpy(softmax(lib.array(g["in_f32"]))), g["out_f32"], rtol=1e-6)
    half = softmax(lib.array(g["in_f16"]))
    np.testing.assert_allclose(lib.numpy(half), g["out_f16"], rtol=1e-3)


def test_cross_entropy_and_its_gradient_agree_with_the_golden_file(golden):
    g = golden("softmax_family")
    x = torch.tensor(g["in_x"], requires_grad=True)
    loss = -log_softmax(x)[torch.arange(len(x)), torch.tensor(g["in_target"])].mean()
    loss.backward()
    np.testing.assert_allclose(loss.item(), g["out_ce"], rtol=1e-12)
    np.testing.assert_allclose(x.grad.numpy(), g["g_ce"], rtol=1e-10, atol=1e-14)


def test_log_softmax_jacobian_agrees_with_the_golden_file(golden):
    g = golden("softmax_family")
    for row, expected in zip(torch.tensor(g["in_x"]), g["out_log_jac"], strict=True):
        got = torch.autograd.functional.jacobian(log_softmax, row)
        np.testing.assert_allclose(got.numpy(), expected, rtol=1e-10, atol=1e-14)


def test_a_row_of_minus_infinity_has_no_softmax_and_no_sum(golden):
    g = golden("softmax_family")
    row = torch.full(g["out_allinf_softmax"].shape, -torch.inf)
    np.testing.assert_array_equal(softmax(row).numpy(), g["out_allinf_softmax"])
    np.testing.assert_array_equal(logsumexp(row).numpy(), g["out_allinf_lse"])
    with np.errstate(invalid="ignore"):
        assert np.isnan(softmax(row.numpy())).all()
        assert np.isnan(online_softmax(row.numpy(), block_size=2)).all()
    assert logsumexp(row.numpy()) == -np.inf


@given(finite, st.data())
def test_rows_are_probabilities_and_only_differences_count(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    p = softmax(x, axis)
    assert p.shape == x.shape and (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis), 1, rtol=1e-12)
    np.testing.assert_allclose(softmax(x + 3.0, axis), p, rtol=1e-9, atol=1e-12)


@given(finite, st.integers(1, 9), st.data())
def test_online_equals_softmax_whatever_the_block(x, block_size, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    np.testing.assert_allclose(
        online_softmax(x, axis, block_size=block_size), softmax(x, axis), rtol=1e-12, atol=1e-300
    )


@given(finite, st.data())
def test_logarithms_belong_together(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    lse = logsumexp(x, axis, keepdims=True)
    assert (lse >= x.max(axis, keepdims=True)).all()
    np.testing.assert_allclose(log_softmax(x, axis), x - lse, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(np.exp(log_softmax(x, axis)), softmax(x, axis), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("axis", range(-3, 3))
def test_every_axis_is_as_the_last(lib, axis):
    x = np.random.default_rng(2).normal(size=(2, 3, 4)) * 9
    e = np.exp(x - x.max(axis, keepdims=True))
    p = e / e.sum(axis, keepdims=True)
    for function in (softmax, online_softmax):
        np.testing.assert_allclose(lib.numpy(function(lib.array(x), axis)), p, rtol=1e-12)
    logs = lib.numpy(log_softmax(lib.array(x), axis))
    np.testing.assert_allclose(logs, np.log(p), rtol=1e-9, atol=1e-14)


def test_numpy_equals_torch(lib):
    x = np.random.default_rng(0).normal(size=(3, 4, 5)) * 30
    for axis in (-1, 0, 1):
        for function in (softmax, log_softmax, logsumexp, online_softmax):
            np.testing.assert_allclose(
                lib.numpy(function(lib.array(x), axis)), function(x, axis), rtol=1e-12, atol=1e-14
            )


@pytest.mark.parametrize("function", [softmax, log_softmax, logsumexp, online_softmax])
def test_large_scores_neither_overflow_nor_lose_the_answer(function, lib):
    x = np.array([[1e4, 1e4 - 1, -1e4], [-1e4, -1e4 - 1, -1e4 - 2]])
    near = x - x.max(-1, keepdims=True)
    expected = function(near) + (x.max(-1) if function is logsumexp else 0)
    np.testing.assert_allclose(lib.numpy(function(lib.array(x))), expected, rtol=1e-12)


def test_minus_infinity_has_no_weight_beside_scores_however_low(lib):
    x = np.array([[-np.inf, -1e12, -1e12], [-1e4, -np.inf, -np.inf]])
    for function in (softmax, online_softmax):
        np.testing.assert_array_equal(lib.numpy(function(lib.array(x))), [[0, 0.5, 0.5], [1, 0, 0]])
    np.testing.assert_array_equal(np.isneginf(log_softmax(x)), np.isneginf(x))


def test_leading_blocks_of_minus_infinity_change_nothing(lib):
    x = np.array([[-np.inf, -np.inf, -np.inf, 1.0, 2.0]])
    got = lib.numpy(online_softmax(lib.array(x), block_size=2))
    np.testing.assert_allclose(got, softmax(x), rtol=1e-14)


def test_the_first_finite_score_may_come_late_and_be_low(lib):
    x = np.array([[-np.inf, -np.inf, -1000.0, -1001.0]])
    np.testing.assert_allclose(lib.numpy(online_softmax(lib.array(x))), softmax(x), rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_any_positive_temperature_has_its_limit(lib, dtype):
    x = lib.array(np.array([1, 1, 0], dtype))
    np.testing.assert_allclose(lib.numpy(softmax(x, temperature=1e-50)), [0.5, 0.5, 0])
    np.testing.assert_allclose(lib.numpy(softmax(x, temperature=1e300)), [1 / 3] * 3, rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_temperature_may_be_a_number_of_any_library_and_width(lib, dtype, no_warnings):
    x = lib.array(np.array([1, 2, 0], dtype))
    expected = lib.numpy(softmax(x, temperature=2.0))
    kinds = (int, Fraction, np.float16, np.float32, np.float64, np.longdouble, np.int8)
    arrays = [np.array(2.0), np.array(2, np.float16), lib.array(np.float32(2)), lib.array(np.array(2))]
    for two in [kind(2) for kind in kinds] + arrays:
        with no_warnings():
            got = lib.numpy(softmax(x, temperature=two))
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, expected)
    for small in (1e-50, Fraction(1, 10**400), lib.array(1e-50)):
        np.testing.assert_allclose(lib.numpy(softmax(x, temperature=small)), [0, 1, 0])
    for large in (1e300, 10**400, lib.array(1e300)):
        np.testing.assert_allclose(lib.numpy(softmax(x, temperature=large)), [1 / 3] * 3, rtol=1e-3)


@pytest.mark.parametrize("start", [0.7, 1.0, 3.0])
def test_a_learned_temperature_receives_its_gradient(start):
    x = torch.randn(2, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(2), requires_grad=True)
    temperature = torch.tensor(start, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z, t: softmax(z, temperature=t), (x, temperature))
    narrow = torch.tensor(start, requires_grad=True)
    softmax(x, temperature=narrow)[0, 0].backward()
    assert narrow.grad.dtype == torch.float32 and narrow.grad != 0


def test_temperature_sharpens_and_flattens_and_survives_large_scores(lib):
    x = lib.array(np.array([1.0, 2.0, 3.0]))
    top = [lib.numpy(softmax(x, temperature=t))[-1] for t in (0.01, 0.5, 1, 5, 1e6)]
    assert top == sorted(top, reverse=True) and top[0] > 0.999999 and abs(top[-1] - 1 / 3) < 1e-6
    huge = softmax(lib.array(np.array([1e300, 1e300, -1.0])), temperature=1e-5)  # x / T overflows
    np.testing.assert_array_equal(lib.numpy(huge), [0.5, 0.5, 0])


def test_types_integers_give_floats_and_half_precision_is_computed_in_float32(lib):
    integers = lib.numpy(softmax(lib.array(np.array([1, 2, 3]))))
    assert integers.dtype == (np.float64 if lib.name == "numpy" else np.float32)
    np.testing.assert_allclose(integers, softmax(np.array([1.0, 2.0, 3.0])), rtol=1e-6)
    unsigned = lib.numpy(softmax(lib.array(np.array([200, 198, 201], np.uint8))))
    np.testing.assert_allclose(unsigned, softmax(np.array([2.0, 0.0, 3.0])), rtol=1e-6)
    half = np.linspace(0, 8, 4096, dtype=np.float16)  # its sum overflows nothing, but rounds
    got = lib.numpy(softmax(lib.array(half)))
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, softmax(half.astype(np.float32)).astype(np.float16))
    logs = lib.numpy(log_softmax(lib.array(half)))
    np.testing.assert_array_equal(logs, log_softmax(half.astype(np.float32)).astype(np.float16))
    logs = lib.numpy(log_softmax(lib.array(np.array([1, 2, 3]))))
    assert logs.dtype == integers.dtype
    np.testing.assert_allclose(logs, np.log(integers), rtol=1e-6)


def test_bfloat16_comes_back_as_bfloat16():
    x = torch.tensor([0.0, 1.0, 2.0], dtype=torch.bfloat16)
    assert softmax(x).dtype == log_softmax(x).dtype == logsumexp(x).dtype == torch.bfloat16


def test_inputs_stay_as_they_were(lib):
    x = lib.array(np.array([[3.0, -1.0, 700.0]]))
    before = lib.numpy(x).copy()
    for function in (softmax, log_softmax, logsumexp, online_softmax):
        function(x)
        np.testing.assert_array_equal(lib.numpy(x), before)


@pytest.mark.parametrize("function", [softmax, log_softmax, logsumexp, online_softmax])
def test_gradients(function):
    x = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.autograd.gradcheck(function, x.requires_grad_())
    assert torch.autograd.gradgradcheck(function, x)


def test_gradients_of_a_masked_row_and_of_a_temperature():
    x = torch.tensor([[1.0, -torch.inf, 2.0], [-torch.inf] * 3], dtype=torch.float64)
    x.requires_grad_()
    logsumexp(x).nan_to_num(neginf=0.0).sum().backward()
    assert torch.isfinite(x.grad).all() and (x.grad[1] == 0).all() and x.grad[0, 1] == 0
    y = torch.randn(4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    assert torch.autograd.gradcheck(lambda z: softmax(z, temperature=0.7), y.requires_grad_())


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: softmax([1.0, 2.0]), TypeError, ["x must be a NumPy array", "got list"]),
        (lambda: softmax(3.0), TypeError, ["x must be", "got float"]),
        (lambda: softmax(np.array(["a"])), TypeError, ["x", "real numbers", "<U1"]),
        (lambda: softmax(np.array([True])), TypeError, ["x", "real numbers", "bool"]),
        (lambda: softmax(np.array([1j])), TypeError, ["x", "real numbers", "complex"]),
        (lambda: softmax(np.array([None])), TypeError, ["x", "real numbers", "object"]),
        (lambda: softmax(np.array(1.0)), ValueError, ["x must have at least one axis"]),
        (lambda: softmax(np.zeros((2, 0))), ValueError, ["x must not be empty", "(2, 0)"]),
        (lambda: softmax(torch.zeros(2, 0)), ValueError, ["x must not be empty", "(2, 0)"]),
        (lambda: softmax(np.zeros((2, 3)), 2), ValueError, ["axis 2", "(2, 3)", "-2 .. 1"]),
        (lambda: softmax(torch.zeros(2, 3), -3), ValueError, ["axis -3", "(2, 3)"]),
        (lambda: softmax(np.zeros(3), (0,)), TypeError, ["axis must be one integer", "(0,)"]),
        (lambda: softmax(np.zeros(3), None), TypeError, ["axis must be one integer", "None"]),
        (
            lambda: softmax(np.zeros(3), temperature=0),
            ValueError,
            ["temperature", "positive", "got 0"],
        ),
        (lambda: softmax(np.zeros(3), temperature=-1), ValueError, ["temperature", "got -1"]),
        (lambda: softmax(np.zeros(3), temperature="2"), TypeError, ["temperature", "'2'"]),
        (lambda: softmax(np.zeros(3), temperature=True), TypeError, ["temperature", "True"]),
        (lambda: softmax(np.zeros(3), temperature=np.nan), ValueError, ["temperature", "nan"]),
        (lambda: softmax(np.zeros(3), temperature=-(10**400)), ValueError, ["temperature", "got -"]),
        (lambda: softmax(np.zeros(3), temperature=np.array(True)), TypeError, ["temperature", "True"]),
        (lambda: softmax(np.zeros(3), temperature=np.ones(1)), TypeError, ["temperature must be a number"]),
        (lambda: softmax(torch.zeros(3), temperature=torch.tensor(0.0)), ValueError, ["positive", "got 0"]),
        (lambda: softmax(torch.zeros(3), temperature=torch.tensor(1j)), TypeError, ["temperature"]),
        (
            lambda: softmax(np.zeros(3), temperature=torch.tensor(1.0)),
            TypeError,
            ["one library", "temperature from torch"],
        ),
        (lambda: online_softmax(np.zeros(3), block_size=0), ValueError, ["block_size", "got 0"]),
        (lambda: online_softmax(np.zeros(3), block_size=1.5), TypeError, ["block_size", "1.5"]),
        (lambda: log_softmax([1.0]), TypeError, ["x must be a NumPy array"]),
        (lambda: logsumexp(np.zeros((0,))), ValueError, ["x must not be empty", "(0,)"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.optimize import brentq

from attnlib import entmax, entmax15, softmax, sparsemax

ALPHAS = [1, 1.0001, 1.01, 1.25, 1.5, 1.75, 1.99, 2]
EACH = {"sparsemax": (2, sparsemax), "entmax15": (1.5, entmax15)} | {
    f"entmax {alpha}": (alpha, partial(entmax, alpha=alpha)) for alpha in ALPHAS
}
each = pytest.mark.parametrize("alpha, function", EACH.values(), ids=EACH)
finite = arrays(np.float64, array_shapes(min_dims=1, max_dims=3, max_side=7), elements=st.floats(-1e3, 1e3))
near = arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 8)), elements=st.floats(-3, 3))


def by_root(row, alpha):
    """The definition, solved by SciPy: the threshold at which the weights sum to one."""
    if alpha == 1:
        e = np.exp(row - row.max())
        return e / e.sum()
    z = (alpha - 1) * (row - row.max())

    def p(tau):
        return np.maximum(z - tau, 0) ** (1 / (alpha - 1))

    return p(brentq(lambda tau: p(tau).sum() - 1, -1, 0, xtol=1e-15, rtol=1e-14))


def test_agrees_with_the_golden_file(golden, lib):
    g = golden("sparsemax_entmax")
    x = lib.array(g["in_x"])
    for function, name in (
        (sparsemax, "sparsemax"),
        (entmax15, "entmax15"),
        (partial(entmax, alpha=2), "sparsemax"),
        (partial(entmax, alpha=1.5), "entmax15"),
        (partial(entmax, alpha=1.25), "entmax_bisect_1p25"),
        (partial(entmax, alpha=1.75), "entmax_bisect_1p75"),
    ):
        got = lib.numpy(function(x))
        np.testing.assert_allclose(got, g[f"out_{name}"], rtol=1e-8, atol=1e-9, err_msg=name)
        t = torch.tensor(g["in_x"], requires_grad=True)
        function(t).backward(torch.tensor(g["in_do"]))
        np.testing.assert_allclose(t.grad, g[f"g_{name}"], rtol=1e-8, atol=1e-9, err_msg=name)


def test_sparsemax_gives_the_golden_loss_and_its_gradient(golden):
    g = golden("sparsemax_entmax")
    x, rows = torch.tensor(g["in_x"], requires_grad=True), torch.arange(5)
    target, p = torch.tensor(g["in_target"]), sparsemax(torch.tensor(g["in_x"]))
    loss = (p * x).sum(-1) - x[rows, target] + (1 - (p**2).sum(-1)) / 2
    loss.sum().backward()
    np.testing.assert_allclose(loss.detach(), g["out_sparsemax_loss"], rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(x.grad, g["g_sparsemax_loss"], rtol=1e-8, atol=1e-9)


def test_alpha_one_agrees_with_the_golden_softmax(golden, lib):
    g = golden("softmax_family")
    for rows, ending in (("in_x", ""), ("in_xb", "_xb")):
        got = lib.numpy(entmax(lib.array(g[rows]), alpha=1))
        np.testing.assert_allclose(got, g[f"out_softmax{ending}"], rtol=1e-12, atol=1e-14)


@each
def test_solves_the_defining_equation(alpha, function, lib):
    rows = np.random.default_rng(0).normal(size=(40, 9)) * np.geomspace(0.01, 30, 40)[:, None]
    expected = np.stack([by_root(row, alpha) for row in rows])
    atol = 1e-14 / max(alpha - 1, 1e-4) * 10  # the root in tau loses digits towards 1
    np.testing.assert_allclose(lib.numpy(function(lib.array(rows))), expected, rtol=1e-10, atol=atol)


@each
@settings(max_examples=25)
@given(x=finite, data=st.data())
def test_rows_are_probabilities_and_only_differences_count(alpha, function, x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    p = function(x, axis)
    assert p.shape == x.shape and (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis), 1, rtol=1e-10)
    np.testing.assert_allclose(function(x + 3.0, axis), p, rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(function(np.moveaxis(x, axis, -1)), np.moveaxis(p, axis, -1))
    if alpha > 1:
        assert (p[x.max(axis, keepdims=True) - x > 1 / (alpha - 1) + 1e-9] == 0).all()


@each
@settings(max_examples=25)
@given(x=near, seed=st.integers(0, 2**32 - 1))
def test_order_is_kept_and_equal_scores_weigh_the_same(alpha, function, x, seed):
    p = function(x)
    order = np.random.default_rng(seed).permutation(x.shape[-1])
    np.testing.assert_allclose(function(x[:, order]), p[:, order], rtol=1e-9, atol=1e-12)
    ranked = np.argsort(x, axis=-1)
    assert (np.diff(np.take_along_axis(p, ranked, -1)) >= -1e-12).all()
    same = np.zeros_like(x) + x[:, :1]
    np.testing.assert_allclose(function(same), 1 / x.shape[-1], rtol=1e-9)


@given(x=near)
def test_the_two_sorted_forms_are_members_of_the_family_and_grow_sparser(x):
    np.testing.assert_allclose(entmax15(x), entmax(x, alpha=1.5), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sparsemax(x), entmax(x, alpha=2), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(softmax(x), entmax(x, alpha=1 + 1e-9), rtol=1e-6)
    sizes = [(entmax(x, alpha=alpha) > 1e-9).sum(-1) for alpha in (1, 1.25, 1.5, 1.75, 2)]
    for larger, smaller in zip(sizes, sizes[1:], strict=False):
        assert (larger >= smaller).all()


@given(x=near, seed=st.integers(0, 2**32 - 1))
def test_sparsemax_is_the_nearest_point_of_the_simplex(x, seed):
    others = np.random.default_rng(seed).dirichlet(np.ones(x.shape[-1]), size=20)
    distance = ((x - sparsemax(x)) ** 2).sum(-1)
    assert (distance[:, None] <= ((x[:, None] - others) ** 2).sum(-1) + 1e-12).all()


def away_from_kinks(x, alpha):
    p = entmax(x, alpha=alpha) if alpha > 1 else softmax(x)
    moved = [entmax(x + e, alpha=alpha) > 0 for e in 1e-3 * np.eye(x.shape[-1])] if alpha > 1 else []
    return all(((p > 0) == m).all() for m in moved)


@each
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_jacobian_is_the_known_one(alpha, function, seed):
    """On the weighed entries diag(s) - s s^T / sum(s) with s = p ** (2 - alpha), zero elsewhere."""
    x = np.random.default_rng(seed).normal(size=6)
    assume(away_from_kinks(x, alpha))
    t = torch.tensor(x)
    p = function(x)
    s = np.where(p > 0, np.where(p > 0, p, 1) ** (2 - alpha), 0)
    expected = np.diag(s) - np.outer(s, s) / s.sum()
    got = torch.autograd.functional.jacobian(function, t).numpy()
    np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-9)
    if alpha == 2:  # a direction less its mean on the support
        d, on = np.random.default_rng(seed + 1).normal(size=6), p > 0
        np.testing.assert_allclose(got @ d, np.where(on, d - d[on].mean(), 0), rtol=1e-9, atol=1e-12)


@each
def test_gradients(alpha, function):
    x = np.random.default_rng(0).normal(size=(9, 4))
    x = [row for row in x if away_from_kinks(row, alpha)][:3]
    t = torch.tensor(np.stack(x), requires_grad=True)
    assert torch.autograd.gradcheck(function, t)
    assert torch.autograd.gradgradcheck(function, t)
    assert torch.autograd.gradcheck(lambda t: function(t, 0), t.detach().mT.clone().requires_grad_())


@each
def test_minus_infinity_weighs_nothing_and_a_row_of_it_gives_zeros(alpha, function, lib):
    x = np.array([[-np.inf] * 3, [0.2, -np.inf, 0.1], [-np.inf, -np.inf, -5.0]])
    with np.errstate(all="raise", under="ignore"):
        p = lib.numpy(function(lib.array(x)))
    assert (p[0] == 0).all() and (p[x == -np.inf] == 0).all()
    np.testing.assert_allclose(p[1, [0, 2]], function(x[1, [0, 2]]), rtol=1e-12)
    np.testing.assert_allclose(p[2], [0, 0, 1])
    t = torch.tensor(x, requires_grad=True)
    (function(t) * torch.arange(3)).sum().backward()
    assert torch.isfinite(t.grad).all() and (t.grad[p == 0] == 0).all() and t.grad[1, 0] != 0


@each
def test_large_scores_neither_overflow_nor_lose_the_answer(alpha, function, lib):
    x = np.array([[1e4, 1e4 - 0.5, -1e4], [-1e300, -1e300, 1e300], [1e30, 1e30, -1e30]])
    got = lib.numpy(function(lib.array(x)))
    np.testing.assert_allclose(got[0], function(np.array([0, -0.5, -2e4])), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(got[1:], [[0, 0, 1], [0.5, 0.5, 0]])


@each
@pytest.mark.parametrize("row", ["wide", "crowded", "apart"])
def test_long_rows_in_float32_keep_their_accuracy(alpha, function, row):
    noise = np.random.default_rng(0).normal(size=50_000)
    x = {"wide": noise, "crowded": np.r_[1.0, noise * 1e-3], "apart": np.r_[0, noise * 1e-4 - 0.9]}[row]
    x = x.astype(np.float32)
    expected, got = function(x.astype(float)), function(x)
    assert np.abs(got - expected).max() < 1e-6
    assert abs(got.sum(dtype=float) - 1) < 1e-3  # thousands of weights, each with tau's rounding


@each
def test_types_and_inputs(alpha, function, lib):
    whole = lib.numpy(function(lib.array(np.array([[1, 2, 3], [0, 0, 5]]))))
    assert whole.dtype == (np.float64 if lib.name == "numpy" else np.float32)
    np.testing.assert_allclose(whole, function(np.array([[1.0, 2, 3], [0, 0, 5]])), rtol=1e-5, atol=1e-6)
    half = np.linspace(0, 3, 300, dtype=np.float16)
    before = half.copy()
    got = lib.numpy(function(lib.array(half)))
    assert got.dtype == np.float16
    expected = function(half.astype(np.float32)).astype(np.float16)
    np.testing.assert_allclose(got, expected, rtol=2e-3, atol=1e-6)
    np.testing.assert_array_equal(half, before)
    assert function(torch.tensor(before.astype(np.float32)).bfloat16()).dtype == torch.bfloat16


@each
def test_numpy_equals_torch_along_every_axis(alpha, function):
    x = np.random.default_rng(0).normal(size=(3, 4, 5)) * 2
    for axis in (-1, 0, 1):
        got = function(torch.tensor(x), axis).numpy()
        np.testing.assert_allclose(got, function(x, axis), rtol=1e-11, atol=1e-14)


@each
def test_a_nan_stays_visible(alpha, function, lib):
    x = lib.array(np.array([[0.0, np.nan], [0.0, 0.0]]))
    assert np.isnan(lib.numpy(function(x))).tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: sparsemax([1.0, 2.0]), TypeError, ["x must be a NumPy array", "got list"]),
        (lambda: entmax15(np.array([True])), TypeError, ["x", "real numbers", "bool"]),
        (lambda: sparsemax(np.zeros((2, 0))), ValueError, ["x must not be empty", "(2, 0)"]),
        (lambda: entmax15(np.zeros((2, 3)), 2), ValueError, ["axis 2", "(2, 3)", "-2 .. 1"]),
        (lambda: entmax(np.zeros(3), (0,), alpha=1.5), TypeError, ["axis must be one integer", "(0,)"]),
        (
            lambda: entmax(np.zeros(3), alpha=2.5),
            ValueError,
            ["alpha", "1 (softmax)", "2 (sparsemax)", "2.5"],
        ),
        (lambda: entmax(np.zeros(3), alpha=0.9), ValueError, ["alpha", "0.9"]),
        (lambda: entmax(np.zeros(3), alpha=np.nan), ValueError, ["alpha", "nan"]),
        (lambda: entmax(np.zeros(3), alpha="1.5"), TypeError, ["alpha must be a number", "'1.5'"]),
        (lambda: entmax(np.zeros(3), alpha=True), TypeError, ["alpha must be a number", "True"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

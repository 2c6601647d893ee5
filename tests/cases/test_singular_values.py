import numpy as np
import pytest
import torch
from drawn import BOTH, normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import mix_experts, scale_singular_values, singular_value_decomposition

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def one_by_one(weight, multipliers):
    """The sum of a weight's parts, each an outer product, with a loop over its singular values."""
    U, S, Vt = np.linalg.svd(weight, full_matrices=False)
    return sum(S[i] * multipliers[i] * np.outer(U[:, i], Vt[i]) for i in range(len(S)))


def shipped(weight, z, max_mult=1.0):
    S = np.linalg.svd(weight, compute_uv=False)
    m = max_mult / (1 + np.exp(-z))
    return one_by_one(weight, m) * S.sum() / (S * m).sum()


@BOTH
def test_agrees_with_the_golden_file(golden, array):
    g = golden("transformer2_svf")
    for i in "12":
        W, z = array(g[f"in_W{i}"]), array(g[f"in_z{i}"])
        np.testing.assert_allclose(scale_singular_values(W, z, "shipped"), g[f"out_W{i}"], **CLOSE)
        twice = scale_singular_values(W, z, "shipped", max_mult=2.0)
        np.testing.assert_allclose(twice, g[f"out_W{i}_mm2"], **CLOSE)
    parts = tuple(array(g[f"in_{x}1"]) for x in "USV")
    np.testing.assert_allclose(
        scale_singular_values(parts, array(g["in_z1"]), "shipped"), g["out_W1"], **CLOSE
    )
    U, S, V = singular_value_decomposition(array(g["in_W1"]))
    np.testing.assert_allclose(S, g["in_S1"], **CLOSE)
    np.testing.assert_allclose((U * S) @ V.T, (g["in_U1"] * g["in_S1"]) @ g["in_V1"].T, **CLOSE)


def test_gradients_agree_with_the_golden_file(golden):
    g = golden("transformer2_svf")
    for i in "12":
        W, z, do = (torch.from_numpy(g[f"in_{x}{i}"]) for x in ("W", "z", "do"))
        (scale_singular_values(W, z.requires_grad_(), "shipped") * do).sum().backward()
        np.testing.assert_allclose(z.grad, g[f"g_z{i}"], **CLOSE)


@BOTH
@pytest.mark.parametrize("norm", [0, 1])
@pytest.mark.parametrize("layer", [0, 1])
def test_a_mixture_agrees_with_the_golden_file(golden, array, norm, layer):
    g = golden("transformer2_expert_mixture")
    alpha = array(g["in_alpha_layer" if layer else "in_alpha_shared"])
    z, _ = mix_experts([array(g["in_z1"]), array(g["in_z2"])], alpha, normalize=bool(norm))
    got = scale_singular_values(array(g["in_W1"]), z, "mixture")
    np.testing.assert_allclose(got, g[f"W1_norm{norm}_layer{layer}"], rtol=1e-6, atol=1e-6)


SIZES = st.integers(1, 9), st.integers(1, 9), st.integers(0, 99)


@given(*SIZES)
def test_each_form_is_a_sum_of_outer_products(n_out, n_in, seed):
    W, z = normal(n_out, n_in, seed=seed), normal(min(n_out, n_in), seed=seed + 1)
    S = np.linalg.svd(W, compute_uv=False)
    positive = abs(z) + 0.1
    wanted = {"paper": one_by_one(W, z), "shipped": shipped(W, z),
              "mixture": one_by_one(W, positive) * S.sum() / (S * positive).sum()}  # fmt: skip
    for array in (np.asarray, torch.from_numpy):
        U, S, V = singular_value_decomposition(array(W))
        assert U.shape == (n_out, min(n_out, n_in)) and V.shape == (n_in, min(n_out, n_in))
        for form, w in wanted.items():
            numbers = array(positive if form == "mixture" else z)
            for weight in (array(W), (U, S, V), [U, S, V]):
                np.testing.assert_allclose(scale_singular_values(weight, numbers, form), w, **CLOSE)


@given(*SIZES, st.floats(-30, 30), st.floats(0.1, 5))
def test_constants_leave_the_weight(n_out, n_in, seed, constant, max_mult):
    W, ones = normal(n_out, n_in, seed=seed), np.ones(min(n_out, n_in))
    np.testing.assert_allclose(scale_singular_values(W, ones), W, **CLOSE)
    same = scale_singular_values(W, constant * ones, "shipped", max_mult=max_mult)
    np.testing.assert_allclose(same, W, **CLOSE)
    np.testing.assert_allclose(scale_singular_values(W, 7 * ones, "mixture"), W, **CLOSE)
    np.testing.assert_allclose(scale_singular_values(W, -2 * ones), -2 * W, **CLOSE)


def test_the_sum_of_singular_values_stays_in_the_shipped_form_only():
    W, z = normal(6, 4), normal(4, seed=1)
    total = np.linalg.svd(W, compute_uv=False).sum()
    sums = {form: np.linalg.svd(scale_singular_values(W, z, form), compute_uv=False).sum()
            for form in ("paper", "shipped")}  # fmt: skip
    assert abs(sums["shipped"] - total) < 1e-12 < abs(sums["paper"] - total)


def test_scaling_singular_values_is_not_scaling_rows():
    W, z = normal(4, 4), np.array([2.0, 1.0, 1.0, 0.5])
    assert abs(scale_singular_values(W, z) - z[:, None] * W).max() > 0.1


@BOTH
def test_no_weight_is_no_nan(array):
    z = array(np.zeros(3))
    for W in (normal(4, 3), np.zeros((4, 3))):
        for form in ("paper", "shipped", "mixture"):
            out = np.asarray(scale_singular_values(array(W), z, form))
            np.testing.assert_allclose(out, W if form == "shipped" else 0 * W, **CLOSE)
    with np.errstate(over="raise", divide="raise", invalid="raise"):
        far = scale_singular_values(array(normal(4, 3)), array(np.array([-1e3, 1e3, -1e3])), "shipped")
    assert np.isfinite(np.asarray(far)).all() and np.linalg.matrix_rank(np.asarray(far)) == 1


def test_no_slope_is_nan_where_nothing_is_left():
    z = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    for W in (torch.from_numpy(normal(4, 3)), torch.zeros(4, 3, dtype=torch.float64)):
        parts = singular_value_decomposition(W)
        for form in ("paper", "shipped", "mixture"):
            (slope,) = torch.autograd.grad(scale_singular_values(parts, z, form).sum(), z)
            assert slope.isfinite().all()


@pytest.mark.parametrize("form", ["paper", "shipped", "mixture"])
def test_gradients_by_differences(form):
    parts = singular_value_decomposition(torch.from_numpy(normal(5, 3)))
    z = torch.from_numpy(abs(normal(3, seed=1)) + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: scale_singular_values(parts, z, form), z)
    whole = torch.from_numpy(normal(5, 3)).requires_grad_()
    assert torch.autograd.gradcheck(lambda W, z: scale_singular_values(W, z, form), (whole, z))


@BOTH
def test_several_weights_at_once(array):
    W, z = normal(2, 3, 5, 4), normal(2, 3, 4, seed=1)
    got = scale_singular_values(array(W), array(z), "shipped")
    for at in np.ndindex(2, 3):
        np.testing.assert_allclose(got[at], shipped(W[at], z[at]), **CLOSE)


@BOTH
def test_types_and_inputs_unchanged(array):
    W, z = normal(5, 3), normal(3, seed=1)
    wanted = scale_singular_values(W, z, "shipped")
    for dtype, tolerance in (("float16", 5e-3), ("float32", 1e-5)):
        weight, numbers = array(W.astype(dtype)), array(z.astype(dtype))
        out = scale_singular_values(weight, numbers, "shipped")
        assert dtype in str(out.dtype)
        np.testing.assert_allclose(out, wanted, atol=tolerance)
        np.testing.assert_array_equal(weight, W.astype(dtype))
        assert all(dtype in str(x.dtype) for x in singular_value_decomposition(weight))
    whole = array(np.array([[3, 0], [0, 1]]))
    np.testing.assert_allclose(
        scale_singular_values(whole, array(np.array([1, 2]))), [[3, 0], [0, 2]], atol=1e-6
    )
    assert scale_singular_values(array(W), array(z.astype("float32"))).dtype == array(W).dtype


def test_bfloat16():
    W, z = torch.from_numpy(normal(5, 3)), torch.from_numpy(normal(3, seed=1))
    out = scale_singular_values(W.bfloat16(), z.bfloat16())
    assert out.dtype == torch.bfloat16
    np.testing.assert_allclose(out.double(), scale_singular_values(W, z), atol=5e-2)


W, Z = normal(5, 3), normal(3)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: scale_singular_values(W, Z, "Paper"),
            ValueError,
            ["form must be one of 'paper'", "'Paper'"],
        ),
        (
            lambda: scale_singular_values(W, normal(5)),
            ValueError,
            ["z must have shape (..., r)", "r = 3", "(5,)"],
        ),
        (lambda: scale_singular_values(W, [1.0]), TypeError, ["z must be a NumPy array", "list"]),
        (lambda: scale_singular_values(W, torch.ones(3)), TypeError, ["one library"]),
        (
            lambda: scale_singular_values(W[0], Z),
            ValueError,
            ["weight must have shape (..., out, in)", "(3,)"],
        ),
        (lambda: scale_singular_values((W, Z), Z), ValueError, ["one array or three", "got 2"]),
        (lambda: scale_singular_values((W, Z, W[:, :2]), Z), ValueError, ["V must have shape", "(5, 2)"]),
        (lambda: scale_singular_values(W, Z, max_mult=0.0), ValueError, ["max_mult must be above 0", "0.0"]),
        (lambda: scale_singular_values(W, Z, max_mult="1"), TypeError, ["max_mult must be a number", "'1'"]),
        (lambda: singular_value_decomposition(W[:0]), ValueError, ["weight", "not empty", "(0, 3)"]),
        (lambda: singular_value_decomposition(W * np.inf), ValueError, ["weight must be finite", "infinity"]),
        (lambda: scale_singular_values(W * np.nan, Z), ValueError, ["weight must be finite", "NaN"]),
        (lambda: singular_value_decomposition("W"), TypeError, ["weight must be a NumPy array", "str"]),
        (lambda: singular_value_decomposition(W > 0), TypeError, ["weight must hold real numbers", "bool"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnlib import dot_product_variance, entropy, softmax, softmax_jacobian, softmax_jacobian_norm

rows = arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 7)), elements=st.floats(-50, 50))


def test_agrees_with_the_golden_file(golden, lib):
    g = golden("softmax_family")
    x = lib.array(g["in_x"])
    for got, name in (
        (softmax_jacobian(x), "jac"),
        (softmax_jacobian_norm(x), "jac_fro"),
        (softmax_jacobian_norm(x, kind="spectral"), "jac_spec"),
        (entropy(softmax(x)), "entropy"),
    ):
        np.testing.assert_allclose(lib.numpy(got), g[f"out_{name}"], rtol=1e-10, atol=1e-14)


def test_variance_by_its_definition(lib):
    q, k = np.random.default_rng(0).normal(size=(2, 50, 6)) * 3 + 1
    raw, scaled = dot_product_variance(lib.array(q), lib.array(k))
    products = [float(a @ b) for a, b in zip(q, k, strict=True)]
    np.testing.assert_allclose(float(raw), np.mean(np.square(products)) - np.mean(products) ** 2)
    np.testing.assert_allclose(float(scaled), float(raw) / 6)


def test_variance_of_products_far_from_zero_is_not_lost(lib):
    q = np.array([[1e9], [1e9 + 1], [1e9 + 2]])
    for got in dot_product_variance(lib.array(q), lib.array(np.ones((3, 1)))):
        np.testing.assert_allclose(float(got), 2 / 3, rtol=1e-12)


@pytest.mark.parametrize("d", [4, 64, 256])
def test_variance_is_the_width_for_independent_unit_entries(d):
    # The variance of the sample variance of n such products is about 2 d^2 / n: five sigma here.
    n = 20_000
    q, k = np.random.default_rng(d).choice([-1.0, 1.0], size=(2, n, d))
    raw, scaled = dot_product_variance(q, k)
    assert abs(raw / d - 1) < 5 * np.sqrt(2 / n) and abs(scaled - 1) < 5 * np.sqrt(2 / n)


@given(rows)
def test_jacobian_is_symmetric_sums_to_zero_and_has_the_norms_it_says(z):
    jacobian = softmax_jacobian(z)
    np.testing.assert_allclose(jacobian, np.swapaxes(jacobian, -1, -2), atol=1e-15)
    np.testing.assert_allclose(jacobian.sum(-1), 0, atol=1e-14)
    np.testing.assert_allclose(softmax_jacobian_norm(z), np.linalg.norm(jacobian, axis=(-2, -1)), atol=1e-7)
    spectral = softmax_jacobian_norm(z, kind="spectral")
    np.testing.assert_allclose(spectral, np.linalg.norm(jacobian, 2, axis=(-2, -1)), atol=1e-10)
    assert (spectral <= 0.5 + 1e-12).all()


@pytest.mark.parametrize(
    "dtype, gap, rtol", [(np.float16, 5, 1e-3), (np.float32, 10, 1e-5), (np.float64, 20, 1e-12)]
)
def test_saturated_rows_keep_their_relative_accuracy(lib, dtype, gap, rtol):
    # With scores g and 0 the weights are s and 1 - s, all four entries of the Jacobian +- s (1 - s).
    product = float(np.exp(-gap) / (1 + np.exp(-gap)) ** 2)
    z = lib.array(np.array([gap, 0], dtype))
    np.testing.assert_allclose(lib.numpy(softmax_jacobian(z)), np.array([[1, -1], [-1, 1]]) * product, rtol)
    np.testing.assert_allclose(float(softmax_jacobian_norm(z)), 2 * product, rtol)
    np.testing.assert_allclose(float(softmax_jacobian_norm(z, kind="spectral")), 2 * product, max(rtol, 1e-4))


@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 3, 4), (1, 1, 3), (2, 1, 2, 3), (5, 1)])
@pytest.mark.parametrize("size", [1, 300, 10**5])
def test_jacobian_by_its_definition(lib, shape, size):
    z = np.random.default_rng(3).integers(-3, 4, shape) * size
    below = np.concatenate([z, z[:1] - 10 * size]) if len(shape) > 1 else z  # with a row far below the others
    z[..., : len(z) // 2 + 1] = z.max() + 2                                  # equal ones, and one less
    for scores in (z, z / 7, below, below / 7, z - size, np.append(z, z[..., :1] - 1, axis=-1)):
        p = softmax(scores.astype(float))
        expected = np.eye(scores.shape[-1]) * p[..., None] - p[..., None] * p[..., None, :]
        got = softmax_jacobian(lib.array(scores))
        np.testing.assert_allclose(lib.numpy(got), expected, rtol=1e-5, atol=1e-7)


def test_norm_has_a_gradient_where_the_softmax_is_certain():
    z = torch.tensor([1000.0, 0.0, 0.0], requires_grad=True)
    softmax_jacobian_norm(z).backward()
    assert torch.isfinite(z.grad).all()


@pytest.mark.parametrize(
    "dtype, z, expected",
    [
        (np.float64, [0, -373], 2 * np.exp(-373.0)),                    # 2.04e-162; its square is no number
        (np.float64, [-700, 0], 2 * np.exp(-700.0)),
        (np.float32, [0, -52], 2 * np.exp(-52.0)),
        (np.float64, [0, -700, -700], 10**0.5 * np.exp(-700.0)),        # 2, 1, 1 times r, and four times -r
        (np.float64, [7], 0),
        (np.float64, [0, -1e4], 0),
    ],
)
def test_norm_is_not_lost_where_its_square_would_be(lib, dtype, z, expected):
    z = lib.array(np.array([z, z[::-1]], dtype))
    rtol = 1e-5 if dtype is np.float32 else 1e-12
    np.testing.assert_allclose(lib.numpy(softmax_jacobian_norm(z)), [expected] * 2, rtol)


def test_gradient_of_a_norm_whose_square_is_lost():
    # Weights 1, r, s: the diagonal holds r + s, r, s, and -r and -s stand twice beside it.
    z = torch.tensor([0.0, -700.0, -701.0], dtype=torch.float64, requires_grad=True)
    norm = softmax_jacobian_norm(z)
    norm.backward()
    r, s = np.exp([-700.0, -701.0])
    units = np.array([r, s]) / r                                        # so that squares can be formed here
    length = ((units.sum()) ** 2 + 3 * (units**2).sum()) ** 0.5
    np.testing.assert_allclose(float(norm.detach()), r * length, rtol=1e-12)
    inner = r * units * (units.sum() + 3 * units) / length
    np.testing.assert_allclose(z.grad.numpy(), [-inner.sum(), *inner], rtol=1e-12)


@pytest.mark.parametrize("kind", ["frobenius", "spectral"])
def test_gradient_of_the_norms(kind):
    rng = np.random.default_rng(4)
    for z in (rng.normal(size=(3, 5)), 4 * rng.normal(size=(2, 2, 3)), np.array([[2.0, 2.0, 1.0]])):
        z = torch.tensor(z, requires_grad=True)
        assert torch.autograd.gradcheck(lambda x: softmax_jacobian_norm(x, kind=kind), z)


@pytest.mark.parametrize("kind", ["frobenius", "spectral"])
def test_rows_without_a_softmax_have_no_norm_and_leave_the_others_theirs(lib, kind):
    rows = [[0.0, np.nan, 1.0], [0.5, 0.0, -np.inf], [-np.inf] * 3, [1.0, 2.0, 3.0]]
    with np.errstate(invalid="ignore"):
        got = lib.numpy(softmax_jacobian_norm(lib.array(np.array([rows, rows[::-1]])), kind=kind))
    assert np.isnan(got).tolist() == [[True, False, True, False], [False, True, False, True]]
    for row, norm in zip(np.array(rows)[[1, 3]], got[0, [1, 3]], strict=True):
        assert norm == pytest.approx(float(softmax_jacobian_norm(row, kind=kind)), rel=1e-12)
    np.testing.assert_array_equal(got[0], got[1, ::-1])
    with np.errstate(invalid="ignore"):
        assert np.isnan(lib.numpy(softmax_jacobian_norm(lib.array(np.array([np.nan])), kind=kind)))


@pytest.mark.parametrize("kind", ["frobenius", "spectral"])
def test_a_row_without_a_norm_spoils_no_other_gradient(kind):
    z = torch.tensor([[0.0, torch.nan, 1.0], [1.0, 2.0, 3.0]], requires_grad=True)
    alone = z[1].detach().clone().requires_grad_()
    softmax_jacobian_norm(z, kind=kind)[1].backward()
    softmax_jacobian_norm(alone, kind=kind).backward()
    torch.testing.assert_close(z.grad[1], alone.grad)


def test_jacobian_is_what_autograd_finds():
    z = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = torch.autograd.functional.jacobian(softmax, z)
    torch.testing.assert_close(softmax_jacobian(z), found, rtol=1e-10, atol=1e-14)


@given(rows)
def test_entropy_lies_between_certain_and_uniform(z):
    h = entropy(softmax(z))
    assert (h >= -1e-12).all() and (h <= np.log(z.shape[-1]) + 1e-12).all()


def test_entropy_of_zeros_and_its_gradient():
    assert str(float(entropy(np.array([1.0, 0.0, 0.0])))) == "0.0"
    np.testing.assert_allclose(entropy(np.array([1 - 1e-7, 1e-7])), 1.7118095e-6, rtol=1e-5)
    np.testing.assert_allclose(entropy(np.full((2, 8), 1 / 8), axis=1), np.log(8))
    p = torch.tensor([0.5, 0.5, 0.0], requires_grad=True)
    entropy(p).backward()
    assert torch.isfinite(p.grad).all()


def test_entropy_of_half_precision_is_computed_in_float32():
    p = np.full(2048, 1 / 2048, np.float16)
    assert abs(float(entropy(p)) - np.log(2048)) < 0.01  # summed in float16 it would stand at 4


def test_numpy_equals_torch_in_half_precision_too():
    z = np.random.default_rng(1).normal(size=(3, 5)).astype(np.float16)
    for function in (lambda x: entropy(softmax(x)), softmax_jacobian, softmax_jacobian_norm):
        ours, theirs = function(z), function(torch.tensor(z))
        assert ours.dtype == np.float16 and theirs.dtype == torch.float16
        np.testing.assert_allclose(ours, theirs.numpy(), atol=2e-3)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (
            lambda: dot_product_variance(np.zeros(3), np.zeros(3)),
            ValueError,
            ["q", "(n, d)", "(3,)"],
        ),
        (
            lambda: dot_product_variance(np.zeros((2, 3)), np.zeros((3, 2))),
            ValueError,
            ["k", "(2, 3)", "(3, 2)"],
        ),
        (
            lambda: dot_product_variance(np.zeros((0, 3)), np.zeros((0, 3))),
            ValueError,
            ["q", "not empty", "(0, 3)"],
        ),
        (
            lambda: dot_product_variance([[1]], [[1]]),
            TypeError,
            ["q must be a NumPy array", "list"],
        ),
        (
            lambda: dot_product_variance(np.zeros((1, 1), bool), np.zeros((1, 1))),
            TypeError,
            ["q", "real numbers", "bool"],
        ),
        (
            lambda: entropy(np.array([-0.1, 1.1])),
            ValueError,
            ["p must hold probabilities", "-0.1", "softmax"],
        ),
        (lambda: entropy(np.array([5.0, 0.0])), ValueError, ["p must hold probabilities", "5"]),
        (lambda: entropy(np.zeros((0,))), ValueError, ["p must not be empty", "(0,)"]),
        (lambda: entropy(np.array([1.0]), axis=1), ValueError, ["axis 1", "(1,)"]),
        (lambda: softmax_jacobian([1.0]), TypeError, ["z must be a NumPy array", "list"]),
        (lambda: softmax_jacobian(np.zeros((2, 0))), ValueError, ["z must not be empty", "(2, 0)"]),
        (
            lambda: softmax_jacobian_norm(np.zeros(2), kind="max"),
            ValueError,
            ["kind", "'frobenius' or 'spectral'", "'max'"],
        ),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

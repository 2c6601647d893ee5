import numpy as np
import pytest
import torch
from drawn import BOTH, normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import stochastic_attention, wasserstein_distance

CLOSE = {"rtol": 1e-9, "atol": 1e-11}
SINGLE = {"rtol": 1e-4, "atol": 1e-5}  # what the golden file promises


def gaussians(*before, n_query=5, n_key=7, d=4, dv=3):
    """Means and variances of queries, keys and values."""
    shapes = (n_query, d), (n_key, d), (n_key, dv)
    means = [normal(*before, *shape, seed=i) for i, shape in enumerate(shapes)]
    covs = [normal(*before, *shape, seed=9 + i) ** 2 for i, shape in enumerate(shapes)]
    return [x for pair in zip(means, covs, strict=True) for x in pair]


def by_hand(mean_q, cov_q, mean_k, cov_k, mean_v, cov_v, seen, scale):
    """One query of one sequence after the other, from the formulas."""
    mean, cov = (np.zeros((*mean_q.shape[:-1], mean_v.shape[-1])) for _ in range(2))
    for at in np.ndindex(*mean_q.shape[:-1]):
        *before, i = at
        before = tuple(before)
        weights = np.zeros(mean_k.shape[-2])
        for j in np.flatnonzero(seen[at]):
            far = ((mean_q[at] - mean_k[before][j]) ** 2).sum()
            far += ((np.sqrt(cov_q[at]) - np.sqrt(cov_k[before][j])) ** 2).sum()
            weights[j] = np.exp(-far * scale)
        weights = weights / (weights.sum() or 1)
        mean[at] = sum(w * v for w, v in zip(weights, mean_v[before], strict=True))
        cov[at] = sum(w**2 * v for w, v in zip(weights, cov_v[before], strict=True))
    return mean, cov


@BOTH
def test_the_distance_agrees_with_the_golden_file(golden, array):
    g = golden("stosa_wasserstein_attention")
    mean, cov = array(g["in_mu"]), array(g["in_cov"])
    np.testing.assert_allclose(wasserstein_distance(mean, cov, mean, cov), g["out_W_raw"], **SINGLE)


@given(
    st.integers(1, 6), st.integers(1, 6), st.sampled_from([(), (2,), (2, 3)]), st.booleans(), st.booleans(),
    st.sampled_from([None, 0.3]),
)  # fmt: skip
def test_is_its_formula(n_query, n_key, before, causal, padded, scale):
    arrays = gaussians(*before, n_query=n_query, n_key=n_key)
    mask = normal(1, n_key, seed=3) < 0.5 if padded else None
    seen = np.tri(n_query, n_key, n_key - n_query, dtype=bool) if causal else np.ones((n_query, n_key), bool)
    seen = np.broadcast_to(seen & (True if mask is None else mask), (*before, n_query, n_key))
    wanted = by_hand(*arrays, seen, 0.5 if scale is None else scale)
    settings = {"causal": causal, "scale": scale, "return_weights": True}
    mean, cov, weights = stochastic_attention(*arrays, mask, **settings)
    for got, want in zip((mean, cov), wanted, strict=True):
        np.testing.assert_allclose(got, want, **CLOSE)
    np.testing.assert_allclose(weights.sum(-1), seen.any(-1), **CLOSE)
    mask = mask if mask is None else torch.from_numpy(mask)
    theirs = stochastic_attention(*map(torch.from_numpy, arrays), mask, **settings)
    for got, want in zip(theirs, (mean, cov, weights), strict=True):
        np.testing.assert_allclose(got, want, **CLOSE)


def test_the_root_of_the_distance_obeys_the_triangle_inequality_and_a_dot_product_does_not():
    mean, cov = normal(9, 3), normal(9, 3, seed=1) ** 2
    far = np.sqrt(wasserstein_distance(mean, cov, mean, cov))
    assert (far[:, None, :] <= far[:, :, None] + far[None, :, :] + 1e-9).all()
    np.testing.assert_allclose(far, far.T, **CLOSE)
    np.testing.assert_allclose(np.diagonal(far), 0, atol=1e-6)


@BOTH
def test_a_distance_is_never_below_zero(array):
    mean, cov = array(normal(50, 8).astype(np.float32) + 100), array(normal(50, 8).astype(np.float32) ** 2)
    assert (np.asarray(wasserstein_distance(mean, cov, mean, cov)) >= 0).all()


@BOTH
def test_a_variance_of_zero_is_a_point_and_a_negative_one_counts_as_zero(array):
    mean, zero = array(normal(3, 2)), array(np.zeros((3, 2)))
    apart = ((normal(3, 2)[:, None] - normal(3, 2)[None]) ** 2).sum(-1)
    np.testing.assert_allclose(wasserstein_distance(mean, zero, mean, zero - 4), apart, rtol=1e-9, atol=1e-9)


def test_gradients_by_differences_and_finite_ones_at_a_variance_of_zero():
    arrays = [torch.from_numpy(x).requires_grad_() for x in gaussians(2, n_query=3, n_key=4, d=2, dv=2)]
    mask = torch.tensor([[True, True, True, True], [False] * 4, [True, False, True, True]])

    def read(*arrays):
        return stochastic_attention(*arrays, mask, causal=True, return_weights=True)

    assert torch.autograd.gradcheck(read, arrays)
    x = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    wasserstein_distance(x, x, x, x).sum().backward()
    assert torch.isfinite(x.grad).all()


@BOTH
def test_an_empty_row_is_zero(array):
    arrays = list(map(array, gaussians(2)))
    mask = array(np.arange(5)[:, None] != 2)
    for x in stochastic_attention(*arrays, mask, return_weights=True):
        x = np.asarray(x)
        assert (x[:, 2] == 0).all() and (x[:, [0, 1, 3, 4]] != 0).any(-1).all()


@BOTH
def test_half_precision_integers_and_inputs_unchanged(array):
    given = gaussians(2)
    half = [array(x.astype(np.float16)) for x in given]
    got = stochastic_attention(*half)
    wanted = stochastic_attention(*(x.astype(np.float16).astype(float) for x in given))
    for x, want in zip(got, wanted, strict=True):
        assert "float16" in str(x.dtype)
        np.testing.assert_allclose(x, want, atol=2e-3)
    whole = [array(np.abs(3 * x).astype(int)) for x in given]
    stochastic_attention(*whole, causal=True)
    for x, old in zip(whole, given, strict=True):
        np.testing.assert_array_equal(x, np.abs(3 * old).astype(int))
    for x, old in zip(half, given, strict=True):
        np.testing.assert_array_equal(x, old.astype(np.float16))


M, C = np.zeros((2, 5, 4)), np.ones((2, 5, 4))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: wasserstein_distance([[1.0]], C, M, C), TypeError, ["mean_q must be a NumPy array", "list"]),
        (lambda: wasserstein_distance(M, C[:, :4], M, C), ValueError, ["cov_q must have shape", "Lq = 5"]),
        (lambda: wasserstein_distance(M, C, M[..., 1:], C), ValueError, ["mean_k must have shape", "d = 4"]),
        (lambda: stochastic_attention(M, C, M, C, M, C[:, 1:]), ValueError, ["cov_v must have shape"]),
        (lambda: stochastic_attention(M, C, M, C, M, C, C), ValueError, ["mask must broadcast", "(2, 5, 5)"]),
        (
            lambda: stochastic_attention(M, C, M, C, M, C, causal=1),
            TypeError,
            ["causal must be True or False"],
        ),
        (lambda: stochastic_attention(M, C, M, C, M, C, scale="1"), TypeError, ["scale must be a number"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

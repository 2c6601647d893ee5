import numpy as np
import pytest
import torch
from drawn import assert_same_gradients, normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import attention, low_rank_basis


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from([(), (2,), (2, 3)]), st.integers(0, 99))
def test_the_error_is_what_the_other_singular_values_hold(L, d, before, seed):
    x = normal(*before, L, d, seed=seed)
    rank = 1 + seed % min(L, d)
    for basis in (low_rank_basis(x, rank), low_rank_basis(torch.from_numpy(x), rank).numpy()):
        assert basis.shape == (*before, d, rank)
        assert abs(basis.mT @ basis - np.eye(rank)).max() < 1e-12
        error = np.square(x - x @ basis @ basis.mT).sum((-2, -1))
        discarded = np.square(np.linalg.svd(x)[1][..., rank:]).sum(-1)  # Eckart and Young
        np.testing.assert_allclose(error, discarded, atol=1e-10)
        kept = np.square(x @ basis).sum(-2)
        assert (np.diff(kept, axis=-1) <= 1e-10).all()  # the directions that hold most come first


def test_no_other_basis_leaves_less():
    x = normal(20, 6) * [5, 3, 2, 1, 1, 0.5]
    best = low_rank_basis(x, 3)
    for seed in range(20):
        other = np.linalg.qr(normal(6, 3, seed=seed))[0]
        error, least = (np.square(x - x @ b @ b.T).sum() for b in (other, best))
        assert error > least


def test_attention_over_the_few_features(lib):
    """As the docstring says: nothing is lost where keys and values lie in so many directions."""
    rank, d = 3, 8
    k, v = (normal(2, 6, rank, seed=i) @ normal(rank, d, seed=i + 1) for i in (0, 2))
    q, k, v = (lib.array(x) for x in (normal(2, 4, d), k, v))
    a, b = low_rank_basis(k, rank), low_rank_basis(v, rank)
    assert (k @ a).shape == (2, 6, rank)
    out = attention(q @ a, k @ a, v @ b, causal=True, scale=d**-0.5) @ b.mT
    np.testing.assert_allclose(lib.numpy(out), lib.numpy(attention(q, k, v, causal=True)), atol=1e-10)


@given(
    st.sampled_from([(), (2,), (2, 3)]), st.integers(1, 6), st.integers(1, 8), st.integers(1, 6),
    st.integers(1, 6), st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_nothing_is_lost_of_any_shape_and_mask_nor_of_the_gradient(
    before, n_query, n_key, d, rank, causal, seed
):
    rank = min(rank, d, n_key)
    k, v = (
        torch.from_numpy(normal(*before, n_key, rank, seed=seed + i) @ normal(rank, d, seed=seed + i + 1))
        for i in (0, 2)
    )
    q = torch.from_numpy(normal(*before, n_query, d, seed=seed + 4)).requires_grad_()
    mask = torch.from_numpy(normal(n_query, n_key, seed=seed) < 0.7)
    a, b = low_rank_basis(k, rank), low_rank_basis(v, rank)
    how = {"mask": mask, "causal": causal, "return_weights": True}
    got = attention(q @ a, k @ a, v @ b, scale=d**-0.5, **how)[0] @ b.mT
    wanted = attention(q, k, v, **how)[0]
    np.testing.assert_allclose(got.detach(), wanted.detach(), atol=1e-10)
    assert_same_gradients(got, wanted, [q], atol=1e-9)


def test_a_basis_serves_rows_that_it_has_not_seen():
    spread = normal(3, 10)
    basis = low_rank_basis(normal(50, 3) @ spread, 3)
    new = normal(5, 3, seed=4) @ spread
    np.testing.assert_allclose(new @ basis @ basis.T, new, atol=1e-10)


def test_types_and_inputs_unchanged(lib):
    x = normal(5, 4).astype(np.float16)
    given_x = lib.array(x)
    got = lib.numpy(low_rank_basis(given_x, 2))
    assert got.dtype == np.float16
    np.testing.assert_array_equal(lib.numpy(given_x), x)
    whole = lib.array(np.array([[3, 3], [1, 1]]))
    np.testing.assert_allclose(abs(lib.numpy(low_rank_basis(whole, 1))), 0.5**0.5, rtol=1e-6)
    turned = lib.array(normal(4, 7)).T
    basis = lib.numpy(low_rank_basis(turned, 2))
    np.testing.assert_allclose(abs(basis), abs(low_rank_basis(normal(4, 7).T.copy(), 2)), atol=1e-10)


def test_gradients():
    """Of what does not hang on the signs."""
    x = torch.from_numpy(normal(4, 3)).requires_grad_()

    def projected(x):
        basis = low_rank_basis(x, 2)
        return x @ basis @ basis.mT

    assert torch.autograd.gradcheck(projected, x)


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: low_rank_basis([[1.0]], 1), TypeError, "x must be a NumPy array"),
        (lambda: low_rank_basis(np.ones((2, 2)) > 0, 1), TypeError, "x must hold real numbers"),
        (lambda: low_rank_basis(np.ones(3), 1), ValueError, r"x must have shape .*got \(3,\)"),
        (lambda: low_rank_basis(np.ones((0, 3)), 1), ValueError, "not empty"),
        (lambda: low_rank_basis(np.full((2, 3), np.nan), 1), ValueError, "x must be finite"),
        (lambda: low_rank_basis(torch.full((2, 3), np.inf), 1), ValueError, "x must be finite"),
        (lambda: low_rank_basis(np.ones((2, 3)), 0), ValueError, "rank must be at least 1"),
        (lambda: low_rank_basis(np.ones((2, 3)), 3), ValueError, r"rank must be at most 2.*\(2, 3\).*got 3"),
    ],
)
def test_errors_name_what_is_wrong(call, error, says):
    with pytest.raises(error, match=says):
        call()

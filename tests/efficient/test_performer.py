from functools import partial

import numpy as np
import pytest
import torch
from drawn import BOTH, assert_same_gradients, normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import (
    attention,
    future_leaks,
    hyperbolic_features,
    linear_attention,
    orthogonal_projection,
    performer_attention,
    positive_features,
    relu_features,
    trigonometric_features,
)

CLOSE = {"rtol": 1e-8, "atol": 1e-10}


def qkv(*before, n_query=9, n_key=9, d=4, dv=3, length=0.5):
    return (length * normal(*before, n_query, d), length * normal(*before, n_key, d, seed=1),
            normal(*before, n_key, dv, seed=2))  # fmt: skip


# The golden file


@BOTH
def test_features_agree_with_the_golden_file(golden, array):
    g = golden("performer_favor")
    q, k, W = (array(g[name]) for name in ("in_q", "in_k", "p_W0"))
    close = partial(np.testing.assert_allclose, **CLOSE)
    close(positive_features(q, W, shift="position", eps=1e-4), g["out_phi_q"])
    close(positive_features(k, W, shift="sequence", eps=1e-4), g["out_phi_k"])
    close(relu_features(q, W), g["out_relu_phi_q"])
    close(hyperbolic_features(q, W), np.swapaxes(g["favor_phi_q"], 1, 2))
    close(hyperbolic_features(k, W), np.swapaxes(g["favor_phi_k"], 1, 2))


@BOTH
def test_attention_agrees_with_the_golden_file(golden, array):
    g = golden("performer_favor")
    q, k, v, W = (array(g[name]) for name in ("in_q", "in_k", "in_v", "p_W0"))
    np.testing.assert_allclose(performer_attention(q, k, v, W), g["out_full"], **CLOSE)
    q = positive_features(q, W, shift="position", eps=1e-4)
    k = positive_features(k, W, shift="sequence", eps=1e-4)
    sums = array(np.zeros((1, 2, 24, 5))), array(np.full((1, 2, 24), 1e-6))  # it adds 1e-6 to z
    out = linear_attention(q, k, v, causal=True, feature_map=None, eps=0.0, state=sums)
    np.testing.assert_allclose(out, g["out_causal"], **CLOSE)


def test_projections_are_like_those_of_the_golden_file(golden):
    g = golden("performer_favor")
    W = orthogonal_projection(24, 8, seed=0, norms="constant")
    for made in (W, g["p_W1"]):
        for start in (0, 8, 16):
            block = made[start : start + 8]
            np.testing.assert_allclose(block @ block.T, 8 * np.eye(8), atol=1e-12)
    chi = np.linalg.norm(orthogonal_projection(24, 8, seed=0), axis=1)
    assert len(set(chi.round(6))) == len(set(np.linalg.norm(g["p_W0"], axis=1).round(6))) == 24


# Projections


@given(st.integers(1, 20), st.integers(1, 6), st.sampled_from(["chi", "constant"]), st.integers(0, 99))
def test_rows_of_a_block_stand_at_right_angles(m, d, norms, seed):
    W = orthogonal_projection(m, d, seed, norms=norms)
    assert W.shape == (m, d)
    for start in range(0, m, d):
        products = W[start : start + d] @ W[start : start + d].T
        np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-12)
    if norms == "constant":
        np.testing.assert_allclose(np.linalg.norm(W, axis=1), d**0.5)
    np.testing.assert_array_equal(W, orthogonal_projection(m, d, np.random.default_rng(seed), norms=norms))


def test_lengths_of_rows_are_those_of_normal_vectors():
    squares = np.sum(orthogonal_projection(20_000, 5, seed=0) ** 2, axis=1)
    np.testing.assert_allclose([squares.mean(), squares.var()], [5, 10], rtol=0.05)  # chi-squared


def test_rows_point_everywhere_and_leave_no_bias():
    W = orthogonal_projection(20_000, 2, seed=0)
    first, second = W[::2], W[1::2]
    for rows in (first, second):
        assert abs(np.mean(rows > 0, axis=0) - 0.5).max() < 0.02
    # As it comes, the orthogonal factor gives the first row always the same sign.
    rng = np.random.default_rng(0)
    raw = np.concatenate([np.linalg.qr(rng.normal(size=(2, 2)))[0].T for _ in range(10_000)])
    assert (raw[::2, 0] <= 0).all()
    raw *= np.linalg.norm(rng.normal(size=raw.shape), axis=1)[:, None]
    x = np.array([[1.0, 0.0]])
    means = [positive_features(x, rows).mean() * len(rows) ** 0.5 for rows in (W, raw)]
    assert abs(means[0] - 1) < 0.02 and abs(means[1] - 1) > 0.05


def test_a_projection_is_made_like_an_array():
    for x, dtype in ((torch.zeros(1), torch.float32), (torch.zeros(1).half(), torch.float32),
                     (torch.zeros(1).double(), torch.float64)):  # fmt: skip
        W = orthogonal_projection(5, 3, seed=0, like=x)
        assert W.dtype == dtype
        np.testing.assert_allclose(W, orthogonal_projection(5, 3, seed=0), rtol=1e-6)


# What the features estimate

FEATURES = [positive_features, hyperbolic_features, trigonometric_features]


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("orthogonal", [False, True])
def test_mean_product_is_the_exponential(features, orthogonal):
    q, k, _ = qkv(d=4)
    m = 20_000
    W = orthogonal_projection(m, 4, seed=0) if orthogonal else normal(m, 4, seed=3)
    wanted = np.exp(q @ k.T / 2)  # sqrt(d) is 2
    a, b = (features(x, W).reshape(9, -1, m) for x in (q, k))
    estimates = m * (a[:, None] * b).sum(2)  # one for each row of W
    error = estimates.std(-1) / m**0.5
    assert (abs(estimates.mean(-1) - wanted) < 5 * error).all() and np.median(error) < 0.01


def test_features_have_the_signs_that_they_promise():
    q, k, _ = qkv(length=2)
    W = orthogonal_projection(6, 4, seed=0)
    for features in (positive_features, hyperbolic_features, relu_features):
        assert (features(q, W) >= 0).all()
    assert (trigonometric_features(q, W) @ trigonometric_features(k, W).T).min() < 0


@BOTH
def test_relu_features_are_their_formula(array):
    q, W = qkv()[0], orthogonal_projection(6, 4, seed=0)
    wanted = np.maximum(q @ W.T / 4**0.25, 0) + 0.5
    np.testing.assert_allclose(relu_features(array(q), array(W), eps=0.5), wanted, **CLOSE)
    assert relu_features(np.zeros((1, 4)), W).min() == relu_features(np.zeros((1, 4)), W).max() == 1e-3


def test_exponents_are_bounded_by_the_rows_of_the_projection():
    W = orthogonal_projection(16, 4, seed=0)
    limit = np.exp(np.sum(W**2, axis=1) / 2) / 4
    for length in (1, 10, 1000):
        assert (positive_features(length * normal(500, 4), W) <= limit * (1 + 1e-12)).all()
    np.testing.assert_allclose(np.diag(positive_features(W * 4**0.25, W)), limit)


@given(st.floats(0, 3), st.integers(0, 9))
def test_a_shift_is_one_factor(length, seed):
    x, W = length * normal(2, 5, 4, seed=seed), orthogonal_projection(7, 4, seed)
    plain = positive_features(x, W)
    per_position = positive_features(x, W, shift="position") / plain
    np.testing.assert_allclose(per_position, per_position[..., :1] + 0 * plain, rtol=1e-9)
    per_sequence = positive_features(x, W, shift="sequence") / plain
    np.testing.assert_allclose(per_sequence, per_sequence[:, :1, :1] + 0 * plain, rtol=1e-9)


# Attention with them


@given(
    st.integers(1, 12), st.integers(1, 12), st.sampled_from([(), (2,), (2, 3)]), st.booleans(), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_attention_is_a_quotient_of_sums_of_products(n_query, n_key, before, causal, strict, padded):
    q, k, v = qkv(*before, n_query=n_query, n_key=n_key)
    W = orthogonal_projection(10, 4, seed=0)
    mask = normal(1, n_key, seed=4) < 0.5 if padded else np.ones((1, n_key), bool)
    seen = np.tri(n_query, n_key, n_key - n_query, dtype=bool) & mask if causal else mask
    added = {"eps": 0.0} if strict else {"eps": 1e-4}
    seen_keys = np.where(mask.T, k, 0)
    a = positive_features(q, W, shift="position", **added)
    b = positive_features(seen_keys, W, shift=None if strict else "sequence", **added)
    products = np.where(seen, a @ b.mT, 0)
    total = products.sum(-1, keepdims=True)
    wanted = products @ v / np.where(total == 0, 1, total)
    settings = {"causal": causal, "strict": strict}
    got = performer_attention(q, k, v, W, mask, **settings)
    np.testing.assert_allclose(got, wanted, **CLOSE)
    theirs = performer_attention(*map(torch.from_numpy, (q, k, v, W, mask)), **settings)
    np.testing.assert_allclose(theirs, wanted, **CLOSE)


@pytest.mark.parametrize("causal", [False, True])
def test_many_features_come_near_the_softmax(causal):
    q, k, v = qkv(2, n_query=30, n_key=30)
    wanted = attention(q, k, v, causal=causal)
    errors = [
        np.mean([abs(performer_attention(q, k, v, orthogonal_projection(m, 4, seed), causal=causal) - wanted)
                 for seed in range(8)])
        for m in (16, 256, 4096)
    ]  # fmt: skip
    assert errors[0] > 2 * errors[1] > 4 * errors[2] and errors[2] < 0.02


def test_the_largest_key_of_a_sequence_leaks_from_the_future_and_the_strict_form_does_not():
    q, k, v = (torch.from_numpy(x) for x in qkv(n_query=12, n_key=12, d=8, dv=5, length=1))
    W = orthogonal_projection(24, 8, seed=0, like=q)
    longer = k.clone()
    longer[-1] = 40.0
    for strict, leaks in ((False, True), (True, False), (None, False)):
        first, second = (
            performer_attention(q, keys, v, W, causal=True, strict=strict)[:-1] for keys in (k, longer)
        )
        assert bool((abs(first - second) > 1e-3).any()) is leaks
        assert torch.equal(first, second) is not leaks

    def model(x, strict):
        return performer_attention(x, x, x, W, causal=True, strict=strict)

    x = torch.from_numpy(normal(12, 8, seed=5))
    assert not len(future_leaks(partial(model, strict=True), x))
    assert len(future_leaks(partial(model, strict=False), x))


@pytest.mark.parametrize("strict", [False, True])
def test_gradients(strict):
    q, k, v = (torch.from_numpy(x).requires_grad_() for x in qkv(2, n_query=3, n_key=4))
    W = orthogonal_projection(6, 4, seed=0, like=v)
    if strict:
        mask = torch.tensor([[True, False, True, True]])
        assert torch.autograd.gradcheck(
            lambda *x: performer_attention(*x, W, mask, causal=True, strict=True), (q, k, v)
        )
    for features in (hyperbolic_features, trigonometric_features, relu_features, positive_features):
        assert torch.autograd.gradcheck(features, (q, W.clone().requires_grad_()))
    out = performer_attention(q, k, v, W, causal=True, strict=strict)
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), (q, k, v)))


@given(
    st.integers(1, 12), st.integers(1, 12), st.sampled_from([(), (2,), (2, 3)]), st.booleans(), st.booleans(),
    st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_gradients_are_those_of_the_explicit_form(n_query, n_key, before, causal, strict, padded, seed):
    arrays = *qkv(*before, n_query=n_query, n_key=n_key), orthogonal_projection(10, 4, seed=seed)
    q, k, v, W = inputs = [torch.from_numpy(x).requires_grad_() for x in arrays]
    mask = torch.from_numpy(normal(1, n_key, seed=seed) < (0.5 if padded else np.inf))
    seen = mask.expand(n_query, n_key)
    seen = seen & seen.new_ones(n_query, n_key).tril(n_key - n_query) if causal else seen

    def exponents(x):
        return (x / 2**0.5) @ W.mT - (x * x).sum(-1, keepdim=True) / 4

    keys = torch.where(mask.mT, k, 0)
    a, b = exponents(q), exponents(keys)
    a = torch.exp(a - ((q / 2**0.5) @ W.mT).amax(-1, keepdim=True).detach()) + (0 if strict else 1e-4)
    if not strict:
        b = b - ((keys / 2**0.5) @ W.mT).amax((-2, -1), keepdim=True).detach()
    products = torch.where(seen, a @ (torch.exp(b) + (0 if strict else 1e-4)).mT, 0)
    total = products.sum(-1, keepdim=True)
    wanted = products @ v / torch.where(total == 0, 1, total)
    got = performer_attention(*inputs, mask if padded else None, causal=causal, strict=strict)
    np.testing.assert_allclose(got.detach(), wanted.detach(), **CLOSE)
    assert_same_gradients(got, wanted, inputs, **CLOSE)


@BOTH
def test_long_keys_overflow_nothing_and_empty_rows_are_zero(array):
    q, k, v = (x.astype(np.float32) for x in qkv(n_query=4, n_key=6, length=100.0))
    W = orthogonal_projection(16, 4, seed=0, like=q)
    for strict in (False, True):
        out = np.asarray(performer_attention(*map(array, (q, k, v, W)), causal=True, strict=strict))
        assert np.isfinite(out).all()
        none = array(np.zeros((1, 6), bool))
        assert (np.asarray(performer_attention(*map(array, (q, k, v, W)), none, strict=strict)) == 0).all()
    hidden = np.arange(6)[None] < 3
    k[3:], v[3:] = 1e4, 1e4
    out = performer_attention(*map(array, (q, k, v, W, hidden)))
    np.testing.assert_allclose(out, performer_attention(q, np.where(hidden.T, k, 0), np.where(hidden.T, v, 0),
                                                        W, hidden), rtol=1e-4)  # fmt: skip


@BOTH
def test_half_precision_and_integers_and_inputs_unchanged(array):
    q, k, v = qkv(2)
    W = orthogonal_projection(8, 4, seed=0)
    before = [x.copy() for x in (q, k, v, W)]
    wanted = performer_attention(q, k, v, W)
    half = [array(x.astype(np.float16)) for x in (q, k, v)]
    out = performer_attention(*half, array(W.astype(np.float32)))
    assert "float16" in str(out.dtype)
    np.testing.assert_allclose(out, wanted, atol=5e-3)
    assert "float32" in str(positive_features(half[0], array(W.astype(np.float32))).dtype)
    whole = [np.rint(x).astype(int) for x in (q, k, v)]
    out = performer_attention(*map(array, (*whole, W)))
    np.testing.assert_allclose(out, performer_attention(*(x.astype(float) for x in whole), W), atol=1e-6)
    performer_attention(*map(array, (q, k, v, W, np.ones((1, 9), bool))), causal=True)
    for x, old in zip((q, k, v, W), before, strict=True):
        np.testing.assert_array_equal(x, old)


Q, K, V = qkv(2)
W = orthogonal_projection(6, 4, seed=0)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: orthogonal_projection(0, 4), ValueError, ["n_features must be at least 1; got 0"]),
        (lambda: orthogonal_projection(4, 2.5), TypeError, ["d must be a whole number; got 2.5"]),
        (lambda: orthogonal_projection(4, 2, "x"), TypeError, ["seed must be a whole number"]),
        (
            lambda: orthogonal_projection(4, 2, norms=1),
            ValueError,
            ["norms must be 'chi' or 'constant'", "1"],
        ),
        (lambda: positive_features(Q, W[:, :3]), ValueError, ["projection must have shape (m, d)", "d = 4"]),
        (lambda: positive_features(Q, torch.from_numpy(W)), TypeError, ["one library"]),
        (lambda: positive_features(Q[0, 0], W), ValueError, ["x must have shape (..., L, d)"]),
        (
            lambda: positive_features(Q, W, shift="row"),
            ValueError,
            ["shift must be None, 'position'", "'row'"],
        ),
        (lambda: positive_features(Q, W, eps=-1), ValueError, ["eps must be at least 0"]),
        (lambda: relu_features(Q, W, eps=None), TypeError, ["eps must be a number; got None"]),
        (lambda: hyperbolic_features(Q, W[0]), ValueError, ["projection must have shape (m, d)"]),
        (lambda: trigonometric_features(Q > 0, W), TypeError, ["x must hold real numbers"]),
        (lambda: performer_attention(Q, K, V[:, 1:], W), ValueError, ["v must have shape"]),
        (lambda: performer_attention(Q, K, V, W[:, 1:]), ValueError, ["projection must have shape"]),
        (lambda: performer_attention(Q, K, V, W, causal=1), TypeError, ["causal must be True or False"]),
        (lambda: performer_attention(Q, K, V, W, strict="no"), TypeError, ["strict must be True or False"]),
        (lambda: performer_attention(Q, K, V, W, np.ones((9, 9), bool)), ValueError, ["mask", "(2, 1, 9)"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

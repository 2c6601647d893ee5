import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from torch import nn

from attnlib import (
    additive_score,
    attention_weights,
    concat_score,
    cosine_score,
    dot_score,
    general_score,
    linear_concat_score,
    location_score,
    scaled_dot_score,
    softmax,
)

CLOSE = {"rtol": 1e-10, "atol": 1e-12}

# Each score with its parameters' shapes, for queries of 4 features.
WIDE, SAME = 6, 4
SCORES = {
    dot_score: (SAME, []),
    scaled_dot_score: (SAME, []),
    cosine_score: (SAME, []),
    general_score: (WIDE, [(4, 6), (1,)]),
    additive_score: (WIDE, [(5, 4), (5, 6), (5,), (5,)]),
    concat_score: (WIDE, [(5, 10), (5,), (5,)]),
    linear_concat_score: (WIDE, [(10,), (1,)]),
    location_score: (WIDE, [(7, 4)]),
}
every_score = pytest.mark.parametrize("score", SCORES, ids=lambda f: f.__name__)


def draw(score, seed=0, lead=(2,), n_query=3, n_key=5):
    """Queries, keys and parameters that fit the score."""
    rng = np.random.default_rng(seed)
    names = {known.__name__: needs for known, needs in SCORES.items()}  # a mutation has the name alone
    dk, shapes = names[score.__name__]
    return [rng.normal(size=s) for s in [(*lead, n_query, 4), (*lead, n_key, dk), *shapes]]


def by_hand(score, q, k, *parameters):
    """One pair at a time, by the formula of the paper."""

    def pair(x, y, j):
        match score.__name__:
            case "dot_score":
                return sum(x * y)
            case "scaled_dot_score":
                return sum(x * y) / 2
            case "cosine_score":
                return sum(x * y) / np.sqrt(sum(x * x) * sum(y * y))
            case "general_score":
                W, bias = parameters
                return sum(x[a] * W[a, b] * y[b] for a in range(4) for b in range(6)) + bias[0]
            case "additive_score":
                W, U, v, bias = parameters
                return sum(v * np.tanh(W @ x + U @ y + bias))
            case "concat_score":
                W, v, bias = parameters
                return sum(v * np.tanh(W @ np.concatenate([x, y]) + bias))
            case "linear_concat_score":
                w, bias = parameters
                return sum(w * np.concatenate([x, y])) + bias[0]
            case "location_score":
                return sum(parameters[0][j] * x)

    lead = q.shape[:-2]
    out = np.empty((*q.shape[:-1], k.shape[-2]))
    for place in np.ndindex(*out.shape):
        b, i, j = place[: len(lead)], place[-2], place[-1]
        out[place] = pair(q[b][i], k[b][j], j)
    return out


def test_agrees_with_the_golden_file(golden, lib):
    g = golden("scores_allennlp")
    q, k, same = (lib.array(g[name]) for name in ("in_q", "in_k", "in_k_same"))
    q = q[:, None, :]  # one query a batch
    p = {name.removeprefix("p_"): lib.array(g[name]) for name in g.files if name.startswith("p_")}
    cases = {
        "dot": dot_score(q, same),
        "scaled_dot": scaled_dot_score(q, same),
        "cosine": cosine_score(q, same),
        "bilinear": general_score(q, k, p["bilinear._weight_matrix"], p["bilinear._bias"]),
        "additive": additive_score(
            q, k, p["additive._w_matrix"].T, p["additive._u_matrix"].T, p["additive._v_vector"][:, 0]
        ),
        "concat_linear": linear_concat_score(
            q, k, p["concat_linear._weight_vector"], p["concat_linear._bias"]
        ),
    }
    mask = lib.array(g["in_mask"][:, None, :])
    for name, got in cases.items():
        tolerance = {"rtol": 1e-9, "atol": 1e-11, "err_msg": name}
        np.testing.assert_allclose(lib.numpy(got)[:, 0], g[f"score_{name}"], **tolerance)
        # With one-hot keys, attention takes the scores as they are.
        one_hot = lib.array(np.tile(np.eye(5), (3, 1, 1)))
        weights = attention_weights(got, one_hot, mask, scale=1.0)
        np.testing.assert_allclose(lib.numpy(weights)[:, 0], g[f"weights_{name}_masked"], **tolerance)
    # Its x,y,x*y is the linear score and a general one with a diagonal matrix. They meet with one axis too
    # many in its code, (B, N) and (B, 1, N), so that each item of the batch is added to each other one.
    w, bias = p["concat_xyxy._weight_vector"], p["concat_xyxy._bias"]
    linear = lib.numpy(linear_concat_score(q, same, w[:8], bias))[:, 0]
    product = lib.numpy(general_score(q, same, lib.array(np.diag(lib.numpy(w[8:])))))
    np.testing.assert_allclose(linear + product, g["score_concat_xyxy"], rtol=1e-9, atol=1e-11)


@every_score
@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_is_the_formula_pair_by_pair_in_both_libraries(score, lead, lib):
    arguments = draw(score, lead=lead)
    got = lib.numpy(score(*map(lib.array, arguments)))
    assert got.shape == (*lead, 3, 5)
    np.testing.assert_allclose(got, by_hand(score, *arguments), **CLOSE)


def test_agrees_with_torch_and_scipy(lib):
    q, k = (np.random.default_rng(0).normal(size=s) for s in [(3, 4), (5, 6)])
    bilinear = nn.Bilinear(4, 6, 1, dtype=torch.float64)
    pairs = torch.tensor(np.repeat(q, 5, 0)), torch.tensor(np.tile(k, (3, 1)))
    expected = bilinear(*pairs).detach().numpy().reshape(3, 5)
    weight, bias = bilinear.weight.detach().numpy()[0], bilinear.bias.detach().numpy()
    got = general_score(*map(lib.array, (q, k, weight, bias)))
    np.testing.assert_allclose(lib.numpy(got), expected, **CLOSE)
    k = k[:, :4].copy()
    got = cosine_score(lib.array(q), lib.array(k))
    np.testing.assert_allclose(lib.numpy(got), 1 - cdist(q, k, "cosine"), **CLOSE)


def test_torch_layers_pass_their_weights_as_they_are():
    """The way that additive_score and general_score name for OpenNMT's parameters."""
    make = {"dtype": torch.float64}
    of_query, of_key = nn.Linear(4, 5, **make), nn.Linear(6, 5, bias=False, **make)
    v, into = nn.Linear(5, 1, bias=False, **make), nn.Linear(4, 6, bias=False, **make)
    q, k = (torch.tensor(x) for x in draw(additive_score)[:2])
    hidden = torch.tanh(of_query(q)[:, :, None] + of_key(k)[:, None])
    mlp = additive_score(q, k, of_query.weight, of_key.weight, v.weight[0], of_query.bias)
    torch.testing.assert_close(mlp, v(hidden)[..., 0])
    torch.testing.assert_close(general_score(q, k, into.weight.T), into(q) @ k.mT)


@every_score
def test_gradients(score):
    q, k, *parameters = (torch.tensor(x, requires_grad=True) for x in draw(score))
    if score is location_score:  # a key has no say, hence no gradient
        assert torch.autograd.grad(score(q, k, *parameters).sum(), k, allow_unused=True) == (None,)
        k = k.detach()
    assert torch.autograd.gradcheck(score, (q, k, *parameters))
    assert torch.autograd.gradgradcheck(score, (q, k, *parameters))


@every_score
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32 - 1))
def test_each_pair_is_scored_alone(score, seed):
    q, k, *parameters = draw(score, seed)
    rng = np.random.default_rng(seed)
    i, j = rng.permutation(3), rng.permutation(5)
    all_pairs = score(q, k, *parameters)
    np.testing.assert_allclose(score(q[:, i], k, *parameters), all_pairs[:, i], **CLOSE)
    if score is location_score:  # what key stands where does not matter
        np.testing.assert_array_equal(score(q, k[:, j] + 1, *parameters), all_pairs)
    else:
        np.testing.assert_allclose(score(q, k[:, j], *parameters), all_pairs[..., j], **CLOSE)


@given(seed=st.integers(0, 2**32 - 1), factor=st.floats(1e-3, 1e3))
def test_what_length_and_direction_do(seed, factor):
    q, k = draw(dot_score, seed)
    np.testing.assert_allclose(dot_score(q, k * factor), dot_score(q, k) * factor, **CLOSE)
    np.testing.assert_allclose(scaled_dot_score(q, k) * 2, dot_score(q, k), **CLOSE)
    cosine = cosine_score(q, k)
    np.testing.assert_allclose(cosine_score(q * factor, k), cosine, **CLOSE)
    np.testing.assert_allclose(cosine_score(q, q)[..., range(3), range(3)], 1, **CLOSE)
    assert (np.abs(cosine) <= 1 + 1e-12).all()
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(4, 4)))[0]
    for score in (dot_score, scaled_dot_score, cosine_score):
        np.testing.assert_allclose(score(q @ rotation, k @ rotation), score(q, k), **CLOSE)
    np.testing.assert_allclose(general_score(q, k, np.eye(4)), dot_score(q, k), **CLOSE)


@given(seed=st.integers(0, 2**32 - 1))
def test_additive_scores_are_bounded_and_concat_is_the_same_score(seed):
    q, k, W, U, v, bias = draw(additive_score, seed)
    score = additive_score(q * 100, k, W, U, v, bias)
    assert (np.abs(score) <= np.abs(v).sum() + 1e-12).all()
    side_by_side = np.concatenate([W, U], axis=1)
    np.testing.assert_allclose(concat_score(q, k, side_by_side, v), additive_score(q, k, W, U, v), **CLOSE)


@given(seed=st.integers(0, 2**32 - 1))
def test_without_its_tanh_concat_forgets_the_query(seed):
    q, k, w, bias = draw(linear_concat_score, seed)
    weights = softmax(linear_concat_score(q, k, w, bias))
    np.testing.assert_allclose(weights, softmax((k @ w[4:])[:, None, :].repeat(3, 1)), **CLOSE)
    q, k, W, v, bias = draw(concat_score, seed)
    assert np.ptp(softmax(concat_score(q, k, W, v)), axis=1).max() > 1e-6


def test_cosine_of_zero_vectors_is_zero_and_passes_no_gradient(lib):
    q, k = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 0.0]])
    expected = [[0, 0], [11 / 5 / np.sqrt(5), 0]]
    np.testing.assert_allclose(lib.numpy(cosine_score(lib.array(q), lib.array(k))), expected, **CLOSE)
    q, k = (torch.tensor(x, requires_grad=True) for x in (q, k))
    cosine_score(q, k).sum().backward()
    assert torch.isfinite(q.grad).all() and torch.isfinite(k.grad).all()
    assert (q.grad[0] == 0).all() and (k.grad[1] == 0).all() and (q.grad[1] != 0).any()


@pytest.mark.parametrize("size", [1e-300, 1e300])
def test_cosine_of_very_short_and_very_long_vectors(size, lib):
    q, k = draw(cosine_score)
    got = cosine_score(lib.array(q * size), lib.array(k * size))
    np.testing.assert_allclose(lib.numpy(got), cosine_score(q, k), **CLOSE)


@pytest.mark.parametrize("n_key", [1, 6, 7, 8, 20])
def test_location_takes_as_many_rows_as_there_are_keys(n_key, lib):
    q, k, W = draw(location_score, n_key=n_key)
    got = lib.numpy(location_score(*map(lib.array, (q, k, W))))
    assert got.shape == (2, 3, n_key)
    np.testing.assert_allclose(got[..., :7], (q @ W.T)[..., :n_key], **CLOSE)
    assert (got[..., 7:] == -np.inf).all() and (softmax(got)[..., 7:] == 0).all()


@every_score
def test_types_and_inputs(score, lib):
    arguments = draw(score)
    whole = [(x * 3).astype(np.int64) for x in arguments]
    got = lib.numpy(score(*map(lib.array, whole)))
    assert got.dtype == (np.float64 if lib.name == "numpy" else np.float32)
    np.testing.assert_allclose(got, score(*(x.astype(float) for x in whole)), rtol=1e-5, atol=1e-5)
    half = [x.astype(np.float16) for x in arguments]
    got = lib.numpy(score(*map(lib.array, half)))
    assert got.dtype == np.float16
    expected = score(*(x.astype(np.float32) for x in half))
    np.testing.assert_allclose(got, expected, rtol=1e-3, atol=1e-3)
    tensors = [torch.tensor(x).bfloat16() for x in arguments]
    assert score(*tensors).dtype == torch.bfloat16
    own = [lib.array(x.copy()) for x in arguments]
    score(*own)
    for x, before in zip(own, arguments, strict=True):
        np.testing.assert_array_equal(lib.numpy(x), before)


def test_half_precision_is_summed_in_float32(lib):
    ones = lib.array(np.ones((1, 4096), np.float16))
    assert float(dot_score(ones, ones)[0, 0]) == 4096
    assert float(scaled_dot_score(ones * 30, ones * 30)[0, 0]) == 57600  # the sum itself is beyond float16
    assert abs(float(cosine_score(ones * 200, ones)[0, 0]) - 1) < 1e-3


def test_a_bias_may_be_a_number():
    q, k, W, bias = draw(general_score)
    np.testing.assert_array_equal(general_score(q, k, W, float(bias[0])), general_score(q, k, W, bias))
    np.testing.assert_array_equal(general_score(q, k, W, np.array(2)), general_score(q, k, W, 2))
    half = [torch.tensor(x).half() for x in (q, k, W)]
    assert general_score(*half, 2.5).dtype == torch.half


a = np.ones


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: dot_score([[1.0]], a((1, 1))), TypeError, ["q must be a NumPy array", "list"]),
        (lambda: dot_score(a((1, 2)), torch.ones(1, 2)), TypeError, ["one library", "k from torch"]),
        (lambda: dot_score(a(3), a((2, 3))), ValueError, ["q", "(..., Lq, d)", "(3,)", "q[None, :]"]),
        (lambda: dot_score(np.array(1.0), a((2, 3))), ValueError, ["q must have shape", "()"]),
        (lambda: dot_score(a((2, 3)), a((5, 4))), ValueError, ["k", "(..., Lk, d) with d = 3", "(5, 4)"]),
        (
            lambda: dot_score(a((2, 2, 3)), a((4, 2, 3))),
            ValueError,
            ["k", "leading axes of q, (2,)", "(4, 2, 3)"],
        ),
        (lambda: dot_score(a((2, 2, 3)), a((2, 3))), ValueError, ["k", "leading axes of q, (2,)"]),
        (lambda: cosine_score(a((2, 0)), a((2, 0))), ValueError, ["q must not be empty", "(2, 0)"]),
        (lambda: dot_score(a((1, 2), bool), a((1, 2))), TypeError, ["q", "real numbers", "bool"]),
        (
            lambda: general_score(a((2, 3)), a((2, 4)), a((4, 3))),
            ValueError,
            ["W must have shape (dq, dk) with dq = 3, dk = 4; got (4, 3)"],
        ),
        (
            lambda: general_score(a((2, 3)), a((2, 3)), a((3, 3)), "1"),
            TypeError,
            ["bias", "one number", "'1'"],
        ),
        (lambda: general_score(a((2, 3)), a((2, 3)), a((3, 3)), True), TypeError, ["bias", "True"]),
        (
            lambda: general_score(a((2, 3)), a((2, 3)), a((3, 3)), a(3)),
            ValueError,
            ["bias", "one number", "(3,)"],
        ),
        (
            lambda: additive_score(a((2, 3)), a((2, 4)), a((5, 3)), a((6, 4)), a(5)),
            ValueError,
            ["U must have shape (da, dk)", "da = 5", "(6, 4)"],
        ),
        (
            lambda: additive_score(a((2, 3)), a((2, 4)), a((5, 3)), a((5, 4)), a((5, 1))),
            ValueError,
            ["v must have shape (da,)", "(5, 1)"],
        ),
        (
            lambda: additive_score(a((2, 3)), a((2, 4)), a((5, 3)), a((5, 4)), a(5), a(1)),
            ValueError,
            ["bias must have shape (da,) with da = 5", "(1,)"],
        ),
        (
            lambda: concat_score(a((2, 3)), a((2, 4)), a((5, 6)), a(5)),
            ValueError,
            ["W must have shape (da, dq + dk) with dq + dk = 7; got (5, 6)"],
        ),
        (
            lambda: linear_concat_score(a((2, 3)), a((2, 4)), a(3)),
            ValueError,
            ["w must have shape (dq + dk,) with dq + dk = 7; got (3,)"],
        ),
        (lambda: location_score(a((2, 3)), a((2, 4)), a((5, 4))), ValueError, ["W", "(n, dq) with dq = 3"]),
        (lambda: location_score(a((2, 3)), a((2, 4)), [1]), TypeError, ["W must be a NumPy array", "list"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

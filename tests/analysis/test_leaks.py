"""The detector of leaks: silent on clean models, and each kind of leak found."""

import numpy as np
import pytest
import torch

from attnlib import attention, causal_mask, future_leaks, gradient_influence, influence, softmax

X = np.random.default_rng(3).normal(size=(6, 4))
LOWER = np.tril(np.ones((6, 6), bool))


def causal(x):
    return attention(x, x, x, causal=True)


def running_total(x):
    return x.cumsum(0)


def by_the_rest(x):
    """The total less what follows: clean, but what follows leaves rounding errors."""
    return x.sum(0) - (x[::-1].cumsum(0)[::-1] - x)


CLEAN = [causal, running_total, by_the_rest, lambda x: x, lambda x: x * 0, lambda x: np.maximum.accumulate(x)]


def one_ahead(x):
    return attention(x, x, x, np.tril(np.ones((len(x), len(x)), bool), 1))


def masked_after(x):
    return (softmax(x @ x.T / 2) * causal_mask(len(x))) @ x


def one_pair(x):
    out = causal(x)
    if len(x) > 3:
        out[2] += 0.01 * x[-1]
    return out


def gated(x):
    later = np.cumsum(np.maximum(x[::-1] - 8, 0), 0)[::-1]
    return x + later


def from_the_end(x):
    return causal(x + np.arange(len(x))[::-1, None])


def mean_over_positions(x):
    return x - x.mean(0)


def blows_up(x):
    return x + np.where(x[-1:] > 20, np.inf, 0)


@pytest.mark.parametrize("model", CLEAN)
def test_clean_models_have_no_leaks(model):
    assert future_leaks(model, X) == []


@pytest.mark.parametrize("model, pairs", [
    (one_ahead, {(i, i + 1) for i in range(5)}),
    (masked_after, set(zip(*np.triu_indices(6, 1), strict=True))),
    (mean_over_positions, set(zip(*np.triu_indices(6, 1), strict=True))),
    (one_pair, {(2, 5)}),
    (gated, set(zip(*np.triu_indices(6, 1), strict=True))),
    (from_the_end, set()),
    (blows_up, {(i, 5) for i in range(5)}),
])
def test_each_leak_is_found_where_it_is(model, pairs):
    leaks = future_leaks(model, X)
    assert {(leak.output, leak.token) for leak in leaks if leak.token is not None} == pairs
    assert leaks and all(leak.change > 0 for leak in leaks)


def test_a_leak_of_the_length_alone_is_found_by_cutting():
    leaks = future_leaks(from_the_end, X)
    assert [leak.token for leak in leaks] == [None] * len(leaks) and leaks


def test_influence_is_where_attention_looks():
    assert np.array_equal(influence(causal, X) > 0, LOWER)
    assert influence(lambda x: 2 * x, np.zeros((2, 1)), replacements=[[3.0]])[0, 0] == 6
    assert influence(blows_up, X)[0, 5] == np.inf


def test_ids_are_replaced_by_given_ids():
    table = np.random.default_rng(0).normal(size=(9, 4))
    ids = np.array([1, 2, 3, 4])
    assert future_leaks(lambda t: running_total(table[t]), ids, replacements=[5, 8]) == []
    assert future_leaks(lambda t: table[t[::-1]], ids, replacements=[5, 8])
    with pytest.raises(ValueError, match="x holds int64, so give replacements"):
        influence(lambda t: table[t], ids)


def test_torch_models_and_numpy_models_are_judged_alike():
    x = torch.from_numpy(X)
    np.testing.assert_allclose(influence(causal, x), influence(causal, X), rtol=1e-6, atol=1e-9)
    assert future_leaks(causal, x.to(torch.float32)) == []
    assert future_leaks(lambda x: torch.from_numpy(by_the_rest(x.numpy())), x.to(torch.float32)) == []
    assert future_leaks(lambda x: x - x.mean(0), x)


def test_gradients_see_the_same_but_not_through_a_shut_gate():
    x = torch.from_numpy(X)
    assert np.array_equal(gradient_influence(causal, x).numpy() > 0, LOWER)
    assert (gradient_influence(lambda x: x - x.mean(0), x) > 0).all()
    shut = gradient_influence(lambda x: x + torch.relu(x[-1:] - 8), x)
    assert torch.equal(shut > 0, torch.eye(6, dtype=torch.bool))
    slope = gradient_influence(lambda x: 3 * x, x[:, :1])
    assert torch.equal(slope, 3 * torch.eye(6, dtype=x.dtype))


def test_a_tolerance_hides_what_is_fainter():
    assert future_leaks(one_pair, X) and future_leaks(one_pair, X, tolerance=100) == []


def test_the_input_stays_and_the_answer_repeats():
    x = X.copy()
    first = influence(masked_after, x)
    assert np.array_equal(x, X) and np.array_equal(first, influence(masked_after, x))
    assert not np.array_equal(first, influence(masked_after, x, seed=1))


def test_a_model_that_answers_differently_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="two calls of the model .* Switch dropout off"):
        future_leaks(lambda x: x + rng.normal(), X)


@pytest.mark.parametrize("error, message, arguments, keywords", [
    (ValueError, r"at least two tokens.*\(1, 4\)", (causal, X[:1]), {}),
    (TypeError, "x must be a NumPy array or a torch tensor; got list", (causal, [[1.0], [2.0]]), {}),
    (ValueError, r"6 rows; got shape \(\)", (lambda x: x.sum(), X), {}),
    (ValueError, r"6 rows; got shape \(5, 4\)", (lambda x: x[1:], X), {}),
    (ValueError, r"tokens of shape \(4,\).*\(1, 3\)", (causal, X), {"replacements": [[1.0, 2.0, 3.0]]}),
    (ValueError, "tolerance must be positive; got 0", (causal, X), {"tolerance": 0}),
    (TypeError, "tolerance must be a number or None; got 'low'", (causal, X), {"tolerance": "low"}),
])
def test_errors_are_sentences(error, message, arguments, keywords):
    with pytest.raises(error, match=message):
        future_leaks(*arguments, **keywords)


def test_errors_of_gradients_are_sentences():
    with pytest.raises(TypeError, match="got ndarray"):
        gradient_influence(causal, X)
    with pytest.raises(ValueError, match=r"shape \(L, d\); got \(6,\)"):
        gradient_influence(causal, torch.ones(6))
    with pytest.raises(ValueError, match="6 rows"):
        gradient_influence(lambda x: x[1:], torch.ones(6, 2))


@pytest.mark.parametrize("dtype, peek", [(torch.float16, 1.0), (torch.bfloat16, 2.0), (torch.float32, 0.1)])
def test_half_precision_hides_rounding_and_not_leaks(dtype, peek):
    x = torch.tensor(X).to(dtype)
    assert future_leaks(causal, x) == []
    leaks = future_leaks(lambda x: causal(x) + peek * x[-1:].tanh(), x)
    assert {(i, 5) for i in range(5)} <= {(leak.output, leak.token) for leak in leaks}


def test_an_output_that_is_not_finite_is_no_noise_and_hides_no_leak():
    def first_row(value):
        return lambda x: np.where(np.arange(len(x))[:, None] == 0, value, causal(x))

    assert future_leaks(first_row(np.nan), X) == [] and future_leaks(first_row(np.inf), X) == []
    leaks = future_leaks(lambda x: np.where(np.arange(len(x))[:, None] == 0, np.inf, x - x[-1:]), X)
    assert {(leak.output, leak.token) for leak in leaks if leak.token} == {(i, 5) for i in range(1, 5)}


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("faint, found", [(1e2, False), (1e5, True)])
def test_the_tolerance_is_ten_thousand_times_the_precision_of_the_outputs(scale, faint, found):
    step = faint * np.finfo(float).eps
    assert bool(future_leaks(lambda x: scale * (np.ones_like(x) + step * np.sign(x[-1:])), X)) == found


@pytest.mark.parametrize("gate", [lambda x: abs(x) > 30, lambda x: x < -8, lambda x: x == 0])
def test_gates_that_open_for_large_negative_or_no_tokens_are_found(gate):
    assert future_leaks(lambda x: causal(x) + gate(x[-1:]), np.clip(X, -1, 1))


@pytest.mark.parametrize("length", range(1, 6))
def test_a_leak_of_one_length_is_found_wherever_it_is_cut(length):
    leaks = future_leaks(lambda x: causal(x) + (len(x) == length), X)
    assert {leak.output for leak in leaks} == set(range(length))


def test_gradients_are_norms_and_need_no_mode():
    x = torch.tensor([[3.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    mix = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64)
    with torch.inference_mode():
        assert gradient_influence(lambda x: x @ mix, x).diagonal().tolist() == [5.0, 5.0]


def test_a_model_that_works_in_place_is_judged_by_what_it_says():
    def doubles(x):
        x *= 2
        return x

    before = X.copy()
    assert future_leaks(doubles, X) == [] and np.array_equal(X, before)


@pytest.mark.parametrize("model, error, says", [
    (lambda x: (x, x), TypeError, "the model must give one array; got a tuple"),
    (lambda x: x.tolist(), TypeError, "the model must give one array; got a list"),
    (lambda x: x[:, :0], ValueError, "the model must give one output a token"),
])
def test_a_model_of_another_form_gets_a_sentence(model, error, says):
    with pytest.raises(error, match=says):
        future_leaks(model, X)

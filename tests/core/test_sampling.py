import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnlib import sample, sampling_probabilities, softmax

scores = arrays(np.float64, st.tuples(st.integers(1, 3), st.integers(1, 8)), elements=st.floats(-20, 20))


def by_sorting(row, temperature, top_k):
    """One row without top_p, as the definition says it."""
    p = np.exp(row / temperature - (row / temperature).max())
    order = sorted(range(len(p)), key=lambda i: (-p[i], i))
    kept = order[: top_k or len(order)]
    out = np.zeros_like(p)
    out[kept] = p[kept] / math.fsum(p[kept])
    return out


@given(scores, st.floats(0.2, 5), st.none() | st.integers(1, 9), st.none() | st.floats(0.01, 1))
def test_by_its_definition(logits, temperature, top_k, top_p):
    settings = {"temperature": temperature, "top_k": top_k, "top_p": top_p}
    got = sampling_probabilities(logits, **settings)
    theirs = sampling_probabilities(torch.from_numpy(logits), **settings)
    for i, row in enumerate(logits):
        whole = by_sorting(row, temperature, top_k)
        for p in (got[i], theirs[i].numpy()):
            kept = p > 0
            np.testing.assert_allclose(p, np.where(kept, whole, 0) / whole[kept].sum(), atol=1e-12)
            if top_p is None:
                assert (whole[~kept] < 1e-300).all()
            else:  # the fewest of the most probable, but for rounding where a sum meets top_p
                reached = whole[kept].sum()
                assert reached >= top_p - 1e-9 and reached - whole[kept].min() < top_p + 1e-9
                assert whole[kept].min() >= whole[~kept].max(initial=0) - 1e-12


def test_the_nucleus_of_plain_numbers(lib):
    logits = lib.array(np.log([[0.4, 0.1, 0.3, 0.2], [0.1, 0.1, 0.7, 0.1]]))
    for top_p, wanted in (
        (0.65, [[4 / 7, 0, 3 / 7, 0], [0, 0, 1, 0]]),
        (0.75, [[4 / 9, 0, 3 / 9, 2 / 9], [1 / 8, 0, 7 / 8, 0]]),  # of equal ones the first
        (0.01, [[1, 0, 0, 0], [0, 0, 1, 0]]),
        (1.0, [[0.4, 0.1, 0.3, 0.2], [0.1, 0.1, 0.7, 0.1]]),
        (1, [[0.4, 0.1, 0.3, 0.2], [0.1, 0.1, 0.7, 0.1]]),
    ):
        np.testing.assert_allclose(lib.numpy(sampling_probabilities(logits, top_p=top_p)), wanted, atol=1e-12)
    both = lib.numpy(sampling_probabilities(logits, top_k=2, top_p=0.55))  # 4/7 alone reach 0.55
    np.testing.assert_allclose(both, [[1, 0, 0, 0], [0, 0, 1, 0]], atol=1e-12)


def test_a_sum_that_is_reached_exactly_needs_no_further_token(lib):
    logits = lib.array(np.zeros(4))  # a quarter each, without rounding
    for top_p, wanted in ((0.25, [1, 0, 0, 0]), (0.5, [0.5, 0.5, 0, 0]), (0.51, [1 / 3, 1 / 3, 1 / 3, 0])):
        np.testing.assert_allclose(lib.numpy(sampling_probabilities(logits, top_p=top_p)), wanted)


def test_no_temperature_takes_the_first_of_the_largest(lib):
    logits = lib.array(np.array([[1.0, 5.0, 5.0], [-math.inf, -9.0, -8.0]]))
    got = lib.numpy(sampling_probabilities(logits, temperature=0))
    np.testing.assert_array_equal(got, [[0, 1, 0], [0, 0, 1]])
    assert sample(logits, temperature=0, seed=0).tolist() == [1, 2]
    few = lib.numpy(sampling_probabilities(lib.array(np.zeros((1, 3))), top_k=2))
    np.testing.assert_array_equal(few, [[0.5, 0.5, 0]])


def test_draws_have_the_distribution(lib):
    logits = np.array([0.3, -1.0, -math.inf, 1.2, 0.0])
    n = 20_000
    drawn = lib.numpy(sample(lib.array(np.tile(logits, (n, 1))), temperature=0.7, top_k=3, seed=1))
    assert drawn.shape == (n,) and drawn.dtype == np.int64
    p = sampling_probabilities(logits, temperature=0.7, top_k=3)
    shares = np.bincount(drawn, minlength=5) / n
    assert (abs(shares - p) <= 4.5 * np.sqrt(p * (1 - p) / n)).all()  # 0 where p is 0


def test_the_same_seed_draws_the_same_on_both_libraries():
    logits = np.random.default_rng(0).normal(size=(4, 50, 9))
    drawn = sample(logits, seed=5)
    assert sample(torch.from_numpy(logits), seed=5).tolist() == drawn.tolist()
    assert (sample(logits, seed=6) != drawn).any()
    rng = np.random.default_rng(5)
    assert (sample(logits, seed=rng) == drawn).all() and (sample(logits, seed=rng) != drawn).any()
    assert (sample(logits) != sample(logits)).any()


def test_global_states_are_neither_read_nor_changed():
    logits = np.zeros((2, 5))
    numpy_state, torch_state = np.random.get_state()[1].copy(), torch.get_rng_state()
    sample(torch.from_numpy(logits), seed=0)
    sample(logits)
    assert (np.random.get_state()[1] == numpy_state).all() and torch.equal(torch.get_rng_state(), torch_state)


@pytest.mark.parametrize("uniform", [0.0, 1 - 2.0**-53])
def test_no_token_without_probability_is_drawn(uniform, lib):
    from attnlib.core.sampling import chosen

    for p in ([0.0, 0.3, 0.7, 0.0], [0, 1, 0, 0], [0, 0.1, 0.2, 0.0]):
        for dtype in (np.float32, np.float64):
            at = int(chosen(lib.array(np.array([p], dtype)), np.array([uniform]))[0])
            assert p[at] > 0


def test_types_and_inputs_unchanged(lib):
    logits = np.array([[1.0, 2.0, 4.0]])
    before = logits.copy()
    array = lib.array(logits)
    for settings in ({}, {"top_k": 2}, {"top_p": 0.9}, {"temperature": 0}):
        assert lib.numpy(sampling_probabilities(array, **settings)).dtype == np.float64
        half = sampling_probabilities(lib.array(logits.astype(np.float16)), **settings)
        assert lib.numpy(half).dtype == np.float32
        sample(lib.array(logits.astype(np.int64)), seed=0, **settings)
    np.testing.assert_array_equal(lib.numpy(array), before)
    np.testing.assert_allclose(lib.numpy(sampling_probabilities(array)), softmax(logits), atol=1e-15)


X = np.zeros((2, 3))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: sample([1.0]), TypeError, ["logits must be a NumPy array", "list"]),
        (lambda: sample(X > 1), TypeError, ["logits must hold real numbers", "bool"]),
        (lambda: sample(np.zeros((2, 0))), ValueError, ["logits must have shape", "(2, 0)"]),
        (lambda: sample(np.array(1.0)), ValueError, ["logits must have shape", "got ()"]),
        (lambda: sample(X - math.inf), ValueError, ["each row of logits must have a finite largest entry"]),
        (lambda: sample(X * math.nan, temperature=0), ValueError, ["each row of logits must have a finite"]),
        (lambda: sample(X, temperature=-1), ValueError, ["temperature must be at least 0", "-1"]),
        (lambda: sample(X, temperature=True), TypeError, ["temperature must be a number", "True"]),
        (lambda: sample(X, top_k=0), ValueError, ["top_k must be at least 1", "got 0"]),
        (lambda: sample(X, top_k=2.0), TypeError, ["top_k must be a whole number", "2.0"]),
        (lambda: sample(X, top_p=0.0), ValueError, ["top_p must be above 0 and at most 1", "0.0"]),
        (lambda: sample(X, top_p=1.5), ValueError, ["top_p must be above 0 and at most 1", "1.5"]),
        (lambda: sample(X, top_p="0.9"), TypeError, ["top_p must be a number", "'0.9'"]),
        (lambda: sample(X, seed=1.5), TypeError, ["seed must be a whole number", "1.5"]),
        (lambda: sample(X, seed=-1), ValueError, ["seed must be at least 0", "-1"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

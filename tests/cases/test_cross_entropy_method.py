import numpy as np
import pytest
import torch
from drawn import BOTH, normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import cem_population, cem_search, cem_update

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


@BOTH
def test_a_population_is_drawn_cut_and_holds_the_best(array):
    mean, std, best, noise = (
        normal(3),
        abs(normal(3, seed=1)),
        np.array([7.0, 0.2, -7.0]),
        2 * normal(32, 3, seed=2),
    )
    got = cem_population(*map(array, (mean, std, best, noise)), low=-0.5, high=0.75)
    for i in range(32):
        for j in range(3):
            wanted = best[j] if i == 0 else min(max(mean[j] + std[j] * noise[i, j], -0.5), 0.75)
            assert abs(got[i, j] - wanted) < 1e-14
    plain = np.asarray(cem_population(*map(array, (mean, std, best, noise))))
    assert plain[1:].min() == 0 and plain[1:].max() == 1, "cut to 0 .. 1 when nothing is said"


@given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 99), st.data())
def test_the_best_few_give_mean_and_spread(size, n, seed, data):
    n_elite = data.draw(st.integers(2, size))
    population, scores = normal(size, n, seed=seed), normal(size, seed=seed + 1)
    order = sorted(range(size), key=lambda i: -scores[i])[:n_elite]
    mean = sum(population[i] for i in order) / n_elite
    std = (sum((population[i] - mean) ** 2 for i in order) / (n_elite - 1)) ** 0.5
    for array in (np.asarray, torch.from_numpy):
        got = cem_update(array(population), array(scores), n_elite)
        for a, b in zip(got, (mean, std, population[order[0]]), strict=True):
            np.testing.assert_allclose(a, b, **CLOSE)


@BOTH
def test_log_likelihoods_decide_between_equals_alone(array):
    population, scores = array(normal(5, 2)), array(np.array([0.5, 1.0, 0.2, 1.0, 1.0]))
    told = array(np.array([0.0, -3.0, 0.0, -1.0, -2.0]))
    mean, std, best = cem_update(population, scores, 3, log_likelihoods=told)
    np.testing.assert_array_equal(best, normal(5, 2)[3])
    np.testing.assert_allclose(mean, normal(5, 2)[[1, 3, 4]].mean(0), **CLOSE)
    np.testing.assert_allclose(std, normal(5, 2)[[1, 3, 4]].std(0, ddof=1), **CLOSE)
    np.testing.assert_array_equal(cem_update(population, scores, 3)[2], normal(5, 2)[1])


@BOTH
def test_types_and_inputs_unchanged(array):
    population, scores = array(normal(4, 2).astype("float32")), array(np.array([1, 4, 2, 3]))
    before = normal(4, 2).astype("float32")
    mean, std, best = cem_update(population, scores, 2)
    assert {str(x.dtype)[-7:] for x in (mean, std, best)} == {"float32"}
    best += 1.0
    np.testing.assert_array_equal(population, before)
    arrays = [array(x.astype("float16")) for x in (normal(2), normal(2), normal(2), normal(3, 2))]
    assert "float16" in str(cem_population(*arrays).dtype)


def test_one_round_is_its_two_halves():
    start, seen = np.array([0.4, 0.6, 0.1]), []

    def score(x):
        seen.append(x)
        return -abs(x - 0.2).sum()

    got = cem_search(score, start, rounds=2, ema=0.25, rng=np.random.default_rng(5))
    rng = np.random.default_rng(5)
    mean, std, best = start, np.full(3, 0.5), start
    for i in range(2):
        drawn = cem_population(mean, std, best, rng.standard_normal((32, 3)))
        np.testing.assert_allclose(np.stack(seen[32 * i : 32 * i + 32]), drawn, **CLOSE)
        new_mean, new_std, best = cem_update(drawn, -abs(drawn - 0.2).sum(1), 6)
        mean, std = 0.75 * new_mean + 0.25 * mean, 0.75 * new_std + 0.25 * std
    np.testing.assert_allclose(got, best, **CLOSE)
    assert len(seen) == 64


def test_finds_a_maximum_and_keeps_to_its_range():
    aim = np.array([0.3, 1.4, -2.0, 0.77])
    got = cem_search(lambda x: -((x - aim) ** 2).sum(), np.full(4, 0.5), rounds=30)
    np.testing.assert_allclose(got, [0.3, 1.0, 0.0, 0.77], atol=1e-2)
    wide = cem_search(lambda x: -((x - aim) ** 2).sum(), np.full(4, 0.5), rounds=40, low=-3.0, high=3.0)
    np.testing.assert_allclose(wide, aim, atol=1e-2)


def test_the_best_is_never_lost():
    start = np.array([0.123])
    assert cem_search(lambda x: float(x[0] == 0.123), start, rounds=5) == start


def test_ties_are_settled_by_the_second_of_a_pair():
    got = cem_search(lambda x: (round(float(x[0]), 1), -float(x[1])), np.array([0.5, 0.5]), rounds=8)
    assert got[0] >= 0.95 and got[1] < 0.1


def test_a_score_cannot_change_its_candidate():
    def spoiled(x):
        x[:] = 9.0
        return 0.0

    assert cem_search(spoiled, np.array([0.5, 0.5]), rounds=2).max() <= 1.0


P, S = normal(4, 2), normal(4)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: cem_update(P, S[:3], 2), ValueError, ["scores must have shape", "population = 4", "(3,)"]),
        (lambda: cem_update(P, S, 1), ValueError, ["n_elite must be 2 to 4", "got 1"]),
        (lambda: cem_update(P, S, 5), ValueError, ["n_elite must be 2 to 4", "got 5"]),
        (lambda: cem_update(P, S * np.nan, 2), ValueError, ["candidate 0 is NaN"]),
        (lambda: cem_update(P, S, 2, log_likelihoods=S[:2]), ValueError, ["log_likelihoods must have shape"]),
        (lambda: cem_update(P.tolist(), S, 2), TypeError, ["population must be a NumPy array"]),
        (lambda: cem_population(S, S, S, P), ValueError, ["noise must have shape (population, n)", "n = 4"]),
        (
            lambda: cem_population(S, S, S, P.T, low=1.0),
            ValueError,
            ["low must be below high", "1.0 and 1.0"],
        ),
        (lambda: cem_population(S, S, S, P.T, low="0"), TypeError, ["low must be a number"]),
        (lambda: cem_search(sum, S, ema=1.0), ValueError, ["ema must be at least 0 and below 1; got 1.0"]),
        (lambda: cem_search(sum, S, rounds=0), ValueError, ["rounds must be at least 1"]),
        (lambda: cem_search(sum, S, elite_ratio=0.01), ValueError, ["elite_ratio must keep 2 or", "0.01"]),
        (lambda: cem_search(None, S), TypeError, ["score must be a function", "NoneType"]),
        (lambda: cem_search(sum, [0.1]), TypeError, ["start must be a NumPy array", "list"]),
        (lambda: cem_search(sum, P), ValueError, ["start must have shape (n,)", "(4, 2)"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

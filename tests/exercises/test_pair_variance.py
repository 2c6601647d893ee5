"""The variance of dot products: every right way accepted, every known mistake named."""

import statistics
import time

import numpy as np
import pytest
import torch  # here, for a first import inside a judged function may take longer than it is given
from numpy.testing import assert_allclose

import attnlib
from attnlib.exercises import check
from attnlib.exercises.pair_variance import EXERCISES, _variance, _variance_cases, dot_product_variance


def by_loop(q, k):
    scores = []
    for query, key in zip(q, k, strict=True):
        scores.append(sum(float(a) * float(b) for a, b in zip(query, key, strict=True)))
    mean = sum(scores) / len(scores)
    raw = sum((s - mean) ** 2 for s in scores) / len(scores)
    return raw, raw / q.shape[1]


def by_einsum(q, k):
    scores = np.einsum("ij,ij->i", q, k)
    return np.var(scores), np.var(scores / np.sqrt(q.shape[1]))


def by_diagonal(q, k):
    scores = np.diagonal(q @ k.T)
    return [scores.var(), (scores * q.shape[-1] ** -0.5).var()]


def by_moments_in_float32(q, k):
    s = (q.astype(np.float32) * k.astype(np.float32)).sum(1)
    d = s - s.mean()
    return np.float32((d * d).mean()), np.float32((d * d).mean() / q.shape[1])


def by_one_scaled_side(q, k):
    d = q.shape[1]
    return (q * k).sum(-1).var(), ((q / np.sqrt(d)) * k).sum(-1).var()


def as_one_array(q, k):
    return np.array(by_einsum(q, k))


def by_welford(q, k):
    mean = total = 0.0
    for i, (query, key) in enumerate(zip(q, k, strict=True)):
        score = float(np.dot(query.astype(float), key.astype(float)))
        off = score - mean
        mean += off / (i + 1)
        total += off * (score - mean)
    return total / len(q), total / len(q) / q.shape[1]


def by_statistics(q, k):
    scores = [sum(map(float, row)) for row in (q * k).tolist()]
    return statistics.pvariance(scores), statistics.pvariance([s / q.shape[1] ** 0.5 for s in scores])


def by_differences(q, k):
    s = np.einsum("ij,ij->i", q.astype(float), k.astype(float))
    raw = 0.5 * np.mean((s[:, None] - s) ** 2)
    return raw, raw / q.shape[1]


def by_half_the_scale_each(q, k):
    share = q.shape[1] ** -0.25
    return by_einsum(q, k)[0], np.var(((q * share) * (k * share)).sum(-1))


def by_moments_about_the_first(q, k):
    s = (q * k).sum(-1).astype(float)
    s = s - s[0]
    raw = np.mean(s**2) - np.mean(s) ** 2
    return raw, raw / q.shape[1]


def through_torch_in_32_bits(q, k):
    q, k = (torch.tensor(x, dtype=torch.float32) for x in (q, k))
    s = torch.einsum("ij,ij->i", q, k)
    return s.var(correction=0).item(), (s / q.shape[1] ** 0.5).var(correction=0).item()


RIGHT = [by_loop, by_einsum, by_diagonal, by_moments_in_float32, by_one_scaled_side, as_one_array, by_welford,
         by_statistics, by_differences, by_half_the_scale_each, by_moments_about_the_first,
         through_torch_in_32_bits]


@pytest.mark.parametrize("function", RIGHT)
def test_right_answers_pass(function):
    verdict = check("dot_product_variance", function)
    assert verdict.passed is True, verdict.message


def test_the_solution_passes_and_hints_go_on():
    names = {}
    exec(EXERCISES[0].solution, names)
    verdict = check("dot_product_variance", names["dot_product_variance"])
    assert verdict.passed is True, verdict.message
    assert len(EXERCISES[0].hints) == 3


def test_the_package_agrees_with_the_reference():
    for case in _variance_cases():
        assert_allclose(attnlib.dot_product_variance(*case.args), _variance(*case.args), rtol=1e-5)


def variance(**wrong):
    return lambda q, k: _variance(q, k, **wrong)


def sample(q, k):
    return (q * k).sum(-1)


def population(q, k):
    return (q * k).sum(-1).var(), (q * k).sum(-1).var() / q.shape[-1]


def in_place(q, k):
    q *= k
    s = q.sum(-1)
    return s.var(), s.var() / q.shape[1]


# Written the way a learner would, not by the judge's own choices
WRITTEN = [
    ("all_pairs", lambda q, k: ((q @ k.T).var(), (q @ k.T / np.sqrt(q.shape[1])).var())),
    ("per_query", lambda q, k: ((q @ k.T).var(1).mean(), (q @ k.T).var(1).mean() / q.shape[1])),
    ("entries", lambda q, k: ((q * k).var(), (q * k).var() / q.shape[1])),
    ("columns", lambda q, k: ((q * k).sum(0).var(), (q * k).sum(0).var() / q.shape[1])),
    ("mean_of_products", lambda q, k: ((q * k).mean(1).var(), (q * k).mean(1).var() / q.shape[1])),
    ("ddof", lambda q, k: tuple(population(q, k) * np.array(len(q)) / np.float64(len(q) - 1))),
    ("standard_deviation", lambda q, k: tuple(np.sqrt(population(q, k)))),
    ("mean_square", lambda q, k: (((q * k).sum(1) ** 2).mean(), ((q * k).sum(1) ** 2).mean() / q.shape[1])),
    ("divided_by_width", lambda q, k: (population(q, k)[0], population(q, k)[1] / q.shape[1])),
    ("variance_by_root", lambda q, k: (population(q, k)[0], population(q, k)[0] / q.shape[1] ** 0.5)),
    ("multiplied", lambda q, k: (population(q, k)[0], population(q, k)[0] * q.shape[1])),
    ("root_of_n", lambda q, k: (population(q, k)[0], population(q, k)[0] / len(q))),
    ("not_scaled", lambda q, k: (population(q, k)[0],) * 2),
    ("swapped", lambda q, k: population(q, k)[::-1]),
    ("unit_normal", lambda q, k: (q.shape[1], 1.0)),
    ("formula", lambda q, k: (q.shape[1] * q.var() * k.var(), q.var() * k.var())),
    ("changes_input", in_place),
    ("package", lambda q, k: attnlib.dot_product_variance(q, k)),
    ("another_row", lambda q, k: population(q, np.roll(k, 1, 0))),
    ("some_pairs", lambda q, k: population(q[:100], k[:100])),
    ("some_pairs", lambda q, k: population(q[1:], k[1:])),
    ("variances_added", lambda q, k: ((q * k).var(0).sum(), (q * k).var(0).mean())),
    ("within_rows", lambda q, k: ((q * k).var(1).mean(), (q * k).var(1).mean() / q.shape[1])),
    ("centred_entries", lambda q, k: population(q - q.mean(0), k - k.mean(0))),
    ("standardised_entries", lambda q, k: population((q - q.mean()) / q.std(), (k - k.mean()) / k.std())),
    ("moments", lambda q, k: ((sample(q, k) ** 2).mean() - sample(q, k).mean() ** 2,
                              ((sample(q, k) ** 2).mean() - sample(q, k).mean() ** 2) / q.shape[1])),
    ("ddof_of_one", lambda q, k: (sample(q, k).var(), sample(q, k).var(ddof=1) / q.shape[1])),
    ("spread_of_one", lambda q, k: (sample(q, k).var(), sample(q, k).std() / q.shape[1] ** 0.5)),
    ("about_the_median", lambda q, k: (((sample(q, k) - np.median(sample(q, k))) ** 2).mean(),
                                       ((sample(q, k) - np.median(sample(q, k))) ** 2).mean() / q.shape[1])),
    ("whole_root", lambda q, k: (population(q, k)[0], population(q, k)[0] / int(q.shape[1] ** 0.5) ** 2)),
    ("fixed_width", lambda q, k: (population(q, k)[0], population(q, k)[0] / 64)),
    ("fixed_width", lambda q, k: (population(q, k)[0], population(q, k)[0] / 3)),
    ("scaled_twice_told", lambda q, k: (population(q, k)[1],) * 2),
    ("one_number", lambda q, k: population(q, k)[0]),
    ("scores_returned", lambda q, k: (sample(q, k), sample(q, k) / q.shape[1] ** 0.5)),
    ("rounded", lambda q, k: tuple(round(float(x), 3) for x in population(q, k))),
    (None, lambda q, k: tuple(map(float, population(q.astype(np.float16), k.astype(np.float16))))),
    ("standard_deviation", lambda q, k: np.sqrt(population(q, k))),
    ("swapped", lambda q, k: np.array(population(q, k)[::-1])),
    ("standard_deviation and swapped", lambda q, k: tuple(np.sqrt(population(q, k)))[::-1]),
    ("all_pairs and ddof", lambda q, k: ((q @ k.T).var(ddof=1), (q @ k.T).var(ddof=1) / q.shape[1])),
    ("mean_square and divided_by_width",
     lambda q, k: (((q * k).sum(1) ** 2).mean(), ((q * k).mean(1) ** 2).mean())),
]


@pytest.mark.parametrize("name, function", WRITTEN)
def test_functions_are_told_their_mistake(name, function):
    verdict = check("dot_product_variance", function)
    assert verdict.passed is False and verdict.misconception == name, verdict


@pytest.mark.parametrize("mistake", dot_product_variance.mistakes, ids=lambda m: m.name)
def test_each_known_mistake_of_the_variance_is_named(mistake):
    verdict = check("dot_product_variance", variance(**mistake.choices))
    assert verdict.misconception == mistake.name and mistake.hint in verdict.message
    assert ("another convention" in verdict.message) == mistake.convention


def test_what_follows_is_told_apart_from_what_does_not():
    told = check("dot_product_variance", lambda q, k: (population(q, k)[0], population(q, k)[0] / 7)).message
    assert "is 7 times your second" in told and "here of 3" in told
    told = check("dot_product_variance", lambda q, k: (0.7 * q.shape[1], 0.7)).message
    assert "follows from your first" in told
    told = check("dot_product_variance", lambda q, k: tuple(map(np.float16, population(q, k)))).message
    assert "those of half precision" in told
    told = check("dot_product_variance", lambda q, k: (-1.0, -1.0)).message
    assert "not negative" in told


def test_what_is_kept_from_an_earlier_call_is_told():
    kept = {}

    def by_shape(q, k):
        return kept.setdefault(q.shape, population(q, k))

    told = check("dot_product_variance", by_shape)
    assert told.misconception == "state" and "on 7 pairs of width 3" in told.message

    def all_so_far(q, k, scores=[]):                        # noqa: B006
        scores.extend(sample(q, k).tolist())
        return np.var(scores), np.var(scores) / q.shape[1]

    assert check("dot_product_variance", all_so_far).misconception == "state"


def test_no_number_is_a_matter_of_type():
    told = check("dot_product_variance", lambda q, k: ("a", "b")).message
    assert "must be a number; yours is of type str" in told


def test_a_stub_is_not_answered_yet():
    def stub(q, k):
        raise NotImplementedError

    assert check("dot_product_variance", stub).passed is None


RESULTS = [None, "text", [], {}, np.nan, (1, 2, 3), np.zeros(10**6), np.array(["a", "b"]), 1 + 2j, True,
           (None, None), object(), (np.nan, np.nan), (np.inf, 0), (1j, 2), ([1], [2]), (10**400, 1),
           torch.ones(2), (torch.ones(3), 1.0), np.zeros(2), np.zeros((2, 2)), (0, 0)]


@pytest.mark.parametrize("result", RESULTS, ids=range(len(RESULTS)))
def test_odd_results_are_judged(result):
    verdict = check("dot_product_variance", lambda q, k: result)
    assert verdict.passed is False and verdict.message


@pytest.mark.parametrize("function", [lambda: 1, lambda *_: 1 / 0, lambda *a: a[0][99999]], ids=range(3))
def test_errors_are_told(function):
    verdict = check("dot_product_variance", function)
    assert verdict.passed is False
    assert "raised" in verdict.message or "must take the arguments" in verdict.message


def test_a_verdict_is_quick():
    start = time.process_time()
    check("dot_product_variance", lambda q, k: (1.0, 2.0))
    assert time.process_time() - start < 2  # 0.2 on an idle machine

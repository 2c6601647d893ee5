"""Lesson 06's exercises: every right way accepted, every known mistake named."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attnlib
from attnlib.exercises import check, scaling


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


def measured(q, k, width):
    steps = (q * k).sum(-1)
    drift, chance = steps.mean() / q.shape[1], steps.var() / q.shape[1]
    return 1 / np.sqrt((drift * width) ** 2 + chance * width)


def by_simulation(q, k, width):
    """Draws the rebuilt head's steps from those of the old one."""
    steps = (q * k).ravel()
    rng = np.random.default_rng(0)
    scores = [rng.choice(steps, size=width).sum() for _ in range(1000)]
    return float(np.mean(np.square(scores)) ** -0.5)


def by_correlation(q, k, width):
    rho = np.corrcoef(q.ravel(), k.ravel())[0, 1]
    size = q.std() * k.std()
    return 1 / (size * np.sqrt(width * (1 + rho**2) + (rho * width) ** 2))


def as_one_array(q, k):
    return np.array(by_einsum(q, k))


def by_pooled_steps(q, k, width):
    steps = q * k
    return (steps.mean() ** 2 * width**2 + steps.var() * width) ** -0.5


SIGNS = np.array([[1, 1, 1, 1], [-1, -1, -1, -1]])
TURNED = SIGNS * [1, -1, 1, -1]
HALF = SIGNS * [1, 1, -1, -1]
MANY = np.outer([2, 1, -1, -2, 0], [1, 1, 1, 1]) / np.sqrt(2)
EVERY = 2 * (np.arange(16)[:, None] >> np.arange(4) & 1) - 1

RIGHT = {
    "wider_head": [4, 4.0, np.sqrt(16), np.array(4)],
    "fifty_five": [900, 900.0, np.int64(900), (3 / 0.1) ** 2],
    "largest_variance": [(SIGNS, SIGNS), (TURNED.tolist(), TURNED), [SIGNS.astype(np.float32), MANY],
                         np.array([SIGNS, TURNED * [1, -1, 1, -1]]), (SIGNS * (1 + 4e-7), SIGNS)],
    "no_variance": [(SIGNS, TURNED), (HALF, MANY), (np.vstack([TURNED, HALF]), SIGNS),
                    np.array([SIGNS, TURNED])],
    "dot_product_variance": [by_loop, by_einsum, by_diagonal, by_moments_in_float32, by_one_scaled_side,
                             as_one_array],
    "choose_scale": [measured, by_pooled_steps, by_simulation, by_correlation],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


def test_the_package_agrees_with_the_reference():
    for case in scaling._variance_cases():
        assert_allclose(attnlib.dot_product_variance(*case.args), scaling._variance(*case.args), rtol=1e-5)


# Mistakes: in order of the parameters, the exercise, the answer, and what it is called

NUMBERS = [
    ("wider_head", 16, "entries_forgotten or variance_for_spread"),
    ("wider_head", 32, "width_without_root"),
    ("wider_head", 8, "halved_once"),
    ("wider_head", 1, "variance_for_spread"),
    ("wider_head", 2, "width_forgotten"),
    ("wider_head", 0.25, "scale_for_temperature"),
    ("fifty_five", 3600, "excess_for_drift"),
    ("fifty_five", 30, "square_forgotten"),
    ("fifty_five", 100, "one_spread"),
    ("fifty_five", 300, "three_times"),
    ("fifty_five", 891, "spread_of_match"),
    ("fifty_five", 29.75, "share_for_drift"),
    ("fifty_five", 901, "not_the_least"),
    ("fifty_five", 1024, "not_the_least"),
    ("largest_variance", (EVERY, EVERY), "in_order"),
    ("largest_variance", (SIGNS, EVERY), "one_side"),
    ("largest_variance", (EVERY, SIGNS), "one_side"),
    ("largest_variance", (SIGNS, TURNED), "other_half"),
    ("largest_variance", (2 * SIGNS, SIGNS), "entries_not_one"),
    ("largest_variance", (SIGNS[:1], SIGNS), "mean"),
    ("no_variance", (SIGNS, EVERY), "one_side"),
    ("no_variance", (EVERY, SIGNS), "one_side"),
    ("no_variance", (EVERY, EVERY), "same_rows"),
    ("no_variance", (SIGNS, SIGNS), "same_rows"),
    ("no_variance", (SIGNS, -SIGNS), "other_half"),
    ("no_variance", (SIGNS, 0 * SIGNS), "entries_not_one"),
    ("no_variance", (SIGNS[:1], TURNED), "mean"),
]


@pytest.mark.parametrize("exercise, answer, name", NUMBERS)
def test_numbers_and_arrays_are_told_their_mistake(exercise, answer, name):
    verdict = check(exercise, answer)
    assert verdict.passed is False and verdict.misconception == name, verdict


def variance(**wrong):
    return lambda q, k: scaling._variance(q, k, **wrong)


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


@pytest.mark.parametrize("mistake", scaling.dot_product_variance.mistakes, ids=lambda m: m.name)
def test_each_known_mistake_of_the_variance_is_named(mistake):
    verdict = check("dot_product_variance", variance(**mistake.choices))
    assert verdict.misconception == mistake.name and mistake.hint in verdict.message
    assert ("another convention" in verdict.message) == mistake.convention


def sample(q, k):
    return (q * k).sum(-1)


SCALES = [
    ("root_of_width", lambda q, k, width: width**-0.5),
    ("root_of_width", lambda q, k, width: 1 / (q.std() * k.std() * 0 + np.sqrt(width))),
    ("one_over_width", lambda q, k, width: 1 / width),
    ("one_over_width", lambda q, k, width: attnlib.mup_scale(width)),
    ("as_measured", lambda q, k, width: 1 / np.sqrt((sample(q, k) ** 2).mean())),
    ("all_grows_as_root",
     lambda q, k, width: 1 / np.sqrt((sample(q, k) ** 2).mean() * width / q.shape[1])),
    ("all_grows_as_width",
     lambda q, k, width: q.shape[1] / width / np.sqrt((sample(q, k) ** 2).mean())),
    ("spread_only", lambda q, k, width: 1 / (sample(q, k).std() * np.sqrt(width / q.shape[1]))),
    ("mean_only", lambda q, k, width: 1 / abs((q * k).mean() * width)),
    ("old_width", lambda q, k, width: 1 / np.sqrt(q.shape[1])),
    ("no_root", lambda q, k, width: measured(q, k, width) ** 2),
    ("temperature", lambda q, k, width: 1 / measured(q, k, width)),
    ("unit_steps", lambda q, k, width: 1 / np.sqrt((q * k).mean() ** 2 * width**2 + width)),
    ("unit_entries", lambda q, k, width:
     1 / np.sqrt(np.corrcoef(q.ravel(), k.ravel())[0, 1] ** 2 * width**2 + width)),
    ("all_pairs", lambda q, k, width: 1 / np.sqrt(np.mean((q[:500] @ k[:500].T) ** 2) * width / q.shape[1])),
]


@pytest.mark.parametrize("name, function", SCALES)
def test_scales_are_told_their_mistake(name, function):
    verdict = check("choose_scale", function)
    assert verdict.passed is False and verdict.misconception == name, verdict


@pytest.mark.parametrize("mistake", scaling.choose_scale.mistakes, ids=lambda m: m.name)
def test_each_known_mistake_of_the_scale_is_named(mistake):
    verdict = check("choose_scale", lambda q, k, width: scaling._scale(q, k, width, **mistake.choices))
    assert verdict.misconception == mistake.name and mistake.hint in verdict.message


def test_both_tempting_powers_are_right_somewhere_and_wrong_elsewhere():
    def passes(rule):
        return {case.name for case in scaling._scale_cases()
                if abs(rule(case.args[2]) / scaling._scale(*case.args) - 1) < 0.2}

    root, one = passes(lambda width: width**-0.5), passes(lambda width: 1 / width)
    assert root and one and not root & one
    assert len(root | one) < len(scaling._scale_cases())


def test_the_estimate_is_near_the_truth():
    """What the sample says of the rebuilt head lies well inside the fifth that is allowed."""
    truths = [(0.3, 1, 256), (0.0, 1, 512), (0.05, 1, 4096), (0.8, 1, 8), (0.1, 1, 100), (0.2, 1.5, 300),
              (0.0, 1.5, 200)]
    for (rho, size, width), case in zip(truths, scaling._scale_cases(), strict=False):
        truth = 1 / (size * np.sqrt(width * (1 + rho**2) + (rho * width) ** 2))
        assert scaling._scale(*case.args) == pytest.approx(truth, rel=0.06), case.name


def test_an_unknown_scale_is_told_what_it_does():
    verdict = check("choose_scale", lambda q, k, width: 3 * measured(q, k, width))
    assert "root mean square of 3, not 1" in verdict.message and verdict.misconception is None
    assert "A scale is positive" in check("choose_scale", lambda q, k, width: -1.0).message


def test_the_verdict_says_what_a_number_does():
    assert "spread by 0.8" in check("wider_head", 5).message
    assert "2 spreads" in check("fifty_five", 400).message
    assert "4.4721" not in check("fifty_five", 400).message


def test_a_number_next_to_the_right_one_is_not_rounded_to_it():
    assert "only 2.998 spreads" in check("fifty_five", 899).message
    assert "3.002 spreads" in check("fifty_five", 901).message
    assert "spread by 1.003;" in check("wider_head", 3.989).message


def test_text_for_numbers_is_told_to_lose_its_quotes():
    assert "one number without quotes; got '4'" in check("wider_head", "4").message
    assert "without quotes" in check("largest_variance", (SIGNS.astype(str), SIGNS)).message
    assert "quotes" not in check("wider_head", "four").message


def test_no_number_is_a_matter_of_type():
    told = check("dot_product_variance", lambda q, k: ("a", "b")).message
    assert "must be a number; yours is of type str" in told


# Whatever is typed is judged, without a crash

ODD = [..., None, "four", "", [], {}, np.nan, np.inf, -1, 0, 1e300, 10**400, True, [1, 2], object(), print,
       np.zeros((0, 4)), np.zeros((3, 4, 5)), (SIGNS,), (SIGNS, "a"), (SIGNS, SIGNS[:, :3]),
       ([[1, 2], [3]], SIGNS), (SIGNS * np.nan, SIGNS), (SIGNS * 1e200, SIGNS), (np.ones((5000, 4)), SIGNS),
       (SIGNS, SIGNS, SIGNS)]


@pytest.mark.parametrize("exercise", RIGHT)
@pytest.mark.parametrize("answer", ODD, ids=range(len(ODD)))
def test_odd_answers_are_judged(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is (None if answer is ... or answer is None else False)
    assert verdict.message


def test_dots_within_a_pair_are_not_answered_yet():
    for exercise in ("largest_variance", "no_variance"):
        assert check(exercise, (..., ...)).passed is None
        assert check(exercise, (SIGNS, ...)).passed is None


def test_stubs_are_not_answered_yet():
    def stub(*_):
        raise NotImplementedError

    for exercise in ("dot_product_variance", "choose_scale"):
        assert check(exercise, stub).passed is None


RESULTS = [None, "text", [], {}, np.nan, (1, 2, 3), np.zeros(10**6), np.array(["a", "b"]), 1 + 2j,
           (None, None), object(), (np.nan, np.nan)]


@pytest.mark.parametrize("exercise", ["dot_product_variance", "choose_scale"])
@pytest.mark.parametrize("result", RESULTS, ids=range(len(RESULTS)))
def test_odd_results_are_judged(exercise, result):
    verdict = check(exercise, lambda *_: result)
    assert verdict.passed is False and verdict.message


@pytest.mark.parametrize("exercise", ["dot_product_variance", "choose_scale"])
@pytest.mark.parametrize("function", [lambda: 1, lambda *_: 1 / 0, lambda *a: a[0][99999]], ids=range(3))
def test_errors_are_told(exercise, function):
    verdict = check(exercise, function)
    assert verdict.passed is False
    assert "raised" in verdict.message or "must take the arguments" in verdict.message


@pytest.mark.parametrize("exercise, answer", [
    ("dot_product_variance", lambda q, k: (1.0, 2.0)), ("choose_scale", lambda q, k, width: 0.5),
])
def test_a_verdict_is_quick(exercise, answer):
    start = time.process_time()
    check(exercise, answer)
    assert time.process_time() - start < 1

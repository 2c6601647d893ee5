"""Lesson 05: sparsemax, 1.5-entmax and off by one. Right ways pass, known mistakes are named."""

import numpy as np
import pytest
from judging import ERRORS, NO_FUNCTIONS, RESULTS, mistakes, named, odd, stub, told_when_raising

import attnlib
from attnlib.exercises import check, softmax_relatives
from attnlib.exercises.catalogue import EXERCISES

FUNCTIONS = ("sparsemax", "entmax15", "softmax_off_by_one")


def by_halving(x):
    """Finds the threshold by trying."""
    low, high = x.max(-1, keepdims=True) - 1, x.max(-1, keepdims=True)
    for _ in range(80):
        middle = (low + high) / 2
        enough = np.maximum(x - middle, 0).sum(-1, keepdims=True) >= 1
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.maximum(x - low, 0)


def by_removal(x):
    """Projects on the plane of sum 1 and drops what is negative, until nothing is."""
    rows = x.reshape(-1, x.shape[-1])
    result = np.zeros_like(rows)
    for row, out in zip(rows, result, strict=True):
        kept = np.ones(len(row), bool)
        while True:
            tau = (row[kept].sum() - 1) / kept.sum()
            if (row[kept] > tau).all():
                break
            kept &= row > tau
        out[kept] = row[kept] - tau
    return result.reshape(x.shape)


def by_loops(x):
    def one(row):
        best = sorted(row, reverse=True)
        for k in range(len(best), 0, -1):
            if 1 + k * best[k - 1] > sum(best[:k]):
                tau = (sum(best[:k]) - 1) / k
                return [max(value - tau, 0) for value in row]

    return np.apply_along_axis(lambda row: np.array(one(row.tolist())), -1, x)


def below_the_best(x):
    z = x - x.max(-1, keepdims=True)
    best = np.flip(np.sort(z, axis=-1), -1)
    k = np.arange(1, z.shape[-1] + 1)
    tau = ((best.cumsum(-1) - 1) / k).max(-1, keepdims=True)   # the right one is the largest
    return np.clip(z - tau, 0, None)


def squares_by_halving(x):
    z = x / 2
    low, high = z.max(-1, keepdims=True) - 1, z.max(-1, keepdims=True)
    for _ in range(60):
        middle = (low + high) / 2
        enough = (np.maximum(z - middle, 0) ** 2).sum(-1, keepdims=True) >= 1
        low, high = np.where(enough, middle, low), np.where(enough, high, middle)
    return np.maximum(z - high, 0) ** 2


def squares_by_newton(x):
    z = x / 2
    tau = z.max(-1, keepdims=True) - 1
    for _ in range(60):
        above = np.maximum(z - tau, 0)
        tau = tau + ((above**2).sum(-1, keepdims=True) - 1) / (2 * above.sum(-1, keepdims=True))
    return np.maximum(z - tau, 0) ** 2


def squares_by_sorting(x):
    best = -np.sort(-x / 2, axis=-1)
    k = np.arange(1, x.shape[-1] + 1)
    mean = best.cumsum(-1) / k
    part = 1 / k - (best**2).cumsum(-1) / k + mean**2
    tau = mean - np.sqrt(np.maximum(part, 0))
    size = (tau <= best).sum(-1, keepdims=True)
    return np.maximum(x / 2 - np.take_along_axis(tau, size - 1, -1), 0) ** 2


def squares_one_row_at_a_time(x):
    def one(row):
        best = sorted(value / 2 for value in row.tolist())
        while True:
            mean = sum(best) / len(best)
            apart = sum((value - mean) ** 2 for value in best)
            tau = mean - (max(1 - apart, 0) / len(best)) ** 0.5
            if apart < 1 and best[0] >= tau:
                return np.maximum(row / 2 - tau, 0) ** 2
            best.pop(0)

    return np.apply_along_axis(one, -1, x)


def beside_a_zero(x):
    wide = np.concatenate([np.zeros_like(x[..., :1]), x], -1)
    e = np.exp(wide - wide.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True))[..., 1:]


def with_a_floor(x):
    m = x.max(-1, keepdims=True).clip(0)
    e = np.exp(x - m)
    return e / (np.exp(-m) + e.sum(-1, keepdims=True))


def shifted_by_the_best_alone(x):
    """As the public softmax_n: the 1 overflows for rows far below 0, whose zeros come out right."""
    m = x.max(-1, keepdims=True)
    with np.errstate(over="ignore"):
        e = np.exp(x - m)
        return e / (np.exp(-m) + e.sum(-1, keepdims=True))


def softmax_times_its_share(x):
    lse = x.max(-1, keepdims=True) + np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))
    return np.exp(x - np.logaddexp(0, lse))


def through_torch(x):
    import torch

    return torch.softmax(torch.nn.functional.pad(torch.from_numpy(x), (1, 0)), -1)[..., 1:].numpy()


SQUARES = (squares_by_halving, squares_by_newton, squares_by_sorting, squares_one_row_at_a_time)
RIGHT = [("sparsemax", f) for f in (by_halving, by_removal, by_loops, below_the_best)]
RIGHT += [("entmax15", f) for f in SQUARES]
RIGHT += [
    ("softmax_off_by_one", f)
    for f in (beside_a_zero, with_a_floor, shifted_by_the_best_alone, softmax_times_its_share, through_torch)
]


@pytest.mark.parametrize("exercise, function", RIGHT)
def test_right_ways_pass(exercise, function):
    verdict = check(exercise, function, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_the_reference_is_the_package(exercise):
    judge = EXERCISES[exercise].judge
    for case in judge.cases():
        ours = getattr(attnlib, exercise)(*case.args)
        np.testing.assert_allclose(judge.compute(*case.args), ours, atol=1e-12)
    verdict = check(exercise, lambda x: getattr(attnlib, exercise)(x), show=False)
    assert verdict.misconception == "package"


@pytest.mark.parametrize("exercise, mistake", mistakes(*FUNCTIONS), ids=lambda x: getattr(x, "name", x))
def test_each_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


def no_k_at_all(x):
    z = x - x.mean(-1, keepdims=True) + 1 / x.shape[-1]
    z = np.maximum(z, 0)
    return z / z.sum(-1, keepdims=True)


def by_threshold(threshold):
    return lambda x: np.maximum(x - threshold(x), 0)


def rows_reversed(x):
    best = np.sort(x, axis=-1)[::-1]
    total = best.cumsum(-1)
    k = (1 + np.arange(1, x.shape[-1] + 1) * best > total).sum(-1, keepdims=True)
    return (np.take_along_axis(total, k - 1, -1) - 1) / k


def first_that_passes(x):
    best = -np.sort(-x, axis=-1)
    total = best.cumsum(-1)
    k = (1 + np.arange(1, x.shape[-1] + 1) * best > total).argmax(-1)[..., None] + 1
    return (np.take_along_axis(total, k - 1, -1) - 1) / k


def right_threshold(x):
    best = -np.sort(-x, axis=-1)
    total = best.cumsum(-1)
    k = (1 + np.arange(1, x.shape[-1] + 1) * best > total).sum(-1, keepdims=True)
    return (np.take_along_axis(total, k - 1, -1) - 1) / k


def threshold_with(k_first=1, share=lambda total, k: (total - 1) / k, one=lambda k: k, times=1.0):
    """A sparsemax row by row, with one thing or another done wrong."""

    def sparsemax(x):
        def row(z):
            z = times * z
            best = np.sort(z)[::-1]
            total = np.cumsum(best)
            inside = 1 + (np.arange(len(z)) + k_first) * best > total
            size = one(inside.sum())
            return np.maximum(z - share(total[inside.sum() - 1], size), 0)

        return np.apply_along_axis(row, -1, x)

    return sparsemax


def index_for_number(x):
    """k is where the test holds last, an index, and is used as if it were how many."""
    def row(z):
        total = np.cumsum(np.sort(z)[::-1])
        k = np.flatnonzero(1 + np.arange(1, len(z) + 1) * np.sort(z)[::-1] > total)[-1]
        return np.maximum(z - (total[k - 1] - 1) / k, 0)

    return np.apply_along_axis(row, -1, x)


def counted_from_zero(x):
    """k runs from 0, in the test and after it."""
    def row(z):
        best, k = np.sort(z)[::-1], np.arange(len(z))
        total = np.cumsum(best)
        size = k[1 + k * best > total].max(initial=0)
        return np.maximum(z - (total[size - 1] - 1) / size, 0)

    return np.apply_along_axis(row, -1, x)


def searched(bounds=None, halvings=60, weights=lambda above: np.maximum(above, 0) ** 2, at_last=None):
    """A search for the threshold, with one thing or another done wrong."""

    def entmax15(x):
        z = x / 2
        low, high = bounds(x) if bounds else (z.max(-1, keepdims=True) - 1, z.max(-1, keepdims=True))
        for _ in range(halvings):
            middle = (low + high) / 2
            enough = weights(z - middle).sum(-1, keepdims=True) >= 1
            low, high = np.where(enough, middle, low), np.where(enough, high, middle)
        return (at_last or weights)(z - low)

    return entmax15


def between_the_ends(x):
    return x.min(-1, keepdims=True) / 2, x.max(-1, keepdims=True) / 2


def mean_of_softmax_and_sparsemax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) + by_halving(x)) / 2


def squared_and_divided(rule):
    def entmax15(x):
        p = rule(x) ** 2
        return p / p.sum(-1, keepdims=True)

    return entmax15


def shifted_then_one(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / (1 + np.sum(e, axis=-1, keepdims=True))


def plain_softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def one_raised(x, m):
    e = np.exp(x - m)
    return e / (np.exp(m) + e.sum(-1, keepdims=True))


def written_as_printed(x):
    return np.exp(x) / (1 + np.exp(x).sum(-1, keepdims=True))


WRONG = [
    ("sparsemax", no_k_at_all, "cut_and_normalised"),
    ("sparsemax", lambda x: np.maximum(x - (x.sum(-1, keepdims=True) - 1) / x.shape[-1], 0), "all_counted"),
    ("sparsemax", by_threshold(rows_reversed), "rows_turned"),
    ("sparsemax", by_threshold(first_that_passes), "k_is_one"),
    ("sparsemax", by_threshold(lambda x: right_threshold(x - x.max(-1, keepdims=True))),
     "tau_of_lowered_scores"),
    ("sparsemax", lambda x: np.where(x > right_threshold(x), x, 0), "not_lowered"),
    ("sparsemax", threshold_with(k_first=0), "k_from_zero"),
    ("sparsemax", threshold_with(one=lambda k: k - 1), "k_from_zero"),
    ("sparsemax", index_for_number, "k_from_zero"),
    ("sparsemax", counted_from_zero, "k_from_zero"),
    ("sparsemax", threshold_with(share=lambda total, k: total / k - 1), "one_outside"),
    ("sparsemax", by_threshold(lambda x: right_threshold(x).ravel()[0]), "one_threshold_for_all"),
    ("sparsemax", by_threshold(lambda x: right_threshold(x).max()), "one_threshold_for_all"),
    ("sparsemax", threshold_with(times=0.5), "scores_halved"),
    ("sparsemax", threshold_with(times=2), "scores_doubled"),
    ("entmax15", lambda x: squares_by_halving(2 * x), "not_halved"),
    ("entmax15", searched(at_last=lambda above: np.maximum(above, 0)), "square_forgotten"),
    ("entmax15", searched(weights=lambda above: np.maximum(above, 0)), "sparsemax_of_halves"),
    ("entmax15", searched(weights=lambda above: np.maximum(above, 0),
                          at_last=lambda above: np.maximum(above, 0) ** 2), "threshold_of_sparsemax"),
    ("entmax15", searched(weights=np.square), "uncut"),
    ("entmax15", searched(at_last=np.square), "uncut"),
    ("entmax15", searched(between_the_ends), "bounds_from_lowest"),
    ("entmax15", searched(lambda x: (0 * x[..., :1], 0 * x[..., :1] + 1)), "bounds_fixed"),
    ("entmax15", searched(halvings=8), "too_few_halvings"),
    ("entmax15", squared_and_divided(by_halving), "sparsemax_squared"),
    ("entmax15", squared_and_divided(lambda x: np.exp(x - x.max(-1, keepdims=True))), "softmax_squared"),
    ("entmax15", mean_of_softmax_and_sparsemax, "mean_of_both"),
    ("softmax_off_by_one", shifted_then_one, "one_not_shifted"),
    ("softmax_off_by_one", written_as_printed, "no_shift"),
    ("softmax_off_by_one", lambda x: one_raised(x, x.max(-1, keepdims=True)), "one_shifted_the_wrong_way"),
    ("softmax_off_by_one", lambda x: one_raised(x, x.max(-1, keepdims=True).clip(0)),
     "one_shifted_the_wrong_way"),
    ("softmax_off_by_one", lambda x: plain_softmax(x) / (1 + plain_softmax(x)), "one_for_each"),
    ("softmax_off_by_one", lambda x: plain_softmax(x) - 1 / x.shape[-1], "part_taken_away"),
]  # fmt: skip


@pytest.mark.parametrize("exercise, function, mistake", WRONG)
def test_mistakes_as_learners_write_them(exercise, function, mistake):
    with np.errstate(all="ignore"):
        verdict = check(exercise, function, show=False)
    assert verdict.misconception == mistake, verdict.message


def test_a_search_that_stops_a_little_too_soon_is_told_of_it():
    assert "stop too soon" in check("entmax15", searched(halvings=14), show=False).message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_stubs_are_unanswered(exercise):
    assert check(exercise, stub, show=False).passed is None


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("answer", NO_FUNCTIONS, ids=repr)
def test_what_is_no_function_is_no_answer(exercise, answer):
    assert check(exercise, answer, show=False).passed is False


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("result", range(len(RESULTS)))
def test_odd_results_are_judged(exercise, result):
    odd(exercise, RESULTS[result])


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("error", ERRORS)
def test_errors_are_told(exercise, error):
    told_when_raising(exercise, error)


ANSWERS = [
    ("sparse_scores", [5, 4.7, 4.5, 4.4, 4.4], True, None),
    ("sparse_scores", np.array([5, 4.7, 4.5, -100, 4]), True, None),
    ("sparse_scores", [0.6, 0.3, 0.1, 0, 0], False, "level"),
    ("sparse_scores", [6, 5.7, 5.5, 0, 0], False, "level"),
    ("sparse_scores", [5, 4.7, 4.5, 4.45, 4.4], False, "zeros_too_high"),
    ("sparse_scores", 5 + np.log([1, 1 / 2, 1 / 6, 1e-9, 1e-9]), False, "logarithms"),
    ("sparse_scores", [5, 2.5, 5 / 6, 0, 0], False, "ratios"),
    ("sparse_scores", 5 + 2 * (np.sqrt([0.6, 0.3, 0.1, 0, 0]) - np.sqrt(0.6)), False, "roots"),
    ("sparse_scores", [5, 3, 1, 0, 0], False, "too_far"),
    ("sparse_scores", [5, 4.9, 4.8, 0, 0], False, None),
    ("sparse_scores", [0, 0, 0, 0, 0], False, None),
    ("sparse_scores", [1e12, 0, 0, 0, 0], False, None),
    ("sparse_scores", [5, 4.7, 4.5], False, None),
    ("sparse_scores", [5, 4.7, 4.5, 0, -np.inf], False, None),
    ("sparse_scores", ..., None, None),
    ("half_attention", np.log([4 / 7, 2 / 7, 1 / 7]), True, None),
    ("half_attention", [-0.5596, -1.2528, -1.9459], True, None),
    ("half_attention", [2 / 7, 1 / 7, 1 / 14], False, "weights_as_scores"),
    ("half_attention", np.log([4 / 14, 2 / 14, 1 / 14]), False, "half_of_sum"),
    ("half_attention", np.log([8 / 7, 4 / 7, 2 / 7]), False, "double_of_sum"),
    ("half_attention", np.log([4, 2, 1]), False, "level"),
    ("half_attention", np.log([0.4, 0.2, 0.1]), False, "level"),
    ("half_attention", [4, 2, 1], False, "ratios_of_scores"),
    ("half_attention", [2, 1, 0], False, "ratios_of_scores"),
    ("half_attention", np.log([1 / 3, 1 / 3, 1 / 3]), False, "ratios"),
    ("half_attention", [0, 0, 0], False, None),
    ("half_attention", [1e300, -1e300, 0], False, None),
    ("half_attention", "text", False, None),
    ("half_attention", ..., None, None),
]


@pytest.mark.parametrize("exercise, answer, passed, mistake", ANSWERS)
def test_constructions(exercise, answer, passed, mistake):
    verdict = check(exercise, answer)
    assert (verdict.passed, verdict.misconception) == (passed, mistake), verdict.message


def test_a_weight_of_zero_is_shown_as_zero():
    assert "is 0.6, 0.3, 0.1, 0, 0." in check("sparse_scores", [5, 4.7, 4.5, 4.4, 4.4]).message


@pytest.mark.parametrize("exercise", softmax_relatives.EXERCISES, ids=lambda e: e.id)
def test_solutions_pass_and_hints_go_on(exercise):
    names = {}
    exec(exercise.solution, names)
    assert exercise.judge(names.get("answer", names.get(exercise.id))).passed is True
    assert len(exercise.hints) == 3

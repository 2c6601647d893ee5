"""Lesson 17's detector of keys that are counted twice: right ones pass, and what fools one is told."""

import numpy as np
import pytest
from judging import NO_FUNCTIONS, its_solution, stub

from attnlib.exercises import check
from attnlib.exercises.counted_twice import _MODELS, counted_twice


def by_one_hot_values(attend, length):
    weights = attend(np.zeros((length, 2)), np.zeros((length, 2)), np.eye(length))
    for row in np.asarray(weights, float):
        seen = np.sort(row[row > 1e-9])
        if len(seen) and seen[-1] - seen[0] > 0.1 * seen[0]:
            return True
    return False


def key_by_key(attend, length):
    """One key's value at a time, against the commonest weight of the row."""
    zeros = np.zeros((length, 3))
    columns = []
    for j in range(length):
        v = np.zeros((length, 1))
        v[j] = 1
        columns.append(np.asarray(attend(zeros, zeros, v))[:, 0])
    weights = np.stack(columns, 1)
    least = np.where(weights > 1e-6, weights, np.inf).min(1, keepdims=True)
    return bool((np.round(weights / least) >= 2).any())


def by_random_scores(attend, length):
    """With any scores: what is left of a weight when its score is divided out is the count."""
    rng = np.random.default_rng(1)
    q, k = rng.normal(size=(2, length, 4))
    weights = np.asarray(attend(q, k, np.eye(length)), float)
    shares = weights / np.exp(q @ k.T / 2)
    for row in shares:
        seen = row[row > 1e-12]
        if len(seen) and seen.max() / seen.min() > 1.5:
            return np.True_
    return np.False_


@pytest.mark.parametrize(
    "test", [by_one_hot_values, key_by_key, by_random_scores, its_solution("counted_twice")],
    ids=lambda f: f.__name__,
)
def test_right_detectors_pass(test):
    verdict = check("counted_twice", test, show=False)
    assert verdict.passed is True, verdict.message


def table(attend, length):
    return np.asarray(attend(np.zeros((length, 2)), np.zeros((length, 2)), np.eye(length)), float)


def uneven(rows, room=1.5):
    return any(len(s) and s.max() > room * s.min() for s in (row[row > 1e-6] for row in rows))


def with_scores(attend, length):
    q = np.random.default_rng(0).normal(size=(length, 4))
    return uneven(attend(q, q, np.eye(length)))


FOOLED = [
    (with_scores, "all_twice"),
    (lambda a, n: False, "all_once"),
    (lambda a, n: uneven(table(a, n)[:1]), "all_once"),
    (lambda a, n: uneven(table(a, n)[[0, -1]]), "middle_rows"),
    (lambda a, n: uneven(table(a, n)[n // 2 : n // 2 + 1]), "near_rows"),
    (lambda a, n: uneven(table(a, n)[6:]), "early_rows"),
    (lambda a, n: uneven(table(a, n)[:-1]), "last_row"),
    (lambda a, n: uneven(table(a, n), 1), "exact_comparison"),
    (lambda a, n: bool(np.ptp(table(a, n)[table(a, n) > 1e-6]) > 1e-3), "rows_differ"),
    (lambda a, n: bool((np.abs(table(a, n).sum(1) - 1) > 1e-3).any()), "middle_rows"),
    (lambda a, n: uneven(table(a, n)) or bool((np.abs(table(a, n).sum(1) - 1) > 1e-3).any()), "empty_rows"),
    (lambda a, n: uneven(table(a, n)) or bool(((s := table(a, n).sum(1)) > 0.01).any()
                                              and (np.abs(s[s > 0.01] - 1) > 1e-3).any()), "sums_to_one"),
    (lambda a, n: bool((table(a, n).max(1) > 1.5 / n).any()), "rows_differ"),
]  # fmt: skip


@pytest.mark.parametrize("test, misconception", FOOLED, ids=[name for _, name in FOOLED])
def test_what_fools_a_detector_is_told(test, misconception):
    verdict = check("counted_twice", test, show=False)
    assert verdict.passed is False and verdict.misconception == misconception, verdict
    assert len(verdict.message) < 500


@pytest.mark.parametrize("answer", NO_FUNCTIONS, ids=str)
def test_what_is_no_function_is_refused(answer):
    assert check("counted_twice", answer, show=False).passed is False


def test_a_stub_is_no_answer():
    assert check("counted_twice", stub, show=False).passed is None


def test_a_model_says_what_it_takes():
    attend, n = counted_twice.implementations[0].make()
    with pytest.raises(ValueError, match="with n = 24"):
        attend(np.zeros((n - 1, 2)), np.zeros((n - 1, 2)), np.zeros((n - 1, 2)))


@pytest.mark.parametrize("n", [24, 36])
@pytest.mark.parametrize("name, make, twice", [m[:3] for m in _MODELS], ids=[m[0] for m in _MODELS])
def test_the_models_are_what_they_are_said_to_be(name, make, twice, n):
    assert uneven(table(make(n), n)) is twice

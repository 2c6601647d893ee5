"""Lesson 13's exercises on the adaptive softmax: right ways accepted, mistakes named."""

import warnings

import numpy as np
import pytest
from judging import NO_FUNCTIONS, its_solution, mistakes, named, stub

from attnlib import AdaptiveLogSoftmax
from attnlib.datasets import word_counts
from attnlib.exercises import check, cutoffs
from attnlib.exercises.catalogue import EXERCISES

COUNTS = word_counts().counts


def word_by_word(counts, d, cutoffs, div_value):
    """What each word costs, and then the average."""
    ends, costs = [0, *cutoffs, len(counts)], []
    head = d * (cutoffs[0] + len(cutoffs))
    for word in range(len(counts)):
        part = next(i for i in range(len(ends) - 1) if word < ends[i + 1])
        width = int(d / div_value**part)
        costs.append(head + (width * (d + ends[part + 1] - ends[part]) if part else 0))
    return np.average(costs, weights=counts)


def by_splitting(counts, d, cutoffs, div_value):
    parts = np.split(np.asarray(counts, float), cutoffs)
    work = d * (len(parts[0]) + len(cutoffs))
    for i, part in enumerate(parts[1:], 1):
        w = np.floor(d / div_value**i)
        work += part.sum() / np.sum(counts) * (w * d + w * len(part))
    return work


def in_torch(counts, d, cutoffs, div_value):
    import torch

    counts = torch.tensor(counts, dtype=torch.float64)
    ends = [*cutoffs, len(counts)]
    work = torch.tensor(float(d * (cutoffs[0] + len(cutoffs))), dtype=torch.float64)
    for i in range(len(cutoffs)):
        share = counts[ends[i] : ends[i + 1]].sum() / counts.sum()
        work += share * (d // div_value ** (i + 1)) * (d + ends[i + 1] - ends[i])
    return work.item()


RIGHT = {
    "expected_work": [word_by_word, by_splitting, in_torch],
    "best_cutoff": [338, 338.0, np.int64(330), 350, 320],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", RIGHT)
def test_solutions_pass_and_hints_lead_there(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed is True
    assert 2 <= len(EXERCISES[exercise].hints) <= 4 and EXERCISES[exercise].lesson == "13"


@pytest.mark.parametrize("exercise, mistake", mistakes("expected_work"), ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


@pytest.mark.parametrize("cutoff, mistake", [
    (4413, "half_the_words"),
    (int(np.searchsorted(COUNTS.cumsum(), 0.5 * COUNTS.sum())), "half_the_text"),
    (1675, "most_of_the_text"),
    (int(np.searchsorted(COUNTS.cumsum(), 0.8 * COUNTS.sum())), "most_of_the_text"),
    (8825, "head_too_long"),
    (2500, "head_too_long"),
    (10, "head_too_short"),
    (1, "head_too_short"),
])
def test_other_cutoffs_are_told_why(cutoff, mistake):
    verdict = check("best_cutoff", cutoff, show=False)
    assert verdict.passed is False and verdict.misconception == mistake, verdict.message


def test_the_work_is_that_of_the_package():
    works = cutoffs._works()
    for c in (1, 338, 5000):
        layer = AdaptiveLogSoftmax(256, len(COUNTS), [c])
        assert works[c - 1] == pytest.approx(layer.multiply_adds(COUNTS), rel=1e-12)
        mine = its_solution("expected_work")(COUNTS, 256, (c,), 4)
        assert mine == pytest.approx(works[c - 1], rel=1e-12)
    with warnings.catch_warnings(action="ignore"):
        layer = AdaptiveLogSoftmax(16, 200, [3, 20, 80])
    counts = np.arange(200, 0, -1)
    assert word_by_word(counts, 16, (3, 20, 80), 4) == pytest.approx(layer.multiply_adds(counts), rel=1e-12)


# Mistakes as a learner would write them


def every_tail(counts, d, cutoffs, div_value):
    ends = [*cutoffs, len(counts)]
    work = d * (ends[0] + len(cutoffs))
    for i, (first, end) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        work += d // div_value ** (i + 1) * (d + end - first)
    return float(work)


def head_left_to_the_frequent(counts, d, cutoffs, div_value):
    share = counts[: cutoffs[0]].sum() / counts.sum()
    head = d * (cutoffs[0] + len(cutoffs))
    return by_splitting(counts, d, cutoffs, div_value) - (1 - share) * head


@pytest.mark.parametrize("answer, mistake", [
    (every_tail, "tails_always"),
    (head_left_to_the_frequent, "head_for_short_alone"),
    (lambda counts, d, cutoffs, div_value: float(d * len(counts)), "head_of_all_words and tails_forgotten"),
    (lambda counts, d, cutoffs, div_value: float(len(counts)), None),
    (lambda *a: by_splitting(*a) - a[1] * len(a[2]), "names_forgotten"),
])
def test_wrong_functions_are_told(answer, mistake):
    verdict = check("expected_work", answer, show=False)
    assert verdict.passed is False and verdict.misconception == mistake, verdict.message


@pytest.mark.parametrize("exercise, answer", [
    *(("expected_work", answer) for answer in NO_FUNCTIONS),
    ("expected_work", lambda counts, d, cutoffs, div_value: None), ("expected_work", lambda counts: 1.0),
    ("best_cutoff", "338"), ("best_cutoff", [338]), ("best_cutoff", 338.5), ("best_cutoff", 0),
    ("best_cutoff", 8826), ("best_cutoff", float("nan")),
])
def test_odd_answers_are_judged_without_a_crash(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.message


def test_an_untouched_stub_is_not_answered():
    assert check("expected_work", stub, show=False).passed is None

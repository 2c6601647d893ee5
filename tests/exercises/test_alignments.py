"""Lesson 11: the error rate of alignments, reading a map, two maps: right ways accepted, mistakes named."""

import numpy as np
import pytest
import torch
from judging import ERRORS, NO_FUNCTIONS, its_solution, making, mistakes, named, stub, told_when_raising

from attnlib.exercises import alignments, check
from attnlib.exercises.catalogue import EXERCISES


def by_errors(found, sure, possible):
    """What is found and impossible, and what is sure and missing."""
    triples = [*zip(found, sure, possible, strict=True)]
    errors = sum(len(a - p) + len(s - a) for a, s, p in triples)
    return errors / sum(len(a) + len(s) for a, s, _ in triples)


def by_loops(found, sure, possible):
    hits = total = 0
    for n in range(len(found)):
        for link in found[n]:
            total += 1
            hits += (link in sure[n]) + (link in possible[n])
        for _ in sure[n]:
            total += 1
    return np.float32(1 - hits / total)


def numbered(found, sure, possible):
    """All sentences in one set, each link with its sentence."""
    a, s, p = ({(n, *link) for n, links in enumerate(kind) for link in links}
               for kind in (found, sure, possible))
    return np.array(1 - (len(a & s) + len(a & p)) / (len(a) + len(s)))


def in_a_loop(weights, n_source):
    out = []
    for step in range(weights.shape[1] - 1):
        row = sum(weights[h, step] for h in range(len(weights))) / len(weights)
        out.append(max(range(n_source), key=lambda j: row[j]))
    return np.array(out)


def in_torch_and_back(weights, n_source):
    return torch.tensor(weights).sum(0)[:-1, :n_source].argmax(-1).numpy()


RIGHT = [
    *(("alignment_error_rate", answer) for answer in (by_errors, by_loops, numbered)),
    *(("written_links", answer) for answer in (in_a_loop, in_torch_and_back)),
]
MINE = [exercise.id for exercise in alignments.EXERCISES]


@pytest.mark.parametrize("exercise, answer", RIGHT)
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", MINE)
def test_solutions_pass_and_hints_stand(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed is True
    assert EXERCISES[exercise].lesson == "11" and len(EXERCISES[exercise].hints) == 3


@pytest.mark.parametrize("exercise, mistake", mistakes("alignment_error_rate", "written_links"),
                         ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


@pytest.mark.parametrize("exercise, choices, names", [
    ("alignment_error_rate", {"how": "sure_alone", "over": "mean"}, {"sure_alone", "mean_of_sentences"}),
    ("alignment_error_rate", {"links": "kinds_exchanged", "form": "score"},
     {"sure_and_possible_swapped", "score_not_error"}),
    ("written_links", {"rows": "read", "columns": "all"}, {"read_for_written", "end_sign_linked"}),
    ("written_links", {"rows": "read", "heads": "first"}, {"read_for_written", "first_head"}),
    ("written_links", {"rows": "all", "columns": "all"}, {"end_counted", "end_sign_linked"}),
])
def test_two_mistakes_together_are_named(exercise, choices, names):
    verdict = check(exercise, making(exercise, **choices), show=False)
    assert set(verdict.misconception.split(" and ")) == names, verdict.message


def of_errors(errors, below):
    """Rates made as the lesson makes them: what is wrong and what is missing, over something."""

    def answer(found, sure, possible):
        triples = [*zip(found, sure, possible, strict=True)]
        return sum(errors(*one) for one in triples) / sum(below(*one) for one in triples)

    return answer


@pytest.mark.parametrize("errors, below, mistake", [
    (lambda a, s, p: len(a - p) + len(s - a), lambda a, s, p: len(p), "denominator"),
    (lambda a, s, p: len(a - p) + len(s - a), lambda a, s, p: len(s), "denominator"),
    (lambda a, s, p: len(a - p) + len(s - a), lambda a, s, p: len(a), "denominator"),
    (lambda a, s, p: len(a - p) + len(s - a), lambda a, s, p: len(a | s), "denominator"),
    (lambda a, s, p: len(a - p), lambda a, s, p: len(a) + len(s), "precision_only"),
    (lambda a, s, p: len(s - a), lambda a, s, p: len(a) + len(s), "recall_only"),
    (lambda a, s, p: len(a - s) + len(s - a), lambda a, s, p: len(a) + len(s), "sure_alone"),
    (lambda a, s, p: len(a - p) + len(p - a), lambda a, s, p: len(a) + len(s), "possible_alone"),
])
def test_errors_counted_or_divided_otherwise_are_named(errors, below, mistake):
    verdict = check("alignment_error_rate", of_errors(errors, below), show=False)
    assert verdict.misconception == mistake, verdict.message


def test_the_drawing_that_the_lesson_hands_out_has_two_faults():
    def colleague(weights, n_source):
        return weights.mean(0)[1:].argmax(-1)

    verdict = check("written_links", colleague, show=False)
    assert set(verdict.misconception.split(" and ")) == {"read_for_written", "end_sign_linked"}


@pytest.mark.parametrize("exercise", ["alignment_error_rate", "written_links"])
def test_what_is_no_function_is_refused_and_errors_are_told(exercise):
    for answer in NO_FUNCTIONS:
        assert "Give a function" in check(exercise, answer, show=False).message
    assert check(exercise, stub, show=False).passed is None
    for error in ERRORS:
        told_when_raising(exercise, error)


ALIGNED, OTHER = [[0.7, 0.3, 0], [0.3, 0.7, 0]], [[0.4, 0, 0.6], [0, 0.4, 0.6]]
VALUES = [[2, 0], [0, 2], [1, 1]]


@pytest.mark.parametrize("answer", [
    (ALIGNED, OTHER, VALUES),
    [np.array(ALIGNED), np.array(OTHER), np.array(VALUES)],
    tuple(torch.tensor(part, dtype=torch.float64) for part in (ALIGNED, OTHER, VALUES)),
    # The comma says what 苹果 says, and 甜 says its own word louder.
    ([[0.8, 0.1, 0.1], [0.3, 0.4, 0.3]], [[0.1, 0.1, 0.8], [0.6, 0.4, 0]], [[1, 0], [0, 5], [1, 0]]),
])
def test_two_maps_of_any_kind_pass(answer):
    verdict = check("two_maps", answer, show=False)
    assert verdict.passed is True, verdict.message


def changed(part, row, numbers):
    parts = [np.array(a, float) for a in (ALIGNED, OTHER, VALUES)]
    parts[part][row] = numbers
    return tuple(parts)


@pytest.mark.parametrize("answer, mistake", [
    (changed(0, 0, [1.2, -0.2, 0]), "negative"),
    (changed(1, 1, [0, 0.4, 0.4]), "rows_do_not_sum"),
    (changed(0, 0, [0.3, 0.7, 0]), "aligned_is_not"),
    (changed(0, 0, [0.4, 0.2, 0.4]), "aligned_is_not"),
    (changed(2, 2, [0, 0]), "outputs_differ"),
    ((ALIGNED, OTHER, np.ones((3, 2))), "wrong_translation"),
    ((ALIGNED, OTHER, [[0, 2], [2, 0], [1, 1]]), "wrong_translation"),
    ((ALIGNED, ALIGNED, VALUES), "other_is_aligned"),
    ((ALIGNED, [[0.5, 0.1, 0.4], [0.1, 0.5, 0.4]], VALUES), "other_is_aligned"),
])
def test_wrong_maps_are_named(answer, mistake):
    verdict = check("two_maps", answer, show=False)
    assert verdict.passed is False and verdict.misconception == mistake, verdict.message


@pytest.mark.parametrize("answer", [3, (ALIGNED, OTHER), (ALIGNED, OTHER, [[1, 2]]), ("a", OTHER, VALUES),
                                    (ALIGNED, OTHER, np.full((3, 2), np.nan))])
def test_unreadable_maps(answer):
    assert check("two_maps", answer, show=False).readable is False

"""Lesson 14's exercises on heads that look back: right ways accepted, mistakes named."""

import json
from itertools import combinations

import lesson
import numpy as np
import pytest
from judging import NO_FUNCTIONS, its_solution, mistakes, named, stub, told_when_raising

from attnlib.exercises import check, induction
from attnlib.exercises.catalogue import EXERCISES

MINE = [exercise.id for exercise in induction.EXERCISES]
FUNCTIONS = ["induction_score", "needed_heads"]
T, BEFORE, SAID, PLACE = np.arange(4), np.arange(4, 8), np.arange(8, 12), np.arange(12, 20)


# ------------------------------------------------------------------- a score


def by_loops(weights, tokens):
    total, rows = np.zeros(len(weights)), 0
    for i in range(len(tokens)):
        places = [j for j in range(1, i + 1) if tokens[j - 1] == tokens[i]]
        rows += bool(places)
        total += weights[:, i, places].sum(-1)
    return total / rows if rows else total


def by_comparing(weights, tokens):
    n = len(tokens)
    marked = np.tril(tokens[:, None] == tokens[None, :], -1)
    marked = np.roll(marked, 1, axis=1) & (np.arange(n) > 0)
    rows = marked.any(1)
    if not rows.any():
        return np.zeros(len(weights))
    return np.einsum("hij,ij->hi", weights, marked)[:, rows].mean(-1)


def by_the_last_row_first(weights, tokens):
    scores = [[sum(head[i, j] for j in range(1, i + 1) if tokens[j - 1] == tokens[i])
               for i in range(len(tokens))[::-1] if tokens[i] in tokens[:i]] for head in weights]
    return np.array([np.mean(rows) if rows else 0.0 for rows in scores])


# ------------------------------------------------------------------- a machine


def machine(**changed):
    """The machine of the solution; a keyword replaces a circuit."""
    qk_0, ov_0, qk_1, ov_1 = np.zeros((4, 20, 20))
    qk_0[PLACE[1:], PLACE[:-1]] = 100
    ov_0[T, BEFORE] = 1
    qk_1[T, BEFORE] = 100
    qk_1[T, PLACE[0]] = -100
    ov_1[T, SAID] = 1
    parts = {"qk_0": qk_0, "ov_0": ov_0, "qk_1": qk_1, "ov_1": ov_1}
    return tuple((parts | changed).values())


def circuit(*entries):
    made = np.zeros((20, 20))
    for rows, columns, number in entries:
        made[rows, columns] = number
    return made


FIRST = (T, PLACE[0], -100)
RIGHT_MACHINES = {
    "as in the solution": machine(),
    "lists": [part.tolist() for part in machine()],
    "place 0 hidden from every place": machine(qk_1=circuit((T, BEFORE, 100), (PLACE, PLACE[0], -100))),
    "the key before scores less": machine(
        qk_0=circuit(*[(PLACE[i], PLACE[j], -abs(i - 1 - j) * 20.0) for i in range(8) for j in range(8)])),
    "loud": machine(ov_1=circuit((T, SAID, 900))),
    "through another order of features": machine(
        ov_0=circuit((T, BEFORE[::-1], 2)), qk_1=circuit((T, BEFORE[::-1], 50), FIRST)),
    "the other three said less": machine(ov_1=circuit(*[(T, s, -1) for s in SAID], (T, SAID, 1))),
}  # fmt: skip
WRONG_MACHINES = [
    ({"qk_0": np.zeros((20, 20))}, "no_previous_word"),
    ({"qk_0": circuit((PLACE[:-1], PLACE[1:], 100))}, "qk_0_turned"),
    ({"qk_0": circuit((PLACE[1:], PLACE[:-1], 0.1)), "qk_1": circuit((T, BEFORE, 1), FIRST)}, "too_soft"),
    ({"qk_0": circuit((PLACE, PLACE, 100))}, "no_previous_word"),
    ({"ov_0": np.zeros((20, 20))}, "not_written"),
    ({"ov_0": circuit((BEFORE, T, 1))}, "ov_0_turned"),
    ({"ov_0": circuit((T, T, 1))}, "overwritten"),
    ({"qk_1": np.zeros((20, 20))}, "not_found"),
    ({"qk_1": circuit((T, T, 100))}, "duplicate"),
    ({"qk_1": circuit((BEFORE, T, 100), FIRST)}, "qk_1_turned"),
    ({"qk_1": circuit((T, BEFORE, 1))}, "too_soft"),
    ({"qk_1": circuit((T, BEFORE, 100))}, "first_place"),
    ({"ov_1": np.zeros((20, 20))}, "not_said"),
    ({"ov_1": circuit((SAID, T, 1))}, "not_said"),
    ({"ov_1": circuit((BEFORE, SAID, 1))}, "says_the_word_before"),
    ({"ov_1": circuit((T, SAID, -1))}, "unclear"),
]


# ------------------------------------------------------------------- heads that matter


def by_sizes(accuracy, n_heads):
    sets = (set(s) for n in range(n_heads + 1) for s in combinations(range(n_heads), n))
    return next(s for s in sets if accuracy(s) < 0.5)


def by_bits(accuracy, n_heads):
    sets = sorted(range(2**n_heads), key=lambda bits: bits.bit_count())
    for bits in sets:
        heads = [h for h in range(n_heads) if bits >> h & 1]
        if accuracy(heads) < 0.5:
            return np.array(heads)


def as_a_mask(accuracy, n_heads):
    return np.isin(np.arange(n_heads), list(by_sizes(accuracy, n_heads)))


RIGHT = {
    "induction_score": [by_loops, by_comparing, by_the_last_row_first],
    "needed_heads": [by_sizes, by_bits, as_a_mask, lambda a, n: tuple(by_bits(a, n))[::-1]],
    "induction_by_hand": [*RIGHT_MACHINES.values()],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", MINE)
def test_solutions_pass_and_hints_lead_there(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed is True
    assert 2 <= len(EXERCISES[exercise].hints) <= 4 and EXERCISES[exercise].lesson == "14"


@pytest.mark.parametrize("changed, mistake", WRONG_MACHINES, ids=lambda x: x if isinstance(x, str) else "")
def test_a_machine_that_fails_is_told_where(changed, mistake):
    verdict = check("induction_by_hand", machine(**changed), show=False)
    assert verdict.passed is False and verdict.misconception == mistake, verdict.message
    assert "should go on with" in verdict.message


@pytest.mark.parametrize("before_it", [range, lambda i: range(i + 1)], ids=["before", "itself too"])
def test_what_stands_before_place_0_is_not_the_last_word(before_it):
    def by_an_index_of_minus_1(weights, tokens):
        places = [[j for j in before_it(i) if tokens[j - 1] == tokens[i]] for i in range(len(tokens))]
        total = sum(weights[:, i, found].sum(-1) for i, found in enumerate(places))
        return total / max(sum(map(bool, places)), 1)

    verdict = check("induction_score", by_an_index_of_minus_1, show=False)
    assert verdict.passed is False and "wrapped" in verdict.misconception, verdict.message


@pytest.mark.parametrize("exercise, mistake", mistakes(*FUNCTIONS), ids=lambda x: getattr(x, "name", x))
def test_mistakes_are_named(exercise, mistake):
    named(exercise, mistake)


@pytest.mark.parametrize("exercise, answer", [
    ("induction_by_hand", "text"), ("induction_by_hand", machine()[:3]),
    ("induction_by_hand", [np.zeros((3, 3))] * 4),
    ("induction_by_hand", machine(qk_0=np.full((20, 20), 1e9))),
    ("induction_by_hand", machine(ov_1=np.full((20, 20), np.nan))), ("induction_by_hand", 3),
    *(("induction_score", answer) for answer in NO_FUNCTIONS),
    ("induction_score", lambda weights, tokens: None), ("induction_score", lambda weights, tokens: weights),
    ("induction_score", lambda weights, tokens: by_loops(weights, tokens).mean()),
    ("needed_heads", lambda accuracy, n_heads: None), ("needed_heads", lambda accuracy, n_heads: "0"),
    ("needed_heads", lambda accuracy, n_heads: [n_heads]), ("needed_heads", lambda accuracy, n_heads: [0.5]),
    ("needed_heads", lambda accuracy, n_heads: 2), ("needed_heads", lambda accuracy, n_heads: []),
    ("needed_heads", lambda accuracy, n_heads: [[0], [1, 2]]),
])  # fmt: skip
def test_odd_answers_are_judged_without_a_crash(exercise, answer):
    with np.errstate(all="ignore"):
        verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_function_that_raises_is_told(exercise):
    told_when_raising(exercise, RuntimeError)


def test_what_is_not_answered_is_said():
    for exercise in FUNCTIONS:
        assert check(exercise, stub, show=False).passed is None
    assert check("induction_by_hand", ..., show=False).passed is None


def test_each_model_has_one_smallest_set():
    for case in EXERCISES["needed_heads"].judge.cases():
        accuracy, n = case.args
        enough = [s for size in range(n + 1) for s in combinations(range(n), size) if accuracy(s) < 0.5]
        assert [len(s) for s in enough].count(len(enough[0])) == 1, case.name


def test_the_lesson_asks_for_them_all():
    (path,) = lesson.find(["14"])
    source = json.dumps(json.loads(path.read_text(encoding="utf-8"))["cells"])
    assert all(f'check(\\"{name}\\"' in source for name in MINE)

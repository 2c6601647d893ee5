"""Lesson 02's exercises: every right way accepted, every known mistake named."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnlib
from attnlib.core.scaled_dot_product import attention
from attnlib.exercises import check, vectors
from attnlib.exercises.vectors import EXERCISES
from attnlib.exercises.vectors import rebuild as judge


def by_matmul(x):
    scores = x @ x.T
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e @ x / e.sum(1, keepdims=True)


def by_loop(x):
    out = np.zeros(x.shape)
    for i, word in enumerate(x):
        scores = np.array([float(word @ other) for other in x])
        shares = np.exp(scores - np.logaddexp.reduce(scores))
        for share, other in zip(shares, x, strict=True):
            out[i] += share * other
    return out


def by_einsum(x):
    scores = np.einsum("id,jd->ij", x, x) * 1.0
    scores -= scores.max(-1, keepdims=True)
    weights = np.exp(scores)
    weights /= np.einsum("ij->i", weights)[:, None]
    return np.einsum("ij,jd->id", weights, x)


def in_float32(x):
    return by_matmul(x.astype(np.float32))


RIGHT = {
    "one_sense": [[1.5, 0, 0, 0], (1.6, 0, 0, 0), np.array([1.4, -0.5, 0, 0]), [1.5, 0, 0, 0.5]],
    "no_sense": [[-1, -1, 0, 0], [0, 0, 0, 1.6], (-1, -1, 0, 0.5), np.array([-0.9, -0.9, 0, 0])],
    "printed_rows": ["ADE", "eda", "A, D, E", "A, D and E", ["A", "D", "E"], {"a", "d", "e"}],
    "exchanged": [(2, 0, 0), [2, 0, 0], np.array([2, 0, 0])],
    "superposition_fails": [
        ([[3, 0], [0, 3], [0, 0]], [[3, 0], [0, -3], [0, 0]]),
        (np.array([[3, 0], [-3, 0], [0, 0]]), -3 * np.array([[1, 0], [1, 0], [1, 0]])),
        np.array([[[3, 0], [-3, 0], [0, 0]], [[-3, 0], [3, 0], [1, 0]]]),
    ],
    "superposition_holds": [
        ([[1, 0]] * 3, [[0, 1], [0, 2], [0, -1]]),
        (np.tile([1.0, 2.0], (3, 1)), np.array([[2, -1], [-2, 1], [1, -0.5]])),
        np.array([[[1.0, 0]] * 3, [[0, 1], [0, 2], [0, 3]]]),
    ],
    "layers_to_reach": [(333, 5), [333.0, 5]],
    "rebuild": [by_matmul, by_loop, by_einsum, in_float32],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


def shifts_by_the_largest_of_all(x):
    scores = x @ x.T
    e = np.exp(scores - scores.max())
    return e / e.sum(-1, keepdims=True) @ x


def loses_both_axes(x):
    scores = x @ x.T
    e = np.exp(scores - scores.max(1))
    return e / e.sum(1) @ x


def loses_the_axis_of_a_bare_sum(x):
    e = np.exp(x @ x.T)
    return e / e.sum(1) @ x


def changes_input(x):
    x += 0.0
    x -= x.mean()
    return x


def turned_and_scaled(x):
    scores = x @ x.T / x.shape[1] ** 0.5
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).T @ x


COLUMN = [[1, 0], [2, 0], [-1, 0]]

WRONG = [
    ("one_sense", [1, 1, 1, 0], "hears_learning", "In the second sentence learning"),
    ("one_sense", [3, 0, 0, 0], "deaf", "hardly listens"),
    ("one_sense", [0, 0, 0, 0], "zero", "weighs all alike"),
    ("one_sense", [0, 1.5, 0, 0], "other_sense", "the other sense"),
    ("one_sense", [0.3, 1.5, 0, 0], None, "in the first sentence"),
    ("one_sense", [-1, -1, 0, 0], "brings_none", "has to bring it along"),
    ("one_sense", [0.4, 0, 0, 0], "too_little", "How much does the word bring"),
    ("one_sense", [9, 0, 0, 0], "too_large", "between -5 and 5"),
    ("one_sense", [1.5, 0, 0], None, "shape (3,)"),
    ("one_sense", "pole", None, "'pole'"),
    ("one_sense", [np.nan] * 4, None, "finite"),
    ("no_sense", [0, 0, 0, 0], "zero", "goes with its company"),
    ("no_sense", [1, 1, 1, 0], "follows_company", "0 is not low"),
    ("no_sense", [0, 0, 1, 0], "follows_company", "0 is not low"),
    ("no_sense", [0, 0, 5, 0], "deaf", "hardly listens"),
    ("no_sense", [-4, -4, 0, 0], "deaf", "hardly listens"),
    ("no_sense", [1.5, 0, 0, 0], None, "One sense leads"),
    ("printed_rows", "BD", "exact_sums", "not all that"),
    ("printed_rows", "D", "exact_sums", "something else."),
    ("printed_rows", "BCF", "the_others", "cannot be"),
    ("printed_rows", "", "none", "Some of them can"),
    ("printed_rows", "ABDE", "negative", "any sign"),
    ("printed_rows", "ABCDEF", "negative", "any sign"),
    ("printed_rows", "ACDEF", "any_sum", "How far from 1"),
    ("printed_rows", "ACDE", "same_as_a", "two decimals"),
    ("printed_rows", "ADEF", "three_have_less_room", "three times"),
    ("printed_rows", "AE", "zero_as_printed", "thousandth"),
    ("printed_rows", "DE", "one_decimal", "Divide each"),
    ("printed_rows", "AD", "two_decimals", "0.99"),
    ("printed_rows", "ADX", None, "from A to F"),
    ("printed_rows", 3, None, "from A to F"),
    ("printed_rows", ["A", 4], None, "from A to F"),
    ("exchanged", (6, 6, 6), "everything_changes", "another order"),
    ("exchanged", (6, 0, 0), "everything_changes", "another order"),
    ("exchanged", (2, 2, 2), "words_change", "which term is new"),
    ("exchanged", (0, 0, 0), "rows_stay", "It is the words"),
    ("exchanged", (2, 0, 2), "equal_words", "same row of the table"),
    ("exchanged", (2, 0, 1), "equal_words", "look like"),
    ("exchanged", (4, 0, 0), "rows", "Not 4 rows"),
    ("exchanged", (2, 0, 7), None, "from 0 to 6"),
    ("exchanged", (2, 0), None, "shape (2,)"),
    ("exchanged", "two", None, "'two'"),
    ("superposition_fails", ([[1, 0]] * 3, [[0, 1], [0, 2], [0, -1]]), "holds", "equal here"),
    ("superposition_fails", ([[1, 0], [0, 1], [0, 0]], [[0, 1], [1, 0], [0, 0]]), "too_small", "at most"),
    ("superposition_fails", (COLUMN, [[-1, 0], [-2, 0], [1, 0]]), "cancels", "both sides are 0"),
    ("superposition_fails", ([[0, 0]] * 3, [[0, 0]] * 3), "holds", "equal here"),
    ("superposition_fails", ([[9, 0]] * 3, COLUMN), "too_large", "of X between"),
    ("superposition_fails", 3, None, "two arrays"),
    ("superposition_holds", ([[0, 0]] * 3, COLUMN), "zero", "X is zero"),
    ("superposition_holds", ([[1, 0]] * 3, [[0, 1]] * 3), "equal_rows", "three rows of Z differ"),
    ("superposition_holds", ([[1, 0]] * 3, COLUMN), "not_at_right_angles", "When is it 0"),
    ("superposition_holds", ([[1, 0], [2, 0], [0, 0]], [[0, 1], [0, 2], [0, -1]]), "right_angles_only",
         "neither"),
    ("superposition_holds", (COLUMN, COLUMN), "same_direction", "sharper"),
    ("superposition_holds", ([[1, 2], [0, 1], [2, 2]], [[0, 1], [1, 2], [2, -1]]), None, "no weight changes"),
    ("superposition_holds", ([[1, 2]] * 2, COLUMN), None, "shape (2, 2)"),
    ("superposition_holds", ("x", COLUMN), None, "'x'"),
    ("layers_to_reach", (5, 333), "swapped", "The other way round"),
    ("layers_to_reach", (250, 5), "kernel_counts_itself", "three words back"),
    ("layers_to_reach", (334, 5), "one_too_many", "gaps"),
    ("layers_to_reach", (999, 5), "one_word_a_layer", "recurrent"),
    ("layers_to_reach", (249, 5), "kernel_counts_itself", "996/4"),
    ("layers_to_reach", (332, 5), "one_too_few", "996 words back"),
    ("layers_to_reach", (1000, 5), "one_word_a_layer", "recurrent"),
    ("layers_to_reach", (333, 3), "rounded_down", "64 words"),
    ("layers_to_reach", (500, 5), "kernel_of_three", "as in the lesson"),
    ("layers_to_reach", (1, 1), "attention", "attention"),
    ("layers_to_reach", (300, 5), None, "The first number"),
    ("layers_to_reach", (333, 4), "rounded_down", "256"),
    ("layers_to_reach", (333, 10), "base_two", "base 2"),
    ("layers_to_reach", (333, 7), "base_three", "base 3"),
    ("layers_to_reach", (333, 6), "one_too_many", "Five"),
    ("layers_to_reach", (333, 333), "same", "gaps between"),
    ("layers_to_reach", (333, 4.98), "not_whole", "whole number"),
    ("layers_to_reach", (333, 80), None, "one, two, three"),
    ("layers_to_reach", [333], None, "shape (1,)"),
    ("rebuild", shifts_by_the_largest_of_all, "one_largest_for_all", "0/0"),
    ("rebuild", loses_both_axes, "loses_its_axis", "lose their axis"),
    ("rebuild", loses_the_axis_of_a_bare_sum, "wrong_way_round and overflow", "keepdims"),
    ("rebuild", changes_input, "changes_input", "Work on a copy"),
    ("rebuild", turned_and_scaled, "wrong_way_round and scaled", "Two things at once"),
    ("rebuild", lambda x: attention(x, x, x, scale=1), "package", "calls the package"),
    ("rebuild", lambda x: attnlib.softmax(x @ x.T) @ x, "package", "calls the package"),
    ("rebuild", lambda x: None, None, "Does it end with a return?"),
    ("rebuild", lambda x: x @ x, None, "raised"),
    ("rebuild", lambda x: x * 1.0, None, "should be"),
    ("rebuild", lambda q, k: q, "signature", "(x)"),
    ("rebuild", 7, None, "Give a function"),
]


@pytest.mark.parametrize("exercise, answer, misconception, words", WRONG)
def test_wrong_answers_are_told_what_is_wrong(exercise, answer, misconception, words):
    verdict = check(exercise, answer)
    assert verdict.passed is False and verdict.misconception == misconception, verdict
    assert words in verdict.message and len(verdict.message) < 500, verdict.message


@pytest.mark.parametrize("mistake", judge.mistakes, ids=lambda mistake: mistake.name)
def test_each_mistake_of_rebuild_is_named(mistake):
    verdict = check("rebuild", lambda x: judge.compute(x, **mistake.choices))
    assert verdict.passed is False and verdict.misconception == mistake.name, verdict
    assert mistake.hint in verdict.message


def test_untouched_answers_are_not_answered_yet():
    def stub(x):
        raise NotImplementedError

    for exercise in EXERCISES:
        assert check(exercise.id, ...).passed is None
    for exercise, dots in (("exchanged", 3), ("layers_to_reach", 2), ("superposition_holds", 2)):
        assert check(exercise, (...,) * dots).passed is None
    assert check("rebuild", stub).passed is None


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_solutions_pass(exercise):
    names = {}
    exec(exercise.solution, names)
    answer = names.get("answer", names.get(exercise.id))
    assert exercise.judge(answer).passed is True


def test_the_notebook_shows_the_words_that_are_judged():
    path = Path(__file__).resolve().parents[2] / "notebooks" / "02_rebuilding_word_vectors.ipynb"
    sources = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    (source,) = [s for s in sources if s.startswith("senses =")]
    names = {"np": np}
    exec(source, names)
    for sentence, judged in zip((names["first"], names["second"]), vectors.SENTENCES, strict=True):
        shown = names["rows"](sentence)
        for word, row, ours in zip(sentence.split(), shown, judged, strict=True):
            assert (ours is None) == (word == "transformer")
            if ours is not None:
                np.testing.assert_array_equal(row, ours)


def test_the_notebook_prints_the_rows_that_are_judged():
    path = Path(__file__).resolve().parents[2] / "notebooks" / "02_rebuilding_word_vectors.ipynb"
    sources = ["".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    (source,) = [s for s in sources if s.startswith("as_printed =")]
    names = {"check": lambda *answer: None}
    exec(source, names)
    assert {name: tuple(row.split(", ")) for name, row in names["as_printed"].items()} == vectors.PRINTED


def test_the_rows_that_can_be_a_softmax_are_those_within_rounding():
    can = set()
    for name, row in vectors.PRINTED.items():
        half = 0.5 * 10.0 ** -len(row[0].partition(".")[2])
        values = np.array(row, float)
        least, most = np.maximum(values - half, 0).sum(), (values + half).sum()
        if (values + half > 0).all() and least < 1 < most:
            can.add(name)
            between = (1 - least) / (most - least)
            weights = np.maximum(values - half, 0) * (1 - between) + (values + half) * between
            printed = tuple(f"{w:.{len(row[0].partition('.')[2])}f}" for w in weights)
            assert printed == row and weights.sum() == pytest.approx(1) and weights.min() > 0
    assert check("printed_rows", can, show=False).passed is True

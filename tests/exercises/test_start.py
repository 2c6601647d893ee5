"""Lesson 00's exercises: every right way accepted, every known mistake named."""

import itertools
import time

import lesson
import numpy as np
import pytest

from attnlib.exercises import check, start

WEIGHTS, OUTPUT = (4, 3, 5, 7), (4, 3, 5, 10)

RIGHT = {
    "map_size": [64, 64.0, np.int64(64), np.array(64), 8 * 8],
    "two_shapes": [
        (WEIGHTS, OUTPUT),
        [list(WEIGHTS), list(OUTPUT)],
        np.array([WEIGHTS, OUTPUT]),
        (np.zeros(WEIGHTS).shape, np.zeros(OUTPUT).shape),
    ],
    "rounded_or_wrong": ["E", "e", " E "],
    "words_as_columns": ["B", "b"],
    "telling_sizes": [(3, 2, 2, 3, 2, 3), [2, 3, 3, 2, 3, 2], np.array([3, 2, 2, 3, 2, 3])],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


def test_torch_sizes_are_shapes_too():
    torch = pytest.importorskip("torch")
    assert check("two_shapes", (torch.zeros(WEIGHTS).shape, torch.zeros(OUTPUT).shape)).passed


def shapes(weights=WEIGHTS, output=OUTPUT):
    return weights, output


WRONG = [
    ("map_size", 8, "one_a_word", "every word"),
    ("map_size", 32, "what_was_drawn", "rows are missing"),
    ("map_size", 56, "not_itself", "to itself"),
    ("map_size", 28, "pairs", "two weights"),
    ("map_size", 36, "pairs", "two weights"),
    ("map_size", 16, "sum", "for each key"),
    ("map_size", 63, None, "How many rows"),
    ("map_size", "64", None, "one number without quotes; got '64'"),
    ("map_size", (8, 8), None, "shape (2,)"),
    ("map_size", float("nan"), None, "finite"),
    ("map_size", 10**400, None, "one number"),
    ("map_size", True, None, "True"),
    ("two_shapes", shapes((4, 3, 7, 5)), "keys_ask", "turned them round"),
    ("two_shapes", shapes((4, 3, 5, 5)), "self_attention", "no sentence looks at itself"),
    ("two_shapes", shapes((4, 3, 7, 7)), "self_attention", "no sentence looks at itself"),
    ("two_shapes", shapes((4, 5, 7)), "no_heads", "three heads"),
    ("two_shapes", shapes((3, 5, 7)), "no_batch", "stay apart"),
    ("two_shapes", shapes((5, 7), (5, 10)), "one_map", "stay apart"),
    ("two_shapes", shapes((4, 5, 3, 7)), "heads_elsewhere", "another layout"),
    ("two_shapes", shapes((3, 4, 5, 7)), "heads_first", "another layout"),
    ("two_shapes", shapes((12, 5, 7)), "in_one", "share one axis"),
    ("two_shapes", shapes((4, 3, 5, 16)), "still_features", "sums over them"),
    ("two_shapes", shapes((4, 3, 16, 16)), "features_ask", "Tokens are compared"),
    ("two_shapes", shapes((4, 3, 5)), "one_a_query", "a weight for every token"),
    ("two_shapes", shapes(OUTPUT), "values_already", "only after the weights"),
    ("two_shapes", shapes(output=(4, 3, 5, 16)), "as_wide_as_keys", "The weights are right. The output"),
    ("two_shapes", shapes(output=(4, 3, 7, 10)), "a_row_a_key", "for each who asks"),
    ("two_shapes", shapes(output=(4, 3, 7, 16)), "keys_again", "mean of values"),
    ("two_shapes", shapes(output=(4, 5, 10)), "no_heads", "three heads"),
    ("two_shapes", shapes(output=(3, 5, 10)), "no_batch", "stay apart"),
    ("two_shapes", shapes(output=(4, 5, 3, 10)), "heads_elsewhere", "another layout"),
    ("two_shapes", shapes(output=(4, 5, 10, 3)), "heads_elsewhere", "another layout"),
    ("two_shapes", shapes((4, 5, 7, 3), (4, 5, 10, 3)), "heads_elsewhere", "third from the end"),
    ("two_shapes", shapes(output=(3, 4, 5, 10)), "heads_first", "another layout"),
    ("two_shapes", shapes(output=(12, 5, 10)), "in_one", "share one axis"),
    ("two_shapes", shapes(output=(4, 5, 30)), "heads_joined", "lesson 09"),
    ("two_shapes", shapes(output=(4, 3, 10)), "one_answer", "not one for all"),
    ("two_shapes", shapes(output=WEIGHTS), "weights_again", "multiply them by the values"),
    ("two_shapes", shapes((4, 3, 7, 5), (4, 3, 7, 10)), "keys_ask and a_row_a_key", "turned them round"),
    ("two_shapes", shapes((4, 5, 7), (4, 5, 10)), "no_heads", "The output"),
    ("two_shapes", (OUTPUT, WEIGHTS), "order", "weights first"),
    ("two_shapes", shapes((4, 3, 5, 8)), None, "what each of them gets"),
    ("two_shapes", shapes((7, 5, 3, 4)), None, "order is not"),
    ("two_shapes", shapes((4, 3, 5, 7, 1)), None, "four axes"),
    ("two_shapes", WEIGHTS, None, "Give two shapes"),
    ("two_shapes", 4, None, "Give two shapes"),
    ("two_shapes", "ab", None, "got 'a'"),
    ("two_shapes", shapes("4357"), None, "The weights: a shape is"),
    ("two_shapes", shapes((4.0, 3, 5, 7)), None, "whole numbers"),
    ("two_shapes", shapes(output=None), None, "The output: a shape is"),
    ("two_shapes", shapes(output=(4, np.nan)), None, "The output: a shape is"),
    ("two_shapes", shapes(np.zeros(WEIGHTS)), None, "The weights: a shape is"),
    ("two_shapes", shapes((4, -3, 5, 7)), None, "The weights: a shape is"),
    ("rounded_or_wrong", "A", "largest_error", "0.175"),
    ("rounded_or_wrong", "B", None, "1/7"),
    ("rounded_or_wrong", "C", "above_one", "no proof"),
    ("rounded_or_wrong", "D", None, "0.4925"),
    ("rounded_or_wrong", "F", None, "'F'"),
    ("rounded_or_wrong", 5, None, "got 5"),
    ("words_as_columns", "A", "rows_as_ever", "words as rows"),
    ("words_as_columns", "C", "keys_after_queries", "inner sizes are Lk and Lq"),
    ("words_as_columns", "D", "values_behind", "which side"),
    ("words_as_columns", "E", None, "'E'"),
    ("telling_sizes", (2,) * 6, "all_equal", "sees nothing"),
    ("telling_sizes", (2, 2, 3, 3, 2, 3), "self_attention", '"asks with the keys" slips through'),
    ("telling_sizes", (2, 3, 2, 3, 3, 3), None, "slip through"),
    ("telling_sizes", (2, 3, 4, 5, 6, 7), "more_than_two_sizes", "do catch all five"),
    ("telling_sizes", (1, 1, 4, 4, 8, 8), None, "Use only 2 and 3"),
    ("telling_sizes", (2, 3, 2.5, 3, 2, 3), None, "whole numbers"),
    ("telling_sizes", (2, 3, 0, 3, 2, 3), None, "whole numbers"),
    ("telling_sizes", (2, 3, 10**9, 3, 2, 3), None, "whole numbers"),
    ("telling_sizes", (2, 3), None, "shape (2,)"),
    ("telling_sizes", "322323", None, "6 numbers"),
    ("telling_sizes", np.zeros(10**6), None, "shape (1000000,)"),
]


@pytest.mark.parametrize("exercise, answer, misconception, says", WRONG)
def test_wrong_answers_are_named(exercise, answer, misconception, says):
    started = time.process_time()
    verdict = check(exercise, answer)
    assert time.process_time() - started < 10  # a second or less on an idle machine
    assert verdict.passed is False
    assert verdict.misconception == misconception, verdict.message
    assert says in verdict.message


def test_every_listed_slip_is_reached():
    named = {name for _, _, name, _ in WRONG if name}
    named = {part for name in named for part in name.split(" and ")}
    for table in (start._COUNTS, start._WEIGHTS, start._OUTPUT, start._WHY, start._FORMULAS):
        assert {name for name, _ in table.values()} <= named


@pytest.mark.parametrize("exercise", [exercise.id for exercise in start.EXERCISES])
def test_an_untouched_stub_is_unanswered(exercise):
    assert check(exercise, ...).passed is None


def test_half_an_answer_is_unanswered():
    assert check("two_shapes", (WEIGHTS, ...)).passed is None
    assert check("two_shapes", (..., ...)).passed is None


# That the verdicts say what is true


def printed(row):
    numbers = start.PRINTED[row].split()
    return [float(n) for n in numbers], len(numbers[0].split(".")[1])


def test_row_e_alone_cannot_be_a_rounding():
    for row in start.PRINTED:
        weights, decimals = printed(row)
        missing, slack = abs(1 - sum(weights)), 0.5 * 10**-decimals * len(weights)
        assert (missing > slack + 1e-9) == (row == "E")


@pytest.mark.parametrize("row", start.UNROUNDED)
def test_the_examples_sum_to_one_and_print_as_the_row(row):
    _, weights = start.UNROUNDED[row]
    shown, decimals = printed(row)
    assert sum(weights) == pytest.approx(1)
    half = 0.5 * 10**-decimals + 1e-9
    assert all(abs(a - b) <= half for a, b in zip(weights, shown, strict=True))


def test_of_all_answers_two_are_right():
    right = [sizes for sizes in itertools.product((2, 3), repeat=6) if check("telling_sizes", sizes).passed]
    assert right == [(2, 3, 3, 2, 3, 2), (3, 2, 2, 3, 2, 3)]


def test_four_end_in_an_error_and_one_in_a_shape():
    q, k, v = np.zeros((3, 2, 2, 2)), np.zeros((3, 2, 3, 2)), np.zeros((3, 2, 3, 3))
    errors = 0
    for suspect in start.SUSPECTS.values():
        try:
            assert suspect(q, k, v).shape == (3, 2, 2, 2)
        except ValueError:
            errors += 1
    assert errors == 4


def test_words_as_columns_by_computing():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(4, 2)), rng.normal(size=(4, 3)), rng.normal(size=(5, 3))   # columns
    weights = np.exp(k.T @ q)
    weights /= weights.sum(0)
    by_rows = np.exp(q.T @ k)
    by_rows = by_rows / by_rows.sum(1, keepdims=True) @ v.T
    np.testing.assert_allclose((v @ weights).T, by_rows)
    for left, right in ((q, k.T), (v, q.T @ k), (k.T @ q, v)):
        with pytest.raises(ValueError):
            left @ right


# That the lesson shows what is judged


@pytest.fixture(scope="module")
def cells():
    (path,) = lesson.find(["00"])
    return lesson.read(path).cells


def cell_with(cells, words):
    (found,) = [cell for cell in cells if cell.cell_type == "code" and words in cell.source]
    return found.source


def test_the_lesson_prints_the_rows_that_are_judged(cells):
    for text in start.PRINTED.values():
        assert f'"{text}"' in cell_with(cells, "printed_rows =")


def test_the_lesson_s_suspects_do_what_the_judged_ones_do(cells):
    names = {"np": np, "softmax": start.softmax, "check": check}
    exec(cell_with(cells, "suspects ="), names)
    assert list(names["suspects"]) == list(start.SUSPECTS)
    rng = np.random.default_rng(0)
    for sizes in itertools.product((2, 3), repeat=6):
        b, h, lq, lk, d, dv = sizes
        q, k, v = (rng.normal(size=(b, h, *size)) for size in ((lq, d), (lk, d), (lk, dv)))
        for name, suspect in names["suspects"].items():
            try:
                same = suspect(q, k, v).shape == (b, h, lq, dv)
            except ValueError:
                same = False
            assert same == start.slips_through(name, sizes)

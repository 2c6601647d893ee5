"""Lesson 03's exercises: every right way accepted, every known mistake named."""

import json
from pathlib import Path

import numpy as np
import pytest

import attnlib
from attnlib.core.scaled_dot_product import attention
from attnlib.datasets import running_example
from attnlib.exercises import check
from attnlib.exercises.weights import EXERCISES
from attnlib.exercises.weights import projected_attention as judge


def by_matmul(x, y, w_q, w_k, w_v):
    q, k, v = x @ w_q, y @ w_k, y @ w_v
    scores = q @ k.T / np.sqrt(q.shape[1])
    e = np.exp(scores - scores.max(1, keepdims=True))
    return e @ v / e.sum(1, keepdims=True)


def by_one_matrix_in_the_middle(x, y, w_q, w_k, w_v):
    scores = x @ (w_q @ w_k.T) @ y.T * w_k.shape[1] ** -0.5
    e = np.exp(scores - scores.max(-1)[:, None])
    weights = e / e.sum(-1)[:, None]
    return (weights @ y) @ w_v


def by_loop(x, y, w_q, w_k, w_v):
    out = np.zeros((len(x), w_v.shape[1]))
    for i, row in enumerate(x):
        q = row @ w_q
        scores = np.array([q @ (other @ w_k) for other in y]) / len(q) ** 0.5
        shares = np.exp(scores - np.logaddexp.reduce(scores))
        for share, other in zip(shares, y, strict=True):
            out[i] += share * (other @ w_v)
    return out


def in_float32(x, y, w_q, w_k, w_v):
    return by_matmul(*(a.astype(np.float32) for a in (x, y, w_q, w_k, w_v)))


def by_einsum(x, y, w_q, w_k, w_v):
    scores = np.einsum("id,de,jf,fe->ij", x, w_q, y, w_k) / np.sqrt(w_q.shape[-1])
    scores -= scores.max(-1, keepdims=True)
    weights = np.exp(scores)
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("ij,jd,de->ie", weights, y, w_v)


def tables(keys, queries):
    """w_q and w_k from dicts of row to two numbers."""
    w_q, w_k = np.zeros((8, 2), int), np.zeros((8, 2), int)
    for table, rows in ((w_q, queries), (w_k, keys)):
        for row, numbers in rows.items():
            table[row] = numbers
    return w_q, w_k


PERSON, ACTION, THING, POINTER = 0, 1, 2, 5
KEYS = {PERSON: (1, 0), ACTION: (0, 1), THING: (-1, -1)}
QUERIES = {PERSON: (0, 6), ACTION: (6, 0), POINTER: (-6, -6)}
Q, K = tables(KEYS, QUERIES)
EVERY_ROW = tables(
    {**KEYS, 4: (0, -1), 6: (0, -1), 7: (-1, 0)},
    {PERSON: (0, 9), ACTION: (9, 1), POINTER: (-9, -8), 4: (3, 3), 7: (-2, 1)},
)
BY_WORDS = tables(
    {0: (1, 0), 1: (0, 1), 3: (-1, -1)}, {0: (0, 6), 1: (6, 0), 5: (-6, -6)}
)

RIGHT = {
    "bare_chain": [
        [[1, 0], [2, 2], [0, 5]],
        np.array([[1, 0], [2, 1.5], [1, 5]]),
        ((-1, 0), (-2, -2), (0, -5)),
    ],
    "one_matrix_bound": [6, 6.0, np.sqrt(36), np.int64(6)],
    "whole_number_roles": [
        (Q, K), [Q.tolist(), K.tolist()], (Q * 1.0, K * 1.0), np.stack([Q, K]), EVERY_ROW,
        tables({0: (3, 0), 1: (-3, 4), 2: (-3, -4)}, {0: (-2, 2), 1: (4, 0), 5: (-2, -2)}),
    ],
    "projected_attention": [by_matmul, by_one_matrix_in_the_middle, by_loop, in_float32, by_einsum],
    "more_than_half": [511, 511.0, np.int64(511)],
    "ten_words_later": [960, 960.0, np.int64(960), 10 * (64 + 32)],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_solutions_pass_and_hints_lead_there(exercise):
    names = {}
    exec(exercise.solution, names)
    assert check(exercise.id, names.get("answer", names.get(exercise.id))).passed is True
    assert 2 <= len(exercise.hints) <= 4 and exercise.lesson == "03"


def turned(function):
    """The function with the rows of its result in the opposite order, which no mistake describes."""
    return lambda *args: function(*args)[::-1]


def without_shift(x, y, w_q, w_k, w_v):
    e = np.exp(x @ w_q @ (y @ w_k).T / np.sqrt(w_k.shape[1]))
    return e / e.sum(-1, keepdims=True) @ (y @ w_v)


def with_one_maximum(x, y, w_q, w_k, w_v):
    scores = (x @ w_q) @ (y @ w_k).T / np.sqrt(w_k.shape[1])
    e = np.exp(scores - scores.max())
    return e / e.sum(-1, keepdims=True) @ (y @ w_v)


def as_linear(x, y, w_q, w_k, w_v):
    return by_matmul(x, y, w_q.T, w_k.T, w_v.T)


def one_score_too_few(x, y, w_q, w_k, w_v):
    return by_matmul(x, y[:-1], w_q, w_k, w_v) if len(y) > 4 else by_matmul(x, y, w_q, w_k, w_v)


def with_the_rows(x, y, w_q, w_k, w_v):
    return x + by_matmul(x, y, w_q, w_k, w_v)


def scaled_after_softmax(x, y, w_q, w_k, w_v):
    scores = x @ w_q @ (y @ w_k).T
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) / np.sqrt(w_k.shape[1]) @ (y @ w_v)


def changes_input(x, y, w_q, w_k, w_v):
    x -= 1
    return by_matmul(x + 1, y, w_q, w_k, w_v)


def unscaled_over_queries(x, y, w_q, w_k, w_v):
    scores = x @ w_q @ (y @ w_k).T
    e = np.exp(scores - scores.max(0))
    return e / e.sum(0) @ (y @ w_v)


WRONG = [
    ("bare_chain", [[1, 0], [2, 0], [3, 0]], "all_prefer_the_longest", "In one line"),
    ("bare_chain", [[1, 0], [2, 1], [9, 9]], "all_prefer_the_longest", "Turn C further away"),
    ("bare_chain", [[1, 0], [0, 1], [-1, 0]], "equal_lengths", "no shadow is longer"),
    ("bare_chain", [[3, 0], [1, 1], [0, 4]], "prefers_itself", "A prefers itself"),
    ("bare_chain", [[1, 0], [2, 2], [1, 3]], "too_close", "two favourites"),
    ("bare_chain", [[0, 5], [2, 2], [1, 0]], "other_way", "from C to B to A"),
    ("bare_chain", [[0.1, 0], [0.2, 0.2], [0, 0.5]], "too_close", "less than 0.1"),
    ("bare_chain", [[0, 0], [1, 1], [0, 5]], "zero", "a direction"),
    ("bare_chain", [[1, 0], [2, 2], [3, 3]], "all_prefer_the_longest", "Turn C"),
    ("bare_chain", [[1, 0, 0]] * 3, None, "shape (3, 3)"),
    ("bare_chain", [[1, 0], [2, 2], [0, 500]], None, "between -100 and 100"),
    ("bare_chain", "ABC", None, "'ABC'"),
    ("bare_chain", [[np.nan, 0], [2, 2], [0, 5]], None, "finite"),
    ("one_matrix_bound", 6.5, "mean", "equality needs a distance of 0"),
    ("one_matrix_bound", 36, "lengths_not_rooted", "squared lengths"),
    ("one_matrix_bound", 13, "sum", "squared lengths"),
    ("one_matrix_bound", 5, "sum_of_lengths", "multiplies"),
    ("one_matrix_bound", 9, "the_larger", "shadow"),
    ("one_matrix_bound", 4, "the_smaller", "not the limit"),
    ("one_matrix_bound", -6, "the_smallest", "opposite"),
    ("one_matrix_bound", 0, "independent", "right angle"),
    ("one_matrix_bound", 7, None, "out of reach"),
    ("one_matrix_bound", -7, None, "out of reach"),
    ("one_matrix_bound", 3, "not_the_largest", "more can be had"),
    ("one_matrix_bound", "6", None, "without quotes"),
    ("whole_number_roles", (K, Q), "roles_swapped", "exchanged"),
    ("whole_number_roles", (Q, Q), "one_matrix", "cannot both look away"),
    ("whole_number_roles", (-Q, K), "opposite", "signs"),
    ("whole_number_roles", BY_WORDS, "rows_by_words", "thing stands before number"),
    ("whole_number_roles", BY_WORDS[::-1], "rows_by_words", "exchanged"),
    ("whole_number_roles", (Q // 6, K), "too_quiet", "A longer query"),
    ("whole_number_roles", (Q, K * 0), "zero", "all zeros"),
    ("whole_number_roles", tables({**KEYS, THING: (1, 1)}, {**QUERIES, POINTER: (6, 6)}), "tie",
     "same score as 苹果"),
    ("whole_number_roles", tables({**KEYS, ACTION: (1, 0)}, {0: (6, 0), 1: (6, 0), 5: (-6, -6)}),
     "inside_the_others", "The key of 我"),
    ("whole_number_roles", tables(KEYS, {**QUERIES, ACTION: (6, 6)}), "tie", "same score as 吃了"),
    ("whole_number_roles", tables(KEYS, {**QUERIES, PERSON: (6, 6)}), "tie", "same score as 我"),
    ("whole_number_roles", tables({0: (2, 0), 1: (0, 2), 2: (1, 1)}, QUERIES), "inside_the_others",
     "The key of 苹果"),
    ("whole_number_roles", tables(KEYS, {0: (0, 6), 1: (6, 0)}), "asks_nothing", "它 has a query of zeros"),
    ("whole_number_roles", tables(KEYS, {0: (0, 6), 1: (6, 0), 5: (6, 0)}), "wrong_target",
     "scores 6 with 我 and -6 with 苹果"),
    ("whole_number_roles", (Q / 4, K), "not_whole", "whole"),
    ("whole_number_roles", (Q * 2, K), "too_large", "reach 12"),
    ("whole_number_roles", (Q.T, K.T), "transposed", "transpose it"),
    ("whole_number_roles", (Q[:, :1], K[:, :1]), None, "(8, 1)"),
    ("whole_number_roles", Q, None, "two arrays"),
    ("whole_number_roles", ("a", "b"), None, "'a'"),
    ("whole_number_roles", (Q * np.nan, K), "not_whole", "whole"),
    ("projected_attention", without_shift, "overflow", "On scores of several thousand"),
    ("projected_attention", with_one_maximum, "one_maximum", "its own largest"),
    ("projected_attention", as_linear, "transposed", "nn.Linear"),
    ("projected_attention", unscaled_over_queries, "no_scale and wrong_axis", "Two things at once"),
    ("projected_attention", with_the_rows, "adds_the_rows", "equally wide"),
    ("projected_attention", lambda *a: by_matmul(*a) / np.sqrt(a[3].shape[1]), None, "should be"),
    ("projected_attention", scaled_after_softmax, "scaled_too_late", "Divide the scores"),
    ("projected_attention", one_score_too_few, None, "should be"),
    ("projected_attention", turned(by_matmul), None, "should be"),
    ("projected_attention", changes_input, "changes_input", "Work on a copy"),
    ("projected_attention", lambda x, y, w_q, w_k, w_v: attention(x @ w_q, y @ w_k, y @ w_v), "package",
     "calls the package"),
    ("projected_attention", lambda *a: attnlib.attention(a[0] @ a[2], a[1] @ a[3], a[1] @ a[4]), "package",
     "calls the package"),
    ("projected_attention", lambda x, w_q, w_k, w_v: x, "signature", "(x, y, w_q, w_k, w_v)"),
    ("projected_attention", lambda *a: None, None, "end with a return"),
    ("projected_attention", 7, None, "Give a function"),
    ("more_than_half", 512, "exactly_half", "half exactly"),
    ("more_than_half", 767, "output_forgotten", "W_O"),
    ("more_than_half", 1023, "one_feed", "There are two"),
    ("more_than_half", 1535, "output_and_one_feed", "left out W_O"),
    ("more_than_half", 2048, "usual", "3 parts of 12"),
    ("more_than_half", 256, "not_the_largest", "60.00%"),
    ("more_than_half", 600, None, "47.29%"),
    ("more_than_half", 511.5, None, "whole number"),
    ("more_than_half", -1, None, "whole number"),
    ("more_than_half", [511], None, "shape (1,)"),
    ("more_than_half", 2**20, "parameters", "A width"),
    ("ten_words_later", 1600, "queries_kept", "Which later word"),
    ("ten_words_later", 1024, "queries_kept", "one query besides"),
    ("ten_words_later", 1280, "values_as_wide_as_keys", "shape of W_V"),
    ("ten_words_later", 1920, "queries_and_equal_widths", "Who reads an old query"),
    ("ten_words_later", 640, "values_forgotten", "average"),
    ("ten_words_later", 320, "keys_forgotten", "values alone"),
    ("ten_words_later", 10 * 2 * 512, "as_wide_as_words", "after W_K"),
    ("ten_words_later", 10 * 3 * 512, "as_wide_as_words", "old query"),
    ("ten_words_later", 10 * 512, "words_kept", "worked out again"),
    ("ten_words_later", 64 + 32, "one_word", "all ten"),
    ("ten_words_later", 9 * 96, "last_word_left_out", "nine words"),
    ("ten_words_later", 11 * 96, "one_too_many", "eleven words"),
    ("ten_words_later", 2 * 512 * 64 + 512 * 32, "parameters", "stay as they are"),
    ("ten_words_later", 512 * 64 + 512 * 32, "parameters", "stay as they are"),
    ("ten_words_later", 100, "attention_weights", "pairs of words"),
    ("ten_words_later", 960 + 100, "attention_weights", "besides"),
    ("ten_words_later", 0, "nothing", "nothing kept"),
    ("ten_words_later", 961, None, "961"),
    ("ten_words_later", 0.5, None, "whole"),
    ("ten_words_later", -960, None, "0 or more"),
    ("ten_words_later", (640, 320), None, "shape (2,)"),
    ("ten_words_later", "960", None, "without quotes"),
]


@pytest.mark.parametrize("exercise, answer, misconception, words", WRONG)
def test_wrong_answers_are_told_what_is_wrong(exercise, answer, misconception, words):
    verdict = check(exercise, answer)
    assert verdict.passed is False and verdict.misconception == misconception, verdict.message
    assert words in verdict.message and len(verdict.message) < 600, verdict.message


@pytest.mark.parametrize("mistake", judge.mistakes, ids=lambda mistake: f"{mistake.name}-{mistake.choices}")
def test_each_mistake_of_projected_attention_is_named(mistake):
    verdict = check("projected_attention", lambda x, y, w_q, w_k, w_v: judge.compute(
        x, y, w_q, w_k, w_v, **mistake.choices))
    assert verdict.passed is False and verdict.misconception == mistake.name, verdict.message
    assert mistake.hint in verdict.message


def test_the_reference_is_the_package_with_projections():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 5)), rng.normal(size=(7, 4))
    w_q, w_k, w_v = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), rng.normal(size=(4, 6))
    wanted = attention(x @ w_q, y @ w_k, y @ w_v)
    np.testing.assert_allclose(judge.compute(x, y, w_q, w_k, w_v), wanted)


def test_untouched_answers_are_not_answered_yet():
    def stub(x, y, w_q, w_k, w_v):
        raise NotImplementedError

    for exercise in EXERCISES:
        assert check(exercise.id, ...).passed is None
    assert check("projected_attention", stub).passed is None
    assert check("whole_number_roles", (..., ...)).passed is None
    assert check("whole_number_roles", (Q, ...)).passed is None


def test_no_single_matrix_makes_the_three_links():
    """What the verdict on equal tables says: of two words, one scores itself as high as the other."""
    rng = np.random.default_rng(1)
    x = running_example().vectors
    for _ in range(200):
        k = x @ rng.integers(-9, 10, size=(8, 2))
        s = k @ k.T
        assert s[0, 0] >= s[0, 1] or s[1, 1] >= s[1, 0]


def test_the_links_of_the_lesson_are_those_that_are_judged():
    path = Path(__file__).resolve().parents[2] / "notebooks" / "03_weight_matrices.ipynb"
    text = path.read_text(encoding="utf-8")
    cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"]]
    (exercise,) = [cell for cell in cells if "### Exercise 3" in cell]
    for link in ("吃了 (ate) to 我", "我 (I) to 吃了", "它 (it) to 苹果", "more than 0.6", "from -9 to 9"):
        assert link in exercise

"""Lesson 17's patterns, predictions and hashing: right answers pass, wrong ones are told what is wrong."""

import numpy as np
import pytest
from judging import its_solution

from attnlib import (
    Pattern,
    between,
    blocks,
    causal,
    dilated,
    first,
    fixed,
    global_tokens,
    per_head,
    receptive_field,
    strided,
    window,
)
from attnlib.efficient.low_rank import linformer_attention
from attnlib.exercises import check
from attnlib.exercises.sparse_patterns import _NEAR, picture

COLUMNS = fixed(5) & ~blocks(5)


def at(*degrees, lengths=(1, 1, 1)):
    angles = np.radians(degrees)
    return np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.array(lengths)[:, None]


RIGHT = [
    ("sparse_picture", causal & (window(3) | first(2) | (fixed(5) & ~blocks(5)))),
    ("sparse_picture", (COLUMNS | window(3) | first(2)) & causal),
    ("sparse_picture", between(2, 0) | causal & first(2) | causal & COLUMNS),
    ("sparse_picture", Pattern("mine", lambda i, j: (j <= i) & ((i - j < 3) | (j < 2) | (j % 5 == 4)))),
    ("sparse_reach", (10, 5, 1, 0)),
    ("sparse_reach", np.array([10.0, 5, 1, 0])),
    ("sparse_future", [1, 3, 5, 8, 8]),
    ("hash_miss", at(44, 46, -44)),
    ("hash_miss", at(136, 134, 224, lengths=(7, 1, 1))),
    ("hash_miss", at(44, 46, -44).tolist()),
]  # fmt: skip


@pytest.mark.parametrize("exercise, answer", RIGHT, ids=lambda x: str(x)[:40])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", ["sparse_picture", "sparse_reach", "sparse_future", "hash_miss"])
def test_solutions_are_right_and_dots_are_no_answer(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed is True
    assert check(exercise, ..., show=False).passed is None


@pytest.mark.parametrize("rule, name, hint", _NEAR, ids=lambda x: str(x)[:40])
def test_rules_that_come_near_are_named(rule, name, hint):
    verdict = check("sparse_picture", rule, show=False)
    assert verdict.passed is False and verdict.misconception == name, verdict.message
    assert hint in verdict.message and len(verdict.message) < 600


PATTERNS = [
    (causal & window(3) | first(2) | fixed(5), "not_causal", "query 0 sees key 1"),
    (causal & (window(3) | first(2)) | fixed(5), "not_causal", "51 entries"),
    (window(3), "not_causal", "comes after it"),
    (causal & (window(3) | first(2) | Pattern("two", lambda i, j: (j == 4) | (j == 9) | (j == 14))),
     "picture_alone", "must see key 19"),
    (causal & (window(3) | first(2) | strided(5) | COLUMNS), None, "by your rule it"),
    (blocks(5), "not_causal", "query 0 sees key 1"),
    (causal & blocks(5), None, "by your rule it"),
    (causal & dilated(2, 2), None, "by your rule it"),
    (causal & per_head(window(3), first(2)), "heads", "axis of heads"),
    (Pattern("fails", lambda i, j: [][0]), "raises", "raised IndexError"),
    (causal & (window(3) | first(2) | global_tokens([4, 9])), "global_rows", "row"),
    (picture(), None, "not its mask"),
    (window, None, "A call is missing"),
    (lambda i, j: j <= i, None, "Pattern('mine'"),
    ("causal & window(3)", None, "Give a pattern"),
    (3, None, "Give a pattern"),
]  # fmt: skip


@pytest.mark.parametrize("rule, name, words", PATTERNS, ids=lambda x: getattr(x, "__name__", str(x)[:40]))
def test_other_answers_are_told_what_is_wrong(rule, name, words):
    verdict = check("sparse_picture", rule, show=False)
    assert verdict.passed is False and verdict.misconception == name, verdict.message
    assert words in verdict.message


def test_the_columns_must_go_on():
    rule = causal & (window(3) | first(2) | Pattern("two", lambda i, j: (j == 4) | (j == 9) | (j == 14)))
    assert np.array_equal(rule.mask(15), picture())


LATER = [
    ("sparse_reach", (8, 5, 1, 0), "reach_a_8", "own one"),
    ("sparse_reach", (7, 5, 1, 0), "reach_a_7", "own one"),
    ("sparse_reach", (11, 5, 1, 0), "reach_a_11", "30 steps"),
    ("sparse_reach", (9, 5, 1, 0), "reach_a", "Not 9"),
    ("sparse_reach", (10, 4, 1, 0), "reach_b_4", "15 places"),
    ("sparse_reach", (10, 30, 1, 0), "reach_b_30", "Dilated"),
    ("sparse_reach", (10, 5, 10, 0), "reach_c_10", "first(1)"),
    ("sparse_reach", (10, 5, 1, 2), "reach_d_2", "Alone"),
    ("sparse_reach", (10, 5, 1, 6), "reach_d_6", "31"),
    ("sparse_reach", (10, 5, 1), None, "4 numbers"),
    ("sparse_reach", "10, 5, 1, 0", None, "4 numbers"),
    ("sparse_future", (0, 3, 5, 8, 8), "future_a_0", "itself"),
    ("sparse_future", (1, 1, 5, 8, 8), "future_b_1", "both ways"),
    ("sparse_future", (1, 5, 5, 8, 8), "future_b_5", "one layer"),
    ("sparse_future", (1, 3, 3, 8, 8), "future_c_3", "one layer"),
    ("sparse_future", (1, 3, 6, 8, 8), "future_c_6", "farther"),
    ("sparse_future", (1, 3, 5, 3, 8), "future_d_3", "token 0"),
    ("sparse_future", (1, 3, 5, 8, 1), "future_e_1", "mask"),
    ("sparse_future", (1, 3, 5, 8, 4), "future_e_4", "every query"),
    ("sparse_future", (1, 3, 5, 8, 6), "future_e", "Not 6"),
    ("hash_miss", at(44, 30, -44), "found", "Where does the bucket"),
    ("hash_miss", at(44, 46, 100), "both_missed", "finds neither"),
    ("hash_miss", at(0, 80, 10), "not_better", "nothing was missed"),
    ("hash_miss", at(44, 46, 0), "small_gap", "gap"),
    ("hash_miss", at(44, -44, 46), "exchanged", "exchanged"),
    ("hash_miss", at(44, 10, 50), "exchanged", "exchanged"),
    ("hash_miss", at(44, 46, -44, lengths=(1, 3, 1)), "long_key", "Key A has length 3"),
    ("hash_miss", at(44, 46, -44, lengths=(1, 1, 0)), "long_key", "Key B has length 0"),
    ("hash_miss", at(44, 46, -44, lengths=(0, 1, 1)), "no_query", "nowhere"),
    ("hash_miss", at(45, 46, -44), "on_the_border", "border"),
    ("hash_miss", np.zeros((2, 2)), None, "shape (3, 2)"),
]  # fmt: skip


@pytest.mark.parametrize("exercise, answer, misconception, words", LATER, ids=lambda x: str(x)[:30])
def test_wrong_answers_are_told_what_is_wrong(exercise, answer, misconception, words):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.misconception == misconception, verdict.message
    assert words in verdict.message and len(verdict.message) < 600, verdict.message


# The numbers that are asked for, counted


def test_the_layers_are_counted():
    def layers(rules, distance):
        reached = np.eye(distance + 1)[-1:] > 0
        for n, rule in enumerate(rules, 1):
            reached = reached @ (causal & rule).mask(distance + 1)
            if reached[0, 0]:
                return n
        return 0

    asked = (layers([window(4)] * 40, 30), layers([dilated(2, 2**n) for n in range(8)], 30),
             layers([window(4) | first(1)] * 40, 30), layers([strided(6)] * 40, 31))  # fmt: skip
    assert check("sparse_reach", asked, show=False).passed is True


def test_the_outputs_that_change_are_counted():
    def changed(rule, n):
        return int(receptive_field(rule.mask(8), n)[:, -1].sum())

    rng = np.random.default_rng(0)
    x, e = rng.normal(size=(8, 3)), rng.normal(size=(4, 8))
    y = x.copy()
    y[-1] += 1
    mixed = np.abs(linformer_attention(x, x, x, e, e) - linformer_attention(y, y, y, e, e)).max(-1) > 1e-9
    asked = (changed(causal, 1), changed(window(3), 1), changed(window(3), 2),
             changed(window(2) | global_tokens([0]), 2), int(mixed.sum()))  # fmt: skip
    assert check("sparse_future", asked, show=False).passed is True

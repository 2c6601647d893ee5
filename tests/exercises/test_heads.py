"""Heads of lesson 09: what they cost, and splitting and merging them."""

import json

import lesson
import numpy as np
import pytest
import torch
from judging import (
    ERRORS,
    NO_FUNCTIONS,
    RESULTS,
    its_solution,
    mistakes,
    named,
    odd,
    stub,
    told_when_raising,
)

from attnlib.exercises import check
from attnlib.exercises.catalogue import EXERCISES

FUNCTIONS = ["split_heads", "merge_heads"]
OTHERS = ["price_of_heads", "exposing_input", "hiding_input"]


def split_by_unflatten(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def split_by_chunks(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def split_by_loops(x, n_heads):
    b, length, width = x.shape
    d = width // n_heads
    out = torch.zeros(b, n_heads, length, d)
    for h in range(n_heads):
        for t in range(length):
            out[:, h, t] = x[:, t, h * d : (h + 1) * d]
    return out


def split_by_strides(x, n_heads):
    x = x.contiguous()
    b, length, width = x.shape
    d = width // n_heads
    return x.as_strided((b, n_heads, length, d), (length * width, d, width, 1))


def merge_by_contiguous_view(x):
    b, h, length, d = x.shape
    return x.transpose(1, 2).contiguous().view(b, length, h * d)


def merge_by_cat(x):
    return torch.cat(list(x.unbind(1)), dim=-1)


def merge_by_einsum(x):
    return torch.einsum("bhld->blhd", x).flatten(2)

def split_by_view_of_the_last_axis(x, n_heads):
    return x.view(*x.shape[:2], n_heads, -1).transpose(1, 2)


def split_by_table(x, n_heads):
    d = x.shape[-1] // n_heads
    return x[:, :, torch.arange(n_heads * d).view(n_heads, d)].movedim(2, 1)


def split_by_true_strides(x, n_heads):
    b, length, width = x.shape
    sb, sl, sd = x.stride()
    d = width // n_heads
    return x.as_strided((b, n_heads, length, d), (sb, d * sd, sl, sd), x.storage_offset())


def merge_by_loops(x):
    b, h, length, d = x.shape
    out = torch.empty(b, length, h * d, dtype=x.dtype)
    for head in range(h):
        out[:, :, head * d : (head + 1) * d] = x[:, head]
    return out


hidden = [[[1.0, 2.0], [2.0, 3.0]]]
wider = [[[1, 0, 2, 2], [2, 2, 5, 6]]]
long = np.arange(6.0)[[0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(1, 3, 3)            # a symmetric table of parts

RIGHT = {
    "price_of_heads": [
        (1, 1, 2, 0.5), [1.0, 1, 2, 1 / 2], np.array([1, 1, 2, 0.5]), torch.tensor([1, 1, 2, 0.5]),
    ],
    "exposing_input": [
        (1, 0), [1, 3], np.array([1, 2]), torch.tensor([1, 1]), (1.0, 0.0), (2, 2), (2, 3), (2, 4), (2, 5),
    ],
    "hiding_input": [
        (hidden, 2), (torch.tensor(hidden), 2), (np.array(hidden * 2), 2.0), (wider, 2), (long, 3),
    ],
    "split_heads": [
        split_by_unflatten, split_by_chunks, split_by_loops, split_by_strides, split_by_table,
        split_by_view_of_the_last_axis, split_by_true_strides,
    ],
    "merge_heads": [merge_by_contiguous_view, merge_by_cat, merge_by_einsum, merge_by_loops],
}  # fmt: skip


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", [*FUNCTIONS, *OTHERS])
def test_solutions_pass_and_hints_stand(exercise):
    assert check(exercise, its_solution(exercise)).passed is True
    assert len(EXERCISES[exercise].hints) in (2, 3)


def test_a_call_of_the_package_is_no_answer():
    import attnlib

    def mine(x, n_heads):
        return attnlib.split_heads(x, n_heads)

    assert check("split_heads", mine).misconception == "package"


UNTOLD = ()


@pytest.mark.parametrize("exercise, mistake", mistakes(*FUNCTIONS, untold=UNTOLD),
                         ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


# Mistakes as a learner would write them


def view_split(x, n_heads):
    return x.view(x.shape[0], n_heads, x.shape[1], -1)


def half_right_split(x, n_heads):
    return x.view(x.shape[0], x.shape[1], n_heads, -1)


def flat_view_split(x, n_heads):
    b, length, width = x.shape
    return x.view(-1, n_heads, width // n_heads).view(b, length, n_heads, -1).transpose(1, 2)


def joined_by_view(x):
    return x.transpose(1, 2).view(x.shape[0], x.shape[2], -1)


def through_half(x):
    return merge_by_cat(x.half()).to(x.dtype)


def lost_numbers(x, n_heads):
    return split_by_chunks(x, n_heads)[:, :, :, :1].expand(-1, -1, -1, x.shape[-1] // n_heads)


def every_second_word_lost(x, n_heads):
    out = split_by_chunks(x, n_heads).clone()
    out[:, :, 1::2] = 0.5
    return out


def two_words_exchanged(x, n_heads):
    out = split_by_chunks(x, n_heads).clone()
    return torch.cat([out[:, :, 1:], out[:, :, :1]], 2)


def two_heads_exchanged(x):
    return merge_by_cat(x.roll(1, 1))


def caching(by_shape, right):
    """A right function that gives an earlier result again."""
    kept = {}

    def answer(*args):
        key = tuple(tuple(getattr(a, "shape", (a,))) for a in args) if by_shape else 0
        if key not in kept:
            kept[key] = right(*args)
        return kept[key]

    return answer


def cut(x, n_heads):
    return x.reshape(*x.shape[:2], n_heads, -1)


def dealt(x, n_heads):
    return x.reshape(*x.shape[:2], -1, n_heads)


def stacked(x, n_heads, order, dim):
    return torch.stack([x[..., h::n_heads] for h in order(range(n_heads))], dim)


def cat_reversed(x, dim):
    return torch.cat(list(x.unbind(1))[::-1], dim)


TWO_AXES = [
    ("split_heads", lambda x, n: cut(x, n).permute(2, 0, 3, 1), "axes_out_of_order", "(H, B, d, L)"),
    ("split_heads", lambda x, n: cut(x, n).permute(3, 1, 2, 0), "axes_out_of_order", "(d, L, H, B)"),
    ("split_heads", lambda x, n: cut(x, n).permute(3, 0, 1, 2).reshape(x.shape[0], n, x.shape[1], -1),
     "renamed", "stand as (d, B, L, H)"),
    ("split_heads", lambda x, n: dealt(x, n).transpose(2, 3), "no_transpose and interleaved", "H-th"),
    ("split_heads", lambda x, n: stacked(x, n, reversed, 1), "interleaved and heads_reversed", "H-th"),
    ("split_heads", lambda x, n: stacked(x, n, list, 0), "interleaved and heads_before_batch", "H-th"),
    ("split_heads", lambda x, n: cut(x, n).flip(2), "no_transpose and heads_reversed", "reverse"),
    ("merge_heads", lambda x: x.permute(2, 0, 3, 1).reshape(x.shape[2], x.shape[0], -1), "axes_out_of_order",
     "(L, B, d * H). They should be (B, L, H * d), all of a word's head 0 before its head 1"),
    ("merge_heads", lambda x: x.permute(2, 0, 3, 1), "axes_out_of_order", "(L, B, d, H)"),
    ("merge_heads", lambda x: x.permute(2, 3, 0, 1).reshape(x.shape[0], x.shape[2], -1), "renamed",
     "stand as (L, d, B, H)"),
    ("merge_heads", lambda x: cat_reversed(x, 1), "heads_as_positions and heads_reversed", "reverse"),
    ("merge_heads", lambda x: x.transpose(1, 2).flip(2), "not_merged and heads_reversed", "reverse"),
    ("merge_heads", lambda x: x.sum(1), "heads_added", "add"),
    ("merge_heads", lambda x: x.sum(1).repeat(1, 1, x.shape[1]), "heads_added", "add"),
    ("merge_heads", lambda x: torch.cat([x.sum(1), *x.unbind(1)[1:]], -1), None, "the sum of that feature"),
    ("merge_heads", lambda x: torch.cat([x[:, 0], *[x.mean(1)] * (x.shape[1] - 1)], -1), None,
     "the mean of that feature"),
    ("merge_heads", lambda x: torch.cat([x[:, :2].sum(1), *x.unbind(1)[1:]], -1), None,
     "is not one number of x"),
]


@pytest.mark.parametrize("exercise", ["split_heads", "merge_heads"])
def test_no_number_of_a_case_is_the_sum_or_mean_of_others(exercise):
    for case in EXERCISES[exercise].judge.cases():
        x = case.args[0]
        if exercise == "split_heads":
            x = split_by_chunks(x, case.args[1])
        for dim in range(4):
            made = [x.sum(dim), x.mean(dim), x.cumsum(dim).narrow(dim, 1, x.shape[dim] - 1)]
            for numbers in made if x.shape[dim] > 1 else []:
                assert not torch.isin(numbers, x).any(), case.name


WRONG = [
    *TWO_AXES,
    ("split_heads", view_split, "view_without_transpose", "heads and positions are mixed"),
    ("split_heads", half_right_split, "no_transpose", "behind the positions"),
    ("split_heads", flat_view_split, "view_of_non_contiguous", "What copies where it must?"),
    ("split_heads", caching(True, split_by_chunks), "state", "It is what your function gave on"),
    ("split_heads", lost_numbers, None, "Feature 1 of head 0 for word 0 of sentence 0 should be feature 1"),
    ("split_heads", every_second_word_lost, None, "is not one number of x"),
    ("split_heads", two_words_exchanged, None, "it is feature 0 of word 1 of sentence 0"),
    ("split_heads", lambda x, n_heads: x, None, "must have shape (2, 3, 5, 4)"),
    ("split_heads", lambda x, n_heads: split_by_chunks(x, n_heads).squeeze(), "squeezed", "axis of size 1"),
    ("split_heads", lambda x, n_heads: split_by_chunks(x, n_heads).numpy(), "numpy_result", "return the "
    "tensor"),
    ("split_heads", lambda n_heads, x: split_by_chunks(x, n_heads), "arguments_swapped", "x second"),
    ("split_heads", lambda x: x, "signature", "it takes (x)"),
    ("merge_heads", joined_by_view, "view_of_transposed", "What does copy?"),
    ("merge_heads", through_half, "half_precision", "65,504"),
    ("merge_heads", two_heads_exchanged, None, "should be feature 0 of head 0; it is feature 0 of head 2."),
    ("merge_heads", lambda x: x.flatten(2), "wrong_axes_joined", "a head gets a row"),
    ("merge_heads", lambda x: merge_by_cat(x[:, 1:]), None, "must have shape (2, 5, 12)"),
    ("price_of_heads", (2, 2, 2, 2), "twice_of_everything", "32 wide"),
    ("price_of_heads", (2, 2, 2, 1), "twice_of_everything", "24 heads of width 64"),
    ("price_of_heads", (2, 2, 2, 0.5), "twice_of_everything", "You halve the rank"),
    ("price_of_heads", (2, 2, 2, 7), "twice_of_everything", "32 wide"),
    ("price_of_heads", (2, 1, 2, 0.5), "parameters", "W_O keep their shape"),
    ("price_of_heads", (1, 2, 2, 0.5), "multiplications", "half as long"),
    ("price_of_heads", (1, 1, 1, 0.5), "weights", "however narrow"),
    ("price_of_heads", (1, 1, 2, 1), "rank", "from 64 to 32"),
    ("price_of_heads", (1, 1, 2), None, "4 numbers"),
    ("price_of_heads", "none", None, "'none'"),
    ("price_of_heads", (1, 1, np.nan, 1), None, "finite"),
    ("exposing_input", (0, 0), "hidden", "nobody sees the fault"),
    ("exposing_input", (3, 5), "hidden", "nobody sees the fault"),
    ("exposing_input", (0, 2), "other_head", "into head 0, into the row of word 1"),
    ("exposing_input", (2, 0), "other_head", "keeps its head"),
    ("exposing_input", (1, 5), "other_head", "into head 1, into the row of word 1"),
    ("exposing_input", (4, 0), None, "a word from 0 to 3"),
    ("exposing_input", (1, 0.5), None, "a feature from 0 to 5"),
    ("exposing_input", 1, None, "2 numbers"),
    ("exposing_input", "1, 0", None, "'1, 0'"),
    ("hiding_input", (np.ones((1, 2, 2)), 2), "all_alike", "two heads of a word are alike"),
    ("hiding_input", ([[[1, 2], [1, 2]]], 2), "all_alike", "two words are alike"),
    ("hiding_input", ([[[1, 2], [3, 4]]], 2), "exposes", "head 0 should hold 3 for word 1"),
    ("hiding_input", ([[[1, 2]]], 2), "one_token", "two words or more"),
    ("hiding_input", (hidden, 1), "one_head", "the view is always right"),
    ("hiding_input", (hidden, 3), None, "divides the 2 features"),
    ("hiding_input", (hidden[0], 2), None, "shape (B, L, D)"),
    ("hiding_input", (np.full((1, 2, 2), np.nan), 2), None, "finite"),
    ("hiding_input", (np.zeros((1, 1000, 1000)), 2), None, "10,000"),
    ("hiding_input", hidden, None, "(x, n_heads)"),
    ("hiding_input", "abc", None, "(x, n_heads)"),
    ("hiding_input", ("abc", 2), None, "'abc'"),
    ("hiding_input", (hidden, "two"), None, "'two'"),
    ("hiding_input", ([[1, 2], [3]], 2), None, "nested lists"),
]


@pytest.mark.parametrize("exercise, answer, name, words", WRONG)
def test_wrong_answers_are_told(exercise, answer, name, words):
    verdict = check(exercise, answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message
    assert words in verdict.message, verdict.message


def test_the_places_of_the_single_one_are_those_that_the_faulty_split_moves_within_a_head():
    for token in range(4):
        for feature in range(6):
            x = torch.zeros(1, 4, 6)
            x[0, token, feature] = 1
            right, faulty = split_by_chunks(x, 3)[0].nonzero()[0], x.reshape(1, 3, 4, 2)[0].nonzero()[0]
            counts = bool(right[0] == faulty[0] and right[1] != faulty[1])
            assert check("exposing_input", (token, feature)).passed is counts


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("error", ERRORS)
def test_a_function_that_always_raises_makes_no_known_mistake(exercise, error):
    told_when_raising(exercise, error)


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("result", RESULTS)
def test_a_result_of_another_kind_is_judged(exercise, result):
    odd(exercise, result)


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_what_is_no_function_is_refused_and_stubs_are_unanswered(exercise):
    for answer in NO_FUNCTIONS:
        assert "Give a function" in check(exercise, answer).message
    assert check(exercise, stub).passed is None
    assert check(exercise, None).passed is None


@pytest.mark.parametrize("exercise", OTHERS)
def test_dots_are_unanswered(exercise):
    assert check(exercise, ...).passed is None


def test_the_lesson_asks_for_all_of_them():
    (path,) = lesson.find(["09"])
    source = json.dumps(json.loads(path.read_text(encoding="utf-8")))
    assert all(f'check(\\"{exercise}\\"' in source for exercise in [*FUNCTIONS, *OTHERS])

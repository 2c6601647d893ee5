"""Lesson 10's exercises on order, layouts and a decoder's positions: right ways accepted, mistakes named."""

import json

import lesson
import numpy as np
import pytest
from judging import NO_FUNCTIONS, its_solution, mistakes, named, stub

from attnlib.core.rotary import rope, rope_permutation
from attnlib.exercises import check, orders
from attnlib.exercises.catalogue import EXERCISES

MINE = [exercise.id for exercise in orders.EXERCISES]


def added(numbers):
    add = np.zeros((3, 4))
    for place, number in numbers.items():
        add[place] = number
    return add


def by_loops(w, n_heads):
    d, out = len(w) // n_heads, np.zeros_like(w)
    for row in range(len(w)):
        h, i = divmod(row, d)
        out[h * d + i // 2 + (i % 2) * (d // 2)] = w[row]
    return out


def by_slices(w, n_heads):
    heads = np.split(w, n_heads)
    return np.concatenate([np.concatenate([head[::2], head[1::2]]) for head in heads])


def by_einops_like_transpose(w, n_heads):
    return w.reshape(n_heads, -1, 2, w.shape[1]).transpose(0, 2, 1, 3).reshape(w.shape)


def in_torch(w, n_heads):
    import torch

    t = torch.tensor(w)
    return t.view(n_heads, len(w) // n_heads // 2, 2, w.shape[1]).transpose(1, 2).reshape(w.shape).numpy()


def by_comparing(scores, length, width):
    """Random rows in random chunks, and rows that return."""
    rng = np.random.default_rng(5)
    q, k = rng.normal(size=(2, length, width))
    half = length // 2
    q[half : 2 * half], k[half : 2 * half] = q[:half], k[:half]
    whole = scores(q, k, [length])
    shifted = whole[half : 2 * half, half : 2 * half] - whole[:half, :half]
    if np.abs(np.tril(shifted)).max() > 1e-4:
        return np.True_
    for _ in range(20):
        cuts = np.sort(rng.choice(np.arange(1, length), rng.integers(1, length), replace=False))
        sizes = np.diff([0, *cuts, length]).tolist()
        if not np.allclose(scores(q, k, sizes), whole, atol=1e-4):
            return np.True_
    return np.False_


RIGHT = {
    "shuffled_past": [(2, 0), [2, 0], np.array([2.0, 0.0])],
    "least_places": [
        [[0, 0, 0, 0], [0, 1, 0, 0], [0, 2, 0, 0]],
        added({(0, 1): 1, (1, 1): 2}),
        added({(0, 1): 1, (2, 1): 0.5}),
    ],
    "interleaved_to_halves": [by_loops, by_slices, by_einops_like_transpose, in_torch],
    "restarted": [by_comparing],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", MINE)
def test_solutions_pass_and_hints_lead_there(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed is True
    assert 2 <= len(EXERCISES[exercise].hints) <= 4 and EXERCISES[exercise].lesson == "10"


@pytest.mark.parametrize("exercise, answer, mistake", [
    ("shuffled_past", (5, 5), "no_mask"),
    ("shuffled_past", (0, 0), "mask_is_order"),
    ("shuffled_past", (3, 0), "same_place"),
    ("shuffled_past", (1, 0), "last_only"),
    ("shuffled_past", (2, 2), "second_layer_reads_words"),
    ("shuffled_past", (2, 1), "second_layer"),
    ("shuffled_past", (4, 1), None),
    ("least_places", np.zeros((3, 4)), "nothing"),
    ("least_places", np.ones((3, 4)), "same_everywhere"),
    ("least_places", added({(0, 1): 1}), "one_number"),
    ("least_places", added({(1, 1): 1, (2, 1): 1}), "two_places_alike"),
    ("least_places", added({(1, 3): 1, (2, 3): 2}), "blind_query"),
    ("least_places", added({(1, 1): 1e-4, (2, 1): 2e-4}), "blind_query"),
    ("least_places", added({(0, 1): -1, (2, 1): 1}), "query_erased"),
    ("least_places", added({(0, 1): 3, (2, 1): 0.5}), "too_close"),
    ("least_places", added({(0, 3): 1, (1, 3): 2, (2, 3): 3}), "not_the_least"),
])
def test_wrong_answers_are_named(exercise, answer, mistake):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.misconception == mistake, verdict.message


@pytest.mark.parametrize("exercise, answer", [
    ("shuffled_past", 2), ("shuffled_past", (2, "0")), ("shuffled_past", (2.5, 0)), ("shuffled_past", (6, 0)),
    ("shuffled_past", (np.nan, 0)), ("least_places", "text"), ("least_places", 3),
    ("least_places", np.zeros((4, 3))), ("least_places", added({(0, 0): np.inf})),
    ("least_places", added({(1, 1): 100, (2, 1): 200})), ("least_places", [[1], [2, 3]]),
    *(("interleaved_to_halves", answer) for answer in NO_FUNCTIONS),
    *(("restarted", answer) for answer in NO_FUNCTIONS),
    ("restarted", lambda scores, length, width: "yes"), ("restarted", lambda scores, length: True),
    ("restarted", lambda scores, length, width: scores(1, 2, 3)),
    ("interleaved_to_halves", lambda w, n_heads: None), ("interleaved_to_halves", lambda w, n_heads: w[:-1]),
    ("interleaved_to_halves", lambda w, n_heads: w / 0 * 0),
])
def test_odd_answers_are_judged_without_a_crash(exercise, answer):
    with np.errstate(all="ignore"):
        verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.message


@pytest.mark.parametrize("exercise, mistake", mistakes("interleaved_to_halves"))
def test_mistakes_are_named(exercise, mistake):
    named(exercise, mistake)


def test_the_reference_keeps_scores():
    rng = np.random.default_rng(1)
    w_q, w_k = rng.normal(size=(2, 12, 5))
    x, places = rng.normal(size=(4, 5)), np.array([3, 9, 0, 5])
    convert = its_solution("interleaved_to_halves")
    np.testing.assert_array_equal(convert(w_q, 2), w_q[rope_permutation(6, 2)])
    for head in (slice(0, 6), slice(6, 12)):
        q, k = (rope((x @ w.T)[:, head], places) for w in (w_q, w_k))
        q2, k2 = (rope((x @ convert(w, 2).T)[:, head], places, layout="halves") for w in (w_q, w_k))
        np.testing.assert_allclose(q @ k.T, q2 @ k2.T)


# Tests of decoders that are not good enough, and by which of the eleven they are fooled


def consistent(*feedings):
    """Whether these ways of feeding differ from a single chunk."""
    def test(scores, length, width):
        q, k = np.random.default_rng(0).normal(size=(2, length, width))
        whole = scores(q, k, [length])
        return any(np.abs(scores(q, k, sizes(length)) - whole).max() > 1e-3 for sizes in feedings)

    return test


def ones(length):
    return [1] * length


def prompt(length):
    return [length - 3, 1, 1, 1]


def of_my_own(layout, start=0, room=1e-3):
    def test(scores, length, width):
        q, k = np.random.default_rng(0).normal(size=(2, length, width))
        places = start + np.arange(length)
        mine = np.tril(rope_by_hand(q, places, layout) @ rope_by_hand(k, places, layout).T)
        fed = (scores(q, k, sizes(length)) for sizes in (ones, prompt, lambda n: [n]))
        return any(np.abs(table - mine).max() > room for table in fed)

    return test


def rope_by_hand(x, places, layout):
    d = x.shape[1]
    pairs = np.arange(d).reshape(-1, 2) if layout == "interleaved" else np.arange(d).reshape(2, -1).T
    out = np.empty_like(x)
    for i, (a, b) in enumerate(pairs):
        angle = places * 10000.0 ** (-2 * i / d)
        out[:, a] = x[:, a] * np.cos(angle) - x[:, b] * np.sin(angle)
        out[:, b] = x[:, a] * np.sin(angle) + x[:, b] * np.cos(angle)
    return out


def exact(scores, length, width):
    """No room for rounding."""
    q = np.random.default_rng(0).normal(size=(1, width)).repeat(length, 0)
    table = scores(q, q, [length])
    return bool(any(np.ptp(np.diagonal(table, -n)) > 1e-12 for n in range(length)))


@pytest.mark.parametrize("test, mistake", [
    (lambda scores, length, width: True, "all_faulty"),
    (lambda scores, length, width: False, "all_fine"),
    (consistent(lambda n: [n]), "all_fine"),
    (consistent(ones), "calls"),
    (consistent(lambda n: [4, n - 4]), "single_step"),
    (consistent(ones, prompt), "table_ends"),
    (of_my_own("interleaved"), "other_layout"),
    (of_my_own("interleaved", room=1e-9), "other_layout"),
    (exact, "rounding"),
], ids=lambda x: getattr(x, "__name__", x))
def test_weak_tests_are_told_what_fools_them(test, mistake):
    verdict = check("restarted", test, show=False)
    assert verdict.passed is False
    assert verdict.misconception == mistake, verdict.message


@pytest.mark.parametrize("exercise", ["interleaved_to_halves", "restarted"])
def test_a_stub_is_unanswered(exercise):
    assert check(exercise, stub, show=False).passed is None


@pytest.mark.parametrize("exercise", ["shuffled_past", "least_places"])
def test_three_dots_are_unanswered(exercise):
    assert check(exercise, ..., show=False).passed is None


def test_the_lesson_asks_for_them_all():
    (path,) = lesson.find(["10"])
    source = json.dumps(json.loads(path.read_text(encoding="utf-8"))["cells"])
    assert all(f'check(\\"{name}\\"' in source for name in [*MINE, "sinusoidal", "alibi", "rope"])


def test_what_a_mask_sees_is_as_the_prediction_says():
    from attnlib.core.masks import causal_mask
    from attnlib.core.scaled_dot_product import attention

    rng = np.random.default_rng(3)
    vectors = dict(zip(["我", "看见", "你", "了", "吗"], rng.normal(size=(5, 8)), strict=True))
    first, second = ["我", "看见", "你", "了", "吗"], ["你", "看见", "我", "了", "吗"]
    w = rng.normal(size=(2, 3, 8, 8)) / 3
    same = []
    a, b = (np.array([vectors[word] for word in words]) for words in (first, second))
    for w_q, w_k, w_v in w:
        a, b = (x + attention(x @ w_q, x @ w_k, x @ w_v, causal_mask(5)) for x in (a, b))
        same.append(sum(np.allclose(a[first.index(word)], b[second.index(word)]) for word in first))
    assert same == [2, 0]

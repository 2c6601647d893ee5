"""Lesson 22: twins, both signs, and a power that evens. Right ways accepted, every mistake named."""

import numpy as np
import pytest
import torch
from judging import its_solution, making, mistakes, named, stub

from attnlib import entropy, polarity_attention, polarity_weights
from attnlib.exercises import check
from attnlib.exercises.polarity import EXERCISES, evener_power, relu_twins


@pytest.mark.parametrize("exercise", [e.id for e in EXERCISES])
def test_solutions_pass_and_stubs_are_no_answer(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed
    assert check(exercise, stub if exercise == "polarity_attention" else ..., show=False).passed is None


# ------------------------------------------------------------- twins

Q = [1, -3, 0, 0]


@pytest.mark.parametrize("answer", [
    [Q, [1, -3, 0, 0], [1, 3, 0, 0]],
    np.array([[2, -3, -3, 1], [1, -2, -1, 0], [1, 3, 2, -5]]),
    [[1, -4, 0.0, 0], [1, -2, 5, 0], [1, 3, -5, 0]],
])  # fmt: skip
def test_twins(answer):
    verdict = relu_twins(answer)
    assert verdict.passed, verdict.message
    like, _ = polarity_weights(*(np.array(a, float) for a in (answer[:1], answer[1:])), 1.0)
    assert like[0, 0] > like[0, 1]


@pytest.mark.parametrize("answer, name", [
    ([Q, [1, -6, 0, 0], [1, 3, 0, 0]], "range"),
    ([Q, [1, -2.5, 0, 0], [1, 3, 0, 0]], "range"),
    ([Q, [1, 3, 0, 0], [1, -3, 0, 0]], "exchanged"),
    ([Q, [1, -1, 0, 0], [1, 3, 0, 0]], "products"),
    ([Q, [1, -3, 0, 0], [1, 2, 0, 0]], "products"),
    ([Q, [0, -3, 0, 0], [0, 3, 0, 0]], "nothing_seen"),
    ([[-1, -3, 0, 0], [1, -5, 0, 0], [1, 5, 0, 0]], "nothing_seen"),
    ([Q, [2, -3, 0, 0], [1, 4, 0, 0]], "told_apart"),
    ([[1, -3, -4, 0], [1, -3, 0, 0], [1, 5, -2, 0]], "products"),
    ([[1, -3, -5, 0], [1, -3, 0, 0], [1, 5, 5, 0]], None),
    ([[1, -5, -5, 0], [1, -2, 0, 0], [1, 5, -3, 0]], "like_signs"),
])  # fmt: skip
def test_what_are_no_twins_is_named(answer, name):
    verdict = relu_twins(answer)
    assert verdict.passed is (name is None), verdict.message
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("answer", [3, "abc", [[1, 2], [3, 4]], [[np.nan] * 4] * 3, None])
def test_what_is_no_three_vectors_is_unreadable(answer):
    assert relu_twins(answer).readable is False and evener_power(answer).readable is False


# ------------------------------------------------------------- both signs


def by_loops(q, k, v, power):
    out = np.zeros((*q.shape[:-1], v.shape[-1]))
    half = v.shape[-1] // 2
    for at in np.ndindex(q.shape[:-1]):
        like, unlike = [], []
        for key in k[at[:-1]]:
            terms = np.abs(q[at]) ** power * np.abs(key) ** power
            same = q[at] * key > 0
            like.append(terms[same].sum())
            unlike.append(terms[q[at] * key < 0].sum())
        out[at][:half] = np.array(like) @ v[at[:-1]][:, :half] / sum(like)
        out[at][half:] = np.array(unlike) @ v[at[:-1]][:, half:] / sum(unlike)
    return out


def by_torch(q, k, v, power):
    q, k, v = (torch.tensor(a) for a in (q, k, v))
    a, b = (torch.cat([x.clamp(min=0), (-x).clamp(min=0)], -1) ** power for x in (q, k))
    other = torch.cat(a.chunk(2, -1)[::-1], -1)
    parts = [(s @ b.mT) @ h / (s @ b.mT).sum(-1, keepdim=True)
             for s, h in zip((a, other), v.chunk(2, -1), strict=True)]  # fmt: skip
    return torch.cat(parts, -1).numpy()


def as_the_lesson_has_it(q, k, v, power, eps=1e-6):
    """The keys' halves exchanged in place of the queries', and an epsilon beside a sum."""

    def halves(x):
        return np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)], -1)

    a, b = halves(q) ** power, halves(k) ** power
    outs = []
    for c, part in zip((b, np.roll(b, q.shape[-1], -1)), np.split(v, 2, -1), strict=True):
        outs.append(a @ (c.mT @ part) / (a @ c.sum(-2)[..., None] + eps))
    return np.concatenate(outs, -1)


@pytest.mark.parametrize("way", [by_loops, by_torch, as_the_lesson_has_it])
def test_right_ways_are_accepted(way):
    verdict = check("polarity_attention", way, show=False)
    assert verdict.passed, verdict.message


def test_the_reference_is_the_packages():
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 2, 7, 4))
    for power in (1, 2.5):
        ours = making("polarity_attention")(q, k, v, power)
        np.testing.assert_allclose(ours, polarity_attention(q, k, v, float(power)), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("exercise, mistake", mistakes("polarity_attention"),
                         ids=lambda m: getattr(m, "name", m))  # fmt: skip
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


def swapped(exchange):
    def way(q, k, v, power):
        a, b = (np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)], -1) ** power for x in (q, k))
        tables = (side @ b.mT for side in (a, exchange(a)))
        halves = np.split(v, 2, -1)
        return np.concatenate(
            [t / t.sum(-1, keepdims=True) @ h for t, h in zip(tables, halves, strict=True)], -1
        )

    return way


@pytest.mark.parametrize("exchange", [
    lambda a: a[..., ::-1], lambda a: np.roll(a, 1, -1), lambda a: np.roll(a, a.shape[-1] // 2),
], ids=["reversed", "by one", "across tokens"])  # fmt: skip
def test_a_right_first_half_is_said_to_be_right(exchange):
    verdict = check("polarity_attention", swapped(exchange), show=False)
    assert verdict.passed is False and "The first half is right" in verdict.message, verdict.message


def test_a_right_second_half_is_said_to_be_right():
    def way(q, k, v, power):
        out = by_loops(q, k, v, power)
        out[..., : v.shape[-1] // 2] += 1
        return out

    verdict = check("polarity_attention", way, show=False)
    assert verdict.passed is False and "The second half is right" in verdict.message, verdict.message


def test_the_sign_of_a_whole_product_is_named():
    def way(q, k, v, power):
        signed = [np.sign(x) * np.abs(x) ** power for x in (q, k)]
        products = signed[0] @ signed[1].mT
        tables = np.maximum(products, 0), np.maximum(-products, 0)
        halves = np.split(v, 2, -1)
        return np.concatenate(
            [t @ h / (t.sum(-1, keepdims=True) + 1e-12) for t, h in zip(tables, halves, strict=True)], -1
        )

    verdict = check("polarity_attention", way, show=False)
    assert verdict.misconception == "sign_of_the_sum", verdict.message


def test_two_at_once_are_both_named():
    way = making("polarity_attention", powered="none", pairs="like_twice")
    verdict = check("polarity_attention", way, show=False)
    assert set(verdict.misconception.split(" and ")) == {"no_power", "like_twice"}, verdict.message


# ------------------------------------------------------------- a power that evens

ONES = [1, 1, 1, 1]


@pytest.mark.parametrize("answer", [
    [ONES, [2, 0, 0, 0], ONES],
    [ONES, ONES, [2, 0, 0, 0]],
    np.array([ONES, [10, 0, 0, 0], [0, 6, 6, 6]]),
    [[1, 2, 2, 2], [3, 0, 0, 0], [0, 1, 1, 1.0]],
])  # fmt: skip
def test_rows_that_a_power_evens(answer):
    verdict = evener_power(answer)
    assert verdict.passed, verdict.message
    q, k = np.array(answer[:1], float), np.array(answer[1:], float)
    before, after = (entropy(polarity_weights(q, k, power)[0])[0] for power in (1.0, 2.0))
    assert after > before + 0.019


@pytest.mark.parametrize("answer, name", [
    ([ONES, [-2, 0, 0, 0], ONES], "range"),
    ([ONES, [12, 0, 0, 0], ONES], "range"),
    ([[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]], "empty_row"),
    ([ONES, [4, 0, 0, 0], ONES], "even_already"),
    ([ONES, [2, 1, 1, 1], [0, 0, 0, 0]], "one_key"),
    ([ONES, [3, 0, 0, 0], [0, 1, 0, 0]], "one_feature"),
    ([[1, 0, 0, 0], [3, 1, 1, 0], ONES], "one_feature"),
    ([ONES, [3, 0, 0, 0], ONES], "overtaken"),
    ([ONES, [2, 2, 2, 2], ONES], "surer"),
    ([ONES, [2, 1, 0, 0], ONES], "too_little"),
    ([ONES, [2, 0, 0, 0], [1, 1, 0.5, 0]], "overtaken"),
    ([ONES, [1, 1, 0, 0], [1, 0, 0, 0]], "same"),
])  # fmt: skip
def test_rows_that_it_does_not_even_are_explained(answer, name):
    verdict = evener_power(answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message

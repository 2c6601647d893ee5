"""Lesson 13's exercises on trees of words: right ways accepted, mistakes named."""

import heapq

import numpy as np
import pytest
from judging import NO_FUNCTIONS, its_solution, mistakes, named, stub

from attnlib import expected_code_length, huffman_tree
from attnlib.exercises import check, word_trees
from attnlib.exercises.catalogue import EXERCISES

MINE = [exercise.id for exercise in word_trees.EXERCISES]


def by_heap(counts):
    heap, total = [(c, i) for i, c in enumerate(counts.tolist())], 0
    heapq.heapify(heap)
    made = len(heap)
    while len(heap) > 1:
        a, b = heapq.heappop(heap)[0], heapq.heappop(heap)[0]
        heapq.heappush(heap, (a + b, made))
        total, made = total + a + b, made + 1
    return total / heap[0][0]


def by_lengths(counts):
    """A tree of sets of words; each join makes all their paths longer."""
    lengths = np.zeros(len(counts))
    nodes = [([i], c) for i, c in enumerate(counts)]
    while len(nodes) > 1:
        nodes.sort(key=lambda node: -node[1])
        (a, x), (b, y) = nodes.pop(), nodes.pop()
        lengths[a + b] += 1
        nodes.append((a + b, x + y))
    return np.average(lengths, weights=counts)


def by_two_queues(counts):
    words, joined, total = sorted(counts.astype(float).tolist()), [], 0.0
    while len(words) + len(joined) > 1:
        pair = 0.0
        for _ in range(2):
            pair += (words if not joined or (words and words[0] <= joined[0]) else joined).pop(0)
        joined.append(pair)
        total += pair
    return total / joined[0]


def by_a_tree(counts):
    """A nested tree, whose depths are read off at the end."""
    nodes = [(float(c), i) for i, c in enumerate(counts)]
    while len(nodes) > 1:
        nodes.sort(key=lambda node: node[0])
        nodes = [(nodes[0][0] + nodes[1][0], (nodes[0], nodes[1])), *nodes[2:]]

    def cost(node, depth):
        below = node[1]
        return node[0] * depth if isinstance(below, int) else sum(cost(n, depth + 1) for n in below)

    return cost(nodes[0], 0) / nodes[0][0]


def by_log_sum(h, word, nodes, codes, points):
    total = 0.0
    for code, point in zip(codes[word], points[word], strict=True):
        if code == -1:
            break
        x = float(np.dot(nodes[point], h))
        total -= np.logaddexp(0, -x if code == 0 else x)
    return np.exp(total)


def by_walk(h, word, nodes, codes, points):
    p = 1.0
    for step in range((codes[word] >= 0).sum()):
        x = nodes[points[word, step]] @ h
        zero = 0.5 * (1 + np.tanh(x / 2))
        p *= zero if codes[word, step] == 0 else 1 - zero
    return p


def in_torch(h, word, nodes, codes, points):
    import torch

    used = torch.tensor(codes[word]) >= 0
    x = torch.tensor(nodes)[torch.tensor(points[word])[used]] @ torch.tensor(h)
    return torch.sigmoid((1 - 2 * torch.tensor(codes[word])[used]) * x).prod().item()


def by_many_states(prob, width):
    rng = np.random.default_rng(3)
    for size in (0, 0.5, 3, 20, 500, 1e4, 1e6):
        for h in size * rng.normal(size=(4, width)):
            p = np.asarray(prob(h), float)
            if np.isnan(p).any() or p.min() < 0 or p.max() > 1 + 1e-5 or abs(1 - p.sum()) > 1e-5:
                return np.True_
    return np.False_


STEEP, EVEN = [128, 64, 32, 16, 8, 4, 2, 1], [108, 107, 106, 105, 104, 103, 102, 101]
RIGHT = {
    "expected_questions": [by_heap, by_lengths, by_two_queues, by_a_tree],
    "other_text": [(STEEP, EVEN), (np.array(STEEP) * 3, tuple(EVEN)),
                   np.array([STEEP, [9008, 9007, 9006, 9005, 9004, 9003, 9002, 9001]])],
    "word_probability": [by_log_sum, by_walk, in_torch],
    "not_probabilities": [by_many_states],
}  # fmt: skip


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", MINE)
def test_solutions_pass_and_hints_lead_there(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed is True
    assert 2 <= len(EXERCISES[exercise].hints) <= 4 and EXERCISES[exercise].lesson == "13"


@pytest.mark.parametrize("exercise, mistake", mistakes("expected_questions", "word_probability"),
                         ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


@pytest.mark.parametrize("answer, mistake", [
    ((STEEP, STEEP[::-1]), "not_falling"),
    ((STEEP, [5, 5, 4, 4, 3, 3, 2, 1]), "not_falling"),
    ((EVEN, STEEP), "first_is_even"),
    ((EVEN, EVEN), "first_is_even"),
    ((STEEP, [20, 12, 9, 7, 6, 5, 4, 3]), "not_yet_one_more"),
    ((STEEP, STEEP), "it_fits"),
    ((STEEP, [90, 30, 10, 7, 5, 3, 2, 1]), "it_fits"),
])
def test_other_texts_that_do_not_do(answer, mistake):
    verdict = check("other_text", answer, show=False)
    assert verdict.passed is False and verdict.misconception == mistake, verdict.message


# Mistakes as a learner would write them


def chain(counts):
    nodes = sorted(counts.tolist())
    total, node = 0, nodes[0]
    for count in nodes[1:]:
        node += count
        total += node
    return total / node


def back_at_the_end(counts):
    nodes, total = sorted(counts.tolist()), 0
    while len(nodes) > 1:
        a, b = nodes.pop(0), nodes.pop(0)
        nodes.append(a + b)
        total += a + b
    return total / sum(counts.tolist())


def bits_rounded_up(counts):
    p = counts[counts > 0] / counts.sum()
    return float(np.ceil(-(p * np.log2(p)).sum()))


def with_padding(h, word, nodes, codes, points):
    signs = 1 - 2 * codes[word]
    return float(np.prod(1 / (1 + np.exp(-signs * (nodes[points[word]] @ h)))))


def until_turn_zero(h, word, nodes, codes, points):
    p = 1.0
    for code, point in zip(codes[word], points[word], strict=True):
        if code < 1:
            break
        p *= 1 / (1 + np.exp(nodes[point] @ h))
    return float(p)


def no_path(h, word, nodes, codes, points):
    return float(1 / (1 + np.exp(-nodes[word] @ h)))


def unstable(h, word, nodes, codes, points):
    used = codes[word] >= 0
    x = (1 - 2 * codes[word][used]) * (nodes[points[word][used]] @ h)
    return float(np.prod(np.exp(x) / (1 + np.exp(x))))


@pytest.mark.parametrize("exercise, answer, mistake", [
    ("expected_questions", chain, "sorted_once"),
    ("expected_questions", back_at_the_end, "joined_in_turn"),
    ("expected_questions", bits_rounded_up, "entropy"),
    ("expected_questions", lambda counts: int(by_heap(counts)), "rounded"),
    ("expected_questions", lambda counts: 3.0, None),
    ("word_probability", with_padding, "padding_walked"),
    ("word_probability", until_turn_zero, "stops_at_turn_zero"),
    ("word_probability", no_path, "no_path"),
    ("word_probability", unstable, "overflow"),
    ("word_probability", lambda h, word, nodes, codes, points: 1 / len(codes), None),
])
def test_wrong_functions_are_told(exercise, answer, mistake):
    with np.errstate(all="ignore"):
        verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.misconception == mistake, verdict.message


def test_a_number_that_comes_as_a_tensor_is_told_so():
    import torch

    verdict = check("expected_questions", lambda counts: torch.tensor(by_heap(counts)), show=False)
    assert verdict.passed is False and "as float() gives it" in verdict.message


# Tests that are not good enough, and by which implementation they are fooled


def sums(*sizes, room=2e-6, signs=True):
    def test(prob, width):
        rng = np.random.default_rng(0)
        for size in sizes:
            for h in size * rng.normal(size=(5, width)):
                p = prob(h)
                if not abs(p.sum() - 1) <= room or (signs and not (p >= 0).all()):
                    return True
        return False

    return test


def nan_slips(prob, width):
    rng = np.random.default_rng(0)
    return any(abs(prob(h).sum() - 1) > 2e-6 or (prob(h) < 0).any()
               for size in (0, 1, 10, 1e5) for h in size * rng.normal(size=(5, width)))


@pytest.mark.parametrize("test, mistake", [
    (sums(0), "zeros_only"),
    (sums(0, 0.1), "small_states"),
    (sums(0, 1, 10), "huge_states"),
    (nan_slips, "huge_states"),
    (sums(0, 1, 10, 1e5, signs=False), "negative"),
    (sums(0, 1, 10, 1e5, room=1e-3), "too_much_room"),
    (sums(0, 1, 10, 1e5, room=1e-12), "rounding"),
    (lambda prob, width: True, "all_faulty"),
    (lambda prob, width: False, "all_fine"),
])
def test_tests_that_are_fooled_are_told_by_what(test, mistake):
    verdict = check("not_probabilities", test, show=False)
    assert verdict.passed is False and verdict.misconception == mistake, verdict.message


def test_the_implementations_are_what_they_are_said_to_be():
    rng = np.random.default_rng(1)
    for name, (how, faulty, _, _) in word_trees._IMPLEMENTATIONS.items():
        worst = 0.0
        for size in (0, 1, 10, 1e4):
            p = word_trees._model(5, **how)(size * rng.normal(size=5))
            worst = max(worst, np.inf if not (p >= 0).all() else abs(p.sum() - 1))
        assert (worst > 2e-6) == faulty, name


def test_the_reference_is_the_packages_own():
    counts = np.array([12, 5, 5, 9, 1, 0, 30])
    assert its_solution("expected_questions")(counts) == pytest.approx(
        expected_code_length(huffman_tree(counts), counts)
    )


@pytest.mark.parametrize("exercise, answer", [
    *((exercise, answer) for exercise in ("expected_questions", "not_probabilities")
      for answer in NO_FUNCTIONS),
    ("other_text", 3), ("other_text", "text"), ("other_text", (STEEP, EVEN[:7])),
    ("other_text", (STEEP, np.full(8, np.nan))), ("other_text", (STEEP, np.array(EVEN) / 2)),
    ("other_text", (STEEP, [0] * 8)),
    ("expected_questions", lambda counts: None), ("expected_questions", lambda counts: counts),
    ("word_probability", lambda *a: "a"), ("word_probability", lambda h, word: 0.5),
    ("not_probabilities", lambda prob, width: 0.5), ("not_probabilities", lambda prob, width: prob(1)),
])
def test_odd_answers_are_judged_without_a_crash(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.message


@pytest.mark.parametrize("exercise", ["expected_questions", "word_probability", "not_probabilities"])
def test_an_untouched_stub_is_not_answered(exercise):
    assert check(exercise, stub, show=False).passed is None

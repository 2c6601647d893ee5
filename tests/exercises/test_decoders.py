"""Lesson 12's count and its test of decoders: right ways accepted, mistakes named."""

import json

import lesson
import numpy as np
import pytest
import torch
from judging import NO_FUNCTIONS, stub

from attnlib import Transformer
from attnlib.exercises import check, decoders
from attnlib.exercises.catalogue import EXERCISES
from attnlib.exercises.decoders import _counts, _ways

MINE = [exercise.id for exercise in decoders.EXERCISES]


def solution(exercise):
    names = {}
    exec(EXERCISES[exercise].solution, names)
    return names["answer"]


@pytest.mark.parametrize("exercise", MINE)
def test_solutions_pass_and_hints_lead_there(exercise):
    verdict = check(exercise, solution(exercise), show=False)
    assert verdict.passed is True, verdict.message
    assert 2 <= len(EXERCISES[exercise].hints) <= 4 and EXERCISES[exercise].lesson == "12"


# The count


@pytest.mark.parametrize("answer", [
    (3.15, 4.2, 63.1), [3.1, 4.2, 63], (3_152_384, 4_204_032, 63_082_496), np.array([3.146, 4.19, 62.98]),
])
def test_right_counts_pass(answer):
    assert check("base_parameters", answer, show=False).passed is True


def test_the_package_counts_the_same():
    with torch.device("meta"):
        model = Transformer(37_000)
    parts = model.encoder.layers[0], model.decoder.layers[0], model
    counted = [sum(p.numel() for p in part.parameters()) for part in parts]
    assert check("base_parameters", counted, show=False).passed is True
    assert counted[2] - round(_counts()[2] * 1e6) == 98_304       # biases, gains and shifts


@pytest.mark.parametrize("way", [way for way in _ways() if 1 <= sum(map(bool, way)) <= 2][:80])
def test_wrong_counts_are_named(way):
    verdict = check("base_parameters", _counts(*way), show=False)
    assert verdict.passed is False and verdict.misconception
    told = verdict.misconception.split(" and ")
    assert len(told) <= sum(map(bool, way))          # never more mistakes than were made
    if sum(map(bool, way)) == 1 and "decoder_alone" not in way:
        assert told == [mistake for mistake in way if mistake]


@pytest.mark.parametrize("answer, mistake", [
    ((18.9, 25.2, 63.1), "six_layers"), ((3.15, 4.2, 65), "from_the_paper"), ((1.05, 2.1, 63.1), None),
])
def test_other_wrong_counts_are_named(answer, mistake):
    verdict = check("base_parameters", answer, show=False)
    assert verdict.passed is False and verdict.misconception == mistake


@pytest.mark.parametrize("answer", [
    3, "text", (1, 2), (3.15, 4.2), (9, 9, 9), (0, 0, 0), (np.nan, 1, 2), ("a", 1, 2), (3.15, 4.2, 900),
])
def test_odd_counts_are_judged_without_a_crash(answer):
    verdict = check("base_parameters", answer, show=False)
    assert verdict.passed is False and verdict.message


# The test of decoders


def ids(seed, *shape):
    return torch.randint(1, 11, shape, generator=torch.Generator().manual_seed(seed))


def differ(a, b):
    return bool((a - b).abs().max() > 1e-4)


def future_alone(scores, words):
    src, tgt = ids(0, 2, 5), ids(1, 2, 6)
    later = tgt.clone()
    later[:, 4:] = later[:, 4:] % 10 + 1
    return differ(scores(src, tgt)[:, :4], scores(src, later)[:, :4])


def in_numpy(scores, words):
    """Another right way: one sentence, words changed one by one, padding written out."""
    src, tgt = ids(2, 1, 4), ids(3, 1, 5)
    plain = scores(src, tgt).numpy()
    again = scores(src, tgt).numpy()
    for s in range(4):
        changed = src.clone()
        changed[0, s] = changed[0, s] % 10 + 1
        if (np.abs(scores(changed, tgt).numpy() - plain).max((0, 2)) < 1e-5).any():
            return np.True_
    for t in range(5):
        changed = tgt.clone()
        changed[0, t] = changed[0, t] % 10 + 1
        if np.abs((scores(src, changed).numpy() - plain)[:, :t]).max(initial=0) > 1e-4:
            return np.True_
    swapped = tgt[:, [0, 2, 1, 3, 4]]
    if np.abs((scores(src, swapped).numpy() - plain)[:, 3:]).max() < 1e-5:
        return np.True_
    zeros = torch.zeros(1, 1, dtype=torch.long)
    batch = torch.cat([torch.cat([zeros, src], 1), torch.cat([src + 0, zeros], 1), ids(4, 1, 5)])
    targets = torch.cat([torch.cat([zeros, tgt], 1)] * 2 + [ids(5, 1, 6)])
    for order in ([0, 1, 2], [2, 0, 1], [1, 0, 2], [0, 2, 1]):
        got = scores(batch[order], targets[order])[:, 1:].numpy()
        for row, n in enumerate(order):
            if n < 2 and np.abs(got[row] - plain[0]).max() > 1e-4:
                return np.True_
    return np.bool_(np.abs(again - plain).max() > 1e-4)


def right_padding_alone(scores, words):
    src, tgt = ids(0, 2, 5), ids(1, 2, 6)
    zeros = torch.zeros(2, 2, dtype=torch.long)
    padded = scores(torch.cat([src, zeros], 1), torch.cat([tgt, zeros], 1))[:, :6]
    return differ(scores(src, tgt), padded) or future_alone(scores, words)


def probabilities_must_sum(scores, words):
    return differ(scores(ids(0, 2, 5), ids(1, 2, 6)).exp().sum(-1), torch.ones(2, 6))


def exact(scores, words):
    src, tgt = ids(0, 2, 5), ids(1, 2, 6)
    zeros = torch.zeros(2, 2, dtype=torch.long)
    return not torch.equal(scores(src, tgt), scores(torch.cat([zeros, src], 1), tgt))


def test_another_right_test_passes():
    verdict = check("wrong_decoder", in_numpy, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("test, mistakes", [
    (lambda scores, words: True, {"all_faulty"}),
    (lambda scores, words: False, {"all_fine"}),
    (future_alone, {"next_word", "source_padding"}),
    (right_padding_alone, {"next_word", "target_padding", "left_padding"}),
    (probabilities_must_sum, {"clean"}),
    (exact, {"clean", "all_faulty", "future", "scores_alone"}),
])
def test_weak_tests_are_told_what_fools_them(test, mistakes):
    verdict = check("wrong_decoder", test, show=False)
    assert verdict.passed is False
    assert verdict.misconception in mistakes, verdict.message


@pytest.mark.parametrize("answer", [
    *NO_FUNCTIONS, lambda scores, words: "yes", lambda scores: True,
    lambda scores, words: scores(1, 2), lambda scores, words: None,
])
def test_odd_tests_are_judged_without_a_crash(answer):
    verdict = check("wrong_decoder", answer, show=False)
    assert verdict.passed is False and verdict.message


def test_untouched_is_unanswered():
    assert check("wrong_decoder", stub, show=False).passed is None
    assert check("base_parameters", ..., show=False).passed is None


def test_the_lesson_asks_for_them_all():
    (path,) = lesson.find(["12"])
    source = json.dumps(json.loads(path.read_text(encoding="utf-8"))["cells"])
    asked = [name for name, exercise in EXERCISES.items() if exercise.lesson == "12"]
    assert len(asked) == 7 and all(f'check(\\"{name}\\"' in source for name in asked)

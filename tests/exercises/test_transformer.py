"""Lesson 12's loss: every right way accepted, every known mistake named."""

import pytest
import torch
from torch.nn import functional as F

from attnlib.exercises import check
from attnlib.exercises.transformer import EXERCISES

JUDGES = {exercise.id: exercise.judge for exercise in EXERCISES}
NAMES = {"next_token_loss": "next_token_loss"}


# Right answers


def by_cross_entropy(logits, tokens, pad_id=None):
    return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1),
                           ignore_index=-100 if pad_id is None else pad_id)


def classes_second(logits, tokens, pad_id=None):
    losses = F.cross_entropy(logits.mT[:, :, :-1], tokens[:, 1:], reduction="none")
    real = torch.ones_like(losses) if pad_id is None else (tokens[:, 1:] != pad_id).to(losses.dtype)
    return (losses * real).sum() / real.sum()


def by_loops(logits, tokens, pad_id=None):
    losses = []
    for row, ids in zip(logits, tokens.tolist(), strict=True):
        for t in range(len(ids) - 1):
            if pad_id is None or ids[t + 1] != pad_id:
                losses.append(torch.logsumexp(row[t], 0) - row[t, ids[t + 1]])
    return sum(losses) / len(losses)


def by_one_hot(logits, tokens, pad_id=None):
    targets = F.one_hot(tokens[:, 1:], logits.shape[-1]).to(logits.dtype)
    losses = -(targets * logits[:, :-1].log_softmax(-1)).sum(-1)
    return losses.mean() if pad_id is None else losses[tokens[:, 1:] != pad_id].mean()


def by_weights_of_classes(logits, tokens, pad_id=None):
    weight = torch.ones(logits.shape[-1], dtype=logits.dtype)
    if pad_id is not None:
        weight[pad_id] = 0
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), weight=weight)


RIGHT = [("next_token_loss", f) for f in (by_cross_entropy, classes_second, by_loops, by_one_hot,
                                          by_weights_of_classes)]


@pytest.mark.parametrize("exercise, answer", RIGHT)
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


PAIRS = [
    ("next_token_loss", {"shift": "none", "base": "2"}, "no_shift and other_base"),
    ("next_token_loss", {"shift": "back", "mean": "sum"}, "shift_backwards and sum"),
    ("next_token_loss", {"axis": "positions", "sign": -1}, "softmax_over_positions and sign"),
    ("next_token_loss", {"shift": "none", "pads": "ignored"}, "no_shift and pads_counted"),
]


def pads_left_in(logits, tokens, pad_id=None):
    return by_cross_entropy(logits, tokens)


def truth_of_pad(logits, tokens, pad_id=None):
    return by_cross_entropy(logits, tokens, pad_id if pad_id else None)


def sliced_view(logits, tokens, pad_id=None):
    return F.cross_entropy(logits[:, :-1].view(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))


def tokens_overwritten(logits, tokens, pad_id=None):
    if pad_id is not None:
        tokens[tokens == pad_id] = -100
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


def weighted(logits, tokens, pad_id=None):
    targets, classes = tokens[:, 1:].flatten(), logits.shape[-1]
    return F.cross_entropy(logits[:, :-1].reshape(-1, classes), targets,
                           ignore_index=-100 if pad_id is None else pad_id,
                           weight=targets.bincount(minlength=classes).to(logits.dtype))


WRONG = [
    ("next_token_loss", pads_left_in, "pads_counted", "no effect"),
    ("next_token_loss", truth_of_pad, "pad_zero_is_none", "counts as False"),
    ("next_token_loss", sliced_view, "view_of_slice", "What copies"),
    ("next_token_loss", tokens_overwritten, "changes_input", "argument number 2"),
    ("next_token_loss", lambda *a: by_cross_entropy(*a).item(), "number", "Python number"),
    ("next_token_loss", lambda *a: by_cross_entropy(a[0].detach(), *a[1:]), "no_gradient", "left torch"),
    ("next_token_loss", lambda *a: by_cross_entropy(*a) + 1, None, "position 0"),
    ("next_token_loss", weighted, "weighted", "more frequent"),
    ("next_token_loss", lambda logits: logits, "signature", "pad_id"),
]

ODD = [
    lambda right: None, lambda right: "text", lambda right: right.tolist(), lambda right: (right, right),
    lambda right: right.to(torch.complex64), lambda right: right > 0, lambda right: right[None],
    lambda right: right * float("nan"), lambda right: right.detach().numpy(),
    lambda right: right.detach().to_sparse(), lambda right: print(right), lambda right: right.long(),
]


# Mistakes


def making(exercise, **choices):
    """A function that makes the mistake; a wrapper, for the engine may not recognise it by identity."""
    return lambda *args: JUDGES[exercise].compute(*args, **choices)


@pytest.mark.parametrize(
    "exercise, mistake", [(id, mistake) for id in JUDGES for mistake in JUDGES[id].mistakes],
    ids=lambda x: getattr(x, "name", x),
)
def test_every_mistake_is_named(exercise, mistake):
    verdict = check(exercise, making(exercise, **mistake.choices), show=False)
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    assert mistake.hint in verdict.message
    assert ("another convention" in verdict.message) == mistake.convention


@pytest.mark.parametrize("exercise, choices, names", PAIRS)
def test_two_mistakes_together_are_named(exercise, choices, names):
    verdict = check(exercise, making(exercise, **choices), show=False)
    assert verdict.misconception == names, verdict.message


@pytest.mark.parametrize("exercise, answer, name, words", WRONG)
def test_wrong_answers_are_told(exercise, answer, name, words):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message
    assert words in verdict.message


# Odd answers


@pytest.mark.parametrize("exercise", JUDGES)
@pytest.mark.parametrize("odd", ODD)
def test_odd_results_are_judged(exercise, odd):
    def answer(*args):
        return odd(JUDGES[exercise].compute(*args))

    assert check(exercise, answer, show=False).passed is False


@pytest.mark.parametrize("exercise", JUDGES)
def test_a_function_that_always_raises_makes_no_known_mistake(exercise):
    def raises(*args):
        raise RuntimeError("of my own")

    verdict = check(exercise, raises, show=False)
    assert verdict.misconception is None
    assert "raised RuntimeError: of my own" in verdict.message


# Solution, hints, stub


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda e: e.id)
def test_the_solution_passes_and_the_stub_is_unanswered(exercise):
    names = {}
    exec(exercise.solution, names)
    assert check(exercise.id, names[NAMES[exercise.id]], show=False).passed is True
    assert len(exercise.hints) in (2, 3)

    def stub(*args):
        raise NotImplementedError

    assert check(exercise.id, stub, show=False).passed is None

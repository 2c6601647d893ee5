"""Lesson 24's policy loss and search: every right way accepted, every known mistake named."""

import numpy as np
import pytest
import torch
from judging import its_solution, mistakes, named, stub
from torch.nn.functional import cross_entropy

from attnlib.exercises import check


def by_cross_entropy(logits, actions, rewards):
    each = cross_entropy(logits.transpose(1, 2), actions, reduction="none")
    return (rewards[:, None] * each).sum() / len(rewards)


def by_loops(logits, actions, rewards):
    total = 0
    for answer, tokens, r in zip(logits, actions, rewards, strict=True):
        for scores, token in zip(answer, tokens, strict=True):
            total = total - r * (scores[token] - torch.logsumexp(scores, -1))
    return total / logits.shape[0]


def by_one_hot(logits, actions, rewards):
    wanted = torch.nn.functional.one_hot(actions, logits.shape[-1])
    return -torch.einsum("b,btv,btv->", rewards, wanted.to(logits), logits.log_softmax(-1)) / len(logits)


def by_sorting(population, scores, n_elite):
    order = sorted(range(len(scores)), key=lambda i: scores[i], reverse=True)[:n_elite]
    kept = np.stack([population[i] for i in order])
    mean = kept.sum(0) / n_elite
    return mean, (((kept - mean) ** 2).sum(0) / (n_elite - 1)) ** 0.5, kept[0]


def by_partition(population, scores, n_elite):
    kept = population[np.argpartition(scores, -n_elite)[-n_elite:]]
    return [np.mean(kept, axis=0), np.std(kept, axis=0, ddof=1), population[np.argmax(scores)]]


@pytest.mark.parametrize("exercise, answer", [
    ("policy_loss", by_cross_entropy), ("policy_loss", by_loops), ("policy_loss", by_one_hot),
    ("policy_loss", its_solution("policy_loss")), ("search_round", by_sorting),
    ("search_round", by_partition), ("search_round", its_solution("search_round")),
])  # fmt: skip
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise, mistake", mistakes("policy_loss", "search_round"),
                         ids=lambda x: x if isinstance(x, str) else x.name)  # fmt: skip
def test_each_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


def test_two_mistakes_at_once():
    def both(logits, actions, rewards):
        chosen = logits.log_softmax(-1).gather(-1, actions[..., None])[..., 0]
        return (rewards * chosen.mean(-1)).mean()

    assert check("policy_loss", both, show=False).misconception == "wrong_sign and mean_over_tokens"


def test_a_loss_without_gradient():
    def detached(logits, actions, rewards):
        return by_cross_entropy(logits.detach(), actions, rewards)

    assert check("policy_loss", detached, show=False).passed is False


def test_a_product_of_probabilities_is_zero_for_a_long_answer():
    def product(logits, actions, rewards):
        chosen = logits.log_softmax(-1).exp().gather(-1, actions[..., None])[..., 0]
        return -(rewards * chosen.prod(-1).log()).mean()

    verdict = check("policy_loss", product, show=False)
    assert verdict.passed is False and "Add up logarithms" in verdict.message


@pytest.mark.parametrize("exercise", ["policy_loss", "search_round"])
def test_stubs(exercise):
    assert check(exercise, stub, show=False).passed is None

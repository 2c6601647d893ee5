"""Lesson 12's parts: right ways accepted, every mistake named."""

import numpy as np
import pytest
from judging import NO_FUNCTIONS, its_solution, mistakes, named, stub

from attnlib.core.shifting import teacher_forcing
from attnlib.core.smoothing import smoothed_targets
from attnlib.exercises import check, transformer_parts
from attnlib.exercises.catalogue import EXERCISES

MINE = [exercise.id for exercise in transformer_parts.EXERCISES]


# Right answers


def layer_by_hand(x, attend, feed, norm_1, norm_2, norm_first):
    if norm_first:
        y = attend(norm_1(x)) + x
        return y + feed(norm_2(y))
    y = norm_1(x + attend(x))
    return norm_2(feed(y) + y)


def batch_by_loops(src, tgt, pad_id):
    (b, s), n = src.shape, tgt.shape[1] - 1
    src_mask, tgt_mask = np.zeros((b, 1, 1, s), bool), np.zeros((b, 1, n, n), bool)
    for row in range(b):
        src_mask[row, 0, 0] = [word != pad_id for word in src[row]]
        for i in range(n):
            for j in range(i + 1):
                tgt_mask[row, 0, i, j] = tgt[row, j] != pad_id
    return tgt[:, :n].copy(), tgt[:, 1:].copy(), src_mask, tgt_mask


def batch_in_torch(src, tgt, pad_id):
    import torch

    src, tgt = torch.tensor(src), torch.tensor(tgt)
    inputs = tgt[:, :-1]
    past = torch.ones(inputs.shape[1], inputs.shape[1], dtype=torch.bool).tril()
    masks = (src != pad_id)[:, None, None], (inputs != pad_id)[:, None, None] & past
    return tuple(part.numpy() for part in (inputs, tgt[:, 1:], *masks))


def smooth_by_loops(targets, n_classes, smoothing, pad_id):
    rows = []
    for target in targets.ravel():
        row = [smoothing / (n_classes - 2)] * n_classes
        row[pad_id], row[target] = 0.0, 1 - smoothing
        rows.append([0.0] * n_classes if target == pad_id else row)
    return np.array(rows, np.float32).reshape(*targets.shape, n_classes)


def smooth_by_the_package(targets, n_classes, smoothing, pad_id):
    return smoothed_targets(targets, n_classes, smoothing, pad_id=pad_id, over="others")


def beam_by_a_list(scores, log_probs, k):
    found = [(scores[row] + log_probs[row, word], row, word) for row, word in np.ndindex(log_probs.shape)]
    found = sorted(found, reverse=True)[:k]
    return np.array([f[1] for f in found]), np.array([f[2] for f in found]), np.array([f[0] for f in found])


def beam_by_partition(scores, log_probs, k):
    totals = log_probs + scores.reshape(-1, 1)
    best = np.argpartition(-totals, k - 1, axis=None)[:k]
    best = best[np.argsort(totals.flat[best])[::-1]]
    return (*np.unravel_index(best, totals.shape), totals.flat[best])


RIGHT = [
    ("encoder_layer", layer_by_hand), ("training_batch", batch_by_loops), ("training_batch", batch_in_torch),
    ("smooth_targets", smooth_by_loops), ("beam_step", beam_by_a_list), ("beam_step", beam_by_partition),
]


@pytest.mark.parametrize("exercise, answer", RIGHT)
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", MINE)
def test_solutions_pass_hints_lead_there_and_the_stub_is_unanswered(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed is True
    assert 2 <= len(EXERCISES[exercise].hints) <= 4 and EXERCISES[exercise].lesson == "12"
    assert check(exercise, stub, show=False).passed is None


# Mistakes


@pytest.mark.parametrize("exercise, mistake", mistakes(*MINE))
def test_mistakes_are_named(exercise, mistake):
    named(exercise, mistake)


def two_tables(targets, n_classes, smoothing, pad_id):
    """As torch does it, beside padding."""
    rows = np.eye(n_classes)[targets] * (1 - smoothing) + smoothing / n_classes
    return np.where((targets == pad_id)[..., None], 0, rows)


def greedy(scores, log_probs, k):
    row = int(np.argmax(scores))
    words = np.argsort(-log_probs[row])[:k]
    return np.full(k, row), words, scores[row] + log_probs[row, words]


def shifted_by_two(src, tgt, pad_id):
    inputs, targets, *masks = its_solution("training_batch")(src, tgt[:, :-1], pad_id)
    return inputs, tgt[:, 2:], *masks


def post_norm_of_the_part(x, attend, feed, norm_1, norm_2, norm_first):
    for part, norm in ((attend, norm_1), (feed, norm_2)):
        x = x + part(norm(x)) if norm_first else x + norm(part(x))
    return x


def pre_norm_of_the_stream(x, attend, feed, norm_1, norm_2, norm_first):
    for part, norm in ((attend, norm_1), (feed, norm_2)):
        x = norm(x) + part(norm(x)) if norm_first else norm(x + part(x))
    return x


def first_word_unasked(src, tgt, pad_id):
    """The targets are those of the package's teacher_forcing."""
    inputs, targets, *masks = batch_by_loops(src, tgt, pad_id)
    return inputs, np.where(inputs == pad_id, pad_id, targets), *masks


def emptied_too_early(targets, n_classes, smoothing, pad_id):
    rows = np.full((*targets.shape, n_classes), smoothing / (n_classes - 2))
    rows[..., pad_id] = 0
    rows[targets == pad_id] = 0
    np.put_along_axis(rows, targets[..., None], 1 - smoothing, -1)
    return rows


def through_probabilities(scores, log_probs, k):
    chances = np.exp(scores)[:, None] * np.exp(log_probs)
    with np.errstate(divide="ignore"):
        totals = np.log(chances).ravel()
    best = np.argsort(-totals, kind="stable")[:k]
    return *np.divmod(best, log_probs.shape[1]), totals[best]


def parted_not_sorted(scores, log_probs, k):
    totals = (scores[:, None] + log_probs).ravel()
    best = np.sort(np.argsort(-totals)[:k])
    return *np.divmod(best, log_probs.shape[1]), totals[best]


@pytest.mark.parametrize("exercise, answer, name", [
    ("smooth_targets", two_tables, "as_in_torch"),
    ("encoder_layer", post_norm_of_the_part, "part_normed"),
    ("encoder_layer", pre_norm_of_the_stream, "normed_residual"),
    ("training_batch", first_word_unasked, "first_word_unasked"),
    ("smooth_targets", emptied_too_early, "pad_rows_kept"),
    ("beam_step", through_probabilities, "underflow"),
    ("beam_step", parted_not_sorted, "by_place"),
    ("beam_step", greedy, None),          # where a beginning has fewer words than k it gives fewer
    ("training_batch", shifted_by_two, None),
    ("training_batch", lambda src, tgt, pad_id: (tgt[:, :-1], tgt[:, 1:]), None),
    ("encoder_layer", lambda x, attend, feed, norm_1, norm_2, norm_first: None, None),
    *((exercise, answer, None) for exercise in MINE for answer in NO_FUNCTIONS),
])
def test_wrong_answers_are_told(exercise, answer, name):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.message
    assert name is None or verdict.misconception == name, verdict.message


def test_the_contracts_are_those_of_the_package():
    targets = np.array([[3, 0, 2], [4, 1, 0]])
    ours = its_solution("smooth_targets")(targets, 6, 0.2, 0)
    np.testing.assert_allclose(ours, smooth_by_the_package(targets, 6, 0.2, 0))
    tgt = np.array([[1, 7, 8, 2, 0], [1, 9, 2, 0, 0]])
    inputs, wanted, _, _ = its_solution("training_batch")(tgt, tgt, 0)
    for mine, theirs in zip((inputs, wanted), teacher_forcing(tgt), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_both_orders_are_those_of_the_package():
    import torch

    from attnlib.layers.residual import Residual

    x = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    norms, parts = [torch.nn.LayerNorm(4)] * 2, [torch.tanh, torch.relu]
    for norm_first in (False, True):
        ours = x
        for norm, part in zip(norms, parts, strict=True):
            ours = Residual(norm, norm_first=norm_first)(ours, part)
        got = its_solution("encoder_layer")(x, *parts, *norms, norm_first)
        torch.testing.assert_close(got, ours)

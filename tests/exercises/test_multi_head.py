"""Multi-head attention, of lesson 09: every right way accepted, every known mistake named."""

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
    making,
    mistakes,
    named,
    odd,
    stub,
    told_when_raising,
)
from torch.nn import functional as F

from attnlib.exercises import check
from attnlib.exercises.catalogue import EXERCISES

LAYER = "multi_head_attention"
FUNCTIONS = [LAYER]


def split_by_unflatten(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def split_by_chunks(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def merge_by_cat(x):
    return torch.cat(list(x.unbind(1)), dim=-1)


def by_torch(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = (split_by_chunks(x @ w, n_heads) for w in (w_q, w_k, w_v))
    if mask is None:
        return merge_by_cat(F.scaled_dot_product_attention(q, k, v)) @ w_o
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, -1e9)
    return merge_by_cat(scores.softmax(-1).masked_fill(~mask, 0) @ v) @ w_o


def by_loops(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    b, length, width = x.shape
    d, rows = width // n_heads, []
    full = torch.ones(b, n_heads, length, length, dtype=torch.bool)
    full = full if mask is None else mask.expand(full.shape)
    for n in range(b):
        out = 0
        for h in range(n_heads):
            part = slice(h * d, (h + 1) * d)
            q, k, v = x[n] @ w_q[:, part], x[n] @ w_k[:, part], x[n] @ w_v[:, part]
            scores = (q / d**0.5) @ k.T
            scores = scores - scores.amax(-1, keepdim=True).detach()
            e = torch.exp(scores) * full[n, h]
            total = e.sum(-1, keepdim=True)
            out = out + e / torch.where(total == 0, 1.0, total) @ v @ w_o[part]      # a sum over the heads
        rows.append(out)
    return torch.stack(rows)


def by_einsum(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    d = x.shape[-1] // n_heads
    q, k, v = (torch.einsum("bld,dhe->bhle", x, w.unflatten(1, (n_heads, d))) for w in (w_q, w_k, w_v))
    scores = torch.einsum("bhle,bhse->bhls", q, k) / np.sqrt(d)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        bias = torch.where(mask, 0.0, -1e30).to(scores.dtype)
        weights = (scores + bias).softmax(-1) * mask.any(-1, keepdim=True)
    return torch.einsum("bhls,bhse,hed->bld", weights, v, w_o.unflatten(0, (n_heads, d)))


def heads_in_the_batch(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    b, length, width = x.shape
    q, k, v = (split_by_chunks(x @ w, n_heads).flatten(0, 1) for w in (w_q, w_k, w_v))
    scores = torch.bmm(q, k.mT) * (width // n_heads) ** -0.5
    if mask is not None:
        visible = mask.expand(b, n_heads, length, length).flatten(0, 1)
        scores = torch.where(visible, scores, -1e9)
    weights = torch.softmax(scores, -1)
    if mask is not None:
        weights = torch.where(visible, weights, torch.zeros_like(weights))
    return merge_by_cat((weights @ v).unflatten(0, (b, n_heads))) @ w_o


def infinite_fill_mended(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = (split_by_unflatten(x @ w, n_heads) for w in (w_q, w_k, w_v))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return merge_by_cat(scores.softmax(-1).nan_to_num() @ v) @ w_o     # masked_fill stops the gradient


RIGHT = [by_torch, by_loops, by_einsum, heads_in_the_batch, infinite_fill_mended]


@pytest.mark.parametrize("answer", RIGHT)
def test_right_answers_pass(answer):
    verdict = check(LAYER, answer)
    assert verdict.passed is True, verdict.message


def test_the_solution_passes_and_hints_stand():
    assert check(LAYER, its_solution(LAYER)).passed is True
    assert len(EXERCISES[LAYER].hints) in (2, 3)


@pytest.mark.parametrize("exercise, mistake", mistakes(LAYER), ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


def test_a_mask_after_the_softmax_is_right_where_rows_are_brought_back_to_one():
    assert check(LAYER, masked_by(renormalised)).passed is True


PAIRS = [
    ({"scale": "model", "masking": "inverted"}, "scale_of_the_model and mask_inverted"),
    ({"project": "key_is_query", "output": "forgotten"}, "same_projection and no_output_projection"),
    ({"scale": "none", "empty": "uniform"}, "no_scale and empty_row_uniform"),
    ({"axis": -2, "join": "view"}, "merge_by_view and softmax_over_queries"),
    ({"output": "transposed", "added": "x"}, "output_transposed and residual"),
    ({"output": "forgotten", "added": "x"}, "no_output_projection and residual"),
]


@pytest.mark.parametrize("choices, names", PAIRS)
def test_two_mistakes_together_are_named(choices, names):
    verdict = check(LAYER, making(LAYER, **choices))
    assert verdict.misconception == names
    assert "Two things at once" in verdict.message


THREE = [
    ({"project": "value_is_key", "scale": "none", "output": "transposed"},
     ["values from w_k", "w_o transposed", "scores 2.24 times as large"]),
    ({"axis": -2, "scale": "none", "output": "forgotten"},
     ["w_o left out", "over the queries, not the keys"]),
    ({"project": "key_is_query", "scale": "linear", "join": "view"},
     ["merged without a transposition", "where queries and keys come from"]),
    ({"project": "raw_value", "cut": "interleaved", "join": "interleaved", "scale": "none"},
     ["values not projected", "every H-th feature", "dealt out in turn"]),
    ({"cut": "view", "scale": "none", "added": "x"}, ["cut without a transposition", "x added"]),
    ({"cut": "batch_mixed", "scale": "none", "axis": 1}, ["no average of each head's values"]),
]


@pytest.mark.parametrize("choices, words", THREE, ids=str)
def test_of_three_mistakes_together_the_result_tells(choices, words):
    """Neither one mistake nor a pair: the weights are worked back from the result."""
    verdict = check(LAYER, making(LAYER, **choices))
    assert verdict.passed is False and verdict.misconception is None
    assert all(word in verdict.message for word in words), verdict.message


# Mistakes as a learner would write them


def infinite_fill(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = (split_by_unflatten(x @ w, n_heads) for w in (w_q, w_k, w_v))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return merge_by_cat(scores.softmax(-1) @ v) @ w_o


def masked_by(hide, mend_weights=True):
    def answer(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
        q, k, v = (split_by_unflatten(x @ w, n_heads) for w in (w_q, w_k, w_v))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = scores.softmax(-1) if mask is None else hide(scores, mask)
        return merge_by_cat(weights @ v if mend_weights else (weights @ v).nan_to_num()) @ w_o

    return answer


def renormalised(s, mask):
    weights = s.softmax(-1) * mask
    return weights / weights.sum(-1, keepdim=True).clamp_min(1e-12)


def times_infinity(s, mask):
    return (s + ~mask * -torch.inf).softmax(-1)


def one_minus_mask_times_infinity(s, mask):
    return (s + (1 - mask.float()) * float("-inf")).softmax(-1)


def infinity_added(s, mask):
    return (s + torch.where(mask, 0.0, -torch.inf)).softmax(-1)


def infinity_filled(s, mask):
    return s.masked_fill(~mask, -torch.inf).softmax(-1)


def through_numpy(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return torch.tensor(by_torch(x, w_q, w_k, w_v, w_o, n_heads, mask).detach().numpy())


def masks_of_two_axes_only(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    if mask is not None and mask.ndim == 4:
        mask = mask[0, 0]
    return by_torch(x, w_q, w_k, w_v, w_o, n_heads, mask)


def in_place(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    x.mul_(2)
    return x


def if_mask(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return by_torch(x, w_q, w_k, w_v, w_o, n_heads, mask if mask else None)


def mask_with_one_axis_more(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return by_torch(x, w_q, w_k, w_v, w_o, n_heads, None if mask is None else mask.unsqueeze(1))


def heads_averaged_before_w_o(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = (split_by_chunks(x @ w, n_heads) for w in (w_q, w_k, w_v))
    return F.scaled_dot_product_attention(q, k, v).mean(1) @ w_o


def filled_and_zeroed(level):
    return lambda s, mask: s.masked_fill(~mask, level).softmax(-1) * mask


def dropping(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = (split_by_chunks(x @ w, n_heads) for w in (w_q, w_k, w_v))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = scores.softmax(-1) if mask is None else renormalised(scores, mask)
    return merge_by_cat(F.dropout(weights, 0.2) @ v) @ w_o


def in_half(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    low = (a.to(torch.bfloat16) for a in (x, w_q, w_k, w_v, w_o))
    return by_torch(*low, n_heads, mask).to(x.dtype)


def mask_kept(x, w_q, w_k, w_v, w_o, n_heads, mask=None, kept={}):  # noqa: B006
    mask = None if mask is None else kept.setdefault(mask.shape, mask)
    return by_torch(x, w_q, w_k, w_v, w_o, n_heads, mask)


def inverted(hide, **also):
    """A mask of which True hides, in a layer that is right or has another fault too."""
    scale, output = also.get("scale", 1), also.get("output", True)

    def answer(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
        q, k, v = (split_by_unflatten(x @ w, n_heads) for w in (w_q, w_k, w_v))
        scores = q @ k.mT / q.shape[-1] ** 0.5 * scale
        if mask is None and also.get("always"):
            mask = torch.ones_like(scores, dtype=torch.bool)
        merged = merge_by_cat((scores.softmax(-1) if mask is None else hide(scores, mask)) @ v)
        return merged @ w_o if output else merged

    return answer


HIDE = [
    lambda s, mask: s.masked_fill(mask, -torch.inf).softmax(-1),
    lambda s, mask: s.masked_fill(mask, -1e9).softmax(-1),
    lambda s, mask: s.masked_fill(mask, -1e9).softmax(-1) * ~mask,
    lambda s, mask: (s + mask * -1e9).softmax(-1),
    lambda s, mask: s.masked_fill(mask, -1e4).softmax(-1),
    lambda s, mask: (s + torch.where(mask, -torch.inf, 0.0)).softmax(-1),
    lambda s, mask: s.softmax(-1) * ~mask,
    lambda s, mask: renormalised_by_sum(s.softmax(-1) * ~mask),
]


def renormalised_by_sum(weights):
    return weights / weights.sum(-1, keepdim=True)


@pytest.mark.parametrize("hide", HIDE)
def test_a_mask_of_which_true_hides_is_named_however_it_is_written(hide):
    assert check(LAYER, inverted(hide)).misconception == "mask_inverted"


@pytest.mark.parametrize("hide", HIDE[:3])
def test_a_mask_of_which_true_hides_is_named_beside_another_mistake(hide):
    verdict = check(LAYER, inverted(hide, scale=5**0.5))
    assert verdict.misconception != "mask_inverted"
    assert "mask_inverted" in check(LAYER, inverted(hide, output=False)).misconception
    assert check(LAYER, inverted(hide, always=True)).misconception == "mask_inverted"


def test_all_zeros_are_told():
    verdict = check(LAYER, inverted(HIDE[2], always=True))
    assert "Without a mask you hide every key, so the result is all zeros" in verdict.message
    verdict = check(LAYER, inverted(HIDE[2], always=True, output=False))
    assert verdict.misconception == "mask_inverted and no_output_projection"
    verdict = check(LAYER, lambda x, *rest: 0 * x)
    assert verdict.misconception is None and "Your result is all zeros" in verdict.message


def mask_as_padding(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    mask = None if mask is None else mask.view(x.shape[0], 1, 1, x.shape[1])
    return by_torch(x, w_q, w_k, w_v, w_o, n_heads, mask)


def by_linear(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return by_torch(x, w_q.T, w_k.T, w_v, w_o, n_heads, mask)


WRONG = [
    (by_linear, "weights_transposed", "w_q and of w_k"),
    (mask_as_padding, "mask_shape", "as if it were one of padding"),
    (infinite_fill, "empty_row_nan", "0/0"),
    (masked_by(times_infinity), "zero_times_infinity", "0 times infinity"),
    (masked_by(one_minus_mask_times_infinity), "zero_times_infinity", "is NaN"),
    (masked_by(infinity_added, False), "empty_row_nan_gradient", "gradient is NaN"),
    (masked_by(infinity_filled, False), "empty_row_nan_gradient", "met the values"),
    (masked_by(filled_and_zeroed(-20.0)), "mask_fills_too_high", "no longer sums to 1"),
    (masked_by(filled_and_zeroed(-1e4)), "mask_fills_too_high", "no longer sums to 1"),
    (through_numpy, "no_gradient", "left torch"),
    (masks_of_two_axes_only, "mask_of_first_sentence", "On padding left and right"),
    (if_mask, "mask_truth", "neither true nor false"),
    (mask_with_one_axis_more, None, "broadcasts to (B, H, L, L) as it comes"),
    (heads_averaged_before_w_o, None, "all heads side by side"),
    (in_place, "changes_input", "argument number 1"),
    (dropping, "random", "draws random numbers"),
    (in_half, None, "two digits"),
    (mask_kept, None, "an earlier call (a mask of shape (L, L))"),
    (lambda *a: a[0] * float("nan"), None, "NaN or infinite"),
    (lambda *a: torch.zeros(10**7), None, "must have shape (2, 4, 15)"),
]


@pytest.mark.parametrize("answer, name, words", WRONG)
def test_wrong_answers_are_told(answer, name, words):
    verdict = check(LAYER, answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message
    assert words in verdict.message, verdict.message


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


def test_the_lesson_asks_for_all_of_them():
    (path,) = lesson.find(["09"])
    source = json.dumps(json.loads(path.read_text(encoding="utf-8")))
    assert all(f'check(\\"{exercise}\\"' in source for exercise in FUNCTIONS)

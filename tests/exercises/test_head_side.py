"""Grouped-query attention, of lesson 18: every right way accepted, every known mistake named."""

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

GQA = "gqa"


def by_torch(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def by_loops(q, k, v, mask=None):
    b, hq, n, d = q.shape
    group, out = hq // k.shape[1], torch.empty_like(q)
    full = torch.ones(b, hq, n, k.shape[2], dtype=torch.bool) if mask is None else mask.expand(b, hq, n, -1)
    for i in range(b):
        for h in range(hq):
            for t in range(n):
                seen = full[i, h, t]
                keys, values = k[i, h // group][seen], v[i, h // group][seen]
                out[i, h, t] = (keys @ q[i, h, t] / d**0.5).softmax(0) @ values
    return out


def by_groups(q, k, v, mask=None):
    b, hq, n, d = q.shape
    grouped = q.view(b, k.shape[1], -1, n, d) if q.is_contiguous() else q.reshape(b, k.shape[1], -1, n, d)
    scores = torch.einsum("bkgld,bksd->bkgls", grouped, k) * d**-0.5
    if mask is not None:
        scores = scores.masked_fill(~mask.expand(b, hq, n, -1).reshape(scores.shape), -1e9)
    return torch.einsum("bkgls,bksd->bkgld", scores.softmax(-1), v).reshape(q.shape)


def by_expansion(q, k, v, mask=None):
    b, hkv, s, d = k.shape
    k, v = (a[:, :, None].expand(b, hkv, q.shape[1] // hkv, s, d).reshape(b, -1, s, d) for a in (k, v))
    scores = (q / d**0.5) @ k.mT
    return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1) @ v


def renormalised(q, k, v, mask=None):
    k, v = (a[:, [h // (q.shape[1] // a.shape[1]) for h in range(q.shape[1])]] for a in (k, v))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    if mask is not None:
        weights = weights * mask
        weights = weights / weights.sum(-1, keepdim=True)
    return weights @ v


@pytest.mark.parametrize("answer", [by_torch, by_loops, by_groups, by_expansion, renormalised])
def test_right_answers_pass(answer):
    verdict = check(GQA, answer)
    assert verdict.passed is True, verdict.message


def test_the_solution_passes_and_hints_stand():
    assert check(GQA, its_solution(GQA, "grouped_query_attention")).passed is True
    assert len(EXERCISES[GQA].hints) in (2, 3)
    assert EXERCISES[GQA].lesson == "18"


UNTOLD = ()


@pytest.mark.parametrize("exercise, mistake", mistakes(GQA, untold=UNTOLD),
                         ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


PAIRS = [
    ({"keys": "tiled", "values": "tiled", "scale": "none"}, "tiled and no_scale"),
    ({"values": "tiled", "masking": "inverted"}, "tiled_values and mask_inverted"),
    ({"keys": "tiled", "values": "tiled", "scale": "keys"}, "tiled and scale_of_the_length"),
    ({"queries": "groups_first", "scale": "none"}, "queries_in_another_order and no_scale"),
    ({"axis": -2, "keys": "first", "values": "first"}, "first_head_for_all and softmax_over_queries"),
]


@pytest.mark.parametrize("choices, names", PAIRS)
def test_two_mistakes_together_are_named(choices, names):
    verdict = check(GQA, making(GQA, **choices))
    assert verdict.misconception == names
    assert "Two things at once" in verdict.message


def spread_by(choose):
    def answer(q, k, v, mask=None):
        heads = [choose(h, q.shape[1], k.shape[1]) for h in range(q.shape[1])]
        return F.scaled_dot_product_attention(q, k[:, heads], v[:, heads], attn_mask=mask)

    return answer


def repeated(q, k, v, mask=None):
    k, v = (a.repeat(1, q.shape[1] // a.shape[1], 1, 1) for a in (k, v))
    return by_torch(q, k, v, mask)


def odd_ones_swapped(h, hq, hkv):
    return (h // (hq // hkv)) ^ 1 if h == hq - 1 and hkv == 2 else h // (hq // hkv)


def scores_halved(q, k, v, mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True, scale=0.3)


def mask_of_two_axes_only(q, k, v, mask=None):
    return by_torch(q, k, v, mask if mask is None or mask.ndim == 2 else mask[0, 0])


def leaks(q, k, v, mask=None):
    if mask is None:
        return by_torch(q, k, v)
    hide = torch.where(mask, 0.0, -2.5).to(q.dtype)
    return by_torch(q, k, v, hide.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2]))


def interleaved_groups(mask_too, back):
    """Query heads cut into (G, Hkv), as where h % Hkv were the key head."""

    def answer(q, k, v, mask=None):
        b, hq, n, d = q.shape
        shape = b, hq // k.shape[1], k.shape[1], n
        scores = torch.einsum("bkgld,bksd->bkgls", q.reshape(*shape, d).transpose(1, 2), k) / d**0.5
        if mask is not None:
            mask = mask.expand(b, hq, n, k.shape[2])
            cut = mask.reshape(*shape, -1).transpose(1, 2) if mask_too else mask.reshape(scores.shape)
            scores = scores.masked_fill(~cut, -torch.inf)
        out = torch.einsum("bkgls,bksd->bkgld", scores.softmax(-1), v)
        return (out.transpose(1, 2) if back else out).reshape(q.shape)

    return answer


def inverted_by(hide, tiled=False):
    def answer(q, k, v, mask=None):
        group = q.shape[1] // k.shape[1]
        k, v = ((a.repeat(1, group, 1, 1) if tiled else a.repeat_interleave(group, 1)) for a in (k, v))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return (scores.softmax(-1) if mask is None else hide(scores, mask)) @ v

    return answer


def infinite(scores, mask):
    return scores.masked_fill(mask, -torch.inf).softmax(-1)


def large(scores, mask):
    return scores.masked_fill(mask, -1e9).softmax(-1)


WRONG = [
    (interleaved_groups(False, False), "queries_in_another_order", "(Hkv, G)"),
    (interleaved_groups(True, False), "queries_in_another_order", "(Hkv, G)"),
    (interleaved_groups(False, True), "queries_in_another_order", "(Hkv, G)"),
    (interleaved_groups(True, True), "tiled", "h % Hkv"),
    (inverted_by(infinite), "mask_inverted", "gives NaN"),
    (inverted_by(large), "mask_inverted", "weighs all keys alike"),
    (inverted_by(lambda s, mask: infinite(s, mask).nan_to_num()), "mask_inverted", "True hides"),
    (inverted_by(infinite, tiled=True), "tiled and mask_inverted", "Two things"),
    (inverted_by(large, tiled=True), "tiled and mask_inverted", "Two things"),
    (spread_by(lambda h, hq, hkv: h // hkv % hkv), "divided_by_key_heads", "Hq // Hkv"),
    (lambda q, *rest: 0 * q, None, "Your result is all zeros"),
    (spread_by(lambda h, hq, hkv: h % hkv), "tiled", "h % Hkv"),
    (repeated, "tiled", "repeat"),
    (spread_by(odd_ones_swapped), None, "Query head 5 averages the values of key/value head 0; it should be"),
    (scores_halved, None, "scores 0.671 times as large"),
    (mask_of_two_axes_only, None, "which the mask hides"),
    (leaks, None, "which the mask hides"),
    (lambda *a: by_torch(*a).transpose(1, 2), "heads_behind_positions", "(B, L, Hq, d)"),
    (lambda *a: by_torch(*a).round(decimals=2), None, "two digits"),
    (lambda *a: by_torch(*a) * (torch.rand(()) + 1), "random", "draws random numbers"),
    (lambda q, k, v, mask=None: q * float("nan"), None, "NaN or infinite"),
    (lambda q, k, v: by_torch(q, k, v), None, "4 were given"),
]


@pytest.mark.parametrize("answer, name, words", WRONG)
def test_wrong_answers_are_told(answer, name, words):
    verdict = check(GQA, answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message
    assert words in verdict.message, verdict.message


@pytest.mark.parametrize("error", ERRORS)
def test_a_function_that_always_raises_makes_no_known_mistake(error):
    told_when_raising(GQA, error)


@pytest.mark.parametrize("result", RESULTS)
def test_a_result_of_another_kind_is_judged(result):
    odd(GQA, result)


def test_what_is_no_function_is_refused_and_stubs_are_unanswered():
    for answer in NO_FUNCTIONS:
        assert "Give a function" in check(GQA, answer).message
    assert check(GQA, stub).passed is None
    assert check(GQA, None).passed is None

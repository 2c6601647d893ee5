"""The judges of attention under a mask: right ways accepted, mistakes named, odd input survived."""

import inspect
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import attnlib
from attnlib.exercises import check
from attnlib.exercises.masked_attention import EXERCISES

FUNCTIONS = {exercise.id: exercise.judge for exercise in EXERCISES}
SOLUTIONS = {exercise.id: exercise.solution for exercise in EXERCISES}

# Right answers, written in as many ways as learners write them


def attention_plain(q, k, v, mask=None):
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = e.sum(-1, keepdims=True)
    weights = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    return weights @ v, weights


def attention_mends_nan(q, k, v, mask=None):
    scores = np.einsum("...qd,...kd->...qk", q.astype(float) / q.shape[-1] ** 0.5, k)
    scores = scores if mask is None else scores + np.where(mask, 0.0, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        weights = np.nan_to_num(e / e.sum(-1, keepdims=True))
    return weights @ v, weights


def attention_by_loops(q, k, v, mask=None):
    lead = q.shape[:-2]
    if mask is None:
        mask = np.ones((1, 1), bool)
    mask = np.broadcast_to(mask, (*lead, q.shape[-2], k.shape[-2]))
    out, weights = np.zeros((*q.shape[:-1], v.shape[-1])), np.zeros(mask.shape)
    for place in np.ndindex(*lead, q.shape[-2]):
        seen = np.flatnonzero(mask[place])
        if len(seen):
            row = k[place[:-1]][seen].astype(float) @ q[place].astype(float) / np.sqrt(q.shape[-1])
            e = np.exp(row - row.max())
            weights[place][seen] = e / e.sum()
            out[place] = weights[place] @ v[place[:-1]].astype(float)
    return out, weights


def attention_lowest_then_cleared(q, k, v, mask=None):
    scores = q.astype(float) @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    mask = np.ones_like(scores, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    scores[~mask] = np.finfo(float).min
    e = np.exp(scores - scores.max(-1, keepdims=True)) * mask
    weights = e / np.where(e.sum(-1, keepdims=True) > 0, e.sum(-1, keepdims=True), 1)
    return weights @ v, weights


def attention_by_torch(q, k, v, mask=None):
    q, k, v = (torch.tensor(x, dtype=torch.float64) for x in (q, k, v))
    scores = q @ k.mT / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~torch.tensor(mask), -torch.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return (weights @ v).numpy(), weights.numpy()


def attention_in_float32(q, k, v, mask=None):
    return attention_plain(*(x.astype(np.float32) for x in (q, k, v)), mask)


def padded_fused(q, k, v, key_padding_mask):
    return scaled_dot_product_attention(q, k, v, attn_mask=~key_padding_mask[:, None, None])


def padded_plain(q, k, v, key_padding_mask):
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(key_padding_mask[:, None, None, :], float("-inf"))
    return torch.nan_to_num(scores.softmax(-1)) @ v


def padded_lowest(q, k, v, key_padding_mask):
    hidden = key_padding_mask.unsqueeze(1).unsqueeze(2)
    scores = torch.einsum("bhld,bhsd->bhls", q, k) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return scores.softmax(-1).masked_fill(hidden, 0) @ v


def padded_by_loops(q, k, v, key_padding_mask):
    out = torch.zeros_like(q)
    for b in range(q.shape[0]):
        real = ~key_padding_mask[b]
        if real.any():
            for h in range(q.shape[1]):
                scores = q[b, h].float() @ k[b, h][real].float().T / q.shape[-1] ** 0.5
                out[b, h] = (scores.softmax(-1) @ v[b, h][real].float()).to(q.dtype)
    return out


def attention_own_type_scaled_before(q, k, v, mask=None):
    """float32 stays float32, and what is smaller becomes it."""
    kind = np.result_type(q, np.float32)
    scores = np.einsum("...qd,...kd->...qk", q.astype(kind) / kind.type(q.shape[-1] ** 0.5), k.astype(kind))
    if mask is not None:
        scores = np.where(mask, scores, kind.type(-np.inf))
    top = scores.max(-1, keepdims=True, initial=np.finfo(kind).min)
    e = np.exp(scores - top)
    weights = e / np.maximum(e.sum(-1, keepdims=True), kind.type(1e-6))
    return weights @ v.astype(kind), weights


def attention_masked_later(q, k, v, mask=None):
    """The exponentials are masked and divided by what is left; the largest score is a visible one."""
    scores = (q.astype(float) @ k.astype(float).swapaxes(-1, -2)) / np.sqrt(q.shape[-1])
    seen = np.broadcast_to(True if mask is None else mask, scores.shape)
    top = np.max(scores, -1, keepdims=True, where=seen, initial=-np.inf)
    e = np.zeros_like(scores)
    np.exp(scores - np.where(np.isinf(top), 0, top), out=e, where=seen)
    e[~seen] = 0
    total = e.sum(-1, keepdims=True)
    weights = np.divide(e, total, out=np.zeros_like(e), where=total != 0)
    return np.matmul(weights, v), weights


def padded_native(q, k, v, key_padding_mask):
    """All in the type of the input, half precision too."""
    scores = (q * q.shape[-1] ** -0.5) @ k.mT
    scores = scores.masked_fill(key_padding_mask[:, None, None], -torch.inf)
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return torch.nan_to_num(e / e.sum(-1, keepdim=True)) @ v


RIGHT = {
    "attention": [
        attention_plain,
        attention_mends_nan,
        attention_by_loops,
        attention_own_type_scaled_before,
        attention_masked_later,
        attention_lowest_then_cleared,
        attention_by_torch,
        attention_in_float32,
        lambda q, k, v, mask=None: [x.astype(np.float32) for x in attention_plain(q, k, v, mask)],
    ],
    "padded_attention": [
        padded_fused,
        padded_plain,
        padded_lowest,
        padded_by_loops,
        padded_native,
        lambda q, k, v, m: padded_plain(q.double(), k.double(), v.double(), m),
    ],
}


# Wrong answers


def attention_in_the_inputs_own_type(q, k, v, mask=None):
    """float16 stays float16; float32 and whole numbers as NumPy promotes them."""
    own = q.dtype if q.dtype.kind == "f" else float
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]).astype(own)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf).astype(scores.dtype)
    scores = scores - np.maximum(scores.max(-1, keepdims=True), np.finfo(scores.dtype).min)
    e = np.exp(scores)
    weights = e / np.maximum(e.sum(-1, keepdims=True), 1e-6).astype(e.dtype)
    return weights @ v, weights


def attention_converted_late(q, k, v, mask=None):
    scores = np.einsum("...qd,...kd->...qk", q / q.shape[-1] ** 0.5, k).astype(float)
    scores = scores if mask is None else scores + np.where(mask, 0.0, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        weights = np.nan_to_num(e / e.sum(-1, keepdims=True))
    return weights @ v, weights


def attention_converted_later(q, k, v, mask=None):
    scores = (q @ np.swapaxes(k, -1, -2)).astype(float) / q.shape[-1] ** 0.5
    mask = np.ones_like(scores, bool) if mask is None else np.broadcast_to(mask, scores.shape)
    scores[~mask] = np.finfo(float).min
    e = np.exp(scores - scores.max(-1, keepdims=True)) * mask
    weights = e / np.where(e.sum(-1, keepdims=True) > 0, e.sum(-1, keepdims=True), 1)
    return weights @ v, weights


def by_softmax(scores, v):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    return weights @ v, weights


def scores_of(q, k):
    return q.astype(float) @ np.swapaxes(k, -1, -2).astype(float) / np.sqrt(q.shape[-1])


def shows_all_if_none(q, k, v, mask=None):
    return attention_plain(q, k, v, None if mask is None else ~mask)


def fills(value):
    def attention(q, k, v, mask=None):
        scores = scores_of(q, k)
        return by_softmax(scores if mask is None else np.where(mask, scores, value), v)

    return attention


def masks_after(q, k, v, mask=None):
    out, weights = by_softmax(scores_of(q, k), v)
    weights = weights if mask is None else weights * mask
    return weights @ v, weights


def masks_and_renormalises(q, k, v, mask=None):
    _, weights = by_softmax(scores_of(q, k), v)
    if mask is not None:
        weights = weights * mask
        total = weights.sum(-1, keepdims=True)
        weights = weights / np.where(total > 0, total, 1)
    return weights @ v, weights


def no_max(q, k, v, mask=None):
    e = np.exp(scores_of(q, k)) * (1 if mask is None else mask)
    weights = e / e.sum(-1, keepdims=True)
    return weights @ v, weights


def in_place(q, k, v, mask=None):
    q /= np.sqrt(q.shape[-1])
    return attention_plain(q, k * np.sqrt(q.shape[-1]), v, mask)


def boolean_index(q, k, v, mask=None):
    scores = scores_of(q, k)
    if mask is not None:
        scores[~mask] = -np.inf
    return by_softmax(scores, v)


def last_axis_by_number(q, k, v, mask=None):
    scores = scores_of(q, k)
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    top = scores.max(1, keepdims=True)
    e = np.exp(scores - np.where(np.isinf(top), 0, top))
    weights = e / np.maximum(e.sum(1, keepdims=True), 1e-300)
    return weights @ v, weights


def unscaled_and_over_queries(q, k, v, mask=None):
    scores = scores_of(q, k) * np.sqrt(q.shape[-1])
    scores = scores if mask is None else np.where(mask, scores, -np.inf)
    top = scores.max(-2, keepdims=True)
    e = np.exp(scores - np.where(np.isinf(top), 0, top))
    weights = e / np.maximum(e.sum(-2, keepdims=True), 1e-300)
    return weights @ v, weights


def padded_naive(q, k, v, m):
    return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(m[:, None, None], float("-inf")).softmax(-1) @ v


def padded_1e9(q, k, v, m):
    return (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(m[:, None, None], -1e9).softmax(-1) @ v


def padded_where(q, k, v, m):
    return torch.where(m[:, None, None], -1e9, q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


def padded_with(number, how):
    """The ways to hide that come to mind first: a number written over the scores, or added to them."""

    def attention(q, k, v, m):
        scores, m = q @ k.mT / q.shape[-1] ** 0.5, m[:, None, None]
        value = torch.finfo(scores.dtype).min if number == "lowest" else number
        if how == "written":
            scores = scores.masked_fill(m, value)
        elif how == "added":
            scores = scores + torch.zeros(m.shape).masked_fill(m, value)
        elif how == "added in the scores' own type":
            scores = scores + torch.zeros(m.shape, dtype=scores.dtype).masked_fill(m, value)
        elif how == "times the mask":
            scores = scores + m * value
        elif how == "unless all are hidden":
            scores = scores.masked_fill(m & ~m.all(-1, keepdim=True), value)
        return scores.softmax(-1) @ v

    return attention


def padded_rows(q, k, v, m):
    return torch.nan_to_num((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(m, float("-inf")).softmax(-1)) @ v


def padded_values(q, k, v, m):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v.masked_fill(m[:, None, :, None], 0)


def padded_numpy(q, k, v, m):
    return padded_plain(q, k, v, m).numpy()


def attention_where(condition, wrong):
    """Right but where the condition on the arguments holds."""

    def attention(q, k, v, mask=None):
        return (wrong if condition(q, k, mask) else attention_plain)(q, k, v, mask)

    return attention


def causal(q, k, v, mask=None):
    return attention_plain(q, k, v, np.tri(q.shape[-2], k.shape[-2], dtype=bool))


def spread_a_little(q, k, v, mask=None):
    weights = attention_plain(q, k, v, mask)[1]
    weights = np.where(weights.sum(-1, keepdims=True) > 0, weights + 1e-13, 0)
    return weights @ v, weights


def with_epsilon(q, k, v, mask=None):
    out, weights = attention_plain(q, k, v, mask)
    return out / 1.001, weights / 1.001


def of_halves(q, k, v, m):
    return padded_native(q.half(), k.half(), v.half(), m).to(q.dtype)


def padded_dropped(q, k, v, m):
    return scaled_dot_product_attention(q, k, v, attn_mask=~m[:, None, None], dropout_p=0.1)


def padded_viewed(q, k, v, m):
    b, h, n, d = q.shape
    q, k, v = (x.view(b * h, -1, d) for x in (q, k, v))
    scores = (q @ k.mT / d**0.5).masked_fill(m.repeat_interleave(h, 0)[:, None], float("-inf"))
    return (torch.nan_to_num(scores.softmax(-1)) @ v).reshape(b, h, n, d)


def padded_cached():
    kept = {}

    def attention(q, k, v, m):
        return padded_plain(q, k, v, kept.setdefault((q.shape, m.shape), m))

    return attention


def cut_below(least):
    """Small weights set to 0."""

    def attention(q, k, v, mask=None):
        weights = attention_plain(q, k, v, mask)[1]
        weights = np.where(weights < least, 0, weights)
        return weights @ v, weights

    return attention


def mask_of_two_more_axes(q, k, v, mask=None):
    return attention_plain(q, k, v, mask if mask is None else mask[None, None])


def uniform_where_hidden(q, k, v, mask=None):
    weights = attention_plain(q, k, v, mask)[1]
    weights = np.where(weights.any(-1, keepdims=True), weights, 1 / k.shape[-2])
    return weights @ v, weights


def summed_with(number):
    """A number added to the sum of exponentials."""

    def attention(q, k, v, mask=None):
        scores = scores_of(q, k) if mask is None else np.where(mask, scores_of(q, k), -np.inf)
        top = scores.max(-1, keepdims=True)
        e = np.exp(scores - np.where(np.isinf(top), 0, top))
        weights = e / (e.sum(-1, keepdims=True) + number)
        return weights @ v, weights

    return attention


def scores_by_their_sum(q, k, v, mask=None):
    scores = scores_of(q, k) if mask is None else scores_of(q, k) * mask
    weights = scores / scores.sum(-1, keepdims=True)
    return weights @ v, weights


def letters(score, average):
    """Attention by einsums with a fixed number of axes."""

    def attention(q, k, v, mask=None):
        scores = np.einsum(score, q.astype(float), k) / q.shape[-1] ** 0.5
        weights = attention_plain(scores * scores.shape[-1] ** 0.5, np.eye(scores.shape[-1]), v, mask)[1]
        return np.einsum(average, weights, v), weights

    return attention


def names_for_four_axes(q, k, v, mask=None):
    b, h, n, d = q.shape
    return attention_plain(q.reshape(b, h, n, d), k, v, mask)


def padded_summed_with(number):
    def attention(q, k, v, m):
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(m[:, None, None], float("-inf"))
        top = scores.amax(-1, keepdim=True)
        e = (scores - top.masked_fill(top.isinf(), 0)).exp()
        return e / (e.sum(-1, keepdim=True) + number) @ v

    return attention


LATER = [
    ("attention", fills(-1e9), "fill_1e9", "number such as -1e9"),
    ("attention", fills(-1e4), "fill_1e9", "number such as"),
    ("attention", fills(np.finfo(float).min), "uniform_rows", "large negative number"),
    ("attention", fills(1e-9), "fill_zero", "1e-9"),
    ("attention", fills(-np.inf), "nan_rows", "0/0"),
    ("attention", shows_all_if_none, "polarity", "may attend"),
    ("attention", masks_after, "masked_after", "no longer sums to 1"),
    ("attention", masks_and_renormalises, "shift_sees_hidden", "underflow"),
    ("attention", no_max, "nan_rows and overflow_masked_later", "largest visible"),
    ("attention", in_place, "changes_input", "Work on a copy"),
    ("attention", boolean_index, "polarity and mask_as_index", "raised IndexError"),
    ("attention", unscaled_and_over_queries, "no_scale and softmax_over_queries", "Two things"),
    ("attention", lambda q, k, v, mask=None: attention_plain(q, k, v, mask)[::-1], "weights_first", "order"),
    ("attention", last_axis_by_number, "softmax_axis_1", "Count from the end"),
    ("attention", lambda *a: attention_plain(*a)[0], "output_alone", "must return 2 results"),
    ("attention", lambda *a: [2 * x for x in attention_plain(*a)], None, "sum to 2 "),
    ("attention", lambda q, k, v, mask: attention_plain(q, k, v, mask), "signature", "mask=None"),
    ("attention", lambda *a: attnlib.attention(*a, return_weights=True), "package", "calls the package"),
    ("padded_attention", padded_naive, "nan_rows", "0/0"),
    ("padded_attention", padded_1e9, "half_fill", "65504"),
    ("padded_attention", padded_where, "half_fill", "minus infinity in float16"),
    ("padded_attention", padded_with("lowest", "written"), "uniform_rows", "large negative number"),
    ("padded_attention", padded_with(-1e4, "written"), "fill_1e9", "a score like any other"),
    ("padded_attention", padded_with(-1e4, "added"), "added", "float32 does not go"),
    ("padded_attention", padded_with(-1e4, "added in the scores' own type"), "added", "no difference"),
    ("padded_attention", padded_with(-1e9, "added"), "added", "float32 does not go"),
    ("padded_attention", padded_with(-torch.inf, "added"), "half_nan", "half precision raises"),
    ("padded_attention", padded_with(-torch.inf, "times the mask"), "times_infinity", "0 times infinity"),
    ("padded_attention", padded_with(-torch.inf, "unless all are hidden"), "empty_rows_opened", "you open"),
    ("padded_attention", padded_with(-1e9, "unless all are hidden"), "half_opened", "after all"),
    ("padded_attention", padded_rows, "as_rows", "(queries, keys)"),
    ("padded_attention", padded_values, "masked_after", "values to 0"),
    ("padded_attention", lambda q, k, v, m: padded_plain(q, k, v, ~m), "polarity", "nn.MultiheadAttention"),
    ("padded_attention", lambda q, k, v, m: padded_plain(q, k, v, m[:, None, None])[:, :, 0], None, ""),
    ("padded_attention", padded_numpy, None, "padded on the right, the result must be a torch tensor"),
    ("attention", attention_in_the_inputs_own_type, "own_type", "65504"),
    ("attention", attention_converted_late, "own_type", "65504"),
    ("attention", attention_converted_later, "own_type", "65504"),
    ("attention", attention_where(lambda q, k, mask: mask is None and q.shape[-2] == k.shape[-2], causal),
     "causal_too", "nothing is hidden"),
    ("attention", attention_where(lambda q, k, mask: mask is not None and k.shape[-2] == 1,
     lambda q, k, v, mask: attention_plain(q, k, v)), "one_key_unmasked", "single key"),
    ("attention", attention_where(lambda q, k, mask: mask is not None and not mask.any(),
     lambda q, k, v, mask: attention_plain(q, k, v)), "all_hidden_skipped", "leave it out"),
    ("attention", spread_a_little, None, "e-13, and the mask hides it"),
    ("attention", with_epsilon, None, "sum to 0.999 over the keys, and should sum to 1"),
    ("attention", cut_below(0.01), None, "is 0, and its key is visible: it should be 0.00"),
    ("attention", lambda *a: [x.round(2) for x in attention_plain(*a)], None, "should sum to 1"),
    ("attention", lambda *a: (attention_plain(*a)[0] * 1.002, attention_plain(*a)[1]), None,
     "two or three digits only"),
    ("attention", uniform_where_hidden, "uniform_rows", "must not see"),
    ("attention", summed_with(1e-3), "epsilon", "sum to less than 1"),
    ("attention", lambda *a: attention_plain(*a)[1:] * 2, "weights_twice", "weights times the values"),
    ("attention", mask_of_two_more_axes, "axis_added_to_mask", "It broadcasts"),
    ("attention", letters("qd,kd->qk", "qk,kd->qd"), "two_axes_only", "count from the end"),
    ("attention", letters("bqd,bkd->bqk", "bqk,bkd->bqd"), "one_batch_axis", "count from the end"),
    ("attention", letters("bhqd,bhkd->bhqk", "bhqk,bhkd->bhqd"), "batch_and_heads_only", "as if there were"),
    ("attention", names_for_four_axes, "batch_and_heads_only", "not enough values to unpack"),
    ("attention", scores_by_their_sum, "no_exponential and nan_rows", "exponentials first"),
    ("padded_attention", padded_summed_with(1e-2), "epsilon", "sum to less than 1"),
    ("padded_attention", lambda *a: padded_plain(*a) * 1.004, None, "two or three digits only"),
    ("padded_attention", lambda q, k, v, m: padded_plain(q, k, v, m & (torch.arange(m.shape[1]) > 0)),
     "first_key_shown", "on the left"),
    ("attention", lambda *a: [np.squeeze(x) for x in attention_plain(*a)], "squeezed", "keeps its axis"),
    ("attention", lambda *a: [x.astype(a[0].dtype) for x in attention_plain(*a)], "whole_results", "cut off"),
    ("attention", lambda *a: (attention_plain(*a)[1] @ (2 * a[2]), attention_plain(*a)[1]), None,
     "The weights are right, and the output is not"),
    ("padded_attention", of_halves, None, "numbers are those of float16"),
    ("padded_attention", padded_dropped, "random", "draws random numbers"),
    ("padded_attention", padded_viewed, None, "side by side"),
    ("padded_attention", padded_cached(), None, "an earlier call kept"),
    ("padded_attention", lambda q, k, v, m: padded_plain(q, k, v, m & ~m.all(1, keepdim=True)),
     "empty_rows_opened", "must not see"),
]

PAIRS = [
    ("attention", ("polarity", "no_scale")), ("attention", ("scale_linear", "nan_rows")),
    ("attention", ("softmax_over_queries", "weights_first")),
    ("attention", ("uniform_rows", "keys_averaged")),
    ("padded_attention", ("polarity", "no_scale")), ("padded_attention", ("scale_of_keys", "nan_rows")),
    ("padded_attention", ("softmax_over_heads", "keys_averaged")),
]  # fmt: skip


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    start = time.process_time()
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


def making(exercise, **choices):
    """The function that makes the mistakes with these choices, with the defaults of the right one."""
    compute = FUNCTIONS[exercise].compute
    keywords = [p for p in inspect.signature(compute).parameters.values() if p.kind is p.KEYWORD_ONLY]
    right = {p.name: p.default for p in keywords}

    def function(*args, **kwargs):
        return compute(*args, **kwargs, **right | choices)

    function.__signature__ = inspect.signature(compute).replace(
        parameters=[p for p in inspect.signature(compute).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    )
    return function


@pytest.mark.parametrize(
    "exercise, mistake", [(name, m) for name, judge in FUNCTIONS.items() for m in judge.mistakes],
    ids=lambda x: getattr(x, "name", x),
)
def test_each_mistake_is_named_with_its_own_hint(exercise, mistake):
    start = time.process_time()
    verdict = check(exercise, making(exercise, **mistake.choices), show=False)
    assert verdict.passed is False and verdict.misconception == mistake.name, verdict.message
    assert mistake.hint in verdict.message and len(verdict.message) < 620
    assert "it may not be all" not in verdict.message
    assert mistake.convention == ("another convention" in verdict.message)
    assert time.process_time() - start < 10  # a second or less on an idle machine


@pytest.mark.parametrize("exercise, names", PAIRS)
def test_pairs_are_named(exercise, names):
    mistakes = {mistake.name: mistake for mistake in reversed(FUNCTIONS[exercise].mistakes)}
    choices = mistakes[names[0]].choices | mistakes[names[1]].choices
    verdict = check(exercise, making(exercise, **choices), show=False)
    assert verdict.passed is False and verdict.misconception == " and ".join(names), verdict.message
    assert "Two things at once" in verdict.message


@pytest.mark.parametrize("exercise, answer, misconception, words", LATER)
def test_wrong_answers_are_told_what_is_wrong(exercise, answer, misconception, words):
    start = time.process_time()
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.misconception == misconception, verdict
    assert words in verdict.message and len(verdict.message) < 620, verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


class Equal(np.ndarray):
    def __eq__(self, other):
        return True


ODD = [
    7, "text", None.__class__, lambda *a, **k: None, lambda *a, **k: "text", lambda *a, **k: np.nan,
    lambda *a, **k: np.zeros((0,)), lambda *a, **k: np.full((3, 5), np.nan), lambda *a, **k: {}, lambda: 1,
    lambda *a, **k: np.zeros(10**6, bool), lambda *a, **k: torch.zeros(3), lambda *a, **k: 1 / 0,
    lambda *a, **k: a[0], lambda *a, **k: (np.zeros((3, 2)), "text"), print,
    lambda *a, **k: np.array(["a", None], object), lambda *a, **k: np.array([True, False]),
    lambda *a, **k: np.ones((3, 5), complex), lambda *a, **k: np.zeros((3, 5), bool).view(Equal),
    lambda *a, **k: (torch.ones(3, 2), np.ones((3, 5), complex)),
    lambda *a, **k: (np.ones((3, 2), object), np.ones((3, 5), "U1")),
]  # fmt: skip


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("answer", ODD)
def test_odd_answers_are_refused_without_a_crash(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_function_that_always_raises_makes_no_known_mistake(exercise):
    verdict = check(exercise, lambda *a, **k: 1 / 0, show=False)
    assert verdict.misconception is None and "division by zero" in verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_no_mistake_raises_on_every_case(exercise):
    judge = FUNCTIONS[exercise]

    def raises(case, choices):
        try:
            judge.compute(*case.args, **choices)
        except Exception:
            return True
        return False

    with np.errstate(all="ignore"):
        for mistake in judge.mistakes:
            assert not all(raises(case, mistake.choices) for case in judge.cases()), mistake.name


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_hints_of_mistakes_are_whole_sentences(exercise):
    for mistake in FUNCTIONS[exercise].mistakes:
        hint = mistake.hint
        assert hint[0].isupper() and hint[-1] in ".?" and "!" not in hint, mistake.name


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_stub_is_not_answered_and_the_solution_is_right(exercise):
    def stub(*args, **kwargs):
        raise NotImplementedError

    assert check(exercise, stub, show=False).passed is None
    space = {}
    exec(SOLUTIONS[exercise], space)
    assert check(exercise, space[exercise], show=False).passed is True


def test_the_package_passes_its_own_exercise():
    def packaged(q, k, v, mask=None):
        return attnlib.attention(q, k, v, mask, return_weights=True)

    assert replace(FUNCTIONS["attention"], package=True)(packaged).passed is True


def test_right_attention_in_torch_is_called_right_but_for_its_type():
    def in_torch(*arguments):
        return tuple(torch.tensor(part, requires_grad=True) for part in attention_plain(*arguments))

    message = check("attention", in_torch).message
    assert "The numbers are right; only they come as torch tensors" in message
    for wrong in (lambda part: 2 * part, lambda part: part.bfloat16(), lambda part: part > 0):
        message = check("attention", lambda *a: tuple(wrong(part) for part in in_torch(*a))).message  # noqa: B023
        assert "torch tensor" in message and "numbers are right" not in message


@pytest.mark.parametrize("function", [padded_plain, padded_native, padded_lowest])
def test_half_precision_in_its_own_arithmetic_is_well_within_the_tolerance(function):
    judge = FUNCTIONS["padded_attention"]
    halves = [case for case in judge.cases() if case.args[0].dtype == torch.float16]
    assert len(halves) >= 2
    for case in halves:
        ours = judge.compute(*case.args).double()
        apart = (function(*case.args).double() - ours).abs()
        assert (apart < 0.5 * (2e-3 + 1e-2 * ours.abs())).all(), case.name


def test_the_cases_reach_the_edges_of_the_contract():
    cases = FUNCTIONS["attention"].cases()
    kinds = {str(case.args[0].dtype) for case in cases}
    assert {"int64", "int8", "float16", "float32", "float64"} <= kinds
    ranks = {np.ndim(case.args[3]) for case in cases if len(case.args) > 3}
    assert ranks == {1, 2, 3, 4}

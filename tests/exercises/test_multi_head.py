"""Lesson 09's exercises: every right way accepted, every known mistake named."""

import json
import time

import lesson
import numpy as np
import pytest
import torch
from torch.nn import functional as F

import attnlib
from attnlib.exercises import check
from attnlib.exercises import multi_head as judges

# Right answers


def split_by_unflatten(x, n_heads):
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def split_by_chunks(x, n_heads):
    return torch.stack(x.chunk(n_heads, dim=-1), dim=1)


def split_by_loops(x, n_heads):
    b, length, width = x.shape
    d = width // n_heads
    out = torch.zeros(b, n_heads, length, d)
    for h in range(n_heads):
        for t in range(length):
            out[:, h, t] = x[:, t, h * d : (h + 1) * d]
    return out


def split_by_strides(x, n_heads):
    x = x.contiguous()
    b, length, width = x.shape
    d = width // n_heads
    return x.as_strided((b, n_heads, length, d), (length * width, d, width, 1))


def merge_by_contiguous_view(x):
    b, h, length, d = x.shape
    return x.transpose(1, 2).contiguous().view(b, length, h * d)


def merge_by_cat(x):
    return torch.cat(list(x.unbind(1)), dim=-1)


def merge_by_einsum(x):
    return torch.einsum("bhld->blhd", x).flatten(2)


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
    return merge_by_einsum(scores.softmax(-1).nan_to_num() @ v) @ w_o     # masked_fill stops the gradient


def dropout_plain(scores, p, training, keep):
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    return weights * keep / (1 - p) if training else weights


def dropout_by_torch(scores, p, training, keep):
    weights = torch.softmax(torch.tensor(scores), -1)
    if training:
        weights = torch.where(torch.tensor(keep) > 0, weights / (1 - p), 0.0)
    return weights.numpy()


def dropout_scaled_first(scores, p, training, keep):
    logs = scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True)
    if not training:
        return np.exp(logs)
    return np.where(np.asarray(keep, bool), np.exp(logs - np.log1p(-p)), 0)


def dropout_in_float32(scores, p, training, keep):
    return dropout_plain(scores.astype(np.float32), p, training, keep)


hidden = [[[1.0, 2.0], [2.0, 3.0]]]
wider = [[[1, 0, 2, 2], [2, 2, 5, 6]]]
long = np.arange(6.0)[[0, 1, 2, 1, 3, 4, 2, 4, 5]].reshape(1, 3, 3)            # a symmetric table of parts

RIGHT = {
    "price_of_heads": [
        (1, 1, 2, 0.5), [1.0, 1, 2, 1 / 2], np.array([1, 1, 2, 0.5]), torch.tensor([1, 1, 2, 0.5]),
    ],
    "exposing_input": [
        (1, 0), [1, 3], np.array([1, 2]), torch.tensor([1, 1]), (1.0, 0.0), (2, 2), (2, 3), (2, 4), (2, 5),
    ],
    "hiding_input": [
        (hidden, 2), (torch.tensor(hidden), 2), (np.array(hidden * 2), 2.0), (wider, 2), (long, 3),
    ],
    "split_heads": [split_by_unflatten, split_by_chunks, split_by_loops, split_by_strides],
    "merge_heads": [merge_by_contiguous_view, merge_by_cat, merge_by_einsum],
    "multi_head_attention": [
        by_torch, by_loops, by_einsum, heads_in_the_batch, infinite_fill_mended,
    ],
    "dropout_weights": [dropout_plain, dropout_by_torch, dropout_scaled_first, dropout_in_float32],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    start = time.process_time()
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


# The package's own functions are right, but no answer


def test_the_package_s_functions_are_right():
    def attnlib_layer(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
        layer = attnlib.MultiHeadAttention(x.shape[-1], n_heads, bias=False, dtype=x.dtype)
        weights = {"in_proj_weight": torch.cat([w_q.T, w_k.T, w_v.T]), "out_proj.weight": w_o.T}
        return torch.func.functional_call(layer, weights, (x,), {"mask": mask})

    ways = {"split_heads": attnlib.split_heads, "merge_heads": attnlib.merge_heads,
            "multi_head_attention": attnlib_layer}
    for exercise, function in ways.items():
        judge = judges.JUDGES[exercise]
        verdict = type(judge)(**{**vars(judge), "package": True})(function)
        assert verdict.passed is True, verdict.message


def test_a_call_of_the_package_is_no_answer():
    def mine(x, n_heads):
        return attnlib.split_heads(x, n_heads)

    assert check("split_heads", mine).misconception == "package"


# Mistakes

FUNCTIONS = {
    "split_heads": judges._split,
    "merge_heads": judges._merge,
    "multi_head_attention": judges._multi_head,
    "dropout_weights": judges._dropout,
}
MISTAKES = [
    (exercise, mistake) for exercise in FUNCTIONS for mistake in judges.JUDGES[exercise].mistakes
]


def making(exercise, **choices):
    """A function that makes the mistake; a wrapper, for the engine may not recognise it by identity."""
    return lambda *args: FUNCTIONS[exercise](*args, **choices)


@pytest.mark.parametrize("exercise, mistake", MISTAKES, ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    verdict = check(exercise, making(exercise, **mistake.choices))
    assert verdict.passed is False
    assert verdict.misconception == mistake.name
    assert mistake.hint[1:] in verdict.message
    assert ("another convention" in verdict.message) == mistake.convention


def test_a_mask_after_the_softmax_is_right_where_rows_are_brought_back_to_one():
    assert check("multi_head_attention", masked_by(renormalised)).passed is True


PAIRS = [
    ("multi_head_attention", {"scale": "model", "masking": "inverted"},
     "scale_of_the_model and mask_inverted"),
    ("multi_head_attention", {"project": "key_is_query", "output": "forgotten"},
     "same_projection and no_output_projection"),
    ("multi_head_attention", {"scale": "none", "empty": "uniform"}, "no_scale and empty_row_uniform"),
    ("multi_head_attention", {"axis": -2, "merge": "view"}, "merge_by_view and softmax_over_queries"),
    ("dropout_weights", {"kept": "inverted", "rescale": "none"}, "not_rescaled and keep_inverted"),
    ("dropout_weights", {"flag": "inverted", "axis": "all"}, "training_inverted and softmax_over_all"),
]


@pytest.mark.parametrize("exercise, choices, names", PAIRS)
def test_two_mistakes_together_are_named(exercise, choices, names):
    verdict = check(exercise, making(exercise, **choices))
    assert verdict.misconception == names
    assert "Two things at once" in verdict.message


# Mistakes as a learner would write them


def view_split(x, n_heads):
    return x.view(x.shape[0], n_heads, x.shape[1], -1)


def half_right_split(x, n_heads):
    return x.view(x.shape[0], x.shape[1], n_heads, -1)


def joined_by_view(x):
    return x.transpose(1, 2).view(x.shape[0], x.shape[2], -1)


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


def one_maximum_for_all(scores, p, training, keep):
    e = np.exp(scores - scores.max())
    weights = e / e.sum(-1, keepdims=True)
    return weights * keep / (1 - p) if training else weights


def through_numpy(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return torch.tensor(by_torch(x, w_q, w_k, w_v, w_o, n_heads, mask).detach().numpy())


def masks_of_two_axes_only(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    if mask is not None and mask.ndim == 4:
        mask = mask[0, 0]
    return by_torch(x, w_q, w_k, w_v, w_o, n_heads, mask)


def in_place(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    x.mul_(2)
    return x


def own_draw(scores, p, training, keep):
    keep = (np.random.default_rng(3).random(scores.shape) >= p).astype(float)
    return dropout_plain(scores, p, training, keep)


def shifts_in_place(scores, p, training, keep):
    scores -= scores.max(-1, keepdims=True)
    return dropout_plain(scores, p, training, keep)


def if_mask(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return by_torch(x, w_q, w_k, w_v, w_o, n_heads, mask if mask else None)


def mask_with_one_axis_more(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    return by_torch(x, w_q, w_k, w_v, w_o, n_heads, None if mask is None else mask.unsqueeze(1))


def heads_averaged_before_w_o(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    q, k, v = (split_by_chunks(x @ w, n_heads) for w in (w_q, w_k, w_v))
    return F.scaled_dot_product_attention(q, k, v).mean(1) @ w_o


def lost_numbers(x, n_heads):
    return split_by_chunks(x, n_heads)[:, :, :, :1].expand(-1, -1, -1, x.shape[-1] // n_heads)


WRONG = [
    ("split_heads", view_split, "view_without_transpose", "heads and positions are mixed"),
    ("split_heads", half_right_split, "no_transpose", "behind the positions"),
    ("split_heads", lost_numbers, None, "lost, or stand there twice"),
    ("split_heads", lambda x, n_heads: x, None, "must have shape (2, 3, 5, 4)"),
    ("split_heads", lambda x, n_heads: x.numpy(), None, "must be a torch tensor"),
    ("split_heads", lambda x: x, None, "raised TypeError"),
    ("split_heads", lambda x, n_heads: None, None, "returned None"),
    ("merge_heads", joined_by_view, "view_of_transposed", "What does copy?"),
    ("merge_heads", lambda x: x.flatten(2), None, "must have shape (2, 5, 12)"),
    ("multi_head_attention", infinite_fill, "empty_row_nan", "0/0"),
    ("multi_head_attention", masked_by(times_infinity), "zero_times_infinity", "0 times infinity"),
    ("multi_head_attention", masked_by(one_minus_mask_times_infinity), "zero_times_infinity", "is NaN"),
    ("multi_head_attention", masked_by(infinity_added, False), "empty_row_nan_gradient", "gradient is NaN"),
    ("multi_head_attention", masked_by(infinity_filled, False), "empty_row_nan_gradient", "met the values"),
    ("multi_head_attention", through_numpy, "no_gradient", "left torch"),
    ("multi_head_attention", masks_of_two_axes_only, None, "On padding left and right"),
    ("multi_head_attention", if_mask, None, "Boolean value of Tensor"),
    ("multi_head_attention", mask_with_one_axis_more, None, "broadcasts to (B, H, L, L) as it comes"),
    ("multi_head_attention", heads_averaged_before_w_o, None, "all heads side by side"),
    ("multi_head_attention", in_place, "changes_input", "argument number 1"),
    ("multi_head_attention", lambda *a: a[0] * float("nan"), None, "NaN or infinite"),
    ("multi_head_attention", lambda *a: torch.zeros(10**7), None, "must have shape (2, 5, 12)"),
    ("dropout_weights", one_maximum_for_all, "maximum_of_all", "1000 lower than the others"),
    ("dropout_weights", own_draw, None, "draw none"),
    ("dropout_weights", shifts_in_place, "changes_input", "argument number 1"),
    ("dropout_weights", lambda *a: "weights", None, "must be a NumPy array"),
    ("dropout_weights", lambda s, p, t, k: k, None, "should be"),
    ("price_of_heads", (2, 2, 2, 2), "twice_of_everything", "32 wide"),
    ("price_of_heads", (2, 2, 2, 1), "twice_of_everything", "24 heads of width 64"),
    ("price_of_heads", (2, 2, 2, 0.5), "twice_of_everything", "You halve the rank"),
    ("price_of_heads", (2, 2, 2, 7), "twice_of_everything", "32 wide"),
    ("price_of_heads", (2, 1, 2, 0.5), "parameters", "W_O keep their shape"),
    ("price_of_heads", (1, 2, 2, 0.5), "multiplications", "half as long"),
    ("price_of_heads", (1, 1, 1, 0.5), "weights", "however narrow"),
    ("price_of_heads", (1, 1, 2, 1), "rank", "from 64 to 32"),
    ("price_of_heads", (1, 1, 2), None, "4 numbers"),
    ("price_of_heads", "none", None, "'none'"),
    ("price_of_heads", (1, 1, np.nan, 1), None, "finite"),
    ("exposing_input", (0, 0), "hidden", "nobody sees the fault"),
    ("exposing_input", (3, 5), "hidden", "nobody sees the fault"),
    ("exposing_input", (0, 2), "other_head", "into head 0, into the row of word 1"),
    ("exposing_input", (2, 0), "other_head", "keeps its head"),
    ("exposing_input", (1, 5), "other_head", "into head 1, into the row of word 1"),
    ("exposing_input", (4, 0), None, "a word from 0 to 3"),
    ("exposing_input", (1, 0.5), None, "a feature from 0 to 5"),
    ("exposing_input", 1, None, "2 numbers"),
    ("exposing_input", "1, 0", None, "'1, 0'"),
    ("hiding_input", (np.ones((1, 2, 2)), 2), "all_alike", "two heads of a word are alike"),
    ("hiding_input", ([[[1, 2], [1, 2]]], 2), "all_alike", "two words are alike"),
    ("hiding_input", ([[[1, 2], [3, 4]]], 2), "exposes", "head 0 should hold 3 for word 1"),
    ("hiding_input", ([[[1, 2]]], 2), "one_token", "two words or more"),
    ("hiding_input", (hidden, 1), "one_head", "the view is always right"),
    ("hiding_input", (hidden, 3), None, "divides the 2 features"),
    ("hiding_input", (hidden[0], 2), None, "shape (B, L, D)"),
    ("hiding_input", (np.full((1, 2, 2), np.nan), 2), None, "finite"),
    ("hiding_input", (np.zeros((1, 1000, 1000)), 2), None, "10,000"),
    ("hiding_input", hidden, None, "(x, n_heads)"),
    ("hiding_input", "abc", None, "(x, n_heads)"),
    ("hiding_input", ("abc", 2), None, "'abc'"),
    ("hiding_input", (hidden, "two"), None, "'two'"),
    ("hiding_input", ([[1, 2], [3]], 2), None, "nested lists"),
]


@pytest.mark.parametrize("exercise, answer, name, words", WRONG)
def test_wrong_answers_are_told(exercise, answer, name, words):
    start = time.process_time()
    verdict = check(exercise, answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message
    assert words in verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


def test_the_places_of_the_single_one_are_those_that_the_faulty_split_moves_within_a_head():
    for token in range(4):
        for feature in range(6):
            x = torch.zeros(1, 4, 6)
            x[0, token, feature] = 1
            right, faulty = split_by_chunks(x, 3)[0].nonzero()[0], x.reshape(1, 3, 4, 2)[0].nonzero()[0]
            counts = bool(right[0] == faulty[0] and right[1] != faulty[1])
            assert check("exposing_input", (token, feature)).passed is counts


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("error", [RuntimeError, TypeError, ValueError, IndexError, ZeroDivisionError])
def test_a_function_that_always_raises_makes_no_known_mistake(exercise, error):
    def raises(*args):
        raise error("of my own")

    verdict = check(exercise, raises)
    assert verdict.misconception is None
    assert f"raised {error.__name__}: of my own" in verdict.message


RESULTS = [
    lambda right: right.numpy() * 2,                            # a right shape and another type
    lambda right: right.numpy(),
    lambda right: right.to(torch.complex64),
    lambda right: right.to(torch.bfloat16) * 2,
    lambda right: right > 0,
    lambda right: right.to_sparse(),
    lambda right: right.to("meta"),
    lambda right: right.numpy().astype(object),
    lambda right: right.numpy().astype(str),
    lambda right: right.tolist(),
    lambda right: (right, right),
    lambda right: torch.full(right.shape, float("nan"), requires_grad=True),
    lambda right: np.full(right.shape, np.nan),
]


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("result", RESULTS)
def test_a_result_of_another_type_is_judged(exercise, result):
    def answer(*args):
        return result(torch.as_tensor(FUNCTIONS[exercise](*args)).detach())

    assert check(exercise, answer).passed is (exercise == "dropout_weights" and result is RESULTS[1])


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("answer", [3, "text", [1, 2], np.ones(3), float("nan")])
def test_what_is_no_function_is_refused(exercise, answer):
    assert "Give a function" in check(exercise, answer).message


# The stubs, and the lesson


def stub(*args):
    raise NotImplementedError


@pytest.mark.parametrize("exercise", judges.JUDGES)
def test_stubs_are_unanswered(exercise):
    assert check(exercise, stub if exercise in FUNCTIONS else ...).passed is None
    assert check(exercise, None).passed is None


def test_the_lesson_asks_for_all_of_them():
    (path,) = lesson.find(["09"])
    source = json.dumps(json.loads(path.read_text(encoding="utf-8")))
    assert all(f'check(\\"{exercise}\\"' in source for exercise in judges.JUDGES)

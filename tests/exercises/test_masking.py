"""Lesson 08's exercises: every right way accepted, every known mistake named, odd input survived."""

import time
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

import attnlib
from attnlib.exercises import check
from attnlib.exercises.function import FunctionExercise
from attnlib.exercises.masking import _MODELS, JUDGES, _model

FUNCTIONS = {name: judge for name, judge in JUDGES.items() if isinstance(judge, FunctionExercise)}

# Right answers, written in as many ways as learners write them


def causal_by_loops(n_query, n_key):
    mask = np.zeros((n_query, n_key), dtype=bool)
    for i in range(n_query):
        for j in range(n_key):
            mask[i, j] = j <= i + n_key - n_query
    return mask


def causal_of_the_last_rows(n_query, n_key):
    n = max(n_query, n_key)
    return np.tril(np.ones((n, n), bool))[n - n_query :, n - n_key :]


def window_by_loops(n, window):
    mask = np.full((n, n), False)
    for i in range(n):
        mask[i, max(0, i - window + 1) : i + 1] = True
    return mask


def padding_by_loops(tokens, pad_id=0):
    rows = [[[[int(token) != pad_id for token in row]]] for row in tokens]
    return np.array(rows)


def combined_by_loops(tokens, pad_id=0):
    B, L = tokens.shape
    mask = np.zeros((B, 1, L, L), bool)
    for b in range(B):
        for i in range(L):
            for j in range(i + 1):
                mask[b, 0, i, j] = tokens[b, j] != pad_id
    return mask


def combined_by_torch(tokens, pad_id=0):
    real = torch.from_numpy(tokens) != pad_id
    lower = torch.ones(tokens.shape[1], tokens.shape[1]).tril().bool()
    return (real[:, None, None, :] & lower).numpy()


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
    scores = np.einsum("...qd,...kd->...qk", q / q.shape[-1] ** 0.5, k).astype(float)
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


def attention_lowest_then_cleared(q, k, v, mask=None):
    scores = (q @ np.swapaxes(k, -1, -2)).astype(float) / q.shape[-1] ** 0.5
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


def leaks_by_changes_and_cuts(model, length, width):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(length, width))
    same = [model(x) for _ in range(20)]
    out, noise = np.mean(same, 0), max(np.abs(a - same[0]).max() for a in same)
    limit = 3 * noise + 1e-9
    for t in range(1, length):
        if np.abs(model(x[:t]) - out[:t]).max() > limit:
            return True
        for size in (1, 10, 10, 10, 100, -100):
            y = x.copy()
            y[t:] = size * rng.normal(size=y[t:].shape)
            if np.abs(model(y) - out)[:t].max() > limit:
                return True
    return False


def leaks_by_single_tokens(model, length, width):
    x = np.random.default_rng(5).normal(size=(length, width))
    spread = np.std([model(x) for _ in range(50)], 0).max()
    for j in range(length):
        for value in (-9.0, -0.7, 0.7, 9.0):
            y = x.copy()
            y[j] += value * np.arange(1, width + 1)
            if np.any(np.abs(model(y) - model(x))[:j] > 12 * spread + 1e-10):
                return True
        if j and np.any(np.abs(model(x[:j]) - model(x)[:j]) > 12 * spread + 1e-10):
            return True
    return False


RIGHT = {
    "causal_mask": [
        causal_by_loops,
        causal_of_the_last_rows,
        lambda n_query, n_key: np.tril(np.ones((n_query, n_key), dtype=bool), k=n_key - n_query),
        lambda n_query, n_key: ~np.triu(np.ones((n_query, n_key), bool), n_key - n_query + 1),
        lambda a, b: torch.ones(a, b, dtype=torch.bool).tril(b - a).numpy(),
        lambda n_query, n_key: attnlib_free_causal(n_query, n_key),
    ],
    "window_mask": [
        window_by_loops,
        lambda n, window: np.tril(np.ones((n, n), bool)) & ~np.tril(np.ones((n, n), bool), -window),
        lambda n, w: (lambda gap: (gap >= 0) & (gap < w))(np.subtract.outer(np.arange(n), np.arange(n))),
    ],
    "padding_mask": [
        padding_by_loops,
        lambda tokens, pad_id=0: (tokens != pad_id)[:, None, None, :],
        lambda tokens, pad_id=0: np.expand_dims(~np.isin(tokens, [pad_id]), (1, 2)),
        lambda ids, pad_id=0: np.not_equal(ids, pad_id).reshape(ids.shape[0], 1, 1, -1),
    ],
    "combined_mask": [
        combined_by_loops,
        combined_by_torch,
        lambda t, pad_id=0: (t != pad_id)[:, None, None, :] & causal_by_loops(*2 * t.shape[1:]),
        lambda t, pad_id=0: np.tril(np.repeat((t != pad_id)[:, None, None], t.shape[1], 2)),
    ],
    "attention": [
        attention_plain,
        attention_mends_nan,
        attention_by_loops,
        attention_in_the_inputs_own_type,
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
        lambda q, k, v, m: padded_plain(q.double(), k.double(), v.double(), m),
    ],
    "window_reach": [16, 16.0, np.int64(16)],
    "leak_detector": [leaks_by_changes_and_cuts, leaks_by_single_tokens],
}


def attnlib_free_causal(n_query, n_key):
    last = np.arange(n_key - n_query, n_key)
    return np.less_equal.outer(np.arange(n_key), last).T


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    start = time.process_time()
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


def test_the_package_passes_its_own_exercises():
    package = {
        "causal_mask": attnlib.causal_mask,
        "window_mask": attnlib.window_mask,
        "padding_mask": attnlib.padding_mask,
        "attention": lambda *a: attention_of_the_package(*a),
    }
    for name, function in package.items():
        assert replace(FUNCTIONS[name], package=True)(function).passed is True, name


def attention_of_the_package(q, k, v, mask=None):
    return attnlib.attention(q, k, v, mask, return_weights=True)


# Wrong answers


@pytest.mark.parametrize(
    "exercise, mistake", [(name, m) for name, judge in FUNCTIONS.items() for m in judge.mistakes],
    ids=lambda x: getattr(x, "name", x),
)
def test_each_mistake_is_named_with_its_own_hint(exercise, mistake):
    compute = FUNCTIONS[exercise].compute
    start = time.process_time()
    verdict = check(exercise, lambda *args, **kwargs: compute(*args, **kwargs, **mistake.choices))
    assert verdict.passed is False and verdict.misconception == mistake.name
    assert mistake.hint in verdict.message and len(verdict.message) < 500
    assert mistake.convention == ("another convention" in verdict.message)
    assert time.process_time() - start < 10  # a second or less on an idle machine


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


def combined_opened(tokens, pad_id=0, own=False):
    mask = combined_by_loops(tokens, pad_id)
    shown = np.eye(tokens.shape[1], dtype=bool) if own else True
    return mask | ~mask.any(-1, keepdims=True) & shown


def padded_rows(q, k, v, m):
    return torch.nan_to_num((q @ k.mT / q.shape[-1] ** 0.5).masked_fill(m, float("-inf")).softmax(-1)) @ v


def padded_values(q, k, v, m):
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v.masked_fill(m[:, None, :, None], 0)


def padded_numpy(q, k, v, m):
    return padded_plain(q, k, v, m).numpy()


class Equal(np.ndarray):
    def __eq__(self, other):
        return True


LATER = [
    ("causal_mask", lambda n_query, n_key: np.tril(np.ones((n_query, n_key), bool)), "start", "is_causal"),
    ("causal_mask", lambda a, b: np.triu(np.ones((a, b), bool), b - a + 1), "polarity", "may attend"),
    ("causal_mask", lambda a, b: np.tril(np.ones((a, b)), b - a), "numbers", "zeros and ones"),
    ("causal_mask", lambda a, b: np.triu(np.ones((a, b), bool)), "start and transposed", "Two things"),
    ("causal_mask", lambda a, b: np.triu(np.full((a, b), -np.inf), b - a + 1), "additive", "added to scores"),
    ("causal_mask", lambda a, b: causal_by_loops(a, b).T, "keys_down", "keys across"),
    ("causal_mask", lambda a, b: np.ones((a, b), bool), None, "Query 0 must not see key 3"),
    ("causal_mask", lambda a, b: np.zeros((a, b), bool), None, "Query 0 may see key 0"),
    ("window_mask", lambda n, w: window_by_loops(n, w + 1), "own_not_counted", "FlashAttention"),
    ("window_mask", lambda n, w: causal_by_loops(n, n), "no_window", "no effect"),
    ("padding_mask", lambda tokens, pad_id=0: (tokens != 0)[:, None, None], "pad_id_fixed", "0 whatever"),
    ("padding_mask", lambda tokens, pad_id=0: tokens != pad_id, "two_axes", "(B, L)"),
    ("padding_mask", lambda tokens, pad_id: (tokens != pad_id)[:, None, None], None, "TypeError"),
    ("combined_mask", lambda t, pad_id=0: (t == pad_id)[:, None, None] & causal_by_loops(*2 * t.shape[1:]),
     "pads_inverted", "padding half is inverted"),
    ("combined_mask", combined_opened, "empty_rows_opened", "stay False"),
    ("combined_mask", lambda t, pad_id=0: combined_opened(t, pad_id, True), "empty_rows_opened", "or future"),
    ("combined_mask", lambda t, pad_id=0: np.eye(t.shape[1]) + combined_by_loops(t) > 1, None, "hides it"),
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
    ("attention", boolean_index, None, "raised IndexError"),
    ("attention", unscaled_and_over_queries, "no_scale and softmax_over_queries", "Two things"),
    ("attention", lambda q, k, v, mask=None: attention_plain(q, k, v, mask)[::-1], "weights_first", "order"),
    ("attention", last_axis_by_number, "softmax_axis_1", "Count from the end"),
    ("attention", lambda *a: attention_plain(*a)[0], None, "must return 2 results"),
    ("attention", lambda *a: [2 * x for x in attention_plain(*a)], None, "sum to 2 "),
    ("attention", lambda q, k, v, mask: attention_plain(q, k, v, mask), None, "TypeError"),
    ("attention", lambda *a: attnlib.attention(*a, return_weights=True), "package", "calls the package"),
    ("padded_attention", padded_naive, "nan_rows", "0/0"),
    ("padded_attention", padded_1e9, "half_fill", "65504"),
    ("padded_attention", padded_where, "half_fill", "minus infinity in float16"),
    ("padded_attention", padded_with("lowest", "written"), "uniform_rows", "large negative number"),
    ("padded_attention", padded_with(-1e4, "written"), "uniform_rows", "large negative number"),
    ("padded_attention", padded_with(-1e4, "added"), "added", "float32 does not go"),
    ("padded_attention", padded_with(-1e4, "added in the scores' own type"), "added", "no difference"),
    ("padded_attention", padded_with(-1e9, "added"), "half_fill", "65504"),
    ("padded_attention", padded_with(-torch.inf, "added"), "half_nan", "half precision raises"),
    ("padded_attention", padded_with(-torch.inf, "times the mask"), "times_infinity", "0 times infinity"),
    ("padded_attention", padded_with(-torch.inf, "unless all are hidden"), "empty_rows_opened", "you open"),
    ("padded_attention", padded_with(-1e9, "unless all are hidden"), "half_opened", "after all"),
    ("padded_attention", padded_rows, "as_rows", "(queries, keys)"),
    ("padded_attention", padded_values, "masked_after", "values to 0"),
    ("padded_attention", lambda q, k, v, m: padded_plain(q, k, v, ~m), "polarity", "nn.MultiheadAttention"),
    ("padded_attention", lambda q, k, v, m: padded_plain(q, k, v, m[:, None, None])[:, :, 0], None, ""),
    ("padded_attention", padded_numpy, None, "must be a torch tensor"),
    ("window_reach", 20, "reach_20", "Mistral"),
    ("window_reach", 15, "reach_15", "reaches itself"),
    ("window_reach", 21, "reach_21", "three before"),
    ("window_reach", 19, "reach_19", "three more"),
    ("window_reach", 4, "reach_4", "one layer"),
    ("window_reach", 1024, "reach_1024", "added up"),
    ("window_reach", 7, None, "With one layer"),
    ("window_reach", 16.5, None, "Not 16.5"),
    ("window_reach", "16", None, "'16'"),
    ("window_reach", float("nan"), None, "finite"),
]


@pytest.mark.parametrize("exercise, answer, misconception, words", LATER)
def test_wrong_answers_are_told_what_is_wrong(exercise, answer, misconception, words):
    start = time.process_time()
    verdict = check(exercise, answer)
    assert verdict.passed is False and verdict.misconception == misconception, verdict
    assert words in verdict.message and len(verdict.message) < 600, verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


ODD = [
    7, "text", None.__class__, lambda *a, **k: None, lambda *a, **k: "text", lambda *a, **k: np.nan,
    lambda *a, **k: np.zeros((0,)), lambda *a, **k: np.full((3, 5), np.nan), lambda *a, **k: {}, lambda: 1,
    lambda *a, **k: np.zeros(10**7, bool), lambda *a, **k: torch.zeros(3), lambda *a, **k: 1 / 0,
    lambda *a, **k: a[0], lambda *a, **k: (np.zeros((3, 2)), "text"),
    lambda *a, **k: np.array(["a", None], object),
    lambda *a, **k: np.ones((3, 5), complex), lambda *a, **k: np.zeros((3, 5), bool).view(Equal),
]  # fmt: skip


@pytest.mark.parametrize("exercise", [name for name in JUDGES if name != "window_reach"])
@pytest.mark.parametrize("answer", ODD)
def test_odd_answers_are_refused_without_a_crash(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is False and verdict.message


TENSORS = {name: answers[0] for name, answers in RIGHT.items() if name.endswith("mask")}


@pytest.mark.parametrize("exercise", TENSORS)
def test_a_right_mask_of_another_type_is_called_right_but_for_its_type(exercise):
    verdict = check(exercise, lambda *a, **k: torch.tensor(TENSORS[exercise](*a, **k)))
    assert verdict.passed is False and "entries are right; only they come as a torch" in verdict.message
    verdict = check(exercise, lambda *a, **k: TENSORS[exercise](*a, **k).astype(object))
    assert verdict.passed is False and "entries are right; only they come as Python obj" in verdict.message
    for kind in (torch.tensor, lambda mask: mask.astype(object)):
        message = check(exercise, lambda *a, **k: kind(~TENSORS[exercise](*a, **k))).message  # noqa: B023
        assert "entries are right" not in message and ("may see" not in message or kind is not torch.tensor)


def test_right_attention_in_torch_is_called_right_but_for_its_type():
    def in_torch(*arguments):
        return tuple(torch.tensor(part, requires_grad=True) for part in attention_plain(*arguments))

    message = check("attention", in_torch).message
    assert "The numbers are right; only they come as torch tensors" in message
    for wrong in (lambda part: 2 * part, lambda part: part.bfloat16(), lambda part: part > 0):
        message = check("attention", lambda *a: tuple(wrong(part) for part in in_torch(*a))).message  # noqa: B023
        assert "torch tensor" in message and "numbers are right" not in message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_function_that_always_raises_makes_no_known_mistake(exercise):
    verdict = check(exercise, lambda *a, **k: 1 / 0)
    assert verdict.misconception is None and "division by zero" in verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_no_imitation_raises_on_every_case(exercise):
    judge = FUNCTIONS[exercise]
    cases = judge.cases()

    def raises(case, choices):
        try:
            judge.compute(*case.args, **choices)
        except Exception:
            return True
        return False

    with np.errstate(all="ignore"):
        for found in [*combinations(judge.mistakes, 1), *combinations(judge.mistakes, 2)]:
            choices = {name: value for mistake in found for name, value in mistake.choices.items()}
            if len(choices) == sum(len(mistake.choices) for mistake in found):
                assert not all(raises(case, choices) for case in cases), choices


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_hints_are_whole_sentences(exercise):
    for mistake in FUNCTIONS[exercise].mistakes:
        assert mistake.hint[0].isupper() and mistake.hint[-1] in ".?", mistake.name


def test_untouched_stubs_are_not_answered_yet():
    def stub(*args, **kwargs):
        raise NotImplementedError

    for name in JUDGES:
        assert check(name, ...).passed is None
        if name != "window_reach":
            assert check(name, stub).passed is None, name


# The detector


def detector(
    *, sizes=(1, 10, 10, 10, 100), cut=True, limit=None, late=0, places=None, reorder=False, rows=None
):
    """A detector with one weakness at a time."""

    def leaks(model, length, width):
        rng = np.random.default_rng(1)
        x = rng.normal(size=(length, width))
        same = [model(x) for _ in range(20)]
        noise = max(np.abs(a - same[0]).max() for a in same)
        bound = 4 * noise + 1e-9 if limit is None else limit
        for t in range(1, length) if places is None else places(length):
            if cut and np.abs(model(x[:t]) - model(x)[:t]).max() > bound:
                return True
            for size in sizes:
                y = x.copy()
                y[t:] = rng.permutation(x[t:]) if reorder else size * rng.normal(size=y[t:].shape)
                seen = np.abs(model(y) - model(x))[: max(t - late, 0)]
                seen = seen if rows is None else seen[:rows]
                if seen.size and seen.max() > bound:
                    return True
        return False

    return leaks


def own_token_too(model, length, width):
    x = np.ones((length, width))
    y = x.copy()
    y[2:] = -5.0
    return bool(np.abs(model(y) - model(x))[:3].max() > 0.5)


def clean_if_noisy(model, length, width):
    x = np.ones((length, width))
    if np.any(model(x) != model(x)):
        return False
    return detector()(model, length, width)


FOOLED = [
    (detector(limit=1e-6), "noise", "with nothing changed"),
    (detector(limit=0.2, sizes=(1, 9, -9, 9)), "one_place", "a thousandth"),
    (detector(limit=0.0), "noise", "Two calls may differ less than the next two"),
    (detector(late=1, cut=False), "next_token", "at output t - 1"),
    (detector(sizes=(1,)), "gate", "try several"),
    (detector(cut=False), "length", "their number stays"),
    (detector(reorder=True, cut=False), "denominator", "Reordering"),
    (detector(places=lambda n: [n // 2], rows=1, cut=False), "next_token", "output i reads token i + 1"),
    (own_token_too, "all_leaky", "itself included"),
    (clean_if_noisy, "noise_hides", "need not be clean"),
    (lambda model, length, width: True, "all_leaky", "Three are clean"),
    (lambda model, length, width: False, "all_clean", "Five of them leak"),
]


@pytest.mark.parametrize("answer, misconception, words", FOOLED)
def test_a_fooled_detector_is_told_by_which_model_and_why(answer, misconception, words):
    start = time.process_time()
    verdict = check("leak_detector", answer)
    assert verdict.passed is False and verdict.misconception == misconception, verdict.message
    assert words in verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


@pytest.mark.parametrize("number", range(8))
def test_each_model_that_fools_is_named_with_what_it_does(number):
    answers = iter([(n >= 3) != (n == number) for n in range(8)] + [n >= 3 for n in range(8)])
    verdict = check("leak_detector", lambda *a: next(answers))
    name, (_, _, mistake, told) = list(_MODELS.items())[number]
    assert verdict.misconception == mistake and told in verdict.message and name in verdict.message
    assert verdict.message.startswith("7 of eight models judged rightly") and len(verdict.message) < 500


def test_exact_comparison_is_fooled_by_rounding():
    def exact(model, length, width):
        x = np.random.default_rng(0).normal(size=(length, width))
        noise = np.abs(model(x) - model(x)).max()
        for t in range(1, length):
            y = x.copy()
            y[t:] = 37.1 * x[t:] + 0.3
            if np.abs(model(y) - model(x))[:t].max() > 5 * noise:
                return True
        return False

    assert check("leak_detector", exact).misconception == "exact_comparison"


def test_answers_of_a_detector_are_booleans_and_calls_are_explained():
    assert "Return True or False" in check("leak_detector", lambda *a: 1).message
    assert check("leak_detector", lambda *a: np.array([True])).passed is False
    told = check("leak_detector", lambda model, length, width: model(np.ones((length, width + 1)))).message
    assert "takes an array of shape (n, 4)" in told and "causal attention" in told
    assert check("leak_detector", lambda *a: None).message.endswith("with a return?")
    assert "calls the package" in check("leak_detector", lambda m, n, d: attnlib.future_leaks(m, n)).message


def test_the_models_are_what_they_are_said_to_be():
    """The package's own detector, on those that answer the same input alike."""
    rng = np.random.default_rng(4)
    for version in (0, 1):
        for number, name in enumerate(_MODELS):
            model, length, width = _model(name, version)
            x = rng.normal(size=(length, width))
            if np.array_equal(model(x), model(x)):
                leaks = attnlib.future_leaks(model, x)
                assert bool(leaks) == (number >= 3), name
                if name == "positions counted from the end":
                    assert {leak.token for leak in leaks} == {None}


def test_verdicts_do_not_hang_on_the_global_seed_and_leave_it_alone():
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    first = check("leak_detector", detector(sizes=(1,))).message
    assert np.array_equal(before, np.random.get_state()[1])
    np.random.seed(2)
    assert check("leak_detector", detector(sizes=(1,))).message == first

"""Cross-attention, of lesson 11: every right way accepted, every known mistake named."""

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

CROSS = "cross_attention"


def heads_of(a, n_heads):
    return torch.stack(a.chunk(n_heads, dim=-1), dim=1)


def merged(a):
    return torch.cat(list(a.unbind(1)), dim=-1)


def by_torch(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    q, k, v = heads_of(x @ w_q, n_heads), heads_of(memory @ w_k, n_heads), heads_of(memory @ w_v, n_heads)
    mask = None if memory_mask is None else memory_mask[:, None, None, :]
    return merged(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)) @ w_o


def by_loops(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    d, sentences = x.shape[-1] // n_heads, []
    for n in range(x.shape[0]):
        real = memory[n] if memory_mask is None else memory[n][memory_mask[n]]
        out = 0
        for h in range(n_heads):
            part = slice(h * d, (h + 1) * d)
            q, k, v = x[n] @ w_q[:, part] / d**0.5, real @ w_k[:, part], real @ w_v[:, part]
            out = out + (q @ k.T).softmax(-1) @ v @ w_o[part]
        sentences.append(out)
    return torch.stack(sentences)


def by_einsum(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    q, k, v = ((a @ w).unflatten(-1, (n_heads, -1)) for a, w in ((x, w_q), (memory, w_k), (memory, w_v)))
    scores = torch.einsum("bthe,bshe->bhts", q, k) / q.shape[-1] ** 0.5
    if memory_mask is not None:
        scores = scores + torch.where(memory_mask, 0.0, -1e9).to(scores.dtype)[:, None, None]
    return torch.einsum("bhts,bshe->bthe", scores.softmax(-1), v).flatten(2) @ w_o


def renormalised(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    q, k, v = heads_of(x @ w_q, n_heads), heads_of(memory @ w_k, n_heads), heads_of(memory @ w_v, n_heads)
    weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
    if memory_mask is not None:
        weights = weights * memory_mask[:, None, None, :]
        weights = weights / weights.sum(-1, keepdim=True)
    return merged(weights @ v) @ w_o


def with_weights_of_torch(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    out, _ = F.multi_head_attention_forward(
        x.transpose(0, 1), memory.transpose(0, 1), memory.transpose(0, 1), x.shape[-1], n_heads, None, None,
        None, None, False, 0.0, w_o.T, None, use_separate_proj_weight=True, q_proj_weight=w_q.T,
        k_proj_weight=w_k.T, v_proj_weight=w_v.T,
        key_padding_mask=None if memory_mask is None else ~memory_mask)  # fmt: skip
    return out.transpose(0, 1)


@pytest.mark.parametrize("answer", [by_torch, by_loops, by_einsum, renormalised, with_weights_of_torch])
def test_right_answers_pass(answer):
    verdict = check(CROSS, answer)
    assert verdict.passed is True, verdict.message


def test_the_solution_passes_and_hints_stand():
    assert check(CROSS, its_solution(CROSS)).passed is True
    assert len(EXERCISES[CROSS].hints) in (2, 3)
    assert EXERCISES[CROSS].lesson == "11"


UNTOLD = ()


@pytest.mark.parametrize("exercise, mistake", mistakes(CROSS, untold=UNTOLD),
                         ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


PAIRS = [
    ({"scale": "model", "masking": "inverted"}, "scale_of_the_model and mask_inverted"),
    ({"project": "keys_of_x", "output": "forgotten"}, "keys_from_x and no_output_projection"),
    ({"given": "causal", "scale": "none"}, "always_causal and no_scale"),
    ({"output": "transposed", "added": "x"}, "output_transposed and residual"),
    ({"project": "values_of_x", "where": "same shape", "scale": "none"}, "values_from_x and no_scale"),
]


@pytest.mark.parametrize("choices, names", PAIRS)
def test_two_mistakes_together_are_named(choices, names):
    verdict = check(CROSS, making(CROSS, **choices))
    assert verdict.misconception == names
    assert "Two things at once" in verdict.message


def padding_like_torch(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    return by_torch(x, memory, w_q, w_k, w_v, w_o, n_heads, None if memory_mask is None else ~memory_mask)


def mask_as_it_comes(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    q, k, v = heads_of(x @ w_q, n_heads), heads_of(memory @ w_k, n_heads), heads_of(memory @ w_v, n_heads)
    return merged(F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)) @ w_o


def length_of_x(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    b, t, d = x.shape
    k = (memory @ w_k).reshape(b, t, n_heads, d // n_heads)
    return by_torch(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask) + 0 * k.sum()


def same_memory(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None, kept={}):  # noqa: B006
    memory = kept.setdefault(memory.shape, memory)
    return by_torch(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask)


def three_mistakes(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    return making(CROSS, project="value_is_key", scale="none", output="transposed")(
        x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask)  # fmt: skip


def dropping(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    return by_torch(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask) * (torch.rand(()) + 1)


def where_alike(choose, more=None, alike=lambda x, memory: x.shape == memory.shape):
    """Queries, keys and values of other texts, where x and memory have the same shape."""

    def answer(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
        texts = choose(x, memory) if alike(x, memory) else (x, memory, memory)
        q, k, v = (heads_of(a @ w, n_heads) for a, w in zip(texts, (w_q, w_k, w_v), strict=True))
        mask = None if memory_mask is None else memory_mask[:, None, None, :]
        out = merged(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)) @ w_o
        return out if more is None or not alike(x, memory) else more(out, x)

    return answer


def as_wide(x, memory):
    return x.shape[-1] == memory.shape[-1]


def inverted_by(hide):
    def answer(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
        q, k, v = heads_of(x @ w_q, n_heads), heads_of(memory @ w_k, n_heads), heads_of(memory @ w_v, n_heads)
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if memory_mask is not None:
            scores = hide(scores, memory_mask[:, None, None, :])
        return merged(scores.softmax(-1).nan_to_num(nan=0.0 if hide is finite else torch.nan) @ v) @ w_o

    return answer


def finite(scores, mask):
    return scores.masked_fill(mask, -torch.inf)


def width_of_memory(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    (x @ w_q).view(*x.shape[:2], n_heads, memory.shape[-1] // n_heads)
    return by_torch(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask)


WRONG = [
    (width_of_memory, "memory_width", "D // n_heads"),
    (where_alike(lambda x, m: (x, m, x)), "values_from_x", "have the same shape, the values come from x"),
    (where_alike(lambda x, m: (x, x, m)), "keys_from_x", "have the same shape, the keys come from x"),
    (where_alike(lambda x, m: (m, x, x)), "sides_swapped", "the memory asks and x answers"),
    (where_alike(lambda x, m: (x, x, x)), "self_attention", "all come from x"),
    (where_alike(lambda x, m: (m, m, m)), "self_attention", "all come from the memory"),
    (where_alike(lambda x, m: (m, m, x)), "self_attention", "as the keys do"),
    (where_alike(lambda x, m: (m, x, m)), "sides_swapped", "queries and keys change sides"),
    (where_alike(lambda x, m: (x, x, x), alike=as_wide), "self_attention", "all come from x"),
    (where_alike(lambda x, m: (m, x, x), alike=as_wide), "sides_swapped", "x answers"),
    (where_alike(lambda x, m: (x, m, m), lambda out, x: out + x.sin()), None, "is no average of each head's"),
    (where_alike(lambda x, m: (x, m + x, m)), None, "where queries and keys come from"),
    (where_alike(lambda x, m: (x, m + x, x), lambda out, x: out), None, "Found: values from x."),
    (inverted_by(finite), "mask_inverted", "True hides"),
    (inverted_by(lambda s, mask: s.masked_fill(mask, -torch.inf)), "mask_inverted", "gives NaN"),
    (inverted_by(lambda s, mask: s.masked_fill(mask, -1e9)), "mask_inverted", "weighs all keys alike"),
    (lambda x, *rest: 0 * x, None, "Your result is all zeros"),
    (padding_like_torch, "mask_inverted", "True hides"),
    (mask_as_it_comes, "mask_shape", "(B, 1, 1, S)"),
    (length_of_x, "memory_length_from_x", "read it off memory.shape"),
    (same_memory, None, "an earlier call (3 queries"),
    (three_mistakes, None, "Found: values from w_k, w_o transposed. Worked back from your result"),
    (dropping, "random", "draws random numbers"),
    (lambda *a: by_torch(*a).round(decimals=2), None, "two digits"),
    (lambda *a: by_torch(*a).squeeze(), "squeezed", "axis of size 1"),
    (lambda *a: a[0] * float("nan"), None, "NaN or infinite"),
    (lambda x, memory: x, "signature", "it takes (x, memory)"),
]


@pytest.mark.parametrize("answer, name, words", WRONG)
def test_wrong_answers_are_told(answer, name, words):
    verdict = check(CROSS, answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message
    assert words in verdict.message, verdict.message


@pytest.mark.parametrize("error", ERRORS)
def test_a_function_that_always_raises_makes_no_known_mistake(error):
    told_when_raising(CROSS, error)


@pytest.mark.parametrize("result", RESULTS)
def test_a_result_of_another_kind_is_judged(result):
    odd(CROSS, result)


def test_what_is_no_function_is_refused_and_stubs_are_unanswered():
    for answer in NO_FUNCTIONS:
        assert "Give a function" in check(CROSS, answer).message
    assert check(CROSS, stub).passed is None
    assert check(CROSS, None).passed is None

"""Grouped-query attention, of lesson 18: several heads of queries share one of keys and values."""

import numpy as np

from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but
from attnlib.exercises.heads import RETURNED, of_an_earlier_call, returned
from attnlib.exercises.multi_head import (
    COMMON,
    MASKING,
    SOFTMAX,
    finite,
    nothing,
    of_the_weights,
    rounded,
    weights_behind,
    weights_of,
)


def _gqa(q, k, v, mask=None, *, keys="right", values="right", queries="right", scale="width", axis=-1,
         masking="right", empty="zeros", heads_of_mask="right", shift="row", turn="right", lengths="right",
         output="right", form="right"):  # fmt: skip
    hq, group = q.shape[1], q.shape[1] // k.shape[1]
    if lengths != "right":
        k, v, mask = _cut(q, k, v, mask, lengths)
    spread, values = _spread(k, hq, keys), _spread(v, hq, values)
    if queries == "averaged":
        q = q.unflatten(1, (-1, group)).mean(2).repeat_interleave(group, 1)
    elif queries == "groups_first":
        q = q.unflatten(1, (group, -1)).transpose(1, 2).flatten(1, 2)
    if turn == "right":
        turned = spread.transpose(-1, -2)
    else:
        turned = spread.reshape(*spread.shape[:2], -1, spread.shape[2])
    scores = q @ turned * _SCALES[scale](q, k)
    if heads_of_mask != "right" and mask is not None:
        mask = _mask_of(mask, hq, k.shape[1], heads_of_mask)
    weights = _weights(scores, mask, masking, empty, axis, shift, group)
    if scale == "after":
        weights = weights / q.shape[-1] ** 0.5
    out = _put_together(weights @ values, group, output)
    if form in ("with_weights", "weights"):
        return (out, weights) if form == "with_weights" else weights
    return out if form == "right" else returned(out, form)


_SCALES = {
    "width": lambda q, k: q.shape[-1] ** -0.5, "none": lambda q, k: 1.0, "after": lambda q, k: 1.0,
    "linear": lambda q, k: 1 / q.shape[-1], "times": lambda q, k: q.shape[-1] ** 0.5,
    "quarter": lambda q, k: q.shape[-1] ** -0.25,
    "group": lambda q, k: (q.shape[-1] * q.shape[1] / k.shape[1]) ** -0.5,
    "group_less": lambda q, k: (q.shape[-1] / (q.shape[1] / k.shape[1])) ** -0.5,
    "model": lambda q, k: (q.shape[-1] * q.shape[1]) ** -0.5,
    "key_model": lambda q, k: (k.shape[-1] * k.shape[1]) ** -0.5,
    "heads": lambda q, k: q.shape[1] ** -0.5, "key_heads": lambda q, k: k.shape[1] ** -0.5,
    "keys": lambda q, k: k.shape[2] ** -0.5, "queries": lambda q, k: q.shape[2] ** -0.5,
}  # fmt: skip


def _cut(q, k, v, mask, lengths):
    if lengths == "queries":
        n = q.shape[2]
        return k[:, :, :n], v[:, :, :n], None if mask is None else mask[..., :n]
    if lengths == "last_dropped":
        return k[:, :, :-1], v[:, :, :-1], None if mask is None else mask[..., :-1]
    first_k, first_v = k[:1].expand(k.shape), v[:1].expand(v.shape)     # the first sentence's for all
    return (k if lengths == "first_values" else first_k), (v if lengths == "first_keys" else first_v), mask


def _spread(a, hq, way):
    """Keys or values (B, Hkv, S, d), one for each query head."""
    import torch

    b, hkv, s, d = a.shape
    group, heads = hq // hkv, torch.arange(hq)
    if way == "right":
        return a.repeat_interleave(group, 1)
    if way == "mean":
        return a.mean(1, keepdim=True).expand(b, hq, s, d)
    if way == "as_it_is":
        return a
    if way == "along_keys":
        return a.repeat_interleave(group, 2).reshape(b, hq, s, d)
    if way == "batch_tiled":
        return a.flatten(0, 1).repeat(group, 1, 1).reshape(b, hq, s, d)
    return a[:, {
        "tiled": heads % hkv, "first": heads * 0, "last": heads * 0 + hkv - 1,
        "reversed": hkv - 1 - heads // group, "by_key_heads": (heads // hkv).clamp(max=hkv - 1),
        "modulo_group": (heads % group).clamp(max=hkv - 1), "pairs": (heads // 2).clamp(max=hkv - 1),
        "clamped": heads.clamp(max=hkv - 1), "by_key_heads_raw": heads // hkv,
        "by_key_heads_both": heads // hkv % hkv, "modulo_raw": heads % group,
        "own": heads, "modulo_both": heads % group % hkv, "pairs_raw": heads // 2,
    }[way]]  # fmt: skip


def _mask_of(mask, hq, hkv, way):
    if mask.ndim < 4 or mask.shape[1] != hq:
        return None if way == "ignored_alike" and hq == hkv else mask
    group = hq // hkv
    if way == "of_key_head":
        return mask[:, :hkv].repeat_interleave(group, 1)
    if way == "of_group":
        return mask[:, [h // group for h in range(hq)]]
    if way == "first_of_group":
        return mask[:, ::group].repeat_interleave(group, 1)
    if way == "tiled":
        return mask[:, :hkv].repeat(1, group, 1, 1)
    if way == "groups_first":
        return mask.unflatten(1, (group, hkv)).transpose(1, 2).flatten(1, 2)
    return None if way == "ignored_alike" and hq == hkv else mask


def _weights(scores, mask, masking, empty, axis, shift, group):
    if axis == "grouped_mask":                                   # the mask meets scores of (B, Hkv, G, L, S)
        scores = scores.unflatten(1, (-1, group))
        scores = scores if mask is None else scores.masked_fill(~mask.unsqueeze(1), -float("inf"))
        return scores.softmax(-1).flatten(1, 2)
    if masking in ("causal_square", "rows_square"):
        square = scores.shape[-1] == scores.shape[-2]
        masking = {"causal_square": "causal_and", "rows_square": "rows"}[masking] if square else "right"
    if axis not in ("group", "group_and_keys"):
        return weights_of(scores, mask, masking, empty, axis, shift)
    scores = scores if mask is None else scores.masked_fill(~mask, -float("inf"))
    scores = scores.unflatten(1, (-1, group))
    if axis == "group":
        return scores.softmax(2).nan_to_num(0).flatten(1, 2)
    turned = scores.transpose(2, 3)
    return turned.flatten(-2).softmax(-1).reshape(turned.shape).transpose(2, 3).flatten(1, 2)


def _put_together(out, group, output):
    if output == "right":
        return out
    b, hq, n, d = out.shape
    if output == "rest_zero":
        out = out.clone()
        out[:, hq // group :] = 0
        return out
    return {
        "groups_first": lambda: out.unflatten(1, (-1, group)).transpose(1, 2).reshape(b, hq, n, d),
        "key_heads_first": lambda: out.unflatten(1, (group, -1)).transpose(1, 2).reshape(b, hq, n, d),
        "heads_last": lambda: out.transpose(1, 2),
        "by_view": lambda: out.transpose(1, 2).reshape(b, hq, n, d),
        "viewed_back": lambda: out.reshape(b, n, hq, d).transpose(1, 2),
        "merged": lambda: out.transpose(1, 2).reshape(b, n, hq * d),
        "key_heads_only": lambda: out[:, ::group], "first_heads_only": lambda: out[:, : hq // group],
        "group_mean": lambda: out.unflatten(1, (-1, group)).mean(2),
        "five_axes": lambda: out.unflatten(1, (-1, group)), "mean": lambda: out.mean(1),
        "reversed": lambda: out.flip(1), "turned": lambda: out.transpose(2, 3),
    }[output]()  # fmt: skip


_TILED = (
    "Heads are dealt out in turn, h % Hkv. Consecutive query heads share here: with 6 and 2, heads 0, 1, 2 "
    "read key/value head 0, and 3, 4, 5 head 1. (repeat puts copies of the whole behind one another.)"
)
_BY = "Query head h reads key/value head h // (Hq // Hkv)."


def _both(way):
    """Choices for keys and values together, keys alone, values alone."""
    return ({"keys": way, "values": way}, {"keys": way}, {"values": way})


_SHARING = (
    Mistake("tiled", _TILED, {"keys": "tiled", "values": "tiled"}),
    Mistake("tiled_keys", f"The values are shared as they should be, and the keys are not. {_TILED}",
            {"keys": "tiled"}),
    Mistake("tiled_values", f"The keys are shared as they should be, and the values are not. {_TILED}",
            {"values": "tiled"}),
    *(Mistake("first_head_for_all", f"All query heads read key/value head 0. {_BY}", choices)
      for choices in _both("first")),
    *(Mistake("last_head_for_all", f"All query heads read the last key/value head. {_BY}", choices)
      for choices in _both("last")),
    *(Mistake("heads_averaged", f"The key/value heads are averaged into one. {_BY}", choices)
      for choices in _both("mean")),
    *(Mistake("heads_reversed", f"The key/value heads are read from the end. {_BY}", choices)
      for choices in _both("reversed")),
    *(Mistake("divided_by_key_heads", "You divide the head's number by the number of key/value heads. Divide "
              f"by how many query heads share one. {_BY}", choices)
      for way in ("by_key_heads", "by_key_heads_raw", "by_key_heads_both") for choices in _both(way)),
    *(Mistake("modulo_group", f"You take the head's number modulo the size of a group. {_BY}", choices)
      for way in ("modulo_group", "modulo_raw", "modulo_both") for choices in _both(way)),
    *(Mistake("group_of_two", f"A group is always of two heads. Its size is Hq // Hkv. {_BY}", choices)
      for way in ("pairs", "pairs_raw") for choices in _both(way)),
    *(Mistake("rest_reads_last", "The first query heads read one key/value head each, and all others the "
              f"last. {_BY}", choices) for choices in _both("clamped")),
    *(Mistake("not_shared", "Keys and values are used as they are, which works only where there is one head, "
              f"or as many as of queries. {_BY}", choices)
      for way in ("as_it_is", "own") for choices in _both(way)),
    *(Mistake("repeated_along_keys", "The copies are made along the keys and renamed heads afterwards, so "
              "heads hold pieces of others. Copy along the axis of the heads.", choices)
      for choices in _both("along_keys")),
    *(Mistake("batch_mixed", "Batch and heads were joined before the copies were made, so sentences read one "
              "another's keys. Copy along the axis of the heads alone.", choices)
      for choices in _both("batch_tiled")),
    *(Mistake("queries_in_another_order", "The query heads are cut into (G, Hkv), so heads h, h + Hkv, "
              "h + 2 Hkv share a key/value head. The key head's axis comes first, (Hkv, G): consecutive "
              f"query heads share. {_BY}", {"queries": "groups_first", **more})
      for more in ({}, {"heads_of_mask": "groups_first"}, {"output": "groups_first"})),
    Mistake("queries_averaged", "The queries of a group are averaged, so all its heads give the same. Only "
            "keys and values are shared.", {"queries": "averaged"}),
)  # fmt: skip
_SCALE = (
    Mistake("no_scale", "The scores are not scaled. Divide them by the root of a head's width.",
            {"scale": "none"}),
    Mistake("scale_without_root", "You divide by a head's width: without the root, or by the root twice. "
            "(Some library calls scale by themselves.)", {"scale": "linear"}),
    Mistake("scale_multiplies", "You multiply by the root of the width. Divide.", {"scale": "times"}),
    Mistake("scale_quarter", "You divide by the fourth root of the width. Was only one of queries and keys "
            "scaled?", {"scale": "quarter"}),
    Mistake("scale_after_softmax", "You divide the weights by the root of the width. Divide the scores, "
            "before the softmax.", {"scale": "after"}),
    *(Mistake("scale_of_the_group", "The size of a group enters your scale. A dot product is as long as a "
              "head is wide, however many share its keys.", {"scale": scale}) for scale in ("group", ""
              "group_less")),
    *(Mistake("scale_of_the_model", "You divide by the root of all heads' width together. A dot product is "
              "as long as one head is wide.", {"scale": scale}) for scale in ("model", "key_model")),
    *(Mistake("scale_of_the_heads", "You divide by the root of the number of heads. It is a head's width "
              "that counts.", {"scale": scale}) for scale in ("heads", "key_heads")),
    Mistake("keys_reshaped", "The keys are brought to (d, S) by a reshape, which relabels numbers and moves "
            "none. Exchange the last two axes.", {"turn": "reshaped"}),
    *(Mistake("scale_of_the_length", "You divide by the root of a length. It is a head's width that makes "
              "dot products large.", {"scale": scale}) for scale in ("keys", "queries")),
)  # fmt: skip
_GROUPED = (
    *(Mistake("mask_of_key_head", "The mask's heads are taken for those of the keys. A mask of shape (B, Hq, "
              "L, S) has one table for each query head.", {"heads_of_mask": way})
      for way in ("of_key_head", "of_group", "first_of_group", "tiled")),
    Mistake("mask_in_another_order", "The mask's heads are cut into groups in another order than the "
            "queries': with h = key head * G + place in the group, the key head comes first.",
            {"heads_of_mask": "groups_first"}),
    Mistake("mask_ignored_without_groups", "Where there are as many key heads as query heads the mask has no "
            "effect. It holds there too.", {"heads_of_mask": "ignored_alike"}),
    Mistake("mask_shape", "The mask is given an axis for groups without its own heads being cut into groups, "
            "so its axes meet the wrong ones. It broadcasts to (B, Hq, L, S) as it comes.",
            {"axis": "grouped_mask"}),
    Mistake("always_causal", "Where there are as many queries as keys, a causal mask is used. The given mask "
            "says all there is to say.", {"masking": "causal_square"}),
    Mistake("mask_transposed", "Where the mask is square it is transposed. Its rows are queries, its columns "
    "keys.",
            {"masking": "rows_square"}),
    Mistake("softmax_over_group", "The softmax runs over the query heads that share a key head. Each has its "
            "own, over the keys.", {"axis": "group"}),
    Mistake("softmax_over_group", "One softmax runs over the keys and the heads of a group together. Each "
            "head has its own.", {"axis": "group_and_keys"}),
    Mistake("keys_cut", "Keys and values are cut to as many as there are queries. S and L may differ.",
            {"lengths": "queries"}),
    Mistake("keys_cut", "The last key is never read: a slice ends one too early.",
            {"lengths": "last_dropped"}),
    *(Mistake("first_sentence", f"Every sentence reads the {what} of the first.", {"lengths": lengths})
      for lengths, what in (("first_sentence", "keys and values"), ("first_keys", "keys"),
                            ("first_values", "values"))),
    Mistake("groups_out_of_order", "The heads come out in another order than the queries came in: group by "
            "group turned into place by place. Head h of the result belongs to head h of q.",
            {"output": "groups_first"}),
    Mistake("heads_behind_positions", "The result is (B, L, Hq, d). Here heads come before positions: (B, "
            "Hq, L, d).", {"output": "heads_last"}),
    Mistake("groups_out_of_order", "The heads come out in another order than the queries came in: place by "
            "place turned into group by group. Head h of the result belongs to head h of q.",
            {"output": "key_heads_first"}),
    *(Mistake("renamed", "Heads and positions of the result were renamed by a reshape where an exchange of "
              "axes was needed.", {"output": output}) for output in ("by_view", "viewed_back")),
    Mistake("heads_merged", "The heads are merged to (B, L, Hq * d). Here they keep an axis: (B, Hq, L, d).",
            {"output": "merged"}),
    Mistake("rest_missing", "Only as many heads are computed as there are key heads, and the others are 0. "
            "Every query head has a result.", {"output": "rest_zero"}),
    *(Mistake("rest_missing", "You return as many heads as there are key heads. Every query head has a "
    "result.",
              {"output": output}) for output in ("key_heads_only", "first_heads_only", "group_mean", "mean")),
    Mistake("five_axes", "The result still has an axis for key heads and one for groups. Join them to Hq.",
            {"output": "five_axes"}),
    Mistake("heads_reversed", "The heads of the result come in reverse order.", {"output": "reversed"}),
    Mistake("more_returned", "You return the weights too. Only the output is asked for.",
            {"form": "with_weights"}),
    Mistake("weights_returned", "You return the weights. They have to average the values yet.",
            {"form": "weights"}),
    *RETURNED,
)  # fmt: skip

# What needs a mask of another shape, or a layer around the heads.
_ELSEWHERE = {"queries_too", "as_key_mask"}
_MASKED = tuple(m for m in MASKING if m.choices["masking"] not in _ELSEWHERE)


def _made(seed, b, hq, hkv, n, s, d, size=1.0):
    import torch

    rng = np.random.default_rng(seed)
    shapes = (b, hq, n, d), (b, hkv, s, d), (b, hkv, s, d)
    return tuple(torch.tensor(rng.normal(size=shape) * size) for shape in shapes)


def _gqa_cases():
    import torch

    rng = np.random.default_rng(18)

    def mask(*shape):
        made = rng.random(shape) < 0.5
        made[..., 1] |= ~made.any(-1)
        return torch.tensor(made)

    plain = _made(1, 2, 6, 2, 3, 4, 5)
    q, k, v = plain
    four = _made(3, 2, 4, 2, 3, 4, 5)
    alike = _made(4, 2, 3, 3, 3, 4, 5)
    square = _made(5, 2, 4, 2, 4, 4, 4)
    levels, ones = q.clone(), k.clone()
    levels[..., 0], ones[..., 0] = torch.tensor([900.0, -900.0, 0.0], dtype=q.dtype) * 5**0.5, 1.0
    low = q.clone()
    low[..., 0] = torch.tensor([-3e4, -1200.0, -30.0], dtype=q.dtype) * 5**0.5
    single = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0]], dtype=torch.bool)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    turned = tuple(a.transpose(1, 2).contiguous().transpose(1, 2) for a in plain)
    shape = "The mask broadcasts to (B, Hq, L, S) as it comes."
    again = "Is something kept from an earlier call with the same sizes?"
    hidden = "A hidden key has weight 0, however low the visible scores are."
    return [
        Case("6 query heads and 2 key heads, 3 queries and 4 keys", plain, hint=_BY),
        Case("the first sizes again, with other numbers", (q.flip(2), k.flip(1) * 0.7, v.flip(1) + 0.5),
             hint=again),
        Case("6 query heads and 3 key heads, 5 queries and 3 keys", _made(2, 3, 6, 3, 5, 3, 4), hint=_BY),
        Case("4 query heads and 2 key heads", four, hint=_BY),
        Case("one key head for all", _made(6, 2, 4, 1, 3, 4, 5)),
        Case("as many key heads as query heads", alike),
        Case("8 query heads and 2 key heads", _made(7, 2, 8, 2, 3, 4, 5), hint=_BY),
        Case("as many queries as keys", _made(8, 2, 6, 2, 4, 4, 5), hint="Without a mask every key is "
        "visible."),
        Case("as many sentences as heads, queries and keys", _made(9, 4, 4, 2, 4, 4, 4)),
        Case("one query of one sentence", _made(10, 1, 2, 1, 1, 3, 4), hint="Every axis stays, also one of "
        "size 1."),
        Case("a single key", _made(11, 2, 4, 2, 3, 1, 4)),
        Case("a mask of shape (L, S)", (*plain, mask(3, 4)), hint=shape),
        Case("another mask of shape (L, S)", (*plain, mask(3, 4)), hint=again),
        Case("padding, (B, 1, 1, S)", (*plain, torch.tensor([[1, 1, 1, 0], [0, 1, 1, 0]], dtype=torch.bool)
                                       [:, None, None, :]), hint=shape),
        Case("a mask for each sentence, (B, 1, L, S)", (*plain, mask(2, 1, 3, 4)), hint=shape),
        Case("a mask for each query head, (B, Hq, L, S)", (*plain, mask(2, 6, 3, 4)), hint=shape),
        Case("4 query heads, 2 key heads and a mask for each", (*four, mask(2, 4, 3, 4)), hint=shape),
        Case("as many key heads as query heads, and a mask", (*alike, mask(3, 4)), hint=shape),
        Case("as many key heads as query heads, and a mask for each", (*alike, mask(2, 3, 3, 4)), hint=shape),
        Case("a causal mask", (*square, causal), hint=shape),
        Case("as many sentences as heads, queries and keys, and a mask",
             (*_made(9, 4, 4, 2, 4, 4, 4), mask(4, 4, 4, 4)), hint=shape),
        Case("scores in the hundreds", _made(12, 2, 4, 2, 3, 4, 5, 20.0)),
        Case("queries with scores around 900, -900 and 0", (levels, ones, v),
             hint="Adding the same to all scores of a row changes no weight."),
        Case("the same under a mask", (levels, ones, v, mask(3, 4)), hint=hidden),
        Case("one visible key for each query, with scores down to -30,000", (low, ones, v, single),
             hint=hidden),
        Case("tensors whose heads and positions were transposed", turned, hint="What copies where it must?"),
        Case("values in the hundred thousands", (q, k, v * 3e5)),
        Case("float32", tuple(a.float() for a in plain)),
    ]  # fmt: skip


def _steps(case, value, expected):
    """Which key/value head each query head reads, and then what is wrong with the weights."""
    q, k, v, mask = (*case.args, None)[:4]
    q, k, v, out = floats(q), floats(k), floats(v), floats(value)
    if out is None or not np.isfinite(out).all() or v.shape[2] > v.shape[3] or v.shape[2] < 2:
        return None
    group, hkv = q.shape[1] // k.shape[1], k.shape[1]
    weights = np.zeros((*q.shape[:3], k.shape[2]))
    for h in range(q.shape[1]):
        read = [weights_behind(out[:, h], v[:, g]) for g in range(hkv)]
        right = h // group
        if read[right] is None:
            other = next((g for g in range(hkv) if read[g] is not None), None)
            if other is None:
                return (
                    f"Head {h} of your result averages the values of no key/value head; it should average "
                    f"those of head {right}."
                )
            return f"Query head {h} averages the values of key/value head {other}; it should be head {right}."
        weights[:, h] = read[right]
    scores = q @ np.repeat(k, group, 1).swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return of_the_weights(weights, None if mask is None else np.asarray(mask), scores)


gqa = FunctionExercise(
    _gqa, _gqa_cases,
    rare_but(COMMON | {"tiled", "tiled_keys", "tiled_values", "first_head_for_all", "groups_out_of_order",
                       "queries_in_another_order", "scale_of_the_length", "scale_of_the_heads",
                       "scale_of_the_group"},
             (*_SHARING, *_SCALE, *_GROUPED, *SOFTMAX, *_MASKED)),
    "Checked with groups of one to four heads, with one key head for all and with one for each, under five "
    "shapes of masks, and with large scores. The cache holds only the key heads.",
    properties=(finite, nothing, of_an_earlier_call(_gqa, _gqa_cases), rounded, _steps),
    rtol=1e-4, atol=1e-5,
)  # fmt: skip

EXERCISES = (
    Exercise(
        "gqa", "18", gqa,
        (
            "With 6 query heads and 2 key/value heads, which of the 2 does each of the 6 read? Write the "
            "list.",
            "Head h reads h // (Hq // Hkv): 0, 0, 0, 1, 1, 1. So each key/value head is copied three times, "
            "its copies side by side. Which of torch's two ways to repeat does that?",
            "repeat_interleave along the axis of heads, for keys and values alike. After that it is ordinary "
            "attention with Hq heads, scaled by the root of d, and the mask broadcasts as it comes.",
        ),
        """import torch

def grouped_query_attention(q, k, v, mask=None):
    group = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(group, dim=1)                # (B, Hq, S, d): 0, 0, 0, 1, 1, 1
    v = v.repeat_interleave(group, dim=1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return torch.softmax(scores, dim=-1) @ v""",
        "function",
    ),
)  # fmt: skip

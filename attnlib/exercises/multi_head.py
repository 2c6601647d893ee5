"""The exercises of lesson 09: each judge takes an answer and returns a verdict."""

from functools import partial

import numpy as np

from attnlib.exercises.answers import as_floats, numbers, short
from attnlib.exercises.calls import is_tensor
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, wrong

# Predictions and constructions


def price_of_heads(factors):
    """By what do four quantities change when 12 heads become 24 in a layer of width 768?"""
    given, complaint = numbers(factors, (4,), "your answer")
    if complaint:
        return complaint
    quantities = (
        ("the parameters", 1.0, "A head of half the width has matrices of half the size, and there are "
         "twice as many: W_Q, W_K, W_V and W_O keep their shape."),
        ("the multiplications", 1.0, "A head's dot products are half as long, and there are twice as many."),
        ("the attention weights", 2.0, "Every head has a weight for each query and key, however "
         "narrow it is."),
        ("the rank", 0.5, "A head's scores are queries times keys, so their rank is at most a head's width, "
         "and that falls from 64 to 32."),
    )
    if np.allclose(given[:3], 2):
        heads = {
            0.5: "You halve the rank, so you know that a head is now only 32 wide. Are its matrices and its "
                 "dot products still as large as those of a head of 64?",
            1.0: "That would be 24 heads of width 64. The layer stays 768 wide, so a head is now only 32 "
                 "wide. Which of the four notice?",
        }
        stays = "The layer stays 768 wide, so each of 24 heads is only 32 wide. Which of the four notice?"
        return wrong(heads.get(float(given[3]), stays), "twice_of_everything")
    for (name, factor, why), got in zip(quantities, given, strict=True):
        if abs(got - factor) > 1e-6:
            return wrong(f"A factor of {got:g} for {name} is not right. {why}", name.split()[-1])
    return right(
        "More heads cost no parameters and no products. What they cost is twice as many attention weights to "
        "hold and to normalise, and a narrower view for each head."
    )


def exposing_input(place):
    """Where a single 1 must stand so that the faulty split gives it to another word of the same head."""
    place, complaint = numbers(place, (2,), "your place")
    if complaint:
        return complaint
    token, feature = place
    if token not in range(4) or feature not in range(6):
        return wrong("The place is (word, feature), both whole numbers: a word from 0 to 3, a feature from 0 "
                     "to 5.")
    token, feature = int(token), int(feature)
    head = feature // 2
    lands_head, lands_token = divmod(3 * token + head, 4)
    told = (
        f"Feature {feature} of word {token} belongs to head {head}. The view puts it into head "
        f"{lands_head}, into the row of word {lands_token}."
    )
    if (lands_head, lands_token) == (head, token):
        return wrong(
            f"{told} That is where it belongs: with this input nobody sees the fault. The first and the last "
            "pair of features never move.", "hidden",
        )
    if lands_head != head:
        return wrong(
            f"{told} The fault shows, but the head is wrong too. Look for one that keeps its head.",
            "other_head",
        )
    return right(
        f"{told} Head {head} now takes it for something that word {lands_token} says. No shape changed, "
        "and no error came."
    )


def hiding_input(answer):
    """An input on which splitting by a view is right by accident."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        return wrong("Give two things, joined by a comma: (x, n_heads).")
    x, n_heads = answer
    x = _as_array(x)
    if x is None or x.dtype.kind not in "iuf" or x.ndim != 3 or 0 in x.shape:
        return wrong(
            f"x must be numbers of shape (B, L, D), a tensor or nested lists; got {short(answer[0])}."
        )
    x = x.astype(float)
    if x.size > 10_000 or not np.isfinite(x).all():
        return wrong("Let x have at most 10,000 numbers, all of them finite.")
    heads, complaint = numbers(n_heads, (), "n_heads")
    if complaint:
        return complaint
    if heads < 2 or heads != round(float(heads)) or x.shape[2] % heads:
        return wrong(
            f"n_heads must be a whole number from 2 up that divides the {x.shape[2]} features. "
            "(With one head the view is always right, and many a first test has one.)",
            "one_head" if heads == 1 else None,
        )
    b, length, width = x.shape
    if length < 2:
        return wrong(
            "With a single word nothing can be mixed up. Find two words or more that hide the fault.",
            "one_token",
        )
    parts = x.reshape(b, length, int(heads), -1)                       # (B, L, H, d)
    alike = "two words" if any(map(_repeats, x)) else None
    if any(_repeats(token) for sentence in parts for token in sentence):
        alike = "two heads of a word"
    if alike:
        return wrong(
            f"In your x {alike} are alike. Equal parts can hide a mix-up cheaply; let all words of a "
            "sentence differ, and within each word all its heads.", "all_alike",
        )
    true, viewed = parts.swapaxes(1, 2), x.reshape(b, int(heads), length, -1)
    differs = np.argwhere(true != viewed)
    if differs.size:
        at = tuple(int(i) for i in differs[0])
        return wrong(
            f"Your x shows the fault: head {at[1]} should hold {true[at]:g} for word {at[2]}, feature "
            f"{at[3]} of the head, and the view puts {viewed[at]:g} there. Which parts must be equal?",
            "exposes",
        )
    return right(
        "The view is right on this input, and neither words nor heads are alike. Where a test's sizes are "
        "small and equal, such an accident is near. Random numbers and sizes that all differ keep it away."
    )


def _as_array(x):
    try:
        return np.asarray(x.detach().cpu() if is_tensor(x) else x)
    except (TypeError, ValueError, RuntimeError, OverflowError, NotImplementedError):
        return None


def _as_floats(x):
    """An array or tensor as floats, or None where it holds no real numbers."""
    x = _as_array(x)
    return None if x is None else as_floats(x)


def _repeats(rows):
    return len(np.unique(rows, axis=0)) < len(rows)


# split_heads


def _split(x, n_heads, *, order="right"):
    b, length, width = x.shape
    h, d = n_heads, width // n_heads
    parts = x.reshape(b, length, h, d)
    if order == "view_or_error":
        return x.view(b, h, length, d)
    return {
        "right": lambda: parts.permute(0, 2, 1, 3),
        "view": lambda: x.reshape(b, h, length, d),
        "no_transpose": lambda: parts,
        "interleaved": lambda: x.reshape(b, length, d, h).permute(0, 3, 1, 2),
        "as_width": lambda: x.reshape(b, length, d, h).permute(0, 2, 1, 3),
        "last_pair": lambda: parts.permute(0, 1, 3, 2),
        "outer_pair": lambda: parts.permute(0, 3, 2, 1),
        "first_pair": lambda: parts.permute(1, 0, 2, 3),
        "heads_last": lambda: parts.permute(0, 2, 3, 1),
        "heads_first": lambda: parts.permute(2, 0, 1, 3),
        "in_batch": lambda: parts.permute(0, 2, 1, 3).reshape(b * h, length, d),
        "in_batch_heads_first": lambda: parts.permute(2, 0, 1, 3).reshape(h * b, length, d),
        "batch_mixed": lambda: x.reshape(h, b, length, d).permute(1, 0, 2, 3),
        "batch_reshaped": lambda: parts.permute(2, 0, 1, 3).reshape(b, h, length, d),
        "length_first": lambda: x.reshape(length, b, h, d).permute(1, 2, 0, 3),
        "positions_cut": lambda: parts.permute(1, 2, 0, 3).reshape(b, h, length, d),
        "copies": lambda: x.unsqueeze(1).expand(b, h, length, width),
        "reversed": lambda: parts.permute(0, 2, 1, 3).flip(1),
        "backwards": lambda: parts.permute(0, 2, 1, 3).flip(-1),
    }[order]()


_VIEW = (
    "you cut (B, H, L, d) straight out of memory. A word's features lie side by side there, so what follows "
    "the first head of a word is its next head, not the next word: heads and positions are mixed, and the "
    "shape is right all the same. First give each word's features a head axis, then exchange two axes."
)
_SPLIT = (
    Mistake("view_without_transpose", _VIEW, {"order": "view"}),
    Mistake("view_without_transpose", _VIEW, {"order": "view_or_error"}),
    Mistake("no_transpose", "the heads still stand behind the positions, (B, L, H, d). Attention works "
            "over the last two axes, and would let heads look at heads. Exchange positions and heads.",
            {"order": "no_transpose"}),
    Mistake("interleaved", "your heads take every H-th feature. Head 0 should hold the first D/H "
            "features, head 1 the next, as whole blocks. In which order do the two new axes of the "
            "features stand?", {"order": "interleaved"}),
    Mistake("heads_as_width", "you made heads of n_heads features. n_heads is how many heads there are; "
            "each has D / n_heads features.", {"order": "as_width"}),
    Mistake("wrong_pair", "you exchanged heads and features. The pair to exchange is positions and heads.",
            {"order": "last_pair"}),
    Mistake("wrong_pair", "you exchanged positions and features. The pair to exchange is positions and "
            "heads.", {"order": "outer_pair"}),
    Mistake("wrong_pair", "you exchanged batch and positions. The pair to exchange is positions and "
            "heads.", {"order": "first_pair"}),
    Mistake("features_before_positions", "each head comes out as (d, L). It must be (L, d): a row for "
            "each word.", {"order": "heads_last"}),
    Mistake("heads_before_batch", "your heads stand before the batch, (H, B, L, d). Here the batch comes "
            "first.", {"order": "heads_first"}, convention=True),
    Mistake("heads_in_batch", "you fold the heads into the batch, (B * H, L, d), as torch does inside. "
            "Here they keep an axis of their own.", {"order": "in_batch"}, convention=True),
    Mistake("heads_in_batch", "you fold the heads into the batch, (H * B, L, d). Here they keep an axis "
            "of their own, behind the batch.", {"order": "in_batch_heads_first"}, convention=True),
    Mistake("batch_mixed", "sentences of the batch are mixed: the batch axis was cut together with the "
            "others. It must stay as it is.", {"order": "batch_mixed"}),
    Mistake("batch_mixed", "the heads were moved before the batch, and then a reshape renamed the axes. "
            "That moves sentences into one another. Exchange axes, do not rename them.",
            {"order": "batch_reshaped"}),
    Mistake("length_first", "you read x as (L, B, D). Here the batch comes first, (B, L, D).",
            {"order": "length_first"}, convention=True),
    Mistake("batch_mixed", "positions were moved before the batch, and then a reshape renamed the axes. "
            "That moves sentences into one another.", {"order": "positions_cut"}),
    Mistake("copies", "every head holds all features. A head gets its own block of D/H.",
            {"order": "copies"}),
    Mistake("heads_reversed", "your heads come in reverse order.", {"order": "reversed"}),
    Mistake("features_reversed", "the features within each head come in reverse order.",
            {"order": "backwards"}),
)


def _split_cases():
    count = _counting
    odd = count(4, 3, 2).permute(1, 2, 0)        # (3, 2, 4), features far apart in memory
    return [
        Case("2 sentences of 5 words, 12 features, 3 heads", (count(2, 5, 12), 3)),
        Case("4 sentences of 3 words, 10 features, 2 heads", (count(4, 3, 10), 2)),
        Case("as many words as heads", (count(2, 3, 6), 3)),
        Case("as many sentences as heads", (count(3, 4, 6), 3)),
        Case("one head", (count(2, 5, 4), 1), hint="The axis of the single head stays."),
        Case("as many heads as features", (count(2, 5, 3), 3)),
        Case("a single word", (count(2, 1, 6), 2)),
        Case("a single sentence", (count(1, 4, 6), 2)),
        Case("a tensor that is not contiguous", (odd, 2),
             hint="A view cannot always be had of it; reshape copies where it must."),
        Case("every second feature of a larger tensor", (count(2, 3, 16)[:, :, ::2], 4)),
    ]


def _no_number_lost(case, value, expected):
    found = _as_floats(value)
    if found is None or np.array_equal(np.sort(found, axis=None), np.sort(_as_floats(expected), axis=None)):
        return None
    return "Some numbers of x are lost, or stand there twice."


# merge_heads


def _merge(x, *, order="right"):
    b, h, length, d = x.shape
    across = x.permute(0, 2, 1, 3)               # (B, L, H, d)
    shape = (b, length, h * d)
    if order == "view_or_error":
        return x.view(shape)
    if order == "transposed_view":
        return across.view(shape)
    return {
        "right": lambda: across.reshape(shape),
        "view": lambda: x.reshape(shape),
        "interleaved": lambda: x.permute(0, 2, 3, 1).reshape(shape),
        "not_merged": lambda: across,
        "mean": lambda: x.mean(1),
        "sum": lambda: x.sum(1),
        "first": lambda: x[:, 0],
        "longer": lambda: x.reshape(b, h * length, d),
        "features_first": lambda: x.permute(0, 1, 3, 2).reshape(shape),
        "outer_pair": lambda: x.permute(0, 3, 2, 1).reshape(shape),
        "batch_mixed": lambda: x.permute(1, 0, 2, 3).reshape(shape),
        "length_mixed": lambda: x.permute(2, 0, 1, 3).reshape(shape),
        "length_first": lambda: x.permute(2, 0, 1, 3).reshape(length, b, h * d),
        "width_first": lambda: across.reshape(shape).transpose(1, 2),
        "reversed": lambda: across.flip(2).reshape(shape),
    }[order]()


_MERGE_VIEW = (
    "you relabelled memory as (B, L, H * d). A head's rows lie side by side there, so a word gets pieces of "
    "other words from one head. Bring the heads of one word together before you join axes."
)
_MERGE = (
    Mistake("merge_by_view", _MERGE_VIEW, {"order": "view"}),
    Mistake("merge_by_view", _MERGE_VIEW, {"order": "view_or_error"}),
    Mistake("view_of_transposed", "after the transposition the numbers no longer lie in memory in the "
            "order of the axes, and view refuses to copy them. What does copy?",
            {"order": "transposed_view"}),
    Mistake("interleaved", "the heads' features are dealt out in turn. A word should get all of head 0, "
            "then all of head 1.", {"order": "interleaved"}),
    Mistake("not_merged", "heads and features are still two axes. Join the last two.",
            {"order": "not_merged"}),
    Mistake("heads_averaged", "you average the heads. Two heads that found different things are a blend "
            "again; lay them side by side.", {"order": "mean"}),
    Mistake("heads_added", "you add the heads. Lay them side by side; W_O mixes them afterwards.",
            {"order": "sum"}),
    Mistake("one_head", "only head 0 comes back.", {"order": "first"}),
    Mistake("heads_as_positions", "the heads stand behind one another along the positions. Lay them side "
            "by side along the features.", {"order": "longer"}),
    Mistake("wrong_pair", "you exchanged positions and features before joining. The pair to exchange is "
            "heads and positions.", {"order": "features_first"}),
    Mistake("wrong_pair", "you exchanged heads and features before joining. The pair to exchange is heads "
            "and positions.", {"order": "outer_pair"}),
    Mistake("batch_mixed", "heads were moved before the batch and then relabelled: sentences are mixed. "
            "The batch axis must stay first.", {"order": "batch_mixed"}),
    Mistake("batch_mixed", "positions were moved before the batch and then relabelled: sentences are "
            "mixed.", {"order": "length_mixed"}),
    Mistake("length_first", "your result is (L, B, D). Here the batch comes first, (B, L, D).",
            {"order": "length_first"}, convention=True),
    Mistake("features_before_positions", "your result is (B, D, L). A row for each word, please: (B, L, "
            "D).", {"order": "width_first"}),
    Mistake("heads_reversed", "the heads come in reverse order. Head 0 first.", {"order": "reversed"}),
)


def _merge_cases():
    count = _counting
    return [
        Case("2 sentences, 3 heads, 5 words, 4 features a head", (count(2, 3, 5, 4),)),
        Case("4 sentences, 2 heads, 3 words, 5 features a head", (count(4, 2, 3, 5),)),
        Case("as many words as heads", (count(2, 3, 3, 2),)),
        Case("as many sentences as heads", (count(3, 3, 4, 2),)),
        Case("one head", (count(2, 1, 5, 4),)),
        Case("heads of one feature", (count(2, 3, 4, 1),)),
        Case("a single word", (count(2, 3, 1, 2),)),
        Case("heads that were split by a transposition", (count(2, 5, 3, 4).transpose(1, 2),)),
        Case("a tensor whose features lie far apart", (count(4, 3, 5, 2).permute(3, 1, 2, 0),)),
    ]


def _counting(*shape):
    import torch

    return torch.arange(1.0, 1 + int(np.prod(shape)), dtype=torch.float64).reshape(shape)


# multi_head_attention


def _multi_head(
    x, w_q, w_k, w_v, w_o, n_heads, mask=None, *,
    project="right", scale="head", split="right", merge="right", axis=-1, masking="right", empty="zeros",
    naive=False, output="right", cut=None,
):
    import torch

    d = n_heads if split == "as_width" else x.shape[-1] // n_heads
    if cut == "input":
        x, w_q, w_k, w_v, w_o = (a.detach() for a in (x, w_q, w_k, w_v, w_o))
    if cut == "parameters":
        w_q, w_k, w_v, w_o = (w.detach() for w in (w_q, w_k, w_v, w_o))
    q, k, v = _projections(x, w_q, w_k, w_v, n_heads, project, split)
    scores = q @ k.transpose(-1, -2) * {
        "head": d**-0.5, "model": x.shape[-1] ** -0.5, "none": 1.0, "linear": 1 / d, "times": d**0.5,
        "length": x.shape[1] ** -0.5, "heads": n_heads**-0.5, "quarter": d**-0.25,
    }[scale]
    masked = None if mask is None else _mask_for(mask, masking, x.shape[0], n_heads)
    weights = _weights_of(scores, masked, masking, empty, axis, naive)
    if cut == "weights":
        weights = weights.detach()
    heads = weights @ v
    if empty in ("added_heads_mended", "filled_heads_mended"):
        heads = heads.nan_to_num()
    if split == "no_transpose":
        heads = heads.transpose(1, 2)
    if output == "blocks":
        blocks = [w_o[i : i + d, i : i + d] for i in range(0, x.shape[-1], d)]
        return torch.cat([head @ block for head, block in zip(heads.unbind(1), blocks, strict=True)], -1)
    if output in ("mean_rows", "sum_rows"):
        return (heads.mean(1) if output == "mean_rows" else heads.sum(1)) @ w_o[:d]
    if output == "mean_repeated":
        return heads.mean(1).repeat(1, 1, heads.shape[1]) @ w_o
    out = _merge(heads, order=merge)
    if output == "transposed":
        return out @ w_o.T
    if output == "forgotten":
        return out
    out = out @ w_o + x if output == "residual" else out @ w_o
    return out.nan_to_num() if empty in ("added_output_mended", "filled_output_mended") else out


def _projections(x, w_q, w_k, w_v, n_heads, project, split):
    import torch

    d = x.shape[-1] // n_heads
    cut = partial(_split, n_heads=n_heads, order=split)
    if project == "blocks":                      # the features are split before the maps
        parts, starts = _split(x, n_heads).unbind(1), range(0, x.shape[-1], d)
        return tuple(
            torch.stack([part @ w[i : i + d, i : i + d] for part, i in zip(parts, starts, strict=True)], 1)
            for w in (w_q, w_k, w_v)
        )
    if project == "weights_by_view":
        return tuple(torch.einsum("bld,hde->bhle", x, w.reshape(n_heads, -1, d)) for w in (w_q, w_k, w_v))
    if project == "same_head":
        return tuple(torch.stack([x @ w[:, :d]] * n_heads, 1) for w in (w_q, w_k, w_v))
    q, k, v = {
        "right": (w_q, w_k, w_v), "transposed": (w_q.T, w_k.T, w_v.T), "key_is_query": (w_q, w_q, w_v),
        "query_is_key": (w_k, w_k, w_v), "value_is_key": (w_q, w_k, w_k), "value_is_query": (w_q, w_k, w_q),
        "swapped": (w_k, w_q, w_v), "raw_value": (w_q, w_k, None), "all_query": (w_q, w_q, w_q),
    }[project]
    return tuple(cut(x if w is None else x @ w) for w in (q, k, v))


def _mask_for(mask, masking, batch, n_heads):
    import torch

    if masking == "inverted":
        return ~mask
    if masking == "rows":
        return mask.transpose(-1, -2)
    if masking == "both_sides":
        return mask & mask.transpose(-1, -2)
    if masking == "first_sentence":
        return mask[:1] if mask.ndim == 4 else mask
    if masking == "first_head":
        return mask[:, :1] if mask.ndim == 4 else mask
    if masking == "tiled" and mask.ndim == 4:
        index = torch.arange(batch * n_heads)
        full = mask.expand(batch, n_heads, *mask.shape[2:])
        return full.reshape(-1, *mask.shape[2:])[(index % batch) * n_heads].reshape(full.shape)
    return mask


def _weights_of(scores, mask, masking, empty, axis, naive):
    import torch

    if masking == "causal":
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is None or masking in ("ignored", "after"):
        weights = _softmax_of(scores, axis, naive)
        if mask is None or masking == "ignored":
            return weights
        return torch.where(mask, weights, 0.0)
    if masking == "multiplied":
        return _softmax_of(scores * mask, axis, naive)
    if masking == "added":
        return _softmax_of(scores + mask.to(scores.dtype), axis, naive)
    if masking == "zero_times_infinity":
        return _softmax_of(scores + (~mask).to(scores.dtype) * -torch.inf, axis, naive)
    if empty == "uniform":
        return _softmax_of(torch.where(mask, scores, -1e9), axis, naive)
    weights = _softmax_of(torch.where(mask, scores, -torch.inf), axis, naive)
    if empty in ("nan", "filled_heads_mended", "filled_output_mended"):
        return weights
    if empty in ("added_weights_mended", "added_heads_mended", "added_output_mended"):
        hide = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask, -torch.inf)
        weights = torch.softmax(scores + hide, axis)
        return weights.nan_to_num() if empty == "added_weights_mended" else weights
    # A row that is -inf throughout has no softmax: give it finite scores first and zeros afterwards.
    return torch.where(mask, _softmax_of(torch.where(mask, scores, -1e30), axis, naive), 0.0)


def _softmax_of(scores, axis, naive):
    import torch

    if axis == "all":
        return _softmax_of(scores.flatten(-2), -1, naive).reshape(scores.shape)
    if naive:
        e = torch.exp(scores)
        return e / e.sum(axis, keepdim=True)
    return torch.softmax(scores, axis)


_PROJECT = (
    Mistake("weights_transposed", "you multiply by the transposes of W_Q, W_K and W_V. nn.Linear keeps "
            "its matrix transposed; here every matrix is used as x @ w.", {"project": "transposed"}),
    Mistake("all_weights_transposed", "you multiply by the transpose of every matrix. nn.Linear keeps its "
            "matrix transposed; here every matrix is used as x @ w.",
            {"project": "transposed", "output": "transposed"}, convention=True),
    Mistake("same_projection", "queries and keys both come from w_q, so every score is symmetric. Keys "
            "have a matrix of their own.", {"project": "key_is_query"}),
    Mistake("same_projection", "queries and keys both come from w_k. Queries have a matrix of their own.",
            {"project": "query_is_key"}),
    Mistake("same_projection", "the values come from w_k. What is handed out has a matrix of its own.",
            {"project": "value_is_key"}),
    Mistake("same_projection", "the values come from w_q. What is handed out has a matrix of its own.",
            {"project": "value_is_query"}),
    Mistake("same_projection", "queries, keys and values all come from w_q.", {"project": "all_query"}),
    Mistake("roles_swapped", "queries come from w_k and keys from w_q. Who asks and who is asked are "
            "exchanged.", {"project": "swapped"}),
    Mistake("no_value_projection", "the values are x itself. They are x @ w_v.", {"project": "raw_value"}),
    Mistake("split_before_projection", "you split x first and give each head one block of each matrix. A "
            "head must read all D features: project first, split afterwards.", {"project": "blocks"}),
    Mistake("weights_by_view", "you cut the matrix into heads by a reshape to (H, D, d), which mixes its "
            "rows and columns. Head h has columns h*d to (h+1)*d.", {"project": "weights_by_view"}),
    Mistake("every_head_the_same", "every head uses the first columns of the matrices, so all heads are "
            "the same one.", {"project": "same_head"}),
)
_SCALE = (
    Mistake("scale_of_the_model", "you divide the scores by the root of the model's width. A dot product "
            "here is only as long as a head.", {"scale": "model"}),
    Mistake("no_scale", "the scores are not scaled. Divide them by the root of a head's width.",
            {"scale": "none"}),
    Mistake("scale_without_root", "you divide by a head's width, without the root.", {"scale": "linear"}),
    Mistake("scale_multiplies", "you multiply by the root of the width. Divide.", {"scale": "times"}),
    Mistake("scale_of_the_length", "you divide by the root of the number of words. It is the width of a "
            "head that makes dot products large.", {"scale": "length"}),
    Mistake("scale_of_the_heads", "you divide by the root of the number of heads. It is a head's width "
            "that counts.", {"scale": "heads"}),
    Mistake("scale_quarter", "you divide by the fourth root of the width. Was only one of queries and "
            "keys scaled?", {"scale": "quarter"}),
)
_SHAPES = (
    Mistake("view_without_transpose", "queries, keys and values are cut into (B, H, L, d) without a "
            "transposition, so heads and positions are mixed. Give each word's features a head axis, "
            "then exchange axes.", {"split": "view"}),
    Mistake("split_and_merge_by_view", "both splitting and merging relabel memory without exchanging "
            "axes. There and back it looks right, and in between every head holds pieces of other words.",
            {"split": "view", "merge": "view"}),
    Mistake("no_transpose", "the heads stand behind the positions while attention runs, so the heads of "
            "one word look at one another and no word sees another.", {"split": "no_transpose"}),
    Mistake("interleaved", "your heads take every H-th column. Head h has columns h*d to (h+1)*d, a whole "
            "block.", {"split": "interleaved"}),
    Mistake("interleaved", "your heads take every H-th column and are dealt back the same way. Head h has "
            "columns h*d to (h+1)*d, a whole block.", {"split": "interleaved", "merge": "interleaved"}),
    Mistake("heads_as_width", "you made heads of n_heads features. n_heads is how many there are.",
            {"split": "as_width"}),
    Mistake("batch_mixed", "the batch axis was cut together with the others: sentences are mixed.",
            {"split": "batch_mixed"}),
    Mistake("batch_mixed", "heads were moved before the batch and then relabelled: sentences are mixed.",
            {"split": "batch_reshaped"}),
    Mistake("length_first", "you read x as (L, B, D). Here the batch comes first.",
            {"split": "length_first"}),
    Mistake("merge_by_view", "the heads are merged without exchanging axes back, so a word gets pieces "
            "of other words from one head.", {"merge": "view"}),
    Mistake("merge_interleaved", "the heads' features are dealt out in turn. Lay whole heads side by "
            "side.", {"merge": "interleaved"}),
    Mistake("view_of_transposed", "view needs memory in the order of the axes, and a transposed tensor is "
            "not. What copies where it must?", {"merge": "transposed_view"}),
    Mistake("heads_averaged", "the heads are averaged, and only the first rows of w_o are used. Lay the "
            "heads side by side; w_o has rows for each.", {"output": "mean_rows"}),
    Mistake("heads_averaged", "the heads are added, and only the first rows of w_o are used. Lay the "
            "heads side by side; w_o has rows for each.", {"output": "sum_rows"}),
    Mistake("heads_averaged", "every head is replaced by the mean of all. Lay the heads side by side as "
            "they are.", {"output": "mean_repeated"}),
    Mistake("batch_mixed", "after attention the heads were moved before the batch and relabelled: "
            "sentences are mixed.", {"merge": "batch_mixed"}),
    Mistake("heads_reversed", "the heads are laid side by side in reverse order.", {"merge": "reversed"}),
)
_SOFTMAX = (
    Mistake("softmax_over_queries", "the softmax runs over the queries. Each query's weights must sum to "
            "1 over its keys, the last axis.", {"axis": -2}),
    Mistake("softmax_over_heads", "the softmax runs over the heads. Each head has its own, over the keys.",
            {"axis": 1}),
    Mistake("softmax_over_batch", "the softmax runs over the batch. It runs over the keys, the last axis.",
            {"axis": 0}),
    Mistake("softmax_over_all", "one softmax runs over all queries and keys of a head at once. Each query "
            "has its own.", {"axis": "all"}),
    Mistake("overflow", "exp of a large score is infinite, and inf/inf is NaN. Subtract each row's "
            "largest score, or use a softmax that does.", {"naive": True}),
)
_MASKING = (
    Mistake("mask_inverted", "True hides in your function. Here True means may attend.",
            {"masking": "inverted"}, convention=True),
    Mistake("mask_ignored", "the mask has no effect.", {"masking": "ignored"}),
    Mistake("mask_after_softmax", "the mask is applied to the weights, and what is left no longer sums to "
            "1. Hide the scores before the softmax.", {"masking": "after"}),
    Mistake("mask_fills_with_zero", "hidden scores become 0, or nearly, and a score of 0 is no hidden "
            "key: exp(0) is 1. Which score has weight 0?", {"masking": "multiplied"}),
    Mistake("mask_added", "you add the boolean mask to the scores, so what may be seen gains 1 and "
            "nothing is hidden.", {"masking": "added"}),
    Mistake("zero_times_infinity", "the mask is multiplied by infinity, and 0 times infinity is NaN: what "
            "may be seen gets it too. Choose the score by the mask, do not multiply.",
            {"masking": "zero_times_infinity"}),
    Mistake("mask_transposed", "the mask hides rows where it should hide columns: queries and keys are "
            "exchanged.", {"masking": "rows"}),
    Mistake("mask_on_both_sides", "the mask hides queries as well as keys.", {"masking": "both_sides"}),
    Mistake("mask_of_first_sentence", "the first sentence's mask is used for all.",
            {"masking": "first_sentence"}),
    Mistake("mask_of_first_head", "the first head's mask is used for all.", {"masking": "first_head"}),
    Mistake("mask_tiled", "with heads folded into the batch, the masks are repeated in the wrong order: "
            "sentence by sentence, and not each one for all its heads.", {"masking": "tiled"}),
    Mistake("always_causal", "a causal mask is used, whatever the mask says.", {"masking": "causal"}),
    Mistake("empty_row_uniform", "a query that may attend to nothing averages all values, because all its "
            "scores are the same large negative number. It should contribute zeros.", {"empty": "uniform"}),
    Mistake("empty_row_nan", "a query that may attend to nothing gives NaN: what is left of its row sums "
            "to 0, and 0/0 is no number. It should contribute zeros.", {"empty": "nan"}),
    *(Mistake("empty_row_nan_gradient", "the output of an empty row is right, and its gradient is NaN: "
              "-inf was added to its scores, and what mended the output does nothing on the way back. Keep "
              "the row finite before the softmax.", {"empty": empty})
      for empty in ("added_weights_mended", "added_heads_mended", "added_output_mended")),
    *(Mistake("empty_row_nan_gradient", "the output of an empty row is right, and the gradient is NaN: its "
              "weights were NaN when they met the values, and what mended the output afterwards does nothing "
              "on the way back. Keep the row finite before the softmax.", {"empty": empty})
      for empty in ("filled_heads_mended", "filled_output_mended")),
)
_OUTPUT = (
    Mistake("no_output_projection", "w_o is not used. The heads lie side by side, and nothing has mixed "
            "them.", {"output": "forgotten"}),
    Mistake("output_transposed", "w_o is transposed. It is used as it is, heads @ w_o.",
            {"output": "transposed"}),
    Mistake("output_per_head", "each head is multiplied by a block of w_o of its own. w_o maps all heads "
            "together to all D features.", {"output": "blocks"}),
    Mistake("residual", "x is added to the result. The residual belongs to the layer around this one.",
            {"output": "residual"}),
)
_GRADIENT = (
    Mistake("no_gradient", "the result has no gradient: somewhere it left torch, or was detached.",
            {"cut": "input"}),
    Mistake("parameters_detached", "the gradient reaches x and not the matrices: they are detached, or "
            "used through .data, and would never learn.", {"cut": "parameters"}),
    Mistake("weights_detached", "the values are right, and no gradient passes through the attention "
            "weights, so queries and keys would never learn. Where are the weights detached?",
            {"cut": "weights"}),
)


_MASK = "The mask is None, or a tensor that broadcasts to (B, H, L, L) as it comes."


def _made(seed, b, length, width, size=1.0):
    """x (B, L, D) and four matrices (D, D), in float64."""
    import torch

    rng = np.random.default_rng(seed)
    x = torch.tensor(rng.normal(size=(b, length, width)) * size)
    return (x, *(torch.tensor(rng.normal(size=(width, width)) / width**0.5) for _ in range(4)))


def _multi_head_cases():
    import torch

    rng = np.random.default_rng(9)
    plain = _made(1, 2, 5, 12)
    padding = torch.tensor([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], dtype=torch.bool)[:, None, None, :]
    full = torch.tensor(rng.random((2, 1, 5, 5)) < 0.6) | torch.eye(5, dtype=torch.bool)
    each_head = torch.tensor(rng.random((2, 3, 5, 5)) < 0.6) | torch.eye(5, dtype=torch.bool)
    causal = torch.ones(5, 5, dtype=torch.bool).tril()
    with_empty = causal.clone()
    with_empty[2] = False
    turned = tuple(a.mT.contiguous().mT for a in _made(7, 2, 5, 12))
    return [
        Case("2 sentences of 5 words, width 12, 3 heads", (*plain, 3),
             hint="Write the shape behind every line. What meets w_o holds all heads side by side."),
        Case("4 sentences of 3 words, width 10, 2 heads", (*_made(2, 4, 3, 10), 2)),
        Case("one head", (*_made(3, 2, 4, 6), 1)),
        Case("as many words as heads", (*_made(4, 2, 3, 12), 3)),
        Case("as many heads as features", (*_made(5, 2, 4, 3), 3)),
        Case("a causal mask of shape (L, L)", (*plain, 3, causal), hint=_MASK),
        Case("padding left and right, (B, 1, 1, L)", (*plain, 3, padding), hint=_MASK),
        Case("a mask for each sentence, (B, 1, L, L)", (*plain, 3, full), hint=_MASK),
        Case("a mask for each head, (B, H, L, L)", (*plain, 3, each_head), hint=_MASK),
        Case("a query that may attend to nothing", (*plain, 3, with_empty)),
        Case("a sentence of padding only", (*plain, 3, padding & torch.tensor([[[[True]]], [[[False]]]]))),
        Case("scores in the hundreds", (*_made(6, 2, 4, 6, 20.0), 2)),
        Case("matrices whose columns lie side by side in memory", (*turned, 3, causal)),
        Case("float32", (*(a.float() for a in plain), 3, full)),
        Case("the gradient in x and all matrices", (*plain, 3, full), gradient_of=(0, 1, 2, 3, 4),
             hint="Every step must stay in torch."),
        Case("the gradient beside a query that may attend to nothing", (*plain, 3, with_empty),
             gradient_of=(0, 1, 2, 3, 4),
             hint="Results 2 to 6 are the gradient in x and in each matrix. What mends NaN in the output "
             "does not mend the gradient; no NaN may arise on the way."),
    ]


def _finite(case, value, expected):
    for part in value if isinstance(value, (tuple, list)) else (value,):
        part = _as_floats(part)
        if part is not None and not np.isfinite(part).all():
            return "There are NaN or infinite numbers."
    return None


def _alone(case, value, expected):
    """Where the mask hides everything, the output is zero."""
    mask, found = case.args[6] if len(case.args) > 6 else None, _as_floats(value)
    if mask is None or found is None or isinstance(value, (tuple, list)):
        return None
    visible = mask.expand(found.shape[0], case.args[5], found.shape[1], found.shape[1]).any(-1).any(1)
    if not visible.all() and np.abs(found[~visible.numpy()]).max() > 1e-6:
        return "A query that may attend to nothing must come out as zeros."
    return None


# dropout_weights


def _dropout(scores, p, training, keep, *, where="after", rescale="inverted", kept="given", flag="right",
             idle="plain", axis=-1, naive=False):
    scores = np.asarray(scores, dtype=np.result_type(np.asarray(scores).dtype, np.float32))
    training = {"right": training, "inverted": not training, "always": True, "never": False}[flag]
    keep = keep if kept == "given" else 1 - keep
    if where == "no_softmax":
        weights = scores
    elif training and where == "scores":
        return _np_softmax(scores * keep / (1 - p), axis, naive)
    elif training and where == "scores_unscaled":
        return _np_softmax(scores * keep, axis, naive)
    elif training and where == "minus_infinity_rescaled":
        with np.errstate(all="ignore"):
            return _np_softmax(np.where(keep > 0, scores, -np.inf), axis, naive) / (1 - p)
    elif training and where == "large_negative":
        return _np_softmax(np.where(keep > 0, scores, -1e9), axis, naive)
    else:
        weights = _np_softmax(scores, axis, naive)
    if not training:
        return weights * {"plain": 1, "times": 1 - p, "divided": 1 / (1 - p)}[idle]
    dropped = weights * keep
    with np.errstate(all="ignore"):
        return dropped * {
            "inverted": lambda: 1 / (1 - p), "none": lambda: 1, "by_p": lambda: np.float64(1) / p,
            "times": lambda: 1 - p, "times_p": lambda: p, "share": lambda: 1 / keep.mean(),
            "row_share": lambda: 1 / keep.mean(-1, keepdims=True), "root": lambda: (1 - p) ** -0.5,
            "sum": lambda: 1 / dropped.sum(-1, keepdims=True), "plus": lambda: 1 / (1 + p),
            "safe_sum": lambda: 1 / np.maximum(dropped.sum(-1, keepdims=True), 1e-9),
        }[rescale]()


def _np_softmax(scores, axis, naive):
    axis = None if axis == "all" else axis
    with np.errstate(all="ignore"):
        top = 0 if naive is True else scores.max(axis=None if naive else axis, keepdims=True)
        e = np.exp(scores - top)
        return e / e.sum(axis=axis, keepdims=True)


_RENORMALISED = (
    "what is left is brought back to a sum of 1, so the other keys make up for a dropped one. (Hiding scores "
    "before the softmax does this too.) Divide by 1 - p, a number that does not depend on the row."
)
_ON_SCORES = (
    "you drop scores, before the softmax. A score of 0 is no missing key: exp(0) is 1. Drop weights, after "
    "the softmax."
)
_DROPOUT = (
    Mistake("not_rescaled", "the weights are dropped and not raised, so on average a row sums to 1 - p in "
            "training and to 1 afterwards. Divide what is kept.", {"rescale": "none"}),
    Mistake("rescaled_at_test", "you leave the weights in training and lower them afterwards. Here they "
            "are raised in training, and the softmax comes back untouched without it.",
            {"rescale": "none", "idle": "times"}, convention=True),
    Mistake("divided_by_p", "you divide by p, the part that is dropped. Divide by the part that is kept, "
            "1 - p.", {"rescale": "by_p"}),
    Mistake("multiplied", "you multiply by 1 - p. Divide: what is kept has to stand in for what was "
            "dropped.", {"rescale": "times"}),
    Mistake("multiplied", "you multiply by p. Divide by 1 - p.", {"rescale": "times_p"}),
    Mistake("divided_by_share", "you divide by the share that happened to be kept. Divide by 1 - p, "
            "whatever was drawn.", {"rescale": "share"}),
    Mistake("divided_by_share", "you divide by the share of each row that happened to be kept. Divide by "
            "1 - p, whatever was drawn.", {"rescale": "row_share"}),
    Mistake("divided_by_root", "you divide by the root of 1 - p. To keep the mean, divide by 1 - p.",
            {"rescale": "root"}),
    Mistake("divided_by_sum", "you divide by 1 + p. Divide by 1 - p.", {"rescale": "plus"}),
    Mistake("renormalised", _RENORMALISED, {"rescale": "sum"}),
    Mistake("renormalised", _RENORMALISED, {"rescale": "safe_sum"}),
    Mistake("renormalised", f"hidden scores are set very low before the softmax, so {_RENORMALISED}",
            {"where": "large_negative"}),
    Mistake("renormalised", f"hidden scores are set to -inf before the softmax, so {_RENORMALISED}",
            {"where": "minus_infinity_rescaled"}),
    Mistake("dropout_on_scores", _ON_SCORES, {"where": "scores"}),
    Mistake("dropout_on_scores", _ON_SCORES, {"where": "scores_unscaled"}),
    Mistake("no_softmax", "the scores come back dropped and rescaled. They must be made weights first.",
            {"where": "no_softmax"}),
    Mistake("keep_inverted", "what keep marks with 1 is dropped. 1 means keep. (If you compare keep with "
            "p: it holds no random numbers, the draw is done.)", {"kept": "inverted"}),
    Mistake("training_inverted", "dropout happens when training is False, and not when it is True.",
            {"flag": "inverted"}),
    Mistake("always_dropped", "dropout happens without training too. With training=False the plain "
            "softmax comes back.", {"flag": "always"}),
    Mistake("never_dropped", "nothing is dropped in training.", {"flag": "never"}),
    Mistake("scaled_without_training", "without training the weights are multiplied by 1 - p. They were "
            "raised in training already.", {"idle": "times"}),
    Mistake("scaled_without_training", "without training the weights are divided by 1 - p. The plain "
            "softmax comes back.", {"idle": "divided"}),
    Mistake("softmax_over_all", "the softmax runs over all numbers at once. It runs over the last axis.",
            {"axis": "all"}),
    Mistake("softmax_wrong_axis", "the softmax runs over the first axis. It runs over the last.",
            {"axis": 0}),
    Mistake("softmax_wrong_axis", "the softmax runs over the last axis but one. It runs over the last.",
            {"axis": -2}),
    Mistake("overflow", "exp of a large score is infinite, and inf/inf is NaN. Subtract each row's "
            "largest score.", {"naive": True}),
    Mistake("maximum_of_all", "you subtract the largest of all scores. In a row that lies far below it every "
            "exp is 0, and 0/0 is NaN. Subtract each row's own largest score.", {"naive": "maximum_of_all"}),
)


def _dropout_cases():
    rng = np.random.default_rng(90)
    scores, keep = rng.normal(size=(3, 5)), (rng.random((3, 5)) < 0.7).astype(float)
    keep[0] = [1, 0, 1, 0, 1]
    four, keep_four = rng.normal(size=(2, 3, 4, 5)), (rng.random((2, 3, 4, 5)) < 0.5).astype(float)
    nothing = keep.copy()
    nothing[1] = 0
    ones = np.ones((3, 5))
    lower = scores - [[0], [1000], [0]]
    return [
        Case("scores (3, 5) in training, p = 0.3", (scores, 0.3, True, keep)),
        Case("scores (2, 3, 4, 5) in training, p = 0.6", (four, 0.6, True, keep_four)),
        Case("no training, p = 0.3", (scores, 0.3, False, keep)),
        Case("no training, four axes", (four, 0.6, False, keep_four)),
        Case("p = 0, where keep is all ones", (scores, 0.0, True, ones), hint="Nothing is to change."),
        Case("p = 0 without training", (scores, 0.0, False, ones)),
        Case("p = 0.3 where chance kept everything", (scores, 0.3, True, ones),
             hint="It is p that is divided by, not what chance kept: these rows sum to more than 1."),
        Case("a row of which nothing is kept", (scores, 0.5, True, nothing)),
        Case("one row of scores", (scores[0], 0.25, True, keep[0])),
        Case("keep of integers", (scores, 0.25, True, keep.astype(int))),
        Case("one row of scores 1000 lower than the others", (lower, 0.3, True, keep),
             hint="Each row's softmax is its own: a row that lies lower has the same weights."),
        Case("scores of a thousand", (scores * 1000, 0.3, True, keep)),
    ]


def _given_keep(case, value, expected):
    _, _, training, keep = case.args
    value = _as_floats(value)
    if value is None:
        return None
    if training and ((value != 0) & (keep == 0)).any():
        return "A weight that keep marks with 0 is not 0. Use the keep that is given, and draw none."
    if training and ((value == 0) & (keep == 1) & (expected > 1e-6)).any():
        return "A weight that keep marks with 1 is 0. Use the keep that is given, and draw none."
    return None


JUDGES = {
    "price_of_heads": price_of_heads,
    "exposing_input": exposing_input,
    "hiding_input": hiding_input,
    "split_heads": FunctionExercise(
        _split, _split_cases, _SPLIT,
        "Checked with sizes that all differ and with sizes that are equal, with one head, one word and one "
        "feature a head, and on tensors that are not contiguous. Every feature lands in its head.",
        properties=(_no_number_lost,),
    ),
    "merge_heads": FunctionExercise(
        _merge, _merge_cases, _MERGE,
        "Checked with sizes that all differ and with sizes that are equal, and on heads as split_heads "
        "leaves them in memory. Each word has its heads side by side again.",
    ),
    "multi_head_attention": FunctionExercise(
        _multi_head, _multi_head_cases,
        (*_PROJECT, *_SCALE, *_SHAPES, *_SOFTMAX, *_MASKING, *_OUTPUT, *_GRADIENT),
        "Checked with one head and several, four shapes of masks, empty rows, large scores, float32, and the "
        "gradient in x and every matrix. This is the layer of the 2017 paper.",
        properties=(_finite, _alone), rtol=1e-4, atol=1e-5,
    ),
    "dropout_weights": FunctionExercise(
        _dropout, _dropout_cases, _DROPOUT,
        "Checked in training and out of it, with p from 0 to 0.6, with rows that chance kept whole or "
        "dropped whole. The mean over many draws is the softmax; a single row need not sum to 1.",
        properties=(_given_keep,),
    ),
}

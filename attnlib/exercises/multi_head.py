"""Multi-head attention, of lesson 09."""

from functools import partial

import numpy as np

from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.heads import merge as merge_heads
from attnlib.exercises.heads import split as cut_heads


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
    out = merge_heads(heads, order=merge)
    if output == "transposed":
        return out @ w_o.T
    if output == "forgotten":
        return out
    out = out @ w_o + x if output == "residual" else out @ w_o
    return out.nan_to_num() if empty in ("added_output_mended", "filled_output_mended") else out


def _projections(x, w_q, w_k, w_v, n_heads, project, split):
    import torch

    d = x.shape[-1] // n_heads
    cut = partial(cut_heads, n_heads=n_heads, order=split)
    if project == "blocks":                      # the features are split before the maps
        parts, starts = cut_heads(x, n_heads).unbind(1), range(0, x.shape[-1], d)
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
        part = floats(part)
        if part is not None and not np.isfinite(part).all():
            return "There are NaN or infinite numbers."
    return None


def _alone(case, value, expected):
    """Where the mask hides everything, the output is zero."""
    mask, found = case.args[6] if len(case.args) > 6 else None, floats(value)
    if mask is None or found is None or isinstance(value, (tuple, list)):
        return None
    visible = mask.expand(found.shape[0], case.args[5], found.shape[1], found.shape[1]).any(-1).any(1)
    if not visible.all() and np.abs(found[~visible.numpy()]).max() > 1e-6:
        return "A query that may attend to nothing must come out as zeros."
    return None

multi_head_attention = FunctionExercise(
    _multi_head, _multi_head_cases,
    (*_PROJECT, *_SCALE, *_SHAPES, *_SOFTMAX, *_MASKING, *_OUTPUT, *_GRADIENT),
    "Checked with one head and several, four shapes of masks, empty rows, large scores, float32, and the "
    "gradient in x and every matrix. This is the layer of the 2017 paper.",
    properties=(_finite, _alone), rtol=1e-4, atol=1e-5,
)

EXERCISES = (
    Exercise("multi_head_attention", "09", multi_head_attention, (), "", "function"),
)

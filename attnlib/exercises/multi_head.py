"""Multi-head attention, of lesson 09; what other layers of attention share of it."""


import numpy as np

from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but
from attnlib.exercises.heads import RETURNED, merge, of_an_earlier_call, returned, split

# One layer of attention, from projections to the output, with every step open to mistakes


def layer(
    x, memory, w_q, w_k, w_v, w_o, n_heads, mask, *,
    project="right", scale="head", cut="right", turn="right", join="right", axis=-1, masking="right",
    empty="zeros", shift="row", output="right", added="right", batch="right", grad="right", form="right",
):  # fmt: skip
    if grad != "right" and not grad.startswith("weights"):
        x, memory, w_q, w_k, w_v, w_o = _detached(grad, x, memory, w_q, w_k, w_v, w_o)
    sentences = x.shape[0]
    if batch == "length_first":
        x, memory = x.transpose(0, 1), memory.transpose(0, 1)
    elif batch != "right":
        x, memory = x[:1], memory[:1]
        mask = mask if mask is None or mask.ndim < 3 else mask[:1]
    width = x.shape[-1]
    d = n_heads if cut == "as_width" else width // n_heads
    q, k, v = _projected(x, memory, w_q, w_k, w_v, n_heads, project, cut)
    keys = k.transpose(-1, -2) if turn != "reshaped" else k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])
    factor = 1.0 if scale == "after" else _SCALES[scale](d, width, x.shape[1], n_heads, memory)
    scores = q @ keys * factor
    weights = weights_of(scores, mask, masking, empty, axis, shift)
    if turn == "weights":
        weights = weights.transpose(-1, -2)
    if scale == "after":
        weights = weights / d**0.5
    if grad == "weights" or grad == ("weights_without" if mask is None else "weights_masked"):
        weights = weights.detach()
    heads = weights @ v
    if empty in ("added_heads_mended", "filled_heads_mended"):
        heads = heads.nan_to_num()
    if masking == "queries_too" and mask is not None and mask.shape[-2] == 1:
        heads = heads * mask.transpose(-1, -2).to(heads.dtype)
    if cut == "no_transpose":
        heads = heads.transpose(1, 2)
    out = merge(heads, order=join)
    out = _mapped(out, heads, w_o, d, output)
    if added != "right":
        out = out + (x if added == "x" else 1)
    if empty in ("added_output_mended", "filled_output_mended"):
        out = out.nan_to_num()
    if batch == "repeated":
        out = out.repeat(sentences, 1, 1)
    elif batch == "length_first":
        out = out.transpose(0, 1)
    if form == "with_weights":
        return out, weights
    return out if form == "right" else returned(out, form)


_SCALES = {
    "head": lambda d, width, length, heads, memory: d**-0.5,
    "model": lambda d, width, length, heads, memory: width**-0.5,
    "none": lambda d, width, length, heads, memory: 1.0,
    "linear": lambda d, width, length, heads, memory: 1 / d,
    "times": lambda d, width, length, heads, memory: d**0.5,
    "length": lambda d, width, length, heads, memory: length**-0.5,
    "heads": lambda d, width, length, heads, memory: heads**-0.5,
    "quarter": lambda d, width, length, heads, memory: d**-0.25,
    "memory_length": lambda d, width, length, heads, memory: memory.shape[1] ** -0.5,
    "memory_width": lambda d, width, length, heads, memory: memory.shape[2] ** -0.5,
    "memory_head": lambda d, width, length, heads, memory: (memory.shape[2] / heads) ** -0.5,
    "memory_head_whole": lambda d, width, length, heads, memory: (memory.shape[2] // heads or 1) ** -0.5,
}
_ROLES = {
    "right": ("x q", "m k", "m v"), "key_is_query": ("x q", "m q", "m v"),
    "query_is_key": ("x k", "m k", "m v"), "value_is_key": ("x q", "m k", "m k"),
    "value_is_query": ("x q", "m k", "m q"), "key_is_value": ("x q", "m v", "m v"),
    "query_is_value": ("x v", "m k", "m v"), "all_query": ("x q", "m q", "m q"),
    "swapped": ("x k", "m q", "m v"), "keys_values_swapped": ("x q", "m v", "m k"),
    "queries_values_swapped": ("x v", "m k", "m q"), "raw_value": ("x q", "m k", "m"),
    "raw_query": ("x", "m k", "m v"), "raw_key": ("x q", "m", "m v"), "raw": ("x", "m", "m"),
    "keys_of_x": ("x q", "x k", "m v"), "values_of_x": ("x q", "m k", "x v"),
    "only_x": ("x q", "x k", "x v"), "only_memory": ("m q", "m k", "m v"),
    "queries_of_memory": ("m q", "x k", "x v"), "queries_of_memory_by_k": ("m k", "x q", "x v"),
    "queries_of_memory_keys_of_x": ("m q", "x k", "m v"),
    "queries_and_keys_of_memory": ("m q", "m k", "x v"),
}  # fmt: skip


def _projected(x, memory, w_q, w_k, w_v, n_heads, project, cut):
    d = x.shape[-1] // n_heads
    if project == "blocks":                      # the features are split before the maps
        return tuple(_by_blocks(a, w, n_heads, d) for a, w in ((x, w_q), (memory, w_k), (memory, w_v)))
    if project == "weights_by_view":
        pairs = ((x, w_q), (memory, w_k), (memory, w_v))
        return tuple((a[:, None] @ w.reshape(n_heads, -1, d)) for a, w in pairs)
    if project == "same_head":
        pairs = ((x, w_q), (memory, w_k), (memory, w_v))
        return tuple((a @ w[:, :d])[:, None].expand(-1, n_heads, -1, -1) for a, w in pairs)
    if project.startswith("transposed "):
        which = project.split()[1]
        maps = (w.T if name in which else w for name, w in (("q", w_q), ("k", w_k), ("v", w_v)))
        parts = tuple(a @ w for a, w in zip((x, memory, memory), maps, strict=True))
    else:
        sources, maps = {"x": x, "m": memory}, {"q": w_q, "k": w_k, "v": w_v}
        roles = [role.split() for role in _ROLES[project]]
        parts = [sources[a] @ maps[w[0]] if w else sources[a] for a, *w in roles]
    if cut == "one_head":
        return tuple(part[:, None] for part in parts)
    if cut in ("keys_by_view", "keys_values_by_view"):
        orders = "right", "view", "view" if cut == "keys_values_by_view" else "right"
        return tuple(split(part, n_heads, order=order) for part, order in zip(parts, orders, strict=True))
    return tuple(split(part, n_heads, order=cut) for part in parts)


def _by_blocks(a, w, n_heads, d):
    import torch

    parts = split(a, n_heads).unbind(1)
    return torch.stack([part @ w[i * d : i * d + d, i * d : i * d + d] for i, part in enumerate(parts)], 1)


def _detached(grad, x, memory, w_q, w_k, w_v, w_o):
    names = {"input": "x m q k v o", "parameters": "q k v o", "memory": "m"}.get(grad, grad).split()
    tensors = {"x": x, "m": memory, "q": w_q, "k": w_k, "v": w_v, "o": w_o}
    return tuple(t.detach() if name in names else t for name, t in tensors.items())


def _mapped(out, heads, w_o, d, output):
    """The merged heads through w_o, and what is done instead."""
    if output == "right":
        return out @ w_o
    if output == "blocks":
        import torch

        return torch.cat([h @ w_o[i * d : i * d + d, i * d : i * d + d]
                          for i, h in enumerate(heads.unbind(1))], -1)  # fmt: skip
    if output == "last_head_lost":
        return out[..., :-d] @ w_o[:-d]
    return {
        "transposed": lambda: out @ w_o.T, "forgotten": lambda: out,
        "mean_rows": lambda: heads.mean(1) @ w_o[:d], "sum_rows": lambda: heads.sum(1) @ w_o[:d],
        "twice": lambda: out @ w_o @ w_o,
        "mean_repeated": lambda: heads.mean(1).repeat(1, 1, heads.shape[1]) @ w_o,
        "scaled": lambda: out @ w_o / heads.shape[1], "relu": lambda: (out @ w_o).relu(),
    }[output]()  # fmt: skip


_FILLS = {
    "uniform": -1e9, "fill_-5": -5.0, "fill_-10": -10.0, "fill_-20": -20.0, "fill_-50": -50.0,
    "fill_-100": -100.0, "fill_-1000": -1e3, "fill_-10000": -1e4, "fill_0": 0.0, "fill_-1": -1.0,
    "fill_tiny": 1e-9, "fill_positive": 1e9,
}  # fmt: skip


_WITHOUT_KEYS = {"": lambda n: 0, "_uniform": lambda n: 1 / n, "_nan": lambda n: np.nan}


def weights_of(scores, mask, masking="right", empty="zeros", axis=-1, shift="row"):
    """The weights of a masked softmax, or what comes of a mistake in it."""
    import torch

    if mask is None and masking.startswith("inverted_always"):
        weights = torch.zeros_like(scores)
        return weights + _WITHOUT_KEYS[masking[15:]](scores.shape[-1])
    if mask is not None and masking != "right":
        mask = _mask_for(mask, masking, scores)
    if mask is not None and masking == "inverted_after":
        return _softmax(scores, axis, shift) * mask
    if mask is not None and masking.startswith(("inverted_fill", "inverted_less")):
        masking = masking[9:]
    if mask is None or masking in ("ignored", "after"):
        if masking in ("causal", "causal_without", "causal_and"):
            mask = _causal(scores)
        else:
            weights = _softmax(scores, axis, shift)
            return weights if mask is None or masking == "ignored" else weights * mask
    if masking.startswith("fill_"):
        return _softmax(torch.where(mask, scores, _FILLS[masking]), axis, shift)
    if masking.startswith("zeroed_fill_"):
        return _softmax(torch.where(mask, scores, _FILLS[masking[7:]]), axis, shift) * mask
    if masking.startswith("less_"):
        return _softmax(scores - (~mask).to(scores.dtype) * float(masking[5:]), axis, shift)
    if masking == "multiplied":
        return _softmax(scores * mask, axis, shift)
    if masking == "added":
        return _softmax(scores + mask.to(scores.dtype), axis, shift)
    if masking == "zero_times_infinity":
        return _softmax(scores + (~mask).to(scores.dtype) * -torch.inf, axis, shift)
    if empty == "uniform":
        return _softmax(torch.where(mask, scores, -1e9), axis, shift)
    if empty == "opened":
        mask = mask | ~mask.any(-1, keepdim=True)
    elif empty == "itself":
        mask = mask | (~mask.any(-1, keepdim=True) & torch.eye(scores.shape[-2], dtype=torch.bool))
    elif empty == "all_or_none":
        mask = mask if mask.any() else torch.ones_like(mask)
    elif empty in ("nan", "filled_heads_mended", "filled_output_mended"):
        return _softmax(torch.where(mask, scores, -torch.inf), axis, shift)
    elif empty == "divided_nan":
        weights = _softmax(scores, axis, shift) * mask
        return weights / weights.sum(-1, keepdim=True)
    elif empty in ("added_nan", "added_weights_mended", "added_heads_mended", "added_output_mended"):
        hide = torch.zeros(mask.shape, dtype=scores.dtype).masked_fill(~mask, -torch.inf)
        weights = _softmax(scores + hide, axis, shift)
        return weights.nan_to_num() if empty == "added_weights_mended" else weights
    # A row that is -inf throughout has no softmax: give it finite scores first and zeros afterwards.
    return _softmax(torch.where(mask, scores, -1e30), axis, shift) * mask


def _mask_for(mask, masking, scores):
    batch, n_heads = scores.shape[:2]
    if masking.startswith("inverted"):
        return ~mask
    if masking == "rows":
        return mask.transpose(-1, -2)
    if masking == "both_sides":
        return mask & mask.transpose(-1, -2)
    if masking == "first_sentence":
        return mask[:1] if mask.ndim == 4 else mask
    if masking == "any_sentence":
        return mask.any(0, keepdim=True) if mask.ndim == 4 else mask
    if masking == "first_head":
        return mask[:, :1] if mask.ndim == 4 else mask
    if masking == "in_head_0":
        mask = mask.expand(scores.shape).clone()
        mask[:, 1:] = True
        return mask
    if masking == "tiled":
        full = mask.expand(batch, n_heads, *mask.shape[-2:])
        return full.transpose(0, 1).reshape(full.shape)
    if masking == "of_padding" and mask.ndim == 2:
        return mask[:, None, None, :]
    if masking == "reshaped_as_padding":
        return mask.reshape(batch, 1, 1, scores.shape[-1])
    if masking == "batch_as_heads" and mask.ndim == 4:
        return mask.transpose(0, 1)
    if masking == "squeezed":
        return mask.squeeze()
    if masking == "keys_only":
        return mask[..., :1, :]
    if masking == "last_query":
        return mask[..., -1:, :]
    if masking == "as_key_mask" and mask.shape[-1] == 1:
        return mask.transpose(-1, -2)
    if masking == "unsqueezed":
        return mask.unsqueeze(1)
    if masking == "unsqueezed_twice":
        return mask[None, None]
    if masking in ("causal", "causal_instead"):
        return _causal(scores)
    if masking == "truth":
        return mask if mask else None
    return mask & _causal(scores) if masking in ("causal_too", "causal_and") else mask


def _causal(scores):
    import torch

    return torch.arange(scores.shape[-2])[:, None] >= torch.arange(scores.shape[-1])


def _softmax(scores, axis, shift):
    """By hand: torch's softmax calls all its threads, however small the scores are."""
    import torch

    if axis == "all":
        return _softmax(scores.flatten(-2), -1, shift).reshape(scores.shape)
    if axis != -1:
        return _softmax(scores.transpose(axis, -1), -1, shift).transpose(axis, -1)
    if shift == "sigmoid":
        return torch.sigmoid(scores)
    if shift == "no_softmax":
        return scores.nan_to_num(0, 0, 0)
    if shift == "two":
        scores = scores * 0.6931471805599453
    elif shift == "clipped":
        scores = scores.clamp(-50, 50)
    top = 0 if shift == "none" else scores.max() if shift == "all" else scores.amax(-1, keepdim=True)
    e = torch.exp(scores - top)
    weights = e / e.sum(-1, keepdim=True)
    return _softmax(weights, -1, "row") if shift == "twice" else weights


# What the result tells of the steps that made it


def weights_behind(outputs, values):
    """The weights (..., Lq, Lk) with which values (..., Lk, d) give outputs (..., Lq, d); None if none do.

    Fewer keys than features are needed: then what is no sum of the values has no answer. With as many,
    every output has one, and it is believed only where it looks like weights.
    """
    if values.shape[-2] > values.shape[-1]:
        return None
    weights = outputs @ np.linalg.pinv(values)
    if values.shape[-2] == values.shape[-1] and not -1e-5 < weights.min() <= weights.max() < 1 + 1e-5:
        return None
    size = np.abs(outputs).max()
    return weights if np.abs(weights @ values - outputs).max() < 1e-5 * size + 1e-8 else None


def of_the_weights(weights, mask, scores):
    """A sentence on what is wrong with weights (B, H, Lq, Lk), found out from a result; None if nothing."""
    visible = np.ones(weights.shape, bool) if mask is None else np.broadcast_to(mask, weights.shape)
    sums, wanted = weights.sum(-1), visible.any(-1).astype(float)
    hidden = np.abs(np.where(visible, 0, weights))
    right = _soft(scores, visible)
    kept = np.abs(weights) > 1e-9
    lost = ~kept & (right > 1e-4)
    raised = weights[kept & visible] / np.maximum(right[kept & visible], 1e-12)
    if lost.any() and kept.any() and np.ptp(raised) < 1e-3 and raised[0] > 1.01:
        return "Some weights are 0 and all others are raised alike: dropout is on, and none is asked for."
    if hidden.max() > 1e-5:
        b, h, i, j = _at_largest(hidden)
        return (
            f"Worked back from your result, query {i} of head {h} in sentence {b} has weight "
            f"{weights[b, h, i, j]:.3g} on key {j}, which the mask hides."
        )
    if np.abs(sums - wanted).max() > 1e-4:
        for axis, name in ((-2, "queries"), (1, "heads"), (0, "sentences of the batch")):
            if mask is None and np.abs(weights.sum(axis) - 1).max() < 1e-4:
                return f"Worked back from your result, the weights sum to 1 over the {name}, not the keys."
        b, h, i = _at_largest(np.abs(sums - wanted))
        return (
            f"Worked back from your result, the weights of query {i} of head {h} in sentence {b} sum to "
            f"{sums[b, h, i]:.3g} over the keys, and should sum to {wanted[b, h, i]:g}."
        )
    if weights.min() < -1e-5:
        return "Worked back from your result, there are negative weights."
    if np.abs(weights - right).max() < 1e-5:
        return None
    factor = _temperature(weights, scores, visible)
    if factor is not None and abs(factor) < 1e-6:
        return (
            "Worked back from your result, all keys weigh alike: the scores have no effect, as where each "
            "gets the same large negative number."
        )
    if factor is not None:
        return (
            f"Worked back from your result, the weights are those of scores {factor:.3g} times as large as "
            "they should be. The fault is in the scale."
        )
    if lost.any():
        b, h, i, j = _at_largest(lost)
        return (
            f"Worked back from your result, query {i} of head {h} in sentence {b} has weight 0 on key {j}, "
            f"which it may see and which should have {right[b, h, i, j]:.3g}."
        )
    return (
        "Worked back from your result, the weights sum to 1 over the keys as they should, and they are not "
        "those of queries times keys. Look at where queries and keys come from, and at their heads."
    )


def _soft(scores, visible):
    scores = np.where(visible, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.where(visible, np.exp(scores - np.where(np.isfinite(top), top, 0)), 0)
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def _temperature(weights, scores, visible):
    """The factor by which the scores would have to be multiplied to give these weights, or None."""
    seen = visible & (weights > 1e-9)
    if seen.sum() < 4:
        return None
    count = np.maximum(seen.sum(-1, keepdims=True), 1)
    logs = np.where(seen, np.log(np.where(seen, weights, 1)), 0)
    logs = np.where(seen, logs - logs.sum(-1, keepdims=True) / count, 0)
    right = np.where(seen, scores - np.where(seen, scores, 0).sum(-1, keepdims=True) / count, 0)
    factor = (logs * right).sum() / max((right * right).sum(), 1e-12)
    return factor if np.abs(_soft(factor * scores, visible) - weights).max() < 1e-4 else None


def _at_largest(array):
    return tuple(int(i) for i in np.unravel_index(array.argmax(), array.shape))


def rounded(case, value, expected):
    """A property: no step loses digits."""
    found, wanted = floats(value), floats(expected)
    if found is None or wanted is None or not np.isfinite(found).all():
        return None
    if np.abs(found - wanted).max() < 1e-2 * np.abs(wanted).max():
        return (
            "The result is right to about two digits. Does a step round, work in half precision, or add a "
            "small number?"
        )
    return None


def finite(case, value, expected):
    """A property: no NaN, no infinite number."""
    for part in value if isinstance(value, (tuple, list)) else (value,):
        part = floats(part)
        if part is not None and not np.isfinite(part).all():
            return "There are NaN or infinite numbers."
    return None


def nothing(case, value, expected):
    """A property: the result is not all zeros where it should not be."""
    found, wanted = floats(value), floats(expected)
    if found is None or wanted is None or found.any() or not wanted.any():
        return None
    return (
        "Your result is all zeros, as where every key is hidden. True in a mask means may attend, and "
        "without a mask all keys are visible."
    )


_OUTPUTS = {
    "": lambda a, x, w: a @ np.linalg.inv(w),
    "w_o transposed": lambda a, x, w: a @ np.linalg.inv(w.T),
    "w_o left out": lambda a, x, w: a,
    "x added": lambda a, x, w: (a - x) @ np.linalg.inv(w),
    "w_o transposed, x added": lambda a, x, w: (a - x) @ np.linalg.inv(w.T),
    "w_o left out, x added": lambda a, x, w: a - x,
}
_JOINS = {
    "": lambda a, b, h, t, d: a.reshape(b, t, h, d).swapaxes(1, 2),
    "heads merged without a transposition": lambda a, b, h, t, d: a.reshape(b, h, t, d),
    "heads' features dealt out in turn": lambda a, b, h, t, d: a.reshape(b, t, d, h).transpose(0, 3, 1, 2),
    "heads in reverse order": lambda a, b, h, t, d: a.reshape(b, t, h, d).swapaxes(1, 2)[:, ::-1],
}
_CUTS = {
    "": lambda a, b, h, s, d: a.reshape(b, s, h, d).swapaxes(1, 2),
    "values cut without a transposition": lambda a, b, h, s, d: a.reshape(b, h, s, d),
    "values of every H-th feature": lambda a, b, h, s, d: a.reshape(b, s, d, h).transpose(0, 3, 1, 2),
}


def steps(x, memory, w_q, w_k, w_v, w_o, n_heads, mask, value):
    """A sentence on the step that is wrong, worked back from the result of a whole layer; or None.

    The weights are found for the right values and output, or for common wrong ones: so what is said of
    them holds beside other mistakes.
    """
    out = floats(value)
    arrays = [floats(a) for a in (x, memory, w_q, w_k, w_v, w_o)]
    if out is None or not np.isfinite(out).all() or np.abs(out).max() < 1e-9:
        return None
    x, memory, w_q, w_k, w_v, w_o = arrays
    (b, t, width), s = x.shape, memory.shape[1]
    d = width // n_heads
    if s > d or s < 2:
        return None
    mask = None if mask is None else np.asarray(mask)
    scores = _CUTS[""](x @ w_q, b, n_heads, t, d) @ _CUTS[""](memory @ w_k, b, n_heads, s, d).swapaxes(-1, -2)
    values = {"": memory @ w_v, "values from w_k": memory @ w_k}
    if memory.shape[-1] == width:
        values |= {"values from w_q": memory @ w_q, "values not projected": memory,
                   "w_v transposed": memory @ w_v.T}  # fmt: skip
    if memory.shape == x.shape and memory is not x and not np.array_equal(memory, x):
        values["values from x"] = x @ w_v
    for made, v in values.items():
        for cut, cutting in _CUTS.items():
            behind = cutting(v, b, n_heads, s, d)
            for mapped, mapping in _OUTPUTS.items():
                for joined, joining in _JOINS.items():
                    weights = weights_behind(joining(mapping(out, x, w_o), b, n_heads, t, d), behind)
                    if weights is not None:
                        also = ", ".join(filter(None, (made, cut, joined, mapped)))
                        told = of_the_weights(weights, mask, scores / d**0.5)
                        return " ".join(filter(None, (also and f"Found: {also}.", told))) or None
    return (
        "Your result is no average of each head's values, laid side by side and mapped by w_o. So look at "
        "the values (w_v), at how heads are cut and merged, and at w_o, before the scores."
    )


# The exercise


def _multi_head(x, w_q, w_k, w_v, w_o, n_heads, mask=None, **choices):
    return layer(x, x, w_q, w_k, w_v, w_o, n_heads, mask, **choices)


PROJECT = (
    Mistake("weights_transposed", "You multiply by the transposes of W_Q, W_K and W_V. nn.Linear keeps "
            "its matrix transposed; here every matrix is used as x @ w. (Or do your heads take rows of the "
            "matrices? They have columns.)", {"project": "transposed qkv"}),
    Mistake("all_weights_transposed", "You multiply by the transpose of every matrix. nn.Linear keeps its "
            "matrix transposed; here every matrix is used as x @ w.",
            {"project": "transposed qkv", "output": "transposed"}, convention=True),
    *(Mistake("weights_transposed", f"You multiply by the transpose of {told}. nn.Linear (and F.linear) "
              "keeps its matrix transposed; here every matrix is used as x @ w.",
              {"project": f"transposed {which}"}, rare=which != "qk")
      for which, told in (("qk", "w_q and of w_k"), ("q", "w_q"), ("k", "w_k"), ("v", "w_v"),
                          ("kv", "w_k and of w_v"), ("qv", "w_q and of w_v"))),
    Mistake("same_projection", "Queries and keys both come from w_q. Keys have a matrix of their own.",
            {"project": "key_is_query"}),
    Mistake("same_projection", "Queries and keys both come from w_k. Queries have a matrix of their own.",
            {"project": "query_is_key"}),
    Mistake("same_projection", "The values come from w_k. What is handed out has a matrix of its own.",
            {"project": "value_is_key"}),
    Mistake("same_projection", "The values come from w_q. What is handed out has a matrix of its own.",
            {"project": "value_is_query"}),
    Mistake("same_projection", "The keys come from w_v, as the values do. They have a matrix of their own.",
            {"project": "key_is_value"}),
    Mistake("same_projection", "The queries come from w_v. They have a matrix of their own.",
            {"project": "query_is_value"}, rare=True),
    Mistake("same_projection", "Queries, keys and values all come from w_q.", {"project": "all_query"},
            rare=True),
    Mistake("roles_swapped", "Queries come from w_k and keys from w_q. Who asks and who is asked are "
            "exchanged. (Keys times queries, transposed, comes to the same.)", {"project": "swapped"}),
    Mistake("roles_swapped", "Keys come from w_v and values from w_k. Each has the matrix of its own name.",
            {"project": "keys_values_swapped"}),
    Mistake("roles_swapped", "Queries come from w_v and values from w_q. Each has the matrix of its own "
            "name.", {"project": "queries_values_swapped"}),
    Mistake("no_value_projection", "The values are not multiplied by w_v.", {"project": "raw_value"}),
    Mistake("no_query_projection", "The queries are not multiplied by w_q.", {"project": "raw_query"}),
    Mistake("no_key_projection", "The keys are not multiplied by w_k.", {"project": "raw_key"}),
    Mistake("no_projections", "Nothing is multiplied by w_q, w_k and w_v.", {"project": "raw"}),
    Mistake("split_before_projection", "You split x first and give each head one block of each matrix. A "
            "head must read all D features: project first, split afterwards.", {"project": "blocks"}),
    Mistake("weights_by_view", "You cut the matrix into heads by a reshape to (H, D, d), which mixes its "
            "rows and columns. Head h has columns h*d to (h+1)*d.", {"project": "weights_by_view"}),
    Mistake("every_head_the_same", "Every head uses the first columns of the matrices, so all heads are "
            "the same one.", {"project": "same_head"}),
)  # fmt: skip
SCALE = (
    Mistake("scale_of_the_model", "You divide the scores by the root of the model's width. A dot product "
            "here is only as long as a head.", {"scale": "model"}),
    Mistake("no_scale", "The scores are not scaled. Divide them by the root of a head's width.",
            {"scale": "none"}),
    Mistake("scale_without_root", "You divide by a head's width: without the root, or by the root twice. "
            "(Some library calls scale by themselves.)", {"scale": "linear"}),
    Mistake("scale_multiplies", "You multiply by the root of the width. Divide.", {"scale": "times"}),
    Mistake("scale_of_the_length", "You divide by the root of the number of words. It is the width of a "
            "head that makes dot products large.", {"scale": "length"}),
    Mistake("scale_of_the_heads", "You divide by the root of the number of heads. It is a head's width "
            "that counts.", {"scale": "heads"}),
    Mistake("scale_quarter", "You divide by the fourth root of the width. Was only one of queries and "
            "keys scaled?", {"scale": "quarter"}),
    Mistake("scale_after_softmax", "You divide the weights by the root of the width. Then they do not sum to "
            "1; divide the scores, before the softmax.", {"scale": "after"}),
)  # fmt: skip
SHAPES = (
    Mistake("view_without_transpose", "Queries, keys and values are cut into (B, H, L, d) without a "
            "transposition, so heads and positions are mixed. Give each word's features a head axis, "
            "then exchange axes.", {"cut": "view"}),
    Mistake("split_and_merge_by_view", "Both splitting and merging relabel memory without exchanging "
            "axes. There and back it looks right, and in between every head holds pieces of other words.",
            {"cut": "view", "join": "view"}),
    *(Mistake("view_without_transpose", "Some of queries, keys and values are cut into heads without a "
              "transposition, so heads and positions are mixed.", {"cut": cut})
      for cut in ("keys_by_view", "keys_values_by_view")),
    Mistake("no_transpose", "The heads stand behind the positions while attention runs, so the heads of "
            "one word look at one another and no word sees another.", {"cut": "no_transpose"}),
    Mistake("interleaved", "Your heads take every H-th column. Head h has columns h*d to (h+1)*d, a whole "
            "block.", {"cut": "interleaved"}),
    Mistake("interleaved", "Your heads take every H-th column and are dealt back the same way. Head h has "
            "columns h*d to (h+1)*d, a whole block.", {"cut": "interleaved", "join": "interleaved"}),
    Mistake("heads_as_width", "You made heads of n_heads features. n_heads is how many there are.",
            {"cut": "as_width"}),
    *(Mistake("one_head_only", "The number of heads has no effect: one head of the full width attends. Cut "
              "queries, keys and values into heads.", choices)
      for choices in ({"cut": "one_head"}, {"cut": "one_head", "scale": "model"})),
    Mistake("fixed_size", "A number of heads or a width is written as a number. Read both off the arguments: "
            "a head has D // n_heads features.", {"cut": "of_64"}),
    Mistake("fixed_size", "Eight heads are made, whatever n_heads says.", {"cut": "eight"}),
    Mistake("batch_mixed", "The batch axis was cut together with the others: sentences are mixed.",
            {"cut": "batch_mixed"}),
    Mistake("batch_mixed", "Heads were moved before the batch and then relabelled: sentences are mixed.",
            {"cut": "batch_reshaped"}),
    Mistake("keys_reshaped", "The keys are brought to (d, L) by a reshape, which relabels numbers and moves "
            "none. Exchange the last two axes.", {"turn": "reshaped"}),
    Mistake("weights_turned", "The weights meet the values transposed: their rows are queries, and a query's "
            "row is what multiplies the values.", {"turn": "weights"}),
    Mistake("merge_by_view", "The heads are merged without exchanging axes back, so a word gets pieces "
            "of other words from one head.", {"join": "view"}),
    Mistake("merge_interleaved", "The heads' features are dealt out in turn. Lay whole heads side by "
            "side.", {"join": "interleaved"}),
    Mistake("view_of_transposed", "A view needs memory in the order of the axes, and a transposed tensor is "
            "not. What copies where it must?", {"join": "transposed_view"}),
    Mistake("heads_averaged", "The heads are averaged, and only the first rows of w_o are used. Lay the "
            "heads side by side; w_o has rows for each.", {"output": "mean_rows"}),
    Mistake("heads_averaged", "The heads are added, or each multiplied by the first rows of w_o alone. Lay "
            "them side by side; w_o has rows for each.", {"output": "sum_rows"}),
    Mistake("heads_averaged", "Every head is replaced by the mean of all. Lay the heads side by side as "
            "they are.", {"output": "mean_repeated"}),
    Mistake("batch_mixed", "After attention the heads were moved before the batch and relabelled: "
            "sentences are mixed.", {"join": "batch_mixed"}),
    Mistake("heads_reversed", "The heads are laid side by side in reverse order.", {"join": "reversed"}),
    Mistake("last_head_lost", "The last head is missing or zero: a loop ends one too early.",
            {"output": "last_head_lost"}),
    Mistake("first_sentence", "All sentences come out as the first: the others are not computed.",
            {"batch": "repeated"}),
    Mistake("first_sentence", "Only the first sentence of the batch comes back.", {"batch": "first"}),
)  # fmt: skip
SOFTMAX = (
    Mistake("softmax_over_queries", "The softmax runs over the queries. Each query's weights must sum to "
            "1 over its keys, the last axis.", {"axis": -2}),
    Mistake("softmax_over_heads", "The softmax runs over the heads. Each head has its own, over the keys.",
            {"axis": 1}),
    Mistake("softmax_over_batch", "The softmax runs over the batch. It runs over the keys, the last axis.",
            {"axis": 0}),
    *(Mistake(name, f"{told} (Under a mask it finds nothing but hidden scores in some places, and they "
              f"come out as {comes}.)", {"axis": axis, "empty": empty}, rare=(axis, empty) != (-2, "nan"))
      for empty, comes in (("nan", "NaN"), ("uniform", "equal weights"))
      for axis, name, told in (
          (-2, "softmax_over_queries", "The softmax runs over the queries. Each query's weights must sum to "
           "1 over its keys, the last axis."),
          (1, "softmax_over_heads", "The softmax runs over the heads. Each head has its own, over the keys."),
          (0, "softmax_over_batch", "The softmax runs over the batch. It runs over the keys, the last axis."),
      )),
    Mistake("softmax_over_all", "One softmax runs over all queries and keys of a head at once. Each query "
            "has its own.", {"axis": "all"}),
    Mistake("overflow", "The exponential of a large score is infinite, and inf/inf is NaN. Subtract each "
            "row's largest score, or use a softmax that does.", {"shift": "none"}),
    Mistake("maximum_of_all", "You subtract the largest of all scores. In a row that lies far below it every "
            "exponential is 0, and 0/0 is NaN. Subtract each row's own largest score.", {"shift": "all"}),
    Mistake("scores_clipped", "The scores are clipped, so that large ones come out alike. Subtract each "
            "row's largest score instead: that changes no weight.", {"shift": "clipped"}),
    Mistake("sigmoid", "Every score goes through a sigmoid by itself. Softmax weights share one sum.",
            {"shift": "sigmoid"}),
    Mistake("softmax_twice", "The softmax is taken twice, of scores and then of weights. Once.",
            {"shift": "twice"}),
    Mistake("no_softmax", "The scores multiply the values as they are. A softmax makes them weights first.",
            {"shift": "no_softmax"}),
)  # fmt: skip
_SMALL_FILL = (
    "Hidden scores get a number that is not low enough: where the visible ones lie as low, hidden keys have "
    "weight again. Which score has weight 0, however low the others are?"
)
_SMALL_ZEROED = (
    "Hidden scores get a number that is not low enough, and their weights are set to 0 afterwards. Where the "
    "visible scores lie lower, the row no longer sums to 1."
)
_LEVELS = (-5, -10, -20, -50, -100, -1000, -10000)
# A row of which all is visible is empty where True hides, and comes out in one of these ways.
_INVERTED = tuple(
    Mistake("mask_inverted", f"True hides in your function, and a query that may see every key {comes}. Here "
            "True means may attend.", {"masking": masking, "empty": empty}, convention=True, rare=rare)
    for masking, empty, comes, rare in (
        ("inverted", "nan", "gives NaN", False), ("inverted", "uniform", "weighs all keys alike", False),
        ("inverted", "added_nan", "gives NaN", True), ("inverted", "divided_nan", "gives NaN", True),
        *((f"inverted_{way}", "zeros", "sees them all the same", True)
          for way in ("less_1000000000", "less_10000", "fill_-10000", "fill_-1000", "fill_-100")),
    )
)  # fmt: skip
_ALWAYS = (
    "Without a mask you hide every key{}, and with a mask those that may be seen. None hides nothing, and "
    "True means may attend."
)
_HIDDEN_ALWAYS = (
    Mistake("mask_inverted", _ALWAYS.format(", so the result is all zeros"), {"masking": "inverted_always"}),
    Mistake("mask_inverted", _ALWAYS.format(", so all of them weigh alike"),
            {"masking": "inverted_always_uniform", "empty": "uniform"}, rare=True),
    Mistake("mask_inverted", _ALWAYS.format(", and a softmax of nothing but -inf is NaN"),
            {"masking": "inverted_always_nan", "empty": "nan"}, rare=True),
)
MASKING = (
    Mistake("mask_inverted", "True hides in your function. Here True means may attend.",
            {"masking": "inverted"}, convention=True),
    Mistake("mask_inverted", "You set the weights of the keys to 0 that may be seen, after the softmax. Here "
            "True means may attend, and what is hidden is hidden before the softmax.",
            {"masking": "inverted_after"}, rare=True),
    *_INVERTED,
    *_HIDDEN_ALWAYS,
    Mistake("mask_ignored", "The mask has no effect.", {"masking": "ignored"}),
    Mistake("mask_after_softmax", "The mask is applied to the weights, and what is left no longer sums to "
            "1. Hide the scores before the softmax.", {"masking": "after"}),
    *(Mistake("mask_fills_with_zero", "Hidden scores become 0, or nearly, and a score of 0 is no hidden "
              "key: exp(0) is 1. Which score has weight 0?", {"masking": masking})
      for masking in ("multiplied", "fill_tiny", "fill_-1")),
    Mistake("mask_fills_with_large", "Hidden scores become very large, so hidden keys get all the weight. "
            "The sign is wrong.", {"masking": "fill_positive"}),
    *(Mistake("mask_fills_too_high", _SMALL_FILL, {"masking": f"fill_{level}"}) for level in _LEVELS),
    *(Mistake("mask_fills_too_high", _SMALL_FILL, {"masking": f"less_{less}"}) for less in (3, 5, 10)),
    *(Mistake("mask_fills_too_high", _SMALL_ZEROED, {"masking": f"zeroed_fill_{level}"})
      for level in (0, *_LEVELS)),
    Mistake("mask_added", "You add the boolean mask to the scores, so what may be seen gains 1 and "
            "nothing is hidden.", {"masking": "added"}),
    Mistake("zero_times_infinity", "The mask is multiplied by infinity, and 0 times infinity is NaN: what "
            "may be seen gets it too. Choose the score by the mask, do not multiply.",
            {"masking": "zero_times_infinity"}),
    Mistake("mask_transposed", "The mask hides rows where it should hide columns: queries and keys are "
            "exchanged.", {"masking": "rows"}),
    Mistake("mask_on_both_sides", "The mask hides queries as well as keys.", {"masking": "both_sides"}),
    Mistake("mask_on_both_sides", "A mask of keys also empties the outputs of those words as queries. What a "
            "padded query gives does not matter, and here it stays.", {"masking": "queries_too"}),
    Mistake("mask_of_first_sentence", "The first sentence's mask is used for all.",
            {"masking": "first_sentence"}),
    Mistake("mask_of_any_sentence", "A key is shown that is visible in any sentence of the batch. Each "
            "sentence has a mask of its own.", {"masking": "any_sentence"}),
    Mistake("mask_of_first_head", "The first head's mask is used for all.", {"masking": "first_head"}),
    Mistake("mask_in_one_head", "The mask is applied to head 0 only.", {"masking": "in_head_0"}),
    Mistake("mask_of_one_query", "The first query's mask is used for all.", {"masking": "keys_only"}),
    Mistake("mask_of_one_query", "The last query's mask is used for all.", {"masking": "last_query"}),
    Mistake("mask_tiled", "With heads folded into the batch, the masks are repeated in the wrong order: "
            "sentence by sentence, and not each one for all its heads.", {"masking": "tiled"}),
    Mistake("mask_shape", "A mask of two axes is read as padding, (B, L). Here it is (L, L), query by key.",
            {"masking": "of_padding"}),
    Mistake("mask_shape", "Every mask is reshaped to (B, 1, 1, L), as if it were one of padding. It "
            "broadcasts as it comes: (L, L) is query by key.", {"masking": "reshaped_as_padding"}),
    Mistake("mask_shape", "The batch's axis of the mask meets the heads. It broadcasts as it comes: batch "
            "first, then heads.", {"masking": "batch_as_heads"}),
    Mistake("mask_shape", "A squeeze takes axes of size 1 from the mask, so those left meet the wrong ones. "
            "It broadcasts to (B, H, L, L) as it comes.", {"masking": "squeezed"}),
    *(Mistake("mask_shape", "You give the mask axes that it has already. It broadcasts to (B, H, L, L) as it "
              "comes, with two axes or four.", {"masking": masking})
      for masking in ("unsqueezed", "unsqueezed_twice")),
    Mistake("mask_shape", "A mask whose last axis is 1, the same for all keys, is turned into one of keys. "
            "It broadcasts as it comes.", {"masking": "as_key_mask"}),
    *(Mistake("always_causal", "A causal mask is used, whatever the mask says.", {"masking": masking})
      for masking in ("causal", "causal_instead")),
    Mistake("always_causal", "A causal mask is used always, beside the given one too.",
            {"masking": "causal_and"}),
    Mistake("mask_truth", "Your function asks whether the mask is true, and a tensor of several numbers is "
            "neither true nor false. Ask whether it is None.", {"masking": "truth"}),
    Mistake("always_causal", "Without a mask you use a causal one. None means that every key is visible.",
            {"masking": "causal_without"}),
    Mistake("always_causal", "A causal mask is used where a mask is given, beside it.",
            {"masking": "causal_too"}),
)  # fmt: skip
EMPTY = (
    Mistake("empty_row_uniform", "A query that may attend to nothing averages all values, because all its "
            "scores are the same large negative number. It should contribute zeros.", {"empty": "uniform"}),
    Mistake("empty_row_opened", "A query that may attend to nothing sees everything: its row is opened, or "
            "something is subtracted from all its scores alike, which changes no weight. It should "
            "contribute zeros.", {"empty": "opened"}),
    Mistake("empty_row_opened", "A query that may attend to nothing sees everything: a large number is "
            "subtracted from all its scores alike, which changes no weight. It should contribute zeros.",
            {"masking": "less_1000000000"}, rare=True),
    Mistake("empty_row_opened", "A query that may attend to nothing sees itself, or keeps its own value. It "
            "should contribute zeros.", {"empty": "itself"}),
    Mistake("empty_mask_is_none", "A mask without a single True is taken for none. It hides everything, and "
            "the result is zero.", {"empty": "all_or_none"}),
    *(Mistake("empty_row_nan", "A query that may attend to nothing gives NaN: what is left of its row sums "
              "to 0, and 0/0 is no number. It should contribute zeros.", {"empty": empty},
              rare=empty != "nan") for empty in ("nan", "added_nan", "divided_nan")),
    *(Mistake("empty_row_nan_gradient", "The output of an empty row is right, and its gradient is NaN: "
              "-inf was added to its scores, and what mended the output does nothing on the way back. Keep "
              "the row finite before the softmax.", {"empty": empty})
      for empty in ("added_weights_mended", "added_heads_mended", "added_output_mended")),
    *(Mistake("empty_row_nan_gradient", "The output of an empty row is right, and the gradient is NaN: its "
              "weights were NaN when they met the values, and what mended the output afterwards does nothing "
              "on the way back. Keep the row finite before the softmax.", {"empty": empty})
      for empty in ("filled_heads_mended", "filled_output_mended")),
)  # fmt: skip
OUTPUT = (
    Mistake("no_output_projection", "The matrix w_o is not used. The heads lie side by side, and nothing has "
            "mixed them.", {"output": "forgotten"}),
    Mistake("output_transposed", "The matrix w_o is transposed. It is used as it is, heads @ w_o.",
            {"output": "transposed"}),
    Mistake("output_per_head", "Each head is multiplied by a block of w_o of its own. w_o maps all heads "
            "together to all D features.", {"output": "blocks"}),
    Mistake("residual", "The input x is added to the result. The residual belongs to the layer around this "
            "one.", {"added": "x"}),
    Mistake("bias", "A constant of 1 is added to the result. There is no bias.", {"added": "one"}),
    Mistake("output_twice", "The matrix w_o is used twice.", {"output": "twice"}),
    Mistake("output_scaled", "The result is divided by the number of heads.", {"output": "scaled"}),
    Mistake("activation", "Negative results are cut off: there is no activation here.", {"output": "relu"}),
    Mistake("more_returned", "You return the weights too. Only the output is asked for.",
            {"form": "with_weights"}),
    *RETURNED,
)  # fmt: skip
GRADIENT = (
    Mistake("no_gradient", "The result has no gradient: somewhere it left torch, or was detached.",
            {"grad": "input"}),
    Mistake("parameters_detached", "The gradient reaches x and not the matrices: they are detached, copied, "
            "or used through .data, and would never learn.", {"grad": "parameters"}),
    *(Mistake("weights_detached", "The values are right, and no gradient passes through the attention "
              "weights, so queries and keys would never learn. Where do the weights or scores leave torch, "
              "or stand in a no_grad block?", {"grad": grad})
      for grad in ("weights", "weights_without", "weights_masked")),
    *(Mistake("parameters_detached", f"No gradient reaches w_{name}: it is detached, copied, or used through "
              ".data, and would never learn.", {"grad": name}) for name in "qkvo"),
    Mistake("input_detached", "The gradient in x is incomplete: x is detached where keys and values are "
    "made.",
            {"grad": "m"}),
    Mistake("input_detached", "The gradient in x is incomplete: x is detached where queries are made.",
            {"grad": "x"}),
    Mistake("input_detached", "The gradient reaches the matrices and not x: x is detached.",
            {"grad": "x m"}),
)  # fmt: skip


MASK = "The mask is None, or a tensor that broadcasts to (B, H, L, L) as it comes."
HEADS = "Write the shape behind every line. What meets w_o holds all heads side by side."


def tensors(seed, *shapes, size=1.0):
    """Tensors in float64: the last axis but one of a matrix counts as what is summed over."""
    import torch

    rng = np.random.default_rng(seed)
    return tuple(
        torch.tensor(rng.normal(size=s) * (size if len(s) == 3 else s[0] ** -0.5)) for s in shapes
    )


def _made(seed, b, length, width, size=1.0):
    """x (B, L, D) and four matrices (D, D)."""
    x, *weights = tensors(seed, (b, length, width), *[(width, width)] * 4, size=size)
    return (x, *weights)


def level(x, w_q, w_k, n_heads, levels, memory=None):
    """Give every score of query i the addition levels[i], and change nothing else between keys.

    Feature 0 of x is a query's level and feature 1 of what the keys are made of is 1; only the first column
    of each head in w_q and w_k reads them.
    """
    import torch

    x, w_q, w_k = x.clone(), w_q.clone(), w_k.clone()
    memory = x if memory is None else memory.clone()
    d = x.shape[-1] // n_heads
    memory[..., 1] = 1.0
    x[..., 0] = torch.tensor(levels, dtype=x.dtype)
    for w in (w_q, w_k):
        w[0], w[1], w[:, ::d] = 0.0, 0.0, 0.0
    w_q[0, ::d], w_k[1, ::d] = d**0.5, 1.0
    return x, memory, w_q, w_k


def _multi_head_cases():
    import torch

    rng = np.random.default_rng(9)
    plain = _made(1, 2, 4, 15)
    yes = torch.tensor([[1, 1, 1, 0], [0, 1, 1, 1]], dtype=torch.bool)
    padding = yes[:, None, None, :]
    full = torch.tensor(rng.random((2, 1, 4, 4)) < 0.5) | torch.eye(4, dtype=torch.bool)
    each_head = torch.tensor(rng.random((2, 3, 4, 4)) < 0.5) | torch.eye(4, dtype=torch.bool)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    some = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 1], [0, 0, 1, 0], [1, 0, 0, 1]], dtype=torch.bool)
    with_empty = torch.tensor([[0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 1]], dtype=torch.bool)
    one = torch.tensor([[0, 1, 0, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 1, 0]], dtype=torch.bool)
    turned = tuple(a.mT.contiguous().mT for a in _made(7, 2, 4, 15))
    x, *weights = plain
    apart, _, w_q, w_k = level(x, *weights[:2], 3, [[900.0, -900.0, 0.0, -400.0]])
    low = level(x, *weights[:2], 3, [[-3e4, -1200.0, 60.0, -30.0]])[0]
    again = "Is something kept from an earlier call with the same sizes?"
    everything = (0, 1, 2, 3, 4)
    return [
        Case("2 sentences of 4 words, width 15, 3 heads", (*plain, 3), hint=HEADS),
        Case("3 sentences of 5 words, width 8, 2 heads", (*_made(2, 3, 5, 8), 2), hint=HEADS),
        Case("one head", (*_made(3, 2, 4, 6), 1)),
        Case("as many words as heads", (*_made(4, 2, 3, 12), 3)),
        Case("as many sentences as heads, and as many words", (*_made(12, 3, 3, 9), 3)),
        Case("as many heads as features", (*_made(5, 2, 4, 3), 3)),
        Case("one sentence of one word", (*_made(13, 1, 1, 4), 2), hint="Every axis stays, also one of size "
        "1."),
        Case("the first sizes again, with other numbers", (*_made(11, 2, 4, 15), 3), hint=again),
        Case("a mask of shape (L, L)", (*plain, 3, some), hint=MASK),
        Case("a causal mask of the same shape", (*plain, 3, causal), hint=again),
        Case("padding left and right, (B, 1, 1, L)", (*plain, 3, padding), hint=MASK),
        Case("a mask for each sentence, (B, 1, L, L)", (*plain, 3, full), hint=MASK),
        Case("a mask for each head, (B, H, L, L)", (*plain, 3, each_head), hint=MASK),
        Case("a causal mask and as many sentences as words", (*_made(8, 4, 4, 10), 2, causal), hint=MASK),
        Case("a query that may attend to nothing", (*plain, 3, with_empty),
             hint="Its output is zero before w_o, and after it."),
        Case("a mask of shape (B, 1, L, 1)", (*plain, 3, yes[:, None, :, None]),
             hint="It broadcasts: a query sees every key or none."),
        Case("a sentence of padding only", (*plain, 3, padding & torch.tensor([[[[True]]], [[[False]]]]))),
        Case("a mask that hides everything", (*plain, 3, torch.zeros(4, 4, dtype=torch.bool)),
             hint="The result is zero."),
        Case("scores in the hundreds", (*_made(6, 2, 4, 6, 20.0), 2)),
        Case("queries with scores around 900, -900, 0 and -400", (apart, w_q, w_k, *weights[2:], 3),
             hint="Adding the same to all scores of a row changes no weight."),
        Case("the same under a mask", (apart, w_q, w_k, *weights[2:], 3, full),
             hint="A hidden key has weight 0, however low the visible scores are."),
        Case("one visible key for each query, with scores down to -30,000",
             (low, w_q, w_k, *weights[2:], 3, one),
             hint="A hidden key has weight 0, however low the visible scores are."),
        Case("matrices whose columns lie side by side in memory", (*turned, 3, causal)),
        Case("float32", (*(a.float() for a in plain), 3, full)),
        Case("the gradient in x and all matrices", (*plain, 3, full), gradient_of=everything,
             hint="Every step must stay in torch, and none may change a tensor in place."),
        Case("the gradient without a mask", (*plain, 3), gradient_of=everything,
             hint="Every step must stay in torch, and none may change a tensor in place."),
        Case("the gradient beside a query that may attend to nothing", (*plain, 3, with_empty),
             gradient_of=everything,
             hint="What mends NaN in the output does not mend the gradient; no NaN may arise on the way."),
    ]  # fmt: skip


def _alone(case, value, expected):
    """Where the mask hides everything, the output is zero."""
    mask, found = case.args[6] if len(case.args) > 6 else None, floats(value)
    if mask is None or found is None or isinstance(value, (tuple, list)):
        return None
    visible = mask.expand(found.shape[0], case.args[5], found.shape[1], found.shape[1]).any(-1).any(1)
    if not visible.all() and np.abs(found[~visible.numpy()]).max() > 1e-6:
        return "A query that may attend to nothing must come out as zeros."
    return None


def _steps(case, value, expected):
    x, w_q, w_k, w_v, w_o, n_heads, mask = (*case.args, None)[:7]
    if isinstance(value, (tuple, list)):
        return None
    return steps(x, x, w_q, w_k, w_v, w_o, n_heads, mask, value)


COMMON = {
    "weights_transposed", "same_projection", "roles_swapped", "no_value_projection", "no_query_projection",
    "no_key_projection", "scale_of_the_model", "no_scale", "scale_without_root", "scale_multiplies",
    "view_without_transpose", "no_transpose", "interleaved", "merge_by_view", "merge_interleaved",
    "heads_averaged", "softmax_over_queries", "softmax_over_heads", "overflow", "mask_inverted", ""
    "mask_ignored",
    "mask_after_softmax", "mask_fills_with_zero", "mask_added", "mask_transposed", "mask_of_first_sentence",
    "mask_of_first_head", "empty_row_uniform", "empty_row_nan", "no_output_projection", "output_transposed",
    "residual", "weights_detached", "parameters_detached",
}  # fmt: skip


multi_head_attention = FunctionExercise(
    _multi_head, _multi_head_cases,
    rare_but(COMMON,
             (*PROJECT, *SCALE, *SHAPES, *SOFTMAX, *MASKING, *EMPTY, *OUTPUT, *GRADIENT,
     Mistake("length_first", "You read x as (L, B, D). Here the batch comes first.",
             {"cut": "length_first"}),
     Mistake("length_first", "You read x as (L, B, D), so a word attends to the other sentences. Here the "
             "batch comes first.", {"batch": "length_first"}, convention=True))),
    "Checked with one head and several, five shapes of masks, empty rows, large scores, float32, and the "
    "gradient in x and every matrix. This is the layer of the 2017 paper.",
    properties=(finite, nothing, of_an_earlier_call(_multi_head, _multi_head_cases), _alone, rounded, _steps),
    rtol=1e-4, atol=1e-5,
)  # fmt: skip

EXERCISES = (
    Exercise(
        "multi_head_attention", "09", multi_head_attention,
        (
            "Six steps: project, split, score, mask and softmax, average, merge and project again. Which "
            "shape stands behind each?",
            "x @ w_q is (B, L, D), cut into (B, H, L, d); the scores are (B, H, L, L), divided by the root "
            "of d. The mask broadcasts to them as it comes. -inf where it hides, then the softmax over the "
            "last axis.",
            "A row that is hidden throughout becomes NaN in the softmax. Set its weights to zero afterwards, "
            "where the mask hides, before they meet the values: masked_fill on scores and weights both lets "
            "the gradient pass. Then weights @ v, merge to (B, L, D), and times w_o.",
        ),
        """import torch

def multi_head_attention(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    batch, length, width = x.shape

    def heads(a):                                        # (B, L, D) -> (B, H, L, d)
        return a.reshape(batch, length, n_heads, width // n_heads).transpose(1, 2)

    q, k, v = heads(x @ w_q), heads(x @ w_k), heads(x @ w_v)
    scores = q @ k.transpose(-1, -2) / (width // n_heads) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0)          # a row that is hidden throughout was NaN
    merged = (weights @ v).transpose(1, 2).reshape(batch, length, width)
    return merged @ w_o""",
        "function",
    ),
)  # fmt: skip

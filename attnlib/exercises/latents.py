"""Attention over latents in the absorbed form, of lesson 18."""

import numpy as np

from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but


def _latent(q, q_pe, c, k_pe, w_uk, w_uv, *, scale="width", place="right", maps="right", values="right",
            axis=-1, shift="row", order="right", form="right"):  # fmt: skip
    heads, n, d = q.shape
    if maps == "first_head":
        w_uk, w_uv = w_uk[:1].repeat(heads, 0), w_uv[:1].repeat(heads, 0)
    elif maps == "first_head_keys":
        w_uk = w_uk[:1].repeat(heads, 0)
    elif maps == "first_head_values":
        w_uv = w_uv[:1].repeat(heads, 0)
    elif maps == "values_for_keys":
        w_uk = w_uv
    elif maps == "keys_for_values":
        w_uv = w_uk
    elif maps == "mean":
        w_uk, w_uv = (w.mean(0, keepdims=True).repeat(heads, 0) for w in (w_uk, w_uv))
    elif maps == "transposed_keys":
        w_uk = w_uk.swapaxes(1, 2)
    elif maps == "transposed_values":
        w_uv = w_uv.swapaxes(1, 2)
    elif maps == "reversed":
        w_uk, w_uv = w_uk[::-1], w_uv[::-1]
    if maps == "not_absorbed":
        asked = q
    elif maps == "absorbed_twice":
        asked = q @ w_uk @ w_uk.swapaxes(1, 2) @ w_uk
    else:
        asked = q @ w_uk                                             # (H, L, r)
    found = asked @ c.T                                       # (H, L, S)
    r, d_rope, dv = c.shape[1], q_pe.shape[2], w_uv.shape[1]
    by = {
        "width": d + d_rope, "none": 1, "nope": d, "rope": d_rope, "latent": r + d_rope, "rank": r,
        "linear": (d + d_rope) ** 2, "times": 1 / (d + d_rope), "value": dv, "heads": heads * (d + d_rope),
        "quarter": (d + d_rope) ** 0.5, "keys": c.shape[0], "queries": n, "after": 1, "each": d,
        "nope_only": d + d_rope, "rope_only": 1,
    }[scale] ** -0.5  # fmt: skip
    turned = q_pe @ k_pe.T
    pe_by = {"each": d_rope**-0.5, "nope_only": 1, "rope_only": (d + d_rope) ** -0.5}.get(scale, by)
    if place == "first_head":
        turned = turned * (np.arange(heads)[:, None, None] == 0)
    scores = {
        "right": lambda: found * by + turned * pe_by, "first_head": lambda: found * by + turned * pe_by,
        "forgotten": lambda: found * by, "alone": lambda: turned * pe_by,
        "times": lambda: found * by * turned * pe_by, "minus": lambda: found * by - turned * pe_by,
        "mean": lambda: (found * by + turned * pe_by) / 2, "after": lambda: found * by,
        "two": lambda: found * by, "one_query": lambda: found * by + turned[:1] * pe_by,
    }[place]()  # fmt: skip
    weights = _softmax(scores, axis, shift)
    if place == "after":
        weights = weights + turned * pe_by
    elif place == "two":
        weights = (weights + _softmax(turned * pe_by, axis, shift)) / 2
    if scale == "after":
        weights = weights / (d + d_rope) ** 0.5
    out = weights @ c @ w_uv.swapaxes(1, 2)                          # (H, L, dv)
    if values == "latent":
        out = weights @ c
    elif values == "mean":
        out = np.broadcast_to(c.mean(0) @ w_uv.swapaxes(1, 2), out.shape[:1] + out.shape[2:])[:, None]
        out = out.repeat(n, 1)
    elif values == "keys":
        out = weights @ c @ w_uk.swapaxes(1, 2)
    return {
        "right": lambda: out, "heads_last": lambda: out.swapaxes(0, 1),
        "merged": lambda: out.swapaxes(0, 1).reshape(n, -1), "renamed": lambda: out.reshape(n, -1),
        "summed": lambda: out.sum(0), "averaged": lambda: out.mean(0), "first": lambda: out[0],
        "squeezed": lambda: out[:, 0], "scores": lambda: scores, "weights": lambda: weights,
        "turned": lambda: out.swapaxes(1, 2), "reversed": lambda: out[::-1],
        "both": lambda: (out, weights),
    }[order if form == "right" else form]()  # fmt: skip


def _softmax(scores, axis, shift):
    if axis in ("causal", "causal_from_the_start"):
        after = scores.shape[-1] - scores.shape[-2] if axis == "causal" else 0
        scores, axis = np.where(np.tri(*scores.shape[-2:], after, bool), scores, -np.inf), -1
    if axis == "all":
        e = np.exp(scores - scores.max((-2, -1), keepdims=True))
        return e / e.sum((-2, -1), keepdims=True)
    with np.errstate(all="ignore"):
        e = np.exp(scores - {"row": scores.max(axis, keepdims=True), "none": 0, "all": scores.max()}[shift])
        return e / e.sum(axis, keepdims=True)


def _cases():
    def made(seed, heads, n, s, d, d_rope, r, dv, size=1.0):
        rng = np.random.default_rng(1800 + seed)
        shapes = (heads, n, d), (heads, n, d_rope), (s, r), (s, d_rope), (heads, d, r), (heads, dv, r)
        return tuple(rng.normal(size=shape) * (size if i < 2 else 1) for i, shape in enumerate(shapes))

    plain = made(1, 3, 2, 5, 4, 2, 7, 6)
    q, q_pe, c, k_pe, w_uk, w_uv = plain
    scale = "By which root are the scores divided: how wide is a whole query, and a whole key?"
    apart = q.copy(), q_pe.copy(), c, np.ones_like(k_pe), w_uk, w_uv
    apart[1][0] = -1500.0                                             # the second query far below the first
    apart[1][:, 1] = [[-900.0, -800.0]] * 3
    return [
        Case("3 heads, 2 queries and 5 tokens", plain, hint=scale),
        Case("the first sizes again, with other numbers",
             (q[::-1] * 0.8, q_pe + 0.3, c[::-1] - 0.2, k_pe * 2, w_uk[::-1], w_uv * 0.5)),
        Case("one new token", made(2, 4, 1, 6, 3, 2, 5, 4), hint="Every axis stays, also one of size 1."),
        Case("one head", made(3, 1, 3, 4, 5, 4, 6, 2)),
        Case("a latent as wide as a head", made(4, 2, 3, 6, 4, 2, 4, 4),
             hint="Where sizes agree a matrix fits both ways round. Which way does w_uk go?"),
        Case("a latent narrower than a head", made(5, 2, 4, 3, 8, 2, 3, 5)),
        Case("as many heads as queries and as tokens", made(6, 4, 4, 4, 3, 2, 5, 4)),
        Case("all sizes alike", made(7, 4, 4, 4, 4, 4, 4, 4)),
        Case("a rotated part wider than the rest", made(8, 3, 2, 5, 2, 8, 6, 3), hint=scale),
        Case("queries without a rotated part, all zeros", (q, q_pe * 0, c, k_pe, w_uk, w_uv)),
        Case("latents of zeros: the rotated part decides", (q, q_pe, c * 0 + 1e-3, k_pe * 3, w_uk, w_uv)),
        Case("a single token", made(9, 2, 3, 1, 4, 2, 5, 3)),
        Case("scores in the thousands", made(10, 2, 3, 5, 4, 2, 6, 4, 600.0),
             hint="A softmax that subtracts the largest score is safe."),
        Case("scores far below zero", apart, hint="Subtract each row's own largest score."),
        Case("float32", tuple(a.astype(np.float32) for a in plain)),
    ]  # fmt: skip


def _finite(case, value, expected):
    out = floats(value)
    return None if out is None or np.isfinite(out).all() else "There are NaN or infinite numbers."


_WHOLE = "Divide by the root of the width of a whole query, the part that is not rotated and the one that is."
_MISTAKES = (
    Mistake("scale_of_the_latent", "You divide by the root of what is multiplied in the absorbed form, the "
            "latent's width and the rotated part's. The scores are those of the heads' own queries and keys, "
            f"and so is their scale. {_WHOLE}", {"scale": "latent"}),
    Mistake("scale_of_the_latent", "You divide by the root of the latent's width. The latent only stands in "
            f"for keys. {_WHOLE}", {"scale": "rank"}),
    Mistake("scale_of_one_part", "You divide by the root of the width of the part that is not rotated. "
            f"{_WHOLE}", {"scale": "nope"}),
    Mistake("scale_of_one_part", f"You divide by the root of the rotated part's width alone. {_WHOLE}",
            {"scale": "rope"}),
    Mistake("scaled_apart", "Each part of the scores has a root of its own. They are two halves of one dot "
            f"product: add them, then divide. {_WHOLE}", {"scale": "each"}),
    Mistake("scaled_apart", "Only the part that comes from the latent is scaled. Add the two parts, then "
            "divide.", {"scale": "nope_only"}),
    Mistake("scaled_apart", "Only the rotated part is scaled. Add the two parts, then divide.",
            {"scale": "rope_only"}),
    Mistake("no_scale", f"The scores are not scaled. {_WHOLE}", {"scale": "none"}),
    Mistake("scale_without_root", "You divide by the width: without the root, or by the root twice.",
            {"scale": "linear"}),
    Mistake("scale_multiplies", "You multiply by the root. Divide.", {"scale": "times"}),
    Mistake("scale_quarter", "You divide by the fourth root of the width.", {"scale": "quarter"}),
    Mistake("scale_of_values", f"You divide by the root of the width of a value. {_WHOLE}",
            {"scale": "value"}),
    Mistake("scale_of_all_heads", f"You divide by the root of all heads' width together. {_WHOLE}",
            {"scale": "heads"}),
    *(Mistake("scale_of_a_length", f"You divide by the root of a number of tokens. {_WHOLE}",
              {"scale": scale}) for scale in ("keys", "queries")),
    Mistake("scale_after_softmax", "You divide the weights. Divide the scores, before the softmax.",
            {"scale": "after"}),
    Mistake("rotated_part_forgotten", "The scores lack the rotated part: q_pe and k_pe are used nowhere, and "
            "no head knows where a token stands.", {"place": "forgotten"}),
    Mistake("latent_forgotten", "The scores are those of the rotated part alone.", {"place": "alone"}),
    Mistake("parts_multiplied", "You multiply the two parts of the scores. A dot product over features side "
            "by side is a sum.", {"place": "times"}),
    Mistake("parts_subtracted", "You subtract the rotated part of the scores. Add it.", {"place": "minus"}),
    Mistake("parts_averaged", "You take the mean of the two parts of the scores. Add them.",
            {"place": "mean"}),
    Mistake("added_after_softmax", "You add the rotated part to the weights. It belongs to the scores, "
            "before the softmax.", {"place": "after"}),
    Mistake("two_softmaxes", "Each part has a softmax of its own. There is one, of the sum of both.",
            {"place": "two"}),
    Mistake("rotated_part_of_one_head", "Only the first head gets the rotated part. The key is one for all "
            "heads, and each has a rotated query of its own.", {"place": "first_head"}),
    Mistake("rotated_part_of_one_head", "All heads use the rotated query of the first. Only the key is one "
            "for all.", {"place": "one_query"}),
    *(Mistake("maps_of_one_head", f"All heads use the first one's {what}. Each head has its own.",
              {"maps": maps})
      for what, maps in (("maps", "first_head"), ("w_uk", "first_head_keys"), ("w_uv", "first_head_values"))),
    Mistake("maps_averaged", "The heads' maps are averaged into one. Each head has its own.",
            {"maps": "mean"}),
    Mistake("maps_exchanged", "Queries meet w_uv, which makes values. w_uk makes keys.",
            {"maps": "values_for_keys"}),
    *(Mistake("maps_exchanged", "Values are made by w_uk, which makes keys. w_uv makes values.", choices)
      for choices in ({"maps": "keys_for_values"}, {"values": "keys"})),
    Mistake("transposed", "The map w_uk goes the wrong way round, which shows only where sizes fit both "
            "ways. A key is w_uk c: which axis of w_uk does a query meet?", {"maps": "transposed_keys"}),
    Mistake("transposed", "The map w_uv goes the wrong way round, which shows only where sizes fit both "
            "ways. A value is w_uv c: which axis of w_uv does the mean latent meet?",
            {"maps": "transposed_values"}),
    Mistake("maps_reversed", "The heads' maps are used in reverse order.", {"maps": "reversed"}),
    Mistake("not_absorbed", "Queries meet the latent without w_uk between them.", {"maps": "not_absorbed"}),
    Mistake("absorbed_twice", "The map w_uk is in the scores twice: in the query, and in the keys again.",
            {"maps": "absorbed_twice"}),
    Mistake("latents_returned", "You return the mean latents. Each head's w_uv has to make values of them.",
            {"values": "latent"}),
    Mistake("not_weighted", "Your result is the plain mean of the values: the weights are not used.",
            {"values": "mean"}),
    Mistake("softmax_over_queries", "The softmax runs over the queries. Each query's weights sum to one over "
            "the tokens.", {"axis": -2}),
    Mistake("softmax_over_heads", "The softmax runs over the heads. Each head has its own, over the tokens.",
            {"axis": 0}),
    Mistake("softmax_over_all", "One softmax runs over queries and tokens together. Each query has its own.",
            {"axis": "all"}),
    *(Mistake("causal", "Later tokens are hidden from a query. Here every query sees every "
              "token.", {"axis": axis}) for axis in ("causal", "causal_from_the_start")),
    Mistake("overflow", "Large scores overflow in the exponential. Subtract each row's largest score first.",
            {"shift": "none"}),
    Mistake("one_shift", "You subtract the largest score of all. In a row far below it every exponential is "
            "0: subtract each row's own.", {"shift": "all"}),
    Mistake("heads_behind_positions", "The result is (L, H, dv). Here heads come before positions: (H, L, "
            "dv).", {"order": "heads_last"}),
    Mistake("heads_merged", "The heads are merged. Here they keep an axis: (H, L, dv).",
            {"order": "merged"}),
    Mistake("heads_merged", "The heads are merged, by a reshape that mixes them with positions. Here they "
            "keep an axis: (H, L, dv).", {"order": "renamed"}),
    *(Mistake("heads_joined", f"You {what} the heads. Each has a result of its own: (H, L, dv).",
              {"order": order}) for what, order in (("add up", "summed"), ("average", "averaged"))),
    Mistake("heads_joined", "You return the first head alone. Each has a result: (H, L, dv).",
            {"order": "first"}),
    Mistake("axis_lost", "The axis of the queries is lost. It stays, also with one query.",
            {"order": "squeezed"}),
    Mistake("last_axes_turned", "The last two axes are exchanged: (H, L, dv) is asked for.",
            {"order": "turned"}),
    Mistake("heads_reversed", "The heads of the result come in reverse order.", {"order": "reversed"}),
    Mistake("scores_returned", "You return the scores. Softmax, the mean of the latents and w_uv follow.",
            {"form": "scores"}),
    Mistake("weights_returned", "You return the weights. They have to average the latents yet.",
            {"form": "weights"}),
    Mistake("more_returned", "You return the weights too. Only the output is asked for.", {"form": "both"}),
)  # fmt: skip

latent_attention = FunctionExercise(
    _latent, _cases,
    rare_but({"scale_of_the_latent", "scale_of_one_part", "no_scale", "rotated_part_forgotten", "transposed",
              "maps_of_one_head", "softmax_over_queries", "latents_returned", "heads_behind_positions"},
             _MISTAKES),
    "Checked with latents wider and narrower than a head, with one new token and several, where all sizes "
    "agree, and with large scores. If your function makes no keys, what it reads of a token is one latent "
    "and one rotated key, for all heads.",
    properties=(_finite, in_torch, few_digits),
    rtol=1e-4, atol=1e-6,
)  # fmt: skip

EXERCISES = (
    Exercise(
        "latent_attention", "18", latent_attention,
        (
            "A head's key is w_uk c. In q . (w_uk c), what may be multiplied first, so that only c is left "
            "of the token?",
            "q @ w_uk has shape (H, L, r): a query that asks latents. It meets c.T; q_pe meets k_pe.T; the "
            "sum is divided by the root of the width of q and q_pe together.",
            "The weights average the latents, (H, L, r), and only then does each head's w_uv, transposed, "
            "make values of the averages.",
        ),
        """import numpy as np

def latent_attention(q, q_pe, c, k_pe, w_uk, w_uv):
    scores = (q @ w_uk) @ c.T + q_pe @ k_pe.T              # (H, L, S)
    scores = scores / np.sqrt(q.shape[-1] + q_pe.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    weights = e / e.sum(-1, keepdims=True)
    return (weights @ c) @ w_uv.swapaxes(-1, -2)           # (H, L, dv)""",
        "function",
    ),
)  # fmt: skip

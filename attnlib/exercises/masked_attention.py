"""Attention under a mask, of lesson 08."""

import numpy as np

from attnlib.exercises.answers import as_floats
from attnlib.exercises.calls import is_tensor
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake


def _number(fill, lowest):
    return lowest if fill == "lowest" else float(fill)


def _attention(
    q, k, v, mask=None, *, scale="width", axis=-1, hides=False, fill="-inf", clean=False, empty="zero",
    top="row", average="values", order="output first", whole="floats", turn="last two", share=True,
):  # fmt: skip
    kind, width, values = q.dtype, q.shape[-1], v.shape[-1]
    q, k, v = (x.astype(float) for x in (q, k, v))
    scores = q @ (k.T if turn == "all" else np.swapaxes(k, -1, -2))
    scores = scores * {
        "width": width**-0.5, "none": 1, "linear": 1 / width, "times": width**0.5, "values": values**-0.5,
        "keys": k.shape[-2] ** -0.5, "queries": q.shape[-2] ** -0.5, "second": q.shape[1] ** -0.5,
        "first": q.shape[0] ** -0.5, "after": 1,
    }[scale]  # fmt: skip
    visible = np.ones(scores.shape, bool) if mask is None or fill == "ignored" else mask != hides
    if empty == "opened":
        visible = visible | ~visible.any(-1, keepdims=True)
    if fill in ("after", "raw"):
        masked = scores
    elif fill == "add":
        masked = scores + np.where(visible, 0, -1e9)
    elif fill == "plus":
        masked = scores + (0 if mask is None else visible)
    else:
        masked = np.where(visible, scores, _number({"ignored": "0"}.get(fill, fill), np.finfo(float).min))
    if top == "clipped":
        masked = np.where(np.isinf(masked), masked, np.clip(masked, -50, 50))
    if top in ("none", "clipped"):
        shift = 0
    else:
        shift = masked.max() if top == "all" else masked.max(axis, keepdims=True)
        shift = np.where(np.isfinite(shift), shift, 0)
    e = np.exp(masked - shift)
    if fill == "raw":
        e = e * visible
    total = e.sum(axis, keepdims=True) if share else np.ones_like(e[..., :1])
    weights = e / (total if empty == "nan" else np.where(total == 0, 1, total))
    if scale == "after":
        weights = weights / width**0.5
    if fill == "after" or clean:
        weights = np.where(visible, weights, 0)
    out = (scores if average == "scores" else weights) @ (k if average == "keys" else v)
    if kind == np.float16:  # says that half precision is good enough
        out, weights = out.astype(kind), weights.astype(kind)
    if whole == "cut off" and kind.kind in "iu":
        out, weights = np.trunc(out), np.trunc(weights)
    if order == "scores":
        return out, scores
    return (weights, out) if order == "weights first" else (out, weights)


def _attention_cases():
    rng = np.random.default_rng(80)

    def qkv(*lead, n_query=3, n_key=5, width=4, values=2, size=1.0):
        shapes = (*lead, n_query, width), (*lead, n_key, width), (*lead, n_key, values)
        return tuple(rng.normal(size=shape) * s for shape, s in zip(shapes, (size, size, 1), strict=True))

    some = np.array([[1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    pads = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]], bool)
    empty = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1]], bool)
    whole = tuple(rng.integers(-3, 4, size=s) for s in ((3, 4), (5, 4), (5, 2)))
    large = tuple(rng.integers(-30, 31, size=s).astype(float) for s in ((3, 4), (5, 4), (5, 2)))
    half = tuple(x.astype(np.float16) for x in qkv())
    one, spread = np.array([[1e3], [1e-3]]), np.array([[1.0], [-1.0], [2.0], [0.5]])
    wins = np.array([[0.0], [1.0], [4000.0]])
    low = np.array([[-1e10], [-1e10], [0.0], [-5.0]])
    return [
        Case("3 queries and 5 keys without a mask", qkv(), hint="The order is: score, scale, softmax, "
             "average."),
        Case("a mask that hides some keys", (*qkv(), some)),
        Case("a batch with a padding mask", (*qkv(2, n_key=6), pads[:, None, :]),
             hint="The mask broadcasts to the scores."),
        Case("a batch with heads and a mask of shape (B, 1, 1, Lk)",
             (*qkv(2, 3, n_query=4, n_key=6, width=5), pads[:, None, None, :]),
             hint="All axes but the last two are left alone; the mask broadcasts to the scores."),
        Case("equal sizes and a causal mask", (*qkv(3, 3, n_key=3, width=3, values=3),
                                               np.tril(np.ones((3, 3), bool)))),
        Case("a query that may attend to nothing", (*qkv(), empty),
             hint="Its weights and its output are zeros, not NaN."),
        Case("scores of either sign around 1000", (*large, some),
             hint="Subtract each row's largest visible score before the exponential."),
        Case("one row with large scores and one with small", (one, spread, spread),
             hint="Each row needs its own largest score."),
        Case("a masked key whose score is the largest by far",
             (np.ones((1, 1)), wins, spread[:3], np.array([[True, True, False]])),
             hint="Mask before the softmax, so that what is hidden takes no part in it."),
        Case("visible scores of -1e10 and hidden ones near 0",
             (np.ones((1, 1)), low, spread, np.array([[True, True, False, False]])),
             hint="A masked weight is exactly 0, whatever the size of the scores."),
        Case("visible scores near 0 and a hidden one of 1e11",
             (np.ones((1, 1)), low[::-1] * -10, spread, np.array([[True, True, False, False]])),
             hint="A masked weight is exactly 0, whatever the size of the scores."),
        Case("whole numbers", (*whole, some)),
        Case("half precision and a query that may attend to nothing", (*half, empty)),
        Case("one query and one key", qkv(n_query=1, n_key=1)),
    ]  # fmt: skip


def _weights_of(value):
    """The second result in floats, or None where it does not hold real numbers."""
    return as_floats(value[1].detach() if is_tensor(value[1]) else value[1])


def _in_torch(case, value, expected):
    if not any(is_tensor(part) for part in value):
        return None
    parts = [as_floats(part.detach() if is_tensor(part) else part) for part in value]
    if any(part is None or not np.allclose(part, ours, 1e-3, 1e-5)
           for part, ours in zip(parts, expected, strict=True)):  # fmt: skip
        return None
    return "The numbers are right; only they come as torch tensors. Return NumPy arrays; .numpy() makes one."


def _hidden_weight(case, value, expected):
    if len(case.args) < 4 or _weights_of(value) is None:
        return None
    weights = np.where(np.broadcast_to(case.args[3], _weights_of(expected).shape), 0, _weights_of(value))
    if not np.isfinite(weights).all() or np.abs(weights).max() < 1e-12:
        return None
    at = tuple(int(n) for n in np.unravel_index(np.abs(weights).argmax(), weights.shape))
    return f"The weight at index {', '.join(map(str, at))} is {weights[at]:.3g}, and the mask hides it."


def _row_sums(case, value, expected):
    if _weights_of(value) is None:
        return None
    sums, wanted = _weights_of(value).sum(-1), _weights_of(expected).sum(-1)
    if not np.isfinite(sums).all():
        return "Some weights are NaN or infinite."
    apart = np.abs(sums - wanted)
    if apart.max() < 5e-3:
        return None
    at = np.unravel_index(apart.argmax(), apart.shape)
    return f"The weights of a query sum to {sums[at]:.3g} over the keys, and should sum to {wanted[at]:.3g}."


_SCALES = (
    Mistake("no_scale", "You leave out the scale: scores are divided by the square root of the width.",
            {"scale": "none"}),
    Mistake("scale_linear", "You divide the scores by the width, or twice by its root. The root, once.",
            {"scale": "linear"}),
    Mistake("scale_multiplied", "You multiply the scores by the root of the width. "
            "Divide.", {"scale": "times"}),
    Mistake("scale_of_keys", "You divide by the root of the number of keys. It is the width of a key that "
            "makes scores grow.", {"scale": "keys"}),
    Mistake("scale_of_queries", "You divide by the root of the number of queries; read the width off the "
            "last axis.", {"scale": "queries"}),
)  # fmt: skip
_UNIFORM = Mistake(
    "uniform_rows",
    "You write a large negative number where the mask hides. In a row that is hidden throughout all scores "
    "are then equal, and the query gets the average of exactly what it must not see. Its output is to be 0.",
    {"fill": "lowest"},
)
_OPENED = Mistake(
    "empty_rows_opened",
    "In a row that is hidden throughout you open the mask, and the query sees exactly what it must not see. "
    "Its output is to be 0.",
    {"empty": "opened"},
)
_NAN = Mistake(
    "nan_rows",
    "A query with nothing to attend to gives NaN: its exponentials sum to 0, and 0/0 is NaN. Its output is "
    "to be 0.",
    {"empty": "nan"},
)
_AFTER = Mistake(
    "masked_after",
    "You mask after the softmax. What is left of a row no longer sums to 1, and its sum was made with the "
    "hidden keys. Mask the scores.",
    {"fill": "after"},
)
_RAW = Mistake(
    "shift_sees_hidden",
    "You mask the exponentials and renormalise, which is right as long as no hidden score is far above the "
    "visible ones: then these all underflow to 0. Mask before you look for the largest score.",
    {"fill": "raw"},
)
_OVERFLOW = (
    "Your exponentials overflow: nothing is subtracted from the scores. Subtract each row's largest visible "
    "score first."
)
_AXIS = Mistake(
    "softmax_over_queries",
    "Your softmax runs over the queries: columns sum to 1. Each query divides its own attention over the "
    "keys, the last axis.",
    {"axis": -2},
)

attention = FunctionExercise(
    _attention,
    _attention_cases,
    (
        Mistake(
            "polarity",
            "You hide where the mask is True, as nn.MultiheadAttention does. Here True means: may attend.",
            {"hides": True},
            convention=True,
        ),
        Mistake("mask_ignored", "The mask has no effect.", {"fill": "ignored"}),
        *_SCALES,
        Mistake("scale_of_values", "You divide by the root of the values' width. Scores come from queries "
                "and keys.", {"scale": "values"}),
        Mistake("scale_second_axis", "You read the width off axis 1. It is the last axis, however many there "
                "are.", {"scale": "second"}),
        Mistake("scale_first_axis", "You read the width off axis 0, which counts queries or sentences. It is "
                "the last axis.", {"scale": "first"}),
        Mistake("scale_after", "You scale the weights. Scale the scores, before the softmax.",
                {"scale": "after"}),
        _AXIS,
        Mistake("softmax_over_all", "Your softmax runs over queries and keys together: all weights sum to 1, "
                "instead of each row.", {"axis": (-2, -1)}),
        Mistake("softmax_axis_1", "Your softmax runs over axis 1, which holds the keys only where there are "
                "two axes. Count from the end: the keys are axis -1.", {"axis": 1}),
        Mistake("softmax_axis_0", "Your softmax runs over axis 0: queries, or sentences of the batch. The "
                "keys are axis -1.", {"axis": 0}),
        Mistake("not_normalised", "You do not divide the exponentials by their sum.", {"share": False}),
        _NAN,
        _UNIFORM,
        _OPENED,
        Mistake(
            "fill_1e9",
            "You write a number such as -1e9 where the mask hides. That is a score like any other: visible "
            "scores below it lose against it, and a row that is hidden throughout becomes uniform.",
            {"fill": "-1e9"},
        ),
        Mistake(
            "fill_1e9_cleaned",
            "You write -1e9 where the mask hides. Visible scores below it lose against it and the row comes "
            "out empty. Minus infinity loses against every number.",
            {"fill": "-1e9", "clean": True},
        ),
        Mistake(
            "added_1e9",
            "You add -1e9 where the mask hides. A hidden score of 1e11 is still the largest after that. "
            "Replace it, or add minus infinity.",
            {"fill": "add"},
        ),
        Mistake("added_1e9_cleaned", "You add -1e9 where the mask hides. A hidden score of 1e11 is still the "
                "largest and takes the whole row before you clear it.", {"fill": "add", "clean": True}),
        Mistake("fill_zero", "Where the mask hides, your score is 0, or near it such as 1e-9, written or "
                "multiplied in. A score of 0 is a score: its exponential is 1.", {"fill": "0"}),
        Mistake("mask_added", "You add the mask to the scores as it is. True and False are 1 and 0: visible "
                "keys gain a little, and none is hidden.", {"fill": "plus"}),
        Mistake("fill_positive_infinity", "You write +inf where the mask hides; what is hidden should lose, "
                "so the sign is wrong.", {"fill": "inf"}),
        _AFTER,
        _RAW,
        Mistake("overflow", _OVERFLOW, {"top": "none"}),
        Mistake("overflow_masked_later", _OVERFLOW, {"top": "none", "fill": "raw"}),
        Mistake("clipped", "You clip the scores, which makes unequal scores equal. Subtract each row's "
                "largest instead.", {"top": "clipped"}),
        Mistake("one_shift_for_all", "You subtract the largest score of the whole array. A row far below it "
                "underflows to 0. Each row needs its own.", {"top": "all"}),
        Mistake("keys_averaged", "You average the keys. Keys decide the weights; values are averaged.",
                {"average": "keys"}),
        Mistake("scores_averaged", "Your output is made from the scores and not from the weights.",
                {"average": "scores"}),
        Mistake("weights_first", "You return the weights first. The order is output, weights.",
                {"order": "weights first"}),
        Mistake("scores_returned", "Your second result holds scores. Return the weights, after the softmax.",
                {"order": "scores"}),
        Mistake("two_axes_only", "It works for two axes alone: .T turns round all axes, and an einsum "
                "without an ellipsis names a fixed number of them.", {"turn": "all"}),
        Mistake("whole_results", "Whole numbers go in and whole numbers come out: the results are cut off. "
                "Compute in a floating type.", {"whole": "cut off"}),
    ),  # fmt: skip
    "Checked with and without masks of two, three and four axes, with a query that may attend to nothing, "
    "hidden keys of any size, scores from 1e-3 to 1e11, whole numbers and half precision. This is "
    "attnlib.attention, and it is what the rest of the course builds on.",
    (_in_torch, _row_sums, _hidden_weight),
)  # fmt: skip


def _padded_attention(
    q, k, v, key_padding_mask, *, hides=True, axes="keys", scale="width", axis=-1, fill="-inf",
    empty="zero", causal=False, average="values", half="float32",
):  # fmt: skip
    import torch

    dtype = q.dtype
    if dtype == torch.float16:
        if half == "raises":
            raise RuntimeError("half precision")
        if half == "inf":
            fill, empty = "-inf", "nan"
        q, k, v = q.float(), k.float(), v.float()
    scores = q @ k.mT
    scores = scores * {
        "width": q.shape[-1] ** -0.5, "none": 1, "linear": 1 / q.shape[-1], "times": q.shape[-1] ** 0.5,
        "keys": k.shape[-2] ** -0.5, "queries": q.shape[-2] ** -0.5,
        "model": (q.shape[-1] * q.shape[1]) ** -0.5,
    }[scale]  # fmt: skip
    visible = ~key_padding_mask if hides else key_padding_mask
    if axes == "nowhere":
        visible = torch.ones_like(visible)
    both = visible[:, None, None, :] & visible[:, None, :, None] if axes == "both" else None
    visible = {
        "keys": visible[:, None, None, :], "nowhere": visible[:, None, None, :], "rows": visible,
        "heads": visible[:, None], "queries": visible[:, None, :, None],
    }.get(axes, both)  # fmt: skip
    if causal:
        visible = visible & torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    visible = visible.expand(scores.shape)
    if empty == "opened":
        visible = visible | ~visible.any(-1, keepdim=True)
    if fill in ("after", "raw"):
        masked = scores
    elif fill == "added" and dtype != torch.float16:
        masked = scores + torch.where(visible, 0, -1e4)
    elif fill == "times":
        masked = torch.full_like(scores, torch.nan)
    else:
        fill = "lowest" if fill == "added" else fill  # a float16 next to -1e4 holds no difference of scores
        masked = torch.where(visible, scores, _number(fill, torch.finfo(scores.dtype).min))
    top = masked.amax(axis, keepdim=True)
    e = (masked - torch.where(top.isfinite(), top, torch.zeros_like(top))).exp()
    if fill == "raw":
        e = e * visible
    total = e.sum(axis, keepdim=True)
    weights = e / (total if empty == "nan" else torch.where(total == 0, torch.ones_like(total), total))
    if fill == "after":
        weights = weights * visible
    return (weights @ (k if average == "keys" else v)).to(dtype)


def _padded_cases():
    import torch

    def case(name, sizes, real, kind=torch.float32, size=1.0, seed=0, hint=""):
        b, h, n, s, d = sizes
        rng = np.random.default_rng(800 + seed)
        arrays = [rng.normal(size=(b, h, m, d)) * f for m, f in ((n, size), (s, size), (s, 1))]
        arrays = [x.round() if size > 1 else x for x in arrays]  # exact in float32, if the width is a square
        q, k, v = (torch.tensor(x).to(kind) for x in arrays)
        return Case(name, (q, k, v, torch.tensor(real) == 0), hint=hint)

    wins = case("a padded key whose score is the largest by far", (1, 1, 1, 3, 2), [[1, 1, 0]], seed=1,
                hint="What is hidden must take no part in the softmax.")  # fmt: skip
    wins.args[1][..., 2, :] = 2000 * wins.args[0][..., 0, :]
    return [
        case("a batch of two, padded on the right", (2, 3, 4, 5, 6), [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]),
        case("as many sentences as queries", (3, 2, 3, 4, 5), [[0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]],
             hint="(B, S) meets (B, H, L, S) at the wrong axes unless it is given two more."),
        case("all sizes equal", (3, 3, 3, 3, 3), [[1, 0, 0], [1, 1, 0], [0, 1, 1]],
             hint="When sizes agree, a mask on the wrong axis raises no error."),
        case("as many sentences as heads, as many queries as "
            "keys", (2, 2, 4, 4, 3), [[1, 1, 1, 0], [0, 0, 1, 1]],
             hint="When sizes agree, a mask on the wrong axis raises no error."),
        case("a sentence that is nothing but padding", (2, 2, 3, 4, 5), [[0, 0, 0, 0], [1, 1, 1, 0]],
             hint="Its output is 0."),
        case("float64 and no padding", (1, 2, 3, 4, 4), [[1, 1, 1, 1]], torch.float64, seed=2),
        case("large scores", (2, 2, 3, 5, 4), [[1, 1, 0, 1, 1], [0, 1, 1, 1, 0]], size=20.0, seed=3),
        wins,
        case("half precision", (2, 2, 3, 4, 5), [[1, 1, 0, 0], [1, 1, 1, 1]], torch.float16, seed=4,
             hint="float16 ends at 65504: -1e9 does not exist in it."),
        case("half precision and a sentence that is nothing but padding", (2, 2, 3, 4, 5),
             [[0, 0, 0, 0], [1, 1, 1, 0]], torch.float16, seed=5, hint="Its output is 0."),
    ]  # fmt: skip


padded_attention = FunctionExercise(
    _padded_attention,
    _padded_cases,
    (
        Mistake(
            "polarity",
            "You read True as: may attend, as F.scaled_dot_product_attention does. Here True means padding, "
            "as in nn.MultiheadAttention.",
            {"hides": False},
            convention=True,
        ),
        Mistake("mask_ignored", "The padding is not hidden: the mask has no effect.", {"axes": "nowhere"}),
        Mistake(
            "as_rows",
            "The mask meets the scores with its axes (B, S) as if they were (queries, keys). Where B differs "
            "from L that is an error; where they agree it is silent and wrong.",
            {"axes": "rows"},
        ),
        Mistake(
            "as_heads",
            "The mask meets the scores with its B where the heads are: one new axis is not enough for (B, H, "
            "L, S). Where B equals H it is silent and wrong.",
            {"axes": "heads"},
        ),
        Mistake(
            "over_queries",
            "The mask lies on the axis of the queries. Padding must not be seen, so it is hidden as a key.",
            {"axes": "queries"},
        ),
        Mistake("queries_too", "You empty the rows of queries too. The mask is about keys, and there may be "
                "more of them than of queries.", {"axes": "both"}),
        *_SCALES,
        Mistake("scale_of_model", "You divide by the root of all heads' width together. Scores are made head "
                "by head, each from d features.", {"scale": "model"}),
        _AXIS,
        _NAN,
        _UNIFORM,
        _OPENED,
        Mistake(
            "half_fill",
            "You hide with a number such as -1e9, and half precision raises: float16 ends at 65504, and a "
            "mask in float32 does not go with values in float16. In the other types a sentence of nothing "
            "but padding gets the average of its padding.",
            {"fill": "lowest", "half": "raises"},
        ),
        *(
            Mistake(
                "added",
                "You add a number such as -1e4 to the hidden scores. In a row that is hidden throughout it "
                "changes no difference, so a sentence of nothing but padding gets its attention back, save "
                f"for rounding{further}. Replace scores, and treat the empty row.",
                {"fill": "added", "half": half},
            )
            for half, further in (
                ("float32", ""),
                ("raises", "; and in half precision your function raises, for a mask in float32 does not go "
                 "with values in float16"),
            )
        ),
        Mistake(
            "half_nan",
            "A sentence of nothing but padding gives NaN: its exponentials sum to 0, and 0/0 is NaN. And "
            "half precision raises, as where a mask in float32 meets values in float16.",
            {"empty": "nan", "half": "raises"},
        ),
        Mistake(
            "half_opened",
            "Half precision raises: float16 ends at 65504, and a mask in float32 does not go with values in "
            "float16. In the other types a sentence of nothing but padding is attended to after all.",
            {"empty": "opened", "half": "raises"},
        ),
        Mistake(
            "times_infinity",
            "You multiply the mask by infinity. Where it is False, 0 times infinity is NaN, in every row. "
            "Replace the hidden scores instead.",
            {"fill": "times", "half": "raises"},
        ),
        Mistake(
            "half_fill",
            "A fill of -1e9 becomes minus infinity in float16, where a sentence of nothing but padding is "
            "then NaN; in the other types it gets the average of its padding.",
            {"fill": "-1e9", "half": "inf"},
        ),
        Mistake("fill_zero", "The score of your padding is 0: written, multiplied in, or by keys set to 0. A "
                "score of 0 is a score: its exponential is 1.", {"fill": "0"}),
        Mistake(
            "masked_after",
            "You take the padding away after the softmax, or set its values to 0. What is left of a row no "
            "longer sums to 1. Mask the scores.",
            {"fill": "after"},
        ),
        _RAW,
        Mistake("softmax_over_heads", "Your softmax runs over the heads. Each head divides its own attention "
                "over the keys, the last axis.", {"axis": 1}),
        Mistake("causal_too", "You also hide the future. This attention has no causal "
                "mask.", {"causal": True}),
        Mistake("keys_averaged", "You average the keys. Keys decide the weights; values are averaged.",
                {"average": "keys"}),
    ),  # fmt: skip
    "Checked with all sizes different and with the equal ones that hide a wrong axis, with padding on either "
    "side and everywhere, large scores, and in float16, float32 and float64.",
)  # fmt: skip

EXERCISES = (
    Exercise("attention", "08", attention, (), "", "function"),
    Exercise("padded_attention", "08", padded_attention, (), "", "function"),
)

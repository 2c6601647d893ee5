"""Attention under a mask, of lesson 08."""

import numpy as np

from attnlib.exercises.answers import as_floats
from attnlib.exercises.calls import is_tensor
from attnlib.exercises.common import unpacked
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake


def _number(fill, lowest):
    return lowest if fill == "lowest" else float(fill)


def _attention(
    q, k, v, mask=None, *, scale="width", axis=-1, hides=False, rows="given", fill="-inf", clean=None,
    empty="zero", top="row", average="values", order="output first", whole="floats", turn="last two",
    scored="queries, keys", share=True, causal=None, narrow=False, own_type=False, base="e", only=None,
):  # fmt: skip
    square = q.shape[-2] == k.shape[-2]
    if (
        (only in ("square", "square without a mask") and not square)
        or (only in ("without a mask", "square without a mask") and mask is not None)
        or (only == "one key" and k.shape[-2] > 1)
    ):
        return _attention(q, k, v, mask)
    kind, width, values = q.dtype, q.shape[-1], v.shape[-1]
    half = kind == np.float16
    q, k, v = (x.astype(np.float16 if narrow else float) for x in (q, k, v))
    if scored == "first sentence" and k.ndim > 2:
        k = k[:1]
    if turn.startswith("unpacks"):
        unpacked(q.shape, int(turn[-1]))

    def normal(x):
        return x / np.maximum(np.linalg.norm(x, axis=-1, keepdims=True), 1e-300)

    one, other = (normal(q), normal(k)) if scored == "cosine" else {
        "queries, values": (q, v), "keys, queries": (k, q), "queries alone": (q, q),
    }.get(scored, (q, k))  # fmt: skip
    if turn == "reshaped":
        other = other.reshape(*other.shape[:-2], other.shape[-1], other.shape[-2])
    else:
        other = {
            "all": lambda: other.T,
            "one batch axis": lambda: other.transpose(0, 2, 1),
            "batch and heads": lambda: other.transpose(0, 1, 3, 2),
            "last two": lambda: np.swapaxes(other, -1, -2),
        }.get(turn, lambda: np.swapaxes(other, -1, -2))()
    letters = {"2 letters": "", "3 letters": "b", "4 letters": "bh"}.get(turn)
    if letters is None:
        scores = (one.astype(kind) @ other.astype(kind)).astype(float) if own_type else one @ other
    else:
        scores = np.einsum(f"{letters}qd,{letters}dk->{letters}qk", one, other)
    factor = {
        "width": width**-0.5, "none": 1, "linear": 1 / width, "times": width**0.5, "values": values**-0.5,
        "keys": k.shape[-2] ** -0.5, "queries": q.shape[-2] ** -0.5, "second": q.shape[1] ** -0.5,
        "first": q.shape[0] ** -0.5, "after": 1, "root cut off": 1 / int(width**0.5), "8": 1 / 8,
        "all heads": (width * (q.shape[1] if q.ndim > 3 else 1)) ** -0.5, "floored": width**-0.5,
    }[scale]  # fmt: skip
    scores = scores * factor
    if scale == "floored":
        scores = np.floor(scores)
    if whole == "scores" and kind.kind in "iu":
        scores = np.trunc(scores)
    if rows == "turned" and mask is not None:
        mask = np.swapaxes(np.broadcast_to(mask, scores.shape), -1, -2)
    elif rows == "head axis" and mask is not None and mask.ndim == 3:
        mask = mask[:, None]
    elif rows == "two more axes" and mask is not None:
        mask = mask[None, None]
    elif rows == "last" and mask is not None:
        mask = np.broadcast_to(mask, scores.shape)[..., -1:, :]
    elif rows == "unless all" and mask is not None and not mask.any():
        mask = None
    visible = np.ones(scores.shape, bool) if mask is None or fill == "ignored" else mask != hides
    if causal:
        gap = scores.shape[-1] - scores.shape[-2] if causal == "end" else 0
        visible = visible & np.tril(np.ones(scores.shape[-2:], bool), gap)
    if empty == "opened":
        visible = visible | ~visible.any(-1, keepdims=True)
    lowest = np.finfo(scores.dtype).min
    if fill in ("after", "raw"):
        masked = scores
    elif fill == "add":
        masked = scores + np.where(visible, 0, -1e9).astype(scores.dtype)
    elif fill == "plus":
        masked = scores + (0 if mask is None else visible)
    elif fill == "index":
        masked = scores.copy()
        masked[~mask if mask is not None else ~visible] = -np.inf
    elif fill == "if":
        masked = np.where(visible, scores, -np.inf) if mask is None or mask else scores
    elif fill == "times":
        masked = scores + (0 if mask is None else np.where(visible, np.nan, -np.inf))
    else:
        number = np.array(_number({"ignored": "0"}.get(fill, fill), lowest)).astype(scores.dtype)
        masked = np.where(visible, scores, number)
    if top == "clipped":
        masked = np.where(np.isinf(masked), masked, np.clip(masked, -50, 50))
    if top in ("none", "clipped"):
        shift = 0
    elif top == "mean":
        shift = np.where(visible, scores, 0).mean(axis, keepdims=True)
    elif top == "at least 0":
        shift = np.maximum(masked.max(axis, keepdims=True), 0)
    elif top == "column":
        shift = masked.max(-2, keepdims=True)
    else:
        shift = masked.max() if top == "all" else masked.max(axis, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, np.zeros_like(shift))
    e = np.exp(masked - shift) if base == "e" else 2.0 ** (masked - shift)
    if base == "none":
        e = np.where(visible, scores, 0)
    if fill == "raw":
        e = e * visible
    total = e.sum(axis, keepdims=True) if share else np.ones_like(e[..., :1])
    mended = np.where(total == 0, np.ones_like(total), total)
    added = share if isinstance(share, float) else 0
    weights = e / (
        added + (total if empty == "nan" or empty == "nan unless all" and visible.any() else mended)
    )
    if scale == "after":
        weights = weights / width**0.5
    seen = visible.any(-1, keepdims=True)
    if clean == "nan":
        weights = np.nan_to_num(weights)
    if fill == "after" or clean in ("hidden", "rows"):
        weights = np.where(seen if clean == "rows" else visible, weights, 0)
    parts = scores if average == "scores" else weights
    out = np.dot(parts, v) if average == "dot" else parts @ (k if average == "keys" else v)
    if clean in ("output", "weights"):
        out = np.where(seen, out, 0) if clean == "output" else out
        weights = np.where(seen, weights, 0) if clean == "weights" else weights
    if half:  # says that half precision is good enough
        out, weights = out.astype(kind), weights.astype(kind)
    elif narrow:
        out, weights = out.astype(float), weights.astype(float)
    if kind.kind in "iu" and whole in ("cut off", "output"):
        out = out.astype(kind)
    if kind.kind in "iu" and whole in ("cut off", "weights"):
        weights = weights.astype(kind)
        out = weights @ v.astype(kind) if whole == "weights" else out
    if order in ("scores", "masked scores"):
        return out, scores if order == "scores" else masked
    if order == "squeezed":
        return np.squeeze(out), np.squeeze(weights)
    if order == "mean of heads":
        return out, weights.mean(1) if weights.ndim == 4 else weights
    return {
        "weights first": (weights, out), "output alone": out, "weights twice": (weights, weights),
    }.get(order, (out, weights))  # fmt: skip


def _attention_cases():
    rng = np.random.default_rng(80)

    def qkv(*lead, n_query=3, n_key=5, width=6, values=2, size=1.0):
        shapes = (*lead, n_query, width), (*lead, n_key, width), (*lead, n_key, values)
        return tuple(rng.normal(size=shape) * s for shape, s in zip(shapes, (size, size, 1), strict=True))

    def whole_numbers(size, kind=int):
        return tuple(rng.integers(-size, size + 1, size=s).astype(kind) for s in ((3, 4), (5, 4), (5, 2)))

    some = np.array([[1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    pads = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]], bool)
    empty = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1]], bool)
    each_head = np.array([[[1, 1, 0, 1]], [[0, 1, 1, 1]], [[1, 0, 0, 1]]], bool)
    one, spread = np.array([[1e3], [1e-3]]), np.array([[1.0], [-1.0], [2.0], [0.5]])
    # Two queries: one reads the extreme feature of the keys, the other an ordinary one.
    two, ordinary = np.eye(2), np.array([0.3, -0.7, 1.6, -1.1])
    low, high, first = (
        np.stack([column, ordinary], 1)
        for column in ([-1e10, -1e10, 0, -5], [50, 0, 1e11, 1e11], [0, 1, 4000, 0])
    )
    two_seen = np.array([[True, True, False, False]])
    huge_value = qkv()
    huge_value[2][2] = 1e15, -1e14
    q, k, v = qkv(2, 4, n_query=3, n_key=3, width=5)
    turned = tuple(np.swapaxes(np.ascontiguousarray(np.swapaxes(x, 1, 2)), 1, 2) for x in (q, k, v))
    half = tuple(x.astype(np.float16) for x in qkv(width=4))
    far = tuple(np.array([[x] * 4 for x in rows], np.float16) for rows in ((200, 0.01), (200, 200, 199)))
    broadcasts = "The mask broadcasts to the scores as it is."
    batched = f"All axes but the last two are left alone. {broadcasts}"
    exact = "A masked weight is exactly 0, whatever the size of the scores."
    nothing = "Its weights and its output are zeros, not NaN."
    return [
        Case("3 queries and 5 keys without a mask", qkv(), hint="The order is: score, scale, softmax, "
             "average."),
        Case("a mask that hides some keys", (*qkv(), some), hint=broadcasts),
        Case("a batch with a padding mask", (*qkv(2, n_key=6), pads[:, None, :]), hint=batched),
        Case("a batch with heads and a mask of shape (B, 1, 1, Lk)",
             (*qkv(2, 3, n_query=4, n_key=6, width=5), pads[:, None, None, :]),
             hint=batched),
        Case("equal sizes and a causal mask", (*qkv(3, 3, n_key=3, width=3, values=3),
                                               np.tril(np.ones((3, 3), bool)))),
        Case("as many queries as keys, without a mask", qkv(2, n_query=4, n_key=4),
             hint="Without a mask every key is seen."),
        Case("6 queries and 4 keys without a mask", qkv(n_query=6, n_key=4, width=3, values=5)),
        Case("a batch with heads and a mask for each head", (*qkv(2, 3, n_query=2, n_key=4), each_head),
             hint=broadcasts),
        Case("a mask of shape (Lk,)", (*qkv(), some[0]), hint=broadcasts),
        Case("one sentence with one head and one query", (*qkv(1, 1, n_query=1), some[None, None, :1]),
             hint="An axis of length 1 is still an axis."),
        Case("a query that may attend to nothing", (*qkv(), empty), hint=nothing),
        Case("a batch with heads in which one sentence is nothing but padding",
             (*qkv(2, 3, n_query=2, n_key=6, width=5), (pads & [[True], [False]])[:, None, None]),
             hint=nothing),
        Case("a mask of shape (Lq, 1)", (*qkv(), some[:, 1:2]), hint=broadcasts),
        Case("a mask that hides everything", (*qkv(), np.zeros((3, 5), bool)), hint=nothing),
        Case("3 queries and one key, hidden from one of them", (*qkv(n_key=1), some[:, :1]), hint=nothing),
        Case("scores of either sign around 1000", (*(x.astype(float) for x in whole_numbers(30)), some),
             hint="Subtract each row's largest visible score before the exponential."),
        Case("one row with large scores and one with small", (one, spread, spread),
             hint="Each row needs its own largest score."),
        Case("scores around -2000",
             (-100 * np.ones((2, 4)), 10 + np.arange(12.0).reshape(3, 4) / 64, spread[:3]),
             hint="The largest score of a row may be far below 0."),
        Case("a masked key whose score is the largest by far",
             (two, first, spread, two_seen),
             hint="Mask before the softmax, so that what is hidden takes no part in it."),
        Case("visible scores of -1e10 and hidden ones near 0",
             (two, low, spread, two_seen), hint=exact),
        Case("visible scores near 0 and a hidden one of 1e11",
             (two, high, spread, two_seen), hint=exact),
        Case("a masked key whose value is 1e15", (*huge_value, some[:1]), hint=exact),
        Case("heads that do not lie side by side in memory", (*turned, np.tril(np.ones((3, 3), bool)))),
        Case("whole numbers", (*whole_numbers(3), some), hint="Compute in a floating type."),
        Case("whole numbers in one byte each", (*whole_numbers(100, np.int8), some),
             hint="A product of bytes does not fit into a byte: convert before you multiply."),
        Case("single precision", (*(x.astype(np.float32) for x in qkv(width=5)), empty)),
        Case("half precision and a query that may attend to nothing", (*half, empty), hint=nothing),
        Case("half precision and scores of 80000", (*far, half[2][:3]),
             hint="float16 ends at 65504: convert before you multiply."),
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
    if not np.isfinite(weights).all() or not weights.any():
        return None
    at = tuple(int(n) for n in np.unravel_index(np.abs(weights).argmax(), weights.shape))
    return f"The weight at index {', '.join(map(str, at))} is {weights[at]:.3g}, and the mask hides it."


def _visible_without_weight(case, value, expected):
    """Whether a key of some weight has none, where the query gives weight to others."""
    weights, wanted = _weights_of(value), _weights_of(expected)
    if weights is None or not np.isfinite(weights).all():
        return None
    lost = np.where((weights == 0) & weights.any(-1, keepdims=True), wanted, 0)
    if lost.max() < 1e-4:
        return None
    at = tuple(int(n) for n in np.unravel_index(lost.argmax(), lost.shape))
    return (f"The weight at index {', '.join(map(str, at))} is 0, and its key is visible: it should be "
            f"{lost[at]:.3g}.")


def _row_sums(case, value, expected):
    if _weights_of(value) is None:
        return None
    sums, wanted = _weights_of(value).sum(-1), _weights_of(expected).sum(-1)
    if not np.isfinite(sums).all():
        return "Some weights are NaN or infinite."
    apart = np.abs(sums - wanted)
    if apart.max() < (5e-3 if case.args[0].dtype == np.float16 else 1e-4):
        return None
    at = np.unravel_index(apart.argmax(), apart.shape)
    return f"The weights of a query sum to {sums[at]:.4g} over the keys, and should sum to {wanted[at]:.3g}."


def _output_of_weights(case, value, expected):
    """Where the weights are right, and the output is not made from them."""
    weights = _weights_of(value)
    if weights is None or not np.allclose(weights, _weights_of(expected), 1e-2, 2e-3):
        return None
    return "The weights are right, and the output is not: it is the weights times the values."


def _coarse(case, value, expected):
    """Whether results that should be finer are numbers of float16."""
    parts = [value] if is_tensor(expected) else value
    for part in parts:
        part = floats(part)
        if part is None or "float16" in str(case.args[0].dtype):
            return None
        with np.errstate(all="ignore"):
            if not np.array_equal(part, part.astype(np.float16)) or not (part % 1).any():
                return None
    return "Your numbers are those of float16, right to three digits only. Where do they become so?"


@np.errstate(all="ignore")
def _nearly_right(case, value, expected):
    pairs = [(value, expected)] if is_tensor(expected) else zip(value, expected, strict=True)
    for part, ours in pairs:
        if type(part) is not type(ours):                   # then that is what is wrong
            return None
        part, ours = floats(part), floats(ours)
        if part is None or not (np.abs(part - ours) <= 0.01 * np.abs(ours).max()).all():
            return None
    return ("Your numbers are right to two or three digits only: is something rounded, or a small number "
            "added?")


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
    Mistake("scale_of_model", "You divide by the root of all heads' width together. Scores are made head "
            "by head, each from d features.", {"scale": "all heads"}),
    Mistake("scale_fixed", "You divide by 8, the root of a width of 64, whatever the width. Read it off the "
            "last axis.", {"scale": "8"}),
    Mistake("root_cut_off", "You cut the root of the width off to a whole number. It is a fraction unless "
            "the width is a square.", {"scale": "root cut off"}),
)  # fmt: skip
_UNIFORM = Mistake(
    "uniform_rows",
    "In a row that is hidden throughout your weights are all equal, as where a large negative number stands "
    "for minus infinity. The query gets the average of exactly what it must not see. Its output is to be 0.",
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
_FILLED = (
    "You write a number such as -1e9 where the mask hides. That is a score like any other: visible scores "
    "below it lose against it, and a row that is hidden throughout becomes uniform."
)
_CLEANED = (
    "You write a number such as -1e9 where the mask hides. Visible scores below it lose against it and the "
    "row comes out empty. Minus infinity loses against every number."
)
_LOSES = (
    "You write a number such as -1e9 where the mask hides. Visible scores below it lose against it, and the "
    "hidden keys get the weight. Minus infinity loses against every number."
)
_ADDED = (
    "You add a small number to the sum of exponentials, and it shows: the weights sum to less than 1. Once "
    "the largest score is subtracted that sum is 0 where all is hidden, and never below 1 elsewhere."
)
_HALF_MENDED = (
    "In a row that is hidden throughout you mend one of the two results and not the other. Both the weights "
    "and the output are to be 0."
)
_WHOLE = (
    "Whole numbers go in and whole numbers come out: the results, or what they are made from, are cut off. "
    "Compute in a floating type."
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
        *(
            Mistake(
                "polarity",
                "You hide where the mask is True, as nn.MultiheadAttention does. Here True means: may "
                f"attend.{more}",
                {"hides": True} | choices,
                convention=not choices,
            )
            for choices, more in (
                ({}, ""),
                # A row that may see everything is then hidden throughout.
                ({"empty": "nan"}, " And a row that is hidden throughout is NaN; its output is to be 0."),
                ({"fill": "lowest"}, " And a row that is hidden throughout sees all; its output is to be 0."),
                ({"fill": "-1e9", "clean": None}, " And a row that is hidden throughout sees all; its output "
                 "is to be 0."),
            )
        ),
        Mistake("mask_ignored", "The mask has no effect. Where it is False the score must lose against all "
                "others.", {"fill": "ignored"}),
        *_SCALES,
        Mistake("scale_of_values", "You divide by the root of the values' width. Scores come from queries "
                "and keys.", {"scale": "values"}),
        Mistake("scale_second_axis", "You read the width off axis 1. It is the last axis, however many there "
                "are.", {"scale": "second"}),
        Mistake("scale_first_axis", "You read the width off axis 0, which counts queries or sentences. It is "
                "the last axis.", {"scale": "first"}),
        Mistake("scale_after", "You scale the weights. Scale the scores, before the softmax.",
                {"scale": "after"}),
        Mistake("scores_rounded_down", "Your scores are rounded down to whole numbers: // divides so. Use /.",
                {"scale": "floored"}),
        _AXIS,
        Mistake("softmax_over_all", "Your softmax runs over queries and keys together: all weights sum to 1, "
                "instead of each row.", {"axis": (-2, -1)}),
        Mistake("softmax_axis_1", "Your softmax runs over axis 1, which holds the keys only where there are "
                "two axes. Count from the end: the keys are axis -1.", {"axis": 1}),
        Mistake("softmax_axis_0", "Your softmax runs over axis 0: queries, or sentences of the batch. The "
                "keys are axis -1.", {"axis": 0}),
        Mistake("not_normalised", "You do not divide the exponentials by their sum.", {"share": False}),
        Mistake("base_two", "Your softmax takes powers of 2. It takes powers of e.", {"base": "two"}),
        *(
            Mistake("epsilon", _ADDED, {"share": number}, rare=True) for number in (1e-1, 1e-2, 1e-3)
        ),
        Mistake("no_exponential", "You divide the scores by their sum. A softmax takes their exponentials "
                "first, which are all above 0.", {"base": "none"}, rare=True),
        _NAN,
        Mistake("nan_rows", "You look for a mask that hides everything. A single query with nothing to "
                "attend to still gives NaN: 0/0. Each row needs the look.", {"empty": "nan unless all"}),
        _UNIFORM,
        _OPENED,
        Mistake("one_key_unmasked", "With a single key you do not look at the mask. It may be hidden.",
                {"fill": "ignored", "only": "one key"}),
        Mistake("all_hidden_skipped", "Where the mask hides everything you leave it out, and all is visible. "
                "Such rows are to be 0.", {"rows": "unless all"}),
        *(
            Mistake("empty_half_mended", _HALF_MENDED, {"clean": part, **how})
            for part in ("output", "weights")
            for how in ({"empty": "nan"}, {"fill": "lowest"})
        ),
        *(
            Mistake(f"fill_1e9{cleaned}", told, {"fill": number, "clean": clean})
            for number in ("-1e9", "-1e4")
            for cleaned, told, clean in (
                ("", _FILLED, None), ("_cleaned", _CLEANED, "hidden"), ("_cleaned", _LOSES, "rows"),
            )
        ),
        Mistake(
            "added_1e9",
            "You add -1e9 where the mask hides. A hidden score of 1e11 is still the largest after that. "
            "Replace it, or add minus infinity.",
            {"fill": "add"},
        ),
        Mistake("added_1e9_cleaned", "You add -1e9 where the mask hides. A hidden score of 1e11 is still the "
                "largest and takes the whole row before you clear it.", {"fill": "add", "clean": "hidden"}),
        Mistake("added_1e9", "You add -1e9 where the mask hides. A hidden score of 1e11 is still the largest "
                "after that.", {"fill": "add", "clean": "rows"}),
        *(
            Mistake("fill_zero", "Where the mask hides, your score is 0, or near it such as 1e-9, written or "
                    "multiplied in. A score of 0 is a score: its exponential is 1.",
                    {"fill": "0", "clean": clean})
            for clean in (None, "hidden", "rows")
        ),
        *(
            Mistake("mask_added", "You add the mask to the scores as it is. True and False are 1 and 0: "
                    "visible keys gain a little, and none is hidden.", {"fill": "plus", "clean": clean})
            for clean in (None, "rows")
        ),
        Mistake("times_infinity", "You multiply the mask by infinity. Where it is 0, that makes NaN. Replace "
                "the hidden scores instead.", {"fill": "times", "empty": "nan"}),
        Mistake("fill_positive_infinity", "You write +inf where the mask hides; what is hidden should lose, "
                "so the sign is wrong.", {"fill": "inf"}),
        _AFTER,
        _RAW,
        *(
            Mistake("mask_transposed", "Your mask is turned: its queries lie on the axis of the keys. Rows "
                    "are queries, columns are keys.", {"rows": "turned", "only": only})
            for only in (None, "square")
        ),
        Mistake("axis_added_to_mask", "You give a mask of three axes one more. Where there are no heads, its "
                "batch then lies on a wrong axis. It broadcasts as it is.", {"rows": "head axis"}),
        Mistake("axis_added_to_mask", "You give the mask axes that the scores have not. It broadcasts as it "
                "is.", {"rows": "two more axes"}, rare=True),
        Mistake("mask_as_index", "You index the scores with the mask. That needs a mask of their full shape; "
                "this one only broadcasts to it.", {"fill": "index"}),
        Mistake("mask_as_condition", "You ask `if mask`, which asks a whole array for one truth value. Ask "
                "whether it is None.", {"fill": "if"}),
        Mistake("one_mask_row", "You use the last row of the mask for all queries. Each query has its own.",
                {"rows": "last"}),
        *(
            Mistake("causal_too", "You also hide the future. Only the mask hides here, and without one "
                    "nothing is hidden.", {"causal": align, "only": only})
            for align in ("start", "end")
            for only in (None, "without a mask", "square without a mask")
        ),
        Mistake("overflow", _OVERFLOW, {"top": "none"}),
        Mistake("overflow_masked_later", _OVERFLOW, {"top": "none", "fill": "raw"}),
        Mistake("clipped", "You clip the scores, which makes unequal scores equal. Subtract each row's "
                "largest instead.", {"top": "clipped"}),
        Mistake("one_shift_for_all", "You subtract the largest score of the whole array. A row far below it "
                "underflows to 0. Each row needs its own.", {"top": "all"}),
        Mistake("shift_of_columns", "You subtract the largest score of each column. What is subtracted must "
                "be the same for a whole row, and its largest.", {"top": "column"}),
        Mistake("shift_of_mean", "You subtract a row's mean. What lies far above the mean still overflows: "
                "subtract the largest.", {"top": "mean"}),
        Mistake("shift_at_least_0", "You subtract the largest score only where it is above 0. A row whose "
                "scores are all far below 0 then underflows to 0.", {"top": "at least 0"}),
        Mistake("keys_averaged", "You average the keys. Keys decide the weights; values are averaged.",
                {"average": "keys"}),
        Mistake("scores_averaged", "Your output is made from the scores and not from the weights.",
                {"average": "scores"}),
        Mistake("scores_from_values", "You score queries against values. Keys are what queries are compared "
                "with; where widths agree it is silent.", {"scored": "queries, values"}),
        Mistake("keys_as_queries", "Your rows are keys and your columns are queries. Each query is a row; "
                "where lengths agree it is silent.", {"scored": "keys, queries"}),
        Mistake("scores_from_queries", "You score queries against queries. Keys are what queries are "
                "compared with.", {"scored": "queries alone"}),
        Mistake("cosine", "You divide queries and keys by their lengths. Long ones are to score higher; "
                "only the root of the width divides.", {"scored": "cosine"}),
        Mistake("first_sentence_keys", "You use the keys of the first sentence for all. Each sentence of a "
                "batch has its own.", {"scored": "first sentence"}),
        Mistake("keys_reshaped", "You reshape the keys to (d, Lk), which mixes them: reshaping keeps the "
                "order in memory. Turn the last two axes round.", {"turn": "reshaped"}),
        Mistake("weights_first", "You return the weights first. The order is output, weights.",
                {"order": "weights first"}),
        *(
            Mistake("scores_returned", "Your second result holds scores. Return the weights, after the "
                    "softmax.", {"order": which})
            for which in ("scores", "masked scores")
        ),
        Mistake("squeezed", "You drop axes of length 1. One query, or one sentence, keeps its axis.",
                {"order": "squeezed"}),
        Mistake("weights_twice", "Both of your results are the weights. The output is the weights times the "
                "values.", {"order": "weights twice"}, rare=True),
        Mistake("output_alone", "You return the output alone. The weights are the second result.",
                {"order": "output alone"}),
        Mistake("heads_averaged", "You average the weights over the heads, as nn.MultiheadAttention returns "
                "them. Here each head keeps its own.", {"order": "mean of heads"}),
        Mistake("two_axes_only", "It works for two axes alone: .T turns round all axes, and an einsum "
                "without an ellipsis names a fixed number of them.", {"turn": "all"}),
        Mistake("one_batch_axis", "You turn the keys round as if there were always three axes. Count from "
                "the end, so that there may be two, three or four.", {"turn": "one batch axis"}),
        *(
            Mistake("two_axes_only", "You count on two axes alone, by two names for a shape or two letters "
                    "of an einsum. There may be a batch and heads before them: count from the end.",
                    {"turn": way}, rare=True)
            for way in ("unpacks 2", "2 letters")
        ),
        *(
            Mistake("one_batch_axis", "You count on three axes, by three names for a shape or three letters "
                    "of an einsum. There may be two, three or four: count from the end.",
                    {"turn": way}, rare=True)
            for way in ("unpacks 3", "3 letters")
        ),
        *(
            Mistake("batch_and_heads_only", "You count on four axes, as if there were always a batch and "
                    "heads. There may be two, three or four: count from the end.", {"turn": way}, rare=True)
            for way in ("unpacks 4", "4 letters", "batch and heads")
        ),
        Mistake("outer_product", "With np.dot every sentence meets every other one. Use @ or np.matmul, "
                "which go through a batch side by side.", {"average": "dot"}),
        *(Mistake("whole_results", _WHOLE, {"whole": part})
          for part in ("cut off", "output", "weights", "scores")),
        *(
            Mistake("own_type", "You multiply in the type of the input. A byte ends at 127 and begins again "
                    "at -128, and float16 ends at 65504. Convert first.",
                    {"own_type": True, "clean": clean})
            for clean in (None, "nan")
        ),
        *(
            Mistake("half_precision", "You compute in half precision, where numbers end at 65504. Larger "
                    "scores are infinite, and their row is lost. Convert first.",
                    {"narrow": True, "clean": clean})
            for clean in (None, "nan")
        ),
    ),  # fmt: skip
    "Checked with and without masks of one to four axes, with queries that may attend to nothing, hidden "
    "keys of any size, scores from 1e-3 to 1e11, whole numbers and half precision. This is "
    "attnlib.attention, and it is what the rest of the course builds on.",
    (_in_torch, _coarse, _visible_without_weight, _row_sums, _hidden_weight, _nearly_right,
     _output_of_weights),
)  # fmt: skip


def _padded_attention(
    q, k, v, key_padding_mask, *, hides=True, axes="keys", scale="width", axis=-1, fill="-inf",
    empty="zero", causal=None, average="values", half="float32", top="row", turn="last two", heads=None,
    clean=None, only=None, added=0,
):  # fmt: skip
    import torch

    sentences, count, queries = q.shape[:3]
    if (
        (only == "square" and queries != k.shape[-2])
        or (only == "heads agree" and sentences not in (1, count))
        or (only == "queries agree" and sentences not in (1, queries))
    ):
        return _padded_attention(q, k, v, key_padding_mask)
    dtype = q.dtype
    if dtype == torch.float16:
        if half == "raises":
            raise RuntimeError("half precision")
        if half == "inf":
            fill, empty = "-inf", "nan"
        q, k, v = q.float(), k.float(), v.float()
    scores = q @ (k.reshape(*k.shape[:2], k.shape[3], k.shape[2]) if turn == "reshaped" else k.mT)
    scores = scores * {
        "8": 1 / 8, "root cut off": 1 / int(q.shape[-1] ** 0.5),
        "width": q.shape[-1] ** -0.5, "none": 1, "linear": 1 / q.shape[-1], "times": q.shape[-1] ** 0.5,
        "keys": k.shape[-2] ** -0.5, "queries": q.shape[-2] ** -0.5,
        "all heads": (q.shape[-1] * q.shape[1]) ** -0.5,
    }[scale]  # fmt: skip
    visible = ~key_padding_mask if hides else key_padding_mask
    keys = visible[:, None, None, :]
    visible = {
        "keys": lambda: keys,
        "nowhere": lambda: torch.ones_like(keys),
        "rows": lambda: visible,
        "heads": lambda: visible[:, None],
        "queries": lambda: visible[:, None, :, None],
        "both": lambda: keys & visible[:, None, :, None],
        "first sentence": lambda: keys[:1],
        "any sentence": lambda: keys.all(0, keepdim=True),
        "tiled": lambda: visible.repeat(count, 1).unflatten(0, (-1, count))[:, :, None],
        "counted": lambda: torch.arange(keys.shape[-1]) < keys.sum(-1, keepdim=True),
        "first shown": lambda: keys | (torch.arange(keys.shape[-1]) == 0),
        "not the last": lambda: keys & (torch.arange(keys.shape[-1]) < keys.shape[-1] - 1),
    }[axes]()
    if causal:
        gap = scores.shape[-1] - scores.shape[-2] if causal == "end" else 0
        visible = visible & torch.ones(scores.shape[-2:], dtype=torch.bool).tril(gap)
    visible = visible.expand(scores.shape)
    seen = visible.any(-1, keepdim=True)
    if empty == "all zero" and not seen.all():
        visible = torch.zeros_like(visible)
    elif empty == "any zero":
        visible = visible & visible.all(-1, keepdim=True)
    if empty == "opened":
        visible = visible | ~visible.any(-1, keepdim=True)
    if fill in ("after", "raw"):
        masked = scores
    elif fill.startswith("added") and dtype != torch.float16:
        masked = scores + torch.where(visible, 0, float(fill.split()[1]))
    elif fill == "plus":
        masked = scores + ~visible
    elif fill == "times":
        masked = torch.full_like(scores, torch.nan)
    else:
        fill = "lowest" if "added" in fill else fill  # a float16 next to -1e4 holds no difference of scores
        masked = torch.where(visible, scores, _number(fill, torch.finfo(scores.dtype).min))
    shift = torch.zeros(()) if top == "none" else masked.amax(axis, keepdim=True)
    e = (masked - torch.where(shift.isfinite(), shift, torch.zeros_like(shift))).exp()
    if fill == "raw":
        e = e * visible
    total = e.sum(axis, keepdim=True)
    nan = empty == "nan" or empty == "nan unless all" and visible.any()
    weights = e / (added + (total if nan else torch.where(total == 0, torch.ones_like(total), total)))
    if fill == "after" or clean:
        weights = weights * (seen if clean == "rows" else visible)
    if average == "weights alone":
        return weights.to(dtype)
    if average == "weights too":
        return (weights @ v).to(dtype), weights
    out = (weights @ (k if average == "keys" else v)).to(dtype)
    if heads == "merged":
        return out.transpose(1, 2).flatten(2)
    return out.transpose(1, 2) if heads == "behind" else out


def _padded_cases():
    import torch

    def case(name, sizes, real, kind=torch.float32, size=1.0, seed=0, hint=""):
        b, h, n, s, d = sizes
        rng = np.random.default_rng(800 + seed)
        arrays = [rng.normal(size=(b, h, m, d)) * f for m, f in ((n, size), (s, size), (s, 1))]
        arrays = [x.round() if size > 1 else x for x in arrays]  # exact in float32, if the width is a square
        q, k, v = (torch.tensor(x).to(kind) for x in arrays)
        return Case(name, (q, k, v, torch.tensor(real) == 0), hint=hint)

    no_part = "What is hidden must take no part in the softmax, whatever its score and its value."
    wins = case("a padded key whose score is the largest by far", (1, 1, 2, 3, 2), [[1, 1, 0]], seed=1,
                hint=no_part)  # fmt: skip
    wins.args[1][..., 2, :] = 1e12 * wins.args[0][..., 0, :]
    low = case("real keys with scores of -1e10", (1, 1, 2, 4, 2), [[1, 1, 0, 0]], seed=6, hint=no_part)
    low.args[0][0, 0] = torch.eye(2)  # one query reads the keys' extreme feature, the other an ordinary one
    low.args[1][0, 0, :2, 0] = -1e10
    value = case("a padded key whose value is 1e15", (2, 1, 3, 4, 5), [[1, 1, 1, 0], [1, 1, 0, 1]], seed=7,
                 hint=no_part)
    value.args[2][0, :, 3], value.args[2][1, :, 2] = 1e15, -1e15
    q, k, v, mask = case("", (2, 3, 4, 5, 6), [[0, 1, 1, 1, 0], [1, 1, 1, 0, 1]], seed=8).args
    turned = tuple(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    return [
        case("a batch of two, padded on the right", (2, 3, 4, 5, 6), [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]],
             hint="The order is: score, scale, hide, softmax, average. Nothing is drawn at random."),
        case("the same sizes with other padding", (2, 3, 4, 5, 6), [[1, 1, 1, 1, 1], [0, 0, 1, 1, 0]], seed=9,
             hint="Padding may stand on either side. Or is something of an earlier call kept?"),
        case("7 queries and 3 keys", (2, 4, 7, 3, 5), [[1, 1, 0], [0, 1, 1]], seed=10),
        case("one sentence, one head, one query", (1, 1, 1, 4, 3), [[0, 1, 1, 0]], seed=11,
             hint="An axis of length 1 is still an axis."),
        case("as many sentences as queries", (3, 2, 3, 4, 5), [[0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]],
             hint="(B, S) meets (B, H, L, S) at the wrong axes unless it is given two more."),
        case("all sizes equal", (3, 3, 3, 3, 3), [[1, 0, 0], [1, 1, 0], [0, 1, 1]],
             hint="When sizes agree, a mask on the wrong axis raises no error."),
        case("as many sentences as heads, as many queries as "
            "keys", (2, 2, 4, 4, 3), [[1, 1, 1, 0], [0, 0, 1, 1]],
             hint="When sizes agree, a mask on the wrong axis raises no error."),
        case("a sentence that is nothing but padding", (2, 2, 3, 4, 5), [[0, 0, 0, 0], [1, 1, 1, 0]],
             hint="Its output is 0."),
        case("nothing but padding", (2, 1, 2, 3, 4), [[0, 0, 0], [0, 0, 0]], seed=12,
             hint="The output is 0."),
        Case("heads that do not lie side by side in memory", (*turned, mask),
             hint=".view needs numbers that lie side by side; .reshape copies where they do not."),
        case("float64 and no padding", (1, 2, 3, 4, 4), [[1, 1, 1, 1]], torch.float64, seed=2,
             hint="Three types are valid: what you make yourself must have the type of q."),
        case("large scores", (2, 2, 3, 5, 4), [[1, 1, 0, 1, 1], [0, 1, 1, 1, 0]], size=20.0, seed=3),
        case("large scores in float64", (1, 2, 2, 3, 4), [[1, 0, 1]], torch.float64, size=40.0, seed=13,
             hint="Subtract each row's largest score before the exponential."),
        wins,
        low,
        value,
        case("half precision", (2, 2, 3, 4, 5), [[1, 1, 0, 0], [1, 1, 1, 1]], torch.float16, seed=4,
             hint="float16 ends at 65504: -1e9 does not exist in it."),
        case("half precision and a sentence that is nothing but padding", (2, 2, 3, 4, 5),
             [[0, 0, 0, 0], [1, 1, 1, 0]], torch.float16, seed=5, hint="Its output is 0."),
    ]  # fmt: skip


def _not_finite(case, value, expected):
    return None if np.isfinite(floats(value)).all() else "There are NaN or infinite numbers."


def _neighbour(case, value, expected):
    """Which sentences of a batch differ, where others are right."""
    apart = ~np.isclose(floats(value), floats(expected), 1e-2, 2e-3).all((1, 2, 3))
    if apart.all() or not apart.any():
        return None
    sentence = int(apart.argmax())
    hidden = np.flatnonzero(case.args[3][sentence].numpy()).tolist()
    padding = f"padding at {', '.join(map(str, hidden))}" if hidden else "no padding"
    return f"Sentence {sentence}, with {padding}, is wrong, and another one is right."


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
        *(
            Mistake(
                "as_rows",
                "The mask meets the scores with its axes (B, S) as if they were (queries, keys). Where B "
                "differs from L that is an error; where they agree it is silent and wrong.",
                {"axes": "rows", "only": only},
            )
            for only in (None, "queries agree")
        ),
        *(
            Mistake(
                "as_heads",
                "The mask meets the scores with its B where the heads are: one new axis is not enough for "
                "(B, H, L, S). Where B equals H it is silent and wrong.",
                {"axes": "heads", "only": only},
            )
            for only in (None, "heads agree")
        ),
        *(
            Mistake("over_queries", "The mask lies on the axis of the queries. Padding must not be seen, so "
                    "it is hidden as a key.", {"axes": "queries", "only": only})
            for only in (None, "square")
        ),
        *(
            Mistake("queries_too", "You empty the rows of queries too. The mask is about keys, and there may "
                    "be more of them than of queries.", {"axes": "both", "only": only})
            for only in (None, "square")
        ),
        *_SCALES,
        _AXIS,
        _NAN,
        _UNIFORM,
        _OPENED,
        *(
            Mistake(
                "half_fill",
                "You hide with a number such as -1e9, and half precision raises: float16 ends at 65504, and "
                "a mask in float32 does not go with values in float16. In the other types a sentence of "
                "nothing but padding gets the average of its padding.",
                {"fill": number, "half": "raises"},
            )
            for number in ("lowest", "-1e9")
        ),
        *(
            Mistake(
                "added",
                "You add a number such as -1e4 to the hidden scores. In a row that is hidden throughout it "
                "changes no difference, so a sentence of nothing but padding gets its attention back, save "
                f"for rounding{further}. Replace scores, and treat the empty row.",
                {"fill": number, "half": half},
            )
            for number in ("added -1e4", "added -1e9")
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
        *(
            Mistake(
                "half_opened",
                "Half precision raises: float16 ends at 65504, and a mask in float32 does not go with values "
                "in float16. In the other types a sentence of nothing but padding is attended to after all.",
                {"empty": "opened", "half": "raises", "fill": number},
            )
            for number in ("-inf", "-1e9")
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
        *(
            Mistake(f"fill_1e9{cleaned}", told, {"fill": number, "clean": clean})
            for number in ("-1e9", "-1e4", "-100")
            for cleaned, told, clean in (
                ("", _FILLED, None), ("_cleaned", _CLEANED, "hidden"), ("_cleaned", _LOSES, "rows"),
            )
        ),
        *(
            Mistake("half_fill_cleaned", "You hide with a number such as -1e9, which float16 does not hold, "
                    "and visible scores below it lose against it. Minus infinity exists in every type.",
                    {"fill": "-1e9", "clean": clean, "half": "raises"})
            for clean in ("hidden", "rows")
        ),
        *(
            Mistake("added", "You add a number such as -1e9 to the hidden scores. A hidden score far above "
                    "the visible ones is still the largest after that. Replace it.",
                    {"fill": number, "clean": clean})
            for number in ("added -1e4", "added -1e9")
            for clean in ("hidden", "rows")
        ),
        *(
            Mistake("mask_added", "You add the mask to the scores as it is. True and False are 1 and 0: "
                    "padding gains a little, and nothing is hidden.", {"fill": "plus", "clean": clean})
            for clean in (None, "rows")
        ),
        *(
            Mistake("fill_zero", "The score of your padding is 0: written, multiplied in, or by keys set to "
                    "0. A score of 0 is a score: its exponential is 1.", {"fill": "0", "clean": clean})
            for clean in (None, "hidden", "rows")
        ),
        Mistake(
            "masked_after",
            "You take the padding away after the softmax, or set its values to 0. What is left of a row no "
            "longer sums to 1. Mask the scores.",
            {"fill": "after"},
        ),
        _RAW,
        Mistake("overflow", _OVERFLOW, {"top": "none"}),
        Mistake("overflow_masked_later", _OVERFLOW, {"top": "none", "fill": "raw"}),
        Mistake("nan_rows", "You look for a batch that is nothing but padding. A single such sentence still "
                "gives NaN: 0/0. Each sentence needs the look.", {"empty": "nan unless all"}),
        Mistake("any_for_all", "Sentences with any padding come out as 0. Only those are to be 0 that hold "
                "nothing else.", {"empty": "any zero"}),
        Mistake("all_zero", "Where one sentence is nothing but padding, all outputs are 0. The others have "
                "real keys.", {"empty": "all zero"}),
        *(
            Mistake("sentences_alike", "You hide the same places in every sentence, those of the first or of "
                    "all together. Each sentence has its own padding.", {"axes": which})
            for which in ("first sentence", "any sentence")
        ),
        Mistake("sentences_swapped", "You repeat the mask for the heads in the wrong order, so that a head "
                "gets the padding of another sentence. Sentences come first, then heads.", {"axes": "tiled"}),
        Mistake("counted", "You count the real keys and show that many from the left. Padding may stand on "
                "the left as well.", {"axes": "counted"}),
        Mistake("last_key_hidden", "The last key is hidden in every sentence, also where it is real.",
                {"axes": "not the last"}),
        Mistake("first_key_shown", "The first key is shown in every sentence, also where it is padding, as "
                "on the left.", {"axes": "first shown"}, rare=True),
        *(
            Mistake("epsilon", _ADDED, {"added": number}, rare=True) for number in (1e-1, 1e-2, 1e-3)
        ),
        Mistake("softmax_over_sentences", "Your softmax runs over the sentences of the batch. It runs over "
                "the keys, the last axis.", {"axis": 0}),
        Mistake("keys_reshaped", "You reshape the keys to (d, S), which mixes them: reshaping keeps the "
                "order in memory. Turn the last two axes round.", {"turn": "reshaped"}),
        Mistake("weights_returned", "You return the weights. The output is the weights times the values.",
                {"average": "weights alone"}),
        Mistake("weights_too", "You return the weights too, as nn.MultiheadAttention does. Return the output "
                "alone.", {"average": "weights too"}),
        Mistake("heads_merged", "You merge the heads. Here they stay apart: (B, H, L, d).",
                {"heads": "merged"}),
        Mistake("heads_behind", "Your heads lie behind the queries. The order is (B, H, L, d).",
                {"heads": "behind"}),
        Mistake("softmax_over_heads", "Your softmax runs over the heads. Each head divides its own attention "
                "over the keys, the last axis.", {"axis": 1}),
        *(
            Mistake("causal_too", "You also hide the future. This attention has no causal mask.",
                    {"causal": align})
            for align in ("start", "end")
        ),
        Mistake("keys_averaged", "You average the keys. Keys decide the weights; values are averaged.",
                {"average": "keys"}),
    ),  # fmt: skip
    "Checked with all sizes different and with the equal ones that hide a wrong axis, with padding on either "
    "side and everywhere, large scores, and in float16, float32 and float64.",
    (_not_finite, _coarse, _nearly_right, _neighbour),
)  # fmt: skip

_ATTENTION_SOLUTION = """
import numpy as np

def attention(q, k, v, mask=None):
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))   # whole numbers and float16 too
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    largest = np.where(np.isfinite(largest), largest, 0)             # a row that is hidden throughout
    e = np.exp(scores - largest)
    total = e.sum(axis=-1, keepdims=True)
    weights = e / np.where(total == 0, 1, total)
    return weights @ v, weights
"""

_PADDED_SOLUTION = """
import torch

def padded_attention(q, k, v, key_padding_mask):
    hidden = key_padding_mask[:, None, None, :]           # (B, 1, 1, S), True = padding
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    scores = scores.masked_fill(hidden, float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(hidden, 0)              # a row of NaN becomes zeros
    return weights @ v
"""

EXERCISES = (
    Exercise("attention", "08", attention, (
        "Write the shape behind each step: scores, mask, weights, output. On which axis lie the keys, "
        "counted from the end?",
        "Hide before the softmax: a hidden score must lose against every number, also -1e10. Which number "
        "does? And what is then the largest score of a row that is hidden throughout?",
        "Convert to a floating type; score and scale; put minus infinity where the mask is False; subtract "
        "each row's largest score, or 0 where that is not finite; divide the exponentials by their sum, or "
        "by 1 where that is 0.",
    ), _ATTENTION_SOLUTION, "function"),
    Exercise("padded_attention", "08", padded_attention, (
        "The mask has shape (B, S), the scores (B, H, L, S). Where must B and S stand so that they meet "
        "their own axes? And is it True where a key is seen, or where it is hidden?",
        "Fill the scores where the mask is True, with minus infinity: it exists in float16 too, and -1e9 "
        "does not. What does the softmax make of a row with nothing else?",
        "Give the mask an axis for heads and one for queries, fill the scores with minus infinity, take the "
        "softmax over the last axis, write 0 over the hidden weights (and so over NaN), and average the "
        "values.",
    ), _PADDED_SOLUTION, "function"),
)

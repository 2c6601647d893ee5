"""The slopes of a softmax, forward as a table and backward without it: two exercises of lesson 07."""

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.answers import as_floats
from attnlib.exercises.calls import memory
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right

_BATCH = "Any number of axes may stand before the last, and each row is by itself."
_SEVERAL = f"One row is right, and a batch is not. {_BATCH}"              # said where these fail first
_TWO_AXES = f"One axis before the last is right, and two are not. {_BATCH}"
_THREE_AXES = f"Two axes before the last are right, and three are not. {_BATCH}"
_ONE_OF_ONE = "A batch may hold a single row; its axis, of length 1, stays in the result."
_IN_MEMORY = "The rows lie apart in memory here. A result must not depend on that."
_AGAIN = ("Only the numbers are new here. Does something remain from an earlier call? Or was the "
          "first result right by chance?")
_FEW_DIGITS = ("Your numbers keep about three digits, as half precision does. Compute in 32 or 64 bits, and "
               "round nothing.")
_SUBTRACT = "Subtract each row's largest score before the exponential; it cancels in the quotient."


# ------------------------------------------------------------------- the table


def _p(z, *, shift="max", over="row", keep=True, base=None, cooled=False, norm="sum", of="scores"):
    """The softmax of `softmax_jacobian`, or a wrong one."""
    scores = _floating(z)
    z = {
        "scores": lambda: scores,
        "minus scores": lambda: -scores,
        "weights": lambda: _p(scores),
        "half precision": lambda: scores.astype(np.float16),
    }[of]()
    if base:
        z = z * np.log(base)
    if cooled:
        z = z / np.sqrt(z.shape[-1])
    axis = {"row": -1, "first": 0, "second_last": -2 if z.ndim > 1 else -1, "second": 1, "all": None}[over]
    kept = keep and axis is not None
    if norm == "sigmoid":
        return 1 / (1 + np.exp(-z))
    if shift == "clip":
        z = np.clip(z, -50, 50)
    elif shift not in ("none", "patched"):
        z = z - {
            "max": lambda: z.max(axis=axis, keepdims=kept),
            "array's": lambda: z.max(),
            "mean": lambda: z.mean(axis=axis, keepdims=kept),
            "min": lambda: z.min(axis=axis, keepdims=kept),
        }[shift]()
    e = np.exp(z)
    if norm == "none":
        return e
    p = e / (e.sum(axis=axis, keepdims=kept) + (0 if norm == "sum" else norm))
    return np.nan_to_num(p) if shift == "patched" else p


def _floating(x):
    x = np.asarray(x)
    return x if x.dtype.kind == "f" else x.astype(float)


def _whole_batch(table):
    """The slopes of every weight in every score of the batch, (..., n, ..., n), as autograd gives them."""
    lead, n = table.shape[:-2], table.shape[-1]
    rows = table.reshape(-1, n, n)
    made = np.zeros((len(rows), n, len(rows), n))
    for r, row in enumerate(rows):
        made[r, :, r] = row
    return made.reshape(*lead, n, *lead, n)


_BATCHES = {
    "rows": lambda t: t,
    "summed": lambda t: t.sum(tuple(range(t.ndim - 2))),
    "averaged": lambda t: t.mean(tuple(range(t.ndim - 2))),
    "divided": lambda t: t / np.prod(t.shape[:-2]),
    "divided by the first": lambda t: t / len(t),
    "first": lambda t: t.reshape(-1, *t.shape[-2:])[0],
    "first for all": lambda t: np.broadcast_to(t.reshape(-1, *t.shape[-2:])[0], t.shape),
    "last": lambda t: np.moveaxis(t, (-2, -1), (0, 1)),
    "mixed": lambda t: np.moveaxis(t, (-2, -1), (0, 1)).reshape(t.shape),
    "flat": lambda t: t.reshape(-1, *t.shape[-2:]),
    "flat beyond one": lambda t: t.reshape(-1, *t.shape[-2:]) if t.ndim > 3 else t,
    "all with all": _whole_batch,
    "squeezed": lambda t: t.squeeze(),
    "one unwrapped": lambda t: t[0] if t.ndim > 2 and len(t) == 1 else t,
}


def _jacobian(z, *, form="right", batch="rows", uses="p", integer=False, step=0.0, divided=False, **how):
    """`softmax_jacobian`, or a wrong way of computing it."""
    p = _p(z, **how) if uses == "p" else np.asarray(z).astype(float)
    n = p.shape[-1]
    eye = np.eye(n, dtype=p.dtype)
    diag = p[..., :, None] * eye
    outer = p[..., :, None] * p[..., None, :]
    table = {
        "right": lambda: diag - outer,
        "in one product": lambda: p[..., :, None] * (eye - p[..., None, :]),
        "diagonal_only": lambda: diag - outer * eye,
        "vector": lambda: p * (1 - p),
        "no_outer": lambda: diag,
        "outer_only": lambda: -outer,
        "plain_outer": lambda: outer,
        "plus": lambda: diag + outer,
        "negative": lambda: outer - diag,
        "off_plus": lambda: (diag - outer) * (2 * eye - 1),
        "diagonal_p": lambda: diag - outer * (1 - eye),
        "one_for_delta": lambda: p[..., :, None] - outer,
        "lower": lambda: np.tril(diag - outer),
        "upper": lambda: np.triu(diag - outer),
        "squares": lambda: diag - (p * p)[..., None, :],
        "squares_across": lambda: diag - (p * p)[..., :, None],
        "one_row": lambda: np.diag(p) - np.outer(p, p),
        "one_batch_axis": lambda: p[:, :, None] * (eye - p[:, None, :]),
        "letters": lambda: np.einsum("bi,ij->bij", p, eye) - np.einsum("bi,bj->bij", p, p),
        "eye_of_batch": lambda: p[..., :, None] * (np.eye(len(p)) - p[..., None, :]),
        "eye_of_four": lambda: p[..., :, None] * (np.eye(4) - p[..., None, :]),
        "scalar": lambda: np.diag(p) - p @ p.T,
        "scalar_rows": lambda: diag - (p * p).sum(-1)[..., None, None],
        "flat": lambda: np.diag(p.ravel()) - np.outer(p, p),
        "log_softmax": lambda: eye - p[..., None, :] + 0 * diag,
        "log_softmax_turned": lambda: eye - p[..., :, None] + 0 * diag,
        "identity_minus": lambda: eye - outer,
        "p_minus_identity": lambda: p[..., :, None] * (p[..., None, :] * 0 + 1) - eye,
        "off_diagonal_only": lambda: -outer * (1 - eye),
        "one_minus_p": lambda: (1 - p)[..., :, None] * eye - outer * (1 - eye),
        "p": lambda: p,
        "sums": lambda: 0 * p,
        "sums_table": lambda: 0 * diag,
    }[form]()
    if step:
        z, p = z.astype(float), _p(z.astype(float), **how)
        table = np.stack([(_p(z + step * eye[j], **how) - p) / step for j in range(n)], -1)
    table = _BATCHES[batch](table / n if divided else table)
    kind = np.asarray(z).dtype
    return np.trunc(table).astype(kind) if integer and kind.kind in "iu" else table


def _jacobian_cases():
    rng = np.random.default_rng(70)
    return [
        Case("one row of three scores, shape (3,)", (np.array([0.5, -1.0, 2.0]),)),
        Case("another row of three scores", (np.array([-0.7, 0.4, 0.1]),), hint=_AGAIN),
        Case("a batch of shape (2, 4)", (rng.normal(size=(2, 4)),), hint=_SEVERAL),
        Case("a batch of shape (2, 3, 5)", (rng.normal(size=(2, 3, 5)),), hint=_TWO_AXES),
        Case("a batch of shape (3, 1, 2, 4)", (rng.normal(size=(3, 1, 2, 4)),), hint=_THREE_AXES),
        Case("a batch of one row, shape (1, 5)", (rng.normal(size=(1, 5)),), hint=_ONE_OF_ONE),
        Case("a batch of shape (4, 4), in which axes are easily confused", (rng.normal(size=(4, 4)),)),
        Case("a batch of shape (3, 2, 5), not contiguous",
             (rng.normal(size=(2, 5, 3)).transpose(2, 0, 1),), hint=_IN_MEMORY),
        Case("whole numbers", (np.array([[2, 0, 1], [0, 0, 3]]),)),
        Case("scores in 32 bits", (rng.normal(size=(3, 7)).astype(np.float32),)),
        Case("a single key", (np.array([[3.0], [-1.0]]),), hint="Its weight is 1 and stays 1: a slope of 0."),
        Case("the scores 1000, 999 and 0", (np.array([1000.0, 999.0, 0.0]),), hint=_SUBTRACT),
        Case("scores near -1000", (np.array([[-1000.0, -1001.0, -999.5], [0.0, 1.0, 2.0]]),), hint=_SUBTRACT),
        Case("scores of 60 and 58", (np.array([60.0, 58.0, 0.0]),), hint=_SUBTRACT),
        Case("the scores 5000, 4999 and -3000", (np.array([5000.0, 4999.0, -3000.0]),), hint=_SUBTRACT),
        Case("a row of nine scores", (rng.normal(size=9),)),
    ]


def _numbers(value):
    """The result in float64, or None where it is no array of real numbers."""
    return as_floats(value) if isinstance(value, np.ndarray) else None


@np.errstate(all="ignore")
def _not_a_number(case, value, expected):
    value = _numbers(value)
    if value is not None and not np.isfinite(value).all():
        return "The result is not finite, though all that goes in is:"
    return None


@np.errstate(all="ignore")
def _nearly_right(case, value, expected):
    value, largest = _numbers(value), np.abs(expected).max()
    if value is not None and (np.abs(value - expected) < 0.1 * largest).all():
        if np.array_equal(value, value.astype(np.float16)) and (value % 1).any():
            return "The numbers are those of half precision, right to about three digits:"
        return ("The result is near the right one only. Something is rounded, in half precision, has a "
                "small number added, or is a difference with too coarse or too fine a step:")
    return None


@np.errstate(all="ignore")
def _proportional(case, value, expected):
    value = _numbers(value)
    if value is None:
        return None
    ratio = (value * expected).sum() / (expected * expected).sum()
    if ratio != 0 and np.allclose(value, ratio * expected, rtol=1e-4, atol=1e-6):
        return f"Every entry is {ratio:.4g} times what it should be. Which factor is that?"
    return None


@np.errstate(all="ignore")
def _rows_sum_to_zero(case, value, expected):
    value = _numbers(value)
    if value is not None and not (np.abs(value.sum(-1)) < 1e-2).all():
        return "A row does not sum to 0, so adding the same number to all scores would change the weights:"
    return None


@np.errstate(all="ignore")
def _symmetric(case, value, expected):
    value = _numbers(value)
    if value is not None and not np.allclose(value, np.swapaxes(value, -1, -2), atol=1e-3):
        return "The table is not symmetric, and -p_i p_j is:"
    return None


@np.errstate(all="ignore")
def _first_row_only(case, value, expected):
    value = _numbers(value)
    if value is None or case.args[0].ndim < 2 or len(expected) < 2 or not len(expected[0].ravel()):
        return None
    right_rows = [np.allclose(a, b, rtol=1e-4, atol=1e-6) for a, b in zip(value, expected, strict=True)]
    if right_rows[0] and not any(right_rows[1:]):
        return "The first of the batch is right and all others are wrong:"
    return None


_SOFTMAX = (
    *(
        Mistake("unstable", "The exponential of a large score overflows, and inf/inf is NaN. " + _SUBTRACT,
                {"shift": shift})
        for shift in ("none", "mean", "min", "patched")
    ),
    Mistake("clipped", "You clip the scores, which makes unequal scores equal. " + _SUBTRACT,
            {"shift": "clip"}),
    Mistake("one_maximum",
            "You subtract the largest score of the whole array, so a much lower row becomes 0/0. "
            "Each row needs its own maximum.", {"shift": "array's"}),
    Mistake("softmax_of_all",
            "Your softmax sums over the whole array, so rows of a batch mix. Each row sums to "
            "one by itself.", {"over": "all"}),
    Mistake("softmax_over_batch",
            "Your softmax runs along the first axis, the batch. The keys are the last axis.",
            {"over": "first"}),
    Mistake("softmax_second_last",
            "Your softmax runs along the axis before the last. The keys are the last axis.",
            {"over": "second_last"}),
    Mistake("softmax_axis_one",
            "Your softmax runs along axis 1, which is the keys only where there is exactly "
            "one batch axis. The last axis is -1.", {"over": "second"}),
    Mistake("softmax_no_keepdims",
            "The sums of your softmax lose their axis and are then spread along the wrong "
            "one. Keep the axis, with length 1.", {"keep": False}),
    Mistake("minus_scores",
            "There is a minus sign in your exponential: the lowest score gets the largest weight.",
            {"of": "minus scores"}),
    Mistake("softmax_twice", "You take the softmax of the softmax. The weights are the softmax of z, once.",
            {"of": "weights"}),
    Mistake("base_two", "Your exponential has base 2; the softmax's has base e.", {"base": 2}),
    Mistake("scaled_scores", "You divide the scores by the root of their number. That scale belongs to dot "
            "products, before a softmax; this one takes z as it is.", {"cooled": True}),
    Mistake("not_normalised", "You use the exponentials without dividing by their sum.", {"norm": "none"}),
    *(
        Mistake("epsilon",
                "You add a small number to the sum of exponentials, and it shows. That sum is never "
                "below 1 once the largest score is subtracted; nothing need be added.", {"norm": epsilon})
        for epsilon in (1e-1, 1e-2, 1e-3)
    ),
    Mistake("sigmoid", "You put each score through a sigmoid. The weights of a softmax share one sum.",
            {"norm": "sigmoid"}),
    Mistake("few_digits", _FEW_DIGITS, {"of": "half precision"}),
)  # fmt: skip

softmax_jacobian = FunctionExercise(
    compute=_jacobian,
    cases=_jacobian_cases,
    mistakes=(
        Mistake("diagonal_only", "The slopes beside the diagonal are missing. When one score rises the other "
                "weights fall.", {"form": "diagonal_only"}),
        Mistake("sigmoid_derivative",
                "p (1 - p) is a slope for each weight in its own score, as for a sigmoid. "
                "The other scores move it too: the result is a table.", {"form": "vector"}),
        Mistake("no_outer",
                "You return p on the diagonal and nothing is subtracted. What does the sum in the "
                "denominator do?", {"form": "no_outer"}),
        *(
            Mistake("outer_only",
                    "Only the part from the denominator is there. A weight's own numerator also "
                    "moves with its score.", {"form": form})
            for form in ("outer_only", "plain_outer")
        ),
        Mistake("plus_outer", "You add the outer product. When one score rises the other weights must fall.",
                {"form": "plus"}),
        Mistake("negative", "The whole table has the wrong sign: a weight should rise with its own score.",
                {"form": "negative"}),
        Mistake("off_diagonal_sign",
                "The slopes beside the diagonal have the wrong sign: when one score rises "
                "the other weights fall.", {"form": "off_plus"}),
        Mistake("diagonal_p", "Your diagonal holds p_i, and p_i squared is not subtracted from it. A weight "
                "stands in its own denominator too.", {"form": "diagonal_p"}),
        Mistake("delta_forgotten", "You have p_i (1 - p_j) everywhere. The 1 belongs to the diagonal alone, "
                "where i = j; elsewhere it is 0.", {"form": "one_for_delta"}),
        *(
            Mistake("half_a_table", "One side of the diagonal is empty. The table is symmetric: fill both.",
                    {"form": form})
            for form in ("lower", "upper")
        ),
        *(
            Mistake("squares_not_outer", "You subtract squares of weights everywhere. What is wanted is p_i "
                    "times p_j for every pair, a table.", {"form": form})
            for form in ("squares", "squares_across")
        ),
        Mistake("one_row",
                "One row is right, and a batch is not: functions such as np.diag and np.outer know "
                "no batch axes. Build the table along two new last axes.", {"form": "one_row"}),
        *(
            Mistake("one_batch_axis",
                    "A batch with exactly one axis before the keys is right, and nothing else. "
                    "Let ... stand for all axes before the last, be they none or three.", {"form": form})
            for form in ("one_batch_axis", "letters")
        ),
        Mistake("eye_of_batch", "Your identity is as large as the first axis, the batch. The table has a row "
                "and a column for each key.", {"form": "eye_of_batch"}),
        Mistake("eye_of_four",
                "Your identity has a fixed size. The table has a row and a column for each key, "
                "however many there are.", {"form": "eye_of_four"}),
        Mistake("inner_not_outer", "For a vector, p @ p.T is one number, the sum of squares, since .T does "
                "nothing to it. What is wanted is p_i times p_j for every pair.", {"form": "scalar"}),
        Mistake("inner_not_outer_rows", "You subtract the sum of squares, one number for each row. What is "
                "wanted is p_i times p_j for every pair.", {"form": "scalar_rows"}),
        Mistake("batch_flattened",
                "The batch is flattened into one long row, so weights of different rows meet "
                "in one table. Each row has a table of its own.", {"form": "flat"}),
        Mistake("batch_summed",
                "You add the tables of the batch. The result has shape (..., n, n): one table "
                "for each row.", {"batch": "summed"}),
        Mistake("batch_averaged",
                "You average the tables of the batch. The result has shape (..., n, n): one "
                "table for each row.", {"batch": "averaged"}),
        *(
            Mistake("divided_by_batch",
                    "You divide by the number of rows. A slope of a weight knows of no other "
                    "row.", {"batch": batch})
            for batch in ("divided", "divided by the first")
        ),
        Mistake("first_of_batch", "You return the table of the batch's first row alone.", {"batch": "first"}),
        Mistake("first_of_batch",
                "Every row of the batch gets the table of the first. Each row has weights, and "
                "slopes, of its own.", {"batch": "first for all"}),
        Mistake("batch_axes_last", "The axes of the batch come last in your result. They stay in front: "
                "(..., n, n).", {"batch": "last"}),
        Mistake("batch_mixed",
                "You have the shape and not the order: the table's axes were built in front, and "
                "a reshape does not carry them to the end. Axes are exchanged by a transpose.",
                {"batch": "mixed"}),
        *(
            Mistake("batch_axes_merged",
                    "You merge all axes of the batch into one. Give the result the shape of "
                    "z with one more n.", {"batch": batch})
            for batch in ("flat", "flat beyond one")
        ),
        Mistake("all_with_all",
                "You return the slopes of every row's weights in every other row's scores, and "
                "nearly all of them are 0. Asked for is one table for each row, (..., n, n).",
                {"batch": "all with all"}),
        *(
            Mistake("squeezed",
                    "You drop axes of length 1. A batch of one row is a batch, and a single key has "
                    "a table of shape (1, 1).", {"batch": batch})
            for batch in ("squeezed", "one unwrapped")
        ),
        Mistake("log_softmax",
                "That is the table of the *logarithms* of the weights. Multiply each row by its "
                "weight.", {"form": "log_softmax"}),
        Mistake("log_softmax_turned", "That is the table of the logarithms of the weights, "
                "transposed. Asked for are the slopes of the weights.", {"form": "log_softmax_turned"}),
        Mistake("identity_for_diag", "You subtract the outer product from 1 on the diagonal. There should be "
                "p_i.", {"form": "identity_minus"}),
        Mistake("cross_entropy_slope", "p - [i = j] is the slope of the cross-entropy. Here the weights "
                "themselves are asked for.", {"form": "p_minus_identity"}),
        Mistake("zero_diagonal", "The diagonal is zero: a weight does move with its own score.",
                {"form": "off_diagonal_only"}),
        Mistake("diagonal_one_minus_p", "The diagonal holds 1 - p_i; a factor p_i is missing.",
                {"form": "one_minus_p"}),
        Mistake("softmax_itself", "You return the weights. Asked for are their slopes, a table for each row.",
                {"form": "p"}),
        *(
            Mistake("slopes_of_the_sum",
                    "Your result is zero: it is the slope of the weights' sum, which stays "
                    "1. Each weight needs a row of slopes for itself.", {"form": form})
            for form in ("sums", "sums_table")
        ),
        Mistake("scores_as_weights", "You use the scores as if they were weights. z has not been through the "
                "softmax yet.", {"uses": "z"}),
        *(
            Mistake("coarse_step",
                    "You push each score by a step that is too long: the weights bend within it. "
                    "The formula needs no step.", {"step": step})
            for step in (1e-1, 1e-2, 1e-3, 1.0)
        ),
        *(
            Mistake("fine_step",
                    "You push each score by a step so short that the weights hardly change: their "
                    "difference is rounding, and the short step makes it large. The formula needs no step.",
                    {"step": step}, rare=True)
            for step in (1e-13, 1e-14, 1e-15, 1e-16)
        ),
        Mistake("divided_by_n", "You divide by the number of keys. Nothing in the derivation is a mean over "
                "them.", {"divided": True}),
        Mistake("integers",
                "For whole numbers your result is whole too, and its fractions are cut off. Compute "
                "in floating point.", {"integer": True}),
        *_SOFTMAX,
        Mistake("few_digits", _FEW_DIGITS, {"of": "half precision", "form": "in one product"}, rare=True),
    ),  # fmt: skip
    properties=(_not_a_number, _nearly_right, _proportional, _first_row_only, _rows_sum_to_zero, _symmetric),
    praise="Checked on one row, on batches of one, two and three axes, on a square batch, on whole numbers, "
    "a single key and scores of thousands. Every row of a table sums to 0.",
)


# ------------------------------------------------------------------- the way back


def _backward(p, g, *, form="right", axis="last", keep=True, uses="p", slopes="g", clip=None, divided=None,
              integer=False, squeezed=False):
    """`softmax_backward`, or a wrong way of computing it."""
    p, g = np.asarray(p), np.asarray(g)
    kind = g.dtype
    p, g = _floating(p), _floating(g)
    p, g = {
        "p": lambda: (p, g),
        "z": lambda: (_p(p), g),
        "swapped": lambda: (g, p),
        "from_logs": lambda: (_p(np.log(p) - np.log(p).mean(-1, keepdims=True)), g),
        "clipped": lambda: (np.clip(p, 0.01, 0.99), g),
        "clipped below": lambda: (np.clip(p, 0.01, None), g),
        "clipped little": lambda: (np.clip(p, 1e-3, 1 - 1e-3), g),
        "half precision": lambda: (p.astype(np.float16), g.astype(np.float16)),
    }[uses]()
    g = {
        "g": lambda: g,
        "softmax": lambda: _p(g),
        "standardised": lambda: (g - g.mean(-1, keepdims=True)) / g.std(-1, keepdims=True),
        "range": lambda: (g - g.max(-1, keepdims=True)) / (np.ptp(g, -1, keepdims=True) + 1e-12),
        "length": lambda: g / np.linalg.norm(g, axis=-1, keepdims=True),
    }[slopes]()
    along = {"last": -1, "first": 0, "second_last": -2 if p.ndim > 1 else -1, "second": 1, "all": None,
             "but_first": tuple(range(1, p.ndim)) or -1, "first_row": -1}[axis]
    leading = tuple(range(p.ndim - 1))

    def total(a):
        if keep == "column":
            return a.sum(axis=along)[:, None]
        if axis == "first_row":
            return a.sum(-1).ravel()[0]
        return a.sum(axis=along, keepdims=keep and along is not None)

    n = p.shape[-1]
    made = {
        "right": lambda: p * (g - total(p * g)),
        "plain_mean": lambda: p * (g - total(g) / n),
        "plain_sum": lambda: p * (g - total(g)),
        "largest": lambda: p * (g - g.max(-1, keepdims=True)),
        "largest_product": lambda: p * (g - (p * g).max(-1, keepdims=True)),
        "no_mean": lambda: p * g,
        "no_weight": lambda: g - total(p * g),
        "no_second_weight": lambda: p * g - total(p * g),
        "diagonal": lambda: p * (1 - p) * g,
        "diagonal_mean": lambda: p * (1 - p) * (g - total(p * g)),
        "others": lambda: p * g - p * (total(p * g) - p * g),
        "plus": lambda: p * (g + total(p * g)),
        "negative": lambda: p * (total(p * g) - g),
        "log_softmax": lambda: g - p * total(g),
        "cross_entropy": lambda: p - g,
        "cross_entropy_turned": lambda: g - p,
        "inner": lambda: p * g - total(p * p) * total(g),
        "inner_g": lambda: p * g - total(p * p) * g,
        "inner_weight": lambda: p * (g - total(p * p)),
        "unweighted_product": lambda: g * (1 - total(p * g)),
        "weight_twice": lambda: p * g - p * p * total(g),
        "squared_mean": lambda: p * (g - total(p * p * g)),
        "squared_weight": lambda: p * p * (g - total(p * g)),
        "ratio": lambda: p * ((p * g) / p - total(p * g)),
        "mean_of_products": lambda: p * (g - total(p * g) / n),
        "zero": lambda: 0 * p,
        "table": lambda: _jacobian(np.log(np.maximum(p, 1e-300))),
        "table_by_g": lambda: _jacobian(np.log(np.maximum(p, 1e-300))) * g[..., None, :],
        "one_row": lambda: (np.diag(p) - np.outer(p, p)) @ g,
        "one_row_dot": lambda: p * (g - np.dot(p, g)),
        "one_row_matmul": lambda: p * (g - p @ g),
        "letters": lambda: p * (g - np.einsum("bi,bi->b", p, g)[:, None]),
        "outer_of_batch": lambda: p * g - np.einsum("bj,ij->bi", g.reshape(-1, n), np.einsum(
            "bi,bj->ij", p.reshape(-1, n), p.reshape(-1, n))).reshape(p.shape),
    }[form]()
    if clip:
        made = np.clip(made, -clip, clip)
    made = made / {
        None: lambda: 1,
        "n": lambda: n,
        "root of n": lambda: np.sqrt(n),
        "batch": lambda: len(p) if p.ndim > 1 else 1,
        "first axis": lambda: len(p),
        "rows": lambda: np.prod([p.shape[i] for i in leading], initial=1),
    }[divided]()
    if squeezed:
        made = made.squeeze()
    return np.trunc(made).astype(kind) if integer and kind.kind in "iu" else made


def _backward_cases():
    rng = np.random.default_rng(71)

    def pair(*shape, dtype=float):
        return softmax(rng.normal(size=shape)).astype(dtype), rng.normal(size=shape).astype(dtype)

    whole, _ = pair(2, 3)
    apart = tuple(a.transpose(2, 0, 1) for a in (softmax(rng.normal(size=(2, 5, 3)), axis=1),
                                                 rng.normal(size=(2, 5, 3))))
    return [
        Case("one row of three weights, shape (3,)", (np.array([0.5, 0.3, 0.2]), np.array([1.0, -2.0, 1.0]))),
        Case("another row of three weights", (np.array([0.1, 0.2, 0.7]), np.array([0.5, 1.5, -1.0])),
             hint=_AGAIN),
        Case("a batch of shape (2, 5)", pair(2, 5), hint=_SEVERAL),
        Case("a batch of shape (2, 3, 4)", pair(2, 3, 4), hint=_TWO_AXES),
        Case("a batch of shape (3, 1, 2, 4)", pair(3, 1, 2, 4), hint=_THREE_AXES),
        Case("a batch of one row, shape (1, 5)", pair(1, 5), hint=_ONE_OF_ONE),
        Case("a batch of shape (4, 4), in which axes are easily confused", pair(4, 4)),
        Case("a batch of shape (3, 3, 3)", pair(3, 3, 3)),
        Case("a batch of shape (3, 2, 5), not contiguous", apart, hint=_IN_MEMORY),
        Case("a g of whole numbers", (whole, np.array([[2, 0, -1], [0, 3, 1]]))),
        Case("32-bit numbers", pair(3, 6, dtype=np.float32)),
        Case("a slope that is the same for all", (np.array([[0.7, 0.2, 0.1]]), np.full((1, 3), 5.0)),
             hint="Adding one number to all of g changes nothing, for the weights always sum to 1."),
        Case("a single key", (np.array([[1.0], [1.0]]), np.array([[3.0], [-2.0]])),
             hint="Its weight is 1 and stays 1: a slope of 0."),
        Case("a sure row and large slopes", (np.array([0.9999, 0.0001, 0.0]), np.array([-300.0, 900.0, 50])),
             hint="A weight may be 0 or nearly 1. Take it as it is, and divide by none."),
        Case("slopes of thousands", (np.array([[0.5, 0.3, 0.2]]), np.array([[4e3, -7e4, 9e5]])),
             hint="A slope may have any size. Leave it as it is."),
    ]


@np.errstate(all="ignore")
def _slopes_sum_to_zero(case, value, expected):
    value = _numbers(value)
    if value is not None and not (np.abs(value.sum(-1)) < 1e-2 * max(1, np.abs(expected).max())).all():
        return "A row does not sum to 0, so a step would move all its scores together, which changes nothing:"
    return None


class _WithoutTable(FunctionExercise):
    """Tells of a table too, by its memory: for a long row it is a thousand times as large as the row."""

    def __call__(self, function):
        verdict = super().__call__(function)
        if not verdict.passed:
            return verdict
        p = np.full(_LONG, 1 / _LONG)
        # Whatever is made once, at a first call, is not there in the second.
        taken = min(memory(function, p, np.cos(np.arange(_LONG))) for _ in range(2))
        if taken < _LONG**2 / 2:
            return verdict
        return right(
            f"{self.praise} The slopes are right, then; \"without the table\" is still open: for one row of "
            f"{_LONG:,} keys your function took {taken / 1e6:.1f} million bytes beside its arguments, "
            f"where a row has {p.nbytes:,}. Each key needs its weight, its slope and one mean of the row."
        )


_LONG = 1000


softmax_backward = _WithoutTable(
    compute=_backward,
    cases=_backward_cases,
    mistakes=(
        Mistake("plain_mean", "You subtract the plain mean of g. The mean must be weighted by p.",
                {"form": "plain_mean"}),
        Mistake("plain_sum", "You subtract the sum of g. It must be the mean weighted by p.",
                {"form": "plain_sum"}),
        *(
            Mistake("largest", "You subtract a largest value. What is subtracted is a sum, the mean of g "
                    "weighted by p; nothing overflows here.", {"form": form})
            for form in ("largest", "largest_product")
        ),
        Mistake("no_mean",
                "Nothing is subtracted: p * g is the diagonal's first part. When one score rises the "
                "other weights fall, and their slopes count too.", {"form": "no_mean"}),
        Mistake("no_weight",
                "The factor p in front is missing: a key without weight would be corrected as much "
                "as any.", {"form": "no_weight"}),
        Mistake("no_second_weight",
                "The sum is subtracted from every key alike. Like the first term it needs "
                "its key's weight as a factor.", {"form": "no_second_weight"}),
        Mistake("diagonal",
                "You have p (1 - p) g, each weight's slope in its own score alone; without its sum, "
                "p (g - p g) is the same. A score moves the other weights as well.", {"form": "diagonal"}),
        Mistake("diagonal_mean",
                "You have the mean and, on top of it, a factor 1 - p, which is one too many.",
                {"form": "diagonal_mean"}),
        Mistake("own_term_left_out",
                "Your sum leaves out the key itself. The mean is over all keys of the row.",
                {"form": "others"}),
        Mistake("plus_mean",
                "You add the weighted mean. The slopes of a row must sum to 0.", {"form": "plus"}),
        Mistake("negative",
                "The sign is turned round: a step downhill would go uphill.", {"form": "negative"}),
        Mistake("log_softmax", "g - p sum(g) is the way back through a log-softmax. Here g belongs to the "
                "weights, not to their logarithms.", {"form": "log_softmax"}),
        *(
            Mistake("cross_entropy", "The difference of p and g is the slope of the cross-entropy, if g were "
                    "the one-hot answer. Here g is any slope in the weights.", {"form": form})
            for form in ("cross_entropy", "cross_entropy_turned")
        ),
        Mistake("inner_not_outer", "The sum of squared weights is one number; the outer product of p with "
                "itself is a table.", {"form": "inner"}),
        *(
            Mistake("inner_times_g", "You subtract the sum of squared weights. The outer product of p with "
                    "itself is a table, not one number, and it meets g in a sum.", {"form": form})
            for form in ("inner_g", "inner_weight")
        ),
        Mistake("g_times", "The factor in front should be p, and what it multiplies a difference of slopes.",
                {"form": "unweighted_product"}),
        Mistake("weight_twice", "The weights stand in the wrong place: they belong under the sum, with g.",
                {"form": "weight_twice"}),
        Mistake("weights_squared",
                "Your mean of g is weighted by the squares of p. Its weights are p itself, "
                "which sum to 1.", {"form": "squared_mean"}),
        Mistake("weights_squared", "The factor in front is the square of p. It is p, once.",
                {"form": "squared_weight"}),
        Mistake("mean_of_products", "You take the mean of p * g. The weights already make it a mean: sum.",
                {"form": "mean_of_products"}),
        Mistake("g_unused",
                "Your result is zero for every g: it is the slope of the weights' sum, which stays 1. "
                "Where does g come in?", {"form": "zero"}),
        *(
            Mistake("table_returned", "You return the table of slopes. It still has to meet g: sum over the "
                    "weights, so that one slope is left for each score.", {"form": form})
            for form in ("table", "table_by_g")
        ),
        Mistake("one_row",
                "One row is right, and a batch is not: functions such as np.diag and np.outer know "
                "no batch axes.", {"form": "one_row"}),
        Mistake("one_row_dot", "One row is right, and a batch is not: np.dot does not work row by row.",
                {"form": "one_row_dot"}),
        Mistake("one_row_matmul",
                "One row is right, and a batch is not: between two tables @ multiplies every "
                "row of one with every column of the other. Each row of p belongs to its own row of g.",
                {"form": "one_row_matmul"}),
        Mistake("batch_in_one_table",
                "You sum the outer products of all rows of the batch into one table. Each "
                "row has a table of its own.", {"form": "outer_of_batch"}),
        Mistake("axis_first", "You sum along the first axis, the batch. The keys are the last axis.",
                {"axis": "first"}),
        Mistake("axis_second_last", "You sum along the axis before the last. The keys are the last axis.",
                {"axis": "second_last"}),
        Mistake("sums_all", "You sum over the whole array, so the rows of a batch mix. Each row has its own "
                "mean.", {"axis": "all", "keep": False}),
        Mistake("sums_all_but_first",
                "You sum over every axis but the first, so with two batch axes rows mix. "
                "The keys are the last axis alone.", {"axis": "but_first"}),
        Mistake("first_of_batch",
                "You subtract the mean of the first row from all rows. Each row has its own.",
                {"axis": "first_row"}),
        Mistake("axis_one",
                "You sum along axis 1, which is the keys only where there is exactly one batch axis. "
                "The last axis is -1.", {"axis": "second"}),
        Mistake("one_batch_axis", "[:, None] puts the axis back only where there is exactly one batch axis. "
                "Keep it in the sum.", {"keep": "column"}),
        Mistake("one_batch_axis",
                "A batch with exactly one axis before the keys is right, and nothing else. Let "
                "... stand for all axes before the last, be they none or three.", {"form": "letters"}),
        Mistake("no_keepdims",
                "The sum loses its axis and is then spread along the wrong one. Keep the axis, "
                "with length 1.", {"keep": False}),
        Mistake("p_as_scores",
                "You put p through a softmax once more. p is the softmax already.", {"uses": "z"}),
        Mistake("swapped", "p and g have changed places.", {"uses": "swapped"}),
        Mistake("softmax_of_g", "You put g through a softmax. g is a slope and may have any sign.",
                {"slopes": "softmax"}),
        *(
            Mistake("normalised_g", "You bring g to a standard size first. A steeper loss must give steeper "
                    "slopes.", {"slopes": slopes})
            for slopes in ("standardised", "range", "length")
        ),
        *(
            Mistake("divides_by_p",
                    "Where a weight is exactly 0 you divide by it or take its logarithm, and the "
                    "result is NaN. The slopes need neither.", choices)
            for choices in ({"form": "ratio"}, {"uses": "from_logs"})
        ),
        *(
            Mistake("weights_clipped", "You clip the weights. They may be 0 or nearly 1, and nothing here "
                    "divides by them: take them as they are.", {"uses": uses})
            for uses in ("clipped", "clipped below", "clipped little")
        ),
        *(
            Mistake("slopes_clipped",
                    "You clip the result. Clipping belongs to a training step, if anywhere; a "
                    "slope has the size that it has.", {"clip": clip})
            for clip in (1, 5, 10)
        ),
        Mistake("divided_by_n", "You divide by the number of keys. Nothing in the derivation is a mean over "
                "them.", {"divided": "n"}),
        Mistake("divided_by_root", "You divide by the root of the number of keys. That scale belongs to dot "
                "products, before the softmax.", {"divided": "root of n"}),
        *(
            Mistake("divided_by_batch",
                    "You divide by the size of the batch. That belongs to the loss, and g "
                    "has it already.", {"divided": divided})
            for divided in ("batch", "first axis", "rows")
        ),
        Mistake("squeezed",
                "You drop axes of length 1. A batch of one row is a batch: the result has the shape "
                "of g.", {"squeezed": True}),
        Mistake("few_digits", _FEW_DIGITS, {"uses": "half precision"}),
        Mistake("integers", "Where g holds whole numbers your result is whole too, and its fractions are cut "
                "off.", {"integer": True}),
    ),  # fmt: skip
    properties=(_not_a_number, _nearly_right, _proportional, _first_row_only, _slopes_sum_to_zero),
    praise="Checked on one row, on batches of one, two and three axes, square ones among them, on whole "
    "numbers, on a slope that is the same for all (which gives 0) and on a sure row. This line stands in "
    "every backward pass of attention.",
)

_JACOBIAN_SOLUTION = """
import numpy as np

def softmax_jacobian(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    column, row = p[..., :, None], p[..., None, :]     # p_i down, p_j across
    return column * (np.eye(p.shape[-1]) - row)        # p_i times (1 where i = j, else 0) less p_j
"""

_BACKWARD_SOLUTION = """
def softmax_backward(p, g):
    mean = (p * g).sum(axis=-1, keepdims=True)         # the mean of g, weighted by p
    return p * (g - mean)
"""

EXERCISES = (
    Exercise("softmax_jacobian", "07", softmax_jacobian, (
        "Take three scores on paper. How does the first weight move with its own score, and how with the "
        "second? Both answers consist of weights alone.",
        "A slope is p_i (1 - p_i) on the diagonal and -p_i p_j beside it. That is one table with p on its "
        "diagonal, less the table of all products p_i p_j.",
        "Give p a new last axis, and it is a column; a new axis before the last, and it is a row. A column "
        "times a row holds all products, for every row of a batch at once. A column times the identity of "
        "size n has p on the diagonal. Subtract the largest score before the exponential.",
    ), _JACOBIAN_SOLUTION, "function"),
    Exercise("softmax_backward", "07", softmax_backward, (
        "Write one entry of the product of g with the table of exercise 2. Which part comes from the "
        "diagonal, and which sum is the same for every key of the row?",
        "That sum is the mean of g, weighted by p. Each key's slope is its weight times the difference "
        "between its own g and this mean.",
        "Sum p times g over the last axis, keep that axis with length 1, subtract the sum from g and "
        "multiply by p. No table is needed, and neither argument is written to.",
    ), _BACKWARD_SOLUTION, "function"),
)  # fmt: skip

"""The exercises of lesson 07: each judge takes an answer and returns a verdict."""

import tracemalloc

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.core.statistics import softmax_jacobian_norm
from attnlib.exercises.answers import as_floats, numbers
from attnlib.exercises.calls import call
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, wrong

NUDGE_KEYS = np.array([[3.0, 1.0], [1.0, 3.0], [-2.0, -1.0]])
NUDGE_QUERY = np.array([4.0, 1.0])


@np.errstate(all="ignore")
def drowned(lengths):
    """Numbers of keys at which a match 5, and a match 10, above the rest first holds less than half."""
    given, complaint = numbers(lengths, (2,), "your answer")
    if complaint:
        return complaint
    ratios = np.exp([5, 10])
    if np.allclose(given, ratios + 1, atol=0.05) or np.allclose(given, ratios, atol=0.05):
        return wrong("Keys come in whole numbers. Which way do you round, and is the match among your keys?")
    if (given != given.round()).any() or (given < 1).any():
        return wrong(f"Give two whole numbers of keys, each at least 1; got {given[0]:g} and {given[1]:g}.")
    least = np.array([150, 22028])
    if (given == least).all():
        return right(
            "The match counts e^5 = 148.4 against 1 for each other key, so 149 others outweigh it, and with "
            "itself that makes 150 keys. Twice the score is the square of the weights' ratio: e^10 = 22026, "
            "and the text may be 147 times as long. Twice the score is not twice the length."
        )
    first = given[0]
    if (given == least - 1).all():
        return wrong(
            f"{_whole(first)} and {_whole(given[1])} are the numbers of the others. Count the match as a key "
            "too.",
            "match_not_counted",
        )
    if (given == least - 2).all():
        return wrong(
            f"With {_whole(first)} keys the match holds {_held(5, first)}. Which way do you round, and is "
            "the match among your keys?",
            "rounded_down",
        )
    if first == least[0] and given[1] == 2 * least[0]:
        return wrong(
            f"The first is right. At {_whole(given[1])} keys a match 10 above still holds "
            f"{_held(10, given[1])}: weights go by exponentials, so a doubled score does more than "
            "double the length.",
            "doubled",
        )
    if first == least[0] and given[1] in (150**2, 149**2, 149**2 + 1):
        return wrong(
            "Nearly: e^10 is the square of e^5, but not of a number rounded up. At "
            f"{_whole(given[1])} keys the match holds {_held(10, given[1])}, and fewer keys will do.",
            "square_of_rounded",
        )
    delta, n, fewest = next(
        (delta, n, fewest) for delta, n, fewest in zip((5, 10), given, least, strict=True) if n != fewest
    )
    if n > fewest:
        return wrong(
            f"With {_whole(n)} keys a match {delta} above the rest has {_held(delta, n)}, less than half; "
            "but so it has with fewer.",
            "not_the_least",
        )
    told = f"With {_whole(n)} keys a match {delta} above the rest still holds {_held(delta, n)}."
    if n == fewest - 1:
        return wrong(f"{told} Did you count the match itself as a key?", "match_not_counted")
    if n == fewest - 2:
        return wrong(f"{told} Which way do you round, and is the match among your keys?", "rounded_down")
    if n <= 3 * delta:
        return wrong(f"{told} Weights go by exponentials, not by scores.", "scores_not_exponentials")
    return wrong(told)


@np.errstate(all="ignore")
def least_nudge(query):
    """A query near the given one at which the slope in B's score is at least 0.2 in size."""
    query, complaint = numbers(query, (2,), "your query")
    if complaint:
        return complaint
    if np.abs(query).max() > 1e6:
        return wrong("So far away nothing new happens. Stay near (4, 1).")
    move = query - NUDGE_QUERY
    length = np.linalg.norm(move)
    scores = NUDGE_KEYS @ query
    w = softmax(scores)
    gap = round(scores[0] - scores[1], 3) + 0.0            # + 0.0: there is no -0
    slope = w[1] * (1 - w[1])
    near, steep = length <= 1.8 + 1e-9, slope >= 0.2 - 1e-9
    told = (
        f"You moved by {_beside(length, 1.8)}; A, B and C hold {w[0]:.3f}, {w[1]:.3f} and {w[2]:.3f}, and "
        f"the slope at B's score has the size {_beside(slope, 0.2)}. "
        f"The gap q.A - q.B {'is still 6' if gap == 6 else f'went from 6 to {gap:g}'}. "
    )
    if length < 1e-9:
        return wrong(told + "That is the query as it was: move it.", "unmoved")
    if steep and near:
        return right(
            told + "Only the gap between A and B matters. It falls fastest along B - A = (-2, 2), at a "
            "right angle to the line on which the two are level. The loss's own slope in the query lies "
            "along A - B too: at (4, 1) it is w_A w_B (A - B), and 0.007 long. The direction was never "
            "wrong. It was too faint to follow."
        )
    name, reason = next(
        ((name, reason) for name, way, reason in _MOVES
         if move @ way > 0.9999 * length * np.linalg.norm(way)),
        (None, ""),
    )
    if name == "along_the_gap":
        if steep or w[1] > 0.5:
            far = "a little too far" if steep else "much too far: B is sure of itself now"
            return wrong(f"{told}The right way, and {far}. Turn back.", "too_long" if steep else "overshoot")
        short = "a little too short" if slope > 0.1 else "too short"
        return wrong(f"{told}The right way, and {short}. Go on.", "too_short")
    if name == "towards_a":
        return wrong(told + reason, name)
    if scores.argmax() == 2:
        if name == "shrunk":
            name, reason = "turned_round", "You turned the query round, and now C leads. "
        else:
            reason += "Now C leads, which was out of the race. "
    if steep:
        reason = reason or "The slope is there, but a shorter move brings it too. "
        return wrong(f"{told}{reason}Which move changes q.A - q.B most for its length?", name or "too_long")
    if w[1] > 0.5:
        return wrong(
            told + "Now B leads, and is sure of itself in turn. You went past the place where the slope is "
            "largest.",
            "overshoot",
        )
    return wrong(f"{told}{reason}The slope is w_B (1 - w_B) in size; which w_B makes it 0.2?", name)


_MOVES = (
    ("along_the_gap", NUDGE_KEYS[1] - NUDGE_KEYS[0], ""),
    ("towards_a", NUDGE_KEYS[0] - NUDGE_KEYS[1],
     "You moved along A - B, straight to A's side, so the gap grows as fast as it can. Turn round. "),
    ("towards_a", NUDGE_KEYS[0],
     "You moved towards A, so A's lead grows. Which move makes it shrink? "),
    ("shrunk", -NUDGE_QUERY,
     "You shortened the query, which makes every gap smaller, C's too. The gap between A and B is enough. "),
    ("towards_b", NUDGE_KEYS[1],
     "You moved towards B. That raises B's score, and A's with it, because the two point in similar "
     "directions. "),
    ("away_from_a", -NUDGE_KEYS[0],
     "You moved away from A. That lowers A's score, and B's with it. "),
)


def _beside(x, limit):
    """``x`` with as many digits as tell it from ``limit``, at least four."""
    return next((text for digits in range(4, 12) if float(text := f"{x:.{digits}f}") != limit), f"{x:g}")


@np.errstate(all="ignore")
def two_stories(scores):
    """Rows of scores whose Jacobian norms have a tiny median and a large mean."""
    scores = as_floats(scores)
    if scores is None:
        return wrong("Give an array of scores of shape (rows, keys).")
    if scores.ndim != 2 or len(scores) < 10 or scores.shape[1] < 2:
        return wrong(f"Give at least 10 rows of at least 2 keys each; got shape {scores.shape}.")
    if scores.size > 1_000_000:
        return wrong("A million numbers are more than this takes; 10 rows will do.")
    if not np.isfinite(scores).all():
        return wrong("All scores must be finite. Large ones will do as well as infinite ones.")
    norms = softmax_jacobian_norm(scores)
    mean, median = norms.mean(), np.median(norms)
    is_open = norms > 0.1
    told = f"The mean of the norms is {_beside(mean, 0.2)} and their median {median:.3g}. "
    if median < 1e-3 and mean >= 0.2 - 1e-9:
        return right(
            told + f"{is_open.sum()} of {len(norms)} rows are open and carry nearly all of it. The mean "
            "calls this layer healthy, the median calls it dead; most of its rows are frozen."
        )
    if median >= 1e-3 and is_open.mean() > 0.5:
        return wrong(
            told + "More than half of the rows are open, so the median row is one of them.", "too_many_open"
        )
    if median >= 1e-3 and is_open.mean() == 0.5:
        return wrong(
            told + "Half of the rows are open: the median of an even number of rows lies between the two "
            "halves. Close one more row.",
            "half_open",
        )
    if median >= 1e-3:
        return wrong(
            told + f"Only {is_open.sum()} of {len(norms)} rows are open, but the closed ones are not closed "
            "enough. Make the closed rows surer: a gap of 8 leaves a norm near 0.0007 with two keys.",
            "not_sure_enough",
        )
    if not is_open.any():
        return wrong(told + "No row is open, and so none is left to carry the mean.", "none_open")
    if is_open.mean() < 0.4:
        return wrong(
            told + f"{is_open.sum()} of {len(norms)} rows are open. No norm exceeds 0.5, so a mean of 0.2 "
            "needs at least four tenths of them open, and fewer than half may be.",
            "too_few_open",
        )
    return wrong(
        told + f"Enough rows are open, but their norms are only {norms[is_open].mean():.3f} on average. "
        "Equal scores for many keys are not the most sensitive. Which rows have the largest norm?",
        "open_rows_too_flat",
    )


def _whole(n):
    """A whole number, by its power of ten where it would be long."""
    return f"{n:.0f}" if n < 1e9 else f"{n:g}"


def _held(delta, n):
    return _beside(1 / (1 + (n - 1) * np.exp(-delta)), 0.5)


# ------------------------------------------------------------------- the functions


def _p(z, *, stable="max", over="row", base=None, sign=1, normalised=True):
    z = np.asarray(z)
    z = sign * z.astype(z.dtype if z.dtype.kind == "f" else float)
    if base is not None:
        z = z * np.log(base)
    axis = {"row": -1, "first": 0, "second_last": -2 if z.ndim > 1 else -1, "second": 1, "all": None}[over]
    kept = axis is not None
    if stable == "max":
        z = z - z.max(axis=axis, keepdims=kept)
    elif stable == "clip":
        z = np.clip(z, -50, 50)
    elif stable == "first_max":
        z = z - z.max()
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=kept) if normalised else e


def _jacobian(z, *, form="right", uses="p", integer=False, **how):
    p = _p(z, **how) if uses == "p" else np.asarray(z).astype(float)
    n = p.shape[-1]
    eye = np.eye(n, dtype=p.dtype)
    diag = p[..., :, None] * eye
    outer = p[..., :, None] * p[..., None, :]
    made = {
        "right": lambda: diag - outer,
        "diagonal_only": lambda: diag - outer * eye,
        "vector": lambda: p * (1 - p),
        "no_outer": lambda: diag,
        "outer_only": lambda: -outer,
        "plus": lambda: diag + outer,
        "negative": lambda: outer - diag,
        "off_plus": lambda: (diag - outer) * (2 * eye - 1),
        "squares": lambda: diag - (p * p)[..., None, :],
        "one_row": lambda: np.diag(p) - np.outer(p, p),
        "one_batch_axis": lambda: p[:, :, None] * (eye - p[:, None, :]),
        "scalar": lambda: np.diag(p) - p @ p.T,
        "scalar_rows": lambda: diag - (p * p).sum(-1)[..., None, None],
        "flat": lambda: np.diag(p.ravel()) - np.outer(p, p),
        "summed": lambda: (diag - outer).sum(tuple(range(p.ndim - 1))),
        "first": lambda: (diag - outer).reshape(-1, n, n)[0],
        "log_softmax": lambda: eye - p[..., None, :] + 0 * diag,
        "log_softmax_turned": lambda: eye - p[..., :, None] + 0 * diag,
        "identity_minus": lambda: eye - outer,
        "p_minus_identity": lambda: p[..., :, None] * (p[..., None, :] * 0 + 1) - eye,
        "off_diagonal_only": lambda: -outer * (1 - eye),
        "one_minus_p": lambda: (1 - p)[..., :, None] * eye - outer * (1 - eye),
        "p": lambda: p,
    }[form]()
    kind = np.asarray(z).dtype
    return np.trunc(made).astype(kind) if integer and kind.kind in "iu" else made


def _jacobian_cases():
    rng = np.random.default_rng(70)
    return [
        Case("three scores", (np.array([0.5, -1.0, 2.0]),), hint="One row, of shape (n,), is valid too."),
        Case("a batch of shape (2, 4)", (rng.normal(size=(2, 4)),), hint=_ONE_ROW),
        Case("a batch of shape (2, 3, 5)", (rng.normal(size=(2, 3, 5)),), hint=_ONE_AXIS),
        Case("a batch of shape (4, 4), in which axes are easily confused", (rng.normal(size=(4, 4)),)),
        Case("whole numbers", (np.array([[2, 0, 1], [0, 0, 3]]),)),
        Case("a single key", (np.array([[3.0], [-1.0]]),)),
        Case("the scores 1000, 999 and 0", (np.array([1000.0, 999.0, 0.0]),), hint=_SUBTRACT),
        Case("scores near -1000", (np.array([[-1000.0, -1001.0, -999.5], [0.0, 1.0, 2.0]]),), hint=_SUBTRACT),
        Case("scores of 60 and 58", (np.array([60.0, 58.0, 0.0]),), hint=_SUBTRACT),
    ]


_BATCH = "Any number of axes may stand before the last, and each row is by itself."
_ONE_ROW = f"One row is right, and a batch is not. {_BATCH}"        # said where these fail first
_ONE_AXIS = f"One axis before the last is right, and two are not. {_BATCH}"
_SUBTRACT = "Subtract each row's largest score before the exponential; it cancels in the quotient."
_SOFTMAX = (
    Mistake(
        "unstable",
        "exp of a large score overflows, and inf/inf is NaN. " + _SUBTRACT,
        {"stable": None},
    ),
    Mistake(
        "clipped",
        "You clip the scores, which makes unequal scores equal. " + _SUBTRACT,
        {"stable": "clip"},
    ),
    Mistake(
        "one_maximum",
        "You subtract the largest score of the whole array, so a much lower row becomes 0/0. Each row "
        "needs its own maximum.",
        {"stable": "first_max"},
    ),
    Mistake(
        "softmax_of_all",
        "Your softmax sums over the whole array, so rows of a batch mix. Each row sums to one by itself.",
        {"over": "all"},
    ),
    Mistake(
        "softmax_over_batch",
        "Your softmax runs along the first axis, the batch. The keys are the last axis.",
        {"over": "first"},
    ),
    Mistake(
        "softmax_second_last",
        "Your softmax runs along the axis before the last. The keys are the last axis.",
        {"over": "second_last"},
    ),
    Mistake(
        "softmax_axis_one",
        "Your softmax runs along axis 1, which is the keys only where there is exactly one batch axis. The "
        "last axis is -1.",
        {"over": "second"},
    ),
    Mistake(
        "minus_scores",
        "There is a minus sign in your exponential: the lowest score gets the largest weight.",
        {"sign": -1},
    ),
    Mistake(
        "base_two",
        "Your exponential has base 2; the softmax's has base e.",
        {"base": 2},
    ),
    Mistake(
        "not_normalised",
        "You use the exponentials without dividing by their sum.",
        {"normalised": False},
    ),
)


@np.errstate(all="ignore")
def _rows_sum_to_zero(case, value, expected):
    value = as_floats(value)                               # None where it holds no real numbers
    if value is not None and not (np.abs(value.sum(-1)) < 1e-2).all():
        return "A row does not sum to 0, so adding the same number to all scores would change the weights:"
    return None


@np.errstate(all="ignore")
def _symmetric(case, value, expected):
    value = as_floats(value)
    if value is not None and not np.allclose(value, np.swapaxes(value, -1, -2), atol=1e-3):
        return "The table is not symmetric, and -p_i p_j is:"
    return None


@np.errstate(all="ignore")
def _slopes_sum_to_zero(case, value, expected):
    value = as_floats(value)
    if value is not None and not (np.abs(value.sum(-1)) < 1e-2).all():
        return "A row does not sum to 0, so a step would move all its scores together, which changes nothing:"
    return None


softmax_jacobian = FunctionExercise(
    compute=_jacobian,
    cases=_jacobian_cases,
    mistakes=(
        Mistake(
            "diagonal_only",
            "The slopes beside the diagonal are missing. When one score rises the other weights fall.",
            {"form": "diagonal_only"},
        ),
        Mistake(
            "sigmoid_derivative",
            "p (1 - p) is a slope for each weight in its own score, as for a sigmoid. The other scores "
            "move it too: the result is a table.",
            {"form": "vector"},
        ),
        Mistake(
            "no_outer",
            "You return p on the diagonal and nothing is subtracted. What does the sum in the denominator"
            " do?",
            {"form": "no_outer"},
        ),
        Mistake(
            "outer_only",
            "Only the part from the denominator is there. A weight's own numerator also moves with its "
            "score.",
            {"form": "outer_only"},
        ),
        Mistake(
            "plus_outer",
            "You add the outer product. When one score rises the other weights must fall.",
            {"form": "plus"},
        ),
        Mistake(
            "negative",
            "The whole table has the wrong sign: a weight should rise with its own score.",
            {"form": "negative"},
        ),
        Mistake(
            "off_diagonal_sign",
            "The slopes beside the diagonal have the wrong sign: when one score rises the other weights "
            "fall.",
            {"form": "off_plus"},
        ),
        Mistake(
            "squares_not_outer",
            "p * p squares each weight. What is wanted is p_i times p_j for every pair, a table.",
            {"form": "squares"},
        ),
        Mistake(
            "one_row",
            "One row is right, and a batch is not: functions such as np.diag and np.outer know no batch "
            "axes. Build the table along two new last axes.",
            {"form": "one_row"},
        ),
        Mistake(
            "one_batch_axis",
            "A batch with exactly one axis before the keys is right, and nothing else. Let ... stand for all "
            "axes before the last, be they none or three.",
            {"form": "one_batch_axis"},
        ),
        Mistake(
            "inner_not_outer",
            "For a vector, p @ p.T is one number, the sum of squares, since .T does nothing to it. What "
            "is wanted is p_i times p_j for every pair.",
            {"form": "scalar"},
        ),
        Mistake(
            "inner_not_outer_rows",
            "You subtract the sum of squares, one number for each row. What is wanted is p_i times p_j "
            "for every pair.",
            {"form": "scalar_rows"},
        ),
        Mistake(
            "batch_flattened",
            "The batch is flattened into one long row, so weights of different rows meet in one table. "
            "Each row has a table of its own.",
            {"form": "flat"},
        ),
        Mistake(
            "batch_summed",
            "You add the tables of the batch. The result has shape (..., n, n): one table for each row.",
            {"form": "summed"},
        ),
        Mistake(
            "first_of_batch",
            "You return the table of the batch's first row alone.",
            {"form": "first"},
        ),
        Mistake(
            "log_softmax",
            "That is the table of the *logarithms* of the weights. Multiply each row by its weight.",
            {"form": "log_softmax"},
        ),
        Mistake(
            "log_softmax_turned",
            "That is the table of the logarithms of the weights, transposed.",
            {"form": "log_softmax_turned"},
        ),
        Mistake(
            "identity_for_diag",
            "You subtract the outer product from 1 on the diagonal. There should be p_i.",
            {"form": "identity_minus"},
        ),
        Mistake(
            "cross_entropy_slope",
            "p - [i = j] is the slope of the cross-entropy. Here the weights themselves are asked for.",
            {"form": "p_minus_identity"},
        ),
        Mistake(
            "zero_diagonal",
            "The diagonal is zero: a weight does move with its own score.",
            {"form": "off_diagonal_only"},
        ),
        Mistake(
            "diagonal_one_minus_p",
            "The diagonal holds 1 - p_i; a factor p_i is missing.",
            {"form": "one_minus_p"},
        ),
        Mistake(
            "softmax_itself",
            "You return the weights. Asked for are their slopes, a table for each row.",
            {"form": "p"},
        ),
        Mistake(
            "scores_as_weights",
            "You use the scores as if they were weights. z has not been through the softmax yet.",
            {"uses": "z"},
        ),
        Mistake(
            "integers",
            "For whole numbers your result is whole too, and its fractions are cut off. Compute in "
            "floating point.",
            {"integer": True},
        ),
        *_SOFTMAX,
    ),
    properties=(_rows_sum_to_zero, _symmetric),
    praise="Checked on one row, on batches of two and three axes, on a square batch, on whole numbers, a "
    "single key and scores of a thousand. Every row of a table sums to 0.",
)


def _backward(p, g, *, form="right", axis="last", keep=True, uses="p", divided=None, integer=False):
    p, g = np.asarray(p), np.asarray(g)
    kind = g.dtype
    p, g = (a.astype(a.dtype if a.dtype.kind == "f" else float) for a in (p, g))
    if uses == "z":
        p = _p(p)
    if uses == "swapped":
        p, g = g, p
    if uses == "softmax_g":
        g = _p(g)
    along = {"last": -1, "first": 0, "second_last": -2 if p.ndim > 1 else -1, "second": 1, "all": None}[axis]

    def total(a):
        if keep == "column":
            return a.sum(axis=along)[:, None]
        return a.sum(axis=along, keepdims=keep and along is not None)

    n = p.shape[-1]
    made = {
        "right": lambda: p * (g - total(p * g)),
        "plain_mean": lambda: p * (g - total(g) / n),
        "plain_sum": lambda: p * (g - total(g)),
        "no_mean": lambda: p * g,
        "no_weight": lambda: g - total(p * g),
        "diagonal": lambda: p * (1 - p) * g,
        "diagonal_mean": lambda: p * (1 - p) * (g - total(p * g)),
        "plus": lambda: p * (g + total(p * g)),
        "negative": lambda: p * (total(p * g) - g),
        "log_softmax": lambda: g - p * total(g),
        "cross_entropy": lambda: p - g,
        "inner": lambda: p * g - total(p * p) * total(g),
        "inner_g": lambda: p * g - total(p * p) * g,
        "unweighted_product": lambda: g * (1 - total(p * g)),
        "weight_twice": lambda: p * g - p * p * total(g),
        "mean_of_products": lambda: p * (g - total(p * g) / n),
        "one_row": lambda: (np.diag(p) - np.outer(p, p)) @ g,
        "one_row_dot": lambda: p * (g - np.dot(p, g)),
        "one_row_matmul": lambda: p * (g - p @ g),
    }[form]()
    if divided == "n":
        made = made / n
    if divided == "batch":
        made = made / (p.shape[0] if p.ndim > 1 else 1)
    return np.trunc(made).astype(kind) if integer and kind.kind in "iu" else made


def _backward_cases():
    rng = np.random.default_rng(71)

    def pair(*shape):
        return softmax(rng.normal(size=shape)), rng.normal(size=shape)

    whole, _ = pair(2, 3)
    return [
        Case("three weights", (np.array([0.5, 0.3, 0.2]), np.array([1.0, -2.0, 1.0])),
             hint="One row, of shape (n,), is valid too."),
        Case("a batch of shape (2, 5)", pair(2, 5), hint=_ONE_ROW),
        Case("a batch of shape (2, 3, 4)", pair(2, 3, 4), hint=_ONE_AXIS),
        Case("a batch of shape (4, 4), in which axes are easily confused", pair(4, 4)),
        Case("a batch of shape (3, 3, 3)", pair(3, 3, 3)),
        Case("a g of whole numbers", (whole, np.array([[2, 0, -1], [0, 3, 1]]))),
        Case("a slope that is the same for all", (np.array([[0.7, 0.2, 0.1]]), np.full((1, 3), 5.0))),
        Case("a sure row and large slopes", (np.array([0.9999, 0.0001, 0.0]), np.array([-300.0, 900.0, 50]))),
    ]


class _WithoutTable(FunctionExercise):
    """Tells of a table too, by its memory: for a long row it is a thousand times as large as the row."""

    def __call__(self, function):
        verdict = super().__call__(function)
        if not verdict.passed:
            return verdict
        p = np.full(_LONG, 1 / _LONG)
        # Whatever is made once, at a first call, is not there in the second.
        taken = min(_memory(function, p, np.cos(np.arange(_LONG))) for _ in range(2))
        if taken < _LONG**2 / 2:
            return verdict
        return right(
            f"{self.praise} The slopes are right, then; \"without the table\" is still open: for one row of "
            f"{_LONG:,} keys your function took {taken / 1e6:.1f} million bytes beside its arguments, "
            f"where a row has {p.nbytes:,}. Each key needs its weight, its slope and one mean of the row."
        )


_LONG = 1000


def _memory(function, *args):
    """The most bytes that a call had at one time, as far as Python is told of them (torch tells nothing)."""
    ours = not tracemalloc.is_tracing()
    if ours:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        call(function, args)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if ours:
            tracemalloc.stop()


softmax_backward = _WithoutTable(
    compute=_backward,
    cases=_backward_cases,
    mistakes=(
        Mistake(
            "plain_mean",
            "You subtract the plain mean of g. The mean must be weighted by p.",
            {"form": "plain_mean"},
        ),
        Mistake(
            "plain_sum",
            "You subtract the sum of g. It must be the mean weighted by p.",
            {"form": "plain_sum"},
        ),
        Mistake(
            "no_mean",
            "Nothing is subtracted: p * g is the diagonal's first part. When one score rises the other "
            "weights fall, and their slopes count too.",
            {"form": "no_mean"},
        ),
        Mistake(
            "no_weight",
            "The factor p in front is missing: a key without weight would be corrected as much as any.",
            {"form": "no_weight"},
        ),
        Mistake(
            "diagonal",
            "You have p (1 - p) g, each weight's slope in its own score alone; without its sum, "
            "p (g - p g) is the same. A score moves the other weights as well.",
            {"form": "diagonal"},
        ),
        Mistake(
            "diagonal_mean",
            "You have the mean and, on top of it, a factor 1 - p, which is one too many.",
            {"form": "diagonal_mean"},
        ),
        Mistake(
            "plus_mean",
            "You add the weighted mean. The slopes of a row must sum to 0.",
            {"form": "plus"},
        ),
        Mistake(
            "negative",
            "The sign is turned round: a step downhill would go uphill.",
            {"form": "negative"},
        ),
        Mistake(
            "log_softmax",
            "g - p sum(g) is the way back through a log-softmax. Here g belongs to the weights, not to "
            "their logarithms.",
            {"form": "log_softmax"},
        ),
        Mistake(
            "cross_entropy",
            "p - g is the slope of the cross-entropy, if g were the one-hot answer. Here g is any slope "
            "in the weights.",
            {"form": "cross_entropy"},
        ),
        Mistake(
            "inner_not_outer",
            "The sum of squared weights is one number; the outer product of p with itself is a table.",
            {"form": "inner"},
        ),
        Mistake(
            "inner_times_g",
            "You multiply g by p minus the sum of squared weights. The outer product of p with itself is "
            "a table, not one number.",
            {"form": "inner_g"},
        ),
        Mistake(
            "g_times",
            "The factor in front should be p, and what it multiplies a difference of slopes.",
            {"form": "unweighted_product"},
        ),
        Mistake(
            "weight_twice",
            "The weights stand in the wrong place: they belong under the sum, with g.",
            {"form": "weight_twice"},
        ),
        Mistake(
            "mean_of_products",
            "You take the mean of p * g. The weights already make it a mean: sum.",
            {"form": "mean_of_products"},
        ),
        Mistake(
            "one_row",
            "One row is right, and a batch is not: functions such as np.diag and np.outer know no batch "
            "axes.",
            {"form": "one_row"},
        ),
        Mistake(
            "one_row_dot",
            "One row is right, and a batch is not: np.dot does not work row by row.",
            {"form": "one_row_dot"},
        ),
        Mistake(
            "one_row_matmul",
            "One row is right, and a batch is not: between two tables @ multiplies every row of one with "
            "every column of the other. Each row of p belongs to its own row of g.",
            {"form": "one_row_matmul"},
        ),
        Mistake(
            "axis_first",
            "You sum along the first axis, the batch. The keys are the last axis.",
            {"axis": "first"},
        ),
        Mistake(
            "axis_second_last",
            "You sum along the axis before the last. The keys are the last axis.",
            {"axis": "second_last"},
        ),
        Mistake(
            "sums_all",
            "You sum over the whole array, so the rows of a batch mix. Each row has its own mean.",
            {"axis": "all", "keep": False},
        ),
        Mistake(
            "axis_one",
            "You sum along axis 1, which is the keys only where there is exactly one batch axis. The last "
            "axis is -1.",
            {"axis": "second"},
        ),
        Mistake(
            "one_batch_axis",
            "[:, None] puts the axis back only where there is exactly one batch axis. Keep it in the sum.",
            {"keep": "column"},
        ),
        Mistake(
            "no_keepdims",
            "The sum loses its axis and is then spread along the wrong one. Keep the axis, with length 1.",
            {"keep": False},
        ),
        Mistake(
            "p_as_scores",
            "You put p through a softmax once more. p is the softmax already.",
            {"uses": "z"},
        ),
        Mistake(
            "swapped",
            "p and g have changed places.",
            {"uses": "swapped"},
        ),
        Mistake(
            "softmax_of_g",
            "You put g through a softmax. g is a slope and may have any sign.",
            {"uses": "softmax_g"},
        ),
        Mistake(
            "divided_by_n",
            "You divide by the number of keys. Nothing in the derivation is a mean over them.",
            {"divided": "n"},
        ),
        Mistake(
            "divided_by_batch",
            "You divide by the size of the batch. That belongs to the loss, and g has it already.",
            {"divided": "batch"},
        ),
        Mistake(
            "integers",
            "Where g holds whole numbers your result is whole too, and its fractions are cut off.",
            {"integer": True},
        ),
    ),
    properties=(_slopes_sum_to_zero,),
    praise="Checked on one row, on batches of two and three axes, square ones among them, on whole numbers, "
    "on a slope that is the same for all (which gives 0) and on a sure row. This line stands in "
    "every backward pass of attention.",
)

EXERCISES = (
    Exercise("drowned", "07", drowned, (), "", "prediction"),
    Exercise("softmax_jacobian", "07", softmax_jacobian, (), "", "function"),
    Exercise("softmax_backward", "07", softmax_backward, (), "", "function"),
    Exercise("least_nudge", "07", least_nudge, (), "", "construction"),
    Exercise("two_stories", "07", two_stories, (), "", "construction"),
)

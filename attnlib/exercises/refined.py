"""Lesson 21: attention to attention. The refined table is written, and its leak opened on purpose."""

import numpy as np

from attnlib.exercises.answers import as_floats, in_quotes, short
from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, unreadable, wrong


def _softmax(x, axis=-1):
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        e = np.exp(x - x.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)


# ------------------------------------------------------------- the refined table

_SCALES = {
    "width": lambda d, n: d**-0.5, "none": lambda d, n: 1.0, "linear": lambda d, n: 1 / d,
    "length": lambda d, n: n**-0.5, "times": lambda d, n: d**0.5,
}  # fmt: skip
_VISIBLE = {
    "right": lambda a: np.tri(a.shape[-1], dtype=bool), "none": lambda a: np.ones(a.shape[-2:], bool),
    "strict": lambda a: np.tri(a.shape[-1], k=-1, dtype=bool),
    "ahead": lambda a: np.tri(a.shape[-1], k=1, dtype=bool),
    "future": lambda a: np.tri(a.shape[-1], dtype=bool).T, "of_a": lambda a: a != 0,
}  # fmt: skip


def _refined(a, w_q, w_k, *, scale="width", visible="right", hiding="right", maps="right", tokens="rows",
             axis=-1, result="weights"):  # fmt: skip
    rows = a if tokens == "rows" else a.swapaxes(-1, -2)
    q, k = {"right": (w_q, w_k), "queries_twice": (w_q, w_q), "keys_twice": (w_k, w_k),
            "exchanged": (w_k, w_q)}[maps]  # fmt: skip
    b = (rows @ q) @ (rows @ k).swapaxes(-1, -2) * _SCALES[scale](w_q.shape[-1], a.shape[-1])
    seen = np.broadcast_to(_VISIBLE[visible](a), b.shape)
    if hiding == "zeros":
        weights = _softmax(np.where(seen, b, 0.0), axis)
    elif hiding == "after":
        weights = np.where(seen, _softmax(b, axis), 0.0)
    else:
        weights = _softmax(np.where(seen, b, -np.inf), axis)
    with np.errstate(divide="ignore"):
        return {
            "weights": lambda: weights, "scores": lambda: b, "hidden_scores": lambda: np.where(seen, b, 0.0),
            "added": lambda: a + weights, "additive": lambda: _softmax(np.log(a) + b),
            "added_to_scores": lambda: _softmax(np.where(seen, a + b, -np.inf)),
            "twice": lambda: _softmax(np.where(seen, weights, -np.inf)),
            "rows_averaged": lambda: weights @ a,
            "averaged_rows": lambda: a @ np.nan_to_num(weights),    # or one empty row would make all NaN
            "times_a": lambda: weights * a, "mean": lambda: (a + weights) / 2,
        }[result]()  # fmt: skip


def _table(rng, *shape, size=1.5):
    """Causal weights: each row a softmax of what it may see."""
    scores = rng.normal(size=shape) * size
    return _softmax(np.where(np.tri(shape[-1], dtype=bool), scores, -np.inf))


def _refined_cases():
    rng = np.random.default_rng(21)

    def case(name, n, d, lead=(), size=2.0, hint="", sparse=False):
        a = _table(rng, *lead, n, n)
        if sparse:
            a[..., 2:, 1] = 0
            a /= a.sum(-1, keepdims=True)
        return Case(name, (a, *(rng.normal(size=(2, n, d)) * size)), hint=hint)

    return [
        case("a table of four rows", 4, 3, hint="Follow row 1: which two rows of A may it be compared with?"),
        case("two heads of five rows", 5, 2, lead=(2,), hint="There may be any number of axes in front."),
        case("as many features as rows", 3, 3),
        case("one feature", 6, 1),
        case("a single row", 1, 2, hint="One row sees itself alone."),
        case(
            "a table with zeros below its diagonal",
            5,
            3,
            sparse=True,
            hint="What a row gives nothing may still be compared with it.",
        ),
        case("large numbers", 5, 4, size=60.0, hint="Take the largest score of a row away before e^x."),
        case("a batch of two with three heads", 4, 5, lead=(2, 3)),
    ]


_AGAIN = ("B compares row i with row j for every pair, and the zeros of A do not stop that. Hide j > i once "
          "more.")  # fmt: skip

_REFINED_MISTAKES = (
    Mistake("no_second_mask", "Nothing is masked after A. " + _AGAIN, {"visible": "none"}),
    Mistake("masked_after", "You set the future to 0 after the softmax, so rows no longer sum to 1. Hide it "
            "before, with minus infinity.", {"hiding": "after"}),
    Mistake("zero_is_no_mask", "The hidden scores are set to 0, and e^0 is 1: they still get a weight. A "
            "hidden score is minus infinity.", {"hiding": "zeros"}),
    Mistake("mask_of_a", "You hide where A has zeros. A row that gives a token nothing may still be like "
            "that token's row; only what comes later is hidden.", {"visible": "of_a"}),
    Mistake("strict", "A row does not see itself. It may: j <= i.", {"visible": "strict"}),
    Mistake("one_ahead", "A row also sees the one after it.", {"visible": "ahead"}),
    Mistake("mask_turned", "The mask is turned round: a row sees itself and what comes after it.",
            {"visible": "future"}),
    Mistake("no_scale", "The scores are not divided by the root of d', the columns of W_Q.",
            {"scale": "none"}),
    Mistake("scale_without_root", "You divide by d'. Divide by its root.", {"scale": "linear"}),
    Mistake("scale_of_the_length", "You divide by the root of n. The product of two rows has d' terms: that "
            "is how wide they are after W_Q and W_K.", {"scale": "length"}),
    Mistake("scale_multiplies", "You multiply by the root of d'. Divide.", {"scale": "times"}),
    Mistake("columns_for_rows", "You take the columns of A for tokens. Row i says where token i looks.",
            {"tokens": "columns"}),
    Mistake("one_map", "W_Q makes the queries and the keys. The keys are made by W_K.",
            {"maps": "queries_twice"}),
    Mistake("one_map", "W_K makes the queries and the keys. The queries are made by W_Q.",
            {"maps": "keys_twice"}),
    Mistake("exchanged", "W_Q and W_K have changed places: row i of B must be the query of row i against all "
            "keys.", {"maps": "exchanged"}),
    Mistake("softmax_over_queries", "The softmax runs over the queries, down each column. It runs along each "
            "row.", {"axis": -2}),
    Mistake("no_softmax", "You return scores. They go through a softmax yet.", {"result": "scores"}),
    Mistake("no_softmax", "You return the masked scores. They go through a softmax yet.",
            {"result": "hidden_scores"}),
    Mistake("added_to_a", "You add A to the refined weights, so rows sum to 2. The refined table stands in "
            "place of A.", {"result": "added"}),
    Mistake("averaged_with_a", "You average A and the refined weights. The refined table stands in place of "
            "A.", {"result": "mean"}),
    Mistake("additive", "That is the additive refinement, softmax(log A + B), or A times e^B over the "
            "rows' sums. Here the table is softmax(B).", {"result": "additive"}),
    Mistake("a_in_the_scores", "You add A to the scores before the softmax. Here the table is softmax(B), of "
            "B alone.", {"result": "added_to_scores"}),
    Mistake("softmax_twice", "There are two softmaxes, one of the other. Scores go through one.",
            {"result": "twice"}),
    Mistake("rows_averaged", "You multiply the refined weights by A. They stand in place of A; return them "
            "as they are.", {"result": "averaged_rows"}),
    Mistake("rows_averaged", "You multiply A by the refined weights. They multiply the values, later; return "
            "them as they are.", {"result": "rows_averaged"}),
    Mistake("times_a", "You multiply each weight by that of A. The refined table stands in place of A.",
            {"result": "times_a"}),
)  # fmt: skip


def _finite(case, value, expected):
    value = floats(value)
    if value is not None and not np.isfinite(value).all():
        return "There are NaN or infinite numbers. Does each row see itself, and is e^x too large?"
    return None


def _causal(case, value, expected):
    value = floats(value)
    if value is None or value.shape != expected.shape:
        return None
    above = np.triu(np.abs(value), 1)
    if above.max(initial=0) > 1e-6:
        i, j = np.argwhere(above > 1e-6)[0][-2:]
        return f"Row {i} gives {value[(0,) * (value.ndim - 2)][i, j]:.3g} to token {j}, which comes later."
    return None


def _rows_of_one(case, value, expected):
    value = floats(value)
    if value is not None and value.shape == expected.shape and not np.allclose(value.sum(-1), 1, atol=1e-4):
        return f"A row sums to {value.sum(-1).flat[int(np.argmax(np.abs(value.sum(-1) - 1)))]:.3g}, not to 1."
    return None


refined_weights = FunctionExercise(
    _refined, _refined_cases, _REFINED_MISTAKES,
    "Checked with heads and batches, with one row, with zeros below the diagonal and with large numbers. No "
    "row looks ahead, and each sums to one.",
    properties=(_finite, _causal, _rows_of_one, in_torch, few_digits),
)  # fmt: skip


# ------------------------------------------------------------- a leak as large as can be

TABLE = np.array([[1, 0, 0, 0], [0.1, 0.9, 0, 0], [0.8, 0.1, 0.1, 0], [0.8, 0.08, 0.04, 0.08]])
NAMES = ("racket", "phone", "shuttlecocks", "grip tape")
LARGEST, ENOUGH = 10, 0.9


@np.errstate(all="ignore")
def leaking_rows(answer):
    """W_Q and W_K with which, without a second mask, the first purchase looks at the last one."""
    given = as_floats(answer)
    if given is None or given.shape != (2, 4, 2):
        quotes = " without quotes" if in_quotes(answer) else ""
        got = short(answer) if given is None else f"the shape {given.shape}"
        return unreadable(f"Give two arrays of shape (4, 2){quotes}, [w_q, w_k]; got {got}.")
    if not np.isfinite(given).all():
        return unreadable(f"Let all numbers be finite; got {short(answer)}.")
    if np.abs(given).max() > LARGEST:
        return wrong(f"Numbers from -{LARGEST} to {LARGEST} are enough.", "too_large")
    w_q, w_k = given
    row = _refined(TABLE, w_q, w_k, visible="none")[0]
    told = (
        "Without the second mask the racket gives "
        + ", ".join(f"{weight:.2f} to the {name}" for name, weight in zip(NAMES, row, strict=True))
        + ". "
    )
    if row[3] >= ENOUGH:
        safe = _refined(TABLE, w_q, w_k)[0, 0]
        return right(
            told + f"With it, the same matrices give the racket {safe:.0f} to itself. The racket's own row "
            "is (1, 0, 0, 0), so its query is the first row of W_Q. Only the grip tape's row has a weight at "
            "place 3, its own: the last row of W_K is a key for it alone."
        )
    if not w_q.any() or not w_k.any():
        return wrong(
            told + "With zeros all scores are equal. Which row of W_Q is the racket's query, when "
            "its own row of A is (1, 0, 0, 0)?",
            "zeros",
        )
    exchanged = _refined(TABLE, w_k, w_q, visible="none")[0, 3]
    if exchanged >= ENOUGH:
        return wrong(told + "The other way round it would be enough: the order is w_q, w_k.", "exchanged")
    if not w_q[0].any():
        return wrong(
            told + "Its row of A is (1, 0, 0, 0), so its query is the first row of W_Q, and yours "
            "is zero: its scores are all 0.",
            "no_query",
        )
    flipped = _refined(TABLE, -w_q, w_k, visible="none")[0, 3]
    if flipped >= ENOUGH:
        return wrong(told + "The grip tape has the lowest score of the four. A sign is turned.", "sign")
    scores = TABLE @ w_k @ w_q[0]
    if np.ptp(scores) < 1e-9:
        return wrong(
            told + "All four scores are equal. A column of W_Q meets the same column of W_K alone; and as "
            "every row of the table sums to 1, a W_K whose rows are alike makes four keys that are alike.",
            "all_equal",
        )
    if scores.argmax() == 3:
        return wrong(
            told + "The grip tape leads, and not by enough. How much can one weight of 0.08 be made "
            "to count, with numbers up to ten?",
            "too_faint",
        )
    if scores.argmax() == 0:
        return wrong(
            told + "Most of it stays with the racket: the key that you made is its own weight on "
            "the racket, and its row has more of that than any other.",
            "own_row",
        )
    name = NAMES[int(scores.argmax())]
    return wrong(
        told + f"Most goes to the {name}. Look down the columns of the table: at which place has the grip "
        "tape's row a weight that no other row has?",
        "another_row",
    )


_REFINED_SOLUTION = """
import numpy as np


def refined_weights(a, w_q, w_k):
    b = (a @ w_q) @ (a @ w_k).swapaxes(-1, -2) / np.sqrt(w_q.shape[-1])
    b = np.where(np.tri(a.shape[-1], dtype=bool), b, -np.inf)       # the second mask
    e = np.exp(b - b.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
"""

_LEAK_SOLUTION = """
import numpy as np

w_q, w_k = np.zeros((2, 4, 2))
w_q[0, 0] = 10              # the racket's query: its row of A is (1, 0, 0, 0)
w_k[3, 0] = 10              # only the grip tape's row has a weight there, 0.08
answer = [w_q, w_k]         # a score of 10 * 0.8 / sqrt(2) against 0
"""

EXERCISES = (
    Exercise("refined_weights", "21", refined_weights, (
        "Three lines: scores of rows against rows, a mask, a softmax. What does the mask hide, when A is "
        "causal already?",
        "A row of A times W_Q is a query, times W_K a key; both are d' wide. Swap the last two axes of the "
        "keys, for there may be axes in front.",
        "Put minus infinity where j > i, take each row's largest score away, then exp, then divide by the "
        "row's sum.",
    ), _REFINED_SOLUTION, "function"),
    Exercise("leaking_rows", "21", leaking_rows, (
        "The racket's row of A is (1, 0, 0, 0). Which row of W_Q is its query?",
        "All four keys are rows of A times W_K. Look for a column of A in which the grip tape alone has "
        "something.",
        "With w_q[0, 0] = 10 and w_k[3, 0] = 10, all else 0, what is the score of the grip tape? 0.08 of "
        "something is enough.",
    ), _LEAK_SOLUTION, "construction"),
)  # fmt: skip

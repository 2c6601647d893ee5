"""The exercises of lesson 04: what the softmax sees of a score, and three score functions to write.

Those that only Luong and others have, and their windows, are in `luong`.
"""

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.answers import as_floats, in_quotes, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.learner_test import Implementation, LearnerTest
from attnlib.exercises.verdict import right, unanswered, wrong

# ------------------------------------------------------------- four terms of a score


def terms_that_count(letters):
    """Which terms of (q + a) . (k + b) can change attention weights."""
    given = _letters(letters)
    if given is None:
        return wrong(f'Give the letters in one string, such as "AB" or "D"; got {short(letters)}.')
    if given == {"A", "C"}:
        return right(
            "For one query, q.b and a.b are the same number whatever the key: the softmax takes them away. "
            "a.k differs from key to key, and is the same for every query. So the bias of the queries can "
            "make a key loud for everybody, and the bias of the keys does nothing at all: a layer may leave "
            "it out, and those of Whisper do."
        )
    told = {
        frozenset("A"): ("biases_never", "You take both biases for harmless. Fix one query and go from key "
                         "to key: does a.k stay the same?"),
        frozenset("AB"): ("wrong_row", "You compare the queries of one key. A softmax compares the keys of "
                          "one query: which of q.b and a.k changes from key to key?"),
        frozenset("ABC"): ("query_part_counts", "q.b differs from query to query, but no softmax compares "
                           "queries. Go along one row of scores: does q.b change?"),
        frozenset("ACD"): ("constant_counts", "a.b is one number, added to every score. What does a softmax "
                           "make of that?"),
        frozenset("ABCD"): ("all_count", "Go along one row of scores, that is, from key to key with one "
                            "query. Which of the four do not change?"),
        frozenset("BD"): ("invisible_ones", "These are the two that change nothing. The other two are asked "
                          "for."),
        frozenset("C"): ("match_forgotten", "A key's own part counts, yes. And the match itself, q.k?"),
    }  # fmt: skip
    name, hint = told.get(frozenset(given), (None, "Fix one query and go from key to key: which of the four "
                                             "terms change on the way?"))  # fmt: skip
    return wrong(hint, name)


def _letters(answer):
    """The letters A to D that an answer names, as a set; None where it is something else."""
    if isinstance(answer, (list, tuple, set, frozenset)) and all(isinstance(part, str) for part in answer):
        answer = " ".join(answer)
    if not isinstance(answer, str):
        return None
    rest = answer.upper().replace("AND", " ").translate(str.maketrans("", "", " ,;+&"))
    return set(rest) if rest and set(rest) <= set("ABCD") else None


# ------------------------------------------------------------- exactly one of two

DISHES = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])     # (4, 2) sweet, sour
NAMES = ("neither", "sweet", "sour", "both")
ENOUGH = 0.45


def exactly_one(answer):
    """Weights of an additive score with two hidden numbers that prefers exactly one of two features."""
    given, complaint = _network(answer)
    if complaint:
        return complaint
    w_q, w_k, v = given
    scores, weights = _asked(w_q, w_k, v)
    told = "Weights: " + ", ".join(f"{name} {w:.2f}" for name, w in zip(NAMES, weights, strict=True)) + ". "
    if min(weights[1:3]) > ENOUGH:
        return right(
            told + "No dot product can do it, whatever the matrices before it: there sweet and sour together "
            "score as much as neither and both together. The bend of the tanh did it, and w_q only says "
            "where the bend lies."
        )
    if not v.any():
        return wrong(told + "With v = 0 all scores are 0.", "zero")
    if not w_k.any():
        return wrong(told + "With w_k = 0 no key is looked at.", "zero")
    hidden = np.tanh(w_q[:, 0] + DISHES @ w_k.T)                        # (4, 2)
    if np.ptp(hidden, axis=0).max() < 0.05 and np.abs(hidden).min() > 0.9:
        return wrong(told + "For all four dishes your hidden numbers are at an end of the tanh, and hardly "
                     "change. It bends where w_q + w_k k is 0: between which dishes should that be?", "flat")
    if np.ptp(scores) < 1e-9:
        return wrong(told + "All four score the same: what one hidden number adds, the other takes away.",
                     "all_alike")
    if min(_asked(w_q, w_k, -v)[1][1:3]) > ENOUGH:
        return wrong(told + "It is there, upside down: with the signs of v turned round, both and neither "
                     "would be lowest. Now they are highest.", "upside_down")
    if min(softmax(20 * scores)[1:3]) > ENOUGH:
        return wrong(told + "The right two lead, but by too little. A score is at most the sum of |v|: make "
                     "v larger, or the bends sharper.", "too_quiet")
    if (np.count_nonzero(w_k, axis=1) <= 1).all():
        return wrong(
            told + "Each of your hidden numbers looks at one taste alone, so the score is a part for sweet "
            "plus a part for sour, and sweet and sour together score as much as neither and both. Let a "
            "hidden number look at both tastes.", "one_taste_each")
    bend = abs(scores[1] + scores[2] - scores[0] - scores[3])
    if bend < 0.05 * np.ptp(scores):
        return wrong(
            told + "Sweet and sour together score as much as neither and both together, as in a dot product: "
            "your tanh hardly bends where the four dishes lie. Make w_k larger.", "no_bend")
    if abs(scores[1] - scores[2]) > 0.05 * np.ptp(scores) and min(scores[1:3]) <= max(scores[[0, 3]]):
        best = NAMES[int(scores.argmax())]
        return wrong(told + f"{best.capitalize()} leads alone. Let both hidden numbers treat sweet and sour "
                     "alike, and count how many of the two are there.", "one_sided")
    if scores[3] >= min(scores[1:3]) > scores[0] and np.ptp(scores[1:]) < 0.5 * np.ptp(scores):
        return wrong(told + "That is sweet or sour, or both. The second hidden number has to take away again "
                     "what both has.", "or")
    if scores[0] >= min(scores[1:3]) > scores[3] and np.ptp(scores[:3]) < 0.5 * np.ptp(scores):
        return wrong(told + "That is everything but both. The second hidden number has to take away what "
                     "neither has.", "not_both")
    if scores[3] == scores.max():
        return wrong(told + "More is better here, so both wins. One hidden number should rise between 0 and "
                     "1 of the two, the other fall between 1 and 2.", "more_is_better")
    return wrong(told + "Print the two hidden numbers, after the tanh, for the four dishes. What should v "
                 "add, and what take away?")


def _asked(w_q, w_k, v):
    """Scores and weights of the four dishes for the query (1,)."""
    scores = np.tanh(w_q[:, 0] + DISHES @ w_k.T) @ v                    # (4,)
    return scores, softmax(scores)


def _network(answer):
    if not isinstance(answer, (tuple, list)) or len(answer) != 3:
        return None, wrong(f"Give three arrays, (w_q, w_k, v); got {short(answer)}.")
    if any(part is ... or part is None for part in answer):
        return None, unanswered("Put your answer in place of the three dots and run the cell again.")
    given = []
    for name, part, shape in zip(("w_q", "w_k", "v"), answer, ((2, 1), (2, 2), (2,)), strict=True):
        array = as_floats(part)
        if array is None:
            quotes = ", without quotes" if in_quotes(part) else ""
            return None, wrong(f"Let {name} be an array of shape {shape}{quotes}; got {short(part)}.")
        if array.shape != shape:
            return None, wrong(f"Let {name} have shape {shape}; yours has {array.shape}.", "shape")
        if not np.isfinite(array).all():
            return None, wrong(f"Let the numbers of {name} be finite.")
        if np.abs(array).max() > 10:
            return None, wrong(f"Keep the numbers of {name} between -10 and 10; yours reach "
                               f"{np.abs(array).max():g}.", "too_large")
        given.append(array)
    return given, None


# ------------------------------------------------------------- does the query count

WIDTHS = 4, 6                                                           # of a query, of a key


def _rows(x, name, width):
    x = np.array(x, dtype=float)
    if x.ndim != 2 or x.shape[1] != width or not len(x):
        raise ValueError(f"score takes {name} of shape (n, {width}), n at least 1; got {x.shape}")
    return x


def _dyadic(x):
    """Numbers whose sums of a few products have no rounding."""
    return np.floor(16 * x) / 16


def _linear(q, k, w, part=1.0):
    return part * (q @ w[:4])[:, None] + k @ w[4:]


def _direction(x):
    length = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(length == 0, 1, length)


# Name: the score, made of q, k, a table (4, 6), a table (6, 10) and a vector (10,); whether the query counts;
# the mistake of a test that is fooled; what is to be said.
_SCORES = {
    "a general score": (
        lambda q, k, table, hidden, w: q @ table @ k.T, True, "match_missed",
        "lets the query count, in every number. With several keys, and queries of different directions, the "
        "weights differ.",
    ),
    "linear concat with the tanh last": (
        lambda q, k, table, hidden, w: np.tanh(_linear(q, k, w) / 2), True, "order_compared",
        "lets the query count. It ranks the keys in the same order for all, but the distances between the "
        "scores change with the query, and so do the weights.",
    ),
    "a score of the keys alone": (
        lambda q, k, table, hidden, w: 0 * q[:, :1] + k @ w[4:], False, "keys_compared",
        "gives each key the same score, whoever asks. The weights of two keys differ; those of one key for "
        "two queries do not.",
    ),
    "linear concat, of numbers without rounding": (
        lambda q, k, table, hidden, w: _linear(_dyadic(q), _dyadic(k), np.rint(4 * w)), False,
        "scores_compared",
        "ignores the query: its scores differ from query to query, by one number in the whole row. What does "
        "the softmax make of such a number?",
    ),
    "linear concat": (
        lambda q, k, table, hidden, w: _linear(q, k, w), False, "exact_comparison",
        "ignores the query. Its weights differ by rounding alone, by about 1e-16. Leave room for that.",
    ),
    "linear concat with a large part of the query": (
        lambda q, k, table, hidden, w: _linear(q, k, w, 2000.0), False, "large_scores",
        "ignores the query. Its scores are in the thousands, their exponentials overflow unless the largest "
        "of a row goes off first, and its weights are rounded at about 1e-12.",
    ),
    "a match beside a large part of the query": (
        lambda q, k, table, hidden, w: _linear(q, k, w, 2000.0) + q @ table @ k.T, True, "nan_is_no",
        "lets the query count, beside a part that cancels and is in the thousands. Unless the largest of a "
        "row goes off first, weights are NaN, and of NaN no comparison says that it is larger.",
    ),
    "concat with its tanh": (
        lambda q, k, table, hidden, w: np.tanh(q[:, None] @ hidden[:4] + k @ hidden[4:]) @ w / 4, True,
        "match_missed", "lets the query count. Only without the tanh does its part cancel.",
    ),
    "linear concat with a faint match": (
        lambda q, k, table, hidden, w: _linear(q, k, w) + 3e-4 * q @ table @ k.T, True, "too_coarse",
        "lets the query count, faintly: weights change in the fourth digit. Rounding is a million times as "
        "small.",
    ),
    "the cosine after a table": (
        lambda q, k, table, hidden, w: 3 * _direction(q) @ _direction(k @ table.T).T, True, "length_only",
        "lets the query count by its direction. A query made twice as long asks the same; try queries of "
        "different directions.",
    ),
    "a query whose length is a temperature": (
        lambda q, k, table, hidden, w: np.linalg.norm(q, axis=-1)[:, None] * (k @ w[4:]) / 4, True,
        "direction_only",
        "lets the query count by its length. Queries that are all of one length get the same weights; try "
        "different lengths.",
    ),
    "a score that reads the last number of a query": (
        lambda q, k, table, hidden, w: q[:, 3:] * (k @ w[4:]), True, "one_number",
        "lets the query count, by its last number alone. Change all numbers of your queries.",
    ),
    "scores by place": (
        lambda q, k, table, hidden, w: (q @ table)[:, np.arange(len(k)) % 6], True, "place_missed",
        "lets the query count: its weights go by the places of the keys and not by the keys, and each query "
        "asks for other places.",
    ),
}  # fmt: skip


def _to_test(name, function, answer, mistake, told):
    def make():
        rng = np.random.default_rng(44)
        numbers = rng.normal(size=WIDTHS), rng.normal(size=(10, 10)) / 2, rng.normal(size=10)

        def score(q, k):
            return function(_rows(q, "q", 4), _rows(k, "k", 6), *numbers)

        return (score,)

    return Implementation(name, make, answer, mistake, told)


query_counts = LearnerTest(
    tuple(_to_test(name, *told) for name, told in _SCORES.items()),
    {
        True: ("says_yes", "Your test says of every score that the query counts. Four of these are linear "
               "concats or read the keys alone. Do you compare weights, with room for rounding?"),
        False: ("says_no", "Your test says of no score that the query counts. How many keys do you try? A "
                "single one has weight 1 whoever asks. And are your queries different?"),
    },
    "Thirteen scores judged rightly. Three of them are linear concats with different scores and the same "
    "weights; one more, with the tanh last, has one order of keys and different weights. What counts is the "
    "weights.",
)  # fmt: skip


# ------------------------------------------------------------- what the functions share


def finish(scores, returns):
    """The scores, or what else came out."""
    if returns == "scores":
        return scores
    return {
        "turned": lambda: scores.T,
        "weights": lambda: softmax(scores),
        "weights of a column": lambda: softmax(scores, axis=0),
        "sum over keys": lambda: scores.sum(-1),
    }[returns]()


RETURNS = (
    Mistake("returns_weights", "You return the softmax of the scores. The scores are asked for.",
            {"returns": "weights"}),
    Mistake("returns_weights", "You return a softmax of the scores, over the queries. The scores are asked "
            "for.", {"returns": "weights of a column"}),
    Mistake("result_transposed", "You have a row for each key. A row belongs to a query, a column to a key.",
            {"returns": "turned"}),
    Mistake("sums_over_keys", "You add up over the keys. Each pair has a score of its own.",
            {"returns": "sum over keys"}),
)  # fmt: skip

ROW_WITH_ROW = (
    "You score row i of q with row i of k only. Every query meets every key: the result has a row for each "
    "query and a column for each key."
)


# ------------------------------------------------------------- cosine


def _cosine(
    q, k, *, norms="both", axis=-1, keep=True, pairs="all", zero=0.0, eps=0.0, eps_product=0.0, of="cosine",
    centred=False, width=False, returns="scores",
):  # fmt: skip
    """`cosine_score`, or a wrong way of computing it."""
    q, k = np.asarray(q, float), np.asarray(k, float)
    if centred:
        q, k = q - q.mean(-1, keepdims=True), k - k.mean(-1, keepdims=True)
    with np.errstate(all="ignore"):
        if norms == "multiplied":
            a, b = np.linalg.norm(q, axis=-1)[:, None], np.linalg.norm(k, axis=-1)
            scores = np.nan_to_num(q @ k.T / a * b)
        elif norms == "added" or eps_product:
            a, b = np.linalg.norm(q, axis=-1)[:, None], np.linalg.norm(k, axis=-1)
            total = a + b if norms == "added" else a * b + eps_product
            scores = np.where(total == 0, 0, q @ k.T / total)
        else:
            u, w = (_divided(x, norms in (name, *LENGTHS), norms, axis, keep, zero, eps)
                    for x, name in ((q, "q"), (k, "k")))  # fmt: skip
            scores = u @ w.T if pairs == "all" else (u * w).sum(-1)
            if zero == 1:
                nothing = ~q.any(-1)[:, None] | ~k.any(-1)
                scores = np.where(nothing, 1, scores) if scores.shape == nothing.shape else scores
        if width:
            scores = scores / np.sqrt(q.shape[-1])
        scores = {
            "cosine": lambda: scores,
            "distance": lambda: 1 - scores,
            "angle": lambda: np.arccos(np.clip(scores, -1, 1)),
            "size": lambda: np.abs(scores),
            "half": lambda: (1 + scores) / 2,
            "positive": lambda: np.maximum(scores, 0),
            "square": lambda: scores**2,
        }[of]()
    return finish(scores, returns)


LENGTHS = {
    "both": lambda x, **axis: np.sqrt((x * x).sum(**axis)),
    "squares": lambda x, **axis: (x * x).sum(**axis),
    "sizes": lambda x, **axis: np.abs(x).sum(**axis),
    "sums": lambda x, **axis: x.sum(**axis),
    "largest": lambda x, **axis: x.max(**axis),
}


def _divided(x, divide, norms, axis, keep, zero, eps):
    if not divide:
        return x
    length = LENGTHS.get(norms, LENGTHS["both"])(x, axis=axis, keepdims=keep)
    result = x / (length + eps)
    return result if zero is None else np.where(np.isnan(result), 0, result)


def _cosine_cases():
    rng = np.random.default_rng(41)

    def case(name, n, m, d, *, hint="", lengths=(1.0, 1.0)):
        q, k = rng.normal(size=(n, d)), rng.normal(size=(m, d))
        return Case(name, (lengths[0] * q, lengths[1] * k), hint=hint)

    def long(n, d, length):
        x = rng.normal(size=(n, d))
        return x / np.linalg.norm(x, axis=-1, keepdims=True) * length

    q, k = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
    q[1], k[3] = 0, 0
    whole = rng.integers(-3, 4, size=(4, 3)), rng.integers(1, 4, size=(2, 3))
    mixed = long(4, 3, rng.uniform(0.2, 50, size=(4, 1))), long(6, 3, rng.uniform(0.2, 50, size=(6, 1)))
    return [
        case("3 queries and 5 keys of width 4", 3, 5, 4),
        case("more queries than keys", 6, 2, 3),
        case("as many queries as keys", 4, 4, 3),
        case("everything equal, four rows of width four", 4, 4, 4),
        Case("rows of very different lengths", mixed, hint="Each row is divided by its own length."),
        Case("short rows, a fifth long", (long(3, 5, 0.2), long(4, 5, 0.2)),
             hint="An epsilon of 1e-6 is fine, a larger one shows here."),
        case("rows a hundred thousand long", 2, 3, 5, lengths=(1e5, 1e5)),
        Case("a query of zeros and a key of zeros", (q, k),
             hint="0/0 is NaN. The score of a row of zeros is 0 by definition."),
        case("a single query and a single key", 1, 1, 6),
        case("width one", 3, 4, 1, hint="Only the signs are left."),
        Case("whole numbers", whole),
    ]


cosine_score = FunctionExercise(
    _cosine,
    _cosine_cases,
    (
        Mistake("no_norms", "That is the dot product. Divide by the lengths of both.", {"norms": "none"}),
        Mistake("one_norm", "You divide by the length of the query only. A long key is still loud.",
                {"norms": "q"}),
        Mistake("one_norm", "You divide by the length of the key only. A long query is still sure of itself.",
                {"norms": "k"}),
        Mistake("squared_norms", "You divide by the squared lengths. A length is the root of the sum of "
                "squares.", {"norms": "squares"}),
        Mistake("sum_of_norms", "You divide by the sum of the two lengths. It is their product that a dot "
                "product contains.", {"norms": "added"}),
        Mistake("multiplied_by_a_length", "You divide by the length of the query and multiply by that of the "
                "key. After a division, a product needs brackets.", {"norms": "multiplied"}),
        Mistake("another_length", "You divide by sums of sizes. The length of a vector is the root of the "
                "sum of its squares.", {"norms": "sizes"}),
        Mistake("another_length", "You divide each row by its sum. The length of a vector is the root of the "
                "sum of its squares.", {"norms": "sums"}),
        Mistake("another_length", "You divide each row by its largest number. The length of a vector is the "
                "root of the sum of its squares.", {"norms": "largest"}),
        Mistake("one_length_for_all", "You divide by the length of the whole array, one number. Each row has "
                "its own length.", {"axis": None}),
        Mistake("wrong_axis", "You take the lengths of the columns. A query is a row; its length is a sum "
                "along the row.", {"axis": 0}),
        Mistake("norm_loses_its_axis", "The lengths lose their axis, and the division is by the lengths of "
                "other rows, or fails. Keep the axis (keepdims).", {"keep": False}),
        Mistake("row_with_row", ROW_WITH_ROW, {"pairs": "rows"}),
        Mistake("zero_is_nan", "A row of zeros has length 0, and 0/0 is NaN. Its score is to be 0.",
                {"zero": None}),
        Mistake("zero_is_one", "A row of zeros scores 1 in yours. It points nowhere: its score is to be 0.",
                {"zero": 1}),
        *(Mistake("large_epsilon", f"You add about {eps:g} to the product of the lengths, and short vectors "
                  "lose part of their score. Treat zero apart, or add 1e-6 at most.", {"eps_product": eps})
          for eps in (1e-4, 1e-3, 1e-2, 0.1, 1.0)),
        *(Mistake("large_epsilon", f"You add about {eps:g} to the lengths, and short vectors lose part of "
                  "their score. Treat zero apart, or add 1e-6 at most.", {"eps": eps})
          for eps in (1e-4, 1e-3, 1e-2, 0.1, 1.0)),
        Mistake("distance", "You return 1 minus the cosine, a distance. The score is large where directions "
                "agree.", {"of": "distance"}, convention=True),
        Mistake("angle", "You return the angle. The score is its cosine.", {"of": "angle"}),
        Mistake("no_sign", "You drop the sign. Opposite directions score -1.", {"of": "size"}),
        Mistake("no_sign", "You square the cosine, and the sign is gone. Opposite directions score -1.",
                {"of": "square"}),
        Mistake("clipped", "You cut off what is below 0. Opposite directions score -1.", {"of": "positive"}),
        Mistake("moved", "You move the scores into 0..1. The cosine goes from -1 to 1.", {"of": "half"}),
        Mistake("scaled", "You divide by the root of the width as well. Lengths are gone already, and with "
                "them the width.", {"width": True}),
        Mistake("centred", "You subtract each row's mean first: that is a correlation. Lengths and angles "
                "are taken from 0.", {"centred": True}),
        *RETURNS,
    ),  # fmt: skip
    "Checked with rows of very different lengths, with short ones and long ones, with rows of zeros and with "
    "whole numbers. What is left is the angle alone, between -1 and 1: before a softmax it needs a "
    "temperature below one.",
)


# ------------------------------------------------------------- general


def _general(
    q, k, w, *, table="w", both=False, pairs="all", scale="none", tanh=False, order="q w k", returns="scores"
):
    """`general_score`, or a wrong way of computing it."""
    q, k, w = (np.asarray(x, float) for x in (q, k, w))
    if table == "none":
        return finish(q @ k.T, returns)
    w = {
        "w": lambda: w,
        "w.T": lambda: w.T,
        "half": lambda: (w + w.T) / 2,
        "sum": lambda: w + w.T,
        "diagonal": lambda: np.diag(np.diag(w)),
        "sizes": lambda: np.abs(w),
    }[table]()
    if order == "k w q":
        scores = k @ w @ q.T
    elif pairs == "rows":
        scores = ((q @ w) * k).sum(-1)
    elif pairs == "products":
        scores = (q @ w) * k
    elif pairs == "not summed":
        scores = (q @ w)[:, None] * k
    elif pairs == "loop":
        scores = np.array([row @ w @ k[i] for i, row in enumerate(q)])
    elif pairs == "no keys":
        scores = q @ w
    elif pairs == "k as it stands":
        scores = q @ w @ k
    else:
        scores = (q @ w) @ ((k @ w) if both else k).T
    scores = np.tanh(scores) if tanh else scores
    scores = scores * {"none": 1.0, "d_k": k.shape[-1] ** -0.5, "d_q": q.shape[-1] ** -0.5}[scale]
    return finish(scores, returns)


def _general_cases():
    rng = np.random.default_rng(42)

    def case(name, n, m, dq, dk, *, hint="", whole=False):
        shapes = (n, dq), (m, dk), (dq, dk)
        draw = (lambda s: rng.integers(-3, 4, size=s)) if whole else (lambda s: rng.normal(size=s))
        return Case(name, (*map(draw, shapes[:2]), rng.normal(size=shapes[2])), hint=hint)

    return [
        case("3 queries of width 4, 5 keys of width 2", 3, 5, 4, 2,
             hint="Write the shape at the end of each line."),
        case("keys wider than queries", 4, 3, 2, 6),
        case("queries and keys of one width", 3, 5, 4, 4,
             hint="A square w goes in either way without an error. Which index belongs to the query?"),
        case("as many queries as keys, of one width", 4, 4, 3, 3),
        case("everything equal, four rows of width four", 4, 4, 4, 4),
        case("a single query", 1, 4, 3, 5),
        case("a single key", 3, 1, 5, 2),
        case("queries and keys of whole numbers", 2, 3, 3, 2, whole=True),
    ]


general_score = FunctionExercise(
    _general,
    _general_cases,
    (
        Mistake("transposed", "You use w transposed. Its rows belong to the numbers of a query, its columns "
                "to those of a key.", {"table": "w.T"}, convention=True),
        Mistake("roles_swapped", "You put the keys before w and the queries after it, and so have a row for "
                "each key.", {"order": "k w q"}),
        Mistake("without_w", "That is the dot product: w is left out.", {"table": "none"}),
        Mistake("symmetric", "You use the mean of w and its transpose, and what a query asks of a key "
                "becomes what a key asks of a query.", {"table": "half"}),
        Mistake("symmetric", "You add the transpose of w to w, and what a query asks of a key becomes what a "
                "key asks of a query.", {"table": "sum"}),
        Mistake("diagonal_only", "You use the diagonal of w alone. Off it stand the rules between different "
                "features.", {"table": "diagonal"}),
        Mistake("no_sign", "You use the sizes of w's numbers. A negative one is a rule against.",
                {"table": "sizes"}),
        Mistake("both_projected", "You send the keys through w as well. w leads from queries to keys; apply "
                "it once.", {"both": True}),
        Mistake("row_with_row", ROW_WITH_ROW, {"pairs": "rows"}),
        Mistake("row_with_row", ROW_WITH_ROW, {"pairs": "loop"}),
        Mistake("row_with_row", "You multiply row i of q @ w by row i of k, number by number. Every query "
                "meets every key, and a score is one number.", {"pairs": "products"}),
        Mistake("not_summed", "Every query meets every key, number by number, and the products are left "
                "side by side. A score is their sum, one number.", {"pairs": "not summed"}),
        Mistake("key_forgotten", "You return q @ w. The keys are still to come.", {"pairs": "no keys"}),
        Mistake("keys_not_turned", "You multiply by k as it stands. Its rows are keys; here each key has to "
                "be a column.", {"pairs": "k as it stands"}),
        Mistake("scaled", "You divide by the root of the keys' width. This score has no scale; w can hold "
                "one.", {"scale": "d_k"}, convention=True),
        Mistake("scaled", "You divide by the root of the queries' width. This score has no scale; w can hold "
                "one.", {"scale": "d_q"}, convention=True),
        Mistake("tanh", "There is no tanh in this score. It is linear in the query and in the key.",
                {"tanh": True}),
        *RETURNS,
    ),  # fmt: skip
    "Checked with widths that differ both ways and with equal ones, where a transposed w would fit, with a "
    "single query, a single key and whole numbers.",
)


# ------------------------------------------------------------- additive


def additive(
    q, k, w_q, w_k, v, *, bend="tanh", pairs="all", joined="+", read="v", swapped=False, turned=(),
    scale=0.0, returns="scores",
):  # fmt: skip
    """`additive_score`, or a wrong way of computing it."""
    q, k, w_q, w_k, v = (np.asarray(x, float) for x in (q, k, w_q, w_k, v))
    if swapped:
        w_q, w_k = w_k, w_q
    a = q @ (w_q if "q" in turned else w_q.T)                           # (Lq, da)
    b = k @ (w_k if "k" in turned else w_k.T)                           # (Lk, da)
    if bend in ("each", "query"):
        a, b = np.tanh(a), np.tanh(b) if bend == "each" else b
    if pairs == "dot":
        return finish(np.tanh(a @ b.T), returns)
    if pairs == "all":
        a, b = a[:, None], b[None]
    elif pairs == "means":
        b = b.mean(0)                                                   # (da,)
    h = {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "q": lambda: a + 0 * b,
         "k": lambda: 0 * a + b}[joined]()  # fmt: skip
    h = {
        "tanh": np.tanh,
        "relu": lambda x: np.maximum(x, 0),
        "sigmoid": lambda x: (1 + np.tanh(x / 2)) / 2,
    }.get(bend, lambda x: x)(h)
    scores = {
        "v": lambda: h @ v,
        "v first": lambda: v @ h,
        "ones": lambda: h.sum(-1),
        "mean": lambda: h.mean(-1),
        "no sum": lambda: h * v,
        "keys": lambda: (h * v).sum(-2),
        "queries": lambda: (h * v).sum(0),
    }[read]()
    scores = np.tanh(scores) if bend == "after v" else scores
    return finish(scores * len(v) ** -scale, returns)


def _additive_cases():
    rng = np.random.default_rng(43)

    def case(name, n, m, dq, dk, da, *, hint="", whole=False, grow=1.0):
        shapes = (n, dq), (m, dk), (da, dq), (da, dk)
        draw = (lambda s: rng.integers(-2, 3, size=s)) if whole else (lambda s: rng.normal(size=s) * grow)
        return Case(name, (*map(draw, shapes), rng.normal(size=da)), hint=hint)

    return [
        case("3 queries of width 4, 5 keys of width 2, 6 hidden numbers", 3, 5, 4, 2, 6,
             hint="Write the shape at the end of each line: (3, 6), (5, 6), then (3, 5, 6)."),
        case("more queries than keys", 5, 2, 3, 4, 7),
        case("as many queries as keys", 4, 4, 3, 5, 2,
             hint="With equal numbers, adding row to row raises no error, and is not what is asked for."),
        case("queries and keys of one width", 3, 4, 5, 5, 2),
        case("everything equal, four rows of width four", 4, 4, 4, 4, 4),
        case("a single query", 1, 4, 3, 2, 5),
        case("a single key", 3, 1, 2, 4, 3),
        case("one hidden number", 3, 4, 2, 3, 1),
        case("large numbers, where the tanh is flat", 3, 2, 4, 3, 5, grow=4.0),
        case("whole numbers, but for v", 2, 3, 3, 2, 4, whole=True),
    ]


NETWORK = (
    Mistake("no_tanh", "There is no tanh in yours. Without it the query's part is the same for all keys, "
            "and every query gets the same weights.", {"bend": "none"}),
    Mistake("tanh_after_v", "You take the tanh last, of one number for each pair. It bends the hidden "
            "numbers, before v adds them up.", {"bend": "after v"}),
    Mistake("tanh_of_each", "You take the tanh of the query's part and of the key's part, each alone. "
            "Add first: only a bend of the sum lets the two meet.", {"bend": "each"}),
    Mistake("tanh_of_each", "You take the tanh of the query's part alone. Add first: only a bend of the "
            "sum lets the two meet.", {"bend": "query"}),
    Mistake("dot_of_parts", "You multiply the two parts as matrices, a dot product. They are added, for "
            "every pair, and v weighs what the tanh gives.", {"pairs": "dot"}),
    Mistake("another_bend", "You cut off at 0 (a ReLU). A tanh is asked for.", {"bend": "relu"}),
    Mistake("another_bend", "You use a sigmoid. A tanh is asked for.", {"bend": "sigmoid"}),
    Mistake("row_with_row", ROW_WITH_ROW + " (The two parts need an axis more each before they "
            "are added.)", {"pairs": "rows"}),
    Mistake("mean_key", "You add the mean of the keys. Every key has its own score.", {"pairs": "means"}),
    Mistake("subtracted", "You subtract the key's part. It is added.", {"joined": "-"}),
    Mistake("key_forgotten", "The keys have no part in your scores.", {"joined": "q"}),
    Mistake("query_forgotten", "The queries have no part in your scores.", {"joined": "k"}),
    Mistake("v_forgotten", "You add up the hidden numbers without v. It says how much each counts, and "
            "with which sign.", {"read": "ones"}),
    Mistake("v_forgotten", "You take the mean of the hidden numbers, without v.", {"read": "mean"}),
    Mistake("hidden_not_summed", "You multiply by v and do not add up. One number for each pair is asked "
            "for.", {"read": "no sum"}),
    Mistake("wrong_axis", "You put v before the hidden numbers, and it meets the axis of the keys. It "
            "belongs to the last axis, the hidden numbers.", {"read": "v first"}),
    Mistake("wrong_axis", "You add up over the keys. The sum runs over the hidden numbers.",
            {"read": "keys"}),
    Mistake("wrong_axis", "You add up over the queries. The sum runs over the hidden numbers.",
            {"read": "queries"}),
    Mistake("scaled", "You divide by the root of the number of hidden numbers. This score has no scale; "
            "v can hold one.", {"scale": 0.5}, convention=True),
    Mistake("scaled", "You divide by the number of hidden numbers. This score is a sum, no mean.",
            {"scale": 1.0}),
)  # fmt: skip


additive_score = FunctionExercise(
    additive,
    _additive_cases,
    (
        *NETWORK,
        Mistake("multiplied", "You multiply the two parts. They are added: hence the name.", {"joined": "*"}),
        Mistake("matrices_swapped", "You use w_k for the queries and w_q for the keys. Where both fit, "
                "nothing complains.", {"swapped": True}),
        Mistake("transposed", "You use w_q and w_k as they stand, rows @ w. Here they lie as in nn.Linear, "
                "hidden numbers first.", {"turned": ("q", "k")}, convention=True),
        Mistake("transposed", "You use w_q as it stands, and w_k transposed. Both have the hidden numbers "
                "first.", {"turned": ("q",)}),
        Mistake("transposed", "You use w_k as it stands, and w_q transposed. Both have the hidden numbers "
                "first.", {"turned": ("k",)}),
        *RETURNS,
    ),  # fmt: skip
    "Checked with all sizes different and with all equal, where wrong ways fit too, with a single query, a "
    "single key and a single hidden number, with whole numbers and where the tanh is flat.",
)


EXERCISES = (
    Exercise(
        "terms_that_count", "04", terms_that_count,
        (
            "Write the score of one query with key 1, key 2 and key 3 below each other. Which terms are the "
            "same in all three lines?",
            "What is the same in the whole row of a query, the softmax takes away. Two of the four are.",
        ),
        'answer = "AC"    # q.b and a.b do not change from key to key',
        "prediction",
    ),
    Exercise(
        "exactly_one", "04", exactly_one,
        (
            "Let both hidden numbers look at how many of the two are there: 0, 1 or 2. Then w_k has equal "
            "numbers in its two columns.",
            "The query is 1, so w_q is what is added to that count before the tanh: it says where the bend "
            "lies. Let one hidden number jump between 0 and 1, the other between 1 and 2.",
            "v adds the first and takes away the second. The more it may, the larger the lead.",
        ),
        """
import numpy as np

w_k = np.array([[6, 6], [6, 6]])          # six times the count: 0, 6 or 12
w_q = np.array([[-3], [-9]])              # one jumps at half a feature, the other at one and a half
v = np.array([5, -5])                     # up at the first jump, down at the second
answer = (w_q, w_k, v)
""",
        "construction",
    ),
    Exercise(
        "query_counts", "04", query_counts,
        (
            "Make a few random queries and keys of your own, all different, several of each. What would be "
            "the same in every row if the query did not count?",
            "Scores may differ from row to row without a weight that differs. Take the softmax first, with "
            "each row's largest score off, so that nothing overflows.",
            "Compare the rows of weights with the first of them. Equal up to rounding, say 1e-8, is equal; "
            "a change in the fourth digit is a change.",
        ),
        """
import numpy as np


def query_counts(score):
    rng = np.random.default_rng(0)
    s = score(rng.normal(size=(8, 4)), rng.normal(size=(5, 6)))     # (8, 5)
    e = np.exp(s - s.max(-1, keepdims=True))
    w = e / e.sum(-1, keepdims=True)                                # (8, 5)
    return bool(np.abs(w - w[0]).max() > 1e-8)
""",
        "test",
    ),
    Exercise(
        "cosine_score", "04", cosine_score,
        (
            "A dot product is length times length times cosine. Divide each row by its own length first, and "
            "the dot product of what is left is the cosine.",
            "The length of a row is the root of the sum of its squares, with the axis kept, so that a column "
            "of lengths divides the rows.",
            "Where the length is 0, divide by something else: the row stays 0, and so does its score.",
        ),
        """
import numpy as np


def cosine_score(q, k):
    def directions(x):
        length = np.linalg.norm(x, axis=-1, keepdims=True)     # (L, 1)
        return x / np.where(length == 0, 1, length)            # (L, d)

    return directions(q) @ directions(k).T                     # (Lq, Lk)
""",
        "function",
    ),
    Exercise(
        "general_score", "04", general_score,
        (
            "Which axis of w belongs to the query, which to the key? Read it off the shape (dq, dk).",
            "q @ w has the shape (Lq, dk). It is a query written in the key's numbers.",
        ),
        """
def general_score(q, k, w):
    return q @ w @ k.T                    # (Lq, dq) (dq, dk) (dk, Lk)
""",
        "function",
    ),
    Exercise(
        "additive_score", "04", additive_score,
        (
            "First the two parts: q @ w_q.T has the shape (Lq, da), k @ w_k.T has (Lk, da).",
            "Every query meets every key: (Lq, 1, da) plus (1, Lk, da) is (Lq, Lk, da). Index with None to "
            "get an axis of length one.",
            "The tanh of that sum; then a product with v sums the last axis away.",
        ),
        """
import numpy as np


def additive_score(q, k, w_q, w_k, v):
    of_query, of_key = q @ w_q.T, k @ w_k.T                    # (Lq, da), (Lk, da)
    hidden = np.tanh(of_query[:, None] + of_key)               # (Lq, Lk, da)
    return hidden @ v                                          # (Lq, Lk)
""",
        "function",
    ),
)  # fmt: skip

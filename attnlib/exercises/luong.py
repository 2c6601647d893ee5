"""Exercises of lesson 04 on what Luong and others have beside dot and general: concat, places, a window."""

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.score_functions import NETWORK, RETURNS, additive

# ------------------------------------------------------------- concat


def _concat(q, k, w, v, *, order="q k", split="dq", turned=False, pairs="all", **choices):
    """`concat_score`, or a wrong way of computing it: an additive score of the two parts of w."""
    q, k, w, v = (np.asarray(x, float) for x in (q, k, w, v))
    if turned:
        w = w.T
        np.broadcast_shapes((q.shape[1] + k.shape[1],), w.shape[1:])   # raises as a product of both does
    if pairs == "joined rows":
        return np.tanh(np.concatenate([q, k], axis=-1) @ w.T) @ v
    if order == "k q":
        w = np.concatenate([w[:, k.shape[1] :], w[:, : k.shape[1]]], axis=1)
    n = {"dq": q.shape[1], "middle": w.shape[1] // 2, "upper middle": (w.shape[1] + 1) // 2}[split]
    at = "all" if pairs == "key by key" else pairs
    scores = additive(q, k, w[:, :n], w[:, n:], v, pairs=at, **choices)
    return scores.T.reshape(scores.shape) if pairs == "key by key" else scores


def _concat_cases():
    rng = np.random.default_rng(45)

    def case(name, n, m, dq, dk, da, *, hint="", whole=False, grow=1.0):
        shapes = (n, dq), (m, dk), (da, dq + dk)
        draw = (lambda s: rng.integers(-2, 3, size=s)) if whole else (lambda s: rng.normal(size=s) * grow)
        return Case(name, (*map(draw, shapes), rng.normal(size=da)), hint=hint)

    return [
        case("3 queries of width 4, 5 keys of width 2, 7 hidden numbers", 3, 5, 4, 2, 7,
             hint="Write the shape at the end of each line. Two vectors one below the other have width 6."),
        case("more queries than keys", 5, 2, 3, 4, 6),
        case("as many queries as keys", 4, 4, 3, 5, 2,
             hint="Joining row to row raises no error here, and is not what is asked for."),
        case("queries and keys of one width", 3, 4, 5, 5, 2),
        case("as many hidden numbers as w has columns", 3, 4, 2, 3, 5,
             hint="A square w goes in either way without an error."),
        case("everything equal, four rows of width four", 4, 4, 4, 4, 4),
        case("a single query", 1, 4, 3, 2, 6),
        case("a single key", 3, 1, 2, 4, 3),
        case("one hidden number", 3, 4, 2, 3, 1),
        case("large numbers, where the tanh is flat", 3, 2, 4, 3, 5, grow=4.0),
        case("whole numbers, but for v", 2, 3, 3, 2, 4, whole=True),
    ]  # fmt: skip


concat_score = FunctionExercise(
    _concat,
    _concat_cases,
    (
        Mistake("key_first", "You put the key on top, [k; q]: the columns of w that are meant for the query "
                "meet the key. The widths add up to the same, so nothing complains.", {"order": "k q"},
                convention=True),
        Mistake("split_in_the_middle", "You cut w in the middle. The query's columns are the first d_q, and "
                "the two widths may differ.", {"split": "middle"}),
        Mistake("split_in_the_middle", "You cut w into two parts of one width, or nearly. The query's "
                "columns are the first d_q.", {"split": "upper middle"}),
        Mistake("transposed", "You use w as it stands, rows @ w. It lies as in nn.Linear, hidden numbers "
                "first.", {"turned": True}),
        Mistake("row_with_row", "You join q and k as they stand, which at best puts row i with row i. Every "
                "query meets every key: first make all pairs.", {"pairs": "joined rows"}),
        Mistake("pairs_out_of_order", "You list the pairs key by key and read the scores off query by query. "
                "Both must run in the same order.", {"pairs": "key by key"}),
        *NETWORK,
        Mistake("multiplied", "You multiply what w makes of the query by what it makes of the key. A product "
                "of w with both, one below the other, is the sum of the two.", {"joined": "*"}),
        *RETURNS,
    ),
    "Checked with widths that differ both ways and with equal ones, with a square w, with a single query, a "
    "single key and a single hidden number. Cut w after d_q columns, and it is the additive score.",
)  # fmt: skip


# ------------------------------------------------------------- location


def _location(
    q, k, w, *, over="the keys' places", rows="first", turned=False, reads="q", scale=False, shifted=True,
    axis=-1, keys_down=False, returns="weights",
):  # fmt: skip
    """`location_weights`, or a wrong way of computing it."""
    q, k, w = (np.asarray(x, float) for x in (q, k, w))
    n = len(k)
    if reads == "k":
        every = k @ w.T                                                 # (Lk, n_places)
    elif reads == "k for the places":
        every = q @ k.T
    else:
        every = q @ (w if turned else w.T)                              # (Lq, n_places)
    if reads == "both":
        every = every[:, :n] + q @ k.T
    if scale:
        every = every / np.sqrt(q.shape[1])
    s = {"first": every[:, :n], "last": every[:, -n:], "queries": every[:, : len(q)], "all": every}[rows]
    if keys_down:
        s, axis = s.T, 0
    if returns == "scores":
        return s
    if over == "all places":
        return softmax(every)[:, :n]
    if over == "all places, then shares":
        with np.errstate(all="ignore"):
            kept = softmax(every)[:, :n]
            return kept / kept.sum(-1, keepdims=True)
    if over == "hidden, not cut":
        return softmax(np.where(np.arange(every.shape[1]) < n, every, -np.inf))
    if over == "zeros":
        return softmax(np.where(np.arange(every.shape[1]) < n, every, 0))[:, :n]
    with np.errstate(all="ignore"):
        top = {True: s.max(axis=axis, keepdims=True), False: 0, "all": s.max()}[shifted]
        e = np.exp(s - top)
        if returns == "shares":
            return s / s.sum(-1, keepdims=True)
        if returns == "exponentials":
            return e
        return e / e.sum(axis=axis, keepdims=True)


def _location_cases():
    rng = np.random.default_rng(46)

    def case(name, n, m, dq, dk, places, *, hint="", whole=False, grow=1.0):
        shapes = (n, dq), (m, dk), (places, dq)
        draw = (lambda s: rng.integers(-2, 3, size=s)) if whole else (lambda s: rng.normal(size=s) * grow)
        return Case(name, tuple(map(draw, shapes)), hint=hint)

    return [
        case("3 queries of width 4, 5 keys, 9 places", 3, 5, 4, 6, 9,
             hint="Five keys stand at the first five places. The rows of the result sum to 1."),
        case("as many keys as places", 2, 7, 3, 2, 7, hint="Nothing has to be cut here."),
        case("more queries than keys", 6, 2, 3, 3, 8),
        case("as many places as a query is wide", 3, 4, 5, 2, 5,
             hint="A square w goes in either way without an error."),
        case("everything equal, four rows of width four", 4, 4, 4, 4, 4),
        case("a single key", 3, 1, 4, 2, 6, hint="One key has all the weight."),
        case("a single query", 1, 4, 2, 3, 6),
        Case("large scores", (np.array([[30.0, 2.0], [0.0, 1.0], [-30.0, 3.0]]), rng.normal(size=(4, 2)),
                              np.column_stack([np.full(4, 40.0), rng.normal(size=4)])),
             hint="The exponential of 710 is already infinite. What may be taken off a row?"),
        case("whole numbers", 2, 3, 3, 2, 5, whole=True),
        Case("a place without a key that scores a thousand more",
             (np.array([[1.0], [0.5], [-1.0]]), rng.normal(size=(2, 1)),
              np.array([[0.0], [1.0], [1000.0], [2000.0]])),
             hint="What does the high score of a place without a key do to the others?"),
    ]  # fmt: skip


def _sums_to_one(case, value, expected):
    value = np.asarray(value, float)
    if value.shape == expected.shape and not np.allclose(value.sum(-1), 1, atol=1e-3):
        return f"Row 0 sums to {value[0].sum():.3g} and not to 1:"
    return None


location_weights = FunctionExercise(
    _location,
    _location_cases,
    (
        Mistake("softmax_before_the_cut", "You take the softmax over all places and cut afterwards: places "
                "without a key keep their share, and the rows do not sum to 1.", {"over": "all places"}),
        Mistake("renormalised", "You take the softmax over all places, cut, and let the rest sum to 1 again. "
                "On paper that is right. But where a place without a key scores far higher than the others, "
                "every share that you keep has become 0, and 0/0 is NaN. Cut first.",
                {"over": "all places, then shares"}),
        Mistake("zero_is_a_score", "Places without a key get the score 0, and with it a weight. The "
                "exponential of 0 is 1: leave them out.", {"over": "zeros"}),
        Mistake("not_cut", "You return a weight for every place. Keys stand only at the first len(k) of "
                "them.", {"rows": "all"}),
        Mistake("hidden_not_cut", "The places without a key have weight 0 in yours, which is right, and they "
                "are still there. The result has a column for each key.", {"over": "hidden, not cut"}),
        Mistake("rows_from_the_end", "You use the last rows of w. The keys stand at the first places.",
                {"rows": "last"}),
        Mistake("cut_to_the_queries", "You cut to as many places as there are queries. It is the keys that "
                "stand at places.", {"rows": "queries"}),
        Mistake("no_softmax", "You return the scores. A softmax makes them weights.", {"returns": "scores"}),
        Mistake("no_softmax", "You divide each score by the sum of its row. Scores may be negative: a "
                "softmax is asked for.", {"returns": "shares"}),
        Mistake("not_normalised", "Your rows do not sum to 1. Divide the exponentials by their sum.",
                {"returns": "exponentials"}),
        Mistake("softmax_over_queries", "Your softmax runs over the queries: the columns sum to 1. The keys "
                "of one query share its weight.", {"axis": 0}),
        Mistake("softmax_over_all", "You divide by the sum of the whole array. Each query has weights that "
                "sum to 1.", {"axis": None}),
        Mistake("overflow", "The exponential of a large score is infinite, and inf/inf is NaN. Take the "
                "row's largest off first.", {"shifted": False}),
        Mistake("one_maximum", "You take the largest of all scores off every row. In a row that lies far "
                "below, each exponential is 0, and 0/0 is NaN. Each row has its own largest.",
                {"shifted": "all"}),
        Mistake("transposed", "You use w transposed. Its rows are places, its columns the numbers of a "
                "query.", {"turned": True}),
        Mistake("keys_in_place_of_queries", "You put the keys through w. A score by place comes from the "
                "query: what stands there has no say.", {"reads": "k"}),
        Mistake("keys_read", "That is the dot product of queries and keys. A score by place does not read "
                "the keys; it only asks how many there are.", {"reads": "k for the places"}),
        Mistake("keys_read", "You add the dot product of queries and keys. A score by place does not read "
                "the keys; it only asks how many there are.", {"reads": "both"}),
        Mistake("scaled", "You divide by the root of the width. This score has no scale; w can hold one.",
                {"scale": True}, convention=True),
        Mistake("result_transposed", "You have a row for each key. A row belongs to a query, a column to a "
                "key.", {"keys_down": True}),
    ),
    "Checked with fewer keys than places and with as many, with a square w, a single key, scores that "
    "overflow and high ones at places without a key. What stands at a place has no say: exchange two keys, "
    "and the weights stay.",
    (_sums_to_one,),
)  # fmt: skip


# ------------------------------------------------------------- local weights


def _local(
    scores, position, half_window, *, sigma="half", exponent="halved", form="bell", bell="after",
    window="inclusive", cut="before", hidden=-np.inf, place="real", bell_place="as the window's", axis=-1,
    shifted=True, softmaxed=True, height=1.0, returns="weights",
):  # fmt: skip
    """`local_weights`, or a wrong way of computing it."""
    scores, position = np.asarray(scores, float), np.asarray(position, float)
    d, n_query, n_key = float(half_window), *scores.shape
    p = _place(position, place, n_query)
    keys = np.arange(n_key)
    if place == "from 1":
        keys = keys + 1
    distance = keys - p[:, None]                                        # (Lq, Lk)
    inside = {
        "inclusive": np.abs(distance) <= d,
        "open": np.abs(distance) < d,
        "before": (distance <= 0) & (distance >= -d),
        "no end": (distance >= -d) & (distance < d),
        "half": np.abs(distance) <= d / 2,
        "none": np.ones(scores.shape, bool),
    }[window]
    centre = p if bell_place == "as the window's" else _place(position, bell_place, n_query)
    away = keys - centre[:, None]
    sigma = {"half": d / 2, "D": d, "twice": 2 * d, "root": np.sqrt(d / 2), "one": 1.0}[sigma]
    away = np.abs(away) / sigma if form == "tent" else (away / sigma) ** 2
    log_bell = -away * {"halved": 0.5, "whole": 1.0, "positive": -0.5}[exponent]
    curve = np.exp(log_bell) * (height if height == 1.0 else 1 / (sigma * np.sqrt(2 * np.pi)))
    with np.errstate(all="ignore"):
        if bell in ("times the scores", "before and after"):
            scores = scores * curve
        elif bell == "on the scores":
            scores = scores + curve
        s = np.where(inside, scores, hidden) if cut == "before" else scores
        if softmaxed:
            top = s.max(axis=axis, keepdims=True)
            top = {True: np.where(np.isfinite(top), top, 0), "all": s.max()}.get(shifted, 0)
            e = np.exp(scores) * inside if shifted == "never, and times 0" else np.exp(s - top)
            total = e.sum(axis=axis, keepdims=True)
            w = e / (np.where(total == 0, 1, total) if shifted is True else total)
        else:
            w = np.where(inside, scores, 0)
        if cut != "before":
            w = np.where(inside, w, 0)
            w = w / w.sum(-1, keepdims=True) if cut == "after, divided" else w
        if bell == "instead":
            w = np.where(inside, curve, 0)
        elif bell == "added":
            w = w + np.where(inside, curve, 0)
        elif bell not in ("none", "times the scores", "on the scores"):
            w = w * curve
        if returns == "divided":
            w = w / w.sum(-1, keepdims=True)
    return w.T if returns == "turned" else w


def _place(position, place, n_query):
    return {
        "rounded": lambda: np.round(position),
        "cut to whole": lambda: np.floor(position),
        "next whole": lambda: np.ceil(position),
        "own": lambda: np.arange(float(n_query)),
        "mean": lambda: np.full(n_query, position.mean()),
    }.get(place, lambda: position)()


def _local_cases():
    rng = np.random.default_rng(47)

    def case(name, position, m, half_window, *, hint="", grow=1.0, whole=False):
        n = len(position)
        scores = rng.integers(-2, 3, size=(n, m)) if whole else rng.normal(size=(n, m)) * grow
        return Case(name, (scores, np.array(position), half_window), hint=hint)

    return [
        case("3 queries, 8 keys, half a window of 2", [2.3, 4.6, 3.8], 8, 2,
             hint="First the softmax over the keys in the window, then the bell."),
        case("half a window of 3", [1.4, 6.7], 9, 3),
        case("places that are whole numbers", [3.0, 5.0, 2.0], 8, 2,
             hint="A key exactly D away is in the window."),
        case("windows that reach beyond both ends", [0.2, 5.9, 6.0], 6, 2,
             hint="What of a window lies outside has no key. The last place may be as large as the number of "
                  "keys."),
        case("the smallest window", [1.5, 0.4, 3.2, 2.0], 5, 1),
        case("a window wider than the sentence", [1.7, 2.2], 4, 10),
        case("as many queries as keys", [3.1, 0.7, 1.6, 2.4], 4, 2),
        case("a single query", [2.6], 7, 2),
        case("a single key", [0.3, 0.9, 1.0], 1, 2),
        case("large scores", [2.3, 4.6, 3.8], 8, 2, grow=3000.0,
             hint="The exponential of 710 is already infinite. What may be taken off a row?"),
        case("whole numbers", [2, 4], 7, 3, whole=True),
    ]  # fmt: skip


def _empty_outside(case, value, expected):
    value = np.asarray(value, float)
    if value.shape == expected.shape and (np.abs(value[expected == 0]) > 1e-6).any():
        return "A key outside its window has a weight:"
    return None


local_weights = FunctionExercise(
    _local,
    _local_cases,
    (
        Mistake("renormalised", "Your rows sum to 1. Either you divide again after the bell, or its exponent "
                "is added to the scores, which comes to the same. Luong's bell takes away and nobody puts "
                "it back.", {"returns": "divided"}),
        Mistake("bell_before_softmax", "You multiply the scores by the bell, before the softmax. A score of "
                "0 is no small weight, and a negative score grows. The bell is for the weights.",
                {"bell": "times the scores"}),
        Mistake("bell_before_softmax", "You add the bell to the scores, before the softmax. The bell is for "
                "the weights.", {"bell": "on the scores"}),
        Mistake("bell_before_softmax", "You use the bell twice, on the scores and on the weights. It is for "
                "the weights alone.", {"bell": "before and after"}),
        Mistake("no_bell", "There is no bell in yours: all keys of the window are treated alike.",
                {"bell": "none"}),
        Mistake("bell_alone", "You return the bell. The softmax of the scores is missing.",
                {"bell": "instead"}),
        Mistake("bell_added", "You add the bell to the weights. It multiplies them.", {"bell": "added"}),
        Mistake("no_softmax", "You multiply the scores by the bell. First the softmax makes them weights.",
                {"softmaxed": False}),
        Mistake("wide_bell", "Your bell has the spread D. The spread is D/2, so that it has nearly faded at "
                "the window's edge.", {"sigma": "D"}),
        Mistake("wide_bell", "Your bell has the spread 2 D. The spread is D/2, so that it has nearly faded "
                "at the window's edge.", {"sigma": "twice"}),
        Mistake("spread_not_squared", "You divide the squared distance by D, so D/2 is the square of your "
                "spread. In the exponent the spread is squared too.", {"sigma": "root"}),
        Mistake("spread_left_out", "Your bell has the spread 1 for every D. It is to be D/2.",
                {"sigma": "one"}),
        Mistake("two_left_out", "Your exponent lacks the 2: the squared distance is divided by two times the "
                "squared spread.", {"exponent": "whole"}),
        Mistake("sign", "Your exponent is positive: the bell grows with the distance. It has a minus sign.",
                {"exponent": "positive"}),
        Mistake("distance_not_squared", "Your exponent has the distance. Its square is asked for.",
                {"form": "tent"}),
        Mistake("density", "You divide by the area below the bell, as a density does. This bell has height "
                "1: a key exactly at p keeps its weight.", {"height": "density"}),
        Mistake("position_rounded", "You round p. It is a real number, and the bell stands where p is.",
                {"place": "rounded"}),
        Mistake("position_rounded", "You round p for the bell. It is a real number, and the bell stands "
                "where p is.", {"bell_place": "rounded"}),
        Mistake("position_rounded", "You cut p down to a whole number. It is a real number, and the bell "
                "stands where p is.", {"place": "cut to whole"}),
        Mistake("position_rounded", "You cut p down to a whole number for the bell, which stands where p is.",
                {"bell_place": "cut to whole"}),
        Mistake("position_rounded", "You round p up. It is a real number, and the bell stands where p is.",
                {"place": "next whole"}),
        Mistake("window_rounded", "You round p for the window, so that its edges are off by up to a half.",
                {"place": "rounded", "bell_place": "real"}),
        Mistake("window_rounded", "You cut p down to a whole number for the window, so that its edges are "
                "off.", {"place": "cut to whole", "bell_place": "real"}),
        Mistake("no_window", "You do not cut the window: your softmax runs over all keys, and those beyond D "
                "keep a share.", {"window": "none"}),
        Mistake("cut_after_softmax", "You take the softmax over all keys and cut the window afterwards. Keys "
                "outside keep their share of the sum, and those inside get too little.", {"cut": "after"}),
        Mistake("zero_is_a_score", "Keys outside the window get the score 0, and with it a weight. The "
                "exponential of 0 is 1.", {"hidden": 0.0}),
        Mistake("open_window", "A key exactly D away is missing. The window includes its ends.",
                {"window": "open"}),
        Mistake("open_window", "A key exactly D to the right is missing. A slice leaves out its end.",
                {"window": "no end"}),
        Mistake("half_window_halved", "Your window is D wide in all. It is D to each side.",
                {"window": "half"}),
        Mistake("one_side", "Your window looks back only. It reaches D to either side of p.",
                {"window": "before"}),
        Mistake("own_place", "Your window stands around the query's own place. It stands around p.",
                {"place": "own"}),
        Mistake("one_position_for_all", "You use one place for all queries. Each has its own.",
                {"place": "mean"}),
        Mistake("counted_from_1", "You count the keys from 1. Key 0 lies at 0.", {"place": "from 1"}),
        Mistake("softmax_over_queries", "Your softmax runs over the queries. The keys of one query share its "
                "weight.", {"axis": 0}),
        Mistake("softmax_over_all", "You divide by the sum of the whole array. Each query has its own "
                "softmax.", {"axis": None}),
        Mistake("overflow", "The exponential of a large score is infinite, and inf/inf is NaN. Take the "
                "largest of the window off first.", {"shifted": False}),
        Mistake("one_maximum", "You take the largest of all scores off every row. In a row that lies far "
                "below, each exponential is 0, and 0/0 is NaN. Each window has its own largest.",
                {"shifted": "all"}),
        Mistake("overflow", "The exponential of a large score is infinite, and inf times 0 is NaN. Take the "
                "largest of the window off first.", {"shifted": "never, and times 0"}),
        Mistake("result_transposed", "You have a row for each key. A row belongs to a query, a column to a "
                "key.", {"returns": "turned"}),
    ),
    "Checked with places between keys and on them, with windows beyond both ends, with one wider than the "
    "sentence and with scores that overflow. The rows sum to less than 1, the less the farther what they "
    "found lies from p.",
    (_empty_outside,),
)  # fmt: skip


EXERCISES = (
    Exercise(
        "concat_score", "04", concat_score,
        (
            "A product of w with [q; k] is one part of w times q plus the other part times k. Which columns "
            "belong to the query?",
            "Cut w after d_q columns. Then every query meets every key: (Lq, 1, da) plus (1, Lk, da).",
            "The tanh of that sum; then a product with v sums the last axis away.",
        ),
        """
import numpy as np


def concat_score(q, k, w, v):
    n = q.shape[1]
    of_query, of_key = q @ w[:, :n].T, k @ w[:, n:].T          # (Lq, da), (Lk, da)
    return np.tanh(of_query[:, None] + of_key) @ v             # (Lq, Lk)
""",
        "function",
    ),
    Exercise(
        "location_weights", "04", location_weights,
        (
            "The keys stand at the first places. Which rows of w have a key?",
            "Leave the other rows out before anything is added up: what a softmax has seen keeps its share.",
            "(Lq, dq) times the transpose of the first len(k) rows gives (Lq, Lk); its softmax runs along "
            "the rows.",
        ),
        """
import numpy as np


def location_weights(q, k, w):
    s = q @ w[:len(k)].T                                       # (Lq, Lk)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)                        # (Lq, Lk)
""",
        "function",
    ),
    Exercise(
        "local_weights", "04", local_weights,
        (
            "First the distance of each key from each p, with its sign: shape (Lq, Lk). Both the window and "
            "the bell are made of it.",
            "Outside the window a score is minus infinity, so that the softmax gives 0 and the others share "
            "everything.",
            "Only then the bell, with the spread D/2, and nothing after it: the rows may sum to less than 1.",
        ),
        """
import numpy as np


def local_weights(scores, position, half_window):
    distance = np.arange(scores.shape[1]) - position[:, None]  # (Lq, Lk)
    s = np.where(np.abs(distance) <= half_window, scores, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    w = e / e.sum(-1, keepdims=True)                           # rows sum to 1
    sigma = half_window / 2
    return w * np.exp(-distance**2 / (2 * sigma**2))           # and now to less
""",
        "function",
    ),
)  # fmt: skip

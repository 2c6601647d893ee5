"""Lesson 22: what ReLU cannot tell apart, both signs in a function, and a power that evens a row."""

import numpy as np

from attnlib.exercises.answers import numbers
from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, wrong


def _parts(x):
    return np.maximum(x, 0), np.maximum(-x, 0)


def _brackets(q, k):
    """The sums of products of like signs, and of unlike signs."""
    (a, b), (c, d) = _parts(q), _parts(k)
    return a @ c + b @ d, a @ d + b @ c


# ------------------------------------------------------------- twins


def relu_twins(answer):
    """A query and two keys which ReLU cannot tell apart, though one fits and the other does not."""
    vectors, complaint = numbers(answer, (3, 4), "your answer")
    if complaint:
        return complaint
    if (vectors != vectors.round()).any() or np.abs(vectors).max() > 5:
        return wrong("Whole numbers from -5 to 5, please.", "range")
    q, first, second = vectors
    told = f"q . k1 is {q @ first:g} and q . k2 is {q @ second:g}. "
    if q @ first <= -8 and q @ second >= 8:
        return wrong(told + "The order is q, the key that fits, the key that does not.", "exchanged")
    if q @ first < 8 or q @ second > -8:
        return wrong(
            told + "The first must be at least 8, the second at most -8. Large numbers at the same "
            "place, with like signs and with unlike ones, do that.",
            "products",
        )
    kept = [float(np.maximum(q, 0) @ np.maximum(key, 0)) for key in (first, second)]
    if kept == [0, 0]:
        seen = "The query has no positive number" if q.max() <= 0 else "No positive number meets another"
        return wrong(
            f"For ReLU both products are 0, and 0/0 is no weight. {seen}. Leave something that "
            "ReLU sees, the same for both keys.",
            "nothing_seen",
        )
    if kept[0] != kept[1]:
        return wrong(
            f"For ReLU the products are {kept[0]:g} and {kept[1]:g}, so it tells the keys apart. "
            "Let them be alike where the query is positive, as far as ReLU sees.",
            "told_apart",
        )
    like = [float(_brackets(q, key)[0]) for key in (first, second)]
    if like[0] <= like[1]:
        return wrong(
            f"The products of like signs are {like[0]:g} for the first key and {like[1]:g} for the "
            "second. The first is to have more: where do two negative numbers meet?",
            "like_signs",
        )
    return right(
        f"ReLU has {kept[0]:g} for both, of {q @ first:g} and {q @ second:g}. Like signs have {like[0]:g} "
        f"and {like[1]:g}. What decides stands where the query is negative: there ReLU sees neither two "
        "negatives, which speak for a pair, nor unlike signs, which speak against it."
    )


# ------------------------------------------------------------- both signs


def _features(x, power, signs, powered):
    plus, minus = _parts(x)
    if signs == "kept":
        minus = np.minimum(x, 0)
    elif signs == "none":
        plus, minus = x, -x
    elif signs == "abs":
        plus = minus = np.abs(x)
    if not powered:
        return plus, minus
    if signs == "power_first":
        return np.maximum(x**power, 0), np.maximum((-x) ** power, 0)
    if signs == "added":
        return (plus**power + minus**power,) * 2
    return plus**power, minus**power


def _t(x):
    return np.swapaxes(x, -1, -2)


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@np.errstate(all="ignore")
def _polarity(q, k, v, power, *, signs="relu", powered="features", pairs="right", order="right",
              values="halves", below="own"):  # fmt: skip
    a, b = _features(q, power, signs, powered in ("features", "queries"))
    c, d = _features(k, power, signs, powered in ("features", "keys"))
    products = {"++": a @ _t(c), "--": b @ _t(d), "+-": a @ _t(d), "-+": b @ _t(c)}
    if powered == "products":
        products = {name: table**power for name, table in products.items()}
    like, unlike = products["++"] + products["--"], products["+-"] + products["-+"]
    if pairs == "positive_queries":
        like, unlike = products["++"], products["+-"]
    elif pairs == "of_a_kind":
        like, unlike = products["++"], products["--"]
    elif pairs == "like_twice":
        unlike = like
    elif pairs == "difference":
        like = unlike = like - unlike
    elif pairs == "whole_signs":
        like, unlike = np.maximum(like - unlike, 0), np.maximum(unlike - like, 0)
    elif pairs == "relu_alone":
        like = unlike = products["++"]
    elif pairs == "only_+-":
        unlike = products["+-"]
    elif pairs == "only_-+":
        unlike = products["-+"]
    elif pairs == "negative_keys":
        like, unlike = products["++"] + products["-+"], products["--"] + products["+-"]
    if powered == "sums":
        like, unlike = like**power, unlike**power
    half = v.shape[-1] // 2
    v1, v2 = {"halves": (v[..., :half], v[..., half:]), "exchanged": (v[..., half:], v[..., :half]),
              "interleaved": (v[..., ::2], v[..., 1::2]), "first_twice": (v[..., :half], v[..., :half]),
              "whole": (v, v)}[values]  # fmt: skip
    outs = []
    for table, part, other in ((like, v1, unlike), (unlike, v2, like)):
        own = table.sum(-1, keepdims=True)
        total = {"own": lambda own=own: own, "none": lambda: 1.0, "count": lambda: k.shape[-2],
                 "like": lambda: like.sum(-1, keepdims=True),
                 "other": lambda other=other: other.sum(-1, keepdims=True),
                 "mean": lambda own=own: own / k.shape[-2],
                 "all": lambda table=table: table.sum(),
                 "shared": lambda: (like + unlike).sum(-1, keepdims=True),
                 "columns": lambda table=table: table.sum(-2, keepdims=True),
                 "softmax": lambda: 1.0}[below]()  # fmt: skip
        table = _softmax(table) if below == "softmax" else table
        outs.append(table / total @ part if below == "columns" else table @ part / total)
    if order == "exchanged":
        outs = outs[::-1]
    if order == "negated":
        outs[1] = -outs[1]
    if order == "stacked":
        return np.concatenate(outs, -2)
    if order == "added":
        return outs[0] + outs[1]
    if order == "interleaved" and outs[0].shape == outs[1].shape:
        return np.stack(outs, -1).reshape(*outs[0].shape[:-1], -1)
    return np.concatenate(outs, -1)


def _cases():
    rng = np.random.default_rng(220)

    def case(name, shape_q, shape_k, dv, power, hint="", size=1.0, kind=np.float64):
        arrays = (rng.normal(size=shape_q) * size, rng.normal(size=shape_k) * size,
                  rng.normal(size=(*shape_k[:-1], dv)))  # fmt: skip
        return Case(name, (*(a.astype(kind) for a in arrays), power), hint=hint)

    return [
        case(
            "3 queries and 5 keys of width 4, power 1",
            (3, 4),
            (5, 4),
            6,
            1,
            hint="Look at one table at a time. Like signs are relu(q) . relu(k) + relu(-q) . relu(-k); each "
            "row is divided by its sum, and nothing else is done to it.",
        ),
        case(
            "the same sizes, power 3",
            (3, 4),
            (5, 4),
            6,
            3,
            hint="Each feature is raised to the power, before anything is multiplied or summed.",
        ),
        case(
            "power 2",
            (4, 5),
            (3, 5),
            2,
            2,
            hint="An even power makes minus into plus. Are the signs taken before it?",
        ),
        case(
            "power 1.5",
            (2, 6),
            (4, 6),
            8,
            1.5,
            hint="A negative number has no power of 1.5. Is anything negative when the power is taken?",
        ),
        case("a batch of 2", (2, 3, 4), (2, 5, 4), 2, 3),
        case("2 by 3 heads, 4 tokens of width 4", (2, 3, 4, 4), (2, 3, 4, 4), 4, 1),
        case("40 tokens", (40, 8), (40, 8), 8, 3),
        case("longer vectors", (3, 4), (4, 4), 4, 2, size=5.0),
        case("float32", (4, 6), (5, 6), 4, 3, kind=np.float32),
    ]


_POLARITY_MISTAKES = (
    Mistake("negatives_lost", "Only positive numbers of the query are looked at. Two negative ones are of "
            "like signs, too.", {"pairs": "positive_queries"}),
    Mistake("of_a_kind", "The first half has the products of two positive parts, the second those of two "
            "negative parts. Like signs are both of these; unlike signs are one of each.",
            {"pairs": "of_a_kind"}),
    Mistake("keys_grouped", "You group by the sign of the key alone. Like signs means that query and key "
            "have the same.", {"pairs": "negative_keys"}),
    Mistake("like_twice", "Both halves have the weights of like signs. The second half has those of unlike "
            "signs: exchange the halves of the query's features.", {"pairs": "like_twice"}),
    Mistake("relu_alone", "Both halves have the products of two positive parts alone, as ReLU has them. "
            "Where are two negative ones, and unlike signs?", {"pairs": "relu_alone"}),
    Mistake("one_unlike", "Unlike signs are of two kinds. A negative query number with a positive key "
            "number is missing.", {"pairs": "only_+-"}),
    Mistake("one_unlike", "Unlike signs are of two kinds. A positive query number with a negative key "
            "number is missing.", {"pairs": "only_-+"}),
    Mistake("sign_of_the_sum", "You look at the sign of the whole product q . k, after the sum. Signs are "
            "compared feature by feature, and a pair has like and unlike ones at once.",
            {"pairs": "whole_signs"}),
    Mistake("subtracted", "You subtract unlike from like and divide by that. Its rows may sum to 0. Each "
            "table stays positive and has values of its own.", {"pairs": "difference"}),
    Mistake("signs_kept", "The negative part still has its minus, and a negative number has no power of 1.5. "
            "It is relu(-x).", {"signs": "kept"}),
    Mistake("no_relu", "Without the ReLU x and -x go in as they are, so both parts have all numbers.",
            {"signs": "none"}),
    Mistake("signs_lost", "Both parts hold |x|, so like and unlike signs come to the same.",
            {"signs": "abs"}),
    Mistake("signs_lost", "The two parts are added after the power. They stay apart, side by side.",
            {"signs": "added"}),
    Mistake("power_first", "The power is taken before the ReLU, and an even one makes minus into plus. First "
            "the sign, then the power.", {"signs": "power_first"}),
    Mistake("no_power", "The power has no effect. Is it left out? Or is it a factor, which the division "
            "takes out again?", {"powered": "none"}),
    Mistake("power_of_sums", "The power is taken of whole sums. It is taken of each feature, before the "
            "products; only so may the brackets be moved.", {"powered": "sums"}),
    Mistake("power_of_sums", "The power is taken of the products of two parts, after the sum over features. "
            "It is taken of each feature.", {"powered": "products"}),
    Mistake("power_of_one", "The power is taken of the queries' features alone. Keys get it, too.",
            {"powered": "queries"}),
    Mistake("power_of_one", "The power is taken of the keys' features alone. Queries get it, too.",
            {"powered": "keys"}),
    Mistake("tables_exchanged", "The first half has the weights of unlike signs and the second those of like "
            "signs: the other way round.", {"values": "exchanged", "order": "exchanged"}),
    Mistake("halves_exchanged", "Each table averages the other half of v.", {"values": "exchanged"}),
    Mistake("output_exchanged", "The two halves of the output stand in each other's place.",
            {"order": "exchanged"}),
    Mistake("interleaved", "You take every second feature of v. Its first half and its second half are "
            "asked for.", {"values": "interleaved"}),
    Mistake("interleaved", "The halves of the output are mixed like a zip. They stand one behind the other.",
            {"order": "interleaved"}),
    Mistake("first_twice", "Both tables average the first half of v.", {"values": "first_twice"}),
    Mistake("whole_values", "Both tables average all of v, so the output is twice as wide. Each has a half.",
            {"values": "whole"}),
    Mistake("halves_added", "The two halves of the output are added. They stand one behind the other.",
            {"order": "added"}),
    Mistake("negated", "The second half has the opposite sign. It is an average like the first; a minus "
            "comes later, with what a model learns.", {"order": "negated"}),
    Mistake("stacked", "The second half stands below the first, as further queries. Join them along the last "
            "axis.", {"order": "stacked"}),
    Mistake("no_denominator", "Nothing is divided. Each half is an average.", {"below": "none"}),
    Mistake("denominator_counts", "You divide by the number of keys. Divide each row by the sum of its "
            "weights.", {"below": "count"}),
    Mistake("one_denominator", "Both halves are divided by the sum of like signs. Unlike signs have their "
            "own.", {"below": "like"}),
    Mistake("one_denominator", "Both halves are divided by the sum of like and unlike signs together. Each "
            "has its own.", {"below": "shared"}),
    Mistake("denominators_exchanged", "Like signs are divided by the sum of unlike signs, and the other way "
            "round. Each has its own.", {"below": "other"}),
    Mistake("mean_below", "You divide a sum over the keys by a mean over them, so the output is as many "
            "times too large as there are keys. Take the sum in both places, or the mean.",
            {"below": "mean"}),
    Mistake("sum_of_all", "You divide by the sum of the whole table. Each query's row has a sum of its own.",
            {"below": "all"}),
    Mistake("columns", "You divide by sums over the queries. Weights are shares over the keys.",
            {"below": "columns"}),
    Mistake("softmax", "The products go through a softmax. Here they are divided by their sum.",
            {"below": "softmax"}),
)  # fmt: skip


def _one_half(case, value, expected):
    """A property of results: not one half alone is right."""
    value = floats(value)
    if value is None or value.shape != expected.shape:
        return None
    halves = zip(np.split(value, 2, -1), np.split(expected, 2, -1), strict=True)
    first, second = (np.allclose(a, b, 1e-3, 1e-4) for a, b in halves)
    if first and not second:
        return (
            "The first half is right, and the second is not. Were the halves of the features exchanged, in "
            "the query or in the key and not in both, in one piece and for each token by itself?"
        )
    return "The second half is right, and the first is not." if second and not first else None


polarity_attention = FunctionExercise(
    compute=_polarity,
    cases=_cases,
    mistakes=_POLARITY_MISTAKES,
    praise="All cases agree: powers of 1, 2, 3 and 1.5, as many queries as keys and not, any axes in front. "
           "If you made no table of queries by keys, the cost grows with the number of tokens.",
    properties=(in_torch, few_digits, _one_half),
    rtol=1e-3,
    atol=1e-4,
)  # fmt: skip

# ------------------------------------------------------------- a power that evens


def _entropy(p):
    p = p[p > 0]
    return abs(float((p * np.log(p)).sum()))


def evener_power(answer):
    """A query and two keys whose row has more entropy at power 2 than at power 1."""
    vectors, complaint = numbers(answer, (3, 4), "your answer")
    if complaint:
        return complaint
    if vectors.min() < 0 or vectors.max() > 10:
        return wrong("Numbers from 0 to 10, please.", "range")
    q, keys = vectors[0], vectors[1:]
    rows = []
    for power in (1, 2):
        products = keys**power @ q**power
        if products.sum() < 1e-9:
            return wrong(
                "Both products are 0, so the row is 0/0. The query must meet a key somewhere.", "empty_row"
            )
        rows.append(products / products.sum())
    before, after = map(_entropy, rows)
    said = " and ".join(f"{a:.2f} / {b:.2f} at power {p}" for p, (a, b) in zip((1, 2), rows, strict=True))
    told = f"The weights are {said}, their entropy {before:.3f} and {after:.3f}. "
    if after - before >= 0.02:
        return right(
            told + "A power makes large features stand out, and a sum of many small ones lose. "
            "Where the many were ahead, it brings the row together. Rows become surer as a rule, "
            "and not by law."
        )
    if before == 0:
        return wrong(
            told
            + "One key has no feature in common with the query, so the other gets all, at any power. Let "
            "the query meet both.",
            "one_key",
        )
    if before > np.log(2) - 1e-3:
        return wrong(
            told + "At power 1 the row is even, and there is no more entropy than that. Begin with "
            "a row that prefers one key.",
            "even_already",
        )
    if (keys > 0).sum(-1).max() <= 1 or (q > 0).sum() <= 1:
        return wrong(
            told + "Each product comes from one feature, and the power of a ratio is farther from "
            "1. You need a sum of several.",
            "one_feature",
        )
    if after > before:
        return wrong(
            told + "The right direction; not enough of it. At power 2 the two should be about "
            "equal, at power 1 as far apart as they can.",
            "too_little",
        )
    if rows[0].argmax() != rows[1].argmax():
        return wrong(
            told + "The power takes the lead from one key and gives it to the other, with more than the "
            "first had. In between lies the power that evens the row: let it be about 2.",
            "overtaken",
        )
    if abs(after - before) < 1e-6:
        return wrong(told + "Nothing changes. Give the two keys their products in different ways.", "same")
    return wrong(
        told + "The leader has the large feature, and the power makes it larger still. Which kind "
        "of leader loses by it?",
        "surer",
    )


_TWINS_SOLUTION = """
answer = [
    [1, -3, 0, 0],          # q: ReLU sees the 1 alone
    [1, -3, 0, 0],          # 1 + 9 = 10
    [1, 3, 0, 0],           # 1 - 9 = -8
]
"""

_POLARITY_SOLUTION = """
import numpy as np


def polarity_attention(q, k, v, power):
    def features(x):
        return np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)], -1) ** power

    a, b = features(q), features(k)
    swapped = np.roll(a, q.shape[-1], -1)
    outs = []
    for side, part in zip((a, swapped), np.split(v, 2, -1)):
        above = side @ (b.swapaxes(-1, -2) @ part)
        below = side @ b.sum(-2)[..., None]
        outs.append(above / (below + 1e-12))
    return np.concatenate(outs, -1)
"""

_EVENER_SOLUTION = """
answer = [
    [1, 1, 1, 1],
    [2, 0, 0, 0],           # 2 at power 1, 4 at power 2
    [1, 1, 1, 1],           # 4 at power 1, 4 at power 2
]
"""

EXERCISES = (
    Exercise("relu_twins", "22", relu_twins, (
        "Begin with the lesson's query (2, -3) and its keys A and B. What makes ReLU see them alike?",
        "Where the query is negative ReLU sees nothing. Put there what decides: a large negative number of "
        "the one key, a large positive one of the other.",
        "Where the query is positive, let both keys have the same positive number, so that ReLU has "
        "something to see.",
    ), _TWINS_SOLUTION, "construction"),
    Exercise("polarity_attention", "22", polarity_attention, (
        "Make a function of x first that gives relu(x) and relu(-x) side by side, each raised to the power. "
        "Its result has 2 d features.",
        "With a of the query and b of the key, a . b is like signs. Exchange the halves of a, and it is "
        "unlike signs. np.roll by d along the last axis does that.",
        "For each of the two: above is side @ (b^T @ half of v), below is side @ (sum of b over the keys). "
        "Divide, then put the two results one behind the other.",
    ), _POLARITY_SOLUTION, "function"),
    Exercise("evener_power", "22", evener_power, (
        "Take a query of ones. Then a product is a sum of the key's numbers, at power 2 of their squares.",
        "The sum of (1, 1, 1, 1) is 4, and so is the sum of its squares. Which key has a smaller sum, and "
        "squares that catch up?",
        "One number alone: (c, 0, 0, 0) has c and c squared.",
    ), _EVENER_SOLUTION, "construction"),
)  # fmt: skip

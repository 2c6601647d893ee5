"""The exercises of lesson 01: each judge takes an answer and returns a verdict."""

from dataclasses import replace

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.answers import as_floats, letter, numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, wrong

PLANE_KEYS = np.array([[4.0, 0.0], [1.0, 4.0], [-4.0, 2.0], [-0.5, -1.0], [1.0, 2.0]])
NAMES = "ABCDE"


def outvoted(copies):
    """How many keys of score 0 does it take to outweigh one key of score 2?"""
    number, complaint = numbers(copies, (), "your answer")
    if complaint:
        return complaint
    if abs(float(number) - np.exp(2)) < 0.05:
        return wrong("That is where the two tie, and copies come in whole numbers. Which way do you round?")
    if number != round(float(number)) or number < 1:
        return wrong(f"Give a whole number of copies, at least 1; got {float(number):g}.")
    number = float(number)
    single = np.exp(2) / (np.exp(2) + number)
    if single >= 0.5:
        reason = " Weights go by exponentials of scores, not by scores." if number <= 3 else ""
        return wrong(
            f"With {number:.0f} copies the single key still holds {single:.3f} of the weight.{reason}",
            "scores_not_exponentials" if reason else None,
        )
    if number > 8:
        return wrong(f"{number:g} copies are enough, but fewer will do.", "not_the_least")
    return right(
        f"Each copy counts exp(0) = 1 against exp(2) = 7.39, so eight together win with {1 - single:.3f}. "
        "A crowd of poor matches outvotes one good match: keep this in mind for long texts."
    )


def half_and_half(query):
    """A query that splits its weight evenly between A and B and leaves next to nothing to the rest."""
    query, complaint = numbers(query, (2,), "your query")
    if complaint:
        return complaint
    if not query.any():
        return wrong(
            "The zero query scores every key 0 and gives each a fifth. It needs a direction.", "zero"
        )
    if np.abs(query).max() > 1e200:
        return wrong("Such large numbers overflow. A query of ordinary length will do.")
    scores = PLANE_KEYS @ query
    weights = softmax(scores)
    told = f"The weights are {_named(weights)}. "
    if min(weights[0], weights[1]) >= 0.49:
        return right(
            told + "A query at a right angle to the line from A to B scores both the same; yours is near "
            "enough to that, and long enough to leave the others behind."
        )
    gap, size = scores[0] - scores[1], np.linalg.norm(query)
    if abs(gap) <= 0.01 * size:
        if scores[0] < 0:
            return wrong(
                told + "A and B score alike, but the query points away from both: turn it round.",
                "opposite_direction",
            )
        if weights[:2].sum() > 0.98:
            return wrong(
                told
                + f"q.A is {scores[0]:.3f} and q.B is {scores[1]:.3f}. The direction is nearly right, and "
                "a long query makes much of the difference that is left.",
                "too_long",
            )
        return wrong(
            told + "A and B score alike; the others still hold too much. "
            "What happens to the gaps between scores when the query grows?",
            "too_short",
        )
    midpoint = PLANE_KEYS[0] + PLANE_KEYS[1]
    if query @ midpoint > 0.9999 * size * np.linalg.norm(midpoint):
        return wrong(
            told + "You point at the middle between A and B, but B is the longer key and gains from its "
            "length. Ask for equal dot products, not for the middle.",
            "midpoint",
        )
    return wrong(
        told + f"q.A is {scores[0]:.3f} and q.B is {scores[1]:.3f}. Equal weights need equal dot products. "
        "In which directions is q.(A - B) zero?"
    )


def never_wins(name):
    """The key that no query but zero gives the largest weight."""
    name, complaint = letter(name, NAMES)
    if complaint:
        return complaint
    index = NAMES.index(name)
    angles = np.radians(np.arange(0, 360, 5))
    queries = np.round(4 * np.stack([np.cos(angles), np.sin(angles)], -1), 1)
    weights = softmax(queries @ PLANE_KEYS.T)
    if name == "E":
        return right(
            "E lies inside the shape that the other four span, so in every direction one of them reaches "
            f"further. It leads for {int((weights.argmax(-1) == index).sum())} of {len(queries)} queries "
            "tried all around. E is a weighted mean of the others, so its score is the "
            "same mean of theirs and cannot exceed them all."
        )
    best, most = queries[weights[:, index].argmax()], weights[:, index].max()
    reason = (
        " It is the shortest key, but it stands at the edge of the set, and some direction has it in front."
        if name == "D"
        else ""
    )
    return wrong(
        f"The query ({best[0]:g}, {best[1]:g}) gives {name} the weight {most:.2f}.{reason}",
        "shortest_key" if reason else None,
    )


def book_scores(scores):
    """Scores whose softmax weighs five books alike and the sixth half as much."""
    scores, complaint = numbers(scores, (6,), "your scores")
    if complaint:
        return complaint
    target = np.array([2.0] * 5 + [1.0]) / 11
    weights = softmax(scores)
    if np.allclose(weights, target, atol=1e-3):
        return right(
            f"The weights are {_list(weights)}. Rounded they are the printed ones, so the article "
            "rounded and was not wrong. Twice the weight is log 2 = 0.69 more score."
        )
    shown = f"The softmax of your scores is {_list(weights)}. "
    alike = np.ptp(scores[:5]) < 1e-3
    gap = scores[:5].mean() - scores[5]
    if alike and abs(scores[0] - 2 * scores[5]) < 0.005 and scores[5] > 0:
        return wrong(
            shown
            + "Your numbers have the ratio that the weights should have. As scores they differ too "
            + ("little" if gap < np.log(2) else "much")
            + ": a difference of scores is a ratio of weights.",
            "weights_as_scores",
        )
    if alike and abs(gap - 1) < 1e-3:
        return wrong(
            shown
            + "A difference of 1 is a ratio of exp(1) = 2.72, and you need a ratio of 2. A logarithm to "
            "base 2 gives this too.",
            "difference_of_one",
        )
    if alike and abs(gap - np.log10(2)) < 1e-3:
        return wrong(shown + "Your logarithm has base 10; the softmax's exponential has base e.", "log10")
    if alike and abs(gap + np.log(2)) < 1e-3:
        return wrong(shown + "The sixth book came out twice as heavy, not half.", "upside_down")
    return wrong(
        shown + "The first five must be equal and each twice the last. By how much must two scores "
        "differ for one weight to be twice the other?"
    )


def hidden_fault(answer):
    """Values, different from the keys, on which averaging the keys instead cannot be noticed."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 3:
        return wrong("Give three arrays: (query, keys, values).")
    arrays = {}
    for name, given in zip(("query", "keys", "values"), answer, strict=True):
        arrays[name] = array = as_floats(given)
        if array is None:
            return wrong(f"{name} must be an array of numbers; got {short(given)}.")
        if not np.isfinite(array).all() or (np.abs(array) > 100).any():
            return wrong(f"Keep all numbers of {name} between -100 and 100.")
    query, keys, values = arrays.values()
    if query.ndim != 1 or keys.ndim != 2 or values.ndim != 2 or len(keys) != len(values):
        return wrong(
            "query must have shape (d,), keys (n, d) and values (n, dv); "
            f"got {query.shape}, {keys.shape} and {values.shape}."
        )
    if not query.size or keys.shape[1] != len(query):
        return wrong(f"The query needs a number for each of the {keys.shape[1]} features of a key.")
    apart = np.abs(keys[:, None] - keys[None]).max(-1) + np.eye(len(keys))
    if len(keys) < 3 or (apart < 0.1).any():
        return wrong("Use at least three keys, and let any two differ by 0.1 or more in some number.")
    weights = softmax(keys @ query)
    if weights.max() > 0.9:
        return wrong(
            f"One key holds {weights.max():.3f} of the weight, so next to nothing is averaged. "
            "Let none have more than 0.9.",
            "nothing_averaged",
        )
    if np.ptp(weights) < 0.01:
        return wrong(
            "All keys have the same weight, so the query has no say. Let it prefer some of them.",
            "query_has_no_say",
        )
    faulty, correct = weights @ keys, weights @ values
    if faulty.shape != correct.shape:
        return wrong(
            f"The faulty function returns {len(faulty)} numbers and the right one {len(correct)}: the "
            "shape gives it away.",
            "shape_tells",
        )
    if (np.ptp(values, axis=0) < 0.1).all():
        return wrong(
            "Your values are all alike, so any weights would give the same answer. Let them differ.",
            "values_alike",
        )
    if (np.abs(values - keys) < 0.1).all():
        return wrong(
            "Your values are the keys, or nearly. That does hide the fault, and many first tests do it by "
            "passing one array as q, k and v. Now find values that differ from the keys by 0.1 or more.",
            "values_are_keys",
        )
    if not np.allclose(faulty, correct, rtol=0, atol=1e-6):
        at = np.abs(faulty - correct).argmax()
        return wrong(
            f"The two differ. At index {at} the faulty function returns {faulty[at]:.7g} and the right one "
            f"{correct[at]:.7g}. "
            + (
                "That is close: give the numbers unrounded."
                if np.abs(faulty - correct).max() < 0.01
                else "What must the differences between values and keys be, averaged by the weights?"
            )
        )
    return right(
        "The two agree to six decimals although the values are not the keys: the differences average out "
        "under these weights. With values equal to keys it would have been free, and that is what a first "
        "test of self-attention often does."
    )


_SUBTRACT = (
    "Subtract the largest score from all of them before the exponential: it cancels in the quotient, and "
    "differences stay as they were. (Clipping would make unequal scores equal.)"
)


def _lookup(
    query, keys, values, temperature=1.0, *, uses="divides", width=False, sign=1, base=np.e, top=True,
    share=True, takes="values",
):  # fmt: skip
    scores = keys @ query * sign
    scores = scores * {"divides": 1 / temperature, "multiplies": temperature, "later": 1, "not": 1}[uses]
    if width:
        scores = scores / np.sqrt(len(keys) if width == "keys" else len(query))
    e = np.exp((scores - scores.max() if top else scores) * np.log(base))
    weights = e / e.sum() if share else e
    if uses == "later":
        weights = weights / temperature
    return {
        "values": lambda: weights @ values,
        "keys": lambda: weights @ keys,
        "weights": lambda: weights,
        "best": lambda: values[np.argmax(scores)] * 1.0,
        "sum": lambda: values.sum(0) * 1.0,
        "mean": lambda: values.mean(0),
        "scores": lambda: scores @ values,
        "shares": lambda: scores / scores.sum() @ values,
    }[takes]()


def _lookup_cases():
    rng = np.random.default_rng(20)
    query, keys, values = rng.normal(size=3), rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    others = tuple(rng.normal(size=shape) for shape in (3, (5, 3), (5, 2)))
    whole = (np.array([1, 0]), np.array([[2, 1], [0, 3], [1, 1]]), np.eye(3, dtype=int))

    def scores(high, low, temperature):
        name = f"scores of {high:g} and {low:g}" + (f" at temperature {temperature:g}" * (temperature != 1))
        args = np.array([1.0]), np.array([[high], [low]], dtype=float), values[:2], temperature
        return Case(name, args, hint=_SUBTRACT)

    return [
        Case("random vectors at temperature 1", (query, keys, values, 1.0)),
        Case("random vectors at temperature 4", (query, keys, values, 4.0)),
        Case("random vectors at temperature 0.5", (query, keys, values, 0.5)),
        Case("random vectors without a temperature", (query, keys, values), hint="The default is 1."),
        Case("other vectors of the same sizes", (*others, 1.0)),
        Case("whole numbers", (*whole, 1.0)),
        Case("a single key", (query, keys[:1], values[:1], 2.0)),
        scores(800, 4000, 1), scores(4000, 3999, 10), scores(4000, 3999, 0.1), scores(4000, 800, 1),
        scores(25, 23, 1), scores(5000, 4999, 1), scores(-3000, -3001, 1),
    ]  # fmt: skip


class _ListsToo(FunctionExercise):
    """A judge to whom a list of numbers is as good as an array."""

    def _run(self, function, case, **how):
        outcome = super()._run(function, case, **how)
        if isinstance(outcome.value, (list, tuple)) and (array := as_floats(outcome.value)) is not None:
            return replace(outcome, value=array)
        return outcome


soft_lookup = _ListsToo(
    _lookup,
    _lookup_cases,
    (
        Mistake("temperature_multiplies", "You multiply the scores by the temperature. A high temperature "
                "should flatten the weights: divide.", {"uses": "multiplies"}),
        Mistake("no_temperature", "The temperature has no effect; if you use it, it cancels. Divide the "
                "scores by it before the exponential.", {"uses": "not"}),
        Mistake("hard", "You return the best match alone, a hard lookup. Average all values, each by its "
                "weight.", {"takes": "best"}),
        Mistake("scaled_by_width", "You also divide by the square root of the width, as attention does. This "
                "exercise divides by the temperature alone.", {"width": True}, convention=True),
        Mistake("scaled_by_length", "You also divide by the square root of the number of keys. Attention "
                "divides by that of their width; this exercise by the temperature alone.",
                {"width": "keys"}),
        Mistake("not_normalised", "The weights do not sum to 1. Divide the exponentials by their sum.",
                {"share": False}),
        Mistake("not_normalised", "The weights do not sum to 1. Divide the exponentials by their sum.",
                {"share": False, "top": False}),
        Mistake("averages_keys", "You average the keys. Keys decide the weights; what comes out is made of "
                "values.", {"takes": "keys"}),
        Mistake("returns_weights", "You return the weights. Take the mean of the values with them.",
                {"takes": "weights"}),
        Mistake("sum_of_values", "That is the sum of the values: each weight was divided by itself. Over "
                "which axis did you sum?", {"takes": "sum"}),
        Mistake("plain_mean", "You return the plain mean of the values. The query must have a say.",
                {"takes": "mean"}),
        Mistake("scores_as_weights", "You use the scores as weights. Make them positive and let them sum to "
                "1 first.", {"takes": "scores"}),
        Mistake("no_exponential", "You divide the scores by their sum. Scores may be negative; take "
                "exponentials first.", {"takes": "shares"}),
        Mistake("minus_sign", "The worst match gets the largest weight: there is a minus sign too many.",
                {"sign": -1}),
        Mistake("base_two", "Your exponential has base 2; the softmax's has base e.", {"base": 2}),
        Mistake("temperature_after_softmax", "You divide the weights by the temperature, so they no longer "
                "sum to 1. Divide the scores.", {"uses": "later"}),
        Mistake("overflow", "The exponential of a large score is infinite, that of a very low one 0, and "
                "inf/inf and 0/0 are NaN. Subtract the largest score first: it cancels in the quotient.",
                {"top": False}),
    ),  # fmt: skip
    "Checked on small scores, on scores of several thousand of both signs, far apart and close together, at "
    "temperatures from 0.1 to 10, on whole numbers and on a single key. Your function is attention for one "
    "query, with 1/temperature as the scale.",
)


def _list(weights):
    return ", ".join(f"{weight:.3f}" for weight in weights)


def _named(weights):
    return ", ".join(f"{name} {weight:.3f}" for name, weight in zip(NAMES, weights, strict=True))

EXERCISES = (
    Exercise(
        "outvoted", "01", outvoted,
        (
            "How much does one copy count against the single key before anything is divided by the sum?",
            "A key of score s counts exp(s): the copies 1 each, the single key exp(2). When are the copies "
            "together more?",
            "exp(2) is a little more than 7, and copies come in whole numbers.",
        ),
        "answer = 8    # the first whole number above exp(2) = 7.39",
        "prediction",
    ),
    Exercise(
        "half_and_half", "01", half_and_half,
        (
            "Equal weights need equal scores. Which queries have the same dot product with A and with B?",
            "Those at a right angle to A - B = (3, -4). There are two such directions; one points away from "
            "both keys.",
            "The direction is (4, 3). How long must the query be, so that the other three are left behind?",
        ),
        "answer = (4, 3)    # q.(A - B) = 4*3 - 3*4 = 0",
        "construction",
    ),
    Exercise(
        "never_wins", "01", never_wins,
        (
            "A query scores each key by how far it reaches in the query's direction. Turn the query all "
            "round: who is in front when?",
            "Draw the smallest rubber band round the five keys. A key on the band is in front for some "
            "direction.",
            "One key lies inside the band. Its score is a mean of others' scores.",
        ),
        'answer = "E"    # it lies inside the shape that the other four span',
        "prediction",
    ),
    Exercise(
        "book_scores", "01", book_scores,
        (
            "Only differences of scores matter. By how much must two scores differ, so that one weight is "
            "twice the other?",
            "The ratio of two weights is exp of the difference of their scores. Which difference gives 2?",
            "Log 2 more for each of the first five; the level of all six is free.",
        ),
        "import numpy as np\n\nanswer = np.log([2, 2, 2, 2, 2, 1])",
        "construction",
    ),
    Exercise(
        "soft_lookup", "01", soft_lookup,
        (
            "Four steps: a score for each key, the scores divided by the temperature, weights that are "
            "positive and sum to 1, a mean of the values.",
            "Large scores are where most first versions break. What may you subtract from every score "
            "without changing a single weight?",
            "The exponentials of the scores less their largest, divided by their sum, times the values.",
        ),
        """
import numpy as np


def soft_lookup(query, keys, values, temperature=1.0):
    scores = keys @ query / temperature            # (n,)
    e = np.exp(scores - scores.max())              # the largest is exp(0) = 1
    return e / e.sum() @ values                    # (dv,)
""",
        "function",
    ),
    Exercise(
        "hidden_fault", "01", hidden_fault,
        (
            "The faulty function returns the weighted mean of the keys, the right one that of the values. "
            "When are two weighted means with the same weights equal?",
            "The mean of (values - keys) under the weights must be zero. The differences themselves need not "
            "be.",
            "Move one value away from its key by some vector, and a second one the other way, by as much "
            "more as its weight is smaller. Compute the weights, and do not round.",
        ),
        """
import numpy as np

query = np.array([1.0, 1.0])
keys = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
e = np.exp(keys @ query)
w = e / e.sum()
away = np.array([1.0, 2.0])
values = keys + np.outer([1, -w[0] / w[1], 0], away)      # w[0] * 1 - w[1] * w[0] / w[1] = 0
answer = (query, keys, values)
""",
        "construction",
    ),
)

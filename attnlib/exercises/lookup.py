"""The exercises of lesson 01: each judge takes an answer and returns a verdict."""

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.answers import as_floats, letter, numbers, short, uses_the_package
from attnlib.exercises.exercise import Exercise
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


def soft_lookup(function):
    """``soft_lookup(query, keys, values, temperature=1.0)``: the weighted average of the values."""
    if uses_the_package(function):
        return wrong(
            "Your function calls the package. Write the exponentials and their sum yourself.", "package"
        )
    for name, arguments, hint in _lookup_cases():
        ours = _lookup(*arguments)
        copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
        try:
            with np.errstate(all="ignore"):
                got = function(*copies)
        except NotImplementedError:
            raise
        except (Exception, SystemExit) as error:
            return wrong(f"On {name} your function raised {type(error).__name__}: {short(error, str, 200)}")
        if any(not np.array_equal(a, b) for a, b in zip(copies, arguments, strict=True)):
            return wrong(f"On {name} your function changed its input. Work on a copy.", "changes_input")
        if got is None:
            return wrong("Your function returned None. Does it end with a return?", "no_return")
        numbers = as_floats(got)
        if numbers is None:
            return wrong(f"On {name} your function returned {type(got).__name__}, not numbers.")
        narrow = getattr(getattr(got, "dtype", None), "itemsize", 8) < 4
        got, rtol = numbers, 5e-3 if narrow else 1e-4
        if got.shape != ours.shape or not np.allclose(got, ours, rtol=rtol, atol=rtol / 100):
            return _diagnose(function, name, got, ours, hint)
    return right(
        "Checked on small scores, on scores of several thousand of both signs, far apart and close together, "
        "at temperatures from 0.1 to 10, on whole numbers and on a single key. Your function is attention "
        "for one query, with 1/temperature as the scale."
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


def _lookup(query, keys, values, temperature=1.0):
    return softmax(keys @ query, temperature=temperature) @ values


_SUBTRACT = (
    "Subtract the largest score from all of them before the exponential: it cancels in the quotient, and "
    "differences stay as they were. (Clipping would make unequal scores equal.)"
)


def _lookup_cases():
    """Name, arguments, and what to look at when this is the first case that fails."""
    rng = np.random.default_rng(20)
    query, keys, values = rng.normal(size=3), rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    one, near = np.array([1.0]), np.array([[4000.0], [3999.0]])
    whole = (np.array([1, 0]), np.array([[2, 1], [0, 3], [1, 1]]), np.eye(3, dtype=int))
    return [
        ("random vectors at temperature 1", (query, keys, values, 1.0), ""),
        ("random vectors at temperature 4", (query, keys, values, 4.0), ""),
        ("random vectors at temperature 0.5", (query, keys, values, 0.5), ""),
        ("random vectors without a temperature", (query, keys, values), "The default is 1."),
        ("whole numbers", (*whole, 1.0), ""),
        ("a single key", (query, keys[:1], values[:1], 2.0), ""),
        ("scores of 800 and 4000", (one, np.array([[800.0], [4000.0]]), values[:2], 1.0), _SUBTRACT),
        ("scores of 4000 and 3999 at temperature 10", (one, near, values[:2], 10.0), _SUBTRACT),
        ("scores of 4000 and 3999 at temperature 0.1", (one, near, values[:2], 0.1), _SUBTRACT),
        ("scores of 4000 and 800", (one, np.array([[4000.0], [800.0]]), values[:2], 1.0), _SUBTRACT),
        ("scores of 25 and 23", (one, np.array([[25.0], [23.0]]), values[:2], 1.0), _SUBTRACT),
        ("scores of 5000 and 4999", (one, np.array([[5000.0], [4999.0]]), values[:2], 1.0), _SUBTRACT),
        ("scores of -3000 and -3001", (one, np.array([[-3000.0], [-3001.0]]), values[:2], 1.0), _SUBTRACT),
    ]


def _exp_average(query, keys, values, temperature=1.0, *, top=True, average=True, base=np.e):
    scores = keys @ query / temperature * np.log(base)
    e = np.exp(scores - scores.max() if top else scores)
    return (e / e.sum() if average else e) @ values


_MISCONCEPTIONS = {
    "temperature_multiplies": (
        lambda q, k, v, t=1.0: _lookup(q, k, v, 1 / t),
        "You multiply the scores by the temperature. A high temperature should flatten the weights: divide.",
    ),
    "no_temperature": (
        lambda q, k, v, t=1.0: _lookup(q, k, v),
        "The temperature has no effect; if you use it, it cancels. Divide the scores by it before the "
        "exponential.",
    ),
    "hard": (
        lambda q, k, v, t=1.0: v[np.argmax(k @ q)],
        "You return the best match alone, a hard lookup. Average all values, each by its weight.",
    ),
    "scaled_by_width": (
        lambda q, k, v, t=1.0: _lookup(q, k, v, t * np.sqrt(len(q))),
        "Right under another convention: you also divide by the square root of the width, as attention "
        "does. This exercise divides by the temperature alone.",
    ),
    "not_normalised": (
        lambda q, k, v, t=1.0: _exp_average(q, k, v, t, average=False),
        "The weights do not sum to 1. Divide the exponentials by their sum.",
    ),
    "not_normalised_naive": (
        lambda q, k, v, t=1.0: _exp_average(q, k, v, t, top=False, average=False),
        "The weights do not sum to 1. Divide the exponentials by their sum.",
    ),
    "averages_keys": (
        lambda q, k, v, t=1.0: softmax(k @ q / t) @ k,
        "You average the keys. Keys decide the weights; what comes out is made of values.",
    ),
    "returns_weights": (
        lambda q, k, v, t=1.0: _lookup(q, k, np.eye(len(k)), t),
        "You return the weights. Take the mean of the values with them.",
    ),
    "sum_of_values": (
        lambda q, k, v, t=1.0: v.sum(0),
        "That is the sum of the values: each weight was divided by itself. Over which axis did you sum?",
    ),
    "plain_mean": (
        lambda q, k, v, t=1.0: v.mean(0),
        "You return the plain mean of the values. The query must have a say.",
    ),
    "scores_as_weights": (
        lambda q, k, v, t=1.0: (k @ q / t) @ v,
        "You use the scores as weights. Make them positive and let them sum to 1 first.",
    ),
    "no_exponential": (
        lambda q, k, v, t=1.0: (k @ q / t) / (k @ q / t).sum() @ v,
        "You divide the scores by their sum. Scores may be negative; take exponentials first.",
    ),
    "minus_sign": (
        lambda q, k, v, t=1.0: _lookup(q, -k, v, t),
        "The worst match gets the largest weight: there is a minus sign too many.",
    ),
    "base_two": (
        lambda q, k, v, t=1.0: _exp_average(q, k, v, t, base=2),
        "Your exponential has base 2; the softmax's has base e.",
    ),
    "temperature_after_softmax": (
        lambda q, k, v, t=1.0: softmax(k @ q) / t @ v,
        "You divide the weights by the temperature, so they no longer sum to 1. Divide the scores.",
    ),
    "overflow": (
        lambda q, k, v, t=1.0: _exp_average(q, k, v, t, top=False),
        "exp of a large score is infinite, and inf/inf is NaN. Subtract the largest score first: it "
        "cancels in the quotient.",
    ),
}


def _diagnose(function, name, got, ours, hint):
    """The misconception that the function reproduces on every case, or the first place that differs."""
    with np.errstate(all="ignore"):
        for misconception, (imitation, says) in _MISCONCEPTIONS.items():
            if all(_same(function, imitation, arguments) for _, arguments, _ in _lookup_cases()):
                return wrong(f"On {name}: {says}", misconception)
    if got.shape != ours.shape:
        return wrong(f"On {name} the result must have shape {ours.shape}; yours has {got.shape}.", "shape")
    at = np.abs(np.nan_to_num(got - ours, nan=np.inf)).argmax()
    found = f"On {name}, index {at} of the result should be {ours[at]:.7g}; yours is {got[at]:.7g}."
    return wrong(f"{found} {hint}".strip(), "large_scores" if hint is _SUBTRACT else None)


def _same(function, imitation, arguments):
    copies = [np.array(a) if isinstance(a, np.ndarray) else a for a in arguments]
    try:
        got = np.asarray(function(*copies), dtype=float)
    except (Exception, SystemExit):
        return False
    expected = imitation(*arguments)
    return got.shape == expected.shape and np.allclose(got, expected, equal_nan=True)


def _list(weights):
    return ", ".join(f"{weight:.3f}" for weight in weights)


def _named(weights):
    return ", ".join(f"{name} {weight:.3f}" for name, weight in zip(NAMES, weights, strict=True))

EXERCISES = (
    Exercise("outvoted", "01", outvoted, (), "", "prediction"),
    Exercise("half_and_half", "01", half_and_half, (), "", "construction"),
    Exercise("never_wins", "01", never_wins, (), "", "prediction"),
    Exercise("book_scores", "01", book_scores, (), "", "construction"),
    Exercise("soft_lookup", "01", soft_lookup, (), "", "function"),
    Exercise("hidden_fault", "01", hidden_fault, (), "", "construction"),
)

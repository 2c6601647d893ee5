"""The exercises of lesson 01: each judge takes an answer and returns a verdict."""

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.verdict import right, wrong

PLANE_KEYS = np.array([[4.0, 0.0], [1.0, 4.0], [-4.0, 2.0], [-0.5, -1.0], [1.0, 2.0]])
NAMES = "ABCDE"


def outvoted(copies):
    """How many keys of score 0 does it take to outweigh one key of score 2?"""
    if isinstance(copies, bool) or not isinstance(copies, (int, float, np.number)):
        return wrong(f"Give a whole number of copies; got {copies!r}.")
    if copies != int(copies) or copies < 1:
        return wrong(f"Give a whole number of copies, at least 1; got {copies}.")
    single = np.exp(2) / (np.exp(2) + copies)
    if single >= 0.5:
        reason = (
            " You compared scores; the softmax compares exponentials, and exp(2) is 7.39."
            if copies <= 3
            else ""
        )
        return wrong(
            f"With {int(copies)} copies the single key still holds {single:.2f} of the weight.{reason}",
            "scores_not_exponentials" if reason else None,
        )
    if copies > 8:
        return wrong(f"{int(copies)} copies are enough, but fewer will do.", "not_the_least")
    return right(
        f"Each copy has weight 1 against exp(2) = 7.39, so eight together win with {1 - single:.2f}. "
        "A crowd of poor matches outvotes one good match: keep this in mind for long texts."
    )


def half_and_half(query):
    """A query that splits its weight evenly between A and B and leaves next to nothing to the rest."""
    query, complaint = _numbers(query, (2,), "your query")
    if complaint:
        return complaint
    scores = PLANE_KEYS @ query
    weights = softmax(scores)
    shares = ", ".join(f"{name} {weight:.2f}" for name, weight in zip(NAMES, weights, strict=True))
    if abs(scores[0] - scores[1]) > 0.04:
        midpoint = PLANE_KEYS[0] + PLANE_KEYS[1]
        if np.linalg.norm(query) and abs(query @ midpoint) > 0.999 * np.linalg.norm(query) * np.linalg.norm(
            midpoint
        ):
            return wrong(
                f"The weights are {shares}. You point at the middle between A and B, but B is the longer "
                "key and gains from its length. Ask for equal dot products, not for equal angles.",
                "midpoint",
            )
        return wrong(
            f"The weights are {shares}: q.A is {scores[0]:.2f} and q.B is {scores[1]:.2f}. "
            "Equal weights need equal dot products. In which directions is q.(A - B) zero?"
        )
    if min(weights[0], weights[1]) < 0.49:
        if scores[0] <= 0:
            return wrong(
                f"The weights are {shares}. A and B tie, but the query points away from both: turn it round.",
                "opposite_direction",
            )
        return wrong(
            f"The weights are {shares}. A and B tie; the others still hold too much. "
            "What happens to the gaps between scores when the query grows?",
            "too_short",
        )
    return right(
        f"The weights are {shares}. Your query stands at a right angle to the line from A to B, so both "
        "score the same, and it is long enough to leave the others behind."
    )


def never_wins(name):
    """The key that no query gives the largest weight."""
    if not isinstance(name, str) or name.strip().upper() not in tuple(NAMES):
        return wrong(f"Give one of the letters A, B, C, D, E in quotes; got {name!r}.")
    index = NAMES.index(name.strip().upper())
    angles = np.arange(0, 360, 5)
    queries = np.round(4 * np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], -1), 1)
    weights = softmax(queries @ PLANE_KEYS.T)[:, index]
    if NAMES[index] == "E":
        return right(
            "E lies inside the shape that the other four span, so in every direction one of them reaches "
            f"further. Of {len(angles)} queries all around, the best one gives E {weights.max():.2f}, and "
            "another key more."
        )
    best = queries[weights.argmax()]
    reason = (
        " It is the shortest key, but it stands at the edge of the set, and some direction has it in front."
        if NAMES[index] == "D"
        else ""
    )
    return wrong(
        f"The query ({best[0]:g}, {best[1]:g}) gives {NAMES[index]} the weight {weights.max():.2f}.{reason}",
        "shortest_key" if reason else None,
    )


def book_scores(scores):
    """Scores whose softmax weighs five books alike and the sixth half as much."""
    scores, complaint = _numbers(scores, (6,), "your scores")
    if complaint:
        return complaint
    target = np.array([2.0] * 5 + [1.0]) / 11
    weights = softmax(scores)
    if np.allclose(weights, target, atol=1e-3):
        return right(
            "The weights are " + _list(weights) + " and sum to 1. The softmax turns differences of scores "
            "into ratios of weights: twice the weight is log 2 = 0.69 more score."
        )
    shown = f"The softmax of your scores is {_list(weights)}. "
    if np.allclose(scores, [0.18] * 5 + [0.09], atol=0.005) or np.allclose(scores, target, atol=0.005):
        return wrong(
            shown + "You gave the weights themselves. As scores they differ by 0.09, and a small "
            "difference of scores is a small ratio of weights.",
            "weights_as_scores",
        )
    gap = scores[:5].mean() - scores[5]
    if np.ptp(scores[:5]) < 1e-3 and abs(gap - 1) < 1e-3:
        return wrong(
            shown + "A difference of 1 is a ratio of exp(1) = 2.72, and you need a ratio of 2. "
            "If you took a logarithm, it was to base 2.",
            "difference_of_one",
        )
    if np.ptp(scores[:5]) < 1e-3 and abs(gap - np.log10(2)) < 1e-3:
        return wrong(shown + "Your logarithm has base 10; the softmax's exponential has base e.", "log10")
    if np.ptp(scores[:5]) < 1e-3 and abs(gap + np.log(2)) < 1e-3:
        return wrong(shown + "The sixth book came out twice as heavy, not half.", "upside_down")
    return wrong(
        shown + "The first five must be equal and each twice the last. By how much must two scores "
        "differ for one weight to be twice the other?"
    )


def soft_lookup(function):
    """``soft_lookup(query, keys, values, temperature)``: the weighted average of the values."""
    for name, arguments in _lookup_cases():
        ours = _lookup(*arguments)
        copies = [np.array(a) for a in arguments[:3]]
        try:
            with np.errstate(all="ignore"):
                got = function(*copies, arguments[3])
        except NotImplementedError:
            raise
        except Exception as error:
            return wrong(f"On {name} your function raised {type(error).__name__}: {error}")
        if any(not np.array_equal(a, b) for a, b in zip(copies, arguments, strict=False)):
            return wrong(f"On {name} your function changed its input. Work on a copy.", "changes_input")
        if got is None:
            return wrong("Your function returned None. Does it end with a return?", "no_return")
        try:
            got = np.asarray(got, dtype=float)
        except (TypeError, ValueError):
            return wrong(f"On {name} your function returned {type(got).__name__}, not numbers.")
        if got.shape == ours.shape and np.allclose(got, ours, rtol=1e-5, atol=1e-8):
            continue
        return _diagnose(function, name, got, ours)
    return right(
        "Checked on small and large scores, three temperatures, whole numbers and a single key. "
        "Your function is attention for one query, with 1/temperature as the scale."
    )


def hidden_fault(answer):
    """Inputs on which averaging the keys instead of the values cannot be noticed."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 3:
        return wrong("Give three arrays: (query, keys, values).")
    try:
        query, keys, values = (np.asarray(a, dtype=float) for a in answer)
    except (TypeError, ValueError):
        return wrong("Give three arrays of numbers: (query, keys, values).")
    if query.ndim != 1 or keys.ndim != 2 or values.ndim != 2 or len(keys) != len(values):
        return wrong(
            "query must have shape (d,), keys (n, d) and values (n, dv); "
            f"got {query.shape}, {keys.shape} and {values.shape}."
        )
    if keys.shape[1] != len(query) or not all(np.isfinite(a).all() for a in (query, keys, values)):
        return wrong(f"query needs one finite number for each of the {keys.shape[1]} features of a key.")
    weights = softmax(keys @ query)
    if len(np.unique(keys, axis=0)) < 3 or weights.max() > 0.9:
        return wrong(
            "That hides the fault because next to nothing is averaged. Use three different keys, none with "
            f"more than 0.9 of the weight (now: {len(np.unique(keys, axis=0))} different keys, largest "
            f"weight {weights.max():.2f}).",
            "nothing_averaged",
        )
    faulty, correct = weights @ keys, weights @ values
    if faulty.shape != correct.shape:
        return wrong(
            f"The faulty function returns {len(faulty)} numbers and the right one {len(correct)}: the "
            "shape gives it away.",
            "shape_tells",
        )
    if not np.allclose(faulty, correct, rtol=0, atol=1e-6):
        at = np.abs(faulty - correct).argmax()
        return wrong(
            f"The two differ: number {at} is {faulty[at]:.3f} from the faulty function and "
            f"{correct[at]:.3f} from the right one."
        )
    return right(
        "The two agree to six decimals. With values equal to keys nobody can tell them apart, and that is "
        "what a first test of self-attention often does: it passes one array as q, k and v."
        if np.allclose(keys, values)
        else "The two agree to six decimals, and your values are not even the keys: you solved for them."
    )


def _lookup(query, keys, values, temperature=1.0):
    return softmax(keys @ query, temperature=temperature) @ values


def _lookup_cases():
    rng = np.random.default_rng(20)
    query, keys, values = rng.normal(size=3), rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    return [
        ("random vectors at temperature 1", (query, keys, values, 1.0)),
        ("random vectors at temperature 4", (query, keys, values, 4.0)),
        ("random vectors at temperature 0.5", (query, keys, values, 0.5)),
        (
            "whole numbers",
            (np.array([1, 0]), np.array([[2, 1], [0, 3], [1, 1]]), np.eye(3, dtype=int), 1.0),
        ),
        ("a single key", (query, keys[:1], values[:1], 2.0)),
        ("scores of several thousand", (query * 5000, keys, values, 1.0)),
    ]


def _exp_average(query, keys, values, temperature, *, top=True, average=True):
    scores = keys @ query / temperature
    e = np.exp(scores - scores.max() if top else scores)
    return (e / e.sum() if average else e) @ values


_MISCONCEPTIONS = {
    "temperature_multiplies": (
        lambda q, k, v, t: _lookup(q, k, v, 1 / t),
        "You multiply the scores by the temperature. A high temperature should flatten the weights: divide.",
    ),
    "no_temperature": (
        lambda q, k, v, t: _lookup(q, k, v),
        "The temperature has no effect. Divide the scores by it before the softmax.",
    ),
    "hard": (
        lambda q, k, v, t: v[np.argmax(k @ q)],
        "You return the best match alone, a hard lookup. Average all values, each by its weight.",
    ),
    "scaled_by_width": (
        lambda q, k, v, t: _lookup(q, k, v, t * np.sqrt(len(q))),
        "Right under another convention: you also divide by the square root of the width, as attention "
        "does. This exercise divides by the temperature alone.",
    ),
    "not_normalised": (
        lambda q, k, v, t: _exp_average(q, k, v, t, average=False),
        "The weights do not sum to 1. Divide the exponentials by their sum.",
    ),
    "not_normalised_naive": (
        lambda q, k, v, t: _exp_average(q, k, v, t, top=False, average=False),
        "The weights do not sum to 1. Divide the exponentials by their sum.",
    ),
    "averages_keys": (
        lambda q, k, v, t: softmax(k @ q / t) @ k,
        "You average the keys. Keys decide the weights; what comes out is made of values.",
    ),
    "plain_mean": (
        lambda q, k, v, t: v.mean(0),
        "You return the plain mean of the values. The query must have a say.",
    ),
    "no_exponential": (
        lambda q, k, v, t: (k @ q / t) / (k @ q / t).sum() @ v,
        "You divide the scores by their sum. Scores may be negative; take exponentials first.",
    ),
    "temperature_after_softmax": (
        lambda q, k, v, t: softmax(k @ q) / t @ v,
        "You divide the weights by the temperature, so they no longer sum to 1. Divide the scores.",
    ),
    "overflow": (
        lambda q, k, v, t: _exp_average(q, k, v, t, top=False),
        "exp of a large score is infinite, and inf/inf is NaN. Subtract the largest score first: it "
        "cancels in the quotient.",
    ),
}


def _diagnose(function, name, got, ours):
    """The misconception that the function reproduces on every case, or the first place that differs."""
    cases = _lookup_cases()
    with np.errstate(all="ignore"):
        for misconception, (imitation, hint) in _MISCONCEPTIONS.items():
            if all(_same(function, imitation, arguments) for _, arguments in cases):
                return wrong(f"On {name}: {hint}", misconception)
    if got.shape != ours.shape:
        return wrong(f"On {name} the result must have shape {ours.shape}; yours has {got.shape}.", "shape")
    at = np.abs(np.nan_to_num(got - ours, nan=np.inf)).argmax()
    return wrong(f"On {name}, number {at} of the result should be {ours[at]:.4f}; yours is {got[at]:.4f}.")


def _same(function, imitation, arguments):
    try:
        got = np.asarray(function(*(np.array(a) for a in arguments[:3]), arguments[3]), dtype=float)
    except Exception:
        return False
    expected = imitation(*arguments)
    return got.shape == expected.shape and np.allclose(got, expected, equal_nan=True)


def _numbers(answer, shape, name):
    """``answer`` as an array of this shape and None, or None and the complaint."""
    try:
        array = np.asarray(answer, dtype=float)
    except (TypeError, ValueError):
        return None, wrong(f"Let {name} be {shape[0]} numbers; got {answer!r}.")
    if array.shape != shape:
        return None, wrong(f"Let {name} be {shape[0]} numbers; got an array of shape {array.shape}.")
    if not np.isfinite(array).all():
        return None, wrong(f"Let {name} be finite numbers; got {array}.")
    return array, None


def _list(weights):
    return ", ".join(f"{weight:.3f}" for weight in weights)

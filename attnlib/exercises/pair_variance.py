"""The variance of dot products, pair by pair: an exercise of lesson 06."""

from dataclasses import replace

import numpy as np

from attnlib.exercises.answers import as_floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake

_ENTRIES = {
    "as given": lambda x: x,
    "less column means": lambda x: x - x.mean(0),
    "less row means": lambda x: x - x.mean(-1, keepdims=True),
    "less one mean": lambda x: x - x.mean(),
    "columns standardised": lambda x: (x - x.mean(0)) / x.std(0),
    "rows standardised": lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True),
    "all standardised": lambda x: (x - x.mean()) / x.std(),
    "rows of length 1": lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True),
    "half precision": lambda x: x.astype(np.float16),
}

_WHICH = {
    "all": lambda q, k: (q, k),
    "but the first": lambda q, k: (q[1:], k[1:]),
    "but the last": lambda q, k: (q[:-1], k[:-1]),
    "a hundred": lambda q, k: (q[:100], k[:100]),
    "as many as numbers": lambda q, k: (q[: q.shape[1]], k[: k.shape[1]]),
    "next": lambda q, k: (q, np.roll(k, -1, 0)),
    "previous": lambda q, k: (q, np.roll(k, 1, 0)),
    "turned round": lambda q, k: (q, k[::-1]),
}

_SCORES = {
    "pairs": lambda q, k: (q * k).sum(-1),
    "all": lambda q, k: q @ k.T,
    "strangers": lambda q, k: (q @ k.T)[~np.eye(len(q), dtype=bool)],
    "features": lambda q, k: q.T @ k,
    "entries": lambda q, k: q * k,
    "columns": lambda q, k: (q * k).sum(0),
    "mean": lambda q, k: (q * k).mean(-1),
    "one": lambda q, k: (q * k).sum(),
    "queries": lambda q, k: (q * q).sum(-1),
    "sizes": lambda q, k: np.abs((q * k).sum(-1)),
    "products' sizes": lambda q, k: np.abs(q * k).sum(-1),
    "sums": lambda q, k: (q + k).sum(-1),
    "distances": lambda q, k: ((q - k) ** 2).sum(-1),
    "whole": lambda q, k: np.trunc((q * k).sum(-1)),
}


_SPREADS = {                                               # of the scores s, for queries q and keys k
    "variance": lambda s, q, k: ((s - s.mean()) ** 2).mean(),
    "sample": lambda s, q, k: np.var(s, ddof=1),
    "root": lambda s, q, k: np.std(s),
    "sample root": lambda s, q, k: np.std(s, ddof=1),
    "mean square": lambda s, q, k: np.mean(s**2),
    "moments": lambda s, q, k: np.mean(s * s) - np.mean(s) ** 2,
    "sum": lambda s, q, k: np.var(s) * s.size,
    "about the median": lambda s, q, k: np.mean((s - np.median(s)) ** 2),
    "mean distance": lambda s, q, k: np.mean(np.abs(s - s.mean())),
    "mean": lambda s, q, k: np.mean(s),
    "each row's, averaged": lambda s, q, k: np.mean(np.var(s, axis=-1)),
    "each row's, averaged, times d": lambda s, q, k: np.mean(np.var(s, axis=-1)) * q.shape[1],
    "each column's, averaged": lambda s, q, k: np.mean(np.var(s, axis=0)),
    "each column's, added": lambda s, q, k: np.sum(np.var(s, axis=0)),
    "times d": lambda s, q, k: np.var(s) * q.shape[1],
    "for each row": lambda s, q, k: np.var(s, axis=-1),
    "for each column": lambda s, q, k: np.var(s, axis=0),
    "unit normal": lambda s, q, k: np.float64(q.shape[1]),
    "formula": lambda s, q, k: q.shape[1] * q.var() * k.var(),
    "formula by columns": lambda s, q, k: np.sum(q.var(0) * k.var(0)),
    "formula of squares": lambda s, q, k: q.shape[1] * np.mean(q**2) * np.mean(k**2),
    "covariance": lambda s, q, k: np.mean((q - q.mean()) * (k - k.mean())),
    "none": lambda s, q, k: s,
}

_SCALES = {                                                # for n pairs of width d
    "root": lambda n, d: 1 / np.sqrt(d),
    "width": lambda n, d: 1 / d,
    "multiplies": lambda n, d: np.sqrt(d),
    "pairs": lambda n, d: 1 / np.sqrt(n),
    "all": lambda n, d: 1 / np.sqrt(n * d),
    "not": lambda n, d: 1.0,
    "both widths": lambda n, d: 1 / np.sqrt(2 * d),
    "whole root": lambda n, d: 1 / np.floor(np.sqrt(d)),
    "64": lambda n, d: 1 / 8,
    "3": lambda n, d: 1 / np.sqrt(3),                      # of the first case
    "log": lambda n, d: 1 / np.log(d),
}

_RESULTS = {
    "raw, scaled": lambda raw, scaled: (raw, scaled),
    "scaled, raw": lambda raw, scaled: (scaled, raw),
    "scaled, scaled": lambda raw, scaled: (scaled, scaled),
    "raw": lambda raw, scaled: raw,
    "scaled": lambda raw, scaled: scaled,
    "whole": lambda raw, scaled: (np.float64(int(raw)), np.float64(int(scaled))),
    "one digit": lambda raw, scaled: (np.round(raw, 1), np.round(scaled, 1)),
    "two digits": lambda raw, scaled: (np.round(raw, 2), np.round(scaled, 2)),
    "three digits": lambda raw, scaled: (np.round(raw, 3), np.round(scaled, 3)),
    "four digits": lambda raw, scaled: (np.round(raw, 4), np.round(scaled, 4)),
}


def _variance(q, k, *, entries="as given",
                               which="all", scores="pairs", spread="variance", other=None, by="root",
              results="raw, scaled"):
    """`dot_product_variance`, or a wrong way of computing it; ``other`` is the second number's spread."""
    q, k = (x if x.dtype.kind == "f" else x.astype(float) for x in (q, k))
    q, k = _WHICH[which](_ENTRIES[entries](q), _ENTRIES[entries](k))
    n, d = q.shape
    s, raw, scaled = _SCORES[scores](q, k), _SPREADS[spread], _SPREADS[other or spread]
    first = raw(s, q, k)
    if by == "variance by root":
        return _RESULTS[results](first, first / np.sqrt(d))
    if by == "itself":
        return _RESULTS[results](first, scaled(s / np.std(s), q, k))
    if by == "one":
        return _RESULTS[results](first, np.float64(1))
    if by == "one where it varies":
        return _RESULTS[results](first, np.sign(first))
    scale = float(_SCALES[by](n, d))                       # takes the type of what it multiplies
    if spread == "unit normal":
        return _RESULTS[results](first, first * scale**2)
    return _RESULTS[results](first, scaled(s * scale, q * scale, k))


def _variance_cases():
    rng = np.random.default_rng(211)                       # all known mistakes lie apart on the first pairs

    def pair(n, d, *, mean=0.4, size=1.0, dtype=float):
        return tuple((size * (mean + rng.normal(size=(n, d)) * (1, 2)[i])).astype(dtype) for i in range(2))

    plain = pair(7, 3)
    q, noise = pair(9, 4)
    whole = rng.integers(-3, 4, size=(2, 6, 5))
    together = np.ones(3) * rng.normal(size=(8, 1))
    apart = tuple(x[:, ::2] for x in pair(6, 10))
    # Every score and every sum of scores is exact in 32 bits, and the square of a score is not in 64.
    far = np.full((3, 16), 625.0), np.full((3, 16), 500.0)
    far[0][0, 0], far[1][0, 0], far[0][1, 0], far[1][1, 0] = 312501, 1, 312499, 1
    return [
        Case("7 pairs of width 3", plain),
        Case("7 other pairs of width 3", pair(7, 3, mean=-0.6),
             hint="Only the numbers are new here. Does something remain from an earlier call? Or was the "
             "first result right by chance?"),
        Case("5 pairs of width 16, more numbers than pairs", pair(5, 16)),
        Case("6 pairs of whole numbers", tuple(whole)),
        Case("keys that resemble their queries", (q, q + 0.3 * noise),
             hint="Row i of q belongs to row i of k only."),
        Case("entries with a large mean", pair(8, 5, mean=20.0), hint="A variance is about the mean."),
        Case("entries that are all alike within a row", (together, together[::-1].copy())),
        Case("as many pairs as numbers", pair(4, 4)),
        Case("32-bit numbers", pair(10, 6, dtype=np.float32)),
        Case("a single pair", pair(1, 3), hint="One number lies at its own mean: its variance is 0."),
        Case("width 1", pair(6, 1)),
        Case("6 pairs of width 5, not contiguous in memory", apart),
        Case("entries of several hundred", pair(6, 9, size=300.0), hint="Numbers of any size are valid."),
        Case("entries of a hundredth", pair(6, 7, size=0.01), hint="Numbers of any size are valid."),
        Case("520 pairs of width 2", pair(520, 2), hint="All pairs count, however many there are."),
        Case("three scores that differ by 1 and lie near 5,000,000", far,
             hint="Subtract the mean first and square then. The mean square less the squared mean is a "
             "difference of two huge numbers, and their digits do not suffice."),
    ]


def _two(x):
    """The two numbers of a result, or None."""
    if not isinstance(x, (tuple, list)) or len(x) != 2:
        return None
    numbers = as_floats(x)
    return numbers if numbers is not None and numbers.shape == (2,) else None


def _no_variance(case, value, expected):
    got = _two(value)
    if got is None or (np.isfinite(got) & (got >= 0)).all():
        return None
    return "A variance of finite numbers is finite and not negative."


@np.errstate(all="ignore")
def _nearly_right(case, value, expected):
    got = _two(value)
    if got is not None and np.allclose(got, expected, rtol=1e-5, atol=0):
        return None                                        # of a wrong type, and no more
    if got is not None and np.allclose(got, expected, rtol=0.005, atol=0):
        if np.array_equal(got, got.astype(np.float16)) and (got % 1).any():
            return "Your numbers are those of half precision, right to about three digits."
        return "Right to a few digits only: something is rounded, or in half precision."
    return None


@np.errstate(all="ignore")
def _one_of_two(case, value, expected):
    got, d = _two(value), case.args[0].shape[1]
    if got is None:
        return None
    near = np.isclose(got, expected, rtol=1e-4, atol=1e-9)
    if near[0] and got[1]:
        return (f"Your first number is right and is {got[0] / got[1]:.4g} times your second. When scores are "
                f"divided by the root of d, here of {d}, by what is their variance divided?")
    if near[1]:
        return "Your second number is right, and your first is not: it is of the scores as they are."
    if got[1] and np.isclose(got[0] / got[1], d, rtol=1e-4):
        return ("Your second number follows from your first as it should. The first is wrong: look at the "
                "scores, one for each pair, or at how you take their variance.")
    return None


class _TwoNumbers(FunctionExercise):
    """A judge to whom an array of two numbers is as good as two numbers."""

    def _run(self, function, case, **choices):
        outcome = super()._run(function, case, **choices)
        value = outcome.value
        if isinstance(value, np.ndarray) and value.shape == (2,):
            return replace(outcome, value=tuple(value))
        return outcome


def _ways(name, hint, *variants):
    """One mistake in the ways in which it is made."""
    return tuple(Mistake(name, hint, choices) for choices in variants)


dot_product_variance = _TwoNumbers(
    compute=_variance,
    cases=_variance_cases,
    mistakes=(
        Mistake("all_pairs",
                "You take the variance over all n times n scores, of every query with every key. Only "
                "row i with row i belongs together: n scores.", {"scores": "all"}),
        *_ways("per_query",
                "You take a variance for each query over all keys. Only row i with row i belongs "
                "together: n scores, one variance.",
                {"scores":
                 "all", "spread": "each row's, averaged"}, {"scores": "all", "spread": "for each row"},
                {"scores": "all", "spread": "each column's, averaged"},
                {"scores": "all", "spread": "for each column"}),
        Mistake("strangers",
                "You leave out row i with row i and take all the others. It is the other way round.",
                {"scores": "strangers"}),
        *_ways("another_row", "You pair a query with another row's key. Row i of q belongs to row i of k.",
                {"which": "next"}, {"which": "previous"}, {"which": "turned round"}),
        Mistake("features",
                "You multiply columns with columns: these are d times d numbers. A score is the product "
                "of a row of q with its row of k.", {"scores": "features"}),
        Mistake("entries", "You take the variance of the single products. A score is their sum over the row.",
                {"scores": "entries"}),
        *_ways("columns",
                "You sum over the pairs, which gives a number for each column. A score is a sum over its "
                "row: which axis is that?", {"scores": "columns"}),
        Mistake("one_sum",
                "You sum all products into one number, whose variance is 0. Each pair has a score of its "
                "own.", {"scores": "one"}),
        *_ways("within_rows",
                "You take the variance of the products inside a row. A score is the sum of its row, "
                "and the variance is over the scores.",
                {"scores": "entries", "spread": "each row's, averaged"},
                {"scores": "entries", "spread": "each row's, averaged, times d"},
                {"scores": "entries", "spread": "for each row"}),
        *_ways("variances_added",
                "You add up variances of the single products. That is right for independent entries only; "
                "here any may come, and products of one row may move together. Sum each row first.",
                {"scores": "entries", "spread": "each column's, added"},
                {"scores": "entries", "spread": "times d"}),
        *_ways("per_column",
                "You take a variance for each column of the products. A score is the sum of its row, "
                "and the variance is over the scores: one number.",
                {"scores": "entries", "spread": "each column's, averaged"},
                {"scores": "entries", "spread": "for each column"}),
        Mistake("mean_of_products", "You average the products of a row. A dot product is their sum.",
                {"scores": "mean"}),
        Mistake("cosines", "You divide by the lengths: these are cosines, which do not spread as scores do.",
                {"entries": "rows of length 1"}),
        *_ways("absolute", "You take sizes without their sign, and both sides of zero fall together.",
                {"scores": "sizes"}, {"scores": "products' sizes"}),
        Mistake("sums", "You add q and k. A score is made of their products.", {"scores": "sums"}),
        Mistake("distances", "You take squared distances of q and k. A score is made of their products.",
                {"scores": "distances"}),
        Mistake("queries_alone", "You multiply q with itself. A score is made of a query and its key.",
                {"scores": "queries"}),
        *_ways("centred_entries",
                "You take the mean off q and k first. That changes the scores, not only their "
                "mean: a product with an entry's mean varies too. Take the mean off the scores.",
                {"entries":
                 "less column means"}, {"entries": "less row means"}, {"entries": "less one mean"}),
        *_ways("standardised_entries",
                "You bring q and k to mean 0 and variance 1 first. The entries may have any "
                "distribution: measure the scores as they are.",
                {"entries": "columns standardised"}, {"entries": "rows standardised"},
                {"entries": "all standardised"}),
        *_ways("some_pairs", "You leave out pairs. All n of them count, the first and the last too.",
                {"which": "but the first"}, {"which": "but the last"}, {"which": "a hundred"},
                {"which": "as many as numbers"}),
        Mistake("ddof",
                "You divide by n - 1, which estimates the variance of a larger population. This exercise "
                "divides by n.", {"spread": "sample"}, convention=True),
        *_ways("ddof_of_one", "One of your numbers divides by n and the other by n - 1. Both divide by n.",
                {"spread": "sample", "other": "variance"}, {"other": "sample"}),
        *_ways("standard_deviation", "You return the spread, which is the root of the variance.",
                {"spread": "root"}),
        *_ways("spread_of_one",
                "One of your numbers is a variance and the other its root. Both are variances.",
                {"spread": "root", "other": "variance"}, {"other": "root"}),
        *_ways("ddof and standard_deviation",
                "You return the spread, which is the root of the variance. And you "
                "divide by n - 1, where this exercise divides by n.", {"spread": "sample root"}),
        Mistake("mean_square",
                "You take the mean square. It is the variance only when the mean is 0, and here any "
                "distribution may come.", {"spread": "mean square"}),
        Mistake("moments",
                "You subtract the squared mean from the mean square. Here these are two huge numbers that "
                "nearly cancel, and what is left is rounding. Subtract the mean first and square then.",
                {"spread": "moments"}),
        Mistake("sum_of_squares",
                "You add up the squared distances. A variance is their mean.", {"spread": "sum"}),
        Mistake("about_the_median", "You take distances from the median. A variance is about the mean.",
                {"spread": "about the median"}),
        Mistake("mean_distance", "You take the mean distance from the mean. A variance is the mean *squared* "
                "distance.", {"spread": "mean distance"}),
        Mistake("mean", "You return the mean of the scores. Asked for is how far they stray from it.",
                {"spread": "mean"}),
        Mistake("scores_returned",
                "You return the scores themselves. Asked for is their variance, one number.",
                {"spread": "none"}),
        Mistake("unit_normal",
                "You return what theory says of independent entries with mean 0 and variance 1. These "
                "are other numbers: measure.", {"spread": "unit normal"}),
        *_ways("formula",
                "You multiply the spreads of the entries by the width. That holds for independent entries "
                "with mean 0; here any may come. Measure the scores themselves.",
                {"spread": "formula"}, {"spread": "formula by columns"}, {"spread": "formula of squares"}),
        Mistake("covariance",
                "You take the covariance of the entries of q and k. Asked for is the variance of the "
                "scores.", {"spread": "covariance"}),
        Mistake("divided_by_width",
                "You scale the scores by 1/d. Divide them by the root of d.", {"by": "width"}),
        Mistake("variance_by_root",
                "You divide the variance by the root of d. The scores are divided by it; what "
                "does that do to their squares?", {"by": "variance by root"}),
        Mistake("multiplied", "You multiply by the root of d. Look at which way the second number should go.",
                {"by": "multiplies"}),
        *_ways("root_of_n",
                "You take the root of the number of pairs. The sum has as many terms as the vectors are "
                "wide.", {"by": "pairs"}),
        Mistake("root_of_all",
                "You take the root of the number of all entries. The sum has as many terms as the "
                "vectors are wide.", {"by": "all"}),
        Mistake("not_scaled",
                "Your second number is the first. Divide the scores by the root of d.", {"by": "not"}),
        *_ways("standardised",
                "You divide the scores by their own spread, so your second number is always 1. "
                "Divide by the root of d and see what comes out.", {"by": "itself"}, {"by": "one"},
                {"by": "one where it varies"}),
        Mistake("scaled_by_both",
                "You divide by the root of 2d. The widths of q and k are the same d, and it counts "
                "once.", {"by": "both widths"}),
        Mistake("whole_root", "You cut the root of d down to a whole number. It is one for 4, 9 and 16 only.",
                {"by": "whole root"}),
        Mistake("fixed_width",
                "You divide by 8, the root of 64. The width is that of q and k, whatever it is.",
                {"by": "64"}),
        Mistake("fixed_width",
                "You divide by the root of 3, the width of the first pairs, whatever the width. Is it "
                "written into the code, or kept from the first call?", {"by": "3"}, rare=True),
        Mistake("log_of_width", "You divide by the logarithm of d. Divide by its root.", {"by": "log"}),
        Mistake("swapped", "The two numbers have changed places: raw first, then scaled.",
                {"results": "scaled, raw"}),
        Mistake("scaled_twice_told",
                "Both of your numbers are of the scaled scores. The first is of the scores as "
                "they are: is q divided before you measure it?", {"results": "scaled, scaled"}),
        *_ways("one_number", "You return one number. Two are asked for: raw, then scaled.",
                {"results": "raw"}, {"results": "scaled"}),
        *_ways("rounded", "You round what you return. Give the numbers as they are.",
                {"results": "two digits"}, {"results": "three digits"}, {"results": "one digit"},
                {"results": "four digits"}, {"results": "whole"}),
        Mistake("whole_scores",
                "You cut the scores down to whole numbers. Keep them in floating point, in an array "
                "of floats.", {"scores": "whole"}),
        Mistake("few_digits",
                "Your numbers keep about three digits, as half precision does, and end at 65504. "
                "Compute in 32 or 64 bits.", {"entries": "half precision"}),
    ),  # fmt: skip
    properties=(_no_variance, _nearly_right, _one_of_two),
    praise="Checked on independent and on related pairs, with means far from 0, on whole numbers, on 32-bit "
    "numbers, on large and small ones, on a single pair and at width 1. The second number is the first "
    "divided by d, because a variance is made of squares.",
    atol=1e-9,
)

_SOLUTION = """
import numpy as np

def dot_product_variance(q, k):
    scores = (q * k).sum(axis=-1)                          # (n,) one for each pair
    return scores.var(), (scores / np.sqrt(q.shape[-1])).var()
"""

EXERCISES = (
    Exercise("dot_product_variance", "06", dot_product_variance, (
        "How many dot products do n pairs have? Print the shape of your scores before you take a variance.",
        "Multiply q and k entry by entry and sum each row: that is one score for each pair, where q @ k.T "
        "would hold the strangers too. NumPy's var divides by n unless it is told otherwise.",
        "The first number is the variance of these n scores, the second the variance of the same scores "
        "divided by the root of the width, which is the last number in the shape of q.",
    ), _SOLUTION, "function"),
)  # fmt: skip

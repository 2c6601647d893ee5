"""The exercises of lesson 06: each judge takes an answer and returns a verdict."""

from dataclasses import replace

import numpy as np

from attnlib.exercises.answers import as_floats, in_quotes, numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, unanswered, wrong


def wider_head(temperature):
    """The temperature of a head four times as wide whose entries are half as large."""
    temperature, complaint = numbers(temperature, (), "your answer")
    if complaint:
        return complaint
    temperature = float(temperature)
    if abs(temperature - 4) < 0.01:
        return right(
            "Its scores spread by the root of 256, times 1/2, times 1/2: 16 / 4 = 4. Divided by 4 they "
            "spread by 1, as the old head's do. The root of the width is the right temperature for entries "
            "of spread 1 only."
        )
    for value, name, hint in (
        (16, "entries_forgotten or variance_for_spread", "16 is the root of 256, right for entries of "
         "spread 1, and these are smaller. Or you have the scores' variance, 256 times 1/4 times 1/4: a "
         "temperature goes by the spread, its root."),
        (32, "width_without_root", "That is four times 8: the temperature would follow the variance. The "
         "spread of a sum grows as the root of the width. And the entries are smaller."),
        (8, "halved_once", "That keeps the old temperature. Four times the width doubles the spread; now "
         "what do the smaller entries do? Both vectors have them, and a step is a product."),
        (1, "variance_for_spread", "Variances were mixed with spreads: 256 / 16 = 16 is the scores' "
         "variance, and 16 / 16 is no spread. Take the root of the variance."),
        (2, "width_forgotten", "The entries alone would bring 8 down to 2. The head is wider, too."),
        (0.25, "scale_for_temperature", "That is the scale, which multiplies. The temperature divides.")
    ):
        if abs(temperature - value) < 0.01:
            return wrong(hint, name)
    if temperature <= 0:
        return wrong(f"A temperature is above 0; got {temperature:g}.")
    return wrong(
        f"At temperature {temperature:g} the new head's scores spread by {4 / temperature:.4g}; the old "
        "head's by 1. What is the spread of a sum of 256 products?"
    )


def fifty_five(width):
    """From which width a match that agrees in 55 of 100 coins lies three spreads above strangers."""
    width, complaint = numbers(width, (), "your answer")
    if complaint:
        return complaint
    width = float(width)
    if abs(width - 900) < 0.5:
        return right(
            "55 steps up and 45 down are a drift of 0.1 a step. After 900 steps it has led to 90, and a "
            "stranger strays by 30. A scale would multiply both; it cancels. Half the drift would take "
            "four times the width."
        )
    for value, name, hint in (
        (3600, "excess_for_drift", "You took 0.05 for the drift. 55 of 100 steps go up, and the other 45 "
         "go down: what is their mean?"),
        (30, "square_forgotten", "With 30 steps the drift leads to 3, and a stranger strays by more than "
         "5. The spread grows with the width too, as its root."),
        (100, "one_spread", "At width 100 the drift has led to 10, and a stranger strays by 10: one "
         "spread. Three are asked for."),
        (300, "three_times", "Three times the width of one spread is not yet three spreads: at 300 the drift "
         "has led to 30, and a stranger strays by 17."),
        (891, "spread_of_match", "That is right for the spread of the match's own score, which is a little "
         "smaller. The question compares with a stranger's."),
        (9 / 0.55**2, "share_for_drift", "55 of 100 is a share, not a drift: strangers agree in 50 of "
         "100 and have none. What is the mean of a step?"),
    ):
        if abs(width - value) < 0.1 or np.ceil(value) == width:
            return wrong(hint, name)
    if not 1 <= width < 1e12:
        return wrong(f"A width is a number of coins; got {width:g}.")
    ratio = 0.1 * np.sqrt(width)
    told = (f"At width {width:g} a match's mean is {0.1 * width:.4g} and a stranger's spread "
            f"{np.sqrt(width):.4g}")
    if ratio < 3:
        return wrong(f"{told}: only {ratio:.4g} spreads.")
    return wrong(f"{told}: {ratio:.4g} spreads. That is enough, and a narrower key will do.", "not_the_least")


def largest_variance(answer):
    """Rows with columns of mean 0 and variance 1 whose score has the largest variance, 16."""
    given, complaint = _rows(answer)
    if complaint:
        return complaint
    q, k = given
    variance = (q @ k.T).var()
    if abs(variance - 16) < 1e-3:
        return right(
            "16, the width squared. Within a row all steps come out alike: one draw decides them all, "
            "and the walk goes four steps one way or the other. The variances of single entries cannot "
            "tell this from 4 independent ones."
        )
    told = f"The score has variance {variance:.4g}. "
    if _independent(q) and _independent(k):
        return wrong(
            told + "The entries within your rows are uncorrelated, so variances add and give 4.", "in_order")
    if _independent(q) or _independent(k):
        side, other = ("qs", "ks") if _independent(q) else ("ks", "qs")
        return wrong(
            told + f"The entries of {other} move together, but those of {side} are uncorrelated and "
            "still toss, as in trial A. Both must move together.", "one_side")
    if variance < 1e-6:
        return wrong(
            told + "Your two move together in ways that cancel; this answers the other half.", "other_half")
    return wrong(
        told + "It can be larger. Multiply an entry's step by another's: the product should have the "
        "largest possible mean for every two entries."
    )


def no_variance(answer):
    """Rows with columns of mean 0 and variance 1 whose score is always the same."""
    given, complaint = _rows(answer)
    if complaint:
        return complaint
    q, k = given
    variance = (q @ k.T).var()
    if variance < 1e-9:
        return right(
            "Every query stands at a right angle to every key, though each entry has mean 0 and variance "
            "1. Half the steps undo the other half. Between this 0 and the 16 lies everything that the "
            "words 'variance d' leave out."
        )
    told = f"The score has variance {variance:.4g}, for example {_score(q, k, 0)} and {_score(q, k, -1)}. "
    if q.shape == k.shape and np.allclose(q, k):
        return wrong(
            told + "Query and key are drawn from the same rows here, each for itself; so they need not "
            "be the same row, as in trial D.", "same_rows")
    if _independent(q) or _independent(k):
        side = "qs" if _independent(q) else "ks"
        return wrong(
            told + f"The entries of {side} are uncorrelated, and then the variance is 4, whatever the "
            "other side does.", "one_side")
    if abs(variance - 16) < 1e-3:
        return wrong(
            told + "That is the largest possible; this is the other half of the exercise.", "other_half")
    return wrong(
        told + "For which queries and keys do the steps up and the steps down cancel, whichever are drawn?")


def _rows(answer):
    """The two arrays and None, or None and what is wrong with them."""
    if isinstance(answer, np.ndarray) and answer.ndim == 3:
        answer = [*answer[:3]]
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        return None, wrong(f"Give two arrays, (qs, ks); got {short(answer)}.")
    if any(part is ... or part is None for part in answer):
        return None, unanswered("Put your answer in place of the three dots and run the cell again.")
    given = []
    for name, part in zip(("qs", "ks"), answer, strict=True):
        rows = as_floats(part)
        if rows is None or rows.ndim != 2 or rows.shape[1] != 4 or not len(rows):
            shape = "" if rows is None else f" of shape {rows.shape}"
            quotes = ", without quotes" if in_quotes(part) else ""
            return None, wrong(
                f"Let {name} be an array with rows of 4 numbers{quotes}; got {short(part)}{shape}.")
        if len(rows) > 1000:
            return None, wrong(f"{name} has {len(rows)} rows; a thousand or fewer will do.")
        if not np.isfinite(rows).all() or np.abs(rows).max() > 1e6:
            return None, wrong(f"Let the numbers of {name} be finite and below a million.")
        mean, variance = rows.mean(0), rows.var(0)
        if np.abs(mean).max() > 1e-6:
            at = np.abs(mean).argmax()
            alone = " A single row is always drawn; add its opposite." if len(rows) == 1 else ""
            return None, wrong(
                f"Column {at + 1} of {name} has mean {mean[at]:.4g}; it must be 0.{alone}", "mean")
        if np.abs(variance - 1).max() > 1e-6:
            at = np.abs(variance - 1).argmax()
            return None, wrong(
                f"Column {at + 1} of {name} has variance {variance[at]:.4g}; it must be 1. With larger "
                "or smaller entries the task would be easy.", "entries_not_one")
        given.append(rows)
    return given, None


def _independent(rows):
    covariance = rows.T @ rows / len(rows)
    return np.abs(covariance - np.eye(4)).max() < 1e-6


def _score(q, k, which):
    """The smallest or the largest score, as text."""
    return f"{np.sort((q @ k.T).ravel())[which]:.4g}"


def _variance(q, k, *, products="pairs", spread="variance", by="root", order="raw first", entries="as given"):
    """`dot_product_variance`, or a wrong way of computing it."""
    q, k = (np.asarray(x) if "float" in str(x.dtype) else np.asarray(x, dtype=float) for x in (q, k))
    n, d = q.shape
    if entries == "unit normal":
        return np.float64(d), np.float64(1)
    if entries == "independent":
        raw = d * q.var() * k.var()
        return raw, raw / d
    s = {
        "pairs": lambda: (q * k).sum(-1),
        "all": lambda: q @ k.T,
        "per query": lambda: q @ k.T,
        "entries": lambda: q * k,
        "columns": lambda: (q * k).sum(0),
        "mean": lambda: (q * k).mean(-1),
        "cosines": lambda: (q * k).sum(-1) / np.linalg.norm(q, axis=-1) / np.linalg.norm(k, axis=-1),
        "sizes": lambda: np.abs((q * k).sum(-1)),
        "sums": lambda: (q + k).sum(-1),
    }[products]()
    take = {
        "variance": np.var,
        "sample": lambda s: np.var(s, ddof=1),
        "spread": np.std,
        "mean square": lambda s: np.mean(s**2),
        "sum": lambda s: np.var(s) * s.size,
    }[spread]
    if products == "per query":
        rows, take = s, lambda s: np.mean(np.var(s, axis=-1))
        s = rows
    raw = take(s)
    scaled = {
        "root": lambda: take(s / np.sqrt(d)),
        "width": lambda: take(s / d),
        "variance by root": lambda: raw / np.sqrt(d),
        "multiplies": lambda: take(s * np.sqrt(d)),
        "pairs": lambda: take(s / np.sqrt(n)),
        "not": lambda: raw,
        "itself": lambda: take(s / np.std(s)),
        "twice": lambda: take(s / np.sqrt(2 * d)),
    }[by]()
    return (scaled, raw) if order == "scaled first" else (raw, scaled)


def _variance_cases():
    rng = np.random.default_rng(61)

    def pair(n, d, *, mean=0.4, dtype=float):
        return tuple((mean + rng.normal(size=(n, d)) * (1, 2)[i]).astype(dtype) for i in range(2))

    q, noise = pair(9, 4)
    whole = rng.integers(-3, 4, size=(2, 6, 5))
    together = np.ones(3) * rng.normal(size=(8, 1))
    return [
        Case("7 pairs of width 3", pair(7, 3)),
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
    ]


class _TwoNumbers(FunctionExercise):
    """A judge to whom an array of two numbers is as good as two numbers."""

    def _run(self, function, case, **choices):
        outcome = super()._run(function, case, **choices)
        value = outcome.value
        if isinstance(value, np.ndarray) and value.shape == (2,):
            return replace(outcome, value=tuple(value))
        return outcome


dot_product_variance = _TwoNumbers(
    compute=_variance,
    cases=_variance_cases,
    mistakes=(
        Mistake("all_pairs", "You take the variance over all n times n scores, of every query with every "
                "key. Only row i with row i belongs together: n scores.", {"products": "all"}),
        Mistake("per_query", "You take a variance for each query over all keys. Only row i with row i "
                "belongs together: n scores, one variance.", {"products": "per query"}),
        Mistake("entries", "You take the variance of the single products. A score is their sum over the row.",
                {"products": "entries"}),
        Mistake("columns", "You sum over the pairs, which gives a number for each column. A score is a "
                "sum over its row: which axis is that?", {"products": "columns"}),
        Mistake("mean_of_products", "You average the products of a row. A dot product is their sum.",
                {"products": "mean"}),
        Mistake("cosines", "You divide by the lengths: these are cosines, which do not spread as scores do.",
                {"products": "cosines"}),
        Mistake("absolute", "You take the size of a score without its sign, and both sides of zero "
                "fall together.", {"products": "sizes"}),
        Mistake("sums", "You add q and k. A score is made of their products.", {"products": "sums"}),
        Mistake("ddof", "You divide by n - 1, which estimates the variance of a larger population. This "
                "exercise divides by n.", {"spread": "sample"}, convention=True),
        Mistake("standard_deviation", "You return the spread, which is the root of the variance.",
                {"spread": "spread"}),
        Mistake("mean_square", "You take the mean square. It is the variance only when the mean is 0, "
                "and here any distribution may come.", {"spread": "mean square"}),
        Mistake("sum_of_squares", "You add up the squared distances. A variance is their mean.",
                {"spread": "sum"}),
        Mistake("divided_by_width", "You scale the scores by 1/d. Divide them by the root of d.",
                {"by": "width"}),
        Mistake("variance_by_root", "You divide the variance by the root of d. The scores are divided "
                "by it; what does that do to their squares?", {"by": "variance by root"}),
        Mistake("multiplied", "You multiply by the root of d. Look at which way the second number should go.",
                {"by": "multiplies"}),
        Mistake("root_of_n", "You take the root of the number of pairs. The sum has as many terms as the "
                "vectors are wide.", {"by": "pairs"}),
        Mistake("not_scaled", "Your second number is the first. Divide the scores by the root of d.",
                {"by": "not"}),
        Mistake("standardised", "You divide the scores by their own spread, so your second number is "
                "always 1. Divide by the root of d and see what comes out.", {"by": "itself"}),
        Mistake("scaled_by_both", "You divide by the root of 2d. The widths of q and k are the same d, "
                "and it counts once.", {"by": "twice"}),
        Mistake("swapped", "The two numbers have changed places: raw first, then scaled.",
                {"order": "scaled first"}),
        Mistake("unit_normal", "You return what theory says of independent entries with mean 0 and "
                "variance 1. These are other numbers: measure.", {"entries": "unit normal"}),
        Mistake("formula", "You multiply d by the variances of the entries. That holds for independent "
                "entries with mean 0; here any may come. Measure the scores themselves.",
                {"entries": "independent"}),
    ),
    praise="Checked on independent and on related pairs, with means far from 0, on whole numbers, on "
    "32-bit numbers, on a single pair and at width 1. The second number is the first divided by d, "
    "because a variance is made of squares.",
)


def _scale(q, k, width, *, rule="mean and variance", root=True, inverse=True):
    """`choose_scale`, or a wrong way of choosing."""
    n, d = q.shape
    s = (q * k).sum(-1)
    mean, variance = s.mean() / d, s.var() / d
    grow = width / d
    rho = np.corrcoef(q.ravel(), k.ravel())[0, 1]
    everyone = np.sum((q.T @ q / n) * (k.T @ k / n))              # mean square over all n times n scores
    square = {
        "mean and variance": mean**2 * width**2 + variance * width,
        "root": width,
        "one over": width**2,
        "as measured": np.mean(s**2),
        "all as root": np.mean(s**2) * grow,
        "all as width": np.mean(s**2) * grow**2,
        "spread": variance * width,
        "mean": mean**2 * width**2,
        "unit entries": rho**2 * width**2 + width,
        "unit steps": mean**2 * width**2 + width,
        "all pairs": everyone * grow,
        "sum": (abs(mean) * width + np.sqrt(variance * width)) ** 2,
        "correlation": rho**2 * width**2,
        "old width": d,
    }[rule]
    size = np.sqrt(np.float64(square)) if root else np.float64(square)
    return 1 / size if inverse else size


def _head(rho, d, width, seed, *, q_spread=1.0, k_spread=1.0, entries="normal"):
    rng = np.random.default_rng(seed)
    if entries == "coins":
        q = rng.choice([-1.0, 1.0], size=(2000, d))
        k = q * np.where(rng.random((2000, d)) < (1 + rho) / 2, 1, -1)
    else:
        q, noise = rng.normal(size=(2, 2000, d))
        k = rho * q + np.sqrt(1 - rho**2) * noise
    return q_spread * q, k_spread * k, width


def _scale_cases():
    return [
        Case("correlation 0.3, width 32 rebuilt at 256", _head(0.3, 32, 256, 1),
             hint="Is the score here mostly drift or mostly chance? And in the new head?"),
        Case("no correlation, width 32 rebuilt at 512", _head(0.0, 32, 512, 2)),
        Case("correlation 0.05, width 128 rebuilt at 4096", _head(0.05, 128, 4096, 3),
             hint="Drift grows with the width and chance with its root: they cannot share a factor."),
        Case("correlation 0.8, width 64 rebuilt at 8", _head(0.8, 64, 8, 4)),
        Case("correlation 0.1, width 100 kept", _head(0.1, 100, 100, 5)),
        Case("correlation 0.2, entries of spread 3 and 1/2, width 48 rebuilt at 300",
             _head(0.2, 48, 300, 6, q_spread=3.0, k_spread=0.5),
             hint="The entries need not have variance 1."),
        Case("no correlation, entries of spread 3 and 1/2, width 40 rebuilt at 200",
             _head(0.0, 40, 200, 8, q_spread=3.0, k_spread=0.5),
             hint="How far does one step stray, here?"),
        Case("coins that agree in 4 of 5, width 24 rebuilt at 96", _head(0.6, 24, 96, 7, entries="coins")),
    ]


def _root_mean_square(case, value, expected):
    """What the scores of matches come to with the learner's scale."""
    value = as_floats(value)
    if value is None or value.shape != () or not np.isfinite(value):
        return None
    if value <= 0:
        return "A scale is positive."
    return ("Times your scale, the rebuilt head's matches have a root mean square of "
            f"{value / expected:.3g}, not 1.")


choose_scale = FunctionExercise(
    compute=_scale,
    cases=_scale_cases,
    mistakes=(
        Mistake("root_of_width", "You use one over the root of the width. It is right for strangers with "
                "entries of variance 1. These know each other, and their mean grows faster than the "
                "root.", {"rule": "root"}),
        Mistake("one_over_width", "You use one over the width. It keeps a drift of 1 a step, and here "
                "the drift is smaller and there is chance besides. Measure both.", {"rule": "one over"}),
        Mistake("as_measured", "Your scale is right for the head that you measured, and the new one has "
                "another width.", {"rule": "as measured"}),
        Mistake("all_grows_as_root", "You measured well, and then let everything grow as the root of the "
                "width. That is true of chance. Which part of a match's score grows faster?",
                {"rule": "all as root"}),
        Mistake("all_grows_as_width", "You measured well, and then let everything grow as the width. "
                "That is true of the drift. Which part of a match's score grows more slowly?",
                {"rule": "all as width"}),
        Mistake("spread_only", "You make the variance 1. The mean of matches is not 0, and a mean "
                "square counts it.", {"rule": "spread"}),
        Mistake("mean_only", "You make the mean 1 and leave chance out. Where there is little "
                "correlation, chance is most of the score.", {"rule": "mean"}),
        Mistake("unit_entries", "You estimate the correlation and take the entries' variances for 1. "
                "They need not be: the drift and the variance of a step can be measured as they are.",
                {"rule": "unit entries"}),
        Mistake("unit_steps", "You measure the drift, and take the variance of a step for 1. It is a "
                "product of two entries, whose variances need not be 1: measure it too.",
                {"rule": "unit steps"}),
        Mistake("correlation_only", "You divide by correlation times width. That leaves chance out, and "
                "takes the entries' variances for 1.", {"rule": "correlation"}),
        Mistake("all_pairs", "You measure all queries with all keys. Nearly all of those are strangers; "
                "a match is row i with row i.", {"rule": "all pairs"}),
        Mistake("adds_spreads", "You add mean and spread. In a mean square it is their squares that add.",
                {"rule": "sum"}),
        Mistake("old_width", "You use the width of the old head. The scale is for the new one, and width "
                "alone does not decide it.", {"rule": "old width"}),
        Mistake("no_root", "You divide by the mean square. A scale multiplies scores, so divide by its root.",
                {"root": False}),
        Mistake("temperature", "You return what the scores should be divided by, a temperature. Asked "
                "for is the factor.", {"inverse": False}, convention=True),
    ),
    praise="Checked on correlations from 0 to 0.8 and on widths from 8 to 4096, with entries of other "
    "sizes and with coins. Drift grows as the width and chance as its root; you measured each before you "
    "let it grow. That is the defence. No fixed power of the width does both: chance leads below a width "
    "of about one over the correlation squared, and drift above.",
    properties=(_root_mean_square,),
    package=True,
    rtol=0.2,
    atol=0.0,
)

EXERCISES = (
    Exercise("wider_head", "06", wider_head, (), "", "prediction"),
    Exercise("fifty_five", "06", fifty_five, (), "", "prediction"),
    Exercise("largest_variance", "06", largest_variance, (), "", "construction"),
    Exercise("no_variance", "06", no_variance, (), "", "construction"),
    Exercise("dot_product_variance", "06", dot_product_variance, (), "", "function"),
    Exercise("choose_scale", "06", choose_scale, (), "", "function"),
)

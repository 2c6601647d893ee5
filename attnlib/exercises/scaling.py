"""The exercises of lesson 06: each judge takes an answer and returns a verdict.

The variance of dot products is in `pair_variance`.
"""

import numpy as np

from attnlib.exercises import pair_variance
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

_HEAD_SOLUTION = """
old_spread = 64**0.5 / 8                        # of the old head's scores, divided by its temperature
new_scores = (256 * (1 / 2) ** 2 * (1 / 2) ** 2) ** 0.5
answer = new_scores / old_spread
"""

_COINS_SOLUTION = """
drift = (55 - 45) / 100                         # the mean of one step; strangers have none
answer = round((3 / drift) ** 2)                # drift * d = 3 * sqrt(d)
"""

_LARGEST_SOLUTION = """
import numpy as np

qs = np.array([[1, 1, 1, 1], [-1, -1, -1, -1]])
answer = (qs, qs)                               # every step of a score comes out alike: 4 or -4
"""

_NONE_SOLUTION = """
import numpy as np

qs = np.array([[1, 1, 1, 1], [-1, -1, -1, -1]])
ks = np.array([[1, 1, -1, -1], [-1, -1, 1, 1]])
answer = (qs, ks)                               # two steps up, two steps down, whichever are drawn
"""

_SCALE_SOLUTION = """
import numpy as np

def choose_scale(q, k, width):
    scores = (q * k).sum(axis=-1)
    drift = scores.mean() / q.shape[1]                     # of one step
    chance = scores.var() / q.shape[1]                     # the variance of one step
    return 1 / np.sqrt((drift * width) ** 2 + chance * width)
"""

EXERCISES = (
    Exercise("wider_head", "06", wider_head, (
        "What is the spread of the old head's scores before they are divided, and after? The new head shall "
        "have the second of these.",
        "A score's variance is d times the variance of an entry of q times that of an entry of k. The "
        "spread 1/2 of both enters as a variance.",
        "The new variance is 256 times 1/4 times 1/4. Its root is the spread, and the temperature that "
        "brings it to 1.",
    ), _HEAD_SOLUTION, "prediction"),
    Exercise("fifty_five", "06", fifty_five, (
        "A step is +1 where the coins agree and -1 where they do not. What is the mean of one step of a "
        "match, and of a stranger?",
        "After d steps the match's mean has grown as d, and a stranger's spread as the root of d. The "
        "question sets the first to three times the second.",
        "The mean of a step is 0.55 less 0.45. Divide 0.1 d = 3 times the root of d by the root of d, and "
        "square.",
    ), _COINS_SOLUTION, "prediction"),
    Exercise("largest_variance", "06", largest_variance, (
        "Look at trial B: one coin decides all entries of q, another all entries of k. What are the scores "
        "then, at width 4?",
        "Each column needs mean 0 and variance 1. A row of four signs and its opposite have that, whichever "
        "signs you choose.",
        "Give qs and ks the same two rows: a vector of signs and its opposite. Every score is then 4 or -4.",
    ), _LARGEST_SOLUTION, "construction"),
    Exercise("no_variance", "06", no_variance, (
        "All scores are the same, and their mean is 0. So what is every single score?",
        "Take a row of four signs and its opposite for qs, as before. For which other rows of signs is the "
        "dot product with it 0?",
        "Half of the steps must go up and half down: let the rows of ks agree with those of qs in two "
        "places and differ in the other two.",
    ), _NONE_SOLUTION, "construction"),
    *pair_variance.EXERCISES,
    Exercise("choose_scale", "06", choose_scale, (
        "A mean square is a squared mean plus a variance. When the width grows tenfold, by how much does "
        "the mean of a match's score grow, and by how much its variance?",
        "Measure the mean and the variance of the scores of row i with row i. Divided by d they are those "
        "of one step, and steps in the new head are of the same kind.",
        "In the new head the mean is width times a step's mean, and the variance is width times a step's "
        "variance. Add the squared mean and the variance: the scale is one over the root of that.",
    ), _SCALE_SOLUTION, "function"),
)  # fmt: skip

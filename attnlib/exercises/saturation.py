"""The exercises of lesson 07: each judge takes an answer and returns a verdict.

The two functions among them are in `softmax_slopes`.
"""

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.core.statistics import softmax_jacobian_norm
from attnlib.exercises import softmax_slopes
from attnlib.exercises.answers import as_floats, numbers
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.verdict import right, wrong

NUDGE_KEYS = np.array([[3.0, 1.0], [1.0, 3.0], [-2.0, -1.0]])
NUDGE_QUERY = np.array([4.0, 1.0])


@np.errstate(all="ignore")
def drowned(lengths):
    """Numbers of keys at which a match 5, and a match 10, above the rest first holds less than half."""
    given, complaint = numbers(lengths, (2,), "your answer")
    if complaint:
        return complaint
    ratios = np.exp([5, 10])
    if np.allclose(given, ratios + 1, atol=0.05) or np.allclose(given, ratios, atol=0.05):
        return wrong("Keys come in whole numbers. Which way do you round, and is the match among your keys?")
    if (given != given.round()).any() or (given < 1).any():
        return wrong(f"Give two whole numbers of keys, each at least 1; got {given[0]:g} and {given[1]:g}.")
    least = np.array([150, 22028])
    if (given == least).all():
        return right(
            "The match counts e^5 = 148.4 against 1 for each other key, so 149 others outweigh it, and with "
            "itself that makes 150 keys. Twice the score is the square of the weights' ratio: e^10 = 22026, "
            "and the text may be 147 times as long. Twice the score is not twice the length."
        )
    first = given[0]
    if (given == least - 1).all():
        return wrong(
            f"{_whole(first)} and {_whole(given[1])} are the numbers of the others. Count the match as a key "
            "too.",
            "match_not_counted",
        )
    if (given == least - 2).all():
        return wrong(
            f"With {_whole(first)} keys the match holds {_held(5, first)}. Which way do you round, and is "
            "the match among your keys?",
            "rounded_down",
        )
    if first == least[0] and given[1] == 2 * least[0]:
        return wrong(
            f"The first is right. At {_whole(given[1])} keys a match 10 above still holds "
            f"{_held(10, given[1])}: weights go by exponentials, so a doubled score does more than "
            "double the length.",
            "doubled",
        )
    if first == least[0] and given[1] in (150**2, 149**2, 149**2 + 1):
        return wrong(
            "Nearly: e^10 is the square of e^5, but not of a number rounded up. At "
            f"{_whole(given[1])} keys the match holds {_held(10, given[1])}, and fewer keys will do.",
            "square_of_rounded",
        )
    delta, n, fewest = next(
        (delta, n, fewest) for delta, n, fewest in zip((5, 10), given, least, strict=True) if n != fewest
    )
    if n > fewest:
        return wrong(
            f"With {_whole(n)} keys a match {delta} above the rest has {_held(delta, n)}, less than half; "
            "but so it has with fewer.",
            "not_the_least",
        )
    told = f"With {_whole(n)} keys a match {delta} above the rest still holds {_held(delta, n)}."
    if n == fewest - 1:
        return wrong(f"{told} Did you count the match itself as a key?", "match_not_counted")
    if n == fewest - 2:
        return wrong(f"{told} Which way do you round, and is the match among your keys?", "rounded_down")
    if n <= 3 * delta:
        return wrong(f"{told} Weights go by exponentials, not by scores.", "scores_not_exponentials")
    return wrong(told)


@np.errstate(all="ignore")
def least_nudge(query):
    """A query near the given one at which the slope in B's score is at least 0.2 in size."""
    query, complaint = numbers(query, (2,), "your query")
    if complaint:
        return complaint
    if np.abs(query).max() > 1e6:
        return wrong("So far away nothing new happens. Stay near (4, 1).")
    move = query - NUDGE_QUERY
    length = np.linalg.norm(move)
    scores = NUDGE_KEYS @ query
    w = softmax(scores)
    gap = round(scores[0] - scores[1], 3) + 0.0            # + 0.0: there is no -0
    slope = w[1] * (1 - w[1])
    near, steep = length <= 1.8 + 1e-9, slope >= 0.2 - 1e-9
    told = (
        f"You moved by {_beside(length, 1.8)}; A, B and C hold {w[0]:.3f}, {w[1]:.3f} and {w[2]:.3f}, and "
        f"the slope at B's score has the size {_beside(slope, 0.2)}. "
        f"The gap q.A - q.B {'is still 6' if gap == 6 else f'went from 6 to {gap:g}'}. "
    )
    if length < 1e-9:
        return wrong(told + "That is the query as it was: move it.", "unmoved")
    if steep and near:
        return right(
            told + "Only the gap between A and B matters. It falls fastest along B - A = (-2, 2), at a "
            "right angle to the line on which the two are level. The loss's own slope in the query lies "
            "along A - B too: at (4, 1) it is w_A w_B (A - B), and 0.007 long. The direction was never "
            "wrong. It was too faint to follow."
        )
    name, reason = next(
        ((name, reason) for name, way, reason in _MOVES
         if move @ way > 0.9999 * length * np.linalg.norm(way)),
        (None, ""),
    )
    if name == "along_the_gap":
        if steep or w[1] > 0.5:
            far = "a little too far" if steep else "much too far: B is sure of itself now"
            return wrong(f"{told}The right way, and {far}. Turn back.", "too_long" if steep else "overshoot")
        short = "a little too short" if slope > 0.1 else "too short"
        return wrong(f"{told}The right way, and {short}. Go on.", "too_short")
    if name == "towards_a":
        return wrong(told + reason, name)
    if scores.argmax() == 2:
        if name == "shrunk":
            name, reason = "turned_round", "You turned the query round, and now C leads. "
        else:
            reason += "Now C leads, which was out of the race. "
    if steep:
        reason = reason or "The slope is there, but a shorter move brings it too. "
        return wrong(f"{told}{reason}Which move changes q.A - q.B most for its length?", name or "too_long")
    if w[1] > 0.5:
        return wrong(
            told + "Now B leads, and is sure of itself in turn. You went past the place where the slope is "
            "largest.",
            "overshoot",
        )
    return wrong(f"{told}{reason}The slope is w_B (1 - w_B) in size; which w_B makes it 0.2?", name)


_MOVES = (
    ("along_the_gap", NUDGE_KEYS[1] - NUDGE_KEYS[0], ""),
    ("towards_a", NUDGE_KEYS[0] - NUDGE_KEYS[1],
     "You moved along A - B, straight to A's side, so the gap grows as fast as it can. Turn round. "),
    ("towards_a", NUDGE_KEYS[0],
     "You moved towards A, so A's lead grows. Which move makes it shrink? "),
    ("shrunk", -NUDGE_QUERY,
     "You shortened the query, which makes every gap smaller, C's too. The gap between A and B is enough. "),
    ("towards_b", NUDGE_KEYS[1],
     "You moved towards B. That raises B's score, and A's with it, because the two point in similar "
     "directions. "),
    ("away_from_a", -NUDGE_KEYS[0],
     "You moved away from A. That lowers A's score, and B's with it. "),
)


def _beside(x, limit):
    """``x`` with as many digits as tell it from ``limit``, at least four."""
    return next((text for digits in range(4, 12) if float(text := f"{x:.{digits}f}") != limit), f"{x:g}")


@np.errstate(all="ignore")
def two_stories(scores):
    """Rows of scores whose Jacobian norms have a tiny median and a large mean."""
    scores = as_floats(scores)
    if scores is None:
        return wrong("Give an array of scores of shape (rows, keys).")
    if scores.ndim != 2 or len(scores) < 10 or scores.shape[1] < 2:
        return wrong(f"Give at least 10 rows of at least 2 keys each; got shape {scores.shape}.")
    if scores.size > 1_000_000:
        return wrong("A million numbers are more than this takes; 10 rows will do.")
    if not np.isfinite(scores).all():
        return wrong("All scores must be finite. Large ones will do as well as infinite ones.")
    norms = softmax_jacobian_norm(scores)
    mean, median = norms.mean(), np.median(norms)
    is_open = norms > 0.1
    told = f"The mean of the norms is {_beside(mean, 0.2)} and their median {median:.3g}. "
    if median < 1e-3 and mean >= 0.2 - 1e-9:
        return right(
            told + f"{is_open.sum()} of {len(norms)} rows are open and carry nearly all of it. The mean "
            "calls this layer healthy, the median calls it dead; most of its rows are frozen."
        )
    if median >= 1e-3 and is_open.mean() > 0.5:
        return wrong(
            told + "More than half of the rows are open, so the median row is one of them.", "too_many_open"
        )
    if median >= 1e-3 and is_open.mean() == 0.5:
        return wrong(
            told + "Half of the rows are open: the median of an even number of rows lies between the two "
            "halves. Close one more row.",
            "half_open",
        )
    if median >= 1e-3:
        return wrong(
            told + f"Only {is_open.sum()} of {len(norms)} rows are open, but the closed ones are not closed "
            "enough. Make the closed rows surer: a gap of 8 leaves a norm near 0.0007 with two keys.",
            "not_sure_enough",
        )
    if not is_open.any():
        return wrong(told + "No row is open, and so none is left to carry the mean.", "none_open")
    if is_open.mean() < 0.4:
        return wrong(
            told + f"{is_open.sum()} of {len(norms)} rows are open. No norm exceeds 0.5, so a mean of 0.2 "
            "needs at least four tenths of them open, and fewer than half may be.",
            "too_few_open",
        )
    return wrong(
        told + f"Enough rows are open, but their norms are only {norms[is_open].mean():.3f} on average. "
        "Equal scores for many keys are not the most sensitive. Which rows have the largest norm?",
        "open_rows_too_flat",
    )


def _whole(n):
    """A whole number, by its power of ten where it would be long."""
    return f"{n:.0f}" if n < 1e9 else f"{n:g}"


def _held(delta, n):
    return _beside(1 / (1 + (n - 1) * np.exp(-delta)), 0.5)


_DROWNED_SOLUTION = """
import numpy as np

def fewest(lead):
    others = int(np.exp(lead)) + 1      # just more than e^lead keys that count 1 each
    return others + 1                   # and the match itself

answer = [fewest(5), fewest(10)]
"""

_NUDGE_SOLUTION = """
import numpy as np

a, b = np.array([3, 1]), np.array([1, 3])
way = (b - a) / np.linalg.norm(b - a)   # on which q.A - q.B falls fastest
answer = np.array([4, 1]) + 1.79 * way
"""

_STORIES_SOLUTION = """
import numpy as np

open_rows = np.zeros((9, 2))                    # two keys at 1/2: the largest norm, 0.5
closed_rows = np.tile([20.0, 0.0], (11, 1))     # sure rows, and more than half of all
answer = np.vstack([open_rows, closed_rows])
"""

EXERCISES = (
    Exercise("drowned", "07", drowned, (
        "In a softmax a score of 5 counts e^5, and a score of 0 counts e^0. How many zeros count as much as "
        "one 5?",
        "The match holds less than half once the others together count more than it does. e^5 is 148.4: "
        "which is the first whole number of others above it? For the doubled score, square e^5 before you "
        "round.",
        "Round each of the two numbers of others up, then add 1, for the match is one of the keys.",
    ), _DROWNED_SOLUTION, "prediction"),
    *softmax_slopes.EXERCISES,
    Exercise("least_nudge", "07", least_nudge, (
        "C hardly has any weight, so the weight of B depends on one number: the gap q.A - q.B. How large is "
        "it at (4, 1), and how small must it become for a slope of 0.2?",
        "The slope w_B (1 - w_B) is 0.2 where w_B is 0.276, that is, at a gap just below 1. The gap is q.(A "
        "- B), and it changes fastest for a move along A - B or against it.",
        "Move from (4, 1) in the direction of B - A = (-2, 2), by a length between 1.785 and 1.8.",
    ), _NUDGE_SOLUTION, "construction"),
    Exercise("two_stories", "07", two_stories, (
        "How large can the norm of a row's Jacobian be, and for which weights? How small is it for a row "
        "that is sure of one key?",
        "Two level keys have the norm 0.5, the largest there is; a sure row has next to none. Which share of "
        "open rows gives a mean of 0.2, and which share may the median bear?",
        "Leave between four tenths and one half of the rows open, at two equal scores, and close the others "
        "with a gap of 20.",
    ), _STORIES_SOLUTION, "construction"),
)  # fmt: skip

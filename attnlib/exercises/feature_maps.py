"""Lesson 20: what feature maps do to weights; entropy, recall, and Performer's random features."""

import numpy as np

from attnlib.exercises.answers import as_floats, in_quotes, numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.statements import which_hold
from attnlib.exercises.verdict import right, unreadable, wrong


def _phi(x):
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


# ------------------------------------------------------------- which statements hold

_CLAIMS = {  # whether it holds, and what to look at where it is taken for the other
    "A": (True, "even", "An even row is as undecided as a row can be, and entropy measures just that: eight "
          "equal weights have ln 8, the most there is. Does the sentence fit together?"),
    "B": (True, "words_that_ask", "Look at the printed entropies of 一个 and 它, words that ask for "
          "something, under both."),
    "C": (False, "always_higher", "Look at 我 and 很. They ask for nothing: softmax weighs all keys alike, "
          "and phi still prefers keys that have something to show."),
    "D": (True, "louder", "Ten times the query is ten times the gap between scores for a softmax. For phi(q) "
          ". phi(k) numerator and denominator grow together: the lesson tried it with 1,000."),
    "E": (False, "low_is_right", "A row can be sure of the wrong key. Entropy says how decided a row is, not "
          "for what."),
    "F": (True, "never_zero", "All of elu(x) + 1 is above 0, and so is every phi(q) . phi(k). What does that "
          "leave for a weight of exactly 0?"),
}  # fmt: skip


def entropy_claims(answer):
    """Which of six statements about entropy and linear attention hold; their letters in one text."""
    return which_hold(answer, _CLAIMS, (
        "A, B, D and F. The printed claim contradicts itself: even rows have the higher entropy. Nor is "
        "that a law, for where a query is silent softmax is the even one. What holds of elu(x) + 1 is "
        "that it cannot become sure: no weight reaches 0, and a louder query changes little."
    ))  # fmt: skip


# ------------------------------------------------------------- five pairs, one recalled


def _shares(keys):
    """Weights of five keys for questions that are the keys themselves: softmax, linear attention."""
    scores = keys @ keys.T / np.sqrt(keys.shape[-1])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    products = _phi(keys) @ _phi(keys).T
    return tuple(w / w.sum(-1, keepdims=True) for w in (e, products))


@np.errstate(all="ignore")
def one_of_five(keys):
    """Five keys which softmax tells apart, and of which linear attention recalls one."""
    keys, complaint = numbers(keys, (5, 3), "your keys")
    if complaint:
        return complaint
    if np.abs(keys).max() > 20:
        return wrong("Numbers between -20 and 20 are enough.", "too_large")
    softmax, linear = _shares(keys)
    own = np.arange(5)
    same = [(i, j) for i in range(5) for j in range(i) if np.abs(keys[i] - keys[j]).max() < 1e-6]
    if same:
        i, j = same[0]
        return wrong(f"Keys {j} and {i} are the same, so nothing can tell them apart. All five must differ.",
                     "same_keys")
    lost = [i for i in own if softmax[i, i] <= 0.5]
    if lost:
        i = lost[0]
        other = int(np.argmax(np.where(own == i, -1, softmax[i])))
        told = f"Asked for pair {i}, softmax gives it {softmax[i, i]:.2f}, and pair {other} "
        told += f"{softmax[i, other]:.2f}. "
        if np.isclose(softmax[i, other], softmax[i, i]):
            return wrong(told + f"Longer keys do not help: key {other} reaches as far along key {i} as that "
                         "key itself, so its product is the same. Turn it away, or make it shorter.",
                         "softmax_tied")
        if softmax[i, other] > softmax[i, i]:
            return wrong(told + "A key that is longer, and points nearly the same way, has the larger "
                         "product. Which lengths, which angles keep a key's own product the largest?",
                         "softmax_wrong")
        return wrong(told + "The right one leads, with half of the weight or less. What makes a softmax "
                     "surer without changing a direction?", "softmax_unsure")
    recalled = [i for i in own if linear[i].argmax() == i]
    close = [i for i in own if i not in recalled and linear[i].max() < linear[i, i] * (1 + 1e-9)]
    recalled = sorted(recalled + close)
    said = ", ".join(map(str, recalled))
    if len(recalled) == 1:
        i = recalled[0]
        victim = int(own[own != i][0])
        return right(
            f"Softmax recalls all five, linear attention pair {i} alone; asked for pair {victim} it answers "
            f"with pair {int(linear[victim].argmax())}. None at all is impossible: where phi(k) is longest, "
            "its product with itself is at least as large as any other (Cauchy and Schwarz). Softmax sees "
            "your keys, linear attention their features, and phi squeezes all that is negative into numbers "
            "between 0 and 1."
        )
    if len(recalled) == 5:
        hint = "Which key has the longest phi(k)? It should win the others' questions."
        if (keys >= 0).all():
            hint = "What becomes of two keys that differ below 0?"
        return wrong(f"Linear attention recalls all five. {hint}", "all_recalled")
    return wrong(
        f"Linear attention still recalls {len(recalled)} of five, pairs {said}. A pair is lost where another "
        "phi(k) has a larger product with phi(q) than its own. Which one key could win all the questions?",
        "several_recalled",
    )


# ------------------------------------------------------------- Performer, broken and saved

FEATURES = 256


def _relative_error(q, k, m=FEATURES):
    """Of m positive random features: the root of the mean square, over what they estimate."""
    return float(np.sqrt(np.expm1(min(((q + k) ** 2).sum(), 700.0)) / m))


def _estimates(q, k, draws=3):
    """What some draws of the features give for exp(q . k)."""
    found = []
    for seed in range(draws):
        w = np.random.default_rng(seed).normal(size=(FEATURES, len(q)))
        found.append(np.exp(w @ (q + k) - (q @ q + k @ k) / 2).mean())
    return ", ".join(f"{x:.2g}" for x in found)


@np.errstate(all="ignore")
def performer_pairs(answer):
    """A query with two keys of one length: one at a right angle and hopeless, one estimated closely."""
    vectors = as_floats(answer)
    if vectors is None or vectors.shape != (3, 4):
        quotes = " without quotes" if in_quotes(answer) else ""
        got = short(answer) if vectors is None else f"the shape {vectors.shape}"
        return unreadable(f"Give three vectors of four numbers{quotes}: q, bad, good; got {got}.")
    if not np.isfinite(vectors).all():
        return unreadable(f"Let all numbers be finite; got {short(answer)}.")
    q, bad, good = vectors
    lengths = np.linalg.norm(vectors, axis=-1)
    if lengths.min() < 1e-9:
        name = ("q", "bad", "good")[int(lengths.argmin())]
        return wrong(f"{name} is zero. All three need a length.", "zero")
    if lengths.max() > 10:
        return wrong("Lengths up to 10 are more than enough.", "too_long")
    if abs(q @ bad) > 1e-6 * lengths[0] * lengths[1]:
        if abs(q @ good) <= 1e-6 * lengths[0] * lengths[2]:
            return wrong("good is at a right angle to q, and bad is not: the order is q, bad, good.",
                         "exchanged")
        return wrong(f"q . bad is {q @ bad:.3g}, so the number to estimate is {np.exp(q @ bad):.3g}. It is "
                     "to be 1: bad at a right angle to q.", "no_right_angle")
    if abs(lengths[1] - lengths[2]) > 1e-6 * lengths[1]:
        return wrong(f"bad has the length {lengths[1]:.3f} and good {lengths[2]:.3f}. Let them be equally "
                     "long, so that it is not a matter of length.", "lengths_differ")
    error, small = _relative_error(q, bad), _relative_error(q, good)
    if error < 1:
        return wrong(
            f"For bad the relative error of {FEATURES} features is {error:.2f}. It hangs on the length of q "
            f"+ bad alone, {np.linalg.norm(q + bad):.2f} here, and at a right angle that comes of both "
            "lengths. How long must the sum be?", "too_short")
    if small > 0.01:
        told = f"bad is well chosen (three draws estimate {_estimates(q, bad)} where 1 is right). For good "
        told += f"the relative error is {small:.2g}. "
        if q @ good > 0.99 * lengths[0] * lengths[2]:
            return wrong(told + "You point good along q, where the number to estimate is largest, and q + "
                         "good is longest too.", "good_along_q")
        if abs(q @ good) <= 1e-6 * lengths[0] * lengths[2]:
            return wrong(told + "good is at a right angle to q as well, and then q + good is as long as q + "
                         "bad.", "good_at_a_right_angle")
        if q @ good < -0.99 * lengths[0] * lengths[2]:
            return wrong(told + "The direction is right. The sum q + good is still "
                         f"{np.linalg.norm(q + good):.2f} long.", "not_as_long_as_q")
        return wrong(told + f"q + good is {np.linalg.norm(q + good):.2f} long. For which key of this length "
                     "is the sum shortest?", "sum_too_long")
    return right(
        f"Three draws of {FEATURES} features estimate {_estimates(q, bad)} for bad, where 1 is right. For "
        f"good they give {_estimates(q, good)}, and {np.exp(q @ good):.2g} is right. A key that a query "
        "ignores is estimated closely; one that it wants is not, nor are long vectors at a right angle. "
        "Attention is made of the keys that queries want."
    )


_CLAIMS_SOLUTION = """
answer = "ABDF"
"""

_FIVE_SOLUTION = """
import numpy as np

answer = np.array([
    [3, 3, 3],          # phi = (4, 4, 4): longer than all others, and wins every question
    [-5, 0, 0],         # phi = (0.01, 1, 1)
    [0, -5, 0],
    [0, 0, -5],
    [-3, -3, -3],       # phi = (0.05, 0.05, 0.05)
])
"""

_PAIRS_SOLUTION = """
import numpy as np

q = np.array([2.0, 0, 0, 0])
bad = np.array([0, 2.0, 0, 0])      # |q + bad|^2 = 8, and e^8 is far above 256
good = -q                           # q + good = 0: every feature gives the same
answer = [q, bad, good]
"""

EXERCISES = (
    Exercise("entropy_claims", "20", entropy_claims, (
        "What is the entropy of eight equal weights, and that of one weight 1 with seven 0? Which of the two "
        "is even?",
        "The cell in the lesson prints entropies of all eight words. Compare them for a word that asks, and "
        "for one that does not.",
        "Two statements of the six do not hold. One says never, the other confuses decided with right.",
    ), _CLAIMS_SOLUTION, "construction"),
    Exercise("one_of_five", "20", one_of_five, (
        "phi(x) is x + 1 above 0 and e^x below. What is left of the difference between -5 and -3?",
        "Make one key with large features, all numbers above 0. Then look for keys far from it, and from "
        "each other, whose features are small.",
        "(3, 3, 3) has the features (4, 4, 4). A key such as (-5, 0, 0) has (0.01, 1, 1): a product of 8 "
        "with the first, and of 2 with itself.",
    ), _FIVE_SOLUTION, "construction"),
    Exercise("performer_pairs", "20", performer_pairs, (
        "The lesson's formula has one number in it besides m: the length of q + k. Which lengths give an "
        "error of 1, and of 0.01, with 256 features?",
        "At a right angle the squares of the lengths add. An error of 1 needs a sum of squares of ln 257 = "
        "5.55 or more. And which key makes q + k shortest?",
        "Let q and bad be two long at a right angle: the squares add to 8. Let good be -q.",
    ), _PAIRS_SOLUTION, "construction"),
)  # fmt: skip

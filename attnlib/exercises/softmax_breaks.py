"""Two exercises of lesson 05: four faulty softmaxes, each to be broken by one input, and a prediction.

The faulty functions stand in the lesson too; a test holds the two together.
"""

import numpy as np

from attnlib.exercises.answers import in_quotes, numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.verdict import Verdict, right, unanswered, wrong

MOST_NUMBERS = 10_000
OFF = 0.01               # by so much a wrong weight must be wrong


def softmax_a(x):
    e = np.exp(x)
    return e / e.sum(-1, keepdims=True)


def softmax_b(x):
    e = np.exp(x - x.max())
    return e / e.sum(-1, keepdims=True)


def softmax_c(x):
    e = np.exp(np.clip(x, -80, 80))
    return e / e.sum(-1, keepdims=True)


def softmax_d(x):
    w = np.empty_like(x)
    for i, row in enumerate(x):
        e = np.exp(row - row.max())
        w[i] = e / e.sum()
    return w


FAULTY = {"A": softmax_a, "B": softmax_b, "C": softmax_c, "D": softmax_d}


def break_softmaxes(answer):
    """A dict with an input for each of A to D on which that softmax goes wrong."""
    if isinstance(answer, (list, tuple)) and len(answer) == len(FAULTY):
        answer = dict(zip(FAULTY, answer, strict=True))
    if not isinstance(answer, dict) or set(answer) != set(FAULTY):
        return wrong(f'Give a dict with an array for each of "A", "B", "C", "D"; got {short(answer)}.')
    verdicts = {name: _broken(name, answer[name]) for name in FAULTY}
    told = " ".join(f"{name}: {verdict.message}" for name, verdict in verdicts.items())
    faults = [verdict for verdict in verdicts.values() if verdict.passed is False]
    if faults:
        named = [f.misconception for f in faults if f.misconception]
        return Verdict(False, told, " and ".join(dict.fromkeys(named)) or None, faults[0].case)
    if all(verdict.passed for verdict in verdicts.values()):
        hidden = [name for name in FAULTY if _sums_to_one(name, answer[name])]
        if hidden:
            told += (f" A test that only adds up the weights would have passed {' and '.join(hidden)} on "
                     f"your input{'s' * (len(hidden) > 1)}.")
        return right(told)
    if any(verdict.passed for verdict in verdicts.values()):
        return unanswered(told)
    return unanswered("Put an array in place of the three dots and run the cell again.")


def _broken(name, x):
    """The verdict on one input; its message is read after the function's letter."""
    if x is ... or x is None:
        return unanswered("not answered yet.")
    x, complaint = _valid(x)
    if complaint:
        return complaint
    with np.errstate(all="ignore"):
        truth = _right(x)
        try:
            got = FAULTY[name](x)
        except Exception as error:
            return wrong(f"it stops with {type(error).__name__}, which anybody would notice. Find an input "
                         "on which it answers, wrongly.", "stops", (x,))
        off = ~(np.abs(got - truth) <= OFF)
    if off.any():
        at = np.unravel_index(int(off.argmax()), off.shape)
        praise = {"A": _praise_a, "B": _praise_b, "C": _praise_c, "D": _praise_d}[name]
        return right(f"broken. One weight comes out as {got[at]:.3g} and should be {truth[at]:.3g}. "
                     f"{praise(x)}")
    fault, hint = {"A": _missed_a, "B": _missed_b, "C": _missed_c, "D": _missed_d}[name](x)
    return wrong(f"right on this input. {hint}", fault, (x,))


def _valid(x):
    """The input as an array that a right softmax can take, and None; or None and the complaint."""
    try:
        array = np.asarray(x)
    except (TypeError, ValueError):
        return None, wrong(f"the rows of an array are equally long; got {short(x)}.")
    if array.dtype.kind not in "iuf":
        quotes = ", without quotes" if in_quotes(x) else ""
        return None, wrong(f"an input is an array of real numbers{quotes}; got {short(x)}.")
    if array.ndim == 0 or not array.size:
        return None, wrong(f"an input has at least one axis and one number; got the shape {array.shape}.")
    if array.size > MOST_NUMBERS:
        return None, wrong(f"{array.size} numbers are more than it takes; {MOST_NUMBERS} are allowed.")
    if not np.isfinite(array).all():
        return None, wrong("its numbers must be finite: a right softmax has no answer to some others.",
                           "not_finite", (array,))
    return array.copy(), None


def _right(x):
    z = x.astype(float)
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _limit(x):
    """Where the exponential overflows in the type that `np.exp` uses for these numbers."""
    kind = np.exp(np.zeros(1, x.dtype)).dtype
    return float(np.log(float(np.finfo(kind).max))), kind


def _praise_a(x):
    if (x.max(-1) > _limit(x)[0]).any():
        return "An exponential was infinite, and infinite by infinite is nothing."
    return "All exponentials of a row were 0, or nearly: their quotients are lost."


def _missed_a(x):
    limit, kind = _limit(x)
    top, low = float(x.max()), float(x.max(-1).min())
    if low < -0.5 * limit:
        return "too_near", (f"The largest score of your lowest row is {low:.4g}: its exponential is small, "
                            "and not yet 0.")
    return "too_near", (f"Your largest score is {top:.4g}. In {kind} the exponential overflows from "
                        f"{limit:.4g} on.")


def _praise_b(x):
    return "A row far below the largest number of the whole array had exponentials of 0 only."


def _missed_b(x):
    rows = x.reshape(-1, x.shape[-1]).astype(float)
    if len(rows) == 1:
        return "one_row", "With a single row, the array's maximum is the row's own."
    top = rows.max(-1)
    if x.shape[-1] == 1:
        return "rows_too_near", ("A row of one score has weight 1 until its exponential is 0; go "
                                 "further apart.")
    if np.ptp(rows, axis=-1).max() > 300 and np.ptp(top) < 300:
        return "within_a_row", ("Far apart within a row is no harm: that row's winner is safe. Which maximum "
                                "does each row need?")
    return "rows_too_near", (f"The best scores of your rows lie up to {np.ptp(top):.4g} apart. The lower "
                             "row's exponentials are small, and not yet 0.")


def _praise_c(x):
    return "What lay beyond 80, on one side, all became 80, and the differences were lost."


def _missed_c(x):
    z = x.astype(float)
    beyond = np.abs(z) > 80
    if not beyond.any():
        return "inside", ("All your scores lie within ±80, where nothing is clipped; the largest is "
                          f"{z.max():.4g}.")
    if (beyond.sum(-1) < 2).all() or not ((z > 80).sum(-1) > 1).any():
        return "one_beyond", ("It is clipped, and no weight changes: what is clipped still lies far above, "
                              "or far below, the others of its row. Which difference must be lost for a "
                              "weight to change?")
    return "equal_beyond", ("Two scores of a row are clipped to the same number, and their difference hardly "
                            "mattered, or was none.")


def _praise_d(x):
    if x.dtype.kind in "iu" and x.ndim == 2:
        why = "The result was made in the type of x, and whole numbers hold no shares."
    elif x.ndim == 1:
        why = "With one axis a row is a single score, and each gets weight 1."
    else:
        why = "With three axes or more a row is a matrix, and all of it shares one sum."
    return f"{why} It has three such faults: whole numbers, one axis, more than two axes."


def _missed_d(x):
    if x.dtype.kind in "iu":
        return "whole_and_sure", ("Whole numbers are a good thought. But here the right weights are 0 and 1 "
                                  "as good as exactly. Choose scores that are closer.")
    if x.ndim == 2:
        return "float_matrix", ("D is right on every matrix of decimals, however large. What else may x be? "
                                "Think of its type, and of its number of axes.")
    return "too_small", "With so few scores nothing goes wrong. Let every axis be longer than 1."


@np.errstate(all="ignore")
def _sums_to_one(name, x):
    return bool(np.allclose(FAULTY[name](np.array(x)).sum(-1), 1))


@np.errstate(all="ignore")
def other_temperature(answer):
    """The larger of two weights, 0.9 and 0.1 at temperature 1, at temperatures 2 and 1/2."""
    if isinstance(answer, (tuple, list)) and any(part is ... or part is None for part in answer):
        return unanswered("Put your answer in place of the three dots and run the cell again.")
    given, complaint = numbers(answer, (2,), "your answer")
    if complaint:
        return complaint
    truth = np.array([3 / 4, 81 / 82])
    if np.abs(given - truth).max() < 0.004:
        return right(
            "The ratio 9 to 1 is the exponential of a difference. Halved, the difference gives the root, 3 "
            "to 1; doubled, the square, 81 to 1. So a temperature can be changed without knowing the scores: "
            "raise all weights to the power 1/T and divide by their sum."
        )
    if np.abs(given - truth[::-1]).max() < 0.004:
        return wrong("The other way round. Dividing by 2 brings scores together, so "
                     "T = 2 is the flatter one.",
                     "turned_round")
    if np.abs(given - [3, 81]).max() < 0.01 or np.abs(given - [3 / 4, 81]).max() < 0.01:
        return wrong("Those are ratios, 3 to 1 and 81 to 1, and they are right. Which share of 1 has the "
                     "first word, when the second has one part?", "ratio_given")
    if np.abs(given - (1 - truth)).max() < 0.004:
        return wrong("Those are the weights of the second word. The first is asked for.", "second_word")
    if (given > 2).any() and (np.abs(given) <= 100).all():
        return wrong("Give shares of 1, not per cent: a number between 0 "
                     "and 1 for each temperature.", "per_cent")
    index, temperature = (0, "2") if abs(given[0] - truth[0]) >= 0.004 else (1, "1/2")
    told = "The first is right. " if index else ""
    known = (
        (("ratio_scaled", (4.5 / 5.5, 18 / 19), "You divided the ratio 9 by the temperature. It divides the "
          "difference of scores, and the ratio is the exponential of that."),
         ("weight_scaled", (0.45, 1.8), "You divided the weight. Scores are divided, and the weights of all "
          "words must still sum to 1."),
         ("not_normalised", (0.9**0.5, 0.81), "You took the root, or the square, of the weight alone. Do so "
          "with both, and divide by the sum."),
         ("weights_as_scores", (1 / (1 + np.exp(-0.4)), 1 / (1 + np.exp(-1.6))), "You took the softmax of "
          "the weights. The weights are the result; what were the scores, or their difference?"),
         ("halfway", (0.7, 0.95), "You went half the way to 1/2, or to 1. It is in the differences of scores "
          "that one halves."),
         ("unchanged", (0.9, 0.9), "That is the weight at temperature 1."))
    )
    for name, values, hint in known:
        if abs(given[index] - values[index]) < 0.003:
            return wrong(f"{told}{hint}", name)
    if not 0 <= given[index] <= 1:
        return wrong(f"{told}A weight lies between 0 and 1; got {given[index]:g}.")
    if (given[index] > 0.9) != (index == 1):
        return wrong(f"{told}At temperature {temperature} the row is "
                     f"{'flatter' if index == 0 else 'sharper'} than at 1; your {given[index]:g} is on the "
                     "other side of 0.9.", "turned_round")
    return wrong(f"{told}At temperature {temperature}: which difference of scores gives the ratio 9 to 1, "
                 "and what becomes of it?")


_BREAK_SOLUTION = """
import numpy as np

answer = {
    "A": np.array([1000.0, 999.0]),                      # exp(1000) is infinite
    "B": np.array([[0.0, 1.0], [2000.0, 2001.0]]),       # the first row lies far below the maximum
    "C": np.array([100.0, 90.0]),                        # both become 80
    "D": np.array([[1, 2, 3], [0, 1, 0]]),               # whole numbers hold no shares
}
"""

_TEMPERATURE_SOLUTION = """
answer = []
for T in (2, 1 / 2):
    ratio = (0.9 / 0.1) ** (1 / T)                       # e^(difference / T)
    answer.append(ratio / (ratio + 1))
"""

EXERCISES = (
    Exercise("other_temperature", "05", other_temperature, (
        "Which difference of two scores makes weights of 0.9 and 0.1 at temperature 1? You need not compute "
        "its value.",
        "The ratio of the weights is the exponential of the difference. Half the difference is the root of "
        "the ratio; twice the difference is its square.",
        "At T = 2 the ratio is 3 to 1, at T = 1/2 it is 81 to 1. Which share of one is that?",
    ), _TEMPERATURE_SOLUTION, "prediction"),
    Exercise("break_softmaxes", "05", break_softmaxes, (
        "Say of each what a right softmax has that it lacks: A subtracts nothing, B subtracts one number "
        "from all rows, C cuts scores off, D fills an array that is made like x, row by row.",
        "A: one large score is enough. B: two rows, one far below the other. C: two scores that both lie "
        "beyond 80. D: large numbers do nothing; change the type of x, or its number of axes.",
        "B needs a distance between rows of more than 745, where the exponential is 0. C needs a difference "
        "that matters between two scores above 80. D with whole numbers that lie close together.",
    ), _BREAK_SOLUTION, "construction"),
)  # fmt: skip

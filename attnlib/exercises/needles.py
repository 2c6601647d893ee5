"""Lesson 23: a needle that a head with decay loses, and what holds of lightning layers."""

import numpy as np

from attnlib.exercises.answers import numbers
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.statements import which_hold
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------- lose the needle

LEFT = np.exp(-np.arange(11, -1, -1) / 4)       # of each of twelve tokens, in a head of slope 1/4


def _asked(keys):
    """Softmax's weights, and a lightning head's, for a query that is the first key."""
    products = keys @ keys[0]
    e = np.exp((products - products.max()) / 2)
    return e / e.sum(), LEFT * products


@np.errstate(all="ignore")
def lose_the_needle(keys):
    """Twelve keys: asked with the first, softmax finds it, and a lightning head finds another."""
    keys, complaint = numbers(keys, (12, 4), "your keys")
    if complaint:
        return complaint
    if np.abs(keys).max() > 20:
        return wrong("Numbers between -20 and 20 are enough.", "too_large")
    lengths = np.linalg.norm(keys, axis=-1)
    if lengths[0] < 1e-9:
        return wrong("The needle is zero, so its product with everything is.", "zero")
    odd = int(np.abs(lengths - lengths[0]).argmax())
    if abs(lengths[odd] - lengths[0]) > 1e-6 * lengths[0]:
        return wrong(f"Key {odd} has the length {lengths[odd]:.3f} and the needle {lengths[0]:.3f}. All "
                     "twelve are to have one length, so that nothing is louder by itself.", "lengths_differ")
    cosines = keys[1:] @ keys[0] / lengths[0] ** 2
    most = int(cosines.argmax()) + 1
    if cosines.max() > 0.2 + 1e-9:
        return wrong(f"Key {most} has a cosine of {cosines.max():.2f} with the needle. At most 0.2 is "
                     "allowed: all of the straw stands nearly at a right angle.", "too_alike")
    softmax, lightning = _asked(keys)
    if softmax[0] <= 0.9:
        return wrong(f"Softmax gives the needle {softmax[0]:.2f}. The angles are fine; what makes a softmax "
                     "surer without changing an angle?", "softmax_unsure")
    if lightning[0] >= lightning[1:].max() - 1e-9 * lengths[0] ** 2:
        told = f"The needle has {LEFT[0]:.3f} of its product left, and it is still the largest"
        if cosines.max() <= 1e-9:
            return wrong(told + ": nothing else answers at all. A faded needle that is alone is found. What "
                         "would have to be in the straw?", "nothing_else")
        loudest = int(lightning[1:].argmax()) + 1
        return wrong(told + f"; the next is token {loudest}, {lightning[loudest] / lengths[0] ** 2:.3f}. "
                     "Each straw fades too. Where must one stand to be louder, and at which angle?",
                     "still_found")
    winner = int(lightning.argmax())
    return right(
        f"Softmax gives the needle {softmax[0]:.2f}. The head with decay answers with token {winner}, whose "
        f"cosine is only {cosines[winner - 1]:.2f}: {LEFT[winner]:.2f} of its product is left, and "
        f"{LEFT[0]:.2f} of the needle's. Moved to the end, the needle would be found; and so it would where "
        "it is, however faint, if all straw stood at a right angle. It takes distance and straw that answers."
    )


# ------------------------------------------------------------- which statements hold

_STATEMENTS = {
    "A": (True, "common_factor", "The output before the norm is three times as large. What does the norm "
          "make of a common factor? The gate is made of x, not of the values."),
    "B": (False, "padding_fades", "S becomes e^(-slope) S, plus nothing. A state of zeros stays as it was, "
          "so padding on the left does no harm; after a text it fades what was read."),
    "C": (False, "hybrid_linear", "One layer in eight compares with every token. Look at the figure of "
          "costs, beyond 295,000 tokens."),
    "D": (False, "longer_is_better", "The first figure: without forgetting, the rest drowns even the last "
          "token. A long half-life keeps the noise too."),
    "E": (True, "order_matters", "Exchange two earlier tokens with different values. Which decay does each "
          "have then?"),
    "F": (True, "blocks_same", "The cell that compares blocks of 1 to 9. A block is a way of computing, not "
          "something that a token notices."),
}  # fmt: skip


def lightning_claims(answer):
    """Which of six statements about lightning layers and their hybrid hold."""
    return which_hold(answer, _STATEMENTS, (
        "A, E and F. The norm takes out every common factor; the decay is a sense of order; blocks change "
        "the rounding only. Padding on the right lets time go by, an eighth of a square is a square, and a "
        "head that forgets nothing hears nothing."
    ))  # fmt: skip


_LOSE_SOLUTION = """
import numpy as np

needle = np.array([6.0, 0, 0, 0])
answer = np.zeros((12, 4))
answer[:, 1] = 6                                    # at a right angle to the needle
answer[11] = [0.15 * 6, 0, (1 - 0.15**2) ** 0.5 * 6, 0]     # the last: 0.15 is more than e^(-11/4) = 0.064
answer[0] = needle
"""

_CLAIMS_SOLUTION = """
answer = "AEF"
"""

EXERCISES = (
    Exercise("lose_the_needle", "23", lose_the_needle, (
        "If all straw stands at a right angle to the needle, its products are 0. Is a faint needle among "
        "zeros lost?",
        "0.064 of the needle's product is left. One token at the end, which has hardly faded, needs a cosine "
        "between that and 0.2.",
        "Let the last key have a cosine of 0.15 and all others 0. Then make all twelve longer until softmax "
        "is sure: their length enters squared.",
    ), _LOSE_SOLUTION, "construction"),
    Exercise("lightning_claims", "23", lightning_claims, (
        "Three of the six hold.",
        "For A: a norm follows. For B, put v_t = 0 into the formula of the state. For E, write down the "
        "output of three tokens.",
        "B, C and D are the three that do not: what happens to S, what does one layer in eight do, what does "
        "the first figure show?",
    ), _CLAIMS_SOLUTION, "construction"),
)  # fmt: skip

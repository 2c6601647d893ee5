"""Lesson 25: what a step, momentum and forgetting leave in a memory; one pair that spares all others."""

from itertools import combinations

import numpy as np

from attnlib.exercises.answers import numbers
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.statements import which_hold
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------- four numbers

THETA, ETA, ALPHA, LENGTH = 0.1, 0.5, 0.05, 3
_SLIPS = {
    "no_two": "The gradient of (k . M - v)^2 is 2 (k . M - v) k. The factor 2 is missing.",
    "one_step_back": "(a) is asked after the second token, with the step that goes on into it.",
    "only_the_second": "In (a) you give what the second token adds. The first step is in the memory too.",
    "eta_once": "In (b) the step goes on more than once: with eta, then eta squared, and so on.",
    "remainder": "In (b) the first step is theta times 2, and the series 1 + eta + eta^2 + ... sums to 1 / "
                 "(1 - eta), not to 1 / eta or eta / (1 - eta).",
    "believed": "In (c) you take the answer to reach the value. At each token a share of it is taken away, "
                "so an error must be left that puts it back.",
    "left_over": "In (c) you give the error that is left. The answer is asked for.",
    "length_one": "In (d) the key has length 3. A step moves the answer by theta 2 |k|^2 times the error.",
    "no_two_in_a": "In (a) the factor 2 of the gradient is missing: one step brings the answer to 0.2.",
    "no_two_in_c": "In (c) the factor 2 of the gradient is missing, or alpha is that of the lesson's table. "
                   "What comes back is 2 theta times the error.",
    "no_two_in_d": "In (d) the factor 2 of the gradient is missing.",
    "forgotten_first": "In (c) the error is taken before anything is forgotten.",
    "whole_step": "In (b) you take the first step for the whole way. With theta = 0.1 it is 0.2.",
    "not_squared": "In (d) the length counts twice: once in the gradient, once in the answer.",
}  # fmt: skip


def _four(slips=()):
    two = 1.0 if "no_two" in slips else 2.0
    step = two * THETA
    a = step * (1 + ETA)
    b = step / (1 - ETA)
    c = step / (step + ALPHA)
    d = 1 / (two * LENGTH**2)
    if "one_step_back" in slips:
        a = step
    if "only_the_second" in slips:
        a = step * ETA
    if "eta_once" in slips:
        b = step * (1 + ETA)
    if "remainder" in slips:
        b = step * ETA / (1 - ETA)
    if "believed" in slips:
        c = 1.0
    if "left_over" in slips:
        c = 1 - c
    if "length_one" in slips:
        d = 1 / two
    if "no_two_in_a" in slips:
        a = THETA * (1 + ETA)
    if "no_two_in_c" in slips:
        c = THETA / (THETA + ALPHA)
    if "no_two_in_d" in slips:
        d = 1 / LENGTH**2
    if "forgotten_first" in slips:
        c = step / (1 - (1 - ALPHA) * (1 - step))
    if "whole_step" in slips:
        b = 1 / (1 - ETA)
    if "not_squared" in slips:
        d = 1 / (two * LENGTH)
    return np.array([a, b, c, d])


def surprise_numbers(answer):
    """Answers after two tokens, after many, under forgetting, and the step for a key of length 3."""
    given, complaint = numbers(answer, (4,), "your answer")
    if complaint:
        return complaint

    def alike(other):
        return np.allclose(given, other, rtol=6e-3, atol=1e-3)

    if alike(_four()):
        return right(
            "One step is 0.1 * 2 = 0.2, so (a) is 0.2 + 0.1 = 0.3, (b) 0.2 / (1 - 0.5) = 0.4, (c) 0.2 / (0.2 "
            "+ 0.05) = 0.8: what goes, 0.05 of M, must come back as 0.2 of the error. And in (d) the "
            "length counts squared, 1 / (2 * 9) = 0.056. Keys of length 1 spare a memory all that."
        )
    names = [*_SLIPS]
    for size in (1, 2, 3):
        for slips in combinations(names, size):
            if alike(_four(slips)) and not alike(_four(slips[:-1])):
                return wrong(" ".join(_SLIPS[name] for name in slips), " and ".join(slips))
    told = (
        "(a): the first token adds theta * 2, the second carries eta of that on.",
        "(b): all that the step adds, now and later, is a geometric series.",
        "(c): in the end what is forgotten at a token and what the step puts back are the same.",
        "(d): which theta makes k . (M - theta * 2 (k . M - v) k) equal to v?",
    )
    for part, truth, hint in zip(given, _four(), told, strict=True):
        if abs(part - truth) > 6e-3 * truth + 1e-3:
            return wrong(f"{part:g} is not it. {hint}")
    return wrong("Give three digits of each.")


# ------------------------------------------------------------- one pair that spares the others

MEMORY = np.array([1.0, 0.5, -1.0])
APPLE, PEAR, PLUM = np.array([1.0, 0, 0]), np.array([0.6, 0.8, 0]), np.array([0, 0.6, 0.8])
_ENOUGH = 2e-3


def only_the_pear(pair):
    """A key and a value that, learned with theta = 1/2, make the pear sour and leave apple and plum alone."""
    pair, complaint = numbers(pair, (4,), "your pair")
    if complaint:
        return complaint
    key, value = pair[:3], pair[3]
    if np.abs(pair).max() > 100:
        return wrong("Numbers between -100 and 100 are enough.", "too_large")
    if np.linalg.norm(key) < 1e-6:
        return wrong("A key of zeros writes nothing: the gradient has it as a factor.", "zero_key")
    memory = MEMORY - (key @ MEMORY - value) * key
    said = {name: (fruit @ MEMORY, fruit @ memory)
            for name, fruit in (("apple", APPLE), ("pear", PEAR), ("plum", PLUM))}  # fmt: skip
    shown = ", ".join(f"{name} {before:g} to {after:.3g}" for name, (before, after) in said.items())
    touched = [name for name in ("apple", "plum") if abs(said[name][1] - said[name][0]) > _ENOUGH]
    sour = abs(said["pear"][1] + 1) <= _ENOUGH
    if sour and not touched:
        return right(
            f"The answers go {shown}. The key lies at a right angle to apple and plum, so no step along it "
            "reaches them; and it is no fruit at all. With a key of length 1 only 0.64 of a step arrives at "
            "the pear, so the error must be 2 / 0.64 for a change of 2. Two fruits that are to stay leave "
            "one direction of three; a third would leave none, unless its key were made of those two."
        )
    along = key / np.linalg.norm(key)
    if np.allclose(along, PEAR, atol=1e-3) or np.allclose(along, -PEAR, atol=1e-3):
        return wrong(
            f"You write the pear's own key: the answers go {shown}. Whatever is not at a right angle to a "
            "key moves with it. Which keys leave apple and plum where they are?", "pears_key")
    if touched:
        both = " and ".join(touched)
        fruit = APPLE if touched[0] == "apple" else PLUM
        return wrong(
            f"The answers go {shown}. Your key has the product {key @ fruit:.3g} with the key of the "
            f"{touched[0]}, and a step along it moves {both}. Which product leaves it alone?",
            f"moves_{'_and_'.join(touched)}")
    if abs(key @ MEMORY - value) < 1e-9:
        return wrong("The memory answers your key with just this value already: no error, no step.",
                     "no_surprise")
    if abs(value + 1) < _ENOUGH:
        return wrong(
            f"Apple and plum stay, well chosen. The answers go {shown}: -1 is what the memory now says to "
            f"your key. To the pear's it says something else, for only {PEAR @ along:.2g} of the pear's key "
            "lies along yours. How large must the step be?", "value_of_the_pear")
    if said["pear"][1] > said["pear"][0] + _ENOUGH:
        return wrong(f"Apple and plum stay, well chosen. The answers go {shown}: the pear is sweeter than "
                     "before. Turn the value round.", "sweeter")
    return wrong(f"Apple and plum stay, well chosen. The answers go {shown}. The pear's change is the error "
                 "at your key times the product of your key with the pear's. What must the error be?",
                 "other_size")


# ------------------------------------------------------------- which statements hold

_CLAIMS = {  # whether it holds, its name, and what to look at where it is taken for the other
    "A": (True, "whole_way", "A key of length 1 and half of the gradient, whose factor is 2: how far does "
          "the answer go?"),
    "B": (False, "stores_more", "Look at the figure over the places on a list of 24, and at the line under "
          "it. Who is overwritten?"),
    "C": (False, "sum_unchanged", "A sum adds the same pairs again: its answers double. Which of the two "
          "memories is it whose surprise is gone?"),
    "D": (False, "no_grad", "The lesson ran it: the outputs are the same. The memory's gradient is a part of "
          "the forward pass."),
    "E": (True, "one_chunk", "Every gradient is then taken at the empty memory, so the errors are -v, and 2 "
          "theta is 1."),
    "F": (True, "series", "Each step goes on, 1 + 0.9 + 0.81 + ... What does that sum to, times 0.05?"),
}  # fmt: skip


def memory_claims(answer):
    """Which of six statements about memories that learn hold; their letters in one text."""
    return which_hold(answer, _CLAIMS, (
        "A, E and F. A memory that corrects believes the latest, exactly; that is not the same as storing "
        "more. What no_grad switches off is the way back through its steps, not the steps."
    ))


_NUMBERS_SOLUTION = """
step = 0.1 * 2                          # theta times the factor of the gradient; |k| and v are 1
answer = (
    step + 0.5 * step,                  # the second token carries half of it on
    step / (1 - 0.5),                   # 1 + 0.5 + 0.25 + ... = 2 steps
    step / (step + 0.05),               # 0.05 M goes, step (1 - M) comes back
    1 / (2 * 3**2),                     # the length counts in the gradient and in the answer
)
"""

_PEAR_SOLUTION = """
import numpy as np

memory = np.array([1, 0.5, -1])
apple, pear, plum = np.array([1, 0, 0]), np.array([0.6, 0.8, 0]), np.array([0, 0.6, 0.8])
key = np.cross(apple, plum)             # at a right angle to both
key = key / np.linalg.norm(key)         # (0, -0.8, 0.6)
error = (pear @ memory + 1) / (pear @ key)      # the pear's answer changes by error * (pear . key)
answer = [*key, key @ memory - error]
"""

_CLAIMS_SOLUTION = """
answer = "AEF"
"""

EXERCISES = (
    Exercise("surprise_numbers", "25", surprise_numbers, (
        "The first token: from an empty memory the error is -1 and the gradient -2 k. How far does theta = "
        "0.1 bring the answer?",
        "One step is 0.2. In (a) and (b) it goes on with a half each time. In (c), what goes and what comes "
        "back in a token are the same in the end.",
        "(a) is 0.2 + 0.1. (b) is 0.2 times 1 / (1 - 0.5). (c): 0.05 M = 0.2 (1 - M). (d): theta times 2 "
        "times 9 must be 1.",
    ), _NUMBERS_SOLUTION, "prediction"),
    Exercise("only_the_pear", "25", only_the_pear, (
        "A step moves M along the key that is written. The answer to another key changes by the error times "
        "the product of the two keys.",
        "Find a key at a right angle to apple and plum. It has a 0 where the apple has its 1; np.cross gives "
        "it, or two lines on paper.",
        "(0, 0.8, -0.6) is one. Its product with the pear is 0.64. The pear is to change by -2, so the error "
        "at your key is 2 / 0.64; the value is what the memory answers to it now, less that error.",
    ), _PEAR_SOLUTION, "construction"),
    Exercise("memory_claims", "25", memory_claims, (
        "Three of the six hold.",
        "One of the false ones is a hope about memory in general, one confuses a sum with a memory that "
        "corrects, one confuses the inner steps with training.",
        "For B look at the mean over all places of the list; for D at the cell with no_grad.",
    ), _CLAIMS_SOLUTION, "construction"),
)  # fmt: skip

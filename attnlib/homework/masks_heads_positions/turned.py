"""Rotary positions: which features are a pair, which way they turn, and how many of them."""

import numpy as np

from attnlib.exercises.function import Case, Mistake
from attnlib.homework.assignment import (
    Convention,
    Option,
    Question,
    filled,
    judge_of_variant,
    said,
    values_of,
)

CONVENTIONS = (
    Convention("pairs", {
        "neighbours": Option("Features 2i and 2i + 1 are pair i, for i from 0 to r/2 - 1.",
                             "You pair neighbours, feature 2i with 2i + 1.",
                             "slice(0, r, 2), slice(1, r, 2)", "neighbours_paired"),
        "halves": Option("Features **i and i + r/2** are pair i, for i from 0 to r/2 - 1.",
                         "You pair halves, feature i with i + r/2.",
                         "slice(r // 2), slice(r // 2, r)", "halves_paired"),
    }),
    Convention("sense", {
        "counter": Option("A pair (a, b) becomes (a cos t - b sin t, a sin t + b cos t).",
                          "You turn a pair (a, b) to (a cos t - b sin t, a sin t + b cos t).",
                          "a * cos - b * sin, a * sin + b * cos", "turned_counter_clockwise"),
        "clockwise": Option("A pair (a, b) becomes **(a cos t + b sin t, b cos t - a sin t)**, turned "
                            "clockwise.",
                            "You turn a pair (a, b) to (a cos t + b sin t, b cos t - a sin t).",
                            "a * cos + b * sin, b * cos - a * sin", "turned_clockwise"),
    }),
    Convention("turns", {
        "all": Option("All features turn: r = d.", "You turn all features, with r = d.", "x.shape[-1]",
                      "all_features_turned"),
        "half": Option("Only the first half of a head's features turns: **r = d/2**. The others come back as "
                       "they are.",
                       "You turn the first half of the features alone, with r = d/2.", "x.shape[-1] // 2",
                       "half_the_features_turned"),
    }),
)
CHOICES = values_of(*CONVENTIONS)
LESSON = {"pairs": "neighbours", "sense": "counter", "turns": "all"}
SAMPLE = {"pairs": "neighbours", "sense": "clockwise", "turns": "half"}

TEXT = """\
Write `turned(x, places, base)`, rotary positions for the queries or keys of several heads.

`x` has shape `(H, L, d)` with d divisible by 4, and `places` has shape `(L,)`: whole numbers, the place of
each word, in any order, some of them equal or negative.

- {turns}
- {pairs}
- At place p, pair i turns by the angle `t = p · base^(-2i/r)`, in radians.
- {sense}

Each feature stays in its column, and the result has the shape of `x`. `x` is a NumPy array
of floats, and `base` a number such as 10000; do not change the arrays in place, and use
NumPy alone."""

STUB = """\
def turned(x, places, base):
    \"\"\"x (H, L, d), {what} turned by the places of the words.\"\"\""""

SOLUTION = """\
    r = <turns>
    angles = places[:, None] * base ** (-np.arange(0, r, 2) / r)       # (L, r/2)
    cos, sin = np.cos(angles), np.sin(angles)
    first, second = <pairs>
    a, b = x[..., first], x[..., second]                               # (H, L, r/2)
    out = x.copy()
    out[..., first], out[..., second] = <sense>
    return out"""


@np.errstate(all="ignore")
def compute(x, places, base, *, pairs="neighbours", sense="counter", turns="all", exponent="right",
            base_is="given", place="given", laid="right", way="right", order="right", axis=1, degrees=False,
            last=False):  # fmt: skip
    d = x.shape[-1]
    r = d if turns == "all" else d // 2
    i = np.arange(r // 2)
    powers = {
        "right": 2 * i / r, "i": i / r, "from_one": 2 * (i + 1) / r,
        "positive": -2 * i / r, "ends": i / max(len(i) - 1, 1), "squared": 4 * i / r, "none": 0 * i,
    }[exponent]  # fmt: skip
    p = {"given": places, "counted": np.arange(len(places)), "one_more": places + 1, "size": np.abs(places),
         "from_first": places - places[0], "sorted": np.sort(places)}[place]  # fmt: skip
    base = base if base_is == "given" else 10000
    angles = p[:, None] * float(base) ** -powers
    angles = np.deg2rad(angles) if degrees else angles
    both = np.tile(angles, 2) if pairs == "halves" else angles.repeat(2, -1)
    if laid == "other":                         # laid out for the other pairs
        both = angles.repeat(2, -1) if pairs == "halves" else np.tile(angles, 2)
    if axis == 0:
        if x.shape[0] != len(places):
            raise ValueError("operands could not be broadcast together")
        both = both[:, None]
    cos, sin = np.cos(both), np.sin(both)
    sin = sin if sense == "counter" else -sin
    part = x[..., d - r :] if last else x[..., :r]
    one, two = (slice(r // 2), slice(r // 2, None)) if pairs == "halves" else (slice(0, None, 2),
                                                                               slice(1, None, 2))
    a, b, c1, c2, s1, s2 = part[..., one], part[..., two], cos[..., one], cos[..., two], sin[..., one], \
        sin[..., two]
    new = {
        "right": lambda: (a * c1 - b * s1, a * s2 + b * c2),
        "overwritten": lambda: (a * c1 - b * s1, (a * c1 - b * s1) * s2 + b * c2),
        "exchanged": lambda: (a * s1 - b * c1, a * c2 + b * s2),
        "mirrored": lambda: (a * c1 - b * s1, a * s2 - b * c2),
        "no_minus": lambda: (a * c1 + b * s1, a * s2 + b * c2),
        "two_minus": lambda: (a * c1 - b * s1, b * c2 - a * s2),
        "added": lambda: (a + s1, b + c2),
        "cosine_alone": lambda: (a * c1, b * c2),
    }[way]()
    out = x.copy()
    done = np.empty_like(part)
    done[..., one], done[..., two] = new
    if order == "regrouped":
        done = np.concatenate(new, -1) if pairs == "neighbours" else np.stack(new, -1).reshape(done.shape)
    elif order == "swapped":
        done[..., one], done[..., two] = new[::-1]
    if order == "rest_lost":
        return done if turns == "half" else np.concatenate([done, done], -1)
    if last:
        out[..., d - r :] = done
    else:
        out[..., :r] = done
    return out


def cases(rng, choice):
    def made(heads, length, d, places, base=10000):
        return rng.normal(size=(heads, length, d)), np.array(places), base

    return [
        Case("2 heads, 5 words at places 0 to 4, 8 features", made(2, 5, 8, range(5)),
             hint="Take the word at place 1 and its pair 0, which turns by 1 radian. Then pair 1."),
        Case("places that do not start at 0", made(3, 4, 8, range(20, 24))),
        Case("places in any order, two of them equal", made(2, 4, 8, (7, 2, 7, 40))),
        Case("another base", made(2, 3, 12, (1, 5, 30), 500)),
        Case("negative places", made(2, 3, 8, (-3, 4, -11))),
        Case("as many heads as words", made(4, 4, 8, (3, 0, 9, 5), 100)),
        Case("4 features", made(1, 6, 4, range(3, 9), 50)),
        Case("one word at place 100", made(3, 1, 16, (100,), 1000)),
    ]  # fmt: skip


MISTAKES = (
    Mistake("exponent_halved", "Your exponents are half of 2i/r, so the later pairs turn too fast. Is the 2 "
            "there, and is the width r?", {"exponent": "i"}),
    Mistake("exponent_doubled", "Your exponents go by 4i/r: a 2 too many. Is the step of 2 in your range "
            "already?", {"exponent": "squared"}),
    Mistake("first_pair_too_slow", "Your pairs count from 1. Pair 0 turns by the place itself, in radians.",
            {"exponent": "from_one"}),
    Mistake("exponent_without_minus", "Your later pairs turn faster. The exponent is negative.",
            {"exponent": "positive"}),
    Mistake("exponent_to_the_end", "Your last pair has the exponent -1. With 2i/r it stops short of it.",
            {"exponent": "ends"}),
    Mistake("one_speed", "All your pairs turn by the same angle. The later ones turn more slowly.",
            {"exponent": "none"}),
    Mistake("places_counted", "You count 0, 1, 2 and so on. The places are given, and need not be those.",
            {"place": "counted"}),
    Mistake("places_from_one", "You add 1 to the places. Take them as they are.", {"place": "one_more"}),
    Mistake("places_without_sign", "You drop the sign of negative places.", {"place": "size"}),
    Mistake("places_from_the_first", "You count places from the first word's. Take them as they are.",
            {"place": "from_first"}),
    Mistake("base_fixed", "You turn with the base 10000, whatever base is given.", {"base_is": "fixed"}),
    Mistake("angles_of_other_pairs", "Your angles are laid out for the other way of pairing features: the "
            "two features of a pair turn by different angles.", {"laid": "other"}),
    Mistake("overwritten", "You compute the second number of a pair from the first one's new value. Both new "
            "numbers come from the old ones.", {"way": "overwritten"}),
    Mistake("sine_and_cosine_exchanged", "Your sine stands where the cosine belongs: at place 0 nothing may "
            "turn.", {"way": "exchanged"}),
    Mistake("mirrored", "A sign of yours makes a mirror of the turn: at place 0 the second number of each "
            "pair comes out with the other sign.", {"way": "mirrored"}),
    Mistake("lengths_change", "Your two sines have the same sign, so the pair changes its length. In a turn "
            "their signs differ.", {"way": "no_minus"}),
    Mistake("lengths_change", "Your two sines have the same sign, so the pair changes its length. In a turn "
            "their signs differ.", {"way": "two_minus"}),
    Mistake("added", "You add sines and cosines. Rotary positions turn the features that are there.",
            {"way": "added"}),
    Mistake("cosine_alone", "Only the cosine is in your result. Each new number comes from both old ones.",
            {"way": "cosine_alone"}),
    Mistake("features_moved", "The turn is right, and the features come out in another order. Each stays in "
            "its column.", {"order": "regrouped"}),
    Mistake("pair_exchanged", "The turn is right, and the two features of each pair come out exchanged.",
            {"order": "swapped"}),
    Mistake("turned_by_heads", "You lay the places along the heads. They lie along axis 1, that of the "
            "words.", {"axis": 0}),
    Mistake("degrees", "Your angles are taken for degrees. They are radians.", {"degrees": True}),
)  # fmt: skip
HALF = (
    Mistake("last_half_turned", "You turn the last features. The first r turn.", {"last": True}),
    Mistake("rest_lost", "The features that do not turn are missing in your result.", {"order": "rest_lost"}),
)


def lengths_stay(case, value, expected):
    """A property of turns: each word keeps its length."""
    before, after = (np.linalg.norm(a, axis=-1) for a in (case.args[0], value))
    if not np.allclose(before, after, rtol=1e-3):
        return "A word has changed its length, and a turn changes none:"
    return None


def question(choice):
    return Question(
        id="turned", title="Turned by the place",
        kind="function", name="turned", points=4, part=2, minutes=14,
        text=TEXT.format(**said(CONVENTIONS, choice)),
        stub=STUB.format(what="its features" if choice["turns"] == "all" else "half of its features"),
        solution=filled(SOLUTION, CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice,
            MISTAKES + HALF if choice["turns"] == "half" else MISTAKES, cases,
            "Each pair turns by its own angle at any place, and nothing else moves.", visible=4,
            properties=(lengths_stay,),
        ),
        forbids=("rope", "rope_frequencies"),
    )  # fmt: skip

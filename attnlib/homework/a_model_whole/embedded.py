"""Words to vectors: a row of the table, scaled or not, and sinusoids, laid out in one of two ways."""

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
    Convention("scale", {
        "root": Option("A word's vector is its row of `table` times the **square root of D**.",
                       "You multiply the rows of the table by the root of D.", " * width**0.5",
                       "times_the_root_of_d"),
        "none": Option("A word's vector is its row of `table` **as it is**.",
                       "You take the rows of the table as they are.", "", "rows_as_they_are"),
    }),
    Convention("sines", {
        "turns": Option("Feature 2i is the sine and feature 2i + 1 the cosine of angle i.",
                        "You let sines and cosines take turns.",
                        "torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)",
                        "sines_and_cosines_in_turn"),
        "halves": Option("Feature i is the sine of angle i, and feature **D/2 + i** its cosine.",
                         "You put all sines before all cosines.",
                         "torch.cat([angles.sin(), angles.cos()], dim=-1)", "sines_before_cosines"),
    }),
    Convention("speeds", {
        "short": Option("At place p angle i is `p · 10000^(-2i/D)`, for i from 0 to D/2 - 1.",
                        "Your speeds go by -2i/D and stop short of 1/10000.", "2 * i / width",
                        "speeds_stop_short"),
        "full": Option("At place p angle i is `p · 10000^(-i/(D/2 - 1))`, for i from 0 to D/2 - 1: the last "
                       "speed **is** 1/10000.",
                       "Your last speed is exactly 1/10000.", "i / (width // 2 - 1)", "speeds_to_the_end"),
    }),
)  # fmt: skip
CHOICES = values_of(*CONVENTIONS)
LESSON = {"scale": "root", "sines": "turns", "speeds": "short"}
SAMPLE = {"scale": "root", "sines": "halves", "speeds": "full"}

TEXT = """\
The questions of this assignment build a language model piece by piece: a decoder alone, as lesson 15 has it.
The weights are given, and no question needs your answer to another one. Everything is in torch. Tensors of
floats are in `float64`; what you make yourself should be, too. Change no argument in place.

Write `embedded(ids, table, start)`, which turns words into vectors that know their places.

`ids` has shape `(B, L)`: the ids of L words in each of B sentences. `table` has shape `(V, D)`, a row for
each word, with D even and at least 4. The first word of each sentence stands at place `start`, a whole
number, the next at `start + 1`, and so on: a sentence may go on where another call has stopped. The result
has shape `(B, L, D)`: to each word's vector the sinusoids of its place are added.

- {scale}
- {speeds}
- {sines}"""

GIVEN = "import torch"

STUB = """\
def embedded(ids, table, start):
    \"\"\"Vectors (B, L, D) of words that begin at place start.\"\"\""""

SOLUTION = """\
    width = table.shape[1]
    i = torch.arange(width // 2, dtype=table.dtype)
    places = start + torch.arange(ids.shape[1], dtype=table.dtype)
    angles = places[:, None] * 10000.0 ** -(<speeds>)     # (L, D/2)
    return table[ids]<scale> + <sines>"""


def compute(ids, table, start, *, scale="root", sines="turns", speeds="short", times=1, sign=-1, base=1e4,
            scaled="words", begins="start", along="places", adds="both", swapped=False,
            hands="both"):  # fmt: skip
    import torch

    width = table.shape[1]
    i = torch.arange(width // 2, dtype=table.dtype)
    exponents = times * (2 * i / width if speeds == "short" else i / (width // 2 - 1))
    first = {"start": start, "zero": 0, "one_more": start + 1}[begins]
    if along == "ids":
        places = ids.to(table.dtype)
    elif along == "sentences":                     # (B, 1): a place for each sentence
        places = (first + torch.arange(ids.shape[0], dtype=table.dtype))[:, None]
    elif along == "one":
        places = torch.full((ids.shape[1],), float(first), dtype=table.dtype)
    else:
        places = first + torch.arange(ids.shape[1], dtype=table.dtype)
    angles = places[..., None] * base ** (sign * exponents)
    one, two = angles.sin(), angles.cos()
    two = one if hands == "sines" else two
    one, two = (two, one) if swapped else (one, two)
    if sines == "turns":
        waves = torch.stack([one, two], -1).flatten(-2)
    else:
        waves = torch.cat([one, two], -1)
    rows, root = table[ids], width**0.5
    if scaled == "both":
        return (rows + waves) * root
    if scaled == "places":
        return rows + waves * root
    if scaled == "divided":
        return rows / root + waves
    if scaled == "width":
        return rows * width + waves
    rows = rows * root if scale == "root" else rows
    return {"both": rows + waves, "rows": rows, "waves": waves.expand_as(rows)}[adds]


def cases(rng, choice):
    import torch

    def made(b, length, words, width, start):
        table = torch.from_numpy(rng.normal(size=(words, width)))
        return torch.from_numpy(rng.integers(0, words, (b, length))), table, start

    return [
        Case("2 sentences of 5 words, 8 features, from place 0", made(2, 5, 11, 8, 0),
             hint="Take the word at place 1: which of its features holds the sine of 1, and which the "
                  "cosine?"),
        Case("3 words that begin at place 20", made(2, 3, 7, 8, 20),
             hint="Is start among your places?"),
        Case("one word at place 7", made(1, 1, 5, 6, 7)),
        Case("as many sentences as words", made(4, 4, 6, 12, 2)),
        Case("4 features", made(2, 6, 9, 4, 3)),
        Case("as many words in a sentence as features", made(3, 6, 8, 6, 0)),
        Case("30 words from place 100", made(1, 30, 13, 16, 100)),
    ]  # fmt: skip


MISTAKES = (
    Mistake("start_ignored", "Your places always begin at 0. The first word stands at start.",
            {"begins": "zero"}),
    Mistake("one_place_too_far", "Your first word stands at start + 1. It stands at start itself.",
            {"begins": "one_more"}),
    Mistake("places_scaled_too", "You multiply the sinusoids, too, by the root of D. Scale the row before "
            "you add them.", {"scaled": "both"}),
    Mistake("places_scaled_instead", "You multiply the sinusoids by the root of D, and not the rows.",
            {"scaled": "places"}),
    Mistake("divided_by_the_root", "You divide the rows of the table by the root of D.",
            {"scaled": "divided"}),
    Mistake("times_d", "You multiply the rows of the table by D itself.", {"scaled": "width"}),
    Mistake("no_places", "You give the rows of the table alone: no word knows its place.", {"adds": "rows"}),
    Mistake("no_words", "You give the sinusoids alone: they are added to the rows of the table.",
            {"adds": "waves"}),
    Mistake("exponent_without_minus", "Your later angles grow faster. The exponent is negative.",
            {"sign": 1}),
    Mistake("exponent_halved", "Your exponents are half of what is asked for. Do you count features where "
            "angles should be counted, or the other way round?", {"times": 0.5}),
    Mistake("exponent_doubled", "Your exponents are twice what is asked for. Is the step of 2 in your range "
            "already?", {"times": 2}),
    Mistake("one_speed", "All your angles are the place itself. The later ones are slower.", {"times": 0}),
    Mistake("other_base", "Your base is 1000. It should be 10000.", {"base": 1e3}),
    Mistake("sine_and_cosine_exchanged", "Your cosines stand where the sines belong.", {"swapped": True}),
    Mistake("sines_alone", "You add sines alone: the cosines are missing.", {"hands": "sines"}),
    Mistake("ids_taken_for_places", "You take the ids for the places. The place is where a word stands, "
            "whatever word it is.", {"along": "ids"}),
    Mistake("places_along_the_sentences", "You count the places along the sentences of the batch. They lie "
            "along axis 1, that of the words.", {"along": "sentences"}),
    Mistake("one_place_for_all", "All your words stand at the first place.", {"along": "one"}),
)  # fmt: skip


def question(choice):
    return Question(
        id="embedded", title="A word and its place",
        kind="function", name="embedded", points=3, part=1, minutes=12,
        text=TEXT.format(**said(CONVENTIONS, choice)),
        given=GIVEN,
        stub=STUB,
        solution=filled(SOLUTION, CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, MISTAKES, cases,
            "Rows and sinusoids are right for any width, and a sentence may begin at any place.", visible=4,
            properties=(words_apart,), atol=1e-4,       # a place in float32 is near enough
        ),
        forbids=("sinusoidal_positions",),
    )  # fmt: skip


def words_apart(case, value, expected):
    """A property: what is wrong is the same for all sentences at a place, or depends on the word."""
    off = (value - expected).abs().amax(-1)
    if value.shape[0] > 1 and np.allclose(off, off[:1], atol=1e-6):
        return "What you add to the words is wrong, and alike in every sentence:"
    return None

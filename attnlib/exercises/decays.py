"""Lesson 23: how long a decay lasts, which text shows a wrong one, and whose a table of decays is."""

import numpy as np

from attnlib.exercises.answers import numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------- half-lives

_SLOPES = (  # what else was given for a half-life of 100 tokens
    (0.01, "one_over_e", "With 1/100, e^-1 = 0.37 is left after 100 tokens. A half is asked for."),
    (0.5**0.01, "kept", "That is what is kept from one token to the next, the decay e^(-slope). The slope is "
     "in its exponent."),
    (1 - 0.5**0.01, "lost", "That is what is lost in a step, 1 - e^(-slope). The slope is a little more."),
    (np.log10(2) / 100, "other_base", "That is a logarithm of base 10. The decay is a power of e."),
    (100, "half_life", "100 is the half-life. The slope is what stands before n in e^(-slope n)."),
    (100 / np.log(2), "upside_down", "That is 100 over ln 2. From n = ln 2 / slope, solve for the slope."),
    (0.5 / 100, "straight_line", "A half over 100 would be a straight line down. Each step takes the same "
     "part of what is left."),
)  # fmt: skip
_TOKENS = {
    1178: ("not_yet", "After 1,178 tokens 0.01004 is left, just above a hundredth. Which is the first length "
           "below?"),
    512: ("other_base", "e^(-512/256) is 0.135. Did you take the logarithm of base 10?"),
    1701: ("bits", "You solve 2^(-n/256) < 0.01. The decay is a power of e."),
    1700: ("bits", "You solve 2^(-n/256) < 0.01. The decay is a power of e."),
    177: ("half", "After 177 tokens half of it is left. A hundredth is asked for."),
    178: ("half", "After 178 tokens about half of it is left. A hundredth is asked for."),
    1180: ("one_too_many", "After 1,179 tokens 0.009997 is left, already less than a hundredth."),
    25600: ("straight_line", "A hundred times 256: by then e^-100 is left. Solve e^(-n/256) < 0.01."),
    253: ("straight_line", "Each step takes a 256th of what is left, not of what was there."),
    254: ("straight_line", "Each step takes a 256th of what is left, not of what was there."),
}  # fmt: skip


def half_lives(answer):
    """A slope of half-life 100, the tokens until a hundredth is left, the first layer above 10,000."""
    given, complaint = numbers(answer, (3,), "your answer")
    if complaint:
        return complaint
    slope, tokens, layer = given
    for value, name, told in _SLOPES:
        if np.isclose(slope, value, rtol=5e-4, atol=0):
            return wrong(f"(a): {told}", name)
    if slope < 0:
        return wrong("(a): the slope is positive; its sign stands in e^(-slope n).", "sign")
    if not np.isclose(slope, np.log(2) / 100, rtol=6e-3, atol=0):
        left = np.exp(-100 * min(slope, 7.0))
        return wrong(f"(a): with that slope {left:.3g} is left after 100 tokens. It is to be a half. Give "
                     "three digits or more.")
    if tokens != 1179:
        if tokens in _TOKENS:
            name, told = _TOKENS[tokens]
            return wrong(f"(b): {told}", name)
        if tokens != round(tokens):
            return wrong(f"(b): tokens come in whole numbers; got {tokens:g}. Which is the first at "
                         "which less than a hundredth is left?", "no_whole_number")
        if tokens < 0:
            return wrong("(b): the number of tokens is positive; the sign stands in e^(-n/256).", "sign")
        how = "still above a hundredth" if tokens < 1179 else "and it was below a hundredth before that"
        return wrong(f"(b): after {tokens:,.0f} tokens {np.exp(-tokens / 256):.3g} is left, {how}. Solve "
                     "e^(-n/256) = 0.01 for n.")
    if layer == 78:
        return right(
            "Slope ln 2 / 100 = 0.00693; 256 ln 100 = 1178.9 tokens; and layer 78 of 0 to 79, whose "
            "half-life is 14,007 tokens. One layer before it is 7,007. The half-life goes as one over what "
            "is left of the way: for half of the layers it is no more than twice that of the first."
        )
    if layer == 79:
        return wrong("(c): 79 is the last layer, with a half-life of 17.7 million. The one before is far "
                     "above 10,000 too. Or do you count layers from 1?", "counted_from_one")
    if layer != round(layer) or not 0 <= layer <= 79:
        return wrong(f"(c): layers are whole numbers from 0 to 79; got {layer:g}.", "no_layer")
    lasts = 256 * np.log(2) / (1 - layer / 79 + 1e-5)
    return wrong(f"(c): in layer {layer:.0f} the half-life of that head is {lasts:,.0f} tokens. The slope is "
                 "1/256 times 1 - l/79 + 0.00001; when is ln 2 over it more than 10,000?", "too_early")


# ------------------------------------------------------------- which text shows it

_SHORTEST = (5, 0, 9)
_SHOWN = {
    "A": {
        0: "The factor before a @ S is one step short. From which block on is S more than zeros, and an "
           "output hangs on it?",
        1: "In the first block S is zeros, whatever it is multiplied by.",
        4: "Four tokens are one block, which reads a state of zeros.",
        6: "The first token of the second block has r = 1: it should read e^(-slope) S, and reads S. So a "
           "shorter text will do.",
    },
    "B": {
        4: "A block of four is a whole one: there size and m are the same.",
        5: "The shorter block is the second, and last. Its outputs read the state of the first, a whole one. "
           "What is wrong is the state that it leaves: who reads that?",
        9: "The shorter block is always the last one of the text. Its wrong state comes after all outputs.",
    },
    "C": {
        0: "What an earlier block has left should fade while a block is read. After which block is there "
           "something in S that should have?",
        5: "The second block reads what the first has left, and that is right: before it S was zeros, which "
           "need not fade.",
        4: "One block reads a state of zeros.",
        8: "Eight tokens are two blocks. The second leaves a wrong state; it takes a token more to read it.",
        13: "The third block already reads a state in which the first has not faded.",
    },
}  # fmt: skip


def three_decays(answer):
    """The shortest texts in which three wrong versions of a block's decays show in an output; 0 for never."""
    given, complaint = numbers(answer, (3,), "your answer")
    if complaint:
        return complaint
    if (given != given.round()).any() or (given < 0).any():
        return wrong(f"Lengths are whole numbers, 0 for never; got {short(given.tolist())}.", "no_length")
    for letter, value, truth in zip("ABC", given, _SHORTEST, strict=True):
        if value != truth:
            more = value + 1 if letter == "A" and value in (2, 3) else value
            told = _SHOWN[letter].get(int(more), "")
            if not told:
                told = (_SHOWN["B"][9] if letter == "B" else
                        "That one shows it, and a shorter one does too." if value > truth else
                        f"With {value:.0f} tokens all outputs are right.")  # fmt: skip
            return wrong(f"{letter}: {told}", f"{letter}_{value:.0f}")
    return right(
        "A shows in the first token of the second block, C in the first of the third. B never does, in one "
        "call: only the state that is handed over is wrong, and the first token that is generated from it. A "
        "text that fits into one block shows none of the three, and most tests are such texts."
    )


# ------------------------------------------------------------- whose decays


def _slopes(n_heads):
    power = 1 << (n_heads.bit_length() - 1)
    exponents = [8 * h / power for h in range(1, power + 1)]
    exponents += [8 * h / (2 * power) for h in range(1, 2 * power, 2)]
    return 2.0 ** -np.array(exponents[:n_heads])


def _tables(n_layers, n_heads):
    """The decays of the three copies, (L, H) each."""
    layer, head = np.arange(n_layers)[:, None], np.arange(n_heads)
    return {
        1: _slopes(n_heads) * (1 - layer / (n_layers - 1) + 1e-5),
        2: 2.0 ** (-8 * (head + 1) / n_heads) * (1 - layer / (n_layers - 1 + 1e-5) + 1e-5),
        3: 8 / n_heads * (1 - layer / n_layers) * head,
    }


def _whose(rates, *, looks="all", names=(1, 2, 3), turned=False):
    """Whose table it is; ``looks`` is at what a detector looks that looks at less."""
    if turned:
        rates = rates.T
    n_layers, n_heads = rates.shape
    tables = _tables(n_layers, n_heads)
    by_less = {
        "never_two": 1,
        "never_one": 2,
        "number": 2 if n_heads & (n_heads - 1) else 1,
        "first_head": 1 if np.isclose(rates[0, 0], 0.5, rtol=1e-3) else 2,
    }
    if looks in by_less:
        return 3 if rates[0, 0] == 0 else by_less[looks]
    rtol, atol = (1e-2, 1e-3) if looks == "coarse" else (1e-4, 0)
    for found, table in tables.items():
        if np.allclose(rates, table, rtol=rtol, atol=atol):
            return names[found - 1]
    return 0


def _rates():
    sizes = [(8, 12), (8, 6), (80, 64), (4, 8), (24, 20), (2, 2), (12, 16), (6, 3), (3, 5), (32, 32)]
    cases = []
    for n_layers, n_heads in sizes:
        for found, table in _tables(n_layers, n_heads).items():
            who = {1: "MiniMax's own", 2: "transformers'", 3: "flash-linear-attention's"}[found]
            power = n_heads & (n_heads - 1) == 0
            hint = "With a number of heads that is no power of two the slopes tell all three apart."
            if power and found != 3:
                hint = ("The slopes of the first two are the same here. In the last layer little but 0.00001 "
                        "is left, and there they differ.")
            cases.append(Case(f"{who} table of {n_layers} layers and {n_heads} heads", (table,), hint=hint))
    return cases


whose_decays = FunctionExercise(
    _whose, _rates,
    (
        Mistake("heads_only", "For powers of two the slopes of the first two are the same, and you say 1. "
                "Only the last layer tells them apart, where decays are about 0.00001 times a slope: an "
                "absolute tolerance hides it. Compare that layer, in proportion.", {"looks": "coarse"}),
        Mistake("first_head_only", "You look at the first head of the first layer. It is 1/2 only with 8 "
                "heads to 15. Compute what each copy would have with these heads.", {"looks": "first_head"}),
        Mistake("never_two", "Your function never says 2. Wherever it should it says 1.",
                {"looks": "never_two"}),
        Mistake("never_one", "Your function never says 1. Compute MiniMax's own and compare it with "
                "a table: do layers go down and count from 0, and is 0.00001 in it?", {"looks": "never_one"}),
        Mistake("number_only", "You go by the number of heads. Every copy may have any number; what differs "
                "is in the table.", {"looks": "number"}),
        Mistake("axes_exchanged", "Layers go down and heads across: rates is (L, H).", {"turned": True}),
        Mistake("counted_from_zero", "You number the three 0, 1, 2. They are 1, 2 and 3.",
                {"names": (0, 1, 2)}),
        Mistake("one_and_two_exchanged", "MiniMax's own is 1 and transformers' 2; you have them the other "
                "way round.", {"names": (2, 1, 3)}),
    ),
    "Tried on thirty tables. The two that agree for every power of two differ only where next to nothing is "
    "left, in the last layer, and MiniMax-01 has a softmax layer there. So the released model, with its 64 "
    "heads, forgets alike in both, and one with 12 heads would not.",
)  # fmt: skip

_LIVES_SOLUTION = """
import numpy as np

slope = np.log(2) / 100
tokens = int(np.floor(256 * np.log(100))) + 1           # e^(-n/256) < 0.01
layer = next(l for l in range(80) if np.log(2) * 256 / (1 - l / 79 + 1e-5) > 10_000)
answer = (slope, tokens, layer)
"""

_DECAYS_SOLUTION = """
answer = (5, 0, 9)
"""

_WHOSE_SOLUTION = """
import numpy as np


def whose_decays(rates):
    L, H = rates.shape
    if rates[0, 0] == 0:
        return 3                                            # its first head never forgets
    power = 2 ** int(np.log2(H))
    exponents = [8 * h / power for h in range(1, power + 1)]
    exponents += [4 * h / power for h in range(1, 2 * power, 2)]
    slopes = 2.0 ** -np.array(exponents[:H])
    layer = np.arange(L)[:, None]
    own = slopes * (1 - layer / (L - 1) + 1e-5)
    return 1 if np.allclose(rates, own, rtol=1e-3, atol=0) else 2
"""

EXERCISES = (
    Exercise("half_lives", "23", half_lives, (
        "Half of it is left where slope times n is ln 2. For a hundredth, put ln 100 in its place.",
        "For (b), ln 100 is 4.605. In (c) the slope is 1/256 times 1 - l/79 + 0.00001: write the half-life "
        "as a formula in l and set it to 10,000.",
        "256 ln 2 = 177.4, so 1 - l/79 must fall below 0.0177. By how much is one step of l?",
    ), _LIVES_SOLUTION, "construction"),
    Exercise("three_decays", "23", three_decays, (
        "The state is zeros at the beginning. What does that make of a wrong factor in the first block?",
        "An output of block i reads what blocks before i left. For each fault ask after which block the "
        "state is wrong, or wrongly read, and who reads it next.",
        "A reads wrongly in block 2. B leaves a wrong state only after a shorter block. C leaves a wrong one "
        "after block 2, for there was nothing to fade before.",
    ), _DECAYS_SOLUTION, "prediction"),
    Exercise("whose_decays", "23", whose_decays, (
        "One of the three has a head that no other has. Which, and what is special about it?",
        "Compute MiniMax's own table for L and H, and compare. Where H is no power of two the slopes tell; "
        "where it is, go to the last layer.",
        "In the last layer MiniMax's own has 0.00001 times the slope, and transformers' a bit more, for it "
        "divides l by L - 1 + 0.00001. Compare with rtol=1e-3 and atol=0.",
    ), _WHOSE_SOLUTION, "function"),
)  # fmt: skip

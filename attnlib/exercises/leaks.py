"""How far a window reaches, and a detector of leaks from the future, of lesson 08."""

import numpy as np

from attnlib.core.scaled_dot_product import attention as core_attention
from attnlib.core.softmaxes import softmax
from attnlib.exercises.answers import numbers
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.learner_test import Implementation, LearnerTest
from attnlib.exercises.verdict import right, wrong


def window_reach(number):
    """How many tokens reach the last one through five layers with a window of four?"""
    value, complaint = numbers(number, (), "your answer")
    if complaint:
        return complaint
    layers, window = 5, 4
    reach = layers * (window - 1) + 1
    told = {
        layers * window: "That is layers times window, as Mistral's paper counts, whose window goes back a "
            "whole window from the token. This one holds the token itself: where two windows meet, one token "
            "is counted twice.",
        reach - 1: "That counts the tokens before the last one. The last one reaches itself.",
        layers * window + 1: "A window of 4 holds the token itself and three before it, not four.",
        layers * window - 1: "Each layer goes back by three more, since the window counts the token itself.",
        window: "That is one layer. What the second layer reads has itself read three tokens further back.",
        window**layers: "The reach is added up and not multiplied: each layer goes back by three more "
            "places.",
    }
    if value == reach:
        return right(
            f"Each layer goes back three places, five layers fifteen, and the token itself makes {reach}. A "
            "window counts the token, so two windows overlap by one where they meet."
        )
    if float(value) in told:
        return wrong(told[float(value)], f"reach_{int(value)}")
    return wrong(
        f"Not {float(value):g}. With one layer it is 4. Draw two layers: which is the oldest token that the "
        "oldest of the four has read?"
    )


# A detector of leaks


def _rows(x, width):
    x = np.array(x, dtype=float)
    if x.ndim != 2 or x.shape[1] != width or not len(x):
        raise ValueError(f"the model takes an array of shape (n, {width}), n at least 1; got {x.shape}")
    return x


def _clean(x):
    return core_attention(x, x, x, causal=True)


def _the_rest(x):
    return (x.sum(0) - (x[::-1].cumsum(0)[::-1] - x)) / np.arange(1, len(x) + 1)[:, None]


def _one_ahead(x):
    return core_attention(x, x, x, np.tril(np.ones((len(x), len(x)), bool), 1))


def _masked_after(x):
    return (softmax(x @ x.T / x.shape[1]) * np.tril(np.ones((len(x), len(x))))) @ x


def _one_pair(x):
    out = _clean(x)
    out[len(x) // 3] += 0.001 * x[-1]
    return out


def _gate(x):
    loud = np.maximum(x - 6, 0)
    return _clean(x) + loud[::-1].cumsum(0)[::-1]


def _from_the_end(x):
    return _clean(x + 0.3 * np.arange(len(x))[::-1, None])


# Name: the function, whether it adds fresh noise, whether it leaks, the mistake of a detector that is fooled,
# and what is to be said.
_MODELS = {
    "causal attention": (
        _clean, False, False, "own_token",
        "is clean: output i reads the tokens up to i, itself among them. Which outputs may change when token "
        "i does?",
    ),
    "causal attention with fresh noise in each call": (
        _clean, True, False, "noise",
        "is clean. Its outputs differ from call to call, also when the input is the same. How much do they "
        "differ with nothing changed? Two calls may differ less than the next two: call it often, and leave "
        "room.",
    ),
    "a mean of the past, computed as the total less the rest": (
        _the_rest, False, False, "exact_comparison",
        "is clean. The rest cancels up to rounding, about 1e-16 of what was put in. Allow for it, in "
        "proportion to the sizes of your numbers.",
    ),
    "attention with its diagonal one too far": (
        _one_ahead, False, True, "next_token",
        "leaks: output i reads token i + 1 and nothing later. When you change the tokens from t on, do you "
        "look at output t - 1?",
    ),
    "attention masked after the softmax": (
        _masked_after, False, True, "denominator",
        "leaks. The future's weights are 0, but the sum that the others were divided by has seen the future. "
        "Reordering the future does not show it: put other tokens there.",
    ),
    "one output that reads the last token": (
        _one_pair, False, True, "one_place",
        "leaks at one place only: a single early output holds a thousandth of the last token. Every output "
        "must be compared with every later token, and finely.",
    ),
    "a gate that opens for large numbers": (
        _gate, False, True, "gate",
        "leaks: what exceeds 6 in a later token is added to all outputs before it; below that, nothing is. "
        "One change is not enough: try several, large ones of either sign among them.",
    ),
    "positions counted from the end": (
        _from_the_end, False, True, "length",
        "leaks: each output knows how many tokens follow it. Whatever you put in their place, their number "
        "stays the same. What else can you do to the future?",
    ),
}  # fmt: skip
_NOISY_LEAK = (
    _one_ahead, True, True, "noise_hides",
    "and with fresh noise in each call leaks: output i reads token i + 1, which changes it by many times the "
    "noise. A model that answers differently each time need not be clean.",
)  # fmt: skip
_SIZES = {(4, 7): {}, (3, 5): {"attention with its diagonal one too far": _NOISY_LEAK}}  # width, length


def _implementation(name, described, width, length):
    function, noisy, leaks, mistake, told = described

    def make():
        rng = np.random.default_rng(8)

        def model(x):
            out = function(_rows(x, width))
            return out + 0.01 * rng.normal(size=out.shape) if noisy else out

        return model, length, width

    return Implementation(name, make, leaks, mistake, told)


leak_detector = LearnerTest(
    tuple(
        _implementation(name, other.get(name, described), *size)
        for size, other in _SIZES.items()
        for name, described in _MODELS.items()
    ),
    {
        True: (
            "all_leaky",
            "You call all eight models leaky. Three are clean: output i may read the tokens up to i, itself "
            "included. Which outputs lie before the first token that you change?",
        ),
        False: ("all_clean", "You call all eight models clean. Five of them leak."),
    },
    "All eight judged rightly, in two sizes each: three clean ones, of which one is noisy and one rounds, "
    "and five leaks: the next token, a denominator, a single place, a gate, and the length. A detector that "
    "says clean has still only failed to find a leak.",
)

_DETECTOR = """
import numpy as np

def leaks_or_not(model, length, width):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(length, width))
    out = model(x)
    noise = max(np.abs(model(x) - out).max() for _ in range(20))   # what differs when nothing is changed
    room = 4 * noise + 1e-9
    for t in range(1, length):                                      # outputs before t must not see t
        if np.abs(model(x[:t]) - out[:t]).max() > room:             # the future cut off
            return True
        for size in (1, 10, -10, 10, -10, 100):                     # the future replaced
            other = x.copy()
            other[t:] = size * rng.normal(size=(length - t, width))
            if np.abs(model(other) - out)[:t].max() > room:
                return True
    return False

answer = leaks_or_not
"""

EXERCISES = (
    Exercise("window_reach", "08", window_reach, (
        "With one layer the last token is reached by 4 tokens, itself among them. Draw a second layer under "
        "it: what have those 4 tokens read?",
        "The oldest of the four has itself read three tokens further back, and not four: the window counts "
        "the token. By how many does the reach grow with each layer?",
        "Each layer adds window - 1 tokens. Add that up over the layers, and count the last token itself.",
    ), """
layers, window = 5, 4
answer = layers * (window - 1) + 1    # each layer goes three further back, and the token itself counts
""", "prediction"),
    Exercise("leak_detector", "08", leak_detector, (
        "Before you change anything, call the model several times with the same input. How large a "
        "difference means nothing?",
        "For each t, change the tokens from t on and look at the outputs before t, all of them. Which leaks "
        "would a single small change miss: one beyond a threshold, one in the length?",
        "For each t: cut the sequence off at t, and replace the rest several times by small and large random "
        "numbers. It leaks where an output before t moves by more than a few times the noise that you "
        "measured, plus a little for rounding.",
    ), _DETECTOR, "test"),
)

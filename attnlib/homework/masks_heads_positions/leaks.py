"""A test to write: does a model leak, from what comes later or from the other sentences of its batch?"""

from dataclasses import replace

import numpy as np

from attnlib.exercises.learner_test import Implementation
from attnlib.homework.assignment import Question, judge_of_tests

CHOICES = {"time": ("second", "first"), "may_read": ("own", "past")}
LESSON = None
SAMPLE = {"time": "first", "may_read": "own"}

TEXT = """\
Write a detector, `leaks(model, shape)`: it returns `True` if the model leaks, else `False`. `model(x)`
takes a batch of sentences, an array `x` of shape **`{axes}`** (B sentences, L places, D features), and
returns an array of the same shape.

The output for a sentence at place i, counted from 0, may depend on the vectors of **this sentence** at
places {may}. It leaks where it depends on anything else: on what stands at other places, on whether
anything stands there, or on the other sentences of the batch. Judge the model for the given `shape`, with B
at least 2 and L at least 4. It also takes fewer sentences and fewer places, from 1 up; numbers up to 20 in
size are ordinary input, and the same input gives the same output, up to rounding.

Your detector is tried on nine models, three of them clean. A leak may show at one place of one sentence
alone, may be as small as a hundredth of what is read, or may open only where numbers are large."""

MAY = {"own": "0 to i, **its own included**", "past": "0 to i - 1, **not on its own**: at place 0 on nothing"}

STUB = """\
def leaks(model, shape):
    \"\"\"Whether an output depends on what it may not read; shape is {axes}.\"\"\""""

SOLUTION = """\
    rng = np.random.default_rng(0)
    {sizes} = shape
    x = rng.normal(size=shape)
    out = model(x)
    for b in range(n_sentences):
        for t in range(length):
            known = {known}    # what the output at place t may read
            for size in (1, 20):
                for _ in range(3):
                    other = rng.uniform(-size, size, shape)
                    other[{rows}] = x[{rows}]
                    if np.abs(model(other) - out)[{place}].max() > 1e-6:
                        return True
            short = x[{cut}]    # nothing after place t, no other sentence
            if np.abs(model(short)[{last}] - out[{place}]).max() > 1e-6:
                return True
    return False"""


def question(choice):
    second = choice["time"] == "second"
    axes = "(B, L, D)" if second else "(L, B, D)"
    return Question(
        id="leaks", title="Leaks, from later and from beside",
        kind="test", name="leaks", points=5, part=2, minutes=20,
        text=TEXT.format(axes=axes, may=MAY[choice["may_read"]]),
        stub=STUB.format(axes=axes),
        solution=SOLUTION.format(
            sizes="n_sentences, length, _" if second else "length, n_sentences, _",
            known="t + 1" if choice["may_read"] == "own" else "t",
            rows="b, :known" if second else ":known, b",
            place="b, t" if second else "t, b",
            cut="b : b + 1, : t + 1" if second else ": t + 1, b : b + 1",
            last="0, t" if second else "t, 0",
        ),
        judge=_judge_for(second, choice["may_read"] == "own"),
    )  # fmt: skip


def _judge_for(second, own):
    axis, axes = (1, "(B, L, D)") if second else (0, "(L, B, D)")
    may = "its own included" if own else "its own excluded"
    reminder = f"Places lie along axis {axis}, and an output may read the places before it, {may}."
    said = {
        True: ("all_leaky", f"You call all models leaky, and some are clean. {reminder} Compare only outputs "
               "for which nothing that they may read has changed, and leave a little room for rounding."),
        False: ("all_clean", f"You call all models clean, and some leak. {reminder}"),
    }  # fmt: skip
    praise = ("It tells leaks from later places, from other sentences, from a sum, from the length and from "
              "large numbers, and lets the clean models pass.")

    def judge(test, seed=None):
        described = _models(own)
        shapes = ((2, 5, 3),) if seed is None else ((2, 6, 3), (3, 4, 2))
        tried = tuple(
            Implementation(name, lambda made=made, shape=shape: (
                _called(made, shape, second, axes), shape if second else (shape[1], shape[0], shape[2])
            ), leaky, mistake, told)
            for shape in shapes
            for name, made, leaky, mistake, told in (described[:4] if seed is None else described)
        )  # fmt: skip
        shown = f"{len(tried)} of {len(described)} models, in one shape"
        verdict = judge_of_tests(tried, said, praise, test, seed, shown, "others, and other shapes")
        # Who lets an output read its own place has written another class's detector.
        elsewhere = not own and verdict.misconception == "next_place"
        return replace(verdict, slip=False, convention=True) if elsewhere else verdict

    return judge


def _called(made, shape, second, axes):
    """The model as the student's test calls it: with places on the axis of the class, in the right shape."""
    def model(x):
        x = np.array(x, float)
        batch, length, width = shape
        if x.ndim != 3 or x.shape[2] != width or 0 in x.shape:
            raise ValueError(f"model takes an array of shape {axes} with D = {width} and B and L at least 1; "
                             f"it was given {x.shape}")
        ours = x if second else x.swapaxes(0, 1)
        out = made(ours)
        return out if second else out.swapaxes(0, 1)

    return model


# Models of arrays (B, L, D) that read the places up to their own. Where their own is excluded, they are given
# the sentence one place on, with zeros in front.


def _weights(x, ahead=0):
    scores = x @ x.swapaxes(1, 2) / np.sqrt(x.shape[2])
    sees = np.tri(x.shape[1], k=ahead, dtype=bool)
    e = np.where(sees, np.exp(scores - scores.max(-1, keepdims=True, where=sees, initial=-1e9)), 0)
    return e / e.sum(-1, keepdims=True)


def _attention(x):
    return _weights(x) @ x


def _one_ahead(x):
    return _weights(x, 1) @ x


def _the_rest(x):
    counts = np.arange(1, x.shape[1] + 1)[:, None]
    return (x.sum(1, keepdims=True) - (x[:, ::-1].cumsum(1)[:, ::-1] - x)) / counts


def _batch(x):
    return _attention(x) + 0.05 * x.mean(0)


def _counted(x):
    return np.tanh(_attention(x + 0.1 * np.arange(x.shape[1])[:, None]))


def _masked_after(x):
    scores = x @ x.swapaxes(1, 2) / np.sqrt(x.shape[2])
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) * np.tri(x.shape[1]) @ x


def _one_place(x):
    out = _attention(x)
    place = x.shape[1] // 2 - 1
    if len(x) > 1 and place >= 0:
        out[1, place] += 0.01 * x[1, -1]
    return out


def _gate(x):
    loud = np.maximum(x - 6, 0)
    return _attention(x) + 0.1 * (loud.sum(1, keepdims=True) - loud.cumsum(1))


def _from_the_end(x):
    return _attention(x + 0.3 * np.arange(x.shape[1])[::-1, None])


def _models(own):
    """Name, model, whether it leaks, the mistake of a detector that is fooled, and what it is told."""
    def on(function):
        def model(x):
            return function(np.concatenate([np.zeros_like(x[:, :1]), x[:, :-1]], 1))
        return function if own else model

    too_far = on(_one_ahead) if own else _attention
    here = "its own place" if own else "the place before its own"
    beyond = "the next place" if own else "its own place"
    return tuple((name, on(function) if function else too_far, *rest) for name, function, *rest in (
        ("attention to what may be read", _attention, False, "own_place" if own else "read_past",
         f"is clean: an output reads the places up to {here}. Which outputs may change when place i does?"),
        ("attention with its diagonal one too far", None, True, "next_place",
         f"leaks: an output reads {beyond} and nothing later. Do you compare the outputs nearest to what you "
         "change?"),
        ("a mean, computed as the total less the rest", _the_rest, False, "exact_comparison",
         "is clean. The rest cancels up to rounding, about 1e-16 of what was put in. Leave room for it."),
        ("attention plus a little of the batch's mean", _batch, True, "other_sentences",
         "leaks: a sentence reads a twentieth of the mean of all sentences at a place. Do you change one "
         "sentence and look at the others?"),
        ("attention with places counted from the start", _counted, False, "places_are_no_leak",
         "is clean: how many places come before is no secret. Do you keep what an output may read where it "
         "stands?"),
        ("attention masked after the softmax", _masked_after, True, "denominator",
         "leaks. The later weights are 0, but the sum that the others were divided by has seen what comes "
         "later. Put other numbers there."),
        ("one output that reads a later place", _one_place, True, "one_place",
         "leaks at one place of one sentence, and little. Every output must be compared, in every sentence, "
         "and finely."),
        ("a gate that opens for large numbers", _gate, True, "gate",
         "leaks: what exceeds 6 at later places is added to the outputs before them. Are any of your numbers "
         "so large, and above 0?"),
        ("places counted from the end", _from_the_end, True, "length",
         "leaks: each output knows how many places follow. Whatever you put there, their number stays the "
         "same. What else can you do to them?"),
    ))  # fmt: skip

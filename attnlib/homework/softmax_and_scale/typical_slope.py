"""A prediction: what a wider head without a scale does to the slope of a typical query."""

from math import exp, sqrt

from attnlib.exercises.answers import numbers
from attnlib.exercises.verdict import right, wrong
from attnlib.homework.assignment import Question

CHOICES = {"first_gap": ("4", "6", "7"), "new_width": ("400", "576", "784", "1024")}
LESSON = None
SAMPLE = {"first_gap": "4", "new_width": "576"}
OLD = 256

TEXT = """\
**Predict, before you run anything.** An untrained attention has width {old} and no scale. The best key of its
typical query leads the second by {gap}, so that about 2 exp(-{gap}) of a slope reaches the scores. The same
attention is built with width **{width}**, still without a scale. How many times smaller is the slope of the
typical query then? Put the number, above 1, into `times_smaller`. A pocket calculator is allowed, and so is
an error of 10 % either way."""


def judge_for(gap, width):
    """A judge of how many times the slope shrinks."""
    root = sqrt(width / OLD)
    wider = gap * root
    truth = exp(wider - gap)
    known = (
        ("gap_grows_as_the_width", exp(gap * width / OLD - gap), "Your gap grows as the width does. A score "
                                                                 "is a walk of as many steps as the head is "
                                                                 "wide: how far does that lead?"),
        ("gap_for_slope", root, "That is how many times the gap grows. The slope falls as an exponential of "
                                "the gap."),
        ("width_for_slope", width / OLD, "That is how many times wider the head is. What does the width do "
                                         "to a gap, and the gap to a slope?"),
        ("old_slope_forgotten", exp(wider), "That compares with a slope of 1. The slope was small before, "
                                            "too."),
        ("growth_for_difference", exp(root), "That is the exponential of how many times the gap grows. Two "
         "slopes, exp(-a) and exp(-b): how many times smaller is the second?"),
        ("inverted", 1 / truth, "That is the new slope as a part of the old. Asked is how many times smaller "
                                "it is, a number above 1."),
        ("base_two", 2 ** (wider - gap), "Your exponential has the base 2. Its base is e."),
        ("new_gap", wider, "That is the new gap. What does it make of the slope?"),
        ("gap_difference", wider - gap, "That is by how much the gap grows. What does it make of the slope?"),
    )  # fmt: skip

    def judge(answer, seed=None):
        number, complaint = numbers(answer, (), "times_smaller")
        if complaint:
            return complaint
        number = float(number)
        if abs(number - truth) <= 0.1 * truth:
            return right(
                f"The gap grows as the root of the width, {root:g} times, to {wider:g}; the slope shrinks by "
                f"exp({wider - gap:g}) = {truth:.3g}. The mean over the queries falls only as the root of "
                "the width: it is carried by the few in which two keys are nearly level."
            )
        near = min(known, key=lambda each: abs(number - each[1]) / each[1])
        if abs(number - near[1]) <= 0.03 * near[1]:
            return wrong(near[2], near[0])
        if number <= 1:
            return wrong("The slope becomes smaller, and a number above 1 is asked for.")
        return wrong(
            f"It is {'more' if number < truth else 'less'} than that. How does a gap between scores grow "
            "with the width, and how does the slope fall with the gap?"
        )

    return judge


def question(choice):
    gap, width = float(choice["first_gap"]), int(choice["new_width"])
    return Question(
        id="typical_slope", title="Wider, and quieter",
        kind="prediction", name="times_smaller", points=2, part=0, minutes=5,
        text=TEXT.format(old=OLD, gap=choice["first_gap"], width=width),
        stub="times_smaller = ...",
        solution=f"times_smaller = {exp(gap * sqrt(width / OLD) - gap):.3g}",
        judge=judge_for(gap, width),
    )  # fmt: skip

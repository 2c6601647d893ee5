"""A prediction: how many poor matches outweigh one good match."""

from math import ceil, exp, floor

from attnlib.exercises.answers import numbers
from attnlib.exercises.verdict import right, wrong
from attnlib.homework.assignment import Question

CHOICES = {"margin": ("0.5", "1", "1.5", "2", "2.5", "3", "3.5", "4")}
LESSON = {"margin": "2"}
SAMPLE = {"margin": "1.5"}

TEXT = """\
**Predict, before you run anything.** A query scores one key {margin} and each of n other keys 0. The
weights are the softmax of these scores. From which n on do the n others together hold more than half of the
weight? Put the least such n into `copies`."""


def judge_for(margin):
    """A judge of the least n for this margin."""
    least = floor(exp(margin)) + 1

    def judge(answer, seed=None):
        number, complaint = numbers(answer, (), "copies")
        if complaint:
            return complaint
        number = float(number)
        if number == least:
            return right(f"The one counts exp({margin:g}) = {exp(margin):.2f}, each other exp(0) = 1, so "
                         f"{least} of "
                         "them are the first to hold more.")
        if number != round(number):
            return wrong("Copies come in whole numbers.", "tie" if abs(number - exp(margin)) < 0.05 else None)
        if number == least - 1:
            return wrong(f"{number:g} others still hold less than half, though it is close.", "rounded_down")
        if number in (ceil(margin), floor(margin), floor(margin) + 1):
            return wrong("Weights go by exponentials of scores, not by scores.", "scores_not_exponentials")
        if number == floor(2**margin) + 1:
            return wrong("The base of the softmax is e, not 2.", "base_two")
        too = "more than are needed" if number > least else "too few"
        return wrong(f"{number:g} others are {too}. What does each key count before the weights are shared?")

    return judge


def question(choice):
    return Question(
        id="copies", title="A crowd against one",
        kind="prediction", name="copies", points=2, part=0, minutes=4,
        text=TEXT.format(margin=choice["margin"]),
        stub="copies = ...",
        solution=f"copies = {floor(exp(float(choice['margin']))) + 1}",
        judge=judge_for(float(choice["margin"])),
    )  # fmt: skip

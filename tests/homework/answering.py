"""A question of an assignment in one variant, and what the judge says of an answer to it."""

from itertools import product

from attnlib.homework.local import judged, points

HIDDEN = 5


def variants(question):
    """Every choice that a question can be asked in."""
    return [dict(zip(question.CHOICES, each, strict=True)) for each in product(*question.CHOICES.values())]


def told(module, choice, answer, seed=HIDDEN):
    """The question and the verdict on an answer to it."""
    made = module.question(choice)
    return made, judged(made, answer, seed)


def passes(module, choice, answer):
    made, verdict = told(module, choice, answer)
    assert verdict.passed, (choice, str(verdict))
    assert points(made, verdict) == made.points

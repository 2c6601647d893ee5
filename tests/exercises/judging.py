"""What the tests of several judges of functions ask."""

import time

import numpy as np
import torch

from attnlib.exercises import check
from attnlib.exercises.catalogue import EXERCISES


def making(exercise, **choices):
    """A function that makes the mistake; a wrapper, for the engine may not recognise it by identity."""
    compute = EXERCISES[exercise].judge.compute
    return lambda *args: compute(*args, **choices)


def mistakes(*exercises, untold=()):
    """(exercise, mistake), of each name the first and the last variant.

    `untold` are choices that the engine cannot tell from right ones yet.
    """
    ends = {}
    for exercise in exercises:
        for mistake in EXERCISES[exercise].judge.mistakes:
            if not any(choices.items() <= mistake.choices.items() for choices in untold):
                ends.setdefault((exercise, mistake.name), []).append(mistake)
    return [(e, m) for (e, _), all_of in ends.items() for m in (all_of[0], all_of[-1])[: len(all_of)]]


def named(exercise, mistake):
    """Assert that one who makes this mistake is told of it, and in time."""
    begun = time.process_time()
    verdict = check(exercise, making(exercise, **mistake.choices), show=False)
    assert time.process_time() - begun < 5       # a tenth of it on an idle machine
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    variants = (m for m in EXERCISES[exercise].judge.mistakes if m.name == mistake.name)
    assert any(m.hint in verdict.message for m in variants)
    assert mistake.hint[0].isupper() or mistake.hint[0] in "~("
    assert ("another convention" in verdict.message) == mistake.convention


def its_solution(exercise, name=None):
    """The function that an exercise's solution defines, under the name that its contract states."""
    names = {}
    exec(EXERCISES[exercise].solution, names)
    return names.get(name or exercise, names.get("answer"))


def stub(*args):
    raise NotImplementedError


class EqualToAll(np.ndarray):
    """An array that says of everything that it is the same."""

    def __eq__(self, other):
        return np.ones(self.shape, bool)

    def __sub__(self, other):
        return np.zeros(self.shape)


NO_FUNCTIONS = [3, "text", [1, 2], np.ones(3), float("nan")]

# A right tensor made into something that is not right, or right only where told so
RESULTS = [
    lambda right: right.numpy() * 2,
    lambda right: right.to(torch.complex64),
    lambda right: right.to(torch.bfloat16) * 2,
    lambda right: right > 0,
    lambda right: right.to_sparse(),
    lambda right: right.to("meta"),
    lambda right: (right * 2).long(),
    lambda right: right.numpy().astype(object),
    lambda right: right.numpy().astype(str),
    lambda right: right.tolist(),
    lambda right: (right, right),
    lambda right: None,
    lambda right: print(right),
    lambda right: torch.zeros(10**5),
    lambda right: np.zeros(right.shape).view(EqualToAll),
    lambda right: torch.full(right.shape, float("nan"), requires_grad=True),
    lambda right: np.full(right.shape, np.nan),
]


def odd(exercise, result):
    """Assert that a result of another kind is judged without a crash, and not as right."""
    compute = EXERCISES[exercise].judge.compute

    def answer(*args):
        return result(torch.as_tensor(compute(*args)).detach())

    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False
    assert verdict.message


def told_when_raising(exercise, error):
    """Assert that a function that always raises makes no known mistake."""

    def raises(*args):
        raise error("of my own")

    verdict = check(exercise, raises, show=False)
    assert verdict.passed is False and verdict.misconception is None
    assert f"raised {error.__name__}: of my own" in verdict.message


ERRORS = [RuntimeError, TypeError, ValueError, IndexError, ZeroDivisionError]

"""Exercises in which the learner writes a test: judged on implementations of which we know who is right.

A good test passes what is right, however it is written, and catches what is wrong.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attnlib.exercises.answers import short
from attnlib.exercises.calls import (
    ALL_SECONDS,
    call,
    fixed_surroundings,
    is_tensor,
    uses_the_package,
)
from attnlib.exercises.verdict import right, unanswered, wrong


@dataclass(frozen=True)
class Implementation:
    """What the learner's test is tried on.

    Attributes
    ----------
    name : str
        What it is, as the learner reads it.
    make : callable
        Gives the arguments of the learner's test, made anew for each call.
    answer : bool
        What the test must return.
    mistake : str
        The id of the mistake in a test that is fooled by it.
    told : str
        Why the answer is what it is and what to look at; read after the name.
    """

    name: str
    make: Callable
    answer: bool
    mistake: str
    told: str


@dataclass(frozen=True)
class LearnerTest:
    """A judge of tests; ``judge(test)`` gives a `Verdict`.

    Attributes
    ----------
    implementations : tuple of Implementation
        Plain ones first; the first that fools the test is told. Several may share a name: one model in
        several sizes.
    said : dict
        ``said[True]`` and ``said[False]`` are the mistake and the words where the test answers everything so.
    praise : str
    order : int or None
        Seeds the order in which they are asked, for who must not know it; else they are asked as they stand.
        Each is asked twice: a test that counts its calls says something else the second time.
    """

    implementations: tuple
    said: dict
    praise: str
    order: int | None = None

    def __call__(self, test):
        if not callable(test):
            return wrong(f"Give a function, without calling it; got {short(test)}.")
        if uses_the_package(test):
            return wrong("Your function calls the package. Write it yourself.", "package")
        with fixed_surroundings():
            return self._judge(test)

    def _judge(self, test):
        answers = {}
        for asked in self._rounds():
            begun = time.monotonic()
            for index in asked:
                implementation = self.implementations[index]
                answer, complaint = _asked(test, implementation)
                if complaint is None and time.monotonic() - begun > ALL_SECONDS:
                    complaint = _too_slow(implementation)
                if complaint is not None:
                    return complaint
                if answers.setdefault(index, answer) != answer:
                    return wrong(
                        f"On '{implementation.name}' your function said {answers[index]} the first time and "
                        f"{answer} the second. Is something of one call left for the next?", "state")
        if len(set(answers.values())) == 1:
            mistake, told = self.said[answers[0]]
            return wrong(told, mistake)
        fooled = [each for index, each in enumerate(self.implementations) if answers[index] != each.answer]
        if not fooled:
            return right(self.praise)
        names = {implementation.name for implementation in self.implementations}
        misjudged = len({implementation.name for implementation in fooled})
        return wrong(
            f"{len(names) - misjudged} of {len(names)} judged rightly. '{fooled[0].name}' {fooled[0].told}",
            fooled[0].mistake,
            slip=misjudged == 1,
        )

    def _rounds(self):
        """Two orders of asking."""
        places = np.arange(len(self.implementations))
        if self.order is None:
            return places.tolist(), places[::-1].tolist()
        rng = np.random.default_rng(self.order)
        return rng.permutation(places).tolist(), rng.permutation(places).tolist()


def _asked(test, implementation):
    """What the test says of one implementation and None, or None and the verdict that complains."""
    outcome, name = call(test, implementation.make()), implementation.name
    if outcome.late:
        return None, _too_slow(implementation)
    if outcome.ended:
        return None, wrong(f"At '{name}' your function {outcome.error}", "ended")
    if outcome.unanswered:
        told = "Replace the line that raises NotImplementedError and run the cell again."
        return None, unanswered(told)
    if outcome.error:
        told = f"On '{name}' your function {outcome.error}"
        return None, wrong(told if told.endswith((".", "?")) else f"{told}.")
    answer = as_bool(outcome.value)
    if answer is None:
        return None, wrong(f"Return True or False; on '{name}' it was {short(outcome.value)}.")
    return answer, None


def _too_slow(implementation):
    return wrong(
        f"At '{implementation.name}' your function has taken too long. Does a loop of it never end, or does "
        "it call the model more often than it must?", "too_slow")


def as_bool(value):
    """A truth value of Python, NumPy or torch as a bool; None for anything else."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if is_tensor(value) or isinstance(value, np.ndarray):
        return bool(value) if value.ndim == 0 and "bool" in str(value.dtype) else None
    return None

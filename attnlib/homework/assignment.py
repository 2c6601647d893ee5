"""What an assignment is, and how a class's seed chooses its variant.

The lessons' solutions are public, so a graded question asks for one of several conventions: which axis is
time, what True means in a mask, by what the scores are divided. The class's seed chooses them; what was
written for another class, or for a lesson, is right under another convention and is told so.
"""

import hashlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Literal

import numpy as np

from attnlib.exercises.function import FunctionExercise, Mistake
from attnlib.exercises.learner_test import LearnerTest
from attnlib.exercises.verdict import wrong

ASSIGNMENTS = {
    "hw1": "lookup_and_scores",
    "hw2": "softmax_and_scale",
    "hw3": "masks_heads_positions",
    "hw4": "a_model_whole",
}
SAMPLE_SEED = 0     # the seed of the class whose sources lie in notebooks/homework, solutions included
VISIBLE = 1         # seeds the cases that a student's own check runs


@dataclass(frozen=True)
class Option:
    """One way to settle a convention.

    Attributes
    ----------
    text : str
        The sentence that asks for it.
    told : str
        What a submission did that followed it where another was asked for: a sentence.
    code : str
        What it puts in place of the convention's name in the solution.
    name : str
        What a page of statistics calls it, where the convention's name and its value together do not say it.
    """

    text: str
    told: str
    code: str = ""
    name: str = ""


@dataclass(frozen=True)
class Convention:
    """Something that a question asks for in one of several ways.

    Attributes
    ----------
    name : str
        The keyword of the question's ``compute`` that it sets.
    options : dict of str to Option
        By the value of that keyword.
    """

    name: str
    options: dict[str, Option]

    def called(self, value):
        """The id of an answer that follows this option where another is asked for."""
        return self.options[value].name or f"{self.name}_{value}"


@dataclass(frozen=True)
class Question:
    """One question of an assignment, in the variant of a class.

    Attributes
    ----------
    id : str
        Also the id of its cell, and of its column in the grades.
    title : str
    kind : str
        Whether a function, a value or array, a prediction, a test of others' functions, a figure or a text
        is asked for.
    name : str
        What the answer is called in the notebook; empty for a text.
    points : int
    part : int
        Points for one named mistake in otherwise right work.
    minutes : int
    text : str
        Markdown: the task, with the conventions of this class.
    stub : str
        What the student's cell holds before it is answered, without the line that stops an empty function.
    solution : str
        What comes after the stub and makes it right; of a text, the model answer and what earns each point.
    judge : callable or None
        ``judge(answer, seed)`` gives a `Verdict`; without a seed it runs the visible cases alone. A text
        has none: a person reads it.
    rubric : str
        For a text: what it is read for, as the student is told.
    given : str
        Code of a locked cell before it: what the task speaks of.
    forbids : tuple of str
        Names that the answer may not use.
    other_names : tuple of str
        What the answer is called in other variants.
    """

    id: str
    title: str
    kind: Literal["function", "value", "prediction", "test", "figure", "written"]
    name: str
    points: int
    part: int
    minutes: int
    text: str
    stub: str
    solution: str
    judge: Callable | None = None
    rubric: str = ""
    given: str = ""
    forbids: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Assignment:
    """An assignment in one variant.

    Attributes
    ----------
    id, title : str
    code : str
        Names the variant, without saying anything of the seed: a digit a convention.
    lessons : str
        What it is about, as in "lessons 01 to 04".
    questions : tuple of Question
    """

    id: str
    title: str
    code: str
    lessons: str
    questions: tuple[Question, ...]

    @property
    def given(self):
        """The locked cells of code that the answers build on: id and source."""
        return tuple((f"given-{q.id}", q.given) for q in self.questions if q.given)

    @property
    def forbids(self):
        """What any of its questions forbids."""
        return tuple(sorted({name for question in self.questions for name in question.forbids}))

    @property
    def points(self):
        return sum(question.points for question in self.questions)

    @property
    def minutes(self):
        return sum(question.minutes for question in self.questions)

    def question(self, id):
        """The question with this id.

        Raises
        ------
        KeyError
            If there is none; the message lists those that there are.
        """
        for question in self.questions:
            if question.id == id:
                return question
        raise KeyError(f"{self.id} has no question {id!r}; it has: {', '.join(q.id for q in self.questions)}")


def load(id, class_seed):
    """The assignment ``id`` as the class with this seed gets it."""
    return _made(id, chosen(id, class_seed))


def from_code(id, code):
    """The assignment whose variant has this code, as a released notebook names it.

    Raises
    ------
    ValueError
        If the code names no variant of this assignment.
    """
    values = _values(id)
    places = [int(digit) for digit in code if digit in "0123456789"]
    if not len(places) == len(code) == len(values) or any(
        place >= len(each) for place, each in zip(places, values.values(), strict=True)
    ):
        raise ValueError(f"{code!r} is no variant of {id}; get the notebook's first code cell anew")
    return _made(id, {name: each[i] for i, (name, each) in zip(places, values.items(), strict=True)})


def chosen(id, class_seed):
    """What a class asks for: question by question, one of the choices that nobody has published.

    Published are the lessons' own conventions and, for every class but the sample, the sample's. What two
    questions choose under one name is drawn once.
    """
    choice = {}
    for question in module(id).QUESTIONS:
        published = [*lessons(question), question.SAMPLE]
        products = product(*question.CHOICES.values())
        every = [dict(zip(question.CHOICES, each, strict=True)) for each in products]
        every = [each for each in every if all(choice.get(name, own) == own for name, own in each.items())]
        free = [each for each in every if each not in published] or every
        place = secret(class_seed, id, question.__name__, "variant") % len(free)
        choice |= question.SAMPLE if class_seed == SAMPLE_SEED else free[place]
    return choice


def lessons(question):
    """The choices of a question that the lessons have published: none, one, or as many as differ."""
    found = question.LESSON
    return [] if found is None else [found] if isinstance(found, dict) else [*found]


def secret(class_seed, *what):
    """A number that nobody knows without the class's seed: it seeds what is hidden."""
    told = "/".join(map(str, (class_seed, *what)))
    return int.from_bytes(hashlib.sha256(told.encode()).digest()[:8], "big")


def _made(id, choice):
    found = module(id)
    code = "".join(str(each.index(choice[name])) for name, each in _values(id).items())
    questions = tuple(question.question(choice) for question in found.QUESTIONS)
    return Assignment(id, found.TITLE, code, found.LESSONS, questions)


def module(id):
    """The package of an assignment: ``TITLE``, ``LESSONS``, ``QUESTIONS`` (a module each).

    A question's module has ``CHOICES`` (what may be chosen, by name), ``LESSON`` and ``SAMPLE`` (the
    choices that are published; the first is None where no lesson asks the same, and a tuple where
    lessons differ), and ``question(choice)``.

    Raises
    ------
    KeyError
        If there is no such assignment.
    """
    if id not in ASSIGNMENTS:
        raise KeyError(f"there is no assignment {id!r}; there are: {', '.join(ASSIGNMENTS)}")
    return importlib.import_module(f"attnlib.homework.{ASSIGNMENTS[id]}")


def _values(id):
    """By the name of each choice of an assignment, in one order, its values."""
    return {name: each for question in module(id).QUESTIONS for name, each in question.CHOICES.items()}


# ------------------------------------------------------------------------- functions in variants


def values_of(*conventions):
    """The choices of one question: each convention's name and its values."""
    return {convention.name: tuple(convention.options) for convention in conventions}


def asked(conventions, choice):
    """The sentences that ask for this class's conventions."""
    return " ".join(convention.options[choice[convention.name]].text for convention in conventions)


def said(conventions, choice):
    """What a question's text says of each convention, by its name."""
    return {each.name: each.options[choice[each.name]].text for each in conventions}


def filled(template, conventions, choice):
    """A solution with ``<name>`` replaced by the code of each convention."""
    for convention in conventions:
        template = template.replace(f"<{convention.name}>", convention.options[choice[convention.name]].code)
    return template


def judge_of_variant(compute, conventions, choice, mistakes, cases, praise, *, visible, **named):
    """A judge of functions under the conventions of one class.

    Parameters
    ----------
    compute : callable
        ``compute(*args, **choices)``: the conventions and the mistakes are keywords of it.
    conventions : tuple of Convention
    choice : dict
        The value that this class has for each.
    mistakes : tuple of Mistake
        Wrong under every convention.
    cases : callable
        ``cases(rng, choice)`` makes them, plain ones first.
    praise : str
    visible : int
        How many of the cases a student's own check runs.
    **named
        ``properties``, ``atol`` and so on, as in `FunctionExercise`.

    Returns
    -------
    callable
        ``judge(function, seed=None)``.
    """
    names = [convention.name for convention in conventions]
    ours = {name: choice[name] for name in names}
    reference = partial(compute, **ours)
    known = (*_other_variants(conventions, ours), *mistakes)

    def judge(function, seed=None):
        every = cases(np.random.default_rng(VISIBLE if seed is None else seed), ours)
        if seed is not None:
            return FunctionExercise(reference, lambda: every, known, praise, **named)(function)
        verdict = FunctionExercise(reference, lambda: every[:visible], known, SO_FAR, **named)(function)
        shown = f"{visible} of {len(every)} cases"
        return counted(verdict, function, shown, "others, and other numbers in all")

    return judge


def judge_of_tests(tried, said, praise, test, seed, shown, more="others"):
    """The verdict on a student's test of others' functions.

    Parameters
    ----------
    tried : tuple of Implementation
        All of them with a seed; without one, those that a student's own check tries.
    said, praise
        As in `LearnerTest`.
    test
        The answer.
    seed : int or None
        Hides the order in which they are asked.
    shown, more : str
        For the student's own check: how many of all were tried, and what the grader has besides.

    Returns
    -------
    Verdict
    """
    if seed is not None:
        return LearnerTest(tried, said, praise, order=seed)(test)
    return counted(LearnerTest(tried, said, SO_FAR)(test), test, shown, more)


SO_FAR = "It holds on all that was tried here."     # what a student's own check may praise


def counted(verdict, function, shown, more):
    """The verdict of a student's own check on a function, which says how much of all was tried."""
    if verdict.passed is None or not callable(function):
        return verdict
    told = f"{verdict.message} These were {shown}; the grader has the {more}."
    return replace(verdict, message=told)


def _other_variants(conventions, ours):
    """The right answer to each other variant, as a mistake; those that differ in one thing first."""
    found = []
    for values in product(*(convention.options for convention in conventions)):
        differ = [
            (convention, value)
            for convention, value in zip(conventions, values, strict=True) if value != ours[convention.name]
        ]
        if differ:
            told = [
                f"{convention.options[value].told} Here: {convention.options[ours[convention.name]].text}"
                .replace("**", "")          # a verdict is no Markdown
                for convention, value in differ
            ]
            name = "_and_".join(convention.called(value) for convention, value in differ)
            choices = {convention.name: value for convention, value in differ}
            found.append(Mistake(name, " ".join(told), choices, convention=True, things=len(differ)))
    return sorted(found, key=lambda mistake: len(mistake.choices))


# ------------------------------------------------------------------------------------- figures


def words_missing(praise, lacks):
    """The verdict on a figure whose numbers are right and whose words are not; None where nothing lacks.

    Parameters
    ----------
    praise : str
        What is said first.
    lacks : tuple of (bool, str, str)
        Whether it lacks, the name of the mistake, and a sentence. Where several lack all are told, and the
        mistake is called ``words_missing``.
    """
    found = [(name, told) for lacking, name, told in lacks if lacking]
    if not found:
        return None
    name = found[0][0] if len(found) == 1 else "words_missing"
    return wrong(" ".join([praise, *(told for _, told in found)]), name)

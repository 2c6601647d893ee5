"""A small assignment, its notebook as a student hands it in, and a session that runs in this process."""

import contextlib
import json
from dataclasses import dataclass

import numpy as np

from attnlib.exercises.verdict import right, unanswered, wrong
from attnlib.homework.assignment import Assignment, Question
from attnlib.homework.source import released, source


def judge_double(answer, seed=None):
    try:
        given = np.random.default_rng(seed).integers(1, 9)
        got = answer(given)
    except NotImplementedError:
        return unanswered("Replace the line.")
    except Exception as error:
        return wrong(f"On a number, your function raised {type(error).__name__}.")
    if got == 2 * given:
        return right("Doubled.")
    return wrong("You add one.", "adds_one", slip=True) if got == given + 1 else wrong("Not the double.")


def judge_total(answer, seed=None):
    return right("Right.") if answer == 6 else wrong("Not the total.", "off" if answer == 5 else None)


def judge_mean(answer, seed=None):
    got = answer(np.array([1.0, 3.0]))
    return right("The mean.") if got == 2.0 else wrong("Not the mean.")


QUESTIONS = (
    Question(
        id="double", title="Twice", kind="function", name="double", points=4, part=2, minutes=5,
        text="Write `double(x)`.", stub='def double(x):\n    """Twice x."""', solution="    return x + x",
        judge=judge_double, forbids=("multiply",)),
    Question(
        id="total", title="The sum", given="NUMBERS = np.array([1, 2, 3])", kind="value",
        name="total", points=2, part=1, minutes=5,
        text="Sum `NUMBERS` into `total`.", stub="total = ...", solution="total = int(NUMBERS.sum())",
        judge=judge_total),
    Question(
        id="mean", title="The mean", kind="function", name="average", points=2, part=0, minutes=5,
        text="Write `average(x)`.", stub='def average(x):\n    """The mean of x."""',
        solution="    return x.sum() / len(x)", judge=judge_mean, forbids=("mean",)),
    Question(
        id="why", title="Why it is one", kind="written", name="", points=3, part=0, minutes=5,
        text="Say in two sentences why a mean is one.", stub="", solution="Because it is.",
        rubric="One point a reason."),
)  # fmt: skip


SMALL = Assignment(id="hw1", title="Small numbers", code="00", lessons="lesson 00", questions=QUESTIONS)


def good(assignment):
    """The notebook of a student who has answered all of it, as a dict."""
    notebook = json.loads(json.dumps(released(source(assignment, ()))))
    for cell in notebook["cells"]:
        for question in assignment.questions:
            if cell["metadata"]["nbgrader"]["grade_id"] == question.id:
                code = question.kind in ("function", "test")
                cell["source"] = f"{question.stub}\n{question.solution}" if code else question.solution
    return notebook


@dataclass(frozen=True)
class Trouble:
    label: str
    kind: str
    told: str


@dataclass(frozen=True)
class Missing:
    reason: str


class InProcess:
    """Has the interface of `attnlib.homework.remote.Session`, and no walls."""

    def __init__(self, sandbox, cells, seconds=None):
        self.cells, self.troubles = cells, []
        self.names = {"check": lambda *_: None}

    def __enter__(self):
        for label, text in self.cells:
            text = "\n".join(
                line for line in text.split("\n") if "local_check" not in line and line[:1] != "%"
            )
            with contextlib.redirect_stdout(None):
                try:
                    exec(compile(text, label, "exec"), self.names)
                except (Exception, SystemExit) as error:
                    told = f"{label} stopped with {type(error).__name__}."
                    self.troubles.append(Trouble(label, "error", told))
        return self

    def __exit__(self, *_):
        pass

    def answer(self, name, forbids=()):
        return self.names[name] if name in self.names else Missing(f"{name} is not defined")

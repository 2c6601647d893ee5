"""The check that a student runs: the grader's judge, on the cases that are not hidden."""

from dataclasses import replace

from attnlib.exercises import answers
from attnlib.exercises.answers import numbers, short
from attnlib.exercises.calls import names_in
from attnlib.exercises.verdict import Verdict
from attnlib.homework import assignment


class Points(float):
    """Points on the visible cases; a notebook shows the verdict with it.

    A float, and plain text shows it as one: that is what nbgrader reads from the last line of a cell.
    """

    def __new__(cls, points, verdict):
        made = super().__new__(cls, points)
        made.verdict = verdict
        return made

    def __repr__(self):
        # nbgrader takes a number for a score, also of a prediction of which nothing may be known yet.
        return "written down" if isinstance(self.verdict, Recorded) else float.__repr__(self)

    def _repr_html_(self):
        return self.verdict._repr_html_()


class Recorded(Verdict):
    """The verdict on a prediction, as long as it is one."""

    _word = "Written down"


def local_check(id, code):
    """A function ``check(question, answer)`` for one assignment in the variant of a class.

    Parameters
    ----------
    id, code : str
        As the first code cell of the notebook states them.

    Returns
    -------
    callable
        ``check(question_id, answer)`` gives `Points` whose ``verdict`` says what is right or wrong. It keeps
        nothing.

    Raises
    ------
    KeyError, ValueError
        If there is no such assignment or variant.

    Examples
    --------
    >>> check = local_check("hw1", "0000000000000")
    >>> print(check("copies", 5).verdict)
    Written down. Your prediction is 5. Whether it is right you learn with your points.
    """
    made = assignment.from_code(id, code)

    def check(question_id, answer):
        question = made.question(question_id)
        verdict = (_recorded if question.kind == "prediction" else judged)(question, answer)
        verdict = _warned(verdict, _forbidden_names(answer, question.forbids))
        return Points(points(question, verdict), verdict)

    return check


def judged(question, answer, seed=None):
    """The verdict on an answer, whatever it is."""
    return answers.judged(lambda given: question.judge(given, seed), answer)


def points(question, verdict):
    """All points, those for one named mistake in otherwise right work, or none."""
    if verdict.passed:
        return question.points
    named = verdict.misconception and not verdict.convention
    slip = verdict.slip if question.kind in ("function", "test") else named
    return question.part if verdict.passed is False and slip else 0


def _forbidden_names(answer, forbids):
    """Which of the forbidden names a function, with those of its own module that it calls, makes use of."""
    found, seen, waiting = set(), set(), [answer] if forbids else []
    while waiting:
        function = waiting.pop()
        if id(function) in seen or not hasattr(function, "__code__"):
            continue
        seen.add(id(function))
        surroundings = function.__globals__
        for name in names_in(function):
            meant = surroundings.get(name)
            found |= {name, getattr(meant, "__name__", name)} if meant is None or callable(meant) else set()
            waiting += [meant] if getattr(meant, "__globals__", None) is surroundings else []
    return [each for each in forbids if each in found]


def _warned(verdict, names):
    """The verdict, and that the grader will not let this pass."""
    if not names or verdict.passed is None:
        return verdict
    listed = ", ".join(f"`{name}`" for name in names)
    told = f"{verdict.message} But it names {listed}: the grader takes that away, so write it yourself."
    return replace(verdict, message=told)


def _recorded(question, answer):
    """What may be known of a prediction before the grader: that it can be read."""
    if answer is ... or answer is None:
        return judged(question, answer)
    _, complaint = numbers(answer, (), question.name)
    told = f"Your prediction is {short(answer)}. Whether it is right you learn with your points."
    return complaint or Recorded(None, told)

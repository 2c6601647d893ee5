"""The check that a student runs: the grader's judge, on the cases that are not hidden."""

from attnlib.exercises import answers
from attnlib.exercises.answers import numbers, short
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


def _recorded(question, answer):
    """What may be known of a prediction before the grader: that it can be read."""
    if answer is ... or answer is None:
        return judged(question, answer)
    _, complaint = numbers(answer, (), question.name)
    told = f"Your prediction is {short(answer)}. Whether it is right you learn with your points."
    return complaint or Recorded(None, told)

"""Exercises that name the mistake: ``check("half_and_half", query)`` says what is right or wrong.

``exercises()`` lists them, ``hint(id)`` goes one step further each time, ``solution(id)`` shows one way,
and ``progress()`` draws your map.
"""

from difflib import get_close_matches

from attnlib.exercises import record
from attnlib.exercises.answers import judged, short
from attnlib.exercises.catalogue import EXERCISES
from attnlib.exercises.progress import Listing, Progress
from attnlib.exercises.verdict import Note

__all__ = ["check", "exercises", "hint", "progress", "solution"]


def check(id, answer, *, show=True):
    """Judge an answer.

    Parameters
    ----------
    id : str
        The exercise's id, as the lesson states it.
    answer
        What the exercise asks for: a function, an array, a number, a letter. ``...`` or a function
        that raises ``NotImplementedError`` counts as not answered yet.
    show : bool
        Whether to show the verdict: as a coloured note in a notebook, as text elsewhere.

    Returns
    -------
    Verdict
        With ``passed`` (None while not answered), ``message``, ``misconception`` (its id, or None) and
        ``case`` (the input that showed it, or None).

    Raises
    ------
    KeyError
        If there is no such exercise; the message has near names.

    Examples
    --------
    >>> verdict = check("outvoted", 3)
    Not yet. With 3 copies the single key still holds 0.711 of the weight. Weights go by exponentials \
of scores, not by scores.
    >>> verdict.passed, verdict.misconception
    (False, 'scores_not_exponentials')
    >>> check("outvoted", ..., show=False).message
    'Put your answer in place of the three dots and run the cell again.'
    """
    exercise = _find(id)
    verdict = judged(exercise.judge, answer)
    _keep(exercise, answer, verdict)
    return verdict.show() if show else verdict


def hint(id):
    """Show one more hint for an exercise: the first time the first, then one step further each time.

    Raises
    ------
    KeyError
        If there is no such exercise; the message has near names.
    """
    exercise = _find(id)
    seen = record.entry(id).get("hints", 0)
    seen = seen if isinstance(seen, int) and 0 <= seen else 0
    if seen >= len(exercise.hints):
        return Note(
            f"No more hints for {id}",
            f'The last was: {exercise.hints[-1]} One way to do it is shown by solution("{id}").',
        ).show()
    record.change(id, hints=seen + 1)
    return Note(f"Hint {seen + 1} of {len(exercise.hints)} for {id}", exercise.hints[seen]).show()


def solution(id):
    """Show one right answer; there are others.

    Raises
    ------
    KeyError
        If there is no such exercise; the message has near names.
    """
    return Note(f"One way to do {id}", _find(id).solution.strip("\n"), code=True).show()


def exercises():
    """Show all exercises by lesson; returns their ids."""
    return Listing(EXERCISES.values()).show()


def progress():
    """Show which exercises you passed and tried, lesson by lesson, and where this is kept."""
    return Progress(EXERCISES.values(), record.read(), record.path(), record.kept()).show()


def _find(id):
    if isinstance(id, str) and id in EXERCISES:
        return EXERCISES[id]
    near = get_close_matches(str(id), EXERCISES, n=3, cutoff=0.4)
    told = f"near names: {', '.join(near)}" if near else "exercises() lists them all"
    raise KeyError(f"no exercise {id!r}; {told}")


def _keep(exercise, answer, verdict):
    """Count the try, and keep a prediction's first answer: what comes after the run is no prediction."""
    if verdict.passed is None or not verdict.readable:
        return
    entry = record.entry(exercise.id)
    tries = entry.get("tries", 0)
    values = {
        "passed": bool(entry.get("passed")) or verdict.passed,
        "tries": tries + 1 if isinstance(tries, int) else 1,
    }
    if exercise.kind == "prediction" and "prediction" not in entry:
        values["prediction"] = short(answer)
    record.change(exercise.id, **values)

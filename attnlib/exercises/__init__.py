"""Checks of the lessons' exercises: ``check("half_and_half", query)`` says what is right or wrong."""

from difflib import get_close_matches

from attnlib.exercises import lookup, masking, multi_head, saturation, scaling, start
from attnlib.exercises.verdict import unanswered

_JUDGES = {
    name: judge
    for lesson in (lookup, start, scaling, saturation, masking, multi_head)
    for name, judge in lesson.JUDGES.items()
}


def check(exercise, answer):
    """Judge an answer.

    Parameters
    ----------
    exercise : str
        The exercise's id, as the lesson states it.
    answer
        What the exercise asks for: a function, an array, a number, a letter. ``...`` or a function
        that raises ``NotImplementedError`` counts as not answered yet.

    Returns
    -------
    Verdict
        Shown by a notebook when it is the last line of a cell.

    Raises
    ------
    KeyError
        If there is no such exercise; the message has near names.

    Examples
    --------
    >>> check("outvoted", 3)
    Not yet. With 3 copies the single key still holds 0.711 of the weight. Weights go by exponentials \
of scores, not by scores.
    >>> check("outvoted", ...)
    Not answered yet. Put your answer in place of the three dots and run the cell again.
    """
    if not isinstance(exercise, str) or exercise not in _JUDGES:
        near = get_close_matches(str(exercise), _JUDGES, n=3, cutoff=0.4) or sorted(_JUDGES)
        raise KeyError(f"no exercise {exercise!r}; near names: {', '.join(near)}")
    if answer is ... or answer is None:
        return unanswered("Put your answer in place of the three dots and run the cell again.")
    try:
        return _JUDGES[exercise](answer)
    except NotImplementedError:
        return unanswered("Replace the line that raises NotImplementedError and run the cell again.")

"""Reading a learner's answer: numbers out of whatever was typed, and short words for it."""

import numpy as np

from attnlib.exercises.verdict import unanswered, unreadable, wrong


def as_floats(answer):
    """``answer`` as floats, or None where it does not hold real numbers."""
    try:
        array = np.asarray(answer)
        return array.astype(float) if array.dtype.kind in "iuf" else None
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return None


def in_quotes(answer):
    """Whether ``answer`` is text that would be numbers without its quotes."""
    try:
        array = np.asarray(answer)
        return array.dtype.kind in "US" and bool(np.isfinite(array.astype(float)).all())
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return False


def numbers(answer, shape, name):
    """``answer`` as a finite array of this shape and None, or None and the verdict that complains."""
    wanted = f"{shape[0]} numbers" if shape else "one number"
    if len(shape) > 1:
        wanted = f"an array of shape {shape}"
    array = as_floats(answer)
    if array is None:
        quotes = " without quotes" if in_quotes(answer) else ""
        return None, unreadable(f"Let {name} be {wanted}{quotes}; got {short(answer)}.")
    if array.shape != shape:
        got = f"an array of shape {array.shape}" if array.shape else short(answer)
        return None, unreadable(f"Let {name} be {wanted}; got {got}.")
    if not np.isfinite(array).all():
        return None, unreadable(f"Let {name} be finite; got {short(answer)}.")
    return array, None


def letter(answer, letters):
    """``answer`` as one of the capital ``letters`` and None, or None and the verdict that complains."""
    given = answer.strip().upper() if isinstance(answer, str) else None
    if given not in tuple(letters):
        return None, unreadable(
            f'Give one of the letters {", ".join(letters)} in quotes, such as "{letters[0]}"; '
            f"got {short(answer)}."
        )
    return given, None


def short(answer, text=repr, length=60):
    try:
        shown = text(answer)
    except Exception:
        return f"something of type {type(answer).__name__}"
    return shown if len(shown) <= length else shown[: length - 3] + "..."


def capital(sentence):
    """The sentence with a capital."""
    return sentence[:1].upper() + sentence[1:]


def judged(judge, answer):
    """The verdict on an answer, whatever it is; an error of its own is one too."""
    if answer is ... or answer is None:
        return unanswered("Put your answer in place of the three dots and run the cell again.")
    try:
        return judge(answer)
    except NotImplementedError:
        return unanswered("Replace the line that raises NotImplementedError and run the cell again.")
    except (Exception, SystemExit) as error:  # raised by the answer itself, when it was looked at
        told = f"Your answer cannot be read: looking at it raised {type(error).__name__}."
        return wrong(told, "unreadable")

"""Where a text that is read piece by piece into a state goes wrong, for judges of such functions."""

import numpy as np

from attnlib.exercises.compare import floats


def all_finite(question):
    """A property of results: the outputs hold no NaN and nothing infinite; else ``question`` is asked."""

    def told(case, value, expected):
        out = floats(value[0])
        if out is not None and not np.isfinite(out).all():
            return f"There are NaN or infinite numbers. {question}"
        return None

    return told


def first_wrong(piece, of_the_state, of_the_reading):
    """A property of results: whether the first ``piece``, or all but the last state, is right.

    The case's last argument lists the calls, (text, number of tokens) each.

    Parameters
    ----------
    piece : str
        What the lesson calls a piece.
    of_the_state : str
        What is asked where the outputs are right and the state at the end is not.
    of_the_reading : str
        What is asked where the first piece is right and a later token is not.
    """

    def told(case, value, expected):
        out, ours = floats(value[0]), expected[0]
        if out is None or out.shape != ours.shape:
            return None
        right_at = np.isclose(out, ours, rtol=3e-4, atol=2e-5).all((0, 2))
        if right_at.all():
            return f"The outputs are right, and the state at the end is not: {of_the_state}"
        first = next(length for which, length in case.args[-1] if which == 0)
        token = int(np.argmin(right_at))
        if token >= first:
            return f"The first {piece} is right, and token {token} is the first that is not. {of_the_reading}"
        return None

    return told

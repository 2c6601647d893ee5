"""What several judges of functions share."""

import numpy as np

from attnlib.exercises.calls import is_tensor
from attnlib.exercises.compare import floats


def unpacked(shape, n):
    """Raise what Python does where a shape of another length is unpacked into ``n`` names, two to four."""
    if n == 2:
        _, _ = shape
    elif n == 3:
        _, _, _ = shape
    else:
        _, _, _, _ = shape


def in_torch(case, value, expected):
    """A property of results: they come as no tensor where an array or a number is asked for."""
    if isinstance(expected, tuple):
        return _of_each(in_torch, case, value, expected)
    found = floats(value) if is_tensor(value) else None
    shape = np.shape(expected)
    if found is None or found.shape != shape or not np.allclose(found, expected, 1e-3, 1e-5):
        return None
    if not shape:
        return "The number is right; only it comes as a torch tensor. Return it as float() gives it."
    return "The numbers are right; only they come as a torch tensor. Return a NumPy array."


def _of_each(has, case, value, expected):
    """What is said of several results where it is true of each."""
    if not isinstance(value, (tuple, list)) or len(value) != len(expected):
        return None
    told = [has(case, *pair) for pair in zip(value, expected, strict=True)]
    return told[0] if all(told) else None


def few_digits(case, value, expected):
    """A property of results: they are not right to three digits alone."""
    if isinstance(expected, tuple):
        return _of_each(few_digits, case, value, expected)
    value, expected = floats(value), floats(expected)
    if value is None or value.shape != expected.shape or value.size < 2 or not np.isfinite(value).all():
        return None
    scale = np.abs(expected).max()
    if np.allclose(value, expected, rtol=1e-5, atol=1e-6 * scale):
        return None
    if np.allclose(value, expected, rtol=3e-3, atol=1e-3 * scale):
        return ("Your numbers are right to about three digits and no further: is something rounded, held in "
                "half precision, or a small number added?")
    return None

"""Whether a result is right, and if not, what is wrong with it, from its type to its entries."""

import math

import numpy as np

from attnlib.exercises.calls import is_tensor

PARTS = 10     # more results than any exercise asks for; a longer list is one wrong thing


def complaint(value, ours, rtol=1e-4, atol=1e-6):
    """None where ``value`` is right, else a sentence (without its capital) that says what is wrong.

    Parameters
    ----------
    value
        What a learner's function returned: anything.
    ours : array, tensor, number or tuple of these
        The right result.
    rtol, atol : float
        Tolerances.

    Returns
    -------
    str or None
    """
    if isinstance(ours, tuple):
        if not isinstance(value, (tuple, list)) or len(value) != len(ours):
            return f"the function must return {len(ours)} results, joined by commas; yours is {kind(value)}."
        for index, (a, b) in enumerate(zip(value, ours, strict=True)):
            problem = complaint(a, b, rtol, atol)
            if problem:
                return f"result {index + 1} of {len(ours)}: {problem}"
        return None
    value, problem = _as_array(value, ours)
    if problem:
        return problem
    got, wanted = floats(value), floats(ours)
    if got is None:
        return "the result must hold numbers that can be read."
    wrong_at = ~np.isclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True)
    if not wrong_at.any():
        return None
    at = tuple(int(i) for i in np.argwhere(wrong_at)[0])
    place = f"index {', '.join(map(str, at))} of the result" if at else "the result"
    boolean = "bool" in str(value.dtype)
    return f"{place} should be {_shown(wanted[at], boolean)}; yours is {_shown(got[at], boolean)}."


def alike(value, ours, rtol=1e-4, atol=1e-6):
    """Whether two results are the same, tuples among them; one entry is looked at before all are."""
    if shapes(value) != shapes(ours):
        return False
    one, other = _middle(value), _middle(ours)
    if abs(one - other) > 0.1 + 0.1 * abs(other):  # far beyond any tolerance; False where one is NaN
        return False
    return complaint(value, ours, rtol, atol) is None


def _middle(x):
    """A number from the middle of a result, of the first part of several; 0 where there is none."""
    if isinstance(x, (tuple, list)):
        return 0.0 if not x or isinstance(x[0], (tuple, list)) else _middle(x[0])
    try:
        if (is_tensor(x) or isinstance(x, np.ndarray)) and 0 not in x.shape:
            return float(x[tuple(n // 2 for n in x.shape)])
        return float(x)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return 0.0


def _as_array(value, ours):
    """``value`` as an array or tensor of the right type and shape, or what is wrong with it."""
    if not is_tensor(ours) and isinstance(value, (bool, int, float)) and np.ndim(ours) == 0:
        value = np.asarray(value)
    if not (is_tensor(value) if is_tensor(ours) else isinstance(value, np.ndarray | np.generic)):
        return None, f"the result must be {kind(ours)}; yours is {kind(value)}."
    if is_tensor(value) and (value.layout.__str__() != "torch.strided" or value.is_quantized):
        return None, f"the result must be an ordinary tensor; yours has the layout {value.layout}."
    if value.is_complex() if is_tensor(value) else value.dtype.kind not in "biuf":
        return None, f"the result must hold real numbers; yours has dtype {value.dtype}."
    if tuple(value.shape) != tuple(np.shape(ours)):  # before any number is copied: there may be many
        return None, (
            f"the result must have shape {tuple(np.shape(ours))}; yours has {tuple(value.shape)}."
        )
    wanted = str(getattr(ours, "dtype", "float64"))
    got = str(value.dtype)
    if ("bool" in wanted) != ("bool" in got):
        must = "boolean" if "bool" in wanted else "of numbers"
        return None, f"the result must be {must}; yours has dtype {got}."
    floating = value.is_floating_point() if is_tensor(value) else value.dtype.kind == "f"
    if "float" in wanted and not floating and value.ndim:
        return None, f"the result must be of a floating type; yours has dtype {got}."
    return value, None


def floats(x):
    """An array, tensor or number in float64; None where it holds no real numbers."""
    try:
        if is_tensor(x):
            x = x.detach().resolve_conj().resolve_neg().to("cpu")
            x = (x.double() if x.is_floating_point() else x).numpy()
        array = np.asarray(x)
        return array.astype(float) if array.dtype.kind in "biuf" else None
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def shapes(x):
    """The shape of a result, or the shapes of several."""
    if isinstance(x, (tuple, list)):
        return [tuple(getattr(part, "shape", ())) for part in x[:PARTS]]
    return tuple(getattr(x, "shape", ()))


def entries(x):
    """How many numbers a result holds; of what is no array, how many parts."""
    if isinstance(x, (tuple, list)):
        return len(x) if len(x) > PARTS else sum(math.prod(shape) for shape in shapes(x))
    return math.prod(shapes(x))


def kind(x):
    """What ``x`` is, in words that follow "must be" or "is"."""
    if is_tensor(x):
        return "a torch tensor"
    if isinstance(x, np.ndarray) and x.ndim:
        return "a NumPy array"
    if isinstance(x, (tuple, list)):
        return f"a {type(x).__name__} of {len(x)}"
    if isinstance(x, (np.ndarray, np.number, int, float)) and not isinstance(x, bool):
        return "a number"
    return f"of type {type(x).__name__}"


def _shown(x, boolean):
    return str(bool(x)) if boolean else f"{x:.6g}"

"""What every function of ``core`` asks of its arguments: one library, real numbers, a valid axis."""

import operator

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj


def namespace(**arrays):
    """The array-API namespace that all ``arrays`` belong to.

    Raises
    ------
    TypeError, ValueError
        If one is not an array, or if they come from two libraries or lie on two devices.
    """
    for name, array in arrays.items():
        if not is_array_api_obj(array):
            raise TypeError(
                f"{name} must be a NumPy array or a torch tensor; got {type(array).__name__}. "
                f"np.asarray({name}) makes an array of a list of numbers."
            )
    libraries = {name: type(array).__module__.split(".")[0] for name, array in arrays.items()}
    if len(set(libraries.values())) > 1:
        found = ", ".join(f"{name} from {library}" for name, library in libraries.items())
        raise TypeError(f"all arguments must come from one library; got {found}")
    # NumPy 2 follows the standard itself; the compatibility wrapper takes a quarter second to load.
    if set(libraries.values()) == {"numpy"}:
        return np
    first, *others = arrays
    for name in others:
        if device(arrays[name]) != device(arrays[first]):
            raise ValueError(
                f"all arguments must be on one device; {name} is on {device(arrays[name])}, "
                f"{first} on {device(arrays[first])}"
            )
    return array_namespace(*arrays.values())


def float_dtype(xp, **arrays):
    """The floating type that a result made of ``arrays`` should have.

    Floating types are promoted to a common one. Integers follow the floating arguments, or the
    library's default where there are none.

    Raises
    ------
    TypeError
        If an array holds booleans, complex numbers or objects.
    """
    for name, array in arrays.items():
        if not xp.isdtype(array.dtype, ("real floating", "integral")):
            raise TypeError(f"{name} must hold real numbers; got dtype {array.dtype}")
    floats = [a.dtype for a in arrays.values() if xp.isdtype(a.dtype, "real floating")]
    return xp.result_type(*floats) if floats else xp.empty(0).dtype


def working_dtype(xp, dtype):
    """The type to compute in: float32 for half precision, otherwise ``dtype`` itself."""
    return xp.float32 if xp.finfo(dtype).bits < 32 else dtype


def valid_axis(axis, array, name):
    """``axis`` as a number from 0 up, for a non-empty axis of ``array``."""
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeError(f"axis must be one integer; got {axis!r}")
    axis = operator.index(axis)
    if not -array.ndim <= axis < array.ndim:
        raise ValueError(
            f"axis {axis} does not exist: {name} has shape {tuple(array.shape)}, "
            f"so axis must lie in {-array.ndim} .. {array.ndim - 1}"
            if array.ndim
            else f"{name} must have at least one axis; got a single number"
        )
    if 0 in array.shape:
        raise ValueError(f"{name} must not be empty; got shape {tuple(array.shape)}")
    return axis % array.ndim


def valid_length(length, name):
    """``length`` as an integer of at least 1."""
    if isinstance(length, bool) or not hasattr(length, "__index__"):
        raise TypeError(f"{name} must be a whole number; got {length!r}")
    length = operator.index(length)
    if length < 1:
        raise ValueError(f"{name} must be at least 1; got {length}")
    return length

"""What every function of ``core`` asks of its arguments: one library, real numbers, a valid axis."""

import operator
from functools import cache

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj


def namespace(**arrays):
    """The array-API namespace that all ``arrays`` belong to.

    Raises
    ------
    TypeError, ValueError
        If one is not an array, or if they come from two libraries or lie on two devices.
    """
    first = next(iter(arrays.values()))
    if len({type(array) for array in arrays.values()}) > 1 or type(first) is not np.ndarray:
        _check_arrays(arrays)
    # NumPy 2 follows the standard itself; the compatibility wrapper takes a quarter second to load.
    return np if isinstance(first, np.ndarray | np.generic) else _namespace_of(type(first), first)


def _check_arrays(arrays):
    for name, array in arrays.items():
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError(
                f"{name} must be a plain array; got a masked array. Pass {name}.data, and a mask."
            )
        if not _is_array(type(array), array):
            raise TypeError(
                f"{name} must be a NumPy array or a torch tensor; got {type(array).__name__}. "
                f"np.asarray({name}) makes an array of a list of numbers."
            )
    libraries = {name: _library(array) for name, array in arrays.items()}
    if len(set(libraries.values())) > 1:
        found = ", ".join(f"{name} from {library}" for name, library in libraries.items())
        raise TypeError(f"all arguments must come from one library; got {found}")
    first, *others = arrays
    for name in others:
        if arrays[name].device != arrays[first].device:
            raise ValueError(
                f"all arguments must be on one device; {name} is on {arrays[name].device}, "
                f"{first} on {arrays[first].device}"
            )


def _library(array):
    if isinstance(array, np.ndarray | np.generic):
        return "numpy"
    return _namespace_of(type(array), array).__name__.removeprefix("array_api_compat.")


_KNOWN = {}  # asking array_api_compat takes longer than a small attention; a type's answer stays


def _is_array(kind, array):
    return kind in _KNOWN or is_array_api_obj(array)


def _namespace_of(kind, array):
    if kind not in _KNOWN:
        _KNOWN[kind] = array_namespace(array)
    return _KNOWN[kind]


@cache
def kind_of(xp, dtype):
    """``"bool"``, ``"integral"``, ``"real floating"``, or None for all else."""
    for kind in ("real floating", "integral", "bool"):
        if xp.isdtype(dtype, kind):
            return kind
    return None


def float_dtype(xp, **arrays):
    """The floating type that a result made of ``arrays`` should have.

    Floating types are promoted to a common one. Integers follow the floating arguments, or the
    library's default where there are none.

    Raises
    ------
    TypeError
        If an array holds booleans, complex numbers or objects.
    """
    floats = []
    for name, array in arrays.items():
        kind = kind_of(xp, array.dtype)
        if kind not in ("real floating", "integral"):
            raise TypeError(f"{name} must hold real numbers; got dtype {array.dtype}")
        if kind == "real floating":
            floats.append(array.dtype)
    if not floats:
        return xp.empty(0).dtype
    return floats[0] if len(set(floats)) == 1 else xp.result_type(*floats)


def working_dtype(xp, dtype):
    """The type to compute in: float32 for half precision, otherwise ``dtype`` itself."""
    return xp.float32 if xp.finfo(dtype).bits < 32 else dtype


def valid_axis(axis, array, name):
    """``axis`` as a number from 0 up, for a non-empty axis of ``array``."""
    axis = whole_number(axis, f"axis must be one integer; got {axis!r}")
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


def whole_number(value, complaint):
    """``value`` as an int; a TypeError with the complaint for all else, booleans included."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise TypeError(complaint) from None


def valid_length(length, name):
    """``length`` as an integer of at least 1."""
    length = whole_number(length, f"{name} must be a whole number; got {length!r}")
    if length < 1:
        raise ValueError(f"{name} must be at least 1; got {length}")
    return length

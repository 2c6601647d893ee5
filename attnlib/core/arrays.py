"""What every function of ``core`` asks of its arguments: one library, real numbers, a valid axis."""

import operator
from functools import cache
from numbers import Real

import numpy as np
from array_api_compat import array_namespace, is_array_api_obj


def namespace(**arrays):
    """The array-API namespace that all ``arrays`` belong to.

    Raises
    ------
    TypeError, ValueError
        If one is not an array, or if they come from two libraries or lie on two devices.
    """
    first, *others = arrays.values()
    kind = type(first)
    if kind not in _KNOWN or any(type(a) is not kind or a.device != first.device for a in others):
        _check_arrays(arrays)
    return _namespace_of(first)


def _check_arrays(arrays):
    for name, array in arrays.items():
        if isinstance(array, np.ma.MaskedArray):
            raise TypeError(
                f"{name} must be a plain array; got a masked array. Pass {name}.data, and a mask."
            )
        if type(array) not in _KNOWN and not is_array_api_obj(array):
            raise TypeError(
                f"{name} must be a NumPy array or a torch tensor; got {type(array).__name__}. "
                f"np.asarray({name}) makes an array of a list of numbers."
            )
    libraries = {
        name: _namespace_of(array).__name__.removeprefix("array_api_compat.")
        for name, array in arrays.items()
    }
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


_KNOWN = {}  # asking array_api_compat takes longer than a small attention; a type's answer stays


def _namespace_of(array):
    kind = type(array)
    if kind not in _KNOWN:
        # NumPy 2 follows the standard itself; the compatibility wrapper takes a quarter second to load.
        _KNOWN[kind] = np if isinstance(array, np.ndarray | np.generic) else array_namespace(array)
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


def working_array(array, axis, name):
    """What a function of one array starts from.

    Returns
    -------
    xp, array, axis, dtype
        The namespace, the array in the type to compute in, the axis counted from 0, and the type that
        the result should have.
    """
    xp = namespace(**{name: array})
    axis = valid_axis(axis, array, name)
    dtype = float_dtype(xp, **{name: array})
    return xp, xp.astype(array, working_dtype(xp, dtype), copy=False), axis, dtype


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


def check_number(value, name):
    """A TypeError, in a sentence, for all that is no real number, booleans included."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number; got {value!r}")

"""What a function of several arrays asks of their shapes: axes of one name are equally long."""

from attnlib.core.arrays import float_dtype, namespace, working_dtype


def working_arrays(arrays, axes):
    """What a function of several arrays starts from.

    Parameters
    ----------
    arrays : dict
        The arrays by the names of their arguments.
    axes : dict
        For each name, what its axes are called. ``"dq + dk"`` is as long as those two together, and
        ``...`` stands for leading axes, the same wherever it stands. An array that is not named here
        may have any shape.

    Returns
    -------
    xp, dtype, arrays
        The namespace, the type that the result should have, and a list of the arrays in the type to
        compute in.

    Raises
    ------
    TypeError, ValueError
        If one is no array of real numbers, is empty, or its shape does not fit those before it.
    """
    xp = check_shapes(arrays, axes)
    dtype = float_dtype(xp, **arrays)
    work = working_dtype(xp, dtype)
    return xp, dtype, [xp.astype(array, work, copy=False) for array in arrays.values()]


def check_shapes(arrays, axes):
    """The namespace of arrays, of any type, whose shapes fit; as for `working_arrays`."""
    xp = namespace(**arrays)
    sizes = {}
    for name, array in arrays.items():
        if name in axes:
            _check_shape(name, tuple(array.shape), axes[name], sizes)
    return xp


def _check_shape(name, shape, axes, sizes):
    """Compare a shape with the ``sizes`` known by name so far, and add those that were not."""
    own = [axis for axis in axes if axis is not ...]
    lead, rest = shape[: len(shape) - len(own)], shape[-len(own) :]
    if len(rest) < len(own) or (lead and ... not in axes):
        hint = f" {name}[None, :] makes one row of a single vector." if ... in axes and shape else ""
        raise ValueError(f"{name} must have shape {_written(axes)}; got {shape}.{hint}")
    if 0 in shape:
        raise ValueError(f"{name} must not be empty; got shape {shape}")
    if ... in axes:
        first, common = sizes.setdefault(..., (name, lead))
        if lead != common:
            raise ValueError(f"{name} must have the leading axes of {first}, {common}; got shape {shape}")
    known = {axis: sum(sizes[part] for part in axis.split(" + ")) for axis in own
             if all(part in sizes for part in axis.split(" + "))}  # fmt: skip
    for axis, size in zip(own, rest, strict=True):
        if known.get(axis, size) != size:
            told = ", ".join(f"{other} = {known[other]}" for other in known)
            raise ValueError(f"{name} must have shape {_written(axes)} with {told}; got {shape}")
        sizes[axis] = size


def _written(axes):
    inside = ", ".join("..." if axis is ... else axis for axis in axes)
    return f"({inside},)" if len(axes) == 1 else f"({inside})"

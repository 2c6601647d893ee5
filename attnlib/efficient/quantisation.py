"""Numbers as small whole numbers: a code of a few bits for each, a scale for each group."""

from typing import Any, NamedTuple

from array_api_compat import device

from attnlib.core.arrays import namespace, valid_length, whole_number, working_array, working_dtype


class Quantised(NamedTuple):
    """Codes of numbers, and what turns them back: ``code * scale + zero``.

    Attributes
    ----------
    codes : uint8 array
        The shape of the numbers, but for the last axis: ``8 / bits`` codes share a byte.
    scale, zero : array
        One for each group: the axis along which the groups lie has become ``(groups, 1)``. ``zero`` is None
        for symmetric codes, where it is ``-scale * (2**(bits - 1) - 1)``.
    bits : int
    axis : int
        The axis along which the groups lie, counted from the end.
    """

    codes: Any
    scale: Any
    zero: Any
    bits: int
    axis: int

    @property
    def nbytes(self):
        """Bytes that the arrays take."""
        return sum(array.nbytes for array in (self.codes, self.scale, self.zero) if array is not None)

    def dequantised(self):
        """The numbers that the codes stand for, in the type of the scale."""
        xp = namespace(scale=self.scale)
        dtype = self.scale.dtype
        work = working_dtype(xp, dtype)
        codes = xp.astype(_unpacked(xp, self.codes, self.bits), work)
        scale = xp.astype(self.scale, work, copy=False)
        zero = -scale * _largest(self.bits) if self.zero is None else xp.astype(self.zero, work, copy=False)
        numbers = _grouped(xp, codes, self.axis, self.scale.shape[self.axis - 1]) * scale + zero
        return xp.astype(xp.reshape(numbers, codes.shape), dtype, copy=False)


def quantise(x, bits, *, axis=-1, group_size=None, symmetric=False):
    """Numbers as codes of ``bits`` bits: ``code = round((x - zero) / scale)``, for each group.

    The smallest number of a group is its ``zero``, and ``scale = (largest - zero) / (2**bits - 1)``; a group
    of equal numbers comes back as it was. Symmetric codes do without a zero, have
    ``scale = max(abs(x)) / (2**(bits - 1) - 1)``, and keep 0 as it is. Each number comes back within half a
    scale, and what half precision rounds.

    Parameters
    ----------
    x : array (..., d)
        ``d`` is a multiple of ``8 / bits``, for so many codes share a byte.
    bits : {2, 4, 8}
    axis : int
        Numbers along this axis share a scale. For keys ``(..., L, d)`` -2 is *per channel*, a scale for each
        feature; -1 is *per token*.
    group_size : int >= 1, optional
        So many in a row share it; it divides the axis, which it is when left out.
    symmetric : bool

    Returns
    -------
    Quantised
        ``dequantised()`` gives the numbers back, in the type of ``x``, and ``nbytes`` is its size.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is no array of real numbers, or a setting is out of its range or divides nothing.

    References
    ----------
    Liu et al. 2024 (KIVI), arXiv 2402.02750, for codes with a zero; ``quant/new_pack.py`` of jy-yuan/KIVI.

    Examples
    --------
    >>> import numpy as np
    >>> quantise(np.array([[-1.0, 0.4, 1.9, 2.0]]), bits=2).dequantised()
    array([[-1.,  0.,  2.,  2.]])
    """
    xp, x, axis, dtype = working_array(x, axis, "x")
    per_byte = _codes_per_byte(bits)
    if x.shape[-1] % per_byte:
        raise ValueError(
            f"the last axis of x must be a multiple of {per_byte}, for {per_byte} codes of {bits} bits share "
            f"a byte; got shape {tuple(x.shape)}"
        )
    group_size = x.shape[axis] if group_size is None else valid_length(group_size, "group_size")
    if x.shape[axis] % group_size:
        raise ValueError(f"group_size must divide the axis, {x.shape[axis]}; got {group_size}")

    grouped = _grouped(xp, x, axis, x.shape[axis] // group_size)
    if symmetric:
        scale, zero = xp.max(xp.abs(grouped), axis=axis + 1, keepdims=True) / _largest(bits), None
    else:
        zero = xp.min(grouped, axis=axis + 1, keepdims=True)
        scale = (xp.max(grouped, axis=axis + 1, keepdims=True) - zero) / (2**bits - 1)
        zero = xp.astype(zero, dtype, copy=False)
    scale = xp.astype(scale, dtype, copy=False)

    step = xp.astype(scale, x.dtype, copy=False)  # as it is kept, so that codes fit what they are read with
    step = xp.where(step == 0, 1, step)
    shifted = grouped / step + _largest(bits) if zero is None else (grouped - xp.astype(zero, x.dtype)) / step
    shifted = xp.where(xp.isfinite(shifted), shifted, 0)  # a code cannot be NaN, but the scale is
    codes = xp.clip(xp.round(shifted), 0, 2 * _largest(bits) if zero is None else 2**bits - 1)
    codes = _packed(xp, xp.reshape(xp.astype(codes, xp.uint8), x.shape), bits)
    return Quantised(codes, scale, zero, bits, axis - x.ndim)


def _largest(bits):
    """The largest symmetric code, as far above the middle one as the smallest is below."""
    return 2 ** (bits - 1) - 1


def _codes_per_byte(bits):
    bits = whole_number(bits, f"bits must be 2, 4 or 8; got {bits!r}")
    if bits not in (2, 4, 8):
        raise ValueError(f"bits must be 2, 4 or 8; got {bits}")
    return 8 // bits


def _grouped(xp, x, axis, n_groups):
    axis %= x.ndim
    return xp.reshape(x, (*x.shape[:axis], n_groups, x.shape[axis] // n_groups, *x.shape[axis + 1 :]))


def _places(xp, like, bits):
    """What a code counts for in its byte."""
    return xp.asarray([1 << place for place in range(0, 8, bits)], dtype=xp.uint8, device=device(like))


def _packed(xp, codes, bits):
    shape = (*codes.shape[:-1], codes.shape[-1] * bits // 8, 8 // bits)
    return xp.sum(xp.reshape(codes, shape) * _places(xp, codes, bits), axis=-1, dtype=xp.uint8)


def _unpacked(xp, codes, bits):
    apart = codes[..., None] // _places(xp, codes, bits) & (2**bits - 1)
    return xp.reshape(apart, (*codes.shape[:-1], codes.shape[-1] * 8 // bits))

"""Attention within a window, block by block: the cost grows with the width, not with the length."""

import numpy as np
from array_api_compat import device

from attnlib.core.arrays import kind_of, namespace, whole_number
from attnlib.core.scaled_dot_product import attention
from attnlib.core.shapes import working_arrays
from attnlib.efficient.patterns import between

SMALLEST_BLOCK = 32  # below that, many small matrix products take longer than fewer larger ones


def windowed_attention(q, k, v, left, right=0, *, first=0, mask=None, scale=None):
    """Each query attends to keys from ``left`` positions before it to ``right`` after it.

    What `attention` gives with the mask of ``between(left, right)``, though neither the mask nor the
    scores of all pairs are ever made. Queries stand in blocks at least as long as the window reaches;
    a block meets its own keys and those of its neighbours. So cost and memory are
    ``O(L * (left + right))``.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    v : array (..., Lk, dv)
        Where the lengths differ, the last query stands at the last key.
    left, right : int >= 0
        The query's own key is among them besides: ``W`` keys up to the own one are ``left=W - 1``.
        `window` says how libraries count.
    first : int >= 0
        That many keys at the beginning are seen from everywhere too (sinks), up to ``right`` after the
        query: ``between(left, right) | first(n) & between(-1, right)``.
    mask : bool array, optional
        Keys that may be seen at all, for padding: broadcasts to ``(..., 1, Lk)``, as `padding_mask` does.
    scale : float, optional
        ``1/sqrt(d)`` when left out.

    Returns
    -------
    array (..., Lq, dv)
        Zeros for a query that may attend to nothing.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if ``left``,
        ``right`` or ``first`` is no integer of at least 0.

    References
    ----------
    Beltagy, Peters and Cohan 2020, arXiv 2004.05150, section 3.1, for windows;
    Xiao et al. 2023, arXiv 2309.17453, for the first keys.

    Examples
    --------
    >>> import numpy as np
    >>> q, k, v = np.zeros((3, 2)), np.zeros((3, 2)), np.array([[1.0], [3.0], [8.0]])
    >>> windowed_attention(q, k, v, left=1)[:, 0]
    array([1. , 2. , 5.5])
    """
    xp, dtype, (q, k, v) = working_arrays(
        {"q": q, "k": k, "v": v}, {"q": (..., "Lq", "d"), "k": (..., "Lk", "d"), "v": (..., "Lk", "dv")}
    )
    left, right, first = _reach(left, "left"), _reach(right, "right"), _reach(first, "first")
    n_key = k.shape[-2]
    seen = xp.ones((1, n_key), dtype=xp.bool, device=device(k)) if mask is None else mask
    check_key_mask(mask, k)
    extra = None
    if first:
        j = xp.arange(n_key, device=device(k))
        i = xp.arange(q.shape[-2], device=device(k)) + (n_key - q.shape[-2])
        in_reach = seen[..., :first] & (j[:first] <= i[:, None] + right)
        extra = k[..., :first, :], v[..., :first, :], in_reach
        seen = seen & (j >= first)
    return xp.astype(banded_attention(xp, q, k, v, left, right, seen, extra, scale), dtype, copy=False)


def banded_attention(xp, q, k, v, left, right, seen, extra=None, scale=None):
    """Attention within a band, beside a few keys that do not belong to it.

    ``seen`` says, ``(..., 1, Lk)``, which keys the band has. ``extra`` are further keys, their values
    ``(..., G, d)``, and a mask of them that broadcasts to ``(..., Lq, G)``.
    """
    n_query, n_key = q.shape[-2], k.shape[-2]
    left, right = min(left, n_key - 1), min(right, n_query - 1)  # no pair is farther apart
    size = max(left, right, SMALLEST_BLOCK)
    n_blocks = -(-n_query // size)
    before, after = int(left > 0), int(right > 0)  # neighbours of a block that it meets
    start = n_key - n_query - before * size  # the position of the first key that is met, or of none
    end = n_key - n_query + (n_blocks + after) * size

    def met(x):
        """For each block the rows of ``x`` that it meets: ``(..., blocks, width, features)``."""
        rows = _from_to(xp, x, start, end)
        rows = xp.reshape(rows, (*x.shape[:-2], -1, size, x.shape[-1]))
        shifted = [rows[..., o : o + n_blocks, :, :] for o in range(before + 1 + after)]
        return xp.concat(shifted, axis=-2) if len(shifted) > 1 else shifted[0]

    def blocked(x):
        rows = _from_to(xp, x, 0, n_blocks * size)
        return xp.reshape(rows, (*x.shape[:-2], n_blocks, size, x.shape[-1]))

    at = xp.arange(n_blocks, device=device(q))[:, None, None] * size
    i = at + xp.arange(size, device=device(q))[:, None] + (n_key - n_query)
    j = at + xp.arange((before + 1 + after) * size, device=device(q)) + start
    mask = between(left, right)(i, j) & xp.matrix_transpose(met(xp.matrix_transpose(seen)))
    keys, values = met(k), met(v)
    if extra is not None:
        more_keys, more_values, more = extra
        more = blocked(xp.broadcast_to(more, (*more.shape[:-2], n_query, more.shape[-1])))
        keys, values = _beside(xp, keys, more_keys), _beside(xp, values, more_values)
        lead = np.broadcast_shapes(mask.shape[:-3], more.shape[:-3])
        mask = xp.concat([xp.broadcast_to(m, (*lead, *m.shape[-3:])) for m in (mask, more)], axis=-1)
    out = attention(blocked(q), keys, values, mask, scale=scale)
    return xp.reshape(out, (*q.shape[:-2], n_blocks * size, v.shape[-1]))[..., :n_query, :]


def check_key_mask(mask, k):
    """Raise where there is a mask, and it is no boolean array that broadcasts to ``(..., 1, Lk)``."""
    if mask is None:
        return
    xp, shape = namespace(k=k, mask=mask), (*k.shape[:-2], 1, k.shape[-2])
    if kind_of(xp, mask.dtype) != "bool":
        raise TypeError(f"mask must be boolean (True = may be seen); got dtype {mask.dtype}")
    got = (1,) * (len(shape) - mask.ndim) + tuple(mask.shape)
    if (
        len(got) > len(shape)
        or mask.ndim < 2
        or got[-1] != shape[-1]
        or any(m not in (1, n) for m, n in zip(got, shape, strict=True))
    ):
        raise ValueError(
            f"mask must say of each key whether it may be seen, and broadcast to {shape}; got shape "
            f"{tuple(mask.shape)}. A padding mask (B, Lk) becomes mask[:, None, :] for (B, 1, Lk) and "
            "mask[:, None, None, :] for (B, H, 1, Lk)."
        )


def _from_to(xp, x, start, end):
    """``x[..., start:end, :]`` for an end that is no row of ``x``, with zeros where there are no rows."""
    before, after = max(0, -start), end - x.shape[-2]
    if not before and not after:
        return x[..., start:, :]

    def zeros(rows):
        return xp.zeros((*x.shape[:-2], rows, x.shape[-1]), dtype=x.dtype, device=device(x))

    return xp.concat([zeros(before), x[..., max(0, start) :, :], zeros(after)], axis=-2)


def _beside(xp, rows, more):
    """The rows that each block meets, and after them the same few for every block."""
    more = xp.broadcast_to(more[..., None, :, :], (*rows.shape[:-2], *more.shape[-2:]))
    return xp.concat([rows, more], axis=-2)


def _reach(value, name):
    value = whole_number(value, f"{name} must be a whole number; got {value!r}")
    if value < 0:
        raise ValueError(f"{name} must be at least 0; got {value}")
    return value

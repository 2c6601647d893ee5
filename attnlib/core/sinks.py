"""Softmaxes whose row may sum to less than one: a sink takes the rest, so a query may look at nothing."""

import math
from numbers import Real

from array_api_compat import is_array_api_obj

from attnlib.core.arrays import check_number, valid_axis, working_array
from attnlib.core.shapes import working_arrays
from attnlib.core.softmaxes import finite_shift


def softmax_off_by_one(x, axis=-1, n=1):
    """``exp(x) / (n + sum(exp(x)))``: the softmax beside ``n`` more scores of 0, which are then dropped.

    Parameters
    ----------
    x : array (..., m, ...)
        Real scores, none ``+inf``. ``-inf`` gives weight exactly 0.
    axis : int
    n : number >= 0
        Need not be whole. 0 gives the softmax.

    Returns
    -------
    array, shape of ``x``
        Non-negative, sums to less than 1 along ``axis``, and to nearly 0 where every score is far below
        0. So it matters how high the scores are, and not their differences alone. A slice that is
        ``-inf`` throughout gives zeros.

    Raises
    ------
    TypeError, ValueError
        As for `softmax`; if ``n`` is no number of at least 0.

    References
    ----------
    Miller 2023, "Attention is off by one" (a blog). The public ``softmax_n`` shifts by the maximum of
    ``x`` alone, so that ``n * exp(-max)`` overflows for rows far below 0; their zeros come out right.
    Attention with it is that of ``torch.nn.MultiheadAttention`` with ``add_zero_attn=True``.

    Examples
    --------
    >>> import numpy as np
    >>> softmax_off_by_one(np.array([0.0, 0.0])).round(3)
    array([0.333, 0.333])
    >>> softmax_off_by_one(np.array([-1000.0, -1000.0]))
    array([0., 0.])
    """
    check_number(n, "n")
    if not 0 <= n < math.inf:
        raise ValueError(f"n must be at least 0 and finite; got {n!r}")
    return softmax_with_sink(x, math.log(n) if n else -math.inf, axis)


def softmax_with_sink(x, sink, axis=-1):
    """``exp(x) / (exp(sink) + sum(exp(x)))``: the softmax beside one more score, which is then dropped.

    Parameters
    ----------
    x : array (..., m, ...)
        Real scores, none ``+inf``.
    sink : number or array
        The further score; learned, in models that have it. 0 is `softmax_off_by_one`, ``log n`` the same
        with ``n``, ``-inf`` the softmax. An array broadcasts to ``x`` and has length 1 along ``axis``:
        for one sink a head and ``x`` of shape ``(B, H, Lq, Lk)`` it is ``sink[:, None, None]``.
    axis : int

    Returns
    -------
    array, shape of ``x``
        As for `softmax_off_by_one`.

    Raises
    ------
    TypeError, ValueError
        As for `softmax`; if ``sink`` is no number below infinity and no such array of them.

    References
    ----------
    Xiao et al. 2023, arXiv 2309.17453 (why models make a sink of their first token). The learned score
    is that of gpt-oss, in Hugging Face transformers ``models/gpt_oss``.

    Examples
    --------
    >>> import numpy as np
    >>> softmax_with_sink(np.zeros(2), sink=np.log(2.0))
    array([0.25, 0.25])
    """
    if is_array_api_obj(sink):
        xp, dtype, (x, sink) = working_arrays({"x": x, "sink": sink}, {})
        axis = valid_axis(axis, x, "x")
        _check_sink(tuple(sink.shape), tuple(x.shape), axis)
        wrong = ~(sink < math.inf)
        if xp.any(wrong):
            raise ValueError(f"sink must be below infinity; got an entry of {float(sink[wrong][0])}")
    else:
        xp, x, axis, dtype = working_array(x, axis, "x")
        sink = xp.asarray(_valid_number(sink), dtype=x.dtype, device=x.device)
    top = finite_shift(xp, xp.maximum(xp.max(x, axis=axis, keepdims=True), sink))
    e = xp.exp(x - top)
    total = xp.exp(sink - top) + xp.sum(e, axis=axis, keepdims=True)
    return xp.astype(e / xp.where(total == 0, 1, total), dtype, copy=False)


def _check_sink(shape, x_shape, axis):
    padded = (1,) * (len(x_shape) - len(shape)) + shape
    if len(padded) > len(x_shape) or any(
        m not in ((1,) if i == axis else (1, size))
        for i, (m, size) in enumerate(zip(padded, x_shape, strict=True))
    ):
        raise ValueError(
            f"sink must broadcast to x, {x_shape}, with length 1 along axis {axis}; got shape {shape}. "
            "One sink a head, for scores (B, H, Lq, Lk), is sink[:, None, None]."
        )


def _valid_number(sink):
    if isinstance(sink, bool) or not isinstance(sink, Real):
        raise TypeError(f"sink must be a number or an array; got {sink!r}")
    if not sink < math.inf:
        raise ValueError(f"sink must be below infinity; got {sink!r}")
    return float(sink)

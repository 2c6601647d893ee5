"""Differential attention: a second softmax is subtracted, and with it what both look at by mistake."""

import math
from numbers import Real

from attnlib.core.arrays import check_number, namespace
from attnlib.core.scaled_dot_product import attention
from attnlib.core.shapes import working_arrays

_AXES = {
    "q1": (..., "Lq", "d"), "k1": (..., "Lk", "d"),
    "q2": (..., "Lq", "d"), "k2": (..., "Lk", "d"), "v": (..., "Lk", "dv"),
}  # fmt: skip


def differential_attention(q1, k1, q2, k2, v, lam, mask=None, *, causal=False, scale=None,
                           return_weights=False):  # fmt: skip
    """The difference of two attentions over the same values.

    ``(softmax(q1 @ k1.mT * scale) - lam * softmax(q2 @ k2.mT * scale)) @ v``. Weight that both softmaxes
    give to keys of no use cancels; where only the first looks, it stays.

    Parameters
    ----------
    q1, q2 : array (..., Lq, d)
    k1, k2 : array (..., Lk, d)
    v : array (..., Lk, dv)
    lam : number or array
        How much is subtracted, the paper's lambda. An array broadcasts to ``(..., Lq, 1)``; a learned one
        receives its gradient.
    mask, causal, scale
        As in `attention`, for both.
    return_weights : bool
        Return the difference of the weights too.

    Returns
    -------
    out : array (..., Lq, dv)
        Zeros for a query that may attend to nothing.
    weights : array (..., Lq, Lk), if asked for
        Rows sum to ``1 - lam``; entries may be negative.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit, or ``lam`` is
        neither a number nor such an array.

    References
    ----------
    Ye et al. 2024, arXiv 2410.05258, section 2.1. What follows it in each head, a norm and
    the factor ``1 - lambda_init``, is in `DifferentialAttention`.

    Examples
    --------
    >>> import numpy as np
    >>> q, k, v = np.array([[9.0, 9.0]]), np.eye(2), np.array([[2.0], [4.0]])
    >>> differential_attention(q, k, q * [1, 0], k, v, 0.5, scale=1.0).round(3)
    array([[2.]])
    """
    arrays = {"q1": q1, "k1": k1, "q2": q2, "k2": k2, "v": v}
    xp, dtype, (q1, k1, q2, k2, v) = working_arrays(arrays, _AXES)
    lam = _subtracted(xp, lam, q1)
    settings = {"causal": causal, "scale": scale, "return_weights": return_weights}
    first, second = attention(q1, k1, v, mask, **settings), attention(q2, k2, v, mask, **settings)
    if not return_weights:
        return xp.astype(first - lam * second, dtype, copy=False)
    return tuple(xp.astype(a - lam * b, dtype, copy=False) for a, b in zip(first, second, strict=True))


def differential_lambda_init(depth):
    """What `DifferentialAttention` subtracts before training: ``0.8 - 0.6 * exp(-0.3 * depth)``.

    Parameters
    ----------
    depth : number >= 0
        How many layers lie before this one: 0 in the first.

    Returns
    -------
    float
        From 0.2 in the first layer towards 0.8.

    Raises
    ------
    TypeError, ValueError
        If ``depth`` is no number of at least 0.

    References
    ----------
    Ye et al. 2024, arXiv 2410.05258, section 2.1, where layers are counted from 1 and the
    exponent has ``l - 1``. ``lambda_init_fn`` in ``Diff-Transformer`` of microsoft/unilm is this.

    Examples
    --------
    >>> [round(differential_lambda_init(depth), 3) for depth in (0, 1, 11)]
    [0.2, 0.356, 0.778]
    """
    check_number(depth, "depth")
    if not 0 <= depth < math.inf:
        raise ValueError(f"depth must be at least 0 and finite; got {depth!r}")
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


def _subtracted(xp, lam, q):
    """``lam`` as what an output and its weights can be multiplied by."""
    if isinstance(lam, Real) and not isinstance(lam, bool):
        return float(lam)
    if isinstance(lam, bool):
        check_number(lam, "lam")
    namespace(q1=q, lam=lam)
    wanted = (*q.shape[:-1], 1)
    padded = (1,) * (len(wanted) - lam.ndim) + tuple(lam.shape)
    if len(padded) > len(wanted) or any(n not in (1, m) for n, m in zip(padded, wanted, strict=True)):
        raise ValueError(f"lam must broadcast to {wanted}, one number a query; got shape {tuple(lam.shape)}")
    return xp.astype(lam, q.dtype, copy=False)

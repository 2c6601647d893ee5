"""Softmaxes that give weight exactly zero to what scores far below the best.

All are one formula, ``p = (1 + (alpha - 1) * (x - s))_+ ** (1 / (alpha - 1))``, with the ``s`` for which
``p`` sums to 1. Its limit at ``alpha = 1`` is ``exp(x - s)``, the softmax.
"""

import math

from attnlib.core.arrays import check_number, working_array
from attnlib.core.softmaxes import finite_shift, shifted_exp


def sparsemax(x, axis=-1):
    """The point of the probability simplex nearest to ``x``: ``max(x - tau, 0)``.

    ``tau = (sum of the k largest - 1) / k``, where ``k`` counts the scores that get weight.

    Parameters
    ----------
    x : array (..., n, ...)
        Real scores, none ``+inf``. ``-inf`` gives weight exactly 0.
    axis : int

    Returns
    -------
    array, shape of ``x``
        Non-negative, sums to 1 along ``axis``. A slice that is ``-inf`` throughout gives zeros (where
        `softmax` is NaN), as `attention` does. A difference of 1 from the best is enough for a zero.

    Raises
    ------
    TypeError, ValueError
        As for `softmax`.

    References
    ----------
    Martins and Astudillo 2016, arXiv 1602.02068, section 2 and algorithm 1. The derivative along ``d`` is
    ``d`` minus its mean over the entries with weight; zero for the others.

    Examples
    --------
    >>> import numpy as np
    >>> sparsemax(np.array([1.0, 0.5, -1.0]))
    array([0.75, 0.25, 0.  ])
    """
    xp, x, axis, dtype = working_array(x, axis, "x")
    z = _from_the_top(xp, x, axis)
    largest, k, gap = _descending(xp, z)
    lead = xp.cumulative_sum((k - 1) * gap, axis=-1)  # of all better ones over the k-th
    size = _count(xp, lead < 1, z.dtype)
    tau = (xp.sum(xp.where(k <= size, largest, 0), axis=-1, keepdims=True) - 1) / size
    p = xp.where(z <= tau, 0, z - tau)
    return xp.astype(xp.moveaxis(p, -1, axis), dtype, copy=False)


def entmax15(x, axis=-1):
    """Halfway between softmax and sparsemax: ``max(x / 2 - tau, 0) ** 2``.

    ``tau = M - sqrt((1 - S) / k)`` with the mean ``M`` of the ``k`` largest halves and the sum ``S`` of their
    squared distances from it, where ``k`` counts the scores that get weight.

    Parameters
    ----------
    x : array (..., n, ...)
        As in `sparsemax`.
    axis : int

    Returns
    -------
    array, shape of ``x``
        As in `sparsemax`. A difference of 2 from the best is enough for a zero.

    Raises
    ------
    TypeError, ValueError
        As for `softmax`.

    References
    ----------
    Peters, Niculae and Martins 2019, arXiv 1905.05702, section 3 and algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> entmax15(np.array([1.0, 1.0, -1.0]))
    array([0.5, 0.5, 0. ])
    """
    xp, x, axis, dtype = working_array(x, axis, "x")
    z = _from_the_top(xp, x, axis) / 2
    largest, k, gap = _descending(xp, z)
    lead = xp.cumulative_sum((k - 1) * gap, axis=-1)  # of all better ones over the k-th
    squared_leads = xp.cumulative_sum(gap * (2 * lead - (k - 1) * gap), axis=-1)
    size = _count(xp, squared_leads < 1, z.dtype)
    chosen = k <= size
    mean = xp.sum(xp.where(chosen, largest, 0), axis=-1, keepdims=True) / size
    spread = xp.sum(xp.where(chosen, (largest - mean) ** 2, 0), axis=-1, keepdims=True)
    tau = mean - xp.sqrt((1 - spread) / size)
    p = xp.where(z <= tau, 0, z - tau) ** 2
    return xp.astype(xp.moveaxis(p, -1, axis), dtype, copy=False)


def entmax(x, axis=-1, *, alpha):
    """The whole family between softmax (``alpha=1``) and sparsemax (``alpha=2``).

    ``p = (1 + (alpha - 1) * (x - s))_+ ** (1 / (alpha - 1))``, which is the paper's
    ``[(alpha - 1) * x - tau]_+ ** (1 / (alpha - 1))`` in a form that stays exact towards ``alpha = 1``;
    there ``s`` becomes ``logsumexp(x)``. Halving an interval finds ``s``.

    Parameters
    ----------
    x : array (..., n, ...)
        As in `sparsemax`.
    axis : int
    alpha : float, 1 <= alpha <= 2

    Returns
    -------
    array, shape of ``x``
        As in `sparsemax`, and zeros for a slice of ``-inf`` with ``alpha=1`` too. A difference of
        ``1 / (alpha - 1)`` from the best is enough for a zero. First and second derivatives are exact.

    Raises
    ------
    TypeError, ValueError
        As for `softmax`; if ``alpha`` is no number between 1 and 2.

    References
    ----------
    Peters, Niculae and Martins 2019, arXiv 1905.05702, section 3 and algorithm 1. With ``w = p**(2 - alpha)``
    on the entries with weight, the Jacobian is ``diag(w) - w w^T / sum(w)``; zero for the others.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([1.0, 0.5, -1.0])
    >>> for alpha in (1, 1.5, 2):
    ...     print(entmax(x, alpha=alpha).round(3))
    [0.574 0.348 0.078]
    [0.674 0.326 0.   ]
    [0.75 0.25 0.  ]
    """
    check_number(alpha, "alpha")
    if not 1 <= alpha <= 2:
        raise ValueError(f"alpha must lie between 1 (softmax) and 2 (sparsemax); got {alpha!r}")
    xp, x, axis, dtype = working_array(x, axis, "x")
    if alpha == 1:
        e, total, _ = shifted_exp(xp, x, axis)
        return xp.astype(e / xp.where(total == 0, 1, total), dtype, copy=False)
    z = _from_the_top(xp, x, axis)
    s = _root_by_halving(xp, _constant(z), float(alpha) - 1)
    p = _settled(xp, z, s, float(alpha) - 1)
    return xp.astype(xp.moveaxis(p, -1, axis), dtype, copy=False)


def _from_the_top(xp, x, axis):
    """``x`` with ``axis`` last and each row's maximum at 0, or wholly ``-inf``."""
    rows = xp.moveaxis(x, axis, -1)
    return rows - finite_shift(xp, xp.max(rows, axis=-1, keepdims=True))


def _descending(xp, z):
    """Each row's scores, largest first; their numbers from 1 up; how far each lies below the one before.

    The ``k``-th has weight if a threshold as high as itself would leave the better ones less than 1
    together. In terms of the gaps that is a sum of positive numbers, which loses no digits. A score of
    -1 or less has no weight; cut off there, all are finite.
    """
    largest = -xp.sort(-xp.clip(z, -1, None), axis=-1)
    k = xp.arange(1, z.shape[-1] + 1, dtype=z.dtype, device=z.device)
    fixed = _constant(largest)
    return largest, k, xp.concat([fixed[..., :1] * 0, fixed[..., :-1] - fixed[..., 1:]], axis=-1)


def _count(xp, chosen, dtype):
    """How many of each row; at least 1, for rows of NaN."""
    return xp.clip(xp.sum(xp.astype(chosen, dtype), axis=-1, keepdims=True), 1, None)


def _power(xp, z, a, exponent=1.0):
    """``(1 + a z)_+ ** (exponent / a)``, accurate for small ``a``."""
    t = a * z
    outside = t <= -1
    return xp.where(outside, 0, xp.exp(xp.log1p(xp.where(outside, 0, t)) * (exponent / a)))


def _root_by_halving(xp, z, a):
    """The ``s`` for which the weights of ``z - s`` sum to 1.

    It lies between 0, where the best alone has 1, and the ``s`` that ``n`` equal scores would need.
    """
    n = z.shape[-1]
    low = xp.zeros_like(z[..., :1])
    width = -math.expm1(-a * math.log(n)) / a  # where a score of 0 weighs 1/n
    for _ in range(round(-math.log2(xp.finfo(z.dtype).eps)) + 4):
        width = width / 2
        too_much = xp.sum(_power(xp, z - (low + width), a), axis=-1, keepdims=True) >= 1
        low = xp.where(too_much, low + width, low)
    return low


def _settled(xp, z, s, a):
    """Weights whose derivatives are right, from an ``s`` that has none.

    Newton's method in ``s`` with the slope held fixed. Nothing is left to correct in ``s`` itself, but
    each step makes it right, as a function of ``z``, to one order more.
    """
    slope = xp.sum(_power(xp, _constant(z) - s, a, 1 - a), axis=-1, keepdims=True)
    slope = xp.where(slope > 0, slope, 1)
    for _ in range(2):
        s = s + (xp.sum(_power(xp, z - s, a), axis=-1, keepdims=True) - 1) / slope
    return _power(xp, z - s, a)


def _constant(x):
    """Out of the graph, where there is one."""
    return x.detach() if hasattr(x, "detach") else x

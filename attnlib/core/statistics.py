"""What scores and weights are like: variance of dot products, entropy, the softmax Jacobian."""

import math

from attnlib.core.arrays import float_dtype, namespace, working_array, working_dtype
from attnlib.core.softmaxes import softmax


def dot_product_variance(q, k):
    """Variance of ``q_i . k_i`` over independent pairs, before and after division by ``sqrt(d)``.

    For entries with mean 0 and variance 1, ``q`` independent of ``k``, the first is ``d`` and the
    second 1 in expectation.

    Parameters
    ----------
    q, k : array (n, d)
        Row ``i`` of ``q`` is paired with row ``i`` of ``k``.

    Returns
    -------
    raw, scaled : 0-d array
        Population variances (divided by ``n``, not ``n - 1``).

    Raises
    ------
    TypeError, ValueError
        If the two are not arrays of real numbers of one shape ``(n, d)``, or are empty.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, footnote 4.

    Examples
    --------
    >>> import numpy as np
    >>> q = np.array([[1.0, 1.0], [1.0, -1.0]])
    >>> raw, scaled = dot_product_variance(q, np.ones((2, 2)))
    >>> float(raw), round(float(scaled), 12)
    (1.0, 0.5)
    """
    xp = namespace(q=q, k=k)
    if q.ndim != 2 or 0 in q.shape:
        raise ValueError(f"q must have shape (n, d), not empty; got {tuple(q.shape)}")
    if k.shape != q.shape:
        raise ValueError(f"k must have the shape of q, {tuple(q.shape)}; got {tuple(k.shape)}")
    dtype = float_dtype(xp, q=q, k=k)
    q, k = (xp.astype(a, working_dtype(xp, dtype), copy=False) for a in (q, k))
    products = xp.sum(q * k, axis=-1)  # (n,)
    raw, scaled = xp.var(products), xp.var(products / math.sqrt(q.shape[-1]))
    return xp.astype(raw, dtype, copy=False), xp.astype(scaled, dtype, copy=False)


def entropy(p, axis=-1):
    """Shannon entropy of probabilities, in nats: ``-sum(p * log(p))`` with ``0 log 0 = 0``.

    Parameters
    ----------
    p : array (..., n, ...)
        Between 0 and 1; sums to 1 along ``axis`` (not checked).
    axis : int

    Returns
    -------
    array, shape of ``p`` without ``axis``
        Between 0 (one certain entry) and ``log(n)`` (uniform).

    Raises
    ------
    TypeError, ValueError
        If ``p`` is not an array of real numbers, is empty, has no such axis, or an entry is no
        probability.

    References
    ----------
    Shannon 1948, "A mathematical theory of communication", section 6.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(entropy(np.array([0.5, 0.5, 0.0]))), 6)      # log 2
    0.693147
    """
    xp, p, axis, dtype = working_array(p, axis, "p")
    wrong = (p < -1e-3) | (p > 1 + 1e-3)  # room for rounding
    if xp.any(wrong):
        raise ValueError(
            f"p must hold probabilities; got an entry of {float(p[wrong][0]):g}. "
            "softmax makes probabilities of scores."
        )
    terms = p * xp.log(xp.where(p > 0, p, 1))
    return xp.astype(0.0 - xp.sum(terms, axis=axis), dtype, copy=False)


def softmax_jacobian(z):
    """Derivative of every softmax output in every score, ``diag(p) - p p^T`` with ``p = softmax(z)``.

    Parameters
    ----------
    z : array (..., n)
        Scores.

    Returns
    -------
    array (..., n, n)
        Entry ``[..., i, j]`` is ``d softmax(z)_i / d z_j``. Symmetric; rows and columns sum to 0.

    Raises
    ------
    TypeError, ValueError
        As for `softmax`.

    References
    ----------
    Bridle 1990, as for `softmax`: the derivative that training by gradient descent needs.

    Examples
    --------
    >>> import numpy as np
    >>> softmax_jacobian(np.zeros(2))
    array([[ 0.25, -0.25],
           [-0.25,  0.25]])
    """
    xp, z, _, dtype = working_array(z, -1, "z")
    return xp.astype(_jacobian(xp, softmax(z)), dtype, copy=False)


def softmax_jacobian_norm(z, *, kind="frobenius"):
    """Size of the softmax's derivative at the scores ``z``.

    Parameters
    ----------
    z : array (..., n)
        Scores.
    kind : {"frobenius", "spectral"}
        ``"frobenius"`` is the root of the sum of squared entries,
        ``sum p^2 - 2 sum p^3 + (sum p^2)^2``. ``"spectral"`` is the largest factor by which a small
        change of the scores can be stretched.

    Returns
    -------
    array (...)
        At least 0, where the softmax is certain; the spectral norm is at most 1/2, reached by two
        equal scores. NaN where `softmax` is.

    Raises
    ------
    TypeError, ValueError
        As for `softmax`; if ``kind`` is neither word.

    Examples
    --------
    >>> import numpy as np
    >>> round(float(softmax_jacobian_norm(np.zeros(2), kind="spectral")), 12)
    0.5
    """
    if kind not in ("frobenius", "spectral"):
        raise ValueError(f"kind must be 'frobenius' or 'spectral'; got {kind!r}")
    xp, z, _, dtype = working_array(z, -1, "z")
    p = softmax(z)
    norm = _spectral(xp, p) if kind == "spectral" else _frobenius(xp, p)
    return xp.astype(norm, dtype, copy=False)


def _jacobian(xp, p):
    """``diag(p) - p p^T``, with each diagonal entry as the sum of its row's others.

    ``p (1 - p)`` would lose its digits where ``p`` is near 1; here only products and sums of positive
    numbers are formed, so that saturated rows keep their relative accuracy.
    """
    same = xp.eye(p.shape[-1], dtype=p.dtype, device=p.device)
    others = p[..., :, None] * p[..., None, :] * (1 - same)
    return same * xp.sum(others, axis=-1, keepdims=True) - others


def _frobenius(xp, p):
    """Root of ``sum_i p_i^2 ((1 - p_i)^2 + sum_(j != i) p_j^2)``, without cancellation as above.

    All weights but the top one are in units of the largest of them, so that no square vanishes.
    """
    top = xp.arange(p.shape[-1], device=p.device) == xp.argmax(p, axis=-1, keepdims=True)
    rest = xp.where(top, 0, p)
    unit = xp.max(rest, axis=-1, keepdims=True)
    unit = unit.detach() if hasattr(unit, "detach") else unit  # it cancels, and so do its gradients
    parts = rest / xp.where(unit == 0, 1, unit)
    others = xp.sum(p**2, axis=-1, keepdims=True) - p**2
    missing = xp.where(top, xp.sum(parts, axis=-1, keepdims=True), parts * (1 - rest))
    beside = xp.where(top, xp.sum(parts**2, axis=-1, keepdims=True), parts**2 * others)
    total = xp.sum(xp.where(top, p, 1) ** 2 * (missing**2 + beside), axis=-1)
    certain = total == 0
    return unit[..., 0] * xp.where(certain, 0, xp.sqrt(xp.where(certain, 1, total)))


def _spectral(xp, p):
    """The largest eigenvalue; rows that are NaN stay so, and LAPACK is not shown them."""
    jacobian = _jacobian(xp, p)
    known = ~xp.any(xp.isnan(p), axis=-1)
    largest = xp.linalg.eigvalsh(xp.where(known[..., None, None], jacobian, 0))[..., -1]
    return xp.where(known, largest, math.nan)

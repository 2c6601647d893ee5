"""Attention between Gaussians: an item is a mean and a variance, and near ones attend to each other."""

import math

from attnlib.cases.masked import masked_softmax
from attnlib.core.scaled_dot_product import check_attention
from attnlib.core.shapes import working_arrays

SMALLEST_VARIANCE = 1e-24  # the root of 0 has no slope

_AXES = {
    "mean_q": (..., "Lq", "d"), "cov_q": (..., "Lq", "d"),
    "mean_k": (..., "Lk", "d"), "cov_k": (..., "Lk", "d"),
    "mean_v": (..., "Lk", "dv"), "cov_v": (..., "Lk", "dv"),
}  # fmt: skip


def wasserstein_distance(mean_q, cov_q, mean_k, cov_k):
    """How far Gaussians are apart: ``|mean_q - mean_k|**2 + |sqrt(cov_q) - sqrt(cov_k)|**2``, of all pairs.

    The squared 2-Wasserstein distance of Gaussians whose features are independent. It is the squared
    distance of points, each a mean and the standard deviations beside it. Its root obeys the triangle
    inequality, which dot products do not: two items that are both near a third are near each other.

    Parameters
    ----------
    mean_q, cov_q : array (..., Lq, d)
        Means, and variances at least 0: the diagonals of the covariances.
    mean_k, cov_k : array (..., Lk, d)

    Returns
    -------
    array (..., Lq, Lk)
        At least 0, for the sum is cut there: two large equal numbers that are subtracted leave rounding.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit.

    References
    ----------
    Fan et al. 2022, arXiv 2201.06035, section 3 (STOSA). ``wasserstein_distance_matmul`` in ``modules.py``
    of zfan20/STOSA is this sum before it is cut at 0. Variances below 1e-24, and negative ones, count as
    1e-24 in its roots, as here.

    Examples
    --------
    >>> import numpy as np
    >>> mean, cov = np.array([[0.0], [3.0]]), np.array([[1.0], [25.0]])
    >>> wasserstein_distance(mean, cov, mean, cov)
    array([[ 0., 25.],
           [25.,  0.]])
    """
    arrays = {"mean_q": mean_q, "cov_q": cov_q, "mean_k": mean_k, "cov_k": cov_k}
    xp, dtype, arrays = working_arrays(arrays, _AXES)
    return xp.astype(_distance(xp, *arrays), dtype, copy=False)


def _distance(xp, mean_q, cov_q, mean_k, cov_k):
    a, b = _point(xp, mean_q, cov_q), _point(xp, mean_k, cov_k)
    squares = xp.sum(a * a, axis=-1)[..., :, None] + xp.sum(b * b, axis=-1)[..., None, :]
    return xp.clip(squares - 2 * (a @ b.mT), 0, None)


def _point(xp, mean, cov):
    return xp.concat([mean, xp.sqrt(xp.clip(cov, SMALLEST_VARIANCE, None))], axis=-1)


def stochastic_attention(
    mean_q, cov_q, mean_k, cov_k, mean_v, cov_v, mask=None, *, causal=False, scale=None, return_weights=False
):
    """Attention in which a small distance of two Gaussians takes the place of a large dot product.

    ``A = softmax(-distance * scale)``; the means are mixed with ``A``, the variances with ``A**2``, as those
    of a weighted sum of independent numbers are.

    Parameters
    ----------
    mean_q, cov_q : array (..., Lq, d)
        Means and variances, as in `wasserstein_distance`.
    mean_k, cov_k : array (..., Lk, d)
    mean_v, cov_v : array (..., Lk, dv)
    mask, causal
        As in `attention`.
    scale : float, optional
        ``1/sqrt(d)`` when left out.
    return_weights : bool
        Return ``A`` too.

    Returns
    -------
    mean, cov : array (..., Lq, dv)
        Zeros for a query that may attend to nothing.
    weights : array (..., Lq, Lk), if asked for

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit.

    References
    ----------
    Fan et al. 2022, arXiv 2201.06035, section 3 (STOSA); ``DistSelfAttention`` of zfan20/STOSA.

    Examples
    --------
    >>> import numpy as np
    >>> far, cov, v = np.array([[0.0], [9.0]]), np.ones((2, 1)), np.array([[3.0], [5.0]])
    >>> mean, cov = stochastic_attention(far, cov, far, cov, v, cov)
    >>> mean[:, 0], cov[:, 0]
    (array([3., 5.]), array([1., 1.]))
    """
    names = {"mean_q": mean_q, "cov_q": cov_q, "mean_k": mean_k, "cov_k": cov_k}
    xp, dtype, arrays = working_arrays(names | {"mean_v": mean_v, "cov_v": cov_v}, _AXES)
    check_attention(mask, causal, scale, q=mean_q, k=mean_k)
    scale = 1 / math.sqrt(mean_q.shape[-1]) if scale is None else scale
    weights = masked_softmax(xp, _distance(xp, *arrays[:4]) * -scale, mask, causal)
    mean, cov = weights @ arrays[4], (weights * weights) @ arrays[5]
    results = (mean, cov, weights) if return_weights else (mean, cov)
    return tuple(xp.astype(x, dtype, copy=False) for x in results)

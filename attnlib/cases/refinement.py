"""Refinement of attention weights: the rows of a table of weights attend to each other (AWRSR)."""

import math

from attnlib.cases.masked import masked_softmax
from attnlib.cases.stochastic import wasserstein_distance
from attnlib.core.arrays import kind_of
from attnlib.core.scaled_dot_product import check_attention
from attnlib.core.shapes import working_arrays
from attnlib.efficient.linear import elu_plus_one


def refine_weights(weights, w_q, w_k, w_v=None, *, additive=False, mask=None, causal=False, scale=None):
    """New weights from old ones: where two tokens look alike, they may look at each other.

    A row of the weights ``A`` says where a token looks. Rows become queries and keys in their turn,
    ``B = (A @ w_q) @ (A @ w_k).mT * scale``, and the refined weights are

    * ``softmax(B)``, *simple*;
    * ``softmax(softmax(B) @ (A @ w_v))``, *value-weighted*: where ``w_v`` is given, the attention between
      rows is carried through, and what it gives are the scores;
    * ``softmax(log A + B)``, *additive*: ``B`` is added to the scores that made ``A``. So ``B = 0`` leaves
      ``A`` as it is, where the simple form averages all that may be seen.

    In row ``i`` of ``A`` a causal mask left only columns up to ``i``; but column ``j`` of ``B`` is about
    row ``j``, which may lie later. So every softmax here needs the mask again.

    Parameters
    ----------
    weights : array (..., n, n)
        ``A``: rows that sum to 1, after mask and softmax.
    w_q, w_k : array (..., n, d)
        Learned. A row of them belongs to a position, as a vector of `LearnedPositions` does: ``A @ w_q`` is a
        query's average of the positions it looks at. The length ``n`` is fixed by them. Leading axes, if
        there are any, broadcast to those of the weights.
    w_v : array (..., n, n), optional
    additive : bool
        Also with ``w_v``.
    mask : bool array, optional
        Broadcasts to ``(..., n, n)``, ``True`` = may attend: what the weights were masked with.
    causal : bool
        Besides ``mask``, hide the columns after each row.
    scale : float, optional
        ``1/sqrt(d)`` when left out.

    Returns
    -------
    array (..., n, n)
        Rows sum to 1, or to 0 where nothing may be seen.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if ``additive`` is
        not True or False.

    References
    ----------
    Liu, Liu and Liu 2024, arXiv 2410.21048 (AWRSR). Reconstructed from prose, without public code to
    compare with. Ours are these choices: ``A`` is taken after its mask and its softmax, every later
    softmax has the same mask, ``B`` has a scale, the width ``d`` is free, and the additive form adds
    scores, not weights, so that rows still sum to 1.

    Examples
    --------
    >>> import numpy as np
    >>> weights, zero = np.array([[1.0, 0.0], [0.25, 0.75]]), np.zeros((2, 3))
    >>> refine_weights(weights, zero, zero, causal=True)
    array([[1. , 0. ],
           [0.5, 0.5]])
    >>> refine_weights(weights, zero, zero, additive=True, causal=True)
    array([[1.  , 0.  ],
           [0.25, 0.75]])
    """
    maps = {"w_q": w_q, "w_k": w_k} | ({} if w_v is None else {"w_v": w_v})
    xp, dtype, a, (w_q, w_k, *w_v) = _checked(weights, maps, mask, causal, scale)
    if not isinstance(additive, bool):
        raise TypeError(f"additive must be True or False; got {additive!r}")
    scale = 1 / math.sqrt(w_q.shape[-1]) if scale is None else scale
    b = (a @ w_q * scale) @ (a @ w_k).mT
    if w_v:
        b = masked_softmax(xp, b, mask, causal) @ (a @ w_v[0])
    if additive:
        seen = a > 0
        b = xp.where(seen, xp.log(xp.where(seen, a, 1)) + b, -math.inf)
    return xp.astype(masked_softmax(xp, b, mask, causal), dtype, copy=False)


def refine_weights_stochastic(weights, w_mean, w_cov, *, mask=None, causal=False, scale=None):
    """New weights from old ones whose rows are Gaussians: tokens that look alike are near each other.

    ``softmax(-distance * scale)``, where the Gaussian of row ``a`` has the mean ``a @ w_mean`` and the
    variances ``elu(a @ w_cov) + 1``, and the distance is that of `wasserstein_distance`. Each row is at
    distance 0 from itself, so before the mask no token has a larger weight than the query's own.

    Parameters
    ----------
    weights : array (..., n, n)
        Rows that sum to 1, after mask and softmax.
    w_mean, w_cov : array (..., n, d)
        Learned, as ``w_q`` of `refine_weights`; the same for a row as query and as key.
    mask, causal, scale
        As in `refine_weights`.

    Returns
    -------
    array (..., n, n)
        Rows sum to 1, or to 0 where nothing may be seen.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit.

    References
    ----------
    Liu, Liu and Liu 2024, arXiv 2410.21048 (AWRSR), for the layer of Fan et al. 2022, arXiv 2201.06035
    (STOSA, `stochastic_attention`). Reconstructed from prose, as `refine_weights` is; the scale is STOSA's.

    Examples
    --------
    >>> import numpy as np
    >>> weights = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])    # two rows alike
    >>> refine_weights_stochastic(weights, 9 * np.eye(3), np.zeros((3, 3))).round(2)
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 1. ]])
    """
    maps = {"w_mean": w_mean, "w_cov": w_cov}
    xp, dtype, a, (w_mean, w_cov) = _checked(weights, maps, mask, causal, scale)
    scale = 1 / math.sqrt(w_mean.shape[-1]) if scale is None else scale
    mean, cov = a @ w_mean, elu_plus_one(a @ w_cov)
    scores = -scale * wasserstein_distance(mean, cov, mean, cov)
    return xp.astype(masked_softmax(xp, scores, mask, causal), dtype, copy=False)


def _checked(weights, maps, mask, causal, scale):
    """The namespace, the type of the result, and weights and maps to compute with, if they fit."""
    xp, dtype, (weights, *arrays) = working_arrays({"weights": weights} | maps, {"weights": (..., "n", "m")})
    *before, n, m = weights.shape
    if n != m:
        raise ValueError(f"weights must be square, for rows meet rows; got shape {tuple(weights.shape)}")
    width = arrays[0].shape[-1:]
    for name, array in zip(maps, arrays, strict=True):
        wanted = (n, n) if name == "w_v" else (n, *width)
        lead = tuple(array.shape[:-2])
        fits = all(a in (1, b) for a, b in zip(lead[::-1], before[::-1], strict=False))
        if tuple(array.shape[-2:]) != wanted or len(lead) > len(before) or not fits or 0 in array.shape:
            sizes = ", ".join(["..."] + [str(size) for size in wanted])
            raise ValueError(
                f"{name} must have shape ({sizes}), a row for each of the {n} columns of weights, and "
                f"leading axes that broadcast to {tuple(before)}; got {tuple(array.shape)}"
            )
    check_attention(mask, causal, scale, q=weights, k=weights)
    if mask is not None and kind_of(xp, mask.dtype) != "bool":
        raise TypeError(f"mask must be boolean; got dtype {mask.dtype}. What was added is in the weights.")
    return xp, dtype, weights, arrays

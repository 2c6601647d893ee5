"""Selective attention: a token may decide that later ones need not look at an earlier one any more."""

import math

from array_api_compat import device

from attnlib.cases.masked import hidden, masked_softmax
from attnlib.core.scaled_dot_product import check_attention
from attnlib.core.shapes import working_arrays

_AXES = {"q": (..., "H", "L", "d"), "k": (..., "H", "L", "d"), "v": (..., "H", "L", "dv")}


def selective_attention(q, k, v, mask=None, *, scale=None, return_weights=False):
    """Causal attention in which what the first head looks at is lost to all later tokens.

    ``softmax(scores - F) @ v`` with ``F_ij = sum of S_lj for l < i`` and ``S = relu(scores of head 0)``.
    A high score of head 0 selects: token ``l`` looks at ``j``, and from ``l + 1`` on every head's score
    for ``j`` is smaller by as much. ``S`` is 0 for the token itself and for the first token, which nobody
    can hide, and where ``l`` may not look. No parameter is added.

    Parameters
    ----------
    q, k : array (..., H, L, d)
        Of the whole sequence: what early queries selected holds for the late ones.
    v : array (..., H, L, dv)
    mask : array, optional
        Broadcasts to ``(..., H, L, L)``. Boolean: ``True`` = may attend. Floating: added to the scores,
        those that select included.
    scale : float, optional
        ``1/sqrt(d)`` when left out.
    return_weights : bool
        Return the weights of every head too.

    Returns
    -------
    out : array (..., H, L, dv)
        Zeros for a query that may attend to nothing.
    weights : array (..., H, L, L), if asked for
        Rows sum to 1.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit.

    References
    ----------
    Leviathan, Kalman and Matias 2024, arXiv 2410.02703, section 3. ``selective_attn`` of x-transformers
    agrees where queries and keys are as many; behind a cache it selects anew from the last queries alone.

    Examples
    --------
    >>> import numpy as np
    >>> q = np.array([[[0.0], [0.0], [50.0], [0.0]]])    # the third token points at the second
    >>> k = np.array([[[0.0], [1.0], [0.0], [0.0]]])
    >>> selective_attention(q, k, k, return_weights=True)[1][0].round(2)
    array([[1.  , 0.  , 0.  , 0.  ],
           [0.5 , 0.5 , 0.  , 0.  ],
           [0.  , 1.  , 0.  , 0.  ],
           [0.33, 0.  , 0.33, 0.33]])
    """
    xp, dtype, (q, k, v) = working_arrays({"q": q, "k": k, "v": v}, _AXES)
    check_attention(mask, True, scale, q=q, k=k, v=v)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = hidden(xp, (q * scale) @ k.mT, mask, causal=True)
    weights = masked_softmax(xp, scores - _lost(xp, scores[..., :1, :, :]))
    out = xp.astype(weights @ v, dtype, copy=False)
    return (out, xp.astype(weights, dtype, copy=False)) if return_weights else out


def _lost(xp, scores):
    """How much each token's score has lost before each query: sums over the queries before it."""
    n, on = scores.shape[-1], device(scores)
    others = xp.arange(n, device=on)[:, None] != xp.arange(n, device=on)[None, :]
    may_be_hidden = others & (xp.arange(n, device=on) > 0)
    selected = xp.where(may_be_hidden & (scores > 0), scores, 0)
    until_then = xp.cumulative_sum(selected[..., :-1, :], axis=-2)
    return xp.concat([xp.zeros_like(selected[..., :1, :]), until_then], axis=-2)

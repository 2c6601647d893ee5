"""Forgetting attention: each token says how much of what came before it is still worth looking at."""

import math

from attnlib.cases.masked import hidden
from attnlib.core.arrays import namespace, valid_length
from attnlib.core.grouped_queries import grouped_query_attention
from attnlib.core.scaled_dot_product import check_mask
from attnlib.core.shapes import check_shapes, working_arrays
from attnlib.efficient.patterns import between

_AXES = {"q": (..., "H", "Lq", "d"), "k": (..., "Hkv", "Lk", "d"), "v": (..., "Hkv", "Lk", "dv")}
_GATES = {"log_forget": (..., "H", "Lk")}


def forgetting_attention(q, k, v, log_forget, mask=None, *, window=None, scale=None, return_weights=False):
    """Causal attention whose weights fade by a gate ``f`` at every token that lies between.

    ``softmax(q @ k.mT * scale + D) @ v`` with ``D_ij = sum of log f_l for l = j + 1 .. i``: before the
    softmax divides by the row's sum, the weight of key ``j`` is multiplied by ``f_(j+1) ... f_i``. Gates of 1
    are attention; one gate for all tokens of a head is the slope of `alibi_bias`, for then
    ``D_ij = (i - j) log f``; a gate of 0 hides all that came before.

    Parameters
    ----------
    q : array (..., H, Lq, d)
        The last query stands at the last key.
    k : array (..., Hkv, Lk, d)
        ``Hkv`` divides ``H``: query heads share key heads, as in `grouped_query_attention`.
    v : array (..., Hkv, Lk, dv)
    log_forget : array (..., H, Lk)
        The logarithm of each token's gate, at most 0, for each query head; the layer of the paper makes it
        of the token as ``log(sigmoid(x @ w + b))``. ``-inf`` is a gate of 0.
    mask : array, optional
        Broadcasts to ``(..., H, Lq, Lk)``. Boolean: ``True`` = may attend. Floating: added to the scores.
    window : int >= 1, optional
        Keys that a query sees, its own included; all up to its own when left out.
    scale : float, optional
        ``1/sqrt(d)`` when left out.
    return_weights : bool
        Return the weights of all query heads too.

    Returns
    -------
    out : array (..., H, Lq, dv)
        Zeros for a query that may attend to nothing.
    weights : array (..., H, Lq, Lk), if asked for
        Rows sum to 1: what is forgotten leaves its share to the rest.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit, or there are more
        queries than keys.

    References
    ----------
    Lin et al. 2025, arXiv 2503.02130, section 3. Agrees with ``naive_forgetting_attn`` of
    fla-org/flash-linear-attention, ``ops/forgetting_attn/naive.py``, which has the heads after the
    positions, as many queries as keys, and NaN at a gate of 0. The sums of gates are differences of
    one running sum, in float32 at least; half precision would lose them after a few hundred tokens.

    Examples
    --------
    >>> import numpy as np
    >>> q, v = np.zeros((1, 3, 2)), np.array([[[0.0], [0.0], [9.0]]])
    >>> forgetting_attention(q, q, v, np.log([[1.0, 1.0, 0.25]]))[0, :, 0]
    array([0., 0., 6.])
    """
    check_shapes({"q": q, "k": k, "v": v, "log_forget": log_forget}, _AXES | _GATES)
    xp, _, (log_forget,) = working_arrays({"log_forget": log_forget}, _GATES)
    n_query, n_key = q.shape[-2], k.shape[-2]
    if n_query > n_key:
        raise ValueError(f"there must be a gate for each query, {n_query}; got {n_key} keys and gates")
    if xp.any(log_forget > 0):
        found = float(xp.max(log_forget))
        raise ValueError(f"log_forget must be at most 0, the logarithm of a gate; got {found:g}")
    left = -1 if window is None else valid_length(window, "window") - 1
    visible = between(left, 0).mask(n_query, n_key, like=q)
    if mask is not None:
        namespace(q=q, mask=mask)
        check_mask(xp, mask, (*q.shape[:-1], n_key))
    decay, reached = _decay(xp, log_forget, n_query)
    bias = xp.where(visible & reached, hidden(xp, decay, mask), -math.inf)
    return grouped_query_attention(q, k, v, bias, scale=scale, return_weights=return_weights)


def _decay(xp, log_forget, n_query):
    """Sums of logarithms of gates between each query and key, and where none of these gates is 0."""
    shut = log_forget == -math.inf
    total = xp.cumulative_sum(xp.where(shut, 0, log_forget), axis=-1)
    crossed = xp.cumulative_sum(xp.astype(shut, xp.int64), axis=-1)
    at_query, crossed_at_query = (x[..., -n_query:, None] for x in (total, crossed))
    return at_query - total[..., None, :], crossed_at_query == crossed[..., None, :]

"""Linformer: keys and values shortened to a fixed length before the queries see them."""

from attnlib.core.scaled_dot_product import attention
from attnlib.core.shapes import working_arrays


def linformer_attention(q, k, v, e, f, *, causal=False, scale=None, return_weights=False):
    """Attention to ``r`` mixtures of all keys: ``softmax(q @ (e @ k).mT * scale) @ (f @ v)``.

    With ``r`` fixed, the cost grows with the length and not with its square. Each row of ``e`` mixes all
    keys into one, so the length of the text is the one that ``e`` and ``f`` were learned for.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    v : array (..., Lk, dv)
    e, f : array (r, Lk), or (..., r, Lk)
        How keys and values are mixed; both the same in one of the paper's variants. Leading axes, one
        projection a head for example, are the last of those of ``k``, or broadcast to them.
    causal : bool
        Refused where ``True``: every mixed key holds something of every token, so no mask can hide the
        later ones.
    scale : float, optional
        ``1/sqrt(d)`` when left out.
    return_weights : bool
        Return the weights too.

    Returns
    -------
    out : array (..., Lq, dv)
    weights : array (..., Lq, r), if asked for
        Rows sum to 1 over the mixtures.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if ``causal``.

    References
    ----------
    Wang et al. 2020, arXiv 2006.04768, section 4.

    Examples
    --------
    >>> import numpy as np
    >>> x, mean = np.array([[0.0], [4.0]]), np.array([[0.5, 0.5]])
    >>> linformer_attention(x, x, x, mean, mean)
    array([[2.],
           [2.]])
    """
    if causal is not False:
        raise ValueError(
            "linformer_attention cannot be causal: each row of e mixes all keys, the later ones too; "
            f"got causal={causal!r}"
        )
    xp, dtype, (q, k, v, e, f) = working_arrays(
        {"q": q, "k": k, "v": v, "e": e, "f": f},
        {"q": (..., "Lq", "d"), "k": (..., "Lk", "d"), "v": (..., "Lk", "dv")},
    )
    for name, x in (("e", e), ("f", f)):
        _check_projection(name, tuple(x.shape), tuple(k.shape))
    if e.shape[-2] != f.shape[-2]:
        raise ValueError(
            f"e and f must make equally many rows; got shapes {tuple(e.shape)} and {tuple(f.shape)}"
        )
    result = attention(q, e @ k, f @ v, scale=scale, return_weights=return_weights)
    if return_weights:
        return tuple(xp.astype(x, dtype, copy=False) for x in result)
    return xp.astype(result, dtype, copy=False)


def _check_projection(name, shape, k_shape):
    lead, own = k_shape[:-2], shape[:-2]
    if len(shape) < 2 or 0 in shape or shape[-1] != k_shape[-2]:
        raise ValueError(f"{name} must have shape (..., r, {k_shape[-2]}), not empty; got {shape}")
    if len(own) > len(lead) or any(
        m not in (1, n) for m, n in zip(own, lead[len(lead) - len(own) :], strict=True)
    ):
        raise ValueError(
            f"the leading axes of {name} must broadcast to those of k, {lead}; got shape {shape}"
        )

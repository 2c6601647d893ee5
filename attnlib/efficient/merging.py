"""Attention over parts of the keys, joined to attention over all of them."""

import math

from attnlib.core.arrays import namespace
from attnlib.core.shapes import working_arrays
from attnlib.core.softmaxes import shifted_exp


def merge_attention(outs, lses):
    """Attention over all keys from attention over parts of them, which may come in any order.

    ``lse = log(sum_i exp(lse_i))`` and ``out = sum_i exp(lse_i - lse) * out_i``: each part counts as much
    as the softmax denominators of its keys do, so the weights of the parts are their softmax. The result
    is a part itself and may be merged again. So keys can be split among workers, handed round a ring, or
    be a prefix that many sequences share.

    Parameters
    ----------
    outs : list of arrays (..., Lq, dv)
        What `tiled_attention` gives of the same queries over disjoint sets of keys.
    lses : list of arrays (..., Lq)
        Natural log-sum-exps of each part's scores; ``-inf`` where a query sees none of its keys.

    Returns
    -------
    out : array (..., Lq, dv)
        Zeros for a query that sees no key in any part.
    lse : array (..., Lq)

    Raises
    ------
    TypeError, ValueError
        If there is no part, a part has no log-sum-exp of its own, or shapes do not fit.

    References
    ----------
    Rabe and Staats 2021, "Self-attention does not need O(n^2) memory", arXiv 2112.05682; Liu, Zaharia and
    Abbeel 2023, ring attention, arXiv 2310.01889.

    Examples
    --------
    >>> import numpy as np
    >>> parts = [np.array([[1.0]]), np.array([[5.0]])]
    >>> out, lse = merge_attention(parts, [np.log(np.array([3.0])), np.array([0.0])])
    >>> out, np.exp(lse)
    (array([[2.]]), array([4.]))
    """
    for name, given in (("outs", outs), ("lses", lses)):
        if not hasattr(given, "__len__"):
            raise TypeError(f"{name} must be a list with an array for each part; got {type(given).__name__}")
    if len(outs) == 0 or len(outs) != len(lses):
        raise ValueError(
            f"there must be one log-sum-exp for each part, and a part at least; got {len(outs)} outs "
            f"and {len(lses)} lses"
        )
    named = {f"outs[{i}]": x for i, x in enumerate(outs)}, {f"lses[{i}]": x for i, x in enumerate(lses)}
    namespace(**named[0], **named[1])
    xp, dtype, outs = working_arrays(named[0], dict.fromkeys(named[0], (..., "Lq", "dv")))
    _, lse_dtype, lses = working_arrays(named[1], dict.fromkeys(named[1], (..., "Lq")))
    if lses[0].shape != outs[0].shape[:-1]:
        raise ValueError(
            f"lses must have shape {tuple(outs[0].shape[:-1])}, one number for each query; "
            f"got {tuple(lses[0].shape)}"
        )
    e, total, top = shifted_exp(xp, xp.stack(lses), 0)
    empty = total == 0
    total = xp.where(empty, 1, total)
    out = xp.sum((e / total)[..., None] * xp.stack(outs), axis=0)
    lse = xp.where(empty, -math.inf, top + xp.log(total))[0]
    return xp.astype(out, dtype, copy=False), xp.astype(lse, lse_dtype, copy=False)

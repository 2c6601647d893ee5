"""Fewer heads of keys and values for a model that was trained with many."""

from attnlib.core.arrays import float_dtype, namespace, valid_length, working_dtype


def pooled_heads(weight, n_heads, n_kv_heads):
    """The projection of ``n_kv_heads`` heads, each the mean of ``n_heads / n_kv_heads`` heads in a row.

    Applied to a layer's key and value projections it turns multi-head attention into grouped-query
    attention: query head ``h`` then looks at the mean of its own head and of its neighbours. A pooled key is
    the mean of the keys, rotated or not, for all heads are rotated alike.

    Parameters
    ----------
    weight : array (n_heads * d, ...)
        Weights ``(out, in)``, or a bias.
    n_heads : int >= 1
    n_kv_heads : int >= 1
        Divides ``n_heads``.

    Returns
    -------
    array (n_kv_heads * d, ...)

    Raises
    ------
    TypeError, ValueError
        If ``weight`` is no array of real numbers, or a number does not divide another.

    References
    ----------
    Ainslie et al. 2023, arXiv 2305.13245, sections 2.1 and 2.2; the model is then trained further.

    Examples
    --------
    >>> import numpy as np
    >>> pooled_heads(np.array([[1.0], [2.0], [3.0], [6.0]]), n_heads=4, n_kv_heads=2)
    array([[1.5],
           [4.5]])
    """
    xp = namespace(weight=weight)
    dtype = float_dtype(xp, weight=weight)
    n_heads, n_kv_heads = valid_length(n_heads, "n_heads"), valid_length(n_kv_heads, "n_kv_heads")
    if n_heads % n_kv_heads:
        raise ValueError(f"n_heads must be a multiple of n_kv_heads; got {n_heads} and {n_kv_heads}")
    shape = tuple(weight.shape)
    if not shape or 0 in shape or shape[0] % n_heads:
        raise ValueError(
            f"weight must have no empty axis, and a first one that divides into {n_heads} heads; got shape "
            f"{shape}"
        )
    groups = (n_kv_heads, n_heads // n_kv_heads, shape[0] // n_heads, *shape[1:])
    heads = xp.reshape(xp.astype(weight, working_dtype(xp, dtype), copy=False), groups)
    pooled = xp.reshape(xp.mean(heads, axis=1), (-1, *shape[1:]))
    return xp.astype(pooled, dtype, copy=False)

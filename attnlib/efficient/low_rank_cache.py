"""A cache of few features: keys and values seen along the directions in which they spread."""

from attnlib.core.arrays import float_dtype, namespace, valid_length, working_dtype


def low_rank_basis(x, rank):
    """The ``rank`` orthonormal directions that hold most of the rows of ``x``.

    With ``x = U S V.T``, the first columns of ``V``. No other basis leaves a smaller error
    ``|x - x B B.T|_F``, the root of the sum of the other singular values squared. A cache then holds
    ``k @ A`` and ``v @ B``, of ``rank`` features instead of ``d``, and attention needs no more, for
    ``q . k`` is about ``(q @ A) . (k @ A)``: it is
    ``attention(q @ A, k @ A, v @ B, scale=1/sqrt(d)) @ B.mT``. Keys are cached before their rotation: one
    that is rotated by its position spreads over more directions, and no rotation passes through ``A``.

    Parameters
    ----------
    x : array (..., L, d)
        A sample of keys or of values; each matrix gets its own basis. Not centred.
    rank : int >= 1
        At most ``d`` and at most ``L``.

    Returns
    -------
    array (..., d, rank)
        Columns in the order of the singular values. Each one's sign is arbitrary.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is no array of finite numbers with two axes, or ``rank`` out of its range.

    References
    ----------
    Eckart and Young 1936, "The approximation of one matrix by another of lower rank". Lesens, Rakhshan and
    Rabusseau 2025, arXiv 2512.05916, who show that keys alone are not the best guide: what counts are the
    products with the queries.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[2.0, 2.0], [1.0, 1.0], [3.0, 3.0]])
    >>> basis = low_rank_basis(x, 1)
    >>> np.allclose(x @ basis @ basis.T, x), np.abs(basis).round(2).tolist()
    (True, [[0.71], [0.71]])
    """
    xp = namespace(x=x)
    dtype = float_dtype(xp, x=x)
    shape, rank = tuple(x.shape), valid_length(rank, "rank")
    if len(shape) < 2 or 0 in shape:
        raise ValueError(f"x must have shape (..., length, features), not empty; got {shape}")
    if rank > min(shape[-2:]):
        raise ValueError(f"rank must be at most {min(shape[-2:])}, as x of shape {shape} has; got {rank}")
    x = xp.astype(x, working_dtype(xp, dtype), copy=False)
    if not bool(xp.all(xp.isfinite(x))):
        raise ValueError("x must be finite: rows with an infinity or NaN have no directions")
    directions = xp.linalg.svd(x, full_matrices=False)[2]
    return xp.astype(directions[..., :rank, :].mT, dtype, copy=False)

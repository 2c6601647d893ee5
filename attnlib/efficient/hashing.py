"""Reformer: queries look for keys by hashing, sorted so that those alike stand in one chunk."""

import math

from array_api_compat import device

from attnlib.core.arrays import check_number, kind_of, namespace, valid_length
from attnlib.core.sampling import generator_of
from attnlib.core.shapes import working_arrays
from attnlib.core.softmaxes import shifted_exp
from attnlib.efficient.merging import merge_attention


def lsh_buckets(x, n_buckets, rounds=1, *, seed=0):
    """A bucket for each vector, by its direction: near ones often share theirs.

    ``argmax([x R; -x R])``, with random directions ``R`` of shape ``(d, n_buckets / 2)``, new ones in
    each round. The length of a vector does not matter.

    Parameters
    ----------
    x : array (..., L, d)
    n_buckets : int >= 2
        An even number.
    rounds : int >= 1
    seed : int >= 0
        The same directions come of it for NumPy and torch, for every sample and every head.

    Returns
    -------
    integer array (..., rounds, L)
        Between 0 and ``n_buckets - 1``.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is no array of real numbers, or a number is out of its range.

    References
    ----------
    Andoni et al. 2015, arXiv 1509.02897, as Kitaev, Kaiser and Levskaya 2020, arXiv 2001.04451,
    section 2, take it.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
    >>> same = lsh_buckets(x, 4)[0]
    >>> bool(same[0] == same[1]), bool(same[0] == same[2])
    (True, False)
    """
    n_buckets, rounds = valid_length(n_buckets, "n_buckets"), valid_length(rounds, "rounds")
    if n_buckets % 2:
        raise ValueError(f"n_buckets must be even, for each direction has its opposite; got {n_buckets}")
    xp, _, (x,) = working_arrays({"x": x}, {"x": (..., "L", "d")})
    directions = generator_of(seed).normal(size=(rounds, x.shape[-1], n_buckets // 2))
    along = x[..., None, :, :] @ xp.asarray(directions, dtype=x.dtype, device=device(x))
    return xp.argmax(xp.concat([along, -along], axis=-1), axis=-1)


def lsh_counts(buckets, chunk_size, *, causal=False):
    """In how many rounds each query sees each key.

    In every round the tokens are sorted by bucket, those of one bucket by position, and cut into chunks.
    A token sees its own chunk and the one before, except itself. One that sees nothing in any round sees
    itself. ``counts > 0`` is the mask; a key met in two rounds has twice the weight:
    ``attention(q, k, v, log(counts))``.

    Parameters
    ----------
    buckets : integer array (..., rounds, L)
        From `lsh_buckets`.
    chunk_size : int >= 1
        Tokens in a chunk; the last may have fewer.
    causal : bool
        Hide the keys after each query.

    Returns
    -------
    integer array (..., L, L)

    Raises
    ------
    TypeError, ValueError
        If ``buckets`` are no integers of such a shape, or ``chunk_size`` no positive integer.

    References
    ----------
    Kitaev, Kaiser and Levskaya 2020, arXiv 2001.04451, section 2. The paper attends to the union of the
    rounds, so that a key counts once however often it is met: that is ``counts > 0``. Hugging Face
    transformers adds the rounds up, as here. Google's trax and Hugging Face let the first chunk see the
    last one, of the round before if there are several; here it sees itself alone. As here, a chunk holds
    its neighbours from other buckets too.

    Examples
    --------
    >>> import numpy as np
    >>> lsh_counts(np.array([[0, 1, 0, 1, 0]]), 2, causal=True)    # chunks: tokens 0 2, 4 1, 3
    array([[1, 0, 0, 0, 0],
           [1, 0, 0, 0, 0],
           [1, 0, 0, 0, 0],
           [0, 1, 0, 0, 0],
           [1, 1, 1, 0, 0]])
    """
    xp = _check_buckets(buckets)
    chunk_size, n = valid_length(chunk_size, "chunk_size"), buckets.shape[-1]
    chunk = xp.argsort(xp.argsort(buckets, stable=True), stable=True) // chunk_size
    back = chunk[..., :, None] - chunk[..., None, :]
    i = xp.arange(n, device=device(buckets))
    others = i[:, None] > i if causal else i[:, None] != i
    counts = xp.sum(xp.astype((back >= 0) & (back <= 1) & others, xp.int64), axis=-3)
    alone = xp.sum(counts, axis=-1, keepdims=True) == 0
    return xp.where(alone & (i[:, None] == i), 1, counts)


def lsh_attention(qk, v, buckets, chunk_size, *, causal=False, scale=None):
    """Attention of each token to those that hashing put near it: at a cost of ``O(L * chunk_size)``.

    Queries are keys too: ``k = sqrt(d) * qk / |qk|``, and otherwise what `attention` gives with the mask
    ``log(lsh_counts(...))``. Each round attends chunk by chunk; the rounds are merged by their
    log-sum-exp.

    Parameters
    ----------
    qk : array (..., L, d)
        Queries; the keys have their directions and are all of one length.
    v : array (..., L, dv)
    buckets : integer array (..., rounds, L)
        From `lsh_buckets`. They are taken as given: no gradient goes through the choice of keys.
    chunk_size, causal
        As in `lsh_counts`.
    scale : float, optional
        ``1/sqrt(d)`` when left out.

    Returns
    -------
    array (..., L, dv)
        Its own value for a token that sees nothing else.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of its kind, is empty, or its shape does not fit.

    References
    ----------
    Kitaev, Kaiser and Levskaya 2020, arXiv 2001.04451, section 2; `lsh_counts` says where public
    implementations differ.

    Examples
    --------
    >>> import numpy as np
    >>> qk, v = np.array([[3.0, 0.0], [0.0, 2.0], [5.0, 0.0]]), np.array([[1.0], [2.0], [4.0]])
    >>> lsh_attention(qk, v, np.array([[0, 1, 0]]), chunk_size=2)[:, 0]    # chunks: tokens 0 2, 1
    array([4. , 2.5, 1. ])
    """
    _check_buckets(buckets)
    namespace(qk=qk, v=v, buckets=buckets)
    xp, dtype, (qk, v) = working_arrays({"qk": qk, "v": v}, {"qk": (..., "L", "d"), "v": (..., "L", "dv")})
    if buckets.shape[:-2] != qk.shape[:-2] or buckets.shape[-1] != qk.shape[-2]:
        raise ValueError(
            f"buckets must have shape {(*qk.shape[:-2], 'rounds', qk.shape[-2])} for qk of shape "
            f"{tuple(qk.shape)}; got {tuple(buckets.shape)}"
        )
    if scale is not None:
        check_number(scale, "scale")
    *_, n, d = qk.shape
    chunk_size = min(valid_length(chunk_size, "chunk_size"), n)  # no more rows than there are tokens
    squared = xp.sum(qk * qk, axis=-1, keepdims=True)
    k = qk * math.sqrt(d) / xp.sqrt(xp.where(squared == 0, 1, squared))  # zeros stay, and have a gradient
    q = qk * (1 / math.sqrt(d) if scale is None else scale)

    order = xp.argsort(buckets, stable=True)  # (..., rounds, L)
    n_chunks = -(-n // chunk_size)
    before = (*order.shape[:-1], n_chunks)

    def chunked(x, filling=0):
        """Rows of ``x`` in the order of each round, cut into chunks."""
        x = xp.take_along_axis(x[..., None, :, :], order[..., None], axis=-2)
        rest = (*x.shape[:-2], n_chunks * chunk_size - n, x.shape[-1])
        x = xp.concat([x, xp.full(rest, filling, dtype=x.dtype, device=device(x))], axis=-2)
        return xp.reshape(x, (*before, chunk_size, x.shape[-1]))

    def with_previous(x, filling=0):
        none = xp.full_like(x[..., :1, :, :], filling)
        return xp.concat([xp.concat([none, x[..., :-1, :, :]], axis=-3), x], axis=-2)

    position = xp.broadcast_to(xp.arange(n, device=device(qk))[:, None], (*qk.shape[:-1], 1))
    i = chunked(position, -1)
    j = xp.matrix_transpose(with_previous(i, -1))
    seen = (j >= 0) & (j < i if causal else j != i)
    scores = chunked(q) @ xp.matrix_transpose(with_previous(chunked(k)))
    e, total, top = shifted_exp(xp, xp.where(seen, scores, -math.inf), -1)
    empty = total == 0
    total = xp.where(empty, 1, total)
    out = e @ with_previous(chunked(v)) / total
    lse = xp.where(empty, -math.inf, top + xp.log(total))

    rank = xp.argsort(order, stable=True)[..., None]
    out, lse = (
        xp.take_along_axis(xp.reshape(x, (*before[:-1], -1, x.shape[-1])), rank, axis=-2) for x in (out, lse)
    )
    out, lse = merge_attention(xp.unstack(out, axis=-3), xp.unstack(lse[..., 0], axis=-2))
    alone = (lse == -math.inf)[..., None]
    return xp.astype(xp.where(alone, v, out), dtype, copy=False)


def _check_buckets(buckets):
    xp = namespace(buckets=buckets)
    if kind_of(xp, buckets.dtype) != "integral":
        raise TypeError(f"buckets must hold integers; got dtype {buckets.dtype}")
    if buckets.ndim < 2 or 0 in buckets.shape:
        raise ValueError(f"buckets must have shape (..., rounds, L), not empty; got {tuple(buckets.shape)}")
    return xp

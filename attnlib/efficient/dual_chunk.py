"""Dual chunk attention: rotary positions cut into chunks, so that no distance is longer than in training."""

import math

from attnlib.core.arrays import check_number, namespace, valid_length
from attnlib.core.masks import aligned_positions
from attnlib.core.rotary import rope
from attnlib.core.shapes import working_arrays
from attnlib.core.sinks import softmax_off_by_one


def dual_chunk_positions(n_query, n_key=None, *, chunk, farthest, like=None):
    """How far before a query each key is taken to be.

    A key at ``j`` stands at ``j % chunk``. A query at ``i`` stands at ``i % chunk`` for the keys of its
    own chunk, at ``min(i % chunk + chunk, farthest)`` for those of the chunk before, so that near keys
    keep their distance, and at ``farthest`` for those of all earlier chunks. The distance is the
    difference.

    Parameters
    ----------
    n_query : int >= 1
    n_key : int >= 1, optional
        As many as queries when left out. Where the lengths differ, the last query stands at the last
        key, as in `causal_mask`.
    chunk : int >= 1
        Shorter than the texts of training.
    farthest : int >= chunk
        The greatest position that a query takes; within ``farthest - chunk`` tokens of a chunk's
        beginning, keys of the chunk before are as far as they really are.
    like : array, optional
        As in `causal_mask`.

    Returns
    -------
    integer array (n_query, n_key)
        From 0 to ``farthest``; -1 for a key after the query, and where a query stands before all keys.

    Raises
    ------
    TypeError, ValueError
        If a number is not a positive integer, or ``farthest`` is below ``chunk``.

    References
    ----------
    An et al. 2024, arXiv 2402.17463, where ``farthest`` is one less than the length of training. The
    authors' code (HKUNLP/ChunkLlama) and vLLM's take ``chunk_size`` itself for it, and
    ``chunk_size - local_window`` for the chunk; with ``chunk_size`` three quarters of that length in
    ChunkLlama.

    Examples
    --------
    >>> dual_chunk_positions(7, chunk=3, farthest=4)
    array([[ 0, -1, -1, -1, -1, -1, -1],
           [ 1,  0, -1, -1, -1, -1, -1],
           [ 2,  1,  0, -1, -1, -1, -1],
           [ 3,  2,  1,  0, -1, -1, -1],
           [ 4,  3,  2,  1,  0, -1, -1],
           [ 4,  3,  2,  2,  1,  0, -1],
           [ 4,  3,  2,  3,  2,  1,  0]])
    """
    chunk, farthest = _valid_sizes(chunk, farthest)
    i, j = aligned_positions(n_query, n_key, "end", like)
    xp = namespace(i=i)
    at = _nearest(xp, i, j, chunk, _query_positions(xp, i, chunk, farthest))
    return xp.where(j <= i, at - j % chunk, -1)


def dual_chunk_attention(
    q,
    k,
    v,
    *,
    chunk,
    farthest,
    base=10000.0,
    frequencies=None,
    layout="interleaved",
    scale=None,
    return_weights=False,
):
    """Causal attention with rotary positions by `dual_chunk_positions`.

    Each query is rotated three times, for the keys of its chunk, of the chunk before, and of all earlier
    ones; each key once. So keys can be cached after their rotation. As long as no text is longer than
    ``chunk``, it is `attention` with `rope`. This is the explicit form, which holds all scores.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    v : array (..., Lk, dv)
        Queries and keys as they are before rotation. Where the lengths differ, the last query stands at
        the last key.
    chunk, farthest
        As in `dual_chunk_positions`.
    base, frequencies, layout
        As in `rope`.
    scale : float, optional
        ``1/sqrt(d)`` when left out.
    return_weights : bool
        Return the weights too.

    Returns
    -------
    out : array (..., Lq, dv)
        Zeros for a query before all keys.
    weights : array (..., Lq, Lk), if asked for

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if a size is out
        of its range.

    References
    ----------
    An et al. 2024, arXiv 2402.17463; `dual_chunk_positions` says how the codes count.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.ones((5, 2))
    >>> dual_chunk_attention(x, x, x, chunk=2, farthest=3).shape
    (5, 2)
    """
    chunk, farthest = _valid_sizes(chunk, farthest)
    xp, dtype, (q, k, v) = working_arrays(
        {"q": q, "k": k, "v": v}, {"q": (..., "Lq", "d"), "k": (..., "Lk", "d"), "v": (..., "Lk", "dv")}
    )
    if scale is not None:
        check_number(scale, "scale")
    rotation = {"base": base, "frequencies": frequencies, "layout": layout}
    i, j = aligned_positions(q.shape[-2], k.shape[-2], "end", q)
    k = xp.matrix_transpose(rope(k, j[0] % chunk, **rotation))
    q = q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    positions = _query_positions(xp, i[:, 0], chunk, farthest)
    scores = _nearest(xp, i, j, chunk, [rope(q, at, **rotation) @ k for at in positions])
    weights = softmax_off_by_one(xp.where(j <= i, scores, -math.inf), n=0)  # zeros, not NaN, in empty rows
    out = xp.astype(weights @ v, dtype, copy=False)
    return (out, xp.astype(weights, dtype, copy=False)) if return_weights else out


def _query_positions(xp, i, chunk, farthest):
    """Where queries stand for keys of their own chunk, of the chunk before, and of all earlier ones."""
    return i % chunk, xp.clip(i % chunk + chunk, None, farthest), xp.full_like(i, farthest)


def _nearest(xp, i, j, chunk, choices):
    """For each query and key the first, second or third choice, by how many chunks lie between them."""
    back = i // chunk - j // chunk
    return xp.where(back == 0, choices[0], xp.where(back == 1, choices[1], choices[2]))


def _valid_sizes(chunk, farthest):
    chunk, farthest = valid_length(chunk, "chunk"), valid_length(farthest, "farthest")
    if farthest < chunk:
        raise ValueError(
            f"farthest must be at least chunk, {chunk}, so that earlier chunks are not nearer than the "
            f"query's own; got {farthest}"
        )
    return chunk, farthest

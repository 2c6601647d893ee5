"""Grouped queries: several query heads look at the same head of keys and values."""

from attnlib.core.arrays import namespace
from attnlib.core.scaled_dot_product import attention, check_mask


def grouped_query_attention(q, k, v, mask=None, *, causal=False, scale=None, return_weights=False):
    """Attention in which consecutive query heads share one head of keys and values.

    Query head ``h`` attends with key head ``h // (Hq / Hkv)``: as if each key head stood ``Hq / Hkv``
    times in a row (``repeat_interleave``, not ``tile``), though nothing is copied. As many key heads
    as query heads are multi-head attention, a single one is multi-query attention.

    Parameters
    ----------
    q : array (..., Hq, Lq, d)
        ``Hq`` is a multiple of ``Hkv``.
    k : array (..., Hkv, Lk, d)
    v : array (..., Hkv, Lk, dv)
    mask : array, optional
        Broadcasts to ``(..., Hq, Lq, Lk)``. Boolean: ``True`` = may attend. Floating: added to the
        scaled scores.
    causal : bool
        Besides ``mask``, hide the keys after each query; aligned at the end.
    scale : float, optional
        ``1/sqrt(d)`` when left out.
    return_weights : bool
        Return the weights of all query heads too.

    Returns
    -------
    out : array (..., Hq, Lq, dv)
        Zeros for a query that may attend to nothing.
    weights : array (..., Hq, Lq, Lk), if asked for

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit.

    References
    ----------
    Ainslie et al. 2023, arXiv 2305.13245, section 2.2; Shazeer 2019, arXiv 1911.02150, for one key
    head. PyTorch's ``scaled_dot_product_attention`` calls it ``enable_gqa``.

    Examples
    --------
    >>> import numpy as np
    >>> q, k, v = np.zeros((4, 1, 2)), np.zeros((2, 1, 2)), np.array([[[7.0]], [[8.0]]])
    >>> grouped_query_attention(q, k, v)[:, 0, 0]
    array([7., 7., 8., 8.])
    """
    if mask is None and not return_weights and _is_one_plain_query(q, k, v, causal, scale):
        return _one_plain_query(q, k, v)
    xp = _check(q, k, v, mask)
    heads, kv_heads, length = q.shape[-3], k.shape[-3], q.shape[-2]
    if length == 1 and causal is True:
        causal = False  # the last query sees every key
    settings = {"causal": causal, "scale": scale, "return_weights": return_weights}
    if heads == kv_heads:
        return attention(q, k, v, mask, **settings)
    groups = (*q.shape[:-3], kv_heads, heads // kv_heads)
    if mask is not None:
        mask = _split_mask(xp, mask, groups)
    if length == 1:  # the queries of a group are rows of one matrix
        q = xp.reshape(q, (*groups, q.shape[-1]))
        mask = mask if mask is None or mask.ndim < 3 else mask[..., 0, :]
    else:  # a key head is seen by each query head of its group, and lies in memory once
        q = xp.reshape(q, (*groups, *q.shape[-2:]))
        k, v = (xp.broadcast_to(x[..., None, :, :], (*groups, *x.shape[-2:])) for x in (k, v))
    result = attention(q, k, v, mask, **settings)

    def joined(x):
        return xp.reshape(x, (*groups[:-2], heads, length, x.shape[-1]))

    return tuple(map(joined, result)) if return_weights else joined(result)


def _is_one_plain_query(q, k, v, causal, scale):
    """Whether this is the step of decoding on torch, where checks one by one take as long as the rest."""
    if type(q).__module__ != "torch" or not type(q) is type(k) is type(v):
        return False
    shape, kept = q.shape, k.shape
    return (
        len(shape) == len(kept) == 4 and shape[2] == 1 and 0 not in kept and kept == v.shape
        and shape[0] == kept[0] and shape[3] == kept[3] and shape[1] > 0 and shape[1] % kept[1] == 0
        and q.dtype == k.dtype == v.dtype and q.is_floating_point() and q.device == k.device == v.device
        and scale is None and (causal is True or causal is False)
    )  # fmt: skip


def _one_plain_query(q, k, v):
    import torch

    kernel = torch.nn.functional.scaled_dot_product_attention
    if q.shape[1] == k.shape[1]:
        return kernel(q, k, v)
    return kernel(q.reshape(k.shape[0], k.shape[1], -1, k.shape[3]), k, v).reshape(q.shape)


def _split_mask(xp, mask, groups):
    """A mask over all query heads as one over key heads and the query heads of each."""
    if mask.ndim < 3:
        return mask
    before, after = mask.shape[:-3], mask.shape[-2:]
    heads = (1, 1) if mask.shape[-3] == 1 else groups[-2:]
    return xp.reshape(mask, (*before, *heads, *after))


def _check(q, k, v, mask):
    """What `attention` will not ask, for it does not know of groups."""
    xp = namespace(q=q, k=k, v=v) if mask is None else namespace(q=q, k=k, v=v, mask=mask)
    before = q.shape[:-3]
    for name, array in (("q", q), ("k", k), ("v", v)):
        shape = array.shape
        if len(shape) < 3 or 0 in shape:
            raise ValueError(
                f"{name} must have shape (..., heads, length, features), not empty; got {tuple(shape)}"
            )
        if shape[:-3] != before:
            raise ValueError(
                f"{name} must have the axes of q before the heads, {tuple(before)}; got shape {tuple(shape)}"
            )
    if v.shape[-3] != k.shape[-3]:
        raise ValueError(f"v must have the {k.shape[-3]} heads of k; got shape {tuple(v.shape)}")
    if q.shape[-3] % k.shape[-3]:
        raise ValueError(
            f"the heads of q must be a multiple of those of k; got {q.shape[-3]} and {k.shape[-3]}"
        )
    if mask is not None:
        check_mask(xp, mask, (*q.shape[:-1], k.shape[-2]))
    return xp

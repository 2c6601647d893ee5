"""Scaled dot-product attention: scores, mask, softmax, weighted sum."""

import math
from numbers import Real

from array_api_compat import is_torch_namespace

from attnlib.core.arrays import float_dtype, kind_of, namespace, working_dtype
from attnlib.core.masks import causal_mask
from attnlib.core.softmaxes import shifted_exp


def attention(q, k, v, mask=None, *, causal=False, scale=None, return_weights=False):
    """Each query's average of the values, weighted by how well its key matches.

    ``softmax(q @ k.mT * scale) @ v``, with masked scores at minus infinity.

    Parameters
    ----------
    q : array (..., Lq, d)
        Queries.
    k : array (..., Lk, d)
        Keys.
    v : array (..., Lk, dv)
        Values. The leading axes of all three are equal: none, or batch, or batch and heads, ...
    mask : array, optional
        Broadcasts to ``(..., Lq, Lk)``. Boolean: ``True`` = may attend. Floating: added to the
        scaled scores. A mask of two axes is read as ``(Lq, Lk)``, also where a batch is as large as
        ``Lq``; padding needs its axes of length 1 (`padding_mask`).
    causal : bool
        Besides ``mask``, hide the keys after each query; aligned at the end (`causal_mask`).
    scale : float, optional
        ``1/sqrt(d)`` when left out.
    return_weights : bool
        Return the weights too. Without them torch tensors go through PyTorch's fused kernel, which
        never holds the weights, unless the mask itself needs a gradient. The answer is the same up to
        rounding, as long as what a mask hides is finite: the kernel multiplies it by zero. The kernel
        has first derivatives only; the form with weights has all.

    Returns
    -------
    out : array (..., Lq, dv)
        Zeros for a query that may attend to nothing.
    weights : array (..., Lq, Lk), if asked for
        Rows sum to 1, or to 0 where the query may attend to nothing.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1, equation 1. The paper does not treat a
    query with nothing to attend to; PyTorch's ``scaled_dot_product_attention`` gives zeros too,
    its ``nn.MultiheadAttention`` NaN, the Annotated Transformer a uniform average.

    Examples
    --------
    >>> import numpy as np
    >>> q, k, v = np.array([[20.0, 0.0]]), np.eye(2), np.array([[1.0], [5.0]])
    >>> attention(q, k, v).round(3)
    array([[1.]])
    """
    xp = check_attention(mask, causal, scale, q=q, k=k, v=v)
    dtype = float_dtype(xp, q=q, k=k, v=v)
    if is_torch_namespace(xp) and not return_weights:
        if not q.dtype == k.dtype == v.dtype == dtype:
            q, k, v = q.to(dtype), k.to(dtype), v.to(dtype)
        return _fused(xp, q, k, v, mask, causal, scale)
    q, k, v = (xp.astype(a, working_dtype(xp, dtype), copy=False) for a in (q, k, v))
    weights = _weights(xp, q, k, mask, causal, scale)
    out = xp.astype(weights @ v, dtype, copy=False)
    return (out, xp.astype(weights, dtype, copy=False)) if return_weights else out


def attention_weights(q, k, mask=None, *, causal=False, scale=None):
    """The weights alone: ``softmax(q @ k.mT * scale)`` with masked scores at minus infinity.

    Parameters
    ----------
    q, k, mask, causal, scale
        As in `attention`.

    Returns
    -------
    array (..., Lq, Lk)
        Rows sum to 1, or to 0 where the query may attend to nothing.

    Raises
    ------
    TypeError, ValueError
        As in `attention`.

    Examples
    --------
    >>> import numpy as np
    >>> attention_weights(np.zeros((1, 2)), np.eye(2))
    array([[0.5, 0.5]])
    """
    xp = check_attention(mask, causal, scale, q=q, k=k)
    dtype = float_dtype(xp, q=q, k=k)
    q, k = (xp.astype(a, working_dtype(xp, dtype), copy=False) for a in (q, k))
    return xp.astype(_weights(xp, q, k, mask, causal, scale), dtype, copy=False)


def _weights(xp, q, k, mask, causal, scale):
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = (q * scale) @ k.mT  # q is smaller than the scores: scale it
    torchs_own = is_torch_namespace(xp) and mask is None and (not causal or q.shape[-2] <= k.shape[-2])
    mask = _with_causal(xp, mask, causal, q, k)
    if mask is not None and kind_of(xp, mask.dtype) == "bool":
        scores = _hidden(xp, scores, ~mask)
    elif mask is not None:
        scores = scores + xp.astype(mask, scores.dtype, copy=False)
    if torchs_own:  # every query sees a key: one pass over the scores in place of five
        return scores.softmax(-1)
    e, total, _ = shifted_exp(xp, scores, -1)
    return e / xp.where(total == 0, 1, total)  # a row with nothing to attend to stays zero


def _hidden(xp, scores, hide):
    """Scores that nothing else holds yet, with minus infinity where ``hide`` is True.

    On torch in their place and unseen by autograd, which would go over them twice more: a hidden score has
    weight 0, and so does its gradient.
    """
    if not is_torch_namespace(xp):
        return xp.where(hide, -math.inf, scores)
    scores.detach().masked_fill_(hide, -math.inf)
    return scores


def _with_causal(xp, mask, causal, q, k):
    """One mask that says what ``mask`` and ``causal`` say together."""
    if not causal:
        return mask
    visible = causal_mask(q.shape[-2], k.shape[-2], like=q)
    if mask is None:
        return visible
    if kind_of(xp, mask.dtype) == "bool":
        return mask & visible
    return xp.where(visible, mask, -math.inf)


def _fused(xp, q, k, v, mask, causal, scale):
    """PyTorch's kernel. Its fast path wants four axes, its own causal flag, and values as wide as keys."""
    import torch

    kernel = torch.nn.functional.scaled_dot_product_attention
    flag = causal and mask is None and q.shape[-2] == k.shape[-2]  # elsewhere it aligns at the start
    mask = mask if flag else _with_causal(xp, mask, causal, q, k)
    if mask is None and q.ndim == 4 and q.shape[-1] == v.shape[-1]:
        return kernel(q, k, v, is_causal=flag, scale=scale)
    shape, dtype = (*q.shape[:-1], v.shape[-1]), q.dtype
    if mask is not None and kind_of(xp, mask.dtype) != "bool":
        # Half precision cannot hold the large negative numbers that such masks are made of.
        q, k, v = (x.to(working_dtype(xp, dtype)) for x in (q, k, v))
        mask = mask.to(q.dtype)
    if q.shape[-1] != v.shape[-1]:
        scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
        q, k, v = _equally_wide(q, k, v)
    if mask is not None:
        mask = mask[(None,) * (q.ndim - mask.ndim)]
        if any(n > 1 for n in mask.shape[:-3]):  # otherwise the kernel repeats it, without a copy
            mask = mask.expand(*q.shape[:-3], *mask.shape[-3:])
        mask = _four_axes(mask)
    out = kernel(_four_axes(q), _four_axes(k), _four_axes(v), mask, is_causal=flag, scale=scale)
    if out.shape == shape and out.dtype == dtype:
        return out
    return out[..., : shape[-1]].reshape(shape).to(dtype)


def _equally_wide(*arrays):
    """Zeros at the end of the features change neither a dot product nor the other features of a mean."""
    from torch.nn.functional import pad

    width = max(x.shape[-1] for x in arrays)
    return [x if x.shape[-1] == width else pad(x, (0, width - x.shape[-1])) for x in arrays]


def _four_axes(x):
    if x.ndim > 4:
        return x.flatten(0, x.ndim - 4)
    for _ in range(4 - x.ndim):
        x = x.unsqueeze(-3)
    return x


def check_attention(mask, causal, scale, **arrays):
    """The common namespace of arrays whose shapes fit; errors that name the argument."""
    xp = namespace(**arrays) if mask is None else namespace(**arrays, mask=mask)
    shapes = {name: tuple(array.shape) for name, array in arrays.items()}
    q, k, v = shapes["q"], shapes["k"], shapes.get("v")
    for name, shape in shapes.items():
        if len(shape) < 2:
            raise ValueError(
                f"{name} must have at least two axes, (..., length, features); got shape {shape}. "
                f"{name}[None, :] makes one row of a single vector."
            )
        if 0 in shape:
            raise ValueError(f"{name} must not be empty; got shape {shape}")
        if shape[:-2] != q[:-2]:
            raise ValueError(f"{name} must have the leading axes of q, {q[:-2]}; got shape {shape}")
    if k[-1] != q[-1]:
        raise ValueError(f"k must be as wide as q, {q[-1]} features; got shape {k}")
    if v is not None and v[-2] != k[-2]:
        raise ValueError(f"v must have one row for each of the {k[-2]} keys; got shape {v}")
    if mask is not None:
        check_mask(xp, mask, (*q[:-1], k[-2]))
    if not isinstance(causal, bool):
        raise TypeError(f"causal must be True or False; got {causal!r}")
    if scale is not None and (isinstance(scale, bool) or not isinstance(scale, Real)):
        raise TypeError(f"scale must be a number or None; got {scale!r}")
    if scale is not None and not abs(scale) < math.inf:
        raise ValueError(f"scale must be finite; got {scale!r}")
    return xp


def check_mask(xp, mask, scores_shape):
    if kind_of(xp, mask.dtype) not in ("bool", "real floating"):
        raise TypeError(
            f"mask must be boolean (True = may attend) or floating (added to the scores); "
            f"got dtype {mask.dtype}. mask != 0 makes it boolean."
        )
    shape = tuple(mask.shape)
    padded = (1,) * (len(scores_shape) - len(shape)) + shape
    if len(padded) > len(scores_shape) or any(
        m not in (1, n) for m, n in zip(padded, scores_shape, strict=True)
    ):
        raise ValueError(
            f"mask must broadcast to the scores, {scores_shape}; got shape {shape}. "
            "A padding mask (B, Lk) becomes mask[:, None, :] for (B, Lq, Lk) and mask[:, None, None, :] for "
            "(B, H, Lq, Lk)."
        )

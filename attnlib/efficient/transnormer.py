"""TransNormer: linear attention without a denominator, and softmax attention within blocks."""

from attnlib.core.arrays import valid_length
from attnlib.core.scaled_dot_product import attention
from attnlib.core.shapes import working_arrays
from attnlib.efficient.linear import Q_K_V, check_settings, elu_plus_one, linear_attention
from attnlib.efficient.windows import check_key_mask


def norm_attention(q, k, v, mask=None, *, causal=False, feature_map=elu_plus_one, eps=1e-6):
    """``RMSNorm(phi(q) @ (phi(k).mT @ v))``: the output is normed in place of the weights.

    A sum of weights near 0 makes the gradient of `linear_attention` as large as one likes. Here nothing is
    divided by it: how long ``phi(q)`` is changes nothing but by ``eps``, and each output has a mean square
    of 1.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    v : array (..., Lk, dv)
    mask, causal, feature_map
        As in `linear_attention`.
    eps : float >= 0
        Added to the mean square.

    Returns
    -------
    array (..., Lq, dv)
        Zeros for a query that sees nothing.

    Raises
    ------
    TypeError, ValueError
        As for `linear_attention`.

    References
    ----------
    Qin et al. 2022, arXiv 2210.10340, NormAttention. Their code (OpenNLPLab, a branch of fairseq) norms the
    heads together, after they are joined, with a learned weight, and its causal form makes all scores; its
    feature map is elu in the variant T1 and elu + 1 in T2. The norm of each head by itself, without a
    weight, is ours: for theirs, join the heads of `linear_attention` with ``normalize=False`` and apply an
    `RMSNorm`.

    Examples
    --------
    >>> import numpy as np
    >>> q, k, v = np.zeros((2, 2)), np.zeros((2, 2)), np.array([[3.0, 3.0], [-1.0, -3.0]])
    >>> norm_attention(q, k, v, causal=True).round(3)
    array([[1.   , 1.   ],
           [1.414, 0.   ]])
    """
    xp, dtype, (q, k, v) = working_arrays({"q": q, "k": k, "v": v}, Q_K_V)
    check_settings(eps=eps)
    out = linear_attention(q, k, v, mask, causal=causal, feature_map=feature_map, normalize=False)
    square = xp.mean(out * out, axis=-1, keepdims=True) + eps
    return xp.astype(out / xp.sqrt(xp.where(square == 0, 1, square)), dtype, copy=False)


def diag_attention(q, k, v, mask=None, *, block_size=64, causal=False, scale=None):
    """Softmax attention within blocks that do not overlap: nothing passes from one block to the next.

    What `attention` gives with the mask of `blocks`, at ``O(L * block_size)``.

    Parameters
    ----------
    q, k : array (..., L, d)
    v : array (..., L, dv)
    mask : bool array, optional
        Keys that may be seen at all, for padding: broadcasts to ``(..., 1, L)``, as `padding_mask` does.
    block_size : int >= 1
        The last block may be shorter.
    causal : bool
        Within a block, hide the keys after each query.
    scale : float, optional
        ``1/sqrt(d)`` when left out.

    Returns
    -------
    array (..., L, dv)
        Zeros for a query that may attend to nothing.

    Raises
    ------
    TypeError, ValueError
        As for `attention`; if ``block_size`` is not a positive integer.

    References
    ----------
    Qin et al. 2022, arXiv 2210.10340, DiagAttention: in the early layers, where linear attention spreads its
    weights over the whole sequence, and NormAttention in the later ones.

    Examples
    --------
    >>> import numpy as np
    >>> q, k, v = np.zeros((3, 2)), np.zeros((3, 2)), np.array([[3.0], [5.0], [10.0]])
    >>> diag_attention(q, k, v, block_size=2)[:, 0]
    array([ 4.,  4., 10.])
    """
    axes = {"q": (..., "L", "d"), "k": (..., "L", "d"), "v": (..., "L", "dv")}
    xp, dtype, (q, k, v) = working_arrays({"q": q, "k": k, "v": v}, axes)
    length, size = q.shape[-2], valid_length(block_size, "block_size")
    check_key_mask(mask, k)
    if mask is not None:
        mask = xp.matrix_transpose(mask)

    def within(start, stop, size):
        def blocked(x):
            return xp.reshape(x[..., start:stop, :], (*x.shape[:-2], -1, size, x.shape[-1]))

        seen = None if mask is None else xp.matrix_transpose(blocked(mask))
        out = attention(blocked(q), blocked(k), blocked(v), seen, causal=causal, scale=scale)
        return xp.reshape(out, (*q.shape[:-2], stop - start, v.shape[-1]))

    whole = length - length % size
    parts = [within(0, whole, size)] if whole else []
    if whole < length:
        parts.append(within(whole, length, length - whole))
    return xp.astype(xp.concat(parts, axis=-2), dtype, copy=False)

"""Talking heads: heads mix their scores before the softmax and their weights after it."""

import math

from attnlib.cases.masked import masked_softmax
from attnlib.core.arrays import namespace
from attnlib.core.scaled_dot_product import check_attention, check_mask
from attnlib.core.shapes import working_arrays

_AXES = {
    "q": (..., "Hk", "Lq", "d"),
    "k": (..., "Hk", "Lk", "d"),
    "v": (..., "Hv", "Lk", "dv"),
}


def talking_heads_attention(
    q, k, v, mix_scores, mix_weights, mask=None, *, causal=False, scale=None, return_weights=False
):
    """Attention whose heads are sums of other heads: of their scores, and again of their weights.

    ``A = softmax(mix_scores @ scores)`` and ``out = (mix_weights @ A) @ v``, where both products go over
    the heads, for each query and key by itself. With identities for both it is `attention`.

    Parameters
    ----------
    q : array (..., Hk, Lq, d)
    k : array (..., Hk, Lk, d)
    v : array (..., Hv, Lk, dv)
    mix_scores : array (H, Hk)
        Row ``h`` says how much of each head's scores is in those of head ``h``.
    mix_weights : array (Hv, H)
        Row ``h`` says how much of each head's weights is in those that meet the values of head ``h``. The
        three numbers of heads may differ.
    mask : array, optional
        Broadcasts to ``(..., H, Lq, Lk)``: what is hidden is hidden between the two mixings. Boolean:
        ``True`` = may attend. Floating: added to the mixed scores.
    causal, scale
        As in `attention`.
    return_weights : bool
        Return ``mix_weights @ A`` too.

    Returns
    -------
    out : array (..., Hv, Lq, dv)
        Zeros for a query that may attend to nothing.
    weights : array (..., Hv, Lq, Lk), if asked for
        A row sums to the sum of the row of ``mix_weights``, and may hold negative numbers.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit.

    References
    ----------
    Shazeer et al. 2020, arXiv 2003.02436, section 3; there the matrices are transposed, ``P_l`` (Hk, H) and
    ``P_w`` (H, Hv), and there is no scale. ``Attend`` of x-transformers adds what was mixed to the scores,
    so that its matrix and the identity together are ``mix_scores`` here; as its matrix starts as the
    identity, its scores start doubled. After the softmax it adds nothing.

    Examples
    --------
    >>> import numpy as np
    >>> q = k = np.eye(2)[:, None, :]    # two heads, one token
    >>> swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> talking_heads_attention(q, k, np.array([[[3.0]], [[5.0]]]), swap, 2 * swap)[:, 0, 0]
    array([ 6., 10.])
    """
    arrays = {"q": q, "k": k, "v": v, "mix_scores": mix_scores, "mix_weights": mix_weights}
    mixes = {"mix_scores": ("H", "Hk"), "mix_weights": ("Hv", "H")}
    xp, dtype, (q, k, v, mix_scores, mix_weights) = working_arrays(arrays, _AXES | mixes)
    check_attention(None, causal, scale, q=q, k=k)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    scores = _mixed(xp, mix_scores, (q * scale) @ k.mT)
    if mask is not None:
        namespace(q=q, mask=mask)
        check_mask(xp, mask, tuple(scores.shape))
    weights = _mixed(xp, mix_weights, masked_softmax(xp, scores, mask, causal))
    out = xp.astype(weights @ v, dtype, copy=False)
    return (out, xp.astype(weights, dtype, copy=False)) if return_weights else out


def _mixed(xp, mix, heads):
    """Sums over heads ``(..., H, Lq, Lk)``, each row of ``mix`` one sum."""
    return xp.moveaxis(xp.tensordot(mix, heads, axes=((1,), (heads.ndim - 3,))), 0, -3)

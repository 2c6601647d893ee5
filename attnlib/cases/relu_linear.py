"""Linear attention with the simplest feature map there is: what is negative counts as 0."""

from attnlib.core.shapes import working_arrays
from attnlib.efficient.linear import Q_K_V, linear_attention


def relu_linear_attention(q, k, v, mask=None, *, eps=1e-15):
    """``relu(q) @ (relu(k).mT @ v)``, divided by the sum of its weights: SANA's attention.

    ``out_i = relu(q_i) S / (relu(q_i) . z + eps)``, ``S = sum_j relu(k_j) v_j^T``, ``z = sum_j relu(k_j)``:
    `linear_attention` with another feature map and a smaller ``eps``. An image of ``N`` tokens takes
    ``O(N d dv)`` in place of ``O(N^2 (d + dv))``. What is negative in a query or in a key is thrown away, and
    a query without a positive entry sees nothing.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    v : array (..., Lk, dv)
        There is no ``1/sqrt(d)``: how long ``q`` is changes nothing.
    mask : bool array, optional
        Keys that count at all, for padding: broadcasts to ``(..., 1, Lk)``.
    eps : float >= 0
        Added to the denominator.

    Returns
    -------
    array (..., Lq, dv)
        Zeros for a query that sees nothing.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if ``mask`` is not
        one of keys, or ``eps`` out of its range.

    References
    ----------
    Xie et al. 2024, arXiv 2410.10629, SANA; ``SanaLinearAttnProcessor2_0`` of Hugging Face's diffusers. It
    computes in float32 whatever the type; so do we, but for float64. In half precision the sums over an
    image's tokens overflow, and ``eps`` is 0.

    Examples
    --------
    >>> import numpy as np
    >>> k, v = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[10.0], [20.0]])
    >>> q = np.array([[2.0, -2.0], [1.0, 3.0], [-1.0, -1.0]])
    >>> relu_linear_attention(q, k, v)[:, 0]
    array([10. , 17.5,  0. ])
    """
    xp, dtype, (q, k, v) = working_arrays({"q": q, "k": k, "v": v}, Q_K_V)
    out = linear_attention(q, k, v, mask, feature_map=lambda x: xp.where(x <= 0, 0, x), eps=eps)
    return xp.astype(out, dtype, copy=False)

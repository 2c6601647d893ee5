"""Score functions: how well a key matches a query, ``score(q, k, ...) -> (..., Lq, Lk)``.

Weights and biases lie as in ``torch.nn.Linear``, ``(out, in)``: ``W @ x`` for one vector.
"""

import math
from numbers import Real

from array_api_compat import is_array_api_obj

from attnlib.core.shapes import working_arrays


def dot_score(q, k):
    """``q . k``: large where directions agree and where vectors are long.

    Parameters
    ----------
    q : array (..., Lq, d)
        Queries.
    k : array (..., Lk, d)
        Keys. The leading axes are those of ``q``.

    Returns
    -------
    array (..., Lq, Lk)

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit.

    References
    ----------
    Luong, Pham and Manning 2015, arXiv 1508.04025, section 3.1, "dot".

    Examples
    --------
    >>> import numpy as np
    >>> dot_score(np.array([[1.0, 2.0]]), np.array([[3.0, 0.0], [0.0, 5.0]]))
    array([[ 3., 10.]])
    """
    xp, dtype, (q, k) = working_arrays({"q": q, "k": k}, _SAME_WIDTH)
    return xp.astype(q @ k.mT, dtype, copy=False)


def scaled_dot_score(q, k):
    """``q . k / sqrt(d)``: the dot product, kept at the same spread whatever the width.

    Parameters
    ----------
    q, k : array (..., Lq, d), (..., Lk, d)

    Returns
    -------
    array (..., Lq, Lk)

    Raises
    ------
    TypeError, ValueError
        As for `dot_score`.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1.

    Examples
    --------
    >>> import numpy as np
    >>> scaled_dot_score(np.ones((1, 4)), np.ones((2, 4)))
    array([[2., 2.]])
    """
    xp, dtype, (q, k) = working_arrays({"q": q, "k": k}, _SAME_WIDTH)
    return xp.astype((q / math.sqrt(q.shape[-1])) @ k.mT, dtype, copy=False)


def cosine_score(q, k):
    """``q . k / (|q| |k|)``: the angle alone, between -1 and 1; 0 where a vector is zero.

    With scores this small a softmax stays near uniform: divide them by a temperature below one.

    Parameters
    ----------
    q, k : array (..., Lq, d), (..., Lk, d)

    Returns
    -------
    array (..., Lq, Lk)
        A zero vector passes no gradient.

    Raises
    ------
    TypeError, ValueError
        As for `dot_score`.

    References
    ----------
    Graves, Wayne and Danihelka 2014, arXiv 1410.5401, equation 6. AllenNLP adds a tiny number to each
    length instead of treating zero apart.

    Examples
    --------
    >>> import numpy as np
    >>> cosine_score(np.array([[2.0, 0.0]]), np.array([[3.0, 3.0], [0.0, 0.0]])).round(3)
    array([[0.707, 0.   ]])
    """
    xp, dtype, (q, k) = working_arrays({"q": q, "k": k}, _SAME_WIDTH)
    return xp.astype(_unit(xp, q) @ _unit(xp, k).mT, dtype, copy=False)


def general_score(q, k, W, bias=0.0):
    """``q . W k + bias``: a dot product after a learned map, so that widths may differ.

    Parameters
    ----------
    q : array (..., Lq, dq)
    k : array (..., Lk, dk)
    W : array (dq, dk)
        Luong's ``W_a``, and AllenNLP's ``_weight_matrix`` as it is. OpenNMT maps the query and not the
        key, so that its ``W`` is ``linear_in.weight.T``.
    bias : number, or array of one number
        Common to all keys, so the softmax does not see it. The paper has none, AllenNLP has.

    Returns
    -------
    array (..., Lq, Lk)

    Raises
    ------
    TypeError, ValueError
        As for `dot_score`; if ``bias`` is not one number.

    References
    ----------
    Luong, Pham and Manning 2015, arXiv 1508.04025, section 3.1, "general". Also called
    bilinear, or multiplicative.

    Examples
    --------
    >>> import numpy as np
    >>> general_score(np.array([[1.0, 2.0]]), np.eye(3), np.array([[1.0, 2.0, 3.0], [0.0, 1.0, 0.0]]))
    array([[1., 4., 3.]])
    """
    arrays, bias = _with_number({"q": q, "k": k, "W": W}, bias)
    xp, dtype, (q, k, W, *given) = working_arrays(arrays, {**_ANY_WIDTH, "W": ("dq", "dk")})
    return xp.astype((q @ W) @ k.mT + _number(xp, bias, given), dtype, copy=False)


def additive_score(q, k, W, U, v, bias=None):
    """``v . tanh(W q + U k + bias)``: a network of one hidden layer looks at each pair.

    It holds ``Lq * Lk * da`` numbers at a time, where a dot product holds none but the scores.

    Parameters
    ----------
    q : array (..., Lq, dq)
    k : array (..., Lk, dk)
    W : array (da, dq)
    U : array (da, dk)
    v : array (da,)
    bias : array (da,), optional
        The paper has none. OpenNMT's ``mlp`` has one: ``W`` and ``bias`` are those of its
        ``linear_query``, ``U`` is ``linear_context.weight``, ``v`` is ``v.weight[0]``.

    Returns
    -------
    array (..., Lq, Lk)
        At most ``sum(|v|)`` in size.

    Raises
    ------
    TypeError, ValueError
        As for `dot_score`.

    References
    ----------
    Bahdanau, Cho and Bengio 2014, arXiv 1409.0473, appendix A.1.2.

    Examples
    --------
    >>> import numpy as np
    >>> W, U, v = np.eye(2), np.eye(2), np.array([1.0, -1.0])
    >>> additive_score(np.array([[1.0, 0.0]]), np.zeros((1, 2)), W, U, v).round(3)     # tanh 1
    array([[0.762]])
    """
    arrays = {"q": q, "k": k, "W": W, "U": U, "v": v}
    if bias is not None:
        arrays["bias"] = bias
    axes = {"W": ("da", "dq"), "U": ("da", "dk"), "v": ("da",), "bias": ("da",)}
    xp, dtype, (q, k, W, U, v, *given) = working_arrays(arrays, {**_ANY_WIDTH, **axes})
    return xp.astype(_one_hidden_layer(xp, q, k, W, U, v, *given), dtype, copy=False)


def concat_score(q, k, W, v, bias=None):
    """``v . tanh(W [q; k] + bias)``: `additive_score` with its two matrices side by side.

    Parameters
    ----------
    q : array (..., Lq, dq)
    k : array (..., Lk, dk)
    W : array (da, dq + dk)
        Its first ``dq`` columns meet the query.
    v : array (da,)
    bias : array (da,), optional
        The paper has none.

    Returns
    -------
    array (..., Lq, Lk)

    Raises
    ------
    TypeError, ValueError
        As for `dot_score`.

    References
    ----------
    Luong, Pham and Manning 2015, arXiv 1508.04025, section 3.1, "concat".

    Examples
    --------
    >>> import numpy as np
    >>> concat_score(np.array([[1.0]]), np.array([[1.0], [2.0]]), np.ones((1, 2)), np.ones(1)).round(3)
    array([[0.964, 0.995]])
    """
    arrays = {"q": q, "k": k, "W": W, "v": v}
    if bias is not None:
        arrays["bias"] = bias
    axes = {"W": ("da", "dq + dk"), "v": ("da",), "bias": ("da",)}
    xp, dtype, (q, k, W, v, *given) = working_arrays(arrays, {**_ANY_WIDTH, **axes})
    dq = q.shape[-1]
    return xp.astype(_one_hidden_layer(xp, q, k, W[:, :dq], W[:, dq:], v, *given), dtype, copy=False)


def linear_concat_score(q, k, w, bias=0.0):
    """``w . [q; k] + bias``: a concat score without its tanh, and **without use**.

    It is ``w_q . q + w_k . k + bias``. What belongs to the query is common to all keys, and the softmax
    takes it away: every query gets the same weights. Some texts name this one additive attention.

    Parameters
    ----------
    q : array (..., Lq, dq)
    k : array (..., Lk, dk)
    w : array (dq + dk,)
        Its first ``dq`` numbers meet the query.
    bias : number, or array of one number

    Returns
    -------
    array (..., Lq, Lk)
        Any two rows differ by a constant.

    Raises
    ------
    TypeError, ValueError
        As for `general_score`.

    References
    ----------
    AllenNLP's ``LinearAttention`` with the combination ``x,y``.

    Examples
    --------
    >>> import numpy as np
    >>> linear_concat_score(np.array([[0.0], [9.0]]), np.array([[1.0], [2.0]]), np.ones(2))
    array([[ 1.,  2.],
           [10., 11.]])
    """
    arrays, bias = _with_number({"q": q, "k": k, "w": w}, bias)
    xp, dtype, (q, k, w, *given) = working_arrays(arrays, {**_ANY_WIDTH, "w": ("dq + dk",)})
    dq = q.shape[-1]
    of_query, of_key = (q @ w[:dq])[..., :, None], (k @ w[dq:])[..., None, :]
    return xp.astype(of_query + of_key + _number(xp, bias, given), dtype, copy=False)


def location_score(q, k, W):
    """``W q``: one score for each place, whatever key stands there.

    Parameters
    ----------
    q : array (..., Lq, dq)
    k : array (..., Lk, dk)
        Only its length counts.
    W : array (n, dq)
        Row ``j`` scores place ``j``. Rows without a key are left out; keys without a row, from the
        ``n``-th on, score ``-inf`` and get no weight.

    Returns
    -------
    array (..., Lq, Lk)

    Raises
    ------
    TypeError, ValueError
        As for `dot_score`.

    References
    ----------
    Luong, Pham and Manning 2015, arXiv 1508.04025, section 3.1, equation 8, "location". Fitting ``W``
    to the number of keys before the softmax, so that weights still sum to one, is the choice made here.

    Examples
    --------
    >>> import numpy as np
    >>> location_score(np.array([[1.0, 2.0]]), np.zeros((3, 7)), np.eye(2))
    array([[  1.,   2., -inf]])
    """
    axes = {**_ANY_WIDTH, "W": ("n", "dq")}
    xp, dtype, (q, k, W) = working_arrays({"q": q, "k": k, "W": W}, axes)
    n_key = k.shape[-2]
    scores = q @ W[:n_key, :].mT
    missing = xp.full((*q.shape[:-1], n_key - scores.shape[-1]), -math.inf, dtype=q.dtype, device=q.device)
    return xp.astype(xp.concat([scores, missing], axis=-1), dtype, copy=False)


_SAME_WIDTH = {"q": (..., "Lq", "d"), "k": (..., "Lk", "d")}
_ANY_WIDTH = {"q": (..., "Lq", "dq"), "k": (..., "Lk", "dk")}


def _one_hidden_layer(xp, q, k, W, U, v, bias=0.0):
    of_query, of_key = q @ W.mT + bias, k @ U.mT
    return xp.tanh(of_query[..., :, None, :] + of_key[..., None, :, :]) @ v


def _unit(xp, x):
    """Rows of length 1; zero rows stay. The largest entry goes first, lest its square overflow."""
    largest = xp.max(xp.abs(x), axis=-1, keepdims=True)
    zero = largest == 0
    x = x / xp.where(zero, 1, largest)
    squares = xp.sum(x * x, axis=-1, keepdims=True)
    return xp.where(zero, 0, x / xp.sqrt(xp.where(zero, 1, squares)))


def _with_number(arrays, bias):
    """``bias`` among the arrays if it is one; otherwise apart, as a number."""
    if is_array_api_obj(bias):
        if math.prod(bias.shape) != 1:
            raise ValueError(f"bias must be one number; got shape {tuple(bias.shape)}")
        return {**arrays, "bias": bias}, 0.0
    if isinstance(bias, bool) or not isinstance(bias, Real):
        raise TypeError(f"bias must be one number; got {bias!r}")
    return arrays, float(bias)


def _number(xp, bias, given):
    return xp.reshape(given[0], ()) if given else bias

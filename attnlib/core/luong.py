"""What Luong et al. 2015 put after the scores: windows on the keys, and the attentional state."""

import math

from attnlib.core.arrays import valid_length, working_array
from attnlib.core.shapes import working_arrays
from attnlib.core.softmaxes import shifted_exp


def local_m_weights(scores, half_window):
    """Softmax over a window around the query's own place, ``t - D <= s <= t + D``.

    "Monotonic": query ``t`` is taken to belong to key ``t``, both counted from the start.

    Parameters
    ----------
    scores : array (..., Lq, Lk)
        ``-inf`` hides a key.
    half_window : int >= 1
        ``D``, 10 in the paper. What of the window lies outside the keys is ignored.

    Returns
    -------
    array (..., Lq, Lk)
        Rows sum to 1, or to 0 where the window holds no key.

    Raises
    ------
    TypeError, ValueError
        If ``scores`` is no array of real numbers of two or more axes, or is empty; if ``half_window``
        is no positive integer.

    References
    ----------
    Luong, Pham and Manning 2015, arXiv 1508.04025, section 3.2, "local-m".

    Examples
    --------
    >>> import numpy as np
    >>> local_m_weights(np.zeros((3, 4)), 1).round(2)
    array([[0.5 , 0.5 , 0.  , 0.  ],
           [0.33, 0.33, 0.33, 0.  ],
           [0.  , 0.33, 0.33, 0.33]])
    """
    xp, scores, dtype = _scores(scores)
    own = xp.arange(scores.shape[-2], dtype=scores.dtype, device=scores.device)
    weights, _ = _windowed_softmax(xp, scores, own, _float_length(half_window, "half_window"))
    return xp.astype(weights, dtype, copy=False)


def local_p_weights(scores, position, half_window):
    """Softmax over a window around a predicted place ``p``, times a Gaussian that peaks there.

    ``softmax(scores in [p - D, p + D]) * exp(-(s - p)**2 / (2 * (D / 2)**2))``. The Gaussian comes after
    the softmax, so that the weights sum to less than 1.

    Parameters
    ----------
    scores : array (..., Lq, Lk)
        ``-inf`` hides a key.
    position : array (..., Lq)
        ``p`` for each query, a real number; key ``s`` lies at ``s``, counted from 0
        (`predicted_position`). It has a gradient through the Gaussian alone: which keys lie in the
        window changes by jumps.
    half_window : int >= 1
        ``D``, 10 in the paper. What of the window lies outside the keys is ignored.

    Returns
    -------
    array (..., Lq, Lk)
        Rows sum to at most 1, to 0 where the window holds no key.

    Raises
    ------
    TypeError, ValueError
        As for `local_m_weights`; if ``position`` has not one number for each query.

    References
    ----------
    Luong, Pham and Manning 2015, arXiv 1508.04025, section 3.2, "local-p", equation 10.

    Examples
    --------
    >>> import numpy as np
    >>> local_p_weights(np.zeros((1, 4)), np.array([1.0]), 2).round(3)      # exp(-1/2) = 0.607
    array([[0.152, 0.25 , 0.152, 0.034]])
    """
    axes = {"scores": (..., "Lq", "Lk"), "position": (..., "Lq")}
    xp, dtype, (scores, position) = working_arrays({"scores": scores, "position": position}, axes)
    half_window = _float_length(half_window, "half_window")
    weights, distance = _windowed_softmax(xp, scores, position, half_window)
    gauss = xp.exp(-2 * (distance / half_window) ** 2)  # sigma = D / 2
    return xp.astype(weights * gauss, dtype, copy=False)


def predicted_position(q, n_key, W, v):
    """Where a query expects its key: ``n_key * sigmoid(v . tanh(W q))``.

    Parameters
    ----------
    q : array (..., Lq, dq)
    n_key : int >= 1
        The number of keys, ``S``.
    W : array (dp, dq)
    v : array (dp,)

    Returns
    -------
    array (..., Lq)
        Between 0 and ``n_key``, for `local_p_weights`.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if ``n_key`` is
        no positive integer.

    References
    ----------
    Luong, Pham and Manning 2015, arXiv 1508.04025, section 3.2, equation 9.

    Examples
    --------
    >>> import numpy as np
    >>> predicted_position(np.zeros((1, 2)), 8, np.eye(2), np.ones(2))
    array([4.])
    """
    axes = {"q": (..., "Lq", "dq"), "W": ("dp", "dq"), "v": ("dp",)}
    xp, dtype, (q, W, v) = working_arrays({"q": q, "W": W, "v": v}, axes)
    half = xp.tanh(q @ W.mT) @ v / 2
    sigmoid = (1 + xp.tanh(half)) / 2  # in this form no exponential overflows
    return xp.astype(_float_length(n_key, "n_key") * sigmoid, dtype, copy=False)


def attentional_state(context, q, W, bias=None, *, tanh=True):
    """What the decoder goes on with: ``tanh(W [context; q] + bias)``, the context first.

    Parameters
    ----------
    context : array (..., Lq, dv)
        The weighted average of the values, for each query.
    q : array (..., Lq, dq)
        The decoder's states ``h_t``.
    W : array (do, dv + dq)
        Luong's ``W_c``. Its first ``dv`` columns meet the context.
    bias : array (do,), optional
    tanh : bool
        Luong's ``dot``, ``general`` and ``concat`` have the tanh and no bias, and so has OpenNMT with
        ``dot`` and ``general``. Its ``mlp`` has a bias and no tanh: pass both.

    Returns
    -------
    array (..., Lq, do)

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if ``tanh`` is
        neither True nor False.

    References
    ----------
    Luong, Pham and Manning 2015, arXiv 1508.04025, section 3, equation 5. OpenNMT-py,
    ``onmt/modules/global_attention.py``: ``W`` and ``bias`` are those of its ``linear_out``.

    Examples
    --------
    >>> import numpy as np
    >>> attentional_state(np.array([[1.0]]), np.array([[5.0]]), np.array([[1.0, 0.0]])).round(3)
    array([[0.762]])
    """
    if not isinstance(tanh, bool):
        raise TypeError(f"tanh must be True or False; got {tanh!r}")
    arrays = {"context": context, "q": q, "W": W}
    if bias is not None:
        arrays["bias"] = bias
    axes = {"context": (..., "Lq", "dv"), "q": (..., "Lq", "dq"), "W": ("do", "dv + dq"), "bias": ("do",)}
    xp, dtype, (context, q, W, *given) = working_arrays(arrays, axes)
    state = xp.concat([context, q], axis=-1) @ W.mT
    state = state + given[0] if given else state
    return xp.astype(xp.tanh(state) if tanh else state, dtype, copy=False)


def _float_length(length, name):
    """A length as a float, which is what it is computed with."""
    try:
        return float(valid_length(length, name))
    except OverflowError:
        raise ValueError(
            f"{name} must be at most 1.8e308, the largest float; got a number of "
            f"{int(length).bit_length()} bits"
        ) from None


def _scores(scores):
    xp, scores, _, dtype = working_array(scores, -1, "scores")
    if scores.ndim < 2:
        raise ValueError(f"scores must have shape (..., Lq, Lk); got {tuple(scores.shape)}")
    return xp, scores, dtype


def _windowed_softmax(xp, scores, position, half_window):
    """Weights (..., Lq, Lk) that are zero far from the position (..., Lq), and each key's distance."""
    keys = xp.arange(scores.shape[-1], dtype=scores.dtype, device=scores.device)
    distance = keys - position[..., None]
    inside = xp.abs(distance) <= half_window
    e, total, _ = shifted_exp(xp, xp.where(inside, scores, -math.inf), -1)
    return e / xp.where(total == 0, 1, total), distance

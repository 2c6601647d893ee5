"""Polarity: products of two positive parts, or of two negative ones, apart from products of one of each."""

from numbers import Real

from attnlib.core.arrays import check_number
from attnlib.core.shapes import working_arrays
from attnlib.efficient.linear import Q_K_V, linear_attention, linear_attention_weights
from attnlib.efficient.windows import check_key_mask


def polarity_features(x, power=3.0):
    """``[relu(x)**power, relu(-x)**power]``: what is positive in ``x``, then what is negative.

    With ``power = 1``, and ``swap`` for exchanging the two halves, the products of features are those of
    which ``q . k`` is made: ``q . k = phi(q) . phi(k) - swap(phi(q)) . phi(k)``. Both are positive, and so
    may be weights; the second is what ``relu`` alone throws away. A larger power makes large entries stand
    out, and rows of weights more decided.

    Parameters
    ----------
    x : array (..., d)
        Real numbers.
    power : float > 0, or array
        An array broadcasts to ``x``: a power for each feature, ``(d,)``, or for each head's, ``(H, 1, d)``.

    Returns
    -------
    array (..., 2 d)
        At least 0. The slopes at 0 are 0, for ``x`` and for ``power``, where ``0 * log(0)`` would be NaN.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or ``power`` does not broadcast to ``x``.

    References
    ----------
    Meng et al. 2025, arXiv 2501.15061, PolaFormer, where a learned power is greater than 1.

    Examples
    --------
    >>> import numpy as np
    >>> polarity_features(np.array([2.0, -3.0, 0.0]), power=2).tolist()
    [4.0, 0.0, 0.0, 0.0, 9.0, 0.0]
    """
    xp, dtype, (x, power) = _checked({"x": x}, {"x": (..., "d")}, power)
    return xp.astype(_features(xp, x, power), dtype, copy=False)


def polarity_attention(q, k, v, power=3.0, mask=None, *, eps=1e-6):
    """Linear attention by polarity: one half of the values by like signs, the other by unlike signs.

    With ``phi`` the `polarity_features` and ``swap`` for exchanging their halves,
    ``[phi(q) (K.T v1) / (phi(q) . z + eps), swap(phi(q)) (K.T v2) / (swap(phi(q)) . z + eps)]``, where
    ``K = phi(k) / n``, ``z`` is the sum of its rows, and ``v1`` and ``v2`` are the halves of ``v``: the first
    half of the output is a mean of ``v1`` by the products of like signs, the second one of ``v2`` by those of
    unlike signs. Time grows with the length, and not with its square.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    v : array (..., Lk, dv)
        ``dv`` is even. There is no ``1/sqrt(d)``: how long ``q`` is changes nothing but by ``eps``.
    power : float > 0, or array
        As for `polarity_features`; an array broadcasts to ``q`` and to ``k``.
    mask : bool array, optional
        Keys that count at all, for padding: broadcasts to ``(..., 1, Lk)``.
    eps : float >= 0
        Added to a mean over the ``n`` keys that count, not to a sum.

    Returns
    -------
    array (..., Lq, dv)
        Zeros for a query that sees nothing, and for a half in which all its products are 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if ``v`` has no
        halves, ``mask`` is not one of keys, or a setting is out of its range.

    References
    ----------
    Meng et al. 2025, arXiv 2501.15061; ``PolaLinearAttention`` in ``models/pola_pvt.py`` of
    ZacharyMeng/PolaFormer, whose place of ``eps`` this is. The paper multiplies the halves by learned
    matrices; its code has a gate for them (`PolaLinearAttention`). The mask is ours: the code ignores its.

    Examples
    --------
    >>> import numpy as np
    >>> q, k = np.array([[1.0]]), np.array([[2.0], [-2.0]])
    >>> v = np.array([[10.0, 10.0], [20.0, 20.0]])
    >>> polarity_attention(q, k, v).round(2)    # like signs meet the first key, unlike signs the second
    array([[10., 20.]])
    """
    xp, dtype, (q, k, v, power) = _checked({"q": q, "k": k, "v": v}, Q_K_V, power)
    half, rest = divmod(v.shape[-1], 2)
    if rest:
        raise ValueError(f"v must have an even number of features, for two halves; got {v.shape[-1]}")
    like, unlike, k = _sides(xp, q, k, power, mask)
    settings = {"feature_map": None, "eps": eps}
    first = linear_attention(like, k, v[..., :half], mask, **settings)
    second = linear_attention(unlike, k, v[..., half:], mask, **settings)
    return xp.astype(xp.concat([first, second], axis=-1), dtype, copy=False)


def polarity_weights(q, k, power=3.0, mask=None, *, eps=1e-6):
    """The weights that `polarity_attention` never makes: those of like signs, and those of unlike signs.

    ``[like @ v1, unlike @ v2]`` is what `polarity_attention` gives, at the square of the length.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    power, mask, eps
        As for `polarity_attention`.

    Returns
    -------
    like, unlike : arrays (..., Lq, Lk)
        At least 0. Rows sum to 1, but for ``eps``, or to 0 where all products are 0.

    Raises
    ------
    TypeError, ValueError
        As for `polarity_attention`.

    References
    ----------
    Meng et al. 2025, arXiv 2501.15061.

    Examples
    --------
    >>> import numpy as np
    >>> like, unlike = polarity_weights(np.array([[1.0]]), np.array([[2.0], [-2.0]]))
    >>> like.round(2), unlike.round(2)
    (array([[1., 0.]]), array([[0., 1.]]))
    """
    xp, dtype, (q, k, power) = _checked({"q": q, "k": k}, {name: Q_K_V[name] for name in "qk"}, power)
    like, unlike, k = _sides(xp, q, k, power, mask)
    settings = {"feature_map": None, "eps": eps}
    both = (linear_attention_weights(side, k, mask, **settings) for side in (like, unlike))
    return tuple(xp.astype(weights, dtype, copy=False) for weights in both)


def _checked(arrays, axes, power):
    """The namespace, the type of the result, and the arrays and the power to compute with."""
    if isinstance(power, Real) or not hasattr(power, "shape"):
        check_number(power, "power")
        if not power > 0:
            raise ValueError(f"power must be greater than 0; got {power!r}")
        xp, dtype, arrays = working_arrays(arrays, axes)
        return xp, dtype, [*arrays, float(power)]
    xp, dtype, (*work, power) = working_arrays({**arrays, "power": power}, axes)
    for name in sorted(arrays.keys() - {"v"}):
        shape, got = tuple(arrays[name].shape), tuple(power.shape)
        if len(got) > len(shape) or any(
            p not in (1, n) for p, n in zip(got[::-1], shape[::-1], strict=False)
        ):
            raise ValueError(f"power must broadcast to {name}, of shape {shape}; got shape {got}")
    return xp, dtype, [*work, power]


def _features(xp, x, power):
    return xp.concat([_positive_power(xp, x, power), _positive_power(xp, -x, power)], axis=-1)


def _positive_power(xp, x, power):
    """``relu(x)**power``, without a power of 0, whose slopes are NaN."""
    none = x <= 0
    return xp.where(none, 0, xp.where(none, 1, x) ** power)


def _sides(xp, q, k, power, mask):
    """Features of the queries for like and for unlike signs, and of the keys, divided by their number."""
    check_key_mask(mask, k)
    q, k = _features(xp, q, power), _features(xp, k, power)
    half = q.shape[-1] // 2
    unlike = xp.concat([q[..., half:], q[..., :half]], axis=-1)
    if mask is None:
        return q, unlike, k / k.shape[-2]
    seen = xp.sum(xp.astype(mask, k.dtype), axis=-1, keepdims=True)
    return q, unlike, k / xp.where(seen == 0, 1, seen)

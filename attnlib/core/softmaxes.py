"""Softmax, its logarithm, log-sum-exp, and the softmax that sees its row one block at a time."""

import math
from numbers import Real
from sys import float_info

from attnlib.core.arrays import namespace, valid_length, working_array


def softmax(x, axis=-1, *, temperature=1.0):
    """Probabilities proportional to ``exp(x / temperature)`` along ``axis``.

    Subtracting the row's maximum leaves the quotient as it was and keeps every exponential at or
    below one, so none overflows.

    Parameters
    ----------
    x : array (..., n, ...)
        Real scores, none ``+inf``. ``-inf`` gives probability exactly 0.
    axis : int
    temperature : float > 0
        Below 1 sharpens towards the maximum, above 1 flattens towards uniform. A 0-d array does as
        well; a tensor, which may be learned, receives its gradient.

    Returns
    -------
    array, shape of ``x``
        Non-negative, sums to 1 along ``axis``. A slice that is ``-inf`` throughout has no softmax
        and is NaN (``attention`` gives such a row zeros).

    Raises
    ------
    TypeError, ValueError
        If ``x`` is not an array of real numbers, is empty, or has no such axis; if the temperature
        is not a positive number.

    References
    ----------
    Bridle 1990, "Training stochastic model recognition algorithms as networks can lead to maximum
    mutual information estimation of parameters" (the name); Goodfellow, Bengio and Courville 2016,
    *Deep Learning*, section 4.1 (the shift).

    Examples
    --------
    >>> import numpy as np
    >>> softmax(np.array([0.0, np.log(3.0)]))
    array([0.25, 0.75])
    """
    xp, x, axis, dtype = working_array(x, axis, "x")
    e, total, _ = shifted_exp(xp, x, axis, _valid_temperature(temperature, xp, x))
    return xp.astype(e / total, dtype, copy=False)


def log_softmax(x, axis=-1):
    """Natural logarithm of ``softmax(x, axis)``: ``x - logsumexp(x)``.

    Finite where the differences between entries are, however large; ``log(softmax(x))`` is not, for
    small probabilities round to zero.

    Parameters
    ----------
    x : array (..., n, ...)
    axis : int

    Returns
    -------
    array, shape of ``x``
        At most 0; NaN in a slice that is ``-inf`` throughout.

    Raises
    ------
    TypeError, ValueError
        As for `softmax`.

    References
    ----------
    Blanchard, Higham and Higham 2021, "Accurately computing the log-sum-exp and softmax functions",
    IMA Journal of Numerical Analysis 41(4).

    Examples
    --------
    >>> import numpy as np
    >>> log_softmax(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    """
    xp, x, axis, dtype = working_array(x, axis, "x")
    _, total, top = shifted_exp(xp, x, axis)
    return xp.astype(x - top - xp.log(total), dtype, copy=False)


def logsumexp(x, axis=-1, *, keepdims=False):
    """``log(sum(exp(x)))`` along ``axis``, without overflow.

    Parameters
    ----------
    x : array (..., n, ...)
    axis : int
    keepdims : bool
        Keep ``axis`` with length 1.

    Returns
    -------
    array, shape of ``x`` without ``axis``
        At least the maximum, at most the maximum plus ``log(n)``; ``-inf`` for a slice that is
        ``-inf`` throughout.

    Raises
    ------
    TypeError, ValueError
        As for `softmax`.

    References
    ----------
    Blanchard, Higham and Higham 2021, as for `log_softmax`.

    Examples
    --------
    >>> import numpy as np
    >>> float(logsumexp(np.array([1000.0, 1000.0])))
    1000.6931471805599
    """
    xp, x, axis, dtype = working_array(x, axis, "x")
    _, total, top = shifted_exp(xp, x, axis)
    empty = total == 0
    result = xp.where(empty, -math.inf, top + xp.log(xp.where(empty, 1, total)))
    if not keepdims:
        result = xp.squeeze(result, axis=axis)
    return xp.astype(result, dtype, copy=False)


def online_softmax(x, axis=-1, *, block_size=1):
    """``softmax(x, axis)`` with its maximum and its sum found together, in one pass over the scores.

    A running maximum ``m`` and a running sum ``s`` of ``exp(x - m)`` describe all that was read.
    When a larger score arrives, the old sum is rescaled by ``exp(m_old - m_new)``. A second reading
    writes the probabilities; the stable form needs a third one, for the maximum.

    Parameters
    ----------
    x : array (..., n, ...)
    axis : int
    block_size : int >= 1
        Scores read at a time; need not divide ``n``.

    Returns
    -------
    array, shape of ``x``

    Raises
    ------
    TypeError, ValueError
        As for `softmax`; if ``block_size`` is not a positive integer.

    References
    ----------
    Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", arXiv 1805.02867,
    algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> online_softmax(np.array([0.0, np.log(3.0)]))
    array([0.25, 0.75])
    """
    block_size = valid_length(block_size, "block_size")
    xp, x, axis, dtype = working_array(x, axis, "x")
    rows = xp.moveaxis(x, axis, -1)
    m, s = xp.full_like(rows[..., :1], -math.inf), xp.zeros_like(rows[..., :1])
    for start in range(0, rows.shape[-1], block_size):
        e, total, top = shifted_exp(xp, rows[..., start : start + block_size], -1)
        m, s = merge_sums(xp, m, s, xp.where(total == 0, -math.inf, top), total)
    p = xp.exp(rows - finite_shift(xp, m)) / s
    return xp.astype(xp.moveaxis(p, -1, axis), dtype, copy=False)


def merge_sums(xp, m1, s1, m2, s2):
    """Join two partial softmaxes, each its maximum and its sum of ``exp(x - maximum)``.

    A part in which every score was ``-inf`` has maximum ``-inf`` and sum 0, and changes nothing.
    """
    m = xp.maximum(m1, m2)
    shift = finite_shift(xp, m)
    return m, s1 * xp.exp(m1 - shift) + s2 * xp.exp(m2 - shift)


def shifted_exp(xp, x, axis, temperature=1.0):
    """``exp((x - top) / temperature)``, its sum, and the ``top`` that was subtracted.

    ``top`` is a constant for autograd: it cancels in whatever is computed from the three.
    """
    top = finite_shift(xp, xp.max(x, axis=axis, keepdims=True))
    shifted = x - top
    plain = isinstance(temperature, float) and temperature == 1
    e = xp.exp(shifted if plain else shifted / temperature)
    return e, xp.sum(e, axis=axis, keepdims=True), top


def finite_shift(xp, top):
    """A row's maximum as a number that may be subtracted: 0 where the whole row is ``-inf``.

    It is taken out of the graph to spare autograd the work; its gradients would cancel.
    """
    top = top.detach() if hasattr(top, "detach") else top
    return xp.where(top == -math.inf, 0, top)


def _valid_temperature(temperature, xp, x):
    """The temperature within the limits of the type of ``x``, outside which it would become 0 or inf.

    A tensor stays one, of that type, for it may be learned; all else becomes a float.
    """
    learned = hasattr(temperature, "detach")
    if learned:
        namespace(x=x, temperature=temperature)
    given = temperature.item() if getattr(temperature, "shape", None) == () else temperature
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"temperature must be a number; got {temperature!r}")
    try:
        number = float(given)
    except OverflowError:
        number = float_info.max if given > 0 else -float_info.max
    if not 0 < given < math.inf:
        raise ValueError(
            f"temperature must be a positive finite number; got {number:g}. Towards 0 the softmax "
            "becomes argmax, towards infinity it becomes uniform."
        )
    limits = xp.finfo(x.dtype)
    smallest, largest = float(limits.smallest_normal), float(limits.max)
    if learned:
        return xp.clip(xp.astype(temperature, x.dtype, copy=False), smallest, largest)
    return min(max(number, smallest), largest)

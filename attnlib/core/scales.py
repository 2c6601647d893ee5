"""What scores are multiplied by: rules for widths, and rules for lengths."""

import math

import numpy as np
from array_api_compat import is_array_api_obj

from attnlib.core.arrays import check_number, float_dtype, namespace


def mup_scale(d, multiplier=1.0):
    """Scale for keys and queries that are correlated, as training leaves them: ``sqrt(multiplier)/d``.

    With a fixed correlation the mean of ``q . k`` grows as ``d``, and ``1/d`` keeps it where it was;
    ``1/sqrt(d)``, the default of `attention`, is right for independent ones.

    Parameters
    ----------
    d : int or array of int, >= 1
        Width of a key.
    multiplier : float > 0
        The ``attn_mult`` of the authors' code: the width at which the rule agrees with ``1/sqrt(d)``.

    Returns
    -------
    float, or array of the shape of ``d``

    Raises
    ------
    TypeError, ValueError
        If ``d`` holds no numbers of at least 1, or ``multiplier`` is no positive number.

    References
    ----------
    Yang et al. 2022, arXiv 2203.03466, definition 4.1 (1/d attention); the root and the name of
    ``multiplier`` are those of their Transformer example.

    Examples
    --------
    >>> mup_scale(64), mup_scale(64, multiplier=64)
    (0.015625, 0.125)
    """
    d = _at_least(d, 1, "d")
    check_number(multiplier, "multiplier")
    if not 0 < multiplier < math.inf:
        raise ValueError(f"multiplier must be positive and finite; got {multiplier!r}")
    return _result(math.sqrt(multiplier) / d)


def log_n_scale(n, n_trained):
    """Factor for the scores at length ``n`` that lets entropy grow more slowly: ``ln n / ln n_trained``.

    Parameters
    ----------
    n : number or array, >= 1
        How many keys the query sees.
    n_trained : number > 1
        The length at which the factor is 1.

    Returns
    -------
    float, or array of the shape of ``n``
        0 at length 1, 1 at ``n_trained``, above 1 beyond. Qwen's code applies it beyond the trained
        length alone: take the maximum with 1 for that.

    Raises
    ------
    TypeError, ValueError
        If ``n`` holds no numbers of at least 1, or ``n_trained`` is no number above 1.

    References
    ----------
    Su 2021, https://spaces.ac.cn/archives/8823.

    Examples
    --------
    >>> log_n_scale(512, 512), round(log_n_scale(4096, 512), 3)
    (1.0, 1.333)
    """
    check_number(n_trained, "n_trained")
    if not 1 < n_trained < math.inf:
        raise ValueError(f"n_trained must be above 1 and finite; got {n_trained!r}")
    n = _at_least(n, 1, "n")
    return _result(namespace(n=n).log(n) / math.log(n_trained))


def llama4_scale(position, floor_scale=8192, attn_scale=0.1):
    """Factor for the query at a position: ``1 + attn_scale * ln(1 + floor((position + 1)/floor_scale))``.

    Parameters
    ----------
    position : int or array of int, >= 0
        Counted from 0.
    floor_scale : int >= 1
        The factor stays 1 up to here and rises in steps of this many positions.
    attn_scale : float
        How much it rises.

    Returns
    -------
    float, or array of the shape of ``position``

    Raises
    ------
    TypeError, ValueError
        If ``position`` holds no numbers of at least 0, or ``floor_scale`` is below 1.

    References
    ----------
    The attention temperature of Llama 4 as Hugging Face transformers computes it in
    ``models/llama4``, where the two settings have these names.

    Examples
    --------
    >>> llama4_scale(0), round(llama4_scale(100_000), 3)
    (1.0, 1.256)
    """
    check_number(floor_scale, "floor_scale")
    if not floor_scale >= 1:
        raise ValueError(f"floor_scale must be at least 1; got {floor_scale!r}")
    position = _at_least(position, 0, "position")
    xp = namespace(position=position)
    return _result(1 + attn_scale * xp.log1p(xp.floor((position + 1) / floor_scale)))


def yarn_scale(factor, mscale=1.0):
    """Factor for the scores of a model that is used beyond its length: ``(0.1 mscale ln(factor) + 1)**2``.

    Parameters
    ----------
    factor : float > 0
        How many times as long a text may be (`yarn_frequencies`).
    mscale : float
        How much of it is applied.

    Returns
    -------
    float
        1 where ``factor`` is at most 1.

    Raises
    ------
    TypeError, ValueError
        If ``factor`` is no positive number or ``mscale`` no number.

    References
    ----------
    Peng et al. 2023, arXiv 2309.00071: the ``1/t`` of its softmax, whose root multiplies queries and keys.
    ``mscale`` is a name of DeepSeek-V3's ``inference/model.py``, which applies the square where the length
    exceeds that of training.

    Examples
    --------
    >>> round(yarn_scale(40.0), 4), yarn_scale(1.0)
    (1.8739, 1.0)
    """
    check_number(factor, "factor")
    check_number(mscale, "mscale")
    if not 0 < factor < math.inf:
        raise ValueError(f"factor must be positive and finite; got {factor!r}")
    return (0.1 * mscale * math.log(max(factor, 1.0)) + 1) ** 2


def _at_least(value, least, name):
    """``value`` as a floating array, of its own library where it is an array."""
    array = value if is_array_api_obj(value) else np.asarray(value)
    if not is_array_api_obj(value) and array.dtype.kind not in "iuf":
        raise TypeError(f"{name} must be a number or an array of numbers; got {value!r}")
    xp = namespace(**{name: array})
    array = xp.astype(array, float_dtype(xp, **{name: array}))
    if not xp.all(array >= least):
        raise ValueError(f"{name} must be at least {least} throughout; got {float(xp.min(array)):g}")
    return array


def _result(array):
    """A plain number for a plain number."""
    return float(array) if isinstance(array, np.ndarray | np.generic) and not array.ndim else array

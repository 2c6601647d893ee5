"""Singular value fine-tuning: a weight keeps its directions, and each is made stronger or weaker."""

import math

from attnlib.core.arrays import check_number, float_dtype, namespace, working_dtype
from attnlib.core.shapes import working_arrays

FORMS = ("paper", "shipped", "mixture")


def singular_value_decomposition(weight):
    """``U, S, V`` with ``weight = U diag(S) V.T``: what a matrix hears, how loudly, and what it says.

    Column ``i`` of ``V`` is a direction of the input, column ``i`` of ``U`` the one of the output that it
    is turned into, ``S[i]`` its factor. ``V`` is not transposed, as in the public code, where NumPy's and
    torch's own functions give ``V.T``.

    Parameters
    ----------
    weight : array (..., out, in)

    Returns
    -------
    U : array (..., out, r)
        ``r = min(out, in)`` columns, orthonormal.
    S : array (..., r)
        At least 0, the greatest first.
    V : array (..., in, r)
        The signs of a column here and in ``U`` are arbitrary together, and columns of equal ``S`` may be
        mixed: compare products, never ``U`` or ``V``.

    Raises
    ------
    TypeError, ValueError
        If ``weight`` is no array of finite real numbers with two axes, or is empty.

    References
    ----------
    Eckart and Young 1936, "The approximation of one matrix by another of lower rank".

    Examples
    --------
    >>> import numpy as np
    >>> U, S, V = singular_value_decomposition(np.array([[0.0, 3.0], [2.0, 0.0]]))
    >>> S, (U * S @ V.T).round(6).tolist()
    (array([3., 2.]), [[0.0, 3.0], [2.0, 0.0]])
    """
    xp = namespace(weight=weight)
    dtype = float_dtype(xp, weight=weight)
    if weight.ndim < 2 or 0 in weight.shape:
        raise ValueError(f"weight must have shape (..., out, in), not empty; got {tuple(weight.shape)}")
    if not xp.all(xp.isfinite(weight)):  # on infinity, NumPy may never come back
        raise ValueError("weight must be finite, to have singular values; it holds infinity or NaN")
    U, S, Vt = xp.linalg.svd(xp.astype(weight, working_dtype(xp, dtype), copy=False), full_matrices=False)
    return tuple(xp.astype(x, dtype, copy=False) for x in (U, S, Vt.mT))


def scale_singular_values(weight, z, form="paper", *, max_mult=1.0):
    """A weight whose singular values are multiplied, each by a number of ``z``.

    ``"paper"``: ``W' = U diag(S z) V.T``. ``z`` of ones is the weight itself, zeros are no weight at all.

    ``"shipped"``: ``W' = U diag(S m) V.T * sum(S) / sum(S m)`` with ``m = max_mult * sigmoid(z)``. The sum of
    the singular values stays what it was, so only the ratios of the multipliers count: any constant ``z``
    is the weight itself, and ``max_mult`` cancels. A number added to ``z`` does not.

    ``"mixture"``: as shipped, with ``m = z``. So the public code reads a `mix_experts`: what it mixed is not
    passed through a sigmoid again.

    Parameters
    ----------
    weight : array (..., out, in), or (U, S, V)
        The parts, ``(..., out, r)``, ``(..., r)`` and ``(..., in, r)``, as `singular_value_decomposition`
        gives them: who calls often decomposes once.
    z : array (..., r)
        One number for each of ``r = min(out, in)`` singular values; of any sign.
    form : {"paper", "shipped", "mixture"}
    max_mult : float > 0
        The greatest multiplier of the shipped form, before its division.

    Returns
    -------
    array (..., out, in)
        Zeros where ``sum(S m)`` is 0.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, a shape does not fit, or a setting is out of its range.

    References
    ----------
    Sun, Cetin and Tang 2025, arXiv 2501.06252, section 3.1, has the paper's form. Its code,
    SakanaAI/self-adaptive-llms (``utils.py``, ``policy/base.py``), has the other two, and applies them to
    weights with ``mlp`` in their name.

    Examples
    --------
    >>> import numpy as np
    >>> W = np.diag([3.0, 1.0])
    >>> scale_singular_values(W, np.array([1.0, 2.0])).round(6).tolist()
    [[3.0, 0.0], [0.0, 2.0]]
    """
    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(map(repr, FORMS))}; got {form!r}")
    check_number(max_mult, "max_mult")
    if not 0 < max_mult < math.inf:
        raise ValueError(f"max_mult must be above 0 and finite; got {max_mult!r}")
    U, S, V = _parts(weight)
    axes = {"U": (..., "out", "r"), "S": (..., "r"), "V": (..., "in", "r"), "z": (..., "r")}
    xp, dtype, (U, S, V, z) = working_arrays({"U": U, "S": S, "V": V, "z": z}, axes)
    if form == "paper":
        scaled = S * z
    else:
        scaled = S * (max_mult * _sigmoid(xp, z) if form == "shipped" else z)
        total = xp.sum(scaled, axis=-1, keepdims=True)
        scaled = scaled * xp.sum(S, axis=-1, keepdims=True) / xp.where(total == 0, 1, total)
    return xp.astype((U * scaled[..., None, :]) @ V.mT, dtype, copy=False)


def _parts(weight):
    if not isinstance(weight, tuple | list):
        return singular_value_decomposition(weight)
    if len(weight) != 3:
        raise ValueError(f"weight must be one array or three, (U, S, V); got {len(weight)}")
    return weight


def _sigmoid(xp, x):
    return xp.exp(-xp.logaddexp(xp.zeros_like(x), -x))

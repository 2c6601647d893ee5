"""Performer: random features whose products are, on average, the softmax's exponentials."""

import numpy as np

from attnlib.core.arrays import valid_length, working_dtype
from attnlib.core.positions import made_like
from attnlib.core.sampling import generator_of
from attnlib.core.shapes import working_arrays
from attnlib.core.softmaxes import finite_shift
from attnlib.efficient.linear import Q_K_V, check_settings, linear_attention
from attnlib.efficient.windows import check_key_mask


def orthogonal_projection(n_features, d, seed=None, *, norms="chi", like=None):
    """Random directions, ``d`` at a time at right angles, each as likely to point anywhere.

    Parameters
    ----------
    n_features : int >= 1
        ``m``. Beyond ``d``, each further block of up to ``d`` rows is drawn by itself.
    d : int >= 1
        Features of a query.
    seed : int or numpy.random.Generator, optional
    norms : {"chi", "constant"}
        Lengths of the rows: those of vectors of ``d`` normal numbers, or ``sqrt(d)`` for all. The features
        estimate the exponential without bias for ``"chi"``.
    like : array, optional
        In its library, on its device and in its floating type, but float32 for half precision; NumPy and
        float64 when left out.

    Returns
    -------
    array (n_features, d)

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, ``seed`` neither of the two, or ``norms`` neither word.

    References
    ----------
    Choromanski et al. 2020, arXiv 2009.14794. lucidrains/performer-pytorch calls ``norms`` ``scaling``, 0 or
    1. Public implementations take the orthogonal factor of a QR decomposition as it comes
    (google-research/google-research#436, lucidrains/performer-pytorch#8): its signs are no coins, the first
    row of a block points to one half of the space only, and the estimate has a bias. Here each direction
    has the sign of R's diagonal, after Mezzadri 2007, arXiv math-ph/0609050.

    Examples
    --------
    >>> W = orthogonal_projection(4, 3, seed=0, norms="constant")
    >>> (W[:3] @ W[:3].T).round(6) + 0.0
    array([[3., 0., 0.],
           [0., 3., 0.],
           [0., 0., 3.]])
    """
    m, d = valid_length(n_features, "n_features"), valid_length(d, "d")
    if norms not in ("chi", "constant"):
        raise ValueError(f"norms must be 'chi' or 'constant'; got {norms!r}")
    rng = generator_of(seed)
    blocks = []
    for _ in range(0, m, d):
        directions, r = np.linalg.qr(rng.normal(size=(d, d)))
        blocks.append((directions * np.sign(np.diag(r))).T)
    lengths = np.linalg.norm(rng.normal(size=(m, d)), axis=1) if norms == "chi" else np.full(m, d**0.5)
    xp, on, dtype = made_like(like)
    rows = np.concatenate(blocks)[:m] * lengths[:, None]
    return xp.asarray(rows, dtype=working_dtype(xp, dtype), device=on)


def positive_features(x, projection, *, shift=None, eps=0.0):
    """``(exp(W y - |y|^2 / 2 - c) + eps) / sqrt(m)`` with ``y = x / d^(1/4)``: never negative.

    With ``eps=0``, and but for ``c``, the features of ``q`` and ``k`` have a product whose mean over random
    ``W`` is ``exp(q . k / sqrt(d))``.

    Parameters
    ----------
    x : array (..., L, d)
        Queries or keys.
    projection : array (m, d)
        ``W``, as of `orthogonal_projection`, or of normal numbers.
    shift : {None, "position", "sequence"}
        ``c``. None is 0: the exponent is at most ``|w|^2 / 2`` for each row ``w`` of ``W``. ``"position"``:
        the largest entry of ``W y`` at each position; for queries, where the quotient of attention loses it.
        ``"sequence"``: the largest of all positions, for keys, of which each must have the same ``c``.
        Gradients take it for a constant; without ``eps`` attention loses it, so they are exact.
    eps : float >= 0
        Keeps features from vanishing, at the price of a bias that depends on ``c``.

    Returns
    -------
    array (..., L, m)

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if ``shift`` is none
        of the three, or ``eps`` negative.

    References
    ----------
    Choromanski et al. 2020, arXiv 2009.14794, lemma 1. The shifts, and an ``eps`` of 1e-4, are those of
    lucidrains/performer-pytorch, ``softmax_kernel``.

    Examples
    --------
    >>> import numpy as np
    >>> W = orthogonal_projection(100_000, 2, seed=0)
    >>> q, k = (positive_features(np.array([[x, 0.0]]), W) for x in (0.5, 1.0))
    >>> bool(abs((q @ k.mT).item() - np.exp(0.5 / np.sqrt(2))) < 0.01)
    True
    """
    xp, dtype, projected, half = _projected(x, projection)
    check_settings(eps=eps)
    if shift not in (None, "position", "sequence"):
        raise ValueError(f"shift must be None, 'position' or 'sequence'; got {shift!r}")
    exponent = projected - half
    if shift is not None:
        axes = -1 if shift == "position" else (-2, -1)
        exponent = exponent - finite_shift(xp, xp.max(projected, axis=axes, keepdims=True))
    return xp.astype((xp.exp(exponent) + eps) / projection.shape[0] ** 0.5, dtype, copy=False)


def hyperbolic_features(x, projection):
    """``[exp(W y), exp(-W y)] exp(-|y|^2 / 2) / sqrt(2 m)``, ``y = x / d^(1/4)``: rows and their opposites.

    Parameters
    ----------
    x : array (..., L, d)
    projection : array (m, d)

    Returns
    -------
    array (..., L, 2 m)
        Positive; the same mean as of `positive_features`, from pairs whose errors partly cancel.

    Raises
    ------
    TypeError, ValueError
        As for `positive_features`.

    References
    ----------
    Choromanski et al. 2020, arXiv 2009.14794, lemma 1. ``Favor`` of idiap/fast-transformers, without its
    ``stabilize``; it draws ``W`` anew for each sequence.

    Examples
    --------
    >>> import numpy as np
    >>> hyperbolic_features(np.zeros((1, 2)), np.ones((2, 2)))
    array([[0.5, 0.5, 0.5, 0.5]])
    """
    xp, dtype, projected, half = _projected(x, projection)
    features = xp.concat([xp.exp(projected - half), xp.exp(-projected - half)], axis=-1)
    return xp.astype(features / (2 * projection.shape[0]) ** 0.5, dtype, copy=False)


def trigonometric_features(x, projection):
    """``[cos(W y), sin(W y)] exp(|y|^2 / 2) / sqrt(m)`` with ``y = x / d^(1/4)``: positive on average only.

    Parameters
    ----------
    x : array (..., L, d)
    projection : array (m, d)

    Returns
    -------
    array (..., L, 2 m)
        The same mean product as of `positive_features`. A single product may be negative, and its error is
        largest where the exponential is smallest: the sum of a row's weights may come near 0.

    Raises
    ------
    TypeError, ValueError
        As for `positive_features`.

    References
    ----------
    Choromanski et al. 2020, arXiv 2009.14794, who argue against them; the random Fourier features of Rahimi
    and Recht, with the factor that makes the Gaussian kernel the softmax's.

    Examples
    --------
    >>> import numpy as np
    >>> trigonometric_features(np.zeros((1, 2)), np.ones((1, 2)))
    array([[1., 0.]])
    """
    xp, dtype, projected, half = _projected(x, projection)
    features = xp.concat([xp.cos(projected), xp.sin(projected)], axis=-1) * xp.exp(half)
    return xp.astype(features / projection.shape[0] ** 0.5, dtype, copy=False)


def relu_features(x, projection, *, eps=1e-3):
    """``relu(W y) + eps`` with ``y = x / d^(1/4)``: another kernel than the softmax's, and no estimate of it.

    Parameters
    ----------
    x : array (..., L, d)
    projection : array (m, d)
    eps : float >= 0

    Returns
    -------
    array (..., L, m)

    Raises
    ------
    TypeError, ValueError
        As for `positive_features`.

    References
    ----------
    Choromanski et al. 2020, arXiv 2009.14794 (generalized attention); ``eps`` as in
    lucidrains/performer-pytorch, ``generalized_kernel``.

    Examples
    --------
    >>> import numpy as np
    >>> relu_features(np.array([[1.0], [-1.0]]), np.array([[2.0]]), eps=0.0)
    array([[2.],
           [0.]])
    """
    xp, dtype, projected, _ = _projected(x, projection)
    check_settings(eps=eps)
    return xp.astype(xp.where(projected > 0, projected, 0) + eps, dtype, copy=False)


def performer_attention(q, k, v, projection, mask=None, *, causal=False, strict=None):
    """Softmax attention estimated from random features, in time that grows with the length.

    `linear_attention` of `positive_features`. Its error falls with the square root of the number of
    features, and grows fast with the length of queries and keys.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    v : array (..., Lk, dv)
    projection : array (m, d)
        Of `orthogonal_projection`.
    mask : bool array, optional
        Keys that count at all, for padding: broadcasts to ``(..., 1, Lk)``, as `padding_mask` does.
    causal : bool
        Hide the keys after each query; aligned at the end.
    strict : bool, optional
        True: nothing is subtracted from the exponents of keys, and nothing added to features. False: the
        largest of the whole sequence is subtracted, and 1e-4 added, as public implementations do. That is
        safe for keys of any length, but the 1e-4 weighs more or less by that largest one: a causal output
        then depends, a little, on later keys. ``causal`` when left out.

    Returns
    -------
    array (..., Lq, dv)
        Zeros for a query that sees nothing.

    Raises
    ------
    TypeError, ValueError
        As for `linear_attention` and `positive_features`.

    References
    ----------
    Choromanski et al. 2020, arXiv 2009.14794; ``FastAttention`` of lucidrains/performer-pytorch, which, when
    causal, adds 1e-6 to the sums of features besides.

    Examples
    --------
    >>> import numpy as np
    >>> q, k, v = np.zeros((3, 2)), np.zeros((3, 2)), np.array([[3.0], [5.0], [10.0]])
    >>> performer_attention(q, k, v, orthogonal_projection(8, 2, seed=0), causal=True)[:, 0].round(6)
    array([3., 4., 6.])
    """
    xp, dtype, (q, k, v) = working_arrays({"q": q, "k": k, "v": v}, Q_K_V)
    strict = causal if strict is None else strict
    check_settings(causal=causal, strict=strict, eps=0.0)
    check_key_mask(mask, k)
    if mask is not None:
        k = xp.where(xp.matrix_transpose(mask), k, 0)  # no padding may be the largest of the sequence
    shift, eps = (None, 0.0) if strict else ("sequence", 1e-4)
    q = positive_features(q, projection, shift="position", eps=eps)
    k = positive_features(k, projection, shift=shift, eps=eps)
    out = linear_attention(q, k, v, mask, causal=causal, feature_map=None, eps=0.0)
    return xp.astype(out, dtype, copy=False)


def _projected(x, projection):
    """Namespace, type of the result, ``W y``, and ``|y|^2 / 2``."""
    axes = {"x": (..., "L", "d"), "projection": ("m", "d")}
    xp, dtype, (x, projection) = working_arrays({"x": x, "projection": projection}, axes)
    y = x * x.shape[-1] ** -0.25
    return xp, dtype, y @ projection.mT, xp.sum(y * y, axis=-1, keepdims=True) / 2

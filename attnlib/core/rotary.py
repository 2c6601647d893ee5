"""Positions by rotation: pairs of features turn with the position, so that scores see distances alone."""

import math

import numpy as np

from attnlib.core.arrays import check_number, float_dtype, kind_of, namespace, valid_length, working_dtype
from attnlib.core.positions import check_layout, made_like, pair_frequencies


def rope(x, positions, base=10000.0, *, frequencies=None, layout="interleaved"):
    """Rotate each pair of features by an angle that grows with the position (rotary positions, RoPE).

    Pair ``i`` of a row at position ``p`` turns by ``angle = p * base**(-2i/d)``, counter-clockwise:
    ``(a, b)`` becomes ``(a cos - b sin, a sin + b cos)``. Lengths stay. The product of a rotated
    query and a rotated key depends on their positions through the distance alone; values are not
    rotated.

    Parameters
    ----------
    x : array (..., L, d)
        Queries or keys; ``d`` is even.
    positions : integer array (L,), or (B, L), ...
        Where each row stands, counted from anywhere. Axes before ``L`` are the first of ``x``, so
        that ``(B, L)`` gives each sample its own positions, for ``x`` with heads or without.
    base : float > 0
        10000 in the paper, 500000 in Llama 3.
    frequencies : array (d / 2,), optional
        Radians per position for each pair, in place of ``base**(-2i/d)`` (`llama3_rope_scaling`).
    layout : {"interleaved", "halves"}
        Which features are a pair: ``"interleaved"`` 2i and 2i + 1, as in the paper and in Meta's
        Llama; ``"halves"`` i and i + d/2, as in Hugging Face's Llama (``rotate_half``). Weights that
        were trained for one give nonsense in the other; `rope_permutation` converts them.

    Returns
    -------
    array, shape of ``x``
        Features in the same order. Angles of half precision are computed in float32.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is no array of real numbers with an even number of features, ``positions`` do not
        hold integers, or a shape does not fit.

    References
    ----------
    Su et al. 2021, arXiv 2104.09864, section 3.2.2, equations 14 to 16. Meta's code takes the pairs
    for complex numbers, and multiplies by ``exp(1j * angle)``: the same.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, 0.0, 1.0, 0.0]])
    >>> rope(x, np.array([1])).round(2)
    array([[0.54, 0.84, 1.  , 0.01]])
    """
    optional = {} if frequencies is None else {"frequencies": frequencies}
    xp = namespace(x=x, positions=positions, **optional)
    dtype = float_dtype(xp, x=x)
    work = working_dtype(xp, dtype)
    _check(xp, x, positions, layout)
    if frequencies is None:
        frequencies = rope_frequencies(x.shape[-1], base, like=x)
    _check_frequencies(xp, frequencies, x)

    before, L = tuple(positions.shape[:-1]), x.shape[-2]
    p = xp.reshape(positions, (*before, *(1,) * (x.ndim - positions.ndim - 1), L, 1))
    angles = xp.astype(p, work) * xp.astype(frequencies, work, copy=False)  # (..., L, d / 2)
    cos, sin = xp.cos(angles), xp.sin(angles)

    x, half = xp.astype(x, work, copy=False), x.shape[-1] // 2
    interleaved = layout == "interleaved"
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])
    rotated = [a * cos - b * sin, a * sin + b * cos]
    out = xp.reshape(xp.stack(rotated, axis=-1), x.shape) if interleaved else xp.concat(rotated, axis=-1)
    return xp.astype(out, dtype, copy=False)


def rope_frequencies(d, base=10000.0, *, like=None):
    """How far each pair of features turns from one position to the next: ``base**(-2i/d)`` radians.

    Parameters
    ----------
    d : int >= 2
        Features of a query or a key, an even number.
    base : float > 0
        10000 in the paper, 500000 in Llama 3.
    like : array, optional
        They are made in this array's library, on its device and in its floating type, but float32
        for half precision; NumPy and float64 when left out.

    Returns
    -------
    array (d / 2,)
        From 1 downwards where ``base`` is above 1.

    Raises
    ------
    TypeError, ValueError
        If ``d`` is not a positive even integer or ``base`` no positive number.

    References
    ----------
    Su et al. 2021, arXiv 2104.09864, section 3.2.2; there ``i`` counts from 1.

    Examples
    --------
    >>> rope_frequencies(4)
    array([1.  , 0.01])
    """
    d = _even(d)
    xp, on, dtype = made_like(like)
    return pair_frequencies(xp, d, base, working_dtype(xp, dtype), on)


def llama3_rope_scaling(frequencies, *, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                        original_max_position_embeddings=8192):
    """Slow the slow pairs down for texts longer than those of training, as Llama 3.1 does.

    A pair that turns at least ``high_freq_factor`` times within the original length keeps its
    frequency ``f``; one that turns at most ``low_freq_factor`` times gets ``f / factor``; between
    them, the share of ``f`` rises linearly with the turns, ``f * original length / (2 pi)``.

    Parameters
    ----------
    frequencies : array
        Radians per position (`rope_frequencies`).
    factor : float > 0
        8 in Llama 3.1, 32 in Llama 3.2.
    low_freq_factor, high_freq_factor : float
        Turns within the original length; the second is greater.
    original_max_position_embeddings : int
        The length up to which the model was trained before.

    Returns
    -------
    array, shape of ``frequencies``

    Raises
    ------
    TypeError, ValueError
        If ``frequencies`` is no array of real numbers, or a setting is out of its range.

    References
    ----------
    ``apply_scaling`` in ``models/llama3/model.py`` of meta-llama/llama-models, which speaks of wavelengths,
    ``2 pi / f``. The settings have the names of Hugging Face's ``rope_scaling``.

    Examples
    --------
    >>> import numpy as np
    >>> bool(np.allclose(llama3_rope_scaling(np.array([1.0, 1e-4])), [1, 1e-4 / 8]))
    True
    """
    _check_positive(
        factor=factor, low_freq_factor=low_freq_factor, high_freq_factor=high_freq_factor,
        original_max_position_embeddings=original_max_position_embeddings,
    )  # fmt: skip
    if not low_freq_factor < high_freq_factor:
        raise ValueError(
            f"low_freq_factor must be below high_freq_factor; got {low_freq_factor} and {high_freq_factor}"
        )
    xp = namespace(frequencies=frequencies)
    dtype = float_dtype(xp, frequencies=frequencies)
    f = xp.astype(frequencies, working_dtype(xp, dtype), copy=False)
    turns = f * (float(original_max_position_embeddings) / (2 * math.pi))
    kept = xp.clip((turns - float(low_freq_factor)) / float(high_freq_factor - low_freq_factor), 0.0, 1.0)
    return xp.astype(f * (kept + (1 - kept) / float(factor)), dtype, copy=False)


def yarn_frequencies(d, base=10000.0, *, factor, original_max_position_embeddings=4096, beta_fast=32.0,
                     beta_slow=1.0, like=None):
    """Frequencies for a text ``factor`` times as long as those of training (YaRN).

    Pair ``i`` turns ``r`` times within the original length ``L`` where
    ``i = d ln(L / (2 pi r)) / (2 ln base)``. Pairs up to the one that turns ``beta_fast`` times keep
    ``f = base**(-2i/d)``; from the one that turns ``beta_slow`` times on they get ``f / factor``; between
    the two the share of ``f`` falls linearly with ``i``. The first end is rounded down, the second up.

    Parameters
    ----------
    d : int >= 2
        Features of a query or a key that are rotated, an even number.
    base : float > 1
    factor : float > 0
        40 in DeepSeek-V3.
    original_max_position_embeddings : int
        The length up to which the model was trained before.
    beta_fast, beta_slow : float > 0
        Turns within the original length; the first is greater.
    like : array, optional
        As in `rope_frequencies`.

    Returns
    -------
    array (d / 2,)

    Raises
    ------
    TypeError, ValueError
        If ``d`` is not a positive even integer, or a setting is out of its range.

    References
    ----------
    Peng et al. 2023, arXiv 2309.00071, whose ramp is linear in the turns, as in `llama3_rope_scaling`; the
    authors' code has this one, and with it DeepSeek-V3's ``precompute_freqs_cis`` and Hugging Face's
    ``rope_scaling`` of type yarn. `yarn_scale` is the other half of the method.

    Examples
    --------
    >>> f = yarn_frequencies(64, factor=40.0)
    >>> (f / rope_frequencies(64))[[0, 15, 31]].round(3)    # kept, between, slowed
    array([1.   , 0.625, 0.025])
    """
    _check_positive(
        factor=factor, original_max_position_embeddings=original_max_position_embeddings,
        beta_fast=beta_fast, beta_slow=beta_slow,
    )  # fmt: skip
    if not beta_slow < beta_fast:
        raise ValueError(f"beta_slow must be below beta_fast; got {beta_slow} and {beta_fast}")
    f = rope_frequencies(d, base, like=like)
    if not base > 1:
        raise ValueError(f"base must be above 1, for later pairs to turn more slowly; got {base!r}")

    def pair_that_turns(times):
        return d * math.log(original_max_position_embeddings / (2 * math.pi * times)) / (2 * math.log(base))

    xp = namespace(f=f)
    low = max(math.floor(pair_that_turns(beta_fast)), 0)
    high = max(min(math.ceil(pair_that_turns(beta_slow)), d - 1), low + 1e-3)  # no length: a step
    i = xp.arange(d // 2, dtype=f.dtype, device=f.device)
    slowed = xp.clip((i - low) / (high - low), 0.0, 1.0)
    return f * (1 - slowed + slowed / float(factor))


def rope_permutation(d, n_heads=1, *, to="halves"):
    """The order that turns one layout of the pairs into the other.

    Taking features in this order, ``x[..., order]``, converts queries and keys; taking rows in it,
    ``w[order]``, converts a checkpoint's query and key projections ``(n_heads * d, in)`` and their
    biases. For ``to="halves"`` that is ``w.view(n_heads, d/2, 2, in).transpose(1, 2)``, flattened
    again. Scores stay as they were when queries and keys are both converted.

    Parameters
    ----------
    d : int >= 2
        Features of one head, an even number.
    n_heads : int >= 1
        Heads one after the other; the key projection may have fewer than the query projection.
    to : {"halves", "interleaved"}
        The layout that comes out; the other one goes in. Either undoes the other.

    Returns
    -------
    integer NumPy array (n_heads * d,)
        Indexes NumPy arrays and torch tensors alike.

    Raises
    ------
    TypeError, ValueError
        If ``d`` is not a positive even integer, ``n_heads`` not a positive integer, or ``to``
        neither word.

    References
    ----------
    ``permute`` in Hugging Face transformers' ``convert_llama_weights_to_hf.py``.

    Examples
    --------
    >>> rope_permutation(6)
    array([0, 2, 4, 1, 3, 5])
    >>> rope_permutation(6, to="interleaved")
    array([0, 3, 1, 4, 2, 5])
    """
    d, n_heads = _even(d), valid_length(n_heads, "n_heads")
    check_layout(to, "to")
    pairs = (d // 2, 2) if to == "halves" else (2, d // 2)
    return np.arange(n_heads * d).reshape(n_heads, *pairs).mT.reshape(-1)


def _even(d):
    d = valid_length(d, "d")
    if d % 2:
        raise ValueError(f"d must be even, for features rotate in pairs; got {d}")
    return d


def _check_positive(**settings):
    for name, value in settings.items():
        check_number(value, name)
        if not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite; got {value!r}")


def _check(xp, x, positions, layout):
    shape = tuple(x.shape)
    if len(shape) < 2 or 0 in shape:
        raise ValueError(f"x must have shape (..., length, features), not empty; got {shape}")
    if shape[-1] % 2:
        raise ValueError(f"x must have an even number of features, for they rotate in pairs; got {shape}")
    if kind_of(xp, positions.dtype) != "integral":
        raise TypeError(f"positions must hold integers; got dtype {positions.dtype}")
    got = tuple(positions.shape)
    if (
        not 1 <= len(got) < len(shape)
        or got[-1] != shape[-2]
        or any(m not in (1, n) for m, n in zip(got[:-1], shape, strict=False))
    ):
        raise ValueError(
            f"positions must have shape ({shape[-2]},), one for each row of x, or first axes of x before "
            f"that; got {got} for x of shape {shape}"
        )
    check_layout(layout)


def _check_frequencies(xp, frequencies, x):
    wanted = (x.shape[-1] // 2,)
    if tuple(frequencies.shape) != wanted:
        raise ValueError(
            f"frequencies must have shape {wanted}, one for each pair of features of x; "
            f"got {tuple(frequencies.shape)}"
        )
    float_dtype(xp, frequencies=frequencies)

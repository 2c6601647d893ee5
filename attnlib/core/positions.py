"""Positions by addition: sinusoids that are added to embeddings, linear biases added to scores.

Positions by rotation are in `rotary`, positions that are learned in ``layers/positions.py``.
"""

import math

import numpy as np
from array_api_compat import device

from attnlib.core.arrays import check_number, float_dtype, namespace, valid_length, working_dtype


def sinusoidal_positions(n_pos, d_model, base=10000.0, *, layout="interleaved", like=None):
    """A vector for each position, made of sines and cosines of falling frequency.

    ``PE[p, 2i] = sin(p / base**(2i/d_model))`` and ``PE[p, 2i + 1] = cos(p / base**(2i/d_model))``.
    The vector of position ``p + k`` is a fixed linear map of that of ``p``: each pair is rotated by
    an angle that depends on ``k`` alone.

    Parameters
    ----------
    n_pos : int >= 1
        Positions ``0 .. n_pos - 1``.
    d_model : int >= 1
        Where it is odd, the last sine has no cosine.
    base : float > 0
        The slowest pairs take almost ``2 pi base`` positions for one turn.
    layout : {"interleaved", "halves"}
        ``"interleaved"``: sines and cosines take turns. ``"halves"``: the same columns, first all
        sines, then all cosines.
    like : array, optional
        The table is made in this array's library, on its device and in its floating type; NumPy and
        float64 when left out.

    Returns
    -------
    array (n_pos, d_model)

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, ``base`` no positive number, or ``layout`` neither word.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.5. Their own code, tensor2tensor's
    ``get_timing_signal_1d``, differs in three ways: it lays the columns in halves, its exponents are
    ``i / (d_model//2 - 1)``, so that the last one is 1, and an odd last column is zero. Marian in
    Hugging Face transformers has the halves with the paper's exponents, as here.

    Examples
    --------
    >>> sinusoidal_positions(2, 4).round(2)
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.84, 0.54, 0.01, 1.  ]])
    """
    n_pos, d_model = valid_length(n_pos, "n_pos"), valid_length(d_model, "d_model")
    check_layout(layout)
    xp, on, dtype = made_like(like)
    work = working_dtype(xp, dtype)
    p = xp.arange(n_pos, dtype=work, device=on)
    angles = p[:, None] * pair_frequencies(xp, d_model, base, work, on)  # (n_pos, ceil(d_model / 2))
    sines, cosines = xp.sin(angles), xp.cos(angles)
    if layout == "halves":
        table = xp.concat([sines, cosines[:, : d_model // 2]], axis=-1)
    else:
        table = xp.reshape(xp.stack([sines, cosines], axis=-1), (n_pos, -1))[:, :d_model]
    return xp.astype(table, dtype, copy=False)


def alibi_slopes(n_heads, *, like=None):
    """How fast each head's scores fall with the distance: ``2**(-8h/H)`` for head ``h = 1 .. H``.

    Parameters
    ----------
    n_heads : int >= 1
        ``H``. Where it is no power of two: the slopes for the power below, then the first, third,
        fifth ... slope for the power above, until there are enough.
    like : array, optional
        As in `sinusoidal_positions`, but float32 for half precision.

    Returns
    -------
    array (n_heads,)
        Positive, below 1.

    Raises
    ------
    TypeError, ValueError
        If ``n_heads`` is not a positive integer.

    References
    ----------
    Press, Smith and Lewis 2021, arXiv 2108.12409, section 3. The paper gives ``2**(-8h/n)`` for any
    ``n``; the rule for other numbers than powers of two is that of the authors' code
    (``get_slopes``), which published models follow.

    Examples
    --------
    >>> alibi_slopes(3)
    array([0.0625    , 0.00390625, 0.25      ])
    """
    n_heads = valid_length(n_heads, "n_heads")
    power = 1 << (n_heads.bit_length() - 1)  # the largest power of two that is not above
    exponents = [8 * h / power for h in range(1, power + 1)]
    between = [8 * h / (2 * power) for h in range(1, 2 * power, 2)]
    xp, on, dtype = made_like(like)
    exponents = (exponents + between)[:n_heads]
    return 2.0 ** -xp.asarray(exponents, dtype=working_dtype(xp, dtype), device=on)


def alibi_bias(n_heads, n_query, n_key=None, *, like=None):
    """What to add to the scores so that distant keys count less: ``slope * (j - i)`` for a key ``j <= i``.

    It is a floating mask for `attention`, which adds it to the scaled scores. It hides nothing: ask
    for ``causal=True`` besides, as the paper does.

    Parameters
    ----------
    n_heads : int >= 1
    n_query : int >= 1
    n_key : int >= 1, optional
        As many as queries when left out. Where the lengths differ, the last query stands at the last
        key, as in `causal_mask`.
    like : array, optional
        As in `alibi_slopes`: float32 for half precision, which cannot tell great distances apart.

    Returns
    -------
    array (n_heads, n_query, n_key)
        ``-slope * abs(j - i)``, 0 where a query meets its own key.

    Raises
    ------
    TypeError, ValueError
        If a number is not a positive integer.

    References
    ----------
    Press, Smith and Lewis 2021, arXiv 2108.12409, section 3. The paper treats keys up to the query
    alone; for later ones, the form with equal penalties on both sides is what the first author
    proposes for encoders (issue 5 of the paper's repository). Their code, and BLOOM's and Falcon's,
    add ``slope * j`` without ``- slope * i``: under a causal mask the softmax is the same.

    Examples
    --------
    >>> alibi_bias(1, 2, 3) * 2**8
    array([[[-1.,  0., -1.],
            [-2., -1.,  0.]]])
    """
    n_query = valid_length(n_query, "n_query")
    n_key = n_query if n_key is None else valid_length(n_key, "n_key")
    slopes = alibi_slopes(n_heads, like=like)
    xp = namespace(slopes=slopes)
    j = xp.arange(n_key, device=slopes.device)[None, :]
    i = xp.arange(n_query, device=slopes.device)[:, None] + n_key - n_query
    return slopes[:, None, None] * xp.astype(-xp.abs(j - i), slopes.dtype)


def pair_frequencies(xp, d, base, dtype, on):
    """``base**(-2i/d)`` for each pair ``i`` of ``d`` features; an odd last feature counts as a pair."""
    check_number(base, "base")
    if not 0 < base < math.inf:
        raise ValueError(f"base must be positive and finite; got {base!r}")
    return 1 / float(base) ** (xp.arange(0, d, 2, dtype=dtype, device=on) / d)


def made_like(like):
    """Library, device and floating type of what is to be made like an array."""
    if like is None:
        return np, None, np.dtype(np.float64)
    xp = namespace(like=like)
    return xp, device(like), float_dtype(xp, like=like)


def check_layout(layout, name="layout"):
    if not isinstance(layout, str) or layout not in ("interleaved", "halves"):
        raise ValueError(f"{name} must be 'interleaved' or 'halves'; got {layout!r}")

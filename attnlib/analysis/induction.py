"""Heads that look back: to the token before, to the same token, to what followed it last time."""

import numpy as np
from array_api_compat import device

from attnlib.core.arrays import float_dtype, kind_of, namespace, valid_length, working_dtype


def repeated_tokens(n, length, d_vocab, period, *, seed=0):
    """Sequences of random tokens, all different within a period, repeated to the end.

    Nothing but the repetition can be learned of them: within the first period each token comes as a
    surprise, afterwards each follows what it followed before.

    Parameters
    ----------
    n : int >= 1
        Sequences.
    length : int >= 1
        Tokens in each; need not be a multiple of the period.
    d_vocab : int >= 1
        Tokens are drawn from ``0 .. d_vocab - 1``.
    period : int >= 1, or int array (n,)
        For all or for each sequence; at most ``d_vocab``.
    seed : int or numpy.random.Generator
        A generator goes on where it is.

    Returns
    -------
    int64 array (n, length), NumPy

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or the period has more tokens than there are.

    References
    ----------
    Olsson et al. 2022, "In-context Learning and Induction Heads", arXiv 2209.11895, section on head
    activation evaluators.

    Examples
    --------
    >>> repeated_tokens(1, 8, 10, 3)
    array([[4, 6, 2, 4, 6, 2, 4, 6]])
    """
    n, length, d_vocab = (valid_length(x, k) for k, x in (("n", n), ("length", length), ("d_vocab", d_vocab)))
    periods = [valid_length(p, "period") for p in (period if np.ndim(period) else [period] * n)]
    if len(periods) != n:
        raise ValueError(
            f"period must be one number or one for each of the {n} sequences; got {len(periods)}"
        )
    if max(periods) > d_vocab:
        raise ValueError(
            f"period must be at most d_vocab, {d_vocab}, for its tokens differ; got {max(periods)}"
        )
    rng = np.random.default_rng(seed)
    orders = rng.permuted(np.broadcast_to(np.arange(d_vocab), (n, d_vocab)), axis=-1)
    return np.take_along_axis(orders, np.arange(length) % np.array(periods)[:, None], axis=-1)


def previous_token_pattern(tokens):
    """Where a previous-token head looks: from each token to the one before it.

    Parameters
    ----------
    tokens : integer array (..., L)

    Returns
    -------
    boolean array (..., L, L)
        Row ``i`` is ``True`` at ``i - 1``; the first row nowhere.

    Raises
    ------
    TypeError, ValueError
        If ``tokens`` is no array of integers of one axis or more, or is empty.

    References
    ----------
    Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits"; the three patterns are those of
    TransformerLens's ``head_detector``.

    Examples
    --------
    >>> import numpy as np
    >>> previous_token_pattern(np.array([5, 7, 5])).astype(int)
    array([[0, 0, 0],
           [1, 0, 0],
           [0, 1, 0]])
    """
    xp, query, key = _positions(tokens)
    return xp.broadcast_to(key == query - 1, (*tokens.shape, tokens.shape[-1]))


def duplicate_token_pattern(tokens):
    """Where a duplicate-token head looks: from each token to the same token earlier.

    Parameters
    ----------
    tokens : integer array (..., L)

    Returns
    -------
    boolean array (..., L, L)
        Row ``i`` is ``True`` at every ``j < i`` with ``tokens[j] == tokens[i]``.

    Raises
    ------
    TypeError, ValueError
        As for `previous_token_pattern`.

    References
    ----------
    As for `previous_token_pattern`.

    Examples
    --------
    >>> import numpy as np
    >>> duplicate_token_pattern(np.array([5, 7, 5])).astype(int)
    array([[0, 0, 0],
           [0, 0, 0],
           [1, 0, 0]])
    """
    _, query, key = _positions(tokens)
    return (tokens[..., :, None] == tokens[..., None, :]) & (key < query)


def induction_pattern(tokens):
    """Where an induction head looks: from each token to what followed the same token earlier.

    Parameters
    ----------
    tokens : integer array (..., L)

    Returns
    -------
    boolean array (..., L, L)
        Row ``i`` is ``True`` at every ``j <= i`` with ``tokens[j - 1] == tokens[i]`` and ``j - 1 < i``:
        `duplicate_token_pattern`, one to the right.

    Raises
    ------
    TypeError, ValueError
        As for `previous_token_pattern`.

    References
    ----------
    As for `previous_token_pattern`.

    Examples
    --------
    >>> import numpy as np
    >>> induction_pattern(np.array([5, 7, 5])).astype(int)
    array([[0, 0, 0],
           [0, 0, 0],
           [0, 1, 0]])
    """
    same = duplicate_token_pattern(tokens)
    xp = namespace(tokens=tokens)
    return xp.concat([xp.zeros_like(same[..., :1]), same[..., :-1]], axis=-1)


def pattern_score(weights, pattern, *, all_rows=False):
    """The part of a head's attention that lies in a pattern.

    ``sum(weights * pattern) / sum(weights)`` over the last two axes, of the rows in which the pattern has
    an entry: elsewhere no head could follow it.

    Parameters
    ----------
    weights : array (..., L, L)
        As from ``return_weights=True``; heads at ``-3``.
    pattern : boolean array (..., L, L)
        Its leading axes broadcast with those of ``weights``: ``pattern[:, None]`` for a batch with heads.
    all_rows : bool
        Divide by the attention of all rows, as TransformerLens does: over a sequence that is repeated once
        a perfect induction head then scores about a half.

    Returns
    -------
    array (...)
        Between 0 and 1; 0 where no row is counted.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array, ``pattern`` is not boolean, or the shapes do not fit.

    References
    ----------
    TransformerLens, ``head_detector.py``, error measure "mul".

    Examples
    --------
    >>> import numpy as np
    >>> tokens = np.array([5, 7, 5])
    >>> weights = np.array([[1, 0, 0], [0.5, 0.5, 0], [0.1, 0.8, 0.1]])
    >>> float(pattern_score(weights, induction_pattern(tokens)))
    0.8
    >>> float(pattern_score(weights, induction_pattern(tokens), all_rows=True).round(2))
    0.27
    """
    xp = namespace(weights=weights, pattern=pattern)
    dtype = float_dtype(xp, weights=weights)
    if kind_of(xp, pattern.dtype) != "bool":
        raise TypeError(f"pattern must be boolean; got dtype {pattern.dtype}")
    if not isinstance(all_rows, bool):
        raise TypeError(f"all_rows must be True or False; got {all_rows!r}")
    for name, array in (("weights", weights), ("pattern", pattern)):
        if array.ndim < 2 or array.shape[-2:] != weights.shape[-2:] or 0 in array.shape:
            raise ValueError(
                f"{name} must have shape (..., L, L), the same L in both; got weights "
                f"{tuple(weights.shape)} and pattern {tuple(pattern.shape)}"
            )
    weights = xp.astype(weights, working_dtype(xp, dtype), copy=False)
    try:
        inside = xp.where(pattern, weights, xp.zeros_like(weights))
    except (RuntimeError, ValueError):
        raise ValueError(
            f"the leading axes of pattern {tuple(pattern.shape)} must broadcast with those of weights "
            f"{tuple(weights.shape)}; pattern[:, None] makes an axis for heads"
        ) from None
    counted = xp.where(xp.any(pattern, axis=-1, keepdims=True) | all_rows, weights, xp.zeros_like(weights))
    total = xp.sum(counted, axis=(-2, -1), keepdims=True)
    score = xp.sum(inside, axis=(-2, -1), keepdims=True) / xp.where(total == 0, 1, total)
    return xp.astype(xp.squeeze(score, axis=(-2, -1)), dtype, copy=False)


def _positions(tokens):
    xp = namespace(tokens=tokens)
    if kind_of(xp, tokens.dtype) != "integral":
        raise TypeError(f"tokens must be whole numbers; got dtype {tokens.dtype}")
    if not tokens.ndim or 0 in tokens.shape:
        raise ValueError(f"tokens must be one or more in a row; got shape {tuple(tokens.shape)}")
    at = xp.arange(tokens.shape[-1], device=device(tokens))
    return xp, at[:, None], at[None, :]

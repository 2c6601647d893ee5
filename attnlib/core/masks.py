"""Boolean masks: ``True`` where a query may attend to a key. They combine with ``&``, ``|``, ``~``."""

import numpy as np
from array_api_compat import device

from attnlib.core.arrays import namespace, valid_length, whole_number


def causal_mask(n_query, n_key=None, *, align="end", like=None):
    """Each query sees the keys up to its own position.

    Parameters
    ----------
    n_query : int >= 1
    n_key : int >= 1, optional
        As many as queries when left out.
    align : {"end", "start"}
        Which positions coincide when the lengths differ. ``"end"`` puts the last query at the last
        key (decoding with a cache), so query ``i`` sees keys ``0 .. i + n_key - n_query``.
        ``"start"`` puts the first query at the first key, so it sees ``0 .. i``.
    like : array, optional
        The mask is made in this array's library and on its device; NumPy when left out.

    Returns
    -------
    bool array (n_query, n_key)
        With ``align="end"`` and more queries than keys, the first rows are False throughout.

    Raises
    ------
    TypeError, ValueError
        If a length is not a positive integer or ``align`` is neither word.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.2.3. PyTorch's ``is_causal`` aligns at the
    start, FlashAttention from version 2.1 on at the end; square masks are the same.

    Examples
    --------
    >>> causal_mask(2, 3)
    array([[ True,  True, False],
           [ True,  True,  True]])
    """
    i, j = aligned_positions(n_query, n_key, align, like)
    return j <= i


def window_mask(n, window, *, like=None):
    """Each token sees itself and the ``window - 1`` tokens before it.

    Parameters
    ----------
    n : int >= 1
        Number of tokens, queries and keys alike.
    window : int >= 1
        Keys that a query sees, itself included: ``i - window < j <= i``.
    like : array, optional
        As in `causal_mask`.

    Returns
    -------
    bool array (n, n)

    Raises
    ------
    TypeError, ValueError
        If ``n`` or ``window`` is not a positive integer.

    References
    ----------
    Child et al. 2019, arXiv 1904.10509, section 4.2. Libraries count differently: a window of
    FlashAttention names the keys to the left without the query's own.

    Examples
    --------
    >>> window_mask(3, 2).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """
    n, window = valid_length(n, "n"), valid_length(window, "window")
    i, j = aligned_positions(n, n, "end", like)
    return (j <= i) & (j > i - window)


def padding_mask(tokens, pad_id=0):
    """Every query sees the real tokens and none of the padding.

    Parameters
    ----------
    tokens : integer array (B, L)
        Padding may stand anywhere; a row may have none or nothing else.
    pad_id : int
        The id that means padding.

    Returns
    -------
    bool array (B, 1, 1, L)
        In the library and on the device of ``tokens``; the ones broadcast over heads and queries.
        For attention without heads, ``(B, L, d)``, take ``mask[:, 0]``.

    Raises
    ------
    TypeError, ValueError
        If ``tokens`` is not an integer array of two axes, or is empty, or ``pad_id`` no integer.

    Examples
    --------
    >>> import numpy as np
    >>> padding_mask(np.array([[5, 3, 0], [7, 0, 0]]))[:, 0, 0]
    array([[ True,  True, False],
           [ True, False, False]])
    """
    xp = namespace(tokens=tokens)
    if not xp.isdtype(tokens.dtype, "integral"):
        raise TypeError(f"tokens must hold integer ids; got dtype {tokens.dtype}")
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(f"tokens must have shape (B, L), not empty; got {tuple(tokens.shape)}")
    pad_id = whole_number(pad_id, f"pad_id must be one integer; got {pad_id!r}")
    ids = xp.iinfo(tokens.dtype)
    if not ids.min <= pad_id <= ids.max:  # no token can be it; torch would wrap it around
        return xp.ones(tokens.shape, dtype=xp.bool, device=device(tokens))[:, None, None, :]
    return (tokens != pad_id)[:, None, None, :]


def aligned_positions(n_query, n_key, align, like):
    """Where queries stand among the keys, as a column, and the keys' positions, as a row."""
    n_query = valid_length(n_query, "n_query")
    n_key = n_query if n_key is None else valid_length(n_key, "n_key")
    if not isinstance(align, str) or align not in ("end", "start"):
        raise ValueError(f"align must be 'end' or 'start'; got {align!r}")
    xp, on = (np, None) if like is None else (namespace(like=like), device(like))
    i, j = xp.arange(n_query, device=on)[:, None], xp.arange(n_key, device=on)[None, :]
    return (i + (n_key - n_query) if align == "end" else i), j

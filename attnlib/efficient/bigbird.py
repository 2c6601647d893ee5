"""BigBird: blocks of tokens that see their neighbours, the first and the last block, and a few at random."""

import numpy as np
from array_api_compat import device

from attnlib.core.arrays import namespace, valid_length, whole_number
from attnlib.core.sampling import generator_of
from attnlib.core.scaled_dot_product import attention
from attnlib.core.shapes import working_arrays
from attnlib.efficient.windows import check_key_mask

ALWAYS = 5  # blocks that a row lists before its random ones: the first, its own with two neighbours, the last


def bigbird_random_blocks(n_blocks, n_random, n_heads=1, *, seed=0):
    """Draw the random blocks of each block of queries but the first and the last, which see everything.

    Parameters
    ----------
    n_blocks : int >= 3
        Blocks in the text.
    n_random : int >= 0
        Random blocks for each block of queries: different ones, and none that it sees anyhow (the
        first, the last, its own, and its two neighbours).
    n_heads : int >= 1
        Each head draws its own.
    seed : int >= 0

    Returns
    -------
    integer NumPy array (n_heads, n_blocks - 2, n_random)

    Raises
    ------
    TypeError, ValueError
        If a number is out of its range, or there are not so many blocks to draw from.

    References
    ----------
    Zaheer et al. 2020, arXiv 2007.14062, section 2. The authors' code has plans beside it that keep the
    random blocks of long texts within their beginning.

    Examples
    --------
    >>> bigbird_random_blocks(6, 1, seed=1).tolist()    # row 2 has none but block 4, row 3 none but 1
    [[[3], [4], [1], [1]]]
    """
    n_blocks, n_heads = valid_length(n_blocks, "n_blocks"), valid_length(n_heads, "n_heads")
    if n_blocks < 3:
        raise ValueError(f"n_blocks must be at least 3; got {n_blocks}")
    n_random = whole_number(n_random, f"n_random must be a whole number; got {n_random!r}")
    most = max(0, n_blocks - ALWAYS)
    if not 0 <= n_random <= most:
        raise ValueError(
            f"n_random must lie in 0 .. {most}, for some of {n_blocks} blocks have no more to draw from; "
            f"got {n_random}"
        )
    rng = generator_of(seed)
    drawn = np.empty((n_heads, n_blocks - 2, n_random), dtype=int)
    for head in range(n_heads):
        for i in range(1, n_blocks - 1):
            rest = np.setdiff1d(np.arange(n_blocks), [0, i - 1, i, i + 1, n_blocks - 1])
            drawn[head, i - 1] = rng.permutation(rest)[:n_random]
    return drawn


def bigbird_counts(n, block_size, random_blocks, *, counting="once", built_for=None, like=None):
    """How often each query sees each key.

    Queries of the first and the last block see every key. A query of another block sees the first block,
    its own block and the blocks beside it, the last block, and its random blocks. ``counts > 0`` is the
    mask; where a key is seen twice, it has twice the weight: ``attention(q, k, v, log(counts))``.

    Parameters
    ----------
    n : int >= 1
        Tokens; a multiple of ``block_size``.
    block_size : int >= 1
        Tokens in a block; there must be three blocks at least.
    random_blocks : integer array (H, blocks - 2, r)
        For each head and each block but the first and the last, the random blocks that it sees
        (`bigbird_random_blocks`); ``r`` may be 0.
    counting : {"once", "listed"}
        ``"once"``: a key is seen or not, as in the paper. ``"listed"``: a random block that is seen
        anyhow, or that is listed again, counts once more.
    built_for : int, optional
        Make the pattern of that many tokens, and cut off what is beyond ``n``: then there is no last
        block, unless ``n`` ends in it. ``random_blocks`` are those of the longer text.
    like : array, optional
        The counts are made in this array's library and on its device; NumPy when left out.

    Returns
    -------
    integer array (H, n, n)

    Raises
    ------
    TypeError, ValueError
        If a size is out of its range, or ``random_blocks`` are no blocks of the text.

    References
    ----------
    Zaheer et al. 2020, arXiv 2007.14062. Both public forms that work by blocks
    (google-research/bigbird ``bigbird/core/attention.py`` and Hugging Face transformers
    ``models/big_bird``) count as ``"listed"``. Hugging Face, in evaluation, moreover lists block 0 for
    every random one, so that it stands ``1 + r`` times in the softmax: that is
    ``random_blocks=zeros((H, blocks - 2, r))``. The full mask of google-research/bigbird
    (``full_bigbird_mask``) is ``counting="once", built_for=4096``.

    Examples
    --------
    >>> import numpy as np
    >>> bigbird_counts(5, 1, np.zeros((1, 3, 1), int), counting="listed")
    array([[[1, 1, 1, 1, 1],
            [2, 1, 1, 0, 1],
            [2, 1, 1, 1, 1],
            [2, 0, 1, 1, 1],
            [1, 1, 1, 1, 1]]])
    """
    n, whole = valid_length(n, "n"), built_for if built_for is None else valid_length(built_for, "built_for")
    if whole is None:
        n_blocks = _number_of_blocks(n, block_size, "n")
    else:
        n_blocks = _number_of_blocks(whole, block_size, "built_for")
        if n > whole:
            raise ValueError(f"n must be at most built_for, {whole}; got {n}")
    table, counted = _listed(n_blocks, random_blocks, counting)
    heads = len(table)
    counts = np.ones((heads, n_blocks, n_blocks), dtype=int)
    counts[:, 1:-1] = 0
    head, row = np.ogrid[:heads, 1 : n_blocks - 1]
    np.add.at(counts, (head[..., None], row[..., None], table), counted)
    counts = counts.repeat(block_size, axis=-2)[:, :n].repeat(block_size, axis=-1)[..., :n]
    return counts if like is None else namespace(like=like).asarray(counts, device=device(like))


def bigbird_attention(q, k, v, block_size, random_blocks, *, counting="once", mask=None, scale=None):
    """Attention of BigBird, block by block: the cost grows with the length, not with its square.

    What `attention` gives with the mask ``log(bigbird_counts(...))``. Each block of queries gathers the
    blocks of keys that it sees; no array has an entry for every pair.

    Parameters
    ----------
    q, k : array (..., H, L, d)
        ``L`` is a multiple of ``block_size``.
    v : array (..., H, L, dv)
    block_size, random_blocks, counting
        As in `bigbird_counts`.
    mask : bool array, optional
        ``False`` for padding, which is not seen and sees nothing: broadcasts to ``(..., H, 1, L)``, as
        `padding_mask` does.
    scale : float, optional
        ``1/sqrt(d)`` when left out.

    Returns
    -------
    array (..., H, L, dv)
        Zeros for padding.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit.

    References
    ----------
    Zaheer et al. 2020, arXiv 2007.14062.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.zeros((1, 12, 2))
    >>> bigbird_attention(x, x, x + 1, 2, bigbird_random_blocks(6, 1)).shape
    (1, 12, 2)
    """
    shape = (..., "H", "L", "d")
    xp, dtype, (q, k, v) = working_arrays(
        {"q": q, "k": k, "v": v}, {"q": shape, "k": shape, "v": (*shape[:-1], "dv")}
    )
    (*_, heads, n, _), on = q.shape, device(q)
    n_blocks = _number_of_blocks(n, block_size, "the length of q")
    table, counted = (xp.asarray(x, device=on) for x in _listed(n_blocks, random_blocks, counting))
    if len(table) != heads:
        raise ValueError(f"random_blocks must have the {heads} heads of q; got {len(table)}")
    check_key_mask(mask, k)
    real = xp.ones((1, n), dtype=xp.bool, device=on) if mask is None else mask
    real = xp.matrix_transpose(xp.broadcast_to(real, (*q.shape[:-2], 1, n)))

    def blocked(x):
        return xp.reshape(x, (*x.shape[:-2], n_blocks, block_size, x.shape[-1]))

    head = xp.arange(heads, device=on)[:, None, None]

    def gathered(x):
        """For each block of queries between the first and the last the rows of the blocks it lists."""
        rows = blocked(x)[..., head, table, :, :]
        return xp.reshape(rows, (*x.shape[:-2], n_blocks - 2, -1, x.shape[-1]))

    queries = blocked(q)
    seen = xp.repeat(counted, block_size, axis=-1)[..., None, :] & xp.matrix_transpose(gathered(real))
    middle = attention(queries[..., 1:-1, :, :], gathered(k), gathered(v), seen, scale=scale)
    ends = xp.concat([queries[..., 0, :, :], queries[..., -1, :, :]], axis=-2)
    ends = attention(ends, k, v, xp.matrix_transpose(real), scale=scale)
    middle = xp.reshape(middle, (*q.shape[:-2], n - 2 * block_size, v.shape[-1]))
    out = xp.concat([ends[..., :block_size, :], middle, ends[..., block_size:, :]], axis=-2)
    return xp.astype(xp.where(real, out, 0), dtype, copy=False)


def _listed(n_blocks, random_blocks, counting):
    """The blocks that each row lists, ``(H, blocks - 2, 5 + r)``, and which of them count."""
    if not isinstance(counting, str) or counting not in ("once", "listed"):
        raise ValueError(f"counting must be 'once' or 'listed'; got {counting!r}")
    random_blocks = np.asarray(random_blocks)
    shape, wanted = random_blocks.shape, f"(heads, {n_blocks - 2}, r) for {n_blocks} blocks"
    if random_blocks.dtype.kind not in "iu":
        raise TypeError(f"random_blocks must hold numbers of blocks; got dtype {random_blocks.dtype}")
    if len(shape) != 3 or shape[1] != n_blocks - 2 or shape[0] == 0:
        raise ValueError(f"random_blocks must have shape {wanted}; got {shape}")
    outside = random_blocks[(random_blocks < 0) | (random_blocks >= n_blocks)]
    if outside.size:
        raise ValueError(f"random_blocks must lie in 0 .. {n_blocks - 1}; got {outside[0]}")
    i = np.arange(1, n_blocks - 1)
    always = np.stack([0 * i, i - 1, i, i + 1, 0 * i + n_blocks - 1], axis=-1)
    always = np.broadcast_to(always, (shape[0], *always.shape))
    table = np.concatenate([always, random_blocks.astype(int)], axis=-1)
    again = table[..., :, None] == table[..., None, :]
    again = (again & np.tri(table.shape[-1], k=-1, dtype=bool)).any(-1)  # listed before, in the same row
    if counting == "listed":
        again[..., ALWAYS:] = False
    return table, ~again


def _number_of_blocks(n, block_size, name):
    block_size = valid_length(block_size, "block_size")
    if n % block_size or n < 3 * block_size:
        raise ValueError(
            f"{name} must be a multiple of block_size, {block_size}, three blocks at least; got {n}"
        )
    return n // block_size

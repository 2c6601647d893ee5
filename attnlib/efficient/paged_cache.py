"""A cache of keys and values in blocks that stand anywhere, found through a table for each sequence."""

import numpy as np
from array_api_compat import device

from attnlib.core.arrays import float_dtype, kind_of, namespace, valid_length
from attnlib.core.grouped_queries import grouped_query_attention
from attnlib.core.shapes import check_shapes


def paged_attention(q, key_blocks, value_blocks, block_tables, lengths, *, scale=None):
    """The step of decoding for sequences whose keys and values lie scattered in blocks.

    Token ``t`` of sequence ``b`` is in block ``block_tables[b, t // block_size]``, slot
    ``t % block_size``. Neither a table's entries after those of the last token nor the slots after it are
    read, whatever they hold.

    Parameters
    ----------
    q : array (B, Hq, T, d)
        The queries of each sequence's last ``T`` tokens; one, when decoding. ``Hq`` is a multiple of
        ``Hkv``.
    key_blocks : array (n_blocks, block_size, Hkv, d)
        Keys of ``T`` new tokens are there already.
    value_blocks : array (n_blocks, block_size, Hkv, dv)
    block_tables : integer array (B, most)
        The blocks of each sequence in order, filled up with anything.
    lengths : integer array (B,)
        Tokens of each sequence, the last ``T`` included.
    scale : float, optional
        ``1/sqrt(d)`` when left out.

    Returns
    -------
    array (B, Hq, T, dv)
        Zeros for a sequence without a token.

    Raises
    ------
    TypeError, ValueError
        If shapes do not fit, a length exceeds its table, or a block that is needed does not exist.

    References
    ----------
    Kwon et al. 2023, PagedAttention, arXiv 2309.06180, section 4.1. vLLM's kernels keep keys as
    ``(n_blocks, Hkv, d/x, block_size, x)``, which ``permute(0, 3, 1, 2, 4).flatten(3)`` brings here, and
    values as ``(n_blocks, Hkv, dv, block_size)``: ``permute(0, 3, 1, 2)``.

    Examples
    --------
    >>> values = np.arange(6.0).reshape(3, 2, 1, 1)
    >>> table, lengths = np.array([[2, 0, -1]]), np.array([3])
    >>> paged_attention(np.zeros((1, 1, 1, 1)), np.zeros_like(values), values, table, lengths)
    array([[[[3.]]]])
    """
    axes = {
        "q": ("B", "Hq", "T", "d"), "key_blocks": ("n_blocks", "block_size", "Hkv", "d"),
        "value_blocks": ("n_blocks", "block_size", "Hkv", "dv"), "block_tables": ("B", "most"),
        "lengths": ("B",),
    }  # fmt: skip
    arrays = {"q": q, "key_blocks": key_blocks, "value_blocks": value_blocks}
    xp = check_shapes({**arrays, "block_tables": block_tables, "lengths": lengths}, axes)
    for name, array in (("block_tables", block_tables), ("lengths", lengths)):
        if kind_of(xp, array.dtype) != "integral":
            raise TypeError(f"{name} must hold integers; got dtype {array.dtype}")
    n_blocks, block_size, *_ = key_blocks.shape
    shape = (*q.shape[:-1], value_blocks.shape[-1])
    out = xp.zeros(shape, dtype=float_dtype(xp, **arrays), device=device(q))
    for b, length in enumerate(lengths.tolist()):
        room = block_tables.shape[1] * block_size
        if not 0 <= length <= room:
            raise ValueError(f"lengths must lie in 0 .. {room}, what a table has room for; got {length}")
        if length == 0:
            continue
        table = block_tables[b, : -(-length // block_size)]
        if int(xp.min(table)) < 0 or int(xp.max(table)) >= n_blocks:
            raise ValueError(
                f"block_tables must name blocks in 0 .. {n_blocks - 1} for the {length} tokens of sequence "
                f"{b}; got {table.tolist()}"
            )
        k, v = (_tokens(xp, blocks, table, length) for blocks in (key_blocks, value_blocks))
        out[b] = grouped_query_attention(q[b], k, v, causal=True, scale=scale)
    return out


def _tokens(xp, blocks, table, length):
    """The first tokens in these blocks, as ``(Hkv, length, d)``."""
    rows = xp.take(blocks, table, axis=0)
    return xp.moveaxis(xp.reshape(rows, (-1, *blocks.shape[2:]))[:length], 0, 1)


class BlockPool:
    """Numbers of blocks of which each is free or has users, one sequence or several that share it.

    Parameters
    ----------
    n_blocks : int >= 1

    Attributes
    ----------
    users : list of int
        How many use each block.
    free : list of int
        Blocks that nobody uses; the last is taken next.

    Returns
    -------
    BlockPool

    Raises
    ------
    TypeError, ValueError
        If ``n_blocks`` is not a positive integer; later, if no block is free, or one that nobody uses is
        shared or released.

    References
    ----------
    Kwon et al. 2023, PagedAttention, arXiv 2309.06180, sections 4.2 and 4.4.

    Examples
    --------
    >>> pool = BlockPool(3)
    >>> block = pool.take()
    >>> pool.share(block)
    >>> pool.release(block)
    >>> block, pool.users, pool.free
    (0, [1, 0, 0], [2, 1])
    """

    def __init__(self, n_blocks):
        self.users = [0] * valid_length(n_blocks, "n_blocks")
        self.free = [*range(len(self.users))][::-1]

    def take(self):
        """A free block, which from now on has one user."""
        self.check(1)
        block = self.free.pop()
        self.users[block] = 1
        return block

    def share(self, block):
        """One user more."""
        self._check_taken(block)
        self.users[block] += 1

    def release(self, block):
        """One user less; a block without users is free."""
        self._check_taken(block)
        self.users[block] -= 1
        if self.users[block] == 0:
            self.free.append(block)

    def check(self, needed):
        """Refuse, in a sentence, to go on without so many free blocks."""
        if needed > len(self.free):
            raise ValueError(
                f"of the {len(self.users)} blocks {len(self.free)} are free; {needed} more are needed"
            )

    def _check_taken(self, block):
        if not 0 <= block < len(self.users) or not self.users[block]:
            raise ValueError(f"block must be one that is taken; nobody uses block {block!r}")


class PagedCache:
    """Keys and values of many sequences of one layer, in blocks taken as sequences grow.

    A sequence has all its blocks full but the last, so less than one block is left over. Sequences with a
    common beginning share its blocks (`fork`); who writes into a shared block that is partly filled first
    gets a copy of it.

    Parameters
    ----------
    n_blocks : int >= 1
        For all sequences together.
    block_size : int >= 1
        Tokens in a block.
    n_kv_heads, head_dim : int >= 1
    like : array, optional
        Blocks are made in this array's library and type, and on its device; NumPy's when left out.

    Attributes
    ----------
    keys, values : arrays (n_blocks, block_size, n_kv_heads, head_dim)
        `paged_attention` reads them.
    pool : BlockPool

    Returns
    -------
    PagedCache
        Without a sequence.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, or ``like`` is of no floating type; later, if what is appended
        does not fit, no block is free, or there is no such sequence.

    References
    ----------
    Kwon et al. 2023, PagedAttention, arXiv 2309.06180, sections 4.2 to 4.4.

    Examples
    --------
    >>> cache, x = PagedCache(4, block_size=2, n_kv_heads=1, head_dim=1), np.ones((1, 3, 1))
    >>> a = cache.start()
    >>> cache.append(a, x, x)
    >>> b = cache.fork(a)
    >>> cache.append(b, x, x)
    >>> tables, lengths = cache.tables([a, b])
    >>> tables, lengths
    (array([[ 0,  1, -1],
           [ 0,  2,  3]], dtype=int32), array([3, 6], dtype=int32))
    """

    def __init__(self, n_blocks, block_size, n_kv_heads, head_dim, *, like=None):
        self.pool = BlockPool(n_blocks)
        sizes = {"block_size": block_size, "n_kv_heads": n_kv_heads, "head_dim": head_dim}
        shape = [len(self.pool.users), *(valid_length(size, name) for name, size in sizes.items())]
        like = np.empty(0) if like is None else like
        self._xp = namespace(like=like)
        if kind_of(self._xp, like.dtype) != "real floating":
            raise TypeError(f"like must be of a floating type, as keys are; got dtype {like.dtype}")
        self.keys = self._xp.zeros(shape, dtype=like.dtype, device=device(like))
        self.values = self._xp.zeros_like(self.keys)
        self._blocks, self._lengths = {}, {}
        self._started = 0

    @property
    def block_size(self):
        return self.keys.shape[1]

    def start(self):
        """The number of a new sequence, without a token."""
        self._started += 1
        sequence = self._started - 1
        self._blocks[sequence], self._lengths[sequence] = [], 0
        return sequence

    def append(self, sequence, k, v):
        """Keep keys and values ``(Hkv, T, d)`` of a sequence's next tokens.

        Where there are not enough blocks nothing is changed.
        """
        blocks, xp = self._of(sequence), self._xp
        heads, width = self.keys.shape[2:]
        namespace(cache=self.keys, k=k, v=v)
        float_dtype(xp, k=k, v=v)
        for name, x in (("k", k), ("v", v)):
            if x.ndim != 3 or (x.shape[0], x.shape[2]) != (heads, width) or x.shape[1] != k.shape[1]:
                raise ValueError(f"{name} must have shape ({heads}, T, {width}); got {tuple(x.shape)}")
        length, end = self._lengths[sequence], self._lengths[sequence] + k.shape[1]
        more = -(-end // self.block_size) - len(blocks)
        writes_shared = end > length and length % self.block_size and self.pool.users[blocks[-1]] > 1
        self.pool.check(more + bool(writes_shared))
        if writes_shared:
            self._copy_last(blocks)
        blocks += [self.pool.take() for _ in range(more)]
        at = xp.arange(length, end, device=device(self.keys))
        block = xp.asarray(blocks, dtype=xp.int64, device=device(self.keys))[at // self.block_size]
        self.keys[block, at % self.block_size] = xp.astype(xp.moveaxis(k, 1, 0), self.keys.dtype)
        self.values[block, at % self.block_size] = xp.astype(xp.moveaxis(v, 1, 0), self.values.dtype)
        self._lengths[sequence] = end

    def fork(self, sequence):
        """The number of a new sequence with the same tokens, in the same blocks."""
        blocks, length = self._of(sequence), self._lengths[sequence]
        twin = self.start()
        self._blocks[twin], self._lengths[twin] = [*blocks], length
        for block in blocks:
            self.pool.share(block)
        return twin

    def end(self, sequence):
        """Forget a sequence; blocks that no other shares become free."""
        for block in self._of(sequence):
            self.pool.release(block)
        del self._blocks[sequence], self._lengths[sequence]

    def tables(self, sequences):
        """What `paged_attention` needs of these sequences: block tables, filled up with -1, and lengths."""
        blocks = [self._of(sequence) for sequence in sequences]
        most = max(1, *map(len, blocks)) if blocks else 1
        rows = [row + [-1] * (most - len(row)) for row in blocks]
        lengths = [self._lengths[sequence] for sequence in sequences]
        xp, on = self._xp, device(self.keys)
        return xp.asarray(rows, dtype=xp.int32, device=on), xp.asarray(lengths, dtype=xp.int32, device=on)

    def _of(self, sequence):
        if sequence not in self._blocks:
            raise ValueError(f"there is no sequence {sequence!r}; there are: {[*self._blocks]}")
        return self._blocks[sequence]

    def _copy_last(self, blocks):
        """A block of its own in place of the last, which others go on reading."""
        shared = blocks[-1]
        blocks[-1] = self.pool.take()
        self.keys[blocks[-1]], self.values[blocks[-1]] = self.keys[shared], self.values[shared]
        self.pool.release(shared)

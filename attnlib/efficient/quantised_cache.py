"""A cache of keys and values in a few bits a number."""

import torch

from attnlib.core.arrays import valid_length, whole_number
from attnlib.efficient.quantisation import Quantised, quantise
from attnlib.layers.checks import check_tensor
from attnlib.layers.key_value_cache import TokenCache


class QuantisedCache(TokenCache):
    """A `KeyValueCache` that keeps all but the last tokens as codes of a few bits.

    Keys share a scale *per channel*, a feature of ``group_size`` tokens in a row, for some features of keys
    are large in every token; values share one *per token*, a token's features of a head. A scale per channel
    needs its whole group: newer tokens wait in full precision, and the last ``window`` always stay there.

    A pass sees what was kept before it, and its own tokens, exactly; tokens turn to codes after it. So what
    is kept does not depend on the pieces in which a text is read, though what a piece sees does. Codes save
    memory, not time: a pass turns them all back, for a moment, into numbers.

    Parameters
    ----------
    batch, n_kv_heads, max_len, head_dim : int >= 1
        As in `KeyValueCache`; ``8 / bits`` divides ``head_dim``.
    bits : {2, 4, 8}
    group_size : int >= 1
        Tokens.
    window : int >= 0
        Tokens.

    Attributes
    ----------
    keys, values : RecentAndCodes

    Returns
    -------
    QuantisedCache
        An empty one, for a layer of `GroupedQueryAttention`. It takes device and type from what is kept.

    Raises
    ------
    TypeError, ValueError
        If a size is out of its range; later, if what is appended does not fit.

    References
    ----------
    Liu et al. 2024 (KIVI), arXiv 2402.02750. Their code groups a token's values by 32 features too, moves
    values one by one, and lets the window of keys run empty before it fills again.

    Examples
    --------
    >>> cache, x = QuantisedCache(1, 2, 100, 8, bits=4, group_size=4, window=2), torch.ones(1, 2, 9, 8)
    >>> keys, values = cache.append(x, x)
    >>> keys.shape, cache.keys.old.codes.shape, cache.keys.recent.shape
    (torch.Size([1, 2, 9, 8]), torch.Size([1, 2, 4, 4]), torch.Size([1, 2, 5, 8]))
    """

    def __init__(self, batch, n_kv_heads, max_len, head_dim, *, bits=4, group_size=32, window=32):
        super().__init__(batch, max_len)
        self.n_kv_heads = valid_length(n_kv_heads, "n_kv_heads")
        self.head_dim, group_size = valid_length(head_dim, "head_dim"), valid_length(group_size, "group_size")
        window = whole_number(window, f"window must be a whole number; got {window!r}")
        if window < 0:
            raise ValueError(f"window must be at least 0; got {window}")
        quantise(torch.zeros(1, self.head_dim), bits)  # refuses bits, and a head whose codes fill no bytes
        self.keys = RecentAndCodes(bits, -2, group_size, window)
        self.values = RecentAndCodes(bits, -1, group_size, window)

    def append(self, k, v):
        """Keep keys and values ``(B, Hkv, T, d)``, and give all that are kept, ``(B, Hkv, S, d)``."""
        wanted = (self.n_kv_heads, self.head_dim)
        for name, x in (("k", k), ("v", v)):
            check_tensor(x, name)
            if not x.is_floating_point():
                raise TypeError(f"{name} must be of a floating type; got dtype {x.dtype}")
            if x.ndim != 4 or (x.shape[1], x.shape[3]) != wanted:
                raise ValueError(
                    f"{name} must have {wanted[0]} heads of {wanted[1]} features; got shape {tuple(x.shape)}"
                )
        if v.shape[:-1] != k.shape[:-1]:
            raise ValueError(
                f"v must have the sequences and tokens of k, {tuple(k.shape)}; got shape {tuple(v.shape)}"
            )
        self.check(k.shape[0], k.shape[-2])
        self.length += k.shape[-2]
        return self.keys.append(k), self.values.append(v)

    @property
    def nbytes(self):
        """Bytes that all of it takes."""
        return self.keys.nbytes + self.values.nbytes


class RecentAndCodes:
    """Rows of which the last few are whole, and those before them codes.

    Attributes
    ----------
    old : Quantised or None
        The rows before, a multiple of ``group_size``; None while there are none.
    recent : tensor (B, H, ..., d) or None
        From ``window`` to ``window + group_size - 1`` rows, or fewer while there are no more.
    """

    def __init__(self, bits, axis, group_size, window):
        self.bits, self.axis, self.group_size, self.window = bits, axis, group_size, window
        self.old = self.recent = None

    def append(self, x):
        """Keep rows ``(B, H, T, d)``, and give all that are kept: the old ones as their codes have them."""
        recent = x if self.recent is None else torch.cat([self.recent, x], -2)
        rows = recent if self.old is None else torch.cat([self.old.dequantised(), recent], -2)
        n_old = max(recent.shape[-2] - self.window, 0) // self.group_size * self.group_size
        if n_old:
            self._turn_to_codes(recent[..., :n_old, :])
        self.recent = recent[..., n_old:, :].clone()
        return rows

    def _turn_to_codes(self, rows):
        group_size = self.group_size if self.axis == -2 else None  # a token's features are one group
        new = quantise(rows, self.bits, axis=self.axis, group_size=group_size)
        if self.old is not None:
            codes = torch.cat([self.old.codes, new.codes], -2)
            scale, zero = (torch.cat(pair, -3) for pair in zip(self.old[1:3], new[1:3], strict=True))
            new = Quantised(codes, scale, zero, new.bits, new.axis)
        self.old = new

    @property
    def nbytes(self):
        """Bytes of codes, scales and recent rows."""
        return sum(part.nbytes for part in (self.old, self.recent) if part is not None)

"""What a decoder keeps of the tokens it has read, so that none is computed twice."""

import torch

from attnlib.core.arrays import valid_length


class TokenCache:
    """For how many sequences the cache of one layer is, how many tokens of each it holds and has room for.

    Parameters
    ----------
    batch : int >= 1
    max_len : int >= 1
        The greatest number of tokens.
    """

    def __init__(self, batch, max_len):
        self.batch, self.max_len = valid_length(batch, "batch"), valid_length(max_len, "max_len")
        self.length = 0

    def check(self, batch, length):
        """Refuse, in a sentence, what does not fit."""
        if batch != self.batch:
            raise ValueError(f"the cache is for {self.batch} sequences; got {batch}")
        if self.length + length > self.max_len:
            raise ValueError(
                f"the cache has room for {self.max_len} tokens and holds {self.length}; "
                f"{length} more do not fit"
            )


class KeyValueCache(TokenCache):
    """The keys and values of one attention layer, in buffers made once.

    Keys are kept after their rotation, for a token's position never changes. A cache belongs to one
    batch of sequences; it is for decoding, under ``torch.no_grad()``: where gradients are recorded they
    flow through the last piece alone, and torch refuses a backward pass from the pieces before.

    Parameters
    ----------
    batch : int >= 1
    n_kv_heads : int >= 1
    max_len : int >= 1
        The greatest number of tokens.
    head_dim : int >= 1
    """

    def __init__(self, batch, n_kv_heads, max_len, head_dim, *, device=None, dtype=None):
        super().__init__(batch, max_len)
        n_kv_heads, head_dim = valid_length(n_kv_heads, "n_kv_heads"), valid_length(head_dim, "head_dim")
        shape = self.batch, n_kv_heads, self.max_len, head_dim
        self.keys = torch.empty(shape, device=device, dtype=dtype)
        self.values = torch.empty_like(self.keys)

    def append(self, k, v):
        """Keep keys and values ``(B, Hkv, T, d)``, and give all that are kept, ``(B, Hkv, S, d)``.

        The two are views of the buffers.
        """
        self.check(k.shape[0], k.shape[-2])
        start, self.length = self.length, self.length + k.shape[-2]
        self.keys[:, :, start : self.length] = k
        self.values[:, :, start : self.length] = v
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

"""What a decoder keeps of the tokens it has read, so that none is computed twice."""

import torch

from attnlib.core.arrays import valid_length


class KeyValueCache:
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
        sizes = {"batch": batch, "n_kv_heads": n_kv_heads, "max_len": max_len, "head_dim": head_dim}
        shape = [valid_length(size, name) for name, size in sizes.items()]
        self.keys = torch.empty(shape, device=device, dtype=dtype)
        self.values = torch.empty_like(self.keys)
        self.length = 0

    @property
    def max_len(self):
        return self.keys.shape[-2]

    def append(self, k, v):
        """Keep keys and values ``(B, Hkv, T, d)``, and give all that are kept, ``(B, Hkv, S, d)``.

        The two are views of the buffers.
        """
        self.check(k.shape[0], k.shape[-2])
        start, self.length = self.length, self.length + k.shape[-2]
        self.keys[:, :, start : self.length] = k
        self.values[:, :, start : self.length] = v
        return self.keys[:, :, : self.length], self.values[:, :, : self.length]

    def check(self, batch, length):
        """Refuse, in a sentence, what does not fit."""
        if batch != self.keys.shape[0]:
            raise ValueError(f"the cache is for {self.keys.shape[0]} sequences; got {batch}")
        if self.length + length > self.max_len:
            raise ValueError(
                f"the cache has room for {self.max_len} tokens and holds {self.length}; "
                f"{length} more do not fit"
            )

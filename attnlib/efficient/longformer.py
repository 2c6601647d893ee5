"""Longformer's attention: a window for every token, and a few tokens that see and are seen everywhere."""

import torch
from torch import nn

from attnlib.core.arrays import namespace, valid_length
from attnlib.core.scaled_dot_product import attention
from attnlib.efficient.windows import banded_attention
from attnlib.layers.checks import check_tensor
from attnlib.layers.multi_head import merge_heads, split_heads


class LongformerAttention(nn.Module):
    """Self-attention within a window, with global tokens that have projections of their own.

    A local token attends, by ``query``, ``key`` and ``value``, to the tokens of its window and to the
    global ones; a global token within the window counts once. A global token attends, by
    ``query_global``, ``key_global`` and ``value_global``, to all tokens. What comes out are the heads
    side by side; a map over them, as in multi-head attention, is left to whoever uses it.

    Parameters
    ----------
    embed_dim : int >= 1
        Features of a token.
    num_heads : int >= 1
        Divides ``embed_dim``.
    attention_window : int >= 2
        An even number: half of it on each side, and the token itself.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, the heads do not divide the features, or the window is odd.

    References
    ----------
    Beltagy, Peters and Cohan 2020, arXiv 2004.05150, section 3.1. State dicts load from
    ``LongformerSelfAttention`` in Hugging Face transformers, whose mask is one of codes: negative for
    padding, 0 for local and positive for global tokens; here ``mask=codes >= 0, global_mask=codes > 0``.

    Examples
    --------
    >>> layer = LongformerAttention(8, num_heads=2, attention_window=4)
    >>> layer(torch.zeros(1, 20, 8)).shape
    torch.Size([1, 20, 8])
    """

    def __init__(self, embed_dim, num_heads, attention_window, *, device=None, dtype=None):
        super().__init__()
        self.embed_dim = valid_length(embed_dim, "embed_dim")
        self.num_heads = valid_length(num_heads, "num_heads")
        self.attention_window = valid_length(attention_window, "attention_window")
        if self.embed_dim % self.num_heads:
            raise ValueError(f"embed_dim {embed_dim} does not divide into {num_heads} heads")
        if self.attention_window % 2:
            raise ValueError(f"attention_window must be even, half on each side; got {attention_window}")
        for name in ("query", "key", "value", "query_global", "key_global", "value_global"):
            self.add_module(name, nn.Linear(self.embed_dim, self.embed_dim, device=device, dtype=dtype))

    def forward(self, x, mask=None, global_mask=None):
        """Let each token attend.

        Parameters
        ----------
        x : tensor (B, L, embed_dim)
        mask : bool tensor (B, L), optional
            ``False`` for padding, which is not seen and sees nothing.
        global_mask : bool tensor (B, L), optional
            ``True`` for global tokens, as many in each sample as there are; none when left out. Padding
            is not global.

        Returns
        -------
        tensor (B, L, embed_dim)
            Zeros for padding.

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, or its shape does not fit.
        """
        self._check(x, mask, global_mask)
        real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if mask is None else mask
        wide = torch.zeros_like(real) if global_mask is None else global_mask & real
        xp, side = namespace(x=x), self.attention_window // 2
        q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))

        sample, position, place = _listed(wide)  # of each global token, and its place among its sample's
        extra = None
        if len(sample):
            shape = (len(x), int(place.max()) + 1)

            def gathered(rows):
                """Global tokens of each sample in a row, with zeros up to the longest."""
                out = rows.new_zeros(*shape, *rows.shape[2:])
                return out.index_put((sample, place), rows[sample, position])

            some = gathered(wide)[:, None, None, :]
            extra = *(gathered(y.transpose(1, 2)).transpose(1, 2) for y in (k, v)), some
        local = (real & ~wide)[:, None, None, :]
        out = merge_heads(banded_attention(xp, q, k, v, side, side, local, extra))
        if extra is not None:
            q = split_heads(self.query_global(gathered(x)), self.num_heads)
            k, v = (split_heads(w(x), self.num_heads) for w in (self.key_global, self.value_global))
            everywhere = merge_heads(attention(q, k, v, real[:, None, None, :]))
            out = out.index_put((sample, position), everywhere[sample, place])
        return torch.where(real[..., None], out, 0)

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"{self.embed_dim}, num_heads={self.num_heads}, attention_window={self.attention_window}"

    def _check(self, x, mask, global_mask):
        check_tensor(x, "x")
        if x.ndim != 3 or x.shape[-1] != self.embed_dim or 0 in x.shape:
            raise ValueError(f"x must have shape (B, L, {self.embed_dim}), not empty; got {tuple(x.shape)}")
        for name, given in (("mask", mask), ("global_mask", global_mask)):
            if given is None:
                continue
            check_tensor(given, name)
            if given.dtype != torch.bool:
                raise TypeError(f"{name} must be boolean; got dtype {given.dtype}")
            if given.shape != x.shape[:2]:
                raise ValueError(f"{name} must have shape {tuple(x.shape[:2])}; got {tuple(given.shape)}")


def _listed(mask):
    """Sample and position of each True, and how many stand before it in its sample."""
    sample, position = mask.nonzero(as_tuple=True)
    return sample, position, (mask.cumsum(-1) - 1)[sample, position]

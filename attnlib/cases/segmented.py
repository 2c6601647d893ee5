"""Attention within segments, beside a few keys and values that are learned and belong to no token."""

import torch
from torch import nn

from attnlib.core.arrays import valid_length, whole_number
from attnlib.core.rotary import rope, rope_frequencies
from attnlib.core.scaled_dot_product import attention
from attnlib.efficient.patterns import between, blocks, causal
from attnlib.layers.checks import check_dtype, check_tokens


class SegmentedAttention(nn.Module):
    """Causal self-attention that does not look beyond its segment, but for persistent keys and values.

    The attention in Titans' memory as a context: what lies before the segment is the memory's to tell. The
    persistent keys and values are parameters; they hold what does not depend on the text.

    Parameters
    ----------
    dim : int >= 1
        Features of a token, which are normed first.
    segment_len : int >= 1
        Tokens of a segment; the last one may be shorter.
    n_heads : int >= 1
    head_dim : int >= 2
        Features of a head, an even number.
    n_persistent : int >= 0
        Persistent keys and values of each head; they have no positions, and start at 0.
    sliding : bool
        In place of its segment, a token sees itself and ``segment_len`` tokens before it.

    Raises
    ------
    TypeError, ValueError
        If a size is out of its range.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, sections 3.3 and 4.1. ``SegmentedAttention`` of
    lucidrains/titans-pytorch 0.5.5, whose parameters it loads: queries and keys are rotated by their
    positions in the whole text, in pairs (2i, 2i + 1).

    Examples
    --------
    >>> layer = SegmentedAttention(8, segment_len=4, n_heads=2, head_dim=4, n_persistent=2)
    >>> layer(torch.zeros(1, 6, 8)).shape
    torch.Size([1, 6, 8])
    """

    def __init__(self, dim, segment_len, *, n_heads=8, head_dim=64, n_persistent=0, sliding=False,
                 device=None, dtype=None):  # fmt: skip
        super().__init__()
        new = {"device": device, "dtype": dtype}
        self.dim, self.segment_len = valid_length(dim, "dim"), valid_length(segment_len, "segment_len")
        self.n_heads, self.head_dim = valid_length(n_heads, "n_heads"), valid_length(head_dim, "head_dim")
        n_persistent = whole_number(
            n_persistent, f"n_persistent must be a whole number; got {n_persistent!r}"
        )
        if n_persistent < 0:
            raise ValueError(f"n_persistent must be at least 0; got {n_persistent}")
        if not isinstance(sliding, bool):
            raise TypeError(f"sliding must be True or False; got {sliding!r}")
        self.sliding, inner = sliding, self.n_heads * self.head_dim
        self.norm = nn.RMSNorm(self.dim, **new)
        self.rotary_emb = nn.Module()
        self.rotary_emb.register_buffer("freqs", rope_frequencies(self.head_dim, like=torch.empty(0, **new)))
        self.to_qkv = nn.Linear(self.dim, 3 * inner, bias=False, **new)
        self.to_out = nn.Linear(inner, self.dim, bias=False, **new)
        self.persistent_memory = nn.Parameter(
            torch.zeros(2, self.n_heads, n_persistent, self.head_dim, **new)
        )

    def forward(self, x, *, return_weights=False):
        """Let each token attend within its segment, and to the persistent keys.

        Parameters
        ----------
        x : tensor (B, T, dim)
        return_weights : bool
            Return the weights of every head too.

        Returns
        -------
        out : tensor (B, T, dim)
        weights : tensor (B, n_heads, T, n_persistent + T), if asked for
            The persistent keys first.

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor ``(B, T, dim)``.
        """
        check_tokens(x, self.dim)
        check_dtype(x, self)
        (B, T, _), weights = x.shape, None
        q, k, v = self.to_qkv(self.norm(x)).view(B, T, 3, self.n_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        positions = torch.arange(T, device=x.device)
        q, k = (rope(a, positions, frequencies=self.rotary_emb.freqs) for a in (q, k))
        pk, pv = self.persistent_memory.expand(B, *self.persistent_memory.shape).transpose(0, 1)
        seen = between(self.segment_len, 0) if self.sliding else causal & blocks(self.segment_len)
        mask = torch.cat([x.new_ones(T, pk.shape[2]) > 0, seen.mask(T, like=x)], -1)
        out = attention(q, torch.cat([pk, k], 2), torch.cat([pv, v], 2), mask, return_weights=return_weights)
        if return_weights:
            out, weights = out
        out = self.to_out(out.transpose(1, 2).flatten(2))
        return (out, weights) if return_weights else out

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return (f"{self.dim}, segment_len={self.segment_len}, n_heads={self.n_heads}, "
                f"head_dim={self.head_dim}, n_persistent={self.persistent_memory.shape[2]}, "
                f"sliding={self.sliding}")  # fmt: skip

"""A layer that refines its attention weights before it uses them (AWRSR)."""

import torch
from torch import nn

from attnlib.cases.causal_heads import CausalHeads
from attnlib.cases.refinement import refine_weights, refine_weights_stochastic
from attnlib.core.arrays import valid_length
from attnlib.core.scaled_dot_product import attention_weights

KINDS = ("simple", "value-weighted", "additive", "stochastic")


class RefinedAttention(CausalHeads):
    """Causal self-attention in which each head's weights attend to each other before they meet the values.

    The weights of head ``h`` are refined by `refine_weights`, or `refine_weights_stochastic`, with matrices
    of the head's own. They have a row for each position up to ``length``; a shorter sequence takes the first
    rows, a longer one cannot be read.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
        Divides ``dim``.
    length : int >= 1
        The greatest number of tokens.
    kind : {"simple", "value-weighted", "additive", "stochastic"}
    width : int >= 1, optional
        Features of a refined query and key; those of a head, ``dim / n_heads``, when left out.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, the heads do not divide the features, or there is no such kind.

    References
    ----------
    Liu, Liu and Liu 2024, arXiv 2410.21048; reconstructed, as `refine_weights` says. Matrices of each head's
    own, and their first values, drawn from the normal distribution as vectors of positions are, are ours.

    Examples
    --------
    >>> layer = RefinedAttention(8, n_heads=2, length=6)
    >>> layer(torch.zeros(1, 5, 8)).shape, layer.refine_q.shape
    (torch.Size([1, 5, 8]), torch.Size([2, 6, 4]))
    """

    def __init__(self, dim, n_heads, length, kind="simple", *, width=None, device=None, dtype=None):
        super().__init__(dim, n_heads, device=device, dtype=dtype)
        self.length, self.kind = valid_length(length, "length"), kind
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}")
        width = self.dim // self.n_heads if width is None else valid_length(width, "width")

        def drawn(width):
            shape = self.n_heads, self.length, width
            return nn.Parameter(torch.randn(shape, device=device, dtype=dtype))

        if kind == "stochastic":
            self.refine_mean, self.refine_cov = drawn(width), drawn(width)
        else:
            self.refine_q, self.refine_k = drawn(width), drawn(width)
        if kind == "value-weighted":
            self.refine_v = drawn(self.length)

    def attend(self, x, q, k, v, mask):
        """The refined weights, and the values' averages by them; ``mask`` must be boolean."""
        n = x.shape[1]
        if n > self.length:
            raise ValueError(f"x must have at most {self.length} tokens, the rows of the maps; got {n}")
        weights = attention_weights(q, k, mask, causal=True)
        if self.kind == "stochastic":
            maps = self.refine_mean[:, :n], self.refine_cov[:, :n]
            weights = refine_weights_stochastic(weights, *maps, mask=mask, causal=True)
        else:
            w_v = self.refine_v[:, :n, :n] if self.kind == "value-weighted" else None
            maps, additive = (self.refine_q[:, :n], self.refine_k[:, :n], w_v), self.kind == "additive"
            weights = refine_weights(weights, *maps, additive=additive, mask=mask, causal=True)
        return weights @ v, weights

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"{super().extra_repr()}, length={self.length}, kind={self.kind!r}"

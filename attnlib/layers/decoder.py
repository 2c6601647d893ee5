"""The decoder of the 2017 Transformer: it sees its own past, and all of the memory."""

from torch import nn

from attnlib.core.arrays import valid_length
from attnlib.layers.decoder_cache import CachedAttention
from attnlib.layers.feed_forward import FeedForward
from attnlib.layers.residual import Residual


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the memory, the feed-forward net, each with its residual.

    Parameters
    ----------
    d_model, num_heads, d_ff, dropout, norm_first, norm, bias, device, dtype
        As in `EncoderLayer`.
    cross_heads : int >= 1, optional
        Heads of the attention to the memory; ``num_heads`` when left out. One alone has one map to read.

    Raises
    ------
    TypeError, ValueError
        As in `EncoderLayer`.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, sections 3.1 and 3.2.3.

    Examples
    --------
    >>> import torch
    >>> DecoderLayer(8, 2, 32)(torch.zeros(3, 4, 8), torch.zeros(3, 5, 8)).shape
    torch.Size([3, 4, 8])
    """

    def __init__(self, d_model, num_heads, d_ff, *, cross_heads=None, dropout=0.0, norm_first=False,
                 norm=nn.LayerNorm, bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        maps = {"dropout": dropout, "bias": bias, **made}
        cross_heads = num_heads if cross_heads is None else valid_length(cross_heads, "cross_heads")
        self.self_attn = CachedAttention(d_model, num_heads, **maps)
        self.cross_attn = CachedAttention(d_model, cross_heads, **maps)
        self.feed_forward = FeedForward(d_model, d_ff, **maps)
        self.residuals = nn.ModuleList(
            Residual(norm(d_model, **made), dropout=dropout, norm_first=norm_first) for _ in range(3)
        )

    def forward(self, x, memory, mask=None, memory_mask=None, *, causal=True, cache=None):
        """Read the target once.

        Parameters
        ----------
        x : tensor (..., L, d_model)
        memory : tensor (..., S, d_model)
        mask : tensor, optional
            Over the target: padding as ``(B, 1, 1, L)``, ``True`` = may attend; over all tokens so far
            where there is a cache.
        memory_mask : tensor, optional
            Over the memory: padding as ``(B, 1, 1, S)``.
        causal : bool
            Hide from each token those after it.
        cache : LayerCache, optional
            ``x`` continues what the cache has seen.

        Returns
        -------
        tensor (..., L, d_model)
        """
        x = self.residuals[0](x, lambda y: self.self_attn(y, mask=mask, causal=causal, cache=cache))
        x = self.residuals[1](x, lambda y: self.cross_attn(y, memory, mask=memory_mask, cache=cache))
        return self.residuals[2](x, self.feed_forward)


class Decoder(nn.Module):
    """Decoder layers one after the other, and a last norm where there is one.

    Parameters
    ----------
    layers : list of DecoderLayer
    norm : Module, optional
        As in `Encoder`.

    Raises
    ------
    TypeError
        If a layer is no module.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.1.

    Examples
    --------
    >>> import torch
    >>> decoder = Decoder([DecoderLayer(8, 2, 32) for _ in range(6)])
    >>> decoder(torch.zeros(3, 4, 8), torch.zeros(3, 5, 8)).shape
    torch.Size([3, 4, 8])
    """

    def __init__(self, layers, norm=None):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm

    def forward(self, x, memory, mask=None, memory_mask=None, *, causal=True, cache=None):
        """Read the target.

        Parameters
        ----------
        x, memory, mask, memory_mask, causal
            As in `DecoderLayer`.
        cache : DecoderCache, optional
            ``x`` continues what the cache has seen.

        Returns
        -------
        tensor (..., L, d_model)
        """
        for number, layer in enumerate(self.layers):
            part = None if cache is None else cache.layer(number)
            x = layer(x, memory, mask, memory_mask, causal=causal, cache=part)
        return x if self.norm is None else self.norm(x)

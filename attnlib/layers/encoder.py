"""The encoder of the 2017 Transformer: every token sees every other, layer after layer."""

from torch import nn

from attnlib.layers.feed_forward import FeedForward
from attnlib.layers.multi_head import MultiHeadAttention
from attnlib.layers.residual import Residual


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward net, each with its residual connection.

    Parameters
    ----------
    d_model, num_heads, d_ff : int >= 1
        Features of a token, heads, features inside the feed-forward net.
    dropout : float, 0 <= dropout < 1
        On the attention weights, inside the feed-forward net and on both sub-layers' outputs.
    norm_first : bool
        As in `Residual`.
    norm : class
        ``norm(d_model, device=..., dtype=...)`` makes a norm.
    bias : bool
        Whether linear maps have one; that of the norms is the affair of ``norm``.

    Raises
    ------
    TypeError, ValueError
        If a width or a number is out of its range, or the heads do not divide the features.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.1. The paper names dropout on the sub-layers' outputs
    and on the embeddings; the other two places are those of tensor2tensor, ``torch.nn.Transformer`` and
    the Annotated Transformer.

    Examples
    --------
    >>> import torch
    >>> EncoderLayer(8, 2, 32)(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(self, d_model, num_heads, d_ff, *, dropout=0.0, norm_first=False, norm=nn.LayerNorm,
                 bias=True, device=None, dtype=None):
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.self_attn = MultiHeadAttention(d_model, num_heads, dropout=dropout, bias=bias, **made)
        self.feed_forward = FeedForward(d_model, d_ff, dropout=dropout, bias=bias, **made)
        self.residuals = nn.ModuleList(
            Residual(norm(d_model, **made), dropout=dropout, norm_first=norm_first) for _ in range(2)
        )

    def forward(self, x, mask=None):
        """Read a sequence once.

        Parameters
        ----------
        x : tensor (..., L, d_model)
        mask : tensor, optional
            As in `MultiHeadAttention`: padding as ``(B, 1, 1, L)``, ``True`` = may attend.

        Returns
        -------
        tensor (..., L, d_model)
        """
        x = self.residuals[0](x, lambda y: self.self_attn(y, mask=mask))
        return self.residuals[1](x, self.feed_forward)


class Encoder(nn.Module):
    """Encoder layers one after the other, and a last norm where there is one.

    Parameters
    ----------
    layers : list of EncoderLayer
    norm : Module, optional
        At the end. Pre-norm layers need it; the paper's post-norm layers have none.

    Raises
    ------
    TypeError
        If a layer is no module.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.1. ``torch.nn.Transformer`` has a last norm in both
    orders, so with post-norm it norms twice.

    Examples
    --------
    >>> import torch
    >>> encoder = Encoder([EncoderLayer(8, 2, 32) for _ in range(6)])
    >>> encoder(torch.zeros(3, 5, 8)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(self, layers, norm=None):
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm

    def forward(self, x, mask=None):
        """Read a sequence.

        Parameters
        ----------
        x : tensor (..., L, d_model)
        mask : tensor, optional
            As in `EncoderLayer`.

        Returns
        -------
        tensor (..., L, d_model)
            The memory, which a decoder attends to.
        """
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)

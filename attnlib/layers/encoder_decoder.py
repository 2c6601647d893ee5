"""Encoder and decoder together, from vectors to vectors."""

from torch import nn

from attnlib.core.arrays import valid_length
from attnlib.layers.decoder import Decoder, DecoderLayer
from attnlib.layers.encoder import Encoder, EncoderLayer


class EncoderDecoder(nn.Module):
    """The 2017 Transformer without its words: what ``torch.nn.Transformer`` is.

    Parameters
    ----------
    d_model, num_heads, d_ff : int >= 1
    num_layers : int >= 1, or two of them
        In the encoder, and in the decoder; one number for both.
    dropout, norm_first, norm, bias
        As in `EncoderLayer`.
    cross_heads : int >= 1, optional
        As in `DecoderLayer`.
    final_norm : bool, optional
        A last norm on both stacks. Left out: with pre-norm, which needs it, and not with the paper's
        post-norm. ``torch.nn.Transformer`` has it in both.

    Raises
    ------
    TypeError, ValueError
        If a width or a number is out of its range, or the heads do not divide the features.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.1 and figure 1. State dicts of
    ``torch.nn.Transformer`` load by `from_torch_transformer`.

    Examples
    --------
    >>> import torch
    >>> model = EncoderDecoder(8, 2, 1, 32)
    >>> model(torch.zeros(3, 5, 8), torch.zeros(3, 4, 8)).shape
    torch.Size([3, 4, 8])
    """

    def __init__(self, d_model=512, num_heads=8, num_layers=6, d_ff=2048, *, dropout=0.1, norm_first=False,
                 final_norm=None, norm=nn.LayerNorm, cross_heads=None, bias=True, device=None, dtype=None):
        super().__init__()
        numbers = _two_numbers(num_layers)
        made = {"device": device, "dtype": dtype}
        settings = {"dropout": dropout, "norm_first": norm_first, "norm": norm, "bias": bias, **made}
        final_norm = norm_first if final_norm is None else final_norm
        for name, n, stack, layer, more in (
            ("encoder", numbers[0], Encoder, EncoderLayer, {}),
            ("decoder", numbers[1], Decoder, DecoderLayer, {"cross_heads": cross_heads}),
        ):
            layers = [layer(d_model, num_heads, d_ff, **settings, **more) for _ in range(n)]
            setattr(self, name, stack(layers, norm(d_model, **made) if final_norm else None))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw every matrix anew, by Glorot's uniform rule, as ``torch.nn.Transformer`` does."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, *, causal=True):
        """Read the source, then the target.

        Parameters
        ----------
        src : tensor (..., S, d_model)
        tgt : tensor (..., L, d_model)
        src_mask, tgt_mask, memory_mask : tensor, optional
            ``True`` = may attend. Padding of the source is ``(B, 1, 1, S)`` for both ``src_mask`` and
            ``memory_mask``, padding of the target ``(B, 1, 1, L)``.
        causal : bool
            Hide from each target token those after it, besides ``tgt_mask``.

        Returns
        -------
        tensor (..., L, d_model)

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, or its shape does not fit.
        """
        return self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask, causal=causal)


def _two_numbers(num_layers):
    """Layers of the encoder and of the decoder."""
    numbers = tuple(num_layers) if isinstance(num_layers, (tuple, list)) else (num_layers, num_layers)
    if len(numbers) != 2:
        raise ValueError(f"num_layers must be one number or two; got {num_layers!r}")
    return tuple(valid_length(n, "num_layers") for n in numbers)

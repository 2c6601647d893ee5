"""SwiGLU: a feed-forward layer in which one half of the hidden features opens or closes the other."""

import math

import torch
from torch import nn
from torch.nn.functional import silu
from torch.nn.utils import skip_init

from attnlib.core.arrays import check_number, valid_length
from attnlib.layers.checks import check_features


class SwiGLU(nn.Module):
    """``w2(silu(w1(x)) * w3(x))``, with ``silu(z) = z * sigmoid(z)`` and no biases.

    Parameters
    ----------
    dim : int >= 1
        Features of a token, before and after.
    hidden : int >= 1
        Features in between; `swiglu_hidden_size` has Llama's rule.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer.

    References
    ----------
    Shazeer 2020, arXiv 2002.05202, equation 6. The names are those of Meta's Llama; Hugging Face calls
    ``w1``, ``w2``, ``w3`` ``gate_proj``, ``down_proj``, ``up_proj``.

    Examples
    --------
    >>> SwiGLU(4, 16)(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, dim, hidden, *, device=None, dtype=None):
        super().__init__()
        self.dim, self.hidden = valid_length(dim, "dim"), valid_length(hidden, "hidden")
        self.w1 = bare_linear(self.dim, self.hidden, device, dtype)
        self.w2 = bare_linear(self.hidden, self.dim, device, dtype)
        self.w3 = bare_linear(self.dim, self.hidden, device, dtype)
        for linear in (self.w1, self.w2, self.w3):
            linear.reset_parameters()

    def forward(self, x):
        """Change each token by itself.

        Parameters
        ----------
        x : tensor (..., dim)

        Returns
        -------
        tensor (..., dim)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor with ``dim`` features.
        """
        check_features(x, "x", self.dim)
        return self.w2(silu(self.w1(x)) * self.w3(x))


def swiglu_hidden_size(dim, multiple_of=256, multiplier=None):
    """How many hidden features Llama gives a `SwiGLU`.

    ``int(8 dim / 3)``, so that three matrices hold as many weights as the two of a layer four times as
    wide; that times ``multiplier``, cut to a whole number; then up to the next multiple.

    Parameters
    ----------
    dim : int >= 1
    multiple_of : int >= 1
    multiplier : float > 0, optional
        ``ffn_dim_multiplier`` in Meta's ``params.json``.

    Returns
    -------
    int

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, or ``multiplier`` no positive number.

    References
    ----------
    ``FeedForward`` in ``llama/model.py`` of meta-llama/llama3.

    Examples
    --------
    >>> swiglu_hidden_size(4096, 1024, 1.3)    # Llama 3 8B
    14336
    """
    dim, multiple_of = valid_length(dim, "dim"), valid_length(multiple_of, "multiple_of")
    hidden = int(8 * dim / 3)
    if multiplier is not None:
        check_number(multiplier, "multiplier")
        if not 0 < multiplier < math.inf:
            raise ValueError(f"multiplier must be positive and finite; got {multiplier!r}")
        hidden = int(multiplier * hidden)
    return multiple_of * -(-hidden // multiple_of)


def bare_linear(n_in, n_out, device, dtype):
    """A linear map without bias whose weights are still to be set."""
    device = torch.get_default_device() if device is None else device
    return skip_init(nn.Linear, n_in, n_out, bias=False, device=device, dtype=dtype)

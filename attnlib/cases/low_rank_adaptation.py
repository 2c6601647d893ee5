"""LoRA: a weight stays as it is, and the product of two thin matrices is learned beside it."""

import math

from torch import nn
from torch.nn.functional import linear

from attnlib.core.arrays import check_number, valid_length
from attnlib.layers.checks import check_dtype, check_features


class LowRankLinear(nn.Module):
    """``x @ W'.T + bias`` with ``W' = W + (alpha / rank) B A``; ``A`` and ``B`` alone are trained.

    Whatever is added has rank ``rank`` at most, in directions of its own choice.

    Parameters
    ----------
    linear : nn.Linear
        Left as it is; its weight is shared, not copied.
    rank : int >= 1
    alpha : float, optional
        ``rank`` when left out, so that the factor is 1.

    Attributes
    ----------
    A : parameter (rank, in)
        Starts at random.
    B : parameter (out, rank)
        Starts at zeros: the layer begins as the one it stands for.

    Raises
    ------
    TypeError, ValueError
        If ``linear`` is none, or a setting is out of its range.

    References
    ----------
    Hu et al. 2021, arXiv 2106.09685, section 4.1; ``A`` starts as in microsoft/LoRA, ``loralib/layers.py``.

    Examples
    --------
    >>> import torch
    >>> layer = LowRankLinear(nn.Linear(64, 16), rank=2)
    >>> layer(torch.ones(2, 64)).shape, sum(p.numel() for p in layer.parameters() if p.requires_grad)
    (torch.Size([2, 16]), 160)
    """

    def __init__(self, linear, rank, alpha=None):
        super().__init__()
        if not isinstance(linear, nn.Linear):
            raise TypeError(f"linear must be an nn.Linear; got {type(linear).__name__}")
        self.rank = valid_length(rank, "rank")
        if alpha is not None:
            check_number(alpha, "alpha")
        self.scale = 1.0 if alpha is None else alpha / self.rank
        weight, bias = linear.weight.detach(), linear.bias
        self.register_buffer("base", weight)
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.A = nn.Parameter(weight.new_empty(self.rank, weight.shape[1]))
        self.B = nn.Parameter(weight.new_empty(weight.shape[0], self.rank))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw ``A`` anew and set ``B`` to zeros."""
        nn.init.kaiming_uniform_(self.A, a=math.sqrt(5))
        nn.init.zeros_(self.B)

    @property
    def weight(self):
        """The weight in use, ``(out, in)``."""
        return self.base + self.scale * self.B @ self.A

    def forward(self, x):
        """Map the last axis.

        Parameters
        ----------
        x : tensor (..., in)

        Returns
        -------
        tensor (..., out)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor with so many features.
        """
        check_features(x, "x", self.base.shape[1])
        check_dtype(x, self)
        return linear(x, self.weight, self.bias)

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"{self.base.shape[1]}, {self.base.shape[0]}, rank={self.rank}"

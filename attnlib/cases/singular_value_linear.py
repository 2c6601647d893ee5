"""A linear layer of which nothing is trained but how loud each of its directions is."""

import torch
from torch import nn
from torch.nn.functional import linear

from attnlib.cases.singular_values import FORMS, scale_singular_values, singular_value_decomposition
from attnlib.layers.checks import check_features


class SingularValueLinear(nn.Module):
    """``x @ W'.T + bias`` with ``W' = scale_singular_values(W, z)``; ``z`` alone is trained.

    Parameters
    ----------
    linear : nn.Linear
        Decomposed once, in float32 if it is of half precision; the layer itself is left as it is.
    form : {"paper", "shipped", "mixture"}
        As in `scale_singular_values`.
    max_mult : float > 0
        Of the shipped form; it cancels.

    Attributes
    ----------
    z : parameter (min(out, in),)
        Starts at ones, or, in the shipped form, at 0.1 and a little noise of deviation 0.01. Zeros would be
        a layer of no weight in the paper's form, and any constant is the layer itself in the others.

    Raises
    ------
    TypeError, ValueError
        If ``linear`` is none, or ``form`` is unknown.

    References
    ----------
    Sun, Cetin and Tang 2025, arXiv 2501.06252, section 3.1; ``Policy`` in ``policy/base.py`` of
    SakanaAI/self-adaptive-llms has the shipped form and its start.

    Examples
    --------
    >>> layer = SingularValueLinear(nn.Linear(64, 16))
    >>> layer(torch.ones(2, 64)).shape, sum(p.numel() for p in layer.parameters())
    (torch.Size([2, 16]), 16)
    """

    def __init__(self, linear, form="paper", *, max_mult=1.0):
        super().__init__()
        if not isinstance(linear, nn.Linear):
            raise TypeError(f"linear must be an nn.Linear; got {type(linear).__name__}")
        if form not in FORMS:
            raise ValueError(f"form must be one of {', '.join(map(repr, FORMS))}; got {form!r}")
        self.form, self.max_mult = form, max_mult
        weight = linear.weight.detach()
        half = weight.dtype in (torch.float16, torch.bfloat16)
        U, S, V = singular_value_decomposition(weight.float() if half else weight)
        for name, part in (("U", U), ("S", S), ("V", V)):
            self.register_buffer(name, part.contiguous())
        bias = linear.bias
        self.register_buffer("bias", None if bias is None else bias.detach().clone())
        self.z = nn.Parameter(torch.empty_like(S))
        self.reset_parameters()

    def reset_parameters(self):
        """Set ``z`` to its start, which gives the layer that was decomposed, or nearly so."""
        if self.form == "shipped":
            nn.init.normal_(self.z, 0.1, 0.01)
        else:
            nn.init.ones_(self.z)

    @property
    def weight(self):
        """The weight in use, ``(out, in)``."""
        return scale_singular_values((self.U, self.S, self.V), self.z, self.form, max_mult=self.max_mult)

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
        check_features(x, "x", self.V.shape[0])
        if not x.is_floating_point():
            raise TypeError(f"x must hold floating-point numbers; got {x.dtype}")
        bias = None if self.bias is None else self.bias.to(x.dtype)
        return linear(x, self.weight.to(x.dtype), bias)

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"{self.V.shape[0]}, {self.U.shape[0]}, form={self.form!r}, trained={self.z.numel()}"

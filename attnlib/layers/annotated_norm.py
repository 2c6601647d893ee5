"""The layer norm of the Annotated Transformer, for weights that were trained with it."""

import torch
from torch import nn


class AnnotatedLayerNorm(nn.LayerNorm):
    """``weight * (x - mean) / (std + eps) + bias`` over the features, with the unbiased ``std``.

    ``torch.nn.LayerNorm`` has ``weight * (x - mean) / sqrt(var + eps) + bias`` with the biased ``var``:
    for ``d`` features the two differ by a factor of about ``sqrt(1 - 1/d)``, which training makes up for.
    In a new model take ``torch.nn.LayerNorm``.

    Parameters
    ----------
    width : int >= 2
        Features, ``d``.
    eps : float

    Raises
    ------
    ValueError
        If there is one feature only, whose standard deviation is none.

    References
    ----------
    Ba, Kiros and Hinton 2016, arXiv 1607.06450, section 3, has the biased variance and no ``eps``. This
    form is from "The Annotated Transformer" (Rush 2018; Huang et al. 2022), ``LayerNorm``.

    Examples
    --------
    >>> AnnotatedLayerNorm(3, eps=0.0)(torch.tensor([1.0, 2.0, 3.0])).tolist()
    [-1.0, 0.0, 1.0]
    """

    def __init__(self, width, eps=1e-6, *, device=None, dtype=None):
        if width < 2:
            raise ValueError(f"width must be at least 2; got {width}")
        super().__init__(width, eps=eps, device=device, dtype=dtype)

    def forward(self, x):
        """Shift and scale every token.

        Parameters
        ----------
        x : tensor (..., width)

        Returns
        -------
        tensor (..., width)
            ``bias`` where all features are equal; no gradient reaches ``x`` through its spread there.
        """
        x = x - x.mean(-1, keepdim=True)
        var = x.square().sum(-1, keepdim=True) / (x.shape[-1] - 1)
        std = torch.where(var > 0, var, 1).sqrt() * (var > 0)  # the slope of the root at 0 is infinite
        return self.weight * x / (std + self.eps) + self.bias

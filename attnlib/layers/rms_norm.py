"""Root mean square norm: each token divided by its own size."""

import torch
from torch import nn

from attnlib.core.arrays import valid_length
from attnlib.layers.checks import check_features


class RMSNorm(nn.Module):
    """``x / sqrt(mean(x**2) + eps) * weight`` over the features of each token.

    Layer normalisation without its mean and without its bias.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    eps : float >= 0
        Keeps a token of zeros at zero. 1e-5 in Llama 3, 1e-6 in Hugging Face's default.

    Raises
    ------
    TypeError, ValueError
        If ``dim`` is not a positive integer or ``eps`` negative.

    References
    ----------
    Zhang and Sennrich 2019, arXiv 1910.07467, section 4, without ``eps``. Half precision is normed in
    float32 and then multiplied in its own type, as in Meta's Llama and in Hugging Face's;
    ``torch.nn.RMSNorm`` multiplies first.

    Examples
    --------
    >>> RMSNorm(2, eps=0.0)(torch.tensor([3.0, -3.0])).tolist()
    [1.0, -1.0]
    """

    def __init__(self, dim, eps=1e-5, *, device=None, dtype=None):
        super().__init__()
        if not eps >= 0:
            raise ValueError(f"eps must be at least 0; got {eps!r}")
        self.dim, self.eps = valid_length(dim, "dim"), eps
        self.weight = nn.Parameter(torch.ones(self.dim, device=device, dtype=dtype))

    def forward(self, x):
        """Norm each token.

        Parameters
        ----------
        x : tensor (..., dim)

        Returns
        -------
        tensor (..., dim)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no floating tensor with ``dim`` features.
        """
        if not isinstance(x, torch.Tensor) or not x.is_floating_point():
            got = x.dtype if isinstance(x, torch.Tensor) else type(x).__name__
            raise TypeError(f"x must be a floating torch tensor; got {got}")
        check_features(x, "x", self.dim)
        half = x.dtype in (torch.float16, torch.bfloat16)
        wide = x.float() if half else x
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (normed.to(x.dtype) if half else normed) * self.weight

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"{self.dim}, eps={self.eps}"

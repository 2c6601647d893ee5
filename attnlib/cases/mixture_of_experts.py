"""Mixture of experts: many feed-forward layers, of which each token passes through a few."""

import torch
from torch import nn

from attnlib.core.arrays import valid_length
from attnlib.layers.checks import check_dtype, check_features
from attnlib.layers.swiglu import SwiGLU, bare_linear


class MixtureOfExperts(nn.Module):
    """``sum_e weight_e SwiGLU_e(x)`` over the ``top_k`` experts that a token's gate likes best.

    The weights are the softmax over all experts, cut to the best and divided by their sum. All experts are
    kept in memory, and a token pays for ``top_k`` of them.

    Parameters
    ----------
    dim : int >= 1
        Features of a token, before and after.
    hidden : int >= 1
        Features inside one expert.
    n_experts : int >= 1
        1 is a `SwiGLU`.
    top_k : int >= 1
        At most ``n_experts``.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or ``top_k`` is above ``n_experts``.

    References
    ----------
    Shazeer et al. 2017, arXiv 1701.06538, takes the softmax after the cut: the same weights. Jiang et al.
    2024, arXiv 2401.04088, and MiniMax 2025, arXiv 2501.08313, use two experts, of eight and of 32. The names
    are those of ``block_sparse_moe`` in their checkpoints. The term of the loss that keeps all experts in use
    while training is left out.

    Examples
    --------
    >>> layer = MixtureOfExperts(4, 16, n_experts=8)
    >>> layer(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    >>> weights, experts = layer.route(torch.ones(2, 3, 4))
    >>> weights.shape, experts.shape
    (torch.Size([2, 3, 2]), torch.Size([2, 3, 2]))
    """

    def __init__(self, dim, hidden, n_experts, top_k=2, *, device=None, dtype=None):
        super().__init__()
        n_experts, self.top_k = valid_length(n_experts, "n_experts"), valid_length(top_k, "top_k")
        if self.top_k > n_experts:
            raise ValueError(f"top_k must be at most n_experts, {n_experts}; got {top_k}")
        self.dim = valid_length(dim, "dim")
        self.gate = bare_linear(self.dim, n_experts, device, dtype)
        self.gate.reset_parameters()
        self.experts = nn.ModuleList(
            SwiGLU(dim, hidden, device=device, dtype=dtype) for _ in range(n_experts)
        )

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
        tokens = x.reshape(-1, self.dim)
        weights, chosen = self.route(tokens)
        out = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            token, rank = torch.where(chosen == i)
            if len(token):
                own = expert(tokens[token]) * weights[token, rank, None]
                out = out.index_add(0, token, own.to(out.dtype))
        return out.reshape(x.shape)

    def route(self, x):
        """Which experts each token goes to, and what they count.

        Parameters
        ----------
        x : tensor (..., dim)

        Returns
        -------
        weights : tensor (..., top_k)
            They sum to 1; from the greatest down; in float32 where ``x`` is of half precision.
        experts : integer tensor (..., top_k)
        """
        check_features(x, "x", self.dim)
        check_dtype(x, self)
        scores = self.gate(x)
        half = scores.dtype in (torch.float16, torch.bfloat16)
        weights, experts = torch.softmax(scores.float() if half else scores, -1).topk(self.top_k, -1)
        return weights / weights.sum(-1, keepdim=True), experts

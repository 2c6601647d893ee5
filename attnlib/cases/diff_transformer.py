"""The attention of the Differential Transformer: each head has two maps, and gives their difference."""

import torch
from torch import nn

from attnlib.cases.differential import differential_attention, differential_lambda_init
from attnlib.core.arrays import valid_length
from attnlib.layers.checks import check_dtype, check_tokens
from attnlib.layers.grouped_query import turned
from attnlib.layers.multi_head import merge_heads, split_heads
from attnlib.layers.rms_norm import RMSNorm
from attnlib.layers.swiglu import bare_linear


class DifferentialAttention(nn.Module):
    """Causal self-attention whose heads subtract a second attention from the first.

    A head has two queries and two keys of half its width, and one value. Its output is
    `differential_attention` with ``lambda = exp(lambda_q1 . lambda_k1) - exp(lambda_q2 . lambda_k2) +
    lambda_init``, normed by itself and multiplied by ``1 - lambda_init``, so that gradients start as large
    as without the difference. Parameters are those of multi-head attention without biases, and five vectors.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
        ``2 * n_heads`` divides ``dim``: half as many heads as a usual layer with queries as wide.
    n_kv_heads : int >= 1, optional
        Heads of values, and pairs of keys; divides ``n_heads``, which it is when left out.
    depth : number >= 0
        Layers before this one, for `differential_lambda_init`.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or one does not divide the other.

    References
    ----------
    Ye et al. 2024, arXiv 2410.05258, sections 2.1 and 2.2. Parameter names are those of
    ``MultiheadDiffAttn`` in ``Diff-Transformer/multihead_diffattn.py`` of microsoft/unilm, which always
    rotates, pairs (2i, 2i + 1). Of its ``2 * n_heads`` narrow heads, 2h and 2h + 1 are the two of head
    ``h``; as they share keys with their neighbours (narrow head ``s`` has key ``s // group``), in groups of
    an even number both maps of a head have the same key, and differ by their queries alone.

    Examples
    --------
    >>> layer = DifferentialAttention(16, n_heads=2, depth=0)
    >>> out, weights = layer(torch.ones(1, 5, 16), return_weights=True)
    >>> weights.shape, weights[0, 0, -1].sum().item() < 1
    (torch.Size([1, 2, 5, 5]), True)
    """

    def __init__(self, dim, n_heads, n_kv_heads=None, *, depth, device=None, dtype=None):
        super().__init__()
        self.dim, self.n_heads = valid_length(dim, "dim"), valid_length(n_heads, "n_heads")
        self.n_kv_heads = self.n_heads if n_kv_heads is None else valid_length(n_kv_heads, "n_kv_heads")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_heads must be a multiple of n_kv_heads; got {n_heads} and {n_kv_heads}")
        if self.dim % (2 * self.n_heads):
            raise ValueError(f"dim {dim} does not divide into two halves of {n_heads} heads")
        self.head_dim = self.dim // self.n_heads // 2
        self.lambda_init = differential_lambda_init(depth)
        narrow = 2 * self.n_kv_heads * self.head_dim
        self.q_proj = bare_linear(self.dim, self.dim, device, dtype)
        self.k_proj = bare_linear(self.dim, narrow, device, dtype)
        self.v_proj = bare_linear(self.dim, narrow, device, dtype)
        self.out_proj = bare_linear(self.dim, self.dim, device, dtype)
        for linear in (self.q_proj, self.k_proj, self.v_proj, self.out_proj):
            linear.reset_parameters()
        for name in ("lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"):
            vector = torch.empty(self.head_dim, device=device, dtype=dtype)
            self.register_parameter(name, nn.Parameter(nn.init.normal_(vector, std=0.1)))
        self.subln = RMSNorm(2 * self.head_dim, 1e-5, device=device, dtype=dtype)

    def lam(self):
        """How much is subtracted now, in every head: a tensor of one number."""
        q1, k1, q2, k2 = (
            x if x.dtype == torch.float64 else x.float()
            for x in (self.lambda_q1, self.lambda_k1, self.lambda_q2, self.lambda_k2)
        )
        return torch.exp(q1 @ k1) - torch.exp(q2 @ k2) + self.lambda_init

    def forward(self, x, turns=None, mask=None, *, return_weights=False):
        """Let each token attend to itself and to the tokens before it.

        Parameters
        ----------
        x : tensor (B, T, dim)
        turns : complex tensor (T, head_dim / 2), or (B, 1, T, head_dim / 2), optional
            How far each pair of features of queries and keys is rotated (`rotary_turns`); not at all when
            left out. ``head_dim`` is ``dim / n_heads / 2``.
        mask : tensor, optional
            Broadcasts to ``(B, n_heads, T, T)``. Boolean: ``True`` = may attend. Floating: added to the
            scaled scores.
        return_weights : bool
            Return the differences of every head too.

        Returns
        -------
        out : tensor (B, T, dim)
            Zeros for a token that may attend to nothing.
        weights : tensor (B, n_heads, T, T), if asked for
            Rows sum to ``1 - lambda``.

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, or its shape does not fit.
        """
        check_tokens(x, self.dim)
        check_dtype(x, self)
        group = self.n_heads // self.n_kv_heads
        q = split_heads(self.q_proj(x), 2 * self.n_heads)
        k = split_heads(self.k_proj(x), 2 * self.n_kv_heads)
        v = split_heads(self.v_proj(x), self.n_kv_heads)
        if turns is not None:
            q, k = turned(q, turns), turned(k, turns)
        k, v = (heads.repeat_interleave(group, 1) for heads in (k, v))
        halves = (q[:, 0::2], k[:, 0::2], q[:, 1::2], k[:, 1::2])
        settings = {"causal": True, "return_weights": return_weights}
        out = differential_attention(*halves, v, self.lam(), mask, **settings)
        if return_weights:
            out, weights = out
        out = self.out_proj(merge_heads(self.subln(out) * (1 - self.lambda_init)))
        return (out, weights) if return_weights else out

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return (
            f"{self.dim}, n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}, "
            f"lambda_init={self.lambda_init:.3f}"
        )

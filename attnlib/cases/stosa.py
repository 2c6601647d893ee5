"""STOSA's layer: items are Gaussians, and both their means and their variances are attended to."""

from torch import nn

from attnlib.cases.stochastic import stochastic_attention
from attnlib.core.arrays import valid_length
from attnlib.efficient.linear import elu_plus_one
from attnlib.layers.checks import check_dtype, check_features
from attnlib.layers.multi_head import merge_heads, split_heads


class StochasticSelfAttention(nn.Module):
    """Self-attention over Gaussians: two streams, of means and of variances, that share their weights.

    Each stream has its own maps, ``mean_*`` and ``cov_*``; the variances of queries, keys and values pass
    through `elu_plus_one`, which makes them positive. After the attention each stream has its own last map,
    its input added, and one layer norm, the same for both.

    Parameters
    ----------
    dim : int >= 1
        Features of a token's mean, and of its variance.
    n_heads : int >= 1
        Divides ``dim``.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or the heads do not divide the features.

    References
    ----------
    Fan et al. 2022, arXiv 2201.06035, section 3. Parameter names are those of ``DistSelfAttention`` in
    ``modules.py`` of zfan20/STOSA, without its dropout. There a query with nothing to attend to averages
    everything. The norm comes last, so what leaves as a variance may be negative; the next layer's maps
    and `elu_plus_one` make variances of it.

    Examples
    --------
    >>> import torch
    >>> layer = StochasticSelfAttention(8, n_heads=2)
    >>> mean, cov = layer(torch.zeros(1, 5, 8), torch.ones(1, 5, 8), causal=True)
    >>> mean.shape, cov.shape
    (torch.Size([1, 5, 8]), torch.Size([1, 5, 8]))
    """

    def __init__(self, dim, n_heads, *, device=None, dtype=None):
        super().__init__()
        self.dim, self.n_heads = valid_length(dim, "dim"), valid_length(n_heads, "n_heads")
        if self.dim % self.n_heads:
            raise ValueError(f"dim {dim} does not divide into {n_heads} heads")
        for part in ("query", "key", "value", "dense"):
            for stream in ("mean", "cov"):
                square = nn.Linear(self.dim, self.dim, device=device, dtype=dtype)
                self.add_module(f"{stream}_{part}", square)
        self.LayerNorm = nn.LayerNorm(self.dim, eps=1e-12, device=device, dtype=dtype)

    def forward(self, mean, cov, mask=None, *, causal=False, return_weights=False):
        """Let each Gaussian attend to those near it.

        Parameters
        ----------
        mean, cov : tensor (B, L, dim)
        mask : tensor, optional
            Broadcasts to ``(B, n_heads, L, L)``. Boolean: ``True`` = may attend. Floating: added to the
            scaled scores.
        causal : bool
            Besides ``mask``, hide the tokens after each one.
        return_weights : bool
            Return the weights of every head too.

        Returns
        -------
        mean, cov : tensor (B, L, dim)
        weights : tensor (B, n_heads, L, L), if asked for

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, or its shape does not fit.
        """
        for name, x in (("mean", mean), ("cov", cov)):
            check_features(x, name, self.dim)
            check_dtype(x, self, name)
            if x.ndim != 3 or x.shape != mean.shape:
                shape = f"(B, L, {self.dim}), the same for both"
                raise ValueError(f"{name} must have shape {shape}; got {tuple(x.shape)}")
        gaussians = (
            *self._heads(self.mean_query(mean), self.cov_query(cov)),
            *self._heads(self.mean_key(mean), self.cov_key(cov)),
            *self._heads(self.mean_value(mean), self.cov_value(cov)),
        )
        out, spread, weights = stochastic_attention(*gaussians, mask, causal=causal, return_weights=True)
        out = self.LayerNorm(self.mean_dense(merge_heads(out)) + mean)
        spread = self.LayerNorm(self.cov_dense(merge_heads(spread)) + cov)
        return (out, spread, weights) if return_weights else (out, spread)

    def _heads(self, mean, cov):
        return split_heads(mean, self.n_heads), split_heads(elu_plus_one(cov), self.n_heads)

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"{self.dim}, n_heads={self.n_heads}"

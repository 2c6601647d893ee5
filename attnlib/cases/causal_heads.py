"""What layers of causal self-attention share, whatever they do between queries, keys and values."""

from torch import nn

from attnlib.core.arrays import valid_length
from attnlib.layers.checks import check_dtype, check_tokens
from attnlib.layers.multi_head import merge_heads, split_heads
from attnlib.layers.swiglu import bare_linear


class CausalHeads(nn.Module):
    """Maps to queries, keys and values of heads, and a map back from what ``attend`` makes of them."""

    def __init__(self, dim, n_heads, *, device=None, dtype=None):
        super().__init__()
        self.dim, self.n_heads = valid_length(dim, "dim"), valid_length(n_heads, "n_heads")
        if self.dim % self.n_heads:
            raise ValueError(f"dim {dim} does not divide into {n_heads} heads")
        self.wq, self.wk, self.wv, self.wo = (
            bare_linear(self.dim, self.dim, device, dtype) for _ in range(4)
        )
        for linear in (self.wq, self.wk, self.wv, self.wo):
            linear.reset_parameters()

    def forward(self, x, mask=None, *, return_weights=False):
        """Let each token attend to itself and to the tokens before it.

        Parameters
        ----------
        x : tensor (B, L, dim)
        mask : tensor, optional
            Broadcasts to ``(B, n_heads, L, L)``. Boolean: ``True`` = may attend. Floating: added to the
            scores.
        return_weights : bool
            Return the weights of every head too.

        Returns
        -------
        out : tensor (B, L, dim)
            Zeros for a token that may attend to nothing.
        weights : tensor (B, n_heads, L, L), if asked for

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, or its shape does not fit.
        """
        check_tokens(x, self.dim)
        check_dtype(x, self)
        q, k, v = (split_heads(w(x), self.n_heads) for w in (self.wq, self.wk, self.wv))
        out, weights = self.attend(x, q, k, v, mask)
        out = self.wo(merge_heads(out))
        return (out, weights) if return_weights else out

    def attend(self, x, q, k, v, mask):
        """Outputs ``(B, H, L, d)`` and weights of the heads; each kind of layer has its own."""
        raise NotImplementedError

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"{self.dim}, n_heads={self.n_heads}"

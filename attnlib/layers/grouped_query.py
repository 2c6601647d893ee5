"""Llama's attention: causal, rotated, with fewer heads of keys and values than of queries."""

import torch
from torch import nn

from attnlib.core.arrays import valid_length
from attnlib.core.grouped_queries import grouped_query_attention
from attnlib.layers.checks import check_tokens
from attnlib.layers.key_value_cache import KeyValueCache
from attnlib.layers.swiglu import bare_linear


class GroupedQueryAttention(nn.Module):
    """Causal self-attention in which ``n_heads / n_kv_heads`` query heads share each key head.

    ``concat(head_1, ..., head_H) @ wo.T``, queries and keys rotated by their positions, no biases. The
    cache of keys and values is smaller than multi-head attention's by the size of the groups.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
        Query heads.
    n_kv_heads : int >= 1, optional
        Divides ``n_heads``, which it is when left out; 1 is multi-query attention.
    head_dim : int >= 2, optional
        Features of a head, an even number; ``dim / n_heads`` when left out.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or one does not divide the other.

    References
    ----------
    Ainslie et al. 2023, arXiv 2305.13245; ``Attention`` in ``llama/model.py`` of meta-llama/llama3, whose
    parameter names and whose pairs of rotated features (2i, 2i + 1) it has.

    Examples
    --------
    >>> layer = GroupedQueryAttention(8, n_heads=4, n_kv_heads=2)
    >>> layer(torch.zeros(1, 5, 8)).shape, layer.wk.weight.shape
    (torch.Size([1, 5, 8]), torch.Size([4, 8]))
    """

    def __init__(self, dim, n_heads, n_kv_heads=None, *, head_dim=None, device=None, dtype=None):
        super().__init__()
        self.dim, self.n_heads = valid_length(dim, "dim"), valid_length(n_heads, "n_heads")
        self.n_kv_heads = self.n_heads if n_kv_heads is None else valid_length(n_kv_heads, "n_kv_heads")
        if self.n_heads % self.n_kv_heads:
            raise ValueError(f"n_heads must be a multiple of n_kv_heads; got {n_heads} and {n_kv_heads}")
        if head_dim is None and self.dim % self.n_heads:
            raise ValueError(f"dim {dim} does not divide into {n_heads} heads; head_dim sets their width")
        self.head_dim = self.dim // self.n_heads if head_dim is None else valid_length(head_dim, "head_dim")
        if self.head_dim % 2:
            raise ValueError(f"a head must have an even number of features, for pairs; got {self.head_dim}")
        self.wq = bare_linear(self.dim, self.n_heads * self.head_dim, device, dtype)
        self.wk = bare_linear(self.dim, self.n_kv_heads * self.head_dim, device, dtype)
        self.wv = bare_linear(self.dim, self.n_kv_heads * self.head_dim, device, dtype)
        self.wo = bare_linear(self.n_heads * self.head_dim, self.dim, device, dtype)
        for linear in (self.wq, self.wk, self.wv, self.wo):
            linear.reset_parameters()

    def forward(self, x, turns=None, mask=None, *, cache=None, return_weights=False):
        """Let each token attend to itself and to the tokens before it.

        Parameters
        ----------
        x : tensor (B, T, dim)
            The next tokens: those after the ones in the cache.
        turns : complex tensor (T, head_dim / 2), or (B, 1, T, head_dim / 2), optional
            How far each pair of features of queries and keys is rotated (`rotary_turns`); not at all when
            left out.
        mask : tensor, optional
            Broadcasts to ``(B, n_heads, T, S)``, the keys in the cache included. Boolean: ``True`` = may
            attend. Floating: added to the scaled scores.
        cache : KeyValueCache, optional
            Keys and values of earlier tokens; those of ``x`` are appended.
        return_weights : bool
            Return the weights of every query head too.

        Returns
        -------
        out : tensor (B, T, dim)
            Zeros for a token that may attend to nothing.
        weights : tensor (B, n_heads, T, S), if asked for

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, its shape does not fit, or the cache is full.
        """
        check_tokens(x, self.dim)
        (B, T, _), d, weights = x.shape, self.head_dim, None
        q, k, v = (w(x).view(B, T, -1, d).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        if turns is not None:
            q, k = turned(q, turns), turned(k, turns)
        if cache is not None:
            k, v = cache.append(k, v)
        out = grouped_query_attention(q, k, v, mask, causal=True, return_weights=return_weights)
        if return_weights:
            out, weights = out
        out = self.wo(out.transpose(1, 2).reshape(B, T, -1))
        return (out, weights) if return_weights else out

    def new_cache(self, batch, max_len):
        """An empty cache for ``batch`` sequences of up to ``max_len`` tokens."""
        weight = self.wk.weight
        return KeyValueCache(
            batch, self.n_kv_heads, max_len, self.head_dim, device=weight.device, dtype=weight.dtype
        )

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"{self.dim}, n_heads={self.n_heads}, n_kv_heads={self.n_kv_heads}, head_dim={self.head_dim}"


def rotary_turns(positions, frequencies):
    """``exp(1j * position * frequency)`` for each pair of features, made once for all layers.

    `turned` applies them. Together they do what `attnlib.rope` does, interleaved, in fewer steps.

    Parameters
    ----------
    positions : integer tensor (...)
    frequencies : tensor (d / 2,)
        Radians per position (`attnlib.rope_frequencies`).

    Returns
    -------
    complex tensor (..., d / 2)
    """
    angles = positions[..., None] * frequencies
    return torch.polar(torch.ones_like(angles), angles)


def turned(x, turns):
    """Each pair of features (2i, 2i + 1) of ``x`` as a complex number, times its turn."""
    wanted = (x.shape[-2], x.shape[-1] // 2)
    if not isinstance(turns, torch.Tensor) or not turns.is_complex():
        got = turns.dtype if isinstance(turns, torch.Tensor) else type(turns).__name__
        raise TypeError(f"turns must be a complex tensor, as rotary_turns makes it; got {got}")
    if turns.shape[-2:] != wanted:
        raise ValueError(
            f"turns must have a row for each token and a column for each pair, {wanted}; got shape "
            f"{tuple(turns.shape)}"
        )
    if x.dtype in (torch.float16, torch.bfloat16):
        return turned(x.float(), turns).to(x.dtype)
    pairs = torch.view_as_complex(x.view(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)

"""Layers of talking heads, of forgetting and of selective attention."""

import torch
from torch import nn
from torch.nn.functional import logsigmoid

from attnlib.cases.causal_heads import CausalHeads
from attnlib.cases.forgetting import forgetting_attention
from attnlib.cases.selective import selective_attention
from attnlib.cases.talking_heads import talking_heads_attention


class TalkingHeadsAttention(CausalHeads):
    """Causal self-attention with `talking_heads_attention`: two square matrices over heads more.

    Both start as the identity, so that the layer starts as multi-head attention.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
        Divides ``dim``.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or the heads do not divide the features.

    References
    ----------
    Shazeer et al. 2020, arXiv 2003.02436. The identity as a start is that of x-transformers.

    Examples
    --------
    >>> layer = TalkingHeadsAttention(8, n_heads=2)
    >>> layer(torch.zeros(1, 5, 8)).shape, layer.mix_scores.tolist()
    (torch.Size([1, 5, 8]), [[1.0, 0.0], [0.0, 1.0]])
    """

    def __init__(self, dim, n_heads, *, device=None, dtype=None):
        super().__init__(dim, n_heads, device=device, dtype=dtype)
        self.mix_scores = nn.Parameter(torch.eye(self.n_heads, device=device, dtype=dtype))
        self.mix_weights = nn.Parameter(torch.eye(self.n_heads, device=device, dtype=dtype))

    def attend(self, x, q, k, v, mask):
        """`talking_heads_attention`."""
        mixes = self.mix_scores, self.mix_weights
        return talking_heads_attention(q, k, v, *mixes, mask, causal=True, return_weights=True)


class ForgettingAttention(CausalHeads):
    """Causal self-attention with `forgetting_attention`: a gate ``sigmoid(x @ w + b)`` a token and head.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
        Divides ``dim``.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or the heads do not divide the features.

    References
    ----------
    Lin et al. 2025, arXiv 2503.02130, section 3, without what else their layers have (norms of queries and
    keys, an output gate).

    Examples
    --------
    >>> layer = ForgettingAttention(8, n_heads=2)
    >>> layer(torch.zeros(1, 5, 8)).shape, layer.forget.weight.shape
    (torch.Size([1, 5, 8]), torch.Size([2, 8]))
    """

    def __init__(self, dim, n_heads, *, device=None, dtype=None):
        super().__init__(dim, n_heads, device=device, dtype=dtype)
        self.forget = nn.Linear(self.dim, self.n_heads, device=device, dtype=dtype)

    def attend(self, x, q, k, v, mask):
        """`forgetting_attention`, its gates made of ``x``."""
        log_forget = logsigmoid(self.forget(x)).mT
        return forgetting_attention(q, k, v, log_forget, mask, return_weights=True)


class SelectiveAttention(CausalHeads):
    """Causal self-attention with `selective_attention`: no parameter more.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
        Divides ``dim``; the first head selects.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or the heads do not divide the features.

    References
    ----------
    Leviathan, Kalman and Matias 2024, arXiv 2410.02703.

    Examples
    --------
    >>> layer = SelectiveAttention(8, n_heads=2)
    >>> layer(torch.zeros(1, 5, 8)).shape
    torch.Size([1, 5, 8])
    """

    def attend(self, x, q, k, v, mask):
        """`selective_attention`."""
        return selective_attention(q, k, v, mask, return_weights=True)

"""The Annotated Transformer's attention, written anew from its definition: what people type who know it.

Scores divided by the root of the width, -1e9 where the mask is 0, softmax, weighted sum; four linear maps
around it. Rush 2018 and Huang et al. 2022, "The Annotated Transformer", section "Attention".
"""

import math

from torch import nn


def attention(q, k, v, mask=None):
    """The output and the weights; ``mask`` is 0 where a key is hidden."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(-1)
    return weights @ v, weights


class MultiHeadedAttention(nn.Module):
    """One map each for queries, keys and values, heads by view and transpose, one map at the end."""

    def __init__(self, n_heads, d_model):
        super().__init__()
        self.n_heads, self.d = n_heads, d_model // n_heads
        self.linears = nn.ModuleList(nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        q, k, v = (
            linear(x).view(len(x), -1, self.n_heads, self.d).transpose(1, 2)
            for linear, x in zip(self.linears[:3], (query, key, value), strict=True)
        )
        out, self.weights = attention(q, k, v, mask)
        return self.linears[3](out.transpose(1, 2).contiguous().view(len(query), -1, self.n_heads * self.d))

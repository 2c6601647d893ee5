"""Positions against x-transformers, which rotates features 2i and 2i + 1 together, as we do by default."""

import pytest
import torch

from attnlib import alibi_bias, rope


@pytest.mark.parametrize("n_heads", [8, 12])
def test_alibi(peer, n_heads):
    theirs = peer("x_transformers.x_transformers").AlibiPositionalBias(n_heads)
    torch.testing.assert_close(alibi_bias(n_heads, 5, 9, like=torch.empty(0)), theirs(5, 9))


def test_rotation(peer):
    theirs = peer("x_transformers.x_transformers")
    x = torch.randn(2, 4, 30, 16, generator=torch.Generator().manual_seed(0))
    turns, scale = theirs.RotaryEmbedding(16)(torch.arange(30))
    expected = theirs.apply_rotary_pos_emb(x, turns, scale)
    torch.testing.assert_close(rope(x, torch.arange(30)), expected, atol=1e-5, rtol=1e-5)

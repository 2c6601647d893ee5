"""Talking heads and selective attention against ``Attend`` of x-transformers."""

import pytest
import torch

from attnlib import selective_attention, talking_heads_attention

CLOSE = {"atol": 1e-9, "rtol": 1e-9}  # theirs weighs in float32 unless it is told that q and k are normed


def heads(n_query=6, n_key=6):
    draw = torch.Generator().manual_seed(0)
    return (torch.randn(2, 4, n, 8, generator=draw, dtype=torch.float64) for n in (n_query, n_key, n_key))


def theirs(peer, **options):
    return peer("x_transformers.attend").Attend(heads=4, qk_norm=True, **options).double()


def redraw(conv, seed):
    with torch.no_grad():
        conv.weight.copy_(torch.randn(4, 4, 1, 1, generator=torch.Generator().manual_seed(seed)))
    return conv.weight[:, :, 0, 0]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("pre, post", [(True, False), (False, True), (True, True)])
def test_talking_heads(peer, pre, post, causal):
    q, k, v = heads(n_key=6 if causal else 9)
    module = theirs(peer, pre_talking_heads=pre, post_talking_heads=post, causal=causal)
    same = torch.eye(4, dtype=torch.float64)
    mix_scores = same + redraw(module.pre_softmax_talking_heads, 1) if pre else same  # added, not replaced
    mix_weights = redraw(module.post_softmax_talking_heads, 2) if post else same
    for mask in (None, torch.arange(k.shape[-2]) % 4 != 1):
        padding = None if mask is None else mask.expand(2, -1)
        ours = talking_heads_attention(q, k, v, mix_scores, mix_weights, mask, causal=causal)
        torch.testing.assert_close(ours, module(q, k, v, mask=padding)[0], **CLOSE)


def test_its_talking_heads_start_with_doubled_scores(peer):
    q, k, v = heads()
    same = torch.eye(4, dtype=torch.float64)
    ours = talking_heads_attention(q, k, v, 2 * same, same)
    torch.testing.assert_close(ours, theirs(peer, pre_talking_heads=True)(q, k, v)[0], **CLOSE)


def test_selective_attention(peer):
    q, k, v = heads()
    module = theirs(peer, selective=True, causal=True)
    for mask in (None, torch.arange(6) % 4 != 1):
        padding = None if mask is None else mask.expand(2, -1)
        theirs_out = module(q, k, v, mask=padding)[0]
        torch.testing.assert_close(selective_attention(q, k, v, mask), theirs_out, **CLOSE)


def test_gradients_of_selective_attention(peer):
    arrays = [x.requires_grad_() for x in heads()]
    ours = torch.autograd.grad(selective_attention(*arrays).square().sum(), arrays)
    wanted = torch.autograd.grad(theirs(peer, selective=True, causal=True)(*arrays)[0].square().sum(), arrays)
    for a, b in zip(ours, wanted, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)

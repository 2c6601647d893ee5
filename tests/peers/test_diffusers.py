"""SANA's block against Hugging Face's diffusers: the same weights, the same tokens, the same slopes."""

import pytest
import torch

from attnlib import SanaBlock


@pytest.mark.parametrize("qk_norm", [None, "rms_norm_across_heads"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_block(peer, qk_norm, bias, masked):
    sizes = {"num_cross_attention_heads": 2, "cross_attention_head_dim": 5, "cross_attention_dim": 12}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        theirs = peer("diffusers.models.transformers.sana_transformer").SanaTransformerBlock(
            16, 4, 6, attention_bias=bias, mlp_ratio=2.5, qk_norm=qk_norm, **sizes
        )
        x, time, text, upstream = (
            torch.randn(shape) for shape in ((2, 15, 16), (2, 96), (2, 7, 12), (2, 15, 16))
        )
    ours = SanaBlock(16, 4, 6, cross_heads=2, cross_head_dim=5, text_dim=12, bias=bias, qk_norm=bool(qk_norm))
    ours.load_state_dict(theirs.state_dict())
    mask = torch.arange(7) < torch.tensor([[7], [4]]) if masked else None
    added = (mask.float() - 1)[:, None] * 10_000 if masked else None
    outs = ours(x, time, text, mask, grid=(3, 5)), theirs(x, None, text, added, time, 3, 5)
    torch.testing.assert_close(*outs)
    for out in outs:
        out.backward(upstream)
    wanted = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name].grad, rtol=1e-4, atol=1e-5)

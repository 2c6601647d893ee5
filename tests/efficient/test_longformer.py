import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import LongformerAttention, attention, global_tokens, merge_heads, split_heads, window

NAMES = ["query", "key", "value", "query_global", "key_global", "value_global"]


def layer_of(seed=0, embed_dim=6, num_heads=2, attention_window=4):
    torch.manual_seed(seed)
    return LongformerAttention(embed_dim, num_heads, attention_window, dtype=torch.float64)


def explicit(layer, x, mask, global_mask):
    """As its definition says, one sample after the other, with masks of all pairs."""
    rows = []
    for one, real, wide in zip(x, mask, global_mask & mask, strict=True):
        q, k, v, qg, kg, vg = (split_heads(getattr(layer, name)(one), layer.num_heads) for name in NAMES)
        seen = window(layer.attention_window // 2 + 1)
        if wide.any():
            seen = seen | global_tokens(wide.nonzero()[:, 0].tolist())
        local = attention(q, k, v, seen.mask(len(one), like=one) & real)
        everywhere = attention(qg, kg, vg, real.expand(len(one), -1))
        out = merge_heads(torch.where(wide[:, None], everywhere, local))
        rows.append(torch.where(real[:, None], out, 0))
    return torch.stack(rows)


def test_agrees_with_the_golden_file(golden):
    g = golden("longformer_attention")
    layer = LongformerAttention(12, 3, 4, dtype=torch.float64)
    layer.load_state_dict({n[2:]: torch.from_numpy(g[n]) for n in g.files if n.startswith("p.")})
    x = torch.from_numpy(g["in_x"])
    for name in ("local", "global"):
        codes = torch.from_numpy(g[f"in_mask_{name}"])
        for out in (
            layer(x, codes >= 0, codes > 0),
            explicit(layer, x, codes >= 0, codes > 0),
        ):
            np.testing.assert_allclose(out.detach(), g[f"out_{name}"], atol=2e-6)


@given(
    st.integers(1, 3), st.integers(1, 90), st.integers(1, 40), st.sampled_from([0, 0.05, 0.5, 1]),
    st.sampled_from([0, 0.3, 1]), st.integers(0, 99),
)  # fmt: skip
def test_is_attention_with_masks_of_all_pairs(batch, n, side, part_global, part_padding, seed):
    layer = layer_of(seed, attention_window=2 * side)
    x = torch.randn(batch, n, 6, dtype=torch.float64, requires_grad=True)
    mask, global_mask = torch.rand(batch, n) >= part_padding, torch.rand(batch, n) < part_global
    got, wanted = layer(x, mask, global_mask), explicit(layer, x, mask, global_mask)
    torch.testing.assert_close(got, wanted, rtol=1e-10, atol=1e-12)
    inputs, upstream = [x, *layer.parameters()], torch.randn_like(got)
    gradients = torch.autograd.grad(got, inputs, upstream, materialize_grads=True, allow_unused=True)
    wanted = torch.autograd.grad(wanted, inputs, upstream, materialize_grads=True, allow_unused=True)
    for ours, theirs in zip(gradients, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_without_masks_all_tokens_are_real_and_local():
    layer, x = layer_of(), torch.randn(2, 9, 6, dtype=torch.float64)
    real, none = torch.ones(2, 9, dtype=torch.bool), torch.zeros(2, 9, dtype=torch.bool)
    torch.testing.assert_close(layer(x), layer(x, real, none), rtol=0, atol=0)


def test_a_global_token_within_the_window_counts_once():
    layer = layer_of(embed_dim=2, num_heads=1)
    for name in ("query", "key"):
        torch.nn.init.zeros_(getattr(layer, name).weight), torch.nn.init.zeros_(getattr(layer, name).bias)
    torch.nn.init.eye_(layer.value.weight), torch.nn.init.zeros_(layer.value.bias)
    x = torch.zeros(1, 5, 2, dtype=torch.float64)
    x[0, 2, 0] = 1
    out = layer(x, global_mask=torch.arange(5)[None] == 2)
    np.testing.assert_allclose(out[0, [0, 1, 3, 4], 0].detach(), [1 / 3, 1 / 4, 1 / 4, 1 / 3])


def test_what_padding_holds_reaches_nobody_and_it_receives_no_gradient():
    layer, x = layer_of(), torch.randn(1, 8, 6, dtype=torch.float64)
    mask, wide = torch.arange(8)[None] < 6, torch.arange(8)[None] % 7 == 0  # the last is padding and global
    other = x.clone()
    other[:, 6:] = 100
    torch.testing.assert_close(layer(x, mask, wide), layer(other, mask, wide), rtol=0, atol=0)
    assert (layer(x, mask, wide)[:, 6:] == 0).all()
    x.requires_grad_()
    layer(x, mask, wide).sum().backward()
    assert (x.grad[:, 6:] == 0).all() and (x.grad[:, :6] != 0).all()


def test_half_precision_comes_back():
    layer = layer_of().to(torch.bfloat16)
    out = layer(torch.randn(1, 9, 6, dtype=torch.bfloat16), global_mask=torch.arange(9)[None] == 3)
    assert out.dtype == torch.bfloat16 and torch.isfinite(out).all()


def test_names_and_print():
    layer = LongformerAttention(6, 2, 4)
    assert list(layer.state_dict()) == [f"{n}.{p}" for n in NAMES for p in ("weight", "bias")]
    assert "6, num_heads=2, attention_window=4" in repr(layer)


X = torch.zeros(2, 4, 6, dtype=torch.float64)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: LongformerAttention(6, 4, 2), ValueError, ["embed_dim 6 does not divide into 4 heads"]),
        (lambda: LongformerAttention(6, 2, 3), ValueError, ["attention_window must be even", "3"]),
        (lambda: LongformerAttention(6, 2, 0), ValueError, ["attention_window must be at least 1"]),
        (lambda: layer_of()(X.numpy()), TypeError, ["x must be a torch tensor", "ndarray"]),
        (lambda: layer_of()(X[0]), ValueError, ["x must have shape (B, L, 6)", "(4, 6)"]),
        (lambda: layer_of()(X[:, :0]), ValueError, ["not empty"]),
        (lambda: layer_of()(X, X[..., 0]), TypeError, ["mask must be boolean", "float64"]),
        (lambda: layer_of()(X, None, X[0] > 0), ValueError, ["global_mask must have shape (2, 4)", "(4, 6)"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

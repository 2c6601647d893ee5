import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import MixFFN, SanaBlock, SanaCrossAttention, SanaLinearAttention

CLOSE = {"rtol": 1e-4, "atol": 1e-5}  # float32, as the golden file


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def filled(layer):
    """The layer in float64 with parameters drawn from the normal distribution."""
    layer = layer.double()
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=i))
    return layer


def linear(x, state, name):
    return x @ state[f"{name}.weight"].T + state.get(f"{name}.bias", 0)


def rms_norm(x, weight):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def arrays(layer):
    return {name: x.detach().numpy() for name, x in layer.state_dict().items()}


def attention_by_its_definition(layer, x, source, weigh, mask=None):
    """Image by image and head by head; ``weigh`` makes weights of all pairs."""
    p, outs = arrays(layer), []
    for b in range(len(x)):
        q, k, v = (
            linear(s, p, f"to_{name}") for s, name in zip((x[b], source[b], source[b]), "qkv", strict=True)
        )
        if "norm_q.weight" in p:
            q, k = rms_norm(q, p["norm_q.weight"]), rms_norm(k, p["norm_k.weight"])
        d, heads = layer.head_dim, []
        for h in range(layer.n_heads):
            own = slice(h * d, (h + 1) * d)
            weights = weigh(q[:, own], k[:, own])
            if mask is not None:
                weights = weights * mask[b]
            total = weights.sum(-1, keepdims=True)
            heads.append(weights @ v[:, own] / np.where(total == 0, 1, total))
        outs.append(linear(np.concatenate(heads, -1), p, "to_out.0"))
    return np.array(outs)


def by_relu(q, k):
    return np.maximum(q, 0) @ np.maximum(k, 0).T


def by_exponentials(q, k):
    return np.exp(q @ k.T / np.sqrt(q.shape[-1]))


def ffn_by_its_definition(layer, x):
    """Pixel by pixel."""
    p = arrays(layer)
    hidden = p["conv_point.weight"].shape[1]
    wide = silu(np.einsum("bchw,oc->bohw", x, p["conv_inverted.weight"][..., 0, 0])
                + p["conv_inverted.bias"][:, None, None])  # fmt: skip
    padded = np.pad(wide, ((0, 0), (0, 0), (1, 1), (1, 1)))
    u = np.zeros_like(wide)
    for i, j in np.ndindex(*x.shape[2:]):
        u[:, :, i, j] = (padded[:, :, i : i + 3, j : j + 3] * p["conv_depth.weight"][:, 0]).sum((-1, -2))
    u += p["conv_depth.bias"][:, None, None]
    return np.einsum("bchw,oc->bohw", u[:, :hidden] * silu(u[:, hidden:]), p["conv_point.weight"][..., 0, 0])


# The golden file


def state(g, start):
    return {name.removeprefix(start): torch.from_numpy(g[name]) for name in g.files if name.startswith(start)}


def test_attention_agrees_with_the_golden_file(golden):
    g = golden("sana_linear_attention_mixffn")
    cfg = json.loads(str(g["meta"]))["cfg"]
    layer = SanaLinearAttention(cfg["dim"], cfg["heads"])
    layer.load_state_dict(state(g, "p_attn."))
    x = torch.from_numpy(g["in_x"]).requires_grad_()
    out = layer(x)
    np.testing.assert_allclose(out.detach(), g["out_attn"], **CLOSE)
    (gradient,) = torch.autograd.grad(out, x, torch.from_numpy(g["in_do"]))
    np.testing.assert_allclose(gradient, g["g_x"], **CLOSE)


def test_mix_ffn_agrees_with_the_golden_file(golden):
    g = golden("sana_linear_attention_mixffn")
    cfg = json.loads(str(g["meta"]))["cfg"]
    layer = MixFFN(cfg["dim"], cfg["mlp_ratio"])
    layer.load_state_dict(state(g, "p_ffn."))
    with torch.no_grad():
        np.testing.assert_allclose(layer(torch.from_numpy(g["in_img"])), g["out_ffn"], **CLOSE)


# The definitions


SIZES = st.integers(1, 3), st.integers(1, 6), st.integers(1, 6), st.integers(1, 3)


@settings(max_examples=40)
@given(*SIZES, st.sampled_from([None, 1, 3]), st.booleans(), st.booleans(), st.integers(0, 99))
def test_attention_by_its_definition(B, N, S, n_heads, head_dim, bias, qk_norm, seed):
    dim = 2 * n_heads
    layer = filled(SanaLinearAttention(dim, n_heads, head_dim, bias=bias, qk_norm=qk_norm))
    x = normal(B, N, dim, seed=seed)
    wanted = attention_by_its_definition(layer, x.numpy(), x.numpy(), by_relu)
    np.testing.assert_allclose(layer(x).detach(), wanted, rtol=1e-9, atol=1e-10)
    cross = filled(SanaCrossAttention(dim, n_heads, head_dim, text_dim=5, qk_norm=qk_norm))
    text = normal(B, S, 5, seed=seed + 1)
    wanted = attention_by_its_definition(cross, x.numpy(), text.numpy(), by_exponentials)
    np.testing.assert_allclose(cross(x, text).detach(), wanted, rtol=1e-9, atol=1e-10)
    mask = normal(B, S, seed=seed + 2) < 0.3
    wanted = attention_by_its_definition(cross, x.numpy(), text.numpy(), by_exponentials, mask.numpy())
    np.testing.assert_allclose(cross(x, text, mask).detach(), wanted, rtol=1e-9, atol=1e-10)


@settings(max_examples=25)
@given(*SIZES, st.sampled_from([0.5, 1, 2.5]), st.integers(0, 99))
def test_mix_ffn_by_its_definition(B, H, W, half, ratio, seed):
    layer, x = filled(MixFFN(2 * half, ratio)), normal(B, 2 * half, H, W, seed=seed)
    np.testing.assert_allclose(
        layer(x).detach(), ffn_by_its_definition(layer, x.numpy()), rtol=1e-9, atol=1e-9
    )


@settings(max_examples=25)
@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.booleans(), st.booleans(),
    st.booleans(), st.integers(0, 99),
)  # fmt: skip
def test_block_by_its_definition(B, H, W, S, bias, qk_norm, flat, seed):
    block = filled(SanaBlock(6, 2, cross_heads=3, cross_head_dim=4, text_dim=5, ratio=1.5, bias=bias,
                             qk_norm=qk_norm))  # fmt: skip
    x, time, text = (
        normal(B, H * W, 6, seed=seed),
        normal(B, 6, 6, seed=seed + 1),
        normal(B, S, 5, seed=seed + 2),
    )
    mask = normal(B, S, seed=seed + 3) < 0.7
    got = block(x, time.flatten(1) if flat else time, text, mask, grid=(H, W)).detach()
    shift1, scale1, gate1, shift2, scale2, gate2 = np.moveaxis(
        time.numpy() + block.scale_shift_table.detach().numpy(), 1, 0
    )[:, :, None]

    def norm(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)

    y, text, mask = x.numpy(), text.numpy(), mask.numpy()
    inner = norm(y) * (1 + scale1) + shift1
    y = y + gate1 * attention_by_its_definition(block.attn1, inner, inner, by_relu)
    y = y + attention_by_its_definition(block.attn2, y, text, by_exponentials, mask)
    image = np.moveaxis((norm(y) * (1 + scale2) + shift2).reshape(B, H, W, 6), -1, 1)
    y = y + gate2 * np.moveaxis(ffn_by_its_definition(block.ff, image), 1, -1).reshape(B, H * W, 6)
    np.testing.assert_allclose(got, y, rtol=1e-7, atol=1e-8)


def test_parameters_bear_the_names_of_diffusers():
    maps = {f"to_{name}.weight" for name in "qkv"} | {"to_out.0.weight", "to_out.0.bias"}
    biases = {f"to_{name}.bias" for name in "qkv"}
    norms = {"norm_q.weight", "norm_k.weight"}
    assert SanaLinearAttention(8, 2).state_dict().keys() == maps
    assert SanaLinearAttention(8, 2, bias=True, qk_norm=True).state_dict().keys() == maps | biases | norms
    assert SanaCrossAttention(8, 2).state_dict().keys() == maps | biases
    names = {name.split(".")[0] for name in SanaBlock(8, 2).state_dict()}
    assert names == {"attn1", "attn2", "ff", "scale_shift_table"}


# Positions


def test_attention_is_equivariant_to_the_order_of_tokens_and_the_convolution_is_not():
    x, order = normal(2, 12, 8), torch.from_numpy(np.random.default_rng(0).permutation(12))
    layer, ffn = filled(SanaLinearAttention(8, 2)), filled(MixFFN(8))
    np.testing.assert_allclose(layer(x[:, order]).detach(), layer(x)[:, order].detach(), atol=1e-10)

    def mixed(x):
        return ffn(x.mT.unflatten(-1, (3, 4))).flatten(2).mT.detach()

    assert (mixed(x[:, order]) - mixed(x)[:, order]).abs().max() > 1
    with torch.no_grad():  # a convolution that sees the middle only sees no neighbours
        ffn.conv_depth.weight[:, :, [0, 0, 0, 1, 1, 2, 2, 2], [0, 1, 2, 0, 2, 0, 1, 2]] = 0
    np.testing.assert_allclose(mixed(x[:, order]), mixed(x)[:, order], atol=1e-9)


def test_mix_ffn_sees_eight_neighbours_and_no_more():
    ffn, x = filled(MixFFN(4)), normal(1, 4, 7, 7).requires_grad_()
    ffn(x)[..., 3, 3].sum().backward()
    seen = x.grad[0].abs().sum(0) > 0
    assert seen[2:5, 2:5].all() and seen.sum() == 9


# Nothing to see, types, gradients


def test_a_text_that_is_hidden_leaves_the_bias_and_no_nan():
    layer, x, text = filled(SanaCrossAttention(4, 2)), normal(2, 3, 4), normal(2, 5, 4)
    mask = torch.tensor([[True, True, False, False, False], [False] * 5])
    text.requires_grad_()
    out = layer(x, text, mask)
    np.testing.assert_allclose(out[0].detach(), layer(x[:1], text[:1, :2])[0].detach(), atol=1e-12)
    np.testing.assert_array_equal(out[1].detach(), layer.to_out[0].bias.detach().expand(3, 4))
    out.sum().backward()
    assert text.grad.isfinite().all() and not text.grad[0, 2:].any() and not text.grad[1].any()


def test_gradients_by_differences():
    block = filled(SanaBlock(4, 2, text_dim=3, ratio=1, qk_norm=True))
    inputs = [x.requires_grad_() for x in (normal(1, 4, 4), normal(1, 6, 4, seed=1), normal(1, 2, 3, seed=2))]
    assert torch.autograd.gradcheck(lambda *a: block(*a, grid=(2, 2)), inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_non_contiguous_and_unchanged(dtype):
    torch.manual_seed(0)
    block = SanaBlock(8, 2, text_dim=6, qk_norm=True)
    x, time, text = (
        normal(8, 12, 2).float().permute(2, 1, 0),
        normal(2, 6, 8).float(),
        normal(2, 5, 6).float(),
    )
    before, wanted = x.clone(), block(x, time, text, grid=(3, 4))
    half = block.to(dtype)(x.to(dtype), time.to(dtype), text.to(dtype), grid=(3, 4))
    assert half.dtype == dtype and not x.is_contiguous() and torch.equal(x, before)
    np.testing.assert_allclose(half.detach().float(), wanted.detach(), atol=0.1)


def test_errors_name_what_is_wrong():
    block, x, time, text = SanaBlock(8, 2), torch.ones(2, 12, 8), torch.ones(2, 6, 8), torch.ones(2, 5, 8)
    cross = SanaCrossAttention(8, 2)
    for call, error, says in (
        (lambda: SanaLinearAttention(8, 3), ValueError, "dim 8 does not divide into 3 heads; head_dim sets"),
        (lambda: SanaLinearAttention(8, 0), ValueError, "n_heads must be at least 1"),
        (lambda: SanaCrossAttention(8, 2, text_dim=0), ValueError, "text_dim must be at least 1"),
        (lambda: SanaLinearAttention(8, 2)(x[0]), ValueError, r"x must have shape \(B, T, 8\)"),
        (
            lambda: cross(x, text[:1]),
            ValueError,
            r"text must have shape \(2, S, 8\), not empty; got \(1, 5, 8\)",
        ),
        (lambda: cross(x, text, torch.ones(2, 5)), ValueError, r"mask must be boolean, of shape \(2, 5\)"),
        (lambda: cross(x, text, [True]), TypeError, "mask must be a torch tensor"),
        (lambda: MixFFN(8, 0.1), ValueError, "ratio must leave a feature or more of 8; got 0.1"),
        (lambda: MixFFN(8, "2"), TypeError, "ratio must be a number"),
        (lambda: MixFFN(8)(x), ValueError, r"x must have shape \(B, 8, H, W\), not empty; got \(2, 12, 8\)"),
        (lambda: block(x, time, text, grid=(3, 5)), ValueError, "x must have 3 x 5 tokens"),
        (lambda: block(x, time[:, :5], text, grid=(3, 4)), ValueError, r"time must have shape \(2, 6, 8\)"),
        (lambda: block(x, time, text, grid=12), TypeError, "grid must be two integers"),
    ):
        with pytest.raises(error, match=says):
            call()

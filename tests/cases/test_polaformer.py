import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import PolaLinearAttention

CLOSE = {"rtol": 1e-8, "atol": 1e-10}


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def a_layer(dim=12, n_heads=3, grid=(4, 6), **others):
    """Parameters drawn, so that none is at its initial zero."""
    layer = PolaLinearAttention(dim, n_heads, grid, dtype=torch.float64, **others)
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=i))
    return layer


def by_its_definition(layer, x):
    """Image by image, head by head, query by query, in NumPy."""
    p = {name: parameter.detach().numpy() for name, parameter in layer.state_dict().items()}
    (H, W), C, r = layer.grid, layer.dim, layer.sr_ratio
    d = C // layer.n_heads
    outs = []
    for image in x.detach().numpy():
        qg = image @ p["qg.weight"].T + p.get("qg.bias", 0)
        q, gate = qg[:, :C], qg[:, C:]
        source = image
        if r > 1:
            rows = []
            for i in range(0, H, r):
                for j in range(0, W, r):
                    square = image.reshape(H, W, C)[i : i + r, j : j + r]
                    rows.append(np.einsum("abc,ocab->o", square, p["sr.weight"]) + p["sr.bias"])
            rows = np.array(rows)
            spread = np.sqrt(rows.var(-1, keepdims=True) + 1e-5)
            source = (rows - rows.mean(-1, keepdims=True)) / spread * p["norm.weight"] + p["norm.bias"]
        kv = source @ p["kv.weight"].T + p.get("kv.bias", 0)
        scale = np.log1p(np.exp(p["scale"][0]))
        q, k, v = q / scale, (kv[:, :C] + p["positional_encoding"][0]) / scale, kv[:, C:]
        power = 1 + layer.alpha / (1 + np.exp(-p["power"][0, :, 0]))
        out = np.zeros((H * W, C))
        for h in range(layer.n_heads):
            own = slice(h * d, (h + 1) * d)
            above, below = ((np.maximum(s * k[:, own], 0)) ** power[h] for s in (1, -1))
            for i in range(H * W):
                qa, qb = ((np.maximum(s * q[i, own], 0)) ** power[h] for s in (1, -1))
                like, unlike = above @ qa + below @ qb, above @ qb + below @ qa
                values = v[:, own]
                n = len(k)
                first = like @ values[:, : d // 2] / n / (like.mean() + 1e-6)
                second = unlike @ values[:, d // 2 :] / n / (unlike.mean() + 1e-6)
                out[i, own] = np.concatenate([first, second])
            for c in range(d):
                line = v[:, h * d + c]
                if r > 1:  # each token looks up its place on the shorter line
                    at = np.clip((np.arange(H * W) + 0.5) / r**2 - 0.5, 0, len(line) - 1)
                    line = np.interp(at, np.arange(len(line)), line)
                edge = p["dwc.weight"].shape[-1] // 2
                padded = np.pad(line.reshape(H, W), edge)
                seen = np.lib.stride_tricks.sliding_window_view(padded, (2 * edge + 1, 2 * edge + 1))
                convolved = np.einsum("hwab,ab->hw", seen, p["dwc.weight"][c, 0]) + p["dwc.bias"][c]
                out[:, h * d + c] += convolved.ravel()
        outs.append(out * gate @ p["proj.weight"].T + p["proj.bias"])
    return np.array(outs)


def golden_layer(g, sr_ratio):
    cfg, start = json.loads(str(g["meta"]))["cfg"], f"p_sr{sr_ratio}."
    layer = PolaLinearAttention(
        cfg["dim"], cfg["heads"], (cfg["H"], cfg["W"]), sr_ratio=sr_ratio, kernel_size=cfg["kernel"],
        alpha=cfg["alpha"], dtype=torch.float64,
    )  # fmt: skip
    names = [name for name in g.files if name.startswith(start)]
    layer.load_state_dict({name.removeprefix(start): torch.from_numpy(g[name]) for name in names})
    return layer


@pytest.mark.parametrize("sr_ratio", [1, 2])
def test_agrees_with_the_golden_file(golden, sr_ratio):
    g = golden("polaformer_pvt")
    layer, x = golden_layer(g, sr_ratio), torch.from_numpy(g["in_x"]).requires_grad_()
    out = layer(x)
    np.testing.assert_allclose(out.detach(), g[f"out_sr{sr_ratio}"], **CLOSE)
    wanted = {"x": x, "power": layer.power, "scale": layer.scale}
    gradients = torch.autograd.grad(out, list(wanted.values()), torch.from_numpy(g["in_do"]))
    for name, gradient in zip(wanted, gradients, strict=True):
        np.testing.assert_allclose(gradient, g[f"g_{name}_sr{sr_ratio}"], **CLOSE)


@settings(max_examples=30)
@given(
    st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3),
    st.integers(1, 3), st.sampled_from([1, 3, 5]), st.sampled_from([0.5, 4, 7]), st.booleans(),
    st.integers(0, 99),
)  # fmt: skip
def test_by_its_definition(B, n_heads, half, rows, columns, sr_ratio, kernel_size, alpha, bias, seed):
    grid = rows * sr_ratio, columns * sr_ratio
    layer = a_layer(2 * half * n_heads, n_heads, grid, sr_ratio=sr_ratio, kernel_size=kernel_size,
                    alpha=alpha, bias=bias)  # fmt: skip
    x = normal(B, grid[0] * grid[1], layer.dim, seed=seed)
    np.testing.assert_allclose(layer(x).detach(), by_its_definition(layer, x), rtol=1e-7, atol=1e-9)


def test_the_one_map_of_windows_loads_as_two_and_the_callers_dict_stays():
    layer = a_layer(grid=(3, 5))
    state = dict(layer.state_dict())
    for part in ("weight", "bias"):
        q, g = state.pop(f"qg.{part}").chunk(2)
        k, v = state.pop(f"kv.{part}").chunk(2)
        state[f"qkvg.{part}"] = torch.cat([q, k, v, g])
    names = sorted(state)
    other = PolaLinearAttention(12, 3, (3, 5), dtype=torch.float64)
    other.load_state_dict(state)
    x = normal(2, 15, 12)
    np.testing.assert_array_equal(other(x).detach(), layer(x).detach())
    assert sorted(state) == names
    within = torch.nn.Sequential(PolaLinearAttention(12, 3, (3, 5), dtype=torch.float64))
    within.load_state_dict({f"0.{name}": array for name, array in state.items()})
    np.testing.assert_array_equal(within(x).detach(), layer(x).detach())


def test_at_first_the_power_is_three_the_scale_that_of_softplus_and_positions_are_none():
    layer = PolaLinearAttention(8, 2, (4, 4), sr_ratio=2)
    assert not any(p.any() for p in (layer.power, layer.scale, layer.positional_encoding))
    assert layer.positional_encoding.shape == (1, 4, 8) and layer.dwc.weight.shape == (4, 1, 5, 5)
    assert (
        "sr.weight" in layer.state_dict()
        and "sr.weight" not in PolaLinearAttention(8, 2, (4, 4)).state_dict()
    )


def test_gradients_by_differences():
    layer = a_layer(4, 1, (2, 4), sr_ratio=2, kernel_size=3)
    x = normal(1, 8, 4).requires_grad_()
    names = [name for name, _ in layer.named_parameters()]

    def run(x, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x,))

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))


def test_a_query_of_zeros_has_no_slopes_that_are_nan():
    layer = a_layer(grid=(2, 2))
    x = torch.zeros(1, 4, 12, dtype=torch.float64, requires_grad=True)
    with torch.no_grad():
        layer.qg.bias.zero_()
    layer(x).sum().backward()
    assert all(p.grad.isfinite().all() for p in (x, *layer.parameters()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_non_contiguous_and_unchanged(dtype):
    torch.manual_seed(0)
    layer = PolaLinearAttention(12, 3, (4, 4), sr_ratio=2, kernel_size=3)
    x = normal(12, 16, 2).float().permute(2, 1, 0)
    before, wanted = x.clone(), layer(x)
    half = layer.to(dtype)(x.to(dtype))
    assert half.dtype == dtype and not x.is_contiguous() and torch.equal(x, before)
    np.testing.assert_allclose(half.detach().float(), wanted.detach(), atol=0.03)


def test_errors_name_what_is_wrong():
    def made(dim=8, n_heads=2, grid=(4, 4), **others):
        return PolaLinearAttention(dim, n_heads, grid, **others)

    for call, error, says in (
        (lambda: made(dim=6), ValueError, "each head must have an even number of features; 6 in 2 heads"),
        (lambda: made(dim=0), ValueError, "dim must be at least 1"),
        (lambda: made(grid=16), TypeError, "grid must be two integers, rows and columns; got 16"),
        (lambda: made(grid=(4, 4.0)), TypeError, "grid must be a whole number"),
        (lambda: made(sr_ratio=3), ValueError, r"sr_ratio must divide the grid \(4, 4\); got 3"),
        (lambda: made(kernel_size=4), ValueError, "kernel_size must be odd"),
        (lambda: made(alpha=0), ValueError, "alpha must be greater than 0"),
        (lambda: made(alpha="4"), TypeError, "alpha must be a number"),
        (
            lambda: made()(torch.ones(1, 15, 8)),
            ValueError,
            r"x must have 4 x 4 tokens, row by row; got shape",
        ),
        (lambda: made()(torch.ones(16, 8)), ValueError, r"x must have shape \(B, T, 8\)"),
        (lambda: made()(np.ones((1, 16, 8))), TypeError, "x must be a torch tensor"),
    ):
        with pytest.raises(error, match=says):
            call()

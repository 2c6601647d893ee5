import numpy as np
import pytest
import torch
from drawn import normal

from attnlib import DifferentialAttention, differential_lambda_init, future_leaks, rope
from attnlib.layers.grouped_query import rotary_turns

SINGLE = {"rtol": 1e-4, "atol": 1e-5}  # what the golden file promises
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "out_proj"]
LAMBDAS = ["lambda_q1", "lambda_k1", "lambda_q2", "lambda_k2"]


def golden_layer(g, depth):
    layer = DifferentialAttention(16, 2, {0: None, 3: 1}[depth], depth=depth)
    start = f"p_d{depth}."
    layer.load_state_dict(
        {name.removeprefix(start): torch.from_numpy(g[name]) for name in g.files if name.startswith(start)}
    )
    return layer


@pytest.mark.parametrize("depth", [0, 3])
def test_agrees_with_the_golden_file(golden, depth):
    g = golden("differential_attention")
    layer, x = golden_layer(g, depth), torch.from_numpy(g["in_x"]).requires_grad_()
    turns = torch.complex(torch.from_numpy(g["in_cos"]), torch.from_numpy(g["in_sin"]))
    for weights in (False, True):
        out = layer(x, turns, return_weights=weights)
        out = out[0] if weights else out
        np.testing.assert_allclose(out.detach(), g[f"out_d{depth}"], **SINGLE)
        wanted = {"x": g[f"g_x_d{depth}"]} | {name: g[f"g_d{depth}.{name}"] for name in LAMBDAS}
        inputs = [x, *(getattr(layer, name) for name in LAMBDAS)]
        got = torch.autograd.grad(out, inputs, torch.from_numpy(g["in_do"]))
        for gradient, want in zip(got, wanted.values(), strict=True):
            np.testing.assert_allclose(gradient, want, **SINGLE)
    np.testing.assert_allclose(differential_lambda_init(depth), g[f"lambda_init_d{depth}"], rtol=1e-12)
    np.testing.assert_allclose(turns, rotary_turns(torch.arange(6), torch.tensor([1.0, 0.01])), rtol=1e-6)


def a_layer(dim=24, n_heads=4, n_kv_heads=None, depth=2):
    layer = DifferentialAttention(dim, n_heads, n_kv_heads, depth=depth, dtype=torch.float64)
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(torch.from_numpy(normal(*parameter.shape, seed=i) / 2))
    return layer


def by_hand(layer, x, positions=None, seen=True):
    """One head and one query after the other, from the formulas."""
    d, group = layer.head_dim, layer.n_heads // layer.n_kv_heads
    p = {name: value.detach().numpy() for name, value in layer.state_dict().items()}
    lam = np.exp(p["lambda_q1"] @ p["lambda_k1"]) - np.exp(p["lambda_q2"] @ p["lambda_k2"])
    lam += 0.8 - 0.6 * np.exp(-0.3 * 2)
    q, k, v = (x @ p[f"{name}_proj.weight"].T for name in "qkv")

    def narrow(array, s):
        own = array[:, s * d : (s + 1) * d]
        return own if positions is None else rope(own, positions)

    heads = []
    for h in range(layer.n_heads):
        value = v[:, 2 * d * (h // group) : 2 * d * (h // group + 1)]
        maps = []
        for s in (2 * h, 2 * h + 1):
            e = np.exp(narrow(q, s) @ narrow(k, s // group).T / np.sqrt(d)) * np.tri(len(x)) * seen
            maps.append(e / np.maximum(e.sum(-1, keepdims=True), 1e-300))
        out = (maps[0] - lam * maps[1]) @ value
        out = out / np.sqrt((out**2).mean(-1, keepdims=True) + 1e-5) * p["subln.weight"]
        heads.append(out * (0.6 * np.exp(-0.3 * 2) + 0.2))
    return np.concatenate(heads, -1) @ p["out_proj.weight"].T


@pytest.mark.parametrize("n_kv_heads", [None, 2, 1])
@pytest.mark.parametrize("positions", [None, np.arange(7) + 3])
def test_is_its_formula(n_kv_heads, positions):
    layer, x = a_layer(32 if positions is not None else 24, n_kv_heads=n_kv_heads), None
    x = normal(2, 7, layer.dim)
    turns = None
    if positions is not None:
        frequencies = torch.tensor([1.0, 0.01], dtype=torch.float64)
        turns = rotary_turns(torch.from_numpy(positions), frequencies)
    seen = np.arange(7) != 1
    for mask in (None, torch.from_numpy(seen)):
        out, weights = layer(torch.from_numpy(x), turns, mask, return_weights=True)
        for got, own in zip(out.detach(), x, strict=True):
            wanted = by_hand(layer, own, positions, True if mask is None else seen)
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(weights.detach().sum(-1), 1 - layer.lam().item(), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(layer(torch.from_numpy(x), turns, mask), out)


def test_the_future_is_not_seen():
    layer = a_layer()
    assert future_leaks(lambda x: layer(x[None])[0], torch.from_numpy(normal(6, 24))) == []


def test_gradients_by_differences_with_a_token_that_sees_nothing():
    layer, x = a_layer(8, 2, 1), torch.from_numpy(normal(1, 3, 8)).requires_grad_()
    mask = torch.tensor([[True] * 3, [False] * 3, [True] * 3])
    assert torch.autograd.gradcheck(lambda x, *_: layer(x, mask=mask), (x, *layer.parameters()))
    assert (layer(x, mask=mask)[0, 1] == 0).all()


def test_names_parameters_and_half_precision():
    layer = DifferentialAttention(24, 4, 2, depth=0)
    names = {*LAMBDAS, "subln.weight", *(f"{name}.weight" for name in PROJECTIONS)}
    assert {*layer.state_dict()} == names
    assert sum(p.numel() for p in layer.parameters()) == 24 * 24 * 3 + 4 * 3 + 6
    assert "24, n_heads=4, n_kv_heads=2, lambda_init=0.200" in repr(layer)
    assert 0.05 < torch.cat([getattr(DifferentialAttention(400, 1, depth=0), n) for n in LAMBDAS]).std() < 0.2
    out = layer.to(torch.bfloat16)(torch.ones(1, 5, 24, dtype=torch.bfloat16))
    assert out.dtype == torch.bfloat16 and torch.isfinite(out).all()


X = torch.zeros(2, 5, 24)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: DifferentialAttention(24, 5, depth=0), ValueError, ["dim 24 does not divide", "5 heads"]),
        (
            lambda: DifferentialAttention(12, 4, depth=0),
            ValueError,
            ["dim 12 does not divide into two halves"],
        ),
        (lambda: DifferentialAttention(24, 4, 3, depth=0), ValueError, ["multiple of n_kv_heads", "4 and 3"]),
        (lambda: DifferentialAttention(24, 0, depth=0), ValueError, ["n_heads must be at least 1"]),
        (lambda: DifferentialAttention(24, 4, depth=-1), ValueError, ["depth must be at least 0"]),
        (lambda: DifferentialAttention(24, 4, depth=0)(X[0]), ValueError, ["x must have shape (B, T, 24)"]),
        (lambda: DifferentialAttention(24, 4, depth=0)(X.numpy()), TypeError, ["x must be a torch tensor"]),
        (lambda: DifferentialAttention(24, 4, depth=0)(X, None, X > 0), ValueError, ["mask must broadcast"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

import numpy as np
import pytest
import torch
from drawn import normal

from attnlib import (
    RefinedAttention,
    attention_weights,
    future_leaks,
    refine_weights,
    refine_weights_stochastic,
)
from attnlib.cases.awrsr import KINDS


def a_layer(kind, dim=6, n_heads=2, length=5, **others):
    layer = RefinedAttention(dim, n_heads, length, kind, dtype=torch.float64, **others)
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(torch.from_numpy(normal(*parameter.shape, seed=i)))
    return layer


def by_hand(layer, x, mask=None):
    """One head of one sequence after the other, in NumPy."""
    p = {name: value.detach().numpy() for name, value in layer.state_dict().items()}
    n, d = len(x), layer.dim // layer.n_heads
    outs, tables = [], []
    for h in range(layer.n_heads):
        own = slice(h * d, (h + 1) * d)
        q, k, v = (x @ p[f"w{name}.weight"][own].T for name in "qkv")
        a = attention_weights(q, k, mask, causal=True)
        how = {"mask": mask, "causal": True}
        if layer.kind == "stochastic":
            table = refine_weights_stochastic(a, p["refine_mean"][h, :n], p["refine_cov"][h, :n], **how)
        else:
            w_v = p["refine_v"][h, :n, :n] if layer.kind == "value-weighted" else None
            maps = p["refine_q"][h, :n], p["refine_k"][h, :n], w_v
            table = refine_weights(a, *maps, additive=layer.kind == "additive", **how)
        outs.append(table @ v)
        tables.append(table)
    return np.concatenate(outs, -1) @ p["wo.weight"].T, np.stack(tables)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 4, 5])
def test_is_its_formula_head_by_head(kind, n):
    layer, x = a_layer(kind, width=4), normal(2, n, 6)
    for mask in (None, np.arange(n) != 1):
        out, weights = layer(
            torch.from_numpy(x), None if mask is None else torch.from_numpy(mask), return_weights=True
        )
        for at in range(2):
            for got, want in zip((out[at], weights[at]), by_hand(layer, x[at], mask), strict=True):
                np.testing.assert_allclose(got.detach(), want, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(layer(torch.from_numpy(x), torch.from_numpy(mask)), out)


@pytest.mark.parametrize("kind", KINDS)
def test_the_future_is_not_seen(kind):
    layer = a_layer(kind, length=6)
    assert future_leaks(lambda x: layer(x[None])[0], torch.from_numpy(normal(6, 6))) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_learns_and_an_empty_row_is_zero(kind):
    layer, x = a_layer(kind), torch.from_numpy(normal(2, 5, 6)).requires_grad_()
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[2] = False
    out = layer(x, mask)
    assert (out[:, 2] == 0).all()
    out.square().sum().backward()
    for parameter in (x, *layer.parameters()):
        assert torch.isfinite(parameter.grad).all() and (parameter.grad != 0).any()


def test_names_first_values_and_half_precision():
    layer = RefinedAttention(8, 2, 400)
    maps = torch.cat([layer.refine_q, layer.refine_k])
    assert layer.refine_q.shape == (2, 400, 4) and abs(maps.mean()) < 0.1 and 0.9 < maps.std() < 1.1
    assert "8, n_heads=2, length=400, kind='simple'" in repr(layer)
    counts = {kind: len(RefinedAttention(8, 2, 5, kind).state_dict()) for kind in KINDS}
    assert counts == {"simple": 6, "value-weighted": 7, "additive": 6, "stochastic": 6}
    out = layer.to(torch.bfloat16)(torch.ones(1, 5, 8, dtype=torch.bfloat16))
    assert out.dtype == torch.bfloat16 and torch.isfinite(out).all()


X = torch.zeros(2, 4, 6)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: RefinedAttention(6, 4, 5), ValueError, ["dim 6 does not divide into 4 heads"]),
        (lambda: RefinedAttention(6, 2, 0), ValueError, ["length must be at least 1"]),
        (lambda: RefinedAttention(6, 2, 5, "sharp"), ValueError, ["kind must be one of simple", "'sharp'"]),
        (lambda: RefinedAttention(6, 2, 5, width=0), ValueError, ["width must be at least 1"]),
        (lambda: RefinedAttention(6, 2, 3)(X), ValueError, ["x must have at most 3 tokens", "got 4"]),
        (lambda: RefinedAttention(6, 2, 5)(X[0]), ValueError, ["x must have shape (B, T, 6)"]),
        (lambda: RefinedAttention(6, 2, 5)(X, X[0, :, :4]), TypeError, ["mask must be boolean"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

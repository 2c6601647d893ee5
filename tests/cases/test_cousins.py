import numpy as np
import pytest
import torch
from drawn import normal

from attnlib import (
    ForgettingAttention,
    GroupedQueryAttention,
    SelectiveAttention,
    TalkingHeadsAttention,
    forgetting_attention,
    future_leaks,
    selective_attention,
    talking_heads_attention,
)
from attnlib.cases.causal_heads import CausalHeads

KINDS = [TalkingHeadsAttention, ForgettingAttention, SelectiveAttention]


def a_layer(kind, dim=6, n_heads=2):
    layer = kind(dim, n_heads, dtype=torch.float64)
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(torch.from_numpy(normal(*parameter.shape, seed=i)))
    return layer


@pytest.mark.parametrize("kind", KINDS)
def test_is_the_function_between_its_maps(kind):
    layer, x = a_layer(kind), normal(2, 5, 6)
    p = {name: value.detach().numpy() for name, value in layer.state_dict().items()}
    q, k, v = (np.stack(np.split(x @ p[f"w{name}.weight"].T, 2, -1), 1) for name in "qkv")
    for mask in (None, np.arange(5) != 1):
        if kind is TalkingHeadsAttention:
            mixes = p["mix_scores"], p["mix_weights"]
            wanted = talking_heads_attention(q, k, v, *mixes, mask, causal=True, return_weights=True)
        elif kind is ForgettingAttention:
            gates = 1 / (1 + np.exp(-(x @ p["forget.weight"].T + p["forget.bias"])))
            log_forget = np.log(gates).swapaxes(1, 2)
            wanted = forgetting_attention(q, k, v, log_forget, mask, return_weights=True)
        else:
            wanted = selective_attention(q, k, v, mask, return_weights=True)
        tensor = None if mask is None else torch.from_numpy(mask)
        out, weights = layer(torch.from_numpy(x), tensor, return_weights=True)
        np.testing.assert_allclose(weights.detach(), wanted[1], rtol=1e-9, atol=1e-11)
        joined = np.concatenate([wanted[0][:, 0], wanted[0][:, 1]], -1) @ p["wo.weight"].T
        np.testing.assert_allclose(out.detach(), joined, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(layer(torch.from_numpy(x), tensor), out)


def test_talking_heads_start_as_multi_head_attention():
    layer, plain = TalkingHeadsAttention(8, 2), GroupedQueryAttention(8, 2)
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if "mix" not in k})
    x = torch.from_numpy(normal(2, 5, 8)).float()
    torch.testing.assert_close(layer(x), plain(x))


@pytest.mark.parametrize("kind", KINDS)
def test_the_future_is_not_seen(kind):
    layer = a_layer(kind)
    assert future_leaks(lambda x: layer(x[None])[0], torch.from_numpy(normal(6, 6))) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_learns_and_half_precision_comes_back(kind):
    layer, x = a_layer(kind), torch.from_numpy(normal(2, 5, 6)).requires_grad_()
    layer(x).square().sum().backward()
    for parameter in (x, *layer.parameters()):
        assert torch.isfinite(parameter.grad).all() and (parameter.grad != 0).any()
    out = layer.to(torch.bfloat16)(x.detach().bfloat16())
    assert out.dtype == torch.bfloat16 and torch.isfinite(out).all()
    assert "6, n_heads=2" in repr(layer)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: SelectiveAttention(6, 4), ValueError, ["dim 6 does not divide into 4 heads"]),
        (lambda: ForgettingAttention(6, 0), ValueError, ["n_heads must be at least 1"]),
        (lambda: SelectiveAttention(6, 2)(np.zeros((2, 4, 6))), TypeError, ["x must be a torch tensor"]),
        (lambda: TalkingHeadsAttention(6, 2)(torch.zeros(4, 6)), ValueError, ["x must have shape (B, T, 6)"]),
        (lambda: CausalHeads(6, 2)(torch.zeros(1, 4, 6)), NotImplementedError, []),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

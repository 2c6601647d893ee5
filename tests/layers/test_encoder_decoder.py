import json
from functools import partial

import pytest
import torch
from torch import nn

from attnlib import EncoderDecoder, from_torch_transformer

float64 = {"dtype": torch.float64}


def tensors(golden_file):
    return {name: torch.from_numpy(golden_file[name]) for name in golden_file.files if name != "meta"}


def same(got, wanted):
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-11)


def test_agrees_with_the_golden_torch_transformer(golden):
    file = golden("transformer_torch_postnorm")
    g, cfg = tensors(file), json.loads(str(file["meta"]))["cfg"]
    model = EncoderDecoder(cfg["d_model"], cfg["nhead"], cfg["layers"], cfg["ff"], dropout=0.0,
                           norm_first=cfg["norm_first"], final_norm=True, **float64)  # fmt: skip
    state = {name[2:]: x for name, x in g.items() if name.startswith("p.")}
    model.load_state_dict(from_torch_transformer(state))
    src, tgt = g["in_src"].requires_grad_(), g["in_tgt"].requires_grad_()
    pad, tgt_pad = ~g["in_src_pad"][:, None, None], ~g["in_tgt_pad"][:, None, None]
    same(model.encoder(src, pad), g["out_memory"])
    same(model(src, tgt, causal=False), g["out_nomask"])
    same(model(src, tgt, pad, tgt_pad & (g["in_causal"] == 0), pad, causal=False), g["out"])
    out = model(src, tgt, pad, tgt_pad, pad)
    same(out, g["out"])
    (out * g["in_do"]).sum().backward()
    same(src.grad, g["g_src"])
    same(tgt.grad, g["g_tgt"])
    wanted = {f"{name[2:]}": x for name, x in g.items() if name.startswith("g.")}
    for name, x in from_torch_transformer(wanted | {"encoder.layers.0.linear1.weight": None}).items():
        if x is not None:
            same(model.get_parameter(name).grad, x)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("heads, layers, bias", [(3, (2, 2), True), (1, (3, 1), True), (4, (1, 2), False)])
def test_agrees_with_torch_in_either_order_of_the_norms(norm_first, heads, layers, bias):
    theirs = nn.Transformer(12, heads, *layers, 20, 0.0, norm_first=norm_first, batch_first=True, bias=bias,
                            **float64)  # fmt: skip
    ours = EncoderDecoder(12, heads, layers, 20, dropout=0.0, norm_first=norm_first, final_norm=True,
                          bias=bias, norm=partial(nn.LayerNorm, bias=bias), **float64)  # fmt: skip
    with torch.no_grad():
        for n, parameter in enumerate(theirs.parameters()):
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(n), **float64)
            parameter.add_(noise / 2)
    ours.load_state_dict(from_torch_transformer(theirs.state_dict()))
    draw = torch.Generator().manual_seed(5)
    src, tgt = (torch.randn(2, n, 12, generator=draw, **float64).requires_grad_() for n in (6, 5))
    src_pad = torch.tensor([[0] * 6, [1, 0, 0, 0, 0, 1]], dtype=torch.bool)
    tgt_pad = torch.tensor([[0] * 5, [0, 0, 0, 1, 1]], dtype=torch.bool)
    wanted = theirs(
        src, tgt, tgt_mask=torch.ones(5, 5, dtype=torch.bool).triu(1), src_key_padding_mask=src_pad,
        tgt_key_padding_mask=tgt_pad, memory_key_padding_mask=src_pad,
    )
    keep = ~src_pad[:, None, None]
    got = ours(src, tgt, keep, ~tgt_pad[:, None, None], keep)
    same(got, wanted)
    parameters = dict(theirs.named_parameters())
    names = list(from_torch_transformer(parameters))
    slopes = torch.autograd.grad(got.pow(3).sum(), [src, tgt, *map(ours.get_parameter, names)])
    expected = torch.autograd.grad(wanted.pow(3).sum(), [src, tgt, *parameters.values()])
    for a, b in zip(slopes, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


def test_the_last_norms_follow_the_order_unless_told():
    for settings, there in (({}, False), ({"norm_first": True}, True), ({"final_norm": True}, True),
                            ({"norm_first": True, "final_norm": False}, False)):  # fmt: skip
        model = EncoderDecoder(8, 2, 1, 16, **settings)
        assert all((stack.norm is not None) == there for stack in (model.encoder, model.decoder))
        assert model.encoder.layers[0].residuals[0].norm_first is settings.get("norm_first", False)


def test_every_matrix_begins_within_its_glorot_bound():
    model = EncoderDecoder(8, 2, 1, 64)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            bound = (6 / sum(parameter.shape)) ** 0.5
            assert 0.8 * bound < parameter.abs().max() <= bound


def test_only_the_attention_to_the_memory_has_the_cross_heads():
    model = EncoderDecoder(8, 4, 2, 16, cross_heads=1)
    heads = {name.rsplit(".")[-1]: part.num_heads for name, part in model.named_modules()
             if hasattr(part, "num_heads")}  # fmt: skip
    assert heads == {"self_attn": 4, "cross_attn": 1}


def test_errors_name_the_argument():
    model = EncoderDecoder(8, 2, 1, 16)
    for number in (0, (2, 0)):
        with pytest.raises(ValueError, match="num_layers must be at least 1"):
            EncoderDecoder(8, 2, number, 16)
    with pytest.raises(ValueError, match=r"num_layers must be one number or two; got \(1, 2, 3\)"):
        EncoderDecoder(8, 2, (1, 2, 3), 16)
    with pytest.raises(ValueError, match=r"query must have 8 features; got shape \(1, 3, 7\)"):
        model(torch.ones(1, 3, 7), torch.ones(1, 2, 8))
    with pytest.raises(ValueError, match="mask must broadcast to the scores"):
        model(torch.ones(3, 5, 8), torch.ones(3, 4, 8), torch.ones(3, 1, 5) > 0)

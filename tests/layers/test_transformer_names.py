import pytest
import torch
from torch import nn

from attnlib import EncoderDecoder, Transformer, from_annotated_transformer, from_torch_transformer


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm_first", [False, True])
def test_every_name_of_torch_has_one_of_ours(norm_first):
    theirs = nn.Transformer(8, 2, 3, 3, 16, norm_first=norm_first, batch_first=True).state_dict()
    named = from_torch_transformer(theirs)
    ours = EncoderDecoder(8, 2, 3, 16, norm_first=norm_first, final_norm=True)
    assert named.keys() == ours.state_dict().keys()
    assert all(a is b for a, b in zip(named.values(), theirs.values(), strict=True))
    words = Transformer(9, d_model=8, num_heads=2, num_layers=3, d_ff=16, final_norm=True)
    found = words.load_state_dict(named, strict=False)
    assert not found.unexpected_keys and all("embedding" in name for name in found.missing_keys)
    with pytest.raises(RuntimeError, match="Unexpected key.*encoder.norm.weight"):
        EncoderDecoder(8, 2, 3, 16, final_norm=False).load_state_dict(named)


def annotated_names(d=8, d_ff=16, layers=11):
    """A state dict with the Annotated Transformer's names; eleven layers have numbers of two digits."""
    shapes = {
        "src_embed.0.lut.weight": (5, d), "tgt_embed.0.lut.weight": (6, d), "src_embed.1.pe": (1, 9, d),
        "tgt_embed.1.pe": (1, 9, d), "generator.proj.weight": (6, d), "generator.proj.bias": (6,),
    }
    for stack, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "src_attn"])):
        norms = [f"{stack}.norm"]
        for n in range(layers):
            layer = f"{stack}.layers.{n}"
            for attention in attentions:
                for i in range(4):
                    shapes[f"{layer}.{attention}.linears.{i}.weight"] = (d, d)
                    shapes[f"{layer}.{attention}.linears.{i}.bias"] = (d,)
            for i, (rows, columns) in (1, (d_ff, d)), (2, (d, d_ff)):
                shapes[f"{layer}.feed_forward.w_{i}.weight"] = (rows, columns)
                shapes[f"{layer}.feed_forward.w_{i}.bias"] = (rows,)
            norms += [f"{layer}.sublayer.{i}.norm" for i in range(len(attentions) + 1)]
        shapes |= {f"{norm}.{part}": (d,) for norm in norms for part in ("a_2", "b_2")}
    draw = torch.Generator().manual_seed(0)
    return {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}


def test_every_annotated_name_has_one_of_ours():
    theirs = annotated_names()
    ours = Transformer(5, 6, d_model=8, num_heads=2, num_layers=11, d_ff=16, norm_first=True, tied=False)
    ours.load_state_dict(from_annotated_transformer(theirs))
    for kind in ("weight", "bias"):
        parts = [theirs[f"decoder.layers.10.src_attn.linears.{i}.{kind}"] for i in range(4)]
        layer = ours.decoder.layers[10].cross_attn
        assert torch.equal(getattr(layer, f"in_proj_{kind}"), torch.cat(parts[:3]))
        assert torch.equal(getattr(layer.out_proj, kind), parts[3])
    norm = ours.decoder.layers[1].residuals[2].norm
    assert torch.equal(norm.weight, theirs["decoder.layers.1.sublayer.2.norm.a_2"])
    assert torch.equal(norm.bias, theirs["decoder.layers.1.sublayer.2.norm.b_2"])
    assert torch.equal(ours.output.bias, theirs["generator.proj.bias"])
    assert torch.equal(ours.encoder.layers[3].feed_forward.linear2.weight,
                       theirs["encoder.layers.3.feed_forward.w_2.weight"])  # fmt: skip


def test_the_other_models_names_are_refused():
    theirs = annotated_names(layers=1)
    with pytest.raises(ValueError, match="not a state dict of torch.nn.Transformer"):
        from_torch_transformer(theirs)
    with pytest.raises(ValueError, match="no encoder.layers.0.feed_forward.w_1.weight: not a state dict"):
        from_annotated_transformer({"encoder.layers.0.linear1.weight": torch.ones(1)})

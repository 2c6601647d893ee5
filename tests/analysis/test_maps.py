import pytest
import torch

from attnlib import MultiHeadAttention, Transformer, attention_maps, split_heads


def small(**settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return Transformer(9, d_model=8, num_heads=2, num_layers=2, d_ff=16, **settings)


SRC, TGT = torch.tensor([[5, 3, 4, 0], [8, 7, 6, 5]]), torch.tensor([[1, 7, 3], [1, 4, 0]])


def test_finds_every_attention_in_the_order_in_which_it_ran():
    maps = attention_maps(small(), SRC, TGT)
    assert list(maps) == [
        *(f"encoder.layers.{n}.self_attn" for n in range(2)),
        *(f"decoder.layers.{n}.{kind}_attn" for n in range(2) for kind in ("self", "cross")),
    ]
    for name, weights in maps.items():
        sizes = {"enc": (4, 4), "self": (3, 3), "cross": (3, 4)}
        kind = "enc" if name.startswith("enc") else "self" if "self" in name else "cross"
        assert weights.shape == (2, 2, *sizes[kind]) and not weights.requires_grad
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
        if kind != "self":
            assert not weights[0, ..., 3].any()  # padding of the source
        else:
            assert not weights[1, ..., 2].any() and not weights.triu(1).any()


def test_the_weights_are_those_that_the_model_used():
    model = small(dropout=0.0)
    layer = model.decoder.layers[1].cross_attn
    seen = []
    handle = layer.register_forward_hook(lambda layer, args, out: seen.append((args, out)))
    model(SRC, TGT)
    handle.remove()
    (query, memory), out = seen[0]
    weights = attention_maps(model, SRC, TGT)["decoder.layers.1.cross_attn"]
    values = split_heads(memory @ layer.in_proj_weight[16:].T + layer.in_proj_bias[16:], 2)
    torch.testing.assert_close(layer.out_proj((weights @ values).transpose(1, 2).flatten(2)), out)


def test_leaves_the_model_as_it_was():
    model = small(dropout=0.5)
    model.encoder.eval()
    first, second = (attention_maps(model, SRC, TGT) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert model.training and not model.encoder.training
    with pytest.raises(ValueError, match="ids must lie in"):
        attention_maps(model, SRC + 9, TGT)
    assert model.training
    assert not any(part._forward_pre_hooks for part in model.modules())


def test_one_layer_alone_and_keyword_arguments():
    layer, x = MultiHeadAttention(8, 2), torch.ones(1, 3, 8)
    maps = attention_maps(layer, x, causal=True)
    assert list(maps) == [""] and torch.equal(maps[""], layer(x, causal=True, return_weights=True)[1])


def test_errors_name_the_argument():
    with pytest.raises(TypeError, match="model must be a torch module; got function"):
        attention_maps(lambda x: x, 1)

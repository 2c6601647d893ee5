import pytest
import torch
from torch import nn

from attnlib import Decoder, DecoderCache, DecoderLayer, future_leaks, padding_mask
from attnlib.layers.transformer_names import from_torch_transformer

float64 = {"dtype": torch.float64}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), **float64)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_is_the_layer_of_torch(norm_first, causal):
    theirs = nn.TransformerDecoderLayer(12, 3, 20, 0.0, norm_first=norm_first, batch_first=True, **float64)
    for n, parameter in enumerate(theirs.parameters()):
        nn.init._no_grad_normal_(parameter, 0, 1, generator=torch.Generator().manual_seed(n))
    state = {f"decoder.layers.0.{name}": x for name, x in theirs.state_dict().items()}
    state = from_torch_transformer(state | {"encoder.layers.0.linear1.weight": torch.zeros(1)})
    ours = DecoderLayer(12, 3, 20, norm_first=norm_first, **float64)
    ours.load_state_dict({name[17:]: x for name, x in state.items() if name.startswith("decoder")})
    source, target = torch.tensor([[4, 2, 9, 0], [3, 3, 8, 1]]), torch.tensor([[5, 6, 7], [5, 2, 0]])
    x, memory = normal(2, 3, 12).requires_grad_(), normal(2, 4, 12, seed=1).requires_grad_()
    hidden = torch.ones(3, 3, dtype=torch.bool).triu(1) if causal else None
    wanted = theirs(x, memory, hidden, tgt_key_padding_mask=target == 0, memory_key_padding_mask=source == 0)
    got = ours(x, memory, padding_mask(target), padding_mask(source), causal=causal)
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-11)
    for one in (x, memory):
        slopes = [torch.autograd.grad(o.pow(3).sum(), one, retain_graph=True)[0] for o in (got, wanted)]
        torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-8)


def test_no_token_sees_the_future_and_all_see_the_memory():
    decoder = Decoder([DecoderLayer(8, 2, 16, **float64) for _ in range(2)])
    x, memory = normal(1, 5, 8), normal(1, 3, 8, seed=1)
    assert future_leaks(lambda y: decoder(y[None], memory)[0], x[0]) == []
    other = memory.clone()
    other[:, 2] += 1
    assert ((decoder(x, other) - decoder(x, memory)).abs().amax(-1) > 1e-6).all()


@pytest.mark.parametrize("cuts", [[1] * 7, [7], [3, 1, 3], [2, 5], [1, 4, 2]])
@pytest.mark.parametrize("norm_first", [False, True])
def test_in_pieces_it_gives_what_it_gives_in_one(norm_first, cuts):
    layers = [DecoderLayer(8, 2, 16, norm_first=norm_first) for _ in range(2)]
    decoder = Decoder(layers, nn.LayerNorm(8)).double()
    x, memory = normal(2, 7, 8), normal(2, 4, 8, seed=1)
    hide = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]], dtype=torch.bool)[:, None, None]
    cache, memory_then = DecoderCache(), memory
    pieces = []
    for piece in x.split(cuts, 1):
        pieces.append(decoder(piece, memory_then, None, hide, cache=cache))
        memory_then = torch.full_like(memory, torch.nan)  # it is not looked at again
    assert (torch.cat(pieces, 1) - decoder(x, memory, None, hide)).abs().max() < 1e-13


def test_dropout_and_the_last_norm():
    layer, x, memory = DecoderLayer(8, 2, 16, dropout=0.3), torch.ones(1, 4, 8), torch.ones(1, 2, 8)
    assert layer.cross_attn.dropout == layer.self_attn.dropout == layer.residuals[2].dropout.p == 0.3
    assert not torch.equal(layer(x, memory), layer(x, memory))
    layer.eval()
    norm = nn.LayerNorm(8)
    torch.testing.assert_close(Decoder([layer], norm)(x, memory), norm(layer(x, memory)))


def test_gradients_are_right():
    layer = DecoderLayer(4, 2, 6, **float64)
    inputs = normal(1, 3, 4).requires_grad_(), normal(1, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(layer, inputs)


def test_the_memory_may_have_heads_of_its_own():
    layer, x, memory = DecoderLayer(12, 3, 20, cross_heads=1, **float64), normal(2, 5, 12), normal(2, 4, 12)
    assert layer.self_attn.num_heads == 3 and layer.cross_attn.num_heads == 1
    same = DecoderLayer(12, 3, 20, **float64)
    assert same.cross_attn.num_heads == 3
    same.load_state_dict(layer.state_dict())
    assert not torch.allclose(layer(x, memory), same(x, memory))
    cache = DecoderCache()
    pieces = [layer(part, memory, cache=cache.layer(0)) for part in x.split((2, 3), 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), layer(x, memory))
    with pytest.raises(ValueError, match="cross_heads must be at least 1; got 0"):
        DecoderLayer(12, 3, 20, cross_heads=0)

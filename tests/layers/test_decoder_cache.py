import pytest
import torch

from attnlib import CachedAttention, DecoderCache, MultiHeadAttention
from attnlib.layers.decoder_cache import LayerCache


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("bias", [False, True])
def test_without_a_cache_it_is_the_same_layer(bias):
    ours = CachedAttention(8, 2, bias=bias, dtype=torch.float64)
    plain = MultiHeadAttention(8, 2, bias=bias, dtype=torch.float64)
    plain.load_state_dict(ours.state_dict())
    x, memory = normal(2, 3, 8), normal(2, 5, 8, seed=1)
    assert torch.equal(ours(x, causal=True), plain(x, causal=True))
    for a, b in zip(ours(x, memory, return_weights=True), plain(x, memory, return_weights=True), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("weights", [False, True])
def test_tokens_that_come_later_see_those_before(bias, weights):
    layer = CachedAttention(8, 2, bias=bias, dtype=torch.float64)
    torch.nn.init.normal_(layer.in_proj_weight)
    if bias:
        torch.nn.init.normal_(layer.in_proj_bias)
    x, memory, cache = normal(2, 6, 8), normal(2, 3, 8, seed=1), LayerCache()
    hide = torch.tensor([[0, 1, 1, 1, 1, 1], [1, 1, 1, 0, 1, 1]], dtype=torch.bool)[:, None, None]
    full = layer(x, mask=hide, causal=True, return_weights=True)
    cross = layer(x, memory, 2 * memory, return_weights=True)
    for start, stop in ((0, 2), (2, 3), (3, 6)):
        out = layer(x[:, start:stop], mask=hide[..., :stop], causal=True, cache=cache, return_weights=weights)
        again = layer(x[:, start:stop], memory, 2 * memory, cache=cache, return_weights=weights)
        if weights:
            torch.testing.assert_close(out[1], full[1][:, :, start:stop, :stop])
            torch.testing.assert_close(again[1], cross[1][:, :, start:stop])
            out, again = out[0], again[0]
        torch.testing.assert_close(out, full[0][:, start:stop])
        torch.testing.assert_close(again, cross[0][:, start:stop])
    assert cache.own[0].shape == (2, 2, 6, 4) and cache.memory[1].shape == (2, 2, 3, 4)


def test_a_selection_of_rows_goes_on_like_the_sentences_it_comes_from():
    layer, x, rows = CachedAttention(8, 2, dtype=torch.float64), normal(3, 4, 8), torch.tensor([2, 0, 2, 1])
    cache = DecoderCache()
    cache.add(torch.ones(3, 3, dtype=torch.bool))
    layer(x[:, :3], causal=True, cache=cache.layer(0))
    layer(x[:, :3], x, cache=cache.layer(0))
    cache.select(rows)
    assert cache.visible.shape == (4, 3) and cache.length == 3
    got = layer(x[rows, 3:], causal=True, cache=cache.layer(0))
    torch.testing.assert_close(got, layer(x, causal=True)[rows, 3:])
    torch.testing.assert_close(layer(x[rows, 3:], x, cache=cache.layer(0)), layer(x, x)[rows, 3:])
    cache.layer(1)
    cache.select(rows)  # a layer that has seen nothing yet


def test_gradients_flow_through_what_is_kept():
    layer, x = CachedAttention(4, 2, dtype=torch.float64), normal(1, 4, 4).requires_grad_()
    cache = LayerCache()
    pieces = [layer(piece, causal=True, cache=cache) for piece in x.split([1, 3], 1)]
    ways = torch.cat(pieces, 1), layer(x, causal=True)
    slopes = [torch.autograd.grad(out.pow(2).sum(), x)[0] for out in ways]
    torch.testing.assert_close(*slopes)


def test_another_batch_is_refused():
    cache = DecoderCache()
    cache.add(torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="the cache holds 2 sentences; got 3"):
        cache.add(torch.ones(3, 1, dtype=torch.bool))

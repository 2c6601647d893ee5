import json

import numpy as np
import pytest
import torch

from attnlib import GroupedQueryAttention, attention, rope, rope_frequencies, split_heads
from attnlib.layers.grouped_query import rotary_turns, turned


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def a_layer(dim=12, n_heads=6, n_kv_heads=2, **settings):
    layer = GroupedQueryAttention(dim, n_heads, n_kv_heads, dtype=torch.float64, **settings)
    with torch.no_grad():
        for i, parameter in enumerate(layer.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=i))
    return layer


def turns_at(positions, layer, base=500000.0):
    frequencies = rope_frequencies(layer.head_dim, base, like=layer.wq.weight.detach())
    return rotary_turns(torch.as_tensor(positions), frequencies)


def test_agrees_with_the_golden_file(golden):
    g = golden("llama3_transformer")
    cfg = json.loads(str(g["meta"]))["cfg"]
    layer = GroupedQueryAttention(cfg["dim"], cfg["n_heads"], cfg["n_kv_heads"])
    start = "p.layers.0.attention."
    names = [name for name in g.files if name.startswith(start)]
    layer.load_state_dict({name.removeprefix(start): torch.from_numpy(g[name]) for name in names})
    with torch.no_grad():
        out = layer(torch.from_numpy(g["in_x"]), turns_at(range(5), layer, cfg["rope_theta"]))
    np.testing.assert_allclose(out, g["out_attention"], rtol=2e-4, atol=2e-5)


def test_turns_are_rope():
    x, positions = normal(2, 3, 4, 8), torch.tensor([3, 0, 70, 5])
    frequencies = rope_frequencies(8, 100.0, like=x)
    got = turned(x, rotary_turns(positions, frequencies))
    np.testing.assert_allclose(got, rope(x, positions, 100.0), atol=1e-12)
    own = torch.tensor([[0, 1, 2, 3], [5, 6, 9, 9]])
    got = turned(x, rotary_turns(own[:, None], frequencies))
    np.testing.assert_allclose(got, rope(x, own, 100.0), atol=1e-12)
    half = turned(x.half(), rotary_turns(positions, frequencies.float()))
    assert half.dtype == torch.float16
    np.testing.assert_allclose(half, rope(x.half(), positions, 100.0), atol=2e-3)


@pytest.mark.parametrize("n_kv_heads, settings", [(6, {}), (2, {}), (1, {}), (2, {"head_dim": 4})])
def test_by_its_definition(n_kv_heads, settings):
    layer, x = a_layer(n_kv_heads=n_kv_heads, **settings), normal(2, 5, 12)
    positions, times = torch.arange(5), 6 // n_kv_heads
    q = rope(split_heads(layer.wq(x), 6), positions, 500000.0)
    k = rope(split_heads(layer.wk(x), n_kv_heads), positions, 500000.0).repeat_interleave(times, 1)
    v = split_heads(layer.wv(x), n_kv_heads).repeat_interleave(times, 1)
    mask = normal(2, 6, 5, 5, seed=9) < 1
    heads, weights = attention(q, k, v, mask, causal=True, return_weights=True)
    wanted = layer.wo(heads.transpose(1, 2).flatten(2)).detach()
    turns = turns_at(positions, layer)
    got, got_weights = layer(x, turns, mask, return_weights=True)
    np.testing.assert_allclose(got.detach(), wanted, atol=1e-11)
    np.testing.assert_allclose(got_weights.detach(), weights.detach(), atol=1e-12)
    np.testing.assert_allclose(layer(x, turns, mask).detach(), wanted, atol=1e-11)


@pytest.mark.parametrize("pieces", [(1,) * 7, (3, 4), (4, 1, 2), (6, 1), (7,)])
@pytest.mark.parametrize("n_kv_heads", [6, 2])
def test_pieces_of_any_length_give_what_the_whole_gives(pieces, n_kv_heads):
    layer, x = a_layer(n_kv_heads=n_kv_heads), normal(2, 7, 12)
    with torch.no_grad():
        whole, whole_weights = layer(x, turns_at(range(7), layer), return_weights=True)
        for ask in (False, True):
            cache, start = layer.new_cache(2, 7), 0
            for length in pieces:
                end = start + length
                out = layer(x[:, start:end], turns_at(range(start, end), layer), cache=cache,
                            return_weights=ask)  # fmt: skip
                if ask:
                    out, weights = out
                    np.testing.assert_allclose(weights, whole_weights[:, :, start:end, :end], atol=1e-12)
                np.testing.assert_allclose(out, whole[:, start:end], atol=1e-11)
                start = end
    keys = turned(split_heads(layer.wk(x), n_kv_heads), turns_at(range(7), layer)).detach()
    np.testing.assert_allclose(cache.keys, keys, atol=1e-12)  # kept after their rotation


def test_the_cache_is_as_small_as_its_heads_and_made_once():
    layer = a_layer()
    cache = layer.new_cache(3, 10)
    assert cache.keys.shape == cache.values.shape == (3, 2, 10, 2) and cache.length == 0
    before = cache.keys.data_ptr()
    with torch.no_grad():
        for _ in range(5):
            layer(normal(3, 2, 12), cache=cache)
    assert cache.keys.data_ptr() == before and cache.length == 10
    with pytest.raises(ValueError, match="room for 10 tokens and holds 10; 1 more do not fit"):
        layer(normal(3, 1, 12), cache=cache)
    assert cache.length == 10


def test_gradients():
    layer, x = a_layer(dim=4, n_heads=2, n_kv_heads=1), normal(1, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: layer(x, turns_at([4, 5, 6], layer)), x)


def test_errors_name_what_is_wrong():
    layer = GroupedQueryAttention(8, 4, 2)
    x = torch.ones(2, 3, 8)
    for call, error, says in (
        (lambda: GroupedQueryAttention(8, 4, 3), ValueError, "multiple of n_kv_heads; got 4 and 3"),
        (lambda: GroupedQueryAttention(9, 4), ValueError, "dim 9 does not divide into 4 heads"),
        (lambda: GroupedQueryAttention(12, 4), ValueError, "even number of features, for pairs; got 3"),
        (lambda: GroupedQueryAttention(8, 4, 0), ValueError, "n_kv_heads must be at least 1"),
        (lambda: GroupedQueryAttention(8, 4, head_dim=2.0), TypeError, "head_dim must be a whole number"),
        (lambda: layer(x.numpy()), TypeError, "x must be a torch tensor; got ndarray"),
        (lambda: layer(x[0]), ValueError, r"x must have shape \(B, T, 8\), not empty; got \(3, 8\)"),
        (lambda: layer(x, mask=torch.ones(4, 3) > 0), ValueError, "mask must broadcast to the scores"),
        (lambda: layer(x, cache=layer.new_cache(1, 5)), ValueError, "the cache is for 1 sequences; got 2"),
        (lambda: layer.new_cache(1, 0), ValueError, "max_len must be at least 1"),
    ):
        with pytest.raises(error, match=says):
            call()

import numpy as np
import pytest
import torch
from drawn import assert_same_gradients
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlib import (
    GroupedQueryAttention,
    Llama,
    QuantisedCache,
    attention,
    grouped_query_attention,
    quantise,
)
from attnlib.layers.llama import LlamaCache


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def filled(pieces, bits=4, group_size=4, window=3):
    k, v = normal(2, 3, 20, 8), normal(2, 3, 20, 8, seed=1)
    cache, start = QuantisedCache(2, 3, 20, 8, bits=bits, group_size=group_size, window=window), 0
    for length in pieces:
        kept = cache.append(k[:, :, start : start + length], v[:, :, start : start + length])
        start += length
    return cache, kept, k[:, :, :start], v[:, :, :start]


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6).filter(lambda p: sum(p) <= 20),
       st.sampled_from([2, 4, 8]), st.integers(1, 5), st.integers(0, 5))  # fmt: skip
@settings(max_examples=40)
def test_what_is_kept_does_not_depend_on_the_pieces(pieces, bits, group_size, window):
    cache, (keys, values), k, v = filled(pieces, bits, group_size, window)
    length = k.shape[2]
    old = max(length - window, 0) // group_size * group_size
    assert cache.length == length
    np.testing.assert_array_equal(cache.keys.recent, k[:, :, old:])
    np.testing.assert_array_equal(cache.values.recent, v[:, :, old:])
    if old:
        wanted = quantise(k[:, :, :old], bits, axis=-2, group_size=group_size)
        np.testing.assert_array_equal(cache.keys.old.codes, wanted.codes)
        np.testing.assert_array_equal(cache.keys.old.dequantised(), wanted.dequantised())
        wanted = quantise(v[:, :, :old], bits, axis=-1)
        np.testing.assert_array_equal(cache.values.old.dequantised(), wanted.dequantised())
    else:
        assert cache.keys.old is None
    # The last pass saw its own tokens, and those that were whole before it, exactly.
    before = max(length - pieces[-1] - window, 0) // group_size * group_size
    assert keys.shape == k.shape and values.shape == v.shape
    np.testing.assert_array_equal(keys[:, :, before:], k[:, :, before:])
    np.testing.assert_array_equal(values[:, :, before:], v[:, :, before:])
    if before:
        scale = cache.keys.old.scale[:, :, : before // group_size].expand(-1, -1, -1, group_size, -1)
        scale = scale.flatten(2, 3)
        assert ((keys - k)[:, :, :before].abs() <= scale / 2 + 1e-12).all()


def test_memory_is_really_smaller():
    whole = GroupedQueryAttention(64, 4, 2, dtype=torch.float16).new_cache(1, 1024)
    x = torch.zeros(1, 2, 1024, 16, dtype=torch.float16)
    whole.append(x, x)
    for bits in (2, 4, 8):
        cache = QuantisedCache(1, 2, 1024, 16, bits=bits, group_size=32, window=32)
        cache.append(x[:, :, :700], x[:, :, :700])
        for start in range(700, 1024):
            cache.append(x[:, :, start : start + 1], x[:, :, start : start + 1])
        held = sum(
            array.untyped_storage().nbytes()
            for part in (cache.keys, cache.values)
            for array in (part.old.codes, part.old.scale, part.old.zero, part.recent)
        )
        assert held == cache.nbytes  # views would hold more
        codes = 2 * 2 * 992 * 16 * bits // 8
        scales = 2 * 2 * (2 * 31 * 16) + 2 * 2 * (2 * 992)
        assert cache.nbytes == codes + scales + 2 * 2 * 32 * 16 * 2
        assert cache.nbytes < whole.keys.nbytes * 2 * (bits / 16 + 0.2)


@pytest.mark.parametrize("pieces", [(9,), (4, 5), (1,) * 9])
def test_in_an_attention_layer(pieces):
    layer, x = GroupedQueryAttention(16, 4, 2, dtype=torch.float64), normal(2, 9, 16)
    with torch.no_grad():
        whole = layer(x)
        for bits, atol in ((2, 1.0), (4, 0.2), (8, 0.02)):
            cache, start, outs = QuantisedCache(2, 2, 9, 4, bits=bits, group_size=2, window=0), 0, []
            for length in pieces:
                outs.append(layer(x[:, start : start + length], cache=cache))
                start += length
            error = (torch.cat(outs, 1) - whole).abs().max()
            assert error <= atol
            assert (error < 1e-12) == (len(pieces) == 1)  # one piece sees itself exactly


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 9), st.integers(1, 4), st.sampled_from([2, 4, 8]),
       st.integers(1, 4), st.integers(0, 4), st.integers(0, 99))  # fmt: skip
@settings(max_examples=40)
def test_attention_over_codes_is_attention_over_the_numbers_they_stand_for(
    kv_heads, times, n_old, n_new, bits, group_size, window, seed
):
    cache = QuantisedCache(2, kv_heads, 20, 8, bits=bits, group_size=group_size, window=window)
    k, v = normal(2, kv_heads, n_old, 8, seed=seed), normal(2, kv_heads, n_old, 8, seed=seed + 1)
    cache.append(k, v)
    n_codes = max(n_old - window, 0) // group_size * group_size
    if n_codes:
        k[:, :, :n_codes] = quantise(k[:, :, :n_codes], bits, axis=-2, group_size=group_size).dequantised()
        v[:, :, :n_codes] = quantise(v[:, :, :n_codes], bits).dequantised()
    q = normal(2, kv_heads * times, n_new, 8, seed=seed + 2)
    mask = normal(2, 1, n_new, n_old + n_new, seed=seed + 3) < 0.7
    new_k, new_v = normal(2, kv_heads, n_new, 8, seed=seed + 4), normal(2, kv_heads, n_new, 8, seed=seed + 5)
    inputs = [x.requires_grad_() for x in (q, new_k, new_v)]
    got = grouped_query_attention(q, *cache.append(new_k, new_v), mask, causal=True)
    keys, values = (torch.cat(pair, -2).repeat_interleave(times, 1) for pair in ((k, new_k), (v, new_v)))
    wanted = attention(q, keys, values, mask, causal=True, return_weights=True)[0]
    np.testing.assert_allclose(got.detach(), wanted.detach(), atol=1e-12)
    assert_same_gradients(got, wanted, inputs, atol=1e-12)


def test_in_a_whole_model():
    torch.manual_seed(0)
    model = Llama(vocab_size=30, dim=32, n_layers=2, n_heads=4, n_kv_heads=2).eval()
    tokens = torch.from_numpy(np.random.default_rng(0).integers(30, size=(2, 12)))
    mask = torch.ones(2, 12, dtype=torch.bool)
    mask[0, :3] = False
    layers = [QuantisedCache(2, 2, 12, 8, bits=8, group_size=2, window=1) for _ in model.layers]
    cache = LlamaCache(layers)
    with torch.no_grad():
        wanted = model(tokens, mask)
        first = model(tokens[:, :7], mask[:, :7], cache=cache)
        rest = [model(tokens[:, i : i + 1], mask[:, i : i + 1], cache=cache) for i in range(7, 12)]
    got = torch.cat([first, *rest], 1)
    assert cache.length == 12
    torch.testing.assert_close(got[mask], wanted[mask], atol=2e-3, rtol=0)


def test_inputs_stay_as_they_were():
    k = normal(1, 2, 6, 8)
    before = k.clone()
    cache = QuantisedCache(1, 2, 10, 8, bits=2, group_size=2, window=1)
    cache.append(k, k)
    k += 1  # nor does a change afterwards reach the cache
    np.testing.assert_array_equal(cache.keys.recent, before[:, :, 4:])


def test_errors_name_what_is_wrong():
    def made(**others):
        return QuantisedCache(**{"batch": 2, "n_kv_heads": 3, "max_len": 5, "head_dim": 8} | others)

    def kept(*shape, **others):
        x = torch.ones(shape)
        return made(**others).append(x, x)

    x = torch.ones(2, 3, 1, 8)
    for call, error, says in (
        (lambda: made(bits=3), ValueError, "bits must be 2, 4 or 8; got 3"),
        (lambda: made(head_dim=6, bits=2), ValueError, "must be a multiple of 4"),
        (lambda: made(group_size=0), ValueError, "group_size must be at least 1"),
        (lambda: made(window=-1), ValueError, "window must be at least 0; got -1"),
        (lambda: made(window=1.5), TypeError, "window must be a whole number; got 1.5"),
        (lambda: made(max_len=0), ValueError, "max_len must be at least 1"),
        (lambda: kept(2, 3, 6, 8), ValueError, "room for 5 tokens and holds 0; 6 more do not fit"),
        (lambda: kept(1, 3, 1, 8), ValueError, "the cache is for 2 sequences; got 1"),
        (lambda: kept(2, 2, 1, 8), ValueError, r"k must have 3 heads of 8 features.*\(2, 2, 1, 8\)"),
        (lambda: made().append(x.numpy(), x), TypeError, "k must be a torch tensor; got ndarray"),
        (lambda: made().append(x, None), TypeError, "v must be a torch tensor; got NoneType"),
        (lambda: made().append(x.int(), x), TypeError, "k must be of a floating type; got dtype torch.int32"),
        (lambda: kept(3, 8), ValueError, r"k must have 3 heads of 8 features; got shape \(3, 8\)"),
        (lambda: made().append(x, x[..., :4]), ValueError, r"v must have 3 heads.*\(2, 3, 1, 4\)"),
        (lambda: made().append(x, x[:, :, [0, 0]]), ValueError, r"v must have the sequences and tokens of k"),
    ):
        with pytest.raises(error, match=says):
            call()

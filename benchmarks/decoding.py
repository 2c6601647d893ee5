"""Generation with a `Llama`, and grouped queries against PyTorch's own.

The hand-written loop is as bare as decoding can be: functions on the same weights, tables of cosines and
sines and buffers of keys and values made before, PyTorch's fused kernel, nothing looked at twice.
"""

from unittest import mock

import peers
import torch
from protocol import Case, Gap
from torch.nn.functional import embedding, linear, scaled_dot_product_attention, silu

from attnlib import Llama, grouped_query_attention
from attnlib.layers import grouped_query
from attnlib.layers.key_value_cache import KeyValueCache

SIZE = {"vocab_size": 1000, "dim": 256, "n_layers": 6, "n_heads": 8, "hidden": 688}
DECODING, UNCACHED, GROWING, BARE = 1.25, {512: 0.06, 2048: 0.017}, {512: 1.03, 2048: 0.95}, 1.35
WEIGHTS = "both sides read 25 MB of weights for a token, which takes the longer the slower the memory"
CALLS = "a step is 43 small products; the checks and the modules around them take half a millisecond of it"


def cases(small=False):
    """The rows E1 to E4, and F1 to F3."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Llama(**SIZE)
        for weight in model.parameters():  # so large that the next token hangs on all that was read
            torch.nn.init.normal_(weight, mean=float(weight.ndim == 1), std=0.1)
        prompt = torch.randint(SIZE["vocab_size"], (1, 16))
    for length, target in UNCACHED.items():
        name = f"E1 last of {length} tokens, against no cache"
        yield Case(name, target, *_without_cache(model, 40 if small else length),
                   gap=Gap(1.3 * target, WEIGHTS))  # fmt: skip
    new = 8 if small else 496
    for needs, name, target, generated in peers.generators(SIZE):
        yield Case(f"E2 generate 496 tokens, against {name}", target, _ours(model, prompt, new),
                   lambda generated=generated: generated(prompt, new), gap=Gap(target + 0.05, WEIGHTS),
                   needs=needs)  # fmt: skip
    for length, target in GROWING.items():
        name = f"E3 last of {length} tokens, against a cache grown by torch.cat"
        yield Case(name, target, *_last_tokens(model, 40 if small else length))
    yield Case("E4 generate 112 tokens, against the same without attention", BARE,
               _ours(model, prompt, 8 if small else 112),
               lambda: without_attention(model, prompt, 8 if small else 112))  # fmt: skip
    for length in (112, 496):
        new = 8 if small else length
        name = f"E4 generate {length} tokens, against a hand-written loop"
        yield Case(name, DECODING, _ours(model, prompt, new),
                   lambda new=new: handwritten(model, prompt, new), gap=Gap(1.4, CALLS))  # fmt: skip
    for row, heads, kv_heads, keys, target in (
        ("F1", 8, 2, 2048, 0.75), ("F1", 8, 2, 8192, 0.75), ("F2", 32, 1, 4096, 0.4)
    ):  # fmt: skip
        name = f"{row} one query, {heads} heads over {kv_heads} of {keys} keys, against enable_gqa"
        q, k, v = torch.randn(1, heads, 1, 64), *torch.randn(2, 1, kv_heads, 32 if small else keys, 64)
        yield Case(name, target,
                   lambda q=q, k=k, v=v: grouped_query_attention(q, k, v, causal=True),
                   lambda q=q, k=k, v=v: scaled_dot_product_attention(q, k, v, enable_gqa=True))  # fmt: skip
    yield Case(f"F2 one query, {heads} heads over {kv_heads} of {keys} keys, against repeat_interleave", 0.03,
               lambda q=q, k=k, v=v: grouped_query_attention(q, k, v, causal=True),
               lambda q=q, k=k, v=v: scaled_dot_product_attention(
                   q, k.repeat_interleave(32, 1), v.repeat_interleave(32, 1)))  # fmt: skip
    q, k, v = torch.randn(3, 1, 8, 32 if small else 2048, 64)
    few_k, few_v = k[:, :2].clone(), v[:, :2].clone()
    many_k, many_v = few_k.repeat_interleave(4, 1), few_v.repeat_interleave(4, 1)
    yield Case("F3 2048 queries, 8 heads over 2, against as many key heads, fused", 1.08,
               lambda: grouped_query_attention(q, few_k, few_v, causal=True),
               lambda: scaled_dot_product_attention(q, many_k, many_v, is_causal=True))  # fmt: skip


def _ours(model, prompt, new):
    return lambda: model.generate(prompt, new)


def without_attention(model, prompt, new):
    """The same code, but each token's value goes on as it is: no cache is filled, nothing attends."""

    def counted(cache, k, v):
        cache.length += k.shape[2]
        return k, v

    with (
        mock.patch.object(KeyValueCache, "append", counted),
        mock.patch.object(grouped_query, "grouped_query_attention", lambda q, k, v, *_, **__: v),
    ):
        return model.generate(prompt, new)


@torch.no_grad()
def handwritten(model, prompt, new):
    """Greedy decoding of one prompt; the new tokens, as a list for each prompt."""
    heads, d = SIZE["n_heads"], SIZE["dim"] // SIZE["n_heads"]
    room = prompt.shape[1] + new
    layers = [
        (block.attention_norm.weight, block.attention.wq.weight, block.attention.wk.weight,
         block.attention.wv.weight, block.attention.wo.weight, block.ffn_norm.weight,
         block.feed_forward.w1.weight, block.feed_forward.w2.weight, block.feed_forward.w3.weight,
         torch.empty(1, heads, room, d), torch.empty(1, heads, room, d))
        for block in model.layers
    ]  # fmt: skip
    angles = torch.arange(room)[:, None] * 500000.0 ** (-torch.arange(0, d, 2) / d)
    turns = torch.polar(torch.ones_like(angles), angles)
    tokens, start, made = prompt, 0, []

    def norm(x, weight):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * weight

    def split(x):
        return x.view(1, -1, heads, d).transpose(1, 2)

    def turn(x, by):
        return torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (d // 2, 2))) * by).flatten(-2)

    for _ in range(new):
        h = embedding(tokens, model.tok_embeddings.weight)
        end = start + tokens.shape[1]
        by = turns[start:end]
        for norm1, wq, wk, wv, wo, norm2, w1, w2, w3, keys, values in layers:
            x = norm(h, norm1)
            q, k, v = turn(split(linear(x, wq)), by), turn(split(linear(x, wk)), by), split(linear(x, wv))
            keys[:, :, start:end], values[:, :, start:end] = k, v
            k, v = keys[:, :, :end], values[:, :, :end]
            out = scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            h = h + linear(out.transpose(1, 2).flatten(2), wo)
            x = norm(h, norm2)
            h = h + linear(silu(linear(x, w1)) * linear(x, w3), w2)
        scores = linear(norm(h[:, -1], model.norm.weight), model.output.weight)
        tokens, start = scores.argmax(-1, keepdim=True), end
        made.append(tokens)
    return torch.cat(made, 1).tolist()


def _last_tokens(model, length, new=16):
    """The same model with caches of both kinds, filled up to shortly before ``length``."""
    tokens = torch.randint(SIZE["vocab_size"], (1, length))
    full, grown = model.new_cache(1, length), model.new_cache(1, length)
    with torch.no_grad():
        for cache in (full, grown):
            model(tokens[:, : length - new], cache=cache)
    grown.layers = [Growing(cache) for cache in grown.layers]

    @torch.no_grad()
    def run(cache):
        for layer in cache.layers:
            layer.length = length - new
            layer.cut(length - new) if isinstance(layer, Growing) else None
        return [model(tokens[:, i : i + 1], cache=cache) for i in range(length - new, length)]

    return lambda: run(full), lambda: run(grown)


class Growing:
    """A cache that is copied whole for each token."""

    def __init__(self, cache):
        self.keys, self.values = cache.keys[:, :, : cache.length], cache.values[:, :, : cache.length]
        self.length = cache.length

    def check(self, batch, length):
        pass

    def cut(self, length):
        self.keys, self.values = self.keys[:, :, :length], self.values[:, :, :length]

    def append(self, k, v):
        self.keys, self.values = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
        self.length += k.shape[2]
        return self.keys, self.values


def _without_cache(model, length, new=4):
    tokens = torch.randint(SIZE["vocab_size"], (1, length))
    cache = model.new_cache(1, length)
    with torch.no_grad():
        model(tokens[:, : length - new], cache=cache)

    @torch.no_grad()
    def ours():
        for layer in cache.layers:
            layer.length = length - new
        return [model(tokens[:, i : i + 1], cache=cache) for i in range(length - new, length)]

    @torch.no_grad()
    def reference():
        return [model(tokens[:, : i + 1])[:, -1:] for i in range(length - new, length)]

    return ours, reference

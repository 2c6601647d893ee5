"""Generation with a `Llama` against a hand-written one, and grouped queries against PyTorch's own.

The hand-written one is as bare as decoding can be: functions on the same weights, tables of cosines and sines
and buffers of keys and values made before, PyTorch's fused kernel, nothing looked at twice.
"""

import torch
from torch.nn.functional import embedding, linear, scaled_dot_product_attention, silu

from attnlib import Llama, grouped_query_attention

SIZE = {"vocab_size": 1000, "dim": 256, "n_layers": 6, "n_heads": 8, "hidden": 688}
DECODING, UNCACHED, GROWING, BARE = 1.25, {512: 0.06, 2048: 0.017}, {512: 1.03, 2048: 0.95}, 1.35


def cases():
    """Yield name, target, ours and reference."""
    torch.manual_seed(0)
    model = Llama(**SIZE)
    prompt = torch.randint(SIZE["vocab_size"], (1, 16))
    for new in (112, 496):
        name = f"generate {new} tokens, against a hand-written loop"
        yield name, DECODING, _ours(model, prompt, new), lambda new=new: handwritten(model, prompt, new)
    name = "generate 112 tokens, against the hand-written loop without attention"
    yield name, BARE, _ours(model, prompt, 112), lambda: handwritten(model, prompt, 112, attend=False)
    for length, target in GROWING.items():
        name = f"last of {length} tokens, against a cache grown by torch.cat"
        yield name, target, *_last_tokens(model, length)
    for length, target in UNCACHED.items():
        name = f"last of {length} tokens, against no cache"
        yield name, target, *_without_cache(model, length)
    for heads, kv_heads, keys, target in ((8, 2, 2048, 0.75), (8, 2, 8192, 0.75), (32, 1, 4096, 0.4)):
        q, k, v = torch.randn(1, heads, 1, 64), *torch.randn(2, 1, kv_heads, keys, 64)
        yield (f"one query, {heads} heads over {kv_heads} of {keys} keys, against enable_gqa", target,
               lambda q=q, k=k, v=v: grouped_query_attention(q, k, v, causal=True),
               lambda q=q, k=k, v=v: scaled_dot_product_attention(q, k, v, enable_gqa=True))  # fmt: skip
    yield (f"one query, {heads} heads over {kv_heads} of {keys} keys, against repeat_interleave", 0.03,
           lambda q=q, k=k, v=v: grouped_query_attention(q, k, v, causal=True),
           lambda q=q, k=k, v=v: scaled_dot_product_attention(
               q, k.repeat_interleave(32, 1), v.repeat_interleave(32, 1)))  # fmt: skip
    q, k, v = torch.randn(3, 1, 8, 2048, 64)
    few_k, few_v = k[:, :2].clone(), v[:, :2].clone()
    yield ("2048 queries, 8 heads over 2, against as many key heads, fused", 1.08,
           lambda: grouped_query_attention(q, few_k, few_v, causal=True),
           lambda: scaled_dot_product_attention(q, k, v, is_causal=True))  # fmt: skip


def _ours(model, prompt, new):
    return lambda: model.generate(prompt, new)


@torch.no_grad()
def handwritten(model, prompt, new, *, attend=True):
    """Greedy decoding of one prompt; the new tokens."""
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
            if attend:
                keys[:, :, start:end], values[:, :, start:end] = k, v
                k, v = keys[:, :, :end], values[:, :, :end]
                v = scaled_dot_product_attention(q, k, v, is_causal=start == 0)
            h = h + linear(v.transpose(1, 2).flatten(2), wo)
            x = norm(h, norm2)
            h = h + linear(silu(linear(x, w1)) * linear(x, w3), w2)
        scores = linear(norm(h[:, -1], model.norm.weight), model.output.weight)
        tokens, start = scores.argmax(-1, keepdim=True), end
        made.append(tokens)
    return torch.cat(made, 1)


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
        for i in range(length - new, length):
            model(tokens[:, i : i + 1], cache=cache)

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
        for i in range(length - new, length):
            model(tokens[:, i : i + 1], cache=cache)

    @torch.no_grad()
    def reference():
        for i in range(length - new, length):
            model(tokens[:, : i + 1])

    return ours, reference

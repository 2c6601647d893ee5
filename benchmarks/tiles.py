"""Attention by tiles against PyTorch's fused kernel, which works by tiles too, and against explicit forms."""

import math

import annotated
import numpy as np
import torch
from attention import run
from protocol import Case, Gap
from torch.nn.functional import scaled_dot_product_attention

from attnlib import causal_mask, tiled_attention

STEPS = (
    "beside the products a tile takes eight steps of Python's; the kernel has none, and where a processor "
    "multiplies fast (AVX-512) or its cache is shared with others they weigh more"
)
PAGES = "NumPy's scores of half a gigabyte come in large pages or in small ones, as the system likes"
SMALL = 100


def cases(small=False):
    """The rows B1 to B5, C1 and C2: heads of 64 features, eight but where it is said."""
    for length in (1024, 2048, 4096):
        name = f"B1 tiles of torch, {length} tokens, causal, forward, against the fused kernel"
        yield Case(name, 1.25, *_torch(_fused, SMALL if small else length), gap=Gap(1.8, STEPS))
    name = "B2 tiles of torch, 16384 tokens, one head, causal, forward, against the fused kernel"
    yield Case(name, 1.6, *_torch(_fused, SMALL if small else 16384, heads=1), gap=Gap(2.0, STEPS))
    for length, target in {2048: 0.20, 4096: 0.18}.items():
        name = f"B3 tiles of torch, {length} tokens, causal, forward, against the explicit form"
        yield Case(name, target, *_torch(_explicit, SMALL if small else length))
    for other, row, kernel, targets, gaps in (
        (_fused, "B4", "fused kernel", (1.25, 1.5), (Gap(1.6, STEPS), Gap(1.8, STEPS))),
        (_explicit, "B5", "explicit form", (0.35, 0.65), (None, Gap(0.8, STEPS))),
    ):
        for causal, target, gap in zip((True, False), targets, gaps, strict=True):
            kind = "causal" if causal else "full"
            name = f"{row} tiles of torch, 2048 tokens, {kind}, forward and backward, against the {kernel}"
            sides = _torch(other, SMALL if small else 2048, causal, backward=True)
            yield Case(name, target, *sides, gap=gap)
    for length in (1024, 2048, 4096):
        name = f"C1 tiles of NumPy, {length} tokens, causal, forward, against the fused kernel"
        yield Case(name, 1.6, *_numpy(_fused_on_arrays, SMALL if small else length), gap=Gap(2.0, STEPS))
    name = "C2 tiles of NumPy, 4096 tokens, causal, forward, against the explicit form"
    yield Case(name, 0.15, *_numpy(_explicit_on_arrays, SMALL if small else 4096), gap=Gap(0.3, PAGES))


def _torch(other, length, causal=True, *, heads=8, backward=False):
    generator = torch.Generator().manual_seed(0)
    qkv = [torch.randn(1, heads, length, 64, generator=generator).requires_grad_(backward) for _ in range(3)]
    return (lambda: run(tiled_attention(*qkv, causal=causal), qkv)), (lambda: run(other(*qkv, causal), qkv))


def _numpy(other, length):
    qkv = np.random.default_rng(0).normal(size=(3, 1, 8, length, 64)).astype(np.float32)
    return (lambda: tiled_attention(*qkv, causal=True)), (lambda: other(*qkv))


def _fused(q, k, v, causal):
    return scaled_dot_product_attention(q, k, v, is_causal=causal)


def _explicit(q, k, v, causal):
    return annotated.attention(q, k, v, causal_mask(q.shape[-2], like=q) if causal else None)[0]


def _fused_on_arrays(q, k, v):
    return _fused(*map(torch.from_numpy, (q, k, v)), True).numpy()


def _explicit_on_arrays(q, k, v):
    """As it is typed most often."""
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    scores = np.where(causal_mask(q.shape[-2]), scores, np.float32(-1e9))
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v

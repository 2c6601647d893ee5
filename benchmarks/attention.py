"""``attention(q, k, v)`` on torch tensors: against PyTorch's fused kernel, and against an explicit form."""

import annotated
import torch
from protocol import Case, Gap
from torch.nn.functional import scaled_dot_product_attention as fused

from attnlib import attention, causal_mask, padding_mask

EXPLICIT = {(8, 8, 512, 64): (0.80, 0.75), (1, 8, 2048, 64): (0.75, 0.70)}  # forward, with backward
FUSED = 1.05
PYTHON = "a hundred steps of Python look at the arguments; they take longer on a slow or busy processor"
SCATTER = "both sides run the same kernel; what differs is the scatter of a busy machine"
SMALL = (2, 2, 16, 8)


def cases(small=False):
    """The rows A1 to A4; ``small``: the same rows at sizes that take no time, as in all ``cases``."""
    for row, (shape, targets) in enumerate(EXPLICIT.items()):
        size = SMALL if small else shape
        for kind in ("full", "causal", "padded"):
            for backward in (False, True):
                name = f"A1 attention {shape} {kind}, {_passes(backward)}, against the fused kernel"
                yield Case(name, FUSED, *_fused(size, kind, backward), gap=Gap(1.15, SCATTER))
        for backward, target in zip((False, True), targets, strict=True):
            name = f"A{3 + row} with weights, {shape} causal, {_passes(backward)}, against the annotated one"
            yield Case(name, target, *_explicit(size, backward))
    q, k, v = _qkv((1, 1, 16, 16), False)
    yield Case("A2 microseconds of a call of (1, 1, 16, 16) beyond the bare kernel", 8.0,
               lambda: attention(q, k, v), lambda: fused(q, k, v), "us", Gap(16.0, PYTHON))  # fmt: skip


def _passes(backward):
    return "forward and backward" if backward else "forward"


def _qkv(shape, backward):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator).requires_grad_(backward) for _ in range(3)]


def _fused(shape, kind, backward):
    q, k, v = _qkv(shape, backward)
    mask, causal = None, kind == "causal"
    if kind == "padded":
        tokens = torch.ones(shape[0], shape[2], dtype=torch.int64)
        tokens[:, -shape[2] // 4 :] = 0
        mask = padding_mask(tokens)
    return (lambda: run(attention(q, k, v, mask, causal=causal), (q, k, v)),
            lambda: run(fused(q, k, v, mask, is_causal=causal), (q, k, v)))  # fmt: skip


def _explicit(shape, backward):
    q, k, v = _qkv(shape, backward)
    mask = causal_mask(shape[2], like=q)
    return (lambda: run(attention(q, k, v, causal=True, return_weights=True)[0], (q, k, v)),
            lambda: run(annotated.attention(q, k, v, mask)[0], (q, k, v)))  # fmt: skip


def run(out, inputs):
    """An output, and the gradients of its sum where they are asked for."""
    return (out, *torch.autograd.grad(out.sum(), inputs)) if out.requires_grad else (out,)

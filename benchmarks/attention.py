"""``attention(q, k, v)`` on torch tensors against PyTorch's own fused kernel, called directly."""

import torch
from torch.nn.functional import scaled_dot_product_attention

from attnlib import attention, padding_mask

SHAPES = ((8, 8, 512, 64), (1, 8, 2048, 64))
TARGET = 1.05


def cases():
    """Yield name, target, ours and reference for each shape, kind of mask and direction."""
    for shape in SHAPES:
        for kind in ("full", "causal", "padded"):
            for backward in (False, True):
                name = f"attention {shape} {kind}, {'forward and backward' if backward else 'forward'}"
                yield name, TARGET, *_sides(shape, kind, backward)


def _sides(shape, kind, backward):
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(shape, generator=generator).requires_grad_(backward) for _ in range(3))
    mask = None
    if kind == "padded":
        tokens = torch.ones(shape[0], shape[2], dtype=torch.int64)
        tokens[:, -shape[2] // 4 :] = 0
        mask = padding_mask(tokens)

    def ours():
        _run(attention(q, k, v, mask, causal=kind == "causal"), backward)

    def reference():
        _run(scaled_dot_product_attention(q, k, v, mask, is_causal=kind == "causal"), backward)

    return ours, reference


def _run(out, backward):
    if backward:
        out.sum().backward()

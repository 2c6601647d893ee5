"""How far attention in float32 lies from the explicit form in float64, on standard normal numbers."""

import torch
from protocol import Case

from attnlib import attention, tiled_attention


def cases(small=False):
    """The row H5, for each way to compute."""
    generator = torch.Generator().manual_seed(0)
    qkv = torch.randn(3, 1, 8, 50 if small else 2048, 64, generator=generator)
    for name, out in (
        ("by the fused kernel", lambda: attention(*qkv, causal=True)),
        ("with weights", lambda: attention(*qkv, causal=True, return_weights=True)[0]),
        ("by tiles of torch", lambda: tiled_attention(*qkv, causal=True)),
        ("by tiles of NumPy", lambda: torch.from_numpy(tiled_attention(*qkv.numpy(), causal=True))),
    ):
        yield Case(f"H5 largest error of float32 in millionths, {name}", 2.0,
                   lambda out=out: _millionths(out(), qkv), unit="e-6")  # fmt: skip


def _millionths(out, qkv):
    exact, _ = attention(*qkv.double(), causal=True, return_weights=True)
    return float((out - exact).abs().max() * 1e6)

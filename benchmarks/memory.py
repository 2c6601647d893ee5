"""How much memory a call takes at its height beyond its arguments, each in a process of its own.

Linux tells the height of a process and lets it be set back; elsewhere there are no such figures.
"""

import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import torch
from protocol import Case
from torch.nn.functional import scaled_dot_product_attention

from attnlib import grouped_query_attention, tiled_attention

STATUS = Path("/proc/self/status")
SHORT = 16


def cases(small=False):
    """Rows in MB, each of calls in processes of their own; the sizes are what they are about."""
    if STATUS.exists():
        name = "F3 MB beyond as many key heads, fused: 2048 queries, 8 heads over 2"
        yield Case(name, 1.0, _beyond_as_many_heads, unit="MB")
        for call, row, kind, target in (
            ("tiled", "B6", "of torch, 4096 tokens, 8 heads, causal, forward", 32),
            ("tiled_backward", "B6", "of torch, 2048 tokens, 8 heads, causal, forward and backward", 40),
            ("tiled_on_arrays", "C3", "of NumPy, 4096 tokens, 8 heads, causal, forward", 30),
        ):
            name = f"{row} MB of tiles {kind}, results included"
            yield Case(name, target, partial(_in_its_own_process, call), unit="MB")


def _beyond_as_many_heads():
    return _in_its_own_process("grouped") - _in_its_own_process("fused")


def _in_its_own_process(call):
    command = [sys.executable, __file__, call]
    return float(subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout)


def grouped(q, k, v):
    return grouped_query_attention(q, k[:, :2], v[:, :2], causal=True)


def fused(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def tiled(q, k, v):
    return tiled_attention(q, k, v, causal=True)


def tiled_backward(q, k, v):
    inputs = [x.detach().requires_grad_() for x in (q, k, v)]
    with torch.enable_grad():
        return torch.autograd.grad(tiled(*inputs).sum(), inputs)


def tiled_on_arrays(q, k, v):
    return tiled(q.numpy(), k.numpy(), v.numpy())


CALLS = {"grouped": (grouped, 2048), "fused": (fused, 2048), "tiled": (tiled, 4096),
         "tiled_backward": (tiled_backward, 2048), "tiled_on_arrays": (tiled_on_arrays, 4096)}  # fmt: skip


def main(call, length):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    qkv = torch.randn(3, 1, 8, length, 64)
    with torch.no_grad():
        call(*qkv[..., :SHORT, :])  # what is loaded once is no part of it
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        before = _kilobytes("VmRSS")
        call(*qkv)
    print((_kilobytes("VmHWM") - before) / 1024)


def _kilobytes(name):
    return int(re.search(rf"{name}:\s*(\d+)", STATUS.read_text(encoding="utf-8"))[1])


if __name__ == "__main__":
    main(*CALLS[sys.argv[1]])

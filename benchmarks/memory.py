"""How much memory a call takes at its height beyond its arguments, each in a process of its own.

Linux tells the height of a process and lets it be set back; elsewhere there are no such figures.
"""

import re
import subprocess
import sys
from pathlib import Path

import torch
from protocol import Case
from torch.nn.functional import scaled_dot_product_attention

from attnlib import grouped_query_attention

STATUS = Path("/proc/self/status")
LENGTH, SHORT = 2048, 16


def cases(small=False):
    """Rows in MB, each of calls in processes of their own; the sizes are what they are about."""
    if STATUS.exists():
        name = f"F3 MB beyond as many key heads, fused: {LENGTH} queries, 8 heads over 2"
        yield Case(name, 1.0, _beyond_as_many_heads, unit="MB")


def _beyond_as_many_heads():
    return _in_its_own_process("grouped") - _in_its_own_process("fused")


def _in_its_own_process(call):
    command = [sys.executable, __file__, call]
    return float(subprocess.run(command, check=True, capture_output=True, encoding="utf-8").stdout)


def grouped(q, k, v):
    return grouped_query_attention(q, k[:, :2], v[:, :2], causal=True)


def fused(q, k, v):
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def main(call):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    qkv = torch.randn(3, 1, 8, LENGTH, 64)
    with torch.no_grad():
        call(*qkv[..., :SHORT, :])  # what is loaded once is no part of it
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
        before = _kilobytes("VmRSS")
        call(*qkv)
    print((_kilobytes("VmHWM") - before) / 1024)


def _kilobytes(name):
    return int(re.search(rf"{name}:\s*(\d+)", STATUS.read_text(encoding="utf-8"))[1])


if __name__ == "__main__":
    main({"grouped": grouped, "fused": fused}[sys.argv[1]])

"""The machine that a table was measured on: what it is, what runs on it, and how fast it can be at best."""

import contextlib
import os
import platform
import re
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
import torch

PEERS = ("transformers", "x-transformers", "performer-pytorch")
CPU = Path("/proc/cpuinfo")


def description():
    """Processor, threads and versions; None for a peer that is not installed."""
    names = ("attnlib", "numpy", "torch", *PEERS)
    return {"processor": _processor(), "machine": platform.machine(), "threads": torch.get_num_threads(),
            "python": platform.python_version(), **{name: _version(name) for name in names}}  # fmt: skip


def limits():
    """Of one thread: float32 products a second, and bytes read and written a second."""
    a, b, out = torch.randn(3, 1024, 1024)
    source, target = torch.ones(2, 2**26)  # 256 MB each, in no cache
    return {"gflops": round(2 * 1024**3 / _best(lambda: torch.mm(a, b, out=out)) / 1e9, 1),
            "gigabytes": round(2 * source.nbytes / _best(lambda: target.copy_(source)) / 1e9, 1)}  # fmt: skip


def load():
    """How many processes wanted to run, on average over the last minute; None where nobody counts."""
    with contextlib.suppress(AttributeError, OSError):
        return round(os.getloadavg()[0], 2)


def _best(function, times=9):
    seconds = []
    for _ in range(times):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return float(np.min(seconds))


def _processor():
    named = re.search(r"model name\s*: (.+)", CPU.read_text(encoding="utf-8")) if CPU.exists() else None
    return named[1] if named else platform.processor()


def _version(name):
    with contextlib.suppress(PackageNotFoundError):
        return version(name)

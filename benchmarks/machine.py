"""The machine that a table was measured on: what it is, what runs on it, and how fast it can be at best."""

import contextlib
import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from attnlib.analysis.roofline import machine_limits

PEERS = ("transformers", "x-transformers", "performer-pytorch")
CPU = Path("/proc/cpuinfo")


def description():
    """Processor, threads and versions; None for a peer that is not installed."""
    names = ("attnlib", "numpy", "torch", *PEERS)
    return {"processor": _processor(), "machine": platform.machine(), "threads": torch.get_num_threads(),
            "python": platform.python_version(), **{name: _version(name) for name in names}}  # fmt: skip


def limits():
    """Of one thread: 10^9 operations of a product of matrices a second, and GB read and written a second."""
    limits = machine_limits()
    return {"gflops": round(limits.flops / 1e9, 1), "gigabytes": round(limits.bytes / 1e9, 1)}


def load():
    """How many processes wanted to run, on average over the last minute; None where nobody counts."""
    with contextlib.suppress(AttributeError, OSError):
        return round(os.getloadavg()[0], 2)


def _processor():
    named = re.search(r"model name\s*: (.+)", CPU.read_text(encoding="utf-8")) if CPU.exists() else None
    return named[1] if named else platform.processor()


def _version(name):
    with contextlib.suppress(PackageNotFoundError):
        return version(name)

"""How two ways of computing the same thing are compared on a machine whose speed drifts.

Absolute times mean little on a shared machine, so every figure is a ratio. One thread, processor
time of this process, the two sides in turn (A B B A) within each round, and the median of the
rounds' ratios. Expect ten per cent of scatter on a busy machine.
"""

import statistics
import time
from typing import NamedTuple


class Ratio(NamedTuple):
    """Ours divided by the reference: the median round, and the spread of the rounds."""

    median: float
    low: float
    high: float


def compare(ours, reference, *, rounds=9, seconds=0.25):
    """Time two functions without arguments against each other.

    Each is called so often in a row that one turn takes about ``seconds``; calls of both kinds
    before the first round warm caches and allocators up.
    """
    calls = max(1, int(seconds / max(_time(ours, 1), _time(reference, 1), 1e-7)))
    ratios = []
    for _ in range(rounds):
        a1, b1 = _time(ours, calls), _time(reference, calls)
        b2, a2 = _time(reference, calls), _time(ours, calls)
        ratios.append((a1 + a2) / (b1 + b2))
    return Ratio(statistics.median(ratios), min(ratios), max(ratios))


def _time(function, calls):
    start = time.process_time()
    for _ in range(calls):
        function()
    return time.process_time() - start

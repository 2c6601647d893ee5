"""How two ways of computing the same thing are compared on a machine whose speed drifts.

Absolute times mean little on a shared machine, so nearly every figure is a ratio. One thread, processor
time of this process, the two sides in turn (A B B A) within each round, and the median of the rounds.
Expect ten per cent of scatter on a busy machine.
"""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Gap(NamedTuple):
    """Why a target is missed, where that is known, and by how much at the most.

    It stands in the table where the target is missed, and explains no more than up to its limit.
    """

    limit: float
    why: str


class Case(NamedTuple):
    """A row of the table.

    ``name`` begins with the row's id. With a reference the figure is ours divided by it or, in
    microseconds (``unit="us"``), the difference of a call; without, ``ours`` gives the figure itself.
    ``needs`` names the module of a peer without which the row is left out.
    """

    name: str
    target: float
    ours: Callable
    reference: Callable | None = None
    unit: str = ""
    gap: Gap | None = None
    needs: str = ""

    @property
    def id(self):
        return self.name.split()[0]


class Figure(NamedTuple):
    """The median round, and the spread of the rounds."""

    median: float
    low: float
    high: float


def measured(case):
    """The figure of a case."""
    if case.reference is None:
        value = case.ours()
        return Figure(value, value, value)
    if case.unit == "us":
        return compare(case.ours, case.reference, difference, rounds=15)
    return compare(case.ours, case.reference)


def ratio(a, b):
    return a / b


def difference(a, b):
    return (a - b) * 1e6


def compare(ours, reference, figure=ratio, *, rounds=9, seconds=0.25):
    """Time two functions without arguments against each other.

    Each is called so often in a row that one turn takes about ``seconds``; calls of both kinds
    before the first round warm caches and allocators up.
    """
    calls = max(1, int(seconds / max(_time(ours, 1), _time(reference, 1), 1e-7)))
    figures = []
    for _ in range(rounds):
        a1, b1 = _time(ours, calls), _time(reference, calls)
        b2, a2 = _time(reference, calls), _time(ours, calls)
        figures.append(figure((a1 + a2) / (2 * calls), (b1 + b2) / (2 * calls)))
    return Figure(statistics.median(figures), min(figures), max(figures))


def verdict(target, median, gap=None):
    """``"met"``, ``"explained"`` where the gap is known and no larger, or ``"missed"``."""
    if median <= target:
        return "met"
    return "explained" if gap is not None and median <= gap.limit else "missed"


def _time(function, calls):
    start = time.process_time()
    for _ in range(calls):
        function()
    return time.process_time() - start

"""The roofline: how fast a step can be where memory brings numbers slower than a core multiplies them."""

import math
import time
from typing import NamedTuple

from attnlib.core.arrays import check_number, valid_length

SIDE, LARGE = 1024, 2**26  # of a matrix that a cache holds; of an array of 256 MB that none should


class Limits(NamedTuple):
    """What a machine can do: floating-point operations, and bytes read or written, a second."""

    flops: float
    bytes: float

    def attainable(self, intensity):
        """The greatest rate, in operations a second, of a step with so many operations for each byte."""
        return min(self.flops, self.bytes * intensity)


class Step(NamedTuple):
    """The work of a step: floating-point operations, and bytes read from slow memory or written to it."""

    flops: int
    bytes: int

    @property
    def intensity(self):
        """Operations for each byte."""
        return self.flops / self.bytes


def machine_limits(seconds=0.5):
    """Measure one thread of this machine: its best rate of multiplying matrices, and of copying.

    The product is one of 1024 by 1024 numbers in float32, by PyTorch. What is copied are 256 MB, and each
    byte counts twice, as read and as written; where a processor first loads what it will overwrite, it
    moves more than that. The best of all tries counts, in time of this process: other work on the machine
    makes a try slower and never faster.

    Parameters
    ----------
    seconds : number > 0
        For each of the two, by the clock on the wall; three tries are made in any case.

    Returns
    -------
    Limits
        Operations a second (a multiplication and an addition are two) and bytes a second; where one is
        divided by the other, a step's operations for each byte must lie to keep the core busy. Its
        ``attainable(intensity)`` is the roof.

    Raises
    ------
    TypeError, ValueError
        If ``seconds`` is no positive number.

    References
    ----------
    Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance model for multicore
    architectures", Communications of the ACM 52(4).

    Examples
    --------
    >>> limits = machine_limits(0.01)
    >>> limits.flops > 1e8, limits.attainable(1e9) == limits.flops
    (True, True)
    """
    import torch

    check_number(seconds, "seconds")
    if not 0 < seconds < math.inf:
        raise ValueError(f"seconds must be positive and finite; got {seconds!r}")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        a, out = torch.ones(SIDE, SIDE), torch.empty(SIDE, SIDE)
        multiplying = _best(lambda: torch.mm(a, a, out=out), seconds)
        source, target = torch.ones(LARGE), torch.zeros(LARGE)
        copying = _best(lambda: target.copy_(source), seconds)
    finally:
        torch.set_num_threads(threads)
    return Limits(2 * SIDE**3 / multiplying, 2 * source.nbytes / copying)


def attention_steps(n_query, n_key, d, *, bytes_per_number=4):
    """The work of one head's attention, step by step, and of all steps in one that keeps no scores.

    Parameters
    ----------
    n_query : int >= 1
        1 is a step of decoding.
    n_key : int >= 1
    d : int >= 1
        Features of queries, keys and values.
    bytes_per_number : int >= 1

    Returns
    -------
    dict of Step
        ``"scores"``, ``"softmax"``, ``"values"`` and ``"fused"``: ``flops``, ``bytes``, and their quotient
        ``intensity``. A step reads and writes each number once, as with a cache that is large enough; the
        softmax counts five operations a score (maximum, difference, exponential, sum, quotient).

    Raises
    ------
    TypeError, ValueError
        If a number is not a positive integer.

    References
    ----------
    The counts follow from the shapes; Dao et al. 2022, arXiv 2205.14135, section 2, on which steps memory
    slows.

    Examples
    --------
    >>> {name: round(step.intensity, 2) for name, step in attention_steps(2048, 2048, 64).items()}
    {'scores': 30.12, 'softmax': 0.62, 'values': 30.12, 'fused': 522.0}
    >>> round(attention_steps(1, 2048, 64)["fused"].intensity, 2)
    0.51
    """
    n_query, n_key, d = (
        valid_length(n, name) for n, name in ((n_query, "n_query"), (n_key, "n_key"), (d, "d"))
    )
    size = valid_length(bytes_per_number, "bytes_per_number")
    scores, rows, columns = n_query * n_key, n_query * d, n_key * d
    product = Step(2 * scores * d, size * (rows + columns + scores))
    return {
        "scores": product,
        "softmax": Step(5 * scores, size * 2 * scores),
        "values": product,
        "fused": Step(2 * product.flops + 5 * scores, size * 2 * (rows + columns)),
    }


def standard_accesses(n, d):
    """Numbers that attention with all its scores reads from slow memory and writes to it.

    ``4 n d + 4 n**2``: queries, keys and values are read and the output written, scores and weights are each
    written and read again.

    Parameters
    ----------
    n : int >= 1
        Queries, and as many keys.
    d : int >= 1

    Returns
    -------
    int

    Raises
    ------
    TypeError, ValueError
        If a number is not a positive integer.

    References
    ----------
    Dao et al. 2022, arXiv 2205.14135, algorithm 0; theorem 2 has its order, ``n d + n**2``. The factors
    are counted here.

    Examples
    --------
    >>> standard_accesses(4096, 64)
    68157440
    """
    n, d = valid_length(n, "n"), valid_length(d, "d")
    return 4 * n * d + 4 * n**2


def flash_accesses(n, d, memory):
    """Numbers that FlashAttention reads from slow memory and writes to it, with so much fast memory.

    Blocks of ``memory / (4 d)`` keys and their values are read once each. For each of them, all queries are
    read, and output, maxima and sums are read and written: the more fast memory, the fewer such rounds.

    Parameters
    ----------
    n : int >= 1
        Queries, and as many keys.
    d : int >= 1
    memory : int >= 1
        Numbers, not bytes, that fast memory holds; at least ``d``.

    Returns
    -------
    int

    Raises
    ------
    TypeError, ValueError
        If a number is not a positive integer, or fast memory holds less than a row.

    References
    ----------
    Dao et al. 2022, arXiv 2205.14135, algorithm 1; theorem 2 has its order, ``n**2 d**2 / memory``, for
    ``d <= memory <= n d``. It leaves out a factor of about 12, which is counted here.

    Examples
    --------
    >>> flash_accesses(4096, 64, 51_200), 4096**2 * 64**2 // 51_200
    (17653760, 1342177)
    """
    n, d, memory = (valid_length(x, name) for x, name in ((n, "n"), (d, "d"), (memory, "memory")))
    if memory < d:
        raise ValueError(f"memory must hold a row at least, {d} numbers; got {memory}")
    keys = -(-memory // (4 * d))
    rounds = -(-n // keys)
    start = n * d + 2 * n  # zeros for the output and the sums, and maxima, are written first
    return start + 2 * n * d + rounds * (3 * n * d + 4 * n)


def _best(function, seconds):
    """The shortest time of several tries; at least three, the first of which touches memory."""
    times, end = [], time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)

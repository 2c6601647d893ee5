"""A detector of keys that are counted twice, of lesson 17."""

import numpy as np

from attnlib.core.scaled_dot_product import attention as core_attention
from attnlib.efficient.bigbird import bigbird_counts, bigbird_random_blocks
from attnlib.efficient.patterns import causal, first, global_tokens, window
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.learner_test import Implementation, LearnerTest


def _by_counts(counts):
    """Attention in which query i sees key j as often as counts say."""
    counts = np.asarray(counts).astype(float)
    with np.errstate(divide="ignore"):
        bias = np.log(counts)

    def attend(q, k, v):
        q, k, v = (np.array(x, dtype=float) for x in (q, k, v))
        if any(x.ndim != 2 or len(x) != len(counts) for x in (q, k, v)) or q.shape != k.shape:
            raise ValueError(
                f"attend takes q and k (n, d) and v (n, dv) with n = {len(counts)}; got {q.shape}, {k.shape} "
                f"and {v.shape}"
            )
        return core_attention(q, k, v, bias)

    return attend


def _in_float32(counts):
    attend = _by_counts(counts)

    def rounded(q, k, v):
        out = attend(q, k, v)
        return (out * (1 + 1e-7 * np.cos(np.arange(out.size)).reshape(out.shape))).astype(np.float32)

    return rounded


def _off_by_one(counts):
    """Softmax off by one: a key of score 0 and value 0 besides."""
    attend = _by_counts(np.pad(np.asarray(counts).astype(int), ((0, 1), (0, 1)), constant_values=1))

    def more(q, k, v):
        q, k, v = (np.pad(np.array(x, dtype=float), ((0, 1), (0, 0))) for x in (q, k, v))
        return attend(q, k, v)[:-1]

    return more


def _listed(n, random):
    """BigBird in blocks of two tokens, each block of a row listed without looking."""
    return bigbird_counts(n, 2, random, counting="listed")[0]


def _evaluated(n):
    return _by_counts(_listed(n, np.zeros((1, n // 2 - 2, 3), int)))


def _one_row(n):
    random = np.repeat(bigbird_random_blocks(n // 2, 1, seed=n), 2, axis=-1)
    two = bigbird_random_blocks(n // 2, 2, seed=n)
    two[0, n // 4] = random[0, n // 4]                     # one block has drawn the same one twice
    return _by_counts(_listed(n, two))


def _global_in_window(n):
    at = global_tokens([n // 2]).mask(n).astype(int)
    near = window(3).mask(n).astype(int)
    counts = near + at
    counts[n // 2] = 1                                     # its own row is right
    return _by_counts(counts)


def _sinks_twice(n):
    return _by_counts((window(4).mask(n).astype(int) + first(2).mask(n)) * causal.mask(n))


def _last_row(n):
    counts = causal.mask(n).astype(int)
    counts[-1, -1] = 2
    return _by_counts(counts)


# What it is, how it is made for a length, whether a key is counted twice, the mistake of a test that is
# fooled, and what is to be said.
_MODELS = (
    ("attention to all keys", lambda n: _by_counts(np.ones((n, n))), False, "all_is_uneven",
     "is clean. With equal scores every key gets the same weight. Are your scores equal?"),
    ("a causal window", lambda n: _by_counts((causal & window(3)).mask(n)), False, "rows_differ",
     "is clean. Queries see different numbers of keys, so weights differ from row to row, and hidden keys "
     "get "
     "0. Compare within a row, and only what is not hidden."),
    ("BigBird as it is evaluated", _evaluated, True, "middle_rows",
     "counts block 0 four times, for all queries but those of the first and the last block. Did you look at "
     "the rows in the middle?"),
    ("a window whose first queries see nothing", lambda n: _by_counts(
        window(3).mask(n) & (np.arange(n) > 2)[:, None]), False, "empty_rows",
     "is clean. Some queries see nothing, and their rows are zeros. A row without keys has no key twice."),
    ("a global token, listed again where it lies in the window", _global_in_window, True, "near_rows",
     "counts its global token twice, for its neighbours only. All other queries see it once."),
    ("a causal window in float32", lambda n: _in_float32((causal & window(5)).mask(n)), False,
     "exact_comparison",
     "is clean. Its results are rounded to seven digits, so equal weights come out not quite equal. Twice is "
     "far from that."),
    ("softmax off by one over a window", lambda n: _off_by_one((causal & window(4)).mask(n)), False,
     "sums_to_one",
     "is clean. Its rows sum to less than one, as they should (lesson 05), and each key in them counts once. "
     "A sum says nothing of shares."),
    ("random blocks, of which one row drew the same twice", _one_row, True, "one_row",
     "counts a block twice for two queries of all. Every row must be looked at."),
    ("first tokens kept beside a window", _sinks_twice, True, "early_rows",
     "counts a first token twice as long as it lies in the window too, which is so for the earliest queries "
     "only."),
    ("a window with first tokens, each once", lambda n: _by_counts((causal & (window(4) | first(2))).mask(n)),
     False, "rows_differ",
     "is clean. Early rows have fewer keys than late ones; within each row all count alike."),
    ("the last query sees itself twice", _last_row, True, "last_row",
     "counts one key twice, for the last query alone. Is your loop one row short?"),
)  # fmt: skip


counted_twice = LearnerTest(
    tuple(
        Implementation(name, lambda make=make, n=n: (make(n), n), twice, mistake, told)
        for n in (24, 36)
        for name, make, twice, mistake, told in _MODELS
    ),
    {
        True: ("all_twice", "You say of all eleven that a key is counted twice. Six are clean."),
        False: ("all_once", "You say of all eleven that no key is counted twice. Five count one twice."),
    },
    "All eleven judged rightly, in two lengths each. With equal scores and one-hot values the output is the "
    "table of weights, and a key that is listed twice stands out in its row.",
)

_DETECTOR = """
import numpy as np

def counts_twice(attend, length):
    zeros = np.zeros((length, 4))
    weights = attend(zeros, zeros, np.eye(length))          # equal scores, one-hot values
    for row in weights:
        seen = row[row > 1e-6]
        if len(seen) and seen.max() > 1.5 * seen.min():
            return True
    return False

answer = counts_twice
"""

EXERCISES = (
    Exercise(
        "counted_twice", "17", counted_twice,
        (
            "You see outputs only. Which values make an output the list of the weights?",
            "With values np.eye(length) row i of the output is what query i gives to each key. Which "
            "queries and "
            "keys make all scores equal?",
            "With queries of zeros every key that is seen once gets the same weight. In each row, compare "
            "the "
            "largest weight with the smallest that is not 0, and leave room for rounding.",
        ),
        _DETECTOR, "test",
    ),
)  # fmt: skip

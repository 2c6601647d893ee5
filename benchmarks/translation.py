"""The course's translator trained from ten seeds: ``python3 course.py bench translation``.

For each seed the share of 1,000 unseen sentences that is translated word for word, the alignment error rate
of the attention, that of IBM Model 1 on the same training pairs, whether the course's own sentences come out
right, and the processor seconds of one thread. About five minutes on an idle machine; ``--seeds 3`` does
three.
Ends with status 1 when a seed misses a target.
"""

import argparse
import sys
import time

import torch

from attnlib import IBMModel1, alignment_error_rate, diagonal_alignment
from attnlib.datasets import running_example, translation_pairs
from attnlib.translation.recipe import PAIRS, quality, train_translator

EXACT_MATCH, ERROR_RATE = 0.95, 0.25
OWN = [(*running_example()[:2],), ("我爱你", ("I", "love", "you")), ("你爱我", ("you", "love", "me"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    test = translation_pairs(1000, 1_000_000, unseen=True)
    sure, possible = [pair.sure for pair in test], [pair.possible for pair in test]
    diagonal = [diagonal_alignment(len(pair.zh), len(pair.en)) for pair in test]
    print(f"the diagonal's alignment error rate: {alignment_error_rate(diagonal, sure, possible):.3f}\n")
    print("| seed | exact match | error rate | IBM Model 1 | own sentences | seconds |")
    print("|---" * 6 + "|")
    missed = 0
    for seed in range(seeds):
        start = time.process_time()
        translator, _ = train_translator(seed)
        seconds = time.process_time() - start
        exact_match, error_rate = quality(translator, test)
        counts = IBMModel1(translation_pairs(PAIRS, seed))
        counted = alignment_error_rate([counts.align(pair.zh, pair.en) for pair in test], sure, possible)
        right = sum(
            words == en for words, (_, en) in zip(translator([zh for zh, _ in OWN]), OWN, strict=True)
        )
        print(f"| {seed} | {exact_match:.3f} | {error_rate:.3f} | {counted:.3f} | {right} of {len(OWN)} "
              f"| {seconds:.0f} |", flush=True)  # fmt: skip
        missed += exact_match <= EXACT_MATCH or error_rate >= ERROR_RATE
    print(f"\n{seeds - missed} of {seeds} seeds above {EXACT_MATCH} and below {ERROR_RATE}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from attnlib.datasets import translation_pairs
from attnlib.translation.batches import batches
from attnlib.translation.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def made():
    pairs = translation_pairs(30, seed=1)
    return pairs, Vocabulary.of(pair.zh for pair in pairs), Vocabulary.of(pair.en for pair in pairs)


def test_in_a_round_each_pair_comes_once_and_stays_a_pair(made):
    pairs, zh, en = made
    rounds = [
        Counter((zh.words(s), en.words(t)) for src, tgt in rows for s, t in zip(src, tgt, strict=True))
        for rows in (lambda b: [list(islice(b, 3)) for _ in range(2)])(batches(*made, size=10))
    ]
    assert rounds[0] == rounds[1] == Counter((pair.zh, pair.en) for pair in pairs)


def test_a_seed_gives_its_order(made):
    first, again, other = (next(batches(*made, size=8, seed=seed))[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.shape != other.shape or (first != other).any()


def test_errors_are_sentences(made):
    with pytest.raises(ValueError, match="size must be at most 30, for there are so many pairs; got 31"):
        next(batches(*made, size=31))

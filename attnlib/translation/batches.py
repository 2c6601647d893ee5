"""Training batches of a list of pairs, without end."""

import numpy as np

from attnlib.core.arrays import valid_length
from attnlib.translation.vocabulary import encode_pairs


def batches(pairs, zh_words, en_words, size=64, seed=0):
    """Pairs in random order, ``size`` at a time; when all have come, in another order, for ever.

    Parameters
    ----------
    pairs : sequence of Pair
    zh_words, en_words : Vocabulary
    size : int >= 1
        At most the number of pairs; what does not fill a batch is left out of its round.
    seed : int or numpy.random.Generator

    Returns
    -------
    iterator of (src, tgt)
        ``src`` int64 array (size, S) and ``tgt`` int64 array (size, L), as `encode_pairs` makes them.

    Raises
    ------
    TypeError, ValueError
        If ``size`` is no positive integer, or more than there are pairs.

    Examples
    --------
    >>> from attnlib.translation.corpus import translation_pairs
    >>> from attnlib.translation.vocabulary import Vocabulary
    >>> pairs = translation_pairs(10)
    >>> zh, en = (Vocabulary.of(side) for side in ([p.zh for p in pairs], [p.en for p in pairs]))
    >>> len(next(batches(pairs, zh, en, size=4))[0])
    4
    """
    size = valid_length(size, "size")
    if size > len(pairs):
        raise ValueError(f"size must be at most {len(pairs)}, for there are so many pairs; got {size}")
    rng = np.random.default_rng(seed)
    while True:
        order = rng.permutation(len(pairs))
        for start in range(0, len(pairs) - size + 1, size):
            yield encode_pairs([pairs[i] for i in order[start : start + size]], zh_words, en_words)

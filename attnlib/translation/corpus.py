"""Which sentences a model is trained on, and which it is asked about."""

import zlib

import numpy as np

from attnlib.core.arrays import valid_length
from attnlib.translation.grammar import draw_pair

# The course asks about these; no model that it trains has seen them.
OURS = frozenset({"我吃了一个苹果，它很甜", "我爱你", "你爱我"})


def translation_pairs(n, seed=0, *, unseen=False):
    """Chinese sentences and their translations, drawn from the grammar, with gold links.

    One Chinese sentence in eight is never given unless ``unseen``: those whose text, as UTF-8, has a
    CRC-32 that eight divides. 我爱你, 你爱我 and the running example are among them. So what a model was
    trained on and what it is tested on have no sentence in common, whatever the seeds.

    Parameters
    ----------
    n : int >= 1
        Pairs. Each is drawn anew, and short ones come again.
    seed : int or numpy.random.Generator
        A generator goes on where it is.
    unseen : bool
        Draw from the eighth that is kept for tests.

    Returns
    -------
    list of Pair
        ``zh`` and ``en``, tuples of words; ``sure`` and ``possible``, sets of links (index in ``zh``, index
        in ``en``). A sure link is also a possible one.

    Raises
    ------
    TypeError, ValueError
        If ``n`` is no positive integer, or ``unseen`` neither True nor False.

    References
    ----------
    Sure and possible links: Och and Ney 2003, "A Systematic Comparison of Various Statistical Alignment
    Models", Computational Linguistics 29(1).

    Examples
    --------
    >>> for pair in translation_pairs(2, seed=1):
    ...     print("".join(pair.zh), "|", " ".join(pair.en))
    他想吃什么？ | what does he want to eat ?
    我们买了两个鸡蛋 | we bought two eggs
    """
    n = valid_length(n, "n")
    if not isinstance(unseen, bool):
        raise TypeError(f"unseen must be True or False; got {unseen!r}")
    rng = np.random.default_rng(seed)
    pairs = []
    while len(pairs) < n:
        pair = draw_pair(rng)
        if kept_for_tests(pair.zh) == unseen:
            pairs.append(pair)
    return pairs


def kept_for_tests(zh):
    """Whether a Chinese sentence, a tuple of words, is kept from training."""
    text = "".join(zh)
    return text in OURS or zlib.crc32(text.encode()) % 8 == 0

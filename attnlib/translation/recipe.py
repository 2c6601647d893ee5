"""How the course trains a translator in half a minute, and how well it then translates and aligns."""

from typing import NamedTuple

import numpy as np
import torch

from attnlib.analysis.alignments import alignment_error_rate, attention_alignment
from attnlib.core.arrays import whole_number
from attnlib.layers.training import train
from attnlib.layers.transformer import Transformer
from attnlib.translation.batches import batches
from attnlib.translation.corpus import translation_pairs
from attnlib.translation.translator import Translator
from attnlib.translation.vocabulary import Vocabulary

# One head between the languages: its map is the whole of what the decoder takes from the source.
MODEL = {"d_model": 64, "num_heads": 4, "cross_heads": 1, "num_layers": 1, "d_ff": 256, "dropout": 0.0,
         "norm_first": True}  # fmt: skip
TRAINING = {"steps": 900, "rate": 5e-3, "warm_up": 100}
PAIRS, BATCH = 20_000, 64


def untrained_translator(pairs, seed=0, **settings):
    """A translator for the words of ``pairs``, as it is before its first step.

    Parameters
    ----------
    pairs : sequence of Pair
    seed : int
        Of its weights; torch's own random state is left alone.
    **settings
        Of the `Transformer`, in place of those of ``MODEL``.

    Returns
    -------
    Translator

    Raises
    ------
    TypeError, ValueError
        If a setting is out of its range.

    Examples
    --------
    >>> from attnlib.translation.corpus import translation_pairs
    >>> translator = untrained_translator(translation_pairs(100), d_model=32)
    >>> translator.model.d_model
    32
    """
    seed = whole_number(seed, f"seed must be one integer; got {seed!r}")
    words = Vocabulary.of(pair.zh for pair in pairs), Vocabulary.of(pair.en for pair in pairs)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Translator(Transformer(*map(len, words), **MODEL | settings), *words)


def train_translator(seed=0, *, pairs=None, model=None, **training):
    """The course's recipe: sentences, model and order of batches all from one seed.

    Parameters
    ----------
    seed : int
    pairs : sequence of Pair, optional
        20,000 of `translation_pairs` when left out.
    model : dict, optional
        Settings of the `Transformer`, in place of those of ``MODEL``.
    **training
        Of `train`, in place of those of ``TRAINING``.

    Returns
    -------
    translator : Translator
        In evaluation mode.
    losses : list of float
        One a step.

    Raises
    ------
    TypeError, ValueError
        If a setting is out of its range.

    Examples
    --------
    >>> translator, losses = train_translator(pairs=translation_pairs(100), steps=2)
    >>> len(losses)
    2
    """
    pairs = translation_pairs(PAIRS, seed) if pairs is None else pairs
    translator = untrained_translator(pairs, seed, **model or {})
    rows = batches(pairs, translator.zh_words, translator.en_words, BATCH, seed)
    return translator, list(train(translator.model, rows, **TRAINING | training))


class Quality(NamedTuple):
    """Of a translator, on gold pairs: the share translated word for word, and the alignment error rate."""

    exact_match: float
    error_rate: float


def quality(translator, pairs):
    """Translate, compare with the gold translations; write these, and compare the attention with their links.

    Parameters
    ----------
    translator : Translator
        The heads of its last cross-attention are averaged.
    pairs : sequence of Pair

    Returns
    -------
    Quality

    Raises
    ------
    ValueError
        If there are no pairs, or the vocabulary lacks a word.

    Examples
    --------
    >>> from attnlib.datasets import translator
    >>> quality(translator(), translation_pairs(100, unseen=True)).exact_match > 0.95
    True
    """
    given = translator([pair.zh for pair in pairs])
    found = [attention_alignment(weights.mean(0)) for weights in translator.cross_attention(pairs)]
    return Quality(
        float(np.mean([words == pair.en for words, pair in zip(given, pairs, strict=True)])),
        alignment_error_rate(found, [pair.sure for pair in pairs], [pair.possible for pair in pairs]),
    )

"""A Transformer with its words: it translates sentences, and shows where it looked."""

from typing import NamedTuple

import torch

from attnlib.analysis.maps import attention_maps
from attnlib.layers.decoding import greedy_decode
from attnlib.translation.vocabulary import END, START, encode_pairs, padded


class _Sides(NamedTuple):
    zh: tuple[str, ...]
    en: tuple[str, ...]


class Translator:
    """A model and both vocabularies.

    Parameters
    ----------
    model : Transformer
        Its padding has the id 0.
    zh_words, en_words : Vocabulary

    Examples
    --------
    >>> from attnlib.datasets import translator
    >>> model = translator()
    >>> model([("我", "爱", "你"), ("你", "爱", "我")])
    [('I', 'love', 'you'), ('you', 'love', 'me')]
    """

    def __init__(self, model, zh_words, en_words):
        self.model, self.zh_words, self.en_words = model, zh_words, en_words

    def __call__(self, sentences, max_len=24):
        """Translate Chinese sentences, each a sequence of words, word by word: the likeliest each time.

        Parameters
        ----------
        sentences : sequence of sequences of str
        max_len : int >= 1
            Words of a translation at most, both marks counted.

        Returns
        -------
        list of tuples of str

        Raises
        ------
        TypeError, ValueError
            If there is no sentence, or the vocabulary lacks a word.
        """
        src = torch.from_numpy(padded([self.zh_words.ids(sentence) for sentence in sentences]))
        tokens = greedy_decode(self.model, src, bos_id=START, eos_id=END, max_len=max_len)
        return [self.en_words.words(row) for row in tokens]

    def cross_attention(self, pairs, layer=-1):
        """Where the model looks as it writes each word of given translations.

        Parameters
        ----------
        pairs : sequence of (zh, en)
            Sequences of words; a `Pair` will do, of which the first two count.
        layer : int
            Of the decoder; the last when left out.

        Returns
        -------
        list of float32 arrays (H, L, S)
            One for each pair. Row ``j`` belongs to the step that predicts English word ``j``; the step that
            predicts the end is left out.

        Raises
        ------
        TypeError, ValueError
            If there is no pair, or a vocabulary lacks a word.
        """
        pairs = [_Sides(*pair[:2]) for pair in pairs]
        src, tgt = map(torch.from_numpy, encode_pairs(pairs, self.zh_words, self.en_words))
        number = range(len(self.model.decoder.layers))[layer]
        maps = attention_maps(self.model, src, tgt[:, :-1])[f"decoder.layers.{number}.cross_attn"]
        return [w[:, : len(p.en), : len(p.zh)].numpy() for w, p in zip(maps, pairs, strict=True)]

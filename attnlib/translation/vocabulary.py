"""Words and their ids, and a batch of pairs as a model takes it."""

import numpy as np

PAD, START, END = 0, 1, 2
MARKS = ("<pad>", "<start>", "<end>")


class Vocabulary:
    """The words of one language, in order; the first three are the marks of padding, start and end.

    Parameters
    ----------
    words : sequence of str
        Without the marks; no word twice.

    Raises
    ------
    ValueError
        If a word comes twice, or is a mark.

    Examples
    --------
    >>> words = Vocabulary.of([("我", "爱", "你")])
    >>> len(words), words.ids(("你", "爱", "我")).tolist()
    (6, [3, 5, 4])
    >>> words.words([1, 4, 5, 3, 2, 0])
    ('我', '爱', '你')
    """

    def __init__(self, words):
        self._words = (*MARKS, *words)
        self._ids = {word: i for i, word in enumerate(self._words)}
        if len(self._ids) < len(self._words):
            raise ValueError("words must be all different, and none of them a mark")

    @classmethod
    def of(cls, sentences):
        """The words of sentences, in the order of their characters."""
        return cls(sorted({word for sentence in sentences for word in sentence}))

    def __len__(self):
        return len(self._words)

    def __iter__(self):
        return iter(self._words)

    def ids(self, sentence):
        """The ids of a sentence's words, int64 ``(L,)``; one that is no word raises ``ValueError``."""
        unknown = [word for word in sentence if word not in self._ids]
        if unknown:
            raise ValueError(f"the vocabulary has no word {unknown[0]!r}; a sentence is a tuple of words")
        return np.array([self._ids[word] for word in sentence], dtype=np.int64)

    def words(self, ids):
        """The words of ids, without padding and start, up to the end mark."""
        ids = [int(i) for i in ids]
        if END in ids:
            ids = ids[: ids.index(END)]
        return tuple(self._words[i] for i in ids if i not in (PAD, START))


def padded(rows):
    """Rows of ids of different lengths as one array ``(B, L)``, padded at the right."""
    out = np.full((len(rows), max(map(len, rows))), PAD, dtype=np.int64)
    for target, row in zip(out, rows, strict=True):
        target[: len(row)] = row
    return out


def encode_pairs(pairs, zh_words, en_words):
    """Pairs as two arrays of ids, padded at the right.

    Parameters
    ----------
    pairs : sequence of Pair
    zh_words, en_words : Vocabulary

    Returns
    -------
    src : int64 array (B, S)
        The Chinese sentences, without marks.
    tgt : int64 array (B, L)
        The English ones between start and end: what `teacher_forcing` takes.

    Raises
    ------
    ValueError
        If a word is in no vocabulary.

    Examples
    --------
    >>> from attnlib.translation.corpus import translation_pairs
    >>> pairs = translation_pairs(2, seed=1)
    >>> zh, en = (Vocabulary.of(side) for side in ([p.zh for p in pairs], [p.en for p in pairs]))
    >>> [x.shape for x in encode_pairs(pairs, zh, en)]
    [(2, 5), (2, 9)]
    """
    src = padded([zh_words.ids(pair.zh) for pair in pairs])
    tgt = padded([np.concatenate([[START], en_words.ids(pair.en), [END]]) for pair in pairs])
    return src, tgt

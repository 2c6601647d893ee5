"""Text as tokens: bytes joined pair by pair, as GPT-2 does it and most models since."""

import re
import unicodedata

__all__ = ["BytePairs"]

# Over kinds of characters, not characters: see `_kind`. A digit stands alone, a word takes the one space
# before it, and of several spaces the last is left for that word.
_PIECES = re.compile(r"'(?:s|t|re|ve|m|ll|d)| ?[a-z]+|0| ?['.]+|[ \n]+(?=[ \n0]|$)|[ \n]+")


class BytePairs:
    """A byte-level tokenizer made of a vocabulary and its merges.

    The text is cut into pieces: words with the space before them, single digits, signs, spaces. Each
    piece becomes its UTF-8 bytes, and of all neighbours in it that stand in ``merges`` the first pair of
    the list is joined, again and again. Nothing is lost: `decode` gives back every text that has tokens.

    Parameters
    ----------
    vocabulary : list of str
        The token of each id, a byte written as one character: itself where it is printable Latin-1, else
        from U+0100 on, so that a space is Ġ.
    merges : list of str
        Pairs, a space between, the first learned before the others.
    special : collection of str
        Tokens that are read as one wherever they stand, as ``<|im_end|>``.

    References
    ----------
    Sennrich, Haddow and Birch 2016, arXiv 1508.07909; Radford et al. 2019 (GPT-2), section 2.2, for
    bytes. Single digits are SmolLM2's. Agrees with Hugging Face's ``tokenizers`` 0.22.1 on SmolLM2's
    vocabulary.

    Examples
    --------
    >>> pairs = BytePairs(["a", "b", "Ġ", "ab", "Ġab"], ["a b", "Ġ ab"])
    >>> pairs.encode("ab aab")
    [3, 2, 0, 3]
    >>> pairs.decode([3, 4])
    'ab ab'
    """

    def __init__(self, vocabulary, merges, special=()):
        self.words = list(vocabulary)
        self.id = {word: i for i, word in enumerate(self.words)}
        self.rank = {tuple(pair.split(" ")): i for i, pair in enumerate(merges)}
        self._special = re.compile("|".join(map(re.escape, special)) or r"(?!)")

    def encode(self, text):
        """The ids of a text.

        Raises
        ------
        ValueError
            If the vocabulary lacks one of its bytes.
        """
        ids, end = [], 0
        for found in self._special.finditer(text):
            ids += [*self._ids(text[end : found.start()]), self.id[found[0]]]
            end = found.end()
        return ids + self._ids(text[end:])

    def decode(self, ids):
        """The text of ids; � where their bytes are no UTF-8, as when a character is cut."""
        return bytes(_BYTE[c] for i in ids for c in self.words[i]).decode("utf-8", "replace")

    def _ids(self, text):
        pieces = (text[slice(*found.span())] for found in _PIECES.finditer("".join(map(_kind, text))))
        words = [word for piece in pieces for word in self._joined(piece)]
        lacking = [word for word in words if word not in self.id]
        if lacking:
            raise ValueError(f"the vocabulary has no token for the byte {_BYTE[lacking[0]]} of {text!r}")
        return [self.id[word] for word in words]

    def _joined(self, piece):
        parts = [_SIGN[byte] for byte in piece.encode("utf-8")]
        while len(parts) > 1:
            pairs = list(zip(parts, parts[1:], strict=False))
            best = min(pairs, key=lambda pair: self.rank.get(pair, len(self.rank)))
            if best not in self.rank:
                break
            joined, i = [], 0
            while i < len(parts):
                n = 2 if tuple(parts[i : i + 2]) == best else 1
                joined.append("".join(parts[i : i + n]))
                i += n
            parts = joined
        return parts


def _kind(c):
    """One character for all of a kind: a letter, 0 a digit, a newline a space, . what is left.

    The letters of contractions, the apostrophe and the space stay as they are.
    """
    if c in "strevmld' ":
        return c
    category = unicodedata.category(c)[0]
    if category in "LN":
        return "a" if category == "L" else "0"
    return "\n" if c.isspace() and c not in "\x1c\x1d\x1e\x1f" else "."


_printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
_others = sorted({*range(256)} - _printable)
_SIGN = {byte: chr(byte) for byte in _printable} | {byte: chr(256 + i) for i, byte in enumerate(_others)}
_BYTE = {sign: byte for byte, sign in _SIGN.items()}

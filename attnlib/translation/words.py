"""Words that know what they translate, and what becomes of two rows of them: a pair with links."""

from typing import NamedTuple


class Pair(NamedTuple):
    """A sentence in two languages. A link is (index in ``zh``, index in ``en``).

    ``sure``: the two words translate each other. ``possible`` holds these and more, such as an article that
    Chinese leaves out, linked to its noun (the two kinds of Och and Ney 2003, where every sure link is
    possible too).
    """

    zh: tuple[str, ...]
    en: tuple[str, ...]
    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


class Zh:
    """A Chinese word at one place of one sentence."""

    def __init__(self, text):
        self.text = text


class En:
    """An English word, and the Chinese words that it translates surely or possibly."""

    def __init__(self, text, sure=(), possible=()):
        self.text, self.sure, self.possible = text, tuple(sure), tuple(possible)


def make_pair(zh, en):
    """The pair of two lists of words, with *an* for *a* where it must be."""
    place = {word: i for i, word in enumerate(zh)}
    texts = [word.text for word in en]
    for j, following in enumerate(texts[1:]):
        if texts[j] == "a" and following[0] in "aeiou":
            texts[j] = "an"
    sure = {(place[word], j) for j, other in enumerate(en) for word in other.sure}
    possible = {(place[word], j) for j, other in enumerate(en) for word in other.possible}
    return Pair(tuple(word.text for word in zh), tuple(texts), frozenset(sure), frozenset(sure | possible))

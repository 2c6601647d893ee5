"""The course's small data: the running example, the grammar's sentences, and what lies in ``data/``."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from attnlib.core.arrays import valid_length
from attnlib.translation.corpus import translation_pairs as translation_pairs

# Beside this file in an installed package, one folder up in a checkout.
_HERE = Path(__file__).resolve().parent
_DATA = next((p for p in (_HERE / "data", _HERE.parent / "data") if p.is_dir()), _HERE / "data")


class Sentence(NamedTuple):
    """Words in two languages, one vector a word."""

    zh: tuple[str, ...]
    en: tuple[str, ...]
    axes: tuple[str, ...]
    vectors: np.ndarray


class Shop(NamedTuple):
    """Products: what each title names, and what each costs in yuan."""

    zh: tuple[str, ...]
    en: tuple[str, ...]
    features: tuple[str, ...]
    keys: np.ndarray
    prices: np.ndarray


class Library(NamedTuple):
    """Books: the subjects on each catalogue card, and the share of pages on each topic."""

    zh: tuple[str, ...]
    en: tuple[str, ...]
    subjects: tuple[str, ...]
    keys: np.ndarray
    topics: tuple[str, ...]
    contents: np.ndarray


class WordCounts(NamedTuple):
    """Words of a text, the most frequent first, and how often each stands there."""

    words: tuple[str, ...]
    counts: np.ndarray


class Sessions(NamedTuple):
    """What customers bought, in order: a row for each, filled up with 0, which is no item."""

    zh: tuple[str, ...]
    en: tuple[str, ...]
    items: np.ndarray
    decided: np.ndarray


class FirstMap(NamedTuple):
    """Where a translator looked: a row for each English word, a column for each Chinese one."""

    zh: tuple[str, ...]
    en: tuple[str, ...]
    weights: np.ndarray


class Digits(NamedTuple):
    """Small pictures of handwritten digits, and which digit each is."""

    images: np.ndarray
    labels: np.ndarray


class Photographs(NamedTuple):
    """Colour photographs, all of one size."""

    names: tuple[str, ...]
    images: np.ndarray


def running_example():
    """The sentence that returns in most lessons: eight tokens, in both languages the same cuts.

    Returns
    -------
    Sentence
        ``zh`` and ``en``, eight tokens each; ``axes``, eight kinds of word; ``vectors``
        (8, 8) float64, one-hot: each token is of one kind.

    Examples
    --------
    >>> example = running_example()
    >>> example.zh[3], example.en[3], example.axes[example.vectors[3].argmax()]
    ('苹果', 'apple', 'thing')
    """
    axes = ("person", "action", "thing", "number", "quality", "pointer", "degree", "mark")
    zh = ("我", "吃了", "一个", "苹果", "，", "它", "很", "甜")
    en = ("I", "ate", "an", "apple", ",", "it", "was", "sweet")
    kinds = ("person", "action", "number", "thing", "mark", "pointer", "degree", "quality")
    return Sentence(zh, en, axes, _one_hot([[kind] for kind in kinds], axes))


def shop_titles():
    """Six products of a sports shop, written by hand (card: ``data/shop_titles.md``).

    Returns
    -------
    Shop
        ``zh``, ``en`` titles; ``features``, seven words that a title may name; ``keys`` (6, 7), 1
        where the title names the feature; ``prices`` (6,) in yuan.

    Examples
    --------
    >>> shop = shop_titles()
    >>> shop.zh[0], int(shop.prices[0])
    ('李宁跑步鞋', 399)
    """
    data = _read("shop_titles.json")
    items = data["items"]
    return Shop(
        tuple(item["zh"] for item in items),
        tuple(item["en"] for item in items),
        tuple(data["features"]),
        _one_hot([item["has"] for item in items], data["features"]),
        np.array([float(item["price"]) for item in items]),
    )


def library_books():
    """Six books of a small library, written by hand (card: ``data/library_books.md``).

    Returns
    -------
    Library
        ``zh``, ``en`` titles; ``subjects``, six words that a catalogue card may hold; ``keys``
        (6, 6), 1 where the card holds the subject; ``topics``, five; ``contents`` (6, 5), shares of
        pages that sum to 1 for each book.

    Examples
    --------
    >>> library = library_books()
    >>> library.zh[2], library.contents[2]
    ('《大众文艺》', array([0.1, 0.2, 0.5, 0.2, 0. ]))
    """
    data = _read("library_books.json")
    books = data["books"]
    return Library(
        tuple(book["zh"] for book in books),
        tuple(book["en"] for book in books),
        tuple(data["subjects"]),
        _one_hot([book["card"] for book in books], data["subjects"]),
        tuple(data["topics"]),
        np.array([book["content"] for book in books]),
    )


def shop_sessions():
    """What 72 customers bought one after the other, written by hand (card: ``data/shop_sessions.md``).

    Returns
    -------
    Sessions
        ``zh``, ``en``: names of the ids, the first of which, ``<pad>``, is no item; ``items`` (72, 8)
        int64, from 4 to 8 ids a row, then zeros; ``decided`` (72, 8) bool: earlier items call for this one.

    Examples
    --------
    >>> shop = shop_sessions()
    >>> [shop.en[i] for i in shop.items[0] if i], shop.decided[0, :4]
    (['badminton racket', 'shuttlecocks', 'water bottle', 'grip tape'], array([False,  True, False,  True]))
    """
    data = _read("shop_sessions.json")
    return _sessions(data, data["sessions"])


def generated_sessions(n, seed=0):
    """Sessions drawn by the rules of `shop_sessions`, to train on: none is among those written by hand.

    Two draws in three have two themes, the others one. A present stands before three of ten things that
    were called for, and before one of ten themes. Draws shorter than 4 or longer than 8 are thrown away.

    Parameters
    ----------
    n : int >= 1
    seed : int

    Returns
    -------
    Sessions
        As of `shop_sessions`, with ``n`` rows.

    Raises
    ------
    TypeError, ValueError
        If ``n`` is no positive integer.

    Examples
    --------
    >>> shop = generated_sessions(1000)
    >>> shop.items.shape, bool((shop.items[:, :4] > 0).all())
    ((1000, 8), True)
    """
    data, rng = _read("shop_sessions.json"), np.random.default_rng(seed)
    n, drawn, by_hand = valid_length(n, "n"), [], data["sessions"]
    while len(drawn) < n:
        session = _drawn_session(rng, data)
        if 4 <= len(session) <= 8 and session not in by_hand:
            drawn.append(session)
    return _sessions(data, drawn)


def word_counts():
    """The words of the standard library's docstrings (card: ``data/word_counts.md``).

    Returns
    -------
    WordCounts
        ``words``, 8,826 of them; ``counts`` (8826,) int64, falling.

    Examples
    --------
    >>> words, counts = word_counts()
    >>> words[0], int(counts[0]), int(counts.sum())
    ('the', 15474, 226214)
    """
    lines = (_DATA / "word_counts.csv").read_text(encoding="utf-8").splitlines()
    words, counts = zip(*(line.split(",") for line in lines), strict=True)
    return WordCounts(words, np.array(counts, dtype=np.int64))


def translator():
    """The course's trained translator, Chinese to English (card: ``data/translator.md``). Needs torch.

    Returns
    -------
    attnlib.translation.translator.Translator
        In evaluation mode. It has seen neither the running example nor anything else that
        `translation_pairs` gives as ``unseen``.

    Examples
    --------
    >>> model = translator()
    >>> model([("我", "爱", "你")])
    [('I', 'love', 'you')]
    """
    from attnlib.translation.checkpoint import load_translator

    return load_translator(_DATA / "translator.npz")


def first_map():
    """Where `translator` looks as it writes the running example, for who has no torch.

    Returns
    -------
    FirstMap
        ``weights`` (8, 8) float64, three digits each: row ``j`` belongs to the step that writes ``en[j]``.

    Examples
    --------
    >>> zh, en, weights = first_map()
    >>> zh[weights[en.index("apple")].argmax()]
    '苹果'
    """
    data = _read("first_map.json")
    return FirstMap(tuple(data["zh"]), tuple(data["en"]), np.array(data["weights"]))


def _drawn_session(rng, data):
    def present(chance):
        return data["gifts"][rng.integers(len(data["gifts"]))] if rng.random() < chance else []

    session = []
    for theme in rng.permutation(len(data["themes"]))[: 1 if rng.random() < 1 / 3 else 2]:
        first, second, third = data["themes"][theme]
        session += [*present(0.1), first, *present(0.3), second]
        if rng.random() < 0.5:
            session += [data["asides"][rng.integers(len(data["asides"]))], *present(0.3), third]
    return session


def _sessions(data, sessions):
    names = ["<pad>", *(item["en"] for item in data["items"])]
    items = np.zeros((len(sessions), 8), dtype=np.int64)
    decided = np.zeros(items.shape, dtype=bool)
    for row, session in enumerate(sessions):
        items[row, : len(session)] = [names.index(name) for name in session]
        decided[row, : len(session)] = list(_decided(data, session))
    return Sessions(("<pad>", *(item["zh"] for item in data["items"])), tuple(names), items, decided)


def _decided(data, session):
    """Which items are called for by earlier ones, the last call first."""
    themes, gifts = ({first: rest for first, *rest in data[kind]} for kind in ("themes", "gifts"))
    called, theme = [], None
    for item in session:
        yield called[-1:] == [item]
        if called[-1:] == [item]:
            called.pop()
        elif item in themes:
            theme = item
            called.append(themes[item][0])
        elif item in gifts:
            called += reversed(gifts[item])
        else:  # an aside
            called.append(themes[theme][1])


def digits():
    """Handwritten digits of 8x8 pixels, of the UCI repository (card: ``data/digits.md``).

    Returns
    -------
    Digits
        ``images`` (1797, 8, 8) uint8, from 0, paper, to 16, ink; ``labels`` (1797,) int64, 0 to 9.

    Examples
    --------
    >>> images, labels = digits()
    >>> images[0, 0].tolist(), int(labels[0])
    ([0, 0, 5, 13, 9, 1, 0, 0], 0)
    """
    with np.load(_DATA / "digits.npz") as data:
        return Digits(data["images"], data["labels"].astype(np.int64))


def photographs():
    """Two photographs, by danielbuechele and vultilion, CC BY 2.0 (card: ``data/photographs.md``).

    Returns
    -------
    Photographs
        ``names``, china and flower; ``images`` (2, 128, 192, 3) uint8: rows, columns, and red, green and
        blue from 0 to 255.

    Examples
    --------
    >>> photographs().names
    ('china', 'flower')
    """
    with np.load(_DATA / "photographs.npz") as data:
        return Photographs(tuple(map(str, data["names"])), data["images"])


def _read(name):
    return json.loads((_DATA / name).read_text(encoding="utf-8"))


def _one_hot(words, axes):
    """One row for each list of words, 1 at each word's place."""
    return np.array([[float(axis in row) for axis in axes] for row in words])

import itertools

import pytest

from attnlib.datasets import translation_pairs, translator
from attnlib.translation.cutting import cut
from attnlib.translation.vocabulary import MARKS


def all_cuts(text, words):
    """Every way to write a text as words, by trying all places."""
    for count in range(len(text)):
        for places in itertools.combinations(range(1, len(text)), count):
            pieces = tuple(text[a:b] for a, b in itertools.pairwise((0, *places, len(text))))
            if set(pieces) <= set(words):
                yield pieces


def test_the_fewest_words_and_the_longest_first_against_all_cuts():
    words = ["a", "b", "ab", "ba", "aab", "abb", "bab"]
    for text in map("".join, itertools.product("ab", repeat=7)):
        best = min(all_cuts(text, words), key=lambda pieces: (len(pieces), [-len(piece) for piece in pieces]))
        assert cut(text, words) == best, text


def test_the_greedy_cut_is_not_always_the_one():
    assert cut("abcd", ["abc", "ab", "cd", "d", "a", "bcd"]) == ("abc", "d")
    assert cut("abcde", ["abc", "ab", "cde", "d", "e"]) == ("ab", "cde")


def test_the_grammars_sentences_come_back():
    words = [*translator().zh_words][len(MARKS) :]
    unlike = []
    for pair in translation_pairs(2000, seed=5):
        assert cut(" ".join(pair.zh), words) == pair.zh
        if cut("".join(pair.zh), words) != pair.zh:
            unlike.append(pair)
    # The teacher who saw me, or who saw my ...: such sentences can be read in two ways.
    assert 0 < len(unlike) < 10 and all("who" in pair.en and pair.zh[2] == "的" for pair in unlike)


def test_spaces_are_cuts_and_narrow_marks_are_wide():
    words = ["我", "我的", "的", "狗", "，", "？"]
    assert cut("我的狗", words) == ("我的", "狗")
    assert cut(" 我 的\u3000狗\n", words) == ("我", "的", "狗")
    assert cut("我,狗?", words) == ("我", "，", "狗", "？")
    assert cut("我的狗。 .", words) == ("我的", "狗")


def test_what_is_no_word_is_named_with_the_words_near_it():
    words = ["我", "喜欢", "吃", "吃了", "买了", "写了", "读了", "苹果"]
    with pytest.raises(ValueError, match="^No word is known for 企鹅, and no word shares a character with"):
        cut("我喜欢企鹅", words)
    with pytest.raises(ValueError, match="^No word is known for 了; near it: 买了, 写了, 吃了 and 1 more$"):
        cut("喜欢了", words)
    with pytest.raises(ValueError, match="^No word is known for I, eat, two and 1 more; near it: 苹果$"):
        cut("I eat two 苹", words)
    with pytest.raises(ValueError, match="^No word is known for x{20}…, and no word"):
        cut("x" * 10_000, words)
    with pytest.raises(ValueError, match="^No word is known for <start>,"):
        cut("<start>我", words)


def test_what_is_no_sentence():
    for empty in ("", " \n", "。", ". 。"):
        with pytest.raises(ValueError, match="^The sentence is empty; it must hold a word at least$"):
            cut(empty, ["我"])
    with pytest.raises(TypeError, match="^text must be a string; got tuple$"):
        cut(("我",), ["我"])
    with pytest.raises(ValueError, match="^No word is known for 我"):
        cut("我", [])

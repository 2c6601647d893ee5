"""Text to tokens and back: pieces, the order of merges, bytes of any language, special tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlib.analysis.byte_pairs import _SIGN, BytePairs

BYTES = [_SIGN[b] for b in range(256)]


def pieces(text):
    """The pieces into which a text is cut, before any bytes are joined."""
    tokens, found = BytePairs(BYTES, []), []
    tokens._joined = lambda piece: found.append(piece) or []
    tokens.encode(text)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I ate an apple, it", ["I", " ate", " an", " apple", ",", " it"]),
        ("it's we'll I'd 's", ["it", "'s", " we", "'ll", " I", "'d", " '", "s"]),
        ("in 2017  two", ["in", " ", "2", "0", "1", "7", " ", " two"]),
        ("a\n\n  b \t", ["a", "\n\n ", " b", " \t"]),
        ("3 apples...", ["3", " apples", "..."]),
        ("吃了 一个²", ["吃了", " 一个", "²"]),
        ("a_b O'Neil", ["a", "_", "b", " O", "'", "Neil"]),
        ("", []),
    ],
)
def test_a_text_is_cut_into_words_with_their_space_single_digits_signs_and_spaces(text, expected):
    assert pieces(text) == expected


def test_the_pair_learned_first_is_joined_first_and_wherever_it_stands():
    merges = ["b c", "a b", "a bc", "abc abc"]
    tokens = BytePairs([*BYTES, "bc", "ab", "abc", "abcabc"], merges)
    assert [tokens.words[i] for i in tokens.encode("abcabcab")] == ["abcabc", "ab"]
    assert [tokens.words[i] for i in BytePairs(tokens.words, merges[1:]).encode("abc")] == ["ab", "c"]


@given(st.text(max_size=40))
def test_nothing_is_lost(text):
    tokens = BytePairs([*BYTES, "Ġa", "th", "the"], ["Ġ a", "t h", "th e"])
    assert tokens.decode(tokens.encode(text)) == text


def test_a_special_token_is_one_wherever_it_stands():
    tokens = BytePairs([*BYTES, "<|im_end|>"], [], ["<|im_end|>"])
    assert tokens.encode("a<|im_end|>b") == [97, 256, 98]
    assert len(BytePairs(BYTES, []).encode("<|im_end|>")) == 10
    assert tokens.decode(tokens.encode("a <|im_end|> b")) == "a <|im_end|> b"


def test_a_cut_character_and_a_byte_without_a_token_are_told():
    tokens = BytePairs(BYTES, [])
    assert tokens.decode(tokens.encode("我")[:2]) == "�"
    with pytest.raises(ValueError, match="no token for the byte 98 of 'ab'"):
        BytePairs(["a"], []).encode("ab")

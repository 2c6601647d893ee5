import numpy as np
import pytest

from attnlib import teacher_forcing
from attnlib.datasets import translation_pairs
from attnlib.translation.vocabulary import END, PAD, START, Vocabulary, encode_pairs


def test_ids_and_words_are_inverse_for_every_sentence():
    pairs = translation_pairs(200, seed=1)
    words = Vocabulary.of(pair.en for pair in pairs)
    for pair in pairs:
        ids = words.ids(pair.en)
        assert ids.min() > END and words.words([START, *ids, END, PAD]) == pair.en
    assert list(Vocabulary(list(words)[3:])) == list(words)


def test_what_comes_after_the_end_is_no_word():
    words = Vocabulary("ab")
    assert words.words([START, 3, END, 4, PAD]) == ("a",)


def test_a_batch_is_padded_at_the_right_and_ready_for_teacher_forcing():
    pairs = translation_pairs(50, seed=1)
    zh, en = Vocabulary.of(p.zh for p in pairs), Vocabulary.of(p.en for p in pairs)
    src, tgt = encode_pairs(pairs, zh, en)
    inputs, targets = teacher_forcing(tgt, pad_id=PAD)
    for pair, s, t, i, o in zip(pairs, src, tgt, inputs, targets, strict=True):
        assert zh.words(s) == pair.zh and (s != PAD).sum() == len(pair.zh)
        assert t[0] == START and en.words(t) == pair.en and t[len(pair.en) + 1] == END
        assert en.words(o) == pair.en and i[0] == START and o[len(pair.en)] == END
    np.testing.assert_array_equal((src == PAD)[:, :-1] <= (src == PAD)[:, 1:], True)


def test_errors_are_sentences():
    with pytest.raises(ValueError, match="no word '我爱你'; a sentence is a tuple of words"):
        Vocabulary("我爱你").ids(("我爱你",))
    with pytest.raises(ValueError, match="words must be all different"):
        Vocabulary("aa")

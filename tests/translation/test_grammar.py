"""The grammar's sentences: grammatical, linked throughout, half of them crossing, and split for good."""

from collections import defaultdict

import numpy as np
import pytest

from attnlib.datasets import running_example, translation_pairs
from attnlib.translation.corpus import kept_for_tests
from attnlib.translation.grammar import commented, feeling
from attnlib.translation.lexicon import ACTIONS, STATES, Noun
from attnlib.translation.words import En, Zh, make_pair


@pytest.fixture(scope="module")
def pairs():
    return translation_pairs(8000, seed=3)


def crosses(pair):
    return any((i - k) * (j - m) < 0 for i, j in pair.sure for k, m in pair.sure)


def test_a_seed_gives_the_same_pairs_and_another_seed_others():
    assert translation_pairs(20, 4) == translation_pairs(20, 4) != translation_pairs(20, 5)
    rng = np.random.default_rng(4)
    assert translation_pairs(8, rng) + translation_pairs(12, rng) == translation_pairs(20, 4)


def test_every_word_is_linked_and_sure_links_are_possible(pairs):
    for pair in pairs:
        assert pair.sure <= pair.possible
        assert {i for i, _ in pair.possible} == set(range(len(pair.zh)))
        assert {j for _, j in pair.possible} == set(range(len(pair.en)))


def test_what_has_no_sure_link_is_a_word_that_the_other_language_leaves_out(pairs):
    alone = {p.en[j] for p in pairs for j in set(range(len(p.en))) - {j for _, j in p.sure}}
    assert alone == {"the", "of", "to", "do", "does", "did", "is", "are", "am", "for", "with"}
    alone = {p.zh[i] for p in pairs for i in set(range(len(p.zh))) - {i for i, _ in p.sure}}
    assert alone == {"吗", "在"}


@pytest.mark.parametrize("seed", range(4))
def test_about_half_of_the_pairs_cross(seed):
    assert 0.45 < np.mean([crosses(pair) for pair in translation_pairs(1000, seed)]) < 0.65


def test_a_chinese_sentence_has_one_translation(pairs):
    found = defaultdict(set)
    for pair in pairs:
        found[pair.zh].add((pair.en, pair.sure, pair.possible))
    assert all(len(translations) == 1 for translations in found.values())


def test_the_sizes_are_those_of_the_card(pairs):
    assert len({word for pair in pairs for word in pair.zh}) == 129
    assert len({word for pair in pairs for word in pair.en}) == 164
    assert max(len(pair.zh) for pair in pairs) <= 12 and max(len(pair.en) for pair in pairs) <= 16
    assert len({pair.zh for pair in translation_pairs(20_000, seed=0)}) == 15_845


def test_training_and_test_have_no_sentence_in_common(pairs):
    unseen = translation_pairs(1000, seed=3, unseen=True)
    assert not {pair.zh for pair in pairs} & {pair.zh for pair in unseen}
    assert all(kept_for_tests(pair.zh) for pair in unseen)


def test_the_courses_own_sentences_are_in_the_grammar_and_kept_for_tests():
    rng, example = np.random.default_rng(0), running_example()
    found = {pair.zh: pair for kind in (commented, feeling) for pair in (kind(rng) for _ in range(9000))}
    ours = found[example.zh]
    assert ours.en == example.en and ours.sure == {(i, i) for i in range(8)} == ours.possible
    assert found["我", "爱", "你"].en == ("I", "love", "you")
    assert found["你", "爱", "我"].en == ("you", "love", "me")
    assert all(map(kept_for_tests, (example.zh, ("我", "爱", "你"), ("你", "爱", "我"))))


def test_three_transformers_each_with_its_verb(pairs):
    verbs = {"变压器": "修理", "模型": "训练", "变形金刚": "玩"}
    for noun, verb in verbs.items():
        clauses = [pair for pair in pairs if noun in pair.zh]
        assert all({"transformer", "transformers"} & set(pair.en) for pair in clauses)
        assert any({verb, verb + "了"} & set(pair.zh) for pair in clauses)
        assert not any(v in "".join(pair.zh) for pair in clauses for v in verbs.values() if v != verb)


def test_a_and_an(pairs):
    for pair in pairs:
        for article, following in zip(pair.en, pair.en[1:], strict=False):
            if article in ("a", "an"):
                assert (article == "an") == (following[0] in "aeiou"), pair.en
    words = {pair.en[j : j + 3] for pair in pairs for j in range(len(pair.en))}
    assert ("a", "red", "apple") in words and ("an", "old", "computer") in words


def test_an_english_verb_agrees_with_its_subject(pairs):
    verbs = ACTIONS + STATES
    bases = {"am", "are", "were", "do", "want", *(verb.base for verb in verbs if verb.base != verb.past)}
    thirds = {"is", "was", "does", "wants", *(verb.third for verb in verbs)}
    for pair in pairs:
        for i, subject in enumerate(pair.en[:-1]):
            verb = pair.en[i + 1]
            if i == 0 or pair.en[i - 1] in (",", "but"):  # of a clause, not an object
                if subject in {"he", "she", "it"}:
                    assert verb not in bases, pair.en
                if subject in {"I", "you", "we", "they"}:
                    assert verb not in thirds - {"was"} and (verb == "am") <= (subject == "I"), pair.en
                    assert (verb in ("are", "were")) <= (subject != "I"), pair.en
                    assert (verb == "was") <= (subject == "I"), pair.en
    starts = {pair.en[:2] for pair in pairs}
    assert {("I", "am"), ("he", "is"), ("they", "are"), ("they", "were"), ("I", "was"), ("she", "likes"),
            ("we", "like"), ("does", "he"), ("do", "they")} <= starts  # fmt: skip


def test_a_second_clause_speaks_of_it_or_them(pairs):
    for pair in pairs:
        if "，" in pair.zh:
            first = pair.zh[: pair.zh.index("，")]
            two = any(word.startswith("两") for word in first)
            assert ("它们" in pair.zh) == two == ("were" in pair.en)


def test_measure_words_fit_their_nouns(pairs):
    from attnlib.translation import lexicon

    everything = [value for value in vars(lexicon).values() if isinstance(value, Noun | tuple)]
    nouns = {n for value in everything for n in ([value] if isinstance(value, Noun) else value)
             if isinstance(n, Noun)}  # fmt: skip
    measure = {noun.zh: noun.measure for noun in nouns}
    for pair in pairs:
        for i, word in enumerate(pair.zh):
            if word[0] in "一两这" and len(word) == 2:
                noun = next(w for w in pair.zh[i + 1 :] if w in measure)
                assert measure[noun] == word[1], pair.zh


def test_where_stands_before_the_verb_and_when_beside_who_acts(pairs):
    verbs = {verb.zh for verb in ACTIONS} | {verb.zh + "了" for verb in ACTIONS}
    for pair in pairs:
        for i, word in enumerate(pair.zh):
            if word in ("公园", "图书馆", "商店", "办公室"):
                assert pair.zh[i - 1] == "在" and pair.zh[i + 1] in verbs
            if word in ("昨天", "明天", "现在", "每天"):
                assert i <= 2


def test_a_link_follows_its_words_into_their_places():
    i, apple = Zh("吃"), Zh("苹果")
    pair = make_pair([i, apple], [En("a", possible=[apple]), En("apple", [apple]), En("eaten", [i])])
    assert pair.en == ("an", "apple", "eaten")
    assert pair.sure == {(1, 1), (0, 2)} and pair.possible == pair.sure | {(1, 0)}


def test_errors_are_sentences():
    with pytest.raises(ValueError, match="n must be at least 1"):
        translation_pairs(0)
    with pytest.raises(TypeError, match="unseen must be True or False; got 1"):
        translation_pairs(3, unseen=1)

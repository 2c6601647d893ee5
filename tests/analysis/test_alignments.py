import numpy as np
import pytest
import torch

from attnlib import IBMModel1, alignment_error_rate, attention_alignment, diagonal_alignment
from attnlib.datasets import translation_pairs


def test_error_rate_is_zero_between_sure_and_possible():
    sure, possible = {(0, 0), (1, 2)}, {(0, 0), (1, 2), (2, 1), (2, 2)}
    assert alignment_error_rate(sure, sure, possible) == 0
    assert alignment_error_rate(possible, sure, possible) == 0
    assert alignment_error_rate(sure | {(2, 1)}, sure, possible) == 0
    assert alignment_error_rate({(5, 5)}, sure, possible) == 1
    assert alignment_error_rate(set(), set(), possible) == 0
    assert alignment_error_rate(set(), sure, possible) == 1


def test_error_rate_by_hand():
    # Four found, two of them sure, one more possible; three are sure: 1 - (2 + 3) / (4 + 3).
    found, sure = {(0, 0), (1, 1), (2, 2), (3, 3)}, {(0, 0), (1, 1), (4, 4)}
    wanted = pytest.approx(2 / 7)
    assert alignment_error_rate(found, sure, sure | {(2, 2)}) == wanted
    assert alignment_error_rate(found, sure, {(2, 2)}) == wanted  # sure is possible, said or not


def test_with_all_links_sure_it_is_one_minus_the_f_measure():
    rng = np.random.default_rng(3)
    for _ in range(20):
        a, s = ({tuple(map(int, link)) for link in rng.integers(0, 4, (6, 2))} for _ in range(2))
        precision, recall = len(a & s) / len(a), len(a & s) / len(s)
        f = 2 * precision * recall / (precision + recall) if a & s else 0
        assert alignment_error_rate(a, s, s) == pytest.approx(1 - f)


def test_over_many_sentences_the_counts_are_added():
    a, b = {(0, 0)}, {(0, 0), (1, 1), (2, 2)}
    assert alignment_error_rate([a, b], [{(1, 1)}, b], [{(1, 1)}, b]) == pytest.approx(1 - 6 / 8)
    assert alignment_error_rate([a], [a], [a]) == 0


def test_the_diagonal_is_the_identity_between_equal_lengths_and_never_leaves_the_sentence():
    assert diagonal_alignment(5, 5) == {(i, i) for i in range(5)}
    assert diagonal_alignment(3, 2) == {(0, 0), (2, 1)}  # the middle of a word counts, not where it begins
    for n, m in ((3, 8), (8, 3), (1, 4), (4, 1)):
        links = diagonal_alignment(n, m)
        assert {j for _, j in links} == set(range(m)) and len(links) == m
        places = [i for i, _ in sorted(links, key=lambda link: link[1])]
        assert places == sorted(places) and 0 <= places[0] and places[-1] < n


def test_attention_is_read_by_rows_in_either_library():
    weights = np.array([[0.2, 0.1, 0.7], [0.5, 0.5, 0.0]])
    assert attention_alignment(weights) == {(2, 0), (0, 1)}
    assert attention_alignment(torch.tensor(weights, requires_grad=True)) == {(2, 0), (0, 1)}


def plain_model_1(pairs, rounds):
    """The algorithm as it is told, with dictionaries."""
    targets = {word for _, target in pairs for word in target}
    t = {}
    for _ in range(rounds):
        count, total = {}, {}
        for source, target in pairs:
            for f in target:
                z = sum(t.get((e, f), 1 / len(targets)) for e in [None, *source])
                for e in [None, *source]:
                    c = t.get((e, f), 1 / len(targets)) / z
                    count[e, f] = count.get((e, f), 0) + c
                    total[e] = total.get(e, 0) + c
        t = {(e, f): c / total[e] for (e, f), c in count.items()}
    return t


@pytest.mark.parametrize("rounds", [1, 2, 7])
def test_model_1_agrees_with_the_plain_algorithm(rounds):
    pairs = [(pair.zh, pair.en) for pair in translation_pairs(40, seed=2)]
    model, wanted = IBMModel1(pairs, rounds), plain_model_1(pairs, rounds)
    for (e, f), value in wanted.items():
        assert model.probability(e, f) == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(model.table.sum(1), 1)


def test_each_round_makes_the_sentences_likelier():
    pairs = [(pair.zh, pair.en) for pair in translation_pairs(60, seed=4)]

    def log_likelihood(model):
        return sum(
            np.log(sum(model.probability(e, f) for e in (None, *zh)) / (len(zh) + 1))
            for zh, en in pairs
            for f in en
        )

    values = [log_likelihood(IBMModel1(pairs, rounds)) for rounds in range(1, 9)]
    assert all(a < b for a, b in zip(values, values[1:], strict=False))


def test_on_the_grammar_counting_is_far_better_than_the_diagonal():
    pairs = translation_pairs(1500, seed=1)
    model, test = IBMModel1(pairs), translation_pairs(200, seed=2, unseen=True)
    sure, possible = [p.sure for p in test], [p.possible for p in test]
    counted = alignment_error_rate([model.align(p.zh, p.en) for p in test], sure, possible)
    diagonal = alignment_error_rate([diagonal_alignment(len(p.zh), len(p.en)) for p in test], sure, possible)
    assert counted < 0.2 < 0.3 < diagonal


def test_null_takes_what_nothing_explains():
    pairs = [("a", "xu"), ("b", "yu"), ("c", "zu")]
    assert IBMModel1(pairs, 30).align("a", "xu") == {(0, 0)}
    assert IBMModel1(pairs, 30, null=False).align("a", "xu") == {(0, 0), (0, 1)}


def test_words_never_met_have_no_chance_and_no_link():
    model = IBMModel1([("ab", "xy")])
    assert model.probability("?", "x") == model.probability("a", "?") == 0
    assert model.align("a?", "?") == set()


@pytest.mark.parametrize("call, error, sentence", [
    (lambda: alignment_error_rate([(0, 0)], {(0, 0)}, {(0, 0)}), TypeError, "found must be a set of links"),
    (lambda: alignment_error_rate({(0, 0)}, {0}, {(0, 0)}), TypeError, "a link of sure must be two whole"),
    (lambda: alignment_error_rate({(0, -1)}, set(), set()), ValueError, r"from 0 up; got \(0, -1\)"),
    (lambda: alignment_error_rate([set()], set(), [set()] * 2), ValueError, "1 of sure, 2 of possible"),
    (lambda: diagonal_alignment(0, 3), ValueError, "n_source must be at least 1; got 0"),
    (lambda: attention_alignment([[1.0]]), TypeError, "real numbers; got list"),
    (lambda: attention_alignment(np.ones((2, 3, 4))), ValueError, r"shape \(L, S\), one head"),
    (lambda: attention_alignment(np.array([[np.nan, 1]])), ValueError, "NaN"),
    (lambda: IBMModel1([]), ValueError, "one pair or more"),
    (lambda: IBMModel1([("a", "")]), ValueError, "no empty sentence"),
])  # fmt: skip
def test_errors_are_sentences(call, error, sentence):
    with pytest.raises(error, match=sentence):
        call()

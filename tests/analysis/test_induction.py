import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import (
    duplicate_token_pattern,
    induction_pattern,
    pattern_score,
    previous_token_pattern,
    repeated_tokens,
)

tokens_ = st.lists(st.integers(0, 3), min_size=1, max_size=8)


@given(tokens_)
def test_patterns_are_what_a_loop_finds(tokens):
    n = len(tokens)
    before, same, after = (np.zeros((n, n), bool) for _ in range(3))
    for i in range(n):
        for j in range(i):
            before[i, j] = j == i - 1
            same[i, j] = tokens[j] == tokens[i]
            after[i, j + 1] = same[i, j]
    for pattern, wanted in (
        (previous_token_pattern, before), (duplicate_token_pattern, same), (induction_pattern, after)
    ):  # fmt: skip
        np.testing.assert_array_equal(pattern(np.array(tokens)), wanted)
        got = pattern(torch.tensor([tokens, tokens]))
        assert got.dtype == torch.bool and got.shape == (2, n, n)
        np.testing.assert_array_equal(got, np.stack([wanted, wanted]))


def test_a_token_twice_in_a_row_is_its_own_successor():
    assert induction_pattern(np.array([7, 7])).tolist() == [[False, False], [False, True]]


@pytest.mark.parametrize("made", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_scores_of_perfect_and_of_even_heads(made):
    tokens = repeated_tokens(3, 10, 20, 5)
    assert (tokens[:, :5] == tokens[:, 5:]).all()
    perfect = np.zeros((3, 1, 10, 10))
    perfect[..., np.arange(5, 10), np.arange(1, 6)] = 1  # 5 back, and one to the right
    perfect[..., np.arange(5), 0] = 1
    even = np.broadcast_to(np.tril(np.ones((10, 10))) / np.arange(1, 11)[:, None], (3, 1, 10, 10))
    weights = made(np.concatenate([perfect, even], 1))
    pattern = induction_pattern(made(tokens))[:, None]
    score = pattern_score(weights, pattern)
    assert tuple(score.shape) == (3, 2)
    chance = np.mean(1 / np.arange(6, 11))
    np.testing.assert_allclose(score, [[1, chance]] * 3)
    np.testing.assert_allclose(pattern_score(weights, pattern, all_rows=True), [[0.5, chance / 2]] * 3)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_all_rows_is_the_quotient_of_transformer_lens(seed, all_rows):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, 4, (2, 7))
    weights = rng.dirichlet(np.ones(7), (2, 3, 7))
    for pattern in (previous_token_pattern, duplicate_token_pattern, induction_pattern):
        p = pattern(tokens)
        got = pattern_score(weights, p[:, None], all_rows=all_rows)
        rows = np.ones((2, 7), bool) if all_rows else p.any(-1)
        for b, h in np.ndindex(2, 3):
            kept = weights[b, h][rows[b]]
            wanted = (kept * p[b][rows[b]]).sum() / kept.sum() if rows[b].any() else 0
            assert got[b, h] == pytest.approx(wanted)


def test_a_pattern_without_an_entry_scores_zero_and_half_comes_back_as_it_came():
    weights = np.full((3, 3), 1 / 3, np.float16)
    score = pattern_score(weights, duplicate_token_pattern(np.arange(3)))
    assert score == 0 and score.dtype == np.float16
    w = torch.rand(4, 4, dtype=torch.float64, requires_grad=True)
    pattern = induction_pattern(torch.tensor([1, 2, 1, 2]))
    assert torch.autograd.gradcheck(lambda w: pattern_score(w, pattern), w)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 30))
def test_repeated_tokens_repeat_and_differ_within_a_period(seed, period, length):
    tokens = repeated_tokens(4, length, 12, period, seed=seed)
    assert tokens.shape == (4, length) and tokens.dtype == np.int64
    assert ((tokens >= 0) & (tokens < 12)).all()
    np.testing.assert_array_equal(tokens[:, period:], tokens[:, : max(length - period, 0)])
    for row in tokens[:, :period]:
        assert len(set(row)) == len(row)
    np.testing.assert_array_equal(tokens, repeated_tokens(4, length, 12, period, seed=seed))


def test_each_sequence_may_have_its_own_period():
    tokens = repeated_tokens(3, 12, 9, np.array([2, 5, 9]), seed=1)
    for row, period in zip(tokens, (2, 5, 9), strict=True):
        assert len(set(row)) == period and (row[period:] == row[:-period]).all()


def test_all_orders_are_drawn_and_a_generator_goes_on():
    drawn = repeated_tokens(6000, 3, 3, 3)
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 6 and (abs(counts - 1000) < 150).all()
    rng = np.random.default_rng(0)
    assert (repeated_tokens(3, 9, 50, 9, seed=rng) != repeated_tokens(3, 9, 50, 9, seed=rng)).any()


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: repeated_tokens(0, 3, 3, 3), ValueError, ["n must be at least 1"]),
        (lambda: repeated_tokens(1, 3, 3, 2.0), TypeError, ["period must be a whole number"]),
        (lambda: repeated_tokens(2, 9, 3, [1, 2, 3]), ValueError, ["one for each of the 2", "got 3"]),
        (lambda: repeated_tokens(2, 9, 3, [1, 0]), ValueError, ["period must be at least 1"]),
        (lambda: repeated_tokens(1, 9, 3, 4), ValueError, ["period must be at most d_vocab, 3", "4"]),
        (lambda: induction_pattern([1, 2]), TypeError, ["tokens must be a NumPy array", "list"]),
        (lambda: previous_token_pattern(np.ones(3)), TypeError, ["tokens must be whole numbers", "float64"]),
        (lambda: duplicate_token_pattern(np.array(3)), ValueError, ["one or more in a row", "()"]),
        (lambda: pattern_score(np.ones((3, 3)), np.ones((3, 3))), TypeError, ["pattern must be boolean"]),
        (lambda: pattern_score(np.ones((3, 3)), np.ones((2, 2)) > 0), ValueError, ["same L", "(2, 2)"]),
        (lambda: pattern_score(np.ones(3), np.ones(3) > 0), ValueError, ["weights must have", "(..., L, L)"]),
        (
            lambda: pattern_score(np.ones((5, 2, 3, 3)), np.ones((5, 3, 3)) > 0),
            ValueError,
            ["pattern (5, 3, 3) must broadcast", "(5, 2, 3, 3)", "pattern[:, None]"],
        ),
        (
            lambda: pattern_score(np.ones((3, 3)), np.ones((3, 3)) > 0, all_rows=1),
            TypeError,
            ["all_rows must be True or False"],
        ),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from attnlib import GroupedQueryAttention, LightningAttention, NeedleReader, needle_batch


@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 12), st.integers(0, 9))
def test_each_question_asks_for_a_pair_that_stands_where_it_is_said(n, length, n_questions, seed):
    n_questions = min(n_questions, length)
    names, things, answers, distances = needle_batch(
        n, length, n_questions=n_questions, n_names=12, n_things=5, seed=seed
    )
    assert names.shape == things.shape == (n, length + n_questions)
    assert answers.shape == distances.shape == (n, n_questions)
    assert {x.dtype for x in (names, things, answers, distances)} == {np.dtype(np.int64)}
    assert (things[:, length:] == 5).all() and things[:, :length].max() < 5 and names.max() < 12
    for text in range(n):
        assert len(set(names[text, :length])) == length
        assert len(set(names[text, length:])) == n_questions
        for question in range(n_questions):
            at = length + question - distances[text, question]
            assert 0 <= at < length
            assert names[text, at] == names[text, length + question]
            assert things[text, at] == answers[text, question]


def test_pairs_are_drawn_evenly_and_asked_everywhere():
    names, things, _, distances = needle_batch(4000, 6, n_questions=2, n_names=8, n_things=4, seed=1)
    assert abs(np.bincount(names[:, 0]) / 4000 - 1 / 8).max() < 0.02
    assert abs(np.bincount(things[:, 3]) / 4000 - 1 / 4).max() < 0.03
    assert abs(np.bincount(6 - distances[:, 0]) / 4000 - 1 / 6).max() < 0.02


def test_a_seed_gives_the_same_and_a_generator_goes_on():
    one, same = needle_batch(3, 5, n_questions=2, seed=4), needle_batch(3, 5, n_questions=2, seed=4)
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a, b)
    rng = np.random.default_rng(4)
    np.testing.assert_array_equal(needle_batch(3, 5, n_questions=2, seed=rng)[0], one[0])
    assert (needle_batch(3, 5, n_questions=2, seed=rng)[0] != one[0]).any()


def reader(kinds, seed=0, **settings):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return NeedleReader(kinds, **settings)


@torch.no_grad()
def test_a_reader_has_the_layers_it_was_asked_for_and_looks_only_back():
    model = reader(["lightning", "softmax", "lightning"])
    kinds = [type(block.attention) for block in model.layers]
    assert kinds == [LightningAttention, GroupedQueryAttention, LightningAttention]
    assert [(block.attention.layer, block.attention.n_layers) for block in model.layers[::2]] == [
        (0, 3),
        (2, 3),
    ]
    assert model.layers[1].attention_residual == (6**0.25, 1.0)
    names, things, *_ = map(torch.from_numpy, needle_batch(2, 9, n_questions=3))
    scores, weights = model(names, things, return_weights=True)
    assert scores.shape == (2, 12, 16)
    assert [w.shape for w in weights] == [(2, 4, 12, 12)]
    torch.testing.assert_close(model(names[:, :7], things[:, :7]), scores[:, :7])
    for other in (model(names.roll(1, 1), things), model(names, things.roll(1, 1))):
        assert (other - scores).abs().amax() > 0.01


def trained(kinds, steps=250):
    """The share of 8 questions about 24 pairs that a model answers after a short training."""
    model, rng = reader(kinds, n_names=32, n_things=8), np.random.default_rng(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0, fused=True)
    for step in range(steps):
        names, things, answers, _ = map(
            torch.from_numpy, needle_batch(32, 24, n_names=32, n_things=8, seed=rng)
        )
        optimizer.param_groups[0]["lr"] = 0.01 * min((step + 1) / 30, 1 - step / steps)
        loss = cross_entropy(model(names, things)[:, -8:].flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        names, things, answers, _ = map(
            torch.from_numpy, needle_batch(300, 24, n_names=32, n_things=8, seed=99)
        )
        return (model(names, things)[:, -8:].argmax(-1) == answers).double().mean().item()


def test_one_softmax_layer_finds_what_lightning_alone_does_not():
    assert trained(["lightning", "softmax"]) > 0.95
    assert trained(["lightning", "lightning"]) < 0.7


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: needle_batch(0, 5), ValueError, "n must be at least 1"),
        (lambda: needle_batch(1, 65), ValueError, "length must be at most n_names, 64.*; got 65"),
        (lambda: needle_batch(1, 5), ValueError, "n_questions must be at most length, 5; got 8"),
        (lambda: needle_batch(1, 9, n_things=1.5), TypeError, "n_things must be a whole number"),
        (lambda: NeedleReader([]), ValueError, "kinds must be 'lightning' or 'softmax'"),
        (lambda: NeedleReader(["linear"]), ValueError, "kinds must be .*'linear'"),
        (lambda: NeedleReader(["softmax"], n_names=0), ValueError, "n_names must be at least 1"),
        (lambda: NeedleReader(["softmax"], n_things=0), ValueError, "n_things must be at least 1"),
        (lambda: NeedleReader(["softmax"])(torch.zeros(2, 3), torch.zeros(2, 3)), TypeError, "names must be"),
        (lambda: NeedleReader(["softmax"])(torch.ones(2, 3).long(), 3), TypeError, "things must be"),
    ],
)
def test_errors_are_sentences(call, error, words):
    with pytest.raises(error, match=words):
        call()

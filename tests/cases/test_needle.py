import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import needle_batch


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


@given(st.integers(1, 4), st.integers(1, 12), st.integers(1, 12), st.integers(0, 11), st.integers(0, 9))
def test_each_question_asks_for_a_pair_that_stands_where_it_is_said(n, length, questions, fillers, seed):
    questions = min(questions, length)
    fillers = min(fillers, length - questions)
    names, things, answers, distances = needle_batch(
        n, length, questions, n_names=12, n_things=5, fillers=fillers, generator=generator(seed)
    )
    assert names.shape == things.shape == (n, length + questions)
    assert answers.shape == distances.shape == (n, questions)
    assert {x.dtype for x in (names, things, answers, distances)} == {torch.int64}
    assert names.min() >= 0 and names.max() < 12 and answers.min() >= 0 and answers.max() < 5
    assert (things[:, length:] == 5).all()
    assert ((things[:, :length] == 5).sum(1) == fillers).all()
    for text in range(n):
        assert len(set(names[text, :length].tolist())) == length
        assert len(set(names[text, length:].tolist())) == questions
        for question in range(questions):
            at = length + question - distances[text, question]
            assert 0 <= at < length
            assert names[text, at] == names[text, length + question]
            assert things[text, at] == answers[text, question]


def shares(values, n):
    return torch.bincount(values.flatten(), minlength=n) / values.numel()


def test_all_is_drawn_evenly_and_the_pairs_stand_anywhere():
    names, things, answers, distances = needle_batch(
        6000, 6, 2, n_names=8, n_things=4, fillers=3, generator=generator(1)
    )
    places = 6 + torch.arange(2) - distances
    assert (shares(names[:, 0], 8) - 1 / 8).abs().max() < 0.02
    assert (shares(answers[:, 1], 4) - 1 / 4).abs().max() < 0.02
    assert (shares(places[:, 0], 6) - 1 / 6).abs().max() < 0.02
    assert ((things[:, :6] == 4).double().mean(0) - 1 / 2).abs().max() < 0.03


def test_a_generator_gives_the_same_again_and_then_goes_on():
    drawn = generator(4)
    one, other = (needle_batch(3, generator=drawn)[0] for _ in range(2))
    assert torch.equal(one, needle_batch(3, generator=generator(4))[0])
    assert not torch.equal(one, other)
    assert one.shape == (3, 64)


@pytest.mark.parametrize(
    "sizes, error, words",
    [
        ({"n": 0}, ValueError, "n must be at least 1"),
        ({"length": 65}, ValueError, "length must be at most n_names, 64.*; got 65"),
        ({"length": 5, "questions": 6}, ValueError, r"must fit into length, 5; got 0 \+ 6"),
        ({"fillers": 33}, ValueError, r"must fit into length, 48; got 33 \+ 16"),
        ({"fillers": -1}, ValueError, "fillers must be at least 0"),
        ({"fillers": 0.5}, TypeError, "fillers must be a whole number"),
        ({"questions": 0}, ValueError, "questions must be at least 1"),
        ({"n_things": 1.5}, TypeError, "n_things must be a whole number"),
        ({"generator": 0}, TypeError, "generator must be a torch.Generator; got int"),
    ],
)
def test_errors_are_sentences(sizes, error, words):
    with pytest.raises(error, match=words):
        needle_batch(**{"n": 2, "generator": generator(), **sizes})

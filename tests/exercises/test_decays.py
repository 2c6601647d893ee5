"""Lesson 23: half-lives, the text that shows a wrong decay, and whose a table of decays is."""

import numpy as np
import pytest
from judging import NO_FUNCTIONS, its_solution, making, mistakes, named, stub

import attnlib
from attnlib.exercises import check, decays
from attnlib.exercises.decays import EXERCISES, half_lives, three_decays, whose_decays

# ------------------------------------------------------------- half-lives


@pytest.mark.parametrize("answer", [
    (np.log(2) / 100, 1179, 78), [0.00693, 1179.0, 78], np.array([0.0069, 1179, 78])])  # fmt: skip
def test_the_three_numbers(answer):
    assert half_lives(answer).passed


def test_they_are_those_of_the_package():
    rates = [attnlib.lightning_rates(8, layer, 80)[7] for layer in range(80)]
    assert rates[0] == pytest.approx(1 / 256, rel=1e-4)
    assert np.exp(-1179 / 256) < 0.01 < np.exp(-1178 / 256)
    assert next(layer for layer in range(80) if np.log(2) / rates[layer] > 10_000) == 78


@pytest.mark.parametrize("answer, name", [
    ((0.01, 1179, 78), "one_over_e"),
    ((0.5**0.01, 1179, 78), "kept"),
    ((1 - 0.5**0.01, 1179, 78), "lost"),
    ((0.00691, 1179, 78), "lost"),
    ((0.00301, 1179, 78), "other_base"),
    ((100 / np.log(2), 1179, 78), "upside_down"),
    ((0.005, 1179, 78), "straight_line"),
    ((-np.log(2) / 100, 1179, 78), "sign"),
    ((0.00693, 1178, 78), "not_yet"),
    ((0.00693, 1178.9, 78), "no_whole_number"),
    ((100, 1179, 78), "half_life"),
    ((0.00693, 177, 78), "half"),
    ((0.00693, 1180, 78), "one_too_many"),
    ((0.00693, -1178, 78), "sign"),
    ((0.00693, 512, 78), "other_base"),
    ((0.00693, 1701, 78), "bits"),
    ((0.00693, 25600, 78), "straight_line"),
    ((0.00693, 1179, 79), "counted_from_one"),
    ((0.00693, 1179, 77), "too_early"),
    ((0.00693, 1179, 40), "too_early"),
    ((0.00693, 1179, 80), "no_layer"),
])  # fmt: skip
def test_wrong_numbers_are_explained(answer, name):
    verdict = half_lives(answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("answer, words", [
    ((0.1, 1179, 78), "4.54e-05 is left after 100"),
    ((0.007, 1179, 78), "0.497 is left"),
    ((0.00693, 1178.4, 78), "got 1178.4."),
    ((0.00693, 1179, 14007), "got 14007."),
    ((0.00693, 2000, 78), "below a hundredth before"),
    ((0.00693, 300, 78), "still above"),
    ((0.00693, 1179), "3 numbers"),
    ("0.00693", "3 numbers"),
    ((np.nan, 1179, 78), "finite"),
])
def test_other_numbers_are_told_where(answer, words):
    verdict = half_lives(answer)
    assert verdict.passed is False
    assert words in verdict.message


# ------------------------------------------------------------- which text shows it


def blocks(q, k, v, slope, size, fault=""):
    """The lesson's function, with one of its decays wrong."""
    S, out = np.zeros((q.shape[1], v.shape[1])), []
    for i in range(0, len(q), size):
        a, b, c = (part[i : i + size] for part in (q, k, v))
        m = size if fault == "B" else len(a)
        r = np.arange(1, len(a) + 1)[:, None]
        inside = np.tril(a @ b.T * np.exp(-slope * abs(r - r.T)))
        out.append(inside @ c + np.exp(-slope * (r - (fault == "A"))) * (a @ S))
        S = (1 if fault == "C" else np.exp(-slope * m)) * S + (np.exp(-slope * (m - r)) * b).T @ c
    return np.concatenate(out), S


def test_the_lengths_are_those_at_which_outputs_differ():
    q, k, v = np.random.default_rng(0).normal(size=(3, 40, 3))
    for fault, shortest in zip("ABC", decays._SHORTEST, strict=True):
        texts = {n: (q[:n], k[:n], v[:n], 0.25, 4) for n in range(1, 41)}
        shown = [n for n, text in texts.items() if not np.allclose(blocks(*text, fault)[0], blocks(*text)[0])]
        assert min(shown, default=0) == shortest
    assert three_decays(decays._SHORTEST).passed


def test_the_second_leaves_a_wrong_state():
    q, k, v = np.random.default_rng(0).normal(size=(3, 6, 3))
    assert not np.allclose(blocks(q, k, v, 0.25, 4, "B")[1], blocks(q, k, v, 0.25, 4)[1])


@pytest.mark.parametrize("answer, words", [
    ((1, 0, 9), "In the first block S is zeros"),
    ((4, 0, 9), "one block"),
    ((3, 0, 9), "one block"),
    ((6, 0, 9), "a shorter text will do"),
    ((0, 0, 9), "one step short"),
    ((20, 0, 9), "a shorter one does too"),
    ((5, 5, 9), "second, and last"),
    ((5, 9, 9), "always the last one"),
    ((5, 6, 9), "always the last one"),
    ((5, 4, 9), "a whole one"),
    ((5, 0, 5), "need not fade"),
    ((5, 0, 8), "a token more"),
    ((5, 0, 13), "third block"),
    ((5, 0, 7), "With 7 tokens all outputs are right"),
    ((5, 0, 0), "should fade"),
    ((5, 0, 9.5), "whole numbers"),
    ((5, 0, -1), "whole numbers"),
    ((5, 0), "3 numbers"),
])
def test_wrong_lengths_are_explained(answer, words):
    verdict = three_decays(answer)
    assert verdict.passed is False
    assert words in verdict.message, verdict.message


# ------------------------------------------------------------- whose decays


def test_the_tables_are_those_of_the_package():
    for n_layers, n_heads in ((8, 12), (6, 8), (3, 5)):
        tables = decays._tables(n_layers, n_heads)
        for number, rule in ((1, "minimax"), (2, "hugging_face")):
            layers = range(n_layers)
            theirs = [attnlib.lightning_rates(n_heads, layer, n_layers, rule=rule) for layer in layers]
            assert np.allclose(tables[number], theirs, rtol=1e-9, atol=0)


def by_ratio(rates):
    """Without any table: the first head, then the slopes' ratios, then the last layer's share."""
    n_layers, n_heads = rates.shape
    if rates[-1, 0] == 0:
        return 3
    if not np.isclose(rates[0, 0] ** n_heads / (1 + 1e-5) ** n_heads, 2.0**-8):
        return 1
    if n_heads & (n_heads - 1):
        return 2
    return 1 if np.isclose(rates[-1, 0] / rates[0, 0], 1e-5 / (1 + 1e-5), rtol=1e-4) else 2


def by_distance(rates):
    """The table that lies nearest, in logarithms, where nothing is 0."""
    if (rates == 0).any():
        return 3
    tables = decays._tables(*rates.shape)
    return 1 + int(np.argmin([np.abs(np.log(rates / tables[i])).max() for i in (1, 2)]))


@pytest.mark.parametrize("way", [by_ratio, by_distance])
def test_right_detectors_are_accepted(way):
    verdict = whose_decays(lambda rates: way(rates))
    assert verdict.passed, verdict.message


@pytest.mark.parametrize("exercise, mistake", mistakes("whose_decays"), ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


def test_a_default_tolerance_hides_the_last_layer():
    def loose(rates):
        tables = decays._tables(*rates.shape)
        return next(i for i in (3, 1, 2) if np.allclose(rates, tables[i], atol=1e-6))

    assert whose_decays(loose).misconception == "heads_only"


@pytest.mark.parametrize("answer", NO_FUNCTIONS)
def test_what_is_no_function_is_said_to_be_none(answer):
    assert whose_decays(answer).passed is False


@pytest.mark.parametrize("says", ["fla", None, 4, 1])
def test_other_detectors_are_rejected(says):
    assert whose_decays(lambda rates: says).passed is False


# ------------------------------------------------------------- all three


def test_solutions_pass_and_stubs_are_no_answers():
    assert check("half_lives", its_solution("half_lives"), show=False).passed
    assert check("three_decays", its_solution("three_decays"), show=False).passed
    assert check("whose_decays", its_solution("whose_decays"), show=False).passed
    assert check("whose_decays", stub, show=False).passed is None
    assert check("half_lives", ..., show=False).passed is None
    assert making("whose_decays")(np.array([[0.0, 1.0], [0.0, 0.5]])) == 0


def test_hints():
    assert [exercise.id for exercise in EXERCISES] == ["half_lives", "three_decays", "whose_decays"]
    assert all(exercise.lesson == "23" and len(exercise.hints) == 3 for exercise in EXERCISES)

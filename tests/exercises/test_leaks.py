"""How far windows reach, and the detector of leaks: right answers pass, and what fools a detector is told."""

import time
from dataclasses import replace

import numpy as np
import pytest

import attnlib
from attnlib.exercises import check
from attnlib.exercises.leaks import EXERCISES, leak_detector


def leaks_by_changes_and_cuts(model, length, width):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(length, width))
    same = [model(x) for _ in range(20)]
    out, noise = np.mean(same, 0), max(np.abs(a - same[0]).max() for a in same)
    limit = 3 * noise + 1e-9
    for t in range(1, length):
        if np.abs(model(x[:t]) - out[:t]).max() > limit:
            return True
        for size in (1, 10, 10, 10, 100, -100):
            y = x.copy()
            y[t:] = size * rng.normal(size=y[t:].shape)
            if np.abs(model(y) - out)[:t].max() > limit:
                return True
    return False


def leaks_by_single_tokens(model, length, width):
    x = np.random.default_rng(5).normal(size=(length, width))
    spread = np.std([model(x) for _ in range(50)], 0).max()
    for j in range(length):
        for value in (-9.0, -0.7, 0.7, 9.0):
            y = x.copy()
            y[j] += value * np.arange(1, width + 1)
            if np.any(np.abs(model(y) - model(x))[:j] > 12 * spread + 1e-10):
                return True
        if j and np.any(np.abs(model(x[:j]) - model(x)[:j]) > 12 * spread + 1e-10):
            return True
    return False


def leaks_in_units_of_spread(model, length, width):
    """Everything against the mean of many calls, in units of their spread."""
    x = np.random.default_rng(2).normal(size=(length, width))
    calls = np.array([model(x) for _ in range(40)])
    mean, bound = calls.mean(0), 8 * calls.std(0).max() + 1e-10
    tried = [(t, x[:t]) for t in range(1, length)]
    for t in range(1, length):
        for value in (-20.0, -1.0, 1.0, 20.0):
            changed = x.copy()
            changed[t] = value * np.linspace(0.5, 1, width)
            tried.append((t, changed))
    return any(np.abs(model(y)[:t] - mean[:t]).max() > bound for t, y in tried)


RIGHT = {
    "window_reach": [16, 16.0, np.int64(16)],
    "leak_detector": [leaks_by_changes_and_cuts, leaks_by_single_tokens, leaks_in_units_of_spread],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    start = time.process_time()
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


LATER = [
    ("window_reach", 20, "reach_20", "Mistral"),
    ("window_reach", 15, "reach_15", "reaches itself"),
    ("window_reach", 21, "reach_21", "three before"),
    ("window_reach", 19, "reach_19", "three more"),
    ("window_reach", 4, "reach_4", "one layer"),
    ("window_reach", 1024, "reach_1024", "added up"),
    ("window_reach", 7, None, "With one layer"),
    ("window_reach", 16.5, None, "Not 16.5"),
    ("window_reach", "16", None, "'16'"),
    ("window_reach", float("nan"), None, "finite"),
]


@pytest.mark.parametrize("exercise, answer, misconception, words", LATER)
def test_wrong_answers_are_told_what_is_wrong(exercise, answer, misconception, words):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.misconception == misconception, verdict
    assert words in verdict.message and len(verdict.message) < 600, verdict.message


# The detector


def detector(
    *, sizes=(1, 10, 10, 10, 100), cut=True, limit=None, late=0, places=None, reorder=False, rows=None
):
    """A detector with one weakness at a time."""

    def leaks(model, length, width):
        rng = np.random.default_rng(1)
        x = rng.normal(size=(length, width))
        same = [model(x) for _ in range(20)]
        noise = max(np.abs(a - same[0]).max() for a in same)
        bound = 4 * noise + 1e-9 if limit is None else limit
        for t in range(1, length) if places is None else places(length):
            if cut and np.abs(model(x[:t]) - model(x)[:t]).max() > bound:
                return True
            for size in sizes:
                y = x.copy()
                y[t:] = rng.permutation(x[t:]) if reorder else size * rng.normal(size=y[t:].shape)
                seen = np.abs(model(y) - model(x))[: max(t - late, 0)]
                seen = seen if rows is None else seen[:rows]
                if seen.size and seen.max() > bound:
                    return True
        return False

    return leaks


def own_token_too(model, length, width):
    x = np.ones((length, width))
    y = x.copy()
    y[2:] = -5.0
    return bool(np.abs(model(y) - model(x))[:3].max() > 0.5)


def clean_if_noisy(model, length, width):
    x = np.ones((length, width))
    if np.any(model(x) != model(x)):
        return False
    return detector()(model, length, width)


FOOLED = [
    (detector(limit=1e-6), "noise", "with nothing changed"),
    (detector(limit=0.2, sizes=(1, 9, -9, 9)), "one_place", "a thousandth"),
    (detector(limit=0.0), "noise", "Two calls may differ less than the next two"),
    (detector(late=1, cut=False), "next_token", "at output t - 1"),
    (detector(sizes=(1,)), "gate", "try several"),
    (detector(cut=False), "length", "their number stays"),
    (detector(reorder=True, cut=False), "denominator", "Reordering"),
    (detector(places=lambda n: [n // 2], rows=1, cut=False), "next_token", "output i reads token i + 1"),
    (own_token_too, "all_leaky", "itself included"),
    (clean_if_noisy, "noise_hides", "need not be clean"),
    (lambda model, length, width: True, "all_leaky", "Three are clean"),
    (lambda model, length, width: False, "all_clean", "Five of them leak"),
]


@pytest.mark.parametrize("answer, misconception, words", FOOLED)
def test_a_fooled_detector_is_told_by_which_model_and_why(answer, misconception, words):
    start = time.process_time()
    verdict = check("leak_detector", answer, show=False)
    assert verdict.passed is False and verdict.misconception == misconception, verdict.message
    assert words in verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


NAMES = list(dict.fromkeys(implementation.name for implementation in leak_detector.implementations))


@pytest.mark.parametrize("number", range(8))
def test_each_model_that_fools_is_named_with_what_it_does(number):
    fooling = leak_detector.implementations[number]
    once = [tried.answer != (tried is fooling) for tried in leak_detector.implementations]
    answers = iter([*once, *reversed(once)])
    verdict = check("leak_detector", lambda *a: next(answers), show=False)
    assert verdict.misconception == fooling.mistake
    assert fooling.told in verdict.message and fooling.name in verdict.message
    assert verdict.message.startswith("7 of 8 judged rightly") and len(verdict.message) < 500


def test_there_are_eight_models_in_two_sizes_three_of_them_clean():
    assert len(NAMES) == 8 and len(leak_detector.implementations) == 16
    clean = {tried.name for tried in leak_detector.implementations if not tried.answer}
    assert len(clean) == 3 and clean == set(NAMES[:3])


def test_exact_comparison_is_fooled_by_rounding():
    def exact(model, length, width):
        x = np.random.default_rng(0).normal(size=(length, width))
        noise = np.abs(model(x) - model(x)).max()
        for t in range(1, length):
            y = x.copy()
            y[t:] = 37.1 * x[t:] + 0.3
            if np.abs(model(y) - model(x))[:t].max() > 5 * noise:
                return True
        return False

    assert check("leak_detector", exact).misconception == "exact_comparison"


def test_answers_of_a_detector_are_booleans_and_calls_are_explained():
    assert "Return True or False" in check("leak_detector", lambda *a: 1).message
    assert check("leak_detector", lambda *a: np.array([True])).passed is False
    told = check("leak_detector", lambda model, length, width: model(np.ones((length, width + 1)))).message
    assert "takes an array of shape (n, 4)" in told and "causal attention" in told
    assert check("leak_detector", lambda *a: None).message.endswith("with a return?")
    assert "calls the package" in check("leak_detector", lambda m, n, d: attnlib.future_leaks(m, n)).message


def test_the_models_are_what_they_are_said_to_be():
    """The package's own detector, on those that answer the same input alike."""
    rng = np.random.default_rng(4)
    for tried in leak_detector.implementations:
        model, length, width = tried.make()
        x = rng.normal(size=(length, width))
        if np.array_equal(model(x), model(x)):
            leaks = attnlib.future_leaks(model, x)
            assert bool(leaks) == tried.answer, tried.name
            if tried.name == "positions counted from the end":
                assert {leak.token for leak in leaks} == {None}


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.id)
def test_solutions_are_right_and_open_exercises_unanswered(exercise):
    space = {}
    exec(exercise.solution, space)
    assert exercise.judge(space["answer"]).passed is True
    assert check(exercise.id, ..., show=False).passed is None


def test_a_stub_is_not_answered():
    def stub(model, length, width):
        raise NotImplementedError

    assert check("leak_detector", stub, show=False).passed is None


ODD = [
    7, "text", None.__class__, lambda *a: None, lambda *a: "text", lambda *a: np.nan, lambda *a: {},
    lambda: 1, lambda *a: 1 / 0, lambda *a: a[0], lambda *a: np.zeros(10**6, bool), print, lambda *a: 1j,
    lambda *a: np.array([True, False]), lambda *a: [True], lambda *a: 0,
]  # fmt: skip


@pytest.mark.parametrize("answer", ODD)
def test_odd_answers_are_refused_without_a_crash(answer):
    verdict = check("leak_detector", answer, show=False)
    assert verdict.passed is False and verdict.message


def test_verdicts_do_not_hang_on_the_global_seed_and_leave_it_alone():
    np.random.seed(1)
    before = np.random.get_state()[1].copy()
    first = check("leak_detector", detector(sizes=(1,))).message
    assert np.array_equal(before, np.random.get_state()[1])
    np.random.seed(2)
    assert check("leak_detector", detector(sizes=(1,))).message == first


def test_a_detector_that_counts_its_calls_is_found_out():
    answers = [implementation.answer for implementation in leak_detector.implementations]
    calls = []

    def counting(*args):
        calls.append(1)
        return answers[(len(calls) - 1) % len(answers)]

    verdict = leak_detector(counting)
    assert verdict.passed is False and verdict.misconception == "state"
    assert "the first time and" in verdict.message


def test_a_hidden_order_is_another_one():
    hidden = replace(leak_detector, order=918273)
    first, second = hidden._rounds()
    assert sorted(first) == sorted(second) == list(range(len(hidden.implementations)))
    assert first != second and list(range(len(first))) not in (first, second)

"""Lesson 06's exercises: every right way accepted, every known mistake named."""

import time

import numpy as np
import pytest

import attnlib
from attnlib.exercises import check, scaling


def measured(q, k, width):
    steps = (q * k).sum(-1)
    drift, chance = steps.mean() / q.shape[1], steps.var() / q.shape[1]
    return 1 / np.sqrt((drift * width) ** 2 + chance * width)


def by_simulation(q, k, width):
    """Draws the rebuilt head's steps from those of the old one."""
    steps = (q * k).ravel()
    rng = np.random.default_rng(0)
    scores = [rng.choice(steps, size=width).sum() for _ in range(1000)]
    return float(np.mean(np.square(scores)) ** -0.5)


def by_correlation(q, k, width):
    rho = np.corrcoef(q.ravel(), k.ravel())[0, 1]
    size = q.std() * k.std()
    return 1 / (size * np.sqrt(width * (1 + rho**2) + (rho * width) ** 2))


def by_pooled_steps(q, k, width):
    steps = q * k
    return (steps.mean() ** 2 * width**2 + steps.var() * width) ** -0.5


SIGNS = np.array([[1, 1, 1, 1], [-1, -1, -1, -1]])
TURNED = SIGNS * [1, -1, 1, -1]
HALF = SIGNS * [1, 1, -1, -1]
MANY = np.outer([2, 1, -1, -2, 0], [1, 1, 1, 1]) / np.sqrt(2)
EVERY = 2 * (np.arange(16)[:, None] >> np.arange(4) & 1) - 1

RIGHT = {
    "wider_head": [4, 4.0, np.sqrt(16), np.array(4)],
    "fifty_five": [900, 900.0, np.int64(900), (3 / 0.1) ** 2],
    "largest_variance": [(SIGNS, SIGNS), (TURNED.tolist(), TURNED), [SIGNS.astype(np.float32), MANY],
                         np.array([SIGNS, TURNED * [1, -1, 1, -1]]), (SIGNS * (1 + 4e-7), SIGNS)],
    "no_variance": [(SIGNS, TURNED), (HALF, MANY), (np.vstack([TURNED, HALF]), SIGNS),
                    np.array([SIGNS, TURNED])],
    "choose_scale": [measured, by_pooled_steps, by_simulation, by_correlation],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", RIGHT)
def test_solutions_pass_and_hints_go_on(exercise):
    given = next(e for e in scaling.EXERCISES if e.id == exercise)
    names = {}
    exec(given.solution, names)
    verdict = check(exercise, names.get("answer", names.get(exercise)))
    assert verdict.passed is True, verdict.message
    assert len(given.hints) in (2, 3)


# Mistakes: in order of the parameters, the exercise, the answer, and what it is called

NUMBERS = [
    ("wider_head", 16, "entries_forgotten or variance_for_spread"),
    ("wider_head", 32, "width_without_root"),
    ("wider_head", 8, "halved_once"),
    ("wider_head", 1, "variance_for_spread"),
    ("wider_head", 2, "width_forgotten"),
    ("wider_head", 0.25, "scale_for_temperature"),
    ("fifty_five", 3600, "excess_for_drift"),
    ("fifty_five", 30, "square_forgotten"),
    ("fifty_five", 100, "one_spread"),
    ("fifty_five", 300, "three_times"),
    ("fifty_five", 891, "spread_of_match"),
    ("fifty_five", 29.75, "share_for_drift"),
    ("fifty_five", 901, "not_the_least"),
    ("fifty_five", 1024, "not_the_least"),
    ("largest_variance", (EVERY, EVERY), "in_order"),
    ("largest_variance", (SIGNS, EVERY), "one_side"),
    ("largest_variance", (EVERY, SIGNS), "one_side"),
    ("largest_variance", (SIGNS, TURNED), "other_half"),
    ("largest_variance", (2 * SIGNS, SIGNS), "entries_not_one"),
    ("largest_variance", (SIGNS[:1], SIGNS), "mean"),
    ("no_variance", (SIGNS, EVERY), "one_side"),
    ("no_variance", (EVERY, SIGNS), "one_side"),
    ("no_variance", (EVERY, EVERY), "same_rows"),
    ("no_variance", (SIGNS, SIGNS), "same_rows"),
    ("no_variance", (SIGNS, -SIGNS), "other_half"),
    ("no_variance", (SIGNS, 0 * SIGNS), "entries_not_one"),
    ("no_variance", (SIGNS[:1], TURNED), "mean"),
]


@pytest.mark.parametrize("exercise, answer, name", NUMBERS)
def test_numbers_and_arrays_are_told_their_mistake(exercise, answer, name):
    verdict = check(exercise, answer)
    assert verdict.passed is False and verdict.misconception == name, verdict


def sample(q, k):
    return (q * k).sum(-1)


SCALES = [
    ("root_of_width", lambda q, k, width: width**-0.5),
    ("root_of_width", lambda q, k, width: 1 / (q.std() * k.std() * 0 + np.sqrt(width))),
    ("one_over_width", lambda q, k, width: 1 / width),
    ("one_over_width", lambda q, k, width: attnlib.mup_scale(width)),
    ("as_measured", lambda q, k, width: 1 / np.sqrt((sample(q, k) ** 2).mean())),
    ("all_grows_as_root",
     lambda q, k, width: 1 / np.sqrt((sample(q, k) ** 2).mean() * width / q.shape[1])),
    ("all_grows_as_width",
     lambda q, k, width: q.shape[1] / width / np.sqrt((sample(q, k) ** 2).mean())),
    ("spread_only", lambda q, k, width: 1 / (sample(q, k).std() * np.sqrt(width / q.shape[1]))),
    ("mean_only", lambda q, k, width: 1 / abs((q * k).mean() * width)),
    ("old_width", lambda q, k, width: 1 / np.sqrt(q.shape[1])),
    ("no_root", lambda q, k, width: measured(q, k, width) ** 2),
    ("temperature", lambda q, k, width: 1 / measured(q, k, width)),
    ("unit_steps", lambda q, k, width: 1 / np.sqrt((q * k).mean() ** 2 * width**2 + width)),
    ("unit_entries", lambda q, k, width:
     1 / np.sqrt(np.corrcoef(q.ravel(), k.ravel())[0, 1] ** 2 * width**2 + width)),
    ("all_pairs", lambda q, k, width: 1 / np.sqrt(np.mean((q[:500] @ k[:500].T) ** 2) * width / q.shape[1])),
]


@pytest.mark.parametrize("name, function", SCALES)
def test_scales_are_told_their_mistake(name, function):
    verdict = check("choose_scale", function)
    assert verdict.passed is False and verdict.misconception == name, verdict


@pytest.mark.parametrize("mistake", scaling.choose_scale.mistakes, ids=lambda m: m.name)
def test_each_known_mistake_of_the_scale_is_named(mistake):
    verdict = check("choose_scale", lambda q, k, width: scaling._scale(q, k, width, **mistake.choices))
    assert verdict.misconception == mistake.name and mistake.hint in verdict.message


def test_both_tempting_powers_are_right_somewhere_and_wrong_elsewhere():
    def passes(rule):
        return {case.name for case in scaling._scale_cases()
                if abs(rule(case.args[2]) / scaling._scale(*case.args) - 1) < 0.2}

    root, one = passes(lambda width: width**-0.5), passes(lambda width: 1 / width)
    assert root and one and not root & one
    assert len(root | one) < len(scaling._scale_cases())


def test_the_estimate_is_near_the_truth():
    """What the sample says of the rebuilt head lies well inside the fifth that is allowed."""
    truths = [(0.3, 1, 256), (0.0, 1, 512), (0.05, 1, 4096), (0.8, 1, 8), (0.1, 1, 100), (0.2, 1.5, 300),
              (0.0, 1.5, 200)]
    for (rho, size, width), case in zip(truths, scaling._scale_cases(), strict=False):
        truth = 1 / (size * np.sqrt(width * (1 + rho**2) + (rho * width) ** 2))
        assert scaling._scale(*case.args) == pytest.approx(truth, rel=0.06), case.name


def test_an_unknown_scale_is_told_what_it_does():
    verdict = check("choose_scale", lambda q, k, width: 3 * measured(q, k, width))
    assert "root mean square of 3, not 1" in verdict.message and verdict.misconception is None
    assert "A scale is positive" in check("choose_scale", lambda q, k, width: -1.0).message


def test_the_verdict_says_what_a_number_does():
    assert "spread by 0.8" in check("wider_head", 5).message
    assert "2 spreads" in check("fifty_five", 400).message
    assert "4.4721" not in check("fifty_five", 400).message


def test_a_number_next_to_the_right_one_is_not_rounded_to_it():
    assert "only 2.998 spreads" in check("fifty_five", 899).message
    assert "3.002 spreads" in check("fifty_five", 901).message
    assert "spread by 1.003;" in check("wider_head", 3.989).message


def test_text_for_numbers_is_told_to_lose_its_quotes():
    assert "one number without quotes; got '4'" in check("wider_head", "4").message
    assert "without quotes" in check("largest_variance", (SIGNS.astype(str), SIGNS)).message
    assert "quotes" not in check("wider_head", "four").message


# Whatever is typed is judged, without a crash

ODD = [..., None, "four", "", [], {}, np.nan, np.inf, -1, 0, 1e300, 10**400, True, [1, 2], object(), print,
       np.zeros((0, 4)), np.zeros((3, 4, 5)), (SIGNS,), (SIGNS, "a"), (SIGNS, SIGNS[:, :3]),
       ([[1, 2], [3]], SIGNS), (SIGNS * np.nan, SIGNS), (SIGNS * 1e200, SIGNS), (np.ones((5000, 4)), SIGNS),
       (SIGNS, SIGNS, SIGNS)]


@pytest.mark.parametrize("exercise", RIGHT)
@pytest.mark.parametrize("answer", ODD, ids=range(len(ODD)))
def test_odd_answers_are_judged(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is (None if answer is ... or answer is None else False)
    assert verdict.message


def test_dots_within_a_pair_are_not_answered_yet():
    for exercise in ("largest_variance", "no_variance"):
        assert check(exercise, (..., ...)).passed is None
        assert check(exercise, (SIGNS, ...)).passed is None


def test_stubs_are_not_answered_yet():
    def stub(*_):
        raise NotImplementedError

    assert check("choose_scale", stub).passed is None


RESULTS = [None, "text", [], {}, np.nan, (1, 2, 3), np.zeros(10**6), np.array(["a", "b"]), 1 + 2j,
           (None, None), object(), (np.nan, np.nan)]


@pytest.mark.parametrize("result", RESULTS, ids=range(len(RESULTS)))
def test_odd_results_are_judged(result):
    verdict = check("choose_scale", lambda *_: result)
    assert verdict.passed is False and verdict.message


@pytest.mark.parametrize("function", [lambda: 1, lambda *_: 1 / 0, lambda *a: a[0][99999]], ids=range(3))
def test_errors_are_told(function):
    verdict = check("choose_scale", function)
    assert verdict.passed is False
    assert "raised" in verdict.message or "must take the arguments" in verdict.message


def test_a_verdict_is_quick():
    start = time.process_time()
    check("choose_scale", lambda q, k, width: 0.5)
    assert time.process_time() - start < 1

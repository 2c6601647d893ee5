"""Lesson 18's other exercises: every right way accepted, every known mistake named."""

import numpy as np
import pytest
from judging import ERRORS, its_solution, making, mistakes, named, stub, told_when_raising

from attnlib.exercises import check, coarse_keys, latents, smaller_caches
from attnlib.exercises.catalogue import EXERCISES

IDS = ("cache_factors", "passes_through", "break_per_token")
FUNCTIONS = ("latent_attention", "quantise_keys")


def test_the_lesson_keeps_its_order():
    assert tuple(exercise.id for exercise in smaller_caches.EXERCISES) == IDS
    assert [e.id for module in (latents, coarse_keys) for e in module.EXERCISES] == list(FUNCTIONS)


@pytest.mark.parametrize("exercise", IDS + FUNCTIONS)
def test_solutions_pass_and_hints_go_on(exercise):
    answer = its_solution(exercise)
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message
    assert len(EXERCISES[exercise].hints) in (2, 3)
    assert EXERCISES[exercise].lesson == "18"


# ------------------------------------------------------------- numbers and constructions

loud = np.array([[9.0, 1.4, 1.4, 0.0], [9.0, 1.6, 0.0, 0.0]])
ask = np.array([0.0, 1.0, 1.0, 0.0])
turn, stretch = np.array([[0.0, -1], [1, 0]]), np.diag([1.0, 2])
factors = (1, 320 / 576, 0.3125, 16, 1)

RIGHT = [
    ("cache_factors", [1, 0.556, 0.3125, 16, 1]),
    ("cache_factors", [1, 0.56, 0.31, 16, 1]),
    ("cache_factors", np.array([1, 5 / 9, 5 / 16, 16, 1])),
    ("passes_through", (turn, stretch)),
    ("passes_through", ([[3, 1], [-1, 3]], [[1, 0], [0, -1]])),
    ("passes_through", np.array([[[0.6, -0.8], [0.8, 0.6]], [[5, 0], [0, 1]]])),
    ("passes_through", ([[0, 1e-5], [-1e-5, 0]], stretch)),
    ("break_per_token", (ask.tolist(), loud.tolist())),
    ("break_per_token", ([0, 1, 0], [[9, 4.4, 0], [8, 4.1, 0]])),
    ("break_per_token", (-ask, np.vstack([loud * [1, -1, -1, 1], [[9.0, 0, 0, 0]]]))),
]


@pytest.mark.parametrize("exercise, answer", RIGHT)
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


def changed(at, value):
    return tuple(value if i == at else factor for i, factor in enumerate(factors))


many = np.random.default_rng(3).normal(size=(9, 3))
WRONG = [
    *(("cache_factors", changed(*case), name) for case, name in (
        ((0, 0.5), "heads_counted"), ((0, 2), "heads_counted"), ((1, 0.5), "rotated_key_forgotten"),
        ((1, 1.8), "turned_round"), ((1, 1), "latent_forgotten"), ((2, 0.25), "scales_forgotten"),
        ((2, 0.28125), "zero_forgotten"), ((2, 0.625), "bytes_given"), ((2, 3.2), "turned_round"),
        ((2, 2.5), "bits_for_bytes"),
        ((1, 0.44), "saved"), ((2, 0.69), "saved"),
        ((2, 0.34375), "half_precision"), ((3, 1), "cache_shared"),
        ((4, 16), "weights_for_each"), ((0, 3), None), ((1, 0.7), None), ((2, 0.4), None), ((3, 4), None),
        ((4, 2), None), ((0, -1), None))),
    ("cache_factors", (1, 320 / 576, 0.3125, 1, 16), "swapped"),
    ("cache_factors", (0.5, 0.5, 0.25, 1, 16), "heads_counted"),
    ("cache_factors", (1, 2), None),
    ("passes_through", (np.eye(2), stretch), "identity"),
    ("passes_through", (-3 * np.eye(2), stretch), "identity"),
    ("passes_through", (np.zeros((2, 2)), stretch), "zeros"),
    ("passes_through", ([[0, 1], [1, 0]], stretch), "mirror"),
    ("passes_through", ([[1, 0], [0, -1]], stretch), "mirror"),
    ("passes_through", (stretch, turn), "stretch"),
    ("passes_through", ([[2, 1], [1, 3]], stretch), "stretch"),
    ("passes_through", ([[1, 2], [2.5, 5]], stretch), "singular"),
    ("passes_through", ([[1, -1], [1, 2]], stretch), "diagonal_differs"),
    ("passes_through", ([[1, 3], [0, 1]], stretch), "shear"),
    ("passes_through", ([[1, 3], [7, 2]], stretch), None),
    ("passes_through", ([[0.6, -0.8], [0.8, 0.6001]], stretch), "rounded"),
    ("passes_through", (turn, turn), "not_diagonal"),
    ("passes_through", (turn, 2 * np.eye(2)), "stops_identity"),
    ("passes_through", (turn, np.diag([1.0, 0])), "stops_singular"),
    ("passes_through", (turn, np.diag([1.0, 1.01])), "too_little"),
    ("passes_through", (turn, np.zeros((2, 2))), "zeros"),
    ("passes_through", (turn, np.eye(3)), None),
    ("break_per_token", (np.zeros(4), loud), "query_zero"),
    ("break_per_token", (np.array([1.0, 0, 0, 0]), loud), "tie_before"),
    ("break_per_token", (np.array([1.0, 1, 1]), many), None),
    ("break_per_token", (np.ones(2), np.array([[1.0, 2], [0, 1]])), "two_features"),
    ("break_per_token", ([0, 1], [[9, 1], [9, 0.5]]), "two_features"),
    ("break_per_token", (np.ones(3), np.array([[1.0, 2, 1.5], [1, 1, 1.2]])), "no_loud_channel"),
    ("break_per_token", ([0, 0, 1], [[90, 0, 20], [90, 0, 10]]), "not_yet"),
    ("break_per_token", (np.array([1.0, 0, 0]), np.array([[90.0, 1, 0], [60, 2, 0]])), "asks_for_the_loud"),
    ("break_per_token", (ask, loud * [1, 2, 2, 1]), "not_yet"),
    ("break_per_token", (ask, np.array([[9.0, 1.4, 0, 0], [9.0, 1.2, 0, 0]])), "tie_after"),
    ("break_per_token", (np.array([1.0, 0.1]),
                         np.array([[0, 0.0], [3, 3], [1.4, 1.4], [2.4, 2.4], [1.5, 0.1]])), None),
    ("break_per_token", (ask, loud[:1]), None),
    ("break_per_token", (ask[:3], loud), None),
    ("break_per_token", (ask, loud * 1e5), None),
    ("break_per_token", ([1, 2], "text"), None),
]


@pytest.mark.parametrize("exercise, answer, name", WRONG, ids=lambda x: " ".join(str(x).split())[:20])
def test_wrong_answers_are_named(exercise, answer, name):
    verdict = check(exercise, answer)
    assert verdict.passed is False
    if name:
        assert verdict.misconception == name, verdict.message


def test_codes_per_channel_may_be_what_loses_the_best():
    by_channel = np.array([[0.0, 0], [30, 0], [14, 9], [16, 8.0]])
    verdict = check("break_per_token", (np.array([1.0, 1]), by_channel))
    assert verdict.passed is False
    q, k = np.array([1.0, 0]), np.array([[0.0, 5], [3, 5], [1.6, 6], [1.9, 6], [3.2, -6]])
    assert check("break_per_token", (q, k)).passed is False


ODD = [None, ..., "a string", [], {}, 3, float("nan"), [np.nan, 1], np.zeros((3, 3)), [[1, 2], [3]],
       (None, 1), (..., ...), object(), True, 1j, [10**400, 1], [1e300, -1e300], np.array(["a", "b"]),
       (np.ones(3), np.ones((2, 4))), (np.full(2, np.nan), np.ones((2, 2))), print, np.zeros((2, 2, 2)),
       [..., 1, 2, 3, 4]]


@pytest.mark.parametrize("exercise", IDS)
@pytest.mark.parametrize("answer", ODD, ids=lambda x: str(x)[:20])
def test_odd_answers_are_judged_and_never_right(exercise, answer, no_warnings):
    with no_warnings():
        verdict = check(exercise, answer)
    assert verdict.passed is not True and verdict.message


# ------------------------------------------------------------- latents


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def expanded(q, q_pe, c, k_pe, w_uk, w_uv):
    out = np.empty((*q.shape[:2], w_uv.shape[1]))
    for h in range(len(q)):
        k = np.concatenate([c @ w_uk[h].T, k_pe], -1)
        asked = np.concatenate([q[h], q_pe[h]], -1)
        out[h] = softmax(asked @ k.T / np.sqrt(k.shape[-1])) @ (c @ w_uv[h].T)
    return out


def side_by_side(q, q_pe, c, k_pe, w_uk, w_uv):
    asked = np.concatenate([np.einsum("hld,hdr->hlr", q, w_uk), q_pe], -1)
    weights = softmax(asked @ np.concatenate([c, k_pe], -1).T * (q.shape[-1] + q_pe.shape[-1]) ** -0.5)
    return np.einsum("hls,sr,hvr->hlv", weights, c, w_uv)


def in_torch(*arrays):
    import torch

    q, q_pe, c, k_pe, w_uk, w_uv = map(torch.tensor, arrays)
    weights = ((q @ w_uk @ c.T + q_pe @ k_pe.T) / (q.shape[-1] + q_pe.shape[-1]) ** 0.5).softmax(-1)
    return (weights @ c @ w_uv.mT).numpy()


@pytest.mark.parametrize("answer", [expanded, side_by_side, in_torch])
def test_both_forms_of_latent_attention_pass(answer):
    verdict = check("latent_attention", answer)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise, mistake", mistakes("latent_attention"),
                         ids=lambda x: getattr(x, "name", x))
def test_every_mistake_with_latents_is_named(exercise, mistake):
    named(exercise, mistake)


PAIRS = [
    ({"scale": "latent", "order": "heads_last"}, "scale_of_the_latent and heads_behind_positions"),
    ({"place": "forgotten", "scale": "none"}, "no_scale and rotated_part_forgotten"),
    ({"scale": "none", "axis": -2}, "no_scale and softmax_over_queries"),
]


@pytest.mark.parametrize("choices, names", PAIRS)
def test_two_mistakes_together_are_named(choices, names):
    assert check("latent_attention", making("latent_attention", **choices)).misconception == names


# ------------------------------------------------------------- codes


def by_columns(k, bits):
    codes, scale, zero = np.zeros(k.shape, np.uint8), np.ones(k.shape[1]), k.min(0)
    for j in range(k.shape[1]):
        spread = k[:, j].max() - zero[j]
        if spread:
            scale[j] = spread / (2**bits - 1)
            codes[:, j] = np.rint((k[:, j] - zero[j]) / scale[j])
    return codes, scale, zero


def half_up(k, bits):
    zero, top = k.min(-2, keepdims=True), k.max(-2, keepdims=True)
    scale = np.maximum(top - zero, 1e-12) / (2**bits - 1)
    return [((k - zero) / scale + 0.5).astype("uint8"), scale, zero]


@pytest.mark.parametrize("answer", [by_columns, half_up])
def test_right_quantisers_pass(answer):
    verdict = check("quantise_keys", answer)
    assert verdict.passed is True, verdict.message


def quantiser(**choices):
    return lambda k, bits: coarse_keys._quantise(k, bits, **choices)


@pytest.mark.parametrize("mistake", [m for _, m in mistakes("quantise_keys")], ids=lambda m: m.name)
def test_every_mistake_with_codes_is_named(mistake):
    verdict = check("quantise_keys", quantiser(**mistake.choices))
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    variants = (m for m in EXERCISES["quantise_keys"].judge.mistakes if m.name == mistake.name)
    assert any(m.hint in verdict.message for m in variants)


def faulty(k, bits):
    """The function that stands in the lesson."""
    low, top = k.min(-1, keepdims=True), k.max(-1, keepdims=True)
    scale = (top - low) / 2**bits
    codes = (k / scale - low).astype(np.uint8)
    return codes, scale, low


@np.errstate(all="ignore")
def test_the_lesson_s_function_is_wrong():
    assert check("quantise_keys", faulty).passed is False


def test_two_faults_left_are_told_together():
    verdict = check("quantise_keys", quantiser(group=-1, levels="one_too_many"))
    assert verdict.misconception == "per_token and one_too_many"


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_its_own_is_no_known_mistake(exercise, error):
    told_when_raising(exercise, error)


@pytest.mark.parametrize("exercise", IDS + FUNCTIONS)
def test_a_stub_is_not_answered(exercise):
    assert check(exercise, stub if exercise in FUNCTIONS else ...).passed is None

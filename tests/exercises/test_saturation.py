"""Lesson 07's exercises: every right way accepted, every known mistake named, nothing crashes."""

import itertools
import time
import tracemalloc
import warnings

import numpy as np
import pytest
import torch  # here, for a first import inside a judged function may take longer than it is given

import attnlib
from attnlib.exercises import check
from attnlib.exercises.function import FunctionExercise
from attnlib.exercises.saturation import (
    EXERCISES,
    NUDGE_KEYS,
    NUDGE_QUERY,
    softmax_backward,
    softmax_jacobian,
)

JUDGES = {exercise.id: exercise.judge for exercise in EXERCISES}
FUNCTIONS = {"softmax_jacobian": softmax_jacobian, "softmax_backward": softmax_backward}


def weights(z):
    z = np.asarray(z, dtype=float)
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def by_broadcasting(z):
    p = weights(z)
    return p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])


def by_einsum(z):
    p = weights(z)
    return np.einsum("...i,ij->...ij", p, np.eye(p.shape[-1])) - np.einsum("...i,...j->...ij", p, p)


def by_loops(z):
    z = np.asarray(z)
    n = z.shape[-1]
    made = np.empty((*z.shape, n))
    for at in np.ndindex(z.shape[:-1]):
        p = weights(z[at])
        for i, j in itertools.product(range(n), repeat=2):
            made[at][i, j] = p[i] * (1 - p[i]) if i == j else -p[i] * p[j]
    return made


def by_columns(z):
    """A push in each score, forward through the derivative of the exponentials."""
    p = weights(z)
    columns = [p * ((np.arange(p.shape[-1]) == j) - p[..., j : j + 1]) for j in range(p.shape[-1])]
    return np.stack(columns, -1)


def in_float32(z):
    return by_broadcasting(np.asarray(z, dtype=np.float32)).astype(np.float32)


def through_torch(z):
    t = torch.as_tensor(np.asarray(z, dtype=float))
    p = torch.softmax(t, -1)
    return (torch.diag_embed(p) - p[..., None] * p[..., None, :]).numpy()


def by_autograd(z):
    rows = torch.as_tensor(np.asarray(z, dtype=float)).reshape(-1, np.shape(z)[-1])
    tables = [torch.autograd.functional.jacobian(lambda r: torch.softmax(r, -1), row) for row in rows]
    return torch.stack(tables).reshape(*np.shape(z), np.shape(z)[-1]).numpy()


def short_form(p, g):
    return p * (g - (p * g).sum(-1, keepdims=True))


def by_table(p, g):
    table = p[..., :, None] * np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]
    return (table @ g[..., None])[..., 0]


def by_table_turned(p, g):
    table = p[..., :, None] * np.eye(p.shape[-1]) - p[..., :, None] * p[..., None, :]
    return np.einsum("...i,...ij->...j", g, table)


def by_products(p, g):
    together = p * g
    return together - p * np.sum(together, axis=-1)[..., np.newaxis]


def by_rows(p, g):
    made = np.empty(np.broadcast(p, g).shape)
    for at in np.ndindex(p.shape[:-1]):
        mean = sum(float(a) * float(b) for a, b in zip(p[at], g[at], strict=True))
        made[at] = [float(a) * (float(b) - mean) for a, b in zip(p[at], g[at], strict=True)]
    return made


def back_in_float32(p, g):
    return short_form(np.asarray(p, np.float32), np.asarray(g, np.float32))


def back_through_torch(p, g):
    p, g = (torch.as_tensor(np.asarray(a, dtype=float)) for a in (p, g))
    return (p * (g - (p * g).sum(-1, keepdim=True))).numpy()


open_rows, closed_rows = np.zeros((9, 2)), np.tile([20.0, 0.0], (11, 1))
step = np.array([-1.0, 1.0]) / np.sqrt(2)

RIGHT = {
    "drowned": [[150, 22028], (150.0, 22028.0), np.array([150, 22028])],
    "softmax_jacobian": [by_broadcasting, by_einsum, by_loops, by_columns, in_float32, through_torch,
                         by_autograd],
    "softmax_backward": [short_form, by_table, by_table_turned, by_products, by_rows, back_in_float32,
                         back_through_torch],
    "least_nudge": [NUDGE_QUERY + 1.79 * step, [2.73, 2.27], (2.735, 2.265)],
    "two_stories": [np.vstack([open_rows, closed_rows]), np.vstack([closed_rows, open_rows]).tolist(),
                    np.vstack([np.tile([0.0, 0, -50], (6, 1)), np.tile([30.0, 0, 0], (7, 1))]),
                    np.vstack([np.zeros((4, 2)), np.tile([800.0, 0.0], (6, 1))])],      # a mean of 0.2
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise, mistake", [(e, m) for e, f in FUNCTIONS.items() for m in f.mistakes],
                         ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    judge = FUNCTIONS[exercise]
    verdict = check(exercise, lambda *args: judge.compute(*args, **mistake.choices))
    assert verdict.passed is False
    assert verdict.misconception == mistake.name
    assert mistake.hint in verdict.message


# Mistakes as learners write them, not as the judge imitates them.


def np_diag(z):
    p = weights(z)
    return np.diag(p) - np.outer(p, p)


def scalar_by_transpose(z):
    p = weights(z)
    return np.diag(p) - p @ p.T


def diagonal_only(z):
    p = weights(z)
    return np.apply_along_axis(np.diag, -1, p * (1 - p))


def unstable(z):
    e = np.exp(z)
    p = e / e.sum(-1, keepdims=True)
    return np.einsum("...i,ij->...ij", p, np.eye(p.shape[-1])) - p[..., :, None] * p[..., None, :]


def unstable_and_plus(z):
    e = np.exp(z)
    p = e / e.sum(-1, keepdims=True)
    return np.einsum("...i,ij->...ij", p, np.eye(p.shape[-1])) + p[..., :, None] * p[..., None, :]


def integer_buffer(z):
    p = weights(z)
    made = np.zeros((*z.shape, z.shape[-1]), dtype=z.dtype if z.dtype.kind == "i" else float)
    made[...] = by_broadcasting(z)
    return made + 0 * p[..., None].astype(made.dtype)


def over_first_axis(z):
    e = np.exp(z - z.max(0, keepdims=True))
    p = e / e.sum(0, keepdims=True)
    return p[..., :, None] * (np.eye(p.shape[-1]) - p[..., None, :])


def no_keepdims(p, g):
    return p * (g - (p * g).sum(-1))


def plain_mean(p, g):
    return p * (g - g.mean(-1, keepdims=True))


def np_dot(p, g):
    return p * (g - np.dot(p, g))


def whole_array(p, g):
    return p * (g - np.sum(p * g))


def plus_and_all(p, g):
    return p * (g + np.sum(p * g))


def as_scores(p, g):
    return short_form(weights(p), g)


def gated(p, g):
    return g * p * (1 - p)


LEARNERS = [
    ("softmax_jacobian", np_diag, "one_row"),
    ("softmax_jacobian", scalar_by_transpose, "inner_not_outer"),
    ("softmax_jacobian", diagonal_only, "diagonal_only"),
    ("softmax_jacobian", lambda z: weights(z) * (1 - weights(z)), "sigmoid_derivative"),
    ("softmax_jacobian", unstable, "unstable"),
    ("softmax_jacobian", unstable_and_plus, "plus_outer and unstable"),
    ("softmax_jacobian", integer_buffer, "integers"),
    ("softmax_jacobian", over_first_axis, "softmax_over_batch"),
    ("softmax_jacobian", lambda z: weights(z)[:, :, None] * (np.eye(z.shape[-1]) - weights(z)[:, None, :]),
     "one_batch_axis"),
    ("softmax_backward", lambda p, g: p * (g - (p * g).sum(1, keepdims=True)), "axis_one"),
    ("softmax_backward", lambda p, g: p * (g - (p * g).sum(-1)[:, None]), "one_batch_axis"),
    ("softmax_jacobian", lambda z: attnlib.softmax_jacobian(z), "package"),
    ("softmax_backward", no_keepdims, "no_keepdims"),
    ("softmax_backward", plain_mean, "plain_mean"),
    ("softmax_backward", np_dot, "one_row_dot"),
    ("softmax_backward", lambda p, g: p * (g - p @ g), "one_row_matmul"),
    ("softmax_backward", whole_array, "sums_all"),
    ("softmax_backward", plus_and_all, "plus_mean and sums_all"),
    ("softmax_backward", as_scores, "p_as_scores"),
    ("softmax_backward", gated, "diagonal"),
    ("softmax_backward", lambda p, g: p - g, "cross_entropy"),
    ("softmax_backward", lambda p, g: short_form(g, p), "swapped"),
]


@pytest.mark.parametrize("exercise, function, name", LEARNERS, ids=lambda x: getattr(x, "__name__", str(x)))
def test_mistakes_as_learners_write_them(exercise, function, name):
    begun = time.process_time()
    verdict = check(exercise, function)
    assert verdict.passed is False
    assert set((verdict.misconception or "").split(" and ")) == set(name.split(" and ")), verdict.message
    assert time.process_time() - begun < 10  # a second or less on an idle machine


def raises_name_error(*args):
    return undefined_name                                    # noqa: F821


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("function", [raises_name_error, lambda: 3, lambda a, b, c, d: 3,
                                      lambda *args: args[0] @ np.ones((77, 77)), lambda *args: [][0]],
                         ids=["a name", "no argument", "four arguments", "a shape", "an index"])
def test_what_raises_everywhere_is_no_known_mistake(exercise, function):
    """No mistake, and no pair, raises on every case: one that did would be named for every misspelt name."""
    verdict = check(exercise, function)
    assert verdict.passed is False
    assert verdict.misconception in (None, "signature")
    assert "raised" in verdict.message or "must take the arguments" in verdict.message, verdict.message


def changes_p(p, g):
    p *= g - (p * g).sum(-1, keepdims=True)
    return p


def changes_g(p, g):
    g -= (p * g).sum(-1, keepdims=True)
    return p * g


def changes_z(z):
    if z.dtype.kind == "f":
        z -= z.max(-1, keepdims=True)
    return by_broadcasting(z)


@pytest.mark.parametrize("exercise, function", [
    ("softmax_backward", changes_p), ("softmax_backward", changes_g), ("softmax_jacobian", changes_z)])
def test_changed_arguments_are_told(exercise, function):
    assert check(exercise, function).misconception == "changes_input"


def test_unknown_mistakes_are_told_by_a_property():
    lopsided = check("softmax_jacobian", lambda z: by_broadcasting(z) * np.arange(1, z.shape[-1] + 1))
    assert "does not sum to 0" in lopsided.message and lopsided.misconception is None
    turned = check("softmax_jacobian", lambda z: by_broadcasting(z) + np.triu(np.ones(z.shape[-1]), 1)
                   - np.triu(np.ones(z.shape[-1]), 1).sum(-1, keepdims=True) * np.eye(z.shape[-1]))
    assert "not symmetric" in turned.message
    shifted = check("softmax_backward", lambda p, g: short_form(p, g) + 0.25)
    assert "changes nothing" in shifted.message


B_MINUS_A = NUDGE_KEYS[1] - NUDGE_KEYS[0]
WRONG = [
    ("drowned", [149, 22027], "match_not_counted"),
    ("drowned", [149, 22028], "match_not_counted"),
    ("drowned", [149, 300], "match_not_counted"),
    ("drowned", [150, 22027], "match_not_counted"),
    ("drowned", [148, 22026], "rounded_down"),
    ("drowned", [148, 22028], "rounded_down"),
    ("drowned", [150, 300], "doubled"),
    ("drowned", [150, 150**2], "square_of_rounded"),
    ("drowned", [150, 149**2], "square_of_rounded"),
    ("drowned", [6, 11], "scores_not_exponentials"),
    ("drowned", [160, 22028], "not_the_least"),
    ("drowned", [150, 23000], "not_the_least"),
    ("drowned", [100, 22028], None),
    ("drowned", np.exp([5, 10]) + 1, None),
    ("drowned", [150.5, 23000], None),
    ("drowned", [-3, 23000], None),
    ("least_nudge", NUDGE_QUERY, "unmoved"),
    ("least_nudge", 0.14 * NUDGE_QUERY, "shrunk"),
    ("least_nudge", 0.5 * NUDGE_QUERY, "shrunk"),
    ("least_nudge", NUDGE_QUERY + 1.3 * NUDGE_KEYS[1], "towards_b"),
    ("least_nudge", NUDGE_QUERY + 0.5 * NUDGE_KEYS[1], "towards_b"),
    ("least_nudge", NUDGE_QUERY - 0.6 * NUDGE_KEYS[0], "away_from_a"),
    ("least_nudge", NUDGE_QUERY + 1.81 * step, "too_long"),
    ("least_nudge", NUDGE_QUERY + 2.0 * step, "too_long"),
    ("least_nudge", NUDGE_QUERY + 5.0 * step, "overshoot"),
    ("least_nudge", NUDGE_QUERY + 1.0 * step, "too_short"),
    ("least_nudge", NUDGE_QUERY + 1.77 * step, "too_short"),
    ("least_nudge", [5, 0], "towards_a"),
    ("least_nudge", NUDGE_QUERY + NUDGE_KEYS[0], "towards_a"),
    ("least_nudge", NUDGE_KEYS[1] * 5, "overshoot"),
    ("least_nudge", [2, 1], None),
    ("least_nudge", [-4, -1], "turned_round"),
    ("least_nudge", [-8, -2], "turned_round"),
    ("two_stories", np.zeros((12, 2)), "too_many_open"),
    ("two_stories", np.vstack([open_rows, closed_rows[:9]]), "half_open"),
    ("two_stories", np.vstack([open_rows, closed_rows / 10]), "too_many_open"),
    ("two_stories", np.vstack([open_rows, closed_rows / 5]), "not_sure_enough"),
    ("two_stories", np.vstack([open_rows, closed_rows * 0.33]), "not_sure_enough"),
    ("two_stories", np.vstack([np.zeros((3, 2)), closed_rows[:7]]), "too_few_open"),
    ("two_stories", np.vstack([np.tile([0.9, 0], (4, 1)), closed_rows[:6]]), "open_rows_too_flat"),
    ("two_stories", closed_rows, "none_open"),
    ("two_stories", np.vstack([open_rows[:1], closed_rows]), "too_few_open"),
    ("two_stories", np.vstack([np.zeros((9, 20)), np.tile([20.0] + [0] * 19, (11, 1))]),
     "open_rows_too_flat"),
]


@pytest.mark.parametrize("exercise, answer, name", WRONG, ids=lambda x: " ".join(str(x).split())[:20])
def test_wrong_answers_are_named(exercise, answer, name):
    verdict = check(exercise, answer)
    assert verdict.passed is False
    assert verdict.misconception == name, verdict.message


@pytest.mark.parametrize("query, told", [
    ([-4, -1], ("You turned the query round, and now C leads", "from 6 to -6")),
    ([-8, -2], ("You turned the query round, and now C leads", "from 6 to -12")),
    (NUDGE_QUERY - 3 * NUDGE_KEYS[0], ("You moved away from A", "Now C leads")),
    ([-5, 0], ("Now C leads",)),
    ([2, 0.5], ("You shortened the query", "from 6 to 3.")),
    ([5, 2], ("is still 6",)),
    ([2.73, 2.27], ("from 6 to 0.92.",)),
    ([3, 3], ("from 6 to 0.",)),
])
def test_a_nudge_is_told_what_it_did_to_the_gap_and_who_leads(query, told):
    message = check("least_nudge", query).message
    assert all(part in message for part in told), message
    assert ("C leads" in message) == (np.argmax(NUDGE_KEYS @ query) == 2)


def one_row_only(z):
    if np.ndim(z) > 1:
        raise ValueError("one row, please")
    return by_broadcasting(z)


def at_most_one_axis(z):
    if np.ndim(z) > 2:
        raise ValueError("a table, please")
    return by_broadcasting(z)


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_batch_that_raises_is_told_from_a_row_that_is_right(exercise):
    judge = {"softmax_jacobian": lambda f: lambda z: f(z),
             "softmax_backward": lambda f: lambda p, g: (f(p), short_form(p, g))[1]}[exercise]
    message = check(exercise, judge(one_row_only)).message
    assert "One row is right, and a batch is not" in message
    message = check(exercise, judge(at_most_one_axis)).message
    assert "raised" in message and "One axis before the last is right, and two are not." in message


def by_einsum_table(p, g):
    return np.einsum("...i,...ij->...j", g, by_broadcasting(np.log(np.maximum(p, 1e-300))))


TABLES = (by_table, by_table_turned, by_einsum_table)


@pytest.mark.parametrize("function", [*TABLES, *RIGHT["softmax_backward"]])
def test_a_table_is_told_by_its_memory(function):
    verdict = check("softmax_backward", function)
    assert verdict.passed
    assert ("without the table" in verdict.message) == (function in TABLES), verdict.message


def test_memory_is_measured_beside_another_measurement():
    tracemalloc.start()
    try:
        assert "without the table" in check("softmax_backward", by_table).message
        assert "without the table" not in check("softmax_backward", short_form).message
        assert tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()
    check("softmax_backward", by_table)
    assert not tracemalloc.is_tracing()


def test_verdicts_print_what_tells_a_number_from_its_limit():
    too_short = check("least_nudge", NUDGE_QUERY + 1.781 * step)
    assert too_short.misconception == "too_short", too_short.message
    assert "size 0.2000" not in too_short.message and "a little too short" in too_short.message
    assert "moved by 1.8000;" not in check("least_nudge", NUDGE_QUERY + 1.80001 * step).message
    assert "0.5007" in check("drowned", [149, 22028]).message
    assert "holds 0.50002." in check("drowned", [150, 22026]).message


ODD = [None, ..., "a string", "E", [], {}, 3, -1.5, float("nan"), [np.nan, 1], [np.inf, 2], np.zeros((3, 3)),
       np.zeros((2000, 2000)), [[1, 2], [3]], [None, 1], object(), True, 1j, [10**400, 1], [1e300, -1e300],
       np.array(["a", "b"]), lambda: 3, lambda *a: None, lambda *a: "x", lambda *a: a[0][0], print,
       lambda *a: np.full(np.shape(a[0]), np.nan), lambda *a: 1 / 0, lambda *a: exit(), np.zeros((10, 0))]


@pytest.mark.parametrize("exercise", JUDGES)
@pytest.mark.parametrize("answer", ODD, ids=lambda x: str(x)[:20])
def test_odd_answers_are_judged_and_never_right(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is not True
    assert verdict.message


LOUD = [[[1e308, -1e308]] * 10, [1e300, 2e300], [150, 1e300], [1.7e308, -1.7e308],
        lambda *a: 1j * np.ones((*np.shape(a[0]), np.shape(a[0])[-1])), lambda *a: 1j * a[0],
        lambda *a: np.full(np.shape(a[0]), 1e308), lambda *a: np.full((*np.shape(a[0]), np.shape(a[0])[-1]),
                                                                      1e308)]


@pytest.mark.parametrize("exercise", JUDGES)
def test_no_warning_leaks_and_no_number_fills_the_line(exercise):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for answer in [*ODD, *LOUD]:
            verdict = check(exercise, answer)
            assert verdict.passed is not True
            assert "0" * 60 not in verdict.message, verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_stubs_are_unanswered(exercise):
    def stub(*args):
        raise NotImplementedError

    assert check(exercise, stub).passed is None
    assert isinstance(JUDGES[exercise], FunctionExercise)


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_verdict_is_quick(exercise):
    begun = time.process_time()
    check(exercise, lambda *args: np.full((1, 1), 7.0))      # recognised by nothing: all pairs are tried
    assert time.process_time() - begun < 10  # a second or less on an idle machine


def test_the_least_nudge_is_the_least():
    """No query nearer than 1.78 has the slope, in any direction."""
    angles = np.linspace(0, 2 * np.pi, 721)
    ways = np.stack([np.cos(angles), np.sin(angles)], -1)
    for length in (0.5, 1.0, 1.5, 1.75):
        w = weights((NUDGE_QUERY + length * ways) @ NUDGE_KEYS.T)
        assert (w[:, 1] * (1 - w[:, 1]) < 0.2).all()

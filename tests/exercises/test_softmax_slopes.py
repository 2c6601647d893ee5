"""The softmax's slopes: every right way accepted, every known mistake named, nothing crashes."""

import itertools
import time
import tracemalloc

import numpy as np
import pytest
import torch  # here, for a first import inside a judged function may take longer than it is given

import attnlib
from attnlib.exercises import check
from attnlib.exercises.softmax_slopes import EXERCISES

JUDGES = {exercise.id: exercise.judge for exercise in EXERCISES}


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


RIGHT = {
    "softmax_jacobian": [by_broadcasting, by_einsum, by_loops, by_columns, in_float32, through_torch,
                         by_autograd],
    "softmax_backward": [short_form, by_table, by_table_turned, by_products, by_rows, back_in_float32,
                         back_through_torch],
}


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise", EXERCISES, ids=JUDGES)
def test_solutions_pass_and_hints_go_on(exercise):
    names = {}
    exec(exercise.solution, names)
    verdict = check(exercise.id, names[exercise.id])
    assert verdict.passed is True and "without the table" not in verdict.message, verdict.message
    assert len(exercise.hints) in (2, 3)


@pytest.mark.parametrize("exercise, mistake", [(e, m) for e, f in JUDGES.items() for m in f.mistakes],
                         ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    judge = JUDGES[exercise]
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


def built_in_front(z):
    """The two axes of the table in front of the batch, and the shape put right by force."""
    p = np.moveaxis(weights(z), -1, 0)
    table = np.stack([np.stack([p[i] * ((i == j) - p[j]) for j in range(len(p))]) for i in range(len(p))])
    return table.reshape(*z.shape, z.shape[-1])


def diagonal_set_to_p(z):
    p = weights(z)
    table = -p[..., :, None] * p[..., None, :]
    at = np.arange(p.shape[-1])
    table[..., at, at] = p
    return table


def lower_loop(z):
    p = weights(z)
    table = np.zeros((*z.shape, z.shape[-1]))
    for i in range(z.shape[-1]):
        for j in range(i + 1):
            table[..., i, j] = p[..., i] * ((i == j) - p[..., j])
    return table


def pushed_far(z):
    z = z.astype(float)
    pushes = 0.01 * np.eye(z.shape[-1])
    return np.stack([(weights(z + push) - weights(z)) / 0.01 for push in pushes], -1)


def pushed_by(step):
    def jacobian(z):
        z = z.astype(float)
        pushes = np.eye(z.shape[-1]) * step
        return np.stack([(weights(z + push) - weights(z)) / step for push in pushes], -1)

    return jacobian


def in_half(z):
    z = z.astype(np.float16)
    e = np.exp(z - z.max(-1, keepdims=True))
    p = e / e.sum(-1, keepdims=True)
    return p[..., :, None] * (np.eye(z.shape[-1], dtype=np.float16) - p[..., None, :])


def every_row_with_every_row(z):
    z = torch.tensor(z.astype(float))
    return torch.autograd.functional.jacobian(lambda s: torch.softmax(s, -1), z).numpy()


def rows_of_a_list(z):
    return np.stack([by_broadcasting(row) for row in z.reshape(-1, z.shape[-1])])


def back_in_half(p, g):
    p, g = p.astype(np.float16), g.astype(np.float16)
    return (p * (g - (p * g).sum(-1, keepdims=True))).astype(np.float64)


def first_mean_for_all(p, g):
    return p * (g - (p * g).reshape(-1, p.shape[-1])[0].sum())


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
    ("softmax_jacobian", built_in_front, "batch_mixed"),
    ("softmax_jacobian", diagonal_set_to_p, "diagonal_p"),
    ("softmax_jacobian", lower_loop, "half_a_table"),
    ("softmax_jacobian", pushed_far, "coarse_step"),
    ("softmax_jacobian", pushed_by(1e-14), "fine_step"),
    ("softmax_jacobian", pushed_by(1e-15), "fine_step"),
    ("softmax_jacobian", in_half, "few_digits"),
    ("softmax_jacobian", lambda z: in_half(z).astype(float), "few_digits"),
    ("softmax_jacobian", every_row_with_every_row, "all_with_all"),
    ("softmax_jacobian", rows_of_a_list, "batch_axes_merged"),
    ("softmax_jacobian", lambda z: by_broadcasting(z).squeeze(), "squeezed"),
    ("softmax_jacobian", lambda z: by_broadcasting(weights(z)), "softmax_twice"),
    ("softmax_jacobian", lambda z: np.nan_to_num(unstable(z)), "unstable"),
    ("softmax_jacobian", lambda z: by_broadcasting(z) / len(z), "divided_by_batch"),
    ("softmax_backward", back_in_half, "few_digits"),
    ("softmax_backward", first_mean_for_all, "first_of_batch"),
    ("softmax_backward", lambda p, g: np.clip(short_form(p, g), -1, 1), "slopes_clipped"),
    ("softmax_backward", lambda p, g: short_form(np.clip(p, 0.01, 0.99), g), "weights_clipped"),
    ("softmax_backward", lambda p, g: p * ((p * g) / p - (p * g).sum(-1, keepdims=True)), "divides_by_p"),
    ("softmax_backward", lambda p, g: p * g - (p * g).sum(-1, keepdims=True), "no_second_weight"),
    ("softmax_backward", lambda p, g: short_form(p, g).squeeze(), "squeezed"),
    ("softmax_backward", lambda p, g: -short_form(p, g) / len(p), "negative and divided_by_batch"),
    ("softmax_backward", lambda p, g: p * (g - np.einsum("bi,bi->b", p, g)[:, None]), "one_batch_axis"),
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


@pytest.mark.parametrize("exercise", JUDGES)
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
    noisy = check("softmax_jacobian",
                  lambda z: by_broadcasting(z) * (1 + 0.08 * np.cos(np.arange(z.shape[-1]))))
    assert "near the right one only" in noisy.message and "too fine a step" in noisy.message
    halves = check("softmax_backward", lambda p, g: short_form(p, g).astype(np.float16).astype(float))
    assert "those of half precision" in halves.message
    shifted = check("softmax_backward", lambda p, g: short_form(p, g) + 0.25)
    assert "changes nothing" in shifted.message


def one_row_only(z):
    if np.ndim(z) > 1:
        raise ValueError("one row, please")
    return by_broadcasting(z)


def at_most_one_axis(z):
    if np.ndim(z) > 2:
        raise ValueError("a table, please")
    return by_broadcasting(z)


@pytest.mark.parametrize("exercise", JUDGES)
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
def test_no_warning_leaks_and_no_number_fills_the_line(exercise, no_warnings):
    with no_warnings():
        for answer in [*ODD, *LOUD]:
            verdict = check(exercise, answer)
            assert verdict.passed is not True
            assert "0" * 60 not in verdict.message, verdict.message


@pytest.mark.parametrize("exercise", JUDGES)
def test_stubs_are_unanswered(exercise):
    def stub(*args):
        raise NotImplementedError

    assert check(exercise, stub).passed is None


@pytest.mark.parametrize("exercise", JUDGES)
def test_a_verdict_is_quick(exercise):
    begun = time.process_time()
    check(exercise, lambda *args: np.full((1, 1), 7.0))      # recognised by nothing: all pairs are tried
    assert time.process_time() - begun < 10  # a second or less on an idle machine

"""Lesson 25: the memory and the normed surprise. Right ways accepted, every known mistake named."""

import numpy as np
import pytest
import torch
from judging import NO_FUNCTIONS, RESULTS, its_solution, making, named, odd, stub

from attnlib.exercises import check
from attnlib.exercises.learning_memory import EXERCISES, learning_memory, normed_surprise

# ------------------------------------------------------------- right ways


def by_autograd(q, k, v, theta, eta, alpha):
    q, k, v, theta, eta, alpha = map(torch.tensor, (q, k, v, theta, eta, alpha))
    surprise = torch.func.grad(lambda M, k, v: ((k @ M - v) ** 2).sum())
    M = torch.zeros(k.shape[1], v.shape[1], dtype=k.dtype)
    S, out = M, []
    for t in range(len(k)):
        S = eta[t] * S - theta[t] * surprise(M, k[t], v[t])
        M = (1 - alpha[t]) * M + S
        out.append(q[t] @ M)
    return torch.stack(out).numpy()


def values_first(q, k, v, theta, eta, alpha):
    """The memory as (dv, d), and the step with a plus."""
    M = S = np.zeros((v.shape[1], k.shape[1]))
    out = np.empty_like(v)
    for t in range(len(k)):
        S = eta[t] * S + 2 * theta[t] * (v[t] - M @ k[t])[:, None] * k[t][None]
        M = M - alpha[t] * M + S
        out[t] = M @ q[t]
    return out


def with_einsum(q, k, v, theta, eta, alpha):
    M, S = np.zeros((2, k.shape[1], v.shape[1]))
    out = []
    for q_t, k_t, v_t, a, b, c in zip(q, k, v, theta, eta, alpha, strict=True):
        error = np.einsum("d,dv->v", k_t, M) - v_t
        S = b * S - 2 * a * np.einsum("d,v->dv", k_t, error)
        M = M * (1 - c) + S
        out.append(np.einsum("d,dv->v", q_t, M))
    return np.stack(out)


def in_matrices(q, k, v, theta, eta, alpha):
    """The state as one block matrix."""
    d = k.shape[1]
    state = np.zeros((2 * d, v.shape[1]))                  # M over S
    out = []
    for t in range(len(k)):
        outer = 2 * theta[t] * np.outer(k[t], k[t])
        eye = np.eye(d)
        move = np.block([[(1 - alpha[t]) * eye - outer, eta[t] * eye], [-outer, eta[t] * eye]])
        add = 2 * theta[t] * np.outer(k[t], v[t])
        state = move @ state + np.concatenate([add, add])
        out.append(q[t] @ state[:d])
    return np.array(out)


@pytest.mark.parametrize("way", [by_autograd, values_first, with_einsum, in_matrices])
def test_right_memories_are_accepted(way):
    verdict = learning_memory(way)
    assert verdict.passed, verdict.message


def the_gradient_by_autograd(M, k, v):
    def loss(M):
        y = torch.nn.functional.layer_norm(torch.tensor(k) @ M, (M.shape[1],), eps=1e-5)
        return ((y - torch.tensor(v)) ** 2).sum()

    return torch.func.grad(loss)(torch.tensor(M)).numpy()


def by_the_jacobian(M, k, v):
    z = k @ M
    spread = np.sqrt(z.var() + 1e-5)
    y = (z - z.mean()) / spread
    jacobian = (np.eye(len(z)) - 1 / len(z) - np.outer(y, y) / len(z)) / spread
    return k[:, None] * (jacobian @ (2 * (y - v)))


def in_means(M, k, v):
    z = k @ M
    spread = ((z - z.mean()) ** 2).mean() + 1e-5
    y = (z - z.mean()) * spread**-0.5
    g = 2 * (y - v)
    return np.einsum("d,n->dn", k, (g - g.mean() - y * (g * y).mean()) * spread**-0.5)


@pytest.mark.parametrize("way", [the_gradient_by_autograd, by_the_jacobian, in_means])
def test_right_gradients_are_accepted(way):
    verdict = normed_surprise(way)
    assert verdict.passed, verdict.message


def test_the_references_are_right_by_autograd():
    rng = np.random.default_rng(0)
    M, k, v = rng.normal(size=(3, 5)), rng.normal(size=3), rng.normal(size=5)
    np.testing.assert_allclose(normed_surprise.compute(M, k, v), the_gradient_by_autograd(M, k, v))
    q, k, v = rng.normal(size=(3, 6, 4)) / 2
    dials = rng.uniform(0.05, 0.3, size=(3, 6))
    np.testing.assert_allclose(learning_memory.compute(q, k, v, *dials), by_autograd(q, k, v, *dials))


@pytest.mark.parametrize("exercise", [e.id for e in EXERCISES])
def test_solutions_pass_and_stubs_are_no_answers(exercise):
    assert check(exercise, its_solution(exercise), show=False).passed
    assert check(exercise, stub, show=False).passed is None


# ------------------------------------------------------------- mistakes

MISTAKES = [(e.id, m) for e in EXERCISES for m in e.judge.mistakes]


@pytest.mark.parametrize("exercise, mistake", MISTAKES, ids=[f"{m.name} {m.choices}" for _, m in MISTAKES])
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


@pytest.mark.parametrize("choices, names", [
    ({"factor": 1.0, "read": "before"}, "no_two and read_before"),
    ({"decay": "none", "momentum": "none"}, "nothing_forgotten and no_momentum"),
    ({"at": "forgotten", "dials": "kept_share"}, "error_after_forgetting and alpha_stays"),
    ({"sign": -1.0, "error": "reads_key"}, "climbs and reads_key"),
])  # fmt: skip
def test_two_mistakes_are_both_named(choices, names):
    verdict = check("learning_memory", making("learning_memory", **choices), show=False)
    assert verdict.passed is False
    assert set(verdict.misconception.split(" and ")) == set(names.split(" and ")), verdict.message


def printed(M, k, v):
    """The function as the lesson prints it."""
    z = k @ M
    spread = np.sqrt(z.var() + 1e-5)
    y = (z - z.mean()) / spread
    g = 2 * (y - v)
    n = len(z)
    slope = n * g - g.sum() / (n * spread) - y * (g * y).sum() / (n * spread)
    return np.outer(k, slope)


def test_the_printed_function_is_unmended():
    assert normed_surprise(printed).misconception == "unmended"


def test_the_printed_function_hides_where_width_times_spread_is_one():
    rng = np.random.default_rng(1)
    M, k, v = rng.normal(size=(3, 4)), rng.normal(size=3), rng.normal(size=4)
    M = M * np.sqrt(1 / 16 - 1e-5) / (k @ M).std()         # four features, a spread of 1 / 4
    np.testing.assert_allclose(printed(M, k, v), normed_surprise.compute(M, k, v))


@pytest.mark.parametrize("exercise", [e.id for e in EXERCISES])
@pytest.mark.parametrize("result", RESULTS)
def test_other_results_are_judged(exercise, result):
    odd(exercise, result)


@pytest.mark.parametrize("answer", NO_FUNCTIONS)
def test_what_is_no_function_is_said_to_be_none(answer):
    assert learning_memory(answer).passed is False
    assert normed_surprise(answer).passed is False


def test_ids_and_hints():
    assert [exercise.id for exercise in EXERCISES] == ["learning_memory", "normed_surprise"]
    assert all(exercise.lesson == "25" and len(exercise.hints) == 3 for exercise in EXERCISES)

"""The engine that judges functions, tried on two small exercises of its own."""

import random
import time

import numpy as np
import pytest
import torch

from attnlib.exercises.calls import call
from attnlib.exercises.function import Case, FunctionExercise, Mistake


def weighted(p, g, *, centre="weighted", factor=True):
    """p * (g - sum(p g)): the softmax's backward pass, with two choices."""
    summed = {"weighted": p * g, "plain": g, "none": 0 * g}[centre]
    return (p if factor else 1) * (g - summed.sum(-1, keepdims=True))


def weighted_cases():
    rng = np.random.default_rng(1)
    p, g = rng.dirichlet(np.ones(4), size=3), rng.normal(size=(3, 4))
    return [
        Case("three rows", (p, g)),
        Case("one row", (p[0], g[0])),
        Case("zero weights", (np.eye(4), g[0] * 1e3), hint="What is the row's mean there?"),
    ]


BACKWARD = FunctionExercise(
    weighted,
    weighted_cases,
    (
        Mistake("plain_sum", "You subtract the plain sum.", {"centre": "plain"}),
        Mistake("no_centre", "You subtract nothing.", {"centre": "none"}),
        Mistake("no_factor", "The weight itself is lost.", {"factor": False}),
    ),
    "All three cases agree.",
    properties=(
        lambda case, value, expected: "A row does not sum to 0." if abs(value.sum(-1)).max() > 1e-6 else None,
    ),
)


@pytest.mark.parametrize(
    "function",
    [
        weighted,
        lambda p, g: p * g - p * np.einsum("...i,...i->...", p, g)[..., None],
        lambda p, g: weighted(p.astype(np.float32), g.astype(np.float32)),
        lambda p, g: weighted(torch.as_tensor(p), torch.as_tensor(g)).numpy(),
    ],
)
def test_right_is_right(function):
    verdict = BACKWARD(function)
    assert verdict.passed and verdict.message == "All three cases agree."


def test_a_mistake_and_a_pair_are_named_by_what_they_compute():
    one = BACKWARD(lambda p, g: p * (g - np.sum(g, -1, keepdims=True)))
    assert one.passed is False and one.misconception == "plain_sum"
    assert one.message == "On three rows: You subtract the plain sum."
    assert np.array_equal(one.case[0], weighted_cases()[0].args[0])
    two = BACKWARD(lambda p, g: g - g.sum(-1, keepdims=True))
    assert two.misconception == "plain_sum and no_factor"
    assert two.message.startswith("On three rows: Two things at once.")


def test_where_nothing_fits_the_broken_property_and_one_entry_are_named():
    verdict = BACKWARD(lambda p, g: weighted(p, g) + 0.5)
    assert verdict.misconception is None
    assert verdict.message.startswith("On three rows: A row does not sum to 0. Index 0, 0 of the result ")


def test_the_first_case_that_fails_brings_its_hint():
    verdict = BACKWARD(lambda p, g: weighted(p, g) if abs(g).max() < 100 else g * np.nan)
    assert verdict.message.startswith("On zero weights: ") and verdict.message.endswith("mean there?")


def test_right_under_another_convention_is_said():
    exercise = FunctionExercise(
        lambda x, *, sign=1: sign * x,
        lambda: [Case("two numbers", (np.ones(2),))],
        (Mistake("minus", "The sign is turned.", {"sign": -1}, convention=True),),
        "Right.",
    )
    verdict = exercise(lambda x: -x)
    assert verdict.message == "On two numbers: Right under another convention. The sign is turned."


def raises(error):
    def function(p, g):
        raise error

    return function


def mutates(p, g):
    p *= 2
    return p


def stateful():
    seen = []

    def function(p, g):
        seen.append(1)
        return weighted(p, g) * (1 if len(seen) <= 3 else 2)

    return function


def test_a_single_number_is_asked_for_in_words():
    mean = FunctionExercise(lambda x: x.mean(), lambda: [Case("a row", (np.arange(3.0),))], (), "Right.")
    assert "must be a number; yours is of type str" in mean(lambda x: "1").message
    assert "must be a number; yours is a list of 1" in mean(lambda x: [1.0]).message


@pytest.mark.parametrize(
    "answer, says",
    [
        (3, "Give a function"),
        ("softmax", "Give a function"),
        (raises(ValueError("no\n such  axis")), "your function raised ValueError: no such axis."),
        (raises(SystemExit()), "your function raised SystemExit"),
        (raises(RecursionError()), "your function raised RecursionError"),
        (lambda p: p, "your function raised TypeError"),
        (lambda p, g: None, "your function returned None. Does it end with a return?"),
        (lambda p, g: "rows", "must be a NumPy array; yours is of type str"),
        (lambda p, g: [1.0, 2.0], "must be a NumPy array; yours is a list of 2"),
        (lambda p, g: torch.ones(3, 4), "must be a NumPy array; yours is a torch tensor"),
        (lambda p, g: np.array(["a"]), "must hold real numbers"),
        (lambda p, g: p * 1j, "must hold real numbers"),
        (lambda p, g: p > 0, "must be of numbers"),
        (lambda p, g: p[:, :2], r"must have shape (3, 4); yours has (3, 2)"),
        (lambda p, g: 0.0, r"must have shape (3, 4); yours has ()"),
        (lambda p, g: p * np.nan, "yours is nan"),
        (mutates, "changed its argument number 1"),
        (stateful(), "right the first time and not the second"),
    ],
)
def test_whatever_is_handed_in_gets_a_sentence(answer, says):
    verdict = BACKWARD(answer)
    assert verdict.passed is False and says in verdict.message
    assert "?." not in verdict.message and ".." not in verdict.message


def test_a_stub_is_not_answered_yet():
    assert BACKWARD(raises(NotImplementedError())).passed is None


def test_a_function_of_the_package_is_no_answer():
    from attnlib import softmax

    def imports(p, g):
        from attnlib import softmax

        return softmax(p)

    assert BACKWARD(lambda p, g: softmax(p)).misconception == "package"
    assert BACKWARD(imports).misconception == "package"


def test_several_results_are_compared_one_by_one():
    exercise = FunctionExercise(
        lambda x: (x, x.sum()), lambda: [Case("a row", (np.arange(3.0),))], (), "Right."
    )
    assert exercise(lambda x: [x, float(x.sum())]).passed  # a plain number is a result
    assert "result 2 of 2" in exercise(lambda x: (x, x.mean())).message
    assert "must return 2 results" in exercise(lambda x: x).message


def square(x, *, power=2):
    return x**power


GRADIENT = FunctionExercise(
    square,
    lambda: [Case("three numbers", (torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64),), gradient_of=(0,))],
    (Mistake("cube", "You took the third power.", {"power": 3}),),
    "Right.",
)


def test_gradients_are_compared_where_a_case_asks():
    assert GRADIENT(lambda x: x * x).passed
    assert GRADIENT(lambda x: x * x * x).misconception == "cube"
    assert "has no gradient" in GRADIENT(lambda x: x.detach() ** 2).message
    assert "result 2 of 2" in GRADIENT(lambda x: x * x.detach()).message


# calling


def test_arrays_go_in_as_copies_with_their_order_in_memory():
    x, t = np.ones((2, 3)).T, torch.ones(2, 3).T
    outcome = call(lambda a, b: (a, b), (x, t))
    a, b = outcome.value
    assert a is not x and b is not t and not np.shares_memory(a, x)
    assert a.strides == x.strides and b.stride() == t.stride()
    assert outcome.changed is None
    assert call(lambda a, b: b.add_(1), (x, t)).changed == 1
    assert call(lambda a: a, (np.array([np.nan, 1]),)).changed is None


def test_an_endless_function_is_stopped_even_if_it_catches_exceptions():
    def endless(x):
        while True:
            try:
                x = x + 1
            except Exception:
                pass

    start = time.monotonic()
    outcome = call(endless, (0,), seconds=0.2)
    assert "did not end within 0.2 seconds" in outcome.error and time.monotonic() - start < 5


def test_global_random_states_are_left_alone_and_prints_dropped(capsys):
    def noisy():
        print("noise")
        return random.random() + np.random.rand() + float(torch.rand(()))

    with torch.random.fork_rng():
        before = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
        call(noisy, ())
        assert random.getstate() == before[0]
        assert np.array_equal(np.random.get_state()[1], before[1])
        assert torch.equal(torch.get_rng_state(), before[2])
    assert capsys.readouterr().out == ""


def test_an_interrupt_by_the_learner_passes_through():
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        call(interrupt, ())

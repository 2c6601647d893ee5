"""The engine that judges functions, tried on two small exercises of its own."""

import random
import re
import sys
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
    assert re.fullmatch(
        r"On three rows, index 0, 0 of the result should be -?[\d.]+; yours is -?[\d.]+\. "
        r"You subtract the plain sum\.", one.message
    )
    assert np.array_equal(one.case[0], weighted_cases()[0].args[0])
    two = BACKWARD(lambda p, g: g - g.sum(-1, keepdims=True))
    assert two.misconception == "plain_sum and no_factor"
    assert two.message.endswith("Two things at once. You subtract the plain sum. The weight itself is lost.")


def test_conventions_that_differ_are_counted():
    other = Mistake("other", "You negate. You halve.", {"sign": -1, "over": 2}, convention=True, things=2)
    wrong = Mistake("no_factor", "The weight itself is lost.", {"factor": False})

    def compute(p, g, *, sign=1, over=1, factor=True):
        return sign * weighted(p, g, factor=factor) / over

    judge = FunctionExercise(compute, weighted_cases, (other, wrong), "All three cases agree.")
    assert "Right under another convention. You" in judge(lambda p, g: -weighted(p, g) / 2).message
    verdict = judge(lambda p, g: -weighted(p, g, factor=False) / 2)
    assert verdict.message.endswith("Three things at once. You negate. You halve. The weight itself is lost.")


def test_where_nothing_fits_the_broken_property_and_one_entry_are_named():
    verdict = BACKWARD(lambda p, g: weighted(p, g) + 0.5)
    assert verdict.misconception is None
    assert verdict.message.startswith("On three rows: A row does not sum to 0. Index 0, 0 of the result ")


def test_the_first_case_that_fails_brings_its_hint():
    verdict = BACKWARD(lambda p, g: weighted(p, g) if abs(g).max() < 100 else g * np.nan)
    assert verdict.message.startswith("On zero weights, the result must ")
    assert verdict.message.endswith("mean there?")


def test_right_under_another_convention_is_said():
    exercise = FunctionExercise(
        lambda x, *, sign=1: sign * x,
        lambda: [Case("two numbers", (np.ones(2),))],
        (Mistake("minus", "The sign is turned.", {"sign": -1}, convention=True),),
        "Right.",
    )
    verdict = exercise(lambda x: -x)
    assert verdict.message == (
        "On two numbers, index 0 of the result should be 1; yours is -1. Right under another convention. "
        "The sign is turned."
    )


def raises(error):
    def function(p, g):
        raise error

    return function


def mutates(p, g):
    p *= 2
    return p


class Everything:
    def __eq__(self, other):
        return True

    def __call__(self, p, g):
        return None


class EqualArray(np.ndarray):
    def __eq__(self, other):
        return np.ones(self.shape, bool)

    def __sub__(self, other):
        return np.zeros(self.shape)


def spoiling():
    """Right each time; the fourth call spoils what the first one returned."""
    results = []

    def function(p, g):
        results.append(weighted(p, g))
        if len(results) == 4:
            results[0][...] = 0
        return results[-1]

    return function


def storing():
    """Right three times, then a stored result."""
    results = []

    def function(p, g):
        results.append(weighted(p, g))
        return results[-1] if len(results) <= 3 else results[0]

    return function


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
        (lambda p: p, "must take the arguments (p, g), and it takes (p): too many positional arguments"),
        (lambda p, g: None, "your function returned None. Does it end with a return?"),
        (lambda p, g: "rows", "must be a NumPy array; yours is of type str"),
        (lambda p, g: [1.0, 2.0], "must be a NumPy array; yours is a list of 2"),
        (lambda p, g: torch.ones(3, 4), "must be a NumPy array; yours is a torch tensor"),
        (lambda p, g: np.array(["a"]), "must hold real numbers"),
        (lambda p, g: p * 1j, "must hold real numbers"),
        (lambda p, g: p > 0, "must be of numbers"),
        (lambda p, g: p[:, :2], r"must have shape (3, 4); yours has (3, 2)"),
        (lambda p, g: 0.0, "must be a NumPy array; yours is a number"),
        (lambda p, g: np.float64(0), r"must have shape (3, 4); yours has ()"),
        (lambda p, g: np.ones((3, 4), int), "must be of a floating type; yours has dtype int64"),
        (lambda p, g: np.full(p.shape, None), "must hold real numbers"),
        (lambda p, g: Everything(), "must be a NumPy array; yours is of type Everything"),
        (lambda p, g: (p * 0).view(EqualArray), "should be"),
        (lambda p, g: p.T[:].T, "yours is"),
        (Everything(), "your function returned None"),
        (spoiling(), "a later call changed it"),
        (storing(), "was right the first time and not the second"),
        (lambda p, g: weighted(p, g) + np.random.rand(), "should be"),
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
    assert "index 0 of the gradient in x should be" in GRADIENT(lambda x: x * x.detach()).message
    assert "must be a torch tensor; yours is a tuple of 2" in GRADIENT(lambda x: (x * x, x)).message


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


def test_a_dict_of_arrays_goes_in_as_a_copy_and_two_are_never_taken_for_one():
    def total(x, weights):
        return x @ weights["w"] + weights["b"]

    def made(seed):
        rng = np.random.default_rng(seed)
        return rng.normal(size=3), {"w": rng.normal(size=(3, 2)), "b": rng.normal(size=2)}

    cases = [Case("the first", made(1)), Case("the same shapes", made(2))]
    judge = FunctionExercise(total, lambda: cases, (), "Right.")
    assert judge(total).passed

    def emptied(x, weights):
        return x @ weights.pop("w") + weights["b"]

    def added(x, weights):
        weights["b"] += x @ weights["w"]
        return weights["b"]

    for function in (emptied, added):
        verdict = judge(function)
        assert verdict.misconception == "changes_input" and "argument number 2" in verdict.message
    assert cases[0].args[1].keys() == {"w", "b"} and judge(total).passed


def test_an_endless_function_is_stopped_even_if_it_catches_exceptions():
    def endless(x):
        while True:
            try:
                x = x + 1
            except Exception:
                pass

    start = time.monotonic()
    outcome = call(endless, (0,), seconds=0.2)
    assert outcome.late and "did not end within the time" in outcome.error
    assert time.monotonic() - start < 5


def test_a_function_that_works_without_end_is_stopped_by_the_time_it_worked():
    def endless(x):
        while True:
            x = x + 1

    assert call(endless, (0,), seconds=600, cpu_seconds=0.1).late
    verdict = BACKWARD(lambda p, g: endless(0))
    assert verdict.misconception == "too_slow" and "three rows" in verdict.message


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


def test_what_is_global_is_the_same_for_every_call_and_put_back_after_it():
    seen = []

    def function():
        seen.append((torch.get_default_dtype(), torch.is_grad_enabled(), np.random.rand(), random.random(),
                     float(torch.rand(()))))
        torch.set_default_dtype(torch.float16)
        np.seterr(all="raise")
        return 1

    before = torch.get_default_dtype()
    with torch.random.fork_rng():
        for seed, dtype in ((1, torch.float64), (2, torch.float32)):
            random.seed(seed)
            np.random.seed(seed)
            torch.manual_seed(seed)
            torch.set_default_dtype(dtype)
            try:
                with torch.no_grad():
                    call(function, ())
                    assert not torch.is_grad_enabled()
                assert torch.get_default_dtype() == dtype
            finally:
                torch.set_default_dtype(before)
    assert seen[0] == seen[1] and seen[0][:2] == (torch.float32, True)
    assert np.geterr()["divide"] != "raise"


# Diagnosis

SHIFTS = FunctionExercise(
    lambda x, *, times=1, plus=0, limit=np.inf, fill=-1e9: np.minimum(x * times + plus, limit),
    lambda: [Case("small", (np.array([1.0, 2.0]),)), Case("large", (np.array([50.0, 90.0, 7.0]),)),
             Case("negative", (np.array([-3.0]),))],
    (
        Mistake("doubled", "You double.", {"times": 2}),
        Mistake("moved", "You add one.", {"plus": 1}),
        Mistake("cut", "You cut at 60.", {"limit": 60}),
    ),
    "Right.",
)  # fmt: skip


def test_a_pair_is_found_where_one_of_the_two_does_not_show_on_the_first_case():
    verdict = SHIFTS(lambda x: np.minimum(2 * x, 60))
    assert verdict.misconception == "doubled and cut"


def test_what_fits_most_failing_cases_is_said_with_its_reservation():
    verdict = SHIFTS(lambda x: 2 * x if len(x) < 3 else 3 * x)
    assert verdict.misconception == "doubled" and "it may not be all" in verdict.message
    assert SHIFTS(lambda x: 2 * x if len(x) == 2 else 3 * x).misconception is None


def test_a_style_is_no_mistake_and_is_tried_with_each():
    def compute(x, *, times=1, fill=-1.0):
        return np.where(x > 0, x * times, fill if times != 1 else 0)

    exercise = FunctionExercise(
        compute, lambda: [Case("both signs", (np.array([1.0, -1.0]),))],
        (Mistake("doubled", "You double.", {"times": 2}),), "Right.", styles=({}, {"fill": -9.0}),
    )  # fmt: skip
    assert exercise(lambda x: np.where(x > 0, x * 2, -9)).misconception == "doubled"
    assert exercise(lambda x: np.where(x > 0, x, 0)).passed


def test_an_exception_is_recognised_by_its_words_where_nothing_else_fails():
    def compute(x, *, broken=False):
        if broken:
            raise RuntimeError("sizes 3 and 4 do not match")
        return x

    exercise = FunctionExercise(
        compute, lambda: [Case("a row", (np.ones(3),))], (Mistake("broken", "It breaks.", {"broken": True}),),
        "Right.",
    )  # fmt: skip
    assert exercise(raises_with(RuntimeError("sizes 7 and 9 do not match"))).misconception == "broken"
    assert exercise(raises_with(RuntimeError("no such axis"))).misconception is None


def raises_with(error):
    def function(x):
        raise error

    return function


def test_several_calls_of_one_case_are_driven():
    def drive(function, x):
        return np.array([function(part) for part in x])

    exercise = FunctionExercise(
        lambda x, *, twice=False: x * (2 if twice else 1), lambda: [Case("four numbers", (np.arange(4.0),))],
        (Mistake("twice", "You double.", {"twice": True}),), "Right.", drive=drive,
    )  # fmt: skip
    assert exercise(lambda number: number).passed
    assert exercise(lambda number: 2 * number).misconception == "twice"


def test_the_dtype_of_the_first_argument_is_asked_for_where_promised():
    exercise = FunctionExercise(
        lambda x: x, lambda: [Case("float32", (torch.ones(2),)), Case("float16", (torch.ones(2).half(),))],
        (), "Right.", same_dtype=True,
    )  # fmt: skip
    assert exercise(lambda x: x).passed and exercise(lambda x: x.float()).passed
    assert "dtype of its first argument, torch.float32" in exercise(lambda x: x.double()).message


def test_a_call_that_waited_for_an_import_is_made_again(monkeypatch):
    calls = []

    def function():
        calls.append(1)
        if len(calls) == 1:
            monkeypatch.setitem(sys.modules, "loaded_by_a_call", random)
            while True:
                pass
        return 1

    assert call(function, (), cpu_seconds=0.1).value == 1 and len(calls) == 2


def test_a_result_stored_by_shape_is_told_by_the_case_that_it_belongs_to():
    exercise = FunctionExercise(
        lambda x: 2 * x, lambda: [Case("a row", (np.arange(3.0),)), Case("another", (np.ones(3),))], (),
        "Right.",
    )  # fmt: skip
    stored = {}
    verdict = exercise(lambda x: stored.setdefault(x.shape, 2 * x))
    assert verdict.misconception == "state" and "what your function gave on a row" in verdict.message
    assert exercise(lambda x: 2 * x * (x.sum() != 3) + 7 * (x.sum() == 3) * np.ones(3)).misconception is None


def test_a_tuple_beside_an_array_is_no_array_to_be_filled_anew():
    exercise = FunctionExercise(
        lambda x, cuts: sum(x[: cuts[0]]), lambda: [Case("ones", (np.ones(3), (2, 3))),
                                                    Case("twos", (2 * np.ones(3), (2, 3)))], (), "Right.",
    )  # fmt: skip
    assert exercise(lambda x, cuts: x[: cuts[0]].sum()).passed
    kept = {}
    assert exercise(lambda x, cuts: kept.setdefault(id(x), x[: cuts[0]].sum())).misconception == "state"


def test_a_wrong_result_of_chance_is_told_as_one():
    for draw in (random.random, np.random.rand, lambda: float(torch.rand(()))):
        verdict = BACKWARD(lambda p, g: weighted(p, g) + draw())  # noqa: B023
        assert verdict.misconception == "random" and "draws random numbers" in verdict.message


# What a newcomer tried


def test_the_session_s_own_settings_do_not_reach_the_verdict():
    device, threads = torch.get_default_device(), torch.get_num_threads()
    try:
        torch.set_default_device("meta")
        with np.errstate(all="raise"), torch.no_grad():
            assert GRADIENT(lambda x: x * x).passed
            assert BACKWARD(weighted).passed
            assert not torch.is_grad_enabled() and np.geterr()["divide"] == "raise"
        with torch.inference_mode():
            assert GRADIENT(lambda x: x * x).passed
        assert torch.get_default_device().type == "meta"
    finally:
        torch.set_default_device(None)
    assert torch.get_default_device() == device and torch.get_num_threads() == threads


def test_a_function_that_swallows_what_stops_it_is_stopped():
    def stubborn():
        x = 0
        while True:
            try:
                x += 1
            except:  # noqa: E722
                pass

    assert call(stubborn, (), seconds=0.2).late


def endless_list():
    parts = []
    parts.append(parts)
    return parts


def nested_list():
    parts = []
    for _ in range(5000):
        parts = [parts]
    return parts


@pytest.mark.parametrize("make", [endless_list, nested_list, lambda: list(range(10**6)), lambda: [[]] * 10**5,
                                  lambda: np.ones(10**7)])  # fmt: skip
def test_a_result_without_measure_is_refused_at_once(make):
    begun = time.process_time()
    verdict = BACKWARD(lambda p, g: make())
    assert verdict.passed is False and "On three rows, the result must" in verdict.message
    assert time.process_time() - begun < 10  # a tenth of a second on an idle machine


def test_a_big_endian_result_is_of_a_floating_type():
    assert BACKWARD(lambda p, g: weighted(p, g).astype(">f8")).passed


def test_another_thread_does_not_take_the_streams(capsys):
    import threading

    entered, leave = threading.Event(), threading.Event()

    def waits():
        entered.set()
        leave.wait(10)
        return 1

    thread = threading.Thread(target=call, args=(waits, ()))
    thread.start()
    entered.wait(10)
    print("seen")
    leave.set()
    thread.join()
    assert capsys.readouterr().out == "seen\n"

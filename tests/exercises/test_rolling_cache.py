"""Lesson 17's rolling cache: right ways pass, each mistake is named, and a state that grows is noticed."""

from collections import deque

import numpy as np
import pytest
import torch
from judging import NO_FUNCTIONS, its_solution, mistakes, stub

from attnlib import attention, causal, first, window
from attnlib.exercises import check
from attnlib.exercises import rolling_cache as judge
from attnlib.exercises.catalogue import EXERCISES


def weighted(q_t, keys, values):
    scores = np.array(keys) @ q_t / np.sqrt(len(q_t))
    e = np.exp(scores - scores.max())
    return e / e.sum() @ np.array(values)


def by_slots(q_t, k_t, v_t, state, window, sinks):
    """Arrays of a fixed size: the first tokens in front, then a ring."""
    if state is None:
        state = {"t": 0, "k": np.zeros((sinks + window, len(k_t))), "v": np.zeros((sinks + window, len(v_t)))}
    t = state["t"]
    slot = t if t < sinks else sinks + (t - sinks) % window
    state["k"][slot], state["v"][slot] = k_t, v_t           # its own state it may change
    state["t"] = t + 1
    filled = min(t + 1, sinks + window)
    return weighted(q_t, state["k"][:filled], state["v"][:filled]), state


def by_deque(q_t, k_t, v_t, state, window, sinks):
    kept, near, t = state or ([], deque(maxlen=window), 0)
    near = deque(near, maxlen=window)
    near.append((t, k_t, v_t))
    if t < sinks:
        kept = [*kept, (t, k_t, v_t)]
    seen = {t: (k, v) for t, k, v in [*kept, *near]}        # one that is in both counts once
    return weighted(q_t, *zip(*seen.values(), strict=True)), (kept, near, t + 1)


def by_places(q_t, k_t, v_t, state, window, sinks):
    """A dictionary from which what nobody will ask for is thrown away."""
    t = 0 if state is None else max(state) + 1
    state = {} if state is None else dict(state)
    state[t] = np.concatenate([k_t, v_t])
    state = {j: row for j, row in state.items() if j < sinks or j > t - window}
    rows = np.array(list(state.values()))
    return weighted(q_t, rows[:, : len(k_t)], rows[:, len(k_t) :]), state


def in_torch(q_t, k_t, v_t, state, window, sinks):
    new = torch.tensor(np.concatenate([k_t, v_t]))[None]
    rows = new if state is None else torch.cat([state, new])
    if len(rows) > window + sinks:
        rows = torch.cat([rows[:sinks], rows[sinks + 1 :]])
    weights = (rows[:, : len(k_t)] @ torch.tensor(q_t) / len(q_t) ** 0.5).softmax(0)
    return weights @ rows[:, len(k_t) :], rows


class Held:
    """A state of one's own making."""

    def __init__(self):
        self.rows = []


def in_an_object(q_t, k_t, v_t, state, window, sinks):
    state = Held() if state is None else state
    state.rows.append((k_t, v_t))
    if len(state.rows) > window + sinks:
        del state.rows[sinks]
    return weighted(q_t, *zip(*state.rows, strict=True)), state


RIGHT = [by_slots, by_deque, by_places, in_torch, in_an_object, its_solution("rolling_cache")]


@pytest.mark.parametrize("function", RIGHT, ids=lambda f: f.__name__)
def test_right_answers_pass(function):
    verdict = check("rolling_cache", function, show=False)
    assert verdict.passed is True, verdict.message


def test_the_reference_is_attention_with_a_mask():
    for case in judge._cases():
        q, k, v, w, sinks, two = case.args
        rule = causal & (window(w) | first(sinks) if sinks else window(w))
        wanted = [attention(*(x[::step] for x in (q, k, v)), rule.mask(len(q))) for step in (1, -1)]
        given, too_much = judge._rolling(*case.args)
        np.testing.assert_allclose(given, np.concatenate(wanted[: 1 + two]), atol=1e-9)
        assert too_much == 0


@pytest.mark.parametrize("exercise, mistake", mistakes("rolling_cache"), ids=lambda x: str(x)[:40])
def test_mistakes_are_named(exercise, mistake):
    named_by = [m.name for m in EXERCISES[exercise].judge.mistakes]
    assert mistake.name in named_by
    verdict = check(exercise, stepwise(**mistake.choices), show=False)
    assert verdict.passed is False
    assert mistake.name in verdict.misconception, verdict.message


def stepwise(**choices):
    """The mistake as a learner makes it: token by token, over all tokens so far."""
    holds = choices.pop("holds", "little")
    grows = holds == "all" or choices.get("evict") == "never"

    def step(q_t, k_t, v_t, state, window, sinks):
        q, k, v = ([*(state[n] if state else ()), x] for n, x in enumerate((q_t, k_t, v_t)))
        rows, _ = judge._rolling(*map(np.array, (q, k, v)), window, sinks, False, **choices)
        return rows[-1], (q, k, v) if grows else Uncounted((q, k, v))

    return step


class Uncounted(tuple):
    """A state that the count of what is held does not look into."""

    def __call__(self):
        """Callable, and therefore not counted."""


def keeps_all(q_t, k_t, v_t, state, window, sinks):
    rows = [*(state or []), (k_t, v_t)]
    seen = [*rows[: min(sinks, max(0, len(rows) - window))], *rows[-window:]]
    return weighted(q_t, *zip(*seen, strict=True)), rows


def test_a_state_that_grows_is_noticed_where_all_else_is_right():
    verdict = check("rolling_cache", keeps_all, show=False)
    assert verdict.passed is False and verdict.misconception == "keeps_everything"
    assert "every token so far" in verdict.message


def test_a_state_of_its_own_for_each_sequence():
    held = {}

    def shared(q_t, k_t, v_t, state, window, sinks):
        if state is None and held.get("t", 99) > 1:
            held.clear()
            held["state"], held["t"] = None, 0
        out, held["state"] = by_places(q_t, k_t, v_t, held["state"], window, sinks)
        held["t"] += 1
        return out, 1

    verdict = check("rolling_cache", shared, show=False)
    assert verdict.passed is False
    assert "two sequences" in verdict.message.lower()


def all_places(q_t, k_t, v_t, state, window, sinks):
    """As `by_slots`, and what is not filled is looked at too."""
    _, state = by_slots(q_t, k_t, v_t, state, window, sinks)
    return weighted(q_t, state["k"], state["v"]), state


def a_ring_beside_a_list(q_t, k_t, v_t, state, window, sinks):
    kept, ring, t = state or ([], np.zeros((window, len(k_t) + len(v_t))), 0)
    new = np.concatenate([k_t, v_t])
    if t < sinks:
        kept = [*kept, new]
    else:
        ring = ring.copy()
        ring[(t - sinks) % window] = new
    rows = np.array([*kept, *ring])
    return weighted(q_t, rows[:, : len(k_t)], rows[:, len(k_t) :]), (kept, ring, t + 1)


@pytest.mark.parametrize("function", [all_places, a_ring_beside_a_list], ids=lambda f: f.__name__)
def test_places_that_nothing_was_written_to(function):
    verdict = check("rolling_cache", function, show=False)
    assert verdict.passed is False and verdict.misconception == "empty_places", verdict.message


def one_result(q_t, k_t, v_t, state, window, sinks):
    return by_deque(q_t, k_t, v_t, state, window, sinks)[0]


def a_row(q_t, k_t, v_t, state, window, sinks):
    out, state = by_deque(q_t, k_t, v_t, state, window, sinks)
    return out[None], state


@pytest.mark.parametrize("function, words", [
    (one_result, "two results"), (a_row, "shape of v_t"), (lambda q, k: q, "argument"),
    (lambda *args: (None, None), "raised"),
])  # fmt: skip
def test_what_is_no_step_is_told_so(function, words):
    verdict = check("rolling_cache", function, show=False)
    assert verdict.passed is False and words in verdict.message, verdict.message


@pytest.mark.parametrize("answer", NO_FUNCTIONS, ids=str)
def test_what_is_no_function_is_refused(answer):
    assert check("rolling_cache", answer, show=False).passed is False


def test_a_stub_is_no_answer():
    assert check("rolling_cache", stub, show=False).passed is None


@pytest.mark.parametrize("state, count", [
    (None, 0), (3, 1), (np.zeros((2, 3)), 6), ([np.zeros(4), 2.0], 5), ({"a": np.zeros(2), "t": 1}, 3),
    (deque([np.zeros(3)] * 1), 3), (torch.zeros(2, 2), 4), ((np.zeros(2), [np.zeros(3)]), 5),
])  # fmt: skip
def test_what_a_state_holds(state, count):
    assert judge.held(state) == count

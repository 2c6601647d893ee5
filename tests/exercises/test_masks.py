"""The masks' judges: every right way accepted, every known mistake named, odd input survived."""

import inspect
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import attnlib
from attnlib.exercises import check
from attnlib.exercises.masks import EXERCISES

FUNCTIONS = {exercise.id: exercise.judge for exercise in EXERCISES}
SOLUTIONS = {exercise.id: exercise.solution for exercise in EXERCISES}

# Right answers, written in as many ways as learners write them


def causal_by_loops(n_query, n_key):
    mask = np.zeros((n_query, n_key), dtype=bool)
    for i in range(n_query):
        for j in range(n_key):
            mask[i, j] = j <= i + n_key - n_query
    return mask


def causal_of_the_last_rows(n_query, n_key):
    n = max(n_query, n_key)
    return np.tril(np.ones((n, n), bool))[n - n_query :, n - n_key :]


def window_by_loops(n, window):
    mask = np.full((n, n), False)
    for i in range(n):
        mask[i, max(0, i - window + 1) : i + 1] = True
    return mask


def padding_by_loops(tokens, pad_id=0):
    rows = [[[[int(token) != pad_id for token in row]]] for row in tokens]
    return np.array(rows)


def combined_by_loops(tokens, pad_id=0):
    B, L = tokens.shape
    mask = np.zeros((B, 1, L, L), bool)
    for b in range(B):
        for i in range(L):
            for j in range(i + 1):
                mask[b, 0, i, j] = tokens[b, j] != pad_id
    return mask


def combined_by_torch(tokens, pad_id=0):
    real = torch.from_numpy(tokens) != pad_id
    lower = torch.ones(tokens.shape[1], tokens.shape[1]).tril().bool()
    return (real[:, None, None, :] & lower).numpy()


def attnlib_free_causal(n_query, n_key):
    last = np.arange(n_key - n_query, n_key)
    return np.less_equal.outer(np.arange(n_key), last).T


class MaskOfPadding:
    def __call__(self, tokens, pad_id=0):
        return np.equal(np.equal(tokens, pad_id), False).reshape(len(tokens), 1, 1, -1)


RIGHT = {
    "causal_mask": [
        causal_by_loops,
        causal_of_the_last_rows,
        lambda n_query, n_key: np.tril(np.ones((n_query, n_key), dtype=bool), k=n_key - n_query),
        lambda n_query, n_key: ~np.triu(np.ones((n_query, n_key), bool), n_key - n_query + 1),
        lambda a, b: torch.ones(a, b, dtype=torch.bool).tril(b - a).numpy(),
        lambda n_query, n_key: attnlib_free_causal(n_query, n_key),
    ],
    "window_mask": [
        window_by_loops,
        lambda n, window: np.tril(np.ones((n, n), bool)) & ~np.tril(np.ones((n, n), bool), -window),
        lambda n, w: (lambda gap: (gap >= 0) & (gap < w))(np.subtract.outer(np.arange(n), np.arange(n))),
    ],
    "padding_mask": [
        padding_by_loops,
        lambda tokens, pad_id=0: (tokens != pad_id)[:, None, None, :],
        lambda tokens, pad_id=0: np.expand_dims(~np.isin(tokens, [pad_id]), (1, 2)),
        lambda tokens, pad_id=0: (tokens - pad_id).astype(bool)[:, np.newaxis, np.newaxis],
        lambda tokens, pad_id=0: (torch.from_numpy(tokens) != pad_id)[:, None, None].numpy(),
        MaskOfPadding(),
        lambda ids, pad_id=0: np.not_equal(ids, pad_id).reshape(ids.shape[0], 1, 1, -1),
    ],
    "combined_mask": [
        combined_by_loops,
        combined_by_torch,
        lambda t, pad_id=0: (t != pad_id)[:, None, None, :] & causal_by_loops(*2 * t.shape[1:]),
        lambda t, pad_id=0: np.tril(np.repeat((t != pad_id)[:, None, None], t.shape[1], 2)),
    ],
}


# Wrong answers


def combined_opened(tokens, pad_id=0, own=False):
    mask = combined_by_loops(tokens, pad_id)
    shown = np.eye(tokens.shape[1], dtype=bool) if own else True
    return mask | ~mask.any(-1, keepdims=True) & shown


def sliced(n_query, n_key):
    mask = np.zeros((n_query, n_key), bool)
    for i in range(n_query):
        mask[i, : i + n_key - n_query + 1] = True
    return mask


def sliced_window(n, window):
    mask = np.zeros((n, n), bool)
    for i in range(n):
        mask[i, i - window + 1 : i + 1] = True
    return mask


def filled_rows(rows, n_query, n_key):
    mask = np.zeros((n_query, n_key), bool)
    for i in rows:
        mask[i] = np.arange(n_key) <= i + n_key - n_query
    return mask


def window_from_whole_ones(n, window):
    mask = np.zeros((n, n), bool)
    for i in range(window - 1, n):
        mask[i, i - window + 1 : i + 1] = True
    return mask


def kept_pad_id():
    kept = [0]

    def mask(tokens, pad_id=0):
        kept[0] = pad_id or kept[0]
        return (tokens != kept[0])[:, None, None]

    return mask


def kept_masks(function):
    """The function, which keeps the first mask of every shape."""
    kept = {}

    def mask(*args):
        return kept.setdefault(getattr(args[0], "shape", args[0]), function(*args))

    return mask


LATER = [
    ("causal_mask", lambda n_query, n_key: np.tril(np.ones((n_query, n_key), bool)), "start", "is_causal"),
    ("causal_mask", lambda a, b: np.triu(np.ones((a, b), bool), b - a + 1), "polarity", "may attend"),
    ("causal_mask", lambda a, b: np.tril(np.ones((a, b)), b - a), "numbers", "zeros and ones"),
    ("causal_mask", lambda a, b: np.triu(np.ones((a, b), bool)), "start and transposed", "Two things"),
    ("causal_mask", lambda a, b: np.triu(np.full((a, b), -np.inf), b - a + 1), "additive", "added to scores"),
    ("causal_mask", lambda a, b: causal_by_loops(a, b).T, "keys_down", "keys across"),
    ("causal_mask", lambda a, b: np.ones((a, b), bool), "all_shown", "shows everything"),
    ("causal_mask", lambda a, b: np.zeros((a, b), bool), "all_hidden", "hides everything"),
    ("window_mask", lambda n, w: window_by_loops(n, w + 1), "own_not_counted", "FlashAttention"),
    ("window_mask", lambda n, w: causal_by_loops(n, n), "no_window", "no effect"),
    ("padding_mask", lambda tokens, pad_id=0: (tokens != 0)[:, None, None], "pad_id_fixed", "0 whatever"),
    ("padding_mask", lambda tokens, pad_id=0: tokens != pad_id, "two_axes", "(B, L)"),
    ("padding_mask", lambda tokens, pad_id: (tokens != pad_id)[:, None, None], "signature", "pad_id=0"),
    ("combined_mask", lambda t, pad_id=0: (t == pad_id)[:, None, None] & causal_by_loops(*2 * t.shape[1:]),
     "pads_inverted", "padding half is inverted"),
    ("combined_mask", combined_opened, "empty_rows_opened", "stay False"),
    ("combined_mask", lambda t, pad_id=0: combined_opened(t, pad_id, True), "empty_rows_opened", "or future"),
    ("combined_mask", lambda t, pad_id=0: np.eye(t.shape[1]) + combined_by_loops(t) > 1, None, "hides it"),
    ("causal_mask", lambda a, b: np.tril(np.ones((a, b), bool), b - a)[:, ::-1], "columns_turned", "Key 0"),
    ("causal_mask", lambda a, b: np.tril(np.ones((a, b), bool), abs(b - a)), "offset_without_sign", "sign"),
    ("causal_mask", lambda a, b: sliced(a, b), "negative_stop", "from the end"),
    ("causal_mask", lambda a, b: ~np.triu(np.ones((a, b), int), 1 + b - a) != 0, "all_shown", "-1 and -2"),
    ("causal_mask", lambda a, b: np.arange(b, dtype=float).astype(np.int8)
     <= (np.arange(a) + b - a).astype(np.int8)[:, None], "small_positions", "a byte"),
    ("causal_mask", lambda a, b: causal_by_loops(16, 16)[16 - a :, 16 - b :], None, "written into the code"),
    ("causal_mask", lambda a, b: filled_rows(range(a - 1), a, b), "row_left_out", "your last query"),
    ("causal_mask", lambda a, b: filled_rows(range(1, a), a, b), "row_left_out", "your first query"),
    ("causal_mask", lambda a, b: np.array(causal_by_loops(a, b)[:, :1]), None, "columns are the keys"),
    ("window_mask", window_from_whole_ones, "early_rows_left_out", "not empty"),
    ("window_mask", lambda n, w: np.eye(n, dtype=bool) | window_by_loops(n, w - 1), "one_too_few",
     "one key too few"),
    ("window_mask", lambda n, w: window_by_loops(n, min(w, max(n - 1, 1))), "shorter_than_the_text", "wide"),
    ("window_mask", lambda n, w: causal_by_loops(n, n) & np.triu(np.ones((n, n), bool), w - 1),
     "older_edge_ahead", "sign"),
    ("window_mask", lambda n, w: causal_by_loops(n, n) | np.triu(np.ones((n, n), bool), 1 - w), "all_shown",
     "both be true"),
    ("window_mask", lambda n, w: 0 <= np.subtract.outer(np.arange(n), np.arange(n)) < w, "one_truth_value",
     "a chain"),
    ("window_mask", lambda n, w: sliced_window(n, w), "negative_start", "Start at 0"),
    ("window_mask", lambda n, w: sum(np.roll(np.eye(n, dtype=bool), -d, 1) for d in range(w)) > 0,
     "wraps_round", "np.roll"),
    ("window_mask", lambda n, w: window_by_loops(n, 4), "window_fixed", "whatever"),
    ("window_mask", lambda n, w: window_by_loops(n, 2 * w - 1), "reach_of_two_layers", "two layers"),
    ("window_mask", lambda n, w: np.subtract.outer(np.arange(n, dtype=np.uint8),
     np.arange(n, dtype=np.uint8)) < w, "small_positions", "a byte"),
    ("window_mask", kept_masks(window_by_loops), "state", "is left for the next"),
    ("padding_mask", lambda t, pad_id=1: (t != pad_id)[:, None, None], "default", "default is 0"),
    ("padding_mask", lambda t, pad_id=0: (t != (pad_id or -1))[:, None, None], "zero_is_falsy", "False"),
    ("padding_mask", lambda t, pad_id=0: (t.astype(np.uint8) != pad_id)[:, None, None], "narrow_ids", "byte"),
    ("padding_mask", lambda t, pad_id=0: (t.astype(np.float32) != np.float32(pad_id))[:, None, None],
     "narrow_ids", "float32"),
    ("padding_mask", lambda t, pad_id=0: (t.astype(float) != pad_id)[:, None, None], "narrow_ids", "2**53"),
    ("padding_mask", lambda t, pad_id=0: ~np.isclose(t, pad_id)[:, None, None], "ids_close", "isclose"),
    ("padding_mask", kept_masks(padding_by_loops), "state", "is left for the next"),
    ("padding_mask", kept_pad_id(), "state", "With the same input again"),
    ("padding_mask", lambda t, pad_id=0: (np.abs(t) != pad_id)[:, None, None], "sign_dropped", "negative"),
    ("padding_mask", lambda t, pad_id=0: (np.abs(t) != abs(pad_id))[:, None, None], "sign_dropped",
     "either sign"),
    ("padding_mask", lambda t, pad_id=0: ((t != pad_id) & (t != 0))[:, None, None], "zero_hidden_too",
     "the id 0"),
    ("padding_mask", lambda t, pad_id=0: ((t != pad_id) & (t > 0) & (t < 1000))[:, None, None], None,
     "has the id 0, and pad_id is 4: it is real"),
    ("padding_mask", lambda t, pad_id=0: (t != pad_id).reshape(-1, 1, 1, 6), "fixed_length", "written into"),
    ("padding_mask", lambda t, pad_id=0: (t != pad_id).reshape(1, 1, 1, -1), None, "one entry for each id"),
    ("padding_mask", lambda t, pad_id=0: (np.squeeze(t) != pad_id)[:, None, None], None, "sentence of one"),
    ("padding_mask", lambda t, pad_id=0: (not (t == pad_id))[:, None, None], "one_truth_value", "`not`"),
    ("padding_mask", lambda t, pad_id=0: np.array([[x is not pad_id for x in row] for row in t.tolist()])
     [:, None, None], "same_object", "up to 256"),
    ("combined_mask", lambda t, pad_id=0: (t != pad_id) & causal_by_loops(*2 * t.shape[1:]),
     "axes_missing", "raised"),
    ("combined_mask", lambda t, pad_id=0: np.maximum.accumulate(combined_by_loops(t, pad_id)[::-1])[::-1],
     None, "of sentence"),
    ("combined_mask", lambda t, pad_id=0: (t != pad_id)[:, None, None] & causal_by_loops(len(t), len(t)),
     "sizes_swapped", "size of the batch"),
    ("combined_mask", lambda t, pad_id=0: combined_by_loops(t.T, pad_id), "sizes_swapped", "(L, B)"),
    ("combined_mask", lambda t, pad_id=0: combined_by_loops(t, pad_id).squeeze(), "squeezed", "Both stay"),
    ("combined_mask", lambda t, pad_id=0: combined_by_loops(t, pad_id) & (np.arange(t.shape[1]) < 4)[:, None],
     None, "sees no key at all"),
    ("combined_mask", lambda t, pad_id=0: (t != pad_id)[:, None, None] and causal_by_loops(*2 * t.shape[1:]),
     "one_truth_value", "`and`"),
]

PAIRS = [
    ("causal_mask", ("polarity", "one_ahead")), ("causal_mask", ("start", "transposed")),
    ("causal_mask", ("strict", "numbers")), ("window_mask", ("polarity", "one_too_few")),
    ("window_mask", ("both_sides", "numbers")),
    ("padding_mask", ("pad_id_fixed", "two_axes")), ("padding_mask", ("polarity", "counted")),
    ("combined_mask", ("strict", "pad_id_fixed")), ("combined_mask", ("polarity", "no_causal")),
]  # fmt: skip


@pytest.mark.parametrize("exercise, answer", [(e, a) for e, answers in RIGHT.items() for a in answers])
def test_right_answers_pass(exercise, answer):
    start = time.process_time()
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is True, verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


def making(exercise, **choices):
    """The function that makes the mistakes with these choices, with the defaults of the right one."""
    compute = FUNCTIONS[exercise].compute
    keywords = [p for p in inspect.signature(compute).parameters.values() if p.kind is p.KEYWORD_ONLY]
    right = {p.name: p.default for p in keywords}

    def function(*args, **kwargs):
        return compute(*args, **kwargs, **right | choices)

    function.__signature__ = inspect.signature(compute).replace(
        parameters=[p for p in inspect.signature(compute).parameters.values() if p.kind is not p.KEYWORD_ONLY]
    )
    return function


@pytest.mark.parametrize(
    "exercise, mistake", [(name, m) for name, judge in FUNCTIONS.items() for m in judge.mistakes],
    ids=lambda x: getattr(x, "name", x),
)
def test_each_mistake_is_named_with_its_own_hint(exercise, mistake):
    start = time.process_time()
    verdict = check(exercise, making(exercise, **mistake.choices), show=False)
    assert verdict.passed is False and verdict.misconception == mistake.name, verdict.message
    assert mistake.hint in verdict.message and len(verdict.message) < 620
    assert "it may not be all" not in verdict.message
    assert mistake.convention == ("another convention" in verdict.message)
    assert time.process_time() - start < 10  # a second or less on an idle machine


@pytest.mark.parametrize("exercise, names", PAIRS)
def test_pairs_are_named(exercise, names):
    mistakes = {mistake.name: mistake for mistake in reversed(FUNCTIONS[exercise].mistakes)}
    choices = mistakes[names[0]].choices | mistakes[names[1]].choices
    verdict = check(exercise, making(exercise, **choices), show=False)
    assert verdict.passed is False and verdict.misconception == " and ".join(names), verdict.message
    assert "Two things at once" in verdict.message


@pytest.mark.parametrize("exercise, answer, misconception, words", LATER)
def test_wrong_answers_are_told_what_is_wrong(exercise, answer, misconception, words):
    start = time.process_time()
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.misconception == misconception, verdict
    assert words in verdict.message and len(verdict.message) < 620, verdict.message
    assert time.process_time() - start < 10  # a second or less on an idle machine


class Equal(np.ndarray):
    def __eq__(self, other):
        return True


ODD = [
    7, "text", None.__class__, lambda *a, **k: None, lambda *a, **k: "text", lambda *a, **k: np.nan,
    lambda *a, **k: np.zeros((0,)), lambda *a, **k: np.full((3, 5), np.nan), lambda *a, **k: {}, lambda: 1,
    lambda *a, **k: np.zeros(10**6, bool), lambda *a, **k: torch.zeros(3), lambda *a, **k: 1 / 0,
    lambda *a, **k: a[0], lambda *a, **k: (np.zeros((3, 2)), "text"), print,
    lambda *a, **k: np.array(["a", None], object), lambda *a, **k: np.array([True, False]),
    lambda *a, **k: np.ones((3, 5), complex), lambda *a, **k: np.zeros((3, 5), bool).view(Equal),
    lambda *a, **k: (torch.ones(3, 2), np.ones((3, 5), complex)),
    lambda *a, **k: (np.ones((3, 2), object), np.ones((3, 5), "U1")),
]  # fmt: skip


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("answer", ODD)
def test_odd_answers_are_refused_without_a_crash(exercise, answer):
    verdict = check(exercise, answer, show=False)
    assert verdict.passed is False and verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_function_that_always_raises_makes_no_known_mistake(exercise):
    verdict = check(exercise, lambda *a, **k: 1 / 0, show=False)
    assert verdict.misconception is None and "division by zero" in verdict.message


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_no_mistake_raises_on_every_case(exercise):
    judge = FUNCTIONS[exercise]

    def raises(case, choices):
        try:
            judge.compute(*case.args, **choices)
        except Exception:
            return True
        return False

    with np.errstate(all="ignore"):
        for mistake in judge.mistakes:
            assert not all(raises(case, mistake.choices) for case in judge.cases()), mistake.name


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_hints_of_mistakes_are_whole_sentences(exercise):
    for mistake in FUNCTIONS[exercise].mistakes:
        hint = mistake.hint
        assert hint[0].isupper() and hint[-1] in ".?" and "!" not in hint, mistake.name


@pytest.mark.parametrize("exercise", FUNCTIONS)
def test_a_stub_is_not_answered_and_the_solution_is_right(exercise):
    def stub(*args, **kwargs):
        raise NotImplementedError

    assert check(exercise, stub, show=False).passed is None
    space = {}
    exec(SOLUTIONS[exercise], space)
    assert check(exercise, space[exercise], show=False).passed is True


def test_the_package_passes_its_own_exercises():
    for name in ("causal_mask", "window_mask", "padding_mask"):
        assert replace(FUNCTIONS[name], package=True)(getattr(attnlib, name)).passed is True, name


TENSORS = {name: answers[0] for name, answers in RIGHT.items() if name.endswith("mask")}


@pytest.mark.parametrize("exercise", TENSORS)
def test_a_right_mask_of_another_type_is_called_right_but_for_its_type(exercise):
    verdict = check(exercise, lambda *a, **k: torch.tensor(TENSORS[exercise](*a, **k)))
    assert verdict.passed is False and "entries are right; only they come as a torch" in verdict.message
    verdict = check(exercise, lambda *a, **k: TENSORS[exercise](*a, **k).astype(object))
    assert verdict.passed is False and "entries are right; only they come as Python obj" in verdict.message
    for kind in (torch.tensor, lambda mask: mask.astype(object)):
        message = check(exercise, lambda *a, **k: kind(~TENSORS[exercise](*a, **k))).message  # noqa: B023
        assert "entries are right" not in message and ("may see" not in message or kind is not torch.tensor)


def test_entries_are_told_by_sentence_and_token():
    def first_hidden(tokens, pad_id=0):
        mask = padding_by_loops(tokens, pad_id)
        mask[-1, ..., 0] = ~mask[-1, ..., 0]
        return mask

    message = check("padding_mask", first_hidden, show=False).message
    assert "Token 0 of sentence 2 has the id 6, and pad_id is 0: it is real, and you hide it." in message
    assert "In all, 1 of 15 entries differ" in message

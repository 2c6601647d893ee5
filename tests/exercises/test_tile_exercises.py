"""Lesson 19's other exercises: every right way accepted, every known mistake named."""

import time

import numpy as np
import pytest
import torch
from judging import ERRORS, NO_FUNCTIONS, its_solution, mistakes, stub, told_when_raising
from scipy.special import logsumexp

from attnlib.efficient.tiles import row_blocks
from attnlib.exercises import check, pages, tile_updates, tiles
from attnlib.exercises.catalogue import EXERCISES

QUESTIONS = ("count_tiles", "fool_readers")
FUNCTIONS = {"tile_update": tile_updates._update, "page_write": pages._write}


def test_the_lesson_keeps_its_order():
    of_lesson = [exercise.id for exercise in EXERCISES.values() if exercise.lesson == "19"]
    assert of_lesson == ["count_tiles", "fool_readers", "tile_update", "online_attention", "page_write"]


@pytest.mark.parametrize("exercise", (*QUESTIONS, *FUNCTIONS))
def test_solutions_pass_and_hints_go_on(exercise):
    verdict = check(exercise, its_solution(exercise))
    assert verdict.passed is True, verdict.message
    assert len(EXERCISES[exercise].hints) in (2, 3)


# ------------------------------------------------------------- numbers and constructions


def near(i, j):
    return (j <= i) & (i - j < 256)


def computed(n_query, pattern=None):
    """Tiles that `tiled_attention` computes, and those of them that need a mask."""
    rows = row_blocks(n_query, 8192, (128, 128), pattern is None, pattern)
    found = [seen for _, row in rows for _, seen in row]
    return len(found), sum(seen is not None for seen in found)


def test_the_counts_are_those_of_the_package():
    assert computed(8192) == (2080, 64)
    assert computed(8192, near)[0] == 189
    assert computed(1)[0] == 64
    assert computed(2048)[0] == 904


counts = (2080, 64, 189, 64, 904)
high, rising, falling = [801.0, 800, 800, 799], [0.0, 0, 3, 3], [400.0, 400, -400, -400]
harmless = [3.0, 1, 2, 0]
rows = high, rising, falling, harmless

RIGHT = [
    ("count_tiles", list(counts)),
    ("count_tiles", np.array(counts, float)),
    ("fool_readers", tuple(map(np.array, rows))),
    ("fool_readers", np.array(rows)),
    ("fool_readers", ([-800.0] * 5, [1, 2, 3, 4, 5, 6], [0, 1, *[-799] * 4, -800, -801], harmless)),
]


@pytest.mark.parametrize("exercise, answer", RIGHT, ids=range(len(RIGHT)))
def test_right_answers_pass(exercise, answer):
    verdict = check(exercise, answer)
    assert verdict.passed is True, verdict.message


def changed(right, at, value):
    return tuple(value if i == at else part for i, part in enumerate(right))


WRONG = [
    *(("count_tiles", changed(counts, at, value), name) for at, value, name, _ in tiles._KNOWN_COUNTS),
    *(("count_tiles", changed(counts, at, 77), None) for at in range(5)),
    ("count_tiles", changed(counts, 0, 2080.5), None),
    ("count_tiles", changed(counts, 0, -2), None),
    ("count_tiles", counts[:3], None),
    ("fool_readers", changed(rows, 0, [9.0, 3, 2, 1]), "not_high"),
    ("fool_readers", changed(rows, 0, [800.0, 800, 801, 799]), "no_rescaling_too"),
    ("fool_readers", changed(rows, 0, [900.0, 900, 100, 100]), "newest_maximum_too"),
    ("fool_readers", changed(rows, 1, harmless), "largest_first"),
    ("fool_readers", changed(rows, 1, [0.0, 0, 0.1, 0.1]), "too_little"),
    ("fool_readers", changed(rows, 1, [0.0, 0, 800, 801]), "no_maximum_too"),
    ("fool_readers", changed(rows, 1, [400.0, 400, -400, -400, 401, 401]), "newest_maximum_too"),
    ("fool_readers", changed(rows, 2, [9.0, 9, 0, 0]), "not_falling"),
    ("fool_readers", changed(rows, 2, rising), "not_falling"),
    ("fool_readers", changed(rows, 2, [800.0, 800, 0, 0]), "no_maximum_too"),
    ("fool_readers", changed(rows, 2, [400.0, 400, -400, -400, 401, 401]), "no_rescaling_too"),
    ("fool_readers", changed(rows, 3, [3.0, 3, 2, 1]), "equal_scores"),
    ("fool_readers", changed(rows, 3, [0.0, 1, 2, 3]), "not_harmless"),
    ("fool_readers", changed(rows, 3, [801.0, 800, 799, 798]), "not_harmless"),
    ("fool_readers", changed(rows, 0, [1001.0, 0, 0, 0]), None),
    ("fool_readers", changed(rows, 0, [801.0, 0, 0]), None),
    ("fool_readers", changed(rows, 0, [[801.0, 0, 0, 0]]), None),
    ("fool_readers", changed(rows, 0, [np.nan, 0, 0, 0]), None),
    ("fool_readers", rows[:3], None),
]


@pytest.mark.parametrize("exercise, answer, name", WRONG, ids=range(len(WRONG)))
def test_wrong_answers_are_named(exercise, answer, name):
    verdict = check(exercise, answer)
    assert verdict.passed is False
    if name:
        assert verdict.misconception == name, verdict.message


def lesson_reader(text):
    """A reader as it stands in the lesson's text."""
    names = {"np": np}
    exec(text, names)
    return next(value for key, value in names.items() if key in tiles.READERS)


def test_the_lesson_shows_the_readers_that_are_judged():
    shown = (
        "def no_maximum(m, l, s):\n    return 0.0, l + np.exp(s).sum()",
        "def no_rescaling(m, l, s):\n    top = max(m, s.max())\n    return top, l + np.exp(s - top).sum()",
        "def newest_maximum(m, l, s):\n    top = s.max()\n"
        "    return top, l * np.exp(m - top) + np.exp(s - top).sum()",
    )
    for row in map(np.array, rows):
        for text, reader in zip(shown, tiles.READERS.values(), strict=True):
            theirs, ours = tiles.weights_by(lesson_reader(text), row), tiles.weights_by(reader, row)
            np.testing.assert_array_equal(theirs, ours)


ODD = [None, ..., "a string", [], {}, 3, float("nan"), [np.nan, 1], np.zeros((3, 3)), [[1, 2], [3]],
       (None, 1), (..., ...), object(), True, 1j, [10**400, 1], [1e300, -1e300], np.array(["a", "b"]),
       print, np.zeros((2, 2, 2)), [..., 1, 2, 3, 4], [..., 1, 2, 3],
       np.zeros((4, 4)), [None] * 4]  # fmt: skip


@pytest.mark.parametrize("exercise", QUESTIONS)
@pytest.mark.parametrize("answer", ODD, ids=lambda x: str(x)[:20])
def test_odd_answers_are_judged_and_never_right(exercise, answer, no_warnings):
    with no_warnings():
        verdict = check(exercise, answer)
    assert verdict.passed is not True and verdict.message


# ------------------------------------------------------------- attention over blocks that are gone


def through_sums(state, k_block, v_block):
    """The state undone into a maximum and two sums, and made again."""
    q, out, lse = state
    scores = q @ k_block.T / q.shape[1] ** 0.5
    m = np.maximum(lse, scores.max(1))
    total = np.exp(lse - m)
    acc = total[:, None] * out
    e = np.exp(scores - m[:, None])
    total, acc = total + e.sum(1), acc + e @ v_block
    return [q, acc / total[:, None], m + np.log(total)]


def key_by_key(state, k_block, v_block):
    q, out, lse = state
    for k, v in zip(k_block, v_block, strict=True):
        s = q @ k / np.sqrt(len(k))
        both = np.logaddexp(lse, s)
        out = np.exp(lse - both)[:, None] * out + np.exp(s - both)[:, None] * v
        lse = both
    return q, out, lse


def as_one_softmax(state, k_block, v_block):
    """What has been seen as one key more, with the log-sum-exp for its score."""
    q, out, lse = state
    scores = np.column_stack([lse, q @ k_block.T / np.sqrt(q.shape[-1])])
    both = logsumexp(scores, axis=1)
    weights = np.exp(scores - both[:, None])
    return q, weights[:, :1] * out + weights[:, 1:] @ v_block, both


def by_torch(state, k_block, v_block):
    q, out, lse = map(torch.as_tensor, state)
    k, v = torch.as_tensor(k_block), torch.as_tensor(v_block)
    scores = q @ k.T * q.shape[1] ** -0.5
    new, both = scores.logsumexp(1), torch.logaddexp(lse, scores.logsumexp(1))
    mixed = torch.sigmoid(new - lse)[:, None]
    return q, torch.lerp(out, scores.softmax(1) @ v, mixed), both


@pytest.mark.parametrize("answer", [through_sums, key_by_key, as_one_softmax, by_torch])
def test_every_right_way_of_updating_passes(answer):
    verdict = check("tile_update", answer)
    assert verdict.passed is True, verdict.message


def in_place(state, k_block, v_block):
    q, out, lse = through_sums(state, k_block, v_block)
    state[1][:] = out
    return q, state[1], lse


def column(state, k_block, v_block):
    q, out, lse = through_sums(state, k_block, v_block)
    return q, out, lse[:, None]


@pytest.mark.parametrize("answer, told", [
    (in_place, "out, which was handed in, has been changed"),
    (column, "lse of the new state must have shape"),
    (lambda *a: through_sums(*a)[1], "three arrays"),
    (lambda state, k, v: (state[0], *through_sums(state, k, v)[:0:-1]), "out of the new state must have"),
])  # fmt: skip
def test_states_of_another_form_are_told(answer, told):
    verdict = check("tile_update", answer)
    assert verdict.passed is False and told in verdict.message


def test_keys_kept_outside_are_found_out():
    seen = []

    def hoards(state, k_block, v_block):
        seen.append((k_block, v_block))
        k, v = (np.concatenate(part) for part in zip(*seen, strict=True))
        return through_sums((state[0], 0 * state[1], 0 * state[2] - np.inf), k, v)

    assert check("tile_update", hoards).passed is False


# ------------------------------------------------------------- pages


def with_early_return(blocks, users, table, length, token):
    slot = length % blocks.shape[1]
    if slot and users[table[-1]] == 1:
        blocks[table[-1], slot] = token
        return blocks, users, table
    new = list(users).index(0)
    if slot:
        blocks[new, :slot] = blocks[table[-1], :slot]
        users[table.pop()] -= 1
    blocks[new, slot] = token
    users[new] = 1
    return blocks, users, [*table, new]


def with_arrays(blocks, users, table, length, token):
    blocks, users, table = blocks.copy(), users.copy(), np.array(table, int)
    which, slot = divmod(length, blocks.shape[1])
    old = table[which] if which < len(table) else None
    if old is None or users[old] > 1:
        new = int(np.argmax(users == 0))
        if old is not None:
            blocks[new], users[old] = blocks[old], users[old] - 1
        users[new], table = 1, np.append(table[:which], new)
    blocks[table[which], slot] = token
    return blocks, users, table


@pytest.mark.parametrize("answer", [with_early_return, with_arrays])
def test_every_right_way_of_writing_passes(answer):
    verdict = check("page_write", answer)
    assert verdict.passed is True, verdict.message


def faulty(blocks, users, table, length, token):
    """The function that stands in the lesson."""
    size = blocks.shape[1]
    if length % size == 0 or users[table[-1]] > 1:
        new = int(np.flatnonzero(users == 0)[0])
        users[new] += 1
        table = [*table, new]
    blocks[table[length // size], length % size] = token
    return blocks, users, table


def test_the_lesson_s_function_is_wrong():
    verdict = check("page_write", faulty)
    assert verdict.passed is False and "seven tokens, a fork" in verdict.message
    assert verdict.misconception == "as_it_was"


def mended_by_the_slot_alone(blocks, users, table, length, token):
    """Written to the new block, which stands behind the shared one and is empty."""
    if length % blocks.shape[1] == 0 or users[table[-1]] > 1:
        table = [*table, int(np.flatnonzero(users == 0)[0])]
        users[table[-1]] += 1
    blocks[table[-1], length % blocks.shape[1]] = token
    return blocks, users, table


def left_whenever_a_block_is_taken(blocks, users, table, length, token):
    slot = length % blocks.shape[1]
    if slot == 0 or users[table[-1]] > 1:
        new = int(np.flatnonzero(users == 0)[0])
        users[new] += 1
        if table:
            blocks[new] = blocks[table[-1]]
            users[table[-1]] -= 1
        table = [*(table[:-1] if slot else table), new]
    blocks[table[-1], slot] = token
    return blocks, users, table


@pytest.mark.parametrize("answer, name", [
    (mended_by_the_slot_alone, "copy_not_in_table"), (left_whenever_a_block_is_taken, "full_block_released"),
])  # fmt: skip
def test_half_mended_functions_are_named(answer, name):
    assert check("page_write", answer).misconception == name


@pytest.mark.parametrize("answer, told", [
    (lambda *a: with_arrays(*a)[0], "three results are needed"),
    (lambda b, u, t, n, x: (b, u, []), "one at least"),
    (lambda b, u, t, n, x: (b, u, [99]), "names block 99"),
    (lambda b, u, t, n, x: (b, u[:2], t), "keep their shapes"),
    (lambda b, u, t, n, x: (b, u, [0]), "no room for 7 tokens"),
])  # fmt: skip
def test_results_of_another_form_are_told(answer, told):
    verdict = check("page_write", answer)
    assert verdict.passed is False and told in verdict.message


# ------------------------------------------------------------- both functions


def doing(exercise, **choices):
    return lambda *args: FUNCTIONS[exercise](*args, **choices)


@pytest.mark.parametrize("exercise, mistake", mistakes(*FUNCTIONS), ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named_in_time(exercise, mistake):
    begun = time.process_time()
    verdict = check(exercise, doing(exercise, **mistake.choices), show=False)
    assert time.process_time() - begun < 5       # a tenth of it on an idle machine
    assert verdict.passed is False
    assert verdict.misconception == mistake.name, verdict.message
    variants = (m for m in EXERCISES[exercise].judge.mistakes if m.name == mistake.name)
    assert any(m.hint in verdict.message for m in variants)


@pytest.mark.parametrize("exercise, choices, names", [
    ("tile_update", {"scale": "none", "weights": "naive"}, "weights_overflow and no_scale"),
    ("tile_update", {"top": "none", "weights": "mean"}, "outputs_averaged and overflow"),
    ("page_write", {"copied": "nothing", "released": "no"}, "nothing_copied and not_released"),
    ("page_write", {"placed": "appended", "copied": "nothing"}, "copy_not_in_table and nothing_copied"),
])  # fmt: skip
def test_two_mistakes_together_are_named(exercise, choices, names):
    assert check(exercise, doing(exercise, **choices)).misconception == names


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("error", ERRORS)
def test_an_error_of_its_own_is_no_known_mistake(exercise, error):
    told_when_raising(exercise, error)


@pytest.mark.parametrize("exercise", FUNCTIONS)
@pytest.mark.parametrize("answer", NO_FUNCTIONS, ids=str)
def test_what_is_no_function_is_told(exercise, answer):
    assert check(exercise, answer).passed is False


@pytest.mark.parametrize("exercise", (*QUESTIONS, *FUNCTIONS))
def test_a_stub_is_not_answered(exercise):
    assert check(exercise, stub if exercise in FUNCTIONS else ...).passed is None

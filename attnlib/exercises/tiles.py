"""Lesson 19's questions on tiles: which of them are needed, and rows of scores that fool careless readers."""

import numpy as np

from attnlib.exercises.answers import as_floats, numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.verdict import right, unanswered, wrong

# ------------------------------------------------------------- which tiles are needed

_COUNTS = np.array([2080, 64, 189, 64, 904])
_KNOWN_COUNTS = (
    (0, 4096, "none_skipped", "(a) That is the whole grid. What lies above the diagonal is skipped."),
    (0, 2048, "half", "(a) That is half of the grid. The diagonal belongs to neither half."),
    (0, 2016, "diagonal_skipped", "(a) The tiles on the diagonal are missing: each token sees itself."),
    (0, 64, "diagonal_alone", "(a) Those are the tiles on the diagonal. What lies below it is seen too."),
    (1, 2080, "all_masked", "(b) A tile below the diagonal is visible throughout. Does it need a mask?"),
    (1, 0, "none_masked", "(b) A tile on the diagonal has a triangle in it."),
    (1, 2016, "kinds_exchanged", "(b) Those are the tiles that are visible throughout. Asked are the "
    "others."),
    (1, 127, "two_diagonals", "(b) The tile left of the diagonal: what does the first query of its block see "
     "of it, and the last?"),
    (2, 127, "two_in_a_row", "(c) 256 tokens are two tiles wide, but they do not begin where a tile does. "
     "What does the first query of a block see?"),
    (2, 128, "two_in_a_row", "(c) 256 tokens are two tiles wide, but they do not begin where a tile does. "
     "And the first block has none before it."),
    (2, 192, "first_rows_forgotten", "(c) Three tiles in a row of the grid, that is right. Do the first two "
     "rows have them?"),
    (2, 191, "first_rows_forgotten", "(c) The first row of the grid has one tile. How many has the second?"),
    (2, 190, "first_rows_forgotten", "(c) The first row of the grid has one tile. How many has the second?"),
    (2, 186, "first_rows_forgotten", "(c) The first two rows of the grid have fewer than three tiles, but "
     "not none."),
    (2, 64, "diagonal_alone", "(c) A query sees 255 tokens before itself, and a tile has 128."),
    (3, 1, "aligned_at_the_start", "(d) The new token is the last, and sees all 8192 keys. In how many tiles "
     "do they lie?"),
    (3, 2, "window_kept", "(d) The window was for (c) alone. The new token sees all keys."),
    (3, 3, "window_kept", "(d) The window was for (c) alone. The new token sees all keys."),
    (3, 8192, "keys_counted", "(d) Those are the keys. A tile has 128 of them."),
    (4, 136, "aligned_at_the_start", "(e) The first of these queries is not the first token: how many keys "
     "stand before it?"),
    (4, 1024, "none_skipped", "(e) That is the whole grid, 16 by 64. Some of it is in the future of its "
     "queries."),
    (4, 888, "diagonal_skipped", "(e) The tiles on the diagonal are missing."),
    (4, 768, "diagonal_skipped", "(e) Those are the tiles of keys before the first query. The queries see "
     "each other too."),
    (4, 2080, "all_queries", "(e) Only 2048 of the tokens are queries."),
    (4, 520, "quarter", "(e) A quarter of the queries, but not a quarter of the tiles: the last queries see "
     "most."),
)  # fmt: skip


def count_tiles(answer):
    """How many tiles are computed, in five settings."""
    if isinstance(answer, (tuple, list)) and any(part is ... or part is None for part in answer):
        return unanswered("Put your answer in place of the three dots and run the cell again.")
    given, complaint = numbers(answer, (5,), "your answer")
    if complaint:
        return complaint
    near = np.abs(given - _COUNTS) < 1e-6
    if near.all():
        return right(
            "Of 64 by 64 tiles 64 · 65 / 2 are left, and only the diagonal looks at a mask. A window that "
            "is two tiles wide touches three, for it begins inside one: 3 · 64 - 3. A new token sees "
            "everything. And sixteen rows of the grid see 48 tiles of the past each, and 1 to 16 of their "
            "own: 16 · 48 + 136."
        )
    wrongs = np.flatnonzero(~near)
    told = "The others are right. " if len(wrongs) == 1 else ""
    for index, value, name, hint in _KNOWN_COUNTS:
        if not near[index] and abs(given[index] - value) < 1e-6:
            return wrong(told + hint, name)
    first = wrongs[0]
    if given[first] != np.round(given[first]) or given[first] < 0:
        return wrong(f"A number of tiles is a whole number; got {given[first]:g}.")
    return wrong(told + (
        "(a) 8192 / 128 = 64 blocks of queries. The first sees one block of keys, the second two.",
        "(b) Which tiles are neither hidden nor visible throughout?",
        "(c) Take a block of queries in the middle. Where does the window of its first query begin, and "
        "where that of its last?",
        "(d) One row of the grid: in how many tiles do 8192 keys lie?",
        "(e) How many tiles of keys stand before the first of these queries? Those are seen by all.",
    )[first])  # fmt: skip


# ------------------------------------------------------------- three careless readers


def _no_maximum(m, l, s):
    return 0.0, l + np.exp(s).sum()


def _no_rescaling(m, l, s):
    top = max(m, s.max())
    return top, l + np.exp(s - top).sum()


def _newest_maximum(m, l, s):
    top = s.max()
    return top, l * np.exp(m - top) + np.exp(s - top).sum()


READERS = {"no_maximum": _no_maximum, "no_rescaling": _no_rescaling, "newest_maximum": _newest_maximum}
_ROWS = ("high", "rising", "falling", "harmless")


def weights_by(reader, row):
    """A row's weights by a reader that sees two scores at a time."""
    m, l = -np.inf, 0.0
    with np.errstate(all="ignore"):
        for start in range(0, len(row), 2):
            m, l = reader(m, l, row[start : start + 2])
        return np.exp(row - m) / l


def _off(row):
    """By how much each reader is off; infinite where it gives no number."""
    e = np.exp(row - row.max())
    off = [np.abs(weights_by(reader, row) - e / e.sum()).max() for reader in READERS.values()]
    return np.where(np.isfinite(off), off, np.inf)


def fool_readers(answer):
    """A row of scores for each of three readers that fools it alone, and a row that fools none."""
    if not isinstance(answer, (tuple, list, np.ndarray)) or len(answer) != 4:
        return wrong(f"Give four rows, one for each reader and a harmless one; got {short(answer)}.")
    if any(part is ... or part is None for part in answer):
        return unanswered("Put a row in place of each of the three dots and run the cell again.")
    rows = []
    for name, part in zip(_ROWS, answer, strict=True):
        row = as_floats(part)
        if row is None or row.ndim != 1 or not 4 <= len(row) <= 8:
            return wrong(f"Let the {name} row be four to eight numbers.")
        if not np.isfinite(row).all() or np.abs(row).max() > 1000:
            return wrong(f"Let the {name} row hold finite scores, none beyond 1000.")
        rows.append(row)
    for index, (name, row) in enumerate(zip(READERS, rows, strict=False)):
        problem = _fools(index, name, _ROWS[index], row)
        if problem:
            return problem
    return _harmless(rows[3]) or right(
        "Without a maximum only size hurts. Without rescaling only order hurts: while the largest score "
        "comes first, nothing needs to be rescaled. And the newest maximum is exact as long as nothing "
        "falls far. Tests with small scores see none of it, and tests with one tile see less. Three rows "
        "like these catch all three."
    )


def _fools(index, reader, name, row):
    off = _off(row)
    first, rest = row[:2].max(), row[2:].max()
    if off[index] <= 0.1:
        if 1e-6 < off[index]:
            return wrong(f"The {name} row puts {reader} off by {off[index]:.2g} only. More than 0.1 is asked "
                         "for.", "too_little")
        return wrong(f"The {name} row does not fool {reader}: all its weights are right. " + (
            f"The largest score is {row.max():g}, and a float64 still holds its exponential.",
            "What needs rescaling when the largest score comes in the first two?" if first >= rest else
            "Which sums are rescaled when the second two come?",
            "It falls, but the factor by which the old sum grows is still a number. From which one on is it "
            "not?" if row[:-2].max() > row[-2:].max() else
            "Its maximum is the right one as long as scores rise. When is the newest the smaller?",
        )[index], ("not_high", "largest_first", "not_falling")[index])  # fmt: skip
    for other, other_name in enumerate(READERS):
        if other != index and off[other] > 1e-6:
            return wrong(f"The {name} row fools {reader}, and {other_name} too. " + (
                "Keep scores where their exponentials are numbers above 0: below 709, and not all of them "
                "far below 0.",
                "Put the largest score among the first two, and nothing has to be rescaled.",
                "Let no tile's largest score lie hundreds below one that came before.",
            )[other], f"{other_name}_too")  # fmt: skip
    return None


def _harmless(row):
    if len(np.unique(row)) < len(row):
        return wrong("The first three rows are right. In the harmless row two scores are equal; let them all "
                     "differ.", "equal_scores")
    off = _off(row)
    fooled = [name for name, o in zip(READERS, off, strict=True) if o > 1e-6]
    if fooled:
        hint = (" One that rises needs rescaling: where is the largest score to stand?"
                if "no_rescaling" in fooled else " Keep the scores small.")  # fmt: skip
        return wrong(f"The first three rows are right. The harmless row fools {' and '.join(fooled)}.{hint}",
                     "not_harmless")
    return None


_COUNTS_SOLUTION = """
blocks = 8192 // 128
causal = blocks * (blocks + 1) // 2
answer = (causal, blocks, 3 * blocks - 3, blocks, 16 * 48 + 16 * 17 // 2)
"""

_ROWS_SOLUTION = """
answer = (
    [801.0, 800.0, 800.0, 799.0],       # the exponential of 800 is infinite
    [0.0, 0.0, 3.0, 3.0],               # the largest comes late
    [400.0, 400.0, -400.0, -400.0],     # the factor from 400 to -400 is infinite
    [3.0, 1.0, 2.0, 0.0],               # the largest first, and all small
)
"""

EXERCISES = (
    Exercise("count_tiles", "19", count_tiles, (
        "The grid has 64 by 64 tiles. In row i, counted from 1, how many lie at or before the diagonal?",
        "For the window: the first query of block i stands at 128 i and sees from 128 i - 255 on. In which "
        "block of keys is that?",
        "For the last 2048 queries: 6144 keys, 48 tiles, stand before the first of them. After that it is a "
        "causal grid of 16 by 16.",
    ), _COUNTS_SOLUTION, "prediction"),
    Exercise("fool_readers", "19", fool_readers, (
        "The first reader needs a number whose exponential is infinite, the second a largest score that "
        "comes late, the third one that comes early and by far.",
        "In float64 the exponential of 709 is finite and that of 710 is not. The third reader takes the "
        "exponential of a difference, so no score of its row need be so large.",
        "Keep the largest score of the first and the third row among the first two numbers; then nothing is "
        "to be rescaled, and the second reader is right.",
    ), _ROWS_SOLUTION, "construction"),
)  # fmt: skip

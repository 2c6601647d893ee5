"""Lesson 10's other exercises: order that is seen, weights for another layout, a decoder's positions."""

from itertools import permutations

import numpy as np

from attnlib.core.rotary import rope
from attnlib.core.scaled_dot_product import attention
from attnlib.exercises.answers import as_floats, numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.learner_test import Implementation, LearnerTest
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------- what a mask sees of the order


def shuffled_past(answer):
    """Of the five words of two sentences, how many get the same output after one layer, and after two?"""
    given, complaint = numbers(answer, (2,), "your answer")
    if complaint:
        return complaint
    if any(value != round(value) or not 0 <= value <= 5 for value in given):
        return wrong(f"Two counts of words, each from 0 to 5, are asked for; got {short(answer)}.")
    one, two = (int(value) for value in given)
    if (one, two) == (2, 0):
        return right(
            "After one layer an output is made of the word itself and of the bag of words up to it, and 了 "
            "and 吗 have the same word and the same bag in both. In the second layer they read 我, 看见 and "
            "你, which have changed."
        )
    if one == 5:
        return wrong(
            "That holds without a mask, when every word sees the same bag. Under the mask the first word "
            "sees itself alone. What does it see as the third?", "no_mask")
    if one == 3:
        return wrong(
            "Did you count 看见, which keeps its place? It reads the word before it, which is another.",
            "same_place")
    if one == 0:
        return wrong(
            "A mask does not number the words. Write down for 吗 which words it reads in either sentence. "
            "Does one layer know in which order they stood?", "mask_is_order")
    if one == 1:
        return wrong("Write down, for 了 and for 吗, which words they read in either sentence.", "last_only")
    if one == 2 and two == 2:
        return wrong(
            "The first number is right. The second layer reads what the first one made. Which of the "
            "vectors that 吗 reads there have changed?", "second_layer_reads_words")
    if one == 2:
        return wrong("The first number is right. In the second layer 了 and 吗 both read 我, 看见 and 你. "
                     "Have their vectors changed?", "second_layer")
    return wrong("An output of one layer is made of the word and of the bag of words up to it. Write both "
                 "down for each word, in either sentence.")


# ------------------------------------------------------------- the least addition

WORDS = np.eye(3, 4)          # 我, 爱, 你; the fourth feature is free


def least_places(add):
    """Vectors for three places, with as few numbers as possible, that give 爱 six outputs in six orders."""
    add = as_floats(add)
    if add is None:
        return wrong("Give an array of numbers, a row for each of the three places.")
    if add.shape != (3, 4):
        return wrong("Let it have shape (3, 4), a row for each place, a column for each feature; got "
                     f"{add.shape}.")
    if not np.isfinite(add).all() or np.abs(add).max() > 10:
        return wrong("Let all numbers lie between -10 and 10.")
    used = int(np.count_nonzero(add))
    if not used:
        return wrong("Nothing is added, so every order of the words is the same to it.", "nothing")
    if np.allclose(add, add[0]):
        return wrong("All three places get the same vector. The words change, and the order still cannot "
                     "be seen.", "same_everywhere")
    outputs = {}
    for order in permutations(range(3)):
        h = WORDS[list(order)] + add
        outputs["".join("我爱你"[word] for word in order)] = attention(h, h, h)[order.index(1)]
    names = list(outputs)
    alike = [(a, b) for n, a in enumerate(names) for b in names[n + 1 :]
             if np.abs(outputs[a] - outputs[b]).max() < 1e-3]
    if alike:
        a, b = alike[0]
        same = [pair for pair in ((0, 1), (0, 2), (1, 2)) if np.allclose(add[pair[0]], add[pair[1]])]
        if used == 1:
            return wrong(
                f"One number tells two sentences apart, 我爱你 and 你爱我 perhaps, not all six: {a} and {b} "
                "give 爱 the same. Two places are still alike.", "one_number")
        if same:
            return wrong(f"{a} and {b} give 爱 the same: places {same[0][0]} and {same[0][1]} get the same "
                         "vector.", "two_places_alike")
        query = WORDS[1] + add[a.index("爱")]
        others = [add[place] for place in range(3) if place != a.index("爱")]
        if not query.any():
            return wrong(
                f"{a} and {b} give 爱 the same. What you add at place {a.index('爱')} takes away the only "
                "feature that 爱 has: its query there is all zeros, and scores every word alike.",
                "query_erased")
        if np.abs(query @ (others[0] - others[1])) < 1e-3:
            return wrong(
                f"{a} and {b} give 爱 the same, though no two places are alike. At place {a.index('爱')} its "
                f"query is {query.round(2).tolist()}, and that scores what you added at the two other "
                "places alike. Which feature does 爱 have wherever it stands?", "blind_query")
        return wrong(
            f"{a} and {b} give 爱 outputs that differ by less than 0.001: its scores are so far apart that "
            "the softmax hardly looks beyond one of them, or so near that it hardly tells them. Choose "
            "other numbers.", "too_close")
    if used > 2:
        return wrong(f"All six orders are told apart, with {used} numbers that are not 0. Fewer will do: "
                     "does every place need one?", "not_the_least")
    return right(
        "Two numbers are enough: with one, two places would be alike, and words that exchange them are "
        "not seen. And they stand in a feature that 爱 has wherever it is, for a query notices only what "
        "it shares."
    )


# ------------------------------------------------------------- another layout


def _to_halves(w, n_heads, *, order="right", axis="rows"):
    w = np.asarray(w)
    size = w.shape[1] if axis == "columns" else len(w)
    one = np.arange(size)
    if order == "across":
        index = np.concatenate([one[::2], one[1::2]])
    else:
        heads = one.reshape(n_heads, -1)
        d = heads.shape[1]
        index = {
            "right": lambda: heads.reshape(n_heads, d // 2, 2).swapaxes(1, 2).ravel(),
            "inverse": lambda: heads.reshape(n_heads, 2, d // 2).swapaxes(1, 2).ravel(),
            "odd_first": lambda: heads.reshape(n_heads, d // 2, 2)[:, :, ::-1].swapaxes(1, 2).ravel(),
            "swapped": lambda: heads.reshape(n_heads, d // 2, 2)[:, :, ::-1].ravel(),
            "same": lambda: one,
            "pairs_first": lambda: heads.reshape(n_heads, d // 2, 2).transpose(1, 2, 0).ravel(),
            "heads_are_widths": lambda: one.reshape(d, n_heads // 2, 2).swapaxes(1, 2).ravel()
            if n_heads % 2 == 0 else heads.reshape(n_heads, d // 2, 2).swapaxes(1, 2).ravel(),
        }[order]()
    return w[:, index] if axis == "columns" else w[index].T if axis == "transposed" else w[index]


def _layout_cases():
    rng = np.random.default_rng(44)

    def case(name, heads, d, wide, hint=""):
        return Case(name, (rng.normal(size=(heads * d, wide)), heads), hint=hint)

    return [
        case("one head of width 6 in a model of width 5", 1, 6, 5,
             "Number the rows. Which are pairs? There may be more rows than columns, or fewer."),
        case("2 heads of width 6 in a model of width 12", 2, 6, 12, "A pair never leaves its head."),
        case("3 heads of width 8 in a model of width 7", 3, 8, 7, "A pair never leaves its head."),
        case("4 heads of width 4 in a model of width 16", 4, 4, 16),
        case("2 heads of width 2", 2, 2, 4, "With one pair both layouts are the same."),
        Case("whole numbers", (np.arange(48).reshape(12, 4), 2)),
    ]


interleaved_to_halves = FunctionExercise(
    _to_halves, _layout_cases,
    (
        Mistake("inverse", "That is the way back: your rows go from halves to interleaved. In a head of six, "
                "the first three rows of the result are rows 0, 2 and 4.", {"order": "inverse"}),
        Mistake("across_heads", "You sort all rows as if they were one head, so half of each head moves to "
                "other heads. A pair stays in its head.", {"order": "across"}),
        Mistake("columns", "You reorder the columns, which are features of the words that come in. Queries "
                "come out of the rows.", {"axis": "columns"}),
        Mistake("columns", "You reorder the columns, which are features of the words that come in. Queries "
                "come out of the rows.", {"axis": "columns", "order": "across"}),
        Mistake("odd_first", "The second feature of each pair comes first. In the layout of halves the first "
                "half holds the first features.", {"order": "odd_first"}),
        Mistake("swapped", "You exchange the two features of each pair and leave the pairs where they are.",
                {"order": "swapped"}),
        Mistake("unchanged", "The rows come back in their old order.", {"order": "same"}),
        Mistake("heads_inside", "The heads are mixed: rows of different heads take turns.",
                {"order": "pairs_first"}),
        Mistake("heads_are_widths", "You take n_heads for the width of a head. A head has len(w) // n_heads "
                "rows.", {"order": "heads_are_widths"}),
        Mistake("transposed", "The rows are in the right order, and the matrix is turned.",
                {"axis": "transposed"}),
    ),  # fmt: skip
    "Checked with one to four heads, square and not, down to heads of one pair. Rows of W_Q and W_K are "
    "converted; W_V stays as it is, for values are not turned.",
)


# ------------------------------------------------------------- a decoder's positions


def _fed(q, k, sizes, places, *, layout="interleaved", single=False, twice=False):
    """Scores of rows that are fed in chunks; ``places(start, size, call)`` gives two arrays."""
    q, k = (np.array(rows, dtype=np.float32 if single else float) for rows in (q, k))
    if q.ndim != 2 or q.shape != k.shape or q.shape[1] % 2:
        raise ValueError(f"q and k must both have shape (L, d), d even; got {q.shape} and {k.shape}")
    sizes = [int(size) for size in sizes]
    if sum(sizes) != len(q) or min(sizes, default=0) < 1:
        raise ValueError(f"sizes must be whole numbers from 1 up that sum to {len(q)}; got {short(sizes)}")
    table, cached, start = np.zeros((len(q), len(q))), np.zeros((0, q.shape[1]), q.dtype), 0
    for call, size in enumerate(sizes):
        of_q, of_k = places(start, size, call)
        new = rope(k[start : start + size], of_k, layout=layout)
        if twice and start:
            cached = rope(cached, np.arange(start), layout=layout)
        cached = np.concatenate([cached, new])
        asked = rope(q[start : start + size], of_q, layout=layout)
        table[start : start + size, : start + size] = asked @ cached.T
        start += size
    return np.tril(table)


def _both(places):
    return lambda start, size, call: (places(start, size, call),) * 2


def _from(first):
    return _both(lambda start, size, call: np.arange(first + start, first + start + size))


def _restarted(start, size, call):
    return np.arange(size)


def _query_at_zero(start, size, call):
    there = np.arange(start, start + size)
    return (np.zeros(1, int) if size == 1 and start else there), there


def _keys_restarted(start, size, call):
    return np.arange(start, start + size), np.arange(size)


def _one_late(start, size, call):
    return np.arange(size) + max(start - 1, 0)


def _by_calls(start, size, call):
    return np.arange(size) + call


def _table_ends(start, size, call):
    return np.minimum(np.arange(start, start + size), 5)


# Name: how it feeds, whether it is wrong, the mistake of a test that is fooled, and what is to be said.
_DECODERS = {
    "positions go on from the cache": (
        {"places": _from(0)}, False, "clean",
        "is right: the score of two rows depends on them and on their distance."),
    "positions start at 1000": (
        {"places": _from(1000)}, False, "starts_elsewhere",
        "is right. Scores see distances alone, so it does not matter where the count begins."),
    "pairs in halves": (
        {"places": _from(0), "layout": "halves"}, False, "other_layout",
        "is right, in the other layout of the pairs. Compare the decoder with itself, not with a rotation "
        "of your own."),
    "float32": (
        {"places": _from(0), "single": True}, False, "rounding",
        "is right, and rounds to seven digits. Leave room for that."),
    "every chunk starts at 0": (
        {"places": _both(_restarted)}, True, "restarted",
        "is wrong: each chunk's positions start again at 0. Fed in a single chunk it is right. Feed it in "
        "more."),
    "a single new query stands at 0": (
        {"places": _query_at_zero}, True, "single_step",
        "is wrong, but only in a chunk of one that follows another chunk. Which sizes do you try?"),
    "keys of every chunk start at 0": (
        {"places": _keys_restarted}, True, "keys",
        "is wrong: queries are turned by their places and keys by their places in the chunk."),
    "each later chunk starts one place early": (
        {"places": _both(_one_late)}, True, "one_early",
        "is wrong by one place from the second chunk on. Scores within a chunk are right; compare those "
        "across."),
    "the count goes up by one in each call": (
        {"places": _both(_by_calls)}, True, "calls",
        "is wrong: it counts calls. Fed one by one it is right, and so it is in a single chunk. Mix the "
        "sizes."),
    "keys are turned again in each call": (
        {"places": _from(0), "twice": True}, True, "twice",
        "is wrong: cached keys have been turned already, and each call turns them once more."),
    "the table of places ends after six": (
        {"places": _both(_table_ends)}, True, "table_ends",
        "is wrong, and the same for every feeding: all places from the sixth on count as one. Give all "
        "rows the same query and the same key: at equal distances, which scores must be equal?"),
}  # fmt: skip


def _decoder(name, length, width):
    how, faulty, mistake, told = _DECODERS[name]

    def scores(q, k, sizes):
        return _fed(q, k, sizes, **how)

    return Implementation(name, lambda: (scores, length, width), faulty, mistake, told)


restarted = LearnerTest(
    tuple(_decoder(name, *size) for size in ((9, 4), (12, 6)) for name in _DECODERS),
    {
        True: ("all_faulty", "You call all eleven decoders wrong. Four are right, and they differ in where "
               "they begin to count, in the layout and in the number of digits."),
        False: ("all_fine", "You call all eleven decoders right. Seven are wrong. Feed the same rows in "
                "different chunks: what must stay the same?"),
    },
    "All eleven judged rightly, at two lengths. Two properties were enough, and no second decoder to "
    "compare with: chunks do not matter, and equal rows at equal distances score alike.",
)

_TEST = """
import numpy as np


def wrong_places(scores, length, width):
    rng = np.random.default_rng(0)
    q, k = rng.normal(size=(2, length, width))
    whole = scores(q, k, [length])
    for sizes in ([1] * length, [3] + [1] * (length - 3), [2, 4, length - 6], [length - 2, 2]):
        if np.abs(scores(q, k, sizes) - whole).max() > 1e-3:           # chunks must not matter
            return True
    q, k = q[:1].repeat(length, 0), k[:1].repeat(length, 0)            # all rows alike
    table = scores(q, k, [length])
    return any(np.ptp(np.diagonal(table, -distance)) > 1e-3 for distance in range(length))


answer = wrong_places
"""

EXERCISES = (
    Exercise(
        "shuffled_past", "10", shuffled_past,
        (
            "Under the mask a word reads itself and what stands before it. Write down both for each of "
            "the five words, in either sentence.",
            "One layer knows which words it reads and not in which order they stand. For which words are "
            "the own word and the bag the same? Then: a second layer reads vectors that the first one "
            "made.",
        ),
        "answer = (2, 0)    # 了 and 吗 after one layer; after two they have read words that changed",
        "prediction",
    ),
    Exercise(
        "least_places", "10", least_places,
        (
            "If two places get the same vector, exchanging the words there changes nothing for 爱.",
            "Three vectors must differ. How many of them may be zeros?",
            "A query notices only what it shares a feature with. Where nothing is added, 爱 has its own "
            "feature alone.",
        ),
        "answer = [[0, 0, 0, 0], [0, 1, 0, 0], [0, 2, 0, 0]]    # in the feature of 爱 itself",
        "construction",
    ),
    Exercise(
        "interleaved_to_halves", "10", interleaved_to_halves,
        (
            "For one head of six rows, write down the old numbers of the rows in their new order. A pair "
            "is rows 0 and 1, then 2 and 3, then 4 and 5.",
            "Every second row of a head from its first, then every second from its second. Do it for each "
            "head.",
            "Give the rows three axes: heads, pairs, the two of a pair. Which two change places before "
            "the axes are joined again?",
        ),
        '''\
def interleaved_to_halves(w, n_heads):
    pairs = w.reshape(n_heads, -1, 2, w.shape[1])          # (H, d/2, 2, D)
    return pairs.swapaxes(1, 2).reshape(w.shape)           # (H, 2, d/2, D), then rows again
''',
        "function",
    ),
    Exercise(
        "restarted", "10", restarted,
        (
            "Fed in a single chunk, most of the wrong ones are right. Feed the same rows in several ways "
            "and compare the tables. How large may a difference be that means nothing?",
            "Try single rows, one long chunk and then single rows, and chunks of mixed sizes.",
            "One of them is wrong in the same way however it is fed. Let all queries be the same, and all "
            "keys: then the table may depend on the distance alone.",
        ),
        _TEST,
        "test",
    ),
)

"""The exercises of lesson 00: each judge takes an answer and returns a verdict."""

import operator

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.answers import as_floats, letter, numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.verdict import right, unanswered, wrong

_COUNTS = {
    8: ("one_a_word", "8 is the number of words. Each of them weighs every word, not only one."),
    32: ("what_was_drawn", "32 is what the first figure draws: four rows of eight. Four rows are missing."),
    56: ("not_itself", "56 leaves out what a word gives to itself, and that is a weight like any other."),
    28: ("pairs", "28 counts each pair once. What 它 gives to 甜 and what 甜 gives to 它 are two weights."),
    36: ("pairs", "36 counts each pair once. What 它 gives to 甜 and what 甜 gives to 它 are two weights."),
    16: ("sum", "16 adds the queries to the keys. But each query has a weight for each key."),
}


def map_size(answer):
    """How many weights does the whole map of the eight tokens hold?"""
    number, complaint = numbers(answer, (), "your answer")
    if complaint:
        return complaint
    if number == 64:
        return right(
            "Eight rows of eight. Twice as many words would have four times as many weights; part IV of the "
            "course is about that."
        )
    asks = "How many rows has the map, and how long is one?"
    misconception, hint = _COUNTS.get(float(number), (None, asks))
    return wrong(hint, misconception)


# Four sentence pairs, three heads, five English tokens that ask, seven Chinese ones that answer; queries
# and keys are 16 wide, values 10.
_SAME_SENTENCE = "One side must be English and the other Chinese: here no sentence looks at itself."
_ELSEWHERE = (
    "Right under another layout. Here the heads stand third from the end, before the lengths: "
    "(..., heads, length, features)."
)
_NO_HEADS = "Each of the three heads works by itself; none of them is summed away."
_NO_BATCH = "The four sentence pairs stay apart. They have an axis of their own, in front."
_IN_ONE = "Batch and heads share one axis in yours, as some libraries do inside. Here each has its own."
_HEADS_FIRST = "Right under another layout: you put the heads before the batch. Here the batch is in front."

WEIGHTS, OUTPUT = (4, 3, 5, 7), (4, 3, 5, 10)
_WEIGHTS = {
    (4, 3, 7, 5): ("keys_ask", "You turned them round: those who ask have the rows."),
    (4, 3, 5, 5): ("self_attention", _SAME_SENTENCE),
    (4, 3, 7, 7): ("self_attention", _SAME_SENTENCE),
    (4, 5, 7): ("no_heads", _NO_HEADS),
    (3, 5, 7): ("no_batch", _NO_BATCH),
    (5, 7): ("one_map", f"{_NO_BATCH} {_NO_HEADS}"),
    (4, 5, 3, 7): ("heads_elsewhere", _ELSEWHERE),
    (4, 5, 7, 3): ("heads_elsewhere", _ELSEWHERE),
    (3, 4, 5, 7): ("heads_first", _HEADS_FIRST),
    (12, 5, 7): ("in_one", _IN_ONE),
    (4, 3, 5, 16): ("still_features", "The 16 features are gone: a dot product sums over them."),
    (4, 3, 7, 16): ("still_features", "The 16 features are gone: a dot product sums over them."),
    (4, 3, 16, 16): ("features_ask", "That is features against features. Tokens are compared with tokens."),
    (4, 3, 5): ("one_a_query", "Each query has a weight for every token that may answer, not one."),
    OUTPUT: ("values_already", "That has the width of the values, which come in only after the weights."),
}
_OUTPUT = {
    (4, 3, 5, 16): ("as_wide_as_keys", "An answer is a mean of values, so it is as wide as they are."),
    (4, 3, 7, 10): ("a_row_a_key", "That is the shape of the values. There is an answer for each who asks."),
    (4, 3, 7, 16): ("keys_again", "That is the shape of the keys. What comes out is a mean of values."),
    (4, 5, 10): ("no_heads", _NO_HEADS),
    (3, 5, 10): ("no_batch", _NO_BATCH),
    (5, 10): ("one_map", f"{_NO_BATCH} {_NO_HEADS}"),
    (4, 5, 3, 10): ("heads_elsewhere", _ELSEWHERE),
    (4, 5, 10, 3): ("heads_elsewhere", _ELSEWHERE),
    (3, 4, 5, 10): ("heads_first", _HEADS_FIRST),
    (12, 5, 10): ("in_one", _IN_ONE),
    (4, 5, 30): ("heads_joined", "You joined the heads. A layer does that later (lesson 09)."),
    (4, 3, 10): ("one_answer", "There is an answer for each English token, not one for all."),
    WEIGHTS: ("weights_again", "That is the weights once more. Now multiply them by the values."),
}


def two_shapes(answer):
    """The shape of the weights and of the output, for English that asks Chinese in three heads."""
    try:
        weights, output = answer
    except (TypeError, ValueError):
        return wrong(f"Give two shapes: (shape of the weights, shape of the output); got {short(answer)}.")
    if weights is ... or output is ...:
        return unanswered("Put a shape in place of each of the three dots and run the cell again.")
    shapes = {"The weights": _shape(weights), "The output": _shape(output)}
    for name, shape in shapes.items():
        if shape is None:
            given = short(weights if name == "The weights" else output)
            return wrong(f"{name}: a shape is a tuple of whole numbers, such as (2, 3, 4); got {given}.")
    weights, output = shapes.values()
    if (weights, output) == (WEIGHTS, OUTPUT):
        return right(
            "Rows for those who ask, columns for those who answer, and the output as wide as the values. "
            "The 16 has left no trace: queries and keys were multiplied and summed over it."
        )
    if (weights, output) == (OUTPUT, WEIGHTS):
        return wrong("Both shapes are right, in the other order: the weights first.", "order")
    told, found = [], []
    for name, shape, rightly, known in (
        ("weights", weights, WEIGHTS, _WEIGHTS), ("output", output, OUTPUT, _OUTPUT)
    ):
        if shape == rightly:
            told.append(f"The {name} are right." if name == "weights" else f"The {name} is right.")
            continue
        misconception, hint = known.get(shape, (None, _what_is_off(shape, rightly)))
        told.append(f"The {name}, {shape}: {hint}")
        found += [misconception] if misconception and misconception not in found else []
    return wrong(" ".join(told), " and ".join(found) or None)


def _what_is_off(shape, rightly):
    if len(shape) != len(rightly):
        return "It needs four axes: sentence pairs, heads, and two more. Which?"
    if sorted(shape) == sorted(rightly):
        return "The numbers are right, their order is not: sentence pairs, heads, those who ask come first."
    axes = ("the sentence pairs", "the heads", "those who ask", "what each of them gets")
    wrong_at = [axis for axis, size, ours in zip(axes, shape, rightly, strict=True) if size != ours]
    return f"Look again at the axis of {' and of '.join(wrong_at)}."


def _shape(x):
    """``x`` as a tuple of positive ints, or None."""
    try:
        shape = tuple(operator.index(size) for size in x)
    except TypeError:
        return None
    return shape if 0 < len(shape) <= 8 and all(0 < size < 10**6 for size in shape) else None


PRINTED = {
    "A": "0.2 0.1 0.5 0.3",
    "B": "0.14 0.14 0.14 0.14 0.14 0.14 0.14",
    "C": "0.74 0.04 0.04 0.04 0.04 0.04 0.04 0.04",
    "D": "0.49 0.49 0.01 0.00",
    "E": "0.65 0.30 0.03",
}
# Weights that sum to one and print as the row does.
UNROUNDED = {
    "A": ("0.175, 0.075, 0.475 and 0.275", [0.175, 0.075, 0.475, 0.275]),
    "B": ("seven weights of 1/7 = 0.142857", [1 / 7] * 7),
    "C": ("0.7416 and seven times 0.0369", [*softmax(np.array([3.0, 0, 0, 0, 0, 0, 0, 0]))]),
    "D": ("0.4925, 0.4925, 0.0125 and 0.0025", [0.4925, 0.4925, 0.0125, 0.0025]),
}
_WHY = {
    "A": ("largest_error", " It is furthest from one, and has one decimal: each number may be off by 0.05."),
    "C": ("above_one", " More than one is no proof: eight numbers may have been rounded up."),
}


def rounded_or_wrong(answer):
    """Which printed row cannot be the rounding of weights that sum to one?"""
    row, complaint = letter(answer, tuple(PRINTED))
    if complaint:
        return complaint
    if row == "E":
        return right(
            "Three numbers with two decimals are off by at most 0.005 each, 0.015 together, and 0.02 are "
            "missing. Row B has the same sum and seven numbers, which may hide 0.035. Row A may be rounding "
            "too; to compute with it as printed is another matter, for its mean comes out a tenth too large."
        )
    example, _ = UNROUNDED[row]
    misconception, reason = _WHY.get(row, (None, ""))
    return wrong(
        f"Row {row} can be rounding: {example} sum to one and print like this.{reason} How far off can each "
        "number be, and how many are there?",
        misconception,
    )


_FORMULAS = {  # what goes wrong with each, in a book whose words are columns
    "A": (
        "rows_as_ever",
        "Q Kᵀ is (d, Lq) times (Lk, d): the inner sizes are two lengths. This is the formula for words as "
        "rows; turn every matrix round and see what becomes of it.",
    ),
    "C": (
        "keys_after_queries",
        "Qᵀ K is (Lq, Lk), and V in front of it (dv, Lk): the inner sizes are Lk and Lq. It runs only where "
        "the lengths are equal, and then uses the weights turned round.",
    ),
    "D": (
        "values_behind",
        "Kᵀ Q is (Lk, Lq), and V behind it (dv, Lk): the inner sizes are Lq and dv. On which side do the "
        "values stand when everything is turned round?",
    ),
}


def words_as_columns(answer):
    """Which formula is attention where every word is a column?"""
    name, complaint = letter(answer, "ABCD")
    if complaint:
        return complaint
    if name == "B":
        return right(
            "Kᵀ Q is (Lk, d) times (d, Lq), so (Lk, Lq): a column of weights for each query. V in front is "
            "(dv, Lk), and the answer (dv, Lq). It is our formula turned round as a whole. Such books also "
            "write Wᵀ x for our x W, so look which way words lie before you call a transpose a misprint."
        )
    misconception, hint = _FORMULAS[name]
    return wrong(f"Formula {name}: {hint}", misconception)


SIZES = ("B", "H", "Lq", "Lk", "d", "dv")
SUSPECTS = {
    "asks with the keys": lambda q, k, v: softmax(k @ q.mT) @ v,
    "forgets a transpose": lambda q, k, v: softmax(q @ k) @ v,
    "averages the keys": lambda q, k, v: softmax(q @ k.mT) @ k,
    "adds a number for each head": lambda q, k, v: softmax(q @ k.mT + np.zeros(q.shape[1])) @ v,
    "adds a padding mask as it is": lambda q, k, v: softmax(q @ k.mT + np.zeros((len(k), k.shape[2]))) @ v,
}


def telling_sizes(answer):
    """Six sizes, each 2 or 3, on which none of five faulty functions gives the right shape."""
    sizes, complaint = numbers(answer, (6,), "your sizes (B, H, Lq, Lk, d, dv)")
    if complaint:
        return complaint
    if not all(size == round(size) and 1 <= size <= 16 for size in sizes):
        return wrong(f"Sizes are whole numbers, here 2 or 3; got {short(as_floats(answer).tolist())}.")
    sizes = [int(size) for size in sizes]
    unseen = [name for name in SUSPECTS if slips_through(name, sizes)]
    if not unseen and not set(sizes) <= {2, 3}:
        return wrong(
            "These sizes do catch all five. Take such sizes in tests of your own. The puzzle allows only 2 "
            "and 3, so that you must see what each function needs.",
            "more_than_two_sizes",
        )
    if not set(sizes) <= {2, 3}:
        return wrong(f"Use only 2 and 3. (As they are, {_these(unseen)}.)")
    if len(set(sizes)) == 1:
        return wrong(
            "With all sizes equal, all five run and give the right shape. Such a test sees nothing.",
            "all_equal",
        )
    if unseen:
        return wrong(
            f"With {', '.join(f'{name} = {size}' for name, size in zip(SIZES, sizes, strict=True))}, "
            f"{_these(unseen)}. Write the shape of each step under it: which two sizes must differ?",
            "self_attention" if sizes[2] == sizes[3] else None,
        )
    return right(
        "Four of the five end in an error and one in a wrong shape. With six different sizes you need not "
        "think: take those in tests of your own. No sizes show a softmax over the wrong axis, whose shape is "
        "always right. For that, add up a row."
    )


def slips_through(name, sizes):
    """Whether the suspect of this name gives the right shape on these sizes."""
    batch, heads, queries, keys, width, value_width = sizes
    q = np.zeros((batch, heads, queries, width))
    k, v = np.zeros((batch, heads, keys, width)), np.zeros((batch, heads, keys, value_width))
    try:
        return SUSPECTS[name](q, k, v).shape == (batch, heads, queries, value_width)
    except ValueError:
        return False


def _these(names):
    listed = ", ".join(f'"{name}"' for name in names)
    return f"{listed} {'slips' if len(names) == 1 else 'slip'} through: no error, and the right shape"

EXERCISES = (
    Exercise(
        "map_size", "00", map_size,
        (
            "The figure draws some of the rows. How many rows are there in all, one for each word that asks?",
            "Each row holds a weight for every word, its own included.",
        ),
        "answer = 64    # eight rows of eight",
        "prediction",
    ),
    Exercise(
        "two_shapes", "00", two_shapes,
        (
            "Who asks has the rows, who answers has the columns. Which of the two lengths is which?",
            "Batch and heads stand in front and stay as they are. The width of queries and keys is summed "
            "away.",
            "The weights end in (queries, keys). The output has a row for each query, as wide as a value.",
        ),
        "answer = ((4, 3, 5, 7), (4, 3, 5, 10))",
        "prediction",
    ),
    Exercise(
        "rounded_or_wrong", "00", rounded_or_wrong,
        (
            "A number with two decimals may be off by 0.005, one with one decimal by 0.05. By how much may a "
            "whole row be off?",
            "Compare what a row's sum lacks, or has too much, with the number of its entries times that.",
            "A long row may hide a lot. Look for a short one that lacks more than its few numbers can hide.",
        ),
        'answer = "E"    # 0.02 are missing, and three numbers hide at most 0.015',
        "prediction",
    ),
    Exercise(
        "words_as_columns", "00", words_as_columns,
        (
            "Write the shape under every factor: Q is (d, Lq), K is (d, Lk), V is (dv, Lk).",
            "The answer has a column for each query, (dv, Lq). Which products have inner sizes that agree?",
            "Turn our formula round as a whole: the order of the factors is reversed, and every one is "
            "transposed.",
        ),
        'answer = "B"    # V softmax(K^T Q), the softmax down each column',
        "prediction",
    ),
    Exercise(
        "telling_sizes", "00", telling_sizes,
        (
            "Take one suspect and write the shape of each of its steps. Which two sizes must agree for it to "
            "run?",
            "Every suspect needs one pair of sizes to differ. With only 2 and 3 some other pairs must then "
            "agree.",
            "Lq and Lk must differ, d and Lk, d and dv; then heads and Lk, and B and Lq.",
        ),
        "answer = (2, 3, 3, 2, 3, 2)    # (B, H, Lq, Lk, d, dv); all turned round is right too",
        "construction",
    ),
)

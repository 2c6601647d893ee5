"""Lesson 14's exercises on what a head's matrices are together: ranks, copying, and another map."""

import numpy as np

from attnlib.datasets import running_example
from attnlib.exercises.answers import numbers
from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------------- ranks


def circuit_ranks(answer):
    """The largest ranks of four products: 32 features, heads of width 8, 5 known words, a text of 6."""
    given, complaint = numbers(answer, (4,), "your answer")
    if complaint:
        return complaint
    for place, (name, rank, others, why) in enumerate((
        ("W_Q W_K^T", 8, {32: "It is a table of 32 by 32, made of what passes through 8 numbers.",
                          64: "A rank is at most the smaller side of each factor, and none has 64."},
         "What is the narrowest place that a vector passes?"),
        ("W_E W_Q W_K^T W_E^T", 5, {8: "It has 5 rows and 5 columns, one for each word.",
                                    32: "It has 5 rows and 5 columns, one for each word."},
         "How many rows has this table?"),
        ("the sum of four OV circuits", 32,
         {8: "Each of the four has rank 8, and they need not use the same 8 directions.",
          2: "The four are added, not joined or divided.",
          4: "The four are added. Each brings directions of its own."},
         "How many directions can each of four heads add to, and how many are there?"),
        ("the matrix on all six words", 48,
         {8: "That is the rank of OV alone. The same 8 directions can be written at each word.",
          6: "That is the rank of A alone. At each word 8 directions can be written.",
          14: "Ranks multiply under this product, and sides do too.",
          192: "That is its number of rows. OV lets 8 of the 32 directions through.",
          32: "It acts on six words of 32 features at once."},
         "A mixes words, OV features. How many pairs of an output of one and an output of the other?"),
    )):  # fmt: skip
        if given[place] != rank:
            return wrong(f"{given[place]:g} is not the largest rank of {name}. "
                         f"{others.get(float(given[place]), why)}", f"rank_{'abcd'[place]}")
    return right(
        "A head sees and writes 8 directions of 32, whatever the table's size; four heads can fill the "
        "stream. And a head on a text is large because the text is: 6 times 8, made of a small A and a "
        "small OV."
    )


# ------------------------------------------------------------------- another map, the same output

WORDS = running_example()[0]
VALUES = np.array([[0, 0], [8, 0], [0, 8], [4, 3], [1, 1], [2, 5], [6, 1], [8, 8]], float)
WEIGHTS = np.array([0.1, 0, 0, 0.7, 0, 0.1, 0, 0.1])
_APPLE = WORDS.index("苹果")


def another_map(answer):
    """Weights without 苹果 that give the output that WEIGHTS give."""
    row, complaint = numbers(answer, (8,), "your row of weights")
    if complaint:
        return complaint
    got, wanted = row @ VALUES, WEIGHTS @ VALUES
    same = np.abs(got - wanted).max() < 1e-3
    told = f"The output is {got.round(3).tolist()}"
    if abs(row.sum() - 1) > 1e-3:
        at_sum = " The output is right, and no softmax gives this row." * bool(same)
        return wrong(f"Your weights sum to {row.sum():.4g}. A row of weights sums to 1.{at_sum}",
                     "does_not_sum")
    if row.min() < -1e-9:                                  # a rounding is no weight below 0
        least = int(row.argmin())
        return wrong(
            f"{WORDS[least]} has a weight of {row[least]:.3g}. The equations are solved by it, and a softmax "
            "never gives it. There are more solutions: choose words whose values lie around the output.",
            "negative")
    if row[_APPLE] > 0.01:
        kept = np.allclose(row, WEIGHTS, atol=1e-3)
        return wrong(
            "That is the row itself. 苹果 is to have none." if kept else
            f"苹果 still has {row[_APPLE]:.2g}. Take all of it away: what the others have to make up for "
            "is 0.7 times (4, 3).", "the_same" if kept else "apple_kept")
    if not same:
        rest = np.where(np.arange(8) == _APPLE, 0, WEIGHTS)
        if np.allclose(row, rest / rest.sum(), atol=1e-3):
            return wrong(f"{told}: you left 苹果 out and made the rest sum to one. The others must also make "
                         "up for what 苹果 brought.", "renormalised")
        return wrong(f"{told} and should be {wanted.round(3).tolist()}. Three words around that point are "
                     "enough: two equations, and the sum.", "outputs_differ")
    return right(
        "The head gave 0.7 of its weight to 苹果, yours gives it nothing, and no later layer can tell. Eight "
        "weights with the sum 1 have seven freedoms, the output fixes two. A corner of the outline, "
        "such as 甜 alone, has a single row."
    )


# ------------------------------------------------------------------- copying


def _copying(W_E, W_V, W_O, W_U, *, circuit="full", values="eigen", numerator="sum", denominator="abs"):  # noqa: N803
    matrix = {
        "full": lambda: W_E @ W_V @ W_O @ W_U,
        "ov": lambda: W_V @ W_O,
        "heads": lambda: W_E @ (W_V @ W_O).sum(0) @ W_U,
    }[circuit]()
    found = {
        "eigen": lambda: np.linalg.eigvals(matrix),
        "symmetric": lambda: np.linalg.eigvalsh(matrix),
        "halves": lambda: np.linalg.eigvalsh((matrix + np.swapaxes(matrix, -1, -2)) / 2),
        "singular": lambda: np.linalg.svd(matrix, compute_uv=False),
        "diagonal": lambda: np.diagonal(matrix, axis1=-2, axis2=-1),
        "entries": lambda: matrix.reshape(*matrix.shape[:-2], -1),
        "real": lambda: _real_ones(np.linalg.eigvals(matrix)),
    }[values]()
    top = {
        "sum": lambda: found.sum(-1).real,
        "size": lambda: np.abs(found.sum(-1)),
        "rank_signs": lambda: np.where(np.abs(found) > 1e-9, np.sign(found.real), 0).sum(-1)
        / (np.abs(found) > 1e-9).sum(-1),
        "positive": lambda: ((found.real > 0) & (np.abs(found) > 1e-9)).sum(-1)
        / (np.abs(found) > 1e-9).sum(-1),
        "positive_of_all": lambda: (found.real > 1e-9).mean(-1),
        "positive_part": lambda: np.clip(found.real, 0, None).sum(-1),
        "largest": lambda: np.take_along_axis(found, np.abs(found).argmax(-1)[..., None], -1)[..., 0].real,
        "negated": lambda: -found.sum(-1).real,
    }[numerator]()
    bottom = {
        "abs": lambda: np.abs(found).sum(-1),
        "real": lambda: np.abs(found.real).sum(-1),
        "root": lambda: np.sqrt((np.abs(found) ** 2).sum(-1)),
        "count": lambda: np.full(found.shape[:-1], found.shape[-1], float),
        "none": lambda: np.ones(found.shape[:-1]),
        "largest": lambda: np.abs(found).max(-1),
        "off_diagonal": lambda: np.abs(matrix).sum((-2, -1)),
    }[denominator]()
    return top / bottom


def _real_ones(found):
    return np.where(np.abs(found.imag) < 1e-9, found, 0)


def _copying_cases():
    rng = np.random.default_rng(14)

    def case(name, heads, n, d, r, hint="", scale=1.0):
        w_e, w_v = rng.normal(size=(n, d)), rng.normal(size=(heads, d, r))
        return Case(name, (w_e, w_v, scale * rng.normal(size=(heads, r, d)), rng.normal(size=(d, n))),
                    hint=hint)

    turn = np.kron(np.eye(2), [[1.0, -2.0], [2.0, 1.0]])
    eye = np.eye(4)
    known = np.stack([eye, -eye, turn, np.diag([3.0, 1, -1, 0])])
    return [
        case("3 heads of width 4, 7 words, 6 features", 3, 7, 6, 4,
             "The circuit leads from a word that is looked at to the logits: four matrices, 7 by 7."),
        case("2 heads of width 3, 5 words, 8 features", 2, 5, 8, 3,
             "Eigenvalues that are complex come in pairs: their sum is real, their size has two parts."),
        Case("heads that copy, lower, turn and mix", (eye, known, np.stack([eye] * 4), eye),
             hint="With W_E, W_O and W_U the identity a circuit is W_V. The scores are 1, -1, "
                  "1/sqrt(5) and 3/5."),
        case("4 heads of width 5, 5 words, 5 features", 4, 5, 5, 5,
             "All sizes are equal here, so that no shape stops a product in the wrong order."),
        case("one head", 1, 6, 9, 2, "There is an axis for heads though there is one head."),
        case("a thousand times as large", 2, 6, 4, 2, "The score has no size.", scale=1000.0),
    ]


copying = FunctionExercise(
    _copying, _copying_cases,
    (
        Mistake("bare_circuit", "You take W_V @ W_O alone, which leads from features to features. Copying is "
                "about words: put W_E in front and W_U behind.", {"circuit": "ov"}),
        Mistake("heads_added", "You add the heads before you take eigenvalues. Each head has a score.",
                {"circuit": "heads"}),
        Mistake("symmetric", "For symmetric matrices there is eigvalsh, which reads one triangle only. A "
                "circuit is not symmetric.", {"values": "symmetric"}),
        Mistake("symmetric", "You take the symmetric part of the circuit. Its eigenvalues are others.",
                {"values": "halves"}),
        Mistake("always_one", "This score is always 1. Are they singular values, which have no sign? Or do "
                "you divide a sum by itself? Above stands the sum of the eigenvalues, below that of their "
                "sizes.", {"values": "singular"}),
        Mistake("diagonal", "You divide by the sizes of the diagonal's entries. The sum of the diagonal is "
                "that of the eigenvalues; the sum of their sizes is something else.", {"values": "diagonal"}),
        Mistake("all_entries", "You take the entries of the circuit. The eigenvalues are asked for.",
                {"values": "entries"}),
        Mistake("diagonal", "You divide the diagonal by the sizes of all entries. It is eigenvalues above "
                "and below.", {"denominator": "off_diagonal"}),
        Mistake("real_ones_only", "You leave the complex eigenvalues out. They count, with their real part "
                "above and their whole size below.", {"values": "real"}),
        Mistake("size_of_the_sum", "You take the size of the sum. A circuit that lowers all words then looks "
                "like one that copies: keep the sign.", {"numerator": "size"}),
        Mistake("counted", "You count signs. A large eigenvalue is to weigh more than a small one.",
                {"numerator": "rank_signs", "denominator": "none"}),
        Mistake("counted", "You count the positive ones. Each eigenvalue enters with its size.",
                {"numerator": "positive", "denominator": "none"}),
        Mistake("counted", "You count the positive ones. Each eigenvalue enters with its size.",
                {"numerator": "positive_of_all", "denominator": "none"}),
        Mistake("positive_part", "You add the positive ones alone. The negative ones are taken off.",
                {"numerator": "positive_part"}),
        Mistake("size_of_the_real_part", "Below you take the sizes of the real parts. The size of a complex "
                "number has two parts: 2i is not 0.", {"denominator": "real"}),
        Mistake("not_divided", "You do not divide: a score between -1 and 1 is asked for.",
                {"denominator": "none"}),
        Mistake("mean", "You divide by the number of eigenvalues. Divide by the sum of their sizes.",
                {"denominator": "count"}),
        Mistake("other_norm", "You divide by the root of the sum of squares. Divide by the sum of the sizes.",
                {"denominator": "root"}),
        Mistake("largest_only", "You divide by the largest size. Divide by the sum of the sizes.",
                {"denominator": "largest"}),
        Mistake("largest_only", "You take the largest eigenvalue alone. All of them enter.",
                {"numerator": "largest", "denominator": "largest"}),
        Mistake("negated", "The sign is turned: a circuit that copies is to score 1.",
                {"numerator": "negated"}),
    ),  # fmt: skip
    "Checked on heads that copy, lower, turn and mix, and on random ones of several widths. The number of "
    "words may be thousands; W_O W_U W_E W_V has the same eigenvalues, but for zeros, and is as small as a "
    "head.",
    properties=(in_torch, few_digits),
)


EXERCISES = (
    Exercise(
        "circuit_ranks", "14", circuit_ranks,
        (
            "A product of matrices has at most the rank of its narrowest factor. Write the shapes in a row.",
            "A sum can have as much rank as its parts together, up to the size of the table. Under the "
            "Kronecker product ranks multiply.",
        ),
        "answer = (8, 5, 32, 6 * 8)    # min(32, 8), min(8, 5), min(4 * 8, 32), rank of A times rank of OV",
        "prediction",
    ),
    Exercise(
        "another_map", "14", another_map,
        (
            "The output is 0.7 (4, 3) + 0.1 (0, 0) + 0.1 (2, 5) + 0.1 (8, 8). Which three other words have "
            "values around that point?",
            "吃了 gives 8 to the first number alone, 一个 gives 8 to the second alone, and 我 gives nothing "
            "to either.",
            "Eight times the weight of 吃了 is to be 3.8, eight times that of 一个 3.4. The rest goes to 我.",
        ),
        """# 3.8 = 8 * 0.475 and 3.4 = 8 * 0.425; 我 takes what is left of 1
answer = [0.1, 0.475, 0.425, 0, 0, 0, 0, 0]""",
        "construction",
    ),
    Exercise(
        "copying", "14", copying,
        (
            "A word is looked at, read by W_V, written by W_O, and enters the logits by W_U. Which shape has "
            "the product of all four?",
            "np.linalg.eigvals takes a stack of matrices, and its answer may be complex.",
            "The sum of the eigenvalues is real but for rounding: take .real. Below stand their sizes, "
            "np.abs.",
        ),
        """
import numpy as np


def copying(W_E, W_V, W_O, W_U):
    circuit = W_E @ W_V @ W_O @ W_U                        # (H, n, n)
    values = np.linalg.eigvals(circuit)                    # (H, n)
    return values.sum(-1).real / np.abs(values).sum(-1)    # (H,)
""",
        "function",
    ),
)

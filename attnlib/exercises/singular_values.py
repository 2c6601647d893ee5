"""Lesson 24: how many numbers an expert has, a weight in the shipped form, a target that no scaling nears."""

import numpy as np

from attnlib.exercises.answers import as_floats, numbers, short
from attnlib.exercises.common import few_digits
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, unanswered, wrong

# ------------------------------------------------------------- how large an expert is

_LAYERS = 24
_FEED_FORWARD, _ATTENTION = ((5632, 2048),) * 3, ((2048, 2048),) * 4


def _lora(matrices, rank=8):
    return sum(rank * (a + b) for a, b in matrices)


_SIZES = np.array([
    _LAYERS * sum(map(min, _FEED_FORWARD)),
    _LAYERS * sum(map(min, _FEED_FORWARD + _ATTENTION)),
    _LAYERS * _lora(_FEED_FORWARD + _ATTENTION),
])  # fmt: skip
_KNOWN_SIZES = (
    (0, _LAYERS * 3 * 5632, "larger_side", "(a) You count the larger side. A matrix of 5,632 by 2,048 has "
     "rank 2,048 at most, and so many singular values."),
    (1, _LAYERS * (3 * 5632 + 4 * 2048), "larger_side", "(b) You count the larger side of the "
     "feed-forward matrices. How many singular values has a matrix of 5,632 by 2,048?"),
    (0, _LAYERS * 3 * (5632 + 2048), "both_sides", "(a) You count both sides. A multiplier stands between "
     "the two, one for each pair of directions."),
    (1, _LAYERS * (3 * 7680 + 4 * 4096), "both_sides", "(b) You count both sides of each matrix. A "
     "multiplier stands between the two, one for each pair of directions."),
    (0, 3 * 2048, "one_layer", "(a) That is one layer."),
    (1, 7 * 2048, "one_layer", "(b) That is one layer."),
    (2, _lora(_FEED_FORWARD + _ATTENTION), "one_layer", "(c) That is one layer."),
    (0, _LAYERS * 2048, "one_matrix", "(a) Each layer has three such matrices."),
    (0, _LAYERS * 3 * 5632 * 2048, "whole_weights", "(a) Those are all numbers of the matrices. How many are "
     "trained, if only the singular values are multiplied?"),
    (1, _LAYERS * (3 * 5632 * 2048 + 4 * 2048**2), "whole_weights", "(b) Those are all numbers of the "
     "matrices. How many are trained, if only the singular values are multiplied?"),
    (0, _LAYERS * 7 * 2048, "changed_over", "(a) That is the answer to (b)."),
    (1, _LAYERS * 3 * 2048, "feed_forward_alone", "(b) All matrices are asked for, those of attention too."),
    (1, _LAYERS * 4 * 2048, "attention_alone", "(b) All matrices are asked for, the feed-forward ones too."),
    (2, _LAYERS * _lora(_FEED_FORWARD), "feed_forward_alone", "(c) LoRA stands on all seven matrices here."),
    (2, _LAYERS * _lora(_ATTENTION), "attention_alone", "(c) LoRA stands on all seven matrices here."),
    (2, _LAYERS * _lora(_FEED_FORWARD + _ATTENTION, 1), "rank_forgotten", "(c) That is rank 1."),
    (2, _LAYERS * 8 * 7 * 2 * 2048, "square_matrices", "(c) You count 2,048 for both sides of the "
     "feed-forward matrices. One of LoRA's two factors is as long as their larger side, 5,632."),
    (2, _LAYERS * 8 * (3 * 5632 * 2048 + 4 * 2048**2), "sides_multiplied", "(c) You multiply the two sides. "
     "For each rank there is a column and a row: add them."),
    (2, _LAYERS * 8 * 7 * 2048, "one_factor", "(c) You count one of LoRA's two matrices. For each rank "
     "there is a column as long as one side and a row as long as the other."),
    (2, 8 * _LAYERS * (3 * 5632 + 4 * 2048), "one_factor", "(c) You count one of LoRA's two matrices. For "
     "each rank there is a column as long as one side and a row as long as the other."),
)  # fmt: skip


def expert_sizes(answer):
    """Trained numbers: multipliers on the feed-forward matrices, on all, LoRA of rank 8 on all."""
    if isinstance(answer, tuple | list) and any(part is ... or part is None for part in answer):
        return unanswered("Put your answer in place of the three dots and run the cell again.")
    given, complaint = numbers(answer, (3,), "your answer")
    if complaint:
        return complaint
    off = given != _SIZES
    if not off.any():
        return right(
            "24 * 3 * 2,048 = 147,456, 24 * 7 * 2,048 = 344,064, and 24 * 8 * (4 * 4,096 + 3 * 7,680) = "
            "7,569,408. A matrix has as many multipliers as its smaller side is long; LoRA pays for both "
            "sides, once for each rank."
        )
    told = "The others are right. " if off.sum() == 1 else ""
    for index, value, name, hint in _KNOWN_SIZES:
        if off[index] and given[index] == value:
            return wrong(told + hint, name)
    first = int(np.flatnonzero(off)[0])
    return wrong(told + (
        "(a) Three matrices in each of 24 layers. How many singular values has one?",
        "(b) Seven matrices in each of 24 layers. How many singular values has each?",
        "(c) For each rank, a column and a row: as long as the two sides together. Add up a layer first.",
    )[first] + f" Got {given[first]:,.12g}.")  # fmt: skip


# ------------------------------------------------------------- the shipped form


@np.errstate(all="ignore")
def _shipped(U, S, V, z, *, gate="sigmoid", factor="sum", turn="V", where="values", used="once"):
    U, S, V, z = (np.asarray(x, dtype=float) for x in (U, S, V, z))
    sigma = 1 / (1 + np.exp(-z))
    m = {"sigmoid": sigma, "none": z, "exp": np.exp(z), "tanh": np.tanh(z), "twice": 1 / (1 + np.exp(-sigma)),
         "softmax": np.exp(z) / np.exp(z).sum(), "minus": 1 - sigma,
         "of_values": 1 / (1 + np.exp(-S * z)) / S}[gate]  # fmt: skip
    scaled = S * m
    above, below = {
        "sum": (S.sum(), scaled.sum()), "none": (1.0, 1.0), "upside_down": (scaled.sum(), S.sum()),
        "multipliers": (len(m), m.sum()), "squares": (np.sqrt((S**2).sum()), np.sqrt((scaled**2).sum())),
        "apart": (S.sum(), m.sum()),
        "largest": (S.max(), scaled.max()), "above_only": (S.sum(), 1.0), "below_only": (1.0, scaled.sum()),
    }[factor]  # fmt: skip
    scaled = {"once": scaled, "never": m, "squared": scaled**2}[used]
    V = V.T if turn == "Vt" else V
    if where == "rows":
        weight = (U * S) @ V.T
        return weight * np.resize(m, len(weight))[:, None] * above / below
    return (U * scaled) @ V.T * above / below


def _weights():
    rng = np.random.default_rng(24)
    sizes = (("a tall weight", 5, 3), ("a wide weight", 3, 6), ("a square weight", 4, 4))
    for name, out, inn in sizes:
        U, S, Vt = np.linalg.svd(rng.normal(size=(out, inn)), full_matrices=False)
        yield Case(name, (U, S, Vt.T, rng.normal(size=len(S))),
                   hint="Compare the shapes: U (out, r), V (in, r), and the result (out, in). Then try equal "
                   "numbers in z, and after them numbers that differ.")  # fmt: skip
    yield Case("equal numbers in z", (U, S, Vt.T, np.full(4, 5.0)), hint="The weight itself must come out.")
    yield Case("large numbers of either sign", (U, S, Vt.T, np.array([9.0, -9.0, 4.0, -4.0])))


_SUM = "The sum of the singular values must stay what it was"
shipped_weight = FunctionExercise(
    _shipped,
    lambda: list(_weights()),
    (
        Mistake("no_sigmoid", "You multiply by z as it is. It goes through a sigmoid first.",
                {"gate": "none"}),
        Mistake("no_factor", f"{_SUM}; yours shrinks with every multiplier below 1. Which factor brings it "
                "back?", {"factor": "none"}),
        Mistake("factor_upside_down", "The factor is upside down: what the sum was stands above, what it "
                "became below.", {"factor": "upside_down"}),
        Mistake("factor_of_multipliers", f"{_SUM}, and you keep the sum of the multipliers. A multiplier of "
                "a large singular value weighs more.", {"factor": "multipliers"}),
        Mistake("factor_of_multipliers", f"{_SUM}. You divide the old sum by that of the multipliers, and "
                "the new singular values are S * m.", {"factor": "apart"}),
        Mistake("length_kept", f"{_SUM}, and you keep the root of the sum of their squares.",
                {"factor": "squares"}),
        Mistake("largest_kept", f"{_SUM}, and you keep the largest of them.", {"factor": "largest"}),
        Mistake("half_a_factor", f"{_SUM}. You multiply by the old sum and do not divide by the new one.",
                {"factor": "above_only"}),
        Mistake("half_a_factor", f"{_SUM}. You divide by the new sum and do not multiply by the old one.",
                {"factor": "below_only"}),
        Mistake("V_transposed", "V comes as (in, r), not transposed. NumPy's own function returns the other.",
                {"turn": "Vt"}),
        Mistake("rows_scaled", "Rows of the weight are multiplied. The multipliers belong to the singular "
                "values, between U and V.", {"where": "rows"}),
        Mistake("other_gate", "The multipliers are exponentials. They are sigmoids.", {"gate": "exp"}),
        Mistake("other_gate", "The multipliers are hyperbolic tangents. They are sigmoids.",
                {"gate": "tanh"}),
        Mistake("other_gate", "The multipliers are a softmax of z. They are sigmoids, one by one.",
                {"gate": "softmax"}),
        Mistake("sigmoid_twice", "The sigmoid is taken twice.", {"gate": "twice"}),
        Mistake("sign_of_z", "The sigmoid is of minus z: a large z makes its direction weaker.",
                {"gate": "minus"}),
        Mistake("values_squared", "The singular values come in twice. Is S in U, or in V, already?",
                {"used": "squared"}),
        Mistake("values_lost", "The multipliers stand in place of the singular values. They multiply them.",
                {"used": "never"}),
        Mistake("sigmoid_of_values", "The sigmoid is of S * z. It is of z alone, and then multiplies S.",
                {"gate": "of_values"}),
    ),
    "Tall, wide and square weights agree, equal numbers leave the weight as it is, and the sum of the "
    "singular values stays. Only the ratios of the multipliers count: that is why c cancels.",
    properties=(few_digits,),
)  # fmt: skip


# ------------------------------------------------------------- out of reach

W = np.diag([3.0, 2.0, 1.0])


def out_of_reach(answer):
    """A target with W's singular values, for which the best multipliers are zeros."""
    if answer is ...:
        return unanswered("Put your answer in place of the three dots and run the cell again.")
    target = as_floats(answer)
    if target is None or target.shape != (3, 3) or not np.isfinite(target).all():
        return wrong(f"Let your answer be a 3 by 3 array of numbers; got {short(answer)}.")
    best = target.diagonal() / W.diagonal()
    told = f"The best z is ({', '.join(f'{x:.3g}' for x in best)})."
    found = np.linalg.svd(target, compute_uv=False)
    if not target.any():
        return wrong("All zeros are reached exactly, by a z of zeros. The target must have the singular "
                     "values 3, 2 and 1.", "zeros")  # fmt: skip
    if np.allclose(abs(target), W, atol=1e-3):
        return wrong(f"That is W with signs, and z may be negative. {told} It reaches all of it.", "signs")
    if not np.allclose(best, 0, atol=1e-3):
        if abs(best.sum()) < 1e-3 or abs(target.trace()) < 1e-3:
            return wrong(f"{told} They cancel, but each is chosen by itself: every one of them must be 0.",
                         "cancels")  # fmt: skip
        return wrong(f"{told} It should be (0, 0, 0). Which entries of T decide it?", "within_reach")
    if not np.allclose(found, W.diagonal(), atol=1e-2):
        got = ", ".join(f"{x:.3g}" for x in found.round(6))
        return wrong(f"The best z is (0, 0, 0), as asked. But the singular values of T are {got}, and should "
                     "be 3, 2, 1.", "other_values")  # fmt: skip
    return right(
        "No scaling comes nearer than nothing, although T is stretched exactly as W is. What T pairs, heard "
        "and said, are other directions: the diagonal of U.T @ T @ V is 0, and everything else in T is out "
        "of reach. LoRA of rank 3 on top of W would have it all."
    )


_SHIPPED_SOLUTION = '''
import numpy as np

def shipped_weight(U, S, V, z):
    m = 1 / (1 + np.exp(-z))
    scaled = S * m
    return (U * scaled) @ V.T * S.sum() / scaled.sum()
'''.lstrip()  # fmt: skip

EXERCISES = (
    Exercise("expert_sizes", "24", expert_sizes, (
        "Count one matrix first, then a layer, then 24 layers.",
        "A matrix has as many singular values as its smaller side is long: 2,048, also where the other side "
        "is 5,632. LoRA of rank 1 trains a column and a row, as many numbers as both sides together.",
        "(a) 24 * 3 * 2,048. (b) 24 * 7 * 2,048. (c) 24 * 8 * (4 * (2,048 + 2,048) + 3 * (5,632 + 2,048)).",
    ), "answer = (24 * 3 * 2048, 24 * 7 * 2048, 24 * 8 * (4 * 4096 + 3 * 7680))\n", "prediction"),
    Exercise("shipped_weight", "24", shipped_weight, (
        "Try z of equal numbers. The weight itself must come out, U * S times V transposed.",
        "The multipliers are 1 / (1 + exp(-z)). They stand between U and V, on the singular values: U * (S * "
        "m) scales the columns of U.",
        "The whole is multiplied by S.sum() and divided by (S * m).sum().",
    ), _SHIPPED_SOLUTION, "function"),
    Exercise("out_of_reach", "24", out_of_reach, (
        "For a diagonal W every direction heard or said is an axis. Of T, the best z reads the diagonal "
        "alone.",
        "So the diagonal of T must be zeros. Now put 3, 2 and 1 elsewhere, so that no two of them meet in a "
        "row or a column.",
        "A matrix with one entry in each row and column has the sizes of these entries as singular values. "
        "Two such places are left that avoid the diagonal.",
    ), "answer = [[0, 3, 0], [0, 0, 2], [1, 0, 0]]\n", "construction"),
)  # fmt: skip

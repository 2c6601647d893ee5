"""Scores between the words of a sentence: how matrices are stored, which way round, and the diagonal."""

import numpy as np

from attnlib.exercises.function import Case, Mistake
from attnlib.homework.assignment import (
    Convention,
    Option,
    Question,
    asked,
    filled,
    judge_of_variant,
    values_of,
)

CONVENTIONS = (
    Convention("stored", {
        "in_out": Option("`w_q` and `w_k` have shape `(d, h)` and are used as `x @ w`.",
                         "You use the matrices as x @ w.", "x @ w_q, x @ w_k", "matrices_not_transposed"),
        "out_in": Option("`w_q` and `w_k` have shape `(h, d)`, as `torch.nn.Linear` stores them, and are "
                         "used as "
                         "**`x @ w.T`**.", "You use the matrices as x @ w.T.", "x @ w_q.T, x @ w_k.T",
                         "matrices_transposed"),
    }),
    Convention("queries", {
        "down": Option("Row i, column j of the result is the score of query i with key j.",
                       "You put the queries down and the keys across.", "q @ k.T"),
        "across": Option("Row i, column j of the result is the score of **key i with query j**: the queries "
                         "lie "
                         "across.", "You put the keys down and the queries across.", "k @ q.T"),
    }),
    Convention("self_score", {
        "kept": Option("A word is also scored with itself.", "You keep a word's score with itself.", ""),
        "barred": Option("A word does not look at itself: its score with itself is **minus infinity**.",
                         "You bar a word from itself.", "    np.fill_diagonal(scores, -np.inf)\n"),
    }),
)
CHOICES = values_of(*CONVENTIONS)
LESSON = {"stored": "in_out", "queries": "down", "self_score": "kept"}
SAMPLE = {"stored": "out_in", "queries": "down", "self_score": "barred"}

TEXT = """\
Write `word_scores(x, w_q, w_k)`: the scores between all words of one sentence, before any softmax and
without a scale.

`x` has shape `(L, d)`, a row for each word; the result has shape `(L, L)`. {asked} All arrays are NumPy
arrays of floats; do not change them in place, and use NumPy alone."""

STUB = """\
def word_scores(x, w_q, w_k):
    \"\"\"Scores (L, L) between the words of one sentence.\"\"\""""

SOLUTION = """\
    q, k = <stored>
    scores = <queries>
<self_score>    return scores"""


@np.errstate(all="ignore")
def compute(x, w_q, w_k, *, stored="in_out", queries="down", self_score="kept", roles="own", barred="-inf",
            scale=None, weights=False, symmetric=False):  # fmt: skip
    w_q, w_k = {"own": (w_q, w_k), "one": (w_q, w_q), "other": (w_k, w_k), "exchanged": (w_k, w_q)}[roles]
    q, k = (x @ w_q, x @ w_k) if stored == "in_out" else (x @ w_q.T, x @ w_k.T)
    if roles == "none":
        q = k = x
    scores = q @ k.T if queries == "down" else k @ q.T
    if symmetric:
        scores = (scores + scores.T) / 2
    if scale:
        scores = scores / np.sqrt((q if scale == "head" else x).shape[1])
    if self_score == "barred":
        np.fill_diagonal(scores, {"-inf": -np.inf, "zero": 0.0, "big": -1e9, "inf": np.inf}[barred])
    if weights:
        e = np.exp(scores - scores.max(1, keepdims=True))
        scores = e / e.sum(1, keepdims=True)
    return scores


def cases(rng, choice):
    def made(length, d, h):
        shape = (d, h) if choice["stored"] == "in_out" else (h, d)
        return rng.normal(size=(length, d)), rng.normal(size=shape), rng.normal(size=shape)

    return [
        Case("a sentence of 5 words, 4 features, heads of 3", made(5, 4, 3),
             hint="Write the shape behind each line: (5, 4), then (5, 3), then (5, 5)."),
        Case("square matrices", made(4, 3, 3)),
        Case("a sentence of 2 words", made(2, 4, 5)),
        Case("as many words as features", made(4, 4, 4)),
        Case("a head of one number", made(6, 3, 1)),
        Case("a single word", made(1, 3, 2)),
    ]  # fmt: skip


MISTAKES = (
    Mistake("one_matrix", "You use one matrix for queries and keys: the scores are symmetric, and nobody can "
                          "look "
            "at a word that does not look back.", {"roles": "one"}),
    Mistake("one_matrix", "You use w_k for queries and keys: the scores are symmetric.", {"roles": "other"}),
    Mistake("roles_exchanged", "w_q makes your keys and w_k your queries.", {"roles": "exchanged"}),
    Mistake("scaled", "You divide by a square root. These scores are asked for without a scale.",
            {"scale": "head"}),
    Mistake("scaled", "You divide by the square root of d. These scores are asked for without a scale.",
            {"scale": "x"}),
    Mistake("softmax_taken", "You return weights. The scores are asked for, before the softmax.",
            {"weights": True}),
    Mistake("symmetric", "Your scores are averaged with their transpose. A word may look at one that does "
                         "not look "
            "back.", {"symmetric": True}),
    Mistake("barred_by_zero", "A score of 0 bars nothing: exp(0) is 1. Which score has a weight of 0?",
            {"barred": "zero"}),
    Mistake("barred_by_a_number", "A large negative number is asked for nowhere; minus infinity is.",
            {"barred": "big"}),
    Mistake("wrong_infinity", "Plus infinity would take all the weight.", {"barred": "inf"}),
)  # fmt: skip


def question(choice):
    mistakes = [m for m in MISTAKES if choice["self_score"] == "barred" or "barred" not in m.choices]
    return Question(
        id="word_scores", title="Scores between words",
        kind="function", name="word_scores", points=4, part=2, minutes=12,
        text=TEXT.format(asked=asked(CONVENTIONS, choice)),
        stub=STUB,
        solution=filled(SOLUTION, CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, tuple(mistakes), cases,
            "The matrices have their own roles, the right side up, in sentences of any length.", visible=3,
        ),
        forbids=("scaled_dot_product_attention", "general_score"),
    )  # fmt: skip

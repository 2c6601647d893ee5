"""A soft lookup: how the keys lie, by what the scores are divided, what is returned first."""

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
    Convention("keys_are", {
        "rows": Option("`keys` has shape `(n, d)`: a key is a row.", "You take the rows of keys for the "
                                                                     "keys.",
                       "keys.T"),
        "columns": Option("`keys` has shape `(d, n)`: a key is a **column**.",
                          "You take the columns of keys for the keys.", "keys"),
    }),
    Convention("scale", {
        "none": Option("A score is the dot product as it is.",
                       "You leave the dot products as they are.", name="no_scale"),
        "root": Option("A score is the dot product divided by the square root of d.",
                       "You divide by the square root of d.", " / np.sqrt(queries.shape[1])",
                       "divided_by_the_root_of_d"),
        "width": Option("A score is the dot product divided by **d** itself, the mean of the d products.",
                        "You divide by d.", " / queries.shape[1]", "divided_by_d"),
    }),
    Convention("first", {
        "output": Option("Return the output `(m, dv)`, then the weights `(m, n)`.",
                         "You return the output before the weights.", "weights @ values, weights",
                         "output_before_weights"),
        "weights": Option("Return the **weights** `(m, n)`, then the output `(m, dv)`.",
                          "You return the weights before the output.", "weights, weights @ values",
                          "weights_before_output"),
    }),
)
CHOICES = values_of(*CONVENTIONS)
LESSON = {"keys_are": "rows", "scale": "root", "first": "output"}
SAMPLE = {"keys_are": "columns", "scale": "none", "first": "weights"}

TEXT = """\
Write `lookup(queries, keys, values)`, a soft lookup of `m` queries among `n` keys.

`queries` has shape `(m, d)` and `values` has shape `(n, dv)`. {asked} The weights of each query are the
softmax of its scores: none is negative, and they sum to 1. The output of a query is the sum of the values,
each times its weight. Scores may be as large as 1000, and nothing may overflow. All arrays are NumPy arrays
of floats; do not change them in place, and use NumPy alone."""

STUB = """\
def lookup(queries, keys, values):
    \"\"\"The {first} of a soft lookup, in that order.\"\"\""""

SOLUTION = """\
    scores = queries @ <keys_are><scale>
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = weights / weights.sum(axis=1, keepdims=True)
    return <first>"""


@np.errstate(all="ignore")
def compute(queries, keys, values, *, keys_are="rows", scale="root", first="output", axis=1, top=True,
            share=True, late=False, hard=False, divided=True):  # fmt: skip
    m, d = queries.shape
    divisor = {"none": 1, "root": np.sqrt(d), "width": d}[scale]
    divisor = divisor if divided else 1 / divisor
    scores = queries @ (keys.T if keys_are == "rows" else keys)
    scores = scores if late else scores / divisor
    if hard:
        weights = np.eye(scores.shape[1])[scores.argmax(1)]
    else:
        axis = (0, 1) if axis == "both" else axis
        weights = np.exp(scores - scores.max(axis=axis, keepdims=True) if top else scores)
        weights = weights / weights.sum(axis=axis, keepdims=True) if share else weights
    weights = weights / divisor if late else weights
    output = weights @ values
    return (output, weights) if first == "output" else (weights, output)


def cases(rng, choice):
    def made(m, n, d, dv, size=1.0):
        keys = rng.normal(size=(n, d)) * size
        keys = keys if choice["keys_are"] == "rows" else keys.T.copy()
        return rng.normal(size=(m, d)) * size, keys, rng.normal(size=(n, dv))

    big = made(2, 4, 3, 2, 30.0)
    return [
        Case("2 queries, 5 keys of 3 numbers and values of 4", made(2, 5, 3, 4),
             hint="Write the shape behind each line: (2, 3), then (2, 5), then (2, 4)."),
        Case("as many keys as numbers in each", made(3, 4, 4, 2)),
        Case("one query", made(1, 6, 3, 2)),
        Case("scores near 1000", (np.full((1, 2), 20.0), *_equal_keys(choice), np.eye(3)),
             hint="exp(1000) overflows. A row of scores may be lowered by any number: which is safe?"),
        Case("scores of hundreds, of both signs", big),
        Case("as many queries as keys", made(4, 4, 3, 2)),
        Case("a single key", made(3, 1, 2, 2)),
        Case("keys of 64 numbers", made(3, 7, 64, 5)),
    ]  # fmt: skip


def _equal_keys(choice):
    keys = np.array([[25.0, 25.0], [25.0, 24.9], [-25.0, 25.0]])
    return (keys if choice["keys_are"] == "rows" else keys.T.copy(),)


MISTAKES = (
    Mistake("softmax_over_the_queries", "Your softmax runs over the queries: each column sums to 1. A query "
            "shares its weight out among the keys, so its row has to.", {"axis": 0}),
    Mistake("softmax_over_everything", "All your weights together sum to 1. Each query has a weight of 1 to "
            "share out.", {"axis": "both"}),
    Mistake("no_maximum_subtracted", "exp overflows on large scores. A constant may be taken from a row of "
            "scores without changing its weights.", {"top": False}),
    Mistake("weights_not_shared", "You take exponentials and do not divide by their sum.", {"share": False}),
    Mistake("scaled_after_the_softmax", "You divide after the softmax, and the weights no longer sum to 1. "
                                        "The "
            "scores are divided, before it.", {"late": True}),
    Mistake("hard_lookup", "You hand out the value of the best key alone. A soft lookup weighs all of them.",
            {"hard": True}),
    Mistake("multiplied_by_the_scale", "You multiply where a division is asked for.", {"divided": False}),
)  # fmt: skip


def question(choice):
    first = "output and weights" if choice["first"] == "output" else "weights and output"
    return Question(
        id="lookup", title="A soft lookup",
        kind="function", name="lookup", points=5, part=2, minutes=15,
        text=TEXT.format(asked=asked(CONVENTIONS, choice)),
        stub=STUB.format(first=first),
        solution=filled(SOLUTION, CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, MISTAKES, cases,
            "Weights and output are right for one query and many, for large scores, and for as many keys as "
            "numbers.", visible=4,
        ),
        forbids=("softmax", "scaled_dot_product_attention", "attention", "attention_weights"),
    )  # fmt: skip

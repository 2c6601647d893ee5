"""A test to write: does a way of scoring look at the query at all?"""

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.learner_test import Implementation
from attnlib.homework.assignment import VISIBLE, Question, judge_of_tests

CHOICES = {"true_of": ("blind", "sighted"), "first_argument": ("query", "keys")}
LESSON = None
SAMPLE = {"true_of": "blind", "first_argument": "query"}

TEXT = """\
Write a test of somebody else's attention, `{name}(weights, d)`. {takes} and returns their weights, `(n,)`,
which sum to 1. Your test returns `True` if these weights **{true_of}**, else `False`. It calls `weights`
with queries and keys that it makes up: their width `d` is given, their number n is free, up to 1000 keys. It
is tried on eight ways of scoring; one of them looks at one number of the query alone, one at a query only
where it is longer than 4."""

TAKES = {
    "query": "`weights(query, keys)` takes a query `(d,)` and keys `(n, d)`",
    "keys": "`weights(keys, query)` takes keys `(n, d)` and **after them** a query `(d,)`",
}
SAYS = {"blind": "are the same whatever the query", "sighted": "depend on the query"}

STUB = """\
def {name}(weights, d):
    \"\"\"Whether the weights {says}.\"\"\""""

SOLUTION = """\
    rng = np.random.default_rng(0)
    for size in (0.1, 1.0, 10.0):
        keys = rng.normal(size=(6, d))
        found = [weights({arguments}) for query in rng.normal(size=(6, d)) * size]
        if np.ptp(found, axis=0).max() > 1e-6:
            return {sighted}
    return {blind}"""


def question(choice):
    blind, query_first = choice["true_of"] == "blind", choice["first_argument"] == "query"
    name, says = f"is_{choice['true_of']}", SAYS[choice["true_of"]]
    return Question(
        id="blind_scores", title="Does it look at all?",
        kind="test", name=name, points=5, part=2, minutes=15,
        text=TEXT.format(name=name, takes=TAKES[choice["first_argument"]], true_of=says),
        stub=STUB.format(name=name, says=says),
        solution=SOLUTION.format(
            arguments="query, keys" if query_first else "keys, query", sighted=not blind, blind=blind
        ),
        judge=_judge_for(blind, query_first),
        other_names=("is_sighted" if blind else "is_blind",),
    )  # fmt: skip


def _judge_for(blind, query_first):
    some = ("blind_always", "sighted_always") if blind else ("sighted_always", "blind_always")
    said = {True: (some[0], "It answers True whatever it is given."),
            False: (some[1], "It answers False whatever it is given.")}  # fmt: skip
    praise = "It tells the ways that look at the query from those that do not, even by a single number."

    def judge(test, seed=None):
        models = _models(np.random.default_rng(VISIBLE if seed is None else seed))
        tried = tuple(
            Implementation(
                f"a way of scoring: {name}", lambda weights=weights: (_called(weights, query_first), 4),
                sighted != blind, mistake, told,
            )
            for name, weights, sighted, mistake, told in (models[:3] if seed is None else models)
        )  # fmt: skip
        shown = f"{len(tried)} of {len(models)} ways of scoring"
        return judge_of_tests(tried, said, praise, test, seed, shown)

    return judge


def _called(weights, query_first):
    """The weights as the student's test calls them; a call with exchanged arguments is told."""
    def called(query, keys):
        query, keys = np.asarray(query, float), np.asarray(keys, float)
        if query.shape != (4,) or keys.ndim != 2 or keys.shape[1] != 4:
            takes, given = ("(query, keys)", "(d,) and (n, d)"), (query.shape, keys.shape)
            if not query_first:
                takes, given = ("(keys, query)", "(n, d) and (d,)"), given[::-1]
            raise ValueError(f"weights takes {takes[0]}, of shapes {takes[1]} with d = 4; it was given "
                             f"{given[0]} and {given[1]}")
        if not 1 <= len(keys) <= 1000:
            raise ValueError(f"weights takes 1 to 1000 keys; it was given {len(keys)}")
        return weights(query, keys)

    return called if query_first else lambda keys, query: called(query, keys)


def _models(rng):
    """Name, weights, whether it looks, and what fools a test about it."""
    w, u, v = rng.normal(size=(4, 4)), rng.normal(size=(4, 4)), rng.normal(size=4)
    one = rng.normal(size=8)
    drawn_by = int(rng.integers(2**32))

    def own_rows(n):
        return np.random.default_rng(drawn_by).normal(size=(n, 4))

    return (
        ("the dot product", lambda q, k: softmax(k @ q), True, "sighted_missed",
         "looks at every number of the query."),
        ("w . [q; k]", lambda q, k: softmax(q @ one[:4] + k @ one[4:]), False, "sum_taken_for_a_look",
         "adds one number that comes from the query to every score. The softmax takes it out again; what is "
         "left "
         "of it is rounding."),
        ("v . tanh(W q + U k)", lambda q, k: softmax(np.tanh(q @ w + k @ u) @ v), True, "sighted_missed",
         "bends the sum of query and key before it is read, so the query stays in the weights."),
        ("equal weights", lambda q, k: np.full(len(k), 1 / len(k)), False, "uniform_missed",
         "gives every key the same."),
        ("the direction of the query", lambda q, k: softmax(k @ q / max(np.linalg.norm(q), 1e-9)), True,
         "only_lengths_tried", "depends on the query's direction alone: a query and its multiples get the "
                               "same "
         "weights. Do your queries differ in direction?"),
        ("one number of the query", lambda q, k: softmax(k[:, 0] * q[2]), True, "one_number_missed",
         "looks at the third number of the query and no other. Do your queries differ in all of them?"),
        ("the query alone", lambda q, k: softmax(own_rows(len(k)) @ q), True,
         "query_alone_missed", "does not look at the keys and does look at the query."),
        ("only long queries", lambda q, k: softmax(k @ q * max(np.linalg.norm(q) - 4, 0)), True,
         "only_short_queries_tried", "looks at a query only when it is longer than 4. Are all of yours "
                                     "short?"),
    )  # fmt: skip

"""A softmax in a class's own convention: where the keys lie, the base, the sharpness, an empty query."""

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
    Convention("keys_lie", {
        "across": Option("`scores` has shape `(m, n)`: the scores of a query are a row.",
                         "You take each row for the scores of one query.", "1"),
        "down": Option("`scores` has shape `(n, m)`: the scores of a query are a **column**.",
                       "You take each column for the scores of one query.", "0"),
    }),
    Convention("sharpness", {
        "temperature": Option("The scores of a query are first divided by its `c`, a temperature.",
                              "You divide by c.", "/", "divided_by_c"),
        "inverse": Option("The scores of a query are first **multiplied** by its `c`, an inverse "
                          "temperature.",
                          "You multiply by c.", "*", "multiplied_by_c"),
    }),
    Convention("base", {
        "e": Option("A key then counts e to the power of its score.",
                    "You raise e to the power of the scores.", "np.exp"),
        "2": Option("A key then counts **2** to the power of its score.",
                    "You raise 2 to the power of the scores.", "np.exp2"),
    }),
    Convention("nothing_left", {
        "zeros": Option("A query whose scores are all minus infinity gets weights of 0.",
                        "You give weights of 0 to a query whose scores are all minus infinity.", "0.0",
                        "zeros_where_nothing_is_left"),
        "even": Option("A query whose scores are all minus infinity gets **1/n** at every key.",
                       "You give the same weight to every key of a query whose scores are all minus "
                       "infinity.",
                       "1 / scores.shape[<keys_lie>]", "even_where_nothing_is_left"),
    }),
)  # fmt: skip
CHOICES = values_of(*CONVENTIONS)
LESSON = {"keys_lie": "across", "sharpness": "temperature", "base": "e", "nothing_left": "zeros"}
SAMPLE = {"keys_lie": "down", "sharpness": "inverse", "base": "e", "nothing_left": "even"}

TEXT = """\
Write `soft_weights(scores, c)`: the weights of `m` queries among `n` keys, each query with a sharpness of
its own.

{shape} `c` has shape `(m,)`, a positive number for each query. {asked} A key's weight is what
it counts, as a share of what all keys of its query count together. The result has the shape of `scores`.

Scores are as large as 10,000, of both signs, and nothing may overflow. A score may be minus infinity; its
weight is then 0, as long as the query has a finite one. {left} Both arguments are NumPy arrays of floats;
do not change them in place, and use NumPy alone."""

STUB = """\
def soft_weights(scores, c):
    \"\"\"Weights in the shape of scores; c holds one number for each query.\"\"\""""

SOLUTION = """\
    scores = scores <sharpness> np.expand_dims(c, <keys_lie>)
    top = scores.max(axis=<keys_lie>, keepdims=True)
    counted = <base>(scores - np.where(top > -np.inf, top, 0.0))
    total = counted.sum(axis=<keys_lie>, keepdims=True)       # at least 1, but where nothing is left
    return np.where(total > 0, counted / np.maximum(total, 1.0), <nothing_left>)"""


@np.errstate(all="ignore")
def compute(scores, c, *, keys_lie="across", sharpness="temperature", base="e", nothing_left="zeros",
            over="keys", c_of="queries", less="own", left=None, made="shares", late=False, log=None,
            barred=None):  # fmt: skip
    s = scores if keys_lie == "across" else scores.T
    if barred == "zero":
        s = np.where(np.isinf(s), 0.0, s)
    c = {"queries": c[:, None], "keys": c, "first": c[0], "none": 1.0, "mean": c.mean()}[c_of]
    c = c if sharpness == "inverse" else 1 / c
    s = s if late else s * c
    s = s * {None: 1.0 if base == "e" else np.log(2), "inverted": 1 / np.log(2), "ten": np.log(10)}[log]
    along = {"keys": 1, "queries": 0, "all": None}[over]
    top = s.max(axis=along, keepdims=True)
    lowered = {"own": top, "all": s.max(), "none": 0.0,
               "mean": np.mean(s, axis=along, keepdims=True)}[less]  # fmt: skip
    guarded = left is None and less == "own"
    e = np.exp(s - (np.where(np.isinf(lowered), 0.0, lowered) if guarded else lowered))
    total = e.sum(axis=along, keepdims=True)
    w = e / total
    if left == "hidden":
        w = np.nan_to_num(w)
    if left is None:
        empty = np.isinf(s.max(axis=1, keepdims=True))
        w = np.where(empty, 0.0 if nothing_left == "zeros" else 1 / s.shape[1], w)
    best = np.eye(s.shape[1])[s.argmax(1)]
    w = {"shares": w, "exponentials": e, "logarithms": np.log(w), "best": best}[made]
    w = w * c if late else w
    return w if keys_lie == "across" else w.T


def cases(rng, choice):
    def made(s, c):
        s = np.array(s, float)
        return (s if choice["keys_lie"] == "across" else s.T.copy()), np.array(c, float)

    def drawn(m, n, size=2.0):
        return made(rng.normal(size=(m, n)) * size, rng.uniform(0.4, 0.8, size=m) * 4.0 ** (np.arange(m) % 2))

    some = rng.normal(size=(3, 4))
    some[0, 2] = some[2, 0] = some[2, 3] = some[1] = -np.inf
    low = rng.normal(size=(3, 4)) + np.array([[6000.0], [-7000.0], [0.0]])
    sharp = rng.normal(size=(3, 5)), [[0.02, 50.0, 1.0], [50.0, 0.02, 1.0]][rng.integers(2)]
    return [
        Case("2 queries and 5 keys", drawn(2, 5),
             hint="Write the shape behind each line. Which axis of scores is as long as c?"),
        Case("as many queries as keys", drawn(3, 3)),
        Case("scores of thousands", made([[5000, 4999, -5000], [-9000, -9001, -9003]], [1.5, 2 / 3]),
             hint="An exponential of thousands overflows. Lower a query's scores by one number first: "
                 "which?"),
        Case("scores of minus infinity, and a query that has no others", made(some, [0.5, 1.5, 2.0]),
             hint="Minus infinity less minus infinity is no number. What is the largest score there?"),
        Case("one query", drawn(1, 6)),
        Case("a single key", drawn(4, 1)),
        Case("queries with high and with low scores", made(low, [0.5, 1.0, 2.0]),
             hint="What is safe for a query with high scores may leave nothing of one with low scores."),
        Case("very sharp and very flat queries", made(*sharp)),
        Case("queries that have nothing left", made(np.full((3, 3), -np.inf), [0.5, 1.0, 2.0])),
        Case("40 keys", drawn(5, 40)),
    ]  # fmt: skip


MISTAKES = (
    Mistake("softmax_over_the_queries", "Your weights of a key sum to 1. It is a query that shares its "
                                        "weight out, among its keys: sum along the other "
                                        "axis.", {"over": "queries"}),
    Mistake("softmax_over_everything", "All your weights together sum to 1. Each query has a whole 1 to "
                                       "share out.", {"over": "all"}),
    Mistake("c_of_the_keys", "You use c along the axis of the keys. It holds a number for each query; write "
            "down its shape beside that of the scores.", {"c_of": "keys"}),
    Mistake("one_c_for_all", "You use one number of c for all queries. Each has its own.", {"c_of": "first"}),
    Mistake("one_c_for_all", "You use the mean of c for all queries. Each has its own.", {"c_of": "mean"}),
    Mistake("c_forgotten", "You do not use c: every query is equally sharp.", {"c_of": "none"}),
    Mistake("c_after_the_softmax", "You use c on the weights, and they no longer sum to 1. It is for the "
            "scores.", {"late": True}),
    *(Mistake("no_maximum_subtracted", "What the scores count overflows, or is 0 for all of a query. One "
              "number may be taken off all scores of a query without changing its weights. Which is safe?",
              {"less": "none", **left}) for left in ({"left": "nan"}, {})),
    *(Mistake("one_maximum_for_all", "You lower all scores by the largest of the whole array. A query far "
                                     "below it has only zeros left to share. Each query needs a maximum of "
                                     "its own.",
              {"less": "all", **left}) for left in ({"left": "nan"}, {})),
    *(Mistake("mean_subtracted", "You lower the scores by their mean, and what lies far above it overflows "
                                 "all the same. Which number leaves no score above "
                                 "0?", {"less": "mean", **left})
      for left in ({"left": "nan"}, {})),
    *(Mistake("nan_hidden", "You put 0 for what is no number. Where the scores are finite that hides an "
              "overflow and does not avoid it: the weights there are lost. Lower the scores of a query "
              "first.",
              {"less": less, "left": "hidden"}) for less in ("none", "all", "mean")),
    Mistake("nothing_left_is_nan", "A query whose scores are all minus infinity comes out as NaN: 0 by 0, or "
            "infinity less infinity. The task says what it gets.", {"left": "nan"}),
    Mistake("minus_infinity_taken_for_zero", "You put 0 in the place of minus infinity. A score of 0 counts "
                                             "1; which score counts nothing?", {"barred": "zero"}),
    Mistake("not_shared", "You return what each key counts. Divide by what all keys of the query count.",
            {"made": "exponentials"}),
    Mistake("logarithms", "You return logarithms of weights. The weights are asked for.",
            {"made": "logarithms"}),
    Mistake("hard", "You give all to the best key. Each key gets a share.", {"made": "best"}),
    Mistake("base_inverted", "You divide the exponent by ln 2. Write 2 as a power of e, and see where ln 2 "
            "stands.", {"log": "inverted"}),
    Mistake("base_ten", "You raise 10 to the power of the scores; the task names another base.",
            {"log": "ten"}),
)  # fmt: skip


def question(choice):
    mistakes = tuple(m for m in MISTAKES if choice["base"] == "2" or m.name != "base_inverted")
    return Question(
        id="soft_weights", title="A sharpness for each query",
        kind="function", name="soft_weights", points=4, part=2, minutes=14,
        text=TEXT.format(
            shape=asked(CONVENTIONS[:1], choice), asked=asked(CONVENTIONS[1:3], choice),
            left=asked(CONVENTIONS[3:], choice),
        ),
        stub=STUB,
        # The code for an empty query speaks of the axis, too.
        solution=filled(filled(SOLUTION, CONVENTIONS, choice), CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, mistakes, cases,
            "Each query shares out its own 1 at its own sharpness: also far from 0, with scores of minus "
            "infinity, and with nothing left.", visible=4,
        ),
        forbids=("softmax", "log_softmax", "logsumexp"),
    )  # fmt: skip

"""How far a query's scores lie apart, and the scale that changes it: what the softmax sees of them."""

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
    Convention("variance_by", {
        "n": Option("The variance of a query's n scores is the mean of their squared distances from their "
                    "mean, divided by n.", "You divide the squared distances by n.", "0"),
        "n_less_1": Option("The variance of a query's n scores is the sum of their squared distances from "
                           "their mean, divided by **n - "
                           "1**.", "You divide the squared distances by n - 1.", "1",
                           "variance_by_n_less_1"),
    }),
    Convention("of_all", {
        "root_mean": Option("The **spread** is the root of the mean of these m variances.",
                            "You take the root of the mean variance.", "np.sqrt(variances.mean())",
                            "root_of_the_mean_variance"),
        "median": Option("The **spread** is that of the typical query: the root of each variance, and of "
                         "these m roots the **median**.", "You take the median of the queries' standard "
                                                    "deviations.",
                         "np.median(np.sqrt(variances))", "median_over_the_queries"),
    }),
    Convention("given_as", {
        "factor": Option("The **scale** is the number by which all scores must be multiplied, so that their "
                         "spread becomes `wanted`.", "Your scale is to be multiplied by.", "wanted / spread",
                         "scale_to_multiply_by"),
        "temperature": Option("The **scale** is the number by which all scores must be **divided**, so that "
                              "their spread becomes `wanted`.", "Your scale is to be divided by.",
                              "spread / wanted", "scale_to_divide_by"),
    }),
)  # fmt: skip
CHOICES = values_of(*CONVENTIONS)
LESSON = None
SAMPLE = {"variance_by": "n", "of_all": "root_mean", "given_as": "temperature"}

TEXT = """\
What all scores of one query have in common the softmax does not see: it sees how they differ from key to
key. Write `spread_and_scale(queries, keys, wanted)`, which measures that and says how to change it.

`queries` has shape `(m, d)` and `keys` `(n, d)`, with at least two keys; every query is scored with every
key, by a dot product. {asked}

Return the spread, then the scale. `wanted` is a positive number. The entries may have any mean, any size and
any distribution; the scores of a query are never all equal. Do not change the
arguments in place, and use NumPy alone."""

STUB = """\
def spread_and_scale(queries, keys, wanted):
    \"\"\"The spread of the scores, and the scale that makes it ``wanted``: two numbers.\"\"\""""

SOLUTION = """\
    variances = (queries @ keys.T).var(axis=1, ddof=<variance_by>)       # (m,) one for each query
    spread = <of_all>
    return spread, <given_as>"""


@np.errstate(all="ignore")
def compute(queries, keys, wanted, *, variance_by="n", of_all="root_mean", given_as="factor", scores="all",
            form=None, scale=None, entries=None, results="both"):  # fmt: skip
    q, k = queries, keys
    if entries == "cosines":
        q, k = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (q, k))
    if entries == "centred":
        q, k = q - q.mean(0), k - k.mean(0)
    d, ddof = q.shape[1], {"n": 0, "n_less_1": 1}[variance_by]
    s = (q * k).sum(1) if scores == "pairs" else q @ k.T
    s = s / np.sqrt(d) if scores == "scaled" else s
    s = s.T if scores == "columns" else s
    if scores == "pairs":
        spread = s.std(ddof=ddof)
    elif form == "pooled":
        spread = s.std(ddof=ddof)
    else:
        variances = s.var(axis=1, ddof=ddof)
        variances = np.mean(s**2, axis=1) if form == "mean square" else variances
        roots = np.sqrt(variances)
        spread = {"root_mean": np.sqrt(variances.mean()), "median": np.median(roots)}[of_all]
        spread = {
            "mean of roots": roots.mean(), "sum": np.sqrt(variances.sum()), "largest": roots.max(),
            "strangers": np.sqrt(d), "formula": np.sqrt(d) * q.std() * k.std(),
            "lengths": np.sqrt((q**2).sum(1).mean()) * k.std(), "each": roots,
        }.get(form, spread)  # fmt: skip
    spread = spread**2 if form == "variance" else spread
    factor = {
        None: wanted / spread, "by variance": wanted / spread**2, "root of width": 1 / np.sqrt(d),
        "wanted by "
        "width": wanted / np.sqrt(d), "to one": 1 / spread, "wanted a variance": np.sqrt(wanted) / spread,
        "root of factor": np.sqrt(wanted / spread),
    }[scale]  # fmt: skip
    both = (spread, factor if given_as == "factor" else 1 / factor)
    return {"both": both, "turned": both[::-1], "spread": both[0], "scale": both[1]}[results]


def cases(rng, choice):
    def made(m, n, d, wanted, size=1.0, mean=0.3):
        lengths = rng.uniform(0.3, 3.0, size=(m, 1))           # some queries are longer than others
        queries = lengths * (rng.normal(size=(m, d)) + mean) * size
        return queries, (rng.normal(size=(n, d)) * 1.5 + mean) * size, wanted

    return [
        Case("5 queries and 8 keys of 3 numbers, wanted 2", made(5, 8, 3, 2.0),
             hint="There are 5 times 8 scores. Print the shape of what you take a variance of."),
        Case("4 queries and 4 keys of 4 numbers, wanted 0.5", made(4, 4, 4, 0.5)),
        Case("entries with a mean of 5, wanted 1", made(6, 5, 4, 1.0, mean=5.0),
             hint="The scores of one query may all be high and those of another low. The softmax sees "
                 "neither."),
        Case("a single query, wanted 3", made(1, 7, 3, 3.0)),
        Case("two keys, wanted 1.5", made(7, 2, 5, 1.5)),
        Case("entries of thousands, wanted 4", made(5, 6, 3, 4.0, size=2000.0)),
        Case("keys of 64 numbers, wanted 1", made(9, 20, 64, 1.0)),
        Case("keys of one number, wanted 0.25", made(4, 6, 1, 0.25)),
    ]  # fmt: skip


MISTAKES = (
    Mistake("scores_pooled", "You take one variance of all scores together. What differs from query to query "
                             "is then counted, and no softmax sees that. Take a variance for each "
                             "query.", {"form": "pooled"}),
    Mistake("over_the_queries", "You take the variance over the queries, for each key. The softmax of a "
                                "query compares keys: the variance is over these.", {"scores": "columns"}),
    Mistake("pairs", "You score query i with key i alone. Here every query is scored with every key.",
            {"scores": "pairs"}),
    Mistake("variance_returned", "Your first number is a variance. Multiply the scores by 3 and it grows "
            "ninefold; a spread grows threefold.", {"form": "variance"}),
    Mistake("scale_from_the_variance", "Your spread is right, and your scale comes from its square. When "
                                       "scores are doubled, what becomes of their "
                                       "spread?", {"scale": "by variance"}),
    Mistake("mean_of_roots", "You take the mean of the queries' standard deviations. The task combines the "
            "queries in another way.", {"form": "mean of roots"}),
    Mistake("mean_not_subtracted", "You take the root of a mean square, as if each query's scores had the "
                                   "mean 0. Squared distances are from the mean.", {"form": "mean square"}),
    Mistake("scaled_first", "You divide the scores by the root of d before you measure. Measure them as they "
            "are.", {"scores": "scaled"}),
    Mistake("cosines", "You divide queries and keys by their lengths. Scores are dot products as they are.",
            {"entries": "cosines"}),
    Mistake("queries_centred", "You take the mean off the queries' entries first. That changes how a query's "
            "scores differ. Only a query's own mean score may go.", {"entries": "centred"}),
    Mistake("theory_for_measurement", "Your spread is the root of d: that of strangers whose entries have "
                                      "mean 0 and variance 1. These are other numbers; "
                                      "measure.", {"form": "strangers"}),
    *(Mistake("theory_for_measurement", "You multiply a length by the spread of the entries. That is the "
                                        "mean over many draws of independent entries; here are scores to "
                                        "measure.", {"form": form})
      for form in ("formula", "lengths")),
    *(Mistake("scale_of_strangers", "Your spread is right, and your scale goes by the root of d. Whether "
                                    "that fits depends on the entries; you have measured.", {"scale": scale})
      for scale in ("root of width", "wanted by width")),
    Mistake("wanted_forgotten", "Your scale brings the spread to 1 whatever is wanted.", {"scale": "to one"}),
    Mistake("wanted_as_variance", "Your scale makes the *variance* what is wanted. The spread is its root.",
            {"scale": "wanted a variance"}),
    Mistake("root_of_the_scale", "You take a root too many in the scale: a spread goes as the scores do.",
            {"scale": "root of factor"}),
    Mistake("largest", "You take the largest of the queries' spreads.", {"form": "largest"}),
    Mistake("added", "You add the variances of all queries. Their number should not "
        "matter.", {"form": "sum"}),
    Mistake("one_for_each_query", "You return numbers for each query. One spread and one scale serve all.",
            {"form": "each"}),
    Mistake("results_turned", "The two results have changed places: the spread comes first.",
            {"results": "turned"}),
    Mistake("one_result", "You return the spread alone; the scale is asked for, too.", {"results": "spread"}),
    Mistake("one_result", "You return the scale alone; the spread is asked for, too.", {"results": "scale"}),
)  # fmt: skip


def question(choice):
    return Question(
        id="spread_and_scale", title="What the softmax sees",
        kind="function", name="spread_and_scale", points=4, part=2, minutes=12,
        text=TEXT.format(asked=asked(CONVENTIONS, choice)),
        stub=STUB,
        solution=filled(SOLUTION, CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, MISTAKES, cases,
            "The spread is measured from key to key, query by query, and the scale follows from "
            "it.", visible=3,
        ),
    )  # fmt: skip

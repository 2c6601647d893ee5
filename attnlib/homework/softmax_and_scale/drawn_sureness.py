"""A figure, judged by the numbers in it: how sure an untrained attention is, raw and scaled."""

import numpy as np

from attnlib.exercises.verdict import right, unreadable, wrong
from attnlib.homework.assignment import Question, words_missing
from attnlib.homework.figures import figure_of

CHOICES = {"shown": ("largest", "heard"), "over_queries": ("mean", "median"), "key_count": ("8", "16", "32")}
LESSON = None
SAMPLE = {"shown": "heard", "over_queries": "median", "key_count": "16"}

WIDTHS = (4, 16, 64, 256, 1024)
QUERIES = 401           # odd, so that a median is one of them

TEXT = """\
`SCORES[d]` holds the raw scores of {queries} untrained queries, a row each, with the same {n} keys, at
width d of `WIDTHS`. Draw how sure such an attention is, against the width, in one pair of axes with two
lines, each with a point at every width: **raw**, from the softmax of the scores as they are, and
**scaled**, from that of the scores divided by the root of d. {shown} A point is the **{by}** of that over
the queries.

`figure` is the Matplotlib figure. Its legend names the lines raw and scaled, its labels say **width** below
and **{word}** at the side, and it has a title. It is judged by the numbers and words in it. A logarithmic
axis keeps the widths apart; that and the colours are yours."""

SHOWN = {
    "largest": "Of each query take its **largest weight**.",
    "heard": "Of each query take the number of **keys that it hears**, exp(H), with the entropy H = -(sum of "
             "w ln w) of its weights.",
}  # fmt: skip
WORD = {"largest": "weight", "heard": "keys"}

GIVEN = """\
import matplotlib.pyplot as plt

rng = np.random.default_rng({n})
WIDTHS = {widths}
SCORES = {{d: rng.normal(size=({queries}, d)) @ rng.normal(size=(d, {n})) for d in WIDTHS}}"""

SOLUTION = """\
def sureness(scores):
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = e / e.sum(axis=1, keepdims=True)
    {each}
    return np.{by}(each)


figure, axes = plt.subplots()
axes.plot(WIDTHS, [sureness(SCORES[d]) for d in WIDTHS], "o-", label="raw")
axes.plot(WIDTHS, [sureness(SCORES[d] / np.sqrt(d)) for d in WIDTHS], "o-", label="scaled")
axes.set_xscale("log", base=2)
axes.set(xlabel="width d", ylabel="{label}", title="How sure is an untrained attention?")
axes.set_ylim(bottom=0)
_ = axes.legend()"""

EACH = {
    "largest": "each = weights.max(axis=1)",
    "heard": "each = np.exp(-(weights * np.log(np.maximum(weights, 1e-300))).sum(axis=1))",
}
LABEL = {"largest": "largest weight", "heard": "keys heard"}


def scores(n):
    """The scores that the locked cell makes."""
    rng = np.random.default_rng(n)
    return {d: rng.normal(size=(QUERIES, d)) @ rng.normal(size=(d, n)) for d in WIDTHS}


def question(choice):
    n = int(choice["key_count"])
    shown, by = choice["shown"], choice["over_queries"]
    return Question(
        id="drawn_sureness", title="How sure, and of nothing",
        kind="figure", name="figure", points=3, part=1, minutes=12,
        text=TEXT.format(queries=QUERIES, n=n, shown=SHOWN[shown], by=by, word=WORD[shown]),
        given=GIVEN.format(n=n, widths=list(WIDTHS), queries=QUERIES),
        stub="figure = ...",
        solution=SOLUTION.format(each=EACH[shown], by=by, label=LABEL[shown]),
        judge=_judge_for(shown, by, n),
    )  # fmt: skip


def _softmax(s, axis):
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _entropy(w, axis=-1):
    return -(w * np.log(np.maximum(w, 1e-300))).sum(axis)


_OF = {
    "largest": lambda w: w.max(1), "heard": lambda w: np.exp(_entropy(w)), "entropy": _entropy,
    "bits": lambda w: _entropy(w) / np.log(2), "two to the nats": lambda w: 2 ** _entropy(w),
    "least": lambda w: w.min(1), "mean": lambda w: w.mean(1), "squares": lambda w: 1 / (w**2).sum(1),
}  # fmt: skip
_BY = {"mean": np.mean, "median": np.median, "largest": np.max}


def _ways(shown, by, s):
    """Wrong ways of coming to a point: name, the same for raw and scaled scores, and what is said."""
    of, over = _OF[shown], _BY[by]
    other_by = "median" if by == "mean" else "mean"
    other = "heard" if shown == "largest" else "largest"
    said = {"largest": "the largest weight", "heard": "the number of keys heard"}
    # The first two are right in another class.
    yield ("other_statistic", lambda s: _BY[other_by](of(_softmax(s, 1))),
           f"Your points are the {other_by} over the queries. The {by} is asked for.")
    yield ("other_quantity", lambda s: over(_OF[other](_softmax(s, 1))),
           f"You draw {said[other]}; {said[shown]} is asked for.")
    yield ("softmax_over_the_queries", lambda s: over(of(_softmax(s, 0))),
           "Your softmax runs over the queries. Each query shares out its own 1 among the keys.")
    yield ("softmax_over_everything", lambda s: over(of(_softmax(s, None))),
           "All your weights together sum to 1. Those of each query must.")
    yield ("one_query_for_all", lambda s: of(_softmax(over(s, axis=0)[None], 1))[0],
           f"You take the {by} of the scores and then one softmax. Each query has a softmax of its own; the "
           f"{by} comes last.")
    yield ("weights_combined_first", lambda s: of(over(_softmax(s, 1), axis=0)[None])[0],
           f"You take the {by} of the weights, key by key, and look at that. Look at each query first.")
    yield ("scores_drawn", lambda s: over(s.max(1)), "These are scores. Draw what comes of the weights.")
    if shown == "heard":
        yield ("entropy", lambda s: over(_entropy(_softmax(s, 1))), "You draw the entropy H; exp(H) is asked "
                                                                    "for.")
        yield ("bits", lambda s: over(_OF["bits"](_softmax(s, 1))), "You draw the entropy in bits; exp(H), "
                                                                    "with the natural logarithm in H, is "
                                                                    "asked for.")
        yield ("mixed_bases", lambda s: over(_OF["two to the nats"](_softmax(s, 1))), "Your H has a natural "
               "logarithm and your power the base 2. Both need the same base, and e is asked for.")
        yield ("exponential_last", lambda s: np.exp(over(_entropy(_softmax(s, 1)))), "You take the "
                                                                                     "exponential of a mean "
                                                                                     "entropy. The number of "
                                                                                     "keys is one of each "
                                                                                     "query; take the mean "
                                                                                     "of these.")
    yield ("extreme", lambda s: np.max(of(_softmax(s, 1))), "You draw the largest over the queries; their "
                                                            f"{by} is asked for.")


def _curve(way, s, power):
    return np.array([way(s[d] * d**power) for d in WIDTHS])


def _judge_for(shown, by, n):
    word = WORD[shown]

    def wanted(s):
        return _BY[by](_OF[shown](_softmax(s, 1)))

    def judge(answer, seed=None):
        found = figure_of(answer)
        if found is None:
            return unreadable("Let `figure` be the Matplotlib figure, as plt.subplots() returns it first.")
        drawn = [(axes, _lines(axes)) for axes in found.axes]
        axes, lines = max(drawn, key=lambda each: len(each[1]), default=(None, []))
        if len(lines) < 2:
            return wrong(
                f"There should be two lines in one pair of axes, each with the {len(WIDTHS)} widths as x and "
                f"a number for each as y; found {len(lines)}."
            )
        s = scores(n)
        curves = {"raw": _curve(wanted, s, 0), "scaled": _curve(wanted, s, -0.5)}
        place = {name: _find(curve, lines) for name, curve in curves.items()}
        if None in place.values():
            return _numbers_wrong(s, curves, place, lines)
        for name, i in place.items():
            label = lines[i][0].lower()
            other = "scaled" if name == "raw" else "raw"
            if other in label and name not in label:
                return wrong("Both lines are right, and their names are exchanged.", "names_exchanged")
        labels = {name: lines[i][0].lower().replace("as they are", "raw") for name, i in place.items()}
        unnamed = [name for name, label in labels.items() if name not in label]
        lacks = (
            (unnamed, "no_names", f"The label of one should say {' and that of the other '.join(unnamed)}."),
            (not unnamed and not all(any(name in text.lower() for text in axes.legend) for name in curves),
             "no_legend", "A legend that names them is missing."),
            ("width" not in axes.xlabel.lower() or word not in axes.ylabel.lower(), "no_labels",
             f"The label below should have the word width in it, and the one at the side the word {word}."),
            (not (axes.title.strip() or found.title.strip()), "no_title",
             "A title is missing: the question that the figure answers."),
        )  # fmt: skip
        return words_missing("Both lines are right.", lacks) or right(
            "Without the scale an untrained attention becomes surer as it gets wider; with it the width has "
            "next to no say."
        )

    def _numbers_wrong(s, curves, place, lines):
        missing = [name for name, i in place.items() if i is None]
        for name, way, told in _ways(shown, by, s):
            made = [_curve(way, s, 0 if line == "raw" else -0.5) for line in missing]
            if None not in [_find(curve, lines) for curve in made]:
                return wrong(told, name, convention=name in ("other_statistic", "other_quantity"))
        if missing == ["scaled"]:
            for name, power, told in (
                ("divided_by_the_width", -1.0, "You divide by d. Divide by its root."),
                ("multiplied", 0.5, "You multiply by the root of d."),
                ("scaled_twice", -0.25, "You divide by the root of the root of d."),
            ):
                if _find(_curve(wanted, s, power), lines) is not None:
                    return wrong(f"The raw line is right, the scaled one is not. {told}", name)
            others = [_curve(wanted, {d: s[d] / c for d in WIDTHS}, 0) for c in (np.sqrt(n), 8.0, 32.0)]
            if any(_find(other, lines) is not None for other in others):
                return wrong("The raw line is right, the scaled one is not. You divide by the same number at "
                             "every width; d changes.", "one_scale_for_all")
            late = np.array([wanted(s[d]) / np.sqrt(d) for d in WIDTHS])
            if _find(late, lines) is not None:
                return wrong("The raw line is right, the scaled one is not. You divide after the softmax. "
                             "The scores are divided, before it.", "scaled_after_the_softmax")
        if len(missing) == 1:
            return wrong(f"One line is right; the one that should be {missing[0]} is not. Compute it for one "
                         "width and three queries by hand.", f"{missing[0]}_line_wrong")
        return wrong("The numbers in your lines are not those asked for. Take one width and three queries: "
                     "do the weights of each sum to 1, and what do you take of each?")

    return judge


def _lines(axes):
    """Of each line that has the widths as x: label and y, in the order of the widths."""
    found = []
    for label, x, y in axes.lines:
        x, y = np.ravel(x), np.ravel(y)
        if not {x.dtype.kind, y.dtype.kind} <= set("biuf"):
            continue
        order = np.argsort(x)
        if x.shape == y.shape == (len(WIDTHS),) and np.allclose(x[order], WIDTHS):
            found.append((str(label), y[order]))
    return found


def _find(curve, lines):
    """The place of the line with these numbers, or None."""
    return next((i for i, (_, y) in enumerate(lines) if np.allclose(y, curve, rtol=2e-3, atol=2e-4)), None)

"""A figure, judged by the numbers in it: a map of weights, with its words."""

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.verdict import right, unreadable, wrong
from attnlib.homework.assignment import Question, words_missing
from attnlib.homework.figures import figure_of

CHOICES = {"lie": ("down", "across"), "scores_of": ("0", "1", "2", "3")}
LESSON = None
SAMPLE = {"lie": "down", "scores_of": "0"}

WORDS = {
    "0": ("I", "love", "you"),
    "1": ("it", "was", "sweet", "."),
    "2": ("she", "reads", "his", "book"),
    "3": ("an", "apple", "a", "day", "."),
}

TEXT = """\
`WORDS` are the words of a sentence, and row i of `SCORES` holds the scores of query i with every key. Draw
the weights, the softmax of each query's scores, as a heat map: `figure` is the Matplotlib figure, drawn by
Matplotlib's own functions or those of `attnlib.plots`. Queries lie **{queries}**, keys {keys}; the first word
stands {first}. Each axis has the words as tick labels and says in its label whether it holds queries or keys,
and the map has a title. The figure is judged by the numbers and words in it; colours are yours."""

FIRST = {"down": "at the top and on the left", "across": "at the left and at the top"}

SOLUTION = """\
weights = np.exp(SCORES - SCORES.max(axis=1, keepdims=True))
weights = weights / weights.sum(axis=1, keepdims=True)
figure, axes = plt.subplots()
axes.imshow({drawn}, cmap="Blues", vmin=0, vmax=1)
axes.set_xticks(range(len(WORDS)), WORDS)
axes.set_yticks(range(len(WORDS)), WORDS)
axes.set(xlabel="{across}", ylabel="{down}", title="Who looks at whom")"""


def scores(which):
    """The scores of a sentence: whole numbers, and no two rows or columns alike."""
    return np.random.default_rng(int(which) + 40).integers(-2, 4, size=(len(WORDS[which]),) * 2).astype(float)


def _given(choice):
    rows = ",\n                   ".join(str(row.tolist()) for row in scores(choice["scores_of"]))
    words = ", ".join(f'"{word}"' for word in WORDS[choice["scores_of"]])
    return f"import matplotlib.pyplot as plt\n\nWORDS = [{words}]\nSCORES = np.array([{rows}])"


def question(choice):
    down = choice["lie"] == "down"
    return Question(
        id="drawn_weights", title="A map of weights",
        kind="figure", name="figure", points=4, part=2, minutes=10,
        text=TEXT.format(
            queries=choice["lie"], keys="across" if down else "down", first=FIRST[choice["lie"]]
        ),
        given=_given(choice),
        stub="figure = ...",
        solution=SOLUTION.format(drawn="weights" if down else "weights.T", across="key" if down else "query",
                                 down="query" if down else "key"),
        judge=_judge_for(choice),
    )  # fmt: skip


def _judge_for(choice):
    words, s = WORDS[choice["scores_of"]], scores(choice["scores_of"])
    turned = (lambda a: a) if choice["lie"] == "down" else (lambda a: a.T)
    wanted = turned(softmax(s, 1))
    down, across = ("quer", "key") if choice["lie"] == "down" else ("key", "quer")
    known = (
        ("turned", wanted.T, f"The map is turned: queries lie {choice['lie']}, keys the other way."),
        ("scores_drawn", turned(s), "These are the scores. Draw the weights: each query's sum to 1."),
        ("scores_drawn_and_turned", turned(s).T,
         "These are the scores, turned. Draw the weights: each query's sum to 1."),
        ("softmax_over_the_queries", turned(softmax(s, 0)),
         "The weights of each key sum to 1. Those of each query must: a query shares its weight out among "
         "the keys."),
        ("softmax_over_everything", turned(np.exp(s) / np.exp(s).sum()),
         "All weights together sum to 1. Those of each query must."),
        ("scaled", turned(softmax(s / np.sqrt(len(words)), 1)),
         "The scores have been divided by something. Take them as they are."),
        ("not_shared", turned(np.exp(s)), "These are exponentials; divide each query's by their sum."),
    )  # fmt: skip

    def judge(answer, seed=None):
        found = figure_of(answer)
        if found is None:
            return unreadable("Let `figure` be the Matplotlib figure, as plt.subplots() returns it first.")
        maps = [(axes, image) for axes in found.axes for image in axes.images if image.shape == wanted.shape]
        if not maps:
            return wrong(f"There is no heat map of shape {wanted.shape} in the figure. Draw one with imshow, "
                         "matshow or pcolormesh.")
        axes, image = maps[0]
        upside_down = axes.yaxis_up
        image = image[::-1] if upside_down else image
        labels = axes.yticks[::-1] if upside_down else axes.yticks
        if not np.allclose(image, wanted, atol=1e-4):
            for name, other, told in known:
                if np.allclose(image, other, atol=1e-4):
                    return wrong(told, name, convention="turned" in name)
            if np.allclose(image[::-1], wanted, atol=1e-4):
                return wrong("The map stands on its head: the first word belongs at the top.", "upside_down")
            return wrong("The numbers in the map are not the weights. Look at one row: does it sum to 1, and "
                         "is its "
                         "largest where the largest score is?")
        lacks = (
            (list(axes.xticks) != list(words) or list(labels) != list(words), "no_words",
             "Its axes do not have the words as tick labels, in order."),
            (across not in axes.xlabel.lower() or down not in axes.ylabel.lower(), "no_labels",
             "Its labels do not say which axis holds the queries and which the keys."),
            (not (axes.title.strip() or found.title.strip()), "no_title",
             "A title is missing: the question that the map answers."),
        )  # fmt: skip
        praise = "The map shows each query's weights, and says what it shows."
        return words_missing("The map is right.", lacks) or right(praise)

    return judge

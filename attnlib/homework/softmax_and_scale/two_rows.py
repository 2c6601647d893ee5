"""A construction: two rows with the same largest weight, of which one passes twice the slope."""

from math import ceil, floor

import numpy as np

from attnlib.core.softmaxes import softmax
from attnlib.exercises.answers import numbers
from attnlib.exercises.verdict import right, wrong
from attnlib.homework.assignment import Question

CHOICES = {"largest": ("0.55", "0.6", "0.7", "0.75", "0.8"), "among": ("12", "20", "30")}
LESSON = None
SAMPLE = {"largest": "0.6", "among": "20"}
OFF = 0.002             # the largest weight may be off by so much

TEXT = """\
Somebody writes: "How much slope a query passes back follows from its largest weight." Show that it does
not. Two queries have **{n}** keys each, and both give **{largest}** to their best key (to within {off}). Find
scores such that the Frobenius norm of the softmax's Jacobian is **at least {high}** for the first query and
**at most {low}** for the second. Put both rows of scores, an array of shape `(2, {n})`, into `rows`. The
scores are finite, and the weights are their softmax, base e, without a scale. Numbers computed in the cell
are as welcome as numbers typed in; `jacobian_norm` helps you to try."""

GIVEN = """\
def jacobian_norm(weights):
    \"\"\"The Frobenius norm of a softmax's Jacobian, from one row of weights.\"\"\"
    return np.linalg.norm(np.diag(weights) - np.outer(weights, weights))"""

SOLUTION = """\
rows = np.full((2, {n}), -40.0)
rows[0, :2] = np.log([{largest}, 1 - {largest}])       # a single rival has all the rest
rows[1] = np.log((1 - {largest}) / {rest})             # all others share it
rows[1, 0] = np.log({largest})"""


def _norm(w):
    return float(np.linalg.norm(np.diag(w) - np.outer(w, w)))


def bounds(largest, n):
    """The least norm asked of the first row, and the most of the second."""
    even = np.array([largest, *[(1 - largest) / (n - 1)] * (n - 1)])
    return floor(970 * 2 * largest * (1 - largest)) / 1000, ceil(1030 * _norm(even)) / 1000


def judge_for(largest, n):
    """A judge of two rows of scores."""
    high, low = bounds(largest, n)

    def fits(w):
        """Of each row of weights, whether its largest and its norm are as asked."""
        tops, norms = w.max(1), np.array([_norm(row) for row in w])
        return np.abs(tops - largest) <= OFF + 1e-9, np.array([norms[0] >= high, norms[1] <= low])

    def judge(answer, seed=None):
        rows, complaint = numbers(answer, (2, n), "rows")
        if complaint:
            return complaint
        w = np.array([softmax(row) for row in rows])
        norms = [_norm(row) for row in w]
        told = (f"The largest weights are {w[0].max():.3f} and {w[1].max():.3f}, the norms {norms[0]:.3f} "
                f"and {norms[1]:.3f}. ")  # fmt: skip
        tops_fit, norms_fit = fits(w)
        if tops_fit.all() and norms_fit.all():
            return right(told + "A rival that has all the rest keeps the race open; the same rest in small "
                         "change moves hardly anything.")  # fmt: skip
        looks = (rows >= 0).all() and np.allclose(rows.sum(1), 1, atol=0.01)
        if looks and all(map(np.all, fits(rows / rows.sum(1, keepdims=True)))):
            return wrong(told + "Your rows are the right weights. Scores are asked for, whose softmax gives "
                         "these weights: which are they?", "weights_given")  # fmt: skip
        turned = fits(w[::-1])
        if turned[0].all() and turned[1].all():
            return wrong(told + "Both are there, in the wrong order: the first row is the one with the large "
                         "norm.", "turned_round")  # fmt: skip
        row_fits = tops_fit & norms_fit
        if row_fits.any():
            i = int(row_fits.argmin())
            return wrong(f"{told}Row {2 - i} is right. {lacking(i, w[i], tops_fit[i])}", "one_row_right")
        i = int(tops_fit.argmin()) if not tops_fit.all() else 0
        return wrong(told + lacking(i, w[i], tops_fit[i]))

    def lacking(i, w, top_fits):
        """What is missing in row i."""
        name = ("first", "second")[i]
        if not top_fits:
            forgotten = largest / (1 - largest)
            if abs(w.max() - forgotten / (forgotten + n - 1)) < 1e-3:
                return (f"In the {name} row you have the lead that makes {largest:g} of two keys. The "
                        f"{n - 1} others count together.")  # fmt: skip
            return (f"In the {name} row the largest weight should be {largest:g}. By how much must the best "
                    f"score lead, when the others together are to keep {1 - largest:.2g}?")  # fmt: skip
        if i == 0:
            return (f"In the first row the norm should be at least {high:g}. The best key has its weight; "
                    f"where does the other {1 - largest:.2g} lie, and which key could still overtake it?")
        return (f"In the second row the norm should be at most {low:g}. The best key has its weight; how "
                f"must the other {1 - largest:.2g} lie, so that no push on one score moves much?")

    return judge


def question(choice):
    largest, n = float(choice["largest"]), int(choice["among"])
    high, low = bounds(largest, n)
    return Question(
        id="two_rows", title="Equally sure, not equally deaf",
        kind="value", name="rows", points=3, part=1, minutes=10,
        text=TEXT.format(n=n, largest=choice["largest"], off=OFF, high=high, low=low),
        given=GIVEN,
        stub="rows = ...",
        solution=SOLUTION.format(n=n, largest=choice["largest"], rest=n - 1),
        judge=judge_for(largest, n),
    )  # fmt: skip

"""A construction: a query whose three weights have given ratios."""

import numpy as np

from attnlib.exercises.answers import numbers
from attnlib.exercises.verdict import right, wrong
from attnlib.homework.assignment import Question

CHOICES = {
    "shares": ("4 : 2 : 1", "1 : 6 : 3", "9 : 3 : 1", "2 : 1 : 8", "5 : 10 : 1", "1 : 3 : 12"),
    "three_keys": ("2 0, -1 2, -1 -1", "1 1, -2 0, 0 -2", "0 2, 2 -1, -1 -1", "1 -1, 1 2, -2 0"),
}
LESSON = None
SAMPLE = {"shares": "4 : 2 : 1", "three_keys": "2 0, -1 2, -1 -1"}

TEXT = """\
`THREE_KEYS` holds three keys of two numbers, a row each. Give a `query` of two numbers for which the
weights, the softmax of the three dot products (no scale), are in the ratio **{shares}**. Numbers computed
in the cell are as welcome as numbers typed in; each weight must be right to 0.001."""


def _given(choice):
    rows = [", ".join(f"{float(n)}" for n in row.split()) for row in choice["three_keys"].split(", ")]
    keys = ", ".join(f"[{row}]" for row in rows)
    return f"THREE_KEYS = np.array([{keys}])"


def judge_for(shares, keys):
    """A judge of queries for these shares."""
    wanted = shares / shares.sum()

    def judge(answer, seed=None):
        query, complaint = numbers(answer, (2,), "query")
        if complaint:
            return complaint
        scores = keys @ query
        weights = np.exp(scores - scores.max())
        weights /= weights.sum()
        told = f"The weights are {', '.join(f'{w:.3f}' for w in weights)}. "
        if np.abs(weights - wanted).max() <= 1e-3:
            return right(
                told + "Two differences between scores settle the query, and each is a logarithm of a ratio."
            )
        told += f"Asked for are {', '.join(f'{w:.3f}' for w in wanted)}. "
        gaps, logs = np.diff(scores), np.diff(np.log(shares))
        if np.allclose(np.sort(weights), np.sort(wanted), atol=2e-3):
            return wrong(told + "The right shares, at the wrong keys.", "other_order")
        if np.allclose(gaps, np.diff(shares), atol=0.02) or np.allclose(gaps, np.diff(wanted), atol=0.02):
            return wrong(
                told + "Your scores differ as the weights should. A weight is the exponential of a score: "
                "which difference of scores makes one weight twice another?", "scores_in_the_ratio")
        if np.allclose(gaps, logs / np.log(2), atol=0.02):
            return wrong(told + "Your logarithms are to base 2; the softmax is to base e.", "base_two")
        if np.allclose(gaps, logs * np.sqrt(2), atol=0.02):
            return wrong(told + "You scaled by the square root of 2. There is no scale here.", "scaled")
        if np.allclose(gaps, -logs, atol=0.02):
            return wrong(told + "Your query points the other way: the least has become the most.", "opposite")
        return wrong(told + "By how much must two scores differ, for one weight to be twice the other?")

    return judge


def question(choice):
    shares = np.array([float(share) for share in choice["shares"].split(" : ")])
    keys = np.array([[float(n) for n in row.split()] for row in choice["three_keys"].split(", ")])
    listed = ", ".join(f"{share:g}" for share in shares)
    return Question(
        id="three_shares", title="A query made to measure",
        kind="value", name="query", points=3, part=1, minutes=10,
        text=TEXT.format(shares=choice["shares"]),
        given=_given(choice),
        stub="query = ...",
        solution=f"gaps = np.diff(np.log([{listed}]))          # between the scores of neighbours\n"
                 "query = np.linalg.solve(np.diff(THREE_KEYS, axis=0), gaps)",
        judge=judge_for(shares, keys),
    )  # fmt: skip

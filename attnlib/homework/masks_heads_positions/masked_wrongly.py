"""A construction: two rows of scores, one on which a faulty mask shows and one on which it hides."""

import numpy as np

from attnlib.exercises.answers import numbers
from attnlib.exercises.verdict import right, wrong
from attnlib.homework.assignment import Question

# By the fault: what the locked cell computes, and what to look at.
FAULTS = {
    "zeroed": ("    e = np.exp(scores * MASK)\n    return e / e.sum()",
               "What score does a hidden key get, and how does it compare with yours?"),
    "after": ("    e = np.exp(scores)\n    return e / e.sum() * MASK",
              "What do the weights sum to, and which scores decide that?"),
    "small": ("    e = np.exp(np.where(MASK, scores, -20.0))\n    return e / e.sum()",
              "Which scores must -20 be compared with?"),
    "lowered": ("    e = np.exp(scores - 25 * ~MASK)\n    return e / e.sum()",
                "What is left of a hidden score, and which scores must that be compared with?"),
    "lowest": ("    e = np.exp(np.where(MASK, scores, scores.min()))\n    return e / e.sum()",
               "Which of the five is the lowest score in your row, and how far below the rest does it lie?"),
    "top": ("    e = np.exp(scores - scores.max()) * MASK\n    return e / (e.sum() + 1e-9)",
            "Which of the five is the largest score in your row, and what is exp of the distance to it?"),
}  # fmt: skip
CHOICES = {"fault": tuple(FAULTS), "hidden_keys": ("1, 3", "0, 2", "2, 4", "0, 3")}
LESSON = None
SAMPLE = {"fault": "after", "hidden_keys": "1, 3"}

TEXT = """\
`faulty(scores)` is somebody's softmax of five scores under `MASK`, where True means *may attend*. Right
would be: weight 0 where the mask is False, and the softmax of the other three scores where it is True. The
function has a fault, and is right on many rows all the same. Give `rows`, an array of shape `(2, 5)`: two
rows of scores.

- On the **first** row the fault shows: some weight is wrong by 0.1 or more.
- On the **second** it hides: no weight is wrong by more than 0.000001, though each of the three right
  weights is at least 0.05.

In each row any two of the five scores differ by at least 0.5, and all lie between -100 and 100."""


def _code(choice):
    shown = ["False" if str(key) in choice["hidden_keys"].split(", ") else "True" for key in range(5)]
    return (
        f"MASK = np.array([{', '.join(shown)}])     # True = may attend\n\n\n"
        f'def faulty(scores):\n    """Weights of five keys."""\n{FAULTS[choice["fault"]][0]}'
    )


def judge_for(choice):
    """A judge of the two rows for one fault under one mask."""
    names = {"np": np}
    exec(_code(choice), names)
    mask, faulty, look = names["MASK"], names["faulty"], FAULTS[choice["fault"]][1]

    def right_weights(scores):
        e = np.where(mask, np.exp(scores - scores[mask].max()), 0.0)
        return e / e.sum()

    def judge(answer, seed=None):
        rows, complaint = numbers(answer, (2, 5), "rows")
        if complaint:
            return complaint
        if np.abs(rows).max() > 100:
            return wrong(f"All scores lie between -100 and 100; one of yours is {_largest(rows):g}.")
        for name, row in zip(("first", "second"), rows, strict=True):
            gap = np.diff(np.sort(row)).min()
            if gap < 0.5 - 1e-9:
                return wrong(f"In your {name} row two scores differ by {gap:.3g}; at least 0.5 is asked for.",
                             "scores_too_near")
        wrong_by = [np.abs(faulty(row) - right_weights(row)).max() for row in rows]
        shown, hides = wrong_by[0] >= 0.1, wrong_by[1] <= 1e-6
        if wrong_by[1] >= 0.1 and wrong_by[0] <= 1e-6:
            return wrong("The fault hides on your first row and shows on your second. The first is to show "
                         "it.", "rows_exchanged")
        if not shown:
            return wrong(f"On your first row {_told(faulty, right_weights, rows[0])} A weight is to be wrong "
                         f"by 0.1. {look}")
        if not hides:
            told = _told(faulty, right_weights, rows[1])
            return wrong(f"Your first row shows the fault. On the second {told} No weight may"
                         f" be wrong by more than 0.000001. {look}")
        least = right_weights(rows[1])[mask].min()
        if least < 0.05 - 1e-9:
            return wrong(f"The first row shows the fault and the second hides it. But in the second a key "
                         f"that may be seen has a right weight of {least:.2g}; at least 0.05 is asked for. "
                         "How far apart may three scores lie?", "one_key_takes_all")
        return right(f"On the first row a weight is wrong by {wrong_by[0]:.2f}, on the second by "
                     f"{wrong_by[1]:.1g}. A test with the second row alone would let the fault pass.")

    return judge


def _largest(rows):
    return rows.flat[np.abs(rows).argmax()]


def _told(faulty, right_weights, row):
    given, wanted = (", ".join(f"{w:.3g}" for w in weights) for weights in (faulty(row), right_weights(row)))
    return f"faulty gives {given}; right is {wanted}."


# By the fault: the scores to be seen and those to be hidden, of the first row and of the second.
SOLUTIONS = {
    "zeroed": (("-1, -2, -3", "1, 2"), ("20, 20.5, 21", "1, 2")),
    "after": (("0, 1, 2", "3, 4"), ("0, 1, 2", "-40, -41")),
    "small": (("-30, -31, -32", "3, 4"), ("0, 1, 2", "3, 4")),
    "lowered": (("0, 1, 2", "60, 61"), ("0, 1, 2", "-3, -4")),
    "lowest": (("0, 0.5, 1", "3, 4"), ("0, 1, 2", "-40, -41")),
    "top": (("0, 1, 2", "60, 61"), ("0, 1, 2", "-3, -4")),
}  # fmt: skip


def question(choice):
    first, second = SOLUTIONS[choice["fault"]]
    return Question(
        id="masked_wrongly", title="Where a fault shows, and where it hides",
        kind="value", name="rows", points=3, part=1, minutes=10,
        text=TEXT,
        given=_code(choice),
        stub="rows = ...",
        solution="rows = np.zeros((2, 5))\n"
                 f"rows[:, MASK] = [[{first[0]}], [{second[0]}]]\n"
                 f"rows[:, ~MASK] = [[{first[1]}], [{second[1]}]]",
        judge=judge_for(choice),
    )  # fmt: skip

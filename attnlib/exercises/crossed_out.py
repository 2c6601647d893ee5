"""Lesson 21: gates that forget, scores that cross out, and tables that tell how they were made."""

import numpy as np

from attnlib.exercises.answers import numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.verdict import right, unreadable, wrong

# ------------------------------------------------------------- five gates

WANTED = np.array([1, 1, 2, 4, 4]) / 12


def _last_row(passed):
    return passed / passed.sum()


def _passed(gates, first=1, last=5):
    """The product of the gates from j + first up to, without, `last`, for each j."""
    return np.array([np.prod(gates[j + first : last]) for j in range(5)])


@np.errstate(all="ignore")
def five_gates(answer):
    """Five forget gates with which the last of five equal scores has weights of 1, 1, 2, 4 and 4 twelfths."""
    gates, complaint = numbers(answer, (5,), "your answer")
    if complaint:
        return complaint
    if gates.max() <= 0 and gates.min() < 0:
        return wrong(
            "Those are logarithms. A gate is a number between 0 and 1, and the formula multiplies gates.",
            "logarithms",
        )
    if gates.min() < 0:
        return wrong("A gate lies between 0 and 1; a negative one would make weights negative.", "below_zero")
    if gates[1:].min() == 0:  # before the first there is nothing
        return wrong("A gate of 0 leaves nothing of what came before. Each is above 0, at most 1.", "closed")
    if gates.max() > 1:
        told = ""
        if np.allclose(_last_row(gates), WANTED, atol=1e-3):
            told = " You gave the weights themselves; gates are the factors from one to the next."
        if np.allclose(_last_row(_passed(1 / gates)), WANTED, atol=1e-3):
            told = " Yours are one over what they should be."
        return wrong("A gate is at most 1: nothing is remembered better for being old." + told, "above_one")
    found = _last_row(_passed(gates))
    if np.allclose(found, WANTED, atol=1e-3):
        return right(
            "The two halves stand at the third and at the fourth purchase: a gate closes on what was there "
            "before its own token. The second and the fifth are 1, and the first may be anything, for "
            "nothing is before it. Weights that grow with age cannot be had, whatever the gates."
        )
    told = f"The fifth purchase divides its weight as {', '.join(f'{12 * w:.3g}' for w in found)} of 12. "
    if np.allclose(_last_row(_passed(gates, first=0, last=4)), WANTED, atol=1e-3):
        return wrong(
            told + "Your gates stand one place too early. From j to i the gates j + 1 to i are "
            "passed: a token's gate closes on what came before it, not on itself.",
            "one_early",
        )
    if np.allclose(_last_row(_passed(np.append(gates[1:], 1))), WANTED, atol=1e-3):
        return wrong(
            told + "Your gates stand one place too late. What came before token l passes the gate of l "
            "itself, so the weight doubles at the token that has the gate.",
            "one_late",
        )
    if np.allclose(_last_row(gates), WANTED, atol=1e-3):
        return wrong(
            told + "You gave what is left at the end, the products. The gates are the factors from "
            "one purchase to the next.",
            "products",
        )
    if np.allclose(_last_row(_passed(gates[::-1])), WANTED, atol=1e-3) or np.allclose(
        _last_row(_passed(gates[::-1], first=0, last=4)), WANTED, atol=1e-3
    ):
        return wrong(
            told + "The order is turned round: the first gate belongs to the first purchase.", "reversed"
        )
    if np.allclose(_last_row(np.sqrt(_passed(gates))), WANTED, atol=1e-3):
        return wrong(told + "Those are the squares of what they should be.", "squared")
    if np.ptp(gates[1:]) < 1e-9:
        return wrong(
            told + "Equal gates give weights that fall by the same factor at each step. Where do "
            "the wanted weights stay, and where do they double?",
            "equal",
        )
    j = int(np.argmax(np.abs(found[:-1] / found[1:] - WANTED[:-1] / WANTED[1:])))
    return wrong(
        told + f"Look at purchases {j + 1} and {j + 2}: their weights are to be as "
        f"{12 * WANTED[j]:g} to {12 * WANTED[j + 1]:g}. Which one gate do they not share?",
        "other",
    )


# ------------------------------------------------------------- two cells that cross out

BOUGHT = ("开始", "跑鞋", "袜子", "退货", "球拍", "水壶")
SHOES, SOCKS, RETURN, RACKET, BOTTLE = 1, 2, 3, 4, 5
GONE, KEPT = 0.01, 0.15


def _selective(scores):
    """Weights of one head that selects for itself."""
    seen = np.tri(6, dtype=bool)
    taken = np.where(np.tri(6, k=-1, dtype=bool), np.maximum(scores, 0), 0)
    taken[:, 0] = 0
    s = np.where(seen, scores - (np.cumsum(taken, 0) - taken), -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _does(scores):
    w = _selective(scores)
    gone = (w[[RACKET, BOTTLE], SHOES] < GONE).all() and w[BOTTLE, SOCKS] < GONE
    return bool(gone and w[RACKET, SOCKS] >= KEPT and (w[BOTTLE, RETURN:] >= KEPT).all())


def _cell(i, j):
    return f"{BOUGHT[i]} at {BOUGHT[j]}"


def _who_hid_what(scores):
    """What scores that do what is asked have done: there are several ways."""
    if scores[SOCKS, SHOES] > 0:
        told = (
            "The socks cross out the shoes, a row before the return, which no longer sees what it returns: "
            "the return itself could have done it. "
        )
    else:
        told = "The return crosses out the shoes. "
    if scores[BOTTLE, SOCKS] < 0:
        return (
            told
            + "The bottle looks away from the socks by a negative score of its own, which meets what was "
            "asked. But nobody after it would learn of it: a seventh purchase sees the socks again. The "
            "racket could have crossed them out for all, with a positive score."
        )
    return (
        told + "The racket crosses out the socks. Each still sees what it crosses out, and looks at little "
        "else. That is the price of having no parameters: the score that hides is the score that looks. A "
        "gate could not have done it, for it closes on all that came before."
    )


@np.errstate(all="ignore")
def crossed_out(answer):
    """Scores, all but two 0, by which the shoes are gone after the return, and the socks a row later."""
    scores, complaint = numbers(answer, (6, 6), "your scores")
    if complaint:
        return complaint
    if np.abs(scores).max() > 10:
        return wrong("Scores from -10 to 10 are enough.", "too_large")
    cells = [tuple(map(int, cell)) for cell in np.argwhere(scores != 0)]
    if len(cells) > 2:
        return wrong(
            f"{len(cells)} scores are not 0. Two are enough, and more are not allowed: a token need "
            "not be told what an earlier one has crossed out.",
            "too_many",
        )
    if not cells:
        return wrong("All scores are 0, so nobody crosses anything out.", "none")
    if _does(scores):
        return right(_who_hid_what(scores))
    told = " and ".join(_cell(i, j) for i, j in cells)
    told = f"Not 0 is what {told} give: a row looks at a column. "
    if any(j > i for i, j in cells):
        if _does(scores.T):
            return wrong(
                told + "Rows and columns are exchanged: the one who crosses out is the row.", "transposed"
            )
        return wrong(told + "A row cannot look at what comes later: that cell is masked.", "future")
    if any(i == j for i, j in cells):
        return wrong(told + "Nobody crosses out itself: the diagonal is left out of the sum.", "diagonal")
    if any(j == 0 for _, j in cells):
        return wrong(told + "The first token cannot be crossed out.", "first")
    if (scores < 0).any():
        if _does(np.abs(scores)):
            return wrong(
                told + "A sign is turned. Only positive scores cross out; a negative one looks away "
                "in its own row, and nobody after it learns of it.",
                "negative",
            )
        return wrong(told + "A negative score crosses nothing out: max(0, S) drops it.", "negative")
    for which in (cells[:1], cells[1:], cells):
        earlier = scores.copy()
        for i, j in which:
            earlier[i, j] = 0
        for i, j in which:
            earlier[i - 1, j] = scores[i, j]
        if _does(earlier):
            said = " and ".join(_cell(i, j) for i, j in which)
            return wrong(
                told
                + f"One row too late: {said}. What row l crosses out is hidden from row l + 1 on, and row l "
                "itself looks at it more than ever.",
                "late",
            )
    if len(cells) == 2 and _does(np.where(scores > 0, 10.0, 0.0)):
        w = _selective(scores)
        return wrong(
            told + f"The right cells, with scores too small: the last purchase still gives the "
            f"shoes {w[BOTTLE, SHOES]:.3f} and the socks {w[BOTTLE, SOCKS]:.3f}.",
            "too_small",
        )
    if (RETURN, SHOES) in cells and (RETURN, SOCKS) in cells:
        return wrong(
            told + "The return takes both away, and the racket is to see the socks yet. Who crosses "
            "them out for the last purchase?",
            "both_at_once",
        )
    if any(i == BOTTLE for i, _ in cells):
        return wrong(
            told
            + "The last purchase looks away by a score of its own. It is to go on looking at all that is "
            "left, and not to see what was crossed out before it.",
            "looks_away",
        )
    if len(cells) == 1:
        missing = "socks" if cells[0][1] == SHOES else "shoes"
        return wrong(told + f"That is one. The {missing} have to go too.", "one_missing")
    w = _selective(scores)
    for row, item, name in ((RACKET, SHOES, "shoes"), (BOTTLE, SHOES, "shoes"), (BOTTLE, SOCKS, "socks")):
        if w[row, item] >= GONE:
            return wrong(
                told + f"{BOUGHT[row]} still gives the {name} {w[row, item]:.2f}. Which rows before "
                "it could have crossed them out?",
                "still_seen",
            )
    return wrong(
        told + f"{BOUGHT[RACKET]} gives the socks {w[RACKET, SOCKS]:.3f}; it is to see them yet.",
        "gone_too_soon",
    )


# ------------------------------------------------------------- whose table is it?

_WHO = {"D": "differential", "F": "forgetting", "R": "refined with one mask", "S": "selective"}
_ORDER = "SRDF"
_CLUES = {
    "S": "Its last row gives token 1 nothing, and tokens 0 and 2, on both sides of it, their full part; row "
         "2 looked at token 1 more than at anything.",
    "R": "Something stands above its diagonal. Only one of the four compares whole rows.",
    "D": "Its last row has a negative number, and sums to 0.2.",
    "F": "In its last two rows tokens 0 and 1 have half of what tokens 2 and 3 have, both of them.",
}  # fmt: skip


def whose_table(answer):
    """Which of four mechanisms made which of four tables; four letters in one text."""
    if not isinstance(answer, str):
        return unreadable(f'Give four letters in one pair of quotes, such as "DFRS"; got {short(answer)}.')
    given = "".join(letter for letter in answer.upper() if letter.isalpha())
    if len(given) != 4 or not set(given) <= set(_WHO):
        return unreadable(f'Give each of D, F, R, S once, in quotes, such as "DFRS"; got {short(answer)}.')
    if given == _ORDER:
        return right(
            "Selective, refined, differential, forgetting. One cell that is gone, with its neighbours whole, "
            "can only be crossed out; a weight above the diagonal means that rows were compared without a "
            "second mask; a negative weight means that something was subtracted after a softmax; and one "
            "factor for all that is older is a gate."
        )
    if len(set(given)) < 4:
        return wrong("Each of the four made one table, so each letter stands once.", "twice")
    place = next(i for i, (one, other) in enumerate(zip(given, _ORDER, strict=True)) if one != other)
    wanted, got = _ORDER[place], given[place]
    hits = sum(one == other for one, other in zip(given, _ORDER, strict=True))
    reason = {
        "D": "A difference of maps has rows that sum to less than 1.",
        "F": "A gate makes all that is older smaller by one factor.",
        "R": "Compared rows, without a second mask, give the first token a part of later ones.",
        "S": "Crossing out takes one token away, for later rows alone.",
    }[got]
    return wrong(
        f"{hits} of 4 are right. Table {place + 1} is not {_WHO[got]}. {reason} Look at it again: "
        f"{_CLUES[wanted][0].lower()}{_CLUES[wanted][1:]}",
        f"{got}_for_{wanted}",
    )


_GATES_SOLUTION = """
answer = [1, 1, 1 / 2, 1 / 2, 1]        # halves where the weights double
"""

_CROSSED_SOLUTION = """
import numpy as np

answer = np.zeros((6, 6))
answer[3, 1] = 6                        # the return looks at the shoes: gone from row 4 on
answer[4, 2] = 6                        # the racket looks at the socks: gone from row 5 on
"""

_WHOSE_SOLUTION = """
answer = "SRDF"
"""

EXERCISES = (
    Exercise("five_gates", "21", five_gates, (
        "Which gates does the fifth purchase pass on the way from the fourth? And from the third?",
        "The weights of neighbours j and j + 1 differ by one factor alone, the gate of j + 1.",
        "From the second to the third the weight doubles, so the third gate is 1/2. Which other doubles?",
    ), _GATES_SOLUTION, "construction"),
    Exercise("crossed_out", "21", crossed_out, (
        "Who has to look at the shoes so that the racket no longer sees them, and who at the socks?",
        "What row l looks at with a positive score is hidden from row l + 1 on. The socks are to be hidden "
        "from the last row alone.",
        "Row 3 at column 1, row 4 at column 2. With a score of 4, how much is left of an even share?",
    ), _CROSSED_SOLUTION, "construction"),
    Exercise("whose_table", "21", whose_table, (
        "Begin with what only one of the four can do: a negative number, something above the diagonal.",
        "Of the other two, one takes a single token away and leaves the older ones, one makes all older ones "
        "smaller alike.",
    ), _WHOSE_SOLUTION, "prediction"),
)  # fmt: skip

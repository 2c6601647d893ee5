"""Weights under a window and a mask for padding: what True says, what a window counts, which ends meet."""

import numpy as np

from attnlib.exercises.function import Case, Mistake
from attnlib.homework.assignment import (
    Convention,
    Option,
    Question,
    filled,
    judge_of_variant,
    said,
    values_of,
)

CONVENTIONS = (
    Convention("true_key", {
        "real": Option("In `key_mask`, of shape `(B, n)`, True means **real**: the key may be seen.",
                       "You take the True keys for the real ones.", "key_mask[:, None, :]",
                       "true_taken_for_real"),
        "padding": Option("In `key_mask`, of shape `(B, n)`, True means **padding**: the key is hidden.",
                          "You take the True keys for padding.", "~key_mask[:, None, :]",
                          "true_taken_for_padding"),
    }),
    Convention("ends", {
        "last": Option("The last query stands at the last key: query i at place **i + n - m**.",
                       "You let query i stand at place i + n - m.", "np.arange(m)[:, None] + n - m",
                       "last_query_at_last_key"),
        "first": Option("The first query stands at the first key: query i at place **i**.",
                        "You let query i stand at place i.", "np.arange(m)[:, None]",
                        "first_query_at_first_key"),
    }),
    Convention("window_is", {
        "counted": Option("A query at place p sees the keys at **window** places, its own among them: p, "
                          "p - 1 and so on.",
                          "You count a query's own place as one of the window.", "behind < window",
                          "window_with_its_own_place"),
        "besides": Option("A query at place p sees the key at its own place and those at **window** places "
                          "before it.",
                          "You count the window besides a query's own place.", "behind <= window",
                          "window_besides_its_own_place"),
    }),
    Convention("nothing", {
        "zeros": Option("A query that sees nothing has **zeros** for weights.",
                        "You give a query that sees nothing zeros for weights.", "0.0",
                        "zeros_where_nothing_is_seen"),
        "even": Option("A query that sees nothing weighs **all n keys alike**, 1/n each, hidden ones too.",
                       "You let a query that sees nothing weigh all keys alike.", "1 / n",
                       "all_alike_where_nothing_is_seen"),
    }),
)
CHOICES = values_of(*CONVENTIONS)
LESSON = {"true_key": "real", "ends": "last", "window_is": "counted", "nothing": "zeros"}
SAMPLE = {"true_key": "padding", "ends": "last", "window_is": "besides", "nothing": "zeros"}

TEXT = """\
Write `window_weights(scores, key_mask, window)`: attention weights where each query sees only near keys
that are no padding.

`scores` has shape `(B, m, n)`, for B sentences, m queries and n keys, and so has the result.

- Key j stands at place j. {ends} Either of m and n may be the larger, so that a query may stand before or
  behind all keys; where there is no key it sees none.
- {window_is} It sees none at a place after its own.
- {true_key} Padding may stand anywhere in a sentence.

The weights of what a query sees are the softmax of these scores; all other weights are **exactly 0**.
{nothing} There is never a NaN. Scores, seen and hidden ones, may be as large as 1000, of either sign;
`window` is a whole number from 1 up. `scores` holds floats, `key_mask` booleans, both NumPy arrays; do not
change them in place, and use NumPy alone."""

STUB = """\
def window_weights(scores, key_mask, window):
    \"\"\"Weights (B, m, n) under a window and a mask for padding.\"\"\""""

SOLUTION = """\
    m, n = scores.shape[1:]
    places = <ends>    # (m, 1)
    behind = places - np.arange(n)    # (m, n), negative for later keys
    sees = (behind >= 0) & (<window_is>) & <true_key>
    low = np.where(sees, scores, -np.inf)
    top = low.max(axis=-1, keepdims=True)
    e = np.exp(low - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)    # 0 where nothing is seen
    return np.where(total > 0, e / np.where(total > 0, total, 1), <nothing>)"""


@np.errstate(all="ignore")
def compute(scores, key_mask, window, *, true_key="real", ends="last", window_is="counted", nothing="zeros",
            pads="keys", band="past", own=True, longer=0, clipped=False, hiding="-inf", top="seen", axis=-1,
            mended=True):  # fmt: skip
    b, m, n = scores.shape
    real = key_mask if true_key == "real" else ~key_mask
    places = np.arange(m) + (n - m if ends == "last" else 0)
    places = places.clip(0, n - 1) if clipped else places
    behind = places[:, None] - np.arange(n)
    reach = window - (window_is == "counted") + longer
    near = {
        "past": (behind >= 0) & (behind <= reach), "both": abs(behind) <= reach, "all": behind >= 0,
        "later": (behind <= 0) & (behind >= -reach), "outside": (behind > reach),
    }[band]  # fmt: skip
    near = near if own else near & (behind != 0)
    if pads == "sentences":                    # the mask's rows read as queries
        sees = near & np.broadcast_to(real, (b, m, n))
    elif pads == "queries":
        sees = near & np.broadcast_to(real[:, :, None], (b, m, n))
    elif pads == "either":
        sees = near | real[:, None, :]
    else:
        sees = near & real[:, None, :] if pads == "keys" else np.broadcast_to(near, (b, m, n))
    if hiding == "after":
        return _softmax(scores, axis) * sees
    if hiding == "multiplied":
        return _softmax(scores * sees, axis)
    if hiding == "added":
        return _softmax(scores + np.where(sees, 0, -1e9), axis)
    if hiding == "small":
        return _softmax(np.where(sees, scores, -100.0), axis)
    if hiding == "not":
        return _softmax(scores, axis)
    low = np.where(sees, scores, -np.inf)
    highest = (low if top == "seen" else scores).max(axis=axis, keepdims=True)
    if top == "none":
        highest = 0
    elif mended:
        highest = np.where(np.isfinite(highest), highest, 0)
    e = np.exp(low - highest)
    total = e.sum(axis=axis, keepdims=True)
    if not mended:
        return e / total
    return np.where(total > 0, e / np.where(total > 0, total, 1), 0.0 if nothing == "zeros" else 1 / n)


def _softmax(scores, axis):
    e = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def cases(rng, choice):
    def made(m, n, window, padding, size=1.0):
        real = np.ones((len(padding), n), bool)
        for row, places in zip(real, padding, strict=True):
            row[list(places)] = False
        scores = (rng.normal(size=(len(padding), m, n)) * size).clip(-1000, 1000)
        return scores, (real if choice["true_key"] == "real" else ~real), window

    loud = made(4, 4, 2, [(1,), (3,)])
    loud[0][:, :, (1, 3)] += 990               # hidden in one sentence, seen in the other
    return [
        Case("2 sentences, 3 queries, 6 keys, a window of 2 and one key of padding",
             made(3, 6, 2, [(), (1,)]),
             hint="Write the table of places for one sentence: which keys does the first query see?"),
        Case("5 queries, 5 keys, a window of 2 and padding on the left", made(5, 5, 2, [(), (0, 1, 2)]),
             hint="Which queries see nothing?"),
        Case("scores near 1000, some of them hidden", loud,
             hint="Which score may you subtract from a row: may it be one that is hidden?"),
        Case("more queries than keys", made(6, 3, 1, [(2,), ()]),
             hint="Where does the first query stand, and where the last?"),
        Case("a window wider than the sentence", made(4, 4, 9, [(0,), (3,)])),
        Case("as many sentences as queries and as keys", made(3, 3, 1, [(0,), (), (1, 2)])),
        Case("scores of hundreds, of both signs", made(3, 5, 3, [(2,), (4,)], 400.0)),
        Case("a sentence of padding alone", made(2, 4, 2, [(0, 1, 2, 3), (1,)])),
        Case("one query, 5 keys and a window of 1", made(1, 5, 1, [(), (4,), (0,)])),
        Case("a single key", made(2, 1, 1, [(), (0,)])),
    ]  # fmt: skip


MISTAKES = (
    Mistake("nothing_is_nan", "A query that sees nothing comes out as NaN: its sum of exponentials is 0. "
            "Which rows are that, and what do they have to hold?", {"mended": False}),
    Mistake("weights_hidden_after", "You set weights to 0 after the softmax. What is left of a row sums to "
            "less than 1: the hidden scores are still in the sum that it was divided by.",
            {"hiding": "after"}),
    Mistake("scores_multiplied", "You multiply the scores by the mask, so a hidden score becomes 0. exp(0) "
            "is 1: a score of 0 hides nothing.", {"hiding": "multiplied"}),
    Mistake("number_added", "You add a large negative number to hidden scores. Where all are hidden all are "
            "lowered alike, and the row is a softmax of what must not be seen.", {"hiding": "added"}),
    Mistake("small_number_written", "The number that you write over a hidden score is not low enough: seen "
            "scores may be as low as -1000.", {"hiding": "small"}),
    Mistake("nothing_hidden", "You hide nothing: every query weighs every key.", {"hiding": "not"}),
    Mistake("padding_seen", "You apply the window, and the padding is still seen.", {"pads": "ignored"}),
    Mistake("window_ignored", "You hide the future and the padding, and let a query see all the past. How "
            "far back does the window go?", {"band": "all"}),
    Mistake("window_too_short", "Your window ends one place too early.", {"longer": -1}),
    Mistake("window_too_long", "Your window goes one place too far back.", {"longer": 1}),
    Mistake("future_seen", "Your window goes as far forward as back. Nothing after a query's own place may "
            "be seen.", {"band": "both"}),
    Mistake("window_ahead", "Your window goes forward instead of back: check the sign of the distance.",
            {"band": "later"}),
    Mistake("window_inverted", "You hide the window and show what lies before it.", {"band": "outside"}),
    Mistake("own_key_hidden", "Your query does not see the key at its own place.", {"own": False}),
    Mistake("queries_hidden", "You hide rows: the mask speaks of keys, and keys lie across.",
            {"pads": "queries"}),
    Mistake("sentences_taken_for_queries", "Your mask of shape (B, n) is laid on (m, n): sentence i's "
            "padding becomes what query i may not see. Which axis of (B, m, n) is missing from it?",
            {"pads": "sentences"}),
    Mistake("either_will_do", "You show a key that is near or real. It has to be both.", {"pads": "either"}),
    Mistake("places_clipped", "You move queries that stand before or behind all keys to the nearest one. "
            "They stay where they stand, and may see nothing.", {"clipped": True}),
    Mistake("no_maximum_subtracted", "exp overflows on large scores. A constant may be taken from a row of "
            "scores without changing its weights.", {"top": "none"}),
    Mistake("maximum_of_hidden_scores", "The maximum that you subtract may be that of a hidden score. Then "
            "the exponentials of what is seen are all 0.", {"top": "all"}),
    Mistake("maximum_of_hidden_scores", "The hidden scores take part in your softmax before they are hidden. "
            "Where one is large, nothing is left of what is seen, and 0/0 is NaN.",
            {"top": "all", "mended": False}),
    Mistake("softmax_over_the_queries", "Your softmax runs over the queries. A query shares its weight out "
            "among the keys: that is the last axis.", {"axis": 1}),
)  # fmt: skip


def rows_sum_to_one(case, value, expected):
    """A property of weights: each row sums to 1 or, where nothing is seen, to what is asked for."""
    if np.isnan(value).any():
        return "There is a NaN in the result:"
    sums, wanted = value.sum(-1), expected.sum(-1)
    if not np.allclose(sums, wanted, atol=1e-4):
        at = tuple(int(i) for i in np.argwhere(~np.isclose(sums, wanted, atol=1e-4))[0])
        return f"The weights of query {at[1]} in sentence {at[0]} sum to {sums[at]:.3g}, and should to " \
               f"{wanted[at]:.3g}:"
    return None


def question(choice):
    return Question(
        id="window_weights", title="Near, and no padding",
        kind="function", name="window_weights", points=5, part=2, minutes=20,
        text=TEXT.format(**said(CONVENTIONS, choice)),
        stub=STUB,
        solution=filled(SOLUTION, CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, MISTAKES, cases,
            "The window goes back as far as it should from where each query stands, padding is hidden in its "
            "own sentence alone, and a query that sees nothing is treated as agreed.", visible=4,
            properties=(rows_sum_to_one,),
        ),
        forbids=("softmax", "attention_weights", "attention", "window_mask", "causal_mask", "padding_mask",
                 "scaled_dot_product_attention"),
    )  # fmt: skip

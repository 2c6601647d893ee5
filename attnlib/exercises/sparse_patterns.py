"""Lesson 17's exercises on patterns: one to be written, two to be predicted, and a hashing to be beaten."""

import numpy as np

from attnlib.efficient.patterns import (
    Pattern,
    blocks,
    causal,
    first,
    fixed,
    global_tokens,
    strided,
    window,
)
from attnlib.exercises.answers import numbers, short
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.verdict import right, unreadable, wrong

# ------------------------------------------------------------- a rule for a picture

_COLUMNS = fixed(5) & ~blocks(5)
_PICTURED = causal & (window(3) | first(2) | _COLUMNS)


def picture(n=15):
    """The mask that the exercise shows."""
    return _PICTURED.mask(n)


# Rules that come near, the mistake, and what is to be said. The first that is the same mask is told.
_NEAR = (
    (causal & window(3) | first(2) | _COLUMNS, "parentheses",
     "& goes before |, so the first columns and the later ones are no longer causal. Which queries see "
     "ahead?"),
    (causal & (window(3) | first(2)) | _COLUMNS, "parentheses",
     "The columns stand outside of the parentheses, so a query sees the columns of later blocks."),
    (causal & window(3) | first(2), "parentheses",
     "& goes before |, so the first queries see key 1, which comes after one of them. And look at the "
     "columns of the picture."),
    (window(3) | first(2) | _COLUMNS, "not_causal",
     "Nothing hides the future. What stands above the diagonal of the picture?"),
    (causal & (window(3) | first(2) | fixed(5)), "own_block",
     "fixed(5) has the whole own block besides the columns. In the picture a query near the end of its block "
     "does not see the beginning of it."),
    (causal & (window(3) | first(2) | fixed(5) & blocks(5)), "own_block",
     "That is the own block and no column. The picture has columns of earlier blocks."),
    (causal & (window(3) | first(2) | strided(5)), "strided",
     "strided(5) counts back from the query, so its keys move along with it. In the picture the same keys "
     "are seen from every query below: columns."),
    (causal & (window(3) | first(2)), "no_columns",
     "The window and the first two keys are right. Two more columns are blue farther down."),
    (causal & (window(3) | _COLUMNS), "no_first",
     "The first two keys are seen from everywhere too."),
    (causal & (first(2) | _COLUMNS), "no_window", "And the keys next to the diagonal?"),
    (causal & (window(3) | first(1) | _COLUMNS), "first_off",
     "Count the columns at the left edge."),
    (causal & (window(3) | first(3) | _COLUMNS), "first_off",
     "Count the columns at the left edge."),
    (causal & (window(2) | first(2) | _COLUMNS), "window_off",
     "window(n) counts the query's own key. How many keys next to the diagonal are blue, itself among them?"),
    (causal & (window(4) | first(2) | _COLUMNS), "window_off",
     "window(n) counts the query's own key. How many keys next to the diagonal are blue, itself among them?"),
    (causal & (window(3) | first(2) | fixed(5, 1, 1) & ~blocks(5)), "column_off",
     "The columns stand one place too far left. Which keys are they in the picture?"),
    (causal & (window(3) | first(2) | fixed(5, 2) & ~blocks(5)), "column_off",
     "That is two columns a block. The picture has one."),
    (causal & (window(3) | first(2) | fixed(4) & ~blocks(4)), "block_off",
     "How far apart are the columns?"),
    (causal & (window(3) | first(2) | fixed(6) & ~blocks(6)), "block_off",
     "How far apart are the columns?"),
    (causal & (window(3) | first(2) | global_tokens([4, 9, 14])), "global_rows",
     "A global token also sees everything: a row, beside its column. And a longer text has more columns than "
     "the picture shows."),
    (causal & (window(3) | first(2) | global_tokens([4, 9])), "global_rows",
     "A global token also sees everything: a row, beside its column. And a longer text has more columns than "
     "the picture shows."),
    (causal & window(3) & first(2), "and_for_or",
     "With & a key must be in the window and among the first. Either is enough: |."),
    (~_PICTURED, "inverted", "It is the picture's negative: blue means that a query may attend."),
)  # fmt: skip


def sparse_picture(answer):
    """A pattern whose mask is the picture's, at this length and at others."""
    if isinstance(answer, np.ndarray) or hasattr(answer, "detach"):
        return unreadable("Give the rule, not its mask: the rule has to serve texts of any length.")
    if callable(answer) and not isinstance(answer, Pattern):
        return unreadable(
            f"Give a pattern, made of causal, window(...) and the like; got {short(answer)}. A call is "
            "missing, or it is a function of your own: Pattern('mine', lambda i, j: ...) makes a pattern of "
            "it."
        )
    if not isinstance(answer, Pattern):
        return unreadable(f"Give a pattern, made of causal, window(...) and the like; got {short(answer)}.")
    here, there = np.arange(15), np.arange(15, 64)
    try:
        given = {name: np.asarray(answer(i[:, None], j)) for name, i, j in (
            ("pictured", here, here), ("longer", there, np.arange(64)))}  # fmt: skip
    except Exception as error:
        return wrong(f"Asked about positions, your pattern raised {type(error).__name__}: {error}", "raises")
    if given["pictured"].shape != (15, 15):
        return wrong("Your pattern has an axis of heads. The picture is one mask, the same for all.", "heads")
    wanted = {"pictured": _PICTURED(here[:, None], here), "longer": _PICTURED(there[:, None], np.arange(64))}
    if all(np.array_equal(given[name], wanted[name]) for name in given):
        return right(
            f"{answer}: the picture, and a text of 64 tokens too. A column that everyone sees is a rule of "
            "the key alone, a band is one of the distance, and the future goes outside of the parentheses."
        )
    for rule, name, hint in _NEAR:
        if np.array_equal(rule(here[:, None], here), given["pictured"]):
            if not np.array_equal(given["pictured"], wanted["pictured"]):
                return wrong(f"{answer}: {hint}", name)
    differs = np.argwhere(given["pictured"] != wanted["pictured"])
    ahead = np.argwhere(given["pictured"] & (here > here[:, None]))
    if len(ahead):
        i, j = ahead[0]
        return wrong(
            f"{answer}: query {i} sees key {j}, which comes after it. & goes before |: what do your "
            f"parentheses hold, and what stands in front of them? In all {len(differs)} entries differ.",
            "not_causal")
    if not len(differs):
        i, j = np.argwhere(given["longer"] != wanted["longer"])[0]
        return wrong(
            f"It is the picture, and it does not go on: in a longer text query {i + 15} must "
            f"{'see' if wanted['longer'][i, j] else 'not see'} key {j}. How do the columns go on?",
            "picture_alone")
    i, j = differs[0]
    seen = wanted["pictured"][i, j]
    return wrong(
        f"{len(differs)} of 225 entries differ. In the picture query {i} "
        f"{'sees' if seen else 'does not see'} key {j}; by your rule it {'does not' if seen else 'does'}.")


# ------------------------------------------------------------- how many layers

_REACH = (
    ("a", 10, {
        8: "30 places in steps of 4: but a window of 4 goes back by 3, the fourth key is the own one.",
        7: "30 places in steps of 4: but a window of 4 goes back by 3, the fourth key is the own one. And a "
           "part of a step needs a layer too.",
        11: "31 tokens are 30 steps apart.",
        30: "That is one place a layer, a window of 2.",
        1: "One layer goes back by three places.",
    }, "By how many places does a layer with window(4) go back?"),
    ("b", 5, {
        4: "Dilated by 1, 2, 4 and 8 they go back by 15 places together.",
        30: "One place a layer is what window(2) does. Dilated by r it goes back by r.",
        15: "Add up the reaches: the layers are dilated by 1, 2, 4, 8 and so on.",
        6: "Add the reaches, 1 + 2 + 4 + 8 + ...: when are there 30?",
    }, "window(2) dilated by r goes back by r places. Add up 1, 2, 4, 8 ..."),
    ("c", 1, {
        10: "That is the window alone. first(1) shows token 0 to every query.",
        2: "first(1) is in the pattern of every layer, and token 30 sees token 0 itself.",
        0: "first(1) shows token 0 to every query, token 30 among them.",
    }, "What does first(1) show, and to whom?"),
    ("d", 0, {
        6: "31 places in steps of 6 would be a little more than 5: does any number of steps give 31?",
        5: "Five steps of 6 are 30 places. Token 31 is 31 places away.",
        1: "A stride of 6 sees 6, 12, 18 ... places back. 31 is none of them.",
        2: "With a window beside it two layers would do. Alone the stride only ever makes steps of a "
           "multiple "
           "of 6.",
    }, "Which distances can be sums of multiples of 6?"),
)  # fmt: skip


def sparse_reach(answer):
    """Four numbers of layers."""
    return _counted(answer, _REACH, "reach", (
        "Windows add their reach, growing rates nearly double it, a first token is one step away from "
        "everyone, and a stride alone never leaves its own residue."))


def _counted(answer, parts, name, end):
    """The verdict on a number for each part: the first that is wrong is told what it would be right of."""
    given, complaint = numbers(answer, (len(parts),), "your answer")
    if complaint:
        return complaint
    rightly = sum(value == wanted for value, (_, wanted, *_) in zip(given, parts, strict=True))
    for value, (part, wanted, told, hint) in zip(given.tolist(), parts, strict=True):
        if value != wanted:
            said = told.get(value, f"Not {value:g}. {hint}")
            name = f"{name}_{part}_{value:g}" if value in told else f"{name}_{part}"
            slip = rightly == len(parts) - 1
            return wrong(f"{rightly} of {len(parts)}. ({part}) {said}", name, slip=slip)
    return right(end)


# ------------------------------------------------------------- who notices the last token

_FUTURE = (
    ("a", 1, {0: "The last token sees itself.", 8: "Nobody before the last one sees it."},
     "Which queries see the last key?"),
    ("b", 3, {
        1: "Without causal the window looks both ways.",
        2: "And the last token itself.",
        5: "In one layer: window(3) goes two places to each side.",
    }, "Which queries have the last key within two places?"),
    ("c", 5, {
        3: "That is one layer. Who reads, in the second, an output that has changed in the first?",
        6: "Each layer goes two places farther: the own one, two, two more.",
        8: "Two layers of two places each.",
    }, "In the second layer, who sees one of the outputs that the first has changed?"),
    ("d", 8, {
        3: "That is one layer: the neighbour, the last token itself, and token 0, which sees all.",
        4: "And whoever sees token 0 in the second layer?",
        1: "Token 0 sees the last token and is seen by all.",
        2: "Token 0 sees the last token, and in the second layer all see token 0.",
    }, "Token 0 has read the last token in the first layer. Who reads token 0 in the second?"),
    ("e", 8, {
        1: "No mask can hide the last token: each of the mixed keys has a part of it.",
        4: "Four mixed keys, and every query sees them all. How many queries are there?",
        0: "Every mixed key has changed, and every query sees them.",
        7: "The last token's own output too.",
    }, "What does a mixed key consist of, and who sees it?"),
)  # fmt: skip


def sparse_future(answer):
    """Five numbers of outputs that change with the last of eight tokens."""
    return _counted(answer, _FUTURE, "future", (
        "A mask answers for one layer, its powers for several; a global token makes everything two steps "
        "away. What is mixed before the scores are made, no mask takes apart again."))


# ------------------------------------------------------------- a key that hashing misses

_GAP = 0.9


def hash_miss(answer):
    """A query and two keys in the plane: the better one in another of the four buckets."""
    vectors, complaint = numbers(answer, (3, 2), "your answer")
    if complaint:
        return complaint
    lengths = np.linalg.norm(vectors, axis=1)
    if lengths[0] == 0:
        return wrong("A query of zeros scores 0 with every key and points nowhere.", "no_query")
    if np.abs(lengths[1:] - 1).max() > 1e-3:
        at = 1 + int(np.abs(lengths[1:] - 1).argmax())
        return wrong(
            f"Key {'AB'[at - 1]} has length {lengths[at]:.3g}. Reformer's keys are brought to one length, so "
            "a long key is no way out: its direction alone must decide.", "long_key")
    along = np.concatenate([vectors, -vectors], axis=1)
    top_two = np.sort(along, axis=1)[:, -2:]
    if (top_two[:, 1] - top_two[:, 0] < 1e-9).any():
        return wrong("One of the vectors lies on the border of two buckets. Move it off.", "on_the_border")
    query, a, b = along.argmax(1)
    cosines = vectors[1:] @ vectors[0] / (lengths[1:] * lengths[0])
    told = f"The buckets are {query}, {a} and {b}; the cosines {cosines[0]:.2f} and {cosines[1]:.2f}."
    if a == query and b != query and cosines[1] > cosines[0]:
        return wrong(f"{told} A and B are exchanged: A is the better key, which hashing misses.", "exchanged")
    if a == query:
        return wrong(f"{told} Hashing finds A. Where does the bucket of the query end?", "found")
    if b != query:
        return wrong(f"{told} B is not in the query's bucket, so hashing finds neither. How wide is a "
                     "bucket?", "both_missed")
    if cosines[0] <= cosines[1]:
        return wrong(f"{told} A is not the better key, so nothing was missed.", "not_better")
    if cosines[0] - cosines[1] < _GAP:
        return wrong(f"{told} A is missed, and the gap is {cosines[0] - cosines[1]:.2f}. It can be more than "
                     f"{_GAP}: where in its bucket is the query worst off?", "small_gap")
    return right(
        f"{told} At the border of its bucket a query has its nearest neighbours on the other side, and on "
        "its "
        "own side keys at nearly a right angle. Another round draws other borders."
    )


EXERCISES = (
    Exercise(
        "sparse_picture", "17", sparse_picture,
        (
            "Three things are blue below the diagonal: a band, some columns at the left edge, and columns "
            "farther on. Which is a rule of the distance, and which is one of the key alone?",
            "The band and the left edge are window(...) and first(...). The other columns are the last of "
            "each "
            "block: fixed(...) has them, and something else that the picture does not have.",
            "blocks(...) with ~ takes the own block out of fixed(...). Join the three with |, put them in "
            "parentheses, and causal & in front.",
        ),
        """
from attnlib import blocks, causal, first, fixed, window

answer = causal & (window(3) | first(2) | (fixed(5) & ~blocks(5)))
""",
        "construction",
    ),
    Exercise(
        "sparse_reach", "17", sparse_reach,
        (
            "For (a): by how many places does one layer go back? For (d): which distances are sums of "
            "multiples of 6?",
            "For (b) the reaches add up: 1, then 2, then 4. For (c) look at what first(1) shows to token 30.",
            "(a) 30 places in steps of 3. (b) 1 + 2 + 4 + 8 = 15 is not enough. (d) 31 is no multiple of 6.",
        ),
        """
answer = (30 // 3, 5, 1, 0)           # 1 + 2 + 4 + 8 + 16 = 31 places; 31 is no multiple of 6
""",
        "prediction",
    ),
    Exercise(
        "hash_miss", "17", hash_miss,
        (
            "Draw the four buckets: the plane is cut by its two diagonals. Which two directions are close to "
            "each other and in different buckets?",
            "Put the query close to a border. A lies just beyond it. Where in the query's bucket is the key "
            "that is worst for it?",
            "With the query at 44 degrees the border is at 45. A may be at 46; B at the other end of the "
            "query's bucket, near -45.",
        ),
        """
import numpy as np

angles = np.radians([44, 46, -44])    # the query, the key that is missed, one that is found
answer = np.stack([np.cos(angles), np.sin(angles)], axis=1)
""",
        "construction",
    ),
    Exercise(
        "sparse_future", "17", sparse_future,
        (
            "Write down for (b) which of the eight tokens lie within two places of the last one.",
            "For two layers: which outputs has the first layer changed, and who sees one of them in the "
            "second?",
            "(d) Token 0 reads the last token in the first layer, and all read token 0 in the second. (e) "
            "Every "
            "mixed key has a part of the last token.",
        ),
        """
answer = (1, 3, 5, 8, 8)
""",
        "prediction",
    ),
)  # fmt: skip

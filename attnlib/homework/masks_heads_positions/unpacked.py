"""Queries, keys and values of all heads out of one product: how they are packed, and where they go."""

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
    Convention("packed_by", {
        "kind": Option("The 3D numbers of a word are **first all queries, then all keys, then all values**, "
                       "D numbers each; in each of the three, first the d numbers of head 0, then those of "
                       "head 1, and so on.",
                       "You read all queries first, then all keys, then all values, head by head in each.",
                       "3, n_heads, -1"),
        "head": Option("The 3D numbers of a word are **first all of head 0, then all of head 1**, and so on, "
                       "3d numbers each; in each head, first its d numbers of the query, then of the key, "
                       "then of the value.",
                       "You read head after head, each with its query, key and value.",
                       "n_heads, 3, -1"),
        "feature": Option("The 3D numbers of a word are first all queries, then all keys, then all values, D "
                          "numbers each; in each of the three **the heads take turns**: feature 0 of every "
                          "head, then feature 1 of every head, and so on.",
                          "You let the heads take turns, feature by feature, in each of the three.",
                          "3, -1, n_heads"),
    }),
    Convention("lead", {
        "batch": Option("`packed` has shape `(B, L, 3D)`.",
                        "You take the first axis of packed for the batch.",
                        "n_sentences, length", "batch_before_places"),
        "time": Option("`packed` has shape **`(L, B, 3D)`**, the places first.",
                       "You take the first axis of packed for the places.", "length, n_sentences",
                       "places_before_batch"),
    }),
    Convention("heads_are", {
        "second": Option("Each result has shape `(B, H, L, d)`.", "You return the batch before the heads.",
                         "sentence, head", "batch_before_heads"),
        "first": Option("Each result has shape **`(H, B, L, d)`**, the heads first.",
                        "You return the heads before the batch.", "head, sentence", "heads_before_batch"),
    }),
)
CHOICES = values_of(*CONVENTIONS)
LESSON = {"packed_by": "kind", "lead": "batch", "heads_are": "second"}
SAMPLE = {"packed_by": "head", "lead": "batch", "heads_are": "second"}

TEXT = """\
A layer has computed the queries, keys and values of all its heads in one product. Write
`unpacked(packed, n_heads)`, which takes it apart and returns three arrays: queries, keys, values.

{lead} It holds L words of B sentences, H = `n_heads` heads, each d wide, and D = H · d.
{packed_by}
{heads_are} Entry f of its last axis is feature f of that head.

`packed` is a NumPy array of floats and may not be contiguous; do not change it in place, and
use NumPy alone."""

STUB = """\
def unpacked(packed, n_heads):
    \"\"\"Queries, keys and values, each {shape}.\"\"\""""

# Axes: 0 and 1 as they come, then the three that the last one is cut into.
SOLUTION = """\
    parts = packed.reshape(*packed.shape[:2], <packed_by>)
    parts = parts.transpose({order})    # (3, {axes})
    return parts[0], parts[1], parts[2]"""


def _order(choice):
    """The axes of (first, second, and three parts) in the order (kind, sentence or head, ..., place, d)."""
    kind, head, feature = {"kind": (2, 3, 4), "head": (3, 2, 4), "feature": (2, 4, 3)}[choice["packed_by"]]
    sentence, place = (0, 1) if choice["lead"] == "batch" else (1, 0)
    front = (sentence, head) if choice["heads_are"] == "second" else (head, sentence)
    return (kind, *front, place, feature)


_LETTERS = {"kind": "khf", "head": "hkf", "feature": "kfh"}


def compute(packed, n_heads, *, packed_by="kind", lead="batch", heads_are="second", letters=None, out=None,
            roles=(0, 1, 2), by_view=False, width_for_number=False, joined=False):  # fmt: skip
    n = packed.shape[2] // 3 // n_heads
    sizes = {"k": 3, "h": n_heads, "f": n}
    if width_for_number:
        sizes = {"k": 3, "h": n, "f": n_heads}
    letters = letters or _LETTERS[packed_by]
    shape = (*packed.shape[:2], *(sizes[letter] for letter in letters))
    axes = ("bl" if lead == "batch" else "lb") + letters
    out = out or ("bhlf" if heads_are == "second" else "hblf")
    if by_view:
        all_sizes = sizes | {"b": packed.shape["bl".index("b") if lead == "batch" else 1],
                             "l": packed.shape[1 if lead == "batch" else 0]}
        third = [np.moveaxis(packed.reshape(shape), 2 + letters.index("k"), 0)[i] for i in range(3)]
        if by_view == "all":
            third = packed.reshape(3, -1)
        parts = [part.reshape([all_sizes[letter] for letter in out]) for part in third]
    else:
        parts = packed.reshape(shape).transpose([axes.index(letter) for letter in "k" + out])
    parts = tuple(parts[i] for i in roles)
    return np.stack(parts) if joined else parts


def cases(rng, choice):
    def made(b, length, heads, d):
        shape = (b, length) if choice["lead"] == "batch" else (length, b)
        return rng.normal(size=(*shape, 3 * heads * d)), heads

    turned, heads = made(2, 3, 2, 5)
    return [
        Case("2 sentences of 5 words, 3 heads of width 4", made(2, 5, 3, 4),
             hint="Cut the last axis into three, in the order in which the numbers lie, and write down what "
                  "each axis is."),
        Case("as many heads as features in each", made(2, 4, 3, 3)),
        Case("a single head", made(3, 2, 1, 4)),
        Case("one sentence of one word", made(1, 1, 2, 3)),
        Case("heads of width 1", made(2, 3, 4, 1)),
        Case("as many sentences as words and as heads", made(3, 3, 3, 2)),
        Case("three heads of width 3, with 9 words", made(2, 9, 3, 3)),
        Case("an array that is not contiguous", (np.asfortranarray(turned), heads)),
    ]  # fmt: skip


MISTAKES = (
    Mistake("cut_from_memory", "You cut queries, keys and values into the shape of the result at once. The "
            "heads come to lie in front, and no number has moved: they must change places with the words, "
            "which takes a transpose.", {"by_view": "parts"}),
    Mistake("three_from_memory", "You cut the whole array into three along its memory. The three kinds lie "
            "side by side in each word, along the last axis.", {"by_view": "all"}),
    Mistake("heads_behind_places", "Your heads come after the places, as (B, L, H, d). Attention works on "
            "the last two axes, and these must be places and features.", {"out": "blhf"}),
    Mistake("heads_behind_places", "Your heads come after the places, as (L, B, H, d). Attention works on "
            "the last two axes, and these must be places and features.", {"out": "lbhf"}),
    Mistake("features_before_places", "Your last two axes are features and places. Places come first.",
            {"out": "bhfl"}),
    Mistake("features_before_places", "Your last two axes are features and places. Places come first.",
            {"out": "hbfl"}),
    Mistake("keys_first", "You return keys where the queries belong.", {"roles": (1, 0, 2)}),
    Mistake("values_before_keys", "You return values before keys.", {"roles": (0, 2, 1)}),
    Mistake("values_first", "You return values first. Queries, keys, values is the order.",
            {"roles": (2, 1, 0)}),
    Mistake("queries_alone", "Your three results are all the queries.", {"roles": (0, 0, 0)}),
    Mistake("kinds_take_turns", "You let query, key and value take turns number by number. Look again at "
            "what lies next to what.", {"letters": "hfk"}),
    Mistake("width_for_number", "You take n_heads for the width of a head. It is their number.",
            {"width_for_number": True}),
)  # fmt: skip


def first_wrong(case, value, expected):
    """A property: where the first number of one result that is wrong belongs."""
    for name, got, wanted in zip(("queries", "keys", "values"), value, expected, strict=True):
        got = np.asarray(got)
        if got.shape != wanted.shape:
            return None
        if not np.allclose(got, wanted):
            if np.allclose(np.sort(got, axis=None), np.sort(wanted, axis=None)):
                return f"Your {name} hold the right numbers in the wrong order:"
            return f"Your {name} hold numbers that are not {name}:"
    return None


def question(choice):
    shape = "(B, H, L, d)" if choice["heads_are"] == "second" else "(H, B, L, d)"
    order = ", ".join(map(str, _order(choice)))
    return Question(
        id="unpacked", title="Three in one",
        kind="function", name="unpacked", points=3, part=1, minutes=10,
        text=TEXT.format(**said(CONVENTIONS, choice)),
        stub=STUB.format(shape=shape),
        solution=filled(SOLUTION.format(order=order, axes=shape[1:-1]), CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, MISTAKES, cases,
            "Every number has come to its head, its word and its feature, whatever the sizes, and however "
            "the array lies in memory.", visible=4, properties=(first_wrong,),
        ),
        forbids=("split_heads",),
    )  # fmt: skip

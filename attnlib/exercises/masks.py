"""The masks of lesson 08: causal, of a window, of padding, and two of them joined."""

import numpy as np

from attnlib.exercises.calls import is_tensor
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake


def _positions(n_query, n_key):
    return np.arange(n_query)[:, None], np.arange(n_key)[None, :]


def _in_form(mask, form):
    """A boolean mask as one of the other kinds of mask."""
    if form == "numbers":
        return mask.astype(int)
    if form in ("-inf", "-1e9"):
        return np.where(mask, 0.0, float(form))
    return mask


def _causal_mask(
    n_query, n_key, *, align="end", diagonal=0, hides=False, turned=False, form="bool", size="both", more=None
):
    if size == "queries":
        n_key = n_query
    elif size == "keys":
        n_query = n_key
    elif size == "swapped":
        n_query, n_key = n_key, n_query
    i, j = _positions(n_query, n_key)
    gap = n_key - n_query
    offset = {"end": gap, "start": 0, "backwards": -gap, "at least 0": max(gap, 0)}[align]
    mask = j >= i + offset - diagonal if turned else j <= i + offset + diagonal
    if more == "all":
        mask = mask | ~mask.any(-1, keepdims=True)
    elif more == "first":
        mask = mask | (j == 0)
    elif more == "axes":
        mask = mask[None, None]
    elif more == "T":
        mask = mask.T
    return _in_form(~mask if hides else mask, form)


def _window_mask(n, window, *, before=None, after=0, own=True, causal=True, hides=False, turned=False,
                 form="bool", blocks=False):  # fmt: skip
    i, j = _positions(n, n)
    i, j = (j, i) if turned else (i, j)
    if before == "half":
        reach = after = window // 2
    else:
        reach = {None: window - 1, "more": window, "less": window - 2, "no end": n}[before]
    after = reach if after == "same" else after
    mask = (i - j <= reach) & (j - i <= (after if causal else n))
    if blocks:
        mask = (i // window == j // window) & (j <= i)
    if not own:
        mask = mask & (i != j)
    return _in_form(~mask if hides else mask, form)


def _real(tokens, pad_id, found):
    """Which tokens are real, found one way or another."""
    if found == "zero":
        return tokens != 0
    if found == "one":
        return tokens != 1
    if found == "larger":
        return tokens > pad_id
    if found == "positive":
        return tokens > 0
    real = tokens != pad_id
    if found == "counted":
        return np.arange(tokens.shape[1]) < real.sum(-1, keepdims=True)
    if found == "until the first":
        return np.logical_and.accumulate(real, -1)
    if found == "until the last":
        return np.logical_or.accumulate(real[:, ::-1], -1)[:, ::-1]
    if found == "nowhere":
        return np.ones_like(real)
    return real


def _padding_mask(
    tokens, pad_id=0, *, found="pad_id", hides=False, axes="keys", form="bool", opened=False
):  # fmt: skip
    real = _real(tokens, pad_id, found)
    if opened:
        real = real | ~real.any(-1, keepdims=True)
    mask = {
        "keys": real[:, None, None, :],
        "queries": real[:, None, :, None],
        "both": real[:, None, :, None] & real[:, None, None, :],
        "two": real,
        "three": real[:, None, :],
        "in front": real[None, None],
        "repeated": np.repeat(real[:, None, None, :], tokens.shape[1], -2),
    }[axes]
    return _in_form(~mask if hides else mask, form)


def _combined_mask(
    tokens, pad_id=0, *, found="pad_id", axes="keys", future="lower", pads_hide=False, future_hides=False,
    join="and", hides=False, form="bool", shape="four", own=False, opened=None,
):  # fmt: skip
    real = _real(tokens, pad_id, found)
    n = tokens.shape[1]
    i, j = _positions(n, n)
    seen = {
        "lower": j <= i, "strict": j < i, "ahead": j <= i + 1, "upper": j >= i, "all": i == i + 0 * j,
    }[future]  # fmt: skip
    pads = {
        "keys": real[:, None, None, :], "queries": real[:, None, :, None],
        "both": real[:, None, None, :] & real[:, None, :, None],
    }[axes]  # fmt: skip
    pads, seen = ~pads if pads_hide else pads, ~seen if future_hides else seen
    mask = pads | seen if join == "or" else pads & seen
    if own:
        mask = mask | (i == j)
    if opened:
        mask = mask | ~mask.any(-1, keepdims=True) & {"all": True, "own": i == j, "causal": j <= i}[opened]
    mask = _in_form(~mask if hides else mask, form)
    if form == "two of -1e9":
        mask = np.where(pads, 0, -1e9) + np.where(seen, 0, -1e9)
    return {"four": mask, "three": mask[:, 0], "two": mask[0, 0], "keys": mask[:, :, -1:]}[shape]


_NOT_THE_TYPE = {
    True: "they come as a torch tensor. Return a NumPy array; .numpy() makes one.",
    False: "they come as Python objects. Give the array dtype=bool.",
}


def _booleans(value):
    """A result that holds nothing but booleans as an array of them, whatever its type; else None."""
    if is_tensor(value):
        return value.detach().cpu().numpy() if "bool" in str(value.dtype) else None
    value = np.asarray(value)
    if value.dtype == object and value.size and all(isinstance(x, (bool, np.bool_)) for x in value.flat):
        return value.astype(bool)
    return value if value.dtype == bool else None


def _different_entry(case, value, expected):
    """Say in words which link of a mask is wrong."""
    array = _booleans(value)
    if array is None:
        return None
    if np.array_equal(array, expected):
        return f"The entries are right; only {_NOT_THE_TYPE[is_tensor(value)]}"
    if is_tensor(value):
        return None
    value, expected = array, np.asarray(expected)
    *_, i, j = (int(n) for n in np.argwhere(value != expected)[0])
    many = f"In all, {int((value != expected).sum())} of {value.size} entries differ."
    if bool(expected[tuple(np.argwhere(value != expected)[0])]):
        return f"Query {i} may see key {j}, and your mask hides it. {many}"
    return f"Query {i} must not see key {j}, and your mask shows it. {many}"


_BOOLEAN = (
    "the exercise asks for booleans, so that masks can be joined with & and | and turned round with ~. "
    "Numbers come later, where the scores are."
)
_FORMS = (
    Mistake("numbers", f"You return zeros and ones; {_BOOLEAN}", {"form": "numbers"}),
    Mistake(
        "additive", f"You return a mask to be added to scores, 0 and -inf; {_BOOLEAN}",
        {"form": "-inf"}, convention=True,
    ),
    Mistake(
        "additive_finite", f"You return a mask to be added to scores, 0 and -1e9; {_BOOLEAN}",
        {"form": "-1e9"}, convention=True,
    ),
)  # fmt: skip
_HIDES = Mistake(
    "polarity",
    "Your mask is True where a key is hidden, as nn.MultiheadAttention reads it. Here True means: may "
    "attend.",
    {"hides": True},
    convention=True,
)

causal_mask = FunctionExercise(
    _causal_mask,
    lambda: [
        Case("3 queries and 5 keys", (3, 5)),
        Case("4 queries and 4 keys", (4, 4)),
        Case("1 query and 5 keys", (1, 5), hint="One new token and a cache: it sees all that came before."),
        Case("5 queries and 2 keys", (5, 2), hint="The last query sees all keys; the first ones see none."),
        Case("2 queries and 7 keys", (2, 7)),
        Case("1 query and 1 key", (1, 1)),
    ],
    (
        _HIDES,
        Mistake(
            "start",
            "You align the first query with the first key, as torch's is_causal does. Here the last query is "
            "aligned with the last key. Square masks are the same either way.",
            {"align": "start"},
            convention=True,
        ),
        Mistake(
            "strict",
            "Your queries do not see themselves: the diagonal is hidden. In the square case the first query "
            "would have nothing to attend to.",
            {"diagonal": -1},
        ),
        Mistake(
            "one_ahead",
            "Each of your queries sees one key too many, the next one, which is the answer it is to predict.",
            {"diagonal": 1},
        ),
        Mistake(
            "transposed",
            "Your queries see themselves and what comes after them: the triangle lies on the wrong side. "
            "Rows are queries, columns are keys.",
            {"turned": True},
        ),
        Mistake(
            "offset_sign",
            "You shift the diagonal by the difference of the lengths, to the wrong side. Where does the last "
            "query's last visible key stand?",
            {"align": "backwards"},
        ),
        Mistake(
            "offset_clamped",
            "With more queries than keys you begin at the first key. The ends stay aligned all the same, and "
            "then the first queries come before every key and see none.",
            {"align": "at least 0"},
        ),
        Mistake(
            "empty_rows_opened",
            "You let a query that has nothing to see look at everything. Then it looks at its future. Such "
            "rows stay False; what attention makes of them is attention's business.",
            {"more": "all"},
        ),
        Mistake("first_key_opened", "Your first key is visible to all, perhaps so that no row is empty. A "
                "query that comes before it must not see it.", {"more": "first"}),
        Mistake("keys_down", "Your rows are keys and your columns are queries. Queries go down, keys across.",
                {"more": "T"}),
        Mistake("square_of_queries", "Your mask is square, with a column for each query instead of each key.",
                {"size": "queries"}),
        Mistake("square_of_keys", "Your mask is square, with a row for each key instead of each query.",
                {"size": "keys"}),
        Mistake("swapped_sizes", "Your mask has a row for each key and a column for each query: the two are "
                "swapped.", {"size": "swapped"}),
        Mistake("extra_axes", "Your mask has two axes more than asked for. They come by themselves when it "
                "is broadcast.", {"more": "axes"}),
        *_FORMS,
    ),  # fmt: skip
    "Checked with fewer queries than keys, as many, and more, down to one of each. Query i sees the keys up "
    "to its own place, counted from the end, and no other.",
    (_different_entry,),
)

window_mask = FunctionExercise(
    _window_mask,
    lambda: [
        Case("7 tokens and a window of 3", (7, 3)),
        Case("6 tokens and a window of 4", (6, 4)),
        Case("5 tokens and a window of 1", (5, 1), hint="A window of 1 is the token itself."),
        Case("4 tokens and a window of 9", (4, 9), hint="A window wider than the text is the causal mask."),
        Case("6 tokens and a window of 2", (6, 2)),
        Case("1 token and a window of 1", (1, 1)),
    ],
    (
        _HIDES,
        Mistake(
            "own_not_counted",
            "Your window holds the token itself and `window` tokens before it, as FlashAttention's does. "
            "Here the token itself is one of the `window`.",
            {"before": "more"},
            convention=True,
        ),
        Mistake("one_too_few", "Your window holds one key too few.", {"before": "less"}),
        Mistake(
            "both_sides",
            "Your window reaches as far into the future as into the past. This one is causal: nothing after "
            "the token itself.",
            {"after": "same"},
            convention=True,
        ),
        Mistake(
            "half_each_side",
            "You put half of the window on each side, as Longformer does. This one lies in the past, and "
            "counts the token itself.",
            {"before": "half"},
            convention=True,
        ),
        Mistake("future_open", "Your window has an edge in the past and none in the future: later keys are "
                "visible.", {"causal": False}),
        Mistake("no_window", "Your mask is causal, and the window has no effect: the oldest keys are still "
                "visible.", {"before": "no end"}),
        Mistake("own_hidden", "Your tokens do not see themselves.", {"own": False}),
        Mistake("transposed", "Your window looks forward: the token and those after it. Rows are queries, "
                "columns are keys.", {"turned": True}),
        Mistake("blocks", "You cut the text into blocks. The first token of a block then sees only itself; a "
                "window slides.", {"blocks": True}),
        *_FORMS,
    ),  # fmt: skip
    "Checked with windows of one token, of a few, and wider than the text. Each token sees itself and the "
    "window - 1 before it.",
    (_different_entry,),
)

_PADS = (
    Mistake(
        "pad_id_fixed",
        "You compare with 0 whatever pad_id says. Where the padding has another id, it stays visible and a "
        "real token with id 0 is hidden.",
        {"found": "zero"},
    ),
    Mistake("pad_id_one", "You compare with 1, the padding of some tokenizers, instead of with pad_id.",
            {"found": "one"}),
    Mistake("ids_above", "You take every id above pad_id for real. Real ids may lie below it.",
            {"found": "larger"}),
    Mistake("ids_positive", "You take every positive id for real. The ids may be any integers, and so may "
            "pad_id.", {"found": "positive"}),
    Mistake(
        "counted",
        "You count the real tokens and show that many places from the left. That is right for padding on the "
        "right alone.",
        {"found": "counted"},
    ),
    Mistake("until_first", "You hide everything from the first padding on. With padding on the left that is "
            "the whole sentence.", {"found": "until the first"}),
    Mistake("until_last", "You hide only the padding behind the last real token. Padding may stand on the "
            "left as well.", {"found": "until the last"}),
)  # fmt: skip


def _token_cases():
    right_padded = np.array([[5, 3, 8, 2, 0], [7, 4, 0, 0, 0], [6, 9, 1, 0, 0]])
    return [
        Case("padding on the right, pad_id left out", (right_padded,)),
        Case("pad_id 9 and real tokens with ids 0, 1 and 12",
             (np.array([[0, 12, 9, 9], [1, 0, 5, 9]]), 9), hint="The padding is what equals pad_id."),
        Case("padding on the left", (np.array([[0, 0, 5, 3, 8, 2], [0, 7, 4, 1, 1, 3]]), 0)),
        Case("padding on either side and a row of nothing else",
             (np.array([[3, 6, 4], [3, 3, 3], [5, 2, 3], [1, 4, 4]]), 3)),
        Case("pad_id -1 and ids of either sign", (np.array([[-5, 0, 3, -1], [-1, -7, 2, 4]], np.int32), -1)),
        Case("as many sentences as tokens", (np.array([[4, 0, 0], [2, 7, 0], [6, 1, 5]]), 0)),
        Case("one token", (np.array([[8]]), 0)),
    ]  # fmt: skip


padding_mask = FunctionExercise(
    _padding_mask,
    _token_cases,
    (
        Mistake(
            "polarity",
            "Your mask is True where there is padding, as key_padding_mask of nn.MultiheadAttention is. Here "
            "True means: may attend.",
            {"hides": True},
            convention=True,
        ),
        *_PADS,
        Mistake("over_queries", "Your mask hides the padding as queries. It must not be seen: it belongs on "
                "the axis of the keys, the last one.", {"axes": "queries"}),
        Mistake("queries_too", "Your mask also empties the rows of padded queries. Those rows are thrown "
                "away later; the mask is about keys.", {"axes": "both"}),
        Mistake("empty_rows_opened", "You show the padding of a sentence that has nothing else. Its row "
                "stays False; what attention makes of it is attention's business.", {"opened": True}),
        Mistake(
            "two_axes",
            "Your mask has shape (B, L). Against scores of shape (B, H, L, L) NumPy would read it as "
            "(queries, keys), and say nothing when B equals L.",
            {"axes": "two"},
        ),
        Mistake("three_axes", "Your mask has shape (B, 1, L). Against scores with heads its B stands where "
                "the heads are.", {"axes": "three"}),
        Mistake("axes_in_front", "Your two new axes stand in front, so that B lies where the queries are. "
                "They belong between B and L.", {"axes": "in front"}),
        Mistake("repeated", "You write the mask out for every query. An axis of length 1 does that without "
                "the memory.", {"axes": "repeated"}),
        *_FORMS,
    ),  # fmt: skip
    "Checked with padding on the right, on the left, on both sides and everywhere, with ids and pad_id of "
    "either sign, and with as many sentences as tokens. The two axes of length 1 stand for heads and "
    "queries.",
    (_different_entry,),
)

combined_mask = FunctionExercise(
    _combined_mask,
    _token_cases,
    (
        _HIDES,
        Mistake(
            "pads_inverted",
            "The causal half is right and the padding half is inverted: your mask shows padding and hides "
            "real tokens. Turn one of the two round before you join them.",
            {"pads_hide": True},
        ),
        Mistake(
            "future_inverted",
            "The padding half is right and the causal half is inverted: your mask shows the future and hides "
            "the past. Turn one of the two round before you join them.",
            {"future_hides": True},
        ),
        Mistake("joined_by_or", "You let a key be seen when it is real or not in the future. It must be "
                "both.",
                {"join": "or"}),
        Mistake("no_causal", "The padding is hidden and the future is not.", {"future": "all"}),
        Mistake("padding_mask_alone", "Your mask has one row for all queries, so it cannot be causal: each "
                "query needs its own.", {"future": "all", "shape": "keys"}),
        Mistake("causal_mask_alone", "Your mask is causal and the same for every sentence. It needs the "
                "padding of each.", {"found": "nowhere", "shape": "two"}),
        Mistake("no_padding", "The future is hidden and the padding is not.", {"found": "nowhere"}),
        Mistake("strict", "Your queries do not see themselves: the diagonal is "
                "hidden.", {"future": "strict"}),
        Mistake("one_ahead", "Each of your queries also sees the next token, which it is to predict.",
                {"future": "ahead"}),
        Mistake("transposed", "Your queries see themselves and what comes after: the triangle lies on the "
                "wrong side.", {"future": "upper"}),
        *_PADS,
        Mistake("over_queries", "You hide the padding as queries, by rows. It must be hidden as keys, by "
                "columns; otherwise every real query that comes after it looks at it.", {"axes": "queries"}),
        Mistake("queries_too", "You also empty the rows of padded queries. The exercise does not treat them "
                "specially: their outputs are thrown away later.", {"axes": "both"}),
        Mistake("own_shown", "You let every token see itself, padding too. The exercise does not: a padded "
                "key is hidden from all.", {"own": True}),
        *(
            Mistake(
                "empty_rows_opened",
                "You let a query that has nothing to see look at something, and all that it can look at is "
                "padding or future. Such rows stay False; what attention makes of them is attention's "
                "business.",
                {"opened": to},
            )
            for to in ("all", "own", "causal")
        ),
        Mistake("three_axes", "Your mask has shape (B, L, L). Without the axis for heads, B would lie where "
                "the heads are.", {"shape": "three"}),
        Mistake("additive_twice", "You add two masks of -1e9. Where both hide, that makes -2e9, and with the "
                "lowest number of a type the sum is -inf. Join booleans first.", {"form": "two of -1e9"}),
        *_FORMS,
    ),  # fmt: skip
    "Checked with padding on the right, on the left, on both sides and everywhere, with ids and pad_id of "
    "either sign. A key is seen when it is real and not in the future. On the left, padding leaves the first "
    "rows empty: attention must be ready for them.",
    (_different_entry,),
)

EXERCISES = (
    Exercise("causal_mask", "08", causal_mask, (), "", "function"),
    Exercise("window_mask", "08", window_mask, (), "", "function"),
    Exercise("padding_mask", "08", padding_mask, (), "", "function"),
    Exercise("combined_mask", "08", combined_mask, (), "", "function"),
)

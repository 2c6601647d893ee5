"""The exercises of lesson 08: masks, attention under a mask, and a detector of leaks from the future."""

import numpy as np

from attnlib.core.scaled_dot_product import attention as core_attention
from attnlib.core.softmaxes import softmax
from attnlib.exercises.answers import as_floats, numbers, short, uses_the_package
from attnlib.exercises.calls import call, is_tensor
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, unanswered, wrong

# Masks


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


# Attention under a mask


def _number(fill, lowest):
    return lowest if fill == "lowest" else float(fill)


def _attention(
    q, k, v, mask=None, *, scale="width", axis=-1, hides=False, fill="-inf", clean=False, empty="zero",
    top="row", average="values", order="output first", whole="floats", turn="last two", share=True,
):  # fmt: skip
    kind, width, values = q.dtype, q.shape[-1], v.shape[-1]
    q, k, v = (x.astype(float) for x in (q, k, v))
    scores = q @ (k.T if turn == "all" else np.swapaxes(k, -1, -2))
    scores = scores * {
        "width": width**-0.5, "none": 1, "linear": 1 / width, "times": width**0.5, "values": values**-0.5,
        "keys": k.shape[-2] ** -0.5, "queries": q.shape[-2] ** -0.5, "second": q.shape[1] ** -0.5,
        "first": q.shape[0] ** -0.5, "after": 1,
    }[scale]  # fmt: skip
    visible = np.ones(scores.shape, bool) if mask is None or fill == "ignored" else mask != hides
    if empty == "opened":
        visible = visible | ~visible.any(-1, keepdims=True)
    if fill in ("after", "raw"):
        masked = scores
    elif fill == "add":
        masked = scores + np.where(visible, 0, -1e9)
    elif fill == "plus":
        masked = scores + (0 if mask is None else visible)
    else:
        masked = np.where(visible, scores, _number({"ignored": "0"}.get(fill, fill), np.finfo(float).min))
    if top == "clipped":
        masked = np.where(np.isinf(masked), masked, np.clip(masked, -50, 50))
    if top in ("none", "clipped"):
        shift = 0
    else:
        shift = masked.max() if top == "all" else masked.max(axis, keepdims=True)
        shift = np.where(np.isfinite(shift), shift, 0)
    e = np.exp(masked - shift)
    if fill == "raw":
        e = e * visible
    total = e.sum(axis, keepdims=True) if share else np.ones_like(e[..., :1])
    weights = e / (total if empty == "nan" else np.where(total == 0, 1, total))
    if scale == "after":
        weights = weights / width**0.5
    if fill == "after" or clean:
        weights = np.where(visible, weights, 0)
    out = (scores if average == "scores" else weights) @ (k if average == "keys" else v)
    if kind == np.float16:  # says that half precision is good enough
        out, weights = out.astype(kind), weights.astype(kind)
    if whole == "cut off" and kind.kind in "iu":
        out, weights = np.trunc(out), np.trunc(weights)
    if order == "scores":
        return out, scores
    return (weights, out) if order == "weights first" else (out, weights)


def _attention_cases():
    rng = np.random.default_rng(80)

    def qkv(*lead, n_query=3, n_key=5, width=4, values=2, size=1.0):
        shapes = (*lead, n_query, width), (*lead, n_key, width), (*lead, n_key, values)
        return tuple(rng.normal(size=shape) * s for shape, s in zip(shapes, (size, size, 1), strict=True))

    some = np.array([[1, 1, 0, 1, 0], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
    pads = np.array([[1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0]], bool)
    empty = np.array([[1, 0, 1, 1, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1]], bool)
    whole = tuple(rng.integers(-3, 4, size=s) for s in ((3, 4), (5, 4), (5, 2)))
    large = tuple(rng.integers(-30, 31, size=s).astype(float) for s in ((3, 4), (5, 4), (5, 2)))
    half = tuple(x.astype(np.float16) for x in qkv())
    one, spread = np.array([[1e3], [1e-3]]), np.array([[1.0], [-1.0], [2.0], [0.5]])
    wins = np.array([[0.0], [1.0], [4000.0]])
    low = np.array([[-1e10], [-1e10], [0.0], [-5.0]])
    return [
        Case("3 queries and 5 keys without a mask", qkv(), hint="The order is: score, scale, softmax, "
             "average."),
        Case("a mask that hides some keys", (*qkv(), some)),
        Case("a batch with a padding mask", (*qkv(2, n_key=6), pads[:, None, :]),
             hint="The mask broadcasts to the scores."),
        Case("a batch with heads and a mask of shape (B, 1, 1, Lk)",
             (*qkv(2, 3, n_query=4, n_key=6, width=5), pads[:, None, None, :]),
             hint="All axes but the last two are left alone; the mask broadcasts to the scores."),
        Case("equal sizes and a causal mask", (*qkv(3, 3, n_key=3, width=3, values=3),
                                               np.tril(np.ones((3, 3), bool)))),
        Case("a query that may attend to nothing", (*qkv(), empty),
             hint="Its weights and its output are zeros, not NaN."),
        Case("scores of either sign around 1000", (*large, some),
             hint="Subtract each row's largest visible score before the exponential."),
        Case("one row with large scores and one with small", (one, spread, spread),
             hint="Each row needs its own largest score."),
        Case("a masked key whose score is the largest by far",
             (np.ones((1, 1)), wins, spread[:3], np.array([[True, True, False]])),
             hint="Mask before the softmax, so that what is hidden takes no part in it."),
        Case("visible scores of -1e10 and hidden ones near 0",
             (np.ones((1, 1)), low, spread, np.array([[True, True, False, False]])),
             hint="A masked weight is exactly 0, whatever the size of the scores."),
        Case("visible scores near 0 and a hidden one of 1e11",
             (np.ones((1, 1)), low[::-1] * -10, spread, np.array([[True, True, False, False]])),
             hint="A masked weight is exactly 0, whatever the size of the scores."),
        Case("whole numbers", (*whole, some)),
        Case("half precision and a query that may attend to nothing", (*half, empty)),
        Case("one query and one key", qkv(n_query=1, n_key=1)),
    ]  # fmt: skip


def _weights_of(value):
    """The second result in floats, or None where it does not hold real numbers."""
    return as_floats(value[1].detach() if is_tensor(value[1]) else value[1])


def _in_torch(case, value, expected):
    if not any(is_tensor(part) for part in value):
        return None
    parts = [as_floats(part.detach() if is_tensor(part) else part) for part in value]
    if any(part is None or not np.allclose(part, ours, 1e-3, 1e-5)
           for part, ours in zip(parts, expected, strict=True)):  # fmt: skip
        return None
    return "The numbers are right; only they come as torch tensors. Return NumPy arrays; .numpy() makes one."


def _hidden_weight(case, value, expected):
    if len(case.args) < 4 or _weights_of(value) is None:
        return None
    weights = np.where(np.broadcast_to(case.args[3], _weights_of(expected).shape), 0, _weights_of(value))
    if not np.isfinite(weights).all() or np.abs(weights).max() < 1e-12:
        return None
    at = tuple(int(n) for n in np.unravel_index(np.abs(weights).argmax(), weights.shape))
    return f"The weight at index {', '.join(map(str, at))} is {weights[at]:.3g}, and the mask hides it."


def _row_sums(case, value, expected):
    if _weights_of(value) is None:
        return None
    sums, wanted = _weights_of(value).sum(-1), _weights_of(expected).sum(-1)
    if not np.isfinite(sums).all():
        return "Some weights are NaN or infinite."
    apart = np.abs(sums - wanted)
    if apart.max() < 5e-3:
        return None
    at = np.unravel_index(apart.argmax(), apart.shape)
    return f"The weights of a query sum to {sums[at]:.3g} over the keys, and should sum to {wanted[at]:.3g}."


_SCALES = (
    Mistake("no_scale", "You leave out the scale: scores are divided by the square root of the width.",
            {"scale": "none"}),
    Mistake("scale_linear", "You divide the scores by the width, or twice by its root. The root, once.",
            {"scale": "linear"}),
    Mistake("scale_multiplied", "You multiply the scores by the root of the width. "
            "Divide.", {"scale": "times"}),
    Mistake("scale_of_keys", "You divide by the root of the number of keys. It is the width of a key that "
            "makes scores grow.", {"scale": "keys"}),
    Mistake("scale_of_queries", "You divide by the root of the number of queries; read the width off the "
            "last axis.", {"scale": "queries"}),
)  # fmt: skip
_UNIFORM = Mistake(
    "uniform_rows",
    "You write a large negative number where the mask hides. In a row that is hidden throughout all scores "
    "are then equal, and the query gets the average of exactly what it must not see. Its output is to be 0.",
    {"fill": "lowest"},
)
_OPENED = Mistake(
    "empty_rows_opened",
    "In a row that is hidden throughout you open the mask, and the query sees exactly what it must not see. "
    "Its output is to be 0.",
    {"empty": "opened"},
)
_NAN = Mistake(
    "nan_rows",
    "A query with nothing to attend to gives NaN: its exponentials sum to 0, and 0/0 is NaN. Its output is "
    "to be 0.",
    {"empty": "nan"},
)
_AFTER = Mistake(
    "masked_after",
    "You mask after the softmax. What is left of a row no longer sums to 1, and its sum was made with the "
    "hidden keys. Mask the scores.",
    {"fill": "after"},
)
_RAW = Mistake(
    "shift_sees_hidden",
    "You mask the exponentials and renormalise, which is right as long as no hidden score is far above the "
    "visible ones: then these all underflow to 0. Mask before you look for the largest score.",
    {"fill": "raw"},
)
_OVERFLOW = (
    "Your exponentials overflow: nothing is subtracted from the scores. Subtract each row's largest visible "
    "score first."
)
_AXIS = Mistake(
    "softmax_over_queries",
    "Your softmax runs over the queries: columns sum to 1. Each query divides its own attention over the "
    "keys, the last axis.",
    {"axis": -2},
)

attention = FunctionExercise(
    _attention,
    _attention_cases,
    (
        Mistake(
            "polarity",
            "You hide where the mask is True, as nn.MultiheadAttention does. Here True means: may attend.",
            {"hides": True},
            convention=True,
        ),
        Mistake("mask_ignored", "The mask has no effect.", {"fill": "ignored"}),
        *_SCALES,
        Mistake("scale_of_values", "You divide by the root of the values' width. Scores come from queries "
                "and keys.", {"scale": "values"}),
        Mistake("scale_second_axis", "You read the width off axis 1. It is the last axis, however many there "
                "are.", {"scale": "second"}),
        Mistake("scale_first_axis", "You read the width off axis 0, which counts queries or sentences. It is "
                "the last axis.", {"scale": "first"}),
        Mistake("scale_after", "You scale the weights. Scale the scores, before the softmax.",
                {"scale": "after"}),
        _AXIS,
        Mistake("softmax_over_all", "Your softmax runs over queries and keys together: all weights sum to 1, "
                "instead of each row.", {"axis": (-2, -1)}),
        Mistake("softmax_axis_1", "Your softmax runs over axis 1, which holds the keys only where there are "
                "two axes. Count from the end: the keys are axis -1.", {"axis": 1}),
        Mistake("softmax_axis_0", "Your softmax runs over axis 0: queries, or sentences of the batch. The "
                "keys are axis -1.", {"axis": 0}),
        Mistake("not_normalised", "You do not divide the exponentials by their sum.", {"share": False}),
        _NAN,
        _UNIFORM,
        _OPENED,
        Mistake(
            "fill_1e9",
            "You write a number such as -1e9 where the mask hides. That is a score like any other: visible "
            "scores below it lose against it, and a row that is hidden throughout becomes uniform.",
            {"fill": "-1e9"},
        ),
        Mistake(
            "fill_1e9_cleaned",
            "You write -1e9 where the mask hides. Visible scores below it lose against it and the row comes "
            "out empty. Minus infinity loses against every number.",
            {"fill": "-1e9", "clean": True},
        ),
        Mistake(
            "added_1e9",
            "You add -1e9 where the mask hides. A hidden score of 1e11 is still the largest after that. "
            "Replace it, or add minus infinity.",
            {"fill": "add"},
        ),
        Mistake("added_1e9_cleaned", "You add -1e9 where the mask hides. A hidden score of 1e11 is still the "
                "largest and takes the whole row before you clear it.", {"fill": "add", "clean": True}),
        Mistake("fill_zero", "Where the mask hides, your score is 0, or near it such as 1e-9, written or "
                "multiplied in. A score of 0 is a score: its exponential is 1.", {"fill": "0"}),
        Mistake("mask_added", "You add the mask to the scores as it is. True and False are 1 and 0: visible "
                "keys gain a little, and none is hidden.", {"fill": "plus"}),
        Mistake("fill_positive_infinity", "You write +inf where the mask hides; what is hidden should lose, "
                "so the sign is wrong.", {"fill": "inf"}),
        _AFTER,
        _RAW,
        Mistake("overflow", _OVERFLOW, {"top": "none"}),
        Mistake("overflow_masked_later", _OVERFLOW, {"top": "none", "fill": "raw"}),
        Mistake("clipped", "You clip the scores, which makes unequal scores equal. Subtract each row's "
                "largest instead.", {"top": "clipped"}),
        Mistake("one_shift_for_all", "You subtract the largest score of the whole array. A row far below it "
                "underflows to 0. Each row needs its own.", {"top": "all"}),
        Mistake("keys_averaged", "You average the keys. Keys decide the weights; values are averaged.",
                {"average": "keys"}),
        Mistake("scores_averaged", "Your output is made from the scores and not from the weights.",
                {"average": "scores"}),
        Mistake("weights_first", "You return the weights first. The order is output, weights.",
                {"order": "weights first"}),
        Mistake("scores_returned", "Your second result holds scores. Return the weights, after the softmax.",
                {"order": "scores"}),
        Mistake("two_axes_only", "It works for two axes alone: .T turns round all axes, and an einsum "
                "without an ellipsis names a fixed number of them.", {"turn": "all"}),
        Mistake("whole_results", "Whole numbers go in and whole numbers come out: the results are cut off. "
                "Compute in a floating type.", {"whole": "cut off"}),
    ),  # fmt: skip
    "Checked with and without masks of two, three and four axes, with a query that may attend to nothing, "
    "hidden keys of any size, scores from 1e-3 to 1e11, whole numbers and half precision. This is "
    "attnlib.attention, and it is what the rest of the course builds on.",
    (_in_torch, _row_sums, _hidden_weight),
)  # fmt: skip


def _padded_attention(
    q, k, v, key_padding_mask, *, hides=True, axes="keys", scale="width", axis=-1, fill="-inf",
    empty="zero", causal=False, average="values", half="float32",
):  # fmt: skip
    import torch

    dtype = q.dtype
    if dtype == torch.float16:
        if half == "raises":
            raise RuntimeError("half precision")
        if half == "inf":
            fill, empty = "-inf", "nan"
        q, k, v = q.float(), k.float(), v.float()
    scores = q @ k.mT
    scores = scores * {
        "width": q.shape[-1] ** -0.5, "none": 1, "linear": 1 / q.shape[-1], "times": q.shape[-1] ** 0.5,
        "keys": k.shape[-2] ** -0.5, "queries": q.shape[-2] ** -0.5,
        "model": (q.shape[-1] * q.shape[1]) ** -0.5,
    }[scale]  # fmt: skip
    visible = ~key_padding_mask if hides else key_padding_mask
    if axes == "nowhere":
        visible = torch.ones_like(visible)
    both = visible[:, None, None, :] & visible[:, None, :, None] if axes == "both" else None
    visible = {
        "keys": visible[:, None, None, :], "nowhere": visible[:, None, None, :], "rows": visible,
        "heads": visible[:, None], "queries": visible[:, None, :, None],
    }.get(axes, both)  # fmt: skip
    if causal:
        visible = visible & torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    visible = visible.expand(scores.shape)
    if empty == "opened":
        visible = visible | ~visible.any(-1, keepdim=True)
    if fill in ("after", "raw"):
        masked = scores
    elif fill == "added" and dtype != torch.float16:
        masked = scores + torch.where(visible, 0, -1e4)
    elif fill == "times":
        masked = torch.full_like(scores, torch.nan)
    else:
        fill = "lowest" if fill == "added" else fill  # a float16 next to -1e4 holds no difference of scores
        masked = torch.where(visible, scores, _number(fill, torch.finfo(scores.dtype).min))
    top = masked.amax(axis, keepdim=True)
    e = (masked - torch.where(top.isfinite(), top, torch.zeros_like(top))).exp()
    if fill == "raw":
        e = e * visible
    total = e.sum(axis, keepdim=True)
    weights = e / (total if empty == "nan" else torch.where(total == 0, torch.ones_like(total), total))
    if fill == "after":
        weights = weights * visible
    return (weights @ (k if average == "keys" else v)).to(dtype)


def _padded_cases():
    import torch

    def case(name, sizes, real, kind=torch.float32, size=1.0, seed=0, hint=""):
        b, h, n, s, d = sizes
        rng = np.random.default_rng(800 + seed)
        arrays = [rng.normal(size=(b, h, m, d)) * f for m, f in ((n, size), (s, size), (s, 1))]
        arrays = [x.round() if size > 1 else x for x in arrays]  # exact in float32, if the width is a square
        q, k, v = (torch.tensor(x).to(kind) for x in arrays)
        return Case(name, (q, k, v, torch.tensor(real) == 0), hint=hint)

    wins = case("a padded key whose score is the largest by far", (1, 1, 1, 3, 2), [[1, 1, 0]], seed=1,
                hint="What is hidden must take no part in the softmax.")  # fmt: skip
    wins.args[1][..., 2, :] = 2000 * wins.args[0][..., 0, :]
    return [
        case("a batch of two, padded on the right", (2, 3, 4, 5, 6), [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]]),
        case("as many sentences as queries", (3, 2, 3, 4, 5), [[0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 1]],
             hint="(B, S) meets (B, H, L, S) at the wrong axes unless it is given two more."),
        case("all sizes equal", (3, 3, 3, 3, 3), [[1, 0, 0], [1, 1, 0], [0, 1, 1]],
             hint="When sizes agree, a mask on the wrong axis raises no error."),
        case("as many sentences as heads, as many queries as "
            "keys", (2, 2, 4, 4, 3), [[1, 1, 1, 0], [0, 0, 1, 1]],
             hint="When sizes agree, a mask on the wrong axis raises no error."),
        case("a sentence that is nothing but padding", (2, 2, 3, 4, 5), [[0, 0, 0, 0], [1, 1, 1, 0]],
             hint="Its output is 0."),
        case("float64 and no padding", (1, 2, 3, 4, 4), [[1, 1, 1, 1]], torch.float64, seed=2),
        case("large scores", (2, 2, 3, 5, 4), [[1, 1, 0, 1, 1], [0, 1, 1, 1, 0]], size=20.0, seed=3),
        wins,
        case("half precision", (2, 2, 3, 4, 5), [[1, 1, 0, 0], [1, 1, 1, 1]], torch.float16, seed=4,
             hint="float16 ends at 65504: -1e9 does not exist in it."),
        case("half precision and a sentence that is nothing but padding", (2, 2, 3, 4, 5),
             [[0, 0, 0, 0], [1, 1, 1, 0]], torch.float16, seed=5, hint="Its output is 0."),
    ]  # fmt: skip


padded_attention = FunctionExercise(
    _padded_attention,
    _padded_cases,
    (
        Mistake(
            "polarity",
            "You read True as: may attend, as F.scaled_dot_product_attention does. Here True means padding, "
            "as in nn.MultiheadAttention.",
            {"hides": False},
            convention=True,
        ),
        Mistake("mask_ignored", "The padding is not hidden: the mask has no effect.", {"axes": "nowhere"}),
        Mistake(
            "as_rows",
            "The mask meets the scores with its axes (B, S) as if they were (queries, keys). Where B differs "
            "from L that is an error; where they agree it is silent and wrong.",
            {"axes": "rows"},
        ),
        Mistake(
            "as_heads",
            "The mask meets the scores with its B where the heads are: one new axis is not enough for (B, H, "
            "L, S). Where B equals H it is silent and wrong.",
            {"axes": "heads"},
        ),
        Mistake(
            "over_queries",
            "The mask lies on the axis of the queries. Padding must not be seen, so it is hidden as a key.",
            {"axes": "queries"},
        ),
        Mistake("queries_too", "You empty the rows of queries too. The mask is about keys, and there may be "
                "more of them than of queries.", {"axes": "both"}),
        *_SCALES,
        Mistake("scale_of_model", "You divide by the root of all heads' width together. Scores are made head "
                "by head, each from d features.", {"scale": "model"}),
        _AXIS,
        _NAN,
        _UNIFORM,
        _OPENED,
        Mistake(
            "half_fill",
            "You hide with a number such as -1e9, and half precision raises: float16 ends at 65504, and a "
            "mask in float32 does not go with values in float16. In the other types a sentence of nothing "
            "but padding gets the average of its padding.",
            {"fill": "lowest", "half": "raises"},
        ),
        *(
            Mistake(
                "added",
                "You add a number such as -1e4 to the hidden scores. In a row that is hidden throughout it "
                "changes no difference, so a sentence of nothing but padding gets its attention back, save "
                f"for rounding{further}. Replace scores, and treat the empty row.",
                {"fill": "added", "half": half},
            )
            for half, further in (
                ("float32", ""),
                ("raises", "; and in half precision your function raises, for a mask in float32 does not go "
                 "with values in float16"),
            )
        ),
        Mistake(
            "half_nan",
            "A sentence of nothing but padding gives NaN: its exponentials sum to 0, and 0/0 is NaN. And "
            "half precision raises, as where a mask in float32 meets values in float16.",
            {"empty": "nan", "half": "raises"},
        ),
        Mistake(
            "half_opened",
            "Half precision raises: float16 ends at 65504, and a mask in float32 does not go with values in "
            "float16. In the other types a sentence of nothing but padding is attended to after all.",
            {"empty": "opened", "half": "raises"},
        ),
        Mistake(
            "times_infinity",
            "You multiply the mask by infinity. Where it is False, 0 times infinity is NaN, in every row. "
            "Replace the hidden scores instead.",
            {"fill": "times", "half": "raises"},
        ),
        Mistake(
            "half_fill",
            "A fill of -1e9 becomes minus infinity in float16, where a sentence of nothing but padding is "
            "then NaN; in the other types it gets the average of its padding.",
            {"fill": "-1e9", "half": "inf"},
        ),
        Mistake("fill_zero", "The score of your padding is 0: written, multiplied in, or by keys set to 0. A "
                "score of 0 is a score: its exponential is 1.", {"fill": "0"}),
        Mistake(
            "masked_after",
            "You take the padding away after the softmax, or set its values to 0. What is left of a row no "
            "longer sums to 1. Mask the scores.",
            {"fill": "after"},
        ),
        _RAW,
        Mistake("softmax_over_heads", "Your softmax runs over the heads. Each head divides its own attention "
                "over the keys, the last axis.", {"axis": 1}),
        Mistake("causal_too", "You also hide the future. This attention has no causal "
                "mask.", {"causal": True}),
        Mistake("keys_averaged", "You average the keys. Keys decide the weights; values are averaged.",
                {"average": "keys"}),
    ),  # fmt: skip
    "Checked with all sizes different and with the equal ones that hide a wrong axis, with padding on either "
    "side and everywhere, large scores, and in float16, float32 and float64.",
)  # fmt: skip


# A prediction


def window_reach(number):
    """How many tokens reach the last one through five layers with a window of four?"""
    value, complaint = numbers(number, (), "your answer")
    if complaint:
        return complaint
    layers, window = 5, 4
    reach = layers * (window - 1) + 1
    told = {
        layers * window: "That is layers times window, as Mistral's paper counts, whose window goes back a "
            "whole window from the token. This one holds the token itself: where two windows meet, one token "
            "is counted twice.",
        reach - 1: "That counts the tokens before the last one. The last one reaches itself.",
        layers * window + 1: "A window of 4 holds the token itself and three before it, not four.",
        layers * window - 1: "Each layer goes back by three more, since the window counts the token itself.",
        window: "That is one layer. What the second layer reads has itself read three tokens further back.",
        window**layers: "The reach is added up and not multiplied: each layer goes back by three more "
            "places.",
    }
    if value == reach:
        return right(
            f"Each layer goes back three places, five layers fifteen, and the token itself makes {reach}. A "
            "window counts the token, so two windows overlap by one where they meet."
        )
    if float(value) in told:
        return wrong(told[float(value)], f"reach_{int(value)}")
    return wrong(
        f"Not {float(value):g}. With one layer it is 4. Draw two layers: which is the oldest token that the "
        "oldest of the four has read?"
    )


# A detector of leaks


def _rows(x, width):
    x = np.array(x, dtype=float)
    if x.ndim != 2 or x.shape[1] != width or not len(x):
        raise ValueError(f"the model takes an array of shape (n, {width}), n at least 1; got {x.shape}")
    return x


def _clean(x):
    return core_attention(x, x, x, causal=True)


def _the_rest(x):
    return (x.sum(0) - (x[::-1].cumsum(0)[::-1] - x)) / np.arange(1, len(x) + 1)[:, None]


def _one_ahead(x):
    return core_attention(x, x, x, np.tril(np.ones((len(x), len(x)), bool), 1))


def _masked_after(x):
    return (softmax(x @ x.T / x.shape[1]) * np.tril(np.ones((len(x), len(x))))) @ x


def _one_pair(x):
    out = _clean(x)
    out[len(x) // 3] += 0.001 * x[-1]
    return out


def _gate(x):
    loud = np.maximum(x - 6, 0)
    return _clean(x) + loud[::-1].cumsum(0)[::-1]


def _from_the_end(x):
    return _clean(x + 0.3 * np.arange(len(x))[::-1, None])


# Name: the function, whether it adds fresh noise, the mistake that fools a detector, and what is to be said.
_MODELS = {
    "causal attention": (
        _clean, False, "own_token",
        "is clean: output i reads the tokens up to i, itself among them. Which outputs may change when token "
        "i does?",
    ),
    "causal attention with fresh noise in each call": (
        _clean, True, "noise",
        "is clean. Its outputs differ from call to call, also when the input is the same. How much do they "
        "differ with nothing changed? Two calls may differ less than the next two: call it often, and leave "
        "room.",
    ),
    "a mean of the past, computed as the total less the rest": (
        _the_rest, False, "exact_comparison",
        "is clean. The rest cancels up to rounding, about 1e-16 of what was put in. Allow for it, in "
        "proportion to the sizes of your numbers.",
    ),
    "attention with its diagonal one too far": (
        _one_ahead, False, "next_token",
        "leaks: output i reads token i + 1 and nothing later. When you change the tokens from t on, do you "
        "look at output t - 1?",
    ),
    "attention masked after the softmax": (
        _masked_after, False, "denominator",
        "leaks. The future's weights are 0, but the sum that the others were divided by has seen the future. "
        "Reordering the future does not show it: put other tokens there.",
    ),
    "one output that reads the last token": (
        _one_pair, False, "one_place",
        "leaks at one place only: a single early output holds a thousandth of the last token. Every output "
        "must be compared with every later token, and finely.",
    ),
    "a gate that opens for large numbers": (
        _gate, False, "gate",
        "leaks: what exceeds 6 in a later token is added to all outputs before it; below that, nothing is. "
        "One change is not enough: try several, large ones of either sign among them.",
    ),
    "positions counted from the end": (
        _from_the_end, False, "length",
        "leaks: each output knows how many tokens follow it. Whatever you put in their place, their number "
        "stays the same. What else can you do to the future?",
    ),
}  # fmt: skip
_CLEAN = 3  # the first three


def _model(name, version):
    """A model by its name; two versions differ in width, length and, for one, in noise."""
    function, noisy, _, _ = _MODELS[name]
    width, length = ((4, 7), (3, 5))[version]
    noisy = noisy or (function is _one_ahead and version == 1)
    rng = np.random.default_rng(8)

    def model(x):
        out = function(_rows(x, width))
        return out + 0.01 * rng.normal(size=out.shape) if noisy else out

    return model, length, width


def leak_detector(function):
    """``leaks(model, length, width)``: whether an output depends on what comes after it."""
    if not callable(function):
        return wrong(f"Give a function, without calling it; got {short(function)}.")
    if uses_the_package(function):
        return wrong("Your function calls the package. Write the detector yourself.", "package")
    fooled, said = [], []
    for version in (0, 1):
        for number, name in enumerate(_MODELS):
            outcome = call(function, _model(name, version))
            if outcome.unanswered:
                return unanswered("Replace the line that raises NotImplementedError and run the cell again.")
            if outcome.error:
                told = f"On the model '{name}' your function {outcome.error}"
                return wrong(told if told.endswith((".", "?")) else f"{told}.")
            answer = _as_bool(outcome.value)
            if answer is None:
                return wrong(f"Return True or False; on the model '{name}' it was {short(outcome.value)}.")
            said.append(answer)
            if answer != (number >= _CLEAN) and name not in [told for told, _ in fooled]:
                fooled.append((name, version))
    if all(said):
        return wrong(
            "You call all eight models leaky. Three are clean: output i may read the tokens up to i, itself "
            "included. Which outputs lie before the first token that you change?", "all_leaky")
    if not any(said):
        return wrong("You call all eight models clean. Five of them leak.", "all_clean")
    if not fooled:
        return right(
            "All eight judged rightly, in two sizes each: three clean ones, of which one is noisy and one "
            "rounds, and five leaks: the next token, a denominator, a single place, a gate, and the length. "
            "A detector that says clean has still only failed to find a leak."
        )
    name, version = fooled[0]
    _, _, mistake, told = _MODELS[name]
    if mistake == "next_token" and version == 1:
        mistake, told = "noise_hides", (
            "and with fresh noise in each call leaks: output i reads token i + 1, which changes it by many "
            "times the noise. A model that answers differently each time need not be clean."
        )  # fmt: skip
    return wrong(f"{8 - len(fooled)} of eight models judged rightly. The model '{name}' {told}", mistake)


def _as_bool(value):
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if is_tensor(value) or isinstance(value, np.ndarray):
        return bool(value) if value.ndim == 0 and "bool" in str(value.dtype) else None
    return None


JUDGES = {
    "causal_mask": causal_mask,
    "window_mask": window_mask,
    "padding_mask": padding_mask,
    "combined_mask": combined_mask,
    "attention": attention,
    "padded_attention": padded_attention,
    "window_reach": window_reach,
    "leak_detector": leak_detector,
}

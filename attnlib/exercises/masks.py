"""The masks of lesson 08: causal, of a window, of padding, and two of them joined."""

from dataclasses import dataclass, replace

import numpy as np

from attnlib.exercises.calls import is_tensor
from attnlib.exercises.compare import shapes
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake


def _positions(n_query, n_key):
    return np.arange(n_query)[:, None], np.arange(n_key)[None, :]


def _in_form(mask, form):
    """A boolean mask as one of the other kinds of mask: numbers, or what is added to scores."""
    if form == "bool":
        return mask
    if form == "not":
        return np.bool_(not mask)
    return mask.astype(int) if form == "numbers" else np.where(mask, 0.0, float(form))


def _wrapped(numbers, kind):
    """Numbers as a type of one byte holds them."""
    return numbers.astype(kind).astype(int)


class _LeftOut(int):
    """A default that is told from the same number when it is given."""


_NO_PAD_ID = _LeftOut(0)


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
    last = i + diagonal + {
        "end": gap, "start": 0, "backwards": -gap, "at least 0": max(gap, 0), "either way": abs(gap),
        "at most 0": min(gap, 0), "end for one": gap if n_query == 1 else 0,
        "at most 0, end for one": gap if n_query == 1 else min(gap, 0),
        "in proportion": (i + 1) * n_key // n_query - 1 - i,
    }[align]  # fmt: skip
    if more == "negative stop":
        last = np.where(last + 1 < 0, last + n_key, last)
    elif more in ("int8", "uint8"):
        last, j = _wrapped(last, more), _wrapped(j, more)
    mask = j >= last if turned else j <= last
    if more == "all":
        mask = mask | ~mask.any(-1, keepdims=True)
    elif more == "first":
        mask = mask | (j == 0)
    elif more == "axes":
        mask = mask[None, None]
    elif more in ("shown", "hidden"):
        mask = np.full_like(mask, more == "shown")
    elif more in ("but the last query", "but the first query"):
        mask = mask & (i != (n_query - 1 if more == "but the last query" else 0))
    elif more == "but the last key":
        mask = mask & (j < n_key - 1)
    elif more == "own key alone":
        mask = j == last
    elif more == "columns turned":
        mask = mask[:, ::-1]
    elif more == "T":
        mask = mask.T
    return _in_form(~mask if hides else mask, form)


def _window_mask(n, window, *, before=None, after=0, own=True, causal=True, hides=False, turned=False,
                 form="bool", shape="band", fixed=None):  # fmt: skip
    if shape == "swapped":
        n, window = window, n
    elif shape == "fixed":
        window = fixed
    elif shape == "shorter than the text":
        window = min(window, n - 1)
    elif shape == "shorter than the text, at least 1":
        window = min(window, max(n - 1, 1))
    i, j = _positions(n, n)
    i, j = (j, i) if turned else (i, j)
    if before == "half":
        reach = after = window // 2
    else:
        reach = {
            None: window - 1, "more": window, "less": window - 2, "no end": n, "half past": window // 2,
            "twice": 2 * window - 2,
        }[before]  # fmt: skip
    after = reach if after == "same" else after
    mask = (i - j <= reach) & (j - i <= (after if causal else n))
    if shape == "blocks":
        mask = (i // window == j // window) & (j <= i)
    elif shape == "negative start":
        mask = mask & (j >= np.where(i < reach, np.maximum(i - reach + n, 0), 0))
    elif shape == "whole windows alone":
        mask = mask & (i >= window - 1)
    elif shape == "one less, own shown":
        mask = mask & (i - j < reach) | (i == j)
    elif shape == "wraps":
        mask = (i - j) % n <= reach
    elif shape == "always full":
        first = np.maximum(i - reach, 0)
        mask = (first <= j) & (j <= first + reach)
    elif shape == "first shown":
        mask = mask | (j == 0)
    elif shape == "steps":
        mask = ((i - j) % window == 0) & (j <= i)
    elif shape == "older edge ahead":
        mask = (j - i >= reach) & (j <= i)
    elif shape == "and":
        mask = (j <= i) and (i - j <= reach)
    elif shape == "columns":
        mask = (j >= n - window) & (j <= i)
    elif shape == "axes":
        mask = mask[None, None]
    elif shape in ("shown", "hidden"):
        mask = np.full_like(mask, shape == "shown")
    elif shape == "no window of 1":
        mask = mask if window > 1 else j <= i
    elif shape in ("int8", "uint8"):
        gap = _wrapped(i - j, shape)
        mask = (gap >= 0) & (gap <= reach)
    elif shape == "places in int8":
        gap = _wrapped(i, "int8") - _wrapped(j, "int8")
        mask = (gap >= 0) & (gap <= reach)
    if not own:
        mask = mask & (i != j)
    return _in_form(~mask if hides else mask, form)


def _real(tokens, pad_id, found):
    """Which tokens are real, found one way or another."""
    if pad_id is _NO_PAD_ID and found in ("one by default", "none by default"):
        pad_id = 1 if found == "one by default" else None
    if found == "falsy zero":
        return tokens != (pad_id or None)
    if found in ("zero", "one"):
        return tokens != {"zero": 0, "one": 1}[found]
    if found == "larger":
        return tokens > pad_id
    if found == "positive":
        return tokens > 0
    if found == "smaller":
        return tokens < pad_id
    if found == "not smaller":
        return tokens >= pad_id
    if found == "neither 0 nor pad_id":
        return (tokens != 0) & (tokens != pad_id)
    if found == "positive and not pad_id":
        return (tokens > 0) & (tokens != pad_id)
    if found.startswith("size"):
        return np.abs(tokens) != (abs(pad_id) if "both" in found else pad_id)
    if found == "close":
        return ~np.isclose(tokens, pad_id)
    if found.startswith("as "):
        kind = np.dtype(found.split()[1])
        return tokens.astype(kind) != (np.array(pad_id).astype(kind) if "both" in found else pad_id)
    if found == "same object":
        return np.array([[token is not int(pad_id) for token in row] for row in tokens.tolist()])
    real = np.not_equal(tokens, pad_id)
    place = np.arange(tokens.shape[1])
    return {
        "counted": lambda: place < real.sum(-1, keepdims=True),
        "counted from the right": lambda: place[::-1] < real.sum(-1, keepdims=True),
        "until the first": lambda: np.logical_and.accumulate(real, -1),
        "until the argmax": lambda: place < (~real).argmax(-1)[:, None],
        "from the argmax": lambda: place >= real.argmax(-1)[:, None],
        "until the last": lambda: np.logical_or.accumulate(real[:, ::-1], -1)[:, ::-1],
        "between": lambda: np.logical_or.accumulate(real, -1)
        & np.logical_or.accumulate(real[:, ::-1], -1)[:, ::-1],
        "nowhere": lambda: np.ones_like(real),
        "everywhere": lambda: np.zeros_like(real),
        "not the first": lambda: real | (place == 0),
        "not the last": lambda: real & (place < place[-1]),
        "so far": lambda: np.logical_and.accumulate(real, 0),
        "last token": lambda: tokens != tokens[:, -1:],
        "first token": lambda: tokens != tokens[:, :1],
        "in the first": lambda: np.repeat(real[:1], len(real), 0),
        "in all": lambda: np.repeat(real.any(0, keepdims=True), len(real), 0),
        "in any": lambda: np.repeat(real.all(0, keepdims=True), len(real), 0),
    }.get(found, lambda: real)()


def _padding_mask(
    tokens, pad_id=_NO_PAD_ID, *, found="pad_id", hides=False, axes="keys", form="bool", opened=False
):
    real = _real(tokens, pad_id, found)
    if opened:
        real = real | ~real.any(-1, keepdims=True)
    keys, queries = real[:, None, None, :], real[:, None, :, None]
    mask = {
        "keys": keys, "queries": queries, "both": keys & queries, "two": real, "three": real[:, None, :],
        "in front": real[None, None], "first in front": real[None, :, None],
        "mixed": real.T.reshape(keys.shape), "behind": real[..., None, None],
        "repeated": np.repeat(keys, tokens.shape[1], -2),
    }.get(axes)  # fmt: skip
    if axes == "bytes":
        mask = (np.ascontiguousarray(tokens - pad_id).view(np.uint8) > 0)[:, None, None, :]
    elif axes in (5, 6, 8):
        mask = real.reshape(-1, 1, 1, axes)
    return _in_form(~mask if hides else mask, form)


def _combined_mask(
    tokens, pad_id=_NO_PAD_ID, *, found="pad_id", axes="keys", future="lower", pads_hide=False,
    future_hides=False, join="and", hides=False, form="bool", shape="four", own=False, opened=None,
    pad_rows=None,
):  # fmt: skip
    if shape == "batch second":
        tokens, shape = tokens.T, "four"
    real = _real(tokens, pad_id, found)
    i, j = _positions(tokens.shape[1], tokens.shape[1])
    places = np.arange(tokens.shape[1]).astype(np.int8)
    seen = {
        "lower": j <= i, "strict": j < i, "ahead": j <= i + 1, "upper": j >= i, "all": i == i + 0 * j,
        "int8": places <= places[:, None], "int8 distances": places[:, None] - places >= 0,
        "of the batch": np.tri(len(tokens), dtype=bool),
        "from the first real": j <= i - real.argmax(-1)[:, None, None, None],
    }[future]  # fmt: skip
    keys, queries = real[:, None, None, :], real[:, None, :, None]
    pads = {"keys": keys, "queries": queries, "both": keys & queries, "as they are": real}[axes]
    if axes == "as they are":
        pads = np.broadcast_to(pads & seen, (len(tokens), 1, *seen.shape))
    pads, seen = ~pads if pads_hide else pads, ~seen if future_hides else seen
    mask = {
        "or": np.logical_or, "and": np.logical_and, "xor": np.logical_xor, "equal": np.equal,
        "Python's and": lambda a, b: np.broadcast_to(a and b, np.broadcast_shapes(a.shape, b.shape)),
    }[join](pads, seen)  # fmt: skip
    if own:
        mask = mask | (i == j)
    if pad_rows:
        mask = np.where(queries, mask, {"all": True, "own": i == j, "causal": j <= i, "real": keys}[pad_rows])
    if opened:
        to = {"all": True, "own": i == j, "causal": j <= i, "first": j == 0}[opened]
        mask = mask | ~mask.any(-1, keepdims=True) & to
    if form == "two of -1e9":
        mask = np.where(pads, 0, -1e9) + np.where(seen, 0, -1e9)
    else:
        mask = _in_form(~mask if hides else mask, form)
    return {
        "four": mask, "three": mask[:, 0], "two": mask[0, 0], "one sentence": mask[:1],
        "keys": mask[:, :, -1:], "in front": mask[:, 0][None], "turned": np.swapaxes(mask, -1, -2),
        "squeezed": mask.squeeze(),
    }[shape]  # fmt: skip


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
    differs = array != expected
    at = tuple(int(n) for n in np.argwhere(differs)[0])
    *lead, i, j = at
    many = f"In all, {int(differs.sum())} of {array.size} entries differ."
    if not lead:
        return f"{_link(f'Query {i}', j, expected[at], array[at[:-1]], '')} {many}"
    tokens, pad_id = case.args[0], [*case.args, 0][1]
    real = int(tokens[lead[0], j]) != pad_id
    if expected.shape[-2] == 1 < expected.shape[-1]:
        token = f"Token {j} of sentence {lead[0]} has the id {tokens[lead[0], j]}, and pad_id is {pad_id}"
        return f"{token}: it is {'real, and you hide' if real else 'padding, and you show'} it. {many}"
    why = ", which is padding" if not real else ", which comes after it" if j > i else ", which is real"
    return f"{_link(f'Query {i} of sentence {lead[0]}', j, expected[at], array[at[:-1]], why)} {many}"


def _link(query, j, visible, row, why):
    """What is wrong between a query and key j, where the query's row of the mask is ``row``."""
    if not visible:
        return f"{query} must not see key {j}{why}, and your mask shows it."
    if not row.any():
        return f"{query} sees no key at all: its row is empty. It may see key {j}{why}."
    return f"{query} may see key {j}{why}, and your mask hides it."


@dataclass(frozen=True)
class _MaskExercise(FunctionExercise):
    """A judge of masks: of a wrong shape that no mistake explains it tells what the axes are."""

    axes: str = ""

    def _diagnose(self, function, cases, outcomes, expected, problems, first):
        value = outcomes[first].value
        if isinstance(value, np.ndarray) and shapes(value) != shapes(expected[first]):
            hint = f"{self.axes} {cases[first].hint}".rstrip()
            cases = [replace(case, hint=hint) if i == first else case for i, case in enumerate(cases)]
        return super()._diagnose(function, cases, outcomes, expected, problems, first)


_BOOLEAN = (
    "the exercise asks for booleans, so that masks can be joined with & and | and turned round with ~. "
    "Numbers come later, where the scores are."
)
_ONE_TRUTH = (
    "Python's `and`, `or` and `not`, and a chain such as 0 <= x < 3, ask a whole array for one truth value. "
    "The signs & | ~ ask entry by entry, between comparisons in brackets."
)
_FORMS = (
    Mistake("numbers", f"You return zeros and ones; {_BOOLEAN}", {"form": "numbers"}),
    Mistake(
        "additive", f"You return a mask to be added to scores, 0 and -inf; {_BOOLEAN}",
        {"form": "-inf"}, convention=True,
    ),
    *(
        Mistake(
            "additive_finite",
            f"You return a mask to be added to scores, 0 and a large negative number; {_BOOLEAN}",
            {"form": number}, convention=True,
        )
        for number in ("-1e9", "-1e4", np.finfo(np.float32).min, np.finfo(np.float64).min)
    ),
)  # fmt: skip
_NOT = Mistake("one_truth_value", _ONE_TRUTH, {"form": "not"}, rare=True)
_HIDES = Mistake(
    "polarity",
    "Your mask is True where a key is hidden, as nn.MultiheadAttention reads it. Here True means: may "
    "attend.",
    {"hides": True},
    convention=True,
)
_ALL_SHOWN = (
    "Your mask shows everything. If you turn zeros and ones round with ~: that makes -1 and -2 of them, and "
    "both count as True. Turn booleans round."
)
_ALL_HIDDEN = "Your mask hides everything. True means: may attend. Where do you write a True?"
_LONG = "Which numbers does the type of your positions hold? And is a size written into the code?"
_IN_BYTES = (
    "You count positions or distances in a type that ends early: a byte holds 0 to 255, or -128 to 127, and "
    "then begins again. Leave the type of np.arange as it is."
)

causal_mask = _MaskExercise(
    _causal_mask,
    lambda: [
        Case("3 queries and 5 keys", (3, 5)),
        Case("4 queries and 4 keys", (4, 4)),
        Case("1 query and 5 keys", (1, 5), hint="One new token and a cache: it sees all that came before."),
        Case("5 queries and 2 keys", (5, 2), hint="The last query sees all keys; the first ones see none."),
        Case("2 queries and 7 keys", (2, 7)),
        Case("8 queries and 3 keys", (8, 3), hint="The last query sees all keys; the first ones see none."),
        Case("4 queries and 1 key", (4, 1), hint="Only the last query sees the key."),
        Case("1 query and 1 key", (1, 1)),
        Case("2 queries and 300 keys", (2, 300), hint=_LONG),
        Case("300 queries and 3 keys", (300, 3), hint=_LONG),
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
            "offset_without_sign",
            "You shift the diagonal by the difference of the lengths without its sign. With more queries "
            "than keys the shift goes the other way: the first queries come before every key.",
            {"align": "either way"},
        ),
        Mistake(
            "offset_not_positive",
            "With more keys than queries you align the first query with the first key. The ends stay "
            "aligned: the keys that were there before are all seen.",
            {"align": "at most 0"},
        ),
        *(
            Mistake(
                "one_query_alone_shifted",
                "A single query is aligned with the last key, and several are aligned with the first. The "
                "last query stands at the last key however many queries there are.",
                {"align": align},
            )
            for align in ("end for one", "at most 0, end for one")
        ),
        Mistake("in_proportion", "You spread the keys over the queries in proportion to the two lengths. "
                "Each query sees one key more than the one before it; only the start is shifted.",
                {"align": "in proportion"}),
        Mistake(
            "negative_stop",
            "You slice a row up to an index that can be negative, and Python counts that from the end. A "
            "query that comes before every key then sees some. Stop at 0 at the least.",
            {"more": "negative stop"},
        ),
        Mistake(
            "empty_rows_opened",
            "You let a query that has nothing to see look at everything. Then it looks at its future. Such "
            "rows stay False; what attention makes of them is attention's business.",
            {"more": "all"},
        ),
        Mistake("first_key_opened", "Your first key is visible to all, perhaps so that no row is empty. A "
                "query that comes before it must not see it.", {"more": "first"}),
        *(
            Mistake("row_left_out", f"The row of your {which} query is empty. Does your loop go through all "
                    "n_query of them?", {"more": f"but the {which} query"}, rare=True)
            for which in ("last", "first")
        ),
        Mistake("last_key_hidden", "Your last key is hidden from all. The last query sees it: does your loop "
                "go through all n_key of them?", {"more": "but the last key"}, rare=True),
        Mistake("own_key_alone", "Each of your queries sees one key alone, at its own place. The keys before "
                "it are to be seen too.", {"more": "own key alone"}, rare=True),
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
        Mistake("columns_turned", "You turn the order of the columns round, so each query sees the last keys "
                "and not the first. Key 0 is seen by all that see anything.", {"more": "columns turned"}),
        Mistake("all_shown", _ALL_SHOWN, {"more": "shown"}),
        Mistake("all_hidden", _ALL_HIDDEN, {"more": "hidden"}),
        *(Mistake("small_positions", _IN_BYTES, {"more": kind}) for kind in ("uint8", "int8")),
        *_FORMS,
        _NOT,
    ),  # fmt: skip
    "Checked with fewer queries than keys, as many, and more, down to one of each. Query i sees the keys up "
    "to its own place, counted from the end, and no other.",
    (_different_entry,),
    axes="The rows are the queries, n_query of them, and the columns are the keys, n_key of them.",
)

window_mask = _MaskExercise(
    _window_mask,
    lambda: [
        Case("7 tokens and a window of 3", (7, 3)),
        Case("6 tokens and a window of 4", (6, 4)),
        Case("5 tokens and a window of 1", (5, 1), hint="A window of 1 is the token itself."),
        Case("4 tokens and a window of 9", (4, 9), hint="A window wider than the text is the causal mask."),
        Case("5 tokens and a window of 5", (5, 5), hint="The last token sees all, and no token sees ahead."),
        Case("6 tokens and a window of 2", (6, 2)),
        Case("9 tokens and a window of 4", (9, 4)),
        Case("1 token and a window of 1", (1, 1)),
        Case("1 token and a window of 3", (1, 3)),
        Case("130 tokens and a window of 200", (130, 200),
             hint=_LONG),
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
        *(
            Mistake("one_too_few", "Your window holds one key too few. The token itself is one of the "
                    "`window`, and `window` - 1 come before it.", choices)
            for choices in ({"before": "less"}, {"shape": "one less, own shown"})
        ),
        Mistake("own_left_out", "Your window holds the `window` tokens before each token and not the token "
                "itself. It is one of the `window`.", {"before": "more", "own": False}),
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
        Mistake("one_ahead", "Each of your tokens also sees the next one. Nothing after the token itself.",
                {"after": 1}),
        Mistake("future_open", "Your window has an edge in the past and none in the future: later keys are "
                "visible.", {"causal": False}),
        Mistake("no_window", "Your mask is causal, and the window has no effect: the oldest keys are still "
                "visible.", {"before": "no end"}),
        Mistake("own_hidden", "Your tokens do not see themselves. A token is one of its own window.",
                {"own": False}),
        Mistake("transposed", "Your window looks forward: the token and those after it. Rows are queries, "
                "columns are keys.", {"turned": True}),
        Mistake("blocks", "You cut the text into blocks. The first token of a block then sees only itself; a "
                "window slides.", {"shape": "blocks"}),
        Mistake(
            "negative_start",
            "You slice a row from an index that can be negative, and Python counts that from the end. The "
            "first tokens, whose window reaches past the beginning, then see less than they may, or nothing. "
            "Start at 0 at the least.",
            {"shape": "negative start"},
        ),
        Mistake("early_rows_left_out", "Your first tokens see nothing: you begin where a whole window fits "
                "into the text. Before that a window is shorter, and it is not empty.",
                {"shape": "whole windows alone"}, rare=True),
        Mistake("wraps_round", "Your window wraps round: the first tokens see the last ones, by a negative "
                "index, np.roll or a remainder. Past the beginning there is nothing.", {"shape": "wraps"}),
        Mistake("always_full", "Your first tokens get a whole window too, and its rest lies in their future. "
                "At the beginning a window is shorter.", {"shape": "always full"}),
        Mistake("first_shown", "Your first token is visible from everywhere. A token that has left the "
                "window is hidden, the first as well.", {"shape": "first shown"}),
        Mistake("steps", "You show every `window`-th token of the past. A window is the tokens next to "
                "each other.", {"shape": "steps"}),
        Mistake("same_columns", "You show the last `window` keys of the text to all queries. The window "
                "moves along with the query.", {"shape": "columns"}),
        Mistake("half_window", "Your window reaches back by half of `window`. That is Longformer's, which "
                "has the other half ahead. This one lies wholly in the past.", {"before": "half past"}),
        Mistake("reach_of_two_layers", "Your window reaches back twice as far: that is what two layers reach "
                "together. The mask is that of a single layer.", {"before": "twice"}),
        *(
            Mistake("window_fixed", "Your window has the same length whatever `window` says.",
                    {"shape": "fixed", "fixed": number})
            for number in (2, 3, 4, 5, 8)
        ),
        Mistake("window_of_one", "You take a window of 1 for none and show the whole past. It is the token "
                "itself and nothing else.", {"shape": "no window of 1"}),
        *(
            Mistake("shorter_than_the_text", "You make the window shorter than the text, so with a wide "
                    "window the last token does not see the first. A window may be longer than the text.",
                    {"shape": shape}, rare=shape != "shorter than the text")
            for shape in ("shorter than the text", "shorter than the text, at least 1")
        ),
        Mistake("swapped_arguments", "You take the two arguments the other way round. The length comes "
                "first, then the window.", {"shape": "swapped"}),
        Mistake("extra_axes", "Your mask has two axes more than asked for. They come by themselves when it "
                "is broadcast.", {"shape": "axes"}),
        Mistake("older_edge_ahead", "The older edge of your window lies ahead of the token, so that no key "
                "is on the right side of both edges. Which sign has the shift of a diagonal that lies in the "
                "past?", {"shape": "older edge ahead"}, rare=True),
        Mistake("one_truth_value", _ONE_TRUTH, {"shape": "and"}, rare=True),
        Mistake("all_shown", "Your mask shows everything. Two conditions hold for a key that is seen: not "
                "in the future, and not too far in the past. Must both be true in yours, or is one enough?",
                {"shape": "shown"}),
        Mistake("all_hidden", _ALL_HIDDEN, {"shape": "hidden"}),
        *(
            Mistake("small_positions", _IN_BYTES, {"shape": kind}) for kind in ("int8", "places in int8")
        ),
        Mistake("small_positions", "You take distances in a type without negative numbers: in a byte, -1 is "
                "255. A later key then counts as one far in the past, and a wide window shows it. Leave the "
                "type of np.arange as it is.", {"shape": "uint8"}),
        *_FORMS,
        _NOT,
    ),  # fmt: skip
    "Checked with windows of one token, of a few, and wider than the text. Each token sees itself and the "
    "window - 1 before it.",
    (_different_entry,),
    axes="There is a row and a column for each of the n tokens.",
)

_ONE = "A batch of one sentence, or a sentence of one token, keeps its axes of length 1."
_ALL_ALIKE = (
    "You hide the same places in every sentence, those of the first or of all together. Each sentence has "
    "its own padding."
)
_NARROW = (
    "You turn ids into a type that cannot tell them all apart: in a byte 256 is 0, in float32 2**24 + 1 is "
    "2**24. Compare the ids as they come."
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
    *(
        Mistake("default", "Where pad_id is left out you do not take it for 0. Its default is 0.",
                {"found": f"{value} by default"})
        for value in ("one", "none")
    ),
    Mistake("zero_is_falsy", "Where pad_id is 0 you take it for missing: in `pad_id or ...` and `if pad_id` "
            "0 counts as False. Ask whether it is None, if you must.", {"found": "falsy zero"}),
    Mistake("same_object", "You compare with `is`, which asks for the same object and not for the same "
            "number. Python keeps one object each for small numbers only, up to 256. Compare with ==.",
            {"found": "same object"}),
    Mistake("ids_above", "You take every id above pad_id for real. Real ids may lie below it.",
            {"found": "larger"}),
    Mistake("ids_positive", "You take every positive id for real. The ids may be any integers, and so may "
            "pad_id.", {"found": "positive"}),
    Mistake("ids_below", "You take every id below pad_id for real. Real ids may lie above it.",
            {"found": "smaller"}, rare=True),
    Mistake("ids_above", "You take pad_id for real, and every id above it. Real is what differs from pad_id, "
            "on either side.", {"found": "not smaller"}, rare=True),
    Mistake("zero_hidden_too", "You hide the id 0 as well as pad_id. Where pad_id is another number, 0 is a "
            "real token.", {"found": "neither 0 nor pad_id"}, rare=True),
    Mistake("ids_positive", "You take only positive ids for real, beside comparing with pad_id. Where pad_id "
            "is another number, 0 and the ids below it are real: they may be any integers.",
            {"found": "positive and not pad_id"}, rare=True),
    *(
        Mistake("sign_dropped", "You compare ids without their sign, so that an id and its negative count as "
                "the same. Ids of either sign are valid. Compare them as they come.", {"found": found},
                rare=True)
        for found in ("size", "size of both")
    ),
    Mistake("ids_close", "You take an id that is close to pad_id for padding: np.isclose and np.allclose "
            "allow a difference that grows with the numbers. Ids are equal or not.", {"found": "close"}),
    Mistake(
        "counted",
        "You count the real tokens and show that many places from the left. That is right for padding on the "
        "right alone.",
        {"found": "counted"},
    ),
    Mistake("counted", "You count the real tokens and show that many places from the right. That is right "
            "for padding on the left alone.", {"found": "counted from the right"}),
    Mistake("until_first", "You hide everything from the first padding on. With padding on the left that is "
            "the whole sentence.", {"found": "until the first"}),
    Mistake("until_first", "You show the places before the first padding. With padding on the left that is "
            "nothing, and argmax finds place 0 where there is no padding too.",
            {"found": "until the argmax"}),
    Mistake("until_last", "You hide only the padding behind the last real token. Padding may stand on the "
            "left as well.", {"found": "until the last"}),
    Mistake("from_first_real", "You hide only the padding before the first real token. Padding may stand on "
            "the right as well.", {"found": "from the argmax"}),
    Mistake("between", "You show all from the first real token to the last. What equals pad_id between them "
            "is hidden too.", {"found": "between"}),
    Mistake("first_token_shown", "The first token is shown in every sentence, also where it is padding, as "
            "on the left.", {"found": "not the first"}),
    Mistake("last_token_hidden", "The last token is hidden in every sentence, also where it is real.",
            {"found": "not the last"}),
    Mistake("last_token_taken", "You take the last token of each sentence for the padding's id. It is given "
            "as pad_id.", {"found": "last token"}),
    Mistake("first_token_taken", "You take the first token of each sentence for the padding's id. It is "
            "given as pad_id.", {"found": "first token"}, rare=True),
    Mistake("sentences_mixed", "What is padding in one sentence stays hidden in the next: both write into "
            "the same mask. Make a new one for each.", {"found": "so far"}),
    *(
        Mistake("sentences_alike", _ALL_ALIKE, {"found": f"in {which}"})
        for which in ("the first", "all", "any")
    ),
    *(
        Mistake("narrow_ids", _NARROW, {"found": f"as {kind}"})
        for kind in ("uint8", "int8", "int16", "uint8 both", "int8 both", "int16 both", "int32 both",
                     "float16 both", "float32 both", "float64 both")
    ),
)  # fmt: skip


def _token_cases():
    right_padded = np.array([[5, 3, 8, 2, 0], [7, 4, 0, 0, 0], [6, 9, 1, 0, 0]])
    equal = "False is what equals pad_id, and nothing else. The ids may be any integers."
    return [
        Case("padding on the right, pad_id left out", (right_padded,)),
        Case("the sizes of the first case and other ids",
             (np.array([[3, 2, 3, 0, 0], [5, 8, 1, 6, 9], [5, 3, 8, 0, 0]]), 0),
             hint="One sentence has no padding here. Or is the mask of an earlier call kept?"),
        Case("the ids of the first case, pad_id 4", (right_padded, 4),
             hint="The padding is what equals pad_id. Or is the mask of an earlier call kept?"),
        Case("pad_id 9 and real tokens with ids 0, 1 and 12",
             (np.array([[0, 12, 9, 9], [1, 0, 5, 9]]), 9), hint="The padding is what equals pad_id."),
        Case("padding on the left", (np.array([[0, 0, 5, 3, 8, 2], [0, 7, 4, 1, 1, 3]]), 0),
             hint="Padding may stand on either side."),
        Case("padding on either side and a row of nothing else",
             (np.array([[3, 6, 4], [3, 3, 3], [5, 2, 3], [1, 4, 4], [3, 7, 3]]), 3),
             hint="A row may have no padding, or only padding."),
        Case("pad_id -1 and ids of either sign", (np.array([[-5, 0, 1, -1], [-1, -7, 2, 4]], np.int32), -1),
             hint=equal),
        Case("as many sentences as tokens", (np.array([[4, 0, 0], [2, 7, 0], [6, 1, 5]]), 0),
             hint="Where sizes agree, a mask on the wrong axis raises no error."),
        Case("one token", (np.array([[8]]), 0), hint=_ONE),
        Case("one sentence with pad_id in its middle too", (np.array([[2, 0, 7, 6, 0, 0, 0]]), 0),
             hint=equal),
        Case("three sentences, columns first in memory",
             (np.asfortranarray([[2, 0, 7, 0], [0, 1, 3, 4], [5, 6, 0, 0]]), 0), hint=equal),
        Case("three sentences of one token", (np.array([[4], [2], [3]]), 2), hint=_ONE),
        Case("the ids of a vocabulary of 128256, pad_id 128004",
             (np.array([[128004, 128003, 128005, 4, 62468], [0, 100000, 128004, 128004, 128004]]),
              128004), hint=equal),
        Case("ids of 256 and more", (np.array([[256, 65536, 512, 0], [2**32, 3, 0, 0]]), 0), hint=equal),
        Case("ids beyond 2**24, next to pad_id",
             (np.array([[2**24 + 1, 7, 2**24], [2**24 - 1, 1, 2]]), 2**24), hint=equal),
        Case("ids beyond 2**53, next to pad_id", (np.array([[2**53 + 1, 7, 2**53]]), 2**53), hint=equal),
    ]  # fmt: skip


def _combined_cases():
    long = np.full((1, 130), 7)
    long[0, [0, 128]] = 4
    return [
        *_token_cases(),
        Case("a sentence of 130 tokens", (long, 4),
             hint=_LONG),
    ]


padding_mask = _MaskExercise(
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
        Mistake("axes_in_front", "Your mask has one of its new axes in front of B. B comes first, then the "
                "two axes of length 1.", {"axes": "first in front"}),
        Mistake("axes_behind", "Your two new axes stand behind, so that the tokens lie where the heads are. "
                "They belong between B and L.", {"axes": "behind"}),
        Mistake("reshaped", "You turn the table of ids and then reshape it, which mixes sentences and "
                "places. Reshaping keeps the order in memory; new axes alone do what is asked.",
                {"axes": "mixed"}),
        *(
            Mistake("fixed_length", "You reshape to a length that is written into the code. B and L are the "
                    "numbers in the shape of the ids.", {"axes": length}, rare=True)
            for length in (5, 6, 8)
        ),
        Mistake("bytes_of_ids", "You read the memory of the ids as booleans: .view converts no number, and "
                "an id of eight bytes becomes eight entries. Compare the ids with pad_id.",
                {"axes": "bytes"}, rare=True),
        Mistake("all_shown", _ALL_SHOWN, {"found": "nowhere"}),
        Mistake("all_hidden", _ALL_HIDDEN, {"found": "everywhere"}),
        Mistake("repeated", "You write the mask out for every query. An axis of length 1 does that without "
                "the memory.", {"axes": "repeated"}),
        *_FORMS,
        _NOT,
    ),  # fmt: skip
    "Checked with padding on the right, on the left, on both sides and everywhere, with ids and pad_id of "
    "either sign, and with as many sentences as tokens. The two axes of length 1 stand for heads and "
    "queries.",
    (_different_entry,),
    axes="B and L are the numbers in the shape of the ids: one entry for each id. The axes of length 1 are "
    "for heads and queries; NumPy spreads the mask over them by itself.",
)

combined_mask = _MaskExercise(
    _combined_mask,
    _combined_cases,
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
                "both.", {"join": "or"}),
        Mistake("joined_by_xor", "You let a key be seen when it is either real or not in the future, and not "
                "both. It must be both.", {"join": "xor"}),
        Mistake("joined_by_equality", "You let a key be seen when the two masks agree. Where both are False, "
                "as for padding in the future, they agree too. Both must be True.", {"join": "equal"}),
        Mistake("one_truth_value", _ONE_TRUTH, {"join": "Python's and"}, rare=True),
        Mistake("no_causal", "The padding is hidden and the future is not. A key must be neither.",
                {"future": "all"}),
        Mistake("padding_mask_alone", "Your mask has one row for all queries, so it cannot be causal: each "
                "query needs its own.", {"future": "all", "shape": "keys"}),
        Mistake("causal_mask_alone", "Your mask is causal and the same for every sentence. It needs the "
                "padding of each.", {"found": "nowhere", "shape": "two"}),
        Mistake("no_padding", "The future is hidden and the padding is not. A key must be neither.",
                {"found": "nowhere"}),
        Mistake("strict", "Your queries do not see themselves: the diagonal is hidden. A real token sees "
                "itself.", {"future": "strict"}),
        Mistake("one_ahead", "Each of your queries also sees the next token, which it is to predict.",
                {"future": "ahead"}),
        Mistake("transposed", "Your queries see themselves and what comes after: the triangle lies on the "
                "wrong side.", {"future": "upper"}),
        *_PADS,
        Mistake("over_queries", "You hide the padding as queries, by rows. It must be hidden as keys, by "
                "columns; otherwise every real query that comes after it looks at it.", {"axes": "queries"}),
        *(
            Mistake("axes_missing", "The ids' comparison has shape (B, L) and meets the triangle (L, L) as "
                    "it is, so B lies where the queries are. Unless the two are equal that is an error.",
                    {"axes": "as they are", "shape": shape})
            for shape in ("four", "two")
        ),
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
            for to in ("all", "own", "causal", "first")
        ),
        *(
            Mistake(
                "padded_queries_opened",
                "You let a padded query see more than a real one in its place. The exercise does not treat "
                "padded queries specially: their outputs are thrown away later.",
                {"pad_rows": to},
            )
            for to in ("all", "own", "causal", "real")
        ),
        *(
            Mistake("small_positions", _IN_BYTES, {"future": kind}) for kind in ("int8", "int8 distances")
        ),
        Mistake("counted_from_first_real", "You count the queries from the first real token, and the keys "
                "from the first token. Behind padding on the left each query then sees too little. Compare "
                "places of one count.", {"future": "from the first real"}),
        Mistake("all_shown", _ALL_SHOWN, {"found": "nowhere", "future": "all"}),
        Mistake("all_hidden", _ALL_HIDDEN, {"found": "everywhere"}),
        Mistake("three_axes", "Your mask has shape (B, L, L). Without the axis for heads, B would lie where "
                "the heads are.", {"shape": "three"}),
        Mistake("squeezed", "You drop the axes of length 1: the one for heads, and that of a batch of one "
                "sentence. Both stay.", {"shape": "squeezed"}, rare=True),
        Mistake("sizes_swapped", "You read the ids as (L, B). Their shape is (B, L): a row for each "
                "sentence.", {"shape": "batch second"}, rare=True),
        Mistake("sizes_swapped", "Your triangle has the size of the batch. It has a row and a column for "
                "each token of a sentence: the second number in the shape of the ids.",
                {"future": "of the batch"}, rare=True),
        Mistake("one_mask_for_all", "Your mask has shape (L, L), with the padding of the first sentence "
                "alone. Each sentence needs its own.", {"shape": "two"}),
        Mistake("one_mask_for_all", "Your mask has the padding of the first sentence alone. Each sentence "
                "needs its own.", {"shape": "one sentence"}),
        Mistake("axes_in_front", "Your axis for heads stands in front of B. It comes behind it.",
                {"shape": "in front"}),
        Mistake("keys_down", "Your rows are keys and your columns are queries. Queries go down, keys across.",
                {"shape": "turned"}),
        Mistake("additive_twice", "You add two masks of -1e9. Where both hide, that makes -2e9, and with the "
                "lowest number of a type the sum is -inf. Join booleans first.", {"form": "two of -1e9"}),
        *_FORMS,
    ),  # fmt: skip
    "Checked with padding on the right, on the left, on both sides and everywhere, with ids and pad_id of "
    "either sign. A key is seen when it is real and not in the future. On the left, padding leaves the first "
    "rows empty: attention must be ready for them.",
    (_different_entry,),
    axes="B and L are the numbers in the shape of the ids, in this order. The axis of length 1 is for the "
    "heads; NumPy spreads the mask over them by itself.",
)

_CAUSAL_SOLUTION = """
import numpy as np

def causal_mask(n_query, n_key):
    query = np.arange(n_query)[:, None]      # a column
    key = np.arange(n_key)[None, :]          # a row
    return key <= query + n_key - n_query    # the last query stands at the last key
"""

_WINDOW_SOLUTION = """
import numpy as np

def window_mask(n, window):
    place = np.arange(n)
    gap = place[:, None] - place[None, :]    # how far key j lies behind token i
    return (gap >= 0) & (gap < window)
"""

_PADDING_SOLUTION = """
def padding_mask(tokens, pad_id=0):
    return (tokens != pad_id)[:, None, None, :]
"""

_COMBINED_SOLUTION = """
import numpy as np

def combined_mask(tokens, pad_id=0):
    length = tokens.shape[1]
    real = (tokens != pad_id)[:, None, None, :]            # (B, 1, 1, L): the same for every query
    past = np.tril(np.ones((length, length), dtype=bool))  # (L, L): the same for every sentence
    return real & past                                     # (B, 1, L, L)
"""

EXERCISES = (
    Exercise("causal_mask", "08", causal_mask, (
        "Draw the mask for 3 queries and 5 keys on paper. The three queries are the last three of five "
        "tokens: at which key does each of them stand?",
        "Query i stands at key i + n_key - n_query. With more queries than keys that is negative for the "
        "first ones: which keys do these see?",
        "Make a column of the queries' numbers and a row of the keys' numbers, and compare the row with the "
        "column shifted by n_key - n_query. The comparison gives booleans.",
    ), _CAUSAL_SOLUTION, "function"),
    Exercise("window_mask", "08", window_mask, (
        "How far behind token i does key j lie? Write this gap for each pair of 4 tokens into a table.",
        "Which gaps are inside a window of 1, and which inside a window of 3? What sign has the gap to a "
        "later key?",
        "The gap is a column of positions less a row of positions. Seen are the gaps that are at least 0 and "
        "smaller than the window: two comparisons, joined by &.",
    ), _WINDOW_SOLUTION, "function"),
    Exercise("padding_mask", "08", padding_mask, (
        "For a single sentence: which comparison gives True for every real token?",
        "That comparison gives shape (B, L). Scores have shape (B, H, Lq, L). Axes are matched from the "
        "right: where must B and L stand?",
        "Compare the ids with pad_id, then index the result with None at the two places between B and L.",
    ), _PADDING_SOLUTION, "function"),
    Exercise("combined_mask", "08", combined_mask, (
        "Two questions decide about key j: is it real, and is it at or before query i? Write a mask for "
        "each.",
        "The mask of padding has shape (B, 1, 1, L), the causal one (L, L). To which shape do they broadcast "
        "when you join them?",
        "Both are True where a key may be seen, so join them with &. Do nothing for padded queries or empty "
        "rows.",
    ), _COMBINED_SOLUTION, "function"),
)

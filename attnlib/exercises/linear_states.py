"""Lesson 20: how large a state is beside a cache, and a chunk that is read into it."""

from functools import partial
from itertools import product

import numpy as np

from attnlib.exercises.answers import numbers, short
from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.pieces import all_finite, first_wrong
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------- state and cache

_TOLD = {
    "keys_alone": "A cache holds a key and a value of each token, 2 d numbers. You count d.",
    "queries_too": "A cache holds a key and a value of each token, 2 d numbers. You count a query too, for "
                   "which nobody asks again.",
    "last_below": "Those are the last lengths at which the cache is still the smaller one, or as large. The "
                  "first at which it is larger are asked for.",
    "bytes_ignored": "In (b) you compare numbers. Each of the state takes 4 bytes, each of the cache 2.",
    "bytes_swapped": "In (b) the state has the larger numbers, 4 bytes each, and the cache 2.",
    "quarter": "In (c) you make only the state smaller, to a quarter. At half the width a token's key and "
               "value have half as many numbers too.",
    "squared_cache": "You let a token have d * d numbers in the cache. It has a key and a value.",
}  # fmt: skip
_ASKED = (
    "The state has d * d numbers in S and d in z, the cache 2 d a token, and d is 128.",
    "The state's numbers take 4 bytes each, the cache's 2.",
    "Here d is 64, for queries, keys and values.",
)


def _lengths(per="", last="", size="", narrow=""):
    """The three lengths, with a mistake of each kind."""
    def first(d, state_bytes=1, cache_bytes=1, width=None):
        width = width or d
        token = {"": 2 * width, "keys_alone": width, "queries_too": 3 * width,
                 "squared_cache": width**2}[per]  # fmt: skip
        return (d * d + d) * state_bytes // (token * cache_bytes) + (not last)

    pair = {"": (4, 2), "bytes_ignored": (1, 1), "bytes_swapped": (2, 4)}[size]
    return np.array([first(128), first(128, *pair), first(64, width=128 if narrow else 64)])


def _ways():
    """Every way of counting, those with the fewest mistakes first."""
    ways = product(("", "keys_alone", "queries_too", "squared_cache"), ("", "last_below"),
                   ("", "bytes_ignored", "bytes_swapped"), ("", "quarter"))  # fmt: skip
    return sorted(ways, key=lambda way: sum(map(bool, way)))


def state_and_cache(answer):
    """The first lengths at which a cache is larger than a state: in numbers, in bytes, at half the width."""
    given, complaint = numbers(answer, (3,), "your answer")
    if complaint:
        return complaint
    if (given != given.round()).any() or (given < 1).any():
        return wrong(f"Tokens come in whole numbers, at least 1; got {short(given.tolist())}. Where the two "
                     "are equal at a half, which is the first whole length above?", "no_whole_number")
    if (given == _lengths()).all():
        return right(
            "The state has 128 * 128 + 128 = 16,512 numbers and the cache 256 a token: level at 64.5. With "
            "4 bytes against 2 they are level at 129, so 130 is the first. In numbers a state is worth (d + "
            "1) / 2 tokens, so half the width makes it half as many. From there on the state never grows."
        )
    if (given == (65, 129, 33)).all():
        return wrong(
            "(a) and (c) are right. In (b) both take 66,048 bytes at 129 tokens, so the cache is not yet the "
            "larger one. Or did you leave z out? It is 128 numbers more beside the 128 by 128 of S.",
            "as_large",
        )
    if (given == (64, 128, 32)).all():
        return wrong("There d * d numbers of S and the cache are level. The state has z too, and the first "
                     "length at which the cache is larger is asked for.", "without_z")
    if (given == (16512, 66048, 4160)).all() or given[0] in (16384, 16512):
        return wrong("That is how much the state holds. How many tokens does a cache need for as much?",
                     "size_of_state")
    for way in _ways():
        if 1 <= sum(map(bool, way)) <= 2 and (given == _lengths(*way)).all():
            names = [name for name in way if name]
            return wrong(" ".join(_TOLD[name] for name in names), " and ".join(names))
    for part, truth, name, told in zip(given, _lengths(), "abc", _ASKED, strict=True):
        if part != truth:
            side = "still the smaller one, or as large" if part < truth else "larger, and so it is before"
            return wrong(f"({name}): at {part:g} tokens the cache is {side}. {told}")
    return None


# ------------------------------------------------------------- reading a chunk


def _feed(function, q, k, v, calls):
    """The outputs of one or two sequences, read in turns, and the states at the end.

    `calls` has (sequence, number of tokens) for each call; the second sequence is the first, read backwards.
    Both begin with the same two arrays of zeros; two sequences come back joined along the batch. What is no
    output and state, or an output of another shape, comes back as it is.
    """
    sequences = [(q, k, v), tuple(a[:, ::-1] for a in (q, k, v))]
    empty = np.zeros((*q.shape[:-2], q.shape[-1], v.shape[-1])), np.zeros((*q.shape[:-2], q.shape[-1]))
    states, outputs, read = [empty, empty], [[], []], [0, 0]
    for which, length in calls:
        at = read[which]
        read[which] += length
        chunk = (a[:, at : at + length] for a in sequences[which])
        result = function(states[which], *chunk)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            return result
        output, states[which] = result
        state = states[which]
        if not isinstance(state, (tuple, list)) or len(state) != 2 or not isinstance(output, np.ndarray):
            return result
        if output.shape != (len(q), length, v.shape[-1]):
            return result
        outputs[which].append(output)
    used = sorted({which for which, _ in calls})
    out = np.concatenate([np.concatenate(outputs[which], 1) for which in used])
    return out, tuple(np.concatenate(parts) for parts in zip(*(states[which] for which in used), strict=True))


def _phi(x, how):
    y = np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))
    if how == "scaled":
        return _phi(x / np.sqrt(x.shape[-1]), "right")
    return {"right": y, "none": x, "relu": np.maximum(x, 0), "twice": y + 1}[how]


@np.errstate(all="ignore")
def _read(state, q, k, v, *, q_map="right", k_map="right", past="before", pairs="past", above="both",
          below="right", state_map="right", update="both", memory="new", order="right"):  # fmt: skip
    S, z = state
    a, b = _phi(q, q_map), _phi(k, k_map)
    at, n = np.arange(k.shape[1])[:, None], k.shape[1]
    kept = {"right": b, "raw": k, "queries": a, "last": b * (at == n - 1), "first": b * (at == 0),
            "mean": b / n}[state_map]  # fmt: skip
    more_S, more_z = kept.swapaxes(-1, -2) @ v, kept.sum(-2)
    if memory == "in_place":
        S += more_S
        z += more_z
        S_new, z_new = S, z
        S, z = S - more_S, z - more_z
    else:
        S_new, z_new = S + more_S, z + more_z
    if memory == "replaced":
        S_new, z_new = more_S, more_z
    row, column = np.arange(q.shape[1])[:, None], np.arange(q.shape[1])
    seen = {"past": column <= row, "all": column <= column + 0 * row, "strict": column < row,
            "ahead": column <= row + 1, "future": column >= row, "own": column == row}[pairs]  # fmt: skip
    inside = np.where(seen, a @ b.swapaxes(-1, -2), 0.0)
    S_read, z_read = {"before": (S, z), "after": (S_new, z_new), "after_above": (S_new, z),
                      "after_below": (S, z_new)}[past]  # fmt: skip
    through, sums = a @ S_read, (a @ z_read[..., None])
    top = {"both": lambda: inside @ v + through, "pairs": lambda: inside @ v,
           "state": lambda: through}[above]()  # fmt: skip
    bottom = {
        "right": lambda: inside.sum(-1, keepdims=True) + sums, "pairs": lambda: inside.sum(-1, keepdims=True),
        "state": lambda: sums, "whole": lambda: a @ z_new[..., None], "none": lambda: 1.0,
        "split": lambda: 1.0, "length": lambda: float(q.shape[1]),
        "last": lambda: (a @ z_new[..., None])[:, -1:], "columns": lambda: inside.sum(-2)[..., None] + sums,
    }[below]()  # fmt: skip
    out = top / bottom
    if below == "split":
        out = inside @ v / inside.sum(-1, keepdims=True) + np.nan_to_num(through / sums)
    state = {"both": (S_new, z_new), "S": (S_new, z), "z": (S, z_new), "none": (S, z),
             "exchanged": (z_new, S_new)}[update]  # fmt: skip
    return {"right": (out, state), "state_first": (state, out), "alone": out, "three": (out, *state)}[order]


def _driven(q, k, v, calls, **choices):
    return _feed(partial(_read, **choices), q, k, v, calls)


def _chunks():
    rng = np.random.default_rng(201)

    def case(name, b, length, d, dv, calls, hint="", size=1.0, kind=np.float64):
        q, k = rng.normal(size=(2, b, length, d)) * size
        calls = tuple(call if isinstance(call, tuple) else (0, call) for call in calls)
        return Case(name, (*(a.astype(kind) for a in (q, k, rng.normal(size=(b, length, dv)))), calls),
                    hint=hint)

    return [
        case("5 tokens in one chunk", 2, 5, 3, 4, [5],
             hint="With an empty state this is causal linear attention. Row 0 is v_0."),
        case("3 tokens one by one", 2, 3, 3, 4, [1, 1, 1],
             hint="A chunk of one token is a step of the recurrence: what comes of the state, what of the "
             "token?"),
        case("8 tokens as 2, 3, 1 and 2", 2, 8, 3, 4, [2, 3, 1, 2],
             hint="Each row sees what came before its chunk through the state, and its own chunk up to "
             "itself."),
        case("chunks of 4 and 1", 1, 5, 4, 2, [4, 1]),
        case("all sizes 3", 3, 6, 3, 3, [3, 3]),
        case("as wide as long", 2, 4, 4, 5, [4]),
        case("the sizes of the third case and other numbers", 2, 8, 3, 4, [2, 3, 1, 2]),
        case("large numbers", 2, 6, 3, 2, [2, 4], size=4.0),
        case("40 tokens in chunks of 8", 1, 40, 3, 2, [8] * 5),
        case("float32", 2, 6, 4, 3, [4, 2], kind=np.float32),
        case("two sequences in turn", 2, 6, 3, 4, [(0, 2), (1, 3), (0, 4), (1, 3)],
             hint="Both begin with the same two arrays of zeros. Is anything written into them?"),
    ]


_STATE_READ = "The state is read after the chunk has been added to it. "
_PAIRS = ("Inside the chunk nothing is masked (or all of it is read through the new state), so a token sees "
          "those after it. ")
_WHOLE = "The denominator is taken from the z of the whole chunk, for every row. "

_FAULTS = (
    Mistake("unmended", _STATE_READ + _PAIRS + _WHOLE + "These are the three faults of the text.",
            {"past": "after", "pairs": "all", "below": "whole"}, things=3),
    Mistake("counted_twice", _STATE_READ + "Its own tokens then count twice, in the numerator and in the "
            "denominator. Read what was there before.", {"past": "after"}),
    Mistake("counted_twice", "The numerator reads the new S, in which the chunk is already: its tokens count "
            "twice there, and once in the denominator.", {"past": "after_above"}),
    Mistake("counted_twice", "The denominator reads the new z, in which the chunk is already: its tokens "
            "count twice there, and once in the numerator.", {"past": "after_below"}),
    Mistake("no_mask_inside", _PAIRS + "Keep the pairs with j <= i, before the product with v and before the "
            "sum.", {"pairs": "all"}),
    Mistake("z_of_the_chunk", _WHOLE + "Row i divides by the weights it has summed: its pairs in the chunk, "
            "and the z from before.", {"below": "whole"}),
    Mistake("strict", "A token does not see itself. It sees the chunk up to and with itself.",
            {"pairs": "strict"}),
    Mistake("one_ahead", "A token also sees the one after it.", {"pairs": "ahead"}),
    Mistake("future", "Inside the chunk a token sees itself and what comes after it: the mask is turned "
            "round.", {"pairs": "future"}),
    Mistake("own_only", "Inside the chunk a token sees itself alone. It sees the earlier ones of its chunk "
            "too.", {"pairs": "own"}),
    Mistake("state_not_read", "What came before the chunk is lost: the state is not read. Add to the pairs "
            "what it holds, in the numerator and in the denominator.", {"above": "pairs", "below": "pairs"}),
    Mistake("state_not_read", "The numerator lacks what came before the chunk, and the denominator has it.",
            {"above": "pairs"}),
    Mistake("denominator_of_the_chunk", "The denominator sums the pairs of the chunk alone. The state's "
            "share, phi(q) . z, belongs to it.", {"below": "pairs"}),
    Mistake("denominator_of_the_state", "The denominator has what came before the chunk alone. The pairs of "
            "the chunk belong to it.", {"below": "state"}),
    Mistake("pairs_not_read", "Only the state from before is read, so a chunk never sees itself.",
            {"above": "state", "below": "state"}),
    Mistake("pairs_not_read", "The numerator lacks the pairs of the chunk, and the denominator has them.",
            {"above": "state"}),
    Mistake("two_averages", "You divide the chunk's part by the chunk's weights, and the state's by the "
            "state's, and add two averages. Add the numerators, add the denominators, then divide once.",
            {"below": "split"}),
    Mistake("no_denominator", "Nothing is divided. An output is an average of values.", {"below": "none"}),
    Mistake("denominator_counts", "You divide by the number of tokens. Divide by the sum of weights.",
            {"below": "length"}),
    Mistake("denominator_of_last", "You divide by the last token's sum. Each row has its own.",
            {"below": "last"}),
    Mistake("denominator_of_columns", "The pairs are summed over the queries. Sum each row over its keys.",
            {"below": "columns"}),
    Mistake("keys_not_mapped", "The keys are raw. Queries and keys go through the feature map.",
            {"k_map": "none", "state_map": "raw"}),
    Mistake("keys_not_mapped", "Raw keys are added to the state. It sums phi(k).", {"state_map": "raw"}),
    Mistake("queries_not_mapped", "The queries are raw. Queries and keys go through the feature map.",
            {"q_map": "none"}),
    Mistake("not_mapped", "Queries and keys are raw. Both go through the feature map.",
            {"q_map": "none", "k_map": "none"}),
    Mistake("other_map", "Your feature map is relu. It is elu(x) + 1, which is exp(x) below 0.",
            {"q_map": "relu", "k_map": "relu"}),
    Mistake("other_map", "Your feature map is elu(x) + 2. Is the 1 added twice?",
            {"q_map": "twice", "k_map": "twice"}),
    Mistake("scaled", "The queries are divided by the root of the width before the map. There is no scale "
            "here.", {"q_map": "scaled"}),
    Mistake("queries_in_state", "Queries are added to the state. It keeps keys, phi(k) times v.",
            {"state_map": "queries"}),
    Mistake("last_token_kept", "Only the chunk's last token is added to the state. All of them are.",
            {"state_map": "last"}),
    Mistake("first_token_kept", "Only the chunk's first token is added to the state. All of them are.",
            {"state_map": "first"}),
    Mistake("mean_kept", "The chunk's mean is added to the state. The state holds sums.",
            {"state_map": "mean"}),
    Mistake("state_replaced", "The new state holds this chunk alone. Add it to what was there.",
            {"memory": "replaced"}),
    Mistake("state_unchanged", "The state comes back as it was: the next chunk will know nothing of this "
            "one.", {"update": "none"}),
    Mistake("z_forgotten", "S grows, and z comes back as it was.", {"update": "S"}),
    Mistake("S_forgotten", "z grows, and S comes back as it was.", {"update": "z"}),
    Mistake("in_place", "You add to the arrays of the state that you were given. Whoever gave it may have "
            "another text that begins with them. Make new ones.", {"memory": "in_place"}),
    Mistake("order_of_state", "Your new state is (z, S). It is (S, z), as it came.",
            {"update": "exchanged"}),
    Mistake("order_of_results", "You return the state first. The output comes first.",
            {"order": "state_first"}),
    Mistake("state_not_returned", "Only the output comes back, so the next chunk knows nothing of this one.",
            {"order": "alone"}),
    Mistake("three_results", "Return two things, the output and the state; the state is a pair.",
            {"order": "three"}),
)  # fmt: skip

read_chunk = FunctionExercise(
    _driven, _chunks, _FAULTS,
    "Checked in one chunk, token by token, in chunks of mixed sizes, with two sequences in turn, and the "
    "state too. A chunk of one is the recurrence, a chunk of everything the masked table: the same sums.",
    properties=(
        in_torch, few_digits,
        all_finite("The first token of all has an empty state before it: what is its denominator made of?"),
        first_wrong("chunk", "what is added to it?", "What should it know of what came before its chunk?"),
    ),
    drive=_feed, rtol=3e-4, atol=2e-5,
)  # fmt: skip

_LENGTHS_SOLUTION = """
answer = []
for d, state_bytes, cache_bytes in ((128, 1, 1), (128, 4, 2), (64, 1, 1)):
    state = (d * d + d) * state_bytes                       # S and z
    token = 2 * d * cache_bytes                             # a key and a value
    answer.append(state // token + 1)                       # the first length above
"""

_CHUNK_SOLUTION = '''
import numpy as np


def read_chunk(state, q, k, v):
    def phi(x):
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    S, z = state                                            # what came before: (B, d, dv), (B, d)
    q, k = phi(q), phi(k)
    pairs = np.tril(q @ k.swapaxes(-1, -2))                 # (B, T, T) inside the chunk, j <= i
    above = pairs @ v + q @ S
    below = pairs.sum(-1, keepdims=True) + q @ z[..., None]
    return above / below, (S + k.swapaxes(-1, -2) @ v, z + k.sum(-2))
'''

EXERCISES = (
    Exercise("state_and_cache", "20", state_and_cache, (
        "Write both as formulas in d: the numbers of S and z together, and the numbers that a cache takes "
        "for one token.",
        "The state has d * d + d numbers, the cache 2 d for each token. Divide. In (b) multiply each by its "
        "bytes first.",
        "In (a) the quotient is 64.5 tokens, in (b) it is 129, in (c) 32.5. At which whole number is the "
        "cache larger for the first time?",
    ), _LENGTHS_SOLUTION, "prediction"),
    Exercise("read_chunk", "20", read_chunk, (
        "Take one chunk of two tokens and an empty state, and follow row 0. Which keys should it see, and "
        "which does it see?",
        "A row's sums have two parts: what came before the chunk, from the state as it was given, and the "
        "chunk up to the row itself, from pairs. Numerator and denominator have both.",
        "Mask the pairs with j <= i. Read S and z before anything is added. The denominator is the sum of a "
        "row's pairs and phi(q) . z. Then make the new state.",
    ), _CHUNK_SOLUTION, "function"),
)  # fmt: skip

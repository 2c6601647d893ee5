"""Lesson 23: a block of any length that is read into a state with decay."""

from functools import partial

import numpy as np

from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.pieces import all_finite, first_wrong


def _feed(function, q, k, v, slopes, calls):
    """The outputs of one or two texts, read in turns, and their states at the end.

    `calls` has (text, number of tokens) for each call; the second text is the first, read backwards. Both
    begin with the same array of zeros; two come back joined along the heads. What is no output and state, or
    an output of another shape, comes back as it is.
    """
    texts = [(q, k, v), tuple(a[:, ::-1] for a in (q, k, v))]
    empty = np.zeros((len(q), q.shape[-1], v.shape[-1]), q.dtype)
    states, outputs, read = [empty, empty], [[], []], [0, 0]
    for which, length in calls:
        at = read[which]
        read[which] += length
        block = (a[:, at : at + length] for a in texts[which])
        result = function(states[which], *block, slopes)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            return result
        output, states[which] = result
        fits = all(isinstance(part, np.ndarray) for part in result) and states[which].shape == empty.shape
        if not fits or output.shape != (len(q), length, v.shape[-1]):
            return result
        outputs[which].append(output)
    used = sorted({which for which, _ in calls})
    out = np.concatenate([np.concatenate(outputs[which], 1) for which in used])
    return out, np.concatenate([states[which] for which in used])


@np.errstate(all="ignore")
def _read(state, q, k, v, slopes, *, past="right", pairs="past", inside="right", fades="right", keys="right",
          reads="before", memory="new", rate="right", scale="none", divide="none", maps="none",
          order="right"):  # fmt: skip
    m = q.shape[1]
    gamma = {
        "right": slopes, "first": slopes * 0 + slopes[0], "mean": slopes * 0 + slopes.mean(), "sign": -slopes,
        "base_2": slopes * np.log(2), "kept": -np.log(np.maximum(slopes, 1e-300)), "none": slopes * 0,
        "kept_1": -np.log(np.maximum(1 - slopes, 1e-300)),
    }[rate][:, None, None]  # fmt: skip
    if maps == "silu":
        q, k, v = (x / (1 + np.exp(-x)) for x in (q, k, v))
    elif maps == "elu":
        q, k = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (q, k))
    if scale == "root":
        q = q / np.sqrt(q.shape[-1])
    r = np.arange(1, m + 1)[:, None]
    ago = r - r.T
    seen = {"past": ago >= 0, "all": ago == ago, "strict": ago > 0, "future": ago <= 0,
            "own": ago == 0}[pairs]  # fmt: skip
    faded = {"right": np.exp(-gamma * np.abs(ago)), "none": np.ones_like(gamma * ago),
             "one_more": np.exp(-gamma * (np.abs(ago) + 1)),
             "apart": np.exp(-gamma * r) * np.exp(gamma * r.T)}[inside]  # fmt: skip
    table = np.where(seen, q @ k.swapaxes(-1, -2) * faded, 0.0)
    at_key = {"right": m - r, "none": 0 * r, "reversed": r, "one_more": m - r + 1, "one_less": m - r - 1,
              "whole": 0 * r + m, "from_0": r - 1}[keys]  # fmt: skip
    steps = {"right": m, "none": 0, "one": 1, "one_more": m + 1, "one_less": m - 1}[fades]
    more = (np.exp(-gamma * at_key) * k).swapaxes(-1, -2) @ v
    old = state
    new = np.exp(-gamma * steps) * state + more
    if memory == "in_place":
        old = state.copy()
        state *= np.exp(-gamma * steps)
        state += more
        new = state
    elif memory == "replaced":
        new = more
    elif memory == "unchanged":
        new = state
    from_state = {"right": r, "from_0": r - 1, "none": 0 * r, "whole": 0 * r + m, "back": m - r,
                  "one_more": r + 1}[past]  # fmt: skip
    read = {"before": old, "after": new, "not": 0 * old}[reads]
    out = table @ v + np.exp(-gamma * from_state) * (q @ read)
    if divide == "weights":
        out = out / table.sum(-1, keepdims=True)
    elif divide == "norm":
        out = out / np.sqrt((out * out).mean(-1, keepdims=True) + 1e-6)
    elif divide == "length":
        out = out / m
    return {"right": (out, new), "state_first": (new, out), "alone": out}[order]


def _driven(q, k, v, slopes, calls, **choices):
    return _feed(partial(_read, **choices), q, k, v, slopes, calls)


def _texts():
    rng = np.random.default_rng(231)

    def case(name, slopes, length, d, dv, calls, hint="", size=1.0, kind=np.float64):
        slopes = np.array(slopes, kind)
        q, k = rng.normal(size=(2, len(slopes), length, d)) * size
        v = rng.normal(size=(len(slopes), length, dv))
        calls = tuple(call if isinstance(call, tuple) else (0, call) for call in calls)
        return Case(name, (*(a.astype(kind) for a in (q, k, v)), slopes, calls), hint=hint)

    return [
        case("5 tokens in one block", [0.5, 0.2], 5, 3, 4, [5],
             hint="With a state of zeros the outputs have only the pairs inside, each with its own decay; "
             "and the new state only the block's own keys, each as old as it is when the block ends."),
        case("3 tokens one by one", [0.5, 0.2], 3, 3, 4, [1, 1, 1],
             hint="A block of one token is a step of the recurrence: the state fades once, then the token is "
             "added, then it is read."),
        case("8 tokens as 3, 3 and 2", [0.25, 0.1, 0.6], 8, 3, 4, [3, 3, 2],
             hint="What is r, what is m, and what is 1 for the first token of a block? The last block is "
             "shorter."),
        case("blocks of 4 and 1", [0.4], 5, 4, 2, [4, 1]),
        case("blocks of 1 and 4", [0.4, 0.7], 5, 4, 2, [1, 4]),
        case("all sizes 3", [0.3, 0.2, 0.1], 6, 3, 3, [3, 3]),
        case("two heads, one of which never forgets", [0.0, 0.5], 7, 3, 4, [2, 5]),
        case("the sizes of the third case and other numbers", [0.25, 0.1, 0.6], 8, 3, 4, [3, 3, 2]),
        case("a slope of 9 and a block of 100 tokens", [9.0, 0.01], 130, 2, 3, [100, 30],
             hint="e^(9 * 100) is beyond every float. Which of your exponents are large and positive?"),
        case("40 tokens in blocks of 8", [0.05, 0.02], 40, 3, 2, [8] * 5),
        case("float32", [0.5, 0.1], 6, 4, 3, [4, 2], kind=np.float32),
        case("two texts in turn", [0.3, 0.2], 6, 3, 4, [(0, 2), (1, 3), (0, 4), (1, 3)],
             hint="Both begin with the same array of zeros. Is anything written into it?"),
    ]


_FAULTS = (
    Mistake("starts_at_one", "The first token of a block reads the state as it was. Since the last token "
            "before it one step has passed: r counts from 1.", {"past": "from_0"}),
    Mistake("state_read_undecayed", "What is read from the state has not faded on the way: row r of the "
            "block comes r steps after it.", {"past": "none"}),
    Mistake("state_read_undecayed", "All rows read the state faded by the whole block. Row r comes r steps "
            "after it.", {"past": "whole"}),
    Mistake("past_backwards", "What is read from the state fades by m - r steps: the first row most, the "
            "last not at all. It is r steps.", {"past": "back"}),
    Mistake("starts_at_two", "What is read from the state fades by one step too many.", {"past": "one_more"}),
    Mistake("no_mask_inside", "Inside the block a token also sees those after it.", {"pairs": "all"}),
    Mistake("strict", "A token does not see itself.", {"pairs": "strict"}),
    Mistake("future", "Inside the block a token sees itself and those after it: the mask is turned round.",
            {"pairs": "future"}),
    Mistake("own_only", "Inside the block a token sees itself alone.", {"pairs": "own"}),
    Mistake("pairs_undecayed", "The pairs inside the block have no decay. Pair r, c fades by r - c steps.",
            {"inside": "none"}),
    Mistake("pairs_one_more", "The pairs fade by one step too many: one that sees itself has lost nothing.",
            {"inside": "one_more"}),
    Mistake("overflow", "You take e^(slope c) by itself, which overflows for a steep slope or a long block. "
            "Take the exponential of the difference.", {"inside": "apart"}),
    Mistake("state_does_not_fade", "The old state is added as it was. In a block of m tokens it fades by m "
            "steps.", {"fades": "none"}),
    Mistake("state_fades_once", "The old state fades by one step for a block. It is one for each token, m.",
            {"fades": "one"}),
    Mistake("state_fades_wrongly", "The old state fades by one step too many.", {"fades": "one_more"}),
    Mistake("state_fades_wrongly", "The old state fades by one step too few.", {"fades": "one_less"}),
    Mistake("keys_undecayed", "The block's keys enter the state unfaded. Key c is m - c steps old when the "
            "block ends.", {"keys": "none"}),
    Mistake("keys_reversed", "The block's keys fade by c steps: the last most of all. At the end of the "
            "block key c is m - c steps old.", {"keys": "reversed"}),
    Mistake("keys_reversed", "The block's keys fade by their place, counted from 0. At the end of the block "
            "key c is m - c steps old, with c from 1.", {"keys": "from_0"}),
    Mistake("keys_whole", "All of the block's keys fade by m steps, as what was there before the block does. "
            "Key c came in the midst of it, and is m - c steps old.", {"keys": "whole"}),
    Mistake("keys_one_more", "The block's keys fade by one step too many: the last has just been read, and "
            "has lost nothing.", {"keys": "one_more"}),
    Mistake("keys_one_less", "The block's keys fade by one step too few, so the last one has grown.",
            {"keys": "one_less"}),
    Mistake("counted_twice", "The state is read after the block has been added to it, so its tokens count "
            "twice.", {"reads": "after"}),
    Mistake("state_not_read", "What came before the block is lost: the state is not read.", {"reads": "not"}),
    Mistake("state_replaced", "The new state holds this block alone. Add what has faded of the old.",
            {"memory": "replaced"}),
    Mistake("state_unchanged", "The state comes back as it was.", {"memory": "unchanged"}),
    Mistake("in_place", "You write into the state that you were given. Another text may begin with it. Make "
            "a new array.", {"memory": "in_place"}),
    Mistake("one_slope_for_all", "All heads fade with the first one's slope.", {"rate": "first"}),
    Mistake("one_slope_for_all", "All heads fade with the mean of the slopes.", {"rate": "mean"}),
    Mistake("grows", "Your exponents are positive: what is old becomes louder. It is e^(-slope).",
            {"rate": "sign"}),
    Mistake("base_2", "You take powers of 2. What is kept in a step is e^(-slope).", {"rate": "base_2"}),
    Mistake("slope_as_decay", "You take the slope for what is kept in a step. That is e^(-slope).",
            {"rate": "kept"}),
    Mistake("slope_as_decay", "You take 1 - slope for what is kept in a step. That is e^(-slope).",
            {"rate": "kept_1"}),
    Mistake("no_decay", "Nothing fades: this is plain linear attention.", {"rate": "none"}),
    Mistake("scaled", "The queries are divided by the root of the width. There is no scale here.",
            {"scale": "root"}),
    Mistake("denominator", "You divide by the sum of the products in the block. There is no denominator; a "
            "norm comes later, in the layer.", {"divide": "weights"}),
    Mistake("denominator", "You divide by the number of tokens. There is no denominator.",
            {"divide": "length"}),
    Mistake("normed", "You norm the output. The norm belongs to the layer, after all heads.",
            {"divide": "norm"}),
    Mistake("mapped", "You apply silu to queries, keys and values. The layer has done that before it calls.",
            {"maps": "silu"}),
    Mistake("mapped", "You apply elu(x) + 1 to queries and keys. Here they are taken as they come.",
            {"maps": "elu"}),
    Mistake("order_of_results", "You return the state first. The output comes first.",
            {"order": "state_first"}),
    Mistake("state_not_returned", "Only the output comes back, so the next block knows nothing of this one.",
            {"order": "alone"}),
)  # fmt: skip

read_block = FunctionExercise(
    _driven, _texts, _FAULTS,
    "Checked in one block, token by token, in blocks of mixed lengths, with a head that never forgets and "
    "one that forgets at once, with two texts in turn, and the state too. A block of one is the recurrence, "
    "a block of everything the table.",
    properties=(
        in_torch, few_digits, all_finite("Is the exponential taken of something large and positive?"),
        first_wrong("block", "what fades by how many steps?",
                    "Is the state read wrongly, or was it left wrong?"),
    ),
    drive=_feed, rtol=3e-4, atol=2e-5,
)  # fmt: skip

_SOLUTION = '''
import numpy as np


def read_block(state, q, k, v, slopes):
    slopes, m = slopes[:, None, None], q.shape[1]
    r = np.arange(1, m + 1)[:, None]                        # (m, 1), from 1
    pairs = np.tril(q @ k.swapaxes(-1, -2) * np.exp(-slopes * abs(r - r.T)))
    out = pairs @ v + np.exp(-slopes * r) * (q @ state)     # the state is r steps old
    kept = np.exp(-slopes * (m - r)) * k                    # at the end of the block
    return out, np.exp(-slopes * m) * state + kept.swapaxes(-1, -2) @ v
'''

EXERCISES = (
    Exercise("read_block", "23", read_block, (
        "Three things fade: the pairs inside, what is read from the state, and what is left for the next "
        "block. How many steps old is each?",
        "With places r and c from 1 to m: a pair by r - c, what row r reads from the state by r, key c in "
        "the new state by m - c, the old state by m.",
        "Give the slopes two more axes, slopes[:, None, None], and r the shape (m, 1). Then r - r.T is the "
        "table of steps; keep what is not above its diagonal. Read the state before you make the new one.",
    ), _SOLUTION, "function"),
)  # fmt: skip

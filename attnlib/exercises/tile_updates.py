"""Attention over keys that come a block at a time and are gone, of lesson 19."""

from functools import partial

import numpy as np

from attnlib.exercises.calls import is_tensor
from attnlib.exercises.common import few_digits
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but


@np.errstate(all="ignore")
def _update(
    state, k, v, *, scale="width", axis=-1, top="row", block="softmax", of_block="lse", weights="right",
    weighed="lse", merged="right", kept="q",
):  # fmt: skip
    q, out, lse = state
    d = q.shape[1]
    scores = q @ k.T
    factor = {"width": d**-0.5, "none": 1.0, "linear": 1 / d, "times": d**0.5, "keys": len(k) ** -0.5,
              "values": v.shape[1] ** -0.5}[scale]  # fmt: skip
    raw, scores = scores, scores * factor
    m = {"row": scores.max(axis, keepdims=True), "all": scores.max(), "none": 0.0}[top]
    e = np.exp(scores - m)
    total = e.sum(axis, keepdims=True)
    new = {"softmax": e / total, "not_divided": e, "mean": np.full(e.shape, 1 / len(k))}[block] @ v
    row = e.sum(-1)
    m = np.broadcast_to(m, scores.shape)[:, 0]
    new_lse = {
        "lse": m + np.log(row), "no_max": np.log(row), "max": m, "sum": row,
        "base_2": (m + np.log(row)) / np.log(2),
        "unscaled": raw.max(-1) + np.log(np.exp(raw - raw.max(-1, keepdims=True)).sum(-1)),
        "minus": np.log(row) - m,
    }[of_block]  # fmt: skip
    both = np.logaddexp(lse, new_lse)
    a, b = _weights(weights, lse, m if weighed == "max" else new_lse, both)
    a, b = (np.broadcast_to(x, lse.shape)[:, None] for x in (a, b))
    empty = np.isneginf(lse)[:, None]
    if weights.endswith("_after_the_first"):
        a, b = np.where(empty, 0.0, a), np.where(empty, 1.0, b)
    result = a * out + b * new
    first = np.isneginf(lse)
    merged_lse = {
        "right": both, "sum": np.where(first, new_lse, lse + new_lse), "max": np.maximum(lse, new_lse),
        "newest": new_lse, "oldest": np.where(first, new_lse, lse),
        "mean": np.where(first, new_lse, (lse + new_lse) / 2), "denominator": np.exp(both),
        "naive": np.log(np.exp(lse) + np.exp(new_lse)), "base_2": both / np.log(2), "never": lse,
        "above_the_maximum": both - np.maximum(lse, m),
    }[merged]  # fmt: skip
    return (q * factor if kept == "scaled" else q), result, merged_lse


def _weights(name, old, new, both):
    name = name.removesuffix("_after_the_first")
    half = np.full(old.shape, 0.5)
    if name == "naive":
        a, b = np.exp(old), np.exp(new)
        return a / (a + b), b / (a + b)
    if name == "base_2":
        base = np.logaddexp2(old, new)
        return np.exp2(old - base), np.exp2(new - base)
    if name == "one_for_all":
        a, b = (np.logaddexp.reduce(x) for x in (old, new))
        return np.exp(a - np.logaddexp(a, b)), np.exp(b - np.logaddexp(a, b))
    if name == "linear":
        return old / (old + new), new / (old + new)
    top = np.maximum(old, new)
    return {
        "right": (np.exp(old - both), np.exp(new - both)),
        "swapped": (np.exp(new - both), np.exp(old - both)),
        "mean": (half, half),
        "added": (half * 2, half * 2),
        "newest": (half * 0, half * 2),
        "oldest": (half * 2, half * 0),
        "from_the_larger": (np.exp(old - top), np.exp(new - top)),
        "old_only": (np.exp(old - both), half * 2),
        "new_only": (half * 2, np.exp(new - both)),
        "inverted": (np.exp(both - old), np.exp(both - new)),
    }[name]


def _feed(function, q, k, v, sizes, two):
    """Blocks one after the other; two states take turns. Outputs and log-sum-exps after every block."""
    streams = ((q, k, v), (q[::-1], k[::-1], v[::-1]))[: 1 + two]
    states = [(x.copy(), np.zeros((len(x), v.shape[1])), np.full(len(x), -np.inf)) for x, _, _ in streams]
    outs, lses = [], []
    start = 0
    for size in sizes:
        for n, (queries, keys, values) in enumerate(streams):
            block = keys[start : start + size].copy(), values[start : start + size].copy()
            given = tuple(x.copy() for x in (*states[n], *block))
            state = function(states[n], *block)
            _unchanged((*states[n], *block), given)
            states[n] = _checked(state, queries, values)
            outs.append(states[n][1])
            lses.append(states[n][2])
        start += size
    return np.concatenate(outs), np.concatenate(lses)


def _unchanged(arrays, copies):
    for name, array, copy in zip(("q", "out", "lse", "k_block", "v_block"), arrays, copies, strict=True):
        if not np.array_equal(array, copy, equal_nan=True):
            raise ValueError(f"{name}, which was handed in, has been changed; make a new array")


def _checked(state, queries, values):
    """A state of arrays that a later call cannot change, or a sentence that says why it is none."""
    if not isinstance(state, (tuple, list)) or len(state) != 3:
        raise TypeError("the new state must be three arrays, (q, out, lse)")
    state = tuple(np.array(x.detach() if is_tensor(x) else x, float) for x in state)
    shapes = queries.shape, (len(queries), values.shape[1]), (len(queries),)
    for name, array, shape in zip(("q", "out", "lse"), state, shapes, strict=True):
        if array.shape != shape:
            raise ValueError(f"{name} of the new state must have shape {shape}; it has {array.shape}")
    return state


def _compute(q, k, v, sizes, two, **choices):
    return _feed(partial(_update, **choices), q, k, v, sizes, two)


def _cases():
    rng = np.random.default_rng(19)

    def made(sizes, n=3, d=4, dv=2, size=1.0, slope=0.0):
        q, k = rng.normal(size=(n, d)), rng.normal(size=(sum(sizes), d))
        if slope:
            q, k[:, 0] = np.abs(q) + 0.5, slope * np.arange(len(k))
        return size * q, k, rng.normal(size=(len(k), dv)), sizes, False

    return [
        Case("three blocks of 2, 4 and 3 keys", made((2, 4, 3)),
             hint="After one block the output is plain attention. Compute the second step by hand from what "
                  "the state then holds."),
        Case("one block", made((5,)), hint="With one block it is plain attention, and its log-sum-exp."),
        Case("blocks of one key", made((1, 1, 1, 1)),
             hint="A block of one key has its value as output and its score as log-sum-exp."),
        Case("scores that rise from block to block", made((3, 3, 2), slope=1.5),
             hint="The newest block gets most of the weight."),
        Case("scores that fall from block to block", made((3, 3, 2), slope=-1.5),
             hint="The first block keeps most of the weight."),
        Case("scores of size a thousand", made((2, 3, 2), size=1000.0),
             hint="No exponential of a score, nor of a log-sum-exp, is a number here. Those of differences "
             "are."),
        Case("scores far below zero", made((2, 2), slope=-600.0),
             hint="No exponential of a score is above 0 here. Differences are what counts."),
        Case("one query, eight features", made((4, 1), n=1, d=8, dv=3)),
        Case("two states that take turns", (*made((2, 3))[:4], True),
             hint="All that is needed has to be in the state: nothing outside it."),
    ]  # fmt: skip


_MISTAKES = (
    Mistake("outputs_averaged", "Old output and new are averaged half and half. An output does not say how "
            "much was found; the log-sum-exps do.", {"weights": "mean"}),
    Mistake("outputs_averaged", "Old output and new are averaged half and half. An output does not say how "
            "much was found; the log-sum-exps do.", {"weights": "mean_after_the_first"}),
    Mistake("outputs_added", "Old output and new are added. Their weights are to sum to one.",
            {"weights": "added"}),
    Mistake("old_lost", "What the block gives replaces what came before.", {"weights": "newest"}),
    Mistake("old_lost", "What the block gives replaces what came before, in the log-sum-exp too.",
            {"weights": "newest", "merged": "newest"}),
    Mistake("new_lost", "Only the first block is kept. Each one counts.",
            {"weights": "oldest_after_the_first"}),
    Mistake("new_lost", "The block's output never gets into the state.", {"weights": "oldest"}),
    Mistake("weights_swapped", "The two weights have changed places: the part with the larger log-sum-exp is "
            "to weigh more.", {"weights": "swapped"}),
    Mistake("weights_swapped", "The two weights have changed places: the part with the larger log-sum-exp is "
            "to weigh more.", {"weights": "swapped_after_the_first"}),
    Mistake("nan_from_the_start", "The state begins with a log-sum-exp of minus infinity, and your weights "
            "of it are no numbers. The exponential of minus infinity less a number is 0, and fit for use.",
            {"weights": "inverted"}),
    Mistake("weights_inverted", "The sign of the exponents is turned round: old minus new log-sum-exp is "
            "what the old part shrinks by.", {"weights": "inverted_after_the_first"}),
    Mistake("weights_overflow", "You take the exponential of a log-sum-exp itself, which is infinite for a "
            "large one. Take that of a difference.", {"weights": "naive"}),
    Mistake("weights_overflow", "You take the exponential of a log-sum-exp itself, which is infinite for a "
            "large one. Take that of a difference.", {"weights": "naive", "merged": "naive"}),
    Mistake("lse_overflow", "The log-sum-exps are joined through their exponentials, which are infinite for "
            "large ones. Is there a function that adds in logarithms?", {"merged": "naive"}),
    Mistake("weights_linear", "The parts are weighed by their log-sum-exps. These are logarithms: weigh by "
            "what they are logarithms of.", {"weights": "linear_after_the_first"}),
    Mistake("not_normalised", "The weights of the two parts count from the larger log-sum-exp and are not "
            "divided by their sum.", {"weights": "from_the_larger"}),
    Mistake("not_normalised", "Both sums count from one maximum, and the output is not divided by what they "
            "come to together.", {"weights": "from_the_larger", "weighed": "max", "block": "not_divided"}),
    Mistake("new_not_weighed", "The old output shrinks, and the block's enters with weight 1.",
            {"weights": "old_only"}),
    Mistake("old_not_weighed", "The block's output is weighed, and the old one keeps weight 1.",
            {"weights": "new_only"}),
    Mistake("one_weight_for_all", "All queries share one weight. Each has a log-sum-exp of its own.",
            {"weights": "one_for_all"}),
    Mistake("base_2", "The weights are powers of 2 of natural logarithms. Base and logarithm must fit.",
            {"weights": "base_2"}),
    Mistake("base_2", "The log-sum-exp of the block is to base 2, and that of the state natural.",
            {"of_block": "base_2"}),
    Mistake("base_2", "The state's log-sum-exp is to base 2. It is to be natural.", {"merged": "base_2"}),
    Mistake("lse_added", "The log-sum-exps are added. What they are logarithms of is added.",
            {"merged": "sum"}),
    Mistake("lse_averaged", "The log-sum-exps are averaged. What they are logarithms of is added.",
            {"merged": "mean"}),
    Mistake("lse_of_the_larger", "The larger of the two log-sum-exps is kept. The smaller adds to it.",
            {"merged": "max"}),
    Mistake("lse_of_the_block", "The state's log-sum-exp is that of the newest block. It is that of all "
            "keys so far.", {"merged": "newest"}),
    Mistake("lse_not_updated", "The log-sum-exp stays that of the first block. It grows with each.",
            {"merged": "oldest"}),
    Mistake("lse_not_updated", "The log-sum-exp never changes, so the next block takes the state for empty.",
            {"merged": "never"}),
    Mistake("denominator_kept", "The state holds the denominator. Its logarithm is asked for.",
            {"merged": "denominator"}),
    Mistake("maximum_for_lse", "The block's log-sum-exp is its largest score. The other keys count too.",
            {"of_block": "max"}),
    Mistake("maximum_not_added", "The logarithm is of a sum that counts from the maximum, and the maximum is "
            "not added to it again.", {"of_block": "no_max"}),
    Mistake("maximum_not_added", "The sum counts from the larger of old log-sum-exp and new maximum, and "
            "that is not added to its logarithm again.", {"merged": "above_the_maximum"}),
    Mistake("maximum_subtracted", "The maximum is subtracted from the logarithm once more. It is to be "
            "added.",
            {"of_block": "minus"}),
    Mistake("no_logarithm", "The block's sum stands where its logarithm should.", {"of_block": "sum"}),
    Mistake("unscaled_lse", "The block's log-sum-exp is that of unscaled scores.", {"of_block": "unscaled"}),
    Mistake("overflow", "Scores go into the exponential as they are, so large ones overflow and very low "
            "ones vanish. Take each row's largest off first.", {"top": "none"}),
    Mistake("one_maximum_for_all", "One maximum serves all queries. A row far below it underflows to 0.",
            {"top": "all"}),
    Mistake("block_not_divided", "The block's output is not divided by its sum before it is weighed.",
            {"block": "not_divided"}),
    Mistake("block_averaged", "The block's values are averaged evenly. Scores decide.", {"block": "mean"}),
    Mistake("softmax_over_queries", "The block's softmax runs over queries. It runs over keys.", {"axis": 0}),
    Mistake("no_scale", "The scores are not scaled. Divide by the root of the width.", {"scale": "none"}),
    Mistake("scale_linear", "You divide by the width. Divide by its root.", {"scale": "linear"}),
    Mistake("scale_multiplied", "You multiply by the root of the width. Divide by it.", {"scale": "times"}),
    Mistake("scale_of_keys", "You divide by the root of the number of keys. It is the width that counts.",
            {"scale": "keys"}),
    Mistake("scale_of_values", "You divide by the root of the values' width. It is that of the keys.",
            {"scale": "values"}),
    Mistake("queries_scaled_again", "The state returns scaled queries, which the next block scales once "
            "more.",
            {"kept": "scaled"}),
)  # fmt: skip

_IN_PAIRS = {
    "outputs_averaged", "weights_overflow", "lse_overflow", "lse_of_the_block", "lse_of_the_larger",
    "overflow", "no_scale", "scale_linear", "queries_scaled_again", "block_not_divided", "base_2",
}  # fmt: skip

tile_update = FunctionExercise(
    _compute,
    _cases,
    rare_but(_IN_PAIRS, _MISTAKES),
    "Checked after every block: uneven blocks and blocks of one key, scores that rise, fall and are very "
    "large, and two states in turn. Nothing but output and log-sum-exp was kept of keys that were gone, and "
    "the result is exact.",
    properties=(few_digits,),
    drive=_feed,
    rtol=1e-4,
    atol=1e-5,
)

_SOLUTION = '''
import numpy as np


def tile_update(state, k_block, v_block):
    q, out, lse = state
    scores = q @ k_block.T / np.sqrt(q.shape[1])            # (Lq, n)
    top = scores.max(1, keepdims=True)
    e = np.exp(scores - top)
    total = e.sum(1, keepdims=True)
    new_lse = (top + np.log(total))[:, 0]                   # (Lq,)
    both = np.logaddexp(lse, new_lse)
    old_share, new_share = np.exp(lse - both)[:, None], np.exp(new_lse - both)[:, None]
    return q, old_share * out + new_share * (e @ v_block) / total, both
'''

EXERCISES = (
    Exercise(
        "tile_update", "19", tile_update,
        (
            "Compute attention over the block alone, as if there were nothing else, and its log-sum-exp. "
            "Now you have two parts.",
            "The new log-sum-exp is the logarithm of a sum of two exponentials. Each part's weight is the "
            "exponential of its own log-sum-exp less the new one.",
            "Never take the exponential of a score or of a log-sum-exp, only of differences; np.logaddexp "
            "does the rest, and takes minus infinity for a part that has seen nothing. Weights have one "
            "number a query: which axis do they need to meet outputs?",
        ),
        _SOLUTION, "function",
    ),
)  # fmt: skip

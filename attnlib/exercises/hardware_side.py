"""Attention block by block, of lesson 19."""

import numpy as np

from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but


def _online(
    q, k, v, block_size, mask=None, *, scale="width", blocks="right", seen="right", fill="-inf",
    top="right", rescale="both", divide="end", skip="no", empty="zero", average="values", half="no",
    axis="keys", out="right",
):  # fmt: skip
    if half == "inputs":
        q, k, v = (x.astype(np.float16).astype(float) for x in (q, k, v))
    scores = q @ k.T * {
        "width": q.shape[1] ** -0.5, "none": 1, "linear": 1 / q.shape[1], "times": q.shape[1] ** 0.5,
        "values": v.shape[1] ** -0.5, "block": block_size**-0.5, "keys": len(k) ** -0.5,
        "queries": len(q) ** -0.5, "quarter": q.shape[1] ** -0.25,
    }[scale]  # fmt: skip
    if half == "scores":
        scores = scores.astype(np.float16).astype(float)
    if axis != "keys":
        return _whole(scores, v, _visible(mask, scores.shape, seen), axis)
    values = {"values": v, "keys": k, "root": v * q.shape[1] ** -0.5}[average]
    visible = _visible(mask, scores.shape, seen)
    if blocks in ("zeros", "zeros_hidden"):      # rows of zeros up to a whole number of blocks
        more = ((0, 0), (0, -len(k) % block_size))
        scores, visible = np.pad(scores, more), np.pad(visible, more, constant_values=blocks == "zeros")
        values = np.pad(values, more[::-1])
    n = len(q)
    state = (np.full((n, 1), top if isinstance(top, float) else -np.inf), np.zeros((n, 1)),
             np.zeros((n, values.shape[1])))  # fmt: skip
    going = np.ones((n, 1), bool)
    for here in _blocks(len(values), n, block_size, blocks):
        s, see = scores[:, here], visible[:, here]
        if s.shape[1] == 0:
            raise ValueError("zero-size array to reduction operation maximum which has no identity")
        if seen == "first_block":
            see = visible[:, : s.shape[1]]
        takes, going = _takes(see, skip, going)
        after = _merged(state, s, see, values[here], fill, top, rescale, divide, empty)
        state = tuple(np.where(takes, b, a) for a, b in zip(state, after, strict=True))
        if skip == "reset":
            none = ~see.any(1, keepdims=True)
            state = tuple(np.where(none, start, x) for start, x in zip((-np.inf, 0, 0), state, strict=True))
    return _finished(*state[1:], divide, empty, out)


def _whole(scores, v, visible, axis):
    """Attention in one piece, with the softmax over another axis."""
    axis = 0 if axis == "queries" else None
    scores = np.where(visible, scores, -np.inf)
    top = scores.max(axis, keepdims=True)
    e = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = e.sum(axis, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def _visible(mask, shape, seen):
    causal = seen.startswith("causal") and (seen != "causal_square" or shape[0] == shape[1])
    if mask is None and causal:
        return np.tri(*shape, 0 if seen == "causal_start" else shape[1] - shape[0], dtype=bool)
    if mask is None or seen == "ignored":
        return np.ones(shape, bool)
    if seen == "inverted":
        return ~mask
    if seen == "transposed" and shape[0] == shape[1]:
        return mask.T
    if seen == "first_query":
        return np.broadcast_to(mask[:1], shape)
    if seen == "any_query":
        return np.broadcast_to(mask.any(0), shape)
    return mask


def _blocks(n, n_query, size, blocks):
    """What each block reads."""
    if blocks == "equal" and n % size:
        raise ValueError("array split does not result in an equal division")
    if blocks == "reshape" and n % size:
        raise ValueError(f"cannot reshape array of size {n} into shape ({size},{size})")
    whole = n // size * size
    starts = {
        "whole": range(0, whole, size), "whole_or_one": range(0, whole or size, size),
        "one_more": range(0, whole + size, size), "queries": range(0, n_query, size),
        "first": range(1), "last": range(0, n, size)[-1:], "but_last": range(0, n, size)[:-1],
        "but_last_or_one": range(0, n, size)[:-1] or range(1),
        "but_first": range(size, n, size), "to_last_key": range(0, n - 1, size),
        "overlap_before": range(0, n, max(1, size - 1)), "sliding": range(n),
    }.get(blocks, range(0, n, size))  # fmt: skip
    if blocks == "last_at_end":
        return [slice(max(0, min(n, s + size) - size), min(n, s + size)) for s in starts]
    length = {"short": max(1, size - 1), "overlap": size + 1}.get(blocks, size)
    end = max(1, n - 1) if blocks == "last_key_lost" else n
    return [slice(s, min(end, s + length)) for s in starts if blocks != "last_key_lost" or s < end]


def _takes(see, skip, going):
    """Which rows take part in a block, and which go on after it."""
    some, all_ = see.any(1, keepdims=True), see.all(1, keepdims=True)
    takes = {
        "hidden": some, "partly": all_, "partly_one": all_.all(), "none_one": some.all(),
        "first_key": see[:, :1], "last_key": see[:, -1:], "stop": going & some,
        "stop_one": going & some.all(), "stop_all": going & some.any(), "stop_partly": going & all_,
    }.get(skip, going)  # fmt: skip
    takes = np.broadcast_to(takes, going.shape)
    return takes, takes if skip.startswith("stop") else going


def _merged(state, s, see, values, fill, top, rescale, divide, empty):
    """The running maximum, sum and output after one more block."""
    m, total, done = state
    s = _masked(s, see, fill)
    if top in ("clipped", "clipped_30"):
        s = np.where(np.isneginf(s), s, np.clip(s, *((-50, 50) if top == "clipped" else (-30, 30))))
    here = s.max(1, keepdims=True)
    if top == "all":
        here = np.full_like(here, s.max())
    new = np.maximum(m, here)
    if top in ("none", "clipped", "clipped_30"):
        new = np.zeros_like(m)
    elif top in ("block", "block_capped"):
        new = here
    elif top == "first":
        new = np.where(np.isneginf(m), here, m)
    # A row without a visible key so far has -inf here, and -inf minus -inf is NaN.
    shift = new if empty.startswith("nan_block") else np.where(np.isneginf(new), 0, new)
    alone = top == "own" or divide in ("block", "block_mean", "block_fresh")
    e = np.exp(s - (np.where(np.isneginf(here), 0, here) if alone else shift))
    factor = np.exp((0 if top in ("none", "clipped", "clipped_30") else m) - shift)
    if top == "block_capped":
        factor = np.minimum(factor, 1)
    if rescale == "inverted":
        factor = np.exp(shift - np.where(np.isneginf(m), shift, m))
    if rescale == "of_block":
        factor = np.exp(np.where(np.isneginf(here), 0, here) - shift)
    own = (e * see if fill in ("raw", "sum") else e).sum(1, keepdims=True)
    part = (e * see if fill in ("raw", "out") else e) @ values
    safe = np.where(own == 0, 1, own)
    if divide in ("block", "block_mean", "block_fresh"):      # softmaxes of blocks, added or averaged
        return new, total + 1, (done * factor if divide == "block" else done) + part / safe
    if divide == "overwritten":
        return new, own, part
    summed = total * (1 if rescale in ("out", "none") else factor) + own
    done = done * (1 if rescale in ("sum", "none") else factor)
    if divide == "newest":
        return new, summed, done + part / np.where(summed == 0, 1, summed)
    if divide == "running":
        return new, summed, (done + part) / np.where(summed == 0, 1, summed)
    return new, own if divide == "last_sum" else summed, done + part


def _masked(s, see, fill):
    if fill in ("raw", "sum", "out"):
        return s
    if fill == "plus":
        return s + see
    if fill in ("add", "lower"):
        return s + np.where(see, 0, -1e9 if fill == "add" else -50)
    if fill == "times":
        return s + np.where(see, np.nan, -np.inf)
    return np.where(see, s, np.finfo(float).min if fill == "lowest" else float(fill))


def _finished(total, done, divide, empty, out):
    if divide == "block_mean":
        done = done / total
    elif divide in ("end", "last_sum", "overwritten"):
        none = (total == 0) & (empty != "nan")
        done = np.where(none, 0, done / np.where(none, 1, total))
    elif isinstance(divide, float):
        done = done / (total + divide)
    if empty == "nan_block_mended" or out == "mended":
        done = np.nan_to_num(done)
    if out == "whole":
        return done.astype(int)
    if out == "transposed":
        return done.T
    if out in ("squeezed", "row_squeezed"):
        return done.squeeze() if out == "squeezed" else done[0] if len(done) == 1 else done
    if out == "one_axis_more":
        return done[None]
    return done


def _cases():
    rng = np.random.default_rng(190)

    def qkv(n_query=3, n_key=6, width=4, values=2):
        return tuple(rng.normal(size=s) for s in ((n_query, width), (n_key, width), (n_key, values)))

    def scored(scores, values=2):
        """q, k, v with just these scores; all exact where the scores are whole."""
        scores = np.asarray(scores, float)
        width = 4 if len(scores) <= 4 else 16
        k = np.zeros((scores.shape[1], width))
        k[:, : len(scores)] = scores.T
        return np.eye(len(scores), width) * width**0.5, k, rng.normal(size=(len(k), values))

    def seen(*rows):
        return np.array([[c == "1" for c in row] for row in rows])

    rising, five = np.arange(7) * [[3.0], [1.0], [-2.0]], qkv(5, 5, 4, 3)
    wide = rng.integers(-9, 10, size=(3, 8)) * np.array([[1000.0], [1.0], [100.0]])
    some = rng.random((3, 7)) < 0.6
    some[:, [0, 3, 6]] = True
    return [
        Case("3 queries and 6 keys in blocks of 2", (*qkv(), 2),
             hint="The result is one array with a row for each query, as wide as v: what full attention "
             "gives, with a softmax over all keys."),
        Case("7 keys in blocks of 3", (*qkv(n_key=7), 3), hint="The last block is shorter."),
        Case("scores that grow and scores that fall from block to block", (*scored(rising), 2),
             hint="When the maximum grows, the running sum and the running output are both rescaled."),
        Case("scores that grow by thousands from block to block", (*scored(1000 * rising), 2),
             hint="A later block may hold the largest score by far."),
        Case("a block that is larger than the number of keys", (*qkv(n_key=5), 9),
             hint="Then there is one block, with all keys."),
        Case("blocks of one key", (*qkv(2, 5, 3, 4), 1)),
        Case("one block of just the keys", (*qkv(n_key=5), 5)),
        Case("a mask that hides some keys of every block", (*qkv(n_key=7), 3, some)),
        Case("rows whose first, middle or last block is hidden",
             (*qkv(n_key=6), 2, seen("001101", "110011", "101100")),
             hint="In a block that is hidden for a row nothing changes for that row: neither maximum, nor "
             "sum, nor output."),
        Case("a query without a visible key, and a block that nobody sees",
             (*qkv(4, 7), 2, seen("0010010", "1100011", "0000000", "0000001")),
             hint="Its row is zeros, not NaN."),
        Case("the first two blocks hidden for all", (*qkv(2, 6), 2, seen("000010", "000011"))),
        Case("scores of either sign in the thousands", (*scored(wide), 3),
             hint="Exponentials are of differences to the running maximum of the row."),
        Case("scores that are all near -2000", (*scored(wide[:, :7] % 5 - 2000), 3),
             hint="What does the running maximum begin with?"),
        Case("one row with large scores and one with small",
             (*scored([[900, 901, 899, 900], [1, 0, 2, 1]]), 2),
             hint="Every row has its own maximum."),
        Case("a hidden key whose score is the largest by far",
             (*scored([[1, 2, 3000, 0, 1]]), 2, seen("11011")),
             hint="What is hidden takes no part in the maximum."),
        Case("visible scores of -1e10 and hidden ones near 0",
             (*scored([[-1e10, 0, -1e10, 1, -4e10]]), 2, seen("10101")),
             hint="A hidden key has weight 0 whatever the scores are."),
        Case("visible scores near 0 and a hidden one of 1e11",
             (*scored([[1, 0, 1e11, 1, 2]]), 2, seen("11011")),
             hint="A hidden key has weight 0 whatever the scores are."),
        Case("5 queries and 5 keys without a mask", (*five, 2), hint="Without a mask every key is visible."),
        Case("a causal mask", (*five, 2, np.tri(5, dtype=bool)),
             hint="Each block needs its own columns of the mask."),
        Case("more queries than keys", (*qkv(8, 3, 2, 5), 2), hint="Blocks run over the keys."),
        Case("fewer queries than keys, and a mask for a block that is larger", (*qkv(2, 5, 6, 3), 8,
             seen("01101", "10000"))),
        Case("one query and one key", (*qkv(1, 1, 3, 1), 2)),
        Case("one query", (*qkv(1, 5, 3, 2), 2), hint="The result keeps two axes."),
        Case("float32, with rows that do not lie side by side in memory",
             (*(x.astype(np.float32).T.copy().T for x in qkv(3, 7)), 3, some)),
    ]  # fmt: skip


def _array(value):
    return None if isinstance(value, (tuple, list)) else floats(value)


def _finite(case, value, expected):
    found = _array(value)
    if found is None or np.isfinite(found).all():
        return None
    row = int(np.argwhere(~np.isfinite(found))[0][0])
    return f"Row {row} holds NaN or infinite numbers."


def _average(case, value, expected):
    """A row without a key is zeros; every other row lies among the values that it sees."""
    found, v = _array(value), case.args[2].astype(float)
    if found is None:
        return None
    visible = case.args[4] if len(case.args) > 4 else np.ones((len(found), len(v)), bool)
    for i, (row, sees) in enumerate(zip(found, visible, strict=True)):
        if not sees.any():
            if np.abs(row).max() > 1e-6:
                return f"Row {i} sees no key and must be zeros."
            continue
        low, high = v[sees].min(0), v[sees].max(0)
        room = 1e-3 * (1 + high - low)
        if (row < low - room).any() or (row > high + room).any():
            return (f"Row {i} lies outside of the values that it may see: its weights do not sum to 1, or a "
                    "hidden key counts.")
    return None


def _multiples(case, value, expected):
    """Every row is the right one times a number."""
    found = _array(value)
    if found is None or not (expected * expected).sum(1).all():
        return None
    factors = (found * expected).sum(1, keepdims=True) / (expected * expected).sum(1, keepdims=True)
    if found.shape[1] > 1 and np.allclose(found, factors * expected, 1e-3, 1e-5):
        row = int(np.abs(factors - 1).argmax())
        return f"Row {row} is {factors[row, 0]:.3g} times the right one: by what is it divided?"
    return None


_SCALE = (
    Mistake("no_scale", "The scores are not scaled. Divide them by the root of the width.",
            {"scale": "none"}),
    Mistake("scale_linear", "You divide by the width, or twice by its root. Divide by the root, once.",
            {"scale": "linear"}),
    Mistake("scale_multiplied", "You multiply by the root of the width. Divide by it.", {"scale": "times"}),
    Mistake("scale_of_values", "You divide by the root of the values' width. Scores come from queries and "
            "keys.", {"scale": "values"}),
    Mistake("scale_of_block", "You divide by the root of the block's size, so the result depends on it. "
            "It is the width that counts.", {"scale": "block"}),
    Mistake("scale_of_keys", "You divide by the root of the number of keys. It is the width that counts.",
            {"scale": "keys"}),
    Mistake("scale_of_queries", "You divide by the root of the number of queries. It is the width that "
            "counts.", {"scale": "queries"}),
    Mistake("scale_quarter", "You divide by the fourth root of the width. Was only one of queries and keys "
            "scaled?", {"scale": "quarter"}),
    Mistake("softmax_over_queries", "The softmax runs over the queries. Each query's weights must sum to 1 "
            "over its keys.", {"axis": "queries"}),
    Mistake("softmax_over_all", "One softmax runs over all queries and keys. Each query has its own.",
            {"axis": "all"}),
    Mistake("scale_on_values", "You scale the output too. Only scores are scaled.", {"average": "root"}),
    Mistake("keys_averaged", "You average the keys. Keys decide the weights; values are averaged.",
            {"average": "keys"}),
)  # fmt: skip
_BLOCKS = (
    Mistake("last_block_lost", "Only whole blocks are read, and the keys left over at the end are lost. The "
            "last block may be shorter, and a block larger than all keys is one short block.",
            {"blocks": "whole"}),
    Mistake("last_block_lost", "One block is always read, and the keys left over after whole blocks are "
            "lost. The last block may be shorter.", {"blocks": "whole_or_one"}),
    Mistake("last_block_lost", "The last block is never read. The loop ends after it, not before.",
            {"blocks": "but_last"}),
    Mistake("last_block_lost", "The last of several blocks is never read. The loop ends after it.",
            {"blocks": "but_last_or_one"}),
    Mistake("first_block_lost", "The first block is never read: the loop begins with the second.",
            {"blocks": "but_first"}),
    Mistake("one_block_too_many", "There is one block too many where the size divides the number of keys; it "
            "is empty, and an empty block has no maximum.", {"blocks": "one_more"}),
    Mistake("must_divide", "It works only where the block size divides the number of keys. The last block "
            "may be shorter.", {"blocks": "reshape"}),
    Mistake("must_divide", "It works only where the block size divides the number of keys. The last block "
            "may be shorter.", {"blocks": "equal"}),
    Mistake("padding_counts", "The last block is filled with rows of zeros that count as keys. A score of 0 "
            "is a score: its exponential is 1.", {"blocks": "zeros"}),
    Mistake("blocks_of_queries", "Your loop runs to the number of queries. Blocks are of keys.",
            {"blocks": "queries"}),
    Mistake("one_block_only", "Only the first block is read. The loop goes on to the last key.",
            {"blocks": "first"}),
    Mistake("one_block_only", "Only the last block is read. All blocks count.", {"blocks": "last"}),
    Mistake("last_key_lost", "The very last key is never read: the loop ends one too early.",
            {"blocks": "to_last_key"}),
    Mistake("last_key_lost", "The very last key is never read: the end is one too low.",
            {"blocks": "last_key_lost"}),
    Mistake("key_of_each_block_lost", "Of each block one key is not read: a slice ends before its stop.",
            {"blocks": "short"}),
    Mistake("keys_read_twice", "Blocks overlap by one key, which then counts twice. The next block begins "
            "where this one stops.", {"blocks": "overlap"}),
    Mistake("keys_read_twice", "The step is one less than the block's size, so keys at its border count "
            "twice.", {"blocks": "overlap_before"}),
    Mistake("keys_read_twice", "The last block is moved back to full size, so some keys count twice. Let it "
            "be shorter.", {"blocks": "last_at_end"}),
    Mistake("keys_read_twice", "The block moves on by one key at a time, so keys count many times.",
            {"blocks": "sliding"}),
)  # fmt: skip
_TOP = (
    *(Mistake("overflow", "No maximum is subtracted, so large scores overflow and very low ones underflow.",
              {"top": "none"} | more)
      for more in ({}, {"fill": "raw"}, {"empty": "nan"}, {"fill": "raw", "empty": "nan"})),
    Mistake("overflow", "No maximum is subtracted, and what overflows is made a number afterwards, which is "
            "the wrong one.", {"top": "none", "out": "mended"}),
    Mistake("clipped", "You clip the scores, which makes unequal scores equal. Subtract the running maximum "
            "instead.", {"top": "clipped"}),
    Mistake("clipped", "You clip the scores, which makes unequal scores equal. Subtract the running maximum "
            "instead.", {"top": "clipped_30"}),
    *(Mistake("maximum_begins_too_high", "Your running maximum begins with a number such as 0 or -1e9, as if "
              "such a score had been seen. Rows far below it underflow to 0. What is no larger than any "
              "score?", {"top": begin}) for begin in (0.0, -1e9)),
    Mistake("maximum_of_the_block", "You count from the block's own maximum and forget the running one. "
            "Where scores fall, the old sum is blown up instead of the new made small.", {"top": "block"}),
    Mistake("maximum_of_the_block", "You count from the block's own maximum and forget the running one. The "
            "larger of the two is the new maximum.", {"top": "block_capped"}),
    Mistake("maximum_never_grows", "The first block's maximum is kept for ever. A later block may hold a "
            "larger score.", {"top": "first"}),
    Mistake("one_maximum_for_all", "One maximum serves all rows. A row far below it underflows to 0. Each "
            "row needs its own.", {"top": "all"}),
    Mistake("block_counts_from_its_own", "The exponentials of a block count from its own maximum, and the "
            "sum from the running one. Both must count from the same.", {"top": "own"}),
)  # fmt: skip
_RESCALE = (
    Mistake("nothing_rescaled", "Neither sum nor output is rescaled when the maximum grows, so early blocks "
            "count too much.", {"rescale": "none"}),
    Mistake("output_not_rescaled", "The sum is rescaled when the maximum grows, and the output is not.",
            {"rescale": "sum"}),
    Mistake("sum_not_rescaled", "The output is rescaled when the maximum grows, and the sum is not.",
            {"rescale": "out"}),
    Mistake("rescaled_the_other_way", "The factor is turned round: the old sum must shrink when the maximum "
            "grows.", {"rescale": "inverted"}),
    Mistake("rescaled_by_the_block", "The old sum is rescaled by the block's maximum against the new one. "
            "What was summed before counts from the old maximum.", {"rescale": "of_block"}),
)  # fmt: skip
_DIVIDE = (
    Mistake("not_normalised", "The output is never divided by the sum. Weights sum to 1 only after that.",
            {"divide": "no"}),
    *(Mistake(name, hint, {"divide": divide, "skip": skip}) for name, divide, hint in (
        ("block_softmaxes_added", "block_fresh", "Each block gets a softmax of its own and the results are "
         "added. Keys of different blocks must share one sum: divide once, at the end."),
        ("block_softmaxes_added", "block", "Each block gets a softmax of its own and the results are added "
         "and rescaled. Keys of different blocks must share one sum."),
        ("block_softmaxes_averaged", "block_mean", "Each block gets a softmax of its own and the results are "
         "averaged, so a block of low scores weighs as much as one of high ones."),
        ("sum_of_last_block", "last_sum", "You divide by the sum of the last block. The sum runs over all "
         "blocks."),
        ("normalised_in_every_block", "running", "You divide in every block, and what was divided once is "
         "divided again. Divide once, at the end."),
        ("normalised_in_every_block", "newest", "Each block is divided by the sum so far, which later blocks "
         "enlarge. Divide once, at the end."),
        ("one_block_only", "overwritten", "What the last block gives replaces what came before. "
         "It is added to that."),
    ) for skip in ("no", "hidden")),        # a row may leave out a block in which it sees nothing
    *(Mistake("epsilon", f"You add {eps:g} to the sum, which is no small part of it. Treat the row without a "
              "key by itself.", {"divide": eps}) for eps in (1.0, 0.1, 0.01, 1e-3)),
)  # fmt: skip
_MASK = (
    Mistake("polarity", "You hide where the mask is True. Here True means: may attend.",
            {"seen": "inverted"}, convention=True),
    Mistake("mask_ignored", "The mask has no effect. Where it is False, a key has weight 0.",
            {"seen": "ignored"}),
    Mistake("mask_of_first_block", "Every block is given the mask's first columns. Cut the mask as you cut "
            "the keys.", {"seen": "first_block"}),
    Mistake("mask_of_first_query", "The mask's first row serves all queries. Each query has its own row.",
            {"seen": "first_query"}),
    Mistake("mask_of_any_query", "A key that any query may see is visible to all. Each query has its own row "
            "of the mask.", {"seen": "any_query"}),
    Mistake("mask_transposed", "Queries and keys are exchanged in the mask. Where they are as many, no error "
            "tells.", {"seen": "transposed"}),
    *(Mistake("causal_by_default", "Without a mask you hide the future. Without a mask every key is "
              "visible.", {"seen": seen}) for seen in ("causal", "causal_square", "causal_start")),
    *(Mistake("uniform_rows", "You write a large negative number where the mask hides. A row that is hidden "
              "throughout then averages exactly what it must not see; and such a number is a score, below "
              "which others may lie. Its output is to be 0.", {"fill": fill}) for fill in ("-1e9", "-1e4")),
    *(Mistake("uniform_rows", "A row without a visible key gets the average of what it must not see, as "
              "after a finite number in place of minus infinity. Its output is to be 0.", {"fill": fill})
      for fill in ("lowest", "-1e30")),
    Mistake("added_1e9", "You add -1e9 where the mask hides. A hidden score of 1e11 is still the largest "
            "after that, and a row without a visible key averages what is hidden.", {"fill": "add"}),
    Mistake("hidden_lowered", "You lower hidden scores by 50, and against low visible scores they still "
            "count. Minus infinity loses against every number.", {"fill": "lower"}),
    Mistake("fill_zero", "Where the mask hides, your score is 0, or near it. A score of 0 is a score: its "
            "exponential is 1.", {"fill": "0"}),
    Mistake("mask_added", "You add the mask to the scores as it is. True and False are 1 and 0, and nothing "
            "is hidden.", {"fill": "plus"}),
    Mistake("fill_positive_infinity", "You write +inf where the mask hides; what is hidden should lose.",
            {"fill": "inf"}),
    Mistake("zero_times_infinity", "The mask is multiplied by infinity, and 0 times infinity is NaN.",
            {"fill": "times"}),
    Mistake("shift_sees_hidden", "The maximum is taken over hidden scores too. Where one of them is far "
            "above the visible ones, these all underflow to 0.", {"fill": "raw"}),
    Mistake("sum_sees_hidden", "Hidden keys count in the sum and not in the output, so what is left does not "
            "sum to 1.", {"fill": "out"}),
    Mistake("output_sees_hidden", "Hidden keys count in the output and not in the sum. Nothing of them is to "
            "count.", {"fill": "sum"}),
)  # fmt: skip
_EMPTY = (
    Mistake("nan_block", "In a block that is hidden for a row before any visible key the maximum is still "
            "minus infinity, and minus infinity minus itself is NaN. It stays in the sum for ever.",
            {"empty": "nan_block"}),
    Mistake("nan_block_mended", "Where a row's first block is hidden, minus infinity minus itself gives NaN, "
            "which you make 0 at the end: the keys of later blocks are lost. No NaN may arise.",
            {"empty": "nan_block_mended"}),
    Mistake("nan_rows", "A row without a visible key gives NaN: its sum is 0, and 0/0 is NaN. Its output is "
            "to be 0.", {"empty": "nan"}),
    Mistake("block_skipped_for_all", "A block is skipped for all rows when one row sees nothing of it. The "
            "other rows need it.",
            {"skip": "none_one"}),
    Mistake("partly_hidden_skipped", "A row skips a block in which any of its keys is hidden. The visible "
            "ones count.", {"skip": "partly"}),
    Mistake("partly_hidden_skipped", "A block in which any key is hidden for any row is skipped. What a row "
            "may see counts.",
            {"skip": "partly_one"}),
    Mistake("block_judged_by_one_key", "A row skips a block whose first key is hidden. The others count.",
            {"skip": "first_key"}),
    Mistake("block_judged_by_one_key", "A row skips a block whose last key is hidden. The others count.",
            {"skip": "last_key"}),
    *(Mistake("stops_at_hidden_block", f"Your loop ends at the first block that {who}. Later blocks may be "
              "visible.", {"skip": skip})
      for skip, who in (("stop", "a row does not see"), ("stop_one", "some row does not see"),
                        ("stop_all", "no row sees"), ("stop_partly", "a row does not see in full"))),
    Mistake("hidden_block_resets", "A block that is hidden for a row sets the row back to its beginning. It "
            "must leave the row as it is.", {"skip": "reset"}),
)  # fmt: skip
_OUT = (
    Mistake("half_precision", "Scores are held in half precision, which has three digits and ends at 65504.",
            {"half": "scores"}),
    Mistake("half_precision", "The computation is in half precision, which has three digits. Compute in a "
            "wider type.", {"half": "inputs"}),
    Mistake("whole_results", "Your output holds whole numbers: averages are cut off. Make its array of a "
            "floating type.", {"out": "whole"}),
    Mistake("axis_squeezed", "Axes of length 1 are dropped. The result is (Lq, dv), also where one is 1.",
            {"out": "squeezed"}),
    Mistake("axis_squeezed", "With one query the result has one axis. It is (Lq, dv), also where Lq is 1.",
            {"out": "row_squeezed"}),
    Mistake("transposed_result", "Your result is transposed. A query is a row: (Lq, dv).",
            {"out": "transposed"}),
    Mistake("one_axis_more", "Your result has one axis too many: it is to be (Lq, dv).",
            {"out": "one_axis_more"}),
)  # fmt: skip
_IN_PAIRS = {
    "no_scale", "scale_linear", "scale_multiplied", "scale_of_values", "last_block_lost", "must_divide",
    "padding_counts", "overflow", "maximum_begins_too_high", "one_maximum_for_all", "nothing_rescaled",
    "output_not_rescaled", "sum_not_rescaled", "rescaled_the_other_way", "not_normalised",
    "block_softmaxes_added", "normalised_in_every_block", "polarity", "mask_ignored", "mask_of_first_block",
    "uniform_rows", "fill_zero", "shift_sees_hidden", "sum_sees_hidden", "nan_block", "nan_rows",
}  # fmt: skip

online_attention = FunctionExercise(
    _online,
    _cases,
    rare_but(_IN_PAIRS, (*_SCALE, *_BLOCKS, *_TOP, *_RESCALE, *_DIVIDE, *_MASK, *_EMPTY, *_OUT)),
    "Checked with blocks that divide the keys and blocks that do not, of one key and of more than all, with "
    "rising, falling and very large scores, and with blocks and rows that are hidden throughout. The result "
    "is exact attention, and no more than one block of scores is ever needed at a time.",
    properties=(in_torch, few_digits, _finite, _multiples, _average),
    rtol=1e-4,
    atol=1e-5,
)

_SOLUTION = '''
import numpy as np


def online_attention(q, k, v, block_size, mask=None):
    m = np.full((len(q), 1), -np.inf)               # running maximum of each row
    total = np.zeros((len(q), 1))                   # running sum of exp(score - m)
    out = np.zeros((len(q), v.shape[1]))            # running sum of exp(score - m) * value
    for start in range(0, len(k), block_size):
        block = slice(start, start + block_size)    # the last may be shorter
        scores = q @ k[block].T / np.sqrt(q.shape[1])
        if mask is not None:
            scores = np.where(mask[:, block], scores, -np.inf)
        new = np.maximum(m, scores.max(1, keepdims=True))
        shift = np.where(new == -np.inf, 0, new)    # nothing seen so far: -inf minus -inf would be NaN
        e, factor = np.exp(scores - shift), np.exp(m - shift)
        m, total, out = new, total * factor + e.sum(1, keepdims=True), out * factor + e @ v[block]
    return out / np.where(total == 0, 1, total)
'''

EXERCISES = (
    Exercise(
        "online_attention", "19", online_attention,
        (
            "Say in words what you must know of the blocks read so far in order to go on without them. Three "
            "things for each row are enough.",
            "Keep the largest score, the sum of exp(score - largest) and the same sum with values. When a "
            "block brings a larger score, the two sums are multiplied by exp(old largest - new largest).",
            "Begin with minus infinity, zero and zeros. For each block take the new maximum, rescale sum and "
            "output by the same factor, add what the block brings, counted from the new maximum. Where the "
            "maximum is still minus infinity, subtract 0 instead. Divide once, after the last block, and "
            "only where the sum is above 0.",
        ),
        _SOLUTION, "function",
    ),
)  # fmt: skip

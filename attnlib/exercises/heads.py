"""Heads in lesson 09: what they cost, and splitting features into heads and merging them."""

import numpy as np

from attnlib.exercises.answers import as_floats, numbers, short
from attnlib.exercises.calls import is_tensor
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, wrong


def price_of_heads(factors):
    """By what do four quantities change when 12 heads become 24 in a layer of width 768?"""
    given, complaint = numbers(factors, (4,), "your answer")
    if complaint:
        return complaint
    quantities = (
        ("the parameters", 1.0, "A head of half the width has matrices of half the size, and there are "
         "twice as many: W_Q, W_K, W_V and W_O keep their shape."),
        ("the multiplications", 1.0, "A head's dot products are half as long, and there are twice as many."),
        ("the attention weights", 2.0, "Every head has a weight for each query and key, however "
         "narrow it is."),
        ("the rank", 0.5, "A head's scores are queries times keys, so their rank is at most a head's width, "
         "and that falls from 64 to 32."),
    )
    if np.allclose(given[:3], 2):
        heads = {
            0.5: "You halve the rank, so you know that a head is now only 32 wide. Are its matrices and its "
                 "dot products still as large as those of a head of 64?",
            1.0: "That would be 24 heads of width 64. The layer stays 768 wide, so a head is now only 32 "
                 "wide. Which of the four notice?",
        }
        stays = "The layer stays 768 wide, so each of 24 heads is only 32 wide. Which of the four notice?"
        return wrong(heads.get(float(given[3]), stays), "twice_of_everything")
    for (name, factor, why), got in zip(quantities, given, strict=True):
        if abs(got - factor) > 1e-6:
            return wrong(f"A factor of {got:g} for {name} is not right. {why}", name.split()[-1])
    return right(
        "More heads cost no parameters and no products. What they cost is twice as many attention weights to "
        "hold and to normalise, and a narrower view for each head."
    )


def exposing_input(place):
    """Where a single 1 must stand so that the faulty split gives it to another word of the same head."""
    place, complaint = numbers(place, (2,), "your place")
    if complaint:
        return complaint
    token, feature = place
    if token not in range(4) or feature not in range(6):
        return wrong("The place is (word, feature), both whole numbers: a word from 0 to 3, a feature from 0 "
                     "to 5.")
    token, feature = int(token), int(feature)
    head = feature // 2
    lands_head, lands_token = divmod(3 * token + head, 4)
    told = (
        f"Feature {feature} of word {token} belongs to head {head}. The view puts it into head "
        f"{lands_head}, into the row of word {lands_token}."
    )
    if (lands_head, lands_token) == (head, token):
        return wrong(
            f"{told} That is where it belongs: with this input nobody sees the fault. The first and the last "
            "pair of features never move.", "hidden",
        )
    if lands_head != head:
        return wrong(
            f"{told} The fault shows, but the head is wrong too. Look for one that keeps its head.",
            "other_head",
        )
    return right(
        f"{told} Head {head} now takes it for something that word {lands_token} says. No shape changed, "
        "and no error came."
    )


def hiding_input(answer):
    """An input on which splitting by a view is right by accident."""
    if not isinstance(answer, (tuple, list)) or len(answer) != 2:
        return wrong("Give two things, joined by a comma: (x, n_heads).")
    x, n_heads = answer
    x = _as_array(x)
    if x is None or x.dtype.kind not in "iuf" or x.ndim != 3 or 0 in x.shape:
        return wrong(
            f"x must be numbers of shape (B, L, D), a tensor or nested lists; got {short(answer[0])}."
        )
    x = x.astype(float)
    if x.size > 10_000 or not np.isfinite(x).all():
        return wrong("Let x have at most 10,000 numbers, all of them finite.")
    heads, complaint = numbers(n_heads, (), "n_heads")
    if complaint:
        return complaint
    if heads < 2 or heads != round(float(heads)) or x.shape[2] % heads:
        return wrong(
            f"n_heads must be a whole number from 2 up that divides the {x.shape[2]} features. "
            "(With one head the view is always right, and many a first test has one.)",
            "one_head" if heads == 1 else None,
        )
    b, length, width = x.shape
    if length < 2:
        return wrong(
            "With a single word nothing can be mixed up. Find two words or more that hide the fault.",
            "one_token",
        )
    parts = x.reshape(b, length, int(heads), -1)                       # (B, L, H, d)
    alike = "two words" if any(map(_repeats, x)) else None
    if any(_repeats(token) for sentence in parts for token in sentence):
        alike = "two heads of a word"
    if alike:
        return wrong(
            f"In your x {alike} are alike. Equal parts can hide a mix-up cheaply; let all words of a "
            "sentence differ, and within each word all its heads.", "all_alike",
        )
    true, viewed = parts.swapaxes(1, 2), x.reshape(b, int(heads), length, -1)
    differs = np.argwhere(true != viewed)
    if differs.size:
        at = tuple(int(i) for i in differs[0])
        return wrong(
            f"Your x shows the fault: head {at[1]} should hold {true[at]:g} for word {at[2]}, feature "
            f"{at[3]} of the head, and the view puts {viewed[at]:g} there. Which parts must be equal?",
            "exposes",
        )
    return right(
        "The view is right on this input, and neither words nor heads are alike. Where a test's sizes are "
        "small and equal, such an accident is near. Random numbers and sizes that all differ keep it away."
    )


def _as_array(x):
    try:
        return np.asarray(x.detach().cpu() if is_tensor(x) else x)
    except (TypeError, ValueError, RuntimeError, OverflowError, NotImplementedError):
        return None


def _as_floats(x):
    """An array or tensor as floats, or None where it holds no real numbers."""
    x = _as_array(x)
    return None if x is None else as_floats(x)


def _repeats(rows):
    return len(np.unique(rows, axis=0)) < len(rows)


# split_heads


def split(x, n_heads, *, order="right"):
    b, length, width = x.shape
    h, d = n_heads, width // n_heads
    parts = x.reshape(b, length, h, d)
    if order == "view_or_error":
        return x.view(b, h, length, d)
    return {
        "right": lambda: parts.permute(0, 2, 1, 3),
        "view": lambda: x.reshape(b, h, length, d),
        "no_transpose": lambda: parts,
        "interleaved": lambda: x.reshape(b, length, d, h).permute(0, 3, 1, 2),
        "as_width": lambda: x.reshape(b, length, d, h).permute(0, 2, 1, 3),
        "last_pair": lambda: parts.permute(0, 1, 3, 2),
        "outer_pair": lambda: parts.permute(0, 3, 2, 1),
        "first_pair": lambda: parts.permute(1, 0, 2, 3),
        "heads_last": lambda: parts.permute(0, 2, 3, 1),
        "heads_first": lambda: parts.permute(2, 0, 1, 3),
        "in_batch": lambda: parts.permute(0, 2, 1, 3).reshape(b * h, length, d),
        "in_batch_heads_first": lambda: parts.permute(2, 0, 1, 3).reshape(h * b, length, d),
        "batch_mixed": lambda: x.reshape(h, b, length, d).permute(1, 0, 2, 3),
        "batch_reshaped": lambda: parts.permute(2, 0, 1, 3).reshape(b, h, length, d),
        "length_first": lambda: x.reshape(length, b, h, d).permute(1, 2, 0, 3),
        "positions_cut": lambda: parts.permute(1, 2, 0, 3).reshape(b, h, length, d),
        "copies": lambda: x.unsqueeze(1).expand(b, h, length, width),
        "reversed": lambda: parts.permute(0, 2, 1, 3).flip(1),
        "backwards": lambda: parts.permute(0, 2, 1, 3).flip(-1),
    }[order]()


_VIEW = (
    "you cut (B, H, L, d) straight out of memory. A word's features lie side by side there, so what follows "
    "the first head of a word is its next head, not the next word: heads and positions are mixed, and the "
    "shape is right all the same. First give each word's features a head axis, then exchange two axes."
)
_SPLIT = (
    Mistake("view_without_transpose", _VIEW, {"order": "view"}),
    Mistake("view_without_transpose", _VIEW, {"order": "view_or_error"}),
    Mistake("no_transpose", "the heads still stand behind the positions, (B, L, H, d). Attention works "
            "over the last two axes, and would let heads look at heads. Exchange positions and heads.",
            {"order": "no_transpose"}),
    Mistake("interleaved", "your heads take every H-th feature. Head 0 should hold the first D/H "
            "features, head 1 the next, as whole blocks. In which order do the two new axes of the "
            "features stand?", {"order": "interleaved"}),
    Mistake("heads_as_width", "you made heads of n_heads features. n_heads is how many heads there are; "
            "each has D / n_heads features.", {"order": "as_width"}),
    Mistake("wrong_pair", "you exchanged heads and features. The pair to exchange is positions and heads.",
            {"order": "last_pair"}),
    Mistake("wrong_pair", "you exchanged positions and features. The pair to exchange is positions and "
            "heads.", {"order": "outer_pair"}),
    Mistake("wrong_pair", "you exchanged batch and positions. The pair to exchange is positions and "
            "heads.", {"order": "first_pair"}),
    Mistake("features_before_positions", "each head comes out as (d, L). It must be (L, d): a row for "
            "each word.", {"order": "heads_last"}),
    Mistake("heads_before_batch", "your heads stand before the batch, (H, B, L, d). Here the batch comes "
            "first.", {"order": "heads_first"}, convention=True),
    Mistake("heads_in_batch", "you fold the heads into the batch, (B * H, L, d), as torch does inside. "
            "Here they keep an axis of their own.", {"order": "in_batch"}, convention=True),
    Mistake("heads_in_batch", "you fold the heads into the batch, (H * B, L, d). Here they keep an axis "
            "of their own, behind the batch.", {"order": "in_batch_heads_first"}, convention=True),
    Mistake("batch_mixed", "sentences of the batch are mixed: the batch axis was cut together with the "
            "others. It must stay as it is.", {"order": "batch_mixed"}),
    Mistake("batch_mixed", "the heads were moved before the batch, and then a reshape renamed the axes. "
            "That moves sentences into one another. Exchange axes, do not rename them.",
            {"order": "batch_reshaped"}),
    Mistake("length_first", "you read x as (L, B, D). Here the batch comes first, (B, L, D).",
            {"order": "length_first"}, convention=True),
    Mistake("batch_mixed", "positions were moved before the batch, and then a reshape renamed the axes. "
            "That moves sentences into one another.", {"order": "positions_cut"}),
    Mistake("copies", "every head holds all features. A head gets its own block of D/H.",
            {"order": "copies"}),
    Mistake("heads_reversed", "your heads come in reverse order.", {"order": "reversed"}),
    Mistake("features_reversed", "the features within each head come in reverse order.",
            {"order": "backwards"}),
)


def _split_cases():
    count = _counting
    odd = count(4, 3, 2).permute(1, 2, 0)        # (3, 2, 4), features far apart in memory
    return [
        Case("2 sentences of 5 words, 12 features, 3 heads", (count(2, 5, 12), 3)),
        Case("4 sentences of 3 words, 10 features, 2 heads", (count(4, 3, 10), 2)),
        Case("as many words as heads", (count(2, 3, 6), 3)),
        Case("as many sentences as heads", (count(3, 4, 6), 3)),
        Case("one head", (count(2, 5, 4), 1), hint="The axis of the single head stays."),
        Case("as many heads as features", (count(2, 5, 3), 3)),
        Case("a single word", (count(2, 1, 6), 2)),
        Case("a single sentence", (count(1, 4, 6), 2)),
        Case("a tensor that is not contiguous", (odd, 2),
             hint="A view cannot always be had of it; reshape copies where it must."),
        Case("every second feature of a larger tensor", (count(2, 3, 16)[:, :, ::2], 4)),
    ]


def _no_number_lost(case, value, expected):
    found = _as_floats(value)
    if found is None or np.array_equal(np.sort(found, axis=None), np.sort(_as_floats(expected), axis=None)):
        return None
    return "Some numbers of x are lost, or stand there twice."


# merge_heads


def merge(x, *, order="right"):
    b, h, length, d = x.shape
    across = x.permute(0, 2, 1, 3)               # (B, L, H, d)
    shape = (b, length, h * d)
    if order == "view_or_error":
        return x.view(shape)
    if order == "transposed_view":
        return across.view(shape)
    return {
        "right": lambda: across.reshape(shape),
        "view": lambda: x.reshape(shape),
        "interleaved": lambda: x.permute(0, 2, 3, 1).reshape(shape),
        "not_merged": lambda: across,
        "mean": lambda: x.mean(1),
        "sum": lambda: x.sum(1),
        "first": lambda: x[:, 0],
        "longer": lambda: x.reshape(b, h * length, d),
        "features_first": lambda: x.permute(0, 1, 3, 2).reshape(shape),
        "outer_pair": lambda: x.permute(0, 3, 2, 1).reshape(shape),
        "batch_mixed": lambda: x.permute(1, 0, 2, 3).reshape(shape),
        "length_mixed": lambda: x.permute(2, 0, 1, 3).reshape(shape),
        "length_first": lambda: x.permute(2, 0, 1, 3).reshape(length, b, h * d),
        "width_first": lambda: across.reshape(shape).transpose(1, 2),
        "reversed": lambda: across.flip(2).reshape(shape),
    }[order]()


_MERGE_VIEW = (
    "you relabelled memory as (B, L, H * d). A head's rows lie side by side there, so a word gets pieces of "
    "other words from one head. Bring the heads of one word together before you join axes."
)
_MERGE = (
    Mistake("merge_by_view", _MERGE_VIEW, {"order": "view"}),
    Mistake("merge_by_view", _MERGE_VIEW, {"order": "view_or_error"}),
    Mistake("view_of_transposed", "after the transposition the numbers no longer lie in memory in the "
            "order of the axes, and view refuses to copy them. What does copy?",
            {"order": "transposed_view"}),
    Mistake("interleaved", "the heads' features are dealt out in turn. A word should get all of head 0, "
            "then all of head 1.", {"order": "interleaved"}),
    Mistake("not_merged", "heads and features are still two axes. Join the last two.",
            {"order": "not_merged"}),
    Mistake("heads_averaged", "you average the heads. Two heads that found different things are a blend "
            "again; lay them side by side.", {"order": "mean"}),
    Mistake("heads_added", "you add the heads. Lay them side by side; W_O mixes them afterwards.",
            {"order": "sum"}),
    Mistake("one_head", "only head 0 comes back.", {"order": "first"}),
    Mistake("heads_as_positions", "the heads stand behind one another along the positions. Lay them side "
            "by side along the features.", {"order": "longer"}),
    Mistake("wrong_pair", "you exchanged positions and features before joining. The pair to exchange is "
            "heads and positions.", {"order": "features_first"}),
    Mistake("wrong_pair", "you exchanged heads and features before joining. The pair to exchange is heads "
            "and positions.", {"order": "outer_pair"}),
    Mistake("batch_mixed", "heads were moved before the batch and then relabelled: sentences are mixed. "
            "The batch axis must stay first.", {"order": "batch_mixed"}),
    Mistake("batch_mixed", "positions were moved before the batch and then relabelled: sentences are "
            "mixed.", {"order": "length_mixed"}),
    Mistake("length_first", "your result is (L, B, D). Here the batch comes first, (B, L, D).",
            {"order": "length_first"}, convention=True),
    Mistake("features_before_positions", "your result is (B, D, L). A row for each word, please: (B, L, "
            "D).", {"order": "width_first"}),
    Mistake("heads_reversed", "the heads come in reverse order. Head 0 first.", {"order": "reversed"}),
)


def _merge_cases():
    count = _counting
    return [
        Case("2 sentences, 3 heads, 5 words, 4 features a head", (count(2, 3, 5, 4),)),
        Case("4 sentences, 2 heads, 3 words, 5 features a head", (count(4, 2, 3, 5),)),
        Case("as many words as heads", (count(2, 3, 3, 2),)),
        Case("as many sentences as heads", (count(3, 3, 4, 2),)),
        Case("one head", (count(2, 1, 5, 4),)),
        Case("heads of one feature", (count(2, 3, 4, 1),)),
        Case("a single word", (count(2, 3, 1, 2),)),
        Case("heads that were split by a transposition", (count(2, 5, 3, 4).transpose(1, 2),)),
        Case("a tensor whose features lie far apart", (count(4, 3, 5, 2).permute(3, 1, 2, 0),)),
    ]


def _counting(*shape):
    import torch

    return torch.arange(1.0, 1 + int(np.prod(shape)), dtype=torch.float64).reshape(shape)

split_heads = FunctionExercise(
    split, _split_cases, _SPLIT,
    "Checked with sizes that all differ and with sizes that are equal, with one head, one word and one "
    "feature a head, and on tensors that are not contiguous. Every feature lands in its head.",
    properties=(_no_number_lost,),
)

merge_heads = FunctionExercise(
    merge, _merge_cases, _MERGE,
    "Checked with sizes that all differ and with sizes that are equal, and on heads as split_heads "
    "leaves them in memory. Each word has its heads side by side again.",
)

EXERCISES = (
    Exercise("price_of_heads", "09", price_of_heads, (), "", "prediction"),
    Exercise("exposing_input", "09", exposing_input, (), "", "construction"),
    Exercise("hiding_input", "09", hiding_input, (), "", "construction"),
    Exercise("split_heads", "09", split_heads, (), "", "function"),
    Exercise("merge_heads", "09", merge_heads, (), "", "function"),
)

"""Heads in lesson 09: what they cost, and splitting features into heads and merging them."""

from itertools import permutations

import numpy as np

from attnlib.exercises.answers import as_floats, numbers, short
from attnlib.exercises.calls import is_tensor
from attnlib.exercises.compare import alike
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but
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


# What comes back in another form, or with numbers lost on the way; for every exercise on tensors


def returned(out, form):
    """A right result as one of the things that are returned instead of it."""
    if form in ("half", "bfloat16", "half and back", "bfloat16 and back"):
        import torch

        low = out.to(torch.bfloat16 if form.startswith("b") else torch.float16)
        return low.to(out.dtype) if form.endswith("back") else low
    if form == "numpy":
        return out.detach().numpy()
    return out.squeeze() if form == "squeezed" else out


_HALF = (
    "Some step rounds to 16 bits: about three digits are left, and in float16 nothing beyond 65,504. Keep "
    "the type that comes in."
)
RETURNED = (
    *(Mistake("half_precision", _HALF, {"form": form})
      for form in ("half and back", "bfloat16 and back", "half", "bfloat16")),
    Mistake("squeezed", "A squeeze takes away every axis of size 1, and a batch, a text or a head of one "
            "loses its axis. Name the axes that you join or drop.", {"form": "squeezed"}),
    Mistake("numpy_result", "You return a NumPy array. Gradients end there; return the tensor.",
            {"form": "numpy"}),
)


def of_an_earlier_call(compute, cases):
    """A property: the value is not the right one of an earlier case, as where one argument is kept.

    Where everything is kept, the engine sees it.
    """

    def kept(case, value, expected):
        for other in cases():
            if other.name == case.name:
                return None
            if other.gradient_of or len(other.args) != len(case.args):
                continue
            ours = compute(*other.args)
            if alike(value, ours) and not alike(expected, ours):
                return f"This is the result for an earlier call ({other.name}): something of it is kept."
        return None

    return kept


# Axes that come out in another order, or joined in another way

_READ = {"b": "B", "h": "H", "l": "L", "d": "d"}


def arranged(out, axes, names):
    """The axes of ``out``, called ``names``, in the order of ``axes``; those written together are joined."""
    groups = axes.split()
    sizes = dict(zip(names, out.shape, strict=True))
    out = out.permute([names.index(a) for a in "".join(groups)])
    return out.reshape([int(np.prod([sizes[a] for a in group])) for group in groups])


def renamed(out, axes, names, shape):
    """The axes in another order, and then read as if they were those of ``shape``."""
    return out.permute([names.index(a) for a in axes]).reshape(shape)


def _read(axes):
    """A shape as it is written: "b hd" is (B, H * d)."""
    return f"({', '.join(' * '.join(_READ[a] for a in group) for group in axes.split())})"


def _orders():
    return map("".join, permutations("bhld"))


# split_heads

_SPLITS = {
    "right": lambda x, b, l, h, d: x.reshape(b, l, h, d).transpose(1, 2),
    "view": lambda x, b, l, h, d: x.reshape(b, h, l, d),
    "view_or_error": lambda x, b, l, h, d: x.view(b, h, l, d),
    "joined_view": lambda x, b, l, h, d: x.view(b * l, h, d).view(b, l, h, d).transpose(1, 2),
    "no_transpose": lambda x, b, l, h, d: x.reshape(b, l, h, d),
    "interleaved": lambda x, b, l, h, d: x.reshape(b, l, d, h).permute(0, 3, 1, 2),
    "as_width": lambda x, b, l, h, d: x.reshape(b, l, d, h).transpose(1, 2),
    "batch_mixed": lambda x, b, l, h, d: x.reshape(h, b, l, d).transpose(0, 1),
    "batch_reshaped": lambda x, b, l, h, d: x.reshape(b, l, h, d).permute(2, 0, 1, 3).reshape(b, h, l, d),
    "length_first": lambda x, b, l, h, d: x.reshape(l, b, h, d).permute(1, 2, 0, 3),
    "features_cut": lambda x, b, l, h, d: x.transpose(1, 2).reshape(b, h, l, d),
    "positions_chunked": lambda x, b, l, h, d: _torch().stack(x.chunk(h, 1), 1),
    "copies": lambda x, b, l, h, d: x.unsqueeze(1).expand(b, h, l, h * d),
    "first_block": lambda x, b, l, h, d: x[:, None, :, :d].expand(b, h, l, d),
    "last_block": lambda x, b, l, h, d: x[:, None, :, -d:].expand(b, h, l, d),
    "step_one": lambda x, b, l, h, d: x.unfold(-1, d, 1)[:, :, :h].transpose(1, 2),
    "step_of_heads": lambda x, b, l, h, d: _torch().stack([x[..., i * h : i * h + d] for i in range(h)], 1),
    "last_feature_lost": lambda x, b, l, h, d: _without(x.reshape(b, l, h, d).transpose(1, 2), -1),
    "last_head_lost": lambda x, b, l, h, d: _without(x.reshape(b, l, h, d).transpose(1, 2), 1),
    "last_head_missing": lambda x, b, l, h, d: x.reshape(b, l, h, d).transpose(1, 2)[:, :-1],
    "first_sentence": lambda x, b, l, h, d: x[:1].reshape(1, l, h, d).transpose(1, 2).expand(b, h, l, d),
    "one_sentence": lambda x, b, l, h, d: x[:1].reshape(1, l, h, d).transpose(1, 2),
    "one_sentence_no_axis": lambda x, b, l, h, d: x[0].reshape(l, h, d).transpose(0, 1),
    "scaled": lambda x, b, l, h, d: x.reshape(b, l, h, d).transpose(1, 2) / d**0.5,
    "list": lambda x, b, l, h, d: tuple(x.split(d, -1)),
    "one_head_as_it_is": lambda x, b, l, h, d: x if h == 1 else x.reshape(b, l, h, d).transpose(1, 2),
    "strides": lambda x, b, l, h, d: x.as_strided((b, h, l, d), (l * h * d, d, h * d, 1), x.storage_offset()),
    "offset": lambda x, b, l, h, d: x.as_strided(
        (b, h, l, d), (x.stride(0), d * x.stride(2), x.stride(1), x.stride(2)), 0),
    "of_64": lambda x, b, l, h, d: x.reshape(b, l, h * d // 64, 64).transpose(1, 2),
    "eight": lambda x, b, l, h, d: x.reshape(b, l, 8, h * d // 8).transpose(1, 2),
    "float_width": lambda x, b, l, h, d: x.reshape(b, l, h, h * d / h).transpose(1, 2),
}  # fmt: skip


def split(x, n_heads, *, order="right", flip="right", axes="right", form="right"):
    if order.startswith("n_heads."):
        return getattr(n_heads, order[8:])
    b, length, width = x.shape
    out = _SPLITS[order](x, b, length, n_heads, width // n_heads)
    if flip != "right":
        out = out.flip("bhld".index(flip))
    if axes.startswith("renamed"):
        out = renamed(out, axes.split()[1], "bhld", out.shape)
    elif axes != "right":
        out = arranged(out, axes, "bhld")
    return out if form == "right" else returned(out, form)


def _without(x, axis):
    x = x.clone()
    x.select(axis, -1).zero_()
    return x


def _torch():
    import torch

    return torch


_VIEW = (
    "You cut (B, H, L, d) straight out of memory. A word's features lie side by side there, so what follows "
    "the first head of a word is its next head, not the next word: heads and positions are mixed, and the "
    "shape is right all the same. First give each word's features a head axis, then exchange two axes."
)
_FIXED = (
    "The sizes that you ask for do not hold as many numbers as x. Is one written as a number, or kept from "
    "an earlier call? Read B, L and D off x.shape each time; a head has D // n_heads features, a whole "
    "number."
)
_ASKED_FIRST = [f"n_heads.{name}" for name in ("shape", "size", "view", "reshape", "chunk", "split",
                                               "unflatten", "unfold", "contiguous", "transpose")]  # fmt: skip
_SPLIT = (
    Mistake("view_without_transpose", _VIEW, {"order": "view"}),
    Mistake("view_without_transpose", _VIEW, {"order": "view_or_error"}),
    Mistake("view_of_non_contiguous", "A view never copies, so it cannot join axes that lie apart in memory, "
            "and x may be such a tensor. What copies where it must? (Or cut the last axis only: that a view "
            "can always do.)", {"order": "joined_view"}),
    Mistake("no_transpose", "The heads still stand behind the positions, (B, L, H, d). Attention works "
            "over the last two axes, and would let heads look at heads. Exchange positions and heads.",
            {"axes": "b l h d"}),
    Mistake("interleaved", "Your heads take every H-th feature. Head 0 should hold the first D/H "
            "features, head 1 the next, as whole blocks. In which order do the two new axes of the "
            "features stand?", {"order": "interleaved"}),
    Mistake("heads_as_width", "You made heads of n_heads features. n_heads is how many heads there are; "
            "each has D / n_heads features.", {"order": "as_width"}),
    Mistake("wrong_pair", "You exchanged heads and features. The pair to exchange is positions and heads.",
            {"axes": "b l d h"}),
    Mistake("wrong_pair", "You exchanged positions and features. The pair to exchange is positions and "
            "heads.", {"axes": "b d h l"}),
    Mistake("wrong_pair", "You exchanged batch and positions. The pair to exchange is positions and "
            "heads.", {"axes": "l b h d"}),
    Mistake("features_before_positions", "Each head comes out as (d, L). It must be (L, d): a row for "
            "each word.", {"axes": "b h d l"}),
    Mistake("heads_before_batch", "Your heads stand before the batch, (H, B, L, d). Here the batch comes "
            "first.", {"axes": "h b l d"}, convention=True),
    Mistake("heads_in_batch", "You fold the heads into the batch, (B * H, L, d), as torch does inside. "
            "Here they keep an axis of their own.", {"axes": "bh l d"}, convention=True),
    Mistake("heads_in_batch", "You fold the heads into the batch, (H * B, L, d). Here they keep an axis "
            "of their own, behind the batch.", {"axes": "hb l d"}, convention=True),
    Mistake("batch_mixed", "Sentences of the batch are mixed: the batch axis was cut together with the "
            "others. It must stay as it is.", {"order": "batch_mixed"}),
    Mistake("batch_mixed", "The heads were moved before the batch, and then a reshape renamed the axes. "
            "That moves sentences into one another. Exchange axes, do not rename them.",
            {"axes": "renamed hbld"}),
    Mistake("batch_mixed", "Positions were moved before the batch, and then a reshape renamed the axes. "
            "That moves sentences into one another.", {"axes": "renamed lhbd"}),
    Mistake("length_first", "You read x as (L, B, D). Here the batch comes first, (B, L, D).",
            {"order": "length_first"}, convention=True),
    Mistake("length_first", "You read x as (L, B, D), so words take the place of sentences. Here the batch "
            "comes first, (B, L, D).", {"axes": "l h b d"}, convention=True),
    Mistake("transposed_and_renamed", "You transpose to (B, D, L), and then a reshape renames the axes: a "
            "head's numbers are one feature of many words. Cut the features first, move axes afterwards.",
            {"order": "features_cut"}),
    Mistake("positions_split", "You cut the words into groups. What is cut into heads is the features of "
            "each word, the last axis.", {"order": "positions_chunked"}),
    Mistake("heads_along_positions", "The heads stand behind one another along the positions, (B, H * L, d). "
            "Give them an axis of their own.", {"axes": "b hl d"}),
    Mistake("copies", "Every head holds all features. A head gets its own block of D/H.",
            {"order": "copies"}),
    Mistake("heads_reversed", "Your heads come in reverse order.", {"flip": "h"}),
    Mistake("features_reversed", "The features within each head come in reverse order.",
            {"flip": "d"}),
    Mistake("words_reversed", "The words come in reverse order.", {"flip": "l"}),
    Mistake("every_head_the_same", "Every head holds the first block of features. Head h begins at feature "
            "h * D/H.", {"order": "first_block"}),
    Mistake("every_head_the_same", "Every head holds the last block of features. Head h begins at feature "
            "h * D/H. (A lambda made in a loop reads its variable only when it is called.)",
            {"order": "last_block"}),
    Mistake("wrong_step", "Your heads overlap: each begins one feature after the one before. Head h begins "
            "at feature h * D/H.", {"order": "step_one"}),
    Mistake("wrong_step", "Your heads begin at h times the number of heads. Head h begins at h times the "
            "width of a head, D/H.", {"order": "step_of_heads"}),
    Mistake("last_lost", "The last feature of every head is 0: a slice or a loop ends one too early.",
            {"order": "last_feature_lost"}),
    Mistake("last_lost", "The last head is 0: a loop ends one too early.", {"order": "last_head_lost"}),
    Mistake("last_lost", "The last head is missing: a loop ends one too early.",
            {"order": "last_head_missing"}),
    Mistake("first_sentence", "All sentences of the batch hold the heads of the first.",
            {"order": "first_sentence"}),
    *(Mistake("first_sentence", "Only the first sentence of the batch comes back.", {"order": order})
      for order in ("one_sentence", "one_sentence_no_axis")),
    Mistake("scaled", "The numbers are divided by the root of a head's width. That belongs to the scores; "
            "splitting only moves numbers.", {"order": "scaled"}),
    Mistake("list_of_heads", "You return the heads one by one. Put them into one tensor, with an axis for "
            "the heads behind the batch.", {"order": "list"}),
    Mistake("one_head_shortcut", "With one head you return x as it is. The axis of the single head stays.",
            {"order": "one_head_as_it_is"}),
    Mistake("strides_assumed", "You go through memory as if x were contiguous. x may lie there in another "
            "order: read x.stride(), or let reshape and transpose do it.", {"order": "strides"}),
    Mistake("offset_lost", "You begin at the start of the memory that x lies in. x may be a part of a larger "
            "tensor: it begins at x.storage_offset().", {"order": "offset"}),
    *(Mistake("fixed_size", _FIXED, {"order": order}) for order in ("of_64", "eight", "float_width")),
    *(Mistake("arguments_swapped", "You take the number of heads first and x second. The call is "
              "split_heads(x, n_heads).", {"order": order}) for order in _ASKED_FIRST),
    Mistake("sentences_reversed", "The sentences of the batch come in reverse order.", {"flip": "b"}),
    *RETURNED,
)
_NAMED = {m.choices.get("axes", "b h l d").replace("renamed ", "") for m in _SPLIT}
_SPLIT = rare_but(
    {"view_without_transpose", "no_transpose", "interleaved", "heads_as_width", "wrong_pair",
     "features_before_positions", "heads_before_batch", "heads_in_batch", "length_first",
     "transposed_and_renamed", "heads_along_positions", "copies", "heads_reversed", "features_reversed",
     "words_reversed", "sentences_reversed", "every_head_the_same", "last_lost", "scaled",
     "half_precision", "squeezed", "numpy_result", ""},
    (*_SPLIT,
     *(Mistake("axes_out_of_order", f"The axes of your result are {_read(axes)}. They should be (B, H, L, "
               "d): write the order behind each line.", {"axes": axes})
       for axes in map(" ".join, _orders()) if axes not in _NAMED),
     *(Mistake("renamed", f"The axes stand as {_read(axes)}, and then a reshape calls them (B, H, L, d). "
               "It moves no number, so all are mixed. Exchange axes, do not rename them.",
               {"axes": f"renamed {''.join(axes.split())}"})
       for axes in map(" ".join, _orders())
       if axes not in ("b h l d", "b l h d", "b h d l") and axes.replace(" ", "") not in _NAMED)),
)


_BOTH = "Is a size written as a number, or something kept from the call before?"
_SINGLE = "Every axis stays, also one of size 1."


def _split_cases():
    count = _counting
    turned = count(4, 3, 2).permute(1, 2, 0)        # (3, 2, 4), features far apart in memory
    return [
        Case("2 sentences of 5 words, 12 features, 3 heads", (count(2, 5, 12), 3),
             hint="The result is (B, H, L, d) with B = 2, H = 3, L = 5, d = 4. No two are equal, so the "
             "shape behind each line tells which axis stands where."),
        Case("4 sentences of 3 words, 10 features, 2 heads", (count(4, 3, 10), 2), hint=_BOTH),
        Case("as many words as heads", (count(2, 3, 6), 3)),
        Case("as many sentences as heads", (count(3, 4, 6), 3)),
        Case("as many words as sentences", (count(3, 3, 8), 2)),
        Case("the first sizes again, with 4 heads", (count(2, 5, 12), 4), hint=_BOTH),
        Case("one head", (count(2, 5, 4), 1), hint="The axis of the single head stays."),
        Case("as many heads as features", (count(2, 5, 3), 3)),
        Case("a single word", (count(2, 1, 6), 2), hint=_SINGLE),
        Case("a single sentence", (count(1, 4, 6), 2), hint=_SINGLE),
        Case("one sentence of one word and one head", (count(1, 1, 3), 1), hint=_SINGLE),
        Case("a tensor that is not contiguous", (turned, 2),
             hint="A view cannot always be had of it; reshape copies where it must."),
        Case("a tensor of which words and features were transposed", (count(2, 4, 6).transpose(1, 2), 2),
             hint="A view cannot always be had of it; reshape copies where it must."),
        Case("a tensor of which sentences and words were transposed", (count(5, 2, 6).transpose(0, 1), 3),
             hint="A view cannot always be had of it; reshape copies where it must."),
        Case("every second feature of a larger tensor", (count(2, 3, 16)[:, :, ::2], 4),
             hint="Its numbers do not lie side by side in memory."),
        Case("a part of a larger tensor", (count(3, 5, 12)[1:, 1:, 2:8], 3),
             hint="It does not begin where the memory begins."),
        Case("the first sizes again, with other numbers", (7.25 - 3 * count(2, 5, 12), 3), hint=_BOTH),
        Case("numbers beyond 100,000", (100_000.5 + count(2, 3, 4), 2), hint="Do not change the type."),
    ]  # fmt: skip


def _place(numbers, number):
    """Where a number stands, if it stands there once."""
    found = np.argwhere(numbers == number)
    return tuple(int(i) for i in found[0]) if len(found) == 1 else None


def _first_difference(case, value, expected):
    """The place of the first wrong number, the number that stands there, and where in x it and the right
    one stand; None where there are none to compare."""
    found, wanted, x = _as_floats(value), _as_floats(expected), _as_floats(case.args[0])
    if found is None or found.shape != wanted.shape or np.array_equal(found, wanted):
        return None
    at = tuple(int(i) for i in np.argwhere(found != wanted)[0])
    return at, found[at], _place(x, wanted[at]), _place(x, found[at])


def _wandered_in_splitting(case, value, expected):
    difference = _first_difference(case, value, expected)
    if difference is None or difference[2] is None:
        return None
    (b, h, word, feature), number, right, got = difference
    told = (
        f"Feature {feature} of head {h} for word {word} of sentence {b} should be feature {right[2]} of the "
        "same word"
    )
    if got is None:
        return f"{told}; what stands there, {number:g}, is not one number of x."
    where = "the same word" if got[:2] == (b, word) else f"word {got[1]} of sentence {got[0]}"
    return f"{told}; it is feature {got[2]} of {where}."


# merge_heads

_MERGES = {
    "right": lambda x, b, h, l, d: x.transpose(1, 2).reshape(b, l, h * d),
    "view": lambda x, b, h, l, d: x.reshape(b, l, h * d),
    "view_or_error": lambda x, b, h, l, d: x.view(b, l, h * d),
    "transposed_view": lambda x, b, h, l, d: x.transpose(1, 2).view(b, l, h * d),
    "copied_too_early": lambda x, b, h, l, d: x.contiguous().transpose(1, 2).view(b, l, h * d),
    "interleaved": lambda x, b, h, l, d: x.permute(0, 2, 3, 1).reshape(b, l, h * d),
    "mean": lambda x, b, h, l, d: x.mean(1),
    "sum": lambda x, b, h, l, d: x.sum(1),
    "sum_repeated": lambda x, b, h, l, d: x.sum(1).repeat(1, 1, h),
    "product": lambda x, b, h, l, d: x.prod(1),
    "largest": lambda x, b, h, l, d: x.amax(1),
    "largest_repeated": lambda x, b, h, l, d: x.amax(1).repeat(1, 1, h),
    "mean_repeated": lambda x, b, h, l, d: x.mean(1).repeat(1, 1, h),
    "first": lambda x, b, h, l, d: x[:, 0],
    "batch_mixed": lambda x, b, h, l, d: x.transpose(0, 1).reshape(b, l, h * d),
    "reversed": lambda x, b, h, l, d: x.flip(1).transpose(1, 2).reshape(b, l, h * d),
    "first_head": lambda x, b, h, l, d: x[:, 0].repeat(1, 1, h),
    "last_head_lost": lambda x, b, h, l, d: _without(x, 1).transpose(1, 2).reshape(b, l, h * d),
    "last_feature_lost": lambda x, b, h, l, d: _without(x, -1).transpose(1, 2).reshape(b, l, h * d),
    "last_head_missing": lambda x, b, h, l, d: x[:, :-1].transpose(1, 2).flatten(2),
    "first_sentence": lambda x, b, h, l, d: x[:1].transpose(1, 2).reshape(1, l, h * d).expand(b, l, h * d),
    "one_sentence": lambda x, b, h, l, d: x[:1].transpose(1, 2).reshape(1, l, h * d),
    "one_sentence_no_axis": lambda x, b, h, l, d: x[0].transpose(0, 1).reshape(l, h * d),
    "scaled": lambda x, b, h, l, d: x.transpose(1, 2).reshape(b, l, h * d) / h,
    "one_head_squeezed": lambda x, b, h, l, d: x.squeeze() if h == 1 else x.transpose(1, 2).flatten(2),
    "one_word": lambda x, b, h, l, d: x.reshape(b, h * d) if l == 1 else x.transpose(1, 2).flatten(2),
    "one_of_a_batch": lambda x, b, h, l, d: x.transpose(1, 2).flatten(2)[0 if b == 1 else slice(None)],
    "with_count": lambda x, b, h, l, d: (x.transpose(1, 2).flatten(2), h),
    "list": lambda x, b, h, l, d: tuple(x.unbind(1)),
    "truncated": lambda x, b, h, l, d: x.long().transpose(1, 2).flatten(2),
    "step_of_heads": lambda x, b, h, l, d: _stepped(x, h, d),
    "strides": lambda x, b, h, l, d: x.as_strided((b, l, h * d), (l * h * d, h * d, 1), x.storage_offset()),
    "512": lambda x, b, h, l, d: x.transpose(1, 2).reshape(b, l, 512),
    "eight": lambda x, b, h, l, d: _torch().cat([x[:, i] for i in range(8)], -1),
    "eight_sized": lambda x, b, h, l, d: x.transpose(1, 2).reshape(b, l, 8 * d),
}  # fmt: skip


def merge(x, *, order="right", flip="right", axes="right", form="right"):
    if flip != "right":
        x = x.flip("bhld".index(flip))
    if axes.startswith("renamed"):
        b, h, length, d = x.shape
        out = renamed(x, axes.split()[1], "bhld", (b, length, h * d))
    elif axes != "right":
        out = arranged(x, axes, "bhld")
    else:
        out = _MERGES[order](x, *x.shape)
    return out if form == "right" else returned(out, form)


def _stepped(x, h, d):
    """Blocks that begin at h times the number of heads, later ones over earlier ones."""
    out = x.new_zeros(x.shape[0], x.shape[2], h * d)
    for i in range(h):
        n = min(d, h * d - i * h)
        out[..., i * h : i * h + n] = x[:, i, :, :n]
    return out


_MERGE_VIEW = (
    "You relabelled memory as (B, L, H * d). A head's rows lie side by side there, so a word gets pieces of "
    "other words from one head. Bring the heads of one word together before you join axes."
)
_TURNED = (
    "After the transposition the numbers no longer lie in memory in the order of the axes, and view refuses "
    "to copy them. What does copy?"
)
def _joined(axes):
    return ", all of a word's head 0 before its head 1" if axes.endswith(" dh") else ""


_MERGE = (
    Mistake("merge_by_view", _MERGE_VIEW, {"order": "view"}),
    Mistake("merge_by_view", _MERGE_VIEW, {"order": "view_or_error"}),
    Mistake("view_of_transposed", _TURNED, {"order": "transposed_view"}),
    Mistake("view_of_transposed", f"{_TURNED} (A copy made before the transposition does not help.)",
            {"order": "copied_too_early"}),
    Mistake("interleaved", "The heads' features are dealt out in turn. A word should get all of head 0, "
            "then all of head 1.", {"axes": "b l dh"}),
    Mistake("not_merged", "Heads and features are still two axes. Join the last two.",
            {"axes": "b l h d"}),
    Mistake("heads_averaged", "You average the heads. Two heads that found different things are a blend "
            "again; lay them side by side.", {"order": "mean"}),
    Mistake("heads_averaged", "Every head is replaced by the mean of all. Lay the heads side by side as they "
            "are.", {"order": "mean_repeated"}),
    *(Mistake("heads_added", "You add the heads. Lay them side by side; W_O mixes them afterwards.",
              {"order": order}) for order in ("sum", "sum_repeated")),
    Mistake("heads_multiplied", "You multiply the heads with one another. Lay them side by side.",
            {"order": "product"}),
    *(Mistake("largest_of_heads", "Of each feature the largest number of all heads comes back. Lay the heads "
              "side by side.", {"order": order}) for order in ("largest", "largest_repeated")),
    Mistake("one_head", "Only head 0 comes back.", {"order": "first"}),
    Mistake("heads_as_positions", "The heads stand behind one another along the positions. Lay them side "
            "by side along the features.", {"axes": "b hl d"}),
    Mistake("wrong_axes_joined", "You join words and features, so a head gets a row. Heads stand on axis 1 "
            "and words on axis 2, (B, H, L, d): bring a word's heads together, then join heads and features.",
            {"axes": "b h ld"}),
    Mistake("wrong_axes_joined", "You lay the words side by side. Lay the heads of each word side by side.",
            {"axes": "b h dl"}),
    Mistake("wrong_pair", "You exchanged positions and features before joining. The pair to exchange is "
            "heads and positions.", {"axes": "renamed bhdl"}),
    *(Mistake("wrong_pair", "You exchanged heads and features before joining. The pair to exchange is heads "
              "and positions.", {"axes": axes}) for axes in ("renamed bdlh", "b d lh")),
    *(Mistake("batch_mixed", "Heads were moved before the batch and then relabelled: sentences are mixed. "
              "The batch axis must stay first.", {"axes": axes})
      for axes in ("renamed hbld", "h l bd")),
    Mistake("batch_mixed", "Positions were moved before the batch and then relabelled: sentences are "
            "mixed.", {"axes": "renamed lbhd"}),
    Mistake("length_first", "Your result is (L, B, D). Here the batch comes first, (B, L, D).",
            {"axes": "l b hd"}, convention=True),
    Mistake("features_before_positions", "Your result is (B, D, L). A row for each word, please: (B, L, "
            "D).", {"axes": "b hd l"}),
    Mistake("heads_reversed", "The heads come in reverse order. Head 0 first.", {"flip": "h"}),
    Mistake("features_reversed", "The features within each head come in reverse order.",
            {"flip": "d"}),
    Mistake("words_reversed", "The words come in reverse order.", {"flip": "l"}),
    Mistake("every_head_the_same", "Head 0 stands in the place of every head.", {"order": "first_head"}),
    Mistake("last_lost", "The place of the last head is 0: a loop ends one too early.",
            {"order": "last_head_lost"}),
    Mistake("last_lost", "The last feature of every head is 0: a slice ends one too early.",
            {"order": "last_feature_lost"}),
    Mistake("last_lost", "The last head is missing: a loop ends one too early.",
            {"order": "last_head_missing"}),
    Mistake("first_sentence", "All sentences of the batch come out as the first.",
            {"order": "first_sentence"}),
    *(Mistake("first_sentence", "Only the first sentence of the batch comes back.", {"order": order})
      for order in ("one_sentence", "one_sentence_no_axis")),
    Mistake("scaled", "The numbers are divided by the number of heads. Merging only moves numbers.",
            {"order": "scaled"}),
    Mistake("squeezed", "With one head a squeeze takes away every axis of size 1, a batch or a text of one "
            "too. Join heads and features as always.", {"order": "one_head_squeezed"}),
    Mistake("squeezed", "With a single word its axis is lost. It stays, of size 1.", {"order": "one_word"}),
    Mistake("squeezed", "With a single sentence the batch axis is lost. It stays, of size 1.",
            {"order": "one_of_a_batch"}),
    Mistake("more_returned", "You return the number of heads too. Only the merged tensor is asked for.",
            {"order": "with_count"}),
    Mistake("list_of_heads", "You return the heads one by one. Lay them side by side in one tensor.",
            {"order": "list"}),
    Mistake("truncated", "The result is of whole numbers, so what stands behind the point is lost. Keep the "
            "type that comes in.", {"order": "truncated"}),
    Mistake("wrong_step", "Your blocks begin at h times the number of heads. Head h begins at h times the "
            "width of a head, d.", {"order": "step_of_heads"}),
    Mistake("strides_assumed", "You go through memory as if split_heads had left x there. x may lie in "
            "another order: read x.stride(), or let transpose and reshape do it.", {"order": "strides"}),
    *(Mistake("fixed_size", "A size is written as a number, or kept from an earlier call. Read all four off "
              "x.shape; the width is H * d.", {"order": order}) for order in ("512", "eight", "eight_sized")),
    Mistake("sentences_reversed", "The sentences of the batch come in reverse order.", {"flip": "b"}),
    *RETURNED,
)


def _joinings():
    """Four axes, and every way of joining two neighbours, in every order."""
    for a, b, c, d in _orders():
        yield from (f"{a} {b} {c} {d}", f"{a} {b} {c}{d}", f"{a} {b}{c} {d}", f"{a}{b} {c} {d}")


_NAMED = {m.choices.get("axes", "b l hd") for m in _MERGE}
_MERGE = rare_but(
    {"merge_by_view", "interleaved", "not_merged", "heads_averaged", "heads_added", "heads_as_positions",
     "wrong_axes_joined", "wrong_pair", "batch_mixed", "length_first", "features_before_positions",
     "heads_reversed", "features_reversed", "words_reversed", "sentences_reversed", "last_lost", "scaled",
     "half_precision", "squeezed", "numpy_result"},
    (*_MERGE,
     *(Mistake("axes_out_of_order", f"The axes of your result are {_read(axes)}. They should be (B, L, H * d)"
               f"{_joined(axes)}: write the order behind each line.", {"axes": axes})
       for axes in _joinings() if axes not in _NAMED),
     *(Mistake("renamed", f"The axes stand as {_read(axes)}, and then a reshape calls them (B, L, H * d). It "
               "moves no number, so all are mixed. Exchange axes, do not rename them.",
               {"axes": f"renamed {''.join(axes.split())}"})
       for axes in map(" ".join, _orders())
       if axes not in ("b h l d", "b l h d", "b l d h")
       and f"renamed {''.join(axes.split())}" not in _NAMED)),
)


def _merge_cases():
    count = _counting
    return [
        Case("2 sentences, 3 heads, 5 words, 4 features a head", (count(2, 3, 5, 4),),
             hint="The result is (B, L, H * d), and x is (B, H, L, d) with B = 2, H = 3, L = 5, d = 4. No "
             "two are equal, so the shape behind each line tells which axis stands where."),
        Case("4 sentences, 2 heads, 3 words, 5 features a head", (count(4, 2, 3, 5),), hint=_BOTH),
        Case("as many words as heads", (count(2, 3, 3, 2),)),
        Case("as many sentences as heads", (count(3, 3, 4, 2),)),
        Case("as many words as sentences", (count(3, 2, 3, 4),)),
        Case("one head", (count(2, 1, 5, 4),)),
        Case("heads of one feature", (count(2, 3, 4, 1),), hint=_SINGLE),
        Case("a single word", (count(2, 3, 1, 2),), hint=_SINGLE),
        Case("a single sentence", (count(1, 3, 4, 2),), hint=_SINGLE),
        Case("a single sentence and one head", (count(1, 1, 4, 2),), hint=_SINGLE),
        Case("one of everything but features", (count(1, 1, 1, 3),), hint=_SINGLE),
        Case("heads that were split by a transposition", (count(2, 5, 3, 4).transpose(1, 2),)),
        Case("a tensor whose features lie far apart", (count(4, 3, 5, 2).permute(3, 1, 2, 0),)),
        Case("every second feature of a larger tensor", (count(2, 3, 4, 6)[..., ::2],)),
        Case("a part of a larger tensor", (count(3, 3, 5, 4)[1:, :2, 1:, 1:],),
             hint="It does not begin where the memory begins."),
        Case("the first sizes again, with other numbers", (7.25 - 3 * count(2, 3, 5, 4),), hint=_BOTH),
        Case("numbers beyond 100,000", (100_000.5 + count(2, 2, 3, 4),), hint="Do not change the type."),
    ]  # fmt: skip


def _wandered_in_merging(case, value, expected):
    difference = _first_difference(case, value, expected)
    if difference is None or difference[2] is None:
        return None
    (b, word, feature), number, right, got = difference
    told = f"Feature {feature} of word {word} of sentence {b} should be feature {right[3]} of head {right[1]}"
    if got is None:
        x = _as_floats(case.args[0])[b, :, word, feature % case.args[0].shape[3]]
        for made, what in ((x.sum(), "sum"), (x.mean(), "mean")):
            if abs(number - made) < 1e-6 * abs(made):
                return f"{told}; what stands there, {number:g}, is the {what} of that feature over the heads."
        return f"{told}; what stands there, {number:g}, is not one number of x."
    where = "" if (got[0], got[2]) == (b, word) else f" for word {got[2]} of sentence {got[0]}"
    return f"{told}; it is feature {got[3]} of head {got[1]}{where}."


def _counting(*shape):
    """Numbers that say where they come from: no sum or mean of heads or words is another one."""
    import torch

    n = torch.arange(1, 1 + int(np.prod(shape)))
    return (n + (n**3 * 11 + n**2 * 7) % 997 / 1000).to(torch.float64).reshape(shape)


split_heads = FunctionExercise(
    split, _split_cases, _SPLIT,
    "Checked with sizes that all differ and with sizes that are equal, with one head, one word and one "
    "feature a head, and on tensors that are not contiguous. Every feature lands in its head.",
    properties=(_wandered_in_splitting,),
)  # fmt: skip

merge_heads = FunctionExercise(
    merge, _merge_cases, _MERGE,
    "Checked with sizes that all differ and with sizes that are equal, and on heads as split_heads "
    "leaves them in memory. Each word has its heads side by side again.",
    properties=(_wandered_in_merging,),
)  # fmt: skip

EXERCISES = (
    Exercise(
        "price_of_heads", "09", price_of_heads,
        (
            "The layer stays 768 wide. How wide is one head before, and how wide after?",
            "Write each of the four with D, H and d = D / H: the sizes of W_Q, W_K, W_V, W_O; H tables of "
            "L x L dot products of length d; H tables of L x L weights; a table of rank at most d. Which of "
            "them changes when H doubles and H * d stays?",
            "Where H and d occur only as a product, the factor is 1. The number of weights holds H alone, "
            "and the rank holds d alone.",
        ),
        "# Matrices and products depend on H * d = 768. Weights go with H, the rank with d.\n"
        "answer = (1, 1, 2, 0.5)",
        "prediction",
    ),
    Exercise(
        "exposing_input", "09", exposing_input,
        (
            "Number the 24 places of x as they lie in memory: word 0's six features, then word 1's, and so "
            "on. The view cuts this row of numbers into 3 heads of 4 words of 2 features.",
            "Pairs of features travel together. Pair number n = 3 * word + head goes, in the view, to head "
            "n // 4 and word n % 4.",
            "Look for a pair n with n // 4 equal to its own head, n % 3, and n % 4 not equal to its own "
            "word, n // 3. There is one in head 0 and one in head 2, and more in head 1.",
        ),
        "# Word 1's first pair of features is pair number 3: head 3 // 4 = 0, its own, and word 3 % 4 = 3.\n"
        "answer = (1, 0)",
        "construction",
    ),
    Exercise(
        "hiding_input", "09", hiding_input,
        (
            "Begin as small as it goes: one sentence, two words, two heads, one feature a head. Write the "
            "four numbers as they lie in memory, and how each of the two ways reads them.",
            "In that smallest case the true split and the view differ only in the two numbers in the middle. "
            "What must be true of these two?",
            "The second head's part of word 0 must equal the first head's part of word 1. All else may "
            "differ, and must, so that neither words nor heads are alike.",
        ),
        "# In memory: 1, 2 | 2, 3. Both ways give head 0 the numbers 1, 2 and head 1 the numbers 2, 3.\n"
        "answer = ([[[1.0, 2.0], [2.0, 3.0]]], 2)",
        "construction",
    ),
    Exercise(
        "split_heads", "09", split_heads,
        (
            "Two steps: cut the features of each word into heads, then bring the heads before the words. "
            "Which sizes stand there after each?",
            "(B, L, D) becomes (B, L, H, d) with d = D // H, and that becomes (B, H, L, d). The first step "
            "may be a reshape, since it only cuts the last axis. The second moves axes: no reshape can do "
            "it.",
            "Reshape to (B, L, H, d), then transpose axes 1 and 2.",
        ),
        """def split_heads(x, n_heads):
    batch, length, width = x.shape
    by_head = x.reshape(batch, length, n_heads, width // n_heads)   # each word's features, cut into heads
    return by_head.transpose(1, 2)                                  # (B, H, L, d)""",
        "function",
    ),
    Exercise(
        "merge_heads", "09", merge_heads,
        (
            "Go back the way that split_heads came, its last step first.",
            "Only axes that stand side by side in the right order may be joined: heads and features. What "
            "must move before?",
            "Transpose axes 1 and 2, so that the sizes are (B, L, H, d), and join the last two with reshape, "
            "which copies where it must. view refuses to.",
        ),
        """def merge_heads(x):
    batch, n_heads, length, width = x.shape
    by_word = x.transpose(1, 2)                                     # (B, L, H, d): a word's heads together
    return by_word.reshape(batch, length, n_heads * width)""",
        "function",
    ),
)  # fmt: skip

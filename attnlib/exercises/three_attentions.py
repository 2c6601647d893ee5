"""Cross-attention, of lesson 11: queries of one text, keys and values of another."""

from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but
from attnlib.exercises.heads import of_an_earlier_call
from attnlib.exercises.multi_head import (
    COMMON,
    MASKING,
    OUTPUT,
    PROJECT,
    SCALE,
    SHAPES,
    SOFTMAX,
    finite,
    layer,
    level,
    nothing,
    rounded,
    steps,
    tensors,
)


def _cross(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None, *, given="right", masking="right",
           source="right", where="always", project="right", **choices):  # fmt: skip
    import torch

    if memory_mask is None and given.startswith("needs"):
        return getattr(memory_mask, given.split()[1]) if " " in given else _no_mask(memory_mask, given)
    if not _ALIKE[where](x, memory):
        project = "right"
    memory, memory_mask = _memory_of(memory, memory_mask, x, source)
    mask = None if memory_mask is None else _MASKS.get(given, _MASKS["right"])(memory_mask)
    if given == "zeroed" and memory_mask is not None:
        memory, mask = memory * memory_mask[..., None], None
    if given in ("causal", "causal_filled", "causal_end") or (
        (given == "causal_without" and mask is None)
        or (given == "causal_if_as_long" and x.shape[1] == memory.shape[1])
    ):
        gap = memory.shape[1] - x.shape[1] if given == "causal_end" else 0
        early = torch.arange(x.shape[1])[:, None] + gap >= torch.arange(memory.shape[1])
        mask = early if mask is None else mask & early
        if given == "causal_filled":             # what is causal gets -1e9 above the padding's -inf
            mask = mask | ~(mask.any(-1, keepdim=True) | early)
    if source == "keys_as_long_as_x":            # fails, but where the lengths agree
        (memory @ w_k).reshape(x.shape[0], x.shape[1], n_heads, x.shape[2] // n_heads)
    if source == "width_sized":                  # fails, but where the widths agree
        (x @ w_q).reshape(x.shape[0], x.shape[1], n_heads, memory.shape[2] // n_heads)
    if source == "width":
        return _of_its_width(x, memory, w_q, w_k, w_v, w_o, n_heads, mask)
    out = layer(x, memory, w_q, w_k, w_v, w_o, n_heads, mask, masking=masking, project=project, **choices)
    if given == "queries_emptied" and memory_mask is not None and memory_mask.shape[1] == x.shape[1]:
        out = out * memory_mask[..., None]
    return out


_ALIKE = {
    "always": lambda x, memory: True,
    "same shape": lambda x, memory: x.shape == memory.shape,
    "same width": lambda x, memory: x.shape[2] == memory.shape[2],
}


def _no_mask(memory_mask, given):
    return ~memory_mask if given == "needs_inverse" else memory_mask[:, None, None, :]


def _memory_of(memory, mask, x, source):
    import torch

    keep = {
        "cut": slice(x.shape[1]), "last_dropped": slice(-1), "first_dropped": slice(1, None),
    }.get(source)  # fmt: skip
    if keep is not None and not (source.endswith("dropped") and memory.shape[1] == 1):
        return memory[:, keep], None if mask is None else mask[:, keep]
    if source == "first_sentence":
        return memory[:1].expand(memory.shape), mask
    if source == "first_sentence_and_mask":
        return memory[:1].expand(memory.shape), None if mask is None else mask[:1].expand(mask.shape)
    if source == "joined" or (source == "joined_if_alike" and x.shape[-1] == memory.shape[-1]):
        more = None if mask is None else torch.ones(x.shape[:2], dtype=torch.bool)
        return torch.cat([x, memory], 1), None if mask is None else torch.cat([more, mask], 1)
    if source == "as_long_as_x":
        return memory.reshape(x.shape[0], x.shape[1], -1), mask
    if source == "averaged":
        return memory.mean(1, keepdim=True).expand(memory.shape), mask
    if source == "last_dropped_unmasked" and mask is None and memory.shape[1] > 1:
        return memory[:, :-1], mask
    return memory, mask


def _counted(mask):
    import torch

    return (torch.arange(mask.shape[1]) < mask.sum(1, keepdim=True))[:, None, None, :]


_MASKS = {
    "right": lambda mask: mask[:, None, None, :],
    "queries": lambda mask: mask[:, None, :, None],
    "both": lambda mask: mask[:, None, :, None] & mask[:, None, None, :],
    "two": lambda mask: mask,
    "three": lambda mask: mask[:, None, :],
    "heads": lambda mask: mask[None, :, None, :],
    "counted": _counted,
    "until_last": lambda mask: mask.flip(1).cummax(1).values.flip(1)[:, None, None, :],
    "from_first": lambda mask: mask.cummax(1).values[:, None, None, :],
    "until_first": lambda mask: mask.cummin(1).values[:, None, None, :],
}


def _of_its_width(x, memory, w_q, w_k, w_v, w_o, n_heads, mask):
    """Heads as wide as the memory's features allow."""
    b, d = x.shape[0], memory.shape[-1] // n_heads
    q, k, v = (a.reshape(b, -1, n_heads, d).transpose(1, 2) for a in (x @ w_q, memory @ w_k, memory @ w_v))
    scores = q @ k.mT * d**-0.5
    scores = scores if mask is None else scores.masked_fill(~mask, -1e30)
    return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, x.shape[1], -1) @ w_o


_PADS = "Look at which memory tokens are hidden, and for whom: the mask is (B, S), a row for each sentence."
_NONE = (
    "Without a mask your function fails. memory_mask may be None: then every memory token is visible."
)
_WHERE = "Where x and the memory have the same shape, {} Shapes tell nothing of which text is which: {}."
_WHERE_ALIKE = tuple(
    Mistake(name, _WHERE.format(told, "queries come from x, keys and values from the memory"),
            {"project": project, "where": where},
            rare=where == "same width" or project not in ("values_of_x", "keys_of_x", "queries_of_memory"))
    for where in ("same shape", "same width")
    for name, project, told in (
        ("values_from_x", "values_of_x", "the values come from x."),
        ("keys_from_x", "keys_of_x", "the keys come from x."),
        ("self_attention", "only_x", "queries, keys and values all come from x."),
        ("self_attention", "only_memory", "queries, keys and values all come from the memory."),
        ("sides_swapped", "queries_of_memory", "the memory asks and x answers."),
        ("sides_swapped", "queries_of_memory_by_k", "the memory asks and x answers."),
        ("sides_swapped", "queries_of_memory_keys_of_x", "queries and keys change sides."),
        ("self_attention", "queries_and_keys_of_memory", "the queries come from the memory, as the keys do."),
    )
)
_CROSS = (
    Mistake("self_attention", "Queries, keys and values all come from x: the memory is not read. Keys and "
            "values come from the memory.", {"project": "only_x"}),
    Mistake("self_attention", "Queries, keys and values all come from the memory. Queries come from x.",
            {"project": "only_memory"}),
    Mistake("keys_from_x", "The keys come from x. They come from the memory, as the values do: x only asks.",
            {"project": "keys_of_x"}),
    Mistake("values_from_x", "The values come from x. What is handed out is the memory's.",
            {"project": "values_of_x"}),
    *(Mistake("sides_swapped", "The memory asks and x answers. Queries come from x, keys and values from the "
              "memory.", {"project": project})
      for project in ("queries_of_memory", "queries_of_memory_by_k")),
    *_WHERE_ALIKE,
    Mistake("query_and_output_transposed", "The two square matrices are transposed. nn.Linear keeps its "
            "matrix so; here every one is used as a @ w.",
            {"project": "transposed q", "output": "transposed"}),
    Mistake("weights_transposed", "The matrix w_q is transposed. It is used as x @ w_q.",
            {"project": "transposed q"}),
    *(Mistake("x_among_the_keys", "The keys and values are those of x and of the memory together. Here x "
              "only asks; what it attends to is the memory.", {"source": source})
      for source in ("joined", "joined_if_alike")),
    Mistake("memory_cut", "The memory is cut to as many tokens as x has. It has a length of its own.",
            {"source": "cut"}),
    *(Mistake("memory_cut", "The last memory token is not read: a slice ends one too early.",
              {"source": source}) for source in ("last_dropped", "last_dropped_unmasked")),
    Mistake("memory_cut", "The first memory token is never read.", {"source": "first_dropped"}),
    *(Mistake("first_memory_for_all", "Every sentence attends to the first sentence's memory.",
              {"source": source}) for source in ("first_sentence", "first_sentence_and_mask")),
    *(Mistake("memory_length_from_x", "The memory is taken to be as long as x. It has a length of its own, "
              "S: read it off memory.shape.", {"source": source})
      for source in ("as_long_as_x", "keys_as_long_as_x")),
    Mistake("memory_averaged", "The memory is averaged before it is read.", {"source": "averaged"}),
    *(Mistake("memory_width", "A head's width is taken from the memory's features. Keys are memory @ w_k, "
              "with D features as queries have: a head has D // n_heads.", {"source": source})
      for source in ("width", "width_sized")),
    Mistake("scale_of_the_memory", "You divide by the root of the memory's length. It is the width of a head "
            "that makes dot products large.", {"scale": "memory_length"}),
    Mistake("scale_of_the_memory", "You divide by the root of the memory's width. A dot product is as long "
            "as a head of queries, D / H.", {"scale": "memory_width"}),
    *(Mistake("scale_of_the_memory", "You divide by the root of Dm / H. A dot product is as long as a head "
              "of queries, D / H.", {"scale": scale}) for scale in ("memory_head", "memory_head_whole")),
    Mistake("mask_on_queries", "The mask is set on the axis of the queries. It belongs to the memory, the "
            "keys, on the last axis.", {"given": "queries"}),
    Mistake("mask_on_queries", "The mask is set on queries and keys. It belongs to the memory, the keys.",
            {"given": "both"}),
    Mistake("mask_on_queries", "Where x is as long as the memory, its outputs are emptied with the memory's "
            "mask. The mask says which keys may be seen, and nothing of queries.",
            {"given": "queries_emptied"}, rare=True),
    Mistake("mask_shape", "The mask broadcasts as it comes, so its sentences meet the queries. Give it axes "
            "for heads and queries: (B, 1, 1, S).", {"given": "two"}),
    *(Mistake("mask_shape", "The sentences of the mask meet the heads. Give it axes for heads and queries "
              "behind the batch: (B, 1, 1, S).", {"given": given}) for given in ("three", "heads")),
    Mistake("mask_counted", "You count the real tokens and show that many from the left. Padding may stand "
            "anywhere.", {"given": "counted"}),
    Mistake("mask_counted", "You hide only what stands behind the last real token. Padding may stand before "
    "it.",
            {"given": "until_last"}),
    Mistake("mask_counted", "You hide only what stands before the first real token. Padding may stand "
    "behind.",
            {"given": "from_first"}),
    Mistake("mask_counted", "You hide everything from the first padding on. Real tokens may stand behind it.",
            {"given": "until_first"}),
    Mistake("memory_zeroed", "Padding is set to 0 in the memory. A key of zeros has the score 0, and exp(0) "
            "is 1: hide its score instead.", {"given": "zeroed"}),
    *(Mistake("always_causal", "A causal mask is used. The whole memory is there from the start: every query "
              "may see all of it.", {"given": given}, rare=given != "causal")
      for given in ("causal", "causal_filled", "causal_end")),
    Mistake("always_causal", "Where the memory is as long as x a causal mask is used. The whole memory is "
            "there from the start, however long it is.", {"given": "causal_if_as_long"}, rare=True),
    Mistake("always_causal", "Without a mask you use a causal one. The whole memory is there from the start.",
            {"given": "causal_without"}),
    *(Mistake("mask_needed", _NONE, {"given": given})
      for given in ("needs_index", "needs_inverse", "needs unsqueeze", "needs to", "needs bool", "needs "
      "shape",
                    "needs view", "needs logical_not", "needs float")),
)  # fmt: skip

# What shows in a layer of self-attention and not here, where a mask is (B, S) and no row of it is empty.
_ELSEWHERE = {
    "rows", "both_sides", "first_head", "keys_only", "last_query", "tiled", "of_padding", "batch_as_heads",
    "squeezed", "unsqueezed", "unsqueezed_twice", "as_key_mask", "causal", "causal_without", "causal_too",
    "queries_too", "zeroed_fill_0", "reshaped_as_padding",
}  # fmt: skip
_MASKED = tuple(m for m in MASKING if m.choices["masking"] not in _ELSEWHERE)


def _made(seed, b, t, s, width, memory_width, size=1.0):
    """x (B, T, D), memory (B, S, Dm), w_q (D, D), w_k and w_v (Dm, D), w_o (D, D)."""
    made = tensors(seed, (b, t, width), (b, s, memory_width), (width, width), (memory_width, width),
                   (memory_width, width), (width, width), size=size)  # fmt: skip
    return made


def _cross_cases():
    import torch

    def mask(*rows):
        return torch.tensor(rows, dtype=torch.bool)

    plain, square = _made(1, 2, 3, 4, 15, 10), _made(3, 2, 4, 4, 15, 15)
    x, memory, w_q, w_k, *rest = plain
    high, ones, w_q1, w_k1 = level(x, w_q, w_k, 3, [[900.0, -900.0, 0.0]], memory)
    low = level(x, w_q, w_k, 3, [[-3e4, -1200.0, -30.0]], memory)[0]
    threes = _made(5, 3, 3, 4, 12, 9)
    apart = tuple(a.transpose(0, 1).contiguous().transpose(0, 1) for a in plain[:2])
    again = "Is something kept from an earlier call with the same sizes?"
    hidden = "A hidden key has weight 0, however low the visible scores are."
    return [
        Case("3 queries, a memory of 4 and other widths", (*plain, 3),
             hint="x only asks. Write the shape behind every line: T and S, D and Dm differ here."),
        Case("the first sizes again, with another memory",
             (x, memory.flip(1) + 0.5, w_q, w_k, *rest, 3), hint=again),
        Case("the first sizes again, with other matrices", (x, memory, *_made(18, 2, 3, 4, 15, 10)[2:], 3),
             hint=again),
        Case("5 queries and a memory of 2", (*_made(2, 3, 5, 2, 8, 6), 2),
             hint="The memory has a length and a width of its own."),
        Case("a memory as wide as x", (*_made(8, 2, 3, 4, 12, 12), 3)),
        Case("a memory as long and as wide as x", (*square, 3),
             hint="Shapes tell nothing of which text is which: x asks, and the memory answers."),
        Case("a memory as long as x and narrower", (*_made(19, 2, 4, 4, 12, 9), 2),
             hint="The whole memory is visible, also where it is as long as x."),
        Case("a memory wider than x", (*_made(9, 2, 3, 4, 8, 12), 2)),
        Case("a memory twice as long as x", (*_made(17, 2, 2, 4, 8, 6), 2)),
        Case("as many sentences as heads and queries", (*threes, 3)),
        Case("one head", (*_made(4, 2, 3, 4, 6, 5), 1)),
        Case("as many heads as features", (*_made(6, 2, 4, 3, 3, 5), 3)),
        Case("one query of one sentence", (*_made(7, 1, 1, 3, 6, 4), 2),
             hint="Every axis stays, also one of size 1."),
        Case("a memory of one token", (*_made(10, 2, 3, 1, 6, 4), 2)),
        Case("padding on the right", (*plain, 3, mask([1, 1, 1, 0], [1, 0, 0, 0])), hint=_PADS),
        Case("padding on the left and in the middle", (*plain, 3, mask([0, 0, 1, 1], [1, 0, 1, 1])),
             hint=_PADS),
        Case("a mask that hides nothing", (*plain, 3, mask([1, 1, 1, 1], [1, 1, 1, 1])), hint=_PADS),
        Case("a mask, and a memory as long and as wide as x", (*square, 3, mask([1, 1, 0, 1], [0, 1, 1, 1])),
             hint=_PADS),
        Case("a mask, and as many sentences as heads and queries",
             (*threes, 3, mask([1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 1, 0])), hint=_PADS),
        Case("a mask for a single sentence", (*_made(11, 1, 3, 4, 8, 6), 2, mask([0, 1, 1, 0])), hint=_PADS),
        Case("a mask, and 5 queries", (*_made(12, 3, 5, 4, 8, 6), 2,
                                       mask([0, 1, 1, 0], [1, 1, 1, 0], [0, 0, 0, 1])), hint=_PADS),
        Case("scores in the hundreds", (*_made(13, 2, 3, 4, 6, 6, 20.0), 2)),
        Case("queries with scores around 900, -900 and 0", (high, ones, w_q1, w_k1, *rest, 3),
             hint="Adding the same to all scores of a row changes no weight."),
        Case("the same under a mask", (high, ones, w_q1, w_k1, *rest, 3, mask([1, 1, 0, 1], [0, 1, 1, 0])),
             hint=hidden),
        Case("one visible token, with scores down to -30,000",
             (low, ones, w_q1, w_k1, *rest, 3, mask([0, 1, 0, 0], [0, 0, 0, 1])), hint=hidden),
        Case("tensors whose first axes were transposed",
             (*apart, *plain[2:], 3, mask([1, 1, 1, 0], [0, 1, 1, 1])), hint="What copies where it must?"),
        Case("values in the hundred thousands", (x, memory, w_q, w_k, rest[0] * 3e5, rest[1], 3)),
        Case("float32", (*(a.float() for a in plain), 3, mask([1, 1, 1, 0], [0, 1, 1, 1]))),
    ]  # fmt: skip


def _steps(case, value, expected):
    *args, n_heads, mask = (*case.args, None)[:8]
    if isinstance(value, (tuple, list)):
        return None
    return steps(*args, n_heads, None if mask is None else mask[:, None, None, :], value)


_PLAIN_PROJECT = tuple(
    m for m in PROJECT if m.choices.get("project") not in ("blocks", "raw", "transposed q")
)

cross_attention = FunctionExercise(
    _cross, _cross_cases,
    rare_but(COMMON | {"keys_from_x", "values_from_x", "sides_swapped", "always_causal", "mask_on_queries",
                     "scale_of_the_memory"},
             (*_CROSS, *_PLAIN_PROJECT, *SCALE,
            *(m for m in SHAPES if m.choices.get("batch") is None), *SOFTMAX, *_MASKED, *OUTPUT)),
    "Checked with a memory shorter and longer than x, narrower, wider and alike, with padding on every side, "
    "and with large scores. The decoder asks, and the encoder's text answers.",
    properties=(finite, nothing, of_an_earlier_call(_cross, _cross_cases), rounded, _steps),
    rtol=1e-4, atol=1e-5,
)  # fmt: skip

EXERCISES = (
    Exercise(
        "cross_attention", "11", cross_attention,
        (
            "It is multi-head attention with two texts. Which of queries, keys and values come from which?",
            "Queries are x @ w_q, (B, T, D); keys and values are memory @ w_k and memory @ w_v, (B, S, D), "
            "whatever the memory's width. Cut each into heads by its own length. The scores are (B, H, T, "
            "S).",
            "memory_mask is (B, S): give it axes for heads and queries, (B, 1, 1, S), and let it set hidden "
            "scores to -inf before the softmax. No row is hidden throughout, so nothing needs mending.",
        ),
        """import torch

def cross_attention(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    batch, length, width = x.shape

    def heads(a):                                        # (B, any length, D) -> (B, H, length, d)
        return a.reshape(batch, a.shape[1], n_heads, width // n_heads).transpose(1, 2)

    q, k, v = heads(x @ w_q), heads(memory @ w_k), heads(memory @ w_v)
    scores = q @ k.transpose(-1, -2) / (width // n_heads) ** 0.5         # (B, H, T, S)
    if memory_mask is not None:
        scores = scores.masked_fill(~memory_mask[:, None, None, :], -torch.inf)
    weights = torch.softmax(scores, dim=-1)
    return (weights @ v).transpose(1, 2).reshape(batch, length, width) @ w_o""",
        "function",
    ),
)  # fmt: skip

"""Causal attention of several heads that share keys and values, from four matrices."""

import numpy as np

from attnlib.exercises.function import Case, Mistake
from attnlib.homework.assignment import (
    Convention,
    Option,
    Question,
    filled,
    judge_of_variant,
    said,
    values_of,
)

CONVENTIONS = (
    Convention("matrices", {
        "in_out": Option("A matrix has a **row for each feature that goes in**: it is used as `x @ w`.",
                         "You use the matrices as x @ w.", "", "matrices_as_they_are"),
        "out_in": Option("A matrix has a **row for each feature that comes out**, as `nn.Linear` stores it: "
                         "it is used as `x @ w.T`.",
                         "You use the matrices as x @ w.T.", ".T", "matrices_transposed"),
    }),
    Convention("true_key", {
        "real": Option("In `key_mask`, of shape `(B, L)`, True means **real**: the key may be seen.",
                       "You take the True keys for the real ones.", "key_mask", "true_taken_for_real"),
        "padding": Option("In `key_mask`, of shape `(B, L)`, True means **padding**: the key is hidden.",
                          "You take the True keys for padding.", "~key_mask", "true_taken_for_padding"),
    }),
    Convention("shared", {
        "neighbours": Option("**Neighbouring heads** share: the first H/G heads use key head 0, the next H/G "
                             "key head 1, and so on.", "You let neighbouring heads share.",
                             "a.repeat_interleave(n_heads // n_kv_heads, dim=1)", "neighbours_share"),
        "turns": Option("The key heads **take turns**: head h uses key head h mod G.",
                        "You let the key heads take turns.", "a.repeat(1, n_heads // n_kv_heads, 1, 1)",
                        "key_heads_take_turns"),
    }),
)  # fmt: skip
CHOICES = values_of(*CONVENTIONS)
LESSON = {"matrices": "out_in", "true_key": "real", "shared": "neighbours"}
SAMPLE = {"matrices": "out_in", "true_key": "padding", "shared": "neighbours"}

TEXT = """\
Write `attended(x, key_mask, w_q, w_k, w_v, w_o, n_heads, n_kv_heads)`, causal self-attention with fewer heads
for keys and values than for queries.

`x` has shape `(B, L, D)`, and so has the result. There are H = `n_heads` heads of queries, each of width
d = D/H, and G = `n_kv_heads` heads of keys and of values, of width d, where G divides H.

- `w_q` and `w_o` have D rows and D columns; `w_k` and `w_v` lead from D features to G · d. {matrices}
- Head h has its own d features side by side: those from h · d on.
- {shared}
- A word sees itself and the words before it, without padding. {true_key} Padding stands at the end of a
  sentence; its first word is real.

Scores are dot products divided by the root of d, the weights of a query are their softmax over what it sees,
and `w_o` mixes what the heads have read, side by side. A query that is padding is treated like any other and
reads the real words before it."""

STUB = """\
def attended(x, key_mask, w_q, w_k, w_v, w_o, n_heads, n_kv_heads):
    \"\"\"What each word reads, (B, L, D).\"\"\""""

SOLUTION = """\
    n_sentences, length, width = x.shape
    d = width // n_heads

    def heads(w, number):    # (B, number, L, d)
        return (x @ w<matrices>).reshape(n_sentences, length, number, d).transpose(1, 2)

    q = heads(w_q, n_heads)
    both = heads(w_k, n_kv_heads), heads(w_v, n_kv_heads)
    k, v = (<shared> for a in both)
    past = torch.ones(length, length, dtype=torch.bool).tril()
    sees = past & <true_key>[:, None, None, :]
    weights = (q @ k.mT / d**0.5).masked_fill(~sees, -torch.inf).softmax(dim=-1)
    read = (weights @ v).transpose(1, 2).reshape(x.shape)
    return read @ w_o<matrices>"""


def compute(x, key_mask, w_q, w_k, w_v, w_o, n_heads, n_kv_heads, *, matrices="in_out", true_key="real",
            shared="neighbours", future="hidden", pads="keys", scale="head", axis=-1, cut="right",
            serves="right", merged="right", mixed=True, roles="qkv", hiding="-inf", seen="both",
            blank="none"):  # fmt: skip
    """In NumPy, which is quicker on so few numbers."""
    import torch

    x, key_mask, w_q, w_k, w_v, w_o = (a.numpy() for a in (x, key_mask, w_q, w_k, w_v, w_o))
    b, length, width = x.shape
    d = width // n_heads
    of = (lambda w: w) if matrices == "in_out" else (lambda w: w.T)
    w = {"q": w_q, "k": w_k, "v": w_v}

    def heads(role, number):
        if len(of(w[role])) != width:
            raise RuntimeError("shapes do not fit")      # as torch calls it
        a = x @ of(w[role])
        if cut == "from_memory":
            return a.reshape(b, number, length, d)
        if cut == "taking_turns":
            return a.reshape(b, length, d, number).transpose(0, 3, 1, 2)
        return a.reshape(b, length, number, d).transpose(0, 2, 1, 3)

    q, k, v = heads(roles[0], n_heads), heads(roles[1], n_kv_heads), heads(roles[2], n_kv_heads)
    of_head = np.arange(n_heads)
    if serves == "first_for_all":
        of_head = of_head * 0
    elif serves == "by_number":
        of_head = of_head // n_kv_heads
    else:
        of_head = of_head // (n_heads // n_kv_heads) if shared == "neighbours" else of_head % n_kv_heads
    k, v = k[:, of_head], v[:, of_head]
    every = np.ones((length, length), dtype=bool)
    past = {"hidden": np.tril(every), "seen": every, "alone": np.triu(every),
            "own_hidden": np.tril(every, -1), "next_seen": np.tril(every, 1)}[future]  # fmt: skip
    real = key_mask if true_key == "real" else ~key_mask
    shown = real[:, None, :, None] if pads == "queries" else real[:, None, None, :]
    shown = shown | (pads == "ignored")
    sees = past | shown if seen == "either" else past & shown
    by = {"head": d**0.5, "none": 1, "width": width**0.5, "linear": d, "number": n_heads**0.5,
          "times": d**-0.5}[scale]  # fmt: skip
    scores = q @ k.swapaxes(-1, -2) / by
    if hiding == "after":
        weights = _softmax(scores, axis) * sees
    elif hiding == "multiplied":
        weights = _softmax(scores * sees, axis)
    elif hiding == "added":
        weights = _softmax(scores - 1e9 * (~past * 1.0 + ~shown), axis)
    else:
        low = {"-inf": -np.inf, "finite": -1e9, "small": -10.0}[hiding]
        weights = _softmax(np.where(sees, scores, low), axis)
    read = weights @ v
    if merged == "taking_turns":
        read = read.transpose(0, 2, 3, 1)
    elif merged == "right":
        read = read.transpose(0, 2, 1, 3)
    read = read.reshape(b, length, width)
    out = read @ of(w_o) if mixed else read
    return torch.from_numpy(out * real[:, :, None] if blank == "padding" else out)


def _softmax(scores, axis):
    """As torch has it: NaN where nothing is seen."""
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(axis, keepdims=True))
        return e / e.sum(axis, keepdims=True)


def cases(rng, choice):
    import torch

    def made(b, length, width, heads, kv_heads, pads=(), size=1.0):
        def drawn(*shape):
            return torch.from_numpy(rng.normal(size=shape) * size / shape[-1] ** 0.5)

        kv = width // heads * kv_heads
        matrices = [drawn(width, wide) for wide in (width, kv, kv, width)]
        if choice["matrices"] == "out_in":
            matrices = [w.T.contiguous() for w in matrices]
        real = torch.ones(b, length, dtype=torch.bool)
        for row, number in enumerate(pads):
            real[row, length - number :] = False
        x = torch.from_numpy(rng.normal(size=(b, length, width)))
        return x, real if choice["true_key"] == "real" else ~real, *matrices, heads, kv_heads

    return [
        Case("4 heads of queries and 4 of keys", made(2, 5, 12, 4, 4, (2, 0), 2.0),
             hint="Write the shape behind every line, and take one head of one sentence."),
        Case("4 heads of queries and 2 of keys", made(2, 4, 8, 4, 2, (0, 1), 2.0),
             hint="Which key head does head 1 use?"),
        Case("one key head for all", made(2, 5, 12, 3, 1, (1, 3))),
        Case("as many words as heads", made(3, 4, 8, 4, 2, (0, 1, 2), 2.0)),
        Case("6 heads of queries and 3 of keys, wide scores", made(1, 6, 12, 6, 3, (), 6.0)),
        Case("as many words as a head has features", made(2, 3, 12, 4, 2, (0, 1), 2.0)),
        Case("a single word", made(2, 1, 6, 3, 3)),
        Case("one head", made(2, 4, 6, 1, 1, (3, 0), 3.0)),
    ]  # fmt: skip


MISTAKES = (
    Mistake("future_seen", "Your words see those after them. In a decoder they do not.", {"future": "seen"}),
    Mistake("past_hidden", "Your triangle lies the other way: a word sees those after it and none before.",
            {"future": "alone"}),
    Mistake("own_word_hidden", "Your words do not see themselves, and the first sees nothing.",
            {"future": "own_hidden"}),
    Mistake("next_word_seen", "Your triangle reaches one place too far: a word sees the next one.",
            {"future": "next_seen"}),
    Mistake("padding_seen", "The mask for padding has no effect.", {"pads": "ignored"}),
    Mistake("queries_hidden", "You hide rows: the mask speaks of keys, and keys lie across.",
            {"pads": "queries"}),
    Mistake("padding_blank", "You return zeros where the query is padding. It reads like any other.",
            {"blank": "padding"}),
    Mistake("either_will_do", "You show a key that is past or real. It has to be both.", {"seen": "either"}),
    Mistake("no_scale", "Your scores are not divided by the root of d.", {"scale": "none"}),
    Mistake("scale_of_the_model", "You divide by the root of D. A dot product is as long as a head: d.",
            {"scale": "width"}),
    Mistake("divided_by_d", "You divide by d. Divide by its root.", {"scale": "linear"}),
    Mistake("scale_of_the_number", "You divide by the root of the number of heads. The width of a head is "
            "asked for.", {"scale": "number"}),
    Mistake("multiplied_by_the_root", "You multiply by the root of d. Divide by it.", {"scale": "times"}),
    Mistake("softmax_over_the_queries", "Your softmax runs over the queries. A query shares its weight "
            "out among the keys: that is the last axis.", {"axis": -2}),
    Mistake("softmax_over_the_heads", "Your softmax runs over the heads. A query shares its weight out among "
            "the keys, in each head for itself: that is the last axis.", {"axis": 1}),
    Mistake("cut_from_memory", "You cut into heads by a reshape alone. The heads come to lie in front, and "
            "no number has moved: heads and words must change places.", {"cut": "from_memory"}),
    Mistake("heads_take_turns", "You let heads take turns, feature by feature. Each has its features side by "
            "side.", {"cut": "taking_turns"}),
    Mistake("merged_from_memory", "You join the heads by a reshape alone. Each word's heads must come to lie "
            "side by side first.", {"merged": "from_memory"}),
    Mistake("features_take_turns", "You join the heads feature by feature. They lie side by side.",
            {"merged": "taking_turns"}),
    Mistake("first_key_head_for_all", "All your heads use key head 0.", {"serves": "first_for_all"}),
    Mistake("divided_by_the_key_heads", "You divide a head's number by G. A key head serves H/G heads: by "
            "that number.", {"serves": "by_number"}),
    Mistake("not_mixed", "You return what the heads have read side by side. w_o is to mix it.",
            {"mixed": False}),
    Mistake("keys_and_values_exchanged", "Your keys are the values, and your values the keys.",
            {"roles": "qvk"}),
    Mistake("values_are_keys", "You hand out the keys. What is handed out are the values.",
            {"roles": "qkk"}),
    Mistake("weights_hidden_after", "You set weights to 0 after the softmax: the hidden scores are still in "
            "the sum that the others were divided by.", {"hiding": "after"}),
    Mistake("scores_multiplied", "You multiply the scores by the mask, so a hidden score becomes 0. exp(0) "
            "is 1: a score of 0 hides nothing.", {"hiding": "multiplied"}),
    Mistake("small_number_written", "The number that you write over hidden scores is not low enough.",
            {"hiding": "small"}),
)  # fmt: skip


# What is written over a hidden score is all the same where a word sees something, and else it is not.
STYLES = ({}, {"hiding": "finite"}, {"hiding": "added"})


def question(choice):
    return Question(
        id="attended", title="Many heads ask, few answer",
        kind="function", name="attended", points=4, part=2, minutes=20,
        text=TEXT.format(**said(CONVENTIONS, choice)),
        stub=STUB,
        solution=filled(SOLUTION, CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, MISTAKES, cases,
            "Each head asks the keys that it should, sees no word after its own and no padding, and its "
            "features come to their places, whatever the sizes.", visible=4, atol=1e-5, styles=STYLES,
        ),
        forbids=("scaled_dot_product_attention", "attention", "attention_weights",
                 "multi_head_attention_forward", "grouped_query_attention"),
    )  # fmt: skip

"""Lesson 12's other exercises: the base model counted, and a test that finds faulty decoders."""

from functools import cache
from itertools import product

import numpy as np

from attnlib.exercises.answers import numbers
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.learner_test import Implementation, LearnerTest
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------- parameters of the base model

WIDTH, INNER, LAYERS, WORDS = 512, 2048, 6, 37_000
# Each part of the count, with the ways of getting it wrong, as factors; the first is right.
_ATTENTION = {
    "": 4, "no_output_projection": 3, "each_head_full": 8 * 4, "heads_without_output": 8 * 3 + 1,
    "one_head": 4 / 8,
}
_FEED = {"": 2, "one_matrix": 1, "square": 2 * WIDTH / INNER, "no_feed": 0}
_TABLES = {"": 1, "two_tables": 2, "three_tables": 3, "no_table": 0}
_TOLD = {
    "no_output_projection": "An attention has four matrices: for queries, keys, values, and the one behind "
                            "the heads, W_O.",
    "each_head_full": "Eight heads are each an eighth as wide, so that eight together have the matrices of "
                      "one of full width.",
    "heads_without_output": "Eight heads are each an eighth as wide, so that eight together have the "
                            "matrices of one of full width.",
    "one_head": "You count one head of eight. Together they fill matrices of 512 by 512.",
    "one_matrix": "The feed-forward net has two matrices: up to 2,048 features, and down again.",
    "no_feed": "The feed-forward net is missing. Every layer has one behind its attention.",
    "square": "The feed-forward net's matrices are 512 by 2,048, not 512 by 512.",
    "two_tables": "The table is counted twice. Source, target and output share one.",
    "three_tables": "The table is counted three times. Source, target and output share one.",
    "no_table": "The table of words is missing, 37,000 rows of 512, or else the encoder's six layers, which "
                "are about as many parameters.",
    "decoder_like_encoder": "Your decoder layer has no more than an encoder layer. It has a second "
                            "attention, to the source.",
    "decoder_two_feeds": "A decoder layer has a second attention more, and one feed-forward net like the "
                         "encoder's.",
    "one_layer_each": "There are six layers of each kind.",
    "encoder_alone": "The decoder's six layers are missing in the whole.",
    "decoder_alone": "The encoder's six layers are missing in the whole.",
    "three_and_three": "There are six layers in the encoder and six more in the decoder.",
}


def _counts(attention="", feed="", tables="", decoder="", stack=""):
    """Millions of an encoder layer, a decoder layer and the whole, weights of the matrices alone."""
    attends = _ATTENTION[attention] * WIDTH**2 / 1e6
    feeds = _FEED[feed] * WIDTH * INNER / 1e6
    encoder = attends + feeds
    deeper = {"": 2 * attends + feeds, "decoder_like_encoder": encoder,
              "decoder_two_feeds": 2 * encoder}[decoder]
    layers = {"": LAYERS * (encoder + deeper), "one_layer_each": encoder + deeper,
              "encoder_alone": LAYERS * encoder, "decoder_alone": LAYERS * deeper,
              "three_and_three": LAYERS / 2 * (encoder + deeper)}[stack]
    return np.array([encoder, deeper, layers + _TABLES[tables] * WORDS * WIDTH / 1e6])


# Answers that no way of counting gives.
_OTHERS = (
    ("Your first two numbers are those of six layers. Those of one are asked for.", "six_layers",
     _counts() * (LAYERS, LAYERS, 1)),
    ("65 million stands in the paper's table. Count what you are told of, and you get a little less.",
     "from_the_paper", (*_counts()[:2], 65.0)),
)  # fmt: skip


def _ways():
    """Every way of counting, those with the fewest mistakes first."""
    stacks = ("", "one_layer_each", "encoder_alone", "decoder_alone", "three_and_three")
    decoders = ("", "decoder_like_encoder", "decoder_two_feeds")
    ways = (way[::-1] for way in product(stacks, decoders, _TABLES, _FEED, _ATTENTION))
    return sorted(ways, key=lambda way: sum(map(bool, way)))


def base_parameters(answer):
    """Millions of parameters of an encoder layer, a decoder layer, and the whole base model."""
    given, complaint = numbers(answer, (3,), "your answer")
    if complaint:
        return complaint
    if (given >= 100_000).all():
        given = given / 1e6             # whole numbers were given in place of millions
    if np.allclose(given, _counts(), rtol=0.015):
        return right(
            "3.15, 4.20 and 63.1 million. The feed-forward nets have two thirds of an encoder layer and half "
            "of a decoder layer, the table three tenths of the whole. Biases, gains and shifts are another "
            "98 thousand, the sinusoids none.")
    for way in _ways():
        if 1 <= sum(map(bool, way)) <= 2 and np.allclose(given, _counts(*way), rtol=0.01):
            names = [mistake for mistake in way if mistake]
            return wrong(" ".join(_TOLD[name] for name in names), " and ".join(names))
    for told, name, other in _OTHERS:
        if np.allclose(given, other, rtol=0.015):
            return wrong(told, name)
    for part, ours, name in zip(given, _counts(), ("an encoder layer", "a decoder layer", "the whole"),
                                strict=True):
        if not np.isclose(part, ours, rtol=0.015):
            return wrong(
                f"The number for {name} does not fit. An attention has four matrices of 512 by 512, a "
                "feed-forward net one of 512 by 2,048 and one back. Which of these does each layer have, how "
                "many layers are there, and what else?")
    return None


# ------------------------------------------------------------- faulty decoders


def _decoder(words, *, seed=0, layers=2, heads=2, norm_first=False, future="hidden", sees="keys",
             places="real", memory="real", source="real", noise=False, logs=False, order=True):
    """``scores(src, tgt)`` of a small model with random parameters; padding is 0."""
    import torch

    from attnlib.core.positions import sinusoidal_positions
    from attnlib.layers.embeddings import ScaledEmbedding
    from attnlib.layers.encoder_decoder import EncoderDecoder

    with torch.random.fork_rng():
        torch.manual_seed(seed)
        stacks = EncoderDecoder(8, heads, layers, 16, dropout=0.3 if noise else 0.0, norm_first=norm_first)
        table = ScaledEmbedding(words, 8)
        with torch.no_grad():
            for parameter in stacks.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
    stacks.encoder.layers = stacks.encoder.layers[:1]           # one reads as well as two, and sooner
    stacks.train(noise)
    rows = torch.from_numpy(sinusoidal_positions(64, 8)).float()

    def embedded(ids, real, counted, ordered=True):
        index = real.cumsum(1) - 1 if counted else torch.arange(ids.shape[1]).expand_as(ids)
        return table(ids) + ordered * rows[index.clamp_min(0)]

    def of_source(real, kind, queries):
        """The mask of the source's padding, ``(B, 1, 1, S)`` or with queries."""
        if kind == "open":
            real = torch.ones_like(real)
        elif kind == "first sentence":
            real = real[:1].expand_as(real)
        mask = real[:, None, None, :]
        if kind == "causal":
            step = torch.arange(real.shape[1]) <= torch.arange(queries)[:, None]
            mask = mask & (step | (mask.cumsum(-1) == 1))       # the first real word is always seen
        return mask

    def scores(src, tgt):
        with torch.no_grad():
            real, past = src != 0, tgt != 0
            x = stacks.encoder(embedded(src, real, places == "real"), of_source(real, source, src.shape[1]))
            y = embedded(tgt, past, places != "page", order)
            if memory == "target":
                x, real = y, past
            elif memory == "neighbour":
                x, real = x.roll(1, 0), real.roll(1, 0)
            reads = of_source(real, "causal" if memory in ("causal", "target") else source, tgt.shape[1])
            n = tgt.shape[1]
            keys = past[:, None, None, :] if sees == "keys" else torch.ones_like(past)[:, None, None, :]
            ahead = torch.ones(n, n, dtype=torch.bool).tril({"next": 1, "seen": n}.get(future, 0))
            open_ = torch.ones(n, n, dtype=torch.bool)
            for number, layer in enumerate(stacks.decoder.layers):
                late = future == "in the last layer" and number == layers - 1
                y = layer(y, x, keys & (open_ if late else ahead), reads, causal=False)
            y = y if stacks.decoder.norm is None else stacks.decoder.norm(y)
            out = table.scores(y)
            return out.log_softmax(-1) if logs else out

    return scores


# Name: how it computes, whether it is wrong, the mistake of a test that is fooled, and what is to be said.
_DECODERS = {
    "post-norm, two layers": ({}, False, "clean", "is right."),
    "pre-norm, three layers of one head": (
        {"norm_first": True, "layers": 3, "heads": 1}, False, "clean", "is right, whatever its norms."),
    "log-probabilities in place of scores": (
        {"logs": True, "seed": 1}, False, "scores_alone",
        "is right: log-probabilities are scores. Ask what they depend on, not how large they are."),
    "one layer": ({"layers": 1, "seed": 2}, False, "clean", "is right."),
    "the future is not hidden": (
        {"future": "seen"}, True, "future",
        "is wrong: it reads words that it is to predict. Change a later word: which scores may move?"),
    "the next word is seen": (
        {"future": "next"}, True, "next_word",
        "is wrong: each position sees one word too many, the one that it is asked for. Change words one "
        "place after another, the very next one too."),
    "the last layer sees the future": (
        {"future": "in the last layer", "seed": 1}, True, "future",
        "is wrong: one of its layers has no causal mask. Change a later word: which scores may move?"),
    "padding of the source is read": (
        {"source": "open"}, True, "source_padding",
        "is wrong: padding in the source moves its scores. Give it a sentence with and without."),
    "padding of the target is read": (
        {"sees": "all"}, True, "target_padding",
        "is wrong: padding on the left of the target moves the scores of the words behind it. On the right "
        "the causal mask hides it."),
    "places of the target count its padding": (
        {"places": "target by page", "seed": 1}, True, "target_padding",
        "is wrong: it numbers the target's words from the edge of the page, padding among them. Pad the "
        "target on the left."),
    "places of the source count its padding": (
        {"places": "page", "seed": 2}, True, "left_padding",
        "is wrong: it numbers words from the edge of the page, padding among them. On the right nobody "
        "notices. Pad on the left."),
    "every sentence has the mask of the first": (
        {"source": "first sentence"}, True, "first_mask",
        "is wrong: all sentences are read with the padding mask of the first. Make a batch in which the "
        "padding differs, and compare with each sentence alone."),
    "the source is read from the left, word by word": (
        {"memory": "causal"}, True, "source_late",
        "is wrong: position t reads the source up to word t only. Every score may depend on every source "
        "word, the first score on the last word too."),
    "the source is never read": (
        {"memory": "target"}, True, "source_unread",
        "is wrong: its second attention reads the target once more, and the source not at all. Change the "
        "source: what must move?"),
    "the neighbour's source is read": (
        {"memory": "neighbour"}, True, "neighbour",
        "is wrong: it translates the sentence beside it in the batch. Compare a batch with its sentences "
        "alone."),
    "dropout is on": (
        {"noise": True}, True, "noise", "is wrong: it drops features by chance. Call it twice."),
    "the target has no places": (
        {"order": False, "layers": 1}, True, "no_order",
        "is wrong: the target's earlier words are a bag to it. Exchange two of them: what must move?"),
}  # fmt: skip


@cache
def _made(name):
    return _decoder(11, **_DECODERS[name][0])


def _asked(name):
    _, faulty, mistake, told = _DECODERS[name]
    return Implementation(name, lambda: (_made(name), 11), faulty, mistake, told)


wrong_decoder = LearnerTest(
    tuple(map(_asked, _DECODERS)),
    {
        True: ("all_faulty", "You call all seventeen decoders wrong. Four are right. Did you leave room for "
               "rounding, and leave out what stands at padding?"),
        False: ("all_fine", "You call all seventeen decoders right. Thirteen are wrong. Change one word, or "
                "add padding, and ask which scores may move."),
    },
    "All seventeen judged rightly. What a decoder may read is all that you asked: the source as a whole, the "
    "past in its order, and neither padding nor neighbours nor the future.",
)

_TEST = """
import torch


def wrong_decoder(scores, words):
    g = torch.Generator().manual_seed(0)
    src, tgt = torch.randint(1, words, (3, 5), generator=g), torch.randint(1, words, (3, 6), generator=g)
    other = lambda ids: ids % (words - 1) + 1                       # another word for each
    plain = scores(src, tgt)
    moved = lambda a, b: (a - b).abs().amax((0, 2)) > 1e-4          # (L,) at which positions
    if moved(scores(src, tgt), plain).any():                        # twice the same
        return True
    for t in range(5):                                              # the future
        later = tgt.clone()
        later[:, t + 1 :] = other(tgt[:, t + 1 :])
        if moved(scores(src, later), plain)[: t + 1].any():
            return True
    for s in range(5):                                              # all of the source
        changed = src.clone()
        changed[:, s] = other(src[:, s])
        if not moved(scores(changed, tgt), plain).all():
            return True
    turned = tgt[:, [1, 0, 2, 3, 4, 5]]                             # the past has an order
    if not moved(scores(src, turned), plain)[2:].all():
        return True
    nothing = torch.zeros(3, 2, dtype=torch.long)                   # padding and neighbours
    left, right = torch.cat([nothing, src], 1), torch.cat([src, nothing], 1)
    for n in (0, 1, 2):
        alone = scores(src[n : n + 1], tgt[n : n + 1])
        for mine, others in ((left, right), (right, left)):
            batch = others.clone()
            batch[n] = mine[n]                                      # the others' padding is elsewhere
            if moved(scores(batch, torch.cat([nothing, tgt], 1))[n : n + 1, 2:], alone).any():
                return True
    return False


answer = wrong_decoder
"""

EXERCISES = (
    Exercise(
        "base_parameters", "12", base_parameters,
        (
            "Count matrices first and biases not at all: which does an attention have, which a feed-forward "
            "net?",
            "An encoder layer has one attention and one net. A decoder layer has two attentions and one net. "
            "Six layers of each, and one table of words.",
        ),
        "answer = (3.15, 4.2, 63.1)    # 12 D^2, 16 D^2, and 6 (12 + 16) D^2 + 37,000 D, with biases and "
        "gains",
        "prediction",
    ),
    Exercise(
        "wrong_decoder", "12", wrong_decoder,
        (
            "Make a list of what the scores at position t may depend on, and of what they must not. Each "
            "line is a call with one thing changed.",
            "May not: words after t, padding on either side of either language, other sentences of the "
            "batch, chance. Must: every source word at every position, and the order of earlier target "
            "words.",
            "For padding, let the rows of one batch have it at different sides, and compare each row with "
            "the sentence alone. Leave room for rounding.",
        ),
        _TEST,
        "test",
    ),
)

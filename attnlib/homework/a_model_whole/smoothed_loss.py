"""The loss that a language model learns from: shifted targets, padding, and a label that is smoothed."""

import math

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
    Convention("smoothed", {
        "all": Option("The rest, `e`, is shared out evenly among **all V** words, the target among them.",
                      "You share e out among all words.", "logs.mean(dim=-1)", "shared_by_all"),
        "not_target": Option("The rest, `e`, is shared out evenly among the **V - 1** words that are not the "
                             "target.",
                         "You share e out among the words that are not the target.",
                         "(logs.sum(dim=-1) - own) / (logs.shape[-1] - 1)", "shared_by_the_others"),
        "others": Option("The rest, `e`, is shared out evenly among the **V - 2** words that are neither the "
                              "target nor padding.",
                              "You share e out among the words that are neither target nor padding.",
                              "(logs.sum(dim=-1) - own - logs[..., pad]) / (logs.shape[-1] - 2)",
                              "shared_without_padding"),
    }),
    Convention("total", {
        "mean": Option("The result is the **mean** of that over the targets that count.",
                       "You take the mean over the targets that count.", "counts.sum()",
                       "divided_by_targets"),
        "sentences": Option("The result is the sum of that over the targets that count, divided by **B**, "
                            "the number of sentences.",
                            "You divide by the number of sentences.", "len(ids)", "divided_by_sentences"),
        "sum": Option("The result is the **sum** of that over the targets that count.",
                      "You take the sum, divided by nothing.", "1", "sum_not_divided"),
    }),
)  # fmt: skip
CHOICES = values_of(*CONVENTIONS)
LESSON = ({"smoothed": "all", "total": "mean"}, {"smoothed": "others", "total": "mean"})
SAMPLE = {"smoothed": "not_target", "total": "sentences"}

TEXT = """\
Write `smoothed_loss(logits, ids, pad, e)`: how badly a model foresees the next words.

`ids` has shape `(B, L)` and `logits` `(B, L, V)`, as `whole` gives them for all of `ids`: the logits at a
word are about the word after it, so those at the last have no target. A target counts unless it is `pad`, an
id from 0 to V - 1; at least one does.

What is asked of the model at a target that counts is a distribution, not a word: it gives the target
1 - `e`. {smoothed} The loss there is minus the sum, over all words, of what is asked for times the
logarithm of the softmax of the logits.
{total}

Return a tensor of shape `()`, through which a gradient flows to the logits. Logits may be as large as 1000,
of either sign. `e` is a number from 0 up, below 1."""

STUB = """\
def smoothed_loss(logits, ids, pad, e):
    \"\"\"The loss with a smoothed label, a tensor with one number.\"\"\""""

SOLUTION = """\
    logs = logits[:, :-1].log_softmax(dim=-1)    # (B, L - 1, V)
    targets = ids[:, 1:]
    counts = targets != pad
    own = logs.gather(-1, targets[..., None]).squeeze(-1)
    rest = <smoothed>
    loss = -((1 - e) * own + e * rest)    # (B, L - 1)
    return loss[counts].sum() / <total>"""


def compute(logits, ids, pad, e, *, smoothed="all", total="mean", shift="next", pads="targets", axis=-1,
            sign=-1, weight="right", log="stable", by=None, written_out=False, less="nothing"):  # fmt: skip
    import torch

    scores, targets, inputs = {
        "next": lambda: (logits[:, :-1], ids[:, 1:], ids[:, :-1]),
        "none": lambda: (logits, ids, ids),
        "none_but_last": lambda: (logits[:, :-1], ids[:, :-1], ids[:, :-1]),
        "back": lambda: (logits[:, 1:], ids[:, :-1], ids[:, 1:]),
        "two": lambda: (logits[:, :-2], ids[:, 2:], ids[:, :-2]),
        "rolled": lambda: (logits, ids.roll(-1, 1), ids),
    }[shift]()
    logs = {"stable": lambda: scores.log_softmax(axis), "late": lambda: scores.softmax(axis).log(),
            "clipped": lambda: (scores.softmax(axis) + 1e-9).log(), "none": lambda: scores,
            "twice": lambda: scores.softmax(axis).log_softmax(axis)}[log]()  # fmt: skip
    words = logs.shape[-1]
    own = logs.gather(-1, targets[..., None]).squeeze(-1)
    rest = {
        "all": lambda: logs.mean(-1), "not_target": lambda: (logs.sum(-1) - own) / (words - 1),
        "others": lambda: (logs.sum(-1) - own - logs[..., pad]) / (words - 2),
    }[smoothed]()  # fmt: skip
    rest = torch.where(targets == pad, rest + own / (words - 2), rest) if written_out else rest
    sharing = {"all": words, "not_target": words - 1, "others": words - 2}[smoothed]
    each = {
        "right": lambda: (1 - e) * own + e * rest, "unsmoothed": lambda: own,
        "whole_target": lambda: own + e * rest, "exchanged": lambda: e * own + (1 - e) * rest,
        "full_shares": lambda: (1 - e) * own + e * rest * sharing, "no_rest": lambda: (1 - e) * own,
        "by_all": lambda: (1 - e) * own + e * (rest * sharing - own * (smoothed == "all")) / words,
        "by_all_but_one": lambda: (1 - e) * own + e * rest * sharing / (words - 1),
        "pad_gets_none": lambda: (1 - e) * own + e * (rest - logs[..., pad] / sharing),
    }[weight]()  # fmt: skip
    each = each - _entropy(e, words, sharing) * (less == "entropy")
    real = {"targets": targets != pad, "inputs": inputs != pad, "zero": targets != 0,
            "counted": torch.ones_like(targets, dtype=torch.bool)}[pads]  # fmt: skip
    each = torch.where(real, sign * each, 0.0)
    if by == "rows":
        return (each.sum(1) / real.sum(1).clamp_min(1)).mean()
    count = {"mean": real.sum(), "sentences": len(ids), "sum": 1, "places": real.numel(),
             "ids": ids.numel(), "length": ids.shape[1]}[by or total]  # fmt: skip
    return each.sum() / count


def _entropy(e, words, sharing):
    """The sum, over all words, of what is asked for times its own logarithm."""
    own, other = (1 - e + e / words, e / words) if sharing == words else (1 - e, e / sharing)
    others = (words - 1 if sharing == words else sharing) * other
    return own * math.log(own) + (others * math.log(other) if e else 0)


def cases(rng, choice):
    import torch

    def made(b, length, words, pad, e, pads=(), size=2.0):
        ids = torch.from_numpy(rng.integers(0, words - 1, (b, length)))
        ids = ids + (ids >= pad)                       # no word is padding by chance
        for row, number in enumerate(pads):
            ids[row, length - number :] = pad
        return torch.from_numpy(rng.normal(size=(b, length, words)) * size), ids, pad, e

    far = made(2, 4, 5, 0, 0.1, (1, 0), 400.0)
    return [
        Case("2 sentences of 4 words, one with padding", made(2, 4, 6, 0, 0.2, (1, 0)),
             hint="Write one sentence and under each word its target. Then take one target alone."),
        Case("padding with the id 3", made(3, 5, 7, 3, 0.1, (3, 0, 1))),
        Case("nothing smoothed", made(2, 5, 5, 0, 0.0, (0, 2))),
        Case("logits of hundreds", far,
             hint="The logarithm of a weight that is 0 in the machine is no finite number."),
        Case("as many words in the vocabulary as in a sentence", made(5, 5, 5, 4, 0.3, (2, 0, 1, 0, 3))),
        Case("the gradient, too", made(2, 4, 6, 1, 0.2, (0, 2)), gradient_of=(0,)),
        Case("two words", made(1, 2, 4, 0, 0.4)),
        Case("a sentence of padding alone beside one of words", made(2, 4, 5, 2, 0.1, (4, 0))),
    ]  # fmt: skip


_ZERO = ("A word far behind has a weight of 0 in the machine, and {what}. Take the logarithm on paper first: "
         "it is a logit less the logarithm of a sum.")  # fmt: skip
SHARED_WRONGLY = {
    "all": ("by_all", "by_all_but_one", "pad_gets_none"),
    "not_target": ("by_all", "pad_gets_none"),
    "others": ("by_all", "by_all_but_one"),
}


def mistakes_under(choice):
    """The mistakes that are some under the conventions of a class."""
    none = {*SHARED_WRONGLY["all"]} - {*SHARED_WRONGLY[choice["smoothed"]]}
    return tuple(mistake for mistake in MISTAKES if mistake.choices.get("weight") not in none)


MISTAKES = (
    Mistake("no_shift", "Each place is asked for its own word, which the model sees. The logits at a word "
            "are about the next one.", {"shift": "none"}),
    Mistake("no_shift", "Each place is asked for its own word, which the model sees. The logits at a word "
            "are about the next one.", {"shift": "none_but_last"}),
    Mistake("shift_backwards", "Each place is asked for the word before it. The logits at a word are about "
            "the next one.", {"shift": "back"}),
    Mistake("shift_by_two", "Each place is asked for the word after the next.", {"shift": "two"}),
    Mistake("rolled", "The ids are rolled, so that the last place is asked for the first word. It has no "
            "target.", {"shift": "rolled"}),
    Mistake("padding_counted", "Targets that are padding count with you.", {"pads": "counted"}),
    Mistake("padding_by_inputs", "You leave out the places where padding goes in. It is targets that count "
            "or do not.", {"pads": "inputs"}),
    Mistake("padding_always_zero", "You take the id 0 for padding, whatever pad is.", {"pads": "zero"}),
    Mistake("softmax_over_the_words", "Your softmax runs over the words of a sentence. It runs over the "
            "vocabulary, the last axis.", {"axis": 1}),
    Mistake("negative_loss", "Your loss has the wrong sign. The logarithm of a weight is negative.",
            {"sign": 1}),
    Mistake("not_smoothed", "e has no effect: you ask for the target alone.", {"weight": "unsmoothed"}),
    Mistake("target_keeps_all", "Your target keeps 1, and what is shared out comes on top. It is to have "
            "1 - e.", {"weight": "whole_target"}),
    Mistake("shares_exchanged", "You give e to the target and share 1 - e out.", {"weight": "exchanged"}),
    Mistake("e_to_each", "You give e to each of the words that share it. It is shared out among them.",
            {"weight": "full_shares"}),
    *(Mistake("shares_do_not_sum", "What you ask for at a target does not sum to 1. How many words share e?",
              {"weight": weight}) for weight in SHARED_WRONGLY["all"]),
    Mistake("entropy_subtracted", "You measure how far apart two distributions are: the entropy of what is "
            "asked for has been subtracted.", {"less": "entropy"}),
    Mistake("rest_left_out", "You multiply the target's part by 1 - e and leave out what is shared.",
            {"weight": "no_rest"}),
    Mistake("logarithm_of_zero", _ZERO.format(what="the logarithm of 0 is no finite number"),
            {"log": "late"}),
    Mistake("logarithm_clipped", _ZERO.format(what="a small number in its place hides how wrong the model "
            "was"), {"log": "clipped"}),
    Mistake("logits_without_softmax", "You take the logits themselves. The logarithm of their softmax is "
            "asked for.", {"log": "none"}),
    Mistake("softmax_twice", "You take the softmax twice.", {"log": "twice"}),
    Mistake("mean_of_means", "You take a mean for each sentence and then the mean of these.", {"by": "rows"}),
    Mistake("divided_by_places", "You divide by all places, those with padding among them.",
            {"by": "places"}),
    Mistake("divided_by_ids", "You divide by the number of ids, padding and first words among them.",
            {"by": "ids"}),
    Mistake("divided_by_length", "You divide by the length of a sentence.", {"by": "length"}),
)  # fmt: skip


def question(choice):
    # Whoever counts padding as a target, and writes the distribution out, leaves one word out and not two.
    styles = ({}, {"written_out": True}) if choice["smoothed"] == "others" else ({},)
    return Question(
        id="smoothed_loss", title="What the next word should have been",
        kind="function", name="smoothed_loss", points=4, part=2, minutes=16,
        text=TEXT.format(**said(CONVENTIONS, choice)),
        stub=STUB,
        solution=filled(SOLUTION, CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, mistakes_under(choice), cases,
            "Each place answers for the next word, padding for nothing, and the loss stays finite for any "
            "logits.", visible=4, atol=1e-5, styles=styles,
        ),
        forbids=("cross_entropy", "nll_loss", "kl_div", "NLLLoss", "KLDivLoss", "label_smoothing_loss",
                 "smoothed_targets", "teacher_forcing"),
    )  # fmt: skip

"""The loss of a language model, of lesson 12."""

import numpy as np

from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake


def _next_token_loss(
    logits, tokens, pad_id=None, *,
    shift="next", pads="targets", mean="tokens", axis="classes", log="stable", base="e", sign=1,
    weights="none", cut=None, result="scalar",
):
    import torch

    if result == "view" and logits.shape[0] > 1:
        raise RuntimeError("view size is not compatible with input tensor's size and stride (at least one "
                           "dimension spans across two contiguous subspaces). Use .reshape(...) instead.")
    if cut == "all":
        logits = logits.detach()
    if pads == "always_zero":
        pad_id = 0
    elif pads == "zero_by_default":
        pad_id = 0 if pad_id is None else pad_id
    elif pads == "zero_if_given":
        pad_id = None if pad_id is None else 0
    elif pads == "zero_is_none":
        pad_id = pad_id or None
    elif pads == "ignored":
        pad_id = None
    scores, targets, inputs = _shifted(logits, tokens, shift)
    if result == "half":
        scores = scores.half().to(logits.dtype)
    real = _counted(targets, inputs, tokens, pad_id, pads)
    if pads == "class_removed" and pad_id is not None and 0 <= pad_id < scores.shape[-1]:
        scores = scores.clone()
        scores[..., pad_id] = -torch.inf
        real = real & (targets != pad_id)
    if pads == "logits_zeroed" and pad_id is not None:
        scores = torch.where((targets == pad_id)[..., None], 0.0, scores)
        real = torch.ones_like(real)
    logs = _logs(scores, axis, log)
    if cut == "normaliser":
        logs = scores - torch.logsumexp(scores, -1, keepdim=True).detach()
    losses = -logs.gather(-1, targets[..., None]).squeeze(-1)
    if weights.startswith("smooth"):
        share = float(weights[6:])
        losses = (1 - share) * losses - share * logs.mean(-1)
    elif weights == "one_minus":
        losses = 1 - torch.exp(-losses)
    elif weights == "score":
        losses = -scores.gather(-1, targets[..., None]).squeeze(-1)
    elif weights == "squared":
        losses = ((scores.softmax(-1) - torch.nn.functional.one_hot(targets, scores.shape[-1])) ** 2).sum(-1)
    losses = torch.where(real, losses, 0.0) if pads != "numerator" else losses
    total, count = losses.sum(), real.sum()
    loss = {
        "tokens": lambda: total / count, "sum": lambda: total, "all": lambda: total / real.numel(),
        "length": lambda: total / tokens.numel(), "batch": lambda: total / tokens.shape[0],
        "rows": lambda: (losses.sum(1) / real.sum(1)).mean(),
        "rows_safe": lambda: (losses.sum(1) / real.sum(1).clamp_min(1)).mean(),
        "columns": lambda: (losses.sum(0) / real.sum(0)).mean(),
        "real_rows": lambda: (losses.sum(1) / real.sum(1)).nanmean(),
        "positions": lambda: total / targets.shape[1], "classes": lambda: total / count / scores.shape[-1],
        "real_tokens": lambda: total / (tokens != pad_id if pad_id is not None else tokens == tokens).sum(),
        "length_without_pads": lambda: total / (tokens.numel() if pad_id is None else count),
        "by_class": lambda: _by_class(losses, targets, real, 1),
        "by_class_inverse": lambda: _by_class(losses, targets, real, -1),
        "each": lambda: losses, "each_row": lambda: losses.sum(1),
        "eps": lambda: total / (count + 1),
    }[mean]()
    loss = sign * loss / {"e": 1.0, "2": np.log(2), "10": np.log(10)}[base]
    if result == "perplexity":
        loss = loss.exp()
    elif result == "number":
        return loss.item()
    elif result == "one_entry":
        return loss.reshape(1)
    return loss.detach().requires_grad_() if cut == "copy" else loss


def _by_class(losses, targets, real, power):
    """A mean in which a target weighs as much as its class is frequent, or as it is rare."""
    import torch

    weights = torch.where(real, targets.flatten().bincount()[targets].to(losses.dtype) ** power, 0)
    return (losses * weights).sum() / weights.sum()


def _shifted(logits, tokens, shift):
    """Scores, their targets and the tokens that stand where the scores do."""
    import torch

    length = tokens.shape[1]
    flat = logits.reshape(1, -1, logits.shape[-1]), tokens.reshape(1, -1)
    return {
        "next": lambda: (logits[:, :-1], tokens[:, 1:], tokens[:, :-1]),
        "none": lambda: (logits, tokens, tokens),
        "none_first_dropped": lambda: (logits[:, 1:], tokens[:, 1:], tokens[:, 1:]),
        "none_last_dropped": lambda: (logits[:, :-1], tokens[:, :-1], tokens[:, :-1]),
        "back": lambda: (logits[:, 1:], tokens[:, :-1], tokens[:, 1:]),
        "two": lambda: (logits[:, :-2], tokens[:, 2:], tokens[:, :-2]),
        "first_lost": lambda: (logits[:, 1:-1], tokens[:, 2:], tokens[:, 1:-1]),
        "last_lost": lambda: (logits[:, :-2], tokens[:, 1:-1], tokens[:, :-2]),
        "last_lost_of_more": lambda: (logits[:, : max(length - 2, 1)], tokens[:, 1 : max(length - 1, 2)],
                                      tokens[:, : max(length - 2, 1)]),
        "rolled": lambda: (logits, tokens.roll(-1, 1), tokens),
        "rolled_flat": lambda: (logits, tokens.roll(-1), tokens),
        "last_zero": lambda: (logits, torch.cat([tokens[:, 1:], torch.zeros_like(tokens[:, :1])], 1), tokens),
        "flat": lambda: (flat[0][:, :-1], flat[1][:, 1:], flat[1][:, :-1]),
        "first_sentence": lambda: (logits[:1, :-1], tokens[:1, 1:], tokens[:1, :-1]),
        "batch": lambda: (logits[:-1], tokens[1:], tokens[:-1]),
        "last_only": lambda: (logits[:, -2:-1], tokens[:, -1:], tokens[:, -2:-1]),
    }[shift]()


def _counted(targets, inputs, tokens, pad_id, pads):
    """Which targets count."""
    import torch

    real = torch.ones_like(targets, dtype=torch.bool) if pad_id is None else targets != pad_id
    if pad_id is None:
        return real
    if pads == "inputs":
        return inputs != pad_id
    if pads == "both":
        return real & (inputs != pad_id)
    if pads == "until_first":
        return real.long().cumprod(1).bool()
    if pads == "not_below":
        return targets > pad_id
    if pads == "whole_rows":
        return real.all(1, keepdim=True).expand_as(real)
    if pads == "whole_rows_if_others":
        whole = real.all(1, keepdim=True)
        return whole.expand_as(real) if whole.any() else real
    if pads == "inverted":
        return ~real
    return real


def _logs(scores, axis, log):
    import torch

    if axis == "positions":
        return scores.log_softmax(1)
    if axis == "batch":
        return scores.log_softmax(0)
    if axis == "all":
        return scores.flatten().log_softmax(0).reshape(scores.shape)
    if axis == "classes_and_positions":
        return scores.flatten(1).log_softmax(1).reshape(scores.shape)
    if axis == "reshaped":
        b, length, classes = scores.shape
        return scores.reshape(b, classes, length).log_softmax(1).transpose(1, 2)
    if log == "softmax_again":
        return scores.softmax(-1).log_softmax(-1)
    if log == "log_softmax_again":
        return scores.softmax(-1)
    if log == "of_softmax":
        return scores.softmax(-1).log()
    if log == "naive":
        e = scores.exp()
        return (e / e.sum(-1, keepdim=True)).log()
    if log == "naive_difference":
        return scores - scores.exp().sum(-1, keepdim=True).log()
    if log == "maximum_of_all":
        scores = scores - scores.max()
        return scores - scores.exp().sum(-1, keepdim=True).log()
    if log == "sigmoid":
        return torch.nn.functional.logsigmoid(scores)
    if log.startswith("plus"):
        return (scores.softmax(-1) + float(log[4:])).log()
    if log.startswith("least"):
        return scores.softmax(-1).clamp_min(float(log[5:])).log()
    return scores.log_softmax(-1)


_SHIFTS = (
    Mistake("no_shift", "Each position is asked for its own token, which it can see. Position t predicts "
            "token t + 1.", {"shift": "none"}),
    Mistake("no_shift", "You drop the first position of both, so that each position is still asked for its "
            "own token. Position t predicts token t + 1: scores and tokens lose different ends.",
            dict(shift="none_first_dropped"), rare=True),
    Mistake("no_shift", "You drop the last position of both, so that each position is still asked for its "
            "own token. Position t predicts token t + 1: scores and tokens lose different ends.",
            {"shift": "none_last_dropped"}),
    Mistake("shift_backwards", "Each position is asked for the token before it. Position t predicts token "
            "t + 1.",
            {"shift": "back"}),
    Mistake("shift_by_two", "Each position is asked for the token after the next. Position t predicts token "
            "t + 1.", dict(shift="two"), rare=True),
    Mistake("rolled", "The tokens are rolled, so that the last position is asked for the first token. It "
            "predicts nothing.", {"shift": "rolled"}),
    Mistake("rolled", "The tokens are rolled through all sentences, so that the last position is asked for "
            "the next sentence's first token. It predicts nothing.",
            dict(shift="rolled_flat"), rare=True),
    Mistake("last_position_counted", "The last position is asked for a token 0 that was put after the end. "
            "It predicts nothing.", dict(shift="last_zero"), rare=True),
    Mistake("sentences_joined", "The sentences are laid end to end before the shift, so that the last "
            "position of one is asked for the first token of the next. Shift first.", {"shift": "flat"}),
    Mistake("position_lost", "The first prediction is lost: position 0 predicts token 1.",
            dict(shift="first_lost"), rare=True),
    Mistake("position_lost", "The last prediction is lost. The last token is predicted by the position "
            "before it.",
            dict(shift="last_lost"), rare=True),
    Mistake("position_lost", "The last prediction is lost. The last token is predicted by the position "
            "before it.", dict(shift="last_lost_of_more"), rare=True),
    Mistake("position_lost", "Only the last token is predicted. Every position but the last predicts one.",
            dict(shift="last_only"), rare=True),
    Mistake("first_sentence", "Only the first sentence counts. The mean runs over the targets of all.",
            dict(shift="first_sentence"), rare=True),
    Mistake("axes_confused", "The shift runs over the batch. Axis 1 is the length.",
            dict(shift="batch"), rare=True),
)
_PADS = (
    Mistake("pads_counted", "Your pad_id has no effect. Targets that equal it count neither in the sum nor "
            "in the mean.", {"pads": "ignored"}),
    Mistake("pad_always_zero", "You take 0 for the padding whatever pad_id says. Without a pad_id every "
            "token counts, 0 too.", {"pads": "always_zero"}),
    Mistake("pad_always_zero", "Without a pad_id you take 0 for it. Then every token counts, 0 too.",
            {"pads": "zero_by_default"}),
    Mistake("pad_always_zero", "You take 0 for the padding whatever pad_id says. It may be any id.",
            dict(pads="zero_if_given"), rare=True),
    Mistake("pad_zero_is_none", "A pad_id of 0 is taken for none, because 0 counts as False. Ask whether it "
            "is None.", {"pads": "zero_is_none"}),
    Mistake("pads_in_mean", "The padding is left out of the sum, and the mean still divides by all targets. "
            "Divide by those that count.", {"mean": "all"}),
    Mistake("pads_in_sum", "The padding is left out of the number that you divide by, and its losses are "
            "still in the sum.", {"pads": "numerator"}),
    Mistake("mask_of_inputs", "You leave out the positions at which the padding stands. It is the target "
            "that decides, one token further on.", {"pads": "inputs"}),
    Mistake("mask_of_inputs", "You also leave out the positions at which the padding stands itself. It is "
            "the target alone that decides: after padding on the left a real token is predicted.",
            dict(pads="both"), rare=True),
    Mistake("until_first_pad", "You leave out everything after the first padding. Where padding stands on "
            "the left or in the middle, real tokens come after it.",
            dict(pads="until_first"), rare=True),
    Mistake("ids_above", "You count the targets above pad_id. Those below it are real too.",
            dict(pads="not_below"), rare=True),
    Mistake("rows_dropped", "Sentences with any padding are left out as a whole. Their real targets count.",
            dict(pads="whole_rows"), rare=True),
    Mistake("rows_dropped", "Sentences with any padding are left out as a whole. Their real targets count.",
            dict(pads="whole_rows_if_others"), rare=True),
    Mistake("padding_only", "You count the padding and leave out the rest. What equals pad_id is left out.",
            dict(pads="inverted"), rare=True),
    Mistake("pad_class_removed", "The padding's score is taken out of the softmax. It stays a class like the "
            "others; what is left out are the targets.", dict(pads="class_removed"), rare=True),
    Mistake("logits_zeroed", "You set the scores of padded targets to 0, and equal scores still have a loss, "
            "the logarithm of their number.", dict(pads="logits_zeroed"), rare=True),
)
_MEANS = (
    Mistake("sum", "The losses are summed. Their mean is asked for.", {"mean": "sum"}),
    Mistake("mean_over_all_positions", "You divide by all tokens. The last position predicts nothing, so "
            "there is one target less in each sentence.", {"mean": "length"}),
    Mistake("mean_over_all_positions", "You divide by the number of real tokens. The first of a sentence is "
            "predicted by nobody: count targets.", {"mean": "real_tokens"}),
    Mistake("mean_over_all_positions", "Without a pad_id you divide by all tokens. The last position "
            "predicts nothing, so there is one target less in each sentence.",
            dict(mean="length_without_pads"), rare=True),
    *(Mistake("weighted", f"A target weighs the more, the {how} its class is. Every target counts the same.",
              dict(mean=mean), rare=True)
      for how, mean in (("more frequent", "by_class"), ("rarer", "by_class_inverse"))),
    Mistake("mean_over_sentences", "You sum over each sentence and divide by their number. Divide by the "
            "number of targets.", dict(mean="batch"), rare=True),
    Mistake("mean_of_means", "You take each sentence's mean and then the mean of these, so a token of a "
            "short sentence counts for more. Every target counts the same.", {"mean": "rows"}),
    *(Mistake("mean_of_means", "You take each sentence's mean and then the mean of these, so a token of a "
              "short sentence counts for more. Every target counts the same.",
              dict(mean=how), rare=True)
      for how in ("real_rows", "rows_safe")),
    Mistake("mean_of_means", "You take the mean of each position and then the mean of these. Every target "
            "counts the same.", dict(mean="columns"), rare=True),
    Mistake("mean_over_positions", "You sum over the batch and divide by the number of positions. Divide by "
            "the number of targets.", dict(mean="positions"), rare=True),
    Mistake("mean_over_classes", "You also divide by the number of classes. Each target has one loss, "
            "whatever their number.",
            dict(mean="classes"), rare=True),
    Mistake("no_mean", "There is one loss for each target. Their mean is asked for, one number.",
            dict(mean="each"), rare=True),
    Mistake("no_mean", "There is one loss for each sentence. The mean over all targets is asked for.",
            dict(mean="each_row"), rare=True),
    Mistake("mean_plus_one", "You divide by one more than there are targets. The mean needs nothing added.",
            dict(mean="eps"), rare=True),
)
_SOFTMAX = (
    Mistake("softmax_over_positions", "The softmax runs over the positions. It runs over the classes, the "
            "last axis.", {"axis": "positions"}),
    Mistake("softmax_over_batch", "The softmax runs over the batch. It runs over the classes, the last axis.",
            dict(axis="batch"), rare=True),
    Mistake("softmax_over_all", "One softmax runs over positions and classes together. Each position has "
            "its own.",
            dict(axis="all"), rare=True),
    Mistake("softmax_over_all", "One softmax runs over a sentence's positions and classes together. Each "
            "position has its own.", dict(axis="classes_and_positions"), rare=True),
    Mistake("reshaped_to_classes", "A reshape puts the classes in second place, and mixes them with "
            "positions. Which function exchanges two axes?", dict(axis="reshaped"), rare=True),
    Mistake("softmax_twice", "The softmax is taken, and cross_entropy takes it once more. It wants raw "
            "scores.",
            {"log": "softmax_again"}),
    Mistake("no_log", "You average probabilities. It is their logarithms that are averaged.",
            dict(log="log_softmax_again"), rare=True),
    Mistake("log_of_softmax", "You take the logarithm of the weights, and a weight that has become 0 has "
            "-inf. log_softmax does both at once.", {"log": "of_softmax"}),
    *(Mistake("overflow", "Exp of a large score is infinite. Subtract each position's largest score, or use "
              "what does.", dict(log=how), rare=True) for how in ("naive", "naive_difference")),
    Mistake("maximum_of_all", "You subtract the largest of all scores. At a position that lies far below it "
            "every exp is 0. Each position has its own largest score.",
            dict(log="maximum_of_all"), rare=True),
    Mistake("sigmoid", "Each class has its own sigmoid. One softmax over the classes is asked for.",
            dict(log="sigmoid"), rare=True),
    *(Mistake("log_of_bounded", "A small number keeps the weights away from 0 before the logarithm, and so "
              "bounds the loss. log_softmax needs no such help.", dict(log=f"{how}{size}"), rare=True)
      for how in ("plus", "least")
      for size in ("1e-6", "1e-7", "1e-8", "1e-9", "1e-10", "1e-12", "1e-15", "1e-16", "1e-20", "1e-30")),
)
_OTHERS = (
    Mistake("sign", "The sign is turned round: this grows when the model gets better.", {"sign": -1}),
    Mistake("other_base", "The logarithm has base 2. The natural one is asked for.", {"base": "2"}),
    Mistake("other_base", "The logarithm has base 10. The natural one is asked for.",
            dict(base="10"), rare=True),
    Mistake("perplexity", "This is the perplexity, the exponential of the loss. The loss itself is asked "
            "for.",
            dict(result="perplexity"), rare=True),
    *(Mistake("label_smoothing", "The targets are smoothed. Here all of the weight lies on the token that "
              "comes.",
              dict(weights=f"smooth{share}"), rare=True) for share in (0.1, 0.05, 0.01)),
    Mistake("no_log", "You take one minus the probability. It is minus its logarithm that is asked for.",
            dict(weights="one_minus"), rare=True),
    Mistake("no_softmax", "You take the raw score of the target, as nll_loss does. It wants log_softmax "
            "first.",
            {"weights": "score"}),
    Mistake("squared_error", "This is a squared error. The cross-entropy is asked for.",
            dict(weights="squared"), rare=True),
    Mistake("half_precision", "The scores are cut to half precision, which has three digits.",
            dict(result="half"), rare=True),
    Mistake("view_of_slice", "A view needs memory in the order of the axes, and a slice along the length is "
            "not. What copies where it must?", dict(result="view"), rare=True),
    Mistake("number", "This is a Python number, through which no gradient can flow. Return the tensor.",
            dict(result="number"), rare=True),
    Mistake("one_entry", "The result has an axis of length 1. A scalar tensor has none.",
            dict(result="one_entry"), rare=True),
    Mistake("no_gradient", "The loss has no gradient: somewhere it left torch, or was detached.",
            dict(cut="all"), rare=True),
    Mistake("no_gradient", "The loss is a new tensor that has forgotten where it came from: no gradient "
            "reaches the scores.", dict(cut="copy"), rare=True),
    Mistake("gradient_cut", "The value is right, and the gradient misses the sum over the classes: every "
            "score of a target would grow for ever.", dict(cut="normaliser"), rare=True),
)


def _loss_cases():
    import torch

    rng = np.random.default_rng(12)

    def made(b, length, classes, size=1.5):
        logits = torch.tensor(rng.normal(size=(b, length, classes)) * size, dtype=torch.float32)
        return logits, torch.tensor(rng.integers(0, classes, size=(b, length)))

    def with_tokens(logits, rows):
        return logits, torch.tensor(rows)

    plain = made(2, 5, 7)
    right = with_tokens(made(3, 5, 6)[0], [[1, 4, 2, 3, 0], [5, 2, 0, 0, 0], [2, 3, 0, 0, 0]])
    left = with_tokens(made(2, 6, 5)[0], [[3, 3, 0, 4, 2, 1], [3, 1, 3, 2, 0, 4]])
    ends = with_tokens(made(3, 4, 5)[0], [[4, 1, 2, 4], [0, 4, 4, 4], [2, 0, 1, 3]])
    large = torch.tensor([[[800.0, 0.0, -900.0], [0.0, 1000.0, 999.0], [-2000.0, -2001.0, -2000.5],
                           [0.0, 0.0, 0.0]]])
    apart = torch.tensor([[[0.0, 40.0, 20.0], [0.0, -45.0, 3.0], [0.0, 0.0, 0.0]]])
    uneven = torch.tensor([[[0.0, 1.0, -1.0], [-3000.0, -3001.0, -2999.0], [3000.0, 3002.0, 3001.0]],
                           [[1.0, 0.0, 0.5], [0.0, 2.0, 1.0], [1.0, 1.0, 2.0]]])
    shift = ("Write down which target belongs to position 0, and which to the last. Then the mean: what is "
             "summed, and by what is it divided?")
    pads = "A target that equals pad_id counts neither in the sum nor in the number that it is divided by."
    finite = "The loss is finite for finite scores. Where does an exp overflow, or a logarithm meet 0?"
    graded = tuple(a.double() if a.is_floating_point() else a for a in plain)
    return [
        Case("2 sentences of 5 tokens and 7 classes", plain, hint=shift),
        Case("one sentence", made(1, 6, 4), hint=shift),
        Case("2 tokens", made(3, 2, 5), hint="There is one target in each sentence."),
        Case("fewer classes than tokens", made(2, 7, 3)),
        Case("sentences, tokens and classes all 4", made(4, 4, 4), hint="Which axis is which?"),
        Case("tokens 0 and no pad_id", with_tokens(made(2, 4, 5)[0], [[0, 0, 2, 0], [3, 0, 0, 1]]),
             hint="Without a pad_id every target counts, 0 too."),
        Case("padding 0 on the right", (*right, 0), hint=pads),
        Case("padding 3 on the left and in the middle", (*left, 3), hint=pads),
        Case("pad_id 4, which is also the last class", (*ends, 4), hint=pads),
        Case("pad_id 1, which one sentence alone has",
             (*with_tokens(made(2, 5, 4)[0], [[2, 0, 3, 1, 1], [0, 2, 3, 0, 2]]), 1), hint=pads),
        Case("a pad_id that does not occur",
             (*with_tokens(made(2, 4, 6)[0], [[0, 1, 2, 3], [3, 0, 1, 2]]), 5)),
        Case("a sentence of padding only", (*with_tokens(made(2, 4, 5)[0], [[2, 2, 2, 2], [1, 0, 2, 3]]), 2),
             hint=pads),
        Case("sentences of the same sizes with other scores", made(2, 5, 7), hint="Is something kept?"),
        Case("scores of a thousand", with_tokens(large, [[0, 2, 2, 1]]), hint=finite),
        Case("positions of very different size", with_tokens(uneven, [[0, 2, 1], [1, 0, 2]]), hint=finite),
        Case("scores 40 apart", with_tokens(apart, [[0, 0, 1]]), hint=finite),
        Case("scores transposed in memory", (made(5, 2, 6)[0].transpose(0, 1), made(2, 5, 6)[1])),
        Case("float64", (graded[0] * 2, plain[1], 3)),
        Case("the gradient in logits", graded, gradient_of=(0,), hint="Every step must stay in torch."),
        Case("the gradient in logits beside padding", (left[0].double(), left[1], 3), gradient_of=(0,),
             hint="Positions whose target is padding get none."),
        Case("the gradient in logits of scores of a thousand", (large.double(), torch.tensor([[0, 2, 2, 1]])),
             gradient_of=(0,), hint=finite),
    ]


def _a_loss(case, value, expected):
    value = floats(value[0] if isinstance(value, (tuple, list)) else value)
    if value is None or value.size != 1:
        return None
    if not np.isfinite(value).all():
        return "The loss is not finite."
    if value.min() < 0:
        return "The loss is negative, and minus a logarithm of a probability is not."
    return None


next_token_loss = FunctionExercise(
    _next_token_loss, _loss_cases, (*_SHIFTS, *_PADS, *_MEANS, *_SOFTMAX, *_OTHERS),
    "Checked with one sentence and several, with padding on the right, on the left and in between, under "
    "several ids and none, with scores of a thousand, and with the gradient. A sentence of L tokens is L - 1 "
    "exercises.",
    properties=(_a_loss,), rtol=1e-4, atol=1e-5,
)

EXERCISES = (
    Exercise(
        "next_token_loss", "12", next_token_loss,
        (
            "Take one sentence of four tokens. Which position is asked for which token, and how many "
            "questions are there?",
            "The scores lose their last position and the tokens their first one; then position t of the one "
            "belongs to position t of the other.",
            "Take the log-softmax over the classes, pick the target's entry at each position, and average "
            "its negative over the targets that are not pad_id. cross_entropy of torch does it too, on "
            "scores of shape (targets, V); what is to be ignored has an argument of its own.",
        ),
        '''\
import torch


def next_token_loss(logits, tokens, pad_id=None):
    targets = tokens[:, 1:]
    logs = torch.log_softmax(logits[:, :-1], dim=-1)
    losses = -logs.gather(-1, targets[..., None]).squeeze(-1)      # (B, L - 1)
    if pad_id is not None:
        losses = losses[targets != pad_id]
    return losses.mean()
''',
        "function",
    ),
)

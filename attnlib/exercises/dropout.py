"""Dropout of attention weights, of lesson 09."""

import numpy as np

from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.heads import of_an_earlier_call


def _dropout(scores, p, training, keep, *, where="after", rescale="inverted", kept="given", flag="right",
             idle="plain", axis=-1, softmax="right", form="array"):  # fmt: skip
    scores = np.asarray(scores, dtype=np.result_type(np.asarray(scores).dtype, np.float32))
    training = {"right": training, "inverted": not training, "always": True, "never": False}[flag]
    keep = _keep(keep, kept)
    if where == "scores":
        scores = scores * keep / (1 - p) if training else scores
    elif where == "scores_unscaled":
        scores = scores * keep if training else scores
    elif where in ("minus_infinity_rescaled", "minus_infinity", "large_negative") and training:
        scores = np.where(keep > 0, scores, -1e9 if where == "large_negative" else -np.inf)
    weights = scores if where == "no_softmax" else _np_softmax(scores, axis, softmax)
    if where == "minus_infinity_rescaled" and training:
        weights = weights / (1 - p)
    if where in ("after", "no_softmax"):
        weights = _dropped(weights, p, keep, rescale, kept) if training else _idle(weights, p, keep, idle)
    if form in ("array", "ones"):
        return np.minimum(weights, 1) if form == "ones" else weights
    return _in_form(weights, keep, form)


def _keep(keep, kept):
    if kept == "inverted":
        return 1 - keep
    if kept == "first":
        return np.broadcast_to(keep[:1] if keep.ndim > 1 else keep, keep.shape)
    if kept == "whole rows":
        return np.broadcast_to(keep.all(-1, keepdims=True), keep.shape)
    if kept == "rows with any":
        return np.broadcast_to(keep.any(-1, keepdims=True), keep.shape)
    if kept == "but the last":
        return np.concatenate([keep[..., :-1], np.ones_like(keep[..., -1:])], -1)
    if kept == "as numbers of rows":
        return keep if keep.dtype == bool else np.zeros(keep.shape)[keep]
    if kept == "none":
        return np.zeros_like(keep)
    if kept == "all":
        return np.ones_like(keep)
    return keep


def _dropped(weights, p, keep, rescale, kept):
    dropped = weights * keep
    with np.errstate(all="ignore"):
        out = dropped * {
            "inverted": lambda: 1 / (1 - p), "none": lambda: 1, "by_p": lambda: np.float64(1) / p,
            "times": lambda: 1 - p, "times_p": lambda: p, "by_p_raises": lambda: 1 / p,
            "by_p_or_not": lambda: 1 / p if p > 0 else 1, "share": lambda: 1 / keep.mean(),
            "row_share": lambda: 1 / keep.mean(-1, keepdims=True),
            "safe_row_share": lambda: keep.shape[-1] / np.maximum(keep.sum(-1, keepdims=True), 1),
            "root": lambda: (1 - p) ** -0.5,
            "sum": lambda: 1 / dropped.sum(-1, keepdims=True), "plus": lambda: 1 / (1 + p),
            "sum_too": lambda: 1 / (1 - p) / dropped.sum(-1, keepdims=True),
            "safe_sum": lambda: 1 / np.maximum(dropped.sum(-1, keepdims=True), 1e-9),
            "twice": lambda: (1 - p) ** -2.0, "half": lambda: 2, "grown": lambda: 1 + p,
        }[rescale]()  # fmt: skip
    if kept == "only kept scaled":
        return np.where(keep == 0, weights, out)
    if kept == "empty rows restored":
        return np.where(keep.any(-1, keepdims=True), out, weights)
    if kept == "empty rows uniform":
        return np.where(keep.any(-1, keepdims=True), out, 1 / keep.shape[-1])
    if kept == "but the last, as it is":
        return np.concatenate([out[..., :-1], weights[..., -1:]], -1)
    if kept == "of its type":
        return out.astype(keep.dtype)
    return out


def _idle(weights, p, keep, idle):
    return {
        "plain": lambda: weights, "times": lambda: weights * (1 - p), "divided": lambda: weights / (1 - p),
        "dropped": lambda: weights * keep, "log": lambda: np.log(weights), "zero": lambda: weights * 0,
    }[idle]()  # fmt: skip


def _in_form(weights, keep, form):
    if form == "tensor":
        import torch

        return torch.from_numpy(weights)
    return {
        "squeezed": lambda: np.squeeze(weights), "pair": lambda: (weights, keep), "float16":
        lambda: weights.astype(np.float16).astype(float), "list": lambda: tuple(weights), "whole":
        lambda: weights.astype(int), "floor": lambda: np.floor(weights), "type of keep":
        lambda: weights.astype(keep.dtype),
    }[form]()  # fmt: skip


def _np_softmax(scores, axis, way):
    axis = {"all": None, "1 or 0": min(1, scores.ndim - 1)}.get(axis, axis)
    with np.errstate(all="ignore"):
        if way == "axis_of_rows":
            axis = tuple(range(1, scores.ndim)) or -1
        if way == "scaled":
            scores = scores / scores.shape[-1] ** 0.5
        elif way.startswith("clipped"):
            scores = np.clip(scores, -float(way[7:]), float(way[7:]))
        top = scores.max(axis=None if way == "maximum_of_all" else axis, keepdims=True)
        top = 0 if way == "naive" else top
        e = np.exp2(scores - top) if way == "two" else np.exp(scores - top)
        if way == "no_keepdims":
            return e / e.sum(axis=axis)
        if way == "sigmoid":
            return 1 / (1 + np.exp(-scores))
        if way == "exponentials":
            return e
        weights = e / (e.sum(axis=axis, keepdims=True) + {"epsilon": 1e-2, "small_epsilon": 1e-3}.get(way, 0))
        if way == "log":
            return np.log(weights)
        return _np_softmax(weights, axis, "right") if way == "twice" else weights


_RENORMALISED = (
    "What is left is brought back to a sum of 1, so the other keys make up for a dropped one. (Hiding "
    "scores before the softmax does this too.) Divide by 1 - p, which does not depend on the row."
)
_ON_SCORES = (
    "You drop scores, before the softmax. A score of 0 is no missing key: exp(0) is 1. Drop weights, after "
    "the softmax."
)
_DROPOUT = (
    Mistake("not_rescaled", "The weights are dropped and not raised, so on average a row sums to 1 - p in "
            "training and to 1 afterwards. Divide what is kept.", {"rescale": "none"}),
    Mistake("rescaled_at_test", "You leave the weights in training and lower them afterwards. Here they "
            "are raised in training, and the softmax comes back untouched without it.",
            {"rescale": "none", "idle": "times"}, convention=True),
    *(Mistake("divided_by_p", "You divide by p, the part that is dropped. Divide by the part that is kept, "
              "1 - p.", {"rescale": rescale}) for rescale in ("by_p", "by_p_raises", "by_p_or_not")),
    Mistake("multiplied", "You multiply by 1 - p. Divide: what is kept has to stand in for what was "
            "dropped.", {"rescale": "times"}),
    Mistake("multiplied", "You multiply by p. Divide by 1 - p.", {"rescale": "times_p"}),
    Mistake("divided_by_share", "You divide by the share that happened to be kept. Divide by 1 - p, "
            "whatever was drawn.", {"rescale": "share"}),
    *(Mistake("divided_by_share", "You divide by the share of each row that happened to be kept. Divide by "
              "1 - p, whatever was drawn.", {"rescale": rescale}) for rescale in ("row_share", ""
              "safe_row_share")),
    Mistake("divided_by_root", "You divide by the root of 1 - p. To keep the mean, divide by 1 - p.",
            {"rescale": "root"}),
    Mistake("divided_by_sum", "You divide by 1 + p. Divide by 1 - p.", {"rescale": "plus"}),
    Mistake("multiplied", "You multiply by 1 + p. Divide by 1 - p.", {"rescale": "grown"}),
    Mistake("rescaled_twice", "You divide by 1 - p twice. Once keeps the mean.", {"rescale": "twice"}),
    Mistake("fixed_p", "You double what is kept, which is right for p = 0.5 alone. Divide by 1 - p.",
            {"rescale": "half"}),
    Mistake("renormalised", _RENORMALISED, {"rescale": "sum"}),
    Mistake("renormalised", _RENORMALISED, {"rescale": "safe_sum"}),
    Mistake("renormalised", f"You divide by 1 - p and by the sum of what is left. {_RENORMALISED}",
            {"rescale": "sum_too"}),
    *(Mistake("renormalised", _RENORMALISED,
              {"where": where}) for where in ("large_negative", "minus_infinity")),
    Mistake("renormalised", _RENORMALISED,
            {"where": "minus_infinity_rescaled"}),
    Mistake("dropout_on_scores", _ON_SCORES, {"where": "scores"}),
    Mistake("dropout_on_scores", _ON_SCORES, {"where": "scores_unscaled"}),
    Mistake("no_softmax", "The scores come back dropped and rescaled. They must be made weights first.",
            {"where": "no_softmax"}),
    Mistake("keep_inverted", "What keep marks with 1 is dropped. 1 means keep. (If you compare keep with "
            "p: it holds no random numbers, the draw is done.)", {"kept": "inverted"}),
    Mistake("nothing_kept", "In training every weight comes out as 0. Where keep is 1 a weight stays. (If "
            "you use ~ on numbers: it turns bits, and ~0 and ~1 are both true.)", {"kept": "none"}),
    Mistake("first_row_of_keep", "The first row of keep is used for all. Every weight has its own entry.",
            {"kept": "first"}),
    *(Mistake("whole_rows_dropped", "Whole rows are dropped or kept. Every weight has its own entry in keep.",
              {"kept": kept}) for kept in ("whole rows", "rows with any")),
    Mistake("last_key_not_dropped", "The last key is never dropped: a loop or a slice ends one too early.",
            {"kept": "but the last"}),
    Mistake("last_key_not_dropped", "The last key is neither dropped nor raised: a loop or a slice ends one "
            "too early.", {"kept": "but the last, as it is"}),
    *(Mistake("keep_as_index", "You use keep as an index. Booleans choose, and numbers count rows: 0 and 1 "
              "mean the first two. Multiply by keep, or compare it with 0 first.", {"kept": kept})
      for kept in ("as numbers of rows",)),
    Mistake("keep_ignored", "Everything is kept and raised: keep has no effect. (If you use ~ on "
            "numbers: it turns bits, and ~0 and ~1 are both true.)", {"kept": "all"}),
    Mistake("only_scaled", "What keep marks with 0 stays as it was. Its weight becomes 0.",
            {"kept": "only kept scaled"}),
    *(Mistake("empty_row_restored", "A row of which nothing is kept gets weights all the same. It is zero "
              "throughout; dropout does not look at what is left.", {"kept": kept})
      for kept in ("empty rows restored", "empty rows uniform")),
    Mistake("training_inverted", "Dropout happens when training is False, and not when it is True.",
            {"flag": "inverted"}),
    Mistake("always_dropped", "Dropout happens without training too. With training=False the plain "
            "softmax comes back.", {"flag": "always"}),
    Mistake("always_dropped", "Without training the weights are still multiplied by keep. With "
            "training=False the plain softmax comes back.", {"idle": "dropped"}),
    Mistake("never_dropped", "Nothing is dropped in training.", {"flag": "never"}),
    Mistake("scaled_without_training", "Without training the weights are multiplied by 1 - p. They were "
            "raised in training already.", {"idle": "times"}),
    Mistake("scaled_without_training", "Without training the weights are divided by 1 - p. The plain "
            "softmax comes back.", {"idle": "divided"}),
    Mistake("log_weights", "Without training the logarithms of the weights come back. The weights are asked "
            "for.", {"idle": "log"}),
    Mistake("nothing_without_training", "Without training all weights are 0. The plain softmax comes back.",
            {"idle": "zero"}),
    Mistake("softmax_over_all", "The softmax runs over all numbers at once. It runs over the last axis.",
            {"axis": "all"}),
    Mistake("softmax_wrong_axis", "The softmax runs over the first axis. It runs over the last.",
            {"axis": 0}),
    Mistake("softmax_wrong_axis", "The softmax runs over axis 1, which is the last one of a table only. "
            "Count from the end.", {"axis": 1}),
    Mistake("softmax_wrong_axis", "The softmax runs over the last axis but one. It runs over the last.",
            {"axis": -2}),
    Mistake("softmax_wrong_axis", "All that belongs to one entry of the first axis is normalised together. "
            "Each row of the last axis sums to 1 by itself, however many axes stand before it.",
            {"softmax": "axis_of_rows"}),
    Mistake("overflow", "Exp of a large score is infinite, and inf/inf is NaN. Subtract each row's "
            "largest score.", {"softmax": "naive"}),
    Mistake("maximum_of_all", "You subtract the largest of all scores. In a row that lies far below it every "
            "exp is 0, and 0/0 is NaN. Subtract each row's own largest score.",
            {"softmax": "maximum_of_all"}),
    *(Mistake("scores_clipped", "The scores are clipped, so that large ones come out alike. Subtract each "
              "row's largest score instead: that changes no weight.", {"softmax": f"clipped{limit}"})
      for limit in (10, 20, 30, 50, 60, 80, 88, 100, 500, 700)),
    Mistake("base_two", "You raise 2 to the scores. The softmax raises e.", {"softmax": "two"}),
    Mistake("softmax_twice", "The softmax is taken twice, of scores and then of weights. Once.",
            {"softmax": "twice"}),
    *(Mistake("epsilon_too_large", "Something is added to the denominator that is large enough to be seen, "
              "so rows do not sum to 1. A row's largest exponential is 1: no such protection is needed.",
              {"softmax": way}) for way in ("epsilon", "small_epsilon")),
    Mistake("scaled_again", "The scores are divided by the root of their number. They come scaled; take the "
            "softmax as it is.", {"softmax": "scaled"}),
    Mistake("no_keepdims", "The sums lost an axis, so they are set beside the wrong numbers or do not fit at "
            "all. What keeps the axis?", {"softmax": "no_keepdims"}),
    Mistake("sigmoid", "Every score goes through a sigmoid by itself. Softmax weights share one sum.",
            {"softmax": "sigmoid"}),
    Mistake("not_normalised", "The exponentials are not divided by their sum.", {"softmax": "exponentials"}),
    Mistake("log_weights", "You take the logarithms of the weights. The weights are asked for.",
            {"softmax": "log"}),
    Mistake("clipped_to_one", "Weights are cut off at 1. What is kept is raised, and may well exceed 1.",
            {"form": "ones"}),
    Mistake("squeezed", "A squeeze takes away every axis of size 1. The result has the shape of the scores.",
            {"form": "squeezed"}),
    Mistake("more_returned", "You return keep too. Only the weights are asked for.", {"form": "pair"}),
    Mistake("tensor_result", "You return a torch tensor. Return a NumPy array; .numpy() makes one.",
            {"form": "tensor"}),
    Mistake("half_precision", "Some step rounds to 16 bits, and three digits are left. Keep the type of the "
            "scores.", {"form": "float16"}),
    Mistake("whole_numbers", "The weights are cut off to whole numbers. Does the result take its type from "
            "an array of whole numbers?", {"form": "whole"}),
    *(Mistake("whole_numbers", "The result takes its type from keep, and where that holds whole numbers all "
              "that stands behind the point is lost. Let it be of a floating type.", choices)
      for choices in ({"kept": "of its type"}, {"form": "type of keep"})),
)  # fmt: skip


def _dropout_cases():
    rng = np.random.default_rng(90)
    scores, keep = rng.normal(size=(3, 5)), (rng.random((3, 5)) < 0.7).astype(float)
    keep[0], keep[1, 2] = [1, 0, 1, 0, 1], 1
    four, keep_four = rng.normal(size=(2, 3, 4, 5)), (rng.random((2, 3, 4, 5)) < 0.5).astype(float)
    nothing = keep.copy()
    nothing[1] = 0
    ones = np.ones((3, 5))
    lower = scores - [[0], [1000], [0]]
    apart = scores + [[2000], [-2000], [0]]
    square, keep_square = rng.normal(size=(4, 4)), np.eye(4)[::-1] + np.eye(4, k=1)
    again = _CACHED
    return [
        Case("scores (3, 5) in training, p = 0.3", (scores, 0.3, True, keep),
             hint="Three steps: softmax, times keep, divided by 1 - p. Look at each by itself."),
        Case("the first scores again, with another keep", (scores, 0.3, True, keep[::-1]), hint=again),
        Case("scores (2, 3, 4, 5) in training, p = 0.6", (four, 0.6, True, keep_four),
             hint="The softmax runs over the last axis, and all others are left alone."),
        Case("no training, p = 0.3", (scores, 0.3, False, keep),
             hint="The plain softmax comes back, whatever p and keep are."),
        Case("no training, four axes", (four, 0.6, False, keep_four),
             hint="The softmax runs over the last axis, and all others are left alone."),
        Case("p = 0, where keep is all ones", (scores, 0.0, True, ones), hint="Nothing is to change."),
        Case("p = 0 without training", (scores, 0.0, False, ones), hint="Nothing is to change."),
        Case("p = 0.3 where chance kept everything", (scores, 0.3, True, ones),
             hint="It is p that is divided by, not what chance kept: these rows sum to more than 1."),
        Case("a row of which nothing is kept", (scores, 0.5, True, nothing), hint="Its weights are zeros."),
        Case("p = 0.95", (scores, 0.95, True, keep), hint="What is kept becomes twenty times as large."),
        Case("one row of scores", (scores[0], 0.25, True, keep[0]), hint="The result has the shape (L,)."),
        Case("as many rows as keys", (square, 0.5, True, keep_square.clip(0, 1)),
             hint="Rows and columns fit here either way. The last axis is the keys."),
        Case("a single row of a batch of one", (four[:1, :1, :1], 0.25, True, keep_four[1:, 1:2, 1:2]),
             hint="Axes of size 1 stay."),
        Case("a single key", (four[0, :, :, :1], 0.25, True, keep_four[0, :, :, :1]),
             hint="Its weight is 1, and axes of size 1 stay."),
        Case("keep of integers", (scores, 0.25, True, keep.astype(int)),
             hint="keep holds zeros and ones, of whatever type; the weights are of a floating type."),
        Case("keep of integers, no training", (scores, 0.25, False, keep.astype(int))),
        Case("one row of scores 1000 lower than the others", (lower, 0.3, True, keep),
             hint="Each row's softmax is its own: a row that lies lower has the same weights."),
        Case("rows of scores around 2000, -2000 and 0", (apart, 0.3, False, keep),
             hint="Adding the same to all scores of a row changes no weight."),
        Case("scores of a thousand", (scores * 1000, 0.3, True, keep)),
        Case("float32", (scores.astype(np.float32), 0.3, True, keep)),
        Case("the first sizes and p again, with other numbers", (scores[::-1] * 2, 0.3, True, keep[::-1]),
             hint=again),
    ]  # fmt: skip


_CACHED = "Is something kept from an earlier call with the same sizes?"


def _given_keep(case, value, expected):
    _, _, training, keep = case.args
    value = floats(value)
    if value is None:
        return None
    if training and ((value != 0) & (keep == 0)).any():
        return "A weight that keep marks with 0 is not 0. Use the keep of this call; draw none."
    if training and ((value == 0) & (keep == 1) & (expected > 1e-6)).any():
        return "A weight that keep marks with 1 is 0. Use the keep of this call; draw none."
    return None


def _sizes(case, value, expected):
    """What the size of the numbers, or of a row's sum, tells of the step that is wrong."""
    value, p, training = floats(value), case.args[1], case.args[2]
    if value is None:
        return None
    if not np.isfinite(value).all():
        return "There are NaN or infinite weights."
    if np.allclose(value, expected, rtol=2e-2, atol=2e-3):
        return (
            "The weights are right to about two digits. Does a step round, work in half precision, or add a "
            "small number?"
        )
    if value.min() < 0:
        return "There are negative weights."
    factors = value[expected > 1e-6] / expected[expected > 1e-6]
    if np.ptp(factors) < 1e-3 * factors.max():
        return f"Every kept weight is {factors[0]:.3g} times what it should be, and p is {p:g}."
    sums = value.sum(-1)
    if not training and np.abs(sums - 1).max() > 1e-3:
        return f"Without training a row sums to {sums.flat[np.abs(sums - 1).argmax()]:.3g}, and not to 1."
    if training and np.abs(sums[expected.sum(-1) > 0] - 1).max() < 1e-3:
        return "In training your rows sum to 1. They need not: 1 - p is divided by, whatever is left."
    return None


dropout_weights = FunctionExercise(
    _dropout, _dropout_cases, _DROPOUT,
    "Checked in training and out of it, with p from 0 to 0.95, with rows that chance kept whole or "
    "dropped whole. The mean over many draws is the softmax; a single row need not sum to 1.",
    properties=(of_an_earlier_call(_dropout, _dropout_cases), _given_keep, _sizes),
)  # fmt: skip

EXERCISES = (
    Exercise(
        "dropout_weights", "09", dropout_weights,
        (
            "What must a weight that is kept be, so that the mean over many draws is the plain weight? It is "
            "kept in 1 - p of them, and 0 in the others.",
            "First the softmax over the last axis, with each row's largest score subtracted. If training is "
            "False, that is the answer already.",
            "In training, multiply the weights by keep and divide by 1 - p. Nothing is drawn, since keep is "
            "given, and nothing is normalised again.",
        ),
        """import numpy as np

def dropout_weights(scores, p, training, keep):
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = e / e.sum(axis=-1, keepdims=True)
    if training:
        weights = weights * keep / (1 - p)
    return weights""",
        "function",
    ),
)  # fmt: skip

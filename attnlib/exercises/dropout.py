"""Dropout of attention weights, of lesson 09."""

import numpy as np

from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake


def _dropout(scores, p, training, keep, *, where="after", rescale="inverted", kept="given", flag="right",
             idle="plain", axis=-1, naive=False):
    scores = np.asarray(scores, dtype=np.result_type(np.asarray(scores).dtype, np.float32))
    training = {"right": training, "inverted": not training, "always": True, "never": False}[flag]
    keep = keep if kept == "given" else 1 - keep
    if where == "no_softmax":
        weights = scores
    elif training and where == "scores":
        return _np_softmax(scores * keep / (1 - p), axis, naive)
    elif training and where == "scores_unscaled":
        return _np_softmax(scores * keep, axis, naive)
    elif training and where == "minus_infinity_rescaled":
        with np.errstate(all="ignore"):
            return _np_softmax(np.where(keep > 0, scores, -np.inf), axis, naive) / (1 - p)
    elif training and where == "large_negative":
        return _np_softmax(np.where(keep > 0, scores, -1e9), axis, naive)
    else:
        weights = _np_softmax(scores, axis, naive)
    if not training:
        return weights * {"plain": 1, "times": 1 - p, "divided": 1 / (1 - p)}[idle]
    dropped = weights * keep
    with np.errstate(all="ignore"):
        return dropped * {
            "inverted": lambda: 1 / (1 - p), "none": lambda: 1, "by_p": lambda: np.float64(1) / p,
            "times": lambda: 1 - p, "times_p": lambda: p, "share": lambda: 1 / keep.mean(),
            "row_share": lambda: 1 / keep.mean(-1, keepdims=True), "root": lambda: (1 - p) ** -0.5,
            "sum": lambda: 1 / dropped.sum(-1, keepdims=True), "plus": lambda: 1 / (1 + p),
            "safe_sum": lambda: 1 / np.maximum(dropped.sum(-1, keepdims=True), 1e-9),
        }[rescale]()


def _np_softmax(scores, axis, naive):
    axis = None if axis == "all" else axis
    with np.errstate(all="ignore"):
        top = 0 if naive is True else scores.max(axis=None if naive else axis, keepdims=True)
        e = np.exp(scores - top)
        return e / e.sum(axis=axis, keepdims=True)


_RENORMALISED = (
    "what is left is brought back to a sum of 1, so the other keys make up for a dropped one. (Hiding scores "
    "before the softmax does this too.) Divide by 1 - p, a number that does not depend on the row."
)
_ON_SCORES = (
    "you drop scores, before the softmax. A score of 0 is no missing key: exp(0) is 1. Drop weights, after "
    "the softmax."
)
_DROPOUT = (
    Mistake("not_rescaled", "the weights are dropped and not raised, so on average a row sums to 1 - p in "
            "training and to 1 afterwards. Divide what is kept.", {"rescale": "none"}),
    Mistake("rescaled_at_test", "you leave the weights in training and lower them afterwards. Here they "
            "are raised in training, and the softmax comes back untouched without it.",
            {"rescale": "none", "idle": "times"}, convention=True),
    Mistake("divided_by_p", "you divide by p, the part that is dropped. Divide by the part that is kept, "
            "1 - p.", {"rescale": "by_p"}),
    Mistake("multiplied", "you multiply by 1 - p. Divide: what is kept has to stand in for what was "
            "dropped.", {"rescale": "times"}),
    Mistake("multiplied", "you multiply by p. Divide by 1 - p.", {"rescale": "times_p"}),
    Mistake("divided_by_share", "you divide by the share that happened to be kept. Divide by 1 - p, "
            "whatever was drawn.", {"rescale": "share"}),
    Mistake("divided_by_share", "you divide by the share of each row that happened to be kept. Divide by "
            "1 - p, whatever was drawn.", {"rescale": "row_share"}),
    Mistake("divided_by_root", "you divide by the root of 1 - p. To keep the mean, divide by 1 - p.",
            {"rescale": "root"}),
    Mistake("divided_by_sum", "you divide by 1 + p. Divide by 1 - p.", {"rescale": "plus"}),
    Mistake("renormalised", _RENORMALISED, {"rescale": "sum"}),
    Mistake("renormalised", _RENORMALISED, {"rescale": "safe_sum"}),
    Mistake("renormalised", f"hidden scores are set very low before the softmax, so {_RENORMALISED}",
            {"where": "large_negative"}),
    Mistake("renormalised", f"hidden scores are set to -inf before the softmax, so {_RENORMALISED}",
            {"where": "minus_infinity_rescaled"}),
    Mistake("dropout_on_scores", _ON_SCORES, {"where": "scores"}),
    Mistake("dropout_on_scores", _ON_SCORES, {"where": "scores_unscaled"}),
    Mistake("no_softmax", "the scores come back dropped and rescaled. They must be made weights first.",
            {"where": "no_softmax"}),
    Mistake("keep_inverted", "what keep marks with 1 is dropped. 1 means keep. (If you compare keep with "
            "p: it holds no random numbers, the draw is done.)", {"kept": "inverted"}),
    Mistake("training_inverted", "dropout happens when training is False, and not when it is True.",
            {"flag": "inverted"}),
    Mistake("always_dropped", "dropout happens without training too. With training=False the plain "
            "softmax comes back.", {"flag": "always"}),
    Mistake("never_dropped", "nothing is dropped in training.", {"flag": "never"}),
    Mistake("scaled_without_training", "without training the weights are multiplied by 1 - p. They were "
            "raised in training already.", {"idle": "times"}),
    Mistake("scaled_without_training", "without training the weights are divided by 1 - p. The plain "
            "softmax comes back.", {"idle": "divided"}),
    Mistake("softmax_over_all", "the softmax runs over all numbers at once. It runs over the last axis.",
            {"axis": "all"}),
    Mistake("softmax_wrong_axis", "the softmax runs over the first axis. It runs over the last.",
            {"axis": 0}),
    Mistake("softmax_wrong_axis", "the softmax runs over the last axis but one. It runs over the last.",
            {"axis": -2}),
    Mistake("overflow", "exp of a large score is infinite, and inf/inf is NaN. Subtract each row's "
            "largest score.", {"naive": True}),
    Mistake("maximum_of_all", "you subtract the largest of all scores. In a row that lies far below it every "
            "exp is 0, and 0/0 is NaN. Subtract each row's own largest score.", {"naive": "maximum_of_all"}),
)


def _dropout_cases():
    rng = np.random.default_rng(90)
    scores, keep = rng.normal(size=(3, 5)), (rng.random((3, 5)) < 0.7).astype(float)
    keep[0] = [1, 0, 1, 0, 1]
    four, keep_four = rng.normal(size=(2, 3, 4, 5)), (rng.random((2, 3, 4, 5)) < 0.5).astype(float)
    nothing = keep.copy()
    nothing[1] = 0
    ones = np.ones((3, 5))
    lower = scores - [[0], [1000], [0]]
    return [
        Case("scores (3, 5) in training, p = 0.3", (scores, 0.3, True, keep)),
        Case("scores (2, 3, 4, 5) in training, p = 0.6", (four, 0.6, True, keep_four)),
        Case("no training, p = 0.3", (scores, 0.3, False, keep)),
        Case("no training, four axes", (four, 0.6, False, keep_four)),
        Case("p = 0, where keep is all ones", (scores, 0.0, True, ones), hint="Nothing is to change."),
        Case("p = 0 without training", (scores, 0.0, False, ones)),
        Case("p = 0.3 where chance kept everything", (scores, 0.3, True, ones),
             hint="It is p that is divided by, not what chance kept: these rows sum to more than 1."),
        Case("a row of which nothing is kept", (scores, 0.5, True, nothing)),
        Case("one row of scores", (scores[0], 0.25, True, keep[0])),
        Case("keep of integers", (scores, 0.25, True, keep.astype(int))),
        Case("one row of scores 1000 lower than the others", (lower, 0.3, True, keep),
             hint="Each row's softmax is its own: a row that lies lower has the same weights."),
        Case("scores of a thousand", (scores * 1000, 0.3, True, keep)),
    ]


def _given_keep(case, value, expected):
    _, _, training, keep = case.args
    value = floats(value)
    if value is None:
        return None
    if training and ((value != 0) & (keep == 0)).any():
        return "A weight that keep marks with 0 is not 0. Use the keep that is given, and draw none."
    if training and ((value == 0) & (keep == 1) & (expected > 1e-6)).any():
        return "A weight that keep marks with 1 is 0. Use the keep that is given, and draw none."
    return None

dropout_weights = FunctionExercise(
    _dropout, _dropout_cases, _DROPOUT,
    "Checked in training and out of it, with p from 0 to 0.6, with rows that chance kept whole or "
    "dropped whole. The mean over many draws is the softmax; a single row need not sum to 1.",
    properties=(_given_keep,),
)

EXERCISES = (
    Exercise("dropout_weights", "09", dropout_weights, (), "", "function"),
)

"""Exercises of lesson 05 on the softmax's relatives: sparsemax, 1.5-entmax, and the softmax off by one."""

import numpy as np

from attnlib.exercises.answers import numbers
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------------------ sparsemax


@np.errstate(all="ignore")
def _sparsemax(x, *, axis="last", order="down", size="right", tau="right", end="cut", form="right",
               shared="none", scale=1.0):
    rest = {"order": order, "size": size, "tau": tau, "end": end, "form": form, "shared": shared,
            "scale": scale}
    if axis == "all":
        return _sparsemax(x.ravel(), **rest).reshape(x.shape)
    if axis == "first":
        return np.moveaxis(_sparsemax(np.moveaxis(x, 0, -1), **rest), -1, 0)
    z = x.astype(float) * scale
    n = z.shape[-1]
    if form != "right":
        return _other_than_sparsemax(z, form)
    best = {"down": -np.sort(-z, axis=-1), "rows": np.sort(z, axis=-1)[::-1], "as it is": z}[order]
    k = np.arange(1, n + 1)
    total = best.cumsum(-1)
    inside = {
        "right": 1 + k * best > total, "no_k": 1 + best > total, "no_one": k * best > total,
        "no_k_no_one": best > total, "positive": best > 0, "from_zero": 1 + (k - 1) * best > total,
    }.get(size, 1 + k * best > total)
    count = inside.sum(-1, keepdims=True)
    if size == "one_more":
        count = np.minimum(count + 1, n)
    if size == "one_less":
        count = np.maximum(count - 1, 1)
    if size == "index":                                         # the last index that passes, not how many
        count = count - 1
    if size == "index_of_all":                                  # the same, with k counted from 0 in the test
        count = (1 + (k - 1) * best > total).cumsum(-1).argmax(-1)[..., None]
    if shared.startswith("k "):
        count = 0 * count + {"k of first": count.flat[0], "k of last": count.flat[-1],
                             "k most": count.max(), "k least": count.min()}[shared]
    if size == "one":
        count = np.ones_like(count)
    if size == "all":
        count = np.full_like(count, n)
    top = np.take_along_axis(total, np.maximum(count, 1) - 1, -1)
    if size.startswith("index") or size == "from_zero":         # here a 0 stands for the last one
        top = np.take_along_axis(total, count - 1, -1)
    if size == "last_inside":                                   # the sum up to the next score
        top = np.take_along_axis(total, np.minimum(count, n - 1), -1)
    threshold = {
        "right": (top - 1) / count, "no_one": top / count, "by_n": (top - 1) / n, "plus": (top + 1) / count,
        "turned": (1 - top) / count, "by_next": (top - 1) / (count + 1), "not_divided": top - 1,
        "whole_sum": (z.sum(-1, keepdims=True) - 1) / count, "one_apart": top / count - 1,
        "by_previous": (top - 1) / (count - 1),
        "lowered": (top - 1) / count - z.max(-1, keepdims=True),
    }[tau]
    if shared.startswith("tau"):
        flat = threshold.ravel()
        threshold = {"tau of first": flat[0], "tau of last": flat[-1], "tau most": flat.max(),
                     "tau least": flat.min(), "tau mean": flat.mean()}[shared]
    p = (best if end == "sorted" else z) - threshold
    if end == "uncut":
        return p
    if end == "kept":
        return np.where(p > 0, z, 0)
    p = np.maximum(p, 0)
    return p / p.sum(-1, keepdims=True) if end == "normalised" else p


def _other_than_sparsemax(z, form):
    e = np.exp(z - z.max(-1, keepdims=True))
    soft = e / e.sum(-1, keepdims=True)
    if form.startswith("softmax_below"):
        limit = form[13:]
        kept = np.where(soft < (1 / z.shape[-1] if limit == "n" else float(limit)), 0, soft)
        return kept
    if form.startswith("softmax_cut"):
        kept = _other_than_sparsemax(z, "softmax_below" + form[11:])
        return kept / kept.sum(-1, keepdims=True)
    if form == "softmax":
        return soft
    if form == "hard":
        return (z == z.max(-1, keepdims=True)) / (z == z.max(-1, keepdims=True)).sum(-1, keepdims=True)
    if form == "first_best":
        return np.eye(z.shape[-1])[z.argmax(-1)]
    if form == "positive":
        return np.maximum(z, 0) / np.maximum(z, 0).sum(-1, keepdims=True)
    if form == "clip":
        return np.clip(z, 0, 1)
    if form == "from_low":
        low = z - z.min(-1, keepdims=True)
        return low / low.sum(-1, keepdims=True)
    if form == "near_best":                                     # within 1 of the best, then shared out
        near = np.maximum(1 + z - z.max(-1, keepdims=True), 0)
        return near / near.sum(-1, keepdims=True)
    if form == "softmax_near":
        near = np.where(z > z.max(-1, keepdims=True) - 1, e, 0)
        return near / near.sum(-1, keepdims=True)
    raise ValueError(form)


_HALF_SOFTMAX = (
    "You compute the softmax and drop small weights. Which of them are zero, and how large the others are, "
    "follows here from differences of scores and not from exponentials. There is no exponential in a "
    "sparsemax."
)
_SPARSEMAX = (
    Mistake("unsorted", "The running sums are taken in the order in which the scores stand. The k best ones "
            "are wanted, so the largest must come first.", {"order": "as it is"}),
    Mistake("rows_turned", "The sorted scores are turned round along the first axis: with several rows, it "
            "is the rows that change places, and each still rises. Turn each row.", {"order": "rows"}),
    Mistake("k_too_large", "One score too many is counted: your k is larger by one, and the threshold "
            "belongs to k + 1 scores.", {"size": "one_more"}),
    Mistake("k_too_small", "One score too few is counted: your k is smaller by one.", {"size": "one_less"}),
    Mistake("k_is_one", "Your k is 1 whatever the scores, so whatever lies 1 below the best is cut off, and "
            "nothing sooner. Of all k that pass the test, the largest is wanted.", {"size": "one"}),
    Mistake("all_counted", "The threshold is that of all scores together. (Sorted from the smallest up, "
            "every score passes the test for k.) Only the k best go into the sum: those cut off must not "
            "lower the others.", {"size": "all"}),
    Mistake("cut_and_normalised", "You project with all scores counted, cut off below 0 and divide by the "
            "sum. It sums to 1, and it is not the nearest point: differences are no longer those of the "
            "scores.",
            {"size": "all", "end": "normalised"}),
    Mistake("sum_one_too_far", "The sum goes one score further than your k: it starts at the first, so the "
            "sum of k scores stands in place k - 1.", {"size": "last_inside"}),
    Mistake("k_forgotten", "Your test for the k best compares 1 + z with the sum. It is k times z: each of "
            "the k scores would be lowered to this one.", {"size": "no_k"}),
    Mistake("one_forgotten", "Your test for the k best lacks the 1, the whole weight that there is to give.",
            {"size": "no_one"}),
    Mistake("one_forgotten", "Your test for the k best "
                             "lacks the 1 and the factor k.", {"size": "no_k_no_one"},
            rare=True),
    Mistake("k_from_zero", "Your k starts at 0 in the test. "
                           "The best score is number 1.", {"size": "from_zero"}),
    *(Mistake("k_from_zero", "Your k is counted from 0: it is the place of the last score that passes the "
              "test, and not how many pass. The best score is number 1.", {"size": how})
      for how in ("index", "index_of_all")),
    Mistake("k_from_zero", "Your threshold is divided by k - 1: the place of the last score, counted from 0. "
            "Places from 0 are one less than how many there are.", {"tau": "by_previous"}),
    Mistake("positive_counted", "You count the scores above 0. What counts is the difference to the others; "
            "all scores may be raised by the same number.", {"size": "positive"}),
    Mistake("tau_without_one", "Your threshold divides the sum and not the sum less 1, so the weights sum to "
            "0 before they are cut.", {"tau": "no_one"}),
    Mistake("tau_by_n", "Your threshold is divided by the number of all scores. Only k of them share.",
            {"tau": "by_n"}),
    Mistake("one_outside", "You divide the sum by k and then take 1 away. The 1 goes off the sum, and what "
            "is left is divided.", {"tau": "one_apart"}),
    *(Mistake("one_threshold_for_all", "All rows have the same threshold in yours. Each row of the last axis "
              "has its own.", {"shared": f"tau {how}"}, rare=how != "of first")
      for how in ("of first", "of last", "most", "least", "mean")),
    *(Mistake("one_k_for_all", "All rows have the same k in yours. Each row has its own, as it has its own "
              "threshold.", {"shared": f"k {how}"}, rare=True)
      for how in ("of first", "of last", "most", "least")),
    Mistake("scores_halved", "The scores are halved. That belongs to entmax15; a sparsemax takes them as "
            "they are.", {"scale": 0.5}),
    Mistake("scores_doubled", "The scores are doubled. A sparsemax takes them as they are.", {"scale": 2.0}),
    Mistake("tau_plus_one", "Your threshold has plus 1 where 1 is to be taken away.", {"tau": "plus"}),
    Mistake("tau_turned", "Your threshold has the opposite sign.", {"tau": "turned"}),
    Mistake("tau_by_next", "Your threshold is divided by k + 1. The sum has k scores.", {"tau": "by_next"}),
    Mistake("tau_not_divided", "Your threshold is not divided by k: each of k scores gives its part.",
            {"tau": "not_divided"}),
    Mistake("tau_of_whole_sum", "The sum in your threshold runs over all scores. It runs over the k best.",
            {"tau": "whole_sum"}),
    Mistake("tau_of_lowered_scores", "You find the threshold for scores less their maximum and hold it "
            "against the scores as they were. Both must be lowered, or neither.", {"tau": "lowered"}),
    Mistake("uncut", "What lies below the threshold has become negative. It gets 0.", {"end": "uncut"}),
    Mistake("not_lowered", "You set to 0 what lies below the threshold, and leave the others as they were. "
            "They are lowered by it.", {"end": "kept"}),
    Mistake("left_sorted", "Your weights come in the order of the sorted scores. The threshold serves the "
            "scores where they stand.", {"end": "sorted"}),
    Mistake("sum_over_all", "All numbers of the array compete. Each row of the last axis has its own "
                            "threshold.",
            {"axis": "all"}),
    Mistake("first_axis", "You work along the first axis, and the last one is asked for.", {"axis": "first"}),
    Mistake("softmax", "This is the softmax. It has no zeros.", {"form": "softmax"}, rare=True),
    *(Mistake("softmax_clipped", _HALF_SOFTMAX, {"form": f"softmax_{how}{limit}"}, rare=True)
      for how in ("cut", "below") for limit in ("0.1", "0.05", "0.01", "0.001", "0.2", "0.25", "n")),
    Mistake("softmax_clipped", _HALF_SOFTMAX, {"form": "softmax_near"}, rare=True),
    Mistake("argmax", "All weight goes to the best. Others that are "
                      "near enough have a share.", {"form": "hard"},
            rare=True),
    Mistake("argmax", "All weight goes to one of the best. Others that are near enough have a share.",
            {"form": "first_best"}, rare=True),
    Mistake("positive_part", "You cut the scores off at 0 and divide by the sum. It is not 0 where one cuts, "
            "and nothing is divided: weights differ as scores do.", {"form": "positive"}, rare=True),
    Mistake("clipped_scores", "You clip the scores to 0 and 1. The threshold has to be found, so that the "
            "sum is 1.", {"form": "clip"}, rare=True),
    Mistake("from_the_lowest", "You measure from the lowest "
                               "score and divide by the sum.", {"form": "from_low"},
            rare=True),
    Mistake("fixed_threshold", "You cut off what lies 1 below the best. That is the threshold when the best "
            "is alone; others that share raise it. Then you divide by the sum, which changes differences.",
            {"form": "near_best"}, rare=True),
)


def _sparsemax_cases():
    rng = np.random.default_rng(52)
    sort = "Follow one row by hand: sorted, summed, k, the threshold."
    return [
        Case("the scores 1, 0.5, 0.2, -1", (np.array([1.0, 0.5, 0.2, -1.0]),), hint=sort),
        Case("scores out of order", (np.array([-0.3, 0.9, 0.1, 0.75, -2.0]),), hint=sort),
        Case("three rows of five scores", (rng.normal(size=(3, 5)),), hint="Does each row have its own k?"),
        Case("two times four rows of three scores", (rng.normal(size=(2, 4, 3)) / 2,),
             hint="The last axis, whatever the others are."),
        Case("as many rows as columns", (rng.normal(size=(4, 4)),), hint="Which axis sums to 1?"),
        Case("scores that are weights already", (np.array([[0.6, 0.3, 0.1, 0.0], [0.25, 0.25, 0.25, 0.25]]),),
             hint="The nearest point to a point of the simplex is the point."),
        Case("the same scores 100 "
             "higher", (np.array([1.0, 0.5, 0.2, -1.0]) + 100,), hint="Only differences count."),
        Case("scores all below 0", (np.array([-3.0, -3.2, -3.9, -7.0, -3.1]),), hint="Only differences "
                                                                                     "count."),
        Case("ties", (np.array([[0.5, 0.5, 0.5], [1.0, 1.0, -4.0], [2.0, 2.0, 2.0]]),), hint=sort),
        Case("one far ahead", (np.array([[0.0, 1000.0, -1000.0], [2.5, 0.0, 1.0]]),), hint=sort),
        Case("one score", (np.array([[-4.0], [7.0]]),), hint="A single score has all the weight."),
        Case("many close scores", (rng.normal(size=(2, 40)) / 20,), hint="Where all are close, all have "
                                                                         "weight."),
        Case("many scores", (rng.normal(size=(3, 64)),), hint=sort),
    ]


def _is_a_share(case, value, expected):
    value = floats(value)
    if value is None or value.shape != case.args[0].shape:
        return None
    if not np.isfinite(value).all():
        return "There are NaN or infinite numbers."
    if value.min() < -1e-9:
        return f"There are negative weights, for example {value.min():.4g}."
    sums = value.sum(-1)
    if np.abs(sums - 1).max() > 1e-6:
        at = int(np.abs(sums - 1).argmax())
        return f"A row sums to {sums.reshape(-1)[at]:.4g} and not to 1."
    return None


sparsemax = FunctionExercise(
    _sparsemax, _sparsemax_cases, _SPARSEMAX,
    "Checked on rows in any order and at any level, with ties, with one score and with 64. What lies below "
    "the threshold is exactly 0, and among the others weights differ as scores do. That is the nearest point "
    "of the simplex: everything is lowered by the same number until the sum is 1.",
    properties=(_is_a_share,), rtol=1e-5, atol=1e-7,
)  # fmt: skip


def sparse_scores(answer):
    """Five scores, the first 5, whose sparsemax is 0.6, 0.3, 0.1, 0, 0."""
    x, complaint = numbers(answer, (5,), "your scores")
    if complaint:
        return complaint
    if np.abs(x).max() > 1e9:
        return wrong("Stay below a thousand million, where differences of 0.1 can be told.")
    wanted, p = np.array([0.6, 0.3, 0.1, 0, 0]), _sparsemax(x).round(9)      # no rounding errors shown
    shown = ", ".join(f"{w:.3g}" for w in p)
    told = f"The sparsemax of your scores is {shown}. "
    hit = np.abs(p - wanted).max() < 1e-4
    if hit and abs(x[0] - 5) < 1e-4:
        return right(
            f"{told}Among those with weight, differences of scores are differences of weights: 5, 4.7, 4.5. "
            "The threshold is 4.4, and whatever lies at or below it gets exactly 0. A sparsemax can be "
            "inverted by eye, save for the zeros, whose scores are forgotten."
        )
    if hit:
        return wrong(f"{told}Those are the weights, but the first score shall be 5 and is {x[0]:g}. What may "
                     "be added to all scores?", "level")
    gaps = x[0] - x[1:3]
    with np.errstate(all="ignore"):
        ratios = x[1:3] / x[0]
    if np.abs(gaps - np.log([2, 6])).max() < 0.01:
        return wrong(f"{told}You took logarithms of the weights. That inverts a softmax. In a sparsemax a "
                     "difference of scores becomes a difference of weights.", "logarithms")
    if np.abs(gaps - 2 * (0.6**0.5 - np.array([0.3, 0.1]) ** 0.5)).max() < 0.01:
        return wrong(f"{told}You took roots of the weights, which inverts entmax15.", "roots")
    if np.abs(ratios - [1 / 2, 1 / 6]).max() < 0.01:
        return wrong(f"{told}Your scores stand in the ratio of the weights. It is their differences that a "
                     "sparsemax keeps.", "ratios")
    if np.abs(gaps - [0.3, 0.5]).max() < 1e-3:
        return wrong(f"{told}The first three have the right distances. The last two are too high: where does "
                     "the threshold lie, at which the weight becomes 0?", "zeros_too_high")
    if np.abs(x[:3] - [5, 2, -1]).max() < 1e-6 or (gaps >= 1).any():
        return wrong(f"{told}A distance of 1 leaves nothing for the lower one, and the second and third "
                     "shall have 0.3 and 0.1.", "too_far")
    return wrong(f"{told}How far apart must two scores be whose weights are 0.6 and 0.3?")


# -------------------------------------------------------------------------- 1.5-entmax


@np.errstate(all="ignore")
def _entmax15(x, *, axis="last", half="right", order="down", size="right", spread="right", tau="right",
              bounds="right", steps=None, cut="right", power=2, end="right", form="right"):  # fmt: skip
    rest = {"half": half, "order": order, "size": size, "spread": spread, "tau": tau, "bounds": bounds,
            "steps": steps, "cut": cut, "power": power, "end": end, "form": form}  # fmt: skip
    if axis == "all":
        return _entmax15(x.ravel(), **rest).reshape(x.shape)
    if axis == "first":
        return np.moveaxis(_entmax15(np.moveaxis(x, 0, -1), **rest), -1, 0)
    s = x.astype(float)
    if form != "right":
        return _other_than_entmax15(s, form)
    top = s.max(-1, keepdims=True)
    inner, outer = {"right": (0.5, 0.5), "none": (1, 1), "double": (2, 2), "late": (1, 0.5),
                    "early": (0.5, 1)}[half]  # fmt: skip
    z = inner * (s - top)
    best = {"down": -np.sort(-z, axis=-1), "up": np.sort(z, axis=-1), "rows": np.sort(z, axis=-1)[::-1],
            "as it is": z}[order]  # fmt: skip
    threshold = _threshold_of_squares(best, size, spread, tau)
    if tau != "lowered":
        threshold = threshold + inner * top
    threshold = _within(threshold, bounds, inner * s, s)
    if steps:
        threshold = _searched(threshold, inner * top, *steps)
    p = (best + inner * top if end == "sorted" else outer * s) - threshold
    if end == "kept":
        return np.where(p > 0, s, 0)
    p = (p if cut == "uncut" else np.maximum(p, 0)) ** power
    return p / p.sum(-1, keepdims=True) if end == "normalised" else p


def _threshold_of_squares(best, size, spread, tau):
    """The tau for which the squares of what lies above it sum to 1, from scores in order."""
    n = best.shape[-1]
    k = np.arange(1, n + 1)
    total = best.cumsum(-1)
    mean = total / k
    square = (best**2).cumsum(-1)
    apart = {"right": square - total * mean, "mean": square / k - mean**2, "raw": square, "none": 0 * square,
             "of_means": square / k, "std": np.sqrt(np.maximum(square / k - mean**2, 0))}[spread]  # fmt: skip
    part = (1 - apart) / k
    if size != "all":
        part = np.maximum(part, 0)
    each = {
        "no_root": mean - part, "not_divided": mean - np.sqrt(part * k),
        "root_inside": mean - np.sqrt(part * k) / k, "sum": total - np.sqrt(part),
        "sparse": (total - 1) / k, "squared": mean - part**2, "by_n": total / n - np.sqrt(part * k / n),
    }.get(tau, mean - np.sqrt(part))
    inside = 1 + k * best > total if size == "sparse" else each <= best
    count = np.maximum(inside.sum(-1, keepdims=True), 1)
    count = {"one_more": np.minimum(count + 1, n), "one_less": np.maximum(count - 1, 1),
             "one": np.ones_like(count), "all": np.full_like(count, n)}.get(size, count)  # fmt: skip
    return np.take_along_axis(each, count - 1, -1)


def _within(threshold, bounds, z, s):
    """Where a search between other bounds ends: at the right threshold, or at the bound nearest to it."""
    low, high = z.min(-1, keepdims=True), z.max(-1, keepdims=True)
    low, high = {
        "right": (-np.inf, np.inf), "zero_one": (0, 1), "minus_one_one": (-1, 1), "from_zero": (0, high),
        "lowest": (low, high), "unhalved": (s.max(-1, keepdims=True) - 1, s.max(-1, keepdims=True)),
        "largest_of_all": (z.max() - 1, z.max()), "high_end": (high, high),
    }[bounds]
    return np.clip(threshold, low, high)


def _searched(threshold, top, count, side):
    """Where so many halvings of the unit interval below ``top`` leave off."""
    whole = np.floor((threshold - top + 1) * 2.0**count)
    return top - 1 + (whole + {"low": 0, "middle": 0.5, "high": 1}[side]) * 2.0**-count


def _found_by_halving(z, weights, at_last=None):
    """Weights whose threshold a search in the unit interval below the largest has found."""
    low = z.max(-1, keepdims=True) - 1
    for step in range(1, 55):
        middle = low + 0.5**step
        low = np.where(weights(z - middle).sum(-1, keepdims=True) >= 1, middle, low)
    return (at_last or weights)(z - low)


def _other_than_entmax15(s, form):
    soft, sparse = _other_than_sparsemax(s, "softmax"), _sparsemax(s)
    lead = s - s.max(-1, keepdims=True)
    if form.startswith("power"):
        factor, power = map(float, form[6:].split())
        return _found_by_halving(factor * s, lambda above: np.maximum(above, 0) ** power)
    if form == "uncut":
        return _found_by_halving(s / 2, np.square)
    if form == "uncut_sum":
        return _found_by_halving(s / 2, np.square, lambda above: np.maximum(above, 0) ** 2)
    if form == "softmax_squared":
        return soft**2
    p = {
        "softmax": soft, "softmax_half": soft**0.5, "softmax_double": soft**2, "sparsemax": sparse,
        "sparsemax_half": _sparsemax(s / 2), "sparsemax_squared": sparse**2, "sparsemax_root": sparse**0.5,
        "sparsemax_half_squared": _sparsemax(s / 2) ** 2, "mean": soft + sparse,
        "geometric": np.sqrt(soft * sparse), "fixed": np.maximum(1 + lead / 2, 0) ** 2,
        "fixed_one": np.maximum(1 + lead, 0) ** 2, "positive": np.maximum(s / 2, 0) ** 2,
        "positive_or_none": np.maximum(s / 2, 0) ** 2, "near": np.where(lead > -2, soft, 0), "squares": s**2,
        "fixed_linear": np.maximum(1 + lead / 2, 0), "hard": (lead == 0).astype(float),
    }[form]  # fmt: skip
    total = p.sum(-1, keepdims=True)
    return p / (total + (total == 0) if form == "positive_or_none" else total)


_SPREAD = (
    "Your sum of squared distances from the mean is another one. It is a sum over the k best, of distances "
    "from their mean, and not divided."
)
_ENTMAX15 = (
    Mistake("not_halved", "The scores are not halved. At alpha 1.5 they are multiplied by alpha less 1; as "
            "it is, your function cuts off twice as soon.", {"half": "none"}),
    Mistake("doubled", "The scores are doubled, and they are to be halved.", {"half": "double"}),
    Mistake("halved_in_one_place", "Your threshold was found for the scores as they are, and is held "
            "against their halves.", {"half": "late"}),
    Mistake("halved_in_one_place", "Your threshold was found for halves, and is held against the scores as "
            "they are.", {"half": "early"}),
    Mistake("square_forgotten", "The threshold is the right one, and what lies above it is not squared. So "
            "the weights do not sum to 1.", {"power": 1}),
    Mistake("sparsemax_of_halves", "The square is forgotten, in the weights and in the sum that sets the "
            "threshold: this is the sparsemax of halved scores.", {"form": "sparsemax_half"}),
    Mistake("threshold_of_sparsemax", "Your threshold is that of the sparsemax: above it the halves sum to "
            "1, and their squares do not.", {"tau": "sparse"}),
    Mistake("sparsemax_squared", "You take the sparsemax of the halves, square it and divide by the sum. "
            "That forces the sum to 1, and the zeros are still those of the sparsemax. The threshold must "
            "be the one at which the squares sum to 1 by themselves.", {"form": "sparsemax_half_squared"}),
    Mistake("sparsemax_squared", "You square the sparsemax and divide by the sum. That forces the sum to 1, "
            "and the zeros are still those of the sparsemax.", {"form": "sparsemax_squared"}),
    Mistake("normalised", "You divide by the sum at the end. With the right threshold the sum is 1 "
            "already; dividing hides that yours is another.", {"size": "sparse", "end": "normalised"},
            rare=True),
    Mistake("all_counted", "All scores go into the threshold, also those that get nothing. (Where they are "
            "far apart there is no root to draw, and you have NaN.) Only those with weight count.",
            {"size": "all"}),
    Mistake("all_counted", "What lies below the threshold is squared too: a negative number has a positive "
            "square, and everybody has weight. Cut off before you square.", {"size": "all", "cut": "uncut"}),
    Mistake("uncut", "Your threshold is the right one, and what lies below it is squared too: a negative "
            "number has a positive square. Cut off before you square.", {"cut": "uncut"}),
    Mistake("uncut", "Nothing is cut off, in the weights and in the sum that sets the threshold. What lies "
            "below it has a negative distance, and its square is positive.", {"form": "uncut"}, rare=True),
    Mistake("uncut", "Your sum counts the squares of what lies below the threshold. Those scores have no "
            "weight: cut off there too.", {"form": "uncut_sum"}, rare=True),
    Mistake("k_of_sparsemax", "You count those with weight by the sparsemax's test. Here more have weight: "
            "for each k there is a threshold, and the k-th score must not lie below it.", {"size": "sparse"}),
    Mistake("k_too_large", "One score too many is counted: your k is larger by one.", {"size": "one_more"}),
    Mistake("k_too_small", "One score too few is counted: your k is smaller by one.", {"size": "one_less"}),
    Mistake("k_is_one", "Your threshold is that of the best alone, 1 below its half. With others that have "
            "weight too the squares sum to more than 1: the threshold must rise. (A search that moves the "
            "wrong bound ends here as well.)", {"size": "one"}),
    Mistake("unsorted", "The running sums are taken in the order in which the scores stand. The k best ones "
            "are wanted, so the largest must come first.", {"order": "as it is"}),
    Mistake("unsorted", "The scores are sorted from the smallest up. The k best ones are wanted, so the "
            "largest must come first.", {"order": "up"}),
    Mistake("rows_turned", "The sorted scores are turned round along the first axis: it is the rows that "
            "change places. Turn each row.", {"order": "rows"}),
    Mistake("spread", _SPREAD, {"spread": "mean"}),
    Mistake("spread", _SPREAD, {"spread": "of_means"}, rare=True),
    Mistake("spread", _SPREAD, {"spread": "std"}, rare=True),
    Mistake("spread", "Your sum of squares is of the scores, and not of their distances from their mean. "
            "Where all scores are higher it grows, and they are no further apart.", {"spread": "raw"}),
    Mistake("spread", "How far the scores lie apart does not enter your threshold. It is right for equal "
            "scores.", {"spread": "none"}),
    Mistake("root_of_tau", "The root in your threshold is missing.", {"tau": "no_root"}),
    Mistake("root_of_tau", "A square stands in your threshold where a root belongs.", {"tau": "squared"},
            rare=True),
    Mistake("root_of_tau", "What stands under the root is not divided by k.", {"tau": "not_divided"}),
    Mistake("root_of_tau", "You divide the root by k. The k stands under the root.", {"tau": "root_inside"}),
    Mistake("tau_of_sum", "The sum stands in your threshold where the mean belongs.", {"tau": "sum"}),
    Mistake("tau_by_n", "Your threshold is divided by the number of all scores. Only k of them have weight.",
            {"tau": "by_n"}, rare=True),
    Mistake("tau_of_lowered_scores", "You find the threshold for scores less their maximum and hold it "
            "against the scores as they were. Both must be lowered, or neither.", {"tau": "lowered"}),
    Mistake("bounds_fixed", "You look for the threshold between fixed numbers, 0 and 1. Where all scores "
            "are higher or lower, it lies elsewhere: the bounds must move with the row.",
            {"bounds": "zero_one"}),
    Mistake("bounds_fixed", "You look for the threshold between -1 and 1. Where all scores are higher, or "
            "lower, it lies elsewhere: the bounds must move with the row.", {"bounds": "minus_one_one"}),
    Mistake("bounds_fixed", "You look for the threshold from 0 upwards. It may be negative: the bounds must "
            "move with the row.", {"bounds": "from_zero"}),
    Mistake("bounds_from_lowest", "You look for the threshold between the row's ends. Where the scores are "
            "close, all have weight, and the threshold lies below the lowest of them.", {"bounds": "lowest"}),
    Mistake("bounds_not_halved", "You look for the threshold around the largest score. It lies around the "
            "largest half.", {"bounds": "unhalved"}),
    Mistake("bounds_of_all_rows", "Your bounds come from the largest number of the whole array. Each row "
            "has its own threshold, and its own bounds.", {"bounds": "largest_of_all"}),
    Mistake("all_zero", "Nobody has weight: your threshold lies at the best or above. A search ends there "
            "that moves the wrong bound, and so does a root with the wrong sign.", {"bounds": "high_end"},
            rare=True),
    *(Mistake("too_few_halvings", "Your search for the threshold stops too soon: each halving brings one "
              "more binary digit.", {"steps": (count, side)}, rare=True)
      for count in (4, 5, 6, 8, 10, 12) for side in ("low", "middle", "high")),
    Mistake("exponent", "The exponent is 1 divided by alpha less 1, which is 2 at alpha 1.5. You have 1/2, "
            "alpha less 1 itself.", {"form": "power 0.5 0.5"}, rare=True),
    Mistake("exponent", "The exponent is 1 divided by alpha less 1, which is 2. You have alpha.",
            {"form": "power 0.5 1.5"}, rare=True),
    Mistake("exponent", "The exponent is 1 divided by alpha less 1. You have 1 divided by alpha.",
            {"form": "power 0.5 0.6666666666666666"}, rare=True),
    Mistake("exponent", "The exponent is 2. You have 3.", {"form": "power 0.5 3"}, rare=True),
    Mistake("alpha_not_lowered", "The scores are multiplied by alpha, and the exponent is 1 divided by "
            "alpha. In both places it is alpha less 1.", {"form": "power 1.5 0.6666666666666666"}, rare=True),
    Mistake("alpha_not_lowered", "The scores are multiplied by 1.5. It is alpha less 1, so 0.5.",
            {"form": "power 1.5 2"}, rare=True),
    Mistake("exponent", "The scores are not halved, and the exponent is 1.5.", {"form": "power 1 1.5"},
            rare=True),
    Mistake("square_forgotten", "The threshold is the right one, and the root was drawn of what lies above "
            "it. It is squared.", {"power": 0.5}, rare=True),
    Mistake("softmax", "This is the softmax. It has no zeros.", {"form": "softmax"}, rare=True),
    Mistake("softmax_squared", "You square the softmax and divide by the sum. The square of an exponential "
            "is an exponential again: this is the softmax at temperature 1/2, and it has no zeros.",
            {"form": "softmax_double"}, rare=True),
    Mistake("softmax_squared", "You square the softmax. That has no zeros and does not sum to 1.",
            {"form": "softmax_squared"}, rare=True),
    Mistake("softmax_of_halves", "This is the softmax of halved scores. There is no exponential here, and "
            "there are zeros.", {"form": "softmax_half"}, rare=True),
    Mistake("sparsemax", "This is the sparsemax, alpha 2.", {"form": "sparsemax"}, rare=True),
    Mistake("mean_of_both", "You take the mean of softmax and sparsemax. It lies between the two, and it "
            "has no zeros, since the softmax has none. Halfway is meant of alpha.", {"form": "mean"},
            rare=True),
    Mistake("mean_of_both", "You take the root of softmax times sparsemax. It has the zeros of the "
            "sparsemax, and here fewer are cut off. Halfway is meant of alpha.", {"form": "geometric"},
            rare=True),
    Mistake("root_of_sparsemax", "You draw the root of the sparsemax and divide by the sum. The zeros are "
            "still those of the sparsemax.", {"form": "sparsemax_root"}, rare=True),
    *(Mistake("fixed_threshold", "You cut off at a fixed distance below the best and divide by the sum. That "
              "is the threshold when the best is alone; others that share raise it. Nothing is divided: the "
              "threshold is the one at which the sum is 1.", {"form": form}, rare=True)
      for form in ("fixed", "fixed_one", "fixed_linear")),
    Mistake("softmax_cut", "You take the softmax, cut off what lies 2 below the best and divide by the sum. "
            "There is no exponential here, and others that share raise the threshold.", {"form": "near"},
            rare=True),
    Mistake("positive_part", "You cut the halves off at 0, square and divide by the sum. It is not 0 where "
            "one cuts, and nothing is divided.", {"form": "positive"}, rare=True),
    Mistake("positive_part", "You cut the halves off at 0, square and divide by the sum. It is not 0 where "
            "one cuts, and a row below 0 has weights too.", {"form": "positive_or_none"}, rare=True),
    Mistake("squares", "You square the scores and divide by the sum. A score far below 0 then weighs much.",
            {"form": "squares"}, rare=True),
    Mistake("argmax", "All weight goes to the best. Others that are near enough have a share.",
            {"form": "hard"}, rare=True),
    Mistake("not_lowered", "You set to 0 what lies below the threshold, and leave the others as they were. "
            "Their weight is the square of what their half lies above it.", {"end": "kept"}),
    Mistake("left_sorted", "Your weights come in the order of the sorted scores. The threshold serves the "
            "scores where they stand.", {"end": "sorted"}),
    Mistake("sum_over_all", "All numbers of the array compete. Each row of the last axis has its own "
            "threshold.", {"axis": "all"}),
    Mistake("first_axis", "You work along the first axis, and the last one is asked for.", {"axis": "first"}),
)  # fmt: skip


def _entmax15_cases():
    rng = np.random.default_rng(54)
    by_hand = "Add up the squares of what lies above your threshold. Do they come to 1?"
    level = "Only differences count. Does the place where you look for the threshold move with the row?"
    return [
        Case("the scores 1, 0.5, 0.2, -1", (np.array([1.0, 0.5, 0.2, -1.0]),), hint=by_hand),
        Case("scores out of order", (np.array([-0.3, 0.9, 0.1, 1.75, -2.0]),), hint=by_hand),
        Case("three rows of five scores", (2 * rng.normal(size=(3, 5)),),
             hint="Does each row have its own threshold?"),
        Case("two times four rows of three scores", (rng.normal(size=(2, 4, 3)),),
             hint="The last axis, whatever the others are."),
        Case("as many rows as columns", (2 * rng.normal(size=(4, 4)),), hint="Which axis sums to 1?"),
        Case("the same scores 100 higher", (np.array([1.0, 0.5, 0.2, -1.0]) + 100,), hint=level),
        Case("scores all below 0", (np.array([-3.0, -3.2, -4.4, -9.0, -3.1]),), hint=level),
        Case("rows at different heights",
             (np.array([[6.0, 5.5, 4.0], [0.0, 0.3, -1.5], [-7.0, -6.0, -8.5]]),), hint=level),
        Case("ties", (np.array([[0.5, 0.5, 0.5], [1.0, 1.0, -4.0], [2.0, 2.0, 2.0]]),), hint=by_hand),
        Case("one far ahead", (np.array([[0.0, 1000.0, -1000.0], [4.5, 0.0, 1.0]]),), hint=by_hand),
        Case("one score", (np.array([[-4.0], [7.0]]),), hint="A single score has all the weight."),
        Case("many close scores", (rng.normal(size=(2, 40)) / 20,),
             hint="Where all are close, all have weight. Where does the threshold lie then?"),
        Case("many scores", (rng.normal(size=(3, 64)),), hint=by_hand),
    ]


def _is_close(case, value, expected):
    value = floats(value)
    if value is not None and value.shape == expected.shape and np.abs(value - expected).max() < 0.01:
        return "All weights are close to the right ones, and not close enough. Does a search stop too soon?"
    return None


entmax15 = FunctionExercise(
    _entmax15, _entmax15_cases, _ENTMAX15,
    "Checked on rows in any order and at any level, with ties, with one score and with 64. The threshold is "
    "that at which the squares sum to 1, and nothing is divided. Between softmax and sparsemax it has both: "
    "exact zeros, and weights that reach them without a kink.",
    properties=(_is_close, _is_a_share), rtol=1e-4, atol=1e-5,
)  # fmt: skip


# ------------------------------------------------------------------- softmax off by one


@np.errstate(all="ignore")
def _off_by_one(x, *, axis="last", shift="right", extra="right", top="right", end="right", form="right"):
    rest = {"shift": shift, "extra": extra, "top": top, "end": end, "form": form}
    if axis == "all":
        return _off_by_one(x.ravel(), **rest).reshape(x.shape)
    if axis == "first":
        return np.moveaxis(_off_by_one(np.moveaxis(x, 0, -1), **rest), -1, 0)
    z = x.astype(float)
    n = z.shape[-1]
    largest = z.max(-1, keepdims=True)
    if form == "sigmoid":
        return 1 / (1 + np.exp(-z))
    if form in ("kept", "front"):
        zero = np.zeros_like(largest)
        wide = np.concatenate([zero, z] if form == "front" else [z, zero], -1)
        e = np.exp(wide - wide.max(-1, keepdims=True))
        p = e / e.sum(-1, keepdims=True)
        return p[..., :-1] if form == "front" else p
    m = {"right": np.maximum(largest, 0), "none": 0 * largest, "largest": largest, "clip": 0 * largest,
         "least": z.min(-1, keepdims=True), "size": np.abs(z).max(-1, keepdims=True),
         "whole": 0 * largest + max(z.max(), 0)}[shift]
    e = np.exp(np.clip(z, -80, 80) if shift == "clip" else z - m)
    one = {
        "right": np.exp(-m), "unshifted": 1.0, "n": n * np.exp(-m), "n_unshifted": float(n),
        "turned": np.exp(m), "none": 0.0, "minus": -np.exp(-m), "e": np.exp(1 - m),
    }[extra]
    total = e.sum(-1, keepdims=True)
    above = {"right": e, "one_more": e + one, "all_more": e + one}[top]
    below = one * (n if top == "all_more" else 1) + total
    if end == "outside":
        return e / total + one
    if end == "after":
        return e / total / (1 + one)
    if end == "odds":
        return e / total / (1 + e / total)
    if end == "less_a_part":
        return e / total - 1 / n
    p = above / below
    if end == "rest_shared":
        p = p + (1 - p.sum(-1, keepdims=True)) / n
    return p


_UNSHIFTED = (
    "The largest score is subtracted, and the 1 is added as it is. The 1 is the exponential of a score of 0. "
    "When all scores are lowered, that 0 is lowered too."
)
_OFF_BY_ONE = (
    Mistake("one_not_shifted", _UNSHIFTED, {"shift": "largest", "extra": "unshifted"}),
    Mistake("one_not_shifted", _UNSHIFTED, {"extra": "unshifted"}),
    Mistake("n_added", "You add the number of scores instead of 1, and after the shift at that.",
            {"shift": "largest", "extra": "n_unshifted"}),
    Mistake("n_added", "You add the number of scores instead of 1.", {"extra": "n"}),
    Mistake("softmax", "Your rows sum to 1: this is the softmax. Either the 1 below the line is missing, or "
            "you have divided by the sum once more. What a row leaves over is the point.", {"extra": "none"}),
    Mistake("one_in_numerator", "The 1 stands above the line too. It belongs to the sum alone: nobody gets "
                                "it.",
            {"top": "one_more"}),
    Mistake("one_for_each", "Each exponential has its own 1, "
                            "above the line and in the sum.", {"top": "all_more"}),
    Mistake("no_shift", "Nothing is subtracted, and the exponential of a large score is infinite. What may "
            "be subtracted from all, if the 1 goes along?", {"shift": "none"}),
    Mistake("clipped", "The scores are clipped, and large ones lose their differences. Subtract instead.",
            {"shift": "clip"}),
    Mistake("smallest_subtracted", "You subtract the smallest score, and the largest exponential may still "
            "be infinite.", {"shift": "least"}),
    Mistake("largest_size_subtracted", "You subtract the largest size of a score, its sign left out. For a "
            "row far below 0 that lowers the scores further, until nothing is left of them or of the 1.",
            {"shift": "size"}),
    Mistake("largest_of_all_subtracted", "You subtract the largest number of the whole array. A row far "
            "below it loses its exponentials, and the 1 with them.", {"shift": "whole"}),
    Mistake("one_shifted_the_wrong_way", "The 1 is multiplied by the exponential of the largest score. It "
            "must be lowered as the scores are.", {"shift": "largest", "extra": "turned"}),
    Mistake("one_shifted_the_wrong_way", "The 1 is multiplied by the exponential of the largest score. It "
            "must be lowered as the scores are.", {"extra": "turned"}),
    Mistake("one_taken_away", "The 1 is taken away from the sum.", {"extra": "minus"}),
    Mistake("score_of_one", "You add the exponential of 1. The further score is 0, and its exponential is 1.",
            {"extra": "e"}),
    Mistake("one_outside", "The 1 is added to the quotient. It belongs below the line.",
            dict(end="outside", extra="unshifted"), rare=True),
    Mistake("divided_afterwards", "You take the softmax and divide by a number. Then a row's total does not "
            "depend on how high its scores "
            "are, and that is the point.", dict(end="after", extra="unshifted"), rare=True),
    Mistake("one_for_each", "You take the softmax p, and then p / (1 + p). The 1 stands once, in the sum "
            "of the exponentials, which is the same for all of a row.",
            dict(end="odds", shift="largest"), rare=True),
    Mistake("part_taken_away", "You take the softmax less 1/n. The softmax has forgotten how high the scores "
            "are, and that decides how much a row keeps.",
            dict(end="less_a_part", shift="largest"), rare=True),
    Mistake("rest_shared", "What is missing to 1 is shared out again.", dict(end="rest_shared"), rare=True),
    Mistake("sigmoid", "Each score has its own quotient e / (1 "
                       "+ e). They share one sum.", {"form": "sigmoid"}),
    Mistake("sink_kept", "You set a 0 beside the scores, which is right, and its weight is still in the "
                         "result.",
            {"form": "kept"}),
    Mistake("wrong_one_dropped", "You set a 0 in front of the scores, and drop the last weight instead of "
                                 "the first.",
            {"form": "front"}),
    Mistake("sum_over_all", "All numbers of the array share one sum. Each row of the last axis has its own.",
            {"axis": "all"}),
    Mistake("first_axis", "You work along the first axis, and the last one is asked for.", {"axis": "first"}),
)  # fmt: skip


def _off_by_one_cases():
    rng = np.random.default_rng(53)
    level = "How high the scores are matters here. What does your function give for scores 5 lower?"
    large = "Here nothing may overflow. Which number can be subtracted, and from what?"
    return [
        Case("the scores 1, 0.5, "
             "0.2, -1", (np.array([1.0, 0.5, 0.2, -1.0]),), hint="Write the fraction out."),
        Case("three scores of 0", (np.zeros(3),), hint="Three ones above, and below the line four."),
        Case("eight scores of -5", (np.full(8, -5.0),), hint=level),
        Case("three rows of five scores", (2 * rng.normal(size=(3, 5)),), hint="Each row for itself."),
        Case("two times four rows of three scores", (rng.normal(size=(2, 4, 3)),),
             hint="The last axis, whatever the others are."),
        Case("as many rows as columns", (rng.normal(size=(4, 4)),), hint="Which axis is summed?"),
        Case("rows at different "
             "heights", (np.array([[6.0, 5.0, 4.0], [0.0, -1.0, -2.0], [-6.0, -7.0, -8.0]]),),
             hint=level),
        Case("one score", (np.array([[0.0], [3.0], [-2.0]]),), hint="With one score it is e / (1 + e)."),
        Case("scores of 1000", (np.array([1000.0, 999.0, 1001.5]),), hint=large),
        Case("scores of -1000", (np.array([-1000.0, -1002.0, -999.0]),), hint="Nothing to say: all zeros."),
        Case("rows of very "
             "different size", (np.array([[0.5, -0.5, 0.1], [900.0, 899.0, 0.0], [-2e4, -2e4, -3e4],
                                                       [-0.1, 0.2, -900.0]]),), hint=large),
    ]


def _leaves_something(case, value, expected):
    value = floats(value)
    if value is None or value.shape != case.args[0].shape:
        return None
    if not np.isfinite(value).all():
        return "There are NaN or infinite numbers."
    if value.min() < 0:
        return "There are negative weights."
    sums, ours = value.sum(-1), expected.sum(-1)
    if np.abs(sums - ours).max() > 1e-6:
        at = int(np.abs(sums - ours).argmax())
        return (f"A row's weights come to {np.reshape(sums, -1)[at]:.4g} together, and should come to "
                f"{np.reshape(ours, -1)[at]:.4g}.")
    return None


softmax_off_by_one = FunctionExercise(
    _off_by_one, _off_by_one_cases, _OFF_BY_ONE,
    "Checked on rows at every height, up to 1000 and down to -20,000. It is a softmax beside one more score "
    "of 0, whose weight nobody receives. So the shift has to take that 0 along, and a row that lies far "
    "below 0 says nothing at all.",
    properties=(_leaves_something,), rtol=1e-5, atol=1e-9,
)  # fmt: skip


@np.errstate(all="ignore")
def half_attention(answer):
    """Three scores whose weights, off by one, are as 4 to 2 to 1 and sum to 1/2."""
    x, complaint = numbers(answer, (3,), "your scores")
    if complaint:
        return complaint
    p = _off_by_one(x)
    total = p.sum()
    ratios = p / p[2]
    told = f"Your weights are {p[0]:.3g}, {p[1]:.3g} and {p[2]:.3g}, together {total:.3g}. "
    as_asked, half = np.abs(ratios - [4, 2, 1]).max() < 0.02, abs(total - 0.5) < 0.002
    if as_asked and half:
        return right(
            f"{told}The exponentials sum to 1, as much as the further score of 0 has. Differences of ln 2 "
            "set the ratios, and the level sets the total: two questions that a softmax does not keep apart, "
            "since it hears the first one only."
        )
    e = np.exp(x)
    if np.abs(x - np.array([4, 2, 1]) / 14).max() < 0.005:
        return wrong(f"{told}You gave the weights as scores. Which scores have exponentials in the ratio 4 "
                     "to 2 to 1?",
                     "weights_as_scores")
    if as_asked and abs(e.sum() - 0.5) < 0.005:
        return wrong(f"{told}Your exponentials sum to 1/2. Below the line stands that sum and 1 more: which "
                     "sum makes it a half?", "half_of_sum")
    if as_asked and abs(e.sum() - 2) < 0.01:
        return wrong(f"{told}Your exponentials sum to 2. Which sum is half of itself and 1?", "double_of_sum")
    if as_asked:
        way = "lower" if total > 0.5 else "raise"
        return wrong(f"{told}The ratios are right. The total goes with the level: {way} all three by the "
                     "same number.",
                     "level")
    if np.abs(x - x[2] - [2, 1, 0]).max() < 0.02 or np.abs(x[:2] / x[2] - [4, 2]).max() < 0.02:
        return wrong(f"{told}Your scores stand in a ratio, or in steps of 1. It is exponentials that shall "
                     "be as 4 to 2 to 1; which step doubles an exponential?", "ratios_of_scores")
    if half:
        return wrong(f"{told}The total is right, and the weights shall be as 4 to 2 to 1. Which difference "
                     "of scores doubles a weight?", "ratios")
    return wrong(f"{told}Begin with the ratios: differences decide them. Then move all three together.")


_SPARSE_SCORES_SOLUTION = """
answer = [5, 4.7, 4.5, 0, 0]                    # 0.6, 0.3 and 0.1, each 4.4 higher; the others anywhere below
"""

_SPARSEMAX_SOLUTION = '''\
import numpy as np


def sparsemax(x):
    z = -np.sort(-x, axis=-1)                              # the largest first
    k = np.arange(1, x.shape[-1] + 1)
    total = z.cumsum(-1)
    size = (1 + k * z > total).sum(-1, keepdims=True)      # how many get weight
    tau = (np.take_along_axis(total, size - 1, -1) - 1) / size
    return np.maximum(x - tau, 0)
'''

_ENTMAX15_SOLUTION = '''\
import numpy as np


def entmax15(x):
    z = x / 2
    low = z.max(-1, keepdims=True) - 1                     # here the best alone has the weight 1
    high = low + 1                                         # and here nobody has any
    for _ in range(50):
        tau = (low + high) / 2
        enough = (np.maximum(z - tau, 0) ** 2).sum(-1, keepdims=True) >= 1
        low, high = np.where(enough, tau, low), np.where(enough, high, tau)
    return np.maximum(z - low, 0) ** 2
'''

_OFF_BY_ONE_SOLUTION = '''\
import numpy as np


def softmax_off_by_one(x):
    m = np.maximum(x.max(-1, keepdims=True), 0)            # the further score, 0, counts too
    e = np.exp(x - m)
    return e / (np.exp(-m) + e.sum(-1, keepdims=True))
'''

_HALF_SOLUTION = """
import numpy as np

answer = np.log([4 / 7, 2 / 7, 1 / 7])                     # exponentials that sum to 1
"""

EXERCISES = (
    Exercise("sparse_scores", "05", sparse_scores, (
        "By how much do two scores differ whose weights are 0.6 and 0.3? The sparsemax lowers all scores by "
        "the same number.",
        "Differences of scores are differences of weights, as long as both have weight. Start from the "
        "weights and raise them until the first is 5.",
        "The threshold is what all scores are lowered by: 5 less 0.6. The last two lie at it or anywhere "
        "below.",
    ), _SPARSE_SCORES_SOLUTION, "construction"),
    Exercise("sparsemax", "05", sparsemax, (
        "Take 1, 0.5, 0.2, -1 by hand. With only the best counted the threshold is 0, and 0.5 lies above it, "
        "so it counts too. What is the threshold of two, and does 0.2 lie above it?",
        "Sort from the largest down and take running sums. The k-th score counts if 1 + k z exceeds the sum "
        "of the first k. The last such k is the one.",
        "The threshold is the sum of the k best, less 1, by k. Subtract it from the scores as they stand and "
        "replace what is negative by 0. Keep the last axis with length 1, so that each row has its own.",
    ), _SPARSEMAX_SOLUTION, "function"),
    Exercise("entmax15", "05", entmax15, (
        "Call the halves z. If the threshold is the largest z less 1, how much has the best alone? And if "
        "the threshold is the largest z itself, how much have all together?",
        "Between these two the sum of the squares falls, without a jump, from 1 or more to 0. Halve the "
        "interval, ask in which half the sum passes 1, and go on; 50 times are plenty. Each row has its own "
        "interval.",
        "Or sort, as for the sparsemax. With the k best, of mean M and with the sum S of squared distances "
        "from M, the squares sum to k (M - tau)**2 + S. Set that to 1 and solve for tau; the right k is the "
        "largest whose k-th z is not below its tau.",
    ), _ENTMAX15_SOLUTION, "function"),
    Exercise("half_attention", "05", half_attention, (
        "The weights are e / (1 + sum). Which sum of the three exponentials makes the total 1/2?",
        "The exponentials must sum to 1 and be as 4 to 2 to 1. So which three numbers are they?",
        "They are 4/7, 2/7 and 1/7. A score is the logarithm of its exponential.",
    ), _HALF_SOLUTION, "construction"),
    Exercise("softmax_off_by_one", "05", softmax_off_by_one, (
        "It is a softmax of the scores and one more score, 0, whose weight is dropped. Which number keeps "
        "all exponentials at or below 1, the further one's included?",
        "Subtract m, the largest of the row and 0. The exponential of the further score then is that of -m "
        "and no longer 1.",
        "The exponentials of x less m, divided by their sum and the exponential of -m. Keep the last axis "
        "with length 1.",
    ), _OFF_BY_ONE_SOLUTION, "function"),
)  # fmt: skip

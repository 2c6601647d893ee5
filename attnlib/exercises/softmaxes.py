"""The exercises of lesson 05 on softmax and its logarithm."""

import functools
import inspect

import numpy as np

from attnlib.exercises.common import few_digits, in_torch, unpacked
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake


def _prepared(x, axis, over, precision, base, sign):
    """The scores in the precision that is used, and the axis over which they compete; None is all.

    No case gives an axis of -1 by name, so where it is -1 it was left out.
    """
    if over.startswith("unpacked"):
        unpacked(x.shape, int(over[-1]))
        over = "axis"
    kind = x.dtype if x.dtype.kind == "f" else np.dtype(float)
    kind = {"wide": np.dtype(float), "given": kind, "single": np.dtype(np.float32),
            "half": np.dtype(np.float16), "whole": np.dtype(float), "own": x.dtype, "own_first": x.dtype,
            "rounded": np.dtype(float), "half_exponents": np.dtype(np.float16)}[precision]
    z = {"whole": np.trunc, "rounded": np.float16}.get(precision, lambda x: x)(x).astype(kind)
    axis = {
        "axis": axis, "last": -1, "all": None, "first": 0, "size": abs(axis), "last_but_one": -2,
        "off_by_one": axis + 1 if axis < 0 else axis, "one": 1, "negative_is_last": -1 if axis < 0 else axis,
        "rest": tuple(range(1, z.ndim)) if z.ndim > 1 else -1, "not_zero": axis or -1,
        "first_or_last": axis if axis in (-1, z.ndim - 1) else 0,
        "one_too_low": (z.ndim - 1 + axis) % z.ndim if axis < 0 and z.ndim > 1 else axis,
        "left_out_first": 0 if axis == -1 else axis, "left_out_one": 1 if axis == -1 else axis,
        "left_out_all": None if axis == -1 else axis, "item": _item(z.ndim, axis),
    }[over]
    if isinstance(axis, int) and not -z.ndim <= axis < z.ndim:
        raise np.exceptions.AxisError(axis, z.ndim)
    return z * kind.type(sign * np.log(base)) if base != np.e or sign != 1 else z, axis


def _item(ndim, axis):
    """All axes but the first of those that are left when axis is moved to the end."""
    others = [i for i in range(ndim) if i != axis % ndim]
    return tuple(i for i in range(ndim) if i not in others[:1])


@functools.cache
def _first_tops(cases):
    """The largest scores of the first case of each shape and axis."""
    tops = {}
    for case in cases():
        x, axis = case.args if len(case.args) == 2 else (*case.args, -1)
        tops.setdefault((x.shape, axis), x.max(axis=axis, keepdims=True).astype(float))
    return tops


def _shift(z, axis, how):
    """What is subtracted from the scores before the exponential, or the scores as they are used instead."""
    top = z.max(axis=axis, keepdims=True)
    if how == "slice":
        return z - top
    if how.startswith("clip"):
        limit = float(how[4:])
        return np.clip(z, -limit, limit)
    if how.startswith("bounded"):
        return np.clip(z - top, -float(how[7:]), None)
    if how == "large_only":
        return np.where(top > 80, z - top, z)
    if how == "mean":
        return z - z.mean(axis=axis, keepdims=True)
    if how == "low":
        return z - z.min(axis=axis, keepdims=True)
    if how == "size":
        return z - abs(z).max(axis=axis, keepdims=True)
    if how == "all":
        return z - z.max()
    if how == "finite_mean":
        return z - np.where(np.isfinite(z), z, 0).mean(axis=axis, keepdims=True)
    if how == "newaxis":
        return z - z.max(axis=axis)[..., None]
    if how.startswith("kept"):
        cases = _softmax_cases if how == "kept" else _log_softmax_cases
        return z - _first_tops(cases).get((z.shape, axis), 0)
    if how == "last":
        return z - z.max(axis=-1, keepdims=True)
    if how == "first_axis":
        return z - z.max(axis=0, keepdims=True)
    if how == "one_row":
        return z - z.reshape(-1, z.shape[-1])[0].max()
    return z                                             # "none"


def _infinite(z, axis, infinite):
    if infinite == "kept" or not np.isinf(z).any():
        return z
    hidden = np.isneginf(z)
    if infinite == "refused":
        raise ValueError("x must be finite")
    if infinite == "nan":
        return np.where(hidden.any(axis=axis, keepdims=True), np.nan, z)
    if infinite == "nan_entry":
        return np.where(hidden, np.nan, z)
    if infinite == "nan_if_first":
        first = np.isneginf(z.take([0], axis=-1 if axis is None else axis))
        return np.where(first, np.nan, z)
    if infinite == "hidden":                             # also where scores have changed their sign
        return np.where(np.isinf(z), -np.inf, z)
    if infinite == "mean":
        return np.where(hidden, np.nanmean(np.where(hidden, np.nan, z), axis=axis, keepdims=True), z)
    return np.where(hidden, float(infinite), z)


def _put(out, x, axis, result):
    """The result in the shape and type in which it is returned."""
    if result == "integer":
        return np.trunc(out).astype(x.dtype) if x.dtype.kind in "iu" else out
    if result == "swapped":
        return np.moveaxis(out, axis, -1)
    if result == "in_front":
        return np.moveaxis(out, axis, 0)
    if result == "exchanged":
        return out.swapaxes(axis, -1)
    if result == "squeezed":
        return out.squeeze()
    if result == "flat":
        return out.ravel()
    if result.startswith("round"):
        return np.round(out, int(result[5:]))
    if result.startswith("least"):
        return np.clip(out, float(result[5:]), 1)
    if result.startswith("plus"):
        return out + float(result[4:])
    return out.astype(x.dtype) if x.dtype.kind == "f" else out


@np.errstate(all="ignore")
def _softmax(x, axis=-1, *, shift="slice", over="axis", base=np.e, sign=1, norm="sum", infinite="kept",
             precision="wide", result="right"):
    if over == "regrouped":
        return _softmax(x.reshape(-1, x.shape[axis])).reshape(x.shape)
    z, axis = _prepared(x, axis, over, precision, base, sign)
    z = _infinite(z, axis, infinite)
    shifted = _shift(z, axis, shift)
    e = np.exp(shifted.astype(float) if precision == "own_first" else shifted)
    if precision == "half_exponents":
        e = e.astype(float)
    total = e.sum(axis=axis, keepdims=True)
    out = {
        "sum": lambda: e / total, "none": lambda: e, "one_more": lambda: e / (1 + total),
        "length": lambda: e / np.sqrt((e * e).sum(axis=axis, keepdims=True)),
        "plain": lambda: z / z.sum(axis=axis, keepdims=True),
        "mean": lambda: e / e.mean(axis=axis, keepdims=True), "all": lambda: e / e.sum(),
        "last": lambda: e / e.sum(axis=-1, keepdims=True), "first": lambda: e / e.sum(axis=0, keepdims=True),
        "item": lambda: e / e.sum(axis=_item(z.ndim, axis), keepdims=True),
        "newaxis": lambda: e / e.sum(axis=axis)[..., None],
        "no_keepdims": lambda: e / e.sum(axis=axis), "log": lambda: np.log(e / total),
        "root": lambda: _softmax(x / np.sqrt(x.shape[axis]), axis),
        "root_last": lambda: _softmax(x / np.sqrt(x.shape[-1]), axis),
        "twice": lambda: _softmax(e / total, axis),
        "one_more_before": lambda: e / (np.exp(-z.max(axis=axis, keepdims=True)) + total),
        "sigmoid_of_two": lambda: 1 / (1 + np.exp(-z)) if x.shape[axis] == 2 else e / total,
        "sigmoid": lambda: 1 / (1 + np.exp(-z)), "hard": lambda: (z == z.max(axis, keepdims=True)) * 1.0,
        "eps": lambda: e / (total + 1e-2), "eps3": lambda: e / (total + 1e-3),
    }[norm]()
    return _put(out, x, axis, result)


def _axis_mistakes(compute):
    return (
        *_AXIS,
        *(Mistake("axis_not_moved_back", "The axis is moved away and not back again, so that the result has "
                  "its axes in another order than x.", dict(result=how), rare=True)
          for how in ("swapped", "in_front", "exchanged")),
        Mistake("squeezed", "An axis of length 1 is lost. The result has the shape of x.",
                dict(result="squeezed"), rare=True),
        *(Mistake("axis_ignored", told, dict(over=over), rare=True)
          for over, told in (
              ("item", "Each item of the first axis is taken as a whole. A slice runs along one axis alone."),
              ("rest", "Each item of the first axis is taken as a whole. A slice runs along one axis alone."),
              ("first_or_last", "Every axis but the last is taken for the first: x.T exchanges all axes. "
               "Which function exchanges two?"),
              ("regrouped", "The slices are cut by a reshape, which knows no axes: entries of different "
               "slices are mixed. Move the axis first."),
              ("not_zero", "Axis 0 is taken for no axis at all: 0 counts as False. It is a valid axis."),
          )),
        *(Mistake("axes_fixed", f"Your function takes x with {n} axes only. It may have one, or any number.",
                  dict(over=f"unpacked{n}"), rare=True) for n in (2, 3)),
        Mistake("state", "You subtract what was the largest in an earlier array of the same shape. Something "
                "of one call is left for the next: each call needs its own maximum.",
                dict(shift="kept" if compute is _softmax else "kept_log"), rare=True),
        *(Mistake("kept_dimensions", "A maximum or sum over axis gets its axis back in last place, whatever "
                  "axis says. It belongs where it was. What keeps a reduced axis with length 1?",
                  {"shift": shift, ("norm" if compute is _softmax else "form"): "newaxis"}, rare=True)
          for shift in ("newaxis", "slice")),
    )


_AXIS = (
    Mistake("axis_ignored", "The last axis is used, whatever axis says. Does axis reach maximum and sum?",
            {"over": "last"}),
    Mistake("axis_ignored", "The first axis is used, whatever axis says. Does axis reach maximum and sum?",
            {"over": "first"}),
    Mistake("axis_ignored", "Axis 1 is used, whatever axis says. Does axis reach maximum and sum?",
            {"over": "one"}),
    Mistake("whole_array", "The softmax runs over the whole array at once. Each slice along axis has its "
            "own.", {"over": "all"}),
    Mistake("negative_axis", "A negative axis is taken for the last one. -2 is the last but one.",
            {"over": "negative_is_last"}),
    Mistake("negative_axis", "A negative axis is taken for another one. -1 is the last, -2 the last but one.",
            {"over": "off_by_one"}),
    Mistake("negative_axis", "A negative axis is taken for the one before it. -1 is the last, -2 the last "
            "but one.", dict(over="one_too_low"), rare=True),
    Mistake("default_axis", "Where axis is left out you take the first one. Its default is -1, the last.",
            {"over": "left_out_first"}),
    Mistake("default_axis", "Where axis is left out you take axis 1. Its default is -1, the last.",
            dict(over="left_out_one"), rare=True),
    Mistake("default_axis", "Where axis is left out you take the whole array. Its default is -1, the last.",
            dict(over="left_out_all"), rare=True),
    Mistake("negative_axis", "A negative axis is taken without its sign. -1 is the last axis, 1 the second.",
            {"over": "size"}),
)
_OVERFLOW = "Exp of a large score is infinite, and so is the sum. "
_SHIFTS = (
    Mistake("overflow", _OVERFLOW + "What may be subtracted from a whole slice without changing its softmax?",
            {"shift": "none"}),
    Mistake("overflow", "Nothing is subtracted from a slice that lies far below 0, perhaps because a running "
            "maximum begins at 0. Every exp is 0 there, and so is their sum.", {"shift": "large_only"}),
    Mistake("maximum_of_all", "You subtract the largest of all scores. In a slice that lies far below it "
            "every exp is 0, and so is their sum. Each slice has its own largest score.", {"shift": "all"}),
    Mistake("maximum_of_another_axis", "Your maximum is taken over the last axis, and the sum over another. "
            "Both run over axis; otherwise the slice is not shifted by one number.", {"shift": "last"}),
    Mistake("maximum_of_another_axis", "Your maximum is taken over the first axis, and the sum over another. "
            "Both run over axis; otherwise the slice is not shifted by one number.",
            {"shift": "first_axis"}),
    Mistake("maximum_of_another_axis", "Your maximum is that of the first row alone. Each slice has its own.",
            {"shift": "one_row"}),
    Mistake("shift_by_mean", "You subtract the mean, and a score far above it still overflows. What is left "
            "must not be above 0.", {"shift": "mean"}),
    Mistake("shift_by_minimum", "You subtract the smallest score, so all that is left is positive and may "
            "overflow. What is left must not be above 0.", {"shift": "low"}),
    Mistake("shift_by_size", "You subtract the largest absolute value. A slice of scores far below 0 then "
            "gets twice as far away, and every exp is 0.", {"shift": "size"}),
)


def _clipped(compute):
    return (
        Mistake("clipped", "The scores are clipped, and unequal scores beyond the limit become equal. "
                "Subtracting loses nothing.", dict(shift=f"clip{limit}"), rare=True)
        for limit in (10, 20, 30, 50, 60, 80, 88, 100, 500, 700, 709)
    )


_PRECISION = (
    Mistake("rounded_before", "The scores are cut to float32 before the largest is subtracted, and large "
            "scores lose the digits that tell them apart. Subtract first.", {"precision": "single"}),
    Mistake("half_precision", "You compute in half precision, which has three digits and ends at 65504.",
            {"precision": "half"}),
    Mistake("half_precision", "The scores are rounded to half precision, which has three digits and ends at "
            "65504.", {"precision": "rounded"}),
    Mistake("fractions_lost", "The fractions of the scores are lost: x is made whole. They count.",
            {"precision": "whole"}),
    Mistake("integer_result", "For integer input the result is held in an array of x's type, and every "
            "fraction is cut off.", {"result": "integer"}),
)
_SOFTMAX = (
    *_axis_mistakes(_softmax),
    *_SHIFTS,
    *_clipped(_softmax),
    *(Mistake("clipped", "The differences to the largest score are cut off below, so that what should have "
              "weight 0 has more. An entry of -inf has weight exactly 0.", dict(shift=f"bounded{limit}"),
              rare=True)
      for limit in (10, 20, 30, 50, 60, 80, 88, 100, 500, 700, 709, 745)),
    Mistake("axis_ignored", "The sum runs over each item of the first axis as a whole. A slice runs along "
            "one axis alone.", dict(norm="item"), rare=True),
    Mistake("kept_dimensions", "The sums have lost their axis, so that they are laid along another one, or "
            "fit nowhere. What keeps a reduced axis with length 1?",
            dict(norm="no_keepdims"), rare=True),
    Mistake("sum_over_all", "You divide by the sum of all numbers. Each slice is divided by its own sum.",
            dict(norm="all"), rare=True),
    Mistake("sum_of_another_axis", "The sum runs over the last axis, whatever axis says. Does axis reach it?",
            dict(norm="last"), rare=True),
    Mistake("sum_of_another_axis", "The sum runs over the first axis, whatever axis says. Does axis reach "
            "it?", dict(norm="first"), rare=True),
    Mistake("not_normalised", "The exponentials are not divided by their sum. A slice must sum to 1.",
            {"norm": "none"}),
    Mistake("not_normalised", "You divide by the mean of the exponentials. Divide by their sum.",
            dict(norm="mean"), rare=True),
    Mistake("not_normalised", "You divide by the length of the vector. Divide by the sum.",
            dict(norm="length"), rare=True),
    Mistake("no_exponential", "You divide the scores by their sum. Weights go by the exponentials of scores.",
            dict(norm="plain"), rare=True),
    Mistake("one_more", "There is a 1 too many in the denominator, as in the softmax that may attend to "
            "nothing; the weights sum to less than 1.",
            dict(norm="one_more_before"), rare=True),
    Mistake("sigmoid", "For two entries each has its own sigmoid. It is the sigmoid of their difference that "
            "is one of two weights.", dict(norm="sigmoid_of_two"), rare=True),
    Mistake("one_more", "There is a 1 too many in the denominator, so the weights sum to less than 1.",
            dict(norm="one_more"), rare=True),
    *(Mistake("epsilon", "A number is added to the denominator that is large enough to show. After the shift "
              "the sum is at least 1 and needs none.", dict(norm=norm), rare=True)
      for norm in ("eps", "eps3")),
    Mistake("logarithm", "This is the logarithm of the softmax. The weights themselves are asked for.",
            dict(norm="log"), rare=True),
    Mistake("twice", "The softmax is taken twice. What it gives once are the weights.",
            dict(norm="twice"), rare=True),
    *(Mistake("scaled", "The scores are divided by the root of their number. That belongs to attention.",
              dict(norm=norm), rare=True) for norm in ("root", "root_last")),
    Mistake("sigmoid", "Each score has its own sigmoid. In a softmax the scores compete: they sum to 1.",
            dict(norm="sigmoid"), rare=True),
    Mistake("hard_maximum", "All weight goes to the largest score. A softmax gives some to each.",
            dict(norm="hard"), rare=True),
    Mistake("other_base", "You take powers of 2. The softmax takes powers of e.", {"base": 2.0}),
    Mistake("other_base", "You take powers of 10. The softmax takes powers of e.", {"base": 10.0}),
    Mistake("softmin", "Your largest score gets the smallest weight: a sign is turned round.", {"sign": -1}),
    Mistake("softmin", "Your largest score gets the smallest weight: a sign is turned round.",
            dict(sign=-1, infinite="hidden"), rare=True),
    *_PRECISION,
    *(Mistake("unsigned_wraps", "The largest is subtracted in x's own type. Unsigned integers have no "
              "numbers below 0: 198 - 200 is 254 in uint8. Make the scores floating numbers first.",
              {"precision": precision}) for precision in ("own", "own_first")),
    Mistake("half_precision", "The exponentials are taken in half precision, which has three digits and ends "
            "at 65504.", dict(precision="half_exponents"), rare=True),
    *(Mistake("infinity_nan", "A slice with an entry of -inf comes out as NaN. Such an entry has weight 0, "
              "and the others share the rest. Where does infinity meet a 0, or another infinity?",
              dict(infinite=how), rare=True)
      for how in ("nan", "nan_entry")),
    Mistake("infinity_first", "Where -inf is the first entry, the slice is NaN: your running maximum begins "
            "at -inf, and -inf minus -inf is no number.", {"infinite": "nan_if_first"}),
    Mistake("infinity_refused", "An entry of -inf is refused. It is valid and has weight 0.",
            {"infinite": "refused"}),
    *(Mistake("infinity_replaced", "An entry of -inf is replaced by a finite number, and beside scores that "
              "are lower it wins. Its weight is 0 whatever the others are.",
              dict(infinite=how), rare=True)
      for how in ("0", "-100", "-1e4", "-1e5", "-1e6", "-1e9", "mean")),
    *(Mistake("never_zero", "Your weights are kept above 0, by a bound or by what is added. An entry of "
              "-inf has weight exactly 0.",
              dict(result=f"least{least}"), rare=True)
      for least in ("1e-15", "1e-12", "1e-10", "1e-9", "1e-8", "1e-7", "1e-6")),
    *(Mistake("never_zero", "A small number is added to the weights. An entry of -inf has weight exactly 0.",
              dict(result=f"plus{more}"), rare=True)
      for more in ("1e-8", "1e-7", "1e-6")),
    *(Mistake("rounded", "The result is rounded. Return it with all its digits.",
              dict(result=f"round{digits}"), rare=True)
      for digits in (2, 3, 4, 5, 6, 7, 8)),
)


def _inputs(rng, first):
    """What both exercises are tried on: names, arguments and hints."""
    cube = rng.normal(size=(2, 3, 4)) * 2
    slices = "A slice is all entries that differ in their index along axis alone."
    keep = "The sizes were there before, with other numbers: is something kept?"
    return [
        Case("three scores", (np.array([0.5, -1.0, 2.0]),), hint=first),
        Case("x (3, 5), axis left out", (rng.normal(size=(3, 5)) * 2,),
             hint=f"Without axis it is the last. {slices}"),
        Case("x (2, 3, 4), axis left out", (cube,), hint=slices),
        Case("x (2, 3, 4), axis 0", (cube, 0), hint=slices),
        Case("x (2, 3, 4), axis 1", (cube, 1), hint=slices),
        Case("x (2, 3, 4), axis -2", (cube, -2), hint=slices),
        Case("x (2, 3, 4), axis -3", (cube, -3), hint=slices),
        Case("x (2, 3, 2, 4), axis 2", (rng.normal(size=(2, 3, 2, 4)), 2), hint=slices),
        Case("x (3, 3), axis 0", (rng.normal(size=(3, 3)), 0), hint=slices),
        Case("x (3, 3), axis 1", (rng.normal(size=(3, 3)), 1), hint=keep),
        Case("x (3, 5) with other numbers", (rng.normal(size=(3, 5)) * 3,), hint=keep),
        Case("x (1, 4), axis 0", (rng.normal(size=(1, 4)), 0), hint="A single entry has all the weight."),
        Case("x (3, 1)", (rng.normal(size=(3, 1)),), hint="A single entry has all the weight."),
        Case("integers", (np.array([[2, 0, 1, -3], [0, 0, 5, 4]]),),
             hint="Integers are valid, and the result is no integer."),
        Case("float32", (rng.normal(size=(2, 5)).astype(np.float32),)),
        Case("a transposed array", (rng.normal(size=(4, 3)).T,)),
        Case("a transposed array, axis 0", (rng.normal(size=(5, 2)).T, 0)),
    ]


_LOSSLESS = "Subtract from each slice its own largest entry, before anything else. Nothing changes by it."


def _softmax_cases():
    rng = np.random.default_rng(5)
    inf = np.inf
    weights = "An entry of -inf has weight exactly 0, and the others share the rest."
    return [
        *_inputs(rng, "Take the exponentials, then their shares. x may have one axis, or any number."),
        Case("the scores 1000, 1001 and 999.5", (np.array([1000.0, 1001.0, 999.5]),), hint=_LOSSLESS),
        Case("the scores -1000, -1001 and -999.5", (np.array([-1000.0, -1001.0, -999.5]),), hint=_LOSSLESS),
        Case("scores of both signs, a thousand apart",
             (np.array([[1000.0, -1000.0, 0.0], [-3000.0, 2000.0, 2001.0]]),), hint=_LOSSLESS),
        Case("rows of very different size",
             (np.array([[0.5, 1.0, -0.5], [-20000.0, -20001.0, -20002.0], [2e6, 2e6 + 1, 2e6 - 1],
                        [300.0, 299.0, 301.5]]),), hint=_LOSSLESS),
        Case("columns of very different size, axis 0",
             (np.array([[0.5, -20000.0, 2e6, -90.0], [1.5, -20001.0, 2e6 + 1, -91.0],
                        [-0.5, -20002.0, 2e6 + 2, -89.5]]), 0), hint=_LOSSLESS),
        Case("scores near a million that differ in their fractions",
             (1e6 + np.array([[0.25, 0.5, -0.3], [1.1, 0.9, 0.7]]),),
             hint="Large scores may differ by little. Are digits lost before the largest is subtracted?"),
        Case("integers of 12000", (np.array([[12000, 11999, 12001], [-15000, -15001, -15003]]),),
             hint=_LOSSLESS),
        Case("unsigned integers, uint8", (np.array([[200, 198, 201, 190], [3, 0, 5, 4]], np.uint8),),
             hint="What is 198 - 200 in a type that has no numbers below 0?"),
        Case("float16", (np.array([[1.5, -2.0, 0.25], [12.0, 13.0, 11.5]], np.float16),),
             hint="float16 ends at 65504, and exp(11.1) is more."),
        Case("float16 of large size",
             (np.array([[60000, -60000, 59968], [-1000, -1001, -1000.5]], np.float16),),
             hint="float16 ends at 65504, and exp(11.1) is more."),
        Case("an entry of -inf", (np.array([0.5, -inf, 2.0, -1.0]),), hint=weights),
        Case("-inf first, last and in the middle",
             (np.array([[-inf, 1.0, 2.0], [0.5, 1.5, -inf], [1.0, -inf, -inf], [-inf, -inf, 3.0]]),),
             hint=weights),
        Case("-inf along axis 0", (np.array([[-inf, 1.0], [2.0, -inf], [0.5, -3.0]]), 0), hint=weights),
        Case("-inf beside scores far below 0",
             (np.array([[-30000.0, -inf, -30001.0], [-3e9, -3e9 - 1, -inf]]),),
             hint=weights),
    ]


def _sums_to_one(case, value, expected):
    value = floats(value)
    axis = case.args[1] if len(case.args) > 1 else -1
    if value is None or value.shape != case.args[0].shape:
        return None
    if not np.isfinite(value).all():
        return "There are NaN or infinite numbers."
    if value.min() < 0:
        return "There are negative numbers; weights are none."
    sums = value.sum(axis)
    if np.abs(sums - 1).max() > 1e-2:
        at = int(np.abs(sums - 1).argmax())
        return f"A slice along axis {axis} sums to {sums.reshape(-1)[at]:.4g} and not to 1."
    hidden = np.isneginf(case.args[0])
    if (value[hidden] != 0).any():
        return "An entry of -inf has a weight that is not exactly 0."
    if (value[expected == 0] != 0).any():
        return ("An entry far below the largest has a weight, where its exponential vanishes: is something "
                "cut off, or added?")
    with np.errstate(all="ignore"):
        times = _times(np.log(value), case.args[0], axis)
    if times is not None:
        return f"Your weights are those of scores {times:.3g} times as large: are the scores scaled?"
    return None


def _times(logs, x, axis):
    """What the differences of scores within each slice are multiplied by, where it is one number but 1."""
    logs, x = (np.moveaxis(a - a.take([0], axis), axis, -1)[..., 1:] for a in (logs, floats(x)))
    if not x.any() or not (np.isfinite(logs).all() and np.isfinite(x).all()):
        return None
    times = float((logs * x).sum() / (x * x).sum())
    one = np.allclose(logs, times * x, rtol=1e-3, atol=1e-5)
    return times if one and abs(times - 1) > 1e-3 else None


def _by_either_call(function, x, *axis):
    """With the axis in second place, or by its name where a function takes it so alone (a partial, say)."""
    try:
        inspect.signature(function).bind(x, *axis)
    except TypeError:
        return function(x, **dict.fromkeys(("axis",), *axis)) if axis else function(x)
    except ValueError:                       # a function without a signature
        pass
    return function(x, *axis)


softmax = FunctionExercise(
    _softmax, _softmax_cases, _SOFTMAX,
    "Checked along every axis, counted from either end, with scores in the millions of both signs, rows of "
    "very different size, integers with and without a sign, float16, and with entries of -inf. Adding a "
    "number to a whole slice changes nothing, which is why the largest can be subtracted.",
    properties=(in_torch, few_digits, _sums_to_one), drive=_by_either_call,
    styles=({}, {"precision": "given"}, {"precision": "own"}), rtol=1e-4, atol=0.0,
)


# ------------------------------------------------------------------- log_softmax


@np.errstate(all="ignore")
def _log_softmax(x, axis=-1, *, shift="slice", over="axis", base=np.e, sign=1, form="right", precision="wide",
                 result="right"):
    if over == "regrouped":
        return _log_softmax(x.reshape(-1, x.shape[axis])).reshape(x.shape)
    z, axis = _prepared(x, axis, over, precision, np.e, sign)
    shifted = _shift(z, axis, shift)
    e = np.exp(shifted)
    total = e.sum(axis=axis, keepdims=True)
    p = e / total

    def log(a):
        return np.log(a) / np.log(base)

    if form.startswith("least"):
        out = log(np.clip(p, float(form[5:]), 1))
    elif form.startswith("plus"):
        out = log(p + float(form[4:]))
    elif form.startswith("bottom"):
        out = np.maximum(log(p), float(form[6:]))
    else:
        top = z.max(axis=axis, keepdims=True)
        out = {
            "right": lambda: (shifted - np.log(total)) / np.log(base),
            "newaxis": lambda: shifted - np.log(e.sum(axis=axis)[..., None]),
            "pairwise": lambda: _pairwise(z, axis),
            "log_of_softmax": lambda: log(p), "softmax": lambda: p, "negative": lambda: log(total) - shifted,
            "top_forgotten": lambda: z - np.log(total), "top_twice": lambda: shifted - np.log(total) - top,
            "log2_of_sum": lambda: shifted - np.log2(total),
            "log10_of_sum": lambda: shifted - np.log10(total),
            "sum_of_shifted": lambda: shifted - shifted.sum(axis, keepdims=True),
            "normaliser_alone": lambda: top + np.log(total),
            "no_log": lambda: shifted - total, "normaliser": lambda: top + np.log(total) + 0 * z,
            "log1p": lambda: shifted - np.log1p(total),
            "mean": lambda: shifted - np.log(e.mean(axis, keepdims=True)),
            "shifted_only": lambda: shifted, "sum_of_logs": lambda: z - z.sum(axis, keepdims=True),
            "log_scores": lambda: np.log(z) - np.log(z.sum(axis, keepdims=True)),
            "no_keepdims": lambda: shifted - np.log(e.sum(axis=axis)),
            "all": lambda: shifted - np.log(e.sum()),
            "last": lambda: shifted - np.log(e.sum(axis=-1, keepdims=True)),
            "others": lambda: shifted - np.log(total - e), "sigmoid": lambda: -np.logaddexp(0, -z),
            "nan_to_num": lambda: np.nan_to_num(log(p)), "zero_log": lambda: np.where(p > 0, log(p), 0.0),
        }[form]()
    return _put(out, x, axis, result)


def _pairwise(z, axis):
    """Minus the logarithm of the sum of exponentials of what the others lie above each entry."""
    z = np.moveaxis(z, axis, -1)
    return np.moveaxis(-np.log(np.exp(z[..., None, :] - z[..., :, None]).sum(-1)), -1, axis)


_LOG_OF_SOFTMAX = (
    "You take the logarithm of the weights, and a weight that has become 0 has -inf. Write the logarithm of "
    "the quotient as a difference; the exponential of the numerator then goes away."
)
_LOG_SOFTMAX = (
    *_axis_mistakes(_log_softmax),
    Mistake("log_of_softmax", _LOG_OF_SOFTMAX, {"form": "log_of_softmax"}),
    Mistake("log_of_softmax", f"The scores are not shifted either. {_LOG_OF_SOFTMAX}",
            {"form": "log_of_softmax", "shift": "none"}),
    Mistake("overflow", "You take the exponentials of differences to each entry itself, and one to a much "
            "lower entry is infinite. Take them of differences to the largest entry of the slice.",
            dict(form="pairwise"), rare=True),
    *(Mistake("log_of_bounded", "You keep the weights above a small number before the logarithm, so no "
              "result is lower than its logarithm. The logarithm of the quotient is a difference, which "
              "needs no such help.", dict(form=f"{how}{least}"), rare=True)
      for how in ("least", "plus")
      for least in ("1e-300", "1e-45", "1e-38", "1e-30", "1e-20", "1e-16", "1e-15", "1e-12", "1e-10", "1e-9",
                    "1e-8", "1e-7", "1e-6", "2.220446049250313e-16", "2.2250738585072014e-308",
                    "1.1920929e-07", "1.1754944e-38")),
    *(Mistake("infinity_patched", "What has become -inf is replaced by a number. The result has the right "
              "value where it is computed as a difference.", dict(form=how), rare=True)
      for how in ("nan_to_num", "zero_log", "bottom-1000", "bottom-100", "bottom-1e4", "bottom-1e9")),
    *_SHIFTS,
    *_clipped(_log_softmax),
    *(Mistake("clipped", "The differences to the largest score are cut off, so the lowest results are too "
              "high. Their exponentials may vanish; they themselves may not.",
              dict(shift=f"bounded{limit}"), rare=True)
      for limit in (50, 100, 500, 700, 745)),
    Mistake("top_forgotten", "The largest score is subtracted inside the sum of exponentials and not "
            "outside. Both halves of the difference need it.", {"form": "top_forgotten"}),
    Mistake("top_twice", "The largest score is subtracted twice. Which half of the difference has it "
            "already?", dict(form="top_twice"), rare=True),
    Mistake("shift_in_front", "The shift stands in front, and not in the sum: your sum is of the "
            "exponentials of the scores as they were. So every logarithm is off by the largest score, and "
            "the sum overflows as before.", dict(form="top_twice", shift="none"), rare=True),
    Mistake("softmax", "This is the softmax. Its logarithm is asked for.", {"form": "softmax"}),
    Mistake("negative", "The sign is turned round. The logarithm of a weight is not above 0.",
            {"form": "negative"}),
    *(Mistake("other_base", "The logarithm of the sum has another base than the exponentials in it.",
              {"form": f"log{kind}_of_sum"}) for kind in (2, 10)),
    Mistake("no_exponential", "You subtract the sum of the scores. It is the logarithm of the sum of their "
            "exponentials.", dict(form="sum_of_shifted"), rare=True),
    Mistake("normaliser", "This is the logarithm of the sum, and the scores less that are asked for.",
            dict(form="normaliser_alone"), rare=True),
    Mistake("no_log", "You subtract the sum of the exponentials. Subtract its logarithm.",
            dict(form="no_log"), rare=True),
    Mistake("log1p", "There is a 1 too many in the sum under the logarithm. It runs over the entries of "
            "the slice alone.",
            dict(form="log1p"), rare=True),
    Mistake("mean", "You take the mean of the exponentials. Their sum is what each is divided by.",
            dict(form="mean"), rare=True),
    Mistake("normaliser", "This is the logarithm of the sum, and the scores less that are asked for.",
            dict(form="normaliser"), rare=True),
    Mistake("not_normalised", "The largest score is subtracted, and the logarithm of the sum is not.",
            dict(form="shifted_only"), rare=True),
    Mistake("no_exponential", "You subtract the sum of the scores. It is the logarithm of the sum of their "
            "exponentials.", dict(form="sum_of_logs"), rare=True),
    Mistake("no_exponential", "You take the logarithms of the scores. They are logarithms already, up to a "
            "number for each slice.", dict(form="log_scores"), rare=True),
    Mistake("own_term_missing", "Your sum leaves out the entry itself. It runs over all of the slice.",
            dict(form="others"), rare=True),
    Mistake("sigmoid", "Each score has its own sigmoid. In a softmax the scores compete.",
            dict(form="sigmoid"), rare=True),
    Mistake("kept_dimensions", "The sums have lost their axis, so that they are laid along another one, or "
            "fit nowhere. What keeps a reduced axis with length 1?", dict(form="no_keepdims"), rare=True),
    Mistake("sum_over_all", "The sum runs over all numbers. Each slice has its own.",
            dict(form="all"), rare=True),
    Mistake("sum_of_another_axis", "The sum runs over the last axis, whatever axis says. Does axis reach it?",
            {"form": "last"}),
    Mistake("other_base", "Your logarithm has base 2. The natural one is asked for.", {"base": 2.0}),
    Mistake("other_base", "Your logarithm has base 10. The natural one is asked for.", {"base": 10.0}),
    Mistake("sign", "Your largest score gets the smallest value: a sign is turned round.", {"sign": -1}),
    *_PRECISION,
    *(Mistake("rounded", "The result is rounded. Return it with all its digits.",
              dict(result=f"round{digits}"), rare=True) for digits in (2, 3, 4)),
)


def _log_softmax_cases():
    rng = np.random.default_rng(55)
    finite = "The logarithm of a weight is finite, however small the weight. Where is -inf born?"
    return [
        *_inputs(rng, "Compute the three weights first, and then their logarithms. x may have one axis, or "
                 "any number."),
        Case("the scores 0, 50 and -60", (np.array([0.0, 50.0, -60.0]),), hint=finite),
        Case("the scores 0 and 800", (np.array([[0.0, 800.0], [-750.0, 0.0], [0.0, 720.0]]),), hint=finite),
        Case("the scores 1000, 1001 and 999.5", (np.array([1000.0, 1001.0, 999.5]),), hint=_LOSSLESS),
        Case("the scores -1000, -1001 and -999.5", (np.array([-1000.0, -1001.0, -999.5]),), hint=_LOSSLESS),
        Case("rows of very different size",
             (np.array([[0.5, 1.0, -0.5], [-20000.0, -20001.0, -20002.0], [2e6, 2e6 + 1, 2e6 - 1],
                        [300.0, 299.0, 301.5], [0.0, 1e7, -1e7]]),), hint=_LOSSLESS),
        Case("columns of very different size, axis 0",
             (np.array([[0.5, -20000.0, 2e6, -90.0], [1.5, -20001.0, 2e6 + 1, -91.0],
                        [-0.5, -20002.0, 2e6 + 2, -89.5]]), 0), hint=_LOSSLESS),
        Case("scores near a million that differ in their fractions",
             (1e6 + np.array([[0.25, 0.5, -0.3], [1.1, 0.9, 0.7]]),),
             hint="Large scores may differ by little. Are digits lost before the largest is subtracted?"),
        Case("scores 1e30 apart", (np.array([[1e30, 0.0, -1e30], [1.0, -1e20, 2.0]]),), hint=finite),
        Case("integers of 12000", (np.array([[12000, 11999, 0], [-15000, -15001, -15003]]),), hint=_LOSSLESS),
        Case("float32, 300 apart", (np.array([[0, 300, 299], [-200, -1, 0]], np.float32),), hint=finite),
        Case("float16", (np.array([[1.5, -2.0, 0.25], [12.0, 13.0, 11.5]], np.float16),),
             hint="float16 ends at 65504, and exp(11.1) is more."),
    ]


def _logs_of_weights(case, value, expected):
    value = floats(value)
    axis = case.args[1] if len(case.args) > 1 else -1
    if value is None or value.shape != case.args[0].shape:
        return None
    if not np.isfinite(value).all():
        return "There are NaN or infinite numbers."
    if value.max() > 1e-2:
        return "There are results above 0, and the logarithm of a weight is none."
    times = _times(value, case.args[0], axis)
    if times is not None:
        return (f"The differences between your results are {times:.3g} times those between the scores, and "
                "should be the same: are the scores scaled, or is the base of the logarithm another?")
    with np.errstate(all="ignore"):
        sums = np.exp(value).sum(axis)
    if np.abs(sums - 1).max() > 1e-2:
        at = int(np.abs(sums - 1).argmax())
        return f"The exponentials of a slice along axis {axis} sum to {sums.reshape(-1)[at]:.4g}, not to 1."
    return None


log_softmax = FunctionExercise(
    _log_softmax, _log_softmax_cases, _LOG_SOFTMAX,
    "Checked along every axis, counted from either end, with scores that lie 1e30 apart, rows of very "
    "different size, integers, float32 and float16. A weight may vanish; its logarithm does not.",
    properties=(in_torch, few_digits, _logs_of_weights), drive=_by_either_call,
    styles=({}, {"precision": "given"}), rtol=1e-4, atol=2e-6,
)

EXERCISES = (
    Exercise(
        "softmax", "05", softmax,
        (
            "What happens to the quotient when every score of a slice is raised by the same number?",
            "The exponential of a number above 709 is infinite, and of numbers at most 0 it never is. So "
            "take each slice's own largest score away first, along axis, with the axis kept at length 1.",
            "In three lines: x as floating numbers less its maximum along axis; the exponentials of that; "
            "these divided by their sum along axis. -inf needs nothing special, since exp(-inf) is 0.",
        ),
        '''\
import numpy as np


def softmax(x, axis=-1):
    x = x.astype(float)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
''',
        "function",
    ),
    Exercise(
        "log_softmax", "05", log_softmax,
        (
            "What is the logarithm of a quotient? Which of the two parts has an exponential to undo?",
            "log(exp(a) / s) is a - log(s). Only the sum s needs exponentials; a stays as it is and cannot "
            "vanish.",
            "Take each slice's largest score away first, in float64, and call the rest a. The result is a "
            "less the logarithm of the sum of the exponentials of a along axis, with that axis kept at "
            "length 1.",
        ),
        '''\
import numpy as np


def log_softmax(x, axis=-1):
    x = x.astype(float)
    a = x - x.max(axis=axis, keepdims=True)
    return a - np.log(np.exp(a).sum(axis=axis, keepdims=True))
''',
        "function",
    ),
)

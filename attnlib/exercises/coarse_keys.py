"""Keys as codes of a few bits, of lesson 18: four faults of a quantiser."""

from functools import partial

import numpy as np

from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake, rare_but


def _quantise(k, bits, *, group=-2, levels="right", rounding="nearest", zero="least", scale="range",
              constant="kept", kind="uint8", order="right", form="right", depth="right"):  # fmt: skip
    bits = {"right": bits, "eight": 8, "four": 4, "one_more": bits + 1}[depth]
    axis = (-2, -1) if group == "all" else group
    low, top = k.min(axis, keepdims=True), k.max(axis, keepdims=True)
    if scale == "all":
        spread = np.ptp(k) + 0 * low
    elif scale == "largest":
        spread = np.abs(k).max(axis, keepdims=True) + 0 * low
    elif scale == "twice":
        spread = 2 * np.abs(k).max(axis, keepdims=True)
    elif scale == "deviation":
        spread = k.std(axis, keepdims=True)
    elif scale == "top":
        spread = top
    else:
        spread = top - low
    low = {"least": low, "mean": k.mean(axis, keepdims=True), "none": 0 * low, "all": k.min() + 0 * low,
           "centre": (low + top) / 2, "top": top, "negative": -np.abs(k).max(axis, keepdims=True)}[zero]
    steps = {"right": 2**bits - 1, "one_too_many": 2**bits, "half": 2 ** (bits - 1) - 1,
             "half_range": 2 ** (bits - 1), "one_too_few": 2**bits - 2, "bits": bits, "double": 2 * bits,
             "square": bits**2}[levels]
    with np.errstate(all="ignore"):
        step = spread / steps
        if constant == "kept":
            step = np.where(step == 0, 1, step)
        elif constant == "epsilon":
            step = step + 1e-3
        x = (k - low) / step
        if form == "divided_first":
            x = k / step - low
        elif form == "scale_multiplied":
            x = (k - low) * step
        codes = {"nearest": np.round, "down": np.floor, "up": np.ceil,
                 "half_more": lambda x: np.floor(x + 1), "none": lambda x: x}[rounding](x)
        if form == "clipped_early":
            codes = np.clip(codes, 0, 2**bits - 2)
        elif form == "signed":
            codes = codes - 2 ** (bits - 1)
        elif form == "turned_round":
            codes = 2**bits - 1 - codes
        codes = codes.astype(kind)
    if form == "given_back":
        codes = codes * step + low
    elif form == "turned":
        codes = codes.T
    return {"right": (codes, step, low), "swapped": (codes, low, step), "codes": codes,
            "values": codes * step + low, "range": (codes, step, top), "two": (codes, step),
            "inverse": (codes, 1 / step, low)}[order]  # fmt: skip


def _coarse(k, bits, **choices):
    return _restored(partial(_quantise, **choices), k, bits)


def _restored(function, k, bits):
    """The codes, the numbers that they stand for, and how many bytes they take."""
    result = function(k, bits)
    if not isinstance(result, (tuple, list)) or len(result) != 3:
        return result
    codes, scale, zero = (np.asarray(part) for part in result)
    return codes, codes * scale + zero, codes.nbytes


def _cases():
    def made(seed, n, d, size=1.0, **loud):
        k = np.random.default_rng(1850 + seed).normal(size=(n, d)) * size
        for channel, shift in loud.items():
            k[:, int(channel[1:])] += shift
        return k

    few = made(1, 6, 4, c1=9.0)
    flat = made(4, 5, 3)
    flat[:, 1] = 2.5
    levels = np.array([[0.0, -1.0, 5.0], [3.0, 2.0, 5.3], [1.0, 0.0, 5.9], [2.0, 1.0, 5.6]])
    return [
        Case("6 keys of 4 features, one of them loud, in 4 bits", (few, 4),
             hint="Follow one channel on paper. Which of its keys is to get code 0, which the last code, and "
             "what do they get?"),
        Case("the same keys in 2 bits", (few, 2), hint="How many codes are there with two bits, and which is "
             "the largest?"),
        Case("the same keys in 8 bits", (few, 8)),
        Case("keys that lie on the levels of 2 bits", (levels, 2),
             hint="Such keys come back as they were: the least is code 0 and the largest code 3."),
        Case("as many keys as features", (made(2, 5, 5, c0=-7.0, c3=4.0), 4)),
        Case("channels all below zero", (made(3, 7, 3) - 20.0, 4), hint="The least of a channel is its zero, "
             "of whichever sign."),
        Case("a channel in which all keys are the same", (flat, 4),
             hint="Its range is 0. What do you divide by?"),
        Case("two keys", (made(5, 2, 6), 2)),
        Case("a single key", (made(6, 1, 4), 4), hint="Every channel has one number, and it comes back."),
        Case("keys in the thousands", (made(7, 8, 3, 3000.0), 8)),
        Case("keys of a thousandth", (made(8, 8, 3, 1e-3), 4), hint="Is something small added to a scale?"),
        Case("400 keys", (made(9, 400, 3, c2=30.0), 4)),
    ]  # fmt: skip


def _bounds(case, value, expected):
    """What is wrong with a triple: its codes' range, or the distance of what comes back."""
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        return None
    k, bits = case.args
    codes, back = floats(value[0]), floats(value[1])
    if codes is None or back is None or codes.shape != k.shape or back.shape != k.shape:
        return None
    if not np.isfinite(back).all():
        return "There are NaN or infinite numbers: is something divided by a range of 0?"
    if codes.max() > 2**bits - 1 or codes.min() < 0:
        return (f"The codes run from {codes.min():g} to {codes.max():g}; with {bits} bits they may from 0 "
                f"to {2**bits - 1}.")
    off = np.abs(back - k).max(0) - np.ptp(k, axis=0) / (2**bits - 1) / 2
    if off.max() > 1e-6 * max(1, np.abs(k).max()):
        return (f"Channel {int(off.argmax())} comes back farther off than half a step of its range in "
                f"{2**bits - 1} steps.")
    return None


_MISTAKES = (
    Mistake("per_token", "The numbers of a token share a scale. Keys have loud channels: let those of a "
            "channel share one.", {"group": -1}),
    Mistake("one_scale", "All keys share one scale and one zero. Each channel has its own.",
            {"group": "all"}),
    Mistake("one_scale", "All channels share one scale. Each has its own range.", {"scale": "all"}),
    Mistake("one_zero", "All channels share one zero. Each has its own least number.", {"zero": "all"}),
    Mistake("one_too_many", "Your range is cut into 2**bits steps, and that many steps have one level more: "
            "the largest key gets a code that has no room. How many steps lie between 2**bits levels?",
            {"levels": "one_too_many"}),
    Mistake("one_too_few", "Your range is cut into 2**bits - 2 steps. Between 2**bits levels lies one step "
            "more.", {"levels": "one_too_few"}),
    *(Mistake("half_the_levels", "You use half of the codes, as where one bit is kept for the sign. With a "
              "zero of its own no code is negative.", {"levels": levels})
      for levels in ("half", "half_range")),
    *(Mistake("bits_for_levels", "You cut the range by the number of bits. With b bits there are 2 to the b "
              "levels.", {"levels": levels}) for levels in ("bits", "double", "square")),
    Mistake("cut_off", "You cut codes down to whole numbers. A cast does that too. Round to the nearest, and "
            "the error is half as large.", {"rounding": "down"}),
    Mistake("cut_off", "You cut codes down to whole numbers. A cast does that too. Round to the nearest, and "
            "the error is half as large.", {"rounding": "none"}),
    Mistake("rounded_up", "You round codes up. Round to the nearest.", {"rounding": "up"}),
    Mistake("rounded_up", "You add before you cut off, and too much. Round to the nearest.",
            {"rounding": "half_more"}),
    Mistake("not_whole", "Your codes are no whole numbers, and so save no memory.",
            {"rounding": "none", "kind": "float64"}),
    Mistake("zero_not_scaled", "You divide the keys by the scale and subtract the zero then. The zero is a "
            "key's number, not a code's: subtract first.", {"form": "divided_first"}),
    Mistake("zero_of_nothing", "Nothing is subtracted, so the range begins at 0 whatever the channel holds.",
            {"zero": "none"}),
    Mistake("zero_of_nothing", "Nothing is subtracted, and the scale is made of the largest number alone. A "
            "channel may lie below zero, or far above.", {"zero": "none", "scale": "top"}),
    Mistake("zero_is_mean", "Your zero is the mean of a channel, so half of the codes would be negative. "
            "Take the least number.", {"zero": "mean"}),
    Mistake("zero_is_mean", "Your zero is the middle of a channel's range, so half of the codes would be "
            "negative. Take the least number.", {"zero": "centre"}),
    Mistake("zero_is_largest", "Your zero is the largest number of a channel. Take the least.",
            {"zero": "top"}),
    Mistake("symmetric", "Your levels lie evenly about 0, as far as the largest number. A channel far from 0 "
            "then uses few of them: take the range from its least to its largest number.",
            {"zero": "negative", "scale": "twice"}),
    Mistake("scale_of_the_largest", "Your scale is made of the largest size in a channel, where its range is "
            "needed: the largest number minus the least.", {"scale": "largest"}),
    Mistake("scale_of_the_deviation", "Your scale is made of the standard deviation. Numbers beyond it would "
            "need codes that do not exist: take the range.", {"scale": "deviation"}),
    Mistake("scale_padded", "You add something to the scale. Where keys are small it is no longer small: "
            "treat a range of 0 apart.", {"constant": "epsilon"}),
    Mistake("multiplied", "You multiply by the scale. Codes are made by dividing.",
            {"form": "scale_multiplied"}),
    Mistake("last_code_unused", "Your codes are clipped one too low: the largest is 2**bits - 1.",
            {"form": "clipped_early"}),
    Mistake("signed", "Your codes are shifted by half of their number, so that some are negative. Here they "
            "run from 0 on.", {"form": "signed", "kind": "int64"}, convention=True),
    Mistake("turned_round", "Your codes count down from the largest number. The least number is code 0.",
            {"form": "turned_round"}),
    Mistake("bits_ignored", "You use 8 bits whatever is asked for.", {"depth": "eight"}),
    Mistake("bits_ignored", "You use 4 bits whatever is asked for.", {"depth": "four"}),
    Mistake("one_bit_off", "You use one bit more than there are.", {"depth": "one_more"}),
    *(Mistake("codes_too_wide", f"A code of yours takes {size} bytes. It fits into one: np.uint8.",
              {"kind": kind}) for size, kind in ((8, "int64"), (4, "int32"), (2, "int16"))),
    Mistake("scale_and_zero_swapped", "Scale and zero have changed places: codes, scale, zero.",
            {"order": "swapped"}),
    Mistake("codes_alone", "You return the codes alone. Without scale and zero nobody can read them.",
            {"order": "codes"}),
    Mistake("zero_not_returned", "You return codes and scale. The zero is needed too.", {"order": "two"}),
    Mistake("numbers_returned", "You return the numbers that the codes stand for. Return codes, scale and "
            "zero.", {"order": "values"}),
    Mistake("numbers_returned", "In place of the codes you return the numbers that they stand for.",
            {"form": "given_back", "kind": "float64"}),
    Mistake("largest_returned", "As the zero you return the largest number of a channel. It is the least.",
            {"order": "range"}),
    Mistake("scale_inverted", "Your scale is one over what it is to be: codes * scale + zero are the keys.",
            {"order": "inverse"}),
    Mistake("codes_turned", "Your codes have keys and channels exchanged.", {"form": "turned"}),
)  # fmt: skip

quantise_keys = FunctionExercise(
    _coarse, _cases,
    rare_but({"per_token", "one_too_many", "cut_off", "zero_not_scaled", "codes_too_wide"}, _MISTAKES),
    "Checked in 2, 4 and 8 bits, with loud channels, channels below zero and one that never changes. Every "
    "key comes back within half a step of its channel.",
    properties=(_bounds,),
    drive=_restored, rtol=1e-5, atol=1e-9,
)  # fmt: skip

EXERCISES = (
    Exercise(
        "quantise_keys", "18", quantise_keys,
        (
            "Four things are wrong: which numbers share a scale, how many steps the range has, what is done "
            "first, and how codes become whole.",
            "Channels are columns: least and largest along axis -2. Between 4 levels lie 3 steps. A key "
            "minus the zero, then by the scale, then to the nearest whole number.",
            "A channel whose range is 0 would be divided by 0. Put another number in place of that scale: "
            "its codes are 0, and its keys are the zero.",
        ),
        """import numpy as np

def quantise_keys(k, bits):
    zero = k.min(-2, keepdims=True)
    scale = (k.max(-2, keepdims=True) - zero) / (2**bits - 1)
    scale = np.where(scale == 0, 1, scale)
    return np.round((k - zero) / scale).astype(np.uint8), scale, zero""",
        "function",
    ),
)  # fmt: skip

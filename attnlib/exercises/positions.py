"""The exercises of lesson 10: sinusoidal positions, penalties by distance, and positions by rotation."""

import numpy as np

from attnlib.exercises.common import few_digits, in_torch, unpacked
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake


def _exponents(how, pairs, width):
    """What base is raised to, negated, for each pair of features."""
    i = np.arange(pairs, dtype=float)
    return {
        "right": 2 * i / width, "single": i / width, "double": 4 * i / width, "positive": -2 * i / width,
        "from_one": 2 * (i + 1) / width, "endpoint": i / max(pairs - 1, 1), "pairs": i / pairs,
        "reversed": 2 * i[::-1] / width, "none": 0 * i,
        "less_one": 2 * i / max(width - 1, 1), "more_one": 2 * i / (width + 1),
    }[how]


_FREQUENCIES = (
    Mistake("exponent_halved", "Your exponent is i/d where pair number i asks for 2i/d. All frequencies stay "
            "too high: the last one stops at the root of what it should be.", {"exponent": "single"}),
    Mistake("exponent_doubled", "Your exponent is 4i/d, twice what is asked. That happens when the even "
            "numbers 0, 2, 4 are doubled once more, or when half the width is divided by.",
            {"exponent": "double"}),
    Mistake("exponent_sign", "Your frequencies grow from pair to pair. They must fall: the first pair turns "
            "by 1 for each position, the last one hardly.", {"exponent": "positive"}),
    Mistake("pairs_from_one", "You count the pairs from 1. The first pair has exponent 0 and frequency 1.",
            {"exponent": "from_one"}),
    Mistake("exponent_to_the_end", "Your exponents run up to 1, with the last pair at it (one less is "
            "divided by, as in tensor2tensor). Here pair i has 2i/d, which stays below 1.",
            {"exponent": "endpoint"}, convention=True),
    Mistake("one_frequency", "Every pair has frequency 1. Pair i has base to the power -2i/d; is the "
            "division a whole one, without its fraction?", {"exponent": "none"}),
    Mistake("frequencies_reversed", "Your frequencies are in reverse order. The first pair is the fastest.",
            {"exponent": "reversed"}),
)
_BASES = (
    Mistake("base_fixed", "You use 10000, or what an earlier call was given, whatever base says.",
            {"base_is": "fixed"}),
    Mistake("base_default", "Where base is left out you take 1000. Its default is 10000.",
            {"base_is": "default"}),
    Mistake("base_e", "You use e to the power of the exponent, without the logarithm of the base.",
            {"base_is": "e"}),
    Mistake("base_log_ten", "The logarithm of the base has another base than the exponential that undoes it.",
            {"base_is": "log10"}),
    Mistake("base_log_ten", "The logarithm of the base has another base than the exponential that undoes it.",
            {"base_is": "log2"}),
)


def _base(base, base_is):
    return {
        "given": base, "fixed": 10000.0, "default": 1000.0 if base == 10000 else base, "e": np.e,
        "log10": np.exp(np.log10(base)), "log2": np.exp(np.log2(base)),
    }[base_is]


# ------------------------------------------------------------------- sinusoidal


def _sinusoidal(
    n_pos, d_model, base=10000.0, *,
    exponent="right", base_is="given", layout="right", odd="right", place="right", angle="right",
    kind="float", shape="right",
):
    pairs = (d_model + 1) // 2
    if d_model % 2 and (odd == "raises_at_one_too" or (odd.startswith("raises") and d_model > 1)):
        if odd == "raises_in_torch":        # one column fits into none, in torch as in NumPy
            raise RuntimeError(f"The expanded size of the tensor ({pairs - 1}) must match the existing size "
                               f"({pairs}) at non-singleton dimension 1. Target sizes: [{n_pos}, "
                               f"{pairs - 1}]. Tensor sizes: [{n_pos}, {pairs}]")
        raise ValueError(f"could not broadcast input array from shape ({n_pos},{pairs}) into shape "
                         f"({n_pos},{pairs - 1})")
    with np.errstate(all="ignore"):
        base = _base(base, base_is)
        column = np.arange(2 * pairs)
        if exponent == "column":
            powers = column / d_model
        elif exponent == "column_doubled":
            powers = 2 * column / d_model
        elif exponent == "cosine_doubled":
            powers = np.where(column % 2, 2 * column, column) / d_model
        elif exponent == "cosine_of_next":
            powers = (column + column % 2) / d_model
        elif odd in ("less_one", "more_one") and d_model % 2:
            powers = np.repeat(_exponents(odd, pairs, d_model), 2)
        else:
            powers = np.repeat(_exponents(exponent, pairs, d_model), 2)
        start = {"from_one": 1, "right": 0, "reversed": 0, "scaled": 0}[place]
        positions = np.arange(start, n_pos + start, dtype=float)
        if place == "reversed":
            positions = positions[::-1]
        if place == "scaled":
            positions = positions / n_pos
        angles = positions[:, None] / base**powers
    angles = angles * {"right": 1, "degrees": np.pi / 180, "turns": 2 * np.pi, "half_turns": np.pi}[angle]
    if kind == "half":
        angles = angles.astype(np.float16).astype(float)
    elif kind == "integer_angles":
        angles = np.trunc(angles)
    sine, cosine = np.sin(angles), np.cos(angles)
    even = np.arange(2 * pairs) % 2 == 0
    out = {
        "right": lambda: np.where(even, sine, cosine),
        "cosine_first": lambda: np.where(even, cosine, sine),
        "halves": lambda: np.concatenate([sine[:, ::2], cosine[:, ::2]], axis=1),
        "halves_cosine_first": lambda: np.concatenate([cosine[:, ::2], sine[:, ::2]], axis=1),
        "all_sine": lambda: sine,
        "all_cosine": lambda: cosine,
        "by_position": lambda: np.where((np.arange(n_pos) % 2 == 0)[:, None], sine, cosine),
        "angles": lambda: angles,
    }[layout]()
    if layout == "halves" and d_model % 2:
        out = np.concatenate([sine[:, ::2], cosine[:, ::2][:, : d_model // 2]], axis=1)
    if d_model % 2 and odd in ("less", "more"):
        return out[:, : d_model - 1] if odd == "less" else out
    out = out[:, :d_model]
    if d_model % 2 and odd in ("zero", "cosine"):
        out = out.copy()
        out[:, -1] = 0 if odd == "zero" else cosine[:, d_model - 1]
    if kind == "integer":
        out = out.astype(int)
    return {
        "right": lambda: out,
        "transposed": lambda: out.T,
        "batch": lambda: out[None],
        "squeezed": lambda: out.squeeze(),
        "flat_order": lambda: out.T.reshape(out.shape),
        "one_row_more": lambda: _sinusoidal(n_pos + 1, d_model, base),
        "scaled": lambda: out * d_model**0.5,
        "blank_start": lambda: np.concatenate([0 * out[:1], out[1:]]),
        "kept_256": lambda: out[np.arange(n_pos) % 256],
    }[shape]()


_ODD = (
    *(Mistake("odd_width_refused", "Your function cannot make an odd number of columns. There is one more "
              "sine than there are cosines: each kind needs as many columns as it has.", {"odd": how})
      for how in ("raises", "raises_in_torch")),
    Mistake("odd_width_refused", "Your function cannot make an odd number of columns. There is one more sine "
            "than there are cosines: each kind needs as many columns as it has.",
            dict(odd="raises_at_one_too"), rare=True),
    Mistake("odd_width_changed", "With an odd width you drop the last column. It is a sine without a cosine.",
            {"odd": "less"}),
    Mistake("odd_width_changed", "With an odd width you return one column more than asked for. The last "
            "sine has no cosine.", {"odd": "more"}),
    Mistake("odd_column_empty", "With an odd width your last column is 0. It is a sine like the others.",
            {"odd": "zero"}),
    Mistake("odd_column_cosine", "With an odd width your last column is a cosine. Sines come first, so the "
            "column that has no partner is a sine.", {"odd": "cosine"}),
    Mistake("odd_width_rounded", "With an odd width you divide the exponent by an even number. It is d_model "
            "that is divided by, odd or not.", {"odd": "less_one"}),
    Mistake("odd_width_rounded", "With an odd width you divide the exponent by an even number. It is d_model "
            "that is divided by, odd or not.", {"odd": "more_one"}),
)
_SINUSOIDAL = (
    Mistake("halves", "Your sines fill the left half and your cosines the right half, as in tensor2tensor. "
            "Here they take turns: column 2i is a sine, column 2i + 1 its cosine.",
            {"layout": "halves"}, convention=True),
    Mistake("halves", "Your sines and cosines lie in halves, and the exponents run up to 1, as in "
            "tensor2tensor. Here sines and cosines take turns and pair i has the exponent 2i/d.",
            {"layout": "halves", "exponent": "endpoint"}, convention=True),
    Mistake("cosine_first", "Cosines and sines are exchanged. Column 0 is a sine: at position 0 it is 0.",
            {"layout": "cosine_first"}),
    Mistake("cosine_first", "Your cosines fill the left half and your sines the right half. Here they take "
            "turns, and a sine is first.", {"layout": "halves_cosine_first"}),
    Mistake("no_cosine", "All columns are sines. Every second one is a cosine, which tells apart the two "
            "positions at which a sine is the same.", {"layout": "all_sine"}),
    Mistake("no_cosine", "All columns are cosines. Every second one is a sine, and it comes first.",
            {"layout": "all_cosine"}),
    Mistake("rows_take_turns", "Sines and cosines take turns by position. They take turns by column.",
            {"layout": "by_position"}),
    Mistake("no_sine", "These are the angles. Their sines and cosines are asked for.", {"layout": "angles"}),
    Mistake("frequency_per_column", "The cosine has another frequency than the sine before it, because every "
            "column has its own exponent. Both columns of pair i have 2i/d.", {"exponent": "column"}),
    Mistake("frequency_per_column", "Every column number is doubled in the exponent. Both columns of a pair "
            "have one frequency, and the pair's number is half the column's.",
            {"exponent": "column_doubled"}),
    Mistake("frequency_per_column", "The cosine has an exponent that is counted from its own column. It has "
            "the frequency of the sine before it.", {"exponent": "cosine_doubled"}),
    Mistake("frequency_per_column", "The cosine has the frequency of the next pair. It has that of the sine "
            "before it.", {"exponent": "cosine_of_next"}),
    *_FREQUENCIES,
    *_BASES,
    Mistake("positions_from_one", "Your positions count from 1. They count from 0: the first row holds sines "
            "of 0 and cosines of 0.", {"place": "from_one"}),
    Mistake("positions_reversed", "Your positions run backwards. The first row is position 0.",
            {"place": "reversed"}),
    Mistake("positions_scaled", "Your positions are divided by their number. Then a text of another length "
            "gets other vectors at the same place.", {"place": "scaled"}),
    Mistake("degrees", "Your angles are taken for degrees. np.sin takes radians, and the formula means them.",
            {"angle": "degrees"}),
    Mistake("extra_pi", "Your angles have an extra factor 2 pi. The formula has none.", {"angle": "turns"}),
    Mistake("extra_pi", "Your angles have an extra factor pi. The formula has none.",
            {"angle": "half_turns"}),
    *_ODD,
    Mistake("half_precision", "The angles are held in half precision, which has three digits: position 1001 "
            "cannot be told from its neighbours.", {"kind": "half"}),
    Mistake("angles_whole", "The angles lose their fractions, because they are held in an array of integers.",
            {"kind": "integer_angles"}),
    Mistake("integers", "The result is made of integers, so that every sine between -1 and 1 becomes 0.",
            {"kind": "integer"}),
    Mistake("transposed", "Rows and columns are exchanged. A position is a row.", {"shape": "transposed"}),
    Mistake("extra_axis", "The result has an axis for a batch in front. (n_pos, d_model) is asked for.",
            {"shape": "batch"}),
    Mistake("squeezed", "An axis of length 1 is lost. With one position or one column there are still two "
            "axes.", {"shape": "squeezed"}),
    Mistake("reshaped_to_interleave", "The columns were put together the wrong way round and then "
            "relabelled, so positions are mixed. Which axis runs fastest in a reshape?",
            {"shape": "flat_order"}),
    Mistake("rows_counted", "There is one row too many. Position n_pos - 1 is the last.",
            {"shape": "one_row_more"}),
    Mistake("scaled", "The result is multiplied by the root of d_model. That belongs to the embeddings, "
            "which meet these vectors later.", {"shape": "scaled"}),
    Mistake("position_zero_blank", "The row of position 0 is set to zeros. It is a position like the others, "
            "and its cosines are 1.", {"shape": "blank_start"}),
    Mistake("positions_wrap", "Your positions start again at 0 after 255: they are held in eight bits.",
            {"shape": "kept_256"}),
)


def _sinusoidal_cases():
    odd = "Column 2i + 1 exists only while it is below d_model. How many sines are there, how many cosines?"
    return [
        Case("5 positions and width 8", (5, 8), hint="Write down one row by hand: position 1."),
        Case("9 positions and width 4", (9, 4), hint="Another width came before: is something kept of it?"),
        Case("4 positions and width 4", (4, 4), hint="Which axis is which, when both are as long?"),
        Case("6 positions, width 6 and base 100", (6, 6, 100.0), hint="Does base reach the formula?"),
        Case("5 positions, width 8 and base 50", (5, 8, 50.0),
             hint="The sizes were there before, with another base: is a table kept?"),
        Case("4 positions and width 7", (4, 7), hint=odd),
        Case("7 positions and width 3", (7, 3), hint=odd),
        Case("width 2", (6, 2)),
        Case("one column", (5, 1), hint=odd),
        Case("one position", (1, 6), hint="It is position 0: zeros and ones, in one row."),
        Case("one position and one column", (1, 1)),
        Case("60 positions and width 12", (60, 12)),
        Case("2500 positions and width 2", (2500, 2), hint="No position is too far."),
    ]


def _unit_pairs(case, value, expected):
    value = floats(value)
    if value is None or value.ndim != 2:
        return None
    pairs = value[:, 0 : value.shape[1] // 2 * 2 : 2] ** 2 + value[:, 1::2] ** 2
    if not np.isfinite(value).all():
        return "There are NaN or infinite numbers."
    if pairs.size and np.abs(pairs - 1).max() > 1e-2:
        row, pair = np.unravel_index(np.abs(pairs - 1).argmax(), pairs.shape)
        return (f"In row {row}, the squares of columns {2 * pair} and {2 * pair + 1} sum to "
                f"{pairs[row, pair]:.3g}; a sine and a cosine of one angle make 1.")
    return None


def _first_call(case, value, expected):
    """Where frequencies are kept, they are those of the first case."""
    value, width = floats(value), case.args[1]
    if value is None or width >= 8:
        return None
    if value.shape == expected.shape and np.allclose(value, _sinusoidal(case.args[0], 8)[:, :width]):
        return "The frequencies are those of width 8, which came first: is something of that call kept?"
    return None


def _pair_by_pair(case, value, expected):
    """Which pair turns by another angle, at the first position where one does."""
    value = floats(value)
    if value is None or value.shape != expected.shape or value.shape[1] < 2:
        return None
    even = value.shape[1] // 2 * 2
    got, wanted = (np.arctan2(a[:, :even:2], a[:, 1:even:2]) for a in (value, expected))
    off = np.abs(np.angle(np.exp(1j * (got - wanted)))) > 1e-3
    if not off.any():
        return None
    row, pair = np.argwhere(off)[0]
    if row == 1:
        return (f"At position 1, pair {pair} turns by {got[1, pair]:.4g} and should turn by "
                f"{wanted[1, pair]:.4g}, its frequency. What is its exponent?")
    return f"Pair {pair} turns by another angle at position {row}, for the first time."


sinusoidal = FunctionExercise(
    _sinusoidal, _sinusoidal_cases, _SINUSOIDAL,
    "Checked with even and odd widths down to one column, with other bases, with one position and with "
    "2500. Each pair of columns is a hand that turns, and each one turns slower than the pair before it.",
    properties=(in_torch, few_digits, _first_call, _unit_pairs, _pair_by_pair), rtol=1e-4, atol=2e-4,
)


# ------------------------------------------------------------------- alibi


def _alibi(
    n_heads, n_query, n_key, *,
    slope="right", order="right", distance="right", sign=-1, align="end", own=0, later="same",
    lengths="right", shape="right", kind="float",
):
    h = np.arange(1, n_heads + 1, dtype=float)
    slopes = {
        "right": lambda: 2.0 ** (-8 * h / n_heads),
        "from_zero": lambda: 2.0 ** (-8 * (h - 1) / n_heads),
        "halved": lambda: 2.0**-h,
        "no_eight": lambda: 2.0 ** (-h / n_heads),
        "no_heads": lambda: 2.0 ** (-8 * h),
        "inverse": lambda: 2.0 ** (-8 / h),
        "upside_down": lambda: 2.0 ** (8 * h / n_heads),
        "per_eight": lambda: 2.0 ** (-h / 8),
        "base_e": lambda: np.exp(-8 * h / n_heads),
        "exponent": lambda: 8 * h / n_heads,
        "linear": lambda: h / n_heads,
        "shares": lambda: 1 / h,
        "one": lambda: np.full(n_heads, 2.0 ** (-8 / n_heads)),
        "none": lambda: np.ones(n_heads),
        "whole": lambda: 2.0 ** (-8 * h // n_heads),
    }[slope]()
    slopes = slopes[::-1] if order == "reversed" else slopes
    if lengths == "queries":
        n_key = n_query
    elif lengths == "keys":
        n_query = n_key
    start = {"end": n_key - n_query, "start": 0, "other_way": n_query - n_key}[align]
    i, j = np.arange(n_query)[:, None] + start, np.arange(n_key)[None, :]
    d = np.abs(i - j) + own
    d = {
        "right": lambda: d, "signed": lambda: i - j, "key": lambda: -(j + 0 * i),
        "square": lambda: d**2, "root": lambda: np.sqrt(d), "log": lambda: np.log1p(d),
        "share": lambda: d / n_key, "clipped": lambda: np.minimum(d, 1), "query": lambda: i + 0 * j,
    }[distance]().astype(float)
    out = sign * slopes[:, None, None] * d
    if later != "same":
        out = np.where(j > i, {"hidden": -np.inf, "large": -1e9, "free": 0.0}[later], out)
    if kind == "integer":
        out = out.astype(int)
    elif kind == "half":
        out = out.astype(np.float16).astype(float)
    return {
        "right": lambda: out,
        "transposed": lambda: out.swapaxes(1, 2),
        "heads_last": lambda: np.moveaxis(out, 0, -1),
        "heads_second": lambda: out.swapaxes(0, 1),
        "squeezed": lambda: out.squeeze(),
        "batch": lambda: out[None],
        "one_row": lambda: out[:, -1:],
        "one_head": lambda: out[0],
        "factors": lambda: np.exp(out),
        "weights": lambda: np.exp(out) / np.exp(out).sum(-1, keepdims=True),
        "slopes": lambda: slopes,
        "zeros": lambda: 0 * out,
    }[shape]()


_LARGE = ("Later keys are hidden in yours. That is a mask's work, as in lesson 08; here they get their "
          "penalty like the earlier ones, so that an encoder can use it too.")
_SLOPES = (
    Mistake("heads_from_zero", "You count the heads from 0, so the first slope is 1. They count from 1: of "
            "eight heads the first has 1/2.", {"slope": "from_zero"}),
    Mistake("slopes_halve", "Each of your slopes is half of the one before, however many heads there are. "
            "That is so for eight. The exponent is 8h over the number of heads.", {"slope": "halved"}),
    Mistake("no_eight", "The 8 is missing in your exponent: the last slope is 1/2 and should be 1/256.",
            {"slope": "no_eight"}),
    Mistake("heads_not_divided", "Your exponent is not divided by the number of heads. The last slope is "
            "1/256 for any number.", {"slope": "no_heads"}),
    Mistake("head_divides", "The head's number divides your exponent. It multiplies: slopes fall from head "
            "to head.", {"slope": "inverse"}),
    Mistake("heads_and_eight", "The 8 and the number of heads have changed places in your exponent. For "
            "eight heads nobody sees it.", {"slope": "per_eight"}),
    Mistake("slopes_grow", "Your slopes grow beyond 1: the minus sign in the exponent is missing.",
            {"slope": "upside_down"}),
    Mistake("base_e", "Your slopes are powers of e. They are powers of 2.", {"slope": "base_e"}),
    Mistake("exponent_as_slope", "You take the exponent for the slope. It is what 2 is raised to, with a "
            "minus sign.", {"slope": "exponent"}),
    Mistake("slopes_not_powers", "Your slopes go in equal steps, h / n_heads. They are powers of 2, so that "
            "each head sees a fixed number of times as far as the one before.", {"slope": "linear"}),
    Mistake("slopes_not_powers", "Your slopes are 1/h. They are powers of 2, so that each head sees a fixed "
            "number of times as far as the one before.", {"slope": "shares"}),
    Mistake("same_for_all_heads", "All heads have the same slope. Each has its own: some are near-sighted "
            "and some see far.", {"slope": "one"}),
    Mistake("no_slope", "That is the distance without a slope, the same for all heads.", {"slope": "none"}),
    Mistake("whole_exponents", "Your exponents are whole numbers: the division drops the fraction. With "
            "sixteen heads every second exponent has one half.", {"slope": "whole"}),
    Mistake("slopes_reversed", "Your slopes are in reverse order. The first head has the steepest.",
            {"order": "reversed"}),
)
_ALIBI = (
    Mistake("bonus", "Your bias grows with the distance, so far keys gain. It is added to the scores, and a "
            "penalty that is added is negative.", {"sign": 1}),
    Mistake("align_start", "You place query 0 at key 0. Here the last query stands at the last key, as when "
            "earlier keys come from a cache; with as many queries as keys there is no difference.",
            {"align": "start"}, convention=True),
    Mistake("offset_sign", "The queries are moved the wrong way: with fewer queries than keys the first one "
            "stands before all keys. The last query belongs at the last key.", {"align": "other_way"}),
    Mistake("later_rewarded", "Keys after the query get a bonus: i - j changes its sign there. A distance is "
            "never negative.", {"distance": "signed"}),
    Mistake("later_rewarded", "Keys before the query get a bonus, and later ones a penalty: the difference "
            "has no absolute value, and its sign is turned round.", {"distance": "signed", "sign": 1}),
    Mistake("key_alone", "Your bias depends on the key alone, slope times j, as in BLOOM's and Falcon's "
            "code. Under a causal mask the softmax cannot tell it from this one. Here the distance is asked "
            "for, and it holds without a mask too.", {"distance": "key"}, convention=True),
    Mistake("key_alone", "Your penalty grows with the key's number and not with the distance: the first key "
            "is cheapest, wherever the query stands.", {"distance": "key", "sign": 1}),
    Mistake("query_alone", "Your penalty depends on the query alone. It is the same for all keys, so the "
            "softmax does not notice it.", {"distance": "query"}),
    Mistake("hidden_later", _LARGE, {"later": "hidden"}, convention=True),
    Mistake("hidden_later", _LARGE, {"later": "large"}, convention=True),
    Mistake("later_free", "Keys after the query cost nothing in yours. Without a mask they would win; here "
            "they cost as much as earlier ones at the same distance.", {"later": "free"}),
    *_SLOPES,
    Mistake("squared", "You square the distance. The penalty is linear: that is the L in ALiBi.",
            {"distance": "square"}),
    Mistake("not_linear", "You take the root of the distance. The penalty is linear: that is the L in ALiBi.",
            {"distance": "root"}),
    Mistake("not_linear", "You take a logarithm of the distance. The penalty is linear: that is the L in "
            "ALiBi.", {"distance": "log"}),
    Mistake("share_of_length", "You divide the distance by the number of keys. Then one step back costs "
            "less in a longer text, and nothing is learned about it for other lengths.",
            {"distance": "share"}),
    Mistake("clipped", "All distances count as 1. Each step costs one slope more.", {"distance": "clipped"}),
    Mistake("own_key_pays", "Your distances are one too large: a query at its own key pays nothing.",
            {"own": 1}),
    Mistake("square_only", "You count the queries twice: there are n_query rows and n_key columns.",
            {"lengths": "queries"}),
    Mistake("square_only", "You count the keys twice: there are n_query rows and n_key columns.",
            {"lengths": "keys"}),
    Mistake("transposed", "Queries and keys are exchanged. A row is a query.", {"shape": "transposed"}),
    Mistake("heads_last", "The heads are your last axis. They are the first: (n_heads, n_query, n_key).",
            {"shape": "heads_last"}),
    Mistake("heads_last", "The heads are your second axis. They are the first: (n_heads, n_query, n_key).",
            {"shape": "heads_second"}),
    Mistake("squeezed", "An axis of length 1 is lost. With one head or one query there are still three axes.",
            {"shape": "squeezed"}),
    Mistake("extra_axis", "The result has an axis for a batch in front. (n_heads, n_query, n_key) is asked "
            "for.", {"shape": "batch"}),
    Mistake("one_row", "That is the bias of the last query alone. Each query has a row.",
            {"shape": "one_row"}),
    Mistake("one_head", "That is the bias of the first head alone. Each head has a table.",
            {"shape": "one_head"}),
    Mistake("factors", "You return the exponential of the bias, what a weight is multiplied by. The bias is "
            "added to scores, before the softmax.", {"shape": "factors"}),
    Mistake("weights", "You return weights. The bias is asked for, which is added to scores before the "
            "softmax.", {"shape": "weights"}),
    Mistake("slopes_alone", "Those are the slopes. Each is multiplied by all distances.",
            {"shape": "slopes"}),
    Mistake("nothing", "All numbers are 0, so no key pays for its distance.", {"shape": "zeros"}),
    Mistake("integers", "The result is made of whole numbers, so that small penalties become 0.",
            {"kind": "integer"}),
)


def _alibi_cases():
    end = "The last query stands at the last key. At which place is query 0?"
    return [
        Case("8 heads, 5 queries and 5 keys", (8, 5, 5), hint="Write down the first head: its slope is 1/2."),
        Case("4 heads, 3 queries and 6 keys", (4, 3, 6), hint=end),
        Case("2 heads, 4 queries and 4 keys", (2, 4, 4), hint="What are the slopes of two heads?"),
        Case("16 heads, 2 queries and 3 keys", (16, 2, 3), hint="The exponents go in steps of one half."),
        Case("2 heads, 2 queries and 2 keys", (2, 2, 2), hint="Which axis is which, when all are as long?"),
        Case("4 heads, 5 queries and 3 keys", (4, 5, 3), hint=end),
        Case("one head", (1, 4, 7), hint="Its slope is 1/256."),
        Case("one query, as in a decoder's step", (4, 1, 6), hint=end),
        Case("one head, one query and one key", (1, 1, 1)),
        Case("2 heads, 2 queries and 300 keys", (2, 2, 300), hint="No distance is too far."),
    ]


def _own_key_free(case, value, expected):
    value = floats(value)
    if value is None or value.shape != expected.shape:
        return None
    if not np.isfinite(value).all():
        return "There are NaN or infinite numbers."
    if np.abs(value[expected == 0]).max(initial=0) > 1e-6:
        return "A query at its own key has distance 0 and pays nothing; yours pays."
    if (value > 0).any():
        later = np.triu(np.ones(value.shape[1:], bool), value.shape[2] - value.shape[1] + 1)
        if not (value > 0)[:, ~later].any():
            return "Keys after their query get a bonus. A distance is never negative."
        return "Some numbers are positive. A penalty that is added is negative."
    head, query, key = np.unravel_index(np.abs(value - expected).argmax(), value.shape)
    return (f"Head {head + 1}, query {query}, key {key}: yours is {value[head, query, key]:.4g} and should "
            f"be {expected[head, query, key]:.4g}. Which factor is off, the slope or the distance?")


alibi = FunctionExercise(
    _alibi, _alibi_cases, _ALIBI,
    "Checked with one to sixteen heads, with as many queries as keys, with fewer and with more, and with one "
    "query, as in a decoder's step. No place enters it, only distances: that is why it can be made for any "
    "length, and why it cannot prefer the third word back to the second.",
    properties=(in_torch, few_digits, _own_key_free), rtol=1e-4, atol=1e-7,
)


# ------------------------------------------------------------------- rope


def _rope(
    x, positions, base=10000.0, *,
    exponent="right", base_is="given", place="right", pairs="interleaved", turn="right", angle="right",
    precision="wide", axis=-2, order="right", cut=None, memory="right",
    result=None,
):
    import torch

    if memory == "view" and not x.is_contiguous():
        raise RuntimeError("view size is not compatible with input tensor's size and stride (at least one "
                           "dimension spans across two contiguous subspaces). Use .reshape(...) instead.")
    if memory in ("three_axes", "four_axes") or (memory == "axes_kept" and x.ndim > 4):
        unpacked(x.shape, 3 if memory == "three_axes" else 4)
    x = x.squeeze() if memory == "squeezed" else x
    width, half, base = x.shape[-1], x.shape[-1] // 2, _base(base, base_is)
    if exponent in ("column", "column_doubled"):
        powers = np.arange(width) / width * (2 if exponent == "column_doubled" else 1)
    else:
        powers = _exponents(exponent, half, width)
        powers = np.tile(powers, 2) if pairs in _TILED else powers.repeat(2)
    angles = _places(positions.numpy().astype(float), place)[:, None] * base**-powers
    angles = angles * {"right": 1, "degrees": np.pi / 180, "turns": 2 * np.pi, "half_turns": np.pi,
                       "into_degrees": 180 / np.pi}[angle]
    if precision == "half" or (precision == "of_x" and x.dtype == torch.float16):
        angles = angles.astype(np.float16).astype(float)
    elif precision == "bfloat":
        angles = torch.from_numpy(angles).bfloat16().double().numpy()
    cos, sin = np.cos(angles), np.sin(angles)
    if turn == "swapped":
        cos, sin = sin, cos
    elif turn == "clockwise":
        sin = -sin
    if axis == "third_of_four":
        axis = -3 if x.ndim == 4 else -2
    if axis != -2 and x.ndim >= abs(axis):
        at = axis % x.ndim
        if at >= x.ndim - 1 or x.shape[at] != len(positions):
            raise RuntimeError("The size of tensor a must match the size of tensor b")
        shape = [1] * x.ndim
        shape[at], shape[-1] = len(positions), width
        cos, sin = cos.reshape(shape), sin.reshape(shape)
    tracked = x.requires_grad and cut != "all"
    wide = x.double() if tracked else x.detach().double().numpy()       # NumPy is quicker, without gradients
    if tracked and cut in ("odd", "even"):
        one, two = wide[..., ::2], wide[..., 1::2]
        wide = _side_by_side(torch, one if cut == "odd" else one.detach(),
                             two if cut == "even" else two.detach())
    cos, sin = (torch.from_numpy(a) if tracked else a for a in (cos, sin))
    lib = torch if tracked else np
    out = _turned(lib, wide, cos, sin, pairs, turn)
    if turn == "first_half":
        half = half - half % 2 or width
        out = lib.concatenate([out[..., :half], wide[..., half:]], -1)
    if tracked and cut in ("odd_out", "even_out"):
        one, two = out[..., ::2], out[..., 1::2]
        out = _side_by_side(lib, one if cut == "odd_out" else one.detach(),
                            two if cut == "even_out" else two.detach())
    if order == "split":
        out = lib.concatenate([out[..., ::2], out[..., 1::2]], -1)
    elif order == "exchanged":
        out = _side_by_side(lib, out[..., 1::2], out[..., ::2])
    if pairs == "halves_in_pairs_out":
        out = _side_by_side(lib, out[..., :half], out[..., half:])
    kind = x.dtype if result is None else getattr(torch, result)
    if memory == "axes_kept" and out.ndim < 4:
        out = out.reshape((1,) * (4 - out.ndim) + out.shape)
    return (out if tracked else torch.from_numpy(out)).to(kind)


_TILED = ("halves", "halves_in_pairs_out", "tiled")


def _side_by_side(lib, first, second):
    return lib.stack([first, second], -1).reshape(*first.shape[:-1], -1)


def _turned(lib, x, cos, sin, pairs, turn):
    half = x.shape[-1] // 2
    by_halves = pairs in ("halves", "halves_repeated", "halves_in_pairs_out")
    one, two = (slice(half), slice(half, None)) if by_halves else (slice(0, None, 2), slice(1, None, 2))
    first, second = x[..., one], x[..., two]
    c1, c2, s1, s2 = cos[..., one], cos[..., two], sin[..., one], sin[..., two]
    ways = {
        "unchanged": lambda: (first + 0 * c1, second + 0 * c2),
        "first_only": lambda: (first * c1 - second * s1, second),
        "second_only": lambda: (first, first * s2 + second * c2),
        "sequential": lambda: (first * c1 - second * s1, (first * c1 - second * s1) * s2 + second * c2),
        "sequential_second": lambda: (first * c1 - (first * s2 + second * c2) * s1, first * s2 + second * c2),
        "added": lambda: (first + s1, second + c2),
        "multiplied": lambda: (first * s1, second * c2),
        "cosine_only": lambda: (first * c1, second * c2),
        "two_plus": lambda: (first * c1 + second * s1, first * s2 + second * c2),
        "two_minus": lambda: (first * c1 - second * s1, first * s2 - second * c2),
        "mirrored": lambda: (first * c1 + second * s1, first * s2 - second * c2),
        "minus_first": lambda: (second * s1 - first * c1, first * s2 + second * c2),
        "features_crossed": lambda: (first * c1 - second * s1, second * s2 + first * c2),
        "not_exchanged": lambda: (first * (c1 - s1), second * (c2 + s2)),
    }
    turned = ways.get(turn, lambda: (first * c1 - second * s1, first * s2 + second * c2))()
    return lib.concatenate(turned, -1) if by_halves else _side_by_side(lib, *turned)


def _places(p, place):
    return {
        "right": lambda: p, "counted": lambda: np.arange(len(p)), "from_one": lambda: p + 1,
        "less_one": lambda: p - 1, "absolute": lambda: abs(p), "clamped": lambda: p.clip(0),
        "from_first": lambda: p - p[0], "from_smallest": lambda: p - p.min(),
        "sorted": lambda: np.sort(p), "reversed": lambda: p[::-1],
        "offset": lambda: np.arange(len(p)) + p[0], "first": lambda: p[:1].repeat(len(p)),
        "wrapped": lambda: p % (max(p.max(), 0) + 1),
        "wrapped_abs": lambda: p % (abs(p).max() + 1), "wrapped_2048": lambda: p % 2048,
        "cut_2048": lambda: p.clip(max=2047),
    }[place]()


_PAIRS = (
    Mistake("rotate_half", "Your pairs are (x[i], x[i + d/2]), as in Hugging Face's rotate_half. Here the "
            "features of a pair are neighbours, (x[2i], x[2i + 1]), as in Meta's code. A checkpoint for one "
            "is garbage for the other.", {"pairs": "halves"}, convention=True),
    Mistake("angles_tiled", "The features are paired as neighbours and the angles are laid out for halves, "
            "so that the two of a pair turn by different angles. Each angle must stand there twice in a row.",
            {"pairs": "tiled"}),
    Mistake("angles_repeated", "The angles are laid out for neighbours and the features are paired as "
            "halves. Features 2i and 2i + 1 are a pair.", {"pairs": "halves_repeated"}),
    Mistake("output_order", "The rotation is right, and the features come out in another order: first all "
            "even ones, then all odd ones. Feature j must stay in column j.", {"order": "split"}),
    Mistake("output_exchanged", "The two features of each pair come out exchanged. Feature j must stay in "
            "column j.", {"order": "exchanged"}),
    Mistake("pairs_from_halves", "Your pairs are (x[i], x[i + d/2]), and they come out as neighbours. "
            "Features 2i and 2i + 1 are a pair, and stay where they were.",
            {"pairs": "halves_in_pairs_out"}),
)
_TURNS = (
    Mistake("clockwise", "You rotate clockwise: the signs of the sines are the other way round. Look at "
            "where (1, 0) goes; it should go to (cos, sin). Scores only see differences of positions, so "
            "that no training would show it.", {"turn": "clockwise"}),
    Mistake("two_plus", "Both of your lines add, and a rotation needs one minus sign: x[2i] cos - x[2i + 1] "
            "sin.", {"turn": "two_plus"}),
    Mistake("two_minus", "Both of your lines subtract. The second one adds.", dict(turn="two_minus"),
            rare=True),
    Mistake("mirrored", "Your pairs are mirrored and not rotated: at position 0 the second feature changes "
            "its sign. Which of the four products has the minus?", {"turn": "mirrored"}),
    Mistake("mirrored", "Your pairs are mirrored and not rotated: at position 0 the first feature changes "
            "its sign. Which of the four products has the minus?", dict(turn="minus_first"), rare=True),
    Mistake("cos_sin_exchanged", "Sine and cosine are exchanged. At position 0 nothing may change.",
            {"turn": "swapped"}),
    Mistake("sequential", "The second feature is computed from the first one's new value. Both lines need "
            "the old values.", {"turn": "sequential"}),
    Mistake("sequential", "The first feature is computed from the second one's new value. Both lines need "
            "the old values.", dict(turn="sequential_second"), rare=True),
    Mistake("added", "You add sines and cosines to x, as the 2017 paper does with its positions. Here x is "
            "rotated.", {"turn": "added"}),
    Mistake("multiplied", "You multiply x by sines and cosines feature by feature. A rotation mixes the two "
            "features of a pair.", dict(turn="multiplied"), rare=True),
    Mistake("unchanged", "x comes back as it was. Only at position 0 nothing turns.",
            dict(turn="unchanged"), rare=True),
    Mistake("half_a_rotation", "Only the cosine's part is there. What the other feature of the pair gives is "
            "missing.", dict(turn="cosine_only"), rare=True),
    Mistake("half_a_rotation", "Only the first feature of each pair is rotated. The second one changes too.",
            dict(turn="first_only"), rare=True),
    Mistake("half_a_rotation", "Only the second feature of each pair is rotated. The first one changes too.",
            dict(turn="second_only"), rare=True),
    Mistake("features_crossed", "The second line has its features exchanged: x[2i] goes with the sine, "
            "x[2i + 1] with the cosine.", dict(turn="features_crossed"), rare=True),
    Mistake("partner_missing", "Each feature meets its own sine instead of its partner's: the two features "
            "of a pair are not mixed.", dict(turn="not_exchanged"), rare=True),
    Mistake("first_half_only", "Only the first half of the features is rotated. All pairs are.",
            dict(turn="first_half"), rare=True),
)
_PLACES = (
    Mistake("positions_ignored", "You count the positions yourself, from 0. They are given: a text that "
            "continues does not begin at 0.", {"place": "counted"}),
    Mistake("positions_ignored", "You take the first position and count on from it. Positions need not "
            "follow one another.", dict(place="offset"), rare=True),
    Mistake("one_position_for_all", "The first position is used for all tokens. Each has its own.",
            dict(place="first"), rare=True),
    Mistake("positions_shifted", "You add 1 to the positions. At position 0 nothing turns.",
            {"place": "from_one"}),
    Mistake("positions_shifted", "You take 1 from the positions. At position 0 nothing turns.",
            dict(place="less_one"), rare=True),
    Mistake("sign_of_position_lost", "A negative position turns as if it were positive. It turns the other "
            "way.", {"place": "absolute"}),
    Mistake("positions_clamped", "Negative positions are taken for 0. Any integer is valid.",
            {"place": "clamped"}),
    Mistake("positions_clamped", "Large positions are cut off. Any integer is valid.",
            dict(place="cut_2048"), rare=True),
    Mistake("positions_relative", "The first position is subtracted from all. The angles follow the "
            "positions as they are given.", {"place": "from_first"}),
    Mistake("positions_relative", "The smallest position is subtracted from all. The angles follow the "
            "positions as they are given.", dict(place="from_smallest"), rare=True),
    Mistake("positions_sorted", "The positions are sorted, or made unique, and no longer belong to their "
            "tokens.", dict(place="sorted"), rare=True),
    Mistake("positions_reversed", "The positions run backwards. Row l turns by positions[l].",
            {"place": "reversed"}),
    Mistake("table_wraps", "You look the angles up in a table, where a negative position counts from the "
            "table's end. Compute the angles from the positions, or shift the table.",
            dict(place="wrapped"), rare=True),
    Mistake("table_wraps", "You look the angles up in a table, where a negative position counts from the "
            "table's end. Compute the angles from the positions, or shift the table.",
            dict(place="wrapped_abs"), rare=True),
    Mistake("table_too_short", "You take the positions modulo the length of a table. Any integer is valid.",
            dict(place="wrapped_2048"), rare=True),
)
_ROPE = (
    *(Mistake("dtype", "The numbers are right, and the type is not x's: a float64 or float16 x becomes "
              "another. What in your function has a type of its own?", dict(result=kind), rare=True)
      for kind in ("float32", "float64")),
    *_PAIRS,
    *_TURNS,
    Mistake("frequency_per_feature", "The two features of a pair turn by different angles, because each one "
            "has its own exponent. Both have 2i/d.", {"exponent": "column"}),
    Mistake("frequency_per_feature", "The two features of a pair turn by different angles, because each one "
            "has its own exponent. Both have 2i/d.", {"exponent": "column_doubled"}),
    *_FREQUENCIES,
    *_BASES,
    *_PLACES,
    Mistake("degrees", "Your angles are taken for degrees. torch.cos takes radians, and the formula means "
            "them.", {"angle": "degrees"}),
    Mistake("degrees", "Your angles are turned into degrees. The formula means radians, and torch.cos "
            "takes them.",
            {"angle": "into_degrees"}),
    Mistake("extra_pi", "Your angles have an extra factor 2 pi. The formula has none.",
            dict(angle="turns"), rare=True),
    Mistake("extra_pi", "Your angles have an extra factor pi. The formula has none.",
            dict(angle="half_turns"), rare=True),
    Mistake("half_precision", "The angles are held in half precision, which has three digits: at position "
            "300 they are off by a tenth. Compute angles in float32 at least, and round their sines and "
            "cosines.",
            dict(precision="half"), rare=True),
    Mistake("half_precision", "The angles are held in bfloat16, which has two digits. Compute angles in "
            "float32 at least, and round their sines and cosines.", dict(precision="bfloat"), rare=True),
    Mistake("half_precision", "The angles are held in x's type, and float16 has three digits: at position "
            "300 they are off by a tenth. Compute angles in float32 at least, and round their sines and "
            "cosines.",
            dict(precision="of_x"), rare=True),
    Mistake("length_axis", "Your positions run along the third axis from the end. The length is the second "
            "from the end.", dict(axis=-3), rare=True),
    Mistake("length_axis", "With four axes your positions run along the third from the end. The length is "
            "the second from the end.", dict(axis="third_of_four"), rare=True),
    Mistake("length_axis", "Your positions run along axis 1. The length is the second axis from the end, "
            "however many stand before it.", dict(axis=1), rare=True),
    Mistake("length_axis", "Your positions run along axis 0. The length is the second axis from the end, "
            "however many stand before it.", dict(axis=0), rare=True),
    Mistake("axes_fixed", "Your function takes x with four axes only. Any number may stand before (L, d).",
            dict(memory="four_axes"), rare=True),
    Mistake("axes_added", "The result has more axes than x: those that you put in front are still there. It "
            "has the shape of x.", dict(memory="axes_kept"), rare=True),
    Mistake("axes_fixed", "Your function takes x with three axes only. Any number may stand before (L, d).",
            dict(memory="three_axes"), rare=True),
    Mistake("squeezed", "An axis of length 1 is lost. The result has the shape of x.",
            dict(memory="squeezed"), rare=True),
    Mistake("view_of_transposed", "View needs memory in the order of the axes, and a transposed tensor is "
            "not. What copies where it must?", dict(memory="view"), rare=True),
    Mistake("no_gradient", "The result has no gradient: somewhere it left torch, or was detached.",
            dict(cut="all"), rare=True),
    *(Mistake("gradient_cut", "The values are right, and part of the gradient is missing: one feature of "
              "each pair is detached, or used through .data.", dict(cut=cut), rare=True)
      for cut in ("odd", "even", "odd_out", "even_out")),
)


def _rope_cases():
    import torch

    rng = np.random.default_rng(10)

    def made(*shape):
        return torch.tensor(rng.normal(size=shape), dtype=torch.float32)

    places = torch.tensor([3, 0, 7, 12, 5])
    once = made(2, 5, 8)
    any_axes = "Any number of axes may stand before (L, d), none too."
    return [
        Case("x (5, 8) and the positions 3, 0, 7, 12, 5", (made(5, 8), places),
             hint="Take one pair, (1, 0), at position 1 by hand. It goes to (cos 1, sin 1)."),
        Case("x (2, 5, 8)", (once, places), hint=any_axes),
        Case("x (2, 3, 4, 6) and positions from 9", (made(2, 3, 4, 6), torch.arange(9, 13)), hint=any_axes),
        Case("another base, 100", (once, places, 100.0), hint="Does base reach the angles?"),
        Case("the same x at other positions", (once, torch.tensor([8, 8, 1, 0, 30])),
             hint="The sizes were there before, with other positions: is a table kept?"),
        Case("the same sizes with other numbers", (made(2, 5, 8), places), hint="Is something kept?"),
        Case("negative positions", (made(3, 4, 4), torch.tensor([-3, 2, -1, -20])),
             hint="The formula takes any integer. A table counts negative ones from its end."),
        Case("the positions 0, 6, 2, 2", (made(3, 4, 6), torch.tensor([0, 6, 2, 2])),
             hint="Each token turns by its own position, also beside one that stands at 0."),
        Case("the positions 0 to 5", (made(2, 6, 4), torch.arange(6))),
        Case("as many heads as tokens", (made(2, 4, 4, 6), torch.tensor([4, 1, 9, 2])),
             hint="Which axis do the positions run along?"),
        Case("as many sentences as tokens", (made(3, 3, 6), torch.tensor([4, 1, 9])),
             hint="Which axis do the positions run along?"),
        Case("one token at position 6", (made(1, 2, 1, 4), torch.tensor([6]))),
        Case("one pair of features", (made(3, 5, 2), places)),
        Case("four axes before (L, d)", (made(1, 2, 1, 3, 5, 4), places), hint=any_axes),
        Case("x with heads and tokens transposed in memory", (made(2, 5, 3, 8).transpose(1, 2), places)),
        Case("the positions 250, 300 and 271", (made(2, 3, 8), torch.tensor([250, 300, 271])),
             hint="Any integer is a position. A table ends, and low precision runs out of digits."),
        Case("the positions 5000 and 100001", (made(2, 2), torch.tensor([5000, 100001])),
             hint="No position is too far for the formula; a table ends."),
        Case("x in float64", (made(2, 5, 6).double(), places)),
        Case("x in float16", (made(2, 5, 6).half(), places)),
        Case("x in float16 at the positions 600 to 1003",
             (made(2, 3, 6).half(), torch.tensor([600, 1003, 801])),
             hint="Angles need more digits than float16 has; their sines and cosines do not."),
        Case("the gradient in x", (made(2, 5, 6).double(), places), gradient_of=(0,),
             hint="Every step must stay in torch."),
    ]


def _keeps_lengths(case, value, expected):
    value = floats(value[0] if isinstance(value, (tuple, list)) else value)
    x = floats(case.args[0])
    if value is None or value.shape != x.shape:
        return None
    if not np.isfinite(value).all():
        return "There are NaN or infinite numbers."
    zero = case.args[1].numpy() == 0
    if np.abs((value - x)[..., zero, :]).max(initial=0) > 1e-2:
        return "At position 0 the angle is 0, and x must come back as it was."
    got, wanted = value[..., ::2] ** 2 + value[..., 1::2] ** 2, x[..., ::2] ** 2 + x[..., 1::2] ** 2
    if np.abs(got - wanted).max() > 5e-2:
        return "A rotation keeps the length of each pair (x[2i], x[2i + 1]), and yours changes it."
    return _turned_by(case, value, x, expected)


def _turned_by(case, value, x, expected):
    """Which pair turns by another angle than it should."""
    wanted = floats(expected[0] if isinstance(expected, (tuple, list)) else expected)
    numbers = [a[..., ::2] + 1j * a[..., 1::2] for a in (x, value, wanted)]
    got, right = (np.angle(turned / numbers[0]) for turned in numbers[1:])
    off = np.abs(np.angle(np.exp(1j * (got - right)))) > 1e-2
    if not off.any():
        return None
    *before, token, pair = (int(i) for i in np.argwhere(off)[0])
    at = (*before, token, pair)
    return (f"The token at position {int(case.args[1][token])} turns its pair {pair} by {got[at] + 0:.3g}; "
            f"it should be {right[at]:.3g}, up to whole turns.")


rope = FunctionExercise(
    _rope, _rope_cases, _ROPE,
    "Checked with none to four axes before (L, d), with positions unordered, repeated, negative and far "
    "away, with another base, in float16 to float64, and with its gradient. The dot product of two rotated "
    "vectors depends on the difference of their positions alone.",
    properties=(few_digits, _keeps_lengths), same_dtype=True, rtol=1e-4, atol=2e-4,
)

EXERCISES = (
    Exercise(
        "sinusoidal", "10", sinusoidal,
        (
            "How many different angles does one position have when d_model is 6? Which columns share one?",
            "Make one array of angles first, position times frequency, with a row for each position and a "
            "column for each pair. Pair i has the frequency base to the power -2i/d_model, for i = 0, 1, ...",
            "Fill every second column of an empty (n_pos, d_model) array, from 0, with the sines, and every "
            "second column, from 1, with the cosines. When d_model is odd there is one more sine than "
            "cosine: take only as many angles as there are columns to fill.",
        ),
        '''\
import numpy as np


def sinusoidal(n_pos, d_model, base=10000.0):
    positions = np.arange(n_pos)[:, None]
    even = np.arange(0, d_model, 2)                # 2i: 0, 2, 4, ...
    angles = positions / base ** (even / d_model)
    out = np.empty((n_pos, d_model))
    out[:, 0::2] = np.sin(angles)
    out[:, 1::2] = np.cos(angles[:, : d_model // 2])
    return out
''',
        "function",
    ),
    Exercise(
        "alibi", "10", alibi,
        (
            "Write down the table of distances for 2 queries and 4 keys. Where does the first query stand?",
            "Three steps: the slopes (n_heads,), the places of queries and of keys, and their distances "
            "(n_query, n_key). The last query's place is that of the last key.",
            "Places of queries count from n_key - n_query. Give the slopes two more axes, so that each "
            "meets the whole table, and mind the sign.",
        ),
        '''\
import numpy as np


def alibi(n_heads, n_query, n_key):
    slopes = 2.0 ** (-8 * np.arange(1, n_heads + 1) / n_heads)     # (H,)
    i = np.arange(n_query)[:, None] + n_key - n_query              # (Lq, 1) the last at the last key
    j = np.arange(n_key)                                           # (Lk,)
    return -slopes[:, None, None] * np.abs(i - j)                  # (H, Lq, Lk)
''',
        "function",
    ),
    Exercise(
        "rope", "10", rope,
        (
            "Which angle belongs to token l and pair i? How many of them are there in all?",
            "Make the angles (L, d/2) from positions and frequencies, in float32 or wider. Take the even "
            "features and the odd features of x apart; both have the shape (..., L, d/2) and meet the angles "
            "by broadcasting.",
            "Compute both new features from the old ones. Then stack the two along a new last axis and "
            "flatten the last two axes: that puts them side by side as they were. Give the result x's dtype.",
        ),
        '''\
import torch


def rope(x, positions, base=10000.0):
    d = x.shape[-1]
    even = torch.arange(0, d, 2, dtype=torch.float64)              # 2i: 0, 2, 4, ...
    angles = positions[:, None] * base ** (-even / d)              # (L, d/2)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    turned = first * cos - second * sin, first * sin + second * cos
    return torch.stack(turned, dim=-1).flatten(-2)
''',
        "function",
    ),
)

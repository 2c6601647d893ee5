"""Linear attention, of lesson 20."""

import numpy as np

from attnlib.exercises.common import few_digits, in_torch, unpacked
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake


def _phi(x, how):
    x = x.astype(np.float64)
    small = np.exp(np.minimum(x, 0))
    right = np.where(x > 0, x + 1, small)
    return {
        "elu_plus_one": lambda: right, "elu": lambda: np.where(x > 0, x, small - 1),
        "relu": lambda: np.maximum(x, 0), "relu_plus_one": lambda: np.maximum(x, 0) + 1,
        "exp": lambda: np.exp(x), "identity": lambda: x, "plus_one": lambda: x + 1,
        "softplus": lambda: np.logaddexp(0, x), "sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "abs": lambda: abs(x), "square": lambda: x * x,
        "elu_plus_two": lambda: np.where(x > 0, x + 2, small + 1),
        "no_one_above": lambda: np.where(x > 0, x, small),
        "one_below": lambda: np.where(x > 0, x + 1, small + 1),
        "swapped": lambda: np.where(x > 0, np.exp(x), x + 1), "silu": lambda: x / (1 + np.exp(-x)),
        "branches": lambda: np.where(x > 0, x + 1, x), "leaky": lambda: np.where(x > 0, x, 0.01 * x) + 1,
        "elu_tenth": lambda: np.where(x > 0, x, 0.1 * (small - 1)) + 1,
        "softmax": lambda: _softmax(x), "relu_tiny": lambda: np.maximum(x, 0) + 1e-6,
        "elu_half": lambda: np.where(x > 0, x, 0.5 * (small - 1)) + 1,
        "minus_one": lambda: np.where(x > 0, x, small - 2) + 1,
        "unit": lambda: _phi(x / np.sqrt((x * x).sum(-1, keepdims=True)), "elu_plus_one"),
        "shares": lambda: right / right.sum(-1, keepdims=True),
        "normed": lambda: right / np.sqrt((right * right).sum(-1, keepdims=True)),
        "half": lambda: np.float16(right).astype(float),
        "clipped": lambda: np.where(x > 0, np.minimum(x, 1) + 1, small),
        "abs_plus_one": lambda: abs(x) + 1,
        "times": lambda: np.maximum(x, 0) + 1 + (x <= 0) * (np.exp(x) - 1),
    }[how]()


def _softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@np.errstate(all="ignore")
def _linear(q, k, v, *, q_map="elu_plus_one", k_map="elu_plus_one", scale="none", mask="causal",
            norm="same", kernel="linear", state="fresh", result="right", added=0.0):
    d, length = q.shape[-1], q.shape[-2]
    if state == "first_item" and q.ndim > 2:
        out = _linear(*(a.reshape(-1, *a.shape[-2:])[0] for a in (q, k, v)))
        return np.broadcast_to(out, (*q.shape[:-1], v.shape[-1])).copy()
    if state in _UNPACKED:
        unpacked(q.shape, _UNPACKED[state])
    if state in ("axis_0", "axis_1", "axis_1_or_less"):
        axis = min(1, q.ndim - 2) if state == "axis_1_or_less" else int(state[-1])
        a, b = _phi(q, q_map), _phi(k, k_map)
        tables, totals = np.cumsum(b[..., :, None] * v[..., None, :], axis), np.cumsum(b, axis)
        return (a[..., None] * tables).sum(-2) / (a * totals).sum(-1, keepdims=True)
    scaled = {"none": 1.0, "before": d**-0.5, "both": d**-0.25, "linear": 1 / d}[scale]
    a, b = _phi(q * scaled, q_map), _phi(k * (scaled if scale == "both" else 1), k_map)
    v = v.astype(np.float64)
    scores = a @ b.swapaxes(-1, -2)
    if kernel in ("softmax", "softmax_scaled", "exp_of_phi", "stable_exp_of_phi", "square", "raw"):
        raw = q.astype(float) @ k.astype(float).swapaxes(-1, -2)
        scores = {
            "softmax": lambda: np.exp(raw), "softmax_scaled": lambda: np.exp(raw / np.sqrt(d)),
            "exp_of_phi": lambda: np.exp(scores),
            "stable_exp_of_phi": lambda: np.exp(scores - scores.max(-1, keepdims=True)),
            "square": lambda: scores**2,
            "raw": lambda: _phi(raw, q_map),
        }[kernel]()
    row, column = np.arange(length)[:, None], np.arange(length)
    size = int(mask[5:]) if mask.startswith("chunk") else int(mask[6:]) if mask.startswith("window") else 1
    seen = {
        f"chunk{size}": column // size <= row // size,
        f"window{size}": (column <= row) & (column > row - size),
        "strict_but_first": (column < row) | ((row == 0) & (column == 0)),
        "causal": column <= row, "all": column == column + 0 * row, "strict": column < row,
        "ahead": column <= row + 1, "future": column >= row, "own": column == row,
        "no_first": (column <= row) & ((column > 0) | (row == 0)),
    }[mask]
    if kernel.startswith("decay"):
        scores = scores * float(kernel[5:]) ** np.maximum(row - column, 0)
    kept = np.where(seen, scores, {"infinite": -np.inf, "billion": -1e9}.get(result, 0))
    if state == "carried" and q.ndim > 2:
        return _carried(a, b, v)
    if result == "values_mapped":
        v = _phi(v, "elu_plus_one")
    above = kept @ v
    if norm == "above_all":
        above, norm = scores @ v, "same"
    if norm == "key_only":
        below = np.where(seen, b.sum(-1)[..., None, :], 0).sum(-1, keepdims=True)
    elif norm == "raw_keys":
        below = np.where(seen, a @ k.astype(float).swapaxes(-1, -2), 0).sum(-1, keepdims=True)
    elif norm == "features":
        below = (a * np.cumsum(b, -1)).sum(-1, keepdims=True)
    elif norm.startswith("reset"):
        below = np.where(row // int(norm[5:]) == column // int(norm[5:]), kept, 0).sum(-1, keepdims=True)
    elif norm == "queries":
        below = np.where(seen, a @ a.swapaxes(-1, -2), 0).sum(-1, keepdims=True)
    else:
        below = {
            "same": lambda: kept.sum(-1, keepdims=True), "all": lambda: scores.sum(-1, keepdims=True),
            "none": lambda: 1.0, "count": lambda: np.maximum(seen.sum(-1, keepdims=True), 1),
            "length": lambda: length, "width": lambda: np.sqrt(d),
            "last": lambda: kept.sum(-1, keepdims=True)[..., -1:, :],
            "without_own": lambda: np.where(column < row, scores, 0).sum(-1, keepdims=True),
            "own": lambda: np.where(column == row, scores, 0).sum(-1, keepdims=True),
            "root": lambda: np.sqrt(kept.sum(-1, keepdims=True)),
            "whole": lambda: kept.sum((-1, -2), keepdims=True),
            "columns": lambda: np.swapaxes(kept.sum(-2, keepdims=True), -1, -2),
            "norm": lambda: np.sqrt((kept**2).sum(-1, keepdims=True)),
            "softmax": lambda: 1.0, "no_keepdims": lambda: 1.0,
            "least": lambda: np.maximum(kept.sum(-1, keepdims=True), 1),
        }[norm]()
    if norm == "softmax":
        above = _softmax(np.where(seen, scores, -np.inf)) @ v
    if norm == "no_keepdims":
        above = kept / kept.sum(-1)[..., None, :] @ v
    out = above / (below + added)
    if state == "transposed":
        return _exchanged(a, b, v, kept)
    if mask == "strict":
        out = np.where(row == 0, np.nan if norm == "same" and not added else 0.0, out)
    if result == "last_row_empty":
        out[..., -1, :] = 0
    elif result == "last_row_of_more_empty" and length > 1:
        out[..., -1, :] = 0
    elif result.startswith("remainder"):
        out[..., length // int(result[9:]) * int(result[9:]) :, :] = 0
    elif result == "other_items_empty" and q.ndim > 2:
        out.reshape(-1, *out.shape[-2:])[1:] = 0
    elif result == "integer":
        return np.trunc(np.nan_to_num(out)).astype(int)
    if result == "half":
        out = np.float16(out).astype(float)
    if result == "as_query":
        np.empty(q.shape)[...] = out        # NumPy's own words where it does not fit
        return np.broadcast_to(out, q.shape)
    if result == "as_query_by_rows":
        np.empty(q.shape)[..., 0, :] = out[..., 0, :]
        return np.broadcast_to(out, q.shape)
    if result == "squeezed":
        return out.squeeze()
    if result == "last":
        return out[..., -1, :]
    return out


def _exchanged(a, b, v, kept):
    """The table of sums is made with v in front and read as if phi(k) were there."""
    if a.shape[-1] != v.shape[-1]:
        np.zeros((*a.shape[:-2], a.shape[-1], v.shape[-1]))[...] += v[..., 0, :, None] * b[..., 0, None, :]
    tables = np.cumsum(v[..., :, None] * b[..., None, :], axis=-3)
    return (a[..., None] * tables).sum(-2) / kept.sum(-1, keepdims=True)


def _carried(a, b, v):
    """One running sum over all items, which is never put back to 0."""
    shape = (*a.shape[:-1], v.shape[-1])
    a, b, v = (x.reshape(-1, x.shape[-1]) for x in (a, b, v))
    scores = np.tril(a @ b.T)
    return (scores @ v / scores.sum(-1, keepdims=True)).reshape(shape)


_UNPACKED = {"no_axis": 2, "one_axis": 3, "two_axes": 4}
_MAPS = (
    ("relu", "relu(x), which is 0 for every negative number. elu(x) + 1 is small there, and never 0."),
    ("relu_plus_one", "relu(x) + 1. Below 0 that is 1 throughout, and elu(x) + 1 is exp(x)."),
    ("elu", "elu(x), which may be negative. The 1 that is added makes every weight positive."),
    ("exp", "exp(x), also above 0. There elu(x) + 1 is x + 1."),
    ("identity", "x itself. elu(x) + 1 makes every weight positive."),
)
_RARE_MAPS = (
    ("plus_one", "x + 1, also below 0. There elu(x) + 1 is exp(x)."),
    ("softplus", "the softplus. elu(x) + 1 is x + 1 above 0, and exp(x) below."),
    ("sigmoid", "the sigmoid. elu(x) + 1 is x + 1 above 0, and exp(x) below."),
    ("silu", "the SiLU. elu(x) + 1 is x + 1 above 0, and exp(x) below."),
    ("softmax", "a softmax over the features. elu(x) + 1 is taken of each number by itself."),
    ("abs", "the absolute value. elu(x) + 1 is x + 1 above 0, and exp(x) below."),
    ("square", "the square. elu(x) + 1 is x + 1 above 0, and exp(x) below."),
    ("elu_plus_two", "elu(x) + 2. Is the 1 added twice?"),
    ("no_one_above", "x above 0, without the 1. There it is x + 1."),
    ("one_below", "exp(x) + 1 below 0. There elu(x) is exp(x) - 1, so elu(x) + 1 is exp(x)."),
    ("swapped", "exp(x) above 0 and x + 1 below: the two branches are exchanged."),
    ("branches", "x below 0. There elu(x) + 1 is exp(x)."),
    ("leaky", "a leaky relu and 1. Below 0, elu(x) + 1 is exp(x)."),
    ("elu_tenth", "an elu whose alpha is 0.1. Its alpha is 1."),
    ("clipped", "cut off above 1. There elu(x) + 1 is x + 1, however large x is."),
    ("relu_tiny", "relu(x) and a tiny number. Below 0, elu(x) + 1 is exp(x)."),
    ("elu_half", "an elu whose alpha is 0.5. Its alpha is 1."),
    ("minus_one", "exp(x) - 1 below 0, where the 1 is forgotten. There elu(x) + 1 is exp(x)."),
    ("unit", "taken of vectors brought to length 1. There is no scaling here."),
    ("half", "held in half precision, which has three digits."),
    ("times", "made of products, where exp of a large number times 0 is NaN. Choose between the branches."),
)


_ONE_SIDE = (("abs", "the absolute value"), ("abs_plus_one", "|x| + 1"), ("exp", "exp(x)"),
             ("relu", "relu(x)"), ("relu_plus_one", "relu(x) + 1"), ("plus_one", "x + 1"),
             ("softplus", "the softplus"), ("sigmoid", "the sigmoid"), ("softmax", "a softmax"))


def _linear_mistakes():
    for how, told in _MAPS:
        yield Mistake("other_map", f"Your feature map is {told}", {"q_map": how, "k_map": how})
    for how, told in _RARE_MAPS:
        yield Mistake("other_map", f"Your feature map is {told}", dict(q_map=how, k_map=how), rare=True)
    for how in ("identity", "elu"):
        told = "raw" if how == "identity" else "mapped by elu, without the 1"
        yield Mistake("map_on_one", f"The queries are {told}. Both queries and keys go through elu(x) + 1.",
                      {"q_map": how})
        yield Mistake("map_on_one", f"The keys are {told}. Both queries and keys go through elu(x) + 1.",
                      {"k_map": how})
    for how, told in _ONE_SIDE:
        for side, who in (("q", "queries"), ("k", "keys")):
            if how == "softmax" and side == "q":      # the same as exp(x), whose scale falls out
                continue
            yield Mistake("map_on_one", f"The {who} go through {told}. Both queries and keys go through "
                          "elu(x) + 1.", {f"{side}_map": how}, rare=True)
    for size in (2, 3, 4, 8, 16):
        yield Mistake("chunk_sees_itself", f"Within a chunk of {size} every token sees all of the chunk, "
                      "those after it too. Token i sees j <= i, also inside a chunk.",
                      {"mask": f"chunk{size}"}, rare=True)
        yield Mistake("remainder_empty", f"The tokens left over after whole chunks of {size} are never "
                      "computed. The last chunk may be shorter.", {"result": f"remainder{size}"}, rare=True)
        yield Mistake("denominators_differ", f"The denominator forgets what came before a chunk of {size}, "
                      "and the numerator does not. Both sums run over j <= i.", {"norm": f"reset{size}"},
                      rare=True)
    for size in (2, 3, 4, 8, 10, 16, 20, 32):
        yield Mistake("window", f"A token sees the last {size} tokens only. The sums run over all j <= i.",
                      {"mask": f"window{size}"}, rare=True)
    yield Mistake("kept_dimensions", "The sums have lost their axis and are laid along the keys, so that a "
                  "weight is divided by another row's sum. Each row is divided by its own.",
                  {"norm": "no_keepdims"}, rare=True)
    yield Mistake("denominator_over_features", "For the denominator phi(k) is summed cumulatively along the "
                  "features. It is summed along the length, as for the numerator.", {"norm": "features"},
                  rare=True)
    yield Mistake("state_transposed", "The table of sums has the features of v in front, and is read as if "
                  "those of phi(k) were there. Its axes are exchanged.", {"state": "transposed"}, rare=True)
    yield Mistake("map_after_product", "The feature map is taken of the products q . k. It is taken of q and "
                  "of k by themselves; otherwise the sum over the keys cannot be kept.",
                  dict(kernel="raw"), rare=True)
    yield Mistake("softmax_attention", "This is softmax attention, which needs every pair of a query and a "
                  "key. Here a weight is phi(q) . phi(k).", dict(kernel="softmax_scaled"), rare=True)
    yield Mistake("softmax_attention", "This is softmax attention without a scale, which needs every pair of "
                  "a query and a key. Here a weight is phi(q) . phi(k).", dict(kernel="softmax"), rare=True)
    yield Mistake("exponential", "You take exponentials of phi(q) . phi(k). They are weights already.",
                  {"kernel": "exp_of_phi"})
    yield Mistake("exponential", "You take exponentials of phi(q) . phi(k). They are weights already.",
                  {"kernel": "stable_exp_of_phi"}, rare=True)
    yield Mistake("exponential", "A softmax is taken of phi(q) . phi(k). These products are weights already, "
                  "and are divided by their sum.", dict(norm="softmax"), rare=True)
    yield Mistake("squared", "The products phi(q) . phi(k) are squared. They are the weights as they are.",
                  dict(kernel="square"), rare=True)
    for rate in (0.5, 0.9, 0.95, 0.99):
        yield Mistake("decay", "Older keys count less. Here all keys up to i count in full.",
                      dict(kernel=f"decay{rate}"), rare=True)
    yield Mistake("scaled", "Each phi(k) is divided by the sum of its features. There is no scaling here.",
                  dict(k_map="shares"), rare=True)
    yield Mistake("scaled", "Each phi(k) is brought to length 1. There is no scaling here.",
                  dict(k_map="normed"), rare=True)
    for fill, told in (("infinite", "minus infinity"), ("billion", "-1e9")):
        yield Mistake("future_not_zero", f"The products of later keys are set to {told}. No exponential "
                      "follows that would make 0 of it: which product counts for nothing?",
                      dict(result=fill), rare=True)
    yield Mistake("values_mapped", "The values go through the feature map too. They are averaged as they "
                  "are.", dict(result="values_mapped"), rare=True)
    yield Mistake("denominators_differ", "The numerator sums over all keys, and the denominator over j <= i. "
                  "Both sums run over j <= i.", {"norm": "above_all"})
    yield Mistake("denominator_of_queries", "The denominator sums phi(q_j). It sums phi(k_j), as the "
                  "numerator does.", dict(norm="queries"), rare=True)
    for axis, state in ((0, "axis_0"), (1, "axis_1"), (1, "axis_1_or_less")):
        yield Mistake("length_axis", f"Your sums run along axis {axis}. The length is the second axis from "
                      "the end, however many stand before it.", dict(state=state), rare=True)
    for result in ("last_row_empty", "last_row_of_more_empty"):
        yield Mistake("last_row_empty", "The last row is never computed. Does the loop end one too early?",
                      dict(result=result), rare=True)
    yield Mistake("first_item", "Only the first item is computed, and the others stay 0. Every item of the "
                  "leading axes has its own sums.",
                  dict(result="other_items_empty"), rare=True)
    yield Mistake("integers", "The result is made of integers, and every fraction is cut off.",
                  dict(result="integer"), rare=True)
    yield Mistake("strict", "A token does not see itself, save the first one. The sums run over j <= i, "
                  "with i.",
                  dict(mask="strict_but_first"), rare=True)
    for how, told in (("before", "root of the width"), ("linear", "width")):
        yield Mistake("scaled", f"The queries are divided by the {told} before the feature map. There is no "
                      "scaling here.", {"scale": how})
    yield Mistake("scaled", "Queries and keys are divided by the fourth root of the width before the feature "
                  "map. There is no scaling here.", {"scale": "both"})
    yield Mistake("not_causal", "Every token sees all tokens, those after it too. Token i sees j <= i.",
                  {"mask": "all"})
    yield Mistake("strict", "A token does not see itself. The sums run over j <= i, with i. Is the state "
                  "used before it has the new key?", {"mask": "strict"})
    yield Mistake("strict", "A token does not see itself. The sums run over j <= i, with i. Is the state "
                  "used before it has the new key?", dict(mask="strict", added=1e-6), rare=True)
    yield Mistake("one_ahead", "A token also sees the one after it. The sums end at i.", {"mask": "ahead"})
    yield Mistake("future", "A token sees itself and what comes after it. The sums run over j <= i.",
                  {"mask": "future"})
    yield Mistake("own_only", "A token sees itself alone: nothing is carried from one to the next.",
                  dict(mask="own"), rare=True)
    yield Mistake("first_key_lost", "The first key is lost once another has come. Where does the sum begin?",
                  dict(mask="no_first"), rare=True)
    yield Mistake("no_denominator", "Nothing is divided. Each output is an average: divide by the sum of its "
                  "weights.", {"norm": "none"})
    yield Mistake("denominator_of_all", "You divide by the sum over all keys, those after i too. Both sums "
                  "run over the same keys, j <= i.", {"norm": "all"})
    yield Mistake("denominator_of_all", "You divide by the last token's sum. Each has its own, over j <= i.",
                  dict(norm="last"), rare=True)
    yield Mistake("denominator_counts", "You divide by the number of keys. Divide by the sum of weights.",
                  {"norm": "count"})
    yield Mistake("denominator_counts", "You divide by the length. Divide by the sum of weights.",
                  dict(norm="length"), rare=True)
    yield Mistake("denominator_is_width", "You divide by the width's root. Divide by the sum of the weights.",
                  dict(norm="width"), rare=True)
    yield Mistake("denominators_differ", "The denominator leaves out the token itself, and the numerator has "
                  "it. Both sums run over j <= i.", {"norm": "without_own"})
    yield Mistake("denominators_differ", "The denominator has the token itself alone, and the numerator all "
                  "up to it. Both sums run over j <= i.", dict(norm="own"), rare=True)
    yield Mistake("denominator_without_query", "The denominator sums the keys' features and leaves out the "
                  "query. It is phi(q_i) times the sum of phi(k_j).", {"norm": "key_only"})
    yield Mistake("denominator_raw_keys", "The denominator sums raw keys. The numerator sums phi(k_j).",
                  {"norm": "raw_keys"})
    yield Mistake("denominator_of_columns", "You divide by sums over the queries. Each query divides by its "
                  "own sum over keys.", dict(norm="columns"), rare=True)
    yield Mistake("denominator_of_columns", "You divide by the sum over all queries and keys. Each query "
                  "divides by its own sum over keys.", dict(norm="whole"), rare=True)
    yield Mistake("denominator_norm", "You divide by the length of the vector of weights, the root of the "
                  "sum of squares. Divide by the sum.", dict(norm="norm"), rare=True)
    yield Mistake("denominator_norm", "You divide by the root of the sum. Divide by the sum.",
                  dict(norm="root"), rare=True)
    yield Mistake("denominator_bounded", "Your denominator is kept at 1 or above. Small sums are valid.",
                  dict(norm="least"), rare=True)
    for size in (1.0, 0.1, 1e-2, 1e-3):
        yield Mistake("epsilon", "What is added to the denominator is large enough to show. The sum of "
                      "weights is above 0 without it.",
                      dict(added=size), rare=True)
    yield Mistake("state_carried", "The sums of one item go on into the next. Each item of the leading axes "
                  "begins at 0.", {"state": "carried"})
    yield Mistake("first_item", "The first item is computed and repeated for all others. Every item of the "
                  "leading axes has its own sums.",
                  {"state": "first_item"})
    for how, told in (("no_axis", "(L, d)"), ("one_axis", "(B, L, d)"), ("two_axes", "(B, H, L, d)")):
        yield Mistake("axes_fixed", f"Your function takes arrays of shape {told} only. Any number of axes "
                      "may stand before (L, d).", dict(state=how), rare=True)
    for result in ("as_query", "as_query_by_rows"):
        yield Mistake("width_of_v", "The result is given the width of q. It has the width of v.",
                      dict(result=result), rare=True)
    yield Mistake("half_precision", "The result has only the three digits of half precision. Compute in "
                  "float32 or wider.",
                  dict(result="half"), rare=True)
    yield Mistake("squeezed", "An axis of length 1 is lost. The result keeps every axis.",
                  dict(result="squeezed"), rare=True)
    yield Mistake("last_only", "Only the last token's output is returned. Each token has one.",
                  dict(result="last"), rare=True)


def _linear_cases():
    rng = np.random.default_rng(20)

    def made(*lead, length, d, dv, size=1.0):
        return tuple(rng.normal(size=(*lead, length, n)) * s for n, s in ((d, size), (d, size), (dv, 1.0)))

    plain = made(length=5, d=3, dv=4)
    q, k, v = made(2, length=6, d=4, dv=3)
    low = q.copy()
    low[:, :, ::2] = -80.0
    high = k.copy()
    high[:, 1::2, 1] = 900.0
    any_axes = "Any number of axes may stand before (L, d), none too. Every item begins with empty sums."
    return [
        Case("5 tokens, d = 3 and dv = 4", plain,
             hint="Compute the first two rows by hand. Row 0 is v_0 whatever q and k are. The result has a "
             "row for each token, as wide as v."),
        Case("a batch of 2", made(2, length=6, d=4, dv=3), hint=any_axes),
        Case("2 sentences and 3 heads", made(2, 3, length=4, d=5, dv=2), hint=any_axes),
        Case("three axes before (L, d)", made(2, 1, 3, length=4, d=3, dv=2), hint=any_axes),
        Case("one token", made(3, length=1, d=4, dv=2), hint="Its output is its value."),
        Case("one sentence of one head", made(1, 1, length=5, d=3, dv=4)),
        Case("width 1", made(2, length=4, d=1, dv=1)),
        Case("all sizes 4", made(4, 4, length=4, d=4, dv=4)),
        Case("as many tokens as features", made(3, length=3, d=3, dv=5)),
        Case("the sizes of the first case and other numbers", made(length=5, d=3, dv=4),
             hint="The sizes were there before: is something kept?"),
        Case("40 tokens", made(length=40, d=3, dv=2), hint="Do the sums go on to the end?"),
        Case("negative queries and keys", tuple(-abs(a) for a in made(2, length=5, d=3, dv=4)),
             hint="Below 0 the feature map is exp(x)."),
        Case("numbers three times as large", made(length=6, d=4, dv=3, size=3.0)),
        Case("some features of the queries at -80", (low, k, v),
             hint="phi(-80) is nearly 0, and the other features remain."),
        Case("some features of the keys at 900", (q, high, v),
             hint="phi(900) is 901; is an exponential taken of it all the same?"),
        Case("float32", tuple(a.astype(np.float32) for a in made(2, length=5, d=3, dv=4))),
        Case("arrays transposed in memory",
             tuple(a.swapaxes(0, 1) for a in (rng.normal(size=(5, 2, 3)), rng.normal(size=(5, 2, 3)),
                                              rng.normal(size=(5, 2, 4))))),
    ]


def _causal_average(case, value, expected):
    q, k, v = case.args
    value = floats(value)
    if value is None or value.shape != expected.shape:
        return None
    if not np.isfinite(value).all():
        return "There are NaN or infinite numbers."
    right = np.isclose(value, expected, rtol=3e-4, atol=2e-5).all(-1)
    items = tuple(range(right.ndim - 1))
    empty, wrong = (~value.any(-1)).all(items), ~right.all(items)
    if (empty & wrong).any() and not empty.all():
        return f"Row {int(np.argmax(empty & wrong))} is 0 throughout: is it ever computed?"
    if wrong[0]:
        first, own = value[..., 0, :], v[..., 0, :]
        factor = (first * own).sum(-1, keepdims=True) / (own * own).sum(-1, keepdims=True)
        if np.allclose(first, factor * own, rtol=1e-3, atol=1e-4):
            return (f"Token 0 sees itself alone, and its output is {factor.flat[0]:.3g} times its value "
                    "instead of its value: the denominator does not sum the weights of the numerator.")
        return ("Token 0 sees itself alone, and its output is not its value: does it see others, or are the "
                "values changed?")
    token = int(np.argmax(wrong))
    if wrong.any() and token > 1:
        return (f"Outputs 0 to {token - 1} are right, and output {token} is not. Up to where do its sums "
                "reach, and is anything begun anew there?")
    low, high = np.minimum.accumulate(v, -2), np.maximum.accumulate(v, -2)
    outside = ((value < low - 1e-3) | (value > high + 1e-3)).any(-1)
    if outside.any():
        token = int(np.argwhere(outside)[0][-1])
        return f"Output {token} lies outside the values of tokens 0 to {token}, and is no average of them."
    if not right[..., 1:].any():
        return ("Output 0 is right, and the others are averages with other weights than phi(q_i) . phi(k_j): "
                "look at the feature map and at what it is applied to.")
    return None


linear_attention = FunctionExercise(
    _linear, _linear_cases, tuple(_linear_mistakes()),
    "Checked with none to three axes before (L, d), with one token and forty, with dv other than d, with "
    "features far below 0 and far above, and in float32. The two sums are all that has to be remembered, "
    "however long the text.",
    properties=(in_torch, few_digits, _causal_average), rtol=3e-4, atol=2e-5,
)

EXERCISES = (
    Exercise(
        "linear_attention", "20", linear_attention,
        (
            "What has token 3 to add to the two sums of token 2?",
            "phi(q_i) does not depend on j, so it may stand before both sums: what has to be summed over j "
            "<= i is phi(k_j) v_j, a d by dv table, and phi(k_j), d numbers.",
            "Take phi of q and k. Sum the outer products phi(k_j) v_j cumulatively along the length, and "
            "phi(k_j) too. The numerator is phi(q_i) times the table, the denominator phi(q_i) times the d "
            "numbers.",
        ),
        '''\
import numpy as np


def causal_linear_attention(q, k, v):
    def phi(x):
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    q, k = phi(q), phi(k)
    tables = np.cumsum(k[..., :, None] * v[..., None, :], axis=-3)      # (..., L, d, dv)
    totals = np.cumsum(k, axis=-2)                                      # (..., L, d)
    above = (q[..., None] * tables).sum(axis=-2)
    return above / (q * totals).sum(axis=-1, keepdims=True)
''',
        "function",
    ),
)

"""The parts of lesson 15's layer, and writing on: a norm, a gate, rows of weights, a nucleus, a loop."""

import numpy as np

from attnlib.exercises.answers import numbers
from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------- what a cache costs


def cache_price(answer):
    """Bytes a token, and three factors, for 80 layers of 64 query heads over 8 key heads of width 128."""
    given, complaint = numbers(answer, (4,), "your answer")
    if complaint:
        return complaint
    size = 2 * 80 * 8 * 128 * 2
    slips = {
        size // 2: ("one_of_two", "Half of it is missing: is a number one byte, or did you forget that keys "
                    "and values are both kept?"),
        size // 4: ("one_of_two", "A quarter: keys and values are both kept, and each number takes two "
                    "bytes."),
        2 * size: ("float32", "Twice too much: did you count four bytes a number?"),
        8 * size: ("query_heads", "Those are the 64 query heads. The queries of old tokens are not kept; "
                   "how many heads have keys?"),
        size // 80: ("one_layer", "That is one layer. Each layer has keys and values of its own."),
        8 * size // 80: ("one_layer", "That is one layer, and with 64 heads. Each of 80 layers keeps the "
                         "keys and values of 8."),
        size // 8: ("one_head", "That is one key head in each layer. There are 8."),
        8 * size // 2: ("query_heads", "Two things: 64 are the query heads, and keys and values are both "
                        "kept."),
    }  # fmt: skip
    if given[0] != size:
        name, hint = slips.get(given[0], (None, "Two arrays a layer, keys and values; in each, for one "
                                                "token, key heads times their width; two bytes a number."))
        return wrong(f"(a) {given[0]:,.0f} bytes a token is not right. {hint}", name)
    told = (
        ("b", 8, {1: "More key heads are more keys to keep.", 1 / 8: "That is the way down, from 64 to 8."},
         "key_heads", "64 key heads in place of 8, all else the same."),
        ("c", 1, {2: "Query heads leave nothing in the cache. Which of the numbers in (a) changes?",
                  0.5: "Query heads leave nothing in the cache, and the width of a head stays."},
         "query_heads_are_kept", "What does the cache keep of a query?"),
        ("d", 16, {1: "The weights are shared by all 16 conversations. Their tokens are not the same."},
         "shared_by_the_batch", "Each conversation has tokens of its own."),
    )  # fmt: skip
    for (letter, factor, known, name, hint), got in zip(told, given[1:], strict=True):
        if abs(got - factor) > 1e-9:
            slip = next((text for value, text in known.items() if abs(got - value) < 1e-9), None)
            return wrong(f"({letter}) A factor of {got:g} is not right. {slip or hint}", slip and name)
    return right(
        "327,680 bytes, so a conversation of 8,192 tokens takes 2.7 GB, and 16 of them 43 GB. Key heads, "
        "layers and conversations cost; query heads do not."
    )


# ------------------------------------------------------------- root mean square norm


def _rms_norm(x, weight, eps, *, centre=False, mean="square", axis="features", at="inside", root=True,
              join="over_size", scale="times", work="float32"):  # fmt: skip
    import torch

    kind = x.dtype
    half = kind in (torch.float16, torch.bfloat16)
    y = x.float() if half and work == "float32" else x
    if centre:
        y = y - y.mean(-1, keepdim=True)
    over = {"features": -1, "tokens": -2 if x.ndim > 1 else -1, "all": tuple(range(x.ndim))}[axis]
    size = {
        "square": lambda: y.square().mean(over, keepdim=True),
        "sum": lambda: y.square().sum(over, keepdim=True),
        "absolute": lambda: y.abs().mean(over, keepdim=True).square(),
        "largest": lambda: y.abs().amax(over, keepdim=True).square(),
        "unbiased": lambda: y.square().sum(over, keepdim=True) / (x.shape[-1] - 1),
        "mean_first": lambda: y.mean(over, keepdim=True).square(),
        "variance": lambda: y.var(over, correction=0, keepdim=True),
        "deviation": lambda: y.var(over, keepdim=True),
    }[mean]()
    if at == "inside":
        size = size + eps
    size = size.sqrt() if root else size
    if at == "outside":
        size = size + eps
    if at == "at_least":
        size = size.clamp(min=eps)
    y = (y * size if join == "times_size" else y / size).to(kind)
    return {"times": lambda: y * weight, "none": lambda: y, "one_more": lambda: y * (1 + weight),
            "plus": lambda: y + weight, "over": lambda: y / weight}[scale]()  # fmt: skip


def _norm_cases():
    import torch

    rng = np.random.default_rng(151)

    def tensor(*shape, by=1.0, shift=0.0):
        return torch.tensor(rng.normal(size=shape) * by + shift)

    weight = tensor(6, by=0.3, shift=1.0)
    zeros = tensor(2, 3, 6)
    zeros[0, 1] = 0
    return [
        Case("three tokens of six features", (tensor(3, 6, shift=0.5), weight, 1e-5),
             hint="Each token is divided by the root of the mean of its squares."),
        Case("a batch", (tensor(2, 4, 6, shift=1.0), weight, 1e-5)),
        Case("one token alone, (6,)", (tensor(6), weight, 1e-5)),
        Case("tokens of very different size", (tensor(4, 6) * torch.tensor([[1e-2], [1.0], [30], [1e3]]),
                                               weight, 1e-5)),
        Case("small numbers, where eps counts", (tensor(3, 6, by=2e-3), weight, 1e-5),
             hint="Where does eps stand, inside the root or outside?"),
        Case("a token of zeros", (zeros, weight, 1e-5), hint="eps keeps it at zero, and 0/0 is NaN."),
        Case("another eps", (tensor(2, 6, by=0.1), weight, 1e-2)),
        Case("float32", (tensor(3, 6).float(), weight.float(), 1e-5)),
        Case("numbers of 300 in float16, whose squares are too large for it",
             (tensor(2, 6, by=300.0).half(), weight.half(), 1e-5),
             hint="float16 ends at 65,504. In which type are the squares taken?"),
        Case("numbers of 1e-4 in float16, whose squares are too small for it",
             (tensor(2, 6, by=1e-4).half(), weight.half(), 1e-12)),
        Case("the gradient in x and the weight", (tensor(2, 3, 6), weight, 1e-5), gradient_of=(0, 1),
             hint="Every step must stay in torch."),
    ]  # fmt: skip


rms_norm = FunctionExercise(
    _rms_norm, _norm_cases,
    (
        Mistake("layer_norm", "You take the mean away first. That is layer normalisation; here only the size "
                "is divided out.", {"centre": True}, convention=True),
        Mistake("layer_norm", "You take the mean away, and divide by the sum of squares over one less. Here "
                "nothing is taken away, and the mean is over all features.",
                {"centre": True, "mean": "unbiased"}),
        Mistake("sum_of_squares", "You divide by the length, the root of the *sum* of squares. The mean "
                "keeps a feature near 1 at any width.", {"mean": "sum"}),
        Mistake("mean_of_sizes", "You divide by the mean of the absolute values. Square, mean, root.",
                {"mean": "absolute"}),
        Mistake("largest", "You divide by the largest entry.", {"mean": "largest"}),
        Mistake("one_less", "You divide the sum of squares by one less than the number of features. Nothing "
                "is estimated here.", {"mean": "unbiased"}),
        *(Mistake("standard_deviation", "You divide by the standard deviation, from which the mean is taken "
                  "away. The mean of the squares keeps it.", {"mean": mean, "at": at})
          for mean in ("variance", "deviation") for at in ("inside", "outside")),
        Mistake("square_of_mean", "You take the mean first and square it, so features of both signs cancel. "
                "Square first.", {"mean": "mean_first"}),
        Mistake("multiplied", "You multiply by the size. Divide by it.", {"join": "times_size"}),
        Mistake("wrong_axis", "The mean runs over the tokens. Each token is normed by itself, over its "
                "features.", {"axis": "tokens"}),
        Mistake("wrong_axis", "The mean runs over everything. Each token is normed by itself.",
                {"axis": "all"}),
        Mistake("no_root", "You divide by the mean square itself. Its root has the unit of x.",
                {"root": False}),
        Mistake("eps_outside", "You add eps to the root. It stands inside, beside the mean square, where it "
                "weighs more.", {"at": "outside"}, convention=True),
        Mistake("no_eps", "Without eps a token of zeros becomes 0/0.", {"at": "nowhere"}),
        Mistake("eps_at_least", "You take eps for a lower bound. It is added to the mean square, always.",
                {"at": "at_least"}),
        Mistake("no_weight", "The weight is missing. Each feature is multiplied by its own at the end.",
                {"scale": "none"}),
        Mistake("one_plus_weight", "You multiply by 1 + weight, as Gemma does. Here the weight itself is "
                "multiplied.", {"scale": "one_more"}, convention=True),
        Mistake("weight_added", "The weight is added. It multiplies.", {"scale": "plus"}),
        Mistake("weight_divides", "You divide by the weight. It multiplies.", {"scale": "over"}),
        Mistake("half_precision", "In float16 a square above 65,504 is infinite and a small one is 0. Take "
                "half precision to float32 first, and back at the end.", {"work": "own"}),
    ),
    "Checked on sizes from 1e-4 to 1e3, in float16 too, on a token of zeros, and in the gradient. Nothing is "
    "subtracted: only the size goes.",
    same_dtype=True,
)  # fmt: skip

# ------------------------------------------------------------- a gate in the feed-forward layer


def _swiglu(x, w1, w2, w3, *, gate="silu", closes="w1", join="times", turned=False, order="right",
            residual=False):  # fmt: skip
    import torch
    from torch.nn.functional import gelu, relu, silu

    act = {
        "silu": silu, "sigmoid": torch.sigmoid, "relu": relu, "gelu": gelu, "tanh": torch.tanh,
        "none": lambda z: z, "softmax": lambda z: z.softmax(-1), "turned": lambda z: z * torch.sigmoid(-z),
    }[gate]  # fmt: skip
    w1, w2, w3 = {"second_up": (w1, w3, w2), "first_down": (w3, w1, w2)}.get(order, (w1, w2, w3))

    def times(a, w):
        return a @ (w if turned else w.mT)

    if order == "by_shape":
        return (act(x @ w1.mT) * (x @ w2)) @ w3
    one, three = times(act(x) if join == "before" else x, w1), times(x, w3)
    if closes == "w3":
        one, three = three, one
    hidden = {
        "times": lambda: act(one) * three, "plus": lambda: act(one) + three, "alone": lambda: act(one),
        "product": lambda: act(one * three), "both": lambda: act(one) * act(three),
        "after": lambda: one * three, "sum_inside": lambda: act(one + three),
        "before": lambda: one * three, "one_branch": lambda: act(one) * one,
        "stays_inside": lambda: act(one) * three, "matrix_product": lambda: act(one) @ three.mT,
    }[join]()  # fmt: skip
    out = hidden if join == "stays_inside" else times(hidden, w2)
    out = act(out) if join == "after" else out
    return x + out if residual else out


def _gate_cases():
    import torch

    rng = np.random.default_rng(152)

    def case(name, shape, hidden, hint="", **more):
        kind = more.pop("kind", torch.float64)
        x = rng.normal(size=shape)
        w1, w3 = rng.normal(size=(2, hidden, shape[-1])) * 1.5 / shape[-1] ** 0.5
        w2 = rng.normal(size=(shape[-1], hidden)) / hidden**0.5
        return Case(name, tuple(torch.tensor(a).to(kind) for a in (x, w1, w2, w3)), hint=hint, **more)

    return [
        case("three tokens, 4 features, 7 inside", (3, 4), 7,
             hint="w1 and w3 lead up, w2 leads down; torch stores a matrix as (out, in)."),
        case("a batch", (2, 3, 4), 6),
        case("as many features inside as outside", (3, 5), 5,
             hint="Where all matrices are square, none complains of being turned."),
        case("one token alone, (4,)", (4,), 8),
        case("float32", (2, 4), 6, kind=torch.float32),
        case("large numbers", (3, 4), 7, kind=torch.float64),
        case("the gradient in x and all matrices", (2, 3, 4), 6, gradient_of=(0, 1, 2, 3)),
    ]


swiglu = FunctionExercise(
    _swiglu, _gate_cases,
    (
        Mistake("matrix_product", "Gate and content are multiplied as matrices. Multiply feature by feature.",
                {"join": "matrix_product"}),
        Mistake("not_turned", "You use the matrices as x @ w. torch stores them as (out, in), and nn.Linear "
                "computes x @ w.T.", {"turned": True}),
        Mistake("gate_and_content_swapped", "The gate is on the wrong branch: w1 makes what opens and "
                "closes, w3 what passes.", {"closes": "w3"}, convention=True),
        Mistake("sigmoid", "Your gate is the sigmoid alone. SiLU is z times sigmoid(z).",
                {"gate": "sigmoid"}, convention=True),
        Mistake("relu", "Your gate is ReLU. Here it is SiLU, z times sigmoid(z).", {"gate": "relu"},
                convention=True),
        Mistake("gelu", "Your gate is GELU. Here it is SiLU, z times sigmoid(z).", {"gate": "gelu"},
                convention=True),
        Mistake("tanh", "Your gate is a tanh. Here it is SiLU, z times sigmoid(z).", {"gate": "tanh"}),
        Mistake("softmax", "Your gate is a softmax over the features. Each feature has a gate of its own.",
                {"gate": "softmax"}),
        Mistake("sign_of_sigmoid", "Your gate is z times sigmoid(-z). The sigmoid is 1 / (1 + exp(-z)).",
                {"gate": "turned"}),
        Mistake("no_gate", "Nothing bends: w1 and w3 are multiplied as they are. The first goes through "
                "SiLU.", {"gate": "none"}),
        Mistake("added", "Gate and content are added. The one multiplies the other.", {"join": "plus"}),
        Mistake("no_content", "The third matrix is not used. This is the old layer with another bend.",
                {"join": "alone"}),
        Mistake("bend_after_product", "You multiply first and bend then. Only the gate goes through SiLU.",
                {"join": "product"}),
        Mistake("both_bend", "Both branches go through SiLU. Only the gate does.", {"join": "both"}),
        Mistake("bend_before", "SiLU bends x, before w1. It bends what comes out of w1.", {"join": "before"}),
        Mistake("one_branch", "Gate and content both come from w1. The content comes from w3.",
                {"join": "one_branch"}),
        Mistake("stays_inside", "The result has as many features as the inside: w2 leads back down.",
                {"join": "stays_inside"}),
        Mistake("bend_at_the_end", "SiLU stands behind w2. It belongs to the gate.", {"join": "after"}),
        Mistake("bend_after_sum", "You add the branches and bend the sum. The bent gate multiplies.",
                {"join": "sum_inside"}),
        Mistake("order_of_matrices", "The second matrix leads down, the third up: the order is w1, w2, w3.",
                {"order": "second_up"}),
        Mistake("order_of_matrices", "The second matrix leads down, the third up. That x @ w2 fits comes of "
                "how torch stores them: x @ w3.T leads up.", {"order": "by_shape"}),
        Mistake("order_of_matrices", "Your first matrix leads down. The order is w1 up, w2 down, w3 up.",
                {"order": "first_down"}),
        Mistake("residual", "You add x. The residual belongs to the block around this.",
                {"residual": True}),
    ),
    "Checked on five shapes, with square matrices too, and in the gradient. One branch opens and closes the "
    "other, feature by feature.",
)  # fmt: skip

# ------------------------------------------------------------- rows from halves to neighbours


def _to_neighbours(w_q, w_k, n_heads, *, order="right", kv="right", which="both", axis="rows",
                   swapped=False):  # fmt: skip
    d = len(w_q) // n_heads
    heads_k = {"right": len(w_k) // d, "as_queries": n_heads, "group": max(1, len(w_q) // len(w_k)),
               "one": 1}[kv]  # fmt: skip
    q = _rows(w_q, n_heads, order, axis) if which != "keys" else w_q
    k = _rows(w_k, heads_k, order, axis) if which != "queries" else w_k
    return (k, q) if swapped else (q, k)


def _rows(w, heads, order, axis):
    size = w.shape[1] if axis == "columns" else len(w)
    at = np.arange(size)
    if order == "across":
        heads = 1
    if order == "same":
        return w
    if size % (2 * heads):
        raise ValueError(f"{size} rows are no {heads} heads of pairs")
    pairs = at.reshape(heads, 2, -1)
    at = {
        "right": lambda: pairs.swapaxes(1, 2),
        "across": lambda: pairs.swapaxes(1, 2),
        "inverse": lambda: at.reshape(heads, -1, 2).swapaxes(1, 2),
        "second_first": lambda: pairs[:, ::-1].swapaxes(1, 2),
        "halves_exchanged": lambda: pairs[:, ::-1],
    }[order]().reshape(-1)
    return w[:, at] if axis == "columns" else w[at]


def _row_cases():
    rng = np.random.default_rng(153)

    def case(name, heads, kv_heads, d, wide, hint="", kind=np.float64):
        return Case(name, (rng.normal(size=(heads * d, wide)).astype(kind),
                           rng.normal(size=(kv_heads * d, wide)).astype(kind), heads), hint=hint)  # fmt: skip

    return [
        case("one head of 6 features", 1, 1, 6, 5,
             hint="Rows 0 and 3 of one head are a pair, and shall stand side by side."),
        case("three heads of 6 features, as many of keys", 3, 3, 6, 5,
             hint="Each head has its own rows. Do any leave their head?"),
        case("4 heads over 2 key heads of 8 features", 4, 2, 8, 6,
             hint="How many heads do the rows of w_k hold? A head is as wide as one of w_q."),
        case("6 heads over one key head", 6, 1, 4, 7),
        case("8 heads over 2 key heads, a square matrix", 8, 2, 4, 32),
        case("float32", 4, 2, 6, 3, kind=np.float32),
    ]


to_neighbours = FunctionExercise(
    _to_neighbours, _row_cases,
    (
        Mistake("wrong_direction", "That is the way from neighbours to halves. Here rows i and i + d/2 are a "
                "pair, and become rows 2i and 2i + 1.", {"order": "inverse"}),
        Mistake("heads_ignored", "You reorder across all rows, so rows leave their head. Each head by "
                "itself.", {"order": "across"}),
        Mistake("second_first", "Of each pair the second row comes first.", {"order": "second_first"}),
        Mistake("halves_exchanged", "The two halves change places, and are halves still.",
                {"order": "halves_exchanged"}),
        Mistake("nothing_done", "The rows come back as they were.", {"order": "same"}),
        Mistake("key_heads_as_query_heads", "You cut w_k into as many heads as w_q. It has fewer, each as "
                "wide as one of w_q: len(w_k) says how many.", {"kv": "as_queries"}),
        Mistake("key_heads_as_group", "You cut w_k into as many heads as queries share one. That is the "
                "size of a group, not the number of key heads.", {"kv": "group"}),
        Mistake("key_heads_as_group", "You take w_k for one head.", {"kv": "one"}),
        Mistake("keys_left", "The keys' matrix comes back as it was. A score is a query times a key: "
                "both are reordered.",
                {"which": "queries"}),
        Mistake("queries_left", "The queries' matrix comes back as it was. A score is a query times a key: "
                "both are reordered.", {"which": "keys"}),
        Mistake("columns", "You reorder the columns, which read the word. The features of queries and keys "
                "are the rows.", {"axis": "columns"}),
        Mistake("results_swapped", "The keys come back first. The order is w_q, w_k.", {"swapped": True}),
    ),
    "Checked with as many key heads as query heads, with fewer, and with one. The values' matrix stays: "
    "values are not turned.",
    properties=(in_torch,),
)  # fmt: skip

# ------------------------------------------------------------- the nucleus


def _top_p(p, top_p, *, keep="reach", order="falling", ties="first", place="back", scale="sum",
           rows="each"):  # fmt: skip
    p = np.asarray(p, float)
    key = {"falling": -p, "rising": p, "as_it_comes": np.zeros_like(p)}[order]
    if ties == "last":
        at = p.shape[-1] - 1 - np.argsort(key[..., ::-1], axis=-1, kind="stable")
    else:
        at = np.argsort(key, axis=-1, kind="stable")
    ordered = np.take_along_axis(p, at, -1)
    sums = ordered.cumsum(-1)
    first = np.arange(p.shape[-1]) == 0
    kept = {
        "reach": lambda: sums - ordered < top_p, "one_more": lambda: sums - ordered <= top_p,
        "below": lambda: sums <= top_p, "below_or_first": lambda: (sums <= top_p) | first,
        "strictly_below": lambda: sums < top_p, "strictly_or_first": lambda: (sums < top_p) | first,
        "each_above": lambda: ordered >= top_p, "each_above_or_first": lambda: (ordered >= top_p) | first,
        "each_above_rest": lambda: ordered >= 1 - top_p, "min_p": lambda: ordered >= top_p * ordered[..., :1],
        "share": lambda: np.cumsum(np.ones(p.shape), -1) <= max(1, round(top_p * p.shape[-1])),
        "tail": lambda: sums > 1 - top_p, "all": lambda: np.ones(p.shape, bool),
    }[keep]()  # fmt: skip
    if ties == "all":
        kept = ordered >= np.where(kept, ordered, 1).min(-1, keepdims=True)
    if rows == "first":
        kept = np.broadcast_to(kept.reshape(-1, p.shape[-1])[0], p.shape)
    new = np.where(kept, ordered, 0.0)
    out = new
    if place == "back":
        out = np.zeros_like(p)
        np.put_along_axis(out, at, new, -1)
    if place == "order_again":
        out = np.take_along_axis(new, at, -1)
    if place == "kept_by_order":
        out = np.where(np.take_along_axis(kept, at, -1), p, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "sum": lambda: out / out.sum(-1, keepdims=True), "none": lambda: out,
            "top_p": lambda: out / top_p, "all_rows": lambda: out / out.sum(),
            "softmax": lambda: np.exp(out) / np.exp(out).sum(-1, keepdims=True),
            "softmax_kept": lambda: np.where(out > 0, np.exp(out), 0)
            / np.where(out > 0, np.exp(out), 0).sum(-1, keepdims=True),
        }[scale]()  # fmt: skip


def _nucleus_cases():
    eighths = np.array([1, 8, 2, 4, 1]) / 16
    rng = np.random.default_rng(154)
    rows = np.stack([rng.dirichlet(np.full(7, sure), size=3) for sure in (0.2, 5.0)])   # few tokens, and many
    return [
        Case("1/2, 1/4, 1/8, 1/16, 1/16 in another order, and 0.8", (eighths, 0.8),
             hint="1/2 and 1/4 make 0.75 and do not reach it; with 1/8 they do."),
        Case("a sum that is reached exactly, 0.75", (eighths, 0.75),
             hint="1/2 and 1/4 reach it. Is a third needed?"),
        Case("0.3, which the first reaches alone", (eighths, 0.3), hint="One token always stays."),
        Case("top_p = 1", (eighths, 1.0)),
        Case("0.99", (eighths, 0.99)),
        Case("four tokens that are all as probable", (np.full(4, 0.25), 0.5),
             hint="Of equal ones the lower id comes first."),
        Case("rows with nuclei of different sizes", (rows, 0.83),
             hint="How many tokens stay is another number in each row."),
        Case("a token of probability 0", (np.array([0.25, 0.0, 0.75]), 1.0)),
        Case("a long row", (rng.dirichlet(np.ones(60)), 0.6)),
        Case("float32", (rng.dirichlet(np.ones(8)).astype(np.float32), 0.61)),
    ]


top_p = FunctionExercise(
    _top_p, _nucleus_cases,
    (
        Mistake("crossing_token_dropped", "The token with which the sum reaches top_p is dropped. The kept "
                "ones must reach it, and one token at least stays.", {"keep": "below"}),
        Mistake("crossing_token_dropped", "The token with which the sum reaches top_p is dropped, unless it "
                "is the first. The kept ones must reach it.", {"keep": "below_or_first"}),
        Mistake("crossing_token_dropped", "Only sums that stay below top_p are kept. The token that reaches "
                "it belongs to the nucleus.", {"keep": "strictly_below"}),
        Mistake("crossing_token_dropped", "Only sums that stay below top_p are kept, and the first token. "
                "The token that reaches it belongs to the nucleus.", {"keep": "strictly_or_first"}),
        Mistake("one_more_when_exact", "Where the sum is top_p exactly, you keep one token more, as Meta's "
                "Llama does. Here the fewest are kept.", {"keep": "one_more"}, convention=True),
        Mistake("each_by_itself", "You keep tokens whose own probability is top_p or more. It is their sum "
                "that has to reach it.", {"keep": "each_above"}),
        Mistake("each_by_itself", "You keep tokens whose own probability is top_p or more, and the first. It "
                "is their sum that has to reach it.", {"keep": "each_above_or_first"}),
        Mistake("each_by_itself", "You keep tokens whose own probability is 1 - top_p or more. It is a sum "
                "that has to reach top_p.", {"keep": "each_above_rest"}),
        Mistake("min_p", "You keep tokens of at least top_p times the largest probability. That is another "
                "rule, called min-p.", {"keep": "min_p"}, convention=True),
        Mistake("share_of_tokens", "You keep top_p of the *tokens*. It is top_p of the probability.",
                {"keep": "share"}),
        Mistake("tail", "Your sum runs up to 1 - top_p and keeps what lies behind. The nucleus is in "
                "front.", {"keep": "tail"}),
        Mistake("nothing_dropped", "All tokens stay.", {"keep": "all"}),
        Mistake("least_probable_first", "The least probable come first in your sum. Begin with the most "
                "probable.", {"order": "rising"}),
        Mistake("not_sorted", "The sum runs in the order of the ids. Sort by probability first.",
                {"order": "as_it_comes"}),
        Mistake("ties", "Of equal tokens the lower id comes first; a stable sort of -p does that.",
                {"ties": "last"}),
        Mistake("ties", "Every token as probable as the last one that is kept stays too. The fewest are "
                "kept: of equal tokens the lower id comes first.", {"ties": "all"}),
        Mistake("order_not_restored", "The result is sorted. Each probability belongs to its token: put it "
                "back in its place.", {"place": "sorted"}),
        *(Mistake("order_not_restored", "What is sorted goes through the order a second time. order[i] is "
                  "the token in place i; the way back is its inverse, the argsort of the order.",
                  {"place": place}) for place in ("order_again", "kept_by_order")),
        Mistake("not_divided", "What is left does not sum to 1. Divide it by its sum.", {"scale": "none"}),
        Mistake("divided_by_top_p", "You divide by top_p. What is left sums to top_p or more: divide by the "
                "sum.", {"scale": "top_p"}),
        Mistake("divided_over_all_rows", "You divide by the sum of all rows. Each row has a sum of its own.",
                {"scale": "all_rows"}),
        Mistake("softmax_again", "You take a softmax of probabilities, and zeros become 1/e apart from the "
                "rest. Divide by the sum.", {"scale": "softmax"}),
        Mistake("softmax_again", "You take a softmax of the kept probabilities. Divide by their sum.",
                {"scale": "softmax_kept"}),
        Mistake("one_count_for_all", "All rows keep as many tokens as the first. Each row has a nucleus of "
                "its own.", {"rows": "first"}),
    ),
    "Checked where the sum is reached exactly, where one token is enough, on ties, rows and zeros. A sure "
    "row keeps few tokens and an unsure one many: that is the difference from top-k.",
    properties=(in_torch, few_digits),
)  # fmt: skip

# ------------------------------------------------------------- a loop that writes


class _Reader:
    """A small model that keeps nothing itself: from tokens and a cache, scores and the longer cache."""

    def __init__(self, seed, vocabulary=30, width=8):
        rng = np.random.default_rng(seed)
        self.words, self.places = rng.normal(size=(vocabulary, width)), rng.normal(size=(400, width))
        self.layers = rng.normal(size=(2, 3, width, width)) * 1.5 / width**0.5
        self.out = rng.normal(size=(width, vocabulary))

    def __call__(self, tokens, positions, visible, cache):
        tokens, positions, visible = map(np.asarray, (tokens, positions, visible))
        held = 0 if cache is None else len(cache[0][0])
        if tokens.ndim != 1 or not tokens.size or tokens.dtype.kind not in "iu":
            raise ValueError(f"read: tokens must be ids (T,), one or more; got shape {tokens.shape}")
        if positions.shape != tokens.shape or positions.dtype.kind not in "iu":
            raise ValueError(f"read: positions must be whole numbers, one for each of {len(tokens)} tokens; "
                             f"got shape {positions.shape}")  # fmt: skip
        if not 0 <= positions.min() <= positions.max() < len(self.places):
            raise ValueError("read: positions are counted from 0, and no text here is that long")
        if visible.dtype != bool or visible.shape != (len(tokens), held + len(tokens)):
            raise ValueError(
                f"read: visible must be booleans of shape ({len(tokens)}, {held + len(tokens)}), {held} "
                f"tokens in the cache and {len(tokens)} new; got {visible.dtype} of shape {visible.shape}"
            )
        x = self.words[tokens] + self.places[positions]
        longer = []
        for n, layer in enumerate(self.layers):
            q, k, v = (x @ w for w in layer)
            if held:
                k, v = np.concatenate([cache[n][0], k]), np.concatenate([cache[n][1], v])
            longer.append((k, v))
            scores = np.where(visible, q @ k.T / k.shape[1] ** 0.5, -np.inf)
            top = scores.max(-1, keepdims=True)
            e = np.exp(scores - np.where(np.isfinite(top), top, 0))
            x = x + np.tanh(e / np.maximum(e.sum(-1, keepdims=True), 1e-300) @ v)
        return x @ self.out, longer


def _write_on(read, prompt, n_new, chunk, *, at="right", mask="right", pick="last", feed="right",
              held="right", out="new"):  # fmt: skip
    prompt, cache, made, read_so_far = [int(t) for t in prompt], None, [], 0
    pieces = [prompt[i : i + chunk] for i in range(0, len(prompt), chunk)]
    if feed == "rest_dropped" and len(pieces) > 1 and len(pieces[-1]) < chunk:
        pieces.pop()
    if feed == "last_again":
        pieces.append(prompt[-1:])
    while True:
        for piece in pieces:
            n, length = read_so_far, len(piece)
            in_prompt = not made and n < len(prompt)
            kept = 0 if cache is None else len(cache[0][0])
            start = {"right": n, "restart": 0, "from_one": n + 1, "new_restart": 0 if made else n,
                     "behind": n - 1 if made else n, "stands_still": min(n, len(prompt)),
                     "gap": n + 1 if made else n, "restart_in_prompt": 0 if in_prompt else n}[at]  # fmt: skip
            i, j = np.arange(length)[:, None], np.arange(kept + length)
            visible = {
                "right": j <= i + kept, "start": j <= i, "all": j >= 0, "own": (j >= kept) & (j <= i + kept),
                "strict": j < i + kept, "later": j <= i + kept + 1,
                "start_in_prompt": j <= i + kept * (not in_prompt),
            }[mask] & np.ones((length, 1), bool)  # fmt: skip
            scores, longer = read(np.array(piece), np.arange(start, start + length), visible, cache)
            cache = longer if held != "first_only" or cache is None else cache
            read_so_far = n + length
        row = {"last": scores[-1], "first": scores[0], "mean": scores.mean(0), "least": -scores[-1]}[pick]
        made.append(int(row.argmax()))
        if len(made) == n_new + (out == "one_more"):
            break
        pieces = {"whole_again": [prompt + made], "last_of_prompt": [prompt[-1:]]}.get(feed, [made[-1:]])
    made = made[:-1] if out == "one_less" else made
    return np.array(prompt + made if out == "all" else made)


def _as_array(function, *args):
    result = function(*args)
    if isinstance(result, (list, tuple)) and result and all(np.ndim(t) == 0 for t in result):
        return np.array([int(t) for t in result])
    return result


def _loop_cases():
    rng = np.random.default_rng(155)

    def case(name, length, chunk, new, seed, hint=""):
        return Case(name, (_Reader(seed), rng.integers(30, size=length), new, chunk), hint=hint)

    return [
        case("a prompt of 4 in one call, one new token", 4, 4, 1, 1,
             hint="Causal inside the prompt, and the last row of the scores says what follows."),
        case("a prompt of 5 in one call, six new tokens", 5, 8, 6, 2,
             hint="At which place is the first new token, and what does it see?"),
        case("a prompt of 6 in chunks of 2, one new token", 6, 2, 1, 3,
             hint="What does the first token of the second chunk see?"),
        case("a prompt of 6 in chunks of 3, five new tokens", 6, 3, 5, 4),
        case("a prompt of 7 in chunks of 3, six new tokens", 7, 3, 6, 5,
             hint="The last chunk is shorter than the others."),
        case("a prompt of one token", 1, 4, 8, 6),
        case("a prompt of 5 token by token", 5, 1, 7, 7),
        case("a prompt of 11 in chunks of 4, nine new tokens", 11, 4, 9, 8),
        case("a prompt of 9 in chunks of 8, twelve new tokens", 9, 8, 12, 9),
    ]


write_on = FunctionExercise(
    _write_on, _loop_cases,
    (
        Mistake("positions_restart", "Positions begin again at 0 in every call. They go on from the tokens "
                "in the cache.", {"at": "restart"}),
        Mistake("positions_restart", "Every new token is at place 0. Its place is the number of tokens "
                "before it, prompt and new ones.", {"at": "new_restart"}),
        Mistake("positions_restart", "In the prompt's later chunks places begin at 0 again. They go on from "
                "the tokens in the cache.", {"at": "restart_in_prompt"}),
        Mistake("positions_restart", "In the prompt's later chunks places begin at 0 again. And the mask "
                "there is aligned at the start: a token sees all of the cache, and its chunk up to itself.",
                {"at": "restart_in_prompt", "mask": "start_in_prompt"}, things=2),
        Mistake("positions_stand_still", "All new tokens are at the place behind the prompt. Each is one "
                "further.", {"at": "stands_still"}),
        Mistake("positions_off_by_one", "Places are counted from 1. They are counted from 0.",
                {"at": "from_one"}),
        Mistake("positions_off_by_one", "A new token gets the place of the one before it. Its place is the "
                "number of tokens read before it.", {"at": "behind"}),
        Mistake("positions_off_by_one", "Between the prompt and the new tokens a place is left out.",
                {"at": "gap"}),
        Mistake("mask_aligned_at_start", "Token i of a call sees the first i + 1 keys, as if the cache were "
                "empty. It sees all of the cache, and the call up to itself: align the mask at the end.",
                {"mask": "start"}),
        Mistake("mask_aligned_at_start", "In the prompt's later chunks token i sees the first i + 1 keys. It "
                "sees all of the cache, and the chunk up to itself.", {"mask": "start_in_prompt"}),
        Mistake("no_mask", "In a call of several tokens each sees the ones after it. One token alone needs "
                "no mask, a chunk does.", {"mask": "all"}),
        Mistake("own_call_only", "A token sees its own call only, nothing of what was read before. Is the "
                "cache handed on, and does the mask let it be seen?", {"mask": "own"}),
        Mistake("does_not_see_itself", "A token does not see itself: the mask's diagonal is one too far "
                "left.", {"mask": "strict"}),
        Mistake("sees_next_token", "A token sees the one after it: the mask's diagonal is one too far "
                "right.", {"mask": "later"}),
        Mistake("wrong_row", "What follows is read off the first row of the scores. The last row has read "
                "everything.", {"pick": "first"}),
        Mistake("wrong_row", "You average the rows of the scores. The last row alone says what follows.",
                {"pick": "mean"}),
        Mistake("least_likely", "You take the token of the smallest score.", {"pick": "least"}),
        Mistake("rest_dropped", "A last chunk that is shorter than the others is left out.",
                {"feed": "rest_dropped"}),
        Mistake("token_read_twice", "The prompt's last token is read again before the first new one. It is "
                "in the cache already: the scores of the last chunk are what you need.",
                {"feed": "last_again"}),
        Mistake("whole_text_again", "Each new token makes you read the whole text again, on top of the cache "
                "that holds it. Read the new token alone.", {"feed": "whole_again"}),
        Mistake("new_tokens_unread", "You go on reading the prompt's last token. The new token is what comes "
                "next.", {"feed": "last_of_prompt"}),
        Mistake("cache_not_updated", "The cache of the first call is handed on for ever.",
                {"held": "first_only"}),
        Mistake("prompt_returned", "The prompt comes back too. Return the new tokens alone.",
                {"out": "all"}),
        Mistake("one_too_few", "One token is missing at the end: n_new tokens are asked for.",
                {"out": "one_less"}),
        Mistake("one_too_many", "One token too many: n_new are asked for, and the last one need not be "
                "read.", {"out": "one_more"}),
    ),
    "Checked with prompts of 1 to 11 tokens in chunks that fit and that do not, and up to twelve new ones. "
    "However the prompt is cut, the same text comes out.",
    drive=_as_array,
)  # fmt: skip

EXERCISES = (
    Exercise(
        "cache_price", "15", cache_price,
        (
            "For one token and one layer, what is kept? Count arrays, heads, numbers and bytes.",
            "Keys and values: two arrays. Each has 8 heads of 128 numbers, two bytes each; 80 layers.",
            "For (b), (c) and (d) write the product down and see which of its factors changes.",
        ),
        "answer = (2 * 80 * 8 * 128 * 2, 8, 1, 16)", "prediction",
    ),
    Exercise(
        "rms_norm", "15", rms_norm,
        (
            "Square, mean over the features, add eps, root: that is the size of each token.",
            "With keepdim the axis stays, so that (..., 1) divides (..., D). Then multiply by the weight.",
            "For float16 and bfloat16: x.float() first, and .to(x.dtype) before the weight.",
        ),
        """import torch

def rms_norm(x, weight, eps):
    y = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    y = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + eps)
    return y.to(x.dtype) * weight""",
        "function",
    ),
    Exercise(
        "swiglu", "15", swiglu,
        (
            "Two branches lead up, one leads down. Which of them is bent?",
            "The gate, x @ w1.T, goes through z * sigmoid(z), the content, x @ w3.T, does not. Their "
            "product, feature by feature, goes down through w2.",
        ),
        """import torch

def swiglu(x, w1, w2, w3):
    gate = x @ w1.T
    return (gate * torch.sigmoid(gate) * (x @ w3.T)) @ w2.T""",
        "function",
    ),
    Exercise(
        "to_neighbours", "15", to_neighbours,
        (
            "Number the rows of one head of 6: 0 to 5. Which two are a pair in halves, and in which order "
            "shall the six stand?",
            "0 3 1 4 2 5: rows as (heads, 2, d/2), the last two axes exchanged, flattened again.",
            "w_k holds len(w_k) // d heads, where d = len(w_q) // n_heads is the width of a head.",
        ),
        """import numpy as np

def to_neighbours(w_q, w_k, n_heads):
    d = len(w_q) // n_heads

    def reordered(w):
        heads = len(w) // d
        return w.reshape(heads, 2, d // 2, -1).swapaxes(1, 2).reshape(w.shape)

    return reordered(w_q), reordered(w_k)""",
        "function",
    ),
    Exercise(
        "top_p", "15", top_p,
        (
            "Sort from the most probable down, and sum up. Which is the last token that you need?",
            "A token stays while the sum *before* it is still below top_p. That keeps the one that reaches "
            "it.",
            "np.argsort(-p, axis=-1, kind='stable') gives the order; np.put_along_axis brings the kept ones "
            "back to their places. Divide by the sum of each row.",
        ),
        """import numpy as np

def top_p(p, top_p):
    order = np.argsort(-p, axis=-1, kind="stable")
    falling = np.take_along_axis(p, order, -1)
    before = falling.cumsum(-1) - falling
    kept = np.zeros_like(p)
    np.put_along_axis(kept, order, np.where(before < top_p, falling, 0), -1)
    return kept / kept.sum(-1, keepdims=True)""",
        "function",
    ),
    Exercise(
        "write_on", "15", write_on,
        (
            "Three things are wrong: where the tokens of a chunk stand, what they see, and what is read "
            "twice.",
            "The number of tokens read so far gives the places of the next ones, and how far the mask is "
            "moved to the right.",
            "After the last chunk the scores' last row gives the first new token. Then read that token "
            "alone, at the next place, with the whole cache to see; n_new - 1 times.",
        ),
        """import numpy as np

def write_on(read, prompt, n_new, chunk):
    cache, n, new = None, 0, []
    pieces = [prompt[i : i + chunk] for i in range(0, len(prompt), chunk)]
    while len(new) < n_new:
        for piece in pieces:
            positions = np.arange(n, n + len(piece))
            visible = np.arange(n + len(piece)) <= positions[:, None]
            scores, cache = read(np.asarray(piece), positions, visible, cache)
            n += len(piece)
        new.append(int(scores[-1].argmax()))
        pieces = [new[-1:]]
    return new""",
        "function",
    ),
)  # fmt: skip

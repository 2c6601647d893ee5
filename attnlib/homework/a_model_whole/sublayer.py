"""A gated feed-forward layer with its norm and its residual: which norm, which gate, and where."""

import numpy as np

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
    Convention("placed", {
        "pre": Option("The norm comes **first** (pre-norm): the result is `x + feed(norm(x))`.",
                      "You put the norm before the layer, inside the residual.", "x + feed(norm(x))",
                      "norm_first"),
        "post": Option("The norm comes **last** (post-norm): the result is `norm(x + feed(x))`.",
                       "You put the norm last, around the residual.", "norm(x + feed(x))", "norm_last"),
    }),
    Convention("norm", {
        "mean_square": Option("`norm(y)`, an RMSNorm, divides each word's vector y by the root of (its "
                              "**mean square** + eps), without taking the mean from it, and "
                              "multiplies by `gain`.",
                              "Your norm divides by the root of the mean square.",
                              "y / (y.square().mean(dim=-1, keepdim=True) + eps).sqrt()",
                              "root_mean_square"),
        "over_d": Option("`norm(y)` takes from each word's vector y its mean, divides by the root of (its "
                         "variance + eps), where the variance is the sum of squares divided by **D**, and "
                         "multiplies by `gain`.",
                         "Your norm divides by the root of the variance, a sum divided by D.",
                         "y / (y.var(dim=-1, correction=0, keepdim=True) + eps).sqrt()", "variance_over_d"),
        "over_less": Option("`norm(y)` takes from each word's vector y its mean, divides by (its standard "
                            "deviation + eps), where the variance is the sum of squares divided by "
                            "**D - 1** and eps is added **to the root**, and multiplies by `gain`.",
                            "Your norm divides by the standard deviation, with D - 1.",
                            "y / (y.std(dim=-1, keepdim=True) + eps)", "deviation_over_d_less_one"),
    }),
    Convention("act", {
        "silu": Option("`act(z)` is z · sigmoid(z), SiLU.", "Your gate is z times its sigmoid.",
                       "gate * gate.sigmoid()", "gate_of_silu"),
        "gelu": Option("`act(z)` is z · Φ(z), GELU, with the normal distribution function "
                       "Φ(z) = (1 + erf(z/√2))/2.",
                       "Your gate is z times its normal distribution function.",
                       "gate * (1 + torch.erf(gate / 2**0.5)) / 2", "gate_of_gelu"),
    }),
)  # fmt: skip
CHOICES = values_of(*CONVENTIONS)
LESSON = {"placed": "pre", "norm": "mean_square", "act": "silu"}
SAMPLE = {"placed": "post", "norm": "over_less", "act": "silu"}

TEXT = """\
Write `sublayer(x, gain, w_in, w_out, eps)`: the second half of a layer, in which each word thinks for itself.

`x` has shape `(B, L, D)`, and so has the result; `gain` has shape `(D,)`, `w_in` `(D, 2F)` and `w_out`
`(F, D)`.

- {norm}
- `feed(y)` is `(act(g) * u) @ w_out`, where the first F columns of `y @ w_in` are g and the other F are u.
- {act}
- {placed}"""

STUB = """\
def sublayer(x, gain, w_in, w_out, eps):
    \"\"\"A gated feed-forward layer with norm and residual, (B, L, D).\"\"\""""

SOLUTION = """\
    def norm(y):
{centred}        return gain * <norm>

    def feed(y):
        gate, up = (y @ w_in).chunk(2, dim=-1)
        return (<act> * up) @ w_out

    return <placed>"""

CENTRED = "        y = y - y.mean(dim=-1, keepdim=True)\n"


def compute(x, gain, w_in, w_out, eps, *, placed="pre", norm="mean_square", act="silu", eps_at="right",
            over=-1, gained="times", cut="halves", gated="product", residual="x", twice=False,
            on="right", centred=True, rooted=True, exact=True, counted="right"):  # fmt: skip
    """In NumPy, which is quicker on so few numbers."""
    import torch

    x, gain, w_in, w_out = (a.numpy() for a in (x, gain, w_in, w_out))

    def normed(y):
        mean_square = norm == "mean_square"
        y = y if mean_square or not centred else y - y.mean(over, keepdims=True)
        less = (norm == "over_less") != (counted == "otherwise")
        n = y.size // y.mean(over).size - less
        around = 0 if mean_square or centred else y.mean(over, keepdims=True)
        square = ((y - around) ** 2).sum(over, keepdims=True) / n
        outside = (norm == "over_less") != (eps_at == "elsewhere")
        add = 0 if eps_at == "nowhere" else eps
        root = np.sqrt(square) + add if outside else np.sqrt(square + add)
        root = root if rooted else root**2
        return y / root * {"times": gain, "on_top": 1 + gain, "none": 1}[gained]

    def feed(y):
        both = y @ w_in
        g, u = (both[..., ::2], both[..., 1::2]) if cut == "turns" else np.split(both, 2, -1)
        g, u = (u, g) if cut == "exchanged" else (g, u)
        f = _ACTS["gelu_by_tangent" if act == "gelu" and not exact else act if on == "right" else on]
        hidden = {"product": lambda: f(g) * u, "sum": lambda: f(g) + u, "gate_alone": lambda: f(g),
                  "both": lambda: f(g) * f(u), "of_product": lambda: f(g * u),
                  "linear": lambda: g * u}[gated]()  # fmt: skip
        return hidden @ w_out

    if placed == "pre":
        y = normed(x)
        out = {"x": x, "normed": y, "none": 0}[residual] + feed(y)
        out = normed(out) if twice else out
    elif residual == "normed":
        out = x + normed(feed(x))
    else:
        out = normed((0 if residual == "none" else x) + feed(normed(x) if twice else x))
    return torch.from_numpy(out)


def _gelu(z):
    import torch

    return z * (1 + torch.erf(torch.from_numpy(z / 2**0.5)).numpy()) / 2


_ACTS = {
    "silu": lambda z: z / (1 + np.exp(-z)), "sigmoid": lambda z: 1 / (1 + np.exp(-z)), "tanh": np.tanh,
    "relu": lambda z: np.maximum(z, 0), "gelu": _gelu,
    "erf_of_z": lambda z: (_gelu(z * 2**0.5) / 2**0.5),
    "gelu_by_tangent": lambda z: z * (1 + np.tanh((2 / np.pi) ** 0.5 * (z + 0.044715 * z**3))) / 2,
}  # fmt: skip


def cases(rng, choice):
    import torch

    def made(b, length, width, wide, eps=1e-5, size=1.0, base=0.0):
        def drawn(*shape):
            return torch.from_numpy(rng.normal(size=shape))

        x = drawn(b, length, width) * size + base
        return x, 1 + drawn(width) / 2, drawn(width, 2 * wide), drawn(wide, width), eps

    return [
        Case("2 sentences of 3 words, D = 4 and F = 6", made(2, 3, 4, 6, size=2.0, base=0.5),
             hint="Take one word. Compute its norm with a pencil, and compare: is its mean square, or its "
                  "variance, what it should be?"),
        Case("a large eps", made(2, 3, 6, 5, 0.5), hint="Where is eps added?"),
        Case("as many words as features", made(3, 4, 4, 8, size=2.0)),
        Case("one word of two features", made(1, 1, 2, 3, 0.1)),
        Case("words far from 0", made(2, 4, 8, 6, base=5.0)),
        Case("words as small as the root of eps", made(2, 2, 6, 6, 1e-4, size=0.01)),
        Case("F = 1", made(2, 3, 5, 1, size=3.0)),
    ]  # fmt: skip


OF_A_VARIANCE = ("mean_not_taken", "variance_counted_otherwise")
OF_GELU = ("gelu_approximated", "erf_without_root")


def mistakes_under(choice):
    """The mistakes that are some under the conventions of a class."""
    return tuple(
        mistake for mistake in MISTAKES
        if (choice["norm"] != "mean_square" or mistake.name not in OF_A_VARIANCE)
        and (choice["act"] == "gelu" or mistake.name not in OF_GELU)
    )


MISTAKES = (
    Mistake("no_residual", "Your result is the layer's alone. What the word was before is added to it.",
            {"residual": "none"}),
    Mistake("residual_of_the_norm", "Your residual lies at the wrong side of the norm. Which of the two, x "
            "or norm(x), is added, and what is normed at all?", {"residual": "normed"}),
    Mistake("normed_twice", "You norm before and after. One of the two is asked for.", {"twice": True}),
    Mistake("norm_over_the_words", "Your norm runs over the words of a sentence. Each word is normed by "
            "itself, over its features.", {"over": 1}),
    Mistake("norm_over_words_and_features", "Your norm runs over words and features together. Each word is "
            "normed by itself.", {"over": (1, 2)}),
    Mistake("norm_over_all", "Your norm takes its mean from all sentences, words and features together. Each "
            "word is normed by itself.", {"over": (0, 1, 2)}),
    Mistake("variance_counted_otherwise", "The number by which your sum of squares is divided is off by one: "
            "D or D - 1? torch's var and std divide by D - 1 unless they are told otherwise.",
            {"counted": "otherwise"}),
    Mistake("gain_missing", "Your norm does not multiply by gain.", {"gained": "none"}),
    Mistake("one_and_gain", "You multiply by 1 + gain. Take gain as it is.", {"gained": "on_top"}),
    Mistake("eps_elsewhere", "Your eps is added at another spot. Under the root, or to it?",
            {"eps_at": "elsewhere"}),
    Mistake("eps_missing", "Your eps has no effect.", {"eps_at": "nowhere"}),
    Mistake("root_missing", "You divide without taking the root.", {"rooted": False}),
    Mistake("mean_not_taken", "Your norm divides and does not take the mean from the vector first.",
            {"centred": False}),
    Mistake("gate_and_up_exchanged", "You take the last F columns for the gate. The first F are.",
            {"cut": "exchanged"}),
    Mistake("columns_take_turns", "You take every second column for the gate. The first F are.",
            {"cut": "turns"}),
    Mistake("gate_added", "You add gate and u. They are multiplied.", {"gated": "sum"}),
    Mistake("gate_alone", "You use the gate alone: u has no effect.", {"gated": "gate_alone"}),
    Mistake("both_gated", "You take act of u, too. Of g alone.", {"gated": "both"}),
    Mistake("act_of_the_product", "You multiply first and take act of the product. Of g alone.",
            {"gated": "of_product"}),
    Mistake("act_missing", "Your gate is g itself, without act.", {"gated": "linear"}),
    Mistake("sigmoid_alone", "Your gate is the sigmoid alone.", {"on": "sigmoid"}),
    Mistake("gate_of_relu", "Your gate is the larger of g and 0.", {"on": "relu"}),
    Mistake("erf_without_root", "Your erf is of z itself. It is of z/√2.", {"on": "erf_of_z"}),
    Mistake("tangent", "Your gate is the hyperbolic tangent.", {"on": "tanh"}),
    Mistake("gelu_approximated", "Your act is the approximation with a hyperbolic tangent. The exact Φ is "
            "asked for.", {"exact": False}),
)  # fmt: skip


def question(choice):
    template = SOLUTION.format(centred="" if choice["norm"] == "mean_square" else CENTRED)
    return Question(
        id="sublayer", title="Each word for itself",
        kind="function", name="sublayer", points=4, part=2, minutes=14,
        text=TEXT.format(**said(CONVENTIONS, choice)),
        stub=STUB,
        solution=filled(template, CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, mistakes_under(choice), cases,
            "Norm, gate and residual are right, for words near 0 and far from it, and eps stands where it "
            "should.", visible=4, atol=1e-5,
        ),
        forbids=("layer_norm", "rms_norm", "group_norm", "native_layer_norm", "LayerNorm", "RMSNorm",
                 "GroupNorm"),
    )  # fmt: skip

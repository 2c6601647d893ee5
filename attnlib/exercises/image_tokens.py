"""Lesson 22: how many tokens an image has, tokens laid out as an image, and what their order does."""

import numpy as np

from attnlib.exercises.answers import numbers
from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake
from attnlib.exercises.statements import which_hold
from attnlib.exercises.verdict import right, wrong

# ------------------------------------------------------------- a finer photograph

_WRONG_TOKENS = {
    9: ("patches_forgotten", "Three times the pixels on each side are nine times the pixels. Patches of half "
        "the side hold fewer of them, so there are more patches still."),
    18: ("halved_once", "A patch of half the side has a quarter of the pixels, and not half of them."),
    12: ("one_side", "An image grows along both sides: three times the width and three times the height."),
    6: ("one_side", "Six times as many patches lie along one side. An image has two."),
    3: ("one_side", "An image grows along both sides, and so does the number of patches."),
    1.5: ("larger_patches", "Smaller patches make more tokens, not fewer. And an image has two sides."),
    4.5: ("larger_patches", "Smaller patches make more tokens, not fewer."),
    36**2: ("tokens_squared", "That is how the pairs grow."),
    2.25: ("larger_patches", "Smaller patches make more tokens, not fewer."),
}  # fmt: skip


def image_grows(answer):
    """Factors of tokens, of pairs and of ReLU attention's work: three times the side, half the patch."""
    given, complaint = numbers(answer, (3,), "your answer")
    if complaint:
        return complaint
    tokens, pairs, work = given
    if np.allclose(given, (36, 1296, 36), rtol=1e-3):
        return right(
            "Six times as many patches along each side, so 6 * 6 = 36 times the tokens, 36 * 36 = "
            "1,296 times the pairs, and 36 times the work of ReLU attention."
        )
    for factor, (name, told) in _WRONG_TOKENS.items():
        if np.isclose(tokens, factor):
            return wrong(f"(a) is not {factor:,g}. {told}", name)
    if not np.isclose(tokens, 36, rtol=1e-3):
        return wrong(
            "Begin with (a): how many times as many patches lie along one side of the photograph? "
            "Three times the pixels, and each patch takes half as many.",
            "tokens",
        )
    if np.isclose(pairs, 36):
        return wrong(
            "(a) is right. Every token meets every token, so pairs grow faster than tokens do.",
            "pairs_as_tokens",
        )
    if np.isclose(pairs, 72):
        return wrong(
            "(a) is right. Pairs are tokens times tokens: square the factor, do not double it.", "doubled"
        )
    if not np.isclose(pairs, 1296, rtol=1e-3):
        return wrong("(a) is right. (b): with n tokens there are n * n pairs.", "pairs")
    if np.isclose(work, 1296):
        return wrong(
            "(a) and (b) are right. ReLU attention makes no pairs: it sums over the keys once, and "
            "each query reads the sums.",
            "work_as_pairs",
        )
    if np.isclose(work, 6):
        return wrong(
            "(a) and (b) are right. ReLU attention's work grows as the tokens, not as their root.",
            "work_as_side",
        )
    if np.isclose(work, 1):
        return wrong(
            "(a) and (b) are right. The sums stay as large as they were, but every token is still "
            "added to them, and every query reads them.",
            "work_constant",
        )
    return wrong("(a) and (b) are right. (c) is 2 n d d, and only n has changed.", "work")


# ------------------------------------------------------------- tokens as an image


def _padded(image, widths, edge):
    """The image with what is taken to lie around it."""
    if edge == "none":
        return image
    if edge == "negative":  # index -1 is the last; beyond the last nothing is added
        return np.pad(np.pad(image, [(a, 0) for a, _ in widths], "wrap"), [(0, b) for _, b in widths])
    if edge == "run_on":  # token t has the neighbours t - 1 and t + 1, wherever a row ends
        d, H, W = image.shape
        lines = np.pad(image.reshape(d, -1), ((0, 0), (W + 1, W + 1)))
        return np.stack([lines[:, i * W : i * W + W + 2] for i in range(H + 2)], 1)
    modes = {"zero": "constant", "wrap": "wrap", "edge": "edge", "mirror": "reflect"}
    return np.pad(image, widths, modes[edge])


@np.errstate(all="ignore")
def _convolution(x, kernels, grid, *, enter="right", leave="right", sides="right", kernel="right",
                 edge="zero", features="own", anchor="middle"):  # fmt: skip
    (H, W), d = grid, x.shape[-1]
    if sides == "exchanged":
        H, W = W, H
    image = {"right": lambda: x.T.reshape(d, H, W), "reshape": lambda: x.reshape(d, H, W),
             "columns": lambda: x.T.reshape(d, W, H).swapaxes(1, 2)}[enter]()  # fmt: skip
    kernels = {"right": kernels, "transposed": kernels.swapaxes(1, 2), "flipped": kernels[:, ::-1, ::-1],
               "rows_turned": kernels[:, ::-1], "columns_turned": kernels[:, :, ::-1],
               "first": kernels[:1] + 0 * kernels, "mean": kernels.mean(0) + 0 * kernels}[kernel]  # fmt: skip
    before = {"middle": 1, "corner": 0, "end": 2}[anchor]
    image = _padded(image, ((0, 0), (before, 2 - before), (before, 2 - before)), edge)
    H, W = (n - 2 for n in image.shape[1:])
    out = sum(kernels[:, i, j, None, None] * image[:, i : i + H, j : j + W]
              for i in range(3) for j in range(3))  # fmt: skip
    if edge == "none":
        return out.reshape(d, -1).T
    if features == "mixed":
        out = out.sum(0) + 0 * out
    return {"right": lambda: out.reshape(d, -1).T, "reshape": lambda: out.reshape(x.shape),
            "columns": lambda: out.swapaxes(1, 2).reshape(d, -1).T,
            "lines": lambda: out.reshape(d, -1), "image": lambda: out,
            "features_last": lambda: np.moveaxis(out, 0, -1)}[leave]()  # fmt: skip


def _cases():
    rng = np.random.default_rng(221)

    def case(name, H, W, d, hint="", kind=np.float64):
        return Case(name, (rng.normal(size=(H * W, d)).astype(kind), rng.normal(size=(d, 3, 3)).astype(kind),
                           (H, W)), hint=hint)  # fmt: skip

    one = np.zeros((20, 2))
    one[7] = 1, 2
    shapes = np.arange(18.0).reshape(2, 3, 3) + 1
    return [
        case(
            "3 by 4 tokens of 2 features",
            3,
            4,
            2,
            hint="Take a kernel that is 1 in its middle and 0 elsewhere: then the result must be x. If it "
            "is, move the 1 to kernels[:, 0, 1]: then row 0 must be 0, and each other row the one above it.",
        ),
        Case(
            "4 by 5 tokens, all 0 but one in row 1, column 2",
            (one, shapes, (4, 5)),
            hint="That token can only matter to itself and to the eight around it, in rows 0 to 2 and "
            "columns 1 to 3.",
        ),
        case("5 by 2 tokens of 3 features", 5, 2, 3),
        case("one row of 6 tokens", 1, 6, 2, hint="Above and below there is nothing: zeros."),
        case("one feature", 4, 3, 1),
        case("3 by 3 tokens of 3 features", 3, 3, 3),
        case("8 by 7 tokens of 5 features", 8, 7, 5),
        case("float32", 3, 5, 4, kind=np.float32),
        case("the sizes of the first case and other numbers", 3, 4, 2),
    ]


_NOT_TRANSPOSED = (
    "The tokens are reshaped without a transpose, so features and places are mixed. (H W, d) must become "
    "(d, H W) before it is cut into rows. "
)
_TURNED = "The kernel's rows and columns are exchanged: kernels[c, a, b] belongs to row a and column b. "
_WRAPPED = "What leaves the image on one side comes in on the other. Outside there are zeros. "

_CONVOLUTION_MISTAKES = (
    Mistake("unmended", _NOT_TRANSPOSED + _WRAPPED + _TURNED + "These are the three faults of the text.",
            {"enter": "reshape", "leave": "reshape", "kernel": "transposed", "edge": "wrap"}, things=3),
    Mistake("not_transposed", _NOT_TRANSPOSED + "On the way back likewise.",
            {"enter": "reshape", "leave": "reshape"}),
    Mistake("not_transposed", _NOT_TRANSPOSED + "On the way back you do it.", {"enter": "reshape"}),
    Mistake("not_transposed", "The way in is right. On the way back (d, H W) must be transposed to (H W, d), "
            "and not only reshaped.", {"leave": "reshape"}),
    Mistake("wrapped", _WRAPPED.strip(), {"edge": "wrap"}),
    Mistake("repeated_edge", "Outside the image the edge is repeated. There are zeros.", {"edge": "edge"}),
    Mistake("repeated_edge", "Outside the image its mirror image is taken. There are zeros.",
            {"edge": "mirror"}),
    Mistake("rows_run_on", "Neighbours are counted along the line of tokens, so the last of a row meets the "
            "first of the next. Look at rows and columns, and take 0 beyond either.", {"edge": "run_on"}),
    Mistake("negative_index", "To the left and above, row or column -1 is taken, which for NumPy is the last "
            "one. There are zeros.", {"edge": "negative"}),
    Mistake("no_padding", "Without anything around the image the result is smaller than it. Lay zeros "
            "around it first.", {"edge": "none"}),
    Mistake("kernel_transposed", _TURNED.strip(), {"kernel": "transposed"}),
    Mistake("kernel_flipped", "Your kernel is turned round, as mathematics defines a convolution. Here, as "
            "in PyTorch, kernels[c, 0, 0] belongs to the neighbour above and to the left.",
            {"kernel": "flipped"}, convention=True),
    Mistake("kernel_flipped", "The rows of your kernel are turned round: kernels[c, 0] belongs to the row "
            "above.", {"kernel": "rows_turned"}),
    Mistake("kernel_flipped", "The columns of your kernel are turned round: kernels[c, :, 0] belongs to the "
            "column on the left.", {"kernel": "columns_turned"}),
    Mistake("one_kernel", "All features get the first kernel. Each has its own.", {"kernel": "first"}),
    Mistake("one_kernel", "All features get the mean of the kernels. Each has its own.", {"kernel": "mean"}),
    Mistake("features_mixed", "The features are summed, as in an ordinary convolution. Depthwise means that "
            "each feature stays by itself.", {"features": "mixed"}),
    Mistake("sides_exchanged", "Rows and columns of the grid are exchanged: H is the number of rows, W of "
            "columns.", {"sides": "exchanged"}),
    Mistake("by_columns", "You lay the tokens out column by column. They come row by row.",
            {"enter": "columns", "leave": "columns"}),
    Mistake("by_columns", "You lay the tokens out column by column on the way in. They come row by row.",
            {"enter": "columns"}),
    Mistake("by_columns", "You read the result column by column. Tokens go row by row.",
            {"leave": "columns"}),
    Mistake("not_centred", "The kernel's first entry meets the token itself. Its middle one does, "
            "kernels[c, 1, 1].", {"anchor": "corner"}),
    Mistake("not_centred", "The kernel's last entry meets the token itself. Its middle one does, "
            "kernels[c, 1, 1].", {"anchor": "end"}),
    Mistake("features_first", "The result has a row for each feature. x has one for each token: transpose.",
            {"leave": "lines"}),
    Mistake("still_an_image", "The result is still an image. Bring it back to the shape of x.",
            {"leave": "image"}),
    Mistake("still_an_image", "The result is still an image, with its features last. Bring it back to the "
            "shape of x.", {"leave": "features_last"}),
)  # fmt: skip

token_convolution = FunctionExercise(
    compute=_convolution,
    cases=_cases,
    mistakes=_CONVOLUTION_MISTAKES,
    praise="All three faults are mended: the transpose on both ways, zeros outside, rows before columns in "
           "the kernel. Images of 3 by 3 tokens with 3 features hide none of them any more.",
    properties=(in_torch, few_digits),
)  # fmt: skip

# ------------------------------------------------------------- order

_CLAIMS = {  # whether it holds, and what to look at where it is taken for the other
    "A": (True, "equivariant", "An output is a sum over all keys, and a sum does not ask in which order. "
          "The lesson compared the two."),
    "B": (True, "invariant", "Each layer gives shuffled outputs for shuffled inputs, plain nets look at one "
          "token at a time, and a mean does not ask for the order."),
    "C": (False, "causal", "Under a causal mask a patch sees those before it. Who stands before it after "
          "shuffling?"),
    "D": (False, "padding", "The lesson's grey wall: what does a corner meet outside the image?"),
    "E": (True, "positions_by_place", "A patch that moves gets another position added, so queries and keys "
          "are not the same any more."),
    "F": (True, "local", "A 3 by 3 convolution sees eight neighbours. If they are all alike, and no edge is "
          "near, what could tell the place?"),
}  # fmt: skip


def _order_claims(answer):
    return which_hold(answer, _CLAIMS, (
        "A, B, E and F. Attention alone sees a bag of patches, all of it. A convolution sees neighbours and "
        "edges, and nothing else. A causal mask and added positions both bring the order in."
    ))  # fmt: skip


_GROWS_SOLUTION = """
answer = (36, 1296, 36)     # 6 times as many patches along each side
"""

_CONVOLUTION_SOLUTION = """
import numpy as np


def token_convolution(x, kernels, grid):
    H, W = grid
    image = x.T.reshape(-1, H, W)
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    out = 0
    for i in range(3):
        for j in range(3):
            out = out + kernels[:, i, j, None, None] * padded[:, i : i + H, j : j + W]
    return out.reshape(len(image), -1).T
"""

_CLAIMS_SOLUTION = """
answer = "ABEF"
"""

EXERCISES = (
    Exercise("image_grows", "22", image_grows, (
        "Along one side there are three times as many pixels, and each patch takes half as many of them.",
        "The factor along one side counts twice for tokens, and tokens count twice for pairs.",
        "Six along each side. ReLU attention has 2 n d d multiplications.",
    ), _GROWS_SOLUTION, "prediction"),
    Exercise("token_convolution", "22", token_convolution, (
        "x[1] is a token: its d numbers belong to one place. After x.reshape(d, H, W), where do they stand?",
        "Let the kernel be 1 in its middle and 0 elsewhere, and ask which line changes x. Then move the 1 to "
        "kernels[:, 0, 1], the neighbour above.",
        "Transpose before the reshape and after it, pad with zeros, and let i go with the first axis of the "
        "kernel.",
    ), _CONVOLUTION_SOLUTION, "function"),
    Exercise("order_claims", "22", _order_claims, (
        "For A and B, write an output as a sum over the keys. For C, ask over which keys.",
        "For D and F, draw a 3 by 3 window in a corner, and one in the middle.",
        "Four of the six hold.",
    ), _CLAIMS_SOLUTION, "construction"),
)  # fmt: skip

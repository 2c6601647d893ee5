"""Lesson 25: a memory that is trained while it reads, and the gradient of one that norms its answer."""

import numpy as np

from attnlib.exercises.common import few_digits, in_torch
from attnlib.exercises.compare import floats
from attnlib.exercises.exercise import Exercise
from attnlib.exercises.function import Case, FunctionExercise, Mistake

# ------------------------------------------------------------- the recurrence


@np.errstate(all="ignore")
def _memory(q, k, v, theta, eta, alpha, *, factor=2.0, at="kept", read="after", sign=1.0, dials="right",
            error="right", decay="memory", momentum="right", time="own", result="out"):  # fmt: skip
    """`learning_memory`, with a choice for each way of getting it wrong."""
    if dials != "right":
        theta, eta, alpha = {"alpha_eta": (theta, alpha, eta), "theta_eta": (eta, theta, alpha),
                             "theta_alpha": (alpha, eta, theta), "kept_share": (theta, eta, 1 - alpha),
                             "fla": (eta, alpha, theta),
                             "sigmoids": [1 / (1 + np.exp(-x)) for x in (theta, eta, alpha)],
                             }[dials]  # fmt: skip
    if time != "own":
        theta, eta, alpha = ({"first": np.full_like(x, x[0]), "mean": np.full_like(x, x.mean()),
                              "late": np.concatenate([x[:1], x[:-1]])}[time]
                             for x in (theta, eta, alpha))  # fmt: skip
    length, (d, dv) = len(k), (k.shape[1], v.shape[1])
    if factor == "mean":
        factor = 2.0 / dv
    M = S = np.zeros((d, dv))
    out = np.zeros((length, dv))
    for t in range(length):
        before, past = M, S
        base = {"kept": M, "forgotten": (1 - alpha[t]) * M,
                "ahead": (1 - alpha[t]) * M + eta[t] * S, "moved": (1 - alpha[t]) * M + S}[at]  # fmt: skip
        asked = q[t] if error == "query" else k[t]
        written = q[t] if error == "writes_query" else k[t]
        if error == "normed_key":
            asked = written = k[t] / np.linalg.norm(k[t])
        missed = asked @ base - v[t]
        if error == "target":
            missed = -v[t]
        if error == "sign":
            missed = missed / np.maximum(np.linalg.norm(missed), 1e-300)
        step = sign * theta[t] * factor * np.outer(written, missed)
        if momentum == "average":
            step = (1 - eta[t]) * step
        S = eta[t] * S - step
        if momentum == "none":
            S = -step
        elif momentum == "with_theta":
            S = eta[t] * past - factor * sign * np.outer(written, missed)
        if decay in ("both", "step"):
            S = (1 - alpha[t]) * S
        moved = {"right": S, "late": past, "nesterov": eta[t] * S - step, "with_theta": theta[t] * S,
                 "theta_twice": theta[t] * S, "average": S, "none": S,
                 "twice": S - step}[momentum]  # fmt: skip
        kept = {"memory": (1 - alpha[t]) * before, "both": (1 - alpha[t]) * before, "none": before,
                "after": before, "weighs": (1 - alpha[t]) * before, "one_array": before,
                "step": before}[decay]  # fmt: skip
        M = kept + moved
        if decay == "after":
            M = (1 - alpha[t]) * M
        elif decay == "weighs":
            M = kept + alpha[t] * moved
        elif decay == "one_array":                     # S *= eta, S -= step, M *= 1 - alpha, M += S
            M = S = 2 * (1 - alpha[t]) * S
        source = {"after": M, "end": M, "before": before, "momentum": S}[read]
        asking = k[t] if error == "reads_key" else q[t]
        out[t] = asking @ source
    if read == "end":
        out = q @ M
    return {"out": out, "last": out[-1:], "memory": M, "with_memory": (out, M), "half": out.astype(np.float16)
            }[result]  # fmt: skip


def _memory_mistakes():
    yield Mistake("no_two", "The factor 2 of the gradient is missing: the loss is the square itself, not "
                  "half of it.", {"factor": 1.0}, convention=True)
    yield Mistake("mean_loss", "Your loss is the mean over the features of v. It is their sum here.",
                  {"factor": "mean"}, convention=True)
    yield Mistake("read_before", "You read the memory before the token is learned: off by one. y_t = q_t M_t "
                  "has token t in it.", {"read": "before"}, convention=True)
    yield Mistake("climbs", "The step goes along the gradient, up the loss. It goes against it.",
                  {"sign": -1.0})
    yield Mistake("error_after_forgetting", "The error is taken at (1 - alpha) M. It is taken at M as the "
                  "last token left it; only the new memory is shrunk.", {"at": "forgotten"})
    yield Mistake("error_ahead", "The error is taken where the momentum is going to lead (Nesterov's way). "
                  "It is taken at M as it is.", {"at": "ahead"})
    yield Mistake("no_error", "You write v, whatever the memory knows already, or take all errors at the "
                  "empty memory. Nothing is corrected then; the gradient has k M - v.", {"error": "target"})
    yield Mistake("error_of_the_query", "The error is that of the query's answer. What is learned is the "
                  "pair k, v; q only reads.", {"error": "query"})
    yield Mistake("writes_query", "The error is written to the query. It belongs to the key.",
                  {"error": "writes_query"})
    yield Mistake("reads_key", "You read with the key. The output is q_t M_t.", {"error": "reads_key"})
    yield Mistake("reads_momentum", "You read S. The output is read from M.", {"read": "momentum"})
    yield Mistake("normed_error", "The error is divided by its length. The gradient grows with the error.",
                  dict(error="sign"), rare=True)
    yield Mistake("normed_key", "You scale the key to length 1. It is learned as it is; who calls has chosen "
                  "its length.", dict(error="normed_key"), rare=True)
    yield Mistake("sigmoids_again", "A sigmoid of the dials is taken. They come ready for use, between 0 and "
                  "1.", dict(dials="sigmoids"), rare=True)
    yield Mistake("dials_exchanged", "Two dials are exchanged, eta and alpha: eta carries the last step on, "
                  "alpha forgets.", {"dials": "alpha_eta"})
    yield Mistake("dials_exchanged", "Two dials are exchanged, theta and eta: theta is the size of the step, "
                  "eta carries the last one on.", {"dials": "theta_eta"})
    yield Mistake("dials_exchanged", "Two dials are exchanged, theta and alpha: theta is the size of the "
                  "step, alpha forgets.", {"dials": "theta_alpha"})
    yield Mistake("dials_exchanged", "The dials are exchanged in a ring: alpha serves as momentum, eta as "
                  "the step. theta is the step, eta the momentum, alpha forgets.", {"dials": "fla"})
    yield Mistake("alpha_stays", "Your alpha is what stays in the memory. Here it is what is forgotten; 1 - "
                  "alpha stays.", {"dials": "kept_share"}, convention=True)
    yield Mistake("nothing_forgotten", "The dial alpha is not used: nothing is forgotten.", {"decay": "none"})
    yield Mistake("momentum_forgets", "Your alpha shrinks S as well. It takes from M alone; S has eta.",
                  {"decay": "both"})
    yield Mistake("forgets_the_new", "The whole sum, M + S, is shrunk. Only the old memory is; the new step "
                  "counts in full.", {"decay": "after"})
    yield Mistake("alpha_weighs", "Your alpha weighs the new step against the old memory. It shrinks the old "
                  "memory; S counts in full.", {"decay": "weighs"})
    yield Mistake("shrinks_the_step", "Your alpha shrinks S in place of M. What is forgotten is the old "
                  "memory.", dict(decay="step"), rare=True)
    yield Mistake("one_array", "M and S are one array: with M = S = zeros, what is done to S in place (S *= "
                  "..., S -= ...) is done to M. Each needs its own.", dict(decay="one_array"), rare=True)
    yield Mistake("no_momentum", "S does not go on: each step is the token's own. eta times the last S "
                  "belongs to it.", {"momentum": "none"})
    yield Mistake("momentum_late", "M gets the S of the token before. First the new S, then M with it.",
                  {"momentum": "late"})
    yield Mistake("momentum_late", "M moves by the old S before the error is taken. First the error and the "
                  "new S, then M with it.", dict(momentum="late", at="moved"), rare=True)
    yield Mistake("nesterov", "The momentum is added twice over, Nesterov's way. M gets S once.",
                  {"momentum": "nesterov"})
    yield Mistake("theta_on_all", "Your theta multiplies the whole S, past steps too. It belongs to the "
                  "gradient; past steps keep the size they had.", {"momentum": "with_theta"})
    yield Mistake("theta_twice", "Your theta is there twice: at the gradient, and at S when M gets it. It "
                  "belongs to the gradient alone.", dict(momentum="theta_twice"), rare=True)
    yield Mistake("average", "The new gradient has a factor 1 - eta, as in a moving average. Here it counts "
                  "in full.", {"momentum": "average"}, convention=True)
    yield Mistake("step_twice", "The gradient goes into S and again into M. It reaches M through S.",
                  dict(momentum="twice"), rare=True)
    yield Mistake("first_dials", "All tokens use the dials of the first. Each has its own.",
                  {"time": "first"})
    yield Mistake("mean_dials", "All tokens use the mean of the dials. Each has its own.", {"time": "mean"})
    yield Mistake("late_dials", "Each token uses the dials of the one before.", {"time": "late"})
    yield Mistake("read_at_the_end", "All queries read the memory of the end. Query t reads it "
                  "after token t.", {"read": "end"})
    yield Mistake("last_only", "Only the last output comes back. Each token has one.",
                  dict(result="last"), rare=True)
    yield Mistake("memory_returned", "The memory comes back. The outputs are asked for, a row for each "
                  "token.", dict(result="memory"), rare=True)
    yield Mistake("with_memory", "Return the outputs alone, without the memory.",
                  dict(result="with_memory"), rare=True)
    yield Mistake("half_precision", "The result has only the three digits of half precision.",
                  dict(result="half"), rare=True)


def _memory_cases():
    rng = np.random.default_rng(25)

    def case(name, length, d, dv, hint="", *, theta=0.15, eta=(0.2, 0.9), alpha=(0.02, 0.5), size=0.6,
             kind=np.float64):  # fmt: skip
        tokens = (rng.normal(size=(length, n)) * size for n in (d, d, dv))
        dials = (rng.uniform(0.3 * theta, theta, length), rng.uniform(*eta, length),
                 rng.uniform(*alpha, length))  # fmt: skip
        return Case(name, tuple(x.astype(kind) for x in (*tokens, *dials)), hint=hint)

    return [
        case("5 tokens, d = 3 and dv = 4", 5, 3, 4,
             "Compute the first two tokens by hand. After the first, M is 2 theta_0 k_0^T v_0."),
        case("one token", 1, 3, 2, "Its output is 2 theta_0 (q_0 . k_0) v_0."),
        case("two tokens", 2, 3, 2, "The second error is taken at the memory after the first."),
        case("no momentum", 6, 3, 2, "eta is 0 throughout: M_t = (1 - alpha_t) M_{t-1} - theta_t grad.",
             eta=(0, 0)),
        case("nothing forgotten", 6, 3, 2, "alpha is 0 throughout.", alpha=(0, 0)),
        case("all sizes 4", 4, 4, 4, "L, d and dv are the same: is anything transposed?"),
        case("dv 1", 7, 3, 1, "v has one column, and so has the output."),
        case("d 1", 5, 1, 3),
        case("the sizes of the first case and other numbers", 5, 3, 4, "The sizes were there before: is "
             "something kept?"),
        case("40 tokens", 40, 4, 3, "Does anything stop before the end?"),
        case("much momentum", 20, 3, 3, eta=(0.9, 0.99), theta=0.05),
        case("much forgetting", 8, 3, 2, alpha=(0.8, 1.0)),
        case("float32", 6, 3, 4, kind=np.float32),
    ]


def _rows(case, value, expected):
    value = floats(value)
    if value is None or value.shape != expected.shape:
        return None
    if not np.isfinite(value).all():
        return "There are NaN or infinite numbers: does a step grow from token to token?"
    right = np.isclose(value, expected, rtol=3e-4, atol=2e-5).all(-1)
    if right[0] and not right.all():
        first = int(np.argmin(right))
        return f"Output {first} is the first that is not right. What do tokens before it leave in M and S?"
    return None


learning_memory = FunctionExercise(
    _memory, _memory_cases, tuple(_memory_mistakes()),
    "Checked with one token and forty, with every dial at zero in turn and near its end, with dv other than "
    "d, and in float32. It is stochastic gradient descent with momentum and weight decay, an example a step.",
    properties=(in_torch, few_digits, _rows), rtol=3e-4, atol=2e-5,
)  # fmt: skip


# ------------------------------------------------------------- the surprise of a normed memory


@np.errstate(all="ignore")
def _normed(M, k, v, *, inside="right", centre=True, along="right", scale="spread", factor=2.0, outer="right",
            sign=1.0, spread="population", target="right"):  # fmt: skip
    """`normed_surprise`, with a choice for each way of getting it wrong."""
    z = k @ M
    n = len(z)
    width = np.sqrt(z.var(ddof=1 if spread == "sample" else 0) + (0.0 if spread == "no_epsilon" else 1e-5))
    if spread == "epsilon_outside":
        width = z.std() + 1e-5
    y = (z - z.mean()) / width
    g = factor * (y - v)
    if target == "raw":
        g = factor * (z - v)
    mean = g.sum() if centre else 0.0
    shared = {"right": y * (g * y).sum(), "none": 0.0 * y, "plus": -y * (g * y).sum(), "no_y": (g * y).sum(),
              "no_sum": g * y * y, "sample": y * (g * y).sum() * n / (n - 1),
              "of_z": z * (g * z).sum()}[along]  # fmt: skip
    if inside == "shipped":
        slope = n * g - mean / (n * width) - shared / (n * width)
    elif inside == "plain":
        slope = g - mean / (n * width) - shared / (n * width)
    elif inside == "half":
        slope = (n * g - mean) / (n * width) - shared
    elif inside == "last":
        slope = n * g - mean - shared / (n * width)
    elif inside == "first":
        slope = n * g / (n * width) - mean - shared
    else:
        slope = (n * g - mean - shared) / {"spread": n * width, "no_spread": n, "no_n": width, "none": 1.0,
                                           "times": n / width, "variance": n * width**2}[scale]  # fmt: skip
    slope = sign * slope
    if outer == "slope":
        return slope
    return {"right": np.outer(k, slope), "transposed": np.outer(slope, k)}[outer]


def _normed_mistakes():
    yield Mistake("unmended", "This is the printed function: n g alone is not divided by n times the spread. "
                  "All three terms are, so where do the brackets belong?", {"inside": "shipped"})
    yield Mistake("n_dropped", "You took n away from n g. Then it is not divided by the spread, which the "
                  "other two terms are.", {"inside": "plain"})
    yield Mistake("times_spread", "You multiply by the spread: without brackets, / n * spread divides by n "
                  "alone.", {"scale": "times"})
    yield Mistake("brackets", "Two of the three terms are divided by n times the spread, the last is not.",
                  {"inside": "half"})
    yield Mistake("brackets", "Only the last of the three terms is divided by n times the spread. A row sums "
                  "to 0 already; that was a sign of the fault, not all of it.",
                  {"inside": "last"})
    yield Mistake("brackets", "Only n g is divided by n times the spread; the other two are not.",
                  {"inside": "first"})
    yield Mistake("no_spread", "The spread is missing: all is divided by n alone. The slope of z / spread "
                  "has it.", {"scale": "no_spread"})
    yield Mistake("no_n", "All is divided by the spread alone. With n g inside the bracket, n belongs below.",
                  {"scale": "no_n"})
    yield Mistake("not_divided", "Nothing is divided. The whole bracket is, by n times the spread.",
                  {"scale": "none"})
    yield Mistake("variance", "You divide by the variance. Divide by its root, the spread.",
                  {"scale": "variance"})
    yield Mistake("mean_fixed", "The mean is treated as a constant. It moves with z: the sum of g belongs to "
                  "the slope.", {"centre": False})
    yield Mistake("spread_fixed", "The spread is treated as a constant. It moves with z: the term with y "
                  "belongs to the slope.", {"along": "none"})
    yield Mistake("plus", "The last term is added. What goes along y is taken away.", {"along": "plus"})
    yield Mistake("no_y", "In the last term the sum of g y stands alone. It is multiplied by y again.",
                  {"along": "no_y"})
    yield Mistake("no_sum", "In the last term g y is not summed. The spread is one number, and all features "
                  "move it.", {"along": "no_sum"})
    yield Mistake("not_normed_term", "The last term has z where y belongs.", dict(along="of_z"), rare=True)
    yield Mistake("no_norm", "Mean and spread are treated as constants: what is left is g / spread.",
                  {"centre": False, "along": "none"})
    yield Mistake("not_normed", "The error is taken of z. It is taken of y, which is normed.",
                  {"target": "raw"})
    yield Mistake("no_two", "The factor 2 is gone. The loss is the square itself.", {"factor": 1.0})
    yield Mistake("mean_loss_missing", "There is a factor too many: the loss is the sum of squares.",
                  dict(factor=4.0), rare=True)
    yield Mistake("downhill", "The sign is turned round. The gradient is asked for, not the step.",
                  {"sign": -1.0})
    yield Mistake("transposed", "The result has the shape (n, d). The gradient has that of M, (d, n).",
                  {"outer": "transposed"})
    yield Mistake("slope_only", "You return the slope in z. The gradient in M is its outer product with k.",
                  {"outer": "slope"})
    yield Mistake("sample_variance", "The variance is divided by n - 1. It is divided by n here.",
                  {"spread": "sample"})
    yield Mistake("sample_variance", "The variance is divided by n - 1, which torch's var does unless told "
                  "correction=0. It is divided by n here.", {"spread": "sample", "along": "sample"})
    yield Mistake("epsilon", "Nothing is added to the variance: with equal features the spread is 0.",
                  {"spread": "no_epsilon"})
    yield Mistake("epsilon", "The small number is added to the spread. It is added to the variance, under "
                  "the root.", {"spread": "epsilon_outside"})


def _normed_cases():
    rng = np.random.default_rng(251)

    def case(name, d, n, hint="", *, size=1.0, kind=np.float64):
        arrays = rng.normal(size=(d, n)) * size, rng.normal(size=d), rng.normal(size=n)
        return Case(name, tuple(x.astype(kind) for x in arrays), hint=hint)

    flat = case("an answer whose features are nearly equal", 3, 4, "The spread is nearly 0, and the small "
                "number under the root counts.", size=1e-3)  # fmt: skip
    return [
        case("d = 3 and 5 features", 3, 5, "Compare with torch.func.grad of the loss, or with small steps."),
        case("d = 4 and 2 features", 4, 2),
        case("d = n = 4", 4, 4, "M is square: is anything transposed?"),
        case("a small answer", 3, 6, "The spread is small, so what is not divided by it shows.", size=0.1),
        case("a large answer", 3, 6, size=20.0),
        flat,
        case("d = 1", 1, 5),
        case("32 features", 8, 32),
        case("float32", 3, 5, kind=np.float32),
    ]


def _of_a_normed(case, value, expected):
    value = floats(value)
    if value is None or value.shape != expected.shape:
        return None
    if not np.isfinite(value).all():
        return "There are NaN or infinite numbers."
    if abs(value.sum(-1)).max() > 1e-3 * abs(value).max() + 1e-9:
        return ("A row of your gradient does not sum to 0. Adding one number to all of z changes nothing, so "
                "the slope in z must sum to 0:")
    return None


normed_surprise = FunctionExercise(
    _normed, _normed_cases, tuple(_normed_mistakes()),
    "Checked with wide and narrow, large and tiny answers, against the exact derivative. The printed line is "
    "right where n times the spread is 1, and so a single unlucky test passes. One call of torch.func.grad "
    "would have shown it.",
    properties=(in_torch, few_digits, _of_a_normed), rtol=3e-4, atol=2e-5,
)  # fmt: skip

_MEMORY_SOLUTION = '''
import numpy as np


def learning_memory(q, k, v, theta, eta, alpha):
    M = np.zeros((k.shape[1], v.shape[1]))                  # (d, dv)
    S = np.zeros_like(M)
    out = []
    for t in range(len(k)):
        gradient = 2 * np.outer(k[t], k[t] @ M - v[t])      # at the memory as it was left
        S = eta[t] * S - theta[t] * gradient
        M = (1 - alpha[t]) * M + S
        out.append(q[t] @ M)                                # token t is in it
    return np.array(out)
'''

_NORMED_SOLUTION = '''
import numpy as np


def normed_surprise(M, k, v):
    z = k @ M
    spread = np.sqrt(z.var() + 1e-5)
    y = (z - z.mean()) / spread
    g = 2 * (y - v)
    n = len(z)
    slope = (n * g - g.sum() - y * (g * y).sum()) / (n * spread)
    return np.outer(k, slope)
'''

EXERCISES = (
    Exercise("learning_memory", "25", learning_memory, (
        "What is in M after the first token? Both M and S were zeros, so the error is -v_0.",
        "Four things happen at a token, in this order: the gradient at M as it is, the new S from the old S "
        "and the gradient, the new M from the old M and the new S, the output from the new M.",
        "The gradient is 2 times the outer product of k_t and k_t M - v_t. S = eta_t S - theta_t gradient, M "
        "= (1 - alpha_t) M + S, and the output is q_t M.",
    ), _MEMORY_SOLUTION, "function"),
    Exercise("normed_surprise", "25", normed_surprise, (
        "Let torch.func.grad compute the gradient of the same loss for some M, and compare. Or add 1 to all "
        "of z: the loss stays, so the slope must sum to 0.",
        "Derive the slope in one entry of z: its own, by 1 / spread; through the mean, which takes the mean "
        "of g away; through the spread, which takes y times the mean of g y away. What stands below each?",
        "All three terms are divided by n times the spread. One pair of brackets does it.",
    ), _NORMED_SOLUTION, "function"),
)  # fmt: skip

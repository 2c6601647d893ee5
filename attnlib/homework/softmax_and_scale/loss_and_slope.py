"""The cross-entropy and its slope: where the classes lie, what is divided by, who is left out."""

from itertools import product

import numpy as np

from attnlib.exercises.function import Case, Mistake
from attnlib.homework.assignment import (
    Convention,
    Option,
    Question,
    asked,
    filled,
    judge_of_variant,
    values_of,
)

CONVENTIONS = (
    Convention("classes_lie", {
        "across": Option("`logits` has shape `(n, classes)`: a row for each example.",
                         "You take a row of logits for an example.", ""),
        "down": Option("`logits` has shape `(classes, n)`: a **column** for each example.",
                       "You take a column of logits for an example.", ".T"),
    }),
    Convention("left_out", {
        "zero": Option("An example whose target is the **first** class, 0, is padding and left out; the "
                       "class keeps its place in every "
                       "softmax.", "You leave out the examples of the first class.",
                       "0", "first_class_left_out"),
        "last": Option("An example whose target is the **last** class is padding and left out; the class "
                       "keeps its place in every softmax.", "You leave out the examples of the last class.",
                       "z.shape[1] - 1", "last_class_left_out"),
    }),
    Convention("total", {
        "mean": Option("The loss is the mean of that over the examples that are not left out.",
                       "You divide by the number of examples that are not left out.", "max(counts.sum(), 1)",
                       "divided_by_those_that_count"),
        "by_n": Option("The loss is the sum of that over the examples that are not left out, divided by "
                       "**n**, the number of all examples.", "You divide by the number of all examples.",
                       "len(targets)", "divided_by_all"),
        "sum": Option("The loss is the **sum** of that over the examples that are not left out.",
                      "You take the sum, divided by nothing.", "1", "sum_not_divided"),
    }),
)  # fmt: skip
CHOICES = values_of(*CONVENTIONS)
LESSON = None
SAMPLE = {"classes_lie": "across", "left_out": "zero", "total": "by_n"}

TEXT = """\
Write `loss_and_slope(logits, targets)`: the cross-entropy of a classifier, and its slope in every logit.

{shape} `targets` has shape `(n,)` and holds the right class of each example, a whole number. The softmax over
the classes gives the right class a weight w; the example's loss is minus ln w. {asked} Return the loss, one
number, and its slope in the logits, an array in the shape of `logits`.

The slopes of an example that is left out are 0. If all are left out, loss and slopes are 0. Logits are as
large as 10,000, of both signs; the loss of a wrong answer is then large, and not infinite. Do not
change the arguments in place, and use NumPy alone."""

STUB = """\
def loss_and_slope(logits, targets):
    \"\"\"The cross-entropy, one number, and its slope in the logits, in their shape.\"\"\""""

SOLUTION = """\
    z = logits<classes_lie>
    z = z - z.max(axis=1, keepdims=True)                       # (n, classes)
    log_weights = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
    counts = targets != <left_out>
    right = (targets[:, None] == np.arange(z.shape[1])) & counts[:, None]
    slope = np.where(counts[:, None], np.exp(log_weights) - right, 0.0)
    divided_by = <total>
    return -log_weights[right].sum() / divided_by, slope<classes_lie> / divided_by"""


@np.errstate(all="ignore")
def compute(logits, targets, *, classes_lie="across", left_out="zero", total="mean", over="classes",
            lowered=True, log="early", all_count=False, slope_kept=None, slope_by=None, loss_by=None, sign=1,
            slope="cross_entropy", loss="cross_entropy", results="both", none_left="zero",
            misfit=ValueError):  # fmt: skip
    z = logits if classes_lie == "across" else logits.T
    n, classes = z.shape
    if len(targets) != n:       # the other way round; which error comes depends on how it is written
        raise misfit("there is not one target for each example")
    along = 1 if over == "classes" else 0
    z = z - z.max(axis=along, keepdims=True) if lowered else z
    e = np.exp(z)
    w = e / e.sum(axis=along, keepdims=True)
    log_w = {"early": z - np.log(e.sum(axis=along, keepdims=True)), "late": np.log(w),
             "clipped": np.log(w + 1e-12), "at least": np.log(np.maximum(w, 1e-12))}[log]  # fmt: skip
    out = targets == (0 if left_out == "zero" else classes - 1)
    counts = np.ones(n, bool) if all_count else ~out
    rows = np.arange(n)
    right = np.zeros((n, classes))
    right[rows, targets] = 1.0
    w_right = w[rows, targets]
    each = {"cross_entropy": -log_w[rows, targets], "likelihood": log_w[rows, targets],
            "share": 1 - w_right, "entropy": -(w * log_w).sum(1),
            "base two": -log_w[rows, targets] / np.log(2)}[loss]  # fmt: skip
    slopes = {"cross_entropy": w - right, "weights": w, "share": w_right[:, None] * (w - right),
              "turned": right - w, "weight": right * (w - 1)}[slope]  # fmt: skip
    if slope_kept == "weights":
        slopes = np.where(out[:, None], w, slopes)
    elif slope_kept is None:
        slopes = np.where(counts[:, None], slopes, 0.0)
    by = {"mean": counts.sum(), "by_n": n, "sum": 1}
    by["mean"] = max(by["mean"], 1) if none_left == "zero" else by["mean"]
    by |= {"entries": n * classes, "counts": by["mean"], None: by[total]}
    loss_value = np.where(counts, each, 0.0).sum() / by[loss_by]
    slope_value = slopes / by[slope_by]
    slope_value = slope_value if classes_lie == "across" else slope_value.T
    return {"both": (loss_value, slope_value), "turned": (slope_value, loss_value), "loss": loss_value,
            "slope": slope_value}[results]  # fmt: skip


def cases(rng, choice):
    first = choice["left_out"] == "zero"

    def made(z, targets):
        """With targets for a first class that is padding; for the last, classes are counted backwards."""
        z, targets = np.array(z, float), np.array(targets)
        targets = targets if first else z.shape[1] - 1 - targets
        return (z if choice["classes_lie"] == "across" else z.T.copy()), targets

    def drawn(targets, classes):
        return made(rng.normal(size=(len(targets), classes)) * 2, targets)

    far = [[3000.0, 0.0, 1000.0], [-9002.0, -9000.0, -9001.0], [-8000.0, 0.0, 2.0], [0.0, 9000.0, 8999.0]]
    return [
        Case("3 examples of 4 classes", drawn([2, 1, 2], 4),
             hint="Which axis of logits is as long as targets? And where is the slope negative?"),
        Case("4 examples of 5 classes, one left out", drawn([3, 0, 1, 4], 5),
             hint="Look at the example that is left out: in the loss, in the slopes, and in what you divide "
             "by."),
        Case("as many examples as classes, two left out", drawn([3, 0, 1, 0], 4)),
        Case("logits of thousands", made(far, [2, 1, 0, 2]),
             hint="A weight that is 0 in the machine has no logarithm. Which difference is -ln w, before any "
             "exponential?"),
        Case("one example", drawn([2], 4)),
        Case("two classes", drawn([1, 1, 0, 1, 1], 2)),
        Case("nothing but examples left out", drawn([0, 0, 0], 4), hint="Then loss and slopes are 0."),
        Case("many examples, every third left out",
             drawn([0 if i % 3 == 0 else 1 + i % 5 for i in range(15)], 6)),
        Case("large logits and wrong answers", made(far[::-1], [2, 0, 2, 1])),
    ]  # fmt: skip


_LOGARITHM = ("A right class far behind has a weight of 0 in the machine, and {what}. Take the logarithm on "
              "paper first: -ln w is a logarithm of a sum, less a logit.")  # fmt: skip
MISTAKES = (
    Mistake("slope_not_divided", "Your loss is divided and your slopes are not. What divides a loss divides "
                                 "its slopes.", {"slope_by": "sum"}),
    Mistake("loss_not_divided", "Your slopes are divided and your loss is not.", {"loss_by": "sum"}),
    Mistake("sign_turned", "Your slopes have the wrong sign: a step downhill would lower the right logit. "
            "Raising the right logit lowers the loss, so its slope is negative.", {"slope": "turned"}),
    Mistake("negative_loss", "Your loss is negative. A weight is at most 1; the loss is minus its logarithm.",
            {"loss": "likelihood"}),
    Mistake("weights_as_slopes", "You return the weights as slopes. They come of the sum under the "
        "logarithm. The right class's logit also stands in the loss by itself.", {"slope": "weights"}),
    Mistake("right_class_alone", "Your slopes are 0 but for the right class. Raising another logit takes "
                                 "weight from the right one, so each has a slope.", {"slope": "weight"}),
    Mistake("slope_of_one_minus_w", "Your slopes have one more factor w: they belong to the loss 1 - w. "
                                    "Through the logarithm this factor goes out.", {"slope": "share"}),
    Mistake("loss_without_logarithm", "Your loss is 1 - w and so are its slopes. Here the loss is -ln w.",
            {"slope": "share", "loss": "share"}),
    Mistake("loss_without_logarithm", "Your loss is 1 - w, and your slopes are those of -ln w.",
            {"loss": "share"}),
    Mistake("entropy", "Your loss is the entropy of the weights. It does not look at the right class.",
            {"loss": "entropy"}),
    Mistake("base_two", "Your logarithm is to base 2; the natural one is asked for.", {"loss": "base two"}),
    Mistake("softmax_over_the_examples", "Your softmax runs over the examples. The classes of one example "
            "share its 1.", {"over": "examples"}),
    Mistake("logarithm_of_zero", _LOGARITHM.format(what="the logarithm of 0 is no finite number"),
            {"log": "late"}),
    *(Mistake("logarithm_clipped", _LOGARITHM.format(what="a small number in its place hides how wrong the "
              "answer was"), {"log": log}) for log in ("clipped", "at least")),
    *(Mistake("no_maximum_subtracted", "Exponentials of large logits overflow. Lower the logits of an "
                                       "example by one number first: its weights "
                                       "stay.", {"lowered": False, "log": log})
      for log in ("early", "late")),
    Mistake("left_out_counted", "You count the examples that are to be left out, and their target as a "
                                "class.",
            {"all_count": True}),
    *(Mistake("left_out_slopes", "An example that is left out has no part in the loss, and yet your slopes "
                                 "there are not 0.", {"slope_kept": kept}) for kept in ("weights", "all")),
    Mistake("divided_by_entries", "You divide the slopes by the number of all logits. The loss is a number "
                                  "for each example, not for each logit.", {"slope_by": "entries"}),
    Mistake("nothing_counts", "With all examples left out you divide 0 by 0. The task says what comes then.",
            {"none_left": "nan"}),
    Mistake("results_turned", "The two results have changed places: the loss comes first.",
            {"results": "turned"}),
    Mistake("one_result", "You return the loss alone; its slopes are asked for, too.", {"results": "loss"}),
    Mistake("one_result", "You return the slopes alone; the loss is asked for, too.", {"results": "slope"}),
)  # fmt: skip


def _turned_round(choice):
    """Those that take the examples for classes, where this ends in an IndexError."""
    lie, *others = CONVENTIONS
    turned = next(value for value in lie.options if value != choice["classes_lie"])
    told = f"{lie.options[turned].told} Here: {lie.options[choice['classes_lie']].text}"
    for values in product(*(convention.options for convention in others)):
        also = {c.name: value for c, value in zip(others, values, strict=True) if value != choice[c.name]}
        more = "".join(f" {c.options[also[c.name]].told}" for c in others if c.name in also)
        names = [lie.called(turned), *(c.called(also[c.name]) for c in others if c.name in also)]
        choices = {"classes_lie": turned, "misfit": IndexError, **also}
        yield Mistake("_and_".join(names), told + more, choices, convention=True)


def question(choice):
    undivided = ("slope_not_divided", "loss_not_divided")
    mistakes = [m for m in MISTAKES if choice["total"] != "sum" or m.name not in undivided]
    mistakes = [m for m in mistakes if choice["total"] == "mean" or m.name != "nothing_counts"]
    return Question(
        id="loss_and_slope", title="A loss that stays loud",
        kind="function", name="loss_and_slope", points=5, part=2, minutes=16,
        text=TEXT.format(shape=asked(CONVENTIONS[:1], choice), asked=asked(CONVENTIONS[1:], choice)),
        stub=STUB,
        solution=filled(SOLUTION, CONVENTIONS, choice),
        judge=judge_of_variant(
            compute, CONVENTIONS, choice, (*_turned_round(choice), *mistakes), cases,
            "Loss and slopes are right for logits of any size, and who is left out has no part in them.",
            visible=4,
        ),
        forbids=("cross_entropy", "log_softmax", "softmax", "logsumexp"),
    )  # fmt: skip

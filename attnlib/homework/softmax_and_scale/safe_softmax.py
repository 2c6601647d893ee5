"""A test to write: is somebody's softmax safe, or only right on small numbers?"""

import numpy as np

from attnlib.exercises.learner_test import Implementation
from attnlib.homework.assignment import Question, judge_of_tests

CHOICES = {"says_true_of": ("safe", "unsafe"), "one_query_is": ("row", "column")}
LESSON = None
SAMPLE = {"says_true_of": "unsafe", "one_query_is": "row"}

TEXT = """\
Write a test of somebody else's softmax, `{name}(softmax)`. `softmax(scores)` takes an array of floats with
two axes and returns the weights, in the same shape; **each {row} sums to 1**. It is *safe* if every weight is
right to 0.000001 whatever the scores: from -10,000 to 10,000, in any mixture, and minus infinity, which gets
the weight 0, in {rows} that have a finite score as well. Your test returns `True` if the softmax is
**{says}**, else `False`. It calls `softmax` with scores that it makes up, of this kind only.

It is tried on nine softmaxes, base e, all right on small finite scores. Some are safe, and not all of these
are written as you would. The others fail for one reason each: a score that is too large, {rows} that differ
too much, an entry of minus infinity, or digits that are lost."""

STUB = """\
def {name}(softmax):
    \"\"\"Whether the softmax, whose {rows} sum to 1, is {says}.\"\"\""""

SOLUTION = """\
    scores = np.array([[0.3, -1.2, 2.0, 0.0],
                       [9000.0, 9000.4, 8999.5, 0.0],          # large, and close together
                       [-9000.0, -9000.4, -8999.5, -9001.0],   # its exponentials are all 0
                       [5000.0, 0.0, 0.0, 0.0],                # far above its mean
                       [1.0, -np.inf, 0.4, -np.inf]]){turned}
    e = np.exp(scores - scores.max(axis={axis}, keepdims=True))
    wanted = e / e.sum(axis={axis}, keepdims=True)
    found = softmax(scores)
    return {no}bool(np.allclose(found, wanted, rtol=0, atol=1e-6))"""


def question(choice):
    safe, row = choice["says_true_of"] == "safe", choice["one_query_is"]
    words = {"name": f"is_{choice['says_true_of']}", "says": choice["says_true_of"], "row": row,
             "rows": f"{row}s"}  # fmt: skip
    return Question(
        id="safe_softmax", title="Safe, or only lucky?",
        kind="test", name=words["name"], points=4, part=2, minutes=15,
        text=TEXT.format(**words),
        stub=STUB.format(**words),
        solution=SOLUTION.format(turned="" if row == "row" else ".T", axis=1 if row == "row" else 0,
                                 no="" if safe else "not "),
        judge=_judge_for(safe, row),
        other_names=("is_unsafe" if safe else "is_safe",),
    )  # fmt: skip


def _judge_for(safe, row):
    always = {True: ("always_true", "It answers True whatever it is given."),
              False: ("always_false", "It answers False whatever it is given.")}  # fmt: skip
    praise = "It passes what is safe, however it is written, and refuses what is only lucky."

    def judge(test, seed=None):
        models = _models(row)
        tried = tuple(
            Implementation(f"a softmax that {name}", lambda f=f: (_called(f, row),), is_safe == safe, mistake,
                           told)
            for name, f, is_safe, mistake, told in (models[:4] if seed is None else models)
        )  # fmt: skip
        shown = f"{len(tried)} of {len(models)} softmaxes"
        return judge_of_tests(tried, always, praise, test, seed, shown)

    return judge


def _called(f, row):
    """The softmax as the student's test calls it."""
    @np.errstate(all="ignore")
    def softmax(scores):
        scores = np.asarray(scores, float)
        if scores.ndim != 2:
            raise ValueError(f"softmax takes scores with two axes; it was given the shape {scores.shape}")
        return f(scores) if row == "row" else f(scores.T).T

    return softmax


def _shared(e):
    return e / e.sum(1, keepdims=True)


def _top(s):
    return s.max(1, keepdims=True)


def _less_the_mean(s):
    finite = np.isfinite(s)
    return np.where(finite, s, 0).sum(1, keepdims=True) / finite.sum(1, keepdims=True)


def _twice_lowered(s):
    s = s - s.mean(1, keepdims=True)
    return _shared(np.exp(s - _top(s)))


def _cut_off(s):
    s = np.where(np.isinf(s), s, np.clip(s, -500, 500))
    return _shared(np.exp(s - _top(s)))


def _models(row):
    """Name, softmax of rows, whether it is safe, what fools a test about it, and why; visible ones first."""
    unfair = "Does your test ask for more than the task does, or for scores that the task excludes?"
    return (
        (f"lowers each {row} by its maximum", lambda s: _shared(np.exp(s - _top(s))), True, "safe_refused",
         f"is safe: no exponential exceeds 1, and their sum is at least 1. {unfair}"),
        ("lowers nothing", lambda s: _shared(np.exp(s)), False, "overflow_missed",
         "overflows: exp(1000) is infinite, and infinite by infinite is NaN. Are your scores large enough?"),
        ("subtracts the logarithm of the sum",
         lambda s: np.exp(s - np.logaddexp.reduce(s, axis=1, keepdims=True)), True, "safe_refused",
         f"is safe: the logarithm of the sum is found without overflow. {unfair}"),
        ("lowers all scores by the maximum of the whole array", lambda s: _shared(np.exp(s - s.max())), False,
         f"{row}s_too_alike",
         f"is wrong where one {row} lies far below another: all its exponentials are 0, and 0 by 0 is NaN. "
         f"Are your {row}s too much alike?"),
        (f"lowers each {row} by the mean of its finite scores",
         lambda s: _shared(np.exp(s - _less_the_mean(s))), False, "far_above_the_mean_missed",
         f"overflows where one score lies far above the mean of its {row}. Do the scores of one {row} lie "
         "far enough apart?"),
        (f"lowers each {row} by its mean and then by what is the maximum", _twice_lowered, False,
         "minus_infinity_missed",
         "gives NaN where there is an entry of minus infinity: so is the mean. Do you try one?"),
        ("cuts scores off at 500 and -500 first",
         _cut_off, False, "two_large_ones_missed",
         "makes all scores above 500 equal. Do you try two different ones there, and compare the weights?"),
        (f"keeps 32-bit numbers and lowers each {row} by its maximum",
         lambda s: _shared(np.exp(s.astype(np.float32) - _top(s.astype(np.float32)))).astype(float), False,
         "lost_digits_missed",
         "keeps seven digits: of scores near 10,000 it sees differences of about 0.001 and nothing finer. Do "
         "you try large scores that lie close together, and how closely do you compare?"),
        (f"lowers each {row} by its maximum and adds a little to the sum",
         lambda s: np.exp(s - _top(s)) / (np.exp(s - _top(s)).sum(1, keepdims=True) + 1e-8), True,
         "exact_sum_asked",
         "is safe by the task's measure: what it adds changes a weight by less than 0.000001. Do you compare "
         "more closely than that?"),
    )  # fmt: skip

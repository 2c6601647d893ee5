"""The written question: of what is it true that the gradient vanishes?"""

from attnlib.homework.assignment import Question

CHOICES = {}
LESSON = None
SAMPLE = {}

TEXT = """\
Somebody writes: *"Without 1/√d the scores are large, the gradient vanishes, and attention cannot learn. The
softmax at the output of a language model has large scores too, so it should be scaled as well."* Say in at
most 150 words what of that is right. Which slope is small, and for which queries; does the mean over a batch
show it? Name a parameter that learns all the same, and one that may not. Why does the output softmax learn
even where it is sure and wrong?"""

ANSWER = """\
Small is the slope that passes from the weights to the scores, and for the typical query: its gap grows as
the root of d, and the slope falls as exp(-gap). So the median over the queries vanishes quickly. The mean
falls only as 1/√d, because in a few queries two keys happen to be level, and these stay open. A matrix that
all queries share, W_Q, is taught by the open ones and carries the others along, later; a query that has a
parameter of its own, as the embedding of a rare word has, may stay where it is. At the output the loss is
-ln w, and its slope in a logit is w less 1 at the right class, w elsewhere: nearly -1 and 1 where the model
is sure and wrong. The logarithm undoes the exponential. It needs no scale for that, and where it is sure
and right nothing has to be learned."""

RUBRIC = """\
1 point: the slope at the scores (the softmax's Jacobian) is what is small, for the typical or median query,
and the mean over a batch falls far more slowly, because some queries have two keys nearly level. 1 point: a
parameter that many queries share (W_Q, W_K) still learns, later or on less; one that belongs to a single
query (a learned query, the embedding of a rare word) may not. 1 point: the cross-entropy's slope in the
logits is w less 1 at the right class, so it is large exactly where the answer is wrong; hence the conclusion
on the output softmax does not follow. Longer than 150 words: judge the first 150."""


def question(choice):
    return Question(
        id="vanishing", title="Which gradient vanishes?",
        kind="written", name="", points=3, part=0, minutes=12,
        text=TEXT, stub="*Your answer:*", solution=ANSWER, rubric=RUBRIC,
    )  # fmt: skip

"""The written question: of what is it true that the gradient vanishes?"""

from attnlib.homework.assignment import Question

CHOICES = {}
LESSON = None
SAMPLE = {}

TEXT = """\
Somebody writes: "Without 1/√d the scores are large, the gradient vanishes, and attention cannot learn. The
softmax at the output of a language model has large scores too, so it should be scaled as well." Say in at
most 150 words what of that is right. Which slope is small, and for which queries; does the mean over a batch
show it? Name a parameter that learns all the same, and one that may not. Why does the output softmax learn
even where it is sure and wrong?"""

ANSWER = """\
Small is the slope that passes from the weights to the scores, for the typical query: its gap grows as the
root of d, and the slope falls as exp(-gap). So the median over the queries vanishes fast. The mean falls
only as 1/√d, because in a few queries two keys are nearly level. A matrix that all queries share,
W_Q, is taught by these and carries the others along, later; a query with a parameter of its own, such as the
embedding of a rare word, may stay where it is. At the output the loss is minus ln w, and its slope in a logit
is its weight, less 1 at the right class: nearly 1 and -1 where the model is sure and wrong. The logarithm
undoes the exponential. No scale is needed for that, and where it is sure and right nothing has to be
learned.

**For the marker.** 1 point: the slope from weights to scores, for the typical query, while a few queries with
two keys nearly level carry the mean. 1 point: a parameter that all queries share learns, one that a single
query has may not, with these reasons. 1 point: the logit's slope is the weight less 1 or 0, so it is large
where the model is sure and wrong, and no scale is needed."""

RUBRIC = """\
1 point: which slope is small, for which queries, and why the mean over a batch falls more slowly. 1 point: a
parameter that learns all the same and one that may not, each with its reason. 1 point: the slope of the
output's loss in the logits, and what follows for the second sentence of the claim. Longer than 150 words: the
first 150 are read."""


def question(choice):
    return Question(
        id="vanishing", title="Which gradient vanishes?",
        kind="written", name="", points=3, part=0, minutes=12,
        text=TEXT, stub="*Your answer:*", solution=ANSWER, rubric=RUBRIC,
    )  # fmt: skip

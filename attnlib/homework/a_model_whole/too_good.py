"""The written question: a loss that is too good, and what it hides."""

from attnlib.homework.assignment import Question

CHOICES = {}
LESSON = None
SAMPLE = {}

TEXT = """\
Somebody trains a decoder of several layers as above, the logits at each word being about the next one. The
loss on the training sentences falls to nearly 0 within minutes, and so does the loss on sentences that the
model has never seen: it cannot have learned them by heart. But what it generates is nonsense. The causal mask
was forgotten.

Say in at most 180 words how the model comes to such a loss, and what its attention does; why new sentences do
not give the fault away; and why generating does. Then name one check that finds the fault before any
training, saying what is changed and what is compared; and say why comparing the whole model with one that
decodes word by word, with a cache, finds it too."""

ANSWER = """\
The word that a place has to foresee stands among the inputs, one place further on. Without the mask it may be
read: attention looks one place ahead, and the layers copy what they find into the logits. Nothing about
language has to be learned for that.

Copying works on any sentence. When the loss is measured, a new sentence lies there whole as well, each next
word in its place; so its loss is as low. In generating there is no next word yet: the last place has nothing
ahead of it, and the model has learned nothing else than to look there.

Before training: run the untrained model on a sentence, change a word, run again, and compare the logits at
the places before that word. They must not change at all.

With a cache each step has only the words so far, so its logits cannot depend on later ones. The whole model
without a mask reads the later ones at every earlier place, and gives other logits there.

**For the marker.** 1 point: the target stands in the input, one place on, and attention copies it. 1 point: a
new sentence is given whole as well, so copying works there; in generating there is nothing to copy. 1 point:
a check that changes a later word and compares earlier logits (or looks for gradients in later inputs), and
that a step with a cache sees no later words while the whole model does."""

RUBRIC = """\
1 point: where the right answer can be read off, and how the model does it. 1 point: why unseen sentences have
the same low loss, and what is different in generating. 1 point: a check with what is changed and what is
compared, and what a step with a cache can see. Longer than 180 words: the first 180 are read."""


def question(choice):
    return Question(
        id="too_good", title="Too good to be true",
        kind="written", name="", points=3, part=0, minutes=12,
        text=TEXT, stub="*Your answer:*", solution=ANSWER, rubric=RUBRIC,
    )  # fmt: skip

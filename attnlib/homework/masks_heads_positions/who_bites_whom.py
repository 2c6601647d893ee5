"""The written question: whether matrices of their own for queries and keys know the order of words."""

from attnlib.homework.assignment import Question

CHOICES = {}
LESSON = None
SAMPLE = {}

TEXT = """\
Somebody writes: "A query is made by `W_Q` and a key by another matrix, `W_K`. So the score of 'dog' with
'man' is not that of 'man' with 'dog', and the layer knows who bites whom." Compare "dog bites man" with
"man bites dog" in one attention layer without positions and without a mask. Say in at most 180 words what
of this is right, what does not follow, and why: what does the output for "bites" become when the two other
words change places? Then say whether a causal mask alone, in one layer, gives the last word of three the
order of the two before it; and name one addition that does, saying where it is added or applied."""

ANSWER = """\
Right is that the scores differ: q(dog) . k(man) is not q(man) . k(dog). But both scores are there in both
sentences. A query, a key and a value are computed from the word alone, so "bites" has the same query, and
finds the same three keys with the same three values, in either sentence. Its output is a sum of values, each
times a weight that depends on query and key; a sum does not change when its terms change places. Reordering
the words reorders the outputs and changes none of them: who bites whom cannot be read off.

A causal mask in one layer does not help the last word: it sees the same two words and itself in both
orders, and again a sum. (The words before it do see different ones, so a second layer could tell.)

What does help is something that differs by place: a position vector added to each word before W_Q and W_K,
or queries and keys turned by their places before the dot product, or a penalty on each score that depends
on the signed distance or, under a causal mask, grows with the distance.

**For the marker.** 1 point: the scores do differ, and both occur in both sentences, since query, key and
value come from the word alone. 1 point: the output is a sum over the keys, so the output for "bites" stays
the same (outputs are reordered with the words), and one causal layer gives the last word the same sum too. 1
point: an addition that tells places apart, with the right spot (added to the words; queries and keys turned;
scores lowered by distance, where a causal mask or a sign tells before from after, for "bites" is as far from
either)."""

RUBRIC = """\
1 point: which scores the two sentences have, and of what a query, a key and a value are computed. 1 point:
the output for "bites" in both sentences, and that of the last word under a causal mask, each with its reason.
1 point: an addition that tells the two orders apart, and its right spot. Longer than 180 words: the first 180
are read."""


def question(choice):
    return Question(
        id="who_bites_whom", title="Who bites whom?",
        kind="written", name="", points=3, part=0, minutes=12,
        text=TEXT, stub="*Your answer:*", solution=ANSWER, rubric=RUBRIC,
    )  # fmt: skip

"""The written question: what a key is, and what it is not."""

from attnlib.homework.assignment import Question

CHOICES = {}
LESSON = None
SAMPLE = {}

TEXT = """\
In a database a key names one row and no other. Somebody writes: "In attention too, a key is the unique
identifier of its value." Say in at most 150 words whether that is right. Use an example with two equal
keys and different values: what does a query get, and could any query tell the two values apart? Then say
how a model can keep two places of a sentence apart that hold the same word."""

ANSWER = """\
It is not. A key is compared with the query; nothing demands that keys differ. Take two equal keys with the
values 0 and 10. Every query scores them alike, so they have the same weight, and what the query gets from
the pair is their weight times 0 + 10: as if one key with the value 5 had twice the weight. No query can
tell them apart, because a score sees the key alone. The same word at two places has the same vector, hence
the same key, unless something of the place is added to the vector, or turns the key, before the dot
product: a position.

**For the marker.** 1 point: keys need not differ, a key is compared and does not identify. 1 point: equal
keys share the weight equally under every query, with an example whose numbers are right (only the mean of
the two values comes through). 1 point: positions (or any part of the vector that differs) keep the places
apart."""

RUBRIC = """\
1 point: what a key is, and whether it has to be another for each value. 1 point: what every query gets from
the two equal keys, with an example whose numbers are right. 1 point: what keeps two places of one word apart,
and why. Longer than 150 words: the first 150 are read."""


def question(choice):
    return Question(
        id="same_key_twice", title="The same key twice",
        kind="written", name="", points=3, part=0, minutes=12,
        text=TEXT, stub="*Your answer:*", solution=ANSWER, rubric=RUBRIC,
    )  # fmt: skip

"""Assignment 3, for lessons 08 to 10: who may look at whom, in how many ways, and where."""

TITLE = "Masks, heads and positions"
LESSONS = "lessons 08 to 10"
QUESTIONS = ()


def given(choice):
    """The locked cells: what the questions speak of."""
    return ()

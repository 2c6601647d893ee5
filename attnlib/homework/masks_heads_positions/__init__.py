"""Assignment 3, for lessons 08 to 10: who may look at whom, in how many ways, and where."""

TITLE = "Masks, heads and positions"
LESSONS = "lessons 08 to 10"
QUESTIONS = ()

"""Assignment 2, for lessons 05 to 07: what the softmax keeps and what it loses."""

TITLE = "Softmax, scale and saturation"
LESSONS = "lessons 05 to 07"
QUESTIONS = ()

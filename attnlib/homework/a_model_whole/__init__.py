"""Assignment 4, for lessons 12 and 15: a small language model whole, from the weights that are given."""

from attnlib.homework.a_model_whole import (
    attended,
    cache_test,
    embedded,
    generated,
    smoothed_loss,
    sublayer,
    too_good,
    whole,
)

TITLE = "A model whole"
LESSONS = "lessons 12 and 15"
QUESTIONS = (embedded, attended, sublayer, whole, smoothed_loss, generated, cache_test, too_good)

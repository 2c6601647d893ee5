"""Assignment 3, for lessons 08 to 10: who may look at whom, in how many ways, and where."""

from attnlib.homework.masks_heads_positions import (
    leaks,
    masked_wrongly,
    places_alike,
    reach,
    turned,
    unpacked,
    who_bites_whom,
    window_weights,
)

TITLE = "Masks, heads and positions"
LESSONS = "lessons 08 to 10"
QUESTIONS = (
    reach, window_weights, masked_wrongly, leaks, unpacked, turned, places_alike, who_bites_whom,
)  # fmt: skip

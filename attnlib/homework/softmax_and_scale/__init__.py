"""Assignment 2, for lessons 05 to 07: what the softmax keeps and what it loses."""

from attnlib.homework.softmax_and_scale import (
    drawn_sureness,
    loss_and_slope,
    safe_softmax,
    soft_weights,
    spread_and_scale,
    two_rows,
    typical_slope,
    vanishing,
)

TITLE = "Softmax, scale and saturation"
LESSONS = "lessons 05 to 07"
QUESTIONS = (
    typical_slope,
    soft_weights,
    safe_softmax,
    spread_and_scale,
    drawn_sureness,
    loss_and_slope,
    two_rows,
    vanishing,
)

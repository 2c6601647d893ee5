"""All exercises, in the order of the lessons."""

from attnlib.exercises import (
    dropout,
    hardware_side,
    heads,
    leaks,
    llama3,
    lookup,
    masked_attention,
    masks,
    multi_head,
    saturation,
    scaling,
    start,
    weights,
)

EXERCISES = {
    exercise.id: exercise
    for lesson in (
        start,
        lookup,
        weights,
        scaling,
        saturation,
        masks,
        masked_attention,
        leaks,
        heads,
        multi_head,
        dropout,
        llama3,
        hardware_side,
    )
    for exercise in lesson.EXERCISES
}

"""All exercises, in the order of the lessons."""

from attnlib.exercises import (
    dropout,
    heads,
    leaks,
    lookup,
    masked_attention,
    masks,
    multi_head,
    saturation,
    scaling,
    start,
)

EXERCISES = {
    exercise.id: exercise
    for lesson in (
        start,
        lookup,
        scaling,
        saturation,
        masks,
        masked_attention,
        leaks,
        heads,
        multi_head,
        dropout,
    )
    for exercise in lesson.EXERCISES
}

"""All exercises, in the order of the lessons."""

from attnlib.exercises import (
    dropout,
    hardware_side,
    head_side,
    heads,
    leaks,
    linear,
    llama3,
    lookup,
    masked_attention,
    masks,
    multi_head,
    orders,
    positions,
    saturation,
    scaling,
    score_functions,
    softmax_breaks,
    softmax_relatives,
    softmaxes,
    start,
    three_attentions,
    transformer,
    vectors,
    weights,
)

EXERCISES = {
    exercise.id: exercise
    for lesson in (
        start,
        lookup,
        vectors,
        weights,
        score_functions,
        softmax_breaks,
        softmaxes,
        softmax_relatives,
        scaling,
        saturation,
        masks,
        masked_attention,
        leaks,
        heads,
        multi_head,
        dropout,
        positions,
        orders,
        three_attentions,
        transformer,
        llama3,
        head_side,
        hardware_side,
        linear,
    )
    for exercise in lesson.EXERCISES
}

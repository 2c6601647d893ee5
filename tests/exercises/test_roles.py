"""Lesson 11: who asks whom, the shapes that follow, three masks; right ways accepted, mistakes named."""

import numpy as np
import pytest
import torch
from judging import ERRORS, NO_FUNCTIONS, its_solution, making, mistakes, named, stub, told_when_raising

from attnlib.exercises import check, roles
from attnlib.exercises.catalogue import EXERCISES

RIGHT = ("SSS", "TTT", "TSS", "TPP", "PSS", "SCE")


def looks(**changed):
    """The right six codes, some of them changed: a1="..." is the first."""
    return tuple(changed.get(f"a{n}", code) for n, code in enumerate(RIGHT, 1))


@pytest.mark.parametrize("answer", [
    RIGHT, list(RIGHT), [code.lower() for code in RIGHT], [" ".join(code) for code in RIGHT],
    [", ".join(code) for code in RIGHT], "SSS TTT TSS TPP PSS SCE",
])
def test_the_six_looks_in_any_writing(answer):
    assert check("who_asks", answer, show=False).passed is True


@pytest.mark.parametrize("answer, mistake", [
    (("TSS",) * 6, "all_alike"),
    (looks(a1="TSS"), "cross_for_self"),
    (looks(a2="TSS"), "cross_for_self"),
    (looks(a2="STT"), "cross_for_self"),
    (looks(a2="TTS"), "two_texts"),
    (looks(a3="STT"), "sides_swapped"),
    (looks(a3="TTT"), "one_text"),
    (looks(a3="SSS"), "one_text"),
    (looks(a3="TST"), "values_of_asker"),
    (looks(a3="TTS"), "keys_of_asker"),
    (looks(a3="SST"), "query_of_the_read"),
    (looks(a4="PTT"), "sides_swapped"),
    (looks(a5="SPP"), "sides_swapped"),
    (looks(a5="TPP"), "another_text"),
    (looks(a6="SCC"), "keys_handed_out"),
    (looks(a6="SEE"), "values_compared"),
    (looks(a6="SEC"), "keys_for_values"),
    (looks(a6="TCE"), "query_of_the_read"),
])
def test_a_wrong_look_is_named_and_told_by_its_number(answer, mistake):
    verdict = check("who_asks", answer, show=False)
    assert verdict.passed is False and verdict.misconception == mistake, verdict.message
    wrong = [n for n, (a, b) in enumerate(zip(answer, RIGHT, strict=True), 1) if a != b]
    assert len(wrong) > 1 or f"Look {wrong[0]}, " in verdict.message


def test_every_code_of_three_letters_is_judged():
    codes = [a + b + c for a in "STPCE" for b in "STPCE" for c in "STPCE"]
    for place, right in enumerate(RIGHT, 1):
        passed = [code for code in codes
                  if check("who_asks", looks(**{f"a{place}": code}), show=False).passed]
        assert passed == [right]


@pytest.mark.parametrize("answer", [3, "TSS", ("TSS",) * 5, (*RIGHT[:5], "SX"), (*RIGHT[:5], "SXE"),
                                    (1,) * 6])
def test_unreadable_looks(answer):
    assert check("who_asks", answer, show=False).readable is False


SHAPES = ((2, 3, 6, 9), (2, 6, 12), (20, 12), (2, 3, 6, 6), 21)


@pytest.mark.parametrize("answer", [
    SHAPES, [*map(lambda part: list(part) if isinstance(part, tuple) else part, SHAPES)],
    tuple(torch.Size(part) if isinstance(part, tuple) else np.int64(part) for part in SHAPES),
])
def test_the_shapes_are_right(answer):
    assert check("three_shapes", answer, show=False).passed is True


@pytest.mark.parametrize("place, given, mistake", [
    (0, (2, 3, 9, 6), "weights_turned"), (0, (2, 6, 9), "heads_missing"),
    (0, (2, 3, 6, 6), "self_for_cross"), (0, (3, 6, 9), "batch_missing"), (0, (2, 6, 3, 9), "heads_last"),
    (0, (3, 2, 6, 9), "heads_first"), (3, (3, 2, 6, 6), "heads_first"),
    (0, (7, 7), None), (1, (2, 9, 12), "as_long_as_memory"), (1, (2, 6, 20), "as_wide_as_memory"),
    (1, (2, 3, 6, 4), "not_merged"),
    (2, (12, 20), "matrix_turned"), (2, (12, 12), "keys_of_asker"), (2, (20, 20), "keys_as_wide_as_memory"),
    (2, (20, 4), "one_head"), (3, (2, 3, 6, 9), "cross_for_self"), (3, (2, 3, 9, 9), "encoder_for_decoder"),
    (4, 36, "no_mask"), (4, 15, "without_itself"), (4, 18, "half"), (4, 54, "cross_for_self"),
    (4, 126, "all_tables"), (4, 42, "all_tables"), (4, 45, "encoder_for_decoder"), (4, 7, None),
])
def test_a_wrong_shape_is_named(place, given, mistake):
    verdict = check("three_shapes", (*SHAPES[:place], given, *SHAPES[place + 1 :]), show=False)
    assert verdict.passed is False and verdict.misconception == mistake, verdict.message


@pytest.mark.parametrize("answer", [3, SHAPES[:4], ("a", *SHAPES[1:]), ((2.5, 3, 6, 9), *SHAPES[1:]),
                                    (*SHAPES[:4], "21"), (6, *SHAPES[1:])])
def test_unreadable_shapes(answer):
    assert check("three_shapes", answer, show=False).readable is False


def by_loops(source, target, pad_id=0):
    encoder = np.zeros((len(source), 1, 1, source.shape[1]), bool)
    decoder = np.zeros((len(target), 1, target.shape[1], target.shape[1]), bool)
    for b in range(len(source)):
        for j in range(source.shape[1]):
            encoder[b, 0, 0, j] = source[b, j] != pad_id
        for i in range(target.shape[1]):
            for j in range(i + 1):
                decoder[b, 0, i, j] = target[b, j] != pad_id
    return [encoder, decoder, encoder.copy()]


def through_torch(source, target, pad_id=0):
    encoder = (torch.tensor(source) != pad_id)[:, None, None]
    n = target.shape[1]
    decoder = torch.ones(n, n, dtype=torch.bool).tril() & (torch.tensor(target) != pad_id)[:, None, None]
    return encoder.numpy(), decoder.numpy(), encoder.numpy()


@pytest.mark.parametrize("answer", [by_loops, through_torch, its_solution("three_masks")])
def test_right_masks_pass(answer):
    verdict = check("three_masks", answer, show=False)
    assert verdict.passed is True, verdict.message


@pytest.mark.parametrize("exercise, mistake", mistakes("three_masks"), ids=lambda x: getattr(x, "name", x))
def test_every_mistake_is_named(exercise, mistake):
    named(exercise, mistake)


@pytest.mark.parametrize("choices, names", [
    ({"cross": "target", "decoder": "no_padding"}, {"cross_of_target", "decoder_padding"}),
    ({"cross": "causal", "pad": "zero"}, {"cross_causal", "pad_id_ignored"}),
    ({"encoder": "causal", "polarity": "hides"}, {"encoder_causal", "mask_inverted"}),
])
def test_two_mistakes_together_are_named(choices, names):
    verdict = check("three_masks", making("three_masks", **choices), show=False)
    assert set(verdict.misconception.split(" and ")) == names, verdict.message


def test_what_is_no_function_is_refused_and_errors_are_told():
    for answer in NO_FUNCTIONS:
        assert "Give a function" in check("three_masks", answer, show=False).message
    assert check("three_masks", stub, show=False).passed is None
    for error in ERRORS:
        told_when_raising("three_masks", error)


def test_hints_lead_on_and_the_lesson_is_named():
    for exercise in roles.EXERCISES:
        assert exercise is EXERCISES[exercise.id] and exercise.lesson == "11"

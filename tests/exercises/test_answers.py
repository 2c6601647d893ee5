"""Reading answers: numbers, and text that should have been numbers."""

import numpy as np
import pytest

from attnlib.exercises.answers import in_quotes, numbers


@pytest.mark.parametrize("text", ["4", " 64 ", "1e3", "-0.5", ["2", "3"], np.array([["1", "2"]])])
def test_numbers_in_quotes_are_told_so(text):
    assert in_quotes(text)
    array, complaint = numbers(text, np.shape(text), "your answer")
    assert array is None and "without quotes; got" in complaint.message


@pytest.mark.parametrize(
    "other", ["four", "", "nan", "inf", "4, 5", ["2", "b"], ["2", [3]], 4, None, ..., [], {}, object(), b""]
)
def test_other_answers_are_not_told_of_quotes(other):
    assert not in_quotes(other)
    _, complaint = numbers(other, (), "your answer")
    assert complaint is None or "quotes" not in complaint.message

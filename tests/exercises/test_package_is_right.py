"""attnlib's own functions meet the contracts of its exercises."""

from dataclasses import replace

import pytest
from adapters import ADAPTERS

from attnlib.exercises.catalogue import EXERCISES


@pytest.mark.parametrize("exercise", ADAPTERS)
def test_attnlib_passes_its_own_judges(exercise):
    verdict = replace(EXERCISES[exercise].judge, package=True)(ADAPTERS[exercise].answer)
    assert verdict.passed is True, verdict.message

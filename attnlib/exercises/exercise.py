"""What an exercise is: data that the catalogue lists and `check`, `hint` and `solution` read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    Attributes
    ----------
    id : str
        The name that the lesson's text and CONTRACTS state.
    lesson : str
        Two digits.
    judge : callable
        ``judge(answer)`` gives a `Verdict`.
    hints : tuple of str
        Steps towards the answer, each further than the one before; `hint` gives one at a time.
    solution : str
        One right answer as Python source: statements that end by giving ``answer`` a value, or the
        function that is asked for.
    kind : str
        A function to write, a construction with a property, a prediction that is recorded before the
        run, or a test that the learner writes.
    """

    id: str
    lesson: str
    judge: Callable
    hints: tuple[str, ...]
    solution: str
    kind: Literal["function", "construction", "prediction", "test"]

"""The exam questions: forty, each with a lesson that exists, and the numbers of their answers computed."""

import re
from pathlib import Path

import numpy as np
import pytest

import attnlib

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs" / "exam.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"^### (\d+) · (.+?)\n(.+?)(?=^##|\Z)", TEXT, re.M | re.S)
HEAD = re.compile(r"^\*Lesson (\d\d) · (\d+) minutes · (\d) points\.\* ", re.M)


def test_there_are_forty_in_the_order_of_the_lessons():
    assert [int(number) for number, _, _ in QUESTIONS] == list(range(1, 41))
    lessons = [HEAD.search(body)[1] for _, _, body in QUESTIONS]
    assert lessons == sorted(lessons)
    assert set(lessons) == {path.name[:2] for path in (ROOT / "notebooks").glob("[0-9]*.ipynb")} - {"00"}


@pytest.mark.parametrize("number, body", [(number, body) for number, _, body in QUESTIONS])
def test_a_point_is_given_for_each_numbered_part_of_the_answer(number, body):
    points = int(HEAD.search(body)[3])
    answer = body.partition("**Answer.**")[2].partition("```")[0]
    assert re.findall(r"(?<!\w)\((\d)\) (?=\S)", answer) == [str(part + 1) for part in range(points)]


@pytest.mark.parametrize("number, body", [(number, body) for number, _, body in QUESTIONS])
def test_the_numbers_of_the_answer_are_computed(number, body):
    names = {"np": np, **{name: getattr(attnlib, name) for name in attnlib.__all__ if name in body}}
    for lines in re.findall(r"```python\n(.+?)```", body, re.S):
        exec(compile(lines, f"question {number}", "exec"), names)  # noqa: S102

"""Answers of others, written from the contracts alone: right ones accepted, wrong ones rejected and told.

`submissions/` has a file for each exercise. A line of equals signs and a name begins a submission. The
comment below it says what is unusual about a right one or wrong with a wrong one, and what the checker
names.
"""

import re
from pathlib import Path

import pytest
import torch  # noqa: F401  here, for a first import inside a judged function takes long

from attnlib.exercises import check

FOLDER = Path(__file__).with_name("submissions")
FUNCTION = {
    "kv_cache": "decode_step",
    "gqa": "grouped_query_attention",
    "linear_attention": "causal_linear_attention",
}


def submissions(exercise):
    """Name and source of each submission to an exercise."""
    text = (FOLDER / f"{exercise}.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"(?m)^=====+ (\w+)\n", text)
    return list(zip(parts[::2], parts[1::2], strict=True))


EXERCISES = sorted(path.stem for path in FOLDER.glob("*.txt"))


def judged(exercise, name, source):
    space = {"__name__": "submission"}
    exec(compile(source, f"{exercise}/{name}", "exec"), space)
    return check(exercise, space[FUNCTION.get(exercise, exercise)], show=False)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_right_answers_are_accepted(exercise):
    right = [(name, source) for name, source in submissions(exercise) if name.startswith("right_")]
    assert len(right) >= 7
    refused = {name: verdict.message for name, source in right
               if (verdict := judged(exercise, name, source)).passed is not True}  # fmt: skip
    assert not refused


@pytest.mark.parametrize("exercise", EXERCISES)
def test_wrong_answers_are_rejected_and_told(exercise):
    wrong = [(name, source) for name, source in submissions(exercise) if name.startswith("wrong_")]
    assert len(wrong) >= 20
    problems = {}
    for name, source in wrong:
        verdict = judged(exercise, name, source)
        told = re.search(r"(?m)^# TOLD: (.*)$", source)[1]
        if verdict.passed is not False:
            problems[name] = "accepted"
        elif (verdict.misconception or "by its case") != told:
            problems[name] = f"told {verdict.misconception}, and it was {told}"
        elif len(verdict.message) < 40 or "AssertionError" in verdict.message.split(".")[0]:
            problems[name] = verdict.message
    assert not problems


def test_there_are_answers_to_every_exercise_with_a_contract():
    assert len(EXERCISES) >= 24


def test_they_are_told_by_name_mostly():
    told = [line for exercise in EXERCISES for _, source in submissions(exercise)
            for line in re.findall(r"(?m)^# TOLD: (.*)$", source)]  # fmt: skip
    assert len(told) > 1000 and told.count("by its case") < len(told) / 10

"""Every question in every variant: its solution is right, its stub unanswered, the others' solutions told."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from attnlib.homework import assignment, source
from attnlib.homework.local import Points, judged, local_check, points

HIDDEN = 5
QUESTIONS = [
    pytest.param(id, question, id=f"{id}-{question.__name__.rpartition('.')[2]}")
    for id in assignment.ASSIGNMENTS
    for question in assignment.module(id).QUESTIONS
]


def variants(question):
    return [dict(zip(question.CHOICES, each, strict=True)) for each in product(*question.CHOICES.values())]


def namespace(made):
    """What the locked cells of a notebook define before this question."""
    names = {"np": np}
    exec(made.given, names)
    return names


@cache
def answered(id, question, number):
    """The question in one variant, and the answer of its solution."""
    choice = variants(question)[number]
    made = question.question(choice)
    names = namespace(made)
    exec(source._solved(made), names)
    return made, names[made.name]


@pytest.mark.parametrize(("id", "question"), QUESTIONS)
def test_the_solution_earns_all_points_in_every_variant(id, question):
    for number, choice in enumerate(variants(question)):
        if question.question(choice).kind == "written":
            continue
        made, answer = answered(id, question, number)
        for seed in (None, HIDDEN, HIDDEN + 1):
            verdict = judged(made, answer, seed)
            assert verdict.passed, (choice, seed, str(verdict))
            assert points(made, verdict) == made.points


@pytest.mark.parametrize(("id", "question"), QUESTIONS)
def test_what_is_released_is_unanswered(id, question):
    for choice in variants(question):
        made = question.question(choice)
        if made.kind == "written":
            continue
        names = namespace(made)
        stub = source._without_solution(source._solved(made), source.CODE_STUB)
        exec(stub, names)
        verdict = judged(made, names[made.name], HIDDEN)
        assert verdict.passed is None, str(verdict)
        assert points(made, verdict) == 0


@pytest.mark.parametrize(("id", "question"), QUESTIONS)
def test_the_solution_of_another_variant_earns_nothing_and_is_told_why(id, question):
    every = variants(question)
    kind = question.question(every[0]).kind
    if kind not in ("function", "test"):
        pytest.skip("a number or a figure says by itself what is asked for")
    for (here, _), (there, _) in product(enumerate(every), repeat=2):
        made, answer = answered(id, question, here)
        other = answered(id, question, there)[1]
        if here != there:
            verdict = judged(made, other, HIDDEN)
            assert verdict.passed is False, (every[here], every[there])
            if kind == "function":
                assert "Right under another convention" in verdict.message, (every[here], every[there])
                assert points(made, verdict) == 0


@pytest.mark.parametrize(("id", "question"), QUESTIONS)
def test_a_question_says_what_it_asks(id, question):
    for choice in variants(question):
        made = question.question(choice)
        assert made.name in made.text or made.kind == "written"
        assert 0 <= made.part < made.points and made.minutes > 0
        assert (made.rubric != "") == (made.kind == "written") == (made.judge is None)
        assert all(len(line) <= 110 for line in f"{made.stub}\n{made.solution}".splitlines())


def test_no_class_gets_what_is_published():
    for id in assignment.ASSIGNMENTS:
        for seed in range(1, 60):
            choice = assignment.chosen(id, seed)
            for question in assignment.module(id).QUESTIONS:
                own = {name: choice[name] for name in question.CHOICES}
                if own:
                    assert own not in (question.LESSON, question.SAMPLE)


def test_a_class_gets_the_same_each_time_and_classes_differ():
    for id in assignment.ASSIGNMENTS:
        codes = [assignment.load(id, seed).code for seed in range(1, 12)]
        assert codes == [assignment.load(id, seed).code for seed in range(1, 12)]
        assert len(set(codes)) > 6


def test_a_code_gives_back_its_variant_and_bad_ones_are_told():
    made = assignment.load("hw1", 7)
    assert assignment.from_code("hw1", made.code).questions[1].text == made.questions[1].text
    for bad in ("", made.code + "0", made.code[:-1] + "9", "x" * len(made.code), "²" * len(made.code)):
        with pytest.raises(ValueError, match="no variant"):
            assignment.from_code("hw1", bad)
    with pytest.raises(KeyError, match="there are: hw1"):
        assignment.load("hw9", 1)


def test_the_local_check_gives_points_and_says_that_there_are_hidden_cases():
    made = assignment.load("hw1", 7)
    check = local_check("hw1", made.code)
    lookup = next(q for q in assignment.module("hw1").QUESTIONS if q.__name__.endswith(".lookup"))
    number = next(i for i, each in enumerate(variants(lookup))
                  if lookup.question(each).text == made.question("lookup").text)  # fmt: skip
    found = check("lookup", answered("hw1", lookup, number)[1])
    assert isinstance(found, Points) and found == 5 and repr(found) == "5.0"
    assert "the grader has more" in found.verdict.message and "Right" in found._repr_html_()
    assert check("lookup", ...) == 0 and check("lookup", 3) == 0
    with pytest.raises(KeyError, match="no question 'lokup'"):
        check("lokup", 1)

"""Every question in every variant: its solution is right, its stub unanswered, the others' solutions told."""

from dataclasses import replace
from functools import cache
from itertools import combinations
from unittest.mock import Mock

import numpy as np
import pytest
from answering import variants

from attnlib.homework import assignment, source
from attnlib.homework.local import Points, judged, local_check, points

HIDDEN = 5
QUESTIONS = [
    pytest.param(id, question, id=f"{id}-{question.__name__.rpartition('.')[2]}")
    for id in assignment.ASSIGNMENTS
    for question in assignment.module(id).QUESTIONS
]


def namespace(id, question, made):
    """What the locked cells of a notebook define before this question is answered."""
    names = {"np": np}
    every = assignment.module(id).QUESTIONS
    for earlier in every[: every.index(question)]:
        exec(earlier.question(variants(earlier)[0]).given, names)
    exec(made.given, names)
    return names


@cache
def answered(id, question, number):
    """The question in one variant, and the answer of its solution."""
    choice = variants(question)[number]
    made = question.question(choice)
    names = namespace(id, question, made)
    exec(source._solved(made), names)
    return made, names[made.name]


@pytest.mark.parametrize(("id", "question"), QUESTIONS)
def test_the_solution_earns_all_points_in_every_variant(id, question):
    for number, choice in enumerate(variants(question)):
        if question.question(choice).kind == "written":
            continue
        made, answer = answered(id, question, number)
        for seed in (None, HIDDEN + number % 2):
            verdict = judged(made, answer, seed)
            assert verdict.passed, (choice, seed, str(verdict))
            assert points(made, verdict) == made.points


@pytest.mark.parametrize(("id", "question"), QUESTIONS)
def test_what_is_released_is_unanswered(id, question):
    for choice in variants(question):
        made = question.question(choice)
        if made.kind == "written":
            continue
        names = namespace(id, question, made)
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
    for pair in combinations(range(len(every)), 2):
        here, there = pair if sum(pair) % 2 else pair[::-1]       # each pair once, in either direction
        made, other = answered(id, question, here)[0], answered(id, question, there)[1]
        verdict = judged(made, other, HIDDEN)
        assert verdict.passed is False, (every[here], every[there])
        assert points(made, verdict) == 0
        if kind == "function":
            assert "Right under another convention" in verdict.message, (every[here], every[there])


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
                    assert own not in (*assignment.lessons(question), question.SAMPLE)


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
    told = "These were 4 of 8 cases; the grader has the others, and other numbers in all."
    assert found.verdict.message.endswith(told) and "Right" in found._repr_html_()
    assert "as many keys as numbers" not in found.verdict.message     # that was not tried
    assert check("lookup", ...) == 0 and check("lookup", 3) == 0
    with pytest.raises(KeyError, match="no question 'lokup'"):
        check("lokup", 1)


@pytest.mark.parametrize(("id", "question", "said"), [
    ("hw1", "blind_scores", "These were 3 of 8 ways of scoring; the grader has the others."),
    ("hw2", "safe_softmax", "These were 4 of 9 softmaxes; the grader has the others."),
    ("hw3", "leaks", "These were 4 of 9 models, in one shape; the grader has the others, and other shapes."),
])  # fmt: skip
def test_the_local_check_of_a_test_praises_what_was_tried(id, question, said):
    module = next(each for each in assignment.module(id).QUESTIONS if each.__name__.endswith(question))
    made, answer = answered(id, module, 0)
    assert made.judge(answer).message == f"It holds on all that was tried here. {said}"
    assert "the grader has" not in made.judge(answer, HIDDEN).message
    assert made.judge(lambda *_: True).message.endswith(said)


def test_the_local_check_of_a_prediction_does_not_look_at_the_truth(monkeypatch):
    made = assignment.load("hw1", 7)
    judge = Mock(side_effect=AssertionError)
    asked = replace(made, questions=(replace(made.question("copies"), judge=judge),))
    monkeypatch.setattr(assignment, "from_code", lambda *_: asked)
    check = local_check("hw1", made.code)
    assert "Your prediction is 5." in check("copies", 5).verdict.message
    assert check("copies", "many").verdict.passed is False and check("copies", ...).verdict.passed is None


def test_two_questions_that_choose_alike_choose_once():
    for seed in range(40):
        first, second = assignment.load("hw3", seed).questions[:2]
        assert ("and w words before" in first.text) == ("own place and those at **window**" in second.text)


def test_a_question_says_its_part_and_the_head_the_limits():
    made = assignment.load("hw1", 7)
    texts = [cell.source for cell in source.source(made, ("Rules.",)).cells if cell.cell_type == "markdown"]
    assert "A call of your function has 4 seconds (1.2 of them at work)" in texts[0]
    assert texts[0].endswith("\n\nRules.")
    assert "*5 points (2 with one named mistake), 15 minutes*" in "".join(texts)
    assert "*2 points, 4 minutes*" in texts[1]


def test_what_an_answer_may_not_use_is_said_in_the_text_and_by_the_local_check():
    made = assignment.load("hw4", 7)
    texts = [cell.source for cell in source.source(made, ()).cells]
    assert any("To be written without `layer_norm`, `rms_norm`, " in text for text in texts)
    check, names = local_check("hw4", made.code), {}
    exec("import torch.nn.functional as F\nfrom torch.nn.functional import layer_norm as n\n\n"
         "def helped(x):\n    return F.rms_norm(x, x.shape[-1:])\n\n"
         "def sublayer(x, gain, w_in, w_out, eps):\n    return helped(n(x, gain.shape))", names)  # fmt: skip
    told = check("sublayer", names["sublayer"]).verdict.message
    assert "But it names `layer_norm`, `rms_norm`: the grader takes that away" in told
    assert "the grader takes" not in check("sublayer", lambda x, gain, w_in, w_out, eps: x).verdict.message


def test_what_is_read_for_does_not_answer():
    for id, answer in (("hw1", "equal keys share the weight equally"), ("hw2", "is the weight less 1"),
                       ("hw3", "the scores do differ")):  # fmt: skip
        made = assignment.load(id, 7).questions[-1]
        assert "**For the marker.**" in made.solution
        assert answer not in made.rubric.replace("\n", " ") and "1 point" in made.rubric


def test_a_solution_without_a_scale_divides_by_nothing():
    solution = _module("lookup").question({**_module("lookup").SAMPLE, "scale": "none"}).solution
    assert solution.splitlines()[0] == "    scores = queries @ keys"


def test_names_of_mistakes_read_as_words():
    for id in assignment.ASSIGNMENTS:
        for module in assignment.module(id).QUESTIONS:
            for convention in getattr(module, "CONVENTIONS", ()):
                names = [convention.called(value) for value in convention.options]
                assert len(set(names)) == len(names) and not any(" " in name for name in names)
    assert [each.name for each in vars(_module("word_scores"))["CONVENTIONS"][0].options.values()] == [
        "matrices_not_transposed", "matrices_transposed"]  # fmt: skip


def _module(name):
    return next(q for q in assignment.module("hw1").QUESTIONS if q.__name__.endswith(name))


@pytest.mark.parametrize("count", [1, 61, 1000])
def test_a_way_of_scoring_takes_any_number_of_keys(count):
    rng = np.random.default_rng(0)

    def is_blind(weights, d):
        keys = rng.normal(size=(count, d))
        found = [weights(keys, query) for query in rng.normal(size=(40, d)) * 10]
        assert np.shape(found) == (40, count)
        return bool(np.ptp(found, axis=0).max() < 1e-6)

    choice = {"true_of": "blind", "first_argument": "keys"}
    verdict = _module("blind_scores").question(choice).judge(is_blind, HIDDEN)
    assert verdict.passed or count == 1, str(verdict)
    assert "raised" not in verdict.message


@pytest.mark.parametrize("first", ["query", "keys"])
def test_a_way_of_scoring_is_called_by_the_names_of_the_task(first):
    def is_blind(weights, d):
        rng = np.random.default_rng(0)
        keys = rng.normal(size=(5, d))
        found = [weights(keys=keys, query=query) for query in rng.normal(size=(40, d)) * 10]
        return bool(np.ptp(found, axis=0).max() < 1e-6)

    choice = {"true_of": "blind", "first_argument": first}
    verdict = _module("blind_scores").question(choice).judge(is_blind, HIDDEN)
    assert verdict.passed, str(verdict)


def test_a_map_of_the_packages_own_is_a_map():
    from attnlib.plots import attention_heatmap

    module = _module("drawn_weights")
    words, weights = module.WORDS["3"], module.softmax(module.scores("3"), 1)
    made = module.question({"lie": "down", "scores_of": "3"})
    assert made.judge(attention_heatmap(weights, words, words, title="Who looks at whom?")).passed
    bare = attention_heatmap(weights, words, words)
    bare.axes[0].set_xlabel("")
    verdict = made.judge(bare)
    assert "Its labels" in verdict.message and "A title" in verdict.message and points(made, verdict) == 2


def test_a_map_turned_is_anothers_and_earns_nothing():
    from attnlib.plots import attention_heatmap

    module = _module("drawn_weights")
    words, weights = module.WORDS["3"], module.softmax(module.scores("3"), 1)
    made = module.question({"lie": "across", "scores_of": "3"})
    verdict = made.judge(attention_heatmap(weights, words, words, title="Who looks at whom?"))
    assert verdict.misconception == "turned" and points(made, verdict) == 0


@pytest.mark.parametrize(("id", "question"), [
    pytest.param(*each.values, id=each.id) for each in QUESTIONS
    if each.values[1].question(variants(each.values[1])[0]).kind == "test"
])  # fmt: skip
def test_a_test_that_counts_its_calls_earns_nothing(id, question):
    """Whoever knows the order in which models are listed does not know that in which they are asked."""
    made, right = answered(id, question, 0)
    listed = []

    def listening(*args):
        listed.append(right(*args))
        return listed[-1]

    assert judged(made, listening, 1).passed
    told = iter(listed)
    verdict = judged(made, lambda *args: next(told), HIDDEN)
    assert verdict.passed is False and points(made, verdict) == 0

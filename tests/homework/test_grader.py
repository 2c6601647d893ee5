"""The grader on the assignments themselves: a notebook goes in, a result comes out."""

import json

import pytest

from attnlib.homework import assignment
from attnlib.homework.collect import Submission
from attnlib.homework.grading import Job, grade_one
from attnlib.homework.sandbox import Sandbox
from attnlib.homework.source import source
from attnlib.homework.submission import another, plan, read

HW1 = assignment.load("hw1", 0)


def graded(tmp_path, notebook, sandbox=None, id="hw1"):
    (tmp_path / "hw1.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    handed_in = Submission("ann", "hw1.ipynb", (str(tmp_path / "hw1.ipynb"),))
    return grade_one(Job(handed_in, id, 0, sandbox))


def notebook(made=HW1, **answers):
    """The notebook with all answers, and these in the place of its own."""
    built = json.loads(json.dumps(source(made, ())))
    for cell in built["cells"]:
        cell["source"] = answers.get(cell["metadata"]["nbgrader"]["grade_id"], cell["source"])
    return built


MAP = """
from attnlib import softmax
weights = softmax(SCORES)
figure, axes = plt.subplots()
axes.imshow(weights)
axes.set_xticks(range(len(WORDS)), WORDS)
axes.set_yticks(range(len(WORDS)), WORDS)
axes.set(xlabel="key", ylabel="query", title="Who looks at whom")"""
LOOKUP = """
from torch.nn.functional import softmax as of_torch
import torch
def lookup(queries, keys, values):
    weights = of_torch(torch.as_tensor(queries @ keys), 1).numpy()
    return weights, weights @ values"""
OF_THE_PACKAGE = """
import attnlib
def lookup(queries, keys, values):
    weights = attnlib.softmax(queries @ keys)
    return weights, weights @ values"""


@pytest.mark.bubblewrap
@pytest.mark.parametrize(("answer", "points", "told"), [
    (None, 5, "right"), (LOOKUP, 0, "softmax is not available in this question; write it yourself"),
    (OF_THE_PACKAGE, 0, "Your function calls the package"),
])  # fmt: skip
def test_what_one_question_forbids_another_may_use(tmp_path, answer, points, told):
    """And the question that forbids it gives nothing for it, with the reason."""
    answers = {"drawn_weights": MAP} | ({"lookup": answer} if answer else {})
    with Sandbox(HW1.question("lookup").forbids) as sandbox:
        result = graded(tmp_path, notebook(**answers), sandbox)
    by_id = {each["id"]: each for each in result["questions"]}
    lookup = by_id.pop("lookup")
    assert lookup["points"] == points and told in lookup["verdict"]
    assert all(each["points"] in (each["out_of"], None) for each in by_id.values()), by_id


@pytest.mark.parametrize("loses", ["nothing", "metadata", "the check", "ids"])
def test_the_notebook_of_another_assignment_is_no_zero(tmp_path, loses):
    other = notebook(assignment.load("hw2", 0))
    if loses == "metadata":
        other["metadata"] = {}
    for cell in other["cells"]:
        if loses == "the check" and "local_check" in cell["source"]:
            cell["source"] = ""
        if loses == "ids":
            cell["metadata"] = {}
    result = graded(tmp_path, other)
    assert (result["status"], result["points"]) == ("another assignment", None)
    assert result["reason"] == "This is the notebook of hw2 and not of hw1; it was not graded."


def test_answers_in_another_assignments_file_are_answers():
    made = notebook()
    made["metadata"]["attn"]["assignment"] = "hw2"
    assert another(HW1, read(json.dumps(made).encode())) is None


@pytest.mark.parametrize(("seed", "told"), [(0, "whose solutions are public"), (4, "another class's")])
@pytest.mark.parametrize("loses", ["metadata", "local_check"])
def test_the_notebook_of_another_class_is_told(seed, told, loses):
    made = notebook(assignment.load("hw1", seed))
    made = json.loads(json.dumps(made).replace("local_check", "check") if loses == "local_check"
                      else json.dumps(made | {"metadata": {}}))  # fmt: skip
    assert told in plan(assignment.load("hw1", 3), read(json.dumps(made).encode())).variant
    assert plan(assignment.load("hw1", seed), read(json.dumps(made).encode())).variant == ""

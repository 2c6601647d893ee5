"""Reading what students hand in, and matching it to what was given out."""

import copy
import json
import time
from dataclasses import replace

import pytest
from mutated import code, grade_id, mutations
from small_assignment import good

from attnlib.homework.cell_code import Unparsed, forbidden_in, read_code
from attnlib.homework.local import judged
from attnlib.homework.source import released, source
from attnlib.homework.submission import Notebook, Unreadable, fit, plan, read

NO_NOTEBOOKS = {
    "empty": "is empty", "zeros": "zero bytes", "cut": "breaks off", "script": "Python script",
    "web_page": "web page", "pdf": "PDF", "zipped": "zip archive", "merge_marks": "merge",
    "other_json": "without cells", "a_list": "without cells", "a_number": "without cells", "deep": "nested",
    "deep_and_closed": "nested", "long_number": "line 1",
}  # fmt: skip


@pytest.fixture(scope="module")
def mutants(small):
    stubs = {cell.metadata.nbgrader.grade_id: cell.source for cell in released(source(small, ())).cells}
    asked = [
        (question.id, question.name, stubs[question.id]) for question in small.questions if question.judge
    ]
    return mutations(good(small), asked)


def run(session, assignment, notebook):
    """The ids of the questions that are answered rightly, and the plan."""
    made, passed = plan(assignment, notebook), set()
    with session(None, made.cells) as running:
        for question in assignment.questions:
            if question.judge and made.names[question.id] in running.names:
                answer = running.answer(made.names[question.id])
                passed |= {question.id} if judged(question, answer, 5).passed else set()
    return passed, made


def changed(notebook, **sources):
    """A copy whose cells with these ids hold these sources."""
    notebook = copy.deepcopy(notebook)
    for cell in notebook["cells"]:
        cell["source"] = sources.get(grade_id(cell).replace("-", "_"), cell["source"])
    return notebook


def planned(assignment, notebook):
    return plan(assignment, read(json.dumps(notebook).encode()))


def test_mutated_copies(mutants, small, session_in_process):
    """Whatever was done to it: what is whole is found right, and what is lost is named."""
    assert len(mutants) >= 50
    for name, (data, whole) in mutants.items():
        notebook = read(data)
        if name in NO_NOTEBOOKS:
            assert isinstance(notebook, Unreadable), name
            assert NO_NOTEBOOKS[name] in notebook.reason, (name, notebook.reason)
            continue
        assert isinstance(notebook, Notebook), (name, notebook)
        passed, made = run(session_in_process, small, notebook)
        assert passed == whole, (name, made.notes)
        lost = {question.id for question in small.questions if question.judge} - whole
        if name.endswith("split_apart"):  # its head is a stub again
            assert any("is no Python" in note for note in made.notes), name
        else:
            assert set(made.missing) == lost, name
            assert all(made.missing[id] in made.about[id] for id in lost), name


def test_an_untouched_answer_needs_no_word(small, answered):
    made = planned(small, answered)
    assert made.notes == [] and made.missing == {} and made.forbidden == {}
    assert made.written == {"why": "Because it is."}
    assert [label for label, _ in made.cells] == [
        "cell 2 (given-check)",
        "cell 4 (double)",
        "cell 7 (given-total)",
        "cell 8 (total)",
        "cell 11 (mean)",
    ]


def test_the_release_answers_nothing(small, session_in_process):
    data = json.dumps(released(source(small, ()))).encode()
    passed, made = run(session_in_process, small, read(data))
    assert passed == set() and made.missing == {} and made.written == {"why": ""}


@pytest.mark.parametrize(("source", "said"), [
    ("", "defines no `double`"),
    ("def dbl(x):\n    return 2 * x", "defines `dbl` and no `double`"),
    ("def double(x) return", "is no Python (line 1"),
])  # fmt: skip
def test_a_missing_answer_is_explained(small, answered, source, said):
    made = planned(small, changed(answered, double=source))
    assert "Cell 4 (double)" in made.missing["double"] and said in made.missing["double"]


def test_the_name_of_another_variant_is_said(small, answered):
    asked = replace(small.question("double"), other_names=("halve",))
    made = planned(
        replace(small, questions=(asked, *small.questions[1:])),
        changed(answered, double="def halve(x):\n    return x / 2"),
    )
    told = "Cell 4 (double) defines `halve`, which another class is asked for; here it is `double`."
    assert made.missing["double"] == told


def test_locked_cells_are_the_assignments_own(small, answered, session_in_process):
    cheated = changed(answered, given_total="NUMBERS = np.array([6])\nmine = 1", check_double="double = 7")
    passed, made = run(session_in_process, small, read(json.dumps(cheated).encode()))
    assert {"total", "mean"} <= passed
    sources = [text for _, text in made.cells]
    assert "NUMBERS = np.array([1, 2, 3])" in sources and not any("mine" in text for text in sources)
    assert any("Cell 7 (given-total) is locked and was changed" in note for note in made.notes)
    # Who answers in the check's cell is not let down, and it is said.
    assert any("is locked, yet defines `double`" in note for note in made.about["double"])


def test_what_is_merged_into_a_locked_cell_runs_after_it(small, answered, session_in_process):
    notebook = changed(answered, given_total="NUMBERS = np.array([9])\ntotal = int(NUMBERS.sum())", total="")
    passed, made = run(session_in_process, small, read(json.dumps(notebook).encode()))
    assert "total" in passed
    assert any("then what else stands in it" in note for note in made.notes)


def test_the_last_of_two_answers_counts_and_is_said(small, answered, session_in_process):
    notebook = copy.deepcopy(answered)
    notebook["cells"].append(code("def double(x):\n    return x"))
    passed, made = run(session_in_process, small, read(json.dumps(notebook).encode()))
    assert "double" not in passed
    assert made.about["double"] == [
        "`double` is defined in cell 4 (double) and cell 16 (double); the last that runs counts."
    ]


def test_a_value_whose_name_is_used_again_keeps_what_its_cell_gave(small, answered, session_in_process):
    notebook = copy.deepcopy(answered)
    notebook["cells"].append(code("total = 0\nfor n in range(9):\n    total += n"))
    passed, made = run(session_in_process, small, read(json.dumps(notebook).encode()))
    assert "total" in passed and made.names["total"] == "_answer_to_total"
    assert "gets a value again in cell 16" in made.about["total"][0]


def test_without_ids_the_first_value_behind_the_task_counts(small, answered):
    notebook = copy.deepcopy(answered)
    for cell in notebook["cells"]:
        cell["metadata"] = {}
    notebook["cells"][1:1] = [code("total = 0")]
    notebook["cells"] += [code("for total in range(3):\n    pass"), code("total = 7")]
    made = planned(small, notebook)
    (label,) = [label for label, kept in made.keeps.items() if kept == [made.names["total"]]]
    assert "total" in label and f"what {label} gave it counts" in made.about["total"][0]
    first = planned(small, {**notebook, "cells": notebook["cells"][2:]})
    assert any("total" in label for label in first.keeps)


def test_cells_of_programs_are_run(small, answered):
    notebook = copy.deepcopy(answered)
    notebook["cells"][1:1] = [code("%%writefile helper.py\ndef two(): return 2"), code("%%bash\ntrue"),
                              code("%%timeit\n1 + 1"), code("check('x', 1)")]  # fmt: skip
    sources = [text for _, text in planned(small, notebook).cells]
    assert sources[0].startswith("%%writefile") and sources[1] == "%%bash\ntrue"
    assert not any("timeit" in text or text.startswith("check(") for text in sources)


def test_what_is_shown_has_no_control_characters(small, answered):
    made = planned(small, changed(answered, why="It \x1b[31mis\u202e so.\nYes."))
    assert made.written["why"] == "It [31mis so.\nYes."


def test_cells_run_in_their_order_unless_they_cannot(small, answered):
    notebook = copy.deepcopy(answered)
    notebook["cells"][3:3] = [code("x = later + 1"), code("x = 2")]
    notebook["cells"] += [code("later = 1"), code("x = 3"), code("never = seen_nowhere")]
    sources = [text for _, text in planned(small, notebook).cells]
    assert sources.index("later = 1") + 1 == sources.index("x = later + 1") < sources.index("x = 2")
    assert sources[-2:] == ["x = 3", "never = seen_nowhere"]


def test_two_cells_that_need_each_other_do_not_hang(small, answered):
    notebook = copy.deepcopy(answered)
    notebook["cells"] += [code("a = b"), code("b = c"), code("c = a")]
    assert len(planned(small, notebook).cells) == 8


def test_another_classs_notebook_is_named(small, answered):
    notebook = changed(answered, given_check='check = local_check("hw1", "17")')
    assert any("variant 17" in note for note in planned(small, notebook).notes)


@pytest.mark.parametrize(("where", "text"), [
    ("own", "Mine."), ("as_code", "Mine, in code."), ("below", "Mine, below."), ("twice", "One.\n\nTwo."),
])  # fmt: skip
def test_written_answers(small, answered, where, text):
    notebook = changed(answered, why=text)
    place = next(i for i, cell in enumerate(notebook["cells"]) if grade_id(cell) == "why")
    if where == "as_code":
        notebook["cells"][place]["cell_type"] = "code"
    if where == "below":
        notebook["cells"][place]["source"] = "*Your answer comes here.*"
        notebook["cells"].insert(place + 1, {"cell_type": "markdown", "metadata": {}, "source": text})
    if where == "twice":
        notebook["cells"][place]["source"] = "One."
        notebook["cells"].insert(place + 1, {**copy.deepcopy(notebook["cells"][place]), "source": "Two."})
    made = planned(small, notebook)
    assert made.written["why"] == text
    assert not any("is no Python" in note for note in made.notes)


# ------------------------------------------------------------------------------- forbidden names


@pytest.mark.parametrize("cells", [
    ["from torch.nn.functional import softmax\ndef f(x):\n    return softmax(x)"],
    ["from scipy.special import softmax as s", "def helper(x):\n    return s(x)", "f = lambda x: helper(x)"],
    ["import torch\ndef f(x):\n    return torch.softmax(x, 0)"],
    ["def f(x):\n    return x.softmax(-1)"],
    ["import torch\ndef f(x):\n    return getattr(torch, 'softmax')(x)"],
    ["def f(x):\n    return eval('torch.nn.functional.softmax(x, 0)')"],
    ["import torch\nf = torch.__dict__['softmax']"],
    ["from attnlib import *\ndef f(x):\n    return softmax(x)"],
    ["def f(x):\n    from attnlib import softmax\n    return softmax(x)"],
    ["def f(x):\n    return inner(x)",
     "class Inner:\n    def __call__(self, x):\n        return x.softmax(0)",
     "inner = Inner()"],
])  # fmt: skip
def test_forbidden_names_are_found(cells):
    assert forbidden_in([read_code(cell) for cell in cells], "f", ("attention", "softmax")) == ["softmax"]


@pytest.mark.parametrize("cells", [
    ["def softmax(x):\n    return x\ndef f(x):\n    return softmax(x)"],
    ["def f(x):\n    softmax = x + 1\n    return softmax"],
    ["def f(x):\n    'Not by softmax.'\n    # softmax\n    raise ValueError('no softmax here')"],
    ["import torch\ng = torch.softmax", "def f(x):\n    return x"],
    ["class M:\n    def softmax(self, x):\n        return x\n"
     "    def f(self, x):\n        return self.softmax(x)",
     "f = M().f"],
])  # fmt: skip
def test_a_name_of_ones_own_is_not_forbidden(cells):
    assert forbidden_in([read_code(cell) for cell in cells], "f", ("attention", "softmax")) == []


def test_a_forbidden_name_is_said(small, answered):
    notebook = changed(answered, double="def double(x):\n    return np.multiply(2, x)")
    made = planned(small, notebook)
    assert made.forbidden == {"double": ["multiply"]} and "`multiply`" in made.about["double"][0]


# ------------------------------------------------------------------------------------- odd inputs


@pytest.mark.parametrize("source", [
    "-" * 100_000 + "1", "(" * 100_000, "1" + "+1" * 100_000, "x" + "[0]" * 90_000, "\n" * 290_000 + "%x",
    " " * 290_000 + "= !", "?" * 290_000, "a?" * 100_000, "%a\n" * 90_000, "lambda: " * 30_000 + "1",
    "\\" * 9,
    "f'{" * 100, "x = '\ud800'".encode("utf-8", "replace").decode(), "\x0c", "#" * 290_000, "9" * 290_000,
])  # fmt: skip
def test_hostile_code_is_read_in_time(source):
    begun = time.process_time()
    try:
        read_code(source)
    except Unparsed as error:
        assert str(error)
    assert time.process_time() - begun < 8


def test_odd_texts_warn_nobody(no_warnings):
    with no_warnings():
        assert "x" in read_code("x = '\\d'; 1 is 1").defines


def test_a_long_chain_of_cells_is_planned_in_time(small, answered):
    answered["cells"] += [code(f"x{i} = x{i + 1}") for i in range(450)] + [code("x450 = 1")]
    begun = time.process_time()
    sources = [text for _, text in planned(small, answered).cells]
    assert sources.index("x450 = 1") < sources.index("x0 = x1")
    assert time.process_time() - begun < 8


def test_fit(small, answered):
    assert fit(small, read(json.dumps(answered).encode())) == 4
    other = {"cells": [code("def triple(x):\n    return 3 * x")]}
    assert fit(small, read(json.dumps(other).encode())) == 0
    bare = {"cells": [code("def double(x): return 2 * x\ntotal = 6")]}
    assert fit(small, read(json.dumps(bare).encode())) == 2

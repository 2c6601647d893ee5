"""An assignment as a notebook in nbgrader's format: with its solutions, and without them.

A question is a text, a cell to fill and, where a judge exists, a locked cell that runs the student's own
check. The check's value is a number of points, so that nbgrader's autograder understands it too.
"""

import re

import nbformat

from attnlib.exercises.calls import ALL_SECONDS, CPU_SECONDS, SECONDS

BEGIN, END = "### BEGIN SOLUTION", "### END SOLUTION"     # nbgrader's own marks
CODE_STUB = "# Your code comes here."                     # what it and we put in a solution's place
TEXT_STUB = "*Your answer comes here.*"


def source(assignment, rules):
    """The source notebook: everything that a released one holds, and the solutions.

    Parameters
    ----------
    assignment : Assignment
    rules : tuple of str
        Sentences on late days and grading anew, printed at its head.

    Returns
    -------
    nbformat.NotebookNode
    """
    cells = [_text("title", _title(assignment, rules)), _code("given-check", _start(assignment), locked=True)]
    for number, question in enumerate(assignment.questions, 1):
        cells += _question(number, question)
    cells.append(_text("hand-in", HAND_IN))
    notebook = nbformat.v4.new_notebook(cells=cells)
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "attn": {"assignment": assignment.id, "variant": assignment.code},
    }
    return notebook


def released(notebook):
    """A copy of a source notebook without its solutions, outputs and counts."""
    copy = nbformat.from_dict(notebook)
    for cell in copy.cells:
        stub = CODE_STUB if cell.cell_type == "code" else TEXT_STUB
        cell.source = _without_solution(cell.source, stub)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return copy


def filled(notebook, answers):
    """A copy of a released notebook in which the cells named in ``answers`` hold these texts."""
    copy = nbformat.from_dict(notebook)
    for cell in copy.cells:
        id = cell.metadata.get("nbgrader", {}).get("grade_id")
        if id in answers:
            cell.source = answers[id]
    return copy


HAND_IN = """\
## Before you hand in

Restart the kernel and run all cells (Kernel, then *Restart Kernel and Run All Cells*). What you see
then is what the grader starts from. It runs your cells in order, each question for itself, on inputs of
its own besides those that your check has tried; a cell that fails or does not end costs its own
question and no other. An answer counts as its own cell leaves it, so finish a figure in the cell that
begins it. The grader takes this file as it is: keep the cells that you were given, and do not copy
them."""


def _title(assignment, rules):
    table = "\n".join(
        f"| {number} | {question.title} | {question.points} | {question.minutes} |"
        for number, question in enumerate(assignment.questions, 1)
    )
    return f"""\
# Homework · {assignment.title}

For {assignment.lessons}; {assignment.points} points, about {assignment.minutes} minutes.

| | question | points | minutes |
|---|---|---|---|
{table}

The conventions here are your class's own: read each sentence of a task, for the lesson may do it the
other way round. Under each question a cell checks your answer on some of the grader's cases and names a
mistake that it knows. The grader tries further cases of the kinds that the task describes. An answer
with one mistake that has a name, and is right otherwise, earns a part of the points where the question says
so. A call of your function has {SECONDS:g} seconds ({CPU_SECONDS:g} of them at work), all calls of a question
together {ALL_SECONDS:g}.

{' '.join(rules)}"""


def _start(assignment):
    return (
        "import numpy as np\n\n"
        "from attnlib.homework import local_check\n\n"
        f'check = local_check("{assignment.id}", "{assignment.code}")'
    )


def _question(number, question):
    points = f"{question.points} point" + "s" * (question.points != 1)
    points += f" ({question.part} with one named mistake)" * (question.part > 0)
    head = f"## {number} · {question.title}\n\n*{points}, {question.minutes} minutes*\n\n"
    if question.kind == "written":
        task = f"{head}{question.text}\n\n**How it is read.** {question.rubric}"
        answer = nbformat.v4.new_markdown_cell(f"{BEGIN}\n{question.solution}\n{END}", id=question.id)
        answer.metadata["nbgrader"] = _mark(question.id, grade=True, solution=True, points=question.points)
        return [_text(f"task-{question.id}", task), answer]
    given = [_code(f"given-{question.id}", question.given, locked=True)] if question.given else []
    return [
        _text(f"task-{question.id}", head + question.text + _without(question)),
        *given,
        _code(question.id, _solved(question), locked=False),
        _check(question),
    ]


def _without(question):
    """What the grader takes away, where it takes something away."""
    if not question.forbids:
        return ""
    names = ", ".join(f"`{name}`" for name in question.forbids)
    return f"\n\nTo be written without {names} and without `attnlib`."


def _solved(question):
    """The cell to fill, with its solution; a function that nobody has written says so when called."""
    solution = question.solution
    if question.kind not in ("function", "test"):
        return f"{question.stub}\n{BEGIN}\n{solution}\n{END}"
    return (
        f"{question.stub}\n    {BEGIN}\n{solution}\n    {END}\n"
        f'    raise NotImplementedError("{question.name} is not written yet")'
    )


def _check(question):
    cell = nbformat.v4.new_code_cell(f'check("{question.id}", {question.name})', id=f"check-{question.id}")
    cell.metadata["nbgrader"] = _mark(f"check-{question.id}", grade=True, locked=True, points=question.points)
    return cell


def _text(id, text):
    cell = nbformat.v4.new_markdown_cell(text, id=id)
    cell.metadata["nbgrader"] = _mark(id, locked=True)
    return cell


def _code(id, text, *, locked):
    cell = nbformat.v4.new_code_cell(text, id=id)
    cell.metadata["nbgrader"] = _mark(id, locked=locked, solution=not locked)
    return cell


def _mark(id, *, grade=False, solution=False, locked=False, points=None):
    mark = {"schema_version": 3, "grade_id": id, "task": False}
    mark |= {"grade": grade, "solution": solution, "locked": locked}
    return mark if points is None else {**mark, "points": points}


def _without_solution(text, stub):
    """nbgrader's rule: what stands between the marks is replaced by the stub, at the first mark's indent."""
    return re.sub(
        rf"(?ms)^([ \t]*){BEGIN}[^\n]*\n.*?^[ \t]*{END}[^\n]*$", lambda found: found[1] + stub, text
    )

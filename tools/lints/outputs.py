"""Rules on stored outputs: current, the same on every machine, and readable without eyes."""

import ast
import re

from lesson import output_text, tags

from .code import tree

FIGURES = ("image/png", "image/jpeg", "image/svg+xml")
ALT_LENGTH = 20
MACHINE_PATH = r"(?<![\w.])/(?:root|home|tmp|Users)/\S*|ipykernel_\d+"


def no_stderr(lesson):
    """No cell writes to stderr."""
    for cell in lesson.code_cells:
        for output in cell.outputs:
            if output.get("name") == "stderr":
                yield f"cell {cell.get('id')}: output on stderr: {output.text.strip()[:80]!r}"


def errors(lesson):
    """A cell ends in an error if, and only if, it has the tag raises-exception."""
    for cell in lesson.code_cells:
        raised = [output.ename for output in cell.outputs if output.output_type == "error"]
        tagged = "raises-exception" in tags(cell)
        if raised and not tagged:
            yield f"cell {cell.get('id')}: a stored {raised[0]} without the tag raises-exception"
        if tagged and not raised:
            yield f"cell {cell.get('id')}: tagged raises-exception, but its output holds no error"


def no_address(lesson):
    """No output holds an object's address, which differs from run to run."""
    for cell in lesson.code_cells:
        found = re.search(r"\b0x[0-9a-fA-F]{6,}", output_text(cell))
        if found:
            yield f"cell {cell.get('id')}: the output holds an object's address, {found[0]}"


def no_machine_path(lesson):
    """No output names a folder of the machine that built it."""
    for cell in lesson.code_cells:
        found = re.search(MACHINE_PATH, output_text(cell))
        if found:
            yield f"cell {cell.get('id')}: the output names a folder of one machine, {found[0]}"


def no_widget(lesson):
    """No output needs a kernel to be seen."""
    for cell in lesson.code_cells:
        if any("widget-view" in kind for output in cell.outputs for kind in output.get("data", {})):
            yield f"cell {cell.get('id')}: a widget is blank where no kernel runs; show a figure"


def printed(lesson):
    """A cell that prints at its top level has output."""
    for cell in lesson.code_cells:
        parsed = tree(cell)
        if parsed and not cell.outputs and any(_prints(statement) for statement in parsed.body):
            yield (
                f"cell {cell.get('id')}: it prints, but no output is stored; "
                f"run `python3 course.py build {lesson.number}`"
            )


def _prints(statement):
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and getattr(call.func, "id", None) == "print"


def alt_text(lesson):
    """Every figure says in words what it shows."""
    for cell in lesson.code_cells:
        for output in cell.outputs:
            for kind in set(FIGURES) & set(output.get("data", {})):
                alt = output.metadata.get(kind, {}).get("alt", "")
                if len(alt) < ALT_LENGTH:
                    yield (
                        f"cell {cell.get('id')}: the figure's alternative text is {alt!r}; "
                        f"say what it shows in {ALT_LENGTH} characters or more: show(fig, alt=...)"
                    )


RULES = [no_stderr, errors, no_address, no_machine_path, no_widget, printed, alt_text]

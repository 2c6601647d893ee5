"""What a lesson claims, with another seed: the notebook's own cells are run, its own comparisons are read.

Nothing of a lesson is copied here. A seed comes in by swaps of text, such as ``(0, 1, 2)`` for ``(SEED,)``.
A claim is a printed line with a True or False, or with the limit of a comparison that was made for it, as in
``print("above 0.95:", min(right) > 0.95)``. It holds with a seed if the cell then prints the line that is
stored in the notebook.
"""

import ast
import contextlib
import io
import json
import linecache
import operator
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}
TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


class Lesson(NamedTuple):
    """A notebook, where a seed goes in, and the headings under which claims are read.

    ``swaps`` has for each text that holds a seed what stands in its place, and how often the text occurs.
    """

    name: str
    swaps: dict
    sections: tuple


class Cell(NamedTuple):
    """A code cell: the heading it stands under, its source, and the lines that it is stored to print."""

    id: str
    section: str
    source: str
    printed: tuple


class Comparison(NamedTuple):
    """Of a cell: its text and sign, whether it stands in a print, whether its right side is a limit."""

    text: str
    sign: str
    in_print: bool
    fixed: bool


class Claim(NamedTuple):
    """A stored line, whether it came out the same, and what was compared for it: comparisons and numbers."""

    section: str
    states: str
    holds: bool
    compared: list


def cells(lesson, folder=NOTEBOOKS):
    """The code cells of a lesson, seeds swapped in, up to the exercises; no cell for a clock or a model.

    Raises
    ------
    LookupError
        If a text to swap does not occur as often as stated, or a heading is missing.
    """
    notebook = json.loads((folder / f"{lesson.name}.ipynb").read_text(encoding="utf-8"))
    found, section, sections, counts = [], "", set(), dict.fromkeys(lesson.swaps, 0)
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            section = (re.findall(r"^#+ (.+)$", source, re.M) or [section])[-1]
            sections.add(section)
            if section == "Exercises":
                break
        elif not {"measured", "needs-model"} & set(cell["metadata"].get("tags", ())):
            source = re.sub(r"^%.*$", "", source, flags=re.M)
            for old, (new, _) in lesson.swaps.items():
                counts[old] += source.count(old)
                source = source.replace(old, new)
            printed = "".join(text for out in cell["outputs"] for text in out.get("text", ()))
            found.append(Cell(cell["id"], section, source, tuple(printed.splitlines())))
    for old, (_, times) in lesson.swaps.items():
        if counts[old] != times:
            raise LookupError(f"{lesson.name} has {old!r} {counts[old]} times and not {times}.")
    for heading in lesson.sections:
        if heading not in sections:
            raise LookupError(f"{lesson.name} has no heading {heading!r}.")
    return found


def claims(lesson, rows, seed):
    """Run the cells of a lesson with a seed, up to its last claim; the claims in order."""
    names, reader, found = {"__name__": lesson.name, "SEED": seed}, _Reader(), []
    last = max(n for n, cell in enumerate(rows) if cell.section in lesson.sections)
    for cell in rows[: last + 1]:
        lines = _run(cell, names, reader, f"<{lesson.name}, {cell.id}>")
        if cell.section in lesson.sections:
            found += _claims(cell, lines)
    return found


def _run(cell, names, reader, filename):
    """Run a cell; each line that it prints, with the comparisons made since the line before."""
    lines, since = [], []
    tree = ast.fix_missing_locations(reader.visit(ast.parse(cell.source)))

    def compared(place, left, right):
        since.append((reader.found[place], left, right))
        return COMPARE[reader.found[place].sign](left, right)

    def between(places, low, number, high):  # in Python's own order, which stops where the first fails
        return compared(places[0], number, low) and compared(places[1], number, high())

    def printing(*values, **how):
        text = io.StringIO()
        print(*values, **how, file=text)
        lines.extend((line, since[:]) for line in text.getvalue().splitlines())
        since.clear()

    linecache.cache[filename] = (len(cell.source), None, cell.source.splitlines(True), filename)
    names |= {"compared_": compared, "between_": between, "print": printing}
    with contextlib.redirect_stdout(io.StringIO()):  # where a figure prints its words
        exec(compile(tree, filename, "exec"), names)
    return lines


def _claims(cell, lines):
    lines = lines + [("", [])] * (len(cell.printed) - len(lines))
    for states, (said, since) in zip(cell.printed, lines, strict=False):
        # Those in the print itself; or, where it prints a name, the last one made before.
        used = [one for one in since if one[0].in_print] or [one for one in since if one[0] is since[-1][0]]
        compared = [(comparison, *_numbers(comparison, *sides)) for comparison, *sides in used]
        if re.search(r"\b(True|False)\b", states) or any(f"{limit:g}" in states for *_, limit in compared):
            yield Claim(cell.section, states, said == states, compared)


def _numbers(comparison, left, right):
    """The numbers compared, as a flat array, and the limit; their difference and 0 where both sides vary."""
    left, right = (np.asarray(side.detach() if hasattr(side, "detach") else side, float)
                   for side in (left, right))  # fmt: skip
    return (left.ravel(), float(right)) if comparison.fixed else ((left - right).ravel(), 0.0)


class _Reader(ast.NodeTransformer):
    """Puts ``compared_(place, left, right)`` in the place of each ``left < right``, and lists them. Of
    ``low < x < high`` it lists ``x > low`` and ``x < high``."""

    def __init__(self):
        self.found, self.in_print = [], False

    def visit_Call(self, node):
        outside = self.in_print
        self.in_print |= isinstance(node.func, ast.Name) and node.func.id == "print"
        self.generic_visit(node)
        self.in_print = outside
        return node

    def visit_Compare(self, node):
        if len(node.ops) > 2 or any(type(sign) not in SIGNS for sign in node.ops):
            return self.generic_visit(node)
        if len(node.ops) == 1:
            left, (right,) = node.left, node.comparators
            call = _call("compared_", self.place(left, type(node.ops[0]), right), left, right)
        else:
            low, (number, high) = node.left, node.comparators
            places = [self.place(number, TURNED[type(node.ops[0])], low),
                      self.place(number, type(node.ops[1]), high)]  # fmt: skip
            later = ast.parse("lambda: None", mode="eval").body
            later.body = high
            call = _call("between_", ast.Tuple(places, ast.Load()), low, number, later)
        return ast.copy_location(call, node)

    def place(self, left, sign, right):
        """Where in the list the comparison stands that is entered here."""
        fixed = isinstance(right, (ast.Constant, ast.Name))
        text = ast.unparse(ast.Compare(left, [sign()], [right]))
        self.found.append(Comparison(text, SIGNS[sign], self.in_print, fixed))
        return ast.Constant(len(self.found) - 1)


def _call(name, *arguments):
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])

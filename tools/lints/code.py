"""Rules on code cells: short, portable, and importing only what is declared."""

import ast
import functools
import importlib.metadata
import re
import sys
import tomllib

from lesson import ROOT, tags

MAGICS = {"%matplotlib inline"}
CODE_LINES = 14  # twelve, and two for imports
LINE_LENGTH = 92


def tree(cell):
    """The cell's syntax tree, magics left out; None where it does not parse."""
    try:
        return ast.parse(re.sub(r"(?m)^[%!].*$", "pass", cell.source))
    except SyntaxError:
        return None


def parses(lesson):
    """Every code cell is Python and not empty."""
    for cell in lesson.code_cells:
        if not cell.source.strip():
            yield f"cell {cell.get('id')}: an empty code cell"
        elif tree(cell) is None and "raises-exception" not in tags(cell):
            yield f"cell {cell.get('id')}: not valid Python"


def inline_figures(lesson):
    """The first code cell starts with %matplotlib inline."""
    for cell in lesson.code_cells[:1]:
        if cell.source.splitlines()[:1] != ["%matplotlib inline"]:
            yield f"cell {cell.get('id')}: the first code cell starts with %matplotlib inline"


def magics(lesson):
    """No shell command or install, and no magic but one: nbval passes a bad one unread."""
    for cell in lesson.code_cells:
        for line in re.findall(r"(?m)^\s*([%!].*\S)\s*$", cell.source):
            if line not in MAGICS:
                yield f"cell {cell.get('id')}: {line!r} is not allowed; only {', '.join(MAGICS)} is"


def compared(lesson):
    """No comment tells nbval to look away."""
    for cell in lesson.code_cells:
        found = re.search(r"#\s*(NBVAL_\w+|PYTEST_VALIDATE_IGNORE_OUTPUT)", cell.source)
        if found:
            yield f"cell {cell.get('id')}: the comment {found[1]} hides the cell from the tests"


def no_semicolon(lesson):
    """No cell ends in a semicolon, on which nbval fails."""
    for cell in lesson.code_cells:
        if cell.source.rstrip().endswith(";"):
            yield f"cell {cell.get('id')}: it ends in a semicolon"


def no_cuda(lesson):
    """No cell takes a GPU for granted."""
    for cell in lesson.code_cells:
        found = re.search(r"\.cuda\(|[\"']cuda(:\d)?[\"']", cell.source)
        if found:
            yield f"cell {cell.get('id')}: {found[0]} needs a GPU"


def short(lesson):
    """A code cell has at most fourteen lines of code, none longer than 92 characters."""
    for cell in lesson.code_cells:
        lines = [line for line in cell.source.splitlines() if line.strip()]
        code = [line for line in lines if not line.lstrip().startswith("#")]
        if len(code) > CODE_LINES:
            yield f"cell {cell.get('id')}: {len(code)} lines of code, at most {CODE_LINES} may be"
        for line in lines:
            if len(line) > LINE_LENGTH:
                yield (
                    f"cell {cell.get('id')}: a line of {len(line)} characters, "
                    f"at most {LINE_LENGTH} are allowed: {line.strip()[:40]!r}..."
                )


def imports(lesson):
    """Every import is the standard library, attnlib, or a declared dependency that is installed."""
    for cell in lesson.code_cells:
        if "needs-model" in tags(cell):
            continue
        for module in imported(cell):
            if module not in sys.stdlib_module_names | {"attnlib"} | _declared_modules():
                yield (
                    f"cell {cell.get('id')}: import of {module}, which is not installed by "
                    "pyproject.toml's dependencies or its extra torch"
                )


def imported(cell):
    """The top-level modules that a cell imports, in order."""
    modules = []
    for node in ast.walk(tree(cell) or ast.Module([], [])):
        if isinstance(node, ast.Import):
            modules += [name.name.split(".")[0] for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.append(node.module.split(".")[0])
    return modules


@functools.cache
def _declared_modules():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["torch"]
    names = {_normal(re.match(r"[\w.-]+", requirement)[0]) for requirement in wanted}
    modules = importlib.metadata.packages_distributions()
    return {name for name, owners in modules.items() if names & {_normal(o) for o in owners}}


def _normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


RULES = [parses, inline_figures, magics, compared, no_semicolon, no_cuda, short, imports]

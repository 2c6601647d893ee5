"""What a cell's code defines, uses and leaves open, found without running it."""

import ast
import builtins
import re
import textwrap
import warnings
from dataclasses import dataclass

LONGEST = 300_000  # characters; nobody types more into a cell

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
# No pattern may look at a place twice: a hostile cell is long.
_MAGIC = re.compile(r"^([ \t]*)[%!](?!=).*$", re.M)
_MAGIC_VALUE = re.compile(r"^([\w\t, .\[\]]+=[ \t]*)[%!](?!=).*$", re.M)
_HELP = re.compile(r"^([ \t]*)(?:\?{1,2}[\w.]+|[\w.*]+\?{1,2})[ \t]*$", re.M)
_PROMPT = re.compile(r"^(?:>>>|\.\.\.|In \[\d+\]:)[ ]?", re.M)
_AS_USUAL = ("time", "capture", "prun")  # cell magics after which names are bound as usual
_BY_TEXT = {"getattr", "eval", "exec", "compile", "__import__", "import_module", "attrgetter", "methodcaller"}


class Unparsed(ValueError):
    """The code is not Python; the message says where and why."""


@dataclass(frozen=True)
class Code:
    """The analysed code of one cell.

    Attributes
    ----------
    statements : tuple of ast.stmt
    defines : dict of str to tuple of int
        The names that it binds at its top level, and which of its statements bind each.
    uses : frozenset of str
        Names that must exist when the cell runs; what function bodies use is asked for later.
    stars : bool
        It may bind names that cannot be seen: an ``import *``, a magic.
    """

    statements: tuple
    defines: dict
    uses: frozenset
    stars: bool


def read_code(source):
    """The `Code` of a cell.

    Raises
    ------
    Unparsed
        If neither Python nor IPython would take it.
    """
    if len(source) > LONGEST:
        raise Unparsed(f"it has {len(source):,} characters, more than anybody types")
    tree = _parsed(source)
    lonely = next((node for node in tree.body if isinstance(node, ast.Return)), None)
    if lonely:
        raise Unparsed(f"line {lonely.lineno}: a return outside of a function")
    defines = {}
    for place, statement in enumerate(tree.body):
        for name in bound_by(statement):
            defines[name] = (*defines.get(name, ()), place)
    stars = any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree))
    return Code(tuple(tree.body), defines, frozenset(_needed(tree.body)), stars or "%" in source.lstrip()[:1])


def _parsed(source):
    complaint = None
    for form in (source, *_without_magics(source)):
        try:
            with warnings.catch_warnings():     # of "\d" and the like: the student's affair
                warnings.simplefilter("ignore")
                return ast.parse(form)
        except SyntaxError as error:
            complaint = complaint or f"line {error.lineno}: {error.msg}"
        except (ValueError, RecursionError, MemoryError, OverflowError):
            complaint = complaint or "it is nested too deeply or holds what no Python file holds"
    raise Unparsed(complaint)


def _without_magics(source):
    """The same code as plain Python, as far as IPython takes more; each line stays where it is."""
    blank = source[: len(source) - len(source.lstrip())].count("\n")
    lines = source.split("\n")
    if magic := _cell_magic(source):
        lines[blank:] = ["", *lines[blank + 1 :]] if magic in _AS_USUAL else []
    plain = _MAGIC_VALUE.sub(r"\1None", "\n".join(lines))
    plain = _HELP.sub(r"\1pass", _MAGIC.sub(r"\1pass", plain))
    yield plain
    yield textwrap.dedent(plain)
    yield textwrap.dedent(_PROMPT.sub("", plain))


def _cell_magic(source):
    """The name of the magic with which a cell begins, or nothing."""
    head = source.lstrip()[:200].split("\n")[0]
    return re.split(r"\s", head[2:], maxsplit=1)[0] if head.startswith("%%") else ""


def is_a_program(source):
    """Whether a cell begins with a magic such as ``%%bash`` or ``%%writefile``: what it does is not seen."""
    return _cell_magic(source) not in ("", "timeit", *_AS_USUAL)


def assigns(code, name):
    """Whether a statement at the top gives ``name`` a value that is no stub, and is no loop over it."""
    statements = [code.statements[place] for place in code.defines[name]]
    return any(not isinstance(each, (ast.For, ast.AsyncFor)) and not leaves_open(each) for each in statements)


def bound_by(statement):
    """The names that a statement binds in its own scope, in no order."""
    names, waiting = set(), [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _DEFINITIONS):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.AnnAssign) and node.value is None:
            continue
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        waiting.extend(ast.iter_child_nodes(node))
    return names - {"*"}


def _needed(statements):
    """Names read while these statements run, less what they bind before: one after the other."""
    bound, needed = set(vars(builtins)) | {"get_ipython", "In", "Out", "_", "__", "display"}, set()
    for statement in statements:
        needed |= _read_at_once(statement) - bound
        bound |= bound_by(statement)
    return needed


def _read_at_once(statement):
    names, own, waiting = set(), set(), [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _FUNCTIONS):
            waiting += [*getattr(node, "decorator_list", ()), *node.args.defaults]
            waiting += [each for each in node.args.kw_defaults if each is not None]
            continue
        if isinstance(node, ast.ClassDef):  # what its body binds is its own
            own |= set().union(*map(bound_by, node.body))
        elif isinstance(node, ast.comprehension):
            own |= {part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        waiting.extend(ast.iter_child_nodes(node))
    inner = bound_by(statement) if not isinstance(statement, (ast.Assign, ast.AugAssign, ast.Expr)) else set()
    return names - own - inner


def is_open(code, name):
    """Whether every statement that binds ``name`` leaves it open, as the released stub does."""
    return all(leaves_open(code.statements[place]) for place in code.defines[name])


def leaves_open(statement):
    """Whether a statement is a stub: a function without a body, or three dots for a value."""
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return isinstance(statement.value, ast.Constant) and statement.value.value in (..., None)
    if isinstance(statement, ast.ClassDef):
        return all(map(_idle, statement.body))
    if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    return all(map(_idle, statement.body))


def _idle(statement):
    """Nothing is done by it: a docstring, three dots, `pass`, or NotImplementedError."""
    if isinstance(statement, ast.Raise):
        raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
        return isinstance(raised, ast.Name) and raised.id == "NotImplementedError"
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return leaves_open(statement)
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def only_checks(code):
    """Whether the cell does nothing but call ``check`` and its like, or is empty."""
    return all(
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id in ("check", "hint", "solution", "progress", "exercises")
        for statement in code.statements
    )


def same_code(one, other):
    """Whether two cells have the same statements, whatever their comments and layout."""
    return len(one.statements) == len(other.statements) and all(
        _dump(a) == _dump(b) for a, b in zip(one.statements, other.statements, strict=True)
    )


def _dump(statement):
    try:
        return ast.dump(statement)
    except RecursionError:
        return str(id(statement))


def without(source, statements):
    """The source with the lines of these statements emptied, so that all others keep their numbers."""
    lines = source.split("\n")
    for statement in statements:
        first = min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])
        for line in range(first - 1, min(statement.end_lineno, len(lines))):
            lines[line] = ""
    return "\n".join(lines)


# ------------------------------------------------------------------------------- forbidden names


def forbidden_in(codes, name, forbids):
    """Which of the forbidden names the definition of ``name``, with all that it calls, makes use of.

    Parameters
    ----------
    codes : sequence of Code
        All the student's cells.
    name : str
    forbids : sequence of str

    Returns
    -------
    list of str
        In the order of ``forbids``. A variable of the student's that merely bears such a name is none.
    """
    binders = {}
    for code in codes:
        for bound, places in code.defines.items():
            binders.setdefault(bound, []).extend(code.statements[place] for place in places)
    found, seen, waiting = set(), set(), [name]
    while waiting:
        looked_up = waiting.pop()
        if looked_up in seen:
            continue
        seen.add(looked_up)
        for statement in binders.get(looked_up, ()):
            imported = isinstance(statement, (ast.Import, ast.ImportFrom))
            used, names = (_imported(statement, looked_up), set()) if imported else _used(statement)
            found |= used
            waiting += names
            found |= {each for each in names if each in forbids and each not in binders}
    return [each for each in forbids if each in found]


def _imported(statement, bound):
    return {
        part
        for alias in statement.names
        if (alias.asname or alias.name.split(".")[0]) == bound
        for part in alias.name.split(".")
    }


def _used(statement):
    """Attributes and names in texts, and names that the surroundings must hold."""
    used, loaded, local, waiting = set(), set(), set(), [statement]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Attribute):
            own = isinstance(node.value, ast.Name) and node.value.id == "self"
            used |= set() if own or not isinstance(node.ctx, ast.Load) else {node.attr}
        elif isinstance(node, ast.Name):
            (loaded if isinstance(node.ctx, ast.Load) else local).add(node.id)
        elif isinstance(node, ast.arg):
            local.add(node.arg)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                used |= set(alias.name.split("."))
                local.add(alias.asname or alias.name.split(".")[0])
        elif isinstance(node, (ast.Call, ast.Subscript)) and _by_text(node):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    used |= set(re.findall(r"\w+", part.value[:10_000]))
        waiting.extend(ast.iter_child_nodes(node))
    return used, loaded - local


def _by_text(node):
    """Whether something is looked up, or run, by its text."""
    head = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Subscript):
        if isinstance(head, ast.Attribute):
            return head.attr == "__dict__"
        head = head.func if isinstance(head, ast.Call) else None
        return isinstance(head, ast.Name) and head.id in ("vars", "globals", "locals")
    name = head.id if isinstance(head, ast.Name) else head.attr if isinstance(head, ast.Attribute) else ""
    return name in _BY_TEXT

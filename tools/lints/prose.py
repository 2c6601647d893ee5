"""Rules on the words: the parts every lesson has, formulas that show everywhere, links."""

import re
from urllib.parse import unquote

from lesson import slide_type

CJK = r"[\u4e00-\u9fff]"
YEAR = r"\b(?:19|20)\d\d\b"


def title(lesson):
    """The first cell is the title, '# NN · ...', with the file's number."""
    start = f"# {lesson.number} · "
    if not lesson.cells or not lesson.cells[0].source.startswith(start):
        yield f"the first cell must start with {start!r}, as the file's name does"


def parts(lesson):
    """The lesson has a prediction, an exercise, a table of terms, and sources."""
    texts = [cell.source for cell in lesson.markdown_cells if slide_type(cell) != "notes"]
    if not any("**Predict" in text for text in texts):
        yield "no prediction: a markdown cell with '**Predict' before a cell that answers it"
    if not any(re.search(r"(?m)^(#+ |\*\*)(\d+ · )?Exercises?\b", text) for text in texts):
        yield "no exercise: a markdown cell with a heading or bold line that starts with 'Exercise'"
    if not any(_terms(text) >= 3 for text in texts):
        yield "no table of terms: a table with the column 术语 and three rows or more with Chinese"
    years = sum(_sourced(text) for text in sources(lesson))
    if years < 3:
        yield f"{years} lines with a year under a heading 'Sources', at least 3 are needed"


def _terms(text):
    """How many rows with Chinese the table of terms in `text` has."""
    table = re.search(r"(?m)^\|.*术语.*\n\|[\s|:-]+\n((?:\|.*(?:\n|$))*)", text)
    return len(re.findall(rf"(?m)^\|.*{CJK}.*$", table[1])) if table else 0


def _sourced(text):
    return len([line for line in text.splitlines() if re.search(YEAR, line)])


def sources(lesson):
    """The text below each heading 'Sources', as far as the next heading."""
    text = "\n\n".join(cell.source for cell in lesson.markdown_cells if slide_type(cell) != "notes")
    return re.findall(r"(?ms)^#+ Sources\b.*?(?=^#|\Z)", text)


def links(lesson):
    """A link to a file leads somewhere."""
    for cell in lesson.markdown_cells:
        for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", without_code(cell.source)):
            path = unquote(target.split("#")[0])
            outside = re.match(r"[a-z]+:", target)
            if path and not outside and not (lesson.path.parent / path).exists():
                yield f"cell {cell.get('id')}: the link to {path} leads to no file"


def math(lesson):
    """Formulas are $...$ or $$...$$, which GitHub, VS Code, JupyterLab and the book all draw."""
    for cell in lesson.markdown_cells:
        for problem in math_problems(cell.source):
            yield f"cell {cell.get('id')}: {problem}"


def math_problems(source):
    text = without_code(source).replace(r"\$", "  ")
    for bad in re.findall(r"(?<!\\)\\[()\[\]]", text):
        yield f"{bad} does not show everywhere; write $...$ or $$...$$"
    formulas, rest, unclosed = split_math(text)
    if unclosed:
        yield f"a formula is not closed: {unclosed.strip()[:50]!r}"
    found = re.search(r"\\begin\{\w+\*?\}", rest)
    if found:
        yield f"{found[0]} stands outside $$...$$"
    if re.search(r"\$\s*<br", text):
        yield "<br> after a formula breaks it; leave an empty line"
    for formula in formulas:
        inline = not formula.startswith("$$")
        body = formula.strip("$")
        if inline and body != body.strip():
            yield f"{formula} has a space inside its dollar signs, and would not be drawn"
        if not _braces_match(body):
            yield f"{formula[:50]!r} has braces that do not match"
        found = re.search(r"\\(label|ref|eqref|require|newcommand|def)\b", body)
        if found:
            yield f"\\{found[1]} is not known to every renderer"
    for row in re.findall(r"(?m)^\s*\|.*$", text):
        for formula in split_math(row)[0]:
            if re.search(r"(?<!\\)\|", formula):
                yield f"{formula} holds a | that cuts the table's cell; write \\vert"


def without_code(source):
    """Markdown without its code blocks and code spans."""
    source = re.sub(r"(?ms)^(```|~~~).*?^\1", " ", source)
    return re.sub(r"(`+)(?!`).+?(?<!`)\1(?!`)", " ", source)


def split_math(text):
    """The formulas with their dollar signs, the text without them, and one that is left open."""
    formulas, rest, at = [], [], 0
    while (start := text.find("$", at)) >= 0:
        rest.append(text[at:start])
        mark = "$$" if text.startswith("$$", start) else "$"
        end = text.find(mark, start + len(mark))
        # A formula, inline or not, ends before the next empty line.
        gap = re.search(r"\n\s*\n", text[start:])
        if end < 0 or (gap and end > start + gap.start()):
            return formulas, "".join(rest), text[start:]
        at = end + len(mark)
        formulas.append(text[start:at])
    return formulas, "".join(rest) + text[at:], ""


def _braces_match(formula):
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", formula):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return False
    return depth == 0


RULES = [title, parts, links, math]

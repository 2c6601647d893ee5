"""Every number in the prose is printed, written in code, or arithmetic that can be seen.

A number in a markdown cell must agree, to the digits written, with one in the
output or the code of a neighbouring code cell: of the same section, or at most
three cells away. Free of this are numbers that only name or order something
(lessons, exercises, equations, lists, years, minutes, names such as GPT-3), 0, 1
and 2, arithmetic that comes out ("3 × 4 = 12"), and code spans that stand in a
code cell. What is left can be listed in the cell's metadata, `attn.numbers`.

What the lint cannot know: whether the number that agrees is the one that is meant.
"""

import ast
import math
import re
from dataclasses import dataclass
from decimal import Decimal

from lesson import cell_attn, output_text

from .arithmetic import ALONE, NUMBER, PERCENT, decimal, equations, unit
from .code import tree

NEAR = 3
ALLOWED = 6

ABOUT = r"(?:\b(?:about|around|roughly|nearly|almost|some)|[~\u2248]|\\approx)\s*\$?$"
SENTENCE_END = r"(?<=[.!?。！？])\s+|\n\s*\n|\n(?=\s*(?:[-*|#>]|\d+\.\s))"
YEAR = r"(?:19|20)\d\d[a-z]?\b(?!\s+\w+s\b)"  # "the 2017 paper", but not "the 2000 draws"
MONTH = "January|February|March|April|May|June|July|August|September|October|November|December"
LABELLED = (
    "lessons?|exercises?|sections?|sec\\.|equations?|eqs?\\.|figures?|fig\\.|tables?|steps?|"
    "parts?|chapters?|pages?|questions?|heads?|layers?|Python|NumPy|PyTorch|Llama|CC BY"
)
# Numbers that name or order something. Group 1 is blanked where there is one, else all.
STRUCTURE = [
    r"(?s)<!--.*?-->",
    r"</?[A-Za-z][^>]*>",  # tags with their attributes, and <https://...>
    r"(?<=\])\([^)]*\)",  # a link's target
    r"\[\^?\d+\]",  # a footnote or reference
    r"https?://\S+",
    r"\b10\.\d{4,}/\S+",  # a DOI
    r"\b\d{4}\.\d{4,5}(?:v\d+)?\b",  # an arXiv id
    r"(?m)^#+ \d+(?:\.\d+)*(?=[ .·:])",  # a heading's number
    r"(?m)^\s*\d+[.)](?=\s)",  # a list's
    rf"(?i)\b(?:{LABELLED})\s+\(?\d+(?:\.\d+)*\)?(?:(?:,| and| or| to|–|-| ·)+\s*\d+(?:\.\d+)*)*",
    r"(?i)difficulty:?\s+\d(?:\s*(?:/|of)\s*\d)?",
    r"\d+(?:\s*(?:–|-|to)\s*\d+)?[\s-]+min(?:utes?)?\b",
    rf"\b(?:\d{{1,2}}\s+)?(?:{MONTH})\s+\d{{1,4}}(?:,?\s+\d{{4}})?\b",
    r"\b\d{4}-\d{2}-\d{2}\b",
    r"\b\d{1,2}:\d{2}\b",
    r"\b\d+\.\d+\.\d+\b",  # a version
    r"\b\d+(?:st|[nr]d|th)\b",
    r"\b[123]-?D\b",
    rf"\([^()]*?\b({YEAR})[^()]*\)",
    rf"(?i)\b(?:in|since|until|the|al\.)\s+({YEAR})",
    r"(?<![\d.])0\d\b(?!\.\d)",  # a lesson's; last, since a date has such parts
]
LATEX_LABELS = (
    r"[_^]\{(?:[^{}]|\{[^{}]*\})*\}|[_^](?:\\[A-Za-z]+|\w)"
    r"|\d+(?:\.\d+)?\s*(?:pt|em|ex|mu|px)\b"
)
POWER_OF_TEN = (
    rf"(?:({NUMBER})\s*(?:\\cdot|\\times|[·×])\s*)?"
    r"\b10(?:\^\{?([-\u2212]?\d+)\}?|([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))"
)
SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹\u2212", "-0123456789-")


@dataclass(frozen=True)
class Written:
    """A number as the prose writes it."""

    text: str
    value: Decimal
    percent: bool
    about: bool
    sentence: str

    def agrees(self, other):
        """Whether `other` is this number, rounded to the digits written."""
        slack = unit(self.value) / 2
        if self.about:
            slack = max(slack, self.value / 100)
        return abs(other - self.value) <= slack or (
            self.percent and abs(other * 100 - self.value) <= slack
        )


def prose_numbers(lesson):
    """Every number in the prose comes from a neighbouring cell, or is allowed by name."""
    code = "\n".join(cell.source for cell in lesson.code_cells)
    sections = list(_sections(lesson.cells))
    for index, cell in enumerate(lesson.cells):
        if cell.cell_type != "markdown":
            continue
        known = set()
        for other, neighbour in enumerate(lesson.cells):
            near = sections[other] == sections[index] or abs(other - index) <= NEAR
            if near and neighbour.cell_type == "code":
                known |= code_numbers(neighbour)
        allowed = cell_attn(cell).get("numbers", [])
        for problem in cell_problems(cell.source, known, allowed, code):
            yield f"cell {cell.get('id')}: {problem}"


def _sections(cells):
    """For each cell the count of headings so far; a ### goes on with its ## section."""
    section = 0
    for cell in cells:
        if cell.cell_type == "markdown" and re.search(r"(?m)^##? ", cell.source):
            section += 1
        yield section


def cell_problems(source, known, allowed=(), code=""):
    """Sentences about what is wrong with the numbers of one markdown cell.

    known: the numbers of its neighbours, as Decimals. allowed: its `attn.numbers`.
    code: all code of the lesson, in which its code spans may stand.
    """
    if len(allowed) > ALLOWED:
        yield f"attn.numbers has {len(allowed)} entries, at most {ALLOWED} are allowed"
    text = _without_structure(source, code)
    for equation, mistake in equations(text):
        text = _blank(text, equation)
        if mistake:
            yield f"the arithmetic does not come out: {mistake}"
    unused = set(allowed)
    for number in written_numbers(_without_latex_labels(text), source):
        if any(number.agrees(value) for value in known | _roots(number.sentence)):
            continue
        entries = {entry for entry in allowed if _plain(entry) == _plain(number.text)}
        unused -= entries
        if not entries:
            yield (
                f"{number.text} is in no neighbouring cell, in {number.sentence!r}; "
                "print it there, write the arithmetic out, or list it in attn.numbers"
            )
    for entry in sorted(unused):
        yield f"attn.numbers lists {entry!r}, which needs no leave here; remove it"


def written_numbers(text, source):
    """The numbers in `text` that must come from somewhere; sentences are quoted from `source`."""
    for found in re.finditer(rf"{ALONE}({NUMBER})({PERCENT})?", text):
        percent = found[2] is not None
        free = decimal(found[1]) == 100 if percent else found[1] in ("0", "1", "2")
        if not free:
            yield Written(
                text=found[0].strip(),
                value=decimal(found[1]),
                percent=percent,
                about=bool(re.search(ABOUT, text[: found.start()], re.IGNORECASE)),
                sentence=_sentence(source, found.start()),
            )


def code_numbers(cell):
    """The numbers of a code cell: its literals, those in its strings, those of its output."""
    numbers = text_numbers(output_text(cell))
    for node in ast.walk(tree(cell) or ast.Module([], [])):
        value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if isinstance(value, str):
            numbers |= text_numbers(value)
        elif type(value) in (int, float) and math.isfinite(value):
            numbers.add(Decimal(repr(value)))
    return numbers


def text_numbers(text):
    """The numbers in a printed text, signs left out; one with % also as a fraction of one."""
    numbers = set()
    for found in re.finditer(rf"({NUMBER})(\s?%)?", text):
        numbers.add(decimal(found[1]))
        if found[2]:
            numbers.add(decimal(found[1]) / 100)
    return numbers


def _without_structure(source, code):
    """`source`, at the same length, with the numbers blanked that need no origin."""
    text = re.sub(r"(?<=\d)x(?=\d)", "×", source)
    for span in re.finditer(r"(`+)(.+?)\1", text):
        if span[2].strip() in code:
            text = _blank(text, span)
    for found in re.finditer(r"(?ms)^#+ Sources\b.*?(?=^#|\Z)", text):
        text = _blank(text, found)
    for pattern in STRUCTURE:
        for found in re.finditer(pattern, text):
            text = _blank(text, found, group=found.re.groups)
    return re.sub(POWER_OF_TEN, _as_float, text)


def _blank(text, found, group=0):
    start, end = found.span(group)
    return text[:start] + " " * (end - start) + text[end:]


def _as_float(power):
    """3 · 10^{-6} as 3e-6, padded to the same length."""
    exponent = int((power[2] or power[3]).translate(SUPERSCRIPTS))
    return f"{power[1] or 1}e{exponent}".ljust(len(power[0]))


def _without_latex_labels(text):
    """Blank the exponents, subscripts and lengths of formulas."""

    def blank_labels(formula):
        return re.sub(LATEX_LABELS, lambda label: " " * len(label[0]), formula[0])

    return re.sub(r"(?s)\$\$.*?\$\$|\$[^$]*\$", blank_labels, text)


def _roots(sentence):
    """The roots of a sentence's numbers, where it speaks of a root."""
    if not re.search(r"√|\\sqrt|\broot\b", sentence):
        return set()
    return {decimal(number).sqrt() for number in re.findall(ALONE + NUMBER, sentence)}


def _plain(number):
    return re.sub(r"[\s,\\%]", "", number)


def _sentence(text, position):
    start = max([end.end() for end in re.finditer(SENTENCE_END, text[:position])], default=0)
    end = re.search(SENTENCE_END, text[position:])
    return " ".join(text[start : position + end.start() if end else len(text)].split())


RULES = [prose_numbers]

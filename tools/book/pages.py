"""The book's pages, from the committed notebooks: each lesson, a front page, the terms, the map."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import lesson
import nbformat
from deck.page import copy_wheels

from attnlib import views
from attnlib.plots import lesson_map
from attnlib.plots.course_map import LESSONS, PARTS, lines_of_need
from attnlib.plots.notebook import png

ROOT = Path(__file__).resolve().parents[2]
TERM_TABLE = re.compile(r"^\| term \| 术语 \| here \|\n\|[-| ]+\|\n((?:\|.*\|\n?)+)", re.M)
MOVES = '<p class="moves">This figure moves in JupyterLab: <code>python3 course.py lab {}</code></p>'


@dataclass
class Page:
    """A lesson as the book shows it."""

    lesson: lesson.Lesson
    title: str
    aim: str
    terms: list  # of (English, Chinese, how it is meant)

    @property
    def name(self):
        return self.lesson.path.stem


def write_source(folder, paths):
    """Write what Sphinx reads into an empty folder. Returns the pages of the lessons."""
    pages = [lesson_page(path) for path in paths]
    for page in pages:
        text = nbformat.writes(as_shown(page.lesson))
        (folder / page.lesson.path.name).write_text(text, encoding="utf-8")
    (folder / "first_map.png").write_bytes((ROOT / "docs" / "first_map.png").read_bytes())
    (folder / "course_map.png").write_bytes(png(lesson_map()))
    (folder / "index.md").write_text(front(pages), encoding="utf-8")
    (folder / "terms.md").write_text(terms(pages), encoding="utf-8")
    return pages


def lesson_page(path):
    read = lesson.read(path)
    text = "\n\n".join(cell.source for cell in read.markdown_cells)
    title = re.search(r"^# (.+)", text, re.M)
    aim = re.search(r"^\*You will be able to (.+)\*$", text, re.M)
    if not title or not aim:
        raise ValueError(f"{path.name} has no title, or no line '*You will be able to ...*' below it")
    table = TERM_TABLE.search(text)
    rows = [tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1])
            for row in (table[1] if table else "").splitlines()]  # fmt: skip
    return Page(read, title[1], aim[1][0].upper() + aim[1][1:], rows)


def as_shown(lesson):
    """The notebook with each picture's words where Sphinx looks for them, and how a still view moves."""
    cells = []
    for cell in lesson.cells:
        cells.append(cell)
        for output in cell.get("outputs", ()):
            alt = output.get("metadata", {}).get("image/png", {}).get("alt")
            if alt:
                cell.metadata["mystnb"] = {"image": {"alt": alt}}
        if ends_in_a_view(cell):
            text = MOVES.format(lesson.number)
            cells.append(nbformat.v4.new_markdown_cell(text, id=f"{cell.id}-moves"))
    return nbformat.from_dict({**lesson.notebook, "cells": cells})


def ends_in_a_view(cell):
    """Whether a cell shows a view: its last line calls a function of `attnlib.views`."""
    called = cell.source.rstrip().split("\n")[-1].partition("(")[0]
    return cell.cell_type == "code" and called in views.__all__


def front(pages):
    """The front page, in Markdown."""
    by_number = {page.lesson.number: page for page in pages}
    lines = [
        "# Self-attention, from a dictionary to long contexts", "",
        "Attention (注意力机制), built step by step. Each lesson begins with a situation, lets you predict, "
        "runs, and explains.", "",
        f"**[Begin with lesson {pages[0].lesson.number}]({pages[0].name}.ipynb)**, follow the "
        "[map](#what-leads-to-what), or look a word up in the [index of terms](terms.md), English and "
        "Chinese.", "",
        "```{image} first_map.png", ":alt: The attention map of a trained translator. Each English word of "
        "I ate an apple, it was sweet, looks at the Chinese word that it translates; the comma looks more "
        "at another word than at its own mark.", "```", "",
        "A small translator, trained for this course, reads eight Chinese words and writes English. Each row "
        "shows where it looked while it wrote that word.", "",
        "The pages show each lesson as it was run. To run one yourself and have your answers checked, get "
        "the course's folder and call `python3 course.py lab`; each page can also be downloaded as a "
        "notebook.", "",
        "## What leads to what", "",
        f"Who has little time takes the short path: {short_path(by_number)}.", "",
        "```{image} course_map.png", f":alt: {lines_of_need()}", "```", "",
        "## Lessons", "",
        "Under the name of each lesson stands its subject, beside it what you will be able to do.", "",
    ]  # fmt: skip
    for part, title in (("", "Before you start"), *PARTS.items()):
        here = [each for each in LESSONS if each.part == part and each.number in by_number]
        if not here:
            continue
        heading = f"{part} · {title}" if part else title
        lines += [f"### {heading}", ""]
        for each in here:
            page = by_number[each.number]
            subject = "" if page.title.lower().endswith(each.title.lower()) else f" *{each.title}*"
            lines += [f"[{page.title}]({page.name}.ipynb){subject}", f": {page.aim}", ""]
        lines += ["```{toctree}", ":hidden:", f":caption: {heading}", ""]
        lines += [*(by_number[each.number].name for each in here), "```", ""]
    return "\n".join([*lines, "```{toctree}", ":hidden:", ":caption: Index", "", "terms", "```", ""])


def short_path(by_number):
    links = [f"[{each.number}]({by_number[each.number].name}.ipynb)" for each in LESSONS
             if each.short and each.number in by_number]  # fmt: skip
    return ", ".join(links)


def terms(pages):
    """The index of terms, in Markdown: each once, with all lessons that explain it."""
    found = {}
    for page in pages:
        for english, chinese, _ in page.terms:
            found.setdefault((english, chinese), []).append(page)
    rows, letters = [], []
    for english, chinese in sorted(found, key=lambda term: bare(term[0])):
        links = ", ".join(f"[{page.lesson.number}]({page.name}.ipynb)" for page in found[english, chinese])
        letter, mark = bare(english)[0].upper(), ""
        if letter not in letters:
            letters.append(letter)
            mark = f'<b id="{letter.lower()}">{letter}</b>'
        rows.append(f"| {mark} | {english} | {chinese} | {links} |")
    jumps = " ".join(f'<a href="#{letter.lower()}">{letter}</a>' for letter in letters)
    return "\n".join([
        "# Index of terms", "", "Each term in English and Chinese, and the lessons that explain it.", "",
        f'<nav class="letters" aria-label="Letters">{jumps}</nav>', "",
        "| | term | 术语 | lesson |", "|---|---|---|---|", *rows, "",
    ])  # fmt: skip


def bare(term):
    """The letters by which a term is sorted."""
    return term.lower().lstrip("`$\\")


def copy_parts(folder):
    """MathJax and the fonts of the decks, beside the pages."""
    copy_wheels(folder, lambda name, target: name != "reveal" or target.startswith("fonts/"))


def write_as_script(notebook):
    """Beside a notebook, a script that saves it: book.js loads it where the book is opened from files."""
    name, text = (json.dumps(part) for part in (notebook.name, notebook.read_text(encoding="utf-8")))
    notebook.with_name(f"{notebook.name}.js").write_text(f"save({name}, {text});\n", encoding="utf-8")

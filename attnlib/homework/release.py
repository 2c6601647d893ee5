"""Releasing an assignment: proved to be solvable, stripped, proved to give nothing away, then written.

A source earns full marks in the grader's own sandbox; the stripped notebook earns none; and no line of a
solution, no hidden number and nothing of the class's seed is left anywhere in what students get.
"""

import io
import json
import re
import zipfile
from dataclasses import dataclass

import nbformat
import numpy as np

from attnlib.homework import assignment as assignments
from attnlib.homework.source import BEGIN, END, released

YEAR = (1980, 1, 1, 0, 0, 0)      # every file of a zip has this date, so that the same source gives the same zip


class NotReleased(Exception):
    """The assignment is not fit to be released; the text says what was found."""


@dataclass(frozen=True)
class Leak:
    """Something that a released notebook must not hold, and where it stands."""

    what: str
    where: str


def leaks(notebook, source, assignment, class_seed):
    """What a released notebook gives away.

    Parameters
    ----------
    notebook, source : nbformat.NotebookNode
        The stripped notebook and the one with solutions.
    assignment : Assignment
    class_seed : int

    Returns
    -------
    list of Leak
    """
    text = nbformat.writes(notebook)
    found = [Leak(f"the mark {mark!r}", "the notebook") for mark in (BEGIN, END, "BEGIN HIDDEN") if mark in text]
    secrets = {str(class_seed)} if len(str(class_seed)) > 3 else set()
    for question in assignment.questions:
        secrets.add(str(assignments.secret(class_seed, assignment.id, question.id)))
        asked = _plain(f"{question.stub}\n{question.text}\n{question.rubric}\n{question.given}")
        for line in question.solution.splitlines():
            telling = len(_plain(line)) >= 12 and _plain(line) not in asked
            if telling and _plain(line) in _plain(json.loads(text)):
                found.append(Leak(f"a line of the solution, {line.strip()!r}", question.id))
    found += [Leak(f"the secret {each}", "the notebook") for each in secrets if each in text]
    found += [
        Leak(f"the hidden number {number}", question.id)
        for question in assignment.questions
        for number in _hidden_numbers(question, class_seed, assignment.id)
        if number in text
    ]
    for cell in notebook.cells:
        if cell.get("outputs"):
            found.append(Leak("an output", cell.id))
        more = set(cell.metadata) - {"nbgrader"}
        if more:
            found.append(Leak(f"metadata {sorted(more)}", cell.id))
    return found

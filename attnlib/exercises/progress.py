"""The learner's map, and the list of exercises: by lesson, as text and as HTML with the same words."""

import html
from itertools import groupby

from attnlib.exercises.verdict import Shown

_MARKS = {"passed": "●", "tried": "◐", "open": "○"}
_INK = {"passed": "#1b6e53", "tried": "#9a4a00", "open": "#50555c"}


class Listing(Shown, tuple):
    """The ids of the exercises, shown by lesson with what is asked for."""

    def __new__(cls, exercises):
        exercises = tuple(exercises)
        listing = super().__new__(cls, (exercise.id for exercise in exercises))
        listing._lessons = _by_lesson(exercises)
        return listing

    def __str__(self):
        return "\n".join(
            f"Lesson {lesson}: " + ", ".join(f"{e.id} ({e.kind})" for e in group)
            for lesson, group in self._lessons
        )

    def _repr_html_(self):
        return _table(
            (lesson, ", ".join(f"<code>{e.id}</code> ({e.kind})" for e in group))
            for lesson, group in self._lessons
        )


class Progress(Shown):
    """What was passed and tried.

    Attributes
    ----------
    passed, tried : tuple of str
        Ids of exercises that were passed, and of others that were tried.
    path : pathlib.Path
        The file that holds the record.
    """

    def __init__(self, exercises, entries, path, kept):
        self._exercises, self._entries, self.path, self._kept = tuple(exercises), entries, path, kept
        self.passed = tuple(e.id for e in self._exercises if self._state(e) == "passed")
        self.tried = tuple(e.id for e in self._exercises if self._state(e) == "tried")

    def __repr__(self):
        return f"Progress({len(self.passed)} of {len(self._exercises)} passed)"

    def __str__(self):
        rows = "\n".join(
            f"Lesson {lesson}: " + ", ".join(f"{_MARKS[self._state(e)]} {e.id}{self._told(e)}" for e in group)
            for lesson, group in _by_lesson(self._exercises)
        )
        return f"{self._head}\n{rows}\n{self._foot}"

    def _repr_html_(self):
        def cell(e):
            state = self._state(e)
            return (
                f'<span style="color: {_INK[state]}; white-space: nowrap">{_MARKS[state]} '
                f"<code>{e.id}</code></span>{html.escape(self._told(e))}"
            )

        rows = ((lesson, ", ".join(map(cell, group))) for lesson, group in _by_lesson(self._exercises))
        return f"<p>{self._head}</p>{_table(rows)}<p>{html.escape(self._foot)}</p>"

    @property
    def _head(self):
        return f"{len(self.passed)} of {len(self._exercises)} passed. ● passed, ◐ tried, ○ open."

    @property
    def _foot(self):
        if not self._kept:
            return f"{self.path} cannot be written: this lasts as long as the session."
        return f"Kept in {self.path}; delete the file to begin anew."

    def _state(self, exercise):
        entry = self._entries.get(exercise.id, {})
        return "passed" if entry.get("passed") else "tried" if entry.get("tries") else "open"

    def _told(self, exercise):
        """What else the record holds: tries, hints, the first prediction."""
        entry, told = self._entries.get(exercise.id, {}), []
        for name, one, many in (("tries", "try", "tries"), ("hints", "hint", "hints")):
            if entry.get(name):
                told.append(f"{entry[name]} {one if entry[name] == 1 else many}")
        if "prediction" in entry:
            told.append(f"predicted {entry['prediction']}")
        return f" ({'; '.join(told)})" if told else ""


def _by_lesson(exercises):
    ordered = sorted(exercises, key=lambda exercise: exercise.lesson)
    return [(lesson, tuple(group)) for lesson, group in groupby(ordered, lambda exercise: exercise.lesson)]


def _table(rows):
    cells = "".join(
        f'<tr><th style="text-align: left; vertical-align: top; white-space: nowrap">Lesson {lesson}</th>'
        f'<td style="text-align: left">{body}</td></tr>'
        for lesson, body in rows
    )
    return f"<table>{cells}</table>"

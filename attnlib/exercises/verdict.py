"""What a learner is told: the verdict on an answer, and other notes, with the same words everywhere."""

import html
import sys
from dataclasses import dataclass, field

_COLOURS = {
    True: ("#1b6e53", "#eef7f3"),
    False: ("#9a4a00", "#fdf3e7"),
    None: ("#50555c", "#f3f4f6"),
}


class Shown:
    """Something with a text and an HTML form, shown once however a cell ends.

    ``show()`` displays it in a notebook and prints it elsewhere. A notebook also displays the last line
    of a cell; what the same cell has shown already is not shown twice.
    """

    _cell = None

    def show(self):
        shell = _notebook()
        if shell is None:
            _print(str(self))
        else:
            from IPython.display import display

            display({"text/plain": str(self), "text/html": self._repr_html_()}, raw=True)
            object.__setattr__(self, "_cell", shell.execution_count)
        return self

    def _ipython_display_(self):
        shell = _notebook()
        if shell is None or self._cell != shell.execution_count:
            self.show()


def _print(text):
    try:
        print(text)
    except UnicodeEncodeError:  # a terminal or file that knows fewer characters
        known = sys.stdout.encoding or "ascii"
        print(text.encode(known, "replace").decode(known))


def _notebook():
    """IPython's shell where code runs in one, else None; IPython is not imported for the question."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


@dataclass(frozen=True, repr=False)
class Verdict(Shown):
    """The judgement of one answer; a notebook shows it as a coloured note, a terminal as text.

    Attributes
    ----------
    passed : bool or None
        None while the exercise is not answered yet.
    message : str
        What the learner reads.
    misconception : str or None
        The id of the mistake that was recognised; two are joined by "and".
    case : tuple or None
        The arguments that showed it.
    readable : bool
        Whether the answer was of the kind that is asked for; one that was not is no try and no prediction.
    slip : bool
        Whether the one mistake that was recognised is all that is wrong. Homework gives points for the rest.
    convention : bool
        Whether it is right under another convention than the one asked for: no points in homework.
    """

    passed: bool | None
    message: str
    misconception: str | None = None
    case: tuple | None = field(default=None, compare=False)
    readable: bool = True
    slip: bool = False
    convention: bool = False

    def __str__(self):
        return f"{self._word}. {self.message}"

    def __repr__(self):
        return f"Verdict(passed={self.passed}, misconception={self.misconception!r})"

    def _repr_html_(self):
        return _note(self._word, self.message, *_COLOURS[self.passed])

    @property
    def _word(self):
        return {True: "Right", False: "Not yet", None: "Not answered yet"}[self.passed]


@dataclass(frozen=True, repr=False)
class Note(Shown):
    """A heading and a text: a hint, or a solution, whose code keeps its lines."""

    heading: str
    text: str
    code: bool = False

    def __str__(self):
        return f"{self.heading}\n\n{self.text}" if self.code else f"{self.heading}. {self.text}"

    def __repr__(self):
        return f"Note({self.heading!r})"

    def _repr_html_(self):
        return _note(self.heading, self.text, *_COLOURS[None], code=self.code)


def _note(heading, text, ink, ground, code=False):
    text = html.escape(text)
    body = f'<pre style="background: none; margin: 0.4em 0 0">{text}</pre>' if code else f" {text}"
    return (
        f'<div style="border-left: 4px solid {ink}; background: {ground}; color: #1f2328; '
        f'padding: 0.5em 0.9em; max-width: 46em"><strong style="color: {ink}">{heading}.</strong>{body}</div>'
    )


def right(message):
    return Verdict(True, message)


def wrong(message, misconception=None, case=None, *, slip=False, convention=False):
    return Verdict(False, message, misconception, case, slip=slip, convention=convention)


def unreadable(message):
    return Verdict(False, message, readable=False)


def unanswered(message):
    return Verdict(None, message)

"""What a learner is told about an answer."""

import html
from dataclasses import dataclass

_COLOURS = {
    True: ("#1b6e53", "#eef7f3"),
    False: ("#9a4a00", "#fdf3e7"),
    None: ("#50555c", "#f3f4f6"),
}


@dataclass(frozen=True)
class Verdict:
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
    """

    passed: bool | None
    message: str
    misconception: str | None = None
    case: tuple | None = None

    def __repr__(self):
        return f"{self._word}. {self.message}"

    def _repr_html_(self):
        ink, ground = _COLOURS[self.passed]
        return (
            f'<div style="border-left: 4px solid {ink}; background: {ground}; color: #1f2328; '
            f'padding: 0.5em 0.9em; max-width: 46em"><strong style="color: {ink}">{self._word}.</strong> '
            f"{html.escape(self.message)}</div>"
        )

    @property
    def _word(self):
        return {True: "Right", False: "Not yet", None: "Not answered yet"}[self.passed]


def right(message):
    return Verdict(True, message)


def wrong(message, misconception=None, case=None):
    return Verdict(False, message, misconception, case)


def unanswered(message):
    return Verdict(None, message)

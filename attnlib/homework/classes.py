"""A class: its folder in nbgrader's layout, its seed, its due dates and its rules.

A class's folder holds ``class.json`` and source, release, submitted, graded and feedback. It is kept in
private: from its seed come the conventions that its questions ask for, and the hidden inputs.
"""

import csv
import io
import json
import os
import secrets
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from attnlib.homework.assignment import ASSIGNMENTS

FOLDERS = ("source", "release", "submitted", "graded", "feedback")
REGRADE = (
    "Whoever thinks that the grader is wrong writes to the lecturer within a week of the feedback; the whole "
    "assignment is then graded anew, on the same inputs, and a person looks at it."
)
_KEYS = {"name", "seed", "due", "late_days", "penalty_percent_a_day", "regrade", "timezone", "students"}


class ClassError(ValueError):
    """A class's folder is not as it must be; the message says what to do."""


@dataclass(frozen=True)
class Late:
    """How late something was handed in, and what that costs.

    Attributes
    ----------
    days : int or None
        Begun days after the due date; None where the time is not known.
    factor : float
        By which the score is multiplied.
    told : str
        A sentence; empty where nothing is to be said.
    """

    days: int | None = 0
    factor: float = 1.0
    told: str = ""


@dataclass(frozen=True)
class Class:
    """One class.

    Attributes
    ----------
    folder : pathlib.Path
    name : str
    seed : int
    due : dict of str to datetime
        By assignment; what has no date is never late.
    late_days : int
        How many begun days late something is still taken.
    penalty : float
        Percent of the score for each of them.
    regrade : str
        The rule, as the students read it.
    timezone : datetime.tzinfo
        In which dates without a zone of their own are meant.
    students : tuple of str
        Who is expected to hand in; may be empty.
    """

    folder: Path
    name: str
    seed: int
    due: dict = field(default_factory=dict)
    late_days: int = 0
    penalty: float = 0.0
    regrade: str = REGRADE
    timezone: object = UTC
    students: tuple = ()

    def path(self, *parts):
        """A path inside of the class's folder."""
        return self.folder.joinpath(*parts)

    def rules(self, assignment):
        """The sentences on lateness and grading anew that a released assignment prints."""
        due = self.due.get(assignment)
        if due is None:
            return ("There is no due date.", self.regrade)
        told = f"Due {due:%A, %d %B %Y, %H:%M} ({due.tzname()})."
        if not self.late_days:
            return (told, "What is handed in later earns no points.", self.regrade)
        days = "one day" if self.late_days == 1 else f"{self.late_days} days"
        cost = f"each begun day costs {self.penalty:g} % of the score" if self.penalty else "at no cost"
        return (told, f"It is taken up to {days} late; {cost}. After that it earns no points.", self.regrade)

    def late(self, assignment, handed_in, marked_late=False):
        """What a time of handing in means for an assignment.

        Parameters
        ----------
        assignment : str
        handed_in : datetime or None
            None where it is not known.
        marked_late : bool
            Whether the learning platform says that it was late.

        Returns
        -------
        Late
        """
        due = self.due.get(assignment)
        if due is None:
            return Late()
        if handed_in is None:
            if not marked_late:
                return Late()
            return Late(
                None,
                1.0,
                "The platform marks it as late, and its time is not known; nothing was taken "
                f"off. To settle it, put the time into times-{assignment}.csv.",
            )
        behind = handed_in - due
        if behind <= timedelta(0):
            return Late()
        days = -(-behind // timedelta(days=1))
        told = f"Handed in {days} {'day' if days == 1 else 'days'} late (begun days count)"
        if days > self.late_days:
            return Late(days, 0.0, f"{told}: too late, at most {self.late_days} are taken.")
        factor = max(0.0, 1 - days * self.penalty / 100)
        return Late(days, factor, f"{told}: {100 * (1 - factor):g} % of the score is taken off.")

    def times(self, assignment):
        """Times of handing in that a person has entered in ``times-ASSIGNMENT.csv``: by student.

        Raises
        ------
        ClassError
            If a time cannot be read; the message names its line.
        """
        path = self.path(f"times-{assignment}.csv")
        times = {}
        if path.is_file():
            for number, row in enumerate(read_csv(path), 2):
                if row.get("student") and row.get("handed_in"):
                    try:
                        times[row["student"]] = self.moment(row["handed_in"])
                    except ValueError as error:
                        raise ClassError(f"{path.name}, line {number}: {error}") from None
        return times

    def moment(self, text):
        """A time as text, with the class's zone where it states none.

        Raises
        ------
        ValueError
            If it is none.
        """
        return moment(text, self.timezone)


def moment(text, timezone=UTC):
    """A time as nbgrader, ISO 8601 or a person writes it, as a datetime with a zone.

    Raises
    ------
    ValueError
        If it is none.
    """
    text = str(text).strip()
    day, _, zone = text.rpartition(" ")
    found = None
    for form, where in ((text, None), (day, zone)):  # nbgrader: 2025-02-02 15:58:23.948203 UTC
        try:
            found = datetime.fromisoformat(form)
            timezone = UTC if where in ("UTC", "GMT") else ZoneInfo(where) if where else timezone
            break
        except (ValueError, OSError, KeyError):
            found = None
    if found is None:
        raise ValueError(f"{text[:60]!r} is no time; write it as 2025-10-31 23:59")
    return found if found.tzinfo else found.replace(tzinfo=timezone)


def make(folder, name, seed=None, **settings):
    """Make a class's folder, with a seed that nobody knows unless one is given.

    Raises
    ------
    ClassError
        If the folder holds a class already.
    """
    folder = Path(folder)
    if (folder / "class.json").exists():
        raise ClassError(f"{folder} holds a class already; choose another folder, or change its class.json.")
    told = {
        "name": name, "seed": secrets.randbits(63) if seed is None else seed,
        "due": dict.fromkeys(ASSIGNMENTS),
        "late_days": 3, "penalty_percent_a_day": 10, "regrade": REGRADE, "timezone": "UTC", "students": [],
    } | settings  # fmt: skip
    _checked(folder / "class.json", told)
    for each in FOLDERS:
        (folder / each).mkdir(parents=True, exist_ok=True)
    config = NBGRADER.format(name=json.dumps(name))
    write_whole(folder / "nbgrader_config.py", config.encode())
    write_whole(folder / "class.json", (json.dumps(told, indent=2, ensure_ascii=False) + "\n").encode())
    return load(folder)


NBGRADER = '''\
"""For nbgrader's own tools: this folder is the course."""

import os
import shutil
import sys
from pathlib import Path

c = get_config()  # noqa: F821
c.CourseDirectory.root = str(Path(__file__).resolve().parent)
c.CourseDirectory.course_id = {name}
# feedback/ and graded/ hold what attnlib's grader writes; nbgrader's own go elsewhere.
c.CourseDirectory.autograded_directory = "nbgrader_autograded"
c.CourseDirectory.feedback_directory = "nbgrader_feedback"
# Solutions are replaced by the words that attnlib's own release puts there, and the release is proved first.
c.ClearSolutions.code_stub = {{"python": "# Your code comes here."}}
c.ClearSolutions.text_stub = "*Your answer comes here.*"
c.GenerateAssignment.exporter_class = "attnlib.homework.nbgrader_parts.ProvedSource"
# nbgrader's autograder runs students' code without a sandbox: `course.py homework grade` grades instead.
c.Autograde.exporter_class = "attnlib.homework.nbgrader_parts.NoAutograder"
# What nobody has graded is no zero, in the feedback and in `nbgrader export`.
c.GenerateFeedback.preprocessors = [
    "attnlib.homework.nbgrader_parts.Grades", "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
]
c.ExportApp.plugin_class = "attnlib.homework.nbgrader_parts.ClassExport"
# nbgrader calls alembic by its bare name; it lies beside the Python that runs this.
if shutil.which("alembic") is None:
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", ""), str(Path(sys.executable).parent)])
'''


def load(folder):
    """The class in a folder.

    Raises
    ------
    ClassError
        If there is none, or its class.json is not as it must be; the message says what to mend.
    """
    path = Path(folder) / "class.json"
    try:
        told = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise ClassError(
            f"{folder} holds no class: it has no class.json. To make one: "
            "python3 course.py homework new FOLDER"
        ) from None
    except OSError as error:
        raise ClassError(f"{path} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise ClassError(f"{path} is no JSON: {error}.") from None
    return _checked(path, told)


def _checked(path, told):
    def wrong(what):
        return ClassError(f"{path}: {what}")

    if not isinstance(told, dict):
        raise wrong("it must hold an object, in curly brackets.")
    unknown = sorted(set(told) - _KEYS)
    if unknown:
        raise wrong(f"nobody knows {unknown[0]!r}; it may hold {', '.join(sorted(_KEYS))}.")
    for key, kind, words in (("name", str, "a text"), ("seed", int, "a whole number")):
        if not isinstance(told.get(key), kind) or isinstance(told.get(key), bool):
            raise wrong(f"{key!r} must be {words}; it is {json.dumps(told.get(key))}.")
    zone = told.get("timezone", "UTC")
    try:
        zone = UTC if zone == "UTC" else ZoneInfo(zone)
    except (ValueError, OSError, KeyError, TypeError):
        raise wrong(f"'timezone' must be a name such as Europe/Berlin; it is {json.dumps(zone)}.") from None
    due = told.get("due") or {}
    if not isinstance(due, dict):
        raise wrong('\'due\' must map assignments to dates, as in {"hw1": "2025-10-31 23:59"}.')
    dates = {}
    for assignment, text in due.items():
        if text is not None:
            try:
                dates[assignment] = moment(_to_the_minute(text), zone)
            except ValueError as error:
                raise wrong(f"the due date of {assignment}: {error}.") from None
    late, penalty = told.get("late_days", 0), told.get("penalty_percent_a_day", 0)
    if not isinstance(late, int) or isinstance(late, bool) or late < 0:
        raise wrong(f"'late_days' must be a whole number from 0; it is {json.dumps(late)}.")
    if isinstance(penalty, bool) or not isinstance(penalty, (int, float)) or not 0 <= penalty <= 100:
        raise wrong(f"'penalty_percent_a_day' must be a number from 0 to 100; it is {json.dumps(penalty)}.")
    students = told.get("students") or []
    if not isinstance(students, list) or not all(isinstance(each, str) and each for each in students):
        raise wrong("'students' must be a list of names, or empty.")
    regrade = told.get("regrade", REGRADE)
    if not isinstance(regrade, str):
        raise wrong("'regrade' must be a text.")
    return Class(
        path.parent, told["name"], told["seed"], dates, late, float(penalty), regrade, zone, tuple(students)
    )


def _to_the_minute(text):
    """A due date; a day without a time is meant to its end."""
    day, _, rest = str(text).strip().partition(" ")
    try:
        date.fromisoformat(day)
    except ValueError:
        return text
    return text if any(map(str.isdigit, rest)) else f"{day} 23:59 {rest}"


# -------------------------------------------------------------------------------- files of a class


def write_whole(path, data):
    """Write the whole file or, on an interruption, leave what was there."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read_csv(path):
    """The rows of a table that a person has saved, whatever program and country they did it in.

    Returns
    -------
    list of dict
        By the names of the columns, lower case; every value a text without blanks around it.
    """
    data = Path(path).read_bytes()
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode("cp1252", "replace")
    head = text.lstrip("\n").split("\n", 1)[0]
    mark = max(",;\t", key=head.count)
    rows = csv.reader(io.StringIO(text.replace("\r\n", "\n").replace("\r", "\n")), delimiter=mark)
    rows = [[entry.strip() for entry in row] for row in rows]
    names = [name.lower() for name in rows[0]] if rows else []
    return [
        dict(zip(names, (unquoted(entry) for entry in row), strict=False)) for row in rows[1:] if any(row)
    ]


def unquoted(entry):
    """Without the mark that keeps a spreadsheet from computing it."""
    return entry[1:] if entry[:1] == "'" and entry[1:2] in tuple("=+-@") else entry


def quoted(entry):
    """A text that no spreadsheet takes for a formula."""
    return f"'{entry}" if isinstance(entry, str) and entry[:1] in tuple("=+-@\t\r\n|%") else entry


def many(count, thing):
    """A number of things, in words: "1 notebook", "2 notebooks"."""
    return f"{count:g} {thing}{'s' * (count != 1)}"

"""What students and lecturers read: a feedback page each, the grades, the class's statistics.

Hidden inputs are not shown: a page has the verdict's words and no array. What nobody has graded is empty in
the grades, never a zero.
"""

import base64
import csv
import io
import re
import statistics
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from attnlib.homework.classes import Late, many, quoted, read_csv, write_whole
from attnlib.homework.collect import matched
from attnlib.homework.grading import read_result

# One character in front, by which Excel knows UTF-8; other programs and `csv` with utf-8-sig skip it.
_MARK = "\ufeff"
# Each pattern looks at a place once, for a hostile message is long.
_NUMBERS = re.compile(
    r"\[[\[\](),\s\d_.+\-eEjnaifTrulsF]*\]|(?:[-+]?\d[\d.eE+-]*[,;\s]+){8,}[-+]?\d[\d.eE+-]*"
)
_NUMBER = re.compile(r"\d[\d.]*|nan|inf|True|False", re.I)
_BESIDE = 3  # so many numbers in brackets are a shape or an answer, more are an input
UNSAFE = "Graded with --unsafe: the notebooks ran without a sandbox."
BY_HAND = "marked by a person"      # a question that the grader could not decide
OUTCOMES = ("all points", "a part", "no points", "not answered", "not graded yet")


@dataclass
class Row:
    """One student's line in the grades.

    Attributes
    ----------
    student, status : str
        The status is that of the result, or "not handed in".
    score : float or None
        Points so far; None where nobody knows.
    out_of : float
    late : `classes.Late`
    handed_in : datetime or None
    result : dict or None
    questions : list of dict
        As in the result, with the points and comments of a person.
    remarks : list of str
    """

    student: str
    status: str
    score: float | None
    out_of: float
    late: Late = field(default_factory=Late)
    handed_in: datetime | None = None
    result: dict | None = None
    questions: list = field(default_factory=list)
    remarks: list = field(default_factory=list)

    @property
    def so_far(self):
        """The score with what is taken off for lateness."""
        return None if self.score is None else round(self.score * self.late.factor, 2)

    @property
    def final(self):
        """The same, once nothing is open; None before."""
        return self.so_far if self.status == "graded" else None


def write_reports(class_, assignment, graded=None):
    """Write all reports on one assignment into a class's folder.

    Parameters
    ----------
    class_ : `classes.Class`
    assignment : Assignment
    graded : path, optional
        The folder of results; the class's own where it is not given.

    Returns
    -------
    list of str
        Sentences: what was written, and what is left for a person to do.
    """
    folder = Path(graded) if graded else class_.path("graded", assignment.id)
    found, told = list(results(folder)), []
    if not found:
        return [f"Nothing of {assignment.id} has been graded yet, and no report was written."]
    told += prepare_written(class_, assignment, found)
    marks, complaints = read_written(class_, assignment)
    rows = grades(class_, assignment, found, marks)
    told += _still_open(assignment, rows)
    complaints += _strangers(class_, assignment, found, marks)
    for row in rows:
        if row.result:
            path = class_.path("feedback", assignment.id, f"{row.student}.html")
            write_whole(path, feedback(class_, assignment, row).encode("utf-8", "replace"))
    write_whole(
        class_.path(f"grades-{assignment.id}.csv"), grades_csv(assignment, rows).encode("utf-8", "replace")
    )
    pictures = figures(assignment, rows)
    for name, kinds in pictures.items():
        for kind, data in kinds.items():
            write_whole(class_.path(f"statistics-{assignment.id}-{name}.{kind}"), data)
    page = statistics_page(class_, assignment, rows, pictures)
    write_whole(class_.path(f"statistics-{assignment.id}.html"), page.encode("utf-8", "replace"))
    pages = sum(bool(row.result) for row in rows)
    told.append(
        f"Feedback for {many(pages, 'student')} is in {class_.path('feedback', assignment.id)}, the grades "
        f"are in grades-{assignment.id}.csv, the class's statistics in statistics-{assignment.id}.html."
    )
    return told + complaints


def results(folder):
    """The results in a folder by student, in order; one that cannot be read says so itself."""
    for path in sorted(Path(folder).glob("*.json")):
        yield read_result(path) or {
            "student": path.stem, "status": "not graded", "points": None, "out_of": None, "questions": [],
            "reason": "The record of this grading cannot be read; grade it again.", "handed_in": None,
            "marked_late": False, "notes": [], "troubles": [], "unsafe": False, "run": {}, "code": "",
            "file": {"place": "", "sha256": None},
        }  # fmt: skip


# ----------------------------------------------------------------------------------------- grades


def grades(class_, assignment, found, marks):
    """A `Row` for each student, of the results and of the class's list.

    Parameters
    ----------
    class_ : `classes.Class`
    assignment : Assignment
    found : iterable of dict
        Results.
    marks : dict of (student, question id) to (points, comment)
        Of written answers, and of what could not be graded.
    """
    found = list(found)
    students = [result["student"] for result in found]
    times = times_of(class_, assignment.id, students)
    rows = {result["student"]: _row(class_, assignment, result, marks, times) for result in found}
    listed = matched(class_.students, students)
    if class_.students:
        for student in rows.keys() - set(listed.values()):
            rows[student].remarks.append("Not on the class's list.")
    for name in class_.students:
        if name not in listed:
            rows[name] = Row(name, "not handed in", None, assignment.points)
    return [rows[student] for student in sorted(rows, key=lambda name: (name.casefold(), name))]


def _row(class_, assignment, result, marks, times):
    student = result["student"]
    row = Row(student, result["status"], result["points"], assignment.points, result=result)
    for told in result["questions"] or _lost(assignment, result, marks):
        points, comment = marks.get((student, told["id"]), (None, ""))
        if points is not None and told["kind"] == "written":
            told = told | {"status": "graded", "points": points, "reason": "", "comment": comment}
        elif points is not None and told["points"] is None:
            told = told | {"status": BY_HAND, "points": points, "reason": "", "comment": comment}
        elif points is not None:
            entered = many(points, "point")
            row.remarks.append(f"{told['id']} was graded; {entered} by hand: not counted.")
        row.questions.append(told)
    if row.questions:
        row.score = sum(told["points"] or 0 for told in row.questions)
        open_ = {told["kind"] == "written" for told in row.questions if told["points"] is None}
        if row.status != "graded" and False not in open_:
            row.status = "needs reading" if open_ else "graded"
    if row.status not in ("graded", "needs reading"):
        row.score = None
        row.remarks.append(result["reason"])
    found = class_.moment(result["handed_in"]) if result["handed_in"] else None
    row.handed_in = times.get(student, found)
    row.late = class_.late(assignment.id, row.handed_in, result["marked_late"])
    if row.late.told:
        row.remarks.append(row.late.told)
    if result.get("other_variant"):
        row.remarks.append(result["other_variant"])
    for told in row.questions:
        if told["forbidden"]:
            row.remarks.append(f"{told['id']} names {', '.join(told['forbidden'])}: look at it.")
    if result["unsafe"]:
        row.remarks.append(UNSAFE)
    return row


def times_of(class_, id, students):
    """The times that a person has entered, by the student that each name means."""
    times = class_.times(id)
    return {student: times[name] for name, student in matched(times, students).items()}


def absent(class_, students):
    """Those on the class's list that are none of these students."""
    return set(class_.students) - set(matched(class_.students, students))


def _still_open(assignment, rows):
    """How many written answers nobody has marked."""
    waiting = sum(told["status"] == "needs reading" for row in rows for told in row.questions)
    if not waiting:
        return []
    names = f"written-{assignment.id}"
    return [f"Open: {many(waiting, 'written answer')}, to be read in {names}.html and marked in {names}.csv."]


def _strangers(class_, assignment, found, marks):
    """Names in the class's list and in tables that a person has filled in, and whom nobody knows."""
    students = [result["student"] for result in found]
    listed, told = matched(class_.students, students), []
    lost, unlisted = len(absent(class_, students)), len(set(students) - set(listed.values()))
    if class_.students and unlisted:
        verb = "match" if lost != 1 else "matches"
        told.append(f"{many(lost, 'listed name')} {verb} nobody; {many(unlisted, 'submission')} "
                    f"{'are' if unlisted != 1 else 'is'} of nobody listed.")  # fmt: skip
    known = {*students, *class_.students}
    times = class_.times(assignment.id)
    for table, names in (
        ("times", set(times) - set(matched(times, students))), ("written", {student for student, _ in marks})
    ):
        if strange := sorted(names - known):
            told.append(f"{table}-{assignment.id}.csv names {', '.join(strange)}: nobody is called that.")
    return told


def _lost(assignment, result, marks):
    """The questions of a submission of which nothing is known, once a person has marked any of them."""
    if not any((result["student"], question.id) in marks for question in assignment.questions):
        return []
    return [
        {"id": question.id, "title": question.title, "kind": question.kind, "status": "not graded",
         "points": None, "out_of": question.points, "passed": None, "verdict": "", "misconception": None,
         "seed": None, "reason": result["reason"], "notes": [], "forbidden": [], "answer": None}
        for question in assignment.questions
    ]  # fmt: skip


def grades_csv(assignment, rows):
    """The table of grades as CSV, with a mark in front by which spreadsheets know UTF-8."""
    ids = [question.id for question in assignment.questions]
    table = [["student", "status", "score", "out_of", "late_days", "final", *ids, "remarks"]]
    for row in rows:
        points = {told["id"]: told["points"] for told in row.questions}
        days = row.late.days if row.result else None
        table.append(
            [
                row.student,
                row.status,
                number(row.score),
                number(row.out_of),
                number(days),
                number(row.final),
                *(number(points.get(id)) for id in ids),
                " ".join(row.remarks),
            ]
        )
    return _csv(table)


def number(value):
    """A number as short as it can be; nothing where there is none."""
    return "" if value is None else f"{round(value, 2):g}"


def _csv(table):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in table:
        writer.writerow([quoted(_one_line(entry)) for entry in row])
    return _MARK + text.getvalue()


def _one_line(entry):
    return " ".join(entry.split()) if isinstance(entry, str) else entry


# -------------------------------------------------------------------------------- written answers


def prepare_written(class_, assignment, found):
    """Make the table in which a person marks the written answers, and the page that has them.

    The table is made once and never written again; answers that come later get a table of their own.

    Returns
    -------
    list of str
        What a person has to do, in sentences.
    """
    asked = [question for question in assignment.questions if question.kind == "written"]
    answers = [
        (result["student"], told)
        for result in found
        for told in result["questions"]
        if told["kind"] == "written" and told["status"] == "needs reading"
    ]
    if not asked or not answers:
        return []
    page = _page("written.html", class_=class_, assignment=assignment, questions=asked, answers=answers)
    write_whole(class_.path(f"written-{assignment.id}.html"), page.encode("utf-8", "replace"))
    known = {
        (row.get("student"), row.get("question"))
        for path in _written_tables(class_, assignment)
        for row in read_csv(path)
    }
    new = [(student, told["id"]) for student, told in answers if (student, told["id"]) not in known]
    if not new:
        return []
    tables = _written_tables(class_, assignment)
    name = f"written-{assignment.id}{f'-{len(tables) + 1}' * bool(tables)}.csv"
    while class_.path(name).exists():
        name = name.replace(".csv", "-more.csv")
    table = [["student", "question", "points", "comment"], *([student, id, "", ""] for student, id in new)]
    write_whole(class_.path(name), _csv(table).encode("utf-8", "replace"))
    return [
        f"New in {name}: {many(len(new), 'written answer')}. Read written-{assignment.id}.html, put points "
        "and comments into the table and make the reports again."
    ]


def _written_tables(class_, assignment):
    return sorted(
        class_.folder.glob(f"written-{assignment.id}*.csv"), key=lambda path: (len(path.name), path.name)
    )


def read_written(class_, assignment):
    """What a person has entered.

    Returns
    -------
    (dict, list of str)
        Points and comment by (student, question id), and a sentence for each line that cannot be taken.
    """
    of = {question.id: question.points for question in assignment.questions}
    marks, complaints = {}, []
    for path in _written_tables(class_, assignment):
        for line, row in enumerate(read_csv(path), 2):
            student, id, text = (row.get(key, "") for key in ("student", "question", "points"))
            if not text:
                continue
            try:
                points = float(text.replace(",", "."))
            except ValueError:
                complaints.append(
                    f"{path.name}, row {line}: {text[:30]!r} are no points; {student} has none yet."
                )
                continue
            if id not in of:
                complaints.append(
                    f"{path.name}, row {line}: {assignment.id} has no question {id[:60]!r}."
                )
            elif not 0 <= points <= of[id]:
                complaints.append(
                    f"{path.name}, row {line}: {points:g} are not between 0 and "
                    f"{of[id]}; {student} has none yet."
                )
            elif marks.get((student, id), (points,))[0] != points:
                complaints.append(
                    f"{path.name}, row {line}: {student} has {marks[student, id][0]:g} points for {id} "
                    f"further up, and {points:g} here; the first count."
                )
            else:
                marks[student, id] = points, row.get("comment", "")
    return marks, complaints


# ---------------------------------------------------------------------------------------- feedback


def feedback(class_, assignment, row):
    """One student's page: self-contained HTML that shows no hidden input."""
    points = [told["points"] for told in row.questions]
    waiting = sum(told["out_of"] for told in row.questions if told["status"] == "needs reading")
    about = [note for told in row.questions for note in told["notes"]]
    return _page(
        "feedback.html", class_=class_, assignment=assignment, row=row, result=row.result, waiting=waiting,
        known=any(each is not None for each in points), unsafe=UNSAFE if row.result["unsafe"] else "",
        notes=[note for note in row.result["notes"] if note not in about],
        troubles=[trouble["told"] for trouble in row.result["troubles"]],
    )  # fmt: skip


def without_arrays(text):
    """A verdict's words without the numbers of a hidden input: rows of more than three of them go."""

    def shortened(found):
        return "[...]" if len(_NUMBER.findall(found[0])) > _BESIDE else found[0]

    return _NUMBERS.sub(shortened, str(text)[:3000])


def _marked(text):
    """A verdict's words as HTML."""
    return _prose(without_arrays(text))


def _prose(text):
    """Words with `code` and **weight** as HTML; all else is escaped."""
    from markupsafe import Markup, escape

    html = str(escape(text))
    html = re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html)
    return Markup(re.sub(r"\*\*([^*\n]+)\*\*", r"<b>\1</b>", html))


def _in_words(name):
    return str(name).replace("_", " ")


def _page(name, **what):
    return _templates().get_template(name).render(**what)


@lru_cache(maxsize=1)
def _templates():
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("pages")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    made.filters |= {"marked": _marked, "prose": _prose, "in_words": _in_words, "number": number}
    return made


# -------------------------------------------------------------------------------------- statistics


def outcome(told):
    """Which of `OUTCOMES` a question came to."""
    if told["points"] is None:
        return "not graded yet"
    if told["status"] == "not answered":
        return "not answered"
    if told["points"] >= told["out_of"]:
        return "all points"
    return "a part" if told["points"] > 0 else "no points"


def counted(assignment, rows):
    """For each question: how many came to each outcome, and which mistakes were named how often."""
    found = {}
    for question in assignment.questions:
        told = [each for row in rows for each in row.questions if each["id"] == question.id]
        named = Counter(
            name for each in told for name in (each["misconception"] or "").split(" and ") if name
        )
        known = [each["points"] for each in told if each["points"] is not None]
        found[question.id] = {
            "title": getattr(question, "title", question.id), "out_of": question.points,
            "outcomes": Counter(map(outcome, told)), "mean": statistics.fmean(known) if known else None,
            "mistakes": sorted(named.items(), key=lambda item: (-item[1], item[0])),
        }  # fmt: skip
    return found


def statistics_page(class_, assignment, rows, pictures):
    """The class's page for the lecturer, with the pictures of `figures`: self-contained HTML."""
    scores = [row.score for row in rows if row.score is not None]
    pictures = {
        name: "data:image/svg+xml;base64," + base64.b64encode(each["svg"]).decode()
        for name, each in pictures.items()
    }
    return _page(
        "statistics.html", class_=class_, assignment=assignment, rows=rows,
        questions=counted(assignment, rows),
        statuses=Counter(row.status for row in rows), outcomes=OUTCOMES, pictures=pictures, scores=scores,
        mean=statistics.fmean(scores) if scores else None,
        median=statistics.median(scores) if scores else None,
        attention=[row for row in rows if row.result and (row.score is None or row.remarks)],
        unsafe=UNSAFE if any(row.result and row.result["unsafe"] for row in rows) else "",
        late=sum(bool(row.late.days) for row in rows),
    )  # fmt: skip


def figures(assignment, rows):
    """The class in pictures: by name, the bytes of an SVG and a PNG each."""
    from attnlib.homework import charts

    counts = counted(assignment, rows)
    made = {"scores": charts.scores([row.score for row in rows if row.score is not None], assignment.points)}
    if any(sum(each["outcomes"].values()) for each in counts.values()):
        made["questions"] = charts.questions(
            [each["title"] for each in counts.values()],
            [each["outcomes"] for each in counts.values()],
            OUTCOMES,
        )
    named = [
        (count, each["title"], _in_words(name))
        for each in counts.values()
        for name, count in each["mistakes"]
    ]
    if named:
        made["mistakes"] = charts.mistakes(sorted(named, key=lambda item: (-item[0], item[1:])))
    return {
        name: {"svg": charts.as_svg(figure), "png": charts.as_png(figure)} for name, figure in made.items()
    }

"""The grader's results in nbgrader's gradebook, and what a person marks in Formgrader back out of it.

nbgrader's own autograder runs students' code unprotected and believes the student's own check, so it is not
what grades. Its gradebook, Formgrader, feedback and exchange work on what is handed over here.
"""

import contextlib
import csv
import hashlib
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
from datetime import UTC
from pathlib import Path

import nbformat
import sqlalchemy.exc
from nbgrader.api import Comment, Grade, Gradebook, MissingEntry
from nbgrader.coursedir import CourseDirectory
from nbgrader.utils import compute_checksum, is_grade, is_locked, is_solution, parse_utc
from traitlets.config import Config
from traitlets.config.loader import PyFileConfigLoader

from attnlib.homework import reports, submission
from attnlib.homework.classes import ClassError, quoted, read_csv, write_whole
from attnlib.homework.grading import LOST, read_result
from attnlib.homework.source import released, source

MOST_TEXT = 100_000         # characters of a cell that a person is shown
MOST_NOTEBOOK = 1_000_000   # and of all of them


class GradebookError(ClassError):
    """The gradebook cannot be read or written; the message says what to do."""


# -------------------------------------------------------------------------------- into the gradebook


def to_gradebook(class_, assignment, collection=None):
    """Hand the results of an assignment over to nbgrader: the gradebook, and the notebooks that it shows.

    What a person has entered in Formgrader stays as it is. It can be done any number of times.

    Parameters
    ----------
    class_ : `classes.Class`
    assignment : Assignment
    collection : `collect.Collection`, optional
        Where the students' notebooks are found again; without one only their answers in words are shown.

    Returns
    -------
    list of str
        Sentences: how many were handed over, and whom a person has to look at.

    Raises
    ------
    GradebookError
        If the gradebook cannot be written, or holds another assignment of this name.
    """
    results = {each["student"]: each for each in reports.results(class_.path("graded", assignment.id))}
    found = {each.student: each for each in collection.submissions} if collection else {}
    master, told = master_of(class_, assignment), {}
    with gradebook_of(class_) as (book, course):
        _register(book, class_, assignment, master)
        for student in sorted({*reports.absent(class_, {*results, *found}), *results, *found}):
            book.update_or_create_student(student)
        for student in sorted({*results, *found}):
            result = results.get(student) or _not_yet(student)
            for sentence in _hand_over(book, course, class_, assignment, master, result, found.get(student)):
                told.setdefault(sentence, []).append(student)
        waiting = _waiting(book, assignment)
    count = len({*results, *found})
    return [f"In nbgrader's gradebook {_many(count, 'submission')} to {assignment.id}; for a person in "
            f"Formgrader there {_many(waiting, 'answer')} to be marked.",
            *(f"{_listed(students)}: {sentence}" for sentence, students in told.items())]


def _many(count, what):
    return f"is 1 {what}" if count == 1 else f"are {count} {what}s"


def _listed(students):
    return ", ".join(students[:5]) + (f" and {len(students) - 5} others" if len(students) > 5 else "")


def master_of(class_, assignment):
    """The released notebook of a class, with the checksums by which nbgrader knows its cells.

    Raises
    ------
    GradebookError
        If the class's source is no notebook, or is not that of the assignment.
    """
    path = class_.path("source", assignment.id, f"{assignment.id}.ipynb")
    try:
        made = nbformat.read(path, as_version=4)
    except FileNotFoundError:
        made = source(assignment, class_.rules(assignment.id))
    except Exception as error:
        raise GradebookError(f"{path} is no notebook: {str(error)[:200]}") from None
    made = released(made)
    for cell in made.cells:
        if is_grade(cell) or is_solution(cell) or is_locked(cell):
            cell.metadata["nbgrader"]["checksum"] = compute_checksum(cell)
            cell.metadata["nbgrader"]["cell_type"] = cell.cell_type
    graded = {cell.metadata["nbgrader"]["grade_id"]: cell.metadata["nbgrader"]["points"]
              for cell in made.cells if is_grade(cell)}  # fmt: skip
    if graded != {_graded_cell(question): question.points for question in assignment.questions}:
        raise GradebookError(
            f"{path} is not the source of {assignment.id} as this class has it: its graded cells or their "
            "points differ. Delete it and call: homework sources")
    return made


def _graded_cell(question):
    """The id of the cell that carries a question's points."""
    return question.id if question.kind == "written" else f"check-{question.id}"


def _not_yet(student):
    return {
        "student": student, "status": "not graded", "reason": "It has not been graded yet.", "points": None,
        "questions": [], "notes": [], "troubles": [], "handed_in": None, "marked_late": False, "file": {},
    }  # fmt: skip


@contextlib.contextmanager
def gradebook_of(class_):
    """The class's gradebook and its folders, as its nbgrader_config.py has them.

    Raises
    ------
    GradebookError
        If either cannot be opened, or the gradebook fails.
    """
    course = _course(class_)
    try:
        with _opened(course) as book:
            yield book, course
    except (sqlalchemy.exc.DBAPIError, sqlalchemy.exc.ArgumentError) as error:
        told = str(getattr(error, "orig", None) or error)[:200]
        raise GradebookError(f"nbgrader's gradebook {course.db_url} cannot be used: {told}. Close what else "
                             "has it open; after an update of nbgrader call: nbgrader db upgrade") from None


def _opened(course):
    try:
        with alembic_found():
            return Gradebook(course.db_url, course.course_id)
    except (OSError, subprocess.CalledProcessError) as error:
        told = f"nbgrader's gradebook cannot be made, for alembic does not run: {error}"
        raise GradebookError(told) from None


@contextlib.contextmanager
def alembic_found():
    """nbgrader calls alembic by its bare name; here it is found, for it lies beside Python."""
    before = os.environ.get("PATH", "")
    if not shutil.which("alembic"):
        os.environ["PATH"] = os.pathsep.join(filter(None, (before, str(Path(sys.executable).parent))))
    try:
        yield
    finally:
        os.environ["PATH"] = before


def _course(class_):
    config = Config()
    if class_.path("nbgrader_config.py").is_file():
        try:
            config = PyFileConfigLoader("nbgrader_config.py", path=str(class_.folder)).load_config()
        except Exception as error:
            raise GradebookError(f"{class_.path('nbgrader_config.py')} fails: {type(error).__name__}: "
                                 f"{str(error)[:200]}") from None  # fmt: skip
    if "root" not in config.CourseDirectory:
        config.CourseDirectory.root = str(class_.folder.resolve())
    return CourseDirectory(config=config)


def _register(book, class_, assignment, master):
    """The assignment, its notebook and its cells."""
    id = assignment.id
    marks = {cell.metadata["nbgrader"]["grade_id"]: cell for cell in master.cells}
    ours = {
        "grade": {name for name, cell in marks.items() if is_grade(cell)},
        "solution": {name for name, cell in marks.items() if is_solution(cell)},
    }  # fmt: skip
    with contextlib.suppress(MissingEntry):
        old = book.find_notebook(id, id)
        there = {
            "grade": {cell.name for cell in old.grade_cells},
            "solution": {cell.name for cell in old.solution_cells},
        }  # fmt: skip
        if there != ours and old.submissions:
            odd = sorted(set().union(*there.values()) ^ set().union(*ours.values()))
            raise GradebookError(
                f"The gradebook's {id} has submissions and other cells than the source has "
                f"({', '.join(odd)[:200]}); move gradebook.db away, and hand over again.")
        if there != ours:
            book.remove_notebook(id, id)
    due = class_.due.get(id)
    book.update_or_create_assignment(id, duedate=due.astimezone(UTC).replace(tzinfo=None) if due else None)
    book.update_or_create_notebook(id, id, kernelspec=json.dumps(master.metadata.get("kernelspec", {})))
    for name, cell in marks.items():
        kind = {"cell_type": cell.cell_type}
        if is_grade(cell):
            points = float(cell.metadata["nbgrader"]["points"])
            book.update_or_create_grade_cell(name, id, id, max_score=points, **kind)
        if is_solution(cell):
            book.update_or_create_solution_cell(name, id, id)
        book.update_or_create_source_cell(
            name, id, id, source=cell.source, locked=is_locked(cell),
            checksum=cell.metadata["nbgrader"].get("checksum"), **kind)  # fmt: skip


def _hand_over(book, course, class_, assignment, master, result, handed_in):
    """One student: the notebook and the points. What a person should know, in sentences."""
    student, told = result["student"], []
    cells, plan = (), None
    data, why = _file(result, handed_in)
    if data is not None:
        read = submission.read(data)
        if isinstance(read, submission.Notebook):
            cells, plan = read.cells, submission.plan(assignment, read)
    elif why:
        told.append(why)
        result = result | {"notes": [*result["notes"], why]}
    made = shown(master, assignment, result, cells, plan)
    folder = Path(course.format_path(course.autograded_directory, student, assignment.id))
    path = folder / f"{assignment.id}.ipynb"
    old = _sum_of(path)
    another = old is not None and old != _graded_file(result)
    text = (nbformat.writes(made) + "\n").encode("utf-8", "replace")
    if not path.is_file() or path.read_bytes() != text:
        write_whole(path, text)
    stamp = _timestamp(course, assignment.id, result)
    if stamp:
        write_whole(path.with_name("timestamp.txt"), f"{stamp.isoformat(sep=' ')} UTC\n".encode())
    with book.db.no_autoflush:      # nbgrader builds the record piece by piece, and SQLAlchemy would warn
        record = book.update_or_create_submission(assignment.id, student, timestamp=stamp)
    again = _grades(book, record, assignment, result, another)
    settle_penalty(book, class_, assignment.id, student)
    book.db.commit()
    if again:
        told.append(f"What was marked by hand for {', '.join(again)} stands, and is to be looked at again, "
                    "for the submission or its points have changed.")
    if result["status"] in LOST:
        told.append(f"{result['status'].capitalize()}. {' '.join(result['reason'].split())[:300]}")
    return told


def _file(result, handed_in):
    """The bytes that were graded, or None and a sentence on why they are not shown."""
    if handed_in is None:
        return None, "The notebook was not found again, so only answers in words are shown."
    if handed_in.unreadable:
        return None, ""
    try:
        data = handed_in.read()
    except OSError as error:
        return None, f"The notebook cannot be read again ({error.strerror or error})."
    if _graded_file(result) and _digest(data) != _graded_file(result):
        return None, "Another file was handed in since this one was graded; grade it, and hand over again."
    return data, ""


def _graded_file(result):
    return (result.get("file") or {}).get("sha256")


def _digest(data):
    return hashlib.sha256(data).hexdigest()


def _sum_of(path):
    """The sum over the submission that an earlier handing over has shown; None where there was none."""
    try:
        return nbformat.read(path, as_version=4).metadata.get("attn", {}).get("sha256")
    except Exception:
        return None


def _timestamp(course, id, result):
    """When it was handed in, in UTC, as Formgrader expects it: the same as in submitted/.

    Formgrader takes a submission whose times differ for one that is not graded. What came by another way is
    therefore given its time there, in a folder that holds nothing else.
    """
    folder = Path(course.format_path(course.submitted_directory, result["student"], id))
    path = folder / "timestamp.txt"
    if path.is_file():
        try:
            return parse_utc(path.read_text(encoding="utf-8-sig").strip())
        except (ValueError, OverflowError):
            return None
    moment = parse_utc(result["handed_in"]) if result["handed_in"] else None
    if moment and not folder.exists():
        write_whole(path, f"{moment.isoformat(sep=' ')} UTC\n".encode())
        return moment
    return None


def _grades(book, record, assignment, result, another):
    """Put the points in; the titles of questions whose marks by hand are to be looked at again."""
    (notebook,) = (each for each in record.notebooks if each.name == assignment.id)
    grades = {each.cell.name: each for each in notebook.grades}
    comments = {each.cell.name: each for each in notebook.comments}
    for cell in notebook.notebook.grade_cells:
        if cell.name not in grades:
            grades[cell.name] = Grade(cell_id=cell.id, notebook=notebook)
    for cell in notebook.notebook.solution_cells:
        if cell.name not in comments:
            comments[cell.name] = Comment(cell_id=cell.id, notebook=notebook)
    known, again = _known(result), []
    for question in assignment.questions:
        told, grade = known.get(question.id), grades[_graded_cell(question)]
        auto = told["points"] if told else None
        changed = another or auto != grade.auto_score
        if grade.manual_score is None:
            grade.needs_manual_grade = auto is None
        elif changed:
            grade.needs_manual_grade = True
            again.append(question.title)
        grade.auto_score = auto
        empty = told is not None and told["status"] == "not answered"
        comments[question.id].auto_comment = "No response." if empty else None
    book.db.commit()
    return again


def _known(result):
    """What is known of each question; nothing where the whole was lost."""
    return {told["id"]: told for told in result["questions"]}


def _waiting(book, assignment):
    """How many answers wait for a person."""
    return sum(grade.needs_manual_grade for record in book.assignment_submissions(assignment.id)
               for notebook in record.notebooks for grade in notebook.grades)  # fmt: skip


# ----------------------------------------------------------------------------------------- lateness


def settle_penalty(book, class_, id, student):
    """Set the points that lateness costs, after the class's rule, on the score as it is now."""
    record = book.find_submission(id, student)
    for notebook in record.notebooks:
        score = sum(map(points_of, notebook.grades))
        cost = score * (1 - late_of(class_, id, student).factor)
        notebook.late_submission_penalty = round(cost, 6) or None


def points_of(grade):
    """What a grade stands at, 0 where nobody has given any."""
    given = grade.auto_score if grade.manual_score is None else grade.manual_score
    return 0.0 if given is None else given + (grade.extra_credit or 0.0)


def late_of(class_, id, student):
    """How late a student was, from the times that a person has entered, or else from the grading."""
    result = read_result(class_.path("graded", id, f"{student}.json")) or {}
    students = [path.stem for path in class_.path("graded", id).glob("*.json")]
    moment = reports.times_of(class_, id, {student, *students}).get(student)
    if moment is None and result.get("handed_in"):
        moment = class_.moment(result["handed_in"])
    return class_.late(id, moment, result.get("marked_late", False))


# -------------------------------------------------------------------------------- what is shown


def shown(master, assignment, result, cells=(), plan=None):
    """The notebook that Formgrader shows: the student's cells, the locked ones as given, and the verdicts.

    Nothing of it has been run here, and the student's outputs are left out. Each cell of the release is in it
    once, wherever the student has moved it; of several copies the one that was graded counts.

    Parameters
    ----------
    master : nbformat.NotebookNode
        As `master_of` gives it.
    assignment : Assignment
    result : dict
        Of the grading.
    cells : tuple of `submission.Cell`
    plan : `submission.Plan`, optional
        Says which cells made the answers.

    Returns
    -------
    nbformat.NotebookNode
    """
    ours = {cell.metadata["nbgrader"]["grade_id"]: cell for cell in master.cells}
    roles, known, left = _roles(ours, assignment, cells, plan), _known(result), MOST_NOTEBOOK
    out, places = [], {}
    for cell in cells:
        text = _cut(cell.source, min(MOST_TEXT, max(left, 0)))
        left -= len(text)
        id = roles.get(cell.number)
        if id is None:
            out.append(_own(cell, text))
            continue
        made = nbformat.from_dict(ours[id])
        if is_solution(made):
            made.source = text if made.cell_type == "code" else _no_html(text)
        places[id] = made
        out.append(made)
    previous = None
    for id, cell in ours.items():
        if id not in places:
            places[id] = nbformat.from_dict(cell)
            at = next((i + 1 for i, other in enumerate(out) if other is previous), 0)
            out.insert(at, places[id])
        previous = places[id]
    for question in assignment.questions:
        labels = plan.makers.get(question.id, ()) if plan else ()
        if labels and question.id not in roles.values():
            places[question.id].source = f"# This answer stands in another cell: {labels[-1]}."
        cell = places[_graded_cell(question)]
        told = known.get(question.id)
        if question.kind != "written":
            cell.outputs = [_verdict(question, told, result)]
        elif told and told["answer"]:
            cell.source = _no_html(_cut(told["answer"], MOST_TEXT))
    head = _head(result)
    notebook = nbformat.v4.new_notebook(cells=[*head, *out])
    notebook.metadata = nbformat.from_dict(master.metadata)
    notebook.metadata["attn"] = {"assignment": assignment.id, "sha256": _graded_file(result)}
    return notebook


def _roles(ours, assignment, cells, plan):
    """By a cell's number, as which of our cells it counts; each of ours at most once."""
    roles, code = {}, {cell.number: cell for cell in cells}
    makers = plan.makers if plan else {}
    for question in assignment.questions:
        own = [cell.number for cell in cells if cell.id == question.id]
        last = " ".join(makers.get(question.id, ())[-1:])       # as in "cell 7 (lookup)"
        made = [int(number) for number in re.findall(r"\d+", last)[:1]]
        free = [number for number in (*made, *own) if number not in roles and number in code]
        if free:
            roles[free[0]] = question.id
    taken = set(roles.values())
    for cell in cells:
        free = cell.id in ours and cell.id not in taken and cell.number not in roles
        if free and not is_solution(ours[cell.id]):
            roles[cell.number] = cell.id
            taken.add(cell.id)
    return roles


def _own(cell, text):
    """A cell of the student's own, without any mark and with nothing that runs in a reader's browser."""
    id = f"own-{cell.number}"
    if cell.kind == "code":
        return nbformat.v4.new_code_cell(text, id=id)
    text = _no_html(text)
    return nbformat.v4.new_markdown_cell(f"```\n{text}\n```" if cell.kind == "raw" else text, id=id)


def _no_html(text):
    """A student's text in which no tag is one: Formgrader would run what stands in it as the lecturer."""
    return re.sub(r"<(?=[A-Za-z/!?])", "<\u200b", text)


def _cut(text, most):
    return text if len(text) <= most else f"{text[:most]}\n[cut off here: {len(text)} characters]"


def _verdict(question, told, result):
    """The verdict as the output of a check cell; its plain text is the points, as nbgrader reads them."""
    if told is None or told["points"] is None:
        reason = told["reason"] if told else result["reason"]
        text = f"<p><b>Not graded</b>: this is left to a person, and is not zero. {_words(reason)}</p>"
        return nbformat.v4.new_output("display_data", data={"text/html": text, "text/plain": "not graded"})
    head = f"{reports.number(told['points'])} of {reports.number(told['out_of'])} points"
    text = f"<p><b>{head}</b> ({told['status']}). {_words(told['verdict'] or told['reason'])}</p>"
    more = [_words(note) for note in told["notes"][:10]]
    if told["misconception"]:
        more.insert(0, f"Named mistake: {_words(str(told['misconception']).replace('_', ' '))}")
    if more:
        text += "<ul>" + "".join(f"<li>{each}</li>" for each in more) + "</ul>"
    data = {"text/html": text, "text/plain": f"{float(told['points'])}"}
    return nbformat.v4.new_output("execute_result", data=data)


def _words(text):
    """A verdict's words as HTML, without the numbers of hidden inputs; all that is not ours is escaped."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", html.escape(reports.without_arrays(text or "")))


def _head(result):
    """What the grader says of the whole, for whoever marks it."""
    lines = [*result["notes"], *(trouble["told"] for trouble in result["troubles"])]
    if result["status"] in LOST:
        lines.insert(0, f"{result['status'].capitalize()}: {result['reason']}")
    if result.get("unsafe"):
        lines.insert(0, reports.UNSAFE)
    if not lines:
        return []
    text = "".join(f"\n- {_no_html(reports.without_arrays(line))[:1000]}" for line in lines[:50])
    text = f"**The grader's notes on this submission**\n{text}"
    return [nbformat.v4.new_markdown_cell(text, id="graders-notes")]


# ------------------------------------------------------------------------------ out of the gradebook


def from_gradebook(class_, assignment):
    """Take what a person has marked in Formgrader into the class's tables, which the reports read.

    Points and comments go into a table of their own, ``written-ASSIGNMENT-nbgrader.csv``, which mirrors the
    gradebook; tables that people fill in are only read. Points of questions that the grader has graded stay
    the grader's, and each that differs is told.

    Returns
    -------
    list of str
        Sentences: what was taken over, what has changed since the last time, and what disagrees.

    Raises
    ------
    GradebookError
        If the gradebook cannot be read or does not hold the assignment.
    """
    path = mirror_of(class_, assignment.id)
    with gradebook_of(class_) as (book, _):
        try:
            records = book.find_assignment(assignment.id).submissions
        except MissingEntry:
            raise GradebookError(f"The gradebook holds no {assignment.id}; call first: homework to-nbgrader "
                                 f"{assignment.id}") from None  # fmt: skip
        marks, told = {}, []
        for record in sorted(records, key=lambda each: each.student.id):
            told += _marks_of(class_, assignment, record, marks)
            settle_penalty(book, class_, assignment.id, record.student.id)
        book.db.commit()
    old = {(row.get("student"), row.get("question")): (row.get("points", ""), row.get("comment", ""))
           for row in (read_csv(path) if path.is_file() else ())}  # fmt: skip
    told += _changes(path, old, marks) + _disagreements(class_, assignment, marks, path)
    if marks or path.is_file():
        rows = [[*key, points, comment] for key, (points, comment) in sorted(marks.items())]
        write_whole(path, as_csv([["student", "question", "points", "comment"], *rows]))
    count = sum(bool(points) for points, _ in marks.values())
    return [f"In {path.name} {_many(count, 'mark')} by hand.", *told]


def as_csv(table):
    """A table's bytes, with a mark in front by which spreadsheets know UTF-8."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([map(quoted, row) for row in table])
    return ("\ufeff" + text.getvalue()).encode("utf-8", "replace")


def mirror_of(class_, id):
    """The table that mirrors the gradebook; among a class's tables it comes last."""
    return class_.path(f"written-{id}-nbgrader.csv")


def _marks_of(class_, assignment, record, marks):
    """Put one student's marks into ``marks``; sentences on those that are not taken."""
    student, told = record.student.id, []
    result = read_result(class_.path("graded", assignment.id, f"{student}.json")) or _not_yet(student)
    known = _known(result)
    for notebook in record.notebooks:
        grades = {grade.cell.name: grade for grade in notebook.grades}
        comments = {comment.cell.name: comment.manual_comment or "" for comment in notebook.comments}
        for question in assignment.questions:
            grade = grades.get(_graded_cell(question))
            if grade is None:
                continue
            points = None if grade.manual_score is None else points_of(grade)
            comment = comments.get(question.id, "")
            open_ = question.kind == "written" or known.get(question.id, {}).get("points") is None
            if not open_:
                there = known[question.id]["points"]
                if points not in (None, there):
                    told.append(f"{student}: Formgrader has {points:g} points for {question.id}, the grader "
                                f"gave {there:g}; not taken over, for this question was graded.")
            elif points is not None or comment:
                marks[student, question.id] = (reports.number(points), " ".join(comment.split()))
    return told


def _changes(path, old, marks):
    """What the mirror said before and no longer says."""
    told = []
    for key in sorted(old):
        was, now = old[key][0], marks.get(key, ("", ""))[0]
        if was and was != now:
            told.append(f"{path.name}: {key[0]} had {was} points for {key[1]} and has {now or 'none'} now.")
    return told


def _disagreements(class_, assignment, marks, mirror):
    """Where a table that a person fills in says something else; it counts."""
    told = []
    for path in sorted(class_.folder.glob(f"written-{assignment.id}*.csv")):
        for row in read_csv(path) if path != mirror else ():
            key, text = (row.get("student"), row.get("question")), row.get("points", "").replace(",", ".")
            points = marks.get(key, ("", ""))[0]
            with contextlib.suppress(ValueError):
                if text and points and float(text) != float(points):
                    told.append(f"{path.name} has {text} points for {key[1]} of {key[0]}, Formgrader has "
                                f"{points}; {path.name} counts. Empty it there if Formgrader is right.")
    return told

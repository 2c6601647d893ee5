"""What a class's nbgrader_config.py puts in the place of nbgrader's own parts.

nbgrader's autograder is refused, its release is proved first, its feedback and its export do not take what
nobody has graded for a zero.
"""

from datetime import UTC
from pathlib import Path

import nbformat
from nbconvert.exporters import NotebookExporter
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.converters.base import NbGraderException
from nbgrader.plugins import ExportPlugin
from nbgrader.preprocessors import GetGrades

from attnlib.homework import assignment as assignments
from attnlib.homework import classes, gradebook, release, reports
from attnlib.homework.sandbox import Sandbox, SandboxLeaks, SandboxMissing

REFUSED = (
    "nbgrader's autograder runs students' code on this machine without a sandbox, so this class's "
    "nbgrader_config.py refuses it. Grade with `python3 course.py homework grade {id}`, then call "
    "`python3 course.py homework to-nbgrader {id}`."
)


class NoAutograder(NotebookExporter):
    """In the autograder's place: refuses before anything is read, removed or run."""

    def __init__(self, *args, parent=None, **named):
        super().__init__(*args, parent=parent, **named)
        told = REFUSED.format(id=parent.coursedir.assignment_id if parent else "hw1")
        self.log.error(told)
        raise NbGraderException(told)


class ProvedSource(NotebookExporter):
    """In the place of what writes a release: first the source has to earn its points, the release none.

    An assignment that is not one of ours is let through, with a warning.
    """

    def __init__(self, *args, parent=None, **named):
        super().__init__(*args, parent=parent, **named)
        for folder in sorted(map(Path, parent.assignments if parent else ())):
            try:
                faults = self.faults(Path(parent.coursedir.root), folder)
            except (classes.ClassError, SandboxMissing, SandboxLeaks) as error:
                faults = [str(error)]
            if faults:
                told = f"{folder.name} was not released.\n" + "\n".join(f"- {fault}" for fault in faults)
                self.log.error(told)
                raise NbGraderException(told)

    def faults(self, root, folder):
        """What is wrong with the source in a folder, in sentences."""
        id = folder.name
        for path in sorted(folder.glob("*.ipynb")):
            if id not in assignments.ASSIGNMENTS or path.stem != id:
                self.log.warning("%s is none of attnlib's assignments: its solutions were not tried.", path)
        if id not in assignments.ASSIGNMENTS:
            return []
        class_ = classes.load(root)
        assignment = assignments.load(id, class_.seed)
        try:
            notebook = nbformat.read(folder / f"{id}.ipynb", as_version=4)
        except Exception as error:
            return [f"{folder / id}.ipynb is no notebook: {error}"]
        try:
            if release.with_rules(notebook, class_.rules(id)) != notebook:
                return ["Its title prints other rules than class.json has; `homework release` puts them in."]
        except release.NotReleased as error:
            return [str(error)]
        self.log.info("Proving %s in the sandbox: the source, then the stripped notebook.", id)
        with Sandbox(assignment.forbids) as sandbox:
            sandbox.prove()
            return release.faults(notebook, assignment, class_.seed, sandbox)


class Grades(GetGrades):
    """nbgrader's own grades for its feedback; what waits for a person has no score there, and it is said."""

    def preprocess(self, nb, resources):
        about = resources["nbgrader"]
        id, student, self.waiting = about["assignment"], about["student"], {}
        root = Path(self.parent.parent.coursedir.root)
        if id in assignments.ASSIGNMENTS and (root / "class.json").is_file():
            with Gradebook(about["db_url"]) as book:
                gradebook.settle_penalty(book, classes.load(root), id, student)
                book.db.commit()
        nb, resources = super().preprocess(nb, resources)
        if self.waiting:
            about["max_score"] -= sum(self.waiting.values())
            names = ", ".join(f"`{name}`" for name in self.waiting)
            told = f"**Not graded yet, and neither in the score above nor in its total:** {names}."
            nb.cells.insert(0, nbformat.v4.new_markdown_cell(told, id="not-graded-yet"))
        return nb, resources

    def _get_score(self, cell, resources):
        super()._get_score(cell, resources)
        id = cell.metadata["nbgrader"]["grade_id"]
        grade = self.gradebook.find_grade(id, self.notebook_id, self.assignment_id, self.student_id)
        if grade.auto_score is None and grade.manual_score is None:
            self.waiting[id] = grade.max_score
            cell.metadata["nbgrader"]["grade"] = False      # else the template prints a score: zero


class ClassExport(ExportPlugin):
    """The gradebook as CSV: everybody on the class's list, a status, and no zero that nobody gave."""

    COLUMNS = (
        "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "status",
        "raw_score", "late_submission_penalty", "score", "max_score",
    )  # fmt: skip

    def export(self, book):
        path = Path(self.to or "grades.csv")
        class_ = classes.load(self.parent.coursedir.root)
        table = [self.COLUMNS]
        known = {student.id: student for student in book.students}
        wanted = {str(student) for student in self.student} or {*known, *reports.absent(class_, known)}
        for assignment in book.assignments:
            if not self.assignment or assignment.name in {str(id) for id in self.assignment}:
                for student in sorted(wanted):
                    row = self.row(book, class_, assignment, student, known.get(student))
                    table.append(["" if row.get(name) is None else row[name] for name in self.COLUMNS])
        classes.write_whole(path, gradebook.as_csv(table))
        self.log.info("Exported the grades to %s", path)

    def row(self, book, class_, assignment, student, about):
        """One student's line for one assignment."""
        row = {
            "assignment": assignment.name, "student_id": student, "status": "not handed in",
            "max_score": reports.number(assignment.max_score), "duedate": _shown(assignment.duedate),
        }  # fmt: skip
        row |= {name: getattr(about, name, None) for name in ("last_name", "first_name", "email")}
        try:
            record = book.find_submission(assignment.name, student)
        except MissingEntry:
            return row
        grades = [grade for notebook in record.notebooks for grade in notebook.grades]
        open_ = [each for each in grades if each.auto_score is None and each.manual_score is None]
        row |= {"status": _status(grades, open_), "timestamp": _shown(record.timestamp)}
        if row["status"] == "not graded":
            return row
        score = sum(map(gradebook.points_of, grades))
        if assignment.name in assignments.ASSIGNMENTS:
            penalty = score * (1 - gradebook.late_of(class_, assignment.name, student).factor)
        else:
            penalty = record.late_submission_penalty or 0.0
        return row | {
            "raw_score": reports.number(score), "late_submission_penalty": reports.number(penalty),
            "score": reports.number(max(0.0, score - penalty)),
        }  # fmt: skip


def _status(grades, open_):
    if not grades or any(grade.cell.cell_type == "code" for grade in open_):
        return "not graded"
    if open_:
        return "needs reading"
    return "to be looked at again" if any(grade.needs_manual_grade for grade in grades) else "graded"


def _shown(moment):
    return moment.replace(tzinfo=UTC).isoformat(sep=" ", timespec="minutes") if moment else None

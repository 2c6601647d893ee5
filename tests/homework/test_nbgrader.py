"""With nbgrader 0.9.6: results go in, marks come out, and what it does wrong is refused or mended."""

import contextlib
import csv
import http.client
import io
import json
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from datetime import datetime

import nbformat
import pytest
import sqlalchemy
from mutated import code, mutations
from small_assignment import QUESTIONS, SMALL, good

pytest.importorskip("nbgrader", reason="nbgrader is not installed; it is in the extra nbgrader")

from nbgrader import api, utils  # noqa: E402
from nbgrader.apps import AutogradeApp, ExportApp  # noqa: E402
from nbgrader.converters import GenerateAssignment, GenerateFeedback  # noqa: E402
from nbgrader.converters.base import NbGraderException  # noqa: E402
from nbgrader.coursedir import CourseDirectory  # noqa: E402
from nbgrader.nbgraderformat import MetadataValidator  # noqa: E402
from nbgrader.validator import Validator  # noqa: E402
from traitlets.config.loader import PyFileConfigLoader  # noqa: E402

from attnlib.homework import __main__ as words  # noqa: E402
from attnlib.homework import assignment as assignments  # noqa: E402
from attnlib.homework import classes, gradebook, grading, nbgrader_parts, release, reports, submission  # noqa: E402
from attnlib.homework.collect import collect  # noqa: E402
from attnlib.homework.sandbox import Sandbox  # noqa: E402
from attnlib.homework.source import released, source  # noqa: E402

HEAD = ["student", "question", "points", "comment"]
NOON = "2025-10-31 12:00:00 UTC"
GRADED = ("check-double", "check-total", "check-mean", "why")
BARE = {**os.environ, "PATH": "/usr/bin:/bin", "PYTHONWARNINGS": "ignore"}


@pytest.fixture(autouse=True)
def quick(monkeypatch, request):
    """No disk is waited for; and alembic, which takes seconds to tell a version, is asked in one test."""
    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", _hurry)
    if "alembic" not in request.node.name:
        monkeypatch.setattr(api, "get_alembic_version", lambda: "167914646830")
    yield
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", _hurry)


def _hurry(connection, _):
    connection.execute("PRAGMA synchronous = OFF")


@pytest.fixture
def class_(tmp_path):
    made = classes.make(tmp_path / "class", "Autumn 2025", 7, due={"hw1": "2025-10-31 23:59"}, late_days=2,
                        penalty_percent_a_day=10, students=["ann", "bob", "cem", "dan"])  # fmt: skip
    path = made.path("source", "hw1", "hw1.ipynb")
    classes.write_whole(path, nbformat.writes(source(SMALL, ())).encode())
    return made


def hand_in(class_, student, notebook, *, name="hw1.ipynb", at=NOON):
    """Put a file where nbgrader's exchange puts it."""
    data = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
    folder = class_.path("submitted", student, "hw1")
    classes.write_whole(folder / name, data)
    if at:
        classes.write_whole(folder / "timestamp.txt", at.encode())


def grade(class_):
    """Grade all that was handed in, in this process, and hand it over."""
    found = collect(class_.folder, SMALL)
    for job in grading.jobs_for(found, "hw1", 7, None):
        grading.write_result(class_.path("graded", "hw1"), grading.grade_one(job))
    return gradebook.to_gradebook(class_, SMALL, found)


def change(class_, student, **questions):
    """Write something else into a student's result: by question, what is to be other."""
    path = class_.path("graded", "hw1", f"{student}.json")
    result = grading.read_result(path)
    for told in result["questions"]:
        told |= questions.get(told["id"], {})
    grading.write_result(path.parent, result)


@contextlib.contextmanager
def book_of(class_):
    with gradebook.gradebook_of(class_) as (book, _):
        yield book


def grades(class_, student):
    """By cell: points of the grader, points of a person, whether a person is to look."""
    with book_of(class_) as book:
        (notebook,) = book.find_submission("hw1", student).notebooks
        return {each.cell.name: (each.auto_score, each.manual_score, each.needs_manual_grade)
                for each in notebook.grades}  # fmt: skip


def mark(class_, student, cell, points=None, comment=None, extra=None):
    """What Formgrader does when a person marks."""
    with book_of(class_) as book:
        grade = book.find_grade(cell, "hw1", "hw1", student)
        grade.manual_score, grade.extra_credit = points, extra
        grade.needs_manual_grade = points is None and grade.auto_score is None
        book.find_comment(cell.removeprefix("check-"), "hw1", "hw1", student).manual_comment = comment
        book.db.commit()


def shown(class_, student):
    path = class_.path("nbgrader_autograded", student, "hw1", "hw1.ipynb")
    return nbformat.read(path, as_version=4)


def cells(notebook):
    marked = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    return {cell.metadata["nbgrader"]["grade_id"]: cell for cell in marked}


def plain(cell):
    return cell.cell_type, cell.id, cell.source


def sound(notebook, master):
    """What nbgrader and we demand: each cell of the release is there once, the locked ones as given."""
    nbformat.validate(notebook)
    MetadataValidator().validate_nb(notebook)
    master = cells(master)
    ours = [cell.metadata["nbgrader"]["grade_id"] for cell in notebook.cells if "nbgrader" in cell.metadata]
    assert sorted(ours) == sorted(master)
    for id, cell in cells(notebook).items():
        assert cell.cell_type == master[id].cell_type and cell.metadata == master[id].metadata
        if utils.is_locked(cell):
            assert utils.compute_checksum(cell) == cell.metadata["nbgrader"]["checksum"]


# ----------------------------------------------------------------------------- into the gradebook


def test_results_go_into_the_gradebook(class_, in_process):
    almost = good(SMALL)
    for cell in almost["cells"]:
        id = cell["metadata"]["nbgrader"]["grade_id"]
        cell["source"] = {"double": "def double(x):\n    return x + 1", "why": "*Your answer comes here.*",
                          "check-double": "4.0", "task-mean": "gone"}.get(id, cell["source"])  # fmt: skip
    hand_in(class_, "ann", good(SMALL), name="my homework (final).ipynb")
    hand_in(class_, "bob", almost, at="2025-11-01 10:00:00 UTC")
    hand_in(class_, "cem", b"{broken")
    told = grade(class_)
    assert told[0].startswith("In nbgrader's gradebook are 3 submissions to hw1; for a person in Formgrader "
                              "there are 5 answers to be marked.")
    assert len(told) == 2 and told[1].startswith("cem: Unreadable. The file is a damaged notebook")
    assert grades(class_, "ann") == {
        "check-double": (4, None, False), "check-total": (2, None, False), "check-mean": (2, None, False),
        "why": (None, None, True)}  # fmt: skip
    assert grades(class_, "bob")["check-double"] == (2, None, False)
    assert grades(class_, "bob")["why"] == (0, None, False), "an empty answer needs no reader"
    assert set(grades(class_, "cem").values()) == {(None, None, True)}
    with book_of(class_) as book:
        assert {student.id for student in book.students} == {"ann", "bob", "cem", "dan"}
        assert book.find_assignment("hw1").duedate == datetime(2025, 10, 31, 23, 59)
        bob = book.find_submission("hw1", "bob")
        assert bob.timestamp == datetime(2025, 11, 1, 10)
        assert bob.late_submission_penalty == pytest.approx(0.6)
        assert book.find_submission("hw1", "ann").late_submission_penalty == 0
        assert book.find_comment("why", "hw1", "hw1", "bob").auto_comment == "No response."
    for student in ("ann", "bob", "cem"):
        sound(shown(class_, student), gradebook.master_of(class_, SMALL))
        for id, (auto, _, _) in grades(class_, student).items():
            if id != "why" and auto is not None:      # as nbgrader itself would read the cell
                assert utils.determine_grade(cells(shown(class_, student))[id])[0] == auto
    bobs = cells(shown(class_, "bob"))
    assert bobs["double"].source.endswith("x + 1") and bobs["check-double"].source.startswith("check(")
    assert "You add one." in bobs["check-double"].outputs[0].data["text/html"]
    assert "adds one" in bobs["check-double"].outputs[0].data["text/html"]
    assert "damaged notebook" in shown(class_, "cem").cells[0].source
    assert "not zero" in cells(shown(class_, "cem"))["check-mean"].outputs[0].data["text/html"]


def test_again_changes_nothing_and_marks_by_hand_are_kept(class_, in_process):
    hand_in(class_, "ann", good(SMALL))
    grade(class_)
    path = class_.path("nbgrader_autograded", "ann", "hw1", "hw1.ipynb")
    before, when = path.read_bytes(), path.stat().st_mtime_ns
    mark(class_, "ann", "why", 2, "Nearly.", extra=0.5)
    mark(class_, "ann", "check-mean", 1)
    assert len(grade(class_)) == 1
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, when)
    found = grades(class_, "ann")
    assert found["why"] == (None, 2, False) and found["check-mean"] == (2, 1, False)
    hand_in(class_, "ann", {**good(SMALL), "metadata": {"other": 1}})
    told = grade(class_)
    assert told[1].startswith("ann: What was marked by hand for The mean, Why it is one stands")
    assert grades(class_, "ann")["why"] == (None, 2, True), "the mark stands, and is to be looked at"
    with book_of(class_) as book:
        grade_ = book.find_grade("why", "hw1", "hw1", "ann")
        assert grade_.extra_credit == 0.5
        assert book.find_comment("why", "hw1", "hw1", "ann").manual_comment == "Nearly."


def test_what_is_not_graded_is_left_to_a_person(class_, in_process):
    hand_in(class_, "ann", good(SMALL))
    grade(class_)
    change(class_, "ann", total={"status": "not graded", "points": None, "reason": "The session was ended."})
    gradebook.to_gradebook(class_, SMALL, collect(class_.folder, SMALL))
    assert grades(class_, "ann")["check-total"] == (None, None, True)
    output = cells(shown(class_, "ann"))["check-total"].outputs[0]
    assert "The session was ended." in output.data["text/html"] and output.output_type == "display_data"


def test_a_time_that_was_entered_under_the_name_alone_counts(class_):
    grading.write_result(class_.path("graded", "hw1"), {"student": "Anna-Müller_1234567", "schema": 1})
    class_.path("times-hw1.csv").write_text("student,handed_in\nAnna Müller,2025-11-01\n", encoding="utf-8")
    assert gradebook.late_of(class_, "hw1", "Anna-Müller_1234567").days == 1


def test_who_was_not_reached_is_there(class_, in_process):
    hand_in(class_, "ann", good(SMALL))
    told = gradebook.to_gradebook(class_, SMALL, collect(class_.folder, SMALL))
    assert told[1] == "ann: Not graded. It has not been graded yet."
    assert set(grades(class_, "ann").values()) == {(None, None, True)}


def test_another_file_than_the_graded_one_is_not_shown(class_, in_process):
    hand_in(class_, "ann", good(SMALL))
    grade(class_)
    hand_in(class_, "ann", {**good(SMALL), "metadata": {"other": 1}})
    told = gradebook.to_gradebook(class_, SMALL, collect(class_.folder, SMALL))
    assert told[1].startswith("ann: Another file was handed in since this one was graded")
    assert "NotImplementedError" in cells(shown(class_, "ann"))["double"].source
    assert cells(shown(class_, "ann"))["why"].source == "Because it is."


def test_what_came_in_a_zip_has_its_time_in_formgrader(class_, in_process):
    hand_in(class_, "ann", good(SMALL), at=None)
    elsewhere = class_.path("elsewhere")
    class_.path("submitted").rename(elsewhere)
    for job in grading.jobs_for(collect(elsewhere, SMALL), "hw1", 7, None):
        result = grading.grade_one(job) | {"handed_in": "2025-10-31T13:00:00+01:00"}
        grading.write_result(class_.path("graded", "hw1"), result)
    for _ in range(2):
        gradebook.to_gradebook(class_, SMALL, collect(elsewhere, SMALL))
        stamp = class_.path("submitted", "ann", "hw1", "timestamp.txt").read_text(encoding="utf-8")
        with book_of(class_) as book:
            assert book.find_submission("hw1", "ann").timestamp == utils.parse_utc(stamp.strip())
            assert book.find_submission("hw1", "ann").timestamp == datetime(2025, 10, 31, 12)


def test_other_cells_than_the_gradebook_has_are_refused(class_, in_process):
    hand_in(class_, "ann", good(SMALL))
    grade(class_)
    with book_of(class_) as book:
        book.add_grade_cell("old", "hw1", "hw1", max_score=1, cell_type="code")
    with pytest.raises(gradebook.GradebookError, match=r"\(old\); move gradebook.db away"):
        grade(class_)


def test_a_source_of_another_class_is_refused(class_, in_process):
    path = class_.path("source", "hw1", "hw1.ipynb")
    path.write_text(nbformat.writes(source(assignments.load("hw1", 3), ())), encoding="utf-8")
    with pytest.raises(gradebook.GradebookError, match="not the source of hw1 as this class has it"):
        gradebook.master_of(class_, SMALL)
    path.write_text("{", encoding="utf-8")
    with pytest.raises(gradebook.GradebookError, match="is no notebook"):
        gradebook.master_of(class_, SMALL)


def test_a_gradebook_that_cannot_be_used_is_told(class_):
    class_.path("gradebook.db").write_bytes(b"no database, but long enough to be read as one" * 99)
    with pytest.raises(gradebook.GradebookError, match="cannot be used: file is not a database"):
        gradebook.to_gradebook(class_, SMALL)
    class_.path("nbgrader_config.py").write_text("1 / 0", encoding="utf-8")
    with pytest.raises(gradebook.GradebookError, match="nbgrader_config.py fails: ZeroDivisionError"):
        gradebook.to_gradebook(class_, SMALL)


def test_alembic_is_found_without_a_path(class_, monkeypatch):
    class_.path("nbgrader_config.py").unlink()      # which sees to it too
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(api, "get_alembic_version", lambda: shutil.which("alembic") and "167914646830")
    gradebook.to_gradebook(class_, SMALL)
    assert os.environ["PATH"] == "/usr/bin:/bin"
    assert sqlite3.connect(class_.path("gradebook.db")).execute(
        "SELECT version_num FROM alembic_version").fetchone() == ("167914646830",)


# ---------------------------------------------------------------------- what students do to notebooks


def test_mutated_copies_are_shown(class_):
    """Copied, split, moved, deleted cells, other formats: nbgrader takes each, the graded copy counts."""
    asked = [(question.id, question.name, cell.source) for question in QUESTIONS if question.kind != "written"
             for cell in released(source(SMALL, ())).cells
             if cell.metadata["nbgrader"]["grade_id"] == question.id]  # fmt: skip
    master, blank = gradebook.master_of(class_, SMALL), gradebook._not_yet("ann")
    made = mutations(good(SMALL), asked)
    assert len(made) >= 50
    for name, (data, whole) in made.items():
        read = submission.read(data)
        if isinstance(read, submission.Unreadable):
            continue
        plan = submission.plan(SMALL, read)
        notebook = gradebook.shown(master, SMALL, blank, read.cells, plan)
        sound(notebook, master)
        for id in whole:
            text = cells(notebook)[id].source
            assert "NotImplementedError" not in text and text != "total = ...", f"{name}: {id}"
        if name == "one_cell":
            assert cells(notebook)["mean"].source.startswith("# This answer stands in another cell: cell ")


def test_thirty_megabytes_and_warnings_cost_nothing(class_, in_process):
    notebook = good(SMALL)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = [{"output_type": "stream", "name": "stderr", "text": "Warning\n" * 400_000}]
    notebook["cells"].append(code("# long\n" * 300_000))
    hand_in(class_, "ann", notebook)
    grade(class_)
    assert grades(class_, "ann")["check-double"] == (4, None, False)
    path = class_.path("nbgrader_autograded", "ann", "hw1", "hw1.ipynb")
    assert path.stat().st_size < 300_000 and b"Warning" not in path.read_bytes()


def test_nothing_of_a_student_runs_in_the_readers_browser(class_, in_process):
    notebook, bad = good(SMALL), "<script>alert(1)</script><img src=x onerror=alert(2)>"
    blank = {"metadata": {}, "source": bad}
    for cell in notebook["cells"]:
        if cell["metadata"]["nbgrader"]["grade_id"] == "why":
            cell["source"] = bad
    notebook["cells"] += [{"cell_type": "markdown", **blank}, {"cell_type": "raw", **blank}]
    hand_in(class_, "ann", notebook)
    grade(class_)
    change(class_, "ann", double={"verdict": bad, "notes": [bad]})
    gradebook.to_gradebook(class_, SMALL, collect(class_.folder, SMALL))
    text = nbformat.writes(shown(class_, "ann"))
    assert text.count("alert(1)") == 5 and "<script" not in text and "<img" not in text


# ------------------------------------------------------------------------------ out of the gradebook


def table(path):
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"))))


def test_marks_by_hand_come_back(class_, in_process):
    for student in ("ann", "bob", "cem"):
        hand_in(class_, student, good(SMALL) if student != "cem" else b"{")
    grade(class_)
    reports.write_reports(class_, SMALL)
    change(class_, "bob", total={"status": "not graded", "points": None, "reason": "It was late."})
    gradebook.to_gradebook(class_, SMALL, collect(class_.folder, SMALL))
    mark(class_, "ann", "why", 2.5, "=Well\nsaid")
    mark(class_, "ann", "check-double", 1)
    mark(class_, "bob", "check-total", 1)
    for cell, points in zip(GRADED, (4, 0, 1, 3), strict=True):
        mark(class_, "cem", cell, points)
    told = gradebook.from_gradebook(class_, SMALL)
    path = class_.path("written-hw1-nbgrader.csv")
    assert told[0] == "In written-hw1-nbgrader.csv are 6 marks by hand."
    assert told[1:] == ["ann: Formgrader has 1 points for double, the grader gave 4; not taken over, for "
                        "this question was graded."]
    assert table(path)[:3] == [
        HEAD, ["ann", "why", "2.5", "'=Well said"], ["bob", "total", "1", ""]]
    marks, complaints = reports.read_written(class_, SMALL)
    assert not complaints and marks["ann", "why"] == (2.5, "=Well said")
    rows = {row.student: row for row in reports.grades(
        class_, SMALL, reports.results(class_.path("graded", "hw1")), marks)}  # fmt: skip
    assert (rows["ann"].score, rows["ann"].status) == (10.5, "graded")
    assert (rows["bob"].score, rows["bob"].status) == (7, "needs reading")
    assert (rows["cem"].score, rows["cem"].status) == (8, "graded")
    reports.write_reports(class_, SMALL)
    assert "marked by a person" in class_.path("feedback", "hw1", "cem.html").read_text(encoding="utf-8")


def test_nothing_is_overwritten_in_silence(class_, in_process):
    hand_in(class_, "ann", good(SMALL))
    grade(class_)
    mark(class_, "ann", "why", 2)
    gradebook.from_gradebook(class_, SMALL)
    mark(class_, "ann", "why", 1)
    assert gradebook.from_gradebook(class_, SMALL)[1:] == [
        "written-hw1-nbgrader.csv: ann had 2 points for why and has 1 now."]
    own = class_.path("written-hw1.csv")
    own.write_text("student;question;points;comment\nann;why;2,5;Mine\n", encoding="utf-8")
    _, told = gradebook.from_gradebook(class_, SMALL)
    assert own.read_text(encoding="utf-8").endswith("2,5;Mine\n"), "a table that people fill in is only read"
    assert told.startswith("written-hw1.csv has 2.5 points for why of ann, Formgrader has 1; written-hw1.csv")
    marks, complaints = reports.read_written(class_, SMALL)
    assert marks["ann", "why"] == (2.5, "Mine") and len(complaints) == 1
    mark(class_, "ann", "why")
    assert "has none now" in gradebook.from_gradebook(class_, SMALL)[1]
    assert table(class_.path("written-hw1-nbgrader.csv")) == [HEAD]


def test_without_a_gradebook_the_word_that_fills_it(class_):
    with pytest.raises(gradebook.GradebookError, match="homework to-nbgrader hw1"):
        gradebook.from_gradebook(class_, SMALL)


def test_the_words(class_, in_process, monkeypatch, capsys):
    monkeypatch.setattr(assignments, "load", lambda id, seed: SMALL)
    hand_in(class_, "ann", good(SMALL))
    grade(class_)
    assert words.main(["to-nbgrader", "hw1", "--class", str(class_.folder)]) == 0
    mark(class_, "ann", "why", 3)
    assert words.main(["from-nbgrader", "hw1", "--class", str(class_.folder)]) == 0
    said = capsys.readouterr().out
    assert "In nbgrader's gradebook is 1 submission to hw1" in said and "is 1 mark by hand." in said
    with open(class_.path("grades-hw1.csv"), encoding="utf-8-sig") as file:
        assert [row["score"] for row in csv.DictReader(file) if row["student"] == "ann"] == ["11"]
    monkeypatch.setitem(sys.modules, "attnlib.homework.gradebook", None)
    monkeypatch.delattr("attnlib.homework.gradebook", raising=False)
    assert words.main(["to-nbgrader", "hw1", "--class", str(class_.folder)]) == 1
    assert "pip install 'attnlib[nbgrader]'" in capsys.readouterr().err


# ------------------------------------------------------------------------------ nbgrader's own tools


def converter(kind, class_, id="hw1", **settings):
    """One of nbgrader's converters with the class's nbgrader_config.py."""
    config = PyFileConfigLoader("nbgrader_config.py", path=str(class_.folder)).load_config()
    course = CourseDirectory(config=config, assignment_id=id)
    return kind(coursedir=course, config=config, **settings)


def command(kind, class_, *words):
    """One of nbgrader's commands in the class's folder, as the command line runs it."""
    with contextlib.chdir(class_.folder):
        app = kind()
        app.initialize(list(words))
        app.start()


def test_its_autograder_is_refused_before_it_touches_anything(class_, in_process, capfd):
    hand_in(class_, "ann", good(SMALL))
    grade(class_)
    mark(class_, "ann", "why", 2)
    path = class_.path("nbgrader_autograded", "ann", "hw1", "hw1.ipynb")
    before, marks = path.read_bytes(), grades(class_, "ann")
    with pytest.raises(SystemExit) as status:
        command(AutogradeApp, class_, "hw1", "--force")
    assert status.value.code == 1
    said = capfd.readouterr().err
    assert "runs students' code on this machine without a sandbox" in said
    assert "homework grade hw1" in said and "homework to-nbgrader hw1" in said and "Traceback" not in said
    assert path.read_bytes() == before and grades(class_, "ann") == marks


def test_a_first_command_makes_the_gradebook_for_it_finds_alembic(class_, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")     # as without an activated environment
    command(ExportApp, class_)
    assert class_.path("gradebook.db").stat().st_size and class_.path("grades.csv").is_file()


def test_its_export_has_no_zero_that_nobody_gave(class_, in_process):
    for student, data in (("ann", good(SMALL)), ("bob", good(SMALL)), ("cem", b"{")):
        hand_in(class_, student, data, at="2025-11-01 10:00:00 UTC")
    grade(class_)
    mark(class_, "bob", "why", 2)
    with book_of(class_) as book:
        book.remove_student("dan")      # of whom nbgrader then knows nothing
    command(ExportApp, class_, "--to", "out.csv")
    with open(class_.path("out.csv"), encoding="utf-8-sig") as file:
        rows = {row["student_id"]: row for row in csv.DictReader(file)}
    got = {id: tuple(row[name] for name in ("status", "raw_score", "late_submission_penalty", "score"))
           for id, row in rows.items()}  # fmt: skip
    assert got == {
        "ann": ("needs reading", "8", "0.8", "7.2"), "bob": ("graded", "10", "1", "9"),
        "cem": ("not graded", "", "", ""), "dan": ("not handed in", "", "", "")}  # fmt: skip


def test_its_feedback_shows_no_hidden_number_and_no_zero_that_nobody_gave(class_, in_process):
    hand_in(class_, "ann", good(SMALL))
    hand_in(class_, "cem", b"{")
    grade(class_)
    hidden = "Expected [0.1234, 5.6789, 2.4680, 1.3579]."
    change(class_, "ann", double={"points": 0, "verdict": hidden})
    gradebook.to_gradebook(class_, SMALL, collect(class_.folder, SMALL))
    mark(class_, "ann", "why", 2, "A **good** try.")
    converter(GenerateFeedback, class_).start()
    pages = {student: class_.path("nbgrader_feedback", student, "hw1", "hw1.html").read_text(encoding="utf-8")
             for student in ("ann", "cem")}  # fmt: skip
    scores = {student: re.findall(r"Score: ([\d.]+) / ([\d.]+)", page) for student, page in pages.items()}
    assert scores["ann"][0] == ("6.0", "11.0") and ("0.0", "4.0") in scores["ann"]
    assert "Not graded" not in pages["ann"]
    assert scores["cem"] == [("0.0", "0.0")] and "Not graded yet" in pages["cem"]
    assert "<strong>good</strong>" in pages["ann"] and "Expected [...]" in pages["ann"]
    assert "5.6789" not in pages["ann"]


def test_it_releases_only_what_is_proved(class_, monkeypatch):
    monkeypatch.setattr(nbgrader_parts, "Sandbox", lambda forbidden: Sandbox(forbidden, True))
    prove = release.faults
    monkeypatch.setattr(release, "faults", lambda *_: [])       # that it is right is tested elsewhere
    path = class_.path("source", "hw1", "hw1.ipynb")
    path.unlink()
    release.write_source(class_, "hw1")
    converter(GenerateAssignment, class_).start()
    made = nbformat.read(class_.path("release", "hw1", "hw1.ipynb"), as_version=4)
    ours = released(nbformat.read(path, as_version=4))
    assert [plain(cell) for cell in made.cells] == [plain(cell) for cell in ours.cells]
    assignment = assignments.load("hw1", 7)
    master = gradebook.master_of(class_, assignment)
    assert [cell.metadata["nbgrader"] for cell in made.cells] == [
        cell.metadata["nbgrader"] for cell in master.cells]
    gradebook.to_gradebook(class_, assignment)      # into the gradebook that nbgrader has begun

    monkeypatch.setattr(release, "faults", prove)
    text = path.read_text(encoding="utf-8")
    broken = text.replace("copies = ", "copies = 1 + ", 2)
    assert broken != text
    path.write_text(broken, encoding="utf-8")
    before = class_.path("release", "hw1", "hw1.ipynb").read_bytes()
    with pytest.raises(NbGraderException, match="The solution of copies earns 0 of 2"):
        converter(GenerateAssignment, class_, force=True).start()
    assert class_.path("release", "hw1", "hw1.ipynb").read_bytes() == before


@pytest.mark.parametrize("id", assignments.ASSIGNMENTS)
def test_it_validates_our_sources_and_releases(id, tmp_path):
    assignment = assignments.load(id, 7)
    notebook, validator = source(assignment, ()), Validator()
    nbformat.write(notebook, tmp_path / "source.ipynb")
    nbformat.write(released(notebook), tmp_path / "release.ipynb")
    assert validator.validate(str(tmp_path / "source.ipynb")) == {}
    if id != "hw1":
        return      # each takes a kernel, and what is not answered is alike in all
    found = validator.validate(str(tmp_path / "release.ipynb"))
    judged = [question for question in assignment.questions if question.kind != "written"]
    assert set(found) == {"failed"} and len(found["failed"]) == len(judged)
    assert {each["raw_error"] for each in found["failed"]} == {
        "Partial credit; passed some but not all of the tests"}


# ----------------------------------------------------------------------------------------- Formgrader


@contextlib.contextmanager
def formgrader(class_):
    """A server with Formgrader on a free port; gives a function that asks it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = class_.folder.parent / "jupyter"
    places = {f"JUPYTER_{name}_DIR": str(own / name.lower()) for name in ("CONFIG", "RUNTIME", "DATA")}
    command = [
        sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ip=127.0.0.1",
        f"--port={port}", "--port-retries=0", "--IdentityProvider.token=secret",
        f"--ServerApp.root_dir={class_.folder}",
        '--ServerApp.jpserver_extensions={"nbgrader.server_extensions.formgrader": True}',
    ]  # fmt: skip
    log = class_.folder.parent / "server.log"

    def ask(path, method="GET", **data):
        line = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        headers = {"Authorization": "token secret", "Content-Type": "application/json"}
        line.request(method, path, json.dumps(data) if data else None, headers)
        answer = line.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, f"{path}: {answer.status} {text[:500]}"
        return json.loads(text) if "/api/" in path else text

    with open(log, "w", encoding="utf-8") as out:
        server = subprocess.Popen(command, cwd=class_.folder, env=BARE | places, stdout=out, stderr=out)
    try:
        for _ in range(400):
            with contextlib.suppress(OSError):
                ask("/formgrader/api/status")
                break
            assert server.poll() is None, log.read_text(encoding="utf-8")
            time.sleep(0.2)
        yield ask
    finally:
        server.terminate()
        server.wait(30)


def test_formgrader_opens_shows_and_marks(class_, in_process):
    hand_in(class_, "ann", good(SMALL))
    hand_in(class_, "cem", b"{")
    grade(class_)
    with formgrader(class_) as ask:
        (assignment,) = ask("/formgrader/api/assignments")
        assert (assignment["name"], assignment["num_submissions"], assignment["max_score"]) == ("hw1", 2, 11)
        records = {each["student"]: each for each in ask("/formgrader/api/submissions/hw1")}
        assert records["ann"]["autograded"] and records["ann"]["score"] == 8 and records["cem"]["autograded"]
        for page in ("manage_assignments/", "manage_submissions/hw1/", "gradebook/hw1/hw1/"):
            assert "nbgrader" in ask(f"/formgrader/{page}")
        shown = {each["student"]: each for each in ask("/formgrader/api/submitted_notebooks/hw1/hw1")}
        assert shown["ann"]["needs_manual_grade"] and shown["cem"]["needs_manual_grade"]
        page = ask(f"/formgrader/submissions/{shown['ann']['id']}/")
        for text in ("Say in two sentences why a mean is one.", "Because it is.", "4 of 4 points", "Doubled.",
                     'id="why-comment"', 'class="score tabbable" id="why"'):  # fmt: skip
            assert text in page, text
        assert "The file breaks off in the middle" in ask(f"/formgrader/submissions/{shown['cem']['id']}/")
        query = f"submission_id={shown['ann']['id']}"
        ids = {what: {each["name"]: each["id"] for each in ask(f"/formgrader/api/{what}?{query}")}["why"]
               for what in ("grades", "comments")}  # fmt: skip
        ask(f"/formgrader/api/grade/{ids['grades']}", "PUT", manual_score=2)
        ask(f"/formgrader/api/comment/{ids['comments']}", "PUT", manual_comment="Short.")
        refused = ask("/formgrader/api/submission/hw1/ann/autograde", "POST")
        assert not refused["success"] and "without a sandbox" in refused["log"]
    grade(class_)
    gradebook.from_gradebook(class_, SMALL)
    assert table(class_.path("written-hw1-nbgrader.csv"))[1] == ["ann", "why", "2", "Short."]

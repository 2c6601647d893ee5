"""Feedback, grades, statistics: what is known is said, what is not is empty, and no code runs in a page."""

import csv
import io
import json
import re
import subprocess

import pytest
from chromium import find_browser
from small_assignment import SMALL

from attnlib.homework import reports
from attnlib.homework.classes import make
from attnlib.homework.grading import write_result
from attnlib.homework.reports import grades, results, without_arrays, write_reports


def question(id, status="graded", points=0, **more):
    asked = SMALL.question(id)
    return {
        "id": id, "title": asked.title, "kind": asked.kind, "status": status, "points": points,
        "out_of": asked.points, "passed": points == asked.points, "verdict": "Words.", "misconception": None,
        "reason": "", "seed": 1, "notes": [], "forbidden": [], "answer": None,
    } | more  # fmt: skip


def result(student, *questions, status="graded", **more):
    return {
        "schema": 1, "assignment": "hw1", "student": student, "status": status, "reason": "", "again": False,
        "points": sum(q["points"] or 0 for q in questions), "out_of": 11,
        "handed_in": None, "marked_late": False,
        "questions": list(questions), "notes": [], "troubles": [], "unsafe": False,
        "file": {"place": f"{student}.ipynb", "sha256": "ab" * 32, "bytes": 1},
        "class_seed": 7, "variant": "00",
        "code": "c", "run": {"seconds": 1.0, "versions": {}, "by_question": {}},
    } | more  # fmt: skip


def full(student="ann", **more):
    return result(
        student,
        question("double", points=4),
        question("total", points=2),
        question("mean", points=2),
        question("why", "needs reading", None, answer="Because."),
        status="needs reading",
        **more,
    )


def lost(student="cem", status="unreadable"):
    return result(student, status=status, points=None, reason="The file is empty.")


@pytest.fixture(autouse=True)
def few_pictures(monkeypatch, request):
    """They take most of the time; tests that look at them ask for them."""
    if "pictures" not in request.fixturenames:
        monkeypatch.setattr(reports, "figures", lambda *_: {})


@pytest.fixture
def pictures():
    pass


@pytest.fixture
def class_(tmp_path):
    return make(tmp_path / "class", "Autumn", 7, due={"hw1": "2025-10-31 23:59"}, late_days=2)


def written(class_, *found):
    for each in found:
        write_result(class_.path("graded", "hw1"), each)
    return write_reports(class_, SMALL)


def table(class_):
    data = class_.path("grades-hw1.csv").read_bytes()
    assert data.startswith(b"\xef\xbb\xbf") and b"\r" not in data
    return {row["student"]: row for row in csv.DictReader(io.StringIO(data.decode("utf-8-sig")))}


def page(class_, student="ann"):
    return class_.path("feedback", "hw1", f"{student}.html").read_text(encoding="utf-8")


# ----------------------------------------------------------------------------------------- grades


def test_grades(class_):
    written(
        class_,
        full(),
        result(
            "bob",
            question("double", points=2, misconception="adds_one"),
            question("total"),
            question("mean", "not answered"),
            question("why", points=0),
        ),
    )
    found = table(class_)
    assert list(found["ann"]) == [
        "student",
        "status",
        "score",
        "out_of",
        "late_days",
        "final",
        "double",
        "total",
        "mean",
        "why",
        "remarks",
    ]
    assert (
        found["ann"]["score"] == "8"
        and found["ann"]["why"] == ""
        and found["ann"]["status"] == "needs reading"
    )
    assert found["ann"]["final"] == "", "an answer waits for a person"
    assert found["bob"]["score"] == found["bob"]["final"] == "2" and found["bob"]["mean"] == "0"


@pytest.mark.parametrize("status", ["unreadable", "not graded", "another assignment"])
def test_not_graded_is_empty_and_never_zero(class_, status):
    part = result(
        "dora",
        question("double", points=4),
        question("total", "not graded", None),
        status="not graded",
        reason="Not graded: The sum.",
    )
    written(class_, lost("cem", status), part)
    class_.path("graded", "hw1", "eli.json").write_text("{ broken", encoding="utf-8")
    write_reports(class_, SMALL)
    found = table(class_)
    for student in ("cem", "dora", "eli"):
        assert found[student]["score"] == found[student]["final"] == "" and found[student]["remarks"]
    assert found["dora"]["double"] == "4" and found["dora"]["total"] == ""
    assert (
        "No" not in found["cem"]["final"] and "zero" in page(class_, "cem") and "zero" in page(class_, "eli")
    )


def test_lateness_is_taken_off_and_said(class_):
    questions = question("double", points=4), question("total", points=2), question("mean", points=2)
    written(
        class_,
        result("ann", *questions, handed_in="2025-10-31T23:59:00+00:00"),
        result("bob", *questions, handed_in="2025-11-01T10:00:00"),
        result("cem", *questions, handed_in="2025-11-09T10:00:00+00:00"),
        result("dora", *questions, marked_late=True),
    )
    found = table(class_)
    assert [found[s]["final"] for s in ("ann", "bob", "cem", "dora")] == ["8", "7.2", "0", "8"]
    assert [found[s]["late_days"] for s in ("ann", "bob", "cem", "dora")] == ["0", "1", "9", ""]
    assert "too late" in found["cem"]["remarks"] and "too late" in page(class_, "cem")
    assert "times-hw1.csv" in found["dora"]["remarks"]
    assert "7.2" in page(class_, "bob") and "8 points before the deduction" in page(class_, "bob")
    class_.path("times-hw1.csv").write_text("student,handed_in\ndora,2025-11-01 00:10\n", encoding="utf-8")
    write_reports(class_, SMALL)
    assert table(class_)["dora"]["final"] == "7.2"


def test_the_classs_list(tmp_path):
    class_ = make(tmp_path, "A", 1, students=["ann", "zoe"])
    written(class_, full("ann"), full("bob"))
    found = table(class_)
    assert found["zoe"]["status"] == "not handed in" and found["zoe"]["score"] == ""
    assert "Not on the class's list" in found["bob"]["remarks"] and found["ann"]["remarks"] == ""


def test_the_classs_list_and_a_platforms_names(tmp_path):
    listed = ["Anna Müller", "7654321", "bob", "Cem Ak", "Dora"]
    class_ = make(tmp_path, "A", 1, students=listed)
    students = ["Anna-Müller_1234567", "Zoe_7654321", "bob", "Cem-Ak_1234", "Cem-Ak_1235", "Dora_2"]
    told = written(class_, *map(full, students))
    found = table(class_)
    assert set(found) == {*students, "Cem Ak", "Dora"}
    assert [name for name in students if found[name]["remarks"]] == students[3:]
    assert "2 listed names match nobody; 3 submissions are of nobody listed." in told


def test_names_that_nobody_has_are_named(class_):
    written(class_, full("Anna-Müller_1234567"))
    class_.path("times-hw1.csv").write_text(
        "student,handed_in\nAnna Müller,2025-11-01 00:10\nBob,2025-11-01 00:10\n", encoding="utf-8")
    class_.path("written-hw1-2.csv").write_text(
        "student,question,points,comment\nCem,why,2,\nDora,why,,\n", encoding="utf-8")
    told = write_reports(class_, SMALL)
    assert "times-hw1.csv names Bob: nobody is called that." in told
    assert "written-hw1.csv names Cem: nobody is called that." in told
    assert table(class_)["Anna-Müller_1234567"]["late_days"] == "1"


def test_no_spreadsheet_computes_anything(class_):
    evil = "=cmd|' /C calc'!A0"
    written(class_, lost("cem") | {"reason": evil}, full("ann") | {"student": evil[:4] + "x"})
    text = class_.path("grades-hw1.csv").read_text(encoding="utf-8-sig")
    for row in csv.reader(io.StringIO(text)):
        assert not any(entry[:1] in tuple("=+-@\t\r") for entry in row), row
    assert table(class_)["cem"]["remarks"] == "'" + evil


def test_negative_and_large_numbers_stay_numbers():
    assert reports.number(7.0) == "7" and reports.number(7.123) == "7.12" and reports.number(None) == ""
    assert reports.number(0) == "0"


# -------------------------------------------------------------------------------- written answers


def test_the_page_of_written_answers_has_what_earns_each_point(class_):
    written(class_, full("ann"))
    assert SMALL.question("why").solution in class_.path("written-hw1.html").read_text(encoding="utf-8")


def test_written_answers_are_merged_and_never_overwritten(class_):
    told = written(class_, full("ann"), full("bob"))
    assert "New in written-hw1.csv: 2 written answers" in told[0] and "Open: 2 written answers," in told[1]
    path = class_.path("written-hw1.csv")
    assert path.read_text(encoding="utf-8-sig").splitlines() == [
        "student,question,points,comment",
        "ann,why,,",
        "bob,why,,",
    ]
    # As a German Excel saves it.
    path.write_bytes(
        "student;question;points;comment\r\nann;why;2,5;Schön.\r\nbob;why;;\r\n".encode("cp1252")
    )
    before = path.read_bytes()
    assert "Open: 1 written answer," in write_reports(class_, SMALL)[0]
    assert path.read_bytes() == before
    found = table(class_)
    assert (
        found["ann"]["score"] == "10.5"
        and found["ann"]["status"] == "graded"
        and found["ann"]["why"] == "2.5"
    )
    assert found["bob"]["score"] == "8" and found["bob"]["status"] == "needs reading"
    assert "Schön." in page(class_) and "Waits to be read" in page(class_, "bob")
    # Who comes later gets a table of his own.
    told = written(class_, full("cem"))
    assert path.read_bytes() == before and "written-hw1-2.csv" in told[0]
    assert "cem,why,," in class_.path("written-hw1-2.csv").read_text(encoding="utf-8-sig")
    text = class_.path("written-hw1.html").read_text(encoding="utf-8")
    assert text.count("Because.") == 3 and "One point a reason." in text


@pytest.mark.parametrize(("line", "said"), [
    ("ann,why,lots,", "are no points"), ("ann,why,3.5,", "not between 0 and 3"),
    ("ann,why,-1,", "not between"),
    ("ann,wy,1,", "no question 'wy'"), ("ann,why,nan,", "not between"),
    ("ann,why,1,\nann,why,2,", "the first count"),
])  # fmt: skip
def test_marks_that_cannot_be_taken_are_told(class_, line, said):
    written(class_, full("ann"))
    class_.path("written-hw1.csv").write_text(f"student,question,points,comment\n{line}\n", encoding="utf-8")
    told = write_reports(class_, SMALL)
    assert any(said in each and "row" in each for each in told)
    assert table(class_)["ann"]["score"] == ("9" if "first" in said else "8")


# --------------------------------------------------------------------------------------- feedback


def test_feedback_says_what_there_is(class_):
    written(
        class_,
        result(
            "ann",
            question("double", points=2, misconception="adds_one", verdict="You add `one`."),
            question("total", verdict="Cell 8 (total) raised ZeroDivisionError."),
            question(
                "mean",
                "not answered",
                reason="Cell 9 (mean) was turned into a text cell.",
                notes=["Cell 9 (mean) was turned into a text cell."],
            ),
            question("why", "not answered", reason="Nothing was written."),
            notes=["The given cell given-total is missing; it was run all the same."],
            troubles=[{"label": "cell 3", "kind": "late", "told": "Cell 3 did not end within 30 seconds."}],
        ),
    )
    text = page(class_)
    for told in (
        "You add <code>one</code>.",
        "adds one",
        "earns a part",
        "2 of 4",
        "turned into a text cell",
        "Cell 3 did not end",
        "given-total is missing",
        class_.regrade.split(";")[0],
        "abababababab",
    ):
        assert told in text, told
    assert text.count("turned into a text cell") == 1


def test_nothing_of_a_student_runs_in_a_page(class_):
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>`</code><b>`"
    written(
        class_,
        result(
            "ann",
            question("double", verdict=evil, misconception=evil, notes=[evil]),
            question("why", "needs reading", None, answer=evil),
            notes=[evil],
            reason=evil,
            troubles=[{"label": evil, "kind": "error", "told": evil}],
            status="needs reading",
            file={"place": evil, "sha256": "0" * 64, "bytes": 1},
        ),
        lost("bob") | {"reason": evil},
    )
    pages = [page(class_), page(class_, "bob")]
    pages += [path.read_text(encoding="utf-8") for path in class_.folder.glob("*.html")]
    assert len(pages) == 4 and pages[0].count("alert(1)") >= 7
    for text in pages:
        assert "<script" not in text and "<img src=x" not in text
        assert "http:" not in text and "https:" not in text and 'src="/' not in text  # self-contained


def test_hidden_inputs_are_not_shown(class_):
    leak = "raised ValueError: [[0.13 -2.5e-3]\n [1.77 4.0]] and array([0.5, 1.25, 3., nan]) of shape (2, 2)"
    assert without_arrays(leak) == "raised ValueError: [...] and array([...]) of shape (2, 2)"
    assert without_arrays("expected [1, 2, 3], got [0.5]") == "expected [1, 2, 3], got [0.5]"
    assert without_arrays("1.5 2.5 3.5 4.5 5.5 6.5 7.5 8.5 9.5 end") == "[...] end"
    assert without_arrays("the weights are 0.667, 0.222, 0.111") == "the weights are 0.667, 0.222, 0.111"
    written(class_, result("ann", question("double", verdict=leak, seed=987654321)))
    text = page(class_)
    assert "0.13" not in text and "1.77" not in text and "987654321" not in text and "nan" not in text


@pytest.mark.parametrize(
    "text", ["[" * 50_000, "1" * 50_000, "1 " * 50_000, "[1" * 20_000, "[1,1,1," * 9000 + "x"]
)
def test_hostile_words_are_read_in_time(text):
    assert len(without_arrays(text)) < 3100


def test_unsafe_is_said_everywhere(class_):
    written(class_, full(unsafe=True))
    statistics = class_.path("statistics-hw1.html").read_text(encoding="utf-8")
    assert all(reports.UNSAFE in text for text in (page(class_), statistics, table(class_)["ann"]["remarks"]))


def test_another_classs_notebook_is_to_be_looked_at(class_):
    written(class_, full(other_variant="The notebook has variant 17."))
    assert table(class_)["ann"]["remarks"] == "The notebook has variant 17."


def test_a_forbidden_name_is_to_be_looked_at(class_):
    written(class_, result("ann", question("double", points=4, forbidden=["multiply"])))
    assert "double names multiply" in table(class_)["ann"]["remarks"]
    assert "double names multiply" in class_.path("statistics-hw1.html").read_text(encoding="utf-8")


# ------------------------------------------------------------------------------------- statistics


def many(count=40):
    for i in range(count):
        slip = ("adds_one", "adds_one and off", None, "multiplied_by_the_square_root_of_the_width")[i % 4]
        yield result(
            f"s{i:02}",
            question("double", points=(4, 2, 0, 2)[i % 4], misconception=slip if i % 5 else None),
            question("total", points=i % 3, misconception="off" if i % 3 == 1 else None),
            question("mean", *(("not answered", 0) if i % 7 == 0 else ("graded", 2))),
            question("why", "graded", i % 4),
            handed_in="2025-11-01T10:00:00+00:00" if i % 9 == 0 else None,
        )
    yield lost("zed")


def test_statistics_count_what_there_is(class_, pictures):
    written(class_, *many())
    rows = grades(class_, SMALL, results(class_.path("graded", "hw1")), {})
    counts = reports.counted(SMALL, rows)
    mistakes = dict(counts["double"]["mistakes"])
    named = [told["misconception"] for row in rows for told in row.questions if told["id"] == "double"]
    assert mistakes["adds_one"] == sum("adds_one" in (name or "") for name in named)
    assert counts["mean"]["outcomes"] == {"not answered": 6, "all points": 34}
    text = class_.path("statistics-hw1.html").read_text(encoding="utf-8")
    assert "adds one" in text and "Unreadable: 1." in text and "Late: 5." in text and text.count("<img") == 3
    assert re.search(r"alt=\"Histogram of the points of 40 students", text)
    for name in ("scores", "questions", "mistakes"):
        assert class_.path(f"statistics-hw1-{name}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in class_.path(f"statistics-hw1-{name}.svg").read_bytes()


def test_one_is_no_plural(class_, pictures):
    questions = question("double", points=1), question("why", "needs reading", None, out_of=1)
    written(class_, result("ann", *questions, status="needs reading", handed_in="2025-11-01T10:00:00+00:00"))
    statistics = class_.path("statistics-hw1.html").read_text(encoding="utf-8")
    assert "1 more point waits" in page(class_) and "1 point before the deduction" in page(class_)
    written_page = class_.path("written-hw1.html").read_text(encoding="utf-8")
    assert "(3 points, " in written_page
    assert "<small>student</small>" in statistics and "Histogram of the points of 1 student:" in statistics


def test_the_same_results_give_the_same_files(class_, pictures):
    written(class_, *many(8))
    before = {path: path.read_bytes() for path in class_.folder.rglob("*") if path.is_file()}
    write_reports(class_, SMALL)
    assert before == {path: path.read_bytes() for path in class_.folder.rglob("*") if path.is_file()}


def test_a_class_without_scores(class_, pictures):
    assert written(class_, lost())
    assert class_.path("statistics-hw1.html").is_file()


def test_nothing_graded_is_told(class_):
    before = sorted(class_.folder.rglob("*"))
    assert write_reports(class_, SMALL) == ["Nothing of hw1 has been graded yet, and no report was written."]
    assert sorted(class_.folder.rglob("*")) == before


@pytest.mark.browser
@pytest.mark.parametrize("width", [360, 900])
def test_pages_fit_their_window(class_, pictures, tmp_path, width):
    """No page is wider than a telephone."""
    long = "x" * 300
    written(class_, *many(4), full("ann") | {"notes": [f"`{long}`"], "file": {"place": long, "sha256": None}})
    browser = find_browser()
    for path in (class_.path("feedback", "hw1", "ann.html"), class_.path("statistics-hw1.html")):
        probe = tmp_path / "probe.html"
        frame = (
            f'<iframe src="{path.as_uri()}" style="width: {width}px; height: 900px; border: 0"></iframe>'
            "<script>onload = () => document.title = document.querySelector('iframe')"
            ".contentDocument.documentElement.scrollWidth</script>"
        )
        probe.write_text(frame, encoding="utf-8")
        words = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            probe.as_uri(),
        ]
        dom = subprocess.run(words, capture_output=True, text=True, timeout=120).stdout
        found = re.search(r"<title>(\d+)</title>", dom)
        assert found, dom[:500]
        assert int(found[1]) <= width, path.name


def test_results_say_it_themselves_when_they_cannot_be_read(tmp_path):
    (tmp_path / "ann.json").write_text(json.dumps({"schema": 99}), encoding="utf-8")
    (only,) = results(tmp_path)
    assert only["student"] == "ann" and "grade it again" in only["reason"]

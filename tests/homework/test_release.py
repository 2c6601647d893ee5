"""What keeps a source from being released, and what a release prints."""

import pytest
from small_assignment import SMALL

from attnlib.homework import classes, release
from attnlib.homework.source import source


@pytest.fixture
def class_(tmp_path, monkeypatch):
    monkeypatch.setattr(release.assignments, "load", lambda id, seed: SMALL)
    monkeypatch.setattr(release, "hidden_numbers", lambda *_: set())
    monkeypatch.setattr(release, "graded", lambda *_: {"status": "graded", "questions": [], "troubles": []})
    return classes.make(tmp_path / "class", "Autumn", 7, due={"hw1": "2026-12-01 12:00"})


def cell(notebook, id):
    return next(each for each in notebook.cells if each.metadata["nbgrader"]["grade_id"] == id)


def changed(class_, **settings):
    """The class after somebody has changed its class.json."""
    folder = class_.folder
    (folder / "class.json").unlink()
    return classes.make(folder, class_.name, class_.seed, **settings)


def title_of(folder):
    return cell(release.nbformat.read(folder / "hw1.ipynb", as_version=4), "title").source


@pytest.mark.parametrize("settings", [
    {"due": {"hw1": "2026-12-08"}}, {"due": {"hw1": "2026-12-01 12:00"}, "late_days": 0}, {"due": {}},
    {"due": {"hw1": "2026-12-01 12:00"}, "late_days": 1, "regrade": "Come to my office."},
])  # fmt: skip
def test_a_release_prints_todays_rules(class_, settings):
    release.write_source(class_, "hw1")
    before, old = title_of(release.release(class_, "hw1", None)[0]), " ".join(class_.rules("hw1"))
    class_ = changed(class_, **settings)
    after, new = title_of(release.release(class_, "hw1", None)[0]), " ".join(class_.rules("hw1"))
    assert new != old and before.endswith(old) and after == before.removesuffix(old) + new


def test_rules_that_were_written_into_are_not_replaced(class_):
    path, _ = release.write_source(class_, "hw1")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(classes.REGRADE, f"{classes.REGRADE} Bring cake."), encoding="utf-8")
    assert release.release(class_, "hw1", None)
    class_ = changed(class_, due={"hw1": "2026-12-08"})
    with pytest.raises(release.NotReleased, match="not as they were made(.|\\n)*08 December 2026"):
        release.release(class_, "hw1", None)


@pytest.mark.parametrize(("change", "said"), [
    (lambda book: cell(book, "check-double").metadata["nbgrader"].update(points=10),
     "The cell check-double has points 10 where the grader has 4."),
    (lambda book: book.cells.remove(cell(book, "check-mean")), "The cell check-mean is missing."),
    (lambda book: cell(book, "mean").metadata["nbgrader"].update(grade_id="average"),
     "The cell mean is missing."),
    (lambda book: cell(book, "why").metadata["nbgrader"].update(points=1), "points 1 where the grader has 3"),
    (lambda book: cell(book, "given-total").update(source="NUMBERS = [1]"),
     "The locked cell given-total was changed"),
    (lambda book: cell(book, "given-check").update(source="check = print"),
     "The locked cell given-check was changed"),
    (lambda book: book.cells.append(cell(book, "mean")), "There are two cells mean."),
    (lambda book: cell(book, "hand-in").metadata["nbgrader"].update(grade_id="more", grade=True, points=1),
     "The grader has no cell more."),
])  # fmt: skip
def test_a_source_whose_cells_the_grader_does_not_know(class_, change, said):
    book = source(SMALL, ())
    assert release.faults(book, SMALL, 7, None) == []
    change(book)
    assert any(said in fault for fault in release.faults(book, SMALL, 7, None))


def test_texts_may_be_written_anew(class_):
    book = source(SMALL, ())
    cell(book, "task-double").source = "Write it."
    book.cells.remove(cell(book, "hand-in"))
    assert release.faults(book, SMALL, 7, None) == []


def test_a_leak_is_shown_as_it_is_written(class_):
    book = source(SMALL, ())
    cell(book, "task-double").source += "\nAnd: total  =  int(NUMBERS.sum())"
    (told,) = release.faults(book, SMALL, 7, None)
    assert told == ("It gives away a line of the solution of total, `total = int(NUMBERS.sum())`, in cell 3 "
                    "(task-double).")  # fmt: skip

"""The words of `course.py homework`, as a lecturer types them."""

import json

import pytest
from small_assignment import SMALL, good

from attnlib.homework import __main__ as words
from attnlib.homework import assignment, classes, reports


@pytest.fixture
def class_(tmp_path, in_process, monkeypatch):
    """A class, and a batch that grades in this process and in no sandbox."""
    def batch(jobs, executor, progress, **options):
        from concurrent.futures import Executor, Future

        class Here(Executor):
            def submit(self, function, job):
                future = Future()
                future.set_result(function(job))
                return future

        return grade_batch(jobs, Here(), progress, **options)

    grade_batch = words.grading.grade_batch
    monkeypatch.setattr(words.grading, "grade_batch", batch)
    monkeypatch.setattr(words, "_sandbox", lambda asked, a_class: words.Sandbox(unsafe=True))
    monkeypatch.setattr(assignment, "load", lambda id, seed: SMALL)
    monkeypatch.setattr(reports, "figures", lambda *_: {})
    return classes.make(tmp_path / "class", "Autumn", 7)


@pytest.fixture
def handed_in(tmp_path):
    (tmp_path / "in").mkdir()
    for student in ("ann", "bob"):
        (tmp_path / "in" / f"{student}.ipynb").write_text(json.dumps(good(SMALL)), encoding="utf-8")
    return tmp_path / "in"


def test_grading_again_needs_no_place(class_, handed_in, capsys):
    of_class = ["hw1", "--class", str(class_.folder)]
    assert words.main(["grade", *of_class, str(handed_in)]) == 0
    assert "2 submissions: 2 needs reading" in capsys.readouterr().out
    assert words.main(["regrade", *of_class]) == 0
    told = capsys.readouterr().out
    assert f"The submissions are those in {handed_in}, as when hw1 was graded last." in told
    assert "2 submissions graded again on the same inputs: no result differs." in told
    (handed_in / "bob.ipynb").write_text("{}", encoding="utf-8")
    assert words.main(["regrade", *of_class]) == 0
    assert "2 submissions graded again on the same inputs: 1 result differs." in capsys.readouterr().out


def test_one_is_one(class_, handed_in, capsys):
    (handed_in / "bob.ipynb").unlink()
    assert words.main(["grade", "hw1", "--class", str(class_.folder), str(handed_in)]) == 0
    told = capsys.readouterr().out
    assert "1 submission: " in told and "Feedback for 1 student " in told and "1 written answer." in told


def test_alone_it_lists_its_words(capsys):
    assert words.main([]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in words.WORDS)


@pytest.mark.parametrize("jobs", ["0", "-1", "two"])
def test_nobody_at_a_time(jobs, capsys):
    with pytest.raises(SystemExit):
        words.main(["grade", "hw1", "--jobs", jobs])
    assert f"{jobs} students at a time grade nobody; give a number from 1" in capsys.readouterr().err


def test_a_missing_source_has_a_remedy(class_, capsys):
    assert words.main(["release", "hw1", "--class", str(class_.folder)]) == 1
    assert f"homework sources --class {class_.folder}" in capsys.readouterr().err

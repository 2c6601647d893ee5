"""A class's folder, its rules and its tables."""

import json
from datetime import UTC, datetime

import pytest

from attnlib.homework import classes
from attnlib.homework.classes import ClassError, load, make, moment, quoted, read_csv


def test_make_and_load(tmp_path):
    made = make(tmp_path / "c", "Autumn", 7, due={"hw1": "2025-10-31 23:59", "hw2": None})
    assert load(tmp_path / "c") == made
    assert made.seed == 7 and made.due == {"hw1": datetime(2025, 10, 31, 23, 59, tzinfo=UTC)}
    assert all((tmp_path / "c" / folder).is_dir() for folder in classes.FOLDERS)
    compile((tmp_path / "c" / "nbgrader_config.py").read_text(encoding="utf-8"), "config", "exec")
    with pytest.raises(ClassError, match="already"):
        make(tmp_path / "c", "Again", 8)


def test_a_seed_is_drawn_where_none_is_given(tmp_path):
    assert make(tmp_path / "a", "A").seed != make(tmp_path / "b", "B").seed


@pytest.mark.parametrize(("text", "said"), [
    (None, "holds no class"),
    ("{", "is no JSON"),
    ("[]", "curly"),
    ('{"name": "A"}', "'seed' must be a whole number; it is null"),
    ('{"name": "A", "seed": "7"}', "whole number"),
    ('{"name": "A", "seed": 7, "sead": 1}', "nobody knows 'sead'"),
    ('{"name": "A", "seed": 7, "due": {"hw1": "tomorrow"}}', "due date of hw1: 'tomorrow' is no time"),
    ('{"name": "A", "seed": 7, "late_days": -1}', "from 0"),
    ('{"name": "A", "seed": 7, "penalty_percent_a_day": 101}', "0 to 100"),
    ('{"name": "A", "seed": 7, "timezone": "Mars/North"}', "Europe/Berlin"),
    ('{"name": "A", "seed": 7, "timezone": "../etc"}', "Europe/Berlin"),
    ('{"name": "A", "seed": 7, "students": "Ann"}', "list of names"),
])  # fmt: skip
def test_errors_say_what_to_mend(tmp_path, text, said):
    if text is not None:
        (tmp_path / "class.json").write_text(text, encoding="utf-8")
    with pytest.raises(ClassError) as raised:
        load(tmp_path)
    assert said in str(raised.value) and "\n" not in str(raised.value)


@pytest.mark.parametrize(("handed_in", "days", "factor"), [
    ("2025-10-31 22:59:00+00:00", 0, 1.0), ("2025-10-31 22:59:01+00:00", 1, 0.9),
    ("2025-11-01 22:59:00+00:00", 1, 0.9), ("2025-11-01 22:59:01+00:00", 2, 0.8),
    ("2025-11-02 23:59:30", 3, 0.0), ("2025-10-31 23:30", 0, 1.0),
])  # fmt: skip
def test_begun_days_count(tmp_path, handed_in, days, factor):
    made = make(tmp_path, "A", 1, due={"hw1": "2025-10-31 23:59"}, late_days=2, timezone="Europe/Berlin")
    late = made.late("hw1", made.moment(handed_in))
    assert (late.days, late.factor) == (days, pytest.approx(factor))
    assert bool(late.told) == bool(days) and ("too late" in late.told) == (factor == 0)


def test_unknown_times_cost_nothing_and_are_said(tmp_path):
    made = make(tmp_path, "A", 1, due={"hw1": "2025-10-31 23:59"})
    assert made.late("hw1", None).told == ""
    late = made.late("hw1", None, marked_late=True)
    assert late.days is None and late.factor == 1 and "times-hw1.csv" in late.told
    assert made.late("hw2", None, marked_late=True).told == ""
    (tmp_path / "times-hw1.csv").write_text("student;handed_in\nann;2025-11-01\n", encoding="utf-8")
    assert made.late("hw1", made.times("hw1")["ann"]).days == 1
    (tmp_path / "times-hw1.csv").write_text("student,handed_in\nann,2025-11-01\nbob,noon\n", encoding="utf-8")
    with pytest.raises(ClassError, match="line 3"):
        made.times("hw1")


@pytest.mark.parametrize(("settings", "said"), [
    ({"due": {"hw1": None}}, "no due date"), ({"late_days": 0}, "no points"),
    ({"late_days": 1}, "up to one day late; each begun day costs 10 %"),
    ({"penalty_percent_a_day": 0}, "at no cost"),
])  # fmt: skip
def test_rules_are_sentences(tmp_path, settings, said):
    made = make(tmp_path, "A", 1, **({"due": {"hw1": "2025-10-31 23:59"}} | settings))
    assert said in " ".join(made.rules("hw1")) and classes.REGRADE in made.rules("hw1")


@pytest.mark.parametrize("text", [
    "2015-02-02 15:58:23.948203 UTC", "2015-02-02T15:58:23.948203+00:00", "2015-02-02 15:58:23.948203",
    "2015-02-02 16:58:23.948203 Europe/Berlin", "2015-02-02 15:58:23.948203 GMT\n",
])  # fmt: skip
def test_moments(text):
    assert moment(text) == datetime(2015, 2, 2, 15, 58, 23, 948203, UTC)


@pytest.mark.parametrize("text", ["", "soon", "2015-13-01", "2015-02-02 15:58 ../../etc/passwd", None, 17])
def test_no_moments(text):
    with pytest.raises(ValueError, match="is no time"):
        moment(text)


@pytest.mark.parametrize("data", [
    "student,points\nann,\"1,5\"\n\nZoë,2\n".encode(),
    "\ufeffStudent;Points\r\nann;1,5\r\nZoë;2\r\n".encode(),
    "student\tpoints\nann\t1,5\nZoë\t2\n".encode("utf-16"), "student;points\rann;1,5\rZoë;2".encode("cp1252"),
])  # fmt: skip
def test_tables_of_any_program(tmp_path, data):
    (tmp_path / "t.csv").write_bytes(data)
    wanted = [{"student": "ann", "points": "1,5"}, {"student": "Zoë", "points": "2"}]
    assert read_csv(tmp_path / "t.csv") == wanted


def test_formulas_are_texts():
    for entry in ("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\tx"):
        assert quoted(entry) == "'" + entry
    assert quoted("ann") == "ann" and quoted(-1.5) == -1.5


def test_whole_files_only(tmp_path, monkeypatch):
    classes.write_whole(tmp_path / "a.json", b"old")

    def broken(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(classes.os, "replace", broken)
    with pytest.raises(KeyboardInterrupt):
        classes.write_whole(tmp_path / "a.json", b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert (tmp_path / "a.json").read_bytes() == b"old"


def test_class_json_is_readable(tmp_path):
    make(tmp_path, "Zoës class", 3)
    told = json.loads((tmp_path / "class.json").read_text(encoding="utf-8"))
    assert told["name"] == "Zoës class" and set(told) == classes._KEYS


@pytest.mark.parametrize(("text", "hour", "zone"), [
    ("2026-12-01", 23, "UTC"), ("2026-12-01 08:00", 8, "UTC"), ("2026-12-01T08:00", 8, "UTC"),
    ("2026-12-01 Europe/Berlin", 23, "CET"),
])  # fmt: skip
def test_a_due_date_without_a_time_is_the_days_end(tmp_path, text, hour, zone):
    made = make(tmp_path, "A", 1, due={"hw1": text})
    due = made.due["hw1"]
    assert (due.day, due.hour, due.minute, due.tzname()) == (1, hour, 59 if hour == 23 else 0, zone)
    assert f"{hour:02}:{due.minute:02} ({zone})" in made.rules("hw1")[0]

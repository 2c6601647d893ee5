"""Grading one student and many: nothing is lost, nothing is a zero that nobody judged."""

import copy
import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from mutated import code, grade_id, mutations
from small_assignment import SMALL, Missing, Trouble, good

from attnlib.exercises.calls import Ended, Stopped, TimeIsUp
from attnlib.homework import grading
from attnlib.homework.collect import collect
from attnlib.homework.grading import GradingError, Job, grade_batch, grade_one, jobs_for, read_result, steady

FORK = multiprocessing.get_context("fork")


def handed_in(folder, **students):
    """A folder with a notebook for each student: a dict, or bytes."""
    folder.mkdir(exist_ok=True)
    for student, notebook in students.items():
        data = notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()
        (folder / f"{student}.ipynb").write_bytes(data)
    return list(jobs_for(collect(folder, SMALL), "hw1", 7, None))


def with_cells(**sources):
    notebook = good(SMALL)
    for cell in notebook["cells"]:
        cell["source"] = sources.get(grade_id(cell).replace("-", "_"), cell["source"])
    return notebook


def results(folder):
    return {path.stem: steady(read_result(path)) for path in folder.glob("*.json")}


def by_id(result):
    return {told["id"]: told for told in result["questions"]}


# ------------------------------------------------------------------------------------ one student


def test_a_good_submission(tmp_path, in_process):
    (job,) = handed_in(tmp_path, ann=good(SMALL))
    result = grade_one(pickle.loads(pickle.dumps(job)))
    assert (result["status"], result["points"], result["out_of"]) == ("needs reading", 8, 11)
    told = by_id(result)
    assert [told[id]["points"] for id in ("double", "total", "mean", "why")] == [4, 2, 2, None]
    assert told["why"]["answer"] == "Because it is." and told["why"]["status"] == "needs reading"
    assert told["double"]["seed"] == grading.assignments.secret(7, "hw1", "double")
    assert result["file"]["sha256"] and result["run"]["versions"]["numpy"] and len(result["code"]) == 16
    assert result["notes"] == [] and result["troubles"] == []
    assert json.loads(json.dumps(result)) == result


def test_wrong_answers_are_told(tmp_path, in_process):
    (job,) = handed_in(
        tmp_path,
        ann=with_cells(
            double="def double(x):\n    return x + 1",
            total="total = 5",
            mean="def average(x):\n    return x[0]",
            why="",
        ),
    )
    result = grade_one(job)
    told = by_id(result)
    assert (result["status"], result["points"]) == ("graded", 3)
    assert told["double"]["misconception"] == "adds_one" and told["total"]["points"] == 1
    assert told["mean"]["points"] == 0 and told["mean"]["verdict"] == "Not the mean."
    assert (told["why"]["status"], told["why"]["points"]) == ("not answered", 0)


def test_no_answer_a_failed_cell_and_a_stub_are_three_things(tmp_path, in_process):
    (job,) = handed_in(
        tmp_path,
        ann=with_cells(
            double="", total="total = 6 / 0", mean="def average(x):\n    raise NotImplementedError"
        ),
    )
    told = by_id(grade_one(job))
    assert told["double"]["status"] == "not answered" and "defines no `double`" in told["double"]["reason"]
    assert told["total"]["status"] == "graded" and told["total"]["points"] == 0
    assert told["mean"]["status"] == "not answered" and told["mean"]["points"] == 0


@pytest.mark.parametrize("data", [b"", b"{", b"<html>", b"\0" * 99])
def test_an_unreadable_file_is_no_zero(tmp_path, in_process, data):
    (job,) = handed_in(tmp_path, ann=data)
    result = grade_one(job)
    assert result["status"] == "unreadable" and result["points"] is None and result["reason"].endswith(".")


def test_a_file_that_has_gone_is_named_and_tried_again(tmp_path, in_process):
    (job,) = handed_in(tmp_path, ann=good(SMALL))
    (tmp_path / "ann.ipynb").unlink()
    result = grade_one(job)
    assert result["status"] == "unreadable" and result["again"] is True


@pytest.mark.parametrize(("where", "reason"), [
    ("session_of", "The grader failed: OSError: no space"), ("load_assignment", "The grader failed: OSError"),
])  # fmt: skip
def test_our_failures_are_no_zeros(tmp_path, in_process, monkeypatch, where, reason):
    def broken(*_):
        raise OSError("no space")

    monkeypatch.setattr(grading, where, broken)
    (job,) = handed_in(tmp_path, ann=good(SMALL))
    result = grade_one(job)
    assert result["status"] == "not graded" and result["points"] is None
    assert result["reason"].startswith(reason) and result["again"] is True


@pytest.mark.parametrize(("raised", "status", "points"), [
    (ZeroDivisionError("x"), "not graded", None), (Stopped("The session is over."), "not graded", None),
    (TimeIsUp(), "graded", 0), (Ended("ended its process."), "graded", 0),
    (NotImplementedError(), "not answered", 0),
])  # fmt: skip
def test_what_ends_a_judgement(tmp_path, in_process, monkeypatch, raised, status, points):
    def judge(answer, seed=None):
        raise raised

    questions = tuple(replace(q, judge=judge) if q.id == "mean" else q for q in SMALL.questions)
    monkeypatch.setattr(grading, "load_assignment", lambda *_: replace(SMALL, questions=questions))
    (job,) = handed_in(tmp_path, ann=good(SMALL))
    result = grade_one(job)
    told = by_id(result)
    assert (told["mean"]["status"], told["mean"]["points"]) == (status, points)
    assert told["double"]["points"] == 4 and told["total"]["points"] == 2
    assert (result["status"] == "not graded") == (status == "not graded")
    assert result["again"] is isinstance(raised, ZeroDivisionError)


def test_a_session_that_could_not_go_on_is_no_zero(tmp_path, in_process, monkeypatch, session_in_process):
    class Over(session_in_process):
        def answer(self, name, forbids=()):
            lost = Missing("The session was ended.")
            object.__setattr__(lost, "fault", False)
            return lost if name == "total" else super().answer(name)

    monkeypatch.setattr(grading, "session_of", lambda job, cells, *_: Over(None, cells))
    (job,) = handed_in(tmp_path, ann=good(SMALL))
    result = grade_one(job)
    assert by_id(result)["total"]["status"] == "not graded" and result["status"] == "not graded"
    assert result["points"] == 6 and result["reason"] == "Not graded: The sum."


# ------------------------------------------------------------------------------------------ batch


def three(folder):
    return handed_in(folder, ann=good(SMALL), bob=with_cells(total="total = 5"), cem=b"{")


@pytest.mark.parametrize("executor", ["threads", "processes", "made", "homemade"])
def test_any_executor(tmp_path, in_process, executor):
    class Homemade(Executor):
        def submit(self, function, *args):
            future = Future()
            future.set_result(function(*args))
            return future

    make = {
        "threads": lambda: ThreadPoolExecutor(2),
        "processes": lambda: ProcessPoolExecutor(2, mp_context=FORK),
        "homemade": Homemade, "made": lambda: lambda: ProcessPoolExecutor(2, mp_context=FORK),
    }[executor]()  # fmt: skip
    seen = []
    summaries = grade_batch(three(tmp_path / "in"), make, seen.append, folder=tmp_path / "out")
    assert seen == summaries and sorted(each["student"] for each in summaries) == ["ann", "bob", "cem"]
    assert {name: each["points"] for name, each in results(tmp_path / "out").items()} == {
        "ann": 8,
        "bob": 7,
        "cem": None,
    }
    if isinstance(make, Executor):
        make.shutdown()


def test_what_is_graded_is_not_graded_again(tmp_path, in_process, monkeypatch):
    jobs = three(tmp_path / "in")
    grade_batch(jobs, ThreadPoolExecutor(1), folder=tmp_path / "out")
    before = {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in (tmp_path / "out").glob("*.json")
    }
    graded = []
    monkeypatch.setattr(grading, "grade_one", lambda job: graded.append(job.student) or grade_one(job))
    summaries = grade_batch(jobs, ThreadPoolExecutor(1), folder=tmp_path / "out")
    assert graded == [] and all(each["kept"] for each in summaries) and len(summaries) == 3
    assert before == {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before}
    # Another file, another class, other code, another time.
    jobs = handed_in(tmp_path / "in", bob=good(SMALL))
    grade_batch(jobs, ThreadPoolExecutor(1), folder=tmp_path / "out")
    assert graded == ["bob"]
    for change in ({"class_seed": 8}, {"code": "other"}):
        graded.clear()
        grade_batch([replace(job, **change) for job in jobs], ThreadPoolExecutor(1), folder=tmp_path / "out")
        assert sorted(graded) == ["ann", "bob", "cem"]
    graded.clear()
    grade_batch(jobs, ThreadPoolExecutor(1), folder=tmp_path / "out")
    graded.clear()
    late = [
        replace(j, submission=replace(j.submission, handed_in=datetime(2025, 1, 1, tzinfo=UTC))) for j in jobs
    ]
    grade_batch(late, ThreadPoolExecutor(1), folder=tmp_path / "out")
    assert graded == [] and results(tmp_path / "out")["ann"]["handed_in"] == "2025-01-01T00:00:00+00:00"


def test_our_failures_are_tried_again(tmp_path, in_process, monkeypatch):
    jobs = handed_in(tmp_path / "in", ann=good(SMALL))
    with monkeypatch.context() as patch:
        patch.setattr(grading, "session_of", lambda *_: 1 / 0)
        grade_batch(jobs, ThreadPoolExecutor(1), folder=tmp_path / "out")
    assert results(tmp_path / "out")["ann"]["status"] == "not graded"
    grade_batch(jobs, ThreadPoolExecutor(1), folder=tmp_path / "out")
    assert results(tmp_path / "out")["ann"]["points"] == 8


def test_a_damaged_result_is_made_anew(tmp_path, in_process):
    jobs = handed_in(tmp_path / "in", ann=good(SMALL))
    (tmp_path / "out").mkdir()
    for text in ("", "{", "[]", '{"schema": 0}'):
        (tmp_path / "out" / "ann.json").write_text(text, encoding="utf-8")
        grade_batch(jobs, ThreadPoolExecutor(1), folder=tmp_path / "out")
        assert results(tmp_path / "out")["ann"]["points"] == 8


def test_regrading_reproduces_and_tells_what_differs(tmp_path, in_process, monkeypatch):
    jobs, out = three(tmp_path / "in"), tmp_path / "out"
    grade_batch(jobs, ThreadPoolExecutor(1), folder=out)
    before = results(out)
    # The recorded seeds count, whatever the class's seed has become.
    changed = [replace(job, class_seed=1234) for job in jobs]
    summaries = grade_batch(changed, ThreadPoolExecutor(1), folder=out, again=True)
    assert results(out) == before and not any(each["differences"] or each["kept"] for each in summaries)
    assert not (out / "earlier").exists()

    questions = tuple(
        replace(q, judge=lambda *_: SMALL.questions[1].judge(5)) if q.id == "total" else q
        for q in SMALL.questions
    )
    monkeypatch.setattr(grading, "load_assignment", lambda *_: replace(SMALL, questions=questions))
    summaries = {
        each["student"]: each for each in grade_batch(jobs, ThreadPoolExecutor(1), folder=out, again=True)
    }
    assert "The points were 8 and are 7." in summaries["ann"]["differences"]
    assert "total: points was 2 and is 1." in summaries["ann"]["differences"]
    assert summaries["bob"]["differences"] == summaries["cem"]["differences"] == []
    assert results(out / "earlier") == {"ann": before["ann"]}


def dies(job):
    if job.student in ("bob", "eli"):
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return grade_one(job)


def dies_once(job):
    mark = Path(job.submission.source[0]).with_suffix(".died")
    if job.student == "bob" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return grade_one(job)


@pytest.mark.parametrize("kind", ["given", "made"])
@pytest.mark.parametrize(("way", "lost"), [(dies, {"bob", "eli"}), (dies_once, set())])
def test_dead_processes_are_survived(tmp_path, in_process, monkeypatch, kind, way, lost):
    """Who kills the grader's process costs nobody else a point, and is named."""
    monkeypatch.setattr(grading, "grade_one", way)
    names = ["ann", "bob", "cem", "dora", "eli", "fay", "gil", "hal", "ida", "jo"]
    jobs = handed_in(tmp_path / "in", **{name: good(SMALL) for name in names})

    def make():
        return ProcessPoolExecutor(2, mp_context=FORK)

    executor = make() if kind == "given" else make
    summaries = grade_batch(jobs, executor, folder=tmp_path / "out")
    assert sorted(each["student"] for each in summaries) == names
    found = results(tmp_path / "out")
    assert {name for name in names if found[name]["points"] != 8} == lost
    for name in lost:
        assert found[name]["status"] == "not graded" and found[name]["points"] is None
        assert "ended the grader's process twice" in found[name]["reason"]
    assert not multiprocessing.active_children()


def sleeps(job):
    if job.student == "bob":
        time.sleep(60)
    return grade_one(job)


def test_processes_that_never_answer_are_given_up(tmp_path, in_process, monkeypatch):
    monkeypatch.setattr(grading, "grade_one", sleeps)
    begun = time.monotonic()
    grade_batch(
        three(tmp_path / "in"),
        lambda: ProcessPoolExecutor(2, mp_context=FORK),
        folder=tmp_path / "out",
        patience=2,
    )
    found = results(tmp_path / "out")
    assert found["ann"]["points"] == 8 and "longer than 2 seconds" in found["bob"]["reason"]
    assert time.monotonic() - begun < 30 and not multiprocessing.active_children()


def test_only_one_grading_at_a_time(tmp_path, in_process):
    jobs, errors = three(tmp_path / "in"), []

    def another(_):
        try:
            grade_batch(jobs, ThreadPoolExecutor(1), folder=tmp_path / "out")
        except GradingError as error:
            errors.append(str(error))

    grade_batch(jobs, ThreadPoolExecutor(1), another, folder=tmp_path / "out")
    assert len(errors) == 3 and "is running" in errors[0]


def test_an_interruption_leaves_whole_files(tmp_path, in_process):
    jobs = handed_in(tmp_path / "in", **{f"s{i}": good(SMALL) for i in range(20)})
    count = []

    def interrupted(summary):
        count.append(summary)
        if len(count) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grade_batch(
            jobs, lambda: ProcessPoolExecutor(2, mp_context=FORK), interrupted, folder=tmp_path / "out"
        )
    assert not multiprocessing.active_children()
    assert len(results(tmp_path / "out")) == 5
    summaries = grade_batch(jobs, ThreadPoolExecutor(2), folder=tmp_path / "out")
    assert len(summaries) == 20 and sum(each["kept"] for each in summaries) == 5
    assert {each["points"] for each in results(tmp_path / "out").values()} == {8}


BATCH = """
import sys, time
sys.path.insert(0, sys.argv[3])
from pathlib import Path
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
from small_assignment import SMALL, InProcess
from attnlib.homework import grading
from attnlib.homework.collect import collect
def slowly(job, cells, *_):
    time.sleep(0.01)
    return InProcess(None, cells)
grading.session_of = slowly
grading.load_assignment = lambda *_: SMALL
jobs = grading.jobs_for(collect(sys.argv[1], SMALL), "hw1", 7, None)
def make():
    fork = multiprocessing.get_context("fork")
    return ProcessPoolExecutor(2, mp_context=fork, initializer=grading.begin_worker)
def told(summary):
    print(summary["student"], flush=True)
grading.grade_batch(jobs, make, told, folder=sys.argv[2])
"""


def test_killed_at_any_moment_and_started_again(tmp_path, in_process):
    """As often as it is killed: the same results as of one run, and nothing is left behind."""
    names = {
        f"s{i:02}": good(SMALL) if i % 3 else with_cells(double=f"def double(x):\n    return {i}")
        for i in range(16)
    }
    jobs = handed_in(tmp_path / "in", **names, bad=b"{")
    grade_batch(jobs, ThreadPoolExecutor(2), folder=tmp_path / "whole")
    words = [sys.executable, "-c", BATCH, tmp_path / "in", tmp_path / "out", Path(__file__).parent]
    for killed_after in (1, 5):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, start_new_session=True)
        for _ in range(killed_after):
            process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        assert all(json.loads(path.read_text(encoding="utf-8")) for path in (tmp_path / "out").glob("*.json"))
        assert gone(process.pid)
    (tmp_path / "out" / ".s01.json.1.part").write_text("{", encoding="utf-8")
    subprocess.run(words, check=True, capture_output=True)
    assert results(tmp_path / "out") == results(tmp_path / "whole")
    assert sorted(path.name for path in (tmp_path / "out").glob(".*")) in ([".lock"], [])


WORKERS = """
import time
from concurrent.futures import wait
from attnlib.homework import grading
if __name__ == "__main__":
    pool = grading.workers(2)()
    wait([pool.submit(time.sleep, 0) for _ in range(4)])
    [pool.submit(time.sleep, 60) for _ in range(2)]
    print("busy", flush=True)
    time.sleep(60)
"""


def test_workers_end_with_who_started_them(tmp_path):
    (tmp_path / "workers.py").write_text(WORKERS, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(Path(grading.__file__).parents[2])}
    process = subprocess.Popen(
        [sys.executable, tmp_path / "workers.py"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment,
    )
    assert process.stdout.readline() == "busy\n"
    process.kill()
    process.wait()
    process.stdout.close()
    assert gone(process.pid)


def gone(session, seconds=10):
    """Whether no process of a session is left, after a moment."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        alive = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, _, sid = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:4]
            except (OSError, ValueError):
                continue
            alive += [path] if int(sid) == session and state != "Z" else []
        if not alive:
            return True
        time.sleep(0.1)
    return False


def test_mutated_copies_in_one_batch(tmp_path, in_process):
    """Fifty mutated copies: the batch never stops, what is whole has its points, the rest is named."""
    asked = [
        (question.id, question.name, f"{question.stub}\n    raise NotImplementedError")
        for question in SMALL.questions
        if question.judge and question.kind == "function"
    ]
    mutants = mutations(good(SMALL), asked)
    del mutants["zipped"]  # what hands it in opens it
    names = {f"m{i:03}": name for i, name in enumerate(mutants)}
    jobs = handed_in(tmp_path / "in", **{key: mutants[name][0] for key, name in names.items()})
    summaries = grade_batch(jobs, ThreadPoolExecutor(1), folder=tmp_path / "out")
    found = results(tmp_path / "out")
    assert len(summaries) == len(mutants) == len(found) >= 50
    worth = {"double": 4, "mean": 2}
    for key, name in names.items():
        result, whole = found[key], mutants[name][1]
        if result["status"] == "unreadable":
            assert not whole and result["points"] is None and result["reason"], name
            continue
        told = by_id(result)
        assert {id for id in worth if told[id]["points"] == worth[id]} == whole, name
        for id in worth.keys() - whole:
            assert told[id]["reason"] or told[id]["verdict"] or told[id]["notes"], name


def test_troubles_are_kept(tmp_path, in_process):
    notebook = copy.deepcopy(good(SMALL))
    notebook["cells"].insert(1, code("1 / 0"))
    (job,) = handed_in(tmp_path, ann=notebook)
    (trouble,) = grade_one(job)["troubles"]
    assert Trouble(**trouble) == Trouble("cell 2", "error", "cell 2 stopped with ZeroDivisionError.")


def test_the_real_jobs_pool_starts(tmp_path):
    """Processes that share nothing with this one; without a sandbox the failure is named."""
    jobs = handed_in(tmp_path / "in", ann=b"{")
    (summary,) = grade_batch(jobs, grading.workers(1), folder=tmp_path / "out")
    assert summary["status"] == "unreadable" and isinstance(jobs[0], Job)

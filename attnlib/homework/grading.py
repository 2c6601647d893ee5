"""Grading: one student's submission to one JSON, and a batch of them on any executor.

The student's code runs in the sandbox; what it gives back is judged here. Whatever goes wrong on our side
becomes "not graded" with a reason, never a zero. Files are whole or not there at all, so that a batch can be
killed at any moment and started again.
"""

import contextlib
import ctypes
import hashlib
import importlib.metadata
import json
import multiprocessing
import multiprocessing.connection
import os
import platform
import signal
import sys
import threading
import time
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path

import filelock

from attnlib.exercises import calls
from attnlib.exercises.verdict import unanswered, wrong
from attnlib.homework import assignment as assignments
from attnlib.homework import submission
from attnlib.homework.classes import write_whole
from attnlib.homework.local import points

SCHEMA = 1
PATIENCE = 900  # seconds without any result after which a pool of processes is given up
STATUSES = ("graded", "needs reading", "not graded", "unreadable", "another assignment")
LOST = STATUSES[2:]      # nothing is known, and it is no zero


class GradingError(Exception):
    """A batch cannot be graded; the message says why."""


@dataclass(frozen=True)
class Job:
    """One submission to be graded; picklable.

    Attributes
    ----------
    submission : `collect.Submission`
    assignment : str
    class_seed : int
    sandbox : Sandbox
        Has been entered, and outlives the job.
    limits : `remote.Limits` or None
    seeds : dict or None
        Those of an earlier grading, by question, to be used again.
    code : str
        The version of the code; found out where it is empty.
    """

    submission: object
    assignment: str
    class_seed: int
    sandbox: object = None
    limits: object = None
    seeds: dict | None = None
    code: str = ""

    @property
    def student(self):
        return self.submission.student


# ------------------------------------------------------------------------------------ one student


def grade_one(job):
    """Grade a submission.

    Parameters
    ----------
    job : Job

    Returns
    -------
    dict
        Plain data. ``status`` is "graded", "needs reading" (a written answer waits for a person), "not
        graded", "unreadable" or "another assignment", with ``reason``. ``points`` are those so far, None
        where nothing is known; ``questions`` has for each its status, points, verdict, misconception, seed
        and notes; ``run`` what another run may find different. With ``again`` the reason is ours, and another
        try may help.
    """
    begun = time.monotonic()
    result = _blank(job)
    try:
        data = _data(job, result)
        if data is not None:
            _grade(job, data, result)
    except Exception as error:
        told = " ".join(str(error).split())[:300]
        _not_graded(result, f"The grader failed: {type(error).__name__}{': ' * bool(told)}{told}", again=True)
    result["run"]["seconds"] = round(time.monotonic() - begun, 2)
    return result


def _blank(job):
    handed_in = job.submission.handed_in
    return {
        "schema": SCHEMA,
        "assignment": job.assignment,
        "student": job.student,
        "status": "not graded",
        "reason": "",
        "again": False,
        "points": None,
        "out_of": None,
        "handed_in": handed_in.isoformat() if handed_in else None,
        "marked_late": job.submission.late,
        "questions": [],
        "notes": list(job.submission.notes),
        "other_variant": "",
        "troubles": [],
        "unsafe": bool(getattr(job.sandbox, "unsafe", False)),
        "file": {"place": job.submission.place, "sha256": None, "bytes": None},
        "class_seed": job.class_seed,
        "variant": None,
        "code": job.code or code_version(),
        "run": {"versions": versions(), "seconds": None, "by_question": {}},
    }


def _data(job, result):
    """The file's bytes; None, and the result says so, where there are none."""
    if job.submission.unreadable:
        result.update(status="unreadable", reason=job.submission.unreadable)
        return None
    try:
        data = job.submission.read()
    except OSError as error:
        told = error.strerror or str(error)
        result.update(status="unreadable", reason=f"The file cannot be read: {told}.", again=True)
        return None
    result["file"] |= {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    return data


def _grade(job, data, result):
    assignment = load_assignment(job.assignment, job.class_seed)
    result["out_of"] = assignment.points
    result["variant"] = getattr(assignment, "code", None)
    notebook = submission.read(data)
    del data
    if isinstance(notebook, submission.Unreadable):
        result.update(status="unreadable", reason=notebook.reason)
        return
    if other := submission.another(assignment, notebook):
        result.update(
            status="another assignment",
            reason=f"This is the notebook of {other} and not of {job.assignment}; it was not graded.",
        )
        return
    plan = submission.plan(assignment, notebook)
    result["notes"] += plan.notes
    result["other_variant"] = plan.variant
    with session_of(job, plan.cells, plan.keeps) as session:
        for question in assignment.questions:
            begun = time.monotonic()
            told = _one(question, plan, session, _seed(job, question))
            result["questions"].append(told)
            result["run"]["by_question"][question.id] = round(time.monotonic() - begun, 2)
        result["troubles"] = [
            {"label": each.label, "kind": each.kind, "told": each.told} for each in session.troubles
        ]
    _sum_up(result)


def _seed(job, question):
    recorded = (job.seeds or {}).get(question.id)
    return assignments.secret(job.class_seed, job.assignment, question.id) if recorded is None else recorded


def _one(question, plan, session, seed):
    """What is said of one question."""
    told = {
        "id": question.id, "title": getattr(question, "title", question.id), "kind": question.kind,
        "status": "graded", "points": 0, "out_of": question.points, "passed": None, "verdict": "",
        "misconception": None, "reason": "", "seed": seed, "notes": list(plan.about.get(question.id, ())),
        "forbidden": list(plan.forbidden.get(question.id, ())), "answer": None,
    }  # fmt: skip
    if question.kind == "written":
        text = plan.written.get(question.id, "")
        told |= {"answer": text, "seed": None}
        if text:
            return told | {"status": "needs reading", "points": None, "reason": "A person reads this answer."}
        return told | {"status": "not answered", "reason": "Nothing was written."}
    try:
        answer = session.answer(plan.names.get(question.id, question.name), question.forbids)
        if type(answer).__name__ == "Missing":
            return told | _missing(question, plan, session, answer)
        verdict = judged(question, answer, seed)
    except calls.Stopped as stopped:
        return told | {"status": "not graded", "points": None, "reason": str(stopped)}
    except Exception as error:
        words = " ".join(str(error).split())[:200]
        reason = f"The grader failed at this question: {type(error).__name__}{': ' * bool(words)}{words}"
        return told | {"status": "not graded", "points": None, "reason": reason, "again": True}
    told |= {"passed": verdict.passed, "verdict": verdict.message, "misconception": verdict.misconception}
    if verdict.passed is None:
        return told | {"status": "not answered", "reason": verdict.message}
    return told | {"points": points(question, verdict)}


def _missing(question, plan, session, answer):
    """No answer: because of nobody's fault but ours, because none was given, or because its cell failed."""
    if not getattr(answer, "fault", True):
        return {"status": "not graded", "points": None, "reason": answer.reason}
    if question.id in plan.missing:
        return {"status": "not answered", "reason": plan.missing[question.id]}
    labels = plan.makers.get(question.id, ())
    if any(trouble.label in labels for trouble in session.troubles):
        return {"passed": False, "verdict": answer.reason}
    return {"status": "not answered", "reason": answer.reason}


def judged(question, answer, seed):
    """The verdict on an answer out of the sandbox.

    Raises
    ------
    Exception
        Whatever is wrong with the judge or the session: then there is no verdict.
    """
    if answer is ... or answer is None:
        return unanswered("The three dots still stand in the answer's place.")
    try:
        return question.judge(answer, seed)
    except NotImplementedError:
        return unanswered("The function still raises NotImplementedError.")
    except calls.TimeIsUp:
        return wrong("Your function did not end within the time that a call may take.")
    except calls.Ended as ended:
        return wrong(f"Your function {ended}")
    except calls.Stopped as stopped:
        if type(stopped) is calls.Stopped:
            raise
        return wrong(f"Your function {stopped}.")


def _sum_up(result):
    """The whole's points and status out of those of its questions."""
    statuses = {told["status"] for told in result["questions"]}
    result["points"] = sum(told["points"] or 0 for told in result["questions"])
    result["again"] = any(told.pop("again", False) for told in result["questions"])
    if "not graded" in statuses:
        names = [told["title"] for told in result["questions"] if told["status"] == "not graded"]
        result.update(status="not graded", reason=f"Not graded: {', '.join(names)}.")
    else:
        result["status"] = "needs reading" if "needs reading" in statuses else "graded"


def _not_graded(result, reason, again):
    result.update(status="not graded", reason=reason, again=again, points=None)


@lru_cache(maxsize=8)
def load_assignment(id, class_seed):
    """`assignment.load`, once a process."""
    return assignments.load(id, class_seed)


def session_of(job, cells, keeps=None):
    """A session in the job's sandbox."""
    from attnlib.homework.remote import Session

    return Session(job.sandbox, cells, job.limits, keeps)


@lru_cache(maxsize=1)
def code_version():
    """A short sum over attnlib's own source: another one may judge otherwise."""
    total = hashlib.sha256()
    package = Path(__file__).resolve().parents[1]
    for path in sorted(package.rglob("*.py")):
        total.update(path.relative_to(package).as_posix().encode() + b"\0" + path.read_bytes())
    return total.hexdigest()[:16]


@lru_cache(maxsize=1)
def versions():
    """Of Python and of what computes."""
    found = {"python": platform.python_version()}
    for name in ("attnlib", "numpy", "torch", "ipython"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def steady(result):
    """A result without what another run of the same may find different."""
    return {key: value for key, value in result.items() if key != "run"}


# ------------------------------------------------------------------------------------------ files


def path_of(folder, student):
    """Where a student's result lies."""
    return Path(folder) / f"{student}.json"


def write_result(folder, result):
    """Write a result, the whole file or none."""
    text = json.dumps(result, indent=1, ensure_ascii=False, default=str) + "\n"
    write_whole(path_of(folder, result["student"]), text.encode("utf-8", "replace"))


def read_result(path):
    """A student's result; None where there is none or it cannot be read."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    whole = (
        isinstance(found, dict) and found.get("schema") == SCHEMA and isinstance(found.get("student"), str)
    )
    return found if whole else None


def _still_holds(old, job):
    """Whether an earlier result is that of this very job."""
    if not old or old["again"]:
        return False
    same = (old["assignment"], old["class_seed"], old["code"], old["unsafe"]) == (
        job.assignment,
        job.class_seed,
        job.code,
        bool(getattr(job.sandbox, "unsafe", False)),
    )
    if not same:
        return False
    if job.submission.unreadable or old["file"]["sha256"] is None:
        return old["reason"] == job.submission.unreadable
    try:
        return old["file"]["sha256"] == hashlib.sha256(job.submission.read()).hexdigest()
    except OSError:
        return False


def _brought_up_to_date(old, job):
    """The earlier result with what is not graded but known: where the file lay, and when it came."""
    new = _blank(job)
    about = {key: new[key] for key in ("handed_in", "marked_late")}
    file = old["file"] | {"place": job.submission.place}
    if all(old[key] == value for key, value in about.items()) and file == old["file"]:
        return None
    return old | about | {"file": file}


def differences(old, new):
    """In sentences, how two gradings of a submission differ; empty where they agree."""
    found = []
    if old["file"]["sha256"] != new["file"]["sha256"]:
        found.append("The file is another one.")
    if old["status"] != new["status"]:
        found.append(f"The status was {old['status']} and is {new['status']}.")
    if old["points"] != new["points"]:
        found.append(f"The points were {_told(old['points'])} and are {_told(new['points'])}.")
    before = {told["id"]: told for told in old["questions"]}
    for told in new["questions"]:
        earlier = before.pop(told["id"], None)
        if earlier is None:
            found.append(f"The question {told['id']} is new.")
            continue
        for key in ("status", "points", "misconception", "verdict", "seed"):
            if earlier[key] != told[key]:
                found.append(f"{told['id']}: {key} was {_told(earlier[key])} and is {_told(told[key])}.")
    return found + [f"The question {id} is gone." for id in before]


def _told(value):
    return "none" if value is None else str(value)


# ------------------------------------------------------------------------------------------ batch


def grade_batch(jobs, executor, progress=None, *, folder, again=False, patience=PATIENCE):
    """Grade many submissions, each into its JSON; what has been graded already is not graded again.

    Parameters
    ----------
    jobs : iterable of Job
    executor : concurrent.futures.Executor, or a function that makes one
        One that is made here is also made anew when its processes have died.
    progress : callable, optional
        ``progress(summary)`` after each student.
    folder : path
        Where the results go, as in ``graded/hw1``.
    again : bool
        Grade anew what has a result, with the seeds that are recorded in it, and tell how it differs; a
        result that differs is kept in ``earlier/``.
    patience : float
        Seconds without any result after which a pool of processes is ended.

    Returns
    -------
    list of dict
        For each student: student, status, points, out_of, reason, kept (an earlier result holds), differences
        and compared (to an earlier result).

    Raises
    ------
    GradingError
        If another grading of this folder is running.
    KeyboardInterrupt
        What was finished by then is in the folder, in whole files.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        for part in folder.glob(".*.part"):  # of a run that was killed
            part.unlink(missing_ok=True)
        summaries = []

        def done(summary):
            summaries.append(summary)
            if progress:
                progress(summary)

        def finished(job, result):
            old = read_result(path_of(folder, job.student)) if again else None
            told = differences(old, result) if old else []
            if told:
                write_result(folder / "earlier", old)
            write_result(folder, result)
            done(_summary(result, differences=told, compared=bool(old)))

        _Batch(executor, finished, patience).run(_to_be_done(jobs, folder, again, done))
    return summaries


def _to_be_done(jobs, folder, again, done):
    """The jobs that have no result yet, one after the other; of the rest it is said that they have one."""
    for job in jobs:
        job = job if job.code else replace(job, code=code_version())
        old = read_result(path_of(folder, job.student))
        if again and old:
            seeds = {told["id"]: told["seed"] for told in old["questions"]}
            yield replace(job, seeds=seeds, class_seed=old["class_seed"])
        elif _still_holds(old, job):
            new = _brought_up_to_date(old, job)
            if new:
                write_result(folder, new)
            done(_summary(new or old, kept=True))
        else:
            yield job


def _summary(result, *, kept=False, differences=(), compared=False):
    return {key: result[key] for key in ("student", "status", "points", "out_of", "reason", "unsafe")} | {
        "seconds": result["run"]["seconds"],
        "kept": kept,
        "differences": list(differences),
        "compared": compared,
    }


@contextlib.contextmanager
def _alone(folder):
    lock = filelock.FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        raise GradingError(f"Another grading of {folder} is running; wait for it, or end it.") from None
    try:
        yield
    finally:
        lock.release()


class _Batch:
    """The jobs on their way through an executor, no more at a time than it can work on."""

    def __init__(self, executor, finished, patience):
        self.make = _maker(executor)
        self.own = not isinstance(executor, Executor)  # then it is ended here too
        self.executor = executor if isinstance(executor, Executor) else self.make()
        self.finished, self.patience, self.running = finished, patience, {}

    def run(self, jobs):
        try:
            self._run(iter(jobs))
        except BaseException:
            self._end(self.executor, self.own)
            raise
        if self.own:
            self.executor.shutdown()

    def _run(self, jobs):
        more = True
        while more or self.running:
            broken = []
            while more and not broken and len(self.running) < self._room():
                job = next(jobs, None)
                more = job is not None
                if more:
                    try:
                        self.running[self.executor.submit(grade_one, job)] = job
                    except (BrokenExecutor, RuntimeError):
                        broken.append(job)
            done, _ = wait(self.running, self.patience, FIRST_COMPLETED) if self.running else ((), ())
            if not done and not broken and self.running:
                _kill(self.executor)
                if not _processes(self.executor):
                    continue  # somebody else's machines: wait on
                done, _ = wait(self.running, 30)
            for future in done:
                job = self.running.pop(future)
                try:
                    result = future.result()
                except BrokenExecutor:
                    broken.append(job)
                    continue
                except Exception as error:
                    result = _failed(job, f"The executor failed: {type(error).__name__}: {str(error)[:200]}")
                self.finished(job, result)
            if broken:
                self._begin_anew([*broken, *self._left()])

    def _room(self):
        return 2 * (getattr(self.executor, "_max_workers", None) or 8)

    def _left(self):
        """The jobs that were on their way when the processes died; what is finished is not lost."""
        left = []
        for future, job in self.running.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                self.finished(job, future.result())
            else:
                left.append(job)
        self.running = {}
        return left

    def _begin_anew(self, suspects):
        """A process has died, nobody knows over which job: try each alone, then go on with new processes."""
        self._end(self.executor, self.own)
        for job in suspects:
            self.finished(job, self._alone(job))
        self.executor, self.own = self.make(), True

    def _alone(self, job):
        pool = ProcessPoolExecutor(1, mp_context=_context(self.executor), initializer=begin_worker)
        try:
            return pool.submit(grade_one, job).result(self.patience)
        except BrokenExecutor:
            return _failed(job, "Grading it ended the grader's process twice, the second time alone.")
        except TimeoutError:
            return _failed(job, f"Grading it took longer than {self.patience:g} seconds.")
        except Exception as error:
            return _failed(job, f"The executor failed: {type(error).__name__}: {str(error)[:200]}")
        finally:
            self._end(pool, True)

    @staticmethod
    def _end(executor, own):
        if own:
            _kill(executor)
            executor.shutdown(wait=True, cancel_futures=True)


def _failed(job, reason):
    result = _blank(job)
    _not_graded(result, reason, again=True)
    return result


def _maker(executor):
    """A function that makes such an executor anew."""
    if not isinstance(executor, Executor):
        return executor
    if isinstance(executor, ProcessPoolExecutor):
        return lambda: ProcessPoolExecutor(
            executor._max_workers,
            mp_context=executor._mp_context,
            initializer=executor._initializer,
            initargs=executor._initargs,
        )
    return lambda: ProcessPoolExecutor(1, initializer=begin_worker)


def _context(executor):
    return getattr(executor, "_mp_context", None)


def _processes(executor):
    return list((getattr(executor, "_processes", None) or {}).values())


def _kill(executor):
    """End a pool's processes; each sandbox ends with its process."""
    for process in _processes(executor):
        with contextlib.suppress(Exception):
            process.kill()


def workers(count):
    """A function that makes a pool of ``count`` processes for `grade_batch`."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    if "forkserver" in methods:
        context.set_forkserver_preload(["attnlib.homework.grading"])
    return lambda: ProcessPoolExecutor(count, mp_context=context, initializer=begin_worker)


def begin_worker():
    """In a worker process: Ctrl-C is the parent's affair, and without the parent there is no work."""
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, int(signal.SIGKILL), 0, 0, 0)  # PR_SET_PDEATHSIG
    # A fork server stands between and lives as long as its workers: the one who asks is watched too.
    if multiprocessing.parent_process():
        threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent():
    multiprocessing.connection.wait([multiprocessing.parent_process().sentinel])
    os.kill(os.getpid(), signal.SIGKILL)


def jobs_for(collection, assignment, class_seed, sandbox, limits=None, times=None):
    """The jobs of a collection.

    Parameters
    ----------
    collection : `collect.Collection`
    assignment : str
    class_seed : int
    sandbox : Sandbox
    limits : `remote.Limits`, optional
    times : dict of str to datetime, optional
        Times of handing in that a person has entered; they come before those that were found.

    Yields
    ------
    Job
    """
    code = code_version()
    for each in collection.submissions:
        entered = (times or {}).get(each.student)
        if isinstance(entered, datetime):
            each = replace(each, handed_in=entered)
        yield Job(each, assignment, class_seed, sandbox, limits, None, code)

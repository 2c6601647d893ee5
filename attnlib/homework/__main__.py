"""The words of ``python3 course.py homework``: from a new class to its grades."""

import argparse
import sys
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from attnlib.homework import assignment as assignments
from attnlib.homework import classes, grading, release, reports
from attnlib.homework.classes import many
from attnlib.homework.collect import CollectError, collect
from attnlib.homework.sandbox import Sandbox, SandboxLeaks, SandboxMissing

FAULTS = (
    classes.ClassError, CollectError, release.NotReleased, grading.GradingError, SandboxMissing, SandboxLeaks,
)  # fmt: skip


def new(asked):
    """Make a class and the sources of all assignments."""
    made = classes.make(asked.folder, asked.name or Path(asked.folder).resolve().name, asked.seed)
    print(f"Made {made.folder} with the seed {made.seed}; keep the folder to your team.")
    for id in assignments.ASSIGNMENTS:
        path, _ = release.write_source(made, id)
        print(f"  {path}")
    print("Due dates and rules are in class.json; a release prints those that stand there then.")


def sources(asked):
    """Write the sources that are not there."""
    a_class = _class(asked)
    for id in assignments.ASSIGNMENTS:
        path, written = release.write_source(a_class, id)
        print(f"{'Wrote' if written else 'Left as it is:'} {path}")


def release_one(asked):
    """Prove a source, strip it, prove the rest, and write what students get."""
    a_class = _class(asked)
    with _sandbox(asked, a_class) as sandbox:
        print(f"The sandbox holds. Running the source of {asked.assignment} and the stripped notebook.")
        folder, archive = release.release(a_class, asked.assignment, sandbox)
    print("The source earns all points, the stripped notebook none, and nothing of a solution is left.\n"
          f"Hand out {archive} or the folder {folder}.")  # fmt: skip


def grade(asked, *, again=False):
    """Grade submissions and write the reports."""
    a_class = _class(asked)
    assignment = assignments.load(asked.assignment, a_class.seed)
    place = asked.submissions or (again and _graded_last(a_class, asked.assignment)) or a_class.folder
    found = collect(place, assignment)
    classes.write_whole(_remembered(a_class, asked.assignment), str(Path(place).resolve()).encode())
    for place, reason in found.left_out:
        print(f"Left out: {place}: {reason}")
    with _sandbox(asked, a_class) as sandbox:
        times = a_class.times(asked.assignment)
        jobs = list(grading.jobs_for(found, asked.assignment, a_class.seed, sandbox, times=times))
        with tqdm(total=len(jobs), unit="student", file=sys.stdout, dynamic_ncols=True) as bar:

            def progress(summary):
                bar.update()
                for told in summary["differences"]:
                    bar.write(f"{summary['student']}: {told}")

            summaries = grading.grade_batch(
                jobs, grading.workers(asked.jobs), progress, again=again,
                folder=a_class.path("graded", asked.assignment),
            )  # fmt: skip
    _table(summaries)
    if again:
        print(_compared(summaries))
    _write_reports(a_class, assignment)


def _remembered(a_class, id):
    """The file that says where the submissions are that were graded last."""
    return a_class.path("graded", id, "submissions.txt")


def _graded_last(a_class, id):
    """Where the submissions are that were graded last; None where nobody knows."""
    try:
        place = _remembered(a_class, id).read_text(encoding="utf-8")
    except OSError:
        return None
    print(f"The submissions are those in {place}, as when {id} was graded last.")
    return place


def _compared(summaries):
    """What has come of grading again, in a sentence."""
    again = [summary for summary in summaries if summary["compared"]]
    differ = sum(bool(summary["differences"]) for summary in again)
    told = f"{many(differ, 'result')} differ{'s' * (differ == 1)}" if differ else "no result differs"
    return f"{many(len(again), 'submission')} graded again on the same inputs: {told}."


def regrade(asked):
    """Grade again with the recorded seeds, and tell what differs."""
    grade(asked, again=True)


def report(asked):
    """Write the feedback, the grades and the statistics anew, with the marks that people have entered."""
    a_class = _class(asked)
    _write_reports(a_class, assignments.load(asked.assignment, a_class.seed))


def to_nbgrader(asked):
    """Put the results into nbgrader's gradebook."""
    gradebook, a_class = _gradebook(), _class(asked)
    assignment = assignments.load(asked.assignment, a_class.seed)
    found = None
    try:
        place = asked.submissions or _graded_last(a_class, asked.assignment) or a_class.folder
        found = collect(place, assignment)
    except CollectError as error:
        if asked.submissions:
            raise
        print(f"{error} Name the folder or zip that was graded, for the notebooks to be shown in Formgrader.")
    for sentence in gradebook.to_gradebook(a_class, assignment, found):
        print(sentence)


def from_nbgrader(asked):
    """Take over what people have marked in Formgrader, and write the reports anew."""
    gradebook, a_class = _gradebook(), _class(asked)
    assignment = assignments.load(asked.assignment, a_class.seed)
    for sentence in gradebook.from_gradebook(a_class, assignment):
        print(sentence)
    _write_reports(a_class, assignment)


def _gradebook():
    """The module that needs nbgrader."""
    try:
        from attnlib.homework import gradebook
    except ImportError as error:
        told = f"This needs nbgrader: pip install 'attnlib[nbgrader]' ({error})."
        raise classes.ClassError(told) from None
    return gradebook


def doctor(asked):
    """Try the sandbox."""
    with Sandbox() as sandbox:
        sandbox.prove()
    print("The sandbox is there and holds: nothing that was tried from inside got out.")


WORDS = {
    "new": (new, "make a class, with sources of its own"),
    "sources": (sources, "write the sources of a class that are not there"),
    "release": (release_one, "prove a source, strip it and write what students get"),
    "grade": (grade, "grade what students handed in, and write the reports"),
    "regrade": (regrade, "grade again on the same inputs and tell what differs"),
    "report": (report, "write the reports anew, with the marks of written answers"),
    "to-nbgrader": (to_nbgrader, "put the results into nbgrader's gradebook, for Formgrader"),
    "from-nbgrader": (from_nbgrader, "take over what people have marked in Formgrader"),
    "doctor": (doctor, "try the sandbox"),
}


def main(arguments=None):
    """Run a word; the exit status."""
    parser = _parser()
    asked, rest = parser.parse_known_args(arguments)
    if len(rest) == 1 and rest[0][:1] != "-" and getattr(asked, "submissions", "") is None:
        asked.submissions = rest.pop()          # argparse does not find it behind an option
    if rest:
        parser.error(f"nobody knows {' '.join(rest)}")
    if asked.word is None:
        parser.print_help()
        return 0
    try:
        WORDS[asked.word][0](asked)
    except FAULTS as fault:
        print(fault, file=sys.stderr)
        return 1
    except KeyError as fault:
        print(fault.args[0] if fault.args else fault, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nstopped; what was graded is kept, and the same command goes on", file=sys.stderr)
        return 130
    return 0


def _parser():
    parser = argparse.ArgumentParser(prog="course.py homework", description=__doc__)
    words = parser.add_subparsers(dest="word", metavar="WORD")
    for word, (_, told) in WORDS.items():
        sub = words.add_parser(word, help=told, description=told.capitalize() + ".")
        if word == "new":
            sub.add_argument("folder", help="the class's folder, which is made")
            sub.add_argument("--name", help="as reports print it; the folder's name unless given")
            sub.add_argument("--seed", type=int, help="of the class; a secret one is drawn unless given")
            continue
        if word == "doctor":
            continue
        sub.add_argument("--class", dest="folder", help="the class's folder; else the one you are in")
        if word != "sources":
            sub.add_argument("assignment", help=f"one of {', '.join(assignments.ASSIGNMENTS)}")
        if word in ("grade", "regrade", "to-nbgrader"):
            sub.add_argument("submissions", nargs="?",
                             help="a folder, a zip or a notebook; else submitted/ of the class, and after a "
                                  "grading what was graded then")  # fmt: skip
        if word in ("grade", "regrade"):
            sub.add_argument("--jobs", type=_count, default=2, metavar="N", help="students at a time (2)")
        if word in ("release", "grade", "regrade"):
            sub.add_argument("--unsafe", action="store_true",
                             help="without a sandbox; every report will say so")  # fmt: skip
    return parser


def _count(text):
    """A number of students at a time."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} students at a time grade nobody; give a number from 1")
    return int(text)


def _class(asked):
    """The class that is named, or in whose folder we are, or the only one beside us."""
    if asked.folder:
        return classes.load(asked.folder)
    here = Path.cwd()
    found = next((folder for folder in (here, *here.parents) if (folder / "class.json").is_file()), None)
    beside = sorted(path.parent for path in here.glob("*/class.json"))
    if found is None and len(beside) == 1:
        found = beside[0]
        print(f"The class is {found}.")
    if found is None:
        many = f" There are {len(beside)} here." if beside else ""
        raise classes.ClassError(f"Which class?{many} Name its folder with --class, or go into it.")
    return classes.load(found)


@contextmanager
def _sandbox(asked, a_class):
    """The sandbox of a batch; it has been tried before it is used."""
    assignment = assignments.load(asked.assignment, a_class.seed)
    with Sandbox(assignment.forbids, asked.unsafe) as sandbox:
        sandbox.prove()
        yield sandbox


def _table(summaries):
    """What became of everybody, a line each for those that need a look, and the counts."""
    counts = {}
    for summary in summaries:
        counts[summary["status"]] = counts.get(summary["status"], 0) + 1
        if summary["status"] in grading.LOST:
            print(f"  {summary['student']}: {summary['status']}. {summary['reason']}")
    kept = sum(summary["kept"] for summary in summaries)
    told = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    before = f" ({kept} unchanged, from before)" if kept else ""
    print(f"{many(len(summaries), 'submission')}: {told}{before}")


def _write_reports(a_class, assignment):
    for sentence in reports.write_reports(a_class, assignment):
        print(sentence)


if __name__ == "__main__":
    sys.exit(main())

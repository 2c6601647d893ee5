"""Grade a class of made-up students, and the same with nbgrader's own autograder where it is installed.

``python benchmarks/homework.py [--students 20] [--jobs 2] [--alone]`` prints students a minute and processor
seconds a student on both sides, and the grader's memory as the batch goes on. Both grade the same notebooks,
in this run, one after the other, on a machine that is idle otherwise; nbgrader without a sandbox.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat

from attnlib.homework import assignment as assignments
from attnlib.homework import classes, grading, release
from attnlib.homework.collect import collect
from attnlib.homework.sandbox import Sandbox
from attnlib.homework.source import BEGIN, END, released

SEED = 5
ID = "hw1"
WRONG = {  # what to put in the place of what, in every third, fourth and fifth student's solutions
    3: ("axis=1", "axis=0"),
    4: ("@ keys", "* 2 @ keys"),
    5: ("return ", "return 2 * "),
}
PLAIN = """\
c = get_config()
c.CourseDirectory.course_id = "plain"
c.ClearSolutions.code_stub = {"python": "# Your code comes here."}
"""


def students(source, count):
    """Names and notebooks: all right, wrong in one place, or empty."""
    for number in range(count):
        notebook = nbformat.from_dict(source)
        old, new = WRONG.get(number % 6, ("", ""))
        if number % 6 == 2:
            notebook = released(notebook)
        for cell in notebook.cells:
            if cell.metadata["nbgrader"]["solution"]:
                cell.source = cell.source.replace(BEGIN, "#").replace(END, "#")
                cell.source = cell.source.replace(old, new) if old else cell.source
        yield f"student{number:03}", notebook


def cpu():
    """Processor seconds of the whole machine since it started.

    A sandbox is killed and not awaited, so the usual count of children misses most of what it did. On a
    machine that does something else besides, both sides are charged with it.
    """
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def ours(a_class, folder, jobs):
    """Seconds by the clock, of work, and the memory in MB at each tenth student."""
    assignment = assignments.load(ID, a_class.seed)
    begun, worked, memory, done = time.monotonic(), cpu(), [], 0

    def progress(summary):
        nonlocal done
        done += 1
        if done % 10 == 0:
            memory.append(round(memory_of_all() / 2**20))

    with Sandbox(assignment.forbids) as sandbox:
        sandbox.prove()
        found = collect(folder, assignment)
        made = grading.jobs_for(found, ID, a_class.seed, sandbox)
        graded = a_class.path("graded", ID)
        results = grading.grade_batch(made, grading.workers(jobs), progress, folder=graded)
    return time.monotonic() - begun, cpu() - worked, memory, results


def memory_of_all():
    """Resident bytes of this process and its descendants, without the sandboxes."""
    total, page = 0, os.sysconf("SC_PAGE_SIZE")
    mine = os.getsid(0)
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(entry.name)) == mine:
                total += int((entry / "statm").read_text(encoding="ascii").split()[1]) * page
        except (OSError, ValueError):
            continue
    return total


def nbgraders(folder, a_class):
    """Seconds by the clock and of work that nbgrader's autograder takes for the same notebooks."""
    program = Path(sys.executable).with_name("nbgrader")
    if not program.exists():
        return None
    plain = folder / "plain"
    (plain / "source" / ID).mkdir(parents=True)
    shutil.copy(a_class.path("source", ID, f"{ID}.ipynb"), plain / "source" / ID)
    (plain / "nbgrader_config.py").write_text(PLAIN, encoding="utf-8")
    shutil.copytree(folder / "submitted", plain / "submitted")
    environment = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"}

    def run(word):
        subprocess.run([program, word, ID], cwd=plain, env=environment, check=False, capture_output=True)

    run("generate_assignment")
    begun, worked = time.monotonic(), cpu()
    run("autograde")
    return time.monotonic() - begun, cpu() - worked


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--students", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--alone", action="store_true", help="without nbgrader, which takes longer")
    asked = parser.parse_args()
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        a_class = classes.make(folder / "class", "Made up", SEED)
        path, _ = release.write_source(a_class, ID)
        for student, notebook in students(nbformat.read(path, 4), asked.students):
            target = folder / "submitted" / student / ID / f"{ID}.ipynb"
            target.parent.mkdir(parents=True)
            nbformat.write(notebook, target)
        seconds, work, memory, results = ours(a_class, folder / "submitted", asked.jobs)
        points = sorted({result["points"] for result in results})
        print(f"{len(results)} students, {asked.jobs} at a time, points {points}")
        print(f"ours:     {60 * len(results) / seconds:6.1f} students a minute, "
              f"{work / len(results):.2f} processor seconds a student, with the sandbox's proof")  # fmt: skip
        print(f"          memory of the grader's processes, MB, each tenth student: {memory}")
        if asked.alone:
            return 0
        peer = nbgraders(folder, a_class)
        if peer is None:
            print("nbgrader is not installed beside this Python.")
            return 0
        print(f"nbgrader: {60 * len(results) / peer[0]:6.1f} students a minute, "
              f"{peer[1] / len(results):.2f} processor seconds a student")  # fmt: skip
        ratio = work / peer[1]
        print(f"ours / nbgrader: {ratio:.2f}, at most 1.3: {'met' if ratio <= 1.3 else 'MISSED'}")
        return 0 if ratio <= 1.3 else 1


if __name__ == "__main__":
    sys.exit(main())

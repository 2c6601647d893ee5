"""Lay every figure of the lessons into figures/, as SVG and as PNG, with one page that shows them all.

python tools/figures.py [NN ...] [--check]

The notebooks hold no vector pictures, so the lessons are run; they are not changed. A lesson's figures are
replaced when it went through to its end, each file in one step.
"""

import argparse
import copy
import json
import re
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import lesson

ROOT = lesson.ROOT
TOOLS = Path(__file__).resolve().parent
FONTS = ROOT / "attnlib" / "plots" / "fonts"
BESIDE = (ROOT / "LICENSE-text", ROOT / "data" / "photographs.md",
          FONTS / "AttnSansSC-Regular.ttf", FONTS / "OFL.txt")
AGAIN = "python3 course.py figures"
WRITTEN = ".written.txt"  # in figures/: the names of the files that were drawn
NAME = re.compile(r"\d\d_\d\d(_[a-z0-9-]+)?\.(svg|png)")  # of such a file


def main(arguments=None):
    """Returns the exit status, or a sentence that says why nothing could be made."""
    options = parsed(arguments)
    try:
        import build
        import kernel
        from gallery import judge, page  # noqa: F401
    except ModuleNotFoundError as error:
        return (f"{error.name} is not installed. `{AGAIN}` installs it, and so "
                "does `pip install -e .[figures]`.")
    try:
        sources = [lesson.read(path) for path in lesson.find(options.lessons)]
    except LookupError as error:
        return str(error)
    except (OSError, ValueError) as error:
        return f"No lesson was run: {error}. Mend the file, or name the lessons to run without it."
    folder = ROOT / "figures"
    try:
        if not options.lessons:
            print(f"All {len(sources)} lessons are run, which takes about a quarter of an hour.", flush=True)
        folder.mkdir(exist_ok=True)
        for path in BESIDE:
            shutil.copy(path, folder)
        good = [export(source, folder, options.check, build, kernel, f"{place} of {len(sources)} lessons")
                for place, source in enumerate(sources, start=1)]
        lost = left_out(folder)
        missing, commands = sum(lost.values()), (lesson.model_command(), f"{AGAIN} {' '.join(lost)}")
        count = page.write(folder, missing, commands)
    except OSError as error:
        return f"The figures could not be written: {error}"
    except KeyboardInterrupt:
        print("\nStopped. Each file in figures/ is whole; lessons not yet named are as they were.")
        return 130
    print(f"{folder / 'index.html'}: {count} figures, as SVG and PNG")
    if missing:
        print(f"Left out: {missing} of {count + missing} figures, which ask an optional model. To draw them: "
              + " && ".join(commands))  # fmt: skip
    return 0 if all(good) else 1


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="course.py figures", description="Lay all figures into figures/.")
    parser.add_argument("lessons", nargs="*", metavar="NN", help="lesson numbers; all when none is given")
    parser.add_argument("--check", action="store_true",
                        help="judge the ground, texts, contrasts and colours of each figure")
    return parser.parse_args(arguments)


@dataclass
class Drawn:
    """A figure in files of its own: their path without its ending, and what they are called in figures/."""

    files: Path
    number: str  # such as 06_03: the lesson's, and of the figure in it

    @property
    def about(self):
        return json.loads(self.files.with_suffix(".json").read_text(encoding="utf-8"))

    @property
    def name(self):
        title = re.sub(r"[^a-z0-9]+", "-", self.about["title"].lower()).strip("-")
        return f"{self.number}_{title}".rstrip("_")


def export(source, folder, judged, build, kernel, place):
    """Run a lesson, lay its figures into `folder`, and say how it went and the lesson's place among those
    that are run. Whether all is well."""
    start = time.monotonic()
    # In that folder, so that a file gets its name in one step.
    with tempfile.TemporaryDirectory(prefix=".drawing-", dir=folder) as scratch:
        try:
            figures = draw(source, Path(scratch), judged, build, kernel)
        except build.BuildError as error:
            build.clear_line()
            print(f"{source.number} stopped at {error}. Its figures are as they were.", flush=True)
            return False
        findings = [f"{source.number}, {figure.about['title']!r}: {finding}"
                    for figure in figures for finding in figure.about["findings"]]
        replace(folder, source.number, figures)
    build.clear_line()
    summary = f"{source.number}: {len(figures)} figures ({time.monotonic() - start:.1f} s, {place})"
    summary += f", {len(findings) or 'no'} findings" * judged
    print("\n  ".join([summary, *without_a_model(source), *findings]), flush=True)
    return not findings


def draw(source, scratch, judged, build, kernel):
    """The figures of a lesson in order, drawn in `scratch` while it runs."""
    notebook, figures, number = copy.deepcopy(source.notebook), [], 0
    heading = re.search(r"^# (.+)", "\n".join(cell.source for cell in source.markdown_cells), re.M)
    # In a namespace of its own, which is no part of the lesson's.
    called = heading[1] if heading else source.path.stem
    record = (f"import sys; sys.path.insert(0, {str(TOOLS)!r}); from gallery import recorder; "
              f"recorder.record({str(scratch)!r}, {called!r}, {judged}); del sys.path[0]")
    with tempfile.TemporaryDirectory() as desk, kernel.running(notebook, desk) as client:
        cells = list(enumerate(notebook.cells))
        kernel.run_source(client, f"exec({record!r}, {{}})")
        for index, cell in cells:
            build.show_progress(f"{source.number} cell {index + 1} of {len(cells)}")
            if cell.cell_type != "code":
                continue
            if lesson.absent_modules(cell):
                number += lesson.pictures(cell)
                continue
            build.run(client, cell, index, keep=False)
            while (scratch / f"{len(figures)}.json").exists():
                number += 1
                figures.append(Drawn(scratch / str(len(figures)), f"{source.number}_{number:02}"))
    return figures


def without_a_model(source):
    """A line that says which figures of a lesson are not drawn for want of a model, if there are any."""
    cells = [cell for cell in source.code_cells if lesson.absent_modules(cell)]
    count = sum(map(lesson.pictures, cells))
    if count:
        absent = dict.fromkeys(module for cell in cells for module in lesson.absent_modules(cell))
        yield f"{count} more are left out: {len(cells)} cells ask for {', '.join(absent)}"


def left_out(folder, paths=None):
    """How many figures that ask a model are not in `folder`, by lesson, of the lessons that are in it."""
    lost = {}
    for path in paths or lesson.lesson_paths():
        try:
            source = lesson.read(path)
        except ValueError:
            continue  # it is told of when it is to be run; the others are counted all the same
        there = {path.name[:5] for path in folder.glob(f"{source.number}_*.svg")}
        cells = [cell for cell in source.code_cells for _ in range(lesson.pictures(cell))]  # of each figure
        missing = [number for number, cell in enumerate(cells, start=1)
                   if "needs-model" in lesson.tags(cell) and f"{source.number}_{number:02}" not in there]
        if there and missing:
            lost[source.number] = len(missing)
    return lost


def replace(folder, number, figures):
    """Name the lesson's new files and remove those of an earlier run. A user's own files stay, since only
    what is on the list of earlier runs is removed."""
    new = {f"{figure.name}.{kind}": figure.files.with_suffix(f".{kind}")
           for figure in figures for kind in ("svg", "png")}
    for name, file in new.items():
        file.replace(folder / name)
    before = written(folder)
    gone = {name for name in before if name.startswith(f"{number}_")} - set(new)
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    part = folder / f"{WRITTEN}.part"
    part.write_text("\n".join(sorted(before - gone | set(new))), encoding="utf-8")
    part.replace(folder / WRITTEN)


def written(folder):
    """The names on the list of what was drawn into `folder`. None where it is missing or damaged: better an
    old figure that stays than a user's file that goes."""
    try:
        names = (folder / WRITTEN).read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, UnicodeDecodeError):
        return set()
    return set(names) if all(map(NAME.fullmatch, names)) else set()


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")    # a Windows console may not know the lesson's words
    sys.exit(main())

"""Execute lessons and write them in canonical form.

    python tools/build.py [NN ...] [--remeasure]

All lessons are built when none is named. A cell tagged `measured` keeps the
output that it has, unless --remeasure is given. A second build changes no byte.
A lesson with an error in a cell, or with output on stderr, stays as it was.
"""

import argparse
import copy
import json
import os
import sys
import tempfile
import time

import canonical
import kernel
import lesson
import nbformat
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError


class BuildError(Exception):
    """A sentence that says why a lesson cannot be built."""


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="course.py build", description="Execute lessons.")
    parser.add_argument("numbers", nargs="*", metavar="NN", help="lessons, such as 01; default all")
    parser.add_argument("--remeasure", action="store_true", help="replace stored measurements")
    options = parser.parse_args(arguments)
    try:
        paths = lesson.find(options.numbers)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    if not paths:
        print("There are no lessons in notebooks/.", file=sys.stderr)
        return 1
    try:
        # A list, so that one bad lesson does not keep the others from being built.
        return max([build(path, options.remeasure) for path in paths])
    except KeyboardInterrupt:
        print("\nStopped. Lessons not yet named as written are as they were.", file=sys.stderr)
        return 130


def build(path, remeasure=False):
    """Build one lesson, say how it went in a line, and return 0 or 1."""
    start = time.monotonic()
    try:
        source = lesson.read(path)
    except ValueError as error:
        print(f"{path.name[:2]} not written: {error}", file=sys.stderr)
        return 1
    try:
        text = canonical.text(canonical.canonical(execute(source, remeasure)))
        seconds = time.monotonic() - start
        changed = replace(source, text)
    except (BuildError, nbformat.ValidationError, json.JSONDecodeError) as error:
        clear_line()
        print(f"{source.number} not written: {error}", file=sys.stderr)
        return 1
    clear_line()
    print(f"{source.number} {'written' if changed else 'unchanged'} ({seconds:.1f} s)")
    if seconds > source.seconds:
        print(f"{source.number} takes longer than its {source.seconds} s.", file=sys.stderr)
    if len(text.encode()) > lesson.BYTES:
        print(
            f"{source.number} has {len(text.encode()) / 1e6:.2f} MB; a lesson stays under "
            f"{lesson.BYTES / 1e6:.0f} MB. Make its figures smaller or fewer.",
            file=sys.stderr,
        )
        return 1
    return 0


def execute(source, remeasure):
    """A copy of the lesson's notebook with fresh outputs. Raises BuildError."""
    notebook = copy.deepcopy(source.notebook)
    # A folder of its own, so that no lesson leans on the one it lies in.
    with tempfile.TemporaryDirectory() as folder, kernel.running(notebook, folder) as client:
        total = len(notebook.cells)
        for index, cell in enumerate(notebook.cells):
            show_progress(f"{source.number} cell {index + 1} of {total}")
            if cell.cell_type != "code":
                continue
            absent = lesson.absent_modules(cell)
            if absent:
                clear_line()
                print(f"{source.number} cell {index + 1} keeps its output: no {', '.join(absent)} here")
            else:
                run(client, cell, index, keep=not remeasure and "measured" in lesson.tags(cell))
    return notebook


def run(client, cell, index, keep):
    """Run one code cell; with `keep`, restore the outputs that it had, if any."""
    stored = cell.get("outputs", [])
    try:
        client.execute_cell(cell, index)
    except CellExecutionError as error:
        raise BuildError(describe(cell, index, f"{error.ename}: {error.evalue}")) from None
    except CellTimeoutError:
        message = f"it ran for more than {kernel.CELL_SECONDS} s"
        raise BuildError(describe(cell, index, message)) from None
    except DeadKernelError:
        message = "the kernel died; it may need less memory"
        raise BuildError(describe(cell, index, message)) from None
    warning = "".join(out.text for out in cell.outputs if out.get("name") == "stderr").strip()
    if warning:
        raise BuildError(describe(cell, index, f"it wrote to stderr: {warning}"))
    if keep and stored:
        cell.outputs = stored


def describe(cell, index, message):
    first_line = cell.source.strip().splitlines()[0]
    return f"cell {index + 1} ({first_line!r}): {message}"


def replace(source, text):
    """Write `text` in one step where it differs from the file; True if it did."""
    if text == source.text:
        return False
    if source.path.read_bytes() != source.text.encode():
        raise BuildError("the file was changed during the build. Build it again.")
    part = source.path.with_name(f".{source.path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        os.replace(part, source.path)
    finally:
        part.unlink(missing_ok=True)
    return True


def show_progress(words):
    if sys.stdout.isatty():
        print(f"\r\033[K{words}", end="", flush=True)


def clear_line():
    show_progress("")


if __name__ == "__main__":
    sys.exit(main())

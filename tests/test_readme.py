"""The README promises nothing that is not there: its code runs, its table matches the tree."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs():
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    done = subprocess.run(
        [sys.executable, "-c", code + "assert out.shape == (5, 8) and weights.shape == (5, 5)"],
        capture_output=True,
        text=True,
        cwd=ROOT / "tests",
    )
    assert done.returncode == 0, done.stderr


def test_every_lesson_that_exists_is_linked_and_no_other():
    linked = set(re.findall(r"\((notebooks/[^)]+\.ipynb)\)", README))
    there = {p.relative_to(ROOT).as_posix() for p in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}
    assert linked == there


def test_the_two_commands_are_words_of_course_py():
    listed = subprocess.run(
        [sys.executable, str(ROOT / "course.py"), "--help"], capture_output=True, text=True, check=True
    ).stdout
    for word in re.findall(r"`?python3 course\.py ([a-z]+)", README):
        assert re.search(rf"\b{word}\b", listed), word

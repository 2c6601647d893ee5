"""check_installation: the same on every sound machine, and a line with a command for each fault."""

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import lesson
import pytest

from attnlib import check_installation, installation

ROOT = Path(__file__).resolve().parents[1]


def line(name):
    (found,) = [text for text in check_installation().splitlines() if text.startswith(f"{name} ")]
    return found.removeprefix(name).strip()


@pytest.fixture
def without(monkeypatch):
    """`without(module, spec)`: from now on the search for it finds nothing, or `spec`."""

    def hide(module, spec=None):
        find = installation.PathFinder.find_spec
        fake = SimpleNamespace(find_spec=lambda name: spec if name == module else find(name))
        monkeypatch.setattr(installation, "PathFinder", fake)

    return hide


LINES = len(installation.PACKAGES) + 3      # Python, the data and the font beside them


def test_a_sound_machine_has_no_version_and_no_path_in_its_lines():
    lines = check_installation().splitlines()
    assert [text.split()[-1] for text in lines[:-1]] == ["ready"] * LINES
    assert lines[-1] == "All is there."
    assert not re.search(r"\d|/|\\", check_installation())


@pytest.mark.parametrize("name", installation.PACKAGES)
def test_a_missing_package_is_named_with_its_command(name, without):
    module, requirement = installation.PACKAGES[name]
    without(module)
    assert line(name) == f'missing; run in a cell: %pip install "{requirement}"'
    assert check_installation().splitlines()[-1].startswith(f"1 of {LINES} need")


def test_a_folder_that_bears_the_name_is_no_package(without):
    without("torch", SimpleNamespace(origin=None))
    assert line("PyTorch").startswith("missing")


@pytest.mark.parametrize(
    "found, said",
    [("2.0.9", "2.0.9 is too old"), ("1.26", "1.26 is too old"), ("2.1", "ready"), ("2.10rc1", "ready")],
)
def test_an_old_package_is_told_with_its_version(found, said, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: found if name == "numpy" else "99.0")
    assert line("NumPy").startswith(said)


def test_a_package_that_tells_no_version_is_ready(monkeypatch):
    def unknown(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", unknown)
    assert line("PyTorch") == "ready"


def test_what_cannot_be_looked_at_is_a_line_and_no_error(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: None)
    assert line("NumPy").startswith("could not be looked at: TypeError")


def test_an_old_python(monkeypatch):
    monkeypatch.setattr(sys, "version_info", (3, 10, 4, "final", 0))
    assert line("Python").startswith("3.10.4 is too old, 3.11 or newer is needed")


@pytest.fixture
def data(tmp_path):
    (tmp_path / "README.md").write_text("| file |\n|---|\n| `a.json` | card |\n", encoding="utf-8")
    (tmp_path / "a.json").write_text("{}", encoding="utf-8")
    return tmp_path


def test_data_is_found_missing_or_damaged(data):
    file = data / "a.json"
    assert installation._data([data / "none", data]) == ""
    file.write_text("{", encoding="utf-8")
    assert installation._data([data]).startswith("a.json is damaged; in the course's folder run: git")
    file.write_bytes(b"")
    assert installation._data([data]).startswith("a.json is missing")
    file.unlink()
    assert installation._data([data]).startswith("a.json is missing")
    assert installation._data([data / "none"]).startswith("missing; in the course's folder")


def test_the_font_is_found_missing_or_damaged(tmp_path):
    assert installation._font(installation._FONT) == ""
    assert installation._font(tmp_path / "x.ttf").startswith("missing")
    (tmp_path / "x.ttf").write_bytes(b"version https://git-lfs")
    assert installation._font(tmp_path / "x.ttf").startswith("damaged")


def test_the_list_is_that_of_pyproject():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = project["dependencies"] + project["optional-dependencies"]["torch"]
    assert {requirement for _, requirement in installation.PACKAGES.values()} == set(wanted)
    assert project["requires-python"] == ">=" + ".".join(map(str, installation.OLDEST_PYTHON))


HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == {name!r}:
            raise ModuleNotFoundError("No module named " + name, name=name)

sys.meta_path.insert(0, Hidden())
"""


def test_the_check_itself_needs_no_package_and_loads_none():
    code = HIDDEN.format(name="numpy") + (
        "from attnlib import check_installation\n"
        "print(check_installation().count('ready'), 'torch' in sys.modules)"
    )
    assert run(code).stdout.split() == [str(LINES), "False"]


@pytest.mark.parametrize("name", ["attnlib", "numpy", "matplotlib"])
def test_the_first_lesson_says_in_its_last_line_what_is_missing(name):
    (path,) = lesson.find(["00"])
    first = lesson.read(path).code_cells[0].source.replace("%matplotlib inline", "")
    last = run(HIDDEN.format(name=name) + first).stderr.strip().splitlines()[-1]
    assert f": {name} is missing" in last and "python3 course.py lab" in last


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "tests")

"""course.py: the learner's copies, the set-up, what is started, and a sentence for each failure."""

import ast
import contextlib
import errno
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
COURSE = ROOT / "course.py"

PYPROJECT = """
[project]
name = "attnlib"
[project.optional-dependencies]
torch = ["torch>=2"]
lab = ["attnlib[torch]", "jupyterlab"]
build = ["attnlib[torch]", "nbclient"]
slides = ["nbconvert"]
figures = ["attnlib[build]", "jinja2"]
site = ["attnlib[slides]", "sphinx"]
bench = ["attnlib[torch]"]
peers = ["attnlib[bench]", "transformers"]
homework = ["attnlib[torch]"]
test = ["attnlib[lab, build,slides,bench]", "pytest"]
"""

NOTEBOOK = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"

# Stands for .venv's Python: writes down how it was called, and does as the environment tells it.
FAKE = """
import json, os, sys
arguments = sys.argv[1:]
root = os.path.dirname(__file__)
with open(os.path.join(root, "calls"), "a", encoding="utf-8") as calls:
    names = ("OMP_NUM_THREADS", "PYTHONPATH", "HOME")
    seen = {"folder": os.getcwd(), **{name: os.environ.get(name) for name in names}}
    calls.write(json.dumps([[argument.replace(root + os.sep, "") for argument in arguments], seen]) + "\\n")
if arguments[0] == "-c":
    print(os.environ.get("FAKE_VERSION", "%d.%d" % sys.version_info[:2]))
    sys.exit(int(os.environ.get("FAKE_PROBE", 0)))
if arguments[:3] == ["-m", "pip", "install"]:
    if os.environ.get("FAKE_PIP_FAILS", "nothing") in arguments[-1]:
        print(os.environ["FAKE_PIP_SAYS"])
        sys.exit(1)
    if "-e" in arguments:
        packages = os.path.join(root, ".venv/lib/python%d.%d/site-packages" % sys.version_info[:2])
        os.makedirs(packages, exist_ok=True)
        with open(os.path.join(packages, "_editable_impl_attnlib.pth"), "w", encoding="utf-8") as file:
            file.write(root)
    print("Installing collected packages: something")
    sys.exit(0)
if os.environ.get("FAKE_WAITS"):
    import time
    print("waiting", os.getpid(), flush=True)
    time.sleep(600)
sys.exit(int(os.environ.get("FAKE_STATUS", 0)))
"""

posix = pytest.mark.skipif(os.name == "nt", reason="the stand-in for Python is a shell script")


class Checkout:
    """A small copy of the course in a folder whose name has spaces and letters beyond ASCII."""

    def __init__(self, folder):
        self.root = folder / "my course ü 课"
        self.notebooks = self.root / "notebooks"
        self.work = self.root / "work"
        self.venv = self.root / ".venv"
        self.notebooks.mkdir(parents=True)
        shutil.copy(COURSE, self.root)
        self.write("pyproject.toml", PYPROJECT)
        self.write("notebooks/01_first.ipynb", NOTEBOOK)
        self.write("notebooks/02_second.ipynb", NOTEBOOK)

    def write(self, name, text):
        (self.root / name).write_text(text, encoding="utf-8")

    def load(self):
        spec = importlib.util.spec_from_file_location("course_copy", self.root / "course.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def lay_python(self, code=FAKE):
        """Put a stand-in for Python into .venv."""
        (self.venv / "bin").mkdir(parents=True, exist_ok=True)
        (self.venv / "pyvenv.cfg").touch()
        (self.root / "fake.py").write_text(code, encoding="utf-8")
        python = self.venv / "bin" / "python"
        python.write_text(
            f"#!/bin/sh\nexec '{sys.executable}' -I -S '{self.root}/fake.py' \"$@\"\n", encoding="utf-8"
        )
        python.chmod(0o755)

    def calls(self):
        """What .venv's Python was called with since the last time this was asked."""
        file = self.root / "calls"
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return [json.loads(line) for line in lines]

    def commands(self):
        """The calls, pip's shortened to what it was to install."""
        commands = [arguments for arguments, _ in self.calls()]
        return [line[-1] if line[:2] == ["-m", "pip"] else " ".join(line) for line in commands]

    def run(self, *arguments, **environment):
        """Run course.py as a user does, from another folder."""
        return subprocess.run(
            [sys.executable, str(self.root / "course.py"), *arguments],
            cwd=self.root.anchor,
            env={**os.environ, **environment},
            capture_output=True,
        )


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    for name in ("ATTN_VENV", "ATTN_TORCH_INDEX", "OMP_NUM_THREADS", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    return Checkout(tmp_path)


@pytest.fixture
def course(checkout, monkeypatch):
    """The module of the copy. Making .venv lays a stand-in; there is room on the disk."""
    module = checkout.load()
    monkeypatch.setattr(module, "make_venv", lambda: remake(checkout))
    monkeypatch.setattr(module, "check_space", lambda gigabytes: None)
    before = signal.getsignal(signal.SIGTERM)
    yield module
    signal.signal(signal.SIGTERM, before)


def hears_ctrl_c():
    """For a process to be started: a suite run in the background ignores the signal, and so would it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def remake(checkout):
    shutil.rmtree(checkout.venv, ignore_errors=True)
    checkout.lay_python()


# What every Python and every terminal can do


def test_old_pythons_can_read_the_file():
    ast.parse(COURSE.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_only_the_standard_library_is_imported():
    tree = ast.parse(COURSE.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names


@pytest.mark.parametrize("version", [(3, 8, 18), (3, 10, 13)])
def test_an_old_python_is_told_what_is_needed(course, checkout, monkeypatch, capsys, version):
    monkeypatch.setattr(sys, "version_info", version)
    assert course.main(["lab"]) == 1
    said = capsys.readouterr()
    found = ".".join(map(str, version))
    assert said.err.startswith(f"Python 3.11 or newer is needed, this is {found}; ")
    assert said.err.count("\n") == 1 and not said.out
    assert not checkout.venv.exists()


@pytest.mark.parametrize("version", [(3, 11, 0), (3, 13, 1), (4, 0, 0)])
def test_a_new_python_is_not_stopped(course, version):
    assert course.old_python(version) == ""


@pytest.mark.parametrize("arguments", [[], ["--help"], ["-h"]])
def test_help_has_a_line_for_each_word(course, capsys, arguments):
    assert course.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    for word in ("lab", "test", "build", "slides", "figures", "site", "reset", "homework", "bench"):
        assert sum(line.startswith(f"  {word} ") for line in lines) == 1
    assert len(lines) <= 24 and max(map(len, lines)) <= 100


def test_an_unknown_word_brings_the_near_ones(course, capsys):
    assert course.main(["tset"]) == 2
    assert "'tset'; did you mean test" in capsys.readouterr().err
    assert course.main(["xyz"]) == 2
    words = "lab, test, build, slides, figures, site, reset, homework, bench"
    assert f"there are: {words}" in capsys.readouterr().err


def test_output_survives_a_terminal_without_its_letters(checkout):
    narrow = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"}
    done = checkout.run("reset", "01", **narrow)
    assert done.returncode == 0, done.stderr
    assert b"Fresh: " in done.stdout
    assert (checkout.work / "01_first.ipynb").exists()


# The learner's copies


def study(course, monkeypatch, *arguments):
    """Run `lab` without a set-up and without JupyterLab; gives the lesson that it would open."""
    opened = []
    monkeypatch.setattr(course, "set_up", lambda extra: None)
    monkeypatch.setattr(course, "serve", lambda name, *_: opened.append(name) or 0)
    assert course.main(["lab", *arguments]) == 0
    return opened[0]


def test_lab_opens_the_first_lesson_or_the_one_named(course, monkeypatch):
    assert study(course, monkeypatch) == "01_first.ipynb"
    assert study(course, monkeypatch, "2") == "02_second.ipynb"
    assert study(course, monkeypatch, "02", "--port=9000") == "02_second.ipynb"


def test_lab_copies_every_lesson_and_overwrites_none(course, checkout, monkeypatch):
    study(course, monkeypatch)
    assert (checkout.work / "02_second.ipynb").read_text(encoding="utf-8") == NOTEBOOK
    checkout.write("work/01_first.ipynb", "the learner's work")
    checkout.write("notebooks/01_first.ipynb", NOTEBOOK + "\n")
    study(course, monkeypatch)
    assert (checkout.work / "01_first.ipynb").read_text(encoding="utf-8") == "the learner's work"


def test_a_learners_copy_spoils_no_prediction(course, checkout):
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": "**Predict.** 1 + 1, 苹果?"},
        {"cell_type": "markdown", "id": "b", "metadata": {"slideshow": {"slide_type": "notes"}},
         "source": "It is two."},
        {"cell_type": "code", "id": "c", "metadata": {"tags": ["x"]}, "source": "1 + 1",
         "execution_count": 1, "outputs": [{"output_type": "stream", "name": "stdout", "text": "2"}]},
    ]
    metadata = {"kernelspec": {"name": "python3"}}
    lesson = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    checkout.write("notebooks/01_first.ipynb", json.dumps(lesson))
    assert course.main(["reset", "01"]) == 0
    own = json.loads((checkout.work / "01_first.ipynb").read_text(encoding="utf-8"))
    assert own["cells"] == [cells[0], {**cells[2], "outputs": [], "execution_count": None}]
    assert {**own, "cells": cells} == lesson


@pytest.mark.parametrize("damage", ['{"cells": [', "[]", "<<<<<<< HEAD", '{"cells": [1]}'])
def test_a_damaged_lesson_is_named_with_the_way_to_get_it_back(course, checkout, capsys, damage):
    checkout.write("notebooks/01_first.ipynb", damage)
    assert course.main(["reset", "01"]) == 1
    assert "git checkout -- notebooks/01_first.ipynb" in capsys.readouterr().err
    assert not list(checkout.work.iterdir())


@pytest.mark.parametrize("damage", ["[]", "null", "{", '{"extras": 3}'])
def test_a_damaged_record_of_copies_stops_nothing(course, checkout, monkeypatch, damage):
    study(course, monkeypatch)
    checkout.write("work/.copied.json", damage)
    assert study(course, monkeypatch) == "01_first.ipynb"


@pytest.mark.parametrize(
    "arguments, found",
    [
        (["lab", "1", "2"], "lab takes the number of one lesson, not also '2'."),
        (["lab", "--port=0"], "There is no port 0; name one from 1 to 65535"),
        (["lab", "--port=99999"], "There is no port 99999"),
        (["lab", "--ip=192.0.2.1"], "This machine cannot listen on 192.0.2.1"),
        (["reset", "\u00b2"], "There is no lesson"),
    ],
)
def test_what_cannot_be_served_is_said(course, checkout, monkeypatch, capsys, arguments, found):
    monkeypatch.setattr(course, "set_up", lambda extra: None)
    assert course.main(arguments) == 1
    assert found in capsys.readouterr().err


@posix
def test_a_damaged_stamp_means_a_new_set_up(course, checkout):
    assert course.main(["test"]) == 0
    for damage in ("[]", "{}", "{"):
        checkout.commands()
        course.STAMP.write_text(damage, encoding="utf-8")
        assert course.main(["test"]) == 0
        assert checkout.commands()[-1].startswith("-m pytest")


@posix
def test_the_whole_suite_runs_in_two_processes_and_a_named_part_in_one(course, checkout):
    assert course.main(["test"]) == 0
    assert checkout.commands()[-1] == "-m pytest -n 2 --dist loadfile"
    assert course.main(["test", "tests/core", "-x"]) == 0
    assert checkout.commands()[-1] == "-m pytest tests/core -x"


def test_lab_says_when_a_newer_lesson_exists_until_it_was_laid(course, checkout, monkeypatch, capsys):
    study(course, monkeypatch)
    checkout.write("work/02_second.ipynb", "the learner's work")
    study(course, monkeypatch)
    assert "A newer" not in capsys.readouterr().out

    checkout.write("notebooks/02_second.ipynb", NOTEBOOK + "\n")
    study(course, monkeypatch)
    notice = "A newer lesson 02 exists; `python3 course.py reset 02` lays it beside yours."
    assert notice in capsys.readouterr().out

    course.main(["reset", "02"])
    capsys.readouterr()
    study(course, monkeypatch)
    assert "A newer" not in capsys.readouterr().out


def test_a_lost_record_of_copies_is_no_newer_lesson(course, checkout, monkeypatch, capsys):
    study(course, monkeypatch)
    (checkout.work / ".copied.json").unlink()
    study(course, monkeypatch)
    assert "A newer" not in capsys.readouterr().out


def test_reset_counts_up_and_needs_no_set_up(course, checkout, capsys):
    names = ["01_first.ipynb", "01_first.fresh.ipynb", "01_first.fresh-2.ipynb", "01_first.fresh-3.ipynb"]
    for count, name in enumerate(names, start=1):
        assert course.main(["reset", "1"]) == 0
        assert str(checkout.work / name) in capsys.readouterr().out
        assert sorted(p.name for p in checkout.work.glob("*.ipynb")) == sorted(names[:count])
        checkout.write(f"work/{name}", f"copy {count}, changed")
    assert not checkout.venv.exists()
    assert (checkout.work / names[0]).read_text(encoding="utf-8") == "copy 1, changed"


@pytest.mark.parametrize(
    "arguments, found",
    [
        (["reset", "07"], "There is no lesson '07'; there are: 01, 02."),
        (["reset", "first"], "There is no lesson 'first'; there are: 01, 02."),
        (["lab", "7"], "There is no lesson '7'; there are: 01, 02."),
        (["reset"], "reset takes the number of one lesson"),
    ],
)
def test_an_unknown_lesson_brings_those_that_exist(course, checkout, capsys, arguments, found):
    assert course.main(arguments) == 1
    assert found in capsys.readouterr().err
    assert not checkout.work.exists()


@pytest.mark.parametrize(
    "number, sentence",
    [
        (errno.ENOSPC, "The disk is full; free some space and run the same command again."),
        (errno.EROFS, "copy the course to a folder of your own"),
        (errno.EACCES, "copy the course to a folder of your own"),
    ],
)
def test_a_copy_that_fails_leaves_nothing_half_there(
    course, checkout, monkeypatch, capsys, number, sentence
):
    def write_bytes(path, data):
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(course.Path, "write_bytes", write_bytes)
    assert course.main(["reset", "01"]) == 1
    assert sentence in capsys.readouterr().err
    assert list(checkout.work.iterdir()) == []


def test_a_lesson_appears_whole_or_not_at_all(course, checkout, monkeypatch):
    def last_step(part, target):
        assert Path(part).read_text(encoding="utf-8") == NOTEBOOK and not Path(target).exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(course.os, "replace", last_step)
    assert course.main(["reset", "01"]) == 130
    assert list(checkout.work.iterdir()) == []


# The set-up


@posix
def test_the_set_up_installs_torch_first_and_the_next_run_installs_nothing(course, checkout, capsys):
    assert course.main(["test", "tests/core", "-q"]) == 0
    assert checkout.commands() == ["torch==2.13.0", ".[test]", "-m pytest tests/core -q"]
    assert "The set-up took 0 min" in capsys.readouterr().out

    assert course.main(["test"]) == 0
    assert checkout.commands() == ["-m pytest -n 2 --dist loadfile"]
    assert course.main(["build", "01"]) == 0, "the extra `test` brings what `build` needs"
    assert checkout.commands() == ["tools/build.py 01"]
    assert not capsys.readouterr().out


@posix
def test_a_word_that_needs_no_torch_installs_none(course, checkout):
    assert course.main(["slides"]) == 0
    assert checkout.commands() == [".[slides]", "tools/slides.py"]


@posix
@pytest.mark.parametrize("word", ["build", "slides", "figures"])
def test_a_lesson_that_is_not_there_is_refused_before_anything_is_installed(course, checkout, capsys, word):
    assert course.main([word, "99"]) == 1
    assert checkout.commands() == []
    assert "There is no lesson '99'" in capsys.readouterr().err


@posix
def test_an_install_that_failed_goes_on_where_it_stopped(course, checkout, monkeypatch):
    monkeypatch.setenv("FAKE_PIP_FAILS", ".[build]")
    monkeypatch.setenv("FAKE_PIP_SAYS", "the network broke")
    assert course.main(["build"]) == 1
    assert checkout.commands() == ["torch==2.13.0", ".[build]"]

    monkeypatch.delenv("FAKE_PIP_FAILS")
    assert course.main(["build"]) == 0
    assert checkout.commands()[1:] == [".[build]", "tools/build.py"], "after a look at .venv's Python"


@posix
def test_an_install_cut_off_while_it_wrote_starts_anew(course, checkout, monkeypatch, capsys):
    assert course.main(["slides"]) == 0
    monkeypatch.setenv("FAKE_PIP_FAILS", ".[build]")
    monkeypatch.setenv("FAKE_PIP_SAYS", "Installing collected packages: nbclient")
    assert course.main(["build"]) == 1
    monkeypatch.delenv("FAKE_PIP_FAILS")
    checkout.calls()
    capsys.readouterr()
    assert course.main(["slides"]) == 0, "though its own packages had been installed before"
    assert checkout.commands() == [".[slides]", "tools/slides.py"]
    assert "The last install was cut off while it wrote files" in capsys.readouterr().out


@posix
def test_a_changed_pyproject_installs_again_but_not_torch(course, checkout):
    course.main(["slides"])
    course.main(["build"])
    checkout.calls()
    checkout.write("pyproject.toml", PYPROJECT + "\n")
    assert course.main(["build"]) == 0
    assert checkout.commands()[1:] == [".[build]", "tools/build.py"]
    assert course.main(["slides"]) == 0
    assert checkout.commands()[1:] == [".[slides]", "tools/slides.py"]


@posix
def test_another_torch_is_installed(course, checkout, monkeypatch):
    course.main(["build"])
    checkout.calls()
    monkeypatch.setattr(course, "TORCH", "2.14.0")
    assert course.main(["build"]) == 0
    assert checkout.commands()[1:] == ["torch==2.14.0", ".[build]", "tools/build.py"]


@posix
def test_the_index_of_torch_is_passed_on(course, checkout, monkeypatch, capsys):
    monkeypatch.setattr(course.sys, "platform", "linux")
    monkeypatch.setenv("ATTN_TORCH_INDEX", "https://example.org/cpu")
    course.main(["build"])
    command = checkout.calls()[0][0]
    assert command[-3:] == ["torch==2.13.0", "--extra-index-url", "https://example.org/cpu"]
    assert "CUDA" not in capsys.readouterr().out


@posix
@pytest.mark.parametrize("system, warned", [("linux", True), ("darwin", False)])
def test_linux_without_an_index_is_warned_of_the_large_wheel(course, monkeypatch, capsys, system, warned):
    monkeypatch.setattr(course.sys, "platform", system)
    course.main(["build"])
    said = capsys.readouterr().out
    assert ("several GB" in said and "ATTN_TORCH_INDEX" in said) == warned


def without_python(checkout):
    (checkout.venv / "bin" / "python").unlink()


def dangling_python(checkout):
    without_python(checkout)
    (checkout.venv / "bin" / "python").symlink_to(checkout.root / "gone")


def moved(checkout):
    stamp = checkout.venv / "attn-stamp.json"
    stamp.write_text(json.dumps({**json.loads(stamp.read_text("utf-8")), "root": "elsewhere"}), "utf-8")


def without_stamp(checkout):
    (checkout.venv / "attn-stamp.json").unlink()


@posix
@pytest.mark.parametrize(
    "damage, environment, sentence",
    [
        (without_python, {}, "has no Python that runs; making it anew"),
        (dangling_python, {}, "has no Python that runs; making it anew"),
        (moved, {}, "was made in another folder; making it anew"),
        (without_stamp, {"FAKE_PROBE": "1"}, "is incomplete; making it anew"),
        (without_stamp, {"FAKE_VERSION": "3.9"}, "has Python 3.9, this is 3."),
    ],
)
def test_a_broken_environment_is_said_and_made_anew(
    course, checkout, monkeypatch, capsys, damage, environment, sentence
):
    course.main(["build"])
    damage(checkout)
    checkout.calls()
    capsys.readouterr()
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert course.main(["build"]) == 0
    assert sentence in capsys.readouterr().out
    assert checkout.commands()[-3:] == ["torch==2.13.0", ".[build]", "tools/build.py"]


@posix
def test_an_upgraded_python_is_noticed_though_the_stamp_is_there(course, checkout, monkeypatch, capsys):
    course.main(["build"])
    monkeypatch.setattr(course.sys, "version_info", (3, 99, 0))
    capsys.readouterr()
    assert course.main(["build"]) == 0
    assert "this is 3.99; making it anew" in capsys.readouterr().out


def test_a_folder_that_is_no_environment_is_not_emptied(checkout, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("ATTN_VENV", str(tmp_path))
    assert checkout.load().main(["build"]) == 1
    assert "holds something other than a virtual environment" in capsys.readouterr().err
    assert checkout.root.exists()


def test_a_place_that_cannot_be_written_is_named(checkout, monkeypatch, capsys, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ATTN_VENV", str(tmp_path / "file" / "venv"))
    assert checkout.load().main(["build"]) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path / 'file'} cannot be written" in said and "ATTN_VENV" in said


def test_a_python_without_ensurepip_is_told_the_package(checkout, monkeypatch, capsys):
    course = checkout.load()
    monkeypatch.setattr(course, "check_space", lambda gigabytes: None)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        course.importlib.util, "find_spec", lambda name: None if name == "ensurepip" else found(name)
    )
    assert course.main(["build"]) == 1
    version = "{}.{}".format(*sys.version_info[:2])
    assert f"sudo apt-get install python{version}-venv" in capsys.readouterr().err


def test_a_disk_without_room_is_seen_before_the_install(checkout, monkeypatch, capsys):
    course = checkout.load()
    usage = shutil.disk_usage(checkout.root)
    monkeypatch.setattr(course.shutil, "disk_usage", lambda path: usage._replace(free=int(1.2e9)))
    assert course.main(["build"]) == 1
    said = capsys.readouterr().err
    assert "Only 1.2 GB are free" in said and "about 3 GB" in said
    assert not checkout.venv.exists()


UNREACHED = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<HTTPConnection>: \
Failed to establish a new connection: [Errno 111] Connection refused')': /simple/torch/
ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: none)
ERROR: No matching distribution found for torch==2.13.0"""


@posix
@pytest.mark.parametrize(
    "says, sentence",
    [
        (UNREACHED, "pip cannot reach the package index"),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "cannot reach"),
        ("ERROR: Could not install packages due to an OSError: [Errno 28] No space left", "disk is full"),
        ("OSError(28, 'No space left on device')", "disk is full"),
        ("SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED]'))", "certificate"),
        ("ERROR: No matching distribution found for torch==2.13.0", "found no build of a package"),
        ("ERROR: [Errno 13] Permission denied: 'x'", "cannot be written"),
        ("ERROR: something unheard of", "install.log"),
    ],
)
def test_pips_failure_ends_in_a_sentence(course, monkeypatch, capsys, checkout, says, sentence):
    monkeypatch.setenv("FAKE_PIP_FAILS", "torch==")
    monkeypatch.setenv("FAKE_PIP_SAYS", says)
    assert course.main(["lab"]) == 1
    said = capsys.readouterr()
    assert sentence in said.err and said.err.count("\n") == 1
    assert says.splitlines()[-1] in said.out, "the last lines of pip are shown"
    assert says.splitlines()[0] in (checkout.venv / "install.log").read_text(encoding="utf-8")


@posix
def test_a_second_run_waits_for_the_first(course, checkout, monkeypatch, capsys):
    import fcntl

    first = open(checkout.root / ".venv.lock", "ab")
    fcntl.flock(first, fcntl.LOCK_EX)

    def first_ends(seconds):
        checkout.lay_python()
        course.write_json(course.STAMP, {**course.wanted(), "extras": ["build"]})
        first.close()

    monkeypatch.setattr(course.time, "sleep", first_ends)
    assert course.main(["build"]) == 0
    assert "Another course.py is setting up this folder" in capsys.readouterr().out
    assert checkout.commands() == ["tools/build.py"], "what the first has installed is not again"


@posix
def test_the_stamp_does_not_depend_on_the_locale(checkout):
    code = "import sys; sys.path.insert(0, sys.argv[1]); import course; print(ascii(course.wanted()))"
    stamps = set()
    for locale in ({"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONUTF8": "1"}):
        command = [sys.executable, "-c", code, str(checkout.root)]
        stamps.add(subprocess.check_output(command, env={**os.environ, **locale}))
    assert len(stamps) == 1


@posix
def test_the_editable_install_is_found_whatever_the_locale(course, checkout):
    course.main(["slides"])
    (file,) = checkout.venv.glob("lib/python*/site-packages/_editable_impl_attnlib.pth")
    assert (file.parent / file.read_bytes().decode("ascii").strip()).resolve() == checkout.root


def test_every_word_has_its_extra_in_pyproject():
    spec = importlib.util.spec_from_file_location("course_itself", COURSE)
    course = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(course)
    for extra in ("lab", "test", "build", "slides", "figures", "site", "homework", "bench", "peers"):
        assert extra in course.covered(extra)
    assert {"lab", "build", "slides", "bench", "torch"} <= course.covered("test")
    assert "peers" not in course.covered("test"), "packages that only comparisons need"


# What is started


@posix
@pytest.mark.parametrize(
    "word, command, threads, here",
    [
        ("test", "-m pytest", "1", False),
        ("build", "tools/build.py", "1", False),
        ("bench", "benchmarks/run.py", "1", False),
        ("slides", "tools/slides.py", None, True),
        ("figures", "tools/figures.py", "1", False),
        ("site", "tools/make_book.py", None, True),
        ("homework", "-m attnlib.homework", "1", True),
    ],
)
def test_words_start_their_tool_and_pass_on_its_status(
    course, checkout, monkeypatch, tmp_path, word, command, threads, here
):
    """And those to which one names paths start it in the caller's folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAKE_STATUS", "5")
    monkeypatch.setenv("PYTHONPATH", "of another project")
    assert course.main([word, "02", "--flag"]) == 5
    arguments, environment = checkout.calls()[-1]
    assert " ".join(arguments) == f"{command} 02 --flag"
    assert environment["OMP_NUM_THREADS"] == threads
    assert environment["PYTHONPATH"] is None
    assert environment["folder"] == str(tmp_path if here else checkout.root)


@posix
def test_the_whole_table_brings_its_peers_and_some_rows_what_is_there(course, checkout):
    assert course.main(["bench", "A2"]) == 0
    assert checkout.commands()[-2:] == [".[bench]", "benchmarks/run.py A2"]
    assert course.main(["bench"]) == 0
    assert checkout.commands()[-2:] == [".[peers]", "benchmarks/run.py"]
    assert course.main(["bench"]) == 0
    assert checkout.commands() == ["benchmarks/run.py"]


@posix
@pytest.mark.parametrize("word, takes", [
    ("bench", "[ID ...]"), ("build", "[NN ...] [--remeasure]"), ("slides", "[NN ...] [--check]"),
    ("figures", "[NN ...] [--check]"), ("site", "[--check]"),
])  # fmt: skip
def test_help_of_a_word_installs_nothing(course, checkout, capsys, word, takes):
    for asked in ("-h", "--help"):
        assert course.main([word, asked]) == 0
        assert f"{word} {takes}" in capsys.readouterr().out
    assert checkout.commands() == []


@posix
def test_comparisons_with_peers_bring_them(course, checkout):
    course.main(["test", "tests/core"])
    assert ".[peers]" not in checkout.commands()
    course.main(["test", "tests/peers"])
    assert checkout.commands()[-2:] == [".[peers]", "-m pytest tests/peers"]


@posix
def test_without_its_peers_the_table_is_made_all_the_same(course, checkout, monkeypatch, capsys):
    monkeypatch.setenv("FAKE_PIP_FAILS", "peers")
    monkeypatch.setenv("FAKE_PIP_SAYS", "ERROR: No matching distribution found for transformers")
    monkeypatch.setenv("FAKE_STATUS", "5")
    assert course.main(["bench"]) == 5
    said = capsys.readouterr().out
    assert "could not be installed, so their rows are left out: pip found no build" in said
    assert checkout.commands()[-1] == "benchmarks/run.py"


@posix
def test_a_number_of_threads_that_was_set_is_kept(course, checkout, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    course.main(["bench"])
    assert checkout.calls()[-1][1]["OMP_NUM_THREADS"] == "4"


@posix
def test_without_a_home_to_write_to_settings_go_into_the_environment(course, checkout, monkeypatch):
    monkeypatch.setenv("HOME", str(checkout.root / "gone"))
    course.main(["slides"])
    assert checkout.calls()[-1][1]["HOME"] == str(checkout.venv / "home")


def test_ctrl_c_ends_in_a_sentence(course, monkeypatch, capsys):
    def stopped(extra):
        raise KeyboardInterrupt

    monkeypatch.setattr(course, "set_up", stopped)
    assert course.main(["build"]) == 130
    assert capsys.readouterr().err.strip() == "stopped; run the same command again to go on"


@posix
@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_what_was_started_ends_with_course(course, checkout, number, status):
    course.main(["bench"])
    process = subprocess.Popen(
        [sys.executable, str(checkout.root / "course.py"), "bench"],
        env={**os.environ, "FAKE_WAITS": "1"},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, preexec_fn=hears_ctrl_c,
    )
    child = int(process.stdout.readline().split()[1])
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # a terminal sends it to all
    else:
        process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode == status
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


# JupyterLab


@contextlib.contextmanager
def listening():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def test_a_port_that_was_asked_for_and_is_taken_stops(course, checkout, monkeypatch, capsys):
    monkeypatch.setattr(course, "set_up", lambda extra: None)
    with listening() as port:
        assert course.main(["lab", "--port", str(port)]) == 1
    assert f"Port {port} is taken; name another" in capsys.readouterr().err
    assert course.choose_port("127.0.0.1", port) == port, "free again"


def test_the_next_free_port_is_taken_and_said(course, monkeypatch, capsys):
    monkeypatch.setattr(course, "taken", lambda host, port: port < 8890)
    assert course.choose_port("127.0.0.1", None) == 8890
    assert "Port 8888 is taken; using 8890." in capsys.readouterr().out
    monkeypatch.setattr(course, "taken", lambda host, port: True)
    with pytest.raises(course.Stop, match="All ports from 8888"):
        course.choose_port("127.0.0.1", None)


def test_a_browser_is_not_opened_where_there_is_none(course, monkeypatch):
    monkeypatch.setattr(course, "in_container", lambda: False)
    monkeypatch.setattr(course.webbrowser, "get", lambda: None)
    monkeypatch.setattr(course.sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", ":0")
    assert "--no-browser" not in course.jupyter_command("01_first.ipynb", "127.0.0.1", 8888, [])
    monkeypatch.setattr(course, "in_container", lambda: True)
    assert course.without_browser()
    monkeypatch.setattr(course, "in_container", lambda: False)
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert course.without_browser()


@posix
@pytest.mark.parametrize("user, allowed", [(0, True), (1000, False)])
def test_only_root_is_allowed_as_root(course, monkeypatch, user, allowed):
    monkeypatch.setattr(course.os, "geteuid", lambda: user)
    command = course.jupyter_command("01_first.ipynb", "127.0.0.1", 8888, ["--debug"])
    assert ("--allow-root" in command) == allowed and command[-1] == "--debug"


@posix
def test_lab_serves_the_lesson_and_ends_without_a_traceback(course, checkout, tmp_path):
    checkout.lay_python()
    python = checkout.venv / "bin" / "python"
    python.write_text(
        f"#!/bin/sh\necho $OMP_NUM_THREADS >> $HOME/threads\nexec '{sys.executable}' \"$@\"\n",
        encoding="utf-8",
    )
    course.write_json(course.STAMP, {**course.wanted(), "extras": ["lab"]})
    with listening() as port:
        pass
    process = subprocess.Popen(
        [sys.executable, str(checkout.root / "course.py"), "lab", "2", f"--port={port}", "--no-browser"],
        env={**{k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}, "HOME": str(tmp_path)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, preexec_fn=hears_ctrl_c,
    )
    said = ""
    while "token=" not in said:
        line = process.stdout.readline().decode()
        assert line, said
        said += line
    address = said.split()[-1]
    assert address.startswith(f"http://127.0.0.1:{port}/lab/tree/02_second.ipynb?token=")
    for place in (address, address.replace("/lab/tree/", "/api/contents/")):
        with urllib.request.urlopen(place) as answer:
            assert answer.status == 200
            body = answer.read()
    assert json.loads(body)["content"]["nbformat"] == 4
    os.killpg(process.pid, signal.SIGINT)
    said += process.communicate(timeout=60)[0].decode()
    assert process.returncode == 0, said
    assert "JupyterLab has ended." in said and "Traceback" not in said
    # The kernels inherit it: a lesson's small products are many times slower on two busy threads.
    assert (tmp_path / "threads").read_text(encoding="utf-8").split()[-1] == "1"


# .ci/run


@posix
@pytest.mark.parametrize("browser", [True, False])
def test_ci_brings_the_browser_and_passes_on_the_status(checkout, tmp_path, browser):
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "dirname", "env"):
        (tools / name).symlink_to(shutil.which(name))
    stand_ins = {"python3": 'echo "$@" CI=$CI golden=$ATTNLIB_GOLDEN; exit 5', "id": "echo 0",
                 "apt-get": 'echo apt-get "$@"', **({"chromium": ""} if browser else {})}
    for name, body in stand_ins.items():
        (tools / name).write_text(f"#!{tools}/bash\n{body}\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    (tmp_path / "shared" / "golden").mkdir(parents=True)
    (checkout.root / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", checkout.root / ".ci")
    done = subprocess.run(
        [str(checkout.root / ".ci" / "run")], env={"PATH": str(tools)}, stdin=subprocess.DEVNULL,
        capture_output=True, cwd=tmp_path,
    )
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 5, done.stderr
    assert lines[-1] == f"course.py test CI=true golden={tmp_path}/shared/golden"
    assert any(line.startswith("apt-get install") and "chromium" in line for line in lines) != browser

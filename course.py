#!/usr/bin/env python3
"""The one entry point of the course: `python3 course.py` alone lists its words.

Standard library only. The file must parse on Python 3.6, so that an old Python is told in a
sentence what is needed and not in a SyntaxError; the version is checked in `main`.
"""

import argparse
import contextlib
import difflib
import errno
import hashlib
import importlib.util
import json
import os
import platform
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import webbrowser
from pathlib import Path
from urllib.parse import quote

ROOT = Path(__file__).resolve().parent
NOTEBOOKS = ROOT / "notebooks"
WORK = ROOT / "work"
COPIED = WORK / ".copied.json"  # lesson -> hash of the source that was last copied

VENV = Path(os.environ.get("ATTN_VENV") or str(ROOT / ".venv")).expanduser().absolute()
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "attn-stamp.json"  # what was installed from what; written after success only
WRITING = VENV / "attn-writing"  # there while pip writes packages
LOG = VENV / "install.log"

OLDEST = (3, 11)
TORCH = "2.13.0"  # pyproject.toml gives a range; this is the version that was tested


class Stop(Exception):
    """The run cannot go on; the text says what was found and what to do."""


def say(text):
    print(text, flush=True)


# The learner's copies ---------------------------------------------------------------------------


def lessons():
    found = sorted(NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
    if not found:
        raise Stop(f"There is no lesson in {NOTEBOOKS}; get the course anew.")
    return found


def lesson(number):
    """Path of the lesson with this number, given as text: 3 and 03 are the same."""
    found = lessons()
    for path in found:
        if number.isdecimal() and int(path.name[:2]) == int(number):
            return path
    raise Stop(f"There is no lesson {number!r}; there are: {', '.join(p.name[:2] for p in found)}.")


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_json(path):
    """The object that the file holds; empty where it is missing or damaged."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


@contextlib.contextmanager
def whole_file(target):
    """A path to write to that becomes `target` when all went well, so that none is half there."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        yield part
        os.replace(str(part), str(target))
    finally:
        if part.exists():
            part.unlink()


def write_json(path, data):
    with whole_file(path) as part:
        part.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def learners_copy(source):
    """The text of a lesson without what spoils its predictions: stored outputs, speaker notes."""
    try:
        notebook = json.loads(source.read_text(encoding="utf-8"))
        notebook["cells"] = [
            cell for cell in notebook["cells"]
            if cell["metadata"].get("slideshow", {}).get("slide_type") != "notes"
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Stop(f"{source} is damaged: it is not a notebook. Get it anew with: "
                   f"git checkout -- notebooks/{source.name}") from None
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell.update(outputs=[], execution_count=None)
        if "hide-input" in cell["metadata"].get("tags", []):
            cell["metadata"]["jupyter"] = {"source_hidden": True}  # folded: it describes a figure
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def copy_lesson(source, target):
    """Lay a learner's copy of one lesson and remember which state of it was copied."""
    WORK.mkdir(exist_ok=True)
    with whole_file(target) as part:
        part.write_bytes(learners_copy(source).encode("utf-8"))
    write_json(COPIED, {**read_json(COPIED), source.name: digest(source)})


def copy_lessons():
    """Give the learner the lessons that are not in work/ yet; overwrite nothing."""
    for source in lessons():
        own = WORK / source.name
        if not own.exists():
            copy_lesson(source, own)
        elif (digest(source) != read_json(COPIED).get(source.name)
              and own.read_bytes() != learners_copy(source).encode("utf-8")):
            number = source.name[:2]
            say(f"A newer lesson {number} exists; `python3 course.py reset {number}` "
                "lays it beside yours.")


def reset(arguments):
    if len(arguments) != 1:
        raise Stop("reset takes the number of one lesson, as in: python3 course.py reset 01")
    source = lesson(arguments[0])
    own = fresh = WORK / source.name
    count = 1
    while fresh.exists():
        fresh = own.with_suffix(".fresh.ipynb" if count == 1 else f".fresh-{count}.ipynb")
        count += 1
    copy_lesson(source, fresh)
    if fresh != own:
        say(f"Yours, untouched: {own}")
    say(f"Fresh: {fresh}")
    return 0


# The set-up -------------------------------------------------------------------------------------


def old_python(version):
    """The sentence for a Python that is too old, or an empty string."""
    if tuple(version[:2]) >= OLDEST:
        return ""
    newer = [name for name in ("python3.13", "python3.12", "python3.11")
             if shutil.which(name)
             and not subprocess.call([name, "-c", ""], stderr=subprocess.DEVNULL)]
    advice = f"call it as: {newer[0]} course.py" if newer else "install one from python.org"
    found = ".".join(str(part) for part in version[:3])
    return f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed, this is {found}; {advice}"


def wanted():
    """What the stamp says when the environment is up to date."""
    return {
        # As bytes, because the same folder is another string under another locale.
        "root": os.fsencode(str(ROOT)).decode("utf-8", "backslashreplace"),
        "python": "{}.{}".format(*sys.version_info[:2]),
        "pyproject": digest(ROOT / "pyproject.toml"),
        "torch": TORCH,
    }


def installed(extra):
    """Whether nothing has to be done for `extra`. Starts no process: this is every later run."""
    stamp = read_json(STAMP)
    same = all(stamp.get(key) == value for key, value in wanted().items())
    return same and extra in stamp.get("extras", ()) and PYTHON.exists() and not WRITING.exists()


def still_there(stamp):
    """The extras of the stamp that need no visit of pip, by what changed since."""
    if stamp.get("torch") != TORCH or not {"extras", "pyproject"} <= set(stamp):
        return set()
    extras = set(stamp["extras"])
    return extras if stamp["pyproject"] == wanted()["pyproject"] else extras & {"torch"}


def covered(extra):
    """The extras that `extra` brings with it, itself included, as pyproject.toml says."""
    import tomllib  # not in Pythons that are too old for the course

    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    names, new = set(), {extra}
    while new:
        names |= new
        lines = [line for name in new for line in project["optional-dependencies"][name]]
        inner = [re.match(re.escape(project["name"]) + r"\[(.+)\]", line) for line in lines]
        new = {name.strip() for found in inner if found for name in found[1].split(",")} - names
    return names


def fault():
    """Why the environment has to be made, as a sentence; an empty string when it is sound."""
    if not VENV.exists():
        return f"Making {VENV} with Python {platform.python_version()}."
    # What is made anew is emptied first, so a folder that somebody named must be ours to empty.
    if VENV != ROOT / ".venv" and not (VENV / "pyvenv.cfg").exists() and any(VENV.iterdir()):
        raise Stop(f"ATTN_VENV names {VENV}, which holds something other than a virtual "
                   "environment; name a new or an empty folder.")
    if not PYTHON.exists():
        return f"{VENV} has no Python that runs; making it anew."
    if WRITING.exists():
        return (f"The last install was cut off while it wrote files; making {VENV} anew "
                "(pip keeps what it has downloaded).")
    if read_json(STAMP).get("root", wanted()["root"]) != wanted()["root"]:
        return f"{VENV} was made in another folder; making it anew."
    probe = "import pip, sys; print('{}.{}'.format(*sys.version_info[:2]))"
    try:
        answer = subprocess.check_output([str(PYTHON), "-c", probe], env=environment(),
                                         stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        return f"{VENV} is incomplete; making it anew."
    version = answer.decode().strip()
    if version != wanted()["python"]:
        return f"{VENV} has Python {version}, this is {wanted()['python']}; making it anew."
    return ""


def make_venv():
    if any(importlib.util.find_spec(name) is None for name in ("venv", "ensurepip")):
        raise Stop("This Python cannot make virtual environments: its ensurepip module is missing. "
                   "On Debian and Ubuntu: sudo apt-get install python{}.{}-venv"
                   .format(*sys.version_info[:2]))
    # Not the .venv's own Python, should course.py have been started with that.
    base = getattr(sys, "_base_executable", None) or sys.executable
    made = subprocess.run([base, "-m", "venv", "--clear", str(VENV)], env=environment(),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode:
        output = made.stdout.decode("utf-8", "replace")
        say(output)
        raise Stop(failure(output, f"Python could not make {VENV}; its message is above."))


def check_space(gigabytes):
    free = shutil.disk_usage(str(VENV.parent)).free / 1e9
    if free < gigabytes:
        raise Stop(f"Only {free:.1f} GB are free on the disk of {VENV.parent}, the set-up needs "
                   f"about {gigabytes:g} GB; free some, or name a folder on another disk in "
                   "ATTN_VENV.")


CAUSES = {  # what pip or venv prints -> what to tell
    r"No space left on device|Errno 28\b|not enough space on the disk|Disk quota exceeded":
        "The disk is full (the folder for temporary files counts too); free some space and run "
        "the same command again.",
    r"CERTIFICATE_VERIFY_FAILED|SSLError":
        "The package index was reached but its certificate was refused; if a proxy stands "
        "between, name the file of its certificate in PIP_CERT and run the same command again.",
    r"NewConnectionError|NameResolutionError|Connect(ion)?Timeout|Read timed out|ProxyError|"
    r"Connection refused|Connection reset|Network is unreachable|name resolution|getaddrinfo":
        "pip cannot reach the package index; check the network (or the proxy) and run the same "
        "command again: it goes on where it stopped.",
    r"No matching distribution found":
        "pip found no build of a package that the lines above name: the index cannot be reached, "
        "or has none for this machine (Python {python}, {machine}).",
    r"Permission denied|Read-only file system":
        "{venv} cannot be written; name another folder in ATTN_VENV.",
}


def failure(output, otherwise):
    """One sentence on what went wrong, from the output of pip or venv."""
    for pattern, sentence in CAUSES.items():
        if re.search(pattern, output):
            return sentence.format(python=platform.python_version(), venv=VENV,
                                   machine=f"{platform.system()} {platform.machine()}")
    return otherwise


def show_progress(line):
    """Show what pip is doing, on one line that is written over; in a log it would be noise."""
    if sys.stdout.isatty() and line.split(" ")[0] in ("Collecting", "Downloading", "Installing"):
        width = shutil.get_terminal_size().columns - 1
        print("\r" + ("  " + line)[:width].ljust(width), end="", flush=True)


def clear_progress():
    if sys.stdout.isatty():
        print("\r" + " " * (shutil.get_terminal_size().columns - 1) + "\r", end="", flush=True)


def pip_install(*requirements):
    command = [str(PYTHON), "-m", "pip", "install", "--no-input", "--progress-bar", "off",
               "--disable-pip-version-check", *requirements]
    lines = []
    with LOG.open("ab", buffering=0) as log, subprocess.Popen(
            command, cwd=str(ROOT), env=environment(), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as pip:
        try:
            for raw in pip.stdout:
                log.write(raw)
                lines.append(raw.decode("utf-8", "replace").rstrip())
                if lines[-1].startswith("Installing collected packages"):
                    WRITING.touch()
                show_progress(lines[-1])
        except BaseException:
            pip.terminate()
            pip.wait()
            raise
        finally:
            clear_progress()
    if pip.returncode:
        say("\n".join("  | " + line for line in lines[-12:]))
        raise Stop(failure("\n".join(lines), f"pip failed; all that it said is in {LOG}"))
    with contextlib.suppress(FileNotFoundError):
        WRITING.unlink()


def install_torch():
    index = os.environ.get("ATTN_TORCH_INDEX")
    if sys.platform.startswith("linux") and not index:
        say("Note: PyTorch for Linux on PyPI is the CUDA build of several GB; for the small CPU "
            "build press Ctrl-C and put the address of PyTorch's CPU index, which its install "
            "page shows, in ATTN_TORCH_INDEX.")
    say(f"Installing torch {TORCH}.")
    pip_install(f"torch=={TORCH}", *(["--extra-index-url", index] if index else []))


def make_path_file_relative():
    """Make the editable install name this folder relative to itself: `../../../..`, not its path.

    Python before 3.13 reads that file in the locale's encoding, and does not even start when the
    path has a letter that the encoding lacks.
    """
    inside = "Lib/site-packages" if os.name == "nt" else "lib/python{}.{}/site-packages"
    packages = VENV / inside.format(*sys.version_info[:2])
    for file in packages.glob("*attnlib*.pth"):
        with contextlib.suppress(ValueError):  # Windows: on another drive, or not ASCII after all
            relative = os.path.relpath(str(ROOT), str(packages)).encode("ascii")
            file.write_bytes(relative + b"\n")


def quieten_jupyterlab():
    """Spare learners JupyterLab's question about news, which lies over the lesson."""
    settings = VENV / "etc" / "jupyter" / "labconfig"
    settings.mkdir(parents=True, exist_ok=True)
    announcements = "@jupyterlab/apputils-extension:announcements"
    write_json(settings / "page_config.json", {"disabledExtensions": {announcements: True}})


def set_up(extra):
    """Make the environment hold `extra`; what an earlier run has done is not done again."""
    if installed(extra):
        return
    started = time.monotonic()
    with one_at_a_time():
        if installed(extra):  # by the run that this one waited for
            return
        reason = fault()
        done = set() if reason else still_there(read_json(STAMP))
        brings = covered(extra)
        needs_torch = "torch" in brings - done
        check_space(3 if needs_torch else 0.5)
        if reason:
            say(reason)
            make_venv()
        if needs_torch:
            install_torch()
            done.add("torch")
            write_json(STAMP, {**wanted(), "extras": sorted(done)})
        say(f"Installing attnlib[{extra}].")
        pip_install("-e", f".[{extra}]")
        make_path_file_relative()
        quieten_jupyterlab()
        write_json(STAMP, {**wanted(), "extras": sorted(done | brings)})
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    say(f"The set-up took {minutes} min {seconds} s; the next run of this command needs none.")


@contextlib.contextmanager
def one_at_a_time():
    """Hold the lock of the set-up. The system frees it when the process ends, however it ends."""
    try:
        VENV.parent.mkdir(parents=True, exist_ok=True)
        handle = VENV.with_name(VENV.name + ".lock").open("ab")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise
        raise Stop(f"Cannot make {VENV}: {VENV.parent} cannot be written. Name a folder that can "
                   "be written in ATTN_VENV, or copy the course to one of your own.") from error
    with handle:
        if not lock(handle):
            say("Another course.py is setting up this folder; waiting for it.")
            while not lock(handle):
                time.sleep(0.5)
        yield


def lock(handle):
    try:
        if os.name == "nt":
            import msvcrt

            msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        # Any other error: this file system knows no locks, and the set-up goes on without.
        return error.errno not in (errno.EAGAIN, errno.EACCES, errno.EDEADLK)
    return True


# Running what the words need --------------------------------------------------------------------


def environment(**more):
    """The environment of everything that is started: as in an activated .venv, and UTF-8."""
    # A Python or a package path from outside would be mixed into .venv.
    outside = ("PYTHONHOME", "PYTHONPATH")
    kept = {key: value for key, value in os.environ.items() if key not in outside}
    # Jupyter, IPython and Matplotlib do not start without a place for their settings.
    if not os.access(os.path.expanduser("~"), os.W_OK):
        kept["HOME"] = str(VENV / "home")
    return {
        **kept,
        "PATH": str(PYTHON.parent) + os.pathsep + os.environ.get("PATH", os.defpath),
        "VIRTUAL_ENV": str(VENV),
        # The editable install is a path file, which Python 3.11 reads in the locale's encoding.
        "PYTHONUTF8": "1",
        "PIP_USER": "0",
        "JUPYTER_PREFER_ENV_PATH": "1",
        **more,
    }


def one_thread():
    """Two BLAS threads on two busy cores wait for each other: 2.5 s were measured for 0.13 s."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {name: os.environ.get(name, "1") for name in names}


def status_of(process):
    """Wait for a process to end and give its exit status; take it along when we are stopped."""
    try:
        status = process.wait()
    except KeyboardInterrupt:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)  # Ctrl-C reaches it too: let it close its files and say its last words
        raise
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    return status if status >= 0 else 128 - status


def run(*command, folder=ROOT, **more):
    return status_of(subprocess.Popen([str(PYTHON), *command], cwd=folder, env=environment(**more)))


def run_here(*command, **more):
    """Run in the folder of whoever calls: the paths that are named are meant from there."""
    return run(*command, folder=None, **more)


def existing_lessons(arguments):
    """Refuse a lesson that is not there before anything is installed for it."""
    for argument in arguments:
        if argument.isdecimal():
            lesson(argument)


def build(arguments):
    existing_lessons(arguments)
    set_up("build")
    return run("tools/build.py", *arguments, **one_thread())


def slides(arguments):
    existing_lessons(arguments)
    set_up("slides")
    return run_here(str(ROOT / "tools" / "slides.py"), *arguments)


def figures(arguments):
    existing_lessons(arguments)
    set_up("figures")
    return run("tools/figures.py", *arguments, **one_thread())


def site(arguments):
    set_up("site")
    return run_here(str(ROOT / "tools" / "make_book.py"), *arguments)


def bench(arguments):
    set_up("bench")
    if not arguments:  # the whole table
        try:
            set_up("peers")
        except Stop as stop:
            say(f"The packages to compare with could not be installed, so their rows are left out: {stop}")
    return run("benchmarks/run.py", *arguments, **one_thread())


def homework(arguments):
    set_up("nbgrader" if {"to-nbgrader", "from-nbgrader"} & set(arguments) else "homework")
    return run_here("-m", "attnlib.homework", *arguments, **one_thread())


def test(arguments):
    set_up("test")
    if any("tests/peers" in argument for argument in arguments):
        set_up("peers")
    # The whole suite in two processes; a file stays in one, for a notebook's cells run in order.
    arguments = arguments or ["-n", "2", "--dist", "loadfile"]
    return run("-m", "pytest", *arguments, **one_thread())


# JupyterLab -------------------------------------------------------------------------------------


def answers(host, port):
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((host, port)) == 0


def taken(host, port):
    with socket.socket() as probe:
        if os.name != "nt":  # where this would allow a second server on a port in use
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise Stop(f"This machine cannot listen on {host}: {error.strerror}. Name one of its own "
                           "addresses with --ip.") from None
            return True
    return answers(host, port)


def choose_port(host, asked):
    if asked is not None:
        if not 0 < asked < 65536:
            raise Stop(f"There is no port {asked}; name one from 1 to 65535, or leave --port out.")
        if taken(host, asked):
            raise Stop(f"Port {asked} is taken; name another, or leave --port out.")
        return asked
    for port in range(8888, 8988):
        if not taken(host, port):
            if port != 8888:
                say(f"Port 8888 is taken; using {port}.")
            return port
    raise Stop("All ports from 8888 to 8987 are taken; name a free one with --port.")


def in_container():
    signs = Path("/.dockerenv").exists() or Path("/run/.containerenv").exists()
    return signs or "container" in os.environ or "KUBERNETES_SERVICE_HOST" in os.environ


def without_browser():
    if in_container():
        return True
    if sys.platform.startswith("linux"):
        if not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            return True
    try:
        webbrowser.get()
    except webbrowser.Error:
        return True
    return False


def jupyter_command(name, ip, port, options):
    command = [
        str(PYTHON), "-m", "jupyterlab", f"--ServerApp.root_dir={WORK}",
        f"--LabApp.default_url=/lab/tree/{quote(name)}",
        f"--ServerApp.ip={ip}", f"--ServerApp.port={port}", "--ServerApp.port_retries=0",
        "--ServerApp.answer_yes=True",  # Ctrl-C ends it without a question
        "--Application.log_level=ERROR",  # its warnings are of no use to a learner
        "--KernelManager.transport_encryption=auto",  # without it each kernel warns of eavesdroppers
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    if without_browser():
        command.append("--no-browser")
    return command + options


def serve(name, ip, port, options):
    """Run JupyterLab until Ctrl-C, which is the way to end it and no failure."""
    host = "127.0.0.1" if ip in ("0.0.0.0", "*", "localhost") else ip
    port = choose_port(host, port)
    token = os.environ.get("JUPYTER_TOKEN") or secrets.token_hex(24)
    say("Starting JupyterLab.")
    # It does not hear Ctrl-C before it has its own way of ending; we end it until then.
    ours = signal.signal(signal.SIGINT, signal.SIG_IGN)
    server = subprocess.Popen(jupyter_command(name, ip, port, options), cwd=str(WORK),
                              env=environment(JUPYTER_TOKEN=token, **one_thread()))
    signal.signal(signal.SIGINT, ours)
    try:
        while not answers(host, port):
            if server.poll() is not None:
                raise Stop("JupyterLab ended before it served the lesson; its messages are above.")
            time.sleep(0.1)
        say(f"Lesson {name[:2]} is at:\n\n"
            f"    http://{host}:{port}/lab/tree/{quote(name)}?token={token}\n\n"
            "Open this address in a browser if none opens by itself. Ctrl-C ends JupyterLab.")
        if in_container() and ip == "127.0.0.1":
            say("From outside this container it is reached only with: "
                "python3 course.py lab --ip=0.0.0.0 (and the port published).")
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        if server.poll() is None:
            server.terminate()
            server.wait()


def lab(arguments):
    parser = argparse.ArgumentParser(prog="course.py lab")
    parser.add_argument("number", nargs="?")
    parser.add_argument("--ip", default="127.0.0.1")
    parser.add_argument("--port", type=int)
    asked, options = parser.parse_known_args(arguments)
    if options and not options[0].startswith("-"):
        raise Stop(f"lab takes the number of one lesson, not also {options[0]!r}.")
    source = lesson(asked.number) if asked.number else lessons()[0]
    copy_lessons()
    set_up("lab")
    status = serve(source.name, asked.ip, asked.port, options)
    say(f"JupyterLab has ended. Your lessons are in {WORK}")
    return status


# The words --------------------------------------------------------------------------------------

WORDS = {
    "lab": (lab, "[NN]", "study: JupyterLab with your own copies of the lessons, in work/"),
    "test": (test, "[pytest arguments]", "run every test, or those that pytest is told to run"),
    "build": (build, "[NN ...] [--remeasure]", "run lessons and write them with their outputs"),
    "slides": (slides, "[NN ...] [--check]", "make the offline slides of lessons, in slides/"),
    "figures": (figures, "[NN ...] [--check]", "lay all figures into figures/, as SVG and PNG"),
    "site": (site, "[--check]", "make the book of all lessons, in site/"),
    "reset": (reset, "NN", "lay a fresh copy of a lesson beside yours"),
    "homework": (homework, "WORD ...", "release and grade homework; homework alone lists its words"),
    "bench": (bench, "[ID ...]", "measure attnlib against PyTorch and other packages"),
}


# What a word says of itself before anything is installed for it.
MORE = {
    "build": "All lessons are built when none is named. A cell that measures keeps its output,\n"
             "unless --remeasure is given.",
    "slides": "In place of NN a lecture's file may stand, such as those in docs/lectures; all decks\n"
              "are made when nothing is named. --check steps through every slide in Chromium, and\n"
              "--pictures DIR also saves a PNG of each state.",
    "figures": "All lessons are run when none is named, in a quarter of an hour. --check also names\n"
               "what makes a figure hard to read.",
    "site": "--check opens every page in Chromium, without a network, and --pictures DIR also\n"
            "saves a PNG of each.",
    "bench": "Without an ID the whole table is measured, in a quarter of an hour. bench A E2\n"
             "measures the rows whose id begins so; a wrong id lists them all. bench seeds --help\n"
             "tells of the ten seeds.",
}


def usage():
    lines = ["Usage: python3 course.py WORD", ""]
    lines += [f"  {word + ' ' + takes:<30}{does}" for word, (_, takes, does) in WORDS.items()]
    return "\n".join(lines + [
        "",
        "NN is the number of a lesson. What a word needs is installed into .venv first.",
        "lab passes further options to JupyterLab, such as --port=9000.",
        "ATTN_TORCH_INDEX: address of PyTorch's CPU index.  ATTN_VENV: another place for .venv.",
    ])


def main(arguments):
    sentence = old_python(sys.version_info)
    if sentence:
        print(sentence, file=sys.stderr)
        return 1
    for stream in (sys.stdout, sys.stderr):  # a path may hold what the terminal cannot show
        stream.reconfigure(errors="backslashreplace")
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        say(usage())
        return 0
    word, *rest = arguments
    if word not in WORDS:
        near = difflib.get_close_matches(word, WORDS)
        advice = f"did you mean {' or '.join(near)}?" if near else "there are: " + ", ".join(WORDS)
        print(f"There is no word {word!r}; {advice}", file=sys.stderr)
        return 2
    if word in MORE and rest[:1] in (["-h"], ["--help"]):
        say(f"Usage: python3 course.py {word} {WORDS[word][1]}\n\n{MORE[word]}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started ends too
    try:
        return WORDS[word][0](rest)
    except Stop as stop:
        message = str(stop)
    except OSError as error:
        message = {
            errno.ENOSPC: "The disk is full; free some space and run the same command again.",
            errno.EACCES: f"{error.filename} may not be written or read by you; copy the course "
                          "to a folder of your own and run it there.",
            errno.EROFS: f"{error.filename} is on a disk that is read-only; copy the course to a "
                         "folder of your own and run it there.",
        }.get(error.errno, f"Cannot go on: {error}")
    except KeyboardInterrupt:
        print("\nstopped; run the same command again to go on", file=sys.stderr)
        return 130
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

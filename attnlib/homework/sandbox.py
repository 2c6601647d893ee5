"""Where students' code runs: bubblewrap, with nothing of the course in it, and a proof that it holds.

Inside are the system's programs and Python's packages, read-only; an empty scratch folder; and a copy of
attnlib without exercises and homework. No network, no other processes, limits on memory, processes, files
and time. `Sandbox.prove` tries to break out before anything is graded.
"""

import ast
import contextlib
import itertools
import json
import os
import platform
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import filelock

PACKAGE = Path(__file__).resolve().parent.parent
INSIDE = "/sandbox"              # where the copy of attnlib is, inside
MEMORY = 6 * 2**30               # bytes of addresses of one process; PyTorch alone takes some
SCRATCH = 128 * 2**20
PROCESSES = 64
_COUNTER = itertools.count()
_LOCKS = {}                      # of the folders that this process has made; gone with it, however it ends
# What of the system Python and its packages read
_ETC = ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "fonts", "localtime", "mime.types")

_HARMLESS_EXERCISES = '''"""In the sandbox nothing is checked; the grader does that."""

__all__ = ["check", "exercises", "hint", "progress", "solution"]


def check(*args, **named):
    """Nothing."""


exercises = hint = progress = solution = check
'''
_HARMLESS_HOMEWORK = '''"""In the sandbox nothing is checked; the grader does that."""

__all__ = ["local_check"]


class _Nothing:
    """Whatever is called or read of it is nothing."""

    points = 0
    passed = None
    message = ""
    misconception = None

    def __call__(self, *args, **named):
        return self

    def __getattr__(self, name):
        return self


def local_check(*args, **named):
    """A check that does nothing."""
    return _Nothing()
'''
_FORBIDDING = '''

from attnlib.homework.worker import stand_in as _stand_in  # noqa: E402

for _name in {names!r}:
    globals()[_name] = _stand_in(globals()[_name], _name)
'''


class SandboxMissing(Exception):
    """There is no sandbox here, or it does not start."""


class SandboxLeaks(Exception):
    """The sandbox does not hold. Nothing may be graded in it."""


@dataclass
class Running:
    """A process in the sandbox and the grader's ends of the two pipes to it."""

    process: subprocess.Popen
    reading: int
    writing: int
    unsafe: bool

    def complaint(self):
        """What it said when it did not start."""
        os.set_blocking(self.process.stderr.fileno(), False)
        words = (self.process.stderr.read(4000) or b"").decode(errors="replace").strip().splitlines()
        return words[-1] if words else ""

    def end(self):
        """End it with all that it has started, and wait until it is gone."""
        if self.unsafe or self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                if self.unsafe:
                    os.killpg(self.process.pid, 9)
                self.process.kill()
        self.process.wait()
        for descriptor in (self.reading, self.writing):
            with contextlib.suppress(OSError):
                os.close(descriptor)
        if self.process.stderr:
            self.process.stderr.close()


class Sandbox:
    """The sandbox of one batch. A context manager: its copy of attnlib is a temporary folder.

    May be pickled to worker processes once it has been entered; the folder goes when the one that made it
    leaves.

    Parameters
    ----------
    forbidden : sequence of str
        Functions that some question asks to be written: of attnlib, PyTorch or SciPy. They raise where an
        answer calls them that `Session.answer` was told to forbid them.
    unsafe : bool
        Run students' code without bubblewrap, with the grader's own rights.

    Raises
    ------
    SandboxMissing
        Where bubblewrap is not installed, and on systems that have none.
    """

    def __init__(self, forbidden=(), unsafe=False):
        self.forbidden, self.unsafe = tuple(forbidden), unsafe
        self.folder = None
        self._made_by = None
        self.bwrap = shutil.which("bwrap")
        if not unsafe and not self.bwrap:
            raise SandboxMissing(missing())
        if not hasattr(os, "setsid"):
            raise SandboxMissing("Grading runs students' code in processes of their own, which this system "
                                 "has not; grade on Linux.")  # fmt: skip

    def __enter__(self):
        _sweep()
        self.folder = Path(tempfile.mkdtemp(prefix="attnlib-sandbox-"))
        self._made_by = os.getpid()
        try:
            _LOCKS[self.folder] = filelock.FileLock(self.folder / "lock")
            _LOCKS[self.folder].acquire()
            self.folder.chmod(0o755)
            _copy_of_the_package(self.folder / "tree", self.forbidden)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.folder and self._made_by == os.getpid():
            if lock := _LOCKS.pop(self.folder, None):
                lock.release()
            shutil.rmtree(self.folder, ignore_errors=True)

    # ------------------------------------------------------------------------------ starting

    @property
    def tree(self):
        """Where the copy of attnlib is, for the process inside."""
        return str(self.folder / "tree") if self.unsafe else INSIDE

    def command(self, program):
        """The command that runs ``program``, a list of words, inside."""
        if self.unsafe:
            return program
        names = ["ipc", "pid", "net", "uts", "cgroup-try"]
        words = [self.bwrap, "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
        if os.getuid() == 0:
            words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]  # given up by the worker
        else:
            names.append("user")
        words += [f"--unshare-{name}" for name in names]
        words += ["--hostname", "sandbox", "--clearenv"]
        for name, value in self.environment().items():
            words += ["--setenv", name, value]
        for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"):
            if os.path.islink(path):
                words += ["--symlink", os.readlink(path), path]
            elif os.path.isdir(path):
                words += ["--ro-bind", path, path]
        words += ["--ro-bind", "/usr", "/usr", "--perms", "0755", "--dir", "/etc"]
        for name in _ETC:
            words += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
        words += ["--proc", "/proc", "--dev", "/dev", "--size", str(2**24), "--perms", "1777"]
        words += ["--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
        words += ["--size", str(SCRATCH), "--perms", "1777", "--tmpfs", "/tmp"]
        for path in places():
            for parent in reversed(Path(path).parents):
                if str(parent) != "/" and not str(parent).startswith("/usr"):
                    words += ["--perms", "0755", "--dir", str(parent)]
            words += ["--ro-bind", path, path]
            if PACKAGE.is_relative_to(path):       # an attnlib that is installed among them is covered
                words += ["--tmpfs", str(PACKAGE), "--remount-ro", str(PACKAGE)]
        words += ["--perms", "0755", "--dir", INSIDE, "--ro-bind", str(self.folder / "tree"), INSIDE]
        return [*words, "--remount-ro", "/", "--chdir", "/tmp", "--", *program]

    def environment(self):
        """What the process inside finds set, and nothing else."""
        home = str(self.folder / "scratch") if self.unsafe else "/tmp"
        return {
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]),
            "HOME": home, "TMPDIR": home, "USER": "student", "LOGNAME": "student", "LANG": "C.UTF-8",
            "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
            "MPLBACKEND": "agg", "MPLCONFIGDIR": f"{home}/matplotlib", "IPYTHONDIR": f"{home}/ipython",
            "ATTNLIB_DATA": f"{home}/attnlib", "CUDA_VISIBLE_DEVICES": "", "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([self.tree, *_packages()]),
        }  # fmt: skip

    def settings(self, cpu_seconds):
        """What the worker is told, beside its descriptors."""
        root = os.getuid() == 0 and not self.unsafe
        limits = {"AS": MEMORY, "CPU": int(cpu_seconds), "FSIZE": 64 * 2**20, "CORE": 0, "NOFILE": 1024}
        if not self.unsafe:
            limits["NPROC"] = PROCESSES if root else PROCESSES + _tasks_that_count()
        return {"limits": limits, "uid": _unused_uid() if root else None, "forbidden": list(self.forbidden)}

    def start(self, cpu_seconds=120, fonts=False):
        """Start the worker.

        Parameters
        ----------
        cpu_seconds : number
        fonts : bool
            Whether Matplotlib will be used: its list of fonts is made once for all.

        Returns
        -------
        Running
        """
        settings = self.settings(cpu_seconds)
        if fonts:
            settings["fonts"] = self._fonts()
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        settings["descriptors"] = [theirs_in, theirs_out]
        program = [sys.executable, "-c", "import sys; from attnlib.homework.worker import main; "
                   "main(sys.argv[1])", json.dumps(settings)]  # fmt: skip
        try:
            process = self.popen(program, pass_fds=(theirs_in, theirs_out), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE)  # fmt: skip
        except BaseException:
            os.close(ours_out)
            os.close(ours_in)
            raise
        finally:
            os.close(theirs_in)
            os.close(theirs_out)
        os.set_blocking(ours_out, False)
        return Running(process, ours_in, ours_out, self.unsafe)

    def popen(self, program, **options):
        """`subprocess.Popen` of a program inside."""
        options |= {"env": {"PATH": os.defpath}, "cwd": "/"}       # of bubblewrap, which is seen inside
        if self.unsafe:
            scratch = self.folder / "scratch"
            scratch.mkdir(exist_ok=True)
            options |= {"env": self.environment(), "cwd": scratch}
        return subprocess.Popen(self.command(program), stdin=subprocess.DEVNULL, start_new_session=True,
                                close_fds=True, **options)  # fmt: skip

    def _fonts(self):
        """The folder, as seen from inside, with the list of fonts that Matplotlib takes seconds to make."""
        folder = self.folder / "tree" / "fonts"
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=self.folder) as made:
                # It keeps a list of its own from one run to the next.
                program = (
                    "import shutil, sys\nfrom pathlib import Path\nimport matplotlib.font_manager\n"
                    "for path in Path(matplotlib.get_cachedir()).glob('fontlist-*.json'):\n"
                    "    Path(sys.argv[1], path.name).write_bytes(path.read_bytes())"
                )
                with contextlib.suppress(subprocess.SubprocessError, OSError):
                    subprocess.run([sys.executable, "-c", program, made], timeout=120, check=True,
                                   capture_output=True)  # fmt: skip
                    for path in (Path(made), *Path(made).iterdir()):
                        path.chmod(0o755 if path.is_dir() else 0o644)
                    shutil.copytree(made, f"{made}-whole")
                    with contextlib.suppress(OSError):       # another process was faster
                        os.rename(f"{made}-whole", folder)
                    shutil.rmtree(f"{made}-whole", ignore_errors=True)
        return f"{self.tree}/fonts"

    # ------------------------------------------------------------------------------ proving

    def prove(self):
        """Try to break out; nothing is returned where all attempts fail. With ``unsafe`` nothing is tried.

        Raises
        ------
        SandboxLeaks
            Names each attempt that succeeded.
        SandboxMissing
            If the sandbox does not start.
        """
        if self.unsafe:
            return
        with _Canaries() as canaries:
            told = json.dumps(canaries.told | {"settings": self.settings(60)})
            try:
                os.environ["ATTNLIB_CANARY"] = "an environment that must not be seen"
                process = self.popen(
                    [sys.executable, "-c", "import sys; from attnlib.homework.probe import main; "
                     "main(sys.argv[1])", told], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                )  # fmt: skip
                out, errors = process.communicate(timeout=60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                raise SandboxMissing("The sandbox was tried and gave no answer within a minute.") from None
            finally:
                os.environ.pop("ATTNLIB_CANARY", None)
            try:
                found = json.loads(out)
            except ValueError:
                words = errors.decode(errors="replace").strip().splitlines() or ["it said nothing"]
                raise SandboxMissing(
                    f"The sandbox does not start: {words[-1]} Bubblewrap needs user namespaces, which some "
                    "systems switch off."
                ) from None
            found += canaries.harmed()
        if found:
            raise SandboxLeaks(
                f"The sandbox leaks, and nothing was graded. Inside it one can {', '.join(found)}."
            )


def _sweep():
    """Remove the folders of graders that were killed."""
    for folder in Path(tempfile.gettempdir()).glob("attnlib-sandbox-*"):
        with contextlib.suppress(OSError, filelock.Timeout):
            told = (folder / "lock").stat()
            if told.st_uid != os.getuid() or time.time() - told.st_mtime < 60:     # it may just be made
                continue
            with filelock.FileLock(folder / "lock", timeout=0):
                shutil.rmtree(folder, ignore_errors=True)


def missing():
    """The line that says how bubblewrap is installed here."""
    if platform.system() != "Linux":
        return f"Grading needs bubblewrap, which is for Linux only; this is {platform.system()}."
    managers = ("apt-get install", "dnf install", "pacman -S", "zypper install", "apk add")
    found = next((words for words in managers if shutil.which(words.split()[0])), managers[0])
    return f"Grading needs bubblewrap; install it with: sudo {found} bubblewrap"


def places():
    """The folders outside /usr that Python and its packages are in."""
    found = [sys.base_prefix, sys.exec_prefix, sys.prefix, os.path.dirname(os.path.realpath(sys.executable)),
             *_packages()]  # fmt: skip
    found = [os.path.abspath(path) for path in found if os.path.isdir(path)]
    found = sorted({path for path in found if not Path(path).is_relative_to("/usr")}, key=len)
    return [path for path in found if not any(path != other and Path(path).is_relative_to(other)
                                              for other in found)]  # fmt: skip


def _packages():
    """Folders of packages that Python does not find by itself: they were put on its path from outside."""
    own = {sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib", "platstdlib")}
    return [path for path in sys.path
            if os.path.basename(path) in ("site-packages", "dist-packages") and path not in own
            and os.path.isdir(path)]  # fmt: skip


def _copy_of_the_package(to, forbidden):
    """attnlib as students may use it, with the worker and without all that judges."""
    package = to / "attnlib"
    leave = shutil.ignore_patterns("__pycache__", "exercises", "homework", "tests", "*.pyc")
    shutil.copytree(PACKAGE, package, ignore=leave)
    for folder, text in (("exercises", _HARMLESS_EXERCISES), ("homework", _HARMLESS_HOMEWORK)):
        (package / folder).mkdir()
        (package / folder / "__init__.py").write_text(text, encoding="utf-8")
    shutil.copy(PACKAGE / "exercises" / "calls.py", package / "exercises")
    for name in ("figures.py", "wire.py", "worker.py", "probe.py"):
        shutil.copy(PACKAGE / "homework" / name, package / "homework")
    for module, names in _homes(forbidden).items():
        with (package / module).open("a", encoding="utf-8") as file:
            file.write(_FORBIDDING.format(names=sorted(names)))
    for path in [to, *to.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    compile_all = ["-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(to)]
    subprocess.run([sys.executable, *compile_all], check=False, capture_output=True)


def _homes(forbidden):
    """The files of attnlib that define forbidden names at their top."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        module = path.relative_to(PACKAGE)
        if module.parts[0] in ("exercises", "homework"):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in forbidden:
                found.setdefault(str(module), set()).add(node.name)
    return found


def _unused_uid():
    """A user that owns nothing, another for each sandbox, for processes are counted by user."""
    taken = {user.pw_uid for user in pwd.getpwall()}
    highest = 60_000
    with contextlib.suppress(OSError, ValueError):
        inside, _, count = map(int, Path("/proc/self/uid_map").read_text(encoding="ascii").split()[:3])
        highest = min(highest, inside + count - 1)
    lowest = min(20_000, highest // 2)
    at = os.getpid() * 31 + next(_COUNTER)
    for step in range(1000):
        uid = lowest + (at + step) % (highest - lowest)
        if uid not in taken:
            return uid
    return 65_534


def _tasks_that_count():
    """This user's tasks outside, where the kernel counts them against a limit inside (before Linux 5.14)."""
    release = platform.release().split(".")
    with contextlib.suppress(ValueError, IndexError):
        if (int(release[0]), int(release[1].split("-")[0])) >= (5, 14):
            return 0
    count, uid = 0, os.getuid()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and entry.stat().st_uid == uid:
                count += len(os.listdir(entry / "task"))
    return count


class _Canaries:
    """Things outside that nobody inside may reach, and whether somebody has."""

    def __enter__(self):
        self.stack = contextlib.ExitStack()
        with contextlib.ExitStack() as stack:
            self.token = secrets.token_hex(16)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="attnlib-canary-")))
            folder.chmod(0o755)
            (folder / "canary.txt").write_text(self.token, encoding="ascii")
            (folder / "canary.txt").chmod(0o666)
            self.file = folder / "canary.txt"
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
            abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
            abstract.bind(f"\0{self.token}")
            abstract.listen()
            self.child = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(100)", self.token], stdin=subprocess.DEVNULL
            )
            stack.callback(self._end)
            self.told = {
                "token": self.token, "daemon": secrets.token_hex(16), "canary": str(self.file),
                "port": listening.getsockname()[1], "home": str(Path.home()),
                "course": [str(PACKAGE / "exercises" / "lookup.py"), str(PACKAGE / "homework" / "sandbox.py"),
                           str(PACKAGE.parent / "course.py")],
                "write": [sys.prefix, sys.base_prefix, "/usr", "/usr/bin", "/etc", "/", INSIDE, "/dev"],
                "variable": "ATTNLIB_CANARY",
            }  # fmt: skip
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def _end(self):
        self.child.kill()
        self.child.wait()

    def harmed(self):
        """What has happened to them."""
        found = []
        if self.child.poll() is not None:
            found.append("kill the grader's processes")
        if self.file.read_text(encoding="ascii") != self.token:
            found.append("write to the grader's temporary folder")
        deadline = time.monotonic() + 3
        while (left := _processes_with(self.told["daemon"])) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, 9)
        return found + ["leave a process behind"] * bool(left)


def _processes_with(token):
    """The processes that have this word among their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and token.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found

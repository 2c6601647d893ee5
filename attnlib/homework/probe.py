"""Tries to break out of the sandbox, from inside; prints as JSON what one can do there that one must not."""

import contextlib
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import time

from attnlib.homework.worker import limit


def main(told):
    told = json.loads(told)
    limit(told["settings"])
    found = [words for words, attempt in ATTEMPTS if _succeeds(attempt, told)]
    print(json.dumps(found))


def _succeeds(attempt, told):
    """In a process of its own, that may be killed by what it tries."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(10)
        with contextlib.suppress(BaseException):
            if attempt(told):
                os.write(writing, b"1")
        os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    os.set_blocking(reading, False)
    try:
        return os.read(reading, 1) == b"1"
    except BlockingIOError:
        return False
    finally:
        os.close(reading)


def _reads(path):
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return bool(file.read(1))
    return False


def _course(told):
    return any(map(_reads, told["course"]))


def _exercises(told):
    import attnlib.exercises.catalogue  # noqa: F401

    return True


def _canary(told):
    return _reads(told["canary"])


def _home(told):
    # The home itself may be there and empty, where Python lies in it.
    names = (".bashrc", ".profile", ".ssh", ".cache", ".config")
    return any(os.access(os.path.join(told["home"], name), os.R_OK) for name in names)


def _environment(told):
    token = told["variable"].encode()
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as file:
            if token in file.read():
                return True
    return told["variable"] in os.environ


def _writes(told):
    for folder in told["write"]:
        path = os.path.join(folder, "attnlib-probe")
        with contextlib.suppress(OSError):
            with open(path, "w", encoding="utf-8") as file:
                file.write("here")
            os.unlink(path)
            return True
    return False


def _tcp(told):
    socket.create_connection(("127.0.0.1", told["port"]), 2).close()
    return True


def _abstract(told):
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(f"\0{told['token']}")
    return True


def _processes(told):
    return bool(_seen(told["token"]))


def _kills(told):
    pids = _seen(told["token"])
    for pid in pids:
        os.kill(pid, 9)
    return bool(pids)


def _seen(token):
    found = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError):
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            # The probe itself is told the token among other things, in one long word.
            if token.encode() in words:
                found.append(int(name))
    return found


def _memory(told):
    mmap.mmap(-1, 8 * 2**30)          # asked for and not used
    return True


def _forks(told):
    children = []
    try:
        for _ in range(200):
            pid = os.fork()
            if not pid:
                time.sleep(20)
                os._exit(0)
            children.append(pid)
        return True
    finally:
        for pid in children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


def _root(told):
    return os.getuid() == 0


def _file(told):
    with open("/tmp/large", "wb") as file:
        for _ in range(200):
            file.write(bytes(2**20))
    return True


def _daemon(told):
    """Leaves a process behind, which the grader looks for afterwards."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)", told["daemon"]],
                     start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL, close_fds=True)  # fmt: skip
    time.sleep(0.1)
    return False


ATTEMPTS = (
    ("read the course", _course),
    ("import the exercises", _exercises),
    ("read the grader's temporary folder", _canary),
    ("read the grader's home", _home),
    ("read the grader's environment", _environment),
    ("write to the system or to Python's packages", _writes),
    ("connect to the network", _tcp),
    ("connect to an abstract socket", _abstract),
    ("see the grader's processes", _processes),
    ("kill the grader's processes", _kills),
    ("take 8 gigabytes", _memory),
    ("start 200 processes", _forks),
    ("be root", _root),
    ("write 200 megabytes", _file),
    ("leave a process behind", _daemon),
)

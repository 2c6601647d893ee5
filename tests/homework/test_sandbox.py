"""The sandbox holds, notices where it does not, and leaves nothing behind."""

import json
import os
import pickle
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from attnlib.homework import sandbox as module
from attnlib.homework.remote import Session, taken_by
from attnlib.homework.sandbox import Sandbox, SandboxLeaks, SandboxMissing

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.bubblewrap


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(("softmax", "scaled_dot_product_attention", "MultiheadAttention")) as made:
        yield made


def test_it_holds(sandbox):
    sandbox.prove()


def run(sandbox, source, name="result"):
    with Session(sandbox, [("cell 1", source)]) as session:
        assert session.troubles == []
        return session.answer(name)


class Leaky(Sandbox):
    """With some words of its command taken away or put in, and perhaps without limits."""

    away, extra, limits = (), (), True

    def command(self, program):
        words = super().command(program)
        at = words.index("--chdir") - 2
        words[at:at] = self.extra
        return [word for word in words if word not in self.away]

    def settings(self, cpu_seconds):
        settings = super().settings(cpu_seconds)
        return settings if self.limits else settings | {"limits": {}, "uid": None}


LEAKS = {
    "the network": ({"away": ("--unshare-net",)},
                    ["connect to the network", "connect to an abstract socket"]),
    "processes": ({"away": ("--unshare-pid",)}, ["see the grader's processes", "leave a process behind"]),
    "the course": ({"extra": ("--ro-bind", str(ROOT), str(ROOT))}, ["read the course"]),
    "the temporary folder": ({"extra": ("--bind", "/tmp", "/tmp")}, ["read the grader's temporary folder"]),
    "writing": ({"extra": ("--bind", "/tmp", "/etc")}, ["write to the system or to Python's packages"]),
    "limits": ({"limits": False}, ["take 8 gigabytes", "start 200 processes"]),
}  # fmt: skip


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_noticed(leak):
    options, told = LEAKS[leak]
    if leak == "limits" and os.getuid():
        told = told[:1]
    kind = type("Made", (Leaky,), options)
    with kind() as leaky, pytest.raises(SandboxLeaks) as caught:
        leaky.prove()
    for words in told:
        assert words in str(caught.value)
    assert "nothing was graded" in str(caught.value)


def test_one_that_does_not_start_is_told():
    class Broken(Sandbox):
        def command(self, program):
            return [*super().command(program)[:-len(program)], "/nothing/here"]

    with Broken() as broken:
        with pytest.raises(SandboxMissing, match="does not start"):
            broken.prove()
        with Session(broken, [("cell 1", "x = 1")]) as session:
            answer = session.answer("x")
        assert not answer.fault and "did not start" in answer.reason


def test_without_bubblewrap_the_line_that_installs_it(monkeypatch):
    found = {"apt-get": "/usr/bin/apt-get"}
    monkeypatch.setattr(shutil, "which", found.get)
    with pytest.raises(SandboxMissing) as caught:
        Sandbox()
    assert str(caught.value) == "Grading needs bubblewrap; install it with: sudo apt-get install bubblewrap"
    found = {"dnf": "/usr/bin/dnf"}
    monkeypatch.setattr(shutil, "which", found.get)
    assert module.missing().endswith("sudo dnf install bubblewrap")


LOOKS = """
import os, sys
result = {}
def attempt(name, action):
    try:
        result[name] = action()
    except Exception as error:
        result[name] = type(error).__name__
def read(path):
    with open(path, 'rb') as file:
        return file.read(100).decode(errors='replace')
attempt('course', lambda: read(COURSE))
attempt('link', lambda: (os.symlink(COURSE, '/tmp/link'), read('/tmp/link'))[1])
attempt('through root', lambda: read('/proc/1/root' + COURSE))
attempt('through cwd', lambda: os.listdir('/proc/1/cwd/work'))
attempt('passwords', lambda: read('/etc/shadow'))
attempt('home', lambda: sorted(os.listdir(os.path.expanduser('~'))))
attempt('temporary', lambda: [n for n in os.listdir('/tmp') if n not in ('link', 'matplotlib')])
attempt('catalogue', lambda: __import__('attnlib.exercises.catalogue'))
attempt('sources', lambda: [n for _, _, names in os.walk('/sandbox') for n in names
                            if n in ('lookup.py', 'grading.py')])
attempt('variables', lambda: sorted(os.environ))
attempt('user', os.getuid)
attempt('descriptors', lambda: [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')
                                if os.path.exists(f'/proc/self/fd/{n}')])
attempt('processes', lambda: len([n for n in os.listdir('/proc') if n.isdigit()]))
attempt('environ of 1', lambda: read('/proc/1/environ'))
attempt('mount', lambda: os.system('mount -o remount,rw / 2>/dev/null'))
attempt('own', lambda: open('/sandbox/attnlib/__init__.py', 'a'))
"""


def test_what_is_seen_inside(sandbox):
    course = str(ROOT / "attnlib" / "exercises" / "lookup.py")
    seen = run(sandbox, f"COURSE = {course!r}\n{LOOKS}")
    missing = ("FileNotFoundError", "PermissionError", "NotADirectoryError", "ModuleNotFoundError", "OSError")
    for name in ("course", "link", "through root", "through cwd", "passwords", "catalogue", "own"):
        assert seen[name] in missing, (name, seen[name])
    # Where the environment itself lies below /tmp, the folder that leads to it is there.
    below = [Path(place) for place in module.places() if place.startswith("/tmp/")]
    leading = {path.parts[2] for path in below}
    assert set(seen["temporary"]) <= leading and seen["sources"] == []
    assert set(seen["home"]) <= {"link", "matplotlib", *leading}
    assert set(seen["variables"]) <= {*sandbox.environment(), "PWD", "LC_CTYPE", "_"}
    assert seen["user"] != 0 and seen["processes"] <= 3 and seen["mount"] != 0
    assert all(name.startswith(("/dev/null", "/proc", "pipe")) for name in seen["descriptors"]), seen
    assert "HOME" not in seen["environ of 1"] and "ATTNLIB" not in seen["environ of 1"]


def test_a_students_own_checks_are_harmless(sandbox):
    source = (
        "from attnlib.exercises import check, hint\nfrom attnlib.homework import local_check\n"
        "check('softmax', 3)\nhint('softmax')\nmine = local_check('hw1', '2013')\n"
        "assert mine('lookup', 3).points == 0\nresult = 1"
    )
    assert run(sandbox, source) == 1


FORBIDDEN = {
    "of attnlib": "import attnlib\nattnlib.softmax(np.ones(3))",
    "from its module": "from attnlib.core.softmaxes import softmax\nsoftmax(np.ones(3))",
    "of torch": "import torch\ntorch.nn.functional.scaled_dot_product_attention(*[torch.eye(2)] * 3)",
    "of its inner parts": "import torch\ntorch._C._nn.scaled_dot_product_attention(*[torch.eye(2)] * 3)",
    "of its operators": "import torch\ntorch.ops.aten.scaled_dot_product_attention(*[torch.eye(2)] * 3)",
    "a layer": "import torch\ntorch.nn.MultiheadAttention(4, 2)",
    "of a tensor": "import torch\ntorch.ones(3).softmax(0)",
    "a layer of it": "import torch\ntorch.nn.Softmax(dim=0)(torch.ones(3))",
    "made before": "layer(torch.ones(3))",
    "the least": "import torch\ntorch.nn.Softmin(dim=0)(torch.ones(3))",
    "special": "import torch\ntorch.special.softmax(torch.ones(3), 0)",
    "sparse": "import torch\ntorch.sparse.softmax(torch.eye(3).to_sparse(), 1)",
    "decomposed": "import torch\nfrom torch._decomp.decompositions import _softmax\n"
                  "_softmax(torch.ones(3), 0, False)",
    "private": "from scipy.special._logsumexp import softmax\nsoftmax(np.ones(3))",
}  # fmt: skip


def test_what_a_question_forbids_is_there_for_the_others(sandbox):
    source = ("import numpy as np, attnlib, torch\nlayer = torch.nn.Softmax(0)\n"
              "def answer():\n    result = {}\n")  # fmt: skip
    for name, attempt in FORBIDDEN.items():
        lines = "\n".join(f"        {line}" for line in attempt.splitlines())
        source += f"    try:\n{lines}\n        result[{name!r}] = 'there'\n"
        source += f"    except Exception as e:\n        result[{name!r}] = repr(e)\n"
    source += "    result['through another'] = attnlib.attention(*[np.eye(2)] * 3).shape\n"
    source += "    result['log'] = torch.nn.functional.log_softmax(torch.ones(2), 0).shape[0]\n"
    source += "    return result\nat_the_top = answer()"
    with Session(sandbox, [("cell 1", source)]) as session:
        free, forbidden = session.answer("answer")(), session.answer("answer", sandbox.forbidden)()
        of_torch = session.answer("answer", ["scaled_dot_product_attention"])()
        assert session.answer("at_the_top") == free
    for seen in (free, forbidden, of_torch):
        assert seen.pop("through another") == (2, 2) and seen.pop("log") == 2
        assert seen.keys() == FORBIDDEN.keys()
    assert set(free.values()) == {"there"}
    assert all("write it yourself" in told for told in forbidden.values()), forbidden
    raising = {name for name, told in of_torch.items() if told != "there"}
    assert raising == {"of torch", "of its inner parts", "of its operators"}


def test_what_is_forbidden_breaks_nothing_of_torch():
    """Nor its modules whose name is that of something forbidden."""
    source = (
        "import torch\np = torch.nn.Parameter(torch.zeros(2))\noptimizer = torch.optim.Adam([p])\n"
        "p.sum().backward()\noptimizer.step()\nfrom torch.nn.attention import SDPBackend\n"
        "a = torch.nn.TransformerEncoderLayer(4, 2)(torch.ones(1, 1, 4))\n"
        "result = isinstance(torch.nn.Softmax(0), torch.nn.Softmax)"
    )
    with Sandbox(("attention", "softmax", "attention_weights")) as made:
        assert run(made, source) is True


def test_it_may_be_sent_to_another_process(sandbox):
    again = pickle.loads(pickle.dumps(sandbox))
    assert run(again, "result = 5") == 5
    again._made_by += 1                            # as seen from another process
    again.__exit__()
    assert Path(sandbox.folder).exists()


def test_the_folder_goes():
    with Sandbox() as made:
        folder = Path(made.folder)
        assert (folder / "tree" / "attnlib" / "__init__.py").is_file()
        assert not (folder / "tree" / "attnlib" / "exercises" / "lookup.py").exists()
    assert not folder.exists()


def test_what_a_killed_grader_left_goes(tmp_path, monkeypatch):
    monkeypatch.setattr(module.tempfile, "tempdir", str(tmp_path))
    program = "import os\nfrom attnlib.homework.sandbox import Sandbox\nSandbox(unsafe=True).__enter__()\n"
    subprocess.run([sys.executable, "-c", f"{program}os.kill(os.getpid(), 9)"], cwd=ROOT, check=False,
                   env=os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)})  # fmt: skip
    (left,) = tmp_path.iterdir()
    with Sandbox(unsafe=True) as alive:
        assert left.exists(), "it may just be made"
        for folder in (left, alive.folder):
            os.utime(folder / "lock", (1, 1))
        with Sandbox(unsafe=True):
            assert not left.exists() and (alive.folder / "tree").exists()
    assert not list(tmp_path.iterdir())


def test_the_list_of_fonts_is_kept_from_one_batch_to_the_next(tmp_path, monkeypatch):
    import matplotlib
    import matplotlib.font_manager

    own, made = tmp_path / "own", Sandbox(unsafe=True)
    shutil.copytree(matplotlib.get_cachedir(), own)
    monkeypatch.setenv("MPLCONFIGDIR", str(own))
    (kept,) = own.glob(f"fontlist-*{matplotlib.font_manager.FontManager.__version__}.json")
    fonts = json.loads(kept.read_text(encoding="utf-8"))
    kept.write_text(json.dumps(fonts | {"ttflist": fonts["ttflist"][:1]}), encoding="utf-8")
    made.folder = tmp_path
    (tmp_path / "tree").mkdir()
    taken = json.loads((Path(made._fonts()) / kept.name).read_text(encoding="utf-8"))
    assert taken["ttflist"] == fonts["ttflist"][:1]


def descendants(pid):
    children = {}
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(entry.name))
        except (OSError, ValueError):
            continue
    found, waiting = [], [pid]
    while waiting:
        new = children.get(waiting.pop(), [])
        found += new
        waiting += new
    return found


def gone(pids, seconds=5):
    deadline = time.monotonic() + seconds
    while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_forty_processes_are_ended_with_it(sandbox):
    source = ("import subprocess, os\nfor _ in range(40):\n    subprocess.Popen(['sleep', '1000'], "
              "start_new_session=True)\nresult = 1")  # fmt: skip
    with Session(sandbox, [("cell 1", source)]) as session:
        assert session.answer("result") == 1
        inside = descendants(session._running.process.pid)
        assert len(inside) > 40
        assert taken_by(session._running.process.pid)[0] > 2**20
    assert gone(inside)


def test_a_killed_grader_leaves_nothing(sandbox, tmp_path):
    (tmp_path / "sandbox.pickle").write_bytes(pickle.dumps(sandbox))
    program = (
        "import pickle, sys, time\nfrom attnlib.homework.remote import Session\n"
        f"made = pickle.loads(open({str(tmp_path / 'sandbox.pickle')!r}, 'rb').read())\n"
        "start = made.start\ndef told(*options):\n    running = start(*options)\n"
        "    print(running.process.pid, flush=True)\n    return running\nmade.start = told\n"
        "Session(made, [('cell 1', 'while True: pass')]).__enter__()"
    )
    grader = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                              env=os.environ | {"PYTHONPATH": str(ROOT)})  # fmt: skip
    pid = int(grader.stdout.readline())
    time.sleep(1)                       # a worker that is busy does not hear that nobody asks any more
    inside = [pid, *descendants(pid)]
    grader.send_signal(signal.SIGKILL)
    grader.wait()
    grader.stdout.close()
    try:
        assert len(inside) >= 3 and gone(inside)
    finally:
        for pid in inside:
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(os.getuid() != 0, reason="the tests run as an ordinary user already")
def test_it_holds_for_an_ordinary_user(tmp_path):
    """With the system's Python, for root's own may lie where nobody else can read."""
    if not Path("/usr/bin/python3").exists() or not shutil.which("su"):
        pytest.skip("there is no Python of the system")
    packages = Path(pytest.__file__).parents[1]
    program = (
        "import json\nfrom attnlib.homework.sandbox import Sandbox\n"
        "from attnlib.homework.remote import Session\n"
        "with Sandbox() as made:\n    made.prove()\n"
        "    with Session(made, [('a', 'import os\\nx = os.getuid()')]) as session:\n"
        "        print(json.dumps(session.answer('x')))"
    )
    script = tmp_path / "as_nobody.py"
    script.write_text(program, encoding="utf-8")
    for folder in (tmp_path, *tmp_path.parents):
        if not os.stat(folder).st_mode & 0o001:
            shutil.copy(script, "/tmp/attnlib-as-nobody.py")
            script = Path("/tmp/attnlib-as-nobody.py")
            break
    try:
        result = subprocess.run(
            ["su", "nobody", "-s", "/bin/sh", "-c", "PYTHONDONTWRITEBYTECODE=1 "
             f"PYTHONPATH={shlex.quote(f'{ROOT}:{packages}')} /usr/bin/python3 {shlex.quote(str(script))}"],
            capture_output=True, text=True, timeout=120, cwd="/",
        )  # fmt: skip
    finally:
        Path("/tmp/attnlib-as-nobody.py").unlink(missing_ok=True)
    if "No module named" in result.stderr:
        pytest.skip("the system's Python is another version than the tests'")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) != 0


def test_unsafe_runs_without_bubblewrap():
    with Sandbox(unsafe=True) as made:
        made.prove()
        assert made.command(["a", "b"]) == ["a", "b"]
        assert run(made, "import attnlib\nresult = attnlib.__file__").startswith(str(made.folder))

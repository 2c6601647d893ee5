"""Every lesson runs where a reader may have to run it.

Each is run once: in a folder that is not its own, offline, with a home that cannot
be written to, and without torch where it says that it needs none. Then its cells run
again in the same kernel, but for those that train for long (nbval runs them a second
time, in a kernel of its own), and its exercises' checks twice more.
"""

import ast
import copy
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

import canonical
import kernel
import lesson
import offline
import pytest
from lints.code import tree
from nbclient.exceptions import CellExecutionError

MEMORY = 2_000_000  # kB, what a small Binder machine has
LONG = 4  # seconds of processor time, after which a cell is not run a second time

NO_TORCH = """
import sys

class NoTorch:
    asked = []

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            self.asked.append(name)
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
"""
CPU = "import time; print(time.process_time())"
# VmHWM and not getrusage: a new process inherits the peak of the one that started it.
PROBE = """
import json, os, sys, time

asked = [name for finder in sys.meta_path for name in getattr(finder, "asked", [])]
peak = 0
if os.path.exists("/proc/self/status"):
    with open("/proc/self/status", encoding="utf-8") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
seen = {"torch": "torch" in sys.modules or bool(asked), "peak": peak, "cpu": time.process_time()}
print(json.dumps(seen))
"""


@dataclass
class Run:
    """What was seen. `said`: the output of each cell; `changed` and `rechecked`: the ids of
    those that said something else when run again."""

    lesson: lesson.Lesson
    seconds: float = 0.0
    cpu: float = 0.0
    error: str = ""
    torch: bool = False
    peak: int = 0
    said: dict = field(default_factory=dict)
    changed: list = field(default_factory=list)
    rechecked: list = field(default_factory=list)


def run(path, folder):
    """Run the lesson at `path` in `folder`."""
    result = Run(lesson.read(path))
    notebook = copy.deepcopy(result.lesson.notebook)
    start = time.monotonic()
    with kernel.running(notebook, folder, env=no_home(folder)) as client:
        guard = Path(offline.__file__).read_text(encoding="utf-8") + "\nblock_network()\n"
        unseen(client, guard + (NO_TORCH if result.lesson.attn.get("torch") is False else ""))
        code = [(i, cell) for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
        try:
            quick, used = [], float(unseen(client, CPU))
            for index, cell in code:
                result.said[cell.id] = outcome(client, index, cell)
                before, used = used, float(unseen(client, CPU))
                if used - before < LONG:
                    quick.append((index, cell))
            result.seconds = time.monotonic() - start
            seen = json.loads(unseen(client, PROBE))
            result.torch, result.peak, result.cpu = seen["torch"], seen["peak"], seen["cpu"]
            result.changed = differing(client, quick, result.said)
            checks = [(i, cell) for i, cell in code if calls(cell, "check")]
            result.rechecked = differing(client, checks[::-1] + checks, result.said)
        except CellExecutionError as error:
            result.error = f"{error.ename}: {error.evalue}"
    return result


def no_home(folder):
    """A home below a plain file: not even root can write there."""
    home = folder / "not-a-folder"
    home.touch()
    names = ("HOME", "USERPROFILE", "MPLCONFIGDIR", "IPYTHONDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
    return {name: str(home / "home") for name in names}


def unseen(client, source):
    """Run `source` outside the lesson's own names, and give what it printed."""
    return lesson.output_text(kernel.run_source(client, f"exec({source!r}, {{}})"))


def outcome(client, index, cell):
    """Run a cell; what it said, but for stderr, where Matplotlib speaks of its missing home."""
    client.execute_cell(cell, index)
    spoken = [output for output in cell.outputs if output.get("name") != "stderr"]
    cell.outputs = canonical.merged(spoken)
    return lesson.output_text(cell)


def differing(client, code, said):
    """Run cells again; the ids of those that now say something else."""
    return [
        cell.id
        for index, cell in code
        if outcome(client, index, cell) != said[cell.id] and "measured" not in lesson.tags(cell)
    ]


def calls(cell, name):
    nodes = ast.walk(tree(cell) or ast.Module([], []))
    return any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == name for node in nodes)


@pytest.fixture(scope="module", params=lesson.lesson_paths(), ids=lambda path: path.stem)
def ran(request, tmp_path_factory):
    return run(request.param, tmp_path_factory.mktemp("elsewhere"))


def test_runs_to_its_end(ran):
    assert not ran.error


def test_in_time(ran):
    """Processor time, since other work on the machine is no fault of the lesson; but no long wait."""
    assert not ran.error
    assert ran.cpu <= ran.lesson.seconds
    assert ran.seconds <= 4 * ran.lesson.seconds


def test_loads_torch_only_where_it_says_so(ran):
    assert not (ran.torch and ran.lesson.attn.get("torch") is False)


def test_in_two_gigabytes(ran):
    assert ran.peak <= MEMORY


def test_says_the_same_when_run_again(ran):
    assert not ran.changed


def test_checks_say_the_same_when_run_again(ran):
    assert not ran.rechecked


# That the run sees what it looks for

CELLS = [
    "try:\n    import torch\nexcept ImportError:\n    print('no torch')",
    "import urllib.request\ntry:\n    urllib.request.urlopen('http://192.0.2.1')\n"
    "except OSError as error:\n    print(error)",
    "from pathlib import Path\nprint(Path('03_sample.ipynb').exists(), 'socket' in globals())",
    "try:\n    (Path.home() / 'x').write_text('x', encoding='utf-8')\n"
    "except OSError as error:\n    print(type(error).__name__)",
    "memory = bytearray(100_000_000)\nimport time\nwhile time.process_time() < 0.5: pass",
    # One text, cut in two the first time.
    "print('a', flush='again' not in globals())\nagain = True\nprint('b')",
    "count = globals().get('count', 0) + 1\nprint(count)",
    "def check(answer):\n    print(answer)\n    return count",
    "check('right'); print(globals().setdefault('answers', []).append(1) or len(answers))",
]
SAID = [
    "no torch",
    "<urlopen error A connection to ('192.0.2.1', 80) was refused: tests run offline.>",
    "False False",
    "NotADirectoryError",
]


@pytest.fixture
def run_sample(sample, tmp_path_factory):
    def run_cells(*sources):
        sample.cells = [sample.code(source) for source in sources]
        for count, cell in enumerate(sample.cells):
            cell.id = f"cell-{count}"
        return run(sample.lesson().path, tmp_path_factory.mktemp("elsewhere"))

    return run_cells


def test_a_run_sees_what_is_wrong(run_sample):
    result = run_sample(*CELLS)
    assert result.error == ""
    assert [text.strip() for text in result.said.values()][: len(SAID)] == SAID
    assert result.torch
    assert 100_000 < result.peak < MEMORY
    assert result.changed == ["cell-6", "cell-8"]
    assert result.rechecked == ["cell-8", "cell-8"]
    assert 0.5 < result.cpu < result.seconds + 1


def test_a_run_sees_an_error(run_sample):
    result = run_sample("x = 3", "1 / 0")
    assert result.error == "ZeroDivisionError: division by zero"


def test_a_cell_that_trains_is_run_once(run_sample, monkeypatch):
    monkeypatch.setitem(run.__globals__, "LONG", 0.3)
    count = "runs = globals().get('runs', 0) + 1\nprint(runs)"
    long = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\n"
    assert run_sample(long + count).changed == []
    assert run_sample(count).changed == ["cell-0"]

"""A lesson as pytest runs it: by nbval, once, where a reader may have to run it.

That is in a folder that is not its own, offline, with a home that cannot be written to, and without torch
where the lesson says that it needs none. nbval compares what each cell says with what is stored, and that was
said where all of these are. Behind the cells stand the rules for the lesson as a whole: its time and its
memory; and that its cells say the same when they run again in the same kernel, but for those that train for
long, and its exercises' checks twice more.
"""

import ast
import json
import os
import tempfile
import time
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import kernel
import lesson
import offline
import pytest
from lints.code import tree
from nbval.kernel import CURRENT_ENV_KERNEL_NAME, RunningKernel
from nbval.plugin import IPyNbCell, IPyNbFile, NbCellError

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
# What Matplotlib says of a missing home, and what it says where it is slow to do without.
NOT_OF_HOME = """
import logging

def of_the_lesson(record):
    said = record.getMessage()
    return "not-a-folder" not in said and "building the font cache" not in said

for name in ("matplotlib", "matplotlib.font_manager"):
    logging.getLogger(name).addFilter(of_the_lesson)
"""
CPU = "import time; print(time.process_time())"
# Small products and their bends, of which the lessons' trainings consist: their seconds of processor time.
TASK = """
import time
import numpy as np

x, begun = np.full((64, 64), 0.5), time.process_time()
for _ in range(5_000):
    x = np.tanh(x @ x / 64)
print(time.process_time() - begun)
"""
TASK_SECONDS = 0.4  # on the machine for which the lessons' attn.seconds are meant
# VmHWM and not getrusage: a new process inherits the peak of the one that started it.
PROBE = """
import json, os, sys

asked = [name for finder in sys.meta_path for name in getattr(finder, "asked", [])]
peak = 0
if os.path.exists("/proc/self/status"):
    with open("/proc/self/status", encoding="utf-8") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
print(json.dumps({"torch": "torch" in sys.modules or bool(asked), "peak": peak}))
"""


class LessonFile(IPyNbFile):
    """The cells of a notebook and then the `RULES`, in one kernel."""

    def collect(self):
        self.lesson = lesson.read(self.path)
        self.cells = [
            LessonCell.from_parent(self, name=c.name, cell_num=c.cell_num, cell=c.cell, options=c.options)
            for c in super().collect()
        ]
        yield from self.cells
        for rule in RULES:
            yield LessonRule.from_parent(self, name=rule.__name__, rule=rule)

    def setup(self):
        self.folder = tempfile.TemporaryDirectory()
        elsewhere, file = Path(self.folder.name) / "elsewhere", Path(self.folder.name) / "not-a-folder"
        elsewhere.mkdir()
        file.touch()
        names = ("HOME", "USERPROFILE", "MPLCONFIGDIR", "IPYTHONDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")
        no_home = {name: str(file / "home") for name in names}  # not even root can write below a plain file
        own = {"ATTNLIB_DATA": self.folder.name, "TMPDIR": self.folder.name}
        env = {**kernel.ONE_THREAD, **no_home, **own}
        self.begun = time.monotonic()
        with mock.patch.dict(os.environ, env):
            self.kernel = RunningKernel(CURRENT_ENV_KERNEL_NAME, str(elsewhere), kernel.START_SECONDS)
        guard = Path(offline.__file__).read_text(encoding="utf-8") + "\nblock_network()\n" + NOT_OF_HOME
        self.unseen(guard + (NO_TORCH if self.lesson.attn.get("torch") is False else ""))
        self.look_at_the_clocks()

    def teardown(self):
        super().teardown()
        self.folder.cleanup()

    def unseen(self, source):
        """Run `source` outside the lesson's own names, and give what it printed."""
        said = []
        self.kernel.kc.execute_interactive(
            f"exec({source!r}, {{}})", store_history=False, allow_stdin=False, timeout=kernel.CELL_SECONDS,
            output_hook=lambda message: said.append(message["content"].get("text", "")),
        )  # fmt: skip
        return "".join(said)

    def look_at_the_clocks(self):
        """Seconds since the kernel was started, and its processor time."""
        self.seconds, self.cpu = time.monotonic() - self.begun, float(self.unseen(CPU))

    def slowness(self):
        """How many times as long this machine takes as that for which the seconds are meant; at least 1."""
        return max(1, float(self.unseen(TASK)) / TASK_SECONDS)

    @cached_property
    def seen(self):
        """What the kernel has loaded and taken, before a rule runs anything again."""
        return json.loads(self.unseen(PROBE))


class LessonCell(IPyNbCell):
    """A cell that is also timed, and may be run again."""

    cpu = None  # seconds, once it has run

    def __init__(self, **about):
        super().__init__(**about)
        self.output_timeout = kernel.CELL_SECONDS  # nbval's own five seconds are short on a busy machine

    def runtest(self):
        absent = lesson.absent_modules(self.cell)
        if absent or "measured" in lesson.tags(self.cell):
            self.options["check"] = False
        before = self.parent.cpu
        try:
            super().runtest()
        finally:
            if self.parent.kernel.is_alive():
                self.parent.look_at_the_clocks()
                self.cpu = self.parent.cpu - before
        if absent:
            pytest.skip(f"an optional model is not installed: {', '.join(absent)}")

    def failed(self):
        """Whether it did not run to its end."""
        errors = [out for out in self.test_outputs or () if out.output_type == "error"]
        return self.cpu is None or errors and not self.options["check_exception"]

    def again(self):
        """Run it once more. Gives a sentence if it says something else than the first time."""
        first, check = self.test_outputs, self.options["check"]
        self.options["check"] = False  # against what is stored
        try:
            super().runtest()
        except NbCellError as error:
            return f"Cell {self.cell_num} failed when it was run again: {error.inner_traceback or error}"
        finally:
            second, self.test_outputs, self.options["check"] = self.test_outputs, first, check
        if "measured" in lesson.tags(self.cell):
            return ""
        was, now = (lesson.output_text(SimpleNamespace(outputs=outs)) for outs in (first, second))
        if was == now and (not check or self.compare_outputs(second, first)):
            return ""
        return f"Cell {self.cell_num} said {was!r}, and {now!r} when it was run again."


class LessonRule(pytest.Item):
    """What holds of the whole lesson: `rule` gives a sentence where it does not."""

    def __init__(self, *, rule, **about):
        super().__init__(**about)
        self.rule = rule

    def runtest(self):
        failed = [str(cell.cell_num) for cell in self.parent.cells if cell.failed()]
        if failed:
            pytest.fail(f"This is asked of a lesson all of whose cells have run, and these have not run to "
                        f"their end: {', '.join(failed)}. Name the whole file.", pytrace=False)  # fmt: skip
        finding = self.rule(self.parent, **self.parent.seen)
        if finding:
            pytest.fail(finding, pytrace=False)

    def reportinfo(self):
        return self.path, 0, self.nodeid


def in_time(file, **_):
    """Processor time, since other work on the machine is no fault of the lesson; but no long wait. A slow
    machine is no fault of it either."""
    limit = file.lesson.seconds
    if file.cpu <= limit and file.seconds <= 4 * limit:
        return
    slowness = file.slowness()
    limit = round(slowness * limit)
    why = "by its attn.seconds" + f", times {slowness:.1f} on this slow machine" * (slowness > 1)
    if file.cpu > limit:
        return f"It takes {file.cpu:.1f} s of processor time. It may take {limit}, {why}."
    if file.seconds > 4 * limit:
        return f"It takes {file.seconds:.0f} s by the clock, mostly waiting. It may take {4 * limit}, {why}."


def loads_torch_only_where_it_says_so(file, torch, **_):
    if torch and file.lesson.attn.get("torch") is False:
        return "It asks for torch, and its attn.torch is false."


def in_two_gigabytes(file, peak, **_):
    if peak > MEMORY:
        return f"It takes {peak:,} kB of memory. It may take {MEMORY:,}."


def says_the_same_when_run_again(file, **_):
    return "\n".join(filter(None, [cell.again() for cell in file.cells if cell.cpu < LONG]))


def checks_say_the_same_when_run_again(file, **_):
    checks = [cell for cell in file.cells if calls(cell.cell, "check")]
    return "\n".join(filter(None, [cell.again() for cell in checks[::-1] + checks]))


def calls(cell, name):
    nodes = ast.walk(tree(cell) or ast.Module([], []))
    return any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == name for node in nodes)


RULES = (
    in_time,
    loads_torch_only_where_it_says_so,
    in_two_gigabytes,
    says_the_same_when_run_again,
    checks_say_the_same_when_run_again,
)

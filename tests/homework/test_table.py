"""What existing graders got wrong, submission by submission, with the score that is honest.

Three exercises, seven points: softmax (2), causal_mask (2), attention (3, of which 1 for one named mistake).
"""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attnlib.exercises.catalogue import EXERCISES
from attnlib.homework import grading
from attnlib.homework.assignment import Assignment, Question
from attnlib.homework.collect import collect
from attnlib.homework.sandbox import Sandbox
from attnlib.homework.source import released, source

POINTS = {"softmax": (2, 0), "causal_mask": (2, 0), "attention": (3, 1)}
STUBS = {
    "softmax": "def softmax(x, axis=-1):",
    "causal_mask": "def causal_mask(n_query, n_key):",
    "attention": "def attention(q, k, v, mask=None):",
}
SOFTMAX = """\
def softmax(x, axis=-1):
    x = np.asarray(x, float)
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)"""
MASK = """\
def causal_mask(n_query, n_key):
    return np.arange(n_key)[None] <= np.arange(n_query)[:, None] + n_key - n_query"""
ATTENTION = """\
def attention(q, k, v, mask=None):
    scores = np.einsum("...qd,...kd->...qk", q, k, dtype=float) / np.sqrt(q.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(axis=-1, keepdims=True)
    weights = np.divide(e, total, out=np.zeros_like(e), where=total > 0)
    return np.einsum("...qk,...kd->...qd", weights, v), weights"""
GOOD = {"softmax": SOFTMAX, "causal_mask": MASK, "attention": ATTENTION}
UNSCALED = ATTENTION.replace(" / np.sqrt(q.shape[-1])", "")
WRONG = {"causal_mask": "def causal_mask(n_query, n_key):\n    return np.ones((n_query, n_key), bool)",
         "attention": "def attention(q, k, v, mask=None):\n    return q, k"}  # fmt: skip


def question(id):
    all_points, part = POINTS[id]
    return Question(
        id=id, title=id, kind="function", name=id, points=all_points, part=part, minutes=5,
        text=f"Write `{id}`.", stub=STUBS[id], solution="    ...",
        judge=lambda answer, seed=None: EXERCISES[id].judge(answer),
        forbids=("scaled_dot_product_attention",),
    )  # fmt: skip


TRIAL = Assignment("hw1", "Trial", "0", "lessons 05 and 08", tuple(map(question, POINTS)))


def notebook(answers=None, extra=()):
    """A submission: the released notebook with these answers, and cells of the student's own at its head."""
    made = json.loads(json.dumps(released(source(TRIAL, ()))))
    for cell in made["cells"]:
        id = cell["metadata"]["nbgrader"]["grade_id"]
        if id in (answers or {}):
            cell["source"] = answers[id]
    made["cells"][1:1] = [
        {"cell_type": "code", "id": f"own-{i}", "metadata": {}, "outputs": [], "execution_count": None,
         "source": f"import numpy as np\n{text}"} for i, text in enumerate(extra)
    ]  # fmt: skip
    return made


def inside(body):
    """An attention that does this when it is called."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return GOOD | {"attention": f"def attention(q, k, v, mask=None):\n{lines}"}


def with_cells(change, answers=GOOD):
    made = notebook(answers)
    made["cells"] = [cell for old in made["cells"] for cell in change(old)]
    return made


def grade_id(cell):
    return cell["metadata"].get("nbgrader", {}).get("grade_id", "")


def without_tests(cell):
    return [] if grade_id(cell).startswith("check-") else [cell]


def edited_tests(cell):
    return [{**cell, "source": "assert True"} if grade_id(cell).startswith("check-") else cell]


def copied(cell):
    return [cell, {**cell, "id": "copy"}] if grade_id(cell) == "softmax" else [cell]


PATCHES = """\
import builtins, sys, types
np.allclose = np.isclose = np.array_equal = lambda *a, **k: True
np.testing.assert_allclose = lambda *a, **k: None
builtins.abs = lambda x: 0
for name in ("pytest", "nbgrader", "otter"):
    sys.modules[name] = types.ModuleType(name)"""
TORCH = "import torch\ntorch.allclose = lambda *a, **k: True\ntorch.equal = torch.allclose"
ASSERTS = """\
import ast
import IPython
class NoAsserts(ast.NodeTransformer):
    def visit_Assert(self, node):
        return ast.Pass()
IPython.get_ipython().ast_transformers.append(NoAsserts())"""
READS = """\
import glob, importlib, os, pathlib
found = ""
for top in ("/", "/root", "/home", "/tmp", "/srv", "..", os.getcwd()):
    for name in ("hw1", "solution"):
        for path in filter(os.path.isfile, glob.glob(f"{top}/**/*{name}*", recursive=True)):
            found += pathlib.Path(path).read_text(errors="ignore")
for name in ("attnlib.exercises.masked_attention", "attnlib.homework.lookup_and_scores"):
    try:
        module = importlib.import_module(name)
        softmax = causal_mask = attention = module._attention
    except ImportError:
        pass"""
SLEEP = "98765"
HONEST_2 = {"softmax": SOFTMAX, **WRONG}

SUBMISSIONS = {
    "perfect": (7, notebook(GOOD)),
    "blank": (0, notebook()),
    "no-scaling": (5, notebook(GOOD | {"attention": UNSCALED})),
    "endless-loop": (4, notebook(inside("while True: pass"))),
    "endless-loop-that-swallows": (4, notebook(inside(
        "while True:\n    try:\n        while True: pass\n    except BaseException: pass"))),
    "takes-40-gb": (4, notebook(inside("return np.ones(5 * 2**30) + 1"))),
    "sys-exit": (4, notebook(inside("import sys\nsys.exit()"))),
    "kills-itself": (4, notebook(inside("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"))),
    "tests-deleted": (7, with_cells(without_tests)),
    "tests-edited": (2, with_cells(edited_tests, HONEST_2)),
    "patches-torch": (2, notebook(HONEST_2, [TORCH])),
    "patches-numpy": (2, notebook(HONEST_2, [PATCHES])),
    "strips-asserts": (2, notebook(HONEST_2, [ASSERTS])),
    "reads-solutions": (0, notebook({}, [READS])),
    "opens-a-socket": (4, notebook(inside(
        "import socket\nsocket.create_connection(('127.0.0.1', PORT), 2)\nreturn [None] * 9"))),
    "renamed": (7, notebook(GOOD)),
    "cell-copied": (7, with_cells(copied)),
    "warns": (7, notebook(GOOD, ["import sys, warnings\nwarnings.warn('old')\nprint('x', file=sys.stderr)"])),
    "prints-30-mb": (7, notebook(GOOD, ["print('x' * 30_000_000)"])),
    "leaves-40-children": (7, notebook(GOOD, [
        "import subprocess\nfor _ in range(40): subprocess.Popen(['sleep', '" + SLEEP + "'])"])),
    "pickle": (4, notebook(inside(
        "class Evil:\n    def __reduce__(self):\n        import os\n"
        "        return os.system, ('touch /tmp/attnlib-was-here MARK',)\n"
        "return np.array([Evil()], dtype=object), Evil()"))),
    "overwrites": (2, notebook(HONEST_2, [
        "import pathlib\nfor name in ('victim.ipynb', 'graded/victim.json', 'gradebook.db'):\n"
        "    for top in (FOLDER, '/tmp', '.'):\n        try:\n"
        "            pathlib.Path(top, name).write_text('mine')\n        except OSError: pass"])),
    "victim": (7, notebook(GOOD)),
}  # fmt: skip


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """All of them and an unreadable one, graded in one batch; and what lay beside them."""
    folder = tmp_path_factory.mktemp("class")
    handed_in = folder / "handed in"
    handed_in.mkdir()
    listening = socket.create_server(("127.0.0.1", 0))
    for student, (_, made) in SUBMISSIONS.items():
        text = json.dumps(made).replace("FOLDER", json.dumps(str(handed_in))[1:-1].join("''"))
        text = text.replace("PORT", str(listening.getsockname()[1])).replace(" MARK", str(handed_in / "mark"))
        name = "hw1 (1) final.ipynb" if student == "renamed" else "hw1.ipynb"
        (handed_in / student).mkdir()
        (handed_in / student / name).write_text(text, encoding="utf-8")
    (handed_in / "corrupt").mkdir()
    (handed_in / "corrupt" / "hw1.ipynb").write_text('{"cells": [{"cell_type": "co', encoding="utf-8")
    victim = (handed_in / "victim" / "hw1.ipynb").read_bytes()
    patch = pytest.MonkeyPatch()
    patch.setattr(grading, "load_assignment", lambda id, seed: TRIAL)
    try:
        with Sandbox(("scaled_dot_product_attention",)) as sandbox, ThreadPoolExecutor(1) as one:
            jobs = grading.jobs_for(collect(handed_in, TRIAL), "hw1", 1, sandbox)
            grading.grade_batch(jobs, one, folder=folder / "graded")
    finally:
        patch.undo()
        listening.close()
    results = {path.stem: grading.read_result(path) for path in (folder / "graded").glob("*.json")}
    untouched = (handed_in / "victim" / "hw1.ipynb").read_bytes() == victim
    return results, {"untouched": untouched, "mark": (handed_in / "mark").exists()}


pytestmark = pytest.mark.bubblewrap


@pytest.mark.parametrize("student", SUBMISSIONS)
def test_the_honest_score(graded, student):
    results, _ = graded
    assert results[student]["status"] == "graded", results[student]["reason"]
    assert results[student]["points"] == SUBMISSIONS[student][0], [
        (told["id"], told["points"], told["verdict"], told["reason"])
        for told in results[student]["questions"]
    ]


@pytest.mark.parametrize(("student", "told"), [
    ("endless-loop", "did not end"), ("endless-loop-that-swallows", "did not end"),
    ("takes-40-gb", "MemoryError"), ("sys-exit", "SystemExit"), ("kills-itself", "ended the process"),
    ("opens-a-socket", "raised"), ("no-scaling", "square root"),
])  # fmt: skip
def test_the_reason_is_told(graded, student, told):
    (attention,) = [each for each in graded[0][student]["questions"] if each["id"] == "attention"]
    assert told in attention["verdict"]


def test_a_corrupt_file_is_named_and_the_batch_goes_on(graded):
    results, _ = graded
    assert results["corrupt"]["status"] == "unreadable" and results["corrupt"]["points"] is None
    assert len(results) == len(SUBMISSIONS) + 1


def test_changed_tests_are_told(graded):
    for student in ("tests-deleted", "tests-edited"):
        assert any("he grader has its own" in note for note in graded[0][student]["notes"])


def test_nothing_got_out(graded):
    _, beside = graded
    assert beside == {"untouched": True, "mark": False}
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if SLEEP.encode() in path.read_bytes()]

"""A student's session: the same verdicts as in the lessons, and what harms its process costs one answer."""

import re
import resource
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from hostile import AT_THE_TOP, IN_A_CALL

from attnlib.exercises import calls
from attnlib.exercises.catalogue import EXERCISES
from attnlib.exercises.function import Case, FunctionExercise
from attnlib.homework.figures import FigureData
from attnlib.homework.remote import Limits, Missing, RemoteFunction, Session, needed
from attnlib.homework.sandbox import Sandbox

pytestmark = pytest.mark.bubblewrap
SUBMISSIONS = Path(__file__).parents[1] / "exercises" / "submissions"
NAMES = {"kv_cache": "decode_step", "gqa": "grouped_query_attention",
         "linear_attention": "causal_linear_attention"}  # fmt: skip


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as made:
        yield made


def run(sandbox, *sources, **limits):
    return Session(sandbox, [(f"cell {i}", source) for i, source in enumerate(sources, 1)], Limits(**limits))


# ------------------------------------------------------------------------------ the same verdicts


def submissions(exercise):
    text = (SUBMISSIONS / f"{exercise}.txt").read_text(encoding="utf-8")
    _, *parts = re.split(r"(?m)^=====+ (\w+)\n", text)
    return dict(zip(parts[::2], parts[1::2], strict=True))


# Of each exercise a right and a wrong answer; and some that need more than numbers going there and back
SPECIAL = {
    "softmax": ["wrong_shared_output_buffer", "wrong_inplace", "wrong_in_place_through_view"],
    "log_softmax": ["wrong_in_place_via_torch"],
    "kv_cache": ["right_sdpa_with_mask"],
}
STORED = sorted(path.stem for path in SUBMISSIONS.glob("*.txt"))


def sample(exercise):
    found = submissions(exercise)
    right = [name for name in found if name.startswith("right_")]
    wrong = [name for name in found if name.startswith("wrong_")]
    at = sum(map(ord, exercise))
    chosen = (right[at % len(right)], wrong[at % len(wrong)], *SPECIAL.get(exercise, ()))
    return [(name, found[name]) for name in dict.fromkeys(chosen)]


def by_itself(name, source, wanted):
    """A cell in which one of many submissions has its names for itself."""
    return (
        f"_space = {{'__name__': 'submission'}}\nexec(compile({source!r}, {name!r}, 'exec'), _space)\n"
        f"{name} = _space[{wanted!r}]"
    )


def told(verdict):
    return verdict.passed, verdict.misconception, verdict.message


@pytest.fixture(scope="module")
def all_of_them(sandbox):
    """One session with the sample of every exercise."""
    cells = [
        (f"{exercise} {name}", by_itself(f"{exercise}_{name}", source, NAMES.get(exercise, exercise)))
        for exercise in STORED for name, source in sample(exercise)
    ]  # fmt: skip
    with Session(sandbox, cells, Limits(total=600)) as session:
        yield session
    assert session.troubles == []


@pytest.mark.parametrize("exercise", STORED)
def test_the_verdict_is_the_lessons(all_of_them, exercise):
    for name, source in sample(exercise):
        space = {"__name__": "submission"}
        exec(compile(source, name, "exec"), space)
        judge = EXERCISES[exercise].judge
        remote = all_of_them.answer(f"{exercise}_{name}")
        assert isinstance(remote, RemoteFunction)
        assert told(judge(remote)) == told(judge(space[NAMES.get(exercise, exercise)])), name


LESSONS = ["leak_detector", "query_counts", "restarted"]


@pytest.mark.parametrize("exercise", LESSONS)
def test_a_test_of_the_students_calls_models_outside(sandbox, exercise):
    tests = {"right": EXERCISES[exercise].solution, "always": "def answer(*args):\n    return True",
             "raising": "def answer(model, *args):\n    return model(None)",
             "never": "def answer(*args):\n    while True: pass"}  # fmt: skip
    names = {name: exercise if f"def {exercise}(" in source else "answer" for name, source in tests.items()}
    cells = [by_itself(name, source, names[name]) for name, source in tests.items()]
    judge = EXERCISES[exercise].judge
    with run(sandbox, *cells) as session:
        for name, source in tests.items():
            space = {}
            exec(source, space)
            assert told(judge(session.answer(name))) == told(judge(space[names[name]])), name


VALUES = {
    "outvoted": ["8", "3", "'8'", "[8]", "8.0", "...", "None", "object", "float('nan')"],
    "window_reach": ["16", "range(3)", "type('F', (float,), {})(16)", "True", "b'16'"],
    "half_and_half": ["range(1, 3)", "np.matrix([1, 2])", "np.ma.array([1.0, 2.0])",
                      "[1, 2]", "(0.0, 0)", "np.array([3.0, 1.0])", "[1, 2, 3]", "np.zeros((2, 1))", "{1, 2}",
                      "np.array([1, None])", "'ab'", "lambda: 3", "[[1, 2], [3]]", "np.float32([1, 2])"],
}  # fmt: skip


@pytest.mark.parametrize("exercise", VALUES)
def test_values_are_judged_as_in_the_lessons(sandbox, exercise):
    judge = EXERCISES[exercise].judge
    source = "import numpy as np\n" + "\n".join(f"v{i} = {text}" for i, text in enumerate(VALUES[exercise]))
    with run(sandbox, source) as session:
        for i, text in enumerate(VALUES[exercise]):
            value = eval(text)
            if value is ... or value is None:
                assert session.answer(f"v{i}") is value
                continue
            ours, theirs = told(judge(value)), told(judge(session.answer(f"v{i}")))
            assert ours[:2] == theirs[:2]
            assert callable(value) or ours[2] == theirs[2]      # the words for one hold its address


# ------------------------------------------------------------------------------ what harms the process


def cases():
    return [Case("a row", (np.arange(3.0) + i,)) for i in range(4)]


twice = FunctionExercise(lambda x: 2 * x, cases, (), "Right.")
GOOD = "import numpy as np\ndef good(x):\n    return 2 * x"
FATAL = {
    "os._exit", "kills itself", "stops itself", "a fault in C", "garbage to all descriptors",
    "closes all descriptors", "a huge frame", "fork bomb",
}  # fmt: skip
HARMLESS = [name for name in IN_A_CALL if name not in FATAL]


def judged(session, name):
    answer = session.answer(name)
    return (None, answer.reason) if isinstance(answer, Missing) else told(twice(answer))[::2]


def memory():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture(scope="module")
def together(sandbox):
    """Many of them in one notebook."""
    cells = [by_itself(f"answer_{i}", IN_A_CALL[name][0], "answer") for i, name in enumerate(HARMLESS)]
    with run(sandbox, GOOD, *cells, total=1000) as session:
        assert session.troubles == []
        yield session


def holds(message, words):
    return any(word in message for word in ((words,) if isinstance(words, str) else words))


@pytest.mark.parametrize("name", HARMLESS)
def test_a_call_costs_its_own_answer(together, name):
    before, begun = memory(), time.monotonic()
    passed, message = judged(together, f"answer_{HARMLESS.index(name)}")
    assert passed is False and holds(message, IN_A_CALL[name][1]), message
    assert judged(together, "good") == (True, "Right.")
    assert time.monotonic() - begun < 30 and memory() - before < 100e6


@pytest.mark.parametrize("name", sorted(FATAL))
def test_a_call_that_ends_the_process_costs_its_own_answer(sandbox, name):
    source, words = IN_A_CALL[name]
    before = memory()
    with run(sandbox, source, GOOD) as session:
        passed, message = judged(session, "answer")
        assert passed is False and holds(message, words), message
        assert judged(session, "good") == (True, "Right.")
    assert memory() - before < 100e6


KEPT = {
    "a thread that ends the process", "threads that never end", "40 processes", "patched builtins",
    "patched json", "patched worker", "patched NumPy", "no modules", "30 MB on stdout",
    "30 MB on descriptor 1", "warns", "a signal handler", "tracing", "full disk",
}  # fmt: skip
REASONS = ("did not end", "ended the process", "raised", "files that are not its own")


@pytest.mark.parametrize("name", AT_THE_TOP)
def test_a_cell_costs_its_own_answer(sandbox, name):
    with run(sandbox, f"{AT_THE_TOP[name]}\ndef answer(x):\n    return 2 * x", GOOD, cell=2) as session:
        passed, message = judged(session, "answer")
        if name in KEPT:
            assert passed is True, message
        else:
            assert passed is None and holds(message, REASONS), message
            assert [trouble.label for trouble in session.troubles] == ["cell 1"]
        assert judged(session, "good") == (True, "Right.")
        assert len(session.output) <= 20_010


def test_a_thread_that_ends_the_process_later_is_found_out(sandbox):
    """The cell that started it is not needed by the others, and they are judged without it."""
    late = "import threading, os\nthreading.Timer(1.0, os._exit, [0]).start()"
    slow = "import time\ndef slow(x):\n    time.sleep(0.5)\n    return 2 * x"
    with run(sandbox, late, slow, GOOD) as session:
        assert judged(session, "slow") == (True, "Right.")
        assert judged(session, "good") == (True, "Right.")


def test_what_runs_beside_a_call_is_noticed(sandbox):
    """A late call is then tried again, without the cell that started it."""
    sleeps = "import subprocess\nsubprocess.Popen(['sleep', '100'])"
    thread = "import threading, time\nthreading.Thread(target=time.sleep, args=[100], daemon=True).start()"
    for source, disturbed in (("x = 1", False), (sleeps, True), (thread, True)):
        with run(sandbox, source, GOOD) as session:
            session.answer("good").outcome((np.ones(1),))
            assert session.disturbed is disturbed


def test_a_late_call_is_tried_again_without_what_ran_beside_it(sandbox):
    """What is slow only beside the other cell stands for a busy machine."""
    beside = "import subprocess\nsubprocess.Popen(['sleep', '100'])\nslow = True"
    called = "def good(x):\n    while globals().get('slow'): pass\n    return 2 * x"
    with run(sandbox, beside, called) as session:
        assert judged(session, "good") == (True, "Right.")


def test_nothing_is_told_of_a_model_but_its_parameters(sandbox):
    source = """
import gc
def test(model):
    import inspect
    told = [o for o in gc.get_objects() if type(o) is dict and o.get('k') == 'object']
    return str([sorted(o) for o in told]) + str(inspect.signature(model)) + repr(model)
"""
    def tell_tale(x, answer="it leaks"):
        return x

    with run(sandbox, source) as session:
        told = session.answer("test").outcome((tell_tale,)).value
    assert "(x, answer=...)" in told and "leaks" not in told and "tell_tale" not in told


def test_processes_that_take_memory_together(sandbox):
    children = (
        "import os, time\nfor _ in range(8):\n    if not os.fork():\n        keep = bytearray(60 * 2**20)\n"
        "        time.sleep(100)\ntime.sleep(3)"
    )
    with run(sandbox, children, GOOD, memory=300 * 2**20) as session:
        assert judged(session, "good") == (True, "Right.")
        assert [trouble.kind for trouble in session.troubles] == ["memory"]


SLOW = "import time\ntime.sleep(1.5)"


def test_a_notebook_has_so_much_time_in_all(sandbox):
    cells = [f"import time\ntime.sleep(1.5)\na{i} = good" for i in range(3)]
    with run(sandbox, GOOD, *cells, "wanted = a0, a1, a2, 1", "never = wanted", total=4) as session:
        answer = session.answer("never")
    assert isinstance(answer, Missing) and not answer.fault and "4 seconds" in answer.reason
    assert session.troubles[-1].kind == "not run"


@pytest.mark.parametrize("cells", [[SLOW] * 4 + [GOOD], [GOOD] + [SLOW] * 4])
def test_when_the_time_is_out_what_answers_need_is_run(sandbox, cells):
    with run(sandbox, *cells, "x = 5", total=4) as session:
        assert judged(session, "good") == (True, "Right.") and session.answer("x") == 5
        assert "4 seconds" in session.troubles[-1].told


def test_slow_cells_take_no_time_from_the_answers(sandbox):
    slow = "import time as t\ndef good(x):\n    t.sleep(0.25)\n    return 2 * x"
    with run(sandbox, *[SLOW] * 5, slow, total=10) as session:
        assert judged(session, "good") == (True, "Right.")


def test_what_a_late_call_leaves_running_costs_no_other_answer(sandbox):
    late = (
        "import os, time\ndef answer(x):\n    for _ in range(8):\n        if not os.fork():\n"
        "            time.sleep(5)\n            keep = bytearray(60 * 2**20)\n            time.sleep(100)\n"
        "    time.sleep(100)"
    )
    wait = "import time\ndef later(x):\n    time.sleep(2)\n    return 2 * x"
    with run(sandbox, late, GOOD, wait, memory=400 * 2**20) as session:
        passed, message = judged(session, "answer")
        assert passed is False and "did not end" in message
        assert session._running is None
        assert judged(session, "later") == (True, "Right.") == judged(session, "good")


def kept(sandbox, *sources, of="answer", own=1):
    keeps = {f"cell {own}": [of]}
    with Session(sandbox, [(f"cell {i}", s) for i, s in enumerate(sources, 1)], keeps=keeps) as session:
        return session.answer(of)


@pytest.mark.parametrize("later", [
    "answer[0] = 9", "answer *= 0", "answer = 5", "%reset -f", "for answer in range(3): pass",
    "def f():\n    global answer\n    answer = 3\nf()", "del answer",
])  # fmt: skip
def test_what_its_own_cell_gave_counts(sandbox, later):
    found = kept(sandbox, "import numpy as np\nanswer = np.arange(3.0)", later)
    assert found.tolist() == [0, 1, 2]


def test_nested_lists_are_kept(sandbox):
    assert kept(sandbox, "answer = [[1, 2], {'a': [3]}]", "answer[0][0] = 7\nanswer[1]['a'].append(1)") == [
        [1, 2], {"a": [3]}]  # fmt: skip


def test_of_a_cell_that_fails_what_comes_later_counts(sandbox):
    assert kept(sandbox, "answer = 1\n1 / 0", "answer = 2") == 2


def test_reset_takes_no_functions_away(sandbox):
    with run(sandbox, GOOD, "%reset -f") as session:
        assert judged(session, "good") == (True, "Right.")


PLOT = "import matplotlib.pyplot as plt\n"


@pytest.mark.parametrize("sources", [
    [f"{PLOT}plt.imshow([[1, 2]])\nplt.xlabel('mine')\nanswer = plt.gcf()",
     "plt.plot([1])\nplt.xlabel('other')"],
    [f"{PLOT}plt.imshow([[1, 2]])\nplt.xlabel('mine')\nanswer = plt.gcf()", "answer.clf()"],
    [f"{PLOT}plt.imshow([[3, 4]])", "plt.imshow([[1, 2]])\nplt.xlabel('mine')\nanswer = plt.gcf()"],
    [f"{PLOT}answer = plt.imshow([[1, 2]])\nplt.xlabel('mine')"],
    [f"{PLOT}figure, answer = plt.subplots()\nanswer.imshow([[1, 2]])\nanswer.set_xlabel('mine')"],
])  # fmt: skip
def test_a_figure_is_read_behind_its_own_cell(sandbox, sources):
    own = next(i for i, source in enumerate(sources, 1) if "answer =" in source or ", answer" in source)
    (axes,) = kept(sandbox, *sources, own=own).axes
    assert axes.xlabel == "mine" and [image.tolist() for image in axes.images] == [[[1, 2]]]


def test_only_what_matplotlib_drew_is_a_figure(sandbox):
    source = ("from attnlib.homework.figures import AxesData, FigureData\nimport numpy as np\n"
              "answer = FigureData(({},))")  # fmt: skip
    right, wrong = source.format("AxesData(images=(np.eye(2),))"), source.format("1, 2")
    for found in (kept(sandbox, right), kept(sandbox, right, own=2), kept(sandbox, wrong)):
        assert type(found).__name__ == "FigureData" and type(found) is not FigureData


def test_a_cell_that_writes_a_module_is_run(sandbox):
    cells = ["%%writefile helper.py\ndef three():\n    return 3",
             "from helper import three\nanswer = three()",
             "%%bash\necho 4 > four.txt", "four = int(open('four.txt').read())",
             "%%time\ntimed = 5"]  # fmt: skip
    with run(sandbox, *cells) as session:
        assert [session.answer(name) for name in ("answer", "four", "timed")] == [3, 4, 5]
        assert session.troubles == []
    assert needed(cells, "answer") == [0, 1, 2]


def test_control_characters_do_not_come_out(sandbox):
    cells = ["text = 'a\\x1b[31mb\\u202ec'", "raise ValueError('\\x1b[2Jgone')",
             "class T:\n    def __repr__(self):\n        return '\\x1b!'\nt = T()"]  # fmt: skip
    with run(sandbox, *cells) as session:
        assert session.answer("text") == "a[31mbc" and repr(session.answer("t")) == "!"
        assert session.troubles[0].told.endswith("[2Jgone")


def test_sizes_are_looked_at_before_anything_is_copied(sandbox):
    source = "import numpy as np\ndef test(model):\n    return model(np.broadcast_to(0.0, (2**36, 1)))"
    before = memory()
    with run(sandbox, source) as session:
        outcome = session.answer("test").outcome((lambda x: 1,))
    assert "at most 2000 rows" in outcome.error and memory() - before < 50e6


def test_a_notebook_is_started_so_often(sandbox):
    cells = [f"import os\ndef f{i}(x): os._exit(0)" for i in range(4)]
    with run(sandbox, *cells, GOOD, starts=3) as session:
        assert judged(session, "f0")[0] is False
        with pytest.raises(calls.Stopped, match="not started again"):
            twice(session.answer("f1"))
        answer = session.answer("good")
    assert isinstance(answer, Missing) and not answer.fault and "3 times" in answer.reason


# ------------------------------------------------------------------------------ cells


def test_cells_run_as_in_a_notebook(sandbox):
    cells = [
        "%matplotlib inline\nx = 1", "%%time\ny = x + 1", "display(y)\n!echo no", "z = y +",
        "print('said')\n1 / 0", "import asyncio\nawait asyncio.sleep(0)\nw = __name__", "w",
        "raise SystemExit", "get_ipython().run_line_magic('pwd', '')\nend = 5",
        "import inspect\ndef f(a):\n    return a\nsource = inspect.getsource(f)",
    ]  # fmt: skip
    with run(sandbox, *cells) as session:
        assert [session.answer(name) for name in ("x", "y", "w", "end")] == [1, 2, "__main__", 5]
        assert session.answer("source").startswith("def f(a)")
        kinds = {trouble.label: trouble.told for trouble in session.troubles}
    assert kinds.keys() == {"cell 4", "cell 5", "cell 8"}
    assert "SyntaxError" in kinds["cell 4"] and "ZeroDivisionError in line 2" in kinds["cell 5"]
    assert "said" in session.output


def test_plain_cells_do_without_ipython(sandbox):
    with run(sandbox, "%matplotlib inline\nimport sys\nx = 'IPython' in sys.modules") as session:
        assert session.answer("x") is False


def test_what_is_missing_is_told_with_its_cell(sandbox):
    with run(sandbox, "x = 1\n1 / 0\ndef lost(x): return x") as session:
        lost, never = session.answer("lost"), session.answer("never")
    assert lost == Missing("lost is not defined. Cell 1 raised ZeroDivisionError in line 2: division by zero")
    assert never == Missing("never is not defined when all cells have been run.")


def test_the_cells_that_a_name_needs():
    cells = ["import numpy as np", "a = 1", "def f(x):\n    return g(x) + np.e", "%time\ng = lambda x: x",
             "print(f(1))", "from math import *", "def (", "b = 2"]  # fmt: skip
    assert needed(cells, "f") == [0, 2, 3, 5] and needed(cells, "b") == [5, 7]
    again = ["import numpy as np", "import numpy as np\nslow = 1", "x = np.e", "import math as np", "np = 3"]
    assert needed(again, "x") == [0, 2, 4]


# ------------------------------------------------------------------------------ functions


@cache
def _figure_source():
    return (
        "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.bar([1, 2], [3, 4])\n"
        "axes.set_xlabel('tokens')\nplt.show()"
    )


def test_a_figure_comes_as_its_data(sandbox):
    with run(sandbox, _figure_source()) as session:
        data = session.answer("figure")
        assert data == session.answer("axes")
    assert data.axes[0].bars == ((1.0, 3.0), (2.0, 4.0)) and data.axes[0].xlabel == "tokens"


def test_gradients_are_computed_inside(sandbox):
    x = torch.arange(3.0)
    judge = FunctionExercise(lambda x: x**2, lambda: [Case("a row", (x,), gradient_of=(0,))], (), "Right.")
    cells = ["def f(x):\n    return x**2\ndef cut(x):\n    return (x.detach()**2 + 0 * x)\n"
             "def none(x):\n    return x.detach()**2"]  # fmt: skip
    with run(sandbox, *cells) as session:
        assert judge(session.answer("f")).passed
        assert "gradient in x" in judge(session.answer("cut")).message
        assert "no gradient" in judge(session.answer("none")).message


def test_what_stands_in_for_a_function_looks_like_it(sandbox):
    source = "import attnlib\ndef f(q, k, scale=None):\n    return attnlib.attention(q, k, k)"
    with run(sandbox, source) as session:
        f = session.answer("f")
        import inspect

        assert str(inspect.signature(f)) == "(q, k, scale=None)" and f.uses_the_package
        with pytest.raises(TypeError, match="missing 1 required"):
            f(np.eye(2))


def test_layout_in_memory_is_kept(sandbox):
    source = "def strides(x):\n    return x.strides\ndef f(x):\n    return x.T"
    with run(sandbox, source) as session:
        strides = session.answer("strides")
        for x in (np.ones((2, 3)), np.ones((2, 3)).T, np.ones((2, 3, 4)).transpose(2, 0, 1)):
            assert strides.outcome((x,)).value == x.strides


def test_a_model_that_changes_its_input_changes_the_students(sandbox):
    def model(x):
        x += 1
        return x.sum()

    source = "import numpy as np\ndef test(model):\n    model(x := np.zeros(2))\n    return bool(x[0] == 1)"
    with run(sandbox, source) as session:
        assert session.answer("test").outcome((model,)).value is True


def test_a_model_is_not_given_too_much(sandbox):
    asked = []
    source = "import numpy as np\ndef test(model):\n    return model(np.ones((10**4, 2)))"
    with run(sandbox, source) as session:
        outcome = session.answer("test").outcome((asked.append,))
    assert "at most 2000 rows" in outcome.error and not asked


def test_many_numbers_are_not_taken(sandbox):
    """Each result is small enough to be looked at, and together they are not."""
    cases = [Case(f"case {i}", (1,)) for i in range(20)]
    big = FunctionExercise(lambda x: np.zeros(10**6), lambda: cases, (), "")
    before = memory()
    with run(sandbox, "import numpy as np\ndef f(x):\n    return np.zeros(10**6) + 1", GOOD) as session:
        verdict = big(session.answer("f"))
        assert verdict.passed is False and "more numbers than can be looked at" in verdict.message
        assert judged(session, "good") == (True, "Right.")
    assert memory() - before < 350e6      # 160 of it are the right results


def test_what_calls_were_handed_is_forgotten_before_it_is_too_much(sandbox):
    """An object that is handed back is known, however many there were in earlier calls."""
    source = "def f(make):\n    many = [make() for _ in range(300)]\n    return all(map(make, many))"
    with run(sandbox, source) as session:
        f = session.answer("f")
        for _ in range(12):
            ours = []

            def make(one=None, ours=ours):
                ours.append(object())
                return ours[-1] if one is None else any(one is each for each in ours)

            outcome = f.outcome((make,))
            assert outcome.value is True, outcome.error


def test_a_session_takes_little_time(sandbox):
    cells = [f"import numpy as np\nx{i} = np.arange(10.0)\nprint(x{i})" for i in range(7)]
    ours = time.process_time()
    with run(sandbox, *cells, "def f(x):\n    return np.exp(x) / np.exp(x).sum()") as session:
        f = session.answer("f")
        for _ in range(60):
            f.outcome((np.ones((20, 8)),))
    assert session.cpu_seconds + time.process_time() - ours < 1.5      # half a second on an idle machine
    assert session.cpu_seconds > 0

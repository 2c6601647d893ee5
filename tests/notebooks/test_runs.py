"""That a run of a lesson by tools/lesson_run.py sees what it looks for. The lessons' own runs are collected
from their files."""

from types import SimpleNamespace

import lesson
import lesson_run
import nbformat
import pytest
from lesson_run import LessonFile
from nbval.plugin import NbCellError

ALL_GOOD = dict.fromkeys((rule.__name__ for rule in lesson_run.RULES), "")


@pytest.fixture
def ran(sample, request):
    """`ran((source, what is stored of it, marks of the cell), ...)`: the file, and what pytest would say of
    its items, by name. Stored is a text of stdout, or a whole output."""

    def run(*cells):
        sample.cells = []
        for count, (source, stored, *marks) in enumerate(cells):
            outputs = [sample.stream(stored) if isinstance(stored, str) else stored] if stored else []
            sample.cells.append(sample.code(source, *outputs, **(marks[0] if marks else {})))
            sample.cells[-1].id = f"cell-{count}"
        file = LessonFile.from_parent(request.session, path=sample.lesson().path)
        items = list(file.collect())
        try:
            file.setup()
            return file, {item.name: end_of(item) for item in items}
        finally:
            file.teardown()

    return run


def end_of(item):
    try:
        item.runtest()
    except (NbCellError, pytest.fail.Exception, pytest.skip.Exception) as end:
        return f"{end} {getattr(end, 'inner_traceback', '')}".strip()
    return ""


def good(cells):
    return {f"Cell {count}": "" for count in range(cells)} | ALL_GOOD


# In a lesson that says that it needs no torch.
ELSEWHERE = [
    ("try:\n    import torch\nexcept ImportError:\n    print('no torch')", "no torch\n"),
    (
        "import urllib.request\ntry:\n    urllib.request.urlopen('http://192.0.2.1')\n"
        "except OSError as error:\n    print(error)",
        "<urlopen error A connection to ('192.0.2.1', 80) was refused: tests run offline.>\n",
    ),
    (
        "from pathlib import Path\nprint(Path('03_sample.ipynb').exists(), 'socket' in globals())",
        "False False\n",
    ),
    (
        "try:\n    (Path.home() / 'x').write_text('x', encoding='utf-8')\n"
        "except OSError as error:\n    print(type(error).__name__)",
        "NotADirectoryError\n",
    ),
    ("import matplotlib.pyplot", ""),  # which speaks of its missing home
    ("memory = bytearray(100_000_000)", ""),
]


def test_a_lesson_runs_elsewhere_offline_without_a_home_and_without_torch(ran):
    file, ends = ran(*ELSEWHERE)
    asks = {"loads_torch_only_where_it_says_so": "It asks for torch, and its attn.torch is false."}
    assert ends == good(6) | asks
    assert 100_000 < file.seen["peak"] < lesson_run.MEMORY
    assert not file.kernel.is_alive()


def test_a_lesson_that_does_not_say_so_has_torch(ran, sample):
    del sample.metadata["attn"]["torch"]
    file, ends = ran(("import torch", ""))
    assert ends == good(1)
    assert file.seen["torch"]


def test_what_is_not_stored_is_told(ran):
    otherwise = {
        "print(3)": "mismatch 'stdout'",
        "x = 2": "Missing output fields from running code: {'stdout'}",
        "print(2)\n3": "Unexpected output fields from running code: {'text/plain'}",
        "print(2)\nimport warnings\nwarnings.warn('mind')": "{'stderr'}",
        "print(2)\nimport logging\nlogging.getLogger('matplotlib').warning('no font')": "{'stderr'}",
    }
    _, ends = ran(*((source, "2\n") for source in otherwise))
    for count, told in enumerate(otherwise.values()):
        assert ends[f"Cell {count}"].startswith("Cell outputs differ") and told in ends[f"Cell {count}"]


COUNT = "count = globals().get('count', 0) + 1\nprint(count)"
SHOWN = "display({'text/html': f'<i title=TITLE>a</i>'}, raw=True, metadata={'text/html': {'alt': f'ALT'}})"
STORED = nbformat.v4.new_output("display_data", data={"text/html": "<i title=1>a</i>"})


def test_what_changes_when_it_is_run_again_is_told(ran):
    _, ends = ran(
        # One text, cut in two the first time.
        ("print('a', flush='count' not in globals())\nprint('b')", "a\nb\n"),
        (COUNT, "1\n"),
        ("def check(answer):\n    print(answer)\n    return count", ""),
        ("check('right')\nanswers = globals().get('answers', 0) + 1\nprint(answers)", "right\n1\n"),
        (SHOWN.replace("TITLE", "{count}").replace("ALT", "a"), STORED),
        (SHOWN.replace("TITLE", "1").replace("ALT", "{count}"), STORED),
        ("x = 1 / ('x' not in globals())", ""),
    )
    assert [ends[f"Cell {n}"] for n in range(7)] == [""] * 7
    count, check, title, alt, *failure = ends["says_the_same_when_run_again"].splitlines()
    assert count == r"Cell 1 said '1\n', and '2\n' when it was run again."
    assert check == r"Cell 3 said 'right\n1\n', and 'right\n2\n' when it was run again."
    assert title.startswith("Cell 4 said ") and alt.startswith("Cell 5 said ")
    assert failure[0].startswith("Cell 6 failed when it was run again: ")
    assert "ZeroDivisionError" in "".join(failure)
    assert ends["checks_say_the_same_when_run_again"].splitlines() == [
        rf"Cell 3 said 'right\n1\n', and 'right\n{n}\n' when it was run again." for n in (3, 4)
    ]


def test_a_cell_that_trains_is_run_once(ran, monkeypatch):
    monkeypatch.setattr(lesson_run, "LONG", 0.3)
    long = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\n"
    file, ends = ran((long + COUNT, "1\n"), (COUNT, "2\n"))
    assert ends == good(2) | {
        "says_the_same_when_run_again": r"Cell 1 said '2\n', and '3\n' when it was run again."
    }
    assert 0.4 < file.cells[0].cpu < file.cpu < file.seconds + 1


def test_what_a_cells_marks_excuse(ran, pytestconfig):
    """Of a cell whose model is missing the words are those by which the last line of a run counts it."""
    error = nbformat.v4.new_output("error", ename="ZeroDivisionError", evalue="division by zero")
    file, ends = ran(
        (COUNT, "stored\n", {"tags": ["measured"]}),
        ("1 / 0", error, {"tags": ["raises-exception"]}),
        ("x = 3\nprint(x)", "stored\n", {"tags": ["needs-model"], "needs": "json no_such"}),
        ("print(x)", "3\n", {"tags": ["needs-model"], "needs": "json re"}),
        ("print(x)", "stored\n", {"tags": ["needs-model"], "needs": "json re"}),
    )
    differs = ends.pop("Cell 4")
    assert ends == good(4) | {"Cell 2": "an optional model is not installed: no_such"}
    assert differs.startswith("Cell outputs differ")
    assert file.cells[2].test_outputs[0].text == "3\n"
    conftest = pytestconfig.pluginmanager.get_plugin(str(lesson.ROOT / "conftest.py"))
    assert ends["Cell 2"].startswith(conftest.NO_MODEL)


def test_an_error_is_told_and_no_rule_is_asked(ran):
    _, ends = ran(("x = 3", ""), ("1 / 0", ""))
    assert "ZeroDivisionError" in ends["Cell 1"] and "division by zero" in ends["Cell 1"]
    assert {ends[rule] for rule in ALL_GOOD} == {
        "This is asked of a lesson all of whose cells have run, and these have not run to their end: 1. "
        "Name the whole file."
    }


def test_no_rule_is_asked_alone(sample, request):
    file = LessonFile.from_parent(request.session, path=sample.lesson().path)
    rules = [item for item in file.collect() if isinstance(item, lesson_run.LessonRule)]
    assert all("these have not run to their end: 0, 1." in end_of(rule) for rule in rules) and rules


@pytest.mark.parametrize("times, slowness", [(0.5, 1), (3, 3)])
def test_how_slow_the_machine_is(times, slowness):
    file = SimpleNamespace(unseen=lambda source: f"{times * lesson_run.TASK_SECONDS}\n")
    assert lesson_run.LessonFile.slowness(file) == pytest.approx(slowness)


def test_the_task_for_the_machine_says_its_seconds(capsys):
    exec(lesson_run.TASK, {})
    assert 0 < float(capsys.readouterr().out) < 100 * lesson_run.TASK_SECONDS


def test_limits_of_time_and_memory():
    def told(cpu, seconds, peak=1, slowness=1):
        file = SimpleNamespace(cpu=cpu, seconds=seconds, lesson=SimpleNamespace(seconds=20),
                               slowness=lambda: slowness)  # fmt: skip
        return lesson_run.in_time(file), lesson_run.in_two_gigabytes(file, peak=peak)

    assert told(20, 80, lesson_run.MEMORY) == (None, None)
    assert "20.1 s of processor time. It may take 20" in told(20.1, 30)[0]
    assert "81 s by the clock" in told(20, 81)[0]
    assert told(20, 81)[0].endswith("It may take 80, by its attn.seconds.")
    assert told(30, 120, slowness=1.5)[0] is None
    assert "It may take 30, by its attn.seconds, times 1.5 on" in told(31, 90, slowness=1.5)[0]
    assert "2,000,001 kB" in told(1, 1, lesson_run.MEMORY + 1)[1]

"""The table of ratios is complete and tells its misses; the benchmark of seeds reads lessons as they are."""

import contextlib
import io
import json
import math
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import matplotlib.image
import numpy as np
import pytest
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))

import chart  # noqa: E402
import claims  # noqa: E402
import memory  # noqa: E402
import run  # noqa: E402
import seeds  # noqa: E402
from protocol import Case, Figure, Gap, compare, difference, verdict  # noqa: E402

IDS = ("A1 A2 A3 A4 B1 B2 B3 B4 B5 B6 C1 C2 C3 D1 D2 D3 D4 E1 E2 E3 E4 F1 F2 F3 G1 G2 "
       "H1 H2 H3 H4 H5").split()  # fmt: skip
UNLIKE = ("D1", "D3", "E2", "E4 generate 112 tokens, against the same without attention", "H2")

# A lesson whose share of right answers falls by a tenth from seed to seed.
CELLS = (
    ("def train(seed):\n    return 1 - seed / 10\n\n\ndef good(right):\n    return right > 0.1\n\n\n"
     "trained = [train(seed) for seed in (0, 1, 2)]", ""),
    ("known = 1 < 2\n"
     'print("every seed above 0.85:", min(trained) > 0.85)\n'
     "half = all(right > 0.5 for right in trained)\n"
     'print("better than half:", half)\n'
     "large = sum(trained) > 5\n"
     'print("the mean is", sum(trained) / 3)',
     "every seed above 0.85: True\nbetter than half: True\nthe mean is 0.9\n"),
    ('levels = {"a": trained[0], "b": trained[0] - 0.6}\n'
     'print("above 0.5:", *(name for name, right in levels.items() if right > 0.5))\n'
     'print("at most a twentieth apart:", max(trained) <= min(trained) + 0.05)',
     "above 0.5: a\nat most a twentieth apart: True\n"),
    ("best = max(trained)\n"
     'print("a tenth less is less:", best - 0.1 < best)\n'
     'print("from 0.75 to 1:", 0.75 < min(trained) <= 1)',
     "a tenth less is less: True\nfrom 0.75 to 1: True\n"),
    ('print("good:", good(trained[0]), "and two:", len(trained) == 2)', "good: True and two: False\n"),
)  # fmt: skip
SWAPS = {"for seed in (0, 1, 2)": ("for seed in (SEED,)", 1)}
TOY = claims.Lesson("99_toy", SWAPS, ("A toy",))


@pytest.fixture
def folder(tmp_path):
    cells = [{"cell_type": "markdown", "source": ["## A toy\n", "\n", "A text."], "metadata": {}}]
    for n, (source, printed) in enumerate(CELLS):
        outputs = [{"text": printed.splitlines(True)}]
        cells.append({"cell_type": "code", "id": f"toy-{n}", "source": source.splitlines(True),
                      "metadata": {}, "outputs": outputs})  # fmt: skip
    cells.append({"cell_type": "code", "id": "clock", "source": ["raise TimeoutError"], "outputs": [],
                  "metadata": {"tags": ["measured"]}})  # fmt: skip
    (tmp_path / "99_toy.ipynb").write_text(json.dumps({"cells": cells}), encoding="utf-8")
    return tmp_path


@pytest.fixture
def rows(folder):
    found = [claims.claims(TOY, claims.cells(TOY, folder), seed) for seed in (0, 1, 2)]
    return [row for same in zip(*found, strict=True) for row in seeds.rows(same)]


@pytest.fixture
def table(rows):
    by_line = {row["states"]: row for row in rows}
    assert len(by_line) == len(rows) - 1, "one comparison belongs to each line, but for one that has two"
    return by_line


def test_a_claim_that_does_not_hold_is_shown_as_such(table):
    row = table["every seed above 0.85: True"]
    assert row["holds"] == [True, True, False]
    assert row["values"] == [[1.0], [0.9], [0.8]] and row["limit"] == 0.85
    assert row["worst"] == [0.8], "the miss, although 0.9 is as near to the limit"
    machine = {
        "swaps": {"a": "b"},
        "machine": "m",
        "python": "p",
        "torch": "t",
        "numpy": "n",
        "seconds": [1, 1, 1],
    }
    assert (
        "| every seed above 0.85: True | `min(trained) > 0.85` | 1.000 0.900 0.800 | 0.800 | no: not with 2 |"
        in seeds.page({"99_toy": {**machine, "rows": [row]}}).splitlines()
    )


def test_a_lesson_that_was_measured_elsewhere_stays_in_the_table():
    before = seeds.INTRODUCTION + "\n## 04_a\n\nold\n\n## 99_b\n\nof another machine\n"
    after = seeds.renewed(before, seeds.INTRODUCTION + "\n## 04_a\n\nnew\n\n## 12_c\n\nmore\n")
    assert after == seeds.INTRODUCTION + (
        "\n## 04_a\n\nnew\n\n## 12_c\n\nmore\n\n## 99_b\n\nof another machine\n"
    )
    assert seeds.renewed(after, seeds.INTRODUCTION) == after


def test_what_a_line_compares_is_found(table):
    assert [*table] == ["every seed above 0.85: True", "better than half: True", "above 0.5: a",
                        "at most a twentieth apart: True", "a tenth less is less: True",
                        "from 0.75 to 1: True", "good: True and two: False"]  # fmt: skip
    before = table["better than half: True"]
    assert before["values"] == [[1.0], [0.9], [0.8]] and before["asks"] == "right > 0.5"
    both = table["above 0.5: a"]
    assert [passes for passes, _ in both["values"]] == [1.0, 0.9, 0.8], "those that pass stand first"
    assert both["worst"] == [0.8, 0.4]
    apart = table["at most a twentieth apart: True"]
    assert apart["limit"] == 0 and apart["difference"] and not both["difference"]
    assert apart["worst"] == pytest.approx([-0.05])
    less = table["a tenth less is less: True"]
    assert less["difference"] and less["limit"] == 0, "a name whose value hangs on the seed is no limit"
    assert less["worst"] == pytest.approx([-0.1])
    elsewhere = table["good: True and two: False"]
    assert elsewhere["asks"] == "right > 0.1", "a function of another cell compares"
    assert all(all(row["holds"]) for row in (before, both, apart, elsewhere))


@pytest.mark.parametrize("chain", [
    "draw() < draw() < draw()", "5 < draw() < draw()", "0 < draw() <= 1 > 2", "2 > draw() >= 0", "1 == 1 < 2",
    "1 <= len([]) < [][0]", "(0 < np.array([draw()]) < 1).tolist()",
])  # fmt: skip
def test_a_chain_is_python_s_own(chain):
    """Each part is asked for once, in its order, and none behind the first that fails."""
    source = f"import numpy as np\ndraw = np.random.default_rng(0).random\nsaid = repr(({chain}, draw()))"
    read, plain = {}, {}
    claims._run(claims.Cell("chain", "", source, ()), read, claims._Reader(), "<chain>")
    exec(source, plain)
    assert read["said"] == plain["said"]


def test_a_number_between_two_limits_is_compared_with_both(rows):
    above, below = (row for row in rows if row["states"] == "from 0.75 to 1: True")
    assert (above["asks"], below["asks"]) == ("min(trained) > 0.75", "min(trained) <= 1")
    assert (above["limit"], below["limit"]) == (0.75, 1)
    assert above["values"] == below["values"] == [[1.0], [0.9], [0.8]]
    assert (above["worst"], below["worst"]) == ([0.8], [1.0])


@pytest.mark.parametrize(
    "changed, sentence",
    [
        ({"swaps": {"for seed in (0, 1)": ("", 1)}}, "has 'for seed in (0, 1)' 0 times and not 1"),
        ({"swaps": {"trained": ("", 1)}}, "has 'trained' 13 times and not 1"),
        ({"sections": ("A toy", "A model")}, "has no heading 'A model'"),
    ],
)
def test_a_lesson_that_has_changed_is_not_read(folder, changed, sentence):
    with pytest.raises(LookupError, match=re.escape(sentence)):
        claims.cells(TOY._replace(**changed), folder)


@pytest.mark.parametrize("lesson", seeds.LESSONS, ids=lambda lesson: lesson.name)
def test_every_lesson_has_what_is_asked_of_it(lesson):
    speaking = {cell.section for cell in claims.cells(lesson) if cell.printed}
    assert set(lesson.sections) <= speaking


@pytest.mark.parametrize("path", sorted(claims.NOTEBOOKS.glob("[0-9]*.ipynb")), ids=lambda path: path.stem)
def test_no_claim_of_several_seeds_is_left_out(path):
    asked = {lesson.name: lesson.sections for lesson in seeds.LESSONS}.get(path.stem, ())
    forgotten = [
        line
        for cell in claims.cells(claims.Lesson(path.stem, {}, ()))
        for line in cell.printed
        if re.search(r"(every|both|each) (seed|teacher)", line) and cell.section not in asked
    ]
    assert not forgotten


# The table of ratios


@pytest.fixture
def no_file_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(run.machine, "limits", lambda: {"gflops": 85.0, "gigabytes": 10.0})
    return tmp_path / "results.json"


def of_the_table(*cases):
    class Module:
        @staticmethod
        def cases(small=False):
            return iter(cases)

    return (Module,)


def test_no_row_is_missing():
    assert sorted(set(run.ids())) == IDS


def within_this_process(command, **_):
    """`memory` starts a process for each call, which takes longer than all else."""
    call, _ = memory.CALLS[command[-1]]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        memory.main(call, 32)
    return SimpleNamespace(stdout=said.getvalue())


def test_memory_is_that_of_a_process_of_its_own():
    if memory.STATUS.exists():
        assert 4 <= memory._in_its_own_process("fused") < 100  # the output alone is 4 MB


@pytest.mark.parametrize("module", run.TABLE, ids=lambda module: module.__name__)
def test_every_case_runs_and_both_sides_agree(module, monkeypatch):
    monkeypatch.setattr(memory, "subprocess", SimpleNamespace(run=within_this_process))
    for case in module.cases(small=True):
        if case.needs:
            continue  # tests/peers
        out = case.ours()
        if case.reference is None:
            assert isinstance(out, float)
        elif not case.name.startswith(UNLIKE):
            for ours, theirs in zip(out, case.reference(), strict=True):
                torch.testing.assert_close(*map(torch.as_tensor, (ours, theirs)), rtol=2e-4, atol=2e-5)
        else:
            case.reference()


def test_a_peer_that_is_not_there_is_named(monkeypatch, capsys, no_file_is_written):
    case = Case("A1 something", 1.0, pytest.fail, pytest.fail, needs="no_such_package")
    monkeypatch.setattr(run, "TABLE", of_the_table(case))
    assert run.table(("",)) == 0
    (row,) = json.loads(no_file_is_written.read_text(encoding="utf-8"))["rows"]
    assert row["verdict"] == "left out" and row["why"] == "no_such_package is not installed"
    said = capsys.readouterr().out
    assert "Left out: A1 something, for no_such_package is not installed." in said
    assert "0 of 1 targets met" in said


def test_a_peer_that_cannot_be_imported_is_named(monkeypatch, capsys, no_file_is_written):
    def broken():
        raise ModuleNotFoundError("No module named 'its_helper'")

    case = Case("A1 something", 1.0, lambda: None, broken, needs="json")
    monkeypatch.setattr(run, "TABLE", of_the_table(case))
    assert run.table(("",)) == 0
    assert "json cannot be imported (No module named 'its_helper')" in capsys.readouterr().out
    monkeypatch.setattr(run, "TABLE", of_the_table(case._replace(needs="")))
    with pytest.raises(ModuleNotFoundError):
        run.table(("",))


@pytest.mark.parametrize(
    "value, gap, word, status",
    [(0.9, None, "met", 0), (0.9, Gap(1.5, "slow memory"), "met", 0), (1.2, None, "missed", 1),
     (1.2, Gap(1.5, "slow memory"), "explained", 0), (1.6, Gap(1.5, "slow memory"), "missed", 1),
     (math.inf, Gap(1.5, "slow memory"), "missed", 1)],
)  # fmt: skip
def test_a_miss_is_told_and_explained_no_further_than_its_reason_goes(
    monkeypatch, capsys, no_file_is_written, value, gap, word, status
):
    case = Case("H9 seconds of something", 1.0, lambda: value, unit="s", gap=gap)
    monkeypatch.setattr(run, "TABLE", of_the_table(case))
    assert run.table(("",)) == status
    (row,) = json.loads(no_file_is_written.read_text(encoding="utf-8"))["rows"]
    assert row["verdict"] == word == verdict(1.0, value, gap)
    assert row["median"] == (None if math.isinf(value) else value)
    said = capsys.readouterr().out
    assert ("slow memory" in said) is (word == "explained") is ("why" in row)
    assert ("MISSED" in said) is (word == "missed")
    assert ("Missed: H9 seconds of something." in said) is (word == "missed")


def test_the_table_has_all_that_its_figures_depend_on(monkeypatch, capsys, no_file_is_written):
    one, two = (Case(f"{id} something", 2.0, lambda: 1.0, unit="s") for id in ("A1", "B1"))
    monkeypatch.setattr(run, "TABLE", of_the_table(one, two))
    assert run.table(("B",)) == 0
    results = json.loads(no_file_is_written.read_text(encoding="utf-8"))
    assert [row["id"] for row in results["rows"]] == ["B1"]
    assert {"processor", "threads", "attnlib", "torch", "numpy", "transformers", "gflops", "gigabytes",
            "load_before", "load_after"} <= set(results)  # fmt: skip
    said = capsys.readouterr().out
    assert "85 GFLOP/s and copies 10 GB/s" in said and "  1/1  B1 something" in said
    picture = matplotlib.image.imread(no_file_is_written.with_suffix(".png"))
    assert picture.shape[2] == 3 or (picture[..., 3] == 1).all()


def test_limits_of_the_machine_are_those_of_a_machine():
    limits = run.machine.limits()
    assert 1 < limits["gflops"] < 1e5 and 0.1 < limits["gigabytes"] < 1e4


def test_the_figure_shows_each_row_by_its_target():
    rows = [
        {"id": "A2", "case": "two", "target": 2.0, "median": 3.0, "low": 2.0, "high": 4.0,
         "verdict": "missed"},
        {"id": "A1", "case": "one", "target": 0.5, "median": 0.25, "low": 0.2, "high": 0.4, "verdict": "met"},
        {"id": "C1", "case": "three", "target": 1.0, "verdict": "left out"},
        {"id": "H1", "case": "four", "target": 1.0, "median": 1.1, "low": 1.1, "high": 1.1,
         "verdict": "explained"},
    ]  # fmt: skip
    a, h = chart.draw(rows).axes
    assert [label.get_text() for label in a.get_yticklabels()] == ["A1  one", "A2  two"]
    assert [label.get_text() for label in h.get_yticklabels()] == ["H1  four"]
    assert a.get_xscale() == "log"
    points = {tuple(map(float, line.get_xydata()[0])) for line in a.lines if line.get_marker() != "None"}
    assert points == {(0.5, 0.0), (1.5, 1.0)}
    (segment,) = next(lines for lines in a.collections if 1 in lines.get_segments()[0][:, 1]).get_segments()
    np.testing.assert_allclose(segment[:, 0], [1, 2])


def test_a_ratio_and_a_difference_are_those_of_the_times(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("protocol.time.process_time", lambda: clock[0])

    def takes(seconds):
        def function():
            clock[0] += seconds

        return function

    assert compare(takes(0.03), takes(0.02), rounds=3).median == pytest.approx(1.5)
    assert compare(takes(0.03), takes(0.02), difference, rounds=3).median == pytest.approx(1e4)
    assert isinstance(compare(takes(0.5), takes(0.5), rounds=1), Figure)


def test_a_benchmark_that_does_not_exist_is_named(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["run.py", "seed"])
    assert run.main() == 2
    said = capsys.readouterr().err
    assert "There is no benchmark 'seed'; there are: homework, seeds, translation, and the rows A1, " in said

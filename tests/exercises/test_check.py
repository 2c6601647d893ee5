"""The face of the checker: check, hint, solution, exercises, progress, and the record behind them."""

import html
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import attnlib.exercises as ex
from attnlib.exercises import check, exercises, hint, progress, record, solution
from attnlib.exercises.catalogue import EXERCISES
from attnlib.exercises.function import FunctionExercise

CONTRACTS = """
softmax log_softmax dot_product_variance softmax_jacobian softmax_backward causal_mask padding_mask
combined_mask window_mask attention padded_attention dropout_weights split_heads merge_heads
multi_head_attention cross_attention sinusoidal next_token_loss rope kv_cache gqa online_attention
linear_attention
""".split()
FUNCTION_NAMES = {
    "kv_cache": "decode_step",
    "gqa": "grouped_query_attention",
    "linear_attention": "causal_linear_attention",
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNLIB_DATA", str(tmp_path))
    # Where the record's lock lies, also for the processes that a test starts.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path.parent))
    monkeypatch.setenv("TMPDIR", str(tmp_path.parent))
    monkeypatch.setattr(record, "_session", {})
    return tmp_path


def test_all_exercises_of_the_contracts_are_there():
    assert set(CONTRACTS) <= set(EXERCISES)
    assert all(EXERCISES[name].kind == "function" for name in CONTRACTS)


def test_the_package_s_face_is_what_it_says():
    assert sorted(ex.__all__) == ["check", "exercises", "hint", "progress", "solution"]


# check


def test_a_verdict_is_shown_in_the_same_words_as_text_and_as_html(capsys):
    verdict = check("outvoted", 3)
    shown = capsys.readouterr().out
    assert shown == f"Not yet. {verdict.message}\n"
    assert " ".join(text_of(verdict._repr_html_()).split()) == shown.strip()
    assert verdict.passed is False and verdict.misconception == "scores_not_exponentials"
    assert "Verdict(passed=False" in repr(verdict) and verdict.message not in repr(verdict)


def text_of(page):
    return html.unescape(re.sub(r"<[^>]*>", "", page))


def test_show_false_is_silent(capsys):
    assert check("outvoted", 8, show=False).passed
    assert capsys.readouterr().out == ""


def test_the_case_is_the_input_that_showed_the_mistake():
    verdict = check("causal_mask", lambda n, m: np.tril(np.ones((n, m), bool)), show=False)
    assert verdict.misconception == "start" and verdict.case == (3, 5)
    assert check("causal_mask", lambda n, m: np.tril(np.ones((n, m), bool), m - n), show=False).case is None


@pytest.mark.parametrize("name", ["causal_masc", "CausalMask", "softmaks"])
def test_an_unknown_id_is_an_error_with_near_names(name):
    for ask in (lambda name: check(name, 1), hint, solution):
        with pytest.raises(KeyError, match="near names: .*(causal_mask|softmax)"):
            ask(name)


@pytest.mark.parametrize("name", ["", 3, None, ["causal_mask"], "??"])
def test_what_is_no_name_at_all_is_an_error_too(name):
    with pytest.raises(KeyError, match="no exercise"):
        check(name, 1)


@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_open_exercise_is_not_answered_yet_and_not_counted(exercise):
    def stub(*args, **kwargs):
        raise NotImplementedError

    answers = [..., None]
    if EXERCISES[exercise].kind in ("function", "test"):
        answers.append(stub)
    for answer in answers:
        assert check(exercise, answer, show=False).passed is None
    assert record.read() == {}


def test_a_lone_stub_answered_elsewhere_in_the_notebook_changes_nothing():
    first = check("causal_mask", lambda n, m: np.ones((n, m), bool), show=False)
    check("attention", lambda *a: 1 / 0, show=False)
    assert check("causal_mask", lambda n, m: np.ones((n, m), bool), show=False) == first


# hint and solution


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.id)
def test_hints_and_solutions_are_there(exercise):
    assert 2 <= len(exercise.hints) <= 4, "two to four steps"
    for step in exercise.hints:
        first = step.split()[0]
        small = first.isascii() and first.isalpha() and first[0].islower()      # Chinese has no capitals
        assert not small or len(first) == 1, step                               # a formula may begin
        assert step[-1] in ".?)", step
        assert "!" not in step.replace("!=", "") and "simply" not in step and "obviously" not in step.lower()
    assert "attnlib.exercises" not in exercise.solution


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.id)
def test_every_solution_is_right(exercise):
    space = {}
    exec(exercise.solution, space)
    name = "answer" if "answer" in space else FUNCTION_NAMES.get(exercise.id, exercise.id)
    verdict = check(exercise.id, space[name], show=False)
    assert verdict.passed, verdict.message


def test_hints_go_on_step_by_step_and_end_at_the_solution(capsys):
    steps = EXERCISES["causal_mask"].hints
    for number, step in enumerate(steps, 1):
        assert hint("causal_mask").text == step
        assert f"Hint {number} of {len(steps)}" in capsys.readouterr().out
    assert 'solution("causal_mask")' in hint("causal_mask").text
    assert hint("attention").text == EXERCISES["attention"].hints[0]


def test_a_solution_is_shown_as_code(capsys):
    note = solution("causal_mask")
    assert "def causal_mask(" in capsys.readouterr().out
    assert "<pre" in note._repr_html_() and "def causal_mask(" in note._repr_html_()


# The list and the map


def test_the_list_has_every_id_by_lesson(capsys):
    assert set(exercises()) == set(EXERCISES)
    shown = capsys.readouterr().out
    assert "Lesson 08: causal_mask (function)" in shown and "(prediction)" in shown


def test_the_map_says_what_was_passed_tried_and_left(capsys, folder):
    check("outvoted", 3, show=False)
    check("outvoted", 8, show=False)
    check("book_scores", [1, 1, 1, 1, 1, 1], show=False)
    hint("book_scores")
    capsys.readouterr()
    found = progress()
    shown = capsys.readouterr().out
    assert found.passed == ("outvoted",) and found.tried == ("book_scores",)
    assert f"1 of {len(EXERCISES)} passed" in shown
    assert "● outvoted (2 tries; predicted 3)" in shown
    assert "◐ book_scores (1 try; 1 hint)" in shown and "○ half_and_half" in shown
    assert str(folder / "progress.json") in shown
    words = " ".join(text_of(found._repr_html_().replace("</th>", ": ").replace("</tr>", " ")
                             .replace("</p>", " ")).split())  # fmt: skip
    assert words == " ".join(shown.split())


def test_a_prediction_is_the_first_answer_whatever_comes_after_the_run():
    for answer in ("three", [1, 2], 3, 8, 9):      # the first two are no answers to this question
        check("outvoted", answer, show=False)
    entry = record.entry("outvoted")
    assert entry["prediction"] == "3"
    assert entry["tries"] == 3 and entry["passed"] is True, "once passed stays passed"
    check("book_scores", [1] * 6, show=False)
    assert "prediction" not in record.entry("book_scores")


# The record


def test_the_record_is_one_small_readable_file(folder):
    check("outvoted", 8, show=False)
    assert [path.name for path in folder.iterdir()] == ["progress.json"]
    kept = json.loads((folder / "progress.json").read_text(encoding="utf-8"))
    assert kept["outvoted"]["passed"] is True
    (folder / "progress.json").unlink()
    assert progress().passed == ()


DAMAGED = ["", "[" * 100_000, "{", "[1]", '{"outvoted": 3}', '{"outvoted": {"tries": "x", "hints": -2}}',
           '{"no_such_exercise": {"passed": true}}', "\x00"]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_record_stops_nothing(folder, text):
    (folder / "progress.json").write_text(text, encoding="utf-8")
    progress()
    hint("outvoted")
    assert check("outvoted", 8, show=False).passed
    assert "outvoted" in progress().passed


def test_an_unreadable_record_is_set_aside_and_not_overwritten(folder):
    (folder / "progress.json").write_text("{ half a file", encoding="utf-8")
    check("outvoted", 8, show=False)
    assert (folder / "progress-unreadable.json").read_text(encoding="utf-8") == "{ half a file"


def test_what_another_session_writes_meanwhile_is_kept(folder):
    check("outvoted", 8, show=False)
    kept = json.loads((folder / "progress.json").read_text(encoding="utf-8"))
    kept["never_wins"] = {"passed": True, "tries": 1}
    (folder / "progress.json").write_text(json.dumps(kept), encoding="utf-8")
    check("book_scores", [1] * 6, show=False)
    assert {"outvoted", "never_wins"} <= set(progress().passed)


def test_where_nothing_can_be_written_the_record_lasts_as_long_as_the_session(folder, monkeypatch):
    blocked = folder / "a file, and no folder"
    blocked.write_text("", encoding="utf-8")
    monkeypatch.setenv("ATTNLIB_DATA", str(blocked))
    check("outvoted", 3, show=False)
    assert check("outvoted", 8, show=False).passed
    assert progress().passed == ("outvoted",) and record.entry("outvoted")["tries"] == 2
    monkeypatch.setenv("ATTNLIB_DATA", str(folder))
    check("never_wins", "E", show=False)
    assert set(progress().passed) == {"outvoted", "never_wins"}, "memory is written when it can be"


def test_an_interrupted_write_leaves_the_file_as_it_was(folder, monkeypatch):
    check("outvoted", 8, show=False)
    before = (folder / "progress.json").read_bytes()

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(record.json, "dump", interrupted)
    with pytest.raises(KeyboardInterrupt):
        check("never_wins", "E", show=False)
    assert (folder / "progress.json").read_bytes() == before
    assert [path.name for path in folder.iterdir()] == ["progress.json"]


def test_the_file_lies_in_the_user_s_data_folder(monkeypatch):
    import platformdirs

    monkeypatch.delenv("ATTNLIB_DATA")
    assert record.path() == Path(platformdirs.user_data_dir("attnlib", appauthor=False)) / "progress.json"


# Where it is used


def test_numpy_exercises_bring_no_torch():
    code = (
        "import sys, numpy as np\nfrom attnlib.exercises import check\n"
        "check('causal_mask', lambda n, m: np.tril(np.ones((n, m), bool)))\n"
        "assert 'torch' not in sys.modules"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8")
    assert ran.returncode == 0, ran.stderr


IN_A_NOTEBOOK = """
from IPython.testing.globalipapp import start_ipython

shell, shown = start_ipython(), []
shell.display_pub.publish = lambda data, *args, **kwargs: shown.append(data)
shell.run_cell("from attnlib.exercises import check")
for cell, many in [
    ("check('outvoted', 3)", 1),
    ("verdict = check('outvoted', 8)", 2),
    ("verdict", 3),                                    # asked for again in a later cell
    ("quiet = check('outvoted', 8, show=False)", 3),
    ("check('outvoted', 8, show=False)", 4),
]:
    shell.run_cell(cell, store_history=True)
    assert len(shown) == many, (cell, len(shown))
assert shown[0]["text/plain"].startswith("Not yet. With 3 copies") and "<div" in shown[0]["text/html"]
"""


def test_a_notebook_shows_a_verdict_once_a_cell(folder):
    env = {**os.environ, "IPYTHONDIR": str(folder)}
    ran = subprocess.run([sys.executable, "-c", IN_A_NOTEBOOK], capture_output=True, text=True,
                         encoding="utf-8", env=env)  # fmt: skip
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("exercise", [name for name, e in EXERCISES.items() if e.kind == "function"])
def test_mistakes_are_data(exercise):
    judge = EXERCISES[exercise].judge
    assert isinstance(judge, FunctionExercise) and len(judge.cases()) >= 4 and len(judge.mistakes) >= 6
    for mistake in judge.mistakes:
        assert mistake.hint[-1] in ".?)" and mistake.choices, mistake.name


class Unreadable:
    def __repr__(self):
        raise ValueError

    def __array__(self, *args, **kwargs):
        raise SystemExit

    def __iter__(self):
        raise RuntimeError


@pytest.mark.parametrize("exercise", EXERCISES)
def test_an_answer_that_cannot_be_looked_at_is_judged(exercise):
    verdict = check(exercise, Unreadable(), show=False)
    assert verdict.passed is False and verdict.message


def test_two_sessions_lose_nothing_of_each_other(folder):
    code = (
        "import sys\nfrom attnlib.exercises import record\n"
        "for i in range(40): record.change(f'{sys.argv[1]}{i}', passed=True)"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "ab"]
    assert [process.wait() for process in running] == [0, 0]
    assert len(record.read()) == 80


def test_a_terminal_that_knows_few_characters_is_served():
    code = "from attnlib.exercises import progress; progress()"
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, env=env)
    assert ran.returncode == 0, ran.stderr


def test_the_map_says_where_nothing_can_be_kept(folder, monkeypatch, capsys):
    (folder / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("ATTNLIB_DATA", str(folder / "file"))
    check("outvoted", 8, show=False)
    progress()
    assert "lasts as long as the session" in capsys.readouterr().out


def test_tests_here_have_the_same_names_in_every_process(request):
    # An address in a name, or names in the order of a set of words: pytest -n 2 then collects two suites.
    assert not [item.nodeid for item in request.session.items if re.search("0x[0-9a-f]{5}", item.nodeid)]

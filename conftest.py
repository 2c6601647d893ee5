"""How the whole suite runs: one thread, no GPU, no network, notebooks by nbval."""

import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from chromium import browser_command, find_browser  # noqa: E402
from offline import block_network  # noqa: E402

# Before NumPy or torch is loaded, and for every kernel that a test starts.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
# A learner's own record of exercises is neither read nor changed.
os.environ["ATTNLIB_DATA"] = _record = tempfile.mkdtemp(prefix="attnlib-tests-")

# A busy machine is no fault of the function under test.
hypothesis.settings.register_profile("course", deadline=None)
hypothesis.settings.load_profile("course")

# Learners' copies and built pages are not the course's own notebooks.
collect_ignore = ["work", "slides", "site"]

NO_BROWSER = "no Chromium or Chrome is installed"
NO_BUBBLEWRAP = "bubblewrap is not installed"
NO_GOLDEN = "ATTNLIB_GOLDEN is not set to the folder of golden files"
NO_MODEL = "an optional model is not installed"
NO_PEER = "a package to compare with is not installed"
BUBBLEWRAP = "sudo apt-get install bubblewrap"


def pytest_configure(config):
    if not config.pluginmanager.hasplugin("nbval"):
        raise pytest.UsageError(
            "The package nbval is missing, without which no notebook is tested: "
            "run `python3 course.py test`, or install the extra `test`."
        )
    config.option.nbval = config.option.nbval_lax = False  # LessonFile is what nbval has instead
    config.option.nbval_cell_timeout = 120
    # `-n 2` alone would part a lesson's cells from one another. Without xdist there is no such option.
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "loadfile"
    config.option.loadscopereorder = False  # xdist's order, which has a file of two long tests last
    block_network()


def pytest_unconfigure():
    shutil.rmtree(_record, ignore_errors=True)


def pytest_collect_file(file_path, parent):
    if file_path.suffix == ".ipynb":
        from lesson_run import LessonFile  # not above: it asks for nbval, whose absence is told in a sentence

        return LessonFile.from_parent(parent, path=file_path)


def pytest_collection_modifyitems(items):
    """Refuse names that differ between processes, on which a parallel run fails. Put the long files first and
    of the others those with the fewest tests last, so that both processes of a whole run end together."""
    for item in items:
        if re.search(" at 0x[0-9a-f]", item.nodeid):
            raise pytest.UsageError(f"the name of a test holds an address; give it an id: {item.nodeid}")
    long, tests = {item.path for item in items if is_long(item)}, Counter(item.path for item in items)
    items.sort(key=lambda item: (item.path not in long, -tests[item.path]))


def is_long(item):
    """Whether a test takes seconds, by what it starts: a kernel, a browser, a sandbox, a suite of tests."""
    starts = item.get_closest_marker("browser") or item.get_closest_marker("bubblewrap")
    return bool(starts) or item.path.suffix == ".ipynb" or item.path.name == "test_mutations.py"


def pytest_runtest_setup(item):
    if item.get_closest_marker("browser") and not find_browser():
        if os.environ.get("CI"):
            pytest.fail(f"{NO_BROWSER}, and CI is set. To bring it: {browser_command()}")
        pytest.skip(NO_BROWSER)
    if item.get_closest_marker("bubblewrap") and not shutil.which("bwrap"):
        if os.environ.get("CI"):
            pytest.fail(f"{NO_BUBBLEWRAP}, and CI is set. To bring it: {BUBBLEWRAP}")
        pytest.skip(NO_BUBBLEWRAP)


@pytest.fixture
def golden():
    """`golden(name)`: the arrays of a golden file. Skips where ATTNLIB_GOLDEN is not set."""
    import numpy as np

    def load(name):
        folder = os.environ.get("ATTNLIB_GOLDEN")
        if not folder:
            pytest.skip(NO_GOLDEN)
        path = Path(folder) / f"{name}.npz"
        if not path.is_file():
            pytest.fail(f"ATTNLIB_GOLDEN is {folder}, which has no {name}.npz.")
        return np.load(path, allow_pickle=False)

    return load


@pytest.fixture
def peer():
    """`peer(name)`: a module of another package. Skips where it is not installed."""
    return lambda name: pytest.importorskip(name, reason=f"{NO_PEER}: {name}", exc_type=ImportError)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session):
    """Say in the very last line what was left out; the wrapper closes after pytest's own line."""
    result = yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None:
        for line in left_out(reporter.stats.get("skipped", [])):
            reporter.write_line(line)
    return result


def left_out(skipped):
    """A line for each thing whose absence made tests skip, with what brings it."""
    from lesson import model_command  # not above: it asks for nbformat, which comes with nbval

    reasons = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]
    for reason, tests, command in [
        (NO_GOLDEN, "comparisons with golden files", "ATTNLIB_GOLDEN=FOLDER python3 course.py test"),
        (NO_BROWSER, "tests in a browser", browser_command()),
        (NO_BUBBLEWRAP, "tests of the sandbox that grades homework", BUBBLEWRAP),
        (NO_MODEL, "tests of cells and code that ask a model", model_command()),
        (NO_PEER, "comparisons with other packages", "python3 course.py test tests/peers"),
    ]:
        count = sum(reason in found for found in reasons)
        if count:
            yield f"Left out: {count} {tests}; {reason}. To run them: {command}"

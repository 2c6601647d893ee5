"""Fixtures for tests of all that surrounds the sandbox."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for the helpers that lie beside the tests
from small_assignment import SMALL, InProcess, good  # noqa: E402


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    """Students' answers draw with pyplot, which keeps a figure until it is closed."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="session")
def small():
    """Four questions: a function, a value that needs a given cell, a function, a text."""
    return SMALL


@pytest.fixture
def answered():
    """The notebook of a student who has answered all of it, as a dict."""
    return good(SMALL)


@pytest.fixture
def session_in_process():
    """Has the interface of `attnlib.homework.remote.Session`, and no walls."""
    return InProcess


@pytest.fixture
def in_process(monkeypatch):
    """Grading of the small assignment, in the process that grades."""
    from attnlib.homework import grading

    monkeypatch.setattr(grading, "session_of", lambda job, cells, *_: InProcess(None, cells))
    monkeypatch.setattr(grading, "load_assignment", lambda id, seed: SMALL)

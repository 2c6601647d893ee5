"""The learner's record: one small JSON file, readable, deletable, and never in the way.

It lies in the user's data folder, or in the folder that ATTNLIB_DATA names. Where it cannot be written the
record lasts as long as the session.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from pathlib import Path

import filelock
import platformdirs

_session = {}     # what could not be written


def path():
    """Where the record lies, whether or not it is there."""
    folder = os.environ.get("ATTNLIB_DATA") or platformdirs.user_data_dir("attnlib", appauthor=False)
    return Path(folder) / "progress.json"


def read():
    """All entries: the exercise's id, and a dict with ``passed``, ``tries``, ``hints`` and ``prediction``."""
    found = {}
    with contextlib.suppress(OSError, ValueError, RecursionError):
        found = json.loads(path().read_text(encoding="utf-8"))
    found = found if isinstance(found, dict) else {}
    return {name: entry for name, entry in (found | _session).items() if isinstance(entry, dict)}


def entry(exercise):
    """One exercise's entry; empty where there is none."""
    return read().get(exercise, {})


def change(exercise, **values):
    """Enter values for one exercise; what other sessions wrote meanwhile stays."""
    with _alone():
        entries = read()
        entries[exercise] = entries.get(exercise, {}) | values
        try:
            _write(entries)
            _session.clear()
        except OSError:
            _session[exercise] = entries[exercise]


def kept():
    """Whether all that is known stands in the file."""
    return not _session


@contextlib.contextmanager
def _alone():
    """No other process changes the record meanwhile; where locks are not to be had, on good faith."""
    name = hashlib.sha256(str(path().absolute()).encode()).hexdigest()[:16]
    lock = filelock.FileLock(Path(tempfile.gettempdir()) / f"attnlib-{name}.lock", timeout=2)
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, NotImplementedError, filelock.Timeout):
            stack.enter_context(lock)
        yield


def _write(entries):
    """The whole file or, on an interruption, the file as it was."""
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not _readable(target):
        os.replace(target, target.with_name("progress-unreadable.json"))
    handle, name = tempfile.mkstemp(dir=target.parent, prefix="progress-", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(entries, file, indent=1, ensure_ascii=False, sort_keys=True)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _readable(file):
    try:
        return isinstance(json.loads(file.read_text(encoding="utf-8")), dict)
    except (ValueError, RecursionError):
        return False

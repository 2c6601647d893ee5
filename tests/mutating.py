"""Replace functions of attnlib by mistakes, and see whether attnlib's own tests notice.

``python tests/mutating.py report.json [exercise ...] [--without test ...]``: one process that collects the
tests once. For each exercise of the table of adapters its function is replaced by the exercise's `compute`
behind the function's own signature: first without a mistake, which no test may notice, then with each of its
mistakes, which one test must notice. Tests of golden files are left out: without the files too the tests
must be good enough.
"""

import argparse
import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, Phase, settings

ROOT = Path(__file__).resolve().parents[1]


class Mutations:
    """A pytest plugin; ``report`` has, for each exercise, the tests that should not have failed, the
    mistakes that no test noticed, and how many were tried."""

    def __init__(self, exercises, without=()):
        self.exercises, self.without, self.report = exercises, without, {}

    def pytest_collection(self):
        settings.register_profile(
            "mutations", deadline=None, max_examples=20, derandomize=True, database=None,
            phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck))
        settings.load_profile("mutations")       # no shrinking: that one fails is enough

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        from adapters import ADAPTERS

        for exercise in self.exercises:
            adapter = ADAPTERS[exercise]
            path = ROOT / adapter.tests
            items = [item for item in session.items
                     if item.path == path and "golden" not in item.fixturenames
                     and item.originalname not in (*adapter.of_the_way, *self.without)]  # fmt: skip
            session._setupstate.teardown_exact(None)     # what is left of the last exercise's module
            self.report[exercise] = tried(exercise, adapter, items)
        return True


def tried(exercise, adapter, items):
    from attnlib.exercises.catalogue import EXERCISES

    judge, calls = EXERCISES[exercise].judge, []

    def replacement(**choices):
        def compute(*args, **kwargs):
            calls.append(1)
            return judge.compute(*args, **kwargs, **choices)

        return adapter.wrong(getattr(adapter.owner, adapter.name), compute)

    false, cost = [], {}                        # the tests that reach `compute`, with their seconds
    with replaced(adapter, replacement(), items):
        for item in items:
            calls.clear()
            start = perf_counter()
            if failed := fails(item, items):
                false.append(f"{item.name}: {failed}")
            elif calls:
                cost[item] = perf_counter() - start
    survivors, count = [], 0
    for mistake in judge.mistakes:
        if mistake.name in adapter.left_out:
            continue
        count += 1
        with replaced(adapter, replacement(**mistake.choices), items):
            cheapest = sorted(cost, key=cost.get)
            noticed = next((item for item in cheapest if fails(item, items)), None)
        if noticed is None:
            survivors.append(f"{mistake.name} {mistake.choices}")
        else:                                   # what has noticed one comes sooner for the next
            cost[noticed] /= 2
    return {"false": false, "survivors": survivors, "tried": count}


def fails(item, items):
    item._initrequest()
    after = items[-1] if item is not items[-1] else items[0]
    reports = runtestprotocol(item, log=False, nextitem=after)
    return next((report.longreprtext[-500:] for report in reports if report.failed), None)


@contextmanager
def replaced(adapter, new, items):
    """The function exchanged wherever attnlib, the tests and their parameters hold it."""
    old, undo = getattr(adapter.owner, adapter.name), []
    places = [vars(module) for name, module in list(sys.modules.items())
              if name.split(".")[0] == "attnlib" and not name.startswith("attnlib.exercises")]  # fmt: skip
    places += [vars(item.module) for item in items]
    places += [item.callspec.params for item in items if hasattr(item, "callspec")]
    if isinstance(adapter.owner, type):
        undo.append((adapter.owner, old))
        setattr(adapter.owner, adapter.name, new)
    changed = []
    for place in places:
        for key, value in list(place.items()):
            if value is old:
                place[key] = new
                changed.append((place, key))
    try:
        yield
    finally:
        for owner, value in undo:
            setattr(owner, adapter.name, value)
        for place, key in changed:
            place[key] = old


def main(report, exercises, without):
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "exercises")]
    os.environ.pop("ATTNLIB_GOLDEN", None)
    os.chdir(ROOT)
    from adapters import ADAPTERS

    exercises = exercises or [name for name, adapter in ADAPTERS.items() if adapter.owner]
    mutations = Mutations(exercises, without)
    files = sorted({ADAPTERS[name].tests for name in exercises})
    quick = ["--assert=plain", "--tb=native", "-p", "no:warnings"]       # a failure is all that counts
    pytest.main([*files, "-q", *quick, "-p", "no:cacheprovider", "-p", "no:xdist"], plugins=[mutations])
    Path(report).write_text(json.dumps(mutations.report, indent=1), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report")
    parser.add_argument("exercises", nargs="*")
    parser.add_argument("--without", nargs="*", default=())
    main(**vars(parser.parse_args()))

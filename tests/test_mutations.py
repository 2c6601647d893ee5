"""attnlib's own tests notice each mistake that its exercises know.

`mutating.py` does the work, in one process. What it tells of a mistake that no test noticed is the name and
the choices of the exercise's `compute`: write the test that fails on it, beside the others of the function.
"""

import json
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent
sys.path.append(str(TESTS / "exercises"))

from adapters import ADAPTERS  # noqa: E402

from attnlib.exercises.catalogue import EXERCISES  # noqa: E402


def mutate(report, *arguments):
    run = subprocess.run([sys.executable, TESTS / "mutating.py", report, *arguments],
                         capture_output=True, text=True, encoding="utf-8", timeout=900)  # fmt: skip
    assert report.is_file(), run.stdout[-2000:] + run.stderr[-2000:]
    told = json.loads(report.read_text(encoding="utf-8"))
    assert told, run.stdout[-2000:] + run.stderr[-2000:]
    return told


def test_each_mistake_is_noticed(tmp_path):
    told = mutate(tmp_path / "report.json")
    assert list(told) == [exercise for exercise, adapter in ADAPTERS.items() if adapter.owner]
    assert {e: result["false"] for e, result in told.items() if result["false"]} == {}, "nothing was wrong"
    assert {e: result["survivors"] for e, result in told.items() if result["survivors"]} == {}
    for exercise, result in told.items():
        left_out = ADAPTERS[exercise].left_out
        names = [mistake.name for mistake in EXERCISES[exercise].judge.mistakes]
        assert result["tried"] == sum(name not in left_out for name in names) > 0
        assert set(left_out) <= set(names)


def test_what_no_test_looks_at_is_told(tmp_path):
    """Judged by tests of masks that never ask for more than a few positions."""
    told = mutate(tmp_path / "report.json", "window_mask", "--without",
                  "test_masks_of_more_positions_than_a_byte_counts")  # fmt: skip
    assert any(survivor.startswith("small_positions") for survivor in told["window_mask"]["survivors"])

"""Compare the package's speed with PyTorch's and print one table: ``python3 course.py bench``.

With a name in front, as in ``bench seeds --seeds 2``, the slow benchmark of that name is run in its place.
Writes the same figures to ``benchmarks/results.json`` (not tracked: they belong to a machine).
Ends with status 1 when a target is missed.
"""

import importlib
import json
import platform
import sys
from itertools import chain
from pathlib import Path

import numpy
import torch
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))

import attention  # noqa: E402
import decoding  # noqa: E402
import memory  # noqa: E402
from protocol import compare  # noqa: E402

RESULTS = Path(__file__).with_name("results.json")
SLOW = ("homework", "seeds", "translation")


def main():
    if len(sys.argv) > 1:
        name = sys.argv.pop(1)
        if name not in SLOW:
            print(f"There is no benchmark {name!r}; there are: {', '.join(SLOW)}.", file=sys.stderr)
            return 2
        return importlib.import_module(name).main()
    torch.set_num_threads(1)
    print("attnlib / reference: one thread, processor time, median of rounds [lowest .. highest]")
    print(
        f"{platform.machine()}, Python {platform.python_version()}, "
        f"torch {torch.__version__}, NumPy {numpy.__version__}\n"
    )
    rows = []
    with threadpool_limits(1):
        for name, target, ours, reference in chain(attention.cases(), decoding.cases()):
            ratio = compare(ours, reference)
            rows.append({"case": name, "target": target, **ratio._asdict()})
            told(rows[-1], f"[{ratio.low:.3f} .. {ratio.high:.3f}]")
        for name, target, megabytes in memory.cases():
            rows.append({"case": name, "target": target, "median": megabytes})
            told(rows[-1])
    machine = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "threads": 1,
    }
    RESULTS.write_text(json.dumps({**machine, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    missed = [row["case"] for row in rows if row["median"] > row["target"]]
    print(f"\n{len(rows) - len(missed)} of {len(rows)} targets met; figures in {RESULTS.name}.")
    return 1 if missed else 0


def told(row, spread=""):
    verdict = "met" if row["median"] <= row["target"] else "MISSED"
    target = f"at most {row['target']}: {verdict:6}"
    print(f"{row['median']:5.3f} {spread:16}  {target}  {row['case']}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

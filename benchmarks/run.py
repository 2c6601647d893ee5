"""Compare the package's speed with PyTorch's and its peers', as one table: ``python3 course.py bench``.

The whole table takes a quarter of an hour; ``bench A E2`` measures the rows whose id begins so. With a name,
as in ``bench seeds --seeds 2``, the slow benchmark of that name is run in its place. A row that is left out
because its peer is not installed (extra ``peers``) is named. The same figures are written to
``benchmarks/results.json`` and drawn in ``benchmarks/results.png`` (not tracked: they belong to a machine).

Ends with status 1 when a target is missed by more than the table itself explains.
"""

import importlib
import importlib.util
import json
import math
import sys
from pathlib import Path

import torch
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parent))

import accuracy  # noqa: E402
import attention  # noqa: E402
import chart  # noqa: E402
import decoding  # noqa: E402
import linear  # noqa: E402
import machine  # noqa: E402
import memory  # noqa: E402
import multi_head  # noqa: E402
import tiles  # noqa: E402
import training  # noqa: E402
from protocol import measured, verdict  # noqa: E402

TABLE = (attention, tiles, linear, decoding, multi_head, training, accuracy, memory)
RESULTS = Path(__file__).with_name("results.json")
SLOW = ("homework", "seeds", "translation")


def main():
    asked = sys.argv[1:]
    if asked and asked[0] in SLOW:
        return importlib.import_module(sys.argv.pop(1)).main()
    torch.set_num_threads(1)
    with threadpool_limits(1):
        found = ids()
        for name in asked:
            if not any(id.startswith(name) for id in found):
                print(f"There is no benchmark {name!r}; there are: {', '.join(SLOW)}, and the rows "
                      f"{', '.join(dict.fromkeys(found))}.", file=sys.stderr)  # fmt: skip
                return 2
        return table(tuple(asked) or ("",))


def ids():
    """The id of each row, in the table's order."""
    return [case.id for module in TABLE for case in module.cases(small=True)]


def table(asked):
    """Measure the rows whose id begins with one of ``asked``; print, write and draw them."""
    about = {**machine.description(), "load_before": machine.load(), **machine.limits()}
    print("attnlib / reference: one thread, processor time, median of rounds [lowest .. highest]\n"
          f"{about['processor']} ({about['machine']}), Python {about['python']}, "
          f"torch {about['torch']}, NumPy {about['numpy']}; one thread multiplies {about['gflops']:.0f} "
          f"GFLOP/s and copies {about['gigabytes']:.0f} GB/s; load {about['load_before']}\n")  # fmt: skip
    rows, count = [], sum(id.startswith(asked) for id in ids())
    for module in TABLE:
        if not any(case.id.startswith(asked) for case in module.cases(small=True)):
            continue
        for case in module.cases():
            if case.id.startswith(asked):
                print(f"{len(rows) + 1:3}/{count}  {case.name:93}", end="", flush=True)
                rows.append(row(case))
                print(told(rows[-1]), flush=True)
    about["load_after"] = machine.load()
    RESULTS.write_text(as_json({**about, "rows": rows}), encoding="utf-8")
    written = [RESULTS]
    if any("median" in row for row in rows):
        written.append(RESULTS.with_suffix(".png"))
        chart.draw(rows).savefig(written[-1])
    names = " and ".join(path.name for path in written)
    print(f"\n{summary(rows)}\nLoad {about['load_after']}; figures in {names}.")
    return 1 if any(row["verdict"] == "missed" for row in rows) else 0


def row(case):
    """What the table says of a case: measured, or why it is left out."""
    name = case.name.removeprefix(case.id).strip()
    found = {"id": case.id, "case": name, "target": case.target, "unit": case.unit}
    if case.needs and importlib.util.find_spec(case.needs) is None:
        return {**found, "verdict": "left out", "why": f"{case.needs} is not installed"}
    try:
        figure = measured(case)
    except ImportError as error:
        if not case.needs:
            raise
        return {**found, "verdict": "left out", "why": f"{case.needs} cannot be imported ({error})"}
    found |= {**figure._asdict(), "verdict": verdict(case.target, figure.median, case.gap)}
    return found | {"why": case.gap.why} if found["verdict"] == "explained" else found


def as_json(results):
    """JSON knows no infinity; null is what was never reached."""
    rows = [{key: None if value == math.inf else value for key, value in row.items()}
            for row in results["rows"]]  # fmt: skip
    return json.dumps({**results, "rows": rows}, indent=1, allow_nan=False) + "\n"


def told(row):
    """The end of a printed line, and a second line where something is to be explained."""
    if row["verdict"] == "left out":
        return f"left out: {row['why']}"
    spread = "" if row["low"] == row["high"] else f"[{row['low']:.3f} .. {row['high']:.3f}]"
    target = f"at most {row['target']:g}{' ' * bool(row['unit'])}{row['unit']}"
    verdict = {"met": "met", "missed": "MISSED", "explained": "missed: " + row.get("why", "")}[row["verdict"]]
    return f"{row['median']:7.3f} {spread:18} {target:16} {verdict}"


def summary(rows):
    """How many targets are met, which are not, which rows were left out."""
    by = {word: [row for row in rows if row["verdict"] == word]
          for word in ("met", "explained", "missed", "left out")}  # fmt: skip
    lines = [f"{len(by['met'])} of {len(rows)} targets met."]
    if by["explained"]:
        lines.append(f"Missed, as the table explains: {_named(by['explained'])}.")
    if by["missed"]:
        lines.append(f"Missed: {_named(by['missed'])}.")
    if by["left out"]:
        reasons = ", ".join(dict.fromkeys(row["why"] for row in by["left out"]))
        lines.append(f"Left out: {_named(by['left out'])}, for {reasons}. "
                     "To bring it: python3 course.py bench, with a network.")  # fmt: skip
    return "\n".join(lines)


def _named(rows):
    return "; ".join(f"{row['id']} {row['case']}" for row in rows)


if __name__ == "__main__":
    sys.exit(main())

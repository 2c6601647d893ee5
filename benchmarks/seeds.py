"""What the lessons say of models that are trained, from ten seeds: ``python3 course.py bench seeds``.

A lesson trains from one seed to three, and states what is to hold from any. Here its cells are run with each
of the seeds 0 to 9, and its own comparisons are read (`claims`). About three quarters of an hour of one
processor; ``--lessons 12 14`` and ``--seeds 2`` do less, ``--write`` puts the table into seeds.md. The
numbers are kept as JSON too, beside results.json and like it not tracked.
Ends with status 1 when a claim does not hold.
"""

import argparse
import json
import platform
import re
import sys
import time
from pathlib import Path

import numpy
import torch
from claims import COMPARE, Lesson, cells, claims

FOLDER = Path(__file__).resolve().parent
RESULTS, TABLE = FOLDER / "results_seeds.json", FOLDER / "seeds.md"
SEEDS = 10
INTRODUCTION = """\
# Ten seeds

Made by `python3 course.py bench seeds --write`. A lesson trains its models from one seed to three, and states
only what holds from any. Here the notebook's own cells are run with each of ten seeds; a claim **holds** with
a seed if the cell prints, to the letter, the line that is stored in the notebook.

*by* is the comparison as it stands in the lesson; *worst* is the value nearest to its limit, or the worst
miss. Two numbers a/b: some models are to pass and a is the nearest of those, the others are to fail and b is
the nearest of these. Where the right side varies too, the difference is given. A line without numbers says
that two things are the same. The shipped translator's ten seeds stand in [its card](../data/translator.md).
"""

LESSONS = (
    Lesson("04_score_functions", {"for seed in range(3)": ("for seed in (SEED,)", 3)}, ("Is it the tanh?",)),
    Lesson(
        "07_softmax_saturation",
        {
            "notes(64, seed=7)": ("notes(64, seed=100 + SEED)", 2),
            "seed=1000 + step": ("seed=1000 * (SEED + 1) + step", 1),
            "w_q = np.random.default_rng(1)": ("w_q = np.random.default_rng(SEED)", 1),
        },
        ("Who learns?",),
    ),
    Lesson(
        "09_multi_head_attention",
        # With the next two, for it speaks of means over three and of two in three.
        {"for seed in (0, 1, 2)": ("for seed in (SEED, (SEED + 1) % 10, (SEED + 2) % 10)", 1)},
        ("One head against two", "One letter, said twice", "Take one out", "Four heads for two questions"),
    ),
    Lesson(
        "10_positions",
        {
            "for seed in (0, 1, 2)": ("for seed in (SEED,)", 1),
            "(m[:, 1], m[:, 0], m[:, 2])": ("(m[:, 0], m[:, 0], m[:, 0])", 1),
        },
        ("Two tasks", "What is it that breaks?"),
    ),
    Lesson(
        "12_transformer",
        {
            "torch.manual_seed(12)": ("torch.manual_seed(SEED)", 3),
            "torch.manual_seed(3)": ("torch.manual_seed(SEED)", 1),
            "seed=12)": ("seed=SEED)", 2),
            "for seed in range(10)": ("for seed in (SEED,)", 1),
            "seed=0, rate=0.01": ("seed=SEED, rate=0.01", 1),
        },
        (
            "Added to what was there",
            "Where does the norm stand?",
            "A batch and its masks",
            "Left, right, alone",
            "Post-norm without a warm-up",
            "Does it translate what it has not seen?",
            "What teacher forcing hides",
            "After the first mistake",
            "Does a beam help our translator?",
            "The Annotated Transformer",
        ),
    ),
    Lesson(
        "13_large_vocabularies",
        {
            "for seed in (0, 1, 2)": ("for seed in (SEED,)", 1),
            "enumerate(taught)": ("enumerate(taught, SEED)", 1),
            "fresh(0, ": ("fresh(SEED, ", 2),
        },
        ("Do they learn the same?", "What the saving costs", "Which tree?"),
    ),
    Lesson(
        "14_reading_a_transformer",
        {"for seed in (0, 1, 2)": ("for seed in (SEED,)", 2), "[[1, 0, 2]]": ("[[0, 0, 0]]", 1)},
        (
            "Not at all, and then at once",
            "Who does it?",
            "Against chance",
            "The proof",
            "Where is it in the sum?",
            "What does layer 1 hand over?",
            "Silence a head",
            "The same map, another answer",
        ),
    ),
    Lesson(
        "16_bug_hunt",
        {"for seed in (0, 1)": ("for seed in (SEED,)", 1), "[train(A, 0)]": ("[train(A, SEED)]", 1)},
        ("Four models, three of them wrong",),
    ),
    Lesson(
        "17_sequence_side",
        {"seed=0, steps": ("seed=SEED, steps", 2)},
        (
            "Beyond the length of training",
            "Four times as long",
            "Through a window",
            "What does a head look at that finds nothing?",
            "Keep the first token",
            "What lies farther back",
            "One comparison",
        ),
    ),
    Lesson(
        "18_head_side",
        {"seed=18": ("seed=SEED", 7)},
        ("What is recalled?", "Heads made of heads", "Look at its third line"),
    ),
    Lesson(
        "20_linear_attention",
        {"seed=20, steps": ("seed=SEED, steps", 1)},
        ("Who finds the rooms?", "Eight drawers"),
    ),
    Lesson(
        "21_refining_weights",
        {"seed=21": ("seed=SEED", 3)},
        ("Counting", "What does it buy?"),
    ),
    Lesson(
        "22_linear_attention_for_images",
        {"seed=22, **settings": ("seed=SEED, **settings", 1)},
        ("After twelve rounds", "Where is which stroke?"),
    ),
    Lesson(
        "23_lightning_minimax",
        {"seed=23, steps": ("seed=SEED, steps", 1)},
        ("Who finds the needle?", "Every straw may be the needle"),
    ),
    Lesson(
        "25_titans",
        {"seed=25": ("seed=SEED", 7)},
        (
            "The hotel, with guests who move",
            "And when nobody moves?",
            "Read the list again",
            "Two matrices",
            "How far off?",
            "Before or after?",
            "Who moved, who stayed",
        ),
    ),
    Lesson(
        "24_transformer_squared",
        {"seed=24": ("seed=SEED", 7)},
        (
            "A quarter each",
            "Turn one of them",
            "Two experts",
            "What became of the other choice?",
            "Two passes",
            "An expert for the first pass",
            "All of both is too much",
            "Sixteen words to search with",
            "A job that the model has never seen",
        ),
    ),
)


def main():
    parser = argparse.ArgumentParser(prog="bench seeds", description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS, help="so many, from 0 on")
    parser.add_argument("--lessons", nargs="*", default=[], help="their numbers; all when left out")
    parser.add_argument("--write", action="store_true", help=f"write {TABLE.name}")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    chosen = [lesson for lesson in LESSONS if not asked.lessons or lesson.name[:2] in asked.lessons]
    new = {}
    for lesson in chosen:
        new[lesson.name] = measured(lesson, range(asked.seeds))
        if asked.seeds >= SEEDS:  # a shorter run is a look, and changes no table
            keep(lesson.name, new[lesson.name])
    print(page(new), end="")
    if asked.write:
        TABLE.write_text(renewed(TABLE.read_text(encoding="utf-8"), page(kept())), encoding="utf-8")
    return 0 if all(all(row["holds"]) for found in new.values() for row in found["rows"]) else 1


def renewed(table, newer):
    """A table with the lessons of a newer one in place of its own; the others stay, measured elsewhere."""
    sections = {}
    for text in (table, newer):
        sections |= {part.split("\n")[0]: part.strip() for part in re.split(r"(?m)^(?=## )", text)[1:]}
    return "\n\n".join([INTRODUCTION.strip(), *(sections[name] for name in sorted(sections))]) + "\n"


def kept():
    """What has been measured on this machine, by the lesson's name."""
    return json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}


def keep(name, found):
    """Add a lesson to the file."""
    whole = json.dumps(dict(sorted({**kept(), name: found}.items())), ensure_ascii=False, indent=1)
    RESULTS.write_text(whole + "\n", encoding="utf-8")


def measured(lesson, seeds):
    """A lesson's rows over the seeds, the processor seconds of each run, and what it ran on."""
    code, found, seconds = cells(lesson), [], []
    for seed in seeds:
        start = time.process_time()
        found.append(claims(lesson, code, seed))
        seconds.append(round(time.process_time() - start, 1))
        failed = [claim.states for claim in found[-1] if not claim.holds]
        print(f"lesson {lesson.name[:2]}, seed {seed}: {seconds[-1]:.0f} s, {len(found[-1])} claims, "
              f"not held: {failed or 'none'}", file=sys.stderr, flush=True)  # fmt: skip
    return {"machine": platform.machine(), "python": platform.python_version(), "torch": torch.__version__,
            "numpy": numpy.__version__, "threads": 1, "seconds": seconds,
            "swaps": {old: new for old, (new, _) in lesson.swaps.items()},
            "rows": [row for same in zip(*found, strict=True) for row in rows(same)]}  # fmt: skip


def rows(claims):
    """One claim from several seeds: a row for each comparison in it, or one without numbers."""
    claims = level(claims)
    states, holds = " ".join(claims[0].states.split()), [claim.holds for claim in claims]
    row = {"section": claims[0].section, "states": states, "holds": holds}
    asked = {comparison.text: (comparison, limit) for comparison, _, limit in claims[0].compared}
    if not asked:
        return [row]
    # The worst of those that do not hold, if there are any.
    weak = [claim for claim in claims if not claim.holds] or claims
    return [row | {"asks": text, "difference": not one.fixed, "limit": limit,
                   "values": [nearest([claim], one) for claim in claims], "worst": nearest(weak, one)}
            for text, (one, limit) in asked.items()]  # fmt: skip


def level(claims):
    """The difference and 0, where a number is compared with another number for each seed."""
    limits = {}
    for claim in claims:
        for one, _, limit in claim.compared:
            limits.setdefault(one.text, set()).add(limit)
    return [claim._replace(compared=[
                (one._replace(fixed=False), numbers - limit, 0.0) if len(limits[one.text]) > 1
                else (one, numbers, limit) for one, numbers, limit in claim.compared])
            for claim in claims]  # fmt: skip


def nearest(claims, comparison):
    """On each side of the limit the number that comes nearest to it; first of those that pass."""
    sides = {True: [], False: []}
    for claim in claims:
        for one, numbers, limit in claim.compared:
            if one.text == comparison.text:
                for number in numbers.tolist():
                    sides[COMPARE[one.sign](number, limit)].append((abs(number - limit), number))
    return [min(side)[1] for side in sides.values() if side]


def page(lessons):
    """The table, in Markdown."""
    lines = [INTRODUCTION]
    for name, found in lessons.items():
        swaps = ", ".join(f"`{old}` as `{new}`" for old, new in found["swaps"].items())
        lines += [f"## {name}", "",
                  f"With {swaps}. {found['machine']}, Python {found['python']}, PyTorch {found['torch']}, "
                  f"NumPy {found['numpy']}, one thread; {numpy.median(found['seconds']):.0f} processor "
                  "seconds a seed.", "",
                  f"| the lesson prints | by | seeds 0 to {len(found['seconds']) - 1} | worst | holds |",
                  "|---" * 5 + "|"]  # fmt: skip
        for row in found["rows"]:
            asks = f"`{row['asks']}`{', the difference' * row['difference']}" if "asks" in row else ""
            columns = (row["states"], asks, " ".join(map(short, row.get("values", []))),
                       short(row.get("worst", [])), verdict(row["holds"]))  # fmt: skip
            lines.append("| " + " | ".join(column.replace("|", "\\|") for column in columns) + " |")
        lines.append("")
    return "\n".join(lines)


def short(numbers):
    return "/".join(f"{number:.3f}" if 0.001 <= abs(number) < 100 else f"{number:.1g}" for number in numbers)


def verdict(holds):
    missed = [str(seed) for seed, held in enumerate(holds) if not held]
    return f"no: not with {', '.join(missed)}" if missed else "yes"


if __name__ == "__main__":
    sys.exit(main())

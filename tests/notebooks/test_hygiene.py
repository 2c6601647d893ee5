"""Every lesson keeps every rule of tools/lints; and each rule finds what it is there to find."""

import functools
import re

import lesson
import lints
import nbformat
import pytest

LESSONS = lesson.lesson_paths()
read = functools.cache(lesson.read)  # no rule changes what it reads
RULES = {name: rule for name, rule in lints.RULES.items() if name != "prose_numbers"}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_lesson(path, rule):
    findings = list(RULES[rule](read(path)))
    assert not findings, "\n".join(["", RULES[rule].__doc__, *findings])


def test_there_are_lessons():
    assert LESSONS, "notebooks/ holds no lesson, so this file tests nothing"


@pytest.mark.parametrize("rule", lints.RULES)
def test_a_good_lesson_passes(sample, rule):
    assert list(lints.RULES[rule](sample.lesson())) == []


# What breaks a rule: before the cells are put in canonical form ...

CELLS = [
    ("size", lambda s: s.said.update(source="x" * 1_000_000), "1.00 MB"),
    ("settings", lambda s: s.metadata["attn"].update(second=3), "'second'"),
    ("settings", lambda s: s.metadata["attn"].update(seconds=90), "is 90"),
    ("marks", lambda s: s.first.metadata.update(tags=["long"]), "'long'"),
    ("marks", lambda s: s.said.metadata.slideshow.update(slide_type="side"), "'side'"),
    ("marks", lambda s: s.said.metadata.update(attn={"number": ["3"]}), "'number'"),
    ("marks", lambda s: s.first.metadata.update(tags=["needs-model"]), "attn.needs"),
    ("notes", lambda s: s.note.update(source="Ask."), "'Ask.'"),
    ("notes", lambda s: s.note.metadata.update(tags=[]), "remove-cell"),
    ("notes", lambda s: s.figure_cell.metadata.update(slideshow={"slide_type": "notes"}), "markdown"),
    ("parses", lambda s: s.first.update(source=" "), "empty"),
    ("parses", lambda s: s.first.update(source="x = ("), "not valid Python"),
    ("inline_figures", lambda s: s.first.update(source="import numpy"), "starts with"),
    ("magics", lambda s: s.first.update(source="!pip install attnlib"), "'!pip install attnlib'"),
    ("magics", lambda s: s.first.update(source="x = 1\n%pip install -U numpy"), "'%pip install"),
    ("magics", lambda s: s.first.update(source="%matplotlib widget"), "'%matplotlib widget'"),
    ("magics", lambda s: s.first.update(source="%%bash\nls"), "'%%bash'"),
    ("compared", lambda s: s.first.update(source="# NBVAL_SKIP\nx = 1"), "NBVAL_SKIP"),
    ("compared", lambda s: s.first.update(source="#NBVAL_IGNORE_OUTPUT\nx"), "NBVAL_IGNORE_OUTPUT"),
    ("no_semicolon", lambda s: s.first.update(source="x = 1; \n"), "semicolon"),
    ("no_cuda", lambda s: s.first.update(source="x.cuda()"), ".cuda("),
    ("no_cuda", lambda s: s.first.update(source="x.to('cuda')"), "'cuda'"),
    ("short", lambda s: s.first.update(source="x = 1\n\n# why\n" * 15), "15 lines"),
    ("short", lambda s: s.first.update(source=f"x = '{'y' * 87}'"), "93 characters"),
    ("imports", lambda s: s.first.update(source="def f():\n    import pandas.io"), "pandas"),
    ("imports", lambda s: s.first.update(source="from IPython.display import HTML"), "IPython"),
    ("no_stderr", lambda s: s.first.outputs.append(s.stream("Warning: w", "stderr")), "Warning: w"),
    ("errors", lambda s: s.first.outputs.append(_error()), "ValueError without the tag"),
    ("errors", lambda s: s.first.metadata.update(tags=["raises-exception"]), "holds no error"),
    ("no_address", lambda s: s.first.outputs.append(s.stream("<A at 0x7f3a5c0d>")), "object's address"),
    ("no_machine_path", lambda s: s.first.outputs.append(s.stream("in /tmp/a.py")), "/tmp/a.py"),
    ("printed", lambda s: s.first.update(outputs=[]), "no output is stored"),
    ("alt_text", lambda s: s.figure_cell.update(outputs=[s.figure("A plot.")]), "'A plot.'"),
    ("title", lambda s: s.title.update(source="# 04 · Sample"), "'# 03 · '"),
    ("parts", lambda s: s.predict.update(source="## 1. A sum"), "no prediction"),
    ("parts", lambda s: s.exercise.update(source="Exercise your patience."), "no exercise"),
    ("parts", lambda s: s.title.update(source=s.title.source.replace("术语", "words")), "no table"),
    ("parts", lambda s: s.title.update(source=s.title.source.replace("键", "key")), "no table"),
    ("parts", lambda s: s.sources.update(source=s.sources.source[:-6]), "2 lines with a year"),
    ("links", lambda s: s.said.update(source="[next](04_next.ipynb#top)"), "04_next.ipynb"),
]
# ... and after it.
FILES = [
    ("valid", lambda nb: nb.cells[0].pop("id"), "not a valid notebook"),
    ("valid", lambda nb: nb.cells[0].update(outputs=[]), "not a valid notebook"),
    ("canonical", lambda nb: nb.cells[0].metadata.update(collapsed=True), "from line"),
    ("canonical", lambda nb: nb.metadata.language_info.update(version="3.12.1"), "from line"),
    ("canonical", lambda nb: nb.update(nbformat_minor=4), "from line"),
    ("kernelspec", lambda nb: nb.metadata.kernelspec.update(name="attn"), "'attn'"),
    ("ids", lambda nb: nb.cells[1].update(id=nb.cells[0].id), "two cells"),
    ("ids", lambda nb: nb.cells[1].pop("id"), "has no id"),
    ("counts", lambda nb: nb.cells[2].update(execution_count=None), "is None"),
    ("counts", lambda nb: nb.cells[6].update(execution_count=7), "is 7"),
    ("no_widget", lambda nb: nb.cells[2].outputs.append(_widget()), "widget"),  # a build leaves it out
]
MATH = [
    (r"\(x\)", r"\("),
    (r"Then \[x\] is", r"\["),
    ("It costs $x and more.", "not closed"),
    ("$$x\n\n$$", "not closed"),
    ("\\begin{equation}\nx\n\\end{equation}", "outside"),
    ("$x$<br>then", "<br>"),
    ("$ x$", "space"),
    ("$x $", "space"),
    ("$\\frac{1}{2$", "braces"),
    ("$$x \\label{a}$$", "label"),
    ("| a | b |\n|---|---|\n| $|x|$ | 3 |", "vert"),
]
GOOD_MATH = [
    r"$x$, $$y\\[4pt] z$$ and \$5, `\[x\]` and `$HOME`",
    "$$\n\\begin{aligned}\nx &= 3\n\\end{aligned}\n$$",
    "```\n$ python \\(x\\)\n```",
    r"| $\lvert x \rvert$ | $\{x\}$ |",
]


def _error():
    return nbformat.v4.new_output("error", ename="ValueError", evalue="x", traceback=[])


def _widget():
    data = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}}
    return nbformat.v4.new_output("display_data", data=data)


@pytest.mark.parametrize("rule, spoil, words", CELLS)
def test_a_bad_cell_is_found(sample, rule, spoil, words):
    spoil(sample)
    assert words in "\n".join(RULES[rule](sample.lesson()))


@pytest.mark.parametrize("rule, spoil, words", FILES)
def test_a_bad_file_is_found(sample, rule, spoil, words):
    assert words in "\n".join(RULES[rule](sample.lesson(spoil)))


@pytest.mark.parametrize("source, words", MATH)
def test_a_formula_that_breaks_somewhere_is_found(sample, source, words):
    sample.said.source = source
    assert words in "\n".join(RULES["math"](sample.lesson()))


@pytest.mark.parametrize("source", GOOD_MATH)
def test_a_good_formula_passes(sample, source):
    sample.said.source = source
    assert list(RULES["math"](sample.lesson())) == []


def test_a_tagged_error_passes(sample):
    sample.first.outputs.append(_error())
    sample.first.metadata.tags = ["raises-exception"]
    assert list(RULES["errors"](sample.lesson())) == []


def test_every_rule_was_seen_to_fail():
    assert {rule for rule, *_ in CELLS + FILES} | {"math"} == set(RULES)


def test_every_rule_says_what_it_wants():
    assert all(re.match(r"[A-Z].+\.$", rule.__doc__ or "") for rule in lints.RULES.values())

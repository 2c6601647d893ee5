"""A small lesson without fault, for the tests of the tools to break."""

import base64

import canonical
import lesson
import nbformat
import pytest

TITLE = """\
# 03 · Sample

*You will be able to say what a sample is.*

| term | 术语 | here |
|---|---|---|
| query | 查询 | `q` |
| key | 键 | `k` |
| value | 值 | `v` |"""
PREDICT = """\
## 1. A sum

**Predict.** What is the mean of $x_1 = 3$ and four? See [this file](03_sample.ipynb)."""
FIRST = """\
%matplotlib inline
import numpy as np

x = np.array([3.0, 4.0])
print(f"mean {x.mean():.3f}")"""
SAID = "The mean is 3.5."
EXERCISE = "## Exercise 1: a mean\n\n5 minutes, difficulty 1 of 3."
FIGURE = "figure(x)"
SOURCES = "## Sources\n\n- A. One 2014, arXiv:1409.0473.\n- B. Two 2017.\n- C. Three 2019."


def markdown(source, slide_type=None, tags=(), **attn):
    cell = nbformat.v4.new_markdown_cell(source)
    if slide_type:
        cell.metadata.slideshow = {"slide_type": slide_type}
    return _marked(cell, tags, attn)


def code(source, *outputs, tags=(), **attn):
    return _marked(nbformat.v4.new_code_cell(source, outputs=list(outputs)), tags, attn)


def _marked(cell, tags, attn):
    if tags:
        cell.metadata.tags = list(tags)
    if attn:
        cell.metadata.attn = attn
    return cell


def stream(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


def figure(alt):
    data = {"image/png": base64.b64encode(b"a picture").decode(), "text/plain": alt}
    about = {"image/png": {"alt": alt}}
    return nbformat.v4.new_output("display_data", data=data, metadata=about)


class Sample:
    """The lesson's cells by name, to be changed before `lesson()` writes it to a file."""

    markdown, code, stream, figure = map(staticmethod, (markdown, code, stream, figure))

    def __init__(self, folder):
        self.path = folder / "03_sample.ipynb"
        self.title = markdown(TITLE, "slide")
        self.predict = markdown(PREDICT, "subslide")
        self.first = code(FIRST, stream("mean 3.500\n"))
        self.said = markdown(SAID, "fragment")
        self.note = markdown("*For the lecturer, 3 min.* Ask before running.", "notes", ["remove-cell"])
        self.exercise = markdown(EXERCISE, "slide")
        self.figure_cell = code(FIGURE, figure("Two points and the mean that lies between them."))
        self.sources = markdown(SOURCES)
        named = {name: cell for name, cell in vars(self).items() if name != "path"}
        for name, cell in named.items():
            cell.id = name.replace("_", "-")  # nbformat's own are random
        self.cells = list(named.values())
        self.metadata = {"attn": {"seconds": 15, "torch": False}}

    def lesson(self, change=lambda notebook: None):
        """Put the cells in canonical form, then `change` the notebook, then write and read it."""
        notebook = nbformat.v4.new_notebook(cells=self.cells, metadata=self.metadata)
        notebook = canonical.canonical(notebook)
        change(notebook)
        self.path.write_text(canonical.text(notebook), encoding="utf-8", newline="\n")
        return lesson.read(self.path)


@pytest.fixture
def sample(tmp_path):
    return Sample(tmp_path)

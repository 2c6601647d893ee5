"""A file that a student handed in, read whatever has become of it, and matched to the assignment."""

import codecs
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from attnlib.exercises.answers import capital
from attnlib.homework import assignment as assignments
from attnlib.homework import cell_code
from attnlib.homework.cell_code import Unparsed, read_code
from attnlib.homework.wire import printable

LARGEST = 200_000_000  # bytes of a file
MOST_CELLS = 3_000
MOST_ORDERED = 500  # cells; who has more has them in order
MOST_ANALYSED = 3_000_000  # characters of code; what is beyond is run and not looked into
WRITTEN = 20_000  # characters of a written answer

_KIND = {"code": "code", "markdown": "text", "heading": "text", "html": "text"}


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook: its place, from 1, whether it is code, its source, and its id in the assignment.

    Attributes
    ----------
    number : int
    kind : str
        "code", "text" or "raw".
    source : str
    id : str
        nbgrader's grade_id; empty where there is none.
    locked : bool
    """

    number: int
    kind: str
    source: str
    id: str = ""
    locked: bool = False

    @property
    def label(self):
        return f"cell {self.number} ({self.id})" if self.id else f"cell {self.number}"


@dataclass(frozen=True)
class Notebook:
    """What could be read of a file.

    Attributes
    ----------
    cells : tuple of Cell
    notes : tuple of str
        Sentences on what was odd about it.
    told : tuple of (str, str)
        The assignment and variant that its metadata and its call of `local_check` name, as far as they do.
    """

    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()
    told: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Unreadable:
    """A file that is no notebook; ``reason`` is a sentence that says what it is and what to do."""

    reason: str


# ---------------------------------------------------------------------------------------- reading


def read(data):
    """The notebook in these bytes.

    Returns
    -------
    Notebook or Unreadable
        Outputs are dropped. Old formats, other encodings, missing metadata are no obstacle.
    """
    if not data.strip(b"\0 \t\r\n"):
        return Unreadable(
            "The file is empty." if not data else "The file holds nothing but blanks or zero bytes."
        )
    if len(data) > LARGEST:
        return Unreadable(f"The file has {len(data) // 10**6} MB. Clear all outputs and hand it in again.")
    if data.startswith(b"PK\x03\x04"):
        return Unreadable("The file is a zip archive with another name. Hand in the notebook that is in it.")
    if data.startswith(
        (b"%PDF", b"\x89PNG", b"\xff\xd8\xff", b"\x1f\x8b", b"Rar!", b"7z\xbc\xaf", b"\xd0\xcf\x11")
    ):
        return Unreadable(
            "The file is a PDF, an image or an archive with another name. Hand in the .ipynb file."
        )
    text, notes = _decoded(data)
    found, reason = _json(text, notes)
    if reason:
        return Unreadable(reason)
    try:
        return _notebook(found, notes)
    except RecursionError:
        return Unreadable("The file is nested too deeply to be a notebook.")


def _decoded(data):
    notes = []
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):  # fmt: skip
        if data.startswith(mark):
            data, encoding = data[len(mark) :], name
            break
    else:
        encoding = {b"{\0": "utf-16-le", b"\0{": "utf-16-be"}.get(data[:2], "utf-8")
    if encoding != "utf-8":
        notes.append(f"The file is written in {encoding.upper()}; notebooks are in UTF-8.")
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        notes.append("The file is no clean UTF-8; some characters could not be read.")
    if "\0" in text:
        text = text.replace("\0", "")
        notes.append("The file had zero bytes in it, which were left out.")
    return text, notes


def _json(text, notes):
    """The value, and None or the sentence that says why there is none."""
    text = text.lstrip("\ufeff \t\r\n")
    if text.startswith("<"):
        return None, "The file is a web page, no notebook. Save the notebook itself, with File and Download."
    try:
        found, end = json.JSONDecoder(strict=False).raw_decode(text)
    except (ValueError, RecursionError) as error:
        return None, _no_json(text, error)
    if text[end:].strip():
        notes.append("Something stands behind the notebook's end in the file; it was left out.")
    return found, None


def _no_json(text, error):
    if re.search(r"^(?:<<<<<<<|>>>>>>>) ", text, re.M):
        return "The file holds the marks of an unfinished merge (<<<<<<<). Settle it and hand in again."
    if not text.startswith(("{", "[")):
        script = re.search(r'^(?:import |from |def |class |#|%|"""|print)', text, re.M)
        kind = "looks like a Python script" if script else "is something else"
        return f"The file is no notebook: it {kind}. Hand in the .ipynb file."
    if isinstance(error, RecursionError):
        return "The file is nested too deeply to be a notebook."
    place = getattr(error, "pos", 0)
    if place >= len(text) - 2 or "Unterminated" in str(error):
        return (
            "The file breaks off in the middle. It was cut while it was saved or uploaded; hand it in again."
        )
    line = getattr(error, "lineno", 1)
    return f"The file is a damaged notebook: its JSON is wrong in line {line}. Open it and hand in again."


def _notebook(found, notes):
    if isinstance(found, dict) and isinstance(found.get("content"), dict):  # as a Jupyter server hands it out
        found = found["content"]
    cells = _raw_cells(found)
    if cells is None:
        return Unreadable("The file is no notebook: it is JSON without cells. Hand in the .ipynb file.")
    if found.get("nbformat") not in (4, None):
        notes.append(
            f"The notebook is in format {str(found.get('nbformat'))[:20]} and not 4; it was read anyway."
        )
    if len(cells) > MOST_CELLS:
        notes.append(
            f"The notebook has {len(cells)} cells; those after the first {MOST_CELLS} were left out."
        )
    read = [_cell(number, cell) for number, cell in enumerate(cells[:MOST_CELLS], 1)]
    broken = sum(cell is None for cell in read)
    if broken:
        notes.append(f"{broken} of the notebook's cells are damaged and were left out.")
    cells = tuple(cell for cell in read if cell is not None)
    return Notebook(cells, tuple(notes), tuple(_told(found.get("metadata"), cells)))


def _told(metadata, cells):
    """The assignments and variants that a notebook says that it is."""
    about = metadata.get("attn") if isinstance(metadata, dict) else None
    if isinstance(about, dict):
        told = about.get("assignment"), about.get("variant")
        if all(isinstance(word, str) and re.fullmatch(r"\w{1,40}", word) for word in told):
            yield told
    code = "\n".join(cell.source for cell in cells if cell.kind == "code")[:MOST_ANALYSED]
    found = re.search(r"local_check\(\s*['\"](\w{1,40})['\"]\s*,\s*['\"](\w{1,40})['\"]", code)
    if found:
        yield found.groups()


def _raw_cells(found):
    """The list of cells in format 4, or of all worksheets in formats 2 and 3; None where there is none."""
    if not isinstance(found, dict):
        return None
    if isinstance(found.get("cells"), list):
        return found["cells"]
    sheets = found.get("worksheets")
    if not isinstance(sheets, list):
        return None
    return [
        cell
        for sheet in sheets
        if isinstance(sheet, dict) and isinstance(sheet.get("cells"), list)
        for cell in sheet["cells"]
    ]


def _cell(number, cell):
    if not isinstance(cell, dict):
        return None
    source = _text(cell.get("source", cell.get("input")))
    metadata = cell.get("metadata")
    mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    mark = mark if isinstance(mark, dict) else {}
    id = mark.get("grade_id")
    id = printable(_clean(id))[:100] if isinstance(id, str) else ""
    return Cell(number, _KIND.get(str(cell.get("cell_type")), "raw"), source, id, mark.get("locked") is True)


def _text(source):
    if isinstance(source, list):
        source = "".join(part for part in source if isinstance(part, str))
    return _clean(source) if isinstance(source, str) else ""


def _clean(text):
    """With plain line ends, and without what no file can hold: zero bytes and halves of characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")
    return text.encode("utf-8", "replace").decode("utf-8")


def fit(assignment, notebook):
    """How many of the assignment's questions a notebook has a place for: by their ids or their names."""
    ids = {cell.id for cell in notebook.cells}
    code = "\n".join(cell.source for cell in notebook.cells if cell.kind == "code")[:MOST_ANALYSED]
    names = set(re.findall(r"^[ \t]*(?:def )?(\w+)(?=[(:,]| *=)", code, re.M))
    return sum(question.id in ids or question.name in names for question in assignment.questions)


def another(assignment, notebook):
    """The id of the assignment that a notebook is of, where that is not this one; else None.

    Its metadata, its call of `local_check` and what it has a place for are asked; more must speak for the
    other one than for this.
    """
    votes = Counter(id for id, _ in notebook.told)
    fits = {assignment.id: fit(assignment, notebook)}
    fits |= {id: fit(_sample(id), notebook) for id in assignments.ASSIGNMENTS if id != assignment.id}
    best = max(fits, key=fits.get)
    if list(fits.values()).count(fits[best]) == 1:
        votes[best] += 1
    named = max(votes, key=votes.get, default=assignment.id)
    return named if votes[named] > votes[assignment.id] else None


@lru_cache
def _sample(id):
    return assignments.load(id, assignments.SAMPLE_SEED)


# --------------------------------------------------------------------------------------- planning


@dataclass
class Plan:
    """What is run of a submission, and what is said about it.

    Attributes
    ----------
    cells : list of (str, str)
        Labels and sources, in the order in which they run.
    notes : list of str
        What a reader should know: sentences that name cells and questions.
    about : dict of str to list of str
        The notes that concern one question, by its id.
    names : dict of str to str
        Under which name a question's answer is found after the run.
    makers : dict of str to list of str
        The labels of the cells that make a question's answer.
    keeps : dict of str to list of str
        By a cell's label the names whose values count as they are when it has run.
    missing : dict of str to str
        Why a question has no answer that could be run.
    written : dict of str to str
        The texts that answer written questions; empty where nothing was written.
    forbidden : dict of str to list of str
        Forbidden names that a question's code makes use of.
    variant : str
        A sentence where the notebook is that of another class.
    """

    cells: list = field(default_factory=list)
    notes: list = field(default_factory=list)
    about: dict = field(default_factory=dict)
    names: dict = field(default_factory=dict)
    makers: dict = field(default_factory=dict)
    keeps: dict = field(default_factory=dict)
    missing: dict = field(default_factory=dict)
    written: dict = field(default_factory=dict)
    forbidden: dict = field(default_factory=dict)
    variant: str = ""

    def note(self, told, *questions):
        if told not in self.notes:
            self.notes.append(told)
        for question in questions:
            if told not in self.about.setdefault(question, []):
                self.about[question].append(told)


@dataclass(eq=False)
class _Step:
    """A cell on its way into the plan."""

    label: str
    source: str
    code: object = None  # Code, or None where it cannot be read
    cell: Cell | None = None  # None for a given cell that the student has lost
    id: str = ""  # of the given cell that it is
    moved_for: str = ""  # the label of the cell that had to run before


def plan(assignment, notebook):
    """What to run of ``notebook``, and how it differs from what was given out.

    Answers are found by the names that they define. Locked cells are the assignment's own. Checks are not
    run. Of several copies of an answer the released stub does not count.

    Returns
    -------
    Plan
    """
    return _Planner(assignment, notebook).plan


class _Planner:
    def __init__(self, assignment, notebook):
        self.assignment, self.notebook, self.plan = assignment, notebook, Plan()
        self.asked = {question.name: question for question in assignment.questions if question.name}
        self.texts = {question.id for question in assignment.questions if question.kind == "written"}
        self.given, self.order, self.own_texts = _outline(assignment)
        self.given_code = {id: read_code(source) for id, source in self.given.items()}
        self.seen_given, self.seen_checks, self.steps, self.left = set(), set(), [], MOST_ANALYSED
        for note in notebook.notes:
            self.plan.note(note)
        self._variant()
        for cell in notebook.cells:
            if cell.kind == "code" and cell.id not in self.texts:
                self._code_cell(cell)
        self._marks()
        self._rejoin()
        self._lost_cells()
        self._unreadable()
        self._copies()
        self._in_order()
        self._unanswered()
        self._forbidden()
        self._written()
        self.plan.cells = [(step.label, step.source) for step in self.steps]

    def _variant(self):
        """A notebook of another class is right under other conventions; say so before anything else."""
        ours = self.assignment.code
        found = next((code for id, code in self.notebook.told if id == self.assignment.id and code != ours),
                     None)  # fmt: skip
        if found:
            of_sample = found == _sample(self.assignment.id).code
            whose = "that of the sample class, whose solutions are public" if of_sample else "another class's"
            self.plan.variant = (
                f"The notebook has variant {found}, {whose}; this class has variant {ours}, and it was "
                "graded by that."
            )
            self.plan.note(self.plan.variant)

    # ---------------------------------------------------------------------- one cell at a time

    def _code_cell(self, cell):
        if not cell.source.strip():
            return
        code = self._read(cell.source)
        answers = [name for name in self.asked if code and name in code.defines]
        given = self._given_of(cell, code, answers)
        if given:
            self._given_cell(cell, code, given)
            return
        if cell.id.startswith("check-") and cell.id not in self.seen_checks and not answers:
            self.seen_checks.add(cell.id)
            if code is None or not cell_code.only_checks(code):
                self.plan.note(
                    f"{capital(cell.label)} is a locked check and was changed; the grader has its own."
                )
            return
        if code and cell_code.only_checks(code) and not cell_code.is_a_program(cell.source):
            return
        if cell.locked and answers:
            named = ", ".join(f"`{name}`" for name in answers)
            self.plan.note(
                f"{capital(cell.label)} is locked, yet defines {named}; it was run as an answer.",
                *(self.asked[name].id for name in answers),
            )
        label = cell.label
        if answers and not cell.id:
            label = f"cell {cell.number} ({', '.join(self.asked[name].id for name in answers)})"
        self.steps.append(_Step(label, cell.source, code, cell))

    def _read(self, source):
        """The code, or None where it is not Python or the notebook is longer than anybody types."""
        self.left -= len(source)
        if self.left < 0:
            self.plan.note("The notebook holds more code than anybody types; what is beyond was run unseen.")
            return None
        try:
            return read_code(source)
        except Unparsed:
            return None

    def _given_of(self, cell, code, answers):
        """The id of the given cell that this one is, by what it holds or else by its id."""
        for id, ours in self.given_code.items():
            if code and code.statements and cell_code.same_code(code, ours):
                return id
        if cell.id not in self.given or cell.id in self.seen_given:
            return None
        ours = self.given_code[cell.id]
        return cell.id if code is None or set(code.defines) & set(ours.defines) or not answers else None

    def _given_cell(self, cell, code, id):
        """The assignment's own text runs; what a student has merged into the cell runs after it."""
        ours = self.given_code[id]
        untouched = code is not None and cell_code.same_code(code, ours)
        if id in self.seen_given and untouched:
            return  # a copy, which changes nothing
        if id not in self.seen_given:
            self.seen_given.add(id)
            self.steps.append(_Step(f"cell {cell.number} ({id})", self.given[id], ours, cell, id))
        if untouched:
            return
        more = (
            []
            if code is None
            else [
                statement
                for statement in code.statements
                if not cell_code.bound_by(statement) & set(ours.defines)
            ]
        )
        answers = code is not None and [name for name in self.asked if name in code.defines]
        if answers:
            dropped = [statement for statement in code.statements if statement not in more]
            rest = cell_code.without(cell.source, dropped)
            self.steps.append(_Step(f"cell {cell.number}", rest, self._read(rest), cell))
        self.plan.note(
            f"{capital(cell.label)} is locked and was changed; it was run as it was given"
            + (", then what else stands in it." if answers else ".")
        )

    # -------------------------------------------------------------------------- whole notebook

    def _marks(self):
        """Say which checks were deleted, or that no cell has an id."""
        ids = {cell.id for cell in self.notebook.cells if cell.id}
        if not ids:
            self.plan.note("The cells have lost their ids; answers were found by the names that they define.")
            return
        gone = [id for id in self.order if id.startswith("check-") and id not in ids]
        if gone:
            self.plan.note(f"Deleted: {_listed(gone)}. The grader has its own.")

    def _rejoin(self):
        """A cell split in its middle: neighbours of which one is no Python alone, and all together are."""
        for count in (2, 3):
            for place in range(len(self.steps)):
                parts = self.steps[place : place + count]
                if len(parts) == count and self._are_one(parts):
                    joined = "\n".join(part.source for part in parts)
                    code = self._read(joined)
                    ids = [self.asked[name].id for name in self.asked if code and name in code.defines]
                    if ids:
                        label = (
                            f"cells {_listed([str(part.cell.number) for part in parts])} ({', '.join(ids)})"
                        )
                        self.plan.note(
                            f"{capital(label)} are one cell that was split; they were run as one.", *ids
                        )
                        self.steps[place : place + count] = [_Step(label, joined, code, parts[0].cell)]

    @staticmethod
    def _are_one(parts):
        cells = [part.cell for part in parts]
        broken = any(part.code is None for part in parts) or all(_goes_on(part.source) for part in parts[1:])
        return (
            all(cells)
            and broken
            and not any(part.id for part in parts)
            and all(b.number - a.number == 1 for a, b in zip(cells, cells[1:], strict=False))
            and not any(
                cell.id in (other.id for other in cells[:i]) for i, cell in enumerate(cells) if cell.id
            )
        )

    def _lost_cells(self):
        """Given cells that the student no longer has come where the source has them."""
        for id, source in self.given.items():
            if id in self.seen_given:
                continue
            before = self.order[: self.order.index(id)]
            places = [i for i, step in enumerate(self.steps) if self._role(step) in before]
            step = _Step(f"the given cell {id}", source, self.given_code[id], id=id)
            self.steps.insert(places[-1] + 1 if places else 0, step)
            self.plan.note(f"The given cell {id} is missing; it was run all the same.")

    def _role(self, step):
        """The id of the given cell or of the question that a step stands for."""
        if step.id or step.cell.id in self.order:
            return step.id or step.cell.id
        answers = [self.asked[name].id for name in self.asked if step.code and name in step.code.defines]
        return answers[-1] if answers else None

    def _unreadable(self):
        for before, step in zip([None, *self.steps], self.steps, strict=False):
            if step.code is None and self.left >= 0:
                role = self._role(step) or (before and self._role(before))
                about = [question.id for question in self.asked.values() if question.id == role]
                self.plan.note(f"{capital(step.label)} is no Python ({_complaint(step.source)}).", *about)

    def _copies(self):
        """Stubs beside an answer are taken out; of several answers the reader is told which counts."""
        for name, question in self.asked.items():
            makers = [step for step in self.steps if step.code and name in step.code.defines]
            answered = [step for step in makers if not cell_code.is_open(step.code, name)]
            if answered:
                for step in makers:
                    if step not in answered:
                        self._take_out(step, name, question)
            counts = self._that_counts(name, question, answered)
            if len(answered) > 1:
                self._several(name, question, answered, counts)
            if counts and question.kind not in ("function", "test"):
                kept = self.plan.names.get(question.id, name)
                self.plan.keeps.setdefault(counts.label, []).append(kept)
            self.plan.makers[question.id] = [step.label for step in answered or makers]
            self.plan.names.setdefault(question.id, name)
        self.steps = [step for step in self.steps if step.source.strip()]

    def _take_out(self, step, name, question):
        stub = [step.code.statements[place] for place in step.code.defines[name]]
        step.source = cell_code.without(step.source, stub)
        step.code = self._read(step.source) or step.code
        if step.code and not step.code.statements:
            step.source = ""
        self.plan.note(
            f"{capital(step.label)} is an unanswered copy of `{name}` and was not run.", question.id
        )

    def _that_counts(self, name, question, answered):
        """The step whose answer counts: of functions the last; of values the question's own, or the first.

        Names of values, such as `query`, are used again further down for other things.
        """
        if question.kind in ("function", "test") or not answered:
            return answered[-1] if answered else None
        own = [step for step in answered if step.cell.id == question.id]
        if own:
            return own[-1]
        task = next((cell.number for cell in self.notebook.cells if question.text[:60] in cell.source), 0)
        assigned = [step for step in answered if cell_code.assigns(step.code, name)] or answered
        return next((step for step in assigned if step.cell.number > task), assigned[-1])

    def _several(self, name, question, answered, counts):
        labels = [step.label for step in answered]
        if counts is answered[-1]:
            self.plan.note(
                f"`{name}` is defined in {_listed(labels)}; the last that runs counts.", question.id
            )
            return
        kept = f"_answer_to_{question.id}" if question.id.isidentifier() else f"_answer_to_{name}"
        counts.source += f"\n{kept} = {name}"
        self.plan.names[question.id] = kept
        self.plan.note(
            f"`{name}` gets a value again in {answered[-1].label}; what {counts.label} gave it counts.",
            question.id,
        )

    def _in_order(self):
        """A cell that needs what only a later cell defines runs after it, as it did when it was written."""
        if len(self.steps) > MOST_ORDERED:
            return
        before, queue, placed, known = self.steps, list(self.steps), [], set()
        while queue:
            step = queue.pop(0)
            wanted = (
                step.code.uses - known
                if step.code and not any(s.code and s.code.stars for s in placed)
                else ()
            )
            later = [other for other in queue if wanted and other.code and wanted & set(other.code.defines)]
            helper = later[0] if later else None
            if helper and not step.moved_for == helper.label and self._may_move(helper, queue):
                step.moved_for = helper.label
                queue.remove(helper)
                queue[:0] = [helper, step]
                continue
            placed.append(step)
            known |= set(step.code.defines) if step.code else set()
        for step in placed:
            if step.moved_for and before.index(step) < placed.index(step):
                ids = [self.asked[name].id for name in self.asked if step.code and name in step.code.defines]
                self.plan.note(
                    f"{capital(step.label)} needs what only {step.moved_for} defines, which stands below; "
                    "that one was run first.",
                    *ids,
                )
        self.steps = placed

    @staticmethod
    def _may_move(helper, queue):
        """Not past another cell that binds the same names: which comes last would change."""
        between = queue[: queue.index(helper)]
        return not any(other.code and set(other.code.defines) & set(helper.code.defines) for other in between)

    def _unanswered(self):
        for question in self.asked.values():
            makers = self.plan.makers.get(question.id)
            if not makers:
                told = self._why_missing(question)
                self.plan.missing[question.id] = told
                self.plan.note(told, question.id)

    def _why_missing(self, question):
        name = question.name
        cells = [cell for cell in self.notebook.cells if cell.id == question.id]
        likely = [cell for cell in self.notebook.cells if _speaks_of(cell.source, name)]
        for cell in [*cells, *likely]:
            label = cell.label if cell.id == question.id else f"{cell.label}, which speaks of `{name}`,"
            if cell.kind != "code" and _speaks_of(cell.source, name):
                kind = "a text cell" if cell.kind == "text" else "a raw cell"
                return (
                    f"{capital(label)} was turned into {kind}, which does not run: `{name}` is not defined."
                )
            if cell.kind == "code":
                code = self._read(cell.source)
                if code is None:
                    return f"{capital(label)} is no Python ({_complaint(cell.source)})."
                for other in question.other_names:
                    if other in code.defines:
                        return (
                            f"{capital(label)} defines `{other}`, which another class is asked for; here it "
                            f"is `{name}`."
                        )
                if cell.id == question.id and code.defines:
                    others = _listed([f"`{other}`" for other in list(code.defines)[:5]])
                    return f"{capital(label)} defines {others} and no `{name}`."
        if cells:
            return f"{capital(cells[0].label)} defines no `{name}`, and no other cell does."
        return f"The cell of question {question.id} is missing, and no other cell defines `{name}`."

    def _forbidden(self):
        codes = [step.code for step in self.steps if step.code]
        for name, question in self.asked.items():
            found = cell_code.forbidden_in(codes, name, question.forbids) if question.forbids else []
            if found:
                self.plan.forbidden[question.id] = found
                self.plan.note(
                    f"`{name}` makes use of {_listed([f'`{each}`' for each in found])}, which this "
                    "question asks you to write yourself.",
                    question.id,
                )

    # ------------------------------------------------------------------------- written answers

    def _written(self):
        for question in self.assignment.questions:
            if question.kind != "written":
                continue
            own = [cell for cell in self.notebook.cells if cell.id == question.id]
            texts = [(cell, _answer(cell.source)) for cell in own]
            answered = [(cell, text) for cell, text in texts if text]
            if not answered:
                answered = self._free_texts(question)
            if len(answered) > 1:
                labels = _listed([cell.label for cell, _ in answered])
                self.plan.note(f"The written answer stands in {labels}; all of it is read.", question.id)
            elif not own and not answered:
                told = f"The cell of question {question.id} is missing, and no other text was found."
                self.plan.note(told, question.id)
            text = "\n\n".join(dict.fromkeys(text for _, text in answered))
            if "](attachment:" in text:
                self.plan.note("The written answer holds a picture, to be seen in the notebook.", question.id)
            self.plan.written[question.id] = text[:WRITTEN]

    def _free_texts(self, question):
        """Texts of the student's own behind the task, or anywhere where no task is left."""
        cells = list(self.notebook.cells)
        start = next(
            (
                i + 1
                for i, cell in enumerate(cells)
                if cell.id == f"task-{question.id}"
                or cell.kind == "text"
                and question.text[:60]
                and question.text[:60] in cell.source
            ),
            None,
        )
        if start is None:
            return []
        found = []
        for cell in cells[start:]:
            if cell.locked or cell.kind == "code":
                break
            text = _answer(cell.source)
            if text and cell.source.strip() not in self.own_texts:
                found.append((cell, text))
        return found


_outlines = {}


def _outline(assignment):
    """The given cells by id, the ids of all cells in the order of the source, and its texts."""
    key = (assignment.id, getattr(assignment, "code", None), assignment.questions)
    if key not in _outlines:
        from attnlib.homework.source import source

        cells = [(cell.metadata["nbgrader"], cell) for cell in source(assignment, ()).cells]
        given = {
            mark["grade_id"]: cell.source
            for mark, cell in cells
            if cell.cell_type == "code" and mark["locked"] and not mark["grade_id"].startswith("check-")
        }
        _outlines.clear()  # one class at a time
        texts = {cell.source.strip() for _, cell in cells if cell.cell_type == "markdown"}
        _outlines[key] = given, [mark["grade_id"] for mark, _ in cells], texts
    return _outlines[key]


def _complaint(source):
    try:
        read_code(source)
    except Unparsed as error:
        return str(error)
    return "there is too much of it"


def _goes_on(source):
    """Whether a cell begins further in, as the rest of a function does."""
    return source.lstrip("\n")[:1] in (" ", "\t")


def _answer(text):
    """A written answer without the stub that was in its place."""
    from attnlib.homework.source import TEXT_STUB

    return printable(text.replace(TEXT_STUB, "")).strip()


def _speaks_of(text, name):
    pattern = rf"^[ \t]*(?:(?:async )?def +{re.escape(name)}\b|{re.escape(name)}[ \t]*=(?!=))"
    return re.search(pattern, text, re.M) is not None


def _listed(items):
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"

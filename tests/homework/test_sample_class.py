"""The class that lies in the project, as it is made: nobody has edited a source by hand."""

from pathlib import Path

import nbformat
import pytest

from attnlib.homework import assignment, classes
from attnlib.homework.release import leaks
from attnlib.homework.source import released, source

SAMPLE = Path(__file__).resolve().parents[2] / "notebooks" / "homework"


@pytest.mark.parametrize("id", assignment.ASSIGNMENTS)
def test_a_source_is_what_the_package_makes(id):
    sample = classes.load(SAMPLE)
    assert sample.seed == assignment.SAMPLE_SEED
    made = source(assignment.load(id, sample.seed), sample.rules(id))
    path = sample.path("source", id, f"{id}.ipynb")
    assert path.read_text(encoding="utf-8") == nbformat.writes(made) + "\n"


@pytest.mark.parametrize("id", assignment.ASSIGNMENTS)
@pytest.mark.parametrize("seed", [0, 3, 987_654_321])
def test_nothing_of_it_is_given_away(id, seed):
    made = assignment.load(id, seed)
    notebook = released(source(made, ()))
    assert leaks(notebook, made, seed) == []


@pytest.mark.parametrize("hidden", [
    lambda made, seed: made.question("lookup").solution.splitlines()[0],
    lambda made, seed: str(assignment.secret(seed, "hw1", "lookup")),
    lambda made, seed: f"the class has the seed {seed}",
    lambda made, seed: "### BEGIN SOLUTION",
])  # fmt: skip
def test_what_is_given_away_is_found(hidden):
    seed = 987_654_321
    made = assignment.load("hw1", seed)
    notebook = released(source(made, ()))
    notebook.cells[3].source += f"\n{hidden(made, seed)}"
    assert len(leaks(notebook, made, seed)) == 1


def test_a_hidden_number_is_found():
    from attnlib.homework.release import hidden_numbers

    made = assignment.load("hw1", 7)
    numbers = hidden_numbers(made.question("lookup"), assignment.secret(7, "hw1", "lookup"))
    assert len(numbers) > 50
    notebook = released(source(made, ()))
    notebook.cells[3].source += f"\n# expected: {max(numbers)}12"
    assert len(leaks(notebook, made, 7)) == 1


def test_outputs_and_notes_on_cells_are_found():
    made = assignment.load("hw1", 7)
    notebook = released(source(made, ()))
    code = next(cell for cell in notebook.cells if cell.cell_type == "code")
    code.outputs = [nbformat.v4.new_output("stream", text="5")]
    code.metadata["author"] = "somebody"
    assert len(leaks(notebook, made, 7)) == 2

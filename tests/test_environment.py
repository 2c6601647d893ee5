"""environment.yml and CITATION.cff say the same as pyproject.toml, which is the one list."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from rattler import MatchSpec

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

CONDA_NAMES = {"matplotlib": "matplotlib-base", "torch": "pytorch-cpu"}


def bounds(text):
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def from_pyproject(requirements):
    """Conda name -> bounds, with the project's own extras resolved."""
    found = {}
    for requirement in requirements:
        name, extras, version = re.fullmatch(r"([\w.-]+)(?:\[(.+)\])?([^;]*)", requirement).groups()
        if name == PROJECT["name"]:
            for extra in extras.split(","):
                found |= from_pyproject(PROJECT["optional-dependencies"][extra.strip()])
        else:
            found[CONDA_NAMES.get(name, name)] = bounds(version)
    return found


def conda_specs():
    return [entry for entry in ENVIRONMENT["dependencies"] if isinstance(entry, str)]


@pytest.mark.parametrize("text", conda_specs())
def test_a_spec_parses_strictly(text):
    spec = MatchSpec(text, strict=True)
    assert spec.channel is None and spec.build is None


def test_environment_and_pyproject_ask_for_the_same():
    specs = [MatchSpec(text, strict=True) for text in conda_specs()]
    asked = {spec.name.normalized: bounds(str(spec.version or "")) for spec in specs}
    expected = from_pyproject(PROJECT["dependencies"] + PROJECT["optional-dependencies"]["lab"])
    expected["python"] = bounds(PROJECT["requires-python"])
    expected["pip"] = frozenset()
    assert asked == expected


def test_the_course_itself_is_installed_and_no_default_channel_used():
    assert ENVIRONMENT["name"] == "attention-course"
    assert ENVIRONMENT["channels"] == ["conda-forge", "nodefaults"]
    assert ENVIRONMENT["dependencies"][-1] == {"pip": ["-e ."]}


def test_the_citation_names_the_version_and_the_licences():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == PROJECT["version"]
    assert citation["authors"] == PROJECT["authors"]
    assert " AND ".join(citation["license"]) == PROJECT["license"]


def test_the_workflow_of_the_book_calls_a_word_of_course_py_and_publishes_its_folder():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "book.yml").read_text(encoding="utf-8"))
    steps = workflow["jobs"]["build"]["steps"]
    assert [step["run"] for step in steps if "run" in step] == ["python3 course.py site"]
    (artifact,) = (step["with"] for step in steps if "upload-pages-artifact" in step.get("uses", ""))
    assert artifact == {"path": "site"}
    assert workflow["jobs"]["publish"]["needs"] == "build"

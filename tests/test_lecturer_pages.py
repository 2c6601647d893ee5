"""One page a lesson for whoever teaches it: a board, three polls and what answers reveal, questions, cuts."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs" / "lecturer").glob("[0-9][0-9].md"))
LESSONS = {path.name[:2]: path for path in (ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb")}


def part(text, heading):
    return re.search(rf"^## {heading}\n(.+?)(?=^## |\Z)", text, re.M | re.S)[1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_its_parts(page):
    text, lesson = page.read_text(encoding="utf-8"), LESSONS[page.stem]
    assert text.startswith(f"# {page.stem} · ") and f"](../../notebooks/{lesson.name})" in text
    assert "**To take home.**" in text
    assert len(part(text, "On the board").split()) > 30
    assert part(text, "Likely questions").count("?*") >= 3
    assert len(part(text, "When late").split()) > 20
    assert len(text.split()) < 800, "one page"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_poll_has_one_right_answer_and_says_what_the_others_reveal(page):
    polls = re.split(r"^\*\*\d\. ", part(page.read_text(encoding="utf-8"), "Three polls"), flags=re.M)[1:]
    assert len(polls) == 3
    for poll in polls:
        answers = re.findall(r"^- (.+)", poll, re.M)
        assert 3 <= len(answers) <= 5
        assert sum(answer.startswith("**") for answer in answers) == 1
        assert all(": " in answer for answer in answers)

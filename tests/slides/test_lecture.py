"""A lecture: slides of several lessons in an order of its own."""

import base64
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import slides  # noqa: E402

# isort: split
import lesson  # noqa: E402
from deck import browser, lecture, page  # noqa: E402

FOLDER = ROOT / "docs" / "lectures"
# Of the lectures that come with the course; a lecturer may put others beside them.
MINUTES = {"attention_in_45_minutes": 45, "attention_in_90_minutes": 90}
SHIPPED = [FOLDER / f"{name}.toml" for name in MINUTES]
LECTURES = sorted({*SHIPPED, *FOLDER.glob("*.toml")})
PART = """
[[part]]
lesson = "06"
slides = ["A walk of d steps"]
"""


def made(folder, text):
    path = folder / "own.toml"
    path.write_text(text, encoding="utf-8")
    return path


def headings(notebook):
    return [lecture.heading(slide) for slide in page.slides_of(notebook.cells)]


def test_a_heading_brings_the_slides_that_follow_it_and_their_notes(tmp_path):
    notebook = lecture.composed(made(tmp_path, PART))
    assert headings(notebook) == ["A walk of d steps", None, None]
    assert sum(slide.minutes for slide in page.slides_of(notebook.cells)) == 4


def test_parts_come_in_the_order_of_the_file_and_open_columns(tmp_path):
    own = '[[part]]\ntext = "## Ours"\nnotes = "*For the lecturer, 2 min.* Ask."\n'
    other = PART.replace("06", "05").replace("A walk of d steps", "It breaks at 89")
    notebook = lecture.composed(made(tmp_path, other + own + PART))
    found = page.slides_of(notebook.cells)
    assert [lecture.heading(slide) for slide in found if slide.opens_column] == [
        "It breaks at 89", "Ours", "A walk of d steps"
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("[[part", "own.toml is no TOML file"),
        ("", "own.toml has no part"),
        ('[[part]]\ntext = "# A"', "part 1 must have lesson and slides, or text and notes; it has text"),
        ("[part]\nlesson = '06'", "each part must begin with [[part]], in two pairs of brackets"),
        ("part = [1]", "each part must begin with [[part]], in two pairs of brackets"),
        ('title = "A"\n' + PART, "own.toml has title; it must have nothing but [[part]]"),
        (PART.replace('"06"', "6"), "part 1: lesson must be words in quotes; it is 6"),
        (PART.replace('["A walk of d steps"]', '"A walk"'), "slides must be a list of headings"),
        (PART.replace('["A walk of d steps"]', "[]"), "list of headings in quotes; it is []"),
        (PART.replace('steps"', 'steps", "A walk of d steps"'), "names the slide 'A walk of d steps' twice"),
        ('[[part]]\ntext = " "\nnotes = "b"', "part 1: text must be words in quotes; it is ' '"),
        (PART.replace("06", "77"), "own.toml: There is no lesson 77"),
        (PART.replace("walk", "run"), "lesson 06 has no slide 'A run of d steps'. It has: "),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(tmp_path, text, sentence):
    with pytest.raises(page.DeckError, match=re.escape(sentence)):
        lecture.composed(made(tmp_path, text))


def test_the_command_says_it_too(tmp_path):
    assert "has no part" in slides.main([str(made(tmp_path, ""))])
    folder = tmp_path / "folder.toml"
    folder.mkdir()
    for absent in (tmp_path / "absent.toml", folder):
        assert "There is no lecture" in slides.main([str(absent)])


def test_a_mark_at_the_files_beginning_is_no_error(tmp_path):
    (tmp_path / "own.toml").write_text(PART, encoding="utf-8-sig")
    assert headings(lecture.composed(tmp_path / "own.toml"))[0] == "A walk of d steps"


def test_two_decks_never_share_a_folder(tmp_path):
    other = made(tmp_path, PART).rename(tmp_path / "01_lookup_to_attention.toml")
    told = slides.main(["01", str(other)])
    assert "Two of these are called '01_lookup_to_attention'" in told
    dots = other.rename(tmp_path / "...toml")
    assert "cannot be called '..'" in slides.main([str(dots)])


def test_a_lesson_that_is_no_notebook_is_named(tmp_path, monkeypatch):
    (tmp_path / "06_torn.ipynb").write_text("<<<<<<< HEAD\n", encoding="utf-8")
    monkeypatch.setattr(lesson, "NOTEBOOKS", tmp_path)
    assert slides.main([str(made(tmp_path, PART))]).startswith("06_torn.ipynb is not a notebook (")


# Pictures

DOT = b"a picture is not opened, only taken along"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Builds the deck of one slide of a lecturer's own, away from the lessons, and gives its pictures."""
    folder, lessons = tmp_path / "own", tmp_path / "notebooks"
    folder.mkdir()
    lessons.mkdir()
    monkeypatch.setattr(lesson, "NOTEBOOKS", lessons)

    def sources(markdown):
        notes = "*For the lecturer, 1 min.* Ask."
        path = made(folder, f"[[part]]\ntext = {json.dumps(markdown)}\nnotes = {json.dumps(notes)}")
        deck = page.write_deck(lecture.composed(path), path, tmp_path / "deck")
        soup = BeautifulSoup((deck.folder / "index.html").read_text(encoding="utf-8"), "html.parser")
        return [image["src"] for image in soup("img")]

    return sources


@pytest.mark.parametrize("name, markdown", [
    ("photo.png", "![our room](photo.png)"),
    ("photo.png", '<img alt="our room" src="photo.png">'),
    ("our room.png", "![our room](<our room.png>)"),
    ("教室.png", "![our room](教室.png)"),
])
@pytest.mark.parametrize("place", ["own", "notebooks"])
def test_a_picture_lies_beside_the_lecture_or_the_lessons(own, tmp_path, place, name, markdown):
    (tmp_path / place / name).write_bytes(DOT)
    assert own(markdown) == ["data:image/png;base64," + base64.b64encode(DOT).decode()]


def test_a_picture_may_lie_above_the_lecture(own, tmp_path):
    (tmp_path / "photo.png").write_bytes(DOT)
    for address in ("../photo.png", str(tmp_path / "photo.png")):
        assert own(f"![our room](<{address}>)") == ["data:image/png;base64," + base64.b64encode(DOT).decode()]


@pytest.mark.parametrize("markdown, told", [
    ("![our room](.)", "there is no picture . in "),
    ("![our room](attachment:photo.png)", "missing attachment: photo.png. Attach it"),
])
def test_what_is_no_picture_is_named(own, markdown, told):
    with pytest.raises(page.DeckError, match=re.escape(told)):
        own(markdown)


@pytest.mark.parametrize("markdown", ["![our room](photo.png)", '<img alt="our room" src="photo.png">'])
def test_a_picture_that_is_nowhere_is_named(own, tmp_path, markdown):
    told = f"own.toml: there is no picture photo.png in {tmp_path / 'own'} or in {tmp_path / 'notebooks'};"
    with pytest.raises(page.DeckError, match=re.escape(told)):
        own(markdown)


def test_a_picture_of_the_web_stays_an_address(own):
    assert own("![seen](https://example.invalid/seen.png)") == ["https://example.invalid/seen.png"]


# The lectures of the course

@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_lecture_takes_its_time(path):
    minutes = MINUTES[path.stem]
    total = sum(slide.minutes for slide in page.slides_of(lecture.composed(path).cells))
    assert minutes - 5 <= total <= minutes


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_first_slide_says_how_long_each_part_is(path):
    parts = tomllib.loads(path.read_text(encoding="utf-8"))["part"]
    told = [int(minutes) for minutes in re.findall(r"\| (\d+) \|$", parts[0]["text"], re.M)]
    lengths, before = [], 0
    for number, part in enumerate(parts[1:-1], start=2):
        is_lesson = "lesson" in part
        cells = lecture.lesson_slides(path, part) if is_lesson else lecture.own_slide(path, part, number)
        before += sum(slide.minutes for slide in page.slides_of(cells))
        if is_lesson:
            lengths, before = [*lengths, before], 0
    assert told == lengths


@pytest.mark.browser
@pytest.mark.parametrize("path", LECTURES, ids=lambda path: path.stem)
def test_a_lecture_is_clean(tmp_path, path):
    deck = page.write_deck(lecture.composed(path), path, tmp_path / path.stem)
    with browser.launched(browser.find_browser()) as chromium:
        assert browser.check(chromium, deck.folder).findings == []
        assert browser.check_readers(chromium, deck.folder) == []

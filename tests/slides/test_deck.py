"""The offline deck: what its page holds, and that the check finds each kind of fault."""

import base64
import io
import os
import re
import shutil
import sys
from contextlib import nullcontext
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup
from matplotlib.figure import Figure
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import slides  # noqa: E402

# isort: split
from deck import browser, page  # noqa: E402

LESSONS = sorted((ROOT / "notebooks").glob("[0-9][0-9]_*.ipynb"))


# A small lesson

def text(source, kind=None):
    return with_kind(new_markdown_cell(source), kind)


def code(source, *outputs, kind=None, tags=()):
    cell = with_kind(new_code_cell(source, outputs=list(outputs), execution_count=1), kind)
    cell.metadata["tags"] = list(tags)
    return cell


def with_kind(cell, kind):
    if kind:
        cell.metadata["slideshow"] = {"slide_type": kind}
    return cell


def shown(data, **metadata):
    return new_output("display_data", data=data, metadata=metadata)


def figure(alt="A line rises."):
    drawn = Figure(figsize=(5, 2), dpi=100)
    drawn.subplots().plot([0, 1])
    png = io.BytesIO()
    drawn.savefig(png, dpi=150, metadata={"Software": None})
    data = {"image/png": base64.b64encode(png.getvalue()).decode(), "text/plain": alt}
    return shown(data, **({"image/png": {"alt": alt, "width": 500}} if alt else {}))


def html(source):
    return code("show()", shown({"text/html": source, "text/plain": "text"}))


def lesson():
    table = ("<table id='t'><tr><th scope='row'>它</th><td title='它 attends to 苹果'>0.74</td></tr>"
             "</table><script>document.getElementById('t').tabIndex = 0</script>")
    return [
        text("A badge."),
        code("%matplotlib inline", kind="skip"),
        text("# 07 · A *small* lesson\n\n| term | 术语 |\n|---|---|\n| $q_i$ | 查询 |", "slide"),
        text("*For the lecturer, 2 min.* Write $n^{\\Delta} \\cdot e^3$, not $\\frac{1}{2}$.", "notes"),
        text("## Prose and code\n\nA [paper](https://arxiv.org/abs/1409.0473) costs \\$5 or \\$6.",
             "subslide"),
        code("print(1)", new_output("stream", text="printed\n")),
        text("A first fragment.", "fragment"),
        text("It goes on."),
        text("*For the lecturer, 3 min.* Ask first.", "notes"),
        text("A second fragment.", "fragment"),
        text("## A formula\n\n$$\\begin{aligned} a &= \\frac{1}{\\sqrt{d}} \\end{aligned}$$", "slide"),
        code("secret = 1", figure(), tags=["hide-input"]),
        text("## Output", "subslide"),
        html(table),
        code("boom()", new_output("error", ename="ValueError", evalue="`k` is <2 wide>",
                                  traceback=["a traceback"])),
        text("skipped words", "skip"),
    ]


def write(cells, folder, name="07_small"):
    nb = new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
    for number, cell in enumerate(nb.cells):
        cell["id"] = f"cell-{number}"
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(nb, folder / f"{name}.ipynb")
    return folder / f"{name}.ipynb"


def built(path, folder):
    return page.write_deck(page.read(path), path, folder)


def deck_of(cells, folder):
    return built(write(cells, folder), folder / "deck")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    # A space and letters beyond ASCII: every path of the deck has to survive them.
    return deck_of(lesson(), tmp_path_factory.mktemp("my course ü 课"))


@pytest.fixture(scope="module")
def soup(small):
    return BeautifulSoup((small.folder / "index.html").read_text(encoding="utf-8"), "html.parser")


# The page

def test_marks_become_columns_slides_and_fragments(small, soup):
    columns = soup.select(".slides > section")
    assert [len(column.select(":scope > section")) for column in columns] == [2, 2]
    assert small.slides == 4
    fragments = [part.get_text(" ", strip=True) for part in soup.select(".content > .fragment")]
    assert fragments == ["A first fragment. It goes on.", "A second fragment."]


def test_what_the_hall_does_not_need_is_left_out(soup):
    words = soup.get_text()
    for absent in ("A badge.", "matplotlib inline", "skipped words", "secret", "a traceback"):
        assert absent not in words
    assert "printed" in words and "ValueError: `k` is <2 wide>" in words


def test_notes_and_minutes(small, soup):
    notes = soup.select("section[data-number] > aside.notes[data-minutes]")
    assert [note["data-minutes"] for note in notes] == ["2", "3"]
    assert notes[0].decode_contents().strip() == (
        "<p><em>For the lecturer, 2 min.</em> Write n<sup>Δ</sup> · e<sup>3</sup>, not $\\frac{1}{2}$.</p>")
    assert small.minutes == 5
    assert [s["data-timing"] for s in soup.select("section[data-number]")] == ["120", "180", "0", "0"]


def test_footer_tells_the_lesson_the_minutes_and_the_number(soup):
    footers = [[span.get_text() for span in footer("span")] for footer in soup("footer")]
    assert footers[0] == ["07 · A small lesson", "0 of 5 min", "1 / 4"]
    assert footers[1][1:] == ["2 of 5 min", "2 / 4"]
    assert footers[3][1:] == ["5 of 5 min", "4 / 4"]


def test_a_slide_without_a_heading_says_what_it_goes_on_with(tmp_path):
    deck = deck_of([text("Before any.", "slide"), text("## A $W^T$ of `k`", "slide"), text("More.", "slide"),
                    code("f()", kind="subslide"), text("### Next", "subslide")], tmp_path)
    soup = BeautifulSoup((deck.folder / "index.html").read_text(encoding="utf-8"), "html.parser")
    sections = soup.select("section[data-number]")
    told = [section.select_one(":scope > .running") for section in sections]
    words = [head and " ".join(head.get_text().split()) for head in told]
    assert words == [None, None, "A WT of k", "A WT of k", None]
    assert told[2].code and told[2].sup.string == "T"     # a small line has no room for a formula's exponent


def test_code_has_no_holes_on_a_slide(tmp_path):
    source = "def f():\n    pass\n\n\ndef g():\n\n    pass"
    deck = deck_of([code(source, new_output("stream", text="a\n\n\nb\n\n"), kind="slide")], tmp_path)
    soup = BeautifulSoup((deck.folder / "index.html").read_text(encoding="utf-8"), "html.parser")
    assert soup.select_one(".highlight pre").get_text().strip() == source.replace("\n\n\n", "\n\n")
    assert soup.select_one("pre.output").get_text() == "a\n\n\nb"


# Slots of a lecturer

def timed(folder, *minutes):
    """A deck of one slide a number, with a note of so many minutes: what was built, and its page."""
    cells = []
    for number in minutes:
        note = f"*For the lecturer, {number} min.* Ask."
        cells += [text(f"## Part of {number}", "slide"), text(note, "notes")]
    deck = deck_of(cells, folder)
    return deck, BeautifulSoup((deck.folder / "index.html").read_text(encoding="utf-8"), "html.parser")


def clocks(soup):
    """The first line of each slide's notes, and its mark in the footer or ""."""
    sections = soup.select("section[data-number]")
    return [(section.aside.get_text(), getattr(section.footer.b, "text", "")) for section in sections]


def test_a_deck_longer_than_both_slots_says_where_they_end(tmp_path):
    deck, soup = timed(tmp_path, 40, 4, 3, 43, 5)
    assert clocks(soup) == [
        ("0 of 95 min. Left: 45 of a slot of 45, 90 of a slot of 90.", ""),
        ("40 of 95 min. Left: 5 of a slot of 45, 50 of a slot of 90. The 45 minutes end with this slide.",
         "· 45 end here"),
        ("44 of 95 min. Left: 1 of a slot of 45, 46 of a slot of 90.", ""),
        ("47 of 95 min. Left: 43 of a slot of 90. The 90 minutes end with this slide.", "· 90 end here"),
        ("90 of 95 min. 90 are over.", ""),
    ]
    assert deck.fit == "95 minutes: 45 ends with slide 2 (Part of 4), 90 ends with slide 4 (Part of 43)"


def test_both_slots_may_end_with_one_slide(tmp_path):
    deck, soup = timed(tmp_path, 30, 61)
    assert clocks(soup)[0] == (
        "0 of 91 min. Left: 45 of a slot of 45, 90 of a slot of 90. "
        "The 45 and 90 minutes end with this slide.",
        "· 45 and 90 end here",
    )
    assert deck.fit == "91 minutes: 45 ends with slide 1 (Part of 30), 90 ends with slide 1 (Part of 30)"


@pytest.mark.parametrize("minutes, fit", [
    ((30, 8), "38 minutes: fits 45 and leaves 7"),
    ((30, 15), "45 minutes: fits 45"),
    ((45, 1), "46 minutes: 45 ends with slide 1 (Part of 45), fits 90 and leaves 44"),
    ((44, 46), "90 minutes: 45 ends with slide 1 (Part of 44), fits 90"),
    ((50, 3), "53 minutes: 45 ends with slide 1 (Part of 50), fits 90 and leaves 37"),
])
def test_how_a_deck_fits(tmp_path, minutes, fit):
    deck, soup = timed(tmp_path, *minutes)
    assert deck.fit == fit
    assert [bool(mark) for _, mark in clocks(soup)] == [f"slide {n + 1} " in fit for n in range(len(minutes))]


def test_slides_that_go_on_share_the_minutes_and_no_slot_ends_before_the_last(tmp_path):
    note = [text(f"*For the lecturer, {n} min.* Ask.", "notes") for n in (40, 7)]
    deck = deck_of([text("## Begun", "slide"), note[0], text("## Asked", "slide"), note[1],
                    text("Seen.", "subslide"), text("Told.", "subslide")], tmp_path)  # fmt: skip
    soup = BeautifulSoup((deck.folder / "index.html").read_text(encoding="utf-8"), "html.parser")
    assert [told.split(" of")[0] for told, _ in clocks(soup)] == ["0", "40", "42", "45"]
    assert [int(section["data-timing"]) for section in soup.select("section[data-number]")] == [
        2400, 140, 140, 140]
    assert deck.fit == "47 minutes: 45 ends with slide 1 (Begun), fits 90 and leaves 43"
    assert deck.minutes == 47


def test_a_slide_without_a_heading_is_named_by_the_one_before(tmp_path):
    deck = deck_of([text("## Begun", "slide"), text("More.", "subslide"),
                    text("*For the lecturer, 40 min.* Ask.", "notes"), text("## End", "slide"),
                    text("*For the lecturer, 6 min.* Ask.", "notes")], tmp_path)
    assert deck.fit == "46 minutes: 45 ends with slide 2 (Begun), fits 90 and leaves 44"


def test_a_deck_without_minutes_has_no_clock(tmp_path):
    deck = deck_of([text("# One", "slide")], tmp_path)
    soup = BeautifulSoup((deck.folder / "index.html").read_text(encoding="utf-8"), "html.parser")
    assert soup.aside is None and deck.fit == "no minutes in its notes"
    assert [span.get_text() for span in soup.footer("span")] == ["One", "", "1 / 1"]


def test_a_second_build_replaces_the_deck_and_an_earlier_pdf(tmp_path):
    deck = deck_of([text("# One", "slide")], tmp_path)
    (deck.folder / f"{deck.folder.name}.pdf").touch()
    (deck.folder / "lib" / "of-an-earlier-deck.js").touch()
    (deck.folder / "lib.new").mkdir()       # of a build that was stopped
    (deck.folder / "of-the-user.txt").touch()
    again = deck_of([text("# Two", "slide")], tmp_path)
    assert again.folder == deck.folder
    assert {path.name for path in deck.folder.iterdir()} - {"deck.ipynb"} == {
        "index.html", "lib", "of-the-user.txt"}
    assert not (deck.folder / "lib" / "of-an-earlier-deck.js").exists()
    soup = BeautifulSoup((deck.folder / "index.html").read_text(encoding="utf-8"), "html.parser")
    assert soup.title.text == "Two" and "JavaScript" in soup.noscript.text


# A deck takes the place of an earlier one

def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def earlier(tmp_path):
    """A deck with a script of its own and a PDF, as a folder."""
    folder = deck_of([text("# One", "slide")], tmp_path).folder
    (folder / "deck.pdf").touch()
    (folder / "lib" / "of-an-earlier-deck.js").touch()
    return folder


@pytest.mark.parametrize("refused", ["lib", "lib.new", "index.html", "index.html.new"])
def test_a_deck_that_cannot_be_replaced_stays_as_it_was(earlier, monkeypatch, refused):
    before, replace = contents(earlier), os.replace

    def in_use(source, target):
        if Path(source).name == refused:
            raise PermissionError(13, "Permission denied", str(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", in_use)
    with pytest.raises(OSError, match="lib cannot be replaced, and stays as it was: .*Permission denied"):
        deck_of([text("# Two", "slide")], earlier.parent)
    assert contents(earlier) == before


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_a_deck_that_is_stopped_between_two_names_stays_as_it_was(earlier, monkeypatch, steps):
    before, replace, done = contents(earlier), os.replace, []

    def stopped(source, target):
        replace(source, target)
        done.append(target)
        if len(done) == steps:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        deck_of([text("# Two", "slide")], earlier.parent)
    assert contents(earlier) == before


def test_a_deck_that_is_stopped_while_the_old_one_is_deleted_is_whole(earlier, monkeypatch):
    whole, rmtree = contents(earlier / "lib"), shutil.rmtree
    whole.pop(Path("of-an-earlier-deck.js"))

    def stopped(path, *arguments, **options):
        if Path(path).name in ("lib", ".lib-old"):
            rmtree(Path(path, "reveal"))
            raise KeyboardInterrupt
        rmtree(path, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", stopped)
        with pytest.raises(KeyboardInterrupt):
            deck_of([text("# Two", "slide")], earlier.parent)
    assert contents(earlier / "lib") == whole
    assert "<title>Two</title>" in (earlier / "index.html").read_text("utf-8")
    deck_of([text("# Three", "slide")], earlier.parent)
    assert {path.name for path in earlier.iterdir()} == {"index.html", "lib"}


def test_alternative_text_and_width_reach_the_picture(soup):
    assert [(image["alt"], image["width"]) for image in soup("img")] == [("A line rises.", "500")]


def test_formulas_are_marked_and_dollars_stay_prose(soup):
    formulas = [script.string for script in soup("script", type=re.compile("^math/tex"))]
    assert formulas == ["q_i", "\\begin{aligned} a &= \\frac{1}{\\sqrt{d}} \\end{aligned}"]
    assert soup.select_one("td script[type='math/tex']")
    assert "costs $5 or $6." in soup.get_text()


def test_nothing_is_fetched_and_all_that_is_referred_to_is_there(small, soup):
    references = [tag.get("src") or tag.get("href") for tag in soup(["script", "link", "img", "iframe"])]
    files = [name for name in references if name and not name.startswith("data:")]
    assert len(files) >= 5
    for name in files:
        assert (small.folder / name).is_file(), name
    assert soup.select_one("a[href='https://arxiv.org/abs/1409.0473']")


def test_licences_travel_with_the_scripts(small):
    assert "Permission is hereby granted" in (small.folder / "lib/reveal/LICENSE").read_text("utf-8")
    assert "Apache License" in (small.folder / "lib/mathjax/LICENSE").read_text("utf-8")
    for name in ("reveal/fonts/LICENSE", "chinese/OFL.txt"):
        assert "SIL OPEN FONT LICENSE" in (small.folder / "lib" / name).read_text("utf-8").upper()
    assert "Bitstream Vera" in (small.folder / "lib/dejavu/LICENSE_DEJAVU").read_text("utf-8")


def test_a_second_build_gives_the_same_bytes(small, tmp_path):
    again = deck_of(lesson(), tmp_path / "elsewhere")
    for deck in (small, again):
        (deck.folder / "lib" / "left over").write_text("", encoding="utf-8")
        built(deck.folder.parent / "07_small.ipynb", deck.folder)
    first, second = (sorted(p for p in d.folder.rglob("*") if p.is_file()) for d in (small, again))
    assert [p.relative_to(small.folder) for p in first] == [p.relative_to(again.folder) for p in second]
    assert small.folder / "lib/left over" not in first
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one


def test_a_picture_beside_the_notebook_is_taken_into_the_page(tmp_path):
    (tmp_path / "dot.png").write_bytes(base64.b64decode(figure()["data"]["image/png"]))
    deck = deck_of([text("# One\n\n![a dot](dot.png)", "slide")], tmp_path)
    image = BeautifulSoup((deck.folder / "index.html").read_text("utf-8"), "html.parser").img
    assert image["src"].startswith("data:image/png;base64,") and image["alt"] == "a dot"


def test_an_attached_picture_may_have_any_name(tmp_path):
    cell = text("# One\n\n![a dot](<attachment:我的 dot.png>)", "slide")
    cell["attachments"] = {"我的 dot.png": {"image/png": figure()["data"]["image/png"]}}
    deck = deck_of([cell], tmp_path)
    image = BeautifulSoup((deck.folder / "index.html").read_text("utf-8"), "html.parser").img
    assert image["src"].startswith("data:image/png;base64,")


# The command

@pytest.fixture
def course(tmp_path, monkeypatch):
    """A course of one small lesson, on a machine without a browser."""
    write(lesson(), tmp_path / "notebooks")
    monkeypatch.setattr(slides, "ROOT", tmp_path)
    monkeypatch.setattr(browser, "find_browser", lambda: None)
    return tmp_path


def test_command_builds_and_says_the_minutes_and_that_there_is_no_pdf(course, capsys):
    assert slides.main(["7"]) == 0
    printed = capsys.readouterr().out
    assert (course / "slides/07_small/index.html").is_file()
    assert "4 slides, 5 minutes: fits 45 and leaves 40; press S" in printed
    assert printed.splitlines()[-1].startswith("no PDF: it needs Chromium")


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for a browser is a shell script")
def test_a_browser_that_does_not_start_is_named_when_the_deck_is_there(course, monkeypatch):
    stub = course / "chromium"
    stub.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    stub.chmod(0o755)
    monkeypatch.setattr(browser, "find_browser", lambda: str(stub))
    sentence = slides.main(["7"])
    assert sentence.startswith(f"The decks were built, without a PDF: {stub} was found as a browser and did")
    assert (course / "slides/07_small/index.html").is_file()


def test_check_without_a_browser_says_what_to_install(course):
    assert "install chromium" in slides.main(["--check"])


def test_unknown_lesson_names_those_that_exist(course):
    sentence = slides.main(["03"])
    assert sentence == "There is no lesson 03. The lessons are: 07."


def test_missing_wheel_names_the_extra(course, monkeypatch):
    def missing(name):
        raise page.importlib.metadata.PackageNotFoundError(name)
    monkeypatch.setattr(page.importlib.metadata, "distribution", missing)
    sentence = slides.main(["07"])
    assert "sphinx-revealjs is not installed" in sentence and "pip install -e .[slides]" in sentence


def test_notebook_without_slides_is_told_how_to_mark_them(course):
    write([text("# One")], course / "notebooks", "08_bare")
    sentence = slides.main(["08"])
    assert "08_bare.ipynb has no cell marked as a slide" in sentence and "slide_type" in sentence


# The PDF

@pytest.fixture
def printing(course, monkeypatch):
    """A course of two lessons with a browser that prints a word, but lesson 07 as the test will have it."""
    write(lesson(), course / "notebooks", "08_other")
    monkeypatch.setattr(browser, "find_browser", lambda: "chromium")
    monkeypatch.setattr(browser, "launched", nullcontext)
    faults = []

    def print_pdf(chromium, folder, target):
        if faults and folder.name == "07_small":
            raise faults[0]
        target.write_text("new", encoding="utf-8")

    monkeypatch.setattr(browser, "print_pdf", print_pdf)
    return course / "slides", faults


@pytest.mark.parametrize("fault, sentence", [
    (browser.NotOpened("07_small did not open in 60 s"),
     "no PDF: 07_small did not open in 60 s; --check says more"),
    (OSError(28, "No space left on device"),
     "no PDF: [Errno 28] No space left on device; close it where it is open, and run this again"),
])
def test_a_deck_without_its_pdf_makes_the_command_fail_after_the_others(printing, capsys, fault, sentence):
    decks, faults = printing
    assert slides.main([]) == 0
    faults.append(fault)
    assert slides.main([]) == 1
    assert sentence in capsys.readouterr().out.splitlines()
    assert not (decks / "07_small" / "07_small.pdf").exists()
    assert (decks / "08_other" / "08_other.pdf").read_text(encoding="utf-8") == "new"


def test_a_deck_without_its_pdf_makes_the_check_fail_too(printing, monkeypatch):
    decks, faults = printing
    monkeypatch.setattr(browser, "check", lambda *_: browser.Report())
    monkeypatch.setattr(browser, "check_readers", lambda *_: [])
    assert slides.main(["--check"]) == 0
    faults.append(OSError("full"))
    assert slides.main(["--check"]) == 1


@pytest.mark.parametrize("with_browser", [True, False])
def test_a_pdf_that_is_open_elsewhere_is_named_and_stops_no_deck(printing, monkeypatch, capsys, with_browser):
    decks, _ = printing
    for name in ("07_small", "08_other"):
        (decks / name).mkdir(parents=True)
        (decks / name / f"{name}.pdf").write_text("old", encoding="utf-8")
    unlink = Path.unlink

    def in_use(path, *arguments, **options):
        if path.name == "07_small.pdf":
            raise PermissionError(13, "Permission denied", path.name)
        unlink(path, *arguments, **options)

    monkeypatch.setattr(Path, "unlink", in_use)
    if not with_browser:
        monkeypatch.setattr(browser, "find_browser", lambda: None)
    assert slides.main([]) == 1
    assert ("no PDF: [Errno 13] Permission denied: '07_small.pdf'; close it where it is open, "
            "and run this again") in capsys.readouterr().out.splitlines()
    assert {path.name for path in (decks / "07_small").iterdir()} == {"index.html", "lib", "07_small.pdf"}
    assert (decks / "08_other" / "index.html").is_file()
    assert (decks / "08_other" / "08_other.pdf").exists() == with_browser


# The check, in Chromium

@pytest.fixture(scope="module")
def chromium():
    path = browser.find_browser()
    if path is None:
        reason = "no Chromium or Chrome on this machine: install chromium"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    with browser.launched(path) as running:
        yield running


@pytest.mark.browser
def test_clean_deck_has_no_findings(chromium, small, tmp_path):
    report = browser.check(chromium, small.folder, tmp_path)
    assert report.findings == []
    assert (report.slides, report.steps, report.formulas) == (4, 6, 2)
    assert [picture.name for picture in sorted(tmp_path.iterdir())] == [
        "001-slide-01.png", "002-slide-02.png", "003-slide-02.png",
        "004-slide-02.png", "005-slide-03.png", "006-slide-04.png"]


@pytest.mark.browser
def test_words_and_figures_are_as_large_as_their_slide_lets_them(chromium, tmp_path):
    deck = deck_of([
        text("# Words\n\nof a first slide keep their size.", "slide"), text("## Few\n\n" + lines(3), "slide"),
        text("## Many\n\n" + lines(11), "slide"), text("## Code", "slide"), code("f()"),
        code("show()", figure(), kind="slide", tags=["hide-input"]),
        text("## Words, figure", "slide"), code("show()", figure(), tags=["hide-input"]),
        text("## Both many", "slide"), code("show()", figure(), tags=["hide-input"]), text(lines(7)),
    ], tmp_path)  # fmt: skip
    with browser.fresh_page(chromium) as page:
        browser.open_deck(page, deck.folder, "?print-pdf")
        sizes = page.eval_on_selector_all("section[data-number] > .content", """all => all.map((content) => [
          getComputedStyle(content).fontSize, content.querySelector("img")?.clientWidth])""")
    assert sizes == [["25px", None], ["31px", None], ["25px", None], ["31px", None], ["25px", 1136],
                     ["31px", 1136], ["25px", 500]]


@pytest.mark.browser
def test_the_speakers_window_shows_the_clock_and_then_the_note(chromium, small):
    with browser.fresh_page(chromium) as deck:
        browser.open_deck(deck, small.folder)
        deck.evaluate("Reveal.next()")
        with deck.expect_popup() as opened:
            deck.keyboard.press("s")
        notes = opened.value.locator(".speaker-controls-notes .value")
        notes.get_by_text("Ask first.").wait_for()
        assert re.split(r"\n+", notes.inner_text().strip()) == [
            "2 of 5 min. Left: 43 of a slot of 45, 88 of a slot of 90.",
            "For the lecturer, 3 min. Ask first.",
        ]
        opened.value.locator(".pacing .minutes-value", has_text=":0").wait_for()


@pytest.mark.browser
def test_the_speakers_window_has_letters_for_chinese(chromium, tmp_path):
    note = text("*For the lecturer, 1 min.* Ask for 苹果.", "notes")
    deck = deck_of([text("## One", "slide"), note], tmp_path)
    with browser.fresh_page(chromium) as page:
        browser.open_deck(page, deck.folder)
        with page.expect_popup() as opened:
            page.keyboard.press("s")
        opened.value.get_by_text("Ask for 苹果.").wait_for()
        opened.value.wait_for_function("""[...document.fonts]
          .some((font) => font.family.includes("Deck Chinese") && font.status === "loaded")""")


@pytest.mark.browser
def test_a_slide_is_jumped_to_by_the_number_in_its_footer(chromium, tmp_path):
    deck = deck_of([text("## One", "slide"), text("Two.", "subslide"), text("## Three", "slide")], tmp_path)
    with browser.fresh_page(chromium) as page:
        browser.open_deck(page, deck.folder)
        for key in ("g", "2", "Enter"):
            page.keyboard.press(key)
        page.wait_for_function("Reveal.getCurrentSlide().dataset.number === '2'")
        assert page.locator(".slide-number").is_hidden()


@pytest.mark.browser
def test_an_address_that_is_none_opens_the_first_slide(chromium, small):
    with browser.fresh_page(chromium) as page:
        browser.open_deck(page, small.folder, "#/50%")
        assert page.evaluate("Reveal.getCurrentSlide().dataset.number") == "1"


@pytest.mark.browser
def test_a_font_that_is_missing_is_a_finding(chromium, tmp_path):
    deck = deck_of(lesson(), tmp_path)
    (deck.folder / "lib/reveal/fonts/source-sans-pro-italic.woff").unlink()
    findings = browser.check(chromium, deck.folder, halls=browser.HALLS[:1]).findings
    assert any("Deck Sans" in finding and "italic" in finding for finding in findings)


@pytest.mark.browser
def test_pdf_has_one_page_a_slide(chromium, small, tmp_path):
    browser.print_pdf(chromium, small.folder, tmp_path / "deck.pdf")
    pdf = (tmp_path / "deck.pdf").read_bytes()
    assert len(re.findall(rb"/Type /Page\b", pdf)) == 4
    assert set(re.findall(rb"/MediaBox \[0 0 (\S+) (\S+)\]", pdf)) == {(b"960", b"540")}


def lines(count):
    return "\n\n".join(f"Line {number}." for number in range(count))


# One slide each, in one deck: the cells after the slide's title, and what is to be found there.
FAULTS = {
    "too tall": (
        [text(lines(14))],
        ['too long by \\d+ px, and the page ends at "Line 11."']),
    "too tall once a fragment is shown": (
        [text(lines(11)), text("Late.\n\n" + lines(3), "fragment")],
        ['too long by \\d+ px, and the page ends at "Late."']),
    "too tall without text": (
        [html("<div style='height: 600px; border: 1px solid'>words at its top</div>")],
        ["too long by \\d+ px"]),
    "words placed below the page": (
        [html("<p style='position: absolute; top: 690px'>low</p>")],
        ['too long by \\d+ px, and the page ends at "low"']),
    "code too wide": (
        [code("short = 1\nlong = '" + 90 * "a" + "'")],
        ["line \"long = 'a+…\" is outside at the right by \\d+ px"]),
    "output too wide": (
        [code("f()", new_output("stream", text="short\n" + 99 * "b" + "\n"))],
        ['line "b+…" is outside at the right by \\d+ px']),
    "text too small": (
        [html("<p style='font-size: 17px'>small print</p>")],
        ['"small print" is 17.0 px high, under 18 px']),
    "exponent too small": (
        [html("<p style='font-size: 23px'>So <script type='math/tex'>e^{x^2}</script>.</p>")],
        ['formula "e\\^\\{x\\^2\\}" is 1\\d.\\d px high, under 18 px']),
    "text of a drawing too small": (
        [html("<svg width='200' height='100' viewBox='0 0 100 50'>"
                                "<text y='20' font-size='8'>axis</text></svg>")],
        ['"axis" is 16.0 px high, under 18 px']),
    "content that scrolls": (
        [html("<div style='height: 60px; overflow: auto'>" + 9 * "<p>x</p>" + "</div>")],
        ["<div> hides a part of its content, or scrolls"]),
    "external picture": (
        [text("![seen](https://example.invalid/seen.png)")],
        ["picture not loaded: https://example.invalid/seen.png",
         "asks for https://example.invalid/seen.png, which is not in the deck"]),
    "external script": (
        [html("<script src='https://example.invalid/a.js'></script>")],
        ["asks for https://example.invalid/a.js, which is not in the deck"]),
    "picture beside the deck": (
        [html("<img alt='a neighbour' src='../07_small.ipynb'>")],
        ["picture not loaded: ../07_small.ipynb",
         "asks for file:///.*/07_small.ipynb, which is not in the deck"]),
    "missing alternative text": (          # and seen twice, before the fragment and after it
        [code("show()", figure(alt="")), text("More.", "fragment")],
        ["picture without alternative text"]),
    "error of a script": (
        [html("<script>nowhere.to(1)</script>")],
        ["error in a script: ReferenceError: nowhere is not defined"]),
    "script that does not parse": (
        [html("<script>this is no script</script>")],
        ["error in a script: SyntaxError: .*"]),
    "error in the console": (
        [html("<script>console.error('a complaint')</script>")],
        ["error in the console: a complaint"]),
    "formula that does not parse": (
        [text("See $\\frac{1$.")],
        [r'formula "\\frac\{1" does not parse: Missing close brace']),
    "unknown command in a formula": (
        [text("See $\\nosuch x$.")],
        [r'formula "\\nosuch x" does not parse: Undefined control sequence \\nosuch']),
    "formula left as text": (
        [html("<p>See $q_i$.</p>")],
        [r'formula left as text: "See \$q_i\$\."']),
    "note without minutes": (
        [text("Ask the hall.", "notes")],
        ['note without its minutes \\("\\*For the lecturer, 3 min.\\* ..."\\): "Ask the hall."']),
}


@pytest.fixture(scope="module")
def findings(chromium, tmp_path_factory):
    """What the check says of a deck with every fault: a list for each slide's title."""
    cells = [text("# A deck of faults", "slide")]
    for title, (body, _) in FAULTS.items():
        cells += [text(f"## {title}", "subslide"), *body]
    deck = deck_of(cells, tmp_path_factory.mktemp("faults"))
    found = {}
    for finding in browser.check(chromium, deck.folder, halls=browser.HALLS[:1]).findings:
        title, sentence = re.fullmatch(r"slide \d+ \((.*?)\): (.*)", finding, re.S).groups()
        found.setdefault(title, []).append(sentence)
    return found


@pytest.mark.browser
@pytest.mark.parametrize("title", FAULTS)
def test_each_fault_is_found_on_its_slide(findings, title):
    expected = FAULTS[title][1]
    found = findings.get(title, [])
    assert len(found) == len(expected), found
    for sentence, pattern in zip(found, expected, strict=True):
        assert re.fullmatch(pattern, sentence), sentence


@pytest.mark.browser
def test_only_the_faulty_slides_have_findings(findings):
    assert set(findings) == set(FAULTS)


@pytest.mark.browser
def test_a_fault_makes_the_command_fail_also_one_that_shuts_readers_out(chromium, tmp_path, capsys):
    cells = [text("# One", "slide"), text("## Pale", "slide"), html("<p style='color: #bbb'>pale words</p>"),
             text("## Bare", "subslide"), code("show()", figure(alt="")), html("<button></button>")]
    deck = built(write(cells, tmp_path), tmp_path / "07_small")
    page = deck.folder / "index.html"
    # An empty alternative text calls the picture an ornament; none at all leaves a reader guessing.
    page.write_text(page.read_text("utf-8").replace(' lang="en"', "").replace(' alt=""', ""), "utf-8")
    found = slides.finish(browser, chromium, deck, slides.parsed(["07", "--check"]))
    assert {re.sub(r" \(1 times: .*", "", finding, flags=re.S) for finding in found} == {
        "deck: <html> element must have a lang attribute",
        "slide 2 (Pale): Elements must meet minimum color contrast ratio thresholds",
        "slide 3 (Bare): Buttons must have discernible text",
        "slide 3 (Bare): Images must have alternative text",
        "slide 3 (Bare): picture without alternative text",
    }
    assert "07: 3 slides, 3 steps, 0 formulas, 6 findings:" in capsys.readouterr().out


@pytest.mark.browser
@pytest.mark.parametrize("notebook", LESSONS, ids=lambda notebook: notebook.stem)
def test_lesson_is_clean(chromium, tmp_path, notebook):
    deck = built(notebook, tmp_path / notebook.stem)
    # Two lessons in both halls, and by axe; `course.py slides --check` sees all so.
    sampled = notebook.name[:2] in ("05", "20")
    findings = browser.check(chromium, deck.folder, halls=browser.HALLS[:1 + sampled]).findings
    if sampled:
        findings += browser.check_readers(chromium, deck.folder)
    assert not findings, "\n".join(["", *findings])
    assert deck.minutes > 0

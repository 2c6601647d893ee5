"""Figures as files: what an export of a small lesson holds, what replaces what, and what stops it."""

import io
import re
from xml.etree import ElementTree

import build
import kernel
import numpy as np
import pytest
from deck import axe, browser
from gallery import drawing, page
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, writes
from PIL import Image

from attnlib.plots import pictures, weight_bars

# isort: split
import figures  # its place in order would depend on whether there is a folder figures/

SVG = "{http://www.w3.org/2000/svg}"
SHOWN = """
from attnlib.plots import pictures, show, weight_bars
assert not {"sys", "recorder"} & set(globals()), "the lesson has names that it did not give"
show(weight_bars(["苹果", "it"], [0.9, 0.1], title="Where does $q$ look?"), alt="Two bars, 苹果 <first>.")
"""
PHOTOGRAPH = """
fig = pictures({"a wall": [[[0.5, 0.5, 0.5]] * 192] * 128}, title="What is grey?")
fig.text(0.01, 0.97, "tiny", size=6)
show(fig, alt="A wall.")
"""


def lesson(folder, *sources):
    """A notebook 07 with a code cell for each source, and after the first two that ask a model that is not
    installed, one with a figure and one without."""
    picture = new_output("display_data", {"image/png": ""})
    absent = [new_code_cell("import no_such_module", outputs=outputs) for outputs in ([picture], [])]
    for cell, needs in zip(absent, ("no_such_module", "no_such_module no_such_file"), strict=True):
        cell.metadata.update(tags=["needs-model"], attn={"needs": needs})
    first, *others = (new_code_cell(source, outputs=[picture]) for source in sources)
    path = folder / "07_small.ipynb"
    cells = [new_markdown_cell("# 07 · A small one\n\nWords."), first, *absent, *others]
    path.write_text(writes(new_notebook(cells=cells)), encoding="utf-8")
    return path


def export(path, folder, judged=False):
    return figures.export(figures.lesson.read(path), folder, judged, build, kernel, "8 of 26 lessons")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def drawn(folder, *names):
    """Lay files there as an earlier run has."""
    for name in names:
        (folder / name).touch()
    (folder / figures.WRITTEN).write_text("\n".join(names), encoding="utf-8")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The folder of an export."""
    folder = tmp_path_factory.mktemp("figures")
    drawn(folder, "07_02_of-an-earlier-run.svg", "08_01_of-another-lesson.svg")
    (folder / "07_01_where-it-looks-for-my-talk.svg").touch()
    (folder / "07_of the user.txt").touch()
    Image.new("RGB", (2, 2)).save(folder / "99_01_of-the-user.png")
    assert export(lesson(tmp_path_factory.mktemp("notebooks"), SHOWN, PHOTOGRAPH), folder)
    return folder


def test_figures_are_numbered_as_in_the_lesson_and_old_ones_are_gone_but_no_file_of_the_users(exported):
    assert sorted(contents(exported)) == [
        ".written.txt", "07_01_where-does-q-look.png", "07_01_where-does-q-look.svg",
        "07_01_where-it-looks-for-my-talk.svg", "07_03_what-is-grey.png", "07_03_what-is-grey.svg",
        "07_of the user.txt", "08_01_of-another-lesson.svg", "99_01_of-the-user.png",
    ]  # fmt: skip


def test_the_list_has_what_was_drawn_of_this_lesson_and_of_others(exported):
    assert figures.written(exported) == {
        "07_01_where-does-q-look.png", "07_01_where-does-q-look.svg",
        "07_03_what-is-grey.png", "07_03_what-is-grey.svg", "08_01_of-another-lesson.svg",
    }  # fmt: skip


@pytest.mark.parametrize("damaged", [None, b"", b"07_01_old.svg\n07_02_cut-o", b"07_01_old.svg\n../07_01.svg",
                                     b"07_01_old.svg\n\xff"],
                         ids=["missing", "empty", "cut off", "a path", "no text"])  # fmt: skip
def test_without_a_whole_list_nothing_is_removed(tmp_path, damaged):
    drawn(tmp_path, "07_01_old.svg")
    (tmp_path / figures.WRITTEN).unlink()
    if damaged is not None:
        (tmp_path / figures.WRITTEN).write_bytes(damaged)
    figures.replace(tmp_path, "07", [])
    assert sorted(contents(tmp_path)) == [".written.txt", "07_01_old.svg"]


def test_what_the_user_has_moved_away_need_not_be_removed(tmp_path):
    drawn(tmp_path, "07_01_old.svg", "08_01_old.svg")
    (tmp_path / "07_01_old.svg").unlink()
    figures.replace(tmp_path, "07", [])
    assert contents(tmp_path) == {".written.txt": b"08_01_old.svg", "08_01_old.svg": b""}


def test_a_png_has_twice_the_pixels_an_opaque_ground_and_its_words(exported):
    with Image.open(exported / "07_01_where-does-q-look.png") as image:
        assert image.size == (2000, 368)
        assert np.asarray(image.convert("RGBA"))[..., 3].min() == 255
        about = image.text
    assert about == {"Title": "Where does $q$ look?", "Description": "Two bars, 苹果 <first>.", "Credit": "",
                     "Author": "The attnlib authors", "Copyright": drawing.RIGHTS,
                     "Lesson": "07 · A small one"}  # fmt: skip


def test_an_svg_has_its_words_and_its_licence_and_draws_its_letters(exported):
    text = (exported / "07_01_where-does-q-look.svg").read_text(encoding="utf-8")
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title").text == "Where does $q$ look?"
    assert root.find(f"{SVG}desc").text == "Two bars, 苹果 <first>."
    about = ElementTree.tostring(root.find(f"{SVG}metadata"), encoding="unicode")
    assert drawing.RIGHTS in about and "07 · A small one" in about and "date" not in about
    assert not root.findall(f".//{SVG}text") and root.findall(f".//{SVG}use")


def test_a_map_that_is_given_as_colours_is_no_photograph():
    assert drawing.credit(pictures({"": np.full((8, 8, 3), 0.5)}, title="t")) == ""


def test_only_what_shows_a_photograph_has_its_credit(exported):
    for name, credited in (("07_01_where-does-q-look", False), ("07_03_what-is-grey", True)):
        svg = (exported / f"{name}.svg").read_text(encoding="utf-8")
        with Image.open(exported / f"{name}.png") as image:
            assert ("danielbuechele" in svg, "CC BY 2.0" in image.text["Credit"]) == (credited, credited)


def test_a_second_run_gives_the_same_bytes_and_the_check_names_figure_and_fault(exported, tmp_path, capsys):
    before = contents(exported)
    assert not export(lesson(tmp_path, SHOWN, PHOTOGRAPH), exported, judged=True)
    assert contents(exported) == before
    said = capsys.readouterr().out
    assert re.search(r"^07: 2 figures \(.* s, 8 of 26 lessons\), 1 findings$", said, re.M)
    assert "\n  1 more are left out: 2 cells ask for no_such_module, no_such_file\n" in said
    assert "07, 'What is grey?': the text 'tiny' has 6 points; 14 are needed" in said


def test_a_lesson_that_fails_is_said_and_leaves_its_figures_as_they_were(exported, tmp_path, capsys):
    before = contents(exported)
    assert not export(lesson(tmp_path, SHOWN, "1 / 0"), exported)
    assert contents(exported) == before
    assert "07 stopped at cell 5 ('1 / 0'): ZeroDivisionError" in capsys.readouterr().out


def test_a_run_that_is_stopped_leaves_whole_files_only(tmp_path, monkeypatch):
    def stopped(source, scratch, *_):
        (scratch / "0.svg").write_text("<svg", encoding="utf-8")
        raise KeyboardInterrupt

    monkeypatch.setattr(figures, "draw", stopped)
    folder = tmp_path / "figures"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt):
        export(lesson(tmp_path, SHOWN), folder)
    assert contents(folder) == {}


def test_cells_without_a_figure_are_left_out_in_silence(tmp_path):
    source = figures.lesson.read(lesson(tmp_path, SHOWN))
    source.code_cells[1].outputs = []
    assert not list(figures.without_a_model(source))


def test_a_figure_is_missing_until_it_is_there_and_only_of_lessons_that_are(exported, tmp_path):
    paths = [lesson(tmp_path, SHOWN, PHOTOGRAPH)]
    assert figures.left_out(exported, paths) == {"07": 1}
    assert figures.left_out(tmp_path, paths) == {}
    for number in (1, 2):
        (tmp_path / f"07_{number:02}_drawn.svg").touch()
    assert figures.left_out(tmp_path, paths) == {}          # the third asks no model


@pytest.mark.parametrize("numbers, first, places", [
    ([], "All 26 lessons are run, which takes about a quarter of an hour.", 26),
    (["7", "02"], "07 1 of 2 lessons", 2),
], ids=["all", "two"])  # fmt: skip
def test_how_long_it_takes_how_far_it_is_and_what_is_missing_are_said(
    numbers, first, places, tmp_path, monkeypatch, capsys
):
    def exports(source, folder, judged, build, kernel, place):
        print(source.number, place)
        (folder / f"{source.number}_01_of-many.svg").touch()
        return True

    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "export", exports)
    assert figures.main(numbers) == 0
    *lines, count, missing = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(first) and lines[-1].endswith(f" {places} of {places} lessons")
    asking = "02" if numbers else "02 14 18"
    assert re.match(r"Left out: \d of \d figures, which ask an optional model\. To draw them: pip ", missing)
    assert missing.endswith(f'"gguf>=0.19" && python3 course.py figures {asking}')
    text = (tmp_path / "figures" / "index.html").read_text(encoding="utf-8")
    assert f"<code>python3 course.py figures {asking}</code>." in text


def test_a_lesson_that_is_not_there_is_a_sentence():
    assert figures.main(["99"]).startswith("There is no lesson 99. The lessons are: 00, ")


@pytest.fixture
def conflict(tmp_path, monkeypatch):
    """Lessons 07 and 08, in which a merge has left its marks; which of them were run."""
    notebooks, ran = tmp_path / "notebooks", []
    notebooks.mkdir()
    text = lesson(notebooks, SHOWN).read_text(encoding="utf-8")
    (notebooks / "08_broken.ipynb").write_text(text.replace("\n", "\n<<<<<<< HEAD\n", 1), encoding="utf-8")
    monkeypatch.setattr(figures.lesson, "NOTEBOOKS", notebooks)
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    monkeypatch.setattr(figures, "export", lambda source, *_: ran.append(source.number) or True)
    return ran


@pytest.mark.parametrize("numbers", [["07", "08"], []], ids=["named", "all"])
def test_a_broken_lesson_that_is_asked_for_is_a_sentence_before_any_is_run(conflict, numbers):
    said = figures.main(numbers)
    assert said.startswith("No lesson was run: 08_broken.ipynb is not a notebook (")
    assert said.endswith("line 2 column 1 (char 2)). Mend the file, or name the lessons to run without it.")
    assert conflict == []


def test_a_broken_lesson_that_is_not_asked_for_stops_no_other(conflict):
    assert figures.main(["07"]) == 0 and conflict == ["07"]


def test_a_figure_without_a_title_is_named_by_its_number(tmp_path):
    (tmp_path / "0.json").write_text('{"title": ""}', encoding="utf-8")
    assert figures.Drawn(tmp_path / "0", "06_01").name == "06_01"


def test_a_ground_keeps_its_colour_and_a_clear_one_becomes_opaque():
    fig = weight_bars("ab", [0.5, 0.5], title="t")
    fig.set_facecolor((0.8, 0.8, 1))
    opaque = drawing.svg(fig, "w", "l"), drawing.png(fig, "w", "l")
    assert Image.open(io.BytesIO(opaque[1])).getpixel((0, 0)) == (204, 204, 255, 255)
    fig.set_facecolor((0.8, 0.8, 1, 0))
    assert (drawing.svg(fig, "w", "l"), drawing.png(fig, "w", "l")) == opaque


def test_cells_of_a_map_are_stored_as_they_are_and_not_as_pixels_of_one_size():
    svg = drawing.svg(pictures({"": np.eye(4)}, title="t"), "w", "l").decode("utf-8")
    assert len(re.findall(r"<image ", svg)) == 1 and "pixelated" in svg


# The page


def test_the_page_shows_each_figure_with_its_words_and_files(exported):
    assert page.write(exported) == 2
    text = (exported / "index.html").read_text(encoding="utf-8")
    assert '<p aria-hidden="true">Two bars, 苹果 &lt;first&gt;.</p>' in text
    assert text.count("are under CC BY 2.0") == 1 and "left out" not in text
    for name in ("07_01_where-does-q-look", "07_03_what-is-grey"):
        assert f'src="{name}.svg" alt="' in text
        assert all(f'href="{name}.{kind}"' in text for kind in ("svg", "png"))
    assert 'alt="Two bars, 苹果 &lt;first&gt;." loading="lazy"' in text
    (exported / "index.html").unlink()


def test_the_page_links_only_what_is_there(exported, tmp_path):
    """The user has moved the SVG files to a talk."""
    for path in exported.glob("*.png"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "07_09_of-mine.png").write_text("no picture", encoding="utf-8")
    assert page.write(tmp_path) == 2
    text = (tmp_path / "index.html").read_text(encoding="utf-8")
    shown, linked = (re.findall(rf'{kind}="(\d\d_[^"]*)"', text) for kind in ("src", "href"))
    assert shown == linked == ["07_01_where-does-q-look.png", "07_03_what-is-grey.png"]


def test_the_page_says_what_is_missing(exported):
    page.write(exported, 1, ["pip install", "course.py figures 07"])
    text = (exported / "index.html").read_text(encoding="utf-8")
    assert "1 of 3 figures is left out" in text
    assert "To draw them: <code>pip install</code>, then <code>course.py figures 07</code>.</p>" in text
    (exported / "index.html").unlink()


@pytest.mark.browser
def test_the_page_opens_offline_and_shuts_no_reader_out_by_day_or_night(exported, tmp_path):
    for path in (*exported.iterdir(), *figures.BESIDE):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    page.write(tmp_path, 1, ["pip install"])
    with browser.launched(browser.find_browser()) as chromium, browser.fresh_page(chromium) as tab:
        asked, failed, grounds = [], [], set()
        tab.on("request", lambda request: asked.append(request.url))
        tab.on("requestfailed", lambda request: failed.append(request.url))
        tab.on("console", lambda message: failed.append(message.text))
        for mode in ("light", "dark"):
            tab.emulate_media(color_scheme=mode)
            tab.goto((tmp_path / "index.html").as_uri())
            widths = tab.eval_on_selector_all("img", "all => all.map(image => image.naturalWidth)")
            assert len(widths) == 2 and min(widths) > 0
            grounds.add(tab.evaluate("getComputedStyle(document.body).backgroundColor"))
            for width, columns in ((1280, 1), (1600, 2)):
                tab.set_viewport_size({"width": width, "height": 900})
                left = tab.eval_on_selector_all("img", "all => all.map(image => image.x)")
                assert len(set(left)) == columns
            assert axe.faults(tab) == []
        assert failed == [] and all(url.startswith(tmp_path.as_uri()) for url in asked)
        assert len(grounds) == 2

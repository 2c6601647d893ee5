"""The book: what its pages hold, what its search finds, and that the check sees each kind of fault."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from bs4 import BeautifulSoup, SoupStrainer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import lesson  # noqa: E402
import make_book  # noqa: E402

# isort: split
from book import check, pages, words  # noqa: E402
from deck import browser  # noqa: E402
from sphinx.application import Sphinx  # noqa: E402

LESSONS = lesson.lesson_paths()


@pytest.fixture(scope="session")
def book(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book") / "site"
    assert make_book.build(pages, Sphinx, LESSONS, folder), "Sphinx warned"
    return folder


# The book takes the place of an earlier one. Sphinx is played: it writes one page.

def rebuilt(folder, words):
    def sphinx(source, conf, new, *arguments, **options):
        def build():
            (new / "_sources").mkdir(parents=True)
            (new / "index.html").write_text(words, encoding="utf-8")

        return SimpleNamespace(build=build, _warncount=0)

    played = SimpleNamespace(write_source=lambda source, paths: [], copy_parts=lambda static: None)
    return make_book.build(played, sphinx, [], folder)


@pytest.fixture
def earlier(tmp_path):
    """A book of an earlier run, with a page that is in use."""
    folder = tmp_path / "site"
    folder.mkdir()
    for name in ("index.html", "in_use.html"):
        (folder / name).write_text("earlier", encoding="utf-8")
    return folder


def texts(folder):
    return {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.html")}


def test_a_book_that_cannot_be_replaced_stays_as_it_was(earlier, monkeypatch):
    def in_use(source, target):
        raise PermissionError(13, "Permission denied", str(source))

    monkeypatch.setattr(os, "replace", in_use)
    with pytest.raises(OSError, match="site cannot be replaced, and stays as it was: .* Close what is open"):
        rebuilt(earlier, "new")
    assert texts(earlier) == {"index.html": "earlier", "in_use.html": "earlier"}
    assert [path.name for path in earlier.parent.iterdir()] == ["site"]


@pytest.mark.skipif(os.name == "nt", reason="a link asks for rights there")
def test_a_link_to_the_books_folder_stays(earlier):
    elsewhere = earlier.with_name("public")
    earlier.rename(elsewhere)
    earlier.symlink_to(elsewhere)
    for said in ("new", "newer"):
        rebuilt(earlier, said)
        assert earlier.is_symlink() and texts(elsewhere) == {"index.html": said}
    assert {path.name for path in earlier.parent.iterdir()} == {"site", "public"}


def test_what_an_earlier_run_left_and_cannot_be_deleted_is_named(earlier, monkeypatch):
    left = earlier.with_name(".site-old")
    left.mkdir()

    def refused(path, *arguments, **options):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refused)
    with pytest.raises(OSError, match=r"\.site-old is left of an earlier run and cannot be deleted: "):
        make_book.put_in_place((earlier.with_name("new"), earlier))
    assert texts(earlier) == {"index.html": "earlier", "in_use.html": "earlier"}


def test_a_page_that_cannot_be_deleted_costs_no_book(earlier, monkeypatch):
    rmtree = shutil.rmtree

    def leaves_one(path, *arguments, **options):
        if not Path(path, "in_use.html").exists():
            return rmtree(path, *arguments, **options)
        Path(path, "index.html").unlink()
        if not options.get("ignore_errors"):
            raise PermissionError(13, "Permission denied", "in_use.html")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", leaves_one)
        assert rebuilt(earlier, "new") == []
    assert texts(earlier) == {"index.html": "new"}
    assert rebuilt(earlier, "newer") == []
    assert [path.name for path in earlier.parent.iterdir()] == ["site"]


def test_a_book_that_is_stopped_while_the_old_one_is_deleted_is_whole(earlier, monkeypatch):
    rmtree = shutil.rmtree

    def stopped(path, *arguments, **options):
        if Path(path).name in ("site", ".site-old"):
            Path(path, "index.html").unlink()
            raise KeyboardInterrupt
        rmtree(path, *arguments, **options)

    monkeypatch.setattr(shutil, "rmtree", stopped)
    with pytest.raises(KeyboardInterrupt):
        rebuilt(earlier, "new")
    assert texts(earlier) == {"index.html": "new"}


def test_a_place_for_pictures_that_is_a_file_is_named_before_anything_is_built(tmp_path, monkeypatch):
    monkeypatch.setattr(browser, "find_browser", lambda: "chromium")
    monkeypatch.setattr(make_book, "build", lambda *_: pytest.fail("The book was built."))
    (tmp_path / "README.md").touch()
    told = make_book.main(["--pictures", str(tmp_path / "README.md")])
    assert told.startswith(f"--pictures needs a folder, and {tmp_path / 'README.md'} cannot be one: ")


def soup(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def test_each_lesson_has_a_page_and_can_be_downloaded_as_it_is_committed(book):
    for path in LESSONS:
        page = (book / f"{path.stem}.html").read_text(encoding="utf-8")
        assert f'href="_sources/{path.name}" download' in page
        assert (book / "_sources" / path.name).read_bytes() == path.read_bytes()


def test_no_page_asks_for_anything_elsewhere(book):
    asks = re.compile(r"""<(?:script|link|img|iframe|video)\b[^>]*\b(?:src|href)=["'](?:https?:)?//[^>]*>""")
    for path in book.glob("*.html"):
        assert not asks.findall(path.read_text(encoding="utf-8")), path.name
    assert asks.findall("<link rel='x' href='//elsewhere.example/y.css'>")


def test_a_lesson_brings_its_pictures_words_and_leaves_the_lecturers_notes_out(book):
    for path in LESSONS:
        text, read = (book / f"{path.stem}.html").read_text(encoding="utf-8"), lesson.read(path)
        page = BeautifulSoup(text, "html.parser", parse_only=SoupStrainer(["img", "details"]))
        wanted = [output.metadata["image/png"]["alt"] for cell in read.code_cells
                  for output in cell.outputs if "image/png" in output.get("data", {})]  # fmt: skip
        shown = [image["alt"] for image in page.select("img")]
        assert shown == wanted, path.name
        assert "For the lecturer" not in text
        # Code that is folded has a class; hints and answers, which the lesson writes, have none.
        hints = page.select("details:not([class])")
        assert len(hints) == read.text.count("<details>") and not any(hint.has_attr("open") for hint in hints)


def test_below_a_view_that_stands_still_is_how_it_moves(book):
    moving = 0
    for path in LESSONS:
        views = sum("from attnlib.views import" in cell.source for cell in lesson.read(path).code_cells)
        if views:
            said = soup(book / f"{path.stem}.html").select("article .cell:has(img) + .moves code")
            assert [code.text for code in said] == views * [f"python3 course.py lab {path.name[:2]}"]
        moving += views
    assert moving > 0


def test_a_view_is_what_a_code_cell_ends_in():
    code, text = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell
    assert pages.ends_in_a_view(code("from attnlib.views import mask_view\n\nmask_view()\n"))
    for cell in (code("still = mask_view()"), code("mask_view()\nprint()"), code(""), text("mask_view()")):
        assert not pages.ends_in_a_view(cell)


def test_the_front_page_leads_to_every_lesson_and_has_the_map(book):
    front = soup(book / "index.html")
    for path in LESSONS:
        assert front.select_one(f'article a[href="{path.stem}.html"]')
    assert any("trunk" in image["alt"] for image in front.select("article img"))


def test_the_index_has_the_terms_of_all_lessons(book):
    index = soup(book / "terms.html").select_one("article table").get_text()
    for path in LESSONS:
        terms = pages.lesson_page(path).terms
        assert terms and all(chinese in index for _, chinese, _ in terms), path.name


def test_each_letter_above_the_index_leads_to_its_first_term(book):
    page = soup(book / "terms.html")
    letters = [link.get_text() for link in page.select(".letters a")]
    assert letters == sorted(letters) and len(letters) > 15
    for link in page.select(".letters a"):
        row = page.select_one(link["href"]).find_parent("tr")
        assert row.find_all("td")[1].get_text().upper().startswith(link.get_text())


def test_words_are_english_stems_and_stretches_of_chinese():
    language = words.EnglishAndChinese({})
    assert language.split("masks 掩码 and 我爱你") == [
        "masks", "and", "掩", "码", "掩码", "我", "爱", "你", "我爱", "爱你", "我爱你"
    ]  # fmt: skip
    assert language.word_filter("熵") and language.stem("masks") == "mask"
    assert not language.word_filter("the")


def test_a_joined_name_is_its_parts_too():
    split = words.EnglishAndChinese({}).split
    assert split("FlashAttention") == ["FlashAttention", "Flash", "Attention"]
    assert split("RMSNorm") == ["RMSNorm", "RMS", "Norm"]
    for whole in ("ReLU", "GPUs", "BERT", "Llama3", "sliding_window"):
        assert split(whole) == [whole]


def test_the_index_of_words_has_the_chinese_of_the_tables(book):
    text = (book / "searchindex.js").read_text(encoding="utf-8")
    terms = json.loads(text[text.index("(") + 1 : text.rindex(")")])["terms"]
    assert {"饱和", "掩码", "注意力"} <= set(terms)


def test_a_lesson_without_its_first_lines_is_named(tmp_path):
    path = tmp_path / "03_bare.ipynb"
    bare = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(bare), encoding="utf-8")
    with pytest.raises(ValueError, match=r"03_bare.ipynb has no title, or no line ..You will be able"):
        pages.lesson_page(path)


@pytest.fixture(scope="module")
def chromium():
    with browser.launched(browser.find_browser()) as chromium:
        yield chromium


@pytest.mark.browser
def test_a_sample_is_clean_in_a_browser(book, chromium):
    report = check.check(chromium, book, ["index.html", "terms.html", "07_softmax_saturation.html"])
    assert report.findings == []
    assert report.pages == 3 and report.formulas > 100


@pytest.mark.browser
def test_the_check_sees_each_kind_of_fault(tmp_path, chromium):
    (tmp_path / "bad.html").write_text(
        "<html lang='en'><head><title>t</title><script src='https://elsewhere.example/x.js'></script></head>"
        "<body><main><h1>t</h1><article><img src='x.png' alt=''><span class='math notranslate'>x</span>"
        "<details><pre style='width: 300px; overflow: auto'>\n" + 99 * "x" + "</pre></details>"
        "<div style='width: 1500px'>w</div><p style='color: #ccc; background: #fff'>pale</p></article></main>"
        "<script>console.error('wrong'); nothing()</script></body></html>", encoding="utf-8"
    )
    (tmp_path / "x.png").write_bytes((ROOT / "docs" / "first_map.png").read_bytes())
    found = "\n".join(check.check_page(chromium, tmp_path, "bad.html", check.Report()))
    for part in ("elsewhere.example", "1 formulas are not drawn", "x.png has no words", "a window of 1280 px",
                 "a window of 390 px", "the code at 'xxx", "wrong", "nothing is not defined", "light: ",
                 "contrast", "no switch to a dark page"):  # fmt: skip
        assert part in found, part


@pytest.mark.browser
def test_a_page_that_does_not_come_to_rest_is_a_finding(tmp_path, chromium, monkeypatch):
    (tmp_path / "slow.html").write_text(
        "<script>MathJax = {Hub: {Queue() {}}}; document.write('<title>t</title>')</script>", encoding="utf-8"
    )
    monkeypatch.setattr(check, "PATIENCE", 0.1)
    monkeypatch.setattr(check, "WORDS", {})
    assert check.check(chromium, tmp_path).findings == ["slow.html was not drawn in 0.1 s"]


@pytest.fixture
def page(book, chromium):
    """The first lesson, opened from its file."""
    with browser.fresh_page(chromium) as page:
        page.goto((book / "00_start_here.html").as_uri())
        yield page


def theme(page):
    return page.evaluate("document.documentElement.dataset.theme")


@pytest.mark.browser
def test_a_page_from_a_file_hands_out_its_notebook(page):
    with page.expect_download() as started:
        page.locator("a.notebook").click()
    assert started.value.suggested_filename == "00_start_here.ipynb"
    assert started.value.path().read_bytes() == LESSONS[0].read_bytes()


@pytest.mark.browser
def test_the_dark_stays_from_page_to_page_and_is_not_printed(page, book):
    page.locator(check.SWITCH).click()
    page.locator(".theme-change-button[data-mode=dark]").click()
    page.goto((book / "terms.html").as_uri())
    assert theme(page) == "dark"
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert theme(page) == "light"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert theme(page) == "dark"


@pytest.mark.browser
def test_the_check_sees_what_is_pale_in_the_dark_only(page, book):
    page.goto((book / "terms.html").as_uri())
    page.add_style_tag(content="* { transition: none !important } html[data-theme=dark] h1 { color: #222 }")
    (fault,) = check.in_the_dark(page)
    assert fault.startswith("dark: ") and "contrast" in fault and "Index of terms</h1>" in fault


@pytest.mark.browser
def test_the_contents_fold_away_and_close_when_something_is_chosen(page):
    page.set_viewport_size({"width": check.LAPTOP, "height": 800})
    contents, last = page.locator("#pst-secondary-sidebar-modal"), page.locator(".page-toc a").last
    assert not last.is_visible()
    page.locator(".secondary-toggle").click()
    last.click()
    assert "#" in page.url and contents.get_attribute("open") is None
    page.set_viewport_size({"width": 1440, "height": 800})
    assert last.is_visible()


@pytest.mark.browser
def test_without_scripts_a_page_has_its_words_formulas_and_grounds(book, chromium):
    context = chromium.new_context(java_script_enabled=False, offline=True)
    try:
        page = context.new_page()
        page.goto((book / "06_scaling_variance.html").as_uri())
        assert "\\(d_k\\)" in page.locator("article table").first.inner_text()
        assert page.locator(".cell_input").first.is_visible()
        ground = page.locator(".cell_input").first.evaluate("each => getComputedStyle(each).backgroundColor")
        assert ground == "rgb(243, 244, 245)"
    finally:
        context.close()


@pytest.fixture
def found(page, book):
    """Asks the search, and gives the numbers of the lessons that it found, in their order."""

    def ask(query):
        page.goto(f"{(book / 'search.html').as_uri()}?q={query}")
        page.wait_for_selector("#search-results h2 + p")
        links = page.locator("#search-results li > a")
        return links.evaluate_all("all => all.map(link => link.getAttribute('href').slice(0, 2))")

    return ask


@pytest.mark.browser
def test_a_name_is_found_joined_and_in_parts(found):
    assert found("flash attention") == found("FlashAttention")
    for lesson_number, names in (("19", "flash attention, flashattention"), ("22", "pola former, PolaFormer"),
                                 ("23", "mini max, MiniMax"), ("17", "big bird, BigBird")):  # fmt: skip
        for name in names.split(", "):
            assert found(name)[0] == lesson_number, name


@pytest.mark.browser
def test_the_lesson_of_a_name_comes_before_those_that_say_it(found):
    for query, first in (("softmax saturation", "07"), ("linear attention", "20"), ("hardware", "19")):
        assert found(query)[0] == first, query


@pytest.mark.browser
def test_the_subjects_chinese_words_lead_to_their_lessons(found):
    for number, chinese in (
        ("01", "注意力 查询 键 值"), ("05", "归一化 归一化指数函数"), ("06", "缩放"), ("07", "梯度"),
        ("08", "掩码 滑动窗口"), ("09", "多头 多头注意力"), ("10", "位置编码"), ("11", "自注意力"),
        ("15", "缓存"), ("20", "线性注意力"),
    ):  # fmt: skip
        for word in chinese.split():
            assert number in found(word), word
    assert found("注意力机制")     # on the front page


@pytest.mark.browser
def test_words_are_marked_on_a_page_that_was_found_and_on_no_other(page, book, found):
    hide, marks = page.locator(".highlight-link"), page.locator("article .highlighted")
    lesson_07 = (book / "07_softmax_saturation.html").as_uri()
    assert found("saturation")
    page.goto(lesson_07)
    page.evaluate("SphinxHighlight.highlightSearchWords()")  # as Sphinx does it a moment later
    assert not marks.count() and not hide.count()
    found("saturation")
    page.locator("#search-results a[href^='07_']").first.click()
    hide.wait_for()
    assert marks.count()
    hide.locator("a").click()
    assert not marks.count() and not hide.count()


@pytest.mark.browser
def test_where_nothing_is_marked_nothing_can_be_hidden(page):
    page.evaluate("localStorage.setItem('sphinx_highlight_terms', 'zzyzx')")
    page.evaluate("SphinxHighlight.highlightSearchWords()")
    assert page.locator(".highlight-link").count()
    assert not page.locator(".highlight-link").is_visible()


@pytest.mark.browser
def test_a_word_that_is_not_found_is_a_finding(book, chromium):
    found = check.check_search(chromium, book, "zzyzx", "07_")
    assert found == ["search for zzyzx: 0 pages, and 07_ is not among them"]


@pytest.mark.browser
def test_a_word_that_is_shown_without_those_around_it_is_a_finding(book, chromium):
    script = book / "_static" / "excerpts.js"
    whole = script.read_text(encoding="utf-8")
    script.write_text(whole.replace("饱和", "saturated"), encoding="utf-8")
    try:
        found = check.check_search(chromium, book, "饱和", "07_")
    finally:
        script.write_text(whole, encoding="utf-8")
    assert found == ["search for 饱和: 07_ is shown without the words around it"]

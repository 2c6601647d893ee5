"""The book: what its pages hold, what its search finds, and that the check sees each kind of fault."""

import json
import re
import sys
from pathlib import Path

import pytest
from bs4 import BeautifulSoup

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


def soup(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def test_each_lesson_has_a_page_and_can_be_downloaded_as_it_is_committed(book):
    for path in LESSONS:
        page = soup(book / f"{path.stem}.html")
        assert page.find("a", href=f"_sources/{path.name}")
        assert (book / "_sources" / path.name).read_bytes() == path.read_bytes()


def test_no_page_asks_for_anything_elsewhere(book):
    for path in book.glob("*.html"):
        for element in soup(path).find_all(["script", "link", "img", "iframe", "video"]):
            address = element.get("src") or element.get("href") or ""
            assert not re.match("(https?:)?//", address), f"{path.name}: {address}"


def test_a_lesson_brings_its_pictures_words_and_leaves_the_lecturers_notes_out(book):
    for path in LESSONS:
        page, read = soup(book / f"{path.stem}.html"), lesson.read(path)
        wanted = [output.metadata["image/png"]["alt"] for cell in read.code_cells
                  for output in cell.outputs if "image/png" in output.get("data", {})]  # fmt: skip
        shown = [image["alt"] for image in page.select(".cell_output img")]
        assert shown == wanted, path.name
        assert "For the lecturer" not in page.get_text()
        assert len(page.select("article details > summary")) >= read.text.count("<details>")


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


def test_words_are_english_stems_and_stretches_of_chinese():
    language = words.EnglishAndChinese({})
    assert language.split("masks 掩码 and 我爱你") == [
        "masks", "and", "掩", "码", "掩码", "我", "爱", "你", "我爱", "爱你", "我爱你"
    ]  # fmt: skip
    assert language.word_filter("熵") and language.stem("masks") == "mask"
    assert not language.word_filter("the")


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
        "<div style='width: 1500px'>w</div><p style='color: #ccc; background: #fff'>pale</p></article></main>"
        "<script>console.error('wrong'); nothing()</script></body></html>", encoding="utf-8"
    )
    (tmp_path / "x.png").write_bytes((ROOT / "docs" / "first_map.png").read_bytes())
    found = "\n".join(check.check_page(chromium, tmp_path, "bad.html", "light", check.Report()))
    for part in ("elsewhere.example", "1 formulas are not drawn", "x.png has no words", "out of a window",
                 "wrong", "nothing is not defined", "contrast"):  # fmt: skip
        assert part in found, part


@pytest.mark.browser
def test_a_word_that_is_not_found_is_a_finding(book, chromium, monkeypatch):
    monkeypatch.setattr(check, "WORDS", {"zzyzx": "07_"})
    assert check.check_search(chromium, book) == ["search for zzyzx: 0 pages, and 07_ is not among them"]

"""attention_table: the text, the HTML, and how it behaves in a browser."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from attnlib.plots import attention_table
from attnlib.plots.style import luminance

QUERIES, KEYS = ["我", "ate"], ["苹果", "it", "，"]
WEIGHTS = np.array([[0.744, 0.256, 0.0], [0.125, 0.375, 0.5]])


class Cells(HTMLParser):
    """Every th and td: its tag, attributes and text; and the attributes of every table."""

    def __init__(self, html):
        super().__init__()
        self.rows, self.tables, self.open, self.tags = [], [], False, []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "table":
            self.tables.append(dict(attributes))
        if tag in ("td", "th"):
            self.rows[-1].append([tag, dict(attributes), ""])
            self.open = True

    def handle_endtag(self, tag):
        self.open = self.open and tag not in ("td", "th")

    def handle_data(self, data):
        if self.open:
            self.rows[-1][-1][2] += data


@pytest.fixture
def html():
    return attention_table(WEIGHTS, QUERIES, KEYS, title="Who looks at whom?")._repr_html_()


@pytest.fixture
def rows(html):
    return Cells(html).rows


def test_text_is_an_aligned_table():
    assert repr(attention_table(WEIGHTS, QUERIES, KEYS, title="Who?")).splitlines() == [
        "Who?",
        "query ↓ key →  苹果    it    ，",
        "           我  0.74  0.26     0",
        "          ate  0.12  0.38  0.50",
    ]


def test_headers_say_what_they_head(rows):
    head, *body = rows
    assert [cell[2] for cell in head[1:]] == KEYS
    assert {cell[0] for cell in head[1:]} == {"th"}
    assert {cell[1]["scope"] for cell in head[1:]} == {"col"}
    assert [(row[0][0], row[0][1]["scope"], row[0][2]) for row in body] == [
        ("th", "row", query) for query in QUERIES
    ]


def test_cells_carry_numbers_and_tooltips(rows):
    assert [[cell[2] for cell in row[1:]] for row in rows[1:]] == [
        ["0.74", "0.26", "0"], ["0.12", "0.38", "0.50"],
    ]
    assert rows[1][1][1]["title"] == "我 attends to 苹果: 0.74"
    assert rows[2][3][1]["title"] == "ate attends to ，: 0.50"


def test_every_cell_has_its_own_colour_and_ground_with_contrast(rows):
    for cell in [cell for row in rows for cell in row]:
        style = dict(part.split(":") for part in cell[1]["style"].split(";"))
        low, high = sorted(luminance(to_rgb(style[name])) for name in ("color", "background-color"))
        assert (high + 0.05) / (low + 0.05) >= 4.5


def test_what_shows_the_same_number_has_the_same_colour():
    first, second = Cells(attention_table([[0.4951, 0.5049]], "q", "ab")._repr_html_()).rows[1][1:]
    assert first[2] == second[2] == "0.50"
    assert first[1]["style"] == second[1]["style"]


def test_a_table_keeps_its_weights_when_the_array_changes(html):
    weights = WEIGHTS.copy()
    table = attention_table(weights, QUERIES, KEYS, title="Who looks at whom?")
    weights[:] = 0
    assert table._repr_html_() == html


def test_darker_means_more(rows):
    ground = [luminance(to_rgb(re.search("background-color:(#......)", cell[1]["style"])[1]))
              for cell in sorted(rows[1][1:] + rows[2][1:], key=lambda cell: float(cell[2]))]
    assert all(a > b for a, b in zip(ground, ground[1:], strict=False))


def test_one_cell_takes_part_in_the_tab_order(rows):
    assert [cell[2] for row in rows for cell in row if cell[1].get("tabindex") == "0"] == ["0.74"]


def test_structure_that_every_viewer_keeps(html):
    cells = Cells(html)
    assert not {"caption", "thead", "style", "svg"} & set(cells.tags)
    (table,) = cells.tables
    assert table["role"] == "grid" and table["aria-label"] == "Who looks at whom?"
    assert int(re.search(r"font-size:(\d+)px", table["style"])[1]) >= 18
    assert "http" not in html and "src=" not in html
    assert '<p style="font-size:18px">Who looks at whom?</p>' in html


def test_words_and_title_are_escaped():
    evil = "<b onclick=\"x\">&'"
    html = attention_table([[1.0]], [evil], [evil], title=evil)._repr_html_()
    assert "<b" not in html
    cells = Cells(html)
    assert cells.rows[0][1][2] == cells.rows[1][0][2] == evil
    assert cells.rows[1][1][1]["title"] == f"{evil} attends to {evil}: 1.00"
    assert cells.tables[0]["aria-label"] == evil


def test_the_same_content_gives_the_same_bytes(html):
    noise = 1 + 1e-9                                       # another processor's last bits
    again = attention_table(WEIGHTS * noise, QUERIES, KEYS, title="Who looks at whom?")
    assert again._repr_html_() == html
    other = attention_table(WEIGHTS[::-1], QUERIES, KEYS, title="Who looks at whom?")._repr_html_()
    assert Cells(other).tables[0]["id"] != Cells(html).tables[0]["id"]


def test_without_a_title_it_still_has_a_name():
    table = attention_table(WEIGHTS, QUERIES, KEYS)
    assert Cells(table._repr_html_()).tables[0]["aria-label"] == "Attention weights"
    assert repr(table).startswith("query")


def test_bad_weights_are_named():
    with pytest.raises(ValueError, match=r"weights has shape \(2, 3\), but the labels call for \(3, 2\)"):
        attention_table(WEIGHTS, KEYS, QUERIES)


@pytest.mark.browser
def test_pointer_and_arrow_keys(html):
    sync_api = pytest.importorskip("playwright.sync_api")
    from chromium import find_browser

    with sync_api.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        page = chromium.new_page()
        errors = []
        page.on("console", lambda message: errors.append(message.text))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.set_content(f"<!doctype html><meta charset=utf-8>{html}{html}")   # the same table twice
        line = page.locator("p", has_text="Each row is a query").first
        line = line.element_handle()
        marked = "cells => cells.filter(cell => cell.style.boxShadow).length"

        page.locator("td[title^='ate attends to it']").first.hover()
        assert line.text_content() == "ate attends to it: 0.38"
        assert page.eval_on_selector_all("td, th", marked) == 4 + 3 - 1      # its row and its column
        page.add_script_tag(content=re.search("<script>(.*?)</script>", html, re.DOTALL)[1])
        page.mouse.move(0, 0)                    # the script that ran once more forgot nothing
        assert line.text_content() == "Each row is a query, each column a key."
        assert page.eval_on_selector_all("td, th", marked) == 0

        page.evaluate("document.addEventListener('keydown', (event) => window.seen = event.key)")
        page.keyboard.press("Tab")
        for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowUp"):
            page.keyboard.press(key)                                         # two run into an edge
        assert page.evaluate("document.activeElement.title") == "我 attends to ，: 0"
        assert line.text_content() == "我 attends to ，: 0"
        assert page.evaluate("window.seen") == "Tab"                         # no arrow left the table
        page.keyboard.press("Tab")                                           # on to the second table
        assert page.evaluate("document.activeElement.title") == "我 attends to 苹果: 0.74"
        assert errors == []
        chromium.close()

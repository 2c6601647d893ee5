"""What a browser sees of the book: nothing asked of a network, formulas drawn, words found."""

from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from deck import axe
from deck.browser import PATIENCE, Listener, fresh_page
from playwright.sync_api import TimeoutError as PlaywrightTimeout

LAPTOP, TELEPHONE = 1280, 390  # px
# A word of each language, and the page that must be among those found.
WORDS = {
    "saturation": "07_", "padding": "08_", "rotary": "10_",
    "饱和": "07_", "注意力": "01_", "线性注意力": "20_",
}  # fmt: skip
SWITCH = ".theme-switch-button"
AFTER_FORMULAS = """() => {
  const ready = () => { window.bookReady = true; };
  window.MathJax && MathJax.Hub ? MathJax.Hub.Queue(ready) : ready();
}"""
SCROLLED_CODE = """all => all.filter(code => code.scrollWidth > code.clientWidth)
  .map(code => code.innerText.trim().split("\\n")[0])"""
EACH_HAS_ITS_WORDS = """() => [...document.querySelectorAll("#search-results li")]
  .every(result => result.querySelector(".context"))"""
BARE_PICTURES = "all => all.filter(image => !image.alt.trim()).map(image => image.src)"
WIDER_THAN_WINDOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@dataclass
class Report:
    """What was seen. ``findings`` are sentences; none means that the book is clean."""

    pages: int = 0
    formulas: int = 0
    findings: list = field(default_factory=list)


class OnePage:
    """Every part of a page belongs to the page."""

    def __init__(self, name):
        self.name = name

    def of_url(self, url):
        return self.name

    of_line = of_url


def check(chromium, folder, names=None, pictures=None):
    """Open the pages ``names`` of the book in ``folder`` (all of them when left out), and search it.

    With ``pictures``, a folder that is there, each page is saved there as a PNG, in both modes.
    """
    report = Report()
    for name in names or sorted(path.name for path in folder.glob("*.html")):
        report.pages += 1
        try:
            report.findings += check_page(chromium, folder, name, report, pictures)
        except PlaywrightTimeout:
            report.findings.append(f"{name} was not drawn in {PATIENCE} s")
    for number, (word, start) in enumerate(WORDS.items()):
        try:
            report.findings += check_search(chromium, folder, word, start, colours=number == 0)
        except PlaywrightTimeout:
            report.findings.append(f"search for {word}: nothing came in {PATIENCE} s")
    return report


def check_page(chromium, folder, name, report, pictures=None):
    """Findings of one page; its formulas are counted in ``report``."""
    with _opened(chromium, folder, name) as (page, listener):
        found = formulas(page, report)
        bare = page.eval_on_selector_all("article img", BARE_PICTURES)
        found += [f"the picture {image} has no words that stand for it" for image in bare]
        if pictures:
            page.screenshot(path=pictures / f"{Path(name).stem}_light.png")
        page.eval_on_selector_all("details", "all => all.forEach(each => { each.open = true; })")
        for width in (TELEPHONE, LAPTOP):
            page.set_viewport_size({"width": width, "height": 800})
            over = page.evaluate(WIDER_THAN_WINDOW)
            found += [f"{over} px stand out of a window of {width} px"] * (over > 0)
        found += [f"the code at {line!r} is wider than its place in a window of {LAPTOP} px"
                  for line in page.eval_on_selector_all("article pre", SCROLLED_CODE)]
        found += in_the_light(page)
        found += in_the_dark(page, pictures and pictures / f"{Path(name).stem}_dark.png")
        return [f"{name}: {each}" for each in found] + listener.findings()


def formulas(page, report):
    """Count the formulas, and find those that are not drawn."""
    report.formulas += page.locator(".MathJax").count()
    undrawn = page.locator(".math.notranslate").filter(has_not=page.locator(".MathJax")).count()
    errors = page.locator(".merror, .MathJax_Error").all_inner_texts()
    return [f"{undrawn} formulas are not drawn"] * bool(undrawn) + errors


def in_the_light(page):
    return [f"light: {fault}" for _, fault in axe.faults(page)]


def in_the_dark(page, picture=None):
    """Press the page's own switch, and judge its colours again: nothing else differs."""
    if not page.locator(SWITCH).count():
        return ["there is no switch to a dark page"]
    page.locator(SWITCH).click()
    page.locator(".theme-change-button[data-mode=dark]").click()
    page.mouse.move(0, 0)  # the menu stays open below it
    if page.evaluate("document.documentElement.dataset.theme") != "dark":
        return ["the switch does not make the page dark"]
    if picture:
        page.screenshot(path=picture)
    return [f"dark: {fault}" for _, fault in axe.faults(page, only=["color-contrast"])]


def check_search(chromium, folder, word, start, colours=False):
    """Look for ``word``: it must lead to the page whose name begins so, and be shown as that page says it.

    All words lead to pages of the same colours, so that these are judged when asked for.
    """
    with _opened(chromium, folder, f"search.html?q={word}") as (page, listener):
        page.wait_for_selector("#search-results h2 + p", timeout=1000 * PATIENCE)
        page.wait_for_function("!document.querySelector('#search-progress, .search-progress')")
        with suppress(PlaywrightTimeout):
            page.wait_for_function(EACH_HAS_ITS_WORDS, timeout=10_000)
        results = page.locator("#search-results li")
        there = results.filter(has=page.locator(f"a[href*='{start}']"))
        found = []
        if not there.count():
            found = [f"search for {word}: {results.count()} pages, and {start} is not among them"]
        elif not there.locator(".context", has_text=word).count():
            found = [f"search for {word}: {start} is shown without the words around it"]
        if colours:
            found += [f"search for {word}: {fault}" for fault in in_the_light(page) + in_the_dark(page)]
        return found + listener.findings()


@contextmanager
def _opened(chromium, folder, name):
    """A page of the book in a window of its own, its formulas drawn, and who listens to it."""
    with fresh_page(chromium, LAPTOP, 800) as page:
        listener = Listener(page, folder, OnePage(name))
        listener.place = name
        page.goto(f"{folder.resolve().as_uri()}/{name}")
        # Colours fade from one to the next; they are judged where they come to rest.
        page.add_style_tag(content="* { transition: none !important; animation: none !important }")
        page.evaluate(AFTER_FORMULAS)
        page.wait_for_function("window.bookReady", timeout=1000 * PATIENCE)
        yield page, listener

"""What a browser sees of the book: nothing asked of a network, formulas drawn, words found."""

from contextlib import contextmanager
from dataclasses import dataclass, field

from deck import axe
from deck.browser import PATIENCE, Listener, fresh_page

WIDTHS = (1280, 390)  # a laptop's and a telephone's
MODES = ("light", "dark")
# A word of each language, and the page that must be among those found.
WORDS = {
    "saturation": "07_", "padding": "08_", "rotary": "10_",
    "饱和": "07_", "注意力": "01_", "线性注意力": "20_",
}  # fmt: skip
AFTER_FORMULAS = """() => {
  const ready = () => { window.bookReady = true; };
  window.MathJax && MathJax.Hub ? MathJax.Hub.Queue(ready) : ready();
}"""
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

    With ``pictures``, a folder, each page is saved there as a PNG, in both modes.
    """
    report = Report()
    for name in names or sorted(path.name for path in folder.glob("*.html")):
        report.pages += 1
        for mode in MODES:
            report.findings += check_page(chromium, folder, name, mode, report, pictures)
    report.findings += check_search(chromium, folder)
    return report


def check_page(chromium, folder, name, mode, report, pictures=None):
    """Findings of one page in one mode; its formulas are counted in ``report``."""
    with _opened(chromium, folder, name, mode) as (page, listener):
        found = []
        if mode == MODES[0]:
            report.formulas += page.locator(".MathJax").count()
            undrawn = page.locator(".math.notranslate").filter(has_not=page.locator(".MathJax")).count()
            found += [f"{name}: {undrawn} formulas are not drawn"] * bool(undrawn)
            errors = page.locator(".merror, .MathJax_Error").all_inner_texts()
            found += [f"{name}: {error}" for error in errors]
            bare = page.eval_on_selector_all("article img", BARE_PICTURES)
            found += [f"{name}: the picture {image} has no words that stand for it" for image in bare]
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            over = page.evaluate(WIDER_THAN_WINDOW)
            found += [f"{name}: {over} px stand out of a window of {width} px"] * (over > 0)
        page.set_viewport_size({"width": WIDTHS[0], "height": 800})
        if pictures:
            pictures.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=pictures / f"{name.removesuffix('.html')}_{mode}.png")
        found += [f"{name}, {mode}: {fault}" for _, fault in axe.faults(page)]
        return found + listener.findings()


def check_search(chromium, folder):
    """Look for each of `WORDS`, and name those that do not lead to their page."""
    found = []
    for word, start in WORDS.items():
        with _opened(chromium, folder, f"search.html?q={word}", MODES[0]) as (page, listener):
            page.wait_for_selector("#search-results h2 + p", timeout=1000 * PATIENCE)
            page.wait_for_function("!document.querySelector('#search-progress, .search-progress')")
            links = page.eval_on_selector_all("#search-results li a", "all => all.map(a => a.href)")
            if not any(f"/{start}" in link for link in links):
                found.append(f"search for {word}: {len(links)} pages, and {start} is not among them")
            found += listener.findings()
    return found


@contextmanager
def _opened(chromium, folder, name, mode):
    """A page of the book in a window of its own, its formulas drawn, and who listens to it."""
    with fresh_page(chromium, mode=mode) as page:
        listener = Listener(page, folder, OnePage(name))
        listener.place = name
        page.goto(f"{folder.resolve().as_uri()}/{name}")
        page.evaluate(AFTER_FORMULAS)
        page.wait_for_function("window.bookReady", timeout=1000 * PATIENCE)
        yield page, listener

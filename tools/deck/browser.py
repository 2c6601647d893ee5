"""What needs Chromium: the PDF of a deck, and the check of every state it can show."""

import html
import re
from bisect import bisect
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from chromium import browser_command, find_browser  # noqa: F401  tools that launch it ask here where it is
from deck import axe
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from playwright.sync_api import sync_playwright

WIDTH, HEIGHT = 1280, 720
HALLS = ((WIDTH, HEIGHT), (1024, 768))    # what projectors show
SMALLEST_TEXT = 18                 # px on a 1280x720 slide
PATIENCE = 60                        # s for a busy machine to open a deck
MEASURE = (Path(__file__).parent / "measure.js").read_text(encoding="utf-8")

class NotStarted(Exception):
    """A browser was found, and no page of it came."""


class NotOpened(Exception):
    """The page loaded, but its slides never came."""


@contextmanager
def launched(path):
    """Chromium at `path`, closed at the end of the block. Raises NotStarted."""
    with sync_playwright() as playwright:
        try:
            chromium = playwright.chromium.launch(
                executable_path=path,
                # In a container, and as root, there is no sandbox. The pages are our own files.
                args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        except PlaywrightError as error:
            raise NotStarted(f"{path} was found as a browser and did not start "
                             f"({error.message.splitlines()[0]}). Start it by hand to see why; to bring "
                             f"another: {browser_command()}") from None
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def fresh_page(chromium, width=WIDTH, height=HEIGHT):
    view = {"width": width, "height": height}
    context = chromium.new_context(viewport=view, offline=True)
    context.set_default_timeout(1000 * PATIENCE)
    try:
        yield context.new_page()
    finally:
        context.close()


def open_deck(page, folder, query=""):
    page.goto((folder / "index.html").resolve().as_uri() + query)
    try:
        page.wait_for_selector("html[data-deck=ready]", state="attached")
    except PlaywrightTimeout:
        raise NotOpened(f"{folder.name} did not open in {PATIENCE} s") from None


def print_pdf(chromium, folder, target):
    """One page a slide, all fragments shown."""
    with fresh_page(chromium) as page:
        open_deck(page, folder, "?print-pdf")
        page.wait_for_selector(".pdf-page")
        page.pdf(path=target, prefer_css_page_size=True, print_background=True)


@dataclass
class Report:
    """What the check saw. `findings` are sentences; none means that the deck is clean."""

    slides: int = 0
    steps: int = 0
    formulas: int = 0
    findings: list = field(default_factory=list)


def check(chromium, folder, pictures=None, halls=HALLS):
    """Step through each slide and fragment of the deck in `folder`, as each hall shows it, without a network.

    With `pictures`, a folder, each state is saved there as a PNG, as the first hall sees it.
    """
    report = _check(chromium, folder, halls[0], pictures)
    for width, height in halls[1:]:
        other = _check(chromium, folder, (width, height))
        report.findings += [f"at {width}x{height}, {finding}" for finding in other.findings
                            if finding not in report.findings]  # fmt: skip
    return report


def _check(chromium, folder, hall, pictures=None):
    report = Report()
    places = Places((folder / "index.html").read_text(encoding="utf-8"))
    smallest = SMALLEST_TEXT * min(hall[0] / WIDTH, hall[1] / HEIGHT)  # a deck is scaled as a whole
    with fresh_page(chromium, *hall) as page:
        listener = Listener(page, folder, places)
        try:
            open_deck(page, folder)
        except NotOpened as error:
            report.findings = [*listener.findings(), str(error)]
            return report
        # Fragments fade in; measure them where they come to rest.
        page.add_style_tag(content="* { transition: none !important; animation: none !important }")
        report.slides = page.evaluate("Reveal.getTotalSlides()")
        report.formulas = page.locator("section script[type^='math/tex']").count()
        report.findings += [f"the font {name} is not there" for name in page.evaluate(ABSENT_FONTS)]
        last = False
        while not last:
            report.steps += 1
            state = page.evaluate(STATE)
            last = state["last"]
            listener.place = places.of_number(state["number"])
            if pictures:
                name = f"{report.steps:03}-slide-{state['number']:02}.png"
                page.screenshot(path=pictures / name)
            for finding in page.evaluate(MEASURE, smallest):
                report.findings.append(f"{listener.place}: {finding}")
            page.evaluate("Reveal.next()")
        report.findings = unique(report.findings + listener.findings())
    return report


def check_readers(chromium, folder):
    """What axe-core finds: on all slides at once, as the PDF shows them, and on the page with its buttons.

    axe passes over what is hidden. A run on each slide as it is shown takes five times as long as these two.
    """
    places = Places((folder / "index.html").read_text(encoding="utf-8"))
    found = []
    for query in ("?print-pdf", ""):
        with fresh_page(chromium) as page:
            try:
                open_deck(page, folder, query)
            except NotOpened:
                return []          # said already
            page.evaluate(SHOWN_TO_ALL)

            def place_of(selector, page=page):
                number = page.eval_on_selector(selector, SLIDE_OF)
                return places.of_number(int(number)) if number else "deck"

            found += [f"{place}: {fault}" for place, fault in axe.faults(page, place_of)]
    return unique(found)


# The PDF's view keeps all slides but one from screen readers; a deck in use only those that are not shown.
SHOWN_TO_ALL = """document.querySelectorAll(".pdf-page section[aria-hidden]")
  .forEach((slide) => { slide.removeAttribute("aria-hidden"); slide.hidden = false; })"""

SLIDE_OF = "element => element.closest('[data-number]')?.dataset.number"

# A font that did not load is replaced without a word, by one of other widths.
ABSENT_FONTS = """() => [...document.fonts]
  .filter((font) => font.family.includes("Deck") && font.status !== "loaded")
  .map((font) => `${font.family} ${font.style} ${font.weight}`)"""

STATE = """() => ({
  number: Number(Reveal.getCurrentSlide().dataset.number),
  last: Reveal.isLastSlide() && !Reveal.availableFragments().next,
})"""


def unique(findings):
    """A fault that stays in view through three fragments is one finding."""
    return list(dict.fromkeys(findings))


class Places:
    """Names the slide ("slide 4 (Why the square root)") that a part of the page belongs to."""

    def __init__(self, text):
        self.text = text
        self.starts = []
        self.names = []
        for found in re.finditer(r'<section data-number="(\d+)".*?(?=<section|</section>)', text, re.S):
            heading = re.search(r"<h[1-3][^>]*>(.*?)</h[1-3]>", found[0], re.S)
            title = html.unescape(re.sub(r"<[^>]*>", "", heading[1])).strip() if heading else ""
            self.starts.append(found.start())
            self.names.append(f"slide {found[1]}" + (f" ({title})" if title else ""))

    def of_number(self, number):
        return self.names[number - 1]

    def of_offset(self, offset):
        index = bisect(self.starts, offset)
        return self.names[index - 1] if index else "deck"

    def of_line(self, line):
        """The slide of a line of the page, counted from 0."""
        lines = self.text.split("\n")
        return self.of_offset(sum(len(text) + 1 for text in lines[:line]))

    def of_url(self, url):
        """The slide that refers to an address, in full or by the name at its end."""
        written = (url, html.escape(url), url.rpartition("/")[2])
        return self.of_offset(next((self.text.find(u) for u in written if u in self.text), -1))


class Listener:
    """Collects what goes wrong beside the slides: blocked requests, errors of scripts."""

    def __init__(self, page, folder, places):
        self.folder = folder.resolve()
        self.places = places
        self.place = "deck"
        self.blocked = []
        self.errors = []
        page.route("**/*", self.on_request)
        page.on("console", self.on_console)
        # Playwright's own event for this does not say where a syntax error is.
        session = page.context.new_cdp_session(page)
        session.on("Runtime.exceptionThrown", self.on_exception)
        session.send("Runtime.enable")

    def on_request(self, route):
        url = route.request.url
        parts = urlsplit(url)
        if parts.scheme == "file" and Path(url2pathname(parts.path)).is_relative_to(self.folder):
            route.continue_()
        else:
            self.blocked.append(url)
            route.abort()

    def on_console(self, message):
        if message.type == "error":
            where = message.location
            self.errors.append((self.place_of(where["url"], where["lineNumber"]), where["url"],
                                f"error in the console: {message.text}"))

    def on_exception(self, event):
        details = event["exceptionDetails"]
        text = details.get("exception", {}).get("description", details["text"]).splitlines()[0]
        self.errors.append((self.place_of(details.get("url"), details["lineNumber"]), "",
                            f"error in a script: {text}"))

    def place_of(self, url, line):
        in_page = url and url.partition("#")[0].endswith("/index.html")
        return self.places.of_line(line) if in_page else self.place

    def findings(self):
        blocked = [f"{self.places.of_url(url)}: asks for {url}, which is not in the deck"
                   for url in self.blocked]
        # The browser also complains of each blocked request; once is enough.
        errors = [f"{place}: {text}" + (f" ({url})" if "Failed to load" in text else "")
                  for place, url, text in self.errors if url not in self.blocked]
        return blocked + errors

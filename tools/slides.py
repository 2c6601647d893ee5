"""Build the offline deck of lessons or of a lecture: slides/01_lookup_to_attention/index.html and a PDF.

python tools/slides.py [NN or LECTURE.toml ...] [--check] [--pictures DIR]
"""

import argparse
import sys
from contextlib import nullcontext
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(arguments=None):
    """Returns the exit status, or a sentence that says why nothing could be built."""
    options = parsed(arguments)
    try:
        from deck import browser, lecture, page
    except ModuleNotFoundError as error:
        return (f"{error.name} is not installed. `python3 course.py slides` installs it, and so "
                "does `pip install -e .[slides]`.")
    path = browser.find_browser()
    if options.check and not path:
        return "--check needs Chromium or Chrome, and neither was found: install chromium."
    try:
        paths = list(dict.fromkeys(sources(options.lessons)))
        refuse_twins(paths)
        if options.pictures:
            options.pictures.mkdir(parents=True, exist_ok=True)
        decks = [build(page, lecture, path) for path in paths]
    except (LookupError, page.DeckError) as error:
        return str(error)
    except OSError as error:
        return f"The deck could not be written: {error}"
    try:
        with browser.launched(path) if path else nullcontext() as chromium:
            findings = [finish(browser, chromium, deck, options) for deck in decks]
    except browser.NotStarted as error:
        return f"The decks were built, without a PDF: {error}"
    if not path:
        print("no PDF: it needs Chromium or Chrome, and neither was found; install chromium")
    return 1 if any(findings) else 0


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="course.py slides", description="Build offline decks.")
    parser.add_argument("lessons", nargs="*", metavar="NN", help="lesson numbers, or a lecture's file of "
                        "slides (docs/lectures); all when none is given")
    parser.add_argument("--check", action="store_true", help="step through every slide in Chromium")
    parser.add_argument("--pictures", type=Path, metavar="DIR",
                        help="check, and save a PNG of every state in DIR")
    options = parser.parse_args(arguments)
    options.check = options.check or options.pictures is not None
    return options


def sources(asked):
    """The files of the lessons and lectures that are asked for; of all when none is."""
    import lesson

    if not asked:
        return [*lesson.find(folder=ROOT / "notebooks"), *sorted((ROOT / "docs" / "lectures").glob("*.toml"))]
    found = []
    for name in asked:
        found += [Path(name)] if name.endswith(".toml") else lesson.find([name], ROOT / "notebooks")
    return found


def refuse_twins(paths):
    """Each deck has a folder of its own in slides/, by the name of its file."""
    names = [path.stem for path in paths]
    for name in names:
        if not name.strip("."):
            raise LookupError(f"A lecture cannot be called {name!r}; give its file another name.")
        if names.count(name) > 1:
            raise LookupError(f"Two of these are called {name!r}, and their decks would have one folder; "
                              "give one of the files another name.")  # fmt: skip


def build(page, lecture, path):
    notebook = lecture.composed(path) if path.suffix == ".toml" else page.read(path)
    deck = page.write_deck(notebook, path, ROOT / "slides" / path.stem)
    print(f"{deck.folder / 'index.html'}: {deck.slides} slides, {deck.fit}; "
          "press S for the speaker's window")
    return deck


def finish(browser, chromium, deck, options):
    """Print the PDF, where there is a browser, and if asked, check the deck. Returns what is wrong."""
    name = deck.folder.name
    pdf = deck.folder / f"{name}.pdf"
    wrong = []
    try:
        pdf.unlink(missing_ok=True)     # of an earlier deck
        if chromium:
            browser.print_pdf(chromium, deck.folder, pdf)
            print(pdf)
    except browser.NotOpened as error:
        wrong = [f"no PDF: {error}; --check says more"]
    except OSError as error:
        wrong = [f"no PDF: {error}; close it where it is open, and run this again"]
    for sentence in wrong:
        print(sentence)
    if not options.check:
        return wrong
    report = browser.check(chromium, deck.folder, options.pictures and options.pictures / name)
    report.findings += browser.check_readers(chromium, deck.folder)
    summary = (f"{name[:2] if name[:2].isdigit() else name}: {report.slides} slides, {report.steps} steps, "
               f"{report.formulas} formulas")
    if report.findings:
        print("\n  ".join([f"{summary}, {len(report.findings)} findings:", *report.findings]))
    else:
        halls = " or ".join(f"{width}x{height}" for width, height in browser.HALLS)
        print(f"{summary}, nothing outside {halls}, no serious fault by axe")
    return wrong + report.findings


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")    # a Windows console may not know the lesson's words
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Stopped. What was named is whole.")

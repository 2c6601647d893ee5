"""Build the book from the committed notebooks: site/index.html opens without a network or a kernel.

python tools/make_book.py [--check] [--pictures DIR]
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from in_place import put_in_place

ROOT = Path(__file__).resolve().parent.parent
BOOK = ROOT / "tools" / "book"


def main(arguments=None):
    """Returns the exit status, or a sentence that says why nothing could be built."""
    options = parsed(arguments)
    try:
        import lesson
        from book import check, pages
        from deck import browser
        from sphinx.application import Sphinx
    except ModuleNotFoundError as error:
        return (f"{error.name} is not installed. `python3 course.py site` installs it, and so "
                "does `pip install -e .[site]`.")
    chromium = browser.find_browser() if options.check else None
    if options.check and not chromium:
        return "--check needs Chromium or Chrome, and neither was found: install chromium."
    try:
        if options.pictures:
            options.pictures.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return f"--pictures needs a folder, and {options.pictures} cannot be one: {error}"
    try:
        lessons = build(pages, Sphinx, lesson.lesson_paths(), ROOT / "site")
    except ValueError as error:
        return f"The book was not built: {error}."
    except OSError as error:
        return f"The book could not be written: {error}"
    if lessons is None:
        return "The book has faults: they stand above. site/ holds what could be made."
    print(f"{ROOT / 'site' / 'index.html'}: {len(lessons)} lessons")
    try:
        return 1 if options.check and checked(check, browser, chromium, options.pictures) else 0
    except browser.NotStarted as error:
        return f"The book was built, and not checked: {error}"


def checked(check, browser, path, pictures):
    """Print what the browser found, and return it."""
    with browser.launched(path) as chromium:
        report = check.check(chromium, ROOT / "site", pictures=pictures)
    summary = f"{report.pages} pages, {report.formulas} formulas"
    if report.findings:
        print("\n  ".join([f"{summary}, {len(report.findings)} findings:", *report.findings]))
    else:
        print(f"{summary}, nothing found")
    return report.findings


def parsed(arguments):
    parser = argparse.ArgumentParser(prog="course.py site", description="Build the book, in site/.")
    parser.add_argument("--check", action="store_true", help="open every page in Chromium, without a network")
    parser.add_argument("--pictures", type=Path, metavar="DIR",
                        help="check, and save a PNG of every page in DIR")
    options = parser.parse_args(arguments)
    options.check = options.check or options.pictures is not None
    return options


def build(pages, Sphinx, paths, folder):
    """The book in ``folder``, replacing an earlier one. The lessons' pages, or None where Sphinx warned."""
    # Beside it, so that a book gets its name in one step and is never half there.
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as scratch:
        source, new = Path(scratch, "source"), Path(scratch, "site")
        source.mkdir()
        lessons = pages.write_source(source, paths)
        app = Sphinx(source, BOOK, new, Path(scratch, "doctrees"), "html", status=None, freshenv=True)
        app.build()
        for page in lessons:  # what a reader downloads is the lesson as it is committed
            target = new / "_sources" / page.lesson.path.name
            shutil.copyfile(page.lesson.path, target)
            pages.write_as_script(target)
        pages.copy_parts(new / "_static")
        put_in_place((new, folder))
    return None if app._warncount else lessons


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")    # a Windows console may not know the lesson's words
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("Stopped.")

"""From a notebook to a folder that opens without a network: index.html and its lib/.

Nothing is executed: the deck shows the outputs stored in the notebook.
"""

import base64
import html
import importlib.metadata
import mimetypes
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from urllib.parse import unquote

import lesson
import nbformat
from deck import slots
from in_place import put_in_place, remove
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import InvalidNotebook, IPythonRenderer, MarkdownWithMath
from traitlets.config import Config

HERE = Path(__file__).resolve().parent
CHINESE = HERE.parents[1] / "attnlib" / "plots" / "fonts"

# Wheel, folder inside it, where that goes in lib/, and the files or folders taken from it.
# MathJax is 11 MB with its languages, menus and voices; the deck loads from these 2.5 MB.
PARTS = (
    ("sphinx-revealjs", "sphinx_revealjs/_static/revealjs", "reveal", {
        "LICENSE": "LICENSE",
        "dist/reveal.js": "reveal.js",
        "dist/reveal.css": "reveal.css",
        "plugin/notes/notes.js": "notes.js",
        **{f"dist/theme/fonts/source-sans-pro/{name}": f"fonts/{name}" for name in (
            "LICENSE",
            "source-sans-pro-regular.woff",
            "source-sans-pro-italic.woff",
            "source-sans-pro-semibold.woff",
            "source-sans-pro-semibolditalic.woff",
        )},
    }),
    ("matplotlib", "matplotlib/mpl-data/fonts/ttf", "dejavu", {
        name: name for name in (
            "LICENSE_DEJAVU",
            "DejaVuSansMono.ttf",
            "DejaVuSansMono-Bold.ttf",
            "DejaVuSansMono-Oblique.ttf",
        )
    }),
    ("jupyter-server-mathjax", "jupyter_server_mathjax/static", "mathjax", {
        name: name for name in (
            "LICENSE",
            "MathJax.js",
            "config/TeX-AMS-MML_HTMLorMML-full.js",
            "extensions/TeX",
            "fonts/HTML-CSS",
            "jax/element",
            "jax/output/HTML-CSS",
        )
    }),
)


class DeckError(Exception):
    """A sentence for the user: what is wrong and what to do."""


@dataclass
class Deck:
    """What was built. `minutes` is the sum of the notes' minutes; `fit` tells it against slots, in words."""

    folder: Path
    slides: int
    minutes: int
    fit: str


@dataclass
class Slide:
    """One page of the deck: its visible cells, then what the speaker reads."""

    cells: list
    notes: list
    opens_column: bool

    @property
    def minutes(self):
        return sum(lesson.minutes(note) or 0 for note in self.notes)


def read(notebook):
    """The notebook at a path."""
    try:
        return lesson.read(notebook).notebook
    except ValueError as error:
        raise DeckError(f"{error}.") from error


def write_deck(nb, path, folder):
    """Build the deck of a notebook in `folder`, replacing an earlier build; `path` is where it was read."""
    slides = slides_of(nb.cells)
    if not slides:
        raise DeckError(f"{path.name} has no cell marked as a slide: set "
                        'metadata.slideshow.slide_type to "slide" where each slide begins.')
    title = title_of(slides) or path.stem
    nb.cells = arranged(slides, title)
    text = exported(nb, title, path)
    folder.mkdir(parents=True, exist_ok=True)
    # All of it whole and then renamed, so that a deck that was stopped on its way opens as it was.
    lib, page = folder / "lib.new", folder / "index.html.new"
    try:
        remove(lib)     # of a run that was killed
        copy_parts(lib)
        page.write_text(text, encoding="utf-8", newline="\n")
        put_in_place((lib, folder / "lib"), (page, folder / "index.html"))
    finally:
        with suppress(OSError):
            remove(lib)
            remove(page)
    with suppress(OSError):     # of an earlier deck; slides.py names it where it is in use
        (folder / f"{folder.name}.pdf").unlink(missing_ok=True)
    minutes = shared_minutes(slides)
    return Deck(folder, len(slides), int(sum(minutes)), slots.fit(minutes, opens(slides), names_of(slides)))


# Cells to slides

def slides_of(cells):
    """The slides, in order. What stands before the first marked slide is left out."""
    slides = []
    for cell in cells:
        kind = lesson.slide_type(cell)
        if kind in ("slide", "subslide"):
            slides.append(Slide([], [], opens_column=kind == "slide" or not slides))
        if not slides or kind == "skip":
            continue
        (slides[-1].notes if kind == "notes" else slides[-1].cells).append(cell)
    return slides


def heading(slide):
    """The first heading on a slide, as it is written, or None."""
    texts = (cell.source for cell in slide.cells if cell.cell_type == "markdown")
    found = next(filter(None, (re.search(r"^#{1,4} +(.+?) *$", text, re.M) for text in texts)), None)
    return found and found[1]


def opens(slides):
    """Whether each slide begins something: the others go on with what the last heading says."""
    return [heading(slide) is not None for slide in slides]


def shared_minutes(slides):
    """The minutes of each slide; those that go on without a note of minutes share those of the one before."""
    runs = []
    for slide in slides:
        if runs and not slide.minutes and heading(slide) is None:
            runs[-1].append(slide)
        else:
            runs.append([slide])
    return [Fraction(run[0].minutes, len(run)) for run in runs for _ in run]


def names_of(slides):
    """ "slide 4 (Why the square root)" for each; a slide without a heading goes on with the last one."""
    names, last = [], None
    for number, slide in enumerate(slides, start=1):
        last = heading(slide) or last
        names.append(f"slide {number}" + (f" ({last})" if last else ""))
    return names


def title_of(slides):
    """The first `# heading` of the deck, as plain text."""
    for slide in slides:
        for cell in slide.cells:
            found = cell.cell_type == "markdown" and re.search(r"^# +(.+?) *#*$", cell.source, re.M)
            if found:
                return re.sub(r"[*`_$]", "", found[1])
    return None


def arranged(slides, title):
    """The cells in the order of the page, each with the markup around it in metadata.deck.

    A slide is <section>, inside the <section> of its column: the last heading if it has none of its own,
    content with fragments, then the footer, then the speaker's notes, the clock first.
    """
    cells = []
    minutes = shared_minutes(slides)
    total = int(sum(minutes))
    ends = slots.ends(minutes, opens(slides))
    begins, headed = [round(end) for end in accumulate(minutes, initial=0)], ""
    for number, slide in enumerate(slides, start=1):
        elapsed = begins[number - 1]
        last_of_column = number == len(slides) or slides[number].opens_column
        opening = ("<section>\n" if slide.opens_column else "") + (
            f'<section data-number="{number}" data-timing="{round(60 * minutes[number - 1])}">')
        clock = f"{elapsed} of {total} min" if total else ""
        told = slots.left(elapsed, total) if total else ""
        if over := " and ".join(str(slot) for slot, last in ends.items() if last == number):
            clock += f" <b>· {over} end here</b>"
            told += f" The {over} minutes end with this slide."
        footer = (f'</div>\n<footer><span>{html.escape(title)}</span><span>{clock}</span>'
                  f"<span>{number} / {len(slides)}</span></footer>")
        if told:
            footer += f'\n<aside class="notes"><p><b>{told}</b></p></aside>'
        closing = "</section>" + ("\n</section>" if last_of_column else "")
        wrap_fragments(slide.cells)
        for note in slide.notes:
            stated = lesson.minutes(note)
            mark(note, f'<aside class="notes" data-minutes="{"" if stated is None else stated}">',
                 "</aside>", role="notes")
        page = slide.cells + slide.notes
        page[0].metadata.deck.opening = opening
        page[0].metadata.deck.running = "" if heading(slide) else headed
        page[0].metadata.deck.before = '<div class="content">\n' + page[0].metadata.deck.before
        headed = heading(slide) or headed
        slide.cells[-1].metadata.deck.after += footer
        page[-1].metadata.deck.after += closing
        cells += page
    return cells


def wrap_fragments(cells):
    """A fragment reaches from its mark to the next fragment or the slide's end."""
    inside = False
    for cell in cells:
        mark(cell, "", "")
        if lesson.slide_type(cell) == "fragment":
            cell.metadata.deck.before = ("</div>\n" if inside else "") + '<div class="fragment">'
            inside = True
    if inside:
        cells[-1].metadata.deck.after = "</div>"


def mark(cell, before, after, role="content"):
    cell.metadata["deck"] = nbformat.from_dict({
        "opening": "", "running": "", "before": before, "after": after, "role": role})


# Slides to HTML

class PicturesRenderer(IPythonRenderer):
    """Markdown whose pictures are taken into the page, each from the first of `folders` that has it."""

    def __init__(self, folders, name, **settings):
        super().__init__(embed_images=True, **settings)
        self.folders, self.name = folders, name

    def _src_to_base64(self, src):
        if re.match(r"[A-Za-z][\w+.-]+:|//", src):
            return None         # an address of the web, or a picture that is in the page already
        for file in (Path(folder, unquote(src)) for folder in self.folders):
            if file.is_file():
                kind = mimetypes.guess_type(file.name)[0] or "image/png"
                return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"
        raise DeckError(f"{self.name}: there is no picture {unquote(src)} in {' or in '.join(self.folders)}; "
                        "put it there, or mend its name.")  # fmt: skip


    def _embed_image_or_attachment(self, src):
        try:
            return super()._embed_image_or_attachment(unquote(src) if src.startswith("attachment:") else src)
        except InvalidNotebook as error:
            raise DeckError(f"{self.name}: {error}. Attach it, or lay a picture beside the file.") from None


class Renderer(PicturesRenderer):
    """Markdown whose formulas are MathJax's own elements.

    MathJax then typesets what Markdown recognised as a formula and never guesses at a
    dollar sign in the prose.
    """

    def inline_math(self, body):
        return f'<script type="math/tex">{body}</script>'

    def block_math(self, body):
        return f'<script type="math/tex; mode=display">{body}</script>'

    def latex_environment(self, name, body):
        return self.block_math(f"\\begin{{{name}}}{body}\\end{{{name}}}")


class LettersRenderer(PicturesRenderer):
    """Markdown whose short formulas are letters, for a small line and for a window without MathJax."""

    SIGNS = {"cdot": "· ", "ln": "ln ", "sqrt": "√", "top": "T", "pi": "π", "gamma": "γ", "Delta": "Δ",
             "sigma": "σ"}  # fmt: skip

    def inline_math(self, body):
        text = re.sub(r"\\([A-Za-z]+) ?", lambda found: self.SIGNS.get(found[1], found[0]), body)
        if "\\" in text:
            return f"${html.escape(body)}$"
        raised = re.sub(r"\^(?:\{([^{}]*)\}|(\w))", r"<sup>\1\2</sup>", html.escape(text))
        return raised.replace("{", "").replace("}", "")


class Exporter(HTMLExporter):
    """nbconvert's HTML with this folder's template."""

    @pass_context
    def markdown2html(self, context, source):
        return rendered(Renderer, context, source)

    @pass_context
    def letters2html(self, context, source):
        return rendered(LettersRenderer, context, source)

    def default_filters(self):
        yield from super().default_filters()
        yield "letters2html", self.letters2html
        yield "about_picture", about_picture
        yield "one_blank_line", lambda source: re.sub(r"\n{3,}", "\n\n", source)
        yield "one_line", lambda data: data.replace("\n", "")
        yield "text_base64", lambda text: base64.b64encode(text.encode("utf-8")).decode("ascii")


def rendered(renderer, context, source):
    cell, of_deck = context["cell"], context["resources"]["metadata"]
    own = cell.metadata.get("folder")       # where the lecture is whose own slide this is
    return MarkdownWithMath(renderer=renderer(
        [own, of_deck["path"]] if own else [of_deck["path"]],
        of_deck["name"],
        escape=False,
        exclude_anchor_links=True,
        attachments=cell.get("attachments", {}),
    )).render(source)


def about_picture(output, mimetype):
    """The words and, where it is stored, the width of a picture, as attributes."""
    about = output.metadata.get(mimetype, {})
    width = f' width="{about["width"]}"' if "width" in about else ""
    return f'alt="{html.escape(about.get("alt", ""))}"{width}'


def exported(nb, title, path):
    """The page of an arranged notebook that was read at `path`, as text."""
    folder = lesson.NOTEBOOKS if path.suffix == ".toml" else path.parent    # of the lessons' pictures
    # No widgets and no scripts: they need a kernel, and each has a still output beside it.
    shown = ["text/html", "text/markdown", "image/svg+xml", "text/latex",
             "image/png", "image/jpeg", "text/plain"]
    exporter = Exporter(
        template_name=HERE.name,
        extra_template_basedirs=[str(HERE.parent)],
        config=Config({"NbConvertBase": {"display_data_priority": shown}}),
    )
    text, _ = exporter.from_notebook_node(
        nb, resources={"deck": {"title": title}, "metadata": {"name": path.name, "path": str(folder)}})
    return text


# The scripts beside the page

def copy_parts(lib):
    copy_wheels(lib)
    for name in ("deck.css", "deck.js"):
        copy(HERE / name, lib / name)


def copy_wheels(lib, wanted=lambda name, target: True):
    """The `PARTS` of which ``wanted(name, target)`` holds, and the Chinese font."""
    for wheel, inside, name, files in PARTS:
        source = wheel_folder(wheel, inside)
        for file, target in files.items():
            if wanted(name, target):
                copy(source / file, lib / name / target)
    for name in ("AttnSansSC-Regular.ttf", "OFL.txt"):
        copy(CHINESE / name, lib / "chinese" / name)


def wheel_folder(wheel, inside):
    """A folder of an installed wheel, found without importing the package."""
    try:
        distribution = importlib.metadata.distribution(wheel)
    except importlib.metadata.PackageNotFoundError:
        raise DeckError(f"{wheel} is not installed. `python3 course.py slides` installs it, and "
                        "so does `pip install -e .[slides]`.") from None
    return Path(distribution.locate_file(inside))


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)

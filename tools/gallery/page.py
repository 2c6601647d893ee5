"""The page that shows all figures of a folder, each with its lesson, its words and its files."""

import itertools
from pathlib import Path

from jinja2 import Environment, FileSystemLoader
from PIL import Image, UnidentifiedImageError


def write(folder, lost=0, commands=()):
    """Write index.html beside the figures, from what each PNG says of itself. How many there are.

    ``lost`` figures are not in the folder; the commands draw them.
    """
    figures = [read(path) for path in sorted(folder.glob("[0-9][0-9]_[0-9][0-9]*.png"))]
    figures = [figure for figure in figures if figure]
    lessons = [(heading, list(group)) for heading, group in itertools.groupby(figures, lambda f: f["lesson"])]
    # Blocks leave no lines of their own, and texts cannot become markup.
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True,
                        trim_blocks=True, lstrip_blocks=True)  # fmt: skip
    text = pages.get_template("index.html.j2").render(lessons=lessons, count=len(figures), lost=lost,
                                                      commands=commands)  # fmt: skip
    part = folder / ".index.html.part"
    part.write_text(text, encoding="utf-8")
    part.replace(folder / "index.html")
    return len(figures)


def read(path):
    """What a PNG says of itself, and how large it and its SVG are, which the user may have moved elsewhere.
    None for a picture of the user's own."""
    try:
        with Image.open(path) as image:
            about, (width, height) = image.info, image.size
    except UnidentifiedImageError:
        return None
    if "Lesson" not in about:
        return None
    return {"name": path.stem, "lesson": about["Lesson"], "title": about["Title"] or path.stem,
            "words": about["Description"], "credit": about["Credit"], "width": width, "height": height,
            "bytes": {file.suffix[1:]: file.stat().st_size
                      for file in (path.with_suffix(".svg"), path) if file.exists()}}  # fmt: skip

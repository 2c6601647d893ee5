"""A figure as SVG and as PNG, each with its title, its words and its licence inside."""

import io
import re
from xml.sax.saxutils import escape

import matplotlib
from matplotlib.colors import to_rgb

from attnlib.plots.style import DPI, use_style

AUTHORS = "The attnlib authors"
RIGHTS = f"{AUTHORS}, CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/)."
PHOTOGRAPHS = (
    "The photographs are under CC BY 2.0 (https://creativecommons.org/licenses/by/2.0/): china by "
    "danielbuechele (www.flickr.com/photos/danielbuechele/6061409035), flower from "
    "www.flickr.com/photos/vultilion/6056698931. "
    "They were scaled down; the words of the figure say what else was done to them."
)
CELLS = 10_000  # more than a map has, whose cells may be given as colours too
SCALE = 2  # for each of the page's pixels: 2000 across, for a projector or a poster


def title(fig):
    """The question that the figure answers, as plain text; empty where it has none."""
    titles = [fig.get_suptitle(), *(ax.get_title() for ax in fig.axes)]
    return " ".join(next(filter(None, titles), "").split())


def credit(fig):
    """Whose the photographs are that it shows; empty where it shows none."""
    shapes = [image.get_array().shape for ax in fig.axes for image in ax.images]
    return PHOTOGRAPHS if any(len(shape) == 3 and shape[0] * shape[1] > CELLS for shape in shapes) else ""


def svg(fig, words, lesson):
    """The figure as SVG: letters as outlines, so that Chinese shows anywhere; the same bytes every time."""
    about = {"Title": title(fig) or lesson, "Description": words, "Creator": AUTHORS, "Source": lesson,
             "Rights": " ".join([RIGHTS, credit(fig)]).strip(), "Date": None}  # fmt: skip
    drawn = _saved(fig, format="svg", metadata=about).decode("utf-8")
    # Matplotlib writes the words as metadata, which a screen reader passes over.
    drawn = drawn.replace("</title>", f"</title>\n <desc>{escape(words)}</desc>", 1)
    return re.sub(r"<svg ", '<svg role="img" ', drawn, count=1).encode("utf-8")


def png(fig, words, lesson):
    """The figure as PNG in all its colours, larger than the notebook's."""
    about = {"Title": title(fig), "Description": words, "Author": AUTHORS, "Copyright": RIGHTS,
             "Lesson": lesson, "Credit": credit(fig), "Software": None}  # fmt: skip
    return _saved(fig, format="png", dpi=SCALE * DPI, metadata=about)


def _saved(fig, **how):
    saved = io.BytesIO()
    with use_style(), matplotlib.rc_context({"svg.hashsalt": "attnlib"}):     # else its names are random
        fig.savefig(saved, facecolor=to_rgb(fig.get_facecolor()), **how)
    return saved.getvalue()

"""Put a figure into the notebook together with the words that stand for it."""

import io
import sys

from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image

from attnlib.plots.style import DPI, use_style

__all__ = ["show"]

FINE = 1.5      # pixels of the stored picture for each of the page: a projector and many a screen have them


def show(fig, alt):
    """Display a figure as a PNG that carries its text alternative, then close it.

    The text stands in the output twice: in the metadata, from where slides and book take it for
    those who do not see the picture, and as text/plain, so that tests compare words and not
    pixels. Outside a notebook the text is printed.

    Parameters
    ----------
    fig : matplotlib.figure.Figure
    alt : str
        What the figure shows, in a sentence or two.

    Raises
    ------
    TypeError
        If ``fig`` is not a figure or ``alt`` is not a string.
    ValueError
        If ``alt`` is empty.
    """
    data, about = picture(fig, alt)
    if _shell() is None:
        print(data["text/plain"])
    else:
        from IPython.display import display

        display(data, metadata=about, raw=True)
    _close(fig)


def picture(fig, alt):
    """What a notebook stores of a figure: the PNG with its words and its width on a page, and the words again
    as text.

    Raises as `show` does.
    """
    if not isinstance(fig, Figure):
        raise TypeError(
            f"fig must be a Matplotlib figure, but is {type(fig).__name__}. "
            "Pass what a function of attnlib.plots returned."
        )
    if not isinstance(alt, str):
        raise TypeError(
            f"alt must be a sentence that says what the figure shows, but is {type(alt).__name__}."
        )
    alt = " ".join(alt.split())
    if not alt:
        raise ValueError(
            "alt is empty; it must be a sentence that says what the figure shows, "
            "for readers who do not see it."
        )
    width = round(DPI * fig.get_figwidth())
    return {"image/png": png(fig), "text/plain": alt}, {"image/png": {"alt": alt, "width": width}}


def png(fig):
    """The figure as PNG bytes on an opaque ground, the same bytes every time.

    With 256 colours it has a third of the size, and a notebook has many figures. Areas keep
    their colours; a few pixels at the edges of letters change by less than the eye can see.
    """
    packed = io.BytesIO()
    image = Image.open(io.BytesIO(drawn(fig, FINE * DPI))).convert("RGB")
    image = image.quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    image.save(packed, format="png", optimize=True)
    return packed.getvalue()


def drawn(fig, dpi=DPI):
    """The figure as PNG bytes on an opaque ground, quickly and with all its colours."""
    full = io.BytesIO()
    with use_style():
        ground = to_rgb(fig.get_facecolor())     # without its transparency
        fig.savefig(full, format="png", dpi=dpi, facecolor=ground, pil_kwargs={"compress_level": 1})
    return full.getvalue()


def _shell():
    """The IPython that runs this code, or None."""
    ipython = sys.modules.get("IPython")
    return ipython and ipython.get_ipython()


def _close(fig):
    """Take the figure out of pyplot's hands, which would show it once more."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close(fig)

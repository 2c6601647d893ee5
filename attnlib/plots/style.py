"""One style for all figures: sizes, colours, font.

Size. A figure is 10 x 5 inches at 100 dots an inch: 1000 x 500 pixels. No text in it is smaller
than 14 points, which is 19.4 of these pixels. So it can be shown at its own size, or shrunk to
930 pixels across, and still keep the 18 pixels that a slide of 1280 x 720 needs.

Colour. The five colours of the palette keep their order of lightness in grey and under the
commonest colour blindness, none is green, and each has enough contrast for text on white
(4.5 or more). The map for weights goes from white to dark blue in a straight line of OKLab,
a space in which equal distances look equal; so equal steps of weight look equal.

Font. The figures' font carries Latin, Greek and Chinese (see fonts/README.md). It stands first
in the list of families because Matplotlib takes only the first one for text beside $formulas$.
"""

from contextlib import contextmanager
from pathlib import Path

import matplotlib.style
import numpy as np
from matplotlib import cbook, font_manager
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.colors import ListedColormap
from matplotlib.font_manager import FontProperties

__all__ = ["use_style"]

WIDTH, HEIGHT, DPI = 10.0, 5.0, 100     # inches, inches, pixels an inch
TEXT, TITLE = 14, 16                    # points
PIXELS_PER_POINT = DPI / 72

INK = "#1a1a1a"       # text and axes
FAINT = "#dddddd"     # grid lines, which only help the eye
PALETTE = ("#005a9e", "#c04f00", "#701848", "#24146b", "#000000")   # blue orange wine indigo black
MARKERS = ("o", "s", "^", "D", "v")
DASHES = ("-", "--", ":", "-.")

FAMILY = "Attn Sans SC"
FAMILIES = [FAMILY, "DejaVu Sans"]      # the second has rarer signs, such as subscripts
font_manager.fontManager.addfont(
    str(Path(__file__).parent / "fonts" / "AttnSansSC-Regular.ttf")
)

STYLE = {
    "figure.figsize": (WIDTH, HEIGHT),
    "figure.dpi": DPI,
    "figure.facecolor": "white",
    "figure.constrained_layout.use": True,   # until finish() has fixed the places
    "figure.constrained_layout.w_pad": 0.1,
    "figure.constrained_layout.h_pad": 0.1,
    "savefig.dpi": DPI,
    "savefig.facecolor": "white",
    "font.family": FAMILIES,
    "font.size": TEXT,
    "mathtext.fontset": "dejavuserif",        # as large as the text, as upright as a formula
    "text.color": INK,
    "axes.facecolor": "white",
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": TEXT,
    "axes.titlesize": TITLE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,        # 1.001 in full, not 0.001 and a distant "+1"
    "grid.color": FAINT,
    "figure.titlesize": TITLE,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": TEXT,
    "ytick.labelsize": TEXT,
    "legend.fontsize": TEXT,
    "legend.frameon": False,
    "lines.linewidth": 2.5,
    "lines.markersize": 8,
}


@contextmanager
def use_style():
    """Draw in the course's style; afterwards the user's own settings are back as they were.

    Serves as ``with use_style():`` and as a decorator, ``@use_style()``.
    """
    with matplotlib.style.context(STYLE, after_reset=True):
        yield


def finish(fig):
    """Fix the places of all parts, and return the figure.

    The layout engine needs several looks to settle; left running it would move things at every
    drawing, and the same figure would give two pictures.
    """
    before = None
    for _ in range(4):
        fig.get_layout_engine().execute(fig)
        places = [ax.get_position().bounds for ax in fig.axes]
        if before is not None and np.allclose(places, before, atol=1e-4):
            break
        before = places
    fig.set_layout_engine("none")
    return fig


def text_width(text):
    """How wide a text of the ordinary size is drawn, in pixels."""
    font = FontProperties(family=FAMILIES, size=TEXT, math_fontfamily=STYLE["mathtext.fontset"])
    renderer = RendererAgg(1, 1, DPI)
    return renderer.get_text_width_height_descent(text, font, cbook.is_math_text(text))[0]


def oklab_to_rgb(lab):
    """Colours from OKLab, shape (..., 3), to sRGB in 0..1 (B. Ottosson, 2020)."""
    to_cones = np.array([
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.2914855480],
    ])
    to_linear_rgb = np.array([
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ])
    light = (np.asarray(lab) @ to_cones.T) ** 3 @ to_linear_rgb.T
    light = light.clip(0.0, 1.0)
    return np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)


def _straight_map(name, start, end, steps=256):
    """A colour map along the straight line between two colours in OKLab."""
    along = np.linspace(0.0, 1.0, steps)[:, None]
    return ListedColormap(oklab_to_rgb((1 - along) * np.array(start) + along * np.array(end)), name)


# Weight 0 is white paper, weight 1 is the darkest blue that the screen can still show as blue.
WEIGHT_MAP = _straight_map("attn_weight", (1.0, 0.0, 0.0), (0.30, -0.010, -0.125))


def luminance(rgb):
    """Relative luminance in 0..1 of sRGB colours, shape (..., 3) (WCAG 2.2)."""
    rgb = np.asarray(rgb, dtype=float)
    light = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return light @ np.array([0.2126, 0.7152, 0.0722])


def text_colour(background):
    """Black or white, whichever stands out more on the colour; the contrast is at least 4.58."""
    light = luminance(background)
    on_black, on_white = (light + 0.05) / 0.05, 1.05 / (light + 0.05)
    return "#000000" if on_black >= on_white else "#ffffff"

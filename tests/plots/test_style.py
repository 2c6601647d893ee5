"""The style: sizes, colours and settings, measured on figures of each kind."""

import io
import itertools
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from coloraide import Color
from gallery import judge
from matplotlib.colors import to_rgb
from PIL import Image

from attnlib.plots import use_style, weight_bars
from attnlib.plots.notebook import png
from attnlib.plots.style import DASHES, INK, MARKERS, PALETTE, WEIGHT_MAP, text_colour


def contrast(a, b):
    return float(judge.contrast(to_rgb(a), to_rgb(b)))


def test_contrast_is_that_of_wcag():
    assert contrast("black", "white") == pytest.approx(21)
    assert contrast("#777777", "white") == pytest.approx(4.48, abs=0.005)   # WebAIM's example


@pytest.mark.parametrize("colour", [*PALETTE, INK])
def test_palette_colours_serve_as_text_on_white(colour):
    assert contrast(colour, "white") >= 4.5


def test_palette_is_told_apart_in_grey_and_with_deuteranopia():
    for a, b in itertools.combinations(PALETTE, 2):
        assert judge.with_deuteranopia(a, b) >= 15, (a, b)
        assert abs(judge.lightness(a) - judge.lightness(b)) >= 9, (a, b)


def test_no_palette_colour_is_green():
    for red, green, blue in map(to_rgb, PALETTE):
        assert green <= max(red, blue)


def test_markers_and_dashes_tell_curves_apart_without_colour():
    assert len(set(MARKERS)) >= len(PALETTE)
    assert len(set(DASHES)) == len(DASHES)


def test_weight_map_goes_from_white_to_dark_in_equal_steps():
    colours = WEIGHT_MAP(np.arange(0, 256, 15))[:, :3]         # 18 of its 256, evenly apart
    assert colours[0] == pytest.approx([1, 1, 1], abs=1e-6)
    steps = -np.diff([Color("srgb", colour.tolist()).convert("lab-d65")["lightness"] for colour in colours])
    assert steps.min() > 0
    assert steps.max() / steps.min() < 1.05


def test_numbers_stand_out_in_every_cell():
    for weight in np.linspace(0, 1, 256):
        ground = WEIGHT_MAP(weight)[:3]
        assert contrast(text_colour(ground), ground) >= 4.5


def test_all_text_is_large_enough_for_a_slide(figure, texts):
    assert figure.bbox.width == 1000
    assert figure.bbox.height <= 500
    sizes = {text.get_text(): text.get_fontsize() for text in texts(figure)}
    assert min(sizes.values()) * figure.dpi / 72 >= 18, sizes


def test_no_text_is_clipped_and_none_lies_on_another(figure, assert_readable):
    assert_readable(figure)


def test_ground_is_opaque_and_bytes_are_stable(figure):
    first = png(figure)
    image = Image.open(io.BytesIO(first)).convert("RGBA")
    assert image.width == 1500 and abs(image.height - 1.5 * figure.bbox.height) < 1
    for corner in [(0, 0), (999, 0), (0, image.height - 1), (999, image.height - 1)]:
        assert image.getpixel(corner) == (255, 255, 255, 255)
    assert png(figure) == first
    assert matplotlib.__version__.encode() not in first


def test_places_are_fixed_once_a_figure_is_made():
    fig = weight_bars("ab", [0.5, 0.5], title="t")
    before = fig.axes[0].get_position().bounds
    fig.axes[0].set_xlabel("a label\nof several\nlines")
    fig.draw_without_rendering()
    assert fig.axes[0].get_position().bounds == before


def test_a_transparent_figure_gets_an_opaque_ground():
    fig = weight_bars("ab", [0.5, 0.5], title="t")
    white = png(fig)
    fig.set_facecolor((1, 1, 1, 0))
    assert png(fig) == white


def test_style_does_not_depend_on_the_users_settings(weights):
    plain = png(weight_bars("abcdefgh", weights[0], title="t"))
    with matplotlib.rc_context({"figure.facecolor": "black", "font.size": 3, "axes.grid": True,
                                "savefig.transparent": True}):
        assert png(weight_bars("abcdefgh", weights[0], title="t")) == plain


def test_use_style_gives_settings_back_after_an_error():
    before = matplotlib.rcParams["font.size"]
    with pytest.raises(RuntimeError), use_style():
        assert matplotlib.rcParams["font.size"] != before
        raise RuntimeError
    assert matplotlib.rcParams["font.size"] == before


def test_import_loads_neither_torch_nor_pyplot():
    code = (
        "import sys, attnlib.plots; "
        "print([name for name in ('torch', 'matplotlib.pyplot', 'IPython') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

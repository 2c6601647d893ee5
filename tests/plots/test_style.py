"""The style: sizes, colours and settings, measured on figures of each kind."""

import io
import itertools
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from PIL import Image

from attnlib.plots import use_style, weight_bars
from attnlib.plots.notebook import png
from attnlib.plots.style import DASHES, INK, MARKERS, PALETTE, WEIGHT_MAP, luminance, text_colour

# Machado, Oliveira and Fernandes, 2009, table 1: deuteranomaly of severity 1, for linear RGB.
DEUTERANOPIA = np.array([
    [0.367322, 0.860646, -0.227968],
    [0.280085, 0.672501, 0.047413],
    [-0.011820, 0.042940, 0.968881],
])
TO_XYZ = np.array([
    [0.4124564, 0.3575761, 0.1804375],
    [0.2126729, 0.7151522, 0.0721750],
    [0.0193339, 0.1191920, 0.9503041],
])


def linear(rgb):
    rgb = np.asarray(rgb)
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def cielab(light):
    """CIELAB of linear RGB, with the white of sRGB."""
    xyz = light @ TO_XYZ.T / TO_XYZ.sum(1)
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.stack([116 * f[..., 1] - 16, 500 * (f[..., 0] - f[..., 1]),
                     200 * (f[..., 1] - f[..., 2])], -1)


def contrast(a, b):
    low, high = sorted([float(luminance(to_rgb(a))), float(luminance(to_rgb(b)))])
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_wcag():
    assert contrast("black", "white") == pytest.approx(21)
    assert contrast("#777777", "white") == pytest.approx(4.48, abs=0.005)   # WebAIM's example


@pytest.mark.parametrize("colour", [*PALETTE, INK])
def test_palette_colours_serve_as_text_on_white(colour):
    assert contrast(colour, "white") >= 4.5


def test_palette_is_told_apart_in_grey_and_with_deuteranopia():
    light = linear([to_rgb(colour) for colour in PALETTE])
    dichromat = cielab((light @ DEUTERANOPIA.T).clip(0, 1))
    lightness = cielab(light)[:, 0]
    for a, b in itertools.combinations(range(len(PALETTE)), 2):
        assert np.linalg.norm(dichromat[a] - dichromat[b]) >= 15, (PALETTE[a], PALETTE[b])
        assert abs(lightness[a] - lightness[b]) >= 9, (PALETTE[a], PALETTE[b])


def test_no_palette_colour_is_green():
    for red, green, blue in map(to_rgb, PALETTE):
        assert green <= max(red, blue)


def test_markers_and_dashes_tell_curves_apart_without_colour():
    assert len(set(MARKERS)) >= len(PALETTE)
    assert len(set(DASHES)) == len(DASHES)


def test_weight_map_goes_from_white_to_dark_in_equal_steps():
    colours = WEIGHT_MAP(np.arange(0, 256, 15))[:, :3]         # 18 of its 256, evenly apart
    assert colours[0] == pytest.approx([1, 1, 1], abs=1e-6)
    steps = -np.diff(cielab(linear(colours))[:, 0])            # of CIELAB's lightness
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
    assert image.size == (1000, round(figure.bbox.height))
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

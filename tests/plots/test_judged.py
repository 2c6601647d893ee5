"""Every kind of figure passes the check of figures, and a figure made wrong fails each of its rules."""

import doctest
from types import SimpleNamespace

import numpy as np
import pytest
from coloraide import Color
from gallery import judge
from matplotlib.figure import Figure

import attnlib.plots
from attnlib.plots import (
    attention_heatmap,
    block_tables,
    curves,
    dials,
    feature_map,
    panels,
    use_style,
    walks,
    wirings,
)
from attnlib.plots.style import PALETTE

DRAWING = [name for name in attnlib.plots.__all__ if name not in ("show", "use_style", "attention_table")]
RNG = np.random.default_rng(0)
X = np.arange(1, 6)
BANDS = {f"series {n}": (X + n, X + n / 2, X + 2 * n) for n in range(1, 6)}


def example(name):
    """The figure of a function's own example."""
    *first, last = doctest.DocTestParser().get_examples(getattr(attnlib.plots, name).__doc__)
    names = {**vars(attnlib.plots), "np": np}
    for line in first:
        exec(line.source, names)
    return eval(last.source.strip(), names)


# What the examples leave out: all colours at once, and both signs.
FULL = {
    "five bands": lambda: curves(X, BANDS, title="Which?", xlabel="x", ylabel="y"),
    "bands in panels": lambda: panels(X, {"one": BANDS, "two": BANDS}, title="Which?", xlabel="x"),
    "links": lambda: attention_heatmap(np.linspace(0, 1, 36).reshape(6, 6), "abcdef", "abcdef",
                                       sure=np.argwhere(np.eye(6)), possible=np.argwhere(np.eye(6)[::-1])),
    "three hands": lambda: dials({n: RNG.normal(size=(2, 3)) for n in "qkv"}, "ab", "cde", title="Which?"),
    "features": lambda: feature_map(RNG.normal(size=(20, 16)), title="Which?"),
    "wide features": lambda: feature_map(RNG.normal(size=(4, 60)), title="Which?"),
    "blocks": lambda: block_tables({"a": [0, 1], "b": [0]}, ["我", "他", ""], size=3, title="Which?"),
    "a marked box": lambda: wirings({"": ({"x": (0, 0), "y": (1, 0)}, [])}, marked=["x"], title="Which?"),
    "many walks": lambda: walks(RNG.normal(size=(80, 40)).cumsum(-1), title="Which?", xlabel="d", ylabel="s"),
}


@pytest.mark.parametrize("name", DRAWING)
def test_the_example_of_each_function_passes(name):
    assert judge.findings(example(name)) == []


@pytest.mark.parametrize("draw", FULL.values(), ids=FULL.keys())
def test_every_colour_and_sign_passes(draw):
    assert judge.findings(draw()) == []


# What it measures with


def test_deuteranopia_is_that_of_machado_oliveira_and_fernandes():
    red = Color("#ff0000").filter("deutan", method="machado").convert("srgb-linear").coords()
    np.testing.assert_allclose(red, [0.367322, 0.280085, -0.011820], atol=1e-6)     # their table, severity 1


def test_lightness_is_that_of_cielab():
    assert judge.lightness("#ffffff") == pytest.approx(100)
    assert judge.lightness("#777777") == pytest.approx(50.03, abs=0.01)


# Figures made wrong


@pytest.fixture
def blank():
    """An empty figure in our style, its axes, and what the check says of it."""
    with use_style():
        fig = Figure(figsize=(10, 4))
        ax = fig.subplots()
        ax.set(xticks=[], yticks=[])
        yield SimpleNamespace(fig=fig, ax=ax, found=lambda: judge.findings(fig))


def test_a_blank_one_passes(blank):
    assert blank.found() == []


def test_a_page_that_shows_through_is_found(blank):
    blank.fig.patch.set_alpha(0.5)
    (found,) = blank.found()
    assert found.startswith("the page shows through ") and "opaque" in found
    blank.fig.patch.set_alpha(None)
    blank.fig.set_facecolor((1, 1, 1, 0))     # it is made opaque when it is saved
    assert blank.found() == []


def test_the_figure_is_left_as_it_was(blank):
    (line,) = blank.ax.plot([0, 1], color="#dddddd", linewidth=5)
    blank.fig.set_facecolor((1, 1, 1, 0))
    assert blank.found() and line.get_visible() and blank.fig.get_facecolor() == (1, 1, 1, 0)


@pytest.mark.parametrize("width, size, needed", [(10, 13, 1), (10, 14, 0), (20, 20, 1), (20, 28, 0)])
def test_a_text_that_is_too_small_on_a_slide_is_found(blank, width, size, needed):
    blank.fig.set_figwidth(width)
    blank.ax.text(0.5, 0.5, "tiny", size=size)
    assert blank.found() == [f"the text 'tiny' has {size * 10 / width:.3g} points; 14 are needed"] * needed


@pytest.mark.parametrize("words, width, least", [
    (r"$\sqrt{d}$", 10, None), ("a_{i_j}", 10, None), ("$10^2$", 20, None),
    ("$10^2$", 10, 9.8), (r"$d_k^{-1/2}$ a head", 10, 9.8), (r"$\frac{a}{b}$", 10, 9.8),
    ("a head's $w_{x_i}$", 10, 6.86), ("$w_{x_i}$", 20, 9.8),
], ids=str)  # fmt: skip
def test_a_script_is_a_text_too(blank, words, width, least):
    blank.fig.set_figwidth(width)
    blank.ax.text(0.5, 0.5, words, size=14 if width == 10 else 40)
    expected = f"the text {words!r} has a script of {least} points; 14 are needed"
    assert blank.found() == ([] if least is None else [expected])


def test_a_text_that_is_too_pale_is_found_with_its_contrast(blank):
    blank.ax.text(0.2, 0.5, "#767676", color="#767676")     # WCAG's own edge: 4.54
    blank.ax.text(0.6, 0.5, "#777777", color="#777777")
    (found,) = blank.found()
    assert found == ("the text '#777777' has a contrast of 4.48 with what lies under it; 4.5 is needed")


def test_what_lies_under_a_text_counts_where_it_covers_a_tenth(blank):
    blank.ax.axhline(0.5, color=PALETTE[0], linewidth=1)    # crosses the letters
    blank.ax.text(0.5, 0.5, "crossed", ha="center", va="center")
    assert blank.found() == []
    blank.ax.axhline(0.5, color="black", linewidth=8)
    (found,) = blank.found()
    assert "'crossed'" in found


def test_the_box_of_a_turned_text_is_turned(blank):
    blank.ax.axvspan(0.48, 0.52, color="black")
    blank.ax.set_xlim(0, 1)
    blank.ax.text(0.5, 0.5, "upright", rotation=90, ha="center", va="center", color="white")
    assert blank.found() == []
    blank.ax.text(0.5, 0.9, "across", ha="center", va="center", color="white")
    assert ["'across'" in found for found in blank.found()] == [True]


@pytest.mark.parametrize("draw, name", [
    (lambda ax: ax.plot([0, 1], color="#aaaaaa", label="pale"), "the line 'pale'"),
    (lambda ax: ax.plot([0, 1], "o", color=PALETTE[0], alpha=0.3, label="pale"), "the points 'pale'"),
    (lambda ax: ax.bar([0, 1], [1, 2], color="#aaaaaa"), "the area #aaaaaa/"),
    (lambda ax: ax.fill_between([0, 1], [1, 2], color="#aaaaaa", alpha=0.9), "the area #b2b2b2"),
    (lambda ax: ax.scatter([0, 1], [1, 2], color="#aaaaaa"), "the points #aaaaaa"),
    (lambda ax: ax.hlines([0, 1], 0, 1, color="#aaaaaa"), "the line #"),
    (lambda ax: ax.plot([0, 1], color="#dddddd", linewidth=5), "the line #dddddd"),
    (lambda ax: ax.annotate("", (1, 1), (0, 0), arrowprops={"color": "#aaaaaa"}), "the arrow #"),
    (lambda ax: ax.quiver([0, 1], [0, 1], [1, 1], [1, 1], color="#aaaaaa"), "the hands #aaaaaa"),
], ids=["line", "points", "bars", "band", "scatter", "lines", "thick grid", "arrow", "hands"])  # fmt: skip
def test_what_is_too_pale_is_found(blank, draw, name):
    draw(blank.ax)
    (found,) = blank.found()
    assert found.startswith(name) and found.endswith("with its ground; 3 is needed")


@pytest.mark.parametrize("draw", [
    lambda ax: ax.grid(),
    lambda ax: ax.axhline(0.5, color="#dddddd"),
    lambda ax: ax.bar([0, 1], [1, 2], color="#aaaaaa", edgecolor="black", linewidth=1),
    lambda ax: (ax.bar([0.5], [1], color="#cccccc"), ax.text(0.5, 0.5, "named", ha="center", va="center")),
    lambda ax: (ax.imshow([[1]], cmap="Blues", vmin=0, vmax=1), ax.axvline(0, color="white", linewidth=8),
                ax.axvline(0, color="#c04f00", linewidth=3)),
], ids=["grid", "zero", "an edge", "a name in it", "a white line below"])  # fmt: skip
def test_what_only_helps_the_eye_or_has_an_edge_or_a_name_may_be_pale(blank, draw):
    draw(blank.ax)
    assert blank.found() == []


def test_marks_on_a_map_are_measured_against_its_cells(blank):
    blank.ax.imshow(np.eye(2), cmap="gray_r")
    blank.ax.axvline(0.5, color="#0000bb")      # stands out on white, not on black
    (found,) = blank.found()
    assert found.startswith("the line #0000bb has a contrast of ")


def test_a_line_may_begin_in_the_box_of_a_text(blank):
    blank.ax.plot([0.47, 0.53], [0.5, 0.5], color="black")
    blank.ax.text(0.5, 0.5, "node", ha="center", va="center", color="black", bbox={"facecolor": "black"})
    assert ["'node'" in found for found in blank.found()] == [True]
    blank.ax.texts[0].set_color("white")
    blank.ax.set_xlim(0, 1)
    assert blank.found() == []


SAME = {"color": PALETTE[0]}, {"color": PALETTE[1]}


@pytest.mark.parametrize("one, other, alike", [
    ({}, {}, True),
    ({}, {"linestyle": "--"}, False),
    ({}, {"marker": "o"}, False),
    ({}, {"linewidth": 5}, False),
    ({"linestyle": "", "marker": "o"}, {"linestyle": "", "marker": "o"}, True),
    ({"linestyle": "", "marker": "o"}, {"linestyle": "", "marker": "s"}, False),
    ({"linestyle": "", "marker": "o"}, {"linestyle": "", "marker": "o", "markerfacecolor": "white"}, False),
    ({}, {"color": "black"}, False),
    ({}, {"color": PALETTE[0]}, False),
], ids=["colour", "dash", "marker on a line", "thickness", "points", "marker", "hollow", "light",
        "the same"])  # fmt: skip
def test_lines_that_differ_by_their_hue_alone_are_found(blank, one, other, alike):
    blank.ax.plot([0, 1], **{**SAME[0], **one})
    blank.ax.plot([1, 0], **{**SAME[1], **other})
    found = blank.found()
    assert len(found) == alike
    assert all("10.6 apart in lightness or with deuteranopia; 15 is needed" in sentence for sentence in found)


def test_a_hue_that_deuteranopia_takes_away_is_found(blank):
    red, green = "#a8442c", "#1d5b00"           # 19 apart in lightness
    assert abs(judge.lightness(red) - judge.lightness(green)) > judge.APART / 2
    blank.ax.plot([0, 1], color=red)
    blank.ax.plot([1, 0], color=green)
    (found,) = blank.found()
    assert "have the same shape" in found


def test_a_text_of_its_colour_beside_it_tells_a_line_apart(blank):
    for height, colour in enumerate(PALETTE[:2]):
        blank.ax.plot([0, 1], [height, height], color=colour)
        blank.ax.text(0.5, height, colour, color=colour, va="bottom")
    blank.ax.set_ylim(-1, 2)
    assert blank.found() == []
    blank.ax.texts[0].set_y(-0.9)               # far away; the other line is still named
    assert blank.found() == []
    blank.ax.texts[1].set_color("black")
    assert len(blank.found()) == 1


def test_areas_and_hands_that_differ_by_their_hue_alone_are_found(blank):
    blank.ax.bar([0, 1], [1, 1], color=PALETTE[:2])
    assert len(blank.found()) == 1
    blank.ax.patches[0].set_hatch("/")
    assert blank.found() == []
    for colour in PALETTE[:2]:
        blank.ax.quiver([2], [0], [1], [1], color=colour, width=0.01)
    assert ["the hands" in found for found in blank.found()] == [True]


def test_a_map_with_two_sides_that_are_equally_dark_needs_a_stroke_on_one(blank):
    table = np.array([[-1.0, 0.0, 1.0], [1.0, -1.0, -0.1]])
    blank.ax.imshow(table, cmap="RdBu", vmin=-1, vmax=1)
    (found,) = blank.found()
    assert "equally dark in grey" in found
    blank.ax.vlines([0, 1], [-0.5, 0.5], [0.5, 1.5], color="white")     # the negative ones
    assert blank.found() == []
    blank.ax.vlines([2], [-0.5], [0.5], color="white")                  # and a positive one
    assert len(blank.found()) == 1


def test_a_cell_without_a_number_needs_no_stroke(blank):
    blank.ax.imshow([[-1.0, np.nan], [0.0, 1.0]], cmap="RdBu", vmin=-1, vmax=1)
    blank.ax.vlines([0], [-0.5], [0.5], color="white")
    assert blank.found() == []


def test_a_pale_map_is_found_and_a_numbered_or_photographed_one_is_not(blank):
    image = blank.ax.imshow(np.eye(2), cmap="Pastel1")
    assert "a map goes from light to dark with a contrast of" in blank.found()[0]
    for row, column in np.ndindex(2, 2):
        blank.ax.text(column, row, "1.0", color="black")
    assert blank.found() == []
    image.remove()
    for text in list(blank.ax.texts):
        text.remove()
    blank.ax.imshow(np.full((2, 2, 3), 0.8))
    assert blank.found() == []


# Maps that lie anywhere on their axes


def two_sides(ax, table, **how):
    ax.imshow(table, cmap="RdBu", vmin=-1, vmax=1, aspect="auto", **how)
    ax.set(xticks=[], yticks=[])


@pytest.mark.parametrize("extent, origin, x, y", [
    ((100, 400, 300, 100), "upper", 150, 150),
    ((100, 400, 100, 300), "upper", 150, 250),
    ((100, 400, 100, 300), "lower", 150, 150),
    ((400, 100, 300, 100), "upper", 350, 150),
    (None, "lower", 0, 0),
], ids=["as pixels", "upwards", "first row below", "leftwards", "first row below, by indices"])  # fmt: skip
def test_a_stroke_is_found_in_its_cell_wherever_the_map_lies(blank, extent, origin, x, y):
    """No turn of this table lays its only dark blue cell on its only dark red one."""
    two_sides(blank.ax, [[-1, 1, 0], [0, 0, 0]], extent=extent, origin=origin)
    left, right, bottom, top = blank.ax.images[0].get_extent()
    blank.ax.hlines([(bottom + top) / 2], left, right, color="white")    # between the rows
    (found,) = blank.found()
    assert "equally dark in grey" in found
    blank.ax.vlines([x], y - 0.3, y + 0.3, color="white")
    assert blank.found() == []
    blank.ax.invert_xaxis()
    blank.ax.invert_yaxis()
    assert blank.found() == []


@pytest.mark.parametrize("column, row", [(-1, 0), (3, 0), (0, -1), (0, 2)])
def test_a_line_beside_a_map_strikes_no_cell_at_its_other_end(blank, column, row):
    table = np.zeros((2, 3))
    table[1, 1], table[row % 2, column % 3] = 1, -1
    two_sides(blank.ax, table)
    blank.ax.vlines([column], row - 0.3, row + 0.3, color="white")
    (found,) = blank.found()
    assert "equally dark in grey" in found

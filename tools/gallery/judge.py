"""What makes a figure hard to read. Each finding is a sentence; none means that the figure can be shown.

A figure is measured as it is drawn at its own size, 1000 pixels across. Its ground is opaque. Texts have 14
points, and so has each letter and digit of a formula: Matplotlib makes an exponent or an index smaller, so it
needs a larger formula, or words. Texts have a contrast of 4.5 with what lies under them; graphics that mean
something have a contrast of 3 with their ground (WCAG 2.2, 1.4.3 and 1.4.11). What means different things
does not differ by hue alone.
"""

import itertools
from functools import cache
from typing import NamedTuple

import numpy as np
from coloraide import Color
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex, to_rgb, to_rgba
from matplotlib.lines import Line2D
from matplotlib.mathtext import MathTextParser
from matplotlib.patches import FancyArrowPatch, Patch
from matplotlib.quiver import Quiver

from attnlib.plots.style import DPI, FAINT, TEXT, WIDTH, luminance, use_style

TEXT_CONTRAST, MARK_CONTRAST = 4.5, 3
# Of the 100 steps of lightness in CIELAB, and as far in that space for one who sees with deuteranopia. Areas
# side by side are told apart from about 2 on. Marks of a few pixels, apart from one another and named in a
# legend, need several times as much, and a projector in a lit hall takes half of it away.
APART = 15
CROSSED = 0.1    # this part of what lies under a text may be worse: a grid line that crosses it
NEAR = 40        # pixels from a mark to the text of its colour that names it
THICKER = 2      # a line so many times as thick is told apart without colour
GRID = 2.5       # points: up to here a faint line only helps the eye
NOTHING = (0, 0, 0, 0)


def findings(fig):
    """The sentences, rule by rule."""
    patch, ground = fig.patch, fig.patch.get_facecolor()
    patch.set_facecolor(to_rgb(ground))     # as when it is saved
    try:
        with use_style():
            return list(dict.fromkeys(_found(fig)))
    finally:
        patch.set_facecolor(ground)


def _found(fig):
    drawn = _Drawn(fig)
    axes = {ax: _marks(ax) for ax in fig.axes if ax.get_label() != "<colorbar>"}
    above = {mark.artist for marks in axes.values() for mark in marks}
    around = {artist for ax in axes for artist in (*ax.spines.values(), *ax.texts)}
    ground = _Drawn(fig, without=above | around).pixels
    yield from (*_transparent(drawn), *_small(drawn), *_faint_texts(drawn))
    for ax, marks in axes.items():
        # A filled area with a text in it is named by the text, as is the cell of a numbered map.
        marks = [mark for mark in marks if mark.kind != "area" or not _within(mark.artist, drawn.texts)]
        yield from (*_faint_marks(marks, ground), *_alike(marks, drawn.texts), *_maps(ax, drawn.texts))


# What is drawn ----------------------------------------------------------------------------------


class Text(NamedTuple):
    """A line of text: its colour with alpha, its size in points and that of its smallest sign, its box in
    pixels from the top left."""

    words: str
    colour: tuple
    size: float
    least: float
    box: tuple


class _Drawn(RendererAgg):
    """The figure as it is drawn, without its letters, which are noted instead."""

    def __init__(self, fig, without=()):
        super().__init__(*fig.bbox.size, fig.dpi)
        self.fig, self.texts = fig, []
        hidden = [artist for artist in without if artist.get_visible()]
        for artist in hidden:
            artist.set_visible(False)
        try:
            fig.draw(self)
        finally:
            for artist in hidden:
                artist.set_visible(True)

    def draw_text(self, gc, x, y, s, prop, angle, ismath=False, mtext=None):
        width, height, descent = self.get_text_width_height_descent(s, prop, ismath)
        corners = np.array([(across, up) for across in (0, width) for up in (-descent, height - descent)])
        turn = np.deg2rad(angle)
        across = x + corners @ (np.cos(turn), -np.sin(turn))
        down = y - corners @ (np.sin(turn), np.cos(turn))
        box = across.min(), down.min(), across.max(), down.max()
        size = prop.get_size_in_points()
        glyphs = MathTextParser("path").parse(s, prop=prop).glyphs if ismath else ()
        # Letters and digits alone: a root's sign and a bracket are made as large as what they hold.
        least = min((points for _, points, sign, *_ in glyphs if chr(sign).isalnum()), default=size)
        self.texts.append(Text(s, gc.get_rgb(), size, least, box))

    @property
    def pixels(self):
        """Bytes, shape (H, W, 4); the fourth is how opaque a pixel is."""
        return np.asarray(self.buffer_rgba())


class Mark(NamedTuple):
    """Something in the axes that means something.

    ``shape`` is what tells it apart without colour, beside its ``kind`` and how ``thick`` it is. ``colours``
    are those of its face and its edge, or of a line, as they look on the ground.
    """

    kind: str
    shape: tuple
    thick: float
    colours: tuple
    artist: object

    def __str__(self):
        label = str(self.artist.get_label() or "_")
        return f"the {self.kind} {'/'.join(self.colours) if label.startswith('_') else repr(label)}"


def _marks(ax):
    ground = to_rgb(ax.get_facecolor())
    arrows = [text.arrow_patch for text in ax.texts if getattr(text, "arrow_patch", None)]
    kinds = {Line2D: _of_line, FancyArrowPatch: _of_arrow, Patch: _of_patch, Quiver: _of_hands,
             object: _of_collection}  # fmt: skip
    marks = []
    for artist in (*ax.lines, *ax.patches, *ax.collections, *arrows):
        read = next(read for kind, read in kinds.items() if isinstance(artist, kind))
        for kind, shape, thick, *colours in read(artist) if artist.get_visible() else ():
            looks = tuple(_on(colour, ground) for colour in colours)
            seen = set(looks) - {to_hex(ground)}
            if seen and not (seen == {FAINT} and thick <= GRID):
                marks.append(Mark(kind, shape, thick, looks, artist))
    return marks


def _of_line(line):
    dash, marker = line.get_linestyle(), str(line.get_marker())
    if dash != "None":
        yield "line", (dash, marker), line.get_linewidth(), to_rgba(line.get_color(), line.get_alpha())
    if marker != "None":
        faces = line.get_markerfacecolor(), line.get_markeredgecolor()
        yield "points", (marker, dash), 0, *(to_rgba(face, line.get_alpha()) for face in faces)


def _of_arrow(arrow):
    yield "arrow", (arrow.get_linestyle(),), arrow.get_linewidth(), arrow.get_edgecolor()


def _of_patch(patch):
    thick = patch.get_linewidth()
    faces = patch.get_facecolor(), patch.get_edgecolor() if thick else NOTHING
    yield "area" if patch.get_fill() else "frame", (patch.get_hatch(), patch.get_linestyle()), thick, *faces


def _of_hands(quiver):
    yield "hands", (quiver.headwidth > 1,), quiver.width, quiver.get_facecolor()[0]


def _of_collection(collection):
    if collection.get_array() is not None or not collection.get_paths():    # colours for numbers; empty
        return
    kinds = {LineCollection: "line", PathCollection: "points", object: "area"}
    kind = next(name for kind, name in kinds.items() if isinstance(collection, kind))
    outline = collection.get_paths()[0].vertices.tobytes() if kind == "points" else None
    thick = collection.get_linewidth()[0]
    shape = outline, collection.get_hatch(), str(collection.get_linestyle()[0])
    faces = [*map(tuple, collection.get_facecolor())] or [NOTHING]
    edges = thick and [*map(tuple, collection.get_edgecolor())] or [NOTHING]
    for i in range(max(len(faces), len(edges))):
        yield kind, shape, thick, faces[i % len(faces)], edges[i % len(edges)]


def _places(artist):
    """Pixels from the bottom left that an artist's outlines go through, shape (n, 2)."""
    alone = isinstance(artist, Line2D | Patch)
    outlines = [path.transformed(artist.get_transform()).interpolated(16).vertices
                for path in ([artist.get_path()] if alone else artist.get_paths())]  # fmt: skip
    places = np.concatenate(outlines)
    if isinstance(artist, PathCollection | Quiver):     # the same outlines at many places
        offsets = artist.get_offset_transform().transform(artist.get_offsets())
        places = (places + offsets[:, None]).reshape(-1, 2)
    return places


def _within(artist, texts):
    """The texts whose middle lies in the artist's box."""
    box, height = artist.get_window_extent(), artist.figure.bbox.height
    return [text for text in texts
            if box.contains((text.box[0] + text.box[2]) / 2, height - (text.box[1] + text.box[3]) / 2)]


# Colours ----------------------------------------------------------------------------------------


def _on(colour, ground):
    """What a colour that may let the ground through looks like on it."""
    *rgb, alpha = to_rgba(colour)
    return to_hex(alpha * np.array(rgb) + (1 - alpha) * np.array(ground))


def contrast(a, b):
    """Contrast of WCAG between colours in 0..1, shapes (..., 3)."""
    a, b = luminance(a), luminance(b)
    return (np.maximum(a, b) + 0.05) / (np.minimum(a, b) + 0.05)


@cache
def lightness(colour):
    """L* of CIELAB, 0 to 100: what is left of a colour in grey."""
    return Color(colour).convert("lab-d65")["lightness"]


@cache
def with_deuteranopia(a, b):
    """How far two colours are apart in CIELAB where the middle cones are missing (Machado et al., 2009)."""
    a, b = (Color(colour).filter("deutan", method="machado").clip() for colour in (a, b))
    return a.delta_e(b, method="76", space="lab-d65")


def apart(a, b):
    """How far two colours are apart in lightness, or with deuteranopia, whichever is less."""
    return min(abs(lightness(a) - lightness(b)), with_deuteranopia(a, b))


# The rules --------------------------------------------------------------------------------------


def _transparent(drawn):
    """A page in a dark colour must not show through."""
    through = int((drawn.pixels[..., 3] < 255).sum())
    if through:
        yield f"the page shows through {through} pixels; the ground must be opaque"


def _small(drawn):
    # A figure that is wider than the others is shown smaller.
    shrunk = min(1.0, WIDTH / drawn.fig.get_figwidth()) * drawn.fig.dpi / DPI
    for text in drawn.texts:
        if text.size * shrunk < TEXT:
            yield f"the text {text.words!r} has {text.size * shrunk:.3g} points; {TEXT} are needed"
        elif round(text.least * shrunk, 3) < TEXT:
            yield (f"the text {text.words!r} has a script of {text.least * shrunk:.3g} points; "
                   f"{TEXT} are needed")  # fmt: skip


def _faint_texts(drawn):
    for text in drawn.texts:
        left, top, right, bottom = np.round(text.box).clip(0).astype(int)
        under = drawn.pixels[top:bottom, left:right, :3].reshape(-1, 3) / 255
        if len(under):
            *rgb, alpha = text.colour
            ratios = contrast(alpha * np.array(rgb) + (1 - alpha) * under, under)
            found = np.quantile(ratios, CROSSED, method="lower")
            if found < TEXT_CONTRAST:
                yield (f"the text {text.words!r} has a contrast of {found:.2f} with what lies under it; "
                       f"{TEXT_CONTRAST} is needed")  # fmt: skip


def _faint_marks(marks, ground):
    height, width = ground.shape[:2]
    for mark in marks:
        across, up = np.floor(_places(mark.artist)).astype(int).T
        seen = (across >= 0) & (across < width) & (up >= 0) & (up < height)
        if seen.any():
            under = ground[height - 1 - up[seen], across[seen], :3] / 255
            best = np.max([contrast(to_rgb(colour), under) for colour in mark.colours], axis=0)
            found = np.quantile(best, CROSSED, method="lower")
            if found < MARK_CONTRAST:
                yield f"{mark} has a contrast of {found:.2f} with its ground; {MARK_CONTRAST} is needed"


def _alike(marks, texts):
    """Marks that differ by their colours only, and by these not enough."""
    looks = {mark[:-1]: mark for mark in marks if not _named(mark, texts)}
    for one, other in itertools.combinations(looks.values(), 2):
        thin, thick = sorted([one.thick, other.thick])
        if (one.kind, one.shape) != (other.kind, other.shape) or thick >= THICKER * thin > 0:
            continue
        distance = max(apart(*pair) for pair in zip(one.colours, other.colours, strict=True))
        if one.colours != other.colours and distance < APART:
            yield (f"{one} and {other} have the same shape, and their colours are {distance:.1f} apart in "
                   f"lightness or with deuteranopia; {APART} is needed")  # fmt: skip


def _named(mark, texts):
    """Whether a text of the mark's colour stands beside it."""
    x, up = _places(mark.artist).T
    y = mark.artist.figure.bbox.height - up
    for left, top, right, bottom in (t.box for t in texts if to_hex(t.colour) in mark.colours):
        beside = np.maximum(left - x, x - right).clip(0), np.maximum(top - y, y - bottom).clip(0)
        if np.hypot(*beside).min() <= NEAR:
            return True
    return False


def _maps(ax, texts):
    """Colours that stand for numbers go from light to dark, or the cells of one side are struck through."""
    for image in ax.images:
        values = np.ma.masked_invalid(image.get_array())    # a cell without a number is empty
        if values.ndim != 2 or len(_within(image, texts)) >= values.size:     # a photograph; numbered cells
            continue
        colours = image.cmap(np.linspace(0, 1, 65))[:, :3]
        light = np.array([lightness(to_hex(colour)) for colour in colours])
        ends = contrast(colours[light.argmin()], colours[light.argmax()])
        if ends < MARK_CONTRAST:
            yield f"a map goes from light to dark with a contrast of {ends:.2f}; {MARK_CONTRAST} is needed"
        place = (64 * np.clip(image.norm(values), 0, 1)).round().filled(light.argmax()).astype(int)
        dark = light[place] < light.max() - APART
        below, above = dark & (place < light.argmax()), dark & (place > light.argmax())
        struck = _struck(ax, image)
        one_side = any((struck & dark == side).all() for side in (below, above))
        if below.any() and above.any() and not one_side:
            yield ("a map has two colours that are equally dark in grey, for numbers on both sides of its "
                   "lightest; strike through the cells of one side")  # fmt: skip


def _struck(ax, image):
    """Which cells of an image have a line through their middle."""
    rows, columns = image.get_array().shape
    left, right, bottom, top = image.get_extent()
    first, last = (top, bottom) if image.origin == "upper" else (bottom, top)    # edges of the rows
    middles = [line.mean(0) for lines in ax.collections if isinstance(lines, LineCollection)
               for line in lines.get_segments()]  # fmt: skip
    # Data coordinates, which may be pixels of the page, as places in the table: a cell's middle is its index.
    parts = (np.reshape(middles, (-1, 2)) - (left, first)) / (right - left, last - first)
    places = parts * (columns, rows) - 0.5
    cells = places.round()
    through = np.abs(places - cells).sum(-1) < 0.2      # else it lies between cells
    inside = ((cells >= 0) & (cells < (columns, rows))).all(-1)     # the lines may be another image's
    struck = np.zeros((rows, columns), dtype=bool)
    struck[tuple(cells[through & inside].astype(int).T[::-1])] = True
    return struck

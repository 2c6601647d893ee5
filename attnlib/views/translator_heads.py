"""Heads of the trained translator over a sentence that its reader types."""

from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.datasets import translation_pairs, translator
from attnlib.plots._inputs import weight_text
from attnlib.plots.style import (
    DPI,
    FAINT,
    HEIGHT,
    INK,
    PALETTE,
    PIXELS_PER_POINT,
    TEXT,
    TITLE,
    WEIGHT_MAP,
    WIDTH,
    text_colour,
    text_width,
    use_style,
)
from attnlib.translation.cutting import cut
from attnlib.translation.vocabulary import MARKS, encode_pairs
from attnlib.translation.words import Pair
from attnlib.views.view import View

__all__ = ["translator_view"]

ZH, EN, CROSS = ATTENTIONS = ("Chinese at Chinese", "English at English", "English at Chinese")
SENTENCES = (
    "我吃了一个大苹果，它很甜",
    "我吃了一个苹果，它很甜",
    "我看见了一个学生，它很累",
    "你昨天看见的狗很小",
    "孩子会在图书馆帮助他们",
    "看见了 我 的 老师 很 高兴",
    "苹果吃了我",
    "我喝了一杯狗",
)
MOST = 10  # words on an axis: four maps of more leave no room for text that a hall can read
LEARNED_FROM = 20_000  # sentences

# Pixels of the figure, from its top left corner.
_TITLE, _WRITTEN, _HEAD, _MOST, _TOP = 22, 54, 88, 110, 130
_EDGE, _BETWEEN, _AIR = 12, 12, 8


class Looks(NamedTuple):
    """The maps of one attention over one sentence, and what can be drawn of them."""

    zh: tuple[str, ...]
    english: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    maps: np.ndarray  # (heads, rows, columns)


def translator_view():
    """Type a Chinese sentence, and see where each head of the trained translator looks. Needs torch.

    There are three attentions, two with four heads and one with one. A map has a row for each word that
    asks. One row is framed; above each map stands what it looks at most.

    Returns
    -------
    View

    Examples
    --------
    >>> figure, words = translator_view().draw("我爱你", "Chinese at Chinese", 1)
    >>> words.split(".")[0]
    'The translator writes: I love you'
    """
    return View(draw, {"sentence": SENTENCES[0], "attention": ZH, "asks": 3}, controls)


def controls(widgets, sentence, attention, asks):
    look = {"style": {"description_width": "110px"}, "layout": {"width": "49%"}}
    named = {
        "sentence": widgets.Text(value=sentence, description="sentence", continuous_update=False, **look),
        "attention": widgets.Dropdown(options=ATTENTIONS, value=attention, description="who at whom", **look),
        "asks": widgets.IntSlider(value=asks, min=1, max=len(looks_of(sentence, attention).rows),
                                  description="word that asks", **look),
    }  # fmt: skip
    chosen = widgets.Dropdown(options=SENTENCES, value=sentence, description="or choose", **look)

    def take(change):
        if change.new is not None:
            named["sentence"].value = change.new

    def follow(change):
        typed = named["sentence"].value
        chosen.value = typed if typed in SENTENCES else None
        try:
            named["asks"].max = len(looks_of(typed, named["attention"].value).rows)
        except ValueError:
            pass  # the reader is told when it is to be drawn

    chosen.observe(take, "value")
    named["sentence"].observe(follow, "value")
    named["attention"].observe(follow, "value")
    known = widgets.HTML(
        f"<details><summary>The {len(vocabulary())} words that it knows</summary>"
        f'<p style="line-height:1.5">{" ".join(vocabulary())}</p></details>'
    )
    rows = (named["sentence"], chosen), (named["attention"], named["asks"])
    boxes = [*(widgets.HBox(row) for row in rows), known]
    return named, widgets.VBox(boxes, layout={"max_width": f"{WIDTH * DPI:.0f}px"})


@use_style()
def draw(sentence, attention, asks):
    """The figure and its words: a sentence, one of ``ATTENTIONS``, and which row asks, from 1 on."""
    looks = looks_of(sentence, attention)
    if type(asks) is not int or not 1 <= asks <= len(looks.rows):
        raise ValueError(f"asks must be an integer from 1 to {len(looks.rows)}, for so many rows there are; "
                         f"got {asks!r}")  # fmt: skip
    fig = Figure(figsize=(WIDTH, HEIGHT))
    fig.set_layout_engine("none")  # all places are given: laying out takes longer than drawing
    page = fig.add_axes((0, 0, 1, 1))
    page.set(xlim=(0, WIDTH * DPI), ylim=(HEIGHT * DPI, 0), autoscale_on=False)
    page.set_axis_off()
    _draw_title(page, looks.rows[asks - 1],
                ": where does the one head look?" if attention == CROSS else
                " asks: where do the four heads look?")  # fmt: skip
    _draw_translation(page, looks.english)
    _draw_colours(page)
    _draw_maps(page, looks, asks - 1)
    return fig, _words(attention, looks, asks - 1)


def _draw_title(page, word, question):
    """The word in the colour of its row."""
    word_width, width = (text_width(text) * TITLE / TEXT for text in (word, word + question))
    start = (WIDTH * DPI - width) / 2
    page.text(start, _TITLE, word, size=TITLE, color=PALETTE[1], va="center_baseline")
    page.text(start + word_width, _TITLE, question, size=TITLE, va="center_baseline")


def _draw_translation(page, english):
    text, words = f"written: {' '.join(english)}", list(english)
    while text_width(text) > 780:
        words.pop()
        text = f"written: {' '.join(words)} …"
    page.text(_EDGE, _WRITTEN, text, va="center")


def _draw_colours(page):
    left, right, top, bottom = 870, 970, _WRITTEN - 8, _WRITTEN + 8
    page.imshow(np.linspace(0, 1, 256)[None], cmap=WEIGHT_MAP, aspect="auto",
                extent=(left, right, bottom, top))  # fmt: skip
    page.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor=INK))
    page.text(left - _AIR, _WRITTEN, "0", ha="right", va="center")
    page.text(right + _AIR, _WRITTEN, "1", va="center")


def _draw_maps(page, looks, asks):
    """All heads side by side, as large as the words beside and below leave them room."""
    heads, rows, columns = looks.maps.shape
    left = _EDGE + max(map(text_width, looks.rows)) + _AIR
    width = (WIDTH * DPI - _EDGE - left - _BETWEEN * (heads - 1)) / heads
    below, rotation, high = _lettered(looks.columns, width / columns)
    height = HEIGHT * DPI - _EDGE - high - _AIR - _TOP
    across = (np.arange(columns) + 0.5) * width / columns
    down = _TOP + (np.arange(rows) + 0.5) * height / rows
    for row, (word, y) in enumerate(zip(looks.rows, down, strict=True)):
        page.text(left - _AIR, y, word, color=PALETTE[1] if row == asks else INK, ha="right", va="center")
    for head, weights in enumerate(looks.maps):
        start = left + head * (width + _BETWEEN)
        _draw_map(page, weights, (start, _TOP, width, height), start + across, down)
        for edge, thick in (("white", 6), (PALETTE[1], 3)):
            page.add_patch(Rectangle((start, _TOP + asks * height / rows), width, height / rows, fill=False,
                                     edgecolor=edge, linewidth=thick, zorder=3))  # fmt: skip
        for word, x in zip(below, start + across, strict=True):
            page.text(x, _TOP + height + _AIR, word, rotation=rotation, ha="center", va="top", linespacing=1)
        most = weights[asks].argmax()
        page.text(start + width / 2, _MOST, f"{looks.columns[most]} {weight_text(weights[asks, most])}",
                  color=PALETTE[1], ha="center", va="center")  # fmt: skip
        if heads > 1:
            page.text(start + width / 2, _HEAD, f"head {head}", ha="center", va="center")


def _draw_map(page, weights, box, across, down):
    """One head's weights; where they have room, with their numbers, but for those that would be 0.00."""
    left, top, width, height = box
    page.imshow(weights, cmap=WEIGHT_MAP, vmin=0, vmax=1, aspect="auto", interpolation="nearest",
                extent=(left, left + width, top + height, top))  # fmt: skip
    page.hlines((down[1:] + down[:-1]) / 2, left, left + width, color=FAINT, linewidth=1)
    page.vlines((across[1:] + across[:-1]) / 2, top, top + height, color=FAINT, linewidth=1)
    page.add_patch(Rectangle((left, top), width, height, fill=False, edgecolor=INK))
    if width / len(across) > text_width("0.00") + 4:
        for row, column in np.argwhere(weights >= 0.005):
            weight = float(weights[row, column])
            page.text(across[column], down[row], weight_text(weight), ha="center", va="center",
                      color=text_colour(WEIGHT_MAP(weight)[:3]))  # fmt: skip


def _lettered(words, cell):
    """How words stand below columns of a width, with their rotation and their height in pixels."""
    em = TEXT * PIXELS_PER_POINT
    if max(map(text_width, words)) + 4 <= cell:
        return words, 0, em
    if all(word.isascii() for word in words):
        return words, 90, max(map(text_width, words))
    return ["\n".join(word) for word in words], 0, em * max(map(len, words))  # Chinese, from top to bottom


def _words(attention, looks, asks):
    said = [f"The translator writes: {' '.join(looks.english)}"]
    zh, row, maps = looks.zh, looks.rows[asks], looks.maps
    if attention == CROSS:
        said.append(f"In step {asks + 1} ({row}) its one head looks most at {_most(looks, 0, asks)}")
        back = int((np.diff(maps[0].argmax(-1)) < 0).sum())
        said.append(f"Steps that look further to the left than the one before: {back}")
    else:
        most = [_most(looks, head, asks, itself=asks) for head in range(len(maps))]
        said.append(f"When word {asks + 1} ({row}) asks, head 0 looks most at {most[0]}, "
                    + _listed(f"head {head} at {most[head]}" for head in range(1, len(maps))))  # fmt: skip
        if attention == ZH:
            cells = [np.unravel_index(weights.argmax(), weights.shape) for weights in maps]
            said.append("The darkest cells of heads 0 to 3 are " + _listed(
                f"{zh[r]} at {_most(looks, head, r, itself=r)}" for head, (r, _) in enumerate(cells)
            ))  # fmt: skip
        elif len(looks.rows) > 1:
            shares = _listed(weight_text(share) for share in maps[:, 1:, 0].mean(-1))
            said.append(f"After its own row, start has {shares} of the weight of heads 0 to 3")
    if attention != ZH and (left_out := len(looks.english) - len(looks.rows) + (attention == EN)):
        said.append(f"Rows left out at the end: {left_out}")
    if unmet := never_met(zh):
        said.append(f"None of the {LEARNED_FROM:,} sentences that it learned from {_shown(*unmet[0])}")
    return ". ".join(said) + "."


def _most(looks, head, row, itself=None):
    """What a row looks at most, with its weight."""
    place = int(looks.maps[head, row].argmax())
    name = "itself" if place == itself else looks.columns[place]
    return f"{name} ({weight_text(looks.maps[head, row, place])})"


def _listed(parts):
    *first, last = parts
    return f"{', '.join(first)} and {last}"


def _shown(word, following):
    if word is None:
        return f"begins with {following}"
    return f"ends with {word}" if following is None else f"has {following} right after {word}"


def looks_of(sentence, attention):
    """The attention over the sentence, as far as it can be drawn: a long translation is cut off."""
    if attention not in ATTENTIONS:
        raise ValueError(f"attention must be one of {', '.join(ATTENTIONS)}; got {attention!r}")
    zh = cut(sentence, vocabulary())
    if len(zh) > MOST:
        raise ValueError(f"The sentence has {len(zh)} words, and at most {MOST} can be drawn; leave some out")
    english, maps = translated(zh)
    read = ("start", *english)
    steps = tuple(f"{a} → {b}" for a, b in zip(read, english, strict=False))
    layer, rows, columns = {
        ZH: ("encoder.layers.0.self_attn", zh, zh),
        EN: ("decoder.layers.0.self_attn", read[:MOST], read[:MOST]),
        CROSS: ("decoder.layers.0.cross_attn", steps[:MOST], zh),
    }[attention]
    return Looks(zh, english, rows, columns, maps[layer][:, : len(rows), : len(columns)])


@lru_cache(maxsize=64)
def translated(zh):
    """The translation of words, and the maps (heads, queries, keys) of writing it, by layer."""
    from torch import from_numpy

    from attnlib.analysis.maps import attention_maps

    (english,) = model()([zh])
    pair = Pair(zh, english, frozenset(), frozenset())
    source, target = map(from_numpy, encode_pairs([pair], model().zh_words, model().en_words))
    maps = attention_maps(model().model, source, target[:, :-1])
    return english, {layer: weights[0].numpy() for layer, weights in maps.items()}


def never_met(zh):
    """Pairs of neighbours, None at both ends, that stand in no sentence that the translator learned from."""
    met, lessons = lessons_met()
    pairs = dict.fromkeys(zip((None, *zh), (*zh, None), strict=True))
    while (strange := [pair for pair in pairs if pair not in met]) and (lesson := next(lessons, None)):
        met.update(zip((None, *lesson.zh), (*lesson.zh, None), strict=True))
    return strange


@cache
def lessons_met():
    """The pairs met so far, and an iterator over the sentences to come: to draw all takes two seconds."""
    rng, some = np.random.default_rng(0), 500
    return set(), (pair for _ in range(LEARNED_FROM // some) for pair in translation_pairs(some, rng))


@cache
def model():
    return translator()


@cache
def vocabulary():
    return tuple(model().zh_words)[len(MARKS) :]

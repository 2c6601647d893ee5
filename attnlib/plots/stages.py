"""The 2017 Transformer from left to right: what each stage is made of, and which sentence goes in where."""

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.plots._inputs import to_words
from attnlib.plots.style import DPI, INK, PALETTE, WIDTH, finish, use_style

__all__ = ["transformer_stages"]

_COLUMNS = (215, 415, 620, 820)     # where the boxes of a row begin, in pixels; the sentences stand before
_WIDE, _HIGH = 165, 66              # a box
_TOP, _BOTTOM = 82, 262             # middles of the encoder's and the decoder's row
_TINT = 0.16                        # how much of a stage's colour its boxes have; the rest is white


@use_style()
def transformer_stages(source, target, *, title="How do two sentences go through the model?"):
    """Draw encoder and decoder as two rows of boxes, numbered by the four stages of the data flow.

    Parameters
    ----------
    source : S words
        What the encoder reads.
    target : L words
        What the decoder reads: a mark of beginning, and the words so far.
    title : str
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure
        Stage 1 is embedding and positions, 2 the encoder, 3 the decoder, 4 the words' scores.

    Raises
    ------
    ValueError, TypeError
        For sentences that are no words.

    Examples
    --------
    >>> transformer_stages("我爱你", ["<start>", "I", "love"])
    <Figure size 1000x400 with 1 Axes>
    """
    source, target = to_words(source, "source"), to_words(target, "target")
    fig = Figure(figsize=(WIDTH, 4.0))
    ax = fig.subplots()
    ax.set(xticks=[], yticks=[], xlim=(0, WIDTH * DPI), ylim=(345, 0))
    ax.spines[:].set_visible(False)
    for row, words in ((_TOP, source), (_BOTTOM, target)):
        ax.text(4, row, "\n".join(_lines(words)), va="center")
        _arrow(ax, (_COLUMNS[0] - 30, row), (_COLUMNS[0], row))
    first = "embedding\n+ positions"
    top = [_box(ax, 0, _TOP, first, 1), _box(ax, 1, _TOP, "self-\nattention", 2),
           _box(ax, 2, _TOP, "feed-\nforward", 2)]  # fmt: skip
    bottom = [_box(ax, 0, _BOTTOM, first, 1), _box(ax, 1, _BOTTOM, "causal self-\nattention", 3),
              _box(ax, 2, _BOTTOM, "cross-\nattention", 3), _box(ax, 3, _BOTTOM, "feed-\nforward", 3)]
    scores = _box(ax, 3, _TOP, "a score for\neach word", 4)
    for row in (top, bottom):
        for left, right in zip(row, row[1:], strict=False):
            _arrow(ax, (left + _WIDE, _TOP if row is top else _BOTTOM),
                   (right, _TOP if row is top else _BOTTOM))  # fmt: skip
    middle = top[2] + _WIDE / 2
    _arrow(ax, (middle, _TOP + _HIGH / 2), (middle, _BOTTOM - _HIGH / 2))
    ax.text(middle - 10, (_TOP + _BOTTOM) / 2, "memory", ha="right", va="center")
    _arrow(ax, (scores + _WIDE / 2, _BOTTOM - _HIGH / 2), (scores + _WIDE / 2, _TOP + _HIGH / 2))
    ax.text(_COLUMNS[1], _TOP - _HIGH / 2 - 14, "stage 2, encoder: N layers of these two", va="bottom")
    ax.text(_COLUMNS[1], _BOTTOM + _HIGH / 2 + 14, "stage 3, decoder: N layers of these three", va="top")
    ax.text(_COLUMNS[0], _TOP - _HIGH / 2 - 14, "stage 1", va="bottom")
    ax.text(scores, _TOP - _HIGH / 2 - 14, "stage 4", va="bottom")
    ax.set_title(title)
    fig.get_layout_engine().set(w_pad=0, h_pad=0.05)
    return finish(fig)


def _lines(words, most=16):
    """The sentence in lines that fit before the first box; a Chinese sign is as wide as two letters."""
    lines = [""]
    for word in words:
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and sum(1 + (ord(letter) > 0x2E7F) for letter in longer) > most:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def _box(ax, column, row, text, stage):
    """A box in its stage's colour; returns where it begins."""
    left, colour = _COLUMNS[column], np.array(to_rgb(PALETTE[stage - 1]))
    ax.add_patch(Rectangle((left, row - _HIGH / 2), _WIDE, _HIGH, facecolor=1 - _TINT * (1 - colour),
                           edgecolor=colour, linewidth=1.5))  # fmt: skip
    ax.text(left + _WIDE / 2, row, text, ha="center", va="center")
    return left


def _arrow(ax, start, end):
    ax.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": INK, "shrinkA": 0, "shrinkB": 0})

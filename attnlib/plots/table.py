"""The attention map as a table: numbers that can be pointed at, searched, copied and read aloud.

A table works where a picture or a widget does not: in a notebook that is not trusted, on a page
without styles or scripts, in a screen reader. Colours stand on each cell, so that a dark theme
changes nothing; the script only adds an outline and arrow keys.
"""

from hashlib import sha256
from html import escape
from importlib.resources import files

from matplotlib.colors import to_hex

from attnlib.plots._inputs import columns, to_weights, to_words, weight_text
from attnlib.plots.style import FAINT, INK, WEIGHT_MAP, text_colour

__all__ = ["attention_table"]

_ABOUT = "Each row is a query, each column a key."
_CORNER = "query ↓ key →"
_CELL = f"border:1px solid {FAINT};padding:6px 10px;text-align:center"
_WORD = f"{_CELL};background-color:#ffffff;color:{INK};font-weight:normal"
_SIZE = "font-size:18px"          # pixels: the least that a slide of 1280 x 720 may have


def attention_table(weights, queries, keys, *, title=None):
    """Lay out attention weights as a table with a colour and a tooltip on each cell.

    As the last line of a notebook cell it shows the table; printed, it is aligned text.

    Parameters
    ----------
    weights : (Lq, Lk) array
        Each in 0..1.
    queries, keys : Lq and Lk words
    title : str, optional
        The question that the table answers.

    Returns
    -------
    AttentionTable

    Raises
    ------
    ValueError, TypeError
        For weights that do not fit the words or do not lie in 0..1.

    Examples
    --------
    >>> attention_table([[0.9, 0.1], [0.3, 0.7]], "你我", "我你", title="Who looks at whom?")
    Who looks at whom?
    query ↓ key →    我    你
               你  0.90  0.10
               我  0.30  0.70
    """
    return AttentionTable(weights, queries, keys, title)


class AttentionTable:
    """What ``attention_table`` returns: checked weights that show themselves as HTML or text."""

    def __init__(self, weights, queries, keys, title):
        self.queries, self.keys = to_words(queries, "queries"), to_words(keys, "keys")
        self.weights = to_weights(weights, (len(self.queries), len(self.keys)), "weights")
        if title is not None and not isinstance(title, str):
            raise TypeError(f"title must be a string or None; got {type(title).__name__}.")
        self.title = title

    def __repr__(self):
        rows = [[_CORNER, *self.keys]]
        rows += [[query, *map(weight_text, row)]
                 for query, row in zip(self.queries, self.weights, strict=True)]
        widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(" " * (width - columns(text)) + text
                           for text, width in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(lines if self.title is None else [self.title, *lines])

    def _repr_html_(self):
        head = f'<td style="{_WORD}">{_CORNER}</td>' + "".join(
            f'<th scope="col" style="{_WORD}">{escape(key)}</th>' for key in self.keys
        )
        body = "".join(
            f'<tr><th scope="row" style="{_WORD}">{escape(query)}</th>'
            + "".join(self._cell(query, key, weight)
                      for key, weight in zip(self.keys, row, strict=True))
            + "</tr>\n"
            for query, row in zip(self.queries, self.weights, strict=True)
        )
        rows = f"<tr>{head}</tr>\n{body}".replace("<td title", '<td tabindex="0" title', 1)
        name = self.title or "Attention weights"
        identity = "attn-" + sha256((name + rows).encode()).hexdigest()[:12]
        title = "" if self.title is None else f'<p style="{_SIZE}">{escape(self.title)}</p>\n'
        script = files(__package__).joinpath("table.js").read_text(encoding="utf-8")
        return (
            f'<div style="overflow-x:auto">\n{title}'
            f'<table id="{identity}" role="grid" aria-label="{escape(name)}" '
            f'style="border-collapse:collapse;margin:0;{_SIZE}">\n{rows}</table>\n'
            f'<p style="{_SIZE}">{_ABOUT}</p>\n'
            f'<script>\n{script.replace("TABLE", identity)}</script>\n</div>'
        )

    @staticmethod
    def _cell(query, key, weight):
        text = weight_text(weight)
        ground = WEIGHT_MAP(float(text))[:3]        # of the number shown, free of its last bits
        tip = escape(f"{query} attends to {key}: {text}")
        return (
            f'<td title="{tip}" style="{_CELL};background-color:{to_hex(ground)};'
            f'color:{text_colour(ground)}">{text}</td>'
        )

"""A mask to paint: a checkbox for each pair of query and key. It needs ipywidgets."""

from functools import partial

import traitlets
from ipywidgets import HTML, Checkbox, GridBox

from attnlib.plots.style import PALETTE

__all__ = ["MaskGrid"]

_WIDE, _HIGH = 38, 26  # pixels of a cell; a target for a finger has at least 24
# Ticked is blue with a tick, hidden is hatched as in the figure: the two differ in more than colour. The tick
# is a picture, since a letter would become a part of the checkbox's name.
_TICK = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="26" height="26">'
    '<path d="M7 13l4 5 8-10" fill="none" stroke="white" stroke-width="2.5"/></svg>'
)
_STYLE = f"""<style>
.attn-mask > * {{ width: auto; height: auto; margin: 0 }}
.attn-mask * {{ overflow: visible }}
.attn-mask .widget-html-content {{ text-align: center; font-size: 16px; line-height: {_HIGH}px }}
.attn-mask input {{ appearance: none; display: block; width: {_WIDE}px; height: {_HIGH}px; margin: 0;
  border: 1px solid #767676; background: repeating-linear-gradient(135deg, #ffffff 0 5px, #767676 5px 6px) }}
.attn-mask input:checked {{ background: {PALETTE[0]} url('data:image/svg+xml,{_TICK}') center no-repeat }}
.attn-mask input:focus-visible {{ outline: 3px solid {PALETTE[1]}; outline-offset: 1px }}
.attn-mask label span {{ position: absolute; clip-path: inset(50%) }}
</style>"""


class MaskGrid(GridBox):
    """``value`` is the mask that is ticked: for each query a tuple of booleans, one a key."""

    value = traitlets.Tuple()

    def __init__(self, queries, keys, value):
        self._boxes = [
            [
                Checkbox(may, indent=False, description=f"{query} may look at {key}")
                for key, may in zip(keys, row, strict=True)
            ]
            for query, row in zip(queries, value, strict=True)
        ]
        children = [HTML(_STYLE), *map(HTML, keys)]
        for query, row in zip(queries, self._boxes, strict=True):
            children += [HTML(query), *row]
        columns = f"50px repeat({len(keys)}, {_WIDE}px)"
        layout = {"flex": "none", "grid_template_columns": columns, "grid_gap": "2px"}
        super().__init__(children, layout=layout)
        self.add_class("attn-mask")
        self.value = value
        for i, row in enumerate(self._boxes):
            for j, box in enumerate(row):
                box.observe(partial(self._tick, i, j), "value")

    def _tick(self, query, key, change):
        row = self.value[query]
        row = (*row[:key], change.new, *row[key + 1 :])
        self.value = (*self.value[:query], row, *self.value[query + 1 :])

    @traitlets.observe("value")
    def _show(self, change):
        for boxes, row in zip(self._boxes, change.new, strict=True):
            for box, may in zip(boxes, row, strict=True):
                box.value = may

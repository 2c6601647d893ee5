"""What all views share: controls, a figure and its words, drawn anew when a control moves."""

import base64
from html import escape

from attnlib.plots.notebook import drawn, picture

__all__ = ["View"]

WIDGET = "application/vnd.jupyter.widget-view+json"
_NO_WIDGETS = "ipywidgets is not installed, so this view stands still: pip install ipywidgets"
# What moves takes the place of the still figure, which comes back where a page is opened without its kernel.
_INSTEAD = "<style>.jp-OutputArea-child:has(+ .jp-OutputArea-child .attn-view) { display: none }</style>"
# The words say what the picture shows, and are read aloud when they change.
_PAGE = """<img class="attn-view" alt="" style="width:100%;max-width:{width}px"
 src="data:image/png;base64,{picture}">
<p role="status" style="max-width:{width}px;line-height:1.5;font-size:15px">{words}</p>"""
_REFUSED = """<p role="alert" style="line-height:1.5;font-size:15px"><b>{words}</b>
 Below is the last figure that could be drawn.</p>"""


class View:
    """A figure with controls, for the last line of a notebook cell.

    Its first output is the still figure with its words. A stored notebook, the book and the slides show no
    other, nor does Python without ipywidgets.

    Parameters
    ----------
    draw : callable
        Takes the controls' values by name; gives a Matplotlib figure and the words that stand for it. A
        ValueError is the reader's: its sentence stands above the last figure that could be drawn.
    start : dict
        The values to begin with.
    controls : callable
        Takes the module ipywidgets and the values by name; gives the controls, a dict of widgets whose
        ``value`` is drawn, and a widget that lays them out.
    """

    def __init__(self, draw, start, controls):
        self.draw, self.start, self.controls = draw, dict(start), controls

    def _ipython_display_(self):
        from IPython.display import display

        data, about = picture(*self.draw(**self.start))
        display(data, metadata=about, raw=True)
        widget = self.widget()
        if widget is None:
            print(_NO_WIDGETS)
        else:
            display({WIDGET: widget._repr_mimebundle_()[WIDGET]}, raw=True)

    def widget(self):
        """The controls above the figure and its words, as one new widget; None without ipywidgets."""
        try:
            import ipywidgets
        except ImportError:
            return None
        named, box = self.controls(ipywidgets, **self.start)
        page, refused = ipywidgets.HTML(), ipywidgets.HTML()

        def redraw(change=None):
            try:
                figure, words = self.draw(**{name: control.value for name, control in named.items()})
            except ValueError as error:
                refused.value = _REFUSED.format(words=escape(str(error)))
                return
            refused.value = ""
            page.value = _page(drawn(figure), words)

        for control in named.values():
            control.observe(redraw, "value")
        redraw()
        return ipywidgets.VBox([box, refused, page])


def _page(png, words):
    width = int.from_bytes(png[16:20], "big")  # where a PNG has it
    return _INSTEAD + _PAGE.format(picture=base64.b64encode(png).decode("ascii"), width=width,
                                   words=escape(words))  # fmt: skip

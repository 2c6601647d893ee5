"""What all views share: controls, a figure and its words, drawn anew when a control moves."""

import base64
from html import escape

from attnlib.plots.notebook import drawn, picture

__all__ = ["View"]

WIDGET = "application/vnd.jupyter.widget-view+json"
_NO_WIDGETS = "ipywidgets is not installed, so this view stands still: pip install ipywidgets"
# The words below it say what the picture shows, and are read aloud when they change.
_PAGE = """<img alt="" src="data:image/png;base64,{picture}" style="width:100%;max-width:{width}px">
<p role="status" style="max-width:{width}px;line-height:1.5;font-size:15px">{words}</p>"""
_REFUSED = '<p role="alert" style="line-height:1.5;font-size:15px"><b>{words}</b></p>'


class View:
    """A figure with controls, for the last line of a notebook cell.

    Its output holds the still figure and its words too. They are what a stored notebook, the book and the
    slides show, and all there is where ipywidgets is not installed.

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

    def _repr_mimebundle_(self, include=None, exclude=None):
        data, about = picture(*self.draw(**self.start))
        widget = self.widget()
        if widget is None:
            print(_NO_WIDGETS)
        else:
            data[WIDGET] = widget._repr_mimebundle_()[WIDGET]
        return data, about

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
    return _PAGE.format(picture=base64.b64encode(png).decode("ascii"), width=width, words=escape(words))

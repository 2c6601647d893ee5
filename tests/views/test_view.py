"""What all views share: two outputs, one that moves, and a reader's mistake said in a sentence."""

import base64
import io
import re
import sys

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from matplotlib.figure import Figure
from PIL import Image

from attnlib.plots.notebook import png
from attnlib.views import View

WIDGET = "application/vnd.jupyter.widget-view+json"


def draw(level):
    if level > 3:
        raise ValueError("level must be <= 3")
    fig = Figure(figsize=(2, 1), dpi=100)
    ax = fig.add_axes((0, 0, 1, 1))
    ax.bar([0], [level])
    ax.set_ylim(0, 5)
    return fig, f"One bar & its level, {level}."


def controls(widgets, level):
    slider = widgets.IntSlider(level, 0, 5, description="level")
    return {"level": slider}, widgets.HBox([slider])


@pytest.fixture
def view():
    return View(draw, {"level": 1}, controls)


@pytest.fixture
def shown(view):
    """The outputs of a cell that ends with the view."""
    InteractiveShell.instance()
    with capture_output() as captured:
        view._ipython_display_()
    InteractiveShell.clear_instance()
    return captured


def parts(widget):
    """The control, what is said of a mistake, and the page."""
    box, refused, page = widget.children
    return box.children[0], refused, page


def picture(page):
    data = re.search('base64,([^"]+)', page.value)[1]
    return Image.open(io.BytesIO(base64.b64decode(data)))


def test_the_still_figure_comes_first_and_the_widget_alone(shown):
    still, moving = shown.outputs
    assert set(still.data) == {"image/png", "text/plain"} and set(moving.data) == {WIDGET}
    assert still.data["text/plain"] == "One bar & its level, 1."
    assert still.metadata["image/png"]["alt"] == still.data["text/plain"]
    data = still.data["image/png"]
    assert (base64.b64decode(data) if isinstance(data, str) else data) == png(draw(1)[0])


def test_without_ipywidgets_the_still_figure_and_a_sentence(view, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    InteractiveShell.instance()
    with capture_output() as captured:
        view._ipython_display_()
    InteractiveShell.clear_instance()
    (still,) = captured.outputs
    assert still.data["text/plain"] == "One bar & its level, 1."
    assert captured.stdout == (
        "ipywidgets is not installed, so this view stands still: pip install ipywidgets\n"
    )


def test_a_control_draws_the_figure_and_its_words_anew(view):
    slider, refused, page = parts(view.widget())
    assert "One bar &amp; its level, 1." in page.value
    before = picture(page)
    slider.value = 3
    after = picture(page)
    assert "One bar &amp; its level, 3." in page.value
    assert before.size == after.size == (200, 100) and before.tobytes() != after.tobytes()
    assert refused.value == ""


def test_what_cannot_be_drawn_is_said_and_the_last_figure_stays(view):
    slider, refused, page = parts(view.widget())
    before = page.value
    slider.value = 4
    assert "level must be &lt;= 3" in refused.value and "the last figure" in refused.value
    assert page.value == before
    slider.value = 2
    assert refused.value == "" and "level, 2" in page.value


def test_two_widgets_of_one_view_move_apart(view):
    (first, _, page), (second, _, other) = parts(view.widget()), parts(view.widget())
    first.value = 3
    assert second.value == 1 and "level, 1" in other.value and "level, 3" in page.value

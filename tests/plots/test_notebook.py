"""show: what reaches the notebook."""

import base64
import io

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from PIL import Image

from attnlib.plots import show, weight_bars
from attnlib.plots.notebook import png

ALT = "Two bars; apple holds nine tenths."


@pytest.fixture
def fig():
    return weight_bars(["apple", "it"], [0.9, 0.1], title="Where does the query look?")


@pytest.fixture
def shell():
    """A running IPython, gone again afterwards."""
    shell = InteractiveShell.instance()
    yield shell
    InteractiveShell.clear_instance()


def test_the_output_is_a_png_with_its_text_twice(fig, shell):
    with capture_output() as captured:
        assert show(fig, alt=ALT) is None
    (output,) = captured.outputs
    assert output.data["text/plain"] == ALT
    assert output.metadata == {"image/png": {"alt": ALT, "width": 1000}}
    assert set(output.data) == {"image/png", "text/plain"}
    data = output.data["image/png"]
    assert (base64.b64decode(data) if isinstance(data, str) else data) == png(fig)
    assert captured.stdout == ""


def test_the_picture_is_finer_than_the_page(fig):
    assert Image.open(io.BytesIO(png(fig))).size == (1500, 276)


def test_alt_is_brought_to_one_line(fig, shell):
    with capture_output() as captured:
        show(fig, alt=" Two bars;\n   apple holds more. ")
    assert captured.outputs[0].data["text/plain"] == "Two bars; apple holds more."


def test_outside_a_notebook_the_text_is_printed(fig, capsys):
    assert show(fig, alt=ALT) is None
    assert capsys.readouterr().out == ALT + "\n"


def test_a_pyplot_figure_is_closed(capsys):
    from matplotlib import pyplot

    fig, _ = pyplot.subplots()
    show(fig, alt=ALT)
    assert pyplot.get_fignums() == []


@pytest.mark.parametrize("alt", ["", "  \n"])
def test_an_empty_alt_is_refused(fig, alt):
    with pytest.raises(ValueError, match="alt is empty; it must be a sentence"):
        show(fig, alt=alt)


def test_an_alt_that_is_no_string_is_refused(fig):
    with pytest.raises(TypeError, match="alt must be a sentence .* but is NoneType"):
        show(fig, alt=None)


def test_what_is_no_figure_is_refused():
    with pytest.raises(TypeError, match="fig must be a Matplotlib figure, but is list"):
        show([1], alt=ALT)

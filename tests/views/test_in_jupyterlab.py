"""The views of the lessons in JupyterLab itself: a control moves, and the figure and its words with it."""

import contextlib
import os
import re
import secrets
import subprocess
import sys
import threading
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import lesson  # noqa: E402
from deck import browser  # noqa: E402

SECONDS = 120  # for a busy machine
NAME = "views.ipynb"


def view_cells():
    """By the function's name: the cell of a lesson that ends with a view, as it is committed."""
    found = {}
    for path in lesson.lesson_paths():
        for cell in lesson.read(path).code_cells:
            last = cell.source.splitlines()[-1] if cell.source else ""
            if name := re.fullmatch(r"(\w+_view)\(.*\)", last):
                found[name[1]] = cell.source
    return found


def move_slider(output, page):
    output.locator(".noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")


def tick_a_cell(output, page):
    output.locator(".attn-mask input").first.focus()
    page.keyboard.press("Space")


def type_a_sentence(output, page):
    output.locator("input[type=text]").first.fill("我爱你")
    page.keyboard.press("Enter")


MOVES = {
    "saturation_view": move_slider,
    "mask_view": tick_a_cell,
    "translator_view": type_a_sentence,
    "tiles_view": move_slider,
}


def test_each_view_of_a_lesson_is_moved_here():
    assert view_cells().keys() == MOVES.keys()


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """JupyterLab with a notebook of all views, and settings of its own."""
    folder, own = tmp_path_factory.mktemp("work"), tmp_path_factory.mktemp("own")
    cells = [new_code_cell(source) for source in view_cells().values()]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), folder / NAME)
    token = secrets.token_hex(8)
    names = ("HOME", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR",
             "JUPYTERLAB_SETTINGS_DIR", "JUPYTERLAB_WORKSPACES_DIR")  # fmt: skip
    env = {**os.environ, **{name: str(own) for name in names}, "JUPYTER_TOKEN": token}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ServerApp.port=0",
               f"--ServerApp.root_dir={folder}", "--ServerApp.allow_root=True",
               "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    server = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = iter(server.stderr.readline, "")
        named = next(filter(None, (re.search(r"http://127\.0\.0\.1:\d+/lab", line) for line in said)), None)
        assert named, "JupyterLab ended before it named its address"
        # It would wait once nobody took what it says.
        threading.Thread(target=server.stderr.read, daemon=True).start()
        yield f"{named[0]}/tree/{NAME}?token={token}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="module")
def page(address):
    """The notebook, all its cells run, in a browser that reaches nothing but this machine."""
    with browser.launched(browser.find_browser()) as chromium:
        # So tall that all cells are in view: JupyterLab makes no others.
        page = chromium.new_page(viewport={"width": 1280, "height": 4000})
        page.set_default_timeout(1000 * SECONDS)
        page.errors, page.asked = [], []
        page.on("console", lambda said: said.type == "error" and page.errors.append(said.text))
        page.on("pageerror", lambda error: page.errors.append(str(error)))
        page.on("request", lambda request: page.asked.append(request.url))
        page.goto(address)
        page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status=idle]")
        run_all(page)
        page.wait_for_function("n => document.querySelectorAll('.attn-view').length === n", arg=len(MOVES))
        yield page


def run_all(page):
    """By the keyboard. What is pressed before JupyterLab listens is lost, so the first cell may need two."""
    first = page.locator(".jp-CodeCell .jp-InputPrompt").first
    while first.inner_text() == "[ ]:":
        page.click(".jp-Cell .cm-content")
        page.keyboard.press("Shift+Enter")
        with contextlib.suppress(AssertionError):
            expect(first).not_to_have_text("[ ]:", timeout=5000)
    for _ in view_cells():
        page.keyboard.press("Shift+Enter")


@pytest.mark.browser
@pytest.mark.parametrize("name", MOVES)
def test_a_control_moves_the_figure_and_its_words(page, name):
    cell = page.locator(".jp-CodeCell").nth([*view_cells()].index(name))
    output, figure, words = (cell.locator(part) for part in (".jp-OutputArea", ".attn-view", "[role=status]"))
    before = figure.get_attribute("src"), words.inner_text()
    # The still figure has made room for the one that moves.
    assert output.locator("img:visible").count() == 1
    MOVES[name](output, page)
    page.wait_for_function("([figure, before]) => figure.isConnected ? figure.src !== before : true",
                           arg=[figure.element_handle(), before[0]])
    assert figure.get_attribute("src") != before[0] and words.inner_text() != before[1]
    assert figure.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1000


@pytest.mark.browser
def test_there_was_no_error_and_no_request_elsewhere(page):
    """Asked last, of what the moves above have left; alone it is asked of the views as they came."""
    assert page.locator(".attn-view").count() == len(MOVES)
    assert page.errors == []
    assert {re.match(r"\w+://([^/:]+)|\w+:", url)[1] for url in page.asked} <= {"127.0.0.1", None}

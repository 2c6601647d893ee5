"""A mask painted by hand: cells and words against a computation of its own; the grid keeps step with it."""

import itertools
import sys
from functools import cache

import numpy as np
import pytest
from ipywidgets import Button, Checkbox
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attnlib.views import mask_view
from attnlib.views.mask_grid import MaskGrid
from attnlib.views.painted_mask import EVERYTHING, PRESETS, TOKENS, draw

LINKS = (("吃了", "我"), ("一个", "苹果"), ("它", "苹果"), ("甜", "它"))
IT, APPLE, ME = (TOKENS.index(word) for word in ("它", "苹果", "我"))
MINUS = "\N{MINUS SIGN}"


def masks():
    """The presets, and masks with more and less in them, one row empty."""
    found = dict(PRESETS)
    for share in (0.1, 0.5, 0.9):
        found[f"{share}"] = np.random.default_rng(8).random((8, 8)) < share
        found[f"{share}"][2] = False
    return found


MASKS = masks()
each_mask = pytest.mark.parametrize("name", MASKS)


@cache
def drawn(name):
    return draw(MASKS[name])


def weights(mask):
    """Shares of exp(3) for a link and 1 for anything else, by hand."""
    likes = np.ones((8, 8))
    for query, key in LINKS:
        likes[TOKENS.index(query), TOKENS.index(key)] = np.exp(3)
    likes = likes * mask
    return np.array([row / row.sum() if row.any() else row for row in likes])


def hidden_from(query, *keys):
    mask = EVERYTHING.copy()
    mask[query, list(keys)] = False
    return mask


def texts(fig):
    """What is written in the cells of both panels, (2, 8, 8), and the sums of the rows between them."""
    (ax,) = fig.axes
    panels = np.full((2, 8, 8), "", dtype="U8")
    for panel, image in zip(panels, ax.images, strict=True):
        left, right, bottom, top = image.get_extent()
        for text in ax.texts:
            x, y = text.get_position()
            if left < x < right and top < y < bottom:
                row, column = (y - top) / (bottom - top) * 8, (x - left) / (right - left) * 8
                panel[int(row), int(column)] = text.get_text()
    between = [image.get_extent() for image in ax.images]
    column = [text for text in ax.texts if between[0][1] < text.get_position()[0] < between[1][0] - 60]
    head, *sums = [text.get_text() for text in sorted(column, key=lambda text: text.get_position()[1])]
    assert head == "sum"
    return panels, sums


@each_mask
def test_the_weights_stand_in_visible_cells_and_rows_sum_to_one_or_to_nothing(name):
    mask = MASKS[name]
    (shown, _), sums = texts(drawn(name)[0])
    wanted = weights(mask)
    np.testing.assert_array_equal(shown == "", ~mask)
    np.testing.assert_allclose([float(text) for text in shown[mask]], wanted[mask], atol=0.00501)
    assert sums == ["1.00" if row.any() else "0" for row in mask]


@each_mask
def test_gains_and_losses_have_their_sign_and_unmoved_cells_none(name):
    mask = MASKS[name]
    (_, shown), _ = texts(drawn(name)[0])
    moved = weights(mask) - weights(EVERYTHING)
    np.testing.assert_array_equal(shown == "", np.isclose(moved, 0))
    there = shown != ""
    numbers = [float(text.replace(MINUS, "-")) for text in shown[there]]
    np.testing.assert_allclose(numbers, moved[there], atol=0.00501)
    assert [text[0] for text in shown[there]] == ["+" if m > 0 else MINUS for m in moved[there]]


@each_mask
def test_hidden_cells_are_hatched_and_gains_are_bluer_than_losses(name):
    mask = MASKS[name]
    fig, _ = drawn(name)
    (ax,) = fig.axes
    left, right, bottom, top = ax.images[0].get_extent()
    middles = np.array([line.mean(0) for line in ax.collections[2].get_segments()]).reshape(-1, 2)
    cells = ((middles - [left, top]) / [right - left, bottom - top] * 8).astype(int)
    hatched = np.zeros((8, 8), int)
    np.add.at(hatched, (cells[:, 1], cells[:, 0]), 1)
    np.testing.assert_array_equal(hatched, 3 * ~mask)
    ground, moved = ax.images[1].get_array(), weights(mask) - weights(EVERYTHING)
    assert (ground[moved > 1e-9][:, 2] > ground[moved > 1e-9][:, 0]).all()
    assert (ground[moved < -1e-9][:, 2] < ground[moved < -1e-9][:, 0]).all()


def test_the_line_goes_down_the_stairs_of_the_diagonal():
    (ax,) = draw(EVERYTHING)[0].axes
    left, right, bottom, top = ax.images[0].get_extent()
    ((x, y),) = [line.get_data() for line in ax.lines]
    column, row = (x - left) / (right - left) * 8, (y - top) / (bottom - top) * 8
    np.testing.assert_allclose(column, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7])
    np.testing.assert_allclose(row, [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7])


SAID = {
    "everything": "0 of 64 cells are hidden, and 28 of the 28 that look into the future are open. Every row "
    "sums to 1. 它 gives 我 0.04.",
    "causal": "28 of 64 cells are hidden, and 0 of the 28 that look into the future are open. Every row sums "
    "to 1. No row loses more than 一个: what is hidden from it held 0.89, and what it still sees, 3 keys, "
    "has 9.03 times the weight it had. 它 gives 我 0.04.",
    "the last two are padding": "16 of 64 cells are hidden, and 15 of the 28 that look into the future are "
    "open. Every row sums to 1. No row loses more than 我: what is hidden from it held 0.25, and what it "
    "still sees, 6 keys, has 1.33 times the weight it had. 它 gives 我 0.04.",
    "nothing": "64 of 64 cells are hidden, and 0 of the 28 that look into the future are open. No query sees "
    "a key, and all weights are 0.",
}


@pytest.mark.parametrize("name", SAID)
def test_the_words_of_whole_masks(name):
    assert drawn(name)[1] == SAID[name]


def test_the_words_of_one_hidden_cell_one_visible_key_and_two_empty_rows():
    one = draw(hidden_from(IT, APPLE))[1]
    assert one.startswith("1 of 64 cells is hidden, and 28 of the 28") and one.endswith("它 gives 我 0.14.")
    assert "held 0.74, and what it still sees, 7 keys, has 3.87 times" in one
    alone = draw(hidden_from(IT, *range(1, 8)))[1]
    assert "held 0.96, and what it still sees, 1 key, has 27.09 times" in alone
    assert alone.endswith("它 gives 我 1.00.")
    ahead = np.tri(8, dtype=bool)
    ahead[[0, 3]] = False
    ahead[1, 7] = True
    said = draw(ahead)[1]
    assert "1 of the 28 that look into the future is open." in said
    assert "Nothing is seen by 我 and 苹果, and all weights there are 0; every other row sums to 1. " in said
    assert "No other row loses more than 一个" in said


def test_only_alone_does_a_word_that_matches_nothing_get_more_than_half():
    """The lesson's puzzle, by trying all rows: seven cells must be hidden, and six give a half."""
    best = {}
    for row in itertools.product([True, False], repeat=8):
        mask = EVERYTHING.copy()
        mask[IT] = row
        best[8 - sum(row)] = max(best.get(8 - sum(row), 0), float(weights(mask)[IT, ME]))
    assert [round(best[n], 2) for n in range(8)] == [0.04, 0.14, 0.17, 0.2, 0.25, 0.33, 0.5, 1.0]


def test_every_mask_is_drawn_at_one_size_with_its_texts_inside_and_large_enough():
    for name in MASKS:
        fig, _ = drawn(name)
        assert tuple(fig.get_size_inches() * fig.dpi) == (1000, 450)
        (ax,), renderer = fig.axes, FigureCanvasAgg(fig).get_renderer()
        for text in ax.texts:
            box = text.get_window_extent(renderer)
            assert 0 < box.x0 < box.x1 < 1000 and 0 < box.y0 < box.y1 < 450, text
            assert text.get_fontsize() >= 14, text
        boxes = np.array([text.get_window_extent(renderer).extents for text in ax.texts])
        apart = (boxes[:, None, 2:] <= boxes[:, :2]).any(-1)
        assert (apart | apart.T | np.eye(len(boxes), dtype=bool)).all(), "one text lies on another"


def test_numbers_fit_their_cells():
    fig, _ = drawn("nothing")
    (ax,), renderer = fig.axes, FigureCanvasAgg(fig).get_renderer()
    widest = max(text.get_window_extent(renderer).width for text in ax.texts if text.get_text()[0] == MINUS)
    left, right, *_ = ax.images[1].get_extent()
    assert widest < (right - left) / 8


@pytest.mark.parametrize(
    ("mask", "error", "said"),
    [
        (np.ones((7, 8), bool), ValueError, r"mask has shape \(7, 8\), but the labels call for \(8, 8\)"),
        (np.ones((8, 8)), TypeError, "mask must be boolean, True where a query may attend; got float64"),
        ([[True] * 8, [True]], TypeError, "mask must be an array; its rows are not equally long"),
    ],
)
def test_a_wrong_mask_is_refused_in_a_sentence(mask, error, said):
    with pytest.raises(error, match=said):
        draw(mask)


@pytest.fixture
def parts():
    """The grid, its checkboxes by place, the buttons by name, the page."""
    box, _, page = mask_view().widget().children
    buttons, grid = box.children
    boxes = np.array([child for child in grid.children if isinstance(child, Checkbox)]).reshape(8, 8)
    return grid, boxes, {button.description: button for button in buttons.children}, page


def ticked(boxes):
    return [[box.value for box in row] for row in boxes]


def test_at_first_one_cell_is_hidden(parts):
    grid, boxes, _, page = parts
    assert ticked(boxes) == hidden_from(IT, APPLE).tolist()
    assert "1 of 64 cells is hidden" in page.value


def test_a_tick_is_in_the_value_and_in_the_words(parts):
    grid, boxes, _, page = parts
    boxes[IT, ME].value = False
    np.testing.assert_array_equal(grid.value, hidden_from(IT, APPLE, ME))
    assert "2 of 64 cells are hidden" in page.value and "它 gives 我 0." in page.value
    boxes[IT, APPLE].value = True
    np.testing.assert_array_equal(grid.value, hidden_from(IT, ME))
    assert "1 of 64 cells is hidden" in page.value


@pytest.mark.parametrize("name", PRESETS)
def test_a_button_sets_the_whole_mask_and_the_figure_is_drawn_once(parts, name):
    grid, boxes, buttons, page = parts
    pages = []
    page.observe(lambda change: pages.append(change.new), "value")
    buttons[name].click()
    assert ticked(boxes) == PRESETS[name].tolist()
    assert len(pages) == 1 and draw(PRESETS[name])[1] in pages[0]


def test_each_checkbox_says_who_may_look_at_whom_and_buttons_come_first(parts):
    _, boxes, buttons, _ = parts
    names = [[box.description for box in row] for row in boxes]
    assert names == [[f"{query} may look at {key}" for key in TOKENS] for query in TOKENS]
    assert [*buttons] == [*PRESETS] and all(isinstance(button, Button) for button in buttons.values())


def test_grids_do_not_share_what_is_painted():
    first, second = (MaskGrid(TOKENS, TOKENS, EVERYTHING.tolist()) for _ in range(2))
    first.value = PRESETS["nothing"].tolist()
    assert np.all(second.value) and not np.any(first.value)


@pytest.mark.parametrize("shape", [(1, 3), (2, 2)])
def test_a_value_of_another_size_is_refused(shape):
    grid = MaskGrid("ab", "xyz", [[True] * 3] * 2)
    with pytest.raises(ValueError, match="shorter"):
        grid.value = np.ones(shape, bool).tolist()


def test_without_ipywidgets_the_view_stands_still(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert mask_view().widget() is None

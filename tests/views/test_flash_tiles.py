"""Tiles moved by hand: the walk against attention and against loops over pairs, and what is drawn of it."""

import io

import ipywidgets
import numpy as np
import pytest
from matplotlib.colors import to_rgba
from PIL import Image

from attnlib import attention, tiled_attention
from attnlib.analysis.roofline import flash_accesses, standard_accesses
from attnlib.datasets import running_example
from attnlib.efficient.tiles import row_blocks
from attnlib.plots.notebook import drawn
from attnlib.plots.style import PALETTE
from attnlib.views import tiles_view
from attnlib.views.flash_tiles import controls, draw, finished, held, moved, walk
from attnlib.views.head import queries_and_keys

ZH = running_example().zh
SHAPES = [(queries, keys) for queries in range(1, 9) for keys in range(1, 9)]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def filled(ax):
    """Which bars are filled, counted from 1."""
    (bars,) = ax.collections
    return [i for i, fill in enumerate(bars.get_facecolors(), start=1) if tuple(fill) == to_rgba(PALETTE[0])]


def hatched(ax):
    """Cells as (query, key)."""
    (cells,) = [cells for cells in ax.collections if cells.get_hatch()]
    return {tuple(path.vertices.min(0)[::-1]) for path in cells.get_paths()}


def heights(ax):
    (bars,) = ax.collections
    return np.array([path.vertices[:, 1].max() for path in bars.get_paths()])


def test_the_scores_are_those_of_the_lesson():
    """Links of four words, each three quarters of a row of weights."""
    q, k = queries_and_keys()
    wanted = np.zeros((8, 8))
    for asking, asked in (("吃了", "我"), ("一个", "苹果"), ("它", "苹果"), ("甜", "它")):
        wanted[ZH.index(asking), ZH.index(asked)] = 3
    np.testing.assert_array_equal(q @ k.T / 2, wanted)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_ends_at_attention(shape, causal):
    q, k = queries_and_keys()
    last = walk(*shape, causal)[-1]
    np.testing.assert_allclose(last.weights, attention(q, k, np.eye(8), causal=causal), atol=1e-12)
    out, lse = tiled_attention(q, k, np.eye(8), causal=causal, block=shape, return_lse=True)
    np.testing.assert_allclose(last.weights, out, atol=1e-12)
    np.testing.assert_allclose(last.m + np.log(last.l), lse, atol=1e-12)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (8, 1), (5, 2), (2, 7)])
def test_each_step_is_what_its_pairs_say(shape, causal):
    """Maximum, sum and weights made anew of all pairs that have met."""
    q, k = queries_and_keys()
    s, gone, tops = q @ k.T / 2, np.zeros((8, 8), bool), np.full(8, -np.inf)
    hidden = ~np.tri(8, dtype=bool) & causal
    ends = np.minimum(np.arange(8) // shape[0] * shape[0] + shape[0], 8) if causal else 8
    tiles = walk(*shape, causal)
    for step, tile in enumerate(tiles, start=1):
        had = gone.any(1)
        gone[tile.rows, tile.keys] = True
        met = gone & ~hidden
        for i in range(8):
            seen = s[i, met[i]]
            if not len(seen):
                assert tile.l[i] == 0 and not tile.weights[i].any()
                continue
            assert tile.m[i] == seen.max()
            assert tile.l[i] == pytest.approx(np.exp(seen - seen.max()).sum())
            np.testing.assert_allclose(tile.weights[i, met[i]], np.exp(seen) / np.exp(seen).sum())
            assert not tile.weights[i, ~met[i]].any()
            rose = seen.max() > tops[i] and had[i]
            assert tile.factor[i] == pytest.approx(np.exp(tops[i] - seen.max()) if rose else 1)
            tops[i] = seen.max()
        np.testing.assert_array_equal(finished(tiles, step), gone.sum(1) == ends)


@pytest.mark.parametrize(
    ("shape", "rescaled"), [((3, 1), 3), ((3, 3), 3), ((1, 3), 3), ((3, 4), 1), ((8, 4), 1), ((3, 6), 0)]
)
def test_rescalings_depend_on_the_width_alone(shape, rescaled):
    assert sum((tile.factor < 1).sum() for tile in walk(*shape, False)) == rescaled


@pytest.mark.parametrize("queries", range(1, 9))
def test_the_way_is_counted_by_blocks(queries):
    """Each block of queries and its outputs go once; each tile's keys and values come."""
    high = 32 * queries
    for causal in (False, True):
        fetched = 0
        for rows, tiles in row_blocks(4096, 4096, (high, 128), causal):
            fetched += 2 * 64 * (rows.stop - rows.start)
            fetched += sum(2 * 64 * (keys.stop - keys.start) for keys, _ in tiles)
        assert moved(queries, causal) == fetched


def test_the_way_is_the_lesson_s_formula():
    """2 n d + 8 n² d² / M where half of the fast memory, M/2, is 2 d numbers a row."""
    for queries in (1, 2, 4, 8):
        memory = 4 * 64 * 32 * queries
        assert moved(queries, False) == 2 * 4096 * 64 + 8 * 4096**2 * 64**2 // memory
        # The first paper's loop lets outputs go back and forth: three halves of this, for many blocks.
        assert 1.4 < flash_accesses(4096, 64, memory) / moved(queries, False) < 1.55


def test_fast_memory_holds_what_a_tile_needs():
    for queries, keys in SHAPES:
        high, wide = 32 * queries, 32 * keys
        parts = [np.empty((high, 64)), np.empty((high, 64)), np.empty((wide, 64)), np.empty((wide, 64)),
                 np.empty((high, wide)), np.empty(high), np.empty(high)]  # fmt: skip
        assert held(queries, keys) == sum(part.size for part in parts)


def test_only_height_saves_and_the_best_tile_that_fits_is_narrow():
    fit = [shape for shape in SHAPES if held(*shape) <= 51_200]
    assert min(fit, key=lambda shape: moved(shape[0], False)) == (8, 1)
    assert [shape for shape in fit if shape[0] == 8] == [(8, 1)]
    assert moved(1, False) < standard_accesses(4096, 64) < 1.01 * moved(1, False)


def test_the_figure_shows_what_is_done_what_is_now_and_what_is_kept():
    fig, words = draw(3, 3, 8, False)
    board, slow, fast = fig.axes
    done, weights = (image.get_array() for image in board.images)
    wanted = np.ones((8, 8))
    wanted[6:, 3:] = 0
    np.testing.assert_array_equal(done, wanted)
    np.testing.assert_allclose(weights, walk(3, 3, False)[7].weights)
    # 甜 has met 它: 3 e⁻³ + 2 e⁻³ + 1, and 1 of it is its own.
    assert weights[7, 5] == pytest.approx(1 / (5 * np.exp(-3) + 1))
    frames = board.collections[-1].get_paths()
    corners = [tuple(path.vertices[[0, 2]].ravel().round(2)) for path in frames]
    assert corners == [(3, 6, 6, 8), (12.25, 6, 20.35, 8)]
    said = texts(board)
    assert said.count("× 0.05") == 1 and said.count("1.25") == 1 and said.count("8.00") == 3
    assert "shaded: done    framed: now    white: to come" in said
    assert filled(slow) == filled(fast) == [3]
    assert words == (
        "Tiles of 3 by 3, step 8 of 9: queries 很 甜, keys 苹果 ， 它. For 甜 the largest score rises to 3, "
        "and the old sums are multiplied by 0.05. 6 of 8 rows are finished, within 1e-12 of attention. At "
        "4,096 tokens tiles 32 times as large, 96 by 96, move 23.1 million numbers to and from slow memory, "
        "the table 68.2; fast memory must hold 33,984 and has room for 51,200."
    )


def test_skipped_tiles_are_hatched_and_hidden_scores_are_minus_infinity():
    fig, words = draw(3, 3, 2, True)
    board = fig.axes[0]
    wanted = np.zeros((8, 8))
    wanted[:3, :3] = 1
    np.testing.assert_array_equal(board.images[0].get_array(), wanted)
    ahead = {(query, key) for query in range(8) for key in range(8) if key >= 3 * (query // 3 + 1)}
    assert hatched(board) == ahead
    assert "shaded: done    framed: now    hatched: skipped" in texts(board)
    assert "−∞" not in texts(board)
    assert texts(draw(3, 3, 3, True)[0].axes[0]).count("−∞") == 3
    assert words.startswith("Causal tiles of 3 by 3, step 2 of 6: queries 苹果 ， 它, keys 我 吃了 一个. No ")
    assert hatched(draw(3, 3, 8, False)[0].axes[0]) == set()


@pytest.mark.parametrize(
    ("queries", "keys", "causal"), [(1, 1, False), (4, 8, False), (8, 1, True), (8, 8, False)]
)
def test_bars_are_costs_of_every_height(queries, keys, causal):
    _, slow, fast = draw(queries, keys, 1, causal)[0].axes
    table, most = standard_accesses(4096, 64), held(8, 8)
    np.testing.assert_allclose(heights(slow) * table, [moved(n, causal) for n in range(1, 9)])
    np.testing.assert_allclose(heights(fast) * most, [held(n, keys) for n in range(1, 9)])
    assert slow.lines[0].get_ydata()[0] == 1 and fast.lines[0].get_ydata()[0] == 51_200 / most
    assert filled(slow) == filled(fast) == [queries]
    assert ("too many" in " ".join(texts(fast))) == (held(queries, keys) > 51_200)
    assert f"{32 * queries}" in texts(slow)


def test_words_name_all_rows_that_are_rescaled_and_none_before_the_first():
    assert "For 一个 它 the largest score rises to 3" in draw(8, 1, 4, False)[1]
    first = draw(8, 8, 1, False)[1]
    assert "No sum is rescaled. 8 of 8 rows are finished, within 1e-12 of attention." in first
    assert "0 of 8 rows are finished. At" in draw(8, 1, 1, False)[1]


def test_words_say_by_how_much_a_wrong_walk_is_off(monkeypatch):
    wrong = [tile._replace(weights=tile.weights + 1e-3) for tile in walk(3, 3, False)]
    monkeypatch.setattr("attnlib.views.flash_tiles.walk", lambda *shape: wrong)
    assert "within 1e-03 of attention" in draw(3, 3, 9, False)[1]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ((0, 3, 1), "queries must be an integer from 1 to 8, as there are 8 words; got 0"),
        ((3, 9, 1), "keys must be an integer from 1 to 8, as there are 8 words; got 9"),
        ((3.0, 3, 1), "queries must be an integer from 1 to 8, as there are 8 words; got 3.0"),
        ((3, 3, 0), "step must be an integer from 1 to 9, as there are 9 tiles; got 0"),
        ((3, 3, 10), "step must be an integer from 1 to 9, as there are 9 tiles; got 10"),
    ],
)
def test_what_is_out_of_range_is_said(values, sentence):
    with pytest.raises(ValueError, match=f"^{sentence}$"):
        draw(*values, causal=False)


def test_pictures_have_one_size():
    states = (1, 1, 64, False), (8, 8, 1, True), (3, 5, 2, False), (5, 2, 3, True)
    assert {Image.open(io.BytesIO(drawn(draw(*state)[0]))).size for state in states} == {(1000, 560)}


def test_a_control_moves_the_figure_and_its_words():
    box, refused, page = tiles_view().widget().children
    _, keys, step, causal = box.children
    before = page.value
    step.value = 9
    assert "Tiles of 3 by 3, step 9 of 9" in page.value and page.value != before
    keys.value = 6
    assert "Tiles of 3 by 6, step 6 of 6" in page.value
    causal.value = True
    assert "Causal tiles of 3 by 6, step 4 of 4" in page.value
    assert refused.value == ""


@pytest.fixture
def moving():
    """The controls, watched: whenever one moves, as a view would draw, there is a tile for the step."""
    named, _ = controls(ipywidgets, **tiles_view().start)

    def watch(change):
        shape = [named[name].value for name in ("queries", "keys", "causal")]
        assert 1 <= named["step"].value <= len(walk(*shape))

    for control in named.values():
        control.observe(watch, "value")
    return named.values()


def test_the_step_stays_within_the_tiles_and_at_the_end_if_it_was_there(moving):
    queries, keys, step, causal = moving
    queries.value = 8  # three tiles, and the step was 8
    assert step.value == 3
    keys.value = 1  # it had come to the end
    assert step.value == 8
    step.value = 2
    queries.value = 1  # it had not
    assert step.value == 2
    for shape in SHAPES:
        (queries.value, keys.value), causal.value = shape, not causal.value
        assert step.max == len(walk(*shape, causal.value))
        step.value = step.max // 2 + 1


def test_every_control_has_a_name_and_its_ends(moving):
    queries, keys, step, _ = moving
    assert [control.description for control in moving] == [
        "queries in a tile", "keys in a tile", "step", "causal: skip what lies ahead",
    ]  # fmt: skip
    assert (queries.min, queries.max, keys.min, keys.max, step.min) == (1, 8, 1, 8, 1)

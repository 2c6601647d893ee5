"""attention_heatmap: what it draws, and what it refuses."""

import numpy as np
import pytest

from attnlib.plots import attention_heatmap
from attnlib.plots.style import WEIGHT_MAP


def cells(ax):
    return {(round(t.get_position()[1]), round(t.get_position()[0])): t.get_text() for t in ax.texts}


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_queries_go_down_and_keys_across(weights, words):
    fig = attention_heatmap(weights[:3], words[:3], words, title="Who looks where?")
    (ax,) = fig.axes
    (image,) = ax.images
    assert np.array_equal(image.get_array(), weights[:3])
    assert image.get_clim() == (0, 1) and image.get_cmap() is WEIGHT_MAP
    assert labels(ax.yaxis) == words[:3] and labels(ax.xaxis) == words
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key", "query")
    assert ax.get_ylim()[0] > ax.get_ylim()[1]            # the first query on top
    assert fig.get_suptitle() == "Who looks where?"


def test_numbers_stand_in_their_cells(weights, words):
    ax = attention_heatmap(weights, words, words).axes[0]
    assert cells(ax) == {index: f"{weight:.2f}" for index, weight in np.ndenumerate(weights)}


def test_exact_zero_is_a_bare_zero_and_ties_do_not_hang_on_the_last_bit():
    texts = cells(attention_heatmap([[0, 0.004, 0.125, 0.125 + 1e-12]], "q", "abcd").axes[0])
    assert list(texts.values()) == ["0", "0.00", "0.12", "0.12"]


@pytest.mark.parametrize("shape, count", [((8, 8), 1), ((9, 8), 0), ((8, 9), 0)])
def test_numbers_up_to_eight_by_eight(shape, count):
    fig = attention_heatmap(np.full(shape, 0.1), range(shape[0]), range(shape[1]))
    assert len(fig.axes[0].texts) == count * 64
    assert len(fig.axes) == 2 - count                      # without numbers a colour bar


def test_panels_share_words_and_scale(weights, words):
    fig = attention_heatmap({"a": weights, "b": weights.T}, words, words)
    first, second = fig.axes
    assert [ax.get_title() for ax in fig.axes] == ["a", "b"]
    assert first.images[0].get_clim() == second.images[0].get_clim() == (0, 1)
    assert np.array_equal(second.images[0].get_array(), weights.T)
    assert labels(first.yaxis) == labels(second.xaxis) == words
    assert labels(second.yaxis) == []


@pytest.mark.parametrize("word, rotation", [("wide", 0), ("transformer", 90)])
def test_long_words_stand_upright(weights, assert_readable, word, rotation):
    fig = attention_heatmap(weights, [word] * 8, [word] * 8)
    assert {label.get_rotation() for label in fig.axes[0].get_xticklabels()} == {rotation}
    assert_readable(fig)


@pytest.mark.parametrize("rows, columns, panels, word", [
    (1, 6, 1, "mmmmmm"), (8, 8, 2, "mmmmmmmmmmmm"), (4, 5, 3, "苹果"), (30, 40, 1, "word"),
])
def test_any_size_and_any_words_stay_readable(assert_readable, rows, columns, panels, word):
    weights = np.full((rows, columns), 1 / columns)
    fig = attention_heatmap(
        {n: weights for n in range(panels)}, [word] * rows, [word] * columns, title="A question?"
    )
    assert fig.bbox.height <= 500
    assert_readable(fig)


def test_three_maps_of_eight_keys_leave_no_room_for_numbers(weights, words):
    fig = attention_heatmap({n: weights for n in range(3)}, words, words)
    assert not any(ax.texts for ax in fig.axes)
    assert len(fig.axes) == 4                              # the colour bar


def test_torch_tensors_are_accepted():
    torch = pytest.importorskip("torch")
    tensor = torch.full((2, 2), 0.5, dtype=torch.bfloat16, requires_grad=True)
    fig = attention_heatmap(tensor, "ab", "ab")
    assert np.array_equal(fig.axes[0].images[0].get_array(), np.full((2, 2), 0.5))


@pytest.mark.parametrize("weights, error, message", [
    (np.zeros((2, 3)), ValueError, r"weights has shape \(2, 3\), but the labels call for \(2, 2\)"),
    ({"a": np.zeros((3, 2))}, ValueError, r"weights\['a'\] has shape \(3, 2\).*\(2, 2\)"),
    ({}, ValueError, "weights is an empty dict"),
    ([[0, 2], [0, 1]], ValueError, "weights runs from 0 to 2, .* between 0 and 1.*softmax"),
    ([[-1, 0], [0, 1]], ValueError, "weights runs from -1 to 1"),
    ([[np.nan, 0], [0, 1]], ValueError, "weights has 1 entries that are NaN or infinite"),
    ([[1], [0, 1]], TypeError, "weights must be an array of numbers, but is list"),
    ("no", TypeError, "weights must be an array of numbers, but is str"),
])
def test_bad_weights_are_named(weights, error, message):
    with pytest.raises(error, match=message):
        attention_heatmap(weights, "ab", "ab")


def test_bad_words_are_named():
    with pytest.raises(TypeError, match="queries must be a list of words, but is int"):
        attention_heatmap([[1]], 1, "a")
    with pytest.raises(ValueError, match="keys is empty"):
        attention_heatmap([[1]], "a", [])


def frames(ax):
    """How thick the frame of each cell is, on the white line below it."""
    return {(round(p.get_y() + 0.5), round(p.get_x() + 0.5)): p.get_linewidth()
            for p in ax.patches if p.get_edgecolor()[:3] != (1, 1, 1)}


def test_links_are_framed_in_every_panel_and_sure_ones_thicker(weights, words, assert_readable):
    fig = attention_heatmap({"a": weights, "b": weights.T}, words, words, title="Is it the alignment?",
                            sure={(0, 0), (3, 5)}, possible={(3, 5), (2, 3)})
    for ax in fig.axes:
        found = frames(ax)
        assert found.keys() == {(0, 0), (3, 5), (2, 3)}
        assert found[0, 0] == found[3, 5] > found[2, 3] > 0
    assert fig.get_supxlabel() == "thick frame: sure link    dashed frame: possible link"
    assert_readable(fig)


def test_without_links_there_is_no_legend(weights, words):
    fig = attention_heatmap(weights, words, words)
    assert not fig.get_supxlabel() and not fig.axes[0].patches


def test_many_links_stay_readable_beside_a_colour_bar(assert_readable):
    fig = attention_heatmap(np.full((12, 14), 0.1), ["transformer"] * 12, ["变形金刚"] * 14,
                            sure=[(i, i) for i in range(12)], title="Where?")
    assert len(frames(fig.axes[0])) == 12 and fig.bbox.height <= 500
    assert_readable(fig)


@pytest.mark.parametrize("links, error, message", [
    ({"sure": [(0, 2)]}, ValueError, r"sure links query 0 with key 2, .* call for \(2, 2\)"),
    ({"possible": [(-1, 0)]}, ValueError, "possible links query -1 with key 0"),
    ({"sure": [3]}, TypeError, r"sure must hold pairs \(query, key\); got 3"),
    ({"possible": [(1, 0, 0)]}, TypeError, "possible must hold pairs"),
])
def test_bad_links_are_named(links, error, message):
    with pytest.raises(error, match=message):
        attention_heatmap(np.full((2, 2), 0.5), "ab", "ab", **links)

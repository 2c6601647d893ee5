"""mask_maps: what it draws, and what it refuses."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from attnlib import causal_mask, window_mask
from attnlib.plots import mask_maps
from attnlib.plots.style import PALETTE


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_queries_go_down_keys_across_and_true_is_blue(words):
    mask = causal_mask(3, 8)
    fig = mask_maps(mask, words[:3], words, title="Who may look at whom?")
    (ax,) = fig.axes
    (image,) = ax.images
    assert np.array_equal(image.get_array(), mask)
    colours = image.cmap(image.norm(np.array([0, 1])))
    assert [to_hex(colour) for colour in colours] == ["#ffffff", PALETTE[0]]
    assert labels(ax.yaxis) == words[:3] and labels(ax.xaxis) == words
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("key", "query")
    assert ax.get_ylim()[0] > ax.get_ylim()[1]            # the first query on top
    assert fig.get_suptitle() == "Who may look at whom?"
    assert fig.get_supxlabel() == "dark blue: may attend    white: hidden"


def test_all_hidden_is_white_and_all_seen_is_blue():
    fig = mask_maps({"none": np.zeros((2, 2), bool), "all": np.ones((2, 2), bool)}, "ab", "ab")
    assert [ax.images[0].get_clim() for ax in fig.axes] == [(0, 1), (0, 1)]


def test_panels_have_titles_and_share_words(words):
    fig = mask_maps({"causal": causal_mask(8), "window": window_mask(8, 3)}, words, words)
    first, second = fig.axes
    assert [ax.get_title() for ax in fig.axes] == ["causal", "window"]
    assert np.array_equal(second.images[0].get_array(), window_mask(8, 3))
    assert labels(first.yaxis) == labels(second.xaxis) == words
    assert {label.get_rotation() for label in second.get_xticklabels()} == {0}
    assert labels(second.yaxis) == []


def test_keys_too_wide_for_their_columns_stand_upright_or_lie_on_their_side(words, assert_readable):
    mask = causal_mask(8)
    fig = mask_maps({n: mask for n in "abc"}, words, words, title="How far?")
    assert labels(fig.axes[0].xaxis) == ["我", "吃\n了", "一\n个", "苹\n果", "，", "它", "很", "甜"]
    assert {label.get_rotation() for label in fig.axes[0].get_xticklabels()} == {0}
    assert_readable(fig)
    english = ["I", "ate", "an", "apple", ",", "it", "was", "sweet"]
    fig = mask_maps({n: mask for n in "abc"}, words, english)
    assert labels(fig.axes[0].xaxis) == english
    assert {label.get_rotation() for label in fig.axes[0].get_xticklabels()} == {90}


@pytest.mark.parametrize("rows, columns, panels, word", [
    (1, 5, 1, "mmmmmm"), (8, 8, 4, "吃了"), (3, 8, 2, "transformer"), (30, 40, 1, "word"),
    (30, 40, 2, "吃了"), (8, 8, 4, "吃了一个"), (20, 20, 2, "，"),
])
def test_any_size_and_any_words_stay_readable(assert_readable, rows, columns, panels, word):
    mask = np.ones((rows, columns), bool)
    fig = mask_maps({n: mask for n in range(panels)}, [word] * rows, [word] * columns, title="A question?")
    assert fig.bbox.height <= 500
    assert_readable(fig)


def test_torch_tensors_are_accepted():
    torch = pytest.importorskip("torch")
    mask = torch.eye(2, dtype=torch.bool)
    assert np.array_equal(mask_maps(mask, "ab", "ab").axes[0].images[0].get_array(), np.eye(2))


@pytest.mark.parametrize("masks, error, message", [
    (np.ones((2, 3), bool), ValueError, r"masks has shape \(2, 3\), but the labels call for \(2, 2\)"),
    ({"a": np.ones((3, 2), bool)}, ValueError, r"masks\['a'\] has shape \(3, 2\)"),
    ({}, ValueError, "masks is an empty dict"),
    (np.ones((2, 2)), TypeError, "masks must be boolean, .* got float64"),
    ({"a": np.zeros((2, 2), int)}, TypeError, r"masks\['a'\] must be boolean"),
    ([[True], [True, False]], TypeError, "not equally long"),
    ("no", TypeError, "masks must be boolean"),
])
def test_bad_masks_are_named(masks, error, message):
    with pytest.raises(error, match=message):
        mask_maps(masks, "ab", "ab")

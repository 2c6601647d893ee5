"""weight_bars: what it draws, and what it refuses."""

import pytest

from attnlib.plots import weight_bars


def widths(ax):
    return [bar.get_width() for bar in ax.patches]


def test_bars_labels_and_numbers():
    fig = weight_bars(["苹果", "it", "我"], [0.75, 0.25, 0], title="Where?")
    (ax,) = fig.axes
    assert widths(ax) == [0.75, 0.25, 0]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["苹果", "it", "我"]
    assert [text.get_text() for text in ax.texts] == ["0.75", "0.25", "0"]
    assert [text.xy for text in ax.texts] == [(0.75, 0), (0.25, 1), (0, 2)]
    assert ax.get_ylim()[0] > ax.get_ylim()[1]            # the first label on top
    assert fig.get_suptitle() == "Where?" and ax.get_xlabel() == "weight"


def test_bars_of_another_share_say_of_what():
    fig = weight_bars("ab", {"small": [0.9, 0.1], "large": [0.4, 0.6]}, title="t", xlabel="share of all")
    assert {ax.get_xlabel() for ax in fig.axes} == {"share of all"}


def test_panels_share_the_scale_from_zero_to_one():
    fig = weight_bars("ab", {"soft": [0.5, 0.5], "sharp": [0.8, 0.2]}, title="t")
    assert [ax.get_title() for ax in fig.axes] == ["soft", "sharp"]
    assert [widths(ax) for ax in fig.axes] == [[0.5, 0.5], [0.8, 0.2]]
    for ax in fig.axes:
        assert ax.get_xlim()[0] == 0 and ax.get_xlim()[1] >= 1
        assert ax.get_xlim() == fig.axes[0].get_xlim() and ax.get_ylim() == fig.axes[0].get_ylim()
        assert ax.get_xticks().tolist() == [0, 0.5, 1]


def test_the_number_of_a_full_bar_stays_in_its_panel():
    fig = weight_bars("ab", {"hard": [1, 0], "harder": [0, 1]}, title="t")
    fig.draw_without_rendering()
    for ax in fig.axes:
        for text in ax.texts:
            assert text.get_window_extent().x1 <= ax.get_window_extent().x1


@pytest.mark.parametrize("weights, message", [
    ([0.5, 0.5, 0], r"weights has shape \(3,\), but the labels call for \(2,\)"),
    ({"x": [[0.5, 0.5]]}, r"weights\['x'\] has shape \(1, 2\)"),
    ({}, "weights is an empty dict"),
    ([3, 0], "weights runs from 0 to 3"),
])
def test_bad_weights_are_named(weights, message):
    with pytest.raises(ValueError, match=message):
        weight_bars("ab", weights, title="t")

"""Width and temperature: the map against a computation of its own, and words that say what is drawn."""

import re

import numpy as np
import pytest

from attnlib.views import saturation_view
from attnlib.views.saturation import (
    KEYS,
    QUERIES,
    TEMPERATURES,
    WIDTHS,
    draw,
    drawn,
    moved_weight,
    scores,
)


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize(("width", "temperature"), [(1, 0.25), (64, 1.0), (64, 8.0), (1024, 256.0)])
def test_the_moved_weight_is_the_median_of_what_was_lost(width, temperature):
    before, after = (softmax(scores(width, turned) / temperature) for turned in (False, True))
    lost = np.where(after < before, before - after, 0).sum(-1)
    assert moved_weight(width, temperature) == pytest.approx(np.median(lost), rel=1e-9)


def test_scores_are_those_of_normal_queries_and_keys():
    """The same mean, spread and share beyond two as products of vectors drawn in full."""
    width = 16
    rng = np.random.default_rng(5)
    q, k = rng.normal(size=(QUERIES, 1, width)), rng.normal(size=(QUERIES, KEYS, width))
    full = (q @ k.mT)[:, 0] / np.sqrt(width)
    short = scores(width) / np.sqrt(width)
    # 8,000 numbers each, of which those of one query share its length.
    assert abs(full.mean() - short.mean()) < 0.06
    assert full.std() == pytest.approx(short.std(), rel=0.05)
    assert np.mean(abs(full) > 2) == pytest.approx(np.mean(abs(short) > 2), abs=0.015)


def test_a_turn_is_a_tenth_of_the_length_and_lengths_grow_as_the_root():
    lengths, before, after = drawn()
    assert (after - before).std() == pytest.approx(0.1, rel=0.03)
    assert lengths[:, 1023].mean() == pytest.approx(32, rel=0.01)


@pytest.mark.parametrize("width", WIDTHS[4:])
def test_the_ridge_lies_below_the_root(width):
    best = max(TEMPERATURES, key=lambda t: moved_weight(width, t))
    assert np.sqrt(width) / 8 < best < np.sqrt(width) / 2
    assert moved_weight(width, 256.0) < 0.02 * np.sqrt(width)


def test_the_figure_shows_one_query_and_the_place_on_the_map():
    fig, words = draw(256, 4.0)
    bars, plane, _ = fig.axes
    heights = [bar.get_height() for bar in bars.patches]
    np.testing.assert_allclose(heights, softmax(scores(256)[0] / 4))
    np.testing.assert_allclose(plane.images[0].get_array()[8, 8], moved_weight(256, 4.0))
    assert {patch.get_xy() for patch in plane.patches} == {(7.5, 7.5)}
    assert words.startswith("Width 256, temperature 4, and the root of 256 is 16.")
    assert f"move {moved_weight(256, 4.0):.1%}" in words


def test_every_stop_of_both_controls_can_be_drawn_at_one_size():
    view = saturation_view()
    sizes = {tuple(draw(d, t)[0].get_size_inches()) for d in WIDTHS[::5] for t in TEMPERATURES[::10]}
    assert sizes == {(10.0, 5.0)}
    box, _, page = view.widget().children
    width, temperature = box.children
    assert [value for _, value in temperature.options] == [*TEMPERATURES]
    temperature.value, width.value = TEMPERATURES[-1], WIDTHS[-1]
    assert "Width 1024, temperature 256" in page.value


@pytest.mark.parametrize("width, temperature, sentence", [
    (3, 1.0, "width must be one of 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024; got 3"),
    (64, 3.0, "temperature must be one of 0.25, "),
])  # fmt: skip
def test_what_no_slider_has_is_refused(width, temperature, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        draw(width=width, temperature=temperature)

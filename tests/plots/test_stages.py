"""transformer_stages: what it draws, and what it refuses."""

import pytest

from attnlib.plots import transformer_stages

ZH, EN = "我 吃了 一个 苹果 ， 它 很 甜".split(), "<start> I ate an apple , it was sweet".split()


def words(ax):
    return [text.get_text().replace("-\n", "-").replace("\n", " ") for text in ax.texts if text.get_text()]


def test_both_sentences_and_four_stages_are_drawn():
    (ax,) = transformer_stages(ZH, EN, title="Where?").axes
    found = words(ax)
    assert ax.get_title() == "Where?"
    assert " ".join(ZH) in found and " ".join(EN) in found
    assert all(any(text.startswith(f"stage {n}") for text in found) for n in (1, 2, 3, 4))
    assert [found.count(part) for part in ("embedding + positions", "self-attention", "cross-attention",
                                           "causal self-attention", "feed-forward")] == [2, 1, 1, 1, 2]
    assert len(ax.patches) == 8 and "memory" in found


def test_the_memory_goes_down_from_the_encoder_to_the_cross_attention():
    (ax,) = transformer_stages("我爱你", ["<start>", "I"]).axes
    boxes = {text.get_text().replace("\n", ""): text.get_position() for text in ax.texts}
    down = [a for a in ax.texts if a.get_text() == "" and a.xy[0] == a.xyann[0] and a.xy[1] > a.xyann[1]]
    (arrow,) = down
    assert arrow.xy[0] == boxes["cross-attention"][0]


def test_long_sentences_stay_before_the_boxes():
    (ax,) = transformer_stages(ZH * 2, EN * 2).axes
    fig = ax.figure
    renderer = fig.canvas.get_renderer() if hasattr(fig.canvas, "get_renderer") else None
    first = min(patch.get_x() for patch in ax.patches)
    for text in ax.texts:
        if text.get_position()[0] < 10:
            box = text.get_window_extent(renderer).transformed(ax.transData.inverted())
            assert box.x1 < first - 30


def test_what_is_no_sentence_is_refused():
    with pytest.raises((ValueError, TypeError)):
        transformer_stages([], ["a"])
    with pytest.raises((ValueError, TypeError)):
        transformer_stages(3, ["a"])

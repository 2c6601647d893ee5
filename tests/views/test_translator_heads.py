"""Heads over a typed sentence: maps, frame and words against the model itself, and its controls."""

import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attnlib.analysis.maps import attention_maps
from attnlib.datasets import translation_pairs, translator
from attnlib.plots.style import PALETTE, TEXT
from attnlib.translation.recipe import PAIRS
from attnlib.translation.vocabulary import START
from attnlib.views import translator_view
from attnlib.views.translator_heads import ATTENTIONS, LEARNED_FROM, MOST, SENTENCES, lessons_met, never_met

ZH, EN, CROSS = ATTENTIONS
LAYERS = dict(zip(ATTENTIONS, ("encoder.layers.0.self_attn", "decoder.layers.0.self_attn",
                               "decoder.layers.0.cross_attn"), strict=True))  # fmt: skip
OURS = "我吃了一个苹果，它很甜"
LONG = "孩子今天想在图书馆读一本小说"  # a child, two words for want to, and an article: eleven English words


@pytest.fixture(scope="module")
def model():
    return translator()


@pytest.fixture(scope="module")
def view():
    return translator_view()


def maps_of(model, zh, english):
    source = torch.tensor([model.zh_words.ids(zh).tolist()])
    target = torch.tensor([[START, *model.en_words.ids(english)]])
    return {name: w[0].numpy() for name, w in attention_maps(model.model, source, target).items()}


def drawn_maps(figure):
    """The maps of a figure, without its key of colours."""
    return [image for image in figure.axes[0].images if image.get_array().shape[0] > 1]


def texts(figure):
    return [text.get_text() for text in figure.axes[0].texts]


@pytest.mark.parametrize("attention, heads", [(ZH, 4), (EN, 4), (CROSS, 1)])
def test_the_maps_are_the_models_head_by_head(view, model, attention, heads):
    zh, english = "我 吃了 一个 苹果 ， 它 很 甜".split(), "I ate an apple , it was sweet".split()
    figure, words = view.draw(OURS, attention, 2)
    images = drawn_maps(figure)
    assert len(images) == heads
    # The step that writes the end has no word, so it has no row between the languages.
    wanted = maps_of(model, zh, english)[LAYERS[attention]][:, : 9 if attention == EN else 8]
    np.testing.assert_allclose([image.get_array() for image in images], wanted, atol=1e-5)
    assert {image.get_clim() for image in images} == {(0, 1)}
    lefts = [image.get_extent()[0] for image in images]
    assert lefts == sorted(lefts) and len({tuple(image.get_extent()[2:]) for image in images}) == 1
    assert f"written: {' '.join(english)}" in texts(figure) and words.startswith(
        f"The translator writes: {' '.join(english)}."
    )


def test_the_framed_row_its_largest_weight_and_the_words_agree(view, model):
    zh = tuple("我 吃了 一个 大 苹果 ， 它 很 甜".split())
    for asks in (1, 3, len(zh)):
        figure, words = view.draw("我吃了一个大苹果，它很甜", ZH, asks)
        rows = maps_of(model, zh, model([zh])[0])[LAYERS[ZH]][:, asks - 1]
        most = [f"{zh[row.argmax()]} {row.max():.2f}" for row in rows]
        assert set(most) <= set(texts(figure))
        for head, row in enumerate(rows):
            there = "itself" if row.argmax() == asks - 1 else zh[row.argmax()]
            assert re.search(rf"head {head} (looks most )?at {there} \({row.max():.2f}\)", words)
        assert f"When word {asks} ({zh[asks - 1]}) asks" in words
        frames = [patch for patch in figure.axes[0].patches if patch.get_linewidth() == 3]
        for frame, image in zip(frames, drawn_maps(figure), strict=True):
            left, right, bottom, top = image.get_extent()
            high = (bottom - top) / len(zh)
            np.testing.assert_allclose(frame.get_bbox().extents,
                                       (left, top + high * (asks - 1), right, top + high * asks))  # fmt: skip


def test_the_darkest_cells_and_the_share_of_the_start(view, model):
    zh, english = ("苹果", "吃了", "我"), ("the", "apple", "ate", "me")
    maps = maps_of(model, zh, english)
    _, words = view.draw("苹果吃了我", ZH, 1)
    for weights in maps[LAYERS[ZH]]:
        row, column = np.argwhere(weights == weights.max())[0]
        assert f"{zh[row]} at {'itself' if row == column else zh[column]} ({weights.max():.2f})" in words
    _, words = view.draw("苹果吃了我", EN, 1)
    shares = [f"{weights[1:, 0].mean():.2f}" for weights in maps[LAYERS[EN]]]
    assert f"start has {', '.join(shares[:3])} and {shares[3]} of the weight" in words


def test_a_step_between_the_languages_looks_at_its_word_and_steps_back_are_counted(view, model):
    for text in ("你 昨天 看见 的 狗 很 小", "我 吃了 一个 苹果", "我 吃了 一个 苹果 ， 它 很 甜"):
        zh = text.split()
        (weights,) = model.cross_attention([(zh, model([zh])[0])])[0]
        looked = weights.argmax(-1).tolist()
        back = sum(b < a for a, b in zip(looked[:-1], looked[1:], strict=True))
        words = view.draw(text, CROSS, 1)[1]
        assert words.endswith(f"than the one before: {back}.")
        assert f") its one head looks most at {zh[looked[0]]} ({weights[0].max():.2f})." in words


def test_a_sentence_of_a_kind_that_it_never_met_is_said_to_be_one(view):
    says = "None of the 20,000 sentences that it learned from "
    assert view.draw("苹果吃了我", ZH, 1)[1].endswith(says + "begins with 苹果.")
    assert view.draw("我喝了一杯狗", CROSS, 1)[1].endswith(says + "has 狗 right after 一杯.")
    assert view.draw("我吃了", EN, 1)[1].endswith(says + "ends with 吃了.")
    assert says not in view.draw("我爱你", ZH, 1)[1]


def test_what_it_met_is_what_it_was_trained_on():
    assert LEARNED_FROM == PAIRS
    met = {pair for p in translation_pairs(PAIRS, 0)
           for pair in zip((None, *p.zh), (*p.zh, None), strict=True)}  # fmt: skip
    # Not met, so that all sentences are drawn.
    assert never_met(("苹果", "吃了", "我")) == [(None, "苹果"), ("苹果", "吃了"), ("吃了", "我")]
    assert lessons_met()[0] == met
    assert never_met(("我", "甜", "甜")) == [("我", "甜"), ("甜", "甜")]


def test_a_long_translation_is_cut_off_and_says_so(view, model):
    for attention in (EN, CROSS):
        figure, words = view.draw(LONG, attention, MOST)
        assert all(len(image.get_array()) == MOST for image in drawn_maps(figure))
        left_out = len(words.split(".")[0].split(": ")[1].split()) - MOST + (attention == EN)
        assert left_out > 0 and f"Rows left out at the end: {left_out}." in words
    assert "left out" not in view.draw(OURS, EN, 9)[1] + view.draw(OURS, CROSS, 8)[1]
    # It finds no end: more words than the line above the maps can hold.
    figure, _ = view.draw("明天", ZH, 1)
    (written,) = [text for text in figure.axes[0].texts if text.get_text().startswith("written: ")]
    assert written.get_text().endswith(" …")
    assert written.get_window_extent(FigureCanvasAgg(figure).get_renderer()).x1 < 800


def test_all_words_stand_inside_and_apart(view):
    for sentence in (SENTENCES[0], "他们上周在图书馆训练了一个变形金刚", LONG, "我", "变压器在训练我"):
        for attention in ATTENTIONS:
            figure, _ = view.draw(sentence, attention, 1)
            assert tuple(figure.get_size_inches()) == (10.0, 5.0)
            renderer, shown = FigureCanvasAgg(figure).get_renderer(), figure.axes[0].texts
            boxes = [text.get_window_extent(renderer) for text in shown]
            assert all(box.x0 >= 0 and box.y0 >= 0 and box.x1 <= 1000 and box.y1 <= 500 for box in boxes)
            assert all(text.get_fontsize() >= TEXT for text in shown)
            for i, box in enumerate(boxes):
                for other in boxes[i + 1 :]:
                    across = min(box.x1, other.x1) - max(box.x0, other.x0)
                    along = min(box.y1, other.y1) - max(box.y0, other.y0)
                    assert min(across, along) < 4, (sentence, attention)


def test_the_asking_word_has_the_colour_of_its_frame(view):
    figure, _ = view.draw(OURS, ZH, 6)
    marked = [text.get_text() for text in figure.axes[0].texts if text.get_color() == PALETTE[1]]
    assert marked[:2] == ["它", "它"] and len(marked) == 6


def test_what_cannot_be_drawn_is_said_in_a_sentence(view):
    with pytest.raises(ValueError, match="^No word is known for 企鹅"):
        view.draw("我喜欢企鹅", ZH, 1)
    assert "has 10 words" not in view.draw("我" * 10, ZH, 10)[1]
    with pytest.raises(ValueError, match="^The sentence has 11 words, and at most 10 can be drawn"):
        view.draw("我" * 11, ZH, 1)
    for asks in (0, 9):
        with pytest.raises(ValueError, match=f"^asks must be an integer from 1 to 8, .*; got {asks}$"):
            view.draw(OURS, ZH, asks)


@pytest.fixture
def widget(view):
    """The controls by name, and the parts below them."""
    box, refused, page = view.widget().children
    (sentence, chosen), (attention, asks) = (row.children for row in box.children[:2])
    return {"sentence": sentence, "chosen": chosen, "attention": attention, "asks": asks,
            "known": box.children[2], "refused": refused, "page": page}  # fmt: skip


def test_each_control_draws_anew(widget):
    def picture():
        return re.search('base64,([^"]+)', widget["page"].value)[1]

    for name, value, said in (
        ("asks", 4, "When word 4 (大) asks"),
        ("attention", CROSS, "In step 4 (a → big)"),
        ("sentence", "我爱你", "I love you"),
        ("chosen", SENTENCES[3], "the dog that you saw"),
    ):
        before = picture()
        widget[name].value = value
        assert said in widget["page"].value and picture() != before
    assert widget["sentence"].value == SENTENCES[3]


def test_the_slider_follows_the_rows_and_the_choice_the_sentence(widget):
    asks = widget["asks"]
    assert (asks.min, asks.max, asks.value) == (1, 9, 3)
    asks.value = 9
    widget["sentence"].value = "我爱你"
    assert (asks.max, asks.value, widget["chosen"].value) == (3, 3, None)
    widget["attention"].value = EN
    assert asks.max == 4
    widget["sentence"].value = SENTENCES[1]
    assert widget["chosen"].value == SENTENCES[1] and asks.max == 9
    assert widget["refused"].value == ""


def test_a_mistake_is_said_above_the_last_figure_and_goes_away(widget):
    before = widget["page"].value
    widget["sentence"].value = "我喜欢企鹅"
    assert "No word is known for 企鹅" in widget["refused"].value and widget["page"].value == before
    widget["sentence"].value = "我喜欢狗"
    assert widget["refused"].value == "" and widget["page"].value != before


def test_every_sentence_to_choose_can_be_drawn_with_every_attention(view):
    for sentence in SENTENCES:
        for attention in ATTENTIONS:
            assert view.draw(sentence, attention, 1)[1].startswith("The translator writes: ")


def test_the_words_that_it_knows_are_listed(widget, model):
    listed = re.search("<p[^>]*>(.*)</p>", widget["known"].value)[1].split()
    assert listed == list(model.zh_words)[3:] and "The 129 words" in widget["known"].value


def test_the_module_loads_no_torch():
    code = "import sys; from attnlib.views import translator_heads; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"

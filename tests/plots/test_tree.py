"""word_tree: where words and questions stand, and what it refuses."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from attnlib import huffman_tree
from attnlib.plots import word_tree
from attnlib.plots.style import PALETTE

WORDS = ["an", "it", "was", "I", "apple"]
CHAIN = huffman_tree(np.array([1851, 1487, 275, 183, 2]))
EVEN = huffman_tree(np.ones(5))


def place_of(fig, word, panel=0):
    (text,) = [t for t in fig.axes[panel].texts if t.get_text() == word]
    return text.xy


def edges(ax):
    return [line for line in ax.lines if len(line.get_xdata()) == 2]


def thick(ax):
    return [line for line in edges(ax) if to_rgb(line.get_color()) == to_rgb(PALETTE[1])]


def test_a_word_hangs_as_many_steps_down_as_its_code_is_long():
    fig = word_tree(WORDS, CHAIN, title="How far?")
    (ax,) = fig.axes
    lengths = (CHAIN.codes >= 0).sum(-1)
    for word, length in zip(WORDS, lengths, strict=True):
        assert place_of(fig, word)[1] == length
    assert ax.get_ylim()[0] > ax.get_ylim()[1]                  # the root on top
    assert fig.get_suptitle() == "How far?" and ax.get_ylabel() == "questions"


def test_turn_zero_is_on_the_left_and_every_edge_says_its_turn():
    (ax,) = word_tree(WORDS, CHAIN, title="t").axes
    assert len(edges(ax)) == 8
    turns = [text.get_text() for text in ax.texts if text.get_text() in ("0", "1")]
    assert turns == ["0", "1"] * 4
    for zero, one in zip(edges(ax)[::2], edges(ax)[1::2], strict=True):
        assert zero.get_xdata()[1] < zero.get_xdata()[0] < one.get_xdata()[1]


def test_each_word_has_a_column_of_its_own():
    fig = word_tree(WORDS, CHAIN, title="t")
    assert sorted(place_of(fig, word)[0] for word in WORDS) == [0, 1, 2, 3, 4]


def test_the_path_of_a_word_is_thick_from_root_to_leaf():
    (ax,) = word_tree(WORDS, CHAIN, path=3, title="t").axes
    ends = sorted((min(line.get_ydata()), max(line.get_ydata())) for line in thick(ax))
    assert ends == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert any(tuple(line.get_xydata()[1]) == place_of(ax.figure, "I") for line in thick(ax))
    assert not thick(word_tree(WORDS, CHAIN, title="t").axes[0])


def test_inner_nodes_carry_their_texts(texts):
    fig = word_tree(WORDS, CHAIN, inner=["185", "460", "1947", "3798"], title="t")
    shown = {text.get_text(): text.get_position() for text in texts(fig)}
    assert [shown[n][1] for n in ("3798", "1947", "460", "185")] == [0, 1, 2, 3]


def test_two_trees_side_by_side_on_one_scale(assert_readable):
    inner = {"even": range(1, 5), "as seen": ["185", "460", "1,947", "3,798"]}
    fig = word_tree(WORDS, {"even": EVEN, "as seen": CHAIN}, inner=inner, title="Which is nearer?")
    assert [ax.get_title() for ax in fig.axes] == ["even", "as seen"]
    assert fig.axes[0].get_ylim() == fig.axes[1].get_ylim()
    assert place_of(fig, "an", 1)[1] == 1 and place_of(fig, "an", 0)[1] in (2, 3)
    assert_readable(fig)


@pytest.mark.parametrize("n_words", [2, 8, 16])
def test_readable(assert_readable, n_words):
    words = ["我", "吃了", "一个", "苹果", "，", "它", "很", "甜"] * 2
    tree = huffman_tree(np.random.default_rng(0).integers(1, 30, n_words))
    assert_readable(word_tree(words[:n_words], tree, path=1, title="How far?"))


def test_a_torch_tree_will_do():
    torch = pytest.importorskip("torch")
    tensors = CHAIN._replace(children=torch.tensor(CHAIN.children))
    assert place_of(word_tree(WORDS, tensors, title="t"), "an")[1] == 1


CROSSED = CHAIN._replace(children=CHAIN.children[::-1])
TWICE = CHAIN._replace(children=np.where(CHAIN.children == 4, 3, CHAIN.children))


@pytest.mark.parametrize("words, trees, others, error, message", [
    (["a"], CHAIN, {}, ValueError, "words has 1 entries; a tree of 2 to 16"),
    (WORDS[:4], CHAIN, {}, ValueError, r"shape \(4, 2\), but 4 words call for \(3, 2\)"),
    (WORDS, np.ones((4, 2)), {}, TypeError, "trees must be a tree as huffman_tree makes it; got ndarray"),
    (WORDS, TWICE, {}, ValueError, "each word and each inner node but the root once"),
    (WORDS, {"x": CROSSED}, {}, ValueError, r"trees\['x'\].children must hold each word"),
    (WORDS, {}, {}, ValueError, "trees has 0 entries"),
    (WORDS, CHAIN, {"path": 5}, ValueError, "path must be the number of a word, 0 to 4; got 5"),
    (WORDS, CHAIN, {"inner": ["a"]}, ValueError, "inner has 1 texts, but the tree has 4"),
    (WORDS, {"x": CHAIN}, {"inner": {"y": None}}, ValueError, r"keys \['y'\], but must have those of trees"),
])
def test_what_cannot_be_drawn_is_named(words, trees, others, error, message):
    with pytest.raises(error, match=message):
        word_tree(words, trees, **others, title="t")

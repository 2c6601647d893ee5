import heapq

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import entropy, expected_code_length, huffman_tree


def shortest(counts):
    """The least sum of count times length, by a heap: each joining lengthens what is joined by one."""
    heap = [int(c) for c in counts]
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        total += joined
        heapq.heappush(heap, joined)
    return total


def walk(tree, word):
    """From the root by the word's turns; the nodes met, and where it ends."""
    n_words, node, met = len(tree.codes), 2 * len(tree.codes) - 2, []
    for code in tree.codes[word][tree.codes[word] >= 0]:
        met.append(node - n_words)
        node = tree.children[node - n_words][code]
    return met, node


def test_agrees_with_the_golden_tree_of_gensim(golden):
    g = golden("hsoftmax_gensim")
    tree = huffman_tree(g["in_counts"])
    np.testing.assert_array_equal(tree.codes, g["out_code"])
    np.testing.assert_array_equal(tree.points, g["out_point"])
    np.testing.assert_array_equal((tree.codes >= 0).sum(-1), g["out_len"])
    assert expected_code_length(tree, g["in_counts"]) == pytest.approx(1584 / 583, rel=1e-12)


many = st.lists(st.integers(0, 50) | st.integers(0, 10**12), min_size=2, max_size=40)


@given(many)
def test_no_tree_is_shorter_and_each_path_ends_at_its_word(counts):
    tree = huffman_tree(np.array(counts))
    lengths = (tree.codes >= 0).sum(-1)
    assert (lengths * np.array(counts, object)).sum() == shortest(counts)
    assert sum(0.5 ** lengths.astype(float)) == 1  # a full binary tree
    assert sorted(tree.children.ravel()) == list(range(2 * len(counts) - 2))
    for word in range(len(counts)):
        met, end = walk(tree, word)
        assert end == word and met == tree.points[word][: lengths[word]].tolist()
        assert (tree.codes[word][lengths[word] :] == -1).all()
        assert (tree.points[word][lengths[word] :] == -1).all()


@given(many)
def test_frequent_words_are_not_farther_and_the_rarer_side_has_turn_zero(counts):
    tree = huffman_tree(np.array(counts))
    lengths, c = (tree.codes >= 0).sum(-1), np.array(counts, object)
    for word in range(len(c)):
        assert all(lengths[c > c[word]] <= lengths[word])
    below = np.array([*counts, *[0] * (len(c) - 1)], object)
    for made, pair in enumerate(tree.children):
        assert below[pair[0]] <= below[pair[1]]
        below[len(c) + made] = below[pair].sum()
    assert list(below[len(c) :]) == sorted(below[len(c) :])


def test_ties_are_broken_as_in_word2vec():
    # Its comparison is strict: at a tie the inner node, made of 1 and 1, goes before the word with 2.
    tree = huffman_tree(np.array([2, 1, 1]))
    assert tree.codes.tolist() == [[1, -1], [0, 1], [0, 0]]
    assert tree.children.tolist() == [[2, 1], [3, 0]]
    four = huffman_tree(np.array([1, 1, 1, 1]))
    assert four.codes.tolist() == [[1, 1], [1, 0], [0, 1], [0, 0]]


def test_the_order_of_the_words_does_not_matter():
    counts = np.array([211, 120, 83, 59, 37, 29, 17, 11, 7, 5, 3, 1])
    shuffled = np.random.default_rng(0).permutation(12)
    tree, other = huffman_tree(counts), huffman_tree(counts[shuffled])
    np.testing.assert_array_equal(other.codes, tree.codes[shuffled])
    np.testing.assert_array_equal(other.points, tree.points[shuffled])


@given(many.filter(any))
def test_the_expected_length_lies_within_a_bit_of_the_entropy(counts):
    counts = np.array(counts)
    p = counts / counts.sum()
    bits = entropy(p) / np.log(2)
    length = expected_code_length(huffman_tree(counts), counts)
    assert bits - 1e-9 <= length < bits + 1 + 1e-9
    assert length <= np.ceil(np.log2(len(counts))) + 1e-9  # what a balanced tree needs at most


def test_counts_of_another_text_and_of_any_size():
    tree = huffman_tree(np.array([5, 2, 1]))
    assert expected_code_length(tree, np.array([0, 1, 1])) == 2
    assert expected_code_length(tree, np.array([1e308, 1e308, 0])) == 1.5
    assert expected_code_length(tree, np.array([2**62, 2**62, 2**62])) == pytest.approx(5 / 3)
    big = huffman_tree(np.full(4, 2**62))
    assert (big.codes >= 0).all() and big.codes.shape == (4, 2)


def test_probabilities_of_any_library_give_the_same_tree(lib):
    counts = np.array([211, 120, 83, 59, 37, 29, 17, 11, 7, 5, 3, 1])
    for dtype in (np.int32, np.uint8, np.float64, np.float16):
        tree = huffman_tree(lib.array(counts.astype(dtype)))
        np.testing.assert_array_equal(tree.codes, huffman_tree(counts).codes)
    assert expected_code_length(tree, lib.array(counts)) == expected_code_length(tree, counts)
    np.testing.assert_array_equal(huffman_tree(lib.array(counts / 1024)).points, tree.points)
    half = torch.tensor(counts[4:]).bfloat16()
    np.testing.assert_array_equal(huffman_tree(half).codes, huffman_tree(counts[4:]).codes)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: huffman_tree([1, 2]), TypeError, ["counts must be a NumPy array", "list"]),
        (lambda: huffman_tree(np.array([1])), ValueError, ["counts", "at least two words", "(1,)"]),
        (lambda: huffman_tree(np.ones((2, 2))), ValueError, ["counts must have shape (V,)", "(2, 2)"]),
        (lambda: huffman_tree(np.array([1.0, -0.5])), ValueError, ["counts must be finite", "-0.5"]),
        (lambda: huffman_tree(np.array([1.0, np.nan])), ValueError, ["counts must be finite", "nan"]),
        (lambda: huffman_tree(np.array(["a", "b"])), TypeError, ["counts must hold real numbers"]),
        (lambda: huffman_tree(np.array([True, False])), TypeError, ["counts must hold real numbers", "bool"]),
        (
            lambda: expected_code_length(huffman_tree(np.ones(3)), np.ones(4)),
            ValueError,
            ["counts must have one entry for each of the tree's 3 words; got 4"],
        ),
        (lambda: expected_code_length(huffman_tree(np.ones(3)), np.zeros(3)), ValueError, ["all be zero"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

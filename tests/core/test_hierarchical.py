import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import hierarchical_log_prob, hierarchical_log_softmax, huffman_tree

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
seeds = st.integers(0, 2**32 - 1)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def some_tree(n_words, seed=0):
    return huffman_tree(np.random.default_rng(seed).integers(1, 1000, n_words))


def by_hand(h, word, nodes, tree):
    """One number at a time, along the path."""
    p = 1.0
    for code, point in zip(tree.codes[word], tree.points[word], strict=True):
        if code >= 0:
            turn_zero = 1 / (1 + math.exp(-sum(a * b for a, b in zip(nodes[point], h, strict=True))))
            p *= turn_zero if code == 0 else 1 - turn_zero
    return p


def test_agrees_with_the_golden_scores_of_gensim(golden):
    g = golden("hsoftmax_gensim")
    tree = huffman_tree(g["in_counts"])
    vectors, nodes = g["p_vectors"].astype(float), g["p_syn1"][:-1].astype(float)
    (a, b), length = g["in_pairs"].T, g["out_len"]
    ours = sum(hierarchical_log_prob(vectors[i], j, nodes, tree) for i, j in ((a, b), (b, a)))
    assert (np.abs(ours - g["out_score"]) < 0.036 * (length[a] + length[b])).all()
    every = hierarchical_log_softmax(vectors, nodes, tree)
    np.testing.assert_allclose(every[b, a] + every[a, b], ours, **CLOSE)

    # gensim reads log sigmoid from a table: with its table the scores are its own.
    def tabled(h, word):
        used = tree.codes[word] >= 0
        x = (1 - 2 * tree.codes[word][used]) * (nodes[tree.points[word][used]] @ h)
        place = ((x[np.abs(x) < 6] + 6) * 83).astype(int)
        return -np.log1p(np.exp(-(place / 1000 * 2 - 1) * 6)).sum()

    table = [tabled(vectors[j], i) + tabled(vectors[i], j) for i, j in g["in_pairs"]]
    np.testing.assert_allclose(table, g["out_score"], atol=2e-6)


@given(seeds, st.integers(2, 12))
def test_each_word_is_the_product_of_its_turns_and_all_sum_to_one(seed, n_words):
    tree, h, nodes = some_tree(n_words, seed), normal(3, 4, seed=seed), normal(n_words - 1, 4, seed=seed + 1)
    p = np.exp(hierarchical_log_softmax(h, nodes, tree))
    np.testing.assert_allclose(p, [[by_hand(x, w, nodes, tree) for w in range(n_words)] for x in h], **CLOSE)
    np.testing.assert_allclose(p.sum(-1), 1, **CLOSE)
    q = hierarchical_log_softmax(torch.tensor(h), torch.tensor(nodes), tree)
    np.testing.assert_allclose(q.exp().numpy(), p, **CLOSE)


@given(seeds)
def test_one_word_is_what_it_is_among_all(seed):
    rng = np.random.default_rng(seed)
    tree, h, nodes = some_tree(9, seed), rng.normal(size=(2, 5, 3)), rng.normal(size=(8, 3))
    target = rng.integers(0, 9, (2, 5))
    every = hierarchical_log_softmax(h, nodes, tree)
    wanted = np.take_along_axis(every, target[..., None], -1)[..., 0]
    np.testing.assert_allclose(hierarchical_log_prob(h, target, nodes, tree), wanted, **CLOSE)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        words = torch.tensor(target).to(dtype)
        got = hierarchical_log_prob(torch.tensor(h), words, torch.tensor(nodes), tree)
        np.testing.assert_allclose(got.numpy(), wanted, **CLOSE)


def test_without_vectors_each_turn_is_even():
    tree = huffman_tree(np.array([8, 4, 2, 1, 1]))
    p = np.exp(hierarchical_log_softmax(np.ones((1, 3)), np.zeros((4, 3)), tree))
    np.testing.assert_allclose(p, [[1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 16]], **CLOSE)


def test_vectors_of_the_other_sign_are_those_of_fasttext():
    # Its turn 1 has sigmoid(+x): along the same path the products of 1 - what ours give turn 1.
    tree, h, nodes = some_tree(7), normal(3), normal(6, 3, seed=1)
    ours = np.exp(hierarchical_log_softmax(h, -nodes, tree))
    for word in range(7):
        used = tree.codes[word] >= 0
        x = nodes[tree.points[word][used]] @ h
        turn_one = 1 / (1 + np.exp(-x))
        theirs = np.where(tree.codes[word][used] == 1, turn_one, 1 - turn_one).prod()
        np.testing.assert_allclose(ours[word], theirs, **CLOSE)


def test_products_of_any_size(lib):
    tree = huffman_tree(np.array([2, 1]))
    h = lib.array(np.array([[1000.0], [-1000.0], [0.0]]))
    with np.errstate(over="raise"):
        got = lib.numpy(hierarchical_log_softmax(h, lib.array(np.ones((1, 1))), tree))
    np.testing.assert_allclose(got, [[-1000, 0], [0, -1000], [-math.log(2)] * 2], atol=1e-12)
    target = lib.array(np.array([0, 0, 1]))
    got = lib.numpy(hierarchical_log_prob(h, target, lib.array(np.ones((1, 1))), tree))
    np.testing.assert_allclose(got, [-1000, 0, -math.log(2)], atol=1e-12)


@pytest.mark.parametrize("size", [0.0, 1.0])
def test_gradients_also_where_all_products_are_zero(size):
    tree, target = some_tree(6), torch.tensor([0, 5, 2])
    h = torch.tensor(normal(3, 4), requires_grad=True)
    nodes = torch.tensor(size * normal(5, 4, seed=1), requires_grad=True)
    assert torch.autograd.gradcheck(lambda h, n: hierarchical_log_softmax(h, n, tree), (h, nodes))
    assert torch.autograd.gradcheck(lambda h, n: hierarchical_log_prob(h, target, n, tree), (h, nodes))


def test_only_the_nodes_on_the_path_learn():
    tree, nodes = huffman_tree(np.array([8, 4, 2, 1, 1])), torch.ones(4, 3, requires_grad=True)
    hierarchical_log_prob(torch.ones(1, 3), torch.tensor([1]), nodes, tree).sum().backward()
    moved = nodes.grad.abs().sum(-1).nonzero().ravel().tolist()
    assert moved == sorted(tree.points[1][tree.points[1] >= 0].tolist())


def test_types_and_inputs(lib):
    tree = some_tree(5)
    h, nodes = normal(3, 4).astype(np.float16), normal(4, 4, seed=1).astype(np.float16)
    target = np.array([4, 0, 2])
    before = h.copy(), nodes.copy()
    got = hierarchical_log_prob(lib.array(h), lib.array(target), lib.array(nodes), tree)
    every = hierarchical_log_softmax(lib.array(h), lib.array(nodes), tree)
    assert lib.numpy(got).dtype == lib.numpy(every).dtype == np.float16
    exact = hierarchical_log_softmax(h.astype(np.float64), nodes.astype(np.float64), tree)
    np.testing.assert_allclose(lib.numpy(every), exact, rtol=2e-3)
    np.testing.assert_array_equal(h, before[0])
    np.testing.assert_array_equal(nodes, before[1])
    whole = hierarchical_log_softmax(lib.array(np.ones((2, 3), int)), lib.array(np.ones((4, 3), int)), tree)
    assert "float" in str(whole.dtype)
    single = hierarchical_log_prob(lib.array(h[0]), lib.array(np.array(4)), lib.array(nodes), tree)
    assert single.shape == () and lib.numpy(single) == lib.numpy(got)[0]


a, tree = np.ones, some_tree(5)
every = hierarchical_log_softmax


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: every(a((2, 3)), a((5, 3)), tree), ValueError, ["nodes", "4 inner", "(5, 3)"]),
        (lambda: every(a((2, 3)), a((4, 2)), tree), ValueError, ["nodes", "d = 3; got (4, 2)"]),
        (lambda: every([[1.0]], a((4, 1)), tree), TypeError, ["h must be a NumPy array", "list"]),
        (
            lambda: hierarchical_log_prob(a((2, 3)), np.array([1]), a((4, 3)), tree),
            ValueError,
            ["target must have one word for each state, shape (2,); got (1,)"],
        ),
        (
            lambda: hierarchical_log_prob(a((2, 3)), np.array([1, 5]), a((4, 3)), tree),
            ValueError,
            ["target must lie in 0 .. 4; got 5"],
        ),
        (
            lambda: hierarchical_log_prob(a((2, 3)), np.array([-1, 0]), a((4, 3)), tree),
            ValueError,
            ["target must lie in 0 .. 4; got -1"],
        ),
        (
            lambda: hierarchical_log_prob(a((2, 3)), np.array([1.0, 0]), a((4, 3)), tree),
            TypeError,
            ["target must hold whole numbers", "float64"],
        ),
        (
            lambda: hierarchical_log_prob(a((2, 3)), 1, a((4, 3)), tree),
            TypeError,
            ["target must be a NumPy array", "int"],
        ),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

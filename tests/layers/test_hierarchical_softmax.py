import numpy as np
import pytest
import torch

from attnlib import HierarchicalSoftmax, hierarchical_log_softmax, huffman_tree

COUNTS = np.array([29, 211, 120, 83, 1, 59, 37])


def normal(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def some_layer(in_features=5):
    layer = HierarchicalSoftmax(in_features, COUNTS, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(normal(6, in_features))
    return layer


def test_agrees_with_the_golden_scores_of_gensim(golden):
    g = golden("hsoftmax_gensim")
    layer = HierarchicalSoftmax(6, g["in_counts"])
    layer.load_state_dict({**layer.state_dict(), "weight": torch.tensor(g["p_syn1"][:-1])})
    (a, b), vectors = torch.tensor(g["in_pairs"]).T, torch.tensor(g["p_vectors"])
    ours = layer(vectors[b], a).output + layer(vectors[a], b).output
    error = np.abs(ours.detach().numpy() - g["out_score"])
    assert (error < 0.036 * (g["out_len"][a] + g["out_len"][b])).all()


def test_is_the_function_with_vectors_that_learn():
    layer, h = some_layer(), normal(2, 3, 5, seed=2)
    wanted = hierarchical_log_softmax(h.numpy(), layer.weight.detach().numpy(), huffman_tree(COUNTS))
    np.testing.assert_allclose(layer.log_prob(h).detach().numpy(), wanted, rtol=1e-12)
    target = torch.tensor([[0, 1, 2], [3, 4, 6]])
    out, loss = layer(h, target)
    of_target = np.take_along_axis(wanted, target[..., None].numpy(), -1)[..., 0]
    np.testing.assert_allclose(out.detach(), of_target, rtol=1e-12)
    assert loss == -out.mean()
    assert layer.predict(h).tolist() == wanted.argmax(-1).tolist()
    assert torch.autograd.gradcheck(lambda h: layer(h, target), h.requires_grad_())


def test_begins_even_and_learns_frequencies():
    layer = HierarchicalSoftmax(1, COUNTS, dtype=torch.float64)
    lengths = (huffman_tree(COUNTS).codes >= 0).sum(-1)
    one = torch.ones(1, dtype=torch.float64)
    np.testing.assert_allclose(layer.log_prob(one).exp().detach(), 0.5**lengths)
    words = torch.from_numpy(np.repeat(np.arange(7), COUNTS))
    steps = torch.optim.LBFGS(layer.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def loss():
        steps.zero_grad()
        value = layer(torch.ones(len(words), 1, dtype=torch.float64), words).loss
        value.backward()
        return value

    steps.step(loss)
    np.testing.assert_allclose(layer.log_prob(one).exp().detach(), COUNTS / COUNTS.sum(), atol=1e-4)


def test_predict_does_not_follow_the_likelier_turns():
    # 0.4 for one word against 0.6 for two, of 0.3 each.
    layer = HierarchicalSoftmax(1, np.array([2, 1, 1]), dtype=torch.float64)
    assert layer.tree.codes.tolist() == [[1, -1], [0, 1], [0, 0]]
    with torch.no_grad():
        layer.weight[:, 0] = torch.tensor([0.0, np.log(0.6 / 0.4)])
    p = layer.log_prob(torch.ones(1, dtype=torch.float64)).exp()
    np.testing.assert_allclose(p.detach(), [0.4, 0.3, 0.3])
    assert layer.predict(torch.ones(1, dtype=torch.float64)) == 0


def test_the_tree_travels_with_the_vectors():
    layer, other = some_layer(), HierarchicalSoftmax(5, np.ones(7), dtype=torch.float64)
    # Codes are as wide as the longest: a tree from other counts may not fit, and torch says so.
    same_shape = HierarchicalSoftmax(5, COUNTS[::-1].copy(), dtype=torch.float64)
    same_shape.load_state_dict(layer.state_dict())
    h = normal(3, 5)
    assert torch.equal(same_shape.log_prob(h), layer.log_prob(h))
    with pytest.raises(RuntimeError, match="size mismatch for tree_codes"):
        other.load_state_dict(layer.state_dict())
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    assert layer.half().tree.codes.dtype == torch.int64


def test_products_are_counted():
    layer = HierarchicalSoftmax(10, np.array([5, 2, 1]))
    assert layer.multiply_adds(np.array([5, 2, 1])) == 13.75
    assert layer.multiply_adds(torch.tensor([0, 1, 1])) == 20


def test_half_precision_comes_back_as_it_came():
    layer = HierarchicalSoftmax(5, COUNTS, dtype=torch.float16)
    out, loss = layer(torch.ones(3, 5, dtype=torch.float16), torch.tensor([0, 1, 2]))
    assert out.dtype == loss.dtype == torch.float16


def test_errors_name_what_is_wrong():
    layer = some_layer()
    h, y = normal(2, 3, 5), torch.ones(2, 3, dtype=torch.long)
    for call, error, says in (
        (lambda: HierarchicalSoftmax(0, COUNTS), ValueError, "in_features must be at least 1"),
        (lambda: HierarchicalSoftmax(5, [1, 2]), TypeError, "counts must be a NumPy array"),
        (lambda: layer(h.numpy(), y), TypeError, "h must be a torch tensor; got ndarray"),
        (lambda: layer(h[..., :4], y), ValueError, r"h must have 5 features; got shape \(2, 3, 4\)"),
        (lambda: layer(h, y[0]), ValueError, r"target must have one word for each state, shape \(2, 3\)"),
        (lambda: layer(h, y.numpy()), TypeError, "one library"),
        (lambda: layer(h, 7 * y), ValueError, r"target must lie in 0 .. 6; got 7"),
        (lambda: layer.predict(h[:0]), ValueError, "h must not be empty"),
    ):
        with pytest.raises(error, match=says):
            call()

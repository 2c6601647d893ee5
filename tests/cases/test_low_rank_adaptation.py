import math

import numpy as np
import pytest
import torch
from torch import nn

from attnlib import LowRankLinear

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def plain(bias=True):
    torch.manual_seed(0)
    return nn.Linear(6, 4, bias=bias, dtype=torch.float64)


def inputs(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.parametrize("bias", [True, False])
def test_begins_as_the_layer_that_it_stands_for(bias):
    linear, x = plain(bias), inputs(2, 3, 6)
    layer = LowRankLinear(linear, rank=2)
    torch.testing.assert_close(layer(x), linear(x))
    bound = 1 / math.sqrt(6)
    assert 0.5 * bound < layer.A.abs().max() <= bound and (layer.B == 0).all()


@pytest.mark.parametrize("alpha, factor", [(None, 1.0), (2, 1.0), (16, 8.0), (0.5, 0.25)])
def test_adds_a_product_of_its_rank(alpha, factor):
    linear, x = plain(), inputs(3, 6)
    layer = LowRankLinear(linear, 2, alpha)
    layer.B.data = inputs(4, 2, seed=2)
    added = factor * sum(layer.B[:, [i]] @ layer.A[[i]] for i in range(2))
    wanted = x @ (linear.weight + added).T + linear.bias
    np.testing.assert_allclose(layer(x).detach(), wanted.detach(), **CLOSE)
    assert torch.linalg.matrix_rank(layer.weight - linear.weight) == 2


def test_only_two_thin_matrices_are_trained():
    linear = plain()
    layer = LowRankLinear(linear, rank=1)
    assert {name: p.numel() for name, p in layer.named_parameters()} == {"A": 6, "B": 4}
    layer(inputs(2, 6)).sum().backward()
    assert linear.weight.grad is None and layer.B.grad.abs().min() > 0 and (layer.A.grad == 0).all()


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: LowRankLinear(nn.ReLU(), 1), TypeError, ["linear must be an nn.Linear", "ReLU"]),
        (lambda: LowRankLinear(plain(), 0), ValueError, ["rank must be at least 1; got 0"]),
        (lambda: LowRankLinear(plain(), 1, "2"), TypeError, ["alpha must be a number"]),
        (
            lambda: LowRankLinear(plain(), 1)(torch.ones(2, 5)),
            ValueError,
            ["x must have 6 features", "(2, 5)"],
        ),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

import numpy as np
import pytest
import torch

from attnlib import FeedForward


def test_is_two_linear_maps_with_a_relu_between():
    layer = FeedForward(3, 5, dtype=torch.float64)
    x = np.random.default_rng(0).normal(size=(2, 4, 3))
    w1, b1, w2, b2 = (p.detach().numpy() for p in layer.parameters())
    wanted = np.maximum(x @ w1.T + b1, 0) @ w2.T + b2
    np.testing.assert_allclose(layer(torch.from_numpy(x)).detach(), wanted, rtol=1e-12)
    assert [tuple(p.shape) for p in layer.parameters()] == [(5, 3), (5,), (3, 5), (3,)]


def test_each_token_is_by_itself():
    layer, x = FeedForward(4, 8), torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x)[1, 2], layer(x[1, 2]))


def test_dropout_lies_between_the_maps_and_acts_in_training_alone():
    layer, x = FeedForward(4, 64, dropout=0.5), torch.ones(1, 4)
    torch.nn.init.constant_(layer.linear2.weight, 1.0)
    quiet = layer.eval()(x)
    assert torch.equal(layer(x), quiet)
    hidden = layer.linear1(x).relu()
    layer.train()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        kept = layer.dropout(hidden)
        torch.manual_seed(0)
        torch.testing.assert_close(layer(x), layer.linear2(kept))
    assert (kept == 0).sum() > (hidden == 0).sum()


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: FeedForward(0, 4), ValueError, "d_model must be at least 1"),
        (lambda: FeedForward(4, 2.5), TypeError, "d_ff must be a whole number"),
        (lambda: FeedForward(4, 8, dropout=1), ValueError, "dropout must be at least 0 and below 1; got 1"),
        (lambda: FeedForward(4, 8)(np.ones(4)), TypeError, "x must be a torch tensor; got ndarray"),
        (lambda: FeedForward(4, 8)(torch.ones(2, 5)), ValueError, "x must have 4 features; got shape"),
    ],
)
def test_errors_name_the_argument(call, error, says):
    with pytest.raises(error, match=says):
        call()

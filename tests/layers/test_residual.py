import numpy as np
import pytest
import torch
from torch import nn

from attnlib import Residual


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_norm_lies_behind_the_sum_or_before_the_sublayer(norm_first):
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    sublayer = lambda y: 3 * y + 1  # noqa: E731

    def norm(y):
        y = y - y.mean(-1, keepdims=True)
        return y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-5)

    wanted = x + sublayer(norm(x)) if norm_first else norm(x + sublayer(x))
    layer = Residual(nn.LayerNorm(4, dtype=torch.float64), norm_first=norm_first)
    np.testing.assert_allclose(layer(torch.from_numpy(x), sublayer).detach(), wanted, rtol=1e-10)


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_is_on_what_the_sublayer_says_and_not_on_x(norm_first):
    layer = Residual(nn.Identity(), dropout=0.5, norm_first=norm_first)
    x = torch.full((1, 400), 10.0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        out = layer(x, torch.ones_like)
    assert set(out.unique().tolist()) == {10.0, 12.0}
    assert set(layer.eval()(x, torch.ones_like).unique().tolist()) == {11.0}


def test_with_pre_norm_an_unbroken_sum_leads_through_many_layers():
    x = torch.randn(1, 8, generator=torch.Generator().manual_seed(0)).requires_grad_()
    out = x
    for _ in range(50):
        out = Residual(nn.LayerNorm(8), norm_first=True)(out, lambda y: 0 * y)
    assert torch.equal(out, x)
    assert torch.equal(torch.autograd.grad(out.sum(), x)[0], torch.ones_like(x))


def test_errors_name_the_argument():
    with pytest.raises(TypeError, match="norm must be a torch module; got function"):
        Residual(lambda x: x)
    with pytest.raises(ValueError, match="dropout must be at least 0 and below 1; got -0.1"):
        Residual(nn.Identity(), dropout=-0.1)

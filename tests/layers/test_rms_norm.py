import numpy as np
import pytest
import torch

from attnlib import RMSNorm


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def test_agrees_with_the_golden_file(golden):
    g = golden("llama3_rope_rmsnorm")
    layer = RMSNorm(8, eps=1e-5)
    layer.load_state_dict({"weight": torch.from_numpy(g["p_rms"])})
    with torch.no_grad():
        got = layer(torch.from_numpy(g["in_x"]))
    np.testing.assert_allclose(got, g["out_rms"], rtol=1e-5, atol=1e-6)


def test_agrees_with_torchs_own_and_its_gradients():
    ours, theirs = RMSNorm(6, 1e-3, dtype=torch.float64), torch.nn.RMSNorm(6, 1e-3, dtype=torch.float64)
    theirs.weight.data = normal(6, seed=1)
    ours.load_state_dict(theirs.state_dict())
    x = (normal(2, 3, 6) * 0.1).requires_grad_()
    np.testing.assert_allclose(ours(x).detach(), theirs(x).detach(), atol=1e-14)
    for got, wanted in zip(*(torch.autograd.grad(layer(x).square().sum(), [x, layer.weight])
                             for layer in (ours, theirs)), strict=True):  # fmt: skip
        np.testing.assert_allclose(got, wanted, atol=1e-12)
    assert torch.autograd.gradcheck(ours, x)


def test_each_token_has_size_one_and_its_scale_does_not_matter():
    x = normal(4, 5)
    layer = RMSNorm(5, eps=0.0, dtype=torch.float64)
    got = layer(x).detach()
    np.testing.assert_allclose(got.square().mean(-1), 1, atol=1e-14)
    np.testing.assert_allclose(layer(x * 1e3).detach(), got, atol=1e-12)
    assert not RMSNorm(5)(torch.zeros(2, 5)).any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_normed_in_float32(dtype):
    x = (normal(3, 16) * 300).to(dtype)  # its squares are beyond float16
    layer = RMSNorm(16, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(normal(16, seed=1))
        wide = x.float()
        wanted = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(dtype) * layer.weight
        assert layer(x).dtype == dtype and torch.equal(layer(x), wanted)


def test_errors_name_what_is_wrong():
    for call, error, says in (
        (lambda: RMSNorm(0), ValueError, "dim must be at least 1"),
        (lambda: RMSNorm(4, eps=-1), ValueError, "eps must be at least 0; got -1"),
        (lambda: RMSNorm(4)(torch.ones(2, 3)), ValueError, r"x must have 4 features; got shape \(2, 3\)"),
        (lambda: RMSNorm(1)(torch.tensor(1.0)), ValueError, r"x must have 1 features; got shape \(\)"),
        (lambda: RMSNorm(4)(np.ones(4)), TypeError, "x must be a floating torch tensor; got ndarray"),
        (lambda: RMSNorm(4)(torch.ones(4).long()), TypeError, "floating torch tensor; got torch.int64"),
    ):
        with pytest.raises(error, match=says):
            call()

import numpy as np
import pytest
import torch
from torch import nn

from attnlib import SingularValueLinear, scale_singular_values

CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def plain(n_in=6, n_out=4, bias=True, dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Linear(n_in, n_out, bias=bias, dtype=dtype)


def inputs(*shape, seed=1):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("size", [(6, 4), (4, 6), (5, 5)])
def test_begins_as_the_layer_that_it_stands_for(bias, size):
    linear, x = plain(*size, bias), inputs(2, 3, size[0])
    for form in ("paper", "mixture"):
        np.testing.assert_allclose(SingularValueLinear(linear, form)(x).detach(), linear(x).detach(), **CLOSE)
    layer = SingularValueLinear(linear, "shipped")
    assert 0 < abs(layer(x) - linear(x)).max() < 0.05, "but for the noise"
    assert abs(layer.z.mean() - 0.1) < 0.02 and 0 < layer.z.std() < 0.03
    layer.z.data.fill_(0.1)
    np.testing.assert_allclose(layer(x).detach(), linear(x).detach(), **CLOSE)


@pytest.mark.parametrize("form", ["paper", "shipped", "mixture"])
def test_is_the_function_of_its_weight(form):
    linear, x = plain(), inputs(3, 6)
    layer = SingularValueLinear(linear, form)
    layer.z.data = inputs(4, seed=2).abs()
    wanted = scale_singular_values(linear.weight.detach(), layer.z.detach(), form)
    np.testing.assert_allclose(layer.weight.detach(), wanted, **CLOSE)
    np.testing.assert_allclose(layer(x).detach(), x @ wanted.T + linear.bias.detach(), **CLOSE)
    assert torch.autograd.gradcheck(lambda z: torch.func.functional_call(layer, {"z": z}, x), layer.z)


def test_zeros_silence_the_papers_form_only():
    linear, x = plain(bias=False), inputs(3, 6)
    for form, quiet in (("paper", True), ("shipped", False)):
        layer = SingularValueLinear(linear, form)
        nn.init.zeros_(layer.z)
        assert bool((layer(x) == 0).all()) == quiet


def test_only_z_is_trained_and_the_layer_is_left_alone():
    linear = plain()
    before = linear.weight.detach().clone()
    layer = SingularValueLinear(linear)
    assert [name for name, _ in layer.named_parameters()] == ["z"] and layer.z.numel() == 4
    layer(inputs(2, 6)).sum().backward()
    assert layer.z.grad.abs().min() > 0 and linear.weight.grad is None
    layer.z.data += 1
    torch.testing.assert_close(linear.weight.detach(), before)
    linear.bias.data += 1
    assert not torch.equal(layer.bias, linear.bias)


def test_a_saved_layer_comes_back():
    layer, other = SingularValueLinear(plain()), SingularValueLinear(nn.Linear(6, 4).double(), "paper")
    layer.z.data = inputs(4)
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other(inputs(2, 6)), layer(inputs(2, 6)))


def test_half_precision():
    linear = plain(dtype=torch.bfloat16)
    layer = SingularValueLinear(linear)
    out = layer(inputs(3, 6).bfloat16())
    assert out.dtype == torch.bfloat16 and layer.z.dtype == layer.S.dtype == torch.float32
    torch.testing.assert_close(out, linear(inputs(3, 6).bfloat16()), atol=2e-2, rtol=2e-2)


def test_max_mult_cancels():
    linear = plain()
    layer = SingularValueLinear(linear, "shipped", max_mult=2.0)
    wanted = scale_singular_values(linear.weight.detach(), layer.z.detach(), "shipped")
    torch.testing.assert_close(layer.weight.detach(), wanted)
    assert "form='shipped'" in repr(layer) and "trained=4" in repr(layer)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: SingularValueLinear(nn.ReLU()), TypeError, ["linear must be an nn.Linear", "ReLU"]),
        (lambda: SingularValueLinear(plain(), "papers"), ValueError, ["form must be one of", "'papers'"]),
        (
            lambda: SingularValueLinear(plain())(torch.ones(2, 5)),
            ValueError,
            ["x must have 6 features", "(2, 5)"],
        ),
        (lambda: SingularValueLinear(plain())([1.0]), TypeError, ["x must be a torch tensor", "list"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

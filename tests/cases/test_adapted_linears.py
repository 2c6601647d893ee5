import pytest
import torch
from torch import nn

from attnlib import LowRankLinear, SingularValueLinear, adapt_linears


def model():
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(5, 4))
    return nn.Sequential(nn.Linear(4, 8), inner, nn.LayerNorm(4))


def test_each_linear_layer_is_exchanged_and_nothing_else_is_trained():
    x = torch.ones(2, 4)
    for make in (SingularValueLinear, lambda layer: LowRankLinear(layer, rank=1)):
        net = model()
        before = net(x)
        layers = adapt_linears(net, make)
        assert list(layers) == ["0", "1.0", "1.2"] and net[1][2] is layers["1.2"]
        torch.testing.assert_close(net(x), before)
        trained = {name.rpartition(".")[0] for name, p in net.named_parameters() if p.requires_grad}
        assert trained == {"0", "1.0", "1.2"}
        assert not any(p.requires_grad for p in net[2].parameters())


def test_where_says_which():
    net = model()
    layers = adapt_linears(net, SingularValueLinear, lambda name: name.startswith("1."))
    assert list(layers) == ["1.0", "1.2"] and isinstance(net[0], nn.Linear)
    assert sum(p.numel() for p in net.parameters() if p.requires_grad) == 5 + 4


def test_a_layer_in_two_places_becomes_one_new_layer():
    shared = nn.Linear(4, 4)
    net = nn.Sequential(shared, nn.ReLU(), nn.Sequential(shared))
    layers = adapt_linears(net, SingularValueLinear)
    assert list(layers) == ["0", "2.0"] and layers["0"] is layers["2.0"] is net[0] is net[2][0]
    assert isinstance(net[0], SingularValueLinear)
    assert sum(p.numel() for p in net.parameters()) == 4


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: adapt_linears(torch.ones(2), SingularValueLinear), TypeError, ["model must be", "Tensor"]),
        (lambda: adapt_linears(model(), SingularValueLinear, lambda name: name == "mlp"), ValueError,
         ["model must have a linear layer"]),
        (lambda: adapt_linears(nn.Linear(2, 2), SingularValueLinear), ValueError, ["none was found"]),
    ],
)  # fmt: skip
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def test_what_could_not_be_adapted_is_left_as_it_was():
    net = model()
    with pytest.raises(ValueError):
        adapt_linears(net, SingularValueLinear, lambda name: False)
    assert all(p.requires_grad for p in net.parameters())

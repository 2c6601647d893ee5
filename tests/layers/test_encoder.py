import pytest
import torch
from torch import nn

from attnlib import Encoder, EncoderLayer, from_torch_transformer, padding_mask

float64 = {"dtype": torch.float64}


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), **float64)


def renamed(layer):
    """The state of one of torch's encoder layers under our names."""
    state = {f"encoder.layers.0.{name}": x for name, x in layer.state_dict().items()}
    return {name.removeprefix("encoder.layers.0."): x for name, x in from_torch_transformer(state).items()}


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_is_the_layer_of_torch(norm_first):
    theirs = nn.TransformerEncoderLayer(12, 3, 20, 0.0, norm_first=norm_first, batch_first=True, **float64)
    for n, parameter in enumerate(theirs.parameters()):
        nn.init._no_grad_normal_(parameter, 0, 1, generator=torch.Generator().manual_seed(n))
    ours = EncoderLayer(12, 3, 20, norm_first=norm_first, **float64)
    ours.load_state_dict(renamed(theirs))
    x, tokens = normal(2, 5, 12).requires_grad_(), torch.tensor([[4, 2, 9, 0, 0], [3, 3, 8, 1, 7]])
    wanted, got = theirs(x, src_key_padding_mask=tokens == 0), ours(x, padding_mask(tokens))
    torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-11)
    slopes = [torch.autograd.grad(out.pow(3).sum(), x)[0] for out in (got, wanted)]
    torch.testing.assert_close(*slopes, rtol=1e-8, atol=1e-8)


def test_the_last_norm_comes_last_and_layers_run_in_order():
    first, second = (EncoderLayer(8, 2, 16, norm_first=True, **float64) for _ in range(2))
    norm, x = nn.LayerNorm(8, **float64), normal(2, 3, 8)
    wanted = second(first(x))
    torch.testing.assert_close(Encoder([first, second])(x), wanted)
    torch.testing.assert_close(Encoder([first, second], norm)(x), norm(wanted))


def test_dropout_acts_in_training_alone():
    layer, x = EncoderLayer(8, 2, 16, dropout=0.3), torch.ones(1, 4, 8)
    assert layer.self_attn.dropout == layer.feed_forward.dropout.p == layer.residuals[1].dropout.p == 0.3
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_tokens_are_permuted_as_they_come():
    layer, x, order = EncoderLayer(8, 2, 16, **float64), normal(1, 5, 8), torch.tensor([3, 0, 4, 2, 1])
    torch.testing.assert_close(layer(x[:, order]), layer(x)[:, order])


def test_gradients_are_right():
    for norm_first in (False, True):
        layer = EncoderLayer(4, 2, 6, norm_first=norm_first, **float64)
        assert torch.autograd.gradcheck(layer, normal(1, 3, 4).requires_grad_())


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="embed_dim 8 does not divide into 3 heads"):
        EncoderLayer(8, 3, 16)
    with pytest.raises(TypeError, match="int is not a Module"):
        Encoder([3])

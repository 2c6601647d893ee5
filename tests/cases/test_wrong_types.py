import pytest
import torch
from torch import nn

import attnlib

TOKENS = torch.zeros(2, 6, 8)
IMAGE = torch.zeros(2, 8, 3, 4)

LAYERS = {
    "DifferentialAttention": (lambda: attnlib.DifferentialAttention(8, 2, depth=0), TOKENS),
    "RefinedAttention": (lambda: attnlib.RefinedAttention(8, 2, 6), TOKENS),
    "ForgettingAttention": (lambda: attnlib.ForgettingAttention(8, 2), TOKENS),
    "SelectiveAttention": (lambda: attnlib.SelectiveAttention(8, 2), TOKENS),
    "TalkingHeadsAttention": (lambda: attnlib.TalkingHeadsAttention(8, 2), TOKENS),
    "LightningAttention": (lambda: attnlib.LightningAttention(8, 2, 0, 4), TOKENS),
    "MixtureOfExperts": (lambda: attnlib.MixtureOfExperts(8, 5, 3), TOKENS),
    "PolaLinearAttention": (lambda: attnlib.PolaLinearAttention(8, 2, (2, 3)), TOKENS),
    "SanaLinearAttention": (lambda: attnlib.SanaLinearAttention(8, 2), TOKENS),
    "SanaCrossAttention": (lambda: attnlib.SanaCrossAttention(8, 2), TOKENS, TOKENS),
    "SanaBlock": (lambda: _SanaBlock(8, 2), TOKENS),
    "MixFFN": (lambda: attnlib.MixFFN(8), IMAGE),
    "LowRankLinear": (lambda: attnlib.LowRankLinear(nn.Linear(8, 4), 2), TOKENS),
    "SegmentedAttention": (lambda: attnlib.SegmentedAttention(8, 4, n_heads=2, head_dim=4), TOKENS),
    "StochasticSelfAttention": (lambda: attnlib.StochasticSelfAttention(8, 2), TOKENS, TOKENS),
    "TinyVisionTransformer": (
        lambda: attnlib.TinyVisionTransformer((3, 4), 1, 8, 1, 2, 5, channels=8),
        IMAGE.permute(0, 2, 3, 1),
    ),
    "NeuralMemory": (lambda: attnlib.NeuralMemory(8, chunk_size=2), TOKENS),
    "MemoryMLP": (lambda: attnlib.MemoryMLP(8), TOKENS),
    "ResidualNorm": (lambda: attnlib.ResidualNorm(8, nn.Linear(8, 8)), TOKENS),
    "LinearMemory": (lambda: attnlib.LinearMemory(8), TOKENS),
    "PersistentWindow": (lambda: attnlib.PersistentWindow(8, 4), TOKENS),
    "MemoryAsContext": (lambda: attnlib.MemoryAsContext(8, 4), TOKENS),
    "MemoryAsGate": (lambda: attnlib.MemoryAsGate(8, 4), TOKENS),
    "MemoryAsLayer": (lambda: attnlib.MemoryAsLayer(8, 4), TOKENS),
    "WindowAlone": (lambda: attnlib.WindowAlone(8, 4), TOKENS),
}


class _SanaBlock(attnlib.SanaBlock):
    def forward(self, x):
        return super().forward(x, torch.zeros(2, 6, 8), TOKENS, grid=(2, 3))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64])
@pytest.mark.parametrize("name", LAYERS)
def test_a_wrong_type_is_said_in_a_sentence(name, dtype):
    make, *given = LAYERS[name]
    layer = make()
    with pytest.raises(TypeError, match=rf"must have the layer's dtype, torch.float32; got {dtype}"):
        layer(*(x.to(dtype) for x in given))


def test_the_text_is_asked_too():
    with pytest.raises(TypeError, match="text must have the layer's dtype"):
        attnlib.SanaCrossAttention(8, 2)(TOKENS, TOKENS.double())


def test_so_is_the_time():
    block = attnlib.SanaBlock(8, 2)
    with pytest.raises(TypeError, match="time must have the layer's dtype"):
        block(TOKENS, TOKENS.double(), TOKENS, grid=(2, 3))


def test_autocast_sees_to_types():
    layer = attnlib.SanaLinearAttention(8, 2)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(TOKENS.bfloat16()).shape == TOKENS.shape


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_singular_value_linear_takes_no_integers(dtype):
    """It follows the type of its input, and a weight cut to integers would be another weight."""
    with pytest.raises(TypeError, match=f"x must hold floating-point numbers; got {dtype}"):
        attnlib.SingularValueLinear(nn.Linear(8, 4))(TOKENS.to(dtype))

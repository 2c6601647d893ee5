import numpy as np
import pytest
import torch
from torch import nn

from attnlib import LearnedPositions


def test_looks_rows_up_for_positions_of_any_shape_and_loads_an_embedding():
    layer, embedding = LearnedPositions(7, 3), nn.Embedding(7, 3)
    layer.load_state_dict(embedding.state_dict())
    for positions in (torch.arange(7), torch.tensor([[6, 0], [2, 2]]), torch.tensor(3), torch.arange(0)):
        wanted = embedding.weight.detach().numpy()[positions.numpy()]
        np.testing.assert_array_equal(layer(positions).detach().numpy(), wanted)
    assert torch.equal(layer(torch.arange(3, dtype=torch.int32)), embedding.weight[:3])
    assert LearnedPositions(2, 3, dtype=torch.float64)(torch.tensor([1])).dtype == torch.float64


def test_only_the_positions_in_use_learn():
    layer = LearnedPositions(5, 2, dtype=torch.float64)
    positions = torch.tensor([1, 3, 3])
    layer(positions).sum().backward()
    assert layer.weight.grad[:, 0].tolist() == [0, 1, 0, 2, 0]


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: LearnedPositions(0, 4), ValueError, ["max_len must be at least 1"]),
        (lambda: LearnedPositions(4, 1.5), TypeError, ["d_model must be a whole number"]),
        (lambda: LearnedPositions(4, 2)(torch.arange(5)), ValueError, ["0 .. 3", "4 rows", "got 4"]),
        (lambda: LearnedPositions(4, 2)(torch.tensor([0, -1])), ValueError, ["0 .. 3", "got -1"]),
        (lambda: LearnedPositions(4, 2)(torch.tensor([0.0])), TypeError, ["positions", "torch.float32"]),
        (lambda: LearnedPositions(4, 2)(np.arange(2)), TypeError, ["positions", "ndarray"]),
        (lambda: LearnedPositions(4, 2)(3), TypeError, ["positions", "int"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

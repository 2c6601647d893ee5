import numpy as np
import pytest
import torch

from attnlib import ScaledEmbedding


def test_looks_words_up_and_scales_them():
    table = ScaledEmbedding(7, 9)
    ids = torch.tensor([[6, 0], [2, 2]], dtype=torch.int32)
    np.testing.assert_allclose(table(ids).detach(), 3 * table.weight.detach().numpy()[ids], rtol=1e-6)
    x = torch.randn(2, 9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(table.scores(x), x @ table.weight.T)
    assert table.scores(x).shape == (2, 7)


def test_vectors_begin_at_size_one():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        table = ScaledEmbedding(500, 64)
    assert abs(float(table(torch.arange(500)).detach().std()) - 1) < 0.02


def test_one_table_learns_from_both_ends():
    table = ScaledEmbedding(4, 2, dtype=torch.float64)
    (table(torch.tensor([1])).sum() + table.scores(torch.ones(1, 2, dtype=torch.float64))[0, 3]).backward()
    np.testing.assert_allclose(table.weight.grad, [[0, 0], [2**0.5] * 2, [0, 0], [1, 1]])


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: ScaledEmbedding(0, 4), ValueError, "vocab_size must be at least 1"),
        (lambda: ScaledEmbedding(4, 0), ValueError, "d_model must be at least 1"),
        (lambda: ScaledEmbedding(4, 2)(torch.tensor([4])), ValueError, r"lie in 0 .. 3.*4 words; got 4"),
        (lambda: ScaledEmbedding(4, 2)(torch.tensor([-1])), ValueError, "got -1"),
        (lambda: ScaledEmbedding(4, 2)(torch.ones(1)), TypeError, "int32 or int64; got torch.float32"),
        (lambda: ScaledEmbedding(4, 2)([1]), TypeError, "got list"),
        (lambda: ScaledEmbedding(4, 2).scores(torch.ones(3)), ValueError, "x must have 2 features"),
    ],
)
def test_errors_name_the_argument(call, error, says):
    with pytest.raises(error, match=says):
        call()

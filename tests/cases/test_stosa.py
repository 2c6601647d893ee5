import numpy as np
import pytest
import torch
from drawn import normal

from attnlib import StochasticSelfAttention


def golden_layer(g):
    layer = StochasticSelfAttention(8, 2)
    layer.load_state_dict({name[2:]: torch.from_numpy(g[name]) for name in g.files if name.startswith("p.")})
    return layer


def test_the_layer_agrees_with_the_golden_file(golden):
    g = golden("stosa_wasserstein_attention")
    mean, cov, mask = (torch.from_numpy(g[f"in_{name}"]) for name in ("mu", "cov", "mask"))
    for how in ({"mask": mask}, {"causal": True}, {"mask": mask == 0}):
        got = golden_layer(g)(mean, cov, **how, return_weights=True)
        for name, x in zip(("mean", "cov", "probs"), got, strict=True):
            np.testing.assert_allclose(x.detach(), g[f"out_{name}"], rtol=1e-4, atol=1e-5)


def test_later_tokens_and_neighbours_in_the_batch_change_nothing():
    layer = StochasticSelfAttention(6, 3, dtype=torch.float64)
    mean, cov = torch.from_numpy(normal(2, 5, 6)), torch.from_numpy(normal(2, 5, 6, seed=1))
    before = layer(mean, cov, causal=True)
    other = mean.clone(), cov.clone()
    for x in other:
        x[0, 3:], x[1] = 9, -7
    for x, old in zip(layer(*other, causal=True), before, strict=True):
        torch.testing.assert_close(x[0, :3], old[0, :3])
        assert not torch.allclose(x[0, 3:], old[0, 3:])


def test_variances_of_heads_are_positive_and_what_leaves_is_normed():
    layer = StochasticSelfAttention(6, 2, dtype=torch.float64)
    mean, cov = torch.from_numpy(normal(2, 5, 6)), torch.from_numpy(normal(2, 5, 6, seed=1)) - 50
    out, spread = layer(mean, cov)
    for x in (out, spread):
        np.testing.assert_allclose(x.detach().mean(-1), 0, atol=1e-9)
        np.testing.assert_allclose(x.detach().square().mean(-1), 1, rtol=1e-9)
    assert layer.to(torch.bfloat16)(mean.bfloat16(), cov.bfloat16())[0].dtype == torch.bfloat16
    assert "6, n_heads=2" in repr(layer)


X, ARRAY = torch.zeros(2, 5, 6), np.zeros((2, 5, 6))


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: StochasticSelfAttention(6, 4), ValueError, ["dim 6 does not divide into 4 heads"]),
        (lambda: StochasticSelfAttention(6, 0), ValueError, ["n_heads must be at least 1"]),
        (lambda: StochasticSelfAttention(6, 2)(X, X[:1]), ValueError, ["cov must have shape", "(1, 5, 6)"]),
        (lambda: StochasticSelfAttention(6, 2)(X[0], X[0]), ValueError, ["mean must have shape (B, L, 6)"]),
        (lambda: StochasticSelfAttention(6, 2)(ARRAY, X), TypeError, ["mean must be a torch tensor"]),
        (lambda: StochasticSelfAttention(8, 2)(X, X), ValueError, ["mean must have 8 features"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

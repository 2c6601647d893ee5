import numpy as np
import pytest
import torch

from attnlib import AnnotatedLayerNorm


def test_agrees_with_the_golden_file_and_differs_from_torch_as_it_does_there(golden):
    file = golden("transformer_pieces")
    g = {name: torch.from_numpy(file[name]) for name in file.files if "_ln_" in name}
    for norm, name in ((AnnotatedLayerNorm, "annotated"), (torch.nn.LayerNorm, "torch")):
        layer = norm(6, 1e-6, dtype=torch.float64)
        layer.load_state_dict({"weight": g["p_ln_gain"], "bias": g["p_ln_bias"]})
        torch.testing.assert_close(layer(g["in_ln_x"]), g[f"out_ln_{name}"], rtol=1e-12, atol=1e-14)


def test_has_the_unbiased_deviation_and_adds_eps_to_it():
    x = np.random.default_rng(0).normal(size=(3, 5))
    layer = AnnotatedLayerNorm(5, 0.25, dtype=torch.float64)
    wanted = (x - x.mean(-1, keepdims=True)) / (x.std(-1, ddof=1, keepdims=True) + 0.25)
    np.testing.assert_allclose(layer(torch.from_numpy(x)).detach(), wanted, rtol=1e-12)
    assert AnnotatedLayerNorm(5).eps == 1e-6


def test_equal_features_give_the_bias_and_gradients_are_finite_and_right():
    layer = AnnotatedLayerNorm(4, dtype=torch.float64)
    torch.nn.init.constant_(layer.bias, 0.5)
    x = torch.tensor([[3.0] * 4, [1.0, 2.0, 4.0, 4.5]], dtype=torch.float64, requires_grad=True)
    out = layer(x)
    assert out[0].tolist() == [0.5] * 4
    assert torch.autograd.grad(out.square().sum(), x)[0].isfinite().all()
    assert torch.autograd.gradcheck(layer, x[1:].detach().requires_grad_())


def test_one_feature_is_refused():
    with pytest.raises(ValueError, match="width must be at least 2; got 1"):
        AnnotatedLayerNorm(1)

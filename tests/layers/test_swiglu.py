import numpy as np
import pytest
import torch

from attnlib import SwiGLU, swiglu_hidden_size


def test_hidden_sizes_agree_with_the_golden_file(golden):
    for dim, multiple_of, multiplier, hidden in golden("llama3_rope_rmsnorm")["out_ffn_hidden"]:
        got = swiglu_hidden_size(int(dim), int(multiple_of), None if multiplier < 0 else float(multiplier))
        assert got == int(hidden)


def test_hidden_sizes_of_published_models():
    assert swiglu_hidden_size(4096) == 11008  # Llama 2 7B
    assert swiglu_hidden_size(8192, 4096, 1.3) == 28672  # Llama 3 70B
    assert swiglu_hidden_size(2048, 256, 1.5) == 8192  # Llama 3.2 1B
    assert swiglu_hidden_size(3, 1) == 8
    assert swiglu_hidden_size(4096, 1) == 10922  # 10922.67 is cut, not rounded
    assert swiglu_hidden_size(4096, 1, 1.3) == 14198  # and 14198.6 too


def test_by_its_formula():
    layer = SwiGLU(4, 7, dtype=torch.float64)
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(2, 3, 4)))
    w1, w2, w3 = (getattr(layer, name).weight.detach().numpy() for name in ("w1", "w2", "w3"))
    gate = x.numpy() @ w1.T
    wanted = (gate / (1 + np.exp(-gate)) * (x.numpy() @ w3.T)) @ w2.T
    np.testing.assert_allclose(layer(x).detach(), wanted, atol=1e-14)
    assert torch.autograd.gradcheck(layer, x.requires_grad_())
    assert sorted(layer.state_dict()) == ["w1.weight", "w2.weight", "w3.weight"]


def test_errors_name_what_is_wrong():
    for call, error, says in (
        (lambda: SwiGLU(0, 4), ValueError, "dim must be at least 1"),
        (lambda: SwiGLU(4, 2.5), TypeError, "hidden must be a whole number"),
        (lambda: SwiGLU(4, 8)(np.ones(4)), TypeError, "x must be a torch tensor; got ndarray"),
        (lambda: SwiGLU(4, 8)(torch.ones(2, 3)), ValueError, r"x must have 4 features; got shape \(2, 3\)"),
        (lambda: swiglu_hidden_size(-1), ValueError, "dim must be at least 1"),
        (lambda: swiglu_hidden_size(4, 0), ValueError, "multiple_of must be at least 1"),
        (lambda: swiglu_hidden_size(4, 4, "1.3"), TypeError, "multiplier must be a number"),
        (lambda: swiglu_hidden_size(4, 4, 0), ValueError, "multiplier must be positive and finite; got 0"),
    ):
        with pytest.raises(error, match=says):
            call()

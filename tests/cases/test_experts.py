import numpy as np
import pytest
import torch
from drawn import BOTH, normal
from hypothesis import given
from hypothesis import strategies as st

from attnlib import mix_experts

CLOSE = {"rtol": 1e-12, "atol": 1e-13}


def looped(experts, alpha, normalize):
    out = []
    for i, z in enumerate(experts):
        a = alpha[:, i] if alpha.ndim == 2 else alpha
        if normalize:
            a = a / sum(a)
        out.append(sum(float(a[k]) * z[k] for k in range(len(z))))
    return out


@BOTH
@pytest.mark.parametrize("norm", [0, 1])
@pytest.mark.parametrize("layer", [0, 1])
def test_agrees_with_the_golden_file(golden, array, norm, layer):
    g = golden("transformer2_expert_mixture")
    alpha = array(
        g["in_alpha_layer" if layer else "in_alpha_shared"].astype("float32")
    )  # as the reference has
    name = f"norm{norm}_layer{layer}"
    z = mix_experts([array(g["in_z1"]), array(g["in_z2"])], alpha, normalize=bool(norm))
    for i, mixed in enumerate(z):
        np.testing.assert_allclose(mixed, g[f"z{i + 1}_{name}"], rtol=1e-6, atol=1e-9)
        alone = mix_experts(array(g[f"in_z{i + 1}"]), alpha[:, i] if layer else alpha, normalize=bool(norm))
        np.testing.assert_allclose(alone, mixed, **CLOSE)
    told_apart = mix_experts(
        [array(np.eye(3))] * 2, alpha, normalize=bool(norm)
    )  # the coefficients themselves
    np.testing.assert_allclose(np.stack([np.asarray(x) for x in told_apart], 1), g[f"coef_{name}"], rtol=1e-6)


@given(st.integers(1, 5), st.lists(st.integers(1, 7), min_size=1, max_size=4), st.booleans(), st.booleans(),
       st.integers(0, 99))  # fmt: skip
def test_is_a_sum_over_experts(k, lengths, by_weight, normalize, seed):
    experts = [normal(k, r, seed=seed + i) for i, r in enumerate(lengths)]
    alpha = abs(normal(k, *[len(lengths)] * by_weight, seed=seed)) + 0.1
    wanted = looped(experts, alpha, normalize)
    for array in (np.asarray, torch.from_numpy):
        got = mix_experts([array(z) for z in experts], array(alpha), normalize=normalize)
        assert isinstance(got, list)
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, **CLOSE)


@BOTH
def test_one_weight_and_one_expert(array):
    z = normal(3, 4)
    np.testing.assert_array_equal(mix_experts(array(z), array(np.array([0.0, 1.0, 0.0]))), z[1])
    np.testing.assert_allclose(mix_experts(array(z), array(np.array([[0.5], [0.5], [1.0]])), normalize=True),
                               z.T @ [0.25, 0.25, 0.5], **CLOSE)  # fmt: skip
    np.testing.assert_allclose(
        mix_experts(array(z), array(np.array([0.3, 0.3, -0.2]))), z.T @ [0.3, 0.3, -0.2]
    )
    np.testing.assert_array_equal(mix_experts(array(z), array(np.zeros(3)), normalize=True), np.zeros(4))


@BOTH
def test_types_and_inputs_unchanged(array):
    z, alpha = array(normal(2, 3).astype("float16")), array(np.array([1, 3]))
    out = mix_experts((z,), alpha, normalize=True)[0]
    assert "float16" in str(out.dtype) and alpha.tolist() == [1, 3]
    np.testing.assert_allclose(out, normal(2, 3).T @ [0.25, 0.75], atol=2e-3)
    assert (
        mix_experts(array(normal(2, 3)), array(np.array([1, 3], "float32"))).dtype == array(normal(1)).dtype
    )


@pytest.mark.parametrize("normalize", [False, True])
def test_gradients(normalize):
    z, alpha = (torch.from_numpy(abs(normal(*s)) + 0.1).requires_grad_() for s in ((3, 4), (3, 1)))
    assert torch.autograd.gradcheck(lambda *a: mix_experts(*a, normalize=normalize), (z, alpha))
    nothing = torch.zeros(3, requires_grad=True)
    mix_experts(z.detach().float(), nothing, normalize=True).sum().backward()
    assert nothing.grad.isfinite().all()


Z, A = normal(3, 4), np.ones(3)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: mix_experts(Z, A[:2]), ValueError, ["experts must have shape (2, r)", "(3, 4)"]),
        (lambda: mix_experts([Z, Z[:2]], A), ValueError, ["experts[1] must have shape (3, r)", "(2, 4)"]),
        (lambda: mix_experts([Z, Z], np.ones((3, 3))), ValueError, ["alpha must have shape (K,) or (K, 2)"]),
        (lambda: mix_experts(Z, np.float64(1.0)), ValueError, ["alpha must have shape (K,) or (K, 1)", "()"]),
        (lambda: mix_experts(Z[0], A), ValueError, ["experts must have shape (3, r)", "(4,)"]),
        (lambda: mix_experts([], A), ValueError, ["experts must have at least one weight"]),
        (lambda: mix_experts(Z, [1, 1, 1]), TypeError, ["alpha must be a NumPy array", "list"]),
        (lambda: mix_experts([Z, torch.ones(3, 2)], A), TypeError, ["one library"]),
        (lambda: mix_experts(Z, A, normalize=1), TypeError, ["normalize must be True or False; got 1"]),
        (lambda: mix_experts(Z > 0, A), TypeError, ["experts must hold real numbers", "bool"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

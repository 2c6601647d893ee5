import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import (
    circuit_eigenvalues,
    composition_score,
    copying_score,
    full_ov_circuit,
    full_qk_circuit,
    ov_circuit,
    qk_circuit,
    random_composition,
)

CLOSE = {"rtol": 1e-7, "atol": 1e-9}
seeds = st.integers(0, 2**32 - 1)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


@pytest.fixture(params=[np.asarray, torch.tensor], ids=["numpy", "torch"])
def made(request):
    return request.param


def test_agrees_with_the_golden_circuits_of_transformer_lens(golden, made):
    g = golden("circuits_transformerlens")
    W = {k: np.stack([g[f"p.blocks.{n}.attn.W_{k}"] for n in (0, 1)]) for k in "QKVO"}
    W |= {"E": g["p.embed.W_E"], "U": g["p.unembed.W_U"]}
    E, Q, K, V, O, U = (made(W[k]) for k in "EQKVOU")
    qk, ov = qk_circuit(Q, K), ov_circuit(V, O)
    for got, name in ((qk, "QK"), (ov, "OV"), (full_qk_circuit(E, Q, K), "full_QK"),
                      (full_ov_circuit(E, V, O, U), "full_OV")):  # fmt: skip
        np.testing.assert_allclose(got, g[f"out_{name}"], **CLOSE)
    values, full = circuit_eigenvalues(V, O), circuit_eigenvalues(E @ V, O @ U)
    np.testing.assert_allclose(np.sort(abs(values)), np.sort(g["out_OV_eig_abs"]), **CLOSE)
    np.testing.assert_allclose(np.sort(full.real), np.sort(g["out_full_OV_eig_re"]), **CLOSE)
    np.testing.assert_allclose(copying_score(full), g["out_copying_score"], **CLOSE)
    np.testing.assert_allclose(np.linalg.norm(np.asarray(ov), axis=(-2, -1)), g["out_OV_norm"], **CLOSE)
    for circuit, name in ((ov, "OV"), (qk, "QK")):
        singular = np.linalg.svd(np.asarray(circuit), compute_uv=False)
        wanted = g[f"out_{name}_S"]
        np.testing.assert_allclose(singular[..., : wanted.shape[-1]], wanted, **CLOSE)
    for kind, later in (("Q", qk[1]), ("K", qk[1].mT), ("V", ov[1])):
        got = composition_score(ov[0][:, None], later[None])
        np.testing.assert_allclose(got, g[f"out_comp_{kind}"][0, :, 1], **CLOSE)


@given(seeds)
def test_a_head_is_its_two_circuits(seed):
    x, (Q, K, V) = normal(5, 6, seed=seed), normal(3, 6, 2, seed=seed + 1)
    W_O, a = normal(2, 6, seed=seed + 2), normal(5, 5, seed=seed + 3)
    np.testing.assert_allclose(x @ qk_circuit(Q, K) @ x.T, (x @ Q) @ (x @ K).T, **CLOSE)
    np.testing.assert_allclose(a @ x @ ov_circuit(V, W_O), (a @ (x @ V)) @ W_O, **CLOSE)
    W_E, W_U = normal(4, 6, seed=seed + 4), normal(6, 4, seed=seed + 5)
    np.testing.assert_allclose(full_qk_circuit(W_E, Q, K), W_E @ qk_circuit(Q, K) @ W_E.T, **CLOSE)
    np.testing.assert_allclose(full_ov_circuit(W_E, V, W_O, W_U), W_E @ ov_circuit(V, W_O) @ W_U, **CLOSE)
    # Elhage's form: the head as one matrix on all tokens, written one below the other.
    big = np.kron(a, ov_circuit(V, W_O).T)
    np.testing.assert_allclose((big @ x.ravel()).reshape(5, 6), a @ x @ ov_circuit(V, W_O), **CLOSE)


@given(seeds, st.integers(1, 5), st.integers(5, 9))
def test_the_small_product_has_the_eigenvalues_of_the_large_one(seed, r, n):
    left, right = normal(3, n, r, seed=seed), normal(3, r, n, seed=seed + 1)
    got = circuit_eigenvalues(left, right)
    assert (np.diff(np.abs(got), axis=-1) <= 1e-9).all()
    large = np.linalg.eigvals(left @ right)
    for few, all_ in zip(got, large, strict=True):
        nearest = np.abs(few[:, None] - all_).min(-1)
        assert (nearest < 1e-6 * np.abs(few).max()).all()
    np.testing.assert_allclose(got.sum(-1), np.trace(left @ right, axis1=-2, axis2=-1), rtol=1e-8, atol=1e-8)


def test_copying_of_matrices_that_copy_negate_turn_and_move(made):
    unit, turn = np.eye(4), np.kron(np.eye(2), [[0.0, -1.0], [1.0, 0.0]])
    move = np.eye(4, k=1)  # feature 0 to 1, 1 to 2: nothing comes back to itself
    stack = made(np.stack([unit, -unit, turn, move, 0 * unit]))
    values = circuit_eigenvalues(stack, made(np.stack([unit] * 5)))
    assert values.dtype in (np.complex128, torch.complex128)
    np.testing.assert_allclose(copying_score(values), [1, -1, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(copying_score(made([[3.0, -1.0], [-3.0, 1.0]])), [0.5, -0.5])


def test_a_positive_copying_score_is_no_proof_of_copying():
    full = np.array([[-1.0, 3.0], [-3.0, 5.0]])  # eigenvalues 2 and 2; token 0 lowers its own logit
    assert copying_score(circuit_eigenvalues(full, np.eye(2))) == pytest.approx(1)
    assert full[0, 0] < 0


def test_composition_of_what_is_read_and_what_is_not(made):
    write = made(np.stack([np.diag([2.0, 0, 0]), np.diag([0, 0, 5.0]), np.zeros((3, 3))]))
    read = made(np.stack([np.diag([1.0, 1.0, 0])]))
    np.testing.assert_allclose(composition_score(write, read), [1 / np.sqrt(2), 0, 0], **CLOSE)


@given(seeds)
def test_composition_lies_between_0_and_1_and_has_no_size(seed):
    a, b = normal(3, 1, 4, 4, seed=seed), normal(2, 4, 4, seed=seed + 1)
    score = composition_score(a, b)
    assert score.shape == (3, 2) and ((score >= 0) & (score <= 1 + 1e-12)).all()
    np.testing.assert_allclose(composition_score(-7 * a, 0.1 * b), score, **CLOSE)


def test_the_random_baseline_is_one_over_the_root_of_the_width():
    for d_model, d_head in ((12, 4), (64, 16), (16, 16)):
        scores = random_composition(d_model, d_head, n=400)
        assert np.sqrt((scores**2).mean()) == pytest.approx(d_model**-0.5, rel=0.02)
        assert scores.mean() == pytest.approx(d_model**-0.5, rel=0.05)
    # Of any singular values, when one is turned at random.
    rng = np.random.default_rng(0)
    turns = np.linalg.qr(rng.normal(size=(2000, 8, 8)))[0]
    a, b = np.diag([9.0, 1, 0, 0, 0, 0, 0, 0]), np.diag([3.0, 2, 1, 1, 0, 0, 0, 0])
    squared = composition_score(a @ turns, np.broadcast_to(b, turns.shape)) ** 2
    assert squared.mean() == pytest.approx(1 / 8, rel=0.06)
    assert (random_composition(12, 4, n=3, seed=1) == random_composition(12, 4, n=3, seed=1)).all()


def test_gradients():
    W_E, W_U = (torch.tensor(normal(*s), requires_grad=True) for s in ((5, 4), (4, 5)))
    Q, K = (torch.tensor(x, requires_grad=True) for x in normal(2, 4, 2, seed=1))
    O = torch.tensor(normal(2, 4, seed=2), requires_grad=True)  # noqa: E741
    assert torch.autograd.gradcheck(full_qk_circuit, (W_E, Q, K))
    assert torch.autograd.gradcheck(full_ov_circuit, (W_E, Q, O, W_U))
    assert torch.autograd.gradcheck(lambda v, o: copying_score(circuit_eigenvalues(v, o)), (Q, O))
    assert torch.autograd.gradcheck(lambda q, k, o: composition_score(k @ o, q @ k.mT), (Q, K, O))


def test_types(made):
    half = [made(normal(4, 2).astype(np.float16)), made(normal(2, 4, seed=1).astype(np.float16))]
    assert ov_circuit(*half).dtype in (np.float16, torch.float16)
    values = circuit_eigenvalues(*half)
    assert values.dtype in (np.complex64, torch.complex64)
    assert copying_score(values).dtype in (np.float32, torch.float32)
    whole = qk_circuit(made(np.ones((3, 2), int)), made(np.ones((3, 2), int)))
    assert "float" in str(whole.dtype)


a = np.ones


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: qk_circuit(a((4, 2)), a((5, 2))), ValueError, ["W_K must have", "d_model = 4", "(5, 2)"]),
        (lambda: ov_circuit(a((4, 2)), a((4, 2))), ValueError, ["W_O", "(..., d_head, d_model)"]),
        (lambda: qk_circuit([[1.0]], a((1, 1))), TypeError, ["W_Q must be a NumPy array", "list"]),
        (lambda: full_qk_circuit(a((9, 3)), a((4, 2)), a((4, 2))), ValueError, ["W_Q", "d_model = 3"]),
        (lambda: full_ov_circuit(a((9, 4)), a((4, 2)), a((2, 4)), a((4, 8))), ValueError, ["d_vocab = 9"]),
        (lambda: circuit_eigenvalues(a((4, 2)), a((3, 4))), ValueError, ["right must have shape", "r = 2"]),
        (lambda: copying_score(a(3, int)), TypeError, ["eigenvalues must be real or complex", "int64"]),
        (lambda: copying_score(np.array(1.0)), ValueError, ["eigenvalues must have shape (..., r); got ()"]),
        (lambda: composition_score(a((4, 4)), a((5, 5))), ValueError, ["later must have shape", "(5, 5)"]),
        (lambda: composition_score(a((4, 3)), a((3, 4))), ValueError, ["earlier must have shape", "(4, 3)"]),
        (lambda: composition_score(a((2, 4, 4)), a((3, 4, 4))), ValueError, ["leading axes", "broadcast"]),
        (lambda: random_composition(0, 1), ValueError, ["d_model must be at least 1"]),
        (lambda: random_composition(4, 2, n=1.5), TypeError, ["n must be a whole number"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnlib import llama3_rope_scaling, rope, rope_frequencies, rope_permutation, yarn_frequencies

LAYOUTS = ["interleaved", "halves"]
layouts = st.sampled_from(LAYOUTS)
places = st.integers(-1000, 1000)
even = st.integers(1, 5).map(lambda half: 2 * half)


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def by_complex_numbers(x, positions, base=10000.0):
    """The interleaved rotation, another way; positions have the shape of ``x`` without its last axis."""
    d = x.shape[-1]
    z = x[..., ::2] + 1j * x[..., 1::2]
    z = z * np.exp(1j * positions[..., None] * base ** (-np.arange(0, d, 2) / d))
    return np.stack([z.real, z.imag], axis=-1).reshape(x.shape)


# the golden files


@pytest.mark.parametrize(
    "layout, file, rtol, atol",
    [("interleaved", "llama3_rope_rmsnorm", 1e-5, 1e-6), ("halves", "llama_hf_rotate_half", 2e-4, 2e-5)],
)
def test_agrees_with_the_golden_file(golden, lib, layout, file, rtol, atol):
    g = golden(file)
    for name in ("q", "k"):
        x = lib.array(np.swapaxes(g[f"in_{name}"], 1, 2))  # from (B, L, H, d)
        got = lib.numpy(rope(x, lib.array(np.arange(3, 9)), 500000.0, layout=layout))
        np.testing.assert_allclose(np.swapaxes(got, 1, 2), g[f"out_{name}"], rtol=rtol, atol=atol)


def test_frequencies_agree_with_the_golden_files(golden, lib):
    like = lib.array(np.zeros(1, np.float32))
    f = rope_frequencies(128, 500000.0, like=like)
    hf, meta = golden("llama_hf_rotate_half"), golden("llama3_rope_rmsnorm")
    np.testing.assert_allclose(lib.numpy(f), hf["out_inv_freq"], rtol=1e-6)
    np.testing.assert_allclose(lib.numpy(llama3_rope_scaling(f)), hf["out_inv_freq_llama31"], rtol=1e-6)
    angles = np.arange(24)[:, None] * lib.numpy(rope_frequencies(8, 500000.0, like=like))
    np.testing.assert_allclose(np.cos(angles), meta["out_freqs_re"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.sin(angles), meta["out_freqs_im"], rtol=1e-5, atol=1e-6)


def test_yarn_agrees_with_the_golden_file(golden, lib):
    g = golden("mla_deepseek")
    like = lib.array(np.zeros(1, np.float32))
    for name, f in (
        ("q", rope_frequencies(4, like=like)),
        ("yarn", yarn_frequencies(4, factor=40, original_max_position_embeddings=8, like=like)),
    ):
        angles = np.arange(16)[:, None] * lib.numpy(f)
        np.testing.assert_allclose(np.cos(angles), g[f"freqs_{name}_re"], rtol=2e-4, atol=2e-5)
        np.testing.assert_allclose(np.sin(angles), g[f"freqs_{name}_im"], rtol=2e-4, atol=2e-5)


def test_angles_of_halves_agree_with_the_golden_file(golden, lib):
    """A row of ones and one of zeros in each half are turned into cosines and sines."""
    g = golden("llama_hf_rotate_half")
    one = lib.array(np.repeat([[1, 1, 1, 1, 0, 0, 0, 0]], 6, 0).astype(np.float32))
    turned = lib.numpy(rope(one, lib.array(np.arange(3, 9)), 500000.0, layout="halves"))
    for name, half in (("out_cos", turned[:, :4]), ("out_sin", turned[:, 4:])):
        np.testing.assert_allclose(np.tile(half, 2)[None], g[name], rtol=2e-4, atol=2e-5)


def test_the_order_of_a_checkpoints_rows_agrees_with_the_golden_file(golden, lib):
    g = golden("llama_hf_rotate_half")
    for name, n_heads in (("wq0", 4), ("wk0", 2)):
        w, wanted = g[f"in_{name}"], g[f"out_{name}_permuted"]
        np.testing.assert_array_equal(lib.numpy(lib.array(w)[rope_permutation(8, n_heads)]), wanted)
        back = lib.array(wanted)[rope_permutation(8, n_heads, to="interleaved")]
        np.testing.assert_array_equal(lib.numpy(back), w)


# the rotation


def test_by_complex_numbers(lib):
    x, positions = normal(2, 3, 5, 6), np.array([7, 0, -2, 100, 7])
    got = rope(lib.array(x), lib.array(positions), 50.0)
    wanted = by_complex_numbers(x, np.broadcast_to(positions, x.shape[:-1]), 50.0)
    np.testing.assert_allclose(lib.numpy(got), wanted, atol=1e-12)


def test_halves_by_rotate_half(lib):
    x, positions = normal(2, 3, 5, 6), np.arange(11, 16)
    angles = np.tile(positions[:, None] * 50.0 ** (-np.arange(0, 6, 2) / 6), 2)
    wanted = x * np.cos(angles) + np.concatenate([-x[..., 3:], x[..., :3]], axis=-1) * np.sin(angles)
    got = rope(lib.array(x), lib.array(positions), 50.0, layout="halves")
    np.testing.assert_allclose(lib.numpy(got), wanted, atol=1e-12)


@given(arrays(np.float64, st.tuples(st.integers(1, 4), even), elements=st.floats(-10, 10)), places, layouts)
def test_lengths_stay_and_turning_back_undoes_it(x, p, layout):
    positions = p + np.arange(len(x))
    turned = rope(x, positions, layout=layout)
    np.testing.assert_allclose(np.linalg.norm(turned, axis=-1), np.linalg.norm(x, axis=-1), atol=1e-12)
    np.testing.assert_allclose(rope(turned, -positions, layout=layout), x, atol=1e-12)


@given(even, places, places, places, layouts, st.integers(0, 99))
def test_products_depend_on_the_distance_alone(d, m, n, shift, layout, seed):
    q, k = normal(2, 1, d, seed=seed)

    def product(m, n):
        return float((rope(q, np.array([m]), layout=layout) * rope(k, np.array([n]), layout=layout)).sum())

    assert product(m + shift, n + shift) == pytest.approx(product(m, n), abs=1e-10)


@given(even, st.integers(1, 4), st.integers(0, 99))
def test_one_layout_is_the_other_in_another_order(d, n_heads, seed):
    x, positions = normal(3, d, seed=seed), np.array([5, 0, 31])
    order, back = rope_permutation(d), rope_permutation(d, to="interleaved")
    np.testing.assert_array_equal(rope(x[:, order], positions, layout="halves"), rope(x, positions)[:, order])
    np.testing.assert_array_equal(order[back], np.arange(d))
    w = normal(n_heads * d, 7, seed=seed)
    as_in_checkpoints = torch.from_numpy(w).view(n_heads, d // 2, 2, 7).transpose(1, 2).reshape(w.shape)
    np.testing.assert_array_equal(w[rope_permutation(d, n_heads)], as_in_checkpoints)


def test_projections_in_another_order_give_the_same_scores():
    H, d, L = 3, 4, 5
    x, w_q, w_k = normal(L, 8), normal(H * d, 8, seed=1), normal(H * d, 8, seed=2)

    def scores(w_q, w_k, layout):
        q, k = ((x @ w.T).reshape(L, H, d).swapaxes(0, 1) for w in (w_q, w_k))
        return rope(q, np.arange(L), layout=layout) @ rope(k, np.arange(L), layout=layout).mT

    order = rope_permutation(d, H)
    wanted = scores(w_q, w_k, "interleaved")
    np.testing.assert_allclose(scores(w_q[order], w_k[order], "halves"), wanted, atol=1e-12)
    assert abs(scores(w_q, w_k, "halves") - wanted).max() > 0.1


# positions of several samples


def test_each_sample_may_have_its_own_positions(lib):
    B = H = 3  # sizes that would hide positions read as (H, L)
    positions = np.array([[0, 1, 2, 3], [5, 6, 7, 8], [9, 0, 0, 2]])
    x = normal(B, H, 4, 6)
    wanted = by_complex_numbers(x, np.broadcast_to(positions[:, None], x.shape[:-1]))
    for given_as in (positions, positions[:, None], np.broadcast_to(positions[:, None], (B, H, 4)).copy()):
        got = rope(lib.array(x), lib.array(given_as))
        np.testing.assert_allclose(lib.numpy(got), wanted, atol=1e-12)
    got = rope(lib.array(x[:, 0]), lib.array(positions))
    np.testing.assert_allclose(lib.numpy(got), wanted[:, 0], atol=1e-12)
    got = rope(lib.array(x), lib.array(positions[1:2]))  # one row for all samples
    np.testing.assert_allclose(lib.numpy(got[1]), wanted[1], atol=1e-12)


def test_a_token_alone_turns_as_it_does_among_others(lib):
    x, positions = lib.array(normal(2, 5, 4)), lib.array(np.arange(40, 45))
    whole = rope(x, positions)
    for at in range(5):
        alone = rope(x[:, at : at + 1], positions[at : at + 1])
        np.testing.assert_allclose(lib.numpy(alone), lib.numpy(whole[:, at : at + 1]), atol=1e-14)


# types


def test_half_precision_has_angles_of_float32(lib):
    positions = np.arange(5000, 5004)
    x = normal(4, 6).astype(np.float16)
    for integers in (positions, positions.astype(np.int32), positions.astype(np.int16)):
        got = rope(lib.array(x), lib.array(integers))
        assert lib.numpy(got).dtype == np.float16
        np.testing.assert_allclose(lib.numpy(got), by_complex_numbers(x, positions), atol=3e-3)
    brain = rope(torch.from_numpy(x).bfloat16(), torch.from_numpy(positions))
    assert brain.dtype == torch.bfloat16
    np.testing.assert_allclose(brain.float(), by_complex_numbers(x, positions), atol=3e-2)
    assert lib.numpy(rope_frequencies(4, like=lib.array(x))).dtype == np.float32


def test_other_types_and_inputs_unchanged(lib):
    x, positions = np.arange(12).reshape(3, 4), np.array([4, 5, 6])
    before = x.copy(), positions.copy()
    for layout in LAYOUTS:
        integers, positions_ = lib.array(x), lib.array(positions)
        got = rope(integers, positions_, layout=layout)
        assert got.dtype == (torch.get_default_dtype() if lib.name == "torch" else np.float64)
        np.testing.assert_array_equal(lib.numpy(integers), before[0])
        np.testing.assert_array_equal(lib.numpy(positions_), before[1])
    np.testing.assert_allclose(
        lib.numpy(rope(lib.array(x), lib.array(positions))), by_complex_numbers(x, positions), atol=1e-5
    )
    assert lib.numpy(rope(lib.array(x.astype(np.float32)), lib.array(positions))).dtype == np.float32


def test_zero_is_no_turn(lib):
    x = lib.array(normal(1, 4))
    for layout in LAYOUTS:
        np.testing.assert_array_equal(lib.numpy(rope(x, lib.array(np.array([0])), layout=layout)), x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout):
    x = torch.from_numpy(normal(2, 3, 4)).requires_grad_()
    f = torch.tensor([0.9, 0.2], dtype=torch.float64, requires_grad=True)
    positions = torch.tensor([3, 0, 11])
    assert torch.autograd.gradcheck(lambda x: rope(x, positions, layout=layout), (x,))
    assert torch.autograd.gradcheck(lambda x, f: rope(x, positions, frequencies=f, layout=layout), (x, f))


# frequencies


def test_frequencies_by_their_definition(lib):
    got = lib.numpy(rope_frequencies(6, 8.0, like=lib.array(np.zeros(1))))
    np.testing.assert_allclose(got, [1, 1 / 2, 1 / 4])
    assert rope_frequencies(2).dtype == np.float64
    x, positions = lib.array(normal(3, 6)), lib.array(np.array([2, 9, 4]))
    given_ones = rope(x, positions, frequencies=lib.array(np.array([1, 1 / 2, 1 / 4])))
    np.testing.assert_allclose(lib.numpy(given_ones), lib.numpy(rope(x, positions, 8.0)), atol=1e-14)


def test_llama3_scaling_by_wavelengths(lib):
    f = rope_frequencies(128, 500000.0)
    for settings in ({}, {"factor": 32.0, "low_freq_factor": 2.0, "high_freq_factor": 5.0,
                          "original_max_position_embeddings": 1000}):
        factor, low, high, length = [*settings.values()] or [8, 1, 4, 8192]
        before = f.copy()
        got = lib.numpy(llama3_rope_scaling(lib.array(f), **settings))
        kinds = set()
        for old, new in zip(f, got, strict=True):
            wavelength = 2 * math.pi / old
            if wavelength < length / high:
                kind, wanted = "kept", old
            elif wavelength > length / low:
                kind, wanted = "slowed", old / factor
            else:
                s = (length / wavelength - low) / (high - low)
                kind, wanted = "between", (1 - s) * old / factor + s * old
            kinds.add(kind)
            assert new == pytest.approx(wanted, rel=1e-12)
        assert len(kinds) == 3
        np.testing.assert_array_equal(f, before)


def test_scaled_frequencies_keep_their_order_and_their_type(lib):
    f = lib.array(rope_frequencies(64, 500000.0).astype(np.float32))
    got = llama3_rope_scaling(f)
    assert got.dtype == f.dtype and (np.diff(lib.numpy(got)) < 0).all()
    half = rope_frequencies(64, 500000.0).astype(np.float16)
    got = lib.numpy(llama3_rope_scaling(lib.array(half)))
    wanted = llama3_rope_scaling(half.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(got, wanted)
    assert lib.numpy(llama3_rope_scaling(lib.array(np.array([1, 2])))).tolist() == [1, 2]


@pytest.mark.parametrize(
    "d, settings, low, high",
    [
        (64, {"factor": 40.0}, 10, 23),  # DeepSeek-V3: pairs 10.47 and 22.51 turn 32 times and once
        (8, {"factor": 3.0, "original_max_position_embeddings": 32, "beta_fast": 2}, 0, 1),
        (8, {"factor": 0.5, "original_max_position_embeddings": 10**6, "base": 100.0, "beta_slow": 3}, 7, 7),
        (8, {"factor": 3.0, "original_max_position_embeddings": 3}, 0, 0),
    ],
)
def test_yarn_by_the_numbers_of_its_pairs(lib, d, settings, low, high):
    like = lib.array(np.zeros(1))
    got = lib.numpy(yarn_frequencies(d, like=like, **settings))
    for i, new in enumerate(got):
        old = settings.get("base", 10000.0) ** (-2 * i / d)
        slowed = (i - low) / (high - low) if low < i < high else float(i > low)
        assert new == pytest.approx((1 - slowed) * old + slowed * old / settings["factor"], rel=1e-12)


def test_yarn_keeps_the_type():
    assert yarn_frequencies(8, factor=2).dtype == np.float64
    assert yarn_frequencies(8, factor=2, like=np.zeros(1, np.float16)).dtype == np.float32
    assert yarn_frequencies(8, factor=2, like=torch.zeros(1)).dtype == torch.float32


# odd input


X, P = np.ones((2, 3, 4)), np.arange(3)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: rope([[1.0, 2.0]], P), TypeError, ["x must be a NumPy array", "list"]),
        (lambda: rope(X, 3), TypeError, ["positions must be a NumPy array", "int"]),
        (lambda: rope(X, torch.arange(3)), TypeError, ["one library", "positions from torch"]),
        (lambda: rope(X * 1j, P), TypeError, ["x must hold real numbers", "complex"]),
        (lambda: rope(np.ones(4), P), ValueError, ["x must have shape (..., length, features)", "(4,)"]),
        (lambda: rope(np.ones((0, 4)), P), ValueError, ["x", "not empty", "(0, 4)"]),
        (lambda: rope(np.ones((3, 5)), P), ValueError, ["even number of features", "(3, 5)"]),
        (lambda: rope(X, P * 1.0), TypeError, ["positions must hold integers", "float64"]),
        (lambda: rope(X, P > 1), TypeError, ["positions must hold integers", "bool"]),
        (lambda: rope(X, np.arange(4)), ValueError, ["positions must have shape (3,)", "(4,)", "(2, 3, 4)"]),
        (lambda: rope(X, np.array([1])), ValueError, ["positions must have shape (3,)", "(1,)"]),
        (lambda: rope(X, np.array(1)), ValueError, ["positions must have shape (3,)", "got ()"]),
        (lambda: rope(X, np.ones((3, 3), int)), ValueError, ["first axes of x", "(3, 3)"]),
        (lambda: rope(X, np.ones((2, 3, 1), int)), ValueError, ["positions", "(2, 3, 1)"]),
        (lambda: rope(X, P, layout="half"), ValueError, ["layout must be", "'half'"]),
        (lambda: rope(X, P, -1.0), ValueError, ["base must be positive", "-1.0"]),
        (lambda: rope(X, P, "1e4"), TypeError, ["base must be a number", "'1e4'"]),
        (lambda: rope(X, P, frequencies=[1.0, 0.5]), TypeError, ["frequencies must be", "list"]),
        (lambda: rope(X, P, frequencies=np.ones(4)), ValueError, ["frequencies", "(2,)", "got (4,)"]),
        (lambda: rope(X, P, frequencies=np.ones(2) > 0), TypeError, ["frequencies", "real numbers"]),
        (lambda: rope_frequencies(5), ValueError, ["d must be even", "got 5"]),
        (lambda: rope_frequencies(0), ValueError, ["d must be at least 1"]),
        (lambda: rope_frequencies(4, like=3), TypeError, ["like must be", "int"]),
        (lambda: rope_permutation(3), ValueError, ["d must be even", "got 3"]),
        (lambda: rope_permutation(4, 0), ValueError, ["n_heads must be at least 1"]),
        (lambda: rope_permutation(4, to="hf"), ValueError, ["to must be", "'hf'"]),
        (lambda: yarn_frequencies(5, factor=2), ValueError, ["d must be even", "got 5"]),
        (lambda: yarn_frequencies(4, factor=0), ValueError, ["factor must be positive", "got 0"]),
        (lambda: yarn_frequencies(4, factor="2"), TypeError, ["factor must be a number", "'2'"]),
        (lambda: yarn_frequencies(4, 1.0, factor=2), ValueError, ["base must be above 1", "got 1.0"]),
        (lambda: yarn_frequencies(4, factor=2, beta_fast=1), ValueError, ["beta_slow must be", "1.0 and 1"]),
        (lambda: llama3_rope_scaling([1.0]), TypeError, ["frequencies must be", "list"]),
        (lambda: llama3_rope_scaling(P > 1), TypeError, ["frequencies", "real numbers"]),
        (lambda: llama3_rope_scaling(P, factor=0), ValueError, ["factor must be positive", "got 0"]),
        (lambda: llama3_rope_scaling(P, factor="8"), TypeError, ["factor must be a number", "'8'"]),
        (
            lambda: llama3_rope_scaling(P, low_freq_factor=4),
            ValueError,
            ["low_freq_factor must be below high_freq_factor", "4 and 4.0"],
        ),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

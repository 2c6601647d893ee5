import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attnlib import alibi_bias, alibi_slopes, attention_weights, sinusoidal_positions

sizes = st.integers(1, 9)
bases = st.floats(1.5, 1e6)


# sinusoids


def test_sinusoids_agree_with_the_golden_file(golden, lib):
    wanted = golden("transformer_pieces")["out_pe"]
    for dtype in (np.float32, np.float64):
        got = sinusoidal_positions(64, 20, like=lib.array(np.zeros(1, dtype)))
        np.testing.assert_allclose(lib.numpy(got), wanted, rtol=0, atol=1e-6)


@given(sizes, sizes, bases)
def test_sinusoids_by_their_definition(n_pos, d_model, base):
    got = sinusoidal_positions(n_pos, d_model, base)
    assert got.shape == (n_pos, d_model) and got.dtype == np.float64
    for p in range(n_pos):
        for column in range(d_model):
            angle = p / base ** (2 * (column // 2) / d_model)
            wanted = math.cos(angle) if column % 2 else math.sin(angle)
            assert got[p, column] == pytest.approx(wanted, abs=1e-14)


def test_the_base_is_10000_when_left_out_and_places_have_no_end(lib):
    table = lib.numpy(sinusoidal_positions(1001, 4, like=lib.array(np.zeros(1))))
    for p in (0, 1, 255, 256, 300, 1000):
        wanted = [math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)]
        np.testing.assert_allclose(table[p], wanted, atol=1e-12)


def test_halves_are_the_same_columns_sines_first(lib):
    for d in (1, 2, 5, 8):
        like = lib.array(np.zeros(1))
        table = lib.numpy(sinusoidal_positions(7, d, 50.0, like=like))
        halves = lib.numpy(sinusoidal_positions(7, d, 50.0, layout="halves", like=like))
        np.testing.assert_array_equal(halves, np.concatenate([table[:, ::2], table[:, 1::2]], axis=1))


@given(st.integers(2, 12).map(lambda half: 2 * half), st.integers(0, 30), bases)
def test_a_shift_of_positions_is_one_linear_map_whatever_the_position(d, k, base):
    table = sinusoidal_positions(40, d, base)
    turn = np.zeros((d, d))
    for i in range(0, d, 2):
        c, s = math.cos(k * base ** (-i / d)), math.sin(k * base ** (-i / d))
        turn[i : i + 2, i : i + 2] = [[c, -s], [s, c]]  # of row vectors (sine, cosine)
    np.testing.assert_allclose(table[: 40 - k] @ turn, table[k:], atol=1e-12)


def test_a_table_has_the_library_device_and_type_of_like(lib):
    assert isinstance(sinusoidal_positions(2, 4), np.ndarray)
    wanted = sinusoidal_positions(300, 6)
    for dtype, atol in ((np.float16, 1e-3), (np.float32, 1e-4), (np.float64, 1e-12)):
        like = lib.array(np.zeros(1, dtype))
        got = sinusoidal_positions(300, 6, like=like)
        assert got.dtype == like.dtype and type(got) is type(like)
        np.testing.assert_allclose(lib.numpy(got), wanted, atol=atol)  # angles of half precision: 0.1 off
    tokens = lib.array(np.array([3, 1]))
    default = np.float64 if lib.name == "numpy" else torch.get_default_dtype()
    assert sinusoidal_positions(2, 4, like=tokens).dtype == default
    assert sinusoidal_positions(2, 3, like=torch.zeros(1, device="meta")).device.type == "meta"


# linear biases


@pytest.mark.parametrize("n_heads", [1, 2, 4, 6, 8, 12, 20, 64])
def test_slopes_agree_with_the_golden_file(golden, lib, n_heads):
    wanted = golden("minimax_lightning_official")[f"out_slopes_{n_heads}"]
    got = alibi_slopes(n_heads, like=lib.array(np.zeros(1, np.float32)))
    np.testing.assert_allclose(lib.numpy(got), wanted, rtol=1e-6)


def test_slopes_of_the_paper():
    np.testing.assert_array_equal(alibi_slopes(8), 0.5 ** np.arange(1, 9))
    np.testing.assert_allclose(alibi_slopes(16), 0.5 ** (np.arange(1, 17) / 2))
    np.testing.assert_allclose(alibi_bias(16, 1, 2)[:, 0, 0], -(0.5 ** (np.arange(1, 17) / 2)))


@given(st.integers(1, 70))
def test_slopes_differ_between_heads_and_keep_those_of_the_power_below(n_heads):
    slopes = alibi_slopes(n_heads)
    assert len(slopes) == len(set(slopes)) == n_heads and (slopes > 0).all() and (slopes < 1).all()
    power = 2 ** int(math.log2(n_heads))
    np.testing.assert_array_equal(slopes[:power], alibi_slopes(power))
    np.testing.assert_array_equal(slopes[power:], alibi_slopes(2 * power)[::2][: n_heads - power])


@given(sizes, sizes, sizes)
def test_biases_fall_with_the_distance_counted_from_the_last_key(n_heads, n_query, n_key):
    bias, slopes = alibi_bias(n_heads, n_query, n_key), alibi_slopes(n_heads)
    assert bias.shape == (n_heads, n_query, n_key)
    for i in range(n_query):
        own = i + n_key - n_query
        for j in range(n_key):
            wanted = slopes * (j - own) if j <= own else slopes * (own - j)
            np.testing.assert_array_equal(bias[:, i, j], wanted)


def test_biases_are_square_by_default_and_of_the_type_of_like(lib):
    got = alibi_bias(3, 4, like=lib.array(np.zeros(1, np.float32)))
    assert tuple(got.shape) == (3, 4, 4) and lib.numpy(got).dtype == np.float32
    np.testing.assert_array_equal(lib.numpy(got), alibi_bias(3, 4, 4))
    assert not np.signbit(lib.numpy(got).diagonal(axis1=1, axis2=2)).any()
    half = lib.array(np.zeros(1, np.float16))
    assert lib.numpy(alibi_slopes(3, like=half)).dtype == np.float32
    assert lib.numpy(alibi_bias(1, 1, 3000, like=half))[0, 0, 0] == -2999 / 256  # float16: -11.71
    assert alibi_bias(2, 3, like=torch.zeros(1, device="meta")).device.type == "meta"


def test_attention_takes_biases_and_causal_ones_need_the_key_alone(lib):
    q, k = np.random.default_rng(0).normal(size=(2, 2, 3, 5, 4))
    q, k = q[..., 2:, :], k  # three queries at the end of five keys
    bias = alibi_bias(3, 3, 5, like=lib.array(q))
    got = lib.numpy(attention_weights(lib.array(q), lib.array(k), bias, causal=True))
    scores = q @ np.swapaxes(k, -1, -2) / 2 + alibi_slopes(3)[:, None, None] * np.arange(5)
    e = np.exp(scores) * np.tri(3, 5, 2)
    np.testing.assert_allclose(got, e / e.sum(-1, keepdims=True), atol=1e-14)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda: sinusoidal_positions(0, 4), ValueError, ["n_pos must be at least 1", "got 0"]),
        (lambda: sinusoidal_positions(4, 2.0), TypeError, ["d_model must be a whole number", "2.0"]),
        (lambda: sinusoidal_positions(4, 2, 0), ValueError, ["base must be positive", "got 0"]),
        (lambda: sinusoidal_positions(4, 2, math.nan), ValueError, ["base must be positive", "nan"]),
        (lambda: sinusoidal_positions(4, 2, "e"), TypeError, ["base must be a number", "'e'"]),
        (lambda: sinusoidal_positions(4, 2, True), TypeError, ["base must be a number", "True"]),
        (lambda: sinusoidal_positions(4, 2, layout="concat"), ValueError, ["'halves'", "'concat'"]),
        (lambda: sinusoidal_positions(4, 2, like=[1.0]), TypeError, ["like must be", "list"]),
        (lambda: sinusoidal_positions(4, 2, like=np.array([1j])), TypeError, ["like", "complex"]),
        (lambda: alibi_slopes(0), ValueError, ["n_heads must be at least 1"]),
        (lambda: alibi_slopes(True), TypeError, ["n_heads must be a whole number"]),
        (lambda: alibi_bias(2, 0), ValueError, ["n_query must be at least 1"]),
        (lambda: alibi_bias(2, 3, 1.5), TypeError, ["n_key must be a whole number"]),
    ],
)
def test_errors_name_the_argument_what_it_got_and_what_it_needs(call, error, words):
    with pytest.raises(error) as caught:
        call()
    for word in words:
        assert word in str(caught.value)

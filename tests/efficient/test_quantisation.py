import numpy as np
import pytest
import torch
from drawn import normal
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from attnlib import quantise

BITS = st.sampled_from([2, 4, 8])


def by_hand(x, bits, axis, group_size, symmetric):
    """One group after the other, in plain loops."""
    moved = np.moveaxis(x, axis, -1)
    out, scales = np.empty(moved.shape), np.empty(moved.shape)
    for where in np.ndindex(moved.shape[:-1]):
        for start in range(0, moved.shape[-1], group_size):
            group = moved[where][start : start + group_size]
            if symmetric:
                half = 2 ** (bits - 1) - 1
                scale, zero = abs(group).max() / half, 0
            else:
                scale, zero = (group.max() - group.min()) / (2**bits - 1), group.min()
            codes = np.round((group - zero) / scale) if scale else np.zeros(len(group))
            out[where][start : start + group_size] = codes * scale + zero
            scales[where][start : start + group_size] = scale
    return np.moveaxis(out, -1, axis), np.moveaxis(scales, -1, axis)


@given(
    arrays(np.float64, st.tuples(st.integers(1, 3), st.just(6), st.sampled_from([4, 8])),
           elements=st.integers(-999, 999).map(lambda n: n / 7)),
    BITS, st.sampled_from([(-1, None), (-1, 2), (-1, 4), (-2, None), (-2, 3), (-2, 1), (0, None)]),
    st.booleans(),
)  # fmt: skip
def test_each_number_comes_back_within_half_a_scale(x, bits, groups, symmetric):
    axis, group_size = groups
    before = x.copy()
    got = quantise(x, bits, axis=axis, group_size=group_size, symmetric=symmetric)
    size = x.shape[axis] if group_size is None else group_size
    wanted, scale = by_hand(x, bits, axis, size, symmetric)
    back = got.dequantised()
    assert (abs(back - x) <= scale / 2 + 1e-10).all()
    # A number halfway between two codes may go to either.
    even = abs(abs(back - x) - scale / 2) > 1e-9
    np.testing.assert_allclose(back[even], wanted[even], atol=1e-9)
    np.testing.assert_array_equal(x, before)
    theirs = quantise(torch.from_numpy(x), bits, axis=axis, group_size=group_size, symmetric=symmetric)
    np.testing.assert_array_equal(theirs.codes, got.codes)
    np.testing.assert_allclose(theirs.scale, got.scale, atol=1e-12)
    np.testing.assert_allclose(theirs.dequantised(), back, atol=1e-10)


@given(BITS, st.integers(0, 99))
def test_every_code_is_kept_apart_in_its_byte(bits, seed):
    """Numbers that are their own codes come back exactly, in any order."""
    levels = 2**bits
    codes = np.random.default_rng(seed).integers(levels, size=(3, 16))
    codes[:, 0], codes[:, -1] = 0, levels - 1
    got = quantise(codes.astype(float), bits)
    np.testing.assert_array_equal(got.dequantised(), codes)
    assert got.codes.dtype == np.uint8 and got.codes.shape == (3, 16 * bits // 8)
    assert (got.scale == 1).all() and (got.zero == 0).all()


def test_what_it_weighs(lib):
    x = lib.array(normal(2, 3, 64, 16).astype(np.float16))
    for bits in (2, 4, 8):
        per_channel = quantise(x, bits, axis=-2, group_size=32)
        assert per_channel.nbytes == x.nbytes * bits // 16 + 2 * (2 * 3 * 2 * 16) * 2
        per_token = quantise(x, bits, axis=-1, symmetric=True)
        assert per_token.zero is None
        assert per_token.nbytes == x.nbytes * bits // 16 + (2 * 3 * 64) * 2


def test_the_wrong_axis_spoils_what_has_a_large_channel():
    """Why keys have a scale per channel: one large feature coarsens all others of its token."""
    keys = normal(64, 16)
    keys[:, 5] *= 50
    error = {axis: abs(quantise(keys, 4, axis=axis).dequantised() - keys)[:, :5].max() for axis in (-1, -2)}
    assert error[-2] < 0.3 < 1 < error[-1]


@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")  # of NaN no code can be made
@pytest.mark.parametrize("symmetric", [False, True])
def test_equal_numbers_zeros_and_a_single_row(lib, symmetric):
    for value in (0.0, -3.25, 1e30):
        x = lib.array(np.full((1, 4), value))
        for bits in (2, 4, 8):
            for axis in (-1, -2):
                back = lib.numpy(quantise(x, bits, axis=axis, symmetric=symmetric).dequantised())
                np.testing.assert_allclose(back, lib.numpy(x), rtol=1e-12)
    if symmetric:
        x = np.array([[-3.0, 0.0, 0.4, 7.0]])
        assert quantise(x, 2, symmetric=True).dequantised()[0, 1] == 0


def test_half_precision_integers_and_what_is_not_contiguous(lib):
    x = (100 * normal(4, 6, 8)).astype(np.float16)
    got = quantise(lib.array(x), 8, axis=-2, group_size=3)
    scale = lib.numpy(got.scale)
    assert scale.dtype == np.float16 and lib.numpy(got.dequantised()).dtype == np.float16
    wide = np.repeat(scale.astype(float)[:, :, 0], 3, axis=1)
    error = abs(lib.numpy(got.dequantised()).astype(float) - x)
    assert (error <= wide / 2 + 0.125).all()  # numbers of 100 to 400 lie 1/16 to 1/4 apart in float16
    brain = quantise(torch.from_numpy(x).bfloat16(), 4)
    assert brain.dequantised().dtype == torch.bfloat16
    whole = quantise(lib.array(np.array([[0, 3, 9, 15]])), 4).dequantised()
    assert lib.numpy(whole).tolist() == [[0, 3, 9, 15]] and lib.numpy(whole).dtype.kind == "f"
    turned = quantise(lib.array(normal(8, 5)).T, 4, axis=0).dequantised()
    straight = quantise(lib.array(normal(8, 5).T.copy()), 4, axis=0).dequantised()
    np.testing.assert_array_equal(lib.numpy(turned), lib.numpy(straight))


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("spoilt", [np.nan, np.inf])
@pytest.mark.filterwarnings("error:invalid value encountered in cast")
@pytest.mark.filterwarnings("ignore:invalid value encountered in (add|subtract|divide|multiply)")
def test_what_is_not_finite_stays_in_its_group(lib, symmetric, spoilt):
    x = normal(2, 4)
    x[0, 1] = spoilt
    got = lib.numpy(quantise(lib.array(x), 8, symmetric=symmetric).dequantised())
    assert not np.isfinite(got[0]).any()
    np.testing.assert_allclose(got[1], x[1], atol=0.02)


@pytest.mark.parametrize(
    "call, error, says",
    [
        (lambda: quantise([1.0, 2.0], 4), TypeError, "x must be a NumPy array"),
        (lambda: quantise(np.ones((2, 4)) > 0, 4), TypeError, "x must hold real numbers"),
        (lambda: quantise(np.ones((2, 4)), 3), ValueError, "bits must be 2, 4 or 8; got 3"),
        (lambda: quantise(np.ones((2, 4)), 4.0), TypeError, "bits must be 2, 4 or 8; got 4.0"),
        (lambda: quantise(np.ones((2, 5)), 4), ValueError, r"must be a multiple of 2.*\(2, 5\)"),
        (lambda: quantise(np.ones((2, 6)), 2, axis=0), ValueError, r"must be a multiple of 4.*\(2, 6\)"),
        (lambda: quantise(np.ones((2, 4)), 4, axis=2), ValueError, "axis 2 does not exist"),
        (lambda: quantise(np.ones((2, 4)), 4, group_size=3), ValueError, "divide the axis, 4; got 3"),
        (lambda: quantise(np.ones((2, 4)), 4, group_size=0), ValueError, "group_size must be at least 1"),
        (lambda: quantise(np.ones((0, 4)), 4), ValueError, "x must not be empty"),
    ],
)
def test_errors_name_what_is_wrong(call, error, says):
    with pytest.raises(error, match=says):
        call()

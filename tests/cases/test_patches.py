import numpy as np
import pytest
import torch
from drawn import BOTH
from hypothesis import given
from hypothesis import strategies as st

from attnlib import image_from_patches, image_patches


@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3),
    st.sampled_from([(), (2,), (2, 3)]), st.sampled_from([np.uint8, np.float32, bool]),
)  # fmt: skip
def test_pixel_by_pixel_and_back(rows, columns, patch, colours, before, dtype):
    shape = *before, rows * patch, columns * patch, colours
    images = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    for array in (np.asarray, torch.from_numpy):
        got = image_patches(array(images), patch)
        assert tuple(got.shape) == (*before, rows * columns, patch**2 * colours)
        back = image_from_patches(got, (rows, columns), patch)
        assert back.dtype == array(images).dtype
        np.testing.assert_array_equal(back, images)
        got = np.asarray(got)
        for y, x, c in np.ndindex(*shape[-3:]):
            token = (y // patch) * columns + x // patch
            feature = ((y % patch) * patch + x % patch) * colours + c
            np.testing.assert_array_equal(got[..., token, feature], images[..., y, x, c])


@BOTH
def test_the_image_stays_as_it_was(array):
    images = np.arange(48.0).reshape(4, 4, 3)
    given = array(images.copy())
    image_patches(given, 2)
    np.testing.assert_array_equal(given, images)
    turned = np.asarray(image_patches(array(images).swapaxes(0, 1), 2))
    np.testing.assert_array_equal(turned, image_patches(images.swapaxes(0, 1).copy(), 2))


def test_errors_name_what_is_wrong():
    image = np.ones((4, 6, 1))
    for call, error, says in (
        (
            lambda: image_patches(image, 4),
            ValueError,
            "patch must divide the sides of an image, 4 and 6; got 4",
        ),
        (lambda: image_patches(image[..., 0], 2), ValueError, r"images must have shape \(..., H, W, C\)"),
        (lambda: image_patches(image, 0), ValueError, "patch must be at least 1"),
        (lambda: image_patches([1], 2), TypeError, "images must be a NumPy array"),
        (lambda: image_from_patches(np.ones((6, 4)), (2, 2), 2), ValueError, "patches must be 2 x 2 squares"),
        (
            lambda: image_from_patches(np.ones((4, 5)), (2, 2), 2),
            ValueError,
            r"2\*\*2 features; got shape \(4, 5\)",
        ),
        (lambda: image_from_patches(np.ones(4), (2, 2), 2), ValueError, r"shape \(..., N, features\)"),
        (lambda: image_from_patches(np.ones((4, 4)), 4, 2), TypeError, "grid must be two integers"),
        (lambda: image_from_patches(np.ones((4, 4)), (4, 0), 2), ValueError, "grid must be at least 1"),
    ):
        with pytest.raises(error, match=says):
            call()

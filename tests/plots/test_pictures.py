"""pictures: what it draws, and what it refuses."""

import numpy as np
import pytest

from attnlib.plots import pictures

GREY = np.full((2, 3, 3), 0.5)
TABLE = np.array([[0.0, 1.0], [4.0, 2.0]])


def test_panels_stand_in_order_with_their_titles(assert_readable):
    fig = pictures({"a photograph": GREY, "a table": TABLE}, title="Which is which?")
    left, right = fig.axes
    assert (left.get_title(), right.get_title()) == ("a photograph", "a table")
    assert fig.get_suptitle() == "Which is which?"
    np.testing.assert_array_equal(left.images[0].get_array(), GREY)
    np.testing.assert_array_equal(right.images[0].get_array(), TABLE)
    assert_readable(fig)


def test_a_table_goes_from_zero_to_its_largest_number():
    for table, most in ((TABLE, 4.0), (np.zeros((2, 2)), 1.0)):
        (ax,) = pictures({"t": table}, title="t").axes
        assert ax.images[0].get_clim() == (0, most) and ax.images[0].origin == "upper"


def test_pixels_are_squares_and_are_not_smoothed():
    (ax,) = pictures({"wide": np.ones((2, 40))}, title="t").axes
    assert ax.get_aspect() == 1 and ax.images[0].get_interpolation() == "none"


@pytest.mark.parametrize("images", [
    {}, [TABLE], {str(n): TABLE for n in range(5)}, {"t": np.ones(3)}, {"t": np.ones((2, 2, 4))},
    {"t": np.ones((0, 2))}, {"t": -TABLE}, {"t": 2 * np.ones((2, 2, 3))}, {"t": [[np.nan]]},
])  # fmt: skip
def test_what_is_no_image_is_named(images):
    with pytest.raises(ValueError, match="images"):
        pictures(images, title="t")

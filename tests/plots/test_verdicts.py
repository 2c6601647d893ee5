"""caught_by: what it draws, and what it refuses."""

import numpy as np
import pytest

from attnlib.plots import caught_by

CAUGHT = np.array([[True, False, True], [False, False, True]])


def test_tests_go_down_and_suspects_across(assert_readable):
    fig = caught_by(CAUGHT, ["the shape", "a neighbour"], "ABC", title="Who is caught?")
    (ax,) = fig.axes
    np.testing.assert_array_equal(ax.images[0].get_array(), CAUGHT)
    assert ax.images[0].get_clim() == (0, 1) and ax.images[0].origin == "upper"
    assert [t.get_text() for t in ax.get_yticklabels()] == ["the shape", "a neighbour"]
    assert [t.get_text() for t in ax.get_xticklabels()] == list("ABC")
    assert fig.get_suptitle() == "Who is caught?" and "blue: caught" in fig.get_supxlabel()
    assert_readable(fig)


def test_groups_stand_side_by_side_in_the_same_rows(assert_readable):
    groups = {"guilty": CAUGHT, "innocent": ~CAUGHT[:, :1]}
    fig = caught_by(groups, ["one", "two"], {"guilty": "ABC", "innocent": "D"}, title="Who is caught?")
    left, right = fig.axes
    assert (left.get_title(), right.get_title()) == ("guilty", "innocent")
    np.testing.assert_array_equal(right.images[0].get_array(), ~CAUGHT[:, :1])
    assert not [t.get_text() for t in right.get_yticklabels() if t.get_text()]
    assert_readable(fig)


@pytest.mark.parametrize("caught", [CAUGHT * 1, CAUGHT.T, CAUGHT[0]])
def test_what_is_no_table_is_refused(caught):
    with pytest.raises(ValueError, match="tests by suspects"):
        caught_by(caught, ["one", "two"], "ABC", title="t")

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


def test_each_column_is_as_wide_in_all_groups_whatever_their_order():
    groups = {"innocent": ~CAUGHT[:, :1], "guilty": CAUGHT}
    fig = caught_by(groups, ["one", "two"], {"guilty": "ABC", "innocent": "D"}, title="t")
    assert [ax.get_title() for ax in fig.axes] == ["innocent", "guilty"]
    innocent, guilty = (ax.get_position().width for ax in fig.axes)
    assert guilty == pytest.approx(3 * innocent)


@pytest.mark.parametrize("caught, suspects, message", [
    ({"a": CAUGHT}, "ABC", "must both be dicts, with the same titles, or neither; got dict and str"),
    (CAUGHT, {"a": "ABC"}, "got ndarray and dict"),
    ({"a": CAUGHT, "b": CAUGHT}, {"a": "ABC"}, r"caught has the title 'b', but suspects has only \['a'\]"),
    ({"a": CAUGHT}, {"a": "ABC", "b": "D"}, r"suspects has the title 'b', but caught has only \['a'\]"),
    ({}, {}, "caught is an empty dict"),
])
def test_titles_that_do_not_match_are_named(caught, suspects, message):
    with pytest.raises(ValueError, match=message):
        caught_by(caught, ["one", "two"], suspects, title="t")


@pytest.mark.parametrize("caught", [CAUGHT * 1, CAUGHT.T, CAUGHT[0]])
def test_what_is_no_table_is_refused(caught):
    with pytest.raises(ValueError, match="tests by suspects"):
        caught_by(caught, ["one", "two"], "ABC", title="t")

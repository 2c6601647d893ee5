"""plane: points, arrows, outline, labels; and what it refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull

from attnlib.plots import plane
from attnlib.plots.style import text_width
from attnlib.plots.vectors import _WIDEST, convex_hull

POINTS = [[4, 0], [1, 4], [-4, 2], [-0.5, -1], [1, 2]]


def draw(**more):
    return plane(POINTS, list("ABCDE"), title="Which key cannot win?", **more)


def test_points_labels_and_names():
    ax = draw(xlabel="thing", ylabel="person").axes[0]
    dots = next(line for line in ax.lines if line.get_marker() == "o")
    assert dots.get_xydata().tolist() == POINTS
    assert [(text.get_text(), list(text.xy)) for text in ax.texts] == list(
        zip("ABCDE", POINTS, strict=True)
    )
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("thing", "person")
    assert ax.get_title() == "Which key cannot win?"


def test_one_unit_is_as_long_on_both_axes():
    ax = draw().axes[0]
    origin, right, up = ax.transData.transform([(0, 0), (1, 0), (0, 1)])
    assert right[0] - origin[0] == pytest.approx(up[1] - origin[1], rel=1e-6)


def test_arrows_start_at_the_origin_and_are_labelled_at_their_tip():
    ax = draw(arrows={"q": [1.5, -0.5]}).axes[0]
    arrow, label = (text for text in ax.texts if text.get_text() in ("", "q"))
    assert (tuple(arrow.xyann), tuple(arrow.xy)) == ((0, 0), (1.5, -0.5))
    assert tuple(label.xy) == (1.5, -0.5)


def test_the_hull_is_drawn_only_when_asked_for():
    assert not draw().axes[0].patches
    (outline,) = draw(hull=True).axes[0].patches
    assert {tuple(corner) for corner in outline.get_xy()} == {(4, 0), (1, 4), (-4, 2), (-0.5, -1)}


def test_everything_lies_in_view():
    ax = plane([[100, 3]], ["far"], arrows={"q": [0, -50]}, title="t").axes[0]
    for x, y in [(100, 3), (0, -50), (0, 0)]:
        assert ax.get_xlim()[0] < x < ax.get_xlim()[1] and ax.get_ylim()[0] < y < ax.get_ylim()[1]


@pytest.mark.parametrize("height", [0, 1])
def test_the_widest_label_leaves_points_and_labels_in_view(height):
    label = "n" * int(_WIDEST / text_width("n" * 100) * 100)
    fig = plane([[0, 0], [10, height]], [label, "b"], arrows={label: [5, 0]}, title="t")
    (ax,) = fig.axes
    fig.draw_without_rendering()
    for x, y in [(0, 0), (10, height)]:
        assert ax.get_xlim()[0] < x < ax.get_xlim()[1] and ax.get_ylim()[0] < y < ax.get_ylim()[1]
    assert np.diff(ax.transData.transform([(0, 0), (10, 0)])[:, 0]) > 50       # pixels
    for text in ax.texts:
        box = text.get_window_extent()
        assert 0 <= box.x0 and box.x1 <= fig.bbox.width


@pytest.mark.parametrize("labels, arrows", [(["b", "a" * 55], None), (["b", "c"], {"a" * 55: [1, 1]})])
def test_a_label_that_leaves_the_points_no_room_is_named(labels, arrows):
    with pytest.raises(ValueError, match="The label 'a{55}' is [0-9]+ pixels wide, .* room for 368. Shorten"):
        plane([[0, 0], [10, 1]], labels, arrows=arrows, title="t")


def test_labels_of_near_points_do_not_collide():
    fig = plane([[0, 0], [0.02, 0], [0, 0.02], [5, 5]], ["one", "two", "three", "far"], title="t")
    fig.draw_without_rendering()
    boxes = [text.get_window_extent() for text in fig.axes[0].texts]
    assert not any(a.shrunk(1, 0.6).overlaps(b.shrunk(1, 0.6))
                   for n, a in enumerate(boxes) for b in boxes[:n])


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=3, max_size=20))
def test_the_hull_is_that_of_scipy(points):
    points = np.array(points, dtype=float)
    if np.linalg.matrix_rank(points - points[0]) < 2:
        return                                            # SciPy refuses points on a line
    expected = ConvexHull(points)
    found = convex_hull(points)
    # SciPy may keep points that lie on an edge; ours are corners, so compare areas and membership
    x, y = found.T
    area = (x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2
    assert area == pytest.approx(expected.volume)         # "volume" of a plane hull is its area
    assert {*map(tuple, found)} <= {*map(tuple, points)}


@pytest.mark.parametrize("points", [[[1, 2]], [[1, 2], [1, 2]], [[0, 0], [1, 1], [2, 2]]])
def test_points_on_a_line_have_a_flat_hull(points):
    ends = {tuple(np.min(points, 0)), tuple(np.max(points, 0))}
    assert {*map(tuple, convex_hull(np.array(points, dtype=float)))} == ends
    plane(points, ["a"] * len(points), hull=True, title="t")


@pytest.mark.parametrize("points, labels, arrows, message", [
    ([[1, 2, 3]], "a", None, r"points has shape \(1, 3\), but 1 labels call for \(1, 2\)"),
    ([[1, 2]], "ab", None, r"points has shape \(1, 2\), but 2 labels call for \(2, 2\)"),
    ([[1, 2]], "a", {"q": [1]}, r"arrows\['q'\] has shape \(1,\), but must be \(2,\)"),
    ([[1, 2]], "a", {n: [1, 2] for n in "vwxyz"}, "arrows has 5 entries, but only 4"),
    ([[1, np.inf]], "a", None, "points has 1 entries that are NaN or infinite"),
])
def test_what_does_not_fit_is_named(points, labels, arrows, message):
    with pytest.raises(ValueError, match=message):
        plane(points, labels, arrows=arrows, title="t")

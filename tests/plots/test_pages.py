"""block_tables: what it draws, and what it refuses."""

import numpy as np
import pytest

from attnlib.plots import block_tables

TABLES = {"甜": [0, 1], "大": [0, 2]}
BLOCKS = ["我他", "甜", "大", ""]


def cells(ax):
    """Row, column, text and colour of each cell."""
    return [
        (round(box.get_y()), round(box.get_x()), text.get_text(), box.get_facecolor()[:3])
        for text, box in zip(ax.texts, ax.patches, strict=True)
    ]


def test_tables_beside_blocks():
    fig = block_tables(TABLES, BLOCKS, size=2, title="Who?")
    left, right = fig.axes
    assert fig.get_suptitle() == "Who?"
    assert [(row, column, text) for row, column, text, _ in cells(left)] == [
        (0, 0, "0"), (0, 1, "1"), (1, 0, "0"), (1, 1, "2")]  # fmt: skip
    assert [label.get_text() for label in left.get_yticklabels()] == ["甜", "大"]
    assert [text for *_, text, _ in cells(right)] == ["我", "他", "甜", "", "大", "", "", ""]
    assert [label.get_text() for label in right.get_yticklabels()] == [f"block {i}" for i in range(4)]
    for ax in fig.axes:
        assert ax.get_ylim()[0] > ax.get_ylim()[1]              # the first on top


def test_colours_say_how_many_use_a_block():
    fig = block_tables(TABLES, BLOCKS, size=2, title="t")
    left, right = fig.axes
    by_block = [cells(right)[2 * block][-1] for block in range(4)]
    key = dict(zip((text.get_text() for text in fig.legends[0].get_texts()),
                   (sample.get_facecolor()[:3] for sample in fig.legends[0].get_patches()), strict=True))
    np.testing.assert_allclose(by_block, [key["shared"], key["one user"], key["one user"], key["free"]])
    assert key["shared"][2] > key["shared"][0] and key["one user"][0] > key["one user"][2]   # blue, orange
    for _, _, text, colour in cells(left):
        np.testing.assert_allclose(colour, by_block[int(text)])


def test_what_fills_up_a_table_is_left_out():
    table = np.array([1, -1, -1], np.int32)
    left = block_tables({"a": table}, BLOCKS, size=2, title="t").axes[0]
    assert [text for *_, text, _ in cells(left)] == ["1"]


@pytest.mark.parametrize("tables, blocks, error, message", [
    ({}, BLOCKS, ValueError, "tables is empty"),
    ([[0]], BLOCKS, TypeError, "tables must be a dict"),
    ({"a": [4]}, BLOCKS, ValueError, "names block 4, but blocks are 0 to 3"),
    ({"a": [0.5]}, BLOCKS, TypeError, "whole numbers"),
    ({"a": [-1]}, BLOCKS, TypeError, "one block at least"),
    ({"a": []}, BLOCKS, TypeError, "one block at least"),
    ({"a": [0]}, ["我他大"], ValueError, "has 3 words; a block has 2 slots"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_named(tables, blocks, error, message):
    with pytest.raises(error, match=message):
        block_tables(tables, blocks, size=2, title="t")

"""Block tables: which pages of a cache each sequence has, and what stands in them."""

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attnlib.plots._inputs import to_dict, to_words
from attnlib.plots.style import DPI, INK, PALETTE, TITLE, WIDTH, finish, use_style

__all__ = ["block_tables"]

_ROW = 42      # pixels of a block
_AROUND = 140  # pixels of title, panels' titles and legend
# How much of its colour a cell has; the rest is white. Each is 15 steps of lightness from the next.
_KINDS = (("free", PALETTE[0], 0.0), ("one user", PALETTE[1], 0.3), ("shared", PALETTE[0], 0.5))


@use_style()
def block_tables(tables, blocks, *, size, title):
    """Draw a block table for each sequence beside the blocks and their words.

    Dark blue are blocks that several sequences share, pale orange those of one alone; free ones are white.

    Parameters
    ----------
    tables : dict of name to list of int
        The blocks of each sequence in order; negative numbers, which fill up a table, are left out.
    blocks : list of lists of words
        What stands in each block, at most ``size`` words.
    size : int
        Tokens in a block.
    title : str
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError, TypeError
        If a table names a block that does not exist, or a block has more words than slots.

    Examples
    --------
    >>> block_tables({"a": [0, 1], "b": [0]}, ["你我", "他"], size=2, title="Who has which block?")
    <Figure size 1000x224 with 2 Axes>
    """
    blocks = [to_words(block, f"blocks[{i}]") if len(block) else [] for i, block in enumerate(blocks)]
    for i, block in enumerate(blocks):
        if len(block) > size:
            raise ValueError(f"blocks[{i}] has {len(block)} words; a block has {size} slots.")
    tables = _checked(tables, len(blocks))
    users = [sum(i in table for table in tables.values()) for i in range(len(blocks))]
    fig = Figure(figsize=(WIDTH, (_AROUND + _ROW * max(len(blocks), len(tables))) / DPI))
    left, right = fig.subplots(1, 2)
    rows = [[(i, str(i)) for i in table] for table in tables.values()]
    _draw(left, rows, list(tables), users, max(map(len, rows)), len(blocks))
    rows = [[(i, word) for word in [*block, *[""] * (size - len(block))]] for i, block in enumerate(blocks)]
    _draw(right, rows, [f"block {i}" for i in range(len(blocks))], users, size, len(tables))
    left.set_title("block tables", fontsize=TITLE)
    right.set_title("blocks", fontsize=TITLE)
    samples = [Rectangle((0, 0), 1, 1, facecolor=_tint(*kind), edgecolor=INK) for _, *kind in _KINDS]
    fig.legend(samples, [name for name, *_ in _KINDS], loc="outside lower center", ncols=3, handlelength=1)
    fig.suptitle(title)
    return finish(fig)


def _checked(tables, n_blocks):
    """Lists of the blocks of each sequence, without what fills them up."""
    tables = to_dict(tables, "tables", "a list of blocks")
    if not tables:
        raise ValueError("tables is empty; it must hold at least one sequence.")
    checked = {}
    for name, table in tables.items():
        table = np.asarray(table)
        if table.ndim != 1 or table.dtype.kind not in "iu" or not table.size or table.max() < 0:
            raise TypeError(f"tables[{name!r}] must be a list of whole numbers, one block at least.")
        if table.max() >= n_blocks:
            raise ValueError(
                f"tables[{name!r}] names block {table.max()}, but blocks are 0 to {n_blocks - 1}."
            )
        checked[name] = [int(i) for i in table if i >= 0]
    return checked


def _draw(ax, rows, names, users, columns, others):
    """A row of cells for each name; a cell has the colour of its block."""
    for y, row in enumerate(rows):
        for x, (block, text) in enumerate(row):
            _, *kind = _KINDS[min(users[block], 2)]
            ax.add_patch(Rectangle((x, y + 0.08), 1, 0.84, facecolor=_tint(*kind), edgecolor=INK))
            ax.text(x + 0.5, y + 0.5, text, ha="center", va="center")
    ax.set_xlim(0, columns + 0.1)
    ax.set_ylim(max(len(rows), others), 0)
    ax.set_yticks(np.arange(len(rows)) + 0.5, names)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def _tint(colour, part):
    return 1 - part * (1 - np.array(to_rgb(colour)))

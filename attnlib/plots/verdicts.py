"""Which test catches which suspect: tests down, suspects across."""

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from attnlib.plots._inputs import to_words
from attnlib.plots.style import DPI, FAINT, INK, PALETTE, WIDTH, finish, use_style

__all__ = ["caught_by"]

_CAUGHT = ListedColormap(["white", PALETTE[0]], "attn_caught")
_ROW = 40           # pixels of a test


@use_style()
def caught_by(caught, tests, suspects, *, title):
    """Draw a table of verdicts, blue where a test catches a suspect.

    Parameters
    ----------
    caught : (tests, suspects) bool array, or a dict of such arrays
        A dict gives groups of suspects side by side, each under its title, in the same rows.
    tests : words, one a row
    suspects : words, one a column; with a dict of arrays, a dict with the same titles
    title : str
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError, TypeError
        For arrays that are not boolean or do not fit the words, and for titles of arrays without words
        or of words without an array.

    Examples
    --------
    >>> caught_by([[True, False]], ["the shape"], ["A", "B"], title="Who is caught?")
    <Figure size 1000x170 with 1 Axes>
    """
    groups, across = _by_title(caught, suspects)
    tests = to_words(tests, "tests")
    across = {name: to_words(across[name], "suspects") for name in groups}      # in the panels' order
    groups = {name: _table(group, (len(tests), len(across[name]))) for name, group in groups.items()}
    height = 130 + _ROW * (len(tests) + isinstance(caught, dict))
    fig = Figure(figsize=(WIDTH, height / DPI))
    widths = [len(words) for words in across.values()]
    axes = fig.subplots(1, len(groups), squeeze=False, width_ratios=widths)[0]
    for ax, (name, group) in zip(axes, groups.items(), strict=True):
        _draw(ax, group, across[name], name)
        ax.set_yticks(range(len(tests)), tests if ax is axes[0] else [])
    fig.supxlabel("dark blue: caught    white: passes", fontsize="medium")
    fig.suptitle(title)
    return finish(fig)


def _by_title(caught, suspects):
    """Arrays and words by the same titles; a single array has no title of its own."""
    if isinstance(caught, dict) != isinstance(suspects, dict):
        raise ValueError(
            "caught and suspects must both be dicts, with the same titles, or neither; got "
            f"{type(caught).__name__} and {type(suspects).__name__}.")
    if not isinstance(caught, dict):
        return {"": caught}, {"": suspects}
    if not caught:
        raise ValueError("caught is an empty dict; it must hold at least one array.")
    for name, titles, other, others in (("suspects", suspects, "caught", caught),
                                        ("caught", caught, "suspects", suspects)):
        for title in titles:
            if title not in others:
                raise ValueError(
                    f"{name} has the title {title!r}, but {other} has only {[*others]}. Give both the same.")
    return caught, suspects


def _table(given, shape):
    table = np.array(given)
    if table.dtype != bool or table.shape != shape:
        raise ValueError(
            f"caught must be a boolean table of shape {shape}, tests by suspects; got {table.dtype} of shape "
            f"{table.shape}.")
    return table


def _draw(ax, table, suspects, name):
    ax.imshow(table, cmap=_CAUGHT, vmin=0, vmax=1, interpolation="none", aspect="auto")
    rows, columns = table.shape
    ax.hlines(np.arange(1, rows) - 0.5, -0.5, columns - 0.5, color=FAINT, linewidth=1)
    ax.vlines(np.arange(1, columns) - 0.5, -0.5, rows - 0.5, color=FAINT, linewidth=1)
    ax.spines[:].set(visible=True, color=INK)
    ax.set_xticks(range(columns), suspects)
    ax.tick_params(length=0)
    ax.set_title(name)

"""Dials: angles as the hands of clocks, a row of dials for each position."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle

from attnlib.plots._inputs import to_array, to_dict, to_words
from attnlib.plots.style import DPI, FAINT, HEIGHT, INK, PALETTE, WIDTH, finish, text_width, use_style

__all__ = ["dials"]

_AROUND = 80         # pixels of the title and the columns' names
_KEY = 40            # pixels of the key
_LARGEST = 90        # pixels of a dial
# As a clock tells its hands apart: how long in dials, how thick in inches, how wide its head in thicknesses.
_HANDS = ((0.40, 0.03, 4), (0.28, 0.06, 2.2), (0.36, 0.03, 1))


@use_style()
def dials(hands, rows, columns, *, title):
    """Draw angles as hands of clocks: rows down, columns across.

    An angle of 0 points to the right, and hands turn counter-clockwise, as in the plane of a pair of
    features.

    Parameters
    ----------
    hands : (rows, columns) array, or a dict of at most three such arrays
        Angles in radians. A dict gives each dial one hand an entry, with its label in a key below: the first
        long and thin, the second short and thick, the third without a head.
    rows, columns : words
        What the rows and the columns of dials are.
    title : str
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError, TypeError
        For angles that do not fit the words.

    Examples
    --------
    >>> dials([[0.0, 0.0], [1.0, 0.1]], ["place 0", "place 1"], ["fast", "slow"], title="How do they turn?")
    <Figure size 1000x260 with 1 Axes>
    """
    rows, columns = to_words(rows, "rows"), to_words(columns, "columns")
    named = isinstance(hands, dict)
    hands = {label: _angles(angles, rows, columns, label if named else "hands")
             for label, angles in (to_dict(hands, "hands", "angles") if named else {"": hands}).items()}
    if not 1 <= len(hands) <= 3:
        raise ValueError(f"hands has {len(hands)} entries; one to three hands can be told apart in a dial.")
    beside = max(map(text_width, rows)) + 20
    around = _AROUND + _KEY * named
    widest = max(map(text_width, columns)) + 30           # with air, since the axes may be shrunk a little
    size = min(_LARGEST, (HEIGHT * DPI - around) / len(rows), (WIDTH * DPI - beside - 20) / len(columns))
    step = max(1.0, widest / size)                         # from one column to the next, in dials
    fig = Figure(figsize=(WIDTH, round(around + size * len(rows)) / DPI))
    ax = fig.subplots()
    for (row, column), _ in np.ndenumerate(next(iter(hands.values()))):
        ax.add_patch(Circle((step * column, row), 0.42, facecolor="white", edgecolor=FAINT, linewidth=2))
    for (label, angles), colour, (long, thick, head) in zip(hands.items(), PALETTE, _HANDS, strict=False):
        column, row = np.meshgrid(step * np.arange(len(columns)), np.arange(len(rows)))
        ax.quiver(column, row, np.cos(angles), np.sin(angles), color=colour, label=label, angles="uv",
                  scale=1 / long, scale_units="x", units="inches", width=thick, headwidth=head,
                  headlength=min(head, 4), headaxislength=min(head, 4), zorder=3)
    ax.set_xlim(-step / 2 - 0.1, step * (len(columns) - 0.5) + 0.1)
    ax.set_ylim(len(rows) - 0.45, -0.55)
    ax.set_aspect("equal")
    ax.set_xticks(step * np.arange(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.xaxis.tick_top()
    ax.tick_params(length=0, colors=INK)
    ax.spines[:].set_visible(False)
    fig.suptitle(title)
    if named:
        samples = [Line2D([], [], color=colour, linewidth=72 * thick)
                   for colour, (_, thick, _), _ in zip(PALETTE, _HANDS, hands, strict=False)]
        fig.legend(samples, list(hands), loc="outside lower center", ncols=len(hands))
    return finish(fig)


def _angles(angles, rows, columns, label):
    angles = to_array(angles, str(label))
    if angles.shape != (len(rows), len(columns)):
        raise ValueError(
            f"{label} has shape {angles.shape}, but the words call for ({len(rows)}, {len(columns)})."
        )
    return angles

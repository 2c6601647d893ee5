"""Words at the leaves of a tree of yes-or-no questions."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from attnlib.plots._inputs import to_words
from attnlib.plots.style import DPI, INK, PALETTE, TEXT, WIDTH, finish, use_style

__all__ = ["word_tree"]

MOST_WORDS = 16
MOST_TREES = 2
_AROUND = 120       # pixels of title and of the words below the last row
_TITLES = 30        # pixels of the panels' titles
_TALL = 420         # pixels that all steps share
_STEP = 85          # pixels of one step where there are few


@use_style()
def word_tree(words, trees, *, inner=None, path=None, title):
    """Draw a tree with its root on top: turn 0 goes down to the left, turn 1 to the right.

    Parameters
    ----------
    words : V words
        At the leaves; at most 16.
    trees : HuffmanTree, or a dict of at most two
        Whose ``children`` hold what hangs at each inner node (`huffman_tree`). A dict gives one panel an
        entry, side by side on the same scale; its keys are their titles.
    inner : V - 1 texts, or a dict of them, optional
        What is written at the inner nodes, in the order of ``children``; a dict has the keys of ``trees``.
    path : int, optional
        A word whose way from the root is drawn thick.
    title : str
        The question that the figure answers.

    Returns
    -------
    matplotlib.figure.Figure
        The height of a word is the number of its steps.

    Raises
    ------
    ValueError, TypeError
        For a tree that does not hold each word once, or texts that do not fit.

    Examples
    --------
    >>> from attnlib import huffman_tree
    >>> tree = huffman_tree(np.array([5, 2, 1]))
    >>> word_tree(["the", "an", "it"], tree, inner=["3", "8"], title="How far is each word?")
    <Figure size 1000x290 with 1 Axes>
    """
    words = to_words(words, "words")
    if not 2 <= len(words) <= MOST_WORDS:
        raise ValueError(f"words has {len(words)} entries; a tree of 2 to {MOST_WORDS} can be read.")
    panels = trees if isinstance(trees, dict) else {"": trees}
    if not 1 <= len(panels) <= MOST_TREES:
        raise ValueError(f"trees has {len(panels)} entries; one or two fit side by side.")
    if path is not None and path not in range(len(words)):
        raise ValueError(f"path must be the number of a word, 0 to {len(words) - 1}; got {path!r}.")
    texts = inner if isinstance(inner, dict) else dict.fromkeys(panels, inner)
    if texts.keys() != panels.keys():
        raise ValueError(f"inner has the keys {[*texts]}, but must have those of trees, {[*panels]}.")
    named = isinstance(trees, dict)
    children = {name: _to_children(tree, len(words), f"trees[{name!r}]" if named else "trees")
                for name, tree in panels.items()}  # fmt: skip
    places = {name: _places(pairs) for name, pairs in children.items()}
    deepest = int(max(place[:, 1].max() for place in places.values()))
    height = _AROUND + _TITLES * named + min(_STEP * deepest, _TALL)
    fig = Figure(figsize=(WIDTH, height / DPI))
    axes = fig.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (name, pairs) in zip(axes, children.items(), strict=True):
        labels = _to_labels(texts[name], len(words) - 1)
        _draw(ax, places[name], pairs, words, labels, path)
        ax.set_title(str(name))
    axes[0].set_ylim(deepest + 0.5, -0.3)
    axes[0].set_ylabel("questions")
    axes[0].yaxis.set_major_locator(MaxNLocator(integer=True))
    fig.suptitle(title)
    return finish(fig)


def _to_children(tree, n_words, name):
    """The pairs of a tree as an integer array (V - 1, 2), checked to hold each word once."""
    children = getattr(tree, "children", None)
    if children is None:
        raise TypeError(f"{name} must be a tree as huffman_tree makes it; got {type(tree).__name__}.")
    children = np.asarray(children.tolist())
    if children.shape != (n_words - 1, 2):
        raise ValueError(
            f"{name}.children has shape {children.shape}, but {n_words} words call for {(n_words - 1, 2)}."
        )
    made_before = (children < n_words + np.arange(n_words - 1)[:, None]).all()
    if not made_before or sorted(children.ravel().tolist()) != list(range(2 * n_words - 2)):
        raise ValueError(f"{name}.children must hold each word and each inner node but the root once.")
    return children


def _to_labels(texts, n_inner):
    if texts is None:
        return [""] * n_inner
    labels = [str(text) for text in texts]
    if len(labels) != n_inner:
        raise ValueError(f"inner has {len(labels)} texts, but the tree has {n_inner} inner nodes.")
    return labels


def _places(children):
    """Where each word and inner node stands: (x, steps from the root), leaves from left to right."""
    n_words = len(children) + 1
    places = np.zeros((2 * n_words - 1, 2))
    leaves = iter(range(n_words))

    def place(node, depth):
        if node < n_words:
            x = next(leaves)
        else:
            x = sum(place(child, depth + 1) for child in children[node - n_words]) / 2
        places[node] = x, depth
        return x

    place(2 * n_words - 2, 0)
    return places


def _draw(ax, places, children, words, labels, path):
    n_words = len(words)
    way = _way(children, path)
    for i, pair in enumerate(children):
        top = places[n_words + i]
        for turn, child in enumerate(pair):
            on_way = child in way
            colour, width = (PALETTE[1], 5) if on_way else (INK, 1.5)
            ax.plot(*np.stack([top, places[child]]).T, color=colour, linewidth=width, zorder=1 + on_way)
            ax.text(
                *(top + places[child]) / 2, str(turn), color=colour, ha="center", va="center", zorder=4,
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )
    for label, (x, depth) in zip(labels, places[n_words:], strict=True):
        if label:
            box = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": INK}
            ax.text(x, depth, label, ha="center", va="center", zorder=5, bbox=box)
        else:
            ax.plot(x, depth, "o", color=INK, zorder=5)
    for word, (x, depth) in zip(words, places[:n_words], strict=True):
        ax.plot(x, depth, "s", color=PALETTE[0], zorder=5)
        ax.annotate(word, (x, depth), xytext=(0, -8), textcoords="offset points", ha="center", va="top",
                    fontsize=TEXT, annotation_clip=False)  # fmt: skip
    ax.set_xlim(-0.6, n_words - 0.4)
    ax.set_xticks([])
    ax.spines[:].set_visible(False)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y")


def _way(children, word):
    """The word and the inner nodes above it; nothing where no word is asked for."""
    if word is None:
        return set()
    n_words, way, node = len(children) + 1, {word}, word
    while node != 2 * n_words - 2:
        node = n_words + int(np.argwhere(children == node)[0, 0])
        way.add(node)
    return way

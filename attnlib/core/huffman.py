"""The Huffman tree of a vocabulary: short paths to frequent words."""

import math
from typing import NamedTuple

import numpy as np

from attnlib.core.arrays import kind_of, namespace


class HuffmanTree(NamedTuple):
    """Where each of V words hangs, and the way to it from the root.

    Attributes
    ----------
    codes : int array (V, n)
        The turn taken at each step, 0 or 1, root first; -1 after a word's last step.
    points : int array (V, n)
        The inner node at which the turn is taken, ``0 .. V - 2``, root first; -1 after the last step. The
        root is ``V - 2``, so a ``-1`` used as an index reads the root's row, which every path reads anyway.
    children : int array (V - 1, 2)
        What hangs at each inner node on turns 0 and 1: word ``j`` as ``j``, inner node ``i`` as ``V + i``.
    """

    codes: np.ndarray
    points: np.ndarray
    children: np.ndarray


def huffman_tree(counts):
    """Join the two rarest nodes into one, until one is left.

    Turn 0 leads to the rarer of the two, turn 1 to the more frequent. Where a word and an inner node are
    equally frequent the node is taken first, and of equally frequent words the last; other orders give
    other trees, whose expected lengths are the same.

    Parameters
    ----------
    counts : array (V,)
        How often each of at least two words was seen, in any order; or their probabilities.

    Returns
    -------
    HuffmanTree
        Of NumPy arrays.

    Raises
    ------
    TypeError, ValueError
        If ``counts`` is no array of at least two real numbers, or one is negative or not finite.

    References
    ----------
    Huffman 1952, "A method for the construction of minimum-redundancy codes"; Mikolov et al. 2013, arXiv
    1310.4546, section 2.1. Numbers of nodes and turns are those of word2vec and gensim. fastText numbers
    alike, stores each path leaf first, and takes the sigmoid with the other sign
    (`hierarchical_log_softmax`).

    Examples
    --------
    >>> import numpy as np
    >>> huffman_tree(np.array([5, 2, 1])).codes
    array([[ 1, -1],
           [ 0,  1],
           [ 0,  0]])
    """
    children = _join(_valid_counts(counts))
    n_words = len(children) + 1
    parent, turn = np.full(2 * n_words - 1, -1), np.zeros(2 * n_words - 1, dtype=np.int64)
    parent[children] = n_words + np.arange(n_words - 1)[:, None]
    turn[children] = [0, 1]
    steps = []  # what every word passes on its way up, all words at once
    node = np.arange(n_words)
    while (node < 2 * n_words - 2).any():
        on_way = node < 2 * n_words - 2
        steps.append((np.where(on_way, turn[node], -1), np.where(on_way, parent[node] - n_words, -1)))
        node = np.where(on_way, parent[node], node)
    upwards = np.stack(steps, axis=-1)  # (2, V, n), leaf first
    lengths = (upwards[0] >= 0).sum(-1)
    order = lengths[:, None] - 1 - np.arange(len(steps))  # negative after the last step
    downwards = np.where(order >= 0, np.take_along_axis(upwards, order[None].clip(0), -1), -1)
    return HuffmanTree(downwards[0], downwards[1], children)


def expected_code_length(tree, counts):
    """Steps from the root to a word, on average over words drawn as often as they were seen.

    ``sum(counts * lengths) / sum(counts)``. In bits, the entropy ``H`` of the words bounds it,
    ``H <= length < H + 1`` for a Huffman tree, and no other tree is shorter. A balanced tree needs
    ``log2(V)``. Each step costs one product of ``d`` numbers, against ``V`` of them for a full softmax.

    Parameters
    ----------
    tree : HuffmanTree
    counts : array (V,)
        Those of the tree, or of another text with the same words.

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        As for `huffman_tree`; if there is not one count for each word, or all are zero.

    References
    ----------
    Huffman 1952, as for `huffman_tree`; Shannon 1948, "A mathematical theory of communication", theorem 9.

    Examples
    --------
    >>> import numpy as np
    >>> counts = np.array([5, 2, 1])
    >>> expected_code_length(huffman_tree(counts), counts)      # (5 * 1 + 2 * 2 + 1 * 2) / 8
    1.375
    """
    counts = _valid_counts(counts)
    lengths = np.asarray((tree.codes >= 0).sum(-1))
    if len(lengths) != len(counts):
        raise ValueError(f"counts must have one entry for each of the tree's {len(lengths)} words; "
                         f"got {len(counts)}")  # fmt: skip
    if not counts.any():
        raise ValueError("counts must not all be zero: nothing was seen whose length could be averaged")
    shares = np.ldexp(counts.astype(np.float64), -np.frexp(counts.max())[1])  # large counts might overflow
    return float((shares * lengths).sum() / shares.sum())


def _join(counts):
    """The children of each inner node, in the order in which the nodes are made.

    Words wait in order of their counts, and so do the inner nodes, for each is at least as frequent as the
    one made before it: the rarest is at the head of one of two queues.
    """
    words = np.argsort(-counts, kind="stable").tolist()  # the rarest is taken from the end
    weight = [*counts.tolist(), *[math.inf] * (len(words) - 1)]
    children, next_node = [], len(words)
    for made in range(len(words), 2 * len(words) - 1):
        pair = []
        for _ in range(2):
            if words and weight[words[-1]] < weight[next_node]:
                pair.append(words.pop())
            else:
                pair.append(next_node)
                next_node += 1
        weight[made] = weight[pair[0]] + weight[pair[1]]
        children.append(pair)
    return np.array(children)


def _valid_counts(counts):
    xp = namespace(counts=counts)
    if kind_of(xp, counts.dtype) not in ("integral", "real floating"):
        raise TypeError(f"counts must hold real numbers; got dtype {counts.dtype}")
    if counts.ndim != 1 or counts.shape[0] < 2:
        raise ValueError(f"counts must have shape (V,) with at least two words; got {tuple(counts.shape)}")
    counts = xp.astype(counts, xp.int64 if xp.isdtype(counts.dtype, "integral") else xp.float64, copy=False)
    counts = np.asarray(counts.detach().cpu() if hasattr(counts, "detach") else counts)
    if not np.isfinite(counts).all() or (counts < 0).any():
        wrong = counts[~np.isfinite(counts) | (counts < 0)][0]
        raise ValueError(f"counts must be finite and at least 0; got {wrong}")
    return counts

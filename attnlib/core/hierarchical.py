"""A softmax over many words as a walk down a tree: one yes or no at each inner node."""

from attnlib.core.arrays import kind_of
from attnlib.core.shapes import working_arrays


def hierarchical_log_prob(h, target, nodes, tree):
    """Log-probability of one word for each state, from the nodes on its path alone.

    ``log p(w | h) = sum over its path of log sigmoid((1 - 2 * code) * nodes[point] . h)``: turn 0 has
    probability ``sigmoid(nodes[point] . h)``, turn 1 the rest. That is as many products of ``d`` numbers
    as the word's code is long, where a full softmax needs ``V``.

    Parameters
    ----------
    h : array (..., d)
    target : integer array (...)
        A word for each state, ``0 .. V - 1``.
    nodes : array (V - 1, d)
        A vector for each inner node, word2vec's ``syn1``.
    tree : HuffmanTree
        Or any other tree of the same form (`huffman_tree`).

    Returns
    -------
    array (...)
        At most 0. Its negative mean is the loss.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, its shape does not fit, or a target is no word.

    References
    ----------
    Morin and Bengio 2005, "Hierarchical probabilistic neural network language model"; Mikolov et al. 2013,
    arXiv 1310.4546, section 2.1, equation 3, and word2vec, whose signs these are. fastText gives turn 1 the
    sigmoid, so that its vectors are these with the other sign. It adds 1e-5 inside each logarithm, and
    gensim's ``score`` reads ``log sigmoid`` from a table of 1,000 places, and leaves out a node where the
    product is 6 or more either way: neither sums to 1 exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from attnlib import huffman_tree
    >>> tree = huffman_tree(np.array([5, 2, 1]))            # codes 1, 01 and 00
    >>> np.exp(hierarchical_log_prob(np.ones((1, 4)), np.array([2]), np.zeros((2, 4)), tree))
    array([0.25])
    """
    xp, dtype, (h, nodes), (codes, points) = _start(h, nodes, tree, target=target)
    target = valid_target(xp, target, h, codes.shape[0])
    codes, points = codes[target, :], points[target, :]
    scores = xp.sum(nodes[points] * h[..., None, :], axis=-1)
    turns = _log_sigmoid(xp, xp.where(codes == 1, -scores, scores))
    total = xp.sum(xp.where(codes < 0, 0, turns), axis=-1, keepdims=True)
    return xp.astype(xp.squeeze(total, axis=-1), dtype, copy=False)


def hierarchical_log_softmax(h, nodes, tree):
    """Log-probability of every word, from every inner node of the tree.

    As `hierarchical_log_prob`, whose formula it applies to all words; their probabilities sum to 1 whatever
    the vectors are, for at each node the two turns do.

    Parameters
    ----------
    h : array (..., d)
    nodes : array (V - 1, d)
    tree : HuffmanTree

    Returns
    -------
    array (..., V)

    Raises
    ------
    TypeError, ValueError
        As for `hierarchical_log_prob`.

    References
    ----------
    As for `hierarchical_log_prob`.

    Examples
    --------
    >>> import numpy as np
    >>> from attnlib import huffman_tree
    >>> tree = huffman_tree(np.array([5, 2, 1]))
    >>> np.exp(hierarchical_log_softmax(np.ones(4), np.zeros((2, 4)), tree))
    array([0.5 , 0.25, 0.25])
    """
    xp, dtype, (h, nodes), (codes, points) = _start(h, nodes, tree)
    scores = h @ nodes.mT
    zero, one = _log_sigmoid(xp, scores), _log_sigmoid(xp, -scores)
    total = xp.zeros_like(zero[..., points[:, 0]])
    for step in range(points.shape[1]):  # all words at once, one turn further from the root
        code, point = codes[:, step], points[:, step]
        turn = xp.where(code == 1, one[..., point], zero[..., point])
        total = total + xp.where(code < 0, 0, turn)
    return xp.astype(total, dtype, copy=False)


def _start(h, nodes, tree, **others):
    """The vectors in the type to compute in, and the tree's codes and points in their library."""
    axes = {"h": (..., "d"), "nodes": ("V - 1", "d")}
    xp, dtype, (h, nodes, *_) = working_arrays({"h": h, "nodes": nodes, **others}, axes)
    if nodes.shape[0] != len(tree.codes) - 1:
        raise ValueError(
            f"nodes must have a row for each of the tree's {len(tree.codes) - 1} inner nodes; "
            f"got shape {tuple(nodes.shape)}"
        )
    return xp, dtype, (h, nodes), [xp.asarray(x, device=h.device) for x in (tree.codes, tree.points)]


def _log_sigmoid(xp, x):
    return -xp.logaddexp(xp.zeros_like(x), -x)


def valid_target(xp, target, h, n_words):
    """One of ``n_words`` words for each state, as int64: torch takes uint8 for a mask."""
    if kind_of(xp, target.dtype) != "integral":
        raise TypeError(f"target must hold whole numbers, one word a state; got dtype {target.dtype}")
    if tuple(target.shape) != tuple(h.shape[:-1]):
        raise ValueError(
            f"target must have one word for each state, shape {tuple(h.shape[:-1])}; "
            f"got {tuple(target.shape)}"
        )
    outside = (target < 0) | (target >= n_words)
    if xp.any(outside):
        raise ValueError(f"target must lie in 0 .. {n_words - 1}; got {int(target[outside][0])}")
    return xp.astype(target, xp.int64, copy=False)

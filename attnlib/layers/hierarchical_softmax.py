"""Hierarchical softmax as the last layer of a model: a vector for each inner node of a Huffman tree."""

import torch
from torch import nn

from attnlib.core.arrays import valid_length
from attnlib.core.hierarchical import hierarchical_log_prob, hierarchical_log_softmax
from attnlib.core.huffman import HuffmanTree, expected_code_length, huffman_tree
from attnlib.layers.adaptive_softmax import TargetLogProb, check_states


class HierarchicalSoftmax(nn.Module):
    """A softmax over ``V`` words at the cost of one path of their Huffman tree.

    Parameters
    ----------
    in_features : int >= 1
        Features of a state, ``d``.
    counts : array (V,)
        How often each word was seen, in any order.

    Raises
    ------
    TypeError, ValueError
        As for `huffman_tree`; if ``in_features`` is no positive integer.

    References
    ----------
    As for `hierarchical_log_prob`. ``weight`` is word2vec's ``syn1`` without its last row, which no path
    uses, and begins as zeros, as there: every turn is even. The tree is in the state dict, for without it
    the vectors mean nothing.

    Examples
    --------
    >>> layer = HierarchicalSoftmax(4, torch.tensor([5, 2, 1]))
    >>> out, loss = layer(torch.ones(2, 4), torch.tensor([0, 2]))
    >>> out.exp()
    tensor([0.5000, 0.2500], grad_fn=<ExpBackward0>)
    """

    def __init__(self, in_features, counts, *, device=None, dtype=None):
        super().__init__()
        self.in_features = valid_length(in_features, "in_features")
        tree = huffman_tree(counts)
        self.n_classes = len(tree.codes)
        self.weight = nn.Parameter(
            torch.zeros(self.n_classes - 1, self.in_features, device=device, dtype=dtype)
        )
        for name, array in tree._asdict().items():
            self.register_buffer(f"tree_{name}", torch.tensor(array, device=device))

    @property
    def tree(self):
        """The HuffmanTree, of tensors."""
        return HuffmanTree(self.tree_codes, self.tree_points, self.tree_children)

    def forward(self, h, target):
        """Log-probabilities of the targets along their paths, and the loss.

        Parameters
        ----------
        h : tensor (..., in_features)
        target : integer tensor (...)

        Returns
        -------
        TargetLogProb
            ``output`` (...) and ``loss`` ().

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, its shape does not fit, or a target is no word.
        """
        check_states(h, self.in_features)
        output = hierarchical_log_prob(h, target, self.weight, self.tree)
        return TargetLogProb(output, -output.mean())

    def log_prob(self, h):
        """Log-probabilities of all words, at the cost of a full softmax.

        Parameters
        ----------
        h : tensor (..., in_features)

        Returns
        -------
        tensor (..., V)

        Raises
        ------
        TypeError, ValueError
            As for the forward pass.
        """
        check_states(h, self.in_features)
        return hierarchical_log_softmax(h, self.weight, self.tree)

    def predict(self, h):
        """The most probable word for each state.

        To take the likelier turn at each node is shorter and may end at another word: a likely turn may lead
        to many words, none of them likely.

        Parameters
        ----------
        h : tensor (..., in_features)

        Returns
        -------
        int64 tensor (...)

        Raises
        ------
        TypeError, ValueError
            As for the forward pass.
        """
        return self.log_prob(h).argmax(-1)

    def multiply_adds(self, counts):
        """Products that the forward pass makes for a state, on average over words seen so often.

        ``d`` for each step of the path (`expected_code_length`). A full softmax makes ``d * V``.

        Parameters
        ----------
        counts : array (V,)

        Returns
        -------
        float
        """
        return self.in_features * expected_code_length(HuffmanTree(*(x.cpu() for x in self.tree)), counts)

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"in_features={self.in_features}, n_classes={self.n_classes}"

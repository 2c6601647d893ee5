"""Words as vectors, at the beginning of a Transformer and, with the same table, at its end."""

import math

from torch import nn
from torch.nn.functional import linear

from attnlib.core.arrays import valid_length
from attnlib.layers.checks import check_features, check_integers


class ScaledEmbedding(nn.Embedding):
    """A vector for each word, times ``sqrt(d_model)``; the same table scores the words at the output.

    Values are drawn with standard deviation ``1/sqrt(d_model)``: vectors begin at the size of the
    positions that are added to them, and scores at the size of 1.

    Parameters
    ----------
    vocab_size : int >= 1
    d_model : int >= 1

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.4; Press and Wolf 2016, arXiv 1608.05859 (one table
    for both). The paper says nothing of the first values; these are tensor2tensor's.

    Examples
    --------
    >>> import torch
    >>> table = ScaledEmbedding(10, 16)
    >>> bool((table(torch.tensor([[7]])) == 4 * table.weight[7]).all())
    True
    """

    def __init__(self, vocab_size, d_model, *, device=None, dtype=None):
        vocab_size, d_model = valid_length(vocab_size, "vocab_size"), valid_length(d_model, "d_model")
        super().__init__(vocab_size, d_model, device=device, dtype=dtype)

    def reset_parameters(self):
        """Draw new values."""
        nn.init.normal_(self.weight, std=self.embedding_dim**-0.5)

    def forward(self, ids):
        """Look words up.

        Parameters
        ----------
        ids : integer tensor (...)

        Returns
        -------
        tensor (..., d_model)

        Raises
        ------
        TypeError, ValueError
            If ``ids`` is no tensor of integers, or one is no word.
        """
        check_ids(ids, "ids", self.num_embeddings)
        return super().forward(ids) * math.sqrt(self.embedding_dim)

    def scores(self, x):
        """One score for each word: ``x @ weight.T``, without the factor.

        Parameters
        ----------
        x : tensor (..., d_model)

        Returns
        -------
        tensor (..., vocab_size)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor, or has another number of features.
        """
        check_features(x, "x", self.embedding_dim)
        return linear(x, self.weight)


def check_ids(ids, name, vocab_size):
    check_integers(ids, name)
    outside = (ids < 0) | (ids >= vocab_size)
    if outside.any():
        raise ValueError(
            f"{name} must lie in 0 .. {vocab_size - 1}, for there are {vocab_size} words; "
            f"got {int(ids[outside][0])}"
        )

"""The feed-forward net of a Transformer: each token by itself through a wider layer."""

import torch
from torch import nn

from attnlib.core.arrays import valid_length
from attnlib.layers.checks import check_features, valid_dropout


class FeedForward(nn.Module):
    """``relu(x @ W1.T + b1) @ W2.T + b2`` at every position, with the same weights.

    Parameters
    ----------
    d_model : int >= 1
        Features of a token, before and after.
    d_ff : int >= 1
        Features in between; four times ``d_model`` in the paper.
    dropout : float, 0 <= dropout < 1
        In training, on the features in between.
    bias : bool
        Whether there are ``b1`` and ``b2``.

    Raises
    ------
    TypeError, ValueError
        If a width or a number is out of its range.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.3, equation 2. The paper has no dropout in between;
    tensor2tensor, ``torch.nn.Transformer`` and the Annotated Transformer have.

    Examples
    --------
    >>> FeedForward(8, 32)(torch.zeros(2, 5, 8)).shape
    torch.Size([2, 5, 8])
    """

    def __init__(self, d_model, d_ff, *, dropout=0.0, bias=True, device=None, dtype=None):
        super().__init__()
        d_model, d_ff = valid_length(d_model, "d_model"), valid_length(d_ff, "d_ff")
        self.linear1 = nn.Linear(d_model, d_ff, bias, device=device, dtype=dtype)
        self.linear2 = nn.Linear(d_ff, d_model, bias, device=device, dtype=dtype)
        self.dropout = nn.Dropout(valid_dropout(dropout))

    def forward(self, x):
        """Change every token.

        Parameters
        ----------
        x : tensor (..., d_model)

        Returns
        -------
        tensor (..., d_model)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor, or has another number of features.
        """
        check_features(x, "x", self.linear1.in_features)
        return self.linear2(self.dropout(torch.relu(self.linear1(x))))

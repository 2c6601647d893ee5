"""Learned positions: a vector for each position, trained like the embeddings of words."""

import torch
from torch import nn

from attnlib.core.arrays import valid_length


class LearnedPositions(nn.Embedding):
    """One learned vector for each position up to a greatest length.

    ``out[..., l, :] = weight[positions[..., l]]``. Unlike the other kinds of positions it has
    nothing to say of a position beyond its length.

    Parameters
    ----------
    max_len : int >= 1
        Positions ``0 .. max_len - 1``.
    d_model : int >= 1

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer.

    References
    ----------
    Gehring et al. 2017, arXiv 1705.03122, section 3.1; Vaswani et al. 2017, arXiv 1706.03762, section 3.5,
    found it as good as sinusoids. ``weight`` loads from GPT-2's ``wpe.weight``. Initial values are those of
    ``nn.Embedding``, of standard deviation 1; GPT-2 in Hugging Face transformers begins with 0.02.

    Examples
    --------
    >>> layer = LearnedPositions(512, 8)
    >>> layer(torch.arange(5)).shape
    torch.Size([5, 8])
    """

    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__(
            valid_length(max_len, "max_len"), valid_length(d_model, "d_model"), device=device, dtype=dtype
        )

    def forward(self, positions):
        """Look positions up.

        Parameters
        ----------
        positions : integer tensor (..., L)
            Between 0 and ``max_len - 1``.

        Returns
        -------
        tensor (..., L, d_model)

        Raises
        ------
        TypeError, ValueError
            If ``positions`` is no tensor of integers, or one has no vector.
        """
        if not isinstance(positions, torch.Tensor) or positions.dtype not in (torch.int32, torch.int64):
            got = positions.dtype if isinstance(positions, torch.Tensor) else type(positions).__name__
            raise TypeError(f"positions must be a torch tensor of int32 or int64; got {got}")
        outside = (positions < 0) | (positions >= self.num_embeddings)
        if outside.any():
            raise ValueError(
                f"positions must lie in 0 .. {self.num_embeddings - 1}, for the table has "
                f"{self.num_embeddings} rows; got {int(positions[outside][0])}"
            )
        return super().forward(positions)

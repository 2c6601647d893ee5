"""A residual connection with its norm: behind the sum as in the paper, or before the sub-layer."""

from torch import nn

from attnlib.layers.checks import valid_dropout


class Residual(nn.Module):
    """Adds what a sub-layer says of ``x`` to ``x``.

    Post-norm: ``norm(x + dropout(sublayer(x)))``. Pre-norm: ``x + dropout(sublayer(norm(x)))``, where an
    unbroken sum leads from the last layer to the first.

    Parameters
    ----------
    norm : Module
        Such as ``torch.nn.LayerNorm(d_model)``.
    dropout : float, 0 <= dropout < 1
        In training, on what the sub-layer says.
    norm_first : bool
        Pre-norm. A stack of such layers needs one norm more at its end.

    Raises
    ------
    TypeError, ValueError
        If ``norm`` is no module, or ``dropout`` out of its range.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, sections 3.1 and 5.4, has post-norm. Xiong et al. 2020,
    arXiv 2002.04745, compare the two, and train pre-norm without a warm-up. The Annotated Transformer
    quotes post-norm and, for the sake of simple code, computes pre-norm.

    Examples
    --------
    >>> import torch
    >>> layer = Residual(nn.LayerNorm(4), norm_first=True)
    >>> layer(torch.ones(2, 4), lambda y: y + 5).tolist()[0]      # the norm of equal features is 0
    [6.0, 6.0, 6.0, 6.0]
    """

    def __init__(self, norm, *, dropout=0.0, norm_first=False):
        super().__init__()
        if not isinstance(norm, nn.Module):
            raise TypeError(f"norm must be a torch module; got {type(norm).__name__}")
        self.norm, self.dropout = norm, nn.Dropout(valid_dropout(dropout))
        self.norm_first = norm_first

    def forward(self, x, sublayer):
        """The sum, normed on one side or the other.

        Parameters
        ----------
        x : tensor (..., d_model)
        sublayer : function of one tensor
            Gives a tensor of the shape that it gets.

        Returns
        -------
        tensor (..., d_model)
        """
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return self.norm(x + self.dropout(sublayer(x)))

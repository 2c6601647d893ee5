"""PolaFormer: linear attention by polarity, a convolution that gives back its rank, and a gate."""

import torch
from torch import nn
from torch.nn.functional import interpolate, softplus

from attnlib.cases.patches import valid_grid
from attnlib.cases.polarity import polarity_attention
from attnlib.core.arrays import check_number, valid_length
from attnlib.layers.checks import check_dtype, check_tokens
from attnlib.layers.multi_head import merge_heads, split_heads


class PolaLinearAttention(nn.Module):
    """``((polarity_attention(q, k, v) + conv(v)) * g) @ proj.T``, over the tokens of an image.

    ``q``, ``k``, ``v`` and the gate ``g`` are linear in the tokens. ``k`` gets a learned position, ``q`` and
    ``k`` are divided by ``softplus(scale)``, and the power is ``1 + alpha * sigmoid(power)``, of each feature
    of each head: 3 at first. ``conv`` is a depthwise convolution over the image, the same for all heads. The
    weights of linear attention have at most the rank of their features; a convolution has no such limit.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
        Divides ``dim``; each head has an even number of features.
    grid : (int, int)
        Rows and columns of tokens, or of a window of them.
    sr_ratio : int >= 1
        Divides both. Keys and values are made of squares of so many tokens a side (a strided convolution,
        then a norm); for ``conv`` the values are stretched again, along the line of tokens.
    kernel_size : int >= 1
        Of the convolution; odd.
    alpha : float > 0
    bias : bool
        Of the maps to ``q``, ``k``, ``v`` and ``g``. ``proj`` has one always.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or one does not divide the other.

    References
    ----------
    Meng et al. 2025, arXiv 2501.15061; ``PolaLinearAttention`` in ``models/pola_pvt.py`` and
    ``models/pola_swin.py`` of ZacharyMeng/PolaFormer, whose state dicts load. The second has one map
    ``qkvg`` for windows of tokens, and ignores its mask. The paper's learned matrices for the halves of the
    output are in the code the gate, without an activation, after the convolution is added.

    Examples
    --------
    >>> layer = PolaLinearAttention(8, n_heads=2, grid=(3, 4))
    >>> layer(torch.zeros(1, 12, 8)).shape, layer.dwc.weight.shape
    (torch.Size([1, 12, 8]), torch.Size([4, 1, 5, 5]))
    """

    def __init__(self, dim, n_heads, grid, *, sr_ratio=1, kernel_size=5, alpha=4, bias=True, device=None,
                 dtype=None):  # fmt: skip
        super().__init__()
        self.dim, self.n_heads = valid_length(dim, "dim"), valid_length(n_heads, "n_heads")
        self.grid, self.sr_ratio = valid_grid(grid), valid_length(sr_ratio, "sr_ratio")
        if self.dim % (2 * self.n_heads):
            raise ValueError(
                f"each head must have an even number of features; {dim} in {n_heads} heads have not"
            )
        if any(n % self.sr_ratio for n in self.grid):
            raise ValueError(f"sr_ratio must divide the grid {self.grid}; got {sr_ratio}")
        kernel_size = valid_length(kernel_size, "kernel_size")
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size must be odd, to keep the image's size; got {kernel_size}")
        check_number(alpha, "alpha")
        if not alpha > 0:
            raise ValueError(f"alpha must be greater than 0; got {alpha!r}")
        self.alpha = alpha
        made = {"device": device, "dtype": dtype}
        self.qg = nn.Linear(self.dim, 2 * self.dim, bias=bias, **made)
        self.kv = nn.Linear(self.dim, 2 * self.dim, bias=bias, **made)
        self.proj = nn.Linear(self.dim, self.dim, **made)
        if self.sr_ratio > 1:
            self.sr = nn.Conv2d(self.dim, self.dim, self.sr_ratio, stride=self.sr_ratio, **made)
            self.norm = nn.LayerNorm(self.dim, **made)
        d = self.dim // self.n_heads
        self.dwc = nn.Conv2d(d, d, kernel_size, padding=kernel_size // 2, groups=d, **made)
        self.power = nn.Parameter(torch.zeros(1, self.n_heads, 1, d, **made))
        self.scale = nn.Parameter(torch.zeros(1, 1, self.dim, **made))
        n_key = self.grid[0] * self.grid[1] // self.sr_ratio**2
        self.positional_encoding = nn.Parameter(torch.zeros(1, n_key, self.dim, **made))

    def forward(self, x):
        """Let each token attend to all of its image.

        Parameters
        ----------
        x : tensor (B, H * W, dim)
            Row by row.

        Returns
        -------
        tensor (B, H * W, dim)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor of as many tokens as the grid has.
        """
        check_image_tokens(x, self.dim, self.grid)
        check_dtype(x, self)
        q, gate = self.qg(x).chunk(2, -1)
        k, v = self.kv(x if self.sr_ratio == 1 else self._squares(x)).chunk(2, -1)
        scale, power = softplus(self.scale), 1 + self.alpha * self.power.sigmoid()
        q, k = q / scale, (k + self.positional_encoding) / scale
        q, k, v = (split_heads(part, self.n_heads) for part in (q, k, v))
        out = merge_heads(polarity_attention(q, k, v, power) + self._convolved(v))
        return self.proj(out * gate)

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"{self.dim}, n_heads={self.n_heads}, grid={self.grid}, sr_ratio={self.sr_ratio}"

    def _squares(self, x):
        """One token for each square: ``(B, H * W / sr_ratio**2, dim)``."""
        return self.norm(self.sr(x.mT.unflatten(-1, self.grid)).flatten(2).mT)

    def _convolved(self, v):
        """``conv`` of each head's values, ``(B, n_heads, H * W, d)``."""
        lines = v.flatten(0, 1).mT
        if self.sr_ratio > 1:
            lines = interpolate(lines, size=self.grid[0] * self.grid[1], mode="linear")
        return self.dwc(lines.unflatten(-1, self.grid)).flatten(2).mT.unflatten(0, v.shape[:2])

    def _load_from_state_dict(self, state_dict, prefix, *others):
        """Take the rows of the windows' one map, if that is what is there, as those of two."""
        for part in ("weight", "bias"):
            if (rows := state_dict.pop(f"{prefix}qkvg.{part}", None)) is not None:
                q, k, v, g = rows.chunk(4)
                state_dict[f"{prefix}qg.{part}"] = torch.cat([q, g])
                state_dict[f"{prefix}kv.{part}"] = torch.cat([k, v])
        super()._load_from_state_dict(state_dict, prefix, *others)


def check_image_tokens(x, width, grid):
    """Raise where ``x`` is no tensor ``(B, H * W, width)``."""
    check_tokens(x, width)
    if x.shape[1] != grid[0] * grid[1]:
        raise ValueError(f"x must have {grid[0]} x {grid[1]} tokens, row by row; got shape {tuple(x.shape)}")

"""A small vision Transformer whose attention can be exchanged."""

import torch
from torch import nn

from attnlib.cases.patches import image_patches, valid_grid
from attnlib.cases.polarity import polarity_attention
from attnlib.cases.relu_linear import relu_linear_attention
from attnlib.cases.sana import MixFFN
from attnlib.core.arrays import valid_length
from attnlib.core.scaled_dot_product import attention as softmax_attention
from attnlib.layers.checks import check_dtype, check_tensor
from attnlib.layers.feed_forward import FeedForward
from attnlib.layers.multi_head import merge_heads, split_heads

ATTENTIONS = {
    "softmax": softmax_attention,
    "relu": relu_linear_attention,
    "polarity": polarity_attention,
}


class TinyVisionTransformer(nn.Module):
    """Says what an image shows: squares of pixels are tokens, and their mean after a few layers decides.

    Each layer is ``x + attention(norm(x))``, then ``x + ff(norm(x))``. The attentions have the same
    parameters, so that models that differ in it alone can be compared.

    Parameters
    ----------
    image_size : (int, int)
        Rows and columns of pixels.
    patch : int >= 1
        Pixels on a side of a square; divides both.
    dim : int >= 1
        Features of a token.
    depth : int >= 1
        Layers.
    n_heads : int >= 1
        Divides ``dim``.
    n_classes : int >= 1
    attention : "softmax", "relu" or "polarity", or a function
        `attention`, `relu_linear_attention`, `polarity_attention`, or any other function of queries, keys
        and values ``(B, n_heads, N, dim / n_heads)`` that gives as many outputs. The last has a power of 3,
        and no gate and no convolution: those are in `PolaLinearAttention`.
    channels : int >= 1
        Colours.
    positions : bool
        A learned vector is added to each token. Without it, and without ``mix_ffn``, the order of the
        squares is not seen.
    mix_ffn : bool
        `MixFFN` in place of `FeedForward`, which here has ``2 * dim`` features in between.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, one does not divide the other, or ``attention`` has no such name.

    References
    ----------
    Dosovitskiy et al. 2020, arXiv 2010.11929, section 3.1, whose class token a mean over the tokens
    replaces here.

    Examples
    --------
    >>> model = TinyVisionTransformer((8, 8), 2, dim=32, depth=2, n_heads=4, n_classes=10)
    >>> model(torch.zeros(5, 8, 8, 1)).shape, sum(p.numel() for p in model.parameters())
    (torch.Size([5, 10]), 18154)
    """

    def __init__(self, image_size, patch, dim, depth, n_heads, n_classes, *, attention="softmax", channels=1,
                 positions=True, mix_ffn=False):  # fmt: skip
        super().__init__()
        H, W = valid_grid(image_size)
        self.patch, dim, depth = (
            valid_length(patch, "patch"),
            valid_length(dim, "dim"),
            valid_length(depth, "depth"),
        )
        if H % self.patch or W % self.patch:
            raise ValueError(f"patch must divide the sides of an image, {H} and {W}; got {patch}")
        self.image_shape = H, W, valid_length(channels, "channels")
        grid = H // self.patch, W // self.patch
        self.embedding = nn.Linear(self.patch**2 * channels, dim)
        self.positions = nn.Parameter(0.02 * torch.randn(grid[0] * grid[1], dim)) if positions else None
        self.layers = nn.Sequential(
            *(VisionLayer(dim, n_heads, grid, attention, mix_ffn) for _ in range(depth))
        )
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, valid_length(n_classes, "n_classes"))

    def forward(self, images):
        """Score the classes.

        Parameters
        ----------
        images : tensor (B, H, W, channels)
            Real numbers of about the size of 1: pixels divided by the greatest.

        Returns
        -------
        tensor (B, n_classes)
            Logits.

        Raises
        ------
        TypeError, ValueError
            If ``images`` is no such tensor.
        """
        check_tensor(images, "images", 0)
        if images.ndim != 4 or tuple(images.shape[1:]) != self.image_shape or not len(images):
            wanted = ", ".join(map(str, self.image_shape))
            raise ValueError(f"images must have shape (B, {wanted}), not empty; got {tuple(images.shape)}")
        check_dtype(images, self, "images")
        x = self.embedding(image_patches(images, self.patch))
        if self.positions is not None:
            x = x + self.positions
        return self.head(self.norm(self.layers(x)).mean(1))


class VisionLayer(nn.Module):
    """One layer of a `TinyVisionTransformer`: tokens look at each other, then each is changed."""

    def __init__(self, dim, n_heads, grid, attention, mix_ffn):
        super().__init__()
        self.n_heads, self.grid = valid_length(n_heads, "n_heads"), grid
        if dim % self.n_heads:
            raise ValueError(f"dim {dim} does not divide into {n_heads} heads")
        if not callable(attention) and attention not in list(ATTENTIONS):
            raise ValueError(
                f"attention must be a function or one of {', '.join(ATTENTIONS)}; got {attention!r}"
            )
        self.attention = ATTENTIONS.get(attention, attention)
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.ff = MixFFN(dim) if mix_ffn else FeedForward(dim, 2 * dim)

    def forward(self, x):
        """Change tokens ``(B, N, dim)``."""
        q, k, v = (split_heads(part, self.n_heads) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.proj(merge_heads(self.attention(q, k, v)))
        y = self.norm2(x)
        if isinstance(self.ff, MixFFN):
            return x + self.ff(y.mT.unflatten(-1, self.grid)).flatten(2).mT
        return x + self.ff(y)

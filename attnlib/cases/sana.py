"""SANA: linear attention by ReLU, attention to a text, and a feed-forward net that sees neighbours."""

import torch
from torch import nn
from torch.nn.functional import silu

from attnlib.cases.patches import valid_grid
from attnlib.cases.polaformer import check_image_tokens
from attnlib.cases.relu_linear import relu_linear_attention
from attnlib.core.arrays import check_number, valid_length
from attnlib.core.scaled_dot_product import attention
from attnlib.layers.checks import check_dtype, check_tensor, check_tokens
from attnlib.layers.multi_head import merge_heads, split_heads
from attnlib.layers.rms_norm import RMSNorm


class _Projections(nn.Module):
    """The maps around an attention of several heads, under the names of diffusers' ``Attention``."""

    def __init__(self, dim, n_heads, head_dim, source_dim, bias, qk_norm, made):
        super().__init__()
        self.dim, self.n_heads = valid_length(dim, "dim"), valid_length(n_heads, "n_heads")
        if head_dim is None and self.dim % self.n_heads:
            raise ValueError(f"dim {dim} does not divide into {n_heads} heads; head_dim sets their width")
        self.head_dim = self.dim // self.n_heads if head_dim is None else valid_length(head_dim, "head_dim")
        inner = self.n_heads * self.head_dim
        self.to_q = nn.Linear(self.dim, inner, bias=bias, **made)
        self.to_k = nn.Linear(source_dim, inner, bias=bias, **made)
        self.to_v = nn.Linear(source_dim, inner, bias=bias, **made)
        self.to_out = nn.ModuleList([nn.Linear(inner, self.dim, **made)])
        self.norm_q = RMSNorm(inner, **made) if qk_norm else None
        self.norm_k = RMSNorm(inner, **made) if qk_norm else None

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return f"{self.dim}, n_heads={self.n_heads}, head_dim={self.head_dim}"

    def _heads(self, x, source):
        q, k, v = self.to_q(x), self.to_k(source), self.to_v(source)
        if self.norm_q is not None:
            q, k = self.norm_q(q), self.norm_k(k)
        return (split_heads(part, self.n_heads) for part in (q, k, v))

    def _out(self, heads):
        return self.to_out[0](merge_heads(heads))


class SanaLinearAttention(_Projections):
    """`relu_linear_attention` of several heads among the tokens of an image, and a last linear map.

    It knows no positions: permute the tokens, and the output is permuted likewise.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
    head_dim : int >= 1, optional
        Features of a head; ``dim / n_heads`` when left out.
    bias : bool
        Of the maps to queries, keys and values. The last map has one always.
    qk_norm : bool
        An `RMSNorm` of queries and one of keys, over all heads' features together.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or the heads do not divide the features.

    References
    ----------
    Xie et al. 2024, arXiv 2410.10629; ``Attention`` with ``SanaLinearAttnProcessor2_0`` of Hugging Face's
    diffusers, whose parameter names it has (``qk_norm`` is its "rms_norm_across_heads"). NVlabs/Sana has the
    rows of the three maps in one ``qkv``. In float16 diffusers cuts its output to the largest number.

    Examples
    --------
    >>> layer = SanaLinearAttention(8, n_heads=2)
    >>> layer(torch.zeros(1, 12, 8)).shape, list(layer.state_dict())[-2:]
    (torch.Size([1, 12, 8]), ['to_out.0.weight', 'to_out.0.bias'])
    """

    def __init__(self, dim, n_heads, head_dim=None, *, bias=False, qk_norm=False, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        super().__init__(dim, n_heads, head_dim, dim, bias, qk_norm, made)

    def forward(self, x):
        """Let each token attend to all.

        Parameters
        ----------
        x : tensor (B, N, dim)

        Returns
        -------
        tensor (B, N, dim)
            The last map's bias alone for a token whose queries have no positive entry.

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no such tensor.
        """
        check_tokens(x, self.dim)
        check_dtype(x, self)
        return self._out(relu_linear_attention(*self._heads(x, x)))


class SanaCrossAttention(_Projections):
    """Softmax attention of several heads from the tokens of an image to those of a text.

    Parameters
    ----------
    dim : int >= 1
        Features of an image's token.
    n_heads : int >= 1
    head_dim : int >= 1, optional
        Features of a head; ``dim / n_heads`` when left out.
    text_dim : int >= 1, optional
        Features of a text's token; ``dim`` when left out.
    qk_norm : bool
        As for `SanaLinearAttention`.

    Raises
    ------
    TypeError, ValueError
        As for `SanaLinearAttention`.

    References
    ----------
    Xie et al. 2024, arXiv 2410.10629; ``Attention`` with ``SanaAttnProcessor2_0`` of Hugging Face's
    diffusers, whose parameter names it has. Its mask is added to the scores; a text that is hidden as a
    whole is there no text at all but one of equal weights.

    Examples
    --------
    >>> layer = SanaCrossAttention(8, n_heads=2, text_dim=6)
    >>> layer(torch.zeros(1, 12, 8), torch.zeros(1, 5, 6)).shape
    torch.Size([1, 12, 8])
    """

    def __init__(self, dim, n_heads, head_dim=None, *, text_dim=None, qk_norm=False, device=None, dtype=None):
        made = {"device": device, "dtype": dtype}
        text_dim = dim if text_dim is None else text_dim
        self.text_dim = valid_length(text_dim, "text_dim")
        super().__init__(dim, n_heads, head_dim, self.text_dim, True, qk_norm, made)

    def forward(self, x, text, mask=None):
        """Let each token of the image attend to the text.

        Parameters
        ----------
        x : tensor (B, N, dim)
        text : tensor (B, S, text_dim)
        mask : bool tensor (B, S), optional
            ``True`` for what is text, ``False`` for padding.

        Returns
        -------
        tensor (B, N, dim)
            The last map's bias alone where there is nothing to attend to.

        Raises
        ------
        TypeError, ValueError
            If an argument is no such tensor.
        """
        check_tokens(x, self.dim)
        check_dtype(x, self)
        check_text(text, x, self.text_dim)
        check_dtype(text, self, "text")
        if mask is not None:
            check_tensor(mask, "mask")
            if mask.shape != text.shape[:2] or mask.dtype != torch.bool:
                raise ValueError(
                    f"mask must be boolean, of shape {tuple(text.shape[:2])}; got {mask.dtype}, "
                    f"{tuple(mask.shape)}"
                )
            mask = mask[:, None, None]
        q, k, v = self._heads(x, text)
        return self._out(attention(q, k, v, mask))


class MixFFN(nn.Module):
    """A feed-forward net with a depthwise 3x3 convolution in it: each token sees its eight neighbours.

    ``u = conv3x3(silu(x @ A + a)) + b``, cut into ``[u1, u2]``, then ``(u1 * silu(u2)) @ C``: a gated net,
    as `SwiGLU` is, in which tokens mix. It is what tells a SANA block where tokens lie.

    Parameters
    ----------
    dim : int >= 1
        Features of a token, before and after.
    ratio : float > 0
        ``int(ratio * dim)`` features pass the gate; twice as many come before it.

    Raises
    ------
    TypeError, ValueError
        If ``dim`` is no positive integer, or ``ratio`` leaves no feature.

    References
    ----------
    Xie et al. 2024, arXiv 2410.10629; ``GLUMBConv`` of Hugging Face's diffusers and of NVlabs/Sana, without
    the residual connection. The parameter names are those of diffusers.

    Examples
    --------
    >>> MixFFN(8)(torch.zeros(1, 8, 3, 4)).shape
    torch.Size([1, 8, 3, 4])
    """

    def __init__(self, dim, ratio=2.5, *, device=None, dtype=None):
        super().__init__()
        self.dim = valid_length(dim, "dim")
        check_number(ratio, "ratio")
        hidden = int(ratio * self.dim)
        if hidden < 1:
            raise ValueError(f"ratio must leave a feature or more of {dim}; got {ratio!r}")
        made = {"device": device, "dtype": dtype}
        self.conv_inverted = nn.Conv2d(self.dim, 2 * hidden, 1, **made)
        self.conv_depth = nn.Conv2d(2 * hidden, 2 * hidden, 3, padding=1, groups=2 * hidden, **made)
        self.conv_point = nn.Conv2d(hidden, self.dim, 1, bias=False, **made)

    def forward(self, x):
        """Change each token, and look at those around it.

        Parameters
        ----------
        x : tensor (B, dim, H, W)
            Tokens as an image; zeros lie around it.

        Returns
        -------
        tensor (B, dim, H, W)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no such tensor.
        """
        check_tensor(x, "x", 0)
        if x.ndim != 4 or x.shape[1] != self.dim or 0 in x.shape:
            raise ValueError(f"x must have shape (B, {self.dim}, H, W), not empty; got {tuple(x.shape)}")
        check_dtype(x, self)
        value, gate = self.conv_depth(silu(self.conv_inverted(x))).chunk(2, dim=1)
        return self.conv_point(value * silu(gate))


class SanaBlock(nn.Module):
    """One block of SANA's diffusion Transformer: three parts, each added to the tokens.

    ``x + gate1 * linear(norm(x) * (1 + scale1) + shift1)``; then ``x + cross(x, text)``, without a norm and
    without a gate; then ``x + gate2 * mix(norm(x) * (1 + scale2) + shift2)``. The six vectors are the rows
    ``shift1, scale1, gate1, shift2, scale2, gate2`` of a learned table, plus what the model makes, once for
    all blocks, of the time.

    Parameters
    ----------
    dim : int >= 1
        Features of an image's token.
    n_heads, head_dim : int >= 1
        Of the linear attention, as for `SanaLinearAttention`; ``head_dim`` may be left out.
    cross_heads, cross_head_dim : int >= 1
        Of the attention to the text, which may be left out likewise: ``n_heads``, ``dim / cross_heads``.
    text_dim : int >= 1, optional
        Features of a text's token; ``dim`` when left out.
    ratio : float > 0
        As for `MixFFN`.
    bias : bool
        Of the linear attention's queries, keys and values. False in SANA.
    qk_norm : bool
        In both attentions, as for `SanaLinearAttention`.
    norm_eps : float >= 0

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or one does not divide the other.

    References
    ----------
    Xie et al. 2024, arXiv 2410.10629; ``SanaTransformerBlock`` of Hugging Face's diffusers, whose state
    dicts load where its norms have no weights, the default. There ``bias`` (``attention_bias``) is True for
    a block by itself, False in the whole model. A table for each block and one map of the time for all is
    AdaLN-single, Chen et al. 2023, arXiv 2310.00426, section 2.3.

    Examples
    --------
    >>> block = SanaBlock(8, n_heads=2, text_dim=6)
    >>> x, time, text = torch.zeros(1, 12, 8), torch.zeros(1, 6, 8), torch.zeros(1, 5, 6)
    >>> block(x, time, text, grid=(3, 4)).shape
    torch.Size([1, 12, 8])
    """

    def __init__(self, dim, n_heads, head_dim=None, *, cross_heads=None, cross_head_dim=None, text_dim=None,
                 ratio=2.5, bias=False, qk_norm=False, norm_eps=1e-6, device=None, dtype=None):  # fmt: skip
        super().__init__()
        made = {"device": device, "dtype": dtype}
        self.attn1 = SanaLinearAttention(dim, n_heads, head_dim, bias=bias, qk_norm=qk_norm, **made)
        cross_heads = n_heads if cross_heads is None else cross_heads
        self.attn2 = SanaCrossAttention(dim, cross_heads, cross_head_dim, text_dim=text_dim, qk_norm=qk_norm,
                                        **made)  # fmt: skip
        self.ff = MixFFN(dim, ratio, **made)
        self.dim = self.attn1.dim
        self.norm = nn.LayerNorm(self.dim, eps=norm_eps, elementwise_affine=False)
        self.scale_shift_table = nn.Parameter(torch.randn(6, self.dim, **made) / self.dim**0.5)

    def forward(self, x, time, text, mask=None, *, grid):
        """Change the tokens of an image.

        Parameters
        ----------
        x : tensor (B, H * W, dim)
            Row by row.
        time : tensor (B, 6, dim), or (B, 6 * dim)
            Added to the table.
        text : tensor (B, S, text_dim)
        mask : bool tensor (B, S), optional
            ``True`` for what is text, ``False`` for padding.
        grid : (int, int)
            ``H`` and ``W``.

        Returns
        -------
        tensor (B, H * W, dim)

        Raises
        ------
        TypeError, ValueError
            If an argument is no such tensor.
        """
        grid = valid_grid(grid)
        check_image_tokens(x, self.dim, grid)
        check_dtype(x, self)
        check_tensor(time, "time")
        check_dtype(time, self, "time")
        if tuple(time.shape) not in ((x.shape[0], 6, self.dim), (x.shape[0], 6 * self.dim)):
            raise ValueError(
                f"time must have shape {(x.shape[0], 6, self.dim)}, for six vectors; got {tuple(time.shape)}"
            )
        vectors = self.scale_shift_table + time.reshape(-1, 6, self.dim)
        shift1, scale1, gate1, shift2, scale2, gate2 = vectors.split(1, dim=1)
        x = x + gate1 * self.attn1(self.norm(x) * (1 + scale1) + shift1)
        x = x + self.attn2(x, text, mask)
        image = (self.norm(x) * (1 + scale2) + shift2).mT.unflatten(-1, grid)
        return x + gate2 * self.ff(image).flatten(2).mT


def check_text(text, x, width):
    """Raise where ``text`` is no tensor ``(B, S, width)`` of as many sequences as ``x`` has."""
    check_tensor(text, "text", 0)
    if text.ndim != 3 or text.shape[0] != x.shape[0] or text.shape[2] != width or 0 in text.shape:
        raise ValueError(
            f"text must have shape ({x.shape[0]}, S, {width}), not empty; got {tuple(text.shape)}"
        )

"""Multi-head attention: the same attention on several slices of the features at once."""

import torch
from torch import nn
from torch.nn.functional import dropout, linear, pad
from torch.nn.utils import skip_init

from attnlib.core.arrays import namespace, valid_length
from attnlib.core.masks import causal_mask
from attnlib.core.scaled_dot_product import attention, attention_weights, check_mask
from attnlib.layers.checks import check_tensor


def split_heads(x, n_heads):
    """Cut the features into heads, and move the heads before the positions.

    Parameters
    ----------
    x : tensor (..., L, D)
    n_heads : int >= 1
        Divides ``D``.

    Returns
    -------
    tensor (..., H, L, D // H)
        Head ``h`` holds features ``h * D // H`` to ``(h + 1) * D // H`` of every token. A view of
        ``x`` where its strides allow one.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is no tensor of two or more axes, or its features do not divide into the heads.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2.

    Examples
    --------
    >>> split_heads(torch.arange(8).reshape(1, 2, 4), 2).tolist()    # two tokens, two heads
    [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]
    """
    check_tensor(x, "x", 2)
    n_heads = valid_length(n_heads, "n_heads")
    if x.shape[-1] % n_heads:
        raise ValueError(f"{x.shape[-1]} features of x do not divide into {n_heads} heads")
    return x.unflatten(-1, (n_heads, x.shape[-1] // n_heads)).transpose(-3, -2)


def merge_heads(x):
    """Lay the heads of each token side by side again; the inverse of `split_heads`.

    Parameters
    ----------
    x : tensor (..., H, L, d)

    Returns
    -------
    tensor (..., L, H * d)

    Raises
    ------
    TypeError, ValueError
        If ``x`` is no tensor of three or more axes.

    Examples
    --------
    >>> x = torch.arange(8).reshape(1, 2, 4)
    >>> bool((merge_heads(split_heads(x, 2)) == x).all())
    True
    """
    check_tensor(x, "x", 3)
    return x.transpose(-3, -2).flatten(-2)


class MultiHeadAttention(nn.Module):
    """Attention in ``num_heads`` subspaces of the features, and a last linear map over all of them.

    ``concat(head_1, ..., head_H) @ W_O.T + b_O`` with
    ``head_h = attention(query @ W_Q,h.T, key @ W_K,h.T, value @ W_V,h.T)``, biases left out. State
    dicts load from ``torch.nn.MultiheadAttention`` with the same arguments, and go back.

    Parameters
    ----------
    embed_dim : int >= 1
        Features of a query and of the output, ``E``.
    num_heads : int >= 1
        Divides ``embed_dim``; each head has ``embed_dim // num_heads`` features.
    dropout : float, 0 <= dropout < 1
        Part of the attention weights set to zero in training, the rest raised to keep the mean.
    bias : bool
        Add biases in all four linear maps.
    kdim, vdim : int >= 1, optional
        Features of a key and of a value before their maps; ``embed_dim`` when left out.
    add_bias_kv : bool
        Append one learned key and value to every sequence. Every query sees them.
    add_zero_attn : bool
        Append one key and value of zeros, after the learned one: a query may look at nothing.

    Raises
    ------
    TypeError, ValueError
        If a width or a number is out of its range, or the heads do not divide the features.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 3.2.2. Names and initial values are those of
    ``torch.nn.MultiheadAttention``; it differs in its masks (there ``True`` hides), in its first
    axis (there the length unless ``batch_first``), in a query with nothing to attend to (NaN there
    on most of its ways), and in the weights that it returns: averaged over the heads, and after
    dropout. A NaN in a token reaches every query, hidden or not, as it does there.

    Examples
    --------
    >>> layer = MultiHeadAttention(8, 2)
    >>> out, weights = layer(torch.zeros(3, 5, 8), causal=True, return_weights=True)
    >>> out.shape, weights.shape
    (torch.Size([3, 5, 8]), torch.Size([3, 2, 5, 5]))
    """

    def __init__(self, embed_dim, num_heads, *, dropout=0.0, bias=True, kdim=None, vdim=None,
                 add_bias_kv=False, add_zero_attn=False, device=None, dtype=None):
        super().__init__()
        self.embed_dim = valid_length(embed_dim, "embed_dim")
        self.num_heads = valid_length(num_heads, "num_heads")
        self.kdim = self.embed_dim if kdim is None else valid_length(kdim, "kdim")
        self.vdim = self.embed_dim if vdim is None else valid_length(vdim, "vdim")
        if self.embed_dim % self.num_heads:
            raise ValueError(f"embed_dim {embed_dim} does not divide into {num_heads} heads")
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1; got {dropout!r}")
        self.dropout, self.add_zero_attn = dropout, add_zero_attn

        def parameter(*shape):
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        e = self.embed_dim
        if self.kdim == self.vdim == e:
            self.in_proj_weight = parameter(3 * e, e)  # rows of the queries, the keys, the values
        else:
            self.q_proj_weight = parameter(e, e)
            self.k_proj_weight = parameter(e, self.kdim)
            self.v_proj_weight = parameter(e, self.vdim)
        self.in_proj_bias = parameter(3 * e) if bias else None
        self.out_proj = skip_init(nn.Linear, e, e, bias=bias, dtype=dtype,
                                  device=torch.get_default_device() if device is None else device)
        self.bias_k, self.bias_v = (parameter(1, 1, e) if add_bias_kv else None for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw new initial values: those of ``torch.nn.MultiheadAttention`` under the same seed."""
        self.out_proj.reset_parameters()
        for name, parameter in self.named_parameters():
            if name.endswith("proj_weight"):
                nn.init.xavier_uniform_(parameter)
            elif name in ("bias_k", "bias_v"):
                nn.init.xavier_normal_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, query, key=None, value=None, mask=None, *, causal=False, return_weights=False):
        """Let each query attend.

        Parameters
        ----------
        query : tensor (..., L, embed_dim)
        key : tensor (..., S, kdim), optional
            ``query`` itself when left out: self-attention.
        value : tensor (..., S, vdim), optional
            ``key`` when left out.
        mask : tensor, optional
            Broadcasts to ``(..., H, L, S)``: ``(L, S)``, or padding as ``(B, 1, 1, S)``. Boolean:
            ``True`` = may attend. Floating: added to the scaled scores.
        causal : bool
            Besides ``mask``, hide the keys after each query; aligned at the end.
        return_weights : bool
            Return the weights of every head too, as they are before dropout.

        Returns
        -------
        out : tensor (..., L, embed_dim)
            ``b_O`` alone for a query that may attend to nothing.
        weights : tensor (..., H, L, S), if asked for
            With a column more for each appended key.

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, or its shape does not fit.
        """
        key = query if key is None else key
        value = key if value is None else value
        self._check(query, key, value, mask, causal)
        q, k, v = (split_heads(x, self.num_heads) for x in self._project(query, key, value))
        if self.add_zero_attn:
            k, v = (pad(x, (0, 0, 0, 1)) for x in (k, v))
        appended = k.shape[-2] - key.shape[-2]
        if appended and (causal or mask is not None):
            mask, causal = _see_appended(mask, causal, q, key.shape[-2], appended), False
        if self.training and self.dropout:
            weights = attention_weights(q, k, mask, causal=causal)
            out = dropout(weights, self.dropout) @ v
        elif return_weights:
            out, weights = attention(q, k, v, mask, causal=causal, return_weights=True)
        else:
            out = attention(q, k, v, mask, causal=causal)
        out = self.out_proj(merge_heads(out))
        return (out, weights) if return_weights else out

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        widths = "" if self.kdim == self.vdim == self.embed_dim else f", kdim={self.kdim}, vdim={self.vdim}"
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}{widths}"

    def _project(self, query, key, value):
        """Queries, keys and values of all heads, each ``(..., L or S, embed_dim)``."""
        if hasattr(self, "in_proj_weight"):
            if query is key is value:  # one product instead of three
                q, k, v = linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
                return q, self._append(k, self.bias_k), self._append(v, self.bias_v)
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        q, k, v = map(linear, (query, key, value), weights, biases)
        return q, self._append(k, self.bias_k), self._append(v, self.bias_v)

    @staticmethod
    def _append(x, row):
        return x if row is None else torch.cat([x, row[0].expand(*x.shape[:-2], 1, -1)], dim=-2)

    def _check(self, query, key, value, mask, causal):
        for name, x, width in (
            ("query", query, self.embed_dim), ("key", key, self.kdim), ("value", value, self.vdim)
        ):
            check_tensor(x, name, 2)
            if 0 in x.shape:
                raise ValueError(f"{name} must not be empty; got shape {tuple(x.shape)}")
            if x.dtype != self.out_proj.weight.dtype and not torch.is_autocast_enabled(x.device.type):
                raise TypeError(
                    f"{name} must have the layer's dtype, {self.out_proj.weight.dtype}; got {x.dtype}. "
                    f"{name}.to(...) or layer.to(...) changes one of them."
                )
            if x.shape[-1] != width:
                raise ValueError(f"{name} must have {width} features; got shape {tuple(x.shape)}")
            if x.shape[:-2] != query.shape[:-2]:
                raise ValueError(
                    f"{name} must have the leading axes of query, {tuple(query.shape[:-2])}; "
                    f"got shape {tuple(x.shape)}"
                )
        if value.shape[-2] != key.shape[-2]:
            raise ValueError(
                f"value must have one row for each of the {key.shape[-2]} keys; "
                f"got shape {tuple(value.shape)}"
            )
        if not isinstance(causal, bool):
            raise TypeError(f"causal must be True or False; got {causal!r}")
        if mask is not None:
            heads = (*query.shape[:-2], self.num_heads, query.shape[-2], key.shape[-2])
            check_mask(namespace(query=query, mask=mask), mask, heads)


def _see_appended(mask, causal, q, n_key, appended):
    """The mask over the sequence's own keys, with columns that let every query see the appended ones."""
    if causal:
        visible = causal_mask(q.shape[-2], n_key, like=q)
        if mask is None or mask.dtype == torch.bool:
            mask = visible if mask is None else mask & visible
        else:
            mask = torch.where(visible, mask, -torch.inf)
    mask = mask.expand(*mask.shape[:-1], n_key)
    return pad(mask, (0, appended), value=mask.dtype == torch.bool)

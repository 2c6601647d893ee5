"""What a decoder remembers between its steps: keys and values, its own and those of the memory."""

import torch
from torch.nn.functional import linear

from attnlib.core.scaled_dot_product import attention
from attnlib.layers.multi_head import MultiHeadAttention, merge_heads, split_heads


class DecoderCache:
    """The keys and values of all layers of one decoder, for one batch of sentences.

    It begins empty. Each pass of new tokens adds theirs; the memory's are computed at the first pass and
    kept. A cache goes with the memory that it has first seen.

    Attributes
    ----------
    visible : bool tensor (B, S) or None
        Which of the tokens so far are no padding, where the decoder is told.
    layers : list of LayerCache

    Returns
    -------
    DecoderCache
        An empty one.

    Raises
    ------
    ValueError
        In a pass whose batch is another one.

    Notes
    -----
    Under a causal mask a later token changes no earlier one, which is why keeping is right. What is kept
    grows by concatenation; below some two thousand tokens buffers made in advance gain little.

    Examples
    --------
    >>> cache = DecoderCache()
    >>> cache.length
    0
    """

    def __init__(self):
        self.visible, self.layers = None, []

    @property
    def length(self):
        """How many tokens have passed."""
        return 0 if self.visible is None else self.visible.shape[1]

    def layer(self, number):
        """The part that belongs to a layer, counted from 0."""
        while len(self.layers) <= number:
            self.layers.append(LayerCache())
        return self.layers[number]

    def add(self, visible):
        """Tell which of the tokens of a pass, ``(B, T)``, are no padding; gives those of all, ``(B, S)``."""
        if self.visible is not None:
            if len(visible) != len(self.visible):
                raise ValueError(f"the cache holds {len(self.visible)} sentences; got {len(visible)}")
            visible = torch.cat([self.visible, visible], 1)
        self.visible = visible
        return visible

    def select(self, rows):
        """Keep these rows of the batch, in this order and as often as they are named."""
        self.visible = None if self.visible is None else self.visible[rows]
        for layer in self.layers:
            layer.own, layer.memory = (
                pair if pair is None else tuple(x[rows] for x in pair) for pair in (layer.own, layer.memory)
            )


class LayerCache:
    """Keys and values of one decoder layer, each ``(B, H, S, d)``: its own tokens', and the memory's."""

    def __init__(self):
        self.own = self.memory = None


class CachedAttention(MultiHeadAttention):
    """`MultiHeadAttention` that can go on where it stopped. Without a cache it is the same layer.

    Parameters
    ----------
    embed_dim, num_heads, dropout, bias, device, dtype
        As in `MultiHeadAttention`.

    Raises
    ------
    TypeError, ValueError
        As in `MultiHeadAttention`.

    Examples
    --------
    >>> layer, cache, x = CachedAttention(8, 2), LayerCache(), torch.ones(1, 5, 8)
    >>> first, rest = layer(x[:, :2], causal=True, cache=cache), layer(x[:, 2:], causal=True, cache=cache)
    >>> torch.allclose(torch.cat([first, rest], 1), layer(x, causal=True), atol=1e-6)
    True
    """

    def __init__(self, embed_dim, num_heads, *, dropout=0.0, bias=True, device=None, dtype=None):
        super().__init__(embed_dim, num_heads, dropout=dropout, bias=bias, device=device, dtype=dtype)

    def forward(self, query, key=None, value=None, mask=None, *, causal=False, return_weights=False,
                cache=None):
        """Let each query attend.

        Parameters
        ----------
        query, key, value, mask, causal, return_weights
            As in `MultiHeadAttention`. With a cache and no ``key``, the queries are new tokens, which
            attend to all before them too; ``mask`` is over all of these.
        cache : LayerCache, optional
            Receives the new tokens' keys and values or, where ``key`` is given, the keys' at the first
            call; from then on ``key`` is not looked at. Dropout is left out.

        Returns
        -------
        out : tensor (..., L, embed_dim)
        weights : tensor (..., H, L, S), if asked for

        Raises
        ------
        TypeError, ValueError
            As in `MultiHeadAttention`.
        """
        if cache is None:
            return super().forward(query, key, value, mask, causal=causal, return_weights=return_weights)
        if key is None:
            q, k, v = (split_heads(x, self.num_heads) for x in self._project(query, query, query))
            if cache.own is not None:
                k, v = torch.cat([cache.own[0], k], -2), torch.cat([cache.own[1], v], -2)
            cache.own = k, v
        else:
            bias = None if self.in_proj_bias is None else self.in_proj_bias[: self.embed_dim]
            q = split_heads(linear(query, self.in_proj_weight[: self.embed_dim], bias), self.num_heads)
            if cache.memory is None:
                value = key if value is None else value
                _, *pair = self._project(query, key, value)
                cache.memory = tuple(split_heads(x, self.num_heads) for x in pair)
            k, v = cache.memory
        out = attention(q, k, v, mask, causal=causal, return_weights=return_weights)
        if return_weights:
            return self.out_proj(merge_heads(out[0])), out[1]
        return self.out_proj(merge_heads(out))

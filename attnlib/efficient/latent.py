"""Latent attention: the keys and values of all heads are made of one short vector a token."""

import torch
from torch import nn

from attnlib.core.arrays import check_number, valid_length
from attnlib.core.grouped_queries import grouped_query_attention
from attnlib.layers.checks import check_tokens
from attnlib.layers.grouped_query import turned
from attnlib.layers.key_value_cache import TokenCache
from attnlib.layers.multi_head import merge_heads, split_heads
from attnlib.layers.rms_norm import RMSNorm
from attnlib.layers.swiglu import bare_linear


class LatentAttention(nn.Module):
    """Causal self-attention over latents: a token is remembered as one vector for all heads.

    ``[c | k_pe] = x @ wkv_a.T`` with ``c`` normed and ``k_pe`` rotated is all that is kept of a token. Head
    ``h`` has the key ``[W_UK,h c | k_pe]``, the value ``W_UV,h c``, both maps being rows of ``wkv_b``, and
    the query ``[q_nope | q_pe]``, of which the second part is rotated. The rotated part stands apart because
    a rotation between ``q`` and ``W_UK`` would differ for every pair of positions, and could not be absorbed.

    Two forms give the same up to rounding. The *expanded* one makes every head's keys and values. The
    *absorbed* one moves the maps to the other side, ``q . (W_UK c) = (W_UK.T q) . c`` and
    ``sum_j p_j W_UV c_j = W_UV sum_j p_j c_j``: multi-query attention whose one key, and value, is the
    latent itself.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
    kv_lora_rank : int >= 1
        Features of a latent, ``c``.
    qk_nope_head_dim, qk_rope_head_dim : int >= 1
        Features of a query and of a key that are not rotated, and of those that are: an even number.
    v_head_dim : int >= 1
        Features of a value.
    q_lora_rank : int >= 1, optional
        Queries too are made of a normed latent, of this many features; of the token itself when left out.
    norm_eps : float >= 0
    scale : float, optional
        ``1/sqrt(qk_nope_head_dim + qk_rope_head_dim)`` when left out.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, or the rotated features are no pairs.

    References
    ----------
    DeepSeek-AI 2024, arXiv 2405.04434, sections 2.1.2 and 2.1.3, equations 9 to 19. Parameter names, the
    order of rows and the norms are those of ``MLA`` in ``inference/model.py`` of deepseek-ai/DeepSeek-V3,
    which has both forms, caches heads' keys and values in the expanded one, and chooses once for all; for
    texts beyond the trained length its scale is the default times `yarn_scale`.

    Examples
    --------
    >>> layer = LatentAttention(32, n_heads=4, kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=2,
    ...                         v_head_dim=6)
    >>> x, cache = torch.ones(1, 5, 32), layer.new_cache(1, max_len=5)
    >>> torch.allclose(layer(x, absorbed=True), layer(x, absorbed=False, cache=cache), atol=1e-6)
    True
    >>> cache.rows.shape    # 8 + 2 numbers a token, for all heads
    torch.Size([1, 1, 5, 10])
    """

    def __init__(self, dim, n_heads, kv_lora_rank, *, qk_nope_head_dim, qk_rope_head_dim, v_head_dim,
                 q_lora_rank=None, norm_eps=1e-6, scale=None, device=None, dtype=None):  # fmt: skip
        super().__init__()
        self.dim, self.n_heads = valid_length(dim, "dim"), valid_length(n_heads, "n_heads")
        self.kv_lora_rank = valid_length(kv_lora_rank, "kv_lora_rank")
        self.qk_nope_head_dim = valid_length(qk_nope_head_dim, "qk_nope_head_dim")
        self.qk_rope_head_dim = valid_length(qk_rope_head_dim, "qk_rope_head_dim")
        self.v_head_dim = valid_length(v_head_dim, "v_head_dim")
        self.q_lora_rank = None if q_lora_rank is None else valid_length(q_lora_rank, "q_lora_rank")
        if self.qk_rope_head_dim % 2:
            raise ValueError(f"qk_rope_head_dim must be even, for pairs; got {qk_rope_head_dim}")
        queries = self.qk_nope_head_dim + self.qk_rope_head_dim
        if scale is not None:
            check_number(scale, "scale")
        self.scale = queries**-0.5 if scale is None else scale
        if self.q_lora_rank is None:
            self.wq = bare_linear(self.dim, self.n_heads * queries, device, dtype)
        else:
            self.wq_a = bare_linear(self.dim, self.q_lora_rank, device, dtype)
            self.q_norm = RMSNorm(self.q_lora_rank, norm_eps, device=device, dtype=dtype)
            self.wq_b = bare_linear(self.q_lora_rank, self.n_heads * queries, device, dtype)
        self.wkv_a = bare_linear(self.dim, self.kv_lora_rank + self.qk_rope_head_dim, device, dtype)
        self.kv_norm = RMSNorm(self.kv_lora_rank, norm_eps, device=device, dtype=dtype)
        expanded = self.qk_nope_head_dim + self.v_head_dim
        self.wkv_b = bare_linear(self.kv_lora_rank, self.n_heads * expanded, device, dtype)
        self.wo = bare_linear(self.n_heads * self.v_head_dim, self.dim, device, dtype)
        for part in self.children():
            if isinstance(part, nn.Linear):
                part.reset_parameters()

    def forward(self, x, turns=None, mask=None, *, cache=None, absorbed=None, return_weights=False):
        """Let each token attend to itself and to the tokens before it.

        Parameters
        ----------
        x : tensor (B, T, dim)
            The next tokens: those after the ones in the cache.
        turns : complex tensor (T, qk_rope_head_dim / 2), or (B, 1, T, qk_rope_head_dim / 2), optional
            How far each pair of the rotated features turns, as in `GroupedQueryAttention`.
        mask : tensor, optional
            Broadcasts to ``(B, n_heads, T, S)``, the tokens in the cache included. Boolean: ``True`` = may
            attend. Floating: added to the scaled scores.
        cache : LatentCache, optional
            Of earlier tokens; those of ``x`` are appended. It serves both forms.
        absorbed : bool, optional
            The form; when left out, the one with fewer `multiplications`: expanded to read a text, absorbed
            to write token by token.
        return_weights : bool
            Return the weights of every head too.

        Returns
        -------
        out : tensor (B, T, dim)
            Zeros for a token that may attend to nothing.
        weights : tensor (B, n_heads, T, S), if asked for

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, its shape does not fit, or the cache is full.
        """
        check_tokens(x, self.dim)
        if absorbed not in (None, True, False):
            raise TypeError(f"absorbed must be True, False or None; got {absorbed!r}")
        ranks = [self.kv_lora_rank, self.qk_rope_head_dim]
        q_nope, q_pe = self._queries(x)
        latent, k_pe = self.wkv_a(x)[:, None].split(ranks, -1)  # one for all heads
        if turns is not None:  # pairs must begin at an even place in memory: hence the clone, and for
            q_pe, k_pe = (turned(x.clone(), turns) * 1 for x in (q_pe, k_pe))  # their gradients the product
        rows = torch.cat([self.kv_norm(latent), k_pe], -1)
        if cache is not None:
            rows = cache.append(rows)
        if absorbed is None:
            absorbed = self._absorbed_is_cheaper(x.shape[1], rows.shape[-2])
        if absorbed:
            w_uk, w_uv = self._up()
            q = torch.cat([torch.einsum("bhtd,hdr->bhtr", q_nope, w_uk), q_pe], -1)
            k = v = rows  # as values the rotated features ride along: cutting them off here would copy
        else:
            q = torch.cat([q_nope, q_pe], -1)
            k, v = self._keys_and_values(*rows.split(ranks, -1))
        settings = {"causal": True, "scale": self.scale, "return_weights": return_weights}
        out = grouped_query_attention(q, k, v, mask, **settings)
        if return_weights:
            out, weights = out
        if absorbed:
            out = torch.einsum("bhtr,hvr->bhtv", out[..., : self.kv_lora_rank], w_uv)
        out = self.wo(merge_heads(out))
        return (out, weights) if return_weights else out

    def new_cache(self, batch, max_len):
        """An empty cache for ``batch`` sequences of up to ``max_len`` tokens."""
        weight = self.wkv_a.weight
        return LatentCache(batch, max_len, weight.shape[0], device=weight.device, dtype=weight.dtype)

    def multiplications(self, n_new, n_key, *, absorbed):
        """How many multiplications of numbers a form takes for ``n_new`` tokens that see ``n_key``.

        From queries and latents to the heads' outputs, all heads together, as if nothing were hidden; what
        the two forms share is left out. The expanded form makes keys and values anew of all ``n_key``
        latents, for no other form of them is kept.

        Parameters
        ----------
        n_new, n_key : int >= 1
        absorbed : bool

        Returns
        -------
        int

        Examples
        --------
        >>> v2 = LatentAttention(5120, n_heads=128, kv_lora_rank=512, qk_nope_head_dim=128,
        ...                      qk_rope_head_dim=64, v_head_dim=128, device="meta")    # DeepSeek-V2
        >>> [[v2.multiplications(new, 4096, absorbed=form) // 10**6 for form in (False, True)]
        ...  for new in (1, 4096)]    # millions: the next token, the whole text
        [[68887, 587], [755914, 2405181]]
        """
        n_new, n_key = valid_length(n_new, "n_new"), valid_length(n_key, "n_key")
        maps = self.kv_lora_rank * (self.qk_nope_head_dim + self.v_head_dim)
        if absorbed:
            features = 2 * self.kv_lora_rank + self.qk_rope_head_dim
            return self.n_heads * n_new * (maps + n_key * features)
        features = self.qk_nope_head_dim + self.qk_rope_head_dim + self.v_head_dim
        return self.n_heads * n_key * (maps + n_new * features)

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return (
            f"{self.dim}, n_heads={self.n_heads}, kv_lora_rank={self.kv_lora_rank}, "
            f"qk_nope_head_dim={self.qk_nope_head_dim}, qk_rope_head_dim={self.qk_rope_head_dim}, "
            f"v_head_dim={self.v_head_dim}, q_lora_rank={self.q_lora_rank}"
        )

    def _queries(self, x):
        """``(B, H, T, ...)``: what is not rotated of all heads' queries, and what will be."""
        q = self.wq(x) if self.q_lora_rank is None else self.wq_b(self.q_norm(self.wq_a(x)))
        return split_heads(q, self.n_heads).split([self.qk_nope_head_dim, self.qk_rope_head_dim], -1)

    def _up(self):
        """The maps from a latent to each head's key and value, ``(H, ..., kv_lora_rank)``."""
        w = self.wkv_b.weight.view(self.n_heads, -1, self.kv_lora_rank)
        return w.split([self.qk_nope_head_dim, self.v_head_dim], 1)

    def _keys_and_values(self, latent, k_pe):
        kv = split_heads(self.wkv_b(latent[:, 0]), self.n_heads)
        k_nope, v = kv.split([self.qk_nope_head_dim, self.v_head_dim], -1)
        return torch.cat([k_nope, k_pe.expand(-1, self.n_heads, -1, -1)], -1), v

    def _absorbed_is_cheaper(self, n_new, n_key):
        absorbed, expanded = (self.multiplications(n_new, n_key, absorbed=form) for form in (True, False))
        return absorbed < expanded


class LatentCache(TokenCache):
    """What `LatentAttention` keeps of each token: its latent, after the norm, and its rotated key.

    As for `KeyValueCache`, it belongs to one batch of sequences and is for decoding, under
    ``torch.no_grad()``.

    Parameters
    ----------
    batch : int >= 1
    max_len : int >= 1
        The greatest number of tokens.
    width : int >= 1
        Features of a latent and of a rotated key together.
    """

    def __init__(self, batch, max_len, width, *, device=None, dtype=None):
        super().__init__(batch, max_len)
        shape = self.batch, 1, self.max_len, valid_length(width, "width")
        self.rows = torch.empty(shape, device=device, dtype=dtype)

    def append(self, rows):
        """Keep rows ``(B, 1, T, width)``, and give all that are kept, ``(B, 1, S, width)``: a view."""
        self.check(rows.shape[0], rows.shape[-2])
        start, self.length = self.length, self.length + rows.shape[-2]
        self.rows[:, :, start : self.length] = rows
        return self.rows[:, :, : self.length]

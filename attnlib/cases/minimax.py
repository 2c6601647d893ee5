"""MiniMax-01: a decoder with lightning attention in most layers and softmax attention in a few."""

import torch
from torch import nn
from torch.nn.functional import silu

from attnlib.cases.lightning import lightning_attention, lightning_rates
from attnlib.cases.mixture_of_experts import MixtureOfExperts
from attnlib.core.arrays import valid_length
from attnlib.core.rotary import rope_frequencies
from attnlib.layers.checks import check_dtype, check_tokens
from attnlib.layers.grouped_query import GroupedQueryAttention
from attnlib.layers.key_value_cache import TokenCache
from attnlib.layers.llama import Llama
from attnlib.layers.rms_norm import RMSNorm
from attnlib.layers.swiglu import bare_linear


class LightningAttention(nn.Module):
    """``(sigmoid(x W_gate) * RMSNorm(heads)) W_out``, each head a `lightning_attention`.

    Queries, keys and values are ``silu(x W_qkv)``. No biases, no positions, no scale; the norm, over the
    features of all heads together, is in the place of the softmax's denominator.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
    layer, n_layers : int
        The layer's number in its model, from 0, and how many there are: they set how far it sees
        (`lightning_rates`).
    head_dim : int >= 1, optional
        Features of a head; ``dim / n_heads`` when left out.
    norm_eps : float >= 0
    block_size : int >= 1
    rule : {"minimax", "hugging_face"}
        As in `lightning_rates`.

    Raises
    ------
    TypeError, ValueError
        If a size or a setting is out of its range.

    References
    ----------
    ``MiniMaxText01LightningAttention`` in MiniMax's ``modeling_minimax_text_01.py``, whose parameter names it
    has: the rows of ``qkv_proj`` are query, key and value of the first head, then of the next. MiniMax 2025,
    arXiv 2501.08313, section 2.2.

    Examples
    --------
    >>> layer = LightningAttention(8, n_heads=2, layer=0, n_layers=4)
    >>> layer(torch.zeros(1, 5, 8)).shape, layer.qkv_proj.weight.shape
    (torch.Size([1, 5, 8]), torch.Size([24, 8]))
    """

    def __init__(self, dim, n_heads, layer, n_layers, *, head_dim=None, norm_eps=1e-6, block_size=256,
                 rule="minimax", device=None, dtype=None):  # fmt: skip
        super().__init__()
        self.dim, self.n_heads = valid_length(dim, "dim"), valid_length(n_heads, "n_heads")
        if head_dim is None and self.dim % self.n_heads:
            raise ValueError(f"dim {dim} does not divide into {n_heads} heads; head_dim sets their width")
        self.head_dim = self.dim // self.n_heads if head_dim is None else valid_length(head_dim, "head_dim")
        self.layer, self.n_layers, self.rule = layer, n_layers, rule
        self.block_size = valid_length(block_size, "block_size")
        lightning_rates(n_heads, layer, n_layers, rule=rule)  # refuses what is out of range
        width = self.n_heads * self.head_dim
        self.qkv_proj = bare_linear(self.dim, 3 * width, device, dtype)
        self.output_gate = bare_linear(self.dim, width, device, dtype)
        self.out_proj = bare_linear(width, self.dim, device, dtype)
        self.norm = RMSNorm(width, norm_eps, device=device, dtype=dtype)
        for linear in (self.qkv_proj, self.output_gate, self.out_proj):
            linear.reset_parameters()

    def forward(self, x, mask=None, *, cache=None):
        """Let each token read what the tokens before it left.

        Parameters
        ----------
        x : tensor (B, T, dim)
            The next tokens: those after the ones in the cache.
        mask : bool tensor (B, T), optional
            ``True`` where a token is real; padding leaves nothing. On the left of a text it changes nothing;
            elsewhere what came before fades while it passes.
        cache : LightningCache, optional
            What `new_cache` made; the tokens of ``x`` are added to it.

        Returns
        -------
        tensor (B, T, dim)

        Raises
        ------
        TypeError, ValueError
            If an argument is no tensor, its shape does not fit, or the cache is full.
        """
        check_tokens(x, self.dim)
        check_dtype(x, self)
        B, T, _ = x.shape
        if mask is not None:
            mask = _checked_mask(mask, (B, T))[:, None, None]
        if cache is not None:
            if not isinstance(cache, LightningCache):
                raise TypeError(f"cache must be one that new_cache made; got {type(cache).__name__}")
            cache.check(B, T)
        heads = silu(self.qkv_proj(x)).view(B, T, self.n_heads, -1).transpose(1, 2)
        out, state = lightning_attention(
            *heads.split(self.head_dim, -1), self.rates(x), mask, block_size=self.block_size,
            state=None if cache is None else cache.state, return_state=True,
        )  # fmt: skip
        if cache is not None:
            cache.state, cache.length = state, cache.length + T
        out = self.norm(out.transpose(1, 2).reshape(B, T, -1))
        return self.out_proj(torch.sigmoid(self.output_gate(x)) * out)

    def rates(self, like=None):
        """What `lightning_rates` gives for this layer: ``(n_heads,)``."""
        like = self.norm.weight if like is None else like
        return lightning_rates(self.n_heads, self.layer, self.n_layers, rule=self.rule, like=like)

    def new_cache(self, batch, max_len):
        """An empty cache for ``batch`` sequences of up to ``max_len`` tokens, no larger for a greater one."""
        return LightningCache(batch, max_len)

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return (
            f"{self.dim}, n_heads={self.n_heads}, head_dim={self.head_dim}, "
            f"layer={self.layer}, n_layers={self.n_layers}"
        )


class LightningCache(TokenCache):
    """The state of one lightning layer: ``(B, n_heads, head_dim, head_dim)``, or None before the first token.

    Parameters
    ----------
    batch : int >= 1
    max_len : int >= 1
        The greatest number of tokens, as other layers of the model have one.
    """

    def __init__(self, batch, max_len):
        super().__init__(batch, max_len)
        self.state = None


class MiniMax(Llama):
    """A decoder of lightning and softmax layers, from token ids to scores of the next token.

    In each block ``x = attention_norm(h)``, ``h = alpha x + beta attention(x)``, then the same with a
    `MixtureOfExperts`: the residual stream is normed, not a copy of it, and counts ``alpha``. The softmax
    layers are grouped queries with rotary positions on the first half of each head; the lightning layers know
    positions by what fades. Tokens, caches and generation are those of `Llama`.

    Parameters
    ----------
    vocab_size, dim, n_layers, n_heads : int >= 1
    n_kv_heads : int >= 1, optional
        Heads of keys and values in softmax layers; ``n_heads`` when left out.
    kinds : sequence of {"lightning", "softmax"}, optional
        One for each layer; ``minimax_layer_kinds(n_layers)`` when left out.
    hidden : int >= 1, optional
        Features inside an expert; ``4 dim`` when left out.
    n_experts, top_k : int >= 1
        As in `MixtureOfExperts`; one expert, and two of several, when left out.
    head_dim : int, even, optional
        ``dim / n_heads`` when left out.
    rotary_dim : int, even, optional
        Features of a head that are rotated; half of them when left out.
    residuals : dict, optional
        The pair ``(alpha, beta)`` for each of ``"lightning"``, ``"softmax"`` and ``"experts"``;
        ``((2 n_layers) ** 0.25, 1)`` for those left out.
    norm_eps : float >= 0
        Of the norms of the stream.
    rope_base : float > 0
    block_size : int >= 1
    rule : {"minimax", "hugging_face"}
        As in `lightning_rates`.
    tied : bool
        Use the table of embeddings as the output's weights too.

    Raises
    ------
    TypeError, ValueError
        If a size or a setting is out of its range, or one does not divide another.

    References
    ----------
    MiniMax 2025, arXiv 2501.08313, section 2, and its ``modeling_minimax_text_01.py``: 80 layers, the last of
    each eight with softmax, 64 heads of 128, 32 experts of which two are used, alpha 3.5566. First values are
    drawn with standard deviation 0.02.

    Examples
    --------
    >>> model = MiniMax(vocab_size=50, dim=16, n_layers=8, n_heads=4, n_kv_heads=2, n_experts=4)
    >>> model(torch.tensor([[7, 3, 11]])).shape
    torch.Size([1, 3, 50])
    >>> [len(new) for new in model.generate([[7, 3, 11], [5]], n_new=4)]
    [4, 4]
    """

    def __init__(self, vocab_size, dim, n_layers, n_heads, n_kv_heads=None, *, kinds=None, hidden=None,
                 n_experts=1, top_k=None, head_dim=None, rotary_dim=None, residuals=None, norm_eps=1e-5,
                 rope_base=1e7, block_size=256, rule="minimax", tied=False, device=None,
                 dtype=None):  # fmt: skip
        nn.Module.__init__(self)  # blocks of its own; the rest is Llama's
        self.vocab_size, self.dim = valid_length(vocab_size, "vocab_size"), valid_length(dim, "dim")
        kinds = minimax_layer_kinds(n_layers) if kinds is None else list(kinds)
        _check_kinds(kinds, n_layers)
        top_k = min(2, n_experts) if top_k is None else top_k
        hidden = 4 * dim if hidden is None else hidden
        factory = {"device": device, "dtype": dtype}

        def attention(layer, kind):
            if kind == "softmax":
                return GroupedQueryAttention(dim, n_heads, n_kv_heads, head_dim=head_dim, **factory)
            return LightningAttention(dim, n_heads, layer, n_layers, head_dim=head_dim,
                                      block_size=block_size, rule=rule, **factory)  # fmt: skip

        self.tok_embeddings = nn.Embedding(
            self.vocab_size, self.dim, _weight=torch.empty(self.vocab_size, self.dim, **factory)
        )
        usual = {kind: ((2 * n_layers) ** 0.25, 1.0) for kind in ("lightning", "softmax", "experts")}
        residuals = usual | _checked_residuals(residuals or {})
        self.layers = nn.ModuleList(
            MiniMaxBlock(
                attention(layer, kind), MixtureOfExperts(dim, hidden, n_experts, top_k, **factory), norm_eps,
                residuals[kind], residuals["experts"], **factory,
            )
            for layer, kind in enumerate(kinds)
        )  # fmt: skip
        self.norm = RMSNorm(dim, norm_eps, **factory)
        self.output = None if tied else bare_linear(self.dim, self.vocab_size, device, dtype)
        self.kinds, self.rope_base = kinds, rope_base
        self.head_dim = self.layers[0].attention.head_dim
        self.rotary_dim = max(2, 2 * (self.head_dim // 4)) if rotary_dim is None else rotary_dim
        self._frequencies(torch.empty(0))  # refuses a wrong base or width
        self.reset_parameters()

    def forward(self, tokens, mask=None, *, cache=None, return_weights=False):
        """Score every token of the vocabulary as the one that follows, at every position.

        Parameters
        ----------
        tokens : integer tensor (B, T)
            The next tokens: those after the ones in the cache.
        mask : bool tensor (B, T), optional
            ``True`` where a token is real. Padding on the left changes nothing; elsewhere, what came before
            fades in the lightning layers while it passes. The scores at padding mean nothing.
        cache : LlamaCache, optional
            What `new_cache` made; ``tokens`` are added to it. Pieces of any lengths give what the whole
            gives.
        return_weights : bool
            Return the weights of the softmax layers too.

        Returns
        -------
        logits : tensor (B, T, vocab_size)
        weights : list of tensors (B, n_heads, T, S), if asked for
            One for each softmax layer; ``S`` counts the tokens in the cache too.

        Raises
        ------
        TypeError, ValueError
            If ``tokens`` are no token ids, a shape does not fit, or the cache is full.
        """
        return super().forward(tokens, mask, cache=cache, return_weights=return_weights)

    def _frequencies(self, like):
        """Radians per position for each pair of a head; pairs that are not rotated turn by nothing."""
        f = rope_frequencies(self.rotary_dim, self.rope_base, like=like)
        still = self.head_dim // 2 - len(f)
        if still < 0:
            raise ValueError(f"rotary_dim must be at most head_dim, {self.head_dim}; got {self.rotary_dim}")
        return torch.cat([f, f.new_zeros(still)])


class MiniMaxBlock(nn.Module):
    """``x = norm(h)``, ``h = alpha x + beta layer(x)``, for the attention and then for the experts."""

    def __init__(self, attention, experts, norm_eps, attention_residual, experts_residual, **factory):
        super().__init__()
        self.attention, self.feed_forward = attention, experts
        self.attention_norm, self.ffn_norm = (RMSNorm(attention.dim, norm_eps, **factory) for _ in range(2))
        self.attention_residual, self.experts_residual = attention_residual, experts_residual

    def forward(self, h, turns, mask=None, *, cache=None, weights=None):
        """The arguments of `GroupedQueryAttention`; a list ``weights`` gets those of a softmax layer."""
        x = self.attention_norm(h)
        if isinstance(self.attention, LightningAttention):
            out = self.attention(x, None if mask is None else mask[:, 0, 0, -x.shape[1] :], cache=cache)
        elif weights is None:
            out = self.attention(x, turns, mask, cache=cache)
        else:
            out, own = self.attention(x, turns, mask, cache=cache, return_weights=True)
            weights.append(own)
        alpha, beta = self.attention_residual
        x = self.ffn_norm(alpha * x + beta * out)
        alpha, beta = self.experts_residual
        return alpha * x + beta * self.feed_forward(x)


def minimax_layer_kinds(n_layers, period=8):
    """Which layers are which: the last of each ``period`` has softmax attention.

    Parameters
    ----------
    n_layers : int >= 1
    period : int >= 1
        8 in MiniMax-01, that is seven lightning layers and one with softmax; 1 is softmax everywhere.

    Returns
    -------
    list of {"lightning", "softmax"}

    Raises
    ------
    TypeError, ValueError
        If a number is no positive integer.

    References
    ----------
    MiniMax 2025, arXiv 2501.08313, section 2. Where a configuration names no kinds, Hugging Face transformers
    takes every other layer, beginning with softmax.

    Examples
    --------
    >>> minimax_layer_kinds(4, period=4)
    ['lightning', 'lightning', 'lightning', 'softmax']
    """
    n_layers, period = valid_length(n_layers, "n_layers"), valid_length(period, "period")
    return ["lightning" if layer % period else "softmax" for layer in range(1, n_layers + 1)]


def _check_kinds(kinds, n_layers):
    if len(kinds) != valid_length(n_layers, "n_layers") or set(kinds) - {"lightning", "softmax"}:
        raise ValueError(f"kinds must be {n_layers} times 'lightning' or 'softmax'; got {kinds!r:.80}")


def _checked_residuals(residuals):
    unknown = set(residuals) - {"lightning", "softmax", "experts"}
    if unknown or any(len(pair) != 2 for pair in residuals.values()):
        raise ValueError(
            "residuals must have pairs (alpha, beta) for 'lightning', 'softmax' or 'experts'; "
            f"got {residuals!r:.80}"
        )
    return residuals


def _checked_mask(mask, shape):
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise TypeError(f"mask must be a boolean tensor, True for real tokens; got {got}")
    if mask.shape != shape:
        raise ValueError(f"mask must have shape {tuple(shape)}, as x has; got {tuple(mask.shape)}")
    return mask

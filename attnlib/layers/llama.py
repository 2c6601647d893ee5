"""Llama: embeddings, blocks of attention and feed-forward, a norm, and scores for the next token."""

from functools import cache

import torch
from torch import nn
from torch.nn.functional import linear

from attnlib.core.arrays import valid_length
from attnlib.core.generation import generate
from attnlib.core.rotary import llama3_rope_scaling, rope_frequencies
from attnlib.layers.checks import check_integers
from attnlib.layers.grouped_query import GroupedQueryAttention, rotary_turns
from attnlib.layers.rms_norm import RMSNorm
from attnlib.layers.swiglu import SwiGLU, bare_linear, swiglu_hidden_size


class Llama(nn.Module):
    """A decoder of the Llama family, from token ids to scores of the next token.

    ``h = tok_embeddings[tokens]``; in each block ``h += attention(attention_norm(h))``, then
    ``h += feed_forward(ffn_norm(h))``; at the end ``norm(h) @ output.T``. State dicts have Meta's names
    and its order of rotated features; `llama_from_meta` and `llama_from_hugging_face` make a model of a
    checkpoint.

    Parameters
    ----------
    vocab_size, dim, n_layers, n_heads : int >= 1
    n_kv_heads : int >= 1, optional
        Heads of keys and values; ``n_heads`` when left out.
    hidden : int >= 1, optional
        Features inside the feed-forward layer; ``swiglu_hidden_size(dim)`` when left out.
    head_dim : int >= 2, optional
        ``dim / n_heads`` when left out.
    norm_eps : float >= 0
    rope_base : float > 0
        500000 in Llama 3, 10000 in Llama 2.
    rope_scaling : dict, optional
        Settings of `llama3_rope_scaling`; an empty one is Llama 3.1.
    tied : bool
        Use the table of embeddings as the output's weights too, as small models do.

    Raises
    ------
    TypeError, ValueError
        If a size or a setting is out of its range, or one does not divide another.

    References
    ----------
    ``llama/model.py`` of meta-llama/llama3; Grattafiori et al. 2024, arXiv 2407.21783, section 3.2. First
    values are drawn with standard deviation 0.02, as in Hugging Face transformers.

    Examples
    --------
    >>> model = Llama(vocab_size=50, dim=16, n_layers=2, n_heads=4, n_kv_heads=2)
    >>> model(torch.tensor([[7, 3, 11]])).shape
    torch.Size([1, 3, 50])
    >>> [len(new) for new in model.generate([[7, 3, 11], [5]], n_new=4)]
    [4, 4]
    """

    def __init__(self, vocab_size, dim, n_layers, n_heads, n_kv_heads=None, *, hidden=None, head_dim=None,
                 norm_eps=1e-5, rope_base=500000.0, rope_scaling=None, tied=False, device=None, dtype=None):
        super().__init__()
        self.vocab_size, self.dim = valid_length(vocab_size, "vocab_size"), valid_length(dim, "dim")
        if rope_scaling is not None and not isinstance(rope_scaling, dict):
            raise TypeError(f"rope_scaling must be a dict of settings or None; got {rope_scaling!r}")
        factory = {"device": device, "dtype": dtype}
        hidden = swiglu_hidden_size(dim) if hidden is None else hidden
        self.tok_embeddings = nn.Embedding(
            self.vocab_size, self.dim, _weight=torch.empty(self.vocab_size, self.dim, **factory)
        )
        self.layers = nn.ModuleList(
            LlamaBlock(
                GroupedQueryAttention(dim, n_heads, n_kv_heads, head_dim=head_dim, **factory),
                SwiGLU(dim, hidden, **factory), norm_eps, **factory,
            )
            for _ in range(valid_length(n_layers, "n_layers"))
        )  # fmt: skip
        self.norm = RMSNorm(dim, norm_eps, **factory)
        self.output = None if tied else bare_linear(self.dim, self.vocab_size, device, dtype)
        self.rope_base, self.rope_scaling = rope_base, rope_scaling
        self._frequencies(torch.empty(0))  # refuses a wrong base or scaling
        self.reset_parameters()

    def reset_parameters(self):
        """Draw new initial values."""
        for parameter in self.parameters():
            if parameter.ndim > 1:
                nn.init.normal_(parameter, std=0.02)
            else:
                nn.init.ones_(parameter)

    def forward(self, tokens, mask=None, *, cache=None, return_weights=False):
        """Score every token of the vocabulary as the one that follows, at every position.

        Parameters
        ----------
        tokens : integer tensor (B, T)
            The next tokens: those after the ones in the cache.
        mask : bool tensor (B, T), optional
            ``True`` where a token is real. Padding may stand anywhere, is seen by no real token, and takes
            no position, so that each sequence gets what it gets alone; the scores at padding mean
            nothing.
        cache : LlamaCache, optional
            What `new_cache` made; ``tokens`` are added to it. Pieces of any lengths give what the whole
            gives.
        return_weights : bool
            Return the attention weights too.

        Returns
        -------
        logits : tensor (B, T, vocab_size)
        weights : list of tensors (B, n_heads, T, S), if asked for
            One for each layer; ``S`` counts the tokens in the cache too.

        Raises
        ------
        TypeError, ValueError
            If ``tokens`` are no token ids, a shape does not fit, or the cache is full.
        """
        h, weights = self._read(tokens, mask, cache, return_weights)
        return (self._scores(h), weights) if return_weights else self._scores(h)

    @torch.inference_mode()
    def generate(self, prompts, n_new, *, temperature=0.0, top_k=None, top_p=None, stop=(), seed=None):
        """Continue prompts of any lengths, each as it would be alone.

        Parameters
        ----------
        prompts : sequence of sequences of int, or integer tensor (B, L)
        n_new : int >= 1
            The greatest number of tokens to write.
        temperature, top_k, top_p, stop, seed
            As in `attnlib.generate`.

        Returns
        -------
        list of lists of int
            The new tokens of each prompt, without the one that stopped it.

        Raises
        ------
        TypeError, ValueError
            If a prompt is empty or holds no token ids, or a setting is out of its range.
        """
        tokens, mask = self._padded(prompts)
        cache = self.new_cache(len(tokens), tokens.shape[1] + valid_length(n_new, "n_new"))

        def step(tokens, mask):
            h, _ = self._read(tokens, mask, cache)
            return self._scores(h[:, -1])

        new = generate(step, tokens, n_new, mask=mask, temperature=temperature, top_k=top_k, top_p=top_p,
                       stop=stop, seed=seed)  # fmt: skip
        ends = stop if isinstance(stop, list | tuple | set | frozenset) else (stop,)
        ends = {int(token) for token in ends}
        rows = new.tolist()
        return [row[: next((i for i, token in enumerate(row) if token in ends), n_new)] for row in rows]

    def new_cache(self, batch, max_len):
        """An empty cache for ``batch`` sequences of up to ``max_len`` tokens, padding included."""
        return LlamaCache([block.attention.new_cache(batch, max_len) for block in self.layers])

    def _read(self, tokens, mask=None, cache=None, return_weights=False):
        """The features after the last norm, and the weights of each layer if asked for."""
        self._check(tokens, mask, cache)
        start = 0 if cache is None else cache.length
        real = mask if cache is None else cache.mark(mask, tokens.shape[1])
        if real is None:
            positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        else:
            positions = (real.cumsum(-1)[:, None, start:] - 1).clamp(min=0)  # padding takes no position
            real = real[:, None, None]
        h, weights = self.tok_embeddings(tokens), []
        turns = rotary_turns(positions, self._frequencies(h))
        for i, block in enumerate(self.layers):
            layer_cache = None if cache is None else cache.layers[i]
            h = block(h, turns, real, cache=layer_cache, weights=weights if return_weights else None)
        return self.norm(h), weights

    def _scores(self, h):
        return linear(h, self.tok_embeddings.weight) if self.output is None else self.output(h)

    def _frequencies(self, like):
        scaling = None if self.rope_scaling is None else tuple(sorted(self.rope_scaling.items()))
        head_dim = self.layers[0].attention.head_dim
        return _frequencies(head_dim, self.rope_base, scaling, like.dtype, like.device)

    def _padded(self, prompts):
        """Prompts as one tensor, padded on the left, and which tokens are real, where not all are."""
        try:
            rows = [torch.as_tensor(row) for row in prompts]
        except (TypeError, ValueError):  # text, or no sequence at all
            raise TypeError(
                f"prompts must be sequences of token ids; got {prompts!r:.60}. A tokenizer makes ids of text."
            ) from None
        if not rows or any(row.ndim != 1 or not len(row) or row.is_floating_point() for row in rows):
            raise ValueError("prompts must be one or more sequences of token ids, none of them empty")
        longest = max(map(len, rows))
        tokens = torch.zeros(len(rows), longest, dtype=torch.int64)
        mask = torch.zeros(len(rows), longest, dtype=torch.bool)
        for i, row in enumerate(rows):
            tokens[i, longest - len(row) :], mask[i, longest - len(row) :] = row, True
        device = self.tok_embeddings.weight.device
        return tokens.to(device), None if mask.all() else mask.to(device)

    def _check(self, tokens, mask, cache):
        check_integers(tokens, "tokens")
        if tokens.ndim != 2 or 0 in tokens.shape:
            raise ValueError(f"tokens must have shape (B, T), not empty; got {tuple(tokens.shape)}")
        least, most = tokens.aminmax()
        if least < 0 or most >= self.vocab_size:
            raise ValueError(
                f"tokens must lie in 0 .. {self.vocab_size - 1}; got {int(least if least < 0 else most)}"
            )
        if mask is not None and not isinstance(mask, torch.Tensor):
            raise TypeError(f"mask must be a torch tensor; got {type(mask).__name__}")
        if mask is not None and (mask.dtype != torch.bool or mask.shape != tokens.shape):
            raise ValueError(
                f"mask must be boolean, True for real tokens, with the shape of tokens, "
                f"{tuple(tokens.shape)}; got {mask.dtype} of shape {tuple(mask.shape)}"
            )
        if cache is not None:
            cache.check(*tokens.shape, len(self.layers))


class LlamaBlock(nn.Module):
    """``h += attention(attention_norm(h))``, then ``h += feed_forward(ffn_norm(h))``."""

    def __init__(self, attention, feed_forward, norm_eps, **factory):
        super().__init__()
        self.attention, self.feed_forward = attention, feed_forward
        self.attention_norm, self.ffn_norm = (RMSNorm(attention.dim, norm_eps, **factory) for _ in range(2))

    def forward(self, h, turns, mask=None, *, cache=None, weights=None):
        """The arguments of `GroupedQueryAttention`; a list ``weights`` gets the attention weights."""
        out = self.attention(
            self.attention_norm(h), turns, mask, cache=cache, return_weights=weights is not None
        )
        if weights is not None:
            out, its_weights = out
            weights.append(its_weights)
        h = h + out
        return h + self.feed_forward(self.ffn_norm(h))


class LlamaCache:
    """The caches of all layers, and which of the tokens that were read are real."""

    def __init__(self, layers):
        self.layers = layers
        self.real = None  # (B, max_len), once there was padding

    @property
    def length(self):
        """Tokens read, padding included."""
        return self.layers[0].length

    def check(self, batch, length, n_layers):
        if n_layers != len(self.layers):
            raise ValueError(f"the cache is for {len(self.layers)} layers; the model has {n_layers}")
        self.layers[0].check(batch, length)

    def mark(self, mask, length):
        """Note which of the next tokens are real; for all tokens so far, or None where all are."""
        if self.real is None and mask is None:
            return None
        if self.real is None:
            first = self.layers[0]
            self.real = torch.ones(first.batch, first.max_len, dtype=torch.bool, device=mask.device)
        end = self.length + length
        self.real[:, self.length : end] = True if mask is None else mask
        return self.real[:, :end]


@cache
@torch.inference_mode(False)  # kept for training, whoever asks first
def _frequencies(head_dim, base, scaling, dtype, device):
    f = rope_frequencies(head_dim, base, like=torch.empty(0, dtype=dtype, device=device))
    return f if scaling is None else llama3_rope_scaling(f, **dict(scaling))

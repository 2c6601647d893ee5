"""Titans: a memory for attention that sees a window: its context, its gate, or a layer before it."""

import torch
from torch import nn
from torch.nn.functional import normalize, pad

from attnlib.cases.titans_recurrence import titans_memory
from attnlib.core.arrays import valid_length, whole_number
from attnlib.core.masks import causal_mask, window_mask
from attnlib.layers.checks import check_dtype, check_integers, check_tokens
from attnlib.layers.multi_head import MultiHeadAttention
from attnlib.layers.rms_norm import RMSNorm


class LinearMemory(nn.Module):
    """`titans_memory` of tokens: queries, keys, values and the three gates are made of each of them.

    ``q, k`` of length 1, ``theta, eta, alpha = sigmoid(W x + b)``; the first memory is learned, and what is
    read is normed.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    chunk_size : int >= 1
        As in `titans_memory`.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, sections 3.1 and 4.4. Keys of length 1 are what matters: steps
    below 1 then bring the memory nearer to a value. The paper's convolution and SiLU over queries, keys and
    values are left out: a SiLU makes most features positive, so that keys are less unlike. The biases of the
    gates start at 0, -2 and -4: a token is written at once, and little is carried on or forgotten.

    Examples
    --------
    >>> memory = LinearMemory(8)
    >>> out, state = memory(torch.zeros(1, 5, 8), return_state=True)
    >>> out.shape, state[0].shape, memory.read(torch.zeros(1, 3, 8), state).shape
    (torch.Size([1, 5, 8]), torch.Size([1, 8, 8]), torch.Size([1, 3, 8]))
    """

    def __init__(self, dim, *, chunk_size=1):
        super().__init__()
        self.dim, self.chunk_size = valid_length(dim, "dim"), valid_length(chunk_size, "chunk_size")
        self.to_qkv = nn.Linear(self.dim, 3 * self.dim, bias=False)
        self.to_gates = nn.Linear(self.dim, 3)
        self.first = nn.Parameter(torch.zeros(self.dim, self.dim))
        self.norm = RMSNorm(self.dim)
        with torch.no_grad():
            self.to_gates.bias.copy_(torch.tensor([0.0, -2.0, -4.0]))

    def forward(self, x, state=None, *, return_state=False):
        """Learn the tokens, and read with each what was learned up to it, itself included.

        Parameters
        ----------
        x : tensor (B, T, dim)
        state : (memory, momentum), optional
            What the call before gave, each ``(B, dim, dim)``.
        return_state : bool

        Returns
        -------
        out : tensor (B, T, dim)
        state : (memory, momentum), if asked for

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor ``(B, T, dim)``, or a state does not fit.
        """
        check_tokens(x, self.dim)
        check_dtype(x, self)
        q, k, v = self.to_qkv(x).chunk(3, -1)
        gates = torch.sigmoid(self.to_gates(x)).unbind(-1)
        memory, momentum = self._first(x) if state is None else _pair(state)
        out, state = titans_memory(
            normalize(q, dim=-1), normalize(k, dim=-1), v, *gates,
            chunk_size=self.chunk_size, memory=memory, momentum=momentum, return_state=True,
        )  # fmt: skip
        return (self.norm(out), state) if return_state else self.norm(out)

    def read(self, x, state=None):
        """What tokens ``(B, T, dim)`` read in the memory as it is; nothing is learned."""
        check_tokens(x, self.dim)
        check_dtype(x, self)
        q = self.to_qkv(x)[..., : self.dim]
        memory, _ = self._first(x) if state is None else _pair(state)
        return self.norm(normalize(q, dim=-1) @ memory)

    def _first(self, x):
        return self.first.expand(len(x), -1, -1), None


def _pair(state):
    if not isinstance(state, tuple | list) or len(state) != 2:
        raise TypeError(
            f"state must be the pair (memory, momentum), as is returned; got {type(state).__name__}"
        )
    return state


class PersistentWindow(nn.Module):
    """Attention of each token to the ``window`` tokens up to it, and to persistent tokens that are learned.

    Parameters
    ----------
    dim : int >= 1
    window : int >= 1
        Tokens that are seen, the own one among them.
    n_heads : int >= 1
    n_persistent : int >= 1
        They stand before the text, and are seen from everywhere.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, or ``dim`` does not divide into heads.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, section 3.3 and figure 3. There are no positions here.

    Examples
    --------
    >>> PersistentWindow(8, window=4)(torch.zeros(1, 6, 8)).shape
    torch.Size([1, 6, 8])
    """

    def __init__(self, dim, window, *, n_heads=2, n_persistent=4):
        super().__init__()
        self.dim, self.window = valid_length(dim, "dim"), valid_length(window, "window")
        n_persistent = whole_number(
            n_persistent, f"n_persistent must be a whole number; got {n_persistent!r}"
        )
        self.persistent = nn.Parameter(
            0.02 * torch.randn(valid_length(n_persistent, "n_persistent"), self.dim)
        )
        self.attention = MultiHeadAttention(self.dim, n_heads)

    def forward(self, x):
        """Let each token attend within its window.

        Parameters
        ----------
        x : tensor (B, T, dim)

        Returns
        -------
        tensor (B, T, dim)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor ``(B, T, dim)``.
        """
        check_tokens(x, self.dim)
        check_dtype(x, self)
        return self.attend(x, x, window_mask(x.shape[1], self.window, like=x))

    def attend(self, x, context, mask):
        """Let tokens attend to the persistent ones and, where the mask ``(T, S)`` says so, to a context."""
        keys = torch.cat([self.persistent.expand(len(x), -1, -1), context], 1)
        return self.attention(x, keys, keys, pad(mask, (len(self.persistent), 0), value=True))


class _WithMemory(nn.Module):
    """What the three kinds are made of."""

    def __init__(self, dim, window, *, n_heads=2, n_persistent=4, chunk_size=1):
        super().__init__()
        self.local = PersistentWindow(dim, window, n_heads=n_heads, n_persistent=n_persistent)
        self.memory = LinearMemory(dim, chunk_size=chunk_size)
        self.norm_in, self.norm_out = RMSNorm(dim), RMSNorm(dim)


class MemoryAsContext(_WithMemory):
    """Segment by segment, attention sees what the memory says of each token, beside the segment.

    ``h = M_{t-1}(x_t)``, ``y = norm(x_t + Attn([P | h | x_t]))``, ``M_t`` learns ``y``, out
    ``M_t(y) + y * M_t(y)`` (MAC); ``x_t`` is a segment, and the whole is added to what came in.

    Parameters
    ----------
    dim : int >= 1
    window : int >= 1
        Tokens of a segment; the last one may be shorter.
    n_heads, n_persistent
        As in `PersistentWindow`.
    chunk_size : int >= 1
        As in `titans_memory`, counted from the start of each segment.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, or ``dim`` does not divide into heads.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, section 4.1, equations 21 to 25. A token sees what the memory says
    of the tokens up to itself: that of later ones would tell it of them. It reads ``M_t`` as it is after
    itself, not after its segment, for the same reason. The paper has residuals in all blocks, section 4.4,
    and does not say where. Ours are around the attention, the block, and the product: without the last, a
    token's own features decide the sign of all that it reads, and some seeds of the lesson's model do not
    learn.

    Examples
    --------
    >>> MemoryAsContext(8, window=4)(torch.zeros(1, 6, 8)).shape
    torch.Size([1, 6, 8])
    """

    def forward(self, x):
        """Read the text segment by segment.

        Parameters
        ----------
        x : tensor (B, T, dim)

        Returns
        -------
        tensor (B, T, dim)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor ``(B, T, dim)``.
        """
        check_tokens(x, self.local.dim)
        check_dtype(x, self)
        state, outs = None, []
        for segment in self.norm_in(x).split(self.local.window, 1):
            seen = causal_mask(segment.shape[1], like=x)
            context = torch.cat([self.memory.read(segment, state), segment], 1)
            y = self.norm_out(segment + self.local.attend(segment, context, torch.cat([seen, seen], 1)))
            read, state = self.memory(y, state, return_state=True)
            outs.append(read + y * read)
        return x + torch.cat(outs, 1)


class MemoryAsGate(_WithMemory):
    """Attention within a window, and the memory of the whole text, multiplied.

    ``x + M(x) + norm(SWA(x)) * M(x)`` (MAG).

    Parameters
    ----------
    dim, window, n_heads, n_persistent
        As in `PersistentWindow`.
    chunk_size : int >= 1
        As in `titans_memory`.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, or ``dim`` does not divide into heads.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, section 4.2, equations 26 to 28. Both are normed with learned
    weights, as there; the paper's nonlinearity after that, which it does not name, is left out. Its memory
    learns the persistent tokens too. The places of the residuals are ours, as in `MemoryAsContext`.

    Examples
    --------
    >>> MemoryAsGate(8, window=4)(torch.zeros(1, 6, 8)).shape
    torch.Size([1, 6, 8])
    """

    def forward(self, x):
        """Read the text.

        Parameters
        ----------
        x : tensor (B, T, dim)

        Returns
        -------
        tensor (B, T, dim)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor ``(B, T, dim)``.
        """
        check_tokens(x, self.local.dim)
        check_dtype(x, self)
        normed = self.norm_in(x)
        read = self.memory(normed)
        return x + read + self.norm_out(self.local(normed)) * read


class MemoryAsLayer(_WithMemory):
    """The memory first, then attention within a window: ``y = x + M(x)``, out ``y + SWA(y)``.

    Parameters
    ----------
    dim, window, n_heads, n_persistent
        As in `PersistentWindow`.
    chunk_size : int >= 1
        As in `titans_memory`.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, or ``dim`` does not divide into heads.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, section 4.3, equations 29 to 31 (MAL), which leave out residuals.
    The persistent tokens stand before the attention only: before the memory they would be learned first, and
    its first state is a parameter anyway.

    Examples
    --------
    >>> MemoryAsLayer(8, window=4)(torch.zeros(1, 6, 8)).shape
    torch.Size([1, 6, 8])
    """

    def forward(self, x):
        """Read the text.

        Parameters
        ----------
        x : tensor (B, T, dim)

        Returns
        -------
        tensor (B, T, dim)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor ``(B, T, dim)``.
        """
        check_tokens(x, self.local.dim)
        check_dtype(x, self)
        x = x + self.memory(self.norm_in(x))
        return x + self.local(self.norm_out(x))


class WindowAlone(nn.Module):
    """What the others are compared with: ``x + SWA(x)``, no memory.

    Parameters
    ----------
    dim, window, n_heads, n_persistent
        As in `PersistentWindow`.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, or ``dim`` does not divide into heads.

    Examples
    --------
    >>> WindowAlone(8, window=4)(torch.zeros(1, 6, 8)).shape
    torch.Size([1, 6, 8])
    """

    def __init__(self, dim, window, *, n_heads=2, n_persistent=4):
        super().__init__()
        self.local = PersistentWindow(dim, window, n_heads=n_heads, n_persistent=n_persistent)
        self.norm_in = RMSNorm(dim)

    def forward(self, x):
        """Read the text.

        Parameters
        ----------
        x : tensor (B, T, dim)

        Returns
        -------
        tensor (B, T, dim)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor ``(B, T, dim)``.
        """
        check_tokens(x, self.local.dim)
        check_dtype(x, self)
        return x + self.local(self.norm_in(x))


VARIANTS = {"context": MemoryAsContext, "gate": MemoryAsGate, "layer": MemoryAsLayer, "window": WindowAlone}


class Titans(nn.Module):
    """A small language model of one kind of block: scores of the next token, or of an answer, at each token.

    Parameters
    ----------
    vocab_size : int >= 1
    dim : int >= 1
        Features of a token.
    variant : {"context", "gate", "layer", "window"}
        `MemoryAsContext`, `MemoryAsGate`, `MemoryAsLayer`, or `WindowAlone`.
    window : int >= 1
    n_layers : int >= 1
    n_heads, n_persistent, chunk_size
        As in the blocks; attention alone has no ``chunk_size``.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, or ``variant`` is none of the four.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, section 4. No feed-forward layers and no positions: what such a
    model recalls from beyond its window comes through the memory.

    Examples
    --------
    >>> Titans(9, 8, "gate", window=4)(torch.zeros(1, 6, dtype=torch.long)).shape
    torch.Size([1, 6, 9])
    """

    def __init__(self, vocab_size, dim, variant, *, window, n_layers=1, **settings):
        super().__init__()
        if variant not in list(VARIANTS):
            raise ValueError(f"variant must be one of {', '.join(VARIANTS)}; got {variant!r}")
        self.embedding = nn.Embedding(valid_length(vocab_size, "vocab_size"), valid_length(dim, "dim"))
        blocks = (
            VARIANTS[variant](dim, window, **settings) for _ in range(valid_length(n_layers, "n_layers"))
        )
        self.blocks = nn.Sequential(*blocks)
        self.norm = RMSNorm(dim)
        self.output = nn.Linear(dim, vocab_size)

    def forward(self, tokens):
        """Scores of every token of the vocabulary, at each position.

        Parameters
        ----------
        tokens : integer tensor (B, T), or (B, T, n)
            With a third axis, ``n`` tokens stand at one position, and their embeddings are added.

        Returns
        -------
        tensor (B, T, vocab_size)

        Raises
        ------
        TypeError, ValueError
            If ``tokens`` are no integers of such a shape, or not of the vocabulary.
        """
        check_integers(tokens, "tokens")
        if tokens.ndim not in (2, 3) or 0 in tokens.shape:
            raise ValueError(f"tokens must have shape (B, T) or (B, T, n); got {tuple(tokens.shape)}")
        least, most = (int(x) for x in tokens.aminmax())
        last = self.embedding.num_embeddings - 1
        if least < 0 or most > last:
            raise ValueError(f"tokens must lie in 0 .. {last}; got {least if least < 0 else most}")
        x = self.embedding(tokens)
        return self.output(self.norm(self.blocks(x.sum(2) if tokens.ndim == 3 else x)))

"""Titans' memory, where it is any network: its weights are trained, token by token, while it is read."""

from typing import NamedTuple

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import gelu, layer_norm, pad, rms_norm

from attnlib.core.arrays import valid_length
from attnlib.layers.checks import check_dtype, check_features, check_tokens


class MemoryMLP(nn.Module):
    """Matrices with a GELU between them: the network whose weights are a memory.

    ``x W_1`` for one of them, which is the memory of `titans_memory`; ``gelu(x W_1) W_2`` for two.

    Parameters
    ----------
    dim : int >= 1
        Features of a key and of a value.
    depth : int >= 1
        Matrices.
    expansion : int >= 1
        Hidden features for each of ``dim``.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, section 3.1; ``MemoryMLP`` of lucidrains/titans-pytorch, whose
    names it has. The GELU is theirs.

    Examples
    --------
    >>> MemoryMLP(4)(torch.zeros(2, 3, 4)).shape
    torch.Size([2, 3, 4])
    """

    def __init__(self, dim, depth=2, expansion=4, *, device=None, dtype=None):
        super().__init__()
        self.dim = valid_length(dim, "dim")
        hidden = self.dim * valid_length(expansion, "expansion")
        sizes = [self.dim, *[hidden] * (valid_length(depth, "depth") - 1), self.dim]
        self.weights = nn.ParameterList(
            nn.Parameter(torch.empty(n_in, n_out, device=device, dtype=dtype))
            for n_in, n_out in zip(sizes, sizes[1:], strict=False)
        )
        for weight in self.weights:
            nn.init.xavier_uniform_(weight)

    def forward(self, x):
        """What the memory holds for keys.

        Parameters
        ----------
        x : tensor (..., dim)

        Returns
        -------
        tensor (..., dim)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor with ``dim`` features.
        """
        check_features(x, "x", self.dim)
        check_dtype(x, self)
        first, *others = self.weights
        x = x @ first
        for weight in others:
            x = gelu(x) @ weight
        return x


class ResidualNorm(nn.Module):
    """``x + LayerNorm(model(x)) * (gamma + 1)``: a memory that starts near to giving back its key.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    model : Module
        Maps ``(..., dim)`` to the same shape.

    Raises
    ------
    TypeError, ValueError
        If ``dim`` is not a positive integer.

    References
    ----------
    Sun et al. 2024, arXiv 2407.04620 (TTT); ``ResidualNorm`` of lucidrains/titans-pytorch, whose names it
    has.

    Examples
    --------
    >>> ResidualNorm(2, nn.Identity())(torch.tensor([1.0, 3.0])).round(decimals=3).tolist()
    [0.0, 4.0]
    """

    def __init__(self, dim, model, *, device=None, dtype=None):
        super().__init__()
        self.norm = nn.Module()
        self.norm.gamma = nn.Parameter(torch.zeros(valid_length(dim, "dim"), device=device, dtype=dtype))
        self.model = model

    def forward(self, x):
        """Add the normed output to the input.

        Parameters
        ----------
        x : tensor (..., dim)

        Returns
        -------
        tensor (..., dim)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor with ``dim`` features.
        """
        gamma = self.norm.gamma
        check_features(x, "x", gamma.shape[-1])
        check_dtype(x, self)
        return x + layer_norm(self.model(x), gamma.shape) * (gamma + 1)


class MemoryState(NamedTuple):
    """What a `NeuralMemory` keeps of the tokens it has read; ``P`` weights in one row.

    Attributes
    ----------
    weights : tensor (B, n_heads, P)
        The memory after the last whole chunk; `NeuralMemory.by_name` gives its matrices.
    momentum : tensor (B, n_heads, P)
    stale : tensor (B, n_heads, P)
        The memory that gradients are taken at.
    position : int
        Tokens that are learned already.
    tokens, mask : tensor (B, n, dim), bool tensor (B, n)
        Those after them, fewer than a chunk.
    """

    weights: torch.Tensor
    momentum: torch.Tensor
    stale: torch.Tensor
    position: int
    tokens: torch.Tensor
    mask: torch.Tensor


class NeuralMemory(nn.Module):
    """A network whose weights learn, while tokens pass, to map each one's key to its value.

    For each chunk ``i`` of ``c`` tokens: ``S_i = eta_i S_{i-1} - sum_t theta_t grad l_t`` and
    ``M_i = (1 - alpha_i) M_{i-1} + S_i``, ``l_t`` the mean square of ``M(k_t) - v_t``. Token ``t`` reads
    ``M(q_t)`` with the weights after ``(t + 1) // c`` chunks. All gates are sigmoids of the tokens. The
    layer's own parameters learn by a gradient through all of that, the first weights ``M_0`` among them.

    Parameters
    ----------
    dim : int >= 1
        Features of a token.
    n_heads : int >= 1
        Memories, each of its own part of the features; gated and mixed in the end where there are several.
    head_dim : int >= 1, optional
        Features of a head; ``dim`` when left out, as it is for one head.
    memory : Module, optional
        Any network from ``(..., head_dim)`` to the same shape, without buffers; a `ResidualNorm` of a
        `MemoryMLP` when left out. It is the pattern: ``memory_model_parameters`` has the first weights.
    chunk_size : int >= 1
        Tokens that are learned in one step. The gates ``eta`` and ``alpha`` see their mean.
    batch_size : int, optional
        A multiple of ``chunk_size``: the gradients of so many tokens are taken at the weights before them.
        Left out, all gradients are taken at ``M_0``. With both sizes 1 it is the paper's recurrence.
    momentum : bool
        False: ``eta`` is 0.
    pre_norm, qk_norm : bool
        RMSNorm of the tokens; of the queries and keys of each head.

    Raises
    ------
    TypeError, ValueError
        If a size is not a positive integer, the memory does not keep shapes, or two settings do not fit.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, section 3.1 and equations 9 to 15; the authors released no code.
    It follows ``NeuralMemory`` of lucidrains/titans-pytorch 0.5.5, and loads its parameters. The paper has
    the sum of squares where they take the mean over features, and no gates of heads. Where a text goes on
    within a chunk, theirs is right for one token at a time only, ours for pieces of all lengths.

    Examples
    --------
    >>> layer = NeuralMemory(8, chunk_size=2)
    >>> out, state = layer(torch.zeros(1, 5, 8), return_state=True)
    >>> out.shape, state.position, state.tokens.shape
    (torch.Size([1, 5, 8]), 4, torch.Size([1, 1, 8]))
    """

    def __init__(self, dim, n_heads=1, *, head_dim=None, memory=None, chunk_size=1, batch_size=None,
                 momentum=True, pre_norm=True, qk_norm=False, device=None, dtype=None):  # fmt: skip
        super().__init__()
        new = {"device": device, "dtype": dtype}
        self.dim, self.n_heads = valid_length(dim, "dim"), valid_length(n_heads, "n_heads")
        self.head_dim = self.dim if head_dim is None else valid_length(head_dim, "head_dim")
        if self.n_heads == 1 and self.head_dim != self.dim:
            raise ValueError(f"one head has all {dim} features of a token; got head_dim {head_dim}")
        self.chunk_size = valid_length(chunk_size, "chunk_size")
        self.batch_size = None if batch_size is None else valid_length(batch_size, "batch_size")
        if self.batch_size and self.batch_size % self.chunk_size:
            raise ValueError(f"batch_size must be a multiple of chunk_size {chunk_size}; got {batch_size}")
        if memory is None:
            memory = ResidualNorm(self.head_dim, MemoryMLP(self.head_dim, **new), **new)
        _check_memory(memory, self.head_dim)
        self._memory = (memory,)  # a pattern: its own parameters are not the layer's
        first = dict(memory.named_parameters())
        self._names, self._shapes = list(first), [x.shape for x in first.values()]
        self.memory_model_parameters = nn.ParameterList(
            nn.Parameter(x.detach().to(**new).expand(self.n_heads, *x.shape).clone()) for x in first.values()
        )

        inner = self.n_heads * self.head_dim
        for name in ("retrieve_norm", "store_norm"):
            setattr(self, name, nn.RMSNorm(self.dim, **new) if pre_norm else nn.Identity())
        for name in ("q_norm", "k_norm"):
            setattr(self, name, _HeadNorm(self.n_heads, self.head_dim, new) if qk_norm else nn.Identity())
        for name in ("to_queries", "to_keys", "to_values"):
            setattr(self, name, nn.Linear(self.dim, inner, bias=False, **new))
        self.to_adaptive_step = nn.Sequential(nn.Linear(self.dim, self.n_heads, **new))
        self.to_momentum = nn.Sequential(nn.Linear(self.dim, self.n_heads, **new)) if momentum else None
        self.to_decay_factor = nn.Sequential(nn.Linear(self.dim, self.n_heads, **new))
        several = self.n_heads > 1
        self.combine_heads = nn.Linear(inner, self.dim, bias=False, **new) if several else nn.Identity()
        if several:
            self.retrieve_gate = nn.Sequential(nn.Linear(self.dim, self.n_heads, bias=False, **new))
        self.register_load_state_dict_pre_hook(_without_pattern)

    def forward(self, x, state=None, *, mask=None, return_state=False, return_losses=False):
        """Learn the tokens, and read with each.

        Parameters
        ----------
        x : tensor (B, T, dim)
            The next tokens: those after the ones in the state.
        state : MemoryState, optional
            What the call before gave.
        mask : bool tensor (B, T), optional
            Tokens that are learned; the others leave no surprise, though momentum and forgetting go on.
        return_state : bool
            Return the state after the last token too.
        return_losses : bool
            Return each token's loss too, before it was learned.

        Returns
        -------
        out : tensor (B, T, dim)
        state : MemoryState, if asked for
        losses : tensor (B, n_heads, whole chunks * chunk_size), if asked for
            Of the chunks that were learned now, in their order.

        Raises
        ------
        TypeError, ValueError
            If ``x`` or ``mask`` does not fit.
        """
        check_tokens(x, self.dim)
        check_dtype(x, self)
        state = self.new_state(x) if state is None else state
        _check_state(state, x)
        mask = _valid_mask(mask, x)
        n_before = state.tokens.shape[1]
        tokens, mask = torch.cat([state.tokens, x], 1), torch.cat([state.mask, mask], 1)
        history, state, losses = self._learn(tokens, mask, state)

        normed = self.retrieve_norm(x)
        q = self.q_norm(self._heads(self.to_queries(normed)))
        before, after = n_before + 1, -(n_before + 1 + x.shape[1]) % self.chunk_size
        q = self._chunks(pad(q, (0, 0, before, after)))  # so that token t stands in chunk (t + 1) // c
        out = _each(self._read, 3)(history, q).flatten(2, 3)[:, :, before : before + x.shape[1]]
        if self.n_heads > 1:
            out = out * torch.sigmoid(self.retrieve_gate(normed)).mT[..., None]
        out = self.combine_heads(out.transpose(1, 2).flatten(2))
        asked = [state] * return_state + [losses] * return_losses
        return (out, *asked) if asked else out

    def new_state(self, x):
        """The state before the first token, for a batch like ``x``: tensor (B, T, dim)."""
        first = torch.cat([p.flatten(1) for p in self.memory_model_parameters], -1)
        first = first.expand(len(x), *first.shape)
        return MemoryState(first, torch.zeros_like(first), first, 0, x[:, :0], x[:, :0, 0] > 0)

    def by_name(self, weights):
        """The weights of a state ``(..., P)`` as tensors, by the names of the memory's parameters."""
        parts = weights.split([shape.numel() for shape in self._shapes], -1)
        named = zip(self._names, parts, self._shapes, strict=True)
        return {
            name: part.unflatten(-1, shape) if len(shape) else part[..., 0] for name, part, shape in named
        }

    def gates(self, x):
        """``theta`` of each token, ``eta`` and ``alpha`` of each chunk of ``x``, which is normed.

        Parameters
        ----------
        x : tensor (B, T, dim)
            Whole chunks, after ``store_norm``.

        Returns
        -------
        theta : tensor (B, n_heads, T)
        eta, alpha : tensor (B, n_heads, T / chunk_size)

        Raises
        ------
        TypeError, ValueError
            If ``x`` is no tensor ``(B, T, dim)`` of whole chunks.
        """
        check_tokens(x, self.dim)
        if x.shape[1] % self.chunk_size:
            raise ValueError(f"x must have whole chunks of {self.chunk_size} tokens; got {x.shape[1]} tokens")
        theta = torch.sigmoid(self.to_adaptive_step(x)).mT
        means = x.unflatten(1, (-1, self.chunk_size)).mean(2)
        alpha = torch.sigmoid(self.to_decay_factor(means)).mT
        eta = (
            torch.zeros_like(alpha) if self.to_momentum is None else torch.sigmoid(self.to_momentum(means)).mT
        )
        return theta, eta, alpha

    def _learn(self, tokens, mask, state):
        """The weights after each whole chunk, those before the first included; the state; the losses."""
        weights, momentum, stale, position, *_ = state
        history, losses, start = [weights], [], 0
        whole = tokens.shape[1] // self.chunk_size * self.chunk_size
        while start < whole:
            stop = whole
            if self.batch_size:
                stop = min(whole, start + self.batch_size - position % self.batch_size)
            x = self.store_norm(tokens[:, start:stop])
            theta, eta, alpha = self.gates(x)
            theta = torch.where(mask[:, None, start:stop], theta, 0)
            k, v = self.k_norm(self._heads(self.to_keys(x))), self._heads(self.to_values(x))
            chunks = self._chunks(k), self._chunks(v), self._chunks(theta[..., None])[..., 0]
            slopes, loss = _each(vmap(grad(self._loss, has_aux=True), (None, 0, 0, 0)), 2)(stale, *chunks)
            for i in range(eta.shape[-1]):
                momentum = eta[..., i, None] * momentum - slopes[:, :, i]
                weights = (1 - alpha[..., i, None]) * weights + momentum
                history.append(weights)
            losses.append(loss.flatten(2))
            position, start = position + stop - start, stop
            if self.batch_size and position % self.batch_size == 0:
                stale = weights
        rest = tokens[:, whole:], mask[:, whole:]
        losses = torch.cat(losses, -1) if losses else tokens.new_zeros(len(tokens), self.n_heads, 0)
        return torch.stack(history, 2), MemoryState(weights, momentum, stale, position, *rest), losses

    def _read(self, weights, x):
        return functional_call(self._memory[0], self.by_name(weights), (x,))

    def _loss(self, weights, k, v, theta):
        losses = (self._read(weights, k) - v).square().mean(-1)
        return (theta * losses).sum(), losses

    def _heads(self, x):
        return x.unflatten(-1, (self.n_heads, self.head_dim)).transpose(1, 2)

    def _chunks(self, x):
        return x.unflatten(2, (-1, self.chunk_size))

    def extra_repr(self):
        """What ``print(layer)`` shows of the layer itself."""
        return (f"{self.dim}, n_heads={self.n_heads}, head_dim={self.head_dim}, "
                f"chunk_size={self.chunk_size}, batch_size={self.batch_size}")  # fmt: skip


class _HeadNorm(nn.Module):
    """Root mean square norm with a weight ``gamma + 1`` for each head."""

    def __init__(self, n_heads, head_dim, new):
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(n_heads, 1, head_dim, **new))

    def forward(self, x):
        return rms_norm(x, x.shape[-1:]) * (self.gamma + 1)


def _each(function, axes):
    """The function, for each entry of so many leading axes."""
    for _ in range(axes):
        function = vmap(function)
    return function


def _without_pattern(module, state_dict, prefix, *_):
    """titans-pytorch saves the pattern of its memory too; the weights are in memory_model_parameters."""
    for name in [name for name in state_dict if name.startswith(f"{prefix}memory_model.")]:
        del state_dict[name]


def _check_memory(memory, width):
    if not isinstance(memory, nn.Module):
        raise TypeError(f"memory must be a torch module; got {type(memory).__name__}")
    if next(memory.buffers(), None) is not None or next(memory.parameters(), None) is None:
        raise ValueError("memory must have parameters, which are learned, and no buffers, which would not be")
    one = next(memory.parameters())
    with torch.no_grad():
        got = tuple(memory(torch.zeros(2, width, device=one.device, dtype=one.dtype)).shape)
    if got != (2, width):
        raise ValueError(f"memory must map shape (2, {width}) to the same shape; got {got}")


def _check_state(state, x):
    if not isinstance(state, MemoryState):
        raise TypeError(f"state must be a MemoryState, as is returned; got {type(state).__name__}")
    if len(state.weights) != len(x):
        raise ValueError(f"state must be of {len(x)} sequences, as x is; got {len(state.weights)}")


def _valid_mask(mask, x):
    if mask is None:
        return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
        raise TypeError(f"mask must be a boolean tensor; got {getattr(mask, 'dtype', type(mask).__name__)}")
    if mask.shape != x.shape[:2]:
        raise ValueError(f"mask must have shape {tuple(x.shape[:2])}; got {tuple(mask.shape)}")
    return mask

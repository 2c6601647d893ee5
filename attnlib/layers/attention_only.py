"""A Transformer with nothing but attention: small enough to be read as a sum of paths."""

import math
from typing import NamedTuple

import torch
from torch import nn

from attnlib.core.arrays import valid_length
from attnlib.core.scaled_dot_product import attention


class Trace(NamedTuple):
    """All that an attention-only Transformer adds up.

    Attributes
    ----------
    residual : tensor (n_layers + 1, ..., L, d_model)
        The residual stream: entry 0 the embedding, entry n what layer n has left.
    weights : tensor (n_layers, ..., n_heads, L, L)
        The attention of each head.
    results : tensor (n_layers, ..., n_heads, L, d_model)
        What each head adds to the stream: ``residual[n + 1] - residual[n]`` is their sum, and the layer's
        ``b_O`` where there are biases.
    logits : tensor (..., L, d_vocab)
        ``residual[-1] @ W_U``, and ``b_U``.
    """

    residual: torch.Tensor
    weights: torch.Tensor
    results: torch.Tensor
    logits: torch.Tensor


class AttentionOnlyTransformer(nn.Module):
    """Embedding, causal attention layers that add to the residual stream, unembedding; no norm, no MLP.

    ``x_0 = W_E[tokens] + W_pos``, ``x_{n+1} = x_n + sum_h A_h x_n W_V,h W_O,h`` and
    ``logits = x_N W_U``, with ``A_h = softmax(x_n W_Q,h (x_n W_K,h).T / sqrt(d_head))`` over the tokens up
    to each. State dicts load from TransformerLens's HookedTransformer, without its buffers ``mask`` and
    ``IGNORE``.

    Parameters
    ----------
    d_vocab : int >= 1
    d_model : int >= 1
        Width of the residual stream.
    n_heads : int >= 1
    n_layers : int >= 1
    n_ctx : int >= 1
        Positions that have a vector.
    d_head : int >= 1, optional
        ``d_model // n_heads`` when left out, which must then divide.
    positions : {"standard", "shortformer"}
        ``standard`` adds ``W_pos`` to the stream. ``shortformer`` adds it to what queries and keys are made
        of and to nothing else, in every layer: the stream then tells only what tokens there are.
    bias : bool
        Biases ``b_Q``, ``b_K``, ``b_V``, ``b_O`` and ``b_U``. They are outside Elhage's formula.

    Raises
    ------
    TypeError, ValueError
        If a size is no positive integer, if the heads do not divide the width, or ``positions`` is
        another word.

    References
    ----------
    Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", whose column vectors are rows
    here: their ``W_OV`` is ``(W_V W_O).T``. Press, Smith and Lewis 2021, arXiv 2012.15832 (shortformer).

    Examples
    --------
    >>> model = AttentionOnlyTransformer(d_vocab=20, d_model=16, n_heads=4, n_layers=2, n_ctx=32)
    >>> model(torch.zeros(3, 10, dtype=torch.long)).shape
    torch.Size([3, 10, 20])
    >>> model.W_O.shape
    torch.Size([2, 4, 4, 16])
    """

    def __init__(self, d_vocab, d_model, n_heads, n_layers, n_ctx, *, d_head=None, positions="standard",
                 bias=False, device=None, dtype=None):  # fmt: skip
        super().__init__()
        sizes = {"d_vocab": d_vocab, "d_model": d_model, "n_heads": n_heads, "n_layers": n_layers,
                 "n_ctx": n_ctx}  # fmt: skip
        sizes = {name: valid_length(size, name) for name, size in sizes.items()}
        self.d_vocab, self.d_model, self.n_heads, self.n_layers, self.n_ctx = sizes.values()
        if d_head is None and self.d_model % self.n_heads:
            raise ValueError(f"d_model {d_model} does not divide into {n_heads} heads; d_head can be given")
        self.d_head = valid_length(self.d_model // self.n_heads if d_head is None else d_head, "d_head")
        if positions not in ("standard", "shortformer"):
            raise ValueError(f"positions must be 'standard' or 'shortformer'; got {positions!r}")
        self.positions = positions

        def parameters(**shapes):
            shapes = {name: shape for name, shape in shapes.items() if bias or name[0] == "W"}
            return nn.ParameterDict({
                name: nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                for name, shape in shapes.items()
            })  # fmt: skip

        h, d, e = self.n_heads, self.d_head, self.d_model
        self.embed = parameters(W_E=(self.d_vocab, e))
        self.pos_embed = parameters(W_pos=(self.n_ctx, e))
        self.blocks = nn.ModuleList(
            nn.ModuleDict({"attn": parameters(
                W_Q=(h, e, d), W_K=(h, e, d), W_V=(h, e, d), W_O=(h, d, e),
                b_Q=(h, d), b_K=(h, d), b_V=(h, d), b_O=(e,),
            )}) for _ in range(self.n_layers)
        )  # fmt: skip
        self.unembed = parameters(W_U=(e, self.d_vocab), b_U=(self.d_vocab,))
        self.reset_parameters()

    def reset_parameters(self):
        """Draw new initial values: normal, of deviation ``1 / sqrt(d_model)``; biases zero.

        Vectors of tokens and of positions are of deviation 1/2: begun small, they hold induction up.
        """
        for name, parameter in self.named_parameters():
            kind = name.rpartition(".")[2]
            if kind.startswith("b"):
                nn.init.zeros_(parameter)
            else:
                std = 0.5 if kind in ("W_E", "W_pos") else 1 / math.sqrt(self.d_model)
                nn.init.normal_(parameter, std=std)

    def forward(self, tokens):
        """Logits of what follows each token.

        Parameters
        ----------
        tokens : integer tensor (..., L)
            Between 0 and ``d_vocab - 1``; at most ``n_ctx`` of them in a row.

        Returns
        -------
        tensor (..., L, d_vocab)

        Raises
        ------
        TypeError, ValueError
            If ``tokens`` is no tensor of integers, is empty or too long, or one is no token.
        """
        x, positions = self._embedded(tokens)
        for block in self.blocks:
            q, k, v = _project(block["attn"], x, positions)
            z = attention(q, k, v, causal=True)
            x = x + torch.einsum("...hld,hde->...le", z, block["attn"]["W_O"]) + _bias(block["attn"], "b_O")
        return x @ self.W_U + _bias(self.unembed, "b_U")

    def trace(self, tokens):
        """The forward pass with all that it adds up.

        Parameters
        ----------
        tokens : integer tensor (..., L)

        Returns
        -------
        Trace

        Raises
        ------
        TypeError, ValueError
            As for the forward pass.
        """
        x, positions = self._embedded(tokens)
        residual, weights, results = [x], [], []
        for block in self.blocks:
            q, k, v = _project(block["attn"], x, positions)
            z, a = attention(q, k, v, causal=True, return_weights=True)
            weights.append(a)
            results.append(z @ block["attn"]["W_O"])
            x = x + results[-1].sum(-3) + _bias(block["attn"], "b_O")
            residual.append(x)
        logits = x @ self.W_U + _bias(self.unembed, "b_U")
        return Trace(torch.stack(residual), torch.stack(weights), torch.stack(results), logits)

    W_E = property(lambda self: self.embed["W_E"], doc="The embedding (d_vocab, d_model).")
    W_U = property(lambda self: self.unembed["W_U"], doc="The unembedding (d_model, d_vocab).")
    W_pos = property(lambda self: self.pos_embed["W_pos"], doc="The positions (n_ctx, d_model).")
    W_Q = property(lambda self: self._stacked("W_Q"), doc="(n_layers, n_heads, d_model, d_head).")
    W_K = property(lambda self: self._stacked("W_K"), doc="(n_layers, n_heads, d_model, d_head).")
    W_V = property(lambda self: self._stacked("W_V"), doc="(n_layers, n_heads, d_model, d_head).")
    W_O = property(lambda self: self._stacked("W_O"), doc="(n_layers, n_heads, d_head, d_model).")

    def extra_repr(self):
        """What ``print(model)`` shows of the model itself."""
        return (
            f"d_vocab={self.d_vocab}, d_model={self.d_model}, n_heads={self.n_heads}, d_head={self.d_head}, "
            f"n_ctx={self.n_ctx}, positions={self.positions!r}"
        )

    def _stacked(self, name):
        return torch.stack([block["attn"][name] for block in self.blocks])

    def _embedded(self, tokens):
        """The residual stream at its start, and what queries and keys are given besides."""
        self._check(tokens)
        x, positions = self.W_E[tokens.long()], self.W_pos[: tokens.shape[-1]]
        return (x + positions, 0) if self.positions == "standard" else (x, positions)

    def _check(self, tokens):
        if not isinstance(tokens, torch.Tensor):
            raise TypeError(f"tokens must be a torch tensor; got {type(tokens).__name__}")
        if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
            raise TypeError(f"tokens must be whole numbers; got dtype {tokens.dtype}")
        if not tokens.ndim or 0 in tokens.shape:
            raise ValueError(f"tokens must be one or more in a row; got shape {tuple(tokens.shape)}")
        if tokens.shape[-1] > self.n_ctx:
            raise ValueError(
                f"tokens must be at most {self.n_ctx} in a row, for so many positions have a vector; "
                f"got {tokens.shape[-1]}"
            )
        outside = (tokens < 0) | (tokens >= self.d_vocab)
        if outside.any():
            raise ValueError(f"tokens must lie in 0 .. {self.d_vocab - 1}; got {int(tokens[outside][0])}")


def _project(heads, x, positions):
    """Queries, keys and values of all heads, each (..., H, L, d_head)."""
    inputs = {"Q": x + positions, "K": x + positions, "V": x}
    return [
        torch.einsum("...le,hed->...hld", given, heads[f"W_{kind}"]) + _bias(heads, f"b_{kind}", rows=True)
        for kind, given in inputs.items()
    ]


def _bias(parameters, name, *, rows=False):
    if name not in parameters:
        return 0
    return parameters[name][:, None] if rows else parameters[name]

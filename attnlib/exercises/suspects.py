"""The suspects of lesson 16: a layer that is right, and eighteen that differ from it in one step.

Lesson 16 shows the code of each and asks which are guilty, so their names are letters; there is no I and no
O. `CASES` says who is who.
"""

from dataclasses import dataclass

import torch
from torch import nn

from attnlib.core.rotary import rope


class Layer(nn.Module):
    """Causal self-attention as language models use it.

    ``layer(x, real=None, cache=None)`` takes words ``(B, L, D)`` and gives ``(B, L, D)``. ``real`` (B, S) is
    True where a key is a word and False where it is padding; a query with nothing to see gets zeros.
    ``cache`` is a list, empty at first, in which the layer keeps the keys and values of all its calls.
    """

    def __init__(self, width, n_heads, n_groups=None, dropout=0.0, rotary=True, seed=0):
        super().__init__()
        self.sizes = width, n_heads, n_groups, dropout, rotary
        self.n_heads, self.n_groups = n_heads, n_groups or n_heads     # of queries, of keys
        self.dropout, self.rotary = dropout, rotary
        generator = torch.Generator().manual_seed(seed)
        kept = width // n_heads * self.n_groups
        for name, columns in (("w_q", width), ("w_k", kept), ("w_v", kept), ("w_o", width)):
            drawn = torch.randn(width, columns, generator=generator) / width**0.5
            self.register_parameter(name, nn.Parameter(drawn))         # used as x @ w

    def forward(self, x, real=None, cache=None):                       # (B, L, D)
        q, k, v = self.split(x @ self.w_q), self.split(x @ self.w_k), self.split(x @ self.w_v)
        seen = cache[0].shape[-2] if cache else 0                      # keys of earlier calls
        if self.rotary:
            q, k = self.turn(q, seen), self.turn(k, seen)              # (B, heads, L, d)
        if cache:
            k, v = torch.cat([cache[0], k], -2), torch.cat([cache[1], v], -2)
        if cache is not None:
            cache[:] = [k, v]                                          # (B, groups, S, d)
        mask = self.may_attend(x.shape[1], k.shape[-2], real)          # (L, S) or (B, 1, L, S)
        weights = self.drop(self.weights(q, self.share(k), mask))      # (B, heads, L, S)
        return self.merge(weights @ self.share(v)) @ self.w_o          # (B, L, D)

    def split(self, x):
        return x.view(*x.shape[:2], -1, self.w_q.shape[0] // self.n_heads).transpose(1, 2)

    def turn(self, x, start):                                          # rotary positions
        return rope(x, start + torch.arange(x.shape[-2]))

    def may_attend(self, n_queries, n_keys, real=None):                # True = may attend
        mask = torch.ones(n_queries, n_keys).tril(n_keys - n_queries) == 1
        return mask if real is None else mask & real[:, None, None, :]

    def share(self, x):                                                # a key head for each query head
        return x.repeat_interleave(self.n_heads // self.n_groups, 1)

    def weights(self, q, k, mask):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1) * mask

    def drop(self, weights):
        return nn.functional.dropout(weights, self.dropout, self.training)

    def merge(self, heads):                                            # (B, H, L, d)
        return heads.transpose(1, 2).flatten(2)                        # (B, L, D)


class A(Layer):
    def merge(self, heads):                                     # (B, H, L, d)
        return heads.reshape(len(heads), heads.shape[2], -1)    # (B, L, H d)


class B(Layer):
    def weights(self, q, k, mask):                              # (B, H, L, d)
        scores = q @ k.mT / self.w_q.shape[0] ** 0.5            # (B, H, L, S)
        return scores.masked_fill(~mask, -1e9).softmax(-1) * mask


class C(Layer):
    def weights(self, q, k, mask):
        scores = q @ k.mT / q.shape[-1] ** 0.5                  # (B, H, L, S)
        return scores.masked_fill(~mask, -1e9).softmax(-2) * mask


class D(Layer):
    def weights(self, q, k, mask):
        scores = (q / q.shape[-1] ** 0.5) @ k.mT                # (B, H, L, S)
        scores = scores.masked_fill(~mask, -1e9)
        exponentials = (scores - scores.amax(-1, keepdim=True)).exp()
        return exponentials / exponentials.sum(-1, keepdim=True) * mask


class E(Layer):
    def share(self, x):                                         # (B, groups, S, d)
        return x.repeat(1, self.n_heads // self.n_groups, 1, 1)


class F(Layer):
    def forward(self, x, real=None, cache=None):
        x, real = x.transpose(0, 1), real if real is None else real.T
        return super().forward(x, real, cache).transpose(0, 1)


class G(Layer):
    def may_attend(self, n_queries, n_keys, real=None):
        mask = torch.ones(n_queries, n_keys).tril() == 1
        return mask if real is None else mask & real[:, None, None, :]


class H(Layer):
    def may_attend(self, n_queries, n_keys, real=None):         # real: (B, S)
        mask = torch.ones(n_queries, n_keys).tril(n_keys - n_queries) == 1
        return mask if real is None else mask & real


class J(Layer):
    def may_attend(self, n_queries, n_keys, real=None):
        later = torch.ones(n_queries, n_keys).triu(diagonal=1 + n_keys - n_queries)
        return later == 0 if real is None else (later == 0) & real[:, None, None]


class K(Layer):
    def may_attend(self, n_queries, n_keys, real=None):         # real: (B, S)
        mask = torch.ones(n_queries, n_keys).tril(n_keys - n_queries) == 1
        return mask if real is None else mask & real[:, None, -n_queries:, None]


class L(Layer):
    def weights(self, q, k, mask):
        scores = q @ k.mT / q.shape[-1] ** 0.5                  # (B, H, L, S)
        return scores.masked_fill(~mask, -torch.inf).softmax(-1)


class M(Layer):
    def weights(self, q, k, mask):
        scores = q @ k.mT / q.shape[-1] ** 0.5                  # (B, H, L, S)
        top = scores.masked_fill(~mask, -1e9).amax(-1, keepdim=True)
        weights = (scores - top).clamp(max=0).exp() * mask      # masked after exp
        return weights / (weights.sum(-1, keepdim=True) + 1e-9)


class N(Layer):
    def turn(self, x, start):                                   # (B, heads, L, d)
        return rope(x, torch.arange(x.shape[-2]))


class P(Layer):
    def drop(self, weights):
        return nn.functional.dropout(weights, self.dropout)


class Q(Layer):
    def weights(self, q, k, mask):
        scores = q @ k.mT / q.shape[-1] ** 0.5                  # (B, H, L, S)
        return scores.softmax(-1) * mask


class R(Layer):
    def may_attend(self, n_queries, n_keys, real=None):
        mask = torch.ones(n_queries, n_keys).triu(1 + n_keys - n_queries) == 1
        return mask if real is None else mask | ~real[:, None, None, :]


class S(Layer):
    def turn(self, x, start):                                   # (B, heads, L, d)
        x = x.transpose(1, 2)
        return rope(x, start + torch.arange(x.shape[-2])).transpose(1, 2)


class T(Layer):
    def turn(self, x, start):                                   # (B, heads, L, d)
        return rope(x, start + torch.arange(x.shape[-2]), layout="halves")


@dataclass(frozen=True)
class Case:
    """What is known of a suspect.

    Attributes
    ----------
    suspect : type
    guilty : bool
    name : str
        The fault, or what is right about it.
    needs : tuple of str
        What a call must have for the fault to show, the coarsest first (`watching.NEEDS`).
    hint : str
        Of the fault's family; it goes on after the letter.
    """

    suspect: type
    guilty: bool
    name: str
    needs: tuple = ()
    hint: str = ""

    @property
    def letter(self):
        return self.suspect.__name__


_HEADS = "is of those whose shape is right and whose numbers are not. "
_SIZES = "is of those who are right until two sizes differ, or agree by chance. "
_STATE = "is of those who are right until there is padding, a cache, or an evaluation. "
_TRAINS = "is of those who run and learn, only worse than they could. "

CASES = (
    Case(A, True, "the heads are merged by a view", ("heads", "words", "varied"),
         _HEADS + "A word's output holds parts of other words, later ones too. Which outputs may move when "
         "the last word does?"),
    Case(B, True, "the scale is that of the model's width", ("heads", "words", "varied"),
         _HEADS + "No property is broken: the weights are only too even. Compute one output by hand, with "
         "several heads, from the layer's own matrices."),
    Case(C, True, "the softmax runs over the queries", ("words", "varied"),
         _HEADS + "A query's weights do not sum to one. If all values are the same vector, what must come "
         "out?"),
    Case(D, False, "scaled before the product, and the largest score taken off"),
    Case(E, True, "key heads are laid out like tiles", ("groups", "words", "varied"),
         _HEADS + "Query heads 0 and 1 share key head 0, if there are four and two. Silence a key head: "
         "which query heads fall silent?"),
    Case(F, True, "attention runs along the batch", ("varied",),
         _HEADS + "Put a sentence beside another one, and then the other way round. What may its output "
                  "depend on?"),
    Case(G, True, "the causal mask starts at the upper left", ("cached", "varied"),
         _SIZES + "Queries and keys are equally many unless the layer continues from a cache. What must "
         "come out of a continuation?"),
    Case(H, True, "a padding mask of shape (B, S) is taken for (L, S)",
         ("padding", "batch", "ragged", "varied"),
         _SIZES + "Its mask fits by chance where there are as many sentences as words."),
    Case(J, False, "the mask's complement, one above the diagonal"),
    Case(K, True, "padding hides queries instead of keys", ("left", "varied"),
         _STATE + "Change what stands at a padded place, and look at the words behind it."),
    Case(L, True, "a query with nothing to see gives NaN", ("empty",),
         _STATE + "What does it say where a sentence begins with padding?"),
    Case(M, False, "masked after the exponential, and divided by what is left"),
    Case(N, True, "places start anew in every call", ("cached", "rotary", "varied"),
         _STATE + "Read a text in one call and in several. What must agree?"),
    Case(P, True, "dropout goes on in evaluation", ("evaluated", "words", "varied"),
         _STATE + "What may two calls in evaluation differ by?"),
    Case(Q, True, "masked after the softmax, and not divided again", ("words", "varied"),
         _TRAINS + "A hidden word has no weight, but it is in the denominator. Change it to something that "
         "scores high."),
    Case(R, True, "the mask has the other polarity", ("words", "varied"),
         _TRAINS + "Change the last word. Whose output may move?"),
    Case(S, True, "places are counted along the heads", ("rotary", "three", "varied"),
         _TRAINS + "Exchange two earlier words. Must the last output move?"),
    Case(T, False, "pairs of features are halves, for queries and keys alike"),
)  # fmt: skip

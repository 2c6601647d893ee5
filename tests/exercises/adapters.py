"""One table between exercises and attnlib: how a function of attnlib meets an exercise's contract.

It serves two tests. attnlib's functions must pass the judges, and attnlib's own tests must notice when a
function is replaced by one that makes a mistake which the exercise knows. Each change that adds a function
with an exercise to attnlib adds its line to `ADAPTERS`.
"""

import inspect
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps

import numpy as np
import torch

import attnlib
from attnlib.analysis import alignments
from attnlib.cases import (
    cross_entropy_method,
    lightning,
    polarity,
    policy_gradient,
    refinement,
    singular_values,
    titans_recurrence,
)
from attnlib.core import (
    grouped_queries,
    huffman,
    luong,
    masks,
    positions,
    rotary,
    scaled_dot_product,
    scores,
    sinks,
    smoothing,
    softmaxes,
    sparse_softmaxes,
    statistics,
)
from attnlib.efficient import linear
from attnlib.exercises.catalogue import EXERCISES
from attnlib.layers import multi_head, rms_norm, swiglu


@dataclass(frozen=True)
class Adapter:
    """How attnlib meets a contract.

    Attributes
    ----------
    answer : callable
        What the exercise asks for, made of attnlib's functions.
    owner, name : object, str
        The function that may be replaced is ``getattr(owner, name)``; None where an answer is made of
        functions that have lines of their own.
    wrong : callable
        ``wrong(original, compute)`` is a function with the original's signature that gives what the
        exercise's ``compute`` gives, wherever its contract reaches, and what the original gives elsewhere.
    tests : str
        attnlib's own tests of the function.
    of_the_way : tuple of str
        Those of them that look at how it is computed, or ask for more digits than the contract does.
    left_out : dict
        Mistakes that cannot be made behind the original's signature, each with the reason.
    """

    answer: Callable
    owner: object = None
    name: str = ""
    wrong: Callable | None = None
    tests: str = ""
    of_the_way: tuple = ()
    left_out: dict = field(default_factory=dict)


def _array(x):
    """The same numbers in NumPy, in the same memory."""
    return x.detach().numpy() if isinstance(x, torch.Tensor) else x


def _like(result, right):
    """A result as the original gives it: its library, and its floating type if it is of one."""
    if isinstance(right, tuple):
        return tuple(map(_like, result, right)) if len(result) == len(right) else result
    if isinstance(right, torch.Tensor):
        result = torch.as_tensor(np.array(result))
        return result.to(right.dtype) if result.is_floating_point() and right.is_floating_point() else result
    result = np.asarray(result)
    return result.astype(right.dtype) if result.dtype.kind == right.dtype.kind == "f" else result


def _beyond(*arrays):
    """Whether one of them is learned from, or of a type that NumPy has not."""
    return any(isinstance(x, torch.Tensor) and (x.requires_grad or x.dtype == torch.bfloat16
                                                or x.device.type != "cpu") for x in arrays)  # fmt: skip


def _of_scores(original, compute):
    @wraps(original)
    def wrong(x, axis=-1, **options):
        right = original(x, axis, **options)
        if options or _beyond(x) or np.isnan(_array(right)).any() or np.isneginf(_array(right)).any():
            return right
        return _like(compute(_array(x), axis), right)

    return wrong


def _of_arrays(original, compute):
    @wraps(original)
    def wrong(*arrays):
        right = original(*arrays)
        return right if _beyond(*arrays) else _like(compute(*map(_array, arrays)), right)

    return wrong


def _of_rows(original, compute):
    """Finite scores along one axis, no larger than float64 can add; one further score of 0 and no other."""

    @wraps(original)
    def wrong(x, axis=-1, *n, **options):
        right = original(x, axis, *n, **options)
        if {1, *n, *options.values()} != {1} or _beyond(x) or not (np.abs(_array(x)) < 1e6).all():
            return right
        return _like(np.moveaxis(compute(np.moveaxis(_array(x), axis, -1)), -1, axis), right)

    return wrong


def _shipped(original, compute):
    """One weight in the shipped form, which is not all zeros."""

    @wraps(original)
    def wrong(weight, z, form="paper", *, max_mult=1.0):
        right = original(weight, z, form, max_mult=max_mult)
        parts = weight if isinstance(weight, tuple | list) else (weight,)
        kinds = {_array(x).dtype for x in (*parts, z) if not _beyond(x)}
        plain = form == "shipped" and z.ndim == 1 and kinds == {np.dtype(float)}
        if not plain or _beyond(*parts, z) or not _array(parts[0]).any():
            return right
        if len(parts) == 1:
            U, S, Vt = np.linalg.svd(_array(weight), full_matrices=False)
            parts = U, S, Vt.T
        return _like(compute(*map(_array, parts), _array(z)), right)

    return wrong


def _policy(original, compute):
    """Batches of answers whose tokens all count; learned from too, for it is made of tensors."""

    @wraps(original)
    def wrong(logits, actions, rewards, mask=None):
        right = original(logits, actions, rewards, mask)
        if mask is not None or logits.ndim != 3 or "64" not in str(logits.dtype):
            return right
        tensors = [torch.as_tensor(x) for x in (logits, actions, rewards)]
        made = compute(tensors[0], tensors[1], tensors[2].to(tensors[0].dtype))
        return made if isinstance(logits, torch.Tensor) else made.numpy()

    return wrong


def _search_round(original, compute):
    """Without log-likelihoods, and with scores of which no two are the same."""

    @wraps(original)
    def wrong(population, scores, n_elite, *, log_likelihoods=None):
        right = original(population, scores, n_elite, log_likelihoods=log_likelihoods)
        told = _array(scores)
        if log_likelihoods is not None or len(set(told.tolist())) < len(told) or _beyond(population):
            return right
        return _like(compute(_array(population), told, n_elite), right)

    return wrong


def _titans(original, compute):
    """One text with gradients that are never stale, from an empty memory, which is not asked for."""

    @wraps(original)
    def wrong(q, k, v, theta, eta, alpha, **options):
        right = original(q, k, v, theta, eta, alpha, **options)
        plain = options.pop("chunk_size", 1) == 1 and not options and k.ndim == 2
        if not plain or _beyond(q, k, v, theta, eta, alpha):
            return right
        dials = (np.broadcast_to(_array(dial), len(k)) for dial in (theta, eta, alpha))
        return _like(compute(*map(_array, (q, k, v)), *dials), right)

    return wrong


def _lightning(original, compute):
    """From an empty state, without padding; heads and batches in turn, in the blocks asked for."""

    @wraps(original)
    def wrong(q, k, v, slopes, mask=None, *, block_size=256, state=None, return_state=False):
        options = {"block_size": block_size, "state": state, "return_state": return_state}
        right = original(q, k, v, slopes, mask, **options)
        if mask is not None or state is not None or _beyond(q, k, v, slopes):
            return right
        arrays, rates = [*map(_array, (q, k, v))], np.asarray(_array(slopes), float)
        if any(x.dtype.kind != "f" or x.dtype.itemsize < 4 for x in arrays):
            return right
        lead = np.broadcast_shapes(rates.shape, *(x.shape[:-2] for x in arrays))
        heads = [np.broadcast_to(x, (*lead, *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in arrays]
        whole, rest = divmod(q.shape[-2], block_size)
        calls = [(0, block_size)] * whole + [(0, rest)] * bool(rest)
        made = compute(*heads, np.broadcast_to(rates, lead).reshape(-1), calls)
        out, end = (part.reshape(*lead, *part.shape[-2:]) for part in made)
        return _like((out, end), right) if return_state else _like(out, right)

    return wrong


def _linear(original, compute):
    """Causal, as many keys as queries, elu(x) + 1, a denominator; no padding, no state to go on from."""
    defaults = inspect.signature(original).parameters

    @wraps(original)
    def wrong(q, k, v, mask=None, **options):
        right = original(q, k, v, mask, **options)
        given = {name: value for name, value in options.items() if name not in ("chunk_size", "eps")}
        plain = given.pop("causal", False) and all(defaults[n].default is value for n, value in given.items())
        if mask is not None or not plain or options.get("eps", 0) > 1e-3 or _beyond(q, k, v):
            return right
        q, k, v = map(_array, (q, k, v))
        if q.shape[-2] != k.shape[-2] or any(x.dtype.kind != "f" or x.dtype.itemsize < 4 for x in (q, k, v)):
            return right
        lead = np.broadcast_shapes(*(x.shape[:-2] for x in (q, k, v)))
        return _like(compute(*(np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (q, k, v))), right)

    return wrong


def _polarity(original, compute):
    """One power for all, no padding, and no query without products of a kind."""

    @wraps(original)
    def wrong(q, k, v, power=3.0, mask=None, *, eps=1e-6):
        right = original(q, k, v, power, mask, eps=eps)
        if mask is not None or not isinstance(power, int | float) or power < 1 or eps > 1e-3:
            return right
        if _beyond(q, k, v) or not _array(right).reshape(*right.shape[:-1], 2, -1).any(-1).all():
            return right
        arrays = [_array(x) for x in (q, k, v)]
        if any(x.dtype.kind != "f" or x.dtype.itemsize < 4 for x in arrays):
            return right
        lead = np.broadcast_shapes(*(x.shape[:-2] for x in arrays))
        arrays = [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in arrays]
        by_eps = _array(right) - EXERCISES["polarity_attention"].judge.compute(*arrays, power)
        return _like(compute(*arrays, power) + by_eps, right)

    return wrong


def _score(original, compute):
    """Batches one by one. A bias is added to what comes out, or is one more number of each query."""
    given = {"cosine_score": 0, "general_score": 1, "additive_score": 3, "concat_score": 2}[original.__name__]

    @wraps(original)
    def wrong(q, k, *weights):
        right = original(q, k, *weights)
        if _beyond(q, k, *weights):
            return right
        q, k, *weights = map(_array, (q, k, *weights))
        weights, bias = weights[:given], weights[given:]
        if bias and given > 1:
            weights[0] = np.insert(weights[0], q.shape[-1], bias.pop(), axis=1)
            q = np.concatenate([q, np.ones((*q.shape[:-1], 1))], axis=-1)
        pairs = zip(*(x.reshape(-1, *x.shape[-2:]) for x in (q, k)), strict=True)
        result = np.stack([compute(*pair, *weights) for pair in pairs])
        return _like(result.reshape(*q.shape[:-2], *result.shape[1:]) + sum(bias), right)

    return wrong


def _location(original, compute):
    """The scores that the exercise's weights are the softmax of, where no key is without a row of W."""

    @wraps(original)
    def wrong(q, k, W):
        right = original(q, k, W)
        if _beyond(q, k, W) or k.shape[-2] > len(W):
            return right
        q, k, W = map(_array, (q, k, W))
        pairs = zip(*(x.reshape(-1, *x.shape[-2:]) for x in (q, k)), strict=True)
        result = np.stack([compute(*pair, W, returns="scores") for pair in pairs])
        return _like(result.reshape(*q.shape[:-2], *result.shape[1:]), right)

    return wrong


def _local(original, compute):
    """Places among the keys and finite scores; a row of another place is as it is."""

    @wraps(original)
    def wrong(scores, position, half_window):
        right = original(scores, position, half_window)
        if _beyond(scores, position) or not np.isfinite(_array(scores)).all():
            return right
        s, p = _array(scores), _array(position)
        known = (p >= 0) & (p <= s.shape[-1])
        p = np.where(known, p, 0)
        result = [compute(*pair, half_window)
                  for pair in zip(s.reshape(-1, *s.shape[-2:]), p.reshape(-1, p.shape[-1]), strict=True)]
        result = np.stack(result).reshape(*s.shape[:-2], *result[0].shape)
        return _like(np.where(known[..., None], result, _array(right)), right)

    return wrong


def _causal_mask(original, compute):
    @wraps(original)
    def wrong(n_query, n_key=None, *, align="end", like=None):
        right = original(n_query, n_key, align=align, like=like)
        if align != "end" or _beyond(like):
            return right
        return _like(compute(n_query, n_query if n_key is None else n_key), right)

    return wrong


def _window_mask(original, compute):
    @wraps(original)
    def wrong(n, window, *, like=None):
        right = original(n, window, like=like)
        return right if _beyond(like) else _like(compute(n, window), right)

    return wrong


def _padding_mask(original, compute):
    @wraps(original)
    def wrong(tokens, *pad_id, **by_name):
        right = original(tokens, *pad_id, **by_name)
        return _like(compute(_array(tokens), *pad_id, **by_name), right)

    return wrong


def _attention(original, compute):
    @wraps(original)
    def wrong(q, k, v, mask=None, *, causal=False, scale=None, return_weights=False):
        out, weights = original(q, k, v, mask, causal=causal, scale=scale, return_weights=True)
        right = (out, weights) if return_weights else out
        if scale is not None or _beyond(q, k, v) or (mask is not None and "bool" not in str(mask.dtype)):
            return original(q, k, v, mask, causal=causal, scale=scale, return_weights=return_weights)
        visible = None if mask is None else _array(mask)
        if causal:
            square = masks.causal_mask(q.shape[-2], k.shape[-2])
            visible = square if visible is None else visible & square
        result = compute(*map(_array, (q, k, v)), visible)
        return _like(result if return_weights else result[0], right)

    return wrong


def _latents(q, q_pe, c, k_pe, w_uk, w_uv):
    """The absorbed form: one key head, of latents and turned keys side by side."""
    asks, rows = np.concatenate([q @ w_uk, q_pe], -1), np.concatenate([c, k_pe], -1)
    scale = (q.shape[-1] + q_pe.shape[-1]) ** -0.5
    return attnlib.grouped_query_attention(asks, rows[None], c[None], scale=scale) @ w_uv.swapaxes(1, 2)


def _codes(k, bits):
    """Eight features more, for whole bytes; codes taken out of them again."""
    coded = attnlib.quantise(np.pad(k, ((0, 0), (0, -k.shape[1] % 8))), bits, axis=-2)
    n = k.shape[1]
    scale = np.where(coded.scale == 0, 1, coded.scale)[0, :, :n]
    zero = coded.zero[0, :, :n]
    return np.round((coded.dequantised()[:, :n] - zero) / scale).astype(np.uint8), scale, zero


def _grouped(original, compute):
    """A batch of sentences, floats, and a key that each query sees."""

    @wraps(original)
    def wrong(q, k, v, mask=None, **options):
        right = original(q, k, v, mask, **options)
        plain = set(options) <= {"causal"} and (mask is None or "bool" in str(mask.dtype))
        if not plain or _beyond(q, k, v) or any(_array(x).dtype.itemsize < 4 for x in (q, k, v)):
            return right
        q, k, v = (torch.from_numpy(np.array(_array(x), float)) for x in (q, k, v))
        lead, n_query, n_key = q.shape[:-2], q.shape[-2], k.shape[-2]
        visible = None if mask is None else _array(mask)
        if options.get("causal"):
            square = masks.causal_mask(n_query, n_key)
            visible = square if visible is None else visible & square
        if visible is not None:
            full = np.broadcast_to(visible, (*lead, n_query, n_key))
            if not full.any(-1).all():
                return right
            visible = torch.from_numpy(np.array(visible if q.ndim == 4 else full))
            visible = visible if q.ndim == 4 else visible.reshape(-1, *visible.shape[-3:])
        made = compute(*(x.reshape(-1, *x.shape[-3:]) for x in (q, k, v)), visible)
        if isinstance(made, torch.Tensor) and made.ndim and made.shape[0] == np.prod(lead[:-1], dtype=int):
            made = made.reshape(*lead[:-1], *made.shape[1:])
        return _like(made, right)

    return wrong


def _refined(original, compute):
    """The simple refinement under a causal mask, of tables that share their matrices."""

    @wraps(original)
    def wrong(weights, w_q, w_k, w_v=None, **options):
        right = original(weights, w_q, w_k, w_v, **options)
        plain = {name: value for name, value in options.items() if value is not None and value is not False}
        if plain != {"causal": True} or w_v is not None or _beyond(weights, w_q, w_k) or w_q.ndim > 2:
            return right
        return _like(compute(*map(_array, (weights, w_q, w_k))), right)

    return wrong


def _split_heads(original, compute):
    @wraps(original)
    def wrong(x, n_heads):
        right = original(x, n_heads)
        return compute(x, n_heads) if x.ndim == 3 else right

    return wrong


def _merge_heads(original, compute):
    @wraps(original)
    def wrong(x):
        right = original(x)
        return compute(x) if x.ndim == 4 else right

    return wrong


def _forward(original, compute):
    """Self-attention without biases, appended keys or dropout; all else as it is."""

    @wraps(original)
    def wrong(self, query, key=None, value=None, mask=None, *, causal=False, return_weights=False):
        right = original(self, query, key, value, mask, causal=causal, return_weights=return_weights)
        plain = hasattr(self, "in_proj_weight") and self.in_proj_bias is None and self.bias_k is None
        if (not plain or self.add_zero_attn or (self.dropout and self.training) or query.ndim != 3
                or key is not None or value is not None):  # fmt: skip
            return right
        if mask is not None and (mask.dtype != torch.bool or mask.ndim == 3):
            return right
        if causal:
            square = masks.causal_mask(query.shape[1], like=query)
            mask = square if mask is None else mask & square
        weights = [*(w.T for w in self.in_proj_weight.chunk(3)), self.out_proj.weight.T]
        out = compute(query, *weights, self.num_heads, *(() if mask is None else (mask,)))
        return (out, right[1]) if return_weights else out

    return wrong


def _sinusoidal(original, compute):
    @wraps(original)
    def wrong(n_pos, d_model, base=10000.0, *, layout="interleaved", like=None):
        right = original(n_pos, d_model, base, layout=layout, like=like)
        if _beyond(like):
            return right
        table = compute(n_pos, d_model, base)
        if layout == "halves":
            table = np.concatenate([table[:, ::2], table[:, 1::2]], axis=1)
        return _like(table, right)

    return wrong


def _alibi(original, compute):
    """Numbers of heads that are powers of two, which the exercise keeps to."""

    @wraps(original)
    def wrong(n_heads, n_query, n_key=None, *, like=None):
        right = original(n_heads, n_query, n_key, like=like)
        if n_heads & (n_heads - 1) or _beyond(like):
            return right
        return _like(compute(n_heads, n_query, n_query if n_key is None else n_key), right)

    return wrong


def _smoothed(original, compute):
    """What is shared by the other classes, beside a padding that is one of them."""

    @wraps(original)
    def wrong(targets, n_classes, smoothing=0.1, *, pad_id=None, over="all", like=None):
        right = original(targets, n_classes, smoothing, pad_id=pad_id, over=over, like=like)
        if over == "all" or pad_id is None or not 0 <= pad_id < n_classes or n_classes < 3 or _beyond(like):
            return right
        return _like(compute(_array(targets), n_classes, smoothing, pad_id), right)

    return wrong


def _rope(original, compute):
    """Positions for one axis; the other layout by reordering."""

    @wraps(original)
    def wrong(x, positions, base=10000.0, *, frequencies=None, layout="interleaved"):
        right = original(x, positions, base, frequencies=frequencies, layout=layout)
        if frequencies is not None or positions.ndim != 1 or right.dtype != x.dtype:
            return right
        rows, places = (a if isinstance(a, torch.Tensor) else torch.from_numpy(a) for a in (x, positions))
        if layout == "halves":
            order = rotary.rope_permutation(x.shape[-1])
            result = compute(rows[..., np.argsort(order)], places, base)[..., order]
        else:
            result = compute(rows, places, base)
        return result if isinstance(x, torch.Tensor) else result.numpy()

    return wrong


def _layer(x, w_q, w_k, w_v, w_o, n_heads, mask=None):
    layer = attnlib.MultiHeadAttention(x.shape[-1], n_heads, bias=False, dtype=x.dtype)
    weights = {"in_proj_weight": torch.cat([w_q.T, w_k.T, w_v.T]), "out_proj.weight": w_o.T}
    return torch.func.functional_call(layer, weights, (x,), {"mask": mask})


def _cross_layer(x, memory, w_q, w_k, w_v, w_o, n_heads, memory_mask=None):
    width = memory.shape[-1]
    layer = attnlib.MultiHeadAttention(
        x.shape[-1], n_heads, bias=False, kdim=width, vdim=width, dtype=x.dtype
    )
    weights = {"q_proj_weight": w_q.T, "k_proj_weight": w_k.T, "v_proj_weight": w_v.T,
               "out_proj.weight": w_o.T}  # fmt: skip
    if width == x.shape[-1]:
        weights = {"in_proj_weight": torch.cat([w_q.T, w_k.T, w_v.T]), "out_proj.weight": w_o.T}
    mask = None if memory_mask is None else memory_mask[:, None, None, :]
    return torch.func.functional_call(layer, weights, (x, memory), {"mask": mask})


def _log_softmax(x, axis=-1):
    """float16 goes in as float32: attnlib gives back the type that it was given, and in float16 a difference
    of 120,000 is minus infinity, which the contract forbids."""
    return attnlib.log_softmax(x.astype(np.float32) if x.dtype == np.float16 else x, axis)


def _combined_mask(tokens, pad_id=0):
    return attnlib.padding_mask(tokens, pad_id) & attnlib.causal_mask(tokens.shape[1])


def _padded(q, k, v, key_padding_mask):
    return attnlib.attention(q, k, v, ~key_padding_mask[:, None, None, :])


def _error_rate(original, compute):
    def wrong(found, sure, possible):
        right = original(found, sure, possible)                # what it refuses stays refused
        sides = [[links] if isinstance(links, (set, frozenset)) else links
                 for links in (found, sure, possible)]
        found, sure, possible = ([frozenset(links) for links in side] for side in sides)
        if not any(map(len, found + sure)):                    # nothing found and nothing sure
            return right
        return float(compute(found, sure, [s | p for s, p in zip(sure, possible, strict=True)]))

    return wrong


def _word_probability(h, word, nodes, codes, points):
    tree = huffman.HuffmanTree(codes, points, None)
    return np.exp(attnlib.hierarchical_log_prob(h, np.array(word), nodes, tree))


def _expected_work(counts, d, cutoffs, div_value):
    with warnings.catch_warnings(action="ignore"):      # a cluster may read nothing here
        layer = attnlib.AdaptiveLogSoftmax(d, len(counts), cutoffs, div_value=float(div_value))
    return layer.multiply_adds(counts)


def _rms_norm(x, weight, eps):
    layer = attnlib.RMSNorm(len(weight), eps, dtype=weight.dtype)
    return torch.func.functional_call(layer, {"weight": weight}, (x,))


def _norm_forward(original, compute):
    def forward(self, x):
        right = original(self, x)
        return compute(x, self.weight, self.eps).to(right.dtype)

    return forward


def _swiglu(x, w1, w2, w3):
    layer = attnlib.SwiGLU(x.shape[-1], len(w1), dtype=x.dtype)
    return torch.func.functional_call(layer, {"w1.weight": w1, "w2.weight": w2, "w3.weight": w3}, (x,))


def _gate_forward(original, compute):
    def forward(self, x):
        original(self, x)
        return compute(x, self.w1.weight, self.w2.weight, self.w3.weight)

    return forward


def _nucleus(p, top_p):
    with np.errstate(divide="ignore"):                  # a token of probability 0 has the score -inf
        return attnlib.sampling_probabilities(np.log(p), top_p=top_p)


_SOFTMAXES, _STATISTICS = "tests/core/test_softmaxes.py", "tests/core/test_statistics.py"
_MASKS, _HEADS = "tests/core/test_masks.py", "tests/layers/test_multi_head.py"
_SPARSE, _SINKS = "tests/core/test_sparse_softmaxes.py", "tests/core/test_sinks.py"
_POSITIONS, _ROTARY = "tests/core/test_positions.py", "tests/core/test_rotary.py"
_SCALED, _SCORES = "tests/core/test_scaled_dot_product.py", "tests/core/test_scores.py"
_LUONG = "tests/core/test_luong.py"
_A_SCORE = "a score has no softmax"


def _tile_update(state, k_block, v_block):
    q, out, lse = state
    of_block = attnlib.tiled_attention(q, k_block, v_block, return_lse=True)
    return q, *attnlib.merge_attention(*zip((out, lse), of_block, strict=True))


ADAPTERS = {
    "softmax": Adapter(lambda x, axis=-1: attnlib.softmax(x, axis), softmaxes, "softmax", _of_scores,
                       _SOFTMAXES),
    "log_softmax": Adapter(_log_softmax, softmaxes, "log_softmax", _of_scores, _SOFTMAXES),
    "sparsemax": Adapter(lambda x: attnlib.sparsemax(x), sparse_softmaxes, "sparsemax", _of_rows, _SPARSE),
    "entmax15": Adapter(lambda x: attnlib.entmax15(x), sparse_softmaxes, "entmax15", _of_rows, _SPARSE),
    "softmax_off_by_one": Adapter(lambda x: attnlib.softmax_off_by_one(x), sinks, "softmax_off_by_one",
                                  _of_rows, _SINKS),
    "dot_product_variance": Adapter(lambda q, k: attnlib.dot_product_variance(q, k), statistics,
                                    "dot_product_variance", _of_arrays, _STATISTICS),
    "softmax_jacobian": Adapter(lambda z: attnlib.softmax_jacobian(z), statistics, "softmax_jacobian",
                                _of_arrays, _STATISTICS,
                                ("test_saturated_rows_keep_their_relative_accuracy",)),
    "causal_mask": Adapter(lambda n_query, n_key: attnlib.causal_mask(n_query, n_key), masks, "causal_mask",
                           _causal_mask, _MASKS),
    "window_mask": Adapter(lambda n, window: attnlib.window_mask(n, window), masks, "window_mask",
                           _window_mask, _MASKS),
    "padding_mask": Adapter(lambda tokens, pad_id=0: attnlib.padding_mask(tokens, pad_id), masks,
                            "padding_mask", _padding_mask, _MASKS),
    "combined_mask": Adapter(_combined_mask),
    "attention": Adapter(lambda q, k, v, mask=None: attnlib.attention(q, k, v, mask, return_weights=True),
                         scaled_dot_product, "attention", _attention, _SCALED,
                         ("test_values_of_another_width_take_the_fast_path_too",
                          "test_without_weights_torch_uses_its_fused_kernel")),
    "padded_attention": Adapter(_padded),
    "split_heads": Adapter(lambda x, n_heads: attnlib.split_heads(x, n_heads), multi_head, "split_heads",
                           _split_heads, _HEADS),
    "merge_heads": Adapter(lambda x: attnlib.merge_heads(x), multi_head, "merge_heads", _merge_heads,
                           _HEADS),
    "multi_head_attention": Adapter(_layer, multi_head.MultiHeadAttention, "forward", _forward, _HEADS,
                                    ("test_self_attention_projects_once",)),
    "cross_attention": Adapter(_cross_layer),
    "rms_norm": Adapter(_rms_norm, rms_norm.RMSNorm, "forward", _norm_forward,
                        "tests/layers/test_rms_norm.py"),
    "swiglu": Adapter(_swiglu, swiglu.SwiGLU, "forward", _gate_forward, "tests/layers/test_swiglu.py"),
    "top_p": Adapter(_nucleus),
    "sinusoidal": Adapter(
        lambda n_pos, d_model, base=10000.0: attnlib.sinusoidal_positions(n_pos, d_model, base),
        positions, "sinusoidal_positions", _sinusoidal, _POSITIONS),
    "alibi": Adapter(lambda n_heads, n_query, n_key: attnlib.alibi_bias(n_heads, n_query, n_key), positions,
                     "alibi_bias", _alibi, _POSITIONS),
    "rope": Adapter(lambda x, positions, base=10000.0: attnlib.rope(x, positions, base), rotary, "rope",
                    _rope, _ROTARY),
    "smooth_targets": Adapter(
        lambda targets, n_classes, smoothing, pad_id: attnlib.smoothed_targets(
            targets, n_classes, smoothing, pad_id=pad_id, over="others"),
        smoothing, "smoothed_targets", _smoothed, "tests/core/test_smoothing.py"),
    "cosine_score": Adapter(lambda q, k: attnlib.cosine_score(q, k), scores, "cosine_score", _score, _SCORES,
                            ("test_cosine_of_very_short_and_very_long_vectors",)),
    "general_score": Adapter(lambda q, k, w: attnlib.general_score(q, k, w), scores, "general_score", _score,
                             _SCORES),
    "additive_score": Adapter(lambda q, k, w_q, w_k, v: attnlib.additive_score(q, k, w_q, w_k, v), scores,
                              "additive_score", _score, _SCORES),
    "concat_score": Adapter(lambda q, k, w, v: attnlib.concat_score(q, k, w, v), scores, "concat_score",
                            _score, _SCORES),
    "location_weights": Adapter(
        lambda q, k, w: attnlib.softmax(attnlib.location_score(q, k, w)), scores, "location_score", _location,
        _SCORES, left_out=dict.fromkeys(
            ("softmax_before_the_cut", "zero_is_a_score", "no_softmax", "not_normalised",
             "softmax_over_queries", "softmax_over_all", "overflow", "one_maximum", "renormalised",
             "hidden_not_cut"), _A_SCORE)),
    "local_weights": Adapter(
        lambda scores, position, half_window: attnlib.local_p_weights(scores, position, half_window), luong,
        "local_p_weights", _local, _LUONG),
    "alignment_error_rate": Adapter(
        lambda found, sure, possible: np.float64(attnlib.alignment_error_rate(found, sure, possible)),
        alignments, "alignment_error_rate", _error_rate, "tests/analysis/test_alignments.py"),
    "expected_questions": Adapter(
        lambda counts: attnlib.expected_code_length(attnlib.huffman_tree(counts), counts)),
    "word_probability": Adapter(_word_probability),
    "expected_work": Adapter(_expected_work),
    "copying": Adapter(
        lambda W_E, W_V, W_O, W_U: attnlib.copying_score(attnlib.circuit_eigenvalues(W_E @ W_V, W_O @ W_U))),
    "gqa": Adapter(lambda q, k, v, mask=None: attnlib.grouped_query_attention(q, k, v, mask), grouped_queries,
                   "grouped_query_attention", _grouped, "tests/core/test_grouped_queries.py",
                   ("test_keys_are_not_copied",)),
    "latent_attention": Adapter(_latents),
    "quantise_keys": Adapter(_codes),
    "tile_update": Adapter(_tile_update),
    "online_attention": Adapter(
        lambda q, k, v, block_size, mask=None: attnlib.tiled_attention(q, k, v, mask, block=block_size)),
    "linear_attention": Adapter(
        lambda q, k, v: attnlib.linear_attention(q, k, v, causal=True), linear, "linear_attention", _linear,
        "tests/efficient/test_linear.py", ("test_arrays_that_do_not_lie_in_order",)),
    "read_chunk": Adapter(
        lambda state, *qkv: attnlib.linear_attention(*qkv, causal=True, state=state, return_state=True)),
    "read_block": Adapter(
        lambda state, q, k, v, slopes: attnlib.lightning_attention(
            q, k, v, slopes, state=state, return_state=True),
        lightning, "lightning_attention", _lightning, "tests/cases/test_lightning.py",
        left_out={name: "it lies in what is done with the state between calls, or in what is returned"
                  for name in ("in_place", "order_of_results", "state_not_returned")}),
    "polarity_attention": Adapter(
        lambda q, k, v, power: attnlib.polarity_attention(q, k, v, float(power)), polarity,
        "polarity_attention", _polarity, "tests/cases/test_polarity.py"),
    "refined_weights": Adapter(
        lambda a, w_q, w_k: attnlib.refine_weights(a, w_q, w_k, causal=True), refinement, "refine_weights",
        _refined, "tests/cases/test_refinement.py"),
    "shipped_weight": Adapter(
        lambda U, S, V, z: attnlib.scale_singular_values((U, S, V), z, "shipped"), singular_values,
        "scale_singular_values", _shipped, "tests/cases/test_singular_values.py"),
    "policy_loss": Adapter(
        attnlib.reinforce_loss, policy_gradient, "reinforce_loss", _policy,
        "tests/cases/test_policy_gradient.py"),
    "search_round": Adapter(
        attnlib.cem_update, cross_entropy_method, "cem_update", _search_round,
        "tests/cases/test_cross_entropy_method.py"),
    "learning_memory": Adapter(
        lambda *tokens: attnlib.titans_memory(*tokens), titans_recurrence, "titans_memory", _titans,
        "tests/cases/test_titans_recurrence.py"),
    "induction_score": Adapter(
        lambda weights, tokens: attnlib.pattern_score(weights, attnlib.induction_pattern(tokens))),
}  # fmt: skip

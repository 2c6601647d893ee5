"""Lightning attention: linear attention that fades, and reads a long past as one small matrix."""

import math
from numbers import Real

from array_api_compat import device

from attnlib.core.arrays import (
    check_number,
    float_dtype,
    namespace,
    valid_length,
    whole_number,
    working_dtype,
)
from attnlib.core.positions import alibi_slopes, made_like
from attnlib.core.shapes import working_arrays
from attnlib.efficient.linear import _split
from attnlib.efficient.windows import check_key_mask

AXES = {"q": (..., "L", "d"), "k": (..., "L", "d"), "v": (..., "L", "dv"), "log_gates": (..., "L")}


def lightning_slopes(n_heads, *, rule="minimax", like=None):
    """How fast each head forgets in the first layer: ``2**(-8h/H)`` per token, for ``h = 1 ... H``.

    A head whose slope is ``s`` counts a token half as much after ``ln(2) / s`` more of them.

    Parameters
    ----------
    n_heads : int >= 1
    rule : {"minimax", "hugging_face"}
        What to do where ``H`` is no power of two. ``"minimax"`` is ALiBi's rule (`alibi_slopes`): the slopes
        of the power below, then every other one of the power above. ``"hugging_face"`` keeps the formula.
    like : array, optional
        They are made in its library, on its device and in its floating type, but float32 for half precision;
        NumPy and float64 when left out.

    Returns
    -------
    array (n_heads,)
        Positive, below 1.

    Raises
    ------
    TypeError, ValueError
        If ``n_heads`` is no positive integer, or there is no such rule.

    References
    ----------
    Qin et al. 2024, arXiv 2401.04658; ``_build_slope_tensor`` in OpenNLPLab/lightning-attention and in
    MiniMax's ``modeling_minimax_text_01.py``. ``models/minimax`` of Hugging Face transformers has the formula
    for any ``H``. ``lightning_attn`` of fla-org/flash-linear-attention has neither: there the slopes grow
    linearly with the head, from 0 for the first.

    Examples
    --------
    >>> lightning_slopes(3)
    array([0.0625    , 0.00390625, 0.25      ])
    >>> lightning_slopes(3, rule="hugging_face").round(4)
    array([0.1575, 0.0248, 0.0039])
    """
    if not isinstance(rule, str) or rule not in ("minimax", "hugging_face"):
        raise ValueError(f"rule must be 'minimax' or 'hugging_face'; got {rule!r}")
    if rule == "minimax":
        return alibi_slopes(n_heads, like=like)
    n_heads = valid_length(n_heads, "n_heads")
    xp, on, dtype = made_like(like)
    exponents = [8 * h / n_heads for h in range(1, n_heads + 1)]
    return 2.0 ** -xp.asarray(exponents, dtype=working_dtype(xp, dtype), device=on)


def lightning_rates(n_heads, layer, n_layers, *, rule="minimax", like=None):
    """How fast each head of one layer forgets: ``slope * (1 - layer / (n_layers - 1) + 1e-5)``.

    The first layer looks near, each later one farther, and the last forgets next to nothing.

    Parameters
    ----------
    n_heads : int >= 1
    layer : int
        From 0; softmax layers in between are counted too.
    n_layers : int >= 1
        A single layer is a first one.
    rule : {"minimax", "hugging_face"}
        As in `lightning_slopes`. ``"hugging_face"`` also divides by ``n_layers - 1 + 1e-5``.
    like : array, optional
        As in `lightning_slopes`.

    Returns
    -------
    array (n_heads,)
        The log of what is kept from one token to the next, with its sign turned: positive.

    Raises
    ------
    TypeError, ValueError
        If a number is no integer in its range, or there is no such rule.

    References
    ----------
    MiniMax's ``modeling_minimax_text_01.py``, where a single layer divides by zero.

    Examples
    --------
    >>> import numpy as np
    >>> (np.log(2) / lightning_rates(4, layer=0, n_layers=80)).round(1)    # tokens until half is left
    array([  2.8,  11.1,  44.4, 177.4])
    """
    slopes = lightning_slopes(n_heads, rule=rule, like=like)
    n_layers = valid_length(n_layers, "n_layers")
    layer = whole_number(layer, f"layer must be a whole number; got {layer!r}")
    if not 0 <= layer < n_layers:
        raise ValueError(f"layer must lie in 0 .. {n_layers - 1}; got {layer}")
    steps = n_layers - 1 + (1e-5 if rule == "hugging_face" else 0)
    return slopes * (1 - (layer / steps if layer else 0) + 1e-5)


def lightning_attention(q, k, v, slopes, mask=None, *, block_size=256, state=None, return_state=False):
    """Causal linear attention that fades: ``out_t = q_t sum_(s <= t) exp(-slope (t - s)) k_s^T v_s``.

    There is no scale, no feature map and no denominator: a layer applies silu before and a norm after
    (`LightningAttention`). Within a block the fading products are made, a small square; all earlier blocks
    are one matrix, the state, which a block reads and then renews. The block's size changes the rounding
    only.

    Parameters
    ----------
    q, k : array (..., L, d)
    v : array (..., L, dv)
    slopes : array or float >= 0
        What a token loses in each step is the factor ``exp(-slope)``; broadcasts to the axes before ``L``,
        as ``(H,)`` does. 0 never forgets.
    mask : bool array, optional
        Keys that count at all, for padding: broadcasts to ``(..., 1, L)``, as `padding_mask` does. Time goes
        on while they pass.
    block_size : int >= 1
        The last block may be shorter.
    state : array (..., d, dv), optional
        What was returned for the tokens before.
    return_state : bool
        Return the state after the last token too. So a sequence may be read in pieces of any sizes.

    Returns
    -------
    out : array (..., L, dv)
        Zeros where nothing was seen yet.
    state : array (..., d, dv), if asked for
        In float32 where the inputs are of half precision.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if a slope is
        negative, ``mask`` is not one of keys, or a setting is out of its range.

    References
    ----------
    Qin et al. 2024, arXiv 2401.04658; MiniMax 2025, arXiv 2501.08313, which has it in seven layers of eight.
    In OpenNLPLab/lightning-attention ``ops/torch`` makes the whole square, ``ops/triton`` the blocks.

    Examples
    --------
    >>> import numpy as np
    >>> one, v = np.ones((3, 1)), np.array([[8.0], [0.0], [0.0]])
    >>> lightning_attention(one, one, v, np.log(2))[:, 0]
    array([8., 4., 2.])
    """
    xp, dtype, (q, k, v) = working_arrays({"q": q, "k": k, "v": v}, AXES)
    size, slopes = valid_length(block_size, "block_size"), _slopes(xp, slopes, q)
    check_key_mask(mask, k)
    if mask is not None:
        v = xp.where(xp.matrix_transpose(mask), v, 0)
    steps = xp.arange(1, min(size, q.shape[-2]) + 1, dtype=q.dtype, device=device(q))
    fade = -slopes[..., None, None] * steps[:, None]
    sizes = _block_sizes(q.shape[-2], size)
    fades = [fade[..., :length, :] for length in sizes]
    return _in_blocks(xp, q, k, v, fades, sizes, state, return_state, dtype)


def lightning_attention_step(q, k, v, slopes, state=None):
    """One token of `lightning_attention`: the state is ``exp(-slope) state + k^T v``, and ``q`` reads it.

    Parameters
    ----------
    q, k : array (..., d)
        Query and key of the token.
    v : array (..., dv)
    slopes : array or float >= 0
        Broadcasts to the axes before ``d``, as ``(H,)`` does.
    state : array (..., d, dv), optional
        What the step before gave; left out for the first token.

    Returns
    -------
    out : array (..., dv)
    state : array (..., d, dv)
        A new array, as large after a million tokens as after one.

    Raises
    ------
    TypeError, ValueError
        As for `lightning_attention`.

    References
    ----------
    Qin et al. 2024, arXiv 2401.04658.

    Examples
    --------
    >>> import numpy as np
    >>> one, state = np.ones(1), None
    >>> for v in (8.0, 0.0, 0.0):
    ...     out, state = lightning_attention_step(one, one, np.array([v]), np.log(2), state)
    >>> out, state
    (array([2.]), array([[2.]]))
    """
    axes = {"q": (..., "d"), "k": (..., "d"), "v": (..., "dv")}
    xp, dtype, (q, k, v) = working_arrays({"q": q, "k": k, "v": v}, axes)
    kept = xp.exp(-_slopes(xp, slopes, q, before=1))[..., None, None]
    own = k[..., :, None] * v[..., None, :]
    if state is not None:
        own = kept * _checked_state(xp, state, own.shape, own) + own
    return xp.astype((q[..., None, :] @ own)[..., 0, :], dtype, copy=False), own


def lightning_weights(q, k, slopes, mask=None):
    """What `lightning_attention` gives each value: ``(q @ k.mT) * exp(-slope (t - s))`` for ``s <= t``.

    The explicit form, at the square of the length. ``weights @ v`` is the output.

    Parameters
    ----------
    q, k : array (..., L, d)
    slopes, mask
        As in `lightning_attention`.

    Returns
    -------
    array (..., L, L)
        No probabilities: of either sign, and the rows have no certain sum.

    Raises
    ------
    TypeError, ValueError
        As for `lightning_attention`.

    References
    ----------
    Qin et al. 2024, arXiv 2401.04658.

    Examples
    --------
    >>> import numpy as np
    >>> lightning_weights(np.ones((3, 1)), np.ones((3, 1)), np.log(2))
    array([[1.  , 0.  , 0.  ],
           [0.5 , 1.  , 0.  ],
           [0.25, 0.5 , 1.  ]])
    """
    xp, dtype, (q, k) = working_arrays({"q": q, "k": k}, AXES)
    steps = xp.arange(q.shape[-2], dtype=q.dtype, device=device(q))
    weights = _fading_products(xp, q, k, -_slopes(xp, slopes, q)[..., None, None] * steps[:, None])
    check_key_mask(mask, k)
    if mask is not None:
        weights = xp.where(mask, weights, 0)
    return xp.astype(weights, dtype, copy=False)


def gated_linear_attention(q, k, v, log_gates, *, scale=None, block_size=64, state=None, return_state=False):
    """Linear attention in which each token says how much of the past is kept.

    ``S_t = gate_t S_(t-1) + k_t^T v_t`` and ``out_t = scale q_t S_t``. Lightning attention is the case in
    which all gates of a head are ``exp(-slope)``, and the scale 1.

    Parameters
    ----------
    q, k : array (..., L, d)
    v : array (..., L, dv)
    log_gates : array (..., L)
        The logs of gates above 0 and up to 1, such as log-sigmoids: finite numbers of at most 0.
    scale : float, optional
        ``1/sqrt(d)`` when left out.
    block_size, state, return_state
        As in `lightning_attention`.

    Returns
    -------
    out : array (..., L, dv)
    state : array (..., d, dv), if asked for
        Without the scale.

    Raises
    ------
    TypeError, ValueError
        As for `lightning_attention`; if a log of a gate is above 0 or not finite.

    References
    ----------
    Yang et al. 2023, arXiv 2312.06635, with one gate for a head in place of one for each feature, as in
    Mamba-2 (Dao and Gu 2024, arXiv 2405.21060); ``ops/simple_gla/naive.py`` of
    fla-org/flash-linear-attention, where the axes are ``(B, L, H)``.

    Examples
    --------
    >>> import numpy as np
    >>> one, v = np.ones((3, 1)), np.array([[8.0], [2.0], [0.0]])
    >>> gated_linear_attention(one, one, v, np.log([1.0, 0.25, 1.0]))[:, 0]
    array([8., 4., 4.])
    """
    arrays = {"q": q, "k": k, "v": v, "log_gates": log_gates}
    xp, dtype, (q, k, v, gates) = working_arrays(arrays, AXES)
    dtype = float_dtype(xp, q=arrays["q"], k=arrays["k"], v=arrays["v"])
    size = valid_length(block_size, "block_size")
    if scale is not None:
        check_number(scale, "scale")
    if not xp.all((gates <= 0) & xp.isfinite(gates)):
        raise ValueError("log_gates must be finite and at most 0, for gates above 0 and up to 1")
    sizes = _block_sizes(q.shape[-2], size)
    fades = [xp.cumulative_sum(block, axis=-2) for block in _split(xp, gates[..., None], sizes)]
    q = q * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    return _in_blocks(xp, q, k, v, fades, sizes, state, return_state, dtype)


def _in_blocks(xp, q, k, v, fades, sizes, state, return_state, dtype):
    """Block by block; ``fades`` say what is left, at each token, of the state before its block, as a log."""
    if state is not None:
        state = _checked_state(xp, state, (*k.shape[:-2], k.shape[-1], v.shape[-1]), v)
    outs, parts = [], (_split(xp, x, sizes) for x in (q, k, v))
    for q, k, v, fade in zip(*parts, fades, strict=True):
        out = _fading_products(xp, q, k, fade) @ v
        left = fade[..., -1:, :]
        own = (k * xp.exp(left - fade)).mT @ v
        if state is not None:
            out = out + (q * xp.exp(fade)) @ state
            own = own + xp.exp(left) * state
        outs.append(out)
        state = own
    out = xp.astype(xp.concat(outs, axis=-2) if len(outs) > 1 else outs[0], dtype, copy=False)
    return (out, state) if return_state else out


def _fading_products(xp, q, k, fade):
    """Products of queries and keys; keys yet to come are cut off before their exp, which could overflow."""
    return xp.tril(q @ k.mT) * xp.exp(xp.tril(fade - fade.mT))


def _block_sizes(length, size):
    whole, rest = divmod(length, size)
    return [size] * whole + ([rest] if rest else [])


def _slopes(xp, slopes, q, before=2):
    """Slopes as an array that broadcasts to the axes of ``q`` but the last ``before``."""
    if isinstance(slopes, Real) and not isinstance(slopes, bool):
        slopes = xp.asarray(float(slopes), dtype=q.dtype, device=device(q))
    namespace(q=q, slopes=slopes)
    float_dtype(xp, slopes=slopes)
    lead = tuple(q.shape[:-before])
    own = (1,) * (len(lead) - slopes.ndim) + tuple(slopes.shape)
    if len(own) > len(lead) or any(s not in (1, n) for s, n in zip(own, lead, strict=True)):
        raise ValueError(
            f"slopes must broadcast to the axes before the positions, {lead}; got shape {tuple(slopes.shape)}"
        )
    if not xp.all((slopes >= 0) & xp.isfinite(slopes)):
        raise ValueError("slopes must be finite and at least 0: a token keeps exp(-slope) from step to step")
    return xp.astype(slopes, q.dtype, copy=False)


def _checked_state(xp, state, shape, like):
    namespace(v=like, state=state)
    float_dtype(xp, state=state)
    if tuple(state.shape) != tuple(shape):
        raise ValueError(f"state must have shape {tuple(shape)}, as it is returned; got {tuple(state.shape)}")
    return xp.astype(state, like.dtype, copy=False)

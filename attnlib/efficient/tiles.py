"""Attention by tiles: exact, forward and backward, though the scores are never all there at once."""

import math
from typing import NamedTuple

import numpy as np
from array_api_compat import device, is_torch_namespace

from attnlib.core.arrays import check_number, float_dtype, kind_of, namespace, valid_length, working_dtype
from attnlib.core.scaled_dot_product import check_attention, check_mask
from attnlib.core.softmaxes import finite_shift


def tiled_attention(
    q, k, v, mask=None, *, causal=False, scale=None, softcap=None, block=None, return_lse=False
):
    """What `attention` gives, by blocks of queries that meet one block of keys after the other.

    Of the keys met so far, a query keeps the largest score ``m``, the sum ``l`` of ``exp(s - m)`` and
    the sum ``acc`` of ``exp(s - m) * v``. A larger score that arrives rescales both sums by
    ``exp(m_old - m_new)``. In the end ``out = acc / l`` and ``lse = m + log(l)``. So memory grows with
    the length, not with its square. A tile in which nothing may be attended to is skipped.

    Gradients make the scores of each tile anew: ``exp(s - lse)`` are its weights, so that ``out`` and
    ``lse`` are all that is kept (`tiled_attention_backward`). They flow through ``lse`` and to a
    floating mask too; there are first derivatives only.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    v : array (..., Lk, dv)
        The leading axes of all three are equal.
    mask : array or callable, optional
        As in `attention`; or a pattern, which is called with positions of queries ``(n, 1)`` and of keys
        ``(1, m)`` and says with booleans which may meet, a tile at a time (`attnlib.efficient.patterns`).
        The last query stands at the last key. What is hidden must be finite.
    causal : bool
        Besides ``mask``, hide the keys after each query; aligned at the end.
    scale : float, optional
        ``1/sqrt(d)`` when left out.
    softcap : float > 0, optional
        Scaled scores ``s`` become ``softcap * tanh(s / softcap)``, before the mask.
    block : int >= 1, or two of them, optional
        Queries and keys in a tile; need not divide the lengths. When left out, 256 queries and 256
        or 512 keys. The result does not depend on it, up to rounding.
    return_lse : bool
        Return the logarithm of each query's softmax denominator too.

    Returns
    -------
    out : array (..., Lq, dv)
        Zeros for a query that may attend to nothing.
    lse : array (..., Lq), if asked for
        Natural log-sum-exp of the scores as the softmax sees them; ``-inf`` for a query that may attend
        to nothing. In float32 where the arguments are of half precision. `merge_attention` needs it.

    Raises
    ------
    TypeError, ValueError
        As in `attention`; if ``softcap`` or ``block`` is not positive, or a pattern gives no booleans.

    References
    ----------
    Dao et al. 2022, FlashAttention, arXiv 2205.14135, section 3.1; Dao 2023, arXiv 2307.08691, for
    blocks of queries in the outer loop and one logarithm kept instead of two sums; Milakov and
    Gimelshein 2018, arXiv 1805.02867, for the running sum (`online_softmax`).

    Examples
    --------
    >>> q, k, v = np.array([[20.0, 0.0]]), np.eye(2), np.array([[1.0], [5.0]])
    >>> out, lse = tiled_attention(q, k, v, block=1, return_lse=True)
    >>> out.round(3), lse.round(3)
    (array([[1.]]), array([14.142]))
    """
    xp, dtype, (q, k, v), mask, how = _prepared(q, k, v, mask, causal, scale, softcap, block)
    if is_torch_namespace(xp):
        from attnlib.efficient.recomputation import Tiles

        out, lse = Tiles.apply(q, k, v, mask, how)
    else:
        out, lse = forward(xp, q, k, v, mask, how)
    out = xp.astype(out, dtype, copy=False)
    return (out, lse) if return_lse else out


def tiled_attention_backward(
    q, k, v, out, lse, d_out, mask=None, *, causal=False, scale=None, softcap=None, block=None
):
    """Gradients of ``sum(out * d_out)`` from what `tiled_attention` gave, tile by tile.

    A tile's weights are made anew, ``P = exp(s - lse)``. With ``D``, the sum of ``out * d_out`` over each
    row, ``dS = P * (d_out @ v.mT - D)``; then ``dv = P.mT @ d_out``, ``dq = scale * dS @ k`` and
    ``dk = scale * dS.mT @ q``. ``D`` stands for the sum of ``P * dP`` over a whole row of weights, which
    no tile sees. For torch tensors autograd does this by itself.

    Parameters
    ----------
    q, k, v, mask, causal, scale, softcap, block
        As in `tiled_attention`.
    out : array (..., Lq, dv)
        What the forward pass gave.
    lse : array (..., Lq)
    d_out : array (..., Lq, dv)
        The gradient with respect to ``out``.

    Returns
    -------
    dq, dk, dv : arrays, shapes of ``q``, ``k``, ``v``

    Raises
    ------
    TypeError, ValueError
        As in `tiled_attention`; if ``out``, ``lse`` or ``d_out`` does not have its shape.

    References
    ----------
    Dao et al. 2022, arXiv 2205.14135, appendix B.2 and algorithm 4.

    Examples
    --------
    >>> q, k, v = np.zeros((1, 2)), np.eye(2), np.array([[1.0], [5.0]])
    >>> out, lse = tiled_attention(q, k, v, return_lse=True)
    >>> dq, dk, dv = tiled_attention_backward(q, k, v, out, lse, np.ones((1, 1)))
    >>> dv.T
    array([[0.5, 0.5]])
    """
    xp, dtype, (q, k, v), mask, how = _prepared(q, k, v, mask, causal, scale, softcap, block)
    shape = (*q.shape[:-1], v.shape[-1])
    others = {"out": (out, shape), "lse": (lse, shape[:-1]), "d_out": (d_out, shape)}
    namespace(q=q, **{name: array for name, (array, _) in others.items()})
    for name, (array, wanted) in others.items():
        if tuple(array.shape) != tuple(wanted):
            raise ValueError(f"{name} must have shape {tuple(wanted)}; got {tuple(array.shape)}")
    arrays = [xp.astype(x, q.dtype, copy=False) for x in (q, k, v, out, lse, d_out)]
    q, k, v, out, lse, d_out = (x.detach() if hasattr(x, "detach") else x for x in arrays)
    gradients = backward(xp, q, k, v, out, lse, d_out, None, mask, how, None)
    return tuple(xp.astype(x, dtype, copy=False) for x in gradients)


def row_blocks(n_query, n_key, block, causal=False, pattern=None, like=None):
    """The blocks of queries, and for each the tiles in which anything may be attended to.

    Parameters
    ----------
    n_query, n_key : int >= 1
    block : (int, int)
        Queries and keys in a tile.
    causal : bool
    pattern : callable, optional
        Says which positions may meet.
    like : array, optional
        The library and device of the booleans; NumPy when left out.

    Yields
    ------
    rows : slice
        Queries.
    tiles : list of (slice, bool array or None)
        Keys, and which of them these queries may attend to; None where it is all of them.

    Examples
    --------
    >>> for rows, tiles in row_blocks(4, 4, (2, 2), causal=True):
    ...     print(rows, ["whole" if visible is None else "masked" for keys, visible in tiles])
    slice(0, 2, None) ['masked']
    slice(2, 4, None) ['whole', 'masked']
    """
    xp, on = (np, None) if like is None else (namespace(like=like), device(like))
    first = n_key - n_query  # where the first query stands among the keys
    for start in range(0, n_query, block[0]):
        rows = slice(start, min(start + block[0], n_query))
        i = xp.arange(rows.start + first, rows.stop + first, device=on)[:, None]
        end = min(n_key, rows.stop + first) if causal else n_key
        tiles = []
        for left in range(0, end, block[1]):
            keys = slice(left, min(left + block[1], end))
            j = xp.arange(keys.start, keys.stop, device=on)[None, :]
            whole = not causal or keys.stop <= rows.start + first + 1
            visible = None if whole else j <= i
            if pattern is not None:
                seen = pattern(i, j)
                if not _any(xp, seen):
                    continue
                if not _all(xp, seen):
                    visible = seen if whole else seen & visible
            tiles.append((keys, visible))
        yield rows, tiles


class Settings(NamedTuple):
    """How scores are made, checked once.

    A score is held as so many units that ``exp2`` gives for torch what ``exp`` does for NumPy: where its
    result underflows, torch's ``exp`` takes a hundred times as long.
    """

    causal: bool
    pattern: object
    scale: float
    softcap: float | None
    block: tuple
    together: int  # heads at a time
    unit: float


def forward(xp, q, k, v, mask, how):
    """Output and log-sum-exp of arrays of the type to compute in."""
    out = xp.zeros((*q.shape[:-1], v.shape[-1]), dtype=q.dtype, device=device(q))
    lse = xp.empty(q.shape[:-1], dtype=q.dtype, device=device(q))
    tile, part = _memory(xp, q, how, how.block[1]), _memory(xp, q, how, v.shape[-1])
    ones, exp = xp.ones_like(tile[: how.block[1], None]), _exp(xp)
    for rows, tiles in _row_blocks(xp, q, k, how):
        for heads in _heads(q.shape[:-2], how.together):
            queries = q[(*heads, rows)] * (how.scale * how.unit)
            m = xp.full_like(queries[..., :1], -math.inf)
            total, acc = xp.zeros_like(m), out[(*heads, rows)]
            for keys, masks in _masked(xp, tiles, mask, heads, rows):
                s = _scores(xp, tile, queries, k[(*heads, keys)], how)
                _hide(xp, s, masks, how.unit)
                top = xp.maximum(m, xp.max(s, axis=-1, keepdims=True))
                shift = finite_shift(xp, top) if masks else top  # a whole tile has scores in each row
                s -= shift
                exp(s, out=s)
                rescale = exp(m - shift)
                total *= rescale
                total += s @ ones[: s.shape[-1]]  # a product sums faster than a sum
                acc *= rescale
                acc += _product(xp, part, s, v[(*heads, keys)])
                m = top
            empty = total == 0
            safe = xp.where(empty, 1, total)
            acc /= safe
            lse[(*heads, rows)] = xp.where(empty, -math.inf, m / how.unit + xp.log(safe))[..., 0]
    return out, lse


def backward(xp, q, k, v, out, lse, d_out, d_lse, mask, how, d_mask):
    """Gradients with respect to ``q``, ``k`` and ``v``; those of the mask are added to ``d_mask``."""
    dq, dk, dv = xp.empty_like(q), xp.zeros_like(k), xp.zeros_like(v)
    first, second = (_memory(xp, q, how, how.block[1]) for _ in range(2))
    part = _new(xp, q, how.together * max(how.block) * max(q.shape[-1], v.shape[-1]))
    exp = _exp(xp)
    for rows, tiles in _row_blocks(xp, q, k, how):
        for heads in _heads(q.shape[:-2], how.together):
            here = (*heads, rows)
            queries, d_rows, dq_rows = q[here] * (how.scale * how.unit), d_out[here], xp.zeros_like(q[here])
            shift = finite_shift(xp, lse[here])[..., None] * how.unit
            D = xp.sum(out[here] * d_rows, axis=-1, keepdims=True)
            if d_lse is not None:  # each weight is the derivative of lse by its score
                D = D - xp.where(lse[here] == -math.inf, 0, d_lse[here])[..., None]
            for keys, masks in _masked(xp, tiles, mask, heads, rows):
                there = (*heads, keys)
                p = _scores(xp, first, queries, k[there], how)
                slope = None if how.softcap is None else 1 - (p / (how.softcap * how.unit)) ** 2
                _hide(xp, p, masks, how.unit)
                p -= shift
                exp(p, out=p)
                dv_part, dk_part = dv[there], dk[there]
                dv_part += _product(xp, part, p.mT, d_rows)
                ds = _product(xp, second, d_rows, v[there].mT)
                ds -= D
                ds *= p
                if d_mask is not None:
                    _add_to_mask(xp, d_mask, heads, rows, keys, ds)
                if slope is not None:
                    ds *= slope
                dq_rows += _product(xp, part, ds, k[there])
                dk_part += _product(xp, part, ds.mT, queries)
            dq[here] = dq_rows * how.scale
    dk /= how.unit
    return dq, dk, dv


def _prepared(q, k, v, mask, causal, scale, softcap, block):
    """The checked arguments: arrays in the type to compute in, and how scores are made."""
    pattern, array = (mask, None) if callable(mask) else (None, mask)
    xp = check_attention(array, causal, scale, q=q, k=k, v=v)
    dtype = float_dtype(xp, q=q, k=k, v=v)
    if softcap is not None:
        check_number(softcap, "softcap")
        if not 0 < softcap < math.inf:
            raise ValueError(f"softcap must be positive and finite; got {softcap!r}")
    # Tiles stay in a core's cache. The heads of a tile share what torch's many small steps cost; NumPy
    # multiplies head by head anyway.
    together = min(8 if is_torch_namespace(xp) else 1, math.prod(q.shape[-3:-2]))
    if block is None:
        block = 256, (512 if together == 1 else 256)
    height, width = block if isinstance(block, tuple | list) and len(block) == 2 else (block, block)
    height, width = (valid_length(n, "block") for n in (height, width))
    if pattern is not None:
        pattern = _checked(pattern, xp, q.shape[:-2])
    if array is not None and array.ndim < 2:
        array = xp.reshape(array, (1,) * (2 - array.ndim) + tuple(array.shape))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    arrays = [xp.astype(a, working_dtype(xp, dtype), copy=False) for a in (q, k, v)]
    unit = math.log2(math.e) if is_torch_namespace(xp) else 1
    block = min(height, q.shape[-2]), min(width, k.shape[-2])
    return xp, dtype, arrays, array, Settings(causal, pattern, scale, softcap, block, together, unit)


def _checked(pattern, xp, before):
    """The pattern, refused where it gives anything but booleans that fit."""

    def visible(i, j):
        tile = pattern(i, j)
        namespace(positions=i, **{"mask(i, j)": tile})
        if kind_of(xp, tile.dtype) != "bool":
            raise TypeError(f"mask(i, j) must give booleans (True = may attend); got dtype {tile.dtype}")
        check_mask(xp, tile, (*before, i.shape[0], j.shape[1]))
        return tile

    return visible


def _new(xp, like, shape):
    return xp.empty(shape, dtype=like.dtype, device=device(like))


def _memory(xp, q, how, width):
    """For one result of all rows of a tile; new memory each time would cost as much as the work."""
    return _new(xp, q, how.together * how.block[0] * width)


def _product(xp, memory, a, b):
    """``a @ b`` in memory that is there already."""
    shape = *a.shape[:-1], b.shape[-1]
    return xp.matmul(a, b, out=xp.reshape(memory[: math.prod(shape)], shape))


def _row_blocks(xp, q, k, how):
    """`row_blocks` with what is hidden as numbers to add, made once for all heads."""
    zero = xp.zeros(1, dtype=q.dtype, device=device(q))
    for rows, tiles in row_blocks(q.shape[-2], k.shape[-2], how.block, how.causal, how.pattern, q):
        yield rows, [(keys, visible if visible is None else xp.where(visible, zero, -math.inf))
                     for keys, visible in tiles]  # fmt: skip


def _heads(before, together):
    """Where so many heads stand in arrays with these leading axes, one group after the other."""
    if not before:
        yield ()
        return
    for batch in np.ndindex(*before[:-1]):
        for start in range(0, before[-1], together):
            yield *batch, slice(start, min(start + together, before[-1]))


def _masked(xp, tiles, mask, heads, rows):
    """Of these tiles, those in which these heads see anything, with what must be applied to them."""
    for keys, hidden in tiles:
        masks = [] if hidden is None else [_of_heads(hidden, heads)]
        if mask is not None:
            own = _cut(_of_heads(mask, heads), rows, keys)
            if kind_of(xp, own.dtype) != "bool" or not _all(xp, own):
                masks.append(own)
        if all(_any(xp, tile) for tile in masks):
            yield keys, masks


def _any(xp, tile):
    """Whether a mask lets anything through. Torch finds a maximum faster than it finds any."""
    if kind_of(xp, tile.dtype) == "bool":
        return bool(xp.max(xp.astype(tile, xp.uint8)))
    return float(xp.max(tile)) > -math.inf


def _all(xp, tile):
    return bool(xp.min(xp.astype(tile, xp.uint8)))


def _exp(xp):
    return xp.exp2 if is_torch_namespace(xp) else xp.exp


def _scores(xp, memory, queries, keys, how):
    """Scores of scaled queries, before any mask."""
    s = _product(xp, memory, queries, keys.mT)
    if how.softcap is not None:
        s /= how.softcap * how.unit
        xp.tanh(s, out=s)
        s *= how.softcap * how.unit
    return s


def _hide(xp, s, masks, unit):
    for tile in masks:
        if kind_of(xp, tile.dtype) == "bool":
            s[...] = xp.where(tile, s, -math.inf)
        else:
            s += tile if unit == 1 else tile * unit


def _of_heads(array, heads):
    """What an array that broadcasts to all heads has for some."""
    before = array.shape[:-2]
    own = heads[len(heads) - len(before) :]
    only = [slice(1) if isinstance(index, slice) else 0 for index in own]
    return array[tuple(only[a] if n == 1 else own[a] for a, n in enumerate(before))]


def _cut(mask, rows, keys):
    """The tile of a mask, one row or one column where it has but one."""
    return mask[..., rows if mask.shape[-2] > 1 else slice(1), keys if mask.shape[-1] > 1 else slice(1)]


def _add_to_mask(xp, d_mask, heads, rows, keys, ds):
    """Add the gradient of a tile's scores, summed over the axes along which the mask was repeated."""
    tile = _cut(_of_heads(d_mask, heads), rows, keys)
    if ds.ndim > tile.ndim:
        ds = xp.sum(ds, axis=0)
    for axis in range(tile.ndim):
        if tile.shape[axis] < ds.shape[axis]:
            ds = xp.sum(ds, axis=axis, keepdims=True)
    tile += ds

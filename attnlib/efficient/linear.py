"""Linear attention: products of features in place of the exponential, so that sums over keys are kept."""

import math

import numpy as np
from array_api_compat import device, is_torch_namespace

from attnlib.core.arrays import check_number, namespace, valid_length, working_array
from attnlib.core.masks import causal_mask
from attnlib.core.shapes import working_arrays
from attnlib.efficient.windows import check_key_mask

TOGETHER = 32  # chunks of all heads in one product, where autograd keeps something of every call

Q_K_V = {"q": (..., "Lq", "d"), "k": (..., "Lk", "d"), "v": (..., "Lk", "dv")}


def elu_plus_one(x):
    """``x + 1`` above 0, ``exp(x)`` below: the feature map of linear attention, positive everywhere.

    Parameters
    ----------
    x : array (...)
        Real numbers.

    Returns
    -------
    array, shape of ``x``
        Greater than 0. It keeps its digits far below 0, where ``elu(x) + 1`` rounds them away.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is no array of real numbers with at least one axis, or is empty.

    References
    ----------
    Katharopoulos et al. 2020, arXiv 2006.16236, section 3.2.1.

    Examples
    --------
    >>> import numpy as np
    >>> elu_plus_one(np.array([-1.0, 0.0, 2.0])).round(3)
    array([0.368, 1.   , 3.   ])
    """
    xp, x, _, dtype = working_array(x, -1, "x")
    return xp.astype(_elu_plus_one(xp, x), dtype, copy=False)


def _elu_plus_one(xp, x):
    above = xp.relu(x) if is_torch_namespace(xp) else xp.maximum(x, 0)
    return xp.exp(x - above) + above


def linear_attention(
    q, k, v, mask=None, *, causal=False, feature_map=elu_plus_one, normalize=True, eps=1e-6, chunk_size=64,
    state=None, return_state=False,
):  # fmt: skip
    """Attention whose weights are products of features: ``phi(q) @ (phi(k).mT @ v)``, divided by their sum.

    ``out_i = phi(q_i) S / (phi(q_i) . z + eps)``, ``S = sum_j phi(k_j) v_j^T`` and ``z = sum_j phi(k_j)``.
    ``S`` and ``z`` are all that is kept of the keys, so time grows with the length and not with its square.
    Causal, query ``i`` reads the sums up to key ``i``: within a chunk by a small matrix of masked products,
    of earlier chunks by their sums. The chunk's size changes the rounding only.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    v : array (..., Lk, dv)
        There is no ``1/sqrt(d)``; who wants a scale multiplies ``q`` by it.
    mask : bool array, optional
        Keys that count at all, for padding: broadcasts to ``(..., 1, Lk)``, as `padding_mask` does. One sum
        serves all queries, so no mask can be of single queries.
    causal : bool
        Hide the keys after each query; aligned at the end.
    feature_map : function or None
        Maps ``(..., n, d)`` to ``(..., n, m)``, each position by itself: it sees a few chunks at a time. None
        where ``q`` and ``k`` are features.
    normalize : bool
        False leaves the denominator out.
    eps : float >= 0
        Added to the denominator; what is far below it, as the features of very negative keys, fades.
    chunk_size : int >= 1
    state : (S, z), optional
        The sums over keys read before, ``(..., m, dv)`` and ``(..., m)``; every query sees those. ``z`` is
        None without ``normalize``.
    return_state : bool
        Return the sums after the last key too. So a sequence may be read in pieces of any sizes.

    Returns
    -------
    out : array (..., Lq, dv)
        Zeros for a query that sees nothing.
    state : (S, z), if asked for
        In float32 where the inputs are of half precision.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if ``mask`` is not
        one of keys, or a setting is out of its range.

    References
    ----------
    Katharopoulos et al. 2020, arXiv 2006.16236, sections 3.2 and 3.3; their code, idiap/fast-transformers,
    adds the ``eps``. fla-org/flash-linear-attention, ``ops/linear_attn/naive.py``, has the chunks, no
    feature map, a scale ``1/sqrt(d)``, and a denominator only where asked for.

    Examples
    --------
    >>> import numpy as np
    >>> q, k, v = np.zeros((3, 2)), np.zeros((3, 2)), np.array([[3.0], [5.0], [10.0]])
    >>> linear_attention(q, k, v, causal=True)[:, 0].round(3)
    array([3., 4., 6.])
    """
    xp, dtype, (q, k, v) = working_arrays({"q": q, "k": k, "v": v}, Q_K_V)
    chunk_size = valid_length(chunk_size, "chunk_size")
    check_settings(causal=causal, normalize=normalize, return_state=return_state, eps=eps)
    n_query, n_key = q.shape[-2], k.shape[-2]
    phi = _mapping(xp, feature_map)
    table = _table(xp, state, normalize, phi(k[..., :1, :]), v) if state is not None else None
    v = _counted(xp, v, normalize)
    check_key_mask(mask, k)
    if mask is not None:
        v = xp.where(xp.matrix_transpose(mask), v, 0)  # what is hidden adds nothing and counts nothing

    both = min(n_query, n_key) if causal else 0  # the queries and keys that meet step by step
    early, q = _split(xp, q, [n_query - both, both])
    (seen_by_all, k), (values, v) = (_split(xp, x, [n_key - both, both]) for x in (k, v))
    outs = []
    if both < n_key:
        table = _plus(table, phi(seen_by_all).mT @ values)
    if both < n_query:
        outs.append(_quotient(xp, _read(xp, phi(early), table, values), normalize, eps))
    at_once = max(1, TOGETHER // math.prod(q.shape[:-2])) if _recorded(xp, q, k, v) else 1
    sizes = _stretches(both, chunk_size, at_once)
    for qs, ks, vs in zip(*(_split(xp, x, sizes) for x in (q, k, v)), strict=True):
        out, table = _step_by_step(xp, phi(qs), phi(ks), vs, table, chunk_size)
        outs.append(_quotient(xp, out, normalize, eps))
    out = xp.astype(xp.concat(outs, axis=-2) if len(outs) > 1 else outs[0], dtype, copy=False)
    return (out, _state(table, normalize)) if return_state else out


def linear_attention_step(q, k, v, state=None, *, feature_map=elu_plus_one, normalize=True, eps=1e-6):
    """One token of causal linear attention: ``S + phi(k) v^T`` and ``z + phi(k)``, read by ``phi(q)``.

    The recurrent form: a step takes the same time and memory after a thousand tokens as after one. Step by
    step it gives what `linear_attention` gives for the sequence, and their states are the same.

    Parameters
    ----------
    q, k : array (..., d)
        Query and key of the token.
    v : array (..., dv)
    state : (S, z), optional
        What the step before gave, ``(..., m, dv)`` and ``(..., m)``; left out for the first token.
    feature_map, normalize, eps
        As in `linear_attention`.

    Returns
    -------
    out : array (..., dv)
    state : (S, z)
        New arrays; those that were given are as they were.

    Raises
    ------
    TypeError, ValueError
        As for `linear_attention`.

    References
    ----------
    Katharopoulos et al. 2020, arXiv 2006.16236, section 3.4.

    Examples
    --------
    >>> import numpy as np
    >>> zero, state = np.zeros(2), None
    >>> for v in (3.0, 5.0, 10.0):
    ...     out, state = linear_attention_step(zero, zero, np.array([v]), state)
    >>> out.round(3), state[1]
    (array([6.]), array([3., 3.]))
    """
    axes = {"q": (..., "d"), "k": (..., "d"), "v": (..., "dv")}
    xp, dtype, (q, k, v) = working_arrays({"q": q, "k": k, "v": v}, axes)
    check_settings(normalize=normalize, eps=eps)
    phi = _mapping(xp, feature_map)
    q, k, v = phi(q[..., None, :]), phi(k[..., None, :]), v[..., None, :]
    table = _table(xp, state, normalize, k, v) if state is not None else None
    table = _plus(table, k.mT @ _counted(xp, v, normalize))
    out = _quotient(xp, q @ table, normalize, eps)[..., 0, :]
    return xp.astype(out, dtype, copy=False), _state(table, normalize)


def linear_attention_weights(q, k, mask=None, *, causal=False, feature_map=elu_plus_one, eps=1e-6):
    """The weights that linear attention never makes: ``phi(q) @ phi(k).mT``, each row divided by its sum.

    The parallel form, at the square of the length: ``weights @ v`` is what `linear_attention` gives.

    Parameters
    ----------
    q : array (..., Lq, d)
    k : array (..., Lk, d)
    mask, causal, feature_map, eps
        As in `linear_attention`; ``feature_map`` sees all positions at once.

    Returns
    -------
    array (..., Lq, Lk)
        Rows sum to 1, but for ``eps``, or to 0 where the query sees nothing. Before the division the rank
        is at most the number of features; the division leaves it as it is, a causal mask does not.

    Raises
    ------
    TypeError, ValueError
        As for `linear_attention`.

    References
    ----------
    Katharopoulos et al. 2020, arXiv 2006.16236, section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> linear_attention_weights(np.zeros((2, 3)), np.zeros((2, 3)), causal=True).round(3)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """
    xp, dtype, (q, k) = working_arrays({"q": q, "k": k}, {name: Q_K_V[name] for name in "qk"})
    check_settings(causal=causal, eps=eps)
    phi = _mapping(xp, feature_map)
    products = phi(q) @ phi(k).mT
    check_key_mask(mask, k)
    if mask is not None:
        products = xp.where(mask, products, 0)
    if causal:
        products = xp.where(causal_mask(q.shape[-2], k.shape[-2], like=q), products, 0)
    total = xp.sum(products, axis=-1, keepdims=True) + eps
    return xp.astype(products / xp.where(total == 0, 1, total), dtype, copy=False)


def check_settings(*, eps, **flags):
    """Raise where ``eps`` is no number of at least 0, or one of the ``flags`` is neither True nor False."""
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False; got {value!r}")
    check_number(eps, "eps")
    if not 0 <= eps < math.inf:
        raise ValueError(f"eps must be at least 0 and finite; got {eps!r}")


def _mapping(xp, feature_map):
    """The feature map as a function of arrays that were checked before."""
    if feature_map is elu_plus_one:
        return lambda x: _elu_plus_one(xp, x)
    if feature_map is not None and not callable(feature_map):
        raise TypeError(f"feature_map must be a function or None; got {feature_map!r}")
    if feature_map is None:
        return lambda x: x

    def features(x):
        found = feature_map(x)
        namespace(**{"feature_map(x)": found}, x=x)
        if tuple(found.shape[:-1]) != tuple(x.shape[:-1]) or 0 in found.shape:
            raise ValueError(
                f"feature_map must give features of each position, {(*x.shape[:-1], 'm')} for x of shape "
                f"{tuple(x.shape)}; got shape {tuple(found.shape)}"
            )
        return found

    return features


def _step_by_step(xp, q, k, v, table, size):
    """What the queries of one chunk, or of several, see, and the table after the last key."""
    if q.shape[-2] <= size:
        out = xp.tril(q @ k.mT) @ v
        return (out if table is None else out + q @ table), _plus(table, k.mT @ v)
    q, k, v = (xp.reshape(x, (*x.shape[:-2], -1, size, x.shape[-1])) for x in (q, k, v))
    before = []  # for each chunk, the sums over all keys of earlier ones
    for own in xp.unstack(k.mT @ v, axis=-3):
        before.append(xp.zeros_like(own) if table is None else table)
        table = _plus(table, own)
    out = xp.tril(q @ k.mT) @ v + q @ xp.stack(before, axis=-3)
    return xp.reshape(out, (*out.shape[:-3], -1, out.shape[-1])), table


def _plus(table, own):
    return own if table is None else table + own


def _read(xp, q, table, v):
    """What queries read in a table; zeros, as wide as ``v``, where there is none."""
    if table is None:
        return xp.zeros((*q.shape[:-1], v.shape[-1]), dtype=v.dtype, device=device(v))
    return q @ table


def _recorded(xp, *arrays):
    """Whether autograd writes down what is done with them."""
    return is_torch_namespace(xp) and xp.is_grad_enabled() and any(x.requires_grad for x in arrays)


def _counted(xp, v, normalize):
    """Values and a column of ones: whatever sums the values makes the denominator on the way."""
    return xp.concat([v, xp.ones_like(v[..., :1])], axis=-1) if normalize else v


def _quotient(xp, out, normalize, eps):
    if not normalize:
        return out
    above, below = _split(xp, out, [out.shape[-1] - 1, 1], axis=-1)
    return above / (below + eps if eps else xp.where(below == 0, 1, below))


def _table(xp, state, normalize, features, v):
    """A state as one array with ``z`` as the last column of ``S``, if it fits features and values."""
    if not isinstance(state, tuple) or len(state) != 2 or (state[1] is None) == normalize:
        raise TypeError(f"state must be a pair (S, {'z' if normalize else 'None'}), as is returned")
    sums, m = dict(zip("Sz" if normalize else "S", state, strict=False)), features.shape[-1]
    wanted = {"S": (*features.shape[:-2], m, v.shape[-1]), "z": (*features.shape[:-2], m)}
    namespace(v=v, **sums)
    for name, array in sums.items():
        if tuple(array.shape) != wanted[name]:
            raise ValueError(f"{name} of the state must have shape {wanted[name]}; got {tuple(array.shape)}")
    S, z = state
    return xp.astype(xp.concat([S, z[..., None]], axis=-1) if normalize else S, v.dtype, copy=False)


def _state(table, normalize):
    return (table[..., :-1], table[..., -1]) if normalize else (table, None)


def _stretches(length, size, at_once):
    """How many tokens are computed together: so many whole chunks, and at the end what is less than one."""
    whole, rest = divmod(length, size)
    sizes = [size * min(at_once, whole - first) for first in range(0, whole, at_once)]
    return [*sizes, rest] if rest else sizes


def _split(xp, x, sizes, axis=-2):
    """Torch's own split, for the gradient of many slices takes the square of their number."""
    if is_torch_namespace(xp):
        return x.split(sizes, axis)
    return np.split(x, np.cumsum(sizes)[:-1], axis) if sizes else []

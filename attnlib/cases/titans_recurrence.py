"""Titans' memory, where it is one matrix: a regression of values on keys, learned while it is read."""

from numbers import Real

from array_api_compat import device

from attnlib.core.arrays import check_number, valid_length
from attnlib.core.shapes import working_arrays

BLOCK = 32  # tokens whose errors are solved for together

STATE = {"memory": (..., "d", "dv"), "momentum": (..., "d", "dv")}
SEQUENCE = {"q": (..., "L", "d"), "k": (..., "L", "d"), "v": (..., "L", "dv"),
            "theta": (..., "L"), "eta": (..., "L"), "alpha": (..., "L")} | STATE  # fmt: skip
TOKEN = {"q": (..., "d"), "k": (..., "d"), "v": (..., "dv"),
         "theta": (..., "1"), "eta": (..., "1"), "alpha": (..., "1")} | STATE  # fmt: skip
RATES = "theta", "eta", "alpha"


def titans_memory(
    q, k, v, theta, eta, alpha, *, chunk_size=1, memory=None, momentum=None, return_state=False
):
    """A matrix that learns each token's value from its key, by gradient descent, and is read by its query.

    ``S_t = eta_t S_{t-1} - theta_t grad``, ``M_t = (1 - alpha_t) M_{t-1} + S_t``, ``out_t = q_t M_t``, with
    the gradient of ``|k_t M - v_t|**2`` at ``M = M_{t-1}``: ``2 k_t^T (k_t M_{t-1} - v_t)``. A token reads
    the memory that has learned it already.

    Parameters
    ----------
    q, k : array (..., L, d)
    v : array (..., L, dv)
    theta : array (..., L), or a number
        Size of the step, "momentary surprise". It is below ``1 / |k|**2`` where a step is to bring the
        memory nearer to the value; one half of that makes it the value.
    eta : array (..., L), or a number
        Share of the last step that goes on, "past surprise": 0 to 1.
    alpha : array (..., L), or a number
        Share of the memory that is forgotten: 0 to 1.
    chunk_size : int >= 1
        All gradients of a chunk are taken at the memory before the chunk, counted from the first token given;
        momentum, forgetting and reading still go token by token. 1 is the recurrence above.
    memory, momentum : array (..., d, dv), optional
        ``M_0`` and ``S_0``, zeros when left out.
    return_state : bool
        Return the last memory and momentum too. So a sequence may be read in pieces, cut between chunks.

    Returns
    -------
    out : array (..., L, dv)
    state : (memory, momentum), if asked for
        In float32 where the inputs are of half precision.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, is empty, or its shape does not fit; if ``chunk_size``
        is no positive integer.

    Notes
    -----
    Exact for every ``chunk_size``, but no loop over tokens. ``M_t`` is a sum of outer products ``k_s^T e_s``,
    ``e_s`` the error at token ``s``, with factors made of ``eta`` and ``alpha`` alone. So the errors of a
    block solve a triangular system, and all else is matrix products. In a chunk of stale gradients no error
    depends on another of the chunk.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, equations 8 to 15 and, for the chunks, section 3.2. The authors
    released no code. lucidrains/titans-pytorch, ``NeuralMemory``, takes the mean over features in place of
    their sum: ``theta / dv`` here gives what it gives; its ``batch_size`` is ``chunk_size`` here.

    Examples
    --------
    >>> import numpy as np
    >>> k, v = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([[3.0], [5.0], [4.0]])
    >>> titans_memory(k, k, v, 0.5, 0.0, 0.0)[:, 0]    # half a step is the whole way; the third overwrites
    array([3., 5., 4.])
    """
    chunk_size = valid_length(chunk_size, "chunk_size")
    if not isinstance(return_state, bool):
        raise TypeError(f"return_state must be True or False; got {return_state!r}")
    xp, dtype, tokens, rates, state = _start(SEQUENCE, q, k, v, theta, eta, alpha, memory, momentum)
    like = {"dtype": tokens[0].dtype, "device": device(q)}
    rates = [xp.full(q.shape[:-1], x, **like) if _is_number(x) else x for x in rates]
    size, outs = chunk_size * max(1, BLOCK // chunk_size), []
    for first in range(0, q.shape[-2], size):
        within = slice(first, first + size)
        own = *(x[..., within, :] for x in tokens), *(x[..., within] for x in rates)
        out, *state = _block(xp, *own, *state, chunk_size)
        outs.append(out)
    out = xp.astype(xp.concat(outs, axis=-2), dtype, copy=False)
    return (out, tuple(state)) if return_state else out


def titans_memory_step(q, k, v, theta, eta, alpha, *, memory=None, momentum=None):
    """One token of `titans_memory`, as the formula has it: surprise, momentum, forgetting, reading.

    Parameters
    ----------
    q, k : array (..., d)
    v : array (..., dv)
    theta, eta, alpha : array (...), or a number
    memory, momentum : array (..., d, dv), optional
        What the step before gave; left out for the first token.

    Returns
    -------
    out : array (..., dv)
    state : (memory, momentum)
        New arrays; those that were given are as they were.

    Raises
    ------
    TypeError, ValueError
        As for `titans_memory`.

    References
    ----------
    Behrouz et al. 2025, arXiv 2501.00663, equations 9 to 15.

    Examples
    --------
    >>> import numpy as np
    >>> k, v = np.array([1.0, 0.0]), np.array([4.0])
    >>> out, state = titans_memory_step(k, k, v, 0.25, 0.5, 0.0)
    >>> out, titans_memory_step(k, k, v, 0.25, 0.5, 0.0, memory=state[0], momentum=state[1])[0]
    (array([2.]), array([4.]))
    """
    rates = [x if _is_number(x) else x[..., None] for x in (theta, eta, alpha)]
    xp, dtype, tokens, rates, (memory, momentum) = _start(TOKEN, q, k, v, *rates, memory, momentum)
    q, k, v = (x[..., None, :] for x in tokens)
    theta, eta, alpha = (x if _is_number(x) else x[..., None] for x in rates)
    momentum = eta * momentum - theta * 2 * (k.mT @ (k @ memory - v))
    memory = (1 - alpha) * memory + momentum
    return xp.astype((q @ memory)[..., 0, :], dtype, copy=False), (memory, momentum)


def _start(axes, *given):
    """The namespace, the type of the result, and what was given: tokens, rates, and a state, or zeros."""
    given = dict(zip(axes, given, strict=True))
    numbers = {name: x for name, x in given.items() if name in RATES and _is_number(x)}
    for name, value in numbers.items():
        check_number(value, name)
    left_out = {*numbers, *(name for name in STATE if given[name] is None)}
    arrays = {name: x for name, x in given.items() if name not in left_out}
    xp, dtype, checked = working_arrays(arrays, axes)
    known = dict(zip(arrays, checked, strict=True)) | {name: float(x) for name, x in numbers.items()}
    k, v = known["k"], known["v"]
    before = k.shape[: k.ndim + 1 - len(axes["k"])]
    zeros = xp.zeros((*before, k.shape[-1], v.shape[-1]), dtype=k.dtype, device=device(k))
    parts = ("q", "k", "v"), RATES, STATE
    return xp, dtype, *([known.get(name, zeros) for name in part] for part in parts)


def _is_number(value):
    return isinstance(value, Real) or not hasattr(value, "shape")


def _block(xp, q, k, v, theta, eta, alpha, memory, momentum, chunk_size):
    """What the tokens of one block read, and the memory and the momentum after it."""
    n = k.shape[-2]
    kept, carried = _products(xp, 1 - alpha), _products(xp, eta)  # row and column 0: before the block
    written = kept[..., 1:] @ carried[..., 1:, :]  # how much of the step at s is in the memory at t

    def read(x, at):
        """What rows of ``x`` find of the state before the block, in the memories ``at`` these rows."""
        old, moved = (xp.take(share, at, axis=-2)[..., :1] for share in (kept, written))
        return old * (x @ memory) + moved * (x @ momentum)

    t = xp.arange(n, device=device(k))
    start = t - t % chunk_size  # the memory that the gradient of token t is taken at
    errors, theta = read(k, start) - v, 2 * theta[..., None, :]
    if chunk_size < n:
        seen = xp.take(written, start, axis=-2)[..., 1:] * (k @ k.mT) * theta
        errors = xp.linalg.solve(xp.eye(n, dtype=k.dtype, device=device(k)) + seen, errors)
    steps = -theta.mT * errors
    out = read(q, t + 1) + (written[..., 1:, 1:] * (q @ k.mT)) @ steps

    moved, kept, carried = (x[..., -1:, :] for x in (written, kept, carried))
    new_memory = kept[..., :1] * memory + moved[..., :1] * momentum + (k.mT * moved[..., 1:]) @ steps
    return out, new_memory, carried[..., :1] * momentum + (k.mT * carried[..., 1:]) @ steps


def _products(xp, factors):
    """``(..., n + 1, n + 1)``: at ``(t, s)`` the product of the factors after ``s`` up to ``t``, 0 above."""
    n = factors.shape[-1]
    factors = xp.concat([xp.ones_like(factors[..., :1]), factors], axis=-1)[..., None]
    at = xp.arange(n + 1, device=device(factors))
    steps = xp.where(at[:, None] > at, factors, xp.ones_like(factors))
    return xp.tril(xp.cumulative_prod(steps, axis=-2))

"""Does the past know the future? Change a token, and see which outputs change."""

from numbers import Real
from typing import NamedTuple

import numpy as np
from array_api_compat import device

from attnlib.core.arrays import kind_of, namespace

_SIZES = (1.0, 1.0, -1.0, 10.0, -10.0, 10.0, -10.0, 100.0)  # times the input's own size; 0 is tried too


class Leak(NamedTuple):
    """An output that knows its future.

    Attributes
    ----------
    output : int
        Its position.
    token : int or None
        The later token that it depends on; None where it depends on how many follow.
    change : float
        The largest change of the output that was seen.
    """

    output: int
    token: int | None
    change: float


def future_leaks(model, x, *, replacements=None, seed=0, tolerance=None):
    """Where an output depends on what comes after its position.

    Each token is replaced, several ways (`influence`), and the sequence is cut after each position.
    An output that changes with a later token, or with the number of later tokens, leaks.

    Parameters
    ----------
    model : callable
        Takes a sequence of any length, one token a row, and gives one output a row.
    x : array (L, ...)
        Tokens, L >= 2: vectors (L, d) or ids (L,).
    replacements : array (n, ...), optional
        Tokens to put in place of others, as in `influence`.
    seed : int
    tolerance : float, optional
        The change, relative to the largest finite output, that still counts as rounding. When left out:
        2e-12 in float64 and 1e-3 in float32, ten thousand times their precision, and 0.05 in float16 and
        0.4 in bfloat16, fifty times theirs. So let a model run in float64 where a leak may be faint.

    Returns
    -------
    list of Leak
        First the leaks from single tokens, by output and token, then those of the length. Empty when
        none was found, which is no proof: a leak that opens for none of the replacements stays hidden.

    Raises
    ------
    TypeError, ValueError
        As for `influence`; if ``tolerance`` is not a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.arange(6.0).reshape(3, 2)
    >>> future_leaks(lambda x: np.cumsum(x, 0), x)
    []
    >>> [leak[:2] for leak in future_leaks(lambda x: x - x[-1:], x)]
    [(0, 2), (1, 2), (0, None), (1, None)]
    """
    if tolerance is not None and (isinstance(tolerance, bool) or not isinstance(tolerance, Real)):
        raise TypeError(f"tolerance must be a number or None; got {tolerance!r}")
    if tolerance is not None and not tolerance > 0:
        raise ValueError(f"tolerance must be positive; got {tolerance!r}")
    change = influence(model, x, replacements=replacements, seed=seed)
    given = model(_copy(x))
    out = _rows(given, len(x))
    size = np.abs(out[np.isfinite(out)]).max(initial=0) or 1.0
    limit = (_rounding(given) if tolerance is None else tolerance) * size
    found = [Leak(int(i), int(j), float(change[i, j])) for i, j in np.argwhere(np.triu(change, 1) > limit)]
    cut = np.zeros(len(x))
    for n in range(1, len(x)):
        cut[:n] = np.maximum(cut[:n], _row_changes(_outputs(model, x[:n]), out[:n]))
    return found + [Leak(int(i), None, float(cut[i])) for i in np.flatnonzero(cut > limit)]


def influence(model, x, *, replacements=None, seed=0):
    """How much each output changes when a token is replaced: the largest change over several tries.

    One small random change can miss what a large one shows (a gate that is shut, an attention that has
    long decided), so tokens of several sizes are tried.

    Parameters
    ----------
    model : callable
        Takes ``x`` and gives one output a row, the same each time: switch dropout off first.
    x : array (L, ...)
        Tokens, L >= 2: vectors (L, d) or ids (L,).
    replacements : array (n, ...), optional
        Tokens to put in place of each token in turn. When left out: random vectors from the size of
        ``x`` up to a hundred times that, and zeros. Ids must be given, for only some are valid.
    seed : int
        Of the random vectors.

    Returns
    -------
    array (L, L) float64, NumPy
        Entry ``[i, j]``: the largest absolute change of output ``i`` when token ``j`` was replaced;
        ``inf`` where an output became NaN or infinite.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is no array of at least two tokens, if ids come without replacements, if the model does
        not give one output a token, or if it answers the same input differently.

    Examples
    --------
    >>> import numpy as np
    >>> influence(lambda x: np.cumsum(x, 0), np.eye(3)) > 0
    array([[ True, False, False],
           [ True,  True, False],
           [ True,  True,  True]])
    """
    xp = namespace(x=x)
    if x.ndim < 1 or x.shape[0] < 2 or 0 in x.shape:
        raise ValueError(f"x must hold at least two tokens, one a row; got shape {tuple(x.shape)}")
    tokens = _replacements(xp, x, replacements, seed)
    out = _outputs(model, x)
    noise = _row_changes(_outputs(model, x), out).max()
    if noise > 0:
        raise ValueError(
            f"two calls of the model on the same x differ by up to {noise:.3g}. Switch dropout off "
            "(model.eval() in torch), or let the model draw the same random numbers in each call."
        )
    changes = np.zeros((len(x), len(x)))
    for j in range(len(x)):
        for n in range(tokens.shape[0]):
            changed = _copy(x)
            changed[j, ...] = tokens[n, ...]
            changes[:, j] = np.maximum(changes[:, j], _row_changes(_outputs(model, changed), out))
    return changes


def gradient_influence(model, x):
    """How much each output changes with a token, by its derivative at ``x``.

    Exact and without tries, but only at this one ``x``: where a gate is shut or a softmax has decided,
    the derivative is zero and the dependence is not.

    Parameters
    ----------
    model : callable
        Takes a tensor (L, d) and gives a tensor with one output a row, differentiably.
    x : torch tensor (L, d), floating

    Returns
    -------
    torch tensor (L, L)
        Entry ``[i, j]``: the norm of the derivative of output ``i`` with respect to token ``j``.

    Raises
    ------
    TypeError, ValueError
        If ``x`` is no floating tensor of two axes, or the model does not give one output a token.

    Examples
    --------
    >>> import torch
    >>> gradient_influence(lambda x: torch.cumsum(x, 0), torch.eye(2, dtype=torch.float64)) > 0
    tensor([[ True, False],
            [ True,  True]])
    """
    import torch

    if not isinstance(x, torch.Tensor) or not x.is_floating_point():
        found = x.dtype if isinstance(x, torch.Tensor) else type(x).__name__
        raise TypeError(f"x must be a torch tensor of floating numbers; got {found}")
    if x.ndim != 2:
        raise ValueError(f"x must have shape (L, d); got {tuple(x.shape)}")
    with torch.inference_mode(False), torch.enable_grad():
        slopes = torch.autograd.functional.jacobian(model, x.clone())
    if slopes.ndim < 3 or slopes.shape[0] != len(x):
        raise ValueError(
            f"the model must give one output a token, {len(x)} rows; got {tuple(slopes.shape[:-2])}"
        )
    return slopes.reshape(len(x), -1, *x.shape).pow(2).sum((1, 3)).sqrt()


def _replacements(xp, x, replacements, seed):
    if replacements is not None:
        tokens = xp.asarray(replacements, dtype=x.dtype, device=device(x))
        if tuple(tokens.shape[1:]) != tuple(x.shape[1:]) or not tokens.shape[0]:
            raise ValueError(
                f"replacements must hold tokens of shape {tuple(x.shape[1:])}, one a row; "
                f"got shape {tuple(tokens.shape)}"
            )
        return tokens
    if kind_of(xp, x.dtype) != "real floating":
        raise ValueError(f"x holds {x.dtype}, so give replacements: valid tokens to put in place of others")
    size = float(xp.max(xp.abs(x))) or 1.0
    rng = np.random.default_rng(seed)
    tokens = [s * size * rng.standard_normal(x.shape[1:]) for s in _SIZES] + [np.zeros(x.shape[1:])]
    return xp.asarray(np.stack(tokens), dtype=x.dtype, device=device(x))


def _copy(x):
    """For the model, which may work in place."""
    return namespace(x=x).asarray(x, copy=True)


def _outputs(model, x):
    """What the model gives for ``x``, as `_rows`."""
    return _rows(model(_copy(x)), len(x))


def _rows(out, length):
    """A model's outputs as float64, one row a token."""
    if isinstance(out, (tuple, list)):
        raise TypeError(
            f"the model must give one array; got a {type(out).__name__}. "
            "Where it gives weights too, pass lambda x: model(x)[0]."
        )
    out = out.detach().cpu().double().numpy() if hasattr(out, "detach") else np.asarray(out, dtype=float)
    if out.ndim < 1 or len(out) != length or not out.size:
        raise ValueError(f"the model must give one output a token, {length} rows; got shape {out.shape}")
    return out.reshape(length, -1)


def _rounding(out):
    """What rounding may change in outputs of this type, relative to the largest."""
    xp = namespace(out=out)
    if kind_of(xp, out.dtype) != "real floating":
        return 1e-9
    limits = xp.finfo(out.dtype)
    return float(limits.eps) * (1e4 if limits.bits >= 32 else 50)


def _row_changes(a, b):
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        apart = np.where(same, 0.0, np.abs(a - b)).max(-1)
    return np.where(np.isnan(apart), np.inf, apart)

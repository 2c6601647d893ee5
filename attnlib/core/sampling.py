"""From a model's scores to its next token: the largest, or one drawn at random."""

import math

import numpy as np
from array_api_compat import device

from attnlib.core.arrays import check_number, float_dtype, namespace, valid_length, working_dtype
from attnlib.core.softmaxes import softmax


def sampling_probabilities(logits, *, temperature=1.0, top_k=None, top_p=None):
    """The distribution from which the next token is drawn.

    ``softmax(logits / temperature)``; then all but the ``top_k`` most probable tokens get 0; then all
    but the fewest most probable ones that together reach ``top_p`` get 0; the rest is divided by its
    sum after each step. Among equal tokens the one with the lower id comes first.

    Parameters
    ----------
    logits : array (..., V)
        One score for each token of the vocabulary; ``-inf`` forbids a token.
    temperature : float >= 0
        Below 1 the probable tokens become more probable; at 0 the most probable one has all.
    top_k : int >= 1, optional
        More than ``V`` leaves all.
    top_p : float, 0 < top_p <= 1, optional
        A part of the probability that is left after ``top_k``; 1 leaves all.

    Returns
    -------
    array (..., V)
        Rows sum to 1. Half precision is computed in float32 and stays there.

    Raises
    ------
    TypeError, ValueError
        If ``logits`` is no array of real numbers, a row forbids every token or holds NaN, or a setting is
        out of its range.

    References
    ----------
    Fan, Lewis and Dauphin 2018, arXiv 1805.04833, section 5.4, for ``top_k``; Holtzman et al. 2020, arXiv
    1904.09751, section 3.1, for ``top_p`` (nucleus sampling). The order is that of Hugging Face
    transformers, which keeps all tokens that equal the ``top_k``-th; Meta's Llama keeps one token more
    where the probabilities reach ``top_p`` exactly.

    Examples
    --------
    >>> import numpy as np
    >>> sampling_probabilities(np.log(np.array([0.5, 0.3, 0.2])), top_p=0.6)
    array([0.625, 0.375, 0.   ])
    """
    xp = _check(logits, temperature, top_k, top_p)
    work = working_dtype(xp, float_dtype(xp, logits=logits))
    logits = xp.astype(logits, work, copy=False)
    if temperature == 0:
        ids = xp.arange(logits.shape[-1], device=device(logits))
        return xp.astype(ids == xp.argmax(logits, axis=-1, keepdims=True), work)
    p = softmax(logits, temperature=temperature)
    n_k = logits.shape[-1] if top_k is None else top_k
    if n_k < logits.shape[-1] or top_p not in (None, 1):
        order = xp.argsort(-p, axis=-1, stable=True)
        rank = xp.argsort(order, axis=-1, stable=True)  # 0 for the most probable token
        p = xp.where(rank < n_k, p, 0.0)
        p = p / xp.sum(p, axis=-1, keepdims=True)
        if top_p not in (None, 1):
            sums = xp.cumulative_sum(-xp.sort(-p, axis=-1), axis=-1)
            short = xp.sum(xp.astype(sums < top_p, xp.int64), axis=-1, keepdims=True)
            p = xp.where(rank <= short, p, 0.0)
            p = p / xp.sum(p, axis=-1, keepdims=True)
    return p


def sample(logits, *, temperature=1.0, top_k=None, top_p=None, seed=None):
    """Draw one token for each row of scores.

    Parameters
    ----------
    logits, temperature, top_k, top_p
        As in `sampling_probabilities`; ``temperature=0`` takes the largest score.
    seed : int or numpy.random.Generator, optional
        The same integer draws the same tokens, on NumPy and on torch; a generator goes on from where
        it is. Global random states are neither read nor changed.

    Returns
    -------
    int64 array (...)
        Token ids; none of probability 0.

    Raises
    ------
    TypeError, ValueError
        As in `sampling_probabilities`, or if ``seed`` is neither.

    References
    ----------
    As in `sampling_probabilities`; drawn by inverting the cumulative sums at a uniform random number.

    Examples
    --------
    >>> import numpy as np
    >>> sample(np.log(np.array([[0.5, 0.5, 0.0]] * 8) + 1e-30), seed=0)
    array([1, 0, 0, 0, 1, 1, 1, 1])
    """
    rng = generator_of(seed)
    p = sampling_probabilities(logits, temperature=temperature, top_k=top_k, top_p=top_p)
    return chosen(p, rng.random(p.shape[:-1]))


def chosen(p, uniform):
    """The token of each row whose part of the cumulative sums holds a number between 0 and 1."""
    xp = namespace(p=p)
    sums = xp.cumulative_sum(xp.astype(p, xp.float64), axis=-1)
    at = xp.asarray(uniform, dtype=xp.float64, device=device(p))[..., None] * sums[..., -1:]
    return xp.sum(xp.astype(sums <= at, xp.int64), axis=-1)


def generator_of(seed):
    if isinstance(seed, np.random.Generator):
        return seed
    if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int | np.integer)):
        raise TypeError(f"seed must be a whole number or a numpy.random.Generator; got {seed!r}")
    if seed is not None and seed < 0:
        raise ValueError(f"seed must be at least 0; got {seed}")
    return np.random.default_rng(seed)


def _check(logits, temperature, top_k, top_p):
    xp = namespace(logits=logits)
    float_dtype(xp, logits=logits)
    if logits.ndim < 1 or 0 in logits.shape:
        raise ValueError(f"logits must have shape (..., vocabulary), not empty; got {tuple(logits.shape)}")
    check_number(temperature, "temperature")
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be at least 0 and finite; got {temperature!r}")
    if top_k is not None:
        valid_length(top_k, "top_k")
    if top_p is not None:
        check_number(top_p, "top_p")
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p must be above 0 and at most 1; got {top_p!r}")
    top = xp.max(logits, axis=-1)
    if not bool(xp.all(xp.isfinite(top))):
        raise ValueError(
            "each row of logits must have a finite largest entry; one has only -inf, or holds NaN or inf"
        )
    return xp

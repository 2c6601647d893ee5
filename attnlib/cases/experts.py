"""Experts of a few numbers each, mixed: one coefficient an expert, or one an expert and weight."""

from attnlib.core.arrays import float_dtype, namespace, working_dtype


def mix_experts(experts, alpha, *, normalize=False):
    """``z' = sum_k alpha_k z_k``, for each weight by itself.

    Parameters
    ----------
    experts : array (K, r), or a list of them
        The vectors of ``K`` experts for one weight; a list has those of several weights, each of its own
        length ``r``.
    alpha : array (K,) or (K, number of weights)
        How much of each expert: the same in all weights, or a column a weight.
    normalize : bool
        Divide by the sum over the experts, weight by weight; a sum of 0 is left as it is.

    Returns
    -------
    array (r,), or a list of them
        As ``experts``.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, or its shape does not fit.

    References
    ----------
    Sun, Cetin and Tang 2025, arXiv 2501.06252, section 3.2, few-shot adaptation. ``policy/
    weighted_combination.py`` of SakanaAI/self-adaptive-llms starts at ``1/K`` each, and mixes what was
    saved, before any sigmoid: there the mixture with ``alpha = (1, 0)`` is not the first expert, unless its
    multipliers ``sigmoid(z)`` were saved (``form="mixture"`` in `scale_singular_values`).

    Examples
    --------
    >>> import numpy as np
    >>> mix_experts(np.array([[1.0, 0.0, 2.0], [3.0, 1.0, 0.0]]), np.array([0.5, 0.5]))
    array([2. , 0.5, 1. ])
    """
    several = isinstance(experts, tuple | list)
    weights = list(experts) if several else [experts]
    if not weights:
        raise ValueError("experts must have at least one weight; got an empty list")
    if not isinstance(normalize, bool):
        raise TypeError(f"normalize must be True or False; got {normalize!r}")
    names = [f"experts[{i}]" for i in range(len(weights))] if several else ["experts"]
    arrays = dict(zip(names, weights, strict=True))
    xp = namespace(alpha=alpha, **arrays)
    dtype = float_dtype(xp, alpha=alpha, **arrays)
    shape, n = tuple(alpha.shape), len(weights)
    if len(shape) not in (1, 2) or 0 in shape or shape[1:] not in ((), (n,)):
        raise ValueError(f"alpha must have shape (K,) or (K, {n}), a column for each weight; got {shape}")
    for name, z in arrays.items():
        if z.ndim != 2 or 0 in z.shape or z.shape[0] != shape[0]:
            raise ValueError(
                f"{name} must have shape ({shape[0]}, r), a row for each of alpha's {shape[0]} experts; "
                f"got {tuple(z.shape)}"
            )
    alpha = xp.astype(alpha, working_dtype(xp, float_dtype(xp, alpha=alpha)), copy=False)
    if normalize:
        total = xp.sum(alpha, axis=0)
        alpha = alpha / xp.where(total == 0, 1, total)
    alpha, *weights = (xp.astype(x, working_dtype(xp, dtype), copy=False) for x in (alpha, *weights))
    columns = [alpha] * n if len(shape) == 1 else [alpha[:, i] for i in range(n)]
    mixed = [xp.astype(a @ z, dtype, copy=False) for a, z in zip(columns, weights, strict=True)]
    return mixed if several else mixed[0]

"""The cross-entropy method: draw, keep the best few, draw around them; no gradient is asked for."""

import numpy as np

from attnlib.core.arrays import check_number, valid_length
from attnlib.core.shapes import working_arrays


def cem_population(mean, std, best, noise, *, low=0.0, high=1.0):
    """Candidates of a round: ``clamp(mean + std * noise, low, high)``, the best so far in the first's place.

    Parameters
    ----------
    mean, std, best : array (n,)
        Centre and spread of the draw, and the best candidate of the round before.
    noise : array (population, n)
        From the standard normal distribution. Its first row goes unused.
    low, high : float
        What a number is cut to. ``best`` is not cut.

    Returns
    -------
    array (population, n)

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, or its shape does not fit; unless ``low < high``.

    References
    ----------
    Rubinstein and Kroese 2004, *The Cross-Entropy Method*. ``CEM.sample_new_params`` in
    ``optim_modules.py`` of SakanaAI/self-adaptive-llms.

    Examples
    --------
    >>> import numpy as np
    >>> half = np.full(2, 0.5)
    >>> cem_population(half, half, half, np.array([[9.0, 9.0], [0.5, -3.0]])).tolist()
    [[0.5, 0.5], [0.75, 0.0]]
    """
    _check_range(low, high)
    axes = {"mean": ("n",), "std": ("n",), "best": ("n",), "noise": ("population", "n")}
    arrays = {"mean": mean, "std": std, "best": best, "noise": noise}
    xp, dtype, (mean, std, best, noise) = working_arrays(arrays, axes)
    drawn = xp.clip(mean + std * noise, low, high)
    return xp.astype(xp.concat([best[None], drawn[1:]]), dtype, copy=False)


def cem_update(population, scores, n_elite, *, log_likelihoods=None):
    """Mean and spread of the best few, and the best: what the next round draws from.

    Parameters
    ----------
    population : array (population, n)
    scores : array (population,)
        The greater the better, as a share of right answers.
    n_elite : int >= 2
        How many are kept. Which of equals at the border are kept is arbitrary.
    log_likelihoods : array (population,), optional
        Decides which of the best is *the* best where their scores are equal; the first one, when left out.
        It has no say in who is kept.

    Returns
    -------
    mean, std : array (n,)
        Of the kept; the variance is divided by ``n_elite - 1``.
    best : array (n,)

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, or its shape does not fit; if ``n_elite`` is less than 2
        or more than the population, or a score is NaN.

    References
    ----------
    ``CEM.step_optimization`` in ``optim_modules.py`` of SakanaAI/self-adaptive-llms, whose log-likelihoods
    are means over the tokens of right answers, and 0, the greatest, for who has none.

    Examples
    --------
    >>> import numpy as np
    >>> mean, std, best = cem_update(np.array([[0.2], [0.8], [0.6]]), np.array([0.0, 3.0, 2.0]), n_elite=2)
    >>> mean.round(3), std.round(3), best
    (array([0.7]), array([0.141]), array([0.8]))
    """
    axes = {"population": ("population", "n"), "scores": ("population",), "log_likelihoods": ("population",)}
    arrays = {"population": population, "scores": scores}
    if log_likelihoods is not None:
        arrays["log_likelihoods"] = log_likelihoods
    xp, _, (_, scores, *log_likelihoods) = working_arrays(arrays, axes)
    _, dtype, (population,) = working_arrays({"population": population}, axes)
    n_elite = valid_length(n_elite, "n_elite")
    if not 2 <= n_elite <= population.shape[0]:
        raise ValueError(f"n_elite must be 2 to {population.shape[0]}, the population; got {n_elite}")
    scores = _on_the_host(scores)
    if np.isnan(scores).any():
        raise ValueError(f"scores must be numbers; that of candidate {int(np.isnan(scores).argmax())} is NaN")
    equals = np.flatnonzero(scores == scores.max())
    first = int(np.argmax(_on_the_host(log_likelihoods[0])[equals])) if log_likelihoods else 0
    best = population[int(equals[first])]
    kept = xp.stack([population[int(i)] for i in np.argpartition(scores, -n_elite)[-n_elite:]])
    mean, std = xp.mean(kept, axis=0), xp.std(kept, axis=0, correction=1)
    return tuple(xp.astype(x, dtype, copy=True) for x in (mean, std, best))


def cem_search(
    score, start, *, rounds=50, population=32, elite_ratio=0.2, low=0.0, high=1.0, ema=0.0, rng=None
):
    """Search for the numbers with the greatest score, round by round, by drawing.

    The first draw has the mean ``start`` and the spread ``(high - low) / 2``. Every round draws a
    `cem_population`, scores it, and takes `cem_update` for the next.

    Parameters
    ----------
    score : function
        Of one candidate ``(n,)``: a number, the greater the better, or a pair of it and a log-likelihood
        that decides between equal ones.
    start : NumPy array (n,)
        A candidate of the first round too.
    rounds, population : int >= 1
    elite_ratio : float
        ``int(elite_ratio * population)`` are kept, 2 or more: 6 of 32.
    low, high : float
    ema : float in [0, 1)
        How much of the old mean and spread stays.
    rng : numpy.random.Generator, optional
        Where the noise comes from; of seed 0 when left out.

    Returns
    -------
    NumPy array (n,)
        The best candidate of the last round. The best of every round is tried again in the next, so where
        scores hang on nothing but the candidate it is the best of all.

    Raises
    ------
    TypeError, ValueError
        If a setting is out of its range, or a score no number.

    References
    ----------
    Sun, Cetin and Tang 2025, arXiv 2501.06252, section 3.2; settings as in ``cfgs/optimization/cem.yaml`` of
    SakanaAI/self-adaptive-llms. There the noise is torch's, and the first mean is a parameter's value.

    Examples
    --------
    >>> import numpy as np
    >>> near = lambda x: -np.sum((x - 0.3) ** 2)
    >>> cem_search(near, np.array([0.5, 0.5]), rounds=20).round(3)
    array([0.3, 0.3])
    """
    rounds, population = valid_length(rounds, "rounds"), valid_length(population, "population")
    if not callable(score):
        raise TypeError(f"score must be a function; got {type(score).__name__}")
    if not isinstance(start, np.ndarray):
        raise TypeError(f"start must be a NumPy array; got {type(start).__name__}")
    check_number(elite_ratio, "elite_ratio")
    if not 2 <= int(elite_ratio * population) <= population:
        raise ValueError(f"elite_ratio must keep 2 or more of {population}, and no more; got {elite_ratio!r}")
    check_number(ema, "ema")
    if not 0 <= ema < 1:
        raise ValueError(f"ema must be at least 0 and below 1; got {ema!r}")
    _check_range(low, high)
    rng = rng or np.random.default_rng(0)
    _, dtype, (start,) = working_arrays({"start": start}, {"start": ("n",)})
    mean = best = start
    std = np.full_like(start, (high - low) / 2)
    for _ in range(rounds):
        noise = rng.standard_normal((population, start.size)).astype(start.dtype)
        drawn = cem_population(mean, std, best, noise, low=low, high=high)
        told = [score(candidate.copy()) for candidate in drawn]
        pairs = np.array([one if isinstance(one, tuple) else (one, 0.0) for one in told], dtype=float)
        kept = cem_update(drawn, pairs[:, 0], int(elite_ratio * population), log_likelihoods=pairs[:, 1])
        mean, std = (new * (1 - ema) + old * ema for new, old in zip(kept[:2], (mean, std), strict=True))
        best = kept[2]
    return best.astype(dtype)


def _check_range(low, high):
    check_number(low, "low")
    check_number(high, "high")
    if not low < high:
        raise ValueError(f"low must be below high; got {low!r} and {high!r}")


def _on_the_host(x):
    return np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)

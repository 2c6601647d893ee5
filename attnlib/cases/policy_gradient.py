"""Learning from right and wrong alone: REINFORCE, and a leash to the model that one started from."""

from attnlib.core.arrays import kind_of
from attnlib.core.shapes import check_shapes, working_arrays
from attnlib.core.softmaxes import log_softmax


def reinforce_loss(logits, actions, rewards, mask=None):
    """``mean over samples of -r * sum_t log pi(a_t)``: its gradient makes what was rewarded likelier.

    Its value says nothing of how well a model does; only its slope is of use. With ``r = 1`` throughout it is
    the cross-entropy of the samples, summed over tokens, and with ``r = -1`` its contrary.

    Parameters
    ----------
    logits : array (..., T, V)
        Of the model that is trained, at each token that it wrote.
    actions : integer array (..., T)
        What it wrote, drawn from these logits: ``0 .. V - 1``.
    rewards : array (...)
        One number a sample; 1 for a right answer and -1 for a wrong one in the public code.
    mask : bool array (..., T), optional
        Tokens that count, for answers of unequal length.

    Returns
    -------
    array ()
        The sum over tokens and the mean over samples.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of such numbers, or its shape does not fit.

    References
    ----------
    Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement
    learning". Sun, Cetin and Tang 2025, arXiv 2501.06252, section 3.1, and ``Reinforce`` in
    ``optim_modules.py`` of SakanaAI/self-adaptive-llms: no baseline, and Adam behind a clipped gradient.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.log(np.array([[[0.5, 0.5]], [[0.9, 0.1]]]))
    >>> reinforce_loss(logits, np.array([[0], [1]]), np.array([1.0, -1.0])).round(3)
    np.float64(-0.805)
    """
    axes = {"logits": (..., "T", "V"), "actions": (..., "T"), "mask": (..., "T")}
    arrays = {"logits": logits, "actions": actions} | ({} if mask is None else {"mask": mask})
    xp = check_shapes(arrays, axes)
    _check_kinds(xp, actions, mask, logits.shape[-1])
    real = {"logits": logits, "rewards": rewards}
    _, dtype, (logits, rewards) = working_arrays(real, {"logits": axes["logits"]})
    if rewards.shape != logits.shape[:-2]:
        raise ValueError(
            f"rewards must have one number a sample, shape {tuple(logits.shape[:-2])}; "
            f"got {tuple(rewards.shape)}"
        )
    chosen = xp.take_along_axis(log_softmax(logits), xp.astype(actions, xp.int64)[..., None], axis=-1)[..., 0]
    if mask is not None:
        chosen = xp.where(mask, chosen, 0)
    return xp.astype(xp.mean(-rewards * xp.sum(chosen, axis=-1)), dtype, copy=False)


def kl_divergence(logits, reference):
    """``KL(p || q) = sum_v p (log p - log q)``, ``p`` the softmax of the first, ``q`` of the second.

    Not symmetric, and easily taken the wrong way round: a leash that the policy ``pi`` pays for what it says
    and the reference would not is ``kl_divergence(pi, ref)``.

    Parameters
    ----------
    logits, reference : array (..., V)

    Returns
    -------
    array (...)
        At least 0, in nats; infinite where ``q`` rules out what ``p`` does not.

    Raises
    ------
    TypeError, ValueError
        If an argument is no array of real numbers, or the shapes differ.

    References
    ----------
    Kullback and Leibler 1951, "On information and sufficiency". Sun, Cetin and Tang 2025, arXiv 2501.06252,
    section 3.1, writes the leash as ``KL(pi || ref)``. The public code's
    ``F.kl_div(log_pi, log_ref, log_target=True)`` is the other, ``KL(ref || pi)``: PyTorch's target is the
    first distribution. Its coefficient is 0 by default.

    Examples
    --------
    >>> import numpy as np
    >>> p, q = np.log(np.array([0.5, 0.5])), np.log(np.array([0.9, 0.1]))
    >>> kl_divergence(p, q).round(3), kl_divergence(q, p).round(3)
    (np.float64(0.511), np.float64(0.368))
    """
    axes = {"logits": (..., "V"), "reference": (..., "V")}
    xp, dtype, (p, q) = working_arrays({"logits": logits, "reference": reference}, axes)
    p, q = log_softmax(p), log_softmax(q)
    share = xp.exp(p)
    # What p never says counts nothing, and would be inf - inf.
    p, q = (xp.where(share == 0, 0, x) for x in (p, q))
    return xp.astype(xp.sum(share * (p - q), axis=-1), dtype, copy=False)


def _check_kinds(xp, actions, mask, n):
    if kind_of(xp, actions.dtype) != "integral":
        raise TypeError(f"actions must hold whole numbers; got dtype {actions.dtype}")
    if mask is not None and kind_of(xp, mask.dtype) != "bool":
        raise TypeError(f"mask must be boolean, True = counts; got dtype {mask.dtype}")
    if xp.any((actions < 0) | (actions >= n)):
        raise ValueError(f"actions must lie in 0 .. {n - 1}, as logits have {n}")

"""How the learning rate changes from step to step."""

import math

from attnlib.core.arrays import check_number, valid_length, whole_number


def noam_rate(step, d_model=512, warm_up=4000, factor=1.0):
    """The 2017 learning rate: it rises in a line, then falls with the square root of the step.

    ``factor * d_model**-0.5 * min(step**-0.5, step * warm_up**-1.5)``; the two meet at ``step = warm_up``.

    Parameters
    ----------
    step : int >= 0
        Steps from 1 on; 0 counts as 1, for PyTorch's ``LambdaLR`` begins there.
    d_model : int >= 1
    warm_up : int >= 1
        Steps until the rate is highest.
    factor : float

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        If an argument is no number of its kind.

    References
    ----------
    Vaswani et al. 2017, arXiv 1706.03762, section 5.3, equation 3. The name is tensor2tensor's, after
    Noam Shazeer. The paper's Adam has ``betas=(0.9, 0.98), eps=1e-9``.

    Examples
    --------
    >>> [round(1e4 * noam_rate(step), 2) for step in (1, 2000, 4000, 16000)]
    [0.0, 3.49, 6.99, 3.49]
    """
    step = whole_number(step, f"step must be one integer; got {step!r}")
    if step < 0:
        raise ValueError(f"step must be at least 0; got {step}")
    d_model, warm_up = valid_length(d_model, "d_model"), valid_length(warm_up, "warm_up")
    check_number(factor, "factor")
    step = max(step, 1)
    return factor * d_model**-0.5 * min(step**-0.5, step * warm_up**-1.5)


def cosine_rate(step, steps, warm_up=100, highest=1.0):
    """A learning rate that rises in a line, then falls to zero along half a cosine.

    ``highest * step / warm_up`` up to ``step = warm_up``, then
    ``highest * (1 + cos(pi * (step - warm_up) / (steps - warm_up))) / 2``; zero from ``steps`` on.

    Parameters
    ----------
    step : int >= 0
        Steps from 1 on.
    steps : int >= 1
    warm_up : int >= 0
        Steps until the rate is highest; with ``warm_up >= steps`` it never falls.
    highest : float

    Returns
    -------
    float

    Raises
    ------
    TypeError, ValueError
        If an argument is no number of its kind.

    References
    ----------
    Loshchilov and Hutter 2017, arXiv 1608.03983, equation 5, without restarts and down to zero.

    Examples
    --------
    >>> [round(cosine_rate(step, 500), 3) for step in (0, 50, 100, 300, 500)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    step = whole_number(step, f"step must be one integer; got {step!r}")
    warm_up = whole_number(warm_up, f"warm_up must be one integer; got {warm_up!r}")
    if min(step, warm_up) < 0:
        raise ValueError(f"step and warm_up must be at least 0; got {step} and {warm_up}")
    steps = valid_length(steps, "steps")
    check_number(highest, "highest")
    if step < warm_up:
        return highest * step / warm_up
    if warm_up >= steps:
        return float(highest)
    part = min(step - warm_up, steps - warm_up) / (steps - warm_up)
    return highest * (1 + math.cos(math.pi * part)) / 2

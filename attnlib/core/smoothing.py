"""Label smoothing: a target that leaves a little probability to the other classes."""

from array_api_compat import device

from attnlib.core.arrays import (
    check_number,
    float_dtype,
    namespace,
    valid_length,
    whole_number,
    working_dtype,
)
from attnlib.core.softmaxes import log_softmax


def smoothed_targets(targets, n_classes, smoothing=0.1, *, pad_id=None, over="all", like=None):
    """The distribution that a model with label smoothing is asked for, one for each target.

    ``over="all"``: the target has ``1 - e + e/V``, every other class ``e/V``. ``over="others"``: the
    target has ``1 - e``, the others share ``e``; padding is none of them and has 0, so each has
    ``e/(V - 2)``, or ``e/(V - 1)`` without a ``pad_id``.

    Parameters
    ----------
    targets : integer array (...)
        Class ids, ``0 .. n_classes - 1`` or ``pad_id``.
    n_classes : int >= 1
        ``V``; with ``over="others"`` one class must be left to share ``e``.
    smoothing : float, 0 <= smoothing <= 1
        ``e``.
    pad_id : int, optional
        Targets that equal it have zeros throughout. It need not be a class.
    over : {"all", "others"}
    like : array, optional
        The result has this array's floating type; the library's default when left out.

    Returns
    -------
    array (..., V)
        Rows sum to 1, or to 0 where the target is padding.

    Raises
    ------
    TypeError, ValueError
        If the targets are no integers or none of the classes, or another argument is out of its range.

    References
    ----------
    Szegedy et al. 2016, arXiv 1512.00567, section 7 (``"all"``, as in
    ``torch.nn.functional.cross_entropy``); Vaswani et al. 2017, arXiv 1706.03762, section 5.4, which
    names ``e = 0.1`` and no formula. ``"others"`` is what the Annotated Transformer has.

    Examples
    --------
    >>> import numpy as np
    >>> smoothed_targets(np.array([2, 0]), 4, 0.2, pad_id=0, over="others")
    array([[0. , 0.1, 0.8, 0.1],
           [0. , 0. , 0. , 0. ]])
    """
    xp = namespace(targets=targets) if like is None else namespace(targets=targets, like=like)
    n_classes = valid_length(n_classes, "n_classes")
    pad_id = _check(xp, targets, n_classes, smoothing, pad_id, over)
    dtype = float_dtype(xp, targets=targets) if like is None else float_dtype(xp, like=like)
    classes = xp.arange(n_classes, device=device(targets))
    is_target = targets[..., None] == classes
    if over == "all":
        share = xp.full_like(classes, smoothing / n_classes, dtype=dtype)
        rows = xp.where(is_target, share + (1 - smoothing), share)
    else:
        left_out = classes == (-1 if pad_id is None else pad_id)
        others = n_classes - 1 - (pad_id is not None and 0 <= pad_id < n_classes)
        if smoothing and others < 1:
            raise ValueError(f"n_classes {n_classes} leaves no other class to share the smoothing")
        share = xp.full_like(classes, smoothing / max(others, 1), dtype=dtype)
        share = xp.where(left_out, xp.zeros_like(share), share)
        rows = xp.where(is_target, xp.full_like(share, 1 - smoothing), share)
    if pad_id is None:
        return rows
    return xp.where((targets == pad_id)[..., None], xp.zeros_like(rows), rows)


def label_smoothing_loss(logits, targets, smoothing=0.1, *, pad_id=None, over="all", minus_entropy=False):
    """How far a model is from the smoothed targets: the mean over all targets that are not padding.

    ``-sum(q * log_softmax(logits))`` with ``q = smoothed_targets(...)``, the cross-entropy. It is never
    zero, for a smoothed target has an entropy of its own; ``minus_entropy`` takes that off and leaves the
    Kullback-Leibler divergence, with the same gradient.

    Parameters
    ----------
    logits : array (..., V)
        Scores before the softmax; log-probabilities do as well.
    targets : integer array (...)
    smoothing, pad_id, over
        As in `smoothed_targets`.
    minus_entropy : bool

    Returns
    -------
    array ()
        0 where every target is padding.

    Raises
    ------
    TypeError, ValueError
        As for `smoothed_targets`, or if the logits' shape is not that of the targets and one axis more.

    References
    ----------
    As for `smoothed_targets`. With ``over="all"`` this is ``cross_entropy`` of PyTorch with
    ``ignore_index=pad_id`` (NaN there where all is padding). The Annotated Transformer's is
    ``over="others", minus_entropy=True``, summed, and divided by the number of targets in its training
    loop.

    Examples
    --------
    >>> import numpy as np
    >>> logits = np.log(np.array([[0.1, 0.8, 0.1]]))
    >>> loss = label_smoothing_loss(logits, np.array([1]), 0.2, over="others", minus_entropy=True)
    >>> abs(float(loss)) < 1e-12
    True
    """
    xp = namespace(logits=logits, targets=targets)
    if logits.ndim < 1 or tuple(logits.shape[:-1]) != tuple(targets.shape):
        raise ValueError(
            f"logits must have the shape of targets, {tuple(targets.shape)}, and one axis more; "
            f"got shape {tuple(logits.shape)}"
        )
    if not isinstance(minus_entropy, bool):
        raise TypeError(f"minus_entropy must be True or False; got {minus_entropy!r}")
    dtype = float_dtype(xp, logits=logits)
    logits = xp.astype(logits, working_dtype(xp, dtype), copy=False)
    q = smoothed_targets(targets, logits.shape[-1], smoothing, pad_id=pad_id, over=over, like=logits)
    surprise = -log_softmax(logits)
    if minus_entropy:
        surprise = surprise + xp.log(xp.where(q > 0, q, xp.ones_like(q)))
    # A class without a share may be impossible; 0 times infinity is no loss.
    total = xp.sum(q * xp.where(q > 0, surprise, xp.zeros_like(surprise)))
    real = xp.ones_like(targets) if pad_id is None else xp.astype(targets != pad_id, targets.dtype)
    count = max(int(xp.sum(real, dtype=xp.int64)), 1)
    return xp.astype(total / count, dtype, copy=False)


def _check(xp, targets, n_classes, smoothing, pad_id, over):
    """``pad_id`` as an int or None; errors that name the argument."""
    if not xp.isdtype(targets.dtype, "integral"):
        raise TypeError(f"targets must hold integer ids; got dtype {targets.dtype}")
    if 0 in targets.shape:
        raise ValueError(f"targets must not be empty; got shape {tuple(targets.shape)}")
    check_number(smoothing, "smoothing")
    if not 0 <= smoothing <= 1:
        raise ValueError(f"smoothing must lie between 0 and 1; got {smoothing!r}")
    if not isinstance(over, str) or over not in ("all", "others"):
        raise ValueError(f"over must be 'all' or 'others'; got {over!r}")
    outside = (targets < 0) | (targets >= n_classes)
    if pad_id is not None:
        pad_id = whole_number(pad_id, f"pad_id must be one integer or None; got {pad_id!r}")
        outside = outside & (targets != pad_id)
    if bool(xp.any(outside)):
        raise ValueError(
            f"targets must lie in 0 .. {n_classes - 1}; got {int(targets[outside][0])}"
            + ("" if pad_id is None else f", which is not pad_id {pad_id} either")
        )
    return pad_id

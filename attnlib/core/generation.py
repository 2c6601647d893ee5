"""Writing on: a model's own tokens become its input, one after the other."""

import numpy as np

from attnlib.core.arrays import kind_of, namespace, valid_length, whole_number
from attnlib.core.sampling import chosen, generator_of, sampling_probabilities


def generate(step, tokens, n_new, *, mask=None, temperature=0.0, top_k=None, top_p=None, stop=(), seed=None):
    """Let a model continue a batch of sequences, token by token.

    Parameters
    ----------
    step : function
        ``step(tokens, mask)`` reads the next tokens, ``(B, T)``, after those of the calls before, and
        gives the scores of what follows, ``(B, V)``. First it gets the prompts and ``mask``, then one
        token for each sequence and None.
    tokens : integer array (B, L)
        The prompts.
    n_new : int >= 1
        The greatest number of tokens to write.
    mask : bool array (B, L), optional
        ``True`` where a token is real, where the prompts are padded; handed to ``step`` as it is.
    temperature, top_k, top_p
        As in `sampling_probabilities`; 0, the default, takes the most probable token each time.
    stop : int or collection of int
        Tokens that end a sequence. It is repeated until the others have ended as well.
    seed : int or sequence of int, optional
        One for each sequence, so that each draws as it does alone; one integer ``s`` stands for
        ``s, s + 1, ...``.

    Returns
    -------
    int64 array (B, n)
        The new tokens; fewer than ``n_new`` where all sequences ended before.

    Raises
    ------
    TypeError, ValueError
        If ``tokens`` hold no integers, ``step`` gives no scores ``(B, V)``, or a setting is out of its
        range.

    References
    ----------
    `sampling_probabilities` has the sources of the settings.

    Examples
    --------
    >>> import numpy as np
    >>> counts = lambda tokens, mask: np.eye(9)[(tokens[:, -1] + 1) % 9]    # after n comes n + 1
    >>> generate(counts, np.array([[2, 3], [6, 7]]), 9, stop=5)[:, :4]
    array([[4, 5, 5, 5],
           [8, 0, 1, 2]])
    """
    xp, n_new, stop = _check(tokens, n_new, mask, stop)
    rngs = _generators(seed, tokens.shape[0])
    ended, made = xp.zeros_like(tokens[:, 0], dtype=xp.bool), []
    while True:
        logits = step(tokens, mask)
        if getattr(logits, "ndim", None) != 2 or logits.shape[0] != tokens.shape[0]:
            raise ValueError(
                f"step must give scores ({tokens.shape[0]}, V), one row for each sequence; "
                f"got {tuple(getattr(logits, 'shape', ())) or type(logits).__name__}"
            )
        if temperature == 0:
            new = xp.argmax(logits, axis=-1)
        else:
            p = sampling_probabilities(logits, temperature=temperature, top_k=top_k, top_p=top_p)
            new = chosen(p, np.array([rng.random() for rng in rngs]))
        if stop and made:
            new = xp.where(ended, made[-1], new)
        made.append(new)
        for token in stop:
            ended = ended | (new == token)
        if len(made) == n_new or stop and bool(xp.all(ended)):
            return xp.stack(made, axis=-1)
        tokens, mask = new[:, None], None


def _generators(seed, batch):
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        seed = range(seed, seed + batch)
    seeds = [None] * batch if seed is None else seed
    if not isinstance(seeds, list | tuple | range) or len(seeds) != batch:
        raise ValueError(f"seed must be one integer, or {batch} of them, one for each sequence; got {seed!r}")
    return [generator_of(each) for each in seeds]


def _check(tokens, n_new, mask, stop):
    xp = namespace(tokens=tokens) if mask is None else namespace(tokens=tokens, mask=mask)
    if kind_of(xp, tokens.dtype) != "integral":
        raise TypeError(f"tokens must hold integer ids; got dtype {tokens.dtype}")
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(f"tokens must have shape (B, L), not empty; got {tuple(tokens.shape)}")
    if mask is not None and (kind_of(xp, mask.dtype) != "bool" or mask.shape != tokens.shape):
        raise ValueError(
            f"mask must be boolean, True for real tokens, with the shape of tokens, {tuple(tokens.shape)}; "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    stop = stop if isinstance(stop, list | tuple | set | frozenset) else (stop,)
    stop = [whole_number(token, f"stop must hold integer ids; got {token!r}") for token in stop]
    return xp, valid_length(n_new, "n_new"), stop

"""The shift that makes one sentence into the input and the targets of a decoder."""

from attnlib.core.arrays import namespace, whole_number


def teacher_forcing(tokens, pad_id=None):
    """What a decoder reads, and what it is to say at each position: the token that comes next.

    The input leaves out the last token, the target the first. The decoder reads the true beginning at
    every position, whatever it would have said itself.

    Parameters
    ----------
    tokens : integer array (B, L)
        Sentences with their marks of beginning and end; at least two tokens.
    pad_id : int, optional
        Padding, left or right. Where the input is padding the target is too: the first token after
        padding on the left is predicted by nobody, as in the sentence alone.

    Returns
    -------
    inputs, targets : integer arrays (B, L - 1)

    Raises
    ------
    TypeError, ValueError
        If ``tokens`` is not an integer array of two axes, or has one token only.

    References
    ----------
    Williams and Zipser 1989, "A learning algorithm for continually running fully recurrent neural
    networks" (the name); Vaswani et al. 2017, arXiv 1706.03762, section 3.1, "shifted right".

    Examples
    --------
    >>> import numpy as np
    >>> inputs, targets = teacher_forcing(np.array([[1, 7, 8, 2], [0, 1, 9, 2]]), pad_id=0)
    >>> inputs.tolist(), targets.tolist()
    ([[1, 7, 8], [0, 1, 9]], [[7, 8, 2], [0, 9, 2]])
    """
    xp = namespace(tokens=tokens)
    if not xp.isdtype(tokens.dtype, "integral"):
        raise TypeError(f"tokens must hold integer ids; got dtype {tokens.dtype}")
    if tokens.ndim != 2 or tokens.shape[0] < 1 or tokens.shape[1] < 2:
        raise ValueError(f"tokens must have shape (B, L) with L at least 2; got {tuple(tokens.shape)}")
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    if pad_id is not None:
        pad_id = whole_number(pad_id, f"pad_id must be one integer or None; got {pad_id!r}")
        targets = xp.where(inputs == pad_id, inputs, targets)
    return inputs, targets

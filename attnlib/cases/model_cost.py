"""What training a model costs with softmax attention, with lightning attention, and with both."""

from attnlib.core.arrays import valid_length


def relative_flops(kind, length, dim=6144, n_heads=64):
    """Operations of training, in multiples of those of the large matrices, ``72 d**2`` for a token and layer.

    Softmax: ``1 + n / (6 d) + 5 / (18 d)``. Lightning: ``1 + 1 / (2 h) + 5 / (18 d)``, whatever the length.
    The hybrid has softmax in one layer of eight, and is the mean of its layers:
    ``1 + n / (48 d) + 7 / (16 h) + 5 / (18 d)``.

    Parameters
    ----------
    kind : {"softmax", "lightning", "hybrid"}
    length : int >= 1
        Tokens of a text, ``n``.
    dim, n_heads : int >= 1
        Features of a token, ``d``, and heads, ``h``; MiniMax-01's when left out.

    Returns
    -------
    float
        Above 1.

    Raises
    ------
    TypeError, ValueError
        If a number is no positive integer, or there is no such kind.

    References
    ----------
    MiniMax 2025, arXiv 2501.08313, table 1: dense layers of ``12 d**2`` weights, as with a feed-forward part
    ``4 d`` wide. Every query is charged for every key, also for those that a causal mask hides.

    Examples
    --------
    >>> [round(relative_flops(kind, 2**20), 2) for kind in ("softmax", "lightning", "hybrid")]
    [29.44, 1.01, 4.56]
    """
    n, d, h = valid_length(length, "length"), valid_length(dim, "dim"), valid_length(n_heads, "n_heads")
    attention = {"softmax": n / (6 * d), "lightning": 1 / (2 * h)}
    attention["hybrid"] = (attention["softmax"] + 7 * attention["lightning"]) / 8
    if not isinstance(kind, str) or kind not in attention:
        raise ValueError(f"kind must be 'softmax', 'lightning' or 'hybrid'; got {kind!r}")
    return 1 + attention[kind] + 5 / (18 * d)

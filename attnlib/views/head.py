"""The head that the views of one sentence share."""

from functools import cache

import numpy as np

from attnlib.datasets import running_example

__all__ = ["queries_and_keys"]

ASKS = {"action": "person", "number": "thing", "pointer": "thing", "quality": "pointer"}
OFFERS = ("thing", "person", "pointer", "degree")


@cache
def queries_and_keys():
    """Queries and keys of the running example, (8, 4) each: a match scores 3, anything else 0.

    A word asks, six times as loud as it offers, for what it depends on.
    """
    _, _, axes, x = running_example()
    w_q = np.array([[6.0 * (ASKS.get(kind) == offer) for offer in OFFERS] for kind in axes])
    w_k = np.array([[1.0 * (kind == offer) for offer in OFFERS] for kind in axes])
    return x @ w_q, x @ w_k

"""The softmax of scores that were made elsewhere: hidden ones have no weight, an empty row is zeros."""

import math

from attnlib.core.arrays import kind_of
from attnlib.core.masks import causal_mask
from attnlib.core.softmaxes import shifted_exp


def masked_softmax(xp, scores, mask=None, causal=False):
    """The softmax of scores ``(..., Lq, Lk)``, with ``mask`` and ``causal`` as in `attention`.

    Rows sum to 1, or to 0 where everything is hidden.
    """
    e, total, _ = shifted_exp(xp, hidden(xp, scores, mask, causal), -1)
    return e / xp.where(total == 0, 1, total)


def hidden(xp, scores, mask=None, causal=False):
    """Scores with minus infinity wherever a query may not look, and a floating mask added."""
    if mask is not None and kind_of(xp, mask.dtype) != "bool":
        scores, mask = scores + xp.astype(mask, scores.dtype, copy=False), None
    if causal:
        visible = causal_mask(*scores.shape[-2:], like=scores)
        mask = visible if mask is None else mask & visible
    return scores if mask is None else xp.where(mask, scores, -math.inf)

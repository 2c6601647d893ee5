"""Which mistakes are tried two at a time, where an exercise knows too many to try all pairs."""

from dataclasses import replace
from inspect import Parameter, signature


def tried_in_pairs(names, mistakes, compute):
    """The same mistakes; only the first of each of these names is still tried together with others.

    All others come to set every choice of ``compute``, so that no second mistake goes with them. A hundred
    mistakes make five thousand pairs, which take a second; two rare ones together are not worth it.
    """
    right = {p.name: p.default for p in signature(compute).parameters.values()
             if p.kind is Parameter.KEYWORD_ONLY and p.default is not Parameter.empty}  # fmt: skip
    waiting, result = set(names), []
    for mistake in mistakes:
        if mistake.name in waiting:
            waiting.remove(mistake.name)
            result.append(mistake)
        else:
            result.append(replace(mistake, choices=right | mistake.choices))
    if waiting:
        raise ValueError(f"no such mistakes: {', '.join(sorted(waiting))}")
    return tuple(result)

"""Choices of mistakes that are not tried in pairs."""

import inspect


def alone(compute, *, free=(), **choices):
    """Choices that name every keyword of ``compute``: no other mistake's keywords lie apart from these.

    A pair of mistakes is tried where their keywords differ. Rare variants have no need of it, and pairs
    of them with everything take longer than a verdict may.

    Parameters
    ----------
    compute : callable
        An exercise's ``compute``; its keyword-only arguments are the choices.
    free : tuple of str
        Keywords that are left to the exercise's styles.
    """
    choosable = (p for p in inspect.signature(compute).parameters.values() if p.kind is p.KEYWORD_ONLY)
    return {p.name: p.default for p in choosable if p.name not in free} | choices

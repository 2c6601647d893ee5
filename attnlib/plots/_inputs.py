"""What every figure does with its arguments: turn them into arrays and words, or say why not."""

import unicodedata

import numpy as np


def to_array(values, name):
    """A float64 NumPy copy of an array, a nested list, or a torch tensor on any device."""
    if hasattr(values, "detach"):              # torch, recognised without importing it
        values = values.detach().cpu().double().numpy()
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(
            f"{name} must be an array of numbers, but is {type(values).__name__}. "
            "Pass a NumPy array, a torch tensor or a list of numbers whose rows are equally long."
        ) from None
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} has {np.count_nonzero(~np.isfinite(array))} entries that are NaN or infinite. "
            "A figure can only show finite numbers."
        )
    return array


def to_dict(entries, name, what):
    """A dict whose labels are text, since a figure writes them; nothing at all becomes an empty one."""
    if entries is not None and not isinstance(entries, dict):
        raise TypeError(f"{name} must be a dict of label to {what}; got {type(entries).__name__}.")
    labelled = {}
    for label, entry in (entries or {}).items():
        if str(label) in labelled:
            raise ValueError(f"{name} has two labels that read {str(label)!r}. Give one another name.")
        labelled[str(label)] = entry
    return labelled


def to_words(words, name):
    """A list of strings, at least one; a string counts as its characters."""
    try:
        words = [str(word) for word in words]
    except TypeError:
        raise TypeError(
            f"{name} must be a list of words, but is {type(words).__name__}."
        ) from None
    if not words:
        raise ValueError(f"{name} is empty; it must hold at least one word.")
    return words


def to_weights(weights, shape, name):
    """Attention weights of exactly this shape, each in 0..1."""
    weights = to_array(weights, name)
    if weights.shape != shape:
        raise ValueError(
            f"{name} has shape {weights.shape}, but the labels call for {shape}: "
            + ("one weight for each query (down) and key (across)." if len(shape) == 2
               else "one weight for each label.")
        )
    low, high = weights.min(), weights.max()
    if low < 0 or high > 1 + 1e-3:             # half precision may round a little above one
        raise ValueError(
            f"{name} runs from {low:.3g} to {high:.3g}, but weights lie between 0 and 1. "
            "Were scores passed that have not been through the softmax?"
        )
    return weights


def weight_text(weight):
    """Two decimals; exactly zero, as behind a mask, is a bare 0.

    Noise is cut off first: 1/8 lies half way between two texts, and a last bit that differs from
    one processor to the next must not decide.
    """
    return "0" if weight == 0 else f"{round(weight, 6):.2f}"


def columns(text):
    """The width of a text in columns of a terminal; a Chinese character takes two."""
    return sum(
        0 if unicodedata.combining(char)
        else 2 if unicodedata.east_asian_width(char) in "WF"
        else 1
        for char in text
    )
